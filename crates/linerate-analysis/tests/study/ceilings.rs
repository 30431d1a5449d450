//! Bounds of figures, and the treatment of figures above one.

use linerate_analysis::{
    IntervalSeries, NoRate, Rateless, Reason, Unbounded, planned_ceiling, study,
};
use linerate_model::Direction::{Rx, Tx};
use linerate_model::{
    BitRate, Campaign, Capacity, CeilingScope, Counter, Counters, Direction, FlowReport, TcpState,
    TestbedKind, Validity, metric,
};
use serde_json::{Value, json};

use crate::fixture::{
    SECONDS, campaign, datagrams, gigabit, has, job, near, only, steady, stream, trial, two_hosts,
    value, with_tcp,
};
use Counter::{
    DatagramsReceived, DatagramsSent, PayloadAcknowledged, PayloadReceived, PayloadSent, Serving,
};
use Validity::{Impossible, Suspect, Valid};

/// 1 Gbit/s, MTU 1500, IPv4 with timestamps: 941.482 Mbit/s
/// (docs/methodology/ceilings.md#ethernet).
#[test]
fn a_value_at_its_ceiling_stands_and_one_above_is_impossible() {
    let stamped = || json!({"net": {"tcp_timestamps": 1}});
    let of = |megabits: f64| {
        let bytes = (megabits * 1e6 / 8.0) as u64;
        let mut campaign =
            campaign(TestbedKind::Hosts, [stamped(), stamped()], vec![stream(0, bytes)]);
        campaign.header.capacities = vec![gigabit(&[("a", "b")])];
        study(&campaign)
    };
    let at = of(941.482);
    let metric = only(&at).jobs[0].metric(metric::GOODPUT, Tx).expect("goodput");
    assert!((metric.share.expect("a ceiling") - 1.0).abs() < 1e-5, "{metric:?}");
    assert_eq!(only(&at).validity, Valid, "{:?}", only(&at).why);
    assert!(
        (only(&at).ceilings[metric.ceiling.expect("a ceiling")].value / 1e6 - 941.482).abs()
            < 0.001
    );

    let above = of(942.5);
    let point = only(&above);
    assert_eq!((point.validity, point.trials[0].validity), (Impossible, Impossible));
    assert!(
        point.jobs[0].metric(metric::GOODPUT, Tx).is_none_or(|metric| metric.estimate.is_none())
    );
    assert!(
        matches!(
            point.trials[0].why[0],
            Reason::AboveCeiling { value, limit, .. } if value > limit
        ),
        "{:?}",
        point.trials[0].why
    );
}

#[test]
fn a_trial_that_never_ran_has_the_ceiling_of_its_path() {
    let stamped = || json!({"net": {"tcp_timestamps": 1}});
    let planned = trial(0, vec![job("tcp_stream", "a", "b")]);
    let mut campaign = campaign(TestbedKind::Hosts, [stamped(), stamped()], vec![planned]);
    let of = |campaign: &Campaign, direction| {
        let spec = &campaign.trials[0].spec;
        let found = planned_ceiling(&campaign.header, &campaign.hosts, spec, direction);
        found.map(|ceiling| ceiling.value)
    };
    assert_eq!(of(&campaign, Tx), None, "nothing is known of the path");
    let slow = Capacity { rate: BitRate(1e8), ..gigabit(&[("a", "b")]) };
    campaign.header.capacities = vec![gigabit(&[("a", "b")]), slow];
    let ceiling = of(&campaign, Tx).expect("the slower link");
    assert!((ceiling / 1e6 - 94.148).abs() < 0.001, "{ceiling}");
    assert_eq!(of(&campaign, Rx), None, "nothing goes this way");
}

#[test]
fn an_impossible_trial_leaves_the_rest_suspect() {
    let mut campaign =
        two_hosts(vec![stream(0, 100_000_000), stream(1, 200_000_000), stream(2, 100_000_000)]);
    campaign.header.capacities = vec![gigabit(&[("a", "b")])];
    let study = study(&campaign);
    let point = only(&study);
    let metric = point.jobs[0].metric(metric::GOODPUT, Tx).expect("goodput");
    assert_eq!(metric.values, [Some(800e6), None, Some(800e6)]);
    assert_eq!((metric.estimate.expect("two runs").n, point.validity), (2, Suspect));
}

#[test]
fn an_emulated_shaper_may_pass_one_bucket_more_but_not_two() {
    let bucket = 65_536;
    let of = |extra: u64| {
        // 949.285 Mbit/s without timestamps, over four seconds.
        let mut trial = stream(0, 118_660_000);
        trial.jobs[0].1.intervals[2].counters[PayloadReceived] += extra;
        let mut campaign = campaign(TestbedKind::Lab, [json!({}), json!({})], vec![trial]);
        campaign.header.capacities = vec![gigabit(&[("a", "b")])];
        study(&campaign).points[0].validity
    };
    assert_eq!(of(bucket / 2), Valid);
    assert_eq!(of(8 * bucket), Impossible);
}

/// Bytes that make counts of intervals show no step.
const ODD: [u64; SECONDS as usize] = [1, 8, 3, 14, 5];

/// A link full of 80 000 segments a second, of which 6400 wait behind a hole when the measurement
/// begins, 2 % of what it carries meanwhile. `released`: they are read in its first second, else
/// they wait on. `arriving` times as many segments as fit arrive. Memory held is one part in 20
/// more than the payload; `looked`: it was observed.
fn holed(released: bool, arriving: f64, looked: bool) -> Validity {
    const MSS: u64 = 1_448;
    let segments = (80_000.0 * arriving) as u64;
    let waiting = 8 * 80_000 / 100;
    let mut trial = stream(0, segments * MSS);
    let receiver = &mut trial.jobs[0].1;
    with_tcp(
        receiver,
        0,
        TcpState {
            data_segments_in: segments as u32,
            receive_mss: MSS as u32,
            bytes_received: 1,
            ..TcpState::default()
        },
    );
    for (interval, second) in receiver.intervals.iter_mut().zip(1..) {
        interval.counters[PayloadReceived] += ODD[second - 1];
        let held = if released && second > 1 { 0 } else { waiting * MSS };
        interval.held_bytes = looked.then_some(held + held / 20);
    }
    receiver.intervals[0].counters[PayloadReceived] -= waiting * MSS;
    if released {
        receiver.intervals[1].counters[PayloadReceived] += waiting * MSS;
    }
    let mut campaign = two_hosts(vec![trial]);
    campaign.header.capacities =
        vec![Capacity { rate: BitRate(80_000.0 * 1_538.0 * 8.0), ..gigabit(&[("a", "b")]) }];
    campaign.hosts.iter_mut().for_each(|host| host.facts["net"] = json!({"tcp_timestamps": 1}));
    study(&campaign).points[0].trials[0].validity
}

#[test]
fn what_arrived_before_the_measurement_and_was_read_in_it_is_no_impossible_figure() {
    assert_eq!(holed(true, 1.0, true), Valid);
    assert_eq!(holed(true, 1.0, false), Impossible, "nobody looked, so nothing is excused");
}

#[test]
fn a_backlog_excuses_only_what_left_it() {
    assert_eq!(holed(true, 1.01, true), Impossible, "1 % more arrived than the link carries");
    assert_eq!(holed(false, 1.01, true), Impossible, "what waits is still waiting at the end");
    assert_eq!(holed(false, 1.0, true), Valid);
}

/// Datagrams of 1000 B over 1 Gbit/s, MTU 1500: 117 261 a second.
#[test]
fn a_packet_rate_above_its_ceiling_is_impossible_on_an_emulated_link_too() {
    let of = |excess: f64| {
        let per_second = (1e9 / 8.0 / (1000.0 + 28.0 + 38.0) * excess) as u64;
        let mut trial = datagrams(per_second, per_second, per_second * SECONDS);
        // The bytes were miscounted, so that only the packets exceed their ceiling.
        for (interval, odd) in trial.jobs[0].1.intervals.iter_mut().zip(ODD) {
            interval.counters[PayloadReceived] = interval.counters[PayloadReceived] / 2 + odd;
        }
        let mut campaign = campaign(TestbedKind::Lab, [json!({}), json!({})], vec![trial]);
        campaign.header.capacities = vec![gigabit(&[("a", "b")])];
        study(&campaign).points[0].trials[0].clone()
    };
    assert_eq!(of(0.99).validity, Valid, "{:?}", of(0.99).why);
    let above = of(1.01);
    assert_eq!(above.validity, Impossible);
    assert!(has(&above.why, |why| is_above(why, metric::PACKET_RATE)), "{:?}", above.why);
}

#[test]
fn a_shared_capacity_bounds_the_sum_of_jobs_each_of_which_is_possible() {
    let of = |bytes: u64| {
        let mut pair = trial(0, vec![job("tcp_stream", "a", "b"), job("tcp_stream", "c", "d")]);
        for record in &mut pair.jobs {
            *record = (steady(&[(PayloadSent, bytes)]), steady(&[(PayloadReceived, bytes)]));
        }
        let mut campaign = two_hosts(vec![pair]);
        campaign.header.capacities = vec![gigabit(&[("a", "b"), ("c", "d")])];
        study(&campaign)
    };
    let possible = of(50_000_000);
    let point = only(&possible);
    assert_eq!((point.jobs.len(), point.jobs[2].workload.as_str()), (3, "all"));
    near(value(point, 2, metric::GOODPUT, Tx), 800e6);
    let share = point.jobs[2]
        .metric(metric::GOODPUT, Tx)
        .and_then(|metric| metric.share)
        .expect("a ceiling");
    assert!((share - 800.0 / 949.285).abs() < 1e-5, "{share}");
    assert_eq!(point.validity, Valid, "{:?}", point.why);
    assert_eq!(only(&of(75_000_000)).validity, Impossible);
}

/// Datagrams of 1000 B on two ports of 1 Gbit/s behind a bus of 1.5: both ceilings are reported, in
/// bits and in packets.
#[test]
fn the_ports_and_the_bus_behind_them_are_both_told_of_all_jobs_together() {
    const A_SECOND: u64 = 70_000;
    let mut pair = trial(0, vec![job("udp_stream", "a", "b"), job("udp_stream", "c", "d")]);
    for record in &mut pair.jobs {
        let counted =
            |datagrams, payload| steady(&[(datagrams, A_SECOND), (payload, A_SECOND * 1000)]);
        *record =
            (counted(DatagramsSent, PayloadSent), counted(DatagramsReceived, PayloadReceived));
    }
    let mut campaign = two_hosts(vec![pair]);
    let named = |name: &str, rate, pairs: &[(&str, &str)]| Capacity {
        name: name.into(),
        rate,
        ..gigabit(pairs)
    };
    campaign.header.capacities = vec![
        named("port 1", BitRate(1e9), &[("a", "b")]),
        named("port 2", BitRate(1e9), &[("c", "d")]),
        named("bus", BitRate(1.5e9), &[("a", "b"), ("c", "d")]),
    ];
    let study = study(&campaign);
    let point = only(&study);
    assert_eq!(point.validity, Valid, "{:?}", point.why);
    // 1066 bytes on the wire of a datagram.
    let packets = |rate: f64| rate / 8.0 / 1066.0;
    for (metric, per_packet) in [(metric::GOODPUT, 8000.0), (metric::PACKET_RATE, 1.0)] {
        let of_all = point.ceilings.iter().filter(|bound| {
            (bound.metric, bound.direction) == (metric, Tx) && bound.scope == CeilingScope::AllJobs
        });
        let told: Vec<(String, f64)> = of_all.map(|bound| (bound.name(), bound.value)).collect();
        let [(bus, low), (ports, high)] = &told[..] else { panic!("{metric}: {told:?}") };
        assert_eq!((bus.as_str(), ports.as_str()), ("bus, all jobs", "port 1 + port 2, all jobs"));
        near(Some(*low), packets(1.5e9) * per_packet);
        near(Some(*high), packets(2e9) * per_packet);
        let figure = point.jobs[2].metric(metric, Tx).expect("all jobs have it");
        near(figure.share, 2.0 * A_SECOND as f64 * per_packet / low);
    }
}

#[test]
fn a_physical_link_is_a_ceiling_and_a_virtual_one_is_not() {
    let facts =
        |driver| json!({"interfaces": {"eth0": {"driver": driver, "speed_bps": 1e9, "mtu": 1500}}});
    for (driver, expected) in [("igb", Impossible), ("veth", Valid)] {
        let campaign = campaign(
            TestbedKind::Hosts,
            [facts(driver), facts(driver)],
            vec![stream(0, 150_000_000)],
        );
        assert_eq!(only(&study(&campaign)).validity, expected, "{driver}");
    }
}

/// Generation 1, one lane, payload 128: 2 Gbit/s x 128 / 148, of which TCP over IPv4 has 1460 of
/// 1514 bytes.
#[test]
fn a_narrow_slot_bounds_a_fast_device() {
    let facts = || {
        json!({
            "interfaces": {
                "eth0": {"driver": "ixgbe", "virtual": false, "speed_bps": 10e9, "mtu": 1500},
            },
            "pcie": {"eth0": [{
                "address": "0000:01:00.0", "kind": "pcie", "max_link_speed": 2.5,
                "current_link_speed": 2.5,
                "current_link_width": 1, "mps_bytes": 128, "mrrs_bytes": 512,
            }]},
        })
    };
    let study =
        study(&campaign(TestbedKind::Hosts, [facts(), facts()], vec![stream(0, 100_000_000)]));
    let point = only(&study);
    let metric = point.jobs[0].metric(metric::GOODPUT, Tx).expect("goodput");
    let ceiling = &point.ceilings[metric.ceiling.expect("a ceiling")];
    assert!(ceiling.name().starts_with("pcie 0000:01:00.0"), "{}", ceiling.name());
    near(Some(ceiling.value), 2e9 * 128.0 / 148.0 * 1460.0 / 1514.0);
    assert_eq!(point.validity, Valid, "{:?}", point.why);
}

/// Intervals of 100 ms of a lab's link of 1 Gbit/s, of which the shaper lets `extra` bytes more
/// pass in one.
fn burst(extra: u64) -> linerate_analysis::TrialStudy {
    let per_interval = 11_860_000;
    let mut counts = vec![per_interval; 30];
    counts[10] -= extra;
    counts[15] += extra;
    let mut campaign = campaign(
        TestbedKind::Lab,
        [json!({}), json!({})],
        vec![crate::fixture::delivered(&counts)],
    );
    campaign.header.capacities = vec![gigabit(&[("a", "b")])];
    study(&campaign).points[0].trials[0].clone()
}

#[test]
fn no_interval_of_a_series_is_above_the_ceiling() {
    const CEILING: f64 = 949.284_785e6;
    let drawn =
        |extra| burst(extra).series[&IntervalSeries::Directed(metric::GOODPUT, Direction::Tx)][15];
    let small = drawn(60_000).expect("a bucket of a shaper is allowed for");
    assert!((small / CEILING - 1.0).abs() < 1e-6, "cut to the ceiling: {small}");
    assert_eq!(drawn(600_000), None, "five percent more is no figure");
    let trial = burst(600_000);
    assert_eq!(trial.validity, Valid, "{:?}", trial.why);
}

#[test]
fn the_interval_of_a_mean_ends_at_the_ceiling() {
    let runs = [118.6, 118.0, 118.6, 117.0, 118.6, 118.5].iter().zip(0..);
    let mut campaign = two_hosts(runs.map(|(mega, n)| stream(n, (mega * 1e6) as u64)).collect());
    campaign.header.capacities = vec![gigabit(&[("a", "b")])];
    let judged = study(&campaign);
    let metric = only(&judged).jobs[0].metric(metric::GOODPUT, Tx).expect("goodput");
    let (mean, ceiling) = (
        metric.mean.expect("six runs"),
        only(&judged).ceilings[metric.ceiling.expect("one")].value,
    );
    assert!(
        mean.high == ceiling && mean.low < mean.value && mean.value < ceiling,
        "{mean:?} of {ceiling}"
    );
}

/// A file of two and a half seconds over a link of 1 Gbit/s, read at this many bytes in each of two
/// seconds.
fn peak(bytes: [u64; 2]) -> (Option<f64>, Vec<String>) {
    let mut trial = stream(0, 100_000_000);
    let file = linerate_model::Distribution { buckets: vec![(1_000_000, 1)], ..Default::default() };
    for (interval, bytes) in trial.jobs[0].1.intervals.iter_mut().skip(1).zip(bytes) {
        interval.counters[PayloadReceived] = bytes;
        interval.stages.transfer = file.clone();
    }
    let mut campaign = two_hosts(vec![trial]);
    campaign.header.capacities = vec![gigabit(&[("a", "b")])];
    let judged = study(&campaign);
    let job = &only(&judged).jobs[0];
    (
        value(only(&judged), 0, metric::GOODPUT_PEAK, Tx),
        job.withheld.iter().map(|one| one.name.clone()).collect(),
    )
}

#[test]
fn a_peak_above_the_ceiling_is_withheld_and_the_trial_stands() {
    assert!(peak([110_000_000, 100_000_000]).0.is_some_and(|peak| peak <= 949.286e6));
    assert_eq!(peak([125_000_003, 80_000_011]), (None, vec!["goodput_peak".to_owned()]));
}

/// Five seconds in each of which another program's client fetched this many bytes from our server
/// in a quarter of a second, over 1 Gbit/s.
fn served(bytes: u64) -> [Option<f64>; 2] {
    let mut run = trial(0, vec![job("http", "a", "b")]);
    run.jobs[0].1 =
        steady(&[(PayloadSent, bytes), (PayloadAcknowledged, bytes), (Serving, 250_000_000)]);
    let mut campaign = two_hosts(vec![run]);
    campaign.header.capacities = vec![gigabit(&[("a", "b"), ("b", "a")])];
    let judged = study(&campaign);
    assert_eq!(only(&judged).trials[0].validity, Valid, "{:?}", only(&judged).trials[0].why);
    [metric::GOODPUT, metric::GOODPUT_SERVED].map(|metric| value(only(&judged), 0, metric, Rx))
}

#[test]
fn a_foreign_clients_goodput_is_of_the_time_in_which_it_took_files_and_has_the_same_ceiling() {
    let [whole, while_served] = served(28_000_000);
    near(whole, 224e6);
    near(while_served, 896e6);
    let [whole, while_served] = served(33_000_000);
    near(whole, 264e6);
    assert_eq!(while_served, None, "1056 Mbit/s over 1 Gbit/s");
}

/// An upload to a foreign server over 1 Gbit/s: the socket accepts a fifth more each second than
/// the path carries, the peer acknowledges `acknowledged` bytes a second.
fn upload(acknowledged: u64) -> (Validity, Option<f64>) {
    let accepted = 140_000_000;
    let mut run = trial(0, vec![job("http", "a", "b")]);
    let mut sender = steady(&[(PayloadSent, accepted)]);
    for (interval, second) in sender.intervals.iter_mut().zip(1..) {
        let tcp =
            TcpState { bytes_acked: second * acknowledged, send_mss: 1448, ..TcpState::default() };
        interval.flows.push(linerate_model::FlowTcp { flow: 0, tcp });
    }
    run.jobs[0].0 = sender;
    let mut campaign = two_hosts(vec![run]);
    campaign.header.capacities = vec![gigabit(&[("a", "b")])];
    let judged = study(&campaign);
    (only(&judged).trials[0].validity, value(only(&judged), 0, metric::GOODPUT, Tx))
}

#[test]
fn what_a_foreign_server_acknowledged_is_the_goodput_and_not_what_the_socket_accepted() {
    let (validity, goodput) = upload(118_000_000);
    assert_eq!(validity, Valid);
    near(goodput, 944e6);
    assert_eq!(upload(125_000_000).0, Impossible, "more acknowledged than the path carries");
    assert_eq!(
        upload(0).0,
        Impossible,
        "where the kernel reports nothing, the accepted bytes count"
    );
}

/// Payload rate that the device of the sending host allows by its facts, bit/s.
fn by_device(device: &str) -> Option<f64> {
    let study = of_device(Some(device));
    let hard = only(&study)
        .ceilings
        .iter()
        .find(|ceiling| ceiling.metric == metric::GOODPUT && ceiling.is_hard());
    hard.map(|ceiling| ceiling.value)
}

#[test]
fn where_nothing_bounds_a_flow_each_end_says_why() {
    let why = |device: Option<&str>| only(&of_device(device)).unbounded.clone();
    let of_left = |device: &str, cause: NoRate| {
        let (host, device) = ("left".to_owned(), device.to_owned());
        Unbounded::Devices(vec![Rateless { host, device, below: None, cause }])
    };
    assert_eq!(why(Some("eth0")), [], "it is bounded");
    let bridge = of_left("br0", NoRate::Bridge(Some("eth0".to_owned())));
    let right = Unbounded::Devices(vec![Rateless {
        host: "right".to_owned(),
        device: "eth0".to_owned(),
        below: None,
        cause: NoRate::NoFacts,
    }]);
    assert_eq!(why(Some("br0")), [bridge, right]);
    for (device, cause) in [
        ("vx0", NoRate::Tunnel("vxlan".to_owned())),
        ("veth0", NoRate::VirtualDriver("veth".to_owned())),
        ("htb2", NoRate::ShapedInPart),
    ] {
        assert_eq!(why(Some(device))[0], of_left(device, cause));
    }
    assert!(matches!(why(None)[0], Unbounded::NoSingleDevice { .. }), "{:?}", why(None));
    // The last device of a stack is the reason, and the first one is where a reader begins.
    assert_eq!(
        why(Some("veth0.7"))[0],
        Unbounded::Devices(vec![Rateless {
            host: "left".to_owned(),
            device: "veth0.7".to_owned(),
            below: Some("veth0".to_owned()),
            cause: NoRate::VirtualDriver("veth".to_owned()),
        }])
    );
}

/// Payload rate of a stream of `n_flows` flows that the sending host's facts allow, bit/s, by the
/// device of its end and its branches.
fn by_branches(device: Option<&str>, branches: &[&str], n_flows: usize) -> Option<f64> {
    let mut run = stream(0, 1_000_000);
    let flows = (0..n_flows as u32).map(|flow| {
        let mut counters = Counters::default();
        counters[PayloadSent] = 1;
        FlowReport { flow, counters, ..FlowReport::default() }
    });
    run.jobs[0].0.flows = flows.collect();
    let from = &mut run.spec.jobs[0].from;
    from.device = device.map(str::to_owned);
    from.branches = branches.iter().map(|&device| device.to_owned()).collect();
    let study = study(&campaign(TestbedKind::Hosts, [facts(), json!({})], vec![run]));
    let hard = only(&study)
        .ceilings
        .iter()
        .find(|ceiling| ceiling.metric == metric::GOODPUT && ceiling.is_hard());
    hard.map(|ceiling| ceiling.value)
}

#[test]
fn what_devices_add_is_counted_where_it_crosses_the_wire() {
    // Segments of 1410 and 1436 bytes in packets of 1450 and 1476, which the tunnels put into
    // frames of 1500 + 38.
    near(by_branches(Some("vx1"), &[], 1), 10e9 * 1410.0 / 1538.0);
    near(by_branches(Some("gre1"), &[], 1), 10e9 * 1436.0 / 1538.0);
    // A shaper on a tunnel without frames counts packets; one below it counts the frames that carry
    // them.
    near(by_branches(Some("gre2"), &[], 1), 1e8 * 1436.0 / 1476.0);
    near(by_branches(Some("vx2"), &[], 1), 1e9 * 1410.0 / (1450.0 + 14.0 + 50.0));
    // A tunnel over a VLAN.
    near(by_branches(Some("vx3"), &[], 1), 10e9 * 1410.0 / 1542.0);
    // A macvlan of another machine's peer leaves by the device below.
    near(by_branches(Some("mv0"), &[], 1), 10e9 * 1460.0 / 1538.0);
}

#[test]
fn a_bridge_is_as_fast_as_the_port_that_the_flow_leaves_by() {
    near(by_branches(Some("br0"), &["eth2"], 1), 1e9 * 1460.0 / 1538.0);
    near(by_branches(Some("br0"), &["veth1"], 1), 1e9 * 1460.0 / 1514.0);
    assert_eq!(by_branches(Some("br0"), &[], 1), None, "the port is not known");
    assert_eq!(by_branches(Some("br0"), &["veth0"], 1), None, "it has no rate");
}

#[test]
fn flows_share_next_hops_one_each() {
    let hops = ["eth0", "eth2"];
    near(by_branches(None, &hops, 1), 10e9 * 1460.0 / 1538.0);
    near(by_branches(None, &hops, 2), 11e9 * 1460.0 / 1538.0);
    near(by_branches(None, &hops, 9), 11e9 * 1460.0 / 1538.0);
    assert_eq!(by_branches(None, &["eth0", "veth0"], 2), None, "one of them has no rate");
    assert_eq!(by_branches(None, &["eth0", "gone"], 2), None, "nothing is known of one of them");
}

#[test]
fn classes_bound_as_far_as_it_is_certain_which_ones_take_a_flow() {
    near(by_branches(Some("htb0"), &[], 4), 3e8 * 1460.0 / 1514.0);
    near(by_branches(Some("htb1"), &[], 1), 3e8 * 1460.0 / 1514.0);
    near(by_branches(Some("htb1"), &[], 2), 4e8 * 1460.0 / 1514.0);
    assert_eq!(by_branches(Some("htb2"), &[], 1), None, "what no filter picks is not shaped");
}

/// The study of a stream that leaves by `device`.
fn of_device(device: Option<&str>) -> linerate_analysis::Study {
    let mut run = stream(0, 1_000_000);
    run.spec.jobs[0].from.device = device.map(str::to_owned);
    study(&campaign(TestbedKind::Hosts, [facts(), json!({})], vec![run]))
}

/// Facts of a host with links of many kinds.
fn facts() -> Value {
    let htb = |default: Option<&str>, filtered: bool| {
        let class = |handle: &str, parent: &str, ceil: f64| {
            json!({ "handle": handle, "parent": parent, "rate_bps": ceil / 2.0,
            "ceil_bps": ceil })
        };
        let mut htb = json!({ "kind": "htb", "handle": "1:", "parent": "root", "filtered": filtered,
            "classes": [
                class("1:1", "root", 1e9), class("1:10", "1:1", 3e8), class("1:20", "1:1", 1e8),
            ] });
        if let Some(default) = default {
            htb["default"] = json!(default);
        }
        json!({ "kind": "veth", "driver": "veth", "virtual": true, "mtu": 1500, "lower": [],
            "qdiscs": [htb] })
    };
    json!({ "interfaces": {
        "eth0": { "kind": "device", "driver": "ixgbe", "virtual": false, "speed_bps": 10e9,
            "mtu": 1500, "lower": [] },
        "eth1": { "kind": "device", "driver": "ixgbe", "virtual": false, "speed_bps": 10e9,
            "mtu": 1500, "lower": [] },
        "eth0.7": { "kind": "vlan", "virtual": true, "mtu": 1500, "lower": ["eth0"] },
        "veth0.7": { "kind": "vlan", "virtual": true, "mtu": 1500, "lower": ["veth0"] },
        "bond0": { "kind": "bond", "driver": "bonding", "virtual": true, "speed_bps": 20e9,
            "mtu": 1500, "lower": ["eth0", "eth1"] },
        "br0": { "kind": "bridge", "driver": "bridge", "virtual": true, "speed_bps": 10e9,
            "mtu": 1500, "lower": ["eth0"] },
        "vx0": { "kind": "vxlan", "driver": "vxlan", "virtual": true, "mtu": 1450, "lower": [] },
        "veth0": { "kind": "veth", "driver": "veth", "virtual": true, "speed_bps": 10e9,
            "mtu": 1500, "lower": [] },
        "veth1": { "kind": "veth", "driver": "veth", "virtual": true, "speed_bps": 10e9,
            "mtu": 1500, "lower": [],
            "qdiscs": [{ "kind": "tbf", "handle": "1:", "parent": "root", "rate_bps": 1e9,
                "burst_bytes": 131_072 }] },
        "eth2": { "kind": "device", "driver": "igb", "virtual": false, "speed_bps": 1e9,
            "mtu": 1500, "lower": [] },
        "vx1": { "kind": "vxlan", "virtual": true, "mtu": 1450, "lower": ["eth0"],
            "tunnel": { "header_bytes": 50 } },
        "vx2": { "kind": "vxlan", "virtual": true, "mtu": 1450, "lower": ["veth1"],
            "tunnel": { "header_bytes": 50 } },
        "vx3": { "kind": "vxlan", "virtual": true, "mtu": 1450, "lower": ["eth0.7"],
            "tunnel": { "header_bytes": 50 } },
        "gre1": { "kind": "gre", "virtual": true, "mtu": 1476, "lower": ["eth0"],
            "tunnel": { "header_bytes": 24 } },
        "gre2": { "kind": "gre", "virtual": true, "mtu": 1476, "lower": ["eth0"],
            "tunnel": { "header_bytes": 24 },
            "qdiscs": [{ "kind": "tbf", "handle": "1:", "parent": "root", "rate_bps": 1e8,
                "burst_bytes": 131_072 }] },
        "mv0": { "kind": "macvlan", "driver": "macvlan", "virtual": true, "speed_bps": 10e9,
            "mtu": 1500, "lower": ["eth0"],
            "mode": "bridge" },
        "htb0": htb(Some("1:10"), false),
        "htb1": htb(Some("1:20"), true),
        "htb2": htb(None, true),
    } })
}

#[test]
fn a_device_is_bounded_by_what_carries_its_packets() {
    // A segment of 1460 bytes in a packet of 1500, with what each counts around it.
    near(by_device("eth0"), 10e9 * 1460.0 / 1538.0);
    near(by_device("eth0.7"), 10e9 * 1460.0 / 1542.0);
    near(by_device("bond0"), 20e9 * 1460.0 / 1538.0);
    near(by_device("veth1"), 1e9 * 1460.0 / 1514.0);
    // A name for a speed, and a way that may not lead over the device below.
    assert_eq!((by_device("veth0"), by_device("br0"), by_device("none")), (None, None, None));
}

/// Returns true if `why` is a figure of `of` above its ceiling.
fn is_above(why: &Reason, of: &linerate_model::Metric) -> bool {
    matches!(why, Reason::AboveCeiling { metric, .. } if *metric == of)
}
