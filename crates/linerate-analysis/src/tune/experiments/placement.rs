//! Packets received spread over CPUs (RPS), interrupts of the queues let go to any of them, and the interface polled in threads of its own (threaded NAPI), at the receiver.
//!
//! What speaks for it: one CPU is full of softirqs. What it costs: packets cross caches, and connections whose work was on one CPU
//! take two.

use super::{By, Candidate, FULL, Known, LEAST_EFFECT, TuningExperiment};
use crate::End;

/// See the file.
pub(super) struct Placement;

impl TuningExperiment for Placement {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn summary(&self) -> &'static str {
        "received packets or interrupts spread over all CPUs, or packets polled in threads, where one CPU is full of softirqs"
    }

    fn asks(&self) -> &'static [&'static str] {
        &["irq_cpus", "rps_cpus", "threaded"]
    }

    fn candidates(&self, path: &Known<'_>) -> Vec<Candidate> {
        let n_cpus = path.receiver.n_cpus;
        let Some(full) = path.value("softirq_core").filter(|cores| *cores > FULL && n_cpus > 1) else {
            return Vec::new();
        };
        let candidate = |setting: &'static str, after: String, name: &str| {
            let before = path.receiver.settings.get(setting).filter(|before| **before != after)?;
            Some(Candidate {
                name: name.to_owned(),
                end: End::Receiver,
                setting,
                by: By::Agent,
                before: before.clone(),
                after,
                why: format!("softirqs take {:.0} % of one of {n_cpus} CPUs", full * 100.0),
                ratio: [LEAST_EFFECT, path.room().max(LEAST_EFFECT).min(n_cpus as f64)],
            })
        };
        let spread = [("irq_cpus", "interrupts on any CPU"), ("rps_cpus", "packets spread over all CPUs")];
        let spread = spread.into_iter().filter_map(|(setting, name)| candidate(setting, path.receiver.all_cpus.clone(), name));
        spread.chain(candidate("threaded", "1".into(), "polled in threads")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{host, point};
    use super::*;

    #[test]
    fn packets_are_spread_where_one_cpu_is_full() {
        let tried = |full: f64| {
            let point = point(0.3, &[("softirq_core", full)]);
            let receiver = host(&[("rps_cpus", "0"), ("threaded", "0")]);
            Placement.candidates(&Known { point: &point, sender: host(&[]), receiver, flood: None, dropped: None })
        };
        let found = tried(0.95);
        assert_eq!(found.iter().map(|c| c.after.as_str()).collect::<Vec<_>>(), ["f", "1"]);
        assert!(tried(0.5).is_empty());
        let point = point(0.3, &[("softirq_core", 0.95)]);
        let receiver = host(&[("irq_cpus", "2")]);
        let known = Known { point: &point, sender: host(&[]), receiver, flood: None, dropped: None };
        assert_eq!(Placement.candidates(&known)[0].name, "interrupts on any CPU");
    }
}
