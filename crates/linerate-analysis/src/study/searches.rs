//! The searches of a campaign: each run's bounds, strictly and without its tainted trials, and
//! their spread over the runs.

use std::collections::BTreeMap;

use linerate_model::{
    Campaign, Ceiling, Goal, Method, Point, Purpose, Search, TrialRecord, Validity,
};
use serde::{Deserialize, Serialize};

use super::gate::{Doubt, Line};
use super::reason::Reason;
use super::samples::Hosts;
use super::search_latency::{LatencyAtLoad, SearchLatency, at_loads};
use super::search_trial::{SearchTrial, searched, settle};
use super::{ceilings, judge, point, warmup};
use crate::search::{BackToBack, Bounds, Observation, Requirement, back_to_back, bounds};
use crate::statistics::median;

/// One search: a sweep's point, and its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchStudy {
    /// The sweep.
    pub sweep: String,
    /// The coordinate.
    pub parameters: Point,
    /// The workload searched with.
    pub workload: String,
    /// Endpoint names.
    pub from: String,
    /// Endpoint names.
    pub to: String,
    /// The search; its highest load is the planned one.
    pub search: Search,
    /// Line rate of the path for such a load in each direction, if known. No bound below exceeds
    /// it.
    pub line: Option<Ceiling>,
    /// Its goals over all runs.
    pub goals: Vec<GoalStudy>,
    /// Its runs, in the order of the plan.
    pub runs: Vec<SearchRun>,
}

/// One goal over all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalStudy {
    /// The goal.
    pub goal: Goal,
    /// Number of runs whose bounds meet the goal.
    pub n_regular: usize,
    /// Median lower bound of the runs that have one.
    pub lower: Option<f64>,
    /// Median upper bound.
    pub upper: Option<f64>,
    /// Median conditional throughput.
    pub conditional_throughput: Option<f64>,
    /// Lowest and highest lower bound of the runs.
    pub range: Option<(f64, f64)>,
}

/// One run of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchRun {
    /// Number of the repeat.
    pub repeat: u32,
    /// Rate of the tester without the device, if it was measured.
    pub tester: Option<f64>,
    /// The highest load tried.
    pub max: f64,
    /// Load at which the tester was the limit, if it was: the last step was invalid as often as it
    /// was tried.
    pub tester_limited: Option<f64>,
    /// Results by goal.
    pub found: Vec<GoalResult>,
    /// The longest bursts, if they were searched for.
    pub bursts: Option<BackToBack>,
    /// Latency at each load it was measured at, the lowest first.
    #[serde(default)]
    pub latencies: Vec<LatencyAtLoad>,
    /// Its trials, in order.
    pub trials: Vec<SearchTrial>,
}

/// Result of a run for one goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The goal's name.
    pub goal: String,
    /// From every trial the device answers for.
    pub strict: Bounds,
    /// Without the tainted ones.
    pub untainted: Bounds,
    /// True if the strict bounds meet the goal.
    pub regular: bool,
    /// True if the tester rather than the device limits the upper bound: it could carry no more by
    /// itself, or did not send the load of the upper bound. The result is then *at least* the lower
    /// bound.
    #[serde(default)]
    pub at_least: bool,
    /// Why trials above the line rate do not count, if there are any.
    pub withheld: Option<Reason>,
}

impl SearchStudy {
    /// `rate`, or the path's line where that is lower: frames that a buffer held are received
    /// behind the trial.
    #[must_use]
    pub fn possible(&self, rate: f64) -> f64 {
        self.line.as_ref().map_or(rate, |line| rate.min(line.value))
    }
}

/// Returns the searches of `campaign`, in the order of the plan.
pub(super) fn searches(campaign: &Campaign) -> Vec<SearchStudy> {
    let mut trials: Vec<&TrialRecord> =
        campaign.trials.iter().filter(|trial| trial.spec.search.is_some()).collect();
    trials.sort_by_key(|trial| trial.spec.id);
    let mut order: Vec<(String, String)> = Vec::new();
    let mut points: BTreeMap<(String, String), Vec<&TrialRecord>> = BTreeMap::new();
    for trial in trials {
        let coordinate =
            serde_json::to_string(&trial.spec.point).expect("a point is a table of JSON values");
        let key = (trial.spec.sweep.clone(), coordinate);
        if !points.contains_key(&key) {
            order.push(key.clone());
        }
        points.entry(key).or_default().push(trial);
    }
    order.iter().filter_map(|key| study(campaign, &points[key])).collect()
}

fn study(campaign: &Campaign, trials: &[&TrialRecord]) -> Option<SearchStudy> {
    let spec = &trials.first()?.spec;
    let search = spec.search.as_ref()?.search.clone();
    let job = spec.jobs.iter().find(|job| job.background.is_none())?;
    let mut repeats: Vec<u32> = trials.iter().map(|trial| trial.spec.repeat).collect();
    repeats.sort_unstable();
    repeats.dedup();
    let line = line(campaign, &search, trials);
    let mut runs = Vec::with_capacity(repeats.len());
    for repeat in repeats {
        let own =
            trials.iter().filter(|trial| trial.spec.repeat == repeat && trial.started.is_some());
        let mut own: Vec<SearchTrial> = own.filter_map(|trial| searched(campaign, trial)).collect();
        own.sort_by_key(|trial| trial.number);
        settle(&mut own);
        runs.push(run(&search, repeat, own, line.as_ref()));
    }
    let goals = search.goals().into_iter().map(|goal| goal_study(goal, &runs)).collect();
    Some(SearchStudy {
        sweep: spec.sweep.clone(),
        parameters: spec.point.clone(),
        workload: job.workload.clone(),
        from: job.from.name.clone(),
        to: job.to.name.clone(),
        search,
        line: line.map(|line| line.ceiling().clone()),
        goals,
        runs,
    })
}

/// Returns the line rate of `search`, from the first trial at one of its loads.
fn line(campaign: &Campaign, search: &Search, trials: &[&TrialRecord]) -> Option<Line> {
    let trial = trials.iter().find(|trial| has_load(trial))?;
    let jobs = point::jobs_of(trial);
    let payloads = jobs.first()?.flows().into_iter().filter_map(|flow| flow.datagram_payload());
    // The smallest makes the most datagrams of a byte.
    let payload = payloads.map(|payload| payload.0 as f64).reduce(f64::min);
    let doubt = Doubt::of(campaign, trial);
    let bounds =
        ceilings::bounds(campaign, &Hosts::of(campaign), &[(jobs, warmup::measured(trial))]);
    Line::of(&bounds, search.unit, payload, doubt)
}

/// Returns whether `trial` offered a load and its figures count.
fn has_load(trial: &TrialRecord) -> bool {
    let step = trial.spec.search.as_ref().and_then(|searched| searched.step);
    step.is_some_and(|step| step.purpose == Purpose::Load)
        && judge::carried_out(trial).carries_figures()
}

fn run(search: &Search, repeat: u32, trials: Vec<SearchTrial>, line: Option<&Line>) -> SearchRun {
    fn of(trials: &mut dyn Iterator<Item = &SearchTrial>) -> Vec<Observation> {
        trials
            .filter(|trial| trial.purpose == Purpose::Load)
            .filter_map(SearchTrial::observation)
            .collect()
    }
    let strict = of(&mut trials.iter());
    let untainted = of(&mut trials.iter().filter(|trial| trial.validity == Validity::Valid));
    let mut tested =
        trials.iter().filter(|trial| trial.purpose == Purpose::SelfTest && trial.loss_ratio <= 0.0);
    let tester = tested.next_back().map(|trial| trial.load);
    let mut found = Vec::new();
    for goal in search.goals() {
        let requirement = Requirement::from(goal);
        let (strict, withheld) = admitted(&requirement, &strict, line);
        let (untainted, _) = admitted(&requirement, &untainted, line);
        found.push(GoalResult {
            goal: goal.name.clone(),
            regular: strict.regular(goal),
            at_least: is_bounded_by_tester(search, &strict, &trials, tester),
            strict,
            untainted,
            withheld,
        });
    }
    SearchRun {
        repeat,
        tester,
        max: strict.iter().map(|observation| observation.load).fold(0.0, f64::max),
        tester_limited: trials
            .last()
            .filter(|trial| trial.validity > Validity::Suspect)
            .map(|trial| trial.load),
        bursts: bursts(search, &trials, found.first()),
        latencies: at_loads(latencies(search, &trials)),
        found,
        trials,
    }
}

/// Returns the bounds of `requirement` as the gate admits them, and why trials were left out.
fn admitted(
    requirement: &Requirement,
    trials: &[Observation],
    line: Option<&Line>,
) -> (Bounds, Option<Reason>) {
    let Some(line) = line else { return (bounds(requirement, trials), None) };
    let proofs = line.proofs(trials.to_vec());
    let n_left_out = proofs.n_left_out;
    let found = line.cut(bounds(requirement, &proofs.kept), n_left_out > 0);
    (found, (n_left_out > 0).then(|| line.why(n_left_out)))
}

/// Each load and its latency, of the trials of a search that were made for it.
fn latencies(
    search: &Search,
    trials: &[SearchTrial],
) -> impl Iterator<Item = (f64, SearchLatency)> {
    let asked = matches!(search.method, Method::Latency { .. });
    let measured = trials.iter().filter(move |trial| asked && trial.purpose == Purpose::Latency);
    measured
        .filter(|trial| trial.observation().is_some())
        .filter_map(|trial| Some((trial.load, trial.latency?)))
}

/// Returns whether the tester limits the load above the lower bound: it carried no more than that
/// by itself, or sent less than the load of the upper bound whenever frames were missing there.
fn is_bounded_by_tester(
    search: &Search,
    bounds: &Bounds,
    trials: &[SearchTrial],
    tester: Option<f64>,
) -> bool {
    let Some(upper) = bounds.upper else {
        return tester.is_some_and(|carried| {
            carried < search.max && bounds.lower.is_some_and(|lower| lower >= carried)
        });
    };
    let mut lossy = trials.iter().filter(|trial| {
        trial.purpose == Purpose::Load
            && trial.load == upper
            && trial.loss_ratio > 0.0
            && trial.observation().is_some()
    });
    lossy.clone().next().is_some() && lossy.all(|trial| trial.generator_limited)
}

/// Returns the longest burst without loss of each search for it: each begins with its longest, so
/// that a burst that is not shorter than one that lost before begins a new one. The rate of the
/// bursts is what they left at, where that was measured.
fn bursts(
    search: &Search,
    trials: &[SearchTrial],
    throughput: Option<&GoalResult>,
) -> Option<BackToBack> {
    let Method::BackToBack { .. } = search.method else { return None };
    let throughput = throughput?.strict.lower?;
    let (mut longest, mut lost_at): (Option<f64>, Option<f64>) = (None, None);
    let (mut found, mut rates) = (Vec::new(), Vec::new());
    let valid = trials
        .iter()
        .filter(|trial| trial.purpose == Purpose::Burst && trial.validity <= Validity::Suspect);
    for trial in valid {
        // Intended frames: one less may be sent at the edge.
        let frames = (trial.load * trial.duration.as_secs_f64()).round();
        rates.extend(trial.departed);
        if lost_at.is_some_and(|lost| frames >= lost) {
            found.extend(longest.take());
            lost_at = None;
        }
        if trial.loss_ratio > 0.0 {
            lost_at = Some(lost_at.map_or(frames, |lost: f64| lost.min(frames)));
        } else if longest.is_none_or(|longest| frames > longest) {
            longest = Some(frames);
        }
    }
    // Without a burst that lost, what was found is the limit of the search, not the buffer's.
    found.extend(longest.filter(|_| lost_at.is_some()));
    back_to_back(&found, median(&rates).unwrap_or(search.max), throughput)
}

fn goal_study(goal: &Goal, runs: &[SearchRun]) -> GoalStudy {
    let found = || runs.iter().flat_map(|run| &run.found).filter(|found| found.goal == goal.name);
    let of = |pick: fn(&Bounds) -> Option<f64>| {
        found().filter_map(|found| pick(&found.strict)).collect::<Vec<f64>>()
    };
    let lower = of(|bounds| bounds.lower);
    let extremes = lower.iter().copied().fold(None, |range: Option<(f64, f64)>, load| {
        Some(range.map_or((load, load), |(least, most)| (least.min(load), most.max(load))))
    });
    GoalStudy {
        goal: goal.clone(),
        n_regular: found().filter(|found| found.regular).count(),
        lower: median(&lower),
        upper: median(&of(|bounds| bounds.upper)),
        conditional_throughput: median(&of(|bounds| bounds.conditional_throughput)),
        range: extremes,
    }
}
