//! What can go wrong between conductor and agents: operation, object, cause and remedy.

use std::io;

use linerate_model::RecorderError;

use crate::wire::WireError;

/// What a caller does about an error: the door maps it to an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The request is wrong: nothing was run (exit 2).
    Usage,
    /// A host, agent, key or permission is missing (exit 4).
    Missing,
}

/// Why conductor and agent could not work together.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody answers at the host's address.
    #[error("{operation} {host}: {cause} ({remedy})")]
    HostDown {
        /// The host's name in the testbed, or its address.
        host: String,
        /// What was tried, e.g. `connect to agent`.
        operation: &'static str,
        /// What came of it.
        cause: String,
        /// What to check.
        remedy: &'static str,
    },
    /// One end does not accept the other's key, or there is no key to show.
    #[error(
        "authenticate with {host}: {cause} (pair the two hosts: `linerate pair offer` there, then \
            `linerate pair accept` here)"
    )]
    KeyRefused {
        /// The other end.
        host: String,
        /// Why.
        cause: String,
    },
    /// The two ends speak different versions of the protocol.
    #[error(
        "greet agent on {host}: it speaks control protocol {theirs} (linerate {their_release}), \
            this end speaks {ours} \
         (linerate {our_release}); install the same linerate release on both hosts"
    )]
    VersionMismatch {
        /// The other end.
        host: String,
        /// Our protocol version.
        ours: u32,
        /// Our release.
        our_release: String,
        /// Their protocol version.
        theirs: u32,
        /// Their release.
        their_release: String,
    },
    /// The agent serves another conductor.
    #[error(
        "greet agent on {host}: it is busy with a campaign of {by} since {since_s} s ago (wait, or \
            end that campaign)"
    )]
    Busy {
        /// The agent's host.
        host: String,
        /// Whom it serves.
        by: String,
        /// For how long, seconds.
        since_s: u64,
    },
    /// The agent refused for another reason, in its own words.
    #[error("greet agent on {host}: refused: {why}")]
    Refused {
        /// The agent's host.
        host: String,
        /// Its words.
        why: String,
    },
    /// The agent was lost and did not come back.
    #[error(
        "agent on {host}: {why} (check that it runs and can be reached, then resume the campaign)"
    )]
    AgentLost {
        /// The agent's host.
        host: String,
        /// What was seen.
        why: String,
    },
    /// The agent did not change or tell a setting, in its own words.
    #[error("settings of {host}: {why}")]
    Setting {
        /// The agent's host.
        host: String,
        /// Its words.
        why: String,
    },
    /// A plan's endpoint names a host that is not in the testbed.
    #[error("resolve host {host} of trial {trial}: not in the testbed (its hosts are {known})")]
    UnknownHost {
        /// The name.
        host: String,
        /// The trial that names it.
        trial: u32,
        /// Names that are known.
        known: String,
    },
    /// A key, certificate or list of peers could not be read or written.
    #[error("{operation} {object}: {cause}")]
    Keys {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        object: String,
        /// What came of it, and the remedy.
        cause: String,
    },
    /// Pairing did not come about.
    #[error("{operation} {object}: {cause}")]
    Pairing {
        /// What was tried.
        operation: &'static str,
        /// With whom.
        object: String,
        /// What came of it, and the remedy.
        cause: String,
    },
    /// An agent could not listen.
    #[error("{operation} {address}: {cause}")]
    Listen {
        /// What was tried.
        operation: &'static str,
        /// Where.
        address: String,
        /// What came of it, and the remedy.
        cause: String,
    },
    /// The other end sent what is no message.
    #[error("read from {host}: {cause}")]
    Wire {
        /// The other end.
        host: String,
        /// What it sent.
        #[source]
        cause: WireError,
    },
    /// A connection broke.
    #[error("{operation} {host}: {cause}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The other end.
        host: String,
        /// The kernel's answer.
        #[source]
        cause: io::Error,
    },
    /// An event could not be kept.
    #[error("record event: {0}")]
    Recorder(#[from] RecorderError),
}

impl ControlError {
    /// What a caller does about it.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownHost { .. } => ErrorClass::Usage,
            _ => ErrorClass::Missing,
        }
    }

    /// Whether trying again later may help without anybody's doing.
    pub(crate) fn passes_by_itself(&self) -> bool {
        matches!(self, Self::HostDown { .. } | Self::Busy { .. } | Self::Io { .. })
    }
}
