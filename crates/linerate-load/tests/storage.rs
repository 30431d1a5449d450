//! `storage` against files in memory and loop devices, where the answer is known: what was counted is what the kernel counted, depth is what
//! was asked for, rates are kept, and whatever goes wrong is told.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use linerate_disk::{Disks, Writable, claim, inspect};
use linerate_load::engine::{Engine, EngineReport, Timeline};
use linerate_load::{LoadError, Offer, Secret, Setup, workload};
use linerate_model::{Counter, Distribution, Endpoint, IncidentKind, Nanos, Params};
use linerate_sys::clock;
use serde_json::{Value, json};

const MEMORY: &str = "/dev/shm";

fn endpoint() -> Endpoint {
    Endpoint { name: "a".into(), host: "a".into(), address: None, device: None, cpus: vec![], pin: false, ncsi: None }
}

/// Runs the load for `millis`.
fn run(disks: &Disks, params: Value, millis: u64) -> Result<EngineReport, LoadError> {
    let params: Params = serde_json::from_value(params).expect("a table");
    let storage = workload("storage").expect("registered");
    let problems = storage.check(&params);
    assert!(problems.is_empty(), "{problems:?}");
    let (local, patience) = (endpoint(), Duration::from_secs(20));
    let loaded = Duration::from_millis(millis);
    let setup = Setup { params: &params, local: &local, seed: 5, secret: Secret([1; 16]), patience, disks, loaded };
    let workers = storage.connect(&setup, &Offer { addresses: Vec::new() })?;
    let start = Nanos(clock::monotonic()) + Nanos::from_millis(5);
    let load_until = start + Nanos::from_millis(millis);
    let drain_until = load_until + Nanos::from_secs(5);
    let timeline = Timeline { start, load_from: start, load_until, drain_until, interval: Nanos::from_millis(50) };
    Ok(Engine::start(workers, timeline, &[], 5).join())
}

/// `params` on a scratch file in memory.
fn in_memory(params: Value) -> Value {
    let mut all = json!({ "target": MEMORY, "size": "8 MiB" });
    all.as_object_mut().expect("a table").extend(params.as_object().expect("a table").clone());
    all
}

fn sum(report: &EngineReport, counter: Counter) -> u64 {
    report.intervals.iter().map(|interval| interval.counters[counter]).sum()
}

fn service(report: &EngineReport) -> Distribution {
    report.intervals.iter().fold(Distribution::default(), |mut all, interval| {
        all.merge(&interval.service);
        all
    })
}

fn mode<'a>(report: &'a EngineReport, name: &str) -> &'a str {
    report.flows[0].modes.get(name).map_or("", String::as_str)
}

#[test]
fn every_engine_keeps_its_depth_and_counts_what_it_moved() {
    for (engine, depth, named) in
        [("io_uring", 16, "io_uring ("), ("aio", 16, "aio"), ("threads", 4, "threads"), ("pread", 1, "pread")]
    {
        let params = in_memory(json!({ "engine": engine, "depth": depth, "read": "70 %" }));
        let report = match run(&Disks::none(), params, 300) {
            Ok(report) => report,
            Err(error) => {
                println!("skipped: {engine}: {error}");
                continue;
            }
        };
        assert!(report.incidents.is_empty(), "{engine}: {:?}", report.incidents);
        let (reads, writes) = (sum(&report, Counter::Reads), sum(&report, Counter::Writes));
        let share = reads as f64 / (reads + writes) as f64;
        assert!((share - 0.7).abs() < 0.05, "{engine}: {share} of {} transfers are reads", reads + writes);
        assert_eq!(sum(&report, Counter::BytesRead), reads * 4096);
        assert_eq!(sum(&report, Counter::BytesWritten), writes * 4096);
        let times = service(&report);
        assert_eq!(times.count(), reads + writes, "{engine}");
        // Little's law: what was under way is rate times time. Both sides are measured on their own.
        let span = report.intervals.last().expect("some").end.0 as f64;
        let outstanding = sum(&report, Counter::OutstandingTime) as f64 / span;
        let by_law = (reads + writes) as f64 / span * times.mean().expect("some");
        assert!(
            (outstanding / by_law - 1.0).abs() < 0.1,
            "{engine}: {outstanding} under way, by Little's law {by_law}"
        );
        if depth > 1 {
            assert!(outstanding > 0.8 * f64::from(depth), "{engine}: {outstanding} of {depth} under way");
        }
        assert!(mode(&report, "engine").starts_with(named), "{}", mode(&report, "engine"));
        assert_eq!(mode(&report, "engine_why"), "asked for");
    }
}

#[test]
fn an_open_load_keeps_its_rate_and_counts_from_intended_times() {
    let params = in_memory(json!({ "depth": 8, "rate": "2 kpps" }));
    let report = run(&Disks::none(), params, 500).expect("it runs");
    let reads = sum(&report, Counter::Reads);
    assert!((900..=1_010).contains(&reads), "{reads} reads of 1000 in half a second");
    let responses: u64 = report.intervals.iter().map(|interval| interval.response.count()).sum();
    assert_eq!(responses, reads);
}

#[test]
fn bursts_pause_between_them() {
    let params = in_memory(json!({ "depth": 1, "burst": 10, "delay": "20 ms" }));
    let report = run(&Disks::none(), params, 500).expect("it runs");
    let reads = sum(&report, Counter::Reads);
    // 25 pauses of 20 ms; a busy machine makes fewer.
    assert!((100..=260).contains(&reads) && reads % 10 <= 9, "{reads} reads in bursts of 10 every 20 ms");
}

#[test]
fn a_scratch_file_is_verified_and_a_flaw_is_found() {
    let disks = Disks::none();
    let checked = in_memory(json!({ "verify": true, "depth": 4, "pattern": "permutation" }));
    let report = run(&disks, checked.clone(), 200).expect("it runs");
    assert!(report.incidents.is_empty(), "{:?}", report.incidents);
    assert!(sum(&report, Counter::Reads) > 0);
    let scratch = disks.scratch(Path::new(MEMORY), 8 << 20).expect("the same one");
    let file = scratch.open(true, false).expect("writable");
    file.write_all_at(&[0x5A], 4_000_000).expect("one byte turned");
    let report = run(&disks, checked, 2_000).expect("it runs");
    assert_eq!(sum(&report, Counter::Flaws), 1);
    let incident = &report.incidents[0];
    assert_eq!(incident.kind, IncidentKind::WorkerStopped);
    assert!(incident.message.contains("verify the block at 3999744"), "{}", incident.message);
    assert!(incident.message.contains("its bytes are not those that were written"), "{}", incident.message);
}

#[test]
fn the_budget_ends_the_load() {
    let params = in_memory(json!({ "depth": 4, "read": "0 %", "max_written": "24 MiB" }));
    let report = run(&Disks::none(), params, 5_000).expect("it runs");
    // 8 MiB of them filled the file.
    let written = sum(&report, Counter::BytesWritten);
    assert!(written <= 16 << 20 && written > (16 << 20) - (64 << 10), "{written} bytes written");
    assert!(report.incidents[0].message.contains("the budget of 25165824 bytes is used up"), "{:?}", report.incidents);
}

#[test]
fn a_file_that_shrinks_ends_the_load_with_its_place() {
    let folder = tempfile::tempdir_in(MEMORY).expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, vec![1; 1 << 20]).expect("written");
    let shrink = OpenOptions::new().write(true).open(&path).expect("the file");
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        shrink.set_len(4096)
    });
    let report = run(&Disks::none(), json!({ "target": path, "depth": 4 }), 3_000).expect("it runs");
    later.join().expect("no panic").expect("shrunk");
    assert!(report.incidents[0].message.contains("only 0 bytes were moved"), "{:?}", report.incidents);
    assert!(sum(&report, Counter::TransferErrors) >= 1);
}

#[test]
fn an_existing_file_is_never_written_to() {
    let folder = tempfile::tempdir_in(MEMORY).expect("a folder");
    let path = folder.path().join("precious");
    std::fs::write(&path, vec![7; 1 << 20]).expect("written");
    let error =
        run(&Disks::new(Writable::Claimed), json!({ "target": path, "read": "50 %" }), 100).expect_err("refused");
    assert!(error.to_string().contains("existing files are never written to"), "{error}");
    assert_eq!(std::fs::read(&path).expect("there"), vec![7; 1 << 20]);
}

/// A loop device over a blank file in memory.
struct Loop {
    device: PathBuf,
    image: PathBuf,
    _folder: tempfile::TempDir,
}

impl Loop {
    /// `None`, said aloud, where there are none.
    fn new(test: &str, size: u64) -> Option<Self> {
        let folder = tempfile::tempdir_in(MEMORY).expect("a folder");
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
    fn sectors(&self) -> (u64, u64) {
        let name = self.device.file_name().expect("it has one").to_string_lossy().into_owned();
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("sysfs shows it");
        let fields: Vec<u64> = stat.split_whitespace().map(|field| field.parse().expect("a number")).collect();
        (fields[2], fields[6])
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

#[test]
fn a_claimed_device_is_written_between_its_edges_only_and_the_kernel_counts_the_same() {
    const SIZE: u64 = 16 << 20;
    const EDGE: usize = 1 << 20;
    let Some(disk) = Loop::new("storage on a claimed device", SIZE) else { return };
    let serial = inspect(&disk.device).expect("a device").topology.serial.expect("its file stands for it");
    let params = json!({ "target": disk.device, "read": "50 %", "depth": 8, "consent": serial });
    let disks = Disks::new(Writable::Claimed);
    let error = run(&disks, params.clone(), 100).expect_err("nobody has claimed it");
    assert!(error.to_string().contains("nobody has claimed it"), "{error}");
    assert!(std::fs::read(&disk.image).expect("the image").iter().all(|byte| *byte == 0), "nothing was written");

    claim(&disk.device, &serial).expect("blank and free");
    let claimed = std::fs::read(&disk.image).expect("the image");
    let mut without = params.clone();
    without.as_object_mut().expect("a table").remove("consent");
    let error = run(&disks, without, 100).expect_err("an imported job carries no consent");
    assert!(error.to_string().contains("the job names no consent"), "{error}");
    assert!(std::fs::read(&disk.image).expect("the image") == claimed, "nothing was written");

    let mut large = params;
    large["max_written"] = json!("64 GiB");
    // Opening it looks at its contents: the kernel's counters count from after that.
    drop(disks.open(&disk.device, linerate_disk::Permission::Write { consent: Some(&serial) }).expect("open"));
    let before = disk.sectors();
    let report = run(&disks, large, 300).expect("it runs");
    let after = disk.sectors();
    assert!(report.incidents.is_empty(), "{:?}", report.incidents);
    assert_eq!((after.0 - before.0) * 512, sum(&report, Counter::BytesRead), "bytes read");
    assert_eq!((after.1 - before.1) * 512, sum(&report, Counter::BytesWritten), "bytes written");
    let image = std::fs::read(&disk.image).expect("the image");
    assert!(image[..EDGE] == claimed[..EDGE] && image[image.len() - EDGE..] == claimed[image.len() - EDGE..]);
    assert!(image[EDGE..image.len() - EDGE].iter().any(|byte| *byte != 0), "and something was written between");
    assert_eq!(Some(mode(&report, "device")), disk.device.file_name().and_then(|name| name.to_str()));
}

#[test]
fn an_unaligned_transfer_past_the_page_cache_is_refused_with_its_remedy() {
    let Some(disk) = Loop::new("unaligned", 16 << 20) else { return };
    let error =
        run(&Disks::none(), json!({ "target": disk.device, "block_size": "1000 B" }), 100).expect_err("refused");
    assert!(error.to_string().contains("cache = \"buffered\""), "{error}");
}
