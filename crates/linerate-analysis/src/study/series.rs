//! What happened during a trial, interval by interval, on one grid for all workers; measured jobs added up.
//!
//! Series: `goodput_tx`, `goodput_rx` (bit/s), `datagrams_sent`, `datagrams_received` (per second), `loss_ratio` (of the
//! datagrams sent in the interval, those not received in it; what is under way at its end shows as loss there and is made
//! up for in the next), `transaction_rate`, `connection_rate` (per second), `retransmits` (segments), `rtt` (seconds, mean
//! over flows). A bin that no worker's interval covers by half is a gap, never zero.

use std::collections::BTreeMap;

use linerate_model::{Counter, Direction, JobRecord, Nanos, TrialRecord};

use super::connections::Connections;
use super::span::{Span, counted, coverage, extent, total};
use super::traffic::{Flow, Job};

/// The least share of a bin that intervals must cover.
const LEAST_COVERED: f64 = 0.5;
/// Bits in a byte.
const BITS: f64 = 8.0;
/// Bins a trial may have; a trial of days in milliseconds is told more coarsely.
const MOST_BINS: u64 = 100_000;

/// The ends of the bins in seconds, and the series by name.
pub(super) fn of(trial: &TrialRecord, jobs: &[Job<'_>]) -> (Vec<f64>, BTreeMap<String, Vec<Option<f64>>>) {
    let measured: Vec<&Job<'_>> = jobs.iter().filter(|job| job.spec.background.is_none()).collect();
    let records = || measured.iter().flat_map(|job| job.ends());
    let Some(end) = records().filter_map(extent).map(|extent| extent.to).max() else {
        return (Vec::new(), BTreeMap::new());
    };
    let width = trial.spec.phases.interval.0.max(1).max(end.0.div_ceil(MOST_BINS));
    // An interval that ended a little late does not make a bin of its own.
    let n_bins = ((end.0 + width / 2) / width).max(1);
    let bins: Vec<Span> =
        (0..n_bins).map(|bin| Span { from: Nanos(bin * width), to: Nanos((bin + 1) * width) }).collect();

    let mut series = BTreeMap::new();
    let flows: Vec<Flow<'_>> = measured.iter().flat_map(|job| job.flows()).collect();
    for (direction, name) in [(Direction::Tx, "goodput_tx"), (Direction::Rx, "goodput_rx")] {
        let receivers: Vec<&JobRecord> =
            flows.iter().filter(|f| f.direction == direction).map(|f| f.receiver).collect();
        insert(&mut series, name, &bins, &receivers, Counter::PayloadReceived, BITS);
    }
    let datagrams: Vec<&Flow<'_>> = flows.iter().filter(|flow| flow.is_datagrams()).collect();
    let senders: Vec<&JobRecord> = datagrams.iter().map(|flow| flow.sender).collect();
    let receivers: Vec<&JobRecord> = datagrams.iter().map(|flow| flow.receiver).collect();
    insert(&mut series, "datagrams_sent", &bins, &senders, Counter::DatagramsSent, 1.0);
    insert(&mut series, "datagrams_received", &bins, &receivers, Counter::DatagramsReceived, 1.0);
    if let (Some(sent), Some(received)) = (series.get("datagrams_sent"), series.get("datagrams_received")) {
        let ratio = sent.iter().zip(received).map(|(sent, received): (&Option<f64>, &Option<f64>)| {
            sent.zip(*received).filter(|(sent, _)| *sent > 0.0).map(|(sent, received)| (1.0 - received / sent).max(0.0))
        });
        let ratio = ratio.collect();
        series.insert("loss_ratio".to_owned(), ratio);
    }
    for (name, counter) in [("transaction_rate", Counter::Transactions), ("connection_rate", Counter::Connections)] {
        let counting: Vec<&JobRecord> =
            measured.iter().filter_map(|job| job.ends().into_iter().find(|end| total(end, counter) > 0)).collect();
        insert(&mut series, name, &bins, &counting, counter, 1.0);
    }
    let senders: Vec<Connections<'_>> = flows
        .iter()
        .filter(|flow| !flow.is_datagrams())
        .map(|flow| Connections::of(flow.sender))
        .filter(|connections| !connections.is_empty())
        .collect();
    if !senders.is_empty() {
        let retransmits =
            |bin: &Span| senders.iter().map(|c| c.change(*bin, |state| u64::from(state.retransmits))).sum();
        let rtt = |bin: &Span| {
            let seen: Vec<f64> = senders.iter().filter_map(|connections| connections.rtt_seconds(*bin)).collect();
            crate::statistics::mean(&seen)
        };
        series.insert("retransmits".to_owned(), bins.iter().map(retransmits).collect());
        series.insert("rtt".to_owned(), bins.iter().map(rtt).collect());
    }
    (bins.iter().map(|bin| bin.to.as_secs_f64()).collect(), series)
}

fn insert(
    series: &mut BTreeMap<String, Vec<Option<f64>>>,
    name: &str,
    bins: &[Span],
    records: &[&JobRecord],
    counter: Counter,
    scale: f64,
) {
    if records.is_empty() {
        return;
    }
    let value = |bin: &Span| {
        let covered = records.iter().all(|record| coverage(record, *bin).is_some_and(|share| share >= LEAST_COVERED));
        covered
            .then(|| records.iter().map(|record| counted(record, counter, *bin)).sum::<f64>() * scale / bin.seconds())
    };
    series.insert(name.to_owned(), bins.iter().map(value).collect());
}
