//! Disks and files of a process without rights, opened by one that has them.
//!
//! The process that serves a conductor may open neither disks nor most files. A [`Keeper`] asks
//! another process, in which the gate and the host's limits decide; what it gets is a descriptor
//! and a [`Kept`]. There the watch over a device goes on: it writes its reasons into a pipe when a
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

use crate::{DiskError, Permission, Synchrony};

/// Opens disks and files for a process that may not; one session's.
pub trait Keeper: std::fmt::Debug + Send + Sync {
    /// As [`crate::Disks::open`].
    ///
    /// # Errors
    /// As there.
    fn open(&self, path: &Path, permission: Permission<'_>)
    -> Result<(Kept, KeptFiles), DiskError>;

    /// As [`crate::Disks::scratch`].
    ///
    /// # Errors
    /// As there.
    fn scratch(&self, folder: &Path, size: u64) -> Result<(Kept, KeptFiles), DiskError>;

    /// Whether `path` is a folder that scratch files may be made in.
    fn is_folder(&self, path: &Path) -> bool;

    /// Another descriptor of a target that it keeps, as [`crate::Target::open_as`] makes one.
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

    /// Lets go of a target.
    fn release(&self, number: u64);
}

/// What is known of a target that another process keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its number there; the same target has the same one.
    pub number: u64,
    /// Its name; of a scratch file, its folder.
    pub path: PathBuf,
    /// Whether loads may write to it.
    pub is_writable: bool,
    /// The bytes a load may touch.
    pub range: Range<u64>,
    /// See [`crate::Target::block_bytes`].
    pub block_bytes: u64,
    /// Device whose sectors are counted: its major and minor number.
    pub device: (u32, u32),
    /// Of a claimed device.
    pub serial: Option<String>,
}

/// Descriptors of a target that another process keeps.
#[derive(Debug)]
pub struct KeptFiles {
    /// The device or file.
    pub file: OwnedFd,
    /// The end of a pipe that says why the permission to write has ended, if it may.
    pub revocation: Option<OwnedFd>,
}

/// The place of a target at its keeper; given up when dropped.
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

/// The other end of a watch in another process.
#[derive(Debug)]
pub(crate) struct DistantWatch(Arc<Heard>);

#[derive(Debug, Default)]
struct Heard {
    is_revoked: AtomicBool,
    why: Mutex<String>,
}

impl DistantWatch {
    /// Listens at `pipe` on a thread, which ends with it.
    pub(crate) fn over(pipe: OwnedFd) -> io::Result<Self> {
        let heard = Arc::new(Heard::default());
        let told = Arc::clone(&heard);
        thread::Builder::new().name("disk watch".into()).spawn(move || {
            let mut why = String::new();
            let read = File::from(pipe).read_to_string(&mut why);
            if read.is_err() || why.is_empty() {
                // After a release nobody asks any more.
                "the process that watched over it has ended".clone_into(&mut why);
            }
            *told.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
            told.is_revoked.store(true, Ordering::Release);
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
