//! What happened during a trial, interval by interval, on one grid for all workers; measured jobs added up.
//!
//! Series: `goodput_tx`, `goodput_rx` (bit/s), `datagrams_sent`, `datagrams_received` (per second), `loss_ratio` (of the
//! datagrams sent in the interval, how many more were missing for good at its end), `transaction_rate`, `connection_rate`, `iops_rx`, `iops_tx` (per second), `retransmits` (segments), `rtt` (seconds, mean
//! over flows), `peer_window` (bytes the receivers advertise, all flows added up). A bin that intervals do not cover by half is a gap, never zero.

use std::collections::BTreeMap;

use linerate_model::{Counter, Direction, JobRecord, Nanos, TrialRecord};

use super::connections::Connections;
use super::grid::Grid;
use super::samples::NANOS;
use super::span::{extent, total};
use super::traffic::{Flow, Job};

/// The least share of a bin that intervals must cover.
const LEAST_COVERED: f64 = 0.5;
/// Bits in a byte.
const BITS: f64 = 8.0;
/// Bins a trial may have; a trial of days in milliseconds is told more coarsely.
const MOST_BINS: u64 = 100_000;

/// Series by name; `None` is a gap.
pub(super) type Series = BTreeMap<String, Vec<Option<f64>>>;

/// The ends of the bins in seconds, and the series.
pub(super) fn of(trial: &TrialRecord, jobs: &[Job<'_>]) -> (Vec<f64>, Series) {
    let measured: Vec<&Job<'_>> = jobs.iter().filter(|job| job.spec.background.is_none()).collect();
    let records = measured.iter().flat_map(|job| job.ends());
    let Some(end) = records.filter_map(extent).map(|extent| extent.to).max() else {
        return (Vec::new(), Series::new());
    };
    let grid = covering(end, trial.spec.phases.interval);
    let flows: Vec<Flow<'_>> = measured.iter().flat_map(|job| job.flows()).collect();
    let mut series = Series::new();
    for (direction, name) in [(Direction::Tx, "goodput_tx"), (Direction::Rx, "goodput_rx")] {
        let receivers = flows.iter().filter(|flow| flow.direction == direction).map(|flow| flow.receiver);
        insert_rate(&grid, &mut series, name, receivers.collect(), Counter::PayloadReceived, BITS);
    }
    datagrams(&grid, &flows, &mut series);
    for (name, counter) in [
        ("transaction_rate", Counter::Transactions),
        ("connection_rate", Counter::Connections),
        ("iops_rx", Counter::Reads),
        ("iops_tx", Counter::Writes),
    ] {
        let counting = measured.iter().filter_map(|job| job.ends().into_iter().find(|end| total(end, counter) > 0));
        insert_rate(&grid, &mut series, name, counting.collect(), counter, 1.0);
    }
    connections(&grid, &flows, &mut series);
    (grid.ends(), series)
}

fn datagrams(grid: &Grid, flows: &[Flow<'_>], series: &mut Series) {
    let datagrams = || flows.iter().filter(|flow| flow.is_datagrams());
    let (senders, receivers) = (datagrams().map(|flow| flow.sender), datagrams().map(|flow| flow.receiver));
    insert_rate(grid, series, "datagrams_sent", senders.collect(), Counter::DatagramsSent, 1.0);
    insert_rate(grid, series, "datagrams_received", receivers.collect(), Counter::DatagramsReceived, 1.0);
    if let (Some(sent), Some(received)) = (series.get("datagrams_sent"), series.get("datagrams_received")) {
        let ratio = lost(sent, received, grid.width as f64 / NANOS);
        series.insert("loss_ratio".to_owned(), ratio);
    }
}

/// The share of what was sent in each bin of `seconds` that never came. What is under way when a bin ends, or was cut at another
/// instant by the receiver, is not lost: of all that was missing at the end of a bin, only what is still missing at the end of
/// every later one, less what still came after the last was sent: so much was under way then, and is taken to have been before. Over all
/// bins that adds up to what was lost.
fn lost(sent: &[Option<f64>], received: &[Option<f64>], seconds: f64) -> Vec<Option<f64>> {
    /// Shares of intervals are fractions: less than this many datagrams is none.
    const NOTHING: f64 = 0.5;
    let mut missing = Vec::with_capacity(sent.len());
    let mut outstanding = 0.0;
    for (sent, received) in sent.iter().zip(received) {
        outstanding += (sent.unwrap_or(0.0) - received.unwrap_or(0.0)) * seconds;
        missing.push(outstanding);
    }
    let last = sent.iter().rposition(|sent| sent.is_some_and(|sent| sent > 0.0));
    let drained = last.zip(missing.last()).map_or(0.0, |(last, end)| f64::max(missing[last] - end, 0.0));
    let sending = last.map_or(0, |last| last + 1);
    missing[..sending].iter_mut().for_each(|missing| *missing = f64::max(*missing - drained, 0.0));
    for bin in (1..missing.len()).rev() {
        missing[bin - 1] = f64::min(missing[bin - 1], missing[bin]);
    }
    let mut before = 0.0;
    let ratio = |((sent, received), missing): ((&Option<f64>, &Option<f64>), &f64)| {
        let (new, sent) = (missing - before, sent.zip(*received).map(|(sent, _)| sent * seconds));
        let counts = new >= NOTHING;
        before = if counts { *missing } else { before };
        sent.filter(|sent| *sent > 0.0).map(|sent| if counts { (new / sent).min(1.0) } else { 0.0 })
    };
    sent.iter().zip(received).zip(&missing).map(ratio).collect()
}

fn connections(grid: &Grid, flows: &[Flow<'_>], series: &mut Series) {
    let senders: Vec<Connections<'_>> = flows
        .iter()
        .filter(|flow| !flow.is_datagrams())
        .map(|flow| Connections::of(flow.sender))
        .filter(|connections| !connections.is_empty())
        .collect();
    if senders.is_empty() {
        return;
    }
    let mut retransmits = vec![0.0; grid.n_bins];
    let (mut rtt_sum, mut n_seen) = (vec![0.0; grid.n_bins], vec![0_u32; grid.n_bins]);
    let mut windows: BTreeMap<(usize, usize, u32), f64> = BTreeMap::new();
    for (idx, sender) in senders.iter().enumerate() {
        // A count stands where it was read: spread over bins it would be fractions of segments.
        for (_, end, change) in sender.steps(|state| u64::from(state.retransmits)) {
            retransmits[grid.bin_ending_at(end)] += change;
        }
        for (at, rtt) in sender.round_trips() {
            let bin = grid.bin_ending_at(at);
            rtt_sum[bin] += rtt;
            n_seen[bin] += 1;
        }
        // Of several readings in a bin the last one stands.
        for (flow, at, window) in sender.peer_windows() {
            windows.insert((grid.bin_ending_at(at), idx, flow), window);
        }
    }
    let known = |bin: usize| n_seen[bin] > 0;
    let rtt = (0..grid.n_bins).map(|bin| known(bin).then(|| rtt_sum[bin] / f64::from(n_seen[bin]))).collect();
    let retransmits = retransmits.iter().enumerate().map(|(bin, n)| known(bin).then_some(*n)).collect();
    series.insert("rtt".to_owned(), rtt);
    if !windows.is_empty() {
        let mut sums = vec![None; grid.n_bins];
        for ((bin, ..), window) in windows {
            *sums[bin].get_or_insert(0.0) += window;
        }
        series.insert("peer_window".to_owned(), sums);
    }
    series.insert("retransmits".to_owned(), retransmits);
}

/// The grid that covers a trial until `end`.
fn covering(end: Nanos, interval: Nanos) -> Grid {
    let width = interval.0.max(1).max(end.0.div_ceil(MOST_BINS));
    // An interval that ended a little late does not make a bin of its own.
    let n_bins = usize::try_from(((end.0 + width / 2) / width).max(1)).expect("bins are limited in number");
    Grid { width, n_bins }
}

/// `counter` per second times `scale`, all `records` added.
fn insert_rate(grid: &Grid, series: &mut Series, name: &str, records: Vec<&JobRecord>, counter: Counter, scale: f64) {
    if records.is_empty() {
        return;
    }
    let mut sums = vec![0.0; grid.n_bins];
    let mut covered = vec![true; grid.n_bins];
    for record in records {
        let mut shares = vec![0.0; grid.n_bins];
        let mut workers: Vec<u32> = record.intervals.iter().map(|interval| interval.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        for interval in &record.intervals {
            let share = interval.end.since(interval.start).0 as f64 / (grid.width as f64 * workers.len() as f64);
            grid.spread(interval.start, interval.end, share, &mut shares);
            grid.spread(interval.start, interval.end, interval.counters[counter] as f64, &mut sums);
        }
        for (covered, share) in covered.iter_mut().zip(shares) {
            *covered &= share >= LEAST_COVERED;
        }
    }
    let per_second = scale * NANOS / grid.width as f64;
    let values = sums.into_iter().zip(covered).map(|(sum, covered)| covered.then_some(sum * per_second));
    series.insert(name.to_owned(), values.collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_under_way_is_not_lost_and_what_is_lost_is_counted_where_it_was() {
        let some = |values: &[f64]| values.iter().map(|value| Some(*value)).collect::<Vec<_>>();
        // A quarter of a bin is on the way; in the third bin forty of a hundred are lost. Drained at the end.
        let sent = some(&[100.0, 100.0, 100.0, 100.0, 0.0]);
        let received = some(&[75.0, 100.0, 60.0, 100.0, 25.0]);
        assert_eq!(lost(&sent, &received, 1.0), [Some(0.0), Some(0.0), Some(0.4), Some(0.0), None]);
        // The receiver cuts its bins a little later or earlier than the sender: nothing is lost.
        let cut = some(&[75.0, 125.0, 90.0, 110.0, 0.0]);
        assert_eq!(lost(&sent, &cut, 1.0), [Some(0.0), Some(0.0), Some(0.0), Some(0.0), None]);
    }
}
