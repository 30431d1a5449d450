//! The sending application has nothing to send (docs/methodology/diagnosis.md#rules, D8). TCP only.
//!
//! Evidence for `tcp_stream`: it sends from memory, so it always has data unless the plan sets a
//! source rate. Its workers count how long they had nothing to send, and the rule reads only that
//! count. An idle connection of theirs waits for a CPU, for buffer space or for a wake-up, which
//! other rules cover.
//!
//! Other senders read files or wait for requests, and nothing counts their waits. There the rule
//! requires a connection that was idle, with nothing to send and nothing in flight, for more than
//! 30 % of the time, although the sender had CPU time left and no worker waited for a CPU.
//!
//! On a long path, data is still in flight when more arrives, so no connection is idle. There the
//! rule requires all of these: less than a message and a segment waited to be sent; less than half
//! of the congestion window was in flight; neither window nor buffer limited the sender; it used
//! less than half of a core; and the receiver had CPU time left. (A receiver that runs by quota
//! takes all data at once, and also leaves little in flight.) The kernel's own flag,
//! `tcpi_delivery_rate_app_limited`, stays clear as long as an earlier sample was faster. Not
//! observed: the reason why the application has nothing: a disk, a peer, or its own rate.

use linerate_model::{Command, Direction, IPERF3_WORKLOAD, metric};

use super::{
    FlowEnd, HELD_BACK, LEAST_EFFECT, Rule, TCP_STREAM, flows, may_be_judged, n_flows, out_of_cpu,
    param, score, suspected, value,
};
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Source rate that limits nothing, in a plan's notation.
const UNBOUNDED: &str = "1 Tbit/s";
const MOST_GAINED: f64 = 1000.0;
/// Largest unsent amount of a slow source, in bytes: the last segment of one message, plus the next
/// message up to a size that no stream has.
const A_SEGMENT: f64 = 1448.0;
const A_MESSAGE: f64 = 16_384.0;
/// Share of the congestion window that a sender with more data keeps in flight.
const FILLED: f64 = 0.5;
const BITS_PER_BYTE: f64 = 8.0;
/// Cores below which a sender with more data would send it.
const AT_REST: f64 = 0.5;

/// Largest share of time waiting for a CPU that does not explain idle connections.
const CPU_WAIT: f64 = 0.1;

/// Evidence that a sender had nothing to send.
enum Starved {
    /// Share of the time, as its workers counted it.
    Counted(f64),
    /// State of its connections.
    Seen(Idle),
}

/// Idle time of a connection, and the data it had to send.
struct Idle {
    share: f64,
    /// Bytes of a flow that waited to be sent, and the share of the congestion window in flight;
    /// `None` where something else limited the sender.
    waited: Option<(f64, f64)>,
    /// Bytes that may wait to be sent where the source is slow.
    message: f64,
    /// Share of the time that the slowest worker of either end was ready and had no CPU.
    cpu_wait: f64,
}

impl Starved {
    fn of(job: &JobStudy, direction: Direction) -> Option<Self> {
        // The counter of its workers is exact. Idle connections of theirs also wait for a CPU or a
        // wake-up. The workload `iperf3` sends from memory too; its workers count no such wait, and
        // a rate that the plan sets looks like one.
        if [TCP_STREAM, IPERF3_WORKLOAD].contains(&job.workload.as_str()) {
            return value(job, metric::SOURCE_WAIT, direction).map(Self::Counted);
        }
        Idle::of(job, direction).map(Self::Seen)
    }

    fn speaks(&self) -> bool {
        match self {
            Self::Counted(share) => *share > HELD_BACK,
            Self::Seen(idle) => idle.speaks(),
        }
    }

    fn score(&self) -> f64 {
        match self {
            Self::Counted(share) => score::reached(*share, HELD_BACK, 1.0),
            Self::Seen(idle) => idle.score(),
        }
    }

    fn evidence(&self) -> Evidence {
        match self {
            Self::Counted(share) => Evidence::figure(metric::SOURCE_WAIT, *share),
            Self::Seen(idle) if idle.share > HELD_BACK => {
                Evidence::figure(metric::SENDER_BUSY, 1.0 - idle.share)
            }
            Self::Seen(idle) => {
                let (unsent_bytes, window_share) = idle.waited.unwrap_or_default();
                Evidence::LittleToSend { unsent_bytes, window_share }
            }
        }
    }
}

impl Idle {
    fn of(job: &JobStudy, direction: Direction) -> Option<Self> {
        let read = |metric| value(job, metric, direction);
        let free = [metric::RWND_LIMITED, metric::SNDBUF_LIMITED]
            .iter()
            // Here missing figures do count against the claim, because the remaining evidence is
            // indirect.
            .all(|held| read(held).is_some_and(|held| held < HELD_BACK));
        let is_taken = out_of_cpu(job, FlowEnd::Receiving, direction).is_none();
        let at_rest = read(metric::SENDER_CPU).is_some_and(|cores| cores < AT_REST);
        let under_way = read(metric::GOODPUT)
            .zip(read(metric::RTT))
            .map(|(rate, rtt)| rate * rtt / BITS_PER_BYTE);
        let filled =
            under_way.zip(read(metric::CONGESTION_WINDOW)).map(|(bytes, window)| bytes / window);
        let unsent = read(metric::UNSENT).map(|bytes| bytes / n_flows(job));
        Some(Self {
            share: 1.0 - read(metric::SENDER_BUSY)?,
            // Little data in flight has many causes; all the others must be excluded first.
            waited: unsent.zip(filled).filter(|_| free && at_rest && is_taken),
            // Streams write up to several MiB per call, which would make any unsent amount look
            // small.
            message: read(metric::PAYLOAD_PER_SEND).unwrap_or_default().min(A_MESSAGE) + A_SEGMENT,
            cpu_wait: value(job, metric::RUN_QUEUE_WAIT, Direction::Sum).unwrap_or_default(),
        })
    }

    fn speaks(&self) -> bool {
        let starves = |(unsent, filled)| unsent < self.message && filled < FILLED;
        // A worker that waits for a CPU has something to send but cannot.
        self.cpu_wait < CPU_WAIT && (self.share > HELD_BACK || self.waited.is_some_and(starves))
    }

    fn score(&self) -> f64 {
        let nothing = self.waited.map_or(0.0, |(unsent, filled)| {
            score::all([score::below(unsent, self.message), score::below(filled, FILLED)])
        });
        let idle = score::reached(self.share, HELD_BACK, 1.0).max(nothing);
        score::all([idle, score::below(self.cpu_wait, CPU_WAIT)])
    }
}

/// Rule: connections are idle because the source is slow.
pub(super) const RULE: Rule = Rule {
    number: 8,
    name: "slow_source",
    summary: "the sender had nothing to send for more than 30 % of the time (its workers count it, \
        or its connections were idle) and had CPU time left",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    fn idles((job, direction): &(&JobStudy, Direction)) -> bool {
        Starved::of(job, *direction).is_some_and(|starved| starved.speaks())
            && out_of_cpu(job, FlowEnd::Sending, *direction).is_none()
            // A request load is idle by design while it waits for the answer.
            && value(job, metric::TRANSACTION_RATE, Direction::Sum).is_none()
    }
    let (job, direction) = flows(point).find(idles).filter(|_| may_be_judged(point))?;
    let evidence = vec![Starved::of(job, direction)?.evidence()];
    let finding = suspected(RULE.name, (point, job, direction), Claim::SlowSource, evidence);
    let again = Command::local("diagnose", &[]).between(&job.from, &job.to);
    Some(finding.advise(Step::FromMemory.by(again)))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let asked = value(job, metric::TRANSACTION_RATE, Direction::Sum).is_some();
        let starved = Starved::of(job, direction)?;
        let cpu = out_of_cpu(job, FlowEnd::Sending, direction).map_or(1.0, |_| 0.0);
        (!asked).then(|| score::all([starved.score(), cpu]))
    })
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    fn paced((job, _): &(&JobStudy, Direction)) -> bool {
        // Only a limit that the plan set can be lifted from here.
        job.workload == TCP_STREAM && param(job, "source_rate").is_some()
    }
    let change = || vec![set("source_rate", UNBOUNDED)];
    let ratio = [LEAST_EFFECT, MOST_GAINED];
    let found = flows(point).find(paced);
    found
        .map(|_| Experiment::lift("a source without a rate limit", change(), ratio))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases;

    /// A sender that reads files.
    fn point(figures: &[(&str, f64)]) -> PointStudy {
        let mut point = cases::point(figures);
        point.jobs[0].workload = "ftp".into();
        point
    }

    #[test]
    fn a_source_in_memory_is_slow_where_its_workers_waited_for_it() {
        let memory = |waited: f64, more: &[(&str, f64)]| {
            let usual = [("goodput", 1e7), ("sender_busy", 0.4), ("source_wait", waited)];
            cases::point(&usual.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
        };
        let finding = RULE.judge(&memory(0.8, &[])).expect("it waited");
        let mut paced = cases::point(&[("goodput", 1e7), ("sender_busy", 0.1)]);
        paced.jobs[0].workload = IPERF3_WORKLOAD.into();
        assert_eq!(RULE.judge(&paced), None, "the rate of the plan");
        assert_eq!(finding.evidence, [Evidence::figure(metric::SOURCE_WAIT, 0.8)]);
        assert!(RULE.score(&memory(0.8, &[])).is_some_and(|score| score > 0.5));
        // Idle connections alone: it waits for a CPU, for room or for a wake-up.
        assert_eq!(
            (RULE.judge(&memory(0.0, &[])), RULE.score(&memory(0.0, &[]))),
            (None, Some(0.0))
        );
        assert_eq!(
            RULE.judge(&cases::point(&[("goodput", 1e7), ("sender_busy", 0.1)])),
            None,
            "nobody counted"
        );
        assert_eq!(RULE.judge(&memory(0.8, &[("sender_throttled", 0.9)])), None);
    }

    #[test]
    fn it_is_silent_where_a_worker_waited_for_a_cpu() {
        let mut busy = point(&[("goodput", 1e7), ("sender_busy", 0.4)]);
        assert!(RULE.judge(&busy).is_some());
        let mut wait =
            cases::point(&[("goodput", 1e7), ("run_queue_wait", 0.4)]).jobs[0].metrics[1].clone();
        wait.direction = Direction::Sum;
        busy.jobs[0].metrics.push(wait);
        assert_eq!((RULE.judge(&busy), RULE.score(&busy)), (None, Some(0.0)));
    }

    #[test]
    fn it_fires_on_an_idle_connection() {
        let finding =
            RULE.judge(&point(&[("goodput", 1e7), ("sender_busy", 0.4)])).expect("it idles");
        assert_eq!(finding.evidence, [Evidence::figure(metric::SENDER_BUSY, 0.4)]);
    }

    /// On a long path, in messages of 8 KiB: always something under way, and `unsent` bytes that
    /// wait.
    fn long_path(unsent: f64, more: &[(&str, f64)]) -> PointStudy {
        let seen = [
            ("goodput", 8e6),
            ("rtt", 0.034),
            ("sender_busy", 0.96),
            ("congestion_window", 133_216.0),
            ("payload_per_send", 8192.0),
            ("rwnd_limited", 0.0),
        ];
        let usual = [("unsent", unsent), ("sndbuf_limited", 0.0), ("sender_cpu", 0.01)];
        let usual =
            usual.iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name)).copied();
        point(&seen.into_iter().chain(usual).chain(more.iter().copied()).collect::<Vec<_>>())
    }

    #[test]
    fn on_a_long_path_hardly_anything_waits_to_be_sent() {
        let finding = RULE.judge(&long_path(416.0, &[])).expect("nothing waits");
        let Evidence::LittleToSend { unsent_bytes, window_share } = finding.evidence[0] else {
            panic!("{:?}", finding.evidence)
        };
        assert!((window_share - 0.255).abs() < 1e-3, "34 kB of 133 kB: {window_share}");
        assert_eq!(unsent_bytes, 416.0);
        assert!(RULE.judge(&long_path(9586.0, &[])).is_some(), "a message was just handed over");
        assert_eq!(RULE.judge(&long_path(60_000.0, &[])), None, "the path does not take more");
        let judge = |more: &[(&str, f64)]| RULE.judge(&long_path(120.0, more));
        assert_eq!(judge(&[("sndbuf_limited", 0.9)]), None, "it waits for its buffer");
        assert_eq!(judge(&[("sender_cpu", 0.7)]), None, "it is busy making what it sends");
        assert_eq!(
            judge(&[("receiver_throttled", 0.9)]),
            None,
            "the receiver wakes by quota, and takes all at once"
        );
    }

    #[test]
    fn it_is_silent_on_a_busy_one_and_a_sender_without_cpu() {
        assert_eq!(RULE.judge(&point(&[("goodput", 1e7), ("sender_busy", 0.9)])), None);
        let throttled = point(&[("goodput", 1e7), ("sender_busy", 0.4), ("sender_throttled", 0.9)]);
        assert_eq!(RULE.judge(&throttled), None);
    }
}
