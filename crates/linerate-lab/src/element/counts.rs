//! What became of the frames that came in at one port of a device: counters shared with whoever
//! asks.
//!
//! Datagrams are counted apart from everything else, so that neighbour discovery does not blur a
//! loss that is to be located to the frame. `received = forwarded + dropped`, exactly, once nothing
//! is on its way through the thread; copies are no part of it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// UDP over IPv4 or IPv6 without extension headers.
    Datagram,
    /// All else: TCP, neighbour discovery.
    Other,
}

impl Class {
    /// Every class, in the order counted.
    pub const ALL: [Self; 2] = [Self::Datagram, Self::Other];

    /// What its frames are called together.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Datagram => "datagrams",
            Self::Other => "others",
        }
    }
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It came; one of those below follows, and perhaps one of those after them.
    Received,
    /// It left at the other port, or will.
    Forwarded,
    /// There was no room.
    DroppedFull,
    /// It was the n-th.
    DroppedByOrder,
    /// By chance, as large as asked for.
    DroppedAtRandom,
    /// A copy of it left as well.
    Duplicated,
    /// There was no room for its copy.
    CopyDropped,
    /// Others left before it that came after it.
    Overtaken,
    /// A copy of it went back where it came from.
    Reflected,
}

impl Fate {
    /// Every fate, in the order counted.
    pub const ALL: [Self; 9] = [
        Self::Received,
        Self::Forwarded,
        Self::DroppedFull,
        Self::DroppedByOrder,
        Self::DroppedAtRandom,
        Self::Duplicated,
        Self::CopyDropped,
        Self::Overtaken,
        Self::Reflected,
    ];

    /// Its name as a counter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Forwarded => "forwarded",
            Self::DroppedFull => "dropped_full",
            Self::DroppedByOrder => "dropped_by_order",
            Self::DroppedAtRandom => "dropped_at_random",
            Self::Duplicated => "duplicated",
            Self::CopyDropped => "copy_dropped",
            Self::Overtaken => "overtaken",
            Self::Reflected => "reflected",
        }
    }
}

/// Counts at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted([[u64; Fate::ALL.len()]; Class::ALL.len()]);

impl Counted {
    /// Frames of `class` that met `fate`.
    #[must_use]
    pub fn of(&self, class: Class, fate: Fate) -> u64 {
        self.0[class as usize][fate as usize]
    }

    /// Frames of `class` that came and did not go on.
    #[must_use]
    pub fn dropped(&self, class: Class) -> u64 {
        [Fate::DroppedFull, Fate::DroppedByOrder, Fate::DroppedAtRandom]
            .map(|fate| self.of(class, fate))
            .iter()
            .sum()
    }
}

/// Counters under way.
#[derive(Debug, Default)]
pub(super) struct Counts([[AtomicU64; Fate::ALL.len()]; Class::ALL.len()]);

impl Counts {
    pub(super) fn note(&self, class: Class, fate: Fate) {
        self.0[class as usize][fate as usize].fetch_add(1, Ordering::Release);
    }

    pub(super) fn read(&self) -> Counted {
        let mut counted = Counted::default();
        // What came is read last: it is never less than what became of it.
        for fate in Fate::ALL.into_iter().rev() {
            for class in Class::ALL {
                counted.0[class as usize][fate as usize] =
                    self.0[class as usize][fate as usize].load(Ordering::Acquire);
            }
        }
        counted
    }
}
