//! Privilege separation: the process that serves conductors has no rights of the account, and
//! requests privileged operations from a second process, the broker.
//!
//! ```text
//! conductor -- TLS --> agent: parses messages, runs the load; without rights (sys::sandbox)
//!                        |  a typed request, one at a time, descriptors
//!                      broker: checks the policy; with the rights of the account
//! ```
//!
//! The broker ([`keep`]) is split off before there are threads, and lives as long as the agent. It
//! has its own copy of the host's policy, so that an agent that was taken over gets no more than
//! the policy grants every conductor. It answers the requests of `Request` and no others. When
//! the agent ends for any reason, the broker puts back the settings that it has changed, and ends.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use linerate_disk::Synchrony;
use linerate_sys::live::{Row, Shape};
use linerate_sys::perf::Counter;
use linerate_sys::privilege::{Sideband, SocketOption};
use linerate_sys::xdp::Placement;
use serde::{Deserialize, Serialize};

use crate::wire::TuneRequest;

mod answers;
mod channel;
mod client;
mod keeper;
mod targets;
#[cfg(test)]
mod tests;

pub use answers::{Duties, keep};
pub use client::Broker;
pub(crate) use keeper::BrokerKeeper;

/// Longest message, bytes. The largest ones carry a host's facts and its list of peers.
const MESSAGE_LIMIT: usize = 16 << 20;
/// Most descriptors with a message: a generator of live frames has seven.
const MOST_DESCRIPTORS: usize = 7;

/// Request of the agent. Descriptors of its object come with the message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// List the hosts that this one has been paired with.
    Peers,
    /// Read the facts of this host.
    Facts,
    /// Bind the socket.
    Bind { address: SocketAddr },
    /// Set an option of the socket.
    Option(SocketOption),
    /// Open a packet socket for frames of `device` with this EtherType.
    PacketSocket { device: String, ethertype: u16 },
    /// Open an AF_XDP socket for frames of `device`.
    XdpSocket { device: String },
    /// Attach a program that takes matching frames of `device`.
    AttachFilter {
        device: String,
        alternatives: Vec<Vec<MatchText>>,
        placement: Option<Placement>,
        multi_buffer: bool,
    },
    /// Load a program that makes live frames for `device`.
    LiveFrames { device: String, rows: Vec<Row>, shape: Shape },
    /// Open an event counter of a CPU, in the group of the descriptor if there is one.
    Counter { counter: Counter, cpu: u32 },
    /// Give a thread of the agent a real-time priority.
    RunFirst { thread: i32 },
    /// Ask a network controller for its pass-through statistics through the kernel's NC-SI stack.
    SidebandStatistics { at: Sideband, patience: Duration },
    /// Keep the CPUs from deep sleep while the descriptor in the answer is open.
    KeepAwake,
    /// Read or change settings of the host.
    Tune(TuneRequest),
    /// Put all changes back. Refuse further ones if `for_good`: the agent is about to end.
    PutBack { for_good: bool },
    /// Open a disk or file for a session.
    Open { session: u64, path: PathBuf, write: bool, consent: Option<String> },
    /// Make a scratch file for a session.
    Scratch { session: u64, folder: PathBuf, size: u64 },
    /// Answer whether `path` is a folder in which a scratch file may be made.
    IsFolder { path: PathBuf },
    /// Open another descriptor of a target.
    Reopen { session: u64, number: u64, write: bool, direct: bool, synchrony: Synchrony },
    /// Close a target.
    Release { session: u64, number: u64 },
    /// Close all targets of a session.
    EndSession { session: u64 },
}

/// Wire form of [`linerate_sys::xdp::Match`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MatchText {
    offset: u16,
    value: Vec<u8>,
    mask: Vec<u8>,
}

/// Refusal of a request, with the error number if the kernel refused it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Refused {
    code: Option<i32>,
    why: String,
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Self {
        Self { code: error.raw_os_error(), why: error.to_string() }
    }
}

impl Refused {
    fn because(why: impl ToString) -> Self {
        Self { code: None, why: why.to_string() }
    }

    /// Converts to the error that the kernel would return. A refusal of the policy becomes
    /// `PermissionDenied`.
    fn into_io(self) -> std::io::Error {
        match self.code {
            Some(code) => std::io::Error::from_raw_os_error(code),
            None => std::io::Error::new(std::io::ErrorKind::PermissionDenied, self.why),
        }
    }
}
