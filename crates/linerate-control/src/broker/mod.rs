//! Two processes in place of one: the one that speaks with conductors has no rights, and asks the
//! other one for what needs some.
//!
//! ```text
//! conductor -- TLS --> agent: parses messages, runs the load.            no rights of the account: linerate_sys::sandbox
//!                        |  a typed request, one at a time, descriptors
//!                      broker: looks the request up in the policy.       rights of the account that started the agent
//! ```
//!
//! The broker ([`keep`]) is split off before there are threads and lives as long as the agent. It
//! knows the host's policy by itself, so that an agent that was taken over gets no more than the
//! policy gives every conductor. It answers the requests of [`Request`] and no other. When the
//! agent ends, however it does, the broker puts back the settings it has changed, and ends.

use std::net::SocketAddr;
use std::path::PathBuf;

use linerate_disk::Synchrony;
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

/// Longest message, bytes: a host's facts and its list of peers are the largest.
const MESSAGE_LIMIT: usize = 16 << 20;
/// Descriptors with a message: a generator of live frames has seven.
const MOST_DESCRIPTORS: usize = 7;

/// What the agent may ask for. A descriptor that a request is about comes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// The hosts that this one has been paired with.
    Peers,
    /// What this host is.
    Facts,
    /// Bind the socket.
    Bind { address: SocketAddr },
    /// Set an option of the socket.
    Option(OptionText),
    /// A packet socket for frames of `device` of this EtherType.
    PacketSocket { device: String, ethertype: u16 },
    /// An AF_XDP socket for frames of `device`.
    XdpSocket { device: String },
    /// A program that takes matching frames of `device`.
    AttachFilter {
        device: String,
        alternatives: Vec<Vec<MatchText>>,
        placement: Option<PlacementText>,
        multi_buffer: bool,
    },
    /// A program that makes live frames for `device`.
    LiveFrames { device: String, rows: Vec<RowText>, shape: ShapeText },
    /// An event counter of a CPU, in the group of the descriptor if there is one.
    Counter { counter: CounterText, cpu: u32 },
    /// A thread of the agent that runs before those of other programs.
    RunFirst { thread: i32 },
    /// CPUs that do not sleep deeply while the answer is open.
    KeepAwake,
    /// Settings of the host.
    Tune(TuneRequest),
    /// Put back what was changed; for good if the agent is about to end.
    PutBack { for_good: bool },
    /// A disk or file of a session.
    Open { session: u64, path: PathBuf, write: bool, consent: Option<String> },
    /// A scratch file of a session.
    Scratch { session: u64, folder: PathBuf, size: u64 },
    /// Whether a scratch file may be made in `path`, and it is a folder.
    IsFolder { path: PathBuf },
    /// Another descriptor of a target.
    Reopen { session: u64, number: u64, write: bool, direct: bool, synchrony: Synchrony },
    /// Let go of a target.
    Release { session: u64, number: u64 },
    /// Let go of all that a session has.
    EndSession { session: u64 },
}

/// [`linerate_sys::privilege::SocketOption`] between two processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OptionText {
    SendBuffer(u64),
    ReceiveBuffer(u64),
    BusyPoll(u32),
    Congestion(String),
}

/// [`linerate_sys::xdp::Match`] between two processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MatchText {
    offset: u16,
    value: Vec<u8>,
    mask: Vec<u8>,
}

/// [`linerate_sys::live::Row`] between two processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RowText {
    frame: Vec<u8>,
    sum: u32,
    flow: u32,
}

/// [`linerate_sys::live::Shape`] between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ShapeText {
    header_bytes: usize,
    checksum_at: usize,
    stamp_at: usize,
    random_ports_at: Option<usize>,
}

/// [`linerate_sys::xdp::Placement`] between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PlacementText {
    Native,
    Generic,
}

/// The counters of [`linerate_sys::perf::Counter`] that samplers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CounterText {
    Cycles,
    Instructions,
    CacheMisses,
    CpuClock,
    TaskClock,
    ContextSwitches,
    Migrations,
    PageFaults,
}

/// A refusal: the kernel's number, if it is the kernel's, and words.
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

    /// As the caller of the kernel would have it; a refusal of the policy is one of permission.
    fn into_io(self) -> std::io::Error {
        match self.code {
            Some(code) => std::io::Error::from_raw_os_error(code),
            None => std::io::Error::new(std::io::ErrorKind::PermissionDenied, self.why),
        }
    }
}
