//! Bytes that are due at a rate.

use std::time::Duration;

/// Longest time for which a sender may catch up: after a longer pause of the program, the bytes of
/// the pause are not sent in one burst.
const CATCHES_UP: Duration = Duration::from_millis(100);

/// Pace of one stream.
#[derive(Clone, Debug)]
pub struct Pace {
    /// `None` for as fast as possible.
    bytes_per_second: Option<f64>,
    /// Time from which on bytes are due.
    from: Duration,
    /// Bytes sent since then.
    sent: u64,
}

impl Pace {
    /// Creates the pace of `bits_per_second` from time 0.
    #[must_use]
    pub fn new(bits_per_second: Option<u64>) -> Self {
        let bytes_per_second = bits_per_second.map(|bits| bits as f64 / 8.0);
        Self { bytes_per_second, from: Duration::ZERO, sent: 0 }
    }

    /// Returns how many bytes are due at `now`; `u64::MAX` without a rate.
    pub fn due(&mut self, now: Duration) -> u64 {
        let Some(rate) = self.bytes_per_second else { return u64::MAX };
        let sent_for = self.sent as f64 / rate;
        let late = now.saturating_sub(self.from).as_secs_f64() - sent_for;
        if late > CATCHES_UP.as_secs_f64() {
            (self.from, self.sent) = (now - CATCHES_UP, 0);
        }
        let earned = now.saturating_sub(self.from).as_secs_f64() * rate;
        (earned as u64).saturating_sub(self.sent)
    }

    /// Returns the time at which `bytes` are due; `None` if they are at any time.
    #[must_use]
    pub fn when(&self, bytes: u64) -> Option<Duration> {
        let rate = self.bytes_per_second?;
        let seconds = (self.sent + bytes) as f64 / rate;
        // Rounded up, or the bytes would not be due at that time.
        let nanos = (seconds * 1e9).ceil() as u64 + 1;
        Some(self.from.saturating_add(Duration::from_nanos(nanos)))
    }

    /// Returns the bytes of `span`; `u64::MAX` without a rate.
    #[must_use]
    pub fn in_span(&self, span: Duration) -> u64 {
        self.bytes_per_second.map_or(u64::MAX, |rate| (rate * span.as_secs_f64()) as u64)
    }

    /// Counts `bytes` that were sent.
    pub fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn bytes_are_due_at_the_rate_and_a_pause_is_not_made_up_for() {
        let mut pace = Pace::new(Some(8_000_000));
        assert_eq!(pace.due(MS(0)), 0);
        assert_eq!(pace.due(MS(10)), 10_000);
        pace.sent(10_000);
        assert_eq!(pace.due(MS(10)), 0);
        let at = pace.when(1_000).expect("it has a rate");
        assert!(at > MS(11) && at < MS(11) + Duration::from_micros(1), "{at:?}");
        assert!(pace.due(at) >= 1_000);
        assert_eq!(pace.due(MS(5_000)), 100_000, "the bytes of 100 ms");
        let mut free = Pace::new(None);
        assert_eq!((free.due(MS(0)), free.when(1)), (u64::MAX, None));
    }
}
