//! Decisions of the conductor: inputs in, outputs out, in virtual time. No socket, no thread, no
//! clock.
//!
//! Per trial: estimate the clocks, `Prepare` -> all `Offers` -> `Connect` -> all `Ready` ->
//! `StartAt` -> all `Done`. Every step has a deadline. Whatever goes wrong ends the trial as
//! failed, with the reason as an incident, and the campaign goes on with the next one; a lost agent
//! has a while to come back first.

mod clocks;
mod hosts;
mod legs;
mod looks;
mod mixes;
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

use self::looks::Looking;
use self::mixes::Mixes;
use self::search::Searching;
use super::host::{Host, Presence};
use super::{Exit, RunOptions, RunSummary};
use crate::search::Ended;
use crate::wire::{JobOffer, Message, printable};
use crate::{ControlError, Result};

/// Present time on both clocks of the conductor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Monotonic.
    pub(crate) mono: Nanos,
    /// Since the Unix epoch.
    pub(crate) wall: Nanos,
}

/// Event that the conductor handles. `host` is an index into the hosts given to [`Conductor::new`].
#[derive(Debug)]
pub(crate) enum Input {
    /// A host was reached and greeted.
    Joined { host: usize, facts: Value, address: Option<IpAddr> },
    /// A host could not be reached, or refused.
    Unreached { host: usize, error: ControlError },
    /// A message of a host, and the time of its arrival.
    Heard { host: usize, message: Message, at: Nanos },
    /// The connection to a host ended.
    Lost { host: usize, why: String },
    /// A person wants the campaign to end.
    Stop,
    /// A person wants no further trial to begin, or the campaign to go on.
    Pause(bool),
    /// An event could not be recorded; no further event will be.
    RecorderFailed(RecorderError),
    /// Events of a trial that ended, recorded by others than its hosts.
    Added(Vec<Event>),
    /// The conductor's wall clock was stepped by this much against its monotonic one, ns.
    ClockStepped(i64),
    /// Time has passed.
    Tick,
}

/// Action for the runner.
#[derive(Debug)]
pub(crate) enum Output {
    /// Reach this host; answered by `Joined` or `Unreached`.
    Connect { host: usize, attempt: u32 },
    /// Send the host this message.
    Send { host: usize, message: Message },
    /// Cut the connection to the host.
    Disconnect { host: usize },
    /// Record this event.
    Record(Event),
    /// Make all recorded events durable.
    Flush,
    /// A trial begins (`outcome` is none) or ended.
    Trial { trial: usize, outcome: Option<TrialOutcome>, number: usize, of: usize, eta: Nanos },
    /// A search has evaluated a trial.
    Searched { trial: usize, result: Box<SearchTrial>, found: Vec<(String, Bounds)> },
    /// A point was evaluated after the run of this trial, and `more` further runs were chosen.
    Looked { trial: usize, look: Look, until: Until, more: usize },
    /// A search has ended.
    SearchEnded { search: usize, why: Ended },
    /// The campaign is over.
    Finish(Box<Result<RunSummary>>),
}

/// Time from the order to start until the earliest job starts, in the first trial. Covers the
/// order's way and pinning of threads. Later trials have what the hosts needed, and a reserve.
const START_LEAD: Nanos = Nanos::from_millis(250);
/// Least of that time: what a busy host may take longer than the last time.
const LEAST_LEAD: Nanos = Nanos::from_millis(50);
/// Multiple of the time that the hosts needed.
const LEAD_RESERVE: u64 = 4;
/// Longest time for estimating a host's clock: shorter than the silence by which a lost agent is
/// recognised.
const SYNC_PATIENCE: Nanos = Nanos::from_secs(10);
/// Time for an answer beyond the time for its work.
const ANSWER_PATIENCE: Nanos = Nanos::from_secs(10);
/// Time for readings and last intervals to arrive after the drain.
const COLLECT_PATIENCE: Nanos = Nanos::from_secs(30);
/// Longest time for comparing the clocks after a trial. Short, because the result waits for it.
const COMPARE_PATIENCE: Nanos = Nanos::from_secs(2);
/// Number of pings that are heartbeats only.
const HEARTBEAT: u64 = 0;

/// Trial that runs.
#[derive(Debug)]
struct Active {
    trial: usize,
    phase: Phase,
    hosts: BTreeSet<usize>,
    /// Hosts whose answers are missing in this phase.
    waiting: BTreeSet<usize>,
    deadline: Nanos,
    offers: Vec<JobOffer>,
    /// Actual starts of the ends of measured jobs, on the conductor's clock.
    started: Vec<Nanos>,
    /// When the hosts were ordered to start, and how long the slowest of them took until its
    /// workers were ready.
    ordered: Nanos,
    needed: Option<Nanos>,
    /// Start barrier on the conductor's clock.
    barrier: Nanos,
    /// Clocks of the other ends, as sent to each end.
    told: Vec<ToldClock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Syncing,
    Offering,
    Connecting,
    Running,
    /// The trial has ended; clocks are compared once more.
    Comparing,
    /// The trial was aborted; only `Done` is missing.
    Ending(TrialOutcome),
}

#[derive(Debug)]
enum ConductStage {
    /// Hosts are being reached for the first time; nothing is recorded.
    Joining,
    /// The pause before the next trial, until this time.
    Resting(Nanos),
    /// No trial can run until a host comes back.
    Waiting,
    Trial(Box<Active>),
    Finished,
}

/// State machine of a campaign.
pub(crate) struct Conductor {
    header: CampaignHeader,
    trials: Vec<TrialSpec>,
    /// Hosts of each job: active, passive.
    job_hosts: Vec<Vec<(usize, usize)>>,
    pending: VecDeque<usize>,
    /// Searches, by the index of their plan in `trials`.
    searches: BTreeMap<usize, Searching>,
    /// Points that are repeated until their intervals are narrow enough.
    looking: Looking,
    /// Mixes that are measured at shares of the loads that their jobs reach alone.
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
    /// True while no trial may begin.
    paused: bool,
    recorder_failed: Option<RecorderError>,
    fatal: Option<ControlError>,
    completed: usize,
    failed: usize,
    interrupted: usize,
    /// Durations of all trials so far: nominal, and actual.
    spans: (Nanos, Nanos),
    trial_started: Nanos,
    /// Time from the order to start until the earliest job starts.
    start_lead: Nanos,
    /// Identity of the conductor's clock, if known.
    identity: Option<String>,
}

impl Conductor {
    /// Creates a conductor of `trials`, without those in `done`, on the hosts of a testbed.
    ///
    /// # Errors
    /// If a trial's endpoint is on a host that is not in the testbed.
    pub(crate) fn new(
        header: CampaignHeader,
        hosts: &[String],
        trials: Vec<TrialSpec>,
        done: &HashSet<TrialId>,
        options: RunOptions,
        entropy: Box<dyn FnMut() -> [u8; 16]>,
    ) -> Result<Self> {
        fn index(name: &str, trial: &TrialSpec, hosts: &[String]) -> Result<usize> {
            hosts.iter().position(|host| host == name).ok_or_else(|| ControlError::UnknownHost {
                host: name.to_owned(),
                trial: trial.id.0,
                known: hosts.join(", "),
            })
        }
        let job_hosts = trials
            .iter()
            .map(|trial| {
                let ends = trial.jobs.iter().map(JobSpec::agents);
                let places = ends
                    .map(|[from, to]| Ok((index(from, trial, hosts)?, index(to, trial, hosts)?)));
                places.collect::<Result<Vec<_>>>()
            })
            .collect::<Result<Vec<_>, _>>()?;
        // Before `pending` is made: searches, looks and mixes choose their trials later.
        let searches = search::planned(&trials);
        let looking = Looking::planned(&trials);
        let mixes = Mixes::planned(&trials, done);
        let later = &looking.not_chosen() | &mixes.not_chosen();
        let is_over = |trial: &usize| later.contains(trial) || done.contains(&trials[*trial].id);
        let left = |trial: &usize| searches.contains_key(trial) || !is_over(trial);
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
            paused: false,
            recorder_failed: None,
            fatal: None,
            completed: 0,
            failed: 0,
            interrupted: 0,
            spans: (Nanos(0), Nanos(0)),
            trial_started: Nanos(0),
            start_lead: START_LEAD,
            identity: None,
        })
    }

    /// Sets the identity of the conductor's clock, by which agents with the same clock are
    /// recognised.
    pub(crate) fn with_clock(mut self, identity: Option<String>) -> Self {
        self.identity = identity;
        self
    }

    /// Returns the trials, in the order given.
    pub(crate) fn trials(&self) -> &[TrialSpec] {
        &self.trials
    }

    /// Begins the campaign: connects to every host that a trial needs.
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

    /// Handles an input and returns the actions that follow.
    pub(crate) fn handle(&mut self, input: Input, now: Now) -> Vec<Output> {
        // Late inputs of other threads must not change the result.
        if matches!(self.stage, ConductStage::Finished) {
            return Vec::new();
        }
        match input {
            Input::Joined { host, facts, address } => self.joined(host, facts, address, now),
            Input::Unreached { host, error } => self.unreached(host, error, now),
            Input::Heard { host, message, at } => self.heard(host, message, at, now),
            Input::Lost { host, why } => self.lost(host, &why, now),
            Input::Stop => self.stop(now),
            Input::Pause(is_paused) => self.paused = is_paused,
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
        // After each input: a deadline may have passed while it was on its way.
        self.watch(now);
        self.proceed(now);
        std::mem::take(&mut self.outputs)
    }

    /// Returns the latest time for the next [`Input::Tick`].
    pub(crate) fn wake_at(&self) -> Nanos {
        let stage = match &self.stage {
            // The end of a pause is an input.
            ConductStage::Resting(until) => (!self.paused).then_some(*until),
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

    fn stop(&mut self, now: Now) {
        self.stopping = true;
        if matches!(self.stage, ConductStage::Trial(_)) {
            self.abort(TrialOutcome::Interrupted, now);
        }
    }

    /// Handles a message of a host.
    fn heard(&mut self, host: usize, message: Message, at: Nanos, now: Now) {
        if !self.hosts[host].is_connected() {
            return;
        }
        self.hosts[host].last_heard = now.mono;
        // Checked before anything is recorded: an agent must not fill the ledger.
        if let Err(why) = self.hosts[host].reported.add(&message, now.mono) {
            self.outputs.push(Output::Disconnect { host });
            return self.lost(host, &why, now);
        }
        // Older agents send one time stamp, which then counts for both moments.
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
            Message::Done { trial: of, started_ns, ready_ns, failed } if of == id => {
                self.prepared(host, ready_ns);
                self.done(host, &started_ns, failed, now)
            }
            // Late messages about an earlier trial, and messages of newer agents.
            _ => {}
        }
    }

    /// Returns whether `host` carries out this end of the job: no host reports for others.
    fn is_end(&self, trial: usize, job: u32, side: Side, host: usize) -> bool {
        // The job number comes from a peer and may not exist.
        let ends = self.job_hosts[trial].get(job as usize);
        ends.is_some_and(|&(active, passive)| {
            host == if side == Side::Active { active } else { passive }
        })
    }

    /// Notes how long `host` took from the order to start until its workers were ready.
    fn prepared(&mut self, host: usize, ready_ns: Option<u64>) {
        let ConductStage::Trial(active) = &mut self.stage else { return };
        if let (Some(clock), Some(ready)) = (self.hosts[host].clock, ready_ns) {
            let needed = clock.ours(ready).since(active.ordered);
            active.needed = Some(active.needed.unwrap_or_default().max(needed));
        }
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
            .or_else(|| early.then(|| "it ended the trial before the start".to_owned()));
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
        // In the order of severity: a lost record matters more than an interruption.
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
