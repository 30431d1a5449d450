//! Counters of the frames that came in at one port of a device, by their fate.
//!
//! Datagrams are counted apart from everything else, so that neighbour discovery does not blur
//! losses, which must be exact to the frame. `received = forwarded + dropped` holds exactly when no
//! frame is in the thread; copies are not included.

use std::sync::atomic::{AtomicU64, Ordering};

/// Class of a frame.
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

    /// Returns the name of its frames, plural.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Datagram => "datagrams",
            Self::Other => "others",
        }
    }
}

/// Fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It came in. One of the following fates applies too, and perhaps further ones.
    Received,
    /// It left at the other port, or will leave.
    Forwarded,
    /// It was dropped because the buffer was full.
    DroppedFull,
    /// It was dropped as the n-th.
    DroppedByOrder,
    /// It was dropped at random.
    DroppedAtRandom,
    /// A copy of it left as well.
    Duplicated,
    /// Its copy was dropped because the buffer was full.
    CopyDropped,
    /// Later frames left before it.
    Overtaken,
    /// A copy of it went back to its sender.
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

    /// Returns its name as a counter.
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

/// Counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted([[u64; Fate::ALL.len()]; Class::ALL.len()]);

impl Counted {
    /// Returns the number of frames of `class` with this `fate`.
    #[must_use]
    pub fn of(&self, class: Class, fate: Fate) -> u64 {
        self.0[class as usize][fate as usize]
    }

    /// Returns the number of frames of `class` that were dropped.
    #[must_use]
    pub fn dropped(&self, class: Class) -> u64 {
        [Fate::DroppedFull, Fate::DroppedByOrder, Fate::DroppedAtRandom]
            .map(|fate| self.of(class, fate))
            .iter()
            .sum()
    }
}

/// Shared counters.
#[derive(Debug, Default)]
pub(super) struct Counts([[AtomicU64; Fate::ALL.len()]; Class::ALL.len()]);

impl Counts {
    pub(super) fn note(&self, class: Class, fate: Fate) {
        self.0[class as usize][fate as usize].fetch_add(1, Ordering::Release);
    }

    pub(super) fn read(&self) -> Counted {
        let mut counted = Counted::default();
        // `Received` is read last, so that it is never below the sum of the fates.
        for fate in Fate::ALL.into_iter().rev() {
            for class in Class::ALL {
                counted.0[class as usize][fate as usize] =
                    self.0[class as usize][fate as usize].load(Ordering::Acquire);
            }
        }
        counted
    }
}
