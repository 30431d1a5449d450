//! Conductors that share no part of a host measure there at the same time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr, TcpStream};

use linerate_control::wire::{Greeting, HelloRole, Message, Prepare, PreparedJob, Share};
use linerate_control::{Access, AgentOptions, ControlError, Progress, run};
use linerate_load::Secret;
use linerate_model::{Endpoint, Event, IncidentKind, JobSpec, Side, TrialId};
use serde_json::json;

use crate::common::{Listening, Recorded, endpoint, job, receive, send, trial};

/// CPU that no host has: nothing runs there.
const FAR: usize = 60_000;

fn share(cpu: usize) -> Share {
    Share { cpus: [cpu].into(), ..Share::default() }
}

/// Opens a session for `share`. Returns the connection and the answer.
fn greet(agent: &Listening, name: &str, share: Option<Share>) -> (TcpStream, Message) {
    let mut greeting = Greeting::new(HelloRole::Conductor, name);
    greeting.share = share;
    let mut socket = TcpStream::connect(agent.address).unwrap();
    send(&mut socket, Message::Hello(Box::new(greeting)));
    let answer = receive(&mut socket);
    (socket, answer)
}

/// Opens a session that is served.
fn served(agent: &Listening, name: &str, cpu: usize) -> TcpStream {
    let (socket, answer) = greet(agent, name, Some(share(cpu)));
    assert!(matches!(answer, Message::Hello(_)), "{answer:?}");
    socket
}

fn end(name: &str, cpu: Option<usize>) -> Endpoint {
    let cpus: Vec<usize> = cpu.into_iter().collect();
    let own: IpAddr = Ipv4Addr::LOCALHOST.into();
    Endpoint { pin: !cpus.is_empty(), cpus, ..endpoint(name, Some(own)) }
}

fn stream(cpu: Option<usize>) -> JobSpec {
    job("tcp_stream", end("a", cpu), end("b", cpu), json!({}))
}

/// Waits until the conductor of `cpu` has left.
fn wait_for_end(agent: &Listening, cpu: usize) {
    while !matches!(greet(agent, "next", Some(share(cpu))).1, Message::Hello(_)) {
        std::thread::yield_now();
    }
}

#[test]
fn a_campaign_beside_others_that_use_other_cpus_is_served_and_each_trial_names_them() {
    let agent = Listening::start(AgentOptions::default(), Access::Loopback);
    let _there = served(&agent, "there", FAR);
    let mut brief = Some(served(&agent, "brief", FAR + 1));
    let mut recorded = Recorded::default();
    let trials = [0, 1].map(|id| trial(id, vec![stream(Some(0))]));
    let summary = run(agent.campaign(trials.into()), &mut recorded, &mut |progress| {
        if matches!(progress, Progress::TrialEnded { .. }) && brief.take().is_some() {
            wait_for_end(&agent, FAR + 1);
        }
    });
    assert_eq!(summary.unwrap().completed, 2, "{:?}", recorded.incidents());
    let named = |trial: u32, name: &str| {
        recorded.events.iter().any(|event| match event {
            Event::Incident { trial: of, incident } => {
                *of == Some(TrialId(trial))
                    && incident.kind == IncidentKind::Neighbour
                    && incident.message.starts_with(name)
            }
            _ => false,
        })
    };
    let all = [0, 1].map(|trial| ["there (", "brief ("].map(|name| named(trial, name)));
    assert_eq!(all, [[true, true], [true, false]], "{:?}", recorded.incidents());
}

#[test]
fn a_campaign_that_needs_the_same_cpu_or_the_whole_host_is_refused_with_the_reason() {
    let agent = Listening::start(AgentOptions::default(), Access::Loopback);
    let _there = served(&agent, "there", 0);
    for (cpu, why) in
        [(Some(0), ", which also uses CPU 0"), (None, "this campaign needs the whole")]
    {
        let campaign = agent.campaign(vec![trial(0, vec![stream(cpu)])]);
        let error = run(campaign, &mut Recorded::default(), &mut |_| {}).unwrap_err();
        let ControlError::Busy { by, .. } = &error else { panic!("{error}") };
        assert!(by.starts_with("there (") && by.contains(why), "{by}");
    }
    for (returns, alone) in [(true, false), (false, true)] {
        let mut changing = agent.campaign(vec![trial(0, vec![stream(Some(1))])]);
        (changing.options.returns, changing.options.alone) = (returns, alone);
        let error = run(changing, &mut Recorded::default(), &mut |_| {}).unwrap_err();
        assert!(matches!(error, ControlError::Busy { .. }), "it may change settings: {error}");
    }
}

#[test]
fn the_number_of_campaigns_at_a_time_is_bounded() {
    let agent = Listening::start(AgentOptions::default(), Access::Loopback);
    let mut served: Vec<TcpStream> = Vec::new();
    let why = loop {
        match greet(&agent, "one of many", Some(share(FAR + served.len()))) {
            (socket, Message::Hello(_)) => served.push(socket),
            (_, Message::Busy { by, .. }) => break by,
            (_, answer) => panic!("{answer:?}"),
        }
    };
    assert_eq!(served.len(), 64);
    assert!(why.ends_with(", one of as many campaigns as an agent serves at a time"), "{why}");
}

#[test]
fn a_trial_beyond_what_its_campaign_announced_is_refused_and_the_session_goes_on() {
    let agent = Listening::start(AgentOptions::default(), Access::Loopback);
    let announced = Share { devices: ["lo".to_owned()].into(), ..share(0) };
    let (mut socket, answer) = greet(&agent, "greedy", Some(announced));
    assert!(matches!(answer, Message::Hello(_)), "{answer:?}");
    let prepare = |id, cpu| Prepare {
        trial: TrialId(id),
        phases: trial(id, Vec::new()).phases,
        jobs: vec![PreparedJob {
            job: 0,
            side: Side::Passive,
            workload: "tcp_stream".into(),
            params: Default::default(),
            local: end("a", cpu),
            background: None,
            seed: 1,
            secret: Secret([0; 16]),
            peer_clock: None,
        }],
        patience_ms: 1_000,
        sample_period_ms: 100,
        legs: vec![],
        counts_often: false,
    };
    for (id, cpu) in [(1, Some(1)), (2, None)] {
        send(&mut socket, Message::Prepare(Box::new(prepare(id, cpu))));
        let Message::Done { trial, failed, .. } = receive(&mut socket) else { panic!("{id}") };
        assert_eq!(trial, TrialId(id));
        assert!(failed.unwrap().contains("more of this host than its campaign announced"));
    }
    send(&mut socket, Message::Prepare(Box::new(prepare(3, Some(0)))));
    let answer = receive(&mut socket);
    assert!(matches!(answer, Message::Offers { .. }), "{answer:?}");
}
