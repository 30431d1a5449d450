//! Pipes and splicing: payload reaches a socket without passing through this process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::{Result, SysError};

/// Requested pipe size: the default limit for unprivileged processes (`fs.pipe-max-size`).
pub(crate) const PIPE_BYTES: usize = 1 << 20;

/// Payload that is kept in a pipe and sent repeatedly. `tee(2)` duplicates references to its pages
/// into a second pipe, and `splice(2)` moves them to the socket. No byte is copied.
#[derive(Debug)]
pub struct Splicer {
    source: Pipe,
    outgoing: Pipe,
    /// Bytes in `source`.
    stored: usize,
    /// Bytes in `outgoing` that are duplicated but not yet moved.
    pending: usize,
}

/// Both ends of a non-blocking pipe of the largest possible size.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) reader: OwnedFd,
    pub(crate) writer: OwnedFd,
}

impl Pipe {
    pub(crate) fn new() -> Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|cause| SysError::new("create", "a pipe", cause))?;
        // A smaller pipe only means more calls.
        let _: Result<usize, _> = rustix::pipe::fcntl_setpipe_size(&writer, PIPE_BYTES);
        Ok(Self { reader, writer })
    }
}

impl Splicer {
    /// Stores as much of `payload` as a pipe can take.
    ///
    /// # Errors
    /// If no pipe can be created.
    pub fn new(payload: &[u8]) -> Result<Self> {
        let (source, outgoing) = (Pipe::new()?, Pipe::new()?);
        let error = |cause| SysError::new("fill", "a pipe", cause);
        let room = rustix::pipe::fcntl_getpipe_size(&source.writer).map_err(error)?;
        let stored = rustix::io::write(&source.writer, &payload[..payload.len().min(room)])
            .map_err(error)?;
        Ok(Self { source, outgoing, stored, pending: 0 })
    }

    /// Moves up to `bytes` to `socket`, at most the contents of the pipe. Returns the number of
    /// bytes moved.
    ///
    /// # Errors
    /// As `splice(2)`; `WouldBlock` if a non-blocking socket is full or a timeout has passed.
    pub fn send(&mut self, socket: &impl AsFd, bytes: usize) -> io::Result<usize> {
        if self.pending == 0 {
            let wanted = bytes.min(self.stored);
            self.pending = rustix::pipe::tee(
                &self.source.reader,
                &self.outgoing.writer,
                wanted,
                SpliceFlags::NONBLOCK,
            )?;
        }
        let moved = rustix::pipe::splice(
            &self.outgoing.reader,
            None,
            socket,
            None,
            self.pending,
            SpliceFlags::MOVE,
        )?;
        self.pending -= moved;
        Ok(moved)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    pub(crate) fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
        (near, listener.accept().expect("accept").0)
    }

    pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|idx| (idx % 251) as u8).collect()
    }

    #[test]
    fn a_splicer_sends_the_same_payload_every_time() {
        let (near, mut far) = pair();
        let mut splicer = Splicer::new(&pattern(5_000)).expect("a pipe");
        for _ in 0..3 {
            let mut moved = 0;
            while moved < 5_000 {
                moved += splicer.send(&near, 5_000 - moved).expect("fits the buffer");
            }
        }
        drop(near);
        let mut received = Vec::new();
        far.read_to_end(&mut received).expect("until the end");
        assert_eq!(received, [pattern(5_000), pattern(5_000), pattern(5_000)].concat());
    }
}
