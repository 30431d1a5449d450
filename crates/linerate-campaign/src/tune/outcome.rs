//! What came of tuning a host: what was tried and what it did, what was not and why; told as text,
//! as JSON and in a file beside the ledgers.

use std::fmt::Write as _;

use linerate_analysis::compare::Change;
use linerate_analysis::tune::experiments::{By, Candidate, Hindrance, HindranceKind, Untried};
use linerate_analysis::{Compared, Comparison, Study};
use linerate_model::{BitRate, Direction, Endpoint, Verdict, metric};
use serde_json::{Value, json};

/// The sweeps of an experiment.
pub(super) const FORWARD: &str = "stream";
pub(super) const BACKWARD: &str = "the other way";
pub(super) const REQUESTS: &str = "requests";
/// What gets worse by more than this speaks against a change.
const MOST_HARM: f64 = 0.1;
/// Figures that tell of side effects: in which sweep, which metric, what a person calls it.
const SIDE_EFFECTS: [(&str, &str, &str); 4] = [
    (FORWARD, metric::CPU_SECONDS_PER_GIGABYTE, "CPU for a gigabyte"),
    (FORWARD, metric::RTT, LOADED),
    (BACKWARD, metric::GOODPUT, "goodput the other way"),
    (REQUESTS, metric::RESPONSE_TIME_P50, "response time, median"),
];
/// The queue that comes with a full link: told, but no harm of the change.
const LOADED: &str = "round trip under load";

/// Everything that came of it.
#[derive(Debug, Default)]
pub struct Findings {
    /// The campaign of its baseline.
    pub campaign: String,
    /// What was tried.
    pub tried: Vec<Tried>,
    /// What was not, and why.
    pub untried: Vec<NotTried>,
    /// Paths of the profiles.
    pub profiles: Vec<String>,
}

/// What came of a candidate.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The change.
    pub candidate: Candidate,
    /// Its host.
    pub host: String,
    /// Its interface; empty if it is of the whole host.
    pub device: String,
    /// Whether it helps.
    pub verdict: Verdict,
    /// Why the verdict is not *proven*.
    pub why: String,
    /// What it did to goodput.
    pub goodput: Option<Compared>,
    /// What else it did.
    pub side_effects: Vec<SideEffect>,
}

/// A figure beside goodput, and whether it got worse.
#[derive(Clone, Debug)]
pub struct SideEffect {
    what: &'static str,
    percent: f64,
    change: Change,
}

/// A setting that was not tried.
#[derive(Clone, Debug)]
pub struct NotTried {
    /// The kind of change.
    pub experiment: &'static str,
    /// Its host.
    pub host: String,
    /// Its interface; empty if it is of the whole host.
    pub device: String,
    /// What would be set.
    pub setting: &'static str,
    /// Why it was not.
    pub hindrance: Hindrance,
}

impl NotTried {
    pub(super) fn new(experiment: &'static str, endpoint: &Endpoint, untried: Untried) -> Self {
        let Untried { setting, hindrance, .. } = untried;
        Self {
            experiment,
            host: endpoint.host.clone(),
            device: device_of(setting, endpoint),
            setting,
            hindrance,
        }
    }

    fn told(&self) -> String {
        let Self { experiment, host, device, setting, hindrance } = self;
        let word = match hindrance.kind {
            HindranceKind::NotOffered => "not to be had",
            HindranceKind::NotConsented => "not consented",
            HindranceKind::AlreadySo => "nothing to change",
            HindranceKind::NothingSpeaksForIt => "nothing speaks for it",
            HindranceKind::Outdone => "outdone",
            HindranceKind::Refused => "could not be set",
        };
        let of = if device.is_empty() { String::new() } else { format!(" of {device}") };
        format!("{experiment}: {setting}{of} at {host}: {word}: {}", hindrance.why)
    }

    fn json(&self) -> Value {
        json!({
            "experiment": self.experiment, "setting": self.setting, "host": self.host, "device": self.device,
            "reason": self.hindrance.kind, "why": self.hindrance.why,
        })
    }
}

/// The interface that `setting` belongs to; none where it holds for the whole host.
pub(super) fn device_of(setting: &str, endpoint: &Endpoint) -> String {
    let whole_host = setting.starts_with("net.");
    endpoint.device.as_deref().filter(|_| !whole_host).unwrap_or_default().to_owned()
}

impl Tried {
    /// Whether it helps, as predicted, and harms nothing.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        let harms = self.side_effects.iter().any(SideEffect::harms);
        let better =
            self.goodput.as_ref().is_some_and(|goodput| goodput.effect.change == Change::Better);
        self.verdict == Verdict::Proven && better && !harms
    }

    /// What it did to goodput.
    pub(super) fn proof(&self) -> String {
        let Some(goodput) = &self.goodput else { return self.why.clone() };
        let effect = &goodput.effect;
        let interval = effect.interval.map_or_else(
            || "no interval: fewer than six pairs".to_owned(),
            |(low, high)| format!("{low:.3} to {high:.3} at 95 %"),
        );
        let placebo = goodput
            .placebo
            .as_ref()
            .map_or(String::new(), |placebo| format!("; a placebo x{:.3}", placebo.shift));
        let [least, most] = self.candidate.ratio;
        format!(
            "goodput {} -> {}, x{:.3} [{interval}], n = {} pairs; predicted x{least:.2} to \
                x{most:.2}{placebo}",
            BitRate(effect.before),
            BitRate(effect.after),
            effect.shift,
            effect.n
        )
    }

    /// What else it did.
    pub(super) fn beside(&self) -> Vec<String> {
        self.side_effects.iter().map(SideEffect::told).collect()
    }

    fn json(&self) -> Value {
        json!({
            "change": self.candidate.name, "host": self.host, "setting": self.candidate.setting,
            "before": self.candidate.before, "after": self.candidate.after, "why": self.candidate.why,
            "predicted": self.candidate.ratio, "verdict": self.verdict, "proof": self.proof(),
            "shift": self.goodput.as_ref().map(|goodput| goodput.effect.shift),
            "side_effects": self.beside(), "kept": self.is_kept(),
        })
    }

    fn text(&self) -> String {
        let Candidate { name, setting, before, after, why, by, .. } = &self.candidate;
        let verdict = format!("{:?}", self.verdict).to_lowercase();
        let kept = if self.is_kept() { ", in the profile" } else { "" };
        let changed = match by {
            By::Agent => format!("{setting} from {before:?} to {after:?}, put back"),
            By::Load => format!("{setting} {after:?} at the sockets of the load, gone with them"),
        };
        let mut lines = vec![
            format!("{name} at {}: {verdict}{kept}", self.host),
            format!("seen: {why}"),
            format!("changed: {changed}"),
            self.proof(),
        ];
        lines.extend((!self.why.is_empty()).then(|| format!("but: {}", self.why)));
        lines.extend(self.beside().into_iter().map(|effect| format!("beside it: {effect}")));
        lines.join("\n   ")
    }
}

impl SideEffect {
    fn harms(&self) -> bool {
        self.change == Change::Worse
            && self.what != LOADED
            && self.percent.abs() > MOST_HARM * 100.0
    }

    fn told(&self) -> String {
        let word = match self.change {
            Change::Worse => "worse",
            Change::Better => "better",
            Change::None => "no change",
            Change::Unclear => "cannot be told",
        };
        format!("{} {:+.1} % ({word})", self.what, self.percent)
    }
}

/// What `study` tells of side effects.
pub(super) fn side_effects(study: &Study) -> Vec<SideEffect> {
    let told = SIDE_EFFECTS.iter().filter_map(|(sweep, metric, what)| {
        let comparison: &Comparison =
            study.comparisons.iter().find(|comparison| comparison.sweep == *sweep)?;
        let of = |direction| {
            comparison.figures.iter().find(|f| f.metric == *metric && f.direction == direction)
        };
        let figure = [Direction::Tx, Direction::Rx, Direction::Sum].into_iter().find_map(of)?;
        let percent = (figure.effect.shift - 1.0) * 100.0;
        Some(SideEffect { what, percent, change: figure.effect.change })
    });
    told.collect()
}

impl Findings {
    /// What is proven to help.
    pub fn kept(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().filter(|tried| tried.is_kept())
    }

    /// As data for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let tried: Vec<Value> = self.tried.iter().map(Tried::json).collect();
        let untried: Vec<Value> = self.untried.iter().map(NotTried::json).collect();
        json!({ "tried": tried, "untried": untried, "profiles": self.profiles })
    }

    /// For a person.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.tried.is_empty() {
            text.push_str("nothing was tried\n");
        }
        for tried in &self.tried {
            let _infallible = writeln!(text, "{}", tried.text());
        }
        if !self.untried.is_empty() {
            text.push_str("\nnot tried:\n");
        }
        for untried in &self.untried {
            let _infallible = writeln!(text, "   {}", untried.told());
        }
        for path in &self.profiles {
            let _infallible =
                writeln!(text, "\nprofile {path}: on its host, `linerate tune apply {path}`");
        }
        text
    }
}
