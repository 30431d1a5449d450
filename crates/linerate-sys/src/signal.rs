//! Interrupts (Ctrl-C, SIGTERM) as a flag, and pipes that nobody reads.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::SysError;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

mod raw {
    #![allow(unsafe_code)]

    use std::io;
    use std::mem::MaybeUninit;
    use std::sync::atomic::Ordering;

    extern "C" fn note(signal: libc::c_int) {
        super::INTERRUPTED.store(true, Ordering::Relaxed);
        // SAFETY: `signal` is async-signal-safe (POSIX 2.4.3); the second interrupt then ends the program as usual.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }

    pub(super) fn end_on_broken_pipe() {
        // SAFETY: SIG_DFL is a valid disposition; no handler of ours is involved.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }

    pub(super) fn ignore(signal: libc::c_int) {
        // SAFETY: SIG_IGN is a valid disposition; no handler of ours is involved.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }

    pub(super) fn install(signal: libc::c_int) -> io::Result<()> {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all-zero is a valid `sigaction` (no flags, empty mask); the handler only stores to an atomic and calls
        // an async-signal-safe function; both pointers are valid for the call.
        let result = unsafe {
            (*action.as_mut_ptr()).sa_sigaction = note as *const () as usize;
            (*action.as_mut_ptr()).sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, action.as_ptr(), std::ptr::null_mut())
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Notes SIGINT and SIGTERM instead of dying of them, once each; a second one ends the program as usual.
///
/// # Errors
/// If the kernel refuses the handlers.
pub fn note_interrupts() -> Result<(), SysError> {
    for (signal, name) in [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM")] {
        raw::install(signal).map_err(|cause| SysError::new("install handler of", name, cause))?;
    }
    Ok(())
}

/// Lets a program that only prints end quietly when nobody reads on (`linerate list metrics | head`). Not for one with
/// sockets: a peer that closes would end it too.
pub fn end_on_broken_pipe() {
    raw::end_on_broken_pipe();
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail like one to a full disk, instead of ending the program (SIGXFSZ).
pub fn fail_beyond_file_size_limit() {
    raw::ignore(libc::SIGXFSZ);
}

/// Whether an interrupt was noted.
#[must_use]
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
