//! Campaigns to record: a fixed one, and random ones.

use linerate_model::{
    BoundClass, Campaign, CampaignHeader, Capacity, Carried, CarriedApart, ClockExchange, Counter,
    Counters, Distribution, Endpoint, Event, FlowReport, FlowTcp, HostClock, HostRecord, Incident,
    IncidentKind, Interval, JobSpec, Nanos, Params, PeerClock, Phases, SampleBlock, SeriesKind,
    SeriesSpec, Side, SocketValue, Stages, StepGap, TcpState, TestbedKind, ToldClock, TrialClocks,
    TrialId, TrialOutcome, TrialSpec, Variation, Warmup, WrittenSeries,
};
use proptest::prelude::*;
use serde_json::json;

pub(crate) fn header(id: &str) -> CampaignHeader {
    CampaignHeader {
        id: id.into(),
        name: "golden".into(),
        started: Nanos(1_795_219_500_000_000_000),
        plan: "campaign.name = \"golden\"\n".into(),
        plan_sha256: "00".repeat(32),
        lab: Some("pair".into()),
        seed: 42,
        testbed: TestbedKind::Lab,
        capacities: vec![Capacity {
            name: "link a-b".into(),
            edge: "link a-b".into(),
            class: BoundClass::Link,
            rate: "100 Mbit/s".parse().expect("a rate"),
            frame_overhead: "14 B".parse().expect("a size"),
            mtu: "1500 B".parse().expect("a size"),
            pairs: vec![("a".into(), "b".into())],
            source: "lab".into(),
            members: Vec::new(),
        }],
        path: Vec::new(),
        observed: Vec::new(),
        version: "0.1.0".into(),
        argv: vec!["linerate".into(), "run".into()],
    }
}

pub(crate) fn spec(number: u32, n_jobs: usize, point: f64) -> TrialSpec {
    let endpoint = |name: &str| Endpoint {
        address: Some("10.0.0.1".parse().expect("an address")),
        device: Some("eth0".into()),
        cpus: vec![0, 1],
        ..Endpoint::named(name, "lab")
    };
    let mut params = Params::default();
    params.set("message_size", "64 KiB");
    let job = JobSpec {
        workload: "tcp_stream".into(),
        from: endpoint("a"),
        to: endpoint("b"),
        params,
        background: None,
    };
    TrialSpec {
        id: TrialId(number),
        sweep: "messages".into(),
        point: [("x".to_owned(), json!(point))].into(),
        seed: u64::MAX - u64::from(number),
        phases: Phases {
            warmup: Warmup::Fixed(Nanos::from_millis(100)),
            measure: Nanos::from_secs(1),
            drain: Nanos::from_millis(50),
            rest: Nanos(0),
            interval: Nanos::from_millis(100),
        },
        jobs: vec![job; n_jobs],
        ..TrialSpec::default()
    }
}

/// Returns the campaign that a recorder of `events` must give back.
pub(crate) fn fold(events: &[Event]) -> Campaign {
    let Some(Event::CampaignStarted(header)) = events.first() else {
        panic!("a campaign starts with its header")
    };
    let mut campaign = Campaign::new((**header).clone());
    events.iter().for_each(|event| campaign.apply(event));
    campaign
}

/// A small campaign with something of everything in it: what `fixtures/v1.ledger` holds.
pub(crate) fn golden_events() -> Vec<Event> {
    let trial = TrialId(1);
    let mut interval =
        Interval { worker: 1, start: Nanos(0), end: Nanos(100_000_007), ..Interval::default() };
    interval.counters[Counter::PayloadReceived] = 1_234_567;
    interval.service =
        Distribution { lost: 1, ..Distribution::of(vec![(1_000, 3), (2_000, 1)]) }.into();
    interval.flows = vec![FlowTcp {
        flow: 2,
        tcp: TcpState {
            rtt_us: 250,
            delivery_rate_app_limited: true,
            pacing_rate: u64::MAX,
            ..TcpState::default()
        },
    }];
    let granted = SocketValue {
        requested: Some(json!("64 KiB")),
        granted: Some(json!(131_072)),
        at_end: None,
    };
    let mut counters = Counters::default();
    counters[Counter::CallsReceived] = 77;
    let flow = FlowReport {
        flow: 2,
        worker: 1,
        local: "10.0.0.1:5000".into(),
        remote: "10.0.0.2:40000".into(),
        counters,
        next_sequence: 9,
        socket: [("receive_buffer".to_owned(), granted)].into(),
        modes: [("receive".to_owned(), "copy".to_owned())].into(),
        tcp: Some(TcpState { bytes_received: 1_234_567, ..TcpState::default() }),
        // What later versions know besides, the file does not.
        ..FlowReport::default()
    };
    let series = |name: &str, kind| WrittenSeries {
        sampler: "cpu".into(),
        name: name.into(),
        instance: "cpu0".into(),
        unit: "ns".into(),
        kind,
    };
    let block = SampleBlock {
        series: [
            series("user", SeriesKind::Counter).into(),
            series("frequency", SeriesKind::Gauge).into(),
        ]
        .into(),
        times: vec![Nanos(0), Nanos(100_000_000)],
        columns: vec![vec![Some(5.0), Some(10.0)].into(), vec![None, Some(2.5e9 + 0.125)].into()],
        unavailable: vec![("perf".into(), "no PMU".into())],
        cost_ns: 1_234,
    };
    let incident = |message: &str| Incident {
        host: "lab".into(),
        kind: IncidentKind::Environment,
        message: message.into(),
    };
    let host = HostRecord {
        host: "lab".into(),
        facts: json!({"cpu": {"model": "none", "mhz": 0.1}, "numa": {"unavailable": "no sysfs"}}),
        clock_offset_ns: -12,
        clock_uncertainty_ns: 34,
    };
    vec![
        Event::CampaignStarted(Box::new(header("20261121T000500Z-7f3a"))),
        Event::HostJoined(Box::new(host)),
        Event::Planned { trials: vec![spec(1, 1, 0.1 + 0.2), spec(0, 2, 1.0)] },
        Event::TrialStarted { trial, at: Nanos(1_795_219_501_000_000_000) },
        Event::BarrierPassed { trial, skew_ns: 1_500, uncertainty_ns: 20 },
        Event::Intervals { trial, job: 0, side: Side::Passive, intervals: vec![interval] },
        Event::FlowsEnded { trial, job: 0, side: Side::Passive, flows: vec![flow] },
        Event::Samples { trial, host: "lab".into(), block },
        Event::Incident { trial: Some(trial), incident: incident("link down") },
        Event::TrialEnded { trial, outcome: TrialOutcome::Completed },
        Event::Incident { trial: None, incident: incident("interrupted") },
        Event::CampaignEnded { at: Nanos(1_795_219_503_000_000_000) },
    ]
}

/// Numbers small, large and in between.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..3_u64, any::<u64>(), 0..2_000_000_000_u64]
}

fn distribution() -> impl Strategy<Value = Distribution> {
    let buckets = prop::collection::btree_map(number(), number(), 0..4);
    (buckets, 0..2_u64).prop_map(|(buckets, lost)| Distribution {
        buckets: buckets.into_iter().collect(),
        lost,
        ..Distribution::default()
    })
}

fn tcp() -> impl Strategy<Value = TcpState> {
    (number(), any::<u32>(), any::<bool>()).prop_map(|(bytes_acked, rtt_us, app_limited)| {
        TcpState {
            bytes_acked,
            rtt_us,
            delivery_rate_app_limited: app_limited,
            ..TcpState::default()
        }
    })
}

fn carried() -> impl Strategy<Value = Carried> {
    prop::collection::vec(distribution(), 9).prop_map(|distributions| {
        let mut carried = Carried::default();
        let names = carried.all().map(|(name, _)| name);
        for (name, distribution) in names.into_iter().zip(distributions) {
            *carried.named_mut(name).expect("a name of its own") = distribution;
        }
        carried
    })
}

fn carried_apart() -> impl Strategy<Value = CarriedApart> {
    (carried(), carried(), carried()).prop_map(|(writes, flushes, trims)| CarriedApart {
        writes,
        flushes,
        trims,
    })
}

fn interval() -> impl Strategy<Value = Interval> {
    let counters = prop::collection::vec((0..Counter::ALL.len(), number()), 0..4);
    let flows = prop::collection::vec((any::<u32>(), tcp()), 0..3);
    let variation =
        (distribution(), distribution()).prop_map(|(falls, rises)| Variation { falls, rises });
    let stages = (distribution(), distribution(), distribution(), distribution()).prop_map(
        |(connect, first_byte, transfer, close)| Stages { connect, first_byte, transfer, close },
    );
    let of_disks = (distribution(), distribution(), distribution());
    let carried = (carried(), carried_apart(), distribution(), distribution());
    let distributions =
        (distribution(), of_disks, distribution(), distribution(), variation, stages, carried);
    let held = prop::option::of(0..u64::MAX - 1);
    let gap =
        [0..u64::MAX - 1, 0..u64::MAX - 1, 0..u64::MAX - 1].prop_map(|[start, length, ran]| {
            StepGap { start: Nanos(start), length: Nanos(length), ran: Nanos(ran) }
        });
    let looked = (held, prop::option::of(gap));
    (any::<u32>(), number(), number(), counters, looked, distributions, flows).prop_map(
        |(
            worker,
            start,
            end,
            set,
            (held_bytes, longest_step),
            (
                service,
                (writes, flushes, trims),
                response,
                gap,
                variation,
                stages,
                (carried, carried_apart, departures, arrivals),
            ),
            flows,
        )| {
            let mut counters = Counters::default();
            set.into_iter().for_each(|(index, value)| counters[Counter::ALL[index]] = value);
            let flows = flows.into_iter().map(|(flow, tcp)| FlowTcp { flow, tcp }).collect();
            Interval {
                worker,
                start: Nanos(start),
                end: Nanos(end),
                counters: counters.into(),
                held_bytes,
                longest_step,
                service: service.into(),
                writes: writes.into(),
                flushes: flushes.into(),
                trims: trims.into(),
                response: response.into(),
                gap: gap.into(),
                variation: variation.into(),
                stages: stages.into(),
                carried: carried.into(),
                carried_apart: carried_apart.into(),
                departures: departures.into(),
                arrivals: arrivals.into(),
                flows,
            }
        },
    )
}

fn block() -> impl Strategy<Value = SampleBlock> {
    let reading = prop_oneof![
        Just(None),
        Just(Some(-0.0)),
        number().prop_map(|n| Some(n as f64)),
        (-1e300..1e300_f64).prop_map(Some),
        (-1_000..1_000_i32).prop_map(|n| Some(f64::from(n)))
    ];
    let column = prop::collection::vec(reading, 0..12);
    let series = ("[a-z]{0,4}", any::<bool>()).prop_map(|(name, gauge)| {
        SeriesSpec::from(WrittenSeries {
            sampler: "s".into(),
            name,
            instance: String::new(),
            unit: "B".into(),
            kind: if gauge { SeriesKind::Gauge } else { SeriesKind::Counter },
        })
    });
    let columns = prop::collection::vec(column, 0..3);
    (prop::collection::vec(series, 0..3), prop::collection::vec(number(), 0..5), columns, number())
        .prop_map(|(series, times, columns, cost_ns)| SampleBlock {
            series: series.into(),
            times: times.into_iter().map(Nanos).collect(),
            columns: columns.into_iter().map(Into::into).collect(),
            unavailable: vec![("perf".into(), "é".into())],
            cost_ns,
        })
}

fn flow() -> impl Strategy<Value = FlowReport> {
    (any::<u32>(), number(), prop::option::of(tcp())).prop_map(|(flow, next_sequence, tcp)| {
        FlowReport { flow, next_sequence, tcp, ..FlowReport::default() }
    })
}

/// Any event, some of them of trials and jobs that are not there.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    let trial = || (0..4_u32).prop_map(TrialId);
    let end = || (trial(), 0..3_u32, prop_oneof![Just(Side::Active), Just(Side::Passive)]);
    // Nothing that a terminal would obey: a ledger is read with those written out.
    let incident = "[^\\p{C}\\p{Zl}\\p{Zp}]{0,5}".prop_map(|message| Incident {
        host: "h".into(),
        kind: IncidentKind::Clock,
        message,
    });
    let outcome = prop_oneof![
        Just(TrialOutcome::Completed),
        Just(TrialOutcome::Failed),
        Just(TrialOutcome::Interrupted)
    ];
    let specs = prop::collection::btree_map(
        0..4_u32,
        (
            1..3_usize,
            prop_oneof![
                Just(0.1 + 0.2),
                any::<f32>().prop_filter_map("finite", |x| x.is_finite().then_some(f64::from(x)))
            ],
        ),
        0..4,
    );
    prop_oneof![
        1 => Just(Event::CampaignStarted(Box::new(header("random")))),
        1 => ("[a-c]", number()).prop_map(|(host,
            uncertainty)| Event::HostJoined(Box::new(HostRecord {
            host,
            facts: json!({"n": uncertainty, "x": 0.1}),
            clock_offset_ns: -(uncertainty as i64 / 2),
            clock_uncertainty_ns: uncertainty,
        }))),
        1 => specs.prop_map(|specs| Event::Planned {
            trials: specs.into_iter().rev().map(|(number, (n_jobs, point))| spec(number, n_jobs,
                point)).collect(),
        }),
        1 => (0..6_u32, 1..3_usize)
            .prop_map(|(number, n_jobs)| Event::TrialChosen { trial: Box::new(spec(number, n_jobs,
                0.7)) }),
        2 => (trial(), number()).prop_map(|(trial, at)| Event::TrialStarted { trial,
            at: Nanos(at) }),
        1 => (trial(), number(), number())
            .prop_map(|(trial, skew_ns, uncertainty_ns)| Event::BarrierPassed { trial, skew_ns,
                uncertainty_ns }),
        6 => (end(), prop::collection::vec(interval(), 0..5))
            .prop_map(|((trial, job, side), intervals)| Event::Intervals { trial, job, side,
                intervals }),
        2 => (end(), prop::collection::vec(flow(), 0..3))
            .prop_map(|((trial, job, side), flows)| Event::FlowsEnded { trial, job, side, flows }),
        2 => (trial(), "[a-c]",
            block()).prop_map(|(trial, host, block)| Event::Samples { trial, host, block }),
        2 => (prop::option::of(trial()),
            incident).prop_map(|(trial, incident)| Event::Incident { trial, incident }),
        1 => (trial(), number(), "[a-c]").prop_map(|(trial, n, host)| {
            let exchanges = vec![ClockExchange { sent: n, arrived: n / 2, answered: u64::MAX,
                heard: n }];
            let peer = PeerClock { ahead_ns: -(n as i64 / 2), at_ns: n, gains_ppb: -7,
                added_ns: 9 };
            let told = vec![ToldClock { job: 0, side: Side::Passive, barrier_ns: n, peer }];
            let clocks = TrialClocks { barrier_ns: n, hosts: vec![HostClock { host, exchanges }],
                told };
            Event::ClocksCompared { trial, clocks }
        }),
        2 => (trial(), outcome).prop_map(|(trial, outcome)| Event::TrialEnded { trial, outcome }),
        1 => number().prop_map(|at| Event::CampaignEnded { at: Nanos(at) }),
    ]
}
