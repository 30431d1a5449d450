//! Campaigns of one or two trials, and a recorder that keeps everything.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_control::conductor::RunOptions;
use linerate_control::wire::{Message, decode, encode};
use linerate_control::{Access, Agent, AgentOptions, CampaignRun, RunSummary, Stopper};
use linerate_model::{
    CampaignHeader, Counter, Endpoint, Event, HostAddress, Incident, JobSpec, Nanos, Params,
    Phases, Recorder, RecorderError, Side, Testbed, TestbedKind, TrialId, TrialSpec, Warmup,
};
use serde_json::{Value, json};

pub(crate) const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) fn header() -> CampaignHeader {
    CampaignHeader {
        id: "20261121T000500Z-7f3a".into(),
        name: "test".into(),
        started: Nanos::from_secs(1_795_219_500),
        seed: 42,
        testbed: TestbedKind::Loopback,
        version: "0".into(),
        argv: vec!["linerate".into()],
        ..CampaignHeader::default()
    }
}

pub(crate) fn endpoint(name: &str, address: Option<IpAddr>) -> Endpoint {
    let text = json!({ "name": name, "host": "here", "address": address, "device": null });
    serde_json::from_value(text).expect("what is left out has a default")
}

pub(crate) fn job(workload: &str, from: Endpoint, to: Endpoint, params: Value) -> JobSpec {
    let Value::Object(params) = params else { panic!("parameters are a table") };
    JobSpec { workload: workload.into(), from, to, params: Params(params), background: None }
}

/// Returns a trial of 150 ms.
pub(crate) fn trial(id: u32, jobs: Vec<JobSpec>) -> TrialSpec {
    let phases = Phases {
        warmup: Warmup::Fixed(Nanos::from_millis(50)),
        measure: Nanos::from_millis(100),
        drain: Nanos::from_millis(50),
        rest: Nanos(0),
        interval: Nanos::from_millis(50),
    };
    TrialSpec { id: TrialId(id), sweep: "s".into(), seed: 7, phases, jobs, ..TrialSpec::default() }
}

/// Sends `message` as a conductor does.
pub(crate) fn send(socket: &mut TcpStream, message: Message) {
    socket.write_all(&encode(&message).expect("it is short")).expect("it is open");
}

/// Returns the next message.
pub(crate) fn receive(socket: &mut TcpStream) -> Message {
    let mut bytes = vec![0; 4];
    socket.read_exact(&mut bytes).expect("a message");
    let length = u32::from_be_bytes(bytes[..].try_into().expect("four bytes"));
    bytes.resize(4 + length as usize, 0);
    socket.read_exact(&mut bytes[4..]).expect("the whole message");
    decode(&bytes).expect("a message").expect("it is whole").0
}

/// An agent that listens on loopback until this value goes.
pub(crate) struct Listening {
    pub(crate) agent: Agent,
    pub(crate) address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    pub(crate) fn start(options: AgentOptions, access: Access) -> Self {
        let agent = Agent::new(options);
        let serving = agent.listen(ANY_PORT, access).expect("loopback has ports");
        let (address, stopper) = (serving.address(), serving.stopper());
        let thread = Some(std::thread::spawn(move || serving.run()));
        Self { agent, address, stopper, thread }
    }

    /// Returns a campaign of `trials` at it.
    pub(crate) fn campaign(&self, trials: Vec<TrialSpec>) -> CampaignRun {
        let mut campaign = campaign(trials);
        campaign.testbed.hosts = vec![("here".into(), HostAddress::Tcp(self.address.to_string()))];
        campaign
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stopper.stop();
        // A panic of the agent fails the test, unless the test has failed already.
        let ended = self.thread.take().expect("it goes once").join();
        assert!(ended.is_ok() || std::thread::panicking(), "the agent panicked");
    }
}

/// Runs campaigns with longer and longer load until `is_enough`, also on a machine that hardly
/// gives this process any CPU time.
pub(crate) fn run_until(
    campaign: impl Fn(Nanos) -> CampaignRun,
    is_enough: impl Fn(&Recorded) -> bool,
) -> (RunSummary, Recorded) {
    let mut loads = [100, 1_000, 10_000].into_iter().map(|milliseconds| {
        let mut recorded = Recorded::default();
        let run = linerate_control::run(
            campaign(Nanos::from_millis(milliseconds)),
            &mut recorded,
            &mut |_| {},
        );
        (run.expect("its agents are in this process"), recorded)
    });
    loads.find(|(_, recorded)| is_enough(recorded)).expect("it happened in ten seconds of load")
}

pub(crate) fn campaign(trials: Vec<TrialSpec>) -> CampaignRun {
    CampaignRun {
        header: header(),
        testbed: Testbed {
            hosts: vec![("here".into(), HostAddress::InProcess)],
            endpoints: Vec::new(),
            emulated: false,
        },
        trials,
        done: HashSet::new(),
        recorded: Vec::new(),
        recorded_hosts: Vec::new(),
        order: linerate_model::plan::Order::Interleaved,
        keys: None,
        agent: Agent::new(AgentOptions::default()),
        stop: std::sync::Arc::default(),
        pause: std::sync::Arc::default(),
        options: RunOptions { patience: Duration::from_secs(30), ..RunOptions::default() },
    }
}

#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) events: Vec<Event>,
    /// Number of events that can be recorded; the next one fails.
    pub(crate) room: Option<usize>,
}

impl Recorder for Recorded {
    fn record(&mut self, event: &Event) -> Result<(), RecorderError> {
        if self.room.is_some_and(|room| self.events.len() >= room) {
            return Err(RecorderError("append to ledger: no space left on device".into()));
        }
        self.events.push(event.clone());
        Ok(())
    }
}

impl Recorded {
    pub(crate) fn name(event: &Event) -> String {
        serde_json::to_value(event).expect("an event is JSON")["event"]
            .as_str()
            .expect("it is tagged")
            .to_owned()
    }

    /// Returns the names of the events in the order of their first occurrence.
    pub(crate) fn names_once(&self) -> Vec<String> {
        let mut names = Vec::new();
        for name in self.events.iter().map(Self::name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    pub(crate) fn incidents(&self) -> Vec<Incident> {
        let incidents = self.events.iter().filter_map(|event| match event {
            Event::Incident { incident, .. } => Some(incident.clone()),
            _ => None,
        });
        incidents.collect()
    }

    pub(crate) fn total(&self, of: u32, end: Side, counter: Counter) -> u64 {
        let counts = self.events.iter().map(|event| match event {
            Event::Intervals { job, side, intervals, .. } if *job == of && *side == end => {
                intervals.iter().map(|interval| interval.counters[counter]).sum()
            }
            _ => 0,
        });
        counts.sum()
    }

    pub(crate) fn flow_total(&self, of: u32, end: Side, counter: Counter) -> u64 {
        let counts = self.events.iter().map(|event| match event {
            Event::FlowsEnded { job, side, flows, .. } if *job == of && *side == end => {
                flows.iter().map(|flow| flow.counters[counter]).sum()
            }
            _ => 0,
        });
        counts.sum()
    }
}
