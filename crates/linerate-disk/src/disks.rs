//! The disks and files of one session: opened through the gate, held until the session ends.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::claim::RESERVED_BYTES;
use crate::gate::{self, Refusal};
use crate::keeper::{DistantWatch, TargetPlace};
use crate::scratch::Scratch;
use crate::topology::{System, split};
use crate::watch::Watch;
use crate::{Balance, DiskError, FileLimits, Keeper, Kept, KeptFiles, Served, scratch};

/// Which claimed devices loads may write to on this host. A conductor cannot change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writable {
    /// Those with these serial numbers.
    Listed(Vec<String>),
    /// Any that a person has claimed: for the process that this person runs.
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

/// What a load wants of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission<'a> {
    /// To read.
    Read,
    /// To write too, with this consent.
    Write {
        /// The serial number under which the device was claimed.
        consent: Option<&'a str>,
    },
}

/// A device or file that a load may use, held open.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    file: File,
    is_writable: bool,
    range: Range<u64>,
    block_bytes: u64,
    /// Whole disk, or partition, that the kernel counts sectors of.
    number: (u32, u32),
    /// Of a claimed device.
    serial: Option<String>,
    filled: Mutex<Option<Filled>>,
    /// Bytes set aside for writing so far.
    written: AtomicU64,
    /// Over a claimed device.
    watch: Option<Watching>,
    /// Where another process keeps it.
    place: Option<TargetPlace>,
}

/// The watch over a target, here or in the process that keeps it.
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

/// What a session has filled a target with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// The run in every block's stamp.
    pub run: u64,
    /// Whether every block has a checksum, so that it can be verified.
    pub has_checksums: bool,
    /// How often all of the range was written over in sequence, to condition the device.
    pub passes: u32,
}

/// The targets of one session; those open for writing are held until it is dropped, and scratch
/// files end with it.
#[derive(Debug, Default)]
pub struct Disks {
    writable: Writable,
    served: Vec<PathBuf>,
    /// What the host's owner lets a conductor on another host ask for; absent: whatever this
    /// process may.
    limits: Option<FileLimits>,
    /// Who opens what this process may not.
    keeper: Option<Arc<dyn Keeper>>,
    held: Mutex<BTreeMap<PathBuf, Arc<Target>>>,
    balance: OnceLock<Arc<Balance>>,
}

impl Disks {
    /// None, and none may be written to.
    #[must_use]
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

    /// None yet; loads may write to these.
    #[must_use]
    pub fn new(writable: Writable) -> Self {
        Self { writable, ..Self::default() }
    }

    /// The same, and the files in these folders may be sent to whoever asks for them.
    #[must_use]
    pub fn serving(self, folders: Vec<PathBuf>) -> Self {
        Self { served: folders, ..self }
    }

    /// The same, within these limits.
    #[must_use]
    pub fn within(self, limits: Option<FileLimits>) -> Self {
        Self { limits, ..self }
    }

    /// The same, opened by `keeper`, in whose process the gate and the limits decide.
    #[must_use]
    pub fn kept_by(self, keeper: Option<Arc<dyn Keeper>>) -> Self {
        Self { keeper, ..self }
    }

    /// Whether `path` is a folder: a load wants a scratch file in it.
    #[must_use]
    pub fn is_folder(&self, path: &Path) -> bool {
        path.is_dir() || self.keeper.as_ref().is_some_and(|keeper| keeper.is_folder(path))
    }

    /// The target that a keeper tells of: the one that is held already, or a new one, held if it is
    /// to be written to.
    fn taken(
        &self,
        keeper: &Arc<dyn Keeper>,
        (kept, files): (Kept, KeptFiles),
    ) -> Result<Arc<Target>, DiskError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// The files of the folder `path`, to be sent to foreign clients.
    ///
    /// # Errors
    /// If nobody on this host has named it or a folder around it, or it cannot be listed.
    pub fn serve(&self, path: &Path) -> Result<Served, DiskError> {
        let path =
            fs::canonicalize(path).map_err(|cause| DiskError::io("find", path.display(), cause))?;
        let named = self.served.iter().filter_map(|folder| fs::canonicalize(folder).ok());
        if !named.into_iter().any(|folder| path.starts_with(folder)) {
            return Err(DiskError::unsuitable(
                format!("serve {}", path.display()),
                format!(
                    "nobody on this host has allowed it (linerate serve --root {0}, or linerate \
                        agent --allow-serve {0})",
                    path.display()
                ),
            ));
        }
        Served::list(&path)
    }

    /// The device or file called `path`: to read, or to write if every gate lets it pass.
    ///
    /// # Errors
    /// If it is neither, does not exist, or is not to be written to. Existing files never are.
    pub fn open(&self, path: &Path, permission: Permission<'_>) -> Result<Arc<Target>, DiskError> {
        if let Some(keeper) = &self.keeper {
            return self.taken(keeper, keeper.open(path, permission)?);
        }
        match permission {
            Permission::Read => {
                self.limits.as_ref().map_or(Ok(()), |limits| limits.may_read(path))?
            }
            // Who has no consent learns nothing of what is there.
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
                // It is ours since an earlier trial, unless something has changed meanwhile.
                let is_unchanged = |target: &&Arc<Target>| {
                    consent == target.serial.as_deref()
                        && matches!(&target.watch, Some(Watching::Here(watch)) if watch.look().is_empty())
                };
                let target = if let Some(target) = held.get(path).filter(is_unchanged) {
                    Arc::clone(target)
                } else {
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
                self.limits
                    .as_ref()
                    .map_or(Ok(()), |limits| limits.may_keep_open(&target.file, path))?;
                Ok(Arc::new(target))
            }
            Permission::Read => Err(DiskError::unsuitable(
                format!("read {}", path.display()),
                "it is neither a block device nor a file (a folder needs a size: a scratch file is \
                    made in it)",
            )),
        }
    }

    /// The ratio that loads of this session keep among each other, those that ask for it.
    #[must_use]
    pub fn balance(&self) -> &Arc<Balance> {
        self.balance.get_or_init(Arc::default)
    }

    /// A file of `size` bytes without a name in `folder`; the same one each time in a session.
    ///
    /// # Errors
    /// If it cannot be made, or would fill the filesystem.
    pub fn scratch(&self, folder: &Path, size: u64) -> Result<Arc<Target>, DiskError> {
        if let Some(keeper) = &self.keeper {
            // One of another size gives its room back first.
            let real = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
            let is_other = |held: &PathBuf, target: &mut Arc<Target>| {
                *held != real || target.range.end == size
            };
            self.held.lock().unwrap_or_else(PoisonError::into_inner).retain(is_other);
            return self.taken(keeper, keeper.scratch(folder, size)?);
        }
        self.limits.as_ref().map_or(Ok(()), |limits| limits.may_fill(folder, size))?;
        let folder = fs::canonicalize(folder)
            .map_err(|cause| DiskError::io("find", folder.display(), cause))?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = held.get(&folder).filter(|target| target.range.end == size) {
            return Ok(Arc::clone(target));
        }
        // One of another size gives its room back first.
        held.remove(&folder);
        let Scratch { file, block_bytes } = scratch::make(&folder, size)?;
        self.limits.as_ref().map_or(Ok(()), |limits| limits.may_keep_made(&file, &folder))?;
        let device = file
            .metadata()
            .map_err(|cause| DiskError::io("look at", folder.display(), cause))?
            .dev();
        let target = Arc::new(Target {
            path: folder.clone(),
            file,
            is_writable: true,
            range: 0..size,
            block_bytes,
            number: split(device),
            serial: None,
            filled: Mutex::new(None),
            written: AtomicU64::new(0),
            watch: None,
            place: None,
        });
        held.insert(folder, Arc::clone(&target));
        Ok(target)
    }

    fn allow(&self, path: &Path, consent: Option<&str>) -> Result<(), DiskError> {
        if self.writable.allows(consent) {
            return Ok(());
        }
        Err(DiskError::Refused {
            device: path.display().to_string(),
            refusals: vec![Refusal::NotAllowed],
        })
    }
}

/// When a write of an open file counts as done (open(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchrony {
    /// When the kernel or the device has it.
    #[default]
    None,
    /// When its data is durable, and what is needed to find it (`O_DSYNC`).
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

/// Opens a target anew.
#[derive(Debug)]
pub struct Opener {
    /// It stays open under the number that `path` names.
    target: Arc<Target>,
    path: CString,
    flags: OFlags,
    /// As asked for: to be written to, past the page cache, and how durable.
    way: (bool, bool, Synchrony),
}

impl Opener {
    /// Another descriptor.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(&self) -> io::Result<File> {
        if let Some(TargetPlace { keeper, number }) = &self.target.place {
            let (write, direct, synchrony) = self.way;
            return keeper.reopen(*number, write, direct, synchrony);
        }
        debug_assert!(self.target.file.as_raw_fd() >= 0, "it is held open");
        Ok(rustix::fs::open(self.path.as_c_str(), self.flags, rustix::fs::Mode::empty())?.into())
    }
}

impl Target {
    fn device(path: &Path, consent: Option<&str>) -> Result<Self, DiskError> {
        let (file, inspection) = gate::open_claimed(path, consent)?;
        let topology = inspection.topology;
        let watch = Watch::start(topology.number, topology.serial.clone())
            .map_err(|cause| DiskError::io("start the watch over", path.display(), cause))?;
        let block = topology.logical_block_bytes.max(1);
        let end = (topology.size_bytes - RESERVED_BYTES) / block * block;
        Ok(Self {
            path: path.to_owned(),
            file,
            is_writable: true,
            range: RESERVED_BYTES..end,
            block_bytes: block,
            number: topology.number,
            serial: topology.serial,
            filled: Mutex::new(None),
            written: AtomicU64::new(0),
            watch: Some(Watching::Here(watch)),
            place: None,
        })
    }

    fn readable(path: &Path) -> Result<Self, DiskError> {
        // A pipe that has taken the file's place must not make us wait.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("open flags are small numbers");
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(|cause| DiskError::io("open", path.display(), cause))?;
        let opened =
            file.metadata().map_err(|cause| DiskError::io("look at", path.display(), cause))?;
        let (size, block_bytes, number) = if opened.file_type().is_block_device() {
            let number = split(opened.rdev());
            let known = System::read(Path::new("/")).describe(number);
            let known = known.ok_or_else(|| {
                DiskError::unsuitable(path.display().to_string(), "sysfs does not show it")
            })?;
            (known.size_bytes, known.logical_block_bytes, number)
        } else {
            (opened.len(), scratch::direct_block_bytes(&file), split(opened.dev()))
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            is_writable: false,
            range: 0..size,
            block_bytes,
            number,
            serial: None,
            filled: Mutex::new(None),
            written: AtomicU64::new(0),
            watch: None,
            place: None,
        })
    }

    /// One that another process keeps.
    fn kept(keeper: Arc<dyn Keeper>, kept: Kept, files: KeptFiles) -> Result<Self, DiskError> {
        let Kept { number, path, is_writable, range, block_bytes, device, serial } = kept;
        let place = TargetPlace { keeper, number };
        if is_writable && serial.is_some() && files.revocation.is_none() {
            return Err(DiskError::unsuitable(
                format!("write to {}", path.display()),
                "nobody watches over it",
            ));
        }
        let watch = files.revocation.map(DistantWatch::over).transpose();
        let watch =
            watch.map_err(|cause| DiskError::io("start the watch over", path.display(), cause))?;
        Ok(Self {
            path,
            file: files.file.into(),
            is_writable,
            range,
            block_bytes,
            number: device,
            serial,
            filled: Mutex::new(None),
            written: AtomicU64::new(0),
            watch: watch.map(Watching::There),
            place: Some(place),
        })
    }

    /// What another process, which asks this one to keep the target, has to know of it. `number` is
    /// the target's number here.
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

    /// The device or file itself, for another process.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether the permission to write to it may end while it is held.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Whether it is a file that was made for loads.
    #[must_use]
    pub fn is_scratch(&self) -> bool {
        self.is_writable && self.serial.is_none()
    }

    fn is_kept_as(&self, number: u64) -> bool {
        self.place.as_ref().is_some_and(|place| place.number == number)
    }

    /// Its name; of a scratch file, its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes a load may touch.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// What offsets, lengths and addresses of direct transfers must be multiples of.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Whether loads may write to it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Whether it may no longer be written to, because something has changed since it was opened.
    /// One load of an atomic number.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.watch.as_ref().is_some_and(Watching::is_revoked)
    }

    /// Why it may no longer be written to.
    #[must_use]
    pub fn revocation(&self) -> Option<String> {
        self.watch.as_ref().filter(|watch| watch.is_revoked()).map(Watching::reasons)
    }

    /// With what this session has filled its range, if it has.
    #[must_use]
    pub fn filled(&self) -> Option<Filled> {
        *self.filled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says with what its range is filled from now on.
    pub fn set_filled(&self, filled: Filled) {
        *self.filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(filled);
    }

    /// The kernel's name of the device whose sectors are counted; `None` where there is none, as
    /// under a filesystem in memory.
    #[must_use]
    pub fn device_name(&self) -> Option<String> {
        System::read(Path::new("/")).describe(self.number).map(|device| device.name)
    }

    /// Sets aside `bytes` more for writing, all trials and workers of the session together; `false`
    /// if that would exceed `most`.
    #[must_use]
    pub fn spend(&self, bytes: u64, most: u64) -> bool {
        let more = |written: u64| written.checked_add(bytes).filter(|sum| *sum <= most);
        self.written.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Another descriptor of the very same device or file, past the page cache if `direct`.
    ///
    /// # Errors
    /// If it is to be written to and was opened to read, or the filesystem has no direct transfers.
    pub fn open(&self, write: bool, direct: bool) -> Result<File, DiskError> {
        self.open_as(write, direct, Synchrony::None)
    }

    /// What opens the very same device or file again and again, without allocating, as
    /// [`Target::open_as`] does.
    #[must_use]
    pub fn opener(self: &Arc<Self>, write: bool, direct: bool, synchrony: Synchrony) -> Opener {
        let held = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let way = if write && self.is_writable { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = way
            | OFlags::CLOEXEC
            | synchrony.flags()
            | if direct { OFlags::DIRECT } else { OFlags::empty() };
        let path = CString::new(held).expect("a number has no zero byte");
        Opener {
            target: Arc::clone(self),
            path,
            flags,
            way: (write && self.is_writable, direct, synchrony),
        }
    }

    /// [`Target::open`] with writes that end only when they are durable.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn open_as(
        &self,
        write: bool,
        direct: bool,
        synchrony: Synchrony,
    ) -> Result<File, DiskError> {
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
                    format!("open {} past the page cache", self.path.display()),
                    "its filesystem has no direct transfers (set cache = \"buffered\")",
                )
            }
            _ => DiskError::io("open", self.path.display(), cause),
        })
    }

    /// [`Target::open_as`], of a target that this process keeps itself.
    ///
    /// # Errors
    /// Those of open(2), and if it is to be written to and was opened to read.
    pub fn reopen(&self, write: bool, direct: bool, synchrony: Synchrony) -> io::Result<File> {
        if write && !self.is_writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Not by its name, which may mean something else by now.
        let held = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = synchrony.flags() | if direct { OFlags::DIRECT } else { OFlags::empty() };
        let flags = i32::try_from(flags.bits()).expect("open flags are small numbers");
        OpenOptions::new().read(true).write(write).custom_flags(flags).open(held)
    }
}
