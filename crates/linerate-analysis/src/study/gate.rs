//! The ceiling gate (methodology 3.9): nothing above its ceiling is a figure.
//!
//! A value is impossible if it exceeds a hard ceiling by more than its tolerance, the sum of
//! - the clock: [`CLOCK_RATE_ERROR`] for the rates of the two clocks involved, and the offset's uncertainty over the span;
//! - one quantum at each edge of the span: the larger of the step found in the interval counts and the mean bytes a receiving
//!   call returned;
//! - on an emulated path, one bucket: a token-bucket shaper passes its burst on top of its rate, and holds at least one GSO
//!   packet, hence [`BUCKET`].
//!
//! All figures are counted at the receiver, so that no send buffer enters. Not allowed for: a receiving application that
//! drains a backlog it built up before the span; the message names it last among the causes.

use linerate_model::{Counter, Direction, Nanos};

use super::ceilings::{Bound, Scope};
use super::figures::Figures;
use super::span::{Span, total};
use super::traffic::Job;
use crate::statistics::quantum_of_counts;

/// Two crystals within ±100 ppm each, the most IEEE 802.3 allows a transmitter.
pub(super) const CLOCK_RATE_ERROR: f64 = 200e-6;
/// The largest GSO packet a Linux device takes by default, and with it the smallest sensible bucket of a shaper.
pub(super) const BUCKET: f64 = 65_536.0;
/// Bits in a byte.
const BITS: f64 = 8.0;

/// What widens a trial's tolerance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    /// Uncertainty of the clock offset.
    pub(super) clock: Nanos,
    /// Whether the path was emulated.
    pub(super) emulated: bool,
}

/// Every figure of `figures` that exceeds a hard bound for `scope`, in words.
pub(super) fn exceeded(
    figures: &Figures,
    bounds: &[Bound],
    scope: Scope,
    jobs: &[&Job<'_>],
    span: Span,
    doubt: Doubt,
) -> Vec<String> {
    let mut found = Vec::new();
    for key in figures.keys() {
        let metric = super::figures::metric_at(key.0);
        let applies = |bound: &&Bound| {
            bound.hard
                && bound.scope == scope
                && bound.ceiling.metric == metric.name
                && bound.ceiling.direction == key.1
        };
        let lowest = bounds.iter().filter(applies).min_by(|a, b| a.ceiling.value.total_cmp(&b.ceiling.value));
        let (Some(value), Some(bound)) = (figures.at(key), lowest) else { continue };
        let quantum = quantum(jobs, key.1);
        let tolerance = tolerance(bound.ceiling.value, quantum, span, doubt);
        if value > bound.ceiling.value * (1.0 + tolerance) {
            found.push(explain(metric.name, key.1, value, bound, tolerance, quantum));
        }
    }
    found
}

/// How far a value may exceed `ceiling` before it is impossible. For packet rates the byte terms are larger than they need
/// be by the packet's share, which errs on the side of letting pass.
fn tolerance(ceiling: f64, quantum: f64, span: Span, doubt: Doubt) -> f64 {
    let possible = ceiling * span.seconds();
    if possible <= 0.0 {
        return 0.0;
    }
    let bucket = if doubt.emulated { BUCKET } else { 0.0 };
    CLOCK_RATE_ERROR + doubt.clock.as_secs_f64() / span.seconds() + (2.0 * quantum + bucket) * BITS / possible
}

/// Bytes by which the count of one interval may be off.
fn quantum(jobs: &[&Job<'_>], direction: Direction) -> f64 {
    let of_job = |job: &&Job<'_>| {
        let flows = job.flows();
        let receivers = flows.iter().filter(|flow| direction == Direction::Sum || flow.direction == direction);
        let largest = receivers.map(|flow| {
            let counts: Vec<u64> =
                flow.receiver.intervals.iter().map(|i| i.counters[Counter::PayloadReceived]).collect();
            let calls = total(flow.receiver, Counter::CallsReceived);
            let per_call =
                if calls > 0 { total(flow.receiver, Counter::PayloadReceived) as f64 / calls as f64 } else { 0.0 };
            quantum_of_counts(&counts).map_or(0.0, |step| step as f64).max(per_call)
        });
        largest.fold(0.0, f64::max)
    };
    jobs.iter().map(of_job).fold(0.0, f64::max)
}

fn explain(metric: &str, direction: Direction, value: f64, bound: &Bound, tolerance: f64, quantum: f64) -> String {
    let ceiling = &bound.ceiling;
    format!(
        "{metric} {direction} of {value:.6e} {unit} exceeds its ceiling of {limit:.6e} {unit} ({name}) by {excess:.2} %, \
         with {tolerance:.3} % allowed: impossible; look for, in this order: accounting at the sender, counts in steps (here \
         {quantum:.0} B), a wrong layer, offload or compression, two directions counted as one, a wrong link speed, a \
         backlog received late",
        unit = ceiling.unit,
        limit = ceiling.value,
        name = ceiling.name,
        excess = (value / ceiling.value - 1.0) * 100.0,
        tolerance = tolerance * 100.0,
    )
}
