//! The loss ledger, and where losses are found.

use linerate_analysis::{DropCause, IntervalSeries, LossPlace, Reason, study};
use linerate_model::Direction::{Sum, Tx};
use linerate_model::{Counter, Distribution, TestbedKind, Validity, metric};
use serde_json::json;

use crate::fixture::{
    campaign, datagrams, has, job, judged, near, only, samples, steady, trial, two_hosts, value,
};

#[test]
fn a_black_hole_loses_everything_and_its_goodput_is_zero() {
    let point = &judged(datagrams(1000, 0, 0));
    assert_eq!(value(point, 0, metric::LOSS_RATIO, Tx), Some(1.0));
    assert_eq!(value(point, 0, metric::GOODPUT, Tx), Some(0.0));
    let loss = &point.jobs[0].loss[0];
    assert_eq!((loss.ledger.lost_all, loss.unexplained), (5000, 5000));
    assert!(loss.balances());
    assert_eq!(point.validity, Validity::Valid, "{:?}", point.why);
}

#[test]
fn gaps_and_tails_are_told_apart_and_located() {
    let mut lossy = datagrams(1000, 990, 4970);
    lossy.jobs[0].1.flows[0].counters[Counter::SocketDrops] = 15;
    lossy.samples.push((
        "left".into(),
        samples(&[("qdisc", "drops", "eth0 tbf 1:", 4.0), ("qdisc", "drops", "eth0 fq 2:", 3.0)]),
    ));
    let point = judged(lossy);
    let loss = &point.jobs[0].loss[0];
    let ledger = &loss.ledger;
    let told = [ledger.sent, ledger.unique, ledger.lost_gap, ledger.lost_tail];
    assert_eq!(told, [5000, 4950, 20, 30]);
    assert_eq!(loss.located, [(LossPlace::SenderQueue, 20), (LossPlace::ReceiverSocket, 15)]);
    assert_eq!(loss.unexplained, 15);
    assert_eq!(
        loss.unobserved,
        [LossPlace::SenderDevice, LossPlace::ReceiverDevice, LossPlace::ReceiverBacklog]
    );
    // The first second is warm-up, and what was lost of it is not of the span.
    near(value(&point, 0, metric::LOSS_RATIO, Tx), 46.0 / 4000.0);
    for (metric, n) in [
        (metric::OPERATIONS_DUE, 4000.0),
        (metric::OPERATIONS_ANSWERED, 3954.0),
        (metric::OPERATIONS_LOST, 46.0),
        (metric::OPERATIONS_OPEN, 0.0),
    ] {
        near(value(&point, 0, metric, Tx), n);
    }
    // Four of each second's thousand are gaps, the last 30 sent are the tail.
    let series = &point.trials[0].series[&IntervalSeries::Of(metric::LOSS_RATIO)];
    assert_eq!(series.len(), 5);
    assert!(series[0].is_some_and(|ratio| (0.004..0.0041).contains(&ratio)), "{series:?}");
    near(Some(series.iter().flatten().map(|ratio| ratio * 1000.0).sum()), ledger.lost() as f64);
}

#[test]
fn what_a_device_dropped_is_located_there_by_cause_and_to_the_frame() {
    let mut lossy = datagrams(1000, 990, 5000);
    lossy.samples.push((
        String::new(),
        samples(&[
            ("device", "datagrams_dropped_full", "dut a>b", 8.0),
            ("device", "datagrams_dropped_by_order", "link a-s a>s", 2.0),
            ("device", "others_dropped_full", "dut a>b", 3.0),
            ("device", "datagrams_dropped_full", "dut b>a", 5.0),
            ("device", "datagrams_dropped_full", "other c>d", 7.0),
        ]),
    ));
    let study = study(&two_hosts(vec![lossy]));
    let loss = &only(&study).jobs[0].loss[0];
    let at = |name: &str, cause, n| (LossPlace::Device { name: name.to_owned(), cause }, n);
    assert_eq!(
        loss.located,
        [at("dut", DropCause::BufferFull, 40), at("link a-s", DropCause::ByOrder, 10)]
    );
    assert_eq!((loss.ledger.lost(), loss.unexplained), (50, 0));
    assert!(!study.overhead.samplers.contains_key(""), "devices are no samplers");
}

/// Counts of Linux 6 at a token bucket that messages of 64 datagrams fitted into: each drop was a
/// whole message, and `packets` were the datagrams that passed.
#[test]
fn a_queue_that_drops_whole_messages_is_found_by_what_passed_it() {
    let located = |messages: u64, drops: f64, passed: Option<f64>| {
        let mut lossy = datagrams(1000, 614, 5000);
        lossy.jobs[0].0.flows[0].counters[Counter::MessagesSent] = messages;
        let mut series = vec![("qdisc", "drops", "eth0 tbf 1:", drops)];
        series.extend(passed.map(|passed| ("qdisc", "packets", "eth0 tbf 1:", passed)));
        lossy.samples.push(("left".into(), samples(&series)));
        let point = judged(lossy);
        let loss = &point.jobs[0].loss[0];
        assert!(loss.balances());
        assert_eq!(
            loss.located.iter().map(|(_, n)| n).sum::<u64>() + loss.unexplained,
            loss.ledger.lost()
        );
        (loss.located.first().map_or(0, |(_, n)| *n), loss.unexplained)
    };
    for (messages, drops, passed, expected, why) in [
        (80, 6.0, Some(614.0), (1930, 0), "30 drops were 1930 datagrams"),
        (80, 6.0, Some(700.0), (1500, 430), "what passed was lost elsewhere"),
        (80, 0.0, Some(614.0), (0, 1930), "no drop, none there"),
        (80, 386.0, Some(614.0), (1930, 0), "a queue that counts each datagram"),
        (5000, 6.0, Some(614.0), (30, 1900), "messages of one datagram are counted singly"),
        (80, 6.0, None, (30, 1900), "what passed is unknown: each drop was one at least"),
    ] {
        assert_eq!(located(messages, drops, passed), expected, "{why}");
    }
}

/// Counters as Linux 6.18 changed them, each drop of the filter and the socket a message of 64
/// datagrams; `lost` of 12,800.
fn lost_at_receiver(
    lost: u64,
    drops: [u64; 2],
    counters: &[(&'static str, f64)],
) -> (Vec<(LossPlace, u64)>, u64) {
    let mut lossy = datagrams(2560, 2560 - lost / 5, 12_800);
    lossy.jobs[0].0.flows[0].counters[Counter::MessagesSent] = 200;
    let received = &mut lossy.jobs[0].1.flows[0];
    received.local = "10.0.0.2:5001".into();
    [received.counters[Counter::SocketDrops], received.counters[Counter::SocketDroppedDatagrams]] =
        drops;
    // Readings are made every second, of which the trial has five.
    let series: Vec<_> =
        counters.iter().map(|(name, total)| ("udp", *name, "ipv4", total / 5.0)).collect();
    lossy.samples.push(("right".into(), samples(&series)));
    let point = judged(lossy);
    let loss = &point.jobs[0].loss[0];
    assert!(loss.balances());
    (loss.located.clone(), loss.unexplained)
}

#[test]
fn overflow_filter_and_checksum_are_different_places_and_counted_in_datagrams() {
    use LossPlace::{ReceiverChecksum, ReceiverFilter, ReceiverSocket};
    const QUIET: [(&str, f64); 9] = [
        ("rcvbuf_errors", 0.0),
        ("in_csum_errors", 0.0),
        ("in_errors", 0.0),
        ("ip_fragments", 0.0),
        ("ip_in_receives", 200.0),
        ("ip_in_delivers", 200.0),
        ("ip_in_not_ect", 12_800.0),
        ("ip_in_ect0", 0.0),
        ("ip_in_ect1", 0.0),
    ];
    let counted = |changed: &[(&'static str, f64)]| {
        let quiet = QUIET
            .iter()
            .chain(&[("ip_in_ce", 0.0)])
            .filter(|(name, _)| !changed.iter().any(|(c, _)| c == name));
        quiet.chain(changed).copied().collect::<Vec<_>>()
    };
    let overflow = counted(&[("rcvbuf_errors", 20.0), ("in_errors", 20.0)]);
    assert_eq!(lost_at_receiver(1280, [20, 1280], &overflow), (vec![(ReceiverSocket, 1280)], 0));
    let corrupt =
        counted(&[("in_csum_errors", 1280.0), ("in_errors", 1280.0), ("ip_in_delivers", 200.0)]);
    assert_eq!(lost_at_receiver(1280, [1280, 1280], &corrupt), (vec![(ReceiverChecksum, 1280)], 0));
    let filter = counted(&[("ip_in_delivers", 180.0)]);
    assert_eq!(lost_at_receiver(1280, [0, 0], &filter), (vec![(ReceiverFilter, 1280)], 0));
    let attached = counted(&[("in_errors", 1280.0)]);
    assert_eq!(lost_at_receiver(1280, [1280, 1280], &attached), (vec![(ReceiverFilter, 1280)], 0));
    // Half was lost on the way, so that only half arrived.
    let both = counted(&[("ip_in_delivers", 160.0), ("ip_in_not_ect", 12_160.0)]);
    assert_eq!(lost_at_receiver(1280, [0, 0], &both), (vec![(ReceiverFilter, 640)], 640));
    let three = counted(&[
        ("rcvbuf_errors", 10.0),
        ("in_csum_errors", 100.0),
        ("in_errors", 110.0),
        ("ip_in_delivers", 195.0),
    ]);
    let places = vec![(ReceiverFilter, 320), (ReceiverChecksum, 100), (ReceiverSocket, 640)];
    assert_eq!(lost_at_receiver(1060, [110, 740], &three), (places, 0));
}

type Readings<'a> = &'a [(&'static str, &'static str, &'static str, f64)];

/// Counters of an IP without errors: datagrams that sockets took, and packets that IP received,
/// first as it counts them and then as their ECN field does.
fn quiet_ip(
    datagrams: f64,
    [received, by_ecn]: [f64; 2],
) -> [(&'static str, &'static str, &'static str, f64); 11] {
    [
        ("rcvbuf_errors", 0.0),
        ("in_csum_errors", 0.0),
        ("in_errors", 0.0),
        ("in_datagrams", datagrams),
        ("ip_fragments", 0.0),
        ("ip_in_receives", received),
        ("ip_in_delivers", received),
        ("ip_in_not_ect", by_ecn),
        ("ip_in_ect0", 0.0),
        ("ip_in_ect1", 0.0),
        ("ip_in_ce", 0.0),
    ]
    .map(|(name, total)| ("udp", name, "ipv4", total))
}

/// Counters as Linux 6.18 changed them on a veth pair where XDP or a backlog dropped; `lost` of
/// 12,800, in messages of 64 datagrams.
fn lost_before_ip(lost: u64, counters: Readings<'_>) -> Vec<(LossPlace, u64)> {
    lost_of_messages(64, lost, counters)
}

/// The same in messages of `size` datagrams.
fn lost_of_messages(size: u64, lost: u64, counters: Readings<'_>) -> Vec<(LossPlace, u64)> {
    let mut lossy = datagrams(2560, 2560 - lost / 5, 12_800);
    lossy.jobs[0].0.flows[0].counters[Counter::MessagesSent] = 12_800 / size;
    lossy.jobs[0].1.flows[0].counters[Counter::MessagesReceived] = (12_800 - lost).div_ceil(size);
    lossy.jobs[0].1.flows[0].local = "10.0.0.2:5001".into();
    let arrived = (12_800 - lost) as f64;
    let messages = (arrived / size as f64).ceil();
    // 40 packets of the control connection.
    let quiet = quiet_ip(messages, [messages + 40.0, arrived + 40.0]);
    let per_second = quiet
        .iter()
        .chain(counters)
        .map(|(sampler, name, of, total)| (*sampler, *name, *of, total / 5.0));
    lossy.samples.push(("right".into(), samples(&per_second.collect::<Vec<_>>())));
    let point = judged(lossy);
    let loss = &point.jobs[0].loss[0];
    assert!(loss.balances());
    loss.located.clone()
}

#[test]
fn drops_before_ip_are_counted_in_datagrams_each_at_its_place() {
    use LossPlace::{ReceiverBacklog, ReceiverDevice, ReceiverIngress};
    let passed = |n: f64| ("interface", "rx_packets", "eth0", n + 40.0);
    // 20 messages of 64, dropped by XDP: the device passed all of them up, and one packet of ARP.
    assert_eq!(lost_before_ip(1280, &[passed(201.0)]), [(ReceiverIngress, 1280)]);
    // A device that coalesces afterwards counts datagrams.
    assert_eq!(lost_before_ip(1280, &[passed(12_800.0)]), [(ReceiverIngress, 1280)]);
    // Lost on the way: the device passed up what IP received, and ARP.
    assert_eq!(lost_before_ip(1280, &[passed(182.0)]), []);
    // The backlog's drops are the device's too.
    let backlog = [
        passed(201.0),
        ("softnet", "dropped", "cpu1", 20.0),
        ("interface", "rx_dropped", "eth0", 20.0),
    ];
    assert_eq!(lost_before_ip(1280, &backlog), [(ReceiverBacklog, 1280)]);
    let both = [
        passed(190.0),
        ("softnet", "dropped", "cpu1", 10.0),
        ("interface", "rx_dropped", "eth0", 20.0),
    ];
    let places = lost_before_ip(1280, &both);
    assert_eq!(places.iter().map(|(_, n)| n).sum::<u64>(), 1280, "{places:?}");
    assert!(
        places.iter().all(|(place, n)| [ReceiverDevice, ReceiverBacklog].contains(place)
            && (636..=644).contains(n))
    );
}

/// The device's counter is read a moment before IP's: what comes in between is in one of them only.
#[test]
fn packets_between_the_readings_of_device_and_ip_hide_no_drop_at_ingress() {
    let passed = |drops: f64| [("interface", "rx_packets", "eth0", 12_745.0 + 40.0 + drops)];
    let located = |lost, drops| lost_of_messages(1, lost, &passed(drops));
    for between in [0.0, 3.0, 10.0] {
        let places = located(55, 55.0 - between);
        assert_eq!(places, [(LossPlace::ReceiverIngress, 55)], "{between} packets between");
    }
    assert_eq!(located(55, 0.0), [], "the device passed up what IP received: lost on the way");
    // Many more are missing than can hide: they were lost on the way.
    let passed = [("interface", "rx_packets", "eth0", 11_800.0 + 40.0 + 500.0)];
    assert_eq!(lost_of_messages(1, 1000, &passed), [(LossPlace::ReceiverIngress, 510)]);
}

/// As an emulated BMC counted them: its device passes up the answers of the controller, which are
/// no IP, and the controller counts its drops.
#[test]
fn control_packets_of_a_sideband_are_no_drops_at_ingress() {
    let mut lossy = datagrams(2560, 2560 - 16, 12_800);
    let (messages, answers) = (12_800.0 - 79.0, 30.0);
    lossy.jobs[0].0.flows[0].counters[Counter::MessagesSent] = 12_800;
    lossy.jobs[0].1.flows[0].counters[Counter::MessagesReceived] = 12_800 - 80;
    lossy.jobs[0].1.flows[0].local = "10.0.0.2:5001".into();
    lossy.spec.jobs[0].to.ncsi = lossy.spec.jobs[0].to.device.clone();
    let located = |dropped: f64| {
        let mut lossy = lossy.clone();
        let counted = quiet_ip(messages, [messages; 2]).into_iter().chain([
            ("interface", "rx_packets", "eth0", messages + answers),
            ("ncsi", "pass_through_dropped", "eth0", dropped),
        ]);
        let per_second = counted.map(|(sampler, name, of, total)| (sampler, name, of, total / 5.0));
        lossy.samples.push(("right".into(), samples(&per_second.collect::<Vec<_>>())));
        let point = judged(lossy);
        let loss = &point.jobs[0].loss[0];
        (loss.located.clone(), loss.unexplained)
    };
    assert_eq!(located(80.0), (vec![(LossPlace::Controller, 80)], 0));
    assert_eq!(located(0.0), (vec![], 80), "nobody counted it");
}

/// Located losses of 2,000 datagrams of 10,000, where the sender's host counted `per_second` of the
/// trial's five.
fn lost_at_sender(
    messages: u64,
    per_second: &[(&'static str, &'static str, &'static str, f64)],
) -> (Vec<(LossPlace, u64)>, u64) {
    let mut lossy = datagrams(2000, 1600, 10_000);
    lossy.jobs[0].0.flows[0].counters[Counter::MessagesSent] = messages;
    lossy.samples.push(("left".into(), samples(per_second)));
    let point = judged(lossy);
    let loss = &point.jobs[0].loss[0];
    assert!(loss.balances());
    (loss.located.clone(), loss.unexplained)
}

#[test]
fn what_left_the_socket_and_not_the_device_was_lost_between_them() {
    let counted = |others: f64, left: f64| {
        [
            ("udp", "ip_out_requests", "ipv4", 2000.0 + others),
            ("udp", "out_datagrams", "ipv4", 2000.0),
            ("interface", "tx_packets", "eth0", left),
        ]
    };
    let all = (vec![(LossPlace::SenderOutput, 2000)], 0);
    assert_eq!(lost_at_sender(10_000, &counted(0.0, 1600.0)), all);
    // 30 packets a second of a control connection, and one of ARP.
    assert_eq!(lost_at_sender(10_000, &counted(30.0, 1631.0)), all);
    // Lost behind the device, and others left by another device.
    for others in [30.0, 900.0] {
        let found = lost_at_sender(10_000, &counted(others, 2030.0));
        assert_eq!(found, (vec![], 2000), "{others} others");
    }
    // Messages of ten datagrams each, which the device counts as one or divides.
    let messages = |left: f64| {
        [
            ("udp", "ip_out_requests", "ipv4", 230.0),
            ("udp", "out_datagrams", "ipv4", 200.0),
            ("interface", "tx_packets", "eth0", left),
        ]
    };
    assert_eq!(lost_at_sender(1000, &messages(190.0)), all);
    let divided = lost_at_sender(1000, &messages(1630.0));
    assert_eq!(divided, (vec![], 2000), "not known of a device that divides them");
    // Datagrams that the queue dropped were not lost before it.
    let queue =
        [counted(30.0, 1630.0).to_vec(), vec![("qdisc", "drops", "eth0 tbf 1:", 400.0)]].concat();
    assert_eq!(lost_at_sender(10_000, &queue), (vec![(LossPlace::SenderQueue, 2000)], 0));
}

#[test]
fn datagrams_whose_fragments_do_not_fit_are_lost_at_reassembly() {
    use LossPlace::ReceiverReassembly;
    let counters = |failures: f64| {
        [
            ("rcvbuf_errors", 0.0),
            ("in_csum_errors", 0.0),
            ("in_errors", 0.0),
            ("ip_fragments", 38_400.0),
            ("ip_reassembly_failures", failures),
        ]
    };
    // Three fragments each, of which all are refused.
    let located = lost_at_receiver(1280, [0, 0], &counters(3840.0));
    assert_eq!(located, (vec![(ReceiverReassembly, 1280)], 0));
    assert_eq!(lost_at_receiver(1280, [0, 0], &counters(0.0)), (vec![], 1280));
}

/// A tunnel counts a drop of the queue below it as its own.
#[test]
fn a_drop_below_a_tunnel_is_the_queues_and_counted_once() {
    let tunnel = json!({ "interfaces": {
        "vx0": { "kind": "vxlan", "mtu": 1450, "lower": ["eth0"],
            "tunnel": { "header_bytes": 50 } },
        "eth0": { "kind": "device", "mtu": 1500, "lower": [] } } });
    let mut lossy = datagrams(2000, 1600, 10_000);
    lossy.spec.jobs[0].from.device = Some("vx0".into());
    let series = [
        ("qdisc", "drops", "eth0 tbf 1:", 200.0),
        ("interface", "tx_dropped", "vx0", 300.0),
        ("interface", "tx_dropped", "eth0", 40.0),
    ];
    lossy.samples.push(("left".into(), samples(&series)));
    let study = study(&campaign(TestbedKind::Hosts, [tunnel, json!({})], vec![lossy]));
    let loss = &only(&study).jobs[0].loss[0];
    assert_eq!(loss.located, [(LossPlace::SenderQueue, 1000), (LossPlace::SenderDevice, 500)]);
    assert_eq!(loss.unexplained, 500);
}

#[test]
fn a_ledger_that_does_not_balance_invalidates_the_trial() {
    let point = &judged(datagrams(1000, 1001, 5000));
    assert_eq!(point.validity, Validity::Invalid);
    assert!(
        has(&point.why, |why| matches!(why, Reason::LossesUnbalanced { .. })),
        "{:?}",
        point.why
    );
    assert!(point.jobs[0].metrics.is_empty());
}

#[test]
fn lost_requests_are_losses_and_infinitely_slow() {
    let mut trial = trial(0, vec![job("udp_rr", "a", "b")]);
    let mut active = steady(&[
        (Counter::Transactions, 900),
        (Counter::TransactionsLost, 100),
        (Counter::PayloadSent, 1),
    ]);
    for interval in &mut active.intervals {
        interval.response = Distribution {
            buckets: vec![(1_000, 800), (2_000, 100)],
            lost: 100,
            ..Distribution::default()
        }
        .into();
    }
    trial.jobs[0] = (active, steady(&[(Counter::PayloadReceived, 900)]));
    let point = &judged(trial);
    near(value(point, 0, metric::TRANSACTION_RATE, Sum), 900.0);
    near(value(point, 0, metric::LOSS_RATIO, Sum), 0.1);
    near(value(point, 0, metric::RESPONSE_TIME_P50, Sum), 1e-6);
    near(value(point, 0, metric::RESPONSE_TIME_P90, Sum), 2e-6);
    assert_eq!(value(point, 0, metric::RESPONSE_TIME_P99, Sum), Some(f64::INFINITY));
    assert_eq!(value(point, 0, metric::RESPONSE_TIME_MAX, Sum), Some(f64::INFINITY));
    // 4000 operations are too few for it.
    assert_eq!(value(point, 0, metric::RESPONSE_TIME_P9999, Sum), None);
    assert_eq!(point.jobs[0].response.count(), 4000);
}
