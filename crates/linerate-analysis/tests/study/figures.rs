//! Figures of a study from counters, kernel states and readings.

use linerate_analysis::{IntervalSeries, Refusal, study};
use linerate_model::Direction::{Rx, Sum, Tx};
use linerate_model::{
    Background, Counter, Direction, Distribution, FlowReport, JobRecord, Nanos, TcpState,
    TestbedKind, TrialOutcome, TrialRecord, Validity, Variation, Warmup, metric,
};
use serde_json::json;

use crate::fixture::{
    campaign, costly, job, judged, near, only, samples, steady, stream, trial, two_hosts, value,
    with_tcp,
};
use Counter::{
    CpuSystem, CpuUser, DatagramsReceived, DatagramsSent, PayloadReceived, PayloadSent, Steps,
};

#[test]
fn goodput_is_what_the_receiver_got_and_runs_are_the_replicates() {
    let trials =
        [10, 12, 11, 14, 13, 10].iter().zip(0..).map(|(m, n)| stream(n, m * 1_000_000)).collect();
    let study = study(&two_hosts(trials));
    let point = only(&study);
    let metric = point.jobs[0].metric(metric::GOODPUT, Tx).expect("goodput");
    let estimate = metric.estimate.expect("six runs");
    assert_eq!((estimate.value, estimate.low, estimate.high), (92e6, Some(80e6), Some(112e6)));
    assert!((estimate.confidence.expect("six runs") - 0.96875).abs() < 1e-12 && estimate.n == 6);
    assert_eq!(metric.values[3], Some(112e6));
    assert!(
        point.jobs[0].metric(metric::GOODPUT, Sum).is_none()
            && point.jobs[0].metric(metric::GOODPUT, Rx).is_none()
    );
    assert_eq!((point.validity, point.why.len()), (Validity::Valid, 0));
    assert_eq!(
        point.trials[0].series[&IntervalSeries::Directed(metric::GOODPUT, Direction::Tx)],
        vec![Some(80e6); 5]
    );
    assert_eq!(point.trials[0].seconds, [1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn both_directions_are_added_only_where_both_carry_data() {
    let mut both = trial(0, vec![job("tcp_stream", "a", "b")]);
    let counts = |received| steady(&[(PayloadSent, 1), (PayloadReceived, received)]);
    both.jobs[0] = (counts(1_000_000), counts(3_000_000));
    let point = judged(both);
    for (direction, megabits) in [(Tx, 24.0), (Rx, 8.0), (Sum, 32.0)] {
        near(value(&point, 0, metric::GOODPUT, direction), megabits * 1e6);
    }
}

#[test]
fn two_kernels_are_added_and_one_kernel_is_counted_once() {
    // Workers use 0.4 cores of the 0.6 of all programs: the rest belongs to others, and interrupts
    // cannot be assigned.
    let two = judged(costly());
    assert_eq!(value(&two, 0, metric::CPU_SECONDS_PER_GIGABYTE, Sum), None);
    let withheld = two.jobs[0].withheld.iter().find(|one| one.name == "cpu_seconds_per_gigabyte");
    let why = &withheld.expect("the cost").why;
    assert!(matches!(why, Refusal::SharedCpus { .. }), "{why:?}");
    let mut alone = costly();
    let (active, passive) = &mut alone.jobs[0];
    let intervals = active.intervals.iter_mut().chain(&mut passive.intervals);
    intervals.for_each(|interval| interval.counters[CpuSystem] = 300_000_000);
    near(
        value(only(&study(&two_hosts(vec![alone]))), 0, metric::CPU_SECONDS_PER_GIGABYTE, Sum),
        10.0,
    );
    near(value(&two, 0, metric::CPU_FROM, Sum), 0.5);
    near(value(&two, 0, metric::CPU_SOFTIRQ, Sum), 0.4);

    let same = || json!({"kernel": {"boot_id": "1"}});
    let one = study(&campaign(TestbedKind::Lab, [same(), same()], vec![costly()]));
    near(value(only(&one), 0, metric::CPU_SECONDS_PER_GIGABYTE, Sum), 5.0);
    near(value(only(&one), 0, metric::CPU_FROM, Sum), 0.25);
    near(value(only(&one), 0, metric::CPU_TO, Sum), 0.15);
    near(value(only(&one), 0, metric::CPU_SOFTIRQ, Sum), 0.2);
    near(value(only(&one), 0, metric::CPU_KERNEL, Sum), 0.4);
    assert_eq!(one.overhead.samplers["left"], 0.001);
}

#[test]
fn the_cost_towards_a_foreign_end_is_that_of_this_end_or_of_its_whole_host() {
    let mut trial = costly();
    trial.jobs[0].1 = JobRecord::default();
    let sent = 0.101; // gigabytes per second
    // Somebody else's program on a measured host is part of the load, and only the host counts it.
    let here = judged(trial.clone());
    near(value(&here, 0, metric::CPU_SECONDS_PER_GIGABYTE, Sum), 1.0 / sent);
    assert!(here.jobs[0].metric(metric::CPU_OF_OTHERS, Sum).is_none());
    // Of a host without an agent nothing is read: 0.25 cores of a worker and 0.2 of interrupts.
    trial.spec.jobs[0].to.host = "iperf3://192.0.2.9".into();
    trial.samples.truncate(1);
    let apart = judged(trial);
    near(value(&apart, 0, metric::CPU_SECONDS_PER_GIGABYTE, Sum), 0.45 / sent);
    near(value(&apart, 0, metric::CPU_FROM, Sum), 0.5);
    assert!(apart.jobs[0].metric(metric::CPU_TO, Sum).is_none());
}

#[test]
fn what_was_not_sampled_is_absent_and_not_zero() {
    let mut trial = costly();
    trial.samples.remove(1);
    let point = &judged(trial);
    for metric in [
        metric::CPU_SECONDS_PER_GIGABYTE,
        metric::CPU_TO,
        metric::INTERRUPTS,
        metric::INSTRUCTIONS_PER_PACKET,
        metric::THROUGHPUT_L2,
    ] {
        let absent = point.jobs[0].metrics.iter().all(|known| known.metric != metric);
        assert!(absent, "{metric}");
    }
    near(value(point, 0, metric::CPU_FROM, Sum), 0.5);
}

#[test]
fn tcp_state_gives_packets_retransmits_limits_and_fairness() {
    let mut trial = stream(0, 4_000_000);
    let (active, passive) = &mut trial.jobs[0];
    for flow in [0, 1] {
        let sends = TcpState {
            segments_out: 1000,
            segments_in: 500,
            data_segments_in: 20,
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
        with_tcp(
            passive,
            flow,
            TcpState { segments_in: 990, bytes_received, ..TcpState::default() },
        );
    }
    let point = &judged(trial);
    for (metric, expected) in [
        (metric::PACKET_RATE, 1980.0),
        (metric::RETRANSMITS, 80.0),
        (metric::RETRANSMIT_RATIO, 0.01),
        (metric::ACKNOWLEDGEMENTS, 960.0),
        (metric::SENDER_BUSY, 0.9),
        (metric::RWND_LIMITED, 0.4),
        (metric::SNDBUF_LIMITED, 0.0),
        (metric::RTT, 0.0015),
        (metric::RTT_MIN, 0.0005),
        (metric::FAIRNESS, 0.8),
    ] {
        near(value(point, 0, metric, Tx), expected);
    }
    let expected =
        point.ceilings.iter().find(|ceiling| !ceiling.is_hard()).expect("window and rtt");
    near(Some(expected.value), 2.0 * 50_000.0 * 8.0 / 0.0005);
    assert_eq!(
        point.jobs[0].metric(metric::GOODPUT, Tx).and_then(|m| m.ceiling),
        None,
        "an expectation is no ceiling"
    );
    assert_eq!(
        point.trials[0].series[&IntervalSeries::Of(metric::RETRANSMITS)],
        vec![Some(20.0); 5]
    );
}

/// Both ways on two connections, flow 0 from a to b and flow 1 back; with reports of the flows or
/// without.
fn both_ways(reported: bool) -> TrialRecord {
    let mut trial = trial(0, vec![job("tcp_stream", "a", "b")]);
    let counts = [(PayloadSent, 1_000_000), (PayloadReceived, 1_000_000)];
    trial.jobs[0] = (steady(&counts), steady(&counts));
    let (active, passive) = &mut trial.jobs[0];
    for (end, sends, rtt_us) in [(active, 0, 12_000), (passive, 1, 14_000)] {
        let sending = TcpState {
            bytes_sent: 1_000_000,
            busy_us: 1_000_000,
            segments_in: 300,
            rtt_us,
            pacing_rate: 6_000_000,
            congestion_window: 10,
            send_mss: 1000,
            ..TcpState::default()
        };
        with_tcp(end, sends, sending);
        // Nothing but a greeting of 44 bytes went out: the round trip is that of the handshake, the
        // pacing rate that of an idle socket.
        let receiving =
            TcpState { bytes_received: 1_000_000, segments_in: 700, rtt_us: 90, ..sending };
        with_tcp(
            end,
            1 - sends,
            TcpState { bytes_sent: 0, busy_us: 0, pacing_rate: 4_000_000_000, ..receiving },
        );
        for interval in &mut end.intervals {
            let idle = interval.flows.iter_mut().filter(|flow| flow.flow != sends);
            idle.for_each(|flow| flow.tcp.bytes_sent = 28);
        }
        let report = |(flow, counter)| {
            let mut report = FlowReport { flow, ..FlowReport::default() };
            report.counters[counter] = 5_000_000;
            report
        };
        let reports = [(sends, PayloadSent), (1 - sends, PayloadReceived)];
        end.flows = reports.into_iter().filter(|_| reported).map(report).collect();
    }
    trial
}

/// As BBR does after one compressed run of acknowledgements: for a moment a flow is paced at forty
/// times its rate.
#[test]
fn a_pacing_rate_of_a_moment_is_not_that_of_a_flow() {
    let mut trial = stream(0, 1_000_000);
    let sender = &mut trial.jobs[0].0;
    for (flow, pacing_rate) in [(0, 6_000_000), (1, 2_000_000)] {
        with_tcp(
            sender,
            flow,
            TcpState { bytes_sent: 500_000, pacing_rate, ..TcpState::default() },
        );
    }
    sender.intervals[3].flows[0].tcp.pacing_rate = 250_000_000;
    let point = judged(trial);
    near(value(&point, 0, metric::PACING_RATE, Tx), 64e6);
}

#[test]
fn metrics_of_a_sender_are_of_the_sockets_that_send() {
    for reported in [true, false] {
        let point = &judged(both_ways(reported));
        for (direction, rtt) in [(Tx, 0.012), (Rx, 0.014)] {
            near(value(point, 0, metric::RTT, direction), rtt);
            near(value(point, 0, metric::SENDER_BUSY, direction), 1.0);
            near(value(point, 0, metric::PACING_RATE, direction), 48e6);
            near(value(point, 0, metric::CONGESTION_WINDOW, direction), 10_000.0);
            // Acknowledgements of the other direction are no packets of this one.
            near(value(point, 0, metric::PACKET_RATE, direction), 700.0);
        }
        point.trials[0].series[&IntervalSeries::Of(metric::RTT)]
            .iter()
            .for_each(|rtt| near(*rtt, 0.013));
    }
}

#[test]
fn a_foreign_end_has_no_figures_of_its_own() {
    // A download from a foreign server: nothing is known but what the client received.
    let mut trial = both_ways(true);
    let (active, passive) = &mut trial.jobs[0];
    *passive = JobRecord::default();
    active.flows.retain(|flow| flow.counters[PayloadReceived] > 0);
    active.intervals.iter_mut().for_each(|interval| {
        interval.counters[PayloadSent] = 0;
        interval.counters[CpuSystem] = 500_000_000;
    });
    let point = &judged(trial);
    near(value(point, 0, metric::GOODPUT, Rx), 8e6);
    near(value(point, 0, metric::RECEIVER_CPU, Rx), 0.5);
    for metric in [metric::RTT, metric::SENDER_BUSY, metric::PACING_RATE, metric::SENDER_CPU] {
        assert_eq!(value(point, 0, metric, Rx), None, "{metric}");
    }
}

#[test]
fn a_background_job_keeps_its_figures_apart() {
    let mut noise = job("tcp_stream", "c", "d");
    noise.background = Some(Background { start_ns: 0, duration: Nanos::from_secs(600) });
    let mut trial = trial(0, vec![job("tcp_stream", "a", "b"), noise]);
    for (record, bytes) in trial.jobs.iter_mut().zip([1_000_000, 9_000_000]) {
        *record = (steady(&[(PayloadSent, bytes)]), steady(&[(PayloadReceived, bytes)]));
    }
    let point = &judged(trial);
    assert_eq!(point.jobs.len(), 2, "one measured job needs no sum");
    near(value(point, 0, metric::GOODPUT, Tx), 8e6);
    near(value(point, 1, metric::GOODPUT, Tx), 72e6);
    assert!(point.jobs[1].background);
    assert_eq!(
        point.trials[0].series[&IntervalSeries::Directed(metric::GOODPUT, Direction::Tx)][0],
        Some(8e6)
    );
}

#[test]
fn the_null_workload_tells_the_engines_own_cost() {
    let mut trial = trial(0, vec![job("null", "a", "b")]);
    trial.jobs[0].0 = steady(&[(Steps, 40_000_000), (CpuUser, 1_000_000_000)]);
    let study = study(&two_hosts(vec![trial]));
    near(value(only(&study), 0, metric::NULL_STEP_COST, Sum), 25.0);
    assert_eq!(study.overhead.null_step_ns, Some(25.0));
    assert_eq!(only(&study).validity, Validity::Valid, "{:?}", only(&study).why);
}

#[test]
fn frames_at_the_receiving_device_include_their_check_sequence() {
    let mut trial = costly();
    let device = samples(&[
        ("interface", "rx_bytes", "eth0", 151_400_000.0),
        ("interface", "rx_packets", "eth0", 1e5),
    ]);
    trial.samples[1].1 = device;
    let point = judged(trial);
    near(value(&point, 0, metric::THROUGHPUT_L2, Tx), 1e5 * 1518.0 * 8.0);
}

/// Frames of 100 us, one of 200 us, and one in a thousand lost: delay follows RFC 8219, and lost
/// frames are infinitely slow.
#[test]
fn one_way_times_give_latency_and_its_variation_and_what_was_lost_is_infinitely_slow() {
    let of = |buckets: &[(u64, u64)]| Distribution::of(buckets.to_vec());
    let run = |number: u32, received: u64| {
        let mut run = trial(number, vec![job("frames", "a", "b")]);
        let mut passive =
            steady(&[(PayloadReceived, 100 * received), (DatagramsReceived, received)]);
        for interval in &mut passive.intervals {
            interval.service = of(&[(100_000, received - 3), (200_000, 3)]).into();
            interval.variation = Variation {
                falls: of(&[(100_000, 1)]),
                rises: of(&[(0, received - 3), (100_000, 1)]),
            }
            .into();
        }
        run.jobs[0] = (steady(&[(PayloadSent, 1_000_000), (DatagramsSent, 10_000)]), passive);
        run
    };
    let quiet = judged(run(0, 10_000));
    let figure = |name| value(&quiet, 0, name, Sum);
    near(figure(metric::SERVICE_TIME_MIN), 100e-6);
    near(figure(metric::SERVICE_TIME_P50), 100e-6);
    near(figure(metric::SERVICE_TIME_P999), 100e-6);
    assert_eq!(
        (figure(metric::DELAY_VARIATION), figure(metric::DELAY_VARIATION_P50)),
        (Some(0.0), Some(0.0))
    );
    near(figure(metric::DELAY_VARIATION_MIN), -100e-6);
    near(figure(metric::DELAY_VARIATION_MAX), 100e-6);

    let lossy = judged(run(0, 9_980));
    let figure = |name| value(&lossy, 0, name, Sum);
    near(figure(metric::SERVICE_TIME_P50), 100e-6);
    assert_eq!(
        (figure(metric::SERVICE_TIME_P999), figure(metric::DELAY_VARIATION)),
        (Some(f64::INFINITY), Some(f64::INFINITY))
    );
    // Twenty a second; the first second warms up.
    assert_eq!(lossy.jobs[0].service.lost, 80);
}

#[test]
fn a_load_that_ends_by_itself_ends_the_measurement_with_its_last_progress() {
    // Of a minute, the load takes two seconds, and the receiver waits another for what was lost.
    let ended = |outcome| {
        let mut trial = stream(0, 100_000_000);
        trial.spec.phases.warmup = Warmup::Fixed(Nanos(0));
        trial.spec.phases.measure = Nanos::from_secs(60);
        trial.outcome = Some(outcome);
        trial.jobs[0].0.intervals.truncate(2);
        trial.jobs[0].1.intervals.truncate(3);
        trial.jobs[0].1.intervals[2].counters[Counter::PayloadReceived] = 0;
        trial
    };
    let goodput = |trial| value(only(&study(&two_hosts(vec![trial]))), 0, metric::GOODPUT, Tx);
    near(goodput(ended(TrialOutcome::Completed)), 8e8);
    // A path that stalls until the end of the trial is another matter.
    let mut stalled = ended(TrialOutcome::Completed);
    stalled.spec.phases.measure = Nanos::from_secs(5);
    stalled.jobs[0].0.intervals = steady(&[]).intervals;
    assert!(goodput(stalled).is_none_or(|bits| bits < 4e8));
}
