//! Latency histograms for the hot path: three significant digits, 1 ns to 60 s, allocated once.
//!
//! The layout is that of HdrHistogram: linear buckets below 2048 ns, then 1024 buckets per power of
//! two. A bucket is never wider than 1/1024 of its value. It is our own array because recording is
//! the hot path: 2.0 ns per record, against 5.8 ns for the `hdrhistogram` crate, which the tests
//! use as an oracle (`benches/step.rs`, AMD EPYC 2026-11). The order of the records is not kept,
//! and times above 60 s count as 60 s.

use linerate_model::Distribution;

/// Number of linear buckets of a [`Histogram`] as a power of two; each power of two above has half
/// as many. Three significant digits need 2 * 10^3, rounded up.
const THREE_DIGITS: u32 = 11;
/// The same for a [`CoarseHistogram`]: 0.8 % resolution in 25 KiB.
const TWO_DIGITS: u32 = 8;
/// Largest time with a bucket of its own, ns.
const LARGEST: u64 = 60_000_000_000;

/// Histogram with three significant digits.
///
/// # Examples
/// ```
/// use linerate_load::Histogram;
///
/// let mut times = Histogram::new();
/// (1..=1_000).for_each(|us| times.record(us * 1_000));
/// let p99 = times.distribution().percentile(0.99).flatten().expect("enough operations");
/// // The 990th of 1,000 values is 990 us. A bucket is at most 1/1024 of its value wide.
/// assert!((990_000..=990_967).contains(&p99), "{p99}");
/// ```
pub type Histogram = Buckets<THREE_DIGITS>;
/// Histogram with two significant digits, for secondary figures.
pub(crate) type CoarseHistogram = Buckets<TWO_DIGITS>;

/// Histogram of times in nanoseconds. The default has no memory and records nothing; it represents
/// a time that the workload does not measure.
#[derive(Clone, Debug, Default)]
pub struct Buckets<const LINEAR_BITS: u32> {
    counts: Vec<u64>,
    /// One bit per power of two in use since the last clear, so that reading and clearing visit
    /// only these.
    touched: u64,
    lost: u64,
}

/// Returns the power of two of `ns`: 0 for the linear part, 1 for the first one above it, ...
#[inline]
const fn octave(linear_bits: u32, ns: u64) -> u32 {
    // Setting the low bits makes the result zero in the linear part, without a branch.
    (u64::BITS - (ns | ((1 << linear_bits) - 1)).leading_zeros()) - linear_bits
}

/// Returns the index of the bucket of `ns`.
#[inline]
const fn index(linear_bits: u32, ns: u64) -> usize {
    let octave = octave(linear_bits, ns);
    (((octave as u64) << (linear_bits - 1)) + (ns >> octave)) as usize
}

/// Returns the smallest time in bucket `index`.
const fn lower_edge(linear_bits: u32, index: usize) -> u64 {
    let index = index as u64;
    if index < 1 << linear_bits {
        return index;
    }
    let octave = (index >> (linear_bits - 1)) - 1;
    (index - (octave << (linear_bits - 1))) << octave
}

/// Returns the largest time in bucket `index`.
const fn upper_edge(linear_bits: u32, index: usize) -> u64 {
    lower_edge(linear_bits, index + 1) - 1
}

impl<const LINEAR_BITS: u32> Buckets<LINEAR_BITS> {
    const N_BUCKETS: usize = index(LINEAR_BITS, LARGEST) + 1;
    /// Memory of a histogram that can record, bytes.
    pub(crate) const BYTES: u64 = (Self::N_BUCKETS * size_of::<u64>()) as u64;

    /// Returns the range of buckets of `octave`.
    fn buckets(octave: u32) -> std::ops::Range<usize> {
        let half = 1_usize << (LINEAR_BITS - 1);
        let first = if octave == 0 { 0 } else { (octave as usize + 1) * half };
        first..((octave as usize + 2) * half).min(Self::N_BUCKETS)
        // A shorter last octave: buckets end at the longest time.
    }

    /// Creates an empty histogram that can record. Its memory (213 KiB with three digits) is
    /// touched here, not at the first record.
    #[must_use]
    pub fn new() -> Self {
        // `vec![0; n]` would map untouched zero pages, and the first records would fault them in.
        let mut counts = vec![1; Self::N_BUCKETS];
        counts.fill(0);
        Self { counts, touched: 0, lost: 0 }
    }

    /// Records one operation of `ns`.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        // Clamped: a time beyond the last bucket is counted as the longest, never dropped.
        let ns = ns.min(LARGEST);
        // `get_mut` also covers the default without memory, which records nothing.
        if let Some(count) = self.counts.get_mut(index(LINEAR_BITS, ns)) {
            *count += 1;
            self.touched |= 1 << octave(LINEAR_BITS, ns);
        }
    }

    /// Records `n` operations of `ns` each; times above a minute count as a minute.
    #[inline]
    pub(crate) fn record_many(&mut self, ns: u64, n: u64) {
        let ns = ns.min(LARGEST);
        if let Some(count) = self.counts.get_mut(index(LINEAR_BITS, ns)).filter(|_| n > 0) {
            *count += n;
            self.touched |= 1 << octave(LINEAR_BITS, ns);
        }
    }

    /// Records one operation that never completed; does nothing without memory.
    #[inline]
    pub(crate) fn record_lost(&mut self) {
        // Without memory nothing was recorded, so a loss would stand alone.
        self.lost += u64::from(!self.counts.is_empty());
    }

    /// Returns the recorded operations, each bucket by its upper edge.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        let buckets =
            self.counted().map(|(idx, count)| (upper_edge(LINEAR_BITS, idx), count)).collect();
        Distribution { buckets, lost: self.lost, ..Distribution::default() }
    }

    /// Returns the same by lower edge: no operation took less than its bucket says.
    #[must_use]
    pub fn lower_bounds(&self) -> Distribution {
        let buckets =
            self.counted().map(|(idx, count)| (lower_edge(LINEAR_BITS, idx), count)).collect();
        Distribution { buckets, lost: self.lost, ..Distribution::default() }
    }

    /// Returns the non-empty buckets and their counts.
    fn counted(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let indices = (0..u64::BITS)
            .filter(|octave| self.touched & (1 << octave) != 0)
            .flat_map(Self::buckets);
        indices.map(|idx| (idx, self.counts[idx])).filter(|(_, count)| *count != 0)
    }

    /// Clears all records; keeps the memory.
    pub fn clear(&mut self) {
        // An octave has 8 KiB: clearing only those in use avoids most of the 213 KiB.
        for octave in (0..u64::BITS).filter(|octave| self.touched & (1 << octave) != 0) {
            self.counts[Self::buckets(octave)].fill(0);
        }
        (self.touched, self.lost) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_matches_hdr_histogram_with_three_digits() {
        let (index, upper_edge) =
            (|ns| index(THREE_DIGITS, ns), |idx| upper_edge(THREE_DIGITS, idx));
        assert_eq!(index(0), 0);
        assert_eq!(index(2047), 2047);
        assert_eq!((index(2048), index(2049), index(2050)), (2048, 2048, 2049));
        assert_eq!((upper_edge(2047), upper_edge(2048), upper_edge(2049)), (2047, 2049, 2051));
        assert_eq!((index(4095), index(4096), upper_edge(index(4096))), (3071, 3072, 4099));
        assert_eq!(Histogram::N_BUCKETS * size_of::<u64>() / 1024, 213);
    }

    #[test]
    fn a_lower_bound_is_never_above_the_time_and_within_a_hundredth() {
        for ns in [0, 1, 255, 256, 257, 1_000_003, 1_000_000_000, LARGEST] {
            let mut histogram = CoarseHistogram::new();
            histogram.record(ns);
            let bound = histogram.lower_bounds().buckets[0].0;
            assert!(bound <= ns && (ns - bound) as f64 <= ns as f64 / 100.0, "{bound} of {ns}");
        }
        assert_eq!(CoarseHistogram::N_BUCKETS * size_of::<u64>() / 1024, 29);
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
    fn recording_many_at_once_equals_recording_one_by_one() {
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
        fn a_bucket_contains_its_times_and_is_narrower_than_a_thousandth(ns in 0..=LARGEST) {
            let index = |ns| index(THREE_DIGITS, ns);
            let upper_edge = |idx| upper_edge(THREE_DIGITS, idx);
            let edge = upper_edge(index(ns));
            prop_assert!(edge >= ns);
            prop_assert!((edge - ns) as f64 <= ns as f64 / 1024.0);
            prop_assert_eq!(index(edge), index(ns));
            prop_assert_eq!(index(edge + 1), index(ns) + 1);
        }

        #[test]
        fn the_distribution_matches_hdrhistogram(
            times in proptest::collection::vec(1..=LARGEST, 1..200),
        ) {
            let mut oracle = hdrhistogram::Histogram::<u64>::new_with_bounds(1, LARGEST, 3)
                .expect("legal bounds");
            let mut ours = Histogram::new();
            for &time in &times {
                oracle.record(time).expect("within bounds");
                ours.record(time);
            }
            let expected: Vec<(u64, u64)> = oracle
                .iter_recorded()
                .map(|step| {
                    let edge = oracle.highest_equivalent(step.value_iterated_to());
                    (edge, step.count_at_value())
                })
                .collect();
            prop_assert_eq!(ours.distribution().buckets, expected);
        }
    }
}
