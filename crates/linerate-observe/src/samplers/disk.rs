//! The kernel's counters of each disk, from `/sys/block/*/stat` (Documentation/block/stat.rst).
//! Bytes, transfers, seconds.
//!
//! Whole disks that have any bytes, partitions within them. A transfer counts when it ends; merged
//! ones count as one. Not seen: transfers that the page cache served, the process that asked, and
//! disks that appear later.

use linerate_model::series::disk;
use linerate_model::{Series, SeriesSpec};

use crate::kernel_text::{KernelText, decimal, words};
use crate::{Probe, Sampler, Scope, Unavailable};

/// Folder of all disks.
pub(super) const FOLDER: &str = "/sys/block";
/// The kernel counts in sectors of this size whatever the disk's block is.
const SECTOR_BYTES: f64 = 512.0;
/// The file has times in milliseconds.
const MILLIS_PER_SECOND: f64 = 1e3;

/// Place in the line, our column, and what one of the kernel's is in it.
const FIELDS: [(usize, Series, f64); 9] = [
    (0, disk::READS, 1.0),
    (1, disk::READS_MERGED, 1.0),
    (2, disk::BYTES_READ, SECTOR_BYTES),
    (4, disk::WRITES, 1.0),
    (5, disk::WRITES_MERGED, 1.0),
    (6, disk::BYTES_WRITTEN, SECTOR_BYTES),
    (8, disk::IN_FLIGHT, 1.0),
    (9, disk::BUSY, 1.0 / MILLIS_PER_SECOND),
    (10, disk::QUEUED, 1.0 / MILLIS_PER_SECOND),
];

/// Disks.
pub(super) const SAMPLER: Sampler = Sampler {
    name: disk::SAMPLER.text(),
    summary: "transfers, bytes and busy time of each disk from /sys/block/*/stat; not what the \
        page cache served",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    let open = |name: String| {
        KernelText::open(&format!("{FOLDER}/{name}/stat")).ok().map(|text| (name, text))
    };
    let disks: Vec<(String, KernelText)> = names()?.into_iter().filter_map(open).collect();
    if disks.is_empty() {
        return Err(Unavailable(format!("no disk under {FOLDER} has any bytes")));
    }
    Ok(Box::new(Reader { disks }))
}

/// Returns the names of the disks that have any bytes, in alphabetical order.
pub(super) fn names() -> Result<Vec<String>, Unavailable> {
    let entries = std::fs::read_dir(FOLDER)
        .map_err(|cause| Unavailable(format!("list {FOLDER}: {cause}")))?;
    // The order of names gives columns the same order in every trial.
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| has_bytes(name))
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// Unbound loop devices and the like have none.
fn has_bytes(name: &str) -> bool {
    std::fs::read_to_string(format!("{FOLDER}/{name}/size")).is_ok_and(|size| size.trim() != "0")
}

struct Reader {
    disks: Vec<(String, KernelText)>,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        let of = |name: &str| FIELDS.map(|(_, column, _)| column.of(name));
        self.disks.iter().flat_map(|(name, _)| of(name)).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        for ((_, text), row) in self.disks.iter_mut().zip(row.chunks_exact_mut(FIELDS.len())) {
            if let Some(text) = text.read() {
                parse(text, row);
            }
        }
    }
}

fn parse(text: &[u8], row: &mut [Option<f64>]) {
    for (place, word) in words(text).enumerate() {
        if let Some(at) = FIELDS.iter().position(|(wanted, ..)| *wanted == place) {
            row[at] = decimal(word).map(|value| value as f64 * FIELDS[at].2);
        }
    }
}

/// Reads `text`, which may be anything.
pub(super) fn read_any(text: &[u8]) -> Vec<Option<f64>> {
    let mut row = vec![None; FIELDS.len()];
    parse(text, &mut row);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_become_bytes_and_milliseconds_seconds() {
        let row = read_any(include_bytes!("../../fixtures/block_stat-6.18"));
        let of = |name| {
            row[FIELDS.iter().position(|(_, column, _)| column.name == name).expect("a field")]
        };
        assert_eq!(
            (of("reads"), of("bytes_read")),
            (Some(8_572_175.0), Some(236_135_306.0 * 512.0))
        );
        assert_eq!(
            (of("writes"), of("bytes_written")),
            (Some(1_061_910.0), Some(604_748_608.0 * 512.0))
        );
        assert_eq!((of("in_flight"), of("busy")), (Some(0.0), Some(745_060.0 * (1.0 / 1e3))));
    }

    #[test]
    fn an_old_kernels_shorter_line_is_read_too() {
        // Until Linux 4.18 the line ended after eleven fields, before those of discards and
        // flushes.
        const FIELDS_BEFORE_DISCARDS: usize = 11;
        let whole = include_str!("../../fixtures/block_stat-6.18");
        let old: Vec<&str> = whole.split_whitespace().take(FIELDS_BEFORE_DISCARDS).collect();
        let old = old.join(" ") + "\n";
        assert_eq!(read_any(old.as_bytes()), read_any(whole.as_bytes()));
        assert!(read_any(old.as_bytes()).iter().all(Option::is_some));
    }
}
