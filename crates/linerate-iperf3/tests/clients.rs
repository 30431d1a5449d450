//! Our server, and unmodified clients.

use std::process::{Command, Stdio};

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

/// More of iperf3 3.19 and later, which may give many datagrams to the kernel at once.
const WITH_SEGMENTATION: [&str; 3] =
    ["-u -b 50M -t 1 --gsro", "-u -b 50M -t 1 --gsro -R", "-u -b 50M -n 500K --gsro -P 2"];

/// Returns the arguments that the installed client knows.
fn known_clients() -> Vec<&'static str> {
    let help = Command::new("iperf3").arg("--help").output().expect("it is installed");
    let has_segmentation = String::from_utf8_lossy(&help.stdout).contains("--gsro");
    if !has_segmentation {
        println!("skipped: clients with --gsro: this iperf3 has no such option");
    }
    let more = WITH_SEGMENTATION.into_iter().filter(|_| has_segmentation);
    CLIENTS.into_iter().chain(more).collect()
}

#[test]
fn every_client_at_once_on_one_port_gets_its_results() {
    if !has_iperf3("every_client_at_once_on_one_port_gets_its_results") {
        return;
    }
    let server = Server::start(Limits::default());
    let known = known_clients();
    let clients: Vec<_> = known
        .iter()
        .map(|arguments| {
            let mut command = server.client(arguments);
            command.stdout(Stdio::piped()).spawn().expect("iperf3 starts")
        })
        .collect();
    let mut n_waiting = known.len();
    for (client, arguments) in clients.into_iter().zip(known) {
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
