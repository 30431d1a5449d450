//! Scratch files: created for one session, without a name. No existing file can be overwritten, and
//! nothing remains, not even after SIGKILL.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, StatxFlags, fallocate, open, statvfs, statx, unlink,
};

use crate::{DiskError, Result};

/// Smallest free space to leave on a filesystem.
const LEAST_FREE_BYTES: u64 = 2 << 30;
/// Smallest part of a filesystem to leave free: one in this many.
const LEAST_FREE_PART: u64 = 10;
/// Largest part of the root filesystem's free bytes that a scratch file may use: one in this many.
const ROOT_PART: u64 = 10;
/// Block size for direct transfers if the kernel does not report one: every disk supports it.
const COMMON_BLOCK_BYTES: u64 = 4096;

/// File without a name.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) file: File,
    /// See [`direct_block_bytes`].
    pub(crate) block_bytes: u64,
}

/// Creates a file of `size` bytes in `folder` and reserves the space.
pub(crate) fn make(folder: &Path, size: u64) -> Result<Scratch> {
    let what = || format!("make a scratch file of {size} bytes in {}", folder.display());
    check_room(folder, size)?;
    let file = nameless(folder)?;
    // Reserved now, so that a full disk is an error here and not in the middle of a load. It also
    // keeps the allocation of blocks out of the measured writes.
    let given = fallocate(&file, FallocateFlags::empty(), 0, size).or_else(|error| match error {
        // Filesystems without reservation grow the file as it is filled.
        rustix::io::Errno::OPNOTSUPP => rustix::fs::ftruncate(&file, size),
        other => Err(other),
    });
    given.map_err(|cause| DiskError::io("make", what(), cause))?;
    let block_bytes = direct_block_bytes(&file);
    Ok(Scratch { file, block_bytes })
}

fn nameless(folder: &Path) -> Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    match open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(file.into()),
        // Some filesystems cannot create an unnamed file. There the name is removed at once.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => {
            let name = folder.join(format!(".linerate-scratch-{}", std::process::id()));
            let flags =
                OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
            // EXCL and NOFOLLOW: a file or link with this name may be somebody's trap.
            let file = open(&name, flags, mode)
                .map_err(|cause| DiskError::io("make", name.display(), cause))?;
            unlink(&name).map_err(|cause| DiskError::io("remove", name.display(), cause))?;
            Ok(file.into())
        }
        Err(cause) => Err(DiskError::io("make a scratch file in", folder.display(), cause)),
    }
}

/// Refuses to fill a filesystem, or to use more than a tenth of the root filesystem's free space.
fn check_room(folder: &Path, size: u64) -> Result<()> {
    let look = |path: &Path| {
        std::fs::metadata(path).map_err(|cause| DiskError::io("look at", path.display(), cause))
    };
    let room =
        statvfs(folder).map_err(|cause| DiskError::io("look at", folder.display(), cause))?;
    let (total, free) = (room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize);
    let keep = LEAST_FREE_BYTES.max(total / LEAST_FREE_PART);
    let mut most = free.saturating_sub(keep);
    // A full root filesystem can stop services of the whole host.
    if look(folder)?.dev() == look(Path::new("/"))?.dev() {
        most = most.min(free / ROOT_PART);
    }
    if size <= most {
        return Ok(());
    }
    let what = format!("make a scratch file of {size} bytes in {}", folder.display());
    Err(DiskError::unsuitable(
        what,
        format!("{free} bytes are free there, and a scratch file may use {most} of them"),
    ))
}

/// Returns the alignment of offsets and lengths for direct transfers to `file`, bytes
/// (`STATX_DIOALIGN`, Linux 6.1).
pub(crate) fn direct_block_bytes(file: &File) -> u64 {
    let known = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    // Zero means that the file has no direct transfers. The open reports that with its remedy.
    let known =
        known.ok().map(|file| u64::from(file.stx_dio_offset_align)).filter(|bytes| *bytes > 0);
    known.unwrap_or(COMMON_BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_file_leaves_no_name_and_has_its_size() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let scratch = make(folder.path(), 1 << 20).expect("made");
        assert_eq!(scratch.file.metadata().expect("it is open").len(), 1 << 20);
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
        assert!(scratch.block_bytes.is_power_of_two());
    }

    #[test]
    fn a_filesystem_is_not_filled() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = make(folder.path(), u64::MAX / 2).expect_err("too large");
        assert!(error.to_string().contains("bytes are free there"), "{error}");
    }
}
