//! `udp_stream` on loopback: everything sent is accounted, whatever happens to it on the way.

mod shared;

use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use linerate_load::engine::EngineReport;
use linerate_model::{Counter, LossLedger, Nanos};
use serde_json::json;
use shared::{V4, V6, flows_sum, join, listen, open, run, start, sum};

fn ledgers(sender: &EngineReport, receiver: &EngineReport) -> Vec<LossLedger> {
    let of = |flow: u32| receiver.flows.iter().find(|report| report.flow == flow).expect("both ends report it");
    sender.flows.iter().map(|sent| LossLedger::reconcile(sent, of(sent.flow)).expect("one flow")).collect()
}

#[test]
fn every_mode_and_direction_balances_on_both_families() {
    for ip in [V4, V6] {
        for table in [
            json!({ "rate": "4 kpps", "datagram_size": "64 B" }),
            json!({ "rate": "4 kpps", "datagram_size": "24 B", "direction": "rx", "poisson": true, "gro": false }),
            json!({ "rate": "4 kpps", "direction": "both", "streams": 3, "workers": 2, "datagram_size": "200 B" }),
            json!({ "datagram_size": "64 B", "receive": "discard" }),
            json!({ "datagram_size": "1472 B", "gso": 20, "batch": 2, "wait": "spin" }),
            json!({ "datagram_size": "1000 B", "gso": 1, "batch": 1, "gro": false, "dscp": 46 }),
        ] {
            let [active, passive] = run(open("udp_stream", ip, &table, |offer| offer), 200);
            let ways = match table["direction"].as_str() {
                None => vec![(&active, &passive)],
                Some("rx") => vec![(&passive, &active)],
                _ => vec![(&active, &passive), (&passive, &active)],
            };
            for (sender, receiver) in ways {
                for ledger in ledgers(sender, receiver) {
                    assert!(ledger.unique > 0, "{table} {ledger:?}");
                    assert_eq!(ledger.sent, ledger.unique + ledger.lost() + ledger.late, "{table}");
                    assert_eq!((ledger.duplicates, ledger.late), (0, 0), "{table}");
                }
                assert_eq!(sum(sender, Counter::DatagramsSent), flows_sum(sender, Counter::DatagramsSent));
                assert_eq!(sum(receiver, Counter::DatagramsReceived), flows_sum(receiver, Counter::DatagramsReceived));
                let highest: u64 = receiver.flows.iter().map(|flow| flow.next_sequence).sum();
                assert_eq!(sum(receiver, Counter::SequenceAdvance), highest, "{table}");
                assert_eq!(sum(receiver, Counter::Foreign), 0);
            }
        }
    }
}

#[test]
fn a_rate_is_kept_and_departures_are_recorded() {
    let table = json!({ "rate": "2 kpps", "datagram_size": "100 B" });
    let [active, passive] = run(open("udp_stream", V4, &table, |offer| offer), 500);
    let sent = sum(&active, Counter::DatagramsSent);
    assert!((950..=1_050).contains(&sent), "{sent} of 1000 intended");
    let gaps: u64 = active.intervals.iter().map(|interval| interval.gap.count()).sum();
    assert!(gaps > 0 && gaps <= sent);
    assert_eq!(ledgers(&active, &passive)[0].lost(), 0);
}

/// What a relay does with the datagram of a number: how many copies it sends on.
type Fate = fn(u64) -> usize;

/// Forwards from whoever sends first to `to`; tells the numbers it saw.
fn relay(to: SocketAddr, fate: Fate) -> (SocketAddr, std::thread::JoinHandle<HashSet<u64>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.set_read_timeout(Some(Duration::from_millis(1_000))).expect("a timeout");
    let address = socket.local_addr().expect("bound");
    let running = std::thread::spawn(move || {
        let mut seen = HashSet::new();
        let mut bytes = [0; 2_048];
        let mut pairing = None;
        while let Ok((length, _)) = socket.recv_from(&mut bytes) {
            let tag: [u8; 8] = bytes[..8].try_into().expect("a tag");
            let number = u64::from_be_bytes(bytes[8..16].try_into().expect("a number"));
            // The first datagram is for pairing; its kind always passes.
            let is_pairing = *pairing.get_or_insert(tag) == tag;
            let copies = if is_pairing { 1 } else { fate(number) };
            if !is_pairing {
                seen.insert(number);
            }
            (0..copies).for_each(|_| drop(socket.send_to(&bytes[..length], to)));
        }
        seen
    });
    (address, running)
}

/// Known answers of peers-network, finding 1: iperf3 reports no loss for all but the first two.
#[test]
fn a_relay_that_drops_or_repeats_is_found_out_exactly() {
    // (fate, gap, tail, all, duplicates) for `sent` datagrams.
    type Answer = fn(u64) -> (u64, u64, u64, u64);
    let multiples = |sent: u64, of: u64| sent.div_ceil(of);
    assert_eq!(multiples(101, 100), 2);
    let cases: [(&str, Fate, Answer); 5] = [
        ("nothing", |_| 1, |_| (0, 0, 0, 0)),
        ("1 in 100", |number| usize::from(number % 100 != 0), |sent| (sent.div_ceil(100), 0, 0, 0)),
        ("the tail", |number| usize::from(number < 200), |sent| (0, sent - 200, 0, 0)),
        ("everything", |_| 0, |sent| (0, 0, sent, 0)),
        (
            "1 in 10, and another twice",
            |number| [0, 2, 1, 1, 1, 1, 1, 1, 1, 1][(number % 10) as usize],
            |sent| (sent.div_ceil(10), 0, 0, (sent + 8) / 10),
        ),
    ];
    for (what, fate, answer) in cases {
        let table = json!({ "rate": "2 kpps", "datagram_size": "64 B" });
        let mut running = None;
        let ends = open("udp_stream", V4, &table, |mut offer| {
            let (address, thread) = relay(offer.addresses[1], fate);
            offer.addresses[1] = address;
            running = Some(thread);
            offer
        });
        let [active, passive] = run(ends, 300);
        let seen = running.expect("started").join().expect("no panic");
        let ledger = ledgers(&active, &passive)[0];
        // A number just at the end of the sequence must be a whole ten, so that gap and tail are told apart as expected.
        assert_eq!(seen.len() as u64, ledger.sent, "the relay itself lost some");
        let (mut gap, mut tail, all, duplicates) = answer(ledger.sent);
        if all == 0 && tail == 0 && fate(ledger.sent - 1) == 0 {
            (gap, tail) = (gap - 1, 1);
        }
        let found = (ledger.lost_gap, ledger.lost_tail, ledger.lost_all, ledger.duplicates);
        assert_eq!(found, (gap, tail, all, duplicates), "{what}: {ledger:?}");
        assert_eq!(ledger.sent, ledger.unique + ledger.lost() + ledger.late, "{what}");
    }
}

#[test]
fn strangers_datagrams_are_counted_and_get_no_answer() {
    let table = json!({ "rate": "1 kpps", "datagram_size": "64 B" });
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let ends = open("udp_stream", V4, &table, |offer| {
        (0..5).for_each(|_| drop(stranger.send_to(&[0x55; 64], offer.addresses[1])));
        offer
    });
    let [active, passive] = run(ends, 100);
    assert_eq!(sum(&passive, Counter::Foreign), 5);
    assert_eq!(ledgers(&active, &passive)[0].lost(), 0);
    stranger.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    assert!(stranger.recv(&mut [0; 64]).is_err(), "not one datagram to an unproven address");
}

#[test]
fn a_peer_that_vanishes_ends_the_worker() {
    for vanished in [0, 1] {
        let table = json!({ "datagram_size": "64 B", "rate": "1 kpps" });
        let mut ends = open("udp_stream", V4, &table, |offer| offer);
        let began = Instant::now();
        ends[vanished].clear();
        let [a, b] = ends;
        let report = join(start(if vanished == 0 { b } else { a }, Nanos::from_secs(20), Nanos(0)));
        assert!(began.elapsed() < Duration::from_secs(5));
        assert!(!report.incidents.is_empty());
    }
}

#[test]
fn an_offer_for_other_parameters_is_refused() {
    let one = json!({});
    let offer = listen("udp_stream", V4, &one).offer();
    let (params, local) = (shared::params(json!({ "streams": 2 })), shared::endpoint(V4));
    let workload = linerate_load::workload("udp_stream").expect("registered");
    let error = workload.connect(&shared::setup(&params, &local), &offer).err().expect("one port for two flows");
    assert!(error.to_string().contains("2 addresses for 2 flows"), "{error}");
}

#[test]
fn an_offer_that_names_a_third_party_is_refused_and_nothing_is_sent_there() {
    let third = UdpSocket::bind("127.0.0.2:0").expect("loopback");
    let elsewhere = third.local_addr().expect("bound");
    for workload in ["udp_stream", "udp_rr"] {
        let (table, local) = (json!({}), shared::endpoint(V4));
        let listener = listen(workload, V4, &table);
        let mut offer = listener.offer();
        *offer.addresses.last_mut().expect("one per flow") = elsewhere;
        let params = shared::params(table);
        let kind = linerate_load::workload(workload).expect("registered");
        let refused = kind.connect(&shared::setup(&params, &local), &offer).map(|workers| workers.len());
        let refused = refused.expect_err("it sends to nobody who has not answered").to_string();
        assert!(refused.contains("127.0.0.2") && refused.contains("127.0.0.1"), "{refused}");
    }
    third.set_nonblocking(true).expect("a socket");
    assert!(third.recv(&mut [0; 64]).is_err(), "a datagram reached a third party");
}
