//! What needs a privilege, and who does it for a process that has none.
//!
//! A process with the rights of root asks the kernel itself. One that gave them up
//! ([`crate::sandbox`]) names a [`Helper`] once: a process with those rights, which decides each
//! request by itself. Each call here tries the kernel first, so that nothing goes to a helper that
//! needs no privilege.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use crate::live::{Row, Shape};
use crate::perf;
use crate::xdp::{Match, Placement};

/// A socket option that only the privileged may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// `SO_SNDBUFFORCE`, bytes.
    SendBuffer(usize),
    /// `SO_RCVBUFFORCE`, bytes.
    ReceiveBuffer(usize),
    /// `SO_BUSY_POLL` above what it is, microseconds.
    BusyPoll(u32),
    /// `TCP_CONGESTION`: one that is not among those allowed to everybody.
    Congestion(String),
}

/// A program at an interface as a helper attached it: it is gone when these are closed.
#[derive(Debug)]
pub struct AttachedFilter {
    /// Where it runs.
    pub placement: Placement,
    /// The link that keeps it there.
    pub link: OwnedFd,
    /// The program.
    pub program: OwnedFd,
    /// Its map of AF_XDP sockets, by receive queue.
    pub sockets: OwnedFd,
}

/// A generator of live frames as a helper made it: it is gone when these are closed.
#[derive(Debug)]
pub struct LiveParts {
    /// The program that makes the frames. Running it needs no privilege (since Linux 5.19), loading
    /// it does.
    pub program: OwnedFd,
    /// The words that it shares with whoever runs it.
    pub state: OwnedFd,
    /// Its counters of what drivers took, by CPU.
    pub departures: OwnedFd,
    /// What keeps the counting programs at their tracepoints.
    pub tracepoints: [OwnedFd; 2],
    /// What keeps the program where runs begin without a wait: an attachment and its network
    /// namespace.
    pub anchor: Option<[OwnedFd; 2]>,
}

/// A process with rights that this one gave up. Each request may be refused: the words of the error
/// say why.
pub trait Helper: std::fmt::Debug + Send + Sync {
    /// Binds `socket` to `address`.
    ///
    /// # Errors
    /// If it is refused, or the kernel cannot.
    fn bind(&self, socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()>;

    /// Sets an option of `socket`.
    ///
    /// # Errors
    /// If it is refused, or the kernel cannot.
    fn set_option(&self, socket: BorrowedFd<'_>, option: SocketOption) -> io::Result<()>;

    /// A packet socket (`AF_PACKET`, raw) that is not bound yet, for frames of `device` of this
    /// EtherType.
    ///
    /// # Errors
    /// If it is refused, or the kernel cannot.
    fn packet_socket(&self, device: &str, ethertype: u16) -> io::Result<OwnedFd>;

    /// An AF_XDP socket that is not bound yet, for frames of `device`.
    ///
    /// # Errors
    /// If it is refused, or the kernel cannot.
    fn xdp_socket(&self, device: &str) -> io::Result<OwnedFd>;

    /// What [`crate::xdp::Filter::attach`] does.
    ///
    /// # Errors
    /// If it is refused, or the kernel cannot.
    fn attach_filter(
        &self,
        device: &str,
        alternatives: &[&[Match]],
        placement: Option<Placement>,
        multi_buffer: bool,
    ) -> io::Result<AttachedFilter>;

    /// What [`crate::live::LiveFrames::parts`] makes.
    ///
    /// # Errors
    /// If it is refused, or the kernel cannot.
    fn live_frames(&self, device: &str, rows: &[Row], shape: Shape) -> io::Result<LiveParts>;

    /// An event counter of all that runs on `cpu`, in the group of `leader` if there is one.
    ///
    /// # Errors
    /// If it is refused, or the kernel cannot.
    fn counter(
        &self,
        counter: perf::Counter,
        cpu: u32,
        leader: Option<BorrowedFd<'_>>,
    ) -> io::Result<OwnedFd>;

    /// Has the thread of this number, one of this process, run first ([`crate::cpu::run_first`]).
    ///
    /// # Errors
    /// If it is refused, or the kernel cannot.
    fn run_first(&self, thread: i32) -> io::Result<()>;

    /// A request to keep the CPUs awake, in force while it is open ([`crate::cpu::Awake`]).
    ///
    /// # Errors
    /// If it is refused, or the kernel cannot.
    fn keep_awake(&self) -> io::Result<OwnedFd>;
}

static HELPER: OnceLock<Arc<dyn Helper>> = OnceLock::new();

/// Names the helper of this process, for good; a second one is not taken.
pub fn ask(helper: Arc<dyn Helper>) {
    let _second = HELPER.set(helper);
}

/// What a process that gave up its rights adds to a refusal of what no helper does; nothing in a
/// process that has them.
#[must_use]
pub fn remedy() -> Option<&'static str> {
    HELPER.get().map(|_| {
        "this agent's process gave up its rights; its owner can let it keep them, \
        with `separate = false` in its policy"
    })
}

/// What the helper answers, if there is one.
pub(crate) fn helped<T>(ask: impl FnOnce(&dyn Helper) -> io::Result<T>) -> Option<io::Result<T>> {
    HELPER.get().map(|helper| ask(&**helper))
}

/// `answer`, or that of the helper, if the kernel refused for want of a privilege and there is one.
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
