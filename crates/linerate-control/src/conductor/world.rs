//! Simulated world: the conductor's core, agents that die, stall and lie, and a clock that jumps to
//! the next event.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod mixes;

use std::collections::{BTreeMap, HashSet};

use linerate_load::Offer;
#[cfg(test)]
use linerate_model::{Background, Endpoint, JobSpec, Ratio, TrialOutcome, Until, Warmup};
use linerate_model::{
    CampaignHeader, Counter, Event, Incident, IncidentKind, Interval, JobRecord, Nanos, Phases,
    RecorderError, Side, TestbedKind, TrialId, TrialRecord, TrialSpec,
};
#[cfg(test)]
use proptest::prelude::*;
use serde_json::Value;
#[cfg(test)]
use serde_json::json;

#[cfg(test)]
use super::Exit;
use super::core::{Conductor, Input, Now, Output};
use super::{RunOptions, RunSummary};
use crate::clock::stamp;
use crate::wire::{JobOffer, Message, Prepare, PreparedJob, name};
use crate::{ControlError, Result};

/// Travel time of a message, one way.
const TRAVEL: Nanos = Nanos(100_000);
const WALL: Nanos = Nanos::from_secs(1_795_219_200);

/// Fault of an agent when the `nth` (from 0) message called `at` reaches it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) at: &'static str,
    pub(super) nth: u32,
    pub(super) kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "tests of the conductor itself have every fault"))]
pub(super) enum FaultKind {
    /// The connection ends.
    Die,
    /// The agent sends nothing any more.
    Stall,
    /// The agent does not answer this message.
    Ignore,
    /// The agent reports a failure.
    Fail,
    /// The agent reports incidents without end.
    Flood,
    /// The agent offers a third host's address.
    Elsewhere,
}

#[derive(Default)]
pub(super) struct FakeAgent {
    offset_ns: i64,
    pub(super) faults: Vec<Fault>,
    heard: BTreeMap<&'static str, u32>,
    connected: bool,
    stalled: bool,
    /// Number of attempts to reach it that fail after it was lost.
    pub(super) away_for: u32,
    /// Error of the first attempt to reach it.
    pub(super) at_first: Option<ControlError>,
    prepared: Option<Prepare>,
}

enum Happening {
    Input(Input),
    Delivery { host: usize, message: Message, session: u32 },
    Say { host: usize, message: Message, session: u32 },
}

/// Returns the record of one end of a job of a trial.
pub(super) type Load<'a> = Box<dyn FnMut(TrialId, u32, Side) -> JobRecord + 'a>;
/// Called at the start of each trial; `false` stops the campaign.
pub(super) type Starting<'a> = Box<dyn FnMut(&TrialSpec) -> bool + 'a>;

#[derive(Default)]
pub(super) struct World<'a> {
    pub(super) header: CampaignHeader,
    pub(super) hosts: [String; 2],
    /// Result of loads, in place of `payload`.
    pub(super) load: Option<Load<'a>>,
    pub(super) starting: Option<Starting<'a>>,
    trials: Vec<TrialSpec>,
    now: Nanos,
    /// Number of inputs and wake-ups so far.
    n_steps: usize,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    pub(super) agents: Vec<FakeAgent>,
    sessions: Vec<u32>,
    pub(super) events: Vec<Event>,
    /// Number of events that can be recorded; the next one fails.
    room: usize,
    /// Trial after whose end host a is suspended for two seconds, which stops its monotonic clock.
    sleeps_after: Option<TrialId>,
    pub(super) result: Option<Result<RunSummary>>,
    /// Bytes that arrive in each trial, by its number. If empty, no payload is counted.
    payload: Vec<u64>,
    /// Looks so far: runs, half width, and number of further runs.
    looks: Vec<(u32, Option<f64>, usize)>,
    /// Trials of an earlier execution.
    recorded: Vec<TrialRecord>,
    /// Time from the order to start until the workers of a host are ready, by number of the trial;
    /// a millisecond in all others.
    needs: Vec<Nanos>,
    /// Time that host a had from the order to start until the barrier, trial by trial.
    leads: Vec<Nanos>,
}

#[cfg(test)]
fn phases() -> Phases {
    Phases {
        warmup: Warmup::Fixed(Nanos::from_secs(1)),
        measure: Nanos::from_secs(5),
        drain: Nanos::from_secs(1),
        rest: Nanos::from_secs(1),
        interval: Nanos::from_millis(500),
    }
}

#[cfg(test)]
fn endpoint(host: &str) -> Endpoint {
    let text = json!({ "name": host, "host": host, "address": null, "device": null });
    serde_json::from_value(text).expect("what is left out has a default")
}

#[cfg(test)]
pub(super) fn trial(id: u32, from: &str, to: &str) -> TrialSpec {
    let job = JobSpec {
        workload: "null".into(),
        from: endpoint(from),
        to: endpoint(to),
        ..JobSpec::default()
    };
    TrialSpec {
        id: TrialId(id),
        sweep: "s".into(),
        repeat: id,
        seed: 1,
        phases: phases(),
        jobs: vec![job],
        ..TrialSpec::default()
    }
}

fn header() -> CampaignHeader {
    CampaignHeader {
        id: "c".into(),
        name: "c".into(),
        started: WALL,
        seed: 1,
        testbed: TestbedKind::Hosts,
        version: "0".into(),
        ..CampaignHeader::default()
    }
}

impl FakeAgent {
    /// Creates an agent without faults whose clock is `offset_ns` ahead.
    fn new(offset_ns: i64) -> Self {
        Self { offset_ns, ..Self::default() }
    }
}

impl World<'_> {
    /// Creates hosts `a` and `b`, whose clocks are 1000 s ahead and 50 s behind.
    pub(super) fn new() -> Self {
        Self {
            header: header(),
            hosts: ["a".to_owned(), "b".to_owned()],
            now: Nanos::from_secs(100),
            agents: vec![FakeAgent::new(1_000_000_000_000), FakeAgent::new(-50_000_000_000)],
            sessions: vec![0, 0],
            room: usize::MAX,
            ..Self::default()
        }
    }

    #[cfg(test)]
    fn with_fault(host: usize, fault: Fault) -> Self {
        let mut world = Self::new();
        world.agents[host].faults.push(fault);
        world
    }

    fn clock(&self, host: usize) -> u64 {
        self.now.0.wrapping_add_signed(self.agents[host].offset_ns)
    }

    fn later(&mut self, at: Nanos, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at.0, self.sequence), happening);
    }

    /// Runs a campaign until it ends, or is killed at `until`.
    pub(super) fn run(&mut self, trials: Vec<TrialSpec>, done: &HashSet<TrialId>, until: Nanos) {
        self.trials.clone_from(&trials);
        let options = RunOptions::default();
        let mut conductor = Conductor::new(
            self.header.clone(),
            &self.hosts,
            trials,
            done,
            options,
            Box::new(|| [7; 16]),
        )
        .expect("hosts are known");
        conductor.continue_looks(&self.recorded, Vec::new());
        let outputs = conductor.begin(self.at());
        self.carry_out(outputs);
        while self.result.is_none() && self.now < until {
            self.n_steps += 1;
            let wake = conductor.wake_at().max(self.now);
            let input = match self.queue.first_key_value() {
                Some((&(at, _), _)) if at <= wake.0 => {
                    let ((at, _), happening) = self.queue.pop_first().expect("it was just seen");
                    self.now = Nanos(at).max(self.now);
                    self.happen(happening)
                }
                _ => {
                    self.now = wake;
                    Some(Input::Tick)
                }
            };
            if let Some(input) = input {
                let outputs = conductor.handle(input, self.at());
                self.carry_out(outputs);
            }
        }
    }

    fn at(&self) -> Now {
        Now { mono: self.now, wall: WALL + self.now }
    }

    fn happen(&mut self, happening: Happening) -> Option<Input> {
        match happening {
            Happening::Input(input) => Some(input),
            Happening::Say { host, message, session } => (self.sessions[host] == session
                && self.agents[host].connected
                && !self.agents[host].stalled)
                .then_some(Input::Heard { host, message, at: self.now }),
            Happening::Delivery { host, message, session } => {
                if self.sessions[host] == session
                    && self.agents[host].connected
                    && !self.agents[host].stalled
                {
                    self.deliver(host, message);
                }
                None
            }
        }
    }

    fn say(&mut self, host: usize, after: Nanos, message: Message) {
        let session = self.sessions[host];
        self.later(self.now + after + TRAVEL, Happening::Say { host, message, session });
    }

    fn deliver(&mut self, host: usize, message: Message) {
        let called = name(&message);
        let nth = self.agents[host].heard.entry(called).or_default();
        let this = *nth;
        *nth += 1;
        let fault = self.agents[host]
            .faults
            .iter()
            .find(|fault| fault.at == called && fault.nth == this)
            .copied();
        match fault.map(|fault| fault.kind) {
            Some(FaultKind::Die) => {
                self.agents[host].connected = false;
                let why = "the other end closed the connection".into();
                self.later(self.now + TRAVEL, Happening::Input(Input::Lost { host, why }));
                return;
            }
            Some(FaultKind::Stall) => {
                self.agents[host].stalled = true;
                return;
            }
            Some(FaultKind::Ignore) => return,
            Some(FaultKind::Fail) => {
                if let Some(prepare) = &self.agents[host].prepared {
                    let (trial, failed) =
                        (prepare.trial, Some("connect job 0 (null): refused".into()));
                    self.say(
                        host,
                        Nanos(0),
                        Message::Done { trial, started_ns: Vec::new(), ready_ns: None, failed },
                    );
                }
                return;
            }
            Some(FaultKind::Flood) => {
                if let Some(prepare) = &self.agents[host].prepared {
                    let trial = Some(prepare.trial);
                    for n in 0..10_000 {
                        let incident = Incident {
                            host: String::new(),
                            kind: IncidentKind::Failed,
                            message: format!("flood {n}"),
                        };
                        self.say(host, Nanos(n), Message::Incident { trial, incident });
                    }
                }
            }
            Some(FaultKind::Elsewhere) => {
                let Message::Prepare(prepare) = message else { return self.answer(host, message) };
                let passive = prepare.jobs.iter().filter(|job| job.side == Side::Passive);
                let addresses = ["192.0.2.2:4000", "198.51.100.9:53"]
                    .map(|address| address.parse().expect("an address"))
                    .to_vec();
                let offer = Offer { addresses };
                let offer = |job: &PreparedJob| JobOffer { job: job.job, offer: offer.clone() };
                let offers = passive.map(offer).collect();
                return self.say(host, Nanos(0), Message::Offers { trial: prepare.trial, offers });
            }
            None => {}
        }
        self.answer(host, message);
    }

    fn answer(&mut self, host: usize, message: Message) {
        match message {
            Message::Ping { n, sent_ns } => {
                let clock_ns = self.clock(host);
                self.say(
                    host,
                    Nanos(0),
                    Message::Pong { n, clock_ns, sent_ns, answered_ns: clock_ns },
                );
            }
            Message::Prepare(prepare) => {
                let passive = prepare.jobs.iter().filter(|job| job.side == Side::Passive);
                let offer =
                    || Offer { addresses: vec!["0.0.0.0:4000".parse().expect("an address")] };
                let offers = passive.map(|job| JobOffer { job: job.job, offer: offer() }).collect();
                self.say(host, Nanos(0), Message::Offers { trial: prepare.trial, offers });
                self.agents[host].prepared = Some(*prepare);
            }
            Message::Connect { trial, offers } => {
                // The conductor has replaced the wildcard: by the host's address, or by loopback if
                // both ends are on one host.
                let jobs = &self.agents[host].prepared.as_ref().expect("it was prepared").jobs;
                let both_ends_here = jobs.iter().any(|job| job.side != jobs[0].side);
                let expected = if both_ends_here { "127.0.0.1" } else { "192.0.2.2" };
                assert!(
                    offers
                        .iter()
                        .all(|offer| offer.offer.addresses[0].ip().to_string() == expected)
                );
                self.say(host, Nanos(0), Message::Ready { trial });
            }
            Message::StartAt { trial, clock_ns } => self.carry_out_trial(host, trial, clock_ns),
            Message::Abort { trial } => {
                self.agents[host].prepared = None;
                self.say(
                    host,
                    Nanos(0),
                    Message::Done { trial, started_ns: Vec::new(), ready_ns: None, failed: None },
                );
            }
            _ => {}
        }
    }

    fn carry_out_trial(&mut self, host: usize, trial: TrialId, clock_ns: u64) {
        let Some(prepare) = self.agents[host].prepared.clone() else { return };
        let wait = Nanos(clock_ns.checked_sub(self.clock(host)).expect("the barrier lies ahead"));
        for job in &prepare.jobs {
            let (job, side) = (job.job, job.side);
            let made = self.load.as_mut().map(|load| load(trial, job, side));
            let JobRecord { intervals, flows } = made.unwrap_or_else(|| JobRecord {
                intervals: self.intervals(trial, side, prepare.phases),
                flows: Vec::new(),
            });
            self.say(
                host,
                wait + Nanos::from_secs(1),
                Message::Intervals { trial, job, side, intervals },
            );
            // A report about a job of another host, which the conductor must drop.
            self.say(host, wait, Message::Intervals { trial, job: 9, side, intervals: Vec::new() });
            let end = wait + prepare.phases.loaded() + prepare.phases.drain;
            self.say(host, end, Message::FlowsEnded { trial, job, side, flows });
        }
        let end = wait + prepare.phases.loaded() + prepare.phases.drain;
        self.say(host, end, Message::Samples { trial, block: Box::default() });
        // Host a starts 30 us late.
        let started_ns = vec![clock_ns + if host == 0 { 30_000 } else { 0 }];
        let needed = self.needs.get(trial.0 as usize).copied().unwrap_or(Nanos::from_millis(1));
        let ready_ns = Some(self.clock(host) + needed.0);
        if host == 0 {
            self.leads.push(wait);
        }
        self.say(host, end, Message::Done { trial, started_ns, ready_ns, failed: None });
    }

    fn intervals(&self, trial: TrialId, side: Side, phases: Phases) -> Vec<Interval> {
        let mut interval = Interval { end: Nanos::from_millis(500), ..Interval::default() };
        if let Some(payload) = self.payload.get(trial.0 as usize) {
            interval.end = phases.loaded();
            let counter =
                if side == Side::Active { Counter::PayloadSent } else { Counter::PayloadReceived };
            interval.counters[counter] = *payload;
        }
        vec![interval]
    }

    fn carry_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Connect { host, .. } => self.connect(host),
                Output::Send { host, mut message } => {
                    stamp(&mut message, self.now);
                    let session = self.sessions[host];
                    self.later(self.now + TRAVEL, Happening::Delivery { host, message, session });
                }
                Output::Disconnect { host } => self.agents[host].connected = false,
                Output::Record(event) => {
                    if self.events.len() == self.room {
                        let error =
                            RecorderError("append to ledger: no space left on device".into());
                        self.later(self.now, Happening::Input(Input::RecorderFailed(error)));
                    }
                    if let Event::TrialEnded { trial, .. } = &event
                        && self.sleeps_after == Some(*trial)
                    {
                        self.agents[0].offset_ns -= 2_000_000_000;
                    }
                    self.events.push(event);
                }
                Output::Finish(result) => self.result = Some(*result),
                Output::Trial { trial, outcome: None, .. } => {
                    let goes_on =
                        self.starting.as_mut().is_none_or(|starting| starting(&self.trials[trial]));
                    if !goes_on {
                        self.later(self.now, Happening::Input(Input::Stop));
                    }
                }
                Output::Looked { look, more, .. } => {
                    self.looks.push((look.runs, look.half_width, more))
                }
                Output::Flush
                | Output::Trial { .. }
                | Output::Searched { .. }
                | Output::SearchEnded { .. } => {}
            }
        }
    }

    fn connect(&mut self, host: usize) {
        let agent = &mut self.agents[host];
        let input = if let Some(error) = agent.at_first.take() {
            Input::Unreached { host, error }
        } else if agent.away_for > 0 && agent.heard.values().sum::<u32>() > 0 {
            agent.away_for -= 1;
            let (host_name, operation) = (self.hosts[host].clone(), "connect to agent on");
            let error = ControlError::HostDown {
                host: host_name,
                operation,
                cause: "refused".into(),
                remedy: "wait",
            };
            Input::Unreached { host, error }
        } else {
            agent.connected = true;
            agent.stalled = false;
            agent.prepared = None;
            self.sessions[host] += 1;
            Input::Joined {
                host,
                facts: Value::Null,
                address: Some("192.0.2.2".parse().expect("an address")),
            }
        };
        self.later(self.now + TRAVEL, Happening::Input(input));
    }

    #[cfg(test)]
    fn summary(&self) -> &RunSummary {
        self.result.as_ref().expect("the campaign has ended").as_ref().expect("it was run")
    }

    #[cfg(test)]
    fn outcomes(&self) -> Vec<(u32, TrialOutcome)> {
        let ended = self.events.iter().filter_map(|event| match event {
            Event::TrialEnded { trial, outcome } => Some((trial.0, *outcome)),
            _ => None,
        });
        ended.collect()
    }

    #[cfg(test)]
    fn incidents(&self, of: IncidentKind) -> Vec<(Option<TrialId>, String)> {
        let incidents = self.events.iter().filter_map(|event| match event {
            Event::Incident { trial, incident } if incident.kind == of => {
                Some((*trial, incident.message.clone()))
            }
            _ => None,
        });
        incidents.collect()
    }

    #[cfg(test)]
    fn count(&self, matching: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| matching(event)).count()
    }
}
