//! The application that sends has nothing to send (methodology 5.3, D8). TCP only.
//!
//! Evidence: the sender's connection was idle, with nothing to send and nothing under way, for more than 30 % of the time, though the
//! sender is not out of CPU. On a long path what was sent is still under way when more comes, and no connection idles: there it is that less
//! than a segment waited to be sent, that neither window nor buffer held the sender back, and that it used less than half of a core. (The kernel's own
//! mark, `tcpi_delivery_rate_app_limited`, stays off as long as a sample from before was faster.) What it does not see: why the application
//! has nothing: a disk, a peer it waits for, or its own pace.

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
/// A segment, which an application that fills its path leaves in the kernel's queue at the least.
const A_SEGMENT: f64 = 1448.0;
/// Cores below which a sender that had more to send would send it.
const AT_REST: f64 = 0.5;

/// Share of the time in which the connection idled, and what waited to be sent of each flow, bytes, where nothing else held the sender back.
fn starved(job: &JobStudy, direction: Direction) -> Option<(f64, Option<f64>)> {
    let read = |metric| value(job, metric, direction);
    let idle = 1.0 - read("sender_busy")?;
    let free = ["rwnd_limited", "sndbuf_limited"].iter().all(|held| read(held).is_some_and(|share| share < HELD_BACK));
    let at_rest = read("sender_cpu").is_some_and(|cores| cores < AT_REST);
    Some((idle, read("unsent").filter(|_| free && at_rest).map(|bytes| bytes / n_flows(job))))
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
            starved(job, *direction)
                .is_some_and(|(idle, unsent)| idle > HELD_BACK || unsent.is_some_and(|bytes| bytes < A_SEGMENT))
                && out_of_cpu(job, End::Sending, *direction).is_none()
                && value(job, "transaction_rate", Direction::Sum).is_none()
        };
        let (job, direction) = flows(point).find(idles).filter(|_| may_be_judged(point))?;
        let (idle, unsent) = starved(job, direction)?;
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
                    "{:.0} B of a flow waited to be sent, though neither window nor buffer was full",
                    unsent.unwrap_or_default()
                ),
                source: "TCP_INFO of the sender: tcpi_notsent_bytes, mean over readings".into(),
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
            let (idle, unsent) = starved(job, direction)?;
            let nothing = unsent.map_or(0.0, |bytes| score::below(bytes, A_SEGMENT));
            let idle = score::reached(idle, HELD_BACK, 1.0).max(nothing);
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

    /// On a long path: always something under way, and `unsent` bytes that wait.
    fn long_path(unsent: f64, sndbuf_limited: f64, sender_cpu: f64) -> PointStudy {
        let figures = [("rwnd_limited", 0.0), ("sndbuf_limited", sndbuf_limited), ("sender_cpu", sender_cpu)];
        point(&[&[("goodput", 8e6), ("sender_busy", 0.96), ("unsent", unsent)][..], &figures].concat())
    }

    #[test]
    fn on_a_long_path_nothing_waits_to_be_sent() {
        let finding = SlowSource.judge(&long_path(120.0, 0.0, 0.01)).expect("less than a segment waits");
        assert!(finding.evidence[0].observed.starts_with("120 B of a flow waited"), "{:?}", finding.evidence);
        assert_eq!(SlowSource.judge(&long_path(60_000.0, 0.0, 0.01)), None, "the path does not take more");
        assert_eq!(SlowSource.judge(&long_path(120.0, 0.9, 0.01)), None, "it waits for its buffer");
        assert_eq!(SlowSource.judge(&long_path(120.0, 0.0, 0.7)), None, "it is busy making what it sends");
    }

    #[test]
    fn it_is_silent_on_a_busy_one_and_a_sender_without_cpu() {
        assert_eq!(SlowSource.judge(&point(&[("goodput", 1e7), ("sender_busy", 0.9)])), None);
        let throttled = point(&[("goodput", 1e7), ("sender_busy", 0.4), ("sender_throttled", 0.9)]);
        assert_eq!(SlowSource.judge(&throttled), None);
    }
}
