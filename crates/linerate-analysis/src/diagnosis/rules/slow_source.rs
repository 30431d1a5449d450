//! The application that sends has nothing to send (methodology 5.3, D8). TCP only.
//!
//! Evidence: the sender's connection was idle, with nothing to send and nothing under way, for more than 30 % of the time, though the
//! sender is not out of CPU. On a long path what was sent is still under way when more comes, and no connection idles: there it is that less
//! than a message and a segment waited to be sent, less than half of the congestion window was under way, neither window nor buffer held the sender
//! back, it used less than half of a core, and the receiver is not out of CPU: one that wakes by quota takes all at once, and leaves little under
//! way as well. (The kernel's own mark, `tcpi_delivery_rate_app_limited`, stays off as long as a sample from before was faster.) What it does not
//! see: why the application has nothing: a disk, a peer it waits for, or its own pace.

use linerate_model::{Direction, Evidence, Finding, Verdict};

use super::{
    End, HELD_BACK, LEAST_EFFECT, Rule, TCP_STREAM, flows, may_be_judged, n_flows, out_of_cpu, param, score, subject,
    value,
};
use crate::diagnosis::experiment::{Experiment, set};
use crate::{JobStudy, PointStudy};

/// A source that never runs dry, as plans write it.
const UNBOUNDED: &str = "1 Tbit/s";
const MOST_GAINED: f64 = 1000.0;
/// What may wait to be sent of a message that was just handed over: the end of one before it, and itself, up to a size that is none of a stream's.
const A_SEGMENT: f64 = 1448.0;
const A_MESSAGE: f64 = 16_384.0;
/// Share of the congestion window that a sender with more to send has under way.
const FILLED: f64 = 0.5;
const BITS_PER_BYTE: f64 = 8.0;
/// Cores below which a sender that had more to send would send it.
const AT_REST: f64 = 0.5;

/// Share of the time in which a connection idled, and what it had to send.
struct Starved {
    idle: f64,
    /// Bytes of a flow that waited to be sent, and the share of the congestion window under way; `None` where something else held it back.
    waited: Option<(f64, f64)>,
    /// How many bytes may wait where the source is slow.
    message: f64,
}

impl Starved {
    fn of(job: &JobStudy, direction: Direction) -> Option<Self> {
        let read = |metric| value(job, metric, direction);
        let free =
            ["rwnd_limited", "sndbuf_limited"].iter().all(|held| read(held).is_some_and(|held| held < HELD_BACK));
        let is_taken = out_of_cpu(job, End::Receiving, direction).is_none();
        let at_rest = read("sender_cpu").is_some_and(|cores| cores < AT_REST);
        let under_way = read("goodput").zip(read("rtt")).map(|(rate, rtt)| rate * rtt / BITS_PER_BYTE);
        let filled = under_way.zip(read("congestion_window")).map(|(bytes, window)| bytes / window);
        let unsent = read("unsent").map(|bytes| bytes / n_flows(job));
        Some(Self {
            idle: 1.0 - read("sender_busy")?,
            waited: unsent.zip(filled).filter(|_| free && at_rest && is_taken),
            message: read("payload_per_send").unwrap_or_default().min(A_MESSAGE) + A_SEGMENT,
        })
    }

    fn speaks(&self) -> bool {
        self.idle > HELD_BACK || self.waited.is_some_and(|(unsent, filled)| unsent < self.message && filled < FILLED)
    }
}

/// Fires where connections idle.
#[derive(Debug)]
pub(super) struct SlowSource;

impl Rule for SlowSource {
    fn name(&self) -> &'static str {
        "slow_source"
    }

    fn summary(&self) -> &'static str {
        "the sender had nothing to send more than 30 % of the time, or hardly anything waited to be sent, and it had CPU to spare"
    }

    fn number(&self) -> u8 {
        8
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let idles = |(job, direction): &(&JobStudy, Direction)| {
            Starved::of(job, *direction).is_some_and(|starved| starved.speaks())
                && out_of_cpu(job, End::Sending, *direction).is_none()
                && value(job, "transaction_rate", Direction::Sum).is_none()
        };
        let (job, direction) = flows(point).find(idles).filter(|_| may_be_judged(point))?;
        let Starved { idle, waited, .. } = Starved::of(job, direction)?;
        let (unsent, filled) = waited.unwrap_or_default();
        let evidence = if idle > HELD_BACK {
            Evidence {
                observed: format!(
                    "the connection had nothing to send and nothing under way {:.0} % of the time",
                    idle * 100.0
                ),
                source: "TCP_INFO of the sender: tcpi_busy_time".into(),
            }
        } else {
            Evidence {
                observed: format!(
                    "{unsent:.0} B of a flow waited to be sent, and {:.0} % of the congestion window was under way, though neither the peer's window \
                     nor the buffer was full",
                    filled * 100.0
                ),
                source: "TCP_INFO of the sender: tcpi_notsent_bytes, tcpi_snd_cwnd, tcpi_rtt".into(),
            }
        };
        let claim = "the sending application has nothing to send";
        let finding =
            Finding::new(self.name(), Verdict::Suspected, &subject(point, job, direction), claim, vec![evidence]);
        Some(finding.advise(
            "send from memory: linerate diagnose --to HOST (goodput should rise to what the network lets through)",
        ))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        score::best(point, |job, direction| {
            let asked = value(job, "transaction_rate", Direction::Sum).is_some();
            let starved = Starved::of(job, direction)?;
            let nothing = starved.waited.map_or(0.0, |(unsent, filled)| {
                score::all([score::below(unsent, starved.message), score::below(filled, FILLED)])
            });
            let idle = score::reached(starved.idle, HELD_BACK, 1.0).max(nothing);
            let cpu = out_of_cpu(job, End::Sending, direction).map_or(1.0, |_| 0.0);
            (!asked).then(|| score::all([idle, cpu]))
        })
    }

    fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        let paced =
            |(job, _): &(&JobStudy, Direction)| job.workload == TCP_STREAM && param(job, "source_rate").is_some();
        let change = || vec![set("source_rate", UNBOUNDED)];
        let ratio = [LEAST_EFFECT, MOST_GAINED];
        let found = flows(point).find(paced);
        found.map(|_| Experiment::lift("a source that never runs dry", change(), ratio)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_an_idle_connection() {
        let finding = SlowSource.judge(&point(&[("goodput", 1e7), ("sender_busy", 0.4)])).expect("it idles");
        assert!(finding.evidence[0].observed.ends_with("60 % of the time"), "{:?}", finding.evidence);
    }

    /// On a long path, in messages of 8 KiB: always something under way, and `unsent` bytes that wait.
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
        let usual = usual.iter().filter(|(name, _)| more.iter().all(|(other, _)| other != name)).copied();
        point(&seen.into_iter().chain(usual).chain(more.iter().copied()).collect::<Vec<_>>())
    }

    #[test]
    fn on_a_long_path_hardly_anything_waits_to_be_sent() {
        let finding = SlowSource.judge(&long_path(416.0, &[])).expect("nothing waits");
        assert!(finding.evidence[0].observed.starts_with("416 B of a flow waited"), "{:?}", finding.evidence);
        assert!(finding.evidence[0].observed.contains("26 % of the congestion window"), "{:?}", finding.evidence);
        assert!(SlowSource.judge(&long_path(9586.0, &[])).is_some(), "a message was just handed over");
        assert_eq!(SlowSource.judge(&long_path(60_000.0, &[])), None, "the path does not take more");
        let judge = |more: &[(&str, f64)]| SlowSource.judge(&long_path(120.0, more));
        assert_eq!(judge(&[("sndbuf_limited", 0.9)]), None, "it waits for its buffer");
        assert_eq!(judge(&[("sender_cpu", 0.7)]), None, "it is busy making what it sends");
        assert_eq!(judge(&[("receiver_throttled", 0.9)]), None, "the receiver wakes by quota, and takes all at once");
    }

    #[test]
    fn it_is_silent_on_a_busy_one_and_a_sender_without_cpu() {
        assert_eq!(SlowSource.judge(&point(&[("goodput", 1e7), ("sender_busy", 0.9)])), None);
        let throttled = point(&[("goodput", 1e7), ("sender_busy", 0.4), ("sender_throttled", 0.9)]);
        assert_eq!(SlowSource.judge(&throttled), None);
    }
}
