//! Why a disk or a file is not to be had.

use std::io;

use crate::gate::Refusal;

/// Why a disk or a file could not be looked at, claimed, released or opened.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The kernel refused.
    #[error("{operation} {object}: {cause}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        object: String,
        /// The kernel's answer.
        #[source]
        cause: io::Error,
    },
    /// It may not be written to.
    #[error("write to {device}: refused: {}", told(.refusals))]
    Refused {
        /// The device.
        device: String,
        /// Every reason.
        refusals: Vec<Refusal>,
    },
    /// The process that opens disks for this one refused, in these words.
    #[error("{0}")]
    Told(String),
    /// It is not what was asked for.
    #[error("{what}: {why}")]
    Unsuitable {
        /// What was asked for.
        what: String,
        /// Why it cannot be had, and the remedy.
        why: String,
    },
}

fn told(refusals: &[Refusal]) -> String {
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
