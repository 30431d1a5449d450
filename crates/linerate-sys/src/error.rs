//! One error for every call into the kernel.

use std::io;

/// A system call failed: operation, object, cause.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {object}: {cause}")]
pub struct SysError {
    /// What was tried, e.g. `set SO_SNDBUF on`.
    pub operation: &'static str,
    /// On what.
    pub object: String,
    /// The kernel's answer.
    #[source]
    pub cause: io::Error,
}

impl SysError {
    /// `operation` on `object` failed with `cause`.
    #[must_use]
    pub fn new(operation: &'static str, object: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        Self { operation, object: object.into(), cause: cause.into() }
    }

    /// Wraps the `errno` of the call just made.
    #[must_use]
    pub fn last(operation: &'static str, object: impl Into<String>) -> Self {
        Self::new(operation, object, io::Error::last_os_error())
    }
}
