//! Device or file that a load may use, kept open.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::claim::RESERVED_BYTES;
use crate::keeper::{DistantWatch, TargetPlace};
use crate::scratch::Scratch;
use crate::topology::{System, split};
use crate::watch::Watch;
use crate::{DiskError, Keeper, Kept, KeptFiles, Result, gate, scratch};

/// Device or file that a load may use, kept open.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    file: File,
    is_writable: bool,
    range: Range<u64>,
    block_bytes: u64,
    /// Number of the disk or partition whose sectors the kernel counts.
    number: (u32, u32),
    /// Serial number of a claimed device.
    serial: Option<String>,
    filled: Mutex<Option<Filled>>,
    /// Bytes reserved for writing so far.
    written: AtomicU64,
    /// Watch over a claimed device.
    watch: Option<Watching>,
    /// TargetPlace at the process that keeps it, if that is another one.
    place: Option<TargetPlace>,
}

/// Watch over a target, here or in the process that keeps it.
#[derive(Debug)]
enum Watching {
    Here(Watch),
    There(DistantWatch),
}

impl Watching {
    fn is_revoked(&self) -> bool {
        match self {
            Self::Here(watch) => watch.is_revoked(),
            Self::There(watch) => watch.is_revoked(),
        }
    }

    fn reasons(&self) -> String {
        match self {
            Self::Here(watch) => {
                watch.refusals().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
            Self::There(watch) => watch.reasons(),
        }
    }
}

/// Data with which a session has filled a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Run number in every block's stamp.
    pub run: u64,
    /// True if every block has a checksum, so that it can be verified.
    pub has_checksums: bool,
    /// Number of sequential passes over the whole range, to condition the device.
    pub passes: u32,
}

/// Time at which a write to an open file is complete (open(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchrony {
    /// When the kernel or the device has received it.
    #[default]
    None,
    /// When its data, and the metadata needed to find it, are durable (`O_DSYNC`).
    Data,
    /// When all of the file's metadata is durable too (`O_SYNC`).
    All,
}

impl Synchrony {
    const fn flags(self) -> OFlags {
        /// `O_DSYNC` (include/uapi/asm-generic/fcntl.h). `OFlags::DSYNC` is `O_SYNC` in rustix 1.1
        /// on Linux.
        const DATA: OFlags = OFlags::from_bits_retain(0o10_000);
        match self {
            Self::None => OFlags::empty(),
            Self::Data => DATA,
            Self::All => OFlags::SYNC,
        }
    }
}

/// Opens a target repeatedly without allocation.
#[derive(Debug)]
pub struct Opener {
    /// Kept so that the descriptor in `path` stays open.
    target: Arc<Target>,
    path: CString,
    flags: OFlags,
    /// Requested access: writing, without the page cache, and synchrony.
    requested: (bool, bool, Synchrony),
}

impl Opener {
    /// Opens another descriptor.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(&self) -> io::Result<File> {
        if let Some(TargetPlace { keeper, number }) = &self.target.place {
            let (write, direct, synchrony) = self.requested;
            return keeper.reopen(*number, write, direct, synchrony);
        }
        debug_assert!(self.target.file.as_raw_fd() >= 0, "the target is open");
        Ok(rustix::fs::open(self.path.as_c_str(), self.flags, rustix::fs::Mode::empty())?.into())
    }
}

impl Target {
    /// Returns a target for reading only, without a watch, in this process.
    fn bare(
        path: PathBuf,
        file: File,
        range: Range<u64>,
        block_bytes: u64,
        number: (u32, u32),
    ) -> Self {
        Self {
            path,
            file,
            is_writable: false,
            range,
            block_bytes,
            number,
            serial: None,
            filled: Mutex::new(None),
            written: AtomicU64::new(0),
            watch: None,
            place: None,
        }
    }

    /// Opens a claimed device for writing and starts its watch.
    pub(crate) fn device(path: &Path, consent: Option<&str>) -> Result<Self> {
        let (file, inspection) = gate::open_claimed(path, consent)?;
        let topology = inspection.topology;
        let watch = Watch::start(topology.number, topology.serial.clone())
            .map_err(|cause| DiskError::io("start the watch over", path.display(), cause))?;
        let block = topology.logical_block_bytes.max(1);
        // Direct transfers end at a block, so a rest at the end stays unused.
        let end = (topology.size_bytes - RESERVED_BYTES) / block * block;
        let range = RESERVED_BYTES..end;
        Ok(Self {
            is_writable: true,
            serial: topology.serial,
            watch: Some(Watching::Here(watch)),
            ..Self::bare(path.to_owned(), file, range, block, topology.number)
        })
    }

    /// Opens a device or file for reading.
    pub(crate) fn readable(path: &Path) -> Result<Self> {
        // If a pipe has replaced the file, the open must not wait for a writer.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("open flags are small numbers");
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(|cause| DiskError::io("open", path.display(), cause))?;
        let opened =
            file.metadata().map_err(|cause| DiskError::io("look at", path.display(), cause))?;
        let (size, block_bytes, number) = if opened.file_type().is_block_device() {
            let number = split(opened.rdev());
            let known = System::read(Path::new("/")).describe(number);
            let known = known.ok_or_else(|| {
                DiskError::unsuitable(path.display().to_string(), "sysfs does not list it")
            })?;
            (known.size_bytes, known.logical_block_bytes, number)
        } else {
            (opened.len(), scratch::direct_block_bytes(&file), split(opened.dev()))
        };
        Ok(Self::bare(path.to_owned(), file, 0..size, block_bytes, number))
    }

    /// Wraps a new scratch file of `size` bytes in `folder`.
    pub(crate) fn scratch(folder: PathBuf, made: Scratch, size: u64) -> Result<Self> {
        let device = made
            .file
            .metadata()
            .map_err(|cause| DiskError::io("look at", folder.display(), cause))?
            .dev();
        let Scratch { file, block_bytes } = made;
        let bare = Self::bare(folder, file, 0..size, block_bytes, split(device));
        Ok(Self { is_writable: true, ..bare })
    }

    /// Wraps a target that another process keeps.
    pub(crate) fn kept(keeper: Arc<dyn Keeper>, kept: Kept, files: KeptFiles) -> Result<Self> {
        let Kept { number, path, is_writable, range, block_bytes, device, serial } = kept;
        let place = TargetPlace { keeper, number };
        // A claimed device without a watch could be written to after somebody else mounts it.
        if is_writable && serial.is_some() && files.revocation.is_none() {
            return Err(DiskError::unsuitable(
                format!("write to {}", path.display()),
                "its keeper does not watch it",
            ));
        }
        let watch = files.revocation.map(DistantWatch::over).transpose();
        let watch =
            watch.map_err(|cause| DiskError::io("start the watch over", path.display(), cause))?;
        Ok(Self {
            is_writable,
            serial,
            watch: watch.map(Watching::There),
            place: Some(place),
            ..Self::bare(path, files.file.into(), range, block_bytes, device)
        })
    }

    /// Checks a device again that was opened with `consent`; returns true if nothing has changed.
    pub(crate) fn is_unchanged(&self, consent: Option<&str>) -> bool {
        consent == self.serial.as_deref()
            && matches!(&self.watch, Some(Watching::Here(watch)) if watch.look().is_empty())
    }

    /// Returns the open device or file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Describes the target for the process that asked this one to keep it. `number` is the
    /// target's number here.
    #[must_use]
    pub fn described(&self, number: u64) -> Kept {
        Kept {
            number,
            path: self.path.clone(),
            is_writable: self.is_writable,
            range: self.range.clone(),
            block_bytes: self.block_bytes,
            device: self.number,
            serial: self.serial.clone(),
        }
    }

    /// Returns the descriptor of the device or file, for another process.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns true if the permission to write may end while the target is open.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Returns true if it is a file that was created for loads.
    #[must_use]
    pub fn is_scratch(&self) -> bool {
        self.is_writable && self.serial.is_none()
    }

    /// Returns true if it has this number at its keeper.
    pub(crate) fn is_kept_as(&self, number: u64) -> bool {
        self.place.as_ref().is_some_and(|place| place.number == number)
    }

    /// Returns its path; for a scratch file, the path of its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bytes that a load may access.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns the alignment of offsets, lengths and addresses of direct transfers, bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Returns true if loads may write to it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Returns true if it must no longer be written to, because something has changed since it was
    /// opened. Costs one atomic load.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.watch.as_ref().is_some_and(Watching::is_revoked)
    }

    /// Returns why it must no longer be written to.
    #[must_use]
    pub fn revocation(&self) -> Option<String> {
        self.watch.as_ref().filter(|watch| watch.is_revoked()).map(Watching::reasons)
    }

    /// Returns the data with which this session has filled its range, if it has.
    #[must_use]
    pub fn filled(&self) -> Option<Filled> {
        *self.filled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the data with which its range is filled.
    pub fn set_filled(&self, filled: Filled) {
        *self.filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(filled);
    }

    /// Returns the kernel's name of the device whose sectors are counted; `None` if there is none,
    /// as for a filesystem in memory.
    #[must_use]
    pub fn device_name(&self) -> Option<String> {
        System::read(Path::new("/")).describe(self.number).map(|device| device.name)
    }

    /// Reserves `bytes` more for writing, over all trials and workers of the session; returns false
    /// if the sum would exceed `most`.
    #[must_use]
    pub fn spend(&self, bytes: u64, most: u64) -> bool {
        let more = |written: u64| written.checked_add(bytes).filter(|sum| *sum <= most);
        // An update, not an addition: a request that does not fit must leave the budget as it is.
        self.written.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Opens another descriptor of the same device or file, without the page cache if `direct`.
    ///
    /// # Errors
    /// If `write` is set but the target was opened for reading, or if the filesystem has no direct
    /// transfers.
    pub fn open(&self, write: bool, direct: bool) -> Result<File> {
        self.open_as(write, direct, Synchrony::None)
    }

    /// Returns a value that opens the same device or file repeatedly without allocation, as
    /// [`Target::open_as`] does.
    #[must_use]
    pub fn opener(self: &Arc<Self>, write: bool, direct: bool, synchrony: Synchrony) -> Opener {
        let held = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let access = if write && self.is_writable { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = access
            | OFlags::CLOEXEC
            | synchrony.flags()
            | if direct { OFlags::DIRECT } else { OFlags::empty() };
        let path = CString::new(held).expect("a number has no zero byte");
        Opener {
            target: Arc::clone(self),
            path,
            flags,
            requested: (write && self.is_writable, direct, synchrony),
        }
    }

    /// Does the same as [`Target::open`], with writes that are complete only when they are durable.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn open_as(&self, write: bool, direct: bool, synchrony: Synchrony) -> Result<File> {
        if write && !self.is_writable {
            let what = format!("write to {}", self.path.display());
            return Err(DiskError::unsuitable(what, "it was opened for reading only"));
        }
        let opened = match &self.place {
            Some(TargetPlace { keeper, number }) => {
                keeper.reopen(*number, write, direct, synchrony)
            }
            None => self.reopen(write, direct, synchrony),
        };
        opened.map_err(|cause| match cause.raw_os_error() {
            Some(code) if direct && code == rustix::io::Errno::INVAL.raw_os_error() => {
                DiskError::unsuitable(
                    format!("open {} without the page cache", self.path.display()),
                    "its filesystem has no direct transfers (set cache = \"buffered\")",
                )
            }
            _ => DiskError::io("open", self.path.display(), cause),
        })
    }

    /// Does the same as [`Target::open_as`] for a target that this process keeps itself.
    ///
    /// # Errors
    /// Those of open(2), and if `write` is set but the target was opened for reading.
    pub fn reopen(&self, write: bool, direct: bool, synchrony: Synchrony) -> io::Result<File> {
        if write && !self.is_writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // By descriptor: the path may lead to another object by now.
        let held = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = synchrony.flags() | if direct { OFlags::DIRECT } else { OFlags::empty() };
        let flags = i32::try_from(flags.bits()).expect("open flags are small numbers");
        OpenOptions::new().read(true).write(write).custom_flags(flags).open(held)
    }
}
