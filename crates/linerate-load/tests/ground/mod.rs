//! What tests of `storage` stand on: a run of the load, and loop devices over files of known
//! content.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use linerate_disk::Disks;
use linerate_load::engine::{Engine, EngineReport, Timeline};
use linerate_load::{LoadError, Offer, Secret, Setup, workload};
use linerate_model::{Counter, Distribution, Endpoint, Interval, Nanos, Params};
use linerate_sys::clock;
use serde_json::{Value, json};

pub const MEMORY: &str = "/dev/shm";
/// How long an interval of every run is.
pub const INTERVAL: Nanos = Nanos::from_millis(50);
/// Milliseconds of load: enough on a quiet machine, and on one that hardly runs us.
pub const SPANS_MS: [u64; 5] = [60, 300, 1_500, 6_000, 20_000];
/// A drain ends by itself with the last transfer.
const DRAIN: Nanos = Nanos::from_secs(30);

fn endpoint() -> Endpoint {
    Endpoint {
        name: "a".into(),
        host: "a".into(),
        address: None,
        device: None,
        branches: vec![],
        cpus: vec![],
        pin: false,
        ncsi: None,
    }
}

/// Runs the load for `millis`.
pub fn run(disks: &Disks, params: Value, millis: u64) -> Result<EngineReport, LoadError> {
    run_watched(disks, params, millis, |_| {})
}

/// Runs loads that grow from one of [`SPANS_MS`] to the next until `is_enough` has happened in one
/// of them: how long that takes is the machine's affair and no test's. The last one is returned
/// even if it was not enough, so that the test says what it saw.
pub fn run_until(
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

/// Runs the load for `millis` and shows every interval to `watch` as it comes.
pub fn run_watched(
    disks: &Disks,
    params: Value,
    millis: u64,
    watch: impl FnMut(&Interval),
) -> Result<EngineReport, LoadError> {
    let spans = [Nanos::from_millis(millis), DRAIN];
    run_after(disks, params, spans, || (), watch).map(|(report, _)| report)
}

/// Runs the load and its drain for so long, once everything is prepared and `before` has happened;
/// says when it started, too.
pub fn run_after(
    disks: &Disks,
    params: Value,
    [load, drain]: [Nanos; 2],
    before: impl FnOnce(),
    mut watch: impl FnMut(&Interval),
) -> Result<(EngineReport, Nanos), LoadError> {
    let params: Params = serde_json::from_value(params).expect("a table");
    let storage = workload("storage").expect("registered");
    let problems = storage.check(&params);
    assert!(problems.is_empty(), "{problems:?}");
    let (local, patience) = (endpoint(), Duration::from_secs(30));
    let loaded = load.into();
    let setup = Setup {
        params: &params,
        local: &local,
        seed: 5,
        secret: Secret([1; 16]),
        patience,
        disks,
        loaded,
        peer_clock: None,
        permits: &linerate_load::Permits::EVERYTHING,
    };
    let workers = storage.connect(&setup, &Offer { addresses: Vec::new() })?;
    before();
    let start = Nanos(clock::monotonic()) + Nanos::from_millis(5);
    let load_until = start + load;
    let drain_until = load_until + drain;
    let timeline =
        Timeline { start, load_from: start, load_until, drain_until, interval: INTERVAL };
    let mut engine = Engine::start(workers, timeline, &[], 5);
    // Collected as an agent does: an engine keeps the intervals of a second at most.
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

/// `params` on a scratch file in memory.
pub fn in_memory(params: Value) -> Value {
    let mut all = json!({ "target": MEMORY, "size": "8 MiB" });
    all.as_object_mut().expect("a table").extend(params.as_object().expect("a table").clone());
    all
}

pub fn sum(report: &EngineReport, counter: Counter) -> u64 {
    report.intervals.iter().map(|interval| interval.counters[counter]).sum()
}

pub fn service(report: &EngineReport) -> Distribution {
    report.intervals.iter().fold(Distribution::default(), |mut all, interval| {
        all.merge(&interval.service);
        all.merge(&interval.writes);
        all
    })
}

pub fn mode<'a>(report: &'a EngineReport, name: &str) -> &'a str {
    report.flows[0].modes.get(name).map_or("", String::as_str)
}

/// A loop device over a blank file in memory.
pub struct Loop {
    pub device: PathBuf,
    pub image: PathBuf,
    _folder: tempfile::TempDir,
}

impl Loop {
    /// `None`, said aloud, where there are none.
    pub fn new(test: &str, size: u64) -> Option<Self> {
        Self::within(test, size, Path::new(MEMORY))
    }

    /// The same with its file in `folder`.
    pub fn within(test: &str, size: u64, folder: &Path) -> Option<Self> {
        let folder = tempfile::tempdir_in(folder).expect("a folder");
        let image = folder.path().join("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(size)).expect("a sparse file");
        let made = Command::new("losetup").args(["-f", "--show"]).arg(&image).output();
        match made {
            Ok(made) if made.status.success() => {
                let device = String::from_utf8_lossy(&made.stdout).trim().to_owned().into();
                Some(Self { device, image, _folder: folder })
            }
            _ => {
                println!("skipped: {test}: no loop devices here");
                None
            }
        }
    }

    /// Sectors the kernel says were read and written (Documentation/block/stat.rst).
    pub fn sectors(&self) -> (u64, u64) {
        let name = self.device.file_name().expect("it has one").to_string_lossy().into_owned();
        let stat =
            std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("sysfs shows it");
        let fields: Vec<u64> =
            stat.split_whitespace().map(|field| field.parse().expect("a number")).collect();
        (fields[2], fields[6])
    }
}

/// A loop device that is freed when this is dropped, also by a test that fails.
#[derive(Debug)]
pub struct Attached(pub PathBuf);

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}
