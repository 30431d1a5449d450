//! The Internet checksum (RFC 1071) and its change by increment (RFC 1624).
//!
//! Sums are of 16-bit big-endian words, kept in 32 bits and folded once at the end: that is the
//! one's complement sum, in which addition may be done in any order and a word can be taken out by
//! adding its complement.

/// Adds `bytes` to `sum`; an odd last byte is padded with zero.
pub(super) fn add_bytes(mut sum: u32, bytes: &[u8]) -> u32 {
    // An odd byte counts as the high half of a word (RFC 1071 section 4.1), so only the last slice
    // added may have an odd length.
    let mut words = bytes.chunks_exact(2);
    for word in &mut words {
        sum = add(sum, u16::from_be_bytes([word[0], word[1]]));
    }
    match words.remainder() {
        [last] => add(sum, u16::from_be_bytes([*last, 0])),
        _ => sum,
    }
}

/// Adds one word to `sum`.
#[inline]
pub(super) const fn add(sum: u32, word: u16) -> u32 {
    let sum = sum.wrapping_add(word as u32);
    // End-around carry: a sum that wrapped is smaller than what was added.
    if sum < word as u32 { sum + 1 } else { sum }
}

/// Takes one word out of `sum` (RFC 1624 equation 3).
#[inline]
pub(super) const fn subtract(sum: u32, word: u16) -> u32 {
    add(sum, !word)
}

/// The checksum of what was summed up.
#[inline]
pub(super) const fn finish(sum: u32) -> u16 {
    // Two folds are enough: the first can leave one carry, the second cannot.
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !(folded as u16)
}

/// The checksum of `bytes` (RFC 1071). Over a header with its checksum in place it is zero.
///
/// # Examples
/// ```
/// use linerate_packet::frame::internet_checksum;
///
/// // The example of RFC 1071 clause 3: the words add up to ddf2.
/// let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
/// assert_eq!(internet_checksum(&words), !0xddf2);
/// ```
#[must_use]
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    finish(add_bytes(0, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_adds_up() {
        // Clause 3: 0001 f203 f4f5 f6f7 sum up to ddf2 with carries folded in.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(internet_checksum(&bytes), !0xddf2);
        assert_eq!(
            internet_checksum(&bytes[..7]),
            finish(add_bytes(0, &[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0]))
        );
        assert_eq!(internet_checksum(&[]), 0xffff);
    }

    #[test]
    fn the_example_of_rfc_1624_comes_out_as_its_corrected_equation_says() {
        // Clause 4: a word of 5555 becomes 3285, the checksum was dd2f and becomes 0000, not ffff.
        let sum = u32::from(!0xdd2f_u16);
        assert_eq!(finish(add(subtract(sum, 0x5555), 0x3285)), 0x0000);
    }
}
