//! Latency distributions as they travel: sorted buckets, and what never came back; differences of latency with their sign.

use serde::{Deserialize, Serialize};

/// A distribution of times in nanoseconds: `(upper edge of the bucket, count)` in ascending order, and the number of
/// operations that were lost, which count as infinitely slow (RFC 7679 clause 4.2.4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// `(value_ns, count)`, ascending, no empty buckets.
    pub buckets: Vec<(u64, u64)>,
    /// Operations that never completed.
    #[serde(default)]
    pub lost: u64,
}

impl Distribution {
    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty() && self.lost == 0
    }

    /// Operations recorded, lost ones included.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum::<u64>() + self.lost
    }

    /// Adds `other`'s operations; O(n + m).
    pub fn merge(&mut self, other: &Self) {
        let mut merged = Vec::with_capacity(self.buckets.len() + other.buckets.len());
        let (mut a, mut b) = (self.buckets.iter().peekable(), other.buckets.iter().peekable());
        while let (Some(&&(va, ca)), Some(&&(vb, cb))) = (a.peek(), b.peek()) {
            match va.cmp(&vb) {
                std::cmp::Ordering::Less => merged.push(*a.next().expect("just peeked")),
                std::cmp::Ordering::Greater => merged.push(*b.next().expect("just peeked")),
                std::cmp::Ordering::Equal => {
                    merged.push((va, ca + cb));
                    a.next();
                    b.next();
                }
            }
        }
        merged.extend(a);
        merged.extend(b);
        self.buckets = merged;
        self.lost += other.lost;
    }

    /// The same operations, each `by_ns` slower; what would be below nothing took nothing.
    #[must_use]
    pub fn moved(&self, by_ns: i64) -> Self {
        let mut moved = Self { buckets: Vec::with_capacity(self.buckets.len()), lost: self.lost };
        for &(ns, count) in &self.buckets {
            let ns = ns.saturating_add_signed(by_ns);
            match moved.buckets.last_mut().filter(|last| last.0 == ns) {
                Some(last) => last.1 += count,
                None => moved.buckets.push((ns, count)),
            }
        }
        moved
    }

    /// The nearest-rank percentile in nanoseconds, `quantile` in 0..=1. `Some(None)` is infinite: the rank falls among
    /// the lost. `None` if there are fewer than ten operations beyond the rank (methodology 4.3) or none at all.
    #[must_use]
    pub fn percentile(&self, quantile: f64) -> Option<Option<u64>> {
        /// Operations that must lie beyond a percentile for it to be printed; the median needs no more than one.
        const BEYOND: f64 = 10.0;
        let n = self.count();
        let enough = quantile <= 0.5 || (n as f64) * (1.0 - quantile) >= BEYOND - 1e-9;
        (n > 0 && enough).then(|| self.rank((quantile * n as f64).ceil().max(1.0) as u64))
    }

    /// The mean, ns; infinite if an operation was lost. `None` without operations.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let total: f64 = self.buckets.iter().map(|(ns, count)| *ns as f64 * *count as f64).sum();
        let mean = if self.lost > 0 { f64::INFINITY } else { total / self.count() as f64 };
        (!self.is_empty()).then_some(mean)
    }

    /// The largest value; `Some(None)` if something was lost.
    #[must_use]
    pub fn max(&self) -> Option<Option<u64>> {
        (!self.is_empty()).then(|| self.rank(self.count()))
    }

    /// The value of a rank from 1; `None` is infinite: it falls among the lost.
    #[must_use]
    pub fn rank(&self, rank: u64) -> Option<u64> {
        let mut seen = 0;
        self.buckets.iter().find_map(|&(value, count)| {
            seen += count;
            (seen >= rank).then_some(value)
        })
    }
}

/// Differences between the delays of frames sent one after the other, ns, by their sign: `D(i) - D(i-1)` of RFC 8219 7.3.2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variation {
    /// How much sooner than the frame before it a frame arrived; no zeros.
    #[serde(default)]
    pub falls: Distribution,
    /// How much later, or as late.
    #[serde(default)]
    pub rises: Distribution,
}

impl Variation {
    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.falls.is_empty() && self.rises.is_empty()
    }

    /// Differences recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.falls.count() + self.rises.count()
    }

    /// Adds `other`'s differences.
    pub fn merge(&mut self, other: &Self) {
        self.falls.merge(&other.falls);
        self.rises.merge(&other.rises);
    }

    /// The smallest, the median (nearest-rank) and the largest difference, ns; `None` of nothing.
    #[must_use]
    pub fn extremes_and_median(&self) -> Option<(i64, i64, i64)> {
        let falls = self.falls.buckets.iter().rev().map(|&(ns, count)| (-(ns as i64), count));
        let signed: Vec<(i64, u64)> =
            falls.chain(self.rises.buckets.iter().map(|&(ns, count)| (ns as i64, count))).collect();
        let middle = self.count().div_ceil(2);
        let mut seen = 0;
        let median = signed.iter().find(|(_, count)| {
            seen += count;
            seen >= middle
        });
        Some((signed.first()?.0, median?.0, signed.last()?.0))
    }
}

/// Times of the parts of file transfers, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// From before the connection that carries the file is opened until it is open.
    #[serde(default)]
    pub connect: Distribution,
    /// From the request until the first byte of the file.
    #[serde(default)]
    pub first_byte: Distribution,
    /// From the first byte of the file to its last.
    #[serde(default)]
    pub transfer: Distribution,
    /// From the last byte of the file until it is where it belongs and the other end has said so.
    #[serde(default)]
    pub close: Distribution,
}

impl Stages {
    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all().iter().all(|(_, times)| times.is_empty())
    }

    /// Each by name, in the order in which they pass.
    #[must_use]
    pub fn all(&self) -> [(&'static str, &Distribution); 4] {
        [
            ("connect", &self.connect),
            ("first_byte", &self.first_byte),
            ("transfer", &self.transfer),
            ("close", &self.close),
        ]
    }

    /// Adds `other`'s times.
    pub fn merge(&mut self, other: &Self) {
        self.connect.merge(&other.connect);
        self.first_byte.merge(&other.first_byte);
        self.transfer.merge(&other.transfer);
        self.close.merge(&other.close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_operations_are_infinitely_slow() {
        let d = Distribution { buckets: vec![(1_000, 60), (2_000, 20)], lost: 20 };
        assert_eq!(d.percentile(0.5), Some(Some(1_000)));
        assert_eq!(d.percentile(0.8), Some(Some(2_000)));
        assert_eq!(d.percentile(0.9), Some(None));
        assert_eq!(d.max(), Some(None));
    }

    #[test]
    fn a_percentile_without_enough_samples_is_withheld() {
        let d = Distribution { buckets: vec![(5, 999)], lost: 0 };
        assert_eq!(d.percentile(0.99), None);
        let d = Distribution { buckets: vec![(5, 1_000)], lost: 0 };
        assert_eq!(d.percentile(0.99), Some(Some(5)));
    }

    #[test]
    fn differences_keep_their_sign_and_have_one_median() {
        let of = |buckets: &[(u64, u64)]| Distribution { buckets: buckets.to_vec(), lost: 0 };
        let mut variation = Variation { falls: of(&[(1, 2), (30, 1)]), rises: of(&[(0, 1), (7, 1)]) };
        assert_eq!((variation.count(), variation.extremes_and_median()), (5, Some((-30, -1, 7))));
        variation.merge(&Variation { falls: of(&[]), rises: of(&[(0, 4)]) });
        assert_eq!(variation.extremes_and_median(), Some((-30, 0, 7)));
        assert_eq!(Variation::default().extremes_and_median(), None);
    }

    #[test]
    fn merging_adds_counts_and_keeps_order() {
        let mut a = Distribution { buckets: vec![(1, 1), (3, 1)], lost: 1 };
        a.merge(&Distribution { buckets: vec![(2, 5), (3, 1), (9, 1)], lost: 2 });
        assert_eq!(a, Distribution { buckets: vec![(1, 1), (2, 5), (3, 2), (9, 1)], lost: 3 });
    }
}
