//! Ceilings of the path, and the margin by which a count at a receiver may exceed them.
//!
//! The tolerance of a figure is the sum of
//!
//! - the clock: [`CLOCK_RATE_ERROR`] for the rates of the two clocks involved, and the offset's
//!   uncertainty over the span;
//! - one quantum at each edge of the span: the larger of the step found in the interval counts and
//!   the mean bytes a receiving call returned;
//! - uneven arrival in an interval across an edge: where more was read than the path carries in
//!   that time, after a pause of the receiver, the surplus, since the interval is apportioned by
//!   time;
//! - on an emulated path, and where a capacity was declared, one bucket: a token-bucket shaper
//!   passes its burst on top of its rate, and holds at least one GSO packet, hence [`BUCKET`];
//! - bytes that the receiving application read in the span although they had arrived before, as
//!   observed at the receivers, and bytes that a foreign receiver may have acknowledged in the same
//!   way ([`super::super::backlog`]). This part does not apply to counts at a device.

use linerate_model::{Counter, Direction, Interval, JobRecord, Metric, Nanos, metric};

use super::{Bound, Doubt, Gate, Judgement, Refusal};
use crate::statistics::quantum_of_counts;
use crate::study::backlog;
use crate::study::flow::Flow;
use crate::study::reason::Reason;
use crate::study::samples::NANOS;
use crate::study::span::{Span, total};
use crate::study::traffic::Job;

/// Two crystals within ±100 ppm each, the most IEEE 802.3 allows a transmitter.
pub(super) const CLOCK_RATE_ERROR: f64 = 200e-6;
/// The largest GSO packet a Linux device takes by default, and with it the smallest sensible bucket
/// of a shaper.
const BUCKET: f64 = 65_536.0;
/// The metric that no application counts.
const COUNTED_AT_DEVICES: &Metric = metric::THROUGHPUT_L2;
/// Bits in a byte.
pub(super) const BITS: f64 = 8.0;

/// Returns the judgement of `value` by the ceilings.
pub(super) fn judge(
    gate: &Gate<'_>,
    metric: &'static Metric,
    direction: Direction,
    value: f64,
) -> Judgement {
    let part_s = part_s(gate, metric);
    let Some(bound) =
        // Peak and served goodput are rates over a part of the span, which the ceiling of goodput
        // bounds as well.
        gate.ceiling(if part_s.is_some() { metric::GOODPUT } else { metric }, direction)
    else {
        return Judgement::Admitted(value);
    };
    let limit = bound.ceiling.value;
    if value <= limit {
        return Judgement::Admitted(value);
    }
    let edges = match part_s {
        // A part of the span may lie anywhere in it, so its edges have the worst case of the whole.
        Some(_) => Edges::of_any(gate.jobs, direction, gate.span),
        None => {
            Edges::of(gate.jobs, metric, direction, gate.span).with_surplus(gate, direction, limit)
        }
    };
    let part = part_s.map(|seconds| Span { from: Nanos(0), to: Nanos((seconds * NANOS) as u64) });
    let allowed = tolerance(bound, edges, part.unwrap_or(gate.span), gate.doubt);
    if value <= limit * (1.0 + allowed) {
        // An excess within the tolerance belongs to the measurement, so the ceiling itself is the
        // figure.
        return Judgement::Admitted(limit);
    }
    let why = explain(metric, direction, value, bound, allowed, edges);
    // A wrong peak does not make the mean of the run impossible.
    if part_s.is_some() {
        Judgement::Withheld(Refusal::Impossible(why))
    } else {
        Judgement::Impossible(why)
    }
}

/// Returns the seconds of the span of which `metric` is a rate of goodput, for which goodput's
/// ceilings hold: one second, or those in which files were under way. `None` of metrics of the
/// whole span.
fn part_s(gate: &Gate<'_>, metric: &'static Metric) -> Option<f64> {
    if metric == metric::GOODPUT_PEAK {
        return Some(1.0);
    }
    let served_s = || gate.jobs.iter().map(|job| job.served_s(gate.span)).fold(0.0, f64::max);
    (metric == metric::GOODPUT_SERVED).then(served_s)
}

/// Possible error of a count at the receivers at the edges of the span.
#[derive(Clone, Copy)]
pub(super) struct Edges {
    /// Bytes by which the count of one interval may be off.
    quantum: f64,
    /// Bytes read in the span that had arrived before it.
    late: f64,
    /// Bytes in the intervals across the edges beyond what the path carries in them.
    surplus: f64,
    /// The metric's units in a byte: bits, or packets.
    per_byte: f64,
}

impl Edges {
    fn of(jobs: &[&Job<'_>], metric: &'static Metric, direction: Direction, span: Span) -> Self {
        let receiving = || receiving(jobs, direction);
        let late = receiving().map(|flow| match flow.is_foreign() {
            true => backlog::in_flight(flow.sender, span),
            false => backlog::read_late(flow.receiver, span),
        });
        let late = late.sum();
        // The smallest datagram makes the most packets of a byte. Only datagrams of one size have a
        // bounded rate.
        let payload = receiving()
            .filter_map(|flow| flow.datagram_payload())
            .map(|payload| payload.0 as f64)
            .reduce(f64::min);
        Self {
            quantum: quantum(receiving()),
            surplus: 0.0,
            // A device counts frames as they arrive, so nothing waits between arrival and count.
            late: if metric == COUNTED_AT_DEVICES { 0.0 } else { late },
            // Packets are counted by themselves; the other metrics with ceilings are in bits.
            per_byte: if metric == metric::PACKET_RATE {
                payload.map_or(0.0, |payload| 1.0 / payload.max(1.0))
            } else {
                BITS
            },
        }
    }

    /// Returns the edges for any part of `span`: the bytes read late never exceed the bytes ever
    /// held.
    pub(super) fn of_any(jobs: &[&Job<'_>], direction: Direction, span: Span) -> Self {
        let late =
            receiving(jobs, direction).map(|flow| backlog::most_held(flow.receiver, span)).sum();
        Self { quantum: quantum(receiving(jobs, direction)), late, surplus: 0.0, per_byte: BITS }
    }

    /// None: what was to be sent in a span is known exactly.
    pub(super) fn none(per_byte: f64) -> Self {
        Self { quantum: 0.0, late: 0.0, surplus: 0.0, per_byte }
    }

    /// Returns the edges with the surplus over a ceiling of `limit`; nothing is added where bytes
    /// do not show it.
    fn with_surplus(self, gate: &Gate<'_>, direction: Direction, limit: f64) -> Self {
        let receivers: Vec<&JobRecord> =
            receiving(gate.jobs, direction).map(|flow| flow.receiver).collect();
        // Without a payload per packet, bytes do not translate into the ceiling's unit.
        let carried = if self.per_byte > 0.0 { limit / self.per_byte } else { f64::INFINITY };
        let edges = [gate.span.from, gate.span.to];
        Self {
            surplus: edges.into_iter().map(|edge| surplus(&receivers, edge, carried)).sum(),
            ..self
        }
    }
}

/// Returns the bytes that `receivers` read in their intervals across `edge` beyond what a path of
/// `carried` bytes a second brings in that time.
fn surplus(receivers: &[&JobRecord], edge: Nanos, carried: f64) -> f64 {
    let intervals = receivers.iter().flat_map(|record| &record.intervals);
    let across = intervals.filter(|interval| interval.start < edge && edge < interval.end);
    let across: Vec<&Interval> = across.collect();
    let counted = across.iter().map(|interval| interval.counters[Counter::PayloadReceived]);
    let read = linerate_model::added(counted);
    let from = across.iter().map(|interval| interval.start).min().unwrap_or_default();
    let to = across.iter().map(|interval| interval.end).max().unwrap_or_default();
    let brought = carried * to.since(from).as_secs_f64();
    if brought.is_finite() { (read as f64 - brought).max(0.0) } else { 0.0 }
}

fn receiving<'a>(jobs: &[&Job<'a>], direction: Direction) -> impl Iterator<Item = Flow<'a>> {
    let flows = jobs.iter().flat_map(|job| job.flows()).collect::<Vec<_>>();
    // The sum contains the flows of both directions.
    flows.into_iter().filter(move |flow| direction == Direction::Sum || flow.direction == direction)
}

/// Returns the margin by which a value may exceed `bound` before it is impossible.
pub(super) fn tolerance(bound: &Bound, edges: Edges, span: Span, doubt: Doubt) -> f64 {
    let possible = bound.ceiling.value * span.seconds();
    // Nothing is possible at a rate or span of zero, and a ratio would be infinite.
    if possible <= 0.0 {
        return 0.0;
    }
    // A declared capacity is usually a shaper. Its bucket is not known, but it holds a GSO packet.
    let bucket = if doubt.shaped { BUCKET.max(bound.burst) } else { bound.burst };
    // One quantum at each edge.
    let bytes = 2.0 * edges.quantum + bucket + edges.late + edges.surplus;
    CLOCK_RATE_ERROR
        + doubt.clock.as_secs_f64() / span.seconds()
        + bytes * edges.per_byte / possible
}

/// Returns the bytes by which the count of one interval may be off, the worst receiver's.
fn quantum<'a>(flows: impl Iterator<Item = Flow<'a>>) -> f64 {
    fn of_flow(flow: Flow<'_>) -> f64 {
        let counts: Vec<u64> =
            flow.receiver.intervals.iter().map(|i| i.counters[Counter::PayloadReceived]).collect();
        let calls = total(flow.receiver, Counter::CallsReceived);
        // Counts grow by whole calls, which may return many segments at once.
        let per_call = if calls > 0 {
            total(flow.receiver, Counter::PayloadReceived) as f64 / calls as f64
        } else {
            0.0
        };
        quantum_of_counts(&counts).map_or(0.0, |step| step as f64).max(per_call)
    }
    flows.map(of_flow).fold(0.0, f64::max)
}

fn explain(
    metric: &'static Metric,
    direction: Direction,
    value: f64,
    bound: &Bound,
    allowed: f64,
    edges: Edges,
) -> Reason {
    let ceiling = &bound.ceiling;
    Reason::AboveCeiling {
        metric,
        direction,
        unit: ceiling.unit,
        value,
        limit: ceiling.value,
        ceiling: ceiling.name(),
        allowed,
        quantum_bytes: edges.quantum,
        late_bytes: edges.late,
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Interval;

    use super::*;

    /// Intervals of 100 ms with these byte counts.
    fn record(bytes: &[u64]) -> JobRecord {
        let interval = |(number, bytes): (u64, &u64)| {
            let (start, end) =
                (Nanos::from_millis(number * 100), Nanos::from_millis(number * 100 + 100));
            let mut interval = Interval { start, end, ..Interval::default() };
            interval.counters[Counter::PayloadReceived] = *bytes;
            interval
        };
        JobRecord { intervals: (0..).zip(bytes).map(interval).collect(), flows: Vec::new() }
    }

    #[test]
    fn a_receiver_that_stood_still_reads_more_across_an_edge_than_the_path_brings() {
        let stalled = record(&[1_000, 200, 1_800, 1_000]);
        let at = |millis| surplus(&[&stalled], Nanos::from_millis(millis), 10_000.0);
        assert_eq!((at(250), at(150), at(350)), (800.0, 0.0, 0.0));
        assert_eq!(at(200), 0.0, "an edge between two intervals divides none");
        assert_eq!(surplus(&[&stalled], Nanos::from_millis(250), f64::INFINITY), 0.0);
    }
}
