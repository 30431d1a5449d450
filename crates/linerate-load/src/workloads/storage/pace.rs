//! What is done beside transfers, and what holds them back: the budget of writes, blocks to be read
//! back, a search for the depth, a ratio to other workers, a target that does not stay open.

use std::sync::Arc;

use linerate_disk::{Balance, Member, Opener, Target};
use linerate_model::Nanos;
use linerate_sys::storage::Operation;

use super::backlog::Backlog;
use super::contents::Copies;
use super::latency::DepthSearch;

/// Shares of the budget are fetched in pieces of this size: one shared number is touched that
/// seldom.
const BUDGET_PIECE: u64 = 16 << 20;

/// What is done beside transfers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upkeep {
    /// The flush that follows writes, if any.
    pub(super) flush: Option<Operation>,
    /// After so many writes that have ended.
    pub(super) every: u32,
    /// Share of operations that discard.
    pub(super) trim: f64,
    /// Writes that repeat others, if any.
    pub(super) copies: Option<Copies>,
}

/// A target that is closed and opened again.
#[derive(Debug)]
pub(super) struct Reopening {
    pub(super) opener: Opener,
    /// After so many transfers.
    pub(super) every: u32,
    /// Those since it was opened.
    pub(super) since: u32,
}

/// What holds operations back beside the load itself.
#[derive(Debug)]
pub(super) struct Pace {
    /// What was written is read back in between.
    pub(super) backlog: Option<Backlog>,
    /// The depth is looked for.
    pub(super) search: Option<DepthSearch>,
    /// The target does not stay open.
    pub(super) reopening: Option<Reopening>,
    /// The ratio to other workers, and this one's weight in it.
    pub(super) flow: Option<(Arc<Balance>, u32)>,
    /// Its place in that ratio, from the first operation on.
    pub(super) member: Option<Member>,
}

impl Pace {
    /// Of `wanted` operations of the load those that may start now.
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

    /// `n` operations of the load have started.
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

/// What may still be written.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) target: Arc<Target>,
    pub(super) most: u64,
    left: u64,
}

impl Budget {
    /// All workers of all trials on `target` together write `most` bytes at most.
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
