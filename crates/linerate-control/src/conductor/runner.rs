//! Runner: sockets, threads and the real clock around the conductor's decisions. It decides
//! nothing itself.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use linerate_model::{
    AGENT_PORT, Event, HostAddress, JobSpec, Nanos, Recorder, TrialId, TrialSpec,
};

use super::core::{Conductor, Input, Now, Output};
use super::{CampaignRun, Progress, RunOptions, RunSummary};
use crate::agent::DataPort;
use crate::clock::{monotonic, wall};
use crate::frames::{FrameError, FrameReader, write};
use crate::link::{Channel, Heard, Link};
use crate::wire::{
    Greeting, HelloRole, MESSAGE_LIMIT, Message, PROTOCOL_MAGIC, PROTOCOL_VERSION, RELEASE, Share,
    printable,
};
use crate::{Agent, ControlError, KeyStore, Result, Timeouts, tls, transport};

/// Interval between two looks at the request to stop.
const LOOK: Nanos = Nanos::from_millis(100);
/// Interval at which recorded events are made durable during a trial.
const FLUSH_PERIOD: Nanos = Nanos::from_secs(1);
/// Smallest change of the wall clock against the monotonic one that is a step and not slewing (500
/// ppm at most), ns.
const STEP_NS: i64 = 500_000_000;

/// Event from another thread. `generation` distinguishes a host's present connection from earlier
/// ones.
enum HostEvent {
    Reached { host: usize, greeted: Box<Greeted> },
    Unreached { host: usize, error: ControlError },
    Heard { host: usize, generation: u64, heard: Heard },
}

/// Connection after the exchange of greetings.
pub(super) struct Greeted {
    pub(super) reader: FrameReader,
    pub(super) channel: Channel,
    pub(super) theirs: Box<Greeting>,
}

/// Data for connecting, shared by the threads that connect.
struct Reach {
    addresses: Vec<(String, HostAddress)>,
    keys: Option<KeyStore>,
    /// One for each host: several hosts of a testbed may be in this process.
    agents: Vec<Agent>,
    options: RunOptions,
    campaign: String,
    name: String,
    /// Time that the campaign is expected to take, seconds.
    lasts_s: u64,
    /// Part of each host that it uses; `None` for all of it.
    shares: Vec<Option<Share>>,
}

pub(super) fn run(
    campaign: CampaignRun,
    recorder: &mut dyn Recorder,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RunSummary> {
    let CampaignRun {
        header,
        testbed,
        trials,
        done,
        recorded,
        recorded_hosts,
        order,
        keys,
        agent,
        stop,
        pause,
        options,
    } = campaign;
    let hosts: Vec<String> = testbed.hosts.iter().map(|(name, _)| name.clone()).collect();
    let reach = Arc::new(Reach {
        addresses: testbed.hosts,
        keys,
        // Each host needs its own agent, because all of them may use the whole host.
        agents: hosts.iter().map(|_| agent.sibling()).collect(),
        shares: hosts.iter().map(|host| share(host, &trials, &options)).collect(),
        options,
        campaign: header.id.clone(),
        name: format!("campaign {}", header.name),
        lasts_s: lasts_s(&trials, &done),
    });
    // Closed at the end of the campaign.
    let port = reach.data_port(&trials).transpose();
    match &port {
        Err(error) => progress(Progress::OwnPorts { datagrams: false, error }),
        Ok(Some(port)) => {
            if let Some(error) = port.without_datagrams() {
                progress(Progress::OwnPorts { datagrams: true, error });
            }
        }
        Ok(None) => {}
    }
    let mut conductor =
        Conductor::new(header, &hosts, trials, &done, options, Box::new(tls::random))?
            .with_clock(linerate_sys::clock::identity_text());
    conductor.continue_looks(&recorded, recorded_hosts);
    conductor.continue_searches(order, recorded);
    let (events, incoming) = channel();
    let mut runner = Runner {
        reach,
        events,
        links: HashMap::new(),
        generation: 0,
        recorder,
        progress,
        hosts,
        recording: true,
        inputs: VecDeque::new(),
    };
    let outputs = conductor.begin(now());
    if let Some(result) = runner.carry_out(outputs, &conductor) {
        return result;
    }
    let mut asked = false;
    let mut is_paused = false;
    let mut steps = StepWatch::new(now());
    let mut flush_at = now().mono + FLUSH_PERIOD;
    loop {
        let input = match runner.inputs.pop_front() {
            Some(input) => input,
            None => runner.wait(&incoming, conductor.wake_at()),
        };
        let present = now();
        let mut outputs = Vec::new();
        // Before the input, which may be the one that a trial waits for.
        if pause.load(Ordering::Relaxed) != is_paused {
            is_paused = !is_paused;
            outputs.extend(conductor.handle(Input::Pause(is_paused), present));
        }
        outputs.extend(conductor.handle(input, present));
        if stop.load(Ordering::Relaxed) && !asked {
            asked = true;
            outputs.extend(conductor.handle(Input::Stop, present));
        }
        if let Some(by) = steps.step(present) {
            outputs.extend(conductor.handle(Input::ClockStepped(by), present));
        }
        if present.mono >= flush_at {
            flush_at = present.mono + FLUSH_PERIOD;
            outputs.push(Output::Flush);
        }
        if let Some(result) = runner.carry_out(outputs, &conductor) {
            return result;
        }
    }
}

/// Returns the time that the trials which are not `done` are planned to take, seconds.
fn lasts_s(trials: &[TrialSpec], done: &HashSet<TrialId>) -> u64 {
    let open = trials.iter().filter(|trial| !done.contains(&trial.id));
    open.map(|trial| trial.phases.total().0).sum::<u64>() / Nanos::from_secs(1).0
}

fn now() -> Now {
    Now { mono: monotonic(), wall: wall() }
}

/// Detector of steps of the wall clock.
struct StepWatch {
    difference: i64,
}

impl StepWatch {
    fn new(now: Now) -> Self {
        Self { difference: now.wall.0.wrapping_sub(now.mono.0) as i64 }
    }

    /// Returns the step of the wall clock since the last call, ns.
    fn step(&mut self, now: Now) -> Option<i64> {
        let difference = now.wall.0.wrapping_sub(now.mono.0) as i64;
        let change = difference - self.difference;
        self.difference = difference;
        (change.abs() > STEP_NS).then_some(change)
    }
}

struct Runner<'a> {
    reach: Arc<Reach>,
    /// Kept so that the channel is never disconnected.
    events: Sender<HostEvent>,
    links: HashMap<usize, (u64, Link)>,
    generation: u64,
    recorder: &'a mut dyn Recorder,
    progress: &'a mut dyn FnMut(Progress<'_>),
    hosts: Vec<String>,
    /// False after the recorder has failed.
    recording: bool,
    /// Inputs that resulted from carrying out outputs.
    inputs: VecDeque<Input>,
}

impl Runner<'_> {
    /// Waits for the next input, at the longest until `wake_at`.
    fn wait(&mut self, incoming: &Receiver<HostEvent>, wake_at: Nanos) -> Input {
        // Never longer than `LOOK`, so that a request to stop is noticed.
        let span = wake_at.since(monotonic()).min(LOOK);
        match incoming.recv_timeout(span.into()) {
            Ok(HostEvent::Reached { host, greeted }) => self.reached(host, *greeted),
            Ok(HostEvent::Unreached { host, error }) => Input::Unreached { host, error },
            Ok(HostEvent::Heard { host, generation, heard }) => {
                // Messages of an earlier connection must not reach the present session.
                if self.links.get(&host).is_none_or(|(present, _)| *present != generation) {
                    return Input::Tick;
                }
                match heard {
                    Heard::Message(message, at, _) => Input::Heard { host, message: *message, at },
                    Heard::Ended(error) => {
                        self.links.remove(&host);
                        Input::Lost { host, why: error.to_string() }
                    }
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Input::Tick,
        }
    }

    fn reached(&mut self, host: usize, greeted: Greeted) -> Input {
        self.generation += 1;
        let generation = self.generation;
        let events = self.events.clone();
        let Greeted { reader, channel, theirs } = greeted;
        let facts = theirs.facts;
        let link = Link::start(reader, channel.writer, channel.closer, move |heard, _| {
            events.send(HostEvent::Heard { host, generation, heard }).is_ok()
        });
        match link {
            Ok(link) => {
                self.links.insert(host, (generation, link));
                Input::Joined { host, facts, address: channel.address }
            }
            Err(cause) => {
                let name = self.hosts[host].clone();
                let error = ControlError::Io {
                    operation: "start threads for the session with",
                    host: name,
                    cause,
                };
                Input::Unreached { host, error }
            }
        }
    }

    /// Carries out the conductor's actions. Returns the result of the campaign when it is over.
    fn carry_out(
        &mut self,
        outputs: Vec<Output>,
        conductor: &Conductor,
    ) -> Option<Result<RunSummary>> {
        let mut result = None;
        for output in outputs {
            match output {
                Output::Connect { host, attempt } => self.connect(host, attempt),
                Output::Send { host, message } => {
                    if let Some((_, link)) = self.links.get(&host) {
                        // A peer that has stalled is cut off, and its hearing thread reports the
                        // end.
                        link.outbox.offer(message);
                    }
                }
                Output::Disconnect { host } => {
                    if let Some((_, link)) = self.links.remove(&host) {
                        link.outbox.close();
                    }
                }
                Output::Record(event) => {
                    self.add_to(&event);
                    self.show(&event, conductor);
                    if self.recording
                        && let Err(error) = self.recorder.record(&event)
                    {
                        self.recording = false;
                        self.inputs.push_back(Input::RecorderFailed(error));
                    }
                }
                Output::Flush => {
                    if self.recording
                        && let Err(error) = self.recorder.flush()
                    {
                        self.recording = false;
                        self.inputs.push_back(Input::RecorderFailed(error));
                    }
                }
                Output::Trial { trial, outcome, number, of, eta } => {
                    let trial = &conductor.trials()[trial];
                    (self.progress)(match outcome {
                        None => Progress::TrialStarted { trial, number, of, eta },
                        Some(outcome) => Progress::TrialEnded { trial, outcome, number, of, eta },
                    });
                }
                Output::Searched { trial, result, found } => (self.progress)(Progress::Searched {
                    trial: &conductor.trials()[trial],
                    result: &result,
                    found: &found,
                }),
                Output::Looked { trial, look, until, more } => (self.progress)(Progress::Looked {
                    trial: &conductor.trials()[trial],
                    look: &look,
                    until: &until,
                    more,
                }),
                Output::SearchEnded { search, why } => {
                    (self.progress)(Progress::SearchEnded {
                        search: &conductor.trials()[search],
                        why,
                    });
                }
                Output::Finish(end) => result = Some(*end),
            }
        }
        if result.is_some() {
            // The last messages are sent before the connections close.
            self.links.drain().for_each(|(_, (_, link))| link.finish());
        }
        result
    }

    /// Before the end of a trial: records all events that the recorder has collected itself, and
    /// passes them to the conductor.
    fn add_to(&mut self, event: &Event) {
        let Event::TrialEnded { trial, .. } = event else { return };
        if !self.recording {
            return;
        }
        // Before the end is recorded, so that the trial's events precede its end.
        let addenda = self.recorder.addenda(*trial);
        for addendum in &addenda {
            if let Err(error) = self.recorder.record(addendum) {
                self.recording = false;
                self.inputs.push_back(Input::RecorderFailed(error));
                return;
            }
        }
        if !addenda.is_empty() {
            self.inputs.push_back(Input::Added(addenda));
        }
    }

    fn show(&mut self, event: &Event, conductor: &Conductor) {
        match event {
            Event::HostJoined(record) => (self.progress)(Progress::HostJoined { record }),
            Event::Intervals { trial, job, side, intervals } => {
                if let Some(trial) = conductor.trials().iter().find(|spec| spec.id == *trial) {
                    (self.progress)(Progress::Intervals {
                        trial,
                        job: *job,
                        side: *side,
                        intervals,
                    });
                }
            }
            Event::Incident { trial, incident } => {
                (self.progress)(Progress::Incident { trial: *trial, incident })
            }
            _ => {}
        }
    }

    fn connect(&mut self, host: usize, attempt: u32) {
        if attempt > 0 {
            (self.progress)(Progress::Reconnecting { host: &self.hosts[host], attempt });
        }
        let (reach, events) = (Arc::clone(&self.reach), self.events.clone());
        let spawned = thread::Builder::new().name("linerate-connect".into()).spawn(move || {
            let event = match reach.greet(host) {
                Ok(greeted) => HostEvent::Reached { host, greeted: Box::new(greeted) },
                Err(error) => HostEvent::Unreached { host, error },
            };
            // After the campaign's end nobody receives this.
            let _ = events.send(event);
        });
        if let Err(cause) = spawned {
            let name = self.hosts[host].clone();
            let error =
                ControlError::Io { operation: "start a thread to reach", host: name, cause };
            self.inputs.push_back(Input::Unreached { host, error });
        }
    }
}

impl Reach {
    /// Opens the agents' port here for the data of jobs that lead from an agent to this process.
    /// `None` without such a job.
    fn data_port(&self, trials: &[TrialSpec]) -> Option<io::Result<DataPort>> {
        let here =
            trials.iter().flat_map(|trial| &trial.jobs).find_map(|job| self.arrives_here(job))?;
        let everywhere = (Ipv6Addr::UNSPECIFIED, AGENT_PORT);
        Some(self.agents[here].accept_data(everywhere.into()))
    }

    /// Returns the number of the host in this process to which a job leads from an agent.
    fn arrives_here(&self, job: &JobSpec) -> Option<usize> {
        let place = |name: &str| self.addresses.iter().position(|(host, _)| host == name);
        let [from, to] = job.agents();
        let (from, to) = (place(from)?, place(to)?);
        let is_agent = matches!(self.addresses[from].1, HostAddress::Tcp(_));
        (is_agent && self.addresses[to].1 == HostAddress::InProcess).then_some(to)
    }

    /// Connects to a host's agent and exchanges greetings.
    fn greet(&self, host: usize) -> Result<Greeted> {
        let mut ours = Greeting::new(HelloRole::Conductor, &self.name);
        ours.lasts_s = self.lasts_s;
        ours.turn = own_turn();
        ours.returns = self.options.returns;
        ours.share.clone_from(&self.shares[host]);
        ours.campaign.clone_from(&self.campaign);
        let (name, address) = &self.addresses[host];
        let (keys, timeouts) = (self.keys.as_ref(), &self.options.timeouts);
        let greeted = greet(name, address, keys, &self.agents[host], timeouts, ours)?;
        // Every agent of this process must leave the interface alone, not only that of this host.
        if let Some(own) = greeted.channel.own {
            self.agents.iter().for_each(|agent| agent.controls_over(own));
        }
        Ok(greeted)
    }
}

/// Returns what a campaign of `trials` uses of `host`; `None` for all of it.
fn share(host: &str, trials: &[TrialSpec], options: &RunOptions) -> Option<Share> {
    // A command of several campaigns may change settings, too. They hold for the whole host.
    if options.returns || options.alone {
        return None;
    }
    let jobs = trials.iter().flat_map(|trial| &trial.jobs);
    let ends = jobs.flat_map(|job| [(&job.from, job), (&job.to, job)]);
    let here = ends.filter(|(end, _)| end.host == host);
    let here = here.map(|(end, job)| (end, &*job.workload, &job.params));
    Share::of(here, linerate_load::workload)
}

/// Returns the number under which this process, which is one command, waits for its turn: the time
/// of its first campaign.
fn own_turn() -> u64 {
    static TURN: OnceLock<u64> = OnceLock::new();
    *TURN.get_or_init(|| wall().0)
}

/// Connects to the agent of `host` at `address` and greets it with `ours`.
pub(super) fn greet(
    host: &str,
    address: &HostAddress,
    keys: Option<&KeyStore>,
    in_process: &Agent,
    timeouts: &Timeouts,
    ours: Greeting,
) -> Result<Greeted> {
    let mut channel = transport::connect(host, address, keys, in_process, timeouts)?;
    let mut reader =
        FrameReader::new(std::mem::replace(&mut channel.reader, Box::new(std::io::empty())));
    let command = match address {
        HostAddress::Command(words) => Some(&words[..]),
        _ => None,
    };
    match exchange((host, command), ours, &mut channel, &mut reader) {
        Ok(theirs) => Ok(Greeted { reader, channel, theirs }),
        Err(error) => {
            (channel.closer)();
            Err(error)
        }
    }
}

fn exchange(
    (host, command): (&str, Option<&[String]>),
    ours: Greeting,
    channel: &mut Channel,
    reader: &mut FrameReader,
) -> Result<Box<Greeting>> {
    // An agent that has closed the connection already has sent its reason, which is read below.
    let sent = write(&mut *channel.writer, &Message::Hello(Box::new(ours)));
    // An agent's greeting carries its facts.
    reader.trust(MESSAGE_LIMIT);
    let answer = reader.next().map_err(|error| match command {
        Some(words) => ControlError::Command {
            host: host.to_owned(),
            command: words.join(" "),
            cause: error.to_string(),
        },
        None => greeting_error(host, error, sent.is_err()),
    })?;
    channel.deadline.lift();
    understand(host, answer)
}

/// Evaluates an agent's first message. Returns its greeting, with its facts, if it accepts.
fn understand(host: &str, answer: Message) -> Result<Box<Greeting>> {
    let host = host.to_owned();
    match answer {
        Message::Hello(theirs)
            if theirs.magic == PROTOCOL_MAGIC && theirs.version == PROTOCOL_VERSION =>
        {
            Ok(theirs)
        }
        Message::Hello(theirs) => Err(version_mismatch(host, theirs.version, &theirs.release)),
        Message::Refused { version, release, .. } if version != PROTOCOL_VERSION => {
            Err(version_mismatch(host, version, &release))
        }
        Message::Refused { why, .. } => Err(ControlError::Refused { host, why: printable(&why) }),
        Message::Busy { by, since_s, left_s, ahead } => {
            Err(ControlError::Busy { host, by: printable(&by), since_s, left_s, ahead })
        }
        other => {
            let why = format!("its first message was {}, no greeting", crate::wire::name(&other));
            Err(ControlError::Refused { host, why })
        }
    }
}

fn version_mismatch(host: String, theirs: u32, their_release: &str) -> ControlError {
    let (ours, our_release, their_release) =
        (PROTOCOL_VERSION, RELEASE.to_owned(), printable(their_release));
    ControlError::VersionMismatch { host, ours, our_release, theirs, their_release }
}

fn greeting_error(host: &str, error: FrameError, unsent: bool) -> ControlError {
    match error {
        FrameError::Wire(cause) => ControlError::Wire { host: host.to_owned(), cause },
        FrameError::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            transport::tls_error(host, error)
        }
        error => {
            let is_silence =
                matches!(&error, FrameError::Io(error) if transport::is_silence(error));
            ControlError::HostDown {
                host: host.to_owned(),
                operation: if unsent {
                    "send greeting to agent on"
                } else {
                    "await greeting of agent on"
                },
                cause: error.to_string(),
                remedy: if is_silence {
                    transport::LOST_PACKETS
                } else {
                    "is it a linerate agent that listens there?"
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::trial;
    use super::*;
    use crate::{Access, AgentOptions};

    #[test]
    fn a_campaign_lasts_as_long_as_the_trials_that_are_not_done() {
        // Each takes 1 s of warm-up, 5 s of measurement, 1 s of drain and 1 s of rest.
        let trials = [trial(1, "a", "b"), trial(2, "a", "b")];
        let done = |ids: &[u32]| ids.iter().copied().map(TrialId).collect();
        for (ids, seconds) in [(&[][..], 16), (&[2], 8), (&[1, 2], 0)] {
            assert_eq!(lasts_s(&trials, &done(ids)), seconds, "{ids:?}");
        }
    }

    #[test]
    fn every_agent_of_this_process_knows_the_addresses_of_control_connections() {
        let far = Agent::new(AgentOptions::default());
        let loopback = (std::net::Ipv4Addr::LOCALHOST, 0).into();
        let serving = far.listen(loopback, Access::Loopback).expect("loopback has free ports");
        let (address, stopper) = (serving.address().to_string(), serving.stopper());
        let thread = std::thread::spawn(move || serving.run());
        let own = Agent::new(AgentOptions::default());
        let reach = Reach {
            name: "test".into(),
            addresses: vec![
                ("here".into(), HostAddress::InProcess),
                ("far".into(), HostAddress::Tcp(address)),
            ],
            keys: None,
            agents: vec![own.sibling(), own.sibling()],
            options: RunOptions::default(),
            lasts_s: 1,
            shares: vec![None, None],
            campaign: Default::default(),
        };
        let greeted = reach.greet(1).expect("an agent of this process");
        for agent in &reach.agents {
            assert!(agent.is_controlled_over(loopback.ip()), "the one of `here`, too");
        }
        (greeted.channel.closer)();
        stopper.stop();
        thread.join().expect("it stops");
    }
}
