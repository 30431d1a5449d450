//! The gate (docs/methodology/layers.md#the-ceiling-gate): every number of a trial passes it before
//! it becomes a figure.
//!
//! [`Admitted`] figures, series and [`Limits`] can only be built here, and a study is built from
//! nothing else. The rules:
//!
//! - nothing is above its hard ceiling. A figure above it by no more than its tolerance is the
//!   ceiling, since the excess is the measurement's; beyond that the trial is impossible, or, of a
//!   peak or of one interval, that number is withheld (`path`);
//! - a metric stays in its range ([`linerate_model::MetricRange`]): a share is at most one, a share
//!   of time after its clocks' ticks are allowed for, a count of events is whole, and nothing is a
//!   negative zero (`ranges`);
//! - frames contain their payload: a rate at L2 below the payload rate is withheld, of a run as of
//!   a point (`ranges`);
//! - an error of the clocks moves all one-way times together: where their median is no longer than
//!   that error, metric, percentile and distribution are withheld (`times`);
//! - the bounds of a search never exceed the line rate: a load above it without loss filled a
//!   buffer (`loads`).
//!
//! Not covered: a wrong number that violates no rule.

mod loads;
mod path;
mod ranges;
mod series;
mod times;

use linerate_model::{Campaign, Direction, Metric, Nanos, TrialRecord};
use serde::{Deserialize, Serialize};

use super::ceilings::{Bound, Scope};
use super::figures::{Figures, Key};
use super::judge;
use super::reason::Reason;
use super::settling::Classes;
use super::span::Span;
use super::traffic::Job;

pub(super) use loads::Line;
pub(super) use ranges::withhold_estimates_below_payload;
pub(super) use times::{OneWay, widened};

/// Conditions that widen a trial's tolerance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    /// Uncertainty of the clock offset.
    pub(super) clock: Nanos,
    /// True if a shaper may be on the path: the path was emulated, or a capacity was declared and
    /// its mechanism is unknown.
    pub(super) shaped: bool,
}

impl Doubt {
    /// Returns the doubt about `trial`.
    pub(super) fn of(campaign: &Campaign, trial: &TrialRecord) -> Self {
        let shaped = campaign.header.emulated() || !campaign.header.capacities.is_empty();
        Self { clock: judge::clock_uncertainty(trial, campaign), shaped }
    }
}

/// A number that was measured and is no figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Withheld {
    /// The metric, series or distribution.
    pub name: String,
    /// Its direction.
    pub direction: Direction,
    /// The reason.
    pub why: Refusal,
}

/// Reason why a number is no figure. Times are in seconds, rates in bit/s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum Refusal {
    /// It is below the lowest possible value.
    BelowRange { value: f64, least: f64 },
    /// It is above the highest possible value, beyond the tolerance for its clocks.
    AboveRange { value: f64, most: f64, tolerance: f64 },
    /// The rate of frames is below the rate of their payload.
    BelowPayload { frames: f64, payload: f64 },
    /// The median rate of frames is below the median rate of their payload.
    MedianBelowPayload { frames: f64, payload: f64 },
    /// The median of these times is within the uncertainty of the clocks.
    WithinClocks { seconds: f64, uncertainty: f64 },
    /// Other programs used too much CPU time to attribute a cost.
    SharedCpus { share: f64, limit: f64 },
    /// It contradicts a ceiling.
    Impossible(Reason),
}

/// Figures that passed the gate.
#[derive(Clone, Debug, Default)]
pub(super) struct Admitted {
    figures: Figures,
    withheld: Vec<Withheld>,
    one_way: OneWay,
}

impl Admitted {
    /// Returns the figure of `metric` in `direction`.
    pub(super) fn get(&self, metric: &'static Metric, direction: Direction) -> Option<f64> {
        self.figures.get(metric, direction)
    }

    /// Returns the keys that have a figure.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.figures.keys()
    }

    /// Returns the figure at `key`.
    pub(super) fn at(&self, key: Key) -> Option<f64> {
        self.figures.at(key)
    }

    /// Returns a lower bound of the figure at `key`.
    pub(super) fn at_least(&self, key: Key) -> Option<f64> {
        self.figures.at_least(key)
    }

    /// Returns the figures that were withheld.
    pub(super) fn withheld(&self) -> &[Withheld] {
        &self.withheld
    }

    /// Returns the accuracy of its one-way times.
    pub(super) fn one_way(&self) -> OneWay {
        self.one_way
    }

    fn withhold(&mut self, name: &str, direction: Direction, why: Refusal) {
        self.withheld.push(Withheld { name: name.to_owned(), direction, why });
    }
}

/// Range of a metric at a point, to which intervals and means around admitted figures are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    least: f64,
    most: f64,
}

impl Limits {
    /// Returns the limits of `metric` under `ceiling`.
    pub(super) fn of(metric: &Metric, ceiling: Option<f64>) -> Self {
        let range = metric.range();
        let most = range.most.unwrap_or(f64::INFINITY).min(ceiling.unwrap_or(f64::INFINITY));
        Self { least: range.least.unwrap_or(f64::NEG_INFINITY), most }
    }

    /// Returns `value` cut to the limits; never a negative zero.
    pub(super) fn cut(self, value: f64) -> f64 {
        // Minus zero plus zero is zero.
        value.max(self.least).min(self.most) + 0.0
    }
}

/// The gate of one trial for one scope: a job, or all measured ones together.
#[derive(Clone, Copy)]
pub(super) struct Gate<'a> {
    pub(super) bounds: &'a [Bound],
    pub(super) scope: Scope,
    pub(super) jobs: &'a [&'a Job<'a>],
    pub(super) span: Span,
    pub(super) doubt: Doubt,
}

/// Decision of the gate on one number.
enum Judgement {
    Admitted(f64),
    Withheld(Refusal),
    /// The trial carries no figure.
    Impossible(Reason),
}

impl Gate<'_> {
    /// Returns the `figures` that may be printed, and the reason why the trial is impossible, if it
    /// is.
    pub(super) fn admit(&self, figures: &Figures) -> (Admitted, Vec<Reason>) {
        let one_way = OneWay::of(figures);
        let (mut admitted, mut impossible) =
            (Admitted { one_way, ..Admitted::default() }, Vec::new());
        for key in figures.keys() {
            let (metric, direction) = key;
            let Some(value) = figures.at(key) else { continue };
            match self.judge(metric, direction, value, one_way) {
                // An infinite time is a result: an operation that never ended.
                Judgement::Admitted(value) if value == f64::INFINITY => {
                    let bound = figures.at_least(key).filter(|bound| bound.is_finite());
                    admitted.figures.put_unbounded(metric, direction, bound);
                }
                Judgement::Admitted(value) => admitted.figures.put(metric, direction, value),
                Judgement::Withheld(why) => admitted.withhold(metric.name, direction, why),
                Judgement::Impossible(why) => impossible.push(why),
            }
        }
        // Frames are compared with payload only after both passed the other rules.
        ranges::withhold_frames_below_payload(&mut admitted);
        (admitted, impossible)
    }

    /// Cuts the levels of `classes` to what the path allows.
    pub(super) fn cut(&self, classes: &mut Classes) {
        for ((metric, direction), went) in classes {
            let ceiling = self.ceiling(metric, *direction).map(|bound| bound.ceiling.value);
            let limits = Limits::of(metric, ceiling);
            went.levels.iter_mut().for_each(|level| level.value = limits.cut(level.value));
        }
    }

    fn judge(
        &self,
        metric: &'static Metric,
        direction: Direction,
        value: f64,
        one_way: OneWay,
    ) -> Judgement {
        // Clocks come first: a time within their uncertainty says nothing, whatever its range.
        if let Some(why) = one_way.refuses(metric, value) {
            return Judgement::Withheld(why);
        }
        // A value outside the meaning of its metric is wrong at any ceiling.
        match ranges::judge(metric, value, self.span) {
            Judgement::Admitted(value) => path::judge(self, metric, direction, value),
            refused => refused,
        }
    }

    /// Returns the lowest hard bound on `metric` in `direction`.
    fn ceiling(&self, metric: &'static Metric, direction: Direction) -> Option<&Bound> {
        let bounds = self.bounds.iter().filter(|bound| bound.limits(metric, direction, self.scope));
        bounds.min_by(|a, b| a.ceiling.value.total_cmp(&b.ceiling.value))
    }
}
