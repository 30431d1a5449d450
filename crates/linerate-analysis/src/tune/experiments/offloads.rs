//! Offloads of the interface that are off switched on: GRO at the receiver, TSO and GSO at the
//! sender.
//!
//! Evidence: a worker or the kernel's softirqs are short of CPU, and every segment crosses the
//! stack by itself. Cost: segments arrive in bunches, so that a short answer may wait for a long
//! one before it.

use linerate_model::metric;

use super::{Hindrance, Known, LEAST_EFFECT, Looked, Proposal, TuningExperiment};
use crate::PathEnd;

/// Each offload, and the end where it is switched.
const SWITCHES: [(&str, PathEnd); 3] =
    [("gro", PathEnd::Receiver), ("gso", PathEnd::Sender), ("tso", PathEnd::Sender)];
/// CPU that softirqs take of one core, or a worker of its own, from which cutting and merging is
/// worth something.
const BUSY: f64 = 0.8;
/// Segments in the largest packet the stack carries whole: 64 KiB of 1448 bytes.
const MOST: f64 = 45.0;

/// Experiment with offloads.
pub(super) const EXPERIMENT: TuningExperiment = TuningExperiment {
    name: "offloads",
    summary: "GRO at the receiver, GSO and TSO at the sender switched on, where an end is short of \
        CPU and they are off",
    asks: &["gro", "gso", "tso"],
    floods: false,
    look,
};

fn look(path: &Known<'_>) -> Vec<Looked> {
    SWITCHES.into_iter().map(|switch| candidate(path, switch)).collect()
}

/// Returns the candidate that switches `setting` on at `end`, where the CPU use is high.
fn candidate(path: &Known<'_>, (setting, end): (&'static str, PathEnd)) -> Looked {
    let is_sender = end == PathEnd::Sender;
    let cpu = if is_sender { metric::SENDER_CPU } else { metric::RECEIVER_CPU };
    path.at(end, setting, |before| {
        if before != "0" {
            return Err(Hindrance::Already(before.to_owned()));
        }
        let busiest = if path.value(cpu) > path.value(metric::SOFTIRQ_CORE) {
            cpu
        } else {
            metric::SOFTIRQ_CORE
        };
        Ok(Proposal {
            after: "1".into(),
            evidence: vec![path.share(busiest, BUSY)?],
            ratio: [LEAST_EFFECT, MOST.min(path.room().max(LEAST_EFFECT))],
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::HindranceKind::{AlreadySo, NotOffered, NothingSpeaksForIt};
    use super::super::cases::{host, known, parted, point};
    #[test]
    fn what_is_off_is_switched_on_where_cpu_is_short() {
        let tried = |cpu: f64, value: &str| {
            let point = point(0.3, &[("receiver_cpu", cpu)]);
            let (found, hindered) =
                parted(super::look(&known(&point, host(&[("tso", "0")]), host(&[("gro", value)]))));
            (found.into_iter().map(|found| found.setting).collect::<Vec<_>>(), hindered)
        };
        assert_eq!(tried(0.95, "0"), (vec!["gro"], vec![NotOffered, NothingSpeaksForIt]));
        assert_eq!(tried(0.95, "1").1, [AlreadySo, NotOffered, NothingSpeaksForIt]);
        assert_eq!(tried(0.3, "0").1, [NothingSpeaksForIt, NotOffered, NothingSpeaksForIt]);
    }
}
