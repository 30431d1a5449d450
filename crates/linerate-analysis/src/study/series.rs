//! Course of a trial, interval by interval, on one grid for all workers; measured jobs added up.
//!
//! The names of the series are those of metrics, with the direction of goodput and of transfers:
//! `goodput_tx`, `iops_rx`. Where a series differs from its metric: `loss_ratio` counts the
//! datagrams sent in the interval that never came (see `loss_series`), `rtt` is the mean over
//! flows, `peer_window` adds up the windows that the receivers advertise. A bin that intervals do
//! not cover by half is a gap, never zero. A rate is that of the part of its bin that is covered
//! and lies before the end of the load, so that neither the last, shorter bin nor what comes while
//! the load drains looks like a fall. Counts of the drain stand in the last bin.

use std::collections::BTreeMap;
use std::fmt;

use linerate_model::{
    Counter, Direction, JobRecord, Layer, Metric, Nanos, Source, TrialRecord, Unit, metric,
};
use serde::{Deserialize, Serialize};

use super::connections::Connections;
use super::flow::Flow;
use super::grid::Grid;
use super::loss_series::{self, Lost};
use super::samples::NANOS;
use super::span::{extent, total};
use super::traffic::Job;

/// The least share of a bin that intervals must cover.
const LEAST_COVERED: f64 = 0.5;
/// Bits in a byte.
const BITS: f64 = 8.0;
/// Bins a trial may have; a trial of days in milliseconds is shown more coarsely.
const MOST_BINS: u64 = 100_000;

/// Name of a series of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum IntervalSeries {
    /// A metric, both directions together.
    Of(&'static Metric),
    /// A metric in one direction.
    Directed(&'static Metric, Direction),
    /// Datagrams sent per second.
    DatagramsSent,
    /// Datagrams received per second.
    DatagramsReceived,
}

impl IntervalSeries {
    /// Every series that is no metric.
    const COUNTS: [Self; 2] = [Self::DatagramsSent, Self::DatagramsReceived];

    /// Returns the metric of the series, if it is one.
    #[must_use]
    pub fn metric(self) -> Option<&'static Metric> {
        match self {
            Self::Of(metric) | Self::Directed(metric, _) => Some(metric),
            Self::DatagramsSent | Self::DatagramsReceived => None,
        }
    }

    /// Returns the direction of a series that has one.
    #[must_use]
    pub fn direction(self) -> Option<Direction> {
        match self {
            Self::Directed(_, direction) => Some(direction),
            _ => None,
        }
    }

    /// Returns the heading of its column.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Of(metric) | Self::Directed(metric, _) => metric.title,
            Self::DatagramsSent => "Datagrams sent",
            Self::DatagramsReceived => "Datagrams received",
        }
    }

    /// Returns the unit and the layer of its readings.
    #[must_use]
    pub fn unit(self) -> (Unit, Option<Layer>) {
        self.metric().map_or((Unit::PerSecond, None), |metric| (metric.unit, metric.layer))
    }
}

impl fmt::Display for IntervalSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(metric) => write!(f, "{metric}"),
            Self::Directed(metric, direction) => write!(f, "{metric}_{direction}"),
            Self::DatagramsSent => f.write_str("datagrams_sent"),
            Self::DatagramsReceived => f.write_str("datagrams_received"),
        }
    }
}

impl From<IntervalSeries> for String {
    fn from(series: IntervalSeries) -> Self {
        series.to_string()
    }
}

impl TryFrom<String> for IntervalSeries {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Some(count) = Self::COUNTS.into_iter().find(|count| count.to_string() == text) {
            return Ok(count);
        }
        if let Some(metric) = Metric::named(&text) {
            return Ok(Self::Of(metric));
        }
        let directed = [Direction::Tx, Direction::Rx, Direction::Sum].into_iter().find_map(|way| {
            let name = text.strip_suffix(&way.to_string())?.strip_suffix('_')?;
            Some(Self::Directed(Metric::named(name)?, way))
        });
        match directed {
            Some(series) => Ok(series),
            None => Err(format!("`{text}` is not the name of a series of a trial")),
        }
    }
}

/// Series of a trial; `None` is a gap.
type Series = BTreeMap<IntervalSeries, Vec<Option<f64>>>;

/// Series as they were counted, before the gate.
#[derive(Default)]
pub(super) struct Counted {
    /// The end of each bin, seconds since the start barrier.
    pub(super) seconds: Vec<f64>,
    /// Width of a bin.
    pub(super) width: Nanos,
    /// The series.
    pub(super) series: Series,
}

/// Returns the counts of `trial`.
pub(super) fn of(trial: &TrialRecord, jobs: &[Job<'_>]) -> Counted {
    let measured: Vec<&Job<'_>> = jobs.iter().filter(|job| job.spec.background.is_none()).collect();
    let records = measured.iter().flat_map(|job| job.ends());
    let Some(end) = records.filter_map(extent).map(|extent| extent.to).max() else {
        return Counted::default();
    };
    let grid = covering(end, trial.spec.phases.loaded(), trial.spec.phases.interval);
    let flows: Vec<Flow<'_>> = measured.iter().flat_map(|job| job.flows()).collect();
    let mut series = Series::new();
    for direction in [Direction::Tx, Direction::Rx] {
        let name = IntervalSeries::Directed(metric::GOODPUT, direction);
        let receivers =
            flows.iter().filter(|flow| flow.direction == direction).map(|flow| flow.receiver);
        insert_rate(&grid, &mut series, name, receivers.collect(), Counter::PayloadReceived, BITS);
    }
    datagrams(&grid, &flows, &mut series);
    let operations = metric::sourced().filter_map(|(metric, source)| match source {
        Source::OperationRate(counter) => Some((IntervalSeries::Of(metric), counter)),
        _ => None,
    });
    let transfers = [(Direction::Rx, Counter::Reads), (Direction::Tx, Counter::Writes)];
    let transfers = transfers
        .map(|(direction, counter)| (IntervalSeries::Directed(metric::IOPS, direction), counter));
    for (name, counter) in operations.chain(transfers) {
        let counting = measured
            .iter()
            .filter_map(|job| job.ends().into_iter().find(|end| total(end, counter) > 0));
        insert_rate(&grid, &mut series, name, counting.collect(), counter, 1.0);
    }
    connections(&grid, &flows, &mut series);
    Counted { seconds: grid.ends(), width: Nanos(grid.width), series }
}

fn datagrams(grid: &Grid, flows: &[Flow<'_>], series: &mut Series) {
    let datagrams = || flows.iter().filter(|flow| flow.is_datagrams());
    let (senders, receivers) =
        (datagrams().map(|flow| flow.sender), datagrams().map(|flow| flow.receiver));
    insert_rate(
        grid,
        series,
        IntervalSeries::DatagramsSent,
        senders.collect(),
        Counter::DatagramsSent,
        1.0,
    );
    insert_rate(
        grid,
        series,
        IntervalSeries::DatagramsReceived,
        receivers.collect(),
        Counter::DatagramsReceived,
        1.0,
    );
    let lost: Option<Vec<Lost>> = datagrams().map(|flow| loss_series::of(grid, *flow)).collect();
    if let Some(lost) = lost.filter(|lost| !lost.is_empty()) {
        let mut ratios = Vec::with_capacity(grid.n_bins);
        for idx in 0..grid.n_bins {
            let sum = |of: fn(&Lost) -> &Vec<f64>| lost.iter().map(|one| of(one)[idx]).sum::<f64>();
            let (lost, sent) = (sum(|one| &one.lost), sum(|one| &one.sent));
            ratios.push((sent > 0.0).then(|| lost / sent));
        }
        series.insert(IntervalSeries::Of(metric::LOSS_RATIO), ratios);
    }
}

fn connections(grid: &Grid, flows: &[Flow<'_>], series: &mut Series) {
    let senders: Vec<Connections<'_>> = flows
        .iter()
        .filter(|flow| !flow.is_datagrams())
        .map(|flow| flow.sending())
        .filter(|connections| !connections.is_empty())
        .collect();
    if senders.is_empty() {
        return;
    }
    let mut retransmits = vec![0.0; grid.n_bins];
    let (mut rtt_sum, mut n_seen) = (vec![0.0; grid.n_bins], vec![0_u32; grid.n_bins]);
    let mut windows: BTreeMap<(usize, usize, u32), f64> = BTreeMap::new();
    for (idx, sender) in senders.iter().enumerate() {
        // A count belongs to the bin of its reading: spread over bins it would be fractions of
        // segments.
        for (_, end, change) in sender.steps(|state| u64::from(state.retransmits)) {
            retransmits[grid.bin_ending_at(end)] += change;
        }
        for (at, rtt) in sender.round_trips() {
            let bin = grid.bin_ending_at(at);
            rtt_sum[bin] += rtt;
            n_seen[bin] += 1;
        }
        // Of several readings in a bin the last one counts.
        for (flow, at, window) in sender.peer_windows() {
            windows.insert((grid.bin_ending_at(at), idx, flow), window);
        }
    }
    let known = |bin: usize| n_seen[bin] > 0;
    let rtt = (0..grid.n_bins)
        .map(|bin| known(bin).then(|| rtt_sum[bin] / f64::from(n_seen[bin])))
        .collect();
    let retransmits =
        retransmits.iter().enumerate().map(|(bin, n)| known(bin).then_some(*n)).collect();
    series.insert(IntervalSeries::Of(metric::RTT), rtt);
    if !windows.is_empty() {
        let mut sums = vec![None; grid.n_bins];
        for ((bin, ..), window) in windows {
            *sums[bin].get_or_insert(0.0) += window;
        }
        series.insert(IntervalSeries::Of(metric::PEER_WINDOW), sums);
    }
    series.insert(IntervalSeries::Of(metric::RETRANSMITS), retransmits);
}

/// Returns the grid that covers a trial whose intervals reach until `end`, as far as it was under
/// load.
fn covering(end: Nanos, loaded: Nanos, interval: Nanos) -> Grid {
    let end = if loaded > Nanos(0) { end.min(loaded) } else { end };
    let width = interval.0.max(1).max(end.0.div_ceil(MOST_BINS));
    // An interval that ended a little late does not make a bin of its own.
    let n_bins =
        usize::try_from(((end.0 + width / 2) / width).max(1)).expect("bins are limited in number");
    let whole = n_bins as u64 * width;
    Grid { width, n_bins, end: if loaded > Nanos(0) { whole.min(loaded.0) } else { whole } }
}

/// `counter` per second times `scale`, all `records` added.
fn insert_rate(
    grid: &Grid,
    series: &mut Series,
    name: IntervalSeries,
    records: Vec<&JobRecord>,
    counter: Counter,
    scale: f64,
) {
    if records.is_empty() {
        return;
    }
    let mut sums = vec![Some(0.0); grid.n_bins];
    for record in records {
        let mut counts = vec![0.0; grid.n_bins];
        let mut workers: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for interval in &record.intervals {
            let covered = workers.entry(interval.worker).or_insert_with(|| vec![0.0; grid.n_bins]);
            grid.spread(
                interval.start,
                interval.end,
                interval.end.since(interval.start).0 as f64,
                covered,
            );
            grid.spread(
                interval.start,
                interval.end,
                interval.counters[counter] as f64,
                &mut counts,
            );
        }
        for (bin, sum) in sums.iter_mut().enumerate() {
            let covered = workers.values().map(|covered| covered[bin]);
            let is_covered = covered.clone().sum::<f64>()
                >= LEAST_COVERED * grid.length(bin) * workers.len() as f64;
            // A worker that has ended counts nothing more: the bin has the time of the others.
            let ns = covered.fold(0.0, f64::max);
            *sum = sum.filter(|_| is_covered && ns > 0.0).map(|sum| sum + counts[bin] / ns);
        }
    }
    let per_second = scale * NANOS;
    series.insert(name, sums.into_iter().map(|sum| sum.map(|sum| sum * per_second)).collect());
}

#[cfg(test)]
mod tests {
    use linerate_model::Interval;

    use super::*;

    /// Returns the bytes received by these workers: from, until (ms), bytes.
    fn received(intervals: &[(u32, u64, u64, u64)]) -> JobRecord {
        let interval = |(worker, from, until, bytes): &(u32, u64, u64, u64)| {
            let (start, end) = (Nanos::from_millis(*from), Nanos::from_millis(*until));
            let mut interval = Interval { worker: *worker, start, end, ..Interval::default() };
            interval.counters[Counter::PayloadReceived] = *bytes;
            interval
        };
        JobRecord { intervals: intervals.iter().map(interval).collect(), flows: Vec::new() }
    }

    fn rates(record: &JobRecord, loaded: u64) -> Vec<Option<f64>> {
        let end = extent(record).expect("intervals").to;
        let grid = covering(end, Nanos::from_millis(loaded), Nanos::from_millis(100));
        let mut series = Series::new();
        insert_rate(
            &grid,
            &mut series,
            IntervalSeries::DatagramsSent,
            vec![record],
            Counter::PayloadReceived,
            1.0,
        );
        series.remove(&IntervalSeries::DatagramsSent).expect("inserted")
    }

    #[test]
    fn the_last_shorter_bin_and_the_drain_are_no_fall() {
        // 1000 bytes a millisecond for 260 ms, then a drain in which 5 ms bring something.
        let record = received(&[
            (0, 0, 100, 100_000),
            (0, 100, 200, 100_000),
            (0, 200, 260, 60_000),
            (0, 260, 300, 5_000),
        ]);
        assert_eq!(rates(&record, 260), [Some(1e6), Some(1e6), Some(1e6)]);
        // Cut off in the middle of its last bin.
        let cut = received(&[(0, 0, 100, 100_000), (0, 100, 160, 60_000)]);
        assert_eq!(rates(&cut, 1000), [Some(1e6), Some(1e6)]);
    }

    #[test]
    fn a_series_is_written_as_its_metric_and_direction_and_read_back() {
        let names = [
            (IntervalSeries::Of(metric::RETRANSMITS), "retransmits"),
            (IntervalSeries::Directed(metric::GOODPUT, Direction::Rx), "goodput_rx"),
            (IntervalSeries::Directed(metric::PACKET_RATE, Direction::Sum), "packet_rate_sum"),
            (IntervalSeries::DatagramsReceived, "datagrams_received"),
        ];
        for (series, text) in names {
            assert_eq!(series.to_string(), text);
            assert_eq!(IntervalSeries::try_from(text.to_owned()), Ok(series));
        }
        assert!(IntervalSeries::try_from("gooodput_tx".to_owned()).is_err());
    }

    #[test]
    fn a_worker_that_ended_is_not_made_up_for() {
        let record = received(&[
            (0, 0, 100, 100_000),
            (1, 0, 100, 100_000),
            (0, 100, 200, 100_000),
            (1, 100, 101, 0),
        ]);
        assert_eq!(rates(&record, 200), [Some(2e6), Some(1e6)]);
    }
}
