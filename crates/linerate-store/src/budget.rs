//! How much memory and work a ledger may ask for: in proportion to its size, so that a small file
//! can neither fill the machine nor keep it busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use crate::BlobError;

/// Memory that any ledger may ask for.
const BASE_BYTES: u64 = 48 << 20;
/// Further bytes of memory for each byte of the file. Recorded campaigns take 8 to 50.
const BYTES_A_BYTE: u64 = 96;

/// Steps of SQLite's virtual machine between two looks at the budget.
const STEPS_A_LOOK: i32 = 1_000;
/// Looks that any file is worth, and bytes of the file for each further one. Reading a record takes
/// some 30 steps.
const BASE_LOOKS: u64 = 2_000;
const BYTES_A_LOOK: u64 = 256;

/// Memory and work that reading may still take; shared by the threads that decode.
#[derive(Debug)]
pub(crate) struct Budget {
    total: AtomicU64,
    left: AtomicU64,
    looks: Arc<AtomicU64>,
}

impl Budget {
    /// The budget of a file of this length.
    pub(crate) fn of_file(file_bytes: u64) -> Self {
        let budget = Self::of(0);
        budget.refill(file_bytes);
        budget
    }

    fn of(bytes: u64) -> Self {
        Self {
            total: AtomicU64::new(bytes),
            left: AtomicU64::new(bytes),
            looks: Arc::new(AtomicU64::new(BASE_LOOKS)),
        }
    }

    /// Fills it again, for a file that has this length now: what was read is given back.
    pub(crate) fn refill(&self, file_bytes: u64) {
        let total = BASE_BYTES.saturating_add(file_bytes.saturating_mul(BYTES_A_BYTE));
        self.total.store(total, Ordering::Relaxed);
        self.left.store(total, Ordering::Relaxed);
        self.looks.store(BASE_LOOKS + file_bytes / BYTES_A_LOOK, Ordering::Relaxed);
    }

    /// Stops SQLite on this connection when the budget's work is done.
    pub(crate) fn bound_work(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let looks = Arc::clone(&self.looks);
        // SQLite calls this from inside a statement; returning true interrupts the statement.
        let is_spent = move || {
            looks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_err()
        };
        connection.progress_handler(STEPS_A_LOOK, Some(is_spent))
    }

    /// Bytes that are left.
    #[cfg(test)]
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Reserves room for `count` items of `size` bytes each, before they are allocated.
    pub(crate) fn take(&self, count: usize, size: usize) -> Result<(), BlobError> {
        let bytes = (count as u64).saturating_mul(size as u64);
        let take = |left: u64| left.checked_sub(bytes);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let total = self.total.load(Ordering::Relaxed);
        taken.map(|_| ()).map_err(|_| BlobError::TooMuch { budget: total })
    }

    /// Gives room back.
    pub(crate) fn give(&self, count: usize, size: usize) {
        let bytes = (count as u64).saturating_mul(size as u64);
        let total = self.total.load(Ordering::Relaxed);
        let give = |left: u64| Some(left.saturating_add(bytes).min(total));
        let _given = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, give);
    }

    /// A budget that nothing exhausts.
    #[cfg(test)]
    pub(crate) fn plenty() -> Self {
        Self::of(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_gone_until_it_is_refilled() {
        let budget = Budget::of(100);
        assert_eq!(budget.take(10, 9), Ok(()));
        assert_eq!(budget.take(1, 11), Err(BlobError::TooMuch { budget: 100 }));
        assert_eq!(budget.take(usize::MAX, usize::MAX), Err(BlobError::TooMuch { budget: 100 }));
        budget.refill(10);
        assert_eq!(budget.left(), BASE_BYTES + 10 * BYTES_A_BYTE);
    }
}
