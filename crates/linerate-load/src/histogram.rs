//! Latency histograms on the hot path: three significant digits, 1 ns to 60 s, allocated once.
//!
//! The layout is that of HdrHistogram: linear buckets below 2048 ns, above it 1024 buckets per power of two, so a bucket
//! is never wider than 1/1024 of its value. It is our own array because recording is the hot path: 2.0 ns a record
//! against 5.8 ns of the `hdrhistogram` crate, which tests use as the oracle (`benches/step.rs`, AMD EPYC 2026-11). What it does not
//! keep: the order of the records, and times above 60 s apart from each other (they count as 60 s).

use linerate_model::Distribution;

/// Linear buckets, and twice the buckets per power of two above them: 2 * 10^3 rounded up to a power of two, which is
/// what three significant digits need.
const LINEAR: u64 = 2048;
const LINEAR_BITS: u32 = LINEAR.trailing_zeros();
/// The largest time kept apart, ns.
const LARGEST: u64 = 60_000_000_000;
const N_BUCKETS: usize = index(LARGEST) + 1;

/// Which power of two `ns` belongs to: 0 in the linear part, 1 for 2048..4096, ...
#[inline]
const fn octave(ns: u64) -> u32 {
    (u64::BITS - (ns | (LINEAR - 1)).leading_zeros()) - LINEAR_BITS
}

/// The bucket that holds `ns`.
#[inline]
const fn index(ns: u64) -> usize {
    let octave = octave(ns);
    ((octave as u64 * (LINEAR / 2)) + (ns >> octave)) as usize
}

/// The buckets of `octave`.
fn buckets(octave: u32) -> std::ops::Range<usize> {
    let half = LINEAR as usize / 2;
    let first = if octave == 0 { 0 } else { (octave as usize + 1) * half };
    first..((octave as usize + 2) * half).min(N_BUCKETS)
}

/// The largest time that falls into bucket `index`.
const fn upper_edge(index: usize) -> u64 {
    let index = index as u64;
    if index < LINEAR {
        return index;
    }
    let octave = index / (LINEAR / 2) - 1;
    ((index - octave * (LINEAR / 2) + 1) << octave) - 1
}

/// A histogram of times in nanoseconds. [`Histogram::default`] has no memory and records nothing: it stands for a time
/// the workload does not measure.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    /// A bit for each power of two touched since the last clear, so that reading and clearing cost only these.
    touched: u32,
    lost: u64,
}

impl Histogram {
    /// An empty histogram that can record; its memory (213 KiB) is touched here, not at the first record.
    #[must_use]
    pub fn new() -> Self {
        let mut counts = vec![1; N_BUCKETS];
        counts.fill(0);
        Self { counts, touched: 0, lost: 0 }
    }

    /// Records one operation of `ns`.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let ns = ns.min(LARGEST);
        if let Some(count) = self.counts.get_mut(index(ns)) {
            *count += 1;
            self.touched |= 1 << octave(ns);
        }
    }

    /// Records `n` times of `ns` each; those above a minute count as a minute.
    #[inline]
    pub fn record_many(&mut self, ns: u64, n: u64) {
        let ns = ns.min(LARGEST);
        if let Some(count) = self.counts.get_mut(index(ns)).filter(|_| n > 0) {
            *count += n;
            self.touched |= 1 << octave(ns);
        }
    }

    /// Records one operation that never completed.
    #[inline]
    pub fn record_lost(&mut self) {
        self.lost += 1;
    }

    /// The recorded operations, each bucket by its upper edge.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        let indices = (0..u32::BITS).filter(|octave| self.touched & (1 << octave) != 0).flat_map(buckets);
        let counted = indices.map(|idx| (upper_edge(idx), self.counts[idx])).filter(|(_, count)| *count != 0);
        Distribution { buckets: counted.collect(), lost: self.lost }
    }

    /// Forgets everything recorded; keeps its memory.
    pub fn clear(&mut self) {
        for octave in (0..u32::BITS).filter(|octave| self.touched & (1 << octave) != 0) {
            self.counts[buckets(octave)].fill(0);
        }
        (self.touched, self.lost) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_is_that_of_hdr_with_three_digits() {
        assert_eq!(index(0), 0);
        assert_eq!(index(2047), 2047);
        assert_eq!((index(2048), index(2049), index(2050)), (2048, 2048, 2049));
        assert_eq!((upper_edge(2047), upper_edge(2048), upper_edge(2049)), (2047, 2049, 2051));
        assert_eq!((index(4095), index(4096), upper_edge(index(4096))), (3071, 3072, 4099));
        assert_eq!(N_BUCKETS * size_of::<u64>() / 1024, 213);
    }

    #[test]
    fn times_above_a_minute_saturate_and_lost_ones_are_kept_apart() {
        let mut histogram = Histogram::new();
        histogram.record(LARGEST);
        histogram.record(u64::MAX);
        histogram.record_lost();
        let distribution = histogram.distribution();
        assert_eq!(distribution.buckets.len(), 1);
        assert_eq!((distribution.buckets[0].1, distribution.lost), (2, 1));
        assert!(distribution.buckets[0].0 >= LARGEST);
    }

    #[test]
    fn clearing_forgets_everything() {
        let mut histogram = Histogram::new();
        histogram.record(5);
        histogram.record(1_000_000);
        histogram.record_lost();
        histogram.clear();
        assert!(histogram.distribution().is_empty());
        histogram.record(7);
        assert_eq!(histogram.distribution().buckets, [(7, 1)]);
    }

    #[test]
    fn many_at_once_are_as_many_one_by_one() {
        let (mut singly, mut at_once) = (Histogram::new(), Histogram::new());
        (0..3).for_each(|_| singly.record(70));
        at_once.record_many(70, 3);
        at_once.record_many(5, 0);
        assert_eq!(singly.distribution(), at_once.distribution());
    }

    #[test]
    fn without_memory_nothing_is_recorded() {
        let mut histogram = Histogram::default();
        histogram.record(5);
        histogram.clear();
        assert!(histogram.distribution().is_empty());
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_times_and_is_narrower_than_a_thousandth(ns in 0..=LARGEST) {
            let edge = upper_edge(index(ns));
            prop_assert!(edge >= ns);
            prop_assert!((edge - ns) as f64 <= ns as f64 / 1024.0);
            prop_assert_eq!(index(edge), index(ns));
            prop_assert_eq!(index(edge + 1), index(ns) + 1);
        }

        #[test]
        fn the_distribution_is_that_of_hdrhistogram(times in proptest::collection::vec(1..=LARGEST, 1..200)) {
            let mut oracle = hdrhistogram::Histogram::<u64>::new_with_bounds(1, LARGEST, 3).expect("legal bounds");
            let mut ours = Histogram::new();
            for &time in &times {
                oracle.record(time).expect("within bounds");
                ours.record(time);
            }
            let expected: Vec<(u64, u64)> =
                oracle.iter_recorded().map(|step| (oracle.highest_equivalent(step.value_iterated_to()), step.count_at_value())).collect();
            prop_assert_eq!(ours.distribution().buckets, expected);
        }
    }
}
