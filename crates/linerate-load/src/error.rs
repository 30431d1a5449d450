//! Errors of starting a workload.

use linerate_model::ParamError;
use linerate_sys::SysError;

/// Result of the calls that start a workload.
pub type Result<T, E = LoadError> = std::result::Result<T, E>;

/// Reason for which one end of a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The parameters do not fit.
    #[error("parameter {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Params(Vec<ParamError>),
    /// A system call failed.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// A disk or file is not available.
    #[error(transparent)]
    Disk(#[from] linerate_disk::DiskError),
    /// An iperf3 server could not be used.
    #[error("{0}")]
    Iperf3(Box<linerate_iperf3::drive::DriveError>),
    /// Not all flows arrived in time.
    #[error("{operation}: {arrived} of {expected} flows within {patience_ms} ms ({hint})")]
    Incomplete {
        /// The wait, e.g. `accept tcp_stream flows on 10.0.0.1:4711`.
        operation: String,
        /// Flows that arrived.
        arrived: usize,
        /// Flows expected.
        expected: usize,
        /// Length of the wait.
        patience_ms: u64,
        /// Advice.
        hint: &'static str,
    },
    /// The trial ended before its flows were complete.
    #[error("the trial ended before its flows were complete")]
    Ended,
    /// The owner of this host does not permit it.
    #[error(
        "{what}: this host's policy does not permit it; its owner can, with `{line}` in {file}"
    )]
    NotPermitted {
        /// The request.
        what: String,
        /// Line of the policy that would permit it.
        line: String,
        /// Path of the policy file.
        file: String,
    },
    /// The request is not possible here.
    #[error("{what}: {why}")]
    Unsupported {
        /// The request.
        what: String,
        /// The reason, and the remedy.
        why: String,
    },
}

impl From<Vec<ParamError>> for LoadError {
    fn from(errors: Vec<ParamError>) -> Self {
        Self::Params(errors)
    }
}
