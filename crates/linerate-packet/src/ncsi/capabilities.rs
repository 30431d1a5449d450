//! Get Capabilities: what a channel can do, and how much it can hold for the management controller.

use crate::bytes::u32_at;

/// Length of the body behind code and reason.
const BODY_BYTES: usize = 28;

/// Capabilities of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Bits: 0 hardware arbitration, 1 reports the host's driver, 2 and 3 flow control to and from
    /// the management controller, 4 passes all multicasts, 5 and 6 whether the arbitration lines
    /// are connected (0 unknown, 1 they are, 2 they are not).
    pub flags: u32,
    /// Broadcasts it can filter, bits as in Enable Broadcast Filter.
    pub broadcast_filters: u32,
    /// Multicasts it can filter, bits as in Enable Multicast Filter.
    pub multicast_filters: u32,
    /// Pass-through data from the network the channel holds, as reported.
    pub buffer: u32,
    /// Notifications it can send, bits as in AEN Enable.
    pub notifications: u32,
    /// How many VLAN, mixed, multicast and unicast filters it has.
    pub filters: [u8; 4],
    /// VLAN modes it knows: bits 0 to 2 for modes 1 to 3.
    pub vlan_modes: u8,
    /// Channels of the package; some say 0.
    pub channels: u8,
}

/// Plausibility of a reported buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferReport {
    /// A size that can be true.
    Bytes(u32),
    /// Zero or all ones: it does not say.
    NotSaid,
    /// Less than one frame, or more than any such device has: not bytes, or wrong.
    Implausible(u32),
}

impl Capabilities {
    /// Returns the plausibility of the reported buffer: it must hold a frame, and no such device
    /// holds more than 4 MiB.
    #[must_use]
    pub const fn buffer_report(&self) -> BufferReport {
        const FRAME: u32 = 1518;
        const MOST: u32 = 4 << 20;
        // Real firmware fills fields it does not implement with zeros or ones.
        match self.buffer {
            0 | u32::MAX => BufferReport::NotSaid,
            bytes if bytes < FRAME || bytes > MOST => BufferReport::Implausible(bytes),
            bytes => BufferReport::Bytes(bytes),
        }
    }

    /// Returns true if the answer comes from a responder that fills in fields and knows no channels:
    /// every flag is set, although two of them exclude each other (bits 5 and 6), and the package
    /// has no channel.
    #[must_use]
    pub const fn are_filler(&self) -> bool {
        self.flags == u32::MAX && self.channels == 0
    }

    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        // Bytes 24 and 25 are reserved (DSP0222, Get Capabilities response).
        let filters: [u8; 4] = body.get(20..24)?.try_into().ok()?;
        Some(Self {
            flags: u32_at(body, 0)?,
            broadcast_filters: u32_at(body, 4)?,
            multicast_filters: u32_at(body, 8)?,
            buffer: u32_at(body, 12)?,
            notifications: u32_at(body, 16)?,
            filters,
            vlan_modes: *body.get(26)?,
            channels: *body.get(27)?,
        })
    }

    pub(super) fn emit(&self) -> [u8; BODY_BYTES] {
        let words = [
            self.flags,
            self.broadcast_filters,
            self.multicast_filters,
            self.buffer,
            self.notifications,
        ];
        let mut body = [0; BODY_BYTES];
        for (place, word) in body.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        body[20..24].copy_from_slice(&self.filters);
        body[26..].copy_from_slice(&[self.vlan_modes, self.channels]);
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_cannot_be_is_not_believed() {
        let reported = |buffer| {
            let capabilities = Capabilities::parse(&[0; BODY_BYTES]).expect("long enough");
            Capabilities { buffer, ..capabilities }.buffer_report()
        };
        assert_eq!(reported(8192), BufferReport::Bytes(8192));
        assert_eq!(
            (reported(0), reported(u32::MAX)),
            (BufferReport::NotSaid, BufferReport::NotSaid)
        );
        assert_eq!(reported(7), BufferReport::Implausible(7));
    }
}
