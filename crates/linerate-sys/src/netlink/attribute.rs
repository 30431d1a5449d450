//! Attributes: type, length, value, padding (netlink(7), `struct nlattr`); numbers in host byte
//! order.

/// Length and type.
const HEADER: usize = 4;
/// The two highest bits of a type are flags (nested, network byte order).
const TYPE_MASK: u16 = 0x3fff;

/// Returns the attributes as `(type, value)`; stops at the first malformed one. A value may contain
/// attributes.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = half(bytes, 0)? as usize;
        let kind = half(bytes, 2)? & TYPE_MASK;
        let value = bytes.get(HEADER..length)?;
        bytes = bytes.get(align(length)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// Appends an attribute and its padding.
///
/// # Panics
/// If `value` is longer than 65,531 bytes, the limit of the length field.
pub fn push(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(HEADER + value.len()).expect("a value fits the length field");
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(align(bytes.len()), 0);
}

/// Returns `length` rounded up to a multiple of four.
pub(super) const fn align(length: usize) -> usize {
    (length + 3) & !3
}

/// Returns 16 bits at `at`, if they exist.
pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Returns 32 bits at `at`, if they exist.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns 64 bits at `at`, if they exist.
pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Returns the string up to its zero.
pub(super) fn text(bytes: &[u8]) -> &str {
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or(&[]);
    std::str::from_utf8(bytes).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_attributes_end_the_walk_without_panic() {
        let mut whole = Vec::new();
        push(&mut whole, 1, b"veth\0");
        push(&mut whole, 2, &[1, 2, 3]);
        assert_eq!(attributes(&whole).collect::<Vec<_>>(), [(1, &b"veth\0"[..]), (2, &[1, 2, 3])]);
        for end in 0..whole.len() {
            assert!(attributes(&whole[..end]).count() <= 2);
        }
        // A length of zero must not loop for ever.
        assert_eq!(attributes(&[0; 64]).count(), 0);
    }
}
