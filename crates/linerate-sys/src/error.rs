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
    pub fn new(
        operation: &'static str,
        object: impl Into<String>,
        cause: impl Into<io::Error>,
    ) -> Self {
        Self { operation, object: object.into(), cause: cause.into() }
    }

    /// The kernel's error number, if it gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        let refusal =
            || self.cause.get_ref()?.downcast_ref::<Refusal>().map(|refusal| refusal.code);
        self.cause.raw_os_error().or_else(refusal)
    }

    /// Whether a privilege was missing.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.errno(), Some(libc::EPERM | libc::EACCES))
    }

    /// Wraps the `errno` of the call just made.
    #[must_use]
    pub fn last(operation: &'static str, object: impl Into<String>) -> Self {
        Self::new(operation, object, io::Error::last_os_error())
    }
}

/// A refusal as netlink tells it: the error number, and the kernel's words where it gave any.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", io::Error::from_raw_os_error(*code), words.as_ref().map(|words| format!(": \
    {words}")).unwrap_or_default())]
pub(crate) struct Refusal {
    /// A positive errno.
    pub(crate) code: i32,
    /// The extended acknowledgement.
    pub(crate) words: Option<String>,
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        let plain = Self::from_raw_os_error(refusal.code);
        if refusal.words.is_none() { plain } else { Self::new(plain.kind(), refusal) }
    }
}
