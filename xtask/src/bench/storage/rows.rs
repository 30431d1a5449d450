//! Files that are read, the programs that read them, and their commands.

use Contestant::{Again, Fio, Linerate};
use std::path::Path;
use std::process::Command;

/// The core both run on.
const CORE: &str = "1";
/// Default interval of linerate, as `linerate run` does.
const INTERVAL_MS: u32 = 100;
/// Intervals twenty times as short, so that their cost exceeds the noise; shorter ones
/// would wait for the collector.
const SHORT_INTERVAL_MS: u32 = 5;
/// Longer than any run: one interval in all.
const NO_INTERVAL_MS: u32 = 3_600_000;

/// Where the file lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FilePlace {
    /// On a disk, past the page cache.
    Disk,
    /// On the same disk and in the page cache.
    Cached,
    /// In a filesystem in memory.
    Memory,
}

/// Kind of the file that is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) place: FilePlace,
    pub(super) block_kib: u32,
    pub(super) is_random: bool,
    pub(super) depth: u32,
    /// Ratios are those of the first over the others.
    pub(super) contestants: &'static [Contestant],
    /// Difference from a row of the same transfers.
    pub(super) about: &'static str,
}

/// Who reads, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Contestant {
    /// linerate's own choice, or the engine named; how often it closes an interval, ms.
    Linerate(&'static str, u32),
    /// linerate's own choice once more: what differs from the first is the machine's and the
    /// disk's.
    Again,
    /// fio's engine, and options beside it.
    Fio(&'static str, &'static [&'static str]),
}

const FIXED: &[&str] = &["--fixedbufs=1", "--registerfiles=1"];
const FIXED_IN_BATCHES: &[&str] = &[
    "--fixedbufs=1",
    "--registerfiles=1",
    "--iodepth_batch_submit=16",
    "--iodepth_batch_complete_max=16",
];
const OWN_CHOICE: Contestant = Linerate("auto", INTERVAL_MS);
const OWN_RING: Contestant = Linerate("io_uring", INTERVAL_MS);
const AT_ONCE_ON_DISK: &[Contestant] =
    &[OWN_CHOICE, Fio("psync", &[]), Fio("io_uring", FIXED), Again];
/// fio's io_uring reaches a fortieth of its psync here.
const AT_ONCE_IN_MEMORY: &[Contestant] = &[OWN_CHOICE, Fio("psync", &[])];
const QUEUED_ON_DISK: &[Contestant] =
    &[OWN_CHOICE, Fio("io_uring", &[]), Fio("io_uring", FIXED), Fio("libaio", &[]), Again];
const QUEUED_IN_CACHE: &[Contestant] =
    &[OWN_RING, Fio("io_uring", &[]), Fio("io_uring", FIXED), Fio("io_uring", FIXED_IN_BATCHES)];
const QUEUED_IN_MEMORY: &[Contestant] = &[
    OWN_CHOICE,
    OWN_RING,
    Fio("io_uring", &[]),
    Fio("io_uring", FIXED),
    Fio("io_uring", FIXED_IN_BATCHES),
    Fio("libaio", &[]),
];
const INTERVALS: &[Contestant] =
    &[OWN_CHOICE, Linerate("auto", NO_INTERVAL_MS), Linerate("auto", SHORT_INTERVAL_MS)];

/// Every row.
pub(super) fn rows() -> Vec<Row> {
    fn row(place: FilePlace, block_kib: u32, is_random: bool, depth: u32) -> Row {
        let contestants = match (depth, place) {
            (1, FilePlace::Disk) => AT_ONCE_ON_DISK,
            (1, _) => AT_ONCE_IN_MEMORY,
            (_, FilePlace::Disk) => QUEUED_ON_DISK,
            (_, FilePlace::Cached) => QUEUED_IN_CACHE,
            (_, FilePlace::Memory) => QUEUED_IN_MEMORY,
        };
        Row { place, block_kib, is_random, depth, contestants, about: "" }
    }
    let mut rows = Vec::new();
    for place in [FilePlace::Disk, FilePlace::Memory] {
        for (block_kib, is_random) in [(4, true), (64, false), (1024, false)] {
            rows.extend([1, 16, 64].map(|depth| row(place, block_kib, is_random, depth)));
        }
    }
    rows.extend([1, 16, 64].map(|depth| row(FilePlace::Cached, 4, true, depth)));
    rows.push(Row {
        contestants: INTERVALS,
        about: ", intervals",
        ..row(FilePlace::Memory, 4, true, 1)
    });
    rows
}

impl Row {
    pub(super) fn name(&self) -> String {
        let place = match self.place {
            FilePlace::Disk => "disk",
            FilePlace::Cached => "page cache",
            FilePlace::Memory => "memory",
        };
        let order = if self.is_random { "random" } else { "sequential" };
        format!("{place}, {} KiB {order} read, depth {}{}", self.block_kib, self.depth, self.about)
    }
}

impl Contestant {
    pub(super) fn is_linerate(self) -> bool {
        matches!(self, Self::Linerate(..) | Self::Again)
    }

    pub(super) fn is_ring(self) -> bool {
        matches!(self, Self::Linerate("io_uring", _) | Self::Fio("io_uring", _))
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Linerate(engine, INTERVAL_MS) => format!("linerate ({engine})"),
            Self::Linerate(engine, NO_INTERVAL_MS) => {
                format!("linerate ({engine}), one interval in all")
            }
            Self::Linerate(engine, interval) => {
                format!("linerate ({engine}), intervals of {interval} ms")
            }
            Self::Again => format!("{}, again", OWN_CHOICE.name()),
            Self::Fio(engine, FIXED) => format!("fio {engine}, fixed"),
            Self::Fio(engine, FIXED_IN_BATCHES) => format!("fio {engine}, fixed, batches"),
            Self::Fio(engine, _) => format!("fio {engine}"),
        }
    }

    /// Reads `file` as `row` says for `seconds`: linerate by the example `end`.
    pub(super) fn command(self, end: &Path, file: &Path, row: Row, seconds: f64) -> Command {
        let path = file;
        let file = file.display();
        match self {
            Self::Again => OWN_CHOICE.command(end, path, row, seconds),
            Self::Linerate(engine, interval) => {
                let mut command = Command::new(end);
                command.args([
                    "storage",
                    &format!("target={file}"),
                    &format!("block_size={} KiB", row.block_kib),
                ]);
                command.arg(format!("random={} %", if row.is_random { 100 } else { 0 }));
                command.arg(format!(
                    "cache={}",
                    if row.place == FilePlace::Cached { "buffered" } else { "direct" }
                ));
                command.args([format!("depth={}", row.depth), format!("engine={engine}")]);
                command.args([
                    format!("seconds={seconds}"),
                    format!("cpus={CORE},{CORE}"),
                    format!("interval={interval}"),
                ]);
                command
            }
            Self::Fio(engine, more) => {
                let mut command = Command::new("fio");
                let order = if row.is_random { "randread" } else { "read" };
                command.args([
                    "--name=bench",
                    "--time_based",
                    "--thread",
                    "--norandommap",
                    "--randrepeat=0",
                ]);
                command.args([
                    "--invalidate=0",
                    "--output-format=json",
                    "--lat_percentiles=1",
                    "--clat_percentiles=0",
                ]);
                command.arg(format!("--direct={}", u8::from(row.place != FilePlace::Cached)));
                command.args([
                    format!("--filename={file}"),
                    format!("--rw={order}"),
                    format!("--bs={}k", row.block_kib),
                ]);
                command.args([format!("--iodepth={}", row.depth), format!("--ioengine={engine}")]);
                // fio takes whole seconds only.
                let seconds = seconds.ceil();
                command
                    .args([format!("--runtime={seconds}"), format!("--cpus_allowed={CORE}")])
                    .args(more);
                command
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_and_every_contestant_in_it_has_a_name_of_its_own() {
        let rows = rows();
        let mut names: Vec<String> = rows.iter().map(Row::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), rows.len());
        for row in rows {
            let mut names: Vec<String> =
                row.contestants.iter().map(|contestant| contestant.name()).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), row.contestants.len(), "{}", row.name());
            assert!(
                row.contestants[0].is_linerate(),
                "{}: ratios are ours over theirs",
                row.name()
            );
        }
    }
}
