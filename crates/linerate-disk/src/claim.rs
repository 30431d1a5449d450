//! Claim: a person's consent to overwrite a disk, written on that disk.
//!
//! The claim fills the first [`CLAIM_BYTES`] of the device, where every filesystem, volume and
//! partition table would overwrite it. Its text explains itself to a person who inspects the disk.
//! Loads never touch the first and last [`RESERVED_BYTES`]. Any other data there is from somebody
//! else and ends the consent.

use std::fmt::Write as _;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Size of the claim: one block of any disk, padded with zeros.
pub const CLAIM_BYTES: usize = 4096;
/// Size of the area at each end of a claimed device that loads leave alone.
pub const RESERVED_BYTES: u64 = 1 << 20;
/// First line of the claim.
const TITLE: &str = "linerate claim 1";
/// Explanation for people.
const EXPLANATION: &str =
    "All data on this device may be overwritten by linerate. `linerate disk release` ends this.";
/// Limit for the text: it ends before the mark of a boot sector.
const MOST_TEXT: usize = 510;
/// Longest serial number or UUID.
const MOST_FIELD: usize = 96;

/// Contents of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Serial number of the device, as typed by a person.
    pub serial: String,
    /// Size of the device.
    pub size_bytes: u64,
    /// Unique id of this claim.
    pub uuid: String,
    /// Time of the claim, seconds since 1970.
    pub claimed_s: u64,
}

impl Claim {
    /// Returns the block at the start of the device; `None` if a field is too long or contains line
    /// ends.
    pub(crate) fn encode(&self) -> Option<[u8; CLAIM_BYTES]> {
        let fields = [&self.serial, &self.uuid];
        if fields.iter().any(|field| field.len() > MOST_FIELD || field.contains(['\n', '\r'])) {
            return None;
        }
        let Self { serial, size_bytes, uuid, claimed_s } = self;
        let mut text = format!(
            "{TITLE}\n{EXPLANATION}\nserial {serial}\nsize_bytes {size_bytes}\nuuid \
                {uuid}\nclaimed_s {claimed_s}\n"
        );
        // Against damage and stray writes, not against forgery: whoever can write the block can
        // also wipe the disk.
        let digest = digest(&text);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "sha256 {digest}");
        let mut block = [0; CLAIM_BYTES];
        block
            .get_mut(..text.len())
            .filter(|room| room.len() <= MOST_TEXT)?
            .copy_from_slice(text.as_bytes());
        Some(block)
    }

    /// Decodes the result of [`Claim::encode`]; `None` for any other block, including its padding.
    pub(crate) fn decode(block: &[u8]) -> Option<Self> {
        let block: &[u8; CLAIM_BYTES] = block.get(..CLAIM_BYTES)?.try_into().ok()?;
        let end = block.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(&block[..end]).ok()?;
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let claim = Self {
            serial: field("serial")?.to_owned(),
            size_bytes: field("size_bytes")?.parse().ok()?,
            uuid: field("uuid")?.to_owned(),
            claimed_s: field("claimed_s")?.parse().ok()?,
        };
        // A claim that does not encode to the same block was changed.
        (claim.encode()? == *block).then_some(claim)
    }
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim() -> Claim {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef".into();
        Claim { serial: "S3R1AL 7".into(), size_bytes: 1 << 40, uuid, claimed_s: 1_795_219_500 }
    }

    #[test]
    fn a_claim_reads_back_and_explains_itself() {
        let block = claim().encode().expect("it fits");
        assert_eq!(Claim::decode(&block), Some(claim()));
        assert!(block.starts_with(b"linerate claim 1\nAll data on this device may be overwritten"));
    }

    #[test]
    fn an_oversized_field_is_refused() {
        assert_eq!(Claim { serial: "x".repeat(97), ..claim() }.encode(), None);
        assert_eq!(Claim { serial: "a\nb".into(), ..claim() }.encode(), None);
        assert!(
            Claim { serial: "x".repeat(96), uuid: "y".repeat(36), ..claim() }.encode().is_some()
        );
    }

    proptest! {
        /// A change of any byte in the block makes the claim invalid.
        #[test]
        fn a_changed_claim_is_invalid(at in 0..CLAIM_BYTES, change in 1_u8..) {
            let mut block = claim().encode().expect("it fits");
            block[at] ^= change;
            prop_assert_eq!(Claim::decode(&block), None);
        }

        #[test]
        fn any_bytes_are_read_without_harm(
            block in proptest::collection::vec(any::<u8>(), 0..5000)
        ) {
            prop_assert_eq!(Claim::decode(&block), None);
        }
    }
}
