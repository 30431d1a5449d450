//! `frames` by AF_XDP and live frames, over a veth pair between two namespaces: every sent frame is
//! accounted for, and the actual mode is reported. Runs as root; otherwise skipped with a message.

#[path = "../../linerate-sys/tests/shared/mod.rs"]
pub(crate) mod veth;

use Counter::{
    DatagramsSent, Foreign, PayloadReceived, PayloadSent, Reflected, SendDrops, SocketDrops,
    WouldBlock,
};
use linerate_load::engine::EngineReport;
use linerate_load::{LoadError, Worker};
use linerate_model::{Counter, FlowReport, Interval, LossLedger};
use linerate_sys::xdp::{Copying, Options, XdpSocket};
use serde_json::{Value, json};
use veth::Pair;

use crate::shared::{self, Ends, PATIENCE, flows_sum, run_lossy_until, sum, ways};

const ADDRESSES: [&str; 2] = ["10.98.0.1", "10.98.0.2"];

fn pair(n_queues: u32, mtu: u32) -> Option<Pair> {
    let pair = Pair::new(n_queues, mtu)?;
    (0..2).for_each(|end| pair.ip(end, &format!("address add {}/24 dev lr0", ADDRESSES[end])));
    Some(pair)
}

type Tried = [Result<Vec<Box<dyn Worker>>, LoadError>; 2];

/// Opens both ends, each in its namespace; active first.
fn open(pair: &Pair, table: &Value) -> Tried {
    let listener = pair.at(1, || shared::listen("frames", ADDRESSES[1], table));
    let offer = listener.offer();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| pair.at(1, || listener.accept(PATIENCE.into())));
        let active = pair.at(0, || {
            let (params, local) = (shared::params(table.clone()), shared::endpoint(ADDRESSES[0]));
            linerate_load::workload("frames")
                .expect("registered")
                .connect(&shared::setup(&params, &local), &offer)
        });
        [active, accepting.join().expect("no panic")]
    })
}

/// Returns the reasons of the ends that refuse.
fn refusals(pair: &Pair, table: &Value) -> Vec<String> {
    open(pair, table).into_iter().filter_map(Result::err).map(|error| error.to_string()).collect()
}

fn mode<'a>(report: &'a EngineReport, half: &str) -> &'a str {
    report.flows[0].modes.get(half).map_or("", String::as_str)
}

/// Runs `table` and checks that every frame is accounted for; returns active and passive.
fn accounted(pair: &Pair, table: &Value) -> [EngineReport; 2] {
    // A drain that ends while frames wait at a receiver without a CPU was too short.
    let carried = |ends: &[EngineReport; 2]| {
        ways(table, ends).into_iter().all(|[sender, receiver]| {
            let ledgers = sender.flows.iter().map(|sent| ledger(sent, receiver));
            let ledgers: Vec<LossLedger> = ledgers.collect();
            let lost: u64 = ledgers.iter().map(LossLedger::lost).sum();
            ledgers.iter().all(|ledger| ledger.unique > SOME)
                && lost == flows_sum(receiver, SocketDrops)
        })
    };
    let ends = run_lossy_until(|| opened(pair, table), carried);
    for [sender, receiver] in ways(table, &ends) {
        let mut lost = 0;
        for sent in &sender.flows {
            let ledger = ledger(sent, receiver);
            assert!(ledger.unique > SOME, "{table} {ledger:?}");
            assert_eq!(ledger.sent, ledger.unique + ledger.lost() + ledger.late, "{table}");
            assert_eq!((ledger.duplicates, ledger.late, ledger.reordered), (0, 0, 0), "{table}");
            lost += ledger.lost();
        }
        assert_eq!(
            lost,
            flows_sum(receiver, SocketDrops),
            "{table}: missing frames were dropped by the receiver"
        );
        assert_eq!(sum(sender, DatagramsSent), flows_sum(sender, DatagramsSent), "{table}");
        assert_eq!(sum(sender, PayloadSent), flows_sum(sender, PayloadSent), "{table}");
        assert_eq!((sum(receiver, Foreign), sum(receiver, Reflected)), (0, 0), "{table}");
        if lost == 0 {
            assert_eq!(sum(sender, PayloadSent), sum(receiver, PayloadReceived), "{table}");
        }
    }
    ends
}

/// Number of frames after which most of a flow is past its beginning.
const SOME: u64 = 50;

/// Returns the loss account of the flow `sent`.
fn ledger(sent: &FlowReport, receiver: &EngineReport) -> LossLedger {
    let received =
        receiver.flows.iter().find(|report| report.flow == sent.flow).expect("both report it");
    LossLedger::reconcile(sent, received).expect("one flow")
}

/// Opens both ends, which must succeed.
fn opened(pair: &Pair, table: &Value) -> Ends {
    open(pair, table).map(|end| end.unwrap_or_else(|why| panic!("{table}: {why}")))
}

#[test]
fn every_frame_is_accounted_in_every_mode_shape_and_direction() {
    let Some(pair) = pair(1, 9000) else { return };
    for (table, sent_by, received_by) in [
        (json!({ "mode": "xdp", "rate": "4 kpps" }), "AF_XDP, copy, queue 0", "native, copy"),
        (json!({ "mode": "xdp", "frame_size": "1518 B", "direction": "rx" }), "AF_XDP", "native"),
        (
            json!({ "mode": "xdp_generic", "rate": "4 kpps", "frame_size": "imix", "streams": 3 }),
            "AF_XDP",
            "generic",
        ),
        (
            json!({ "mode": "xdp_copy", "rate": "4 kpps", "frame_size": "9018 B" }),
            "copy",
            "native, copy",
        ),
        (
            json!({ "mode": "xdp", "rate": "4 kpps", "ports": "random", "streams": 3,
                "wait": "spin" }),
            "AF_XDP",
            "native",
        ),
        (
            json!({ "mode": "xdp", "rate": "4 kpps", "vlan": 7, "frame_size": "68 B" }),
            "AF_XDP",
            "native",
        ),
        (
            json!({ "mode": "xdp", "rate": "4 kpps", "direction": "both", "streams": 2,
                "frame_size": "imix" }),
            "AF_XDP, copy, queue 0",
            "native, copy",
        ),
        (
            json!({ "mode": "xdp_generic", "rate": "4 kpps", "direction": "both" }),
            "AF_XDP",
            "generic",
        ),
        (json!({ "mode": "live" }), "live: made by the kernel", "native"),
        (
            json!({ "mode": "live", "rate": "40 kpps", "streams": 2, "ports": "random",
                "frame_size": "imix" }),
            "live",
            "native",
        ),
        (
            json!({ "mode": "live", "rate": "40 kpps", "streams": 5, "frame_size": "imix" }),
            "live",
            "native",
        ),
        (
            json!({ "mode": "live", "rate": "10 kpps", "direction": "both", "header": "tcp",
                "frame_size": "80 B" }),
            "live",
            "native",
        ),
        (json!({ "mode": "auto" }), "live", "native"),
        (json!({ "mode": "auto", "rate": "4 kpps" }), "packet: through", "packet: receive ring"),
    ] {
        let [active, passive] = accounted(&pair, &table);
        let (sender, receiver) =
            if table["direction"] == "rx" { (&passive, &active) } else { (&active, &passive) };
        assert!(mode(sender, "send").contains(sent_by), "{table}: {}", mode(sender, "send"));
        assert!(
            mode(receiver, "receive").contains(received_by),
            "{table}: {}",
            mode(receiver, "receive")
        );
    }
}

#[test]
fn every_queue_is_read() {
    let Some(pair) = pair(2, 1500) else { return };
    // One worker reads both queues.
    for direction in ["tx", "both"] {
        let table =
            json!({ "mode": "xdp", "rate": "8 kpps", "streams": 4, "direction": direction });
        let [_, passive] = accounted(&pair, &table);
        assert!(mode(&passive, "receive").contains("2 queue(s)"), "{}", mode(&passive, "receive"));
    }
}

/// A frame on a queue of a veth arrives at the peer's queue of the same number, so each worker
/// reads its own flows. With live frames the sending CPU determines the queue, so a worker may also
/// receive the flows of others.
#[test]
fn workers_share_the_queues_and_account_for_every_frame_on_any_queue() {
    let Some(pair) = pair(2, 1500) else { return };
    for table in [
        json!({ "mode": "xdp", "rate": "8 kpps", "streams": 4, "workers": 2 }),
        json!({ "mode": "xdp", "streams": 2, "workers": 2, "direction": "rx" }),
        json!({ "mode": "xdp_generic", "rate": "8 kpps", "streams": 3, "workers": 2,
            "direction": "both" }),
        json!({ "mode": "xdp", "rate": "8 kpps", "streams": 4, "workers": 2, "ports": "random" }),
        json!({ "mode": "live", "rate": "20 kpps", "streams": 4, "workers": 2 }),
    ] {
        let [active, passive] = accounted(&pair, &table);
        let receiver = if table["direction"] == "rx" { &active } else { &passive };
        assert!(
            mode(receiver, "receive").contains("1 queue(s) a worker"),
            "{table}: {}",
            mode(receiver, "receive")
        );
        let workers: Vec<u32> = receiver.flows.iter().map(|flow| flow.worker).collect();
        assert!(workers.contains(&0) && workers.contains(&1), "{workers:?}");
    }
}

#[test]
fn a_queue_in_use_and_workers_without_a_queue_are_refused_before_any_frame() {
    let Some(pair) = pair(2, 1500) else { return };
    let said = |table: &Value| refusals(&pair, table);
    let three = said(&json!({ "mode": "xdp", "streams": 3, "workers": 3 }));
    assert!(
        three.iter().any(|said| said.contains("each needs a queue of its own, and it has 2")),
        "{three:?}"
    );
    let options = Options {
        queue: 1,
        copying: Copying::Copy,
        frame_bytes: 1514,
        n_transmit: 0,
        n_receive: 64,
    };
    let taken = pair.at(1, || XdpSocket::open("lr0", options)).expect("queue 1 is free");
    let busy = said(&json!({ "mode": "xdp", "streams": 2, "workers": 2 }));
    assert!(
        busy.iter().any(|said| said.contains("queue 1 of lr0") && said.contains("ss --xdp")),
        "{busy:?}"
    );
    drop(taken);
    accounted(&pair, &json!({ "mode": "xdp", "rate": "4 kpps", "streams": 2, "workers": 2 }));
}

/// Shapes the sending end's interface.
fn shape(pair: &Pair, how: &str) {
    let tc = format!("tc -n {} qdisc", pair.name(0));
    // Frames that an earlier run has queued would delay the next connection for minutes. The first
    // time there is nothing to delete.
    let _deleted = veth::host::tried(&format!("{tc} del dev lr0 root"));
    veth::host::ran(&format!("{tc} add dev lr0 root tbf {how}"));
}

/// A queue of 100 MB has room for everything that a socket of 16 MiB may send, so the socket is
/// the full part and nobody drops a frame; with one of 20 kB it is the other way round.
#[test]
fn frames_for_which_a_socket_has_no_room_are_unsent_and_not_dropped() {
    let Some(pair) = pair(1, 1500) else { return };
    let table = json!({ "mode": "packet", "frame_size": "1518 B" });
    for (limit, full, other) in [("100mb", WouldBlock, SendDrops), ("20kb", SendDrops, WouldBlock)]
    {
        let [active, _] = run_lossy_until(
            || {
                shape(&pair, &format!("rate 1mbit burst 10kb limit {limit}"));
                opened(&pair, &table)
            },
            |[active, _]| sum(active, full) > 0,
        );
        let counted = [full, other].map(|counter| sum(&active, counter));
        assert!(counted[0] > 0 && counted[1] == 0, "{limit}: {full:?} and {other:?}: {counted:?}");
    }
}

#[test]
fn a_shaper_at_the_interface_is_not_bypassed_by_default() {
    let Some(pair) = pair(1, 1500) else { return };
    shape(&pair, "rate 10mbit burst 10kb limit 20kb");
    let [active, _] = accounted(&pair, &json!({}));
    assert!(mode(&active, "send").contains("packet: through"), "{}", mode(&active, "send"));
}

#[test]
fn an_impossible_request_is_refused_before_any_frame() {
    let Some(pair) = pair(1, 1500) else { return };
    let said = refusals(&pair, &json!({ "mode": "xdp_zero_copy" }));
    assert!(said.iter().any(|said| said.contains("requires copying")), "{said:?}");
}

#[test]
fn frames_that_the_driver_refuses_do_not_count_as_sent() {
    let Some(pair) = pair(1, 1500) else { return };
    let [active, passive] =
        open(&pair, &json!({ "mode": "live" })).map(|end| end.expect("the peer has a program"));
    // The receiver goes, and with it the peer's program.
    drop(passive);
    let mut engine =
        shared::start(active, linerate_model::Nanos::from_secs(60), linerate_model::Nanos(0));
    let mut taken = Vec::new();
    while !engine.finished()
        && taken.iter().all(|interval: &Interval| interval.counters[SendDrops] == 0)
    {
        std::thread::sleep(std::time::Duration::from_millis(5));
        taken.extend(engine.intervals());
    }
    engine.stop();
    let mut active = engine.join();
    active.intervals.extend(taken);
    assert_eq!((sum(&active, DatagramsSent), flows_sum(&active, DatagramsSent)), (0, 0));
    assert!(sum(&active, SendDrops) > 0);
}
