//! Evenness of departures: distances of the gaps between them from the intended mean gap, worker by
//! worker.
//!
//! A worker's intended gap is its time over the operations that were due in it. Where arrivals are
//! planned to be even, each gap should be as long. Where they are random or in bursts, the distance
//! shows their planned unevenness. Gaps are counted only if a worker recorded one for nearly every
//! datagram; where many leave in one call and calls were recorded, there is no result. Gaps are
//! those between system calls. Not covered: the spacing after a queue or device.

use std::collections::BTreeMap;

use linerate_model::{Counter, Distribution, JobRecord};

use super::span::Span;

/// Share of the datagrams that must have a gap of their own.
const MOST_OF_THEM: f64 = 0.9;

/// Returns the distances of gaps from the intended ones, ns, of all workers of `ends` together.
pub(super) fn gap_errors(ends: &[&JobRecord], span: Span) -> Distribution {
    let mut errors: BTreeMap<u64, u64> = BTreeMap::new();
    for end in ends {
        let mut workers: Vec<u32> = end.intervals.iter().map(|interval| interval.worker).collect();
        workers.sort_unstable();
        workers.dedup();
        for worker in workers {
            of_worker(end, worker, span, &mut errors);
        }
    }
    Distribution::of(errors.into_iter().collect())
}

fn of_worker(end: &JobRecord, worker: u32, span: Span, errors: &mut BTreeMap<u64, u64>) {
    let (mut gaps, mut intended, mut sent, mut ns) = (Distribution::default(), 0, 0, 0);
    for interval in end
        .intervals
        .iter()
        .filter(|interval| interval.worker == worker && span.holds_middle(interval))
    {
        gaps.merge(&interval.gap);
        intended += interval.counters[Counter::Intended];
        sent += interval.counters[Counter::DatagramsSent];
        ns += interval.end.since(interval.start).0;
    }
    if intended == 0 || (gaps.count() as f64) < MOST_OF_THEM * sent as f64 {
        return;
    }
    let mean = ns / intended;
    for (gap, count) in gaps.buckets {
        *errors.entry(gap.abs_diff(mean)).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::{Interval, Nanos};

    use super::*;

    fn end(gaps: &[(u64, u64)], intended: u64) -> JobRecord {
        let mut interval =
            Interval { start: Nanos(0), end: Nanos(1_000_000), ..Interval::default() };
        interval.counters[Counter::Intended] = intended;
        interval.counters[Counter::DatagramsSent] = intended;
        interval.gap = Distribution::of(gaps.to_vec()).into();
        JobRecord { intervals: vec![interval], flows: Vec::new() }
    }

    const SPAN: Span = Span { from: Nanos(0), to: Nanos(1_000_000) };

    #[test]
    fn errors_are_distances_from_the_mean_gap_intended_either_way() {
        // 100 in a millisecond: 10 us each.
        let found =
            gap_errors(&[&end(&[(0, 3), (10_000, 90), (13_000, 6), (20_000, 1)], 100)], SPAN);
        assert_eq!(found.buckets, [(0, 90), (3_000, 6), (10_000, 4)]);
    }

    #[test]
    fn gaps_of_calls_that_carry_many_datagrams_and_closed_loads_say_nothing() {
        assert!(gap_errors(&[&end(&[(10_000, 50)], 100)], SPAN).is_empty());
        assert!(gap_errors(&[&end(&[(10_000, 50)], 0)], SPAN).is_empty());
    }
}
