//! Stamps, which make every written block different from every other, and show its fate on reading.
//!
//! Each block of 512 or 4096 bytes begins with 32 bytes, little-endian: magic number (8), its place
//! on the target (8), the run that wrote it (8), a running number (4), and CRC-32C (4). The CRC is
//! of the whole block with these four bytes zero; it is zero if nothing is verified. A stamp does
//! not reveal an older block of the same run in its right place.

/// Bytes of a stamp.
pub(super) const STAMP_BYTES: usize = 32;
/// `linerate`, as bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"linerate");
const CRC_AT: usize = 28;

/// Fault of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// No stamp, or that of another run.
    Foreign,
    /// A whole block of this run that belongs elsewhere.
    Misplaced,
    /// Bytes differ from those written: torn, or decayed.
    Corrupt,
}

impl Flaw {
    /// Describes the fault.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Foreign => "its stamp is not of this run",
            Self::Misplaced => "it has the content of another place",
            Self::Corrupt => "its bytes differ from those written",
        }
    }
}

/// Stamper of the blocks of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamper {
    /// Bytes of a block, a power of two of at least 512.
    pub(super) block: usize,
    /// Identity of the run.
    pub(super) run: u64,
    /// True if stamps have checksums.
    pub(super) verified: bool,
}

impl Stamper {
    /// Stamps every block of `bytes`, which go to `offset`, and advances the running number.
    #[inline]
    pub(super) fn stamp(&self, bytes: &mut [u8], offset: u64, sequence: &mut u32) {
        for (index, block) in bytes.chunks_exact_mut(self.block).enumerate() {
            let at = offset + (index * self.block) as u64;
            block[..8].copy_from_slice(&MAGIC.to_le_bytes());
            block[8..16].copy_from_slice(&at.to_le_bytes());
            block[16..24].copy_from_slice(&self.run.to_le_bytes());
            block[24..CRC_AT].copy_from_slice(&sequence.to_le_bytes());
            // The checksum covers its own place as zeros.
            block[CRC_AT..STAMP_BYTES].fill(0);
            // Wraps after 2^32 blocks: the number only makes blocks differ.
            *sequence = sequence.wrapping_add(1);
            if self.verified {
                let crc = crc32c(block);
                block[CRC_AT..STAMP_BYTES].copy_from_slice(&crc.to_le_bytes());
            }
        }
    }

    /// Returns the first flaw in `bytes`, which were read at `offset`, and its place.
    #[inline]
    pub(super) fn check(&self, bytes: &mut [u8], offset: u64) -> Option<(u64, Flaw)> {
        bytes.chunks_exact_mut(self.block).enumerate().find_map(|(index, block)| {
            let at = offset + (index * self.block) as u64;
            // The run comes before the checksum: a foreign block need not be summed.
            if number(block, 0) != MAGIC || number(block, 16) != self.run {
                return Some((at, Flaw::Foreign));
            }
            let stamped =
                u32::from_le_bytes(block[CRC_AT..STAMP_BYTES].try_into().expect("four bytes"));
            // The buffer is ours, so the field is cleared in place instead of copying the block.
            block[CRC_AT..STAMP_BYTES].fill(0);
            if crc32c(block) != stamped {
                return Some((at, Flaw::Corrupt));
            }
            // Checked last: a whole block of this run in the wrong place was misdirected.
            (number(block, 8) != at).then_some((at, Flaw::Misplaced))
        })
    }
}

/// Returns the number at `at` of `block`.
#[inline]
fn number(block: &[u8], at: usize) -> u64 {
    let bytes = block.get(at..at + 8);
    bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

/// CRC-32C (Castagnoli; RFC 3720 appendix B.4), eight bytes at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        // Eight bytes in eight table lookups that do not wait for each other.
        let low = crc ^ u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        crc = 0;
        for (place, byte) in
            low.to_le_bytes().into_iter().chain(chunk[4..].iter().copied()).enumerate()
        {
            crc ^= TABLES[7 - place][usize::from(byte)];
        }
    }
    for byte in chunks.remainder() {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    /// The polynomial, bits reversed.
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut byte = 0;
    while byte < 256 {
        let mut table = 1;
        while table < 8 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            table += 1;
        }
        byte += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 3720 appendix B.4.
    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46DD_794E);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    const STAMPER: Stamper = Stamper { block: 512, run: 9, verified: true };

    fn stamped() -> Vec<u8> {
        let mut bytes = vec![0xA5; 2048];
        STAMPER.stamp(&mut bytes, 8192, &mut 0);
        bytes
    }

    #[test]
    fn intact_blocks_pass_and_each_flaw_is_named() {
        assert_eq!(STAMPER.check(&mut stamped(), 8192), None);
        assert_eq!(STAMPER.check(&mut stamped(), 0), Some((0, Flaw::Misplaced)));
        assert_eq!(
            Stamper { run: 8, ..STAMPER }.check(&mut stamped(), 8192),
            Some((8192, Flaw::Foreign))
        );
        assert_eq!(STAMPER.check(&mut vec![0; 512], 0), Some((0, Flaw::Foreign)));
    }

    proptest! {
        /// Turns one bit anywhere: its block is found.
        #[test]
        fn a_turned_bit_is_found(at in 0_usize..2048, bit in 0..8) {
            let mut bytes = stamped();
            bytes[at] ^= 1_u8 << bit;
            let found = STAMPER.check(&mut bytes, 8192);
            prop_assert_eq!(found.map(|(place, _)| place), Some(8192 + (at / 512 * 512) as u64));
        }
    }
}
