//! `tcp_rr`, `udp_rr` and `tcp_crr` on loopback: every transaction is answered, lost or late, and
//! counted as such.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use linerate_load::Offer;
use linerate_load::engine::EngineReport;
use linerate_model::{Counter, Nanos};
use serde_json::{Value, json};

use crate::ground::skip;
use crate::handshake::admit;
use crate::shared::{
    PATIENCE, SECRET, SPANS_MS, V4, V6, connect, flows_sum, join, open, run_until, service, start,
    sum,
};

/// Loads both ends of `table` until some transactions are done on every flow.
fn until_done(name: &str, ip: &str, table: &Value) -> [EngineReport; 2] {
    const SOME: u64 = 4;
    let are_done = |active: &EngineReport| {
        active.flows.iter().all(|flow| flow.counters[Counter::Transactions] > SOME)
    };
    let ends = run_until(|| open(name, ip, table, |offer| offer), |[active, _]| are_done(active));
    assert!(are_done(&ends[0]), "{name} {table}: {:?}", ends[0].flows);
    ends
}

#[test]
fn requests_of_an_open_load_go_over_every_flow() {
    for (name, table) in [
        ("tcp_rr", json!({ "streams": 2, "rate": "1 kpps" })),
        ("udp_rr", json!({ "streams": 2, "rate": "1 kpps", "timeout": "20 s" })),
    ] {
        let [active, _] = until_done(name, V4, &table);
        let done: Vec<u64> =
            active.flows.iter().map(|flow| flow.counters[Counter::Transactions]).collect();
        assert!(done.iter().all(|n| n * 4 >= done.iter().sum()), "{name}: {done:?}");
    }
}

#[test]
fn closed_loops_answer_every_request() {
    for ip in [V4, V6] {
        for (name, table) in [
            ("tcp_rr", json!({})),
            (
                "tcp_rr",
                json!({ "depth": 7, "streams": 3, "workers": 2, "request_size": "100 B",
                    "response_size": "3000 B" }),
            ),
            (
                "tcp_rr",
                json!({ "request_size": "300 KiB", "response_size": "200 KiB", "depth": 2 }),
            ),
            ("tcp_rr", json!({ "wait": "spin", "depth": 2 })),
            ("udp_rr", json!({ "timeout": "20 s" })),
            (
                "udp_rr",
                json!({ "timeout": "20 s", "depth": 7, "streams": 3, "workers": 2,
                    "request_size": "100 B", "response_size": "1400 B" }),
            ),
            ("udp_rr", json!({ "timeout": "20 s", "wait": "spin", "depth": 100 })),
        ] {
            let [active, passive] = until_done(name, ip, &table);
            let done = sum(&active, Counter::Transactions);
            assert_eq!(sum(&active, Counter::TransactionsLost), 0, "{name} {table}");
            assert_eq!(flows_sum(&active, Counter::TransactionsLost), 0, "{name} {table}");
            assert_eq!(service(&active).count(), done, "{name} {table}");
            let served = Counter::MessagesReceived;
            let served = if name == "tcp_rr" { served } else { Counter::DatagramsReceived };
            // On a busy machine an answer may still be under way when the drain ends.
            let asked = done + sum(&active, Counter::OperationsOpen);
            assert!((done..=asked).contains(&sum(&passive, served)), "{name} {table}");
            assert_eq!(sum(&active, Counter::OperationsDue), asked, "{name} {table}");
        }
    }
}

#[test]
fn open_loops_keep_their_rate_and_count_from_the_intended_start() {
    for name in ["tcp_rr", "udp_rr"] {
        let table = json!({ "rate": "1 kpps", "depth": 64, "streams": 2 });
        // The next request goes to any flow with room.
        let are_done = |ends: &[EngineReport; 2]| sum(&ends[0], Counter::Transactions) > 10;
        let [active, _passive] = run_until(|| open(name, V4, &table, |offer| offer), are_done);
        let counted = |counter| sum(&active, counter);
        let [due, started, done] =
            [Counter::Intended, Counter::Started, Counter::Transactions].map(counted);
        let loaded = active.intervals.last().expect("intervals").end.as_secs_f64();
        assert!(due as f64 <= loaded * 1_000.0 + 2.0, "{name}: {due} were due in {loaded} s");
        assert!(
            done > 10 && (done..=due).contains(&started),
            "{name}: {done} done of {started} of {due}"
        );
        assert_eq!(counted(Counter::OperationsDue), due, "{name}");
        for interval in &active.intervals {
            let (service, response) =
                (interval.service.percentile(0.5), interval.response.percentile(0.5));
            assert!(response >= service, "{name}: {response:?} {service:?}");
        }
    }
}

#[test]
fn connections_have_the_requested_congestion_control_and_report_their_state() {
    let table = json!({ "congestion": "reno", "streams": 2 });
    let [active, passive] = until_done("tcp_rr", V4, &table);
    for report in [&active, &passive] {
        for flow in &report.flows {
            assert_eq!(flow.socket["congestion"].granted, Some(json!("reno")));
            assert!(flow.tcp.expect("an open connection").bytes_received > 0);
        }
        assert!(report.intervals.iter().any(|interval| interval.flows.len() == 2));
    }
}

/// Relays requests to `to` and answers to the requester. Of every ten requests it drops the first,
/// and delays the second beyond the timeout.
fn unreliable(to: SocketAddr) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    let address = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut bytes = [0; 2_048];
        let (mut client, mut n, mut pairing) = (None, 0, None);
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            if from == to {
                socket.send_to(&bytes[..length], client.expect("it asked")).expect("loopback");
                continue;
            }
            client = Some(from);
            let tag: [u8; 8] = bytes[..8].try_into().expect("a tag");
            if *pairing.get_or_insert(tag) != tag {
                n += 1;
                match n % 10 {
                    1 => continue,
                    2 => std::thread::sleep(Duration::from_millis(60)),
                    _ => {}
                }
            }
            socket.send_to(&bytes[..length], to).expect("loopback");
        }
    });
    address
}

#[test]
fn lost_and_late_responses_are_counted_separately_and_never_hang() {
    let table = json!({ "timeout": "20 ms", "request_size": "16 B", "response_size": "16 B" });
    let open_by_relay = || {
        open("udp_rr", V4, &table, |mut offer| {
            offer.addresses[1] = unreliable(offer.addresses[1]);
            offer
        })
    };
    let counted = |active: &EngineReport| {
        [Counter::Transactions, Counter::TransactionsLost, Counter::Late]
            .map(|counter| sum(active, counter))
    };
    let are_seen = |[done, lost, late]: [u64; 3]| done > 10 && lost > 4 && late > 2;
    let [active, passive] = run_until(open_by_relay, |[active, _]| are_seen(counted(active)));
    let [done, lost, late] = counted(&active);
    assert!(are_seen(counted(&active)), "{done} done, {lost} lost, {late} late");
    // Two of ten requests time out, and so may one that waits behind the delayed one.
    assert!(late <= lost, "{late} late of {lost} lost");
    assert_eq!(service(&active).lost, lost);
    assert_eq!(service(&active).count(), done + lost);
    assert!(sum(&passive, Counter::DatagramsReceived) >= done + late);
}

/// Counts of a [`dropping`] relay.
#[derive(Debug, Default)]
struct Passed {
    requests: AtomicU64,
    responses: AtomicU64,
}

/// Relays requests to `to` and answers to the requester, but drops every `nth` request and every
/// `nth` answer.
fn dropping(to: SocketAddr, nth: u64, passed: &Arc<Passed>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    let address = socket.local_addr().expect("bound");
    let passed = Arc::clone(passed);
    std::thread::spawn(move || {
        let mut bytes = [0; 2_048];
        let (mut client, mut pairing, mut responses) = (None, None, 0);
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let tag: [u8; 8] = bytes[..8].try_into().expect("a tag");
            if from == to {
                // The answer to the pairing carries the tag of the pairing.
                responses += u64::from(pairing != Some(tag));
                if pairing == Some(tag) || responses % nth != 0 {
                    socket.send_to(&bytes[..length], client.expect("it asked")).expect("loopback");
                    passed.responses.fetch_add(u64::from(pairing != Some(tag)), Ordering::Relaxed);
                }
                continue;
            }
            client = Some(from);
            let is_request = *pairing.get_or_insert(tag) != tag;
            let n =
                if is_request { passed.requests.fetch_add(1, Ordering::Relaxed) + 1 } else { 1 };
            if !is_request || n % nth != 0 {
                socket.send_to(&bytes[..length], to).expect("loopback");
            }
        }
    });
    address
}

#[test]
fn every_request_is_answered_lost_or_open_to_the_last_one() {
    for (nth, timeout_ms, depth) in
        [(2, 8, 8), (5, 40, 64), (37, 8, 8), (37, 80, 64), (7, 160, 64), (37, 160, 64)]
    {
        let timeout = format!("{timeout_ms} ms");
        let table = json!({ "timeout": timeout, "depth": depth, "request_size": "16 B",
            "response_size": "16 B" });
        let mut passed = Arc::new(Passed::default());
        let open_by_relay = || {
            passed = Arc::new(Passed::default());
            open("udp_rr", V4, &table, |mut offer| {
                offer.addresses[1] = dropping(offer.addresses[1], nth, &passed);
                offer
            })
        };
        let [active, _] =
            run_until(open_by_relay, |[active, _]| sum(active, Counter::OperationsAnswered) > nth);
        let count = |counter| sum(&active, counter);
        let (due, answered) = (count(Counter::OperationsDue), count(Counter::OperationsAnswered));
        let (lost, open) = (count(Counter::OperationsLost), count(Counter::OperationsOpen));
        let context = format!(
            "one of {nth}, {timeout_ms} ms: {due} due, {answered} answered, {lost} lost, {open} \
                open"
        );
        // Requests that are still under way to the relay arrive there.
        let patience = Instant::now() + PATIENCE;
        let at_relay = |count: &AtomicU64| count.load(Ordering::Relaxed);
        while at_relay(&passed.requests) < due && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(due, answered + lost + open, "{context}");
        assert_eq!(due, at_relay(&passed.requests), "{context}");
        assert!(answered > nth, "{context}");
        assert_eq!(answered, count(Counter::Transactions), "{context}");
        // A busy machine may answer too late. Late answers are counted separately until the end;
        // afterwards nobody sees them.
        let in_time = answered + count(Counter::Late);
        assert!(
            in_time <= at_relay(&passed.responses)
                && lost + open >= due - at_relay(&passed.responses),
            "{context}, {passed:?}"
        );
        let waited: u64 =
            active.intervals.iter().map(|one| one.carried.waited_response.count()).sum();
        assert_eq!(waited, lost + open, "the wait of each is known: {context}");
    }
}

#[test]
fn operations_without_room_in_an_open_load_are_due_and_open() {
    // Nobody answers. Of one request per millisecond two are sent, and the others never start.
    let table = json!({ "timeout": "10 s", "rate": "1 kpps", "depth": 2, "request_size": "16 B",
        "response_size": "16 B" });
    let passed = Arc::new(Passed::default());
    let ends = open("udp_rr", V4, &table, |mut offer| {
        offer.addresses[1] = dropping(offer.addresses[1], 1, &passed);
        offer
    });
    let [active, _] = ends
        .map(|workers| start(workers, Nanos::from_millis(100), Nanos::from_millis(20)))
        .map(join);
    let count = |counter| sum(&active, counter);
    assert_eq!((count(Counter::OperationsDue), count(Counter::Intended)), (100, 100));
    let (n_open, n_unstarted) =
        (count(Counter::OperationsOpen), count(Counter::OperationsUnstarted));
    assert_eq!(n_open + n_unstarted, 100);
    if n_open == 0 {
        return skip("other programs took the CPU for the whole load").unwrap_or_default();
    }
    assert_eq!(n_open, 2);
    let waited = active.intervals.last().expect("intervals").carried.waited_response.clone();
    assert_eq!(waited.count(), 100);
    // The first has waited since it was due.
    assert!(waited.buckets.last().is_some_and(|(ns, _)| *ns >= 95_000_000), "{waited:?}");
}

#[test]
fn a_peer_that_vanishes_ends_the_worker() {
    const LONG: Nanos = Nanos::from_secs(30);
    for name in ["tcp_rr", "udp_rr", "tcp_crr"] {
        for vanished in [0, 1] {
            let mut ends = open(name, V4, &json!({}), |offer| offer);
            let began = Instant::now();
            ends[vanished].clear();
            let [a, b] = ends;
            let report = join(start(if vanished == 0 { b } else { a }, LONG, Nanos(0)));
            let lasted = Nanos(began.elapsed().as_nanos() as u64);
            assert!(lasted < LONG, "{name} went on without its peer");
            assert!(!report.incidents.is_empty(), "{name}");
        }
    }
}

/// Loads both ends of `tcp_crr` until as many connections are done as it has under way at once.
fn until_connected(ip: &str, table: &Value) -> [EngineReport; 2] {
    let least = table["streams"].as_u64().unwrap_or(1);
    let ends = run_until(
        || open("tcp_crr", ip, table, |offer| offer),
        |[active, _]| sum(active, Counter::Connections) >= least,
    );
    assert!(sum(&ends[0], Counter::Connections) >= least, "{table}: {:?}", ends[0].flows);
    ends
}

#[test]
fn connections_are_opened_used_and_closed_in_every_way() {
    for ip in [V4, V6] {
        for close in ["client", "server", "reset"] {
            for table in [
                json!({ "close": close, "workers": 2 }),
                json!({ "close": close, "request_size": "200 KiB", "response_size": "300 KiB" }),
                json!({ "close": close, "rate": "200 /s", "wait": "spin" }),
                json!({ "close": close, "streams": 8, "workers": 2, "response_size": "20 KiB" }),
                json!({ "close": close, "streams": 3, "wait": "spin" }),
            ] {
                let [active, passive] = until_connected(ip, &table);
                let done = sum(&active, Counter::Connections);
                assert_eq!(sum(&active, Counter::ConnectionsFailed), 0, "{table}");
                assert_eq!(service(&active).count(), done, "{table}");
                assert!(sum(&passive, Counter::Connections) >= done, "{table}");
                assert_eq!(sum(&passive, Counter::Foreign), 0, "{table}");
            }
        }
    }
}

#[test]
fn streams_are_connections_under_way_at_once() {
    /// Time for which the server of this test keeps each connection waiting.
    const HELD: Duration = Duration::from_millis(100);
    for ip in [V4, V6] {
        let under_load = |streams: usize, span: Nanos| {
            let table = json!({ "streams": streams, "close": "server" });
            std::thread::scope(|scope| {
                let listener = std::net::TcpListener::bind((ip, 0)).expect("loopback");
                let held = Offer { addresses: vec![listener.local_addr().expect("bound")] };
                let serving = scope.spawn(move || hold(&listener, HELD));
                let active = connect("tcp_crr", ip, &table, &held);
                let report = join(start(active, span, Nanos::from_secs(2)));
                assert_eq!(sum(&report, Counter::ConnectionsFailed), 0, "{ip} {streams}");
                (serving.join().expect("no panic"), sum(&report, Counter::Connections))
            })
        };
        let most_at_once = |streams: usize| {
            let mut seen =
                SPANS_MS.map(Nanos::from_millis).into_iter().map(|span| under_load(streams, span));
            let found = seen.find(|(most, done)| *most >= streams && *done >= streams as u64);
            found.unwrap_or_else(|| panic!("{ip}: never {streams} connections at once")).0
        };
        assert_eq!([most_at_once(1), most_at_once(5)], [1, 5], "{ip}");
    }
}

/// Serves connections until the first one, the companion, has ended. Each is answered and closed
/// only after `held`. Returns the largest number of concurrent connections.
fn hold(listener: &std::net::TcpListener, held: Duration) -> usize {
    let (mut companion, _) = listener.accept().expect("loopback");
    admit(&mut companion, SECRET);
    listener.set_nonblocking(true).expect("a listener");
    companion.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
    let mut guests: Vec<(Instant, TcpStream)> = Vec::new();
    let mut most = 0;
    while !matches!(companion.read(&mut [0]), Ok(0)) {
        while let Ok((guest, _)) = listener.accept() {
            guests.push((Instant::now(), guest));
        }
        most = most.max(guests.len());
        for (_, mut guest) in guests.extract_if(.., |(since, _)| since.elapsed() > held) {
            guest.set_nonblocking(false).expect("a connection");
            guest.read_exact(&mut [0; 17]).expect("secret and request");
            guest.write_all(b"a").expect("the response");
        }
    }
    most
}

#[test]
fn connections_are_opened_with_the_requested_options_and_report_their_state() {
    for ip in [V4, V6] {
        let table = json!({
            "congestion": "reno", "mss": "600 B", "dscp": 10, "no_delay": false,
            "socket_buffer": "100 KiB", "streams": 3,
            "request_size": "3 KiB", "response_size": "5 KiB",
        });
        let [active, passive] = until_connected(ip, &table);
        for report in [&active, &passive] {
            let socket = &report.flows[0].socket;
            let granted = |name: &str| socket[name].granted.clone();
            assert_eq!(granted("congestion"), Some(json!("reno")));
            assert_eq!(granted("dscp"), Some(json!(10)));
            assert_eq!(granted("no_delay"), Some(json!(false)));
            assert_eq!(granted("send_buffer"), Some(json!(200 << 10)));
            assert_eq!(socket["mss"].requested, Some(json!(600)));
        }
        let tcp = active.flows[0].tcp.expect("connections were closed");
        let flow = active.flows[0].counters;
        assert_eq!(tcp.send_mss, 600 - 12, "{ip}: timestamps take 12 B of each segment");
        assert_eq!(tcp.bytes_received, flow[Counter::PayloadReceived], "{ip}");
        assert_eq!(tcp.bytes_sent, flow[Counter::PayloadSent], "{ip}");
        // Per connection: three segments of the handshake, and five of the request alone at that
        // segment size.
        assert!(u64::from(tcp.segments_out) >= 5 * flow[Counter::Connections], "{ip}: {tcp:?}");
        assert!(
            active.intervals.iter().all(|interval| interval.flows.is_empty()),
            "no state of lasting connections"
        );
    }
}

#[test]
fn a_connection_without_the_secret_is_dropped_and_counted() {
    let mut strangers = Vec::new();
    let open_beside = || {
        let mut address = None;
        let ends = open("tcp_crr", V4, &json!({}), |offer| {
            address = offer.addresses.first().copied();
            offer
        });
        let mut stranger = TcpStream::connect(address.expect("offered")).expect("loopback");
        stranger.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("write");
        strangers.push(stranger);
        ends
    };
    let has_refused = |[active, passive]: &[EngineReport; 2]| {
        sum(passive, Counter::Foreign) > 0 && sum(active, Counter::Connections) > 3
    };
    let [active, passive] = run_until(open_beside, has_refused);
    assert_eq!(sum(&passive, Counter::Foreign), 1);
    assert!(sum(&active, Counter::Connections) > 3);
}
