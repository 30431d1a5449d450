//! Why a workload could not be started.

use linerate_model::ParamError;
use linerate_sys::SysError;

/// Why one end of a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Parameters do not fit.
    #[error("parameter {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Params(Vec<ParamError>),
    /// A system call failed.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// A disk or file is not to be had.
    #[error(transparent)]
    Disk(#[from] linerate_disk::DiskError),
    /// Not all flows came together in time.
    #[error("{operation}: {arrived} of {expected} flows within {patience_ms} ms ({hint})")]
    Incomplete {
        /// What was waited for, e.g. `accept tcp_stream flows on 10.0.0.1:4711`.
        operation: String,
        /// Flows that came.
        arrived: usize,
        /// Flows expected.
        expected: usize,
        /// How long was waited.
        patience_ms: u64,
        /// What to check.
        hint: &'static str,
    },
    /// The owner of this host does not let loads do it.
    #[error(
        "{what}: this host's policy does not permit it; its owner can, with `{line}` in {file}"
    )]
    NotPermitted {
        /// What was asked for.
        what: String,
        /// The line of the policy that permits it.
        line: String,
        /// The policy's file.
        file: String,
    },
    /// Something asked for is not possible here.
    #[error("{what}: {why}")]
    Unsupported {
        /// What was asked for.
        what: String,
        /// Why it cannot be had, and the remedy.
        why: String,
    },
}

impl From<Vec<ParamError>> for LoadError {
    fn from(errors: Vec<ParamError>) -> Self {
        Self::Params(errors)
    }
}
