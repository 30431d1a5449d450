//! What happened during a trial, interval by interval, on one grid for all workers; measured jobs added up.
//!
//! Series: `goodput_tx`, `goodput_rx` (bit/s), `datagrams_sent`, `datagrams_received` (per second), `loss_ratio` (of the
//! datagrams sent in the interval, those not received in it; what is under way at its end shows as loss there and is made
//! up for in the next), `transaction_rate`, `connection_rate` (per second), `retransmits` (segments), `rtt` (seconds, mean
//! over flows). A bin that intervals do not cover by half is a gap, never zero.

use std::collections::BTreeMap;

use linerate_model::{Counter, Direction, JobRecord, Nanos, TrialRecord};

use super::connections::Connections;
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
    let grid = Grid::covering(end, trial.spec.phases.interval);
    let flows: Vec<Flow<'_>> = measured.iter().flat_map(|job| job.flows()).collect();
    let mut series = Series::new();
    for (direction, name) in [(Direction::Tx, "goodput_tx"), (Direction::Rx, "goodput_rx")] {
        let receivers = flows.iter().filter(|flow| flow.direction == direction).map(|flow| flow.receiver);
        grid.insert_rate(&mut series, name, receivers.collect(), Counter::PayloadReceived, BITS);
    }
    datagrams(&grid, &flows, &mut series);
    for (name, counter) in [("transaction_rate", Counter::Transactions), ("connection_rate", Counter::Connections)] {
        let counting = measured.iter().filter_map(|job| job.ends().into_iter().find(|end| total(end, counter) > 0));
        grid.insert_rate(&mut series, name, counting.collect(), counter, 1.0);
    }
    connections(&grid, &flows, &mut series);
    (grid.ends(), series)
}

fn datagrams(grid: &Grid, flows: &[Flow<'_>], series: &mut Series) {
    let datagrams = || flows.iter().filter(|flow| flow.is_datagrams());
    let (senders, receivers) = (datagrams().map(|flow| flow.sender), datagrams().map(|flow| flow.receiver));
    grid.insert_rate(series, "datagrams_sent", senders.collect(), Counter::DatagramsSent, 1.0);
    grid.insert_rate(series, "datagrams_received", receivers.collect(), Counter::DatagramsReceived, 1.0);
    if let (Some(sent), Some(received)) = (series.get("datagrams_sent"), series.get("datagrams_received")) {
        let missing = |(sent, received): (&Option<f64>, &Option<f64>)| {
            sent.zip(*received).filter(|(sent, _)| *sent > 0.0).map(|(sent, received)| (1.0 - received / sent).max(0.0))
        };
        let ratio = sent.iter().zip(received).map(missing).collect();
        series.insert("loss_ratio".to_owned(), ratio);
    }
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
    for sender in &senders {
        for (start, end, change) in sender.steps(|state| u64::from(state.retransmits)) {
            grid.spread(start, end, change, &mut retransmits);
        }
        for (at, rtt) in sender.round_trips() {
            let bin = grid.bin_ending_at(at);
            rtt_sum[bin] += rtt;
            n_seen[bin] += 1;
        }
    }
    let known = |bin: usize| n_seen[bin] > 0;
    let rtt = (0..grid.n_bins).map(|bin| known(bin).then(|| rtt_sum[bin] / f64::from(n_seen[bin]))).collect();
    let retransmits = retransmits.iter().enumerate().map(|(bin, n)| known(bin).then_some(*n)).collect();
    series.insert("rtt".to_owned(), rtt);
    series.insert("retransmits".to_owned(), retransmits);
}

/// Bins of equal width from the start barrier on.
struct Grid {
    width: u64,
    n_bins: usize,
}

impl Grid {
    fn covering(end: Nanos, interval: Nanos) -> Self {
        let width = interval.0.max(1).max(end.0.div_ceil(MOST_BINS));
        // An interval that ended a little late does not make a bin of its own.
        let n_bins = usize::try_from(((end.0 + width / 2) / width).max(1)).expect("bins are limited in number");
        Self { width, n_bins }
    }

    fn ends(&self) -> Vec<f64> {
        (1..=self.n_bins as u64).map(|bin| Nanos(bin * self.width).as_secs_f64()).collect()
    }

    /// The bin whose end is nearest to `at`.
    fn bin_ending_at(&self, at: Nanos) -> usize {
        ((at.0.saturating_sub(self.width / 2) / self.width) as usize).min(self.n_bins - 1)
    }

    /// Apportions `amount`, counted from `start` to `end`, to the bins.
    fn spread(&self, start: Nanos, end: Nanos, amount: f64, bins: &mut [f64]) {
        let length = end.since(start).0 as f64;
        if length == 0.0 {
            bins[self.bin_ending_at(end)] += amount;
            return;
        }
        let first = (start.0 / self.width) as usize;
        for (bin, sum) in bins.iter_mut().enumerate().skip(first) {
            let from = (bin as u64 * self.width).max(start.0);
            let to = ((bin as u64 + 1) * self.width).min(end.0);
            if to <= from {
                break;
            }
            *sum += amount * (to - from) as f64 / length;
        }
    }

    /// `counter` per second times `scale`, all `records` added.
    fn insert_rate(&self, series: &mut Series, name: &str, records: Vec<&JobRecord>, counter: Counter, scale: f64) {
        if records.is_empty() {
            return;
        }
        let mut sums = vec![0.0; self.n_bins];
        let mut covered = vec![true; self.n_bins];
        for record in records {
            let mut shares = vec![0.0; self.n_bins];
            let mut workers: Vec<u32> = record.intervals.iter().map(|interval| interval.worker).collect();
            workers.sort_unstable();
            workers.dedup();
            for interval in &record.intervals {
                let share = interval.end.since(interval.start).0 as f64 / (self.width as f64 * workers.len() as f64);
                self.spread(interval.start, interval.end, share, &mut shares);
                self.spread(interval.start, interval.end, interval.counters[counter] as f64, &mut sums);
            }
            for (covered, share) in covered.iter_mut().zip(shares) {
                *covered &= share >= LEAST_COVERED;
            }
        }
        let per_second = scale * NANOS / self.width as f64;
        let values = sums.into_iter().zip(covered).map(|(sum, covered)| covered.then_some(sum * per_second));
        series.insert(name.to_owned(), values.collect());
    }
}
