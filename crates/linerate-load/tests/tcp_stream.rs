//! `tcp_stream` over loopback: every mode, both families, both directions; what was sent has
//! arrived.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use linerate_load::engine::EngineReport;
use linerate_load::{Due, LoadError, Offer, Secret, Setup, Tally, Worker, workload};
use linerate_model::{Counter, FlowReport, IncidentKind, Nanos, Params};
use linerate_sys::clock;
use serde_json::{Value, json};

use crate::handshake::{FROM_ACTIVE, FROM_PASSIVE, admit};
use crate::shared::{
    Ends, PATIENCE, SECRET, V4, V6, all_flows_moved, endpoint, open, params, run_until, setup,
    start, sum,
};
use Counter::{
    Foreign, MessagesReceived, PayloadReceived, PayloadSent, ReceiveErrors, SendErrors, SourceWait,
};

fn tcp(params: &Value, address: &str) -> Ends {
    open("tcp_stream", address, params, |offer| offer)
}

/// Loads both ends until every flow has moved payload, in both directions if it has two.
fn run(params: &Value, address: &str) -> (EngineReport, EngineReport) {
    let is_both = params["direction"] == "both";
    run_while(|| tcp(params, address), |end| is_both && sum(end, PayloadSent) == 0)
}

/// Does the same for ends that `open` opens, one pair at a time: spinning workers of several tests
/// would starve each other.
fn run_both(open: impl FnMut() -> Ends) -> (EngineReport, EngineReport) {
    run_while(open, |_| false)
}

/// Does the same while `lacks` holds for one of the ends.
fn run_while(
    open: impl FnMut() -> Ends,
    lacks: impl Fn(&EngineReport) -> bool,
) -> (EngineReport, EngineReport) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let [active, passive] = run_until(open, |[active, passive]| {
        all_flows_moved(&[active, passive]) && ![active, passive].into_iter().any(&lacks)
    });
    (active, passive)
}

fn flow(report: &EngineReport, number: u32) -> &FlowReport {
    report.flows.iter().find(|flow| flow.flow == number).expect("every flow is reported")
}

/// Checks that everything sent by one end reached the other, by intervals, by flows and by the
/// kernel's own counters.
fn assert_balanced(sender: &EngineReport, receiver: &EngineReport, what: &Value) {
    let sent = sum(sender, PayloadSent);
    assert!(sent > 0, "{what}: nothing was sent");
    assert_eq!(sent, sum(receiver, PayloadReceived), "{what}");
    for from in sender.flows.iter().filter(|flow| flow.counters[PayloadSent] > 0) {
        let to = flow(receiver, from.flow);
        assert_eq!(from.counters[PayloadSent], to.counters[PayloadReceived], "{what}: {from:?}");
        assert_eq!((&from.local, &from.remote), (&to.remote, &to.local));
        // Proofs come on top, and the end of the stream takes a sequence number.
        let kernel = to.tcp.expect("TCP_INFO").bytes_received - to.counters[PayloadReceived];
        let proofs = [FROM_ACTIVE + 1, FROM_PASSIVE + 1];
        assert!(proofs.contains(&kernel), "{what}: {kernel} bytes beside the payload");
    }
    let by_flow: u64 = sender.flows.iter().map(|flow| flow.counters[PayloadSent]).sum();
    assert_eq!(by_flow, sent, "{what}");
    for report in [sender, receiver] {
        assert!(report.incidents.is_empty(), "{what}: {:?}", report.incidents);
        assert_eq!(sum(report, SendErrors) + sum(report, ReceiveErrors), 0, "{what}");
        let has_state = report.intervals.iter().any(|interval| !interval.flows.is_empty());
        assert!(has_state, "{what}: TCP_INFO each interval");
    }
}

#[test]
fn every_mode_delivers_what_it_sent() {
    for send in ["copy", "batch", "zerocopy", "sendfile", "splice"] {
        for receive in ["copy", "discard", "zerocopy"] {
            for wait in ["block", "spin"] {
                let what = json!({"send": send, "receive": receive, "wait": wait,
                    "message_size": "100000 B"});
                let (active, passive) = run(&what, V4);
                assert_balanced(&active, &passive, &what);
                let modes = &flow(&active, 0).modes;
                assert!(modes["send"].starts_with(send), "{modes:?}");
                assert!(flow(&passive, 0).modes["receive"].starts_with(receive));
            }
        }
    }
}

#[test]
fn a_source_with_a_rate_counts_how_long_it_had_nothing() {
    let waited = |what: Value| sum(&run(&what, V4).0, SourceWait);
    assert_eq!(waited(json!({"message_size": "4 KiB"})), 0, "memory always has something");
    // The first turn alone takes such a source several seconds.
    assert!(waited(json!({"message_size": "4 KiB", "source_rate": "100 kbit/s"})) > 0);
}

#[test]
fn messages_from_four_bytes_to_sixteen_mebibytes_go_both_families() {
    for address in [V4, V6] {
        for size in ["4 B", "64 B", "1460 B", "16 MiB"] {
            for send in ["copy", "batch"] {
                let what = json!({"message_size": size, "send": send, "socket_buffer": "256 KiB"});
                let (active, passive) = run(&what, address);
                assert_balanced(&active, &passive, &what);
                let message =
                    size.split(' ').next().expect("a number").parse::<u64>().expect("a number");
                let message = if size.ends_with("MiB") { message << 20 } else { message };
                let received = sum(&passive, PayloadReceived);
                assert_eq!(sum(&passive, MessagesReceived), received / message, "{what}");
            }
        }
    }
}

#[test]
fn data_flows_in_the_requested_direction() {
    for what in [
        json!({"direction": "rx"}),
        json!({"direction": "rx", "wait": "spin"}),
        json!({"direction": "both"}),
        json!({"direction": "both", "duplex": "one"}),
        json!({"direction": "both", "duplex": "one", "wait": "spin", "receive": "discard"}),
    ] {
        for address in [V4, V6] {
            let (active, passive) = run(&what, address);
            assert_balanced(&passive, &active, &what);
            if what["direction"] == "both" {
                assert_balanced(&active, &passive, &what);
            } else {
                assert_eq!(sum(&active, PayloadSent), 0);
            }
        }
    }
}

#[test]
fn flows_and_workers_are_free() {
    for (streams, workers) in [(4, 1), (4, 2), (5, 3), (6, 6)] {
        for direction in ["tx", "both"] {
            let what = json!({"streams": streams, "workers": workers, "direction": direction});
            let (active, passive) = run(&what, V4);
            assert_balanced(&active, &passive, &what);
            let connections = if direction == "both" { 2 * streams } else { streams };
            assert_eq!(active.flows.len(), connections, "{what}");
            let mut used: Vec<u32> = active.flows.iter().map(|flow| flow.worker).collect();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), workers, "{what}");
            let moved =
                |flow: &FlowReport| flow.counters[PayloadSent] + flow.counters[PayloadReceived];
            let mut flows = active.flows.iter().chain(&passive.flows);
            assert!(flows.all(|flow| moved(flow) > 0), "{what}: no flow starves");
        }
    }
}

#[test]
fn options_are_reported_as_requested_granted_and_at_the_end() {
    let what = json!({
        "send_buffer": "64 KiB", "receive_buffer": "128 KiB", "no_delay": true, "dscp": 46,
        "congestion": "reno",
        "mss": "1000 B", "window_clamp": "40000 B", "pacing_rate": "8 Gbit/s", "device": "lo",
    });
    let (active, passive) = run(&what, V4);
    assert_balanced(&active, &passive, &what);
    for report in [&active, &passive] {
        let socket = &flow(report, 0).socket;
        for (name, requested, granted) in [
            ("send_buffer", json!(65_536), json!(131_072)),
            ("receive_buffer", json!(131_072), json!(262_144)),
            ("no_delay", json!(true), json!(true)),
            ("dscp", json!(46), json!(46)),
            ("congestion", json!("reno"), json!("reno")),
            ("window_clamp", json!(40_000), json!(40_000)),
            ("pacing_bytes_per_second", json!(1_000_000_000), json!(1_000_000_000)),
            ("device", json!("lo"), json!("lo")),
        ] {
            let value = socket.get(name).unwrap_or_else(|| panic!("{name} is reported"));
            assert_eq!(value.requested, Some(requested), "{name}");
            assert_eq!(value.granted, Some(granted), "{name}");
        }
        assert_eq!(socket["congestion"].at_end, Some(json!("reno")));
        let mss = socket["mss"].granted.as_ref().and_then(Value::as_u64).expect("a size");
        // Timestamps take 12 of the bytes (RFC 7323 clause 3.2).
        assert!((988..=1_000).contains(&mss), "{mss}");
    }
}

#[test]
fn a_clamped_window_stays_clamped_and_no_tuning_of_the_kernel_lifts_it() {
    let clamp = 20_000;
    let (active, _) =
        run(&json!({"window_clamp": format!("{clamp} B"), "message_size": "64 KiB"}), V4);
    let advertised = flow(&active, 0).tcp.expect("TCP_INFO").send_window;
    assert!((1..=clamp).contains(&advertised), "{advertised} bytes are advertised, clamp {clamp}");
}

#[test]
fn a_receiving_call_takes_as_much_and_wakes_as_late_as_the_plan_says() {
    /// Bytes that the receiver took, and by how many calls.
    fn taken(passive: &EngineReport) -> (u64, u64) {
        let counters = &flow(passive, 0).counters;
        (counters[PayloadReceived], counters[Counter::CallsReceived])
    }
    let few = json!({"message_size": "1 KiB", "receive_size": "512 B"});
    let (active, passive) = run(&few, V4);
    assert_balanced(&active, &passive, &few);
    let (bytes, calls) = taken(&passive);
    assert!(bytes > 0 && bytes <= 512 * calls, "{bytes} B by {calls} calls");
    // A slow source: without the low-water mark each message would wake the receiver.
    let late = json!({
        "message_size": "1 KiB", "no_delay": true, "source_rate": "80 Mbit/s",
        "receive_low_water": "32 KiB",
    });
    let (active, passive) = run(&late, V4);
    assert_balanced(&active, &passive, &late);
    // Less comes only when the stream ends.
    let (bytes, calls) = taken(&passive);
    let least = calls.saturating_sub(2) * (32 << 10);
    assert!(bytes > 0 && bytes >= least, "{bytes} B by {calls} calls");
    let granted = &flow(&passive, 0).socket["receive_low_water"].granted;
    assert_eq!(*granted, Some(json!(32 << 10)));
    assert!(!flow(&active, 0).socket.contains_key("receive_low_water"), "it receives nothing");
}

#[test]
fn a_congestion_control_that_does_not_exist_is_refused_with_the_remedy() {
    let params = params(json!({"congestion": "lr-none"}));
    let local = endpoint(V4);
    let listened = workload("tcp_stream").expect("registered").listen(&setup(&params, &local));
    let error = listened.map(|_| ()).expect_err("no such congestion control").to_string();
    for part in ["lr-none", "allowed here", "modprobe"] {
        assert!(error.contains(part), "no {part} in: {error}");
    }
}

#[test]
fn a_wrong_secret_is_refused_and_strangers_are_counted() {
    let tcp_stream = workload("tcp_stream").expect("registered");
    let (params, local) = (params(json!({})), endpoint(V4));
    let mut strangers = Vec::new();
    let (active, passive) = run_both(|| {
        let listener = tcp_stream.listen(&setup(&params, &local)).expect("listen");
        let offer = listener.offer();
        let accepting = std::thread::spawn(move || listener.accept(PATIENCE.into()));
        // One stranger that stays silent, one that sends garbage, and one with the secret of
        // another session.
        strangers.push(TcpStream::connect(offer.addresses[0]).expect("connect"));
        let mut rubbish = TcpStream::connect(offer.addresses[0]).expect("connect");
        rubbish
            .write_all(b"GET / HTTP/1.1\r\nHost: www.example.org\r\nAccept: */*\r\n\r\n")
            .expect("fits");
        strangers.push(rubbish);
        let other = Setup { secret: Secret(*b"0000000000000000"), ..setup(&params, &local) };
        assert!(tcp_stream.connect(&other, &offer).is_err(), "a wrong secret is not let in");
        let active = tcp_stream.connect(&setup(&params, &local), &offer).expect("the right one is");
        [active, accepting.join().expect("no panic").expect("accept")]
    });
    assert_balanced(&active, &passive, &json!("after strangers"));
    assert!(sum(&passive, Foreign) >= 2, "{}", sum(&passive, Foreign));
}

#[test]
fn flows_that_never_come_are_an_error_with_their_number() {
    let (params, local) = (params(json!({"streams": 3})), endpoint(V4));
    let tcp_stream = workload("tcp_stream").expect("registered");
    let listener = tcp_stream.listen(&setup(&params, &local)).expect("listen");
    match listener.accept(Duration::from_millis(20).into()).map(|_| ()) {
        Err(LoadError::Incomplete { arrived: 0, expected: 3, .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// Plays a peer that opens the session by hand: proves the secret and sends the go-ahead.
fn peer_by_hand(params: &Params) -> (Vec<Box<dyn Worker>>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let offer = Offer { addresses: vec![listener.local_addr().expect("bound")] };
    let peer = std::thread::spawn(move || {
        let mut stream = listener.accept().expect("accept").0;
        admit(&mut stream, SECRET);
        stream
    });
    let local = endpoint(V4);
    let workers =
        workload("tcp_stream").expect("registered").connect(&setup(params, &local), &offer);
    (workers.expect("connect"), peer.join().expect("no panic"))
}

#[test]
fn a_peer_that_vanishes_ends_the_worker_long_before_its_time() {
    for (direction, wait, duplex) in [
        ("tx", "block", "two"),
        ("tx", "spin", "two"),
        ("rx", "block", "two"),
        ("both", "block", "one"),
    ] {
        let (workers, peer) =
            peer_by_hand(&params(json!({"direction": direction, "wait": wait, "duplex": duplex})));
        const LONG: Nanos = Nanos::from_secs(60);
        let began = clock::monotonic();
        let mut engine = start(workers, LONG, LONG);
        // Unread data in its buffer turns the close into a reset. A sender has sent some by its
        // second interval.
        let mut intervals = 0;
        while intervals < 2 && !engine.finished() {
            intervals += engine.intervals().len();
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(peer);
        let report = engine.join();
        assert!(
            clock::monotonic() - began < LONG.0,
            "{direction} {wait}: it went on without its peer"
        );
        assert_eq!(report.incidents.len(), 1, "{direction} {wait}: {:?}", report.incidents);
        assert_eq!(report.incidents[0].kind, IncidentKind::WorkerStopped);
        assert_eq!(report.flows.len(), 1);
    }
}

#[test]
fn a_silent_peer_does_not_hold_up_intervals_or_the_end() {
    for (direction, wait, duplex) in [
        ("tx", "block", "two"),
        ("rx", "block", "two"),
        ("rx", "spin", "two"),
        ("both", "block", "one"),
    ] {
        let (workers, _peer) =
            peer_by_hand(&params(json!({"direction": direction, "wait": wait, "duplex": duplex})));
        let mut engine = start(workers, Nanos::from_secs(60), Nanos(0));
        let (mut intervals, began) = (0, Instant::now());
        while intervals < 3 && began.elapsed() < PATIENCE {
            intervals += engine.intervals().len();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(
            intervals >= 3 && !engine.finished(),
            "{direction} {wait}: {intervals} intervals in {PATIENCE:?}"
        );
        let asked = Instant::now();
        engine.stop();
        let report = engine.join();
        assert!(report.incidents.is_empty() && asked.elapsed() < PATIENCE, "{direction} {wait}");
    }
}

#[test]
fn a_worker_reports_unread_data() {
    const BYTES: u64 = 50_000;
    let (mut workers, mut peer) = peer_by_hand(&params(json!({"direction": "rx"})));
    let worker = &mut workers[0];
    peer.write_all(&[7; BYTES as usize]).expect("fits the buffer");
    let due = || Due {
        operations: 1,
        intended: Nanos(0),
        gap: Nanos(0),
        until: Nanos(clock::monotonic()),
    };
    let deadline = clock::monotonic() + PATIENCE.as_nanos() as u64;
    while worker.held_bytes().expect("this kernel has the counter") < BYTES {
        assert!(clock::monotonic() < deadline, "loopback has delivered");
    }
    let mut tally = Tally::default();
    while tally.counters[PayloadReceived] < BYTES {
        worker.step(due(), &mut tally);
    }
    assert_eq!(worker.held_bytes(), Some(0));
    let mut states = Vec::new();
    worker.observe(&mut states);
    assert!(states[0].tcp.data_segments_in > 0 && states[0].tcp.receive_mss > 0, "{states:?}");
}
