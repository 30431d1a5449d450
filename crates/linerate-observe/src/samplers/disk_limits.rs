//! Limits of each disk: the requests that a hardware queue admits (`nr_requests`,
//! ABI/stable/sysfs-block), the number of these queues (folders in `mq`), and the rates that the
//! control group of this process and the groups above permit on it: `io.max` of version 2,
//! `blkio.throttle.*_device` of version 1. Counts, bytes and transfers per second.
//!
//! Whole disks that have any bytes. Without a limit the reading is absent. Not seen: limits of
//! other groups, limits on a disk below this one, and whether a limit was reached.

use std::collections::BTreeMap;

use linerate_model::series::disk_limits;
use linerate_model::{Series, SeriesSpec};
use linerate_sys::cgroup::io_files;

use super::disk;
use crate::kernel_text::{KernelText, decimal, lines, words};
use crate::{Probe, Sampler, Scope, Unavailable};

/// Columns of the limits of a group, with the keys of `io.max` and the files of version 1.
const LIMITS: [(Series, &str, &str); 4] = [
    (disk_limits::READ_BYTES, "rbps", "blkio.throttle.read_bps_device"),
    (disk_limits::WRITE_BYTES, "wbps", "blkio.throttle.write_bps_device"),
    (disk_limits::READS, "riops", "blkio.throttle.read_iops_device"),
    (disk_limits::WRITES, "wiops", "blkio.throttle.write_iops_device"),
];
/// File of version 2 with all limits of a group.
const OF_VERSION_2: &str = "io.max";
/// Columns of a disk: its queue, the number of queues, then the limits.
const COLUMNS: usize = 2 + LIMITS.len();

/// Limits of disks.
pub(super) const SAMPLER: Sampler = Sampler {
    name: disk_limits::SAMPLER.text(),
    summary: "requests that each disk's queue admits, and rates that this process's control groups \
        permit on it (io.max); not whether a limit was reached",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    let disks = disk::names()?.into_iter().filter_map(Disk::open).collect();
    // Groups without the controller have no such file.
    let files = |file: &'static str| {
        io_files(file).into_iter().filter_map(|path| KernelText::open(&path).ok())
    };
    let version_2 = files(OF_VERSION_2).map(|text| (None, text));
    let version_1 = LIMITS
        .iter()
        .enumerate()
        .flat_map(|(at, (.., file))| files(file).map(move |text| (Some(at), text)));
    let groups = version_2.chain(version_1).collect();
    Ok(Box::new(Reader { disks, groups, known: BTreeMap::new() }))
}

struct Disk {
    name: String,
    /// `8:0`, as control groups name it.
    number: String,
    queue: Option<KernelText>,
    /// Hardware queues, which a disk has from its beginning to its end.
    queues: Option<f64>,
}

impl Disk {
    fn open(name: String) -> Option<Self> {
        let folder = format!("{}/{name}", disk::FOLDER);
        let number = std::fs::read_to_string(format!("{folder}/dev")).ok()?.trim().to_owned();
        let queue = KernelText::open(&format!("{folder}/queue/nr_requests")).ok();
        let folders = std::fs::read_dir(format!("{folder}/mq")).map(Iterator::count);
        let queues = folders.ok().filter(|n| *n > 0).map(|n| n as f64);
        Some(Self { name, number, queue, queues })
    }

    fn columns(&self) -> impl Iterator<Item = SeriesSpec> {
        let limits = LIMITS.map(|(column, ..)| column);
        let queues = [disk_limits::REQUESTS, disk_limits::QUEUES];
        queues.into_iter().chain(limits).map(|column| column.of(&self.name))
    }
}

struct Reader {
    disks: Vec<Disk>,
    /// Files of limits; those of version 1 have one column each.
    groups: Vec<(Option<usize>, KernelText)>,
    /// The lowest limits of each disk by number, kept to be filled again.
    known: BTreeMap<String, Limits>,
}

/// Limits in the order of [`LIMITS`].
type Limits = [Option<f64>; LIMITS.len()];

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        self.disks.iter().flat_map(Disk::columns).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        self.known.values_mut().for_each(|limits| *limits = Limits::default());
        for (at, text) in &mut self.groups {
            if let Some(text) = text.read() {
                lowest(text, *at, &mut self.known);
            }
        }
        for (disk, cells) in self.disks.iter_mut().zip(row.chunks_exact_mut(COLUMNS)) {
            let queue = disk.queue.as_mut().and_then(KernelText::read);
            cells[0] = queue.and_then(|text| decimal(text.trim_ascii())).map(|n| n as f64);
            let limits = self.known.get(&disk.number).copied().unwrap_or_default();
            cells[1] = disk.queues;
            cells[2..].copy_from_slice(&limits);
        }
    }
}

/// Lowers the limits `known` to those in `text`: of version 2, or the column `at` of version 1.
fn lowest(text: &[u8], at: Option<usize>, known: &mut BTreeMap<String, Limits>) {
    for line in lines(text) {
        let mut words = words(line);
        let Some(number) = words.next().and_then(|word| std::str::from_utf8(word).ok()) else {
            continue;
        };
        // An allocation happens only where a limit appears for the first time.
        if !known.contains_key(number) {
            known.insert(number.to_owned(), Limits::default());
        }
        let Some(limits) = known.get_mut(number) else { continue };
        for (at, limit) in words.flat_map(|word| limit_in(word, at)) {
            limits[at] = Some(limits[at].map_or(limit, |lowest: f64| lowest.min(limit)));
        }
    }
}

/// Returns the column and the limit of `word`: of version 2, or the column `at` of version 1. `max`
/// is no limit and no number.
fn limit_in(word: &[u8], at: Option<usize>) -> Option<(usize, f64)> {
    if let Some(at) = at {
        return Some((at, decimal(word)? as f64));
    }
    LIMITS.iter().enumerate().find_map(|(at, (_, key, _))| {
        let value = word.strip_prefix(key.as_bytes())?.strip_prefix(b"=")?;
        Some((at, decimal(value)? as f64))
    })
}

/// Reads `text`, which may be anything, as both versions.
pub(super) fn read_any(text: &[u8]) -> Vec<Option<f64>> {
    let mut known = BTreeMap::new();
    lowest(text, None, &mut known);
    lowest(text, Some(0), &mut known);
    known.into_values().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[(Option<usize>, &[u8])], number: &str) -> Option<Limits> {
        let mut known = BTreeMap::new();
        texts.iter().for_each(|(at, text)| lowest(text, *at, &mut known));
        known.get(number).copied()
    }

    #[test]
    fn both_versions_name_the_limits_of_a_disk() {
        let version_2: &[u8] = include_bytes!("../../fixtures/io_max-v2-5.4");
        assert_eq!(
            read(&[(None, version_2)], "8:16"),
            Some([Some(2_097_152.0), None, None, Some(120.0)])
        );
        let version_1: &[u8] = include_bytes!("../../fixtures/blkio_read_iops_device-v1-6.18");
        assert_eq!(read(&[(Some(2), version_1)], "7:0"), Some([None, None, Some(500.0), None]));
        assert_eq!(read(&[(Some(2), version_1)], "8:0"), None, "another disk");
    }

    #[test]
    fn the_lowest_limit_of_nested_groups_counts() {
        let outer: &[u8] = b"8:16 rbps=1000 wbps=max riops=max wiops=max\n";
        let inner: &[u8] = b"8:16 rbps=3000 wbps=500 riops=max wiops=max\n";
        for texts in [[(None, outer), (None, inner)], [(None, inner), (None, outer)]] {
            assert_eq!(read(&texts, "8:16"), Some([Some(1000.0), Some(500.0), None, None]));
        }
    }
}
