//! The receiving application reads slowly (docs/methodology/diagnosis.md#rules, D6). TCP only.
//!
//! Evidence: the sender waits for the window, much of the receive buffer is unread, and the
//! receiver has CPU time left. It waits for something else, such as a disk; storage stalls of its
//! host show that. Buffer and CPU of a foreign receiver are not known. The evidence is then that
//! the sender waited for a window although less of the largest advertised window was in flight
//! than a window of that size explains: it was open before and closed. A window that opens and
//! closes delays acknowledgements, so where it moved by half or more, the data in flight is
//! computed with the minimum round-trip time. Not observed: the thing that the application waits
//! for.

use linerate_model::{Command, Direction, metric};

use super::{
    FlowEnd, HELD_BACK, LEAST_EFFECT, Rule, TCP_STREAM, flows, may_be_judged, out_of_cpu, param,
    score, seen, suspected, value, waits_for_cpu,
};
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Evidence, Finding, SlowReader, Step};
use crate::{JobStudy, PointStudy};

/// Unread share of the receive buffer from which its reader is slow
/// (docs/methodology/diagnosis.md#rules).
pub(super) const UNREAD: f64 = 0.5;
/// Share of time stalled for storage that is worth reporting.
const STALLED: f64 = 0.1;
/// Read rate that limits nothing, in a plan's notation.
const UNBOUNDED: &str = "1 Tbit/s";
const MOST_GAINED: f64 = 1000.0;
const BITS_PER_BYTE: f64 = 8.0;

/// Share of the largest window in flight below which the window must have been closed.
const USED: f64 = 0.5;
/// The same, over the share of the time in which the sender waited for the window: while it waits,
/// all of a window that stays open is in flight. The rest is scatter of readings.
const USED_WHILE_WAITING: f64 = 0.8;

/// Relative change of a window that shows that it was closed.
const SHUT: f64 = 0.5;

/// Evidence of unread data: the fill level of the receive buffer, or for a foreign receiver the
/// used share of its largest window.
pub(super) enum Unread {
    Held(f64),
    /// The used share, and the least share of a window that stays open.
    WindowUsed {
        used: f64,
        least: f64,
    },
}

impl Unread {
    pub(super) fn of(job: &JobStudy, direction: Direction) -> Option<Self> {
        // The buffer of the receiver is direct evidence; the window is used only where it is not
        // known.
        value(job, metric::RECEIVE_QUEUE, direction)
            .map(Self::Held)
            .or_else(|| window_used(job, direction))
    }

    pub(super) fn speaks(&self) -> bool {
        match self {
            Self::Held(held) => *held >= UNREAD,
            Self::WindowUsed { used, least } => used < least,
        }
    }

    fn score(&self) -> f64 {
        match self {
            Self::Held(held) => score::reached(*held, UNREAD, 1.0),
            Self::WindowUsed { used, least } => score::below(*used, *least),
        }
    }

    fn evidence(&self) -> Evidence {
        match self {
            Self::Held(held) => Evidence::figure(metric::RECEIVE_QUEUE, *held),
            Self::WindowUsed { used, .. } => Evidence::WindowUsed { share: *used },
        }
    }
}

/// Returns the share of the receiver's window that the data in flight fill.
fn window_used(job: &JobStudy, direction: Direction) -> Option<Unread> {
    let read = |metric| value(job, metric, direction);
    let is_shut = read(metric::WINDOW_SWING).is_some_and(|swing| swing >= SHUT);
    let round_trip =
        // A closed window delays acknowledgements, so the smoothed time would count the wait itself
        // as data in flight.
        read(metric::RTT_MIN).filter(|_| is_shut).or_else(|| read(metric::RTT))?;
    let in_flight = read(metric::GOODPUT)? * round_trip / BITS_PER_BYTE;
    let used = in_flight / read(metric::PEER_WINDOW).filter(|window| *window > 0.0)?;
    let waited = read(metric::RWND_LIMITED).unwrap_or_default();
    Some(Unread::WindowUsed { used, least: USED.max(USED_WHILE_WAITING * waited) })
}

/// Rule: data that has arrived is not read.
pub(super) const RULE: Rule = Rule {
    number: 6,
    name: "slow_receiver",
    summary: "the sender waits for the window, the receive buffer is more than half full, and the \
        receiver has CPU time left",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let mut slow = flows(point).filter(|(job, direction)| leaves_unread(job, *direction));
    let (job, direction) = slow.next().filter(|_| may_be_judged(point))?;
    let unread = Unread::of(job, direction)?;
    let mut evidence = vec![seen(job, metric::RWND_LIMITED, direction)?, unread.evidence()];
    evidence.extend(seen(job, metric::WINDOW_SWING, direction));
    let stalled = value(job, metric::IO_STALLED, direction).filter(|share| *share > STALLED);
    evidence.extend(stalled.map(|share| Evidence::figure(metric::IO_STALLED, share)));
    let claim = Claim::SlowReader(match unread {
        // A stall for storage names the cause, so it comes before the two ways to see the
        // effect.
        _ if stalled.is_some() => SlowReader::Storage,
        Unread::Held(_) => SlowReader::CpuLeft,
        Unread::WindowUsed { .. } => SlowReader::ClosedWindow,
    });
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    let again = Command::local("diagnose", &[]).between(&job.from, &job.to);
    Some(finding.advise(Step::Discard.by(again)))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let waited = score::reached(value(job, metric::RWND_LIMITED, direction)?, HELD_BACK, 1.0);
        let unread = Unread::of(job, direction)?.score();
        let cpu = out_of_cpu(job, FlowEnd::Receiving, direction).map_or(1.0, |_| 0.0);
        Some(score::all([waited, unread, cpu]))
    })
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let throttled = |(job, _): &(&JobStudy, Direction)| {
        // A disk or an application behind a foreign receiver cannot be replaced from here. Only
        // a rate limit of the plan can be lifted.
        job.workload == TCP_STREAM && param(job, "sink_rate").is_some()
    };
    let change = || vec![set("sink_rate", UNBOUNDED)];
    let ratio = [LEAST_EFFECT, MOST_GAINED];
    let found = flows(point).find(throttled);
    found
        .map(|_| Experiment::lift("a receiver that reads at once", change(), ratio))
        .into_iter()
        .collect()
}

/// Returns whether the receiver holds the flow back because it reads slowly.
fn leaves_unread(job: &JobStudy, direction: Direction) -> bool {
    value(job, metric::RWND_LIMITED, direction).is_some_and(|share| share > HELD_BACK)
        && Unread::of(job, direction).is_some_and(|unread| unread.speaks())
        // A receiver that cannot run also leaves data unread; the CPU is then the cause.
        && out_of_cpu(job, FlowEnd::Receiving, direction).is_none()
        && !waits_for_cpu(job)
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_where_the_buffer_is_full_and_the_cpu_is_not() {
        let slow = point(&[
            ("goodput", 2e7),
            ("rwnd_limited", 0.9),
            ("receive_queue", 0.8),
            ("receiver_cpu", 0.02),
        ]);
        let finding = RULE.judge(&slow).expect("nobody reads");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Suspected, 2));
        let disk = point(&[
            ("goodput", 2e7),
            ("rwnd_limited", 0.9),
            ("receive_queue", 0.8),
            ("io_stalled", 0.6),
        ]);
        let claim = RULE.judge(&disk).expect("nobody reads").claim;
        assert_eq!(claim, Claim::SlowReader(SlowReader::Storage));
    }

    #[test]
    fn a_foreign_reader_is_slow_where_a_larger_window_was_shut() {
        let foreign = |window: f64, waited: f64| {
            let seen = [
                ("goodput", 8e6),
                ("rtt", 0.011),
                ("rwnd_limited", waited),
                ("peer_window", window),
            ];
            RULE.judge(&point(&seen))
        };
        // 11 kB are under way.
        let finding = foreign(200_000.0, 0.8).expect("it was shut");
        assert_eq!(finding.evidence[1], Evidence::WindowUsed { share: 0.055 });
        assert_eq!(foreign(12_000.0, 0.8), None, "the window is small, and full");
        assert_eq!(foreign(200_000.0, 0.1), None, "nobody waited for it");
        // 0.65 and 0.75 of the window are in flight. It was open for at least as long as waited.
        let silent = [(16_900.0, 0.9), (14_700.0, 0.9), (16_900.0, 0.7)]
            .map(|(window, waited)| foreign(window, waited).is_none());
        assert_eq!(silent, [false, true, true]);
        // Acknowledgements waited for a window that opened and shut.
        let moved = |swing: f64| {
            let seen =
                [("goodput", 4e6), ("rtt", 0.115), ("rtt_min", 0.0105), ("rwnd_limited", 1.0)];
            let window = [("peer_window", 65_000.0), ("window_swing", swing)];
            RULE.judge(&point(&[&seen[..], &window].concat())).is_some()
        };
        assert!(moved(0.6) && !moved(0.1));
    }

    #[test]
    fn it_is_silent_on_an_empty_queue_and_a_full_core() {
        let empty = point(&[("goodput", 2e7), ("rwnd_limited", 0.9), ("receive_queue", 0.1)]);
        assert_eq!(RULE.judge(&empty), None);
        let full = point(&[
            ("goodput", 2e7),
            ("rwnd_limited", 0.9),
            ("receive_queue", 0.8),
            ("receiver_cpu", 0.97),
        ]);
        assert_eq!(RULE.judge(&full), None);
        let mut waits = point(&[
            ("goodput", 2e7),
            ("rwnd_limited", 0.9),
            ("receive_queue", 0.8),
            ("run_queue_wait", 0.6),
        ]);
        waits.jobs[0].metrics[3].direction = Direction::Sum;
        assert_eq!(RULE.judge(&waits), None, "a worker waits for a CPU");
    }
}
