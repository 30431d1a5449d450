//! The three groups of statistics: of the port, of control traffic, and of pass-through traffic.
//!
//! Bodies are read by the length that came, because older firmware sends shorter ones: 44 instead
//! of 48 bytes of pass-through statistics (their first counter has 32 bits), 172 instead of 204 of
//! the port's. A counter of all ones is not supported and reads as `None`. Counters of 32 bits
//! wrap; whoever takes differences must know the width.

use crate::bytes::{u32_at, u64_at};

/// `None` if the counter is not supported.
fn supported(value: u32) -> Option<u64> {
    (value != u32::MAX).then_some(u64::from(value))
}

fn supported_wide(value: u64) -> Option<u64> {
    (value != u64::MAX).then_some(value)
}

fn emit_narrow(value: Option<u64>) -> [u8; 4] {
    value.map_or(u32::MAX, |value| value as u32).to_be_bytes()
}

fn emit_wide(value: Option<u64>) -> [u8; 8] {
    value.unwrap_or(u64::MAX).to_be_bytes()
}

/// Get NC-SI Pass-through Statistics: what passes between network and management controller. TX is
/// towards the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassThroughStatistics {
    /// True if the first counter has 32 bits only.
    pub legacy: bool,
    /// Counters 1 to 10, in the order of [`Self::NAMES`].
    pub counters: [Option<u64>; 10],
}

impl PassThroughStatistics {
    /// Meaning of each counter.
    pub const NAMES: [&'static str; 10] = [
        "tx packets received from the BMC",
        "tx packets dropped",
        "tx packets in the wrong channel state",
        "tx packets too short",
        "tx packets too long",
        "rx packets received on the network",
        "rx packets dropped",
        "rx packets in the wrong channel state",
        "rx packets too short",
        "rx packets too long",
    ];
    const BODY_BYTES: usize = 44;
    const LEGACY_BODY_BYTES: usize = 40;

    /// Bits of counter `index`, from 0.
    #[must_use]
    pub const fn width(&self, index: usize) -> u32 {
        if index == 0 && !self.legacy { u64::BITS } else { u32::BITS }
    }

    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        // The length is the only sign of the layout: the header has no version of its own.
        let legacy = match body.len() {
            0..Self::LEGACY_BODY_BYTES => return None,
            Self::LEGACY_BODY_BYTES..Self::BODY_BYTES => true,
            _ => false,
        };
        let first =
            if legacy { supported(u32_at(body, 0)?) } else { supported_wide(u64_at(body, 0)?) };
        // The first counter is as wide as its layout says; all others have 32 bits in both.
        let others = if legacy { 4 } else { 8 };
        let mut counters = [first; 10];
        for (idx, counter) in counters.iter_mut().enumerate().skip(1) {
            *counter = supported(u32_at(body, others + (idx - 1) * 4)?);
        }
        Some(Self { legacy, counters })
    }

    pub(super) fn emit(&self) -> Vec<u8> {
        let first = self.counters[0];
        let mut body =
            if self.legacy { emit_narrow(first).to_vec() } else { emit_wide(first).to_vec() };
        body.extend(self.counters[1..].iter().flat_map(|counter| emit_narrow(*counter)));
        body
    }
}

/// Get NC-SI Statistics: control traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlStatistics {
    /// In the order of [`Self::NAMES`], 32 bits each.
    pub counters: [Option<u64>; 7],
}

impl ControlStatistics {
    /// Meaning of each counter.
    pub const NAMES: [&'static str; 7] = [
        "commands received",
        "control packets dropped",
        "unknown commands",
        "wrong checksums",
        "control packets received",
        "control packets sent",
        "notifications sent",
    ];

    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut counters = [None; 7];
        for (idx, counter) in counters.iter_mut().enumerate() {
            *counter = supported(u32_at(body, idx * 4)?);
        }
        Some(Self { counters })
    }

    pub(super) fn emit(&self) -> Vec<u8> {
        self.counters.iter().flat_map(|counter| emit_narrow(*counter)).collect()
    }
}

/// Get Controller Packet Statistics: all traffic of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStatistics {
    /// Counters that were cleared by the last reading: bit i for counter i.
    pub cleared: u64,
    /// Counters 0 to 38 in the order of [`Self::NAMES`]; those a shorter body lacks are `None`.
    pub counters: [Option<u64>; 39],
    /// Length of the body: an older layout is shorter.
    pub body_bytes: usize,
}

impl PortStatistics {
    /// Meaning of each counter.
    pub const NAMES: [&'static str; 39] = [
        "bytes received",
        "bytes sent",
        "unicast packets received",
        "multicast packets received",
        "broadcast packets received",
        "unicast packets sent",
        "multicast packets sent",
        "broadcast packets sent",
        "FCS errors",
        "alignment errors",
        "false carriers",
        "runt packets received",
        "jabber packets received",
        "pause XON received",
        "pause XOFF received",
        "pause XON sent",
        "pause XOFF sent",
        "single collisions",
        "multiple collisions",
        "late collisions",
        "excessive collisions",
        "control frames received",
        "64 B frames received",
        "65 to 127 B frames received",
        "128 to 255 B frames received",
        "256 to 511 B frames received",
        "512 to 1023 B frames received",
        "1024 to 1522 B frames received",
        "1523 to 9022 B frames received",
        "64 B frames sent",
        "65 to 127 B frames sent",
        "128 to 255 B frames sent",
        "256 to 511 B frames sent",
        "512 to 1023 B frames sent",
        "1024 to 1522 B frames sent",
        "1523 to 9022 B frames sent",
        "valid bytes received",
        "runt packets with errors",
        "jabber packets with errors",
    ];
    /// Counters of 64 bits.
    const WIDE: [usize; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 36];

    /// Bits of counter `index`.
    #[must_use]
    pub fn width(index: usize) -> u32 {
        if Self::WIDE.contains(&index) { u64::BITS } else { u32::BITS }
    }

    /// Pause frames received and sent, XON and XOFF added up; `None` if none of them is supported.
    #[must_use]
    pub fn pauses(&self) -> Option<u64> {
        self.counters[13..17].iter().flatten().copied().reduce(|a, b| a + b)
    }

    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut counters = [None; 39];
        // The bit map of cleared counters takes the first eight bytes.
        let mut at = 8;
        for (idx, counter) in counters.iter_mut().enumerate() {
            // Wide and narrow counters alternate, so an offset cannot be computed from the index
            // alone.
            let wide = Self::width(idx) == u64::BITS;
            *counter = if wide {
                u64_at(body, at).and_then(supported_wide)
            } else {
                u32_at(body, at).and_then(supported)
            };
            at += if wide { 8 } else { 4 };
        }
        Some(Self { cleared: u64_at(body, 0)?, counters, body_bytes: body.len() })
    }

    pub(super) fn emit(&self) -> Vec<u8> {
        let mut body = self.cleared.to_be_bytes().to_vec();
        for (idx, counter) in self.counters.iter().enumerate() {
            if Self::width(idx) == u64::BITS {
                body.extend(emit_wide(*counter));
            } else {
                body.extend(emit_narrow(*counter));
            }
        }
        // An older layout ends earlier. Cutting it off keeps a body that is read and written
        // unchanged.
        body.resize(self.body_bytes, 0);
        body
    }
}
