//! Where the measurement of a trial begins and ends.
//!
//! With a fixed warm-up the span is the measure phase. With an automatic one the whole loaded time is searched by MSER-5
//! (from 50 intervals on; MSER on single intervals from 10 on) over the sum of payload delivered, transactions or
//! connections per interval, and at most half of it is cut. Where the best cut is the largest allowed, the rule has found
//! none (White 1997), and the planned warm-up is cut, as it is below 10 intervals.
//!
//! Whether there is a steady state is asked from 50 intervals on, for which ten batch means exist: the best cut is then the
//! largest, and the batch means drift over time (Spearman). A shorter trial cannot tell drift from scatter: of ten
//! intervals of a busy machine the halves differ by tens of percent either way. There the interval over the repeats says
//! how steady a figure is.

use linerate_model::{Counter, JobRecord, Nanos, TrialRecord, Warmup};

use super::grid::Grid;
use super::span::Span;
use crate::statistics::{drifts, mean, mser, mser5};

/// Intervals from which MSER-5 has at least ten batches.
const ENOUGH_FOR_BATCHES: usize = 50;
/// Intervals from which MSER decides at all.
const ENOUGH: usize = 10;
/// Intervals up to which the rule is asked at all; a longer trial has its planned warm-up cut.
const MOST_BINS: u64 = 1_000_000;
/// Intervals averaged into one to look for drift: as many as MSER-5 takes.
const BATCH: usize = 5;
/// Difference of the halves of a series below which a drift does not matter.
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
    let enough = series.len() >= ENOUGH_FOR_BATCHES;
    let cut = if enough { mser5(&series) } else { mser(&series) }.expect("enough intervals for either rule");
    if !cut.at_limit {
        let span = Span { from: Nanos(cut.drop as u64 * phases.interval.0), to: planned.to };
        return Measured { span, doubt: None };
    }
    Measured { span: planned, doubt: if enough { drift(&series) } else { None } }
}

/// How the second half of `series` differs from the first, if its batch means drift.
fn drift(series: &[f64]) -> Option<String> {
    let batches: Vec<f64> = series.chunks_exact(BATCH).filter_map(mean).collect();
    drifts(&batches)?;
    let (early, late) = series.split_at(series.len() / 2);
    let change = mean(late)? / mean(early)? - 1.0;
    (change.abs() > UNSTEADY).then(|| {
        format!("no steady state: the second half of the trial differs from the first by {:+.1} %", change * 100.0)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_is_told_from_scatter() {
        let falling: Vec<f64> = (0..60).map(|bin| 1000.0 - f64::from(bin) * 5.0).collect();
        let told = drift(&falling).expect("a fall by a third");
        assert!(told.ends_with("-16.2 %"), "{told}");
        let scattered: Vec<f64> = (0..60).map(|bin| 1000.0 + 400.0 * f64::from(bin * 7919 % 13)).collect();
        assert_eq!(drift(&scattered), None);
        let slight: Vec<f64> = (0..60).map(|bin| 1000.0 + f64::from(bin) / 10.0).collect();
        assert_eq!(drift(&slight), None);
    }
}
