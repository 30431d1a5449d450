//! `linerate tune host`: settings of both hosts of a path tried one after the other: predicted, proven by interleaved pairs beside a
//! placebo, put back; what helps and harms nothing goes into a profile for its host.
//!
//! Each stage is a campaign in a ledger of its own, whose arms are the settings, so that everything can be judged again. The placebo
//! writes the present value once more. What it does not see: other traffic on the path while it measures, and two changes that help only
//! together.

use std::path::PathBuf;

use clap::Args;
use linerate_analysis::compare::{Change, prove};
use linerate_analysis::tune::experiments::{By, Candidate, Host, Known, TUNING_EXPERIMENTS, TuningExperiment};
use linerate_analysis::tune::{change_of, rates};
use linerate_analysis::{Compared, Comparison, End, PointStudy, Study};
use linerate_control::{Setting, SettingState, Tuner};
use linerate_model::{Campaign, Direction, Endpoint, HostRecord, Verdict};
use serde_json::{Value, json};

use super::profile::{self, Proven};
use crate::campaign;
use crate::cli::Global;
use crate::commands::ends::PathArgs;
use crate::commands::stage::{Ended, Stages};
use crate::exit::{Exit, Failure, Outcome};
use crate::testbeds::{self, Ground};

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true).multiple(true).args(["to", "lab", "testbed"]))]
pub(crate) struct TuneHostArgs {
    #[command(flatten)]
    pub(crate) path: PathArgs,
    /// Only these kinds of change, separated by commas: coalescing, congestion_control, offloads, pacing, placement, socket_buffers
    #[arg(long = "try", value_name = "NAME", value_delimiter = ',')]
    pub(crate) tried: Vec<String>,
    /// Pairs of an experiment: six are the fewest that prove anything
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pairs: u32,
    /// Seconds of each run
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Seconds before each run that do not count
    #[arg(long, default_value_t = 0.5)]
    pub(crate) omit: f64,
    /// Folder for the ledgers and the profiles, one for each host
    #[arg(long, default_value = "tune-host")]
    pub(crate) out: PathBuf,
}

/// Goodput may lie this far beyond the prediction: predictions know nothing of headers and of the grain of windows.
const SLACK: f64 = 1.05;
/// What gets worse by more than this speaks against a change.
const MOST_HARM: f64 = 0.1;
/// Figures that tell of side effects: in which sweep, which metric, what a person calls it.
const SIDE_EFFECTS: [(&str, &str, &str); 4] = [
    (FORWARD, "cpu_seconds_per_gigabyte", "CPU for a gigabyte"),
    (FORWARD, "rtt", LOADED),
    (BACKWARD, "goodput", "goodput the other way"),
    (REQUESTS, "response_time_p50", "response time, median"),
];
/// The queue that comes with a full link: told, but no harm of the change.
const LOADED: &str = "round trip under load";
/// The sweeps of an experiment.
const FORWARD: &str = "stream";
const FLOOD: &str = "flood";
const BACKWARD: &str = "the other way";
const REQUESTS: &str = "requests";

/// Tries what may help.
pub(super) fn run(args: &TuneHostArgs, global: Global) -> Outcome {
    if !(args.seconds > 0.0 && args.omit >= 0.0) {
        return Err(Failure::wrong("tune: --seconds must be above zero and --omit not below it"));
    }
    let chosen = chosen(&args.tried)?;
    let mut ground = testbeds::prepare(&args.path.place())?;
    std::fs::create_dir_all(&args.out)
        .map_err(|error| Failure::missing(format!("create folder {}: {error}", args.out.display())))?;
    let ended = try_all(args, global, &ground, &chosen);
    ground.dismantle();
    Ended::outcome(ended)
}

fn chosen(names: &[String]) -> Result<Vec<&'static dyn TuningExperiment>, Failure> {
    let all = || TUNING_EXPERIMENTS.iter().map(|experiment| experiment.name()).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = names.iter().find(|name| TUNING_EXPERIMENTS.iter().all(|known| known.name() != **name)) {
        return Err(Failure::wrong(format!("tune: `{unknown}` is no kind of change (there are {})", all())));
    }
    let wanted =
        |experiment: &&&dyn TuningExperiment| names.is_empty() || names.iter().any(|name| name == experiment.name());
    Ok(TUNING_EXPERIMENTS.iter().filter(wanted).copied().collect())
}

/// What came of a candidate.
struct Tried {
    candidate: Candidate,
    host: String,
    device: String,
    verdict: Verdict,
    why: String,
    goodput: Option<Compared>,
    side_effects: Vec<SideEffect>,
}

/// A figure beside goodput, and whether it got worse.
struct SideEffect {
    what: &'static str,
    percent: f64,
    change: Change,
}

impl Tried {
    /// Whether it helps, as predicted, and harms nothing.
    fn is_kept(&self) -> bool {
        let harms = self.side_effects.iter().any(SideEffect::harms);
        let better = self.goodput.as_ref().is_some_and(|goodput| goodput.effect.change == Change::Better);
        self.verdict == Verdict::Proven && better && !harms
    }
}

impl SideEffect {
    fn harms(&self) -> bool {
        self.change == Change::Worse && self.what != LOADED && self.percent.abs() > MOST_HARM * 100.0
    }
}

fn try_all(
    args: &TuneHostArgs,
    global: Global,
    ground: &Ground,
    chosen: &[&'static dyn TuningExperiment],
) -> Result<Exit, Ended> {
    let stages = Stages { what: "tune", ground, out: &args.out, global };
    let (from, to) = args.path.among("tune", &ground.testbed.endpoints)?;
    let load = Load { args, from: &from.name, to: &to.name };
    let floods = chosen.iter().any(|experiment| experiment.floods());
    let (campaign, study) = stages.observe("baseline", load.baseline(floods))?;
    let point = study.points.iter().find(|point| point.sweep == FORWARD).ok_or_else(|| {
        Failure::new(Exit::Invalid, "tune: the path could not be measured: see the report of baseline.ledger")
    })?;
    let known = known(ground, &campaign, point, (from, to), chosen)?;
    let mut outcomes = Vec::new();
    for experiment in chosen {
        let candidates = experiment.candidates(&known);
        let Some(candidate) = scout(&stages, &load, experiment.name(), candidates)? else { continue };
        outcomes.push(put_to_test(&stages, &load, experiment.name(), candidate, (from, to))?);
    }
    let kept: Vec<&Tried> = outcomes.iter().filter(|outcome| outcome.is_kept()).collect();
    let proven: Vec<Proven> = kept.iter().map(|outcome| proven(outcome)).collect();
    let profiles = profile::write(&args.out, &campaign.header.id, &proven)?;
    tell(&outcomes, &profiles, chosen, global);
    Ok(if kept.is_empty() { Exit::Missed } else { Exit::Done })
}

/// What both hosts are set to.
fn known<'a>(
    ground: &Ground,
    campaign: &Campaign,
    point: &'a PointStudy,
    (from, to): (&Endpoint, &Endpoint),
    chosen: &[&'static dyn TuningExperiment],
) -> Result<Known<'a>, Failure> {
    let asked: Vec<&str> = chosen.iter().flat_map(|experiment| experiment.asks()).copied().collect();
    let keys = campaign::keys_for(&ground.testbed.hosts)?;
    let host = |endpoint: &Endpoint| -> Result<Host, Failure> {
        let address = ground.testbed.hosts.iter().find(|(name, _)| *name == endpoint.host);
        let (_, address) =
            address.ok_or_else(|| Failure::wrong(format!("tune: host {} is not in the testbed", endpoint.host)))?;
        let mut tuner = Tuner::open(&endpoint.host, address, keys.as_ref(), "linerate tune")?;
        let mut host = facts(campaign, &endpoint.host);
        for name in &asked {
            // One by one: an interface without a setting must not hide the others.
            let Ok(states) = tuner.read(vec![Setting::of(name, endpoint.device.as_deref(), "")]) else { continue };
            if let Some(value) = states.first().and_then(value_of) {
                host.settings.insert((*name).to_owned(), value);
            }
        }
        Ok(host)
    };
    let trial = |sweep: &str| campaign.trials.iter().find(|trial| trial.spec.sweep == sweep);
    let flood = trial(FLOOD).and_then(rates);
    let dropped = trial(FORWARD).and_then(|trial| change_of(trial, &from.host, "qdisc", |name| name == "drops"));
    Ok(Known { point, sender: host(from)?, receiver: host(to)?, flood, dropped })
}

fn facts(campaign: &Campaign, host: &str) -> Host {
    let record = campaign.hosts.iter().find(|record| record.host == host);
    let at = |path: &[&str]| -> Option<&Value> {
        let facts: &HostRecord = record?;
        path.iter().try_fold(&facts.facts, |tree, name| tree.get(name))
    };
    let names = |value: &Value| -> Vec<String> {
        match value {
            Value::String(text) => text.split_whitespace().map(str::to_owned).collect(),
            Value::Array(names) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            _ => Vec::new(),
        }
    };
    let n_cpus = at(&["cpu", "count"]).or_else(|| at(&["cpu", "online"])).and_then(Value::as_u64);
    let n_cpus = n_cpus.and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
    Host {
        settings: std::collections::BTreeMap::new(),
        congestion_controls: at(&["net", "available_congestion_control"]).map(names).unwrap_or_default(),
        n_cpus,
        all_cpus: steering::mask(&(0..n_cpus).collect::<Vec<_>>()),
    }
}

fn value_of(state: &SettingState) -> Option<String> {
    match &state.setting {
        Setting::CpuQuota { value } | Setting::Sysctl { value, .. } => Some(value.clone()),
        // Queues that differ have no one value to put back to.
        Setting::Steering { value, .. } => (!value.contains(' ')).then(|| value.clone()),
        Setting::RouteWindow { .. } => None,
    }
}

/// The load and its plans.
struct Load<'a> {
    args: &'a TuneHostArgs,
    from: &'a str,
    to: &'a str,
}

impl Load<'_> {
    fn head(&self, name: &str) -> String {
        format!("[campaign]\nname = \"tune-{name}\"\nrepeats = 1\norder = \"interleaved\"\n")
    }

    fn sweep(&self, name: &str, workload: &str, params: &str) -> String {
        let Self { args, from, to } = self;
        let ms = |seconds: f64| (seconds * 1e3).round();
        format!(
            "\n[[sweep]]\nname = {name:?}\nduration = \"{} ms\"\nwarmup = \"{} ms\"\ndrain = \"200 ms\"\nrest = \"50 ms\"\n\
             interval = \"100 ms\"\n[[sweep.job]]\nfrom = {from:?}\nto = {to:?}\nworkload = \"{workload}\"\nparams = {{ {params} }}\n",
            ms(args.seconds),
            ms(args.omit)
        )
    }

    fn baseline(&self, floods: bool) -> String {
        let flood = if floods { self.sweep(FLOOD, "udp_stream", "gso = 1") } else { String::new() };
        format!("{}{}{flood}", self.head("baseline"), self.sweep(FORWARD, "tcp_stream", ""))
    }

    fn arms(&self, candidate: &Candidate, pairs: u32, placebo: bool) -> String {
        let at = if candidate.end == End::Receiver { self.to } else { self.from };
        let setting = candidate.setting;
        let set = |value: &str| match candidate.by {
            By::Agent => format!(", settings = [{{ at = {at:?}, name = {setting:?}, value = {value:?} }}]"),
            // A socket that nothing is asked of: the same once more.
            By::Load if value.is_empty() => String::new(),
            By::Load => format!(", params = {{ {setting} = {value:?} }}"),
        };
        let placebo = match placebo {
            true => format!("placebo = {{ name = \"written once more\"{} }}\n", set(&candidate.before)),
            false => String::new(),
        };
        format!(
            "[sweep.compare]\npairs = {pairs}\n{placebo}a = {{ name = \"as it is\" }}\nb = {{ name = {:?}{} }}\n",
            candidate.name,
            set(&candidate.after)
        )
    }

    /// A run with and without each.
    fn scouts(&self, name: &str, candidates: &[Candidate]) -> String {
        let sweep = |candidate: &Candidate| {
            format!("{}{}", self.sweep(&candidate.name, "tcp_stream", ""), self.arms(candidate, 1, false))
        };
        format!("{}{}", self.head(name), candidates.iter().map(sweep).collect::<String>())
    }

    fn pairs(&self, name: &str, candidate: &Candidate) -> String {
        let pairs = self.args.pairs;
        let sweep = |name: &str, workload: &str, params: &str, placebo: bool| {
            format!("{}{}", self.sweep(name, workload, params), self.arms(candidate, pairs, placebo))
        };
        let forward = format!("{}{}", self.head(name), sweep(FORWARD, "tcp_stream", "", true));
        if candidate.by == By::Load {
            // What a socket does to itself, it does to no other.
            return forward;
        }
        format!(
            "{forward}{}{}",
            sweep(BACKWARD, "tcp_stream", "direction = \"rx\"", false),
            sweep(REQUESTS, "tcp_rr", "", false)
        )
    }
}

/// The candidate that yields most in a run each; pairs of fresh runs judge it.
fn scout(
    stages: &Stages<'_>,
    load: &Load<'_>,
    name: &str,
    candidates: Vec<Candidate>,
) -> Result<Option<Candidate>, Ended> {
    if candidates.len() < 2 {
        return Ok(candidates.into_iter().next());
    }
    let stage = format!("{name}-scout");
    let (_, study) = stages.observe(&stage, load.scouts(&stage, &candidates))?;
    let yields = |candidate: &Candidate| {
        let of = study.comparisons.iter().find(|comparison| comparison.sweep == candidate.name);
        of.and_then(linerate_analysis::diagnosis::goodput_of).map_or(0.0, |goodput| goodput.effect.shift)
    };
    Ok(candidates.into_iter().max_by(|a, b| yields(a).total_cmp(&yields(b))))
}

/// Pairs with and without `candidate`, the placebo beside them.
fn put_to_test(
    stages: &Stages<'_>,
    load: &Load<'_>,
    name: &str,
    candidate: Candidate,
    (from, to): (&Endpoint, &Endpoint),
) -> Result<Tried, Ended> {
    let (_, study) = stages.observe(name, load.pairs(name, &candidate))?;
    let endpoint = if candidate.end == End::Receiver { to } else { from };
    let of = |sweep: &str| study.comparisons.iter().find(|comparison| comparison.sweep == sweep);
    let goodput = of(FORWARD).and_then(linerate_analysis::diagnosis::goodput_of).cloned();
    let (verdict, why) = match &goodput {
        None => (Verdict::Inconclusive, "no pair of runs gave two figures".to_owned()),
        Some(goodput) => {
            let proof = prove(goodput.effect.clone(), goodput.placebo.clone());
            let [least, most] = candidate.ratio;
            let predicted = (least / SLACK..=most * SLACK).contains(&proof.effect.shift);
            match proof.verdict {
                Verdict::Proven if !predicted => {
                    (Verdict::Suspected, format!("it moved, but not as predicted (x{least:.2} to x{most:.2})"))
                }
                verdict => (verdict, proof.why),
            }
        }
    };
    Ok(Tried {
        host: endpoint.host.clone(),
        device: endpoint.device.clone().unwrap_or_default(),
        side_effects: side_effects(&study),
        candidate,
        verdict,
        why,
        goodput,
    })
}

fn side_effects(study: &Study) -> Vec<SideEffect> {
    let told = SIDE_EFFECTS.iter().filter_map(|(sweep, metric, what)| {
        let comparison: &Comparison = study.comparisons.iter().find(|comparison| comparison.sweep == *sweep)?;
        let of = |direction| comparison.figures.iter().find(|f| f.metric == *metric && f.direction == direction);
        let figure = [Direction::Tx, Direction::Rx, Direction::Sum].into_iter().find_map(of)?;
        let percent = (figure.effect.shift - 1.0) * 100.0;
        Some(SideEffect { what, percent, change: figure.effect.change })
    });
    told.collect()
}

fn proven(outcome: &Tried) -> Proven {
    Proven {
        host: outcome.host.clone(),
        device: outcome.device.clone(),
        setting: outcome.candidate.setting.to_owned(),
        by: outcome.candidate.by,
        before: outcome.candidate.before.clone(),
        after: outcome.candidate.after.clone(),
        why: outcome.candidate.why.clone(),
        proof: goodput_told(outcome),
        side_effects: outcome.side_effects.iter().map(told).collect(),
    }
}

fn goodput_told(outcome: &Tried) -> String {
    let Some(goodput) = &outcome.goodput else { return outcome.why.clone() };
    let effect = &goodput.effect;
    let interval = effect.interval.map_or_else(
        || "no interval: fewer than six pairs".to_owned(),
        |(low, high)| format!("{low:.3} to {high:.3} at 95 %"),
    );
    let placebo =
        goodput.placebo.as_ref().map_or(String::new(), |placebo| format!("; a placebo x{:.3}", placebo.shift));
    let [least, most] = outcome.candidate.ratio;
    format!(
        "goodput {} -> {}, x{:.3} [{interval}], n = {} pairs; predicted x{least:.2} to x{most:.2}{placebo}",
        linerate_model::BitRate(effect.before),
        linerate_model::BitRate(effect.after),
        effect.shift,
        effect.n
    )
}

fn told(effect: &SideEffect) -> String {
    let word = match effect.change {
        Change::Worse => "worse",
        Change::Better => "better",
        Change::None => "no change",
        Change::Unclear => "cannot be told",
    };
    format!("{} {:+.1} % ({word})", effect.what, effect.percent)
}

fn tell(outcomes: &[Tried], profiles: &[String], chosen: &[&'static dyn TuningExperiment], global: Global) {
    if global.json {
        let outcome = |outcome: &Tried| {
            json!({
                "change": outcome.candidate.name, "host": outcome.host, "setting": outcome.candidate.setting,
                "before": outcome.candidate.before, "after": outcome.candidate.after, "why": outcome.candidate.why,
                "predicted": outcome.candidate.ratio, "verdict": outcome.verdict, "proof": goodput_told(outcome),
                "shift": outcome.goodput.as_ref().map(|goodput| goodput.effect.shift),
                "side_effects": outcome.side_effects.iter().map(told).collect::<Vec<_>>(), "kept": outcome.is_kept(),
            })
        };
        println!("{}", json!({ "tried": outcomes.iter().map(outcome).collect::<Vec<_>>(), "profiles": profiles }));
        return;
    }
    if outcomes.is_empty() {
        let names: Vec<&str> = chosen.iter().map(|experiment| experiment.name()).collect();
        println!("nothing speaks for a change of {}: see baseline.ledger", names.join(", "));
    }
    for outcome in outcomes {
        let Candidate { name, setting, before, after, why, .. } = &outcome.candidate;
        let verdict = format!("{:?}", outcome.verdict).to_lowercase();
        println!("{name} at {}: {verdict}{}", outcome.host, if outcome.is_kept() { ", in the profile" } else { "" });
        println!("   seen: {why}");
        match outcome.candidate.by {
            By::Agent => println!("   changed: {setting} from {before:?} to {after:?}, put back"),
            By::Load => println!("   changed: {setting} {after:?} at the sockets of the load, gone with them"),
        }
        println!("   {}", goodput_told(outcome));
        if !outcome.why.is_empty() {
            println!("   but: {}", outcome.why);
        }
        outcome.side_effects.iter().for_each(|effect| println!("   beside it: {}", told(effect)));
    }
    profiles.iter().for_each(|path| println!("profile {path}: on its host, `linerate tune apply {path}`"));
}
