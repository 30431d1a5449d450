//! Get Version ID: version of the standard, firmware, PCI identity, manufacturer.

use crate::bytes::{array, u16_at, u32_at};

const BODY_BYTES: usize = 36;
const NAME_BYTES: usize = 12;

/// Versions of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major, minor, update and two letters, as on the wire: digits in nibbles, F where there is
    /// none.
    pub standard: [u8; 5],
    /// Firmware name, filled up with zeros.
    pub firmware_name: [u8; NAME_BYTES],
    /// Firmware version, byte by byte.
    pub firmware: [u8; 4],
    /// PCI device, vendor, subsystem and subsystem vendor; 0xFFFF if it has none.
    pub pci: [u16; 4],
    /// IANA enterprise number of the manufacturer.
    pub enterprise: u32,
}

/// A number of one or two digits, each a nibble; `None` if the field is absent. Some controllers
/// put plain binary there, which reads the same below ten.
fn digits(byte: u8) -> Option<u8> {
    const ABSENT: u8 = 0xf;
    let (high, low) = (byte >> 4, byte & ABSENT);
    // F is not a decimal digit: the standard uses it for "no digit here".
    match (high, low) {
        (ABSENT, ABSENT) => None,
        (ABSENT, low) => Some(low),
        (high, low) => Some(high * 10 + low),
    }
}

impl Version {
    /// The version of the standard as people write it, such as `1.0.1` or `3.7.10a`.
    #[must_use]
    pub fn standard_text(&self) -> String {
        Self::spelled(self.standard)
    }

    /// Major, minor, update and two letters, as on the wire, as people write them.
    #[must_use]
    pub fn spelled(standard: [u8; 5]) -> String {
        let [major, minor, update, letters @ ..] = standard;
        let numbers: Vec<String> =
            [major, minor, update].into_iter().filter_map(digits).map(|n| n.to_string()).collect();
        let letters: String =
            letters.into_iter().filter(u8::is_ascii_alphanumeric).map(char::from).collect();
        numbers.join(".") + &letters
    }

    /// The firmware's name, without what fills it up.
    #[must_use]
    pub fn firmware_name_text(&self) -> String {
        let name = self.firmware_name.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }

    /// The firmware's version as people write it.
    #[must_use]
    pub fn firmware_text(&self) -> String {
        self.firmware.map(|byte| format!("{byte:02x}")).join(".")
    }

    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let [major, minor, update, first]: [u8; 4] = array(body, 0)?;
        let pci = [u16_at(body, 24)?, u16_at(body, 26)?, u16_at(body, 28)?, u16_at(body, 30)?];
        Some(Self {
            // Bytes 4 to 6 are reserved: the second letter is apart from the first.
            standard: [major, minor, update, first, *body.get(7)?],
            firmware_name: array(body, 8)?,
            firmware: array(body, 20)?,
            pci,
            enterprise: u32_at(body, 32)?,
        })
    }

    pub(super) fn emit(&self) -> [u8; BODY_BYTES] {
        let mut body = [0; BODY_BYTES];
        body[..4].copy_from_slice(&self.standard[..4]);
        body[7] = self.standard[4];
        body[8..20].copy_from_slice(&self.firmware_name);
        body[20..24].copy_from_slice(&self.firmware);
        for (place, identity) in body[24..32].chunks_exact_mut(2).zip(self.pci) {
            place.copy_from_slice(&identity.to_be_bytes());
        }
        body[32..].copy_from_slice(&self.enterprise.to_be_bytes());
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_digits_and_as_plain_numbers() {
        // NC-SI reference 1.5.
        let text = Version::spelled;
        assert_eq!(text([0xf1, 0xf0, 0xf1, 0, 0]), "1.0.1");
        assert_eq!(text([0xf3, 0xf7, 0x10, b'a', 0]), "3.7.10a");
        assert_eq!(text([0xf1, 0xf1, 0xff, 0, 0]), "1.1");
        assert_eq!(text([1, 2, 4, 0, 0]), "1.2.4");
    }
}
