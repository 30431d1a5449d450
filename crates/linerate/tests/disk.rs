//! `linerate disk` on a loop device: listed with its reasons, claimed by its serial number,
//! released.

use std::process::Command;

use serde_json::Value;

use crate::common::run;
use crate::host::Loop;

const SIZE: u64 = 16 << 20;

/// Returns the entry of `device` in `disk list --json`.
fn listed(folder: &std::path::Path, device: &str) -> Value {
    let document = run(folder, &["disk", "list", "--json"]).expect(0).json();
    let disks = document["disks"].as_array().expect("a list").iter();
    let mut own =
        disks.filter(|disk| disk["name"].as_str().is_some_and(|name| device.ends_with(name)));
    own.next().unwrap_or_else(|| panic!("{device} is not listed: {document}")).clone()
}

#[test]
fn a_blank_disk_is_claimed_by_its_serial_number_and_released_and_another_is_refused_with_reasons() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let Some(disk) = Loop::within("", SIZE, folder) else { return };
    let name = disk.device.to_str().expect("plain text");
    let before = std::fs::read(&disk.image).expect("the image");
    let known = listed(folder, name);
    assert_eq!(
        (known["size_bytes"].as_u64(), known["why"].as_array().map(Vec::len)),
        (Some(SIZE), Some(0)),
        "{known}"
    );
    let serial = known["serial"].as_str().expect("its file stands for it").to_owned();

    let nameless = run(folder, &["disk", "claim", name]).expect(2);
    assert!(nameless.stderr.contains("name its serial number"), "{}", nameless.stderr);
    let wrong = run(folder, &["disk", "claim", name, "--serial", "WD-1"]).expect(4);
    assert!(wrong.stderr.contains("its serial number is not WD-1"), "{}", wrong.stderr);
    let claimed = run(folder, &["disk", "claim", name, "--serial", &serial]).expect(0);
    assert!(claimed.stdout.contains("wrote 4096 bytes at its start"), "{}", claimed.stdout);
    assert!(
        listed(folder, name)["verdict"].as_str().is_some_and(|told| told.starts_with("claimed"))
    );
    run(folder, &["disk", "release", name]).expect(0);
    assert!(std::fs::read(&disk.image).expect("the image") == before, "it is as it was");

    if Command::new("mkfs.ext4")
        .args(["-q", "-F", name])
        .status()
        .is_ok_and(|status| status.success())
    {
        let made = std::fs::read(&disk.image).expect("the image");
        let refused = run(folder, &["disk", "claim", name, "--serial", &serial]).expect(4);
        assert!(refused.stderr.contains("it contains ext4 (filesystem)"), "{}", refused.stderr);
        assert!(std::fs::read(&disk.image).expect("the image") == made, "not a byte was changed");
    } else {
        println!("skipped: disk claim on ext4: there is no mkfs.ext4");
    }
}

/// A figure of a study's first point.
fn figure(document: &Value, name: &str) -> f64 {
    let found = document["points"][0]["jobs"][0]["metrics"][name]["estimate"].as_f64();
    found.unwrap_or_else(|| panic!("no {name}: {document}"))
}

#[test]
fn disk_run_reports_consistent_rates_times_and_depth() {
    let folder = tempfile::tempdir().expect("a folder");
    let common = ["--size", "8M", "--qd", "4", "-t", "1", "--ramp", "0.2", "--json"];
    let ended =
        run(folder.path(), &[&["disk", "run", "/dev/shm", "--mix", "70"][..], &common].concat());
    let document = ended.json();
    let engine = document["points"][0]["jobs"][0]["obtained"]["engine"].to_string();
    assert!(
        engine.contains("io_uring (") || engine.contains("aio") || engine.contains("threads"),
        "{engine}"
    );
    let of = |name| figure(&document, name);
    let (reads, writes) = (of("iops_rx"), of("iops_tx"));
    assert!(
        (reads / (reads + writes) - 0.7).abs() < 0.05,
        "{reads} reads and {writes} writes a second"
    );
    assert!((of("transfer_rate_rx") / reads - 4096.0).abs() < 1.0);
    assert_eq!(of("transfer_rate_rx"), of("transfer_rate_binary_rx"));
    assert!(of("achieved_depth") > 0.0 && of("achieved_depth") <= 4.01, "{}", of("achieved_depth"));
    // The number of transfers in flight is rate times time (Little's law) on any machine.
    assert!(of("depth_error").is_finite());
    assert!(of("service_time_p50") <= of("service_time_p99"));
}

#[test]
fn a_rate_with_a_letter_is_of_transfers_and_a_load_that_moves_nothing_is_invalid() {
    let folder = tempfile::tempdir().expect("a folder");
    for (rate, planned) in
        [("2k", "2 kpacket/s"), ("500", "500 packet/s"), ("2 kbit/s", "2 kbit/s")]
    {
        let plan = run(folder.path(), &["disk", "run", ".", "--rate", rate, "--plan"]).expect(0);
        assert!(plan.stdout.contains(&format!("\"{planned}\"")), "{rate}: {plan:?}");
    }
    // A transfer of 4 KiB every 16 s: one in the warm-up, none in the measurement.
    let slow = ["--rate", "2 kbit/s", "--size", "8M", "-t", "0.5", "--ramp", "0.2"];
    let slow = run(folder.path(), &[&["disk", "run", "/dev/shm"][..], &slow].concat()).expect(3);
    assert!(slow.stderr.contains("the load transferred nothing"), "{slow:?}");
}

#[test]
fn disk_run_refuses_targets_without_permission_before_it_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("precious");
    std::fs::write(&file, [7; 8192]).expect("written");
    let name = file.to_str().expect("plain text");
    let refused =
        run(folder.path(), &["disk", "run", name, "--read", "0", "--buffered", "-t", "0.2"]);
    assert!(refused.stderr.contains("existing files are never written to"), "{refused:?}");
    assert_ne!(refused.code, Some(0));
    assert_eq!(std::fs::read(&file).expect("there"), [7; 8192]);
    let lists = run(folder.path(), &["disk", "run", name, "--qd", "1..8x2"]).expect(2);
    assert!(lists.stderr.contains("lists are for disk sweep"), "{}", lists.stderr);
    let deep =
        run(folder.path(), &["disk", "run", name, "--engine", "pread", "--qd", "8"]).expect(2);
    assert!(deep.stderr.contains("one transfer in flight"), "{}", deep.stderr);
}

#[test]
fn the_script_of_fio_reads_our_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let load = [
        "--size",
        "8M",
        "--qd",
        "1,4",
        "--mix",
        "70",
        "-t",
        "0.3",
        "--ramp",
        "0.1",
        "--repeats",
        "1",
    ];
    run(
        folder.path(),
        &[&["disk", "sweep", "/dev/shm", "--ledger", "disk.ledger"][..], &load].concat(),
    );
    run(folder.path(), &["report", "disk.ledger", "--format", "fio-json"]);
    let script = |arguments: &[&str]| {
        Command::new("fio_jsonplus_clat2csv").args(arguments).current_dir(folder.path()).output()
    };
    let Ok(converted) = script(&["fio.json", "times.csv"]) else {
        println!("skipped: fio's script: fio_jsonplus_clat2csv is not here");
        return;
    };
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    let checked = script(&["fio.json", "times.csv", "--validate"]).expect("it ran before");
    let told = String::from_utf8_lossy(&checked.stdout);
    assert!(
        told.contains("times_job0.csv validated") && told.contains("times_job1.csv validated"),
        "{told}"
    );
    // The last line with a count of reads has all of them.
    let table = std::fs::read_to_string(folder.path().join("times_job0.csv")).expect("a table");
    let columns: Vec<&str> =
        table.lines().next().expect("a head").split(',').map(str::trim).collect();
    let cumulative =
        columns.iter().position(|name| *name == "read_clat_ns_cumulative").expect("a column");
    let counts = table
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').nth(cumulative)?.trim().parse::<u64>().ok());
    let document: Value = serde_json::from_str(
        &std::fs::read_to_string(folder.path().join("fio.json")).expect("ours"),
    )
    .expect("JSON");
    // A busy machine may have none.
    assert_eq!(
        Some(counts.max().unwrap_or(0)),
        document["jobs"][0]["read"]["clat_ns"]["N"].as_u64()
    );
}

#[test]
fn a_sweep_lists_each_engine_and_each_reason_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let load = ["--size", "8M", "--qd", "1,4,8", "-t", "0.3", "--ramp", "0.1", "--repeats", "2"];
    let told = run(folder.path(), &[&["disk", "sweep", "/dev/shm"][..], &load].concat()).stdout;
    let said = told.lines().filter_map(|line| line.strip_prefix("  - ")).collect::<Vec<_>>();
    let lines = |start: &str| {
        said.iter().copied().filter(|line| line.starts_with(start)).collect::<Vec<_>>()
    };
    assert!(lines("engine: ").contains(&"engine: pread (1 of 3 points)"), "{told}");
    assert!(lines("engine: ").len() == 2, "{told}");
    assert_eq!(lines("cache: "), ["cache: direct"]);
    let kinds: Vec<String> = lines("suspect: ")
        .iter()
        .map(|line| {
            line.split(" (at ")
                .next()
                .unwrap_or_default()
                .replace(|letter: char| letter.is_ascii_digit(), "")
        })
        .collect();
    let mut once = kinds.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), kinds.len(), "{told}");
}
