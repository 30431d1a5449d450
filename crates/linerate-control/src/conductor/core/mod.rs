//! What the conductor decides: inputs in, outputs out, in virtual time. No socket, no thread, no
//! clock.
//!
//! Per trial: estimate the clocks, `Prepare` -> all `Offers` -> `Connect` -> all `Ready` ->
//! `StartAt` -> all `Done`. Every step has a deadline. Whatever goes wrong ends the trial as
//! failed, with the reason as an incident, and the campaign goes on with the next one; a lost agent
//! is awaited for a while first.

mod clocks;
mod legs;
mod looks;
mod offered;
mod offers;
mod search;
mod trial;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::net::IpAddr;

use linerate_analysis::search::Bounds;
use linerate_analysis::{Look, SearchTrial};
use linerate_model::plan::Order;
use linerate_model::{
    CampaignHeader, ClockExchange, Event, Incident, IncidentKind, JobSpec, Nanos, RecorderError,
    Side, ToldClock, TrialId, TrialOutcome, TrialSpec, Until,
};
use serde_json::Value;

use self::clocks::identity_in;
use self::looks::Looking;
use self::offered::Mixes;
use self::search::Searching;
use super::host::{Host, Presence};
use super::{Exit, RunOptions, RunSummary};
use crate::ControlError;
use crate::search::Ended;
use crate::wire::{JobOffer, Message, printable};

/// Both clocks of the conductor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Monotonic.
    pub(crate) mono: Nanos,
    /// Since the Unix epoch.
    pub(crate) wall: Nanos,
}

/// Something that happened. `host` is an index into the hosts given to [`Conductor::new`].
#[derive(Debug)]
pub(crate) enum Input {
    /// A host was reached and greeted.
    Joined { host: usize, facts: Value, address: Option<IpAddr> },
    /// A host could not be reached, or refused.
    Unreached { host: usize, error: ControlError },
    /// A host said something, at this time.
    Heard { host: usize, message: Message, at: Nanos },
    /// The connection to a host ended.
    Lost { host: usize, why: String },
    /// A person wants it to end.
    Stop,
    /// An event could not be recorded; none will be any more.
    RecorderFailed(RecorderError),
    /// What else was recorded of a trial that ended.
    Added(Vec<Event>),
    /// The conductor's wall clock was stepped by this much against its monotonic one, ns.
    ClockStepped(i64),
    /// Time has passed.
    Tick,
}

/// Something to be done.
#[derive(Debug)]
pub(crate) enum Output {
    /// Reach this host; answered by `Joined` or `Unreached`.
    Connect { host: usize, attempt: u32 },
    /// Say this to it.
    Send { host: usize, message: Message },
    /// Cut the connection to it.
    Disconnect { host: usize },
    /// Record this.
    Record(Event),
    /// Make what was recorded durable.
    Flush,
    /// A trial begins (`outcome` is none) or ended.
    Trial { trial: usize, outcome: Option<TrialOutcome>, number: usize, of: usize, eta: Nanos },
    /// A search has learnt from a trial.
    Searched { trial: usize, result: Box<SearchTrial>, found: Vec<(String, Bounds)> },
    /// A point was looked at after the run of this trial; so many more runs of it were chosen.
    Looked { trial: usize, look: Look, until: Until, more: usize },
    /// A search has ended.
    SearchEnded { search: usize, why: Ended },
    /// It is over.
    Finish(Box<Result<RunSummary, ControlError>>),
}

/// From the order to start until the earliest job starts: orders travel, threads are pinned,
/// samplers read.
const START_LEAD: Nanos = Nanos::from_millis(250);
/// How long a host's clock may take to be estimated: shorter than the silence that tells of a lost
/// agent.
const SYNC_PATIENCE: Nanos = Nanos::from_secs(10);
/// What an answer may take beyond the time its work may take.
const ANSWER_PATIENCE: Nanos = Nanos::from_secs(10);
/// What readings and last intervals may take to come in after the drain.
const COLLECT_PATIENCE: Nanos = Nanos::from_secs(30);
/// How long comparing the clocks after a trial may take: what was measured does not wait for it
/// long.
const COMPARE_PATIENCE: Nanos = Nanos::from_secs(2);
/// The number of pings that only ask whether somebody is there.
const HEARTBEAT: u64 = 0;

/// A trial under way.
#[derive(Debug)]
struct Active {
    trial: usize,
    phase: Phase,
    hosts: BTreeSet<usize>,
    /// Hosts whose answer this phase waits for.
    waiting: BTreeSet<usize>,
    deadline: Nanos,
    offers: Vec<JobOffer>,
    /// Actual starts of the ends of measured jobs, on our clock.
    started: Vec<Nanos>,
    /// The start barrier on our clock, and what ends were told of each other's.
    barrier: Nanos,
    told: Vec<ToldClock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Syncing,
    Offering,
    Connecting,
    Running,
    /// It has ended; clocks are compared once more.
    Comparing,
    /// Aborted; only `Done` is waited for.
    Ending(TrialOutcome),
}

#[derive(Debug)]
enum ConductStage {
    /// Hosts are being reached for the first time; nothing is recorded.
    Joining,
    /// Until the next trial.
    Resting(Nanos),
    /// For a host to come back.
    Waiting,
    Trial(Box<Active>),
    Finished,
}

/// The conductor.
pub(crate) struct Conductor {
    header: CampaignHeader,
    trials: Vec<TrialSpec>,
    /// Hosts of each job: active, passive.
    job_hosts: Vec<Vec<(usize, usize)>>,
    pending: VecDeque<usize>,
    /// Searches, by the place of their plan in `trials`.
    searches: BTreeMap<usize, Searching>,
    /// Points that are repeated until their figures are known well enough.
    looking: Looking,
    /// Mixes that are measured at shares of what their jobs reach alone.
    mixes: Mixes,
    order: Order,
    n_trials: usize,
    hosts: Vec<Host>,
    options: RunOptions,
    entropy: Box<dyn FnMut() -> [u8; 16]>,
    stage: ConductStage,
    outputs: Vec<Output>,
    next_ping: u64,
    heartbeat_at: Nanos,
    stopping: bool,
    recorder_failed: Option<RecorderError>,
    fatal: Option<ControlError>,
    completed: usize,
    failed: usize,
    interrupted: usize,
    /// Span of the trials run so far: nominal, and actual.
    spans: (Nanos, Nanos),
    trial_started: Nanos,
    /// Which clock is ours; `None` if it is not known.
    identity: Option<String>,
}

impl Conductor {
    /// A conductor of `trials`, without those in `done`, on the hosts of a testbed.
    ///
    /// # Errors
    /// If a trial's endpoint is on a host that is not among them.
    pub(crate) fn new(
        header: CampaignHeader,
        hosts: &[String],
        trials: Vec<TrialSpec>,
        done: &HashSet<TrialId>,
        options: RunOptions,
        entropy: Box<dyn FnMut() -> [u8; 16]>,
    ) -> Result<Self, ControlError> {
        let index = |name: &str, trial: &TrialSpec| {
            hosts.iter().position(|host| host == name).ok_or_else(|| ControlError::UnknownHost {
                host: name.to_owned(),
                trial: trial.id.0,
                known: hosts.join(", "),
            })
        };
        let ends = |trial: &TrialSpec| {
            let ends =
                |job: &JobSpec| Ok((index(&job.from.host, trial)?, index(&job.to.host, trial)?));
            trial.jobs.iter().map(ends).collect::<Result<Vec<_>, ControlError>>()
        };
        let job_hosts = trials.iter().map(ends).collect::<Result<Vec<_>, _>>()?;
        let searches = search::planned(&trials);
        let looking = Looking::planned(&trials);
        let mixes = Mixes::planned(&trials, done);
        let later = &looking.not_chosen() | &mixes.not_chosen();
        let left = |trial: &usize| {
            searches.contains_key(trial)
                || !later.contains(trial) && !done.contains(&trials[*trial].id)
        };
        let pending: VecDeque<usize> = (0..trials.len()).filter(left).collect();
        Ok(Self {
            header,
            n_trials: pending.len(),
            trials,
            job_hosts,
            pending,
            searches,
            looking,
            mixes,
            order: Order::Interleaved,
            hosts: hosts.iter().map(|name| Host::new(name)).collect(),
            options,
            entropy,
            stage: ConductStage::Joining,
            outputs: Vec::new(),
            next_ping: 1,
            heartbeat_at: Nanos(0),
            stopping: false,
            recorder_failed: None,
            fatal: None,
            completed: 0,
            failed: 0,
            interrupted: 0,
            spans: (Nanos(0), Nanos(0)),
            trial_started: Nanos(0),
            identity: None,
        })
    }

    /// Tells which clock the conductor's own is, so that agents that have the same are known by it.
    pub(crate) fn with_clock(mut self, identity: Option<String>) -> Self {
        self.identity = identity;
        self
    }

    /// The trials, in the order given.
    pub(crate) fn trials(&self) -> &[TrialSpec] {
        &self.trials
    }

    /// Begins: every host that a trial needs is reached.
    pub(crate) fn begin(&mut self, now: Now) -> Vec<Output> {
        let needed: BTreeSet<usize> =
            self.pending.iter().flat_map(|&trial| self.hosts_of(trial)).collect();
        for host in 0..self.hosts.len() {
            if needed.contains(&host) {
                self.outputs.push(Output::Connect { host, attempt: 0 });
            } else {
                self.hosts[host].presence = Presence::Gone;
            }
        }
        self.proceed(now);
        std::mem::take(&mut self.outputs)
    }

    /// Takes what happened and says what to do.
    pub(crate) fn handle(&mut self, input: Input, now: Now) -> Vec<Output> {
        if matches!(self.stage, ConductStage::Finished) {
            return Vec::new();
        }
        match input {
            Input::Joined { host, facts, address } => self.joined(host, facts, address, now),
            Input::Unreached { host, error } => self.unreached(host, error, now),
            Input::Heard { host, message, at } => self.heard(host, message, at, now),
            Input::Lost { host, why } => self.lost(host, &why, now),
            Input::Stop => self.stop(now),
            Input::RecorderFailed(error) => {
                self.recorder_failed.get_or_insert(error);
                self.stop(now);
            }
            Input::ClockStepped(by) => self.clock_stepped(by),
            Input::Added(events) => events.iter().for_each(|event| {
                self.watch_search(event);
                self.watch_looks(event);
            }),
            Input::Tick => {}
        }
        self.watch(now);
        self.proceed(now);
        std::mem::take(&mut self.outputs)
    }

    /// When [`Input::Tick`] is wanted at the latest.
    pub(crate) fn wake_at(&self) -> Nanos {
        let stage = match &self.stage {
            ConductStage::Resting(until) => Some(*until),
            ConductStage::Trial(active) => Some(active.deadline),
            ConductStage::Joining | ConductStage::Waiting | ConductStage::Finished => None,
        };
        let retries = self.hosts.iter().filter_map(|host| match host.presence {
            Presence::Away { retry_at } => Some(retry_at),
            _ => None,
        });
        let estimates = self
            .hosts
            .iter()
            .filter_map(|host| host.sync.as_ref())
            .map(|sync| sync.since + SYNC_PATIENCE);
        retries.chain(stage).chain(estimates).fold(self.heartbeat_at, Ord::min)
    }

    fn hosts_of(&self, trial: usize) -> BTreeSet<usize> {
        self.job_hosts[trial].iter().flat_map(|&(active, passive)| [active, passive]).collect()
    }

    fn record(&mut self, event: Event) {
        self.watch_search(&event);
        self.watch_looks(&event);
        self.outputs.push(Output::Record(event));
    }

    fn send(&mut self, host: usize, message: Message) {
        self.outputs.push(Output::Send { host, message });
    }

    fn incident(&mut self, host: Option<usize>, kind: IncidentKind, message: String) {
        let host = host.map(|host| self.hosts[host].name.clone()).unwrap_or_default();
        let trial = self.current_trial();
        self.record(Event::Incident { trial, incident: Incident { host, kind, message } });
    }

    fn current_trial(&self) -> Option<TrialId> {
        match &self.stage {
            ConductStage::Trial(active) => Some(self.trials[active.trial].id),
            _ => None,
        }
    }

    // Hosts come and go.

    fn joined(&mut self, host: usize, facts: Value, address: Option<IpAddr>, now: Now) {
        let known = &mut self.hosts[host];
        known.presence = Presence::Greeted;
        known.facts = facts;
        known.address = address;
        known.last_heard = now.mono;
        known.attempts = 0;
        // Its clock may be another one altogether: an agent that was restarted after a reboot.
        known.clock = None;
        known.course.clear();
        known.has_our_clock = self.identity.is_some() && identity_in(&known.facts) == self.identity;
        self.estimate_clock(host, now);
    }

    fn unreached(&mut self, host: usize, error: ControlError, now: Now) {
        if matches!(self.stage, ConductStage::Joining) {
            self.fatal.get_or_insert(error);
            return;
        }
        let away = now.mono.since(self.hosts[host].lost_at);
        let known = &mut self.hosts[host];
        known.why = error.to_string();
        if error.passes_by_itself() && away < Nanos(self.options.away.as_nanos() as u64) {
            known.attempts += 1;
            known.retry_later(now.mono);
        } else {
            known.presence = Presence::Gone;
            let message = format!(
                "reach lost agent again: given up after {:.0} s: {}",
                away.as_secs_f64(),
                error
            );
            self.incident(Some(host), IncidentKind::AgentLost, message);
        }
    }

    fn lost(&mut self, host: usize, why: &str, now: Now) {
        if !self.hosts[host].is_connected() {
            return;
        }
        let name = self.hosts[host].name.clone();
        if matches!(self.stage, ConductStage::Joining) {
            self.fatal.get_or_insert(ControlError::AgentLost { host: name, why: why.to_owned() });
            return;
        }
        let in_trial =
            matches!(&self.stage, ConductStage::Trial(active) if active.hosts.contains(&host));
        let incident = Incident {
            host: name,
            kind: IncidentKind::AgentLost,
            message: format!("lost the agent: {why}"),
        };
        let trial = self.current_trial().filter(|_| in_trial);
        self.record(Event::Incident { trial, incident });
        let known = &mut self.hosts[host];
        known.why = why.to_owned();
        known.lost_at = now.mono;
        known.sync = None;
        known.attempts = 0;
        known.retry_later(now.mono);
        if let ConductStage::Trial(active) = &mut self.stage
            && in_trial
        {
            active.waiting.remove(&host);
            active.hosts.remove(&host);
            self.abort(TrialOutcome::Failed, now);
        }
    }

    /// Heartbeats, silence and pauses: what only time brings about.
    fn watch(&mut self, now: Now) {
        if now.mono >= self.heartbeat_at {
            self.heartbeat_at = now.mono + Nanos(self.options.timeouts.heartbeat.as_nanos() as u64);
            for host in 0..self.hosts.len() {
                if self.hosts[host].is_connected() {
                    self.send(host, Message::Ping { n: HEARTBEAT, sent_ns: 0 });
                }
            }
        }
        let silence = Nanos(self.options.timeouts.silence.as_nanos() as u64);
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_connected()
                && now.mono.since(self.hosts[host].last_heard) >= silence
            {
                self.outputs.push(Output::Disconnect { host });
                self.lost(host, &format!("nothing was heard of it for {silence}"), now);
            }
            if self.hosts[host]
                .sync
                .as_ref()
                .is_some_and(|sync| now.mono.since(sync.since) >= SYNC_PATIENCE)
            {
                self.outputs.push(Output::Disconnect { host });
                self.lost(host, "it does not tell what time it is", now);
            }
            if let Presence::Away { retry_at } = self.hosts[host].presence
                && now.mono >= retry_at
            {
                self.hosts[host].presence = Presence::Connecting;
                let attempt = self.hosts[host].attempts + 1;
                self.outputs.push(Output::Connect { host, attempt });
            }
        }
        if let ConductStage::Trial(active) = &self.stage
            && now.mono >= active.deadline
        {
            self.overdue(now);
        }
    }

    /// A phase of the trial took too long.
    fn overdue(&mut self, now: Now) {
        let ConductStage::Trial(active) = &mut self.stage else { return };
        let late = std::mem::take(&mut active.waiting);
        if active.phase == Phase::Comparing {
            // What was measured stands; only the clocks are known less well.
            self.stop_comparing();
            return;
        }
        if let Phase::Ending(_) = active.phase {
            // It does not even end: nothing can be expected of that session any more.
            for host in late {
                self.outputs.push(Output::Disconnect { host });
                self.lost(host, "it did not end the trial when told to", now);
            }
            return;
        }
        let doing = match active.phase {
            Phase::Syncing => "tell what time it is",
            Phase::Offering => "get ready to listen",
            Phase::Connecting => "open its flows",
            Phase::Running | Phase::Comparing | Phase::Ending(_) => "end the trial",
        };
        for host in late {
            self.incident(Some(host), IncidentKind::Failed, format!("{doing}: no answer in time"));
        }
        self.abort(TrialOutcome::Failed, now);
    }

    fn stop(&mut self, now: Now) {
        self.stopping = true;
        if matches!(self.stage, ConductStage::Trial(_)) {
            self.abort(TrialOutcome::Interrupted, now);
        }
    }

    // What hosts say.

    fn heard(&mut self, host: usize, message: Message, at: Nanos, now: Now) {
        if !self.hosts[host].is_connected() {
            return;
        }
        self.hosts[host].last_heard = now.mono;
        if let Err(why) = self.hosts[host].reported.add(&message, now.mono) {
            self.outputs.push(Output::Disconnect { host });
            return self.lost(host, &why, now);
        }
        if let Message::Pong { n, clock_ns, sent_ns, answered_ns } = message {
            let answered = if answered_ns == 0 { clock_ns } else { answered_ns };
            return self.pong(
                host,
                n,
                ClockExchange { sent: sent_ns, arrived: clock_ns, answered, heard: at.0 },
                now,
            );
        }
        let ConductStage::Trial(active) = &self.stage else { return };
        let (trial, id) = (active.trial, self.trials[active.trial].id);
        match message {
            Message::Offers { trial, offers } if trial == id => self.offered(host, offers, now),
            Message::Ready { trial } if trial == id => {
                if let ConductStage::Trial(active) = &mut self.stage
                    && active.phase == Phase::Connecting
                {
                    active.waiting.remove(&host);
                }
            }
            Message::Intervals { trial: of, job, side, intervals }
                if of == id && self.is_end(trial, job, side, host) =>
            {
                self.record(Event::Intervals { trial: id, job, side, intervals });
            }
            Message::FlowsEnded { trial: of, job, side, flows }
                if of == id && self.is_end(trial, job, side, host) =>
            {
                self.record(Event::FlowsEnded { trial: id, job, side, flows });
            }
            Message::Samples { trial: of, block } if of == id => {
                let host = self.hosts[host].name.clone();
                self.record(Event::Samples { trial: id, host, block: *block });
            }
            Message::Incident { trial: of, incident } if of == Some(id) => {
                self.incident(Some(host), incident.kind, printable(&incident.message));
            }
            Message::Done { trial: of, started_ns, failed } if of == id => {
                self.done(host, &started_ns, failed, now)
            }
            // Late words about an earlier trial, and what newer agents may say.
            _ => {}
        }
    }

    /// Whether `host` carries out this end of the job; nobody reports for others.
    fn is_end(&self, trial: usize, job: u32, side: Side, host: usize) -> bool {
        let ends = self.job_hosts[trial].get(job as usize);
        ends.is_some_and(|&(active, passive)| {
            host == if side == Side::Active { active } else { passive }
        })
    }

    fn done(&mut self, host: usize, started_ns: &[u64], failed: Option<String>, now: Now) {
        let clock = self.hosts[host].clock;
        let ConductStage::Trial(active) = &mut self.stage else { return };
        if let Some(clock) = clock {
            active.started.extend(started_ns.iter().map(|&at| clock.ours(at)));
        }
        let early = !matches!(active.phase, Phase::Running | Phase::Comparing | Phase::Ending(_));
        active.waiting.remove(&host);
        let failed = failed
            .map(|why| printable(&why))
            .or_else(|| early.then(|| "it ended the trial before it began".to_owned()));
        if let Some(why) = failed {
            if early {
                active.hosts.remove(&host);
            }
            self.incident(Some(host), IncidentKind::Failed, why);
            self.abort(TrialOutcome::Failed, now);
        }
    }

    fn finish(&mut self, now: Now) -> bool {
        self.stage = ConductStage::Finished;
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_connected() {
                self.send(host, Message::Goodbye);
            }
        }
        if let Some(error) = self.fatal.take() {
            self.outputs.push(Output::Finish(Box::new(Err(error))));
            return false;
        }
        let gone = |host: &&Host| host.presence == Presence::Gone && !host.why.is_empty();
        let exit = if let Some(error) = self.recorder_failed.take() {
            Exit::RecorderFailed(error.into())
        } else if self.stopping && (self.interrupted > 0 || !self.pending.is_empty()) {
            Exit::Interrupted
        } else if let Some(host) = self.hosts.iter().find(gone).filter(|_| !self.pending.is_empty())
        {
            Exit::AgentLost(ControlError::AgentLost {
                host: host.name.clone(),
                why: host.why.clone(),
            })
        } else {
            self.record(Event::CampaignEnded { at: now.wall });
            Exit::Completed
        };
        self.outputs.push(Output::Flush);
        let summary = RunSummary {
            completed: self.completed,
            failed: self.failed,
            interrupted: self.interrupted,
            remaining: self.pending.len(),
            exit,
        };
        self.outputs.push(Output::Finish(Box::new(Ok(summary))));
        false
    }
}
