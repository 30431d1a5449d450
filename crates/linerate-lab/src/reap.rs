//! Namespaces and control groups whose maker is gone.
//!
//! A maker holds a lock (flock(2)) on each namespace and group that it has made, and the kernel lets go of it when the maker ends, however that
//! is. So a lock tells a living maker from a dead one in any PID namespace or container, and after any number of PIDs: no PID is
//! compared with another's. A lab that is to stay without a maker has a mark instead ([`keep`]).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use linerate_sys::netns::STANDING_MARKS;

use crate::layout::DEVICE;
use crate::quota;
use crate::tool::{LabError, run};

/// Where `ip netns` keeps names.
const NAMES: &str = "/run/netns";

/// Namespaces that linerate made and whose maker is gone.
///
/// # Errors
/// If `ip` is missing.
pub fn abandoned() -> Result<Vec<String>, LabError> {
    let list = run("ip", &["netns", "list"], None)?;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| is_abandoned(name)).map(str::to_owned).collect())
}

/// Deletes every abandoned namespace and returns their names. Labs that were left standing on purpose
/// (`linerate lab up`) are not touched.
///
/// # Errors
/// If one cannot be deleted.
pub fn reap() -> Result<Vec<String>, LabError> {
    let names = abandoned()?;
    for name in &names {
        run("ip", &["netns", "delete", name], None)?;
    }
    for group in quota::abandoned() {
        remove_group(&group)?;
    }
    Ok(names)
}

pub(crate) fn remove_group(group: &Path) -> Result<(), LabError> {
    match fs::remove_dir(group) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(LabError::Refused {
            what: format!("remove control group {}", group.display()),
            cause: cause.to_string(),
            remedy: " (something still runs in it)",
        }),
        _ => Ok(()),
    }
}

/// Whether the last part of a namespace's name is that of an emulated device, which no lab's description names.
#[must_use]
pub fn is_device(node: &str) -> bool {
    node.starts_with(DEVICE)
}

/// The namespace `name` stays from now on, though nobody holds it.
///
/// # Errors
/// If the mark cannot be written.
pub(crate) fn keep(name: &str) -> io::Result<()> {
    fs::create_dir_all(STANDING_MARKS)?;
    File::create(mark(name)).map(drop)
}

/// The namespace `name` goes, or is made anew.
pub fn forget(name: &str) {
    // It had none: all the same.
    let _gone = fs::remove_file(mark(name));
}

fn mark(name: &str) -> PathBuf {
    Path::new(STANDING_MARKS).join(name)
}

/// Takes the lock that says that the namespace `name` has a living maker.
///
/// # Errors
/// If somebody else has it.
pub(crate) fn hold(name: &str) -> Result<File, LabError> {
    let path = Path::new(NAMES).join(name);
    lock(&path).and_then(|lock| lock.ok_or_else(|| io::Error::other("another process has it"))).map_err(|cause| {
        LabError::Refused { what: format!("hold network namespace {name}"), cause: cause.to_string(), remedy: "" }
    })
}

/// Removes the namespace `name` of an earlier lab whose maker is gone.
///
/// # Errors
/// If it stands on purpose, or its maker lives.
pub(crate) fn clear(name: &str) -> Result<(), LabError> {
    if !Path::new(NAMES).join(name).exists() {
        forget(name);
        return Ok(());
    }
    if is_abandoned(name) {
        return run("ip", &["netns", "delete", name], None).map(drop);
    }
    Err(LabError::Refused {
        what: format!("make network namespace {name}"),
        cause: "it exists".to_owned(),
        remedy: " (a lab of this name stands: `linerate lab list`, `linerate lab down NAME`)",
    })
}

/// Locks what is at `path` until the file is dropped; `None` if somebody else has.
pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(cause)) => Err(cause),
    }
}

/// Whether `namespace` is ours, has no living maker, and is not to stay.
fn is_abandoned(namespace: &str) -> bool {
    may_be_abandoned(namespace, |pid| Path::new("/proc").join(pid).exists())
        && !mark(namespace).exists()
        && matches!(lock(&Path::new(NAMES).join(namespace)), Ok(Some(_)))
}

/// Whether a name is one that labs have: `lr-PID.START-node` of a process, `lr-up.NAME-node`, or `lr-PID-node` of earlier versions, which have no
/// locks: those only if no such process is seen.
pub(crate) fn may_be_abandoned(name: &str, runs: impl Fn(&str) -> bool) -> bool {
    let Some(instance) = name.strip_prefix("lr-").and_then(|rest| rest.split('-').next()) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match instance.split_once('.') {
        Some((first, rest)) => first == "up" || (is_number(first) && is_number(rest)),
        None => is_number(instance) && !runs(instance),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_labs_have_may_be_abandoned() {
        let runs = |pid: &str| pid == "7";
        for name in ["lr-12-a", "lr-7.99-a", "lr-up.pair-a"] {
            assert!(may_be_abandoned(name, runs), "{name}");
        }
        for name in ["lr-7-a", "docker-12", "lr--a", "lr-12x-a", "lr-12.-a"] {
            assert!(!may_be_abandoned(name, runs), "{name}");
        }
    }

    #[test]
    fn a_lock_is_held_as_long_as_its_file_is_open() {
        let folder = std::env::temp_dir().join(format!("linerate-lock-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let held = lock(&folder).expect("it is there").expect("nobody has it");
        assert!(lock(&folder).expect("it is there").is_none());
        drop(held);
        assert!(lock(&folder).expect("it is there").is_some());
        fs::remove_dir(&folder).expect("it is empty");
    }
}
