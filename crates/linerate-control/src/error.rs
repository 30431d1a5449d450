//! Errors between conductor and agents: operation, object, cause and remedy.

use std::io;
use std::net::SocketAddr;

use linerate_model::RecorderError;
use linerate_model::failure::Failure;

use crate::wire::WireError;

/// Result of the control channel.
pub type Result<T, E = ControlError> = std::result::Result<T, E>;

/// Error of a conductor, an agent or a pairing.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No answer from the host's address.
    #[error("{operation} {host}: {cause} ({remedy})")]
    HostDown {
        /// The host's name in the testbed, or its address.
        host: String,
        /// Operation, e.g. `connect to agent on`.
        operation: &'static str,
        /// Cause of the failure.
        cause: String,
        /// Remedy to try.
        remedy: &'static str,
    },
    /// The command that starts the agent ended, stayed silent, or printed something else.
    #[error("start agent on {host} by `{command}`: {cause}")]
    Command {
        /// The host's name in the testbed, or its address.
        host: String,
        /// Its words.
        command: String,
        /// How it failed, and what it printed.
        cause: String,
    },
    /// One end refused the other's key, or there is no key.
    #[error(
        "authenticate with {host}: {cause}. Pair the two hosts: run `linerate pair offer` there, \
            then `linerate pair accept` here."
    )]
    KeyRefused {
        /// The other end.
        host: String,
        /// Reason of the refusal.
        cause: String,
    },
    /// The two ends have different versions of the protocol.
    #[error(
        "greet agent on {host}: it uses control protocol {theirs} (linerate {their_release}), \
            this end uses {ours} (linerate {our_release}). Install the same linerate release on \
            both hosts."
    )]
    VersionMismatch {
        /// The other end.
        host: String,
        /// Protocol version of this end.
        ours: u32,
        /// Release of this end.
        our_release: String,
        /// Protocol version of the other end.
        theirs: u32,
        /// Release of the other end.
        their_release: String,
    },
    /// The agent serves another conductor.
    #[error(
        "greet agent on {host}: it is busy with {by}, for {since_s} s so far{}{}.",
        more(*left_s),
        behind(*ahead)
    )]
    Busy {
        /// The agent's host.
        host: String,
        /// The conductor that it serves.
        by: String,
        /// Duration of that session so far, seconds.
        since_s: u64,
        /// Time that it is expected to take from now on, seconds; 0 if unknown.
        left_s: u64,
        /// Number of conductors that wait and come first.
        ahead: u64,
    },
    /// The agent refused for another reason.
    #[error("greet agent on {host}: refused: {why}")]
    Refused {
        /// The agent's host.
        host: String,
        /// The agent's reason.
        why: String,
    },
    /// The agent was lost and did not come back.
    #[error(
        "agent on {host}: {why}. Check that it runs and can be reached, then resume the campaign."
    )]
    AgentLost {
        /// The agent's host.
        host: String,
        /// The observed failure.
        why: String,
    },
    /// The agent could not read or change a setting.
    #[error("settings of {host}: {why}")]
    Setting {
        /// The agent's host.
        host: String,
        /// The agent's reason.
        why: String,
    },
    /// A plan's endpoint names a host that is not in the testbed.
    #[error("resolve host {host} of trial {trial}: not in the testbed (its hosts are {known})")]
    UnknownHost {
        /// The name.
        host: String,
        /// The trial that names it.
        trial: u32,
        /// Names of the testbed's hosts.
        known: String,
    },
    /// A key, certificate or list of peers could not be read or written.
    #[error("{operation} {object}: {cause}")]
    Keys {
        /// Operation.
        operation: &'static str,
        /// Its file.
        object: String,
        /// Cause of the failure, and the remedy.
        cause: String,
    },
    /// Pairing failed.
    #[error("{operation} {object}: {cause}")]
    Pairing {
        /// Operation.
        operation: &'static str,
        /// The other host.
        object: String,
        /// Cause of the failure, and the remedy.
        cause: String,
    },
    /// An agent could not listen.
    #[error("{operation} {address}: {cause}")]
    Listen {
        /// Operation.
        operation: &'static str,
        /// Its address.
        address: String,
        /// Cause of the failure, and the remedy.
        cause: String,
    },
    /// The other end sent bytes that are not a message.
    #[error("read from {host}: {cause}")]
    Wire {
        /// The other end.
        host: String,
        /// Description of the bytes.
        #[source]
        cause: WireError,
    },
    /// A connection broke.
    #[error("{operation} {host}: {cause}")]
    Io {
        /// Operation.
        operation: &'static str,
        /// The other end.
        host: String,
        /// The kernel's answer.
        #[source]
        cause: io::Error,
    },
    /// An event could not be recorded.
    #[error("record event: {0}")]
    Recorder(#[from] RecorderError),
}

/// Returns the addition to a message about the time that is left.
fn more(left_s: u64) -> String {
    if left_s == 0 { String::new() } else { format!(", about {left_s} s more") }
}

/// Returns the addition to a message about the conductors that come first.
fn behind(ahead: u64) -> String {
    match ahead {
        0 => String::new(),
        1 => ", and another campaign waits before this one".into(),
        n => format!(", and {n} other campaigns wait before this one"),
    }
}

impl ControlError {
    /// Returns the failure of `operation`, which listens on `address`.
    pub(crate) fn listen(
        operation: &'static str,
        address: SocketAddr,
        cause: impl ToString,
    ) -> Self {
        Self::Listen { operation, address: address.to_string(), cause: cause.to_string() }
    }

    /// Returns whether another attempt may succeed without any intervention.
    pub(crate) fn passes_by_itself(&self) -> bool {
        matches!(
            self,
            Self::HostDown { .. } | Self::Command { .. } | Self::Busy { .. } | Self::Io { .. }
        )
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::UnknownHost { .. } => Self::wrong(error),
            ControlError::Busy { ahead, .. } => Self::busy(error, ahead + 1),
            _ => Self::missing(error),
        }
    }
}
