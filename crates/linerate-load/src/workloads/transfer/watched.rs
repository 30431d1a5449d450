//! Connection and its registration for readiness: the socket itself, or TLS over it, behind one
//! interface.

use std::io;
use std::net::Shutdown;

use linerate_sys::readiness::{Interest, Readiness};
use linerate_sys::tcp;
use socket2::Socket;

use super::failure::Failure;
use super::tls::{Secured, Shaken};

/// Socket and its registration for readiness.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) socket: Socket,
    secured: Option<Box<Secured>>,
    interest: Option<Interest>,
}

impl Watched {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, secured: None, interest: None }
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

    /// Registers for this kind of readiness, reported as `token`.
    pub(crate) fn wait(
        &mut self,
        readiness: &Readiness,
        token: u64,
        interest: Interest,
    ) -> Result<(), Failure> {
        let set = match self.interest {
            Some(known) if known == interest => return Ok(()),
            Some(_) => readiness.modify(&self.socket, token, interest),
            None => readiness.add(&self.socket, token, interest),
        };
        self.interest = Some(interest);
        set.map_err(|error| Failure::io(&error.cause))
    }

    /// Suspends the registration of a connection that is ready but cannot be served now.
    pub(crate) fn rest(&mut self, readiness: &Readiness) {
        if self.interest.take().is_some() {
            // It fails only if the socket is not in the set, which is the goal.
            let _ = readiness.remove(&self.socket);
        }
    }
}
