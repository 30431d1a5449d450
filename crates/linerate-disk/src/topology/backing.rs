//! Objects behind loop devices and swap files. Files are compared by device and inode number, never
//! by path.
//!
//! A path describes a file at one time and place: a hard link, a bind mount, a rename or another
//! mount namespace gives the same file another path. Some filesystems show files of other
//! filesystems under their own numbers. There, two different numbers prove nothing.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use linerate_sys::loop_device;

use super::{Mount, split};

/// Filesystems that show files stored elsewhere: on another filesystem, on another host, or
/// wherever a program takes them from.
const SECOND_HAND: [&str; 11] = [
    "9p", "aufs", "ceph", "cifs", "ecryptfs", "fuse", "nfs", "overlay", "smb3", "unionfs",
    "virtiofs",
];
/// Those that may show files of this host under numbers that no mount has.
const HIDDEN_NUMBERS: [&str; 3] = ["aufs", "overlay", "unionfs"];

/// Location of the bytes of a loop device or swap file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Backing {
    /// On a block device.
    Device((u32, u32)),
    /// In a file.
    File {
        /// `st_dev` and `st_ino`.
        number: (u64, u64),
        /// True if its filesystem shows files stored elsewhere.
        is_second_hand: bool,
    },
    /// Unknown.
    Unknown,
}

/// Result of a comparison of two locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sameness {
    Same,
    Different,
    Unclear,
}

impl Backing {
    /// Returns the location behind the loop device with the sysfs folder `folder`, if it has one.
    pub(super) fn of_loop(
        root: &Path,
        name: &str,
        folder: &Path,
        mounts: &[Mount],
    ) -> Option<Self> {
        let path = super::text(&folder.join("loop/backing_file"))?;
        let device = File::open(root.join("dev").join(name)).ok();
        let answer = device.and_then(|device| loop_device::backing(&device).ok());
        match answer {
            Some(Some(loop_device::Backing::Device(number))) => Some(Self::Device(split(number))),
            Some(Some(loop_device::Backing::File { device, inode })) => {
                Some(Self::file((device, inode), mounts))
            }
            Some(None) => None,
            // Without the device file only the path is known.
            None => Some(Self::at(root, &path, mounts)),
        }
    }

    /// Returns the present location of `path`.
    pub(super) fn at(root: &Path, path: &str, mounts: &[Mount]) -> Self {
        let found = path.strip_prefix('/').and_then(|path| fs::metadata(root.join(path)).ok());
        match found {
            Some(found) if found.file_type().is_block_device() => Self::Device(split(found.rdev())),
            Some(found) => Self::file((found.dev(), found.ino()), mounts),
            None => Self::Unknown,
        }
    }

    fn file(number: (u64, u64), mounts: &[Mount]) -> Self {
        // `fuse.sshfs` and the like are a type with a subtype.
        let is_one_of =
            |kind: &str, kinds: &[&str]| kinds.contains(&kind.split('.').next().unwrap_or(kind));
        let mut own = mounts.iter().filter(|mount| mount.number == split(number.0)).peekable();
        let is_second_hand = if own.peek().is_some() {
            own.any(|mount| is_one_of(&mount.kind, &SECOND_HAND))
        } else {
            // Subvolumes of btrfs and layers of an overlay have numbers that no mount has.
            mounts.iter().any(|mount| is_one_of(&mount.kind, &HIDDEN_NUMBERS))
        };
        Self::File { number, is_second_hand }
    }

    pub(super) fn sameness(&self, other: &Self) -> Sameness {
        match (self, other) {
            (Self::Device(one), Self::Device(other)) if one == other => Sameness::Same,
            (Self::File { number: one, .. }, Self::File { number: other, .. }) if one == other => {
                Sameness::Same
            }
            // Within one filesystem, numbers identify files.
            (Self::File { number: (one, _), .. }, Self::File { number: (other, _), .. })
                if one == other =>
            {
                Sameness::Different
            }
            (Self::File { is_second_hand: one, .. }, Self::File { is_second_hand: other, .. })
                if *one || *other =>
            {
                Sameness::Unclear
            }
            // An object that cannot be identified may be this one, so it must block the device.
            (Self::Unknown, _) | (_, Self::Unknown) => Sameness::Unclear,
            _ => Sameness::Different,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(kind: &str, minor: u32) -> Mount {
        Mount { number: (0, minor), source: None, at: String::new(), kind: kind.to_owned() }
    }

    #[test]
    fn files_that_other_filesystems_show_again_never_count_as_different() {
        let mounts = [mount("ext4", 1), mount("overlay", 2), mount("fuse.sshfs", 3)];
        let file = |minor, inode| Backing::file((rustix::fs::makedev(0, minor), inode), &mounts);
        assert_eq!(file(1, 7).sameness(&file(1, 7)), Sameness::Same);
        assert_eq!(file(1, 7).sameness(&file(1, 8)), Sameness::Different);
        assert_eq!(
            file(1, 7).sameness(&file(2, 7)),
            Sameness::Unclear,
            "its upper layer may be the other"
        );
        assert_eq!(file(3, 9).sameness(&file(1, 7)), Sameness::Unclear);
        assert_eq!(file(2, 7).sameness(&file(2, 8)), Sameness::Different);
        assert_eq!(
            file(1, 7).sameness(&file(9, 7)),
            Sameness::Unclear,
            "a layer has a number that no mount has"
        );
        assert_eq!(file(1, 7).sameness(&Backing::Unknown), Sameness::Unclear);
        let plain = |minor| Backing::file((rustix::fs::makedev(0, minor), 7), &mounts[..1]);
        assert_eq!(plain(1).sameness(&plain(9)), Sameness::Different, "a part of btrfs");
    }
}
