//! `MSG_ZEROCOPY` and its completions.
//!
//! The kernel may copy in spite of the flag (loopback, veth and many drivers do). Each completion
//! says if it did, so the count of copied sends separates a zero-copy figure from a copy with extra
//! work. One completion may stand for many sends.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::socket::{describe, raw as option};
use crate::{Result, SysError};

#[allow(unsafe_code)]
mod raw;

/// Sends that the kernel has completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// Sends completed.
    pub completed: u64,
    /// Completed sends that the kernel copied (`SO_EE_CODE_ZEROCOPY_COPIED`).
    pub copied: u64,
}

/// Allows zero-copy sends on `socket` (`SO_ZEROCOPY`).
///
/// # Errors
/// If the kernel or the protocol does not support them.
pub fn enable(socket: &impl AsFd) -> Result<()> {
    option::set_int(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)
        .map_err(|cause| SysError::new("set SO_ZEROCOPY of", describe(socket), cause))
}

/// Sends from `bytes` without a copy if the path allows it; returns the number of bytes that the
/// socket accepted. The pages stay pinned until completion. Data written to them before completion
/// may be sent.
///
/// # Errors
/// As `send(2)`. `ENOBUFS` (not [`io::ErrorKind::OutOfMemory`]) means that too many completions are
/// outstanding: see [`is_backlogged`].
#[inline]
pub fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    raw::send(socket, bytes)
}

/// Returns true if completions must be collected before another send can succeed
/// (`net.core.optmem_max` is exhausted).
#[must_use]
pub fn is_backlogged(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Collects all available completions; never waits.
pub fn completions(socket: &impl AsFd) -> Completions {
    let mut all = Completions::default();
    while let Some(one) = raw::completion(socket) {
        all.completed += one.completed;
        all.copied += one.copied;
    }
    all
}

/// Waits up to `patience` for a completion.
pub fn wait(socket: &impl AsFd, patience: Duration) {
    let timeout =
        Timespec { tv_sec: patience.as_secs() as _, tv_nsec: patience.subsec_nanos() as _ };
    // A non-empty error queue is reported as POLLERR, which poll always reports. After a signal or
    // a timeout the caller simply finds no completion.
    let _: Result<usize, _> = poll(&mut [PollFd::new(socket, PollFlags::empty())], Some(&timeout));
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn every_send_completes_and_loopback_admits_that_it_copied() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
        let mut far = listener.accept().expect("accept").0;
        enable(&near).expect("tcp has it since Linux 4.14");
        let payload = vec![5_u8; 50_000];
        let mut sent = 0;
        for _ in 0..3 {
            sent += send(&near, &payload).expect("fits the buffers");
        }
        let mut received = vec![0; sent];
        far.read_exact(&mut received).expect("arrives");
        assert!(received.iter().all(|byte| *byte == 5));
        let mut all = Completions::default();
        for _ in 0..100 {
            wait(&near, Duration::from_millis(50));
            let some = completions(&near);
            all.completed += some.completed;
            all.copied += some.copied;
            if all.completed == 3 {
                break;
            }
        }
        assert_eq!(all, Completions { completed: 3, copied: 3 });
    }
}
