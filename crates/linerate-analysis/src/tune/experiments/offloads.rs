//! Offloads of the interface that are off switched on: GRO at the receiver, TSO and GSO at the sender.
//!
//! What speaks for it: a worker or the kernel's softirqs are short of CPU, and every segment crosses the stack by itself. What it costs:
//! segments arrive in bunches, so that a short answer may wait for a long one before it.

use super::{By, Candidate, Known, LEAST_EFFECT, TuningExperiment};
use crate::End;

/// Where each is switched, and whose want of CPU speaks for it.
const SWITCHES: [(&str, End, &str); 3] =
    [("gro", End::Receiver, "receiver_cpu"), ("gso", End::Sender, "sender_cpu"), ("tso", End::Sender, "sender_cpu")];
/// CPU that softirqs take of one core, or a worker of its own, from which cutting and merging is worth something.
const BUSY: f64 = 0.8;
/// Segments in the largest packet the stack carries whole: 64 KiB of 1448 bytes.
const MOST: f64 = 45.0;

/// See the file.
pub(super) struct Offloads;

impl TuningExperiment for Offloads {
    fn name(&self) -> &'static str {
        "offloads"
    }

    fn summary(&self) -> &'static str {
        "GRO at the receiver, GSO and TSO at the sender switched on, where an end is short of CPU and they are off"
    }

    fn asks(&self) -> &'static [&'static str] {
        &["gro", "gso", "tso"]
    }

    fn candidates(&self, path: &Known<'_>) -> Vec<Candidate> {
        let candidate = |(setting, end, cpu): (&'static str, End, &str)| {
            let host = if end == End::Receiver { &path.receiver } else { &path.sender };
            let before = host.settings.get(setting).filter(|value| *value == "0")?;
            let used = [path.value(cpu), path.value("softirq_core")].into_iter().flatten().fold(0.0, f64::max);
            (used > BUSY).then(|| Candidate {
                name: format!("{setting} on"),
                end,
                setting,
                by: By::Agent,
                before: before.clone(),
                after: "1".into(),
                why: format!("{:.0} % of a core is used there, and every segment crosses by itself", used * 100.0),
                ratio: [LEAST_EFFECT, MOST.min(path.room().max(LEAST_EFFECT))],
            })
        };
        SWITCHES.into_iter().filter_map(candidate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{host, point};
    use super::*;

    #[test]
    fn what_is_off_is_switched_on_where_cpu_is_short() {
        let tried = |cpu: f64, value: &str| {
            let point = point(0.3, &[("receiver_cpu", cpu)]);
            let receiver = host(&[("gro", value)]);
            Offloads.candidates(&Known {
                point: &point,
                sender: host(&[("tso", "0")]),
                receiver,
                flood: None,
                dropped: None,
            })
        };
        let found = tried(0.95, "0");
        assert_eq!((found.len(), found[0].setting), (1, "gro"));
        assert!(tried(0.95, "1").is_empty() && tried(0.3, "0").is_empty());
    }
}
