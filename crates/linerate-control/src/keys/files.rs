//! Files of a key store: locked, private, and written whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::FlockOperation;

use crate::{ControlError, Result};

/// Permission bits of others than the owner.
const OTHERS: u32 = 0o077;
/// Permission bits that allow others than the owner to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Right to write the files of a key store. Ends when dropped; the kernel ends it for a process
/// that is killed.
pub(super) struct Lock {
    _file: fs::File,
}

impl Lock {
    /// Waits for the lock: another holder only writes a few kilobytes.
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let path = directory.join("lock");
        let opened =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(|cause| keys("open", &path, &cause))?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                // A signal is no reason to fail: the wait goes on.
                Err(rustix::io::Errno::INTR) => {}
                Err(cause) => return Err(keys("lock", &path, &cause)),
            }
        }
    }
}

pub(super) fn keys(
    operation: &'static str,
    path: &Path,
    cause: &dyn std::fmt::Display,
) -> ControlError {
    ControlError::Keys { operation, object: path.display().to_string(), cause: cause.to_string() }
}

pub(super) fn read(operation: &'static str, path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|cause| keys(operation, path, &cause))
}

/// Writes a file that only its owner may read, whole or not at all.
pub(super) fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    // A name of this process: two processes must not write the same temporary file.
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        // On disk before the name points to it: a power cut must not leave an empty key.
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&fresh, path));
    written.map_err(|cause| keys("write", path, &cause))
}

/// Refuses a folder or list that others than its owner may write: they could add their own key.
pub(super) fn check_own(path: &Path) -> Result<()> {
    let metadata = fs::metadata(path).map_err(|cause| keys("read permissions of", path, &cause))?;
    let mode = metadata.permissions().mode();
    if mode & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    let cause = format!(
        "others may write to it (mode {:o}, owner {}; run `chmod go-w`)",
        mode & 0o777,
        metadata.uid()
    );
    Err(keys("use", path, &cause))
}

/// Refuses a private key that others than its owner may read.
pub(super) fn check_private(path: &Path) -> Result<()> {
    let metadata = fs::metadata(path).map_err(|cause| keys("read private key", path, &cause))?;
    let mode = metadata.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let cause = format!(
        "others may read it (mode {:o}, owner {}; run `chmod 600`)",
        mode & 0o777,
        metadata.uid()
    );
    Err(keys("use private key", path, &cause))
}
