//! Runs any workload and prints what it moved: delivered goodput, calls, engine steps, and CPU time
//! of both ends. See `shared/mod.rs` for arguments.

mod shared;

use linerate_load::engine::EngineReport;
use linerate_model::Counter;

fn main() {
    let outcome = shared::run_from_arguments();
    for (end, report) in [("active", &outcome.active), ("passive", &outcome.passive)] {
        let Some(report) = report else { continue };
        let sum = |counter: Counter| total(report, counter);
        let gigabits = |counter| sum(counter) as f64 * 8.0 / outcome.seconds / 1e9;
        let steps = sum(Counter::Steps);
        println!(
            "{end}: sent {:.3} Gbit/s, received {:.3} Gbit/s, calls {} + {}, {steps} steps ({:.2} \
                ns each), cpu {:.3} s",
            gigabits(Counter::PayloadSent),
            gigabits(Counter::PayloadReceived),
            sum(Counter::CallsSent),
            sum(Counter::CallsReceived),
            outcome.seconds * 1e9 / (steps as f64).max(1.0),
            (sum(Counter::CpuUser) + sum(Counter::CpuSystem)) as f64 / 1e9,
        );
        for flow in report.flows.iter().take(1) {
            println!("  {} -> {} {:?}", flow.local, flow.remote, flow.modes);
            for (name, value) in &flow.socket {
                println!("  {name}: {value:?}");
            }
        }
        report.incidents.iter().for_each(|incident| println!("  {incident:?}"));
    }
}

fn total(report: &EngineReport, counter: Counter) -> u64 {
    report.intervals.iter().map(|interval| interval.counters[counter]).sum()
}
