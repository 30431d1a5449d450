//! Limit on the reports of a host about one trial: above the needs of any agent, below what would
//! fill a ledger.

use linerate_model::{Nanos, SampleColumn};

use crate::wire::Message;

/// Limits by kind of report: a burst, and a rate per second of the trial.
const ALLOWED: [Allowed; 3] = [
    // 64 workers at 100 intervals a second, and the state of their flows.
    Allowed { what: "intervals and flows", at_once: 50_000, a_second: 10_000 },
    // All readings may come at the end: 10,000 series read 100 times a second.
    Allowed { what: "readings", at_once: 1_000_000, a_second: 1_000_000 },
    Allowed { what: "incidents", at_once: 500, a_second: 10 },
];

struct Allowed {
    what: &'static str,
    at_once: u64,
    a_second: u64,
}

/// Counts of a host's reports about a trial.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
    since: Nanos,
    counts: [u64; ALLOWED.len()],
}

impl Reported {
    /// Starts to count for a trial that is prepared `now`.
    pub(super) fn nothing(now: Nanos) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// Counts the reports in `message`.
    ///
    /// # Errors
    /// If a limit is exceeded; the text names it.
    pub(super) fn add(&mut self, message: &Message, now: Nanos) -> Result<(), String> {
        // The limit grows with time, so that long trials may report more.
        let seconds = now.since(self.since).0 as f64 / 1e9;
        for ((count, more), allowed) in self.counts.iter_mut().zip(amounts(message)).zip(&ALLOWED) {
            *count = count.saturating_add(more);
            let most = allowed.at_once.saturating_add((allowed.a_second as f64 * seconds) as u64);
            if more > 0 && *count > most {
                let what = allowed.what;
                return Err(format!(
                    "it reported {count} {what} of one trial, more than the {most} allowed so far"
                ));
            }
        }
        Ok(())
    }
}

fn amounts(message: &Message) -> [u64; ALLOWED.len()] {
    match message {
        Message::Intervals { intervals, .. } => {
            let flows: usize = intervals.iter().map(|interval| interval.flows.len() / 16).sum();
            [(intervals.len() + flows) as u64, 0, 0]
        }
        Message::FlowsEnded { flows, .. } => [flows.len() as u64, 0, 0],
        Message::Samples { block, .. } => {
            let cells: usize = block.columns.iter().map(SampleColumn::len).sum();
            [
                0,
                (block.series.len() + block.times.len() + block.unavailable.len() + cells) as u64,
                0,
            ]
        }
        Message::Incident { .. } => [0, 0, 1],
        _ => [0; ALLOWED.len()],
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::{Incident, IncidentKind, TrialId};

    use super::*;

    #[test]
    fn incidents_may_come_in_a_burst_or_slowly_and_no_faster() {
        let incident =
            Incident { host: String::new(), kind: IncidentKind::Failed, message: "x".into() };
        let message = Message::Incident { trial: Some(TrialId(1)), incident };
        let start = Nanos::from_secs(5);
        let mut reported = Reported::nothing(start);
        assert!((0..500).all(|_| reported.add(&message, start).is_ok()));
        let why = reported.add(&message, start).expect_err("one more than allowed");
        assert_eq!(why, "it reported 501 incidents of one trial, more than the 500 allowed so far");
        let other = Message::FlowsEnded {
            trial: TrialId(1),
            job: 0,
            side: linerate_model::Side::Active,
            flows: Vec::new(),
        };
        assert_eq!(
            reported.add(&other, start),
            Ok(()),
            "a message without incidents is within their limit"
        );
        let mut slow = Reported::nothing(start);
        assert!(
            (0..5_000).all(|n| slow.add(&message, start + Nanos::from_millis(100 * n)).is_ok())
        );
    }
}
