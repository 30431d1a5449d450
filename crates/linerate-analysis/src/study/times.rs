//! Figures of times: percentiles of response and service times, of the parts of file transfers, and the variation of delay.
//!
//! Times are in seconds. A percentile among operations without an answer is infinite, with the time that it exceeds where that is known;
//! likewise a mean with such operations among it.

use linerate_model::{Direction, Distribution, Stages};

use super::figures::Figures;
use super::samples::NANOS;
use super::traffic::Distributions;
use crate::statistics::latency;

/// Times of operations: percentiles, the largest and the mean.
pub(super) fn time_figures(figures: &mut Figures, distributions: &Distributions) {
    let Distributions { response, service, .. } = distributions;
    for (metric, distribution, quantile) in [
        ("response_time_p50", response, 0.5),
        ("response_time_p90", response, 0.9),
        ("response_time_p99", response, 0.99),
        ("response_time_p999", response, 0.999),
        ("response_time_p9999", response, 0.9999),
        ("service_time_p50", service, 0.5),
        ("service_time_p99", service, 0.99),
        ("service_time_p999", service, 0.999),
    ] {
        put_percentile(figures, (metric, Direction::Sum), distribution, quantile);
    }
    put_max(figures, ("response_time_max", Direction::Sum), response);
    put_mean(figures, ("response_time", Direction::Sum), response);
}

/// Which figure.
type Key<'a> = (&'a str, Direction);

/// The percentile `quantile` of `times` as a figure; infinite, and at least so much, where it falls among those without an answer.
pub(super) fn put_percentile(figures: &mut Figures, (metric, direction): Key<'_>, times: &Distribution, quantile: f64) {
    match times.percentile(quantile) {
        Some(Some(ns)) => figures.put(metric, direction, ns as f64 / NANOS),
        Some(None) => {
            let at_least = times.percentile_at_least(quantile).map(|ns| ns as f64 / NANOS);
            figures.put_unbounded(metric, direction, at_least);
        }
        None => {}
    }
}

/// The largest of `times`, likewise.
pub(super) fn put_max(figures: &mut Figures, (metric, direction): Key<'_>, times: &Distribution) {
    match times.max() {
        Some(Some(ns)) => figures.put(metric, direction, ns as f64 / NANOS),
        Some(None) => {
            let at_least = times.rank_at_least(times.count()).map(|ns| ns as f64 / NANOS);
            figures.put_unbounded(metric, direction, at_least);
        }
        None => {}
    }
}

/// The mean of `times`, likewise.
pub(super) fn put_mean(figures: &mut Figures, (metric, direction): Key<'_>, times: &Distribution) {
    match times.mean_at_least() {
        Some(bound) => figures.put_unbounded(metric, direction, Some(bound / NANOS)),
        None => figures.put_some(metric, direction, times.mean().map(|ns| ns / NANOS)),
    }
}

/// Times of the parts of file transfers.
pub(super) fn stage_figures(figures: &mut Figures, stages: &Stages) {
    for ((_, times), [median, tail]) in stages.all().into_iter().zip([
        ["connect_time_p50", "connect_time_p99"],
        ["first_byte_time_p50", "first_byte_time_p99"],
        ["transfer_time_p50", "transfer_time_p99"],
        ["close_time_p50", "close_time_p99"],
    ]) {
        for (metric, quantile) in [(median, 0.5), (tail, 0.99)] {
            let time = times.percentile(quantile).flatten().map(|ns| ns as f64 / NANOS);
            figures.put_some(metric, Direction::Sum, time);
        }
    }
}

/// Whether `metric` is a time that two clocks may be wrong about; differences of such times are not.
pub(super) fn is_time(metric: &str) -> bool {
    metric.starts_with("service_time") || metric.starts_with("response_time")
}

/// Variation of delay, RFC 8219 7.3; lost ones make it infinite.
pub(super) fn variation_figures(figures: &mut Figures, distributions: &Distributions) {
    if let Some(run) = latency(&distributions.service) {
        figures.put("service_time_min", Direction::Sum, run.least / NANOS);
        figures.put_some("delay_variation", Direction::Sum, run.variation().map(|ns| ns / NANOS));
    }
    if let Some((least, median, most)) = distributions.variation.extremes_and_median() {
        for (metric, ns) in
            [("delay_variation_min", least), ("delay_variation_p50", median), ("delay_variation_max", most)]
        {
            figures.put(metric, Direction::Sum, ns as f64 / NANOS);
        }
    }
}
