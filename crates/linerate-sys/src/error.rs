//! Error of a call into the kernel.

use std::io;

/// Result of a system call.
pub type Result<T, E = SysError> = std::result::Result<T, E>;

/// A system call that failed: operation, object, cause.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {object}: {cause}")]
pub struct SysError {
    /// The operation, e.g. `set SO_SNDBUF on`.
    pub operation: &'static str,
    /// The object of the operation.
    pub object: String,
    /// The kernel's error.
    #[source]
    pub cause: io::Error,
}

impl SysError {
    /// Returns the error of `operation` on `object`.
    #[must_use]
    pub fn new(
        operation: &'static str,
        object: impl Into<String>,
        cause: impl Into<io::Error>,
    ) -> Self {
        Self { operation, object: object.into(), cause: cause.into() }
    }

    /// Returns the kernel's error number, if there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        let refusal =
            || self.cause.get_ref()?.downcast_ref::<Refusal>().map(|refusal| refusal.code);
        self.cause.raw_os_error().or_else(refusal)
    }

    /// Returns true if a privilege was missing.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.errno(), Some(libc::EPERM | libc::EACCES))
    }

    /// Wraps the `errno` of the previous call.
    #[must_use]
    pub fn last(operation: &'static str, object: impl Into<String>) -> Self {
        Self::new(operation, object, io::Error::last_os_error())
    }
}

/// Refusal of a netlink request: the error number and the kernel's explanation, if it gave one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", io::Error::from_raw_os_error(*code), words.as_ref().map(|words| format!(": \
    {words}")).unwrap_or_default())]
pub(crate) struct Refusal {
    /// A positive errno.
    pub(crate) code: i32,
    /// Text of the extended acknowledgement.
    pub(crate) words: Option<String>,
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        let plain = Self::from_raw_os_error(refusal.code);
        if refusal.words.is_none() { plain } else { Self::new(plain.kind(), refusal) }
    }
}
