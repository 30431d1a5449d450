//! Disks and files of one session: opened through the gate and kept open until the session ends.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::gate::Refusal;
use crate::{
    Balance, DiskError, FileLimits, Keeper, Kept, KeptFiles, Result, Served, Target, scratch,
};

/// Claimed devices that loads may write to on this host. A conductor cannot change the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writable {
    /// Devices with these serial numbers.
    Listed(Vec<String>),
    /// Any claimed device: for a process that the claiming person runs.
    Claimed,
}

impl Default for Writable {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl Writable {
    fn allows(&self, serial: Option<&str>) -> bool {
        match self {
            Self::Claimed => true,
            Self::Listed(serials) => {
                serial.is_some_and(|serial| serials.iter().any(|listed| listed == serial))
            }
        }
    }
}

/// Access that a load requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission<'a> {
    /// Reading.
    Read,
    /// Reading and writing, with a consent.
    Write {
        /// The serial number under which the device was claimed.
        consent: Option<&'a str>,
    },
}

/// Targets of one session. Targets opened for writing stay open until it is dropped, and scratch
/// files end with it.
#[derive(Debug, Default)]
#[must_use]
pub struct Disks {
    writable: Writable,
    served: Vec<PathBuf>,
    /// Limits that the host's owner sets for conductors on other hosts; absent: the permissions of
    /// this process.
    limits: Option<FileLimits>,
    /// Opens what this process may not open itself.
    keeper: Option<Arc<dyn Keeper>>,
    held: Mutex<BTreeMap<PathBuf, Arc<Target>>>,
    balance: OnceLock<Arc<Balance>>,
}

impl Disks {
    /// Returns a session without targets, in which no device may be written to.
    pub const fn none() -> Self {
        Self {
            writable: Writable::Listed(Vec::new()),
            served: Vec::new(),
            limits: None,
            keeper: None,
            held: Mutex::new(BTreeMap::new()),
            balance: OnceLock::new(),
        }
    }

    /// Returns a session without targets, in which loads may write to `writable`.
    pub fn new(writable: Writable) -> Self {
        Self { writable, ..Self::default() }
    }

    /// Also lets any client receive the files in these folders.
    pub fn serving(self, folders: Vec<PathBuf>) -> Self {
        Self { served: folders, ..self }
    }

    /// Also applies these limits.
    pub fn within(self, limits: Option<FileLimits>) -> Self {
        Self { limits, ..self }
    }

    /// Lets `keeper` open all targets; the gate and the limits then decide in its process.
    pub fn kept_by(self, keeper: Option<Arc<dyn Keeper>>) -> Self {
        Self { keeper, ..self }
    }

    /// Returns true if `path` is a folder, in which a load wants a scratch file.
    #[must_use]
    pub fn is_folder(&self, path: &Path) -> bool {
        path.is_dir() || self.keeper.as_ref().is_some_and(|keeper| keeper.is_folder(path))
    }

    /// Returns the target that a keeper has opened. A target that is already open is used again; a
    /// new one stays open if it is for writing.
    fn taken(
        &self,
        keeper: &Arc<dyn Keeper>,
        (kept, files): (Kept, KeptFiles),
    ) -> Result<Arc<Target>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // The keeper returns the same number for the same target. A second watch over it would only
        // cost CPU time.
        if let Some(target) = held.values().find(|target| target.is_kept_as(kept.number)) {
            return Ok(Arc::clone(target));
        }
        let (name, is_writable) = (kept.path.clone(), kept.is_writable);
        let target = Arc::new(Target::kept(Arc::clone(keeper), kept, files)?);
        if is_writable {
            held.insert(name, Arc::clone(&target));
        }
        Ok(target)
    }

    /// Lists the files of the folder `path`, which may be sent to foreign clients.
    ///
    /// # Errors
    /// If nobody on this host has allowed it or a parent folder, or it cannot be listed.
    pub fn serve(&self, path: &Path) -> Result<Served> {
        Served::list(&self.sendable(path)?)
    }

    /// Opens the file at `path`, whose contents may be sent to another host. Returns its length,
    /// too.
    ///
    /// # Errors
    /// If nobody on this host has allowed it or a parent folder, it is no file, or it is empty.
    pub fn send(&self, path: &Path) -> Result<(fs::File, u64)> {
        let path = self.sendable(path)?;
        let broken = |cause| DiskError::io("read", path.display(), cause);
        let file = fs::File::open(&path).map_err(broken)?;
        let metadata = file.metadata().map_err(broken)?;
        if !metadata.is_file() || metadata.len() == 0 {
            let what = format!("send {}", path.display());
            return Err(DiskError::unsuitable(what, "it is no regular file, or it is empty"));
        }
        Ok((file, metadata.len()))
    }

    /// Returns the real path of `path`, if what is there may be sent to other hosts.
    fn sendable(&self, path: &Path) -> Result<PathBuf> {
        let path =
            fs::canonicalize(path).map_err(|cause| DiskError::io("find", path.display(), cause))?;
        // Resolved anew each time: a folder may have been replaced since the agent started.
        let named = self.served.iter().filter_map(|folder| fs::canonicalize(folder).ok());
        if named.into_iter().any(|folder| path.starts_with(folder)) {
            return Ok(path);
        }
        Err(DiskError::unsuitable(
            format!("serve {}", path.display()),
            format!(
                "nobody on this host has allowed it (linerate serve --root {0}, or linerate agent \
                    --allow-serve {0})",
                path.display()
            ),
        ))
    }

    /// Opens the device or file at `path`: for reading, or for writing if every check passes.
    ///
    /// # Errors
    /// If it is neither, does not exist, or must not be written to. Existing files are never
    /// written.
    pub fn open(&self, path: &Path, permission: Permission<'_>) -> Result<Arc<Target>> {
        if let Some(keeper) = &self.keeper {
            return self.taken(keeper, keeper.open(path, permission)?);
        }
        match permission {
            Permission::Read => {
                self.limits.as_ref().map_or(Ok(()), |limits| limits.may_read(path))?
            }
            // Refused before the path is looked up, so that the answer does not reveal what exists.
            Permission::Write { consent } if self.limits.is_some() => self.allow(path, consent)?,
            Permission::Write { .. } => {}
        }
        let path = &fs::canonicalize(path)
            .map_err(|cause| DiskError::io("find", path.display(), cause))?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = held.get(path).filter(|_| permission == Permission::Read) {
            return Ok(Arc::clone(target));
        }
        let kind = fs::metadata(path)
            .map_err(|cause| DiskError::io("look at", path.display(), cause))?
            .file_type();
        match permission {
            Permission::Write { consent } if kind.is_block_device() => {
                self.allow(path, consent)?;
                // An earlier trial may have opened it. It is checked again, because something may
                // have changed between the trials.
                let unchanged = held.get(path).filter(|target| target.is_unchanged(consent));
                let target = if let Some(target) = unchanged {
                    Arc::clone(target)
                } else {
                    // Closed first: our own exclusive open would block the new one.
                    held.remove(path);
                    Arc::new(Target::device(path, consent)?)
                };
                held.insert(path.clone(), Arc::clone(&target));
                Ok(target)
            }
            Permission::Write { .. } => Err(DiskError::unsuitable(
                format!("write to {}", path.display()),
                "existing files are never written to (name a folder and a size: a scratch file is \
                    made in it)",
            )),
            Permission::Read if kind.is_block_device() || kind.is_file() => {
                let target = Target::readable(path)?;
                // The path may have been redirected since the first check, so the open file counts.
                self.limits
                    .as_ref()
                    .map_or(Ok(()), |limits| limits.may_keep_open(target.file(), path))?;
                Ok(Arc::new(target))
            }
            Permission::Read => Err(DiskError::unsuitable(
                format!("read {}", path.display()),
                "it is neither a block device nor a file (a folder needs a size: a scratch file is \
                    made in it)",
            )),
        }
    }

    /// Returns the ratio between those loads of this session that request one.
    #[must_use]
    pub fn balance(&self) -> &Arc<Balance> {
        self.balance.get_or_init(Arc::default)
    }

    /// Returns an unnamed file of `size` bytes in `folder`. A session uses the same file each time.
    ///
    /// # Errors
    /// If it cannot be created, or would fill the filesystem.
    pub fn scratch(&self, folder: &Path, size: u64) -> Result<Arc<Target>> {
        if let Some(keeper) = &self.keeper {
            // A file of another size is closed first: both may not fit.
            let real = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.retain(|path, target| *path != real || target.range().end == size);
            drop(held);
            return self.taken(keeper, keeper.scratch(folder, size)?);
        }
        self.limits.as_ref().map_or(Ok(()), |limits| limits.may_fill(folder, size))?;
        let folder = fs::canonicalize(folder)
            .map_err(|cause| DiskError::io("find", folder.display(), cause))?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = held.get(&folder).filter(|target| target.range().end == size) {
            return Ok(Arc::clone(target));
        }
        // A file of another size is closed first: both may not fit.
        held.remove(&folder);
        let made = scratch::make(&folder, size)?;
        self.limits.as_ref().map_or(Ok(()), |limits| limits.may_keep_made(&made.file, &folder))?;
        let target = Arc::new(Target::scratch(folder.clone(), made, size)?);
        held.insert(folder, Arc::clone(&target));
        Ok(target)
    }

    fn allow(&self, path: &Path, consent: Option<&str>) -> Result<()> {
        if self.writable.allows(consent) {
            return Ok(());
        }
        Err(DiskError::Refused {
            device: path.display().to_string(),
            refusals: vec![Refusal::NotAllowed],
        })
    }
}
