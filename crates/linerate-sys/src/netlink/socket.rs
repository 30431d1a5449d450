//! Netlink socket of any protocol: one request at a time, with its answers.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::message::{FLAG_DUMP, FLAG_REQUEST, Part, parts, write};
use crate::error::Refusal;
use crate::{Result, SysError, clock};

/// Size of the largest datagram in a dump.
const RECEIVE_BUFFER: usize = 64 * 1024;
/// The kernel answers at once. A slower answer is a fault, and a reader must never hang.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// An open socket.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    request: Vec<u8>,
    answer: Vec<u8>,
    sequence: u32,
}

/// Reason for a missing answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The kernel refused it.
    Refused(Refusal),
    /// It could not be sent, or no answer arrived in time (`EAGAIN`).
    Failed(Errno),
}

impl From<Errno> for Unanswered {
    fn from(cause: Errno) -> Self {
        Self::Failed(cause)
    }
}

impl Unanswered {
    /// Converts to an error of `operation` on `object`.
    pub(super) fn during(self, operation: &'static str, object: impl Into<String>) -> SysError {
        match self {
            Self::Refused(refusal) => SysError::new(operation, object, refusal),
            Self::Failed(cause) => SysError::new(operation, object, cause),
        }
    }
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace.
    pub(super) fn open(protocol: Option<Protocol>, object: &'static str) -> Result<Self> {
        let wrap = |cause: Errno| SysError::new("open", object, cause);
        let fd = net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        );
        let fd = fd.map_err(wrap)?;
        net::sockopt::set_socket_timeout(&fd, net::sockopt::Timeout::Recv, Some(PATIENCE))
            .map_err(wrap)?;
        // Before Linux 4.12 there are no explanations; error numbers are enough.
        let _words = crate::socket::raw::set(&fd, libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, &1_i32);
        Ok(Self { fd, request: Vec::new(), answer: vec![0; RECEIVE_BUFFER], sequence: 0 })
    }

    /// Visits every answer to a dump. Allocates only on the first call.
    pub(super) fn dump(
        &mut self,
        kind: u16,
        body: &[u8],
        what: &str,
        visit: impl FnMut(&[u8]),
    ) -> Result<()> {
        self.walk(kind, &[body], visit).map_err(|unanswered| unanswered.during("dump", what))
    }

    fn walk(
        &mut self,
        kind: u16,
        pieces: &[&[u8]],
        mut visit: impl FnMut(&[u8]),
    ) -> Result<(), Unanswered> {
        self.send(kind, FLAG_REQUEST | FLAG_DUMP, pieces)?;
        loop {
            for part in self.receive()? {
                match part {
                    Part::Payload(payload) => visit(payload),
                    Part::End => return Ok(()),
                    Part::Refused(refusal) => return Err(Unanswered::Refused(refusal)),
                }
            }
        }
    }

    /// Sends one request with a single answer; returns the answer's payload, empty for an
    /// acknowledgement.
    pub(super) fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        pieces: &[&[u8]],
        patience: Duration,
    ) -> Result<Vec<u8>, Unanswered> {
        let mut answer = Vec::new();
        self.look(kind, flags, pieces, patience, |payload| answer.extend(payload))?;
        Ok(answer)
    }

    /// Sends one request and visits the payload of its single answer, but not an acknowledgement.
    /// Allocates only on the first call.
    pub(super) fn look(
        &mut self,
        kind: u16,
        flags: u16,
        pieces: &[&[u8]],
        patience: Duration,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<(), Unanswered> {
        let until = clock::monotonic() + patience.as_nanos() as u64;
        self.send(kind, FLAG_REQUEST | flags, pieces)?;
        let mut left = patience;
        let answered = loop {
            // A timeout of zero would mean forever.
            if left.is_zero() {
                break Err(Unanswered::Failed(Errno::AGAIN));
            }
            self.be_patient(left)?;
            match self.receive().map(|mut parts| parts.next()) {
                Ok(Some(Part::Payload(payload))) => {
                    visit(payload);
                    break Ok(());
                }
                Ok(Some(Part::End)) => break Ok(()),
                Ok(Some(Part::Refused(refusal))) => break Err(Unanswered::Refused(refusal)),
                Ok(None) => left = Duration::from_nanos(until.saturating_sub(clock::monotonic())),
                Err(cause) => break Err(Unanswered::Failed(cause)),
            }
        };
        self.be_patient(PATIENCE)?;
        answered
    }

    fn be_patient(&self, patience: Duration) -> Result<(), Errno> {
        net::sockopt::set_socket_timeout(&self.fd, net::sockopt::Timeout::Recv, Some(patience))
    }

    fn send(&mut self, kind: u16, flags: u16, pieces: &[&[u8]]) -> Result<(), Errno> {
        self.sequence = self.sequence.wrapping_add(1);
        write(&mut self.request, kind, flags, self.sequence, pieces);
        net::send(&self.fd, &self.request, SendFlags::empty()).map(drop)
    }

    /// Returns the parts of the next datagram that answer the last request.
    fn receive(&mut self) -> Result<impl Iterator<Item = Part<'_>>, Errno> {
        let (received, _) = net::recv(&self.fd, &mut self.answer[..], RecvFlags::empty())?;
        Ok(parts(&self.answer[..received], self.sequence))
    }
}
