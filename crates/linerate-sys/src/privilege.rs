//! Operations that need a privilege, and the helper that performs them for a process without it.
//!
//! A process with root privileges calls the kernel itself. A process that has dropped them
//! ([`crate::sandbox`]) registers a [`Helper`] once: a privileged process that decides on each
//! request. Each function here tries the kernel first, so that an operation that needs no privilege
//! never reaches the helper.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::live::{Row, Shape};
use crate::perf;
use crate::xdp::{Match, Placement};

/// Socket option that only a privileged process may set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketOption {
    /// `SO_SNDBUFFORCE`, bytes.
    SendBuffer(usize),
    /// `SO_RCVBUFFORCE`, bytes.
    ReceiveBuffer(usize),
    /// `SO_BUSY_POLL` above its present value, microseconds.
    BusyPoll(u32),
    /// `TCP_CONGESTION`: an algorithm outside of the unprivileged list.
    Congestion(String),
}

/// Filter program that a helper attached to an interface. Closing the descriptors removes it.
#[derive(Debug)]
pub struct AttachedFilter {
    /// Where the program runs.
    pub placement: Placement,
    /// Link that keeps the program attached.
    pub link: OwnedFd,
    /// The program.
    pub program: OwnedFd,
    /// The program's map of AF_XDP sockets, indexed by receive queue.
    pub sockets: OwnedFd,
}

/// Generator of live frames that a helper created. Closing the descriptors removes it.
#[derive(Debug)]
pub struct LiveParts {
    /// Program that creates the frames. Loading it needs a privilege; running it does not (since
    /// Linux 5.19).
    pub program: OwnedFd,
    /// Words that the program shares with the process that runs it.
    pub state: OwnedFd,
    /// Counters per CPU of frames that drivers accepted.
    pub departures: OwnedFd,
    /// Links that keep the counting programs at their tracepoints.
    pub tracepoints: [OwnedFd; 2],
    /// Attachment and network namespace that keep the program where a run starts without delay.
    pub anchor: Option<[OwnedFd; 2]>,
}

/// Process with privileges that this process has dropped. It may refuse any request; the error
/// states the reason.
pub trait Helper: std::fmt::Debug + Send + Sync {
    /// Binds `socket` to `address`.
    ///
    /// # Errors
    /// If the helper refuses, or the kernel does.
    fn bind(&self, socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()>;

    /// Sets an option of `socket`.
    ///
    /// # Errors
    /// If the helper refuses, or the kernel does.
    fn set_option(&self, socket: BorrowedFd<'_>, option: SocketOption) -> io::Result<()>;

    /// Returns an unbound raw packet socket (`AF_PACKET`) for frames of `device` with this
    /// EtherType.
    ///
    /// # Errors
    /// If the helper refuses, or the kernel does.
    fn packet_socket(&self, device: &str, ethertype: u16) -> io::Result<OwnedFd>;

    /// Returns an unbound AF_XDP socket for frames of `device`.
    ///
    /// # Errors
    /// If the helper refuses, or the kernel does.
    fn xdp_socket(&self, device: &str) -> io::Result<OwnedFd>;

    /// Does the same as [`crate::xdp::Filter::attach`].
    ///
    /// # Errors
    /// If the helper refuses, or the kernel does.
    fn attach_filter(
        &self,
        device: &str,
        alternatives: &[&[Match]],
        placement: Option<Placement>,
        multi_buffer: bool,
    ) -> io::Result<AttachedFilter>;

    /// Does the same as [`crate::live::LiveFrames::parts`].
    ///
    /// # Errors
    /// If the helper refuses, or the kernel does.
    fn live_frames(&self, device: &str, rows: &[Row], shape: Shape) -> io::Result<LiveParts>;

    /// Returns a counter of all events on `cpu`, in the group of `leader` if there is one.
    ///
    /// # Errors
    /// If the helper refuses, or the kernel does.
    fn counter(
        &self,
        counter: perf::Counter,
        cpu: u32,
        leader: Option<BorrowedFd<'_>>,
    ) -> io::Result<OwnedFd>;

    /// Gives a thread of this process a real-time priority ([`crate::cpu::run_first`]).
    ///
    /// # Errors
    /// If the helper refuses, or the kernel does.
    fn run_first(&self, thread: i32) -> io::Result<()>;

    /// Returns a request to keep the CPUs awake, which is in force until it is closed
    /// ([`crate::cpu::Awake`]).
    ///
    /// # Errors
    /// If the helper refuses, or the kernel does.
    fn keep_awake(&self) -> io::Result<OwnedFd>;

    /// Asks for pass-through statistics over NC-SI through the kernel's own stack, once, and waits
    /// at most `patience`. Returns the attributes of the kernel's answer; none if none came.
    ///
    /// # Errors
    /// If the helper refuses, or the kernel does.
    fn sideband_statistics(&self, at: &Sideband, patience: Duration) -> io::Result<Vec<u8>>;
}

/// Channel of a network controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sideband {
    /// Interface that the controller is behind.
    pub device: String,
    /// Number of its package.
    pub package: u8,
    /// Number of the channel in the package.
    pub channel: u8,
}

/// Asks the helper for pass-through statistics ([`Helper::sideband_statistics`]); `None` in a
/// process that still has its privileges.
#[must_use]
pub fn sideband_statistics(at: &Sideband, patience: Duration) -> Option<io::Result<Vec<u8>>> {
    helped(|helper| helper.sideband_statistics(at, patience))
}

static HELPER: OnceLock<Arc<dyn Helper>> = OnceLock::new();

/// Registers the helper of this process. The first registration is final; later ones are ignored.
pub fn ask(helper: Arc<dyn Helper>) {
    let _second = HELPER.set(helper);
}

/// Returns a hint for refusals of operations that no helper performs. `None` in a process that
/// still has its privileges.
#[must_use]
pub fn remedy() -> Option<&'static str> {
    HELPER.get().map(|_| {
        "this agent's process has dropped its privileges; its owner can keep them \
        with `separate = false` in its policy"
    })
}

/// Returns the helper's answer, if there is a helper.
pub(crate) fn helped<T>(ask: impl FnOnce(&dyn Helper) -> io::Result<T>) -> Option<io::Result<T>> {
    HELPER.get().map(|helper| ask(&**helper))
}

/// Returns `answer`, or the helper's answer if the kernel refused for lack of a privilege.
pub(crate) fn or_helper<T>(
    answer: io::Result<T>,
    ask: impl FnOnce(&dyn Helper) -> io::Result<T>,
) -> io::Result<T> {
    match (answer, HELPER.get()) {
        (Err(error), Some(helper)) if error.kind() == io::ErrorKind::PermissionDenied => {
            ask(&**helper)
        }
        (answer, _) => answer,
    }
}
