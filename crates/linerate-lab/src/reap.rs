//! Namespaces and control groups whose maker is gone.
//!
//! A maker has a lock (flock(2)) on each namespace and group that it has made, and the kernel
//! releases it however the maker ends. So the lock distinguishes a living maker from a dead one in
//! any PID namespace or container, even if process ids repeat. A lab that stays without a maker has
//! a mark instead ([`keep`]).
//!
//! A process that removes a namespace keeps its lock until it is gone. A lock counts only if the
//! name still leads to the locked file, because another lab may have made a namespace of the same
//! name in the meantime. So a name never changes its meaning between check and removal. Another
//! process may take a new namespace for an abandoned one before its maker has the lock; then the
//! maker makes it again ([`make`]).

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linerate_sys::netns::STANDING_MARKS;

use crate::layout::DEVICE;
use crate::quota;
use crate::tool::{LabError, Result, run};

/// Folder in which `ip netns` keeps names.
const NAMES: &str = "/run/netns";

/// Lists the namespaces that linerate made and whose maker is gone.
///
/// # Errors
/// If `ip` is missing.
pub fn abandoned() -> Result<Vec<String>> {
    let list = run("ip", &["netns", "list"], None)?;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| take(name).is_some()).map(str::to_owned).collect())
}

/// Deletes every abandoned namespace and returns their names. Labs that are to stay (`linerate lab
/// up`) are not touched.
///
/// # Errors
/// If one cannot be deleted.
pub fn reap() -> Result<Vec<String>> {
    let mut names = abandoned()?;
    let mut failed = None;
    // One that cannot be removed does not keep the others.
    names.retain(|name| match remove(name, delete) {
        Ok(is_removed) => is_removed,
        Err(error) => {
            failed = Some(error);
            false
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    for (group, _until_it_is_gone) in quota::abandoned() {
        remove_group(&group)?;
    }
    Ok(names)
}

/// Removes the namespace `name` by `delete`, under its lock. Returns `false` if it is not
/// abandoned.
fn remove(name: &str, delete: impl FnOnce(&str) -> Result<()>) -> Result<bool> {
    // The lock is held until the name is gone: a new lab of the same name waits for it.
    let Some(_until_it_is_gone) = take(name) else { return Ok(false) };
    match delete(name) {
        // Somebody else was faster: a person with `ip netns delete` takes no lock.
        Err(_) if !Path::new(NAMES).join(name).exists() => Ok(false),
        deleted => deleted.map(|()| true),
    }
}

fn delete(name: &str) -> Result<()> {
    run("ip", &["netns", "delete", name], None).map(drop)
}

pub(crate) fn remove_group(group: &Path) -> Result<()> {
    match fs::remove_dir(group) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(LabError::Refused {
            what: format!("remove control group {}", group.display()),
            cause: cause.to_string(),
            remedy: " (something still runs in it)",
        }),
        _ => Ok(()),
    }
}

/// Returns whether the last part of a namespace's name is that of an emulated device. No lab's
/// description can use such a name.
#[must_use]
pub fn is_device(node: &str) -> bool {
    node.starts_with(DEVICE)
}

/// Marks the namespace `name` as one that stays without a maker.
///
/// # Errors
/// If the mark cannot be written.
fn keep(name: &str) -> io::Result<()> {
    fs::create_dir_all(STANDING_MARKS)?;
    File::create(mark(name)).map(drop)
}

/// Removes the mark of the namespace `name`.
pub fn forget(name: &str) {
    // It fails if there was no mark.
    let _gone = fs::remove_file(mark(name));
}

fn mark(name: &str) -> PathBuf {
    Path::new(STANDING_MARKS).join(name)
}

/// Namespace that a lab has made, removed on drop. Its lock shows that its maker lives.
#[derive(Debug)]
pub(crate) struct Made {
    name: String,
    _lock: File,
    keep: bool,
}

impl Made {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Keeps the namespace when this is dropped.
    ///
    /// # Errors
    /// If it cannot be marked as one that stays.
    pub(crate) fn keep(&mut self) -> io::Result<()> {
        keep(&self.name)?;
        self.keep = true;
        Ok(())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.keep {
            // It fails if a person has removed the namespace already.
            let _gone = delete(&self.name);
            forget(&self.name);
        }
    }
}

/// Most attempts to make a namespace that others take for an abandoned one.
const ATTEMPTS: u32 = 5;
/// Longest wait for the lock. A process that checks releases it at once; one that removes the
/// namespace takes less than this.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two attempts to get the lock.
const PAUSE: Duration = Duration::from_millis(10);

/// Makes the namespace `name` and takes its lock.
///
/// # Errors
/// If it cannot be made, or another process has the lock.
pub(crate) fn make(name: &str) -> Result<Made> {
    let add = || run("ip", &["netns", "add", name], None).map(drop);
    make_by(name, &Path::new(NAMES).join(name), add)
}

/// Does the work of [`make`] by `add`, at `path`.
fn make_by(name: &str, path: &Path, mut add: impl FnMut() -> Result<()>) -> Result<Made> {
    for attempt in 1..=ATTEMPTS {
        match add() {
            // It failed halfway if the path exists; otherwise another process was faster.
            Err(error) if path.exists() || attempt == ATTEMPTS => return Err(error),
            _ => {}
        }
        let until = Instant::now() + PATIENCE;
        while path.exists() {
            if let Ok(Some(lock)) = lock(path) {
                return Ok(Made { name: name.to_owned(), _lock: lock, keep: false });
            }
            if Instant::now() >= until {
                return Err(not_locked(name, "another process has it"));
            }
            std::thread::sleep(PAUSE);
        }
    }
    Err(not_locked(name, "other processes have removed it each time"))
}

fn not_locked(name: &str, cause: &str) -> LabError {
    LabError::Refused {
        what: format!("lock network namespace {name}"),
        cause: cause.to_owned(),
        remedy: "",
    }
}

/// Removes the namespace `name` of an earlier lab whose maker is gone.
///
/// # Errors
/// If it is to stay, or its maker lives.
pub(crate) fn clear(name: &str) -> Result<()> {
    // Something may have removed it between the two checks, which is as good.
    let path = Path::new(NAMES).join(name);
    if remove(name, delete)? || !path.exists() {
        forget(name);
        return Ok(());
    }
    Err(LabError::Refused {
        what: format!("make network namespace {name}"),
        cause: "it exists".to_owned(),
        remedy: " (a lab of this name is up: `linerate lab list`, `linerate lab down NAME`)",
    })
}

/// Locks the file at `path` until it is dropped. `None` if another process has the lock, or if the
/// file is no longer there.
pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = File::open(path)?;
    match file.try_lock() {
        // Between opening and locking, another process may have replaced the file.
        Ok(()) => Ok(Some(file).filter(|file| is_at(file, path))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(cause)) => Err(cause),
    }
}

/// Returns whether `path` still leads to `file`.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let there = fs::metadata(path).map(identity);
    there.is_ok_and(|there| file.metadata().is_ok_and(|found| identity(found) == there))
}

/// Takes the lock of a namespace of linerate that has no living maker and is not to stay.
fn take(namespace: &str) -> Option<File> {
    let may_be = may_be_abandoned(namespace, |pid| Path::new("/proc").join(pid).exists());
    let path = Path::new(NAMES).join(namespace);
    let lock = if may_be { lock(&path).ok().flatten() } else { None };
    // The mark is checked under the lock, because a maker sets it under the lock.
    lock.filter(|_| !mark(namespace).exists())
}

/// Returns whether a name is one of a lab: `lr-PID.START-node` of a process, `lr-up.NAME-node`, or
/// `lr-PID-node` of earlier versions. The last ones have no locks, so they count only if there is
/// no such process.
pub(crate) fn may_be_abandoned(name: &str, runs: impl Fn(&str) -> bool) -> bool {
    let Some(instance) = name.strip_prefix("lr-").and_then(|rest| rest.split('-').next()) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match instance.split_once('.') {
        // A process number with a start time comes from a version with locks; "up" is a lab that
        // stays.
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

    /// Makes a folder for one test.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        folder
    }

    #[test]
    fn a_namespace_is_locked_until_it_is_removed() {
        let name = format!("lr-{}.1-locked", std::process::id());
        if let Err(error) = run("ip", &["netns", "add", &name], None) {
            return println!("skipped: a namespace is locked until it is removed: {error}");
        }
        let path = Path::new(NAMES).join(&name);
        let is_held = || matches!(lock(&path), Ok(None));
        assert!(!is_held());
        let delete = |name: &str| {
            assert!(is_held(), "another lab could take the name meanwhile");
            delete(name)
        };
        assert!(remove(&name, delete).expect("it can be"), "nobody has it");
        assert!(!path.exists());
        assert!(
            !remove(&name, |_| panic!("there is nothing to delete")).expect("nothing is no fault")
        );
        run("ip", &["netns", "add", &name], None).expect("the name is free");
        let after_another = |name: &str| super::delete(name).and_then(|()| super::delete(name));
        assert!(!remove(&name, after_another).expect("it is gone, as wanted"));
    }

    #[test]
    fn a_namespace_that_was_taken_for_an_abandoned_one_is_made_again() {
        let folder = folder("made-again");
        let path = folder.join("lr-1.1-a");
        let mut n_made = 0;
        let made = make_by("lr-1.1-a", &path, || {
            n_made += 1;
            File::create(&path).expect("made");
            if n_made < 3 {
                // Another process removes it first.
                fs::remove_file(&path).expect("removed");
            }
            Ok(())
        });
        let mut made = made.expect("the third one stays");
        made.keep = true;
        assert_eq!(n_made, 3);
        assert!(lock(&path).expect("it is there").is_none(), "it is held");
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn a_name_that_leads_to_another_file_by_now_is_not_locked() {
        let folder = folder("renamed");
        let path = folder.join("lr-1.1-a");
        let opened = File::create(&path).expect("made");
        assert!(is_at(&opened, &path));
        fs::rename(&path, folder.join("other")).expect("renamed");
        assert!(!is_at(&opened, &path), "nothing is there");
        File::create(&path).expect("made");
        assert!(!is_at(&opened, &path), "another lab's is there");
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn a_lock_is_held_as_long_as_its_file_is_open() {
        let folder = folder("lock");
        let held = lock(&folder).expect("it is there").expect("nobody has it");
        assert!(lock(&folder).expect("it is there").is_none());
        drop(held);
        assert!(lock(&folder).expect("it is there").is_some());
        fs::remove_dir(&folder).expect("it is empty");
    }
}
