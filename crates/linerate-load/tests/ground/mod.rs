//! Tools for tests of `storage`: a run of the load, and loop devices over files with known content.

use std::path::Path;
use std::time::Duration;

use linerate_disk::Disks;
use linerate_load::engine::{Engine, EngineReport, Timeline};
use linerate_load::{LoadError, Offer, Setup, workload};
use linerate_model::{Counter, Distribution, Endpoint, Interval, Nanos};
use linerate_sys::clock;
use serde_json::{Value, json};

pub(crate) use crate::frames_xdp::veth::host::{Loop, Undo, attach, ran, root, skip, tried};
use crate::shared;

pub(crate) const MEMORY: &str = "/dev/shm";
/// Length of an interval in every run.
pub(crate) const INTERVAL: Nanos = Nanos::from_millis(50);
/// Milliseconds of load. The first is enough on a quiet machine, the last on one that is nearly
/// blocked.
pub(crate) const SPANS_MS: [u64; 5] = [60, 300, 1_500, 6_000, 20_000];
/// Limit for the drain, which ends by itself with the last transfer.
const DRAIN: Nanos = Nanos::from_secs(30);

/// Runs the load for `millis`.
pub(crate) fn run(disks: &Disks, params: Value, millis: u64) -> Result<EngineReport, LoadError> {
    run_watched(disks, params, millis, |_| {})
}

/// Runs longer and longer loads from [`SPANS_MS`] until `is_enough` holds. No test depends on how
/// long that takes. Returns the last report even if it was not enough, so that the test can show
/// it.
pub(crate) fn run_until(
    disks: &Disks,
    params: &Value,
    is_enough: impl Fn(&EngineReport) -> bool,
) -> Result<EngineReport, LoadError> {
    let [first, longer @ ..] = SPANS_MS;
    let mut report = run(disks, params.clone(), first)?;
    for millis in longer {
        if is_enough(&report) {
            break;
        }
        report = run(disks, params.clone(), millis)?;
    }
    Ok(report)
}

/// Runs the load for `millis` and passes every interval to `watch` as it arrives.
pub(crate) fn run_watched(
    disks: &Disks,
    params: Value,
    millis: u64,
    watch: impl FnMut(&Interval),
) -> Result<EngineReport, LoadError> {
    let spans = [Nanos::from_millis(millis), DRAIN];
    run_after(disks, params, spans, || (), watch).map(|(report, _)| report)
}

/// Runs the load and its drain after all preparations and after `before`; also returns the start
/// time.
pub(crate) fn run_after(
    disks: &Disks,
    params: Value,
    [load, drain]: [Nanos; 2],
    before: impl FnOnce(),
    mut watch: impl FnMut(&Interval),
) -> Result<(EngineReport, Nanos), LoadError> {
    let params = shared::params(params);
    let storage = workload("storage").expect("registered");
    let problems = storage.check(&params);
    assert!(problems.is_empty(), "{problems:?}");
    let (local, patience) = (Endpoint::named("a", "a"), Duration::from_secs(30));
    let loaded = load.into();
    let setup = Setup { patience, disks, loaded, ..shared::setup(&params, &local) };
    let workers = storage.connect(&setup, &Offer { addresses: Vec::new() })?;
    before();
    let start = Nanos(clock::monotonic()) + Nanos::from_millis(5);
    let load_until = start + load;
    let drain_until = load_until + drain;
    let timeline =
        Timeline { start, load_from: start, load_until, drain_until, interval: INTERVAL };
    let mut engine = Engine::start(workers, timeline, &[], 5);
    // Collected as an agent does: an engine buffers the intervals of about a second only.
    let mut intervals = Vec::new();
    while !engine.finished() {
        let more = engine.intervals();
        more.iter().for_each(&mut watch);
        intervals.extend(more);
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut report = engine.join();
    intervals.append(&mut report.intervals);
    Ok((EngineReport { intervals, ..report }, start))
}

/// Returns `params` with a scratch file in memory as the target.
pub(crate) fn in_memory(params: Value) -> Value {
    let mut all = json!({ "target": MEMORY, "size": "8 MiB" });
    all.as_object_mut().expect("a table").extend(params.as_object().expect("a table").clone());
    all
}

pub(crate) fn sum(report: &EngineReport, counter: Counter) -> u64 {
    report.intervals.iter().map(|interval| interval.counters[counter]).sum()
}

pub(crate) fn service(report: &EngineReport) -> Distribution {
    report.intervals.iter().fold(Distribution::default(), |mut all, interval| {
        all.merge(&interval.service);
        all.merge(&interval.writes);
        all
    })
}

pub(crate) fn mode<'a>(report: &'a EngineReport, name: &str) -> &'a str {
    report.flows[0].modes.get(name).map_or("", String::as_str)
}

/// Creates a loop device over a blank file in memory; `None`, with a message, if there are none.
pub(crate) fn blank(size: u64) -> Option<Loop> {
    Loop::within("", size, Path::new(MEMORY))
}

/// Returns the sectors of `disk` read and written, as counted by the kernel
/// (Documentation/block/stat.rst).
pub(crate) fn sectors(disk: &Loop) -> (u64, u64) {
    let name = disk.device.file_name().expect("it has one").to_string_lossy().into_owned();
    let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("sysfs shows it");
    let fields: Vec<u64> =
        stat.split_whitespace().map(|field| field.parse().expect("a number")).collect();
    (fields[2], fields[6])
}
