//! Superblocks and labels: one table of marks at fixed positions, and the few formats whose
//! position must be computed.

use super::Kind::{Encryption, Filesystem, Member, Swap};
use super::{Edges, Finding, Kind};

/// Mark at a fixed distance from the start.
pub(super) type Mark = (&'static str, Kind, u64, &'static [u8]);

/// `md` (include/uapi/linux/raid/md_p.h), little-endian.
const MD: &[u8] = &0xA92B_4EFC_u32.to_le_bytes();
/// `md` version 0.90 on a big-endian host.
const MD_BIG: &[u8] = &0xA92B_4EFC_u32.to_be_bytes();
/// An ext superblock's magic number and place (fs/ext4/ext4.h).
const EXT: &[u8] = &[0x53, 0xEF];
const EXT_AT: u64 = 1024 + 56;
const KIB: u64 = 1024;

pub(super) static MARKS: &[Mark] = &[
    ("BitLocker", Encryption, 3, b"-FVE-FS-"),
    ("DM_integrity", Encryption, 0, b"integrt\0"),
    ("DM_snapshot_cow", Member, 0, b"SnAp"),
    ("DM_verity_hash", Encryption, 0, b"verity\0\0"),
    ("ReFS", Filesystem, 3, b"ReFS\0\0\0\0"),
    ("VDO", Member, 0, b"dmvdo001"),
    ("VMFS", Filesystem, 0x20_0000, &[0x5E, 0xF1, 0xAB, 0x2F]),
    ("VMFS_volume_member", Member, 0x10_0000, &[0x0D, 0xD0, 0x01, 0xC0]),
    ("apfs", Filesystem, 32, b"NXSB"),
    (
        "bcache",
        Member,
        4096 + 24,
        &[
            0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA, 0x82, 0x65, 0xF5, 0x7F, 0x48, 0xBA,
            0x6D, 0x81,
        ],
    ),
    (
        "bcachefs",
        Filesystem,
        4096 + 24,
        &[
            0xC6, 0x85, 0x73, 0xF6, 0x66, 0xCE, 0x90, 0xA9, 0xD9, 0x6A, 0x60, 0xCF, 0x80, 0x3D,
            0xF7, 0xEF,
        ],
    ),
    ("btrfs", Filesystem, 64 * KIB + 64, b"_BHRfS_M"),
    ("ceph_bluestore", Member, 0, b"bluestore block device"),
    ("cramfs", Filesystem, 0, &[0x45, 0x3D, 0xCD, 0x28]),
    ("crypto_LUKS", Encryption, 0, b"LUKS\xba\xbe"),
    ("erofs", Filesystem, 1024, &[0xE2, 0xE1, 0xF5, 0xE0]),
    ("exfat", Filesystem, 3, b"EXFAT   "),
    ("f2fs", Filesystem, 1024, &[0x10, 0x20, 0xF5, 0xF2]),
    ("f2fs", Filesystem, 4096 + 1024, &[0x10, 0x20, 0xF5, 0xF2]),
    ("gfs2", Filesystem, 64 * KIB, &[0x01, 0x16, 0x19, 0x70]),
    ("hfs", Filesystem, 1024, b"BD"),
    ("hfsplus", Filesystem, 1024, b"H+"),
    ("hfsplus", Filesystem, 1024, b"HX"),
    ("iso9660", Filesystem, 32 * KIB + 1, b"CD001"),
    ("jfs", Filesystem, 32 * KIB, b"JFS1"),
    ("linux_raid_member", Member, 0, MD),
    ("linux_raid_member", Member, 4096, MD),
    ("minix", Filesystem, 1024 + 16, &[0x7F, 0x13]),
    ("minix", Filesystem, 1024 + 16, &[0x8F, 0x13]),
    ("minix", Filesystem, 1024 + 16, &[0x68, 0x24]),
    ("minix", Filesystem, 1024 + 16, &[0x78, 0x24]),
    ("minix", Filesystem, 1024 + 24, &[0x5A, 0x4D]),
    ("nilfs2", Filesystem, 1024 + 6, &[0x34, 0x34]),
    ("ntfs", Filesystem, 3, b"NTFS    "),
    ("ocfs2", Filesystem, 2 * KIB, b"OCFSV2"),
    ("ocfs2", Filesystem, 4 * KIB, b"OCFSV2"),
    ("ocfs2", Filesystem, 8 * KIB, b"OCFSV2"),
    ("oracleasm", Member, 32, b"ORCLDISK"),
    ("reiserfs", Filesystem, 8 * KIB + 52, b"ReIsEr"),
    ("reiserfs", Filesystem, 64 * KIB + 52, b"ReIsEr"),
    ("reiser4", Filesystem, 64 * KIB, b"ReIsEr4"),
    ("romfs", Filesystem, 0, b"-rom1fs-"),
    ("squashfs", Filesystem, 0, b"hsqs"),
    ("squashfs", Filesystem, 0, b"sqsh"),
    ("stratis", Member, 512 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("ubifs", Filesystem, 0, &[0x31, 0x18, 0x10, 0x06]),
    ("udf", Filesystem, 32 * KIB + 1, b"BEA01"),
    ("udf", Filesystem, 32 * KIB + 1, b"NSR02"),
    ("udf", Filesystem, 32 * KIB + 1, b"NSR03"),
    ("ufs", Filesystem, 8 * KIB + 1372, &[0x54, 0x19, 0x01, 0x00]),
    ("ufs", Filesystem, 64 * KIB + 1372, &[0x19, 0x01, 0x54, 0x19]),
    ("vxfs", Filesystem, 1024, &[0xF5, 0xFC, 0x01, 0xA5]),
    ("xfs", Filesystem, 0, b"XFSB"),
    ("xfs_external_log", Filesystem, 0, &[0xFE, 0xED, 0xBA, 0xBE]),
    ("zonefs", Filesystem, 0, b"SFOZ"),
];

pub(super) fn findings(edges: &Edges<'_>) -> Vec<Finding> {
    let fixed = MARKS.iter().filter(|(_, _, at, mark)| edges.has(*at, mark));
    let mut found: Vec<Finding> =
        fixed.map(|&(name, kind, offset, _)| Finding { kind, name, offset }).collect();
    // All of them, not the first: a disk may carry the remains of several formats, and a person
    // must erase each.
    for find in [ext, fat, swap, lvm, luks_copies, raid_at_end, zfs] {
        find(edges, &mut found);
    }
    found
}

/// Finds ext2, ext3 and ext4, which share a superblock and differ in their features
/// (fs/ext4/ext4.h).
fn ext(edges: &Edges<'_>, found: &mut Vec<Finding>) {
    const COMPATIBLE_AT: u64 = 1024 + 92;
    const INCOMPATIBLE_AT: u64 = 1024 + 96;
    const HAS_JOURNAL: u32 = 0x4;
    const JOURNAL_DEVICE: u32 = 0x8;
    /// Features of ext4 that ext3 does not have: extents, 64 bit, flexible groups.
    const EXT4_ONLY: u32 = 0x40 | 0x80 | 0x200;
    if !edges.has(EXT_AT, EXT) {
        return;
    }
    let (compatible, incompatible) =
        (edges.u32(COMPATIBLE_AT).unwrap_or(0), edges.u32(INCOMPATIBLE_AT).unwrap_or(0));
    let name = match () {
        () if incompatible & JOURNAL_DEVICE != 0 => "jbd",
        () if incompatible & EXT4_ONLY != 0 => "ext4",
        () if compatible & HAS_JOURNAL != 0 => "ext3",
        () => "ext2",
    };
    found.push(Finding { kind: Filesystem, name, offset: EXT_AT });
}

/// Finds FAT, which has no magic number: its name is where old systems wrote it, or its parameter
/// block is consistent (Microsoft's specification, "Boot Sector and BPB").
fn fat(edges: &Edges<'_>, found: &mut Vec<Finding>) {
    const NAMES: [(u64, &[u8]); 4] =
        [(54, b"FAT12   "), (54, b"FAT16   "), (54, b"FAT     "), (82, b"FAT32   ")];
    let named = NAMES.iter().find(|(at, name)| edges.has(*at, name)).map(|(at, _)| *at);
    let byte = |at| edges.at(at, 1).map_or(0, |bytes| bytes[0]);
    let sector = edges.u16(11).unwrap_or(0);
    // The jump instruction alone is too weak, since any boot loader begins with one. Together
    // these fields are what every driver checks before it mounts.
    let sensible = matches!(byte(0), 0xEB | 0xE9)
        && sector.is_power_of_two()
        && (512..=4096).contains(&sector)
        && byte(13).is_power_of_two()
        && edges.u16(14).unwrap_or(0) > 0
        && matches!(byte(16), 1 | 2)
        && (byte(21) == 0xF0 || byte(21) >= 0xF8);
    if let Some(offset) = named.or(sensible.then_some(0)) {
        found.push(Finding { kind: Filesystem, name: "vfat", offset });
    }
}

/// Finds swap. The mark is at the end of the first page, for any page size (mm/swapfile.c,
/// kernel/power/swap.c).
fn swap(edges: &Edges<'_>, found: &mut Vec<Finding>) {
    const PAGES: [u64; 5] = [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB];
    const MARKS: [(&str, &[u8]); 7] = [
        ("swap", b"SWAPSPACE2"),
        ("swap", b"SWAP-SPACE"),
        ("swsuspend", b"S1SUSPEND\0"),
        ("swsuspend", b"S2SUSPEND\0"),
        ("swsuspend", b"ULSUSPEND\0"),
        ("swsuspend", b"LINHIB0001"),
        ("swsuspend", &[0xED, 0xC3, 0x02, 0xE9, 0x98, 0x56, 0xE5, 0x0C]),
    ];
    /// Distance from the mark to the end of the page.
    const BACK: u64 = 10;
    // The disk may come from a host with another page size.
    for page in PAGES {
        let offset = page - BACK;
        let marks = MARKS.iter().filter(|(_, mark)| edges.has(offset, mark));
        found.extend(marks.map(|&(name, _)| Finding { kind: Swap, name, offset }));
    }
}

/// Finds the label of a physical volume, which is in one of the first four sectors (lvm2,
/// lib/label/label.h).
fn lvm(edges: &Edges<'_>, found: &mut Vec<Finding>) {
    const MARKS: [(&str, u64, &[u8]); 3] = [
        ("LVM2_member", 0, b"LABELONE"),
        ("LVM2_member", 24, b"LVM2 001"),
        ("LVM1_member", 0, b"HM\x01\0"),
    ];
    const SECTOR: u64 = 512;
    for (name, at, mark) in MARKS {
        let offsets =
            (0..4).map(|sector| sector * SECTOR + at).filter(|offset| edges.has(*offset, mark));
        found.extend(offsets.map(|offset| Finding { kind: Member, name, offset }));
    }
}

/// Finds LUKS2's second header, which survives if the first one is overwritten (LUKS2 on-disk
/// format, clause 2).
fn luks_copies(edges: &Edges<'_>, found: &mut Vec<Finding>) {
    const PLACES: [u64; 9] =
        [0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];
    let copies = PLACES.into_iter().filter(|offset| edges.has(*offset, b"SKUL\xba\xbe"));
    found.extend(copies.map(|offset| Finding { kind: Encryption, name: "crypto_LUKS", offset }));
}

/// Finds arrays with a superblock at the end of a device: md 0.90 and 1.0, SNIA DDF, Intel Matrix,
/// DRBD.
fn raid_at_end(edges: &Edges<'_>, found: &mut Vec<Finding>) {
    /// md 0.90 uses the last whole 64 KiB (MD_RESERVED_BYTES).
    const RESERVED: u64 = 64 * KIB;
    const SECTOR: u64 = 512;
    const DDF: [&[u8]; 2] = [&[0xDE, 0x11, 0xDE, 0x11], &[0x11, 0xDE, 0x11, 0xDE]];
    /// DRBD 8.0 to 8.4 (drivers/block/drbd/drbd_actlog.c, meta_data_on_disk.magic).
    const DRBD: [&[u8]; 3] =
        [&[0x83, 0x74, 0x02, 0x6B], &[0x83, 0x74, 0x02, 0x6C], &[0x83, 0x74, 0x02, 0x6D]];
    let size = edges.size;
    let sectors = size / SECTOR;
    let old = (size / RESERVED * RESERVED).checked_sub(RESERVED);
    // Version 1.0 is 8 KiB before the end, rounded down to 4 KiB (drivers/md/md.c, super_1_load).
    let new = sectors.checked_sub(16).map(|sector| sector / 8 * 8 * SECTOR);
    let drbd = (size / (4 * KIB) * 4 * KIB).checked_sub(4 * KIB).map(|start| start + 60);
    let places: [(_, _, &[&[u8]]); 5] = [
        ("linux_raid_member", old, &[MD, MD_BIG]),
        ("linux_raid_member", new, &[MD]),
        ("ddf_raid_member", size.checked_sub(SECTOR), &DDF),
        ("isw_raid_member", size.checked_sub(2 * SECTOR), &[b"Intel Raid ISM Cfg Sig. "]),
        ("drbd", drbd, &DRBD),
    ];
    for (name, offset, marks) in places {
        let offset = offset.filter(|offset| marks.iter().any(|mark| edges.has(*offset, mark)));
        found.extend(offset.map(|offset| Finding { kind: Member, name, offset }));
    }
}

/// Finds ZFS: two labels of 256 KiB at the start and two at the end, in either byte order. The
/// uberblocks fill the second half of each label (ZFS on-disk specification, clause 1).
fn zfs(edges: &Edges<'_>, found: &mut Vec<Finding>) {
    const LABEL: u64 = 256 * KIB;
    const UBERBLOCKS: std::ops::Range<u64> = 128 * KIB..256 * KIB;
    const LEAST_UBERBLOCK: usize = 1024;
    const MAGIC: u64 = 0x00BA_B10C;
    let marks = [MAGIC.to_le_bytes(), MAGIC.to_be_bytes()];
    // ZFS aligns its last labels to the label size, so a rest at the end is unused.
    let end = edges.size / LABEL * LABEL;
    let labels = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
    for label in labels.into_iter().flatten() {
        let uberblocks = UBERBLOCKS.step_by(LEAST_UBERBLOCK).map(|within| label + within);
        // One finding per label: a label has up to 128 uberblocks, and all mean the same.
        let first =
            uberblocks.into_iter().find(|offset| marks.iter().any(|mark| edges.has(*offset, mark)));
        found.extend(first.map(|offset| Finding { kind: Member, name: "zfs_member", offset }));
    }
    // The name-value list of a vdev label is written before its uberblocks.
    let written = [0, LABEL].into_iter().filter(|label| edges.has(label + 16 * KIB, &[1, 1, 0, 0]));
    found.extend(written.map(|label| Finding {
        kind: Member,
        name: "zfs_member",
        offset: label + 16 * KIB,
    }));
}
