//! How slowly an application behind a stream works: what it produces, or takes, a second.
//!
//! It is what a disk, a database or a slow consumer does to a connection: the socket is left alone
//! until there is something to send, or room for what has come. Payload of one thread, all its
//! connections together; turns are taken as they come, so that single ones may be a turn's bytes
//! early. What it is not: pacing by the kernel (`pacing_rate`), which spaces packets.

use linerate_model::{BitRate, Counter};

const BITS_PER_BYTE: f64 = 8.0;

/// An application's pace.
#[derive(Debug)]
pub(super) struct Pace {
    nanos_per_byte: f64,
    counter: Counter,
    /// When the first turn was; nothing is owed for the time before.
    started: Option<u64>,
    bytes: u64,
}

impl Pace {
    /// Of an application that produces (`sends`), or takes, `rate`.
    pub(super) fn new(rate: BitRate, sends: bool) -> Self {
        let counter = if sends { Counter::PayloadSent } else { Counter::PayloadReceived };
        Self { nanos_per_byte: BITS_PER_BYTE * 1e9 / rate.0, counter, started: None, bytes: 0 }
    }

    /// What it counts.
    pub(super) fn counter(&self) -> Counter {
        self.counter
    }

    /// By how many nanoseconds a turn at `now` would be too early.
    pub(super) fn early(&mut self, now: u64) -> u64 {
        let started = *self.started.get_or_insert(now);
        let due = started + (self.bytes as f64 * self.nanos_per_byte) as u64;
        due.saturating_sub(now)
    }

    /// Counts what a turn has moved.
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
