//! Loop devices: the file or device behind one, from the kernel's own record and not from a path
//! (`LOOP_GET_STATUS64`, loop(4)).
//!
//! The path in sysfs is the file's name at setup, in the mount namespace of the process that did
//! the setup. The file's device and inode number do not change through hard links, bind mounts,
//! renames and other namespaces.

use std::fs::File;

use crate::{Result, SysError};

/// The object behind a loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A block device, by its number (`st_rdev`).
    Device(u64),
    /// A file.
    File {
        /// The number of its filesystem (`st_dev`).
        device: u64,
        /// Its inode number there.
        inode: u64,
    },
}

mod raw {
    #![allow(unsafe_code)]

    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    /// `LOOP_GET_STATUS64` (include/uapi/linux/loop.h).
    const GET_STATUS: libc::c_ulong = 0x4C05;

    /// `struct loop_info64` (include/uapi/linux/loop.h).
    #[repr(C)]
    pub(super) struct Status {
        pub(super) device: u64,
        pub(super) inode: u64,
        pub(super) rdevice: u64,
        rest: [u64; 26],
    }

    const _: () = assert!(size_of::<Status>() == 232, "as the kernel has it");

    pub(super) fn status(device: &File) -> io::Result<Status> {
        let mut status = Status { device: 0, inode: 0, rdevice: 0, rest: [0; 26] };
        // SAFETY: the kernel writes one `loop_info64`, whose size `Status` has, and any bytes are
        // valid in it.
        let answer = unsafe { libc::ioctl(device.as_raw_fd(), GET_STATUS as _, &raw mut status) };
        if answer == 0 { Ok(status) } else { Err(io::Error::last_os_error()) }
    }
}

/// Returns the object behind the loop device `device`; `None` if the device is not set up.
///
/// # Errors
/// If `device` is not a loop device.
pub fn backing(device: &File) -> Result<Option<Backing>> {
    match raw::status(device) {
        Ok(status) if status.rdevice != 0 => Ok(Some(Backing::Device(status.rdevice))),
        Ok(status) => Ok(Some(Backing::File { device: status.device, inode: status.inode })),
        Err(cause) if cause.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(cause) => Err(SysError::new("read LOOP_GET_STATUS64 of", "a block device", cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_loop_device_shows_nothing() {
        let file = File::open("/dev/null").expect("every host has one");
        assert!(backing(&file).is_err());
    }
}
