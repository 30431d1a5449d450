//! Signals: interrupts (Ctrl-C, SIGTERM, a closed terminal) as a flag, and writes to closed pipes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::{Result, SysError};

/// Number of interrupts so far.
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
/// True while somebody has something to put right before the second interrupt ends the program.
static IS_HELD: AtomicBool = AtomicBool::new(false);

mod raw {
    #![allow(unsafe_code)]

    use std::io;
    use std::mem::MaybeUninit;
    use std::sync::atomic::Ordering;

    extern "C" fn note(signal: libc::c_int) {
        let earlier = super::INTERRUPTS.fetch_add(1, Ordering::Relaxed);
        // The third ends the program whoever holds it.
        if earlier > u32::from(super::IS_HELD.load(Ordering::Relaxed)) {
            end_by(signal);
        }
    }

    /// Ends the program as `signal` does without a handler; in a handler of it, at its end.
    pub(super) fn end_by(signal: libc::c_int) {
        // SAFETY: both are async-signal-safe (POSIX 2.4.3), and SIG_DFL is a valid disposition.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }

    pub(super) fn end_on_broken_pipe() {
        // SAFETY: SIG_DFL is a valid disposition; no handler of ours is involved.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }

    pub(super) fn ignore(signal: libc::c_int) {
        // SAFETY: SIG_IGN is a valid disposition; no handler of ours is involved.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }

    /// Returns true if the parent made this program ignore `signal`, as nohup(1) does.
    pub(super) fn is_ignored(signal: libc::c_int) -> bool {
        let mut present = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all-zero is a valid `sigaction`; the kernel only writes to it, and it is read
        // after that.
        unsafe {
            libc::sigaction(signal, std::ptr::null(), present.as_mut_ptr()) == 0
                && present.assume_init().sa_sigaction == libc::SIG_IGN
        }
    }

    pub(super) fn install(signal: libc::c_int) -> io::Result<()> {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all-zero is a valid `sigaction` (no flags, empty mask); the handler only stores
        // to an atomic and calls an async-signal-safe function; both pointers are valid for the
        // call.
        let result = unsafe {
            (*action.as_mut_ptr()).sa_sigaction = note as *const () as usize;
            (*action.as_mut_ptr()).sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, action.as_ptr(), std::ptr::null_mut())
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Records the first SIGINT, SIGTERM, SIGQUIT and SIGHUP instead of ending the program; the second
/// one ends it. If the parent ignores SIGHUP (nohup(1)), a closed terminal is not recorded.
///
/// # Errors
/// If the kernel refuses the handlers.
pub fn note_interrupts() -> Result<()> {
    let always = [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM")];
    let unless_ignored = [(libc::SIGQUIT, "SIGQUIT"), (libc::SIGHUP, "SIGHUP")];
    let heeded = unless_ignored.into_iter().filter(|(signal, _)| !raw::is_ignored(*signal));
    for (signal, name) in always.into_iter().chain(heeded) {
        raw::install(signal).map_err(|cause| SysError::new("install handler of", name, cause))?;
    }
    Ok(())
}

/// Ends the program quietly on a write to a closed pipe (`linerate list metrics | head`). Do not
/// use it in a program with sockets: a peer that closes would end it too.
pub fn end_on_broken_pipe() {
    raw::end_on_broken_pipe();
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail like a write to a full disk, instead
/// of ending the program (SIGXFSZ).
pub fn fail_beyond_file_size_limit() {
    raw::ignore(libc::SIGXFSZ);
}

/// Returns true if an interrupt was recorded.
#[must_use]
pub fn interrupted() -> bool {
    interrupts() > 0
}

/// Returns how many interrupts were recorded.
#[must_use]
pub fn interrupts() -> u32 {
    INTERRUPTS.load(Ordering::Relaxed)
}

/// Records an interrupt. A signal to oneself is lost if another of its kind is pending; this is
/// not.
pub fn interrupt() {
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
}

/// While true, the second interrupt is only recorded: who holds it calls [`end_interrupted`] soon.
/// The third one ends the program all the same.
pub fn hold_second_interrupt(is_held: bool) {
    IS_HELD.store(is_held, Ordering::Relaxed);
}

/// Ends the program as the second interrupt does.
pub fn end_interrupted() {
    raw::end_by(libc::SIGINT);
}
