//! `cargo xtask bench`: `compare`, `diagnosis`, `fire-hose`, `frames`, `ledgers`, `path`, `scan`,
//! `search`, `storage`, `transfers` and `truth` (see there), and `peers`, linerate against the
//! generators Debian ships, in one interleaved run.
//!
//! Every round runs every generator of every row once, in an order that rotates; ratios are taken
//! within a round. linerate is driven through its real engine and workloads, by the example `end`
//! of `linerate-load`, one process an end like every peer; what it lacks against `linerate run` is
//! the control channel, the samplers and the ledger. Congestion control is cubic everywhere, by
//! request or by the route's default for tools that cannot ask. Socket buffers are each tool's own
//! (linerate asks for 32 MiB to receive datagrams; peers leave the kernel's default, and lose
//! accordingly). A peer that was never the best of a row is left out of it (`rows.rs`). With
//! `--out` the table is written after every round, so that a run that is cut off keeps what it has.
//!
//! CPU is user and system time of both processes from start to end, set-up included, the same for
//! every tool; see `processor.rs` for soft interrupts. What this does not see: a NIC.

mod compare;
mod diagnosis;
mod fire_hose;
mod frames;
mod generators;
mod ledgers;
pub(crate) mod markdown;
pub(crate) mod options;
mod outputs;
pub(crate) mod own;
mod path;
mod processor;
mod relay;
mod rows;
pub(crate) mod sandbox;
mod scan;
pub(crate) mod scratch;
mod search;
pub(crate) mod statistics;
mod storage;
mod table;
mod transfers;
mod truth;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use crate::tools;
use generators::{Bench, Generator, RunPlace, Work};
use options::count;
use rows::{Row, Scope};
use sandbox::Sandbox;
use scratch::Scratch;
use statistics::Median;
use table::Result;

/// Both ends run on this core when pinned.
const PINNED_CORE: usize = 0;
/// No round is begun after this.
const FULL_TIME: Duration = Duration::from_secs(15 * 60);
const QUICK_TIME: Duration = Duration::from_secs(4 * 60);
/// The share of the reached rate at which loss is judged, and what it should be below.
const HELD_SHARE: f64 = 0.9;
const HELD_LOSS: f64 = 0.001;

/// Options of `bench peers`.
#[derive(Debug, clap::Parser)]
struct Options {
    /// Rounds [default: 6, or 3 with --quick]
    // Six rounds give an interval of 95 % for a median; a quick run only shows that all works.
    #[arg(long, value_parser = count::<usize>, default_value = "6",
        default_value_if("quick", "true", "3"))]
    rounds: usize,
    /// Length of a run, s
    #[arg(long, value_parser = count::<u32>, default_value = "1")]
    seconds: u32,
    /// Few rows, to see that all works
    #[arg(long)]
    quick: bool,
    /// Rows: tcp, udp, rr, own, or a part of a row's name
    #[arg(long)]
    only: Option<String>,
    /// File of the table
    #[arg(long)]
    out: Option<PathBuf>,
    /// Folder with iperf3, netperf and netserver, in place of Debian's iperf3 and no netperf
    #[arg(long)]
    peers: Option<PathBuf>,
}

impl Options {
    fn rows(&self) -> Vec<Row> {
        let has_netperf = self.peers.as_ref().is_some_and(|folder| folder.join("netperf").exists());
        rows::rows(self.scope(), has_netperf)
    }

    fn scope(&self) -> Scope {
        if self.quick { Scope::Quick } else { Scope::Full }
    }
}

/// Benchmark: its name on the command line, and its function, which returns true if its promise
/// held.
pub(crate) struct Benchmark {
    pub(crate) name: &'static str,
    run: fn(root: &Path, arguments: &[String]) -> anyhow::Result<bool>,
}

/// Every benchmark, alphabetically.
pub(crate) static BENCHMARKS: &[Benchmark] = &[
    Benchmark { name: "compare", run: compare::run },
    Benchmark { name: "diagnosis", run: diagnosis::run },
    Benchmark { name: "fire-hose", run: fire_hose::run },
    Benchmark { name: "frames", run: frames::run },
    Benchmark { name: "ledgers", run: ledgers::run },
    Benchmark { name: "path", run: path::run },
    Benchmark { name: "peers", run: run_peers },
    Benchmark { name: "scan", run: scan::run },
    Benchmark { name: "search", run: search::run },
    Benchmark { name: "storage", run: storage::run },
    Benchmark { name: "transfers", run: transfers::run },
    Benchmark { name: "truth", run: truth::run },
];

/// Runs the benchmark named by the first argument.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let names: Vec<&str> = BENCHMARKS.iter().map(|one| one.name).collect();
    let named = arguments.first().and_then(|name| BENCHMARKS.iter().find(|one| one.name == name));
    let Some(benchmark) = named else { bail!("name a benchmark: {}", names.join(", ")) };
    let held = (benchmark.run)(root, &arguments[1..])?;
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_peers(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let options = options(arguments)?;
    options::provide(tools::FOR_BENCH)?;
    let wanted = |family: &str| options.only.as_deref().is_none_or(|only| only == family);
    let named = |row: &Row| options.only.as_deref().is_some_and(|only| row.name().contains(only));
    let rows: Vec<Row> =
        options.rows().into_iter().filter(|row| wanted(row.family) || named(row)).collect();
    // Compiling must not run beside a measurement.
    if wanted("own") {
        own::prepare(root)?;
    }
    let began = Instant::now();
    let (mut results, mut held, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    if !rows.is_empty() {
        let end = own::build(root, "linerate-load", &["--example", "end"])?;
        let scratch = Scratch::new("bench")?;
        let mut bench = Bench::new(Sandbox::new()?, end, scratch.path().to_owned());
        bench.peers.clone_from(&options.peers);
        results = measure(&mut bench, rows, &options, &mut notes)?;
        held = hold(&mut bench, &results, &options, &mut notes);
    }
    // Keep the measurements even if the program's own figures are missing.
    let own = match wanted("own").then(|| own::figures(root, fastest_transaction(&results))) {
        Some(Ok(figures)) => figures,
        Some(Err(error)) => {
            notes.push(format!("no figures of linerate's own: {error:#}"));
            Vec::new()
        }
        None => Vec::new(),
    };
    let text = table::document(&machine(&options, began.elapsed()), &results, &held, &own, &notes);
    println!("{text}");
    options::keep(options.out.as_deref(), &text)?;
    Ok(true)
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let options: Options = options::parsed("peers", arguments)?;
    let rows = options.rows();
    let is_row =
        |only: &str| rows.iter().any(|row| row.family == only || row.name().contains(only));
    let only = options.only.as_deref();
    // Figures of linerate alone are no rows, because they have no peer.
    let is_meant = only.is_none_or(|only| only == "own" || is_row(only));
    ensure!(is_meant, "--only {}: no such rows", only.unwrap_or_default());
    Ok(options)
}

/// All rows, round by round.
fn measure(
    bench: &mut Bench,
    rows: Vec<Row>,
    options: &Options,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<Result>> {
    let began = Instant::now();
    let time = if options.quick { QUICK_TIME } else { FULL_TIME };
    let empty = |row: Row| Result { outcomes: vec![Vec::new(); row.contestants.len()], row };
    let mut results: Vec<Result> = rows.into_iter().map(empty).collect();
    for round in 0..options.rounds {
        for result in &mut results {
            // Checked before each row: a row takes long, and what is finished is worth keeping.
            if began.elapsed() > time {
                notes.push(format!(
                    "stopped in round {} after {} s: n is smaller from here",
                    round + 1,
                    time.as_secs()
                ));
                return Ok(results);
            }
            eprintln!("round {} of {}: {}", round + 1, options.rounds, result.row.name());
            let core = result.row.pinned.then_some(PINNED_CORE);
            let place = RunPlace { medium: result.row.medium, core, seconds: options.seconds };
            let n = result.row.contestants.len();
            // Another generator comes first in each round, so that warm caches favour none.
            for index in (0..n).map(|k| (k + round) % n) {
                let contestant = &result.row.contestants[index];
                let outcome = bench.run(&contestant.generator, result.row.work, place);
                if let Err(error) = &outcome {
                    notes.push(format!(
                        "{}, {}: {error:#}",
                        result.row.name(),
                        contestant.generator.name()
                    ));
                }
                // A failed run keeps its place: ratios pair the runs of one round.
                result.outcomes[index].push(outcome.ok());
            }
        }
        options::keep(
            options.out.as_deref(),
            table::document(&machine(options, began.elapsed()), &results, &[], &[], notes),
        )?;
    }
    Ok(results)
}

/// Loss of datagrams at nine tenths of the rate reached with segmentation: one line of the table of
/// targets each.
fn hold(
    bench: &mut Bench,
    results: &[Result],
    options: &Options,
    notes: &mut Vec<String>,
) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for result in results {
        let Work::Datagrams { .. } = result.row.work else { continue };
        let reached = result.row.contestants.iter().zip(&result.outcomes).find_map(
            |(contestant, outcomes)| {
                let rates: Vec<f64> =
                    outcomes.iter().flatten().map(|outcome| outcome.reading.rate).collect();
                (contestant.generator == Generator::Linerate(String::new()))
                    .then(|| Median::of(&rates))?
            },
        );
        let Some(reached) = reached else { continue };
        // A rate just below what was reached: loss there is the generator's, not overload.
        let rate = (reached.value * HELD_SHARE) as u64;
        let generator = Generator::Linerate(format!("rate={rate}pps gso=most"));
        let place = RunPlace { medium: result.row.medium, core: None, seconds: options.seconds };
        let mut losses = Vec::new();
        for _ in 0..options.rounds {
            match bench.run(&generator, result.row.work, place) {
                Ok(outcome) => losses.extend(outcome.reading.loss),
                Err(error) => notes.push(format!("{} at a rate: {error:#}", result.row.name())),
            }
        }
        if let Some(loss) = Median::of(&losses) {
            // Only an interval that is clear of the limit gives a verdict.
            let verdict = if loss.high < HELD_LOSS {
                "met"
            } else if loss.low >= HELD_LOSS {
                "missed"
            } else {
                "noise: the target lies in the interval"
            };
            let [value, low, high] = [loss.value, loss.low, loss.high].map(|loss| loss * 100.0);
            let (row, millions) = (result.row.name(), rate as f64 / 1e6);
            lines.push(vec![
                format!("{row}: lost at {millions:.2} M/s, 90 % of the rate reached"),
                "-".to_owned(),
                format!("< {} %", HELD_LOSS * 100.0),
                format!("{value:.4} % [{low:.4}, {high:.4}] ({})", loss.n),
                verdict.to_owned(),
            ]);
        }
    }
    lines
}

/// The shortest median transaction of linerate, us.
fn fastest_transaction(results: &[Result]) -> Option<f64> {
    let ours = results.iter().flat_map(|result| result.outcomes[0].iter().flatten());
    ours.filter_map(|outcome| outcome.reading.p50_us).min_by(f64::total_cmp)
}

/// Describes the machine and the runs.
fn machine(options: &Options, took: Duration) -> String {
    format!(
        "{} Socket buffers are each tool's own: peers use the kernel's defaults, linerate asks for \
            32 MiB to receive datagrams.",
        described(options.rounds, options.seconds, took)
    )
}

/// The machine, and how long was measured.
fn described(rounds: usize, seconds: u32, took: Duration) -> String {
    // A machine that was busy explains strange figures.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{}, load average at the end {}; {rounds} rounds of {seconds} s, {} s in all. \
         Intervals are order statistics of at least 95 % coverage where n allows (n >= 6).",
        processor_and_kernel(),
        load.split(' ').next().unwrap_or_default(),
        took.as_secs(),
    )
}

/// The machine: `AMD EPYC (2 cores), Linux 6.18.44`.
fn processor_and_kernel() -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|pair| pair.1);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{} ({cores} cores), Linux {}",
        model.unwrap_or("unknown processor"),
        read("/proc/sys/kernel/osrelease").trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> anyhow::Result<Options> {
        options(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_and_mistakes_refused() {
        let quick = parsed(&["--quick", "--only", "udp"]).expect("legal");
        assert_eq!((quick.rounds, quick.seconds, quick.scope()), (3, 1, Scope::Quick));
        assert_eq!(parsed(&[]).expect("legal").rounds, 6);
        assert_eq!(parsed(&["--rounds", "9", "--seconds", "2"]).expect("legal").rounds, 9);
        for wrong in
            [&["peers"][..], &["--rounds"], &["--rounds", "0"], &["--only", "SCTP"], &["-x"]]
        {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
