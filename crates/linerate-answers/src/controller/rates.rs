//! Rates of a controller's pass-through counters, between two readings.

use linerate_packet::ncsi::PassThroughStatistics;
use serde_json::{Map, Value, json};

use super::Source;

/// Counters shown to a person: packets from and to the network, and those dropped.
const FROM_NETWORK: usize = 5;
const FROM_NETWORK_DROPPED: usize = 6;
const TO_NETWORK: usize = 0;
const TO_NETWORK_DROPPED: usize = 1;

/// Growth of the counters between two readings.
#[derive(Clone, Debug)]
pub struct Rates {
    grown: Vec<Option<u64>>,
    seconds: f64,
}

impl Rates {
    /// Returns the growth from `before` to `now`, which are `seconds` apart.
    #[must_use]
    pub fn between(
        before: &PassThroughStatistics,
        now: &PassThroughStatistics,
        seconds: f64,
    ) -> Self {
        let grown = (0..before.counters.len())
            .map(|idx| growth(before.counters[idx], now.counters[idx], now.width(idx)))
            .collect();
        Self { grown, seconds }
    }

    /// Returns the rates of all counters as JSON.
    #[must_use]
    pub fn json(&self, source: Source<'_>) -> Value {
        let rate = |grown: &Option<u64>| json!(grown.map(|n| n as f64 / self.seconds));
        let rates: Map<String, Value> = PassThroughStatistics::NAMES
            .iter()
            .zip(&self.grown)
            .map(|(name, grown)| (name.replace(' ', "_"), rate(grown)))
            .collect();
        source.named_in(json!({ "seconds": self.seconds, "per_second": rates }))
    }

    /// Returns the rates of both directions in one line.
    #[must_use]
    pub fn line(&self) -> String {
        let rate = |idx: usize| {
            self.grown[idx].map_or("n/a".to_owned(), |n| format!("{:.0}", n as f64 / self.seconds))
        };
        let share = match (self.grown[FROM_NETWORK], self.grown[FROM_NETWORK_DROPPED]) {
            // Without received packets there is no share.
            (Some(received @ 1..), Some(dropped)) => {
                format!("{:.2} % dropped", dropped as f64 / received as f64 * 100.0)
            }
            _ => String::new(),
        };
        format!(
            "from the network {:>8}/s, dropped {:>7}/s {share:>16}   to the network {:>8}/s, \
                dropped {:>7}/s",
            rate(FROM_NETWORK),
            rate(FROM_NETWORK_DROPPED),
            rate(TO_NETWORK),
            rate(TO_NETWORK_DROPPED),
        )
    }
}

/// Returns the growth of a counter of `width` bits, or `None` if it fell without having wrapped: it
/// was cleared, and its growth is not known.
fn growth(before: Option<u64>, now: Option<u64>, width: u32) -> Option<u64> {
    /// A counter this far from its end has not wrapped within a second.
    const NEAR_THE_END: u64 = 1 << 28;
    let (before, now) = (before?, now?);
    if now >= before {
        return Some(now - before);
    }
    // Only 32-bit counters can wrap between two readings a second apart.
    let wrapped = width == u32::BITS && (1 << u32::BITS) - before < NEAR_THE_END;
    wrapped.then(|| (1 << u32::BITS) - before + now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_wraps_grows_and_one_that_was_cleared_is_not_known() {
        assert_eq!(growth(Some(10), Some(15), 32), Some(5));
        assert_eq!(growth(Some(u64::from(u32::MAX)), Some(4), 32), Some(5));
        assert_eq!(growth(Some(5000), Some(4), 32), None);
        assert_eq!(growth(Some(5000), Some(4), 64), None);
        assert_eq!(growth(None, Some(4), 32), None, "all ones: not supported");
    }

    #[test]
    fn a_line_has_the_share_that_was_dropped() {
        let mut grown = vec![None; 10];
        (grown[FROM_NETWORK], grown[FROM_NETWORK_DROPPED]) = (Some(200), Some(50));
        let line = Rates { grown, seconds: 2.0 }.line();
        assert!(line.contains("100/s") && line.contains("25.00 % dropped"), "{line}");
        assert!(line.contains("n/a"), "{line}");
    }
}
