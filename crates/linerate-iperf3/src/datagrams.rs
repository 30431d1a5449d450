//! Datagrams of a UDP stream: header, loss by numbers, jitter.
//!
//! A datagram begins with the sender's time (seconds and microseconds of any clock, 32 bits each)
//! and its number, from 1 on, in 32 or 64 bits; all big-endian. The rest is filler.

use std::time::Duration;

use linerate_packet::sequence::{Arrival, Sequence};

/// Smallest payload.
pub const LEAST_BYTES: usize = 16;

/// Writes the header of datagram `number`, sent at `at`.
///
/// # Panics
/// If `payload` is shorter than [`LEAST_BYTES`].
pub fn write_header(payload: &mut [u8], at: Duration, number: u64, is_64bit: bool) {
    // The other end computes with differences, so the seconds may wrap.
    payload[..4].copy_from_slice(&(at.as_secs() as u32).to_be_bytes());
    payload[4..8].copy_from_slice(&at.subsec_micros().to_be_bytes());
    match is_64bit {
        true => payload[8..16].copy_from_slice(&number.to_be_bytes()),
        false => payload[8..12].copy_from_slice(&(number as u32).to_be_bytes()),
    }
}

/// Returns the time and the number of a datagram; `None` if it is too short.
#[must_use]
pub fn read_header(payload: &[u8], is_64bit: bool) -> Option<(Duration, u64)> {
    let micros = u64::from(word(payload, 0)?) * 1_000_000 + u64::from(word(payload, 4)?);
    let number = match is_64bit {
        true => u64::from_be_bytes(*payload.get(8..)?.first_chunk()?),
        false => word(payload, 8)?.into(),
    };
    Some((Duration::from_micros(micros), number))
}

/// Returns the 32 bits at `at`.
fn word(payload: &[u8], at: usize) -> Option<u32> {
    let bytes = payload.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

/// Account of the datagrams that one stream received.
#[derive(Debug, Default)]
pub struct Account {
    seen: Sequence,
    /// Datagrams, each number once.
    pub unique: u64,
    /// Datagrams whose number had been seen.
    pub duplicates: u64,
    /// Datagrams after one with a higher number.
    pub reordered: u64,
    /// Changes of the transit time from one datagram to the next, without their signs: their sum in
    /// seconds, and their number.
    pub changes: (f64, u64),
    /// Smoothed jitter (RFC 1889 appendix A.8), seconds.
    pub jitter: f64,
    /// Transit time of the last datagram, seconds, with an unknown difference of the clocks.
    transit: Option<f64>,
}

impl Account {
    /// Counts the datagram `number`, sent at `sent` by the sender's clock and received at `at`.
    pub fn received(&mut self, number: u64, sent: Duration, at: Duration) {
        // Numbers begin at 1, and the window at 0.
        match self.seen.observe(number.saturating_sub(1)) {
            Arrival::InOrder => self.unique += 1,
            Arrival::Reordered | Arrival::Late => {
                self.unique += 1;
                self.reordered += 1;
            }
            Arrival::Duplicate => self.duplicates += 1,
        }
        let transit = at.as_secs_f64() - sent.as_secs_f64();
        if let Some(before) = self.transit.replace(transit) {
            /// Gain of the filter, RFC 1889.
            const GAIN: f64 = 1.0 / 16.0;
            let change = (transit - before).abs();
            self.changes = (self.changes.0 + change, self.changes.1 + 1);
            self.jitter += (change - self.jitter) * GAIN;
        }
    }

    /// Returns the highest number that arrived.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.seen.next()
    }

    /// Returns the datagrams lost of `sent`; those after the last arrival are among them.
    #[must_use]
    pub fn lost_of(&self, sent: u64) -> u64 {
        sent.max(self.highest()).saturating_sub(self.unique)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Account of `arrivals`, each 1 ms after the one before.
    fn account(arrivals: impl IntoIterator<Item = u64>) -> Account {
        let mut account = Account::default();
        for (n, number) in (1_u64..).zip(arrivals) {
            let at = Duration::from_millis(n);
            account.received(number, at, at);
        }
        account
    }

    #[test]
    fn the_five_patterns_of_loss_are_counted_to_the_last_datagram() {
        let every_tenth = || (1..=100).filter(|number| number % 10 != 0);
        let twice = |number: u64| if number % 10 == 1 { vec![number; 2] } else { vec![number] };
        for (arrivals, lost) in [
            ((1..=100).collect(), 0),
            (every_tenth().collect::<Vec<u64>>(), 10),
            ((1..=50).collect(), 50),
            (Vec::new(), 100),
            (every_tenth().flat_map(twice).collect(), 10),
        ] {
            assert_eq!(account(arrivals).lost_of(100), lost);
        }
    }

    #[test]
    fn jitter_is_that_of_the_times_of_transit() {
        let mut account = Account::default();
        let ms = Duration::from_millis;
        for (sent, at) in [(0, 100), (10, 110), (20, 136), (30, 130)] {
            account.received(sent / 10 + 1, ms(sent), ms(at));
        }
        // Differences of 0, 16 and 16 ms: 0, 1, and 1 + 15/16 ms.
        assert!((account.jitter - 1.9375e-3).abs() < 1e-9, "{}", account.jitter);
        let (sum, n) = account.changes;
        assert!((sum - 0.032).abs() < 1e-9 && n == 3, "{sum} {n}");
    }

    proptest! {
        #[test]
        fn a_header_reads_back(micros in 0..u64::from(u32::MAX) * 1_000_000, number: u64) {
            let (at, mut payload) = (Duration::from_micros(micros), [0; LEAST_BYTES]);
            write_header(&mut payload, at, number, true);
            prop_assert_eq!(read_header(&payload, true), Some((at, number)));
            write_header(&mut payload, at, number, false);
            let low = number & u64::from(u32::MAX);
            prop_assert_eq!(read_header(&payload, false), Some((at, low)));
            prop_assert_eq!(read_header(&payload[..11], false), None);
        }
    }
}
