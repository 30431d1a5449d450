//! Where the measurement of a trial begins and ends.
//!
//! With a fixed warm-up the span is the measure phase. With an automatic one the whole loaded time is searched by MSER-5
//! (from 50 intervals on; MSER on single intervals from 10 on; below that the planned warm-up is cut) over the sum of
//! payload delivered, transactions or connections per interval, and at most half of it is cut.

use linerate_model::{Counter, JobRecord, Nanos, TrialRecord, Warmup};

use super::grid::Grid;
use super::span::Span;
use crate::statistics::{mean, mser, mser5};

/// Intervals from which MSER-5 has at least ten batches.
const ENOUGH_FOR_BATCHES: usize = 50;
/// Intervals from which MSER decides at all.
const ENOUGH: usize = 10;
/// Intervals up to which the rule is asked at all; a longer trial has its planned warm-up cut.
const MOST_BINS: u64 = 1_000_000;
/// Difference of the halves of a series beyond which a cut at the limit means that there is no steady state.
const UNSTEADY: f64 = 0.05;

/// The measured span, and why it may not be steady.
pub(super) struct Measured {
    pub(super) span: Span,
    pub(super) doubt: Option<String>,
}

/// The measured span of `trial`.
pub(super) fn measured(trial: &TrialRecord) -> Measured {
    let phases = &trial.spec.phases;
    let planned = Span { from: phases.warmup_span(), to: phases.loaded() };
    let series = progress(trial, phases.interval, phases.loaded());
    if matches!(phases.warmup, Warmup::Fixed(_)) || series.len() < ENOUGH || series.iter().all(|value| *value == 0.0) {
        return Measured { span: planned, doubt: None };
    }
    let cut = if series.len() < ENOUGH_FOR_BATCHES { mser(&series) } else { mser5(&series) };
    let cut = cut.expect("enough intervals for either rule");
    let span = Span { from: Nanos(cut.drop as u64 * phases.interval.0), to: planned.to };
    let (early, late) = series.split_at(series.len() / 2);
    let change = mean(late).zip(mean(early)).map_or(0.0, |(late, early)| late / early - 1.0);
    let doubt = (cut.at_limit && change.abs() > UNSTEADY).then(|| {
        format!("no steady state: the second half of the trial differs from the first by {:+.1} %", change * 100.0)
    });
    Measured { span, doubt }
}

/// What the measured jobs got done, interval by interval: payload bytes delivered, else transactions, else connections.
fn progress(trial: &TrialRecord, interval: Nanos, end: Nanos) -> Vec<f64> {
    let records: Vec<&JobRecord> = trial
        .spec
        .jobs
        .iter()
        .zip(&trial.jobs)
        .filter(|(spec, _)| spec.background.is_none())
        .flat_map(|(_, (active, passive))| [active, passive])
        .collect();
    let counter = [Counter::PayloadReceived, Counter::Transactions, Counter::Connections]
        .into_iter()
        .find(|counter| records.iter().any(|record| record.intervals.iter().any(|i| i.counters[*counter] > 0)));
    let Some(counter) = counter else { return Vec::new() };
    let Some(n_bins) = end.0.checked_div(interval.0).filter(|n_bins| (1..=MOST_BINS).contains(n_bins)) else {
        return Vec::new();
    };
    let n_bins = n_bins as usize;
    let grid = Grid { width: interval.0, n_bins };
    let mut bins = vec![0.0; n_bins];
    for interval in records.iter().flat_map(|record| &record.intervals) {
        grid.spread(interval.start, interval.end, interval.counters[counter] as f64, &mut bins);
    }
    bins
}
