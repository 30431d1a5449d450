//! Latency figures of RFC 8219: typical and worst-case latency, packet delay variation,
//! inter-packet delay variation.
//!
//! Times are in nanoseconds, of one stream (one run) at a time; over repeated runs the median of
//! each figure is used (RFC 8219 7.2, 7.3). Percentiles are nearest-rank and count a lost frame as
//! infinitely slow (RFC 7679 4.2.4), so a figure may be infinite. Not covered: the order of frames
//! in a [`Distribution`]; inter-packet variation needs it and is computed where frames are
//! received.

use linerate_model::Distribution;

use super::median;

/// Quantile of typical latency (RFC 8219 7.2: the median).
const TYPICAL: f64 = 0.5;
/// Quantile of worst-case latency and of packet delay variation (RFC 8219 7.2 and 7.3.1).
const WORST_CASE: f64 = 0.999;

/// The latency of one run, ns; infinite where its rank falls among the lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// TL: the median.
    pub typical: f64,
    /// WCL: the 99.9th percentile; `None` below 10,000 frames, of which ten must lie beyond it.
    pub worst_case: Option<f64>,
    /// The smallest.
    pub least: f64,
    /// Number of frames, lost ones included.
    pub n: u64,
}

impl Latency {
    /// PDV: the 99.9th percentile less the smallest (RFC 8219 7.3.1, the formulation of RFC 5481
    /// 4.2).
    #[must_use]
    pub fn variation(&self) -> Option<f64> {
        self.worst_case.map(|worst| worst - self.least)
    }
}

/// Returns the latency of one run of which `delays` is the distribution; `None` of nothing, or if
/// nothing arrived.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::latency;
/// use linerate_model::Distribution;
///
/// // 6 frames took 10 us, 3 took 20 us, and one was lost.
/// let delays = Distribution {
///     buckets: vec![(10_000, 6), (20_000, 3)],
///     lost: 1,
///     ..Distribution::default()
/// };
/// let found = latency(&delays).expect("frames arrived");
/// // The fifth of ten frames took 10 us. Ten frames are too few for a 99.9th percentile.
/// assert_eq!((found.typical, found.worst_case, found.n), (10_000.0, None, 10));
/// ```
#[must_use]
pub fn latency(delays: &Distribution) -> Option<Latency> {
    // A lost frame has no time, but it did take longer than any that arrived.
    let finite = |rank: Option<u64>| rank.map_or(f64::INFINITY, |ns| ns as f64);
    let least = delays.buckets.first()?.0 as f64;
    Some(Latency {
        typical: finite(delays.percentile(TYPICAL)?),
        // `None` where fewer than ten frames lie beyond the rank.
        worst_case: delays.percentile(WORST_CASE).map(finite),
        least,
        n: delays.count(),
    })
}

/// Inter-packet delay variation of one run, ns (RFC 8219 7.3.2): smallest, median and largest of
/// `D(i) - D(i-1)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InterPacket {
    /// The largest fall.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The largest rise.
    pub most: f64,
    /// Number of differences.
    pub n: u64,
}

/// Returns the variation of `delays` in the order sent, ns; a lost frame is `None` and has no
/// difference to either neighbour. `None` without two that follow each other.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::inter_packet;
///
/// // Delays of 10, 30 and 20 ns change by +20 and -10 (RFC 8219 clause 7.3.2).
/// let found = inter_packet(&[Some(10), Some(30), Some(20)]).expect("two differences");
/// assert_eq!((found.least, found.median, found.most, found.n), (-10.0, 5.0, 20.0, 2));
/// ```
#[must_use]
pub fn inter_packet(delays: &[Option<u64>]) -> Option<InterPacket> {
    // A lost frame interrupts the series: the difference across the gap would belong to two
    // intervals.
    let differences = delays.windows(2).filter_map(|pair| Some(pair[1]? as f64 - pair[0]? as f64));
    let mut differences: Vec<f64> = differences.collect();
    differences.sort_by(f64::total_cmp);
    Some(InterPacket {
        least: *differences.first()?,
        median: median(&differences)?,
        most: *differences.last()?,
        n: differences.len() as u64,
    })
}

/// Times of a closed load completed with estimates; always labelled as an estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Corrected {
    /// Measured and filled in.
    pub times: Distribution,
    /// The interval at which operations were expected to start, ns.
    pub expected_ns: u64,
    /// Number of times that were filled in.
    pub n_filled: u64,
}

/// Returns an estimate of the times that an open load of one operation every `expected_ns` would
/// have seen, from the `times` of a closed load. An operation longer than the interval would have
/// delayed those behind it, the first by one interval less, and so on (HdrHistogram's correction
/// for coordinated omission, Tene). The estimate assumes that the delayed operations would have
/// been served at once; an open load measures it. `None` for an interval of zero, and where the
/// times are too long beside the interval for a meaningful estimate. O(operations filled in).
#[must_use]
pub(crate) fn filled_in(times: &Distribution, expected_ns: u64) -> Option<Corrected> {
    /// Values filled in at most.
    const MOST: u64 = 10_000_000;
    let each = |&(value, _): &(u64, u64)| value.checked_div(expected_ns);
    let values = times
        .buckets
        .iter()
        .map(each)
        .try_fold(0, |sum, each| Some(u64::saturating_add(sum, each?)))?;
    // A rare long time over a tiny interval would fill in more values than were measured, by orders
    // of magnitude.
    if values > MOST {
        return None;
    }
    let mut filled: std::collections::BTreeMap<u64, u64> = times.buckets.iter().copied().collect();
    let mut n_filled = 0;
    for &(value, count) in &times.buckets {
        let mut missing = value.saturating_sub(expected_ns);
        // Operations that would have started while one was served wait one interval less each.
        while missing >= expected_ns {
            let there = filled.entry(missing).or_default();
            *there = there.saturating_add(count);
            n_filled = u64::saturating_add(n_filled, count);
            missing -= expected_ns;
        }
    }
    let times = Distribution {
        buckets: filled.into_iter().collect(),
        lost: times.lost,
        ..Distribution::default()
    };
    Some(Corrected { times, expected_ns, n_filled })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    fn mean_ms(times: &Distribution) -> f64 {
        let sum: f64 =
            times.buckets.iter().map(|&(value, count)| value as f64 * count as f64).sum();
        sum / times.count() as f64 / MS as f64
    }

    /// Gil Tene's example: 100 operations a second of 1 ms each for 100 s, then a freeze of 100 s.
    #[test]
    fn a_freeze_that_a_closed_load_hides_is_filled_in() {
        let closed = Distribution::of(vec![(MS, 10_000), (100 * SECOND, 1)]);
        assert_eq!(closed.count(), 10_001);
        assert!((mean_ms(&closed) - 10.998).abs() < 0.001, "{}", mean_ms(&closed));
        // Below ten samples beyond it the 99.99th percentile is withheld; by its rank it would be 1
        // ms.
        assert_eq!((closed.percentile(0.9999), closed.percentile(0.999)), (None, Some(Some(MS))));

        let corrected = filled_in(&closed, 10 * MS).expect("an interval");
        let times = &corrected.times;
        assert_eq!((times.count(), corrected.n_filled), (20_000, 9_999));
        assert!((mean_ms(times) / 1e3 - 25.0).abs() < 0.01, "{}", mean_ms(times));
        assert_eq!(times.percentile(0.5), Some(Some(MS)));
        assert_eq!(times.percentile(0.75), Some(Some(50 * SECOND)));
        // Nearest rank: the 19,980th and the 19,998th of 20,000, the latter of too few.
        assert_eq!(times.percentile(0.999), Some(Some(99_800 * MS)));
        assert_eq!(times.percentile(0.9999), None);
        let beyond: u64 =
            times.buckets.iter().filter(|(value, _)| *value > 99_980 * MS).map(|(_, n)| n).sum();
        assert_eq!(beyond, 2, "p99.99 by rank is 99.98 s");
    }

    #[test]
    fn nothing_is_filled_in_below_the_interval_and_none_without_one() {
        let quick = Distribution { lost: 2, ..Distribution::of(vec![(5, 3), (19, 1)]) };
        let corrected = filled_in(&quick, 10).expect("an interval");
        assert_eq!((corrected.times, corrected.n_filled), (quick.clone(), 0));
        assert_eq!(filled_in(&quick, 0), None);
    }

    #[test]
    fn what_would_take_for_ever_to_fill_in_is_refused_and_counts_stop_at_the_largest_number() {
        let ages = Distribution::of(vec![(u64::MAX, 1)]);
        assert_eq!(filled_in(&ages, 1), None);
        let many = Distribution::of(vec![(35, u64::MAX), (36, 1)]);
        assert_eq!(filled_in(&many, 10).map(|corrected| corrected.n_filled), Some(u64::MAX));
    }

    #[test]
    fn typical_worst_case_and_variation_are_percentiles_by_nearest_rank() {
        // 1..=10,000 us: the median is the 5,000th, the worst case the 9,990th.
        let delays = Distribution::of((1..=10_000).map(|us| (us * 1_000, 1)).collect());
        let run = latency(&delays).expect("frames");
        assert_eq!(
            (run.typical, run.worst_case, run.least, run.n),
            (5e6, Some(9.99e6), 1e3, 10_000)
        );
        assert_eq!(run.variation(), Some(9.989e6));
        let few = Distribution::of(vec![(7, 9_999)]);
        let run = latency(&few).expect("frames");
        assert_eq!((run.typical, run.worst_case, run.variation()), (7.0, None, None));
    }

    #[test]
    fn a_lost_frame_is_infinitely_slow() {
        let delays = Distribution { lost: 101, ..Distribution::of(vec![(4, 99_899)]) };
        let run = latency(&delays).expect("frames");
        assert_eq!(
            (run.typical, run.worst_case, run.variation()),
            (4.0, Some(f64::INFINITY), Some(f64::INFINITY))
        );
        assert_eq!(
            latency(&Distribution { lost: 5, ..Distribution::of(Vec::new()) }),
            None,
            "nothing arrived"
        );
    }

    #[test]
    fn inter_packet_variation_is_signed_and_skips_the_lost() {
        let delays = [Some(10), Some(14), Some(11), None, Some(90), Some(90)];
        let variation = inter_packet(&delays).expect("differences");
        assert_eq!(variation, InterPacket { least: -3.0, median: 0.0, most: 4.0, n: 3 });
        assert_eq!(inter_packet(&[Some(1), None, Some(2)]), None);
    }
}
