//! Fewer interrupts of the receiver's interface: adaptive receive coalescing, or a wait of some
//! microseconds where it has neither.
//!
//! Evidence: one CPU is full of softirqs, and every packet interrupts. Cost: a short answer waits
//! as long.

use super::{Hindrance, Known, LEAST_EFFECT, Looked, Proposal, TuningExperiment};
use crate::PathEnd;

/// Each with the value that is tried in place of zero: adaptive, or a wait in which a gigabit
/// brings four full frames.
const TRIED: [(&str, &str); 2] = [("adaptive_rx", "1"), ("rx_usecs", "50")];
/// Largest share of a full CPU that interrupts may use.
const MOST: f64 = 3.0;

/// Experiment with interrupt coalescing.
pub(super) const EXPERIMENT: TuningExperiment = TuningExperiment {
    name: "coalescing",
    summary: "fewer interrupts at the receiver, where one CPU is full of softirqs and the \
        interface waits for nothing",
    asks: &["adaptive_rx", "rx_usecs"],
    floods: false,
    look,
};

fn look(path: &Known<'_>) -> Vec<Looked> {
    TRIED.into_iter().map(|tried| candidate(path, tried)).collect()
}

/// Returns the candidate that sets `setting` to `after` at the receiver.
fn candidate(path: &Known<'_>, (setting, after): (&'static str, &str)) -> Looked {
    path.at(PathEnd::Receiver, setting, |before| {
        if before != "0" {
            return Err(Hindrance::Already(before.to_owned()));
        }
        Ok(Proposal {
            after: after.to_owned(),
            evidence: vec![path.full_of_softirqs()?],
            ratio: [LEAST_EFFECT, path.room().clamp(LEAST_EFFECT, MOST)],
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::Candidate;
    use super::super::HindranceKind::{AlreadySo, NotOffered, NothingSpeaksForIt};
    use super::super::cases::{host, known, parted, point};
    #[test]
    fn an_interface_that_waits_for_nothing_is_made_to_where_softirqs_fill_a_cpu() {
        let tried = |full: f64, settings: &[(&'static str, &str)]| {
            let point = point(0.3, &[("softirq_core", full)]);
            let (found, hindered) = parted(super::look(&known(&point, host(&[]), host(settings))));
            (found.iter().map(Candidate::name).collect::<Vec<_>>(), hindered)
        };
        let offered = [("adaptive_rx", "0"), ("rx_usecs", "0")];
        assert_eq!(tried(0.95, &offered).0, ["adaptive_rx 1", "rx_usecs 50"]);
        assert_eq!(
            tried(0.95, &[("adaptive_rx", "1"), ("rx_usecs", "8")]),
            (vec![], vec![AlreadySo; 2])
        );
        assert_eq!(tried(0.5, &offered), (vec![], vec![NothingSpeaksForIt; 2]));
        assert_eq!(tried(0.95, &[]), (vec![], vec![NotOffered; 2]));
    }
}
