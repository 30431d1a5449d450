//! `storage` with transfers that take far longer than an interval: a frozen filesystem blocks every
//! write until it is thawed. The load continues afterwards and ends in time, intervals follow each
//! other without gap or overlap, nothing is counted twice or lost, and the stall shows in the times
//! and in the depth.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_disk::Disks;
use linerate_load::engine::EngineReport;
use linerate_model::{Counter, Nanos, OperationKind};
use linerate_sys::clock;
use serde_json::json;

use crate::ground::{
    INTERVAL, Loop, Undo, blank, ran, run_after, run_watched, service, skip, sum, tried,
};

/// Shortest duration of the stall.
const STALL: Duration = Duration::from_millis(800);
/// Part of the stall that a load must at least notice: a busy machine may delay the load as well.
const NOTICED: Nanos = Nanos::from_millis(300);

/// Ext4 filesystem on its own loop device.
struct Filesystem {
    mount: PathBuf,
    // In this order: unmounted first, then the device, then its folder.
    // A failed test may have left it frozen; a second thaw does no harm. A ring releases its file
    // a moment after it is gone, and a lazy unmount completes with the last user.
    _mounted: [Undo; 2],
    _disk: Loop,
    _folder: tempfile::TempDir,
}

impl Filesystem {
    /// Creates one; `None`, with a message, if that is not possible.
    fn new() -> Option<Self> {
        // A sparse file, because scratch files leave 2 GiB of every filesystem free.
        let disk = blank(4 << 30)?;
        let folder = tempfile::tempdir().expect("a folder");
        let mount = folder.path().to_owned();
        let (device, place) = (disk.device.display(), mount.display());
        let made = tried(&format!("mkfs.ext4 -q {device}"))
            .and_then(|_| tried(&format!("mount {device} {place}")));
        if let Err(complaint) = made {
            return skip(complaint);
        }
        let mounted =
            [Undo::by([&"fsfreeze", &"-u", &mount]), Undo::by([&"umount", &"-l", &mount])];
        Some(Self { _mounted: mounted, mount, _disk: disk, _folder: folder })
    }

    /// Freezes it for [`STALL`] from now on.
    fn stall(&self) -> JoinHandle<bool> {
        let mount = self.mount.display().to_string();
        std::thread::spawn(move || {
            let frozen = tried(&format!("fsfreeze -f {mount}")).is_ok();
            std::thread::sleep(STALL);
            frozen && tried(&format!("fsfreeze -u {mount}")).is_ok()
        })
    }
}

/// Runs loads of the lengths `spans_ms` until `is_enough`, with `depth` writes under way and a
/// stall that begins with the first of them; `None`, with a message, if the engine is not
/// available.
fn stalled(
    filesystem: &Filesystem,
    engine: &str,
    (depth, spans_ms): (u32, &[u64]),
    is_enough: impl Fn(&EngineReport) -> bool,
) -> Option<EngineReport> {
    let params = json!({
        "target": filesystem.mount, "size": "1 MiB", "read": "0 %", "depth": depth,
        "engine": engine, "cache": "buffered",
    });
    let mut seen = None;
    for millis in spans_ms {
        let mut thaws = None;
        let report = run_watched(&Disks::none(), params.clone(), *millis, |interval| {
            if interval.counters[Counter::Writes] > 0 && thaws.is_none() {
                thaws = Some(filesystem.stall());
            }
        });
        let refused = |error| skip::<()>(format_args!("{engine}: {error}"));
        let report = report.map_err(refused).ok()?;
        if let Some(thaws) = thaws {
            assert!(thaws.join().expect("no panic"), "an ext4 filesystem can be frozen");
        }
        if is_enough(&report) {
            return Some(report);
        }
        seen = Some(report);
    }
    seen
}

/// Returns the longest write.
fn longest(report: &EngineReport) -> Nanos {
    Nanos(service(report).max().flatten().unwrap_or(0))
}

/// Returns the writes of the last intervals.
fn at_the_end(report: &EngineReport) -> u64 {
    report.intervals.iter().rev().take(5).map(|one| one.counters[Counter::Writes]).sum()
}

/// Checks that nothing is lost or counted twice, and that the stall is at its place.
fn is_whole(report: &EngineReport, about: &str, depth: u32) {
    assert!(report.incidents.is_empty(), "{about}: {:?}", report.incidents);
    for pair in report.intervals.windows(2) {
        assert_eq!(pair[0].end, pair[1].start, "{about}: intervals follow each other");
    }
    for kind in OperationKind::ALL {
        let [due, answered, lost, open] = kind.counters().map(|counter| sum(report, counter));
        assert_eq!(due, answered + lost + open, "{about}: {kind:?}");
    }
    assert_eq!(sum(report, Counter::WritesAnswered), sum(report, Counter::Writes), "{about}");
    let times = service(report);
    assert_eq!(times.count(), sum(report, Counter::Writes), "{about}");
    assert_eq!(report.flows[0].counters[Counter::Writes], times.count(), "{about}");
    assert!(longest(report) >= NOTICED, "{about}: the longest write took {}", longest(report));
    let span = report.intervals.last().expect("some").end.0 as f64;
    let under_way = sum(report, Counter::OutstandingTime) as f64 / span;
    let by_law = times.mean().expect("some") * times.count() as f64 / span;
    assert!(
        (under_way / by_law - 1.0).abs() < 0.1,
        "{about}: {under_way} under way, by Little's law {by_law}"
    );
    assert!(under_way <= f64::from(depth) * 1.001, "{about}: {under_way} under way");
}

#[test]
fn a_stall_within_the_load_is_in_its_times_and_costs_no_interval() {
    let Some(filesystem) = Filesystem::new() else { return };
    for (engine, depth) in [("pread", 1), ("threads", 2), ("io_uring", 2)] {
        let is_enough =
            |report: &EngineReport| longest(report) >= NOTICED && at_the_end(report) > 0;
        let spans_ms = [1_500, 6_000, 20_000];
        let Some(report) = stalled(&filesystem, engine, (depth, &spans_ms), is_enough) else {
            continue;
        };
        is_whole(&report, engine, depth);
        let stalls = |least: Nanos| {
            report.intervals.iter().filter(|one| one.end.since(one.start) >= least).count()
        };
        let idle =
            report.intervals.iter().filter(|one| one.counters[Counter::Writes] == 0).count() as u64;
        if engine == "pread" {
            // The worker's own thread is blocked, so the interval that contains the call is as long
            // as the call.
            let interval =
                report.intervals.iter().map(|one| one.end.since(one.start)).max().expect("some");
            let call = longest(&report);
            assert!(
                interval.0 as f64 >= 0.99 * call.0 as f64,
                "{engine}: {interval:?} around a call of {call:?}"
            );
        } else {
            assert_eq!(stalls(NOTICED), 0, "{engine} waits in pieces");
            assert!(
                idle * INTERVAL.0 >= NOTICED.0 / 2,
                "{engine}: {idle} intervals without a write"
            );
        }
        assert!(at_the_end(&report) > 0, "{engine}: the load goes on after the stall");
    }
}

#[test]
fn the_drain_waits_for_a_stall_over_the_end_of_the_load() {
    let Some(filesystem) = Filesystem::new() else { return };
    for (engine, depth) in [("pread", 1), ("io_uring", 2)] {
        // The stall begins within the load and outlasts a load this short, unless nothing was
        // written in it.
        let spans_ms = [300, 600, 800, 800, 800];
        let outlasts = |report: &EngineReport| {
            report.intervals.last().expect("some").end > Nanos::from_millis(700)
        };
        let Some(report) = stalled(&filesystem, engine, (depth, &spans_ms), outlasts) else {
            continue;
        };
        is_whole(&report, engine, depth);
        assert!(outlasts(&report), "{engine}");
    }
}

#[test]
fn transfers_that_never_end_are_open_with_a_known_wait() {
    const DEPTH: u64 = 2;
    const SPANS: [Nanos; 2] = [Nanos::from_millis(100), Nanos::from_millis(100)];
    const THAW_AFTER: Duration = Duration::from_millis(1_200);
    let Some(filesystem) = Filesystem::new() else { return };
    let params = json!({
        "target": filesystem.mount, "size": "1 MiB", "read": "0 %", "depth": DEPTH,
        "engine": "threads", "cache": "buffered",
    });
    let (mount, mut thaws) = (filesystem.mount.display().to_string(), None);
    let freeze = || {
        ran(&format!("fsfreeze -f {mount}"));
        thaws = Some(std::thread::spawn(move || {
            std::thread::sleep(THAW_AFTER);
            let at = Nanos(clock::monotonic());
            ran(&format!("fsfreeze -u {mount}"));
            at
        }));
    };
    let (report, start) = run_after(&Disks::none(), params, SPANS, freeze, |_| {})
        .expect("threads are always available");
    let thawed = thaws.expect("it was frozen").join().expect("no panic");
    let [due, answered, lost, open] =
        OperationKind::Write.counters().map(|counter| sum(&report, counter));
    assert_eq!((due, lost), (answered + open, 0));
    let last = report.intervals.last().expect("intervals");
    if start + last.end >= thawed || due == 0 {
        println!(
            "skipped: transfers that never end: the machine was too busy to begin them, or to end \
                the load before the disk went on"
        );
        return;
    }
    assert_eq!((answered, open), (0, DEPTH));
    let waited = &last.carried_of(OperationKind::Write).waited_service;
    assert_eq!(waited.count(), DEPTH, "{waited:?}");
    assert!(waited.buckets.iter().all(|(ns, _)| *ns <= last.end.0), "{waited:?}");
}
