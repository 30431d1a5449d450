//! Streams with a deadline, which any owner can lift.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Deadline of reads, shared by all owners of a stream. It limits the sum of all reads, so that a
/// peer gains nothing by sending one byte a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadline(Arc<Mutex<Option<Instant>>>);

impl Deadline {
    pub(crate) fn at(instant: Instant) -> Self {
        Self(Arc::new(Mutex::new(Some(instant))))
    }

    /// Removes the deadline.
    pub(crate) fn lift(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let deadline = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
            Some(left) if left.is_zero() => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

/// Stream socket of either family.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Socket with a deadline.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) socket: Socket,
    pub(crate) deadline: Deadline,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.left()?;
        match &mut self.socket {
            Socket::Tcp(socket) => socket.set_read_timeout(left).and_then(|()| socket.read(buffer)),
            Socket::Unix(socket) => {
                socket.set_read_timeout(left).and_then(|()| socket.read(buffer))
            }
        }
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.deadline.left()?;
        match &mut self.socket {
            Socket::Tcp(socket) => {
                socket.set_write_timeout(left).and_then(|()| socket.write(bytes))
            }
            Socket::Unix(socket) => {
                socket.set_write_timeout(left).and_then(|()| socket.write(bytes))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
