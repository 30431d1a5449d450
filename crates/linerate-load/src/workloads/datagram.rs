//! The header of linerate's datagrams, and the tag that proves they belong to the session.
//!
//! ```text
//! offset  0       8         16     24
//!         | tag   | number  | time |  filling ...
//! ```
//! All big-endian. `tag` is a keyed hash of session, flow, direction and purpose: it names the flow
//! and cannot be made without the secret (HMAC-SHA256, RFC 2104, cut to 64 bits as RFC 2104 clause
//! 5 allows). `number` is the 64-bit sequence number. `time` is when the datagram departed, on the
//! sender's monotonic clock in nanoseconds: it says in which of the sender's intervals that was,
//! and changes of the transit time are the jitter.

use hmac::{Hmac, KeyInit as _, Mac};
use linerate_model::Nanos;
use sha2::Sha256;

use super::proof::word;
use crate::Secret;

/// Bytes every datagram of a stream begins with.
pub(crate) const HEADER_BYTES: usize = 24;
/// Tag and number, which identify a datagram.
const TAG_BYTES: usize = 8;
const NUMBER_END: usize = 16;

/// Purpose of a datagram; each has its own tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Purpose {
    /// Shows the passive end the source port of the active end.
    Pairing = 1,
    /// A stream from the active to the passive end.
    Forward = 2,
    /// A stream from the passive to the active end.
    Backward = 3,
    /// A request.
    Request = 4,
    /// A response.
    Response = 5,
}

/// Proof that a datagram belongs to one flow of the session, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(pub(crate) u64);

impl Tag {
    pub(crate) fn new(secret: Secret, flow: u32, purpose: Purpose) -> Self {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&secret.0).expect("HMAC takes keys of any length");
        // A prefix for each use keeps a tag of one kind from serving as one of another.
        mac.update(b"linerate datagram");
        mac.update(&flow.to_be_bytes());
        mac.update(&[purpose as u8]);
        let digest = mac.finalize().into_bytes();
        Self(u64::from_be_bytes(
            digest[..TAG_BYTES].try_into().expect("a SHA-256 digest is longer"),
        ))
    }
}

/// Datagram that shows the passive end the sender of a flow: the flow's tag, then the job's word.
pub(crate) type Pairing = [u8; HEADER_BYTES];

/// Returns the pairing datagram of a flow.
pub(crate) fn pairing(secret: Secret, flow: u32) -> Pairing {
    let mut datagram = [0; HEADER_BYTES];
    let tag = Tag::new(secret, flow, Purpose::Pairing);
    datagram[..TAG_BYTES].copy_from_slice(&tag.0.to_be_bytes());
    // At a port that several jobs share, 64 bits are too few to find the job by.
    datagram[TAG_BYTES..].copy_from_slice(&word(secret, b"pairing").0);
    datagram
}

/// Writes the header into the first bytes of `datagram`.
#[inline]
pub(crate) fn write_header(datagram: &mut [u8], tag: Tag, number: u64, time: Nanos) {
    datagram[..TAG_BYTES].copy_from_slice(&tag.0.to_be_bytes());
    datagram[TAG_BYTES..NUMBER_END].copy_from_slice(&number.to_be_bytes());
    datagram[NUMBER_END..HEADER_BYTES].copy_from_slice(&time.0.to_be_bytes());
}

/// Returns the number of a datagram with `tag`; `None` if it is too short or not ours.
#[inline]
pub(crate) fn number_of(datagram: &[u8], tag: Tag) -> Option<u64> {
    let (found, rest) = datagram.split_first_chunk::<TAG_BYTES>()?;
    let (number, _) = rest.split_first_chunk::<{ NUMBER_END - TAG_BYTES }>()?;
    (u64::from_be_bytes(*found) == tag.0).then(|| u64::from_be_bytes(*number))
}

/// Returns the departure of a datagram, by its sender's clock; `None` if it is too short.
#[inline]
pub(crate) fn time_of(datagram: &[u8]) -> Option<u64> {
    let time = datagram.get(NUMBER_END..HEADER_BYTES)?;
    Some(u64::from_be_bytes(time.try_into().ok()?))
}

/// Returns the bytes of a label of `size` that hold the number; the bytes before them hold the tag.
///
/// Requests and responses may be as short as a byte. A label fills the first 16 bytes of a datagram
/// or all of a shorter one, and holds the low bytes of tag and number in equal parts, the odd one
/// for the number.
const fn label_number_bytes(size: usize) -> usize {
    // At least one bit of the number must fit, so the odd byte goes to it.
    let label = if size < NUMBER_END { size } else { NUMBER_END };
    label.div_ceil(2)
}

/// Returns how many bits of the number a datagram of `size` carries.
pub(crate) const fn label_bits(size: usize) -> u32 {
    label_number_bytes(size) as u32 * u8::BITS
}

/// Writes the label into the first bytes of `datagram`.
#[inline]
pub(crate) fn write_label(datagram: &mut [u8], tag: Tag, number: u64) {
    let number_bytes = label_number_bytes(datagram.len());
    let tag_bytes = datagram.len().min(NUMBER_END) - number_bytes;
    // The low bytes: they differ from one datagram to the next.
    datagram[..tag_bytes].copy_from_slice(&tag.0.to_be_bytes()[TAG_BYTES - tag_bytes..]);
    datagram[tag_bytes..tag_bytes + number_bytes]
        .copy_from_slice(&number.to_be_bytes()[TAG_BYTES - number_bytes..]);
}

/// Returns the low bits of the number in the label of a datagram with `tag`; `None` if it is empty
/// or not ours.
#[inline]
pub(crate) fn read_label(datagram: &[u8], tag: Tag) -> Option<u64> {
    let number_bytes = label_number_bytes(datagram.len());
    let tag_bytes = datagram.len().min(NUMBER_END) - number_bytes;
    // The tag is compared first: it costs less than reading the number of a stranger.
    if datagram.is_empty() || datagram[..tag_bytes] != tag.0.to_be_bytes()[TAG_BYTES - tag_bytes..]
    {
        return None;
    }
    let mut number = [0; TAG_BYTES];
    number[TAG_BYTES - number_bytes..]
        .copy_from_slice(&datagram[tag_bytes..tag_bytes + number_bytes]);
    Some(u64::from_be_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_these_bytes() {
        let mut bytes = [0xaa; 26];
        write_header(&mut bytes, Tag(0x0102_0304_0506_0708), 0x10, Nanos(0x20));
        assert_eq!(bytes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bytes[8..16], [0, 0, 0, 0, 0, 0, 0, 0x10]);
        assert_eq!(bytes[16..], [0, 0, 0, 0, 0, 0, 0, 0x20, 0xaa, 0xaa]);
        assert_eq!(number_of(&bytes, Tag(0x0102_0304_0506_0708)), Some(0x10));
        assert_eq!((time_of(&bytes), time_of(&bytes[..23])), (Some(0x20), None));
    }

    #[test]
    fn a_pairing_datagram_has_its_flows_tag_and_a_word_of_its_job() {
        let secret = Secret([7; 16]);
        let (first, second) = (pairing(secret, 0), pairing(secret, 1));
        assert!(number_of(&first, Tag::new(secret, 0, Purpose::Pairing)).is_some());
        assert_ne!(first[..TAG_BYTES], second[..TAG_BYTES]);
        assert_eq!(first[TAG_BYTES..], second[TAG_BYTES..], "of one job");
        assert_ne!(first[TAG_BYTES..], pairing(Secret([8; 16]), 0)[TAG_BYTES..]);
    }

    #[test]
    fn a_label_fits_any_size_and_a_whole_one_is_a_header() {
        let tag = Tag(0x0102_0304_0506_0708);
        for (size, bytes) in [
            (1, [0x28].as_slice()),
            (2, &[0x08, 0x28]),
            (5, &[0x07, 0x08, 0x26, 0x27, 0x28]),
            (16, &[1, 2, 3, 4, 5, 6, 7, 8, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]),
        ] {
            let mut label = vec![0; size];
            write_label(&mut label, tag, 0x2122_2324_2526_2728);
            assert_eq!(label, bytes);
            let mask = u64::MAX >> (u64::BITS - label_bits(size));
            assert_eq!(read_label(&label, tag), Some(0x2122_2324_2526_2728 & mask));
        }
        let mut long = [0; 40];
        write_label(&mut long, tag, 77);
        assert_eq!((read_label(&long, tag), number_of(&long, tag)), (Some(77), Some(77)));
        assert_eq!((read_label(&long, Tag(1)), read_label(&[], tag)), (None, None));
    }

    #[test]
    fn a_datagram_that_is_short_or_not_ours_has_no_number() {
        let tag = Tag::new(Secret([7; 16]), 3, Purpose::Forward);
        let mut bytes = [0; HEADER_BYTES];
        write_header(&mut bytes, tag, 9, Nanos(0));
        assert_eq!(number_of(&bytes[..15], tag), None);
        assert_eq!(number_of(&[], tag), None);
        for other in [
            Tag::new(Secret([8; 16]), 3, Purpose::Forward),
            Tag::new(Secret([7; 16]), 4, Purpose::Forward),
            Tag::new(Secret([7; 16]), 3, Purpose::Backward),
        ] {
            assert_eq!(number_of(&bytes, other), None);
        }
    }
}
