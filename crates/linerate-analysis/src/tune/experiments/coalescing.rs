//! Fewer interrupts of the receiver's interface: adaptive receive coalescing, or a wait of some microseconds, where it has neither.
//!
//! What speaks for it: one CPU is full of softirqs, and every packet interrupts. What it costs: a short answer waits as long. Where the driver offers
//! no such thing, its value is not known here and nothing is tried.

use super::{By, Candidate, FULL, Known, LEAST_EFFECT, TuningExperiment};
use crate::End;

/// Each with the value that is tried in place of zero: adaptive, or a wait in which a gigabit brings four full frames.
const TRIED: [(&str, &str); 2] = [("adaptive_rx", "1"), ("rx_usecs", "50")];
/// What interrupts take of a full CPU at the most.
const MOST: f64 = 3.0;

/// See the file.
pub(super) struct Coalescing;

impl TuningExperiment for Coalescing {
    fn name(&self) -> &'static str {
        "coalescing"
    }

    fn summary(&self) -> &'static str {
        "fewer interrupts at the receiver, where one CPU is full of softirqs and the interface waits for nothing"
    }

    fn asks(&self) -> &'static [&'static str] {
        &["adaptive_rx", "rx_usecs"]
    }

    fn candidates(&self, path: &Known<'_>) -> Vec<Candidate> {
        let Some(full) = path.value("softirq_core").filter(|cores| *cores > FULL) else { return Vec::new() };
        let candidate = |(setting, after): (&'static str, &str)| {
            let before = path.receiver.settings.get(setting).filter(|value| *value == "0")?;
            Some(Candidate {
                name: format!("{setting} {after}"),
                end: End::Receiver,
                setting,
                by: By::Agent,
                before: before.clone(),
                after: after.to_owned(),
                why: format!("softirqs take {:.0} % of a CPU, and the interface interrupts at once", full * 100.0),
                ratio: [LEAST_EFFECT, path.room().clamp(LEAST_EFFECT, MOST)],
            })
        };
        TRIED.into_iter().filter_map(candidate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{host, point};
    use super::*;

    #[test]
    fn an_interface_that_waits_for_nothing_is_made_to_where_softirqs_fill_a_cpu() {
        let tried = |full: f64, settings: &[(&str, &str)]| {
            let point = point(0.3, &[("softirq_core", full)]);
            let receiver = host(settings);
            let known = Known { point: &point, sender: host(&[]), receiver, flood: None, dropped: None };
            Coalescing.candidates(&known).iter().map(|found| found.name.clone()).collect::<Vec<_>>()
        };
        let offered = [("adaptive_rx", "0"), ("rx_usecs", "0")];
        assert_eq!(tried(0.95, &offered), ["adaptive_rx 1", "rx_usecs 50"]);
        assert_eq!(tried(0.95, &[("adaptive_rx", "1"), ("rx_usecs", "8")]), [""; 0], "it waits already");
        assert_eq!(tried(0.5, &offered), [""; 0], "no CPU is full");
        assert_eq!(tried(0.95, &[]), [""; 0], "the device offers none");
    }
}
