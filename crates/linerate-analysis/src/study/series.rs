//! Course of a trial, interval by interval, on one grid for all workers; measured jobs added up.
//!
//! Series: `goodput_tx`, `goodput_rx` (bit/s), `datagrams_sent`, `datagrams_received` (per second),
//! `loss_ratio` (fraction of the datagrams sent in the interval that never came: see
//! `loss_series`), `transaction_rate`, `connection_rate`, `iops_rx`, `iops_tx` (per second),
//! `retransmits` (segments), `rtt` (seconds, mean over flows), `peer_window` (bytes the receivers
//! advertise, all flows added up). A bin of which intervals cover less than half is a gap, never
//! zero. A rate is that of the covered part of its bin before the end of the load, so that neither
//! the last, shorter bin nor the drain of the load looks like a fall. Counts of the drain belong to
//! the last bin.

use std::collections::BTreeMap;

use linerate_model::{Counter, Direction, JobRecord, Nanos, TrialRecord, metric};

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

/// Series by name; `None` is a gap.
type Series = BTreeMap<String, Vec<Option<f64>>>;

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
    for (direction, name) in [(Direction::Tx, "goodput_tx"), (Direction::Rx, "goodput_rx")] {
        let receivers =
            flows.iter().filter(|flow| flow.direction == direction).map(|flow| flow.receiver);
        insert_rate(&grid, &mut series, name, receivers.collect(), Counter::PayloadReceived, BITS);
    }
    datagrams(&grid, &flows, &mut series);
    for (name, counter) in [
        (metric::TRANSACTION_RATE, Counter::Transactions),
        (metric::CONNECTION_RATE, Counter::Connections),
        ("iops_rx", Counter::Reads),
        ("iops_tx", Counter::Writes),
    ] {
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
    insert_rate(grid, series, "datagrams_sent", senders.collect(), Counter::DatagramsSent, 1.0);
    insert_rate(
        grid,
        series,
        "datagrams_received",
        receivers.collect(),
        Counter::DatagramsReceived,
        1.0,
    );
    let lost: Option<Vec<Lost>> = datagrams().map(|flow| loss_series::of(grid, *flow)).collect();
    if let Some(lost) = lost.filter(|lost| !lost.is_empty()) {
        let bin = |idx: usize| {
            let sum = |of: fn(&Lost) -> &Vec<f64>| lost.iter().map(|one| of(one)[idx]).sum::<f64>();
            let (lost, sent) = (sum(|one| &one.lost), sum(|one| &one.sent));
            (sent > 0.0).then(|| lost / sent)
        };
        series.insert(metric::LOSS_RATIO.to_owned(), (0..grid.n_bins).map(bin).collect());
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
    series.insert(metric::RTT.to_owned(), rtt);
    if !windows.is_empty() {
        let mut sums = vec![None; grid.n_bins];
        for ((bin, ..), window) in windows {
            *sums[bin].get_or_insert(0.0) += window;
        }
        series.insert(metric::PEER_WINDOW.to_owned(), sums);
    }
    series.insert(metric::RETRANSMITS.to_owned(), retransmits);
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
    name: &str,
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
    series.insert(
        name.to_owned(),
        sums.into_iter().map(|sum| sum.map(|sum| sum * per_second)).collect(),
    );
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
        insert_rate(&grid, &mut series, "rate", vec![record], Counter::PayloadReceived, 1.0);
        series.remove("rate").expect("inserted")
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
