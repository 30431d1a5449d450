//! `cargo xtask bench frames`: raw frames over a veth pair, linerate's modes against trafgen, and
//! UDP by iperf3 and nuttcp beside them.
//!
//! Every round runs every contestant of every size once, in an order that rotates; ratios are taken
//! within a round. The sending end is pinned to one core and the receiving end to the other, one
//! thread each. *Sent* is what the sender says left it; *accounted* what a receiver counted: of
//! linerate its own `frames` workload, which checks every frame's tag and number; for trafgen,
//! which brings no receiver, the fastest one here (`frame_rate receive native spin`: AF_XDP, which
//! only counts). iperf3 and nuttcp send from UDP sockets and are not pinned. CPU is that of both
//! ends. What this does not see: a NIC.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::generators::{Bench, Generator, RunPlace, Running, Work};
use super::options::{RunOptions, keep, parsed, provide};
use super::processor::Usage;
use super::sandbox::{Medium, Sandbox};
use super::scratch::Scratch;
use super::statistics::Median;
use super::table::verdict;
use super::{markdown, own};
use crate::tools;

/// RFC 2544's frame sizes, check sequence included.
const SIZES: [u32; 3] = [64, 512, 1518];
const FCS_BYTES: u32 = 4;
/// Ethernet, IPv4 and UDP headers and check sequence: what a datagram's payload is less than its
/// frame.
const OVERHEAD_BYTES: u32 = 14 + 20 + 8 + FCS_BYTES;
const SENDING_CORE: usize = 0;
const RECEIVING_CORE: usize = 1;
const MEGA: f64 = 1e6;
/// A run takes this long beyond the time asked for at most.
const PATIENCE: Duration = Duration::from_secs(15);
/// No round is begun after this.
const FULL_TIME: Duration = Duration::from_secs(15 * 60);

/// Who sends, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contestant {
    /// With this `mode`.
    Linerate(&'static str),
    Trafgen,
    Iperf3,
    Nuttcp,
}

/// All of them, in the table's order.
const CONTESTANTS: [Contestant; 6] = [
    Contestant::Linerate("packet"),
    Contestant::Linerate("xdp"),
    Contestant::Linerate("live"),
    Contestant::Trafgen,
    Contestant::Iperf3,
    Contestant::Nuttcp,
];

/// Targets as ratios to trafgen: mode, sent, accounted.
const TARGETS: [(&str, f64, f64); 2] = [("xdp", 1.4, 1.3), ("live", 6.0, 5.0)];

/// One run, per second.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    sent: f64,
    accounted: f64,
    /// User and system time of both ends, s.
    cpu: f64,
}

/// The outcomes of one size: per contestant, per round; absent where a run failed.
struct Row {
    size: u32,
    outcomes: Vec<Vec<Option<Outcome>>>,
}

/// Settings of all runs.
struct Frames {
    bench: Bench,
    frame_rate: PathBuf,
    seconds: u32,
}

/// Options of `bench frames`.
#[derive(clap::Parser)]
struct Options {
    #[command(flatten)]
    runs: RunOptions,
}

/// Runs the rounds and prints the table; writes it to a file after each.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let Options { runs: RunOptions { rounds, seconds, out } } = parsed("frames", arguments)?;
    provide(tools::FOR_BENCH)?;
    let end = own::build(root, "linerate-load", &["--example", "end"])?;
    let frame_rate = own::build(root, "linerate-sys", &["--example", "frame_rate"])?;
    let scratch = Scratch::new("frames")?;
    let bench = Bench::new(Sandbox::new()?, end, scratch.path().to_owned());
    let mut frames = Frames { bench, frame_rate, seconds };
    let mut rows = SIZES.map(|size| Row { size, outcomes: vec![Vec::new(); CONTESTANTS.len()] });
    let (began, mut notes) = (Instant::now(), Vec::new());
    for round in 0..rounds {
        if began.elapsed() > FULL_TIME {
            notes.push(format!("stopped before round {}: n is smaller", round + 1));
            break;
        }
        for row in &mut rows {
            // The order rotates, so that no generator always runs on a machine that has just been
            // idle.
            for index in (0..CONTESTANTS.len()).map(|k| (k + round) % CONTESTANTS.len()) {
                let outcome = frames.run(CONTESTANTS[index], row.size);
                if let Err(error) = &outcome {
                    notes.push(format!("{} B, {}: {error:#}", row.size, CONTESTANTS[index].name()));
                }
                row.outcomes[index].push(outcome.ok());
            }
        }
        // Written after each round, so that a run that is cut off keeps what it has.
        eprintln!("round {} of {rounds}, {} s", round + 1, began.elapsed().as_secs());
        let text = document(&super::described(rounds, seconds, began.elapsed()), &rows, &notes);
        keep(out.as_deref(), text)?;
    }
    println!("{}", document(&super::described(rounds, seconds, began.elapsed()), &rows, &notes));
    Ok(true)
}

impl Contestant {
    fn name(self) -> String {
        match self {
            Self::Linerate(mode) => format!("linerate `{mode}`"),
            Self::Trafgen => "trafgen".into(),
            Self::Iperf3 => "iperf3 (UDP)".into(),
            Self::Nuttcp => "nuttcp (UDP)".into(),
        }
    }
}

impl Frames {
    fn run(&mut self, contestant: Contestant, size: u32) -> anyhow::Result<Outcome> {
        let before = Usage::now()?;
        let [sent, accounted] = match contestant {
            Contestant::Linerate(mode) => self.linerate(mode, size)?,
            Contestant::Trafgen => self.trafgen(size)?,
            Contestant::Iperf3 => return self.datagrams(&Generator::Iperf3, size),
            Contestant::Nuttcp => return self.datagrams(&Generator::Nuttcp, size),
        };
        Ok(Outcome { sent, accounted, cpu: Usage::now()?.since(before).children })
    }

    /// Both ends of the `frames` workload.
    fn linerate(&self, mode: &str, size: u32) -> anyhow::Result<[f64; 2]> {
        let offer = self.bench.folder.join("offer");
        // That of the run before.
        // The passive end writes it when it listens; an old one would send the active end too
        // early.
        let _ = std::fs::remove_file(&offer);
        let path = Medium::Veth;
        let both = format!("mode={mode} frame_size={size}B wait=spin seconds={}", self.seconds);
        let offer = offer.display();
        let arguments =
            |address: &str, meet: &str| format!("frames {both} address={address} {meet}={offer}");
        let sandbox = &self.bench.sandbox;
        // The receiver starts first: frames that arrive before it would count as lost.
        let mut passive = sandbox.passive(path, &self.bench.end, Some(RECEIVING_CORE));
        let passive = passive.args(arguments(Sandbox::address(path), "serve").split_whitespace());
        let mut passive = Running::start(passive, "linerate", self.bench.folder.join("passive"))?;
        let mut active = sandbox.active(&self.bench.end, Some(SENDING_CORE));
        let active = active.args(arguments(Sandbox::source(path), "to").split_whitespace());
        let mut active = Running::start(active, "linerate", self.bench.folder.join("active"))?;
        let patience = PATIENCE + Duration::from_secs(self.seconds.into());
        ensure!(active.ended_within(patience)?, "the sender did not end: {}", active.said());
        ensure!(passive.ended_within(patience)?, "the receiver did not end: {}", passive.said());
        let seconds = f64::from(self.seconds);
        let sent = counter(&active, mode, "datagrams_sent_in_all")? / seconds;
        let answer: Value =
            serde_json::from_str(&passive.printed()).with_context(|| passive.said())?;
        let received = answer["datagrams_received"].as_f64().context("no datagrams_received")?;
        Ok([sent, received / seconds])
    }

    /// trafgen for about as long, into a receiver that counts.
    fn trafgen(&self, size: u32) -> anyhow::Result<[f64; 2]> {
        // trafgen hands over frames without the check sequence.
        let bytes = size - FCS_BYTES;
        let configuration = self.bench.folder.join("frame.trafgen");
        std::fs::write(&configuration, frame(bytes))
            .with_context(|| format!("write {}", configuration.display()))?;
        // The receiver stays longer than the sender, because it does not learn of the end.
        let seconds = (self.seconds + 3).to_string();
        let sandbox = &self.bench.sandbox;
        let mut passive = sandbox.passive(Medium::Veth, &self.frame_rate, Some(RECEIVING_CORE));
        let passive = passive.args(["receive", "native", "lr0", &seconds, "spin"]);
        let mut passive = Running::start(passive, "frame_rate", self.bench.folder.join("passive"))?;
        let until = Instant::now() + PATIENCE;
        while !passive.printed().contains("ready") {
            ensure!(Instant::now() < until, "the receiver is not ready: {}", passive.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        let n_frames = (self.seconds * TRAFGEN_RATE).to_string();
        // trafgen ends after a number of frames, not after a time.
        let mut active = sandbox.active(Path::new("trafgen"), Some(SENDING_CORE));
        active
            .args(["--cpus", "1", "--dev", "lr0", "--num", &n_frames, "--conf"])
            .arg(&configuration);
        let mut active = Running::start(&mut active, "trafgen", self.bench.folder.join("active"))?;
        ensure!(active.ended_within(PATIENCE)?, "trafgen did not end: {}", active.said());
        ensure!(passive.ended_within(PATIENCE)?, "the receiver did not end: {}", passive.said());
        let (sent, took) = trafgen_reading(&active.said())?;
        let received = field(&passive.printed(), "received=")?;
        Ok([sent / took, received / took])
    }

    fn datagrams(&mut self, generator: &Generator, size: u32) -> anyhow::Result<Outcome> {
        let place = RunPlace { medium: Medium::Veth, core: None, seconds: self.seconds };
        let outcome =
            self.bench.run(generator, Work::Datagrams { size: size - OVERHEAD_BYTES }, place)?;
        let accounted = outcome.reading.rate;
        // Frames sent are what arrived and what was lost.
        let sent = accounted / (1.0 - outcome.reading.loss.unwrap_or(0.0));
        Ok(Outcome { sent, accounted, cpu: outcome.cpu })
    }
}

/// Returns the counter `name` that linerate printed, which sent in `mode`.
fn counter(end: &Running, mode: &str, name: &str) -> anyhow::Result<f64> {
    let answer: Value = serde_json::from_str(&end.printed()).with_context(|| end.said())?;
    ensure!(
        // `auto` may fall back to another mode, whose figures would stand under the wrong
        // name.
        mode_told(&answer).contains(mode),
        "another mode was obtained: {}",
        mode_told(&answer)
    );
    answer[name].as_f64().with_context(|| format!("no {name} in {answer}"))
}

/// Frames per second requested from trafgen: about its rate here, so that it runs for about the
/// time asked for.
const TRAFGEN_RATE: u32 = 800_000;

fn mode_told(answer: &Value) -> String {
    answer["modes"]["send"]
        .as_str()
        .or(answer["modes"]["receive"].as_str())
        .unwrap_or_default()
        .to_owned()
}

/// The frame `frame_rate` counts, as trafgen writes it: UDP over IPv4 with its mark.
fn frame(bytes: u32) -> String {
    const HEADERS: u32 = 14 + 20 + 8;
    const MARK: u32 = 4;
    format!(
        "{{ 2,0,0,0,0,2, 2,0,0,0,0,1, 8,0, 0x45,0, const16({}), 0,0,0x40,0,64,17,0,0, 10,0,0,1, \
            10,0,0,2, 0,0, 0,9, const16({}), 0,0, 'l','r','f','r', fill(0, {}) }}\n",
        bytes - 14,
        bytes - 34,
        bytes - HEADERS - MARK
    )
}

/// Frames and seconds of what trafgen prints at its end: ` 1 sec, 270227 usec on CPU0 (1000000
/// packets)`.
fn trafgen_reading(said: &str) -> anyhow::Result<(f64, f64)> {
    let line = said
        .lines()
        .find(|line| line.contains("usec on CPU"))
        .with_context(|| format!("trafgen: {said}"))?;
    let numbers: Vec<f64> = line
        .split(|c: char| !c.is_ascii_digit())
        // Every other character separates the numbers.
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().expect("digits"))
        .collect();
    let [seconds, micros, _cpu, frames] = numbers[..] else { bail!("trafgen: `{line}`") };
    Ok((frames, seconds + micros / MEGA))
}

fn field(said: &str, name: &str) -> anyhow::Result<f64> {
    let tail = said.split_once(name).with_context(|| format!("no {name} in `{said}`"))?.1;
    let number = tail.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    number.parse().with_context(|| format!("{name} in `{said}`"))
}

fn document(machine: &str, rows: &[Row], notes: &[String]) -> String {
    const HEADS: [&str; 5] = [
        "frame",
        "generator",
        "sent, M/s, median [interval] (n)",
        "received and accounted, M/s",
        "CPU s, both ends",
    ];
    const RATIO_HEADS: [&str; 5] =
        ["frame, mode", "what", "target", "ratio [interval] (n, coverage)", "verdict"];
    let mut rates = Vec::new();
    let median = |outcomes: &[Option<Outcome>], value: fn(&Outcome) -> f64| {
        Median::of(&outcomes.iter().flatten().map(value).collect::<Vec<_>>())
    };
    for row in rows {
        for (contestant, outcomes) in CONTESTANTS.iter().zip(&row.outcomes) {
            let sent = or_failed(median(outcomes, |outcome| outcome.sent / MEGA));
            let accounted = or_failed(median(outcomes, |outcome| outcome.accounted / MEGA));
            let cpu = median(outcomes, |outcome| outcome.cpu)
                .map_or("-".to_owned(), |cpu| format!("{:.2}", cpu.value));
            let name = contestant.name().to_string();
            rates.push(vec![format!("{} B", row.size), name, sent, accounted, cpu]);
        }
    }
    let mut ratios = Vec::new();
    for row in rows {
        for (mode, sent, accounted) in TARGETS {
            ratios.push(judged(row, mode, "sent", sent, |outcome| outcome.sent));
            let what = "received and accounted";
            ratios.push(judged(row, mode, what, accounted, |outcome| outcome.accounted));
        }
    }
    let mut text = format!(
        "{machine}\n\n## Frames per second, one sending core\n\n{}\n\
         ## Ratios to trafgen, round by round\n\n{}",
        markdown::table(&HEADS, &rates),
        markdown::table(&RATIO_HEADS, &ratios)
    );
    if !notes.is_empty() {
        text.push_str("\n## Runs that failed\n\n");
        notes.iter().for_each(|note| text.push_str(&format!("- {}\n", note.replace('\n', " "))));
    }
    text
}

fn judged(
    row: &Row,
    mode: &'static str,
    what: &str,
    target: f64,
    value: fn(&Outcome) -> f64,
) -> Vec<String> {
    fn index_of(wanted: Contestant) -> usize {
        CONTESTANTS.iter().position(|one| *one == wanted).expect("a contestant")
    }
    let of = |wanted: Contestant| {
        row.outcomes[index_of(wanted)].iter().map(move |outcome| outcome.as_ref().map(value))
    };
    let ours = of(Contestant::Linerate(mode)).zip(of(Contestant::Trafgen));
    // Ratios are taken within a round, so that slow changes of the machine cancel.
    let ratios: Vec<f64> = ours.filter_map(|(ours, theirs)| Some(ours? / theirs?)).collect();
    let (ratio, verdict) = match Median::of(&ratios) {
        Some(m) => (
            format!(
                "{:.2} [{:.2}, {:.2}] ({}, {:.0} %)",
                m.value,
                m.low,
                m.high,
                m.n,
                m.coverage * 100.0
            ),
            verdict(m, target).name(),
        ),
        None => ("no pair of runs".to_owned(), "-"),
    };
    let work = format!("{} B, `{mode}`", row.size);
    vec![work, what.to_owned(), format!("{target} x"), ratio, verdict.to_owned()]
}

/// Prints a median; a contestant without one failed in every round.
fn or_failed(median: Option<Median>) -> String {
    median.map_or("failed".to_owned(), |median| Median::shown(Some(median)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trafgen_and_the_counting_receiver_are_read() {
        let said = "\n     1000000 packets outgoing\n    60000000 bytes outgoing\n           1 \
            sec, 270227 usec on CPU0 (1000000 packets)\n";
        assert_eq!(trafgen_reading(said).expect("as printed"), (1e6, 1.270_227));
        assert!(trafgen_reading("trafgen: no such device\n").is_err());
        assert_eq!(
            field("ready\nplacement=native received=1289216 Statistics {", "received=")
                .expect("there"),
            1_289_216.0
        );
    }

    #[test]
    fn the_frame_is_as_long_as_asked_for() {
        // 42 bytes of headers, 4 of mark.
        assert!(
            frame(60).contains("const16(46)")
                && frame(60).contains("const16(26)")
                && frame(60).contains("fill(0, 14)")
        );
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let outcome = |sent: f64| Some(Outcome { sent, accounted: sent, cpu: 1.0 });
        let mut row = Row { size: 64, outcomes: vec![Vec::new(); CONTESTANTS.len()] };
        row.outcomes[1] = vec![outcome(3.0), outcome(4.0), None, outcome(2.0)];
        row.outcomes[3] = vec![outcome(2.0), outcome(2.0), outcome(9.0), outcome(1.0)];
        let cells = judged(&row, "xdp", "sent", 1.4, |outcome| outcome.sent);
        assert_eq!(cells[3..], ["2.00 [1.50, 2.00] (3, 75 %)", "met"]);
    }
}
