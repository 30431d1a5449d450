//! Counters of a controller, and the payloads that report them (DSP0222, responses 98, 99 and 9A).
//!
//! Counters have 64 bits. Answers have fields of 32 bits for some, which wrap. Sizes and bytes
//! count an Ethernet frame with FCS, padded to the smallest one as a MAC does. Never counted:
//! errors of the medium, pauses and collisions, because a virtual wire has none.

/// Smallest Ethernet frame, and its FCS (IEEE 802.3 clause 4.4.2).
pub(super) const SMALLEST: usize = 60;
const FCS: u64 = 4;
/// Largest frame of each size bin but the last, with FCS.
const BIN_ENDS: [u64; 6] = [64, 127, 255, 511, 1023, 1522];
/// Bits of the statistics that a read has cleared: counters 0 to 38.
const ALL_CLEARED: u64 = (1 << 39) - 1;
/// Payload of answers of old firmware and old Linux: 172 bytes instead of the standard's 204.
const LEGACY_PORT_LENGTH: usize = 172;

/// Frames in one direction at the network port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PortCounters {
    pub(super) bytes: u64,
    /// Unicast, multicast and broadcast frames.
    kinds: [u64; 3],
    bins: [u64; 7],
}

impl PortCounters {
    pub(super) fn count(&mut self, frame: &[u8]) {
        // Counted as on the wire: a MAC pads short frames and adds the check sequence.
        let size = frame.len().max(SMALLEST) as u64 + FCS;
        self.bytes += size;
        let kind = match frame.get(..6) {
            Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => 2,
            Some(group) if group[0] & 1 != 0 => 1,
            _ => 0,
        };
        self.kinds[kind] += 1;
        self.bins[BIN_ENDS.iter().take_while(|end| size > **end).count()] += 1;
    }
}

/// Get Controller Packet Statistics: the port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PortStatistics {
    pub(super) received: PortCounters,
    pub(super) sent: PortCounters,
    /// True if a reading has cleared the counters since the last count.
    cleared: bool,
}

impl PortStatistics {
    /// Returns the payload after response and reason.
    pub(super) fn payload(&self) -> Vec<u8> {
        let (received, sent) = (&self.received, &self.sent);
        let mut payload = (if self.cleared { ALL_CLEARED } else { 0 }).to_be_bytes().to_vec();
        // These fields have 64 bits; all others wrap at 32.
        let wide = [&[received.bytes, sent.bytes][..], &received.kinds, &sent.kinds].concat();
        payload.extend(wide.into_iter().flat_map(u64::to_be_bytes));
        // Errors, pauses, collisions and control frames: counters 8 to 21.
        let narrow = [&[0; 14][..], &received.bins, &sent.bins].concat();
        payload.extend(narrow.into_iter().flat_map(|count| (count as u32).to_be_bytes()));
        payload.extend(received.bytes.to_be_bytes());
        // Fragments and jabber with errors: counters 37 and 38.
        payload.extend([0; 8]);
        payload
    }

    /// Shortens a whole payload, with response and reason, to that of old firmware.
    pub(super) fn shorten(payload: &mut Vec<u8>) {
        payload.truncate(LEGACY_PORT_LENGTH);
    }

    /// Clears the counters, as some controllers do at each reading.
    pub(super) fn clear(&mut self) {
        *self = Self { cleared: true, ..Self::default() };
    }
}

/// Get NC-SI Statistics: the control packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ControlStatistics {
    pub(super) commands: u64,
    pub(super) dropped: u64,
    pub(super) unknown: u64,
    pub(super) checksum_errors: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) notifications: u64,
}

impl ControlStatistics {
    /// Returns the payload after response and reason.
    pub(super) fn payload(&self) -> Vec<u8> {
        let counts = [
            self.commands,
            self.dropped,
            self.unknown,
            self.checksum_errors,
            self.received,
            self.sent,
            self.notifications,
        ];
        counts.into_iter().flat_map(|count| (count as u32).to_be_bytes()).collect()
    }
}

/// Frames in one direction between the network and the management controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WayStatistics {
    pub(super) frames: u64,
    pub(super) dropped: u64,
    /// Dropped frames of a channel that was not enabled, in this direction.
    pub(super) state_errors: u64,
    pub(super) oversize: u64,
}

/// Get NC-SI Pass-through Statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PassThroughStatistics {
    /// From the management controller.
    pub(super) sent: WayStatistics,
    /// From the network.
    pub(super) received: WayStatistics,
}

impl PassThroughStatistics {
    /// Returns the payload after response and reason. The first counter has 64 bits, or 32 if
    /// `legacy`.
    pub(super) fn payload(&self, legacy: bool) -> Vec<u8> {
        // Standard and old firmware differ in the width of this field only.
        let first = self.sent.frames;
        let mut payload = if legacy {
            (first as u32).to_be_bytes().to_vec()
        } else {
            first.to_be_bytes().to_vec()
        };
        let of_way = |way: &WayStatistics| [way.dropped, way.state_errors, 0, way.oversize];
        let narrow =
            [&of_way(&self.sent)[..], &[self.received.frames], &of_way(&self.received)].concat();
        payload.extend(narrow.into_iter().flat_map(|count| (count as u32).to_be_bytes()));
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of the reference are from the NC-SI header; the payload after response and reason
    /// begins at 20.
    const BEGIN: usize = 20;

    fn word(payload: &[u8], at: usize) -> u32 {
        u32::from_be_bytes(payload[at - BEGIN..at - BEGIN + 4].try_into().expect("four bytes"))
    }

    /// 48 and 44 bytes, received at 44 and dropped at 48.
    #[test]
    fn pass_through_counters_stand_where_the_standard_has_them() {
        let statistics = PassThroughStatistics {
            sent: WayStatistics {
                frames: (1 << 32) + 9,
                dropped: 202,
                state_errors: 203,
                oversize: 205,
            },
            received: WayStatistics {
                frames: 50_000,
                dropped: 4321,
                state_errors: 208,
                oversize: 210,
            },
        };
        let payload = statistics.payload(false);
        assert_eq!(payload.len() + 4, 48);
        let words = [20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60].map(|at| word(&payload, at));
        assert_eq!(words, [1, 9, 202, 203, 0, 205, 50_000, 4321, 208, 0, 210]);
        let legacy = statistics.payload(true);
        assert_eq!((legacy.len() + 4, &legacy[4..]), (44, &payload[8..]));
        assert_eq!(legacy[..4], [0, 0, 0, 9], "32 bits wrap");
    }

    #[test]
    fn port_counters_stand_where_the_standard_has_them() {
        let mut statistics = PortStatistics::default();
        for (destination, length) in [([2; 6], 1514), ([0xff; 6], 42), ([1; 6], 100)] {
            let mut frame = destination.to_vec();
            frame.resize(length, 0);
            statistics.received.count(&frame);
        }
        statistics.sent.count(&[2; 1514]);
        let payload = statistics.payload();
        assert_eq!(payload.len() + 4, 204);
        // The low words of bytes received and sent, and of frames to one, to a group and to all.
        assert_eq!([32, 40, 48, 56, 64].map(|at| word(&payload, at)), [1686, 1518, 1, 1, 1]);
        assert_eq!(
            [148, 152, 168, 196].map(|at| word(&payload, at)),
            [1, 1, 1, 1],
            "64, to 127, to 1522; sent to 1522"
        );
        assert_eq!(word(&payload, 208), 1686, "valid bytes, 64 bits at 204");
    }

    #[test]
    fn cleared_counters_say_so() {
        let mut statistics = PortStatistics::default();
        statistics.received.count(&[2; 1514]);
        statistics.clear();
        let payload = statistics.payload();
        assert_eq!(payload[..8], [0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff]);
        assert!(payload[8..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn control_counters_take_32_bytes_with_response_and_reason() {
        let statistics =
            ControlStatistics { commands: 101, notifications: 107, ..ControlStatistics::default() };
        let payload = statistics.payload();
        assert_eq!((payload.len() + 4, word(&payload, 20), word(&payload, 44)), (32, 101, 107));
    }
}
