//! Phases of a trial, and the step from one trial to the next.

use linerate_load::Secret;
use linerate_model::{
    Event, HostRecord, IncidentKind, Nanos, Side, TestbedKind, ToldClock, TrialOutcome,
};

use super::super::host::Presence;
use super::legs::legs;
use super::offers::{EndpointPlace, Refusal};
use super::{
    ANSWER_PATIENCE, Active, COLLECT_PATIENCE, ConductStage, Conductor, LEAD_RESERVE, LEAST_LEAD,
    Now, Output, Phase, START_LEAD, SYNC_PATIENCE,
};
use crate::conductor::reported::Reported;
use crate::wire::{JobOffer, Message, Prepare, PreparedJob};

impl Conductor {
    /// Goes on as far as possible without a further input.
    pub(super) fn proceed(&mut self, now: Now) {
        loop {
            let moved = match &self.stage {
                _ if self.fatal.is_some() => self.finish(now),
                ConductStage::Finished => return,
                ConductStage::Joining if self.stopping => self.finish(now),
                ConductStage::Joining => self.all_joined(now),
                ConductStage::Resting(_) | ConductStage::Waiting if self.stopping => {
                    self.finish(now)
                }
                ConductStage::Resting(_) | ConductStage::Waiting if self.paused => false,
                ConductStage::Resting(until) if now.mono >= *until => self.next_trial(now),
                ConductStage::Waiting => self.next_trial(now),
                ConductStage::Resting(_) => false,
                ConductStage::Trial(active) if active.waiting.is_empty() => self.next_phase(now),
                ConductStage::Trial(_) => false,
            };
            if !moved {
                return;
            }
        }
    }

    /// Records the campaign's beginning once every host is there.
    fn all_joined(&mut self, now: Now) -> bool {
        if !self.hosts.iter().all(|host| host.is_present() || host.presence == Presence::Gone) {
            return false;
        }
        let header = Box::new(self.header.clone());
        self.record(Event::CampaignStarted(header));
        for host in self.hosts.clone() {
            if let Some(clock) = host.clock {
                self.record(Event::HostJoined(Box::new(HostRecord {
                    host: host.name,
                    facts: host.facts,
                    clock_offset_ns: clock.offset_ns,
                    clock_uncertainty_ns: clock.uncertainty_ns,
                })));
            }
        }
        let later = &self.looking.not_chosen() | &self.mixes.not_chosen();
        let is_planned =
            |place: &usize| !self.searches.contains_key(place) && !later.contains(place);
        let trials = self.trials.iter().enumerate().filter(|(place, _)| is_planned(place));
        let trials = trials.map(|(_, trial)| trial.clone()).collect();
        self.record(Event::Planned { trials });
        self.outputs.push(Output::Flush);
        self.stage = ConductStage::Resting(now.mono);
        true
    }

    /// Begins the next trial whose hosts can still be reached. Waits if one of them is away.
    pub(super) fn next_trial(&mut self, now: Now) -> bool {
        self.take_look();
        let possible = |&&trial: &&usize| {
            self.hosts_of(trial).iter().all(|&host| self.hosts[host].presence != Presence::Gone)
        };
        // Trials of a host that stays away are skipped, the others still run.
        let Some(&trial) = self.pending.iter().find(possible) else { return self.finish(now) };
        let hosts = self.hosts_of(trial);
        if !hosts.iter().all(|&host| self.hosts[host].is_present()) {
            self.stage = ConductStage::Waiting;
            return false;
        }
        self.pending.retain(|&other| other != trial);
        let trial = if self.searches.contains_key(&trial) {
            match self.choose(trial) {
                Some(chosen) => chosen,
                // The search is over; go on with the next pending trial.
                None => return true,
            }
        } else {
            trial
        };
        self.trial_started = now.mono;
        self.record(Event::TrialStarted { trial: self.trials[trial].id, at: now.wall });
        self.report_trial(trial, None);
        self.stage = ConductStage::Trial(Box::new(Active {
            trial,
            phase: Phase::Syncing,
            waiting: hosts.clone(),
            hosts: hosts.clone(),
            // Each estimate has a shorter deadline of its own.
            deadline: now.mono + SYNC_PATIENCE + SYNC_PATIENCE,
            offers: Vec::new(),
            started: Vec::new(),
            ordered: Nanos(0),
            needed: None,
            barrier: Nanos(0),
            told: Vec::new(),
        }));
        for host in hosts {
            self.hosts[host].exchanges.clear();
            self.estimate_clock(host, now);
        }
        true
    }

    fn report_trial(&mut self, trial: usize, outcome: Option<TrialOutcome>) {
        let tried = self.completed + self.failed + self.interrupted;
        let number = tried + usize::from(outcome.is_none());
        let eta = self.eta(outcome.is_none().then_some(trial));
        self.outputs.push(Output::Trial { trial, outcome, number, of: self.n_trials, eta });
    }

    /// Returns the remaining time, at the pace of the trials so far.
    fn eta(&self, current: Option<usize>) -> Nanos {
        let nominal: u64 =
            self.pending.iter().copied().chain(current).map(|trial| self.left_of(trial).0).sum();
        let (planned, actual) = (self.spans.0.0.max(1), self.spans.1.0);
        // Never faster than planned: an early estimate that is too low annoys more.
        let pace = if actual > planned { actual as f64 / planned as f64 } else { 1.0 };
        Nanos((nominal as f64 * pace) as u64)
    }

    /// Begins the next phase of the trial, after every host has answered.
    pub(super) fn next_phase(&mut self, now: Now) -> bool {
        let ConductStage::Trial(active) = &self.stage else { return false };
        match active.phase {
            Phase::Syncing => self.prepare(now),
            Phase::Offering => self.connect(now),
            Phase::Connecting => self.start(now),
            Phase::Running => self.compare_clocks(now),
            Phase::Comparing => self.end_trial(TrialOutcome::Completed, now),
            Phase::Ending(outcome) => self.end_trial(outcome, now),
        }
        true
    }

    /// Enters `phase`, in which every host of the trial answers before `deadline`.
    pub(super) fn await_all(&mut self, phase: Phase, deadline: Nanos) {
        if let ConductStage::Trial(active) = &mut self.stage {
            active.phase = phase;
            active.waiting = active.hosts.clone();
            active.deadline = deadline;
        }
    }

    fn patience(&self) -> Nanos {
        Nanos(self.options.patience.as_nanos() as u64)
    }

    fn prepare(&mut self, now: Now) {
        let ConductStage::Trial(active) = &self.stage else { return };
        let (trial, hosts) = (active.trial, active.hosts.clone());
        let spec = self.trials[trial].clone();
        let until = now.mono + spec.phases.total() + self.patience();
        let mut told = Vec::new();
        // A secret per job and trial, so that an old proof opens nothing.
        let secrets: Vec<Secret> = spec.jobs.iter().map(|_| Secret((self.entropy)())).collect();
        for host in hosts {
            let mut jobs = Vec::new();
            for (index, job) in spec.jobs.iter().enumerate() {
                let (active, passive) = self.job_hosts[trial][index];
                let ends = [
                    (Side::Active, active, passive, &job.from),
                    (Side::Passive, passive, active, &job.to),
                ];
                for (side, at, other, local) in ends {
                    if at == host {
                        let peer_clock = self.peer_clock(at, other, now, until);
                        told.extend(peer_clock.map(|peer| ToldClock {
                            job: index as u32,
                            side,
                            barrier_ns: 0,
                            peer,
                        }));
                        jobs.push(PreparedJob {
                            job: index as u32,
                            side,
                            workload: job.workload.clone(),
                            params: job.params.clone(),
                            local: local.clone(),
                            background: job.background,
                            seed: seed_of_end(spec.seed, index as u32, side),
                            secret: secrets[index],
                            peer_clock,
                        });
                    }
                }
            }
            let prepare = Prepare {
                trial: spec.id,
                phases: spec.phases,
                jobs,
                patience_ms: self.options.patience.as_millis() as u64,
                sample_period_ms: self.options.sample_period.as_millis() as u64,
                legs: legs(&self.header.capacities, &spec, &self.hosts[host].name),
                counts_often: self.header.testbed != TestbedKind::Hosts,
            };
            self.hosts[host].reported = Reported::nothing(now.mono);
            self.send(host, Message::Prepare(Box::new(prepare)));
        }
        if let ConductStage::Trial(active) = &mut self.stage {
            active.told = told;
        }
        self.await_all(Phase::Offering, now.mono + self.patience() + ANSWER_PATIENCE);
    }

    pub(super) fn offered(&mut self, host: usize, offers: Vec<JobOffer>, now: Now) {
        let ConductStage::Trial(active) = &self.stage else { return };
        if active.phase != Phase::Offering {
            return;
        }
        let trial = active.trial;
        let mut kept = Vec::new();
        for mut offer in offers {
            let Some(&(from, to)) =
                self.job_hosts[trial].get(offer.job as usize).filter(|ends| ends.1 == host)
            else {
                continue;
            };
            let endpoint = &self.trials[trial].jobs[offer.job as usize].to;
            let place = EndpointPlace {
                endpoint: endpoint.address,
                control: self.hosts[host].address,
                is_local: from == to,
            };
            let refusal =
                offer.offer.addresses.iter_mut().find_map(|address| place.settle(address).err());
            if let Some(refusal) = refusal {
                let name = &endpoint.name;
                let message = match refusal {
                    Refusal::Nowhere => format!(
                        "connect to endpoint {name}: its address is unknown, and its agent was not \
                            reached over a network. Set `address` of the endpoint in the testbed."
                    ),
                    Refusal::Elsewhere(ip) => format!(
                        "connect to endpoint {name}: its agent offers {ip}, which is neither the \
                            endpoint's address nor the agent's. No host sends there. If {ip} is \
                            right, set it as `address` of the endpoint in the testbed."
                    ),
                };
                self.incident(Some(host), IncidentKind::Failed, message);
                self.abort(TrialOutcome::Failed, now);
                return;
            }
            kept.push(offer);
        }
        if let ConductStage::Trial(active) = &mut self.stage {
            active.offers.extend(kept);
            active.waiting.remove(&host);
        }
    }

    fn connect(&mut self, now: Now) {
        let ConductStage::Trial(active) = &self.stage else { return };
        let (trial, hosts, offers) = (active.trial, active.hosts.clone(), active.offers.clone());
        for host in hosts {
            let of_host = |offer: &&JobOffer| self.job_hosts[trial][offer.job as usize].0 == host;
            let offers = offers.iter().filter(of_host).cloned().collect();
            self.send(host, Message::Connect { trial: self.trials[trial].id, offers });
        }
        self.await_all(Phase::Connecting, now.mono + self.patience() + ANSWER_PATIENCE);
    }

    fn start(&mut self, now: Now) {
        let ConductStage::Trial(active) = &self.stage else { return };
        let (trial, hosts) = (active.trial, active.hosts.clone());
        let spec = &self.trials[trial];
        // Background jobs may start before the barrier, so the barrier moves back.
        let earliest = spec
            .jobs
            .iter()
            .filter_map(|job| job.background)
            .map(|background| background.start_ns)
            .min();
        let lead = Nanos(earliest.unwrap_or(0).min(0).unsigned_abs());
        let clocks = hosts.iter().filter_map(|&host| self.hosts[host].clock);
        // The order must arrive before the barrier even on a path as slow as the clocks were.
        let travel = Nanos(4 * clocks.map(|clock| clock.uncertainty_ns).max().unwrap_or(0));
        let barrier = now.mono + self.start_lead + travel + lead;
        let end = barrier + spec.phases.loaded() + spec.phases.drain + COLLECT_PATIENCE;
        let id = spec.id;
        self.set_barrier(barrier);
        if let ConductStage::Trial(active) = &mut self.stage {
            active.ordered = now.mono;
        }
        for host in hosts {
            if let Some(clock) = self.hosts[host].clock {
                self.send(host, Message::StartAt { trial: id, clock_ns: clock.theirs(barrier) });
            }
        }
        self.await_all(Phase::Running, end);
    }

    /// Keeps the start barrier, converted to the clock of each end.
    fn set_barrier(&mut self, barrier: Nanos) {
        let ConductStage::Trial(active) = &mut self.stage else { return };
        active.barrier = barrier;
        for told in &mut active.told {
            let (from, to) = self.job_hosts[active.trial][told.job as usize];
            let own = if told.side == Side::Active { from } else { to };
            told.barrier_ns =
                self.hosts[own].clock.map_or(barrier.0, |clock| clock.theirs(barrier));
        }
    }

    /// Ends the present trial early: sends `Abort` to its hosts and waits for their `Done`.
    pub(super) fn abort(&mut self, outcome: TrialOutcome, now: Now) {
        let patience = self.patience();
        let ConductStage::Trial(active) = &mut self.stage else { return };
        if matches!(active.phase, Phase::Ending(_)) {
            return;
        }
        if active.phase == Phase::Comparing {
            // Every host has sent `Done` already.
            return self.stop_comparing();
        }
        // Hosts that have not received `Prepare`, or have sent `Done`, have nothing to end.
        let prepared = active.phase != Phase::Syncing;
        let running = active.phase == Phase::Running;
        let mut left =
            if running { std::mem::take(&mut active.waiting) } else { active.hosts.clone() };
        left.retain(|_| prepared);
        active.phase = Phase::Ending(outcome);
        active.deadline = now.mono + patience + ANSWER_PATIENCE;
        let trial = self.trials[active.trial].id;
        let hosts = &self.hosts;
        left.retain(|&host| hosts[host].is_connected());
        active.waiting = left.clone();
        for host in left {
            self.send(host, Message::Abort { trial });
        }
    }

    /// Records the end of the present trial and rests before the next one.
    pub(super) fn end_trial(&mut self, outcome: TrialOutcome, now: Now) {
        let ConductStage::Trial(active) = std::mem::replace(&mut self.stage, ConductStage::Waiting)
        else {
            return;
        };
        let (trial, id) = (active.trial, self.trials[active.trial].id);
        if let (Some(first), Some(last)) =
            (active.started.iter().min(), active.started.iter().max())
        {
            let uncertainty_ns = self.uncertainty(trial);
            self.record(Event::BarrierPassed {
                trial: id,
                skew_ns: last.since(*first).0,
                uncertainty_ns,
            });
        }
        self.record_clocks(id, &active);
        if let Some(needed) = active.needed {
            self.start_lead = lead_after(self.start_lead, needed);
        }
        self.record(Event::TrialEnded { trial: id, outcome });
        self.outputs.push(Output::Flush);
        match outcome {
            TrialOutcome::Completed => self.completed += 1,
            TrialOutcome::Failed => self.failed += 1,
            TrialOutcome::Interrupted => self.interrupted += 1,
        }
        let phases = self.trials[trial].phases;
        if outcome == TrialOutcome::Completed {
            self.spans.0 = self.spans.0 + phases.total();
            self.spans.1 = self.spans.1 + now.mono.since(self.trial_started) + phases.rest;
        }
        self.report_trial(trial, Some(outcome));
        self.take_turns(trial);
        self.stage = ConductStage::Resting(now.mono + self.rest_after(trial));
    }
}

/// Returns the time that the next trial has until its start, after one that had `present` and of
/// which the hosts needed `needed`. It falls by half at most, because one fast start proves little.
fn lead_after(present: Nanos, needed: Nanos) -> Nanos {
    let reserved = Nanos(needed.0.saturating_mul(LEAD_RESERVE));
    reserved.max(Nanos(present.0 / 2)).clamp(LEAST_LEAD, START_LEAD)
}

/// Returns the seed of one end of one job: SplitMix64 (Steele, Lea, Flood 2014) of the trial's
/// seed, so that no two ends have the same.
fn seed_of_end(seed: u64, job: u32, side: Side) -> u64 {
    const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
    let end = u64::from(job) * 2 + u64::from(side == Side::Passive);
    let mut z = seed.wrapping_add((end + 1).wrapping_mul(GOLDEN_GAMMA));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
