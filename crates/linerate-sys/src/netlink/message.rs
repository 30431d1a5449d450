//! Messages: a header and a payload, and the end of an answer (netlink(7), `struct nlmsghdr`,
//! `struct nlmsgerr`). No I/O.

use super::attribute::{align, attributes, half, text, word};
use crate::error::Refusal;

const ERROR: u16 = 2;
const DONE: u16 = 3;
pub(super) const FLAG_REQUEST: u16 = 0x1;
pub(super) const FLAG_ACK: u16 = 0x4;
pub(super) const FLAG_REPLACE: u16 = 0x100;
pub(super) const FLAG_DUMP: u16 = 0x300;
/// On an error: it does not repeat the refused request (`NLM_F_CAPPED`).
const FLAG_CAPPED: u16 = 0x100;
/// On an error or an end: attributes follow (`NLM_F_ACK_TLVS`).
const FLAG_HAS_ATTRIBUTES: u16 = 0x200;
/// Attribute with the kernel's explanation (`NLMSGERR_ATTR_MSG`).
const WORDS: u16 = 1;

/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// Size of the code at the start of an error or an end.
const CODE: usize = 4;

/// Part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// One item of the answer.
    Payload(&'a [u8]),
    /// The successful end of the answer.
    End,
    /// The kernel refused.
    Refused(Refusal),
}

/// Writes a request whose payload consists of `pieces`.
pub(super) fn write(request: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, pieces: &[&[u8]]) {
    let length = HEADER + pieces.iter().map(|piece| piece.len()).sum::<usize>();
    request.clear();
    request.extend((length as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.extend(sequence.to_ne_bytes());
    // The sender's port, which the kernel fills in.
    request.extend([0; 4]);
    pieces.iter().for_each(|piece| request.extend(*piece));
}

/// Returns the parts of `datagram` that answer request `sequence`, and skips late answers to an
/// earlier request. Stops at the first malformed message.
pub(super) fn parts(mut datagram: &[u8], sequence: u32) -> impl Iterator<Item = Part<'_>> {
    std::iter::from_fn(move || {
        loop {
            let length = word(datagram, 0)? as usize;
            let message = datagram.get(..length).filter(|message| message.len() >= HEADER)?;
            datagram = datagram.get(align(length)..).unwrap_or(&[]);
            if word(message, 8)? == sequence {
                return part(message);
            }
        }
    })
}

fn part(message: &[u8]) -> Option<Part<'_>> {
    let (kind, flags, payload) = (half(message, 4)?, half(message, 6)?, &message[HEADER..]);
    if ![ERROR, DONE].contains(&kind) {
        return Some(Part::Payload(payload));
    }
    // A negative errno. A dump that fails reports the failure in its end, not in an error.
    let code = word(payload, 0).unwrap_or(0).cast_signed();
    if code >= 0 {
        return Some(Part::End);
    }
    let shown = match (kind, flags & FLAG_HAS_ATTRIBUTES != 0) {
        (_, false) => None,
        (DONE, true) => payload.get(CODE..),
        (_, true) => behind_the_request(payload, flags),
    };
    let words = attributes(shown.unwrap_or_default())
        .find(|(kind, _)| *kind == WORDS)
        .map(|(_, words)| text(words));
    Some(Part::Refused(Refusal { code: code.wrapping_neg(), words: words.map(str::to_owned) }))
}

/// Returns the attributes of an error, which follow the refused request, or only its header if the
/// rest is omitted.
fn behind_the_request(payload: &[u8], flags: u16) -> Option<&[u8]> {
    let repeated =
        if flags & FLAG_CAPPED != 0 { HEADER } else { align(word(payload, CODE)? as usize) };
    payload.get(CODE.checked_add(repeated)?..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::push;

    fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        write(&mut message, kind, flags, sequence, &[payload]);
        message.resize(align(message.len()), 0);
        message
    }

    fn refused(code: i32, words: Option<&str>) -> Part<'static> {
        Part::Refused(Refusal { code, words: words.map(str::to_owned) })
    }

    /// Returns an error of `code` that repeats a request of `repeated` bytes and contains `words`.
    fn error(code: i32, flags: u16, repeated: usize, words: &[u8]) -> Vec<u8> {
        let mut payload = code.to_ne_bytes().to_vec();
        let request = message(0x14, FLAG_REQUEST, 7, &vec![0xee; repeated - HEADER]);
        payload.extend(if flags & FLAG_CAPPED != 0 { &request[..HEADER] } else { &request });
        if flags & FLAG_HAS_ATTRIBUTES != 0 {
            push(&mut payload, 2, &[9, 9, 9, 9]);
            push(&mut payload, WORDS, words);
        }
        message(ERROR, flags, 7, &payload)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_request_is_written_as_the_kernel_reads_it() {
        let mut request = vec![0xff; 3];
        write(&mut request, 0x10, FLAG_REQUEST | FLAG_DUMP, 0x0102_0304, &[&[3, 2, 0, 0], &[0xaa]]);
        let expected = [
            21, 0, 0, 0, 0x10, 0, 0x01, 0x03, 4, 3, 2, 1, 0, 0, 0, 0, /* payload */ 3, 2, 0,
            0, 0xaa,
        ];
        assert_eq!(request, expected);
    }

    #[test]
    fn answers_to_other_requests_are_passed_over() {
        let datagram =
            [message(0x14, 2, 6, &[1]), message(0x14, 2, 7, &[2]), message(DONE, 2, 7, &[0; 4])]
                .concat();
        assert_eq!(parts(&datagram, 7).collect::<Vec<_>>(), [Part::Payload(&[2]), Part::End]);
        assert_eq!(parts(&datagram, 8).count(), 0);
    }

    #[test]
    fn the_kernels_explanation_of_a_refusal_is_found_in_both_places() {
        let first = |datagram: &[u8]| {
            parts(datagram, 7).map(|part| format!("{part:?}")).next().unwrap_or_default()
        };
        let shown = |part: Part<'_>| format!("{part:?}");
        assert_eq!(first(&error(-19, 0, 28, b"")), shown(refused(19, None)));
        assert_eq!(
            first(&error(-19, FLAG_HAS_ATTRIBUTES, 29, b"no device\0")),
            shown(refused(19, Some("no device")))
        );
        assert_eq!(
            first(&error(-22, FLAG_HAS_ATTRIBUTES | FLAG_CAPPED, 40, b"bad\0")),
            shown(refused(22, Some("bad")))
        );
        assert_eq!(first(&error(0, 0, 28, b"")), shown(Part::End), "an acknowledgement");
    }

    #[test]
    fn a_dump_that_fails_says_so_at_its_end() {
        assert_eq!(
            parts(&message(DONE, 2, 7, &(-19_i32).to_ne_bytes()), 7).next(),
            Some(refused(19, None))
        );
        let mut payload = (-19_i32).to_ne_bytes().to_vec();
        push(&mut payload, WORDS, b"gone\0");
        assert_eq!(
            parts(&message(DONE, 2 | FLAG_HAS_ATTRIBUTES, 7, &payload), 7).next(),
            Some(refused(19, Some("gone")))
        );
    }

    #[test]
    fn truncated_datagrams_end_the_walk_without_panic() {
        let whole =
            [error(-19, FLAG_HAS_ATTRIBUTES, 29, b"no device\0"), message(DONE, 2, 7, &[0; 4])]
                .concat();
        for end in 0..whole.len() {
            assert!(parts(&whole[..end], 7).count() <= 2);
        }
        // The refused request claims to be longer than the datagram.
        let mut lying = error(-19, FLAG_HAS_ATTRIBUTES, 28, b"no\0");
        lying[HEADER + CODE..HEADER + 2 * CODE].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(parts(&lying, 7).next(), Some(refused(19, None)));
        assert_eq!(parts(&[0; 64], 0).count(), 0, "a length of zero must not loop for ever");
    }
}
