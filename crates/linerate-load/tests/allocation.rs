//! Invariant 6: from the first step to the end of the drain, neither a worker's thread nor the
//! cutting of its intervals allocates memory.

use std::time::Duration;

use linerate_load::engine::{Engine, EngineReport, Timeline};
use linerate_load::{Due, Progress, Setup, Tally, Times, Worker, workload};
use linerate_model::{Counter, FlowReport, FlowTcp, Load, Nanos};
use linerate_sys::clock;
use serde_json::{Value, json};

use crate::iperf3_server::Server;
use crate::{counting, shared};

/// Milliseconds of load. The first is enough on a quiet machine, the last on one that is nearly
/// blocked.
const SPANS_MS: [u64; 4] = [40, 300, 2_000, 20_000];

/// Worker whose thread is watched from its first step to its end, which includes the cutting of
/// intervals.
struct Watched(Box<dyn Worker>);

impl Worker for Watched {
    fn load(&self) -> Load {
        self.0.load()
    }
    fn times(&self) -> Times {
        self.0.times()
    }
    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        counting::watch(true);
        self.0.step(due, tally)
    }
    fn observe(&mut self, flows: &mut Vec<FlowTcp>) {
        self.0.observe(flows);
    }
    fn held_bytes(&self) -> Option<u64> {
        self.0.held_bytes()
    }
    fn n_flows(&self) -> usize {
        self.0.n_flows()
    }
    fn stop_sending(&mut self) {
        self.0.stop_sending();
    }
    fn finish(&mut self) -> Vec<FlowReport> {
        counting::watch(false);
        self.0.finish()
    }
}

/// Worker that records every kind of time, so that the histograms are exchanged too.
struct Timing;

impl Worker for Timing {
    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        tally.times.service.record(due.intended.0 & 0xffff);
        tally.times.response.record(due.intended.0 & 0xff_ffff);
        tally.times.gap.record(1);
        Progress::Moved
    }
    fn n_flows(&self) -> usize {
        0
    }
    fn stop_sending(&mut self) {}
    fn finish(&mut self) -> Vec<FlowReport> {
        Vec::new()
    }
}

/// Worker that allocates in its steps: proves that the counter works.
struct Allocating;

impl Worker for Allocating {
    fn step(&mut self, _due: Due, _tally: &mut Tally) -> Progress {
        std::hint::black_box(Box::new(1));
        Progress::Idle
    }
    fn n_flows(&self) -> usize {
        0
    }
    fn stop_sending(&mut self) {}
    fn finish(&mut self) -> Vec<FlowReport> {
        Vec::new()
    }
}

fn open(name: &str, params: Value) -> [Vec<Box<dyn Worker>>; 2] {
    // Half of this must be enough to fill the scratch file of `storage`.
    const PATIENCE: Duration = Duration::from_secs(120);
    let (params, local) = (shared::params(params), shared::endpoint(shared::V4));
    let loaded = Duration::from_millis(50);
    let setup = Setup { patience: PATIENCE, loaded, ..shared::setup(&params, &local) };
    let workload = workload(name).expect("registered");
    let listener = workload.listen(&setup).expect("listen");
    let offer = listener.offer();
    let accepting = std::thread::spawn(move || listener.accept(PATIENCE.into()));
    let active = workload.connect(&setup, &offer).expect("connect");
    [active, accepting.join().expect("no panic").expect("accept")]
}

/// Returns the allocations in the threads of the ends while they ran, and their reports, under
/// longer and longer loads until `is_enough` holds.
fn allocations(
    mut open: impl FnMut() -> Vec<Vec<Box<dyn Worker>>>,
    is_enough: impl Fn(&[EngineReport]) -> bool,
) -> (u64, Vec<EngineReport>) {
    let mut loads =
        SPANS_MS.into_iter().map(|millis| allocations_in(open(), Nanos::from_millis(millis)));
    loads.find(|(_, reports)| is_enough(reports)).expect("it did something")
}

fn allocations_in(ends: Vec<Vec<Box<dyn Worker>>>, load: Nanos) -> (u64, Vec<EngineReport>) {
    let before = counting::calls();
    let start = Nanos(clock::monotonic() + 1_000_000);
    let load_until = start + load;
    let timeline = Timeline {
        start,
        load_from: start,
        load_until,
        drain_until: load_until + Nanos::from_secs(30),
        interval: Nanos::from_millis(5),
    };
    let watch = |end: Vec<Box<dyn Worker>>| {
        end.into_iter()
            .map(|worker| Box::new(Watched(worker)) as Box<dyn Worker>)
            .collect::<Vec<_>>()
    };
    // A single end has no peer that could end its drain.
    let timeline_of = |ends: usize| {
        if ends == 1 { Timeline { drain_until: load_until, ..timeline } } else { timeline }
    };
    let n_ends = ends.len();
    let engines: Vec<Engine> = ends
        .into_iter()
        .map(|end| Engine::start(watch(end), timeline_of(n_ends), &[], 1))
        .collect();
    let reports = engines.into_iter().map(Engine::join).collect();
    (counting::calls() - before, reports)
}

fn counted(report: &EngineReport, counter: Counter) -> u64 {
    report.intervals.iter().map(|interval| interval.counters[counter]).sum()
}

fn steps(reports: &[EngineReport]) -> u64 {
    reports.iter().map(|report| counted(report, Counter::Steps)).sum()
}

/// Returns the payload that passed an end; for an end without payload, its steps.
fn moved(report: &EngineReport) -> u64 {
    let payload =
        [Counter::PayloadSent, Counter::PayloadReceived, Counter::BytesRead, Counter::BytesWritten];
    let bytes = payload.map(|counter| counted(report, counter)).iter().sum();
    if report.flows.is_empty() { counted(report, Counter::Steps) } else { bytes }
}

#[test]
fn steps_and_cuts_allocate_nothing() {
    let _turn = counting::alone();
    let (counted, _) =
        allocations(|| vec![vec![Box::new(Allocating)]], |reports| steps(reports) > 0);
    assert!(counted > 0, "the count counts");

    let exchanged = |reports: &[EngineReport]| {
        reports[0].intervals.iter().filter(|one| one.response.count() > 0).count()
    };
    let (counted, _) =
        allocations(|| vec![vec![Box::new(Timing)]], |reports| exchanged(reports) >= 2);
    assert_eq!(counted, 0, "an engine that exchanges histograms");

    let cases = [
        ("null", json!({})),
        ("tcp_stream", json!({})),
        ("tcp_stream", json!({"send": "batch", "receive": "discard", "message_size": "64 B"})),
        ("tcp_stream", json!({"send": "zerocopy", "receive": "zerocopy"})),
        ("tcp_stream", json!({"send": "sendfile", "wait": "spin"})),
        ("tcp_stream", json!({"send": "splice", "streams": 4, "workers": 2, "direction": "both"})),
        ("tcp_stream", json!({"direction": "both", "duplex": "one"})),
        ("storage", json!({"target": "/dev/shm", "size": "4 MiB", "depth": 8})),
        (
            "storage",
            json!({"target": "/dev/shm", "size": "4 MiB", "depth": 1, "read": "50 %",
                "random": "50 %", "verify": true}),
        ),
        (
            "storage",
            json!({"target": "/dev/shm", "size": "4 MiB", "depth": 8, "engine": "io_uring"}),
        ),
        (
            "storage",
            json!({"target": "/dev/shm", "size": "4 MiB", "depth": 8, "pattern": "zipf",
                "reply": "4 KiB"}),
        ),
        (
            "storage",
            json!({"target": "/dev/shm", "size": "4 MiB", "depth": 8, "engine": "threads"}),
        ),
        (
            "storage",
            json!({"target": "/dev/shm", "size": "4 MiB", "depth": 8, "engine": "aio",
                "read": "50 %", "copies": "30 %", "flow": 2, "reopen_every": 20}),
        ),
        (
            "storage",
            json!({"target": "/dev/shm", "size": "4 MiB", "depth": 8, "engine": "aio",
                "read": "0 %", "verify": true, "verify_backlog": 64,
                    "latency_target": "1 ms", "latency_window": "5 ms"}),
        ),
    ];
    for (name, params) in cases {
        let ends = || {
            open(name, params.clone()).into_iter().filter(|workers| !workers.is_empty()).collect()
        };
        let (counted, _) =
            allocations(ends, |reports| reports.iter().all(|report| moved(report) > 0));
        assert_eq!(counted, 0, "{name} {params}");
    }
}

/// Worker that is watched from its first payload to the end of its load: the messages before and
/// after it are those of a control connection.
struct WatchedLoad(Box<dyn Worker>);

impl Worker for WatchedLoad {
    fn times(&self) -> Times {
        self.0.times()
    }
    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        let payload = [Counter::PayloadSent, Counter::PayloadReceived];
        let has_begun = payload.iter().any(|counter| tally.counters[*counter] > 0);
        counting::watch(has_begun && due.operations > 0);
        let progress = self.0.step(due, tally);
        counting::watch(false);
        progress
    }
    fn observe(&mut self, flows: &mut Vec<FlowTcp>) {
        self.0.observe(flows);
    }
    fn n_flows(&self) -> usize {
        self.0.n_flows()
    }
    fn stop_sending(&mut self) {
        self.0.stop_sending();
    }
    fn finish(&mut self) -> Vec<FlowReport> {
        self.0.finish()
    }
}

#[test]
fn a_load_with_an_iperf3_server_allocates_nothing() {
    let _turn = counting::alone();
    let server = Server::start();
    for table in [
        json!({ "streams": 3 }),
        json!({ "streams": 3, "direction": "both", "rate": "100 Mbit/s" }),
        json!({ "protocol": "udp", "streams": 2, "direction": "both", "rate": "20 Mbit/s" }),
    ] {
        let mut params = table.clone();
        params["server"] = server.name().into();
        let before = counting::calls();
        let [active, _] = open("iperf3", params);
        let watched = active.into_iter().map(|worker| Box::new(WatchedLoad(worker)) as Box<_>);
        let start = Nanos(clock::monotonic() + 1_000_000);
        let load_until = start + Nanos::from_millis(500);
        let timeline = Timeline {
            start,
            load_from: start,
            load_until,
            drain_until: load_until + Nanos::from_secs(20),
            interval: Nanos::from_millis(5),
        };
        let report = Engine::start(watched.collect(), timeline, &[], 1).join();
        assert!(moved(&report) > 0, "{table}");
        assert_eq!(counting::calls() - before, 0, "{table}");
    }
}
