//! Latency at fractions of the throughput that a search found (RFC 2544 26.2, RFC 8219 7.2 and
//! 7.3): each trial by itself, medians over the trials at one load. Seconds, from a frame's
//! departure to its receipt, where both ends read one clock; lost frames are infinitely slow. Not
//! covered: latency between hosts, whose clocks differ.

use linerate_model::{Distribution, Nanos, Variation};
use serde::{Deserialize, Serialize};

use super::span::Span;
use super::traffic::Job;
use crate::statistics::{latency, median};

/// Nanoseconds in a second.
const NANOS: f64 = 1e9;

/// Latency of one trial, or medians over several at one load; seconds. Figures that are infinite,
/// or whose rank has fewer than ten frames beyond it, are missing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchLatency {
    /// Frames, the lost ones included.
    pub n: u64,
    /// TL: the median.
    pub typical: Option<f64>,
    /// WCL: the 99.9th percentile, of 10 000 frames at least.
    pub worst_case: Option<f64>,
    /// The smallest.
    pub least: f64,
    /// PDV: the 99.9th percentile less the smallest.
    pub variation: Option<f64>,
    /// IPDV: smallest, median and largest difference between frames that follow each other.
    pub inter_packet: Option<(f64, f64, f64)>,
}

/// Latency at one load of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyAtLoad {
    /// Load of each direction, in the search's unit.
    pub load: f64,
    /// Trials that carry figures.
    pub n_trials: usize,
    /// Medians over them; frames are added up.
    pub latency: SearchLatency,
}

/// Latency of a trial of `length`, all directions together; `None` if no frame was timed one way,
/// or the median is no longer than the clocks of the ends are known.
pub(super) fn of_trial(jobs: &[Job<'_>], length: Nanos) -> Option<SearchLatency> {
    let span = Span { from: Nanos(0), to: length };
    let (mut delays, mut differences) = (Distribution::default(), Variation::default());
    for timed in jobs.iter().map(|job| job.distributions(span)) {
        delays.merge(&timed.service);
        differences.merge(&timed.variation);
    }
    let found = latency(&delays)?;
    let doubt = jobs
        .iter()
        .filter_map(Job::clock_uncertainty)
        .reduce(f64::max)
        .map(|seconds| seconds * NANOS);
    if doubt.is_some_and(|doubt| found.typical <= doubt) {
        // As in the gate: an error of the clocks moves all of them alike.
        return None;
    }
    let seconds = |ns: f64| Some(ns / NANOS).filter(|seconds| seconds.is_finite());
    let signed = |ns: i64| ns as f64 / NANOS;
    Some(SearchLatency {
        n: found.n,
        typical: seconds(found.typical),
        worst_case: found.worst_case.and_then(seconds),
        least: found.least / NANOS,
        variation: found.variation().and_then(seconds),
        inter_packet: differences
            .extremes_and_median()
            .map(|(a, b, c)| (signed(a), signed(b), signed(c))),
    })
}

/// Medians over trials, each with its load, for each load; the lowest first.
pub(super) fn at_loads(measured: impl Iterator<Item = (f64, SearchLatency)>) -> Vec<LatencyAtLoad> {
    let mut found: Vec<(f64, SearchLatency)> = measured.collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    fn of_load(own: &[(f64, SearchLatency)]) -> Option<LatencyAtLoad> {
        let middle = |value: &dyn Fn(&SearchLatency) -> Option<f64>| {
            median(&own.iter().filter_map(|(_, latency)| value(latency)).collect::<Vec<f64>>())
        };
        let between =
            |pick: fn((f64, f64, f64)) -> f64| middle(&|latency| latency.inter_packet.map(pick));
        let least = middle(&|latency| Some(latency.least))?;
        let inter_packet = (|| Some((between(|d| d.0)?, between(|d| d.1)?, between(|d| d.2)?)))();
        let latency = SearchLatency {
            n: own.iter().map(|(_, latency)| latency.n).sum(),
            typical: middle(&|latency| latency.typical),
            worst_case: middle(&|latency| latency.worst_case),
            least,
            variation: middle(&|latency| latency.variation),
            inter_packet,
        };
        Some(LatencyAtLoad { load: own[0].0, n_trials: own.len(), latency })
    }
    found.chunk_by(|a, b| a.0 == b.0).filter_map(of_load).collect()
}
