//! The claim: the consent of a person, written on the disk it is about.
//!
//! It fills the first [`CLAIM_BYTES`] of the device, where every filesystem, volume and partition
//! table would overwrite it, with text that explains itself to whoever looks there. Loads never
//! touch the first and the last [`RESERVED_BYTES`]: whatever else appears there was put there by
//! somebody else, and ends the consent.

use std::fmt::Write as _;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// The claim's size: a block of any disk, filled up with zeros.
pub const CLAIM_BYTES: usize = 4096;
/// What loads leave alone at either end of a claimed device.
pub const RESERVED_BYTES: u64 = 1 << 20;
/// Its first line.
const TITLE: &str = "linerate claim 1";
/// What it says to people.
const EXPLANATION: &str =
    "All data on this device may be overwritten by linerate. `linerate disk release` ends this.";
/// Text ends before a boot sector's mark would stand.
const MOST_TEXT: usize = 510;
/// The longest serial number and host that fit.
const MOST_FIELD: usize = 96;

/// What a claim says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// The serial number of the device, as typed by a person.
    pub serial: String,
    /// The device's size.
    pub size_bytes: u64,
    /// Unlike any other claim's.
    pub uuid: String,
    /// When it was made, seconds since 1970.
    pub claimed_s: u64,
}

impl Claim {
    /// As written at the start of the device; `None` if a field is too long or has line ends in it.
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

    /// Reads what [`Claim::encode`] wrote; `None` for anything else, down to the last zero.
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
        // What does not come out as it went in was changed.
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
    fn what_does_not_fit_is_no_claim() {
        assert_eq!(Claim { serial: "x".repeat(97), ..claim() }.encode(), None);
        assert_eq!(Claim { serial: "a\nb".into(), ..claim() }.encode(), None);
        assert!(
            Claim { serial: "x".repeat(96), uuid: "y".repeat(36), ..claim() }.encode().is_some()
        );
    }

    proptest! {
        /// One byte changed anywhere in the block, and it is no claim.
        #[test]
        fn a_changed_claim_is_none(at in 0..CLAIM_BYTES, change in 1_u8..) {
            let mut block = claim().encode().expect("it fits");
            block[at] ^= change;
            prop_assert_eq!(Claim::decode(&block), None);
        }

        #[test]
        fn any_bytes_are_read_without_harm(block in proptest::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert_eq!(Claim::decode(&block), None);
        }
    }
}
