//! A receive ring as large as the interface allows, at the receiver.
//!
//! Evidence: packets arrived for which the ring had no descriptor (`rx_missed_errors`,
//! `rx_fifo_errors`), because a burst was longer than the ring. Prediction: these losses end, and
//! goodput grows with the square root of the remaining loss (docs/methodology/diagnosis.md#rules,
//! D4), up to the path's room. Cost: memory for every descriptor, and a queue as long as the ring
//! in front of a CPU that is slow for longer than a burst lasts.
//!
//! Not covered: losses that a driver does not count, and which of a host's interfaces missed
//! packets, if several did.

use linerate_model::metric;

use super::{Hindrance, Known, LEAST_EFFECT, LOSSY, Looked, Missed, Proposal, TuningExperiment};
use crate::PathEnd;
use crate::diagnosis::Evidence;

const SETTING: &str = "rx_ring";
/// A model of loss is as good as this factor (docs/methodology/diagnosis.md#rules, D4).
const MODEL: f64 = 2.0;

/// Experiment with the receive ring.
pub(super) const EXPERIMENT: TuningExperiment = TuningExperiment {
    name: "rings",
    summary: "the largest receive ring at the receiver, where packets came for which it had no \
        room",
    asks: &[SETTING],
    floods: false,
    look,
};

fn look(path: &Known<'_>) -> Vec<Looked> {
    vec![path.at(PathEnd::Receiver, SETTING, |before| {
        let largest = path.receiver.largest_ring.map(|largest| largest.to_string());
        let after = largest.filter(|largest| largest != before);
        let after = after.ok_or_else(|| Hindrance::Already(before.to_owned()))?;
        let (missed, evidence) = overrun(path)?;
        Ok(Proposal {
            evidence: vec![evidence],
            after,
            ratio: [LEAST_EFFECT, yields(path, missed).max(LEAST_EFFECT)],
        })
    })]
}

/// Returns the share of packets for which the ring had no room, and the evidence of it, where that
/// is enough to matter.
fn overrun(path: &Known<'_>) -> Result<(f64, Evidence), Hindrance> {
    let Missed { missed, received } = path.missed.ok_or(Hindrance::NoEvidence(None))?;
    let share = missed as f64 / (missed + received).max(1) as f64;
    let evidence = Evidence::RingMissed { missed, received };
    if share > LOSSY {
        return Ok((share, evidence));
    }
    Err(Hindrance::NoEvidence(Some(evidence)))
}

/// Returns the largest factor of goodput when a loss of this ratio ends.
fn yields(path: &Known<'_>, missed: f64) -> f64 {
    let again = path.value(metric::RETRANSMIT_RATIO).unwrap_or(missed);
    let left = again - missed;
    if left <= LOSSY { path.room() } else { path.room().min((again / left).sqrt() * MODEL) }
}

#[cfg(test)]
mod tests {
    use super::super::HindranceKind::{AlreadySo, NotOffered, NothingSpeaksForIt};
    use super::super::cases::{host, known, parted, point};
    use super::super::{Candidate, HindranceKind};
    use super::*;

    fn looked(
        again: f64,
        ring: &[(&'static str, &str)],
        missed: Option<u64>,
    ) -> (Vec<Candidate>, Vec<HindranceKind>) {
        let point = point(0.2, &[("retransmit_ratio", again)]);
        let missed = missed.map(|missed| Missed { missed, received: 10_000 - missed });
        parted(super::look(&Known { missed, ..known(&point, host(&[]), host(ring)) }))
    }

    #[test]
    fn a_ring_that_bursts_overrun_is_made_as_large_as_it_can_be() {
        let found = looked(0.01, &[(SETTING, "256")], Some(100)).0;
        assert_eq!((found[0].after.as_str(), found[0].end), ("1024", PathEnd::Receiver));
        let missed = Evidence::RingMissed { missed: 100, received: 9_900 };
        assert_eq!(found[0].evidence, [missed]);
        assert!((found[0].ratio[1] - 5.0).abs() < 1e-9, "nothing else is lost: all of the room");
        // A quarter of the loss is left: twice the goodput by the model, four times with its
        // factor.
        let ratio = looked(0.04, &[(SETTING, "256")], Some(300)).0[0].ratio;
        assert!((ratio[1] - 4.0).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn a_ring_that_took_everything_or_is_as_large_as_it_can_be_is_left_alone() {
        let hindered = |ring: &[(&'static str, &str)], missed| looked(0.01, ring, missed).1;
        assert_eq!(hindered(&[(SETTING, "256")], Some(0)), [NothingSpeaksForIt]);
        assert_eq!(hindered(&[(SETTING, "256")], None), [NothingSpeaksForIt]);
        assert_eq!(hindered(&[(SETTING, "1024")], Some(100)), [AlreadySo]);
        assert_eq!(hindered(&[], Some(100)), [NotOffered]);
    }
}
