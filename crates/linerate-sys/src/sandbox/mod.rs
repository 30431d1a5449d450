//! Giving up rights for good: a process that parses what strangers send keeps none that it does not
//! need.
//!
//! [`fork`] splits off a process that keeps the rights of the account, before there are threads.
//! [`confine`] takes them from the caller: its user, capabilities, the way to new ones
//! (`no_new_privs`), files ([Landlock](https://docs.kernel.org/userspace-api/landlock.html)), and
//! system calls that it never makes (seccomp). What was open before stays usable, and so does a
//! descriptor that somebody hands over.
//!
//! What it does not limit: CPU time and memory (a control group does), and where connections lead
//! (the policy does).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::SysError;

mod fork;
mod landlock;
mod seccomp;

pub use fork::fork;

/// Where users are listed (passwd(5)).
const USERS: &str = "/etc/passwd";
/// Numbers of capabilities that a kernel may know: 64 fit into a set.
const N_CAPABILITIES: u32 = 64;

/// A user to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its number.
    pub user: u32,
    /// The number of its group; it is in no other one.
    pub group: u32,
}

impl Account {
    /// The user called `name` in `/etc/passwd`; `None` if there is none.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub fn named(name: &str) -> Result<Option<Self>, SysError> {
        let list = fs::read_to_string(USERS)
            .map_err(|cause| SysError::new("read the users in", USERS, cause))?;
        Ok(list.lines().find_map(|line| Self::of_line(line, name)))
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

/// What the caller of [`confine`] keeps.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// The user to become; none: it stays who it is.
    pub account: Option<Account>,
    /// Files, and folders with all that is in them, that it may still open to read. What does not
    /// exist is left out.
    pub readable: Vec<PathBuf>,
    /// Files that it may still open to read and write.
    pub writable: Vec<PathBuf>,
}

/// What of a confinement this kernel could enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confined {
    /// The version of Landlock, or why there is none.
    pub landlock: Result<u32, String>,
    /// Why there is no filter of system calls, if so.
    pub filter: Result<(), String>,
    /// How it may lock as much memory as its account might before.
    pub locking: Locking,
}

/// How a process locks memory, which rings shared with the kernel count as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// The limit was raised, or it never had the capability: it has none.
    Limit,
    /// The limit could not be raised (`CAP_SYS_RESOURCE` was missing): it has kept `CAP_IPC_LOCK`,
    /// and nothing else.
    Capability,
}

/// Confines the calling process to `kept`, for good. It must have one thread: others would keep
/// what they have.
///
/// # Errors
/// If there are several threads, or a right cannot be given up. A kernel without Landlock or
/// seccomp is no error: [`Confined`] says so.
pub fn confine(kept: &Confinement) -> Result<Confined, SysError> {
    let failed = |operation: &'static str| {
        move |cause: rustix::io::Errno| SysError::new(operation, "itself", cause)
    };
    alone()?;
    let locking = raise_limit();
    rustix::thread::set_no_new_privs(true).map_err(failed("set no_new_privs of"))?;
    let landlock =
        landlock::restrict(&kept.readable, &kept.writable).map_err(|cause| cause.to_string());
    // Without CAP_SETPCAP it has none that could be gained: no_new_privs is set.
    (0..N_CAPABILITIES).for_each(|number| {
        let _refused = rustix::thread::remove_capability_from_bounding_set(
            CapabilitySet::from_bits_retain(1 << number),
        );
    });
    // Else a change of users takes it away.
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
    // Another process of the same user may neither trace it nor read its keys in memory.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(failed("forbid tracing of"))?;
    let filter = seccomp::install().map_err(|cause| cause.to_string());
    Ok(Confined { landlock, filter, locking })
}

/// Refuses a process with several threads: rights are each thread's own.
fn alone() -> Result<(), SysError> {
    const THREADS: &str = "/proc/self/task";
    let error = |cause: io::Error| SysError::new("count the threads in", THREADS, cause);
    match fs::read_dir(Path::new(THREADS)).map_err(error)?.count() {
        1 => Ok(()),
        n => Err(error(io::Error::other(format!(
            "{n} threads run, and only a process with one can be split or confined"
        )))),
    }
}

/// Raises the limit that stands in for a capability it gives up.
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

    /// Gives the process this user and group for good, and takes it out of all other groups.
    pub(super) fn become_user(user: u32, group: u32) -> io::Result<()> {
        let done = |answer: libc::c_int| {
            if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        // SAFETY: no group is listed, so that the pointer is not read.
        done(unsafe { libc::setgroups(0, std::ptr::null()) })?;
        // SAFETY: these calls take numbers only.
        done(unsafe { libc::setresgid(group, group, group) })?;
        // SAFETY: as above. It comes last: from here on nothing can be undone.
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
    fn a_process_with_several_threads_is_not_confined() {
        // The test's own thread is beside the main one.
        let why = confine(&Confinement::default()).expect_err("threads").to_string();
        assert!(why.contains("threads run"), "{why}");
        assert_eq!(rustix::thread::no_new_privs(), Ok(false), "nothing was begun");
    }
}
