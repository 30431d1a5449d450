//! Ratio between loads that run side by side: a load may start operations only while it is at most
//! [`AHEAD`] of the others.
//!
//! The counters are relaxed. A member may be further ahead by the operations that others start
//! between two of its checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations per unit of weight by which a load may be ahead of the mean of all. A queue is then
/// filled at once, and the ratio over thousands of operations is still exact.
const AHEAD: u64 = 16;

/// Sum of all started operations and sum of the weights of all members.
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

/// Member of a [`Balance`], which leaves when it is dropped.
#[derive(Debug)]
pub struct Member {
    balance: Arc<Balance>,
    weight: u64,
    /// Operations that it has started, including a credit that makes a late member equal to the
    /// others.
    started: u64,
}

impl Balance {
    /// Adds a load of this `weight` (at least 1), which starts at the mean of the others.
    #[must_use]
    pub fn join(self: &Arc<Self>, weight: u32) -> Member {
        let weight = u64::from(weight.max(1));
        let others = self.weight.fetch_add(weight, Ordering::Relaxed);
        // Without this credit a late member would be far behind, and all others would wait for it.
        let started =
            (self.started.load(Ordering::Relaxed) * weight).checked_div(others).unwrap_or(0);
        self.started.fetch_add(started, Ordering::Relaxed);
        Member { balance: Arc::clone(self), weight, started }
    }
}

impl Member {
    /// Returns the number of operations that it may start now: at least one if it is not ahead of
    /// the mean.
    #[must_use]
    pub fn allowed(&self) -> u64 {
        let all = self.balance.started.load(Ordering::Relaxed) * self.weight;
        let weight = self.balance.weight.load(Ordering::Relaxed).max(1);
        // `all / weight` operations would put this member at the mean.
        (all / weight + AHEAD * self.weight).saturating_sub(self.started)
    }

    /// Counts `n` operations that it has started.
    pub fn start(&mut self, n: u64) {
        self.started += n;
        self.balance.started.fetch_add(n, Ordering::Relaxed);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.balance.weight.fetch_sub(self.weight, Ordering::Relaxed);
        // Its operations leave with it: otherwise the remaining members would wait for it forever.
        self.balance.started.fetch_sub(self.started, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets each of `members` in turn start what it may, at most `room` at a time.
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
        // The heavy member could start a hundred at a time, the light member five.
        turns(&mut members, &[5, 100], 1_000);
        let ratio = members[1].started as f64 / members[0].started as f64;
        assert!(members[0].started > 4_500 && (ratio - 8.0).abs() < 0.2, "{ratio} of {members:?}");
    }

    #[test]
    fn a_late_member_starts_at_the_mean_and_a_leaving_member_blocks_nobody() {
        let balance = Arc::new(Balance::default());
        let mut members = vec![balance.join(2), balance.join(2)];
        turns(&mut members, &[10, 10], 100);
        let before = members[0].started;
        assert_eq!(before, 1_000, "equal members do not block each other");
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
