//! Outcome of tuning a host: the settings tried with their effects, and the settings not tried with
//! the reason.

use std::fmt;

use linerate_analysis::compare::{Change, Unproven};
use linerate_analysis::statistics::measured_rate;
use linerate_analysis::tune::experiments::{Candidate, Hindrance, Untried};
use linerate_analysis::{Compared, Comparison, Study};
use linerate_model::{Direction, Endpoint, Metric, Verdict, metric};
use linerate_report::sentences;

use crate::Exit;

/// The sweeps of an experiment.
pub(super) const FORWARD: &str = "stream";
pub(super) const BACKWARD: &str = "the other way";
pub(super) const REQUESTS: &str = "requests";
/// Most harm to another figure with which a change is still kept, per cent.
const MOST_HARM_PERCENT: f64 = 10.0;

/// Everything that came of it.
#[derive(Debug, Default)]
pub struct Findings {
    /// The campaign of its baseline.
    pub campaign: String,
    /// Settings that were tried.
    pub tried: Vec<Tried>,
    /// Settings that were not tried.
    pub untried: Vec<NotTried>,
    /// Paths of the profiles.
    pub profiles: Vec<String>,
}

/// A setting that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The change.
    pub candidate: Candidate,
    /// Its host.
    pub host: String,
    /// Its interface; empty if it is of the whole host.
    pub device: String,
    /// Certainty that it helps.
    pub verdict: Verdict,
    /// Why the verdict is not *proven*.
    pub why: Option<NotProven>,
    /// Effect on goodput.
    pub goodput: Option<Compared>,
    /// Effects on other figures.
    pub side_effects: Vec<SideEffect>,
}

/// Reason why a setting is not proven to help.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NotProven {
    /// No pair of runs gave two figures.
    NoFigures,
    /// The effect is outside the predicted range.
    NotAsPredicted([f64; 2]),
    /// The effect is not established.
    Effect(Unproven),
}

impl fmt::Display for NotProven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFigures => f.write_str("no pair of runs gave two figures"),
            Self::NotAsPredicted([least, most]) => {
                write!(f, "the effect is not as predicted (x{least:.2} to x{most:.2})")
            }
            Self::Effect(why) => f.write_str(&sentences::unproven(why)),
        }
    }
}

/// A figure beside goodput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideFigure {
    /// CPU time per gigabyte.
    CpuTime,
    /// Round-trip time under load.
    LoadedRoundTrip,
    /// Goodput in the other direction.
    BackwardGoodput,
    /// Median response time of requests.
    ResponseTime,
}

impl SideFigure {
    const ALL: [Self; 4] =
        [Self::CpuTime, Self::LoadedRoundTrip, Self::BackwardGoodput, Self::ResponseTime];

    /// Returns its sweep and metric.
    const fn source(self) -> (&'static str, &'static Metric) {
        match self {
            Self::CpuTime => (FORWARD, metric::CPU_SECONDS_PER_GIGABYTE),
            Self::LoadedRoundTrip => (FORWARD, metric::RTT),
            Self::BackwardGoodput => (BACKWARD, metric::GOODPUT),
            Self::ResponseTime => (REQUESTS, metric::RESPONSE_TIME_P50),
        }
    }

    /// Returns its name for readers.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::CpuTime => "CPU time per gigabyte",
            Self::LoadedRoundTrip => "round-trip time under load",
            Self::BackwardGoodput => "goodput in the other direction",
            Self::ResponseTime => "response time, median",
        }
    }
}

/// Effect of a change on a figure beside goodput.
#[derive(Clone, Copy, Debug)]
pub struct SideEffect {
    /// The figure.
    pub figure: SideFigure,
    /// The typical change of a pair, per cent.
    pub percent: f64,
    /// Judgement of that change.
    pub change: Change,
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
    /// The setting.
    pub setting: &'static str,
    /// The reason.
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
}

/// Returns the interface that `setting` belongs to, or an empty text for a setting of the whole
/// host.
pub(super) fn device_of(setting: &str, endpoint: &Endpoint) -> String {
    let whole_host = setting.starts_with("net.");
    endpoint.device.as_deref().filter(|_| !whole_host).unwrap_or_default().to_owned()
}

impl Tried {
    /// Returns whether it helps as predicted and harms nothing.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        let harms = self.side_effects.iter().any(SideEffect::harms);
        let better =
            self.goodput.as_ref().is_some_and(|goodput| goodput.effect.change == Change::Better);
        self.verdict == Verdict::Proven && better && !harms
    }

    /// Returns the evidence for the change in one line.
    #[must_use]
    pub fn evidence(&self) -> String {
        let items: Vec<String> =
            self.candidate.evidence.iter().map(sentences::observation).collect();
        items.join("; ")
    }

    /// Returns the effect on goodput in one line, as a profile records it.
    #[must_use]
    pub fn proof(&self) -> String {
        let Some(goodput) = &self.goodput else {
            return self.why.map_or_else(String::new, |why| why.to_string());
        };
        let effect = &goodput.effect;
        let interval = effect.interval.map_or_else(
            || "no interval: fewer than six pairs".to_owned(),
            |(low, high)| format!("{low:.3} to {high:.3} at 95 %"),
        );
        let placebo = goodput
            .placebo
            .as_ref()
            .map_or(String::new(), |placebo| format!("; placebo x{:.3}", placebo.shift));
        let [least, most] = self.candidate.ratio;
        format!(
            "goodput {} -> {}, x{:.3} [{interval}], n = {} pairs; predicted x{least:.2} to \
                x{most:.2}{placebo}",
            measured_rate(effect.before),
            measured_rate(effect.after),
            effect.shift,
            effect.n
        )
    }

    /// Returns the effects on other figures, one line each.
    #[must_use]
    pub fn side_effect_lines(&self) -> Vec<String> {
        self.side_effects.iter().map(SideEffect::line).collect()
    }
}

impl SideEffect {
    /// Returns whether it argues against the change. The longer queue of a full link does not.
    fn harms(&self) -> bool {
        self.change == Change::Worse
            && self.figure != SideFigure::LoadedRoundTrip
            && self.percent.abs() > MOST_HARM_PERCENT
    }

    fn line(&self) -> String {
        let word = match self.change {
            Change::Worse => "worse",
            Change::Better => "better",
            Change::None => "no change",
            Change::Unclear => "not clear",
        };
        format!("{} {:+.1} % ({word})", self.figure.words(), self.percent)
    }
}

/// Returns the side effects that `study` compares.
pub(super) fn side_effects(study: &Study) -> Vec<SideEffect> {
    SideFigure::ALL.into_iter().filter_map(|figure| side_effect(study, figure)).collect()
}

fn side_effect(study: &Study, figure: SideFigure) -> Option<SideEffect> {
    let (sweep, metric) = figure.source();
    let comparison: &Comparison =
        study.comparisons.iter().find(|comparison| comparison.sweep == sweep)?;
    let of = |direction| {
        comparison.figures.iter().find(|f| f.metric == metric && f.direction == direction)
    };
    let found = [Direction::Tx, Direction::Rx, Direction::Sum].into_iter().find_map(of)?;
    let percent = (found.effect.shift - 1.0) * 100.0;
    Some(SideEffect { figure, percent, change: found.effect.change })
}

impl Findings {
    /// Returns the settings that are proven to help.
    pub fn kept(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().filter(|tried| tried.is_kept())
    }

    /// Returns the exit of the command: scripts read from it that no setting helped.
    #[must_use]
    pub fn exit(&self) -> Exit {
        if self.kept().next().is_some() { Exit::Done } else { Exit::Missed }
    }
}
