//! `storage` on failing disks: real errors of the kernel, from loop devices whose file is
//! truncated, filled up or shrunk, and from files that change during the load. In each case the
//! load ends with position and cause, and keeps its counts.

use std::fs::OpenOptions;
use std::time::{Duration, Instant};

use linerate_disk::{Disks, Writable, claim, inspect};
use linerate_load::LoadError;
use linerate_load::engine::EngineReport;
use linerate_model::{Counter, IncidentKind};
use serde_json::json;

use crate::ground::{self, Loop, MEMORY, Undo, blank, ran, run, sum, tried};

const SIZE: u64 = 32 << 20;
/// Far longer than the time until the fault.
const LONG_MS: u64 = 30_000;
/// A load that hangs takes at least its whole time.
const SOON: Duration = Duration::from_millis(LONG_MS);

/// Runs the load until it ends by itself, and calls `harm` once as soon as `counter` counts.
fn run_harmed(
    params: serde_json::Value,
    counter: Counter,
    harm: impl FnOnce(),
) -> Result<EngineReport, LoadError> {
    let mut harm = Some(harm);
    ground::run_watched(&Disks::none(), params, LONG_MS, |interval| {
        if interval.counters[counter] > 0
            && let Some(harm) = harm.take()
        {
            harm();
        }
    })
}

/// Checks that it ended soon with `cause`, and kept its counts.
fn ended_with(report: &EngineReport, began: Instant, counter: Counter, cause: &str) {
    assert!(began.elapsed() < SOON, "it hung for {:?}", began.elapsed());
    let incident = report.incidents.first().expect("an incident");
    assert_eq!(incident.kind, IncidentKind::WorkerStopped);
    assert!(incident.message.contains(cause), "{}", incident.message);
    assert!(sum(report, Counter::TransferErrors) >= 1);
    let of_direction = sum(report, Counter::ReadErrors) + sum(report, Counter::WriteErrors);
    assert_eq!(of_direction, sum(report, Counter::TransferErrors));
    assert!(sum(report, counter) > 0, "what went well before is counted");
}

#[test]
fn a_disk_that_fails_ends_the_load_with_the_kernels_error_by_every_engine() {
    for (engine, depth) in [("io_uring", 8), ("aio", 8), ("threads", 4), ("pread", 1)] {
        let Some(disk) = blank(SIZE) else { return };
        let cut_off = || {
            let image = OpenOptions::new().write(true).open(&disk.image);
            image.and_then(|file| file.set_len(1 << 20)).expect("cut off");
        };
        let began = Instant::now();
        let params = json!({ "target": &*disk.device, "engine": engine, "depth": depth });
        let report = match run_harmed(params, Counter::Reads, cut_off) {
            Ok(report) => report,
            Err(error) => {
                println!("skipped: a disk that fails, by {engine}: {error}");
                continue;
            }
        };
        ended_with(&report, began, Counter::Reads, "Input/output error");
        assert!(
            report.incidents[0].message.contains("read 4096 bytes at "),
            "{}",
            report.incidents[0].message
        );
    }
}

#[test]
fn a_disk_that_vanishes_ends_the_load() {
    let Some(disk) = blank(SIZE) else { return };
    // Without capacity the device is gone for practical purposes: the kernel itself fails every
    // transfer.
    let empty = || {
        let image = OpenOptions::new().write(true).open(&disk.image);
        image.and_then(|file| file.set_len(0)).expect("emptied");
        ran(&format!("losetup -c {}", disk.device.display()));
    };
    let began = Instant::now();
    let report = run_harmed(json!({ "target": &*disk.device, "depth": 8 }), Counter::Reads, empty)
        .expect("it starts");
    assert!(began.elapsed() < SOON, "it hung");
    let message = &report.incidents[0].message;
    assert!(
        message.contains("Input/output error") || message.contains("only 0 bytes were moved"),
        "{message}"
    );
    assert!(sum(&report, Counter::Reads) > 0);
}

#[test]
fn a_filesystem_that_fills_up_under_a_disk_ends_the_load() {
    let folder = tempfile::tempdir_in(MEMORY).expect("a folder");
    let mount = format!("mount -t tmpfs -o size=8M lr-full {}", folder.path().display());
    if let Err(complaint) = tried(&mount) {
        return println!("skipped: a filesystem that fills up: {complaint}");
    }
    // Unmounted at the end of the test, after the loop devices.
    let _mount = Undo::by([&"umount", &"-l", &folder.path()]);
    let Some(disk) = Loop::within("", SIZE, folder.path()) else {
        return;
    };
    let serial =
        inspect(&disk.device).expect("a device").topology.serial.expect("its file stands for it");
    claim(&disk.device, &serial).expect("blank and free");
    let began = Instant::now();
    let params = json!({
        "target": &*disk.device, "depth": 4, "read": "0 %", "consent": serial,
        "pattern": "permutation", "max_written": "64 GiB",
    });
    let disks = Disks::new(Writable::Claimed);
    let report = run(&disks, params, LONG_MS).expect("it starts");
    assert!(began.elapsed() < SOON, "it hung");
    let message = &report.incidents[0].message;
    assert!(
        message.contains("No space left on device") || message.contains("Input/output error"),
        "{message}"
    );
    assert!(message.contains("write 4096 bytes at "), "{message}");
    assert!(sum(&report, Counter::Writes) > 0 && sum(&report, Counter::WriteErrors) >= 1);
}

#[test]
fn a_file_that_shrinks_ends_the_load_with_its_place() {
    let folder = tempfile::tempdir_in(MEMORY).expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, vec![1; 1 << 20]).expect("written");
    let file = OpenOptions::new().write(true).open(&path).expect("the file");
    let shrink = || file.set_len(4096).expect("shrunk");
    let report =
        run_harmed(json!({ "target": path, "depth": 4 }), Counter::Reads, shrink).expect("it runs");
    assert!(
        report.incidents[0].message.contains("only 0 bytes were moved"),
        "{:?}",
        report.incidents
    );
    assert!(sum(&report, Counter::TransferErrors) >= 1);
}
