//! Rate limit that the owner of a host sets for one trial, over all its jobs and workers.
//!
//! It is enforced at a place that every workload passes: between two steps of a worker. The limit
//! adds up what workers sent. While the sum exceeds what the time since the barrier allows, no step
//! is made that could send. A trial thus sends at most the rate times its time, plus one step of
//! each worker. The limit counts the bytes that workers count as sent: payload, and [`HEADERS`] for
//! each datagram and frame. It does not count headers of TCP segments and retransmissions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use linerate_model::{BitRate, Counter, Counters, Nanos};

/// Headers of a datagram: Ethernet with its check sequence (18), IPv6 (40), UDP (8). This is more
/// than the headers of IPv4 or of a raw frame.
const HEADERS: u64 = 66;
/// Nanoseconds per second.
const SECOND_NS: u128 = 1_000_000_000;

/// Largest rate of one trial, shared by all its workers.
#[derive(Debug)]
pub struct RateLimit {
    rate: BitRate,
    sent_bytes: AtomicU64,
    has_waited: AtomicBool,
}

impl RateLimit {
    /// Creates a limit of `rate`.
    #[must_use]
    pub fn new(rate: BitRate) -> Self {
        Self { rate, sent_bytes: AtomicU64::new(0), has_waited: AtomicBool::new(false) }
    }

    /// Returns the rate.
    pub fn rate(&self) -> BitRate {
        self.rate
    }

    /// Returns true if a worker had to wait.
    #[must_use]
    pub fn has_waited(&self) -> bool {
        self.has_waited.load(Ordering::Relaxed)
    }

    /// Adds bytes that a worker sent.
    pub(super) fn spend(&self, bytes: u64) {
        // Relaxed: only the sum matters, and a step more or less is within the limit's tolerance.
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the time of the next allowed step for a load that began at `start`; `now` if it may
    /// begin at once.
    pub(super) fn next(&self, start: Nanos, now: Nanos) -> Nanos {
        // In 128 bits: bits times nanoseconds per second would exceed 64 bits after two gigabytes.
        let sent_bits = u128::from(self.sent_bytes.load(Ordering::Relaxed)) * u128::from(u8::BITS);
        // At less than one bit per second a single byte would block the trial.
        let per_second = (self.rate.0.max(1.0)) as u128;
        let until = start
            + Nanos(u64::try_from(sent_bits * SECOND_NS / per_second).unwrap_or(u64::MAX / 2));
        if until <= now {
            return now;
        }
        self.has_waited.store(true, Ordering::Relaxed);
        until
    }
}

/// Returns the number of bytes that a worker with these counters has sent.
pub(super) fn sent_bytes(counters: &Counters) -> u64 {
    counters[Counter::PayloadSent]
        .saturating_add(counters[Counter::DatagramsSent].saturating_mul(HEADERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sending_too_early_delays_the_next_step() {
        let limit = RateLimit::new(BitRate(8e6));
        let (start, second) = (Nanos(5), 1_000_000_000);
        assert_eq!(limit.next(start, start), start, "the first step is free");
        assert!(!limit.has_waited());
        limit.spend(1_000_000);
        assert_eq!(limit.next(start, Nanos(6)), Nanos(5 + second), "a million bytes are a second");
        assert_eq!(limit.next(start, Nanos(6 + second)), Nanos(6 + second));
        assert!(limit.has_waited());
        let slow = RateLimit::new(BitRate(0.0));
        slow.spend(u64::MAX);
        assert!(slow.next(start, start) > Nanos(second), "no overflow");
    }

    #[test]
    fn headers_of_small_datagrams_count() {
        let mut counters = Counters::default();
        counters[Counter::PayloadSent] = 10;
        assert_eq!(sent_bytes(&counters), 10);
        counters[Counter::DatagramsSent] = 2;
        assert_eq!(sent_bytes(&counters), 10 + 2 * HEADERS);
    }
}
