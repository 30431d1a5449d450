//! SNMP as a manager speaks it: SNMPv2c (RFC 1901, RFC 3416) and SNMPv3 with the user-based
//! security model (RFC 3412, RFC 3414, RFC 7860, RFC 3826). Messages are values; who sends them,
//! and when, is not known here.
//!
//! Not spoken: SNMPv1, SET, traps and informs, MD5 and DES (broken), other security models. An
//! agent's answer is taken only whole: a message that is cut off, longer than said or of another
//! kind is an error, never a panic.

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

    /// What follows `prefix` in it; `None` if it does not begin so.
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
