//! Block of a TPACKET_V3 receive ring, as the kernel fills it (linux/if_packet.h,
//! Documentation/networking/packet_mmap.rst).
//!
//! A block begins with a description (`struct tpacket_block_desc`). Frames follow, each after a
//! `struct tpacket3_hdr` with the offset of the next one. Numbers are in host byte order. The
//! reader trusts no offset: one that leads out of the block ends the walk.

/// Offsets into `struct tpacket_block_desc`.
pub(super) const STATUS_AT: usize = 8;
const N_FRAMES_AT: usize = 12;
const FIRST_AT: usize = 16;

/// Offsets into `struct tpacket3_hdr`.
const NEXT: usize = 0;
const SECONDS: usize = 4;
const NANOSECONDS: usize = 8;
const KEPT: usize = 12;
const LENGTH: usize = 16;
const STATUS: usize = 20;
const FRAME: usize = 24;
const VLAN_CONTENT: usize = 32;
const VLAN_TYPE: usize = 36;

/// `TP_STATUS_VLAN_VALID`: the kernel removed a tag and reports it in the header.
const VLAN_VALID: u32 = 1 << 4;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFrame<'a> {
    /// The bytes that the filter keeps, from the destination address, without a tag that the kernel
    /// removed.
    pub bytes: &'a [u8],
    /// Original length, without that tag and without the check sequence.
    pub length: usize,
    /// Type and content of the removed VLAN tag.
    pub vlan: Option<[u16; 2]>,
    /// Arrival time by the kernel's wall clock, ns.
    pub stamp_ns: u64,
}

/// Returns the frames of `block`.
pub(super) fn frames(block: &[u8]) -> impl Iterator<Item = RingFrame<'_>> {
    let mut left = word(block, N_FRAMES_AT).unwrap_or(0);
    let mut at = word(block, FIRST_AT).unwrap_or(0) as usize;
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let (frame, next) = frame(block.get(at..)?)?;
        at += next;
        Some(frame)
    })
}

/// Returns the frame whose header starts `bytes`, and the offset of the next frame.
fn frame(bytes: &[u8]) -> Option<(RingFrame<'_>, usize)> {
    let next = word(bytes, NEXT)? as usize;
    let start = usize::from(half(bytes, FRAME)?);
    let status = word(bytes, STATUS)?;
    let tag = [half(bytes, VLAN_TYPE)?, half(bytes, VLAN_CONTENT)?];
    let frame = RingFrame {
        bytes: bytes.get(start..start + word(bytes, KEPT)? as usize)?,
        length: word(bytes, LENGTH)? as usize,
        vlan: (status & VLAN_VALID != 0).then_some(tag),
        stamp_ns: u64::from(word(bytes, SECONDS)?) * NANOS_PER_SECOND
            + u64::from(word(bytes, NANOSECONDS)?),
    };
    Some((frame, next))
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns the low 16 bits of the field of 16 or 32 bits at `at`.
#[inline]
fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a block of two frames: 3 of 60 bytes kept, at offset 48 of a header at 48; then 4 of
    /// 4 at 68, tagged.
    fn block() -> Vec<u8> {
        let mut bytes = vec![0; 256];
        let mut put =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        put(N_FRAMES_AT, 2);
        put(FIRST_AT, 48);
        for (offset, value) in [
            (NEXT, 80),
            (SECONDS, 2),
            (NANOSECONDS, 5),
            (KEPT, 3),
            (LENGTH, 60),
            (STATUS, 1),
            (FRAME, 48),
        ] {
            put(48 + offset, value);
        }
        for (offset, value) in [
            (SECONDS, 3),
            (KEPT, 4),
            (LENGTH, 4),
            (STATUS, 1 | VLAN_VALID),
            (FRAME, 68),
            (VLAN_CONTENT, 0xa065),
            (VLAN_TYPE, 0x8100),
        ] {
            put(128 + offset, value);
        }
        bytes[96..99].copy_from_slice(b"one");
        bytes[196..200].copy_from_slice(b"two2");
        bytes
    }

    #[test]
    fn frames_are_walked_with_their_lengths_stamps_and_tags() {
        let block = block();
        let found: Vec<_> = frames(&block).collect();
        let first = RingFrame { bytes: b"one", length: 60, vlan: None, stamp_ns: 2_000_000_005 };
        let second = RingFrame {
            bytes: b"two2",
            length: 4,
            vlan: Some([0x8100, 0xa065]),
            stamp_ns: 3_000_000_000,
        };
        assert_eq!(found, [first, second]);
    }

    #[test]
    fn what_leads_out_of_a_block_ends_the_walk() {
        let whole = block();
        for end in 0..whole.len() {
            assert!(frames(&whole[..end]).count() <= 2);
        }
        for at in [FIRST_AT, 48 + NEXT, 48 + KEPT, 48 + FRAME, 128 + KEPT] {
            let mut wrong = whole.clone();
            wrong[at..at + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
            assert!(frames(&wrong).count() < 2, "{at}");
        }
        let mut many = whole;
        many[N_FRAMES_AT..N_FRAMES_AT + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
        // A header that points to itself is read at most as often as the block's count says.
        assert!(frames(&many).take(1000).count() <= 1000);
    }
}
