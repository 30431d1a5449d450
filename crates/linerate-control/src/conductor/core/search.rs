//! Searches within a campaign. At its turn, each search evaluates its last trial and chooses the
//! next one.
//!
//! The list of trials contains a search as one planned trial without a step. Trials are evaluated
//! from the recorded events only, so that a resumed campaign chooses as the interrupted one would
//! have.

use std::collections::BTreeMap;

use linerate_analysis::search::{Bounds, Observation, Requirement, bounds};
use linerate_analysis::searched;
use linerate_model::plan::Order;
use linerate_model::{
    Campaign, Event, Incident, IncidentKind, JobSpec, Nanos, Params, Purpose, Searched, Step,
    TrialId, TrialOutcome, TrialRecord, TrialSpec, Warmup,
};

use super::{Conductor, Output};
use crate::search::{Ended, Expected, Outcome, Searcher, expected};

/// Duration of a trial besides load, drain and rest: agents prepare, connect and wait for the
/// barrier. Measured: 0.4 to 0.6 s.
const OVERHEAD: Nanos = Nanos::from_millis(500);
/// Shortest pause after a trial that is evaluated at once: events that others recorded arrive in
/// it.
const LEAST_REST: Nanos = Nanos::from_millis(1);
/// Shortest drain after a burst (RFC 9004 5.4: two seconds more than the buffer holds).
const BURST_DRAIN: Nanos = Nanos::from_secs(2);
/// Fewest intervals of a search's trial.
const LEAST_INTERVALS: u64 = 10;
/// Shortest interval.
const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(10);

/// Search that is executed.
#[derive(Debug)]
pub(super) struct Searching {
    searcher: Searcher,
    expected: Expected,
    spent: Nanos,
    /// Number of trials chosen so far.
    n_chosen: u32,
    /// Observations that count for its goals.
    observations: Vec<Observation>,
    /// Index and events of the trial that is executed or has just ended.
    last: Option<(usize, Box<Campaign>)>,
}

/// Collects the searches among `trials`, by index.
pub(super) fn planned(trials: &[TrialSpec]) -> BTreeMap<usize, Searching> {
    trials
        .iter()
        .enumerate()
        .filter_map(|(place, trial)| {
            let searched = trial.search.as_ref().filter(|searched| searched.step.is_none())?;
            let searching = Searching {
                searcher: Searcher::new(searched.search.clone()),
                expected: expected(&searched.search),
                spent: Nanos(0),
                n_chosen: 0,
                observations: Vec::new(),
                last: None,
            };
            Some((place, searching))
        })
        .collect()
}

impl Conductor {
    /// Sets the order of searches, and continues each from the trials that an earlier execution
    /// recorded.
    pub(crate) fn continue_searches(&mut self, order: Order, recorded: Vec<TrialRecord>) {
        self.order = order;
        let places: Vec<usize> = self.searches.keys().copied().collect();
        for place in places {
            let plan = self.trials[place].clone();
            let mut own: Vec<&TrialRecord> =
                recorded.iter().filter(|trial| is_of(trial, &plan)).collect();
            // A search is a function of the order of its trials.
            own.sort_by_key(|trial| number_of(&trial.spec));
            for trial in own {
                let Some(searching) = self.searches.get_mut(&place) else { continue };
                let step = trial.spec.search.as_ref().and_then(|searched| searched.step);
                // A trial that would not be chosen now has no place in this search, and neither
                // have those after it.
                if step.is_none() || searching.searcher.ask() != step {
                    break;
                }
                let mut campaign = Campaign::new(self.header.clone());
                campaign.trials.push(trial.clone());
                searching.n_chosen = number_of(&trial.spec) + 1;
                let added = self.add(place, trial.spec.clone());
                self.learn(place, added, &campaign);
            }
        }
        // The earlier execution has reported and recorded all of it.
        self.outputs.clear();
    }

    /// Adds a chosen trial to the list.
    fn add(&mut self, search: usize, trial: TrialSpec) -> usize {
        self.trials.push(trial);
        self.job_hosts.push(self.job_hosts_of_chosen(search));
        self.trials.len() - 1
    }

    /// Returns the hosts of a chosen trial's ends: those of its search. Jobs that a step adds are
    /// copies of the first, and a self-test stays on the active host or runs over the wire between
    /// the same two hosts.
    fn job_hosts_of_chosen(&self, search: usize) -> Vec<(usize, usize)> {
        let Some(spec) = self.trials.last() else { return Vec::new() };
        let hosts = |name: &str, other: usize| {
            self.hosts.iter().position(|host| host.name == name).unwrap_or(other)
        };
        let known = self.job_hosts[search].first().copied().unwrap_or_default();
        spec.jobs
            .iter()
            .map(JobSpec::agents)
            .map(|[from, to]| (hosts(from, known.0), hosts(to, known.1)))
            .collect()
    }

    /// Evaluates the last trial of the search at `place` and chooses the next one. `None` if the
    /// search is over.
    pub(super) fn choose(&mut self, place: usize) -> Option<usize> {
        let last = self.searches.get_mut(&place)?.last.take();
        if let Some((trial, campaign)) = last {
            self.learn(place, trial, &campaign);
        }
        let searching = self.searches.get_mut(&place)?;
        let Some(step) = searching.searcher.ask() else {
            let why = searching.searcher.ended().unwrap_or(Ended::Done);
            self.report_end(place, why);
            return None;
        };
        let number = searching.n_chosen;
        searching.n_chosen += 1;
        // The first trial has the id of its plan, so that the plan is not run a second time.
        let id = if number == 0 { self.trials[place].id } else { self.next_id() };
        let spec = derive(&self.trials[place], step, id, number);
        if number > 0 {
            self.n_trials += 1;
        }
        let mut watched = Campaign::new(self.header.clone());
        watched.apply(&Event::TrialChosen { trial: Box::new(spec.clone()) });
        let trial = self.add(place, spec.clone());
        if let Some(searching) = self.searches.get_mut(&place) {
            searching.last = Some((trial, Box::new(watched)));
        }
        self.outputs.push(Output::Record(Event::TrialChosen { trial: Box::new(spec) }));
        Some(trial)
    }

    fn next_id(&self) -> TrialId {
        TrialId(self.trials.iter().map(|trial| trial.id.0).max().map_or(0, |id| id + 1))
    }

    /// Gives the search at `place` the result of its trial, as recorded in `campaign`.
    fn learn(&mut self, place: usize, trial: usize, campaign: &Campaign) {
        let Some(result) = campaign.trials.first().and_then(|record| searched(campaign, record))
        else {
            return;
        };
        // An interrupted trial says nothing, and is chosen again when the campaign is resumed.
        if campaign.trials[0].outcome == Some(TrialOutcome::Interrupted) {
            return;
        }
        let Some(searching) = self.searches.get_mut(&place) else { return };
        searching.spent = searching.spent + self.trials[trial].phases.total();
        let observation = result.observation();
        let counts = searching.searcher.take(match observation {
            None => Outcome::Invalid,
            Some(observation) if result.doubtful => Outcome::Doubtful(observation),
            Some(observation) => Outcome::Valid(observation),
        });
        searching
            .observations
            .extend(observation.filter(|_| counts && result.purpose == Purpose::Load));
        let goals = searching.searcher.search().goals().into_iter();
        let found: Vec<(String, Bounds)> = goals
            .map(|goal| {
                (goal.name.clone(), bounds(&Requirement::from(goal), &searching.observations))
            })
            .collect();
        self.outputs.push(Output::Searched { trial, result: Box::new(result), found });
    }

    fn report_end(&mut self, place: usize, why: Ended) {
        let plan = &self.trials[place];
        let unit = plan.search.as_ref().map(|searched| searched.search.unit);
        let reason = match why {
            Ended::Done => None,
            Ended::TesterLimited(load) => Some((
                IncidentKind::Tester,
                format!(
                    "tester-limited at {}: the tester made the same trial invalid four times. \
                        Lower `max`, give the endpoints CPUs of their own, or use a faster \
                        backend.",
                    unit.map_or_else(|| load.to_string(), |unit| unit.told(load))
                ),
            )),
            Ended::Trials => Some((
                IncidentKind::Environment,
                "it reached its limit of trials (`max_trials`)".to_owned(),
            )),
            Ended::Duration => Some((
                IncidentKind::Environment,
                "it reached its limit of time (`max_duration`)".to_owned(),
            )),
        };
        if let Some((kind, reason)) = reason {
            let coordinate = serde_json::to_string(&plan.point).unwrap_or_default();
            let message =
                format!("search {}, {coordinate}, run {}: {reason}", plan.sweep, plan.repeat + 1);
            self.outputs.push(Output::Record(Event::Incident {
                trial: None,
                incident: Incident { host: String::new(), kind, message },
            }));
        }
        self.outputs.push(Output::SearchEnded { search: place, why });
    }

    /// Keeps the events of a search's trial until the search evaluates it.
    pub(super) fn watch_search(&mut self, event: &Event) {
        let Some(of) = event.trial() else { return };
        let mut under_way =
            self.searches.values_mut().filter_map(|searching| searching.last.as_mut());
        if let Some((_, campaign)) =
            under_way.find(|(_, campaign)| campaign.trials.iter().any(|t| t.spec.id == of))
        {
            campaign.apply(event);
        }
    }

    /// Schedules the next turn of the search whose trial ended.
    pub(super) fn take_turns(&mut self, trial: usize) {
        let of_trial = |searching: &Searching| {
            searching.last.as_ref().is_some_and(|(under_way, _)| *under_way == trial)
        };
        let Some(place) = self
            .searches
            .iter()
            .find(|(_, searching)| of_trial(searching))
            .map(|(place, _)| *place)
        else {
            return;
        };
        let repeat = self.trials[place].repeat;
        let turn = match self.order {
            Order::Sequential => 0,
            // Behind all other trials of the same round.
            Order::Interleaved => {
                let later = |other: &usize| self.trials[*other].repeat > repeat;
                self.pending.iter().position(later).unwrap_or(self.pending.len())
            }
        };
        // Back into the list: other searches and points get their turns in between.
        self.pending.insert(turn, place);
    }

    /// Returns the pause after `trial`.
    pub(super) fn rest_after(&self, trial: usize) -> Nanos {
        let spec = &self.trials[trial];
        let is_judged =
            spec.search.is_some() || spec.until.is_some() || self.mixes.follow_from(trial);
        if is_judged { spec.phases.rest.max(LEAST_REST) } else { spec.phases.rest }
    }

    /// Returns the remaining time of `trial`. For a search, this is its expected duration without
    /// the time that it has taken.
    pub(super) fn left_of(&self, trial: usize) -> Nanos {
        let phases = &self.trials[trial].phases;
        let Some(searching) = self.searches.get(&trial) else { return phases.total() };
        let each = phases.drain + phases.rest + OVERHEAD;
        let whole = searching.expected.loaded.0 + each.0 * u64::from(searching.expected.n_trials);
        Nanos(whole).since(searching.spent)
    }
}

fn number_of(trial: &TrialSpec) -> u32 {
    trial.search.as_ref().map_or(0, |searched| searched.number)
}

/// Returns whether `trial` was chosen by the search that `plan` plans, and was not interrupted.
fn is_of(trial: &TrialRecord, plan: &TrialSpec) -> bool {
    let spec = &trial.spec;
    let ended = matches!(trial.outcome, Some(TrialOutcome::Completed | TrialOutcome::Failed));
    ended && spec.sweep == plan.sweep && spec.point == plan.point && spec.repeat == plan.repeat
}

/// Returns the trial for `step` of the search that `plan` plans.
fn derive(plan: &TrialSpec, step: Step, id: TrialId, number: u32) -> TrialSpec {
    let mut trial = plan.clone();
    trial.id = id;
    // A seed for each number: trials differ in ports and payload, executions of a plan do not.
    trial.seed = plan.seed.wrapping_add(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let Some(searched) = &mut trial.search else { return trial };
    let Searched { search, .. } = &**searched;
    let (parameter, unit) = (search.parameter.clone(), search.unit);
    let offer = |params: &mut Params, load| params.set(&parameter, unit.written(load));
    for job in trial.jobs.iter_mut().filter(|job| job.background.is_none()) {
        offer(&mut job.params, step.then.map_or(step.load, |(after, _)| after));
    }
    if let Some((after, _)) = step.then {
        // The overload is one job with the low load and, as long as it lasts, a second one with
        // the difference: changing the load of a single job would need a pause.
        let over: Vec<_> =
            trial.jobs.iter().filter(|job| job.background.is_none()).cloned().collect();
        for mut job in over {
            offer(&mut job.params, step.load - after);
            job.background =
                Some(linerate_model::Background { start_ns: 0, duration: step.duration });
            trial.jobs.push(job);
        }
    }
    if step.purpose == Purpose::SelfTest {
        let wire = search.wire.as_deref().cloned();
        for job in trial.jobs.iter_mut().filter(|job| job.background.is_none()) {
            match &wire {
                Some((from, to)) => (job.from, job.to) = (from.clone(), to.clone()),
                None => to_loopback(job),
            }
        }
        trial.jobs.retain(|job| job.background.is_none());
    }
    let phases = &mut trial.phases;
    phases.measure = step.duration + step.then.map_or(Nanos(0), |(_, duration)| duration);
    // RFC 2544 counts every frame of a trial; a warm-up would hide losses.
    phases.warmup = Warmup::Fixed(Nanos(0));
    let tenth = Nanos(phases.measure.0 / LEAST_INTERVALS).max(SHORTEST_INTERVAL);
    phases.interval = phases.interval.min(tenth).min(phases.measure);
    if step.purpose == Purpose::Burst {
        phases.drain = phases.drain.max(BURST_DRAIN);
    }
    searched.step = Some(step);
    searched.number = number;
    trial
}

/// Moves both ends of `job` to its active host, over loopback, where the tester alone is the limit.
fn to_loopback(job: &mut linerate_model::JobSpec) {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    let v6 =
        [&job.from, &job.to].iter().any(|end| end.address.is_some_and(|address| address.is_ipv6()));
    let loopback = if v6 { IpAddr::from(Ipv6Addr::LOCALHOST) } else { Ipv4Addr::LOCALHOST.into() };
    let (cpus, pin) = (job.to.cpus.clone(), job.to.pin);
    let same = job.from.host == job.to.host;
    job.from.address = Some(loopback);
    job.from.device = None;
    job.from.ncsi = None;
    let name = job.to.name.clone();
    job.to = job.from.clone();
    job.to.name = name;
    if same {
        (job.to.cpus, job.to.pin) = (cpus, pin);
    }
}
