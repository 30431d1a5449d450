//! Invariant 6 for datagrams, requests and connections: no step of either end allocates. Both ends
//! step in turn on this one thread, so nothing but their steps is counted.

use std::time::{Duration, Instant};

use linerate_load::{Due, Progress, Tally, Worker};
use linerate_model::{Counter, Load, Nanos};
use linerate_sys::clock;
use serde_json::json;

use crate::counting;
use crate::shared::{PATIENCE, V4, open};

const A_WHILE: Duration = Duration::from_millis(100);

/// Steps `worker` once, with the counter on.
fn step(worker: &mut dyn Worker, tally: &mut Tally) -> Progress {
    let now = Nanos(clock::monotonic());
    let (operations, gap) = match worker.load() {
        Load::Closed { .. } => (u32::MAX, Nanos(0)),
        Load::Open { .. } => (3, Nanos(1_000)),
    };
    let due = Due { operations, intended: now, gap, until: now + Nanos::from_millis(1) };
    counting::watch(true);
    let progress = worker.step(due, tally);
    counting::watch(false);
    progress
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nUid:\t0\t"))
}

#[test]
fn no_step_allocates() {
    let _turn = counting::alone();
    counting::watch(true);
    drop(std::hint::black_box(Box::new(1)));
    counting::watch(false);
    assert!(counting::calls() >= 2, "the count counts");
    for (name, table) in [
        ("udp_stream", json!({ "direction": "both", "streams": 3, "datagram_size": "64 B" })),
        ("udp_stream", json!({ "receive": "discard", "wait": "spin" })),
        ("udp_stream", json!({ "rate": "10 kpps", "gro": false, "direction": "rx" })),
        ("frames", json!({ "mode": "udp", "direction": "both", "streams": 3 })),
        (
            "frames",
            json!({ "mode": "packet", "direction": "both", "streams": 3, "frame_size": "imix" }),
        ),
        ("frames", json!({ "mode": "packet_bypass", "rate": "10 kpps", "ports": "random" })),
        ("frames", json!({ "mode": "packet_ring", "rate": "10 kpps", "ports": "random" })),
        ("tcp_rr", json!({ "depth": 4, "streams": 2 })),
        ("tcp_rr", json!({ "rate": "1 kpps", "depth": 2, "wait": "spin" })),
        ("udp_rr", json!({ "depth": 4, "streams": 2 })),
        ("udp_rr", json!({ "rate": "1 kpps", "depth": 2, "wait": "spin" })),
        ("http", json!({ "file_size": "64 KiB", "streams": 2 })),
        (
            "http",
            json!({ "file_size": "64 KiB", "reuse": false, "send": "copy", "sink": "memory" }),
        ),
        ("http", json!({ "file_size": "256 KiB", "direction": "tx", "send": "zerocopy" })),
        (
            "http",
            json!({ "file_size": "64 KiB", "chunked": true, "sink": "memory", "checksum": true }),
        ),
        ("http", json!({ "file_size": "64 KiB", "chunked": true, "direction": "tx" })),
        ("http", json!({ "file_size": "64 KiB", "offset": "1 KiB" })),
        ("ftp", json!({ "file_size": "64 KiB", "offset": "1 KiB" })),
        ("ftp", json!({ "file_size": "64 KiB", "streams": 2, "send": "splice" })),
        ("ftp", json!({ "file_size": "64 KiB", "passive": "pasv", "direction": "tx" })),
        ("tcp_crr", json!({ "wait": "spin" })),
        ("tcp_crr", json!({ "close": "reset" })),
        (
            "tcp_crr",
            json!({ "close": "reset", "streams": 3, "dscp": 10, "socket_buffer": "64 KiB",
                "mss": "1000 B" }),
        ),
    ] {
        if table["mode"].as_str().is_some_and(|mode| mode.starts_with("packet")) && !is_root() {
            println!("skipped: {name} {table}: needs CAP_NET_RAW");
            continue;
        }
        let mut workers: Vec<_> =
            open(name, V4, &table, |offer| offer).into_iter().flatten().collect();
        let mut tallies: Vec<_> = workers.iter().map(|worker| Tally::new(worker.times())).collect();
        let before = counting::calls();
        // Long enough for rare events to happen, and until payload has arrived, however long that
        // takes.
        let began = Instant::now();
        let moved = |tallies: &[Tally]| {
            tallies.iter().map(|tally| tally.counters[Counter::PayloadReceived]).sum::<u64>()
        };
        while began.elapsed() < A_WHILE || (moved(&tallies) == 0 && began.elapsed() < PATIENCE) {
            for (worker, tally) in workers.iter_mut().zip(&mut tallies) {
                step(&mut **worker, tally);
            }
        }
        assert!(moved(&tallies) > 0, "{name} {table} moved nothing");
        assert_eq!(counting::calls() - before, 0, "{name} {table}");
    }
}
