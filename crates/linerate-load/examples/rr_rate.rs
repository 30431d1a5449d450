//! Prints transactions or connections per second of `tcp_rr`, `udp_rr` and `tcp_crr` with their
//! times. See `shared/mod.rs` for arguments.

mod shared;

use linerate_model::{Counter, Distribution};

fn main() {
    let outcome = shared::run_from_arguments();
    for (end, report) in [("active", &outcome.active), ("passive", &outcome.passive)] {
        let Some(report) = report else { continue };
        let (mut service, mut response) = (Distribution::default(), Distribution::default());
        for interval in &report.intervals {
            service.merge(&interval.service);
            response.merge(&interval.response);
        }
        let sum = |counter: Counter| {
            report.intervals.iter().map(|interval| interval.counters[counter]).sum::<u64>()
        };
        println!(
            "{end}: {:.0} transactions/s, {:.0} connections/s, lost {}, failed {}, late {}, calls \
                {} + {}",
            sum(Counter::Transactions) as f64 / outcome.seconds,
            sum(Counter::Connections) as f64 / outcome.seconds,
            sum(Counter::TransactionsLost),
            sum(Counter::ConnectionsFailed),
            sum(Counter::LateStarts),
            sum(Counter::CallsSent),
            sum(Counter::CallsReceived),
        );
        for (name, times) in [("service", service), ("response", response)] {
            let at = |quantile| {
                times.percentile(quantile).map(|ns| ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e3))
            };
            println!(
                "  {name} us: p50 {:.2?} p99 {:.2?} p99.9 {:.2?} n {}",
                at(0.5),
                at(0.99),
                at(0.999),
                times.count()
            );
        }
        for flow in report.flows.iter().take(1) {
            println!("  {:?}", flow.modes);
        }
        report.incidents.iter().for_each(|incident| println!("  {incident:?}"));
    }
}
