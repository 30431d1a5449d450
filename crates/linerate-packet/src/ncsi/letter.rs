//! The envelope of a control packet: Ethernet header, NC-SI header, payload, padding, checksum.

use crate::bytes::{array, u16_at, u32_at};

/// EtherType of control packets.
const ETHERTYPE: [u8; 2] = [0x88, 0xf8];
const ETHERTYPE_AT: usize = 12;
const HEADER_AT: usize = 14;
const HEADER_BYTES: usize = 16;
const PAYLOAD_AT: usize = HEADER_AT + HEADER_BYTES;
const CHECKSUM_BYTES: usize = 4;
/// Smallest Ethernet frame without FCS, IEEE 802.3 clause 4.4.2.
const LEAST_FRAME: usize = 60;
const REVISION: u8 = 1;
/// Set in the type of a response.
const RESPONSE: u8 = 0x80;
const NOTIFICATION: u8 = 0xff;
/// The length field has twelve bits; those above are reserved.
const LENGTH_MASK: u16 = 0x0fff;
/// Internal channel that means the package as a whole.
pub const PACKAGE_ITSELF: u8 = 0x1f;
const CHANNEL_BITS: u32 = 5;

/// Result of a checksum test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// It fits.
    #[default]
    Right,
    /// It is zero or cut off: the sender does not use it, and everybody must accept that.
    Absent,
    /// It is there and does not fit.
    Wrong,
}

/// Why a frame is no control packet that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Another EtherType.
    NotNcsi,
    /// It ends before its header does.
    NoHeader,
    /// A header revision other than 1.
    Revision(u8),
    /// Its length field says more than has come: bytes said, bytes there.
    Truncated(usize, usize),
}

/// A control packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Letter<'a> {
    /// Management controller, 0 unless there are several; a controller echoes it.
    pub management: u8,
    /// Instance, 1 to 255; the answer has that of its command, a notification 0.
    pub instance: u8,
    /// Type as on the wire: a command, a command with 0x80 for its answer, or 0xFF for a
    /// notification.
    pub kind: u8,
    /// Package, 0 to 7.
    pub package: u8,
    /// Channel in the package, or [`PACKAGE_ITSELF`].
    pub channel: u8,
    /// Payload without padding; of a response with its code and reason.
    pub payload: &'a [u8],
    /// Result of the checksum test.
    pub checksum: Checksum,
}

/// The sum of 16-bit words without carry folding, negated.
fn checksum(bytes: &[u8]) -> u32 {
    let words = bytes
        // The sum is over 16-bit words but kept in 32 bits and never folded, unlike the Internet
        // checksum (DSP0222, control packet checksum).
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    words.fold(0_u32, u32::wrapping_add).wrapping_neg()
}

impl<'a> Letter<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    /// If it is no control packet, or ends too early. A wrong checksum is no error here:
    /// the letter has its result.
    pub fn parse(frame: &'a [u8]) -> Result<Self, Malformed> {
        if array(frame, ETHERTYPE_AT) != Some(ETHERTYPE) {
            return Err(Malformed::NotNcsi);
        }
        Self::parse_packet(frame.get(HEADER_AT..).unwrap_or_default())
    }

    /// Reads a packet that begins with its NC-SI header, as the kernel hands it over.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_packet(packet: &'a [u8]) -> Result<Self, Malformed> {
        let header: [u8; HEADER_BYTES] = array(packet, 0).ok_or(Malformed::NoHeader)?;
        if header[1] != REVISION {
            return Err(Malformed::Revision(header[1]));
        }
        // The length excludes the header, the padding and the checksum.
        let length = usize::from(u16_at(&header, 6).unwrap_or(0) & LENGTH_MASK);
        let there = packet.len() - HEADER_BYTES;
        let payload = packet
            .get(HEADER_BYTES..HEADER_BYTES + length)
            .ok_or(Malformed::Truncated(length, there))?;
        // The checksum follows the padding, so that it is aligned to four bytes.
        let padded = length.next_multiple_of(CHECKSUM_BYTES);
        // A frame without room for a checksum is as valid as one whose checksum is zero.
        let checksum = match u32_at(packet, HEADER_BYTES + padded) {
            None | Some(0) => Checksum::Absent,
            Some(found) if found == checksum(&packet[..HEADER_BYTES + length]) => Checksum::Right,
            Some(_) => Checksum::Wrong,
        };
        Ok(Self {
            management: header[0],
            instance: header[3],
            kind: header[4],
            package: header[5] >> CHANNEL_BITS,
            channel: header[5] & PACKAGE_ITSELF,
            payload,
            checksum,
        })
    }

    /// Returns true if it answers a command.
    #[must_use]
    pub const fn is_response(&self) -> bool {
        // Notifications set the response bit too (0xFF), so they must be excluded.
        self.kind & RESPONSE != 0 && self.kind != NOTIFICATION
    }

    /// Returns true if it is unsolicited.
    #[must_use]
    pub const fn is_notification(&self) -> bool {
        self.kind == NOTIFICATION
    }

    /// The type of the command it is or answers.
    #[must_use]
    pub const fn command(&self) -> u8 {
        self.kind & !RESPONSE
    }

    /// Header and payload alone, as the kernel takes a command: it pads, sums and numbers it
    /// itself.
    #[must_use]
    pub fn emit_unsealed(&self) -> Vec<u8> {
        let mut packet = vec![0; HEADER_BYTES];
        packet[0] = self.management;
        packet[1] = REVISION;
        packet[3] = self.instance;
        packet[4] = self.kind;
        packet[5] = self.package << CHANNEL_BITS | self.channel & PACKAGE_ITSELF;
        let length = (self.payload.len() as u16) & LENGTH_MASK;
        packet[6..8].copy_from_slice(&length.to_be_bytes());
        packet.extend(&self.payload[..usize::from(length)]);
        packet
    }

    /// The packet from its NC-SI header to its checksum, which is zero if [`Self::checksum`] is
    /// absent and one off if it is wrong.
    #[must_use]
    pub fn emit_packet(&self) -> Vec<u8> {
        let mut packet = self.emit_unsealed();
        let sum = match self.checksum {
            Checksum::Right => checksum(&packet),
            Checksum::Absent => 0,
            // Zero would mean "absent", so a wrong sum that wraps to zero becomes one.
            Checksum::Wrong => checksum(&packet).wrapping_add(1).max(1),
        };
        packet.resize(packet.len().next_multiple_of(CHECKSUM_BYTES), 0);
        packet.extend(sum.to_be_bytes());
        packet
    }

    /// The whole frame: from everybody to everybody, never shorter than Ethernet allows.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        // DSP0222 sets both addresses to broadcast.
        let mut frame = vec![0xff; ETHERTYPE_AT];
        frame.extend(ETHERTYPE);
        frame.extend(self.emit_packet());
        // Short frames are padded after the checksum, because the padding before it has a meaning.
        frame.resize(frame.len().max(LEAST_FRAME), 0);
        debug_assert!(frame.len() >= PAYLOAD_AT);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_a_captured_command() {
        // NC-SI reference 1.1: Clear Initial State, package 0, channel 0, instance 0xEE.
        let letter = Letter { instance: 0xee, kind: 0, ..Letter::default() };
        assert_eq!(letter.emit_packet()[16..], [0xff, 0xff, 0xff, 0x11]);
    }

    #[test]
    fn what_is_behind_the_checksum_does_not_matter_and_what_is_missing_does() {
        let letter = Letter {
            instance: 1,
            kind: 0x95,
            package: 2,
            channel: PACKAGE_ITSELF,
            payload: &[0, 0, 0, 0, 7],
            ..Letter::default()
        };
        let mut frame = letter.emit();
        frame.extend([1, 2, 3, 4]);
        assert_eq!(Letter::parse(&frame), Ok(letter));
        assert_eq!(Letter::parse(&frame[..34]), Err(Malformed::Truncated(5, 4)));
        assert_eq!(Letter::parse(&frame[..35]).map(|letter| letter.checksum), Ok(Checksum::Absent));
        frame[40] ^= 1;
        assert_eq!(Letter::parse(&frame).map(|letter| letter.checksum), Ok(Checksum::Wrong));
        frame[15] = 2;
        assert_eq!(Letter::parse(&frame), Err(Malformed::Revision(2)));
        assert_eq!(Letter::parse(&frame[..20]), Err(Malformed::NoHeader));
        assert_eq!(Letter::parse(&[0; 60]), Err(Malformed::NotNcsi));
    }
}
