//! Superblocks that begin somewhere inside a disk: on a part without an entry in any table, as a
//! loop device with an offset shows it.
//!
//! Every sector at the start of the disk may be the first of such a part. There are many sectors,
//! and loads write data between them. A mark of two or four bytes therefore proves nothing here. A
//! format needs a mark of at least six bytes, or several fields that are consistent. Parts that
//! begin after [`super::HEAD_BYTES`] are not found.

use super::Kind::{Encryption, Filesystem, Member, PartitionTable, Swap};
use super::superblocks::MARKS;
use super::{Edges, Finding, Kind};

/// Parts begin at a sector.
const SECTOR: usize = 512;
/// Length of a mark that occurs in 64 MiB of random bytes only once in two billion times (2^17
/// sectors, 2^48 values).
const LEAST_MARK: usize = 6;

/// Marks that are long enough only together with the following version or another field.
static LONGER: &[(&str, Kind, u64, &[u8])] = &[
    ("LVM2_member", Member, 512, b"LABELONE"),
    ("crypto_LUKS", Encryption, 0x4000, b"SKUL\xba\xbe"),
    ("f2fs", Filesystem, 1024, &[0x10, 0x20, 0xF5, 0xF2, 1, 0]),
    ("gpt", PartitionTable, 512, b"EFI PART"),
    ("jfs", Filesystem, 32_768, b"JFS1\x01\0\0\0"),
    ("jfs", Filesystem, 32_768, b"JFS1\x02\0\0\0"),
    // Version 1 of md: its magic number, and the version.
    ("linux_raid_member", Member, 0, &[0xFC, 0x4E, 0x2B, 0xA9, 1, 0, 0, 0]),
    ("linux_raid_member", Member, 4096, &[0xFC, 0x4E, 0x2B, 0xA9, 1, 0, 0, 0]),
    ("swap", Swap, 4086, b"SWAPSPACE2"),
    ("vfat", Filesystem, 54, b"FAT12   "),
    ("vfat", Filesystem, 54, b"FAT16   "),
    ("vfat", Filesystem, 82, b"FAT32   "),
];

/// Returns the first superblock that begins inside the head of a disk.
#[must_use]
pub fn embedded(edges: &Edges<'_>) -> Option<Finding> {
    let marks = MARKS.iter().chain(LONGER).filter(|(_, _, _, mark)| mark.len() >= LEAST_MARK);
    let found = marks.filter_map(|&(name, kind, at, mark)| {
        let offset = first(edges.head, at as usize, mark)?;
        Some(Finding { kind, name, offset })
    });
    let checked = [
        checked(edges, "ext", EXT_MARK_AT, EXT_MARK, is_ext),
        checked(edges, "xfs", 0, b"XFSB", is_xfs),
    ];
    // The lowest offset is the start of the part; later findings may be inside its contents.
    found.chain(checked.into_iter().flatten()).min_by_key(|finding| finding.offset)
}

/// Returns the first position of `mark` that is `at` bytes after the start of a sector, except the
/// disk's own first sector.
fn first(head: &[u8], at: usize, mark: &[u8]) -> Option<u64> {
    let starts =
        (SECTOR + at..).step_by(SECTOR).take_while(|start| start + mark.len() <= head.len());
    starts
        .into_iter()
        // One byte first: this runs over 131,072 sectors for each mark.
        .find(|start| head[*start] == mark[0] && head[*start..].starts_with(mark))
        .map(|start| start as u64)
}

/// Position of the magic number in an ext superblock (fs/ext4/ext4.h).
const EXT_MARK_AT: usize = 1024 + 56;
const EXT_MARK: &[u8] = &[0x53, 0xEF];

/// Returns the first position with `mark` at which the surrounding fields, from the part's first
/// byte on, are consistent.
fn checked(
    edges: &Edges<'_>,
    name: &'static str,
    at: usize,
    mark: &[u8],
    is_sensible: fn(&[u8]) -> bool,
) -> Option<Finding> {
    let starts =
        (SECTOR..).step_by(SECTOR).take_while(|start| start + at + mark.len() <= edges.head.len());
    let found = starts.into_iter().find(|start| {
        let place = start + at;
        edges.head[place] == mark[0]
            && edges.head[place..].starts_with(mark)
            && is_sensible(&edges.head[*start..])
    });
    found.map(|start| Finding { kind: Filesystem, name, offset: (start + at) as u64 })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    // A missing field reads as a value that no check accepts.
    bytes
        .get(at..at + 4)
        .map_or(u32::MAX, |four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(u16::MAX, |two| u16::from_le_bytes([two[0], two[1]]))
}

/// Checks a `struct ext4_super_block` (fs/ext4/ext4.h): inodes, blocks, first block, block size,
/// state, behaviour on errors, system, revision.
fn is_ext(part: &[u8]) -> bool {
    let Some(block) = part.get(1024..) else { return false };
    u32_at(block, 0) > 0
        && u32_at(block, 4) > 0
        && u32_at(block, 20) <= 1
        && u32_at(block, 24) <= 6
        && u16_at(block, 58) <= 7
        && u16_at(block, 60) <= 3
        && u32_at(block, 72) <= 4
        && u32_at(block, 76) <= 1
}

/// Checks a `struct xfs_dsb` (fs/xfs/libxfs/xfs_format.h), big-endian: the block size is a power of
/// two from 512 to 65536.
fn is_xfs(part: &[u8]) -> bool {
    let size = u32_at(part, 4).swap_bytes();
    size.is_power_of_two() && (512..=65_536).contains(&size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(marks: &[(usize, &[u8])]) -> Option<(&'static str, u64)> {
        let mut image = vec![0; 4 << 20];
        for (at, bytes) in marks {
            image[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        let edges = Edges { head: &image, tail: &[], size: image.len() as u64 };
        embedded(&edges).map(|finding| (finding.name, finding.offset))
    }

    #[test]
    fn a_superblock_at_any_sector_is_found_and_one_between_sectors_is_not() {
        const PART: usize = 63 * 512;
        assert_eq!(
            found(&[(PART + 65_536 + 64, b"_BHRfS_M")]),
            Some(("btrfs", (PART + 65_600) as u64))
        );
        assert_eq!(found(&[(PART, b"XFSB\0\0\x10\0")]), Some(("xfs", PART as u64)));
        assert_eq!(found(&[(PART + 4086, b"SWAPSPACE2")]), Some(("swap", (PART + 4086) as u64)));
        assert_eq!(found(&[(PART + 3, b"-FVE-FS-")]), Some(("BitLocker", (PART + 3) as u64)));
        assert_eq!(found(&[(PART + 1, b"XFSB\0\0\x10\0")]), None);
    }

    #[test]
    fn short_marks_without_consistent_fields_are_ignored() {
        assert_eq!(found(&[(1 << 20, b"XFSB\x12\x34\x56\x78")]), None);
        assert_eq!(found(&[((1 << 20) + 1080, &[0x53, 0xEF, 0xFF, 0xFF, 0xFF, 0xFF])]), None);
        assert_eq!(found(&[((1 << 20) + 1024, &[0x10, 0x20, 0xF5, 0xF2])]), None);
        assert_eq!(found(&[]), None);
    }
}
