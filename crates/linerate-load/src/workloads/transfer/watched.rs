//! Connection and its registration for readiness: the socket itself, or TLS over it, behind one
//! interface.

use std::io;
use std::net::Shutdown;

use linerate_model::Nanos;
use linerate_sys::readiness::Interest;
use linerate_sys::tcp;
use socket2::Socket;

use super::failure::Failure;
use super::tls::{Secured, Shaken};
use super::{Bench, Turn, unless_it_would_wait};

/// Socket and its registration for readiness.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) socket: Socket,
    /// Name by which the worker's readiness reports it.
    token: u64,
    secured: Option<Box<Secured>>,
    interest: Option<Interest>,
}

impl Watched {
    /// `token` is the name by which the worker's readiness is to report it.
    pub(crate) fn new(socket: Socket, token: u64) -> Self {
        Self { socket, token, secured: None, interest: None }
    }

    /// Uses TLS over the connection from now on; call [`Self::shake`] until it is done.
    pub(crate) fn secure(&mut self, secured: Secured) {
        self.secured = Some(Box::new(secured));
    }

    /// Continues the handshake; done at once without TLS.
    pub(crate) fn shake(&mut self) -> Result<Shaken, Failure> {
        match &mut self.secured {
            Some(secured) => secured.shake(&self.socket),
            None => Ok(Shaken::Done),
        }
    }

    /// Returns the negotiated version and cipher; `None` without TLS.
    pub(crate) fn cipher(&self) -> Option<String> {
        self.secured.as_ref().map(|secured| secured.cipher())
    }

    /// Returns true if TLS resumed an earlier connection's session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.secured.as_ref().is_some_and(|secured| secured.is_resumed())
    }

    /// Sends from `bytes`; returns how many were taken.
    ///
    /// # Errors
    /// As [`tcp::send`].
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.secured {
            Some(secured) => secured.send(&self.socket, bytes),
            None => tcp::send(&self.socket, bytes),
        }
    }

    /// Sends from `bytes`; returns how many were taken, or `None` if there was no room.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        unless_it_would_wait(self.send(bytes))
    }

    /// Hands buffered bytes to the kernel; returns true once it has all of them, as always without
    /// TLS.
    ///
    /// # Errors
    /// As [`tcp::send`].
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        self.secured.as_mut().map_or(Ok(true), |secured| secured.flush(&self.socket))
    }

    /// Receives into `bytes`; 0 is the end of the stream.
    ///
    /// # Errors
    /// As [`tcp::receive`], and if the bytes are not TLS.
    #[inline]
    pub(crate) fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.secured {
            Some(secured) => secured.receive(&self.socket, bytes),
            None => tcp::receive(&self.socket, bytes),
        }
    }

    /// Peeks at received bytes; they are received again afterwards.
    ///
    /// # Errors
    /// As [`Self::receive`].
    #[inline]
    pub(crate) fn peek(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.secured {
            Some(secured) => secured.peek(&self.socket, bytes),
            None => tcp::peek(&self.socket, bytes),
        }
    }

    /// Discards up to `most` bytes. The kernel does not copy them out unless they must be decrypted
    /// (into `scratch`).
    ///
    /// # Errors
    /// As [`Self::receive`].
    #[inline]
    pub(crate) fn discard(&mut self, most: usize, scratch: &mut [u8]) -> io::Result<usize> {
        match &mut self.secured {
            Some(secured) => {
                let most = most.min(scratch.len());
                secured.receive(&self.socket, &mut scratch[..most])
            }
            None => tcp::discard(&self.socket, most),
        }
    }

    /// Announces the end of sending, if the protocol has a message for it: an end without one might
    /// be an attacker's (RFC 8446 clause 6.1).
    pub(crate) fn take_leave(&mut self) {
        if let Some(secured) = &mut self.secured {
            secured.take_leave(&self.socket);
        }
    }

    /// Ends sending; receiving still works.
    pub(crate) fn end_sending(&mut self) {
        self.take_leave();
        // If the connection is gone already, the other end knows.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Waits for this kind of readiness: nothing more can be done until then.
    pub(crate) fn wait(&mut self, bench: &Bench<'_>, interest: Interest) -> Result<Turn, Failure> {
        let set = match self.interest {
            Some(known) if known == interest => return Ok(Turn::Network),
            Some(_) => bench.readiness.modify(&self.socket, self.token, interest),
            None => bench.readiness.add(&self.socket, self.token, interest),
        };
        self.interest = Some(interest);
        set.map(|()| Turn::Network).map_err(|error| Failure::io(&error.cause))
    }

    /// Suspends the registration of a connection that is ready but cannot be served now.
    pub(crate) fn rest(&mut self, bench: &Bench<'_>) {
        if self.interest.take().is_some() {
            // It fails only if the socket is not in the set, which is the goal.
            let _ = bench.readiness.remove(&self.socket);
        }
    }

    /// As [`Self::rest`], until this time.
    pub(crate) fn rest_until(&mut self, bench: &Bench<'_>, until: Nanos) -> Turn {
        self.rest(bench);
        Turn::Until(until)
    }

    /// Prepares for the next turn after a `turn` that received from the connection.
    pub(crate) fn after(&mut self, turn: Turn, bench: &Bench<'_>) -> Result<Turn, Failure> {
        match turn {
            Turn::Network => self.wait(bench, Interest::Readable),
            Turn::Until(time) => Ok(self.rest_until(bench, time)),
            Turn::Moved | Turn::Done => Ok(turn),
        }
    }
}
