//! Measurables: every name linerate prints, with unit, layer and meaning.
//!
//! The table is the promise of `linerate list metrics` and of the JSON of a study. Names are the field's.

mod range;
mod table;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use range::MetricRange;
pub use table::METRICS;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitPerSecond,
    /// Packets, frames or datagrams per second.
    #[serde(rename = "packet/s")]
    PacketPerSecond,
    /// Events per second (transactions, connections, calls, interrupts).
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bytes.
    #[serde(rename = "B")]
    Byte,
    /// Bytes per second.
    #[serde(rename = "B/s")]
    BytePerSecond,
    /// A count.
    #[serde(rename = "1")]
    Count,
    /// A ratio of like quantities.
    #[serde(rename = "ratio")]
    Ratio,
    /// Seconds.
    #[serde(rename = "s")]
    Second,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanosecond,
    /// CPU seconds per 10^9 bytes.
    #[serde(rename = "s/GB")]
    SecondPerGigabyte,
    /// CPU cores kept busy (CPU seconds per second).
    #[serde(rename = "core")]
    Core,
    /// Hertz.
    #[serde(rename = "Hz")]
    Hertz,
}

impl Unit {
    /// The unit's symbol as printed and as written in JSON.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::BitPerSecond => "bit/s",
            Self::PacketPerSecond => "packet/s",
            Self::PerSecond => "1/s",
            Self::Byte => "B",
            Self::BytePerSecond => "B/s",
            Self::Count => "1",
            Self::Ratio => "ratio",
            Self::Second => "s",
            Self::Nanosecond => "ns",
            Self::SecondPerGigabyte => "s/GB",
            Self::Core => "core",
            Self::Hertz => "Hz",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

/// Where bits are counted. L1 includes preamble and inter-packet gap, L2 the frame with its check sequence, L3 the IP
/// packet, L4 the transport payload as the application sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Layer {
    /// The wire: frame, preamble and gap.
    L1,
    /// The frame with FCS and tags.
    L2,
    /// The IP packet.
    L3,
    /// Transport payload.
    L4,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Which way the data goes, seen from the job's `from` endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// `from` sends, `to` receives.
    Tx,
    /// `from` receives, `to` sends.
    Rx,
    /// Both directions added.
    Sum,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tx => "tx",
            Self::Rx => "rx",
            Self::Sum => "sum",
        })
    }
}

/// A measurable: its name, unit, the layer where bits or packets are counted, and which way is better.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// The field's name, as in JSON and in plans.
    pub name: &'static str,
    /// Unit of every value of this metric.
    pub unit: Unit,
    /// Layer, where bits, bytes or packets are counted.
    pub layer: Option<Layer>,
    /// Whether a larger value is better; `None` where neither is.
    pub higher_is_better: Option<bool>,
    /// One sentence: what is counted, where, by whom.
    pub meaning: &'static str,
}

/// The metric called `name`.
#[must_use]
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_has_a_layer_and_every_bit_rate_has_one() {
        for metric in METRICS {
            assert!(metric.unit != Unit::Second || metric.layer.is_none(), "{}", metric.name);
        }
        assert_eq!(metric("goodput").and_then(|metric| metric.layer), Some(Layer::L4));
    }
}
