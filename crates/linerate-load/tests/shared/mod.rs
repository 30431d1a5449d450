//! Both ends of a workload in this process, on loopback.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]

use std::net::IpAddr;
use std::time::Duration;

use linerate_load::engine::{Engine, EngineReport, Timeline};
use linerate_load::{Listener, Offer, Secret, Setup, Worker, workload};
use linerate_model::{Counter, Distribution, Endpoint, FlowReport, LossLedger, Nanos, Params};
use linerate_sys::clock;
use serde_json::Value;

pub const V4: &str = "127.0.0.1";
pub const V6: &str = "::1";
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Milliseconds of load. The first is enough on a quiet machine, the last on one that is nearly
/// blocked.
pub const SPANS_MS: [u64; 5] = [60, 300, 1_500, 6_000, 20_000];
pub const SECRET: Secret = Secret(*b"a secret of 16 B");

/// Workers of the active end and of the passive end.
pub type Ends = [Vec<Box<dyn Worker>>; 2];

pub fn endpoint(ip: &str) -> Endpoint {
    let address: Option<IpAddr> = Some(ip.parse().expect("an address"));
    Endpoint { address, ..Endpoint::named("x", "x") }
}

pub fn setup<'a>(params: &'a Params, local: &'a Endpoint) -> Setup<'a> {
    Setup { patience: PATIENCE, ..Setup::alone(params, local, SECRET) }
}

pub fn params(table: Value) -> Params {
    serde_json::from_value(table).expect("a table")
}

pub fn listen(name: &str, ip: &str, table: &Value) -> Box<dyn Listener> {
    let (params, local) = (params(table.clone()), endpoint(ip));
    workload(name).expect("registered").listen(&setup(&params, &local)).expect("listen")
}

pub fn connect(name: &str, ip: &str, table: &Value, offer: &Offer) -> Vec<Box<dyn Worker>> {
    let (params, local) = (params(table.clone()), endpoint(ip));
    workload(name).expect("registered").connect(&setup(&params, &local), offer).expect("connect")
}

/// Opens both ends, the active one first; `divert` may change the address to which the active end
/// connects.
pub fn open(name: &str, ip: &str, table: &Value, divert: impl FnOnce(Offer) -> Offer) -> Ends {
    let listener = listen(name, ip, table);
    let offer = divert(listener.offer());
    // In parallel, as in a real trial: the passive end waits for flows that the active end opens.
    let accepting = std::thread::spawn(move || listener.accept(PATIENCE.into()).expect("accept"));
    let active = connect(name, ip, table, &offer);
    [active, accepting.join().expect("no panic")]
}

pub fn start(workers: Vec<Box<dyn Worker>>, load: Nanos, drain: Nanos) -> Engine {
    let start = Nanos(clock::monotonic() + 10_000_000);
    let load_until = start + load;
    let interval = Nanos::from_millis(50);
    let timeline =
        Timeline { start, load_from: start, load_until, drain_until: load_until + drain, interval };
    Engine::start(workers, timeline, &[], 1)
}

pub fn join(mut engine: Engine) -> EngineReport {
    let mut intervals = Vec::new();
    while !engine.finished() {
        // An engine buffers the intervals of about a second. A test that did not collect them would
        // see them merged.
        std::thread::sleep(Duration::from_millis(5));
        intervals.extend(engine.intervals());
    }
    let mut report = engine.join();
    intervals.append(&mut report.intervals);
    report.intervals = intervals;
    report
}

/// Loads both ends for `milliseconds` and drains them for at most a second; returns active and
/// passive.
pub fn run(ends: Ends, milliseconds: u64) -> [EngineReport; 2] {
    ends.map(|workers| start(workers, Nanos::from_millis(milliseconds), Nanos::from_secs(1)))
        .map(join)
}

/// Runs longer and longer loads from [`SPANS_MS`] until `is_enough` holds. No test depends on how
/// long that takes. Each load opens both ends anew. Returns the last report even if it was not
/// enough, so that the test can show it.
pub fn run_until(
    open: impl FnMut() -> Ends,
    is_enough: impl Fn(&[EngineReport; 2]) -> bool,
) -> [EngineReport; 2] {
    // A drain ends by itself when everything has arrived.
    grow(open, is_enough, |_| Nanos::from_secs(30))
}

/// Does the same for loads with losses, whose drains always wait until their limit.
pub fn run_lossy_until(
    open: impl FnMut() -> Ends,
    is_enough: impl Fn(&[EngineReport; 2]) -> bool,
) -> [EngineReport; 2] {
    grow(open, is_enough, |milliseconds| Nanos::from_millis(2 * milliseconds + 200))
}

fn grow(
    mut open: impl FnMut() -> Ends,
    is_enough: impl Fn(&[EngineReport; 2]) -> bool,
    drain: fn(u64) -> Nanos,
) -> [EngineReport; 2] {
    let mut seen = None;
    for milliseconds in SPANS_MS {
        let drain = drain(milliseconds);
        let reports =
            open().map(|workers| start(workers, Nanos::from_millis(milliseconds), drain)).map(join);
        if is_enough(&reports) {
            return reports;
        }
        seen = Some(reports);
    }
    seen.expect("there are spans")
}

/// Returns true if every flow of these ends has moved payload.
pub fn all_flows_moved(reports: &[&EngineReport]) -> bool {
    let moved = |flow: &FlowReport| {
        flow.counters[Counter::PayloadSent] + flow.counters[Counter::PayloadReceived] > 0
    };
    reports.iter().all(|report| report.flows.iter().all(moved))
}

pub fn sum(report: &EngineReport, counter: Counter) -> u64 {
    report.intervals.iter().map(|interval| interval.counters[counter]).sum()
}

pub fn flows_sum(report: &EngineReport, counter: Counter) -> u64 {
    report.flows.iter().map(|flow| flow.counters[counter]).sum()
}

/// Returns the directions of `table`, sender first.
pub fn ways<'a>(
    table: &Value,
    [active, passive]: &'a [EngineReport; 2],
) -> Vec<[&'a EngineReport; 2]> {
    match table["direction"].as_str() {
        Some("rx") => vec![[passive, active]],
        Some("both") => vec![[active, passive], [passive, active]],
        _ => vec![[active, passive]],
    }
}

/// Returns the account of each flow.
pub fn ledgers(sender: &EngineReport, receiver: &EngineReport) -> Vec<LossLedger> {
    let of = |flow: u32| {
        receiver.flows.iter().find(|report| report.flow == flow).expect("both ends report it")
    };
    let ledger = |sent: &FlowReport| LossLedger::reconcile(sent, of(sent.flow)).expect("one flow");
    sender.flows.iter().map(ledger).collect()
}

pub fn service(report: &EngineReport) -> Distribution {
    let mut all = Distribution::default();
    report.intervals.iter().for_each(|interval| all.merge(&interval.service));
    all
}
