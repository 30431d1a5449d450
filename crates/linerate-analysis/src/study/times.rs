//! Figures of times: percentiles of response and service times, of the parts of file transfers, and
//! the variation of delay.
//!
//! Times are in seconds. A percentile among operations without an answer is infinite, with the time
//! that it exceeds where that is known; likewise a mean with such operations among it.

use linerate_model::{Direction, Distribution, Stages, metric};

use super::figures::Figures;
use super::samples::NANOS;
use super::traffic::Distributions;
use crate::statistics::latency;

/// Times of operations: percentiles, the largest and the mean.
pub(super) fn time_figures(figures: &mut Figures, distributions: &Distributions) {
    let Distributions { response, service, .. } = distributions;
    for (metric, distribution, quantile) in [
        (metric::RESPONSE_TIME_P50, response, 0.5),
        (metric::RESPONSE_TIME_P90, response, 0.9),
        (metric::RESPONSE_TIME_P99, response, 0.99),
        (metric::RESPONSE_TIME_P999, response, 0.999),
        (metric::RESPONSE_TIME_P9999, response, 0.9999),
        (metric::SERVICE_TIME_P50, service, 0.5),
        (metric::SERVICE_TIME_P99, service, 0.99),
        (metric::SERVICE_TIME_P999, service, 0.999),
    ] {
        put_percentile(figures, (metric, Direction::Sum), distribution, quantile);
    }
    put_max(figures, (metric::RESPONSE_TIME_MAX, Direction::Sum), response);
    put_mean(figures, (metric::RESPONSE_TIME, Direction::Sum), response);
}

/// Metric and direction.
type Key<'a> = (&'a str, Direction);

/// Adds the percentile `quantile` of `times` as a figure. It is infinite, with a lower bound, where
/// it falls among unanswered operations.
pub(super) fn put_percentile(
    figures: &mut Figures,
    (metric, direction): Key<'_>,
    times: &Distribution,
    quantile: f64,
) {
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
        [metric::CONNECT_TIME_P50, metric::CONNECT_TIME_P99],
        [metric::FIRST_BYTE_TIME_P50, metric::FIRST_BYTE_TIME_P99],
        [metric::TRANSFER_TIME_P50, metric::TRANSFER_TIME_P99],
        [metric::CLOSE_TIME_P50, metric::CLOSE_TIME_P99],
    ]) {
        for (metric, quantile) in [(median, 0.5), (tail, 0.99)] {
            let time = times.percentile(quantile).flatten().map(|ns| ns as f64 / NANOS);
            figures.put_some(metric, Direction::Sum, time);
        }
    }
}

/// Returns whether `metric` is a time between two clocks, which may be wrong; differences of such
/// times are not affected.
pub(super) fn is_time(metric: &str) -> bool {
    metric.starts_with("service_time") || metric.starts_with(metric::RESPONSE_TIME)
}

/// Variation of delay, RFC 8219 7.3; lost ones make it infinite.
pub(super) fn variation_figures(figures: &mut Figures, distributions: &Distributions) {
    if let Some(run) = latency(&distributions.service) {
        figures.put(metric::SERVICE_TIME_MIN, Direction::Sum, run.least / NANOS);
        figures.put_some(
            metric::DELAY_VARIATION,
            Direction::Sum,
            run.variation().map(|ns| ns / NANOS),
        );
    }
    if let Some((least, median, most)) = distributions.variation.extremes_and_median() {
        for (metric, ns) in [
            (metric::DELAY_VARIATION_MIN, least),
            (metric::DELAY_VARIATION_P50, median),
            (metric::DELAY_VARIATION_MAX, most),
        ] {
            figures.put(metric, Direction::Sum, ns as f64 / NANOS);
        }
    }
}
