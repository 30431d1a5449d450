//! Our server, and unmodified clients.

use std::process::Stdio;

use linerate_iperf3::session::{Ending, Limits};

use crate::common::{Server, has_iperf3, json};

/// Arguments of clients. Those with a length take a second or two; the others a moment.
const CLIENTS: [&str; 24] = [
    "-n 1M",
    "-n 1M -P 3",
    "-n 1M -R",
    "-t 1 --bidir",
    "-t 1 -b 20M",
    "-n 1M -l 16K",
    "-n 1M -w 128K",
    "-n 1M -M 1200",
    "-n 1M -C reno",
    "-t 1 -O 1",
    "-k 10",
    "-k 10 -R",
    "-n 1M -Z",
    "-n 1M -S 0x20",
    "-n 1M -N",
    "-t 1 -b 20M -R -P 2",
    "-u -b 20M -n 500K",
    "-u -b 20M -n 500K -P 2",
    "-u -b 20M -t 1 -R",
    "-u -b 20M -t 1 --bidir",
    "-u -b 20M -k 100 -l 1000",
    "-u -b 20M -n 500K -w 256K --udp-counters-64bit",
    "-u -b 20M -t 1 -O 1",
    "-u -b 20M -n 500K -S 0xb8 --get-server-output",
];

#[test]
fn every_client_at_once_on_one_port_gets_its_results() {
    if !has_iperf3("every_client_at_once_on_one_port_gets_its_results") {
        return;
    }
    let server = Server::start(Limits::default());
    let clients: Vec<_> = CLIENTS
        .iter()
        .map(|arguments| {
            let mut command = server.client(arguments);
            command.stdout(Stdio::piped()).spawn().expect("iperf3 starts")
        })
        .collect();
    let mut n_waiting = CLIENTS.len();
    for (client, arguments) in clients.into_iter().zip(CLIENTS) {
        let found = json(&client.wait_with_output().expect("it ran"), arguments);
        let end = &found["end"];
        for sum in ["sum_sent", "sum_received"] {
            let bytes = end[sum]["bytes"].as_f64().unwrap_or(0.0);
            assert!(bytes > 0.0, "{arguments}: {sum}: {end}");
        }
        let is_udp = arguments.contains("-u ");
        if let (false, true) = (is_udp, arguments.contains("-n 1M")) {
            // All of it, not only what the server had read when it learned of the end.
            let received = end["sum_received"]["bytes"].as_u64();
            assert!(received >= Some(1 << 20), "{arguments}: {end}");
        }
        if arguments.contains("--get-server-output") {
            let text = found["server_output_text"].as_str().unwrap_or_default();
            assert!(text.contains("datagrams lost") && text.contains("bottleneck: "), "{found}");
        }
    }
    while n_waiting > 0 {
        let record = server.ended();
        assert_eq!(record.ending, Ending::Complete, "{record:?}");
        // Of several streams, the first may have sent the whole amount.
        assert!(record.streams.iter().any(|stream| stream.bytes > 0), "{record:?}");
        n_waiting -= 1;
    }
}

#[test]
fn thirty_two_clients_at_once_are_all_served() {
    if !has_iperf3("thirty_two_clients_at_once_are_all_served") {
        return;
    }
    let server = Server::start(Limits::default());
    let of = |n: usize| if n.is_multiple_of(2) { "-n 64K" } else { "-u -n 64K -b 50M" };
    let clients: Vec<_> = (0..32)
        .map(|n| server.client(of(n)).stdout(Stdio::piped()).spawn().expect("iperf3 starts"))
        .collect();
    for (n, client) in clients.into_iter().enumerate() {
        json(&client.wait_with_output().expect("it ran"), of(n));
    }
    for _ in 0..32 {
        assert_eq!(server.ended().ending, Ending::Complete);
    }
}
