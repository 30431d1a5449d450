//! First bytes of a data connection: the workload, then the cookie of its job, then the rest of the
//! hello ([`super::proof`]).
//!
//! A workload's number is four small letters. A TLS record begins with 22 and a control message
//! with a zero, so that one port can serve all of them.

use super::proof::{HELLO_BYTES, word};
use crate::Secret;

/// Bytes that name the job of a connection.
pub(crate) type Cookie = [u8; 16];

/// Bytes of a connection that are needed to find its job.
pub(crate) const LENGTH: usize = HELLO_BYTES;
/// Place of the cookie, behind the workload's number.
pub(crate) const COOKIE_AT: usize = size_of::<u32>();

/// Returns the cookie of the job with this secret: it does not reveal the secret.
pub(crate) fn cookie_of(secret: Secret) -> Cookie {
    word(secret, b"connection").0
}

/// Returns true if a data connection may begin with `bytes`.
pub(crate) fn is_data(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(u8::is_ascii_lowercase)
}

/// Returns the cookie in a whole hello.
pub(crate) fn cookie(bytes: &[u8]) -> Option<Cookie> {
    let hello = bytes.get(..LENGTH).filter(|bytes| is_data(bytes))?;
    hello[COOKIE_AT..].first_chunk().copied()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::proof::{Exchange, Hello};
    use super::*;

    /// Returns a hello of a job with this secret.
    pub(crate) fn hello(secret: Secret) -> [u8; LENGTH] {
        Exchange::open(Hello::first(secret, u32::from_be_bytes(*b"test"), 1)).hello_bytes()
    }

    #[test]
    fn a_hello_begins_as_a_data_connection_with_its_jobs_cookie() {
        let secret = Secret([3; 16]);
        assert_eq!(cookie(&hello(secret)), Some(cookie_of(secret)));
        assert_ne!(cookie_of(secret), cookie_of(Secret([4; 16])));
        assert_eq!(cookie(&hello(secret)[..LENGTH - 1]), None);
    }
}
