//! Settings of both hosts of a path, tried one after the other. Each is predicted, proven by
//! interleaved pairs beside a placebo, and put back. A setting that helps and harms nothing goes
//! into the profile of its host.
//!
//! Each stage is a campaign in a ledger of its own, whose arms are the settings, so that each claim
//! can be judged again. The placebo writes the present value once more. Not seen: other traffic on
//! the path during the measurement, and two changes that help only together.

use std::collections::BTreeMap;

use linerate_analysis::compare::prove;
use linerate_analysis::tune::experiments::{
    By, Candidate, Hindrance, HindranceKind, Host, Known, Looked, TUNING_EXPERIMENTS,
    TuningExperiment, Untried,
};
use linerate_analysis::tune::{change_of, missed, rates};
use linerate_analysis::{PathEnd, PointStudy, Study};
use linerate_control::{ControlError, Setting, SettingState};
use linerate_model::plan::{Draft, DraftArm, DraftCompare, DraftJob, DraftSweep};
use linerate_model::series::qdisc;
use linerate_model::{Campaign, Endpoint, HostSetting, Nanos, Verdict};
use linerate_sys::steering;
use serde_json::Value;

use super::outcome::{self, BACKWARD, FORWARD, Findings, NotProven, NotTried, REQUESTS, Tried};
use super::{Sessions, Settings};
use crate::stages::Bench;
use crate::{Ended, Exit, Failure, Result};

/// Options of `tune host`.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTuning {
    /// Kinds of change to try; all if empty.
    pub tried: Vec<String>,
    /// Pairs of an experiment.
    pub pairs: u32,
    /// Length of each run, s.
    pub seconds: f64,
    /// Warm-up of each run, s.
    pub omit: f64,
}

/// Tolerance of a prediction, as a ratio: predictions leave out headers and the granularity of
/// windows.
const SLACK: f64 = 1.05;
/// Time that a run waits for data in flight, the pause after it, and the length of its intervals.
const DRAIN: Nanos = Nanos::from_millis(200);
const REST: Nanos = Nanos::from_millis(50);
const INTERVAL: Nanos = Nanos::from_millis(100);
/// Name of the sweep of a flood.
const FLOOD: &str = "flood";

/// Returns the kinds of change called `names`, or all if `names` is empty.
///
/// # Errors
/// If a name is unknown.
pub fn chosen(names: &[String]) -> Result<Vec<&'static TuningExperiment>> {
    let all = || {
        TUNING_EXPERIMENTS.iter().map(|experiment| experiment.name).collect::<Vec<_>>().join(", ")
    };
    if let Some(unknown) =
        names.iter().find(|name| TUNING_EXPERIMENTS.iter().all(|known| known.name != **name))
    {
        return Err(Failure::wrong(format!(
            "tune: `{unknown}` is not a kind of change (expected one of {})",
            all()
        )));
    }
    let wanted = |experiment: &&TuningExperiment| {
        names.is_empty() || names.iter().any(|name| name == experiment.name)
    };
    Ok(TUNING_EXPERIMENTS.iter().filter(wanted).collect())
}

/// Tries the settings that may help on the path between `ends`. The caller writes the profiles.
///
/// # Errors
/// If a stage could not be run to its end, the path could not be measured, or a host could not be
/// asked.
pub fn tune(
    bench: &dyn Bench,
    sessions: &(impl Sessions + ?Sized),
    ends: (&Endpoint, &Endpoint),
    tuning: &HostTuning,
) -> Result<Findings, Ended> {
    let chosen = chosen(&tuning.tried)?;
    let load = Load { tuning, from: &ends.0.name, to: &ends.1.name };
    let floods = chosen.iter().any(|experiment| experiment.floods);
    let (campaign, study) = bench.observe("baseline", &load.baseline(floods))?;
    let point = study.points.iter().find(|point| point.sweep == FORWARD).ok_or_else(|| {
        Failure::new(
            Exit::Invalid,
            "tune: the path could not be measured: see the report of baseline.ledger",
        )
    })?;
    let looked = look(sessions, &campaign, point, ends, &chosen)?;
    let mut findings = Findings { campaign: campaign.header.id.clone(), ..Findings::default() };
    for (experiment, looked) in looked {
        let name = experiment.name;
        let not_tried =
            |untried: Untried| NotTried::new(name, endpoint(untried.end, ends), untried);
        let (candidates, untried): (Vec<_>, Vec<_>) = looked.into_iter().partition(Result::is_ok);
        findings.untried.extend(untried.into_iter().filter_map(Result::err).map(not_tried));
        let (best, outdone) =
            scout(bench, &load, name, candidates.into_iter().flatten().collect())?;
        findings.untried.extend(outdone.into_iter().map(not_tried));
        if let Some(candidate) = best {
            findings.tried.push(put_to_test(bench, &load, name, candidate, ends)?);
        }
    }
    Ok(findings)
}

fn endpoint<'a>(end: PathEnd, (from, to): (&'a Endpoint, &'a Endpoint)) -> &'a Endpoint {
    if end == PathEnd::Receiver { to } else { from }
}

/// An experiment, and the result of its look at the path.
type Look = (&'static TuningExperiment, Vec<Looked>);

/// Returns the candidates of each experiment, and the settings that are not tried with the reason.
/// Each candidate has been set once, and put back, to know that it can be.
fn look(
    sessions: &(impl Sessions + ?Sized),
    campaign: &Campaign,
    point: &PointStudy,
    ends: (&Endpoint, &Endpoint),
    chosen: &[&'static TuningExperiment],
) -> Result<Vec<Look>> {
    let (from, to) = ends;
    let mut opened = BTreeMap::new();
    for host in [&from.host, &to.host] {
        if !opened.contains_key(host.as_str()) {
            opened.insert(host.as_str(), sessions.open(host)?);
        }
    }
    let asked: Vec<&'static str> =
        chosen.iter().flat_map(|experiment| experiment.asks).copied().collect();
    let trial = |sweep: &str| campaign.trials.iter().find(|trial| trial.spec.sweep == sweep);
    let stream = trial(FORWARD);
    let known = Known {
        point,
        sender: host_of(campaign, from, &asked, &mut opened),
        receiver: host_of(campaign, to, &asked, &mut opened),
        flood: trial(FLOOD).and_then(rates),
        dropped: stream
            .and_then(|trial| change_of(trial, &from.host, |read| qdisc::DROPS.is(read))),
        missed: stream.and_then(|trial| missed(trial, &to.host)),
    };
    let mut looks = Vec::new();
    for experiment in chosen {
        let looked = (experiment.look)(&known).into_iter();
        let mut set = |candidate: Candidate| set_once(candidate, ends, &mut opened);
        let looked = looked.map(|looked| looked.and_then(&mut set)).collect();
        looks.push((*experiment, looked));
    }
    Ok(looks)
}

/// Open sessions by host.
type Opened<'a> = BTreeMap<&'a str, Box<dyn Settings>>;

/// Returns what is known of a host, with its values of the settings `asked` for.
fn host_of(
    campaign: &Campaign,
    endpoint: &Endpoint,
    asked: &[&'static str],
    opened: &mut Opened<'_>,
) -> Host {
    let mut host = facts(campaign, endpoint);
    if let Some(session) = opened.get_mut(endpoint.host.as_str()) {
        // Read one by one, so that an interface without a setting does not hide the others.
        for &name in asked {
            let setting = Setting::of(name, endpoint.device.as_deref(), "");
            host.settings.insert(name, value_of(session.read(vec![setting])));
        }
    }
    host
}

/// Sets a candidate and puts it back, to know that it can be set.
fn set_once(candidate: Candidate, ends: (&Endpoint, &Endpoint), opened: &mut Opened<'_>) -> Looked {
    let endpoint = endpoint(candidate.end, ends);
    let session = opened.get_mut(endpoint.host.as_str());
    let Some(session) = session.filter(|_| candidate.by == By::Agent) else {
        return Ok(candidate);
    };
    let device = endpoint.device.as_deref();
    let set = session.apply(vec![Setting::of(candidate.setting, device, &candidate.after)]);
    match set.and_then(|_| session.revert()) {
        Ok(()) => Ok(candidate),
        Err(error) => {
            let hindrance = hindrance(HindranceKind::Refused, error);
            Err(Untried { end: candidate.end, setting: candidate.setting, hindrance })
        }
    }
}

fn facts(campaign: &Campaign, endpoint: &Endpoint) -> Host {
    let record = campaign.hosts.iter().find(|record| record.host == endpoint.host);
    let recorded = record.map(|record| &record.facts);
    let at = |path: &[&str]| path.iter().try_fold(recorded?, |tree: &Value, name| tree.get(name));
    fn names(value: &Value) -> Vec<String> {
        match value {
            Value::String(text) => text.split_whitespace().map(str::to_owned).collect(),
            Value::Array(names) => {
                names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        }
    }
    let n_cpus = at(&["cpu", "count"]).or_else(|| at(&["cpu", "online"])).and_then(Value::as_u64);
    let n_cpus = n_cpus.and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
    let device = endpoint.device.as_deref().unwrap_or_default();
    Host {
        settings: BTreeMap::new(),
        congestion_controls: at(&["net", "available_congestion_control"])
            .map(names)
            .unwrap_or_default(),
        n_cpus,
        all_cpus: steering::mask(&(0..n_cpus).collect::<Vec<_>>()),
        largest_ring: at(&["interfaces", device, "rings", "rx_max"]).and_then(Value::as_u64),
    }
}

/// Returns the value of a setting that may be changed.
fn value_of(read: Result<Vec<SettingState>, ControlError>) -> Result<String, Hindrance> {
    let states = read.map_err(|error| hindrance(HindranceKind::NotOffered, error))?;
    let state =
        states.into_iter().next().ok_or_else(|| not_offered("the agent did not report it"))?;
    if let Some(why) = state.refused {
        let (kind, message) = (HindranceKind::NotConsented, clause(&why));
        return Err(Hindrance::Agent { kind, message });
    }
    match state.setting {
        Setting::CpuQuota { value } | Setting::Sysctl { value, .. } => Ok(value),
        Setting::Steering { value, .. } if value.contains(' ') => Err(not_offered(&format!(
            "its queues differ ({value}): there is no one value to put back"
        ))),
        Setting::Steering { value, .. } => Ok(value),
        Setting::RouteWindow { .. } => Err(not_offered("the agent reported a route")),
    }
}

fn not_offered(message: &str) -> Hindrance {
    Hindrance::Agent { kind: HindranceKind::NotOffered, message: message.to_owned() }
}

fn hindrance(kind: HindranceKind, error: ControlError) -> Hindrance {
    let message = match error {
        ControlError::Setting { why, .. } => clause(&why),
        other => other.to_string(),
    };
    Hindrance::Agent { kind, message }
}

/// Returns an agent's message without its first clause, the setting, which is shown beside it.
fn clause(why: &str) -> String {
    why.split_once(": ").map_or(why, |(_, cause)| cause).to_owned()
}

/// Load and its plans.
struct Load<'a> {
    tuning: &'a HostTuning,
    from: &'a str,
    to: &'a str,
}

impl Load<'_> {
    fn draft(&self, name: &str, sweeps: Vec<DraftSweep>) -> Draft {
        Draft::new(format!("tune-{name}"), 1, sweeps)
    }

    fn sweep(&self, name: &str, job: DraftJob) -> DraftSweep {
        let (duration, warmup) =
            (Nanos::from_secs_f64(self.tuning.seconds), Nanos::from_secs_f64(self.tuning.omit));
        DraftSweep {
            drain: Some(DRAIN),
            rest: Some(REST),
            interval: Some(INTERVAL.min(duration)),
            ..DraftSweep::one(name, duration, warmup, job)
        }
    }

    fn job(&self, workload: &str) -> DraftJob {
        DraftJob::new(workload, self.from, self.to)
    }

    fn baseline(&self, floods: bool) -> Draft {
        let stream = self.sweep(FORWARD, self.job("tcp_stream"));
        let flood =
            floods.then(|| self.sweep(FLOOD, self.job("udp_stream").with([("gso", 1.into())])));
        self.draft("baseline", [stream].into_iter().chain(flood).collect())
    }

    fn arms(&self, candidate: &Candidate, pairs: u32, placebo: bool) -> DraftCompare {
        let at = if candidate.end == PathEnd::Receiver { self.to } else { self.from };
        DraftCompare {
            pairs,
            tests: None,
            placebo: placebo
                .then(|| arm_with(candidate, at, "written once more", &candidate.before)),
            a: DraftArm::named("as it is"),
            b: arm_with(candidate, at, &candidate.name(), &candidate.after),
        }
    }

    /// Returns a run with and without each candidate.
    fn scouts(&self, name: &str, candidates: &[Candidate]) -> Draft {
        let arms = |candidate| self.arms(candidate, 1, false);
        let sweeps = candidates.iter().map(|candidate| {
            self.compared(arms(candidate), &candidate.name(), self.job("tcp_stream"))
        });
        self.draft(name, sweeps.collect())
    }

    fn compared(&self, arms: DraftCompare, name: &str, job: DraftJob) -> DraftSweep {
        DraftSweep { compare: Some(arms), ..self.sweep(name, job) }
    }

    fn pairs(&self, name: &str, candidate: &Candidate) -> Draft {
        let sweep = |name: &str, job: DraftJob, placebo: bool| {
            self.compared(self.arms(candidate, self.tuning.pairs, placebo), name, job)
        };
        let mut sweeps = vec![sweep(FORWARD, self.job("tcp_stream"), true)];
        // A setting of a socket has no effect on other sockets.
        if candidate.by == By::Agent {
            let backward = self.job("tcp_stream").with([("direction", "rx".into())]);
            sweeps.extend([
                sweep(BACKWARD, backward, false),
                sweep(REQUESTS, self.job("tcp_rr"), false),
            ]);
        }
        self.draft(name, sweeps)
    }
}

/// Returns the arm in which the setting of `candidate` has `value`.
fn arm_with(candidate: &Candidate, at: &str, name: &str, value: &str) -> DraftArm {
    let mut arm = DraftArm::named(name);
    match candidate.by {
        By::Agent => {
            arm.settings.push(HostSetting {
                at: at.into(),
                name: candidate.setting.into(),
                value: value.into(),
            });
        }
        // The socket's default: the same once more.
        By::Load if value.is_empty() => {}
        By::Load => arm.params.set(candidate.setting, value),
    }
    arm
}

/// Returns the candidate that yields most in one run each, and those that yield less. Pairs of
/// fresh runs judge the best.
fn scout(
    bench: &dyn Bench,
    load: &Load<'_>,
    name: &str,
    mut candidates: Vec<Candidate>,
) -> Result<(Option<Candidate>, Vec<Untried>), Ended> {
    if candidates.len() < 2 {
        return Ok((candidates.pop(), Vec::new()));
    }
    let stage = format!("{name}-scout");
    let (_, study) = bench.observe(&stage, &load.scouts(&stage, &candidates))?;
    let yields = |candidate: &Candidate| yield_of(&study, candidate);
    candidates.sort_by(|a, b| yields(a).total_cmp(&yields(b)));
    let Some(best) = candidates.pop() else { return Ok((None, Vec::new())) };
    let outdone = candidates.into_iter().map(|candidate| {
        let (yields, best_yields) = (yields(&candidate), yields(&best));
        let hindrance = Hindrance::Outdone { yields, best: best.name(), best_yields };
        Untried { end: candidate.end, setting: candidate.setting, hindrance }
    });
    let outdone = outdone.collect();
    Ok((Some(best), outdone))
}

/// Returns the change of goodput by a candidate, as a ratio; 0 where it was not measured.
fn yield_of(study: &Study, candidate: &Candidate) -> f64 {
    let name = candidate.name();
    let of = study.comparisons.iter().find(|comparison| comparison.sweep == name);
    of.and_then(linerate_analysis::diagnosis::goodput_of)
        .map_or(0.0, |goodput| goodput.effect.shift)
}

/// Runs pairs with and without `candidate`, and the placebo beside them.
fn put_to_test(
    bench: &dyn Bench,
    load: &Load<'_>,
    name: &str,
    candidate: Candidate,
    ends: (&Endpoint, &Endpoint),
) -> Result<Tried, Ended> {
    let (_, study) = bench.observe(name, &load.pairs(name, &candidate))?;
    let endpoint = endpoint(candidate.end, ends);
    let of = |sweep: &str| study.comparisons.iter().find(|comparison| comparison.sweep == sweep);
    let goodput = of(FORWARD).and_then(linerate_analysis::diagnosis::goodput_of).cloned();
    let (verdict, why) = match &goodput {
        None => (Verdict::Inconclusive, Some(NotProven::NoFigures)),
        Some(goodput) => {
            let proof = prove(goodput.effect.clone(), goodput.placebo.clone());
            let [least, most] = candidate.ratio;
            let predicted = (least / SLACK..=most * SLACK).contains(&proof.effect.shift);
            match proof.verdict {
                Verdict::Proven if !predicted => {
                    (Verdict::Suspected, Some(NotProven::NotAsPredicted(candidate.ratio)))
                }
                verdict => (verdict, proof.why.map(NotProven::Effect)),
            }
        }
    };
    Ok(Tried {
        host: endpoint.host.clone(),
        device: outcome::device_of(candidate.setting, endpoint),
        side_effects: outcome::side_effects(&study),
        candidate,
        verdict,
        why,
        goodput,
    })
}
