//! Payload that had arrived before a span and was read within it.
//!
//! A path bounds what *arrives* in a span; the application counts what it *reads*. The difference
//! is in the receiver's kernel: bytes waiting to be read and, with TCP, bytes behind a hole, which
//! can be delivered only when the missing segment has come. After a loss that is a whole window,
//! released at once.
//!
//! Two values are read at the end of each interval: the memory the kernel holds for such payload
//! (`held_bytes`), which is never less than the payload, and with TCP the segments with payload
//! that arrived. Between two readings both are assumed to change evenly, as the counters of the
//! interval are, so that they stay comparable. Not covered: data that still waits in a device, a
//! ring or the per-CPU backlog.

use std::collections::BTreeMap;

use linerate_model::{Counter, JobRecord, Nanos};

use super::connections::Connections;
use super::span::{Span, counted};

/// Returns an upper bound of the bytes that `receiver` read during `span` although they had arrived
/// before; 0 without readings.
///
/// With TCP: the bytes read beyond those that arrived meanwhile. Without a count of segments: the
/// decrease of the memory held. The result never exceeds the bytes held when the span began, so
/// that a miscounting application is not excused.
pub(super) fn read_late(receiver: &JobRecord, span: Span) -> f64 {
    let before = held(receiver, span.from);
    let surplus = match Connections::receiving(receiver).arrived(span) {
        Some(arrived) => counted(receiver, Counter::PayloadReceived, span) - arrived,
        None => before - held(receiver, span.to),
    };
    // Readings of two instruments may disagree by a segment, so the difference can be slightly
    // negative.
    surplus.clamp(0.0, before)
}

/// Returns the bytes that `sender` had in flight when `span` began, at most: its congestion windows
/// as last read before. A foreign receiver may acknowledge them within the span although they had
/// arrived before, behind a hole.
pub(super) fn in_flight(sender: &JobRecord, span: Span) -> f64 {
    let mut windows: BTreeMap<(u32, u32), (Nanos, f64)> = BTreeMap::new();
    // Only readings before the span: a window grown within it was not yet in flight at its begin.
    for interval in sender.intervals.iter().filter(|interval| interval.end <= span.from) {
        for flow in &interval.flows {
            let window = f64::from(flow.tcp.congestion_window) * f64::from(flow.tcp.send_mss);
            let known = windows.entry((interval.worker, flow.flow)).or_default();
            // Intervals of several workers are not in order of time.
            if known.0 <= interval.end {
                *known = (interval.end, window);
            }
        }
    }
    windows.into_values().map(|(_, window)| window).sum()
}

/// Returns the most memory held for `receiver` at the end of any interval that began before the end
/// of `span`, the most of each worker added.
pub(super) fn most_held(receiver: &JobRecord, span: Span) -> f64 {
    let mut workers: BTreeMap<u32, u64> = BTreeMap::new();
    for interval in receiver.intervals.iter().filter(|interval| interval.start < span.to) {
        let most = workers.entry(interval.worker).or_default();
        // Memory held may be unknown for an interval, which must not lower the most seen.
        *most = interval.held_bytes.unwrap_or(0).max(*most);
    }
    workers.into_values().map(|bytes| bytes as f64).sum()
}

/// Returns the memory held for `receiver` at `at`, all workers added. A worker held nothing when
/// its first interval began.
fn held(receiver: &JobRecord, at: Nanos) -> f64 {
    let mut workers: BTreeMap<u32, Vec<(Nanos, f64)>> = BTreeMap::new();
    for interval in &receiver.intervals {
        let Some(bytes) = interval.held_bytes else { continue };
        workers
            .entry(interval.worker)
            // Straight lines need a starting point; nothing had arrived when the first interval
            // began.
            .or_insert_with(|| vec![(interval.start, 0.0)])
            .push((interval.end, bytes as f64));
    }
    workers.into_values().map(|mut read| value_at(&mut read, at)).sum()
}

/// Returns the value at `at` of readings that lie on straight lines between each other; beyond the
/// last it is the last.
fn value_at(read: &mut [(Nanos, f64)], at: Nanos) -> f64 {
    read.sort_by_key(|(time, _)| *time);
    let after = read.partition_point(|(time, _)| *time < at).min(read.len() - 1);
    let ((earlier, below), (later, above)) = (read[after.saturating_sub(1)], read[after]);
    if at <= earlier {
        below
    } else if at < later {
        below + (above - below) * at.since(earlier).0 as f64 / later.since(earlier).0 as f64
    } else {
        above
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::{FlowTcp, Interval, TcpState};

    use super::*;

    const SPAN: Span = Span { from: Nanos(100), to: Nanos(300) };
    const MSS: u64 = 1_000;

    /// Intervals of 100 ns of one worker: bytes read, bytes held at the end, segments arrived so
    /// far.
    fn record(intervals: &[(u64, Option<u64>, Option<u32>)]) -> JobRecord {
        let intervals = (0_u64..).zip(intervals).map(|(number, (read, held_bytes, segments))| {
            let mut interval = Interval {
                start: Nanos(number * 100),
                end: Nanos(number * 100 + 100),
                ..Interval::default()
            };
            interval.counters[Counter::PayloadReceived] = *read;
            interval.held_bytes = *held_bytes;
            let state = |data_segments_in| TcpState {
                data_segments_in,
                receive_mss: 1_000,
                ..TcpState::default()
            };
            interval
                .flows
                .extend(segments.map(|segments| FlowTcp { flow: 0, tcp: state(segments) }));
            interval
        });
        JobRecord { intervals: intervals.collect(), flows: Vec::new() }
    }

    #[test]
    fn what_waited_behind_a_hole_and_was_released_in_the_span_came_before_it() {
        // 50 segments arrive, 20 can be read; then 100 arrive each time, and the first time 130 are
        // read.
        let late = |held| {
            record(&[
                (20 * MSS, held, Some(50)),
                (130 * MSS, Some(0), Some(150)),
                (100 * MSS, Some(0), Some(250)),
            ])
        };
        assert_eq!(read_late(&late(Some(48_000)), SPAN), 30.0 * MSS as f64);
        assert_eq!(read_late(&late(Some(25_000)), SPAN), 25_000.0, "no more than the kernel held");
        assert_eq!(read_late(&late(None), SPAN), 0.0, "nobody looked");
    }

    #[test]
    fn what_waits_as_long_at_the_end_excuses_nothing() {
        let standing = [
            (20 * MSS, Some(40_000), Some(50)),
            (100 * MSS, Some(40_000), Some(150)),
            (100 * MSS, Some(40_000), Some(250)),
        ];
        assert_eq!(read_late(&record(&standing), SPAN), 0.0);
        let datagrams = standing.map(|(read, held, _)| (read, held, None));
        assert_eq!(read_late(&record(&datagrams), SPAN), 0.0);
    }

    #[test]
    fn without_segments_the_memory_that_became_free_is_what_came_before() {
        let drained = [
            (20 * MSS, Some(40_000), None),
            (110 * MSS, Some(15_000), None),
            (100 * MSS, Some(5_000), None),
        ];
        assert_eq!(read_late(&record(&drained), SPAN), 35_000.0);
    }

    #[test]
    fn what_was_in_flight_when_the_span_began_is_the_last_window_before_it() {
        let mut record = record(&[(0, None, Some(1)), (0, None, Some(2)), (0, None, Some(3))]);
        for (interval, window) in record.intervals.iter_mut().zip([10, 40, 90]) {
            (interval.flows[0].tcp.congestion_window, interval.flows[0].tcp.send_mss) =
                (window, 1_000);
        }
        assert_eq!(in_flight(&record, Span { from: Nanos(250), to: Nanos(300) }), 40_000.0);
        assert_eq!(
            in_flight(&record, Span { from: Nanos(50), to: Nanos(300) }),
            0.0,
            "nothing was read before"
        );
    }

    #[test]
    fn an_edge_within_an_interval_lies_on_the_line_between_two_readings() {
        let record = record(&[(0, Some(0), None), (0, Some(40_000), None), (0, Some(0), None)]);
        assert_eq!(
            [50, 100, 125, 200, 250, 900].map(|at| held(&record, Nanos(at))),
            [0.0, 0.0, 10_000.0, 40_000.0, 20_000.0, 0.0]
        );
        assert_eq!(read_late(&record, Span { from: Nanos(150), to: Nanos(300) }), 20_000.0);
    }
}
