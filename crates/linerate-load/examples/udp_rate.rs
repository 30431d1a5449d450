//! Prints datagrams per second of `udp_stream`, sent and received, and the loss between them. See
//! `shared/mod.rs` for arguments.

mod shared;

use linerate_load::engine::EngineReport;
use linerate_model::{Counter, LossLedger};

fn main() {
    let outcome = shared::run_from_arguments();
    for (end, report) in [("active", &outcome.active), ("passive", &outcome.passive)] {
        let Some(report) = report else { continue };
        let sum = |counter: Counter| {
            report.intervals.iter().map(|interval| interval.counters[counter]).sum::<u64>()
        };
        let rate = |counter| sum(counter) as f64 / outcome.seconds / 1e6;
        println!(
            "{end}: sent {:.4} Mpps, received {:.4} Mpps ({:.2} Gbit/s), calls {} + {}, drops at \
                socket {}, late starts {}",
            rate(Counter::DatagramsSent),
            rate(Counter::DatagramsReceived),
            rate(Counter::PayloadReceived) * 8.0 / 1e3,
            sum(Counter::CallsSent),
            sum(Counter::CallsReceived),
            sum(Counter::SocketDrops),
            sum(Counter::LateStarts),
        );
        for flow in report.flows.iter().take(1) {
            println!("  {:?} buffer {:?}", flow.modes, flow.socket.get("receive_buffer"));
        }
        report.incidents.iter().for_each(|incident| println!("  {incident:?}"));
    }
    if let (Some(active), Some(passive)) = (&outcome.active, &outcome.passive) {
        ledgers("tx", active, passive);
        ledgers("rx", passive, active);
    }
}

fn ledgers(direction: &str, sender: &EngineReport, receiver: &EngineReport) {
    for sent in sender.flows.iter().filter(|flow| flow.counters[Counter::DatagramsSent] > 0) {
        for received in receiver.flows.iter().filter(|flow| flow.flow == sent.flow) {
            println!("{direction} flow {}: {:?}", sent.flow, LossLedger::reconcile(sent, received));
        }
    }
}
