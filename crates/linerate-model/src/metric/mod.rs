//! Measurables: every name linerate prints, with unit, layer and meaning.
//!
//! The table is the promise of `linerate list metrics` and of the JSON of a study. Names are the
//! field's. Each metric is a constant of this module, `metric::GOODPUT`.

mod range;
mod table;

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use range::{MetricRange, Values};
pub use table::*;

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

/// Where bits are counted. L1 includes preamble and inter-packet gap, L2 the frame with its check
/// sequence, L3 the IP packet, L4 the transport payload as the application sees it.
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

/// What moves a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricGroup {
    /// Throughput, rates of operations, and whatever follows them.
    Rate,
    /// CPU time, interrupts and whatever else a packet costs.
    Cost,
    /// Times of requests, transfers and packets.
    Time,
    /// Losses, retransmissions and drops.
    Loss,
}

/// A place that shows or judges some of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Result of a single command such as `linerate to`.
    Answer,
    /// Charts over counts: connections, CPUs, pairs of endpoints.
    ByCount,
    /// Charts over every other setting.
    BySetting,
    /// Charts over the size of messages.
    BySize,
    /// The table of costs.
    Cost,
    /// Comparisons of campaigns: figures that a workload is run for. The others are its cost.
    Family,
    /// Diagnosis: values shown where no rule explains a point.
    LookedAt,
    /// Figures with a mean beside the median.
    Mean,
    /// Mixes: times whose growth is shown.
    Mixed,
    /// The table of all points.
    Points,
    /// Rates of requests and connections, whose payload is incidental.
    Request,
    /// Result of `linerate serve`.
    Served,
    /// Figures that only a stream has: of requests and connections the payload is incidental.
    StreamOnly,
    /// The rate of payload in other words or at another layer: how it went over time is how goodput
    /// went.
    AsGoodput,
    /// Figures that a sweep is run for: drawn as a matrix, and tested for drift.
    Sweep,
}

impl Use {
    /// The metrics used so, in the order of [`METRICS`].
    pub fn metrics(self) -> impl Iterator<Item = &'static Metric> {
        METRICS.iter().filter(move |metric| metric.is_for(self))
    }

    /// Whether the metric called `name` is used so.
    #[must_use]
    pub fn has(self, name: &str) -> bool {
        metric(name).is_some_and(|metric| metric.is_for(self))
    }
}

/// A measurable: its name, unit, the layer where bits or packets are counted, and which way is
/// better.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// What moves it.
    pub group: MetricGroup,
    /// The values it can take.
    pub values: Values,
    /// Whether figures of jobs side by side add up.
    pub is_additive: bool,
    /// Its rank among the rates that stand for a job, 1 first; `None` of all other metrics.
    pub chief: Option<u8>,
    /// Where it is shown or judged.
    pub uses: &'static [Use],
}

impl Metric {
    /// The metric called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// The metrics that stand for a job, the first that has a figure: goodput where payload is what
    /// counts, then operations.
    #[must_use]
    pub fn chiefs() -> Vec<&'static Self> {
        let mut chiefs: Vec<_> = METRICS.iter().filter(|metric| metric.chief.is_some()).collect();
        chiefs.sort_by_key(|metric| metric.chief);
        chiefs
    }

    /// The metrics that stand for what a job moves, the first that has a figure: of a disk its
    /// bytes, not its operations.
    pub fn moved() -> impl Iterator<Item = &'static Self> {
        let is_rate =
            |metric: &&Self| metric.unit != Unit::Nanosecond && metric.name != table::IOPS;
        Self::chiefs().into_iter().filter(is_rate)
    }

    /// Whether it is used so.
    #[must_use]
    pub fn is_for(&self, wanted: Use) -> bool {
        self.uses.contains(&wanted)
    }

    const fn rate(
        name: &'static str,
        unit: Unit,
        layer: Option<Layer>,
        up: Option<bool>,
        meaning: &'static str,
    ) -> Self {
        Self::row(MetricGroup::Rate, name, unit, layer, up, meaning)
    }

    const fn cost(
        name: &'static str,
        unit: Unit,
        layer: Option<Layer>,
        up: Option<bool>,
        meaning: &'static str,
    ) -> Self {
        Self::row(MetricGroup::Cost, name, unit, layer, up, meaning)
    }

    const fn time(
        name: &'static str,
        unit: Unit,
        layer: Option<Layer>,
        up: Option<bool>,
        meaning: &'static str,
    ) -> Self {
        Self::row(MetricGroup::Time, name, unit, layer, up, meaning)
    }

    const fn loss(
        name: &'static str,
        unit: Unit,
        layer: Option<Layer>,
        up: Option<bool>,
        meaning: &'static str,
    ) -> Self {
        Self::row(MetricGroup::Loss, name, unit, layer, up, meaning)
    }

    const fn row(
        group: MetricGroup,
        name: &'static str,
        unit: Unit,
        layer: Option<Layer>,
        higher_is_better: Option<bool>,
        meaning: &'static str,
    ) -> Self {
        let (values, is_additive, chief, uses): (_, _, _, &[Use]) =
            (Values::Plain, false, None, &[]);
        Self {
            name,
            unit,
            layer,
            higher_is_better,
            meaning,
            group,
            values,
            is_additive,
            chief,
            uses,
        }
    }

    const fn adds_up(self) -> Self {
        Self { is_additive: true, ..self }
    }

    const fn chief(self, rank: u8) -> Self {
        Self { chief: Some(rank), ..self }
    }

    const fn with(self, values: Values) -> Self {
        Self { values, ..self }
    }

    const fn used(self, uses: &'static [Use]) -> Self {
        Self { uses, ..self }
    }
}

// In the order of their names: in JSON, and wherever figures are sorted.
impl PartialOrd for Metric {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Metric {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(other.name)
    }
}

/// The metric called `name`.
#[must_use]
pub fn metric(name: &str) -> Option<&'static Metric> {
    Metric::named(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ranks_are_distinct() {
        let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
        let ranks: Vec<_> = Metric::chiefs().iter().filter_map(|metric| metric.chief).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    }

    #[test]
    fn no_time_has_a_layer_and_every_bit_rate_has_one() {
        for metric in METRICS {
            assert!(metric.unit != Unit::Second || metric.layer.is_none(), "{}", metric.name);
        }
        assert_eq!(metric("goodput").and_then(|metric| metric.layer), Some(Layer::L4));
    }
}
