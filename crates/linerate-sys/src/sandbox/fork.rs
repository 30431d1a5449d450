//! Forks a process before there are threads.

use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::alone;
use crate::{Result, SysError};

/// Forks a process that runs `duty` with `channel` and exits with the returned code. It has its own
/// process group, so that an interrupt from a terminal does not reach it. It inherits standard
/// error and no other descriptor.
///
/// # Errors
/// If this process has several threads (a lock that another thread holds would never be released in
/// the new process), or if the kernel refuses.
pub fn fork(name: &str, channel: OwnedFd, duty: impl FnOnce(OwnedFd) -> i32) -> Result<()> {
    alone()?;
    match raw::fork().map_err(|cause| SysError::new("fork a process for", name, cause))? {
        raw::Forked::Parent => Ok(()),
        raw::Forked::Child => {
            let code = catch_unwind(AssertUnwindSafe(|| match alone_with(name, channel) {
                Ok(channel) => duty(channel),
                Err(error) => {
                    eprintln!("{name}: {error}");
                    1
                }
            }));
            // The parent prints its own buffered output.
            raw::end(code.unwrap_or(1))
        }
    }
}

/// Leaves the parent's process group and closes all descriptors but `channel` and standard error.
fn alone_with(name: &str, channel: OwnedFd) -> io::Result<OwnedFd> {
    /// First descriptor after the standard ones.
    const FIRST: i32 = 3;
    rustix::process::setpgid(None, None)?;
    // Tools show this name; the kernel truncates a long one.
    if let Ok(name) = std::ffi::CString::new(name) {
        let _refused = rustix::thread::set_name(&name);
    }
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    drop(null);
    let number = channel.into_raw_fd();
    raw::move_to(number, FIRST)?;
    raw::close_from(FIRST + 1)?;
    Ok(raw::own(FIRST))
}

mod raw {
    #![allow(unsafe_code)]

    use super::{FromRawFd, OwnedFd, io};

    pub(super) enum Forked {
        Parent,
        Child,
    }

    pub(super) fn fork() -> io::Result<Forked> {
        // SAFETY: the process has one thread (`alone`), so that the child finds no lock held by
        // another one.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(Forked::Child),
            _ => Ok(Forked::Parent),
        }
    }

    pub(super) fn end(code: i32) -> ! {
        // SAFETY: it ends the process, at once and without any handler.
        unsafe { libc::_exit(code) }
    }

    /// Renumbers the descriptor `from` to `to` and closes the old `to`.
    pub(super) fn move_to(from: i32, to: i32) -> io::Result<()> {
        if from == to {
            return Ok(());
        }
        // SAFETY: descriptors are numbers. Values of the parent that own one of them are never
        // dropped in the child.
        if unsafe { libc::dup3(from, to, libc::O_CLOEXEC) } < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Closes every descriptor from `first` on.
    pub(super) fn close_from(first: i32) -> io::Result<()> {
        // SAFETY: as in `move_to`.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, first, i32::MAX, 0) };
        if closed == 0 {
            return Ok(());
        }
        // Before Linux 5.9: closes those that /proc lists.
        let listed: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        for number in listed.into_iter().filter(|number| *number >= first) {
            // SAFETY: as in `move_to`.
            unsafe { libc::close(number) };
        }
        Ok(())
    }

    /// Takes ownership of the descriptor `number`.
    pub(super) fn own(number: i32) -> OwnedFd {
        // SAFETY: the caller has just made it, and nobody else knows it.
        unsafe { OwnedFd::from_raw_fd(number) }
    }
}
