//! Permanent loss of privileges: a process that parses input from strangers keeps only what it
//! needs.
//!
//! [`fork`] starts a process that keeps the privileges of the account, before there are threads.
//! [`confine`] removes them from the caller: its user, its capabilities, the way to new ones
//! (`no_new_privs`), access to files
//! ([Landlock](https://docs.kernel.org/userspace-api/landlock.html)), and system calls that it
//! never makes (seccomp). Descriptors that are already open, or that another process hands over,
//! stay usable.
//!
//! CPU time and memory are not limited here (use a control group), nor are the destinations of
//! connections (the policy limits them).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::{Result, SysError};

mod fork;
mod landlock;
mod seccomp;

pub use fork::fork;

/// List of users (passwd(5)).
const USERS: &str = "/etc/passwd";
/// The kernel's overflow user (proc_sys_kernel(5)), as a line of that list.
const NOBODY: &str = "nobody:x:65534:65534::/:";
/// Number of capabilities that a set has room for.
const N_CAPABILITIES: u32 = 64;

/// User to switch to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// User name.
    pub name: String,
    /// User id.
    pub user: u32,
    /// Group id; the process has no supplementary groups.
    pub group: u32,
}

impl Account {
    /// Returns the user `name` in `/etc/passwd`; `None` if there is none.
    ///
    /// A system without this file, such as an initramfs or a container from nothing, has the user
    /// `nobody` with the kernel's number for it, and no other.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn named(name: &str) -> Result<Option<Self>> {
        Self::listed(Path::new(USERS), name)
    }

    fn listed(list: &Path, name: &str) -> Result<Option<Self>> {
        match fs::read_to_string(list) {
            Ok(text) => Ok(text.lines().find_map(|line| Self::of_line(line, name))),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                Ok(Self::of_line(NOBODY, name))
            }
            Err(cause) => Err(SysError::new("read the users in", list.to_string_lossy(), cause)),
        }
    }

    /// `name:password:user:group:comment:home:shell`.
    fn of_line(line: &str, name: &str) -> Option<Self> {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let (user, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Self { name: name.to_owned(), user, group })
    }
}

/// Rights that the caller of [`confine`] keeps.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// User to switch to; `None` keeps the present user.
    pub account: Option<Account>,
    /// Files, and folders with all their contents, that it may still open to read. Paths that do
    /// not exist are ignored.
    pub readable: Vec<PathBuf>,
    /// Files that it may still open to read and write.
    pub writable: Vec<PathBuf>,
}

/// Parts of a confinement that this kernel could enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Version of Landlock, or the reason for its absence.
    pub landlock: Result<u32, String>,
    /// Reason for which there is no filter of system calls, if there is none.
    pub filter: Result<(), String>,
    /// How the process may still lock as much memory as before.
    pub locking: Locking,
}

/// Permission of a process to lock memory. Rings shared with the kernel count as locked memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// The limit was raised, or the process never had the capability; it has no capability now.
    Limit,
    /// The limit could not be raised without `CAP_SYS_RESOURCE`, so the process has kept
    /// `CAP_IPC_LOCK` and no other capability.
    Capability,
}

/// Confines the calling process to `kept`, permanently. It must have one thread: other threads
/// would keep their rights.
///
/// # Errors
/// If there are several threads, or a right cannot be removed. A kernel without Landlock or seccomp
/// is not an error: [`Confined`] reports it.
pub fn confine(kept: &Confinement) -> Result<Confined> {
    let failed = |operation: &'static str| {
        move |cause: rustix::io::Errno| SysError::new(operation, "itself", cause)
    };
    alone()?;
    // A static program has these values from /proc/self/auxv, read at their first use, and rustix
    // panics if the file cannot be opened any more. Linux before 6.4 has no other source.
    let _read = rustix::param::page_size();
    let locking = raise_limit();
    rustix::thread::set_no_new_privs(true).map_err(failed("set no_new_privs of"))?;
    let landlock =
        landlock::restrict(&kept.readable, &kept.writable).map_err(|cause| cause.to_string());
    // Without CAP_SETPCAP there is nothing to drop: no_new_privs prevents gaining any.
    (0..N_CAPABILITIES).for_each(|number| {
        let _refused = rustix::thread::remove_capability_from_bounding_set(
            CapabilitySet::from_bits_retain(1 << number),
        );
    });
    // Otherwise the change of users removes it.
    rustix::thread::set_keep_capabilities(locking == Locking::Capability)
        .map_err(failed("keep a capability of"))?;
    if let Some(Account { name, user, group }) = &kept.account {
        raw::become_user(*user, *group)
            .map_err(|cause| SysError::new("become user", name.clone(), cause))?;
    }
    let left = if locking == Locking::Capability {
        CapabilitySet::IPC_LOCK
    } else {
        CapabilitySet::empty()
    };
    let left =
        CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    // A service manager's own filter may refuse even a call that changes nothing.
    if rustix::thread::capabilities(None).map_err(failed("read the capabilities of"))? != left {
        rustix::thread::set_capabilities(None, left).map_err(failed("drop capabilities of"))?;
    }
    // Another process of the same user may neither trace this one nor read keys in its memory.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(failed("forbid tracing of"))?;
    let filter = seccomp::install().map_err(|cause| cause.to_string());
    Ok(Confined { landlock, filter, locking })
}

/// Refuses a process with several threads: rights belong to each thread.
fn alone() -> Result<()> {
    const THREADS: &str = "/proc/self/task";
    let error = |cause: io::Error| SysError::new("count the threads in", THREADS, cause);
    match fs::read_dir(Path::new(THREADS)).map_err(error)?.count() {
        1 => Ok(()),
        n => Err(error(io::Error::other(format!(
            "the process has {n} threads, but only a process with one thread can be forked or \
                confined"
        )))),
    }
}

/// Raises the limit that replaces the dropped capability.
fn raise_limit() -> Locking {
    let unlimited = Rlimit { current: None, maximum: None };
    let raised = rustix::process::setrlimit(Resource::Memlock, unlimited);
    let could_lock = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    if raised.is_err() && could_lock { Locking::Capability } else { Locking::Limit }
}

mod raw {
    #![allow(unsafe_code)]

    use std::io;

    /// Sets the user and group of the process permanently and removes it from all other groups.
    pub(super) fn become_user(user: u32, group: u32) -> io::Result<()> {
        let done = |answer: libc::c_int| {
            if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        // SAFETY: the list has no entries, so the pointer is not read.
        done(unsafe { libc::setgroups(0, std::ptr::null()) })?;
        // SAFETY: these calls take numbers only.
        done(unsafe { libc::setresgid(group, group, group) })?;
        // SAFETY: as above. This comes last: afterwards nothing can be undone.
        done(unsafe { libc::setresuid(user, user, user) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let line = "nobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin";
        let account = Account { name: "nobody".into(), user: 65_534, group: 65_533 };
        assert_eq!(Account::of_line(line, "nobody"), Some(account));
        for (line, name) in
            [(line, "nobod"), ("nobody:x:a:b", "nobody"), ("nobody", "nobody"), ("", "nobody")]
        {
            assert_eq!(Account::of_line(line, name), None, "{line}");
        }
    }

    #[test]
    fn a_system_without_a_list_of_users_has_nobody() {
        let listed = |name| Account::listed(Path::new("/nowhere/passwd"), name).expect("no list");
        assert_eq!(listed("nobody").map(|account| account.user), Some(65_534));
        assert_eq!(listed("linerate"), None);
        Account::listed(Path::new("/dev"), "nobody").expect_err("a folder is no list");
    }

    #[test]
    fn a_process_with_several_threads_is_not_confined() {
        // The test runs on a thread beside the main one.
        let why = confine(&Confinement::default()).expect_err("threads").to_string();
        assert!(why.contains("threads, but only"), "{why}");
        assert_eq!(rustix::thread::no_new_privs(), Ok(false), "nothing has changed");
    }
}
