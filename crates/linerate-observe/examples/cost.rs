//! Cost of the observer: time to open and CPU time per reading of every sampler, and of all of them
//! as they run in a trial. `cargo run --release -p linerate-observe --example cost [seconds]`; the
//! budget is 1 % of one core at 100 ms.

use std::time::{Duration, Instant};

use linerate_model::Nanos;
use linerate_observe::{SAMPLERS, Sampling, Scope};
use linerate_sys::clock::monotonic;

const READINGS: u32 = 200;
const PERIOD: Nanos = Nanos(100_000_000);

fn main() {
    let seconds = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(5);
    println!("{:<18} {:>8} {:>10} {:>12}", "sampler", "columns", "open us", "read us");
    for sampler in SAMPLERS {
        let opening = Instant::now();
        let mut probe = match (sampler.open)(&Scope::default()) {
            Ok(probe) => probe,
            Err(why) => {
                println!("{:<18} unavailable: {why}", sampler.name);
                continue;
            }
        };
        let open = opening.elapsed();
        let mut row = vec![None; probe.series().len()];
        let reading = Instant::now();
        for _ in 0..READINGS {
            probe.read(&mut row);
        }
        let read = reading.elapsed() / READINGS;
        println!(
            "{:<18} {:>8} {:>10.0} {:>12.1}",
            sampler.name,
            row.len(),
            micros(open),
            micros(read)
        );
    }
    let opening = Instant::now();
    let sampling = Sampling::start(&Scope::default(), PERIOD);
    let open = opening.elapsed();
    let origin = monotonic();
    std::thread::sleep(Duration::from_secs(seconds));
    let block = sampling.stop(Nanos(origin));
    let span = (monotonic() - origin) as f64;
    println!(
        "all: {} series, {} readings, opened in {:.1} ms",
        block.series.len(),
        block.times.len(),
        micros(open) / 1e3
    );
    println!(
        "cost: {:.3} ms CPU, {:.3} % of one core",
        block.cost_ns as f64 / 1e6,
        block.cost_ns as f64 / span * 100.0
    );
    let facts = Instant::now();
    let bytes = linerate_observe::facts().to_string().len();
    println!("facts: {bytes} bytes of JSON in {:.1} ms", micros(facts.elapsed()) / 1e3);
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
