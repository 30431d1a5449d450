//! Metrics: every name that linerate prints, with its unit, layer and meaning.
//!
//! The table is the contract of `linerate list metrics` and of the JSON of a study. Each metric is
//! a constant of this module, `metric::GOODPUT`, of type `&'static Metric`. Figures carry that
//! reference; its name is text only in plans, ledgers and JSON.

mod range;
mod source;
mod table;

use std::cmp::Ordering;
use std::fmt;

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use range::{MetricRange, Values};
pub use source::{Source, sourced};
pub use table::*;

/// Unit of a metric.
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

/// Layer at which bits are counted. L1 includes preamble and inter-packet gap, L2 the frame with
/// its check sequence, L3 the IP packet, L4 the transport payload as the application sees it.
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

/// Direction of the data, seen from the job's `from` endpoint.
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

/// Group of a metric: the kind of cause that changes its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricGroup {
    /// Throughput, rates of operations, and the figures that follow them.
    Rate,
    /// CPU time, interrupts and other costs of a packet.
    Cost,
    /// Times of requests, transfers and packets.
    Time,
    /// Losses, retransmissions and drops.
    Loss,
}

/// Place that shows or judges some of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Account of operations: how many were due, and their fates.
    Account,
    /// Result of a single command such as `linerate to`.
    Answer,
    /// Rates at the same layer as goodput or derived from it: their course over time is that of
    /// goodput.
    AsGoodput,
    /// Rates of loads that wait for each answer before they ask again: other programs change these
    /// rates as they change times.
    Asked,
    /// Charts over counts: connections, CPUs, pairs of endpoints.
    ByCount,
    /// Charts over every other setting.
    BySetting,
    /// Charts over the size of messages.
    BySize,
    /// Costs that need hardware or device counters; the report names those that are missing.
    Counted,
    /// Table of costs.
    Cost,
    /// Parts of the CPU time, stacked in a chart.
    CpuPart,
    /// Load on a disk or file: depth, replies and CPU.
    DiskCost,
    /// Load on a disk or file: flushes and discards.
    DiskFlush,
    /// Diagnosis of a load on a disk or file: values shown where no rule explains it.
    DiskLookedAt,
    /// Load on a disk or file: transfers and bytes per second.
    DiskRate,
    /// Load on a disk or file: times of a transfer.
    DiskTime,
    /// Losses that the ends notice: bars over time, and beside the counters of a controller.
    EndLoss,
    /// Comparisons of campaigns: figures that a workload is run for. The others are its cost.
    Family,
    /// Diagnosis: values shown where no rule explains a point.
    LookedAt,
    /// Figures that only transfers of files have.
    FileOnly,
    /// Figures with a mean beside the median.
    Mean,
    /// Mixes: times whose growth is shown.
    Mixed,
    /// Table of one-way delays over the load.
    OneWay,
    /// Chart of a trial over time, as lines.
    OverTime,
    /// Table of all points.
    Points,
    /// Rates of requests and connections, whose payload is incidental.
    Request,
    /// Response times shown beside a rate.
    ResponseBesideRate,
    /// Result of `linerate serve`.
    Served,
    /// Service times that only transfers of disks and files have.
    StorageTime,
    /// Figures that only a stream has: of requests and connections the payload is incidental.
    StreamOnly,
    /// Rates of a stream that the headline names.
    StreamRate,
    /// Figures that a sweep is run for: drawn as a matrix, and tested for drift.
    Sweep,
    /// Table of a trial over time, but not its chart.
    TableOverTime,
    /// CPU of the busiest worker of an end.
    WorkerCpu,
}

impl Use {
    /// Returns the metrics with this use, in the order of [`METRICS`].
    pub fn metrics(self) -> impl Iterator<Item = &'static Metric> {
        METRICS.iter().copied().filter(move |metric| metric.is_for(self))
    }
}

/// Distribution of times that a metric summarises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Times from the intended start of an operation to its end.
    Response,
    /// Times from the actual start of an operation to its end.
    Service,
    /// Changes of delay from one frame to the next.
    Variation,
    /// Flushes of disks and files.
    Flush,
    /// Discards of disks and files.
    Trim,
    /// Connection set-up of file transfers.
    Connect,
    /// Waits for the first byte of a file.
    FirstByte,
    /// Transfers of the content of files.
    Transfer,
    /// Closing of connections after file transfers.
    Close,
    /// Gaps between departures, as distance from the intended gap.
    DepartureGap,
}

impl Times {
    /// Returns the metrics that summarise this distribution, in the order of [`METRICS`].
    pub fn metrics(self) -> impl Iterator<Item = &'static Metric> {
        METRICS.iter().copied().filter(move |metric| metric.times == Some(self))
    }
}

/// Statistic of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The smallest value.
    Smallest,
    /// The quantile from 0 to 1: 0.99 is the 99th percentile.
    Quantile(f64),
    /// The largest value.
    Largest,
}

impl fmt::Display for Statistic {
    /// Writes `mean`, `min`, `p99.9` or `max`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Smallest => f.write_str("min"),
            // In binary, 99.99 % is not exactly 0.9999 x 100.
            Self::Quantile(quantile) => write!(f, "p{}", (quantile * 1e6).round() / 1e4),
            Self::Largest => f.write_str("max"),
        }
    }
}

/// Form in which the figures of a metric are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The usual form of the unit: decimal prefixes, and ratios as percentages.
    ByUnit,
    /// Binary prefixes: KiB/s, MiB/s.
    BinaryPrefixes,
    /// A ratio printed as a number, not as a percentage.
    PlainNumber,
}

/// Metric: its name, unit, the layer where bits or packets are counted, and which direction is
/// better.
#[derive(Debug)]
#[non_exhaustive]
pub struct Metric {
    /// Name in the vocabulary of the field, as in JSON and in plans.
    pub name: &'static str,
    /// Name as a heading of tables and charts.
    pub title: &'static str,
    /// Unit of every value of this metric.
    pub unit: Unit,
    /// Layer, where bits, bytes or packets are counted.
    pub layer: Option<Layer>,
    /// `Some(true)` if a larger value is better, `Some(false)` if a smaller one is, `None` if
    /// neither is.
    pub higher_is_better: Option<bool>,
    /// One sentence: the thing counted, the place, and the counter.
    pub meaning: &'static str,
    /// Kind of cause that changes it.
    pub group: MetricGroup,
    /// Values that it can take.
    pub values: Values,
    /// True if figures of jobs that run side by side add up.
    pub is_additive: bool,
    /// Rank among the rates that represent a job, 1 first; `None` for all other metrics.
    pub chief: Option<u8>,
    /// Places that show or judge it.
    pub uses: &'static [Use],
    /// Distribution that it summarises; `None` for all but times.
    pub times: Option<Times>,
    /// Statistic of that distribution; `None` where `times` is.
    pub statistic: Option<Statistic>,
    /// Form in which figures are printed.
    pub shown: Shown,
    /// Reading that it is computed from; `None` for a formula of its own.
    pub source: Option<Source>,
}

impl Metric {
    /// Returns the metric called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().copied().find(|metric| metric.name == name)
    }

    /// Returns the metrics that represent a job, most important first: goodput where payload
    /// counts, then operations.
    #[must_use]
    pub fn chiefs() -> Vec<&'static Self> {
        let is_chief = |metric: &&Self| metric.chief.is_some();
        let mut chiefs: Vec<_> = METRICS.iter().copied().filter(is_chief).collect();
        chiefs.sort_by_key(|metric| metric.chief);
        chiefs
    }

    /// Returns the metrics that represent the data moved by a job, most important first: for a disk
    /// its bytes, not its operations.
    pub fn moved() -> impl Iterator<Item = &'static Self> {
        // Operations of a disk may have any size.
        let is_rate = |metric: &&Self| metric.unit != Unit::Nanosecond && *metric != table::IOPS;
        Self::chiefs().into_iter().filter(is_rate)
    }

    /// Returns true if the metric has the use `wanted`.
    #[must_use]
    pub fn is_for(&self, wanted: Use) -> bool {
        self.uses.contains(&wanted)
    }

    const fn row(
        group: MetricGroup,
        name: &'static str,
        title: &'static str,
        unit: Unit,
        layer: Option<Layer>,
        higher_is_better: Option<bool>,
        meaning: &'static str,
    ) -> Self {
        Self {
            name,
            title,
            unit,
            layer,
            higher_is_better,
            meaning,
            group,
            values: Values::Plain,
            is_additive: false,
            chief: None,
            uses: &[],
            times: None,
            statistic: None,
            shown: Shown::ByUnit,
            source: None,
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

    const fn mean(self, times: Times) -> Self {
        self.statistic(times, Statistic::Mean)
    }

    const fn smallest(self, times: Times) -> Self {
        self.statistic(times, Statistic::Smallest)
    }

    const fn quantile(self, times: Times, quantile: f64) -> Self {
        self.statistic(times, Statistic::Quantile(quantile))
    }

    const fn largest(self, times: Times) -> Self {
        self.statistic(times, Statistic::Largest)
    }

    const fn statistic(self, times: Times, statistic: Statistic) -> Self {
        Self { times: Some(times), statistic: Some(statistic), ..self }
    }

    const fn shown(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }

    const fn from(self, source: Source) -> Self {
        Self { source: Some(source), ..self }
    }
}

// The name identifies a row: a test holds that no two rows share one.
impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Metric {}

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

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for &'static Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        // A ledger from a later release may have metrics that this one does not know.
        let unknown = || D::Error::invalid_value(Unexpected::Str(&name), &"the name of a metric");
        Metric::named(&name).ok_or_else(unknown)
    }
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
    fn data_moved_is_a_rate_and_neither_a_time_nor_operations_of_a_disk() {
        let moved: Vec<_> = Metric::moved().collect();
        assert!(moved.iter().all(|metric| metric.unit != Unit::Nanosecond), "{moved:?}");
        let left = Metric::chiefs().len() - moved.len();
        assert!(moved.contains(&GOODPUT) && !moved.contains(&IOPS) && left >= 2, "{moved:?}");
    }

    #[test]
    fn no_time_has_a_layer_and_every_bit_rate_has_one() {
        for metric in METRICS {
            assert!(metric.unit != Unit::Second || metric.layer.is_none(), "{}", metric.name);
        }
        assert_eq!(GOODPUT.layer, Some(Layer::L4));
    }

    #[test]
    fn a_metric_is_written_as_its_name_and_an_unknown_name_is_refused() {
        let text = serde_json::to_string(GOODPUT).expect("a name");
        assert_eq!(text, "\"goodput\"");
        assert_eq!(serde_json::from_str::<&'static Metric>(&text).expect("a name"), GOODPUT);
        let error = serde_json::from_str::<&'static Metric>("\"gooodput\"").expect_err("no metric");
        assert!(error.to_string().contains("gooodput"), "{error}");
    }

    #[test]
    fn a_percentile_knows_its_quantile_and_its_distribution() {
        for metric in METRICS {
            let suffixes = [("_p50", 0.5), ("_p90", 0.9), ("_p99", 0.99), ("_p999", 0.999)];
            let named = suffixes.iter().find(|(suffix, _)| metric.name.ends_with(suffix));
            if let Some((_, quantile)) = named {
                let statistic = Statistic::Quantile(*quantile);
                assert_eq!(metric.statistic, Some(statistic), "{metric}");
                // A person reads `p99.9`, not the `p999` of the stored name.
                assert!(metric.title.ends_with(&format!(" {statistic}")), "{}", metric.title);
            }
            assert!(metric.times.is_none() || metric.unit == Unit::Second, "{metric}");
        }
        let written = |metric: &Metric| metric.statistic.expect("a statistic").to_string();
        assert_eq!(written(SERVICE_TIME_P9999), "p99.99");
        assert_eq!(written(SERVICE_TIME_MEAN), "mean");
    }
}
