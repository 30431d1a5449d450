//! What is on a disk, told from its first and last bytes: filesystems, members of volumes,
//! encryption, swap, partition tables.
//!
//! Pure: bytes in, findings out. A finding needs no more than its magic number in its place: here a
//! false alarm costs a refusal, and a miss costs somebody's data. Places and magic numbers are
//! those of the kernel's headers and of libblkid's probes. What it does not see: formats without a
//! mark, which the gate refuses as "not blank".

mod embedded;
mod partitions;
mod superblocks;

use std::fmt;

use serde::Serialize;

pub use embedded::embedded;

/// How much of a disk's start is looked at: a filesystem on a part of the disk, of which no table
/// tells, begins there.
pub const HEAD_BYTES: usize = 64 << 20;
/// How much of it is looked at on a disk that is in use anyway. VMware's volumes begin at 1 MiB,
/// its file system's header lies at 2 MiB.
pub(crate) const SHORT_HEAD_BYTES: usize = 0x20_1000;
/// How much of a disk's end is looked at. ZFS keeps two labels in the last 512 KiB, md up to 128
/// KiB from the end.
pub(crate) const TAIL_BYTES: usize = 0x10_0000;

/// What kind of thing a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Files.
    Filesystem,
    /// A part of a volume or array made of several devices, or a cache's.
    Member,
    /// Contents that only a key opens, or whose integrity is kept.
    Encryption,
    /// Swap space, or a suspended system.
    Swap,
    /// Other devices' places.
    PartitionTable,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filesystem => "filesystem",
            Self::Member => "volume member",
            Self::Encryption => "encrypted volume",
            Self::Swap => "swap",
            Self::PartitionTable => "partition table",
        })
    }
}

/// Something found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// What kind of thing.
    pub kind: Kind,
    /// Its name, as libblkid has it.
    pub name: &'static str,
    /// Where its mark stands, bytes from the start.
    pub offset: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) at byte {}", self.name, self.kind, self.offset)
    }
}

/// The first and last bytes of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Edges<'a> {
    /// From its first byte, at most [`HEAD_BYTES`].
    pub head: &'a [u8],
    /// To its last byte, at most [`TAIL_BYTES`].
    pub tail: &'a [u8],
    /// How many bytes it has.
    pub size: u64,
}

impl Edges<'_> {
    /// The `len` bytes at `offset` from the start, if they are here.
    fn at(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let within = |bytes: &'_ [u8], start: u64| -> Option<usize> {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            (from.checked_add(len)? <= bytes.len()).then_some(from)
        };
        if let Some(from) = within(self.head, 0) {
            return self.head.get(from..from + len);
        }
        let from = within(self.tail, self.size.checked_sub(self.tail.len() as u64)?)?;
        self.tail.get(from..from + len)
    }

    /// Whether `bytes` stand at `offset`.
    fn has(&self, offset: u64, bytes: &[u8]) -> bool {
        self.at(offset, bytes.len()) == Some(bytes)
    }

    /// A little-endian 16-bit number.
    fn u16(&self, offset: u64) -> Option<u16> {
        self.at(offset, 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// A little-endian 32-bit number.
    fn u32(&self, offset: u64) -> Option<u32> {
        self.at(offset, 4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }
}

/// Everything found, by place.
#[must_use]
pub fn findings(edges: &Edges<'_>) -> Vec<Finding> {
    let mut found = superblocks::findings(edges);
    found.extend(partitions::findings(edges));
    found.sort_by_key(|finding| (finding.offset, finding.kind, finding.name));
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edges(image: &[u8]) -> Edges<'_> {
        let (head, tail) = (image.len().min(HEAD_BYTES), image.len().saturating_sub(TAIL_BYTES));
        Edges { head: &image[..head], tail: &image[tail..], size: image.len() as u64 }
    }

    fn names(image: &[u8]) -> Vec<&'static str> {
        findings(&edges(image)).iter().map(|finding| finding.name).collect()
    }

    fn with(size: usize, marks: &[(usize, &[u8])]) -> Vec<u8> {
        let mut image = vec![0; size];
        for (at, bytes) in marks {
            image[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        image
    }

    #[test]
    fn nothing_is_found_on_a_blank_disk_of_any_size() {
        for size in [0, 1, 511, 512, 4096, 65_536, 1 << 20, (4 << 20) + 512] {
            assert_eq!(names(&vec![0; size]), [] as [&str; 0], "{size} bytes");
        }
    }

    /// Formats whose tools are rare: their marks as the kernel's headers have them.
    #[test]
    fn a_mark_in_its_place_is_found_and_elsewhere_it_is_not() {
        const END: usize = 8 << 20;
        let cases: &[(&str, usize, &[u8])] = &[
            ("zfs_member", 0x2_0000 + 1024, &0x00BA_B10C_u64.to_le_bytes()),
            ("zfs_member", END - 0x2_0000 + 1024, &0x00BA_B10C_u64.to_be_bytes()),
            ("linux_raid_member", END - 65_536, &0xA92B_4EFC_u32.to_le_bytes()),
            ("linux_raid_member", END - 8192, &0xA92B_4EFC_u32.to_le_bytes()),
            ("linux_raid_member", 0, &0xA92B_4EFC_u32.to_le_bytes()),
            ("ddf_raid_member", END - 512, &[0xDE, 0x11, 0xDE, 0x11]),
            ("isw_raid_member", END - 1024, b"Intel Raid ISM Cfg Sig. "),
            ("drbd", END - 4096 + 60, &[0x83, 0x74, 0x02, 0x6D]),
            ("VMFS_volume_member", 0x10_0000, &[0x0D, 0xD0, 0x01, 0xC0]),
            ("VMFS", 0x20_0000, &[0x5E, 0xF1, 0xAB, 0x2F]),
            ("ceph_bluestore", 0, b"bluestore block device"),
            ("BitLocker", 3, b"-FVE-FS-"),
            ("ReFS", 3, b"ReFS\0\0\0\0"),
            ("stratis", 512 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
            ("apfs", 32, b"NXSB"),
            ("hfsplus", 1024, b"H+"),
            ("iso9660", 32_769, b"CD001"),
            ("reiserfs", 65_588, b"ReIsEr2Fs"),
            ("jfs", 32_768, b"JFS1"),
            ("swsuspend", 4086, b"S1SUSPEND\0"),
        ];
        for (name, at, mark) in cases {
            assert!(names(&with(END, &[(*at, mark)])).contains(name), "{name} at {at}");
            assert_eq!(names(&with(END, &[(at + 7, mark)])), [] as [&str; 0], "{name} displaced");
        }
    }

    proptest! {
        /// Whatever the bytes are, it ends and points into the disk.
        #[test]
        fn any_bytes_can_be_looked_at(image in proptest::collection::vec(any::<u8>(), 0..6000), more in 0_u64..10_000) {
            let size = image.len() as u64 + more;
            let tail = &image[image.len().saturating_sub(1000)..];
            for finding in findings(&Edges { head: &image, tail, size }) {
                prop_assert!(finding.offset < size);
            }
        }
    }
}
