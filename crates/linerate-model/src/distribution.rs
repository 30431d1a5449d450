//! Latency distributions as they travel: sorted buckets, and what never came back; differences of
//! latency with their sign.

use serde::{Deserialize, Serialize};

use crate::Emptiable;

/// A distribution of times in nanoseconds: `(upper edge of the bucket, count)` in ascending order,
/// and the number of operations that never completed, which count as infinitely slow (RFC 7679
/// clause 4.2.4). Of those it may be known how long they were waited for at least.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// `(value_ns, count)`, ascending, no empty buckets.
    pub buckets: Vec<(u64, u64)>,
    /// Operations that never completed.
    #[serde(default)]
    pub lost: u64,
    /// Waiting times of lost operations until their timeout or the end of the trial: `(lower bound
    /// in ns, count)`, ascending. Lost operations that are not counted here have no known bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<(u64, u64)>,
}

impl Emptiable for Distribution {
    const EMPTY: &'static Self = &Self::NOTHING;
}

impl Distribution {
    /// Of no operation.
    pub const NOTHING: Self = Self { buckets: Vec::new(), lost: 0, at_least: Vec::new() };

    /// Returns the distribution of operations that all ended: times and how often each occurred, in
    /// ascending order.
    #[must_use]
    pub const fn of(buckets: Vec<(u64, u64)>) -> Self {
        Self { buckets, lost: 0, at_least: Vec::new() }
    }

    /// Returns true if nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty() && self.lost == 0
    }

    /// Operations recorded, lost ones included.
    #[must_use]
    pub fn count(&self) -> u64 {
        // Counts come from files, which may be damaged.
        added(self.buckets.iter().map(|(_, count)| *count)).saturating_add(self.lost)
    }

    /// Adds `other`'s operations; O(n + m).
    pub fn merge(&mut self, other: &Self) {
        self.buckets = merged(&self.buckets, &other.buckets);
        self.at_least = merged(&self.at_least, &other.at_least);
        self.lost = self.lost.saturating_add(other.lost);
    }

    /// The same operations, each `by_ns` slower; what would be below nothing took nothing.
    #[must_use]
    pub fn moved(&self, by_ns: i64) -> Self {
        Self {
            buckets: moved(&self.buckets, by_ns),
            lost: self.lost,
            at_least: moved(&self.at_least, by_ns),
        }
    }

    /// The nearest-rank percentile in nanoseconds, `quantile` in 0..=1. `Some(None)` is infinite:
    /// the rank falls among the lost. `None` if there are fewer than ten operations beyond the rank
    /// (docs/methodology/latency.md#percentiles) or none at all.
    ///
    /// # Examples
    /// ```
    /// use linerate_model::Distribution;
    ///
    /// let times = Distribution {
    ///     buckets: vec![(100, 900), (250, 95)],
    ///     lost: 5,
    ///     ..Distribution::default()
    /// };
    /// assert_eq!(times.percentile(0.5), Some(Some(100)));
    /// // Rank 990 of 1,000 is among the 95 slower operations.
    /// assert_eq!(times.percentile(0.99), Some(Some(250)));
    /// // 99.9 % has one operation beyond it, and ten are required.
    /// assert_eq!(times.percentile(0.999), None);
    /// ```
    #[must_use]
    pub fn percentile(&self, quantile: f64) -> Option<Option<u64>> {
        /// Operations that must lie beyond a percentile for it to be printed; the median needs no
        /// more than one.
        const BEYOND: f64 = 10.0;
        let n = self.count();
        // The product of a share and a whole number may fall short of ten by its last digit.
        let enough = quantile <= 0.5 || (n as f64) * (1.0 - quantile) >= BEYOND - 1e-9;
        (n > 0 && enough).then(|| self.rank(nearest_rank(quantile, n)))
    }

    /// Returns a lower bound in nanoseconds of the percentile `quantile`, where its rank falls
    /// among the lost operations: the value at the same rank if each of them had ended at its
    /// timeout. `None` where the percentile is a number, or nothing is known.
    #[must_use]
    pub fn percentile_at_least(&self, quantile: f64) -> Option<u64> {
        match self.percentile(quantile)? {
            None => self.rank_at_least(nearest_rank(quantile, self.count())),
            Some(_) => None,
        }
    }

    /// The time that the value of a rank from 1 is at least; lost operations without a known bound
    /// count as the slowest. `None` if it falls among those.
    #[must_use]
    pub fn rank_at_least(&self, rank: u64) -> Option<u64> {
        // Each lost operation is placed where it would be if it had ended at its timeout.
        let bounded = Self { buckets: merged(&self.buckets, &self.at_least), ..Self::default() };
        bounded.rank(rank)
    }

    /// The mean, ns; infinite if an operation was lost. `None` without operations.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let total: f64 = self.buckets.iter().map(|(ns, count)| *ns as f64 * *count as f64).sum();
        // One operation without end makes any mean of finite times too small.
        let mean = if self.lost > 0 { f64::INFINITY } else { total / self.count() as f64 };
        (!self.is_empty()).then_some(mean)
    }

    /// Returns a lower bound of the mean in nanoseconds where operations were lost: the mean if
    /// each lost operation had ended at its timeout. Operations without a known bound count as
    /// zero. `None` where the mean is a number, or where there is none.
    #[must_use]
    pub fn mean_at_least(&self) -> Option<f64> {
        let times = self.buckets.iter().chain(&self.at_least);
        let total: f64 = times.map(|(ns, count)| *ns as f64 * *count as f64).sum();
        // All operations count, those without a bound with zero, so the result stays a lower bound.
        (self.lost > 0).then(|| total / self.count() as f64)
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
        // Ranks beyond the last bucket belong to lost operations.
        self.buckets.iter().find_map(|&(value, count)| {
            seen = count.saturating_add(seen);
            (seen >= rank).then_some(value)
        })
    }
}

/// Returns `times`, each `by_ns` later.
fn moved(times: &[(u64, u64)], by_ns: i64) -> Vec<(u64, u64)> {
    let mut moved: Vec<(u64, u64)> = Vec::with_capacity(times.len());
    for &(ns, count) in times {
        // A correction can exceed the time itself. A time below zero would wrap to an infinite one.
        let ns = ns.saturating_add_signed(by_ns);
        // Times that reach zero fall together, and buckets must stay distinct and ascending.
        match moved.last_mut().filter(|last| last.0 == ns) {
            Some(last) => last.1 = last.1.saturating_add(count),
            None => moved.push((ns, count)),
        }
    }
    moved
}

/// Returns the sum of `counts`, at most `u64::MAX`: no worker counts that far, but a damaged file
/// may contain such counts.
#[must_use]
pub fn added(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// The nearest rank of `quantile` among `n` operations, from 1.
fn nearest_rank(quantile: f64, n: u64) -> u64 {
    (quantile * n as f64).ceil().max(1.0) as u64
}

/// Both lists of `(value, count)`, ascending, equal values added up.
fn merged(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while let (Some(&&(va, ca)), Some(&&(vb, cb))) = (a.peek(), b.peek()) {
        match va.cmp(&vb) {
            std::cmp::Ordering::Less => merged.push(*a.next().expect("just peeked")),
            std::cmp::Ordering::Greater => merged.push(*b.next().expect("just peeked")),
            std::cmp::Ordering::Equal => {
                merged.push((va, ca.saturating_add(cb)));
                a.next();
                b.next();
            }
        }
    }
    merged.extend(a);
    merged.extend(b);
    merged
}

/// Gives the distributions of a structure, each with its name.
macro_rules! named_distributions {
    ($of:ident, $n:literal: $($field:ident $name:literal,)*) => {
        impl Emptiable for $of {
            const EMPTY: &'static Self = &Self::NOTHING;
        }

        impl $of {
            /// Of no operation.
            pub const NOTHING: Self = Self { $($field: Distribution::NOTHING,)* };

            /// Adds `more`'s operations.
            pub fn merge(&mut self, more: &Self) {
                $(self.$field.merge(&more.$field);)*
            }

            /// Returns true if nothing was recorded.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.all().iter().all(|(_, of)| of.is_empty())
            }

            /// Each by name.
            #[must_use]
            pub fn all(&self) -> [(&'static str, &Distribution); $n] {
                [$(($name, &self.$field)),*]
            }

            /// The one with the name that [`Self::all`] gives it.
            pub fn named_mut(&mut self, name: &str) -> Option<&mut Distribution> {
                match name {
                    $($name => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

/// Counts that assign each operation to the interval of its intended start, whenever it ended.
/// `due`, `answered`, `lost`, `open` and `unstarted` count operations of *earlier* intervals,
/// indexed by how many intervals earlier they were due (1: the interval before). All other
/// operations were due in this interval. The times belong to the same operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Due earlier, started or accounted for in this interval.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub due: Distribution,
    /// Due earlier, answered in this interval.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub answered: Distribution,
    /// Due earlier, timed out or failed in this interval.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub lost: Distribution,
    /// Due earlier, started, and still open at the end of the trial; in the last interval only.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub open: Distribution,
    /// Due earlier and never started; in the last interval only.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub unstarted: Distribution,
    /// Service times of those answered, ns, to 1 %.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub service: Distribution,
    /// Response times of those answered, ns, to 1 %.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub response: Distribution,
    /// Waiting times since the start of every operation that was lost or left open in this
    /// interval, ns, to 1 % and never too long. Operations due in this interval are included.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub waited_service: Distribution,
    /// The same since its intended start; those never started included.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub waited_response: Distribution,
}

named_distributions!(Carried, 9:
    due "carried_due",
    answered "carried_answered",
    lost "carried_lost",
    open "carried_open",
    unstarted "carried_unstarted",
    service "carried_service",
    response "carried_response",
    waited_service "waited_service",
    waited_response "waited_response",
);

/// Differences between the delays of frames sent one after the other, ns, by their sign: `D(i) -
/// D(i-1)` of RFC 8219 7.3.2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variation {
    /// How much sooner than the frame before it a frame arrived; no zeros.
    #[serde(default)]
    pub falls: Distribution,
    /// How much later, or as late.
    #[serde(default)]
    pub rises: Distribution,
}

impl Emptiable for Variation {
    const EMPTY: &'static Self =
        &Self { falls: Distribution::NOTHING, rises: Distribution::NOTHING };
}

impl Variation {
    /// Returns true if nothing was recorded.
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
        // Falls are stored without sign. Reversed, the largest fall comes first as the smallest
        // difference.
        let falls = self.falls.buckets.iter().rev().map(|&(ns, count)| (-(ns as i64), count));
        let signed: Vec<(i64, u64)> =
            falls.chain(self.rises.buckets.iter().map(|&(ns, count)| (ns as i64, count))).collect();
        // The nearest rank of the median, from 1.
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

named_distributions!(Stages, 4:
    connect "connect",
    first_byte "first_byte",
    transfer "transfer",
    close "close",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_nobody_can_have_counted_add_up_to_the_largest_number() {
        let most = Distribution {
            buckets: vec![(1, u64::MAX), (2, u64::MAX)],
            lost: u64::MAX,
            ..Distribution::default()
        };
        let mut both = most.clone();
        both.merge(&most);
        assert_eq!((both, most.count()), (most.clone(), u64::MAX));
        assert_eq!(most.moved(-2).buckets, [(0, u64::MAX)]);
        assert_eq!(most.percentile(0.5), Some(Some(1)));
    }

    #[test]
    fn lost_operations_are_infinitely_slow() {
        let d = Distribution {
            buckets: vec![(1_000, 60), (2_000, 20)],
            lost: 20,
            ..Distribution::default()
        };
        assert_eq!(d.percentile(0.5), Some(Some(1_000)));
        assert_eq!(d.percentile(0.8), Some(Some(2_000)));
        assert_eq!(d.percentile(0.9), Some(None));
        assert_eq!(d.max(), Some(None));
    }

    #[test]
    fn a_percentile_among_the_lost_exceeds_what_was_waited_for() {
        // 80 answered, 10 timed out after 5 us, 8 open after 1.5 us at the end, and 2 without a
        // known bound.
        let d = Distribution {
            buckets: vec![(1_000, 60), (2_000, 20)],
            lost: 20,
            at_least: vec![(1_500, 8), (5_000, 10)],
        };
        assert_eq!((d.percentile(0.9), d.percentile_at_least(0.9)), (Some(None), Some(5_000)));
        assert_eq!(d.percentile_at_least(0.8), None, "it is a number");
        assert_eq!(
            (d.rank_at_least(68), d.rank_at_least(69), d.rank_at_least(99)),
            (Some(1_500), Some(2_000), None)
        );
        assert_eq!(d.mean(), Some(f64::INFINITY));
        assert_eq!(
            d.mean_at_least(),
            Some(1_620.0),
            "the two of which nothing is known count as nothing"
        );
        let answered = Distribution::of(vec![(1_000, 60)]);
        assert_eq!((answered.mean(), answered.mean_at_least()), (Some(1_000.0), None));
        let mut twice = d.clone();
        twice.merge(&d);
        assert_eq!(twice.at_least, vec![(1_500, 16), (5_000, 20)]);
        assert_eq!(d.moved(-500).at_least, vec![(1_000, 8), (4_500, 10)]);
    }

    #[test]
    fn carried_operations_have_one_name_each() {
        let mut carried = Carried::default();
        let names = carried.all().map(|(name, _)| name);
        for (k, name) in (1_u64..).zip(names) {
            carried.named_mut(name).expect("a name").lost = k;
        }
        assert_eq!(carried.all().map(|(_, of)| of.lost), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(carried.named_mut("other"), None);
    }

    #[test]
    fn a_percentile_without_enough_samples_is_withheld() {
        let d = Distribution::of(vec![(5, 999)]);
        assert_eq!(d.percentile(0.99), None);
        let d = Distribution::of(vec![(5, 1_000)]);
        assert_eq!(d.percentile(0.99), Some(Some(5)));
    }

    #[test]
    fn differences_keep_their_sign_and_have_one_median() {
        let of = |buckets: &[(u64, u64)]| Distribution::of(buckets.to_vec());
        let mut variation =
            Variation { falls: of(&[(1, 2), (30, 1)]), rises: of(&[(0, 1), (7, 1)]) };
        assert_eq!((variation.count(), variation.extremes_and_median()), (5, Some((-30, -1, 7))));
        variation.merge(&Variation { falls: of(&[]), rises: of(&[(0, 4)]) });
        assert_eq!(variation.extremes_and_median(), Some((-30, 0, 7)));
        assert_eq!(Variation::default().extremes_and_median(), None);
    }

    #[test]
    fn merging_adds_counts_and_keeps_order() {
        let mut a = Distribution { lost: 1, ..Distribution::of(vec![(1, 1), (3, 1)]) };
        a.merge(&Distribution {
            buckets: vec![(2, 5), (3, 1), (9, 1)],
            lost: 2,
            ..Distribution::default()
        });
        assert_eq!(
            a,
            Distribution {
                buckets: vec![(1, 1), (2, 5), (3, 2), (9, 1)],
                lost: 3,
                ..Distribution::default()
            }
        );
    }
}
