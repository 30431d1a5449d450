//! Network namespaces: runs code inside one.
//!
//! A namespace is a property of a thread. Code therefore runs on a thread of its own that ends
//! afterwards, so that no other thread changes its namespace. A socket stays in the namespace in
//! which it was created, even if it is used elsewhere.

use std::ffi::CStr;
use std::fs::{File, TryLockError};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{Result, SysError};

/// Folder in which `ip netns` keeps its namespaces.
const NAMED: &str = "/run/netns";
/// Folder of marks for namespaces that persist without a process. Like the namespaces, it is empty
/// after a reboot.
pub const STANDING_MARKS: &str = "/run/linerate/standing";

/// Runs `work` inside the network namespace `name` (a name of `ip netns`) and returns its result.
///
/// # Errors
/// If the namespace does not exist, or this process may not enter it (needs CAP_SYS_ADMIN).
///
/// # Panics
/// If `work` panics.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
    let file = File::open(Path::new(NAMED).join(name))
        .map_err(|e| SysError::new("open network namespace", name, e))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|e| SysError::new("enter network namespace", name, e))?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs `work` inside a new network namespace without a name and returns its result. The namespace
/// ends with the last descriptor or process inside.
///
/// # Errors
/// If this process may not create one (needs CAP_SYS_ADMIN).
///
/// # Panics
/// If `work` panics.
pub(crate) fn within_new<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            raw::own_network()
                .map_err(|e| SysError::new("make", "a network namespace for a program", e))?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

mod raw {
    #![allow(unsafe_code)]

    use std::ffi::CStr;
    use std::io;
    use std::ptr;

    fn done(answer: libc::c_int) -> io::Result<()> {
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(super) fn own_network() -> io::Result<()> {
        // SAFETY: no memory is passed. The flag affects nothing but the network namespace of this
        // thread.
        done(unsafe { libc::unshare(libc::CLONE_NEWNET) })
    }

    pub(super) fn own_mounts() -> io::Result<()> {
        // SAFETY: no memory is shared differently afterwards; only this thread and what it starts
        // see other mounts.
        done(unsafe { libc::unshare(libc::CLONE_NEWNS) })
    }

    pub(super) fn take_mounts_only() -> io::Result<()> {
        let flags = libc::MS_REC | libc::MS_SLAVE;
        // SAFETY: the place is a string that ends in a zero; the other pointers may be null for a
        // change of propagation (mount(2)).
        done(unsafe { libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), flags, ptr::null()) })
    }

    pub(super) fn mount_memory(at: &CStr) -> io::Result<()> {
        let flags = libc::MS_NODEV | libc::MS_NOSUID | libc::MS_NOEXEC;
        // SAFETY: the strings end in a zero and live for the call; a null pointer means no options.
        done(unsafe {
            libc::mount(c"linerate".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), flags, ptr::null())
        })
    }
}

/// Gives the calling thread, and every thread and program that it starts afterwards, a private
/// folder of namespaces. Names in this folder are invisible to other processes (except through
/// `nsenter -t PID -m`). The kernel removes the namespaces when the last of these processes ends,
/// for whatever reason. Mounts that others make remain visible. A second call does nothing.
///
/// # Errors
/// If a privilege is missing (needs CAP_SYS_ADMIN).
pub fn keep_names_private() -> Result<()> {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    const AT: &CStr = c"/run/netns";
    if IS_DONE.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let failed =
        |cause| SysError::new("make a private folder of network namespaces at", NAMED, cause);
    std::fs::create_dir_all(NAMED).map_err(failed)?;
    raw::own_mounts()
        .and_then(|()| raw::take_mounts_only())
        .and_then(|()| raw::mount_memory(AT))
        .map_err(failed)
}

/// Returns the name (as in `ip netns`) of the calling thread's network namespace; `None` if it has
/// none.
#[must_use]
pub fn name() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let own = inode().ok()?;
    let named = std::fs::read_dir(NAMED).ok()?.flatten();
    let mut same =
        named.filter(|entry| entry.path().metadata().is_ok_and(|found| found.ino() == own));
    same.next()?.file_name().into_string().ok()
}

/// Returns true if the creator of the namespace `name` keeps it: a living process holds a lock on
/// it (flock(2)), or it has a mark in [`STANDING_MARKS`].
#[must_use]
pub fn is_kept(name: &str) -> bool {
    // A shared lock, so that two processes that ask at once do not mistake each other for the
    // creator.
    let is_held = File::open(Path::new(NAMED).join(name))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
    is_held || Path::new(STANDING_MARKS).join(name).exists()
}

/// Returns the inode of the calling thread's network namespace, which identifies it during its
/// lifetime.
///
/// # Errors
/// If `/proc` is not mounted.
pub fn inode() -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    /// Namespace of the calling thread.
    const OWN: &str = "/proc/thread-self/ns/net";
    std::fs::metadata(OWN)
        .map(|found| found.ino())
        .map_err(|cause| SysError::new("look at", OWN, cause))
}
