//! Maintenance between transfers, and limits on their start: the budget of writes, blocks to be
//! read back, a search for the depth, a ratio to other workers, a target that is reopened.

use std::sync::Arc;

use linerate_disk::{Balance, Member, Opener, Target};
use linerate_model::Nanos;
use linerate_sys::storage::Operation;

use super::backlog::Backlog;
use super::contents::Copies;
use super::latency::DepthSearch;

/// A worker takes shares of the budget in pieces of this size, so that it seldom touches the shared
/// number.
const BUDGET_PIECE: u64 = 16 << 20;

/// Operations between transfers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upkeep {
    /// The flush that follows writes, if any.
    pub(super) flush: Option<Operation>,
    /// Completed writes from one flush to the next.
    pub(super) every: u32,
    /// Share of operations that discard.
    pub(super) trim: f64,
    /// Writes that repeat others, if any.
    pub(super) copies: Option<Copies>,
}

/// Target that is closed and opened again.
#[derive(Debug)]
pub(super) struct Reopening {
    pub(super) opener: Opener,
    /// Transfers from one opening to the next.
    pub(super) every: u32,
    /// Transfers since it was opened.
    pub(super) since: u32,
}

/// Limits on the start of operations, beyond those of the load.
#[derive(Debug)]
pub(super) struct Pace {
    /// Written blocks to be read back.
    pub(super) backlog: Option<Backlog>,
    /// Search for the depth.
    pub(super) search: Option<DepthSearch>,
    /// Target that is closed and opened again.
    pub(super) reopening: Option<Reopening>,
    /// The ratio to other workers, and this one's weight in it.
    pub(super) flow: Option<(Arc<Balance>, u32)>,
    /// Its place in that ratio, from the first operation on.
    pub(super) member: Option<Member>,
}

impl Pace {
    /// Returns how many of `wanted` operations of the load may start now.
    #[inline]
    pub(super) fn allowed(&mut self, wanted: u32, under_way: u32, now: Nanos) -> u32 {
        let mut allowed = wanted;
        if let Some(search) = &mut self.search {
            allowed = allowed.min(search.depth(now).saturating_sub(under_way));
        }
        if let Some((balance, weight)) = self.flow.as_ref().filter(|_| wanted > 0) {
            let member = self.member.get_or_insert_with(|| balance.join(*weight));
            allowed = allowed.min(u32::try_from(member.allowed()).unwrap_or(u32::MAX));
        }
        if let Some(reopening) = &self.reopening {
            allowed = allowed.min(reopening.every - reopening.since);
        }
        allowed
    }

    /// Counts `n` started operations of the load.
    #[inline]
    pub(super) fn started(&mut self, n: u32) {
        if let Some(member) = &mut self.member {
            member.start(u64::from(n));
        }
        if let Some(reopening) = &mut self.reopening {
            reopening.since += n;
        }
    }
}

/// Bytes that may still be written.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) target: Arc<Target>,
    pub(super) most: u64,
    left: u64,
}

impl Budget {
    /// Creates a budget of `most` bytes for all workers of all trials on `target` together.
    pub(super) fn new(target: Arc<Target>, most: u64) -> Self {
        Self { target, most, left: 0 }
    }

    #[inline]
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        if self.left < bytes {
            // The last piece may be a small one.
            let piece = [BUDGET_PIECE.max(bytes), bytes]
                .into_iter()
                .find(|piece| self.target.spend(*piece, self.most));
            self.left += piece.unwrap_or(0);
        }
        let has = self.left >= bytes;
        self.left -= if has { bytes } else { 0 };
        has
    }
}
