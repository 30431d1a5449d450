//! Sender: a socket, the clock and a schedule.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use linerate_sys::SysError;
use linerate_sys::clock::{monotonic, realtime, realtime_error};
use linerate_sys::readiness::{Interest, Readiness};
use linerate_sys::socket::set_dscp;
use linerate_sys::udp::{ReceiveBatch, Wait, stamp_arrivals};

use crate::auth::{Key, SEAL_BYTES};
use crate::session::Session;
use crate::wire::{BASE_BYTES, COUNTED_BYTES, ErrorEstimate, TestPacket};

/// Session as a person asked for it.
#[derive(Clone, Copy, Debug)]
pub struct SendOptions {
    /// Reflector.
    pub to: SocketAddr,
    /// Address of this end; any without.
    pub local: Option<std::net::IpAddr>,
    /// Time between two packets.
    pub gap: Duration,
    /// Packets.
    pub n_packets: u32,
    /// Length of the UDP payload; less where that is too short for a packet.
    pub bytes: usize,
    /// Code point (DSCP) of the IP header.
    pub dscp: Option<u8>,
    /// Longest wait for replies behind the last packet.
    pub patience: Duration,
    /// Identifier of the session, not 0.
    pub session: u16,
}

/// Session that has ended.
#[derive(Debug)]
pub struct Outcome {
    /// Packets and replies.
    pub session: Session,
    /// Address of this end.
    pub local: SocketAddr,
    /// Length of each packet, UDP payload.
    pub bytes: usize,
    /// Bound of the error of this host's clock.
    pub error: ErrorEstimate,
    /// Change of this host's wall clock during the session beside its monotonic clock, ns.
    pub stepped_ns: i128,
    /// Packets that left more than half a gap late.
    pub n_late: u32,
    /// True if the session was ended early.
    pub is_cut: bool,
}

/// Reason for which a session was not run.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// A system call failed.
    #[error(transparent)]
    Sys(#[from] SysError),
    /// Nothing listens at the reflector's port.
    #[error(
        "{0}: nothing listens at its port (ICMP port unreachable). Is a reflector running there? \
            Start one with `linerate serve stamp`"
    )]
    Refused(SocketAddr),
}

/// Time before the clock's own bound is known.
const UNKNOWN_ERROR_NS: u64 = 16_000_000_000;
/// Received messages per call.
const BATCH: usize = 16;
/// Longest wait of one call, so that an interrupt is seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Returns the bound of the error of this host's clock.
#[must_use]
pub fn clock_error() -> ErrorEstimate {
    let known = realtime_error();
    let most_ns = known.map_or(UNKNOWN_ERROR_NS, |error| error.most_ns);
    ErrorEstimate::at_least(most_ns, known.is_some_and(|error| error.is_synchronized))
}

fn open(options: &SendOptions) -> Result<UdpSocket, SendError> {
    let any = match options.to {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let local = SocketAddr::new(options.local.unwrap_or(any), 0);
    let error = |action, at: SocketAddr, cause| SysError::new(action, at.to_string(), cause);
    let socket = UdpSocket::bind(local).map_err(|cause| error("bind", local, cause))?;
    socket.connect(options.to).map_err(|cause| error("connect to", options.to, cause))?;
    stamp_arrivals(&socket)?;
    if let Some(point) = options.dscp {
        set_dscp(&socket, point)?;
    }
    Ok(socket)
}

/// Difference of the wall clock and the monotonic clock, ns.
fn wall() -> i128 {
    i128::from(realtime()) - i128::from(monotonic())
}

/// Runs a session, with authentication if there is a key. `on_progress` sees it before each packet,
/// and a session ends early once `is_stopped` returns true.
///
/// # Errors
/// If the socket cannot be opened, or nothing listens at the reflector's port.
pub fn send(
    options: &SendOptions,
    key: Option<&Key>,
    on_progress: &mut dyn FnMut(&Session),
    is_stopped: &dyn Fn() -> bool,
) -> Result<Outcome, SendError> {
    let socket = open(options)?;
    let local = socket.local_addr();
    let local = local.map_err(|cause| SysError::new("read the address of", "a socket", cause))?;
    let readiness = Readiness::new()?;
    readiness.add(&socket, 0, Interest::Readable)?;
    let (error, wall_before, begun) = (clock_error(), wall(), monotonic());
    let gap = options.gap.as_nanos().try_into().unwrap_or(u64::MAX).max(1);
    let mut run = Run {
        replies: ReceiveBatch::new(BATCH, options.bytes.max(COUNTED_BYTES + SEAL_BYTES)),
        session: Session::default(),
        socket,
        readiness,
        options,
        key,
    };
    let (mut n_late, mut bytes) = (0, BASE_BYTES);
    let mut next = begun;
    while run.session.n_sent() < options.n_packets && !is_stopped() {
        run.receive_until(next, is_stopped)?;
        on_progress(&run.session);
        n_late += u32::from(monotonic().saturating_sub(next) > gap / 2);
        bytes = run.send_one(error)?;
        next += gap;
    }
    let is_cut = run.session.n_sent() < options.n_packets;
    let patience = options.patience.as_nanos().try_into().unwrap_or(u64::MAX);
    let until = monotonic().saturating_add(patience);
    while run.session.n_replied() < run.session.n_sent() && monotonic() < until && !is_stopped() {
        run.receive_until(until.min(monotonic() + LOOK_EVERY.as_nanos() as u64), is_stopped)?;
    }
    on_progress(&run.session);
    let stepped_ns = wall() - wall_before;
    Ok(Outcome { session: run.session, local, bytes, error, stepped_ns, n_late, is_cut })
}

/// Session while it runs.
struct Run<'a> {
    socket: UdpSocket,
    readiness: Readiness,
    options: &'a SendOptions,
    key: Option<&'a Key>,
    session: Session,
    replies: ReceiveBatch,
}

impl Run<'_> {
    /// Sends the next packet; returns its length.
    fn send_one(&mut self, error: ErrorEstimate) -> Result<usize, SendError> {
        let number = self.session.n_sent();
        let mut test = TestPacket {
            number,
            sent_ns: 0,
            error,
            session: self.options.session,
            n_sent: Some(number + 1),
        };
        // As late as possible.
        test.sent_ns = realtime();
        let packet = match self.key {
            None => test.to_bytes(self.options.bytes),
            Some(key) => {
                key.seal_test(&test.to_bytes(self.options.bytes.saturating_sub(SEAL_BYTES)))
            }
        };
        self.session.sent(test.sent_ns);
        match self.socket.send(&packet) {
            Ok(_) => Ok(packet.len()),
            Err(cause) => self.failed("send to", cause).map(|()| packet.len()),
        }
    }

    /// Returns the error of a call, unless packets are merely lost on the way.
    fn failed(&self, action: &'static str, cause: io::Error) -> Result<(), SendError> {
        match cause.kind() {
            io::ErrorKind::ConnectionRefused if self.session.n_replied() == 0 => {
                Err(SendError::Refused(self.options.to))
            }
            // A reflector that ends in the middle, or a route that changes, is a loss.
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable => Ok(()),
            _ => Err(SysError::new(action, self.options.to.to_string(), cause).into()),
        }
    }

    /// Receives replies until `until` on the monotonic clock.
    fn receive_until(
        &mut self,
        until: u64,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), SendError> {
        loop {
            match self.replies.receive(&self.socket, Wait::Never) {
                Ok(n) => {
                    let now = realtime();
                    for reply in (0..n).map(|at| self.replies.message(at)) {
                        let received_ns = reply.stamp_ns.unwrap_or(now);
                        let opened = self.key.map(|key| key.open_reply(reply.visible));
                        let packet = match &opened {
                            None => reply.visible,
                            Some(Some(plain)) => plain,
                            // No reply of this session.
                            Some(None) => &[],
                        };
                        self.session.take(packet, self.options.session, received_ns);
                    }
                    continue;
                }
                Err(cause) if is_wait(&cause) => {}
                Err(cause) => self.failed("receive from", cause)?,
            }
            let left = Duration::from_nanos(until.saturating_sub(monotonic()));
            if left.is_zero() || is_stopped() {
                return Ok(());
            }
            self.readiness.is_ready_within(left.min(LOOK_EVERY));
        }
    }
}

/// Returns true if a call failed only because nothing arrived in time.
pub(crate) fn is_wait(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
