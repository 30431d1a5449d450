//! Get Link Status: whether the link is up, how fast, and what was negotiated.

use crate::bytes::u32_at;

const BODY_BYTES: usize = 12;

/// Status of a channel's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Bits as the standard numbers them; see the methods.
    pub bits: u32,
    /// Bit 0: the host's driver runs.
    pub other: u32,
    /// The manufacturer's own bits.
    pub oem: u32,
}

/// Speed and duplex of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// Megabits per second.
    pub megabits: u32,
    /// True for full duplex.
    pub full_duplex: bool,
}

impl LinkStatus {
    /// Returns true if the link is up.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        self.bits & 1 != 0
    }

    /// Its speed; `None` while it is negotiated, or if the code is not known.
    #[must_use]
    // Codes are in the order in which the standard gained them, not in order of speed: 2.5 Gbit/s
    // came last.
    pub const fn speed(&self) -> Option<Speed> {
        let (megabits, full_duplex) = match (self.bits >> 1) & 0xf {
            1 => (10, false),
            2 => (10, true),
            3 | 4 => (100, false),
            5 => (100, true),
            6 => (1000, false),
            7 => (1000, true),
            8 => (10_000, true),
            9 => (20_000, true),
            0xa => (25_000, true),
            0xb => (40_000, true),
            0xc => (50_000, true),
            0xd => (100_000, true),
            0xe => (2500, true),
            _ => return None,
        };
        Some(Speed { megabits, full_duplex })
    }

    /// Flow control towards the network, and from it.
    #[must_use]
    pub const fn flow_control(&self) -> (bool, bool) {
        (self.bits & 1 << 16 != 0, self.bits & 1 << 17 != 0)
    }

    /// Returns true if the host's driver runs.
    #[must_use]
    pub const fn host_driver_runs(&self) -> bool {
        self.other & 1 != 0
    }

    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        Some(Self { bits: u32_at(body, 0)?, other: u32_at(body, 4)?, oem: u32_at(body, 8)? })
    }

    pub(super) fn emit(&self) -> [u8; BODY_BYTES] {
        let mut body = [0; BODY_BYTES];
        for (place, word) in body.chunks_exact_mut(4).zip([self.bits, self.other, self.oem]) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        body
    }
}
