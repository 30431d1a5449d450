//! Disks and files of an unprivileged process, opened by a privileged one.
//!
//! The process that serves a conductor may open neither disks nor most files. A [`Keeper`] asks
//! another process, in which the gate and the host's limits decide. The answer is a descriptor and
//! a [`Kept`]. The watch over a device runs there; it writes its reasons into a pipe when a
//! permission ends.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};

use crate::{Permission, Result, Synchrony};

/// Opener of disks and files for an unprivileged process, for one session.
pub trait Keeper: std::fmt::Debug + Send + Sync {
    /// Does the same as [`crate::Disks::open`].
    ///
    /// # Errors
    /// As [`crate::Disks::open`].
    fn open(&self, path: &Path, permission: Permission<'_>) -> Result<(Kept, KeptFiles)>;

    /// Does the same as [`crate::Disks::scratch`].
    ///
    /// # Errors
    /// As [`crate::Disks::scratch`].
    fn scratch(&self, folder: &Path, size: u64) -> Result<(Kept, KeptFiles)>;

    /// Returns true if `path` is a folder in which scratch files may be created.
    fn is_folder(&self, path: &Path) -> bool;

    /// Opens another descriptor of a target that it keeps, as [`crate::Target::open_as`] does.
    ///
    /// # Errors
    /// Those of open(2).
    fn reopen(
        &self,
        number: u64,
        write: bool,
        direct: bool,
        synchrony: Synchrony,
    ) -> io::Result<File>;

    /// Releases a target.
    fn release(&self, number: u64);
}

/// Properties of a target that another process keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The target's number in that process; the same target always has the same number.
    pub number: u64,
    /// Path of the target; for a scratch file, the path of its folder.
    pub path: PathBuf,
    /// True if loads may write to it.
    pub is_writable: bool,
    /// Bytes that a load may access.
    pub range: Range<u64>,
    /// See [`crate::Target::block_bytes`].
    pub block_bytes: u64,
    /// Major and minor number of the device whose sectors are counted.
    pub device: (u32, u32),
    /// Serial number of a claimed device.
    pub serial: Option<String>,
}

/// Descriptors of a target that another process keeps.
#[derive(Debug)]
pub struct KeptFiles {
    /// The device or file.
    pub file: OwnedFd,
    /// Read end of a pipe that reports why the permission to write has ended, if it can end.
    pub revocation: Option<OwnedFd>,
}

/// Place of a target at its keeper, which is released when this is dropped.
#[derive(Debug)]
pub(crate) struct TargetPlace {
    pub(crate) keeper: Arc<dyn Keeper>,
    pub(crate) number: u64,
}

impl Drop for TargetPlace {
    fn drop(&mut self) {
        self.keeper.release(self.number);
    }
}

/// Local end of a watch in another process.
#[derive(Debug)]
pub(crate) struct DistantWatch(Arc<Heard>);

#[derive(Debug, Default)]
struct Heard {
    is_revoked: AtomicBool,
    why: Mutex<String>,
}

impl DistantWatch {
    /// Reads `pipe` on a thread, which ends with the pipe.
    pub(crate) fn over(pipe: OwnedFd) -> io::Result<Self> {
        let heard = Arc::new(Heard::default());
        let shared = Arc::clone(&heard);
        // A thread, because loads ask for the flag on their hot path and must not read a pipe
        // there.
        thread::Builder::new().name("disk watch".into()).spawn(move || {
            let mut why = String::new();
            let read = File::from(pipe).read_to_string(&mut why);
            if read.is_err() || why.is_empty() {
                // The pipe also closes after a release, but then nobody reads the reason.
                "the process that watched it has ended".clone_into(&mut why);
            }
            *shared.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
            shared.is_revoked.store(true, Ordering::Release);
        })?;
        Ok(Self(heard))
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.0.is_revoked.load(Ordering::Relaxed)
    }

    pub(crate) fn reasons(&self) -> String {
        self.0.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
