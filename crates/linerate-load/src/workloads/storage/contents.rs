//! Contents of writes: different from all others by default. A share of each block may be zeros,
//! which a compressing disk saves. A share of the writes may repeat other contents, which a
//! deduplicating disk saves.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use super::places::below;
use super::stamp::{STAMP_BYTES, Stamper};

/// Unit of the share of zeros: the smallest block of any disk.
pub(super) const BLOCK_BYTES: usize = 512;
/// Scale of a share against a random 32-bit number.
const WHOLE: f64 = 4_294_967_296.0;

/// Fills `buffer` with bytes that no disk can compress, except for the share `zeros` at the end of
/// each block. Leaves room for the stamp.
pub(super) fn fill(buffer: &mut [u8], zeros: f64, random: &mut Xoshiro256PlusPlus) {
    for chunk in buffer.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    let kept = ((1.0 - zeros) * BLOCK_BYTES as f64).round() as usize;
    if kept < BLOCK_BYTES {
        buffer
            .chunks_exact_mut(BLOCK_BYTES)
            .for_each(|block| block[kept.max(STAMP_BYTES)..].fill(0));
    }
}

/// Writes that repeat others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    /// Share of the writes, against a random 32-bit number.
    share: f64,
    /// Different contents that they repeat.
    originals: u64,
}

impl Copies {
    /// Returns `None` if no write repeats another.
    pub(super) fn new(share: f64, originals: u32) -> Option<Self> {
        (share > 0.0)
            .then_some(Self { share: share * WHOLE, originals: u64::from(originals.max(1)) })
    }

    /// Returns the content that the next write repeats; `None` if it is to differ from all others.
    #[inline]
    pub(super) fn draw(self, random: &mut Xoshiro256PlusPlus) -> Option<u64> {
        (f64::from(random.next_u64() as u32) < self.share).then(|| below(self.originals, random))
    }
}

/// Fills `buffer` with the content numbered `original`. All workers derive the same content from
/// the same `payload`.
#[inline]
pub(super) fn repeat(buffer: &mut [u8], payload: &[u8], original: u64, stamper: &Stamper) {
    /// Ordinary writes count from zero: none of the first two thousand million equals a copy by
    /// accident.
    const FIRST: u32 = 1 << 31;
    buffer.copy_from_slice(&payload[..buffer.len()]);
    let mut sequence = FIRST;
    stamper.stamp(buffer, original * buffer.len() as u64, &mut sequence);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn the_share_of_zeros_is_in_every_block_and_a_stamp_is_left() {
        for (zeros, expected) in [(0.0, 0), (0.5, 256), (1.0, 480)] {
            let mut buffer = vec![7; 4096];
            fill(&mut buffer, zeros, &mut Xoshiro256PlusPlus::seed_from_u64(1));
            for block in buffer.chunks(BLOCK_BYTES) {
                // One random byte in 256 is zero.
                let found = block.iter().filter(|byte| **byte == 0).count();
                assert!(
                    (expected..expected + 12).contains(&found),
                    "{found} zeros of {BLOCK_BYTES}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn copies_are_equal_to_the_byte_and_as_many_as_requested() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let stamper = Stamper { block: BLOCK_BYTES, run: 1, verified: false };
        let mut payload = vec![0; 4096];
        fill(&mut payload, 0.0, &mut random);
        let copies = Copies::new(0.3, 5).expect("some");
        let (mut buffer, mut sequence, mut copied) = (payload.clone(), 0, 0);
        let mut contents = HashSet::new();
        for place in 0..10_000 {
            match copies.draw(&mut random) {
                Some(original) => {
                    copied += 1;
                    repeat(&mut buffer, &payload, original, &stamper);
                }
                None => stamper.stamp(&mut buffer, place * 4096, &mut sequence),
            }
            contents.insert(buffer.clone());
        }
        assert!((2_800..3_200).contains(&copied), "{copied} of 10 000 are copies");
        assert_eq!(contents.len(), 10_000 - copied + 5);
        assert!(Copies::new(0.0, 5).is_none());
    }
}
