//! Strangers on the control port while a campaign runs: random bytes, half frames, slow ones, a
//! second conductor.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_control::wire::{
    Greeting, HelloRole, Message, PROTOCOL_VERSION, Prepare, PreparedJob, decode, encode,
};
use linerate_control::{
    Access, Agent, AgentOptions, CampaignRun, ControlError, Exit, Timeouts, Tuner, run,
};
use linerate_load::{
    Listener, LoadError, Offer, Parameter, Patience, Secret, Setup, Worker, Workload,
};
use linerate_model::{
    HostAddress, IncidentKind, Nanos, ParamError, Params, Side, TrialId, TrialOutcome,
};
use serde_json::json;

use crate::common::{ANY_PORT, Listening, Recorded, campaign, endpoint, job, receive, send, trial};
use crate::host::{Namespace, skip, tried};

fn campaign_at(address: SocketAddr, n_trials: u32) -> CampaignRun {
    let null = || vec![job("null", endpoint("a", None), endpoint("b", None), json!({}))];
    let mut campaign = campaign((0..n_trials).map(|id| trial(id, null())).collect());
    campaign.testbed.hosts = vec![("here".into(), HostAddress::Tcp(address.to_string()))];
    campaign
}

fn serve(options: AgentOptions) -> Listening {
    Listening::start(options, Access::Loopback)
}

/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(50);

fn quick() -> AgentOptions {
    let timeouts = Timeouts { handshake: Duration::from_millis(500), ..Timeouts::default() };
    AgentOptions { timeouts, ..AgentOptions::default() }
}

/// Reads everything that an agent sends until it closes the connection.
fn last_words(mut socket: TcpStream) -> Vec<u8> {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut words = Vec::new();
    // A reset is an end too.
    let _ = socket.read_to_end(&mut words);
    words
}

fn hello(version: u32) -> Vec<u8> {
    let mut greeting = Greeting::new(HelloRole::Conductor, "test");
    greeting.version = version;
    encode(&Message::Hello(Box::new(greeting))).unwrap()
}

#[test]
fn strangers_that_send_rubbish_or_little_do_not_disturb_a_campaign() {
    let running = serve(AgentOptions::default());
    let address = running.address;
    let over = Arc::new(AtomicBool::new(false));
    let hostile = {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            let mut seed = 0x2545_f491_4f6c_dd1d_u64;
            let mut slow = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let bytes: Vec<u8> = (0..200)
                    .map(|_| {
                        // xorshift64 (Marsaglia 2003).
                        seed ^= seed << 13;
                        seed ^= seed >> 7;
                        seed ^= seed << 17;
                        seed as u8
                    })
                    .collect();
                let half = hello(PROTOCOL_VERSION);
                for payload in [
                    &bytes[..],
                    &half[..half.len() / 2],
                    b"GET / HTTP/1.1\r\n\r\n",
                    &[0, 0, 0, 1, b'x'],
                    &[],
                ] {
                    if let Ok(mut socket) = TcpStream::connect(address) {
                        let _ = socket.write_all(payload);
                        // Every other connection stays open and silent.
                        if payload.len() % 2 == 0 && slow.len() < 40 {
                            slow.push(socket);
                        }
                    }
                }
                thread::sleep(Duration::from_millis(20));
            }
        })
    };
    let mut recorded = Recorded::default();
    let summary = run(campaign_at(address, 3), &mut recorded, &mut |_| {}).unwrap();
    let began = Instant::now();
    while running.agent.rejected() <= 10 && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(20));
    }
    over.store(true, Ordering::Relaxed);
    hostile.join().unwrap();
    assert!(matches!(summary.exit, Exit::Completed), "{summary:?}");
    assert_eq!(summary.completed, 3, "{:?}", recorded.incidents());
    assert!(running.agent.rejected() > 10, "{}", running.agent.rejected());
    assert!(recorded.incidents().iter().any(|incident| incident.kind == IncidentKind::Rejected));
}

#[test]
fn a_silent_stranger_is_disconnected_after_the_time_of_a_handshake() {
    let running = serve(quick());
    let began = Instant::now();
    let mut socket = TcpStream::connect(running.address).unwrap();
    socket.write_all(&[0, 0]).unwrap();
    assert!(last_words(socket).is_empty());
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[test]
fn another_version_is_refused_with_both_versions_and_the_remedy() {
    let running = serve(quick());
    let mut socket = TcpStream::connect(running.address).unwrap();
    socket.write_all(&hello(99)).unwrap();
    let words = last_words(socket);
    let Ok(Some((Message::Refused { version, why, .. }, _))) = decode(&words) else {
        panic!("{words:?}")
    };
    assert_eq!(version, PROTOCOL_VERSION);
    assert!(
        why.contains("protocol 99") && why.contains("uses 4") && why.contains("install"),
        "{why}"
    );
}

#[test]
fn a_second_conductor_learns_who_is_being_served_and_is_served_afterwards() {
    let running = serve(AgentOptions::default());
    let address = running.address;
    let mut first = TcpStream::connect(address).unwrap();
    first.write_all(&hello(PROTOCOL_VERSION)).unwrap();
    let mut length = [0; 4];
    first.read_exact(&mut length).unwrap();

    let error = run(campaign_at(address, 1), &mut Recorded::default(), &mut |_| {}).unwrap_err();
    let ControlError::Busy { by, .. } = &error else { panic!("{error}") };
    assert!(by.starts_with("test ("), "{by}");

    drop(first);
    let until = Instant::now() + PATIENCE;
    let summary = loop {
        match run(campaign_at(address, 1), &mut Recorded::default(), &mut |_| {}) {
            Err(ControlError::Busy { .. }) if Instant::now() < until => thread::yield_now(),
            result => break result.unwrap(),
        }
    };
    assert_eq!(summary.completed, 1);
}

/// Greets the agent as the conductor `turn`. Returns the connection and the answer.
fn greet(address: SocketAddr, turn: u64, returns: bool) -> (TcpStream, Message) {
    let mut greeting = Greeting::new(HelloRole::Conductor, &format!("conductor {turn}"));
    (greeting.turn, greeting.returns) = (turn, returns);
    let mut socket = TcpStream::connect(address).unwrap();
    send(&mut socket, Message::Hello(Box::new(greeting)));
    let answer = receive(&mut socket);
    (socket, answer)
}

#[test]
fn conductors_that_wait_are_served_in_turn_and_see_how_many_come_first() {
    let running = serve(AgentOptions::default());
    let ask = |turn, returns| greet(running.address, turn, returns);
    let refused = |turn| match ask(turn, false).1 {
        Message::Busy { by, ahead, .. } => (by.split(" (").next().unwrap().to_owned(), ahead),
        served => panic!("{turn}: {served:?}"),
    };
    let (first, answer) = ask(1, true);
    assert!(matches!(answer, Message::Hello(_)), "{answer:?}");
    let asked = [2, 3, 2, 3, 4].map(refused);
    assert_eq!(asked, [0, 0, 0, 1, 2].map(|ahead| ("conductor 1".to_owned(), ahead)));
    let left = Instant::now();
    drop(first);
    let is_served = |turn: &u64| matches!(ask(*turn, false).1, Message::Hello(_));
    let mut rounds = (0..1_000).flat_map(|_| [4, 3, 2]);
    assert_eq!(rounds.find(is_served), Some(2));
    assert!(left.elapsed() > Duration::from_secs(1), "its command was expected back");
}

#[test]
fn a_conductor_that_vanishes_while_its_trial_waits_leaves_the_agent_to_the_next() {
    let running = serve(AgentOptions::default());
    let mut socket = TcpStream::connect(running.address).unwrap();
    socket.write_all(&hello(PROTOCOL_VERSION)).unwrap();
    let jobs = vec![PreparedJob {
        job: 0,
        workload: "tcp_stream".into(),
        side: Side::Passive,
        local: endpoint("a", Some(Ipv4Addr::LOCALHOST.into())),
        params: Params::default(),
        seed: 1,
        secret: Secret([0; 16]),
        background: None,
        peer_clock: None,
    }];
    let phases = trial(0, Vec::new()).phases;
    // The other end does not connect for a minute.
    let prepare = Prepare {
        trial: TrialId(0),
        phases,
        jobs,
        patience_ms: 60_000,
        sample_period_ms: 100,
        legs: vec![],
        counts_often: false,
    };
    let connect = Message::Connect { trial: TrialId(0), offers: vec![] };
    for message in [Message::Prepare(Box::new(prepare)), connect] {
        socket.write_all(&encode(&message).unwrap()).unwrap();
    }
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains("\"offers\"") {
        let mut bytes = [0; 4096];
        let read = socket.read(&mut bytes).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&said));
        said.extend(&bytes[..read]);
    }
    drop(socket);
    let until = Instant::now() + PATIENCE;
    let summary = loop {
        match run(campaign_at(running.address, 1), &mut Recorded::default(), &mut |_| {}) {
            Err(ControlError::Busy { .. }) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(20))
            }
            result => break result.unwrap(),
        }
    };
    assert_eq!(summary.completed, 1);
}

/// Network namespace whose loopback can drop all packets of a port.
struct Space(Namespace);

impl Space {
    /// Makes the namespace. Prints a skip and returns `None` if that is not possible.
    fn new() -> Option<Self> {
        let name = format!("lr-test-gone-{}", std::process::id());
        let space = Self(Namespace::new(name)?);
        space.0.ran("ip link set lo up");
        let table = "nft table ip t { chain c { type filter hook input priority 0; }; }";
        match tried(&format!("ip netns exec {} {table}", space.0.name)) {
            Ok(_) => Some(space),
            Err(complaint) => skip(complaint),
        }
    }

    fn cut(&self, port: u16) {
        for end in ["sport", "dport"] {
            self.0.ran(&format!("nft add rule ip t c tcp {end} {port} drop"));
        }
    }
}

/// Opens a session that is served and then sends nothing more.
fn silent_conductor(address: SocketAddr, tunes: bool) -> TcpStream {
    let mut greeting = Greeting::new(HelloRole::Conductor, "silent");
    greeting.tunes = tunes;
    let mut silent = TcpStream::connect(address).unwrap();
    silent.write_all(&encode(&Message::Hello(Box::new(greeting))).unwrap()).unwrap();
    assert!(silent.read(&mut [0; 4096]).unwrap() > 0, "it is served");
    silent
}

/// Requires that `attempt` is refused while the host of `silent` acknowledges, and succeeds once
/// that host is gone.
fn frees_its_place<T>(
    space: &Space,
    silent: &TcpStream,
    attempt: impl Fn() -> Result<T, ControlError>,
) -> T {
    assert!(matches!(attempt(), Err(ControlError::Busy { .. })));
    space.cut(silent.local_addr().unwrap().port());
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(ControlError::Busy { .. }) if Instant::now() < until => {}
            result => return result.unwrap_or_else(|error| panic!("{error}")),
        }
    }
}

/// The limit for silence is an hour here, so that only the question to the host can end a session.
#[test]
fn a_conductor_whose_host_is_gone_leaves_its_place_and_one_that_is_silent_does_not() {
    let Some(space) = Space::new() else { return };
    let timeouts = Timeouts { silence: Duration::from_secs(3_600), ..Timeouts::default() };
    linerate_sys::netns::within(&space.0.name, || {
        let running = serve(AgentOptions { timeouts, ..AgentOptions::default() });
        let address = running.address;
        let measuring = silent_conductor(address, false);
        let summary = frees_its_place(&space, &measuring, || {
            run(campaign_at(address, 1), &mut Recorded::default(), &mut |_| {})
        });
        assert_eq!(summary.completed, 1);
        let tuning = silent_conductor(address, true);
        let at = HostAddress::Tcp(address.to_string());
        frees_its_place(&space, &tuning, || Tuner::open("here", &at, None, "test"));
    })
    .unwrap();
}

#[test]
fn a_trial_that_needs_more_memory_than_a_conductor_may_have_is_refused_before_it_is_prepared() {
    for (memory, completed) in [(1 << 20, 0), (1 << 30, 1)] {
        let null = job("null", endpoint("a", None), endpoint("b", None), json!({ "workers": 4 }));
        let mut campaign = campaign(vec![trial(0, vec![null])]);
        campaign.agent =
            Agent::new(AgentOptions { memory: Some(memory), ..AgentOptions::default() });
        let mut recorded = Recorded::default();
        let summary = run(campaign, &mut recorded, &mut |_| {}).unwrap();
        assert_eq!(summary.completed, completed, "{:?}", recorded.incidents());
        let incidents = recorded.incidents();
        let refusals = incidents.iter().filter(|one| one.message.contains("it needs up to"));
        assert_eq!(refusals.count(), 1 - completed, "{incidents:?}");
    }
}

/// Workload that fails in the way its parameters name.
struct Broken;

impl Workload for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn summary(&self) -> &'static str {
        "goes wrong"
    }

    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    fn check(&self, _params: &Params) -> Vec<ParamError> {
        Vec::new()
    }

    fn listen(&self, setup: &Setup<'_>) -> Result<Box<dyn Listener>, LoadError> {
        assert_ne!(setup.params.get("panic"), Some(&json!("listen")), "listened");
        let accept = setup.params.get("panic") == Some(&json!("accept"));
        Ok(Box::new(BrokenListener { accept }))
    }

    fn connect(
        &self,
        setup: &Setup<'_>,
        _offer: &Offer,
    ) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        assert_ne!(setup.params.get("panic"), Some(&json!("connect")), "connected");
        Err(LoadError::Unsupported { what: "broken".into(), why: "it never works".into() })
    }
}

struct BrokenListener {
    accept: bool,
}

impl Listener for BrokenListener {
    fn offer(&self) -> Offer {
        Offer { addresses: Vec::new() }
    }

    fn accept(self: Box<Self>, _patience: Patience<'_>) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        assert!(!self.accept, "accepted");
        Ok(Vec::new())
    }
}

#[test]
fn a_workload_that_panics_or_fails_costs_one_trial_and_reports_the_reason() {
    static BROKEN: Broken = Broken;
    let workloads = |name: &str| {
        if name == "broken" {
            Some(&BROKEN as &dyn Workload)
        } else {
            linerate_load::workload(name)
        }
    };
    let ends = || (endpoint("a", None), endpoint("b", None));
    let broken = |id, how: &str| {
        let (a, b) = ends();
        trial(id, vec![job("broken", a, b, json!({ "panic": how }))])
    };
    let (a, b) = ends();
    let hows = ["listen", "accept", "connect", "no"];
    let mut trials: Vec<_> = (0..).zip(hows).map(|(id, how)| broken(id, how)).collect();
    trials.push(trial(4, vec![job("no_such_workload", a.clone(), b.clone(), json!({}))]));
    trials.push(trial(5, vec![job("null", a, b, json!({}))]));
    let mut campaign = campaign(trials);
    campaign.agent = Agent::new(AgentOptions { workloads, ..AgentOptions::default() });
    let mut recorded = Recorded::default();
    let summary = run(campaign, &mut recorded, &mut |_| {}).unwrap();
    assert_eq!((summary.completed, summary.failed), (1, 5), "{:?}", recorded.incidents());
    let messages: Vec<String> =
        recorded.incidents().into_iter().map(|incident| incident.message).collect();
    for expected in
        ["listened", "accepted", "connected", "it never works", "no workload `no_such_workload`"]
    {
        let is_told = messages.iter().any(|message| message.contains(expected));
        assert!(is_told, "{expected}: {messages:?}");
    }
}

#[test]
fn a_campaign_stops_within_a_trial_when_asked_to() {
    let (a, b) = (endpoint("a", None), endpoint("b", None));
    let mut long = trial(0, vec![job("null", a, b, json!({}))]);
    long.phases.measure = Nanos::from_secs(60);
    let campaign = campaign(vec![long]);
    let stop = Arc::clone(&campaign.stop);
    let mut recorded = Recorded::default();
    let began = Instant::now();
    let summary = run(campaign, &mut recorded, &mut |progress| {
        if matches!(progress, linerate_control::Progress::Intervals { .. }) {
            stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(matches!(summary.exit, Exit::Interrupted));
    assert_eq!(summary.interrupted, 1);
    assert!(began.elapsed() < PATIENCE);
    let outcome = recorded.events.iter().find_map(|event| match event {
        linerate_model::Event::TrialEnded { outcome, .. } => Some(*outcome),
        _ => None,
    });
    assert_eq!(outcome, Some(TrialOutcome::Interrupted));
}

#[test]
fn a_command_without_the_protocol_is_reported_with_its_last_output() {
    let mut campaign = campaign_at(ANY_PORT, 1);
    let argv = ["sh", "-c", "echo 'Permission denied (publickey).' >&2; exit 255"];
    let address = HostAddress::Command(argv.map(str::to_owned).to_vec());
    campaign.testbed.hosts = vec![("here".into(), address)];
    let error = run(campaign, &mut Recorded::default(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("Permission denied (publickey)."), "{error}");
}

#[test]
fn a_host_that_is_down_is_named_with_the_remedy() {
    let nobody = std::net::TcpListener::bind(ANY_PORT).unwrap().local_addr().unwrap();
    let error = run(campaign_at(nobody, 1), &mut Recorded::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, ControlError::HostDown { .. }), "{error}");
    assert!(error.to_string().contains("linerate agent"), "{error}");
}
