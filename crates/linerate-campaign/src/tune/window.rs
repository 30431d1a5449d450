//! The receive window that a shallow buffer survives; found, applied, proven, and put back.
//!
//! Order: look at the path, find the buffer by trains, sweep the window per socket, choose; then,
//! unless it is a dry run, find the narrowest setting that gives the window, and compare it with
//! nothing and with a placebo, run by run. Every stage is a campaign in a ledger of its own. What
//! it does not see: other traffic on the path while it measures.

use linerate_analysis::fire_hose::{
    BufferSearch, Drops, Hose, Inferred, WindowPoint, attribute, onset,
};
use linerate_analysis::tune::{
    Better, Change, Choice, Effect, Proof, change_of, choose, effect, prove, rates, reading_of,
    report, retransmitted, trains, window_seen,
};
use linerate_analysis::{PointStudy, Study, study};
use linerate_control::{ControlError, Setting};
use linerate_model::series::tcp_extension as tcp;
use linerate_model::{
    BitRate, Bytes, Campaign, Capacity, Direction, Endpoint, Nanos, Series, TrialRecord, Verdict,
    metric, series,
};

use super::plans::{Path, Stint};
use super::settings::{Present, WindowScope, questions};
use super::told::{Told, Tried, WORTH, WindowRow};
use super::{Sessions, Settings};
use crate::stages::Bench;
use crate::{Ended, Exit, Failure};

/// What is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowTuning {
    /// The interface that may be touched; the one its route back leads out of, if it is not said.
    pub interface: Option<String>,
    /// Congestion control of the streams.
    pub congestion: String,
    /// Measure, and change nothing.
    pub dry_run: bool,
    /// Keep the setting if it is proven to help.
    pub keep: bool,
    /// Fewer windows.
    pub quick: bool,
    /// Pairs of the proof.
    pub pairs: u32,
    /// Length of each run of a stream, s.
    pub seconds: Option<f64>,
    /// What does not count before each run, s.
    pub omit: f64,
}

/// Trains whose lengths the search asks for while it doubles: they are sent in one campaign.
const DOUBLINGS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Time between trains, ms: a sideband of 100 Mbit/s drains 125 KB in it.
const TRAIN_GAP_MS: u32 = 10;
/// Lengths between two that the search would halve its way through, sent in one campaign if they
/// are no more.
const FEW_LENGTHS: u32 = 8;
/// A window that the sender sees within this share of the one wanted holds.
const HOLDS: f64 = 0.2;
/// Receive buffers tried until one gives the window.
const ROUNDS: usize = 4;
/// An Ethernet header: what a frame holds beyond its packet in a buffer (IEEE 802.3 clause 3.2).
const ETHERNET_HEADER: u64 = 14;

/// Who sends to whom, the session that changes settings, and what they are now.
pub struct Asked {
    ends: Ends,
    tuner: Box<dyn Settings>,
    /// The settings as they are.
    pub present: Present,
}

/// Opens the session that changes settings of the host of `to`, and learns what they are.
///
/// # Errors
/// If it cannot be reached, does not tell, or its route leads out of another interface than the one
/// that may be touched.
pub fn ask(
    sessions: &(impl Sessions + ?Sized),
    endpoints: &[Endpoint],
    (from, to): (&Endpoint, &Endpoint),
    tuning: &WindowTuning,
) -> Result<Asked, Failure> {
    let ends = Ends::of(endpoints, (from, to), tuning);
    let host = &to.host;
    let console = from
        .address
        .ok_or_else(|| Failure::wrong(format!("tune: endpoint {} has no address", from.name)))?;
    let mut tuner = sessions.open(host)?;
    let present = Present::of(tuner.read(questions(console))?)
        .ok_or_else(|| Failure::missing(format!("settings of {host}: it told not all of them")))?;
    match &tuning.interface {
        Some(wanted) if wanted != present.device() => Err(Failure::wrong(format!(
            "tune {wanted} of {host}: its route to {console} leads out of {}, which it was not \
                told to touch (say \
             --interface {})",
            present.device(),
            present.device()
        ))),
        _ => Ok(Asked { ends, tuner, present }),
    }
}

/// Finds the window, applies what gives it, proves it, and puts it back: what came of it, and how
/// that ends. `capacities` are those known of the path.
///
/// # Errors
/// If a stage could not be run to its end, the path not be measured, or a setting not be put back.
pub fn tune(
    bench: &dyn Bench,
    asked: Asked,
    capacities: &[Capacity],
    emulated: bool,
    tuning: &WindowTuning,
) -> Result<(Told, Exit), Ended> {
    let Asked { ends, mut tuner, present } = asked;
    let tuner = tuner.as_mut();
    let mut told = Told::new(&ends.path, present.device(), emulated);
    let found = find(bench, &ends, capacities, tuning.quick, &mut told)?;
    let Some(choice) = found.choice else {
        return Ok((told, Exit::Done));
    };
    let window = choice.point.window.0;
    told.choose(&choice, found.hose.goodput(choice.point.window));
    if tuning.dry_run {
        // Until the kernel has learned better, half of a receive buffer is window
        // (tcp_adv_win_scale 1).
        for way in [WindowScope::Route, WindowScope::Host] {
            let setting = present.setting(way, window, found.hose.mss.0, 2 * window);
            told.commands.push(present.command(&setting));
        }
        told.dry_run = true;
        return Ok((told, Exit::Done));
    }
    let Some((way, setting)) = settle(bench, &ends, tuner, &present, &found, window, &mut told)?
    else {
        told.verdict = Some(Verdict::Inconclusive);
        let exit = if told.refused { Exit::Missing } else { Exit::Missed };
        return Ok((told, exit));
    };
    told.commands.push(present.command(&setting));
    told.before = present.before(way);
    let proof = compare(bench, &ends, tuning.pairs, tuner, &present, way, &setting, &mut told)?;
    let helped = proof.verdict == Verdict::Proven && proof.effect.change == Change::Better;
    told.verdict = Some(proof.verdict);
    told.proof = Some(proof);
    if tuning.keep && helped {
        tuner.revert()?;
        tuner.apply(vec![setting])?;
        tuner.keep()?;
        told.kept = true;
    } else {
        tuner.revert()?;
    }
    let exit = if helped { Exit::Done } else { Exit::Missed };
    Ok((told, exit))
}

/// Who sends to whom.
struct Ends {
    from: Endpoint,
    to: Endpoint,
    path: Path,
}

impl Ends {
    fn of(
        endpoints: &[Endpoint],
        (from, to): (&Endpoint, &Endpoint),
        tuning: &WindowTuning,
    ) -> Self {
        let other = endpoints
            .iter()
            .find(|endpoint| endpoint.host != to.host && endpoint.host != from.host);
        let path = Path {
            from: from.name.clone(),
            to: to.name.clone(),
            other: other.map(|endpoint| endpoint.name.clone()),
            congestion: Some(tuning.congestion.clone()),
            milliseconds: tuning.seconds.map(|seconds| (seconds * 1e3).ceil() as u32),
            omit_ms: (tuning.omit * 1e3).round() as u32,
        };
        Self { from: from.clone(), to: to.clone(), path }
    }
}

/// What is known of the path before anything is changed.
struct Found {
    hose: Hose,
    choice: Option<Choice>,
}

fn trial<'a>(campaign: &'a Campaign, sweep: &str) -> Option<&'a TrialRecord> {
    campaign.trials.iter().find(|trial| trial.spec.sweep == sweep)
}

fn point<'a>(study: &'a Study, sweep: &str) -> Option<&'a PointStudy> {
    study.points.iter().find(|point| point.sweep == sweep)
}

/// A metric of the first job of a sweep, run by run.
fn values(
    study: &Study,
    sweep: &str,
    metric: &str,
    direction: Option<Direction>,
) -> Vec<Option<f64>> {
    let job = point(study, sweep).and_then(|point| point.jobs.first());
    let metrics = job.into_iter().flat_map(|job| &job.metrics);
    let mut found = metrics
        .filter(|found| found.name == metric && direction.is_none_or(|d| d == found.direction));
    found.next().map(|found| found.values.clone()).unwrap_or_default()
}

fn typical(study: &Study, sweep: &str, metric: &str) -> Option<f64> {
    let known: Vec<f64> = values(study, sweep, metric, None).into_iter().flatten().collect();
    linerate_analysis::statistics::median(&known)
}

/// Looks at the path, finds its buffer and sweeps the window.
fn find(
    bench: &dyn Bench,
    ends: &Ends,
    capacities: &[Capacity],
    quick: bool,
    told: &mut Told,
) -> Result<Found, Ended> {
    let (campaign, study) =
        bench.observe("look", &ends.path.draft("tune-look", 1, &ends.path.look()))?;
    let missing = |what: &str| {
        let why = campaign
            .trials
            .iter()
            .flat_map(|trial| &trial.incidents)
            .map(|incident| incident.message.as_str())
            .next();
        Failure::new(
            Exit::Invalid,
            format!(
                "tune: {what} could not be measured: {}",
                why.unwrap_or("no figure came of it")
            ),
        )
    };
    let rtt = typical(&study, "round trip", metric::RESPONSE_TIME_P50)
        .ok_or_else(|| missing("the round trip"))?;
    let flood = trial(&campaign, "flood")
        .and_then(rates)
        .ok_or_else(|| missing("what the path carries"))?;
    let stream = trial(&campaign, "as it is").ok_or_else(|| missing("a stream as it is"))?;
    let flows = stream.jobs.first().map(|(active, _)| &active.flows[..]).unwrap_or_default();
    let mss = flows
        .iter()
        .filter_map(|flow| flow.tcp)
        .map(|tcp| tcp.send_mss)
        .max()
        .filter(|mss| *mss > 0);
    let mss = mss.ok_or_else(|| missing("a stream as it is"))?;
    // A flood is counted where it is sent, and what the sender's own queue drops of it never sees
    // the link: what is known of the link beforehand is worth more.
    let leaves = |pairs: &[(String, String)]| pairs.iter().any(|(from, _)| *from == ends.path.from);
    let fastest = capacities
        .iter()
        .filter(|capacity| leaves(&capacity.pairs))
        .map(|capacity| capacity.rate.0)
        .reduce(f64::max);
    let fastest = fastest.filter(|rate| *rate > flood.drain.0 * WORTH).unwrap_or(flood.feed.0);
    let mut hose = Hose {
        buffer: Bytes(0),
        burst: Bytes(0),
        feed: BitRate(fastest.max(flood.drain.0)),
        drain: flood.drain,
        frame: flood.packet + Bytes(ETHERNET_HEADER),
        mss: Bytes(mss.into()),
        rtt: Nanos::from_secs_f64(rtt),
        flows: 1,
    };
    told.path(&hose);
    let buffer = search(bench, ends, &hose)?;
    told.buffer(buffer.as_ref());
    if let Some(reported) = reading_of(stream, &ends.to.host, series::ncsi::RECEIVE_BUFFER) {
        told.reported(reported as u64, buffer.as_ref().map(|found| report(reported as u64, found)));
    }
    let Some(buffer) = buffer else {
        return Ok(Found { hose, choice: None });
    };
    hose.buffer = Bytes(buffer.buffer.start.0.midpoint(buffer.buffer.end.0));
    sweep(bench, ends, quick, hose, u64::from(buffer.longest_train), told)
}

/// Sends trains until it is known how many frames come through whole.
fn search(bench: &dyn Bench, ends: &Ends, hose: &Hose) -> Result<Option<Inferred>, Ended> {
    let mut search = BufferSearch::new();
    let mut lengths = DOUBLINGS.to_vec();
    while let Some(wanted) = search.next() {
        if !lengths.contains(&wanted) {
            lengths = vec![wanted];
        }
        let drained_ms = f64::from(wanted) * 2.0 * hose.frame.bits() / hose.drain.0 * 1e3;
        let gap_ms = TRAIN_GAP_MS.max(drained_ms.ceil() as u32);
        let name = format!("trains-{}", lengths.iter().max().unwrap_or(&wanted));
        let draft = ends.path.draft("tune-trains", 1, &ends.path.trains(&lengths, gap_ms));
        let (campaign, _) = bench.observe(&name, &draft)?;
        let seen: Vec<_> = lengths
            .iter()
            .filter_map(|&length| trains(trial(&campaign, &format!("train {length}"))?, length))
            .collect();
        let before = search.next();
        while let Some(next) = search.next() {
            let Some(sent) = seen.iter().find(|sent| sent.length == next) else { break };
            search.observe(sent.length, sent.sent, sent.lost);
        }
        if search.next() == before {
            let message = format!("tune: trains of {wanted} datagrams could not be sent");
            return Err(Failure::new(Exit::Invalid, message).into());
        }
        lengths = between(
            &seen.iter().map(|sent| (sent.length, sent.lost == 0)).collect::<Vec<_>>(),
            search.next(),
        );
    }
    Ok(search.inferred(hose))
}

/// What to send in one campaign: everything between the longest train that passed and the shortest
/// that did not, if it is little.
fn between(seen: &[(u32, bool)], next: Option<u32>) -> Vec<u32> {
    let Some(next) = next else { return Vec::new() };
    let passed = seen
        .iter()
        .filter(|(length, whole)| *whole && *length < next)
        .map(|(length, _)| *length)
        .max();
    let failed = seen
        .iter()
        .filter(|(length, whole)| !*whole && *length > next)
        .map(|(length, _)| *length)
        .min();
    match (passed, failed) {
        (Some(passed), Some(failed)) if failed - passed <= FEW_LENGTHS => {
            (passed + 1..failed).collect()
        }
        _ => vec![next],
    }
}

/// A stream with one window.
fn row(campaign: &Campaign, study: &Study, name: &str, window: Option<u64>) -> Option<WindowRow> {
    let goodput = typical(study, name, metric::GOODPUT)?;
    let seen = campaign
        .trials
        .iter()
        .filter(|trial| trial.spec.sweep == name)
        .filter_map(window_seen)
        .max();
    let loss = typical(study, name, metric::RETRANSMIT_RATIO).unwrap_or(0.0);
    Some(WindowRow { window, goodput, loss, seen })
}

fn sweep(
    bench: &dyn Bench,
    ends: &Ends,
    quick: bool,
    hose: Hose,
    frames: u64,
    told: &mut Told,
) -> Result<Found, Ended> {
    let few = [2, frames, 2 * frames, 4 * frames, 16 * frames];
    let more = [
        2,
        3,
        frames.saturating_sub(1),
        frames,
        frames + 1,
        frames * 3 / 2,
        2 * frames,
        3 * frames,
        4 * frames,
    ];
    let more = more.into_iter().chain([8 * frames, 16 * frames]);
    let mut segments: Vec<u64> = if quick { few.to_vec() } else { more.collect() };
    segments.retain(|segments| *segments >= 2);
    segments.sort_unstable();
    segments.dedup();
    let windows: Vec<u64> = segments.iter().map(|segments| segments * hose.mss.0).collect();
    let repeats = if quick { 1 } else { 2 };
    let (campaign, study) = bench.observe(
        "windows",
        &ends.path.draft("tune-windows", repeats, &ends.path.windows(&windows)),
    )?;
    let invalid = || Failure::new(Exit::Invalid, "tune: the window sweep gave no figures");
    let own = row(&campaign, &study, "own window", None).ok_or_else(invalid)?;
    let rows: Vec<WindowRow> = windows
        .iter()
        .filter_map(|&bytes| row(&campaign, &study, &format!("window {bytes}"), Some(bytes)))
        .collect();
    let points = rows.iter().filter_map(|row| {
        Some(WindowPoint {
            window: Bytes(row.window?),
            loss: row.loss,
            goodput: BitRate(row.goodput),
        })
    });
    let found = onset(&points.collect::<Vec<_>>()).ok_or_else(invalid)?;
    let attribution = trial(&campaign, "own window")
        .map(|trial| attribute(&drops(trial, ends, &hose, &own), &hose.bracket()));
    told.sweep(&hose, &own, rows, &found, attribution);
    let mut choice = choose(&found, BitRate(own.goodput));
    if choice.gain < WORTH {
        // No window helps. What the law's would cost is still worth knowing.
        let safe = hose.bracket().safe.max(hose.bracket().least).0;
        let nearest = told.windows.iter().min_by_key(|row| row.window.unwrap_or(0).abs_diff(safe));
        if let Some(row) = nearest.cloned() {
            let point = WindowPoint {
                window: Bytes(row.window.unwrap_or(safe)),
                loss: row.loss,
                goodput: BitRate(row.goodput),
            };
            choice = Choice { point, gain: row.goodput / own.goodput, clean: row.loss < 1e-3 };
        }
    }
    Ok(Found { hose, choice: Some(choice) })
}

/// The counters of one stream with the host's own window.
fn drops(trial: &TrialRecord, ends: &Ends, hose: &Hose, own: &WindowRow) -> Drops {
    let there =
        |columns: &[Series]| change_of(trial, &ends.to.host, |read| series::any(columns, read));
    let pauses = |host: &str| {
        change_of(trial, host, |read| {
            read.sampler == series::ETHTOOL && read.name.contains("pause")
        })
    };
    Drops {
        controller_received: there(&[series::ncsi::PASS_THROUGH_RECEIVED]),
        controller_dropped: there(&[series::ncsi::PASS_THROUGH_DROPPED]),
        ring_missed: there(&[series::interface::RX_MISSED, series::interface::RX_FIFO]),
        socket_dropped: there(&[tcp::BACKLOG_DROP, tcp::RCV_PRUNED, tcp::RCV_QUEUE_DROP]),
        retransmitted: retransmitted(trial),
        pauses: [&ends.from.host, &ends.to.host]
            .into_iter()
            .filter_map(|host| pauses(host))
            .reduce(|a, b| a + b),
        utilisation: own.goodput / hose.full_rate().0,
        window: own.seen.unwrap_or(0),
    }
}

/// Finds the narrowest setting that gives the window; `None` if none does, or none may be changed.
fn settle(
    bench: &dyn Bench,
    ends: &Ends,
    tuner: &mut dyn Settings,
    present: &Present,
    found: &Found,
    window: u64,
    told: &mut Told,
) -> Result<Option<(WindowScope, Setting)>, Ended> {
    for way in [WindowScope::Route, WindowScope::Host] {
        let mut buffer = 2 * window;
        let rounds = if way == WindowScope::Route { 1 } else { ROUNDS };
        for round in 0..rounds {
            let setting = present.setting(way, window, found.hose.mss.0, buffer);
            let command = present.command(&setting);
            if let Err(error) = tuner.apply(vec![setting.clone()]) {
                told.refused |= matches!(error, ControlError::Setting { .. });
                told.tried.push(Tried {
                    command,
                    seen: None,
                    holds: false,
                    why: error.to_string(),
                });
                break;
            }
            let name = format!(
                "hold-{}",
                if way == WindowScope::Route {
                    "route".to_owned()
                } else {
                    format!("host-{}", round + 1)
                }
            );
            let stint = Stint::one("hold", ends.path.length(1_500), ends.path.stream(None));
            let held = bench.observe(&name, &ends.path.draft("tune-hold", 1, &[stint]));
            tuner.revert()?;
            let (campaign, _) = held?;
            let seen = trial(&campaign, "hold").and_then(window_seen);
            let ratio = seen.map(|seen| seen as f64 / window as f64);
            let holds = ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= HOLDS);
            told.tried.push(Tried { command, seen, holds, why: String::new() });
            if holds {
                told.refused = false;
                return Ok(Some((way, setting)));
            }
            let Some(ratio) = ratio.filter(|ratio| *ratio > 0.0) else { break };
            buffer = (buffer as f64 / ratio).round() as u64;
        }
    }
    Ok(None)
}

/// A setting's name in the sweeps of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    Before,
    Tuned,
    Placebo,
}

impl Arm {
    const ALL: [Self; 3] = [Self::Before, Self::Tuned, Self::Placebo];

    fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Tuned => "tuned",
            Self::Placebo => "placebo",
        }
    }

    fn sweep(self, figure: &str) -> String {
        format!("{}: {figure}", self.name())
    }
}

/// Runs pairs with and without the setting, the placebo beside them, and what else may have
/// changed.
#[allow(
    clippy::too_many_arguments,
    reason = "one call, whose arguments are the whole of what is known"
)]
fn compare(
    bench: &dyn Bench,
    ends: &Ends,
    pairs: u32,
    tuner: &mut dyn Settings,
    present: &Present,
    way: WindowScope,
    setting: &Setting,
    told: &mut Told,
) -> Result<Proof, Ended> {
    let figures = ends.path.figures();
    let mut stints = Vec::new();
    for (index, (name, jobs)) in figures.iter().enumerate() {
        for arm in Arm::ALL.into_iter().filter(|arm| index == 0 || *arm != Arm::Placebo) {
            stints.push(Stint {
                name: arm.sweep(name),
                milliseconds: ends.path.length(1_000),
                jobs: jobs.clone(),
            });
        }
    }
    let placebo = present.placebo(way);
    told.placebo = present.command(&placebo);
    let mut now = Arm::Before;
    let draft = ends.path.draft("tune-proof", pairs, &stints);
    let campaign = bench.run("proof", &draft, &mut |trial| {
        let wanted = Arm::ALL
            .into_iter()
            .find(|arm| trial.sweep.starts_with(arm.name()))
            .unwrap_or(Arm::Before);
        if wanted != std::mem::replace(&mut now, wanted) {
            tuner.revert()?;
            match wanted {
                Arm::Before => {}
                Arm::Tuned => drop(tuner.apply(vec![setting.clone()])?),
                Arm::Placebo => drop(tuner.apply(vec![placebo.clone()])?),
            }
        }
        Ok(())
    })?;
    let study = study(&campaign);
    let of = |arm: Arm, figure: &str, metric: &str, direction| {
        values(&study, &arm.sweep(figure), metric, direction)
    };
    let pair = |figure: &str,
                arm: Arm,
                metric: &str,
                direction: Option<Direction>,
                better|
     -> Option<Effect> {
        let way = direction.map_or(String::new(), |direction| format!(" {direction}"));
        let before = of(Arm::Before, figure, metric, direction);
        effect(
            &format!("{metric} {figure}{way}"),
            &before,
            &of(arm, figure, metric, direction),
            better,
        )
    };
    let (main, _) = &figures[0];
    let made = pair(main, Arm::Tuned, metric::GOODPUT, None, Better::More);
    let made = made.ok_or_else(|| {
        Failure::new(Exit::Invalid, "tune: no pair of the proof gave two figures")
    })?;
    let proof = prove(made, pair(main, Arm::Placebo, metric::GOODPUT, None, Better::More));
    told.side_effects = figures[1..]
        .iter()
        .flat_map(|(name, jobs)| {
            if jobs[0].workload == "tcp_rr" {
                return vec![pair(name, Arm::Tuned, metric::RESPONSE_TIME_P50, None, Better::Less)];
            }
            let both = *name == "both ways";
            let directions =
                if both { vec![Some(Direction::Tx), Some(Direction::Rx)] } else { vec![None] };
            directions
                .into_iter()
                .map(|d| pair(name, Arm::Tuned, metric::GOODPUT, d, Better::More))
                .collect()
        })
        .flatten()
        .collect();
    let loss = |arm: Arm| {
        let known: Vec<f64> =
            of(arm, main, metric::RETRANSMIT_RATIO, None).into_iter().flatten().collect();
        linerate_analysis::statistics::median(&known)
    };
    told.loss = loss(Arm::Before).zip(loss(Arm::Tuned));
    Ok(proof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lengths_are_sent_together_and_many_one_by_one() {
        let seen = [(1, true), (2, true), (4, true), (8, false), (16, false)];
        assert_eq!(between(&seen, Some(6)), [5, 6, 7]);
        let wide = [(16, true), (32, false)];
        assert_eq!(between(&wide, Some(24)), [24]);
        assert_eq!(between(&[(64, true)], Some(128)), [128]);
        assert_eq!(between(&seen, None), [0_u32; 0]);
    }
}
