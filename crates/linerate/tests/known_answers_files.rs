//! Known answers of loads on files and disks: every byte of every file is accounted, and a link of
//! known rate bounds what it carries.

use linerate_model::{Counter, JobRecord};

use crate::common::{Measured, measure, plan, privileged};
use crate::known_answers::no_run_exceeds;

/// Size of each file, bytes.
const FILE: u64 = 64 << 10;
/// Files that are under way at once.
const STREAMS: u64 = 2;
/// Payload of TCP that a link of 100 Mbit/s carries, bit/s: frames of 1514 B without FCS carry 1448
/// B behind timestamps (RFC 7323).
const CEILING: f64 = 100e6 * 1448.0 / 1514.0;

/// Returns the total of `counter` over the whole load, warm-up and drain included.
fn sum(end: &JobRecord, counter: Counter) -> u64 {
    end.intervals.iter().map(|interval| interval.counters[counter]).sum()
}

fn ends(measured: &Measured) -> &(JobRecord, JobRecord) {
    &measured.campaign.trials[0].jobs[0]
}

#[test]
fn files_over_a_shaped_link_arrive_whole_and_no_faster_than_it() {
    let Some(()) = privileged() else { return };
    for workload in ["ftp", "http"] {
        let params = format!(
            "direction = \"tx\", file_size = \"{FILE} B\", source = \"memory\", sink = \
                \"memory\", streams = {STREAMS}"
        );
        let text = plan(workload, 1.0, &params);
        let Some(measured) = measure(&text, &["--lab", "pair-100m"]) else { return };
        no_run_exceeds(&measured, CEILING);
        let (active, passive) = ends(&measured);
        let [files, due, lost, open] = [
            Counter::Transactions,
            Counter::OperationsDue,
            Counter::OperationsLost,
            Counter::OperationsOpen,
        ]
        .map(|counter| sum(active, counter));
        let [sent, received] =
            [sum(active, Counter::PayloadSent), sum(passive, Counter::PayloadReceived)];
        println!("{workload}: {files} of {due} files, {open} open, {sent} B sent, {received} B");
        assert!(files > 0 && lost == 0, "{files} files, {lost} failed");
        assert_eq!(due, files + open);
        // Each stream has one file under way, of which any part may have arrived.
        assert!(received >= files * FILE && received <= (files + STREAMS) * FILE, "{received} B");
        assert!(sent >= received);
    }
}

#[test]
fn paced_reads_of_a_file_are_due_at_their_rate_and_each_has_its_bytes() {
    const RATE: f64 = 2_000.0;
    const SECONDS: f64 = 0.5;
    let params = format!(
        "target = \"/dev/shm\", size = \"4 MiB\", block_size = \"8 KiB\", read = \"100 %\", \
            depth = 4, rate = \"{RATE} packet/s\""
    );
    let Some(measured) = measure(&plan("storage", SECONDS, &params), &[]) else { return };
    let (active, _) = ends(&measured);
    let [due, reads, bytes] = [Counter::OperationsDue, Counter::Reads, Counter::BytesRead]
        .map(|counter| sum(active, counter));
    println!("storage: {due} reads due, {reads} made, {bytes} B");
    assert_eq!(bytes, reads * 8_192);
    assert!(reads > 0 && reads <= due, "{reads} of {due}");
    let scheduled = RATE * (SECONDS + crate::common::WARM_UP);
    assert!((due as f64 / scheduled - 1.0).abs() < 0.01, "{due} due of {scheduled}");
}
