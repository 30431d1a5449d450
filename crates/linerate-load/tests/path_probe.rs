//! `path_probe` on loopback: both ends record the same datagrams, and the probe ends by itself.

use linerate_load::engine::EngineReport;
use linerate_model::{Counter, IncidentKind, Nanos, ProbeRecord};
use serde_json::json;

use crate::shared::{V4, V6, open, run, sum};

fn record(end: &EngineReport) -> &ProbeRecord {
    end.flows[0].probe.as_deref().expect("each end records")
}

#[test]
fn both_ends_record_a_probe_that_ends_by_itself() {
    for (ip, direction) in [(V4, "tx"), (V6, "rx")] {
        let table =
            json!({ "direction": direction, "max_rate": "8 Mbit/s", "max_bytes": "100 kB" });
        let [active, passive] = run(open("path_probe", ip, &table, |offer| offer), 20_000);
        let (sender, receiver) =
            if direction == "tx" { (active, passive) } else { (passive, active) };
        let (sent, received) = (record(&sender), record(&receiver));
        let phases = &sent.phases;
        let n: u64 = phases.iter().map(|phase| phase.n).sum();
        assert_eq!(n, sum(&sender, Counter::DatagramsSent), "{phases:?}");
        assert!(phases.windows(2).all(|pair| pair[0].first + pair[0].n == pair[1].first));
        assert!(
            received.series.rows().all(|(number, sent, arrived)| number < n && sent <= arrived)
        );
        assert_eq!(received.series.number.len() as u64, sum(&receiver, Counter::DatagramsReceived));
        assert!(sent.series.rows().all(|(number, sent, answered)| number < n && sent <= answered));
        assert!(sent.largest.is_some() && sent.largest <= sent.routed, "{sent:?}");
        // Loopback keeps the field of every ping, and nothing else is sent with it.
        assert_eq!((received.ecn.kept, received.ecn.total()), (phases[0].n, phases[0].n));
        let early = |end: &EngineReport| {
            end.incidents.iter().any(|incident| incident.kind == IncidentKind::WorkerStopped)
        };
        assert!(!early(&sender) && !early(&receiver), "{:?}", sender.incidents);
        assert!(sender.flows[0].counters[Counter::SendErrors] <= 1, "{:?}", sender.flows[0]);
        let last = phases.iter().map(|phase| phase.until).max().expect("phases");
        assert!(last.since(phases[0].from) < Nanos::from_secs(20));
    }
}
