//! Parameter types several workloads share: a rate in either unit, how to wait, bounds on counts.

use linerate_model::{Arrival, BitRate, Bytes, Load, Nanos, PacketRate, ParamError};
use serde::{Deserialize, Deserializer, de};

use crate::Takes;

/// Flows of one job: more than this, and a host runs out of ports.
pub(crate) const STREAMS: Takes = Takes::Count { least: 1, most: 16_384 };
/// Threads: more than any machine has CPUs is a mistake.
pub(crate) const WORKERS: Takes = Takes::Count { least: 1, most: 4096 };
/// Code points of RFC 2474.
pub(crate) const DSCP: Takes = Takes::Count { least: 0, most: 63 };
/// Buffers and windows, which are C integers.
pub(crate) const BUFFER: Takes = Takes::Size { least: Bytes(1), most: Bytes(i32::MAX as u64) };
/// How long something is waited for before it has failed.
pub(crate) const TIMEOUT: Takes = Takes::Time { least: Nanos::from_millis(1), most: Nanos::from_secs(3_600) };
/// Which way data goes, seen from the active end.
pub(crate) const DIRECTION: Takes = Takes::Word(&["tx", "rx", "both"]);
/// [`Waiting`].
pub(crate) const WAIT: Takes = Takes::Word(&["block", "spin"]);
/// A module of the kernel: which there are only the host knows.
pub(crate) const CONGESTION: Takes = Takes::Text { example: "cubic" };
/// An interface, or the endpoint's own.
pub(crate) const DEVICE: Takes = Takes::Text { example: "eth0" };

/// A rate of datagrams, in either of the units people use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    /// L4 payload bits per second.
    Bits(BitRate),
    /// Datagrams per second.
    Packets(PacketRate),
}

impl Rate {
    /// Datagrams of `payload_bytes` per second.
    pub(crate) fn per_second(self, payload_bytes: usize) -> f64 {
        match self {
            Self::Bits(BitRate(rate)) => rate / (payload_bytes as f64 * f64::from(u8::BITS)),
            Self::Packets(PacketRate(rate)) => rate,
        }
    }

    fn value(self) -> f64 {
        match self {
            Self::Bits(BitRate(rate)) | Self::Packets(PacketRate(rate)) => rate,
        }
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let packets = text.parse().map(Self::Packets);
        packets.or_else(|_| text.parse().map(Self::Bits)).map_err(|_| {
            de::Error::custom(format!("`{text}` is not a rate with its unit, such as \"1 Gbit/s\" or \"100 kpps\""))
        })
    }
}

/// How a worker waits for the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Waiting {
    /// Asleep in the kernel: the wake-up is part of every latency.
    #[default]
    Block,
    /// Asking again and again: it takes a CPU and saves the wake-up.
    Spin,
}

impl Waiting {
    /// As a mode is named in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Spin => "spin",
        }
    }
}

/// How operations arrive, by whether they arrive at random.
pub(crate) fn random(poisson: bool) -> Arrival {
    if poisson { Arrival::Poisson } else { Arrival::Constant }
}

/// The share of a job's load that falls to a worker with `own` of its `all` flows.
pub(crate) fn share(rate: Option<f64>, arrival: Arrival, depth: u32, own: usize, all: u32) -> Load {
    match rate {
        Some(rate) => Load::Open { rate: rate * own as f64 / f64::from(all), arrival },
        None => Load::Closed { depth },
    }
}

/// How many of `n` operations, the first of them meant for `intended` and each next a `gap` later, start more than a gap
/// late if they start `now`.
#[inline]
pub(crate) fn late_starts(now: Nanos, intended: Nanos, gap: Nanos, n: u64) -> u64 {
    // Operation k is `now - intended - k * gap` late.
    (now.since(intended).0.saturating_sub(1) / gap.0.max(1)).min(n)
}

/// The mean gap between operations of an open load; `None` for a closed one.
pub(crate) fn mean_gap(load: Load) -> Option<Nanos> {
    match load {
        Load::Open { rate, .. } => Some(Nanos::from_secs_f64(1.0 / rate)),
        Load::Closed { .. } => None,
    }
}

/// A parameter that does not go with the others.
pub(crate) fn wrong(key: &str, cause: impl Into<String>) -> ParamError {
    ParamError { key: key.to_owned(), cause: cause.into(), expected: None, nearest: None }
}

/// Checks what every workload with flows has: each worker has a flow, and a rate sends something.
pub(crate) fn check_common(streams: u32, workers: u32, rate: Option<Rate>, poisson: bool) -> Result<(), ParamError> {
    if workers > streams {
        return Err(wrong(
            "workers",
            format!("{workers} workers cannot share {streams} streams: some would have none"),
        ));
    }
    if rate.is_some_and(|rate| rate.value() <= 0.0) {
        return Err(wrong("rate", "a rate of zero sends nothing; leave it out to send as fast as possible"));
    }
    if poisson && rate.is_none() {
        return Err(wrong("poisson", "Poisson arrivals need a rate"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rate_has_either_unit() {
        let rate = |text: &str| serde_json::from_value::<Rate>(json!(text));
        assert_eq!(rate("8 Mbit/s").expect("a bit rate").per_second(1_000), 1_000.0);
        assert_eq!(rate("5 kpps").expect("a packet rate").per_second(1_000), 5_000.0);
        assert!(rate("5").is_err() && rate("5 m").is_err());
        assert!(serde_json::from_value::<Rate>(json!(5)).is_err());
    }

    #[test]
    fn an_operation_is_late_after_a_whole_gap() {
        let late = |now| late_starts(Nanos(now), Nanos(1_000), Nanos(100), 4);
        assert_eq!([late(900), late(1_000), late(1_100), late(1_101), late(1_250), late(9_000)], [0, 0, 0, 1, 2, 4]);
    }

    #[test]
    fn a_worker_without_a_stream_is_refused() {
        assert_eq!(check_common(2, 4, None, false).expect_err("two have nothing to do").key, "workers");
        assert_eq!(check_common(4, 2, None, true).expect_err("no rate").key, "poisson");
        assert!(check_common(4, 2, None, false).is_ok());
    }
}
