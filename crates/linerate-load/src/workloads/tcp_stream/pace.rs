//! Pace of the application behind a stream: bytes per second that it produces or takes.
//!
//! It models a disk, a database or a slow consumer: the socket is not touched until there is
//! something to send, or room to receive. The rate is the payload of one thread over all its
//! connections; single turns may be early by the bytes of a turn. Pacing by the kernel
//! (`pacing_rate`) is different: it spaces packets.

use linerate_model::{BitRate, Counter};

const BITS_PER_BYTE: f64 = 8.0;

/// Pace of an application.
#[derive(Debug)]
pub(super) struct Pace {
    nanos_per_byte: f64,
    counter: Counter,
    /// Start of the first turn; the time before it earns no bytes.
    started: Option<u64>,
    bytes: u64,
}

impl Pace {
    /// Creates the pace of an application that produces (`sends`) or takes `rate`.
    pub(super) fn new(rate: BitRate, sends: bool) -> Self {
        let counter = if sends { Counter::PayloadSent } else { Counter::PayloadReceived };
        Self { nanos_per_byte: BITS_PER_BYTE * 1e9 / rate.0, counter, started: None, bytes: 0 }
    }

    /// Counter of its bytes.
    pub(super) fn counter(&self) -> Counter {
        self.counter
    }

    /// Returns how many nanoseconds too early a turn at `now` would be.
    pub(super) fn early(&mut self, now: u64) -> u64 {
        // The first turn starts the clock, so that time spent connecting earns nothing.
        let started = *self.started.get_or_insert(now);
        // From the total: rounding of single turns does not add up.
        let due = started + (self.bytes as f64 * self.nanos_per_byte) as u64;
        due.saturating_sub(now)
    }

    /// Counts the bytes that a turn has moved.
    pub(super) fn moved(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_due_when_the_bytes_before_it_have_had_their_time() {
        let mut pace = Pace::new(BitRate(8e9), true);
        assert_eq!(pace.early(1_000), 0);
        pace.moved(500);
        assert_eq!((pace.early(1_000), pace.early(1_400), pace.early(2_000)), (500, 100, 0));
    }
}
