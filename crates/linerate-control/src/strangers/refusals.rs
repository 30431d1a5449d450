//! Log lines about refused strangers: the first at once, then one line a minute.

use std::time::{Duration, Instant};

/// Interval between two lines.
const QUIET: Duration = Duration::from_secs(60);

/// Strangers refused since the last line.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    logged_at: Option<Instant>,
    n_unlogged: u64,
    last: String,
}

impl Refusals {
    /// Counts a refusal. Returns the line to log, if one is due.
    pub(crate) fn note(&mut self, refusal: String, now: Instant) -> Option<String> {
        self.n_unlogged += 1;
        self.last = refusal;
        self.due(now)
    }

    /// Returns the line to log, if strangers were refused and the last line is old enough.
    pub(crate) fn due(&mut self, now: Instant) -> Option<String> {
        let is_quiet = self.logged_at.is_some_and(|at| now < at + QUIET);
        if self.n_unlogged == 0 || is_quiet {
            return None;
        }
        let before =
            self.logged_at.replace(now).map_or(0, |at| now.saturating_duration_since(at).as_secs());
        let last = std::mem::take(&mut self.last);
        match std::mem::take(&mut self.n_unlogged) {
            1 => Some(format!("refused {last}")),
            n => Some(format!(
                "refused {n} connections in the last {before} s; the last one: {last}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refusal_is_logged_at_once_and_a_flood_in_one_line_a_minute() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.note("a: why".into(), start).as_deref(), Some("refused a: why"));
        // Two minutes of 5,000 a second.
        let at = |n: u32| start + Duration::from_micros(200) * n;
        let lines: Vec<String> =
            (1..=600_000).filter_map(|n| refusals.note(format!("b{n}: why"), at(n))).collect();
        let expected = [300_000, 600_000].map(|n| {
            format!("refused 300000 connections in the last 60 s; the last one: b{n}: why")
        });
        assert_eq!(lines, expected);
        assert_eq!(refusals.due(at(900_000)), None, "no refusal since");
        assert_eq!(refusals.note("c: why".into(), at(900_001)).as_deref(), Some("refused c: why"));
    }

    #[test]
    fn a_refusal_within_the_minute_is_logged_at_its_end() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        refusals.note("a: why".into(), start);
        assert_eq!(refusals.note("b: why".into(), start + Duration::from_secs(1)), None);
        assert_eq!(refusals.due(start + Duration::from_secs(59)), None);
        assert_eq!(refusals.due(start + QUIET).as_deref(), Some("refused b: why"));
    }
}
