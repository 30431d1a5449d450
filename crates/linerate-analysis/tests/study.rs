//! Small campaigns made by hand, with answers known beforehand.

use linerate_analysis::{PointStudy, Study, study};
use linerate_model::{
    Background, BitRate, Bytes, Campaign, CampaignHeader, Capacity, Counter, Direction, Distribution, Endpoint,
    FlowReport, FlowTcp, HostRecord, Incident, IncidentKind, Interval, JobRecord, JobSpec, Nanos, Params, Phases,
    Point, SampleBlock, SeriesKind, SeriesSpec, TcpState, TestbedKind, TrialId, TrialOutcome, TrialRecord, TrialSpec,
    Validity, Warmup,
};
use serde_json::{Value, json};

const SECONDS: u64 = 5;

fn endpoint(name: &str, host: &str) -> Endpoint {
    let text = json!({"name": name, "host": host, "address": null, "device": "eth0"});
    serde_json::from_value(text).expect("an endpoint")
}

fn job(workload: &str, from: &str, to: &str) -> JobSpec {
    JobSpec {
        workload: workload.into(),
        from: endpoint(from, "left"),
        to: endpoint(to, "right"),
        params: Params::default(),
        background: None,
    }
}

/// One second of warm-up, four of measurement, intervals of a second.
fn trial(number: u32, jobs: Vec<JobSpec>) -> TrialRecord {
    let mut trial = TrialRecord::new(TrialSpec {
        id: TrialId(number),
        sweep: "sweep".into(),
        point: Point::new(),
        repeat: number,
        seed: 1,
        phases: Phases {
            warmup: Warmup::Fixed(Nanos::from_secs(1)),
            measure: Nanos::from_secs(SECONDS - 1),
            drain: Nanos::from_millis(500),
            rest: Nanos(0),
            interval: Nanos::from_secs(1),
        },
        jobs,
    });
    trial.started = Some(Nanos::from_secs(u64::from(number) * 10));
    trial.outcome = Some(TrialOutcome::Completed);
    trial
}

/// Five intervals of a second, each with these counts.
fn steady(counts: &[(Counter, u64)]) -> JobRecord {
    let interval = |second: u64| {
        let mut interval =
            Interval { start: Nanos::from_secs(second), end: Nanos::from_secs(second + 1), ..Interval::default() };
        for (counter, n) in counts {
            interval.counters[*counter] = *n;
        }
        interval
    };
    JobRecord { intervals: (0..SECONDS).map(interval).collect(), flows: Vec::new() }
}

fn campaign(testbed: TestbedKind, facts: [Value; 2], trials: Vec<TrialRecord>) -> Campaign {
    let [left, right] = facts;
    let host =
        |host: &str, facts| HostRecord { host: host.into(), facts, clock_offset_ns: 0, clock_uncertainty_ns: 1000 };
    Campaign {
        header: CampaignHeader {
            id: "id".into(),
            name: "name".into(),
            started: Nanos(0),
            plan: String::new(),
            plan_sha256: String::new(),
            lab: None,
            seed: 1,
            testbed,
            capacities: Vec::new(),
            version: "0".into(),
            argv: Vec::new(),
        },
        hosts: vec![host("left", left), host("right", right)],
        trials,
        incidents: Vec::new(),
        ended: Some(Nanos(1)),
    }
}

fn two_hosts(trials: Vec<TrialRecord>) -> Campaign {
    campaign(TestbedKind::Hosts, [json!({"kernel": {"boot_id": "1"}}), json!({"kernel": {"boot_id": "2"}})], trials)
}

fn gigabit(pairs: &[(&str, &str)]) -> Capacity {
    Capacity {
        name: "link".into(),
        rate: BitRate(1e9),
        frame_overhead: Bytes(38),
        mtu: Bytes(1500),
        pairs: pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
        source: "declared".into(),
    }
}

/// A TCP trial in which `to` received `bytes` each second.
fn stream(number: u32, bytes: u64) -> TrialRecord {
    let mut trial = trial(number, vec![job("tcp_stream", "a", "b")]);
    trial.jobs[0] =
        (steady(&[(Counter::PayloadSent, bytes + 1_000_000)]), steady(&[(Counter::PayloadReceived, bytes)]));
    trial
}

fn only(study: &Study) -> &PointStudy {
    assert_eq!(study.points.len(), 1);
    &study.points[0]
}

fn value(point: &PointStudy, job: usize, metric: &str, direction: Direction) -> Option<f64> {
    point.jobs[job].metric(metric, direction).and_then(|metric| metric.estimate).map(|estimate| estimate.value)
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("a figure");
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} instead of {expected}");
}

use Direction::{Rx, Sum, Tx};

#[test]
fn goodput_is_what_the_receiver_got_and_runs_are_the_replicates() {
    let trials = [10, 12, 11, 14, 13, 10].iter().zip(0..).map(|(m, n)| stream(n, m * 1_000_000)).collect();
    let study = study(&two_hosts(trials));
    let point = only(&study);
    let metric = point.jobs[0].metric("goodput", Tx).expect("goodput");
    let estimate = metric.estimate.expect("six runs");
    assert_eq!((estimate.value, estimate.low, estimate.high), (92e6, Some(80e6), Some(112e6)));
    assert!((estimate.confidence.expect("six runs") - 0.96875).abs() < 1e-12 && estimate.n == 6);
    assert_eq!(metric.values[3], Some(112e6));
    assert!(point.jobs[0].metric("goodput", Sum).is_none() && point.jobs[0].metric("goodput", Rx).is_none());
    assert_eq!((point.validity, point.why.len()), (Validity::Valid, 0));
    assert_eq!(point.trials[0].series["goodput_tx"], vec![Some(80e6); 5]);
    assert_eq!(point.trials[0].seconds, [1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn both_directions_are_added_only_where_both_carry_data() {
    let mut both = trial(0, vec![job("tcp_stream", "a", "b")]);
    let counts = |received| steady(&[(Counter::PayloadSent, 1), (Counter::PayloadReceived, received)]);
    both.jobs[0] = (counts(1_000_000), counts(3_000_000));
    let study = study(&two_hosts(vec![both]));
    for (direction, megabits) in [(Tx, 24.0), (Rx, 8.0), (Sum, 32.0)] {
        near(value(only(&study), 0, "goodput", direction), megabits * 1e6);
    }
}

/// 1 Gbit/s, MTU 1500, IPv4 with timestamps: 941.482 Mbit/s (methodology 3.1).
#[test]
fn a_value_at_its_ceiling_stands_and_one_above_is_impossible() {
    let stamped = || json!({"net": {"tcp_timestamps": 1}});
    let of = |megabits: f64| {
        let bytes = (megabits * 1e6 / 8.0) as u64;
        let mut campaign = campaign(TestbedKind::Hosts, [stamped(), stamped()], vec![stream(0, bytes)]);
        campaign.header.capacities = vec![gigabit(&[("a", "b")])];
        study(&campaign)
    };
    let at = of(941.482);
    let metric = only(&at).jobs[0].metric("goodput", Tx).expect("goodput");
    assert!((metric.share.expect("a ceiling") - 1.0).abs() < 1e-5, "{metric:?}");
    assert_eq!(only(&at).validity, Validity::Valid, "{:?}", only(&at).why);
    assert!((only(&at).ceilings[metric.ceiling.expect("a ceiling")].value / 1e6 - 941.482).abs() < 0.001);

    let above = of(942.5);
    let point = only(&above);
    assert_eq!((point.validity, point.trials[0].validity), (Validity::Impossible, Validity::Impossible));
    assert!(point.jobs[0].metric("goodput", Tx).is_none_or(|metric| metric.estimate.is_none()));
    let why = &point.trials[0].why[0];
    let cause = |text: &str| why.find(text).unwrap_or_else(|| panic!("{text} in {why}"));
    assert!(
        cause("accounting at the sender") < cause("wrong layer") && cause("wrong layer") < cause("wrong link speed")
    );
}

#[test]
fn an_impossible_trial_leaves_the_rest_suspect() {
    let mut campaign = two_hosts(vec![stream(0, 100_000_000), stream(1, 200_000_000), stream(2, 100_000_000)]);
    campaign.header.capacities = vec![gigabit(&[("a", "b")])];
    let study = study(&campaign);
    let point = only(&study);
    let metric = point.jobs[0].metric("goodput", Tx).expect("goodput");
    assert_eq!(metric.values, [Some(800e6), None, Some(800e6)]);
    assert_eq!((metric.estimate.expect("two runs").n, point.validity), (2, Validity::Suspect));
}

#[test]
fn an_emulated_shaper_may_pass_one_bucket_more_but_not_two() {
    let bucket = 65_536;
    let of = |extra: u64| {
        // 949.285 Mbit/s without timestamps, over four seconds.
        let mut trial = stream(0, 118_660_000);
        trial.jobs[0].1.intervals[2].counters[Counter::PayloadReceived] += extra;
        let mut campaign = campaign(TestbedKind::Lab, [json!({}), json!({})], vec![trial]);
        campaign.header.capacities = vec![gigabit(&[("a", "b")])];
        study(&campaign).points[0].validity
    };
    assert_eq!(of(bucket / 2), Validity::Valid);
    assert_eq!(of(8 * bucket), Validity::Impossible);
}

/// Bytes that make counts of intervals show no step.
const ODD: [u64; SECONDS as usize] = [1, 8, 3, 14, 5];

/// A link full of 80 000 segments a second, of which 6400 wait behind a hole when the measurement begins, 2 % of what it carries
/// meanwhile. `released`: they are read in its first second, else they wait on. `arriving` times as many segments as fit arrive.
/// Memory held is one part in 20 more than the payload; `looked`: it was observed.
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
        interval.counters[Counter::PayloadReceived] += ODD[second - 1];
        let held = if released && second > 1 { 0 } else { waiting * MSS };
        interval.held_bytes = looked.then_some(held + held / 20);
    }
    receiver.intervals[0].counters[Counter::PayloadReceived] -= waiting * MSS;
    if released {
        receiver.intervals[1].counters[Counter::PayloadReceived] += waiting * MSS;
    }
    let mut campaign = two_hosts(vec![trial]);
    campaign.header.capacities = vec![Capacity { rate: BitRate(80_000.0 * 1_538.0 * 8.0), ..gigabit(&[("a", "b")]) }];
    campaign.hosts.iter_mut().for_each(|host| host.facts["net"] = json!({"tcp_timestamps": 1}));
    study(&campaign).points[0].trials[0].validity
}

#[test]
fn what_arrived_before_the_measurement_and_was_read_in_it_is_no_impossible_figure() {
    assert_eq!(holed(true, 1.0, true), Validity::Valid);
    assert_eq!(holed(true, 1.0, false), Validity::Impossible, "nobody looked, so nothing is excused");
}

#[test]
fn a_backlog_excuses_only_what_left_it() {
    assert_eq!(holed(true, 1.01, true), Validity::Impossible, "1 % more arrived than the link carries");
    assert_eq!(holed(false, 1.01, true), Validity::Impossible, "what waits is still waiting at the end");
    assert_eq!(holed(false, 1.0, true), Validity::Valid);
}

/// Datagrams of 1000 B over 1 Gbit/s, MTU 1500: 117 261 a second.
#[test]
fn a_packet_rate_above_its_ceiling_is_impossible_on_an_emulated_link_too() {
    let of = |excess: f64| {
        let per_second = (1e9 / 8.0 / (1000.0 + 28.0 + 38.0) * excess) as u64;
        let mut trial = datagrams(per_second, per_second, per_second * SECONDS);
        // The bytes were miscounted, so that only the packets exceed their ceiling.
        for (interval, odd) in trial.jobs[0].1.intervals.iter_mut().zip(ODD) {
            interval.counters[Counter::PayloadReceived] = interval.counters[Counter::PayloadReceived] / 2 + odd;
        }
        let mut campaign = campaign(TestbedKind::Lab, [json!({}), json!({})], vec![trial]);
        campaign.header.capacities = vec![gigabit(&[("a", "b")])];
        study(&campaign).points[0].trials[0].clone()
    };
    assert_eq!(of(0.99).validity, Validity::Valid, "{:?}", of(0.99).why);
    let above = of(1.01);
    assert_eq!(above.validity, Validity::Impossible);
    assert!(above.why.iter().any(|why| why.starts_with("packet_rate")), "{:?}", above.why);
}

#[test]
fn a_shared_capacity_bounds_the_sum_of_jobs_each_of_which_is_possible() {
    let of = |bytes: u64| {
        let mut pair = trial(0, vec![job("tcp_stream", "a", "b"), job("tcp_stream", "c", "d")]);
        for record in &mut pair.jobs {
            *record = (steady(&[(Counter::PayloadSent, bytes)]), steady(&[(Counter::PayloadReceived, bytes)]));
        }
        let mut campaign = two_hosts(vec![pair]);
        campaign.header.capacities = vec![gigabit(&[("a", "b"), ("c", "d")])];
        study(&campaign)
    };
    let possible = of(50_000_000);
    let point = only(&possible);
    assert_eq!((point.jobs.len(), point.jobs[2].workload.as_str()), (3, "all"));
    near(value(point, 2, "goodput", Tx), 800e6);
    let share = point.jobs[2].metric("goodput", Tx).and_then(|metric| metric.share).expect("a ceiling");
    assert!((share - 800.0 / 949.285).abs() < 1e-5, "{share}");
    assert_eq!(point.validity, Validity::Valid, "{:?}", point.why);
    assert_eq!(only(&of(75_000_000)).validity, Validity::Impossible);
}

#[test]
fn a_physical_link_is_a_ceiling_and_a_virtual_one_is_not() {
    let facts = |driver| json!({"interfaces": {"eth0": {"driver": driver, "speed_bps": 1e9, "mtu": 1500}}});
    for (driver, expected) in [("igb", Validity::Impossible), ("veth", Validity::Valid)] {
        let campaign = campaign(TestbedKind::Hosts, [facts(driver), facts(driver)], vec![stream(0, 150_000_000)]);
        assert_eq!(only(&study(&campaign)).validity, expected, "{driver}");
    }
}

/// Generation 1, one lane, payload 128: 2 Gbit/s x 128 / 148, of which TCP over IPv4 has 1460 of 1514 bytes.
#[test]
fn a_narrow_slot_bounds_a_fast_device() {
    let facts = || {
        json!({
            "interfaces": {"eth0": {"driver": "ixgbe", "virtual": false, "speed_bps": 10e9, "mtu": 1500}},
            "pcie": {"eth0": [{
                "address": "0000:01:00.0", "kind": "pcie", "max_link_speed": 2.5, "current_link_speed": 2.5,
                "current_link_width": 1, "mps_bytes": 128, "mrrs_bytes": 512,
            }]},
        })
    };
    let study = study(&campaign(TestbedKind::Hosts, [facts(), facts()], vec![stream(0, 100_000_000)]));
    let point = only(&study);
    let metric = point.jobs[0].metric("goodput", Tx).expect("goodput");
    let ceiling = &point.ceilings[metric.ceiling.expect("a ceiling")];
    assert!(ceiling.name.starts_with("pcie 0000:01:00.0"), "{}", ceiling.name);
    near(Some(ceiling.value), 2e9 * 128.0 / 148.0 * 1460.0 / 1514.0);
    assert_eq!(point.validity, Validity::Valid, "{:?}", point.why);
}

/// A UDP trial: `sent` each second, `received` each second, totals of the one flow with the receiver's `next_sequence`.
fn datagrams(sent: u64, received: u64, next_sequence: u64) -> TrialRecord {
    let mut trial = trial(0, vec![job("udp_stream", "a", "b")]);
    let total = |counter, n: u64, next_sequence| {
        let mut flow = FlowReport { next_sequence, ..FlowReport::default() };
        flow.counters[counter] = n * SECONDS;
        flow
    };
    let mut sender = steady(&[(Counter::DatagramsSent, sent), (Counter::PayloadSent, sent * 1000)]);
    sender.flows.push(total(Counter::DatagramsSent, sent, sent * SECONDS));
    let mut receiver = steady(&[(Counter::DatagramsReceived, received), (Counter::PayloadReceived, received * 1000)]);
    receiver.flows.push(total(Counter::DatagramsReceived, received, next_sequence));
    trial.jobs[0] = (sender, receiver);
    trial
}

#[test]
fn a_black_hole_loses_everything_and_its_goodput_is_zero() {
    let study = study(&two_hosts(vec![datagrams(1000, 0, 0)]));
    let point = only(&study);
    assert_eq!(value(point, 0, "loss_ratio", Tx), Some(1.0));
    assert_eq!(value(point, 0, "goodput", Tx), Some(0.0));
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
    let study = study(&two_hosts(vec![lossy]));
    let loss = &only(&study).jobs[0].loss[0];
    let ledger = &loss.ledger;
    assert_eq!((ledger.sent, ledger.unique, ledger.lost_gap, ledger.lost_tail), (5000, 4950, 20, 30));
    assert_eq!(loss.located, [("sender qdisc".to_owned(), 20), ("receiver socket".to_owned(), 15)]);
    assert_eq!(loss.unexplained, 15);
    assert_eq!(loss.unobserved, ["sender device", "receiver device", "receiver backlog (softnet)"]);
    near(value(only(&study), 0, "loss_ratio", Tx), 0.01);
    assert_eq!(only(&study).trials[0].series["loss_ratio"].len(), 5);
}

/// What Linux 6 counted at a token bucket that messages of 64 datagrams fitted into: each drop was a whole message, and
/// `packets` were the datagrams that passed.
#[test]
fn a_queue_that_drops_whole_messages_is_found_by_what_passed_it() {
    let located = |messages: u64, drops: f64, passed: Option<f64>| {
        let mut lossy = datagrams(1000, 614, 5000);
        lossy.jobs[0].0.flows[0].counters[Counter::MessagesSent] = messages;
        let mut series = vec![("qdisc", "drops", "eth0 tbf 1:", drops)];
        series.extend(passed.map(|passed| ("qdisc", "packets", "eth0 tbf 1:", passed)));
        lossy.samples.push(("left".into(), samples(&series)));
        let study = study(&two_hosts(vec![lossy]));
        let loss = &only(&study).jobs[0].loss[0];
        assert!(loss.balances());
        assert_eq!(loss.located.iter().map(|(_, n)| n).sum::<u64>() + loss.unexplained, loss.ledger.lost());
        (loss.located.first().map_or(0, |(_, n)| *n), loss.unexplained)
    };
    assert_eq!(located(80, 6.0, Some(614.0)), (1930, 0), "30 drops were 1930 datagrams");
    assert_eq!(located(80, 6.0, Some(700.0)), (1500, 430), "what passed was lost elsewhere");
    assert_eq!(located(80, 0.0, Some(614.0)), (0, 1930), "no drop, none there");
    assert_eq!(located(80, 386.0, Some(614.0)), (1930, 0), "a queue that counts each datagram");
    assert_eq!(located(5000, 6.0, Some(614.0)), (30, 1900), "messages of one datagram are counted singly");
    assert_eq!(located(80, 6.0, None), (30, 1900), "what passed is unknown: each drop was one at least");
}

#[test]
fn a_ledger_that_does_not_balance_invalidates_the_trial() {
    let study = study(&two_hosts(vec![datagrams(1000, 1001, 5000)]));
    let point = only(&study);
    assert_eq!(point.validity, Validity::Invalid);
    assert!(point.why.iter().any(|why| why.contains("does not balance")), "{:?}", point.why);
    assert!(point.jobs[0].metrics.is_empty());
}

#[test]
fn a_killed_campaign_keeps_what_was_measured_and_counts_the_rest() {
    let mut trials: Vec<TrialRecord> = (0..6).map(|number| stream(number, 1_000_000)).collect();
    trials[3].outcome = None;
    trials[3].jobs[0].1.intervals.truncate(2);
    for unreached in &mut trials[4..] {
        *unreached = TrialRecord::new(unreached.spec.clone());
    }
    let mut campaign = two_hosts(trials);
    campaign.ended = None;
    let study = study(&campaign);
    let point = only(&study);
    assert_eq!(point.jobs[0].metric("goodput", Tx).and_then(|m| m.estimate).expect("three runs").n, 3);
    assert!(point.why.contains(&"2 of 6 trials: not run".to_owned()), "{:?}", point.why);
    assert!(point.why.contains(&"1 of 6 trials: the campaign ended during the trial".to_owned()), "{:?}", point.why);

    let nothing = TrialRecord::new(trial(0, vec![job("tcp_stream", "a", "b")]).spec);
    assert_eq!(only(&linerate_analysis::study(&two_hosts(vec![nothing]))).validity, Validity::Invalid);
}

#[test]
fn a_receiver_that_stopped_counting_invalidates_the_trial() {
    let mut cut = stream(0, 1_000_000);
    cut.jobs[0].1.intervals.truncate(3);
    let study = study(&two_hosts(vec![cut]));
    assert_eq!(only(&study).validity, Validity::Invalid);
    assert!(only(&study).why[1].contains("recorded 50 %"), "{:?}", only(&study).why);
    assert_eq!(only(&study).trials[0].series["goodput_tx"], [Some(8e6), Some(8e6), Some(8e6), None, None]);
}

/// Counters that grow by so much each second, read each second.
fn samples(series: &[(&str, &str, &str, f64)]) -> SampleBlock {
    SampleBlock {
        series: series
            .iter()
            .map(|(sampler, name, instance, _)| SeriesSpec {
                sampler: (*sampler).into(),
                name: (*name).into(),
                instance: (*instance).into(),
                unit: "1".into(),
                kind: SeriesKind::Counter,
            })
            .collect(),
        times: (0..=SECONDS).map(Nanos::from_secs).collect(),
        columns: series.iter().map(|s| (0..=SECONDS).map(|t| Some(1e6 + s.3 * t as f64)).collect()).collect(),
        unavailable: Vec::new(),
        cost_ns: 5_000_000,
    }
}

fn half_a_core() -> SampleBlock {
    samples(&[
        ("cpu", "user", "cpu0", 0.1e9),
        ("cpu", "system", "cpu0", 0.2e9),
        ("cpu", "softirq", "cpu1", 0.2e9),
        ("cpu", "idle", "cpu0", 0.7e9),
        ("cpu", "idle", "cpu1", 0.8e9),
    ])
}

/// A stream of 10^8 bytes a second; the active worker takes 0.25 core, the passive 0.15; each host reads half a core.
fn costly() -> TrialRecord {
    let mut trial = stream(0, 100_000_000);
    let (active, passive) = &mut trial.jobs[0];
    for (end, ns) in [(active, 250_000_000), (passive, 150_000_000)] {
        for interval in &mut end.intervals {
            interval.counters[Counter::CpuSystem] = ns;
        }
    }
    trial.samples = vec![("left".into(), half_a_core()), ("right".into(), half_a_core())];
    trial
}

#[test]
fn two_kernels_are_added_and_one_kernel_is_counted_once() {
    let two = study(&two_hosts(vec![costly()]));
    near(value(only(&two), 0, "cpu_seconds_per_gigabyte", Sum), 10.0);
    near(value(only(&two), 0, "cpu_from", Sum), 0.5);
    near(value(only(&two), 0, "cpu_softirq", Sum), 0.4);

    let same = || json!({"kernel": {"boot_id": "1"}});
    let one = study(&campaign(TestbedKind::Lab, [same(), same()], vec![costly()]));
    near(value(only(&one), 0, "cpu_seconds_per_gigabyte", Sum), 5.0);
    near(value(only(&one), 0, "cpu_from", Sum), 0.25);
    near(value(only(&one), 0, "cpu_to", Sum), 0.15);
    near(value(only(&one), 0, "cpu_softirq", Sum), 0.2);
    near(value(only(&one), 0, "cpu_kernel", Sum), 0.4);
    assert_eq!(one.overhead.samplers["left"], 0.001);
}

#[test]
fn what_was_not_sampled_is_absent_and_not_zero() {
    let mut trial = costly();
    trial.samples.remove(1);
    let study = study(&two_hosts(vec![trial]));
    let point = only(&study);
    for metric in ["cpu_seconds_per_gigabyte", "cpu_to", "interrupts", "instructions_per_packet", "throughput_l2"] {
        let absent = point.jobs[0].metrics.iter().all(|known| known.name != metric);
        assert!(absent, "{metric}");
    }
    near(value(point, 0, "cpu_from", Sum), 0.5);
}

#[test]
fn steal_makes_a_trial_suspect_and_a_tester_limit_makes_it_invalid() {
    let mut stolen = costly();
    stolen.samples[0].1 = samples(&[("cpu", "idle", "cpu0", 0.98e9), ("cpu", "steal", "cpu0", 0.02e9)]);
    let found = study(&two_hosts(vec![stolen]));
    assert_eq!(only(&found).validity, Validity::Suspect, "{:?}", only(&found).why);
    assert!(value(only(&found), 0, "goodput", Tx).is_some());

    let mut limited = stream(0, 1_000_000);
    let incident = |kind| Incident { host: "left".into(), kind, message: "generator late".into() };
    limited.incidents.push(incident(IncidentKind::Rejected));
    assert_eq!(only(&study(&two_hosts(vec![limited.clone()]))).validity, Validity::Valid);
    limited.incidents.push(incident(IncidentKind::Tester));
    let found = study(&two_hosts(vec![limited]));
    assert_eq!(only(&found).validity, Validity::Invalid);
    assert_eq!(only(&found).trials[0].why, ["left: generator late"]);
}

/// States at the end of each second, growing evenly.
fn with_tcp(record: &mut JobRecord, flow: u32, per_second: TcpState) {
    for (interval, second) in record.intervals.iter_mut().zip(1_u32..) {
        let (n, many) = (u64::from(second), second);
        let tcp = TcpState {
            segments_in: per_second.segments_in * many,
            data_segments_in: per_second.data_segments_in * many,
            segments_out: per_second.segments_out * many,
            retransmits: per_second.retransmits * many,
            bytes_sent: per_second.bytes_sent * n,
            bytes_received: per_second.bytes_received * n,
            bytes_retransmitted: per_second.bytes_retransmitted * n,
            busy_us: per_second.busy_us * n,
            receive_window_limited_us: per_second.receive_window_limited_us * n,
            ..per_second
        };
        interval.flows.push(FlowTcp { flow, tcp });
    }
}

#[test]
fn tcp_state_gives_packets_retransmits_limits_and_fairness() {
    let mut trial = stream(0, 4_000_000);
    let (active, passive) = &mut trial.jobs[0];
    for flow in [0, 1] {
        let sends = TcpState {
            segments_out: 1000,
            segments_in: 500,
            retransmits: 10,
            bytes_sent: 2_000_000,
            bytes_retransmitted: 20_000,
            busy_us: 900_000,
            receive_window_limited_us: 400_000,
            rtt_us: 1000 * (flow + 1),
            min_rtt_us: 500,
            send_window: 50_000,
            ..TcpState::default()
        };
        with_tcp(active, flow, sends);
        let bytes_received = [1_000_000, 3_000_000][flow as usize];
        with_tcp(passive, flow, TcpState { segments_in: 990, bytes_received, ..TcpState::default() });
    }
    let study = study(&two_hosts(vec![trial]));
    let point = only(&study);
    for (metric, expected) in [
        ("packet_rate", 1980.0),
        ("retransmits", 80.0),
        ("retransmit_ratio", 0.01),
        ("sender_busy", 0.9),
        ("rwnd_limited", 0.4),
        ("sndbuf_limited", 0.0),
        ("rtt", 0.0015),
        ("rtt_min", 0.0005),
        ("fairness", 0.8),
    ] {
        near(value(point, 0, metric, Tx), expected);
    }
    let expected = point.ceilings.iter().find(|ceiling| ceiling.name.starts_with("expected")).expect("window and rtt");
    near(Some(expected.value), 2.0 * 50_000.0 * 8.0 / 0.0005);
    assert_eq!(point.jobs[0].metric("goodput", Tx).and_then(|m| m.ceiling), None, "an expectation is no ceiling");
    assert_eq!(point.trials[0].series["retransmits"], vec![Some(20.0); 5]);
}

#[test]
fn lost_requests_are_losses_and_infinitely_slow() {
    let mut trial = trial(0, vec![job("udp_rr", "a", "b")]);
    let mut active =
        steady(&[(Counter::Transactions, 900), (Counter::TransactionsLost, 100), (Counter::PayloadSent, 1)]);
    for interval in &mut active.intervals {
        interval.response = Distribution { buckets: vec![(1_000, 800), (2_000, 100)], lost: 100 };
    }
    trial.jobs[0] = (active, steady(&[(Counter::PayloadReceived, 900)]));
    let study = study(&two_hosts(vec![trial]));
    let point = only(&study);
    near(value(point, 0, "transaction_rate", Sum), 900.0);
    near(value(point, 0, "loss_ratio", Sum), 0.1);
    near(value(point, 0, "response_time_p50", Sum), 1e-6);
    near(value(point, 0, "response_time_p90", Sum), 2e-6);
    assert_eq!(value(point, 0, "response_time_p99", Sum), Some(f64::INFINITY));
    assert_eq!(value(point, 0, "response_time_max", Sum), Some(f64::INFINITY));
    assert_eq!(value(point, 0, "response_time_p9999", Sum), None, "4000 operations are too few for it");
    assert_eq!(point.jobs[0].response.count(), 4000);
}

#[test]
fn an_automatic_warm_up_cuts_the_slow_start_and_no_more() {
    let mut trial = trial(0, vec![job("tcp_stream", "a", "b")]);
    trial.spec.phases = Phases {
        warmup: Warmup::Auto,
        measure: Nanos::from_secs(10),
        drain: Nanos(0),
        rest: Nanos(0),
        interval: Nanos::from_millis(100),
    };
    let delivered = |bin: u64| if bin < 15 { 10_000 * bin } else { 1_000_000 + 100 * (bin % 3) };
    let interval = |bin: u64| {
        let (start, end) = (Nanos::from_millis(bin * 100), Nanos::from_millis((bin + 1) * 100));
        let mut interval = Interval { start, end, ..Interval::default() };
        interval.counters[Counter::PayloadReceived] = delivered(bin);
        interval
    };
    trial.jobs[0].1.intervals = (0..110).map(interval).collect();
    let study = study(&two_hosts(vec![trial]));
    let point = only(&study);
    assert_eq!(point.trials[0].measured_from, 1.5);
    let goodput = value(point, 0, "goodput", Tx).expect("goodput");
    assert!((goodput / 80e6 - 1.0).abs() < 0.001, "{goodput}");
    assert_eq!(point.validity, Validity::Valid);
}

/// Payload delivered in each of these intervals of 100 ms, the warm-up automatic.
fn delivered(bytes: &[u64]) -> TrialRecord {
    let mut trial = trial(0, vec![job("tcp_stream", "a", "b")]);
    let all = Nanos::from_millis(100 * bytes.len() as u64);
    let interval = Nanos::from_millis(100);
    // The span run in front is a tenth of the measurement, and at least two intervals.
    let measure = all.since(Nanos((2 * interval.0).max(all.0 / 11)));
    trial.spec.phases = Phases { warmup: Warmup::Auto, measure, drain: Nanos(0), rest: Nanos(0), interval };
    trial.jobs[0].1.intervals = (0..)
        .zip(bytes)
        .map(|(bin, bytes)| {
            let (start, end) = (Nanos::from_millis(bin * 100), Nanos::from_millis((bin + 1) * 100));
            let mut interval = Interval { start, end, ..Interval::default() };
            interval.counters[Counter::PayloadReceived] = *bytes;
            interval
        })
        .collect();
    trial
}

#[test]
fn a_short_trial_that_scatters_is_not_called_unsteady_and_a_long_one_that_falls_is() {
    let scatter = [3, 8, 4, 9, 5, 2, 9, 9, 9, 9, 9, 9].map(|megabytes| megabytes * 1_000_000);
    let found = study(&two_hosts(vec![delivered(&scatter)]));
    assert_eq!((only(&found).validity, only(&found).trials[0].measured_from), (Validity::Valid, 0.2));

    let falling: Vec<u64> = (0..110).map(|bin| 2_000_000 - bin * 10_000).collect();
    let found = study(&two_hosts(vec![delivered(&falling)]));
    assert_eq!(only(&found).validity, Validity::Suspect);
    assert!(only(&found).why[0].contains("no steady state"), "{:?}", only(&found).why);
}

#[test]
fn steal_within_the_coarseness_of_its_reading_is_no_doubt() {
    // One tick of 10 ms in four seconds of one CPU is 0.25 %: three ticks are 0.75 %, two of them beyond doubt are 0.5 %.
    let with_steal = |per_second: f64| {
        let mut trial = costly();
        trial.samples[0].1 =
            samples(&[("cpu", "idle", "cpu0", 1e9 - per_second), ("cpu", "steal", "cpu0", per_second)]);
        only(&study(&two_hosts(vec![trial]))).validity
    };
    assert_eq!((with_steal(7.4e6), with_steal(7.6e6)), (Validity::Valid, Validity::Suspect));
}

#[test]
fn an_open_load_that_was_not_offered_or_late_makes_a_trial_suspect() {
    let open = |intended, started, late, transactions| {
        let mut trial = trial(0, vec![job("udp_rr", "a", "b")]);
        let counts = [
            (Counter::Intended, intended),
            (Counter::Started, started),
            (Counter::LateStarts, late),
            (Counter::Transactions, transactions),
            (Counter::PayloadReceived, 64_000),
        ];
        trial.jobs[0] = (steady(&counts), steady(&[(Counter::PayloadReceived, 64_000)]));
        study(&two_hosts(vec![trial]))
    };
    let short = open(1000, 900, 0, 900);
    near(value(only(&short), 0, "pacing_error", Sum), 0.1);
    assert_eq!(only(&short).validity, Validity::Suspect);
    assert!(only(&short).why[0].contains("90.0 % of the intended load"), "{:?}", only(&short).why);
    assert_eq!(only(&open(1000, 995, 5, 995)).validity, Validity::Valid);
    assert_eq!(only(&open(1000, 1000, 50, 1000)).validity, Validity::Suspect);
    assert_eq!(only(&open(1000, 1000, 500, 0)).validity, Validity::Valid, "batches of datagrams");
    assert_eq!(only(&open(50, 49, 0, 49)).validity, Validity::Valid, "four of two hundred, two of them at the edges");
    assert_eq!(only(&open(10, 9, 0, 9)).validity, Validity::Suspect, "four of forty");
}

#[test]
fn a_worker_kept_waiting_for_its_cpu_makes_a_trial_suspect_and_wake_ups_do_not() {
    let of = |waited_ns: u64, switches: u64| {
        let mut trial = stream(0, 1_000_000);
        for interval in &mut trial.jobs[0].1.intervals {
            interval.counters[Counter::RunQueueWait] = waited_ns;
            interval.counters[Counter::VoluntarySwitches] = switches;
        }
        study(&two_hosts(vec![trial]))
    };
    // 1 % of each second and 12 us for each switch.
    let quiet = of(45_000_000, 8_000);
    assert_eq!(only(&quiet).validity, Validity::Valid, "{:?}", only(&quiet).why);
    near(value(only(&quiet), 0, "run_queue_wait", Sum), 0.045);
    assert_eq!(only(&of(9_000_000, 0)).validity, Validity::Valid);
    let disturbed = of(34_000_000, 1_000);
    assert_eq!(only(&disturbed).validity, Validity::Suspect);
    let why = &only(&disturbed).trials[0].why[0];
    assert!(why.contains("worker 0 on right waited up to 2.2 %") && why.contains("stop them"), "{why}");
    assert!(value(only(&disturbed), 0, "goodput", Tx).is_some(), "the figure is kept and marked");
    assert_eq!(value(only(&of(0, 10)), 0, "run_queue_wait", Sum), None, "not accounted is not zero");
}

#[test]
fn workers_that_wait_for_each_other_are_not_disturbed_by_others() {
    let of = |used_by_all: f64| {
        let mut trial = stream(0, 1_000_000);
        for interval in &mut trial.jobs[0].1.intervals {
            interval.counters[Counter::RunQueueWait] = 400_000_000;
            interval.counters[Counter::CpuUser] = 900_000_000;
        }
        let used =
            [("cpu", "user", "cpu0", used_by_all), ("cpu", "softirq", "cpu0", 5e7), ("cpu", "idle", "cpu0", 1e8)];
        trial.samples.push(("right".into(), samples(&used)));
        study(&two_hosts(vec![trial])).points[0].clone()
    };
    // One tick of 10 ms in four seconds, and 1 %, may be anybody's.
    assert_eq!(of(0.91e9).validity, Validity::Valid, "{:?}", of(0.91e9).why);
    let disturbed = of(1.0e9);
    assert_eq!(disturbed.validity, Validity::Suspect);
    assert!(disturbed.why[0].contains("waited up to 9.8 %"), "{:?}", disturbed.why);
}

#[test]
fn a_background_job_keeps_its_figures_apart() {
    let mut noise = job("tcp_stream", "c", "d");
    noise.background = Some(Background { start_ns: 0, duration: Nanos::from_secs(600) });
    let mut trial = trial(0, vec![job("tcp_stream", "a", "b"), noise]);
    for (record, bytes) in trial.jobs.iter_mut().zip([1_000_000, 9_000_000]) {
        *record = (steady(&[(Counter::PayloadSent, bytes)]), steady(&[(Counter::PayloadReceived, bytes)]));
    }
    let study = study(&two_hosts(vec![trial]));
    let point = only(&study);
    assert_eq!(point.jobs.len(), 2, "one measured job needs no sum");
    near(value(point, 0, "goodput", Tx), 8e6);
    near(value(point, 1, "goodput", Tx), 72e6);
    assert!(point.jobs[1].background);
    assert_eq!(point.trials[0].series["goodput_tx"][0], Some(8e6));
}

#[test]
fn the_null_workload_tells_the_engines_own_cost() {
    let mut trial = trial(0, vec![job("null", "a", "b")]);
    trial.jobs[0].0 = steady(&[(Counter::Steps, 40_000_000), (Counter::CpuUser, 1_000_000_000)]);
    let study = study(&two_hosts(vec![trial]));
    near(value(only(&study), 0, "null_step_cost", Sum), 25.0);
    assert_eq!(study.overhead.null_step_ns, Some(25.0));
    assert_eq!(only(&study).validity, Validity::Valid, "{:?}", only(&study).why);
}

#[test]
fn frames_at_the_receiving_device_include_their_check_sequence() {
    let mut trial = costly();
    let device = samples(&[("interface", "rx_bytes", "eth0", 151_400.0), ("interface", "rx_packets", "eth0", 100.0)]);
    trial.samples[1].1 = device;
    let study = study(&two_hosts(vec![trial]));
    near(value(only(&study), 0, "throughput_l2", Tx), 100.0 * 1518.0 * 8.0);
}

#[test]
fn a_drift_over_the_order_run_is_told() {
    let trials = (0..8).map(|number| stream(number, 1_000_000 + u64::from(number) * 50_000)).collect();
    let study = study(&two_hosts(trials));
    assert_eq!(only(&study).validity, Validity::Suspect);
    assert!(only(&study).why.iter().any(|why| why.contains("drifts")), "{:?}", only(&study).why);
}
