//! Files that exist either complete or not at all, even if the process or the disk fails during the
//! write.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};

use crate::{Result, SysError};

/// Replaces the file at `path` by `contents`. The new file has another name in the same folder, or
/// none, until it is complete.
///
/// # Errors
/// If the file cannot be written. Then `path` is unchanged and nothing else remains.
///
/// # Examples
/// ```
/// use linerate_sys::whole_file;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("state");
/// whole_file::replace(&path, b"first")?;
/// whole_file::replace(&path, b"second")?;
/// assert_eq!(std::fs::read(&path)?, b"second");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn replace(path: &Path, contents: &[u8]) -> Result<()> {
    let error = |cause: io::Error| SysError::new("write", path.display().to_string(), cause);
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        // A link, terminal or pipe that a person named is written in place: there is no old file to
        // protect.
        return OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(path)
            .and_then(|mut file| file.write_all(contents))
            .map_err(error);
    }
    let temporary = temporary_name(path);
    let written = new_file(&temporary).and_then(|file| fill(&file, contents, false));
    let replaced = written.and_then(|()| fs::rename(&temporary, path));
    if replaced.is_err() {
        let _absent = fs::remove_file(&temporary);
    }
    replaced.map_err(error)
}

/// Creates the file `path`, which must not exist, with these contents, and waits until they are on
/// the disk. `prepare` receives the file before any other process can see it, for example to lock
/// it.
///
/// # Errors
/// If `path` exists ([`io::ErrorKind::AlreadyExists`]), or the file cannot be written. Then nothing
/// remains.
pub fn create(
    path: &Path,
    contents: &[u8],
    prepare: impl Fn(&File) -> io::Result<()>,
) -> Result<File> {
    let error = |cause: io::Error| SysError::new("create", path.display().to_string(), cause);
    let folder = folder_of(path);
    let unnamed = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match rustix::fs::open(folder, unnamed, Mode::from_raw_mode(0o666)) {
        Ok(file) => {
            let file = File::from(file);
            fill(&file, contents, true).and_then(|()| prepare(&file)).map_err(error)?;
            let magic = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
            rustix::fs::linkat(CWD, magic, CWD, path, AtFlags::SYMLINK_FOLLOW)
                .map_err(|cause| error(cause.into()))?;
            file
        }
        // File systems without unnamed files (NFS, FUSE, vfat).
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
            let temporary = temporary_name(path);
            let made = new_file(&temporary).and_then(|file| {
                fill(&file, contents, true)?;
                prepare(&file)?;
                without_replacing(&temporary, path)?;
                Ok(file)
            });
            if made.is_err() {
                let _absent = fs::remove_file(&temporary);
            }
            made.map_err(error)?
        }
        Err(cause) => return Err(error(cause.into())),
    };
    // A name is durable only after its folder is.
    let _unsupported = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(file)
}

/// Opens `path`, which must be a regular file. Neither waits for nor uses a pipe or device that has
/// taken its place.
///
/// # Errors
/// If it cannot be opened, or is not a regular file ([`io::ErrorKind::InvalidInput`]).
pub fn open_regular(path: &Path, write: bool) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Returns true if the file is on a network file system, whose locks may differ from local locks.
/// The list of mounts knows it; `statfs(2)` does not: 9P passes on the type of the other host's.
#[must_use]
pub fn is_remote(file: &File) -> bool {
    let Ok(found) = file.metadata() else { return false };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    is_remote_in(&mounts, (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev())))
}

/// The same by lines as `36 35 0:98 / /mnt rw shared:1 - nfs4 host:/path rw` (proc(5)).
fn is_remote_in(mounts: &str, (major, minor): (u32, u32)) -> bool {
    const REMOTE: [&str; 9] =
        ["9p", "afs", "ceph", "cifs", "nfs", "nfs4", "smb3", "vboxsf", "virtiofs"];
    let device = format!("{major}:{minor}");
    let on_device = |line: &&str| line.split(' ').nth(2) == Some(device.as_str());
    let kind = |line: &str| Some(line.split_once(" - ")?.1.split(' ').next()?.to_owned());
    // FUSE may be any of them.
    mounts
        .lines()
        .filter(on_device)
        .filter_map(kind)
        .any(|kind| REMOTE.contains(&kind.as_str()) || kind.starts_with("fuse"))
}

fn without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A hard link does not replace a file either.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            fs::hard_link(from, to).and_then(|()| fs::remove_file(from))
        }
        other => Ok(other?),
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)
}

fn fill(mut file: &File, contents: &[u8], durable: bool) -> io::Result<()> {
    file.write_all(contents)?;
    if durable { file.sync_all() } else { Ok(()) }
}

/// Returns a hidden name beside `path` that no other process uses: `.report.html.1234-0.tmp`.
fn temporary_name(path: &Path) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(folder).expect("a folder").map(|f| f.expect("one").file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_network_file_system_is_told_by_its_mount() {
        let mounts = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            36 22 0:29 / /out rw,sync - 9p out rw,trans=virtio\n\
            37 22 0:30 / /home rw shared:2 master:3 - fuse.sshfs host:/home rw\n\
            38 22 0:31 / /a rw - nfs4 host:/a rw\n";
        let remote = |device| is_remote_in(mounts, device);
        assert_eq!(
            [(254, 0), (0, 29), (0, 30), (0, 31), (0, 3), (9, 9)].map(remote),
            [false, true, true, true, false, false]
        );
        assert!(!is_remote(&tempfile::tempfile().expect("a file")));
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.md");
        replace(&path, b"old").expect("room");
        replace(&path, b"new").expect("room");
        assert_eq!(fs::read(&path).expect("it is there"), b"new");
        assert_eq!(names(folder.path()), ["report.md"]);
        let error =
            replace(&folder.path().join("no/folder"), b"").expect_err("no folder").to_string();
        assert!(error.starts_with("write ") && error.contains("no/folder"), "{error}");
    }

    #[test]
    fn what_cannot_be_written_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.md");
        replace(&path, b"old").expect("room");
        // The temporary name would be longer than a file system allows.
        let long = folder.path().join("x".repeat(250));
        assert!(replace(&long, b"new").is_err());
        assert_eq!(names(folder.path()), ["report.md"]);
    }

    #[test]
    fn a_file_is_created_once_and_its_preparation_can_refuse_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ledger");
        let refused =
            create(&path, b"x", |_| Err(io::ErrorKind::WouldBlock.into())).expect_err("refused");
        assert_eq!(refused.cause.kind(), io::ErrorKind::WouldBlock);
        assert!(names(folder.path()).is_empty());
        create(&path, b"first", |_| Ok(())).expect("it is new");
        let error = create(&path, b"second", |_| Ok(())).expect_err("it is there");
        assert_eq!(error.cause.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("it is there"), b"first");
        assert_eq!(names(folder.path()), ["a.ledger"]);
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("a pipe");
        fs::write(&file, "x").expect("room");
        for write in [false, true] {
            let error = open_regular(&pipe, write).expect_err("it is a pipe");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
            open_regular(&file, write).expect("it is a file");
        }
        open_regular(folder.path(), false).expect_err("it is a folder");
    }

    #[test]
    fn a_rename_does_not_replace() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, "new").expect("room");
        fs::write(&to, "old").expect("room");
        assert!(without_replacing(&from, &to).is_err());
        assert_eq!(fs::read(&to).expect("it is there"), b"old");
    }
}
