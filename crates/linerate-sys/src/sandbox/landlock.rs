//! Landlock: limits which files a process may open from now on, and to which processes it may send
//! signals (landlock(7)). Needs no privilege.
//!
//! The rights apply to opening. Files that are already open, or that come from another process,
//! stay usable. Reading metadata (stat(2)) is not limited.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

/// Rights of linux/landlock.h, by bit.
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_FOLDER: u64 = 1 << 3;
/// Rights of the first version; then the additions of the second, third and fifth.
const FIRST_RIGHTS: u64 = (1 << 13) - 1;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const DEVICE_CONTROL: u64 = 1 << 15;
/// Connections to abstract sockets of outside processes, and signals to them: since version 6.
const SCOPES: u64 = 0b11;

/// Allows reading below `readable` and writing to `writable`, and forbids all other opening.
/// Returns the version of the interface.
pub(super) fn restrict(readable: &[PathBuf], writable: &[PathBuf]) -> io::Result<u32> {
    let version = raw::version()?;
    let handled = rights(version);
    let ruleset = raw::create(handled, version)?;
    for path in readable {
        allow(&ruleset, path, READ_FILE | READ_FOLDER)?;
    }
    for path in writable {
        allow(
            &ruleset,
            path,
            (READ_FILE | READ_FOLDER | WRITE_FILE | TRUNCATE | DEVICE_CONTROL) & handled,
        )?;
    }
    raw::enforce(&ruleset)?;
    Ok(version)
}

/// Returns the rights that a kernel with this version of the interface has.
fn rights(version: u32) -> u64 {
    let added = [(2, REFER), (3, TRUNCATE), (5, DEVICE_CONTROL)];
    added
        .into_iter()
        .filter(|(since, _)| version >= *since)
        .fold(FIRST_RIGHTS, |rights, (_, right)| rights | right)
}

fn allow(ruleset: &OwnedFd, path: &Path, rights: u64) -> io::Result<()> {
    let opened = match open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(opened) => opened,
        // A path that does not exist or is not accessible needs no right.
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS | rustix::io::Errno::NOTDIR) => {
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let is_folder = FileType::from_raw_mode(fstat(&opened)?.st_mode) == FileType::Directory;
    let rights = if is_folder { rights } else { rights & !READ_FOLDER };
    raw::allow(ruleset, opened.as_fd().as_raw_fd(), rights)
}

mod raw {
    #![allow(unsafe_code)]

    use std::io;
    use std::mem::size_of;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    /// `LANDLOCK_CREATE_RULESET_VERSION` and `LANDLOCK_RULE_PATH_BENEATH`.
    const ASK_VERSION: u32 = 1;
    const PATH_BENEATH: u32 = 1;

    /// `struct landlock_ruleset_attr`; older kernels know only its beginning.
    #[repr(C)]
    struct Ruleset {
        files: u64,
        network: u64,
        scopes: u64,
    }

    /// `struct landlock_path_beneath_attr`.
    #[repr(C, packed)]
    struct PathBeneath {
        rights: u64,
        folder: i32,
    }

    fn done(answer: libc::c_long) -> io::Result<libc::c_long> {
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
    }

    /// Returns the version of the interface.
    pub(super) fn version() -> io::Result<u32> {
        let none = std::ptr::null::<Ruleset>();
        // SAFETY: with this flag the kernel reads nothing.
        done(unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, ASK_VERSION)
        })
        .map(|version| version as u32)
    }

    pub(super) fn create(files: u64, version: u32) -> io::Result<OwnedFd> {
        let ruleset =
            Ruleset { files, network: 0, scopes: if version >= 6 { super::SCOPES } else { 0 } };
        let known = match version {
            ..4 => size_of::<u64>(),
            4..6 => 2 * size_of::<u64>(),
            _ => size_of::<Ruleset>(),
        };
        // SAFETY: `ruleset` is live and at least `known` bytes long; the kernel only reads it.
        let made = done(unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, &raw const ruleset, known, 0_u32)
        })?;
        let made = i32::try_from(made).expect("a descriptor fits an int");
        // SAFETY: the kernel has just returned this descriptor to us and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(made) })
    }

    pub(super) fn allow(ruleset: &OwnedFd, folder: i32, rights: u64) -> io::Result<()> {
        let rule = PathBeneath { rights, folder };
        // SAFETY: `rule` is live and of the type that the kernel reads for this kind of rule.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                ruleset.as_raw_fd(),
                PATH_BENEATH,
                &raw const rule,
                0_u32,
            )
        };
        done(added).map(drop)
    }

    pub(super) fn enforce(ruleset: &OwnedFd) -> io::Result<()> {
        // SAFETY: it takes a descriptor and a number.
        done(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) })
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rights_that_the_kernel_has_are_requested() {
        // LANDLOCK_ACCESS_FS_* of linux/landlock.h: 13 in Linux 5.13, REFER in 5.19, TRUNCATE in
        // 6.2, IOCTL_DEV in 6.10.
        for (version, n_rights) in [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (7, 16)] {
            assert_eq!(rights(version), (1 << n_rights) - 1, "version {version}");
        }
    }
}
