//! Partition tables: GPT (both copies), MBR, and those of the BSDs, Sun and Apple.

use super::{Edges, Finding, Kind};

/// Logical block sizes for which a GPT may be written.
const BLOCK_BYTES: [u64; 2] = [512, 4096];
/// A GPT header (UEFI 2.10 clause 5.3.2).
const GPT: &[u8] = b"EFI PART";
/// Position of a boot sector's mark.
const BOOT_MARK_AT: u64 = 510;
/// A boot sector's mark.
const BOOT_MARK: &[u8] = &[0x55, 0xAA];

pub(super) fn findings(edges: &Edges<'_>) -> Vec<Finding> {
    let table = |name, offset| Finding { kind: Kind::PartitionTable, name, offset };
    let mut found = Vec::new();
    for block in BLOCK_BYTES {
        // Either copy counts: tools that erase the start of a disk leave the backup at its end.
        let copies = [Some(block), edges.size.checked_sub(block)];
        found.extend(
            copies
                .into_iter()
                .flatten()
                .filter(|at| edges.has(*at, GPT))
                .map(|at| table("gpt", at)),
        );
    }
    // A boot sector without partitions still counts: it may be a boot loader, or the sector before
    // a filesystem.
    if edges.has(BOOT_MARK_AT, BOOT_MARK) {
        found.push(table("dos", BOOT_MARK_AT));
    }
    let others: [(&str, u64, &[u8]); 6] = [
        ("bsd", 0, &[0x57, 0x45, 0x56, 0x82]),
        ("bsd", 64, &[0x57, 0x45, 0x56, 0x82]),
        ("bsd", 512, &[0x57, 0x45, 0x56, 0x82]),
        ("sun", 508, &[0xDA, 0xBE]),
        ("mac", 512, b"PM\0\0"),
        ("sgi", 0, &[0x0B, 0xE5, 0xA9, 0x41]),
    ];
    found.extend(
        others
            .into_iter()
            .filter(|(_, at, mark)| edges.has(*at, mark))
            .map(|(name, at, _)| table(name, at)),
    );
    found
}
