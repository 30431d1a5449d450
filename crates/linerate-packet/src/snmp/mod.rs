//! The manager's side of SNMP: SNMPv2c (RFC 1901, RFC 3416) and SNMPv3 with the user-based
//! security model (RFC 3412, RFC 3414, RFC 7860, RFC 3826). Messages are values; sending them
//! is left to the caller.
//!
//! Not supported: SNMPv1, SET, traps and informs, MD5 and DES (broken), other security models. An
//! agent's answer must be complete: a message that is truncated, longer than its header says or of
//! another kind is an error, never a panic.

mod ber;
mod message;
mod usm;

pub use ber::BerError;
pub use message::{Community, Pdu, PduKind, Value};
pub use usm::{Digest, Engine, Header, Incoming, Keys, Refusal, User};

use core::fmt;

/// An object identifier (ITU-T X.660).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid(pub Vec<u32>);

impl Oid {
    /// `numbers` as an identifier.
    #[must_use]
    pub fn new(numbers: &[u32]) -> Self {
        Self(numbers.to_vec())
    }

    /// This one with `numbers` behind it.
    #[must_use]
    pub fn with(&self, numbers: &[u32]) -> Self {
        Self([&self.0[..], numbers].concat())
    }

    /// Returns the part behind `prefix`; `None` if it does not begin so.
    #[must_use]
    pub fn below(&self, prefix: &Self) -> Option<&[u32]> {
        self.0.strip_prefix(&prefix.0[..])
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, number) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(".")?;
            }
            write!(f, "{number}")?;
        }
        Ok(())
    }
}
