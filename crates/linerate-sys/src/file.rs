//! Files as sources and sinks of sockets: the kernel moves the payload by itself. Also: dropping a
//! file from the page cache.
//!
//! Positions and lengths are bytes. No function waits for a non-blocking socket. Reading from a
//! file that is not in the page cache waits for its disk, and so does writing while too much is
//! dirty.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::Advice;
use rustix::pipe::{SpliceFlags, splice};

use crate::pipe::{PIPE_BYTES, Pipe};
use crate::{Result, SysError};

/// Bytes per read while a pipe is emptied.
const WASTE_BYTES: usize = 4096;

/// Creates a file in memory with these contents (`memfd_create`).
///
/// # Errors
/// If there is not enough memory.
pub fn in_memory(contents: &[u8]) -> Result<File> {
    let error = |cause: io::Error| {
        SysError::new("create", format!("a memory file of {} bytes", contents.len()), cause)
    };
    let made = rustix::fs::memfd_create("linerate source", rustix::fs::MemfdFlags::CLOEXEC);
    let file = File::from(made.map_err(|cause| error(cause.into()))?);
    io::Write::write_all(&mut &file, contents).map_err(error)?;
    Ok(file)
}

/// Sends up to `bytes` of `file` from `offset` on (`sendfile(2)`). Returns the number of bytes that
/// the socket accepted; 0 at the end of the file.
///
/// # Errors
/// As `sendfile(2)`; `WouldBlock` if the socket is full.
#[inline]
pub fn send(socket: &impl AsFd, file: &File, offset: u64, bytes: usize) -> io::Result<usize> {
    let mut at = offset;
    Ok(rustix::fs::sendfile(socket, file, Some(&mut at), bytes)?)
}

/// File in memory, to send from.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    bytes: usize,
}

impl MemoryFile {
    /// Creates a file with these contents.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(contents: &[u8]) -> Result<Self> {
        Ok(Self { file: in_memory(contents)?, bytes: contents.len() })
    }

    /// Sends up to `bytes` from `offset` on, at most to the end of the file. Returns the number of
    /// bytes sent.
    ///
    /// # Errors
    /// As [`send`]; also `WouldBlock` if a timeout has passed.
    pub fn send(&self, socket: &impl AsFd, offset: usize, bytes: usize) -> io::Result<usize> {
        send(socket, &self.file, offset as u64, bytes.min(self.bytes.saturating_sub(offset)))
    }
}

/// Drops `bytes` of `file` from `offset` on from the page cache, as far as they are on the disk
/// (`POSIX_FADV_DONTNEED`).
///
/// # Errors
/// If the file has no page cache.
pub fn forget(file: &File, offset: u64, bytes: u64) -> Result<()> {
    let forgotten =
        rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(bytes), Advice::DontNeed);
    forgotten.map_err(|cause| {
        SysError::new("drop from the page cache", format!("{bytes} bytes of a file"), cause)
    })
}

/// Pipe between a file and a socket. `splice(2)` moves references to pages through it; no byte is
/// copied to this process.
#[derive(Debug)]
pub struct Splice {
    pipe: Pipe,
    /// Bytes in the pipe.
    held: usize,
}

impl Splice {
    /// Creates an empty pipe.
    ///
    /// # Errors
    /// If no pipe can be created.
    pub fn new() -> Result<Self> {
        Ok(Self { pipe: Pipe::new()?, held: 0 })
    }

    /// Moves up to `bytes` of `file` to `socket`. Returns the number of bytes that the socket
    /// accepted; 0 at the end of the file. `offset` is the position of the first byte that the
    /// socket has not accepted. Bytes that are already in the pipe go first.
    ///
    /// # Errors
    /// As `splice(2)`; `WouldBlock` if the socket is full.
    pub fn send(
        &mut self,
        socket: &impl AsFd,
        file: &File,
        offset: u64,
        bytes: usize,
    ) -> io::Result<usize> {
        if self.held == 0 {
            let (wanted, mut at) = (bytes.min(PIPE_BYTES), offset);
            self.held =
                splice(file, Some(&mut at), &self.pipe.writer, None, wanted, SpliceFlags::MOVE)?;
            if self.held == 0 {
                return Ok(0);
            }
        }
        let moved =
            splice(&self.pipe.reader, None, socket, None, self.held, SpliceFlags::NONBLOCK)?;
        self.held -= moved;
        Ok(moved)
    }

    /// Moves up to `bytes` from `socket` to `file` at `offset`. Returns the number of bytes moved;
    /// 0 at the end of the connection.
    ///
    /// # Errors
    /// As `splice(2)`; `WouldBlock` if nothing has arrived.
    pub fn receive(
        &mut self,
        socket: &impl AsFd,
        file: &File,
        offset: u64,
        bytes: usize,
    ) -> io::Result<usize> {
        let wanted = bytes.min(PIPE_BYTES);
        self.held = splice(socket, None, &self.pipe.writer, None, wanted, SpliceFlags::NONBLOCK)?;
        let (came, mut at) = (self.held, offset);
        while self.held > 0 {
            let moved =
                splice(&self.pipe.reader, None, file, Some(&mut at), self.held, SpliceFlags::MOVE)?;
            if moved == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.held -= moved;
        }
        Ok(came)
    }

    /// Discards the bytes that an aborted transfer left in the pipe.
    pub fn clear(&mut self) {
        let mut waste = [0; WASTE_BYTES];
        while self.held > 0 {
            match rustix::io::read(&self.pipe.reader, &mut waste) {
                Ok(n) if n > 0 => self.held = self.held.saturating_sub(n),
                _ => self.held = 0,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::pipe::tests::{pair, pattern};

    #[test]
    fn a_file_is_sent_by_both_ways_from_any_place_to_its_end() {
        let file = in_memory(&pattern(10_000)).expect("memory");
        let mut splice = Splice::new().expect("a pipe");
        let (near, mut far) = pair();
        assert_eq!(send(&near, &file, 9_000, 5_000).expect("fits the buffer"), 1_000);
        assert_eq!(send(&near, &file, 10_000, 5_000).expect("the end"), 0);
        assert_eq!(splice.send(&near, &file, 4_000, 500).expect("fits the buffer"), 500);
        assert_eq!(splice.send(&near, &file, 10_000, 500).expect("the end"), 0);
        drop(near);
        let mut received = Vec::new();
        far.read_to_end(&mut received).expect("until the end");
        assert_eq!(received, [&pattern(10_000)[9_000..], &pattern(10_000)[4_000..4_500]].concat());
    }

    #[test]
    fn a_memory_file_sends_its_contents_from_any_offset_to_its_end() {
        let (near, mut far) = pair();
        let file = MemoryFile::new(&pattern(10_000)).expect("memory");
        assert_eq!(file.send(&near, 9_000, 5_000).expect("fits the buffer"), 1_000);
        drop(near);
        let mut received = Vec::new();
        far.read_to_end(&mut received).expect("until the end");
        assert_eq!(received, &pattern(10_000)[9_000..]);
    }

    #[test]
    fn what_comes_is_spliced_to_its_place_in_a_file() {
        let file = tempfile_of(4096);
        let mut splice = Splice::new().expect("a pipe");
        let (mut near, far) = pair();
        near.write_all(&pattern(3_000)).expect("fits");
        drop(near);
        let mut came = 0;
        while came < 3_000 {
            came += splice.receive(&far, &file, 1_000 + came as u64, 8192).expect("it is there");
        }
        assert_eq!(splice.receive(&far, &file, 4_000, 8192).expect("the end"), 0);
        let mut read = vec![0; 3_000];
        file.read_exact_at(&mut read, 1_000).expect("it was written");
        assert_eq!(read, pattern(3_000));
        forget(&file, 0, 4096).expect("a file on a disk");
    }

    fn tempfile_of(bytes: u64) -> File {
        let file = rustix::fs::open(
            "/var/tmp",
            rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        );
        let file = File::from(file.expect("a file without a name"));
        file.set_len(bytes).expect("room");
        file
    }
}
