//! Identity of a host: the digest of its public key.

use std::str::FromStr;

use linerate_load::pinned;
use rustls_pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes of a SHA-256 digest.
pub(super) const DIGEST_BYTES: usize = 32;

/// SHA-256 of a public key (its SubjectPublicKeyInfo, DER): the identity of a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; DIGEST_BYTES]);

impl Fingerprint {
    /// Returns the fingerprint of a SubjectPublicKeyInfo in DER.
    #[must_use]
    pub fn of(spki: &[u8]) -> Self {
        Self(Sha256::digest(spki).into())
    }

    /// Returns the fingerprint of a certificate's public key.
    pub(crate) fn of_certificate(certificate: &CertificateDer<'_>) -> Result<Self, rustls::Error> {
        Ok(Self::of(&pinned::key_of(certificate)?))
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a key: a key is a SHA-256 in 64 hexadecimal digits");
        if text.len() != 2 * DIGEST_BYTES || !text.is_ascii() {
            return Err(wrong());
        }
        let mut digest = [0; DIGEST_BYTES];
        for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(digest))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_reads_as_it_prints() {
        let print = Fingerprint::of(b"key");
        assert_eq!(print.to_string().parse(), Ok(print));
        for wrong in ["zz", "ab", &"0".repeat(63), &"0".repeat(66)] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
        assert!("é".repeat(32).parse::<Fingerprint>().is_err());
    }
}
