//! A simulated world: the conductor's core, agents that die, stall and lie, and a clock that jumps to what happens next.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashSet};

use linerate_load::Offer;
use linerate_model::{
    Background, CampaignHeader, Endpoint, Event, IncidentKind, Interval, JobSpec, Nanos, Params, Phases, Point,
    RecorderError, Side, TestbedKind, TrialId, TrialOutcome, TrialSpec, Warmup,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::core::{Conductor, Input, Now, Output};
use super::{Exit, RunOptions, RunSummary};
use crate::ControlError;
use crate::wire::{JobOffer, Message, Prepare, name};

/// One way of a message.
const TRAVEL: Nanos = Nanos(100_000);
const WALL: Nanos = Nanos::from_secs(1_795_219_200);

/// What an agent does wrong when the `nth` (from 0) message called `at` reaches it.
#[derive(Clone, Copy, Debug)]
struct Fault {
    at: &'static str,
    nth: u32,
    kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    /// Its connection ends.
    Die,
    /// It never says anything again.
    Stall,
    /// It does not answer this message.
    Ignore,
    /// It says that it cannot do it.
    Fail,
}

struct FakeAgent {
    offset_ns: i64,
    faults: Vec<Fault>,
    heard: BTreeMap<&'static str, u32>,
    connected: bool,
    stalled: bool,
    /// Attempts to reach it that fail after it was lost.
    away_for: u32,
    /// What reaching it answers at first, instead of joining.
    at_first: Option<ControlError>,
    prepared: Option<Prepare>,
}

enum Happening {
    Input(Input),
    Delivery { host: usize, message: Message, session: u32 },
    Say { host: usize, message: Message, session: u32 },
}

struct World {
    now: Nanos,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    agents: Vec<FakeAgent>,
    sessions: Vec<u32>,
    events: Vec<Event>,
    /// Fails when this many events were recorded.
    room: usize,
    /// When this trial has ended, host a is suspended for two seconds: its monotonic clock stands still.
    sleeps_after: Option<TrialId>,
    result: Option<Result<RunSummary, ControlError>>,
}

fn phases() -> Phases {
    Phases {
        warmup: Warmup::Fixed(Nanos::from_secs(1)),
        measure: Nanos::from_secs(5),
        drain: Nanos::from_secs(1),
        rest: Nanos::from_secs(1),
        interval: Nanos::from_millis(500),
    }
}

fn endpoint(host: &str) -> Endpoint {
    let text = json!({ "name": host, "host": host, "address": null, "device": null });
    serde_json::from_value(text).expect("what is left out has a default")
}

fn trial(id: u32, from: &str, to: &str) -> TrialSpec {
    let job = JobSpec {
        workload: "null".into(),
        from: endpoint(from),
        to: endpoint(to),
        params: Params::default(),
        background: None,
    };
    TrialSpec {
        id: TrialId(id),
        sweep: "s".into(),
        point: Point::new(),
        repeat: id,
        seed: 1,
        phases: phases(),
        jobs: vec![job],
        arm: None,
        search: None,
    }
}

fn header() -> CampaignHeader {
    CampaignHeader {
        id: "c".into(),
        name: "c".into(),
        started: WALL,
        plan: String::new(),
        plan_sha256: String::new(),
        lab: None,
        seed: 1,
        testbed: TestbedKind::Hosts,
        capacities: Vec::new(),
        version: "0".into(),
        argv: Vec::new(),
    }
}

impl World {
    /// Hosts `a` and `b`, whose clocks are 1000 s ahead and 50 s behind.
    fn new() -> Self {
        let agent = |offset_ns| FakeAgent {
            offset_ns,
            faults: Vec::new(),
            heard: BTreeMap::new(),
            connected: false,
            stalled: false,
            away_for: 0,
            at_first: None,
            prepared: None,
        };
        Self {
            now: Nanos::from_secs(100),
            queue: BTreeMap::new(),
            sequence: 0,
            agents: vec![agent(1_000_000_000_000), agent(-50_000_000_000)],
            sessions: vec![0, 0],
            events: Vec::new(),
            room: usize::MAX,
            sleeps_after: None,
            result: None,
        }
    }

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
    fn run(&mut self, trials: Vec<TrialSpec>, done: &HashSet<TrialId>, until: Nanos) {
        let hosts = ["a".to_owned(), "b".to_owned()];
        let options = RunOptions::default();
        let mut conductor =
            Conductor::new(header(), &hosts, trials, done, options, Box::new(|| [7; 16])).expect("hosts are known");
        let outputs = conductor.begin(self.at());
        self.carry_out(outputs);
        while self.result.is_none() && self.now < until {
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
            Happening::Say { host, message, session } => {
                (self.sessions[host] == session && self.agents[host].connected && !self.agents[host].stalled)
                    .then_some(Input::Heard { host, message, at: self.now })
            }
            Happening::Delivery { host, message, session } => {
                if self.sessions[host] == session && self.agents[host].connected && !self.agents[host].stalled {
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
        let fault = self.agents[host].faults.iter().find(|fault| fault.at == called && fault.nth == this).copied();
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
                    let (trial, failed) = (prepare.trial, Some("connect job 0 (null): refused".into()));
                    self.say(host, Nanos(0), Message::Done { trial, started_ns: Vec::new(), failed });
                }
                return;
            }
            None => {}
        }
        self.answer(host, message);
    }

    fn answer(&mut self, host: usize, message: Message) {
        match message {
            Message::Ping { n } => self.say(host, Nanos(0), Message::Pong { n, clock_ns: self.clock(host) }),
            Message::Prepare(prepare) => {
                let passive = prepare.jobs.iter().filter(|job| job.side == Side::Passive);
                let offer = || Offer { addresses: vec!["0.0.0.0:4000".parse().unwrap()] };
                let offers = passive.map(|job| JobOffer { job: job.job, offer: offer() }).collect();
                self.say(host, Nanos(0), Message::Offers { trial: prepare.trial, offers });
                self.agents[host].prepared = Some(*prepare);
            }
            Message::Connect { trial, offers } => {
                // The wildcard offered was replaced: by the host's address, or by loopback where both ends are on one host.
                let jobs = &self.agents[host].prepared.as_ref().expect("it was prepared").jobs;
                let both_ends_here = jobs.iter().any(|job| job.side != jobs[0].side);
                let expected = if both_ends_here { "127.0.0.1" } else { "192.0.2.2" };
                assert!(offers.iter().all(|offer| offer.offer.addresses[0].ip().to_string() == expected));
                self.say(host, Nanos(0), Message::Ready { trial });
            }
            Message::StartAt { trial, clock_ns } => self.carry_out_trial(host, trial, clock_ns),
            Message::Abort { trial } => {
                self.agents[host].prepared = None;
                self.say(host, Nanos(0), Message::Done { trial, started_ns: Vec::new(), failed: None });
            }
            _ => {}
        }
    }

    fn carry_out_trial(&mut self, host: usize, trial: TrialId, clock_ns: u64) {
        let Some(prepare) = self.agents[host].prepared.clone() else { return };
        let wait = Nanos(clock_ns.checked_sub(self.clock(host)).expect("the barrier lies ahead"));
        for job in &prepare.jobs {
            let intervals = vec![Interval { end: Nanos::from_millis(500), ..Interval::default() }];
            let (job, side) = (job.job, job.side);
            self.say(host, wait + Nanos::from_secs(1), Message::Intervals { trial, job, side, intervals });
            // A job nobody gave it: a lie, to be dropped.
            self.say(host, wait, Message::Intervals { trial, job: 9, side, intervals: Vec::new() });
            let end = wait + prepare.phases.loaded() + prepare.phases.drain;
            self.say(host, end, Message::FlowsEnded { trial, job, side, flows: Vec::new() });
        }
        let end = wait + prepare.phases.loaded() + prepare.phases.drain;
        self.say(host, end, Message::Samples { trial, block: Box::default() });
        // Host a starts 30 us late.
        let started_ns = vec![clock_ns + if host == 0 { 30_000 } else { 0 }];
        self.say(host, end, Message::Done { trial, started_ns, failed: None });
    }

    fn carry_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Connect { host, .. } => self.connect(host),
                Output::Send { host, message } => {
                    let session = self.sessions[host];
                    self.later(self.now + TRAVEL, Happening::Delivery { host, message, session });
                }
                Output::Disconnect { host } => self.agents[host].connected = false,
                Output::Record(event) => {
                    if self.events.len() == self.room {
                        let error = RecorderError("append to ledger: no space left on device".into());
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
                Output::Flush | Output::Trial { .. } | Output::Searched { .. } | Output::SearchEnded { .. } => {}
            }
        }
    }

    fn connect(&mut self, host: usize) {
        let agent = &mut self.agents[host];
        let input = if let Some(error) = agent.at_first.take() {
            Input::Unreached { host, error }
        } else if agent.away_for > 0 && agent.heard.values().sum::<u32>() > 0 {
            agent.away_for -= 1;
            let (host_name, operation) = ("b".to_owned(), "connect to agent on");
            let error = ControlError::HostDown { host: host_name, operation, cause: "refused".into(), remedy: "wait" };
            Input::Unreached { host, error }
        } else {
            agent.connected = true;
            agent.stalled = false;
            agent.prepared = None;
            self.sessions[host] += 1;
            Input::Joined { host, facts: Value::Null, address: Some("192.0.2.2".parse().unwrap()) }
        };
        self.later(self.now + TRAVEL, Happening::Input(input));
    }

    fn summary(&self) -> &RunSummary {
        self.result.as_ref().expect("the campaign has ended").as_ref().expect("it was run")
    }

    fn outcomes(&self) -> Vec<(u32, TrialOutcome)> {
        let ended = self.events.iter().filter_map(|event| match event {
            Event::TrialEnded { trial, outcome } => Some((trial.0, *outcome)),
            _ => None,
        });
        ended.collect()
    }

    fn incidents(&self, of: IncidentKind) -> Vec<(Option<TrialId>, String)> {
        let incidents = self.events.iter().filter_map(|event| match event {
            Event::Incident { trial, incident } if incident.kind == of => Some((*trial, incident.message.clone())),
            _ => None,
        });
        incidents.collect()
    }

    fn count(&self, matching: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| matching(event)).count()
    }
}

const NEVER: Nanos = Nanos::from_secs(1_000_000);
use TrialOutcome::{Completed, Failed, Interrupted};

fn three() -> Vec<TrialSpec> {
    vec![trial(0, "a", "b"), trial(1, "a", "b"), trial(2, "a", "b")]
}

fn run_three(mut world: World) -> World {
    world.run(three(), &HashSet::new(), NEVER);
    world
}

#[test]
fn a_campaign_without_trouble_records_everything_in_order() {
    let mut world = World::new();
    world.run(vec![trial(4, "a", "b")], &HashSet::new(), NEVER);
    assert!(matches!(world.summary().exit, Exit::Completed));
    let tags: Vec<String> = world
        .events
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        tags,
        [
            "campaign_started",
            "host_joined",
            "host_joined",
            "planned",
            "trial_started",
            "intervals",
            "intervals",
            "flows_ended",
            "samples",
            "flows_ended",
            "samples",
            "barrier_passed",
            "trial_ended",
            "campaign_ended"
        ]
    );
}

#[test]
fn the_offset_of_each_clock_is_found_and_the_skew_between_the_ends_with_it() {
    let world = run_three(World::new());
    let offsets: Vec<(i64, u64)> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::HostJoined(record) => Some((record.clock_offset_ns, record.clock_uncertainty_ns)),
            _ => None,
        })
        .collect();
    assert_eq!(offsets, [(1_000_000_000_000, 100_000), (-50_000_000_000, 100_000)]);
    let passed = Event::BarrierPassed { trial: TrialId(0), skew_ns: 30_000, uncertainty_ns: 200_000 };
    assert_eq!(world.count(|event| *event == passed), 1);
}

#[test]
fn an_agent_that_dies_or_stalls_in_any_step_costs_one_trial() {
    // The second trial's messages; its pings are those after 8 at the start and 8 for the first trial, and heartbeats.
    for (at, nth) in [("ping", 20), ("prepare", 1), ("connect", 1), ("start_at", 1)] {
        for kind in [FaultKind::Die, FaultKind::Stall] {
            for host in [0, 1] {
                let world = run_three(World::with_fault(host, Fault { at, nth, kind }));
                let outcomes = world.outcomes();
                let failed = outcomes.iter().filter(|(_, outcome)| *outcome == Failed).count();
                assert!(failed <= 1 && outcomes.len() == 3, "{at} {kind:?}: {outcomes:?}");
                if at != "ping" {
                    assert_eq!(outcomes, [(0, Completed), (1, Failed), (2, Completed)], "{at} {kind:?}");
                    assert_eq!(world.incidents(IncidentKind::AgentLost)[0].0, Some(TrialId(1)), "{at} {kind:?}");
                }
                assert!(matches!(world.summary().exit, Exit::Completed));
                assert_eq!(world.count(|event| matches!(event, Event::CampaignEnded { .. })), 1);
            }
        }
    }
}

#[test]
fn an_agent_that_does_not_answer_one_message_or_fails_costs_one_trial_and_keeps_its_session() {
    for (at, kind) in [
        ("prepare", FaultKind::Ignore),
        ("connect", FaultKind::Ignore),
        ("start_at", FaultKind::Ignore),
        ("connect", FaultKind::Fail),
    ] {
        let world = run_three(World::with_fault(1, Fault { at, nth: 1, kind }));
        assert_eq!(world.outcomes(), [(0, Completed), (1, Failed), (2, Completed)], "{at} {kind:?}");
        assert_eq!(world.incidents(IncidentKind::Failed).len(), 1, "{at} {kind:?}");
        assert!(world.incidents(IncidentKind::AgentLost).is_empty(), "{at} {kind:?}");
    }
}

#[test]
fn an_agent_that_does_not_even_end_a_trial_loses_its_session() {
    let mut world = World::with_fault(1, Fault { at: "connect", nth: 0, kind: FaultKind::Ignore });
    world.agents[1].faults.push(Fault { at: "abort", nth: 0, kind: FaultKind::Ignore });
    let world = run_three(world);
    assert_eq!(world.outcomes(), [(0, Failed), (1, Completed), (2, Completed)]);
    assert_eq!(world.incidents(IncidentKind::AgentLost).len(), 1);
}

#[test]
fn trials_that_do_not_need_an_agent_that_stays_away_are_still_run() {
    let mut world = World::with_fault(1, Fault { at: "start_at", nth: 0, kind: FaultKind::Die });
    world.agents[1].away_for = u32::MAX;
    let trials = vec![trial(0, "a", "b"), trial(1, "a", "b"), trial(2, "a", "a")];
    let before = world.now;
    world.run(trials, &HashSet::new(), NEVER);
    assert_eq!(world.outcomes(), [(0, Failed), (2, Completed)]);
    let summary = world.summary();
    assert_eq!((summary.completed, summary.failed, summary.remaining), (1, 1, 1));
    assert!(matches!(&summary.exit, Exit::AgentLost(ControlError::AgentLost { host, .. }) if host == "b"));
    assert_eq!(world.count(|event| matches!(event, Event::CampaignEnded { .. })), 0);
    assert!(world.now.since(before) < Nanos::from_secs(120), "{}", world.now.since(before));
}

#[test]
fn a_busy_agent_at_the_start_ends_it_before_anything_is_recorded() {
    let mut world = World::new();
    let busy = ControlError::Busy { host: "a".into(), by: "another".into(), since_s: 3 };
    world.agents[0].at_first = Some(busy);
    let world = run_three(world);
    assert!(matches!(world.result, Some(Err(ControlError::Busy { .. }))));
    assert!(world.events.is_empty());
}

#[test]
fn a_campaign_killed_at_any_second_resumes_with_what_is_left() {
    for second in 0..32 {
        let mut first = World::new();
        let until = first.now + Nanos::from_secs(second);
        first.run(three(), &HashSet::new(), until);
        let done: HashSet<TrialId> =
            first.outcomes().iter().filter(|(_, outcome)| *outcome == Completed).map(|(id, _)| TrialId(*id)).collect();
        let mut second_run = World::new();
        second_run.run(three(), &done, NEVER);
        let mut ids: Vec<u32> =
            done.iter().map(|id| id.0).chain(second_run.outcomes().iter().map(|(id, _)| *id)).collect();
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2], "killed after {second} s");
        assert!(matches!(second_run.summary().exit, Exit::Completed));
    }
}

#[test]
fn a_wish_to_stop_interrupts_the_trial_and_keeps_the_rest() {
    let mut world = World::new();
    let in_second_trial = world.now + Nanos::from_secs(12);
    world.later(in_second_trial, Happening::Input(Input::Stop));
    let world = run_three(world);
    assert_eq!(world.outcomes(), [(0, Completed), (1, Interrupted)]);
    assert!(matches!(world.summary().exit, Exit::Interrupted));
    assert_eq!(world.summary().remaining, 1);
    assert!(world.now.since(in_second_trial) < Nanos::from_secs(1));
}

#[test]
fn a_full_disk_stops_the_campaign_cleanly() {
    let mut world = World::new();
    world.room = 6;
    let world = run_three(world);
    let Exit::RecorderFailed(error) = &world.summary().exit else { panic!("{:?}", world.summary()) };
    assert!(error.to_string().contains("no space left"), "{error}");
    assert_eq!(world.summary().completed, 0);
}

#[test]
fn a_suspended_host_shows_as_a_clock_incident_of_the_next_trial() {
    let mut world = World::new();
    world.sleeps_after = Some(TrialId(0));
    let world = run_three(world);
    let incidents = world.incidents(IncidentKind::Clock);
    assert_eq!(incidents.len(), 1, "{incidents:?}");
    assert!(incidents[0].1.contains("-2000.000 ms"), "{incidents:?}");
    assert_eq!(incidents[0].0, Some(TrialId(1)));
}

#[test]
fn a_step_of_the_wall_clock_is_an_incident_and_nothing_else() {
    let mut world = World::new();
    let in_first_trial = world.now + Nanos::from_secs(3);
    world.later(in_first_trial, Happening::Input(Input::ClockStepped(-3_600_000_000_000)));
    let world = run_three(world);
    assert_eq!(world.incidents(IncidentKind::Clock)[0].0, Some(TrialId(0)));
    assert_eq!(world.outcomes(), [(0, Completed), (1, Completed), (2, Completed)]);
}

#[test]
fn a_background_job_that_starts_earlier_moves_the_barrier_back() {
    let mut early = trial(0, "a", "b");
    let background = Some(Background { start_ns: -3_000_000_000, duration: Nanos::from_secs(5) });
    early.jobs.push(JobSpec { background, ..early.jobs[0].clone() });
    let mut world = World::new();
    let before = world.now;
    world.run(vec![early], &HashSet::new(), NEVER);
    assert_eq!(world.outcomes(), [(0, Completed)]);
    // 3 s of lead, 6 s of load, 1 s of drain.
    assert!(world.now.since(before) > Nanos::from_secs(10));
}

#[test]
fn a_host_that_is_not_in_the_testbed_is_named() {
    let hosts = ["a".to_owned()];
    let trials = vec![trial(7, "a", "c")];
    let made = Conductor::new(header(), &hosts, trials, &HashSet::new(), RunOptions::default(), Box::new(|| [0; 16]));
    let error = made.err().expect("host c is unknown").to_string();
    assert_eq!(error, "resolve host c of trial 7: not in the testbed (its hosts are a)");
}

fn any_fault() -> impl Strategy<Value = (usize, Fault)> {
    let at = prop::sample::select(vec!["ping", "prepare", "connect", "start_at", "abort", "goodbye"]);
    let kind = prop::sample::select(vec![FaultKind::Die, FaultKind::Stall, FaultKind::Ignore, FaultKind::Fail]);
    (0..2_usize, at, 0..24_u32, kind).prop_map(|(host, at, nth, kind)| (host, Fault { at, nth, kind }))
}

proptest! {
    #[test]
    fn whatever_agents_do_every_trial_begun_ends_once_and_the_campaign_ends(
        faults in prop::collection::vec(any_fault(), 0..6),
        away_for in 0..20_u32,
        stop_after in prop::option::of(0..60_u64),
    ) {
        let mut world = World::new();
        for (host, fault) in faults {
            world.agents[host].faults.push(fault);
        }
        world.agents[1].away_for = away_for;
        if let Some(seconds) = stop_after {
            let at = world.now + Nanos::from_secs(seconds);
            world.later(at, Happening::Input(Input::Stop));
        }
        let limit = world.now + Nanos::from_secs(1000);
        world.run(three(), &HashSet::new(), limit);
        prop_assert!(world.result.is_some(), "it does not end");
        let mut open = None;
        for event in &world.events {
            match event {
                Event::TrialStarted { trial, .. } => {
                    prop_assert_eq!(open, None);
                    open = Some(*trial);
                }
                Event::TrialEnded { trial, .. } => {
                    prop_assert_eq!(open, Some(*trial));
                    open = None;
                }
                Event::Intervals { trial, .. } | Event::FlowsEnded { trial, .. } | Event::Samples { trial, .. } => {
                    prop_assert_eq!(open, Some(*trial));
                }
                _ => {}
            }
        }
        prop_assert_eq!(open, None);
        let n_ended = world.count(|event| matches!(event, Event::CampaignEnded { .. }));
        prop_assert!(n_ended <= 1);
        if let Some(Ok(summary)) = &world.result {
            let ends = summary.completed + summary.failed + summary.interrupted + summary.remaining;
            prop_assert_eq!(ends, 3);
        }
    }
}
