//! The basic encoding rules (ITU-T X.690) as far as SNMP uses them (RFC 3417 8): tags of one octet,
//! definite lengths, no constructed strings.

use super::Oid;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;

/// Bits of a subidentifier's octet that carry its value, and the one that says that more follow
/// (X.690 8.19.2).
const SEVEN_BITS: u32 = 0x7f;
const MORE: u8 = 0x80;
/// First length octet of the long form (X.690 8.1.3.5).
const LONG: u8 = 0x80;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BerError {
    /// It ends before it should.
    #[error("cut off")]
    CutOff,
    /// Something else stands where `expected` should.
    #[error("tag {found:#04x} where {expected:#04x} should be")]
    Tag {
        /// The tag wanted.
        expected: u8,
        /// The tag found.
        found: u8,
    },
    /// A length or a number has more octets than any that could be meant.
    #[error("a number too large")]
    TooLarge,
    /// Bytes are left over.
    #[error("bytes left over")]
    LeftOver,
    /// It is no message of the version expected.
    #[error("another version")]
    Version,
}

/// Reads elements one after the other. `at` counts from the start of the whole message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], BerError> {
        let (taken, rest) = self.bytes.split_at_checked(n).ok_or(BerError::CutOff)?;
        self.bytes = rest;
        self.at += n;
        Ok(taken)
    }

    fn octet(&mut self) -> Result<u8, BerError> {
        self.take(1).map(|taken| taken[0])
    }

    /// The next element: its tag, where its content begins in the message, and that.
    pub(super) fn any(&mut self) -> Result<(u8, usize, &'a [u8]), BerError> {
        let tag = self.octet()?;
        let first = self.octet()?;
        let length = if first < LONG {
            usize::from(first)
        } else {
            let octets = self.take(usize::from(first & !LONG))?;
            // None is the indefinite form; no datagram is longer than four octets can say.
            if octets.is_empty() || octets.len() > size_of::<u32>() {
                return Err(BerError::TooLarge);
            }
            octets.iter().fold(0, |length, octet| length << u8::BITS | usize::from(*octet))
        };
        let at = self.at;
        Ok((tag, at, self.take(length)?))
    }

    /// The content of the next element, which must have `tag`, and where it begins in the message.
    pub(super) fn element(&mut self, expected: u8) -> Result<(usize, &'a [u8]), BerError> {
        match self.any()? {
            (tag, at, content) if tag == expected => Ok((at, content)),
            (found, ..) => Err(BerError::Tag { expected, found }),
        }
    }

    /// The elements inside the next one.
    pub(super) fn inside(&mut self, tag: u8) -> Result<Self, BerError> {
        let (at, bytes) = self.element(tag)?;
        Ok(Self { bytes, at })
    }

    /// The elements inside `content`, which begins at `at`.
    pub(super) fn within(content: &'a [u8], at: usize) -> Self {
        Self { bytes: content, at }
    }

    pub(super) fn octets(&mut self) -> Result<&'a [u8], BerError> {
        self.element(OCTET_STRING).map(|(_, content)| content)
    }

    pub(super) fn integer(&mut self) -> Result<i64, BerError> {
        signed(self.element(INTEGER)?.1)
    }

    /// An integer of 32 bits.
    pub(super) fn word(&mut self) -> Result<i32, BerError> {
        i32::try_from(self.integer()?).map_err(|_| BerError::TooLarge)
    }

    pub(super) fn end(self) -> Result<(), BerError> {
        if self.is_empty() { Ok(()) } else { Err(BerError::LeftOver) }
    }
}

/// Two's complement, most significant octet first.
pub(super) fn signed(content: &[u8]) -> Result<i64, BerError> {
    if content.len() > size_of::<i64>() {
        return Err(BerError::TooLarge);
    }
    // The first octet carries the sign; starting from -1 extends it to 64 bits.
    let start = match content.first() {
        None => return Err(BerError::CutOff),
        Some(first) if first & MORE != 0 => -1,
        Some(_) => 0,
    };
    Ok(content.iter().fold(start, |value, octet| value << u8::BITS | i64::from(*octet)))
}

/// A number that is never negative; agents are known to leave the leading zero octet away.
pub(super) fn unsigned(content: &[u8]) -> Result<u64, BerError> {
    let digits = match content {
        [] => return Err(BerError::CutOff),
        // A Counter64 above 2^63 has a leading zero octet, so nine octets can be valid.
        [0, rest @ ..] => rest,
        all => all,
    };
    if digits.len() > size_of::<u64>() {
        return Err(BerError::TooLarge);
    }
    Ok(digits.iter().fold(0, |value, octet| value << u8::BITS | u64::from(*octet)))
}

/// Subidentifiers, the first octet holding two of them (X.690 8.19.4).
pub(super) fn identifier(content: &[u8]) -> Result<Oid, BerError> {
    /// Second subidentifiers below each of the first two arcs.
    const PER_ARC: u32 = 40;
    let mut numbers = Vec::with_capacity(content.len() + 1);
    let mut number: u32 = 0;
    for octet in content {
        // The check comes before the shift: a bit that is shifted out would be lost unnoticed.
        if number > u32::MAX >> SEVEN_BITS.count_ones() {
            return Err(BerError::TooLarge);
        }
        number = number << SEVEN_BITS.count_ones() | u32::from(*octet) & SEVEN_BITS;
        if octet & MORE == 0 {
            if numbers.is_empty() {
                // The first two arcs share one number (X.690 8.19.4). Arc 2 has no upper limit for
                // the second, so the division is clamped.
                let arc = (number / PER_ARC).min(2);
                numbers.push(arc);
                number -= arc * PER_ARC;
            }
            numbers.push(number);
            number = 0;
        }
    }
    // An empty identifier, or one whose last octet announces another, is cut off.
    if content.last().is_none_or(|last| last & MORE != 0) {
        Err(BerError::CutOff)
    } else {
        Ok(Oid(numbers))
    }
}

/// An element.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    // The short form holds lengths up to 127.
    let length = content.len();
    if length < usize::from(LONG) {
        bytes.push(length as u8);
    } else {
        let octets = length.to_be_bytes();
        let used = &octets[octets.iter().take_while(|octet| **octet == 0).count()..];
        bytes.push(LONG | used.len() as u8);
        bytes.extend_from_slice(used);
    }
    bytes.extend_from_slice(content);
    bytes
}

/// An element made of others.
pub(super) fn made_of(tag: u8, elements: &[Vec<u8>]) -> Vec<u8> {
    element(tag, &elements.concat())
}

pub(super) fn integer(value: i64) -> Vec<u8> {
    let octets = value.to_be_bytes();
    // Octets that only repeat the sign are left away.
    let sign = if value < 0 { u8::MAX } else { 0 };
    let mut start = octets.iter().take_while(|octet| **octet == sign).count().min(octets.len() - 1);
    // A leading octet is dropped only if the next one has the same sign, as X.690 8.3.2 asks.
    if start > 0 && (octets[start] ^ sign) & MORE != 0 {
        start -= 1;
    }
    element(INTEGER, &octets[start..])
}

pub(super) fn octets(content: &[u8]) -> Vec<u8> {
    element(OCTET_STRING, content)
}

pub(super) fn object_identifier(oid: &Oid) -> Vec<u8> {
    const PER_ARC: u32 = 40;
    let mut content = Vec::with_capacity(oid.0.len() + 1);
    let (first, rest) = match &oid.0[..] {
        [first, second, rest @ ..] => (first.saturating_mul(PER_ARC).saturating_add(*second), rest),
        [first] => (first.saturating_mul(PER_ARC), &[][..]),
        [] => (0, &[][..]),
    };
    for number in [first].into_iter().chain(rest.iter().copied()) {
        let n_bits = SEVEN_BITS.count_ones();
        // Zero has no significant bits but needs one octet.
        let n_octets = (u32::BITS - number.leading_zeros()).div_ceil(n_bits).max(1);
        for place in (0..n_octets).rev() {
            let more = if place > 0 { MORE } else { 0 };
            content.push((number >> (place * n_bits) & SEVEN_BITS) as u8 | more);
        }
    }
    element(OBJECT_IDENTIFIER, &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        for (value, bytes) in [
            (0, &[0x02, 0x01, 0x00][..]),
            (127, &[0x02, 0x01, 0x7f]),
            (128, &[0x02, 0x02, 0x00, 0x80]),
            (-1, &[0x02, 0x01, 0xff]),
            (-129, &[0x02, 0x02, 0xff, 0x7f]),
            (65_507, &[0x02, 0x03, 0x00, 0xff, 0xe3]),
        ] {
            assert_eq!(integer(value), bytes, "{value}");
            assert_eq!(Reader::new(bytes).integer(), Ok(value));
        }
    }

    #[test]
    fn identifiers_are_those_of_the_standard() {
        let oid = Oid::new(&[1, 3, 6, 1, 4, 1, 8072, 2_147_483_648]);
        let bytes =
            [0x06, 0x0c, 0x2b, 0x06, 0x01, 0x04, 0x01, 0xbf, 0x08, 0x88, 0x80, 0x80, 0x80, 0x00];
        assert_eq!(object_identifier(&oid), bytes);
        assert_eq!(identifier(&bytes[2..]), Ok(oid));
        assert_eq!(identifier(&[0x2b, 0x88]), Err(BerError::CutOff));
        assert_eq!(identifier(&[0x9f, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(BerError::TooLarge));
    }

    #[test]
    fn long_lengths_and_lies_about_them() {
        let long = octets(&[7; 300]);
        assert_eq!(&long[..4], [0x04, 0x82, 0x01, 0x2c]);
        assert_eq!(Reader::new(&long).octets().map(<[u8]>::len), Ok(300));
        assert_eq!(Reader::new(&long[..200]).octets(), Err(BerError::CutOff));
        assert_eq!(Reader::new(&[0x04, 0x80, 0x00, 0x00]).octets(), Err(BerError::TooLarge));
        assert_eq!(Reader::new(&[0x04, 0x85, 1, 1, 1, 1, 1]).octets(), Err(BerError::TooLarge));
    }

    #[test]
    fn counters_of_64_bits_come_with_nine_octets_or_eight() {
        assert_eq!(unsigned(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Ok(u64::MAX));
        assert_eq!(unsigned(&[0xff; 8]), Ok(u64::MAX));
        assert_eq!(unsigned(&[1; 9]), Err(BerError::TooLarge));
    }
}
