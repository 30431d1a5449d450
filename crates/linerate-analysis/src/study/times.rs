//! Figures of times: percentiles of response and service times, of the parts of file transfers, and
//! the variation of delay.
//!
//! Times are in seconds. A percentile among operations without an answer is infinite, with the time
//! that it exceeds where that is known; likewise a mean with such operations among it.

use linerate_model::{Direction, Distribution, Metric, Stages, Statistic, Times, Use, metric};

use super::figures::{Figures, Key};
use super::samples::NANOS;
use super::traffic::Distributions;
use crate::statistics::latency;

/// Times of operations: percentiles, the largest and the mean.
pub(super) fn time_figures(figures: &mut Figures, distributions: &Distributions) {
    let Distributions { response, service, .. } = distributions;
    for metric in Times::Response.metrics() {
        put_statistic(figures, (metric, Direction::Sum), response);
    }
    let of_storage = |metric: &&Metric| metric.is_for(Use::StorageTime);
    for metric in Times::Service.metrics().filter(|metric| !of_storage(metric)) {
        put_statistic(figures, (metric, Direction::Sum), service);
    }
}

/// Sets the figure of a metric to its statistic of `times`. The smallest time is computed with the
/// variation of delay.
pub(super) fn put_statistic(figures: &mut Figures, key: Key, times: &Distribution) {
    match key.0.statistic {
        Some(Statistic::Mean) => put_mean(figures, key, times),
        Some(Statistic::Quantile(quantile)) => put_percentile(figures, key, times, quantile),
        Some(Statistic::Largest) => put_max(figures, key, times),
        Some(Statistic::Smallest) | None => {}
    }
}

/// Adds the percentile `quantile` of `times` as a figure. It is infinite, with a lower bound, where
/// it falls among unanswered operations.
fn put_percentile(
    figures: &mut Figures,
    (metric, direction): Key,
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
fn put_max(figures: &mut Figures, (metric, direction): Key, times: &Distribution) {
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
fn put_mean(figures: &mut Figures, (metric, direction): Key, times: &Distribution) {
    match times.mean_at_least() {
        Some(bound) => figures.put_unbounded(metric, direction, Some(bound / NANOS)),
        None => figures.put_some(metric, direction, times.mean().map(|ns| ns / NANOS)),
    }
}

/// Times of the parts of file transfers.
pub(super) fn stage_figures(figures: &mut Figures, stages: &Stages) {
    let parts = [Times::Connect, Times::FirstByte, Times::Transfer, Times::Close];
    for ((_, times), part) in stages.all().into_iter().zip(parts) {
        for metric in part.metrics() {
            put_statistic(figures, (metric, Direction::Sum), times);
        }
    }
}

/// Returns true if an error between two clocks changes `metric`; it does not change differences of
/// such times.
pub(super) fn is_one_way(metric: &Metric) -> bool {
    matches!(metric.times, Some(Times::Response | Times::Service))
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
        for metric in Times::Variation.metrics() {
            let ns = match metric.statistic {
                Some(Statistic::Smallest) => least,
                Some(Statistic::Largest) => most,
                Some(Statistic::Mean | Statistic::Quantile(_)) | None => median,
            };
            figures.put(metric, Direction::Sum, ns as f64 / NANOS);
        }
    }
}
