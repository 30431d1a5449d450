//! Signatures on a disk, recognized by its first and last bytes: filesystems, members of volumes,
//! encryption, swap, partition tables.
//!
//! Pure: bytes in, findings out. A magic number at its place is enough for a finding: a false alarm
//! only costs a refusal, but a miss costs somebody's data. Positions and magic numbers are from the
//! kernel's headers and libblkid's probes. Formats without a mark are not recognized; the gate
//! refuses them as "not blank".

mod embedded;
mod partitions;
mod superblocks;

use std::fmt;

use serde::Serialize;

pub use embedded::embedded;

/// Bytes at the start of a disk that are searched. A filesystem on a part without an entry in any
/// table begins there.
pub const HEAD_BYTES: usize = 64 << 20;
/// Bytes at the start that are searched on a disk that is in use anyway. VMware's volumes begin at
/// 1 MiB, and the header of its file system is at 2 MiB.
pub(crate) const SHORT_HEAD_BYTES: usize = 0x20_1000;
/// Bytes at the end of a disk that are searched. ZFS keeps two labels in the last 512 KiB; md needs
/// up to 128 KiB.
pub(crate) const TAIL_BYTES: usize = 0x10_0000;

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Filesystem.
    Filesystem,
    /// Member of a volume or array of several devices, or of a cache.
    Member,
    /// Encrypted or integrity-protected contents.
    Encryption,
    /// Swap space, or a suspended system.
    Swap,
    /// Table of partitions.
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

/// Signature that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// Its name in libblkid.
    pub name: &'static str,
    /// Position of its mark, bytes from the start.
    pub offset: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) at byte {}", self.name, self.kind, self.offset)
    }
}

/// First and last bytes of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Edges<'a> {
    /// From the first byte on, at most [`HEAD_BYTES`].
    pub head: &'a [u8],
    /// Up to the last byte, at most `TAIL_BYTES`.
    pub tail: &'a [u8],
    /// Size of the disk, bytes.
    pub size: u64,
}

impl Edges<'_> {
    /// Returns the `len` bytes at `offset` from the start, if they are in one of the edges.
    fn at(&self, offset: u64, len: usize) -> Option<&[u8]> {
        slice(self.head, offset, len).or_else(|| {
            let tail_at = self.size.checked_sub(self.tail.len() as u64)?;
            slice(self.tail, offset.checked_sub(tail_at)?, len)
        })
    }

    /// Returns true if `bytes` are at `offset`.
    fn has(&self, offset: u64, bytes: &[u8]) -> bool {
        self.at(offset, bytes.len()) == Some(bytes)
    }

    /// Returns a little-endian 16-bit number.
    fn u16(&self, offset: u64) -> Option<u16> {
        self.at(offset, 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// Returns a little-endian 32-bit number.
    fn u32(&self, offset: u64) -> Option<u32> {
        self.at(offset, 4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }
}

/// Returns the `len` bytes at `from`, if `bytes` has them.
fn slice(bytes: &[u8], from: u64, len: usize) -> Option<&[u8]> {
    let from = usize::try_from(from).ok()?;
    bytes.get(from..from.checked_add(len)?)
}

/// Returns all findings, by position.
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

    /// Formats with rare tools: their marks are taken from the kernel's headers.
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
        /// For any bytes the search ends, and every finding is inside the disk.
        #[test]
        fn any_bytes_can_be_searched(image in proptest::collection::vec(any::<u8>(), 0..6000),
            more in 0_u64..10_000) {
            let size = image.len() as u64 + more;
            let tail = &image[image.len().saturating_sub(1000)..];
            for finding in findings(&Edges { head: &image, tail, size }) {
                prop_assert!(finding.offset < size);
            }
        }
    }
}
