//! The application that receives reads slowly (methodology 5.3, D6). TCP only.
//!
//! Evidence: the sender waits for the window, much of the receive buffer lies unread, and the receiver's CPU is not used up: it waits for
//! something else, a disk for instance, which stalls of its host for storage would show. What it does not see: what it waits for.

use linerate_model::{Direction, Evidence, Finding, Verdict};

use super::{
    End, HELD_BACK, LEAST_EFFECT, Rule, TCP_STREAM, flows, may_be_judged, out_of_cpu, param, score, subject, value,
};
use crate::diagnosis::experiment::{Experiment, set};
use crate::{JobStudy, PointStudy};

/// Share of the receive buffer that lies unread from which its reader is slow (methodology 5.3).
const UNREAD: f64 = 0.5;
/// Share of time stalled for storage from which that is told.
const STALLED: f64 = 0.1;
/// A reader that takes whatever comes, as plans write it.
const UNBOUNDED: &str = "1 Tbit/s";
const MOST_GAINED: f64 = 1000.0;

/// Fires where what has arrived is not read.
#[derive(Debug)]
pub(super) struct SlowReceiver;

impl Rule for SlowReceiver {
    fn name(&self) -> &'static str {
        "slow_receiver"
    }

    fn summary(&self) -> &'static str {
        "the sender waits for the window, the receive buffer is more than half full, and the receiver has CPU to spare"
    }

    fn number(&self) -> u8 {
        6
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let unread = |(job, direction): &(&JobStudy, Direction)| {
            value(job, "rwnd_limited", *direction).is_some_and(|share| share > HELD_BACK)
                && value(job, "receive_queue", *direction).is_some_and(|held| held >= UNREAD)
                && out_of_cpu(job, End::Receiving, *direction).is_none()
        };
        let (job, direction) = flows(point).find(unread).filter(|_| may_be_judged(point))?;
        let (waited, held) = (value(job, "rwnd_limited", direction)?, value(job, "receive_queue", direction)?);
        let mut evidence = vec![
            Evidence {
                observed: format!("the sender waited for the window {:.0} % of the time", waited * 100.0),
                source: "TCP_INFO of the sender: tcpi_rwnd_limited".into(),
            },
            Evidence {
                observed: format!("what had arrived and was not read took {:.0} % of the receive buffer", held * 100.0),
                source: "memory of the receiving socket (SO_MEMINFO)".into(),
            },
        ];
        evidence.extend(value(job, "window_swing", direction).map(|swing| Evidence {
            observed: format!("the window advertised moved by {:.0} % of its largest", swing * 100.0),
            source: "TCP_INFO of the sender: tcpi_snd_wnd".into(),
        }));
        let stalled = value(job, "io_stalled", direction).filter(|share| *share > STALLED);
        evidence.extend(stalled.map(|share| Evidence {
            observed: format!("tasks of its host stalled for storage {:.0} % of the time", share * 100.0),
            source: "/proc/pressure/io".into(),
        }));
        let claim = if stalled.is_some() {
            "the receiving application reads slowly: its host waits for storage"
        } else {
            "the receiving application reads slowly, though it has CPU to spare"
        };
        let finding = Finding::new(self.name(), Verdict::Suspected, &subject(point, job, direction), claim, evidence);
        Some(finding.advise(
            "receive into nothing: linerate diagnose --to HOST (goodput should rise to what the network lets through)",
        ))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        score::best(point, |job, direction| {
            let waited = score::reached(value(job, "rwnd_limited", direction)?, HELD_BACK, 1.0);
            let unread = score::reached(value(job, "receive_queue", direction)?, UNREAD, 1.0);
            let cpu = out_of_cpu(job, End::Receiving, direction).map_or(1.0, |_| 0.0);
            Some(score::all([waited, unread, cpu]))
        })
    }

    fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        let throttled =
            |(job, _): &(&JobStudy, Direction)| job.workload == TCP_STREAM && param(job, "sink_rate").is_some();
        let change = || vec![set("sink_rate", UNBOUNDED)];
        let ratio = [LEAST_EFFECT, MOST_GAINED];
        let found = flows(point).find(throttled);
        found.map(|_| Experiment::lift("a receiver that reads whatever comes", change(), ratio)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_where_the_buffer_is_full_and_the_cpu_is_not() {
        let slow = point(&[("goodput", 2e7), ("rwnd_limited", 0.9), ("receive_queue", 0.8), ("receiver_cpu", 0.02)]);
        let finding = SlowReceiver.judge(&slow).expect("nobody reads");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Suspected, 2));
        let disk = point(&[("goodput", 2e7), ("rwnd_limited", 0.9), ("receive_queue", 0.8), ("io_stalled", 0.6)]);
        assert!(SlowReceiver.judge(&disk).expect("nobody reads").claim.ends_with("storage"));
    }

    #[test]
    fn it_is_silent_on_an_empty_queue_and_a_full_core() {
        let empty = point(&[("goodput", 2e7), ("rwnd_limited", 0.9), ("receive_queue", 0.1)]);
        assert_eq!(SlowReceiver.judge(&empty), None);
        let full = point(&[("goodput", 2e7), ("rwnd_limited", 0.9), ("receive_queue", 0.8), ("receiver_cpu", 0.97)]);
        assert_eq!(SlowReceiver.judge(&full), None);
    }
}
