//! Campaigns, trials and readings by hand.

use linerate_analysis::{PointStudy, Reason, Study, study};
use linerate_model::{
    BitRate, BoundClass, Bytes, Campaign, CampaignHeader, Capacity, Counter, Direction, Endpoint,
    FlowReport, FlowTcp, HostRecord, Interval, JobRecord, JobSpec, Metric, Nanos, Phases,
    SampleBlock, SeriesKind, SeriesSpec, TcpState, TestbedKind, TrialId, TrialOutcome, TrialRecord,
    TrialSpec, Warmup, WrittenSeries,
};
use serde_json::{Value, json};

pub(crate) const SECONDS: u64 = 5;

pub(crate) fn endpoint(name: &str, host: &str) -> Endpoint {
    let text = json!({"name": name, "host": host, "address": null, "device": "eth0"});
    serde_json::from_value(text).expect("an endpoint")
}

pub(crate) fn job(workload: &str, from: &str, to: &str) -> JobSpec {
    JobSpec {
        workload: workload.into(),
        from: endpoint(from, "left"),
        to: endpoint(to, "right"),
        ..JobSpec::default()
    }
}

/// One second of warm-up, four of measurement, intervals of a second.
pub(crate) fn trial(number: u32, jobs: Vec<JobSpec>) -> TrialRecord {
    let mut trial = TrialRecord::new(TrialSpec {
        id: TrialId(number),
        sweep: "sweep".into(),
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
        ..TrialSpec::default()
    });
    trial.started = Some(Nanos::from_secs(u64::from(number) * 10));
    trial.outcome = Some(TrialOutcome::Completed);
    trial
}

/// Five intervals of a second, each with these counts.
pub(crate) fn steady(counts: &[(Counter, u64)]) -> JobRecord {
    let interval = |second: u64| {
        let mut interval = Interval {
            start: Nanos::from_secs(second),
            end: Nanos::from_secs(second + 1),
            ..Interval::default()
        };
        for (counter, n) in counts {
            interval.counters[*counter] = *n;
        }
        interval
    };
    JobRecord { intervals: (0..SECONDS).map(interval).collect(), flows: Vec::new() }
}

pub(crate) fn campaign(
    testbed: TestbedKind,
    facts: [Value; 2],
    trials: Vec<TrialRecord>,
) -> Campaign {
    let [left, right] = facts;
    let host = |host: &str, facts| HostRecord {
        host: host.into(),
        facts,
        clock_offset_ns: 0,
        clock_uncertainty_ns: 1000,
    };
    Campaign {
        header: CampaignHeader { testbed, ..CampaignHeader::default() },
        hosts: vec![host("left", left), host("right", right)],
        trials,
        incidents: Vec::new(),
        ended: Some(Nanos(1)),
    }
}

pub(crate) fn two_hosts(trials: Vec<TrialRecord>) -> Campaign {
    campaign(
        TestbedKind::Hosts,
        [json!({"kernel": {"boot_id": "1"}}), json!({"kernel": {"boot_id": "2"}})],
        trials,
    )
}

pub(crate) fn gigabit(pairs: &[(&str, &str)]) -> Capacity {
    Capacity {
        name: "link".into(),
        edge: "link".into(),
        class: BoundClass::Link,
        rate: BitRate(1e9),
        frame_overhead: Bytes(38),
        mtu: Bytes(1500),
        pairs: pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
        source: "declared".into(),
        members: Vec::new(),
    }
}

/// A TCP trial in which `to` received `bytes` each second.
pub(crate) fn stream(number: u32, bytes: u64) -> TrialRecord {
    let mut trial = trial(number, vec![job("tcp_stream", "a", "b")]);
    trial.jobs[0] = (
        steady(&[(Counter::PayloadSent, bytes + 1_000_000)]),
        steady(&[(Counter::PayloadReceived, bytes)]),
    );
    trial
}

pub(crate) fn only(study: &Study) -> &PointStudy {
    assert_eq!(study.points.len(), 1);
    &study.points[0]
}

/// The only point of a campaign of two hosts with this trial.
pub(crate) fn judged(trial: TrialRecord) -> PointStudy {
    only(&study(&two_hosts(vec![trial]))).clone()
}

pub(crate) fn value(
    point: &PointStudy,
    job: usize,
    metric: &'static Metric,
    direction: Direction,
) -> Option<f64> {
    point.jobs[job]
        .metric(metric, direction)
        .and_then(|metric| metric.estimate)
        .map(|estimate| estimate.value)
}

pub(crate) fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("a figure");
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} instead of {expected}");
}

/// Counters that grow by this much each second, read each second.
pub(crate) fn samples(series: &[(&str, &str, &str, f64)]) -> SampleBlock {
    SampleBlock {
        series: series
            .iter()
            .map(|(sampler, name, instance, _)| WrittenSeries {
                sampler: (*sampler).into(),
                name: (*name).into(),
                instance: (*instance).into(),
                unit: "1".into(),
                kind: SeriesKind::Counter,
            })
            .map(SeriesSpec::from)
            .collect(),
        times: (0..=SECONDS).map(Nanos::from_secs).collect(),
        columns: series
            .iter()
            .map(|s| (0..=SECONDS).map(|t| Some(1e6 + s.3 * t as f64)).collect())
            .collect(),
        unavailable: Vec::new(),
        cost_ns: 5_000_000,
    }
}

/// States at the end of each second, growing evenly.
pub(crate) fn with_tcp(record: &mut JobRecord, flow: u32, per_second: TcpState) {
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

/// Payload delivered in each of these intervals of 100 ms, the warm-up automatic.
pub(crate) fn delivered(bytes: &[u64]) -> TrialRecord {
    let mut trial = trial(0, vec![job("tcp_stream", "a", "b")]);
    let all = Nanos::from_millis(100 * bytes.len() as u64);
    let interval = Nanos::from_millis(100);
    // The span run in front is a tenth of the measurement, and at least two intervals.
    let measure = all.since(Nanos((2 * interval.0).max(all.0 / 11)));
    trial.spec.phases =
        Phases { warmup: Warmup::Auto, measure, drain: Nanos(0), rest: Nanos(0), interval };
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

/// A UDP trial: `sent` each second, `received` each second, totals of the one flow with the
/// receiver's `next_sequence`.
pub(crate) fn datagrams(sent: u64, received: u64, next_sequence: u64) -> TrialRecord {
    let mut trial = trial(0, vec![job("udp_stream", "a", "b")]);
    let total = |counter, n: u64, next_sequence| {
        let mut flow = FlowReport { next_sequence, ..FlowReport::default() };
        flow.counters[counter] = n * SECONDS;
        flow
    };
    let mut sender = steady(&[(Counter::DatagramsSent, sent), (Counter::PayloadSent, sent * 1000)]);
    sender.flows.push(total(Counter::DatagramsSent, sent, sent * SECONDS));
    let mut receiver = steady(&[
        (Counter::DatagramsReceived, received),
        (Counter::PayloadReceived, received * 1000),
        (Counter::SequenceAdvance, next_sequence / SECONDS),
    ]);
    receiver.flows.push(total(Counter::DatagramsReceived, received, next_sequence));
    trial.jobs[0] = (sender, receiver);
    trial
}

pub(crate) fn half_a_core() -> SampleBlock {
    samples(&[
        ("cpu", "user", "cpu0", 0.1e9),
        ("cpu", "system", "cpu0", 0.2e9),
        ("cpu", "softirq", "cpu1", 0.2e9),
        ("cpu", "idle", "cpu0", 0.7e9),
        ("cpu", "idle", "cpu1", 0.8e9),
    ])
}

/// A stream of 10^8 bytes a second; the active worker takes 0.25 core, the passive 0.15; each host
/// reads half a core.
pub(crate) fn costly() -> TrialRecord {
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

/// Returns true if `is` holds for one of `reasons`, or for the reason of trials within one.
pub(crate) fn has(reasons: &[Reason], is: impl Fn(&Reason) -> bool) -> bool {
    reasons.iter().any(|reason| match reason {
        Reason::OfTrials { reason, .. } => is(reason),
        reason => is(reason),
    })
}
