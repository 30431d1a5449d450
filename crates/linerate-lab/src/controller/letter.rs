//! Control packets as the controller reads and writes them: Ethernet frame, NC-SI header, payload,
//! checksum (DSP0222).
//!
//! Numbers are big-endian; offsets count from the first byte of the Ethernet frame. The codec is
//! separate from that of the client on purpose: a test of a client against its own codec would
//! prove nothing. Not seen: VLAN tags (control packets have none) and packets over MCTP.

use crate::description::Checksum;

/// EtherType of NC-SI control packets.
const ETHERTYPE: [u8; 2] = [0x88, 0xf8];
/// Address of control packets, both source and destination: broadcast.
const BROADCAST: [u8; 6] = [0xff; 6];
const ETHERTYPE_AT: usize = 12;
const HEADER_AT: usize = 14;
const HEADER_LENGTH: usize = 16;
const PAYLOAD_AT: usize = HEADER_AT + HEADER_LENGTH;
/// Smallest Ethernet frame without FCS (IEEE 802.3 clause 4.4.2).
const SMALLEST: usize = 60;
const REVISION: u8 = 1;
/// Bit of a response's type.
const RESPONSE: u8 = 0x80;
/// Type of an asynchronous event notification (AEN).
const NOTIFICATION: u8 = 0xff;
/// Channel number of the package itself.
pub(super) const PACKAGE_ITSELF: u8 = 0x1f;
const CHANNEL_BITS: u32 = 5;
const LENGTH_MASK: u16 = 0x0fff;
const CHECKSUM_LENGTH: usize = 4;

/// Command as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Command<'a> {
    pub(super) management: u8,
    pub(super) instance: u8,
    pub(super) kind: u8,
    pub(super) package: u8,
    pub(super) channel: u8,
    pub(super) payload: &'a [u8],
}

/// Reason why a control packet is not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Truncated, of another revision, or not a command at all.
    Malformed,
    /// Its checksum is wrong.
    Checksum,
}

/// Returns whether `frame` is a control packet.
pub(super) fn is_control(frame: &[u8]) -> bool {
    frame.get(ETHERTYPE_AT..HEADER_AT) == Some(&ETHERTYPE)
}

/// Returns the two's complement of the sum of 16-bit words.
fn checksum(bytes: &[u8]) -> u32 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    words.fold(0_u32, u32::wrapping_add).wrapping_neg()
}

/// Parses a control packet as a command.
pub(super) fn read(frame: &[u8]) -> Result<Command<'_>, Unreadable> {
    let header = frame.get(HEADER_AT..PAYLOAD_AT).ok_or(Unreadable::Malformed)?;
    let (kind, instance) = (header[4], header[3]);
    // Instance 0 is reserved for notifications, so a command never has it.
    if header[1] != REVISION || kind & RESPONSE != 0 || instance == 0 {
        return Err(Unreadable::Malformed);
    }
    let length = usize::from(u16::from_be_bytes([header[6], header[7]]) & LENGTH_MASK);
    let payload = frame.get(PAYLOAD_AT..PAYLOAD_AT + length).ok_or(Unreadable::Malformed)?;
    // A frame that ends within the padding is still summed as far as it goes.
    let covered =
        &frame[HEADER_AT..frame.len().min(PAYLOAD_AT + length.next_multiple_of(CHECKSUM_LENGTH))];
    let stated = frame.get(HEADER_AT + covered.len()..HEADER_AT + covered.len() + CHECKSUM_LENGTH);
    // A checksum that is cut off counts as none, like zero.
    let stated =
        stated.map_or(0, |bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    if stated != 0 && stated != checksum(covered) {
        return Err(Unreadable::Checksum);
    }
    let (package, channel) = (header[5] >> CHANNEL_BITS, header[5] & PACKAGE_ITSELF);
    Ok(Command { management: header[0], instance, kind, package, channel, payload })
}

/// Returns the answer to `command`. `payload` begins with response and reason code.
pub(super) fn answer(command: &Command<'_>, payload: &[u8], sum: Checksum) -> Vec<u8> {
    let address = command.package << CHANNEL_BITS | command.channel;
    write(
        [command.management, REVISION, 0, command.instance, command.kind | RESPONSE, address],
        payload,
        sum,
    )
}

/// Returns a notification of `kind` from a channel. `content` follows the kind.
pub(super) fn notification(management: u8, address: (u8, u8), kind: u8, content: &[u8]) -> Vec<u8> {
    let payload = [&[0, 0, 0, kind], content].concat();
    let address = address.0 << CHANNEL_BITS | address.1;
    write([management, REVISION, 0, 0, NOTIFICATION, address], &payload, Checksum::Right)
}

fn write(begin: [u8; 6], payload: &[u8], sum: Checksum) -> Vec<u8> {
    let mut frame = [&BROADCAST[..], &BROADCAST, &ETHERTYPE, &begin].concat();
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.resize(PAYLOAD_AT, 0);
    frame.extend_from_slice(payload);
    frame.resize(PAYLOAD_AT + payload.len().next_multiple_of(CHECKSUM_LENGTH), 0);
    let right = checksum(&frame[HEADER_AT..]);
    let stated = match sum {
        Checksum::Right => right,
        // The complement differs in every bit, and is zero only for a sum that no header has.
        Checksum::Wrong => !right,
        Checksum::None => 0,
    };
    frame.extend(stated.to_be_bytes());
    frame.resize(frame.len().max(SMALLEST), 0);
    frame
}

/// Returns a command's frame, for tests.
#[cfg(test)]
pub(super) fn command(
    instance: u8,
    kind: u8,
    (package, channel): (u8, u8),
    payload: &[u8],
) -> Vec<u8> {
    write(
        [0, REVISION, 0, instance, kind, package << CHANNEL_BITS | channel],
        payload,
        Checksum::Right,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "ffffffffffffffffffffffff88f8";

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal"))
            .collect()
    }

    /// Get Capabilities, and a captured Clear Initial State with IID 0xEE.
    #[test]
    fn captured_commands_are_read_and_written() {
        let mut frame = hex(&format!("{HEADER}00010018160000000000000000000000ffffe9e7"));
        assert_eq!(frame.len(), 34);
        let read_command = read(&frame).expect("a command");
        assert_eq!(
            (read_command.kind, read_command.instance, read_command.payload),
            (0x16, 0x18, &[][..])
        );
        frame.resize(SMALLEST, 0);
        assert_eq!(command(0x18, 0x16, (0, 0), &[]), frame);
        let clear = command(0xee, 0, (0, 0), &[]);
        assert_eq!(clear[30..34], [0xff, 0xff, 0xff, 0x11]);
    }

    /// The answer of a channel in Initial State to Get Capabilities.
    #[test]
    fn an_answer_has_the_published_bytes() {
        let frame = command(0x18, 0x16, (0, 0), &[]);
        let answered = answer(&read(&frame).expect("a command"), &[0, 1, 0, 1], Checksum::Right);
        let expected = hex(&format!("{HEADER}0001001896000004000000000000000000010001ffff69e1"));
        assert_eq!((&answered[..expected.len()], answered.len()), (&expected[..], SMALLEST));
    }

    /// Link down, notified by channel 0: payload 12.
    #[test]
    fn a_notification_has_the_published_bytes() {
        let frame = notification(0, (0, 0), 0, &[0, 0, 0, 0x6e, 0, 0, 0, 0]);
        let expected = hex(&format!(
            "{HEADER}00010000ff00000c0000000000000000000000000000006e00000000ffff0085"
        ));
        assert_eq!(frame[..expected.len()], expected[..]);
    }

    #[test]
    fn a_wrong_checksum_is_an_error_and_none_is_accepted() {
        let mut frame = command(1, 0x16, (0, 0), &[]);
        frame[33] ^= 1;
        assert_eq!(read(&frame), Err(Unreadable::Checksum));
        frame[30..34].fill(0);
        assert!(read(&frame).is_ok(), "zero means that it is not used");
        frame[17] = 0;
        assert_eq!(read(&frame), Err(Unreadable::Malformed), "instance 0 is for notifications");
    }

    #[test]
    fn a_truncated_packet_is_malformed() {
        let frame = command(1, 0x0e, (0, 0), &[0; 8]);
        for length in 0..38 {
            assert_eq!(read(&frame[..length]), Err(Unreadable::Malformed), "{length} bytes");
        }
        assert!(read(&frame[..38]).is_ok(), "a payload without its checksum is accepted");
    }
}
