//! What is said of strangers that were turned away: the first at once, then one line a minute.

use std::time::{Duration, Instant};

/// Between two lines.
const QUIET: Duration = Duration::from_secs(60);

/// Strangers turned away since the last line.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    said_at: Option<Instant>,
    unsaid: u64,
    last: String,
}

impl Refusals {
    /// Counts one; returns the line to print, if one is due.
    pub(crate) fn note(&mut self, told: String, now: Instant) -> Option<String> {
        self.unsaid += 1;
        self.last = told;
        self.due(now)
    }

    /// Returns the line to print, if strangers were turned away and the last line is old enough.
    pub(crate) fn due(&mut self, now: Instant) -> Option<String> {
        let is_quiet = self.said_at.is_some_and(|at| now < at + QUIET);
        if self.unsaid == 0 || is_quiet {
            return None;
        }
        let before =
            self.said_at.replace(now).map_or(0, |at| now.saturating_duration_since(at).as_secs());
        let last = std::mem::take(&mut self.last);
        match std::mem::take(&mut self.unsaid) {
            1 => Some(format!("turned away {last}")),
            n => Some(format!(
                "turned away {n} connections in the last {before} s; the last one: {last}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_a_flood_in_one_line_a_minute() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.note("a: why".into(), start).as_deref(), Some("turned away a: why"));
        // Two minutes of 5,000 a second.
        let at = |n: u32| start + Duration::from_micros(200) * n;
        let lines: Vec<String> =
            (1..=600_000).filter_map(|n| refusals.note(format!("b{n}: why"), at(n))).collect();
        let expected = [300_000, 600_000].map(|n| {
            format!("turned away 300000 connections in the last 60 s; the last one: b{n}: why")
        });
        assert_eq!(lines, expected);
        assert_eq!(refusals.due(at(900_000)), None, "nobody came since");
        assert_eq!(
            refusals.note("c: why".into(), at(900_001)).as_deref(),
            Some("turned away c: why")
        );
    }

    #[test]
    fn what_was_not_told_is_told_when_the_minute_is_over() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        refusals.note("a: why".into(), start);
        assert_eq!(refusals.note("b: why".into(), start + Duration::from_secs(1)), None);
        assert_eq!(refusals.due(start + Duration::from_secs(59)), None);
        assert_eq!(refusals.due(start + QUIET).as_deref(), Some("turned away b: why"));
    }
}
