//! Figures on a terminal.

use linerate_analysis::{JobStudy, MetricStudy};
use linerate_model::Unit;
use linerate_report::number::Scale;

/// `value` of metric `name` in the unit it reads best in.
pub(crate) fn quantity(name: &str, value: f64, unit: Unit) -> String {
    let scale = Scale::fit(name, unit, [value]);
    format!("{} {}", scale.plain(value), scale.symbol).trim_end().to_owned()
}

/// `value` of `metric`, or what it is at least.
pub(crate) fn figure(metric: &MetricStudy, value: f64) -> String {
    match metric.at_least {
        Some(bound) => format!("> {}", quantity(&metric.name, bound, metric.unit)),
        None => quantity(&metric.name, value, metric.unit),
    }
}

/// The interval of a percentile, ` [low, high]`: over runs where there are several, else by the
/// ranks of the operations of the one run. Nothing for what is no percentile or has no interval.
pub(crate) fn interval_of_percentile(job: &JobStudy, metric: &MetricStudy) -> String {
    const NANOS: f64 = 1e9;
    let over_runs = metric
        .estimate
        .filter(|estimate| estimate.n > 1)
        .and_then(|estimate| estimate.low.zip(estimate.high));
    let Some(of) = job.percentile(&metric.name, metric.direction) else { return String::new() };
    let seconds = |ns: Option<u64>| ns.map_or(f64::INFINITY, |ns| ns as f64 / NANOS);
    let own = of.confidence.map(|_| (seconds(of.low_ns), seconds(of.high_ns)));
    let Some((low, high)) = over_runs.or(own) else { return String::new() };
    let told = |end: f64| {
        if end.is_finite() { quantity(&metric.name, end, metric.unit) } else { "∞".to_owned() }
    };
    format!(" [{}, {}]", told(low), told(high))
}

/// A table of words with aligned columns.
pub(crate) fn table(caption: &str, head: &[String], rows: &[Vec<String>]) -> String {
    linerate_report::text::table(&linerate_report::document::Table::of_words(
        "", caption, head, rows,
    ))
}
