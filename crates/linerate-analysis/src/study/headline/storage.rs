//! The stages of a load on a disk or file: application, page cache, what is under way, disk; and the disk of a file that crosses a
//! network.
//!
//! What the disk did is what the kernel counted of it, of everybody. The share the disk did of what was asked for is both counts
//! over one another.

use linerate_model::{Counter, Direction, Unit};

use super::super::transfers::mode;
use super::ends::{cores, disk};
use super::{End, Place, Reading, Seen, Stage};

/// The cache mode in which the page cache is passed by.
const DIRECT: &str = "direct";

/// Of a load on a disk or file.
pub(super) fn stages(first: &Seen<'_>) -> Vec<Stage> {
    let (record, host) = (first.job.active, first.job.spec.from.host.as_str());
    let stage = |place, name: &str| Stage::new(End::Sender, place, host, name);
    let mut stages = vec![stage(Place::Application, &first.job.spec.workload)];
    let cache = mode(record, "cache").unwrap_or_default();
    if cache != DIRECT {
        stages.push(stage(Place::Cache, cache));
    }
    stages.push(stage(Place::Queue, mode(record, "engine").unwrap_or_default()));
    stages.push(stage(Place::Disk, mode(record, "device").unwrap_or_default()));
    stages
}

/// What was read at `stage` during a trial.
pub(super) fn readings(stage: &Stage, one: &Seen<'_>) -> Vec<Reading> {
    let alone = one.job.flow(one.direction).is_none();
    match stage.place {
        Place::Application => application(one),
        Place::Cache => served(one).into_iter().collect(),
        Place::Disk if alone => disk(one, End::Sender, &stage.name, &series(one)),
        Place::Disk if stage.end == End::Sender => disk(one, End::Sender, &stage.name, &["bytes_read"]),
        Place::Disk => disk(one, End::Receiver, &stage.name, &["bytes_written"]),
        Place::Queue | Place::Socket | Place::Interface | Place::Bus | Place::Wire => Vec::new(),
    }
}

/// What the load does to the disk.
fn series(one: &Seen<'_>) -> Vec<&'static str> {
    let done = |counter| rate(one, counter).is_some();
    let ways = [("bytes_read", Counter::BytesRead), ("bytes_written", Counter::BytesWritten)];
    ways.into_iter().filter(|(_, counter)| done(*counter)).map(|(name, _)| name).collect()
}

fn rate(one: &Seen<'_>, counter: Counter) -> Option<f64> {
    let own = Seen { direction: Direction::Tx, job: one.job.clone(), ..*one };
    own.rate(End::Sender, counter)
}

fn sum(one: &Seen<'_>, counters: [Counter; 2]) -> Option<f64> {
    counters.into_iter().filter_map(|counter| rate(one, counter)).reduce(|a, b| a + b)
}

fn application(one: &Seen<'_>) -> Vec<Reading> {
    let moved = sum(one, [Counter::BytesRead, Counter::BytesWritten]);
    let moved = moved.map(|rate| Reading::new("read and written", rate, Unit::BytePerSecond, None));
    let transfers = sum(one, [Counter::Reads, Counter::Writes]);
    let transfers = transfers.map(|rate| Reading::new("transfers", rate, Unit::PerSecond, None));
    let cpu = cores(&Seen { direction: Direction::Tx, job: one.job.clone(), ..*one }, End::Sender);
    let cpu = cpu.map(|cores| Reading::new("CPU of its threads", cores, Unit::Core, None));
    [moved, transfers, cpu].into_iter().flatten().collect()
}

/// How much of what was asked for the disk did.
fn served(one: &Seen<'_>) -> Option<Reading> {
    let device = mode(one.job.active, "device")?;
    let asked = sum(one, [Counter::BytesRead, Counter::BytesWritten])?;
    let own = Seen { direction: Direction::Tx, job: one.job.clone(), ..*one };
    let done = disk(&own, End::Sender, device, &series(one)).into_iter().next()?;
    (done.unit == Unit::BytePerSecond)
        .then(|| Reading::new("of it the disk did", done.value / asked, Unit::Ratio, None))
}
