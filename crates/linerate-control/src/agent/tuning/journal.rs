//! Journal of settings: each change is on disk before it is made. Its values are written into the
//! kernel later, possibly by root, so it is used only if no other user can have written it.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linerate_sys::netns;
use rustix::fs::OFlags;

use super::Change;

const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Longest journal that is read, bytes.
const JOURNAL_LIMIT: u64 = 16 << 20;

/// Open and locked journal.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) path: PathBuf,
    pub(super) file: File,
}

pub(super) fn journal_path(folder: &Path) -> Result<PathBuf, String> {
    // One journal for each namespace: two agents of one host have different sysctls and routes.
    let inode = netns::inode().map_err(|error| error.to_string())?;
    Ok(folder.join(format!("tune-{inode}.journal")))
}

/// Refuses a journal that another user than this one or root can have written: its values are
/// written into the kernel.
fn check_trusted(journal: &Metadata) -> Result<(), String> {
    let (owner, own) = (journal.uid(), rustix::process::geteuid().as_raw());
    if journal.is_file() && is_trusted(owner, own, journal.mode()) {
        return Ok(());
    }
    Err(format!(
        "user {owner} or others may have written it (this is user {own}). Inspect it, then remove \
            it"
    ))
}

pub(super) fn is_trusted(owner: u32, own: u32, mode: u32) -> bool {
    /// Permission bits by which others than the owner may write.
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    // Root can write everything anyway, so its files are trusted.
    (owner == own || owner == 0) && mode & WRITABLE_BY_OTHERS == 0
}

impl Journal {
    /// Opens and locks the journal of this network namespace. Waits at most `patience` for another
    /// owner of the lock, and returns `None` if that was not enough.
    pub(super) fn open(folder: &Path, patience: Duration) -> Result<Option<Self>, String> {
        let path = journal_path(folder)?;
        let failed = |what: &str, cause: &dyn std::fmt::Display| {
            format!("{what} journal {}: {cause}", path.display())
            // `std` has no option of its own for this flag.
        };
        std::fs::create_dir_all(folder).map_err(|cause| failed("make folder of", &cause))?;
        let flags = OFlags::NOFOLLOW.bits() as i32;
        let opened = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            // Only the owner may read or write it, from the moment it exists.
            .mode(0o600)
            // Without following links: a link in the folder could point to any file.
            .custom_flags(flags)
            .open(&path);
        let file = opened.map_err(|cause| failed("open", &cause))?;
        let found = file.metadata().map_err(|cause| failed("read owner of", &cause))?;
        check_trusted(&found).map_err(|cause| failed("use", &cause))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { file, path })),
                Err(TryLockError::WouldBlock) if began.elapsed() < patience => {
                    std::thread::sleep(LOOK_EVERY)
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(cause)) => return Err(failed("lock", &cause)),
            }
        }
    }

    /// Appends `change`. It is on disk when this returns.
    pub(super) fn append(&mut self, change: &Change) -> Result<(), String> {
        let text =
            serde_json::to_string(change).map_err(|cause| format!("write journal: {cause}"))?;
        // The newline in front ends an incomplete line of a writer that was killed.
        let line = format!("\n{text}\n");
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_all());
        written.map_err(|cause| {
            format!(
                "write journal {}: {cause} (nothing is changed without one)",
                self.path.display()
            )
        })
    }

    /// Reads all complete changes.
    pub(super) fn read(&mut self) -> Result<Vec<Change>, String> {
        let mut bytes = Vec::new();
        // A hostile file must not fill the memory of a root process.
        let read = (&self.file).take(JOURNAL_LIMIT).read_to_end(&mut bytes);
        read.map_err(|cause| format!("read journal {}: {cause}", self.path.display()))?;
        Ok(bytes
            .split(|byte| *byte == b'\n')
            // A line that does not parse was cut off: its change was never made.
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }

    /// Removes the file.
    pub(super) fn remove(self) {
        // Emptied first: another process that waits for the lock must not find old changes.
        let _emptied = self.file.set_len(0);
        let _removed = std::fs::remove_file(&self.path);
    }
}
