//! Received packets spread over CPUs (RPS), interrupts of the queues allowed on any of them, and
//! the interface polled in threads of its own (threaded NAPI), at the receiver.
//!
//! Evidence: one CPU is full of softirqs. Cost: packets cross caches, and connections whose work
//! was on one CPU use two.

use super::{Hindrance, Known, LEAST_EFFECT, Looked, Proposal, TuningExperiment};
use crate::PathEnd;

/// Experiment with the placement of packet processing.
pub(super) const EXPERIMENT: TuningExperiment = TuningExperiment {
    name: "placement",
    summary: "received packets or interrupts spread over all CPUs, or packets polled in threads, \
        where one CPU is full of softirqs",
    asks: &["irq_cpus", "rps_cpus", "threaded"],
    floods: false,
    look,
};

fn look(path: &Known<'_>) -> Vec<Looked> {
    let all_cpus = path.receiver.all_cpus.as_str();
    let changes = [("irq_cpus", all_cpus), ("rps_cpus", all_cpus), ("threaded", "1")];
    changes.into_iter().map(|change| candidate(path, change)).collect()
}

/// Returns the candidate that sets `setting` to `after` at the receiver.
fn candidate(path: &Known<'_>, (setting, after): (&'static str, &str)) -> Looked {
    let n_cpus = path.receiver.n_cpus;
    path.at(PathEnd::Receiver, setting, |before| {
        if before == after {
            return Err(Hindrance::Already(before.to_owned()));
        }
        if n_cpus < 2 {
            return Err(Hindrance::OneCpu);
        }
        Ok(Proposal {
            after: after.to_owned(),
            evidence: vec![path.full_of_softirqs()?],
            ratio: [LEAST_EFFECT, path.room().max(LEAST_EFFECT).min(n_cpus as f64)],
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::HindranceKind::{AlreadySo, NotOffered, NothingSpeaksForIt};
    use super::super::Host;
    use super::super::cases::{host, known, parted, point};
    #[test]
    fn packets_are_spread_where_one_cpu_is_full() {
        let tried = |full: f64, receiver: Host| {
            let point = point(0.3, &[("softirq_core", full)]);
            let (found, hindered) = parted(super::look(&known(&point, host(&[]), receiver)));
            (
                found.into_iter().map(|c| format!("{} {}", c.setting, c.after)).collect::<Vec<_>>(),
                hindered,
            )
        };
        let as_made = || host(&[("rps_cpus", "0"), ("threaded", "0")]);
        assert_eq!(
            tried(0.95, as_made()),
            (vec!["rps_cpus f".into(), "threaded 1".into()], vec![NotOffered])
        );
        assert_eq!(tried(0.5, as_made()).1, [NotOffered, NothingSpeaksForIt, NothingSpeaksForIt]);
        assert_eq!(
            tried(0.95, Host { n_cpus: 1, ..as_made() }).1,
            [NotOffered, AlreadySo, AlreadySo]
        );
        let one_cpu = host(&[("irq_cpus", "2"), ("rps_cpus", "f"), ("threaded", "1")]);
        assert_eq!(tried(0.95, one_cpu), (vec!["irq_cpus f".into()], vec![AlreadySo; 2]));
    }
}
