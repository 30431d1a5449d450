//! Measures the cost of linerate on the hot path in nanoseconds: a record into a histogram (against
//! the `hdrhistogram` crate), a clock reading, a call of the pacer, and a whole step of `null` with
//! pacer, tally and intervals.
//!
//! Each figure is the smallest of several rounds, because noise only adds time. Run it with `cargo
//! bench -p linerate-load --bench step`.

use std::hint::black_box;

use linerate_load::engine::{Engine, Timeline};
use linerate_load::{Due, Histogram, Pacer, Progress, Tally, Times, Worker};
use linerate_model::{Counter, FlowReport, Load, Nanos};
use linerate_sys::clock;

const ROUNDS: usize = 9;
const OPERATIONS: u64 = 2_000_000;

fn main() {
    row("the loop itself", &mut |k| {
        black_box(spread(k));
    });
    row("histogram, ours", &mut {
        let mut histogram = Histogram::new();
        move |k| histogram.record(spread(k))
    });
    row("histogram, hdrhistogram crate", &mut {
        let mut histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)
            .expect("legal bounds");
        move |k| histogram.saturating_record(spread(k))
    });
    row("clock", &mut |_| {
        black_box(clock::monotonic());
    });
    for (name, load) in [
        ("pacer, closed", Load::Closed { depth: 1 }),
        ("pacer, constant", Load::Open { rate: 1e8, arrival: linerate_model::Arrival::Constant }),
        ("pacer, poisson", Load::Open { rate: 1e8, arrival: linerate_model::Arrival::Poisson }),
    ] {
        let mut pacer = Pacer::new(load, Nanos(0), 1);
        row(name, &mut |k| {
            black_box(pacer.next(Nanos(k * 10), Nanos(u64::MAX)));
        });
    }
    for (name, times) in [("null step", Times::NONE), ("null step that records a time", Times::ALL)]
    {
        let best = (0..ROUNDS).map(|_| engine_step(times)).fold(f64::INFINITY, f64::min);
        println!("{name}: {best:.2} ns of CPU");
    }
}

/// Returns times that are spread over the buckets of usual latencies: 2 us to 130 us.
fn spread(k: u64) -> u64 {
    2_000 + (k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 47)
}

fn row(name: &str, operation: &mut impl FnMut(u64)) {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let from = clock::thread_cpu();
        (0..OPERATIONS).for_each(&mut *operation);
        best = best.min((clock::thread_cpu() - from) as f64 / OPERATIONS as f64);
    }
    println!("{name}: {best:.2} ns");
}

struct Null(Times);

impl Worker for Null {
    fn times(&self) -> Times {
        self.0
    }
    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        if self.0 != Times::NONE {
            tally.times.service.record(due.intended.0 & 0xffff);
        }
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

/// Returns CPU nanoseconds per step of an engine that runs for 0.2 s.
fn engine_step(times: Times) -> f64 {
    let start = Nanos(clock::monotonic()) + Nanos::from_millis(1);
    let load_until = start + Nanos::from_millis(200);
    let timeline = Timeline {
        start,
        load_from: start,
        load_until,
        drain_until: load_until,
        interval: Nanos::from_millis(10),
    };
    let mut engine = Engine::start(vec![Box::new(Null(times))], timeline, &[], 1);
    let mut intervals = Vec::new();
    while !engine.finished() {
        std::thread::sleep(std::time::Duration::from_millis(20));
        intervals.extend(engine.intervals());
    }
    intervals.extend(engine.join().intervals);
    let sum = |counter: Counter| intervals.iter().map(|i| i.counters[counter]).sum::<u64>() as f64;
    (sum(Counter::CpuUser) + sum(Counter::CpuSystem)) / sum(Counter::Steps)
}
