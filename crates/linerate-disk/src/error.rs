//! Errors of disks and files.

use std::io;

use crate::gate::Refusal;

/// Result of looking at, or asking for, a disk or file.
pub type Result<T, E = DiskError> = std::result::Result<T, E>;

/// Reason for which a disk or file could not be inspected, claimed, released or opened.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The kernel refused.
    #[error("{operation} {object}: {cause}")]
    Io {
        /// The operation.
        operation: &'static str,
        /// Its object.
        object: String,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// The device must not be written to.
    #[error("write to {device}: refused: {}", joined(.refusals))]
    Refused {
        /// The device.
        device: String,
        /// All reasons.
        refusals: Vec<Refusal>,
    },
    /// Refusal of the process that opens disks for this one, in its words.
    #[error("{0}")]
    Told(String),
    /// The object is unsuitable for the request.
    #[error("{what}: {why}")]
    Unsuitable {
        /// The request.
        what: String,
        /// The reason, and the remedy.
        why: String,
    },
}

fn joined(refusals: &[Refusal]) -> String {
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl DiskError {
    pub(crate) fn io(
        operation: &'static str,
        object: impl ToString,
        cause: impl Into<io::Error>,
    ) -> Self {
        Self::Io { operation, object: object.to_string(), cause: cause.into() }
    }

    pub(crate) fn unsuitable(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Unsuitable { what: what.into(), why: why.into() }
    }
}
