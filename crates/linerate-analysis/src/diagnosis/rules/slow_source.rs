//! The application that sends has nothing to send (methodology 5.3, D8). TCP only.
//!
//! Evidence: the sender's connection was idle, with nothing to send and nothing under way, for more than 30 % of the time, though the
//! sender is not out of CPU. What it does not see: why the application has nothing: a disk, a peer it waits for, or its own pace.

use linerate_model::{Direction, Evidence, Finding, Verdict};

use super::{
    End, HELD_BACK, LEAST_EFFECT, Rule, TCP_STREAM, flows, may_be_judged, out_of_cpu, param, score, subject, value,
};
use crate::diagnosis::experiment::{Experiment, set};
use crate::{JobStudy, PointStudy};

/// A source that never runs dry, as plans write it.
const UNBOUNDED: &str = "1 Tbit/s";
const MOST_GAINED: f64 = 1000.0;

/// Fires where connections idle.
#[derive(Debug)]
pub(super) struct SlowSource;

impl Rule for SlowSource {
    fn name(&self) -> &'static str {
        "slow_source"
    }

    fn summary(&self) -> &'static str {
        "the sender had nothing to send more than 30 % of the time, and CPU to spare"
    }

    fn number(&self) -> u8 {
        8
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let idles = |(job, direction): &(&JobStudy, Direction)| {
            value(job, "sender_busy", *direction).is_some_and(|busy| 1.0 - busy > HELD_BACK)
                && out_of_cpu(job, End::Sending, *direction).is_none()
                && value(job, "transaction_rate", Direction::Sum).is_none()
        };
        let (job, direction) = flows(point).find(idles).filter(|_| may_be_judged(point))?;
        let idle = 1.0 - value(job, "sender_busy", direction)?;
        let evidence = Evidence {
            observed: format!(
                "the connection had nothing to send and nothing under way {:.0} % of the time",
                idle * 100.0
            ),
            source: "TCP_INFO of the sender: tcpi_busy_time".into(),
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
            let idle = score::reached(1.0 - value(job, "sender_busy", direction)?, HELD_BACK, 1.0);
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

    #[test]
    fn it_is_silent_on_a_busy_one_and_a_sender_without_cpu() {
        assert_eq!(SlowSource.judge(&point(&[("goodput", 1e7), ("sender_busy", 0.9)])), None);
        let throttled = point(&[("goodput", 1e7), ("sender_busy", 0.4), ("sender_throttled", 0.9)]);
        assert_eq!(SlowSource.judge(&throttled), None);
    }
}
