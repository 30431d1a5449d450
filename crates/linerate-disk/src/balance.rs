//! A ratio between loads that run side by side: each may start operations only as long as it is not
//! [`AHEAD`] of the others.
//!
//! Counts are relaxed: a member may be ahead by as many operations more as its neighbours start
//! between two of its looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations for each unit of its weight by which a load may be ahead of the mean of all: a queue
/// is filled at once, and the ratio of thousands is exact all the same.
const AHEAD: u64 = 16;

/// What all members have started, each operation divided by nothing, and the sum of their weights.
///
/// # Examples
/// ```
/// use std::sync::Arc;
///
/// use linerate_disk::Balance;
///
/// // Reads and writes 3 to 1.
/// let balance = Arc::new(Balance::default());
/// let (mut reads, mut writes) = (balance.join(3), balance.join(1));
/// for _ in 0..1_000 {
///     reads.start(reads.allowed().min(100));
///     // Writes are slow: one at a time.
///     writes.start(writes.allowed().min(1));
/// }
/// // 1,000 writes have started. Reads stop 3 * 16 operations ahead of 3 * 1,000 at the latest.
/// assert!(reads.allowed() <= 3 * 16);
/// ```
#[derive(Debug, Default)]
pub struct Balance {
    started: AtomicU64,
    weight: AtomicU64,
}

/// One load of a [`Balance`]; it leaves when it is dropped.
#[derive(Debug)]
pub struct Member {
    balance: Arc<Balance>,
    weight: u64,
    /// Operations it has started, or would have if it had been there from the beginning.
    started: u64,
}

impl Balance {
    /// Another load, of so much `weight` (1 at least), as far as the others are on the mean.
    #[must_use]
    pub fn join(self: &Arc<Self>, weight: u32) -> Member {
        let weight = u64::from(weight.max(1));
        let others = self.weight.fetch_add(weight, Ordering::Relaxed);
        let started =
            (self.started.load(Ordering::Relaxed) * weight).checked_div(others).unwrap_or(0);
        self.started.fetch_add(started, Ordering::Relaxed);
        Member { balance: Arc::clone(self), weight, started }
    }
}

impl Member {
    /// Operations that it may start now; at least one if it is not ahead of the mean of all.
    #[must_use]
    pub fn allowed(&self) -> u64 {
        let all = self.balance.started.load(Ordering::Relaxed) * self.weight;
        let weight = self.balance.weight.load(Ordering::Relaxed).max(1);
        // So many put it at the mean.
        (all / weight + AHEAD * self.weight).saturating_sub(self.started)
    }

    /// It has started `n` operations.
    pub fn start(&mut self, n: u64) {
        self.started += n;
        self.balance.started.fetch_add(n, Ordering::Relaxed);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.balance.weight.fetch_sub(self.weight, Ordering::Relaxed);
        self.balance.started.fetch_sub(self.started, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets each of `members` start what it may, at most `room` at a time, in turn.
    fn turns(members: &mut [Member], room: &[u64], n: u32) {
        for _ in 0..n {
            for (member, room) in members.iter_mut().zip(room) {
                let started = member.allowed().min(*room);
                member.start(started);
            }
        }
    }

    #[test]
    fn the_fast_one_waits_for_the_slow_one() {
        let balance = Arc::new(Balance::default());
        let mut members = vec![balance.join(1), balance.join(8)];
        // The heavy one could do a hundred at a time, the light one five.
        turns(&mut members, &[5, 100], 1_000);
        let ratio = members[1].started as f64 / members[0].started as f64;
        assert!(members[0].started > 4_500 && (ratio - 8.0).abs() < 0.2, "{ratio} of {members:?}");
    }

    #[test]
    fn one_that_comes_later_is_neither_ahead_nor_behind_and_one_that_leaves_holds_nobody() {
        let balance = Arc::new(Balance::default());
        let mut members = vec![balance.join(2), balance.join(2)];
        turns(&mut members, &[10, 10], 100);
        let before = members[0].started;
        assert_eq!(before, 1_000, "equals hold nobody");
        members.push(balance.join(1));
        assert_eq!(members[2].allowed(), AHEAD, "{members:?}");
        turns(&mut members, &[10, 10, 10], 1_000);
        let (first, last) = (members[0].started - before, members[2].started - before / 2);
        assert!((first as f64 / last as f64 - 2.0).abs() < 0.1, "{first} and {last}");
        members.truncate(1);
        let before = members[0].started;
        turns(&mut members, &[10], 100);
        assert!(members[0].started - before >= 100, "alone it is never ahead of the mean");
    }
}
