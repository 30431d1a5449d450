//! `storage` against files in memory and loop devices, where the answer is known. Counts match
//! those of the kernel, the depth is the requested one, rates are kept, and each direction has its
//! own times.

use std::os::unix::fs::FileExt;
use std::path::Path;

use linerate_disk::{Disks, Writable, claim, inspect};
use linerate_load::engine::EngineReport;
use linerate_model::{Counter, IncidentKind};
use serde_json::{Value, json};

use crate::ground::{
    MEMORY, SPANS_MS, attach, blank, in_memory, mode, run, run_until, sectors, service, skip, sum,
};

/// Number of transfers at which a share of 70 % is not off by 5 % by chance: that would be five
/// standard deviations.
const ENOUGH: u64 = 2_100;

/// Runs a load until it `is_enough`, or prints that `engine` is left out.
fn run_with(
    engine: &str,
    params: &Value,
    is_enough: impl Fn(&EngineReport) -> bool,
) -> Option<EngineReport> {
    run_until(&Disks::none(), params, is_enough)
        .map_err(|error| skip::<()>(format_args!("{engine}: {error}")))
        .ok()
}

fn has(counter: Counter) -> impl Fn(&EngineReport) -> bool {
    move |report| sum(report, counter) > 0
}

#[test]
fn every_engine_keeps_its_depth_and_counts_what_it_moved() {
    for (engine, depth, named) in [
        ("io_uring", 16, "io_uring ("),
        ("io_uring_thread", 8, "io_uring (submitting thread"),
        ("aio", 16, "aio"),
        ("threads", 4, "threads"),
        ("pread", 1, "pread"),
    ] {
        let params = in_memory(json!({ "engine": engine, "depth": depth, "read": "70 %" }));
        // Little's law: the number under way is rate times time. Both sides are measured
        // independently, and a busy machine may take the CPU away between them. The effect is
        // smaller in a longer load.
        let under_way = |report: &EngineReport| {
            let span = report.intervals.last().expect("some").end.0 as f64;
            let times = service(report);
            let by_law = times.count() as f64 / span * times.mean().unwrap_or(0.0);
            (sum(report, Counter::OutstandingTime) as f64 / span, by_law)
        };
        // A load on a starved machine proves nothing about depth, so a longer one is tried.
        let is_enough = |report: &EngineReport| {
            let (outstanding, by_law) = under_way(report);
            let is_deep = depth == 1 || outstanding > 0.5 * f64::from(depth);
            service(report).count() > ENOUGH && (outstanding / by_law - 1.0).abs() < 0.1 && is_deep
        };
        let Some(report) = run_with(engine, &params, is_enough) else { continue };
        assert!(report.incidents.is_empty(), "{engine}: {:?}", report.incidents);
        let (reads, writes) = (sum(&report, Counter::Reads), sum(&report, Counter::Writes));
        assert!(
            is_enough(&report),
            "{engine}: {} transfers, {:?} of {depth} under way",
            reads + writes,
            under_way(&report)
        );
        let share = reads as f64 / (reads + writes) as f64;
        assert!(
            (share - 0.7).abs() < 0.05,
            "{engine}: {share} of {} transfers are reads",
            reads + writes
        );
        assert_eq!(sum(&report, Counter::BytesRead), reads * 4096);
        assert_eq!(sum(&report, Counter::BytesWritten), writes * 4096);
        assert_eq!(service(&report).count(), reads + writes, "{engine}");
        assert!(mode(&report, "engine").starts_with(named), "{}", mode(&report, "engine"));
        assert_eq!(mode(&report, "engine_why"), "requested");
    }
}

#[test]
fn an_open_load_keeps_its_rate_and_counts_from_intended_times() {
    let params = in_memory(json!({ "depth": 8, "rate": "2 kpps" }));
    let report = run_until(&Disks::none(), &params, has(Counter::Reads)).expect("it runs");
    let counted = |counter| sum(&report, counter);
    let (due, started, reads) =
        (counted(Counter::Intended), counted(Counter::Started), counted(Counter::Reads));
    let loaded = report.intervals.last().expect("some").end.as_secs_f64();
    assert!(due > 0 && due as f64 <= loaded * 2_000.0 + 1.0, "{due} were due in {loaded} s");
    assert!(started <= due && reads == started, "{reads} reads, {started} started of {due}");
    let responses: u64 = report.intervals.iter().map(|interval| interval.response.count()).sum();
    assert_eq!(responses, reads);
}

#[test]
fn every_eighth_write_is_followed_by_a_flush_with_a_time_of_its_own() {
    for (engine, depth) in [("io_uring", 8), ("aio", 8), ("threads", 4), ("pread", 1)] {
        let params = in_memory(json!({ "engine": engine, "depth": depth, "read": "0 %",
            "flush": "fdatasync", "flush_every": 8, "sync": "dsync" }));
        let Some(report) = run_with(engine, &params, has(Counter::Flushes)) else { continue };
        assert!(report.incidents.is_empty(), "{engine}: {:?}", report.incidents);
        let (writes, flushes) = (sum(&report, Counter::Writes), sum(&report, Counter::Flushes));
        assert_eq!(flushes, writes / 8, "{engine}: {writes} writes");
        assert!(flushes > 0, "{engine}");
        let timed: u64 = report.intervals.iter().map(|interval| interval.flushes.count()).sum();
        assert_eq!((timed, service(&report).count()), (flushes, writes), "{engine}");
        let told = mode(&report, "durability");
        assert!(
            told.contains("O_DSYNC") && told.contains("fdatasync after every 8 writes"),
            "{told}"
        );
    }
}

#[test]
fn discards_are_counted_separately_and_refused_if_the_engine_has_none() {
    let params = |engine: &str| in_memory(json!({ "engine": engine, "depth": 4, "trim": "50 %" }));
    for engine in ["io_uring", "threads"] {
        let is_enough =
            |report: &EngineReport| sum(report, Counter::Reads) + sum(report, Counter::Trims) > 100;
        let Some(report) = run_with(engine, &params(engine), is_enough) else { continue };
        assert!(report.incidents.is_empty(), "{engine}: {:?}", report.incidents);
        let (reads, trims) = (sum(&report, Counter::Reads), sum(&report, Counter::Trims));
        let n = (reads + trims) as f64;
        assert!(n > 100.0, "{engine}: {n} operations");
        // Five standard deviations of a count, plus the operations under way at the end.
        assert!(
            (trims as f64 - n / 2.0).abs() < 2.5 * n.sqrt() + 4.0,
            "{engine}: {trims} of {n} operations are discards"
        );
        assert_eq!(sum(&report, Counter::BytesTrimmed), trims * 4096);
        assert_eq!(service(&report).count(), reads, "{engine}: discards are no transfers");
    }
    let refused =
        run(&Disks::none(), params("aio"), 50).expect_err("native AIO has none").to_string();
    assert!(refused.contains("no discards"), "{refused}");
}

#[test]
fn a_load_that_starts_later_has_nothing_before() {
    let params = in_memory(json!({ "depth": 2, "start_after": "100 ms" }));
    let report = run_until(&Disks::none(), &params, has(Counter::Reads)).expect("it runs");
    let before = report.intervals.iter().filter(|interval| interval.end.0 <= 100_000_000);
    assert_eq!(before.map(|interval| interval.counters[Counter::Reads]).sum::<u64>(), 0);
    assert!(sum(&report, Counter::Reads) > 0);
}

#[test]
fn bursts_pause_between_them() {
    let params = in_memory(json!({ "depth": 1, "burst": 10, "delay": "20 ms" }));
    let two_bursts = |report: &EngineReport| sum(report, Counter::Reads) > 10;
    let report = run_until(&Disks::none(), &params, two_bursts).expect("it runs");
    let reads = sum(&report, Counter::Reads);
    let pauses = report.intervals.last().expect("some").end.0 / 20_000_000;
    // A busy machine makes fewer bursts.
    assert!(
        (11..=10 * (pauses + 2)).contains(&reads),
        "{reads} reads in bursts of 10 with {pauses} pauses at the most"
    );
}

#[test]
fn a_scratch_file_is_verified_and_a_flaw_is_found() {
    let disks = Disks::none();
    let checked = in_memory(json!({ "verify": true, "depth": 4, "pattern": "permutation" }));
    let report = run_until(&disks, &checked, has(Counter::Reads)).expect("it runs");
    assert!(report.incidents.is_empty(), "{:?}", report.incidents);
    assert!(sum(&report, Counter::Reads) > 0);
    let scratch = disks.scratch(Path::new(MEMORY), 8 << 20).expect("the same one");
    let file = scratch.open(true, false).expect("writable");
    file.write_all_at(&[0x5A], 4_000_000).expect("one byte turned");
    let report = run(&disks, checked, 30_000).expect("it runs");
    assert_eq!(sum(&report, Counter::Flaws), 1);
    let incident = &report.incidents[0];
    assert_eq!(incident.kind, IncidentKind::WorkerStopped);
    assert!(incident.message.contains("verify the block at 3999744"), "{}", incident.message);
    assert!(
        incident.message.contains("its bytes differ from those written"),
        "{}",
        incident.message
    );
}

#[test]
fn reads_and_writes_have_times_of_their_own() {
    let params = in_memory(json!({ "depth": 4, "read": "60 %" }));
    let both =
        |report: &EngineReport| sum(report, Counter::Reads) > 0 && sum(report, Counter::Writes) > 0;
    let report = run_until(&Disks::none(), &params, both).expect("it runs");
    let of = |times: fn(&linerate_model::Interval) -> &linerate_model::Distribution| -> u64 {
        report.intervals.iter().map(|interval| times(interval).count()).sum()
    };
    assert_eq!(of(|interval| &interval.service), sum(&report, Counter::Reads));
    assert_eq!(of(|interval| &interval.writes), sum(&report, Counter::Writes));
    assert!(both(&report));
}

#[test]
fn every_transfer_with_a_reply_is_followed_by_one_in_the_other_direction() {
    for (depth, engine) in [(1, "pread"), (8, "io_uring"), (8, "aio")] {
        let params = json!({ "depth": depth, "engine": engine, "block_size": "8 KiB",
            "reply": "4 KiB", "align": "4 KiB" });
        let Some(report) = run_with(engine, &in_memory(params), has(Counter::Writes)) else {
            continue;
        };
        assert!(report.incidents.is_empty(), "{:?}", report.incidents);
        let (reads, writes) = (sum(&report, Counter::Reads), sum(&report, Counter::Writes));
        assert!(writes > 0, "{engine}");
        // The drain lets every request have its reply.
        assert_eq!((reads, sum(&report, Counter::Exchanges)), (writes, writes), "{engine}");
        assert_eq!(sum(&report, Counter::BytesRead), reads * 8192);
        assert_eq!(sum(&report, Counter::BytesWritten), writes * 4096);
        let exchanges: u64 =
            report.intervals.iter().map(|interval| interval.response.count()).sum();
        assert_eq!(exchanges, writes, "{engine}");
    }
}

#[test]
fn conditioning_overwrites_a_range_as_often_as_requested_and_the_row_says_so() {
    let disks = Disks::none();
    let quick = run(&disks, in_memory(json!({ "depth": 1 })), 50).expect("it runs");
    assert_eq!(mode(&quick, "conditioning"), "unconditioned");
    let conditioned =
        run(&disks, in_memory(json!({ "depth": 1, "condition": 2 })), 50).expect("it runs");
    assert_eq!(
        mode(&conditioned, "conditioning"),
        "written over 2 times by sequential writes of 128 KiB"
    );
    let again =
        run(&disks, in_memory(json!({ "depth": 1, "condition": 2, "max_written": "25 MiB" })), 50);
    // 8 MiB to fill and twice 8 MiB to condition: a third pass would exceed the budget.
    assert_eq!(
        mode(&again.expect("it is conditioned"), "conditioning"),
        mode(&conditioned, "conditioning")
    );
    let more =
        run(&disks, in_memory(json!({ "depth": 1, "condition": 3, "max_written": "25 MiB" })), 50);
    let error = more.expect_err("the budget").to_string();
    assert!(error.contains("condition /dev/shm") && error.contains("set max_written"), "{error}");
}

#[test]
fn in_memory_the_engine_is_chosen_for_the_size_of_transfers_and_named_with_the_reason() {
    for (size, engine, reason) in [
        ("4 KiB", "aio", "chosen for depth 8 in memory: it copies in the call"),
        ("1 MiB", "io_uring", "chosen for depth 8 in memory: kernel threads share the copying"),
    ] {
        let report = run(&Disks::none(), in_memory(json!({ "depth": 8, "block_size": size })), 50)
            .expect("it runs");
        let (chosen, why) = (mode(&report, "engine"), mode(&report, "engine_why"));
        // If the kernel refuses the engine, the next one reports it.
        let is_refused = why.contains(&format!("set up {engine}"));
        assert!(
            chosen.starts_with(engine) && why.starts_with(reason) || is_refused,
            "{size}: {chosen}: {why}"
        );
    }
    let single = run(&Disks::none(), in_memory(json!({ "depth": 1 })), 50).expect("it runs");
    assert_eq!(
        mode(&single, "engine_why"),
        "chosen for depth 1 in memory: one call per transfer is the minimum"
    );
}

#[test]
fn the_budget_ends_the_load() {
    let params = in_memory(json!({ "depth": 4, "read": "0 %", "max_written": "24 MiB" }));
    let report = run(&Disks::none(), params, 30_000).expect("it runs");
    // 8 MiB of the written bytes filled the file.
    let written = sum(&report, Counter::BytesWritten);
    assert!(written <= 16 << 20 && written > (16 << 20) - (64 << 10), "{written} bytes written");
    assert!(
        report.incidents[0].message.contains("the budget of 25165824 bytes is used up"),
        "{:?}",
        report.incidents
    );
}

#[test]
fn an_existing_file_is_never_written_to() {
    let folder = tempfile::tempdir_in(MEMORY).expect("a folder");
    let path = folder.path().join("precious");
    std::fs::write(&path, vec![7; 1 << 20]).expect("written");
    let error = run(&Disks::new(Writable::Claimed), json!({ "target": path, "read": "50 %" }), 100)
        .expect_err("refused");
    assert!(error.to_string().contains("existing files are never written to"), "{error}");
    assert_eq!(std::fs::read(&path).expect("there"), vec![7; 1 << 20]);
}

#[test]
fn a_claimed_device_is_written_only_between_its_edges_and_the_kernel_agrees() {
    const SIZE: u64 = 16 << 20;
    const EDGE: usize = 1 << 20;
    let Some(disk) = blank(SIZE) else { return };
    let serial =
        inspect(&disk.device).expect("a device").topology.serial.expect("its file stands for it");
    let params = json!({ "target": &*disk.device, "read": "50 %", "depth": 8, "consent": serial });
    let disks = Disks::new(Writable::Claimed);
    let error = run(&disks, params.clone(), 100).expect_err("nobody has claimed it");
    assert!(error.to_string().contains("nobody has claimed it"), "{error}");
    assert!(
        std::fs::read(&disk.image).expect("the image").iter().all(|byte| *byte == 0),
        "nothing was written"
    );

    claim(&disk.device, &serial).expect("blank and free");
    let claimed = std::fs::read(&disk.image).expect("the image");
    let mut without = params.clone();
    without.as_object_mut().expect("a table").remove("consent");
    let error = run(&disks, without, 100).expect_err("an imported job carries no consent");
    assert!(error.to_string().contains("the job names no consent"), "{error}");
    assert!(std::fs::read(&disk.image).expect("the image") == claimed, "nothing was written");

    let mut large = params;
    large["max_written"] = json!("64 GiB");
    // Opening inspects the contents, so the kernel's counters are read after that.
    drop(
        disks
            .open(&disk.device, linerate_disk::Permission::Write { consent: Some(&serial) })
            .expect("open"),
    );
    let both =
        |report: &EngineReport| sum(report, Counter::Reads) > 0 && sum(report, Counter::Writes) > 0;
    let mut loads = SPANS_MS.into_iter().map(|millis| {
        let before = sectors(&disk);
        (before, run(&disks, large.clone(), millis).expect("it runs"), sectors(&disk))
    });
    let (before, report, after) =
        loads.find(|(_, report, _)| both(report)).expect("reads and writes");
    assert!(report.incidents.is_empty(), "{:?}", report.incidents);
    assert_eq!((after.0 - before.0) * 512, sum(&report, Counter::BytesRead), "bytes read");
    assert_eq!((after.1 - before.1) * 512, sum(&report, Counter::BytesWritten), "bytes written");
    let image = std::fs::read(&disk.image).expect("the image");
    assert!(
        image[..EDGE] == claimed[..EDGE]
            && image[image.len() - EDGE..] == claimed[image.len() - EDGE..]
    );
    assert!(
        image[EDGE..image.len() - EDGE].iter().any(|byte| *byte != 0),
        "and something was written between"
    );
    assert_eq!(
        Some(mode(&report, "device")),
        disk.device.file_name().and_then(|name| name.to_str())
    );
}

/// Uses a hard link, which no path reveals; without the watch the load would last a minute.
#[test]
fn a_load_ends_when_another_device_shows_the_bytes_of_its_device() {
    let Some(disk) = blank(16 << 20) else { return };
    let serial =
        inspect(&disk.device).expect("a device").topology.serial.expect("its file stands for it");
    claim(&disk.device, &serial).expect("blank and free");
    let link = disk.image.with_extension("link");
    std::fs::hard_link(&disk.image, &link).expect("one filesystem");
    std::thread::scope(|scope| {
        let shown = scope.spawn(|| {
            // Only after the load has written something: before that the gate itself would refuse.
            let begun = || {
                std::fs::read(&disk.image)
                    .is_ok_and(|image| image[4096..].iter().any(|byte| *byte != 0))
            };
            let asked = std::time::Instant::now();
            while !begun() && asked.elapsed().as_secs() < 30 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            attach("", &link).expect("losetup ran before")
        });
        let params = json!({ "target": &*disk.device, "read": "0 %", "consent": serial,
            "max_written": "1 TiB", "rate": "2 kpps" });
        let report = run(&Disks::new(Writable::Claimed), params, 60_000).expect("it runs");
        let shown = shown.join().expect("no panic");
        let why =
            report.incidents.first().map(|incident| incident.message.clone()).unwrap_or_default();
        let name = shown.strip_prefix("/dev").expect("a device").display();
        assert!(
            why.contains("stopped") && why.contains(&format!("{name} shows the same contents")),
            "{why}"
        );
    });
}

#[test]
fn an_unaligned_transfer_without_the_page_cache_is_refused_with_its_remedy() {
    let Some(disk) = blank(16 << 20) else { return };
    let error =
        run(&Disks::none(), json!({ "target": &*disk.device, "block_size": "1000 B" }), 100)
            .expect_err("refused");
    assert!(error.to_string().contains("cache = \"buffered\""), "{error}");
}

#[test]
fn a_device_without_poll_queues_is_refused() {
    let refused = run(&Disks::none(), in_memory(json!({ "engine": "io_uring_polling" })), 50)
        .expect_err("in memory");
    assert!(refused.to_string().contains("it is in memory"), "{refused}");
    let Some(disk) = blank(16 << 20) else { return };
    let polling = json!({ "target": &*disk.device, "engine": "io_uring_polling" });
    let refused = run(&Disks::none(), polling, 50).expect_err("loop devices have no such queues");
    assert!(
        refused.to_string().contains("has no queues to poll")
            && refused.to_string().contains("poll_queues"),
        "{refused}"
    );
}
