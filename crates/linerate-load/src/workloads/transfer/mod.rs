//! Common part of file transfers, for every protocol: the source of a file's bytes, the calls that
//! send and receive them, their sink, the times of the parts of a transfer, and the workers of both
//! ends.
//!
//! Units: bytes of files (L4 payload without heads and commands), nanoseconds. A protocol is a
//! [`Session`] at the active end and a [`Guest`] at the passive one, both state machines that never
//! wait.

mod client;
mod common;
mod course;
mod dates;
mod digest;
mod direct;
mod failure;
mod flusher;
mod incoming;
mod names;
mod outgoing;
mod params;
pub(crate) mod percent;
mod server;
mod start;
mod store;
mod tls;
mod tls_params;
mod tree;
mod url;
mod watched;

use std::io;

use linerate_model::Nanos;
use linerate_sys::memory::Region;
use linerate_sys::readiness::Readiness;
use socket2::Socket;

pub(crate) use client::Session;
pub(crate) use common::Common;
pub(crate) use course::{Account, Course};
pub(crate) use failure::{Failure, TransferStage};
pub(crate) use incoming::Incoming;
pub(crate) use names::Names;
pub(crate) use outgoing::{Outgoing, Part, Sent};
pub(crate) use params::Clients;
pub(crate) use server::Guest;
pub(crate) use start::{Dial, Opening, Protocol, Transfers};
pub(crate) use tls::{Security, Shaken};
pub(crate) use tree::{Form, FoundPath, Tree, resolve};
pub(crate) use url::Url;
pub(crate) use watched::Watched;

use crate::workloads::proof::word;
use crate::workloads::rendezvous::would_wait;
use crate::{Secret, Tally};

/// Resources that a worker lends its state machines for one turn.
pub(crate) struct Bench<'a> {
    /// Start of the step.
    pub(crate) now: Nanos,
    /// Buffer of copying transfers.
    pub(crate) buffer: &'a mut Region,
    /// Set of watched sockets.
    pub(crate) readiness: &'a Readiness,
    /// Counters.
    pub(crate) tally: &'a mut Tally,
}

/// Outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Something moved; there may be more.
    Moved,
    /// Nothing more until a socket is ready.
    Network,
    /// Nothing more before this time.
    Until(Nanos),
    /// A file is complete, or a guest has gone.
    Done,
}

/// Returns a word that only the trial's ends know, as text, for protocols that send text and may be
/// overheard.
pub(crate) fn spelled(secret: Secret) -> String {
    word(secret, b"file transfer").0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the outcome of a call that never waits; `None` if it would have waited.
pub(crate) fn unless_it_would_wait<T>(answer: io::Result<T>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(outcome) => Ok(Some(outcome)),
        Err(error) if would_wait(&error) => Ok(None),
        Err(error) => Err(Failure::io(&error)),
    }
}

/// Returns true if `error` means that a connection is being opened.
pub(crate) fn is_connecting(error: &io::Error) -> bool {
    /// Linux `include/uapi/asm-generic/errno.h`.
    const EALREADY: i32 = 114;
    /// Likewise.
    const EINPROGRESS: i32 = 115;
    matches!(error.raw_os_error(), Some(EALREADY | EINPROGRESS))
}

/// Continues to open a connection; returns true once it is open.
pub(crate) fn connected(socket: &Socket, remote: &socket2::SockAddr) -> Result<bool, Failure> {
    /// Completion of a pending connect. Linux `include/uapi/asm-generic/errno.h`.
    const EISCONN: i32 = 106;
    match socket.connect(remote) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(EISCONN) => Ok(true),
        Err(error) if is_connecting(&error) => Ok(false),
        Err(error) => Err(Failure::io(&error)),
    }
}
