//! Start and end of a trial's measurement.
//!
//! With a fixed warm-up the span is the measure phase. With an automatic one the whole loaded time
//! is searched by MSER-5 (from 50 intervals on; MSER on single intervals from 10 on) over the sum
//! of payload delivered, transactions or connections per interval, and at most half of it is cut.
//! Where the best cut is the largest allowed, the rule has found none (White 1997), and the planned
//! warm-up is cut, as it is below 10 intervals.
//!
//! The rest of a trial of 50 intervals or more may still warm up and then keep its level
//! (`statistics::settling`); the measurement then begins with that level. Spans that do not settle
//! are reported by `settling`.
//!
//! A load with an end of its own, such as an amount to send, ends the measurement with its last
//! progress.

use linerate_model::{Counter, Interval, JobRecord, Nanos, TrialOutcome, TrialRecord, Warmup};

use super::grid::Grid;
use super::span::Span;
use crate::statistics::{Class, mean, mser, mser5, settling};

/// Counters that show progress.
const PROGRESS: [Counter; 3] =
    [Counter::PayloadReceived, Counter::Transactions, Counter::Connections];
/// Intervals from which MSER-5 has at least ten batches.
const ENOUGH_FOR_BATCHES: usize = 50;
/// Intervals from which MSER decides at all.
const ENOUGH: usize = 10;
/// Intervals up to which the rule is asked at all; a longer trial has its planned warm-up cut.
const MOST_BINS: u64 = 1_000_000;
/// Intervals from which the change points of batch means are looked for, which takes their square.
const MOST_FOR_CHANGES: usize = 10_000;
/// Intervals averaged into one to look for changes: as many as MSER-5 takes.
const BATCH: usize = 5;

/// Returns the measured span of `trial`.
pub(super) fn measured(trial: &TrialRecord) -> Span {
    let phases = &trial.spec.phases;
    let end = load_end(trial);
    let planned = Span { from: phases.warmup_span().min(end), to: end };
    let series = progress(trial, phases.interval, end);
    if matches!(phases.warmup, Warmup::Fixed(_))
        || series.len() < ENOUGH
        || series.iter().all(|value| *value == 0.0)
    {
        return planned;
    }
    let enough = series.len() >= ENOUGH_FOR_BATCHES;
    let cut = if enough { mser5(&series) } else { mser(&series) }
        .expect("enough intervals for either rule");
    let start = |intervals: usize| Nanos(intervals as u64 * phases.interval.0);
    let from = |intervals| Span { from: start(intervals), to: planned.to };
    let found = if cut.at_limit { planned } else { from(cut.drop) };
    if !enough {
        return found;
    }
    // The rest may still warm up: the rule cuts at most half.
    let left = (found.from.0 / phases.interval.0) as usize;
    warm_from(&series[left..]).map_or(found, |more| from(left + more))
}

/// Returns the end of the load of `trial`: that of the plan, or of the last progress if all workers
/// ended before, as they do by themselves.
pub(super) fn load_end(trial: &TrialRecord) -> Nanos {
    let planned = trial.spec.phases.loaded();
    let records = measured_records(trial);
    let intervals = || records.iter().flat_map(|record| &record.intervals);
    let Some(end) = intervals().map(|interval| interval.end).max() else { return planned };
    // A trial that was cut off has an end of another kind.
    if trial.outcome != Some(TrialOutcome::Completed) || end + trial.spec.phases.interval >= planned
    {
        return planned;
    }
    // A receiver may have waited for what was lost.
    intervals().filter(|interval| moves(interval)).map(|interval| interval.end).max().unwrap_or(end)
}

/// Returns whether anything was delivered in `interval`.
pub(crate) fn moves(interval: &Interval) -> bool {
    PROGRESS.iter().any(|of| interval.counters[*of] > 0)
}

/// Returns both ends of the jobs that are measured.
fn measured_records(trial: &TrialRecord) -> Vec<&JobRecord> {
    let jobs = trial.spec.jobs.iter().zip(&trial.jobs);
    let measured = jobs.filter(|(spec, _)| spec.background.is_none());
    measured.flat_map(|(_, (active, passive))| [active, passive]).collect()
}

/// Returns the interval from which `series` holds the level it warmed up to.
fn warm_from(series: &[f64]) -> Option<usize> {
    if series.len() > MOST_FOR_CHANGES {
        return None;
    }
    let batches: Vec<f64> = series.chunks_exact(BATCH).filter_map(mean).collect();
    let found = settling(&batches).filter(|found| found.class == Class::WarmsUp)?;
    found.levels.last().map(|level| level.from * BATCH)
}

/// Returns the progress of the measured jobs, interval by interval: payload bytes delivered,
/// otherwise transactions, otherwise connections.
fn progress(trial: &TrialRecord, interval: Nanos, end: Nanos) -> Vec<f64> {
    let records = measured_records(trial);
    let counter = PROGRESS.into_iter().find(|counter| {
        records.iter().any(|record| record.intervals.iter().any(|i| i.counters[*counter] > 0))
    });
    let Some(counter) = counter else { return Vec::new() };
    let Some(n_bins) =
        end.0.checked_div(interval.0).filter(|n_bins| (1..=MOST_BINS).contains(n_bins))
    else {
        return Vec::new();
    };
    let n_bins = n_bins as usize;
    let grid = Grid { width: interval.0, n_bins, end: interval.0 * n_bins as u64 };
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
    fn a_long_warm_up_is_cut_where_its_last_level_begins_and_a_fall_is_not() {
        let scatter = |bin: u32| f64::from(bin * 7919 % 13);
        let warming: Vec<f64> =
            (0..100).map(|bin| if bin < 60 { 500.0 } else { 1000.0 } + scatter(bin)).collect();
        assert_eq!(warm_from(&warming), Some(60));
        let falling: Vec<f64> = warming.iter().map(|value| 2000.0 - value).collect();
        assert_eq!(warm_from(&falling), None);
        assert_eq!(warm_from(&(0..60).map(scatter).collect::<Vec<f64>>()), None);
    }
}
