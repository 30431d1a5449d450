//! Start times of operations: as soon as there is room (closed loop), or at a rate (open loop) with
//! constant or random gaps.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use linerate_model::{Arrival, BitRate, Load, Nanos, PacketRate, ParamError, QuantityError};

use crate::parameter::{Reader, wrong};

/// Rate of operations, in packets or in bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// L4 payload bits per second.
    Bits(BitRate),
    /// Datagrams per second.
    Packets(PacketRate),
}

impl Rate {
    /// Returns datagrams of `payload_bytes` per second.
    pub(crate) fn per_second(self, payload_bytes: usize) -> f64 {
        match self {
            Self::Bits(BitRate(rate)) => rate / (payload_bytes as f64 * f64::from(u8::BITS)),
            Self::Packets(PacketRate(rate)) => rate,
        }
    }

    /// Returns the number, in bits or packets per second.
    #[must_use]
    pub fn value(self) -> f64 {
        match self {
            Self::Bits(BitRate(rate)) | Self::Packets(PacketRate(rate)) => rate,
        }
    }

    /// Returns `n` times the rate.
    #[must_use]
    pub fn times(self, n: u64) -> Self {
        match self {
            Self::Bits(BitRate(rate)) => Self::Bits(BitRate(rate * n as f64)),
            Self::Packets(PacketRate(rate)) => Self::Packets(PacketRate(rate * n as f64)),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bits(rate) => rate.fmt(f),
            Self::Packets(rate) => rate.fmt(f),
        }
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        // Packets first: "10 kpps" is no bit rate, while a bit rate never reads as packets.
        text.parse().map(Self::Packets).or_else(|_| text.parse().map(Self::Bits))
    }
}

/// Most operations of a burst: UIO_MAXIOV of Linux, the most messages of one system call.
pub(crate) const MAX_BURST: u32 = 1024;

/// Arrivals of the operations of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrivals {
    /// Rate of an open loop; `None` for a closed one.
    pub(crate) rate: Option<Rate>,
    /// True for exponential gaps.
    pub(crate) poisson: bool,
}

impl Arrivals {
    /// Declares rate and gaps.
    pub(crate) fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            rate: reader.rate(
                "rate",
                "closed loop",
                "requests per second, all flows together, such as \"10 kpps\": an open loop, at \
                    most depth outstanding",
            ),
            poisson: reader.flag(
                "poisson",
                false,
                "exponential gaps instead of constant ones; needs a rate",
            ),
        }
    }

    /// Declares `burst`, of workloads that send datagrams or frames.
    pub(crate) fn declare_burst(reader: &mut Reader<'_>) -> u32 {
        reader.count(
            "burst",
            1..=u64::from(MAX_BURST),
            1,
            "packets sent back to back, then a gap that keeps the rate; needs a rate",
        )
    }

    /// Returns the kind of gaps between bursts of `burst`.
    pub(crate) fn arrival_of(&self, burst: u32) -> Arrival {
        match NonZeroU32::new(burst) {
            Some(burst) if burst.get() > 1 => Arrival::Burst(burst),
            _ => self.arrival(),
        }
    }

    /// Refuses bursts without a rate, or with random gaps.
    pub(crate) fn check_burst(&self, burst: u32) -> Result<(), ParamError> {
        if burst > 1 && (!self.is_open() || self.poisson) {
            return Err(wrong("burst", "bursts need a rate and no Poisson arrivals"));
        }
        Ok(())
    }

    /// Refuses a rate of zero, and random gaps without a rate.
    pub(crate) fn check(&self) -> Result<(), ParamError> {
        if self.rate.is_some_and(|rate| rate.value() <= 0.0) {
            return Err(wrong(
                "rate",
                "a rate of zero sends nothing; leave it out to send as fast as possible",
            ));
        }
        if self.poisson && self.rate.is_none() {
            return Err(wrong("poisson", "Poisson arrivals need a rate"));
        }
        Ok(())
    }

    /// [`Arrivals::check`] for operations that have no size of their own: requests, connections.
    pub(crate) fn check_requests(&self) -> Result<(), ParamError> {
        if matches!(self.rate, Some(Rate::Bits(_))) {
            // A share of a rate in bits needs a size, which a request has twice.
            let cause = "bits per second are no rate of requests: write requests per second, such \
                as \"10 kpps\"";
            return Err(wrong("rate", cause));
        }
        self.check()
    }

    /// Returns true if operations start at their own times, not at the peer's.
    pub(crate) fn is_open(&self) -> bool {
        self.rate.is_some()
    }

    /// Returns the kind of gaps.
    pub(crate) fn arrival(&self) -> Arrival {
        if self.poisson { Arrival::Poisson } else { Arrival::Constant }
    }

    /// Returns the load of a worker with `own` of `all` flows, at most `depth` requests
    /// outstanding on each.
    pub(crate) fn requests(&self, depth: u32, own: usize, all: u32) -> Load {
        share(self.rate.map(|rate| rate.per_second(1)), self.arrival(), depth, own, all)
    }
}

/// Returns the load of a worker with `own` of a job's `all` flows.
pub(crate) fn share(rate: Option<f64>, arrival: Arrival, depth: u32, own: usize, all: u32) -> Load {
    match rate {
        // By flows, not by workers: workers may have different numbers of flows.
        Some(rate) => Load::Open { rate: rate * own as f64 / f64::from(all), arrival },
        None => Load::Closed { depth },
    }
}

/// Returns how many of `n` operations start more than a `gap` late if they start `now`. The first
/// is due at `intended`, each next one a `gap` later.
#[inline]
pub(crate) fn late_starts(now: Nanos, intended: Nanos, gap: Nanos, n: u64) -> u64 {
    // Operation k is `now - intended - k * gap` late.
    (now.since(intended).0.saturating_sub(1) / gap.0.max(1)).min(n)
}

/// Delay of a frame beyond which the tester is at fault (docs/methodology/searches.md#trial).
const VERY_LATE: Nanos = Nanos::from_millis(1);

/// Returns how many of them start more than 1 ms late.
#[inline]
pub(crate) fn very_late_starts(now: Nanos, intended: Nanos, gap: Nanos, n: u64) -> u64 {
    // Rounded up: an operation that is exactly a gap beyond the limit counts.
    now.since(intended).since(VERY_LATE).0.div_ceil(gap.0.max(1)).min(n)
}

/// Returns the mean gap between operations of an open load; `None` for a closed one.
pub(crate) fn mean_gap(load: Load) -> Option<Nanos> {
    match load {
        Load::Open { rate, .. } => Some(Nanos::from_secs_f64(1.0 / rate)),
        Load::Closed { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_either_unit() {
        let rate = |text: &str| text.parse::<Rate>();
        assert_eq!(rate("8 Mbit/s").expect("a bit rate").per_second(1_000), 1_000.0);
        assert_eq!(rate("5 kpps").expect("a packet rate").per_second(1_000), 5_000.0);
        assert!(rate("5").is_err() && rate("5 s").is_err());
    }

    #[test]
    fn requests_have_no_rate_in_bits() {
        let arrivals = |rate: &str| Arrivals { rate: rate.parse().ok(), poisson: false };
        assert!(
            arrivals("8 kpps").check_requests().is_ok() && arrivals("8 Mbit/s").check().is_ok()
        );
        assert!(
            arrivals("8 Mbit/s")
                .check_requests()
                .expect_err("bits")
                .cause
                .contains("requests per second")
        );
    }

    #[test]
    fn an_operation_is_late_after_a_whole_gap() {
        let very_late = |now| very_late_starts(Nanos(now), Nanos(1_000), Nanos(100_000), 4);
        assert_eq!(
            [1_001_000, 1_001_001, 1_101_000, 1_101_001, 9_000_000].map(very_late),
            [0, 1, 1, 2, 4],
            "the first is late after a millisecond, each next a gap later"
        );
        let late = |now| late_starts(Nanos(now), Nanos(1_000), Nanos(100), 4);
        assert_eq!(
            [late(900), late(1_000), late(1_100), late(1_101), late(1_250), late(9_000)],
            [0, 0, 0, 1, 2, 4]
        );
    }
}
