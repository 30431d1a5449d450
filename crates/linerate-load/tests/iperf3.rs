//! `iperf3` against our own server: both ends count the same bytes and datagrams.

use linerate_load::engine::EngineReport;
use linerate_load::{Offer, workload};
use linerate_model::{Counter, FlowReport, IncidentKind, Nanos};
use serde_json::{Value, json};

use crate::iperf3_server::Server;
use crate::shared::{connect, endpoint, join, params, setup, start, sum};

const NOBODY: Offer = Offer { addresses: Vec::new() };

/// Runs a load of `table` with `server`, and returns the report of our end.
fn run(server: &Server, mut table: Value) -> EngineReport {
    table["server"] = server.name().into();
    let workers = connect("iperf3", "127.0.0.1", &table, &NOBODY);
    join(start(workers, Nanos::from_millis(400), Nanos::from_secs(20)))
}

/// Returns the counts of a stream that this end `sends`: here, and what the server reports.
fn counts(flow: &FlowReport, sends: bool) -> [[u64; 2]; 2] {
    let there = &flow.foreign.as_ref().expect("the server reports it").counters;
    let sent = [Counter::PayloadSent, Counter::DatagramsSent];
    let received = [Counter::PayloadReceived, Counter::DatagramsReceived];
    let (ours, theirs) = if sends { (sent, received) } else { (received, sent) };
    [ours.map(|counter| flow.counters[counter]), theirs.map(|counter| there[counter])]
}

#[test]
fn both_ends_count_the_same() {
    let server = Server::start();
    for (protocol, direction, n_tx, n_rx) in [
        ("tcp", "tx", 2, 0),
        ("tcp", "rx", 0, 2),
        ("tcp", "both", 2, 2),
        ("udp", "tx", 2, 0),
        ("udp", "rx", 0, 2),
        ("udp", "both", 2, 2),
    ] {
        let what = format!("{protocol} {direction}");
        let table = json!({
            "protocol": protocol, "direction": direction, "streams": 2, "rate": "20 Mbit/s",
        });
        let report = run(&server, table);
        assert_eq!(report.incidents, [], "{what}");
        assert_eq!(report.flows.len(), n_tx + n_rx, "{what}");
        let is_udp = protocol == "udp";
        for (place, flow) in report.flows.iter().enumerate() {
            let sends = place < n_tx;
            let [ours, theirs] = counts(flow, sends);
            println!("{what}, flow {place}: here {ours:?}, there {theirs:?}");
            // 10 Mbit/s for 0.4 s are 500,000 bytes. A busy machine may send less.
            assert!((1..1_000_000).contains(&ours[0]), "{what}: {ours:?}");
            assert_eq!(is_udp, ours[1] > 0, "{what}: {ours:?}");
            // With TCP, data is under way when the load ends.
            let is_same =
                if is_udp { ours == theirs } else { theirs[0].abs_diff(ours[0]) < 200_000 };
            assert!(is_same, "{what}: {ours:?} {theirs:?}");
            assert_eq!(flow.tcp.is_some(), !is_udp);
        }
        // What the intervals counted is what the flows counted.
        for counter in [
            Counter::PayloadSent,
            Counter::PayloadReceived,
            Counter::DatagramsSent,
            Counter::DatagramsReceived,
            Counter::SequenceAdvance,
            Counter::PayloadAcknowledged,
        ] {
            let flows: u64 = report.flows.iter().map(|flow| flow.counters[counter]).sum();
            assert_eq!(sum(&report, counter), flows, "{what}: {counter:?}");
        }
        let acknowledged = sum(&report, Counter::PayloadAcknowledged);
        assert_eq!(acknowledged > 0, !is_udp && n_tx > 0, "{what}: {acknowledged}");
        let changes = sum(&report, Counter::DelayChanges);
        assert_eq!(changes > 0, is_udp && n_rx > 0, "{what}: {changes}");
    }
}

#[test]
fn a_load_without_a_rate_fills_the_path() {
    let server = Server::start();
    for table in [json!({ "message_size": "64 KiB" }), json!({ "send": "sendfile" })] {
        let report = run(&server, table.clone());
        // Loopback carries 100 Mbit/s on any machine.
        let bytes = sum(&report, Counter::PayloadAcknowledged);
        assert!(bytes > 5_000_000, "{table}: {bytes}");
    }
}

#[test]
fn a_server_that_goes_away_is_the_reason_of_the_failure() {
    let server = Server::start();
    let table = json!({ "server": server.name(), "rate": "1 Mbit/s" });
    let workers = connect("iperf3", "127.0.0.1", &table, &NOBODY);
    let engine = start(workers, Nanos::from_secs(20), Nanos::from_secs(1));
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(server);
    let report = join(engine);
    let [incident] = &report.incidents[..] else { panic!("{:?}", report.incidents) };
    assert_eq!(incident.kind, IncidentKind::WorkerStopped);
    assert!(incident.message.contains("it ended the test"), "{incident:?}");
    assert_eq!(report.flows[0].foreign, None, "it reported nothing");
}

#[test]
fn a_trial_that_ends_before_its_barrier_frees_the_server() {
    let server = Server::with(1);
    let table = json!({ "server": server.name() });
    let held = connect("iperf3", "127.0.0.1", &table, &NOBODY);
    let (params, local) = (params(table), endpoint("127.0.0.1"));
    let refused = workload("iperf3").expect("registered").connect(&setup(&params, &local), &NOBODY);
    let Err(refused) = refused else { panic!("two tests at once") };
    assert!(refused.to_string().contains("busy with another test"), "{refused}");
    drop(held);
    let report = run(&server, json!({ "rate": "10 Mbit/s" }));
    assert_eq!(report.incidents, []);
}
