//! Course of the rates of a trial over its measured span, and whether one number may represent a
//! point (docs/methodology/repeats.md#steady-state).
//!
//! Evaluated for payload delivered, per direction, and for transactions and connections. The
//! readings are means of five intervals, as in MSER-5, or of more where there would be more than
//! [`MOST_READINGS`]. A span of less than [`ENOUGH`] intervals is not evaluated: of ten intervals
//! of a busy machine the halves differ by tens of percent without any drift.
//!
//! A rate whose trials mostly slow down, drift or never settle has no estimate: the levels of each
//! trial are reported instead. The values of the trials remain, so that arms and campaigns can be
//! compared by the amount delivered in the same time.

use std::collections::BTreeMap;

use linerate_model::{Counter, Direction, JobRecord, Metric, Nanos, Source, Use, metric};
use serde::{Deserialize, Serialize};

use super::grid::Grid;
use super::reason::Reason;
use super::span::{Span, total};
use super::traffic::Job;
use crate::statistics::{Class, settling};

/// Intervals from which a trial is asked.
const ENOUGH: u64 = 50;
/// Intervals averaged into a reading, at least.
const BATCH: u64 = 5;
/// Readings of a trial, at most: looking for change points takes their square.
const MOST_READINGS: u64 = 240;
/// Bits in a byte.
const BITS: f64 = 8.0;
/// Nanoseconds in a second.
const NANOS: f64 = 1e9;
/// The rate of payload, and what it is in other words or at another layer.
const GOODPUT: &Metric = metric::GOODPUT;

/// Course of a rate in the trials of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// Text of the report: the class of all trials, or the number of trials per class.
    pub word: String,
    /// True if one number may represent it.
    pub has_single_number: bool,
    /// Per trial of the point; `None` where it was not asked.
    pub trials: Vec<Option<TrialSettling>>,
}

/// Course of a rate in one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialSettling {
    /// Its class.
    pub class: Class,
    /// Its levels.
    pub levels: Vec<RateLevel>,
}

/// A stretch of a trial with one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLevel {
    /// Its beginning, seconds since the start barrier.
    pub from: f64,
    /// Its end, seconds since the start barrier.
    pub to: f64,
    /// Its mean, in the unit of the metric.
    pub value: f64,
}

/// Readings of rates over a span, by metric and direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates(BTreeMap<(&'static Metric, Direction), Vec<f64>>);

/// Course of rates, by metric and direction.
pub(super) type Classes = BTreeMap<(&'static Metric, Direction), TrialSettling>;

/// Readings over a span.
#[derive(Clone, Copy)]
pub(super) struct Readings {
    span: Span,
    width: u64,
    n: usize,
}

impl Readings {
    /// Returns the readings of `span` of a trial recorded in intervals of `interval`; `None` if it
    /// is too short for a classification.
    pub(super) fn over(span: Span, interval: Nanos) -> Option<Self> {
        let length = span.to.since(span.from).0;
        let n_intervals = length.checked_div(interval.0).filter(|n| *n >= ENOUGH)?;
        let batch = BATCH.max(n_intervals.div_ceil(MOST_READINGS));
        let width = batch * interval.0;
        Some(Self {
            span,
            width,
            n: usize::try_from(length / width).expect("readings are limited in number"),
        })
    }

    /// Returns the rates of `job`.
    pub(super) fn of(self, job: &Job<'_>) -> Rates {
        let mut rates = Rates::default();
        // A foreign receiver of datagrams counts no intervals.
        for flow in job.flows().into_iter().filter(|flow| !flow.is_counted_once()) {
            let counter = flow.delivered();
            rates.0.insert((GOODPUT, flow.direction), self.rate(flow.receiver, counter, BITS));
        }
        for (metric, source) in metric::sourced() {
            let Source::OperationRate(counter) = source else { continue };
            if let Some(end) = job.ends().into_iter().find(|end| total(end, counter) > 0) {
                rates.0.insert((metric, Direction::Sum), self.rate(end, counter, 1.0));
            }
        }
        rates
    }

    fn rate(self, record: &JobRecord, counter: Counter, scale: f64) -> Vec<f64> {
        let grid = Grid { width: self.width, n_bins: self.n, end: self.width * self.n as u64 };
        let covered =
            Span { from: self.span.from, to: Nanos(self.span.from.0 + self.width * self.n as u64) };
        let mut sums = vec![0.0; self.n];
        for interval in record.intervals.iter().filter(|interval| interval.counters[counter] > 0) {
            let amount =
                interval.counters[counter] as f64 * covered.share(interval.start, interval.end);
            let (from, to) = (interval.start.max(covered.from), interval.end.min(covered.to));
            if amount > 0.0 {
                grid.spread(from.since(covered.from), to.since(covered.from), amount, &mut sums);
            }
        }
        sums.into_iter().map(|sum| sum * scale * NANOS / self.width as f64).collect()
    }

    /// Returns the classes of `rates`; of both directions together too, where there are both.
    pub(super) fn classes(self, rates: Rates) -> Classes {
        // A rate that is zero throughout neither settles nor fails to.
        let happened = rates
            .with_sum()
            .0
            .into_iter()
            .filter(|(_, readings)| readings.iter().any(|reading| *reading > 0.0));
        happened.filter_map(|(key, readings)| Some((key, self.class(&readings)?))).collect()
    }

    fn class(self, readings: &[f64]) -> Option<TrialSettling> {
        let found = settling(readings)?;
        let at =
            |reading: usize| Nanos(self.span.from.0 + self.width * reading as u64).as_secs_f64();
        let levels = found.levels.iter().map(|level| RateLevel {
            from: at(level.from),
            to: at(level.to),
            value: level.value,
        });
        Some(TrialSettling { class: found.class, levels: levels.collect() })
    }
}

impl Rates {
    /// Both directions together too, where there are both.
    fn with_sum(mut self) -> Self {
        let way = |direction| self.0.get(&(GOODPUT, direction));
        if let (Some(tx), Some(rx)) = (way(Direction::Tx), way(Direction::Rx)) {
            let both = tx.iter().zip(rx).map(|(tx, rx)| tx + rx).collect();
            self.0.insert((GOODPUT, Direction::Sum), both);
        }
        self
    }

    /// Adds `more`, reading by reading.
    pub(super) fn add(&mut self, more: &Self) {
        for (key, readings) in &more.0 {
            match self.0.get_mut(key) {
                Some(known) => known.iter_mut().zip(readings).for_each(|(sum, more)| *sum += more),
                None => {
                    self.0.insert(*key, readings.clone());
                }
            }
        }
    }
}

/// Returns the reasons against a trial with these `classes`. A short departure is reported beside
/// the figure, which contains it.
pub(super) fn doubts(classes: &Classes) -> Vec<Reason> {
    let in_doubt =
        classes.iter().filter(|(_, one)| !matches!(one.class, Class::Steady | Class::Interrupted));
    let doubt = |((metric, direction), one): (&(&'static Metric, Direction), &TrialSettling)| {
        Reason::NotSteady { metric, direction: *direction, settling: one.clone() }
    };
    in_doubt.map(doubt).collect()
}

/// Returns the course of `metric` in `trials`; `None` if none was evaluated.
pub(super) fn settled(
    trials: &[Option<&Classes>],
    metric: &'static Metric,
    direction: Direction,
) -> Option<Settled> {
    let asked = if metric.is_for(Use::AsGoodput) { GOODPUT } else { metric };
    let of_metric =
        |classes: &Option<&Classes>| classes.as_ref()?.get(&(asked, direction)).cloned();
    let trials: Vec<Option<TrialSettling>> = trials.iter().map(of_metric).collect();
    let classes: Vec<Class> = trials.iter().flatten().map(|one| one.class).collect();
    let mut kinds = classes.clone();
    kinds.sort_unstable();
    kinds.dedup();
    let count = |kind: Class| classes.iter().filter(|class| **class == kind).count();
    let word = match kinds.as_slice() {
        [] => return None,
        [one] => one.word().to_owned(),
        many => {
            let told: Vec<String> =
                many.iter().map(|kind| format!("{} {}", count(*kind), kind.word())).collect();
            format!("inconsistent: {}", told.join(", "))
        }
    };
    let without = classes.iter().filter(|class| !class.has_single_number()).count();
    Some(Settled { word, has_single_number: 2 * without <= classes.len(), trials })
}
