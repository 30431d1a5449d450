//! Disks: a file shown as a block device that nobody else uses, so that its own counters are exact.

use std::process::Command;

use anyhow::Context as _;

use super::super::claim::{Claim, EXACT, Relation, Tolerance, Unit};
use super::super::ground::Ground;
use super::super::judge::run_plan;
use super::super::plan::{Trial, quoted};
use super::super::study::Study;
use super::{Special, special};
use Relation::{AtLeast, Equal};
use Unit::{Bytes, Count, PerSecond};
use disk::Disk;

mod disk;
mod hangs;
mod upkeep;

const BLOCK_BYTES: f64 = 4096.0;
const SECONDS: f64 = 1.5;

pub(super) static SPECIAL: &[Special] = &[
    special("storage, 1000 reads a second by io_uring", |ground| {
        open_rate(ground, "io_uring", 1000)
    }),
    special("storage, 1000 reads a second by native AIO", |ground| open_rate(ground, "aio", 1000)),
    special("storage, 1000 reads a second by threads", |ground| open_rate(ground, "threads", 1000)),
    special("storage, 3 times the closed loop's rate by io_uring", overload),
    special("storage, closed loop of 8 beside fio", beside_fio),
    special("storage, writes by io_uring to a filesystem that is frozen at the end", |ground| {
        hangs::closed(ground, "io_uring")
    }),
    special("storage, writes by threads to a filesystem that is frozen at the end", |ground| {
        hangs::closed(ground, "threads")
    }),
    special("storage, 1000 writes a second by io_uring to a disk that hangs", |ground| {
        hangs::at_a_rate(ground, "io_uring")
    }),
    special(
        "storage, 1000 writes a second by io_uring with a submitting thread to a disk that hangs",
        |ground| hangs::at_a_rate(ground, "io_uring_thread"),
    ),
    special("storage, 1000 writes a second by native AIO to a disk that hangs", |ground| {
        hangs::at_a_rate(ground, "aio")
    }),
    special("storage, 1000 writes a second by threads to a disk that hangs", |ground| {
        hangs::at_a_rate(ground, "threads")
    }),
    special("storage, 1000 writes a second by pwrite to a disk that hangs", |ground| {
        hangs::at_a_rate(ground, "pread")
    }),
    special("storage, discards one at a time", |ground| upkeep::discards(ground, "pread", 1)),
    special("storage, discards by eight threads", |ground| upkeep::discards(ground, "threads", 8)),
    special("storage, flushes by fdatasync", |ground| upkeep::flushes(ground, "pread")),
    special("storage, flushes by io_uring", |ground| upkeep::flushes(ground, "io_uring")),
    special("storage, flushes by native AIO", |ground| upkeep::flushes(ground, "aio")),
    special("storage, flushes by threads", |ground| upkeep::flushes(ground, "threads")),
];

/// Returns the plan of one trial on `disk`.
fn plan(disk: &Disk, params: &str) -> String {
    let params = format!("target = {}, {params}", quoted(&disk.device));
    let (workload, to) = ("storage", "a");
    Trial { workload, to, duration_ms: 1500, warmup_ms: 0, params: &params }.plan()
}

/// The plan of a load that reads.
fn reading(disk: &Disk, params: &str) -> String {
    plan(disk, &format!("read = \"100 %\", {params}"))
}

fn iops(study: &Study) -> Option<f64> {
    study.metric("iops").or_else(|| study.metric("iops_rx"))
}

/// All transfers that are due are made, and the device counts as many.
fn open_rate(ground: &mut Ground, engine: &str, rate: u32) -> anyhow::Result<Vec<Claim>> {
    let disk = Disk::make()?;
    let plan =
        reading(&disk, &format!("engine = \"{engine}\", depth = 256, rate = \"{rate} pps\""));
    let (study, counted) = disk.counted(|| run_plan(ground, &plan, None))?;
    let (reads, bytes) = (counted.reads as f64, counted.read_bytes as f64);
    let why = "transfers under way at the end, and a busy machine's late starts";
    let tolerance = Tolerance::relative(0.03, why);
    let iops_claim = Claim::new("reads a second", PerSecond, iops(&study), Equal(tolerance));
    let due = f64::from(rate) * SECONDS;
    let why = "reads of the partition table and of set-up, by linerate and udev";
    let probing = Tolerance { absolute: 64.0, relative: 0.03, why };
    let total = Claim::new(
        "reads, rate times duration",
        Count,
        iops(&study).map(|iops| iops * SECONDS),
        Equal(probing),
    );
    let probed = Tolerance { absolute: 64.0 * BLOCK_BYTES, relative: 0.03, why };
    let moved = study
        .metric("transfer_rate")
        .or_else(|| study.metric("transfer_rate_rx"))
        .map(|rate| rate * SECONDS);
    let moved = Claim::new("bytes read", Bytes, moved, Equal(probed));
    let [asked, answered, open] =
        ["due", "answered", "open"].map(|of| study.metric(&format!("operations_{of}")));
    let asked = Claim::count("reads due", asked).expect(due, "rate times duration");
    let ended = Claim::count(
        "reads answered or open",
        answered.zip(open).map(|(answered, open)| answered + open),
    );
    Ok(vec![
        asked,
        ended.expect(due, "all that were due"),
        iops_claim.expect(f64::from(rate), "the rate asked for"),
        total.expect(due, "rate times duration").beside(reads, "stat of the device, reads"),
        moved
            .expect(due * BLOCK_BYTES, "reads x 4096 B")
            .beside(bytes, "stat of the device, sectors x 512 B"),
    ])
}

/// Offered more than it can, an engine does what it does in a closed loop.
fn overload(ground: &mut Ground) -> anyhow::Result<Vec<Claim>> {
    let disk = Disk::make()?;
    let closed =
        iops(&run_plan(ground, &reading(&disk, "engine = \"io_uring\", depth = 16"), None)?);
    let closed = closed.context("linerate printed no IOPS of the closed loop")?;
    let plan = reading(
        &disk,
        &format!("engine = \"io_uring\", depth = 16, rate = \"{:.0} pps\"", closed * 3.0),
    );
    let (study, counted) = disk.counted(|| run_plan(ground, &plan, None))?;
    let why = "two runs one after the other on a busy machine";
    let tolerance = Tolerance::relative(0.3, why);
    let claim = Claim::new("reads a second", PerSecond, iops(&study), AtLeast(tolerance));
    Ok(vec![
        claim
            .expect(closed, "the closed loop before")
            .beside(counted.reads as f64 / SECONDS, "stat of the device"),
    ])
}

/// The same closed loop by fio, one after the other, twice, and the device's count of each.
fn beside_fio(ground: &mut Ground) -> anyhow::Result<Vec<Claim>> {
    let disk = Disk::make()?;
    let (study, stat) = disk
        .counted(|| run_plan(ground, &reading(&disk, "engine = \"io_uring\", depth = 8"), None))?;
    let beside = iops_of_fio(&disk)?;
    let counted = Tolerance {
        absolute: 64.0 / SECONDS,
        relative: 0.02,
        why: "reads of set-up, and those under way at the end",
    };
    let claim = Claim::new("reads a second", PerSecond, iops(&study), Equal(counted));
    let why = "fio runs after linerate on a busy machine: the order of magnitude is judged";
    let similar = Tolerance::relative(0.6, why);
    let same_work = Claim::new("reads a second", PerSecond, iops(&study), Equal(similar));
    Ok(vec![
        claim.beside(stat.reads as f64 / SECONDS, "stat of the device, over 1.5 s"),
        same_work.beside(beside, "fio, randread of 4 KiB"),
    ])
}

/// Returns the reads a second of fio on the disk.
fn iops_of_fio(disk: &Disk) -> anyhow::Result<f64> {
    {
        let output = Command::new("fio")
            .args([
                "--name=truth",
                "--filename",
                &disk.device,
                "--rw=randread",
                "--bs=4k",
                "--direct=1",
                "--ioengine=io_uring",
            ])
            .args([
                "--iodepth=8",
                "--time_based",
                "--runtime=2",
                "--output-format=json",
                "--readonly",
            ])
            .output()
            .context("start fio")?;
        let text = String::from_utf8_lossy(&output.stdout);
        // fio prints its warnings before the JSON.
        let json = text.find('{').map_or("", |start| &text[start..]);
        let value: serde_json::Value =
            serde_json::from_str(json).with_context(|| format!("parse the JSON of fio: {text}"))?;
        value["jobs"][0]["read"]["iops"].as_f64().context("fio: no read.iops")
    }
}
