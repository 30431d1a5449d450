//! The send buffer is smaller than the path needs (docs/methodology/diagnosis.md#rules, D7). TCP
//! only.
//!
//! Evidence: the kernel waited for room in the send buffer more than [`WAITED`] of the time. Not
//! observed: whether the application would have filled a larger buffer.

use linerate_model::{Direction, metric};

use super::{
    FlowEnd, Rule, TCP_STREAM, flows, grown, may_be_judged, option_of_sender, out_of_cpu, room,
    score, seen, suspected, value,
};
use crate::diagnosis::experiment::{Experiment, bytes, set};
use crate::diagnosis::{Claim, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Share of the time waiting for the buffer above which it counts as the limit.
const WAITED: f64 = 0.3;

/// Rule: the sender waits for its own buffer.
#[derive(Debug)]
pub(super) struct SendBuffer;

impl Rule for SendBuffer {
    fn name(&self) -> &'static str {
        "send_buffer"
    }

    fn summary(&self) -> &'static str {
        "the sender waited for room in its own send buffer more than 30 % of the time"
    }

    fn number(&self) -> u8 {
        7
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let waits = |(job, direction): &(&JobStudy, Direction)| {
            value(job, metric::SNDBUF_LIMITED, *direction).is_some_and(|share| share > WAITED)
                // A sender without CPU time drains its buffer late, and the kernel counts that as
                // waiting for room.
                && out_of_cpu(job, FlowEnd::Sending, *direction).is_none()
        };
        let (job, direction) = flows(point).find(waits).filter(|_| may_be_judged(point))?;
        let evidence = vec![seen(job, metric::SNDBUF_LIMITED, direction)?];
        let finding = suspected(self.name(), (point, job, direction), Claim::SendBuffer, evidence);
        Some(finding.advise(Step::DoubleBuffer(FlowEnd::Sending)))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        score::best(point, |job, direction| {
            let waited =
                score::reached(value(job, metric::SNDBUF_LIMITED, direction)?, WAITED, 1.0);
            let cpu = out_of_cpu(job, FlowEnd::Sending, direction).map_or(1.0, |_| 0.0);
            Some(score::all([waited, cpu]))
        })
    }

    fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        let buffer = |(job, direction)| {
            let job: &JobStudy = job;
            let granted = option_of_sender(job, "send_buffer", direction)
                .filter(|_| job.workload == TCP_STREAM)?;
            // The kernel completes a packet that it began although the buffer is full. More bytes
            // than the buffer may then be in flight, and the experiment must double those.
            let read = |metric| value(job, metric, direction);
            let under_way = read(metric::GOODPUT)
                .zip(read(metric::RTT))
                .map(|(rate, rtt)| rate * rtt / BITS_PER_BYTE / super::n_flows(job));
            // The kernel grants twice the requested size, so requesting the present size doubles
            // it.
            let change = vec![set(
                "send_buffer",
                bytes(under_way.map_or(granted, |bytes| bytes.max(granted))),
            )];
            Some(Experiment::lift(
                "twice the send buffer",
                change,
                // A larger buffer helps only up to the ceiling of the path.
                grown(LARGER, room(job, direction)),
            ))
        };
        flows(point).find_map(buffer).into_iter().collect()
    }
}

const BITS_PER_BYTE: f64 = 8.0;
/// Factor by which the experiment enlarges the buffer.
const LARGER: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_long_waits_and_is_silent_on_short_ones() {
        assert!(SendBuffer.judge(&point(&[("goodput", 1e8), ("sndbuf_limited", 0.5)])).is_some());
        assert_eq!(SendBuffer.judge(&point(&[("goodput", 1e8), ("sndbuf_limited", 0.2)])), None);
    }
}
