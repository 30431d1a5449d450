//! Figures as text: value, unit and interval.

use linerate_analysis::compare::{Change, Effect};
use linerate_analysis::{JobStudy, MetricStudy};
use linerate_model::{Metric, Verdict};
use linerate_report::number::Scale;

const NANOS_PER_SECOND: f64 = 1e9;
/// An end of an interval that no operation reached.
const UNBOUNDED: &str = "∞";

/// Returns `value` of `metric` in the unit that reads best, such as `94.1 Mbit/s`.
#[must_use]
pub fn quantity(metric: &Metric, value: f64) -> String {
    let scale = Scale::of(metric, [value]);
    format!("{} {}", scale.plain(value), scale.symbol).trim_end().to_owned()
}

/// Returns `value` of `metric`, or its lower bound where the value is not known.
pub(crate) fn figure(metric: &MetricStudy, value: f64) -> String {
    // An infinite percentile is a timeout. Its lower bound is what was measured.
    match metric.at_least {
        Some(bound) => format!("> {}", quantity(metric.metric, bound)),
        None => quantity(metric.metric, value),
    }
}

/// Returns the interval of a percentile, ` [low, high]`: over runs where there are several, else by
/// the ranks of the operations of the one run. Returns an empty text for a metric that is no
/// percentile or has no interval.
pub(crate) fn interval_of_percentile(job: &JobStudy, metric: &MetricStudy) -> String {
    let over_runs = metric
        .estimate
        .filter(|estimate| estimate.n > 1)
        .and_then(|estimate| estimate.low.zip(estimate.high));
    // Other figures of this table have intervals over runs, which their estimate shows.
    let Some(of) = job.percentile(metric.metric, metric.direction) else { return String::new() };
    let by_ranks = of.confidence.map(|_| (seconds(of.low_ns), seconds(of.high_ns)));
    let Some((low, high)) = over_runs.or(by_ranks) else { return String::new() };
    format!(" [{}, {}]", end_text(metric.metric, low), end_text(metric.metric, high))
}

/// Returns an end of an interval of `metric`.
fn end_text(metric: &Metric, end: f64) -> String {
    if end.is_finite() { quantity(metric, end) } else { UNBOUNDED.to_owned() }
}

fn seconds(ns: Option<u64>) -> f64 {
    // A rank among lost operations has no time.
    ns.map_or(f64::INFINITY, |ns| ns as f64 / NANOS_PER_SECOND)
}

/// Returns `ratio` as a change, such as `+12.3 %`.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// Returns the interval of an effect's typical ratio, or the words that there is none.
pub(crate) fn interval_of_effect(effect: &Effect) -> String {
    effect.interval.map_or("no interval".to_owned(), |(low, high)| {
        format!("[{}, {}]", percent(low), percent(high))
    })
}

/// Returns the status word of a change.
pub(crate) const fn change_word(change: Change) -> &'static str {
    match change {
        Change::Better => "better",
        Change::Worse => "worse",
        Change::None => "no change",
        Change::Unclear => "not clear",
    }
}

/// Returns the status word of a verdict.
pub(crate) const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Proven => "proven",
        Verdict::Suspected => "suspected",
        Verdict::Inconclusive => "inconclusive",
    }
}
