//! A window that overruns a shallow buffer behind a faster link (methodology 5.3, D3). TCP only.
//!
//! Evidence: bytes are sent again, and yet hardly anything stands in a queue: the buffer that overflows is shallow. The standing
//! queue is the goodput of the time by which the round trip is longer than its least. A network controller that is read over NC-SI
//! says whether it dropped; of other devices nothing is known, and so whether the path loses at random instead: a smaller window
//! tells the two apart, which is the experiment it proposes.

use linerate_model::{BitRate, Bytes, Direction, Evidence, Finding, Verdict};

use super::{Rule, flows, may_be_judged, subject, value};
use crate::{JobStudy, PointStudy};

/// Share of bytes sent again from which a sender loses for a reason; tail probes stay below (methodology 5.3: 1e-4 on long
/// runs).
const LOSS: f64 = 1e-3;
/// A standing queue below this is that of a shallow buffer: the largest of the methodology's examples, 64 KiB.
const SHALLOW: Bytes = Bytes(64 << 10);
const BITS_PER_BYTE: f64 = 8.0;

/// Fires where bytes are sent again and no queue stands.
#[derive(Debug)]
pub(super) struct FireHose;

impl Rule for FireHose {
    fn name(&self) -> &'static str {
        "fire_hose"
    }

    fn summary(&self) -> &'static str {
        "bytes are sent again although less than 64 KiB stand in a queue: a shallow buffer overflows"
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let loses = |(job, direction): &(&JobStudy, Direction)| {
            value(job, "retransmit_ratio", *direction).is_some_and(|ratio| ratio >= LOSS)
        };
        let (job, direction) = flows(point).find(loses).filter(|_| may_be_judged(point))?;
        let read = |metric| value(job, metric, direction);
        let (ratio, goodput) = (read("retransmit_ratio")?, read("goodput")?);
        let (rtt, least) = (read("rtt")?, read("rtt_min")?);
        let queue = Bytes(((rtt - least).max(0.0) * goodput / BITS_PER_BYTE) as u64);
        if queue > SHALLOW {
            return None;
        }
        let mut evidence = vec![
            Evidence {
                observed: format!("{:.2} % of the bytes were sent again", ratio * 100.0),
                source: "TCP_INFO of the sender: tcpi_bytes_retrans of tcpi_bytes_sent".into(),
            },
            Evidence {
                observed: format!(
                    "{} B stand in queues: {} for the {:.2} ms that the round trip exceeds its least of {:.2} ms",
                    queue.0,
                    BitRate(goodput),
                    (rtt - least) * 1e3,
                    least * 1e3
                ),
                source: "TCP_INFO of the sender: tcpi_rtt and tcpi_min_rtt".into(),
            },
        ];
        let dropped = value(job, "controller_dropped", Direction::Sum);
        let claim = match dropped {
            Some(dropped) if dropped >= 1.0 => {
                evidence.push(Evidence {
                    observed: format!("the network controller dropped {dropped:.0} frames"),
                    source: "Get NC-SI Pass-through Statistics, dropped frames from the network".into(),
                });
                "the window overruns the buffer of the network controller"
            }
            Some(_) => {
                "the path loses at random, or overruns a shallow buffer before the network controller, which dropped nothing"
            }
            None => "the window overruns a shallow buffer behind a faster link, or the path loses at random",
        };
        let finding = Finding::new(self.name(), Verdict::Suspected, &subject(point, job, direction), claim, evidence);
        Some(finding.advise(
            "find the window that it survives, and prove it: linerate tune window --to HOST (a smaller window ends the loss of a \
             shallow buffer, and leaves random loss as it is)",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_where_bytes_are_sent_again_and_nothing_stands_in_a_queue() {
        // The sideband of the lab under BBR: 40 Mbit/s, a third sent again, 0.9 ms above a least of 0.3 ms.
        let bbr = point(&[("goodput", 40e6), ("retransmit_ratio", 0.33), ("rtt", 0.0012), ("rtt_min", 0.0003)]);
        let finding = FireHose.judge(&bbr).expect("it loses");
        assert_eq!(finding.verdict, Verdict::Suspected);
        assert!(finding.evidence[1].observed.starts_with("4500 B"), "{:?}", finding.evidence);
    }

    #[test]
    fn a_controller_that_was_read_tells_an_overrun_from_random_loss() {
        let claim = |dropped: f64| {
            let figures = [("goodput", 40e6), ("retransmit_ratio", 0.33), ("rtt", 0.0012), ("rtt_min", 0.0003)];
            let figures: Vec<_> = figures.into_iter().chain([("controller_dropped", dropped)]).collect();
            FireHose.judge(&point(&figures)).expect("it loses")
        };
        let overrun = claim(812.0);
        assert!(overrun.claim.ends_with("the buffer of the network controller"), "{}", overrun.claim);
        assert_eq!(overrun.evidence[2].observed, "the network controller dropped 812 frames");
        assert!(claim(0.0).claim.starts_with("the path loses at random"));
    }

    #[test]
    fn it_is_silent_without_loss_and_where_a_deep_queue_overflows() {
        let clean = [("goodput", 94e6), ("retransmit_ratio", 0.0001), ("rtt", 0.0012), ("rtt_min", 0.0003)];
        assert_eq!(FireHose.judge(&point(&clean)), None);
        let deep = [("goodput", 94e6), ("retransmit_ratio", 0.02), ("rtt", 0.04), ("rtt_min", 0.001)];
        assert_eq!(FireHose.judge(&point(&deep)), None);
    }
}
