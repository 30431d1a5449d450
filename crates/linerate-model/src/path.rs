//! Facts of a path, each with its interval, its number of observations and its method.

use serde::{Deserialize, Serialize};

use crate::{BitRate, Bytes, Nanos, Ratio};

/// A measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact<T> {
    /// Best estimate.
    pub value: T,
    /// Lower end of its interval at 95 %.
    pub low: T,
    /// Upper end of its interval.
    pub high: T,
    /// Observations: blocks of a flood, trains, or datagrams, as the method says.
    pub n: usize,
    /// Method.
    pub method: Method,
}

impl<T: Copy> Fact<T> {
    /// Returns a fact without spread, from one reading.
    #[must_use]
    pub const fn exact(value: T, method: Method) -> Self {
        Self { value, low: value, high: value, n: 1, method }
    }
}

/// Method of a measurement (docs/methodology/path-probe.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Rate or delay during a flood above the capacity; observations are blocks of it.
    Flood,
    /// Dispersion of trains of datagrams; observations are trains.
    Trains,
    /// Largest excess of delivered bytes over the token rate in any span.
    Envelope,
    /// Small datagrams far apart; observations are datagrams.
    Pings,
    /// Datagrams at rates that the path carried; observations are datagrams.
    Ramp,
    /// Datagrams of different sizes with DF set (RFC 8899).
    Sizes,
    /// The kernel's own setting.
    Kernel,
}

/// Element that limits the rate of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    /// A link or a shaper with a negligible bucket: datagrams above its rate wait in a queue.
    Link,
    /// A shaper with a token bucket: a burst passes at once, then datagrams wait in a queue.
    Shaper,
    /// A policer: a burst passes at once, then datagrams above the token rate are dropped without
    /// delay.
    Policer,
}

/// Token bucket of a shaper or policer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenBucket {
    /// Rate at which tokens arrive, in bits of IP packets.
    pub rate: Fact<BitRate>,
    /// Bytes of IP packets that pass at once through a full bucket.
    pub bucket: Fact<Bytes>,
}

/// Facts of one direction of a path. A fact that is not known is `None`, never zero.
///
/// Rates and sizes count IP packets (L3): headers of IP and UDP included, link headers excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathFacts {
    /// Endpoint that sent.
    pub from: String,
    /// Endpoint that received.
    pub to: String,
    /// Element that limits the rate; `None` if no rate that was tried exceeded it.
    pub limiter: Option<Limiter>,
    /// Rate of the bottleneck.
    pub capacity: Option<Fact<BitRate>>,
    /// Highest rate at which the path delivered a step of the ramp or a flood, the wait in queues
    /// included: a lower bound of the capacity.
    pub carried: Option<BitRate>,
    /// Rate at which trains of datagrams arrived. Above the capacity, there is a token bucket.
    pub burst_rate: Option<Fact<BitRate>>,
    /// Token bucket of a shaper or policer.
    pub token_bucket: Option<TokenBucket>,
    /// Round-trip time without load.
    pub base_rtt: Option<Fact<Nanos>>,
    /// Round-trip time during the flood.
    pub loaded_rtt: Option<Fact<Nanos>>,
    /// Longest delay that the queue added.
    pub queue_time: Option<Fact<Nanos>>,
    /// Depth of the queue. The value is a lower bound if `is_queue_full` is false.
    pub queue_bytes: Option<Fact<Bytes>>,
    /// True if the flood filled the queue, so that datagrams were dropped.
    pub is_queue_full: bool,
    /// Loss at rates that the path carries.
    pub idle_loss: Option<Fact<Ratio>>,
    /// Loss during the flood. It is a property of the flood and not of the path.
    pub flood_loss: Option<Fact<Ratio>>,
    /// Largest IP packet that passed.
    pub mtu: Option<Fact<Bytes>>,
    /// Largest IP packet that the sender's interface allows.
    pub routed_mtu: Option<Bytes>,
    /// Datagrams that arrived after one with a higher number.
    pub reordered: Option<Fact<Ratio>>,
    /// Datagrams that arrived more than once.
    pub duplicated: Option<Fact<Ratio>>,
    /// Difference between the 95th percentile and the smallest of the round-trip time without load.
    pub jitter: Option<Fact<Nanos>>,
    /// Share of the pings sent as ECN-capable that a queue marked.
    pub ecn_marked: Option<Fact<Ratio>>,
    /// Share of the same pings of which the path cleared the ECN field.
    pub ecn_cleared: Option<Fact<Ratio>>,
    /// Distance of the receiver's clock from the sender's.
    pub clock: Option<ClockOffset>,
    /// Highest rate that the sender reached, if it was below the rate of the flood: the tool, and
    /// not the path, is the limit.
    pub sender_limit: Option<BitRate>,
    /// Queueing disciplines of the sender's interface that limit a rate, as the kernel reports
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local: Vec<LocalQueue>,
    /// Datagrams that the receiver's socket dropped: losses of the tool.
    pub receiver_drops: u64,
}

/// Distance between the monotonic clocks of two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Nanoseconds that the receiver's clock is ahead.
    pub ahead_ns: i64,
    /// Largest error, whatever the delays of the two directions: half of the round-trip time.
    pub within: Nanos,
    /// Round trips of which the shortest counts.
    pub n: usize,
}

/// Queueing discipline of an interface of the sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalQueue {
    /// Interface.
    pub device: String,
    /// Name of the discipline.
    pub discipline: String,
    /// Its rate, in bits of frames.
    pub rate: BitRate,
}

impl PathFacts {
    /// Returns true if packets larger than the path MTU vanish: the interface allows packets that
    /// the path drops.
    #[must_use]
    pub fn has_smaller_mtu(&self) -> bool {
        self.mtu.zip(self.routed_mtu).is_some_and(|(found, routed)| found.value < routed)
    }

    /// Returns the factor by which the flood lengthened the round-trip time.
    #[must_use]
    pub fn bloat(&self) -> Option<Ratio> {
        let (base, loaded) = self.base_rtt.zip(self.loaded_rtt)?;
        // A path that is shorter than the resolution of the clock has no ratio.
        (base.value.0 > 0).then(|| Ratio(loaded.value.0 as f64 / base.value.0 as f64))
    }
}
