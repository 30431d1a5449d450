//! The sender's own buffer is smaller than the path needs (methodology 5.3, D7). TCP only.
//!
//! Evidence: the kernel waited for room in the send buffer more than [`WAITED`] of the time. What it does not see: whether the
//! application would have filled a larger one.

use linerate_model::{Direction, Evidence, Finding, Verdict};

use super::{Rule, flows, may_be_judged, subject, value};
use crate::{JobStudy, PointStudy};

/// Share of the time waiting for the buffer from which it counts as the limit.
const WAITED: f64 = 0.3;

/// Fires where the sender waits for its own buffer.
#[derive(Debug)]
pub(super) struct SendBuffer;

impl Rule for SendBuffer {
    fn name(&self) -> &'static str {
        "send_buffer"
    }

    fn summary(&self) -> &'static str {
        "the sender waited for room in its own send buffer more than 30 % of the time"
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let waits = |(job, direction): &(&JobStudy, Direction)| {
            value(job, "sndbuf_limited", *direction).is_some_and(|share| share > WAITED)
        };
        let (job, direction) = flows(point).find(waits).filter(|_| may_be_judged(point))?;
        let waited = value(job, "sndbuf_limited", direction)?;
        let evidence = Evidence {
            observed: format!("waited for the own send buffer {:.0} % of the time", waited * 100.0),
            source: "TCP_INFO of the sender: tcpi_sndbuf_limited".into(),
        };
        let claim = "the send buffer is smaller than the bandwidth-delay product";
        let finding =
            Finding::new(self.name(), Verdict::Suspected, &subject(point, job, direction), claim, vec![evidence]);
        Some(finding.advise("double the send buffer: goodput should rise by half or more until another limit is met"))
    }
}

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
