//! The header of linerate's datagrams, and the tag that proves they belong to the session.
//!
//! ```text
//! offset  0       8         16     24
//!         | tag   | number  | time |  filling ...
//! ```
//! All big-endian. `tag` is a keyed hash of session, flow, direction and purpose: it names the flow and cannot be made
//! without the secret (HMAC-SHA256, RFC 2104, cut to 64 bits as RFC 2104 clause 5 allows). `number` is the 64-bit sequence
//! number. `time` is when the datagram was to depart, on the sender's monotonic clock in nanoseconds: it means something
//! only to the sender and to a receiver on the same host.

use hmac::{Hmac, Mac};
use linerate_model::Nanos;
use sha2::Sha256;

use crate::Secret;

/// Bytes every datagram of a stream begins with.
pub(crate) const HEADER_BYTES: usize = 24;
/// Tag and number: what tells whose a datagram is and which.
const TAG_BYTES: usize = 8;
const NUMBER_END: usize = 16;

/// What a datagram is for; each purpose has its own tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Purpose {
    /// Shows the passive end the port the active end sends from.
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
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("HMAC takes keys of any length");
        mac.update(b"linerate datagram");
        mac.update(&flow.to_be_bytes());
        mac.update(&[purpose as u8]);
        let digest = mac.finalize().into_bytes();
        Self(u64::from_be_bytes(digest[..TAG_BYTES].try_into().expect("a SHA-256 digest is longer")))
    }
}

/// Writes the header into the first bytes of `datagram`.
#[inline]
pub(crate) fn write_header(datagram: &mut [u8], tag: Tag, number: u64, time: Nanos) {
    datagram[..TAG_BYTES].copy_from_slice(&tag.0.to_be_bytes());
    datagram[TAG_BYTES..NUMBER_END].copy_from_slice(&number.to_be_bytes());
    datagram[NUMBER_END..HEADER_BYTES].copy_from_slice(&time.0.to_be_bytes());
}

/// The number of a datagram that bears `tag`; `None` if it is too short or not ours.
#[inline]
pub(crate) fn number_of(datagram: &[u8], tag: Tag) -> Option<u64> {
    let (found, rest) = datagram.split_first_chunk::<TAG_BYTES>()?;
    let (number, _) = rest.split_first_chunk::<{ NUMBER_END - TAG_BYTES }>()?;
    (u64::from_be_bytes(*found) == tag.0).then(|| u64::from_be_bytes(*number))
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
    }

    #[test]
    fn what_is_short_or_not_ours_has_no_number() {
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
