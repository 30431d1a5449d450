//! Signature of a test frame: session and direction, flow, number, scheduled departure and
//! lateness.
//!
//! ```text
//! offset  0      4      6          11          16         18
//!         | tag  | flow | sequence | scheduled | lateness |  filling ...
//! ```
//! All fields are big-endian. The sender derives `tag` (32 bits) from the session's secret and the
//! direction, so a frame with this tag is ours, and a frame that a device reflects has the tag of
//! the wrong direction. `flow` (16) is the flow's number. `sequence` (40) has the low bits of the
//! frame's 64-bit number within its flow. `scheduled` (40) has those of its scheduled departure,
//! nanoseconds on the sender's monotonic clock. A receiver completes both from the nearest value it
//! expects ([`extend`]): unambiguous within 2^39 frames (an hour at the 149 Mpps of 100GBASE) and
//! 2^39 ns (9 minutes). `lateness` (16) is the time from the scheduled departure to the hand-over,
//! as 12 bits shifted left by up to 15: exact below 4096 ns, to one part in 2048 up to 134 ms, its
//! maximum.
//!
//! A signature has 18 bytes because a frame of 64 bytes has no more room behind IPv4 and UDP.

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 18;

const FLOW_AT: usize = 4;
const NUMBERS_AT: usize = 6;
/// Sequence and time, 40 bits each.
const NUMBERS_BYTES: usize = 10;
const LATENESS_AT: usize = NUMBERS_AT + NUMBERS_BYTES;
/// Bits of sequence and of time.
const SHORT_BITS: u32 = 40;
const SHORT_MASK: u64 = (1 << SHORT_BITS) - 1;
/// Bits of a lateness that are kept, and the largest shift that the other four can say.
const LATENESS_BITS: u32 = 12;
const MOST_SHIFT: u32 = 15;

/// Values that are written into a frame just before it leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Number within the flow.
    pub sequence: u64,
    /// When it was to depart, ns.
    pub scheduled_ns: u64,
    /// How much later it was handed over, ns.
    pub lateness_ns: u64,
}

/// A signature as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Session and direction.
    pub tag: u32,
    /// Number of the flow.
    pub flow: u16,
    /// Low 40 bits of the number within the flow.
    pub sequence_low: u64,
    /// Low 40 bits of the scheduled departure, ns.
    pub scheduled_low: u64,
    /// How much later than scheduled it was handed over, ns, rounded down.
    pub lateness_ns: u64,
}

impl Signature {
    /// Reads the signature at the start of `bytes`; `None` if they are too short. The caller
    /// compares the tag.
    #[inline]
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SIGNATURE_BYTES] = bytes.first_chunk()?;
        let tag = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let flow = u16::from_be_bytes([bytes[FLOW_AT], bytes[FLOW_AT + 1]]);
        let [a, b, c, d, e, f, g, h, i, j] = *bytes[NUMBERS_AT..].first_chunk::<NUMBERS_BYTES>()?;
        let sequence_low = u64::from_be_bytes([0, 0, 0, a, b, c, d, e]);
        let scheduled_low = u64::from_be_bytes([0, 0, 0, f, g, h, i, j]);
        let lateness = u16::from_be_bytes([bytes[LATENESS_AT], bytes[LATENESS_AT + 1]]);
        Some(Self { tag, flow, sequence_low, scheduled_low, lateness_ns: lateness_ns(lateness) })
    }

    /// The whole number of the frame, if one near `expected` is due.
    #[inline]
    #[must_use]
    pub fn sequence(&self, expected: u64) -> u64 {
        extend(self.sequence_low, expected)
    }

    /// When it was to depart, ns on the sender's clock, if that is near `now_ns` on the same clock.
    #[inline]
    #[must_use]
    pub fn scheduled_ns(&self, now_ns: u64) -> u64 {
        extend(self.scheduled_low, now_ns)
    }
}

/// Writes tag and flow, which stay, into the first bytes of `signature`.
pub(super) fn write_fixed(signature: &mut [u8], tag: u32, flow: u16) {
    signature[..FLOW_AT].copy_from_slice(&tag.to_be_bytes());
    signature[FLOW_AT..NUMBERS_AT].copy_from_slice(&flow.to_be_bytes());
}

/// The words of a signature that differ from frame to frame, in their order: sequence and time in
/// five, lateness in the sixth.
#[inline]
fn changing_words(stamp: &Stamp) -> [u16; 6] {
    // Only the low bits are sent. The receiver knows the rest from the last frame it saw.
    let (sequence, time) = (stamp.sequence & SHORT_MASK, stamp.scheduled_ns & SHORT_MASK);
    [
        (sequence >> 24) as u16,
        (sequence >> 8) as u16,
        (sequence << 8) as u16 | (time >> 32) as u16,
        (time >> 16) as u16,
        time as u16,
        short_lateness(stamp.lateness_ns),
    ]
}

/// Writes `stamp` into a signature and returns its words, for the checksum.
#[inline]
pub(super) fn write_stamp(signature: &mut [u8], stamp: &Stamp) -> [u16; 6] {
    let words = changing_words(stamp);
    let places = signature[NUMBERS_AT..SIGNATURE_BYTES].chunks_exact_mut(2);
    // All six words start at even offsets of the payload, so each can be added to the checksum
    // alone.
    for (place, word) in places.zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    words
}

/// Writes a whole signature into the first bytes of `payload`, where no checksum of ours covers it
/// (a datagram's payload).
///
/// # Panics
/// If `payload` is shorter than a signature.
#[inline]
pub fn write(payload: &mut [u8], tag: u32, flow: u16, stamp: &Stamp) {
    write_fixed(payload, tag, flow);
    write_stamp(payload, stamp);
}

/// The number nearest to `near` whose low 40 bits are `low` (as RFC 4302 appendix B does with 32).
#[inline]
#[must_use]
pub const fn extend(low: u64, near: u64) -> u64 {
    /// Half of what 40 bits count to.
    const HALF: u64 = 1 << (SHORT_BITS - 1);
    // How far `low` lies ahead of `near`, around the circle of 40 bits.
    let ahead = low.wrapping_sub(near) & SHORT_MASK;
    let behind = (SHORT_MASK + 1).wrapping_sub(ahead) & SHORT_MASK;
    // Near zero there is no smaller number to go back to, so the value ahead is taken however far
    // it is.
    if ahead < HALF || near < behind { near.wrapping_add(ahead) } else { near - behind }
}

/// As written: the largest 12 bits and how far they are shifted.
#[inline]
const fn short_lateness(ns: u64) -> u16 {
    let bits = u64::BITS - ns.leading_zeros();
    let shift = bits.saturating_sub(LATENESS_BITS);
    // Lateness above 134 ms is saturated instead of wrapped: a late frame must never look punctual.
    if shift > MOST_SHIFT {
        u16::MAX
    } else {
        (shift << LATENESS_BITS) as u16 | (ns >> shift) as u16
    }
}

/// As read.
#[inline]
const fn lateness_ns(short: u16) -> u64 {
    ((short & ((1 << LATENESS_BITS) - 1)) as u64) << (short >> LATENESS_BITS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_signature_is_these_bytes() {
        let mut bytes = [0xee; SIGNATURE_BYTES + 1];
        let stamp = Stamp {
            sequence: 0x9901_0203_0405,
            scheduled_ns: 0x7711_1213_1415,
            lateness_ns: 0x345,
        };
        write(&mut bytes, 0xa1a2_a3a4, 0x0b0c, &stamp);
        let expected = [
            0xa1, 0xa2, 0xa3, 0xa4, 0x0b, 0x0c, 0x01, 0x02, 0x03, 0x04, 0x05, 0x11, 0x12, 0x13,
            0x14, 0x15, 0x03, 0x45, 0xee,
        ];
        assert_eq!(bytes, expected);
        let read = Signature::read(&bytes).expect("long enough");
        assert_eq!((read.tag, read.flow, read.lateness_ns), (0xa1a2_a3a4, 0x0b0c, 0x345));
        assert_eq!(read.sequence(0x9901_0200_0000), stamp.sequence);
        assert_eq!(read.scheduled_ns(0x7711_1213_1416), stamp.scheduled_ns);
        assert_eq!(Signature::read(&bytes[..SIGNATURE_BYTES - 1]), None);
    }

    #[test]
    fn a_lateness_above_what_can_be_told_is_the_most_that_can() {
        assert_eq!(lateness_ns(short_lateness(u64::MAX)), 4095 << 15);
        assert_eq!(lateness_ns(short_lateness(4095 << 15)), 4095 << 15);
    }

    proptest! {
        #[test]
        fn short_numbers_are_completed_from_near_ones(number in 0_u64..u64::MAX / 2,
            off in -(1_i64 << 38)..(1_i64 << 38)) {
            let near = number.saturating_add_signed(off);
            prop_assert_eq!(extend(number & SHORT_MASK, near), number);
        }

        #[test]
        fn lateness_is_exact_when_small_and_rounded_down_by_less_than_a_2048th(
            ns in 0_u64..=4095 << 15,
        ) {
            let told = lateness_ns(short_lateness(ns));
            prop_assert!(told <= ns);
            prop_assert!((ns - told) * 2048 <= ns);
            prop_assert!(ns >= 4096 || told == ns);
        }
    }
}
