//! `udp_stream` on loopback: every sent datagram is accounted for, whatever happens to it on the
//! way.

use std::collections::{BTreeMap, HashSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use linerate_load::engine::EngineReport;
use linerate_model::{Counter, LossLedger, Nanos};
use serde_json::{Value, json};

use crate::shared::{
    self, V4, V6, flows_sum, join, ledgers, listen, open, run_lossy_until, start, sum, ways,
};

/// Loads the ends of `table` on loopback until every flow has carried something in each requested
/// direction.
fn carried(ip: &str, table: &Value) -> [EngineReport; 2] {
    run_lossy_until(
        || open("udp_stream", ip, table, |offer| offer),
        |ends| {
            ways(table, ends).iter().all(|[sender, receiver]| {
                carried_on_all(sender, receiver) && is_counted_by_departure(sender, receiver)
            })
        },
    )
}

fn carried_on_all(sender: &EngineReport, receiver: &EngineReport) -> bool {
    ledgers(sender, receiver).iter().all(|ledger| ledger.unique > 0)
}

/// Returns true if both ends counted every datagram in the sender's interval of its scheduled
/// departure, and no datagram arrived that was not sent.
fn is_counted_by_departure(sender: &EngineReport, receiver: &EngineReport) -> bool {
    let mut counts: BTreeMap<u64, i64> = BTreeMap::new();
    let departures = sender.intervals.iter().flat_map(|interval| &interval.departures.buckets);
    let arrivals = receiver.intervals.iter().flat_map(|interval| &interval.arrivals.buckets);
    departures.clone().for_each(|(start, n)| *counts.entry(*start).or_default() += *n as i64);
    arrivals.clone().for_each(|(start, n)| *counts.entry(*start).or_default() -= *n as i64);
    let [sent, come] =
        [departures.map(|(_, n)| n).sum::<u64>(), arrivals.map(|(_, n)| n).sum::<u64>()];
    let known = sum(receiver, Counter::DatagramsReceived) + sum(receiver, Counter::Late);
    (sent, come) == (sum(sender, Counter::DatagramsSent), known)
        && counts.values().all(|missing| *missing >= 0)
}

#[test]
fn every_mode_and_direction_balances_on_both_families() {
    for ip in [V4, V6] {
        for table in [
            json!({ "rate": "4 kpps", "datagram_size": "64 B" }),
            json!({ "rate": "4 kpps", "datagram_size": "24 B", "direction": "rx",
                "poisson": true, "gro": false }),
            json!({ "rate": "4 kpps", "direction": "both", "streams": 3, "workers": 2,
                "datagram_size": "200 B" }),
            json!({ "datagram_size": "64 B", "receive": "discard" }),
            json!({ "datagram_size": "1472 B", "gso": 20, "batch": 2, "wait": "spin" }),
            json!({ "datagram_size": "1000 B", "gso": 1, "batch": 1, "gro": false, "dscp": 46 }),
        ] {
            let ends = carried(ip, &table);
            for [sender, receiver] in ways(&table, &ends) {
                for ledger in ledgers(sender, receiver) {
                    assert!(ledger.unique > 0, "{table} {ledger:?}");
                    assert_eq!(ledger.sent, ledger.unique + ledger.lost() + ledger.late, "{table}");
                    assert_eq!((ledger.duplicates, ledger.late), (0, 0), "{table}");
                }
                assert_eq!(
                    sum(sender, Counter::DatagramsSent),
                    flows_sum(sender, Counter::DatagramsSent)
                );
                assert_eq!(
                    sum(receiver, Counter::DatagramsReceived),
                    flows_sum(receiver, Counter::DatagramsReceived)
                );
                // Three independent counts of the same datagrams: by interval, by flow and by
                // sequence.
                let highest: u64 = receiver.flows.iter().map(|flow| flow.next_sequence).sum();
                assert_eq!(sum(receiver, Counter::SequenceAdvance), highest, "{table}");
                assert_eq!(sum(receiver, Counter::Foreign), 0);
            }
        }
    }
}

#[test]
fn a_rate_is_kept_and_departures_are_recorded() {
    const RATE: f64 = 2_000.0;
    let table = json!({ "rate": "2 kpps", "datagram_size": "100 B" });
    let gaps = |active: &EngineReport| {
        active.intervals.iter().map(|interval| interval.gap.count()).sum::<u64>()
    };
    let ends = run_lossy_until(
        || open("udp_stream", V4, &table, |offer| offer),
        |[active, _]| gaps(active) > 0,
    );
    let [active, passive] = &ends;
    let sent = sum(active, Counter::DatagramsSent);
    // One datagram every 0.5 ms from the start of the load on; the last one may not be due any
    // more.
    let due = sum(active, Counter::Intended);
    assert!(
        due > 0
            && due as f64
                <= active.intervals.last().expect("intervals").end.as_secs_f64() * RATE + 1.0
    );
    assert!(sent == sum(active, Counter::Started) && sent <= due, "{sent} sent of {due}");
    assert!((1..=sent).contains(&gaps(active)), "{} gaps", gaps(active));
    // On a busy machine the receiver may get no CPU for longer than its socket can buffer.
    assert_eq!(ledgers(active, passive)[0].lost(), flows_sum(passive, Counter::SocketDrops));
}

/// Fate of a datagram in a relay, by its number: how many copies are forwarded.
type Fate = fn(u64) -> usize;

/// Forwards from the first sender to `to`. After `is_over` is dropped and nothing more arrives, it
/// returns the numbers that it saw.
fn relay(
    to: SocketAddr,
    fate: Fate,
    is_over: Weak<()>,
) -> (SocketAddr, std::thread::JoinHandle<HashSet<u64>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    let address = socket.local_addr().expect("bound");
    let running = std::thread::spawn(move || {
        let mut seen = HashSet::new();
        let mut bytes = [0; 2_048];
        let mut pairing = None;
        loop {
            // Read before the socket is: everything sent before the end is then in it.
            let is_last = is_over.strong_count() == 0;
            let Ok((length, _)) = socket.recv_from(&mut bytes) else {
                if is_last {
                    break;
                }
                continue;
            };
            let tag: [u8; 8] = bytes[..8].try_into().expect("a tag");
            let number = u64::from_be_bytes(bytes[8..16].try_into().expect("a number"));
            // The first datagram is for pairing; datagrams of this kind always pass.
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

/// Known answers: a relay with known losses and duplicates. iperf3 reports no loss in all cases but
/// the first two.
#[test]
fn a_relay_that_drops_or_repeats_is_measured_exactly() {
    /// Number of datagrams that arrive before all others are dropped.
    const TAIL: u64 = 50;
    // (fate, gap, tail, all, duplicates) for `sent` datagrams.
    type Answer = fn(u64) -> (u64, u64, u64, u64);
    let cases: [(&str, Fate, Answer); 5] = [
        ("nothing", |_| 1, |_| (0, 0, 0, 0)),
        ("1 in 40", |number| usize::from(number % 40 != 0), |sent| (sent.div_ceil(40), 0, 0, 0)),
        ("the tail", |number| usize::from(number < TAIL), |sent| (0, sent - TAIL, 0, 0)),
        ("everything", |_| 0, |sent| (0, 0, sent, 0)),
        (
            "1 in 10, and another twice",
            |number| [0, 2, 1, 1, 1, 1, 1, 1, 1, 1][(number % 10) as usize],
            |sent| (sent.div_ceil(10), 0, 0, (sent + 8) / 10),
        ),
    ];
    for (what, fate, answer) in cases {
        // So slow that a relay without a CPU for a long time still has room for waiting datagrams.
        let table = json!({ "rate": "500 pps", "datagram_size": "64 B" });
        let mut running = None;
        let open_by_relay = || {
            open("udp_stream", V4, &table, |mut offer| {
                let under_way = Arc::new(());
                let (address, thread) = relay(offer.addresses[1], fate, Arc::downgrade(&under_way));
                offer.addresses[1] = address;
                running = Some((under_way, thread));
                offer
            })
        };
        let is_found = |ledger: &LossLedger| {
            let (mut gap, mut tail, all, duplicates) = answer(ledger.sent);
            // A dropped datagram at the very end of the sequence belongs to the tail.
            if all == 0 && tail == 0 && fate(ledger.sent - 1) == 0 {
                (gap, tail) = (gap - 1, 1);
            }
            (ledger.lost_gap, ledger.lost_tail, ledger.lost_all, ledger.duplicates)
                == (gap, tail, all, duplicates)
        };
        // Datagrams that a relay without a CPU still holds at the end of the drain have not
        // arrived. The next load drains for longer.
        let [active, passive] = run_lossy_until(open_by_relay, |[active, passive]| {
            let ledger = ledgers(active, passive)[0];
            ledger.sent > 2 * TAIL && is_found(&ledger)
        });
        let (under_way, thread) = running.expect("started");
        drop(under_way);
        let seen = thread.join().expect("no panic");
        let ledger = ledgers(&active, &passive)[0];
        assert_eq!(seen.len() as u64, ledger.sent, "the relay itself lost some");
        assert!(ledger.sent > 2 * TAIL && is_found(&ledger), "{what}: {ledger:?}");
        assert_eq!(ledger.sent, ledger.unique + ledger.lost() + ledger.late, "{what}");
    }
}

#[test]
fn datagrams_of_strangers_are_counted_and_get_no_answer() {
    let table = json!({ "rate": "1 kpps", "datagram_size": "64 B" });
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let open_beside = || {
        open("udp_stream", V4, &table, |offer| {
            (0..5).for_each(|_| drop(stranger.send_to(&[0x55; 64], offer.addresses[1])));
            offer
        })
    };
    let [active, passive] =
        run_lossy_until(open_beside, |[active, passive]| carried_on_all(active, passive));
    assert_eq!(sum(&passive, Counter::Foreign), 5);
    assert_eq!(ledgers(&active, &passive)[0].lost(), flows_sum(&passive, Counter::SocketDrops));
    stranger.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    assert!(stranger.recv(&mut [0; 64]).is_err(), "not one datagram to an unproven address");
}

#[test]
fn a_peer_that_vanishes_ends_the_worker() {
    const LONG: Nanos = Nanos::from_secs(30);
    for vanished in [0, 1] {
        let table = json!({ "datagram_size": "64 B", "rate": "1 kpps" });
        let mut ends = open("udp_stream", V4, &table, |offer| offer);
        let began = Instant::now();
        ends[vanished].clear();
        let [a, b] = ends;
        let report = join(start(if vanished == 0 { b } else { a }, LONG, Nanos(0)));
        assert!(Nanos(began.elapsed().as_nanos() as u64) < LONG, "it went on without its peer");
        assert!(!report.incidents.is_empty());
    }
}

#[test]
fn an_offer_for_other_parameters_is_refused() {
    let one = json!({});
    let offer = listen("udp_stream", V4, &one).offer();
    let (params, local) = (shared::params(json!({ "streams": 2 })), shared::endpoint(V4));
    let workload = linerate_load::workload("udp_stream").expect("registered");
    let error = workload
        .connect(&shared::setup(&params, &local), &offer)
        .err()
        .expect("one port for two flows");
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
        let refused =
            kind.connect(&shared::setup(&params, &local), &offer).map(|workers| workers.len());
        let refused = refused.expect_err("it sends to nobody who has not answered").to_string();
        assert!(refused.contains("127.0.0.2") && refused.contains("127.0.0.1"), "{refused}");
    }
    third.set_nonblocking(true).expect("a socket");
    assert!(third.recv(&mut [0; 64]).is_err(), "a datagram reached a third party");
}
