//! A mesh as JSON: what `--json` prints and the file `mesh.json` keeps for a later comparison.

use std::collections::BTreeMap;

use linerate_analysis::mesh::{
    Below, Cells, Confirmation, Culprit, Measure, Mesh, Sign, Status, USUAL_SHARE, below,
};
use linerate_analysis::statistics::median;
use linerate_campaign::mesh::{Judged, Pattern, Survey, Together};
use serde::{Deserialize, Serialize};

use super::names::Names;

/// State of a suspect or a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// A second look saw the difference again.
    #[serde(rename = "confirmed")]
    Confirmed,
    /// It was not decided.
    #[serde(rename = "suspected")]
    Suspected,
    /// A second look excluded a difference that matters.
    #[serde(rename = "not seen again")]
    NotSeenAgain,
    /// A host without a suspect.
    #[default]
    #[serde(rename = "not suspected")]
    NotSuspected,
    /// A host that did not answer.
    #[serde(rename = "absent")]
    Absent,
}

impl From<Status> for State {
    fn from(status: Status) -> Self {
        match status {
            Status::Confirmed => Self::Confirmed,
            Status::Open => Self::Suspected,
            Status::Cleared => Self::NotSeenAgain,
        }
    }
}

/// Result of a mesh. Rates are in bit/s, times in seconds, shares between 0 and 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeshRecord {
    /// Every host, with medians over its pairs.
    pub hosts: Vec<HostLine>,
    /// Figures of directed pairs by the name of their metric: a row for each sender, in it a figure
    /// for each receiver, both in the order of `hosts`; null where nothing was measured.
    pub pairs: BTreeMap<String, Vec<Vec<Option<f64>>>>,
    /// Suspects: confirmed ones first, then by evidence.
    pub suspects: Vec<SuspectLine>,
    /// Hosts that did not answer, or went away.
    pub absent: Vec<AbsentLine>,
    /// Pairs without figures, though both hosts answered.
    pub failed: Vec<[String; 2]>,
    /// What has less than 90 % of the median goodput: the rule of many operators.
    pub below_90_percent: BelowLine,
    /// Loads of many pairs at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_once: Vec<AtOnceLine>,
    /// Why loads at once could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once_failed: Option<String>,
    /// Rounds in which all pairs meet.
    pub rounds: usize,
    /// Why the suspects could not be measured again.
    pub second_failed: Option<String>,
    /// True if a person ended it early.
    pub interrupted: bool,
    /// Time that it took.
    pub seconds: f64,
}

/// Host of a mesh: a line of the file `hosts.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostLine {
    /// Name.
    pub name: String,
    /// Its group.
    pub group: Option<String>,
    /// `confirmed`, `suspected` or `not seen again` for a suspect, by the strongest one that is
    /// this host or a side of it; else `not suspected` or `absent`.
    #[serde(default)]
    pub status: State,
    /// Median TCP goodput of its pairs, layer 4.
    #[serde(default)]
    pub goodput_sent: Option<f64>,
    /// The same to this host.
    #[serde(default)]
    pub goodput_received: Option<f64>,
    /// Median of the smallest round-trip times, measured when it sent.
    #[serde(default)]
    pub rtt_min: Option<f64>,
    /// Median share of its payload that was sent again.
    #[serde(default)]
    pub retransmit_ratio: Option<f64>,
}

/// Suspect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuspectLine {
    /// `host`, `send side`, `receive side`, `pair`, `direction`, `uplink` or `groups`.
    pub kind: String,
    /// Its hosts or groups.
    pub of: Vec<String>,
    /// `confirmed`, `suspected` or `not seen again`.
    pub status: State,
    /// Figures in which it shows, that with the strongest evidence first.
    pub signs: Vec<SignLine>,
    /// The same measured again.
    pub again: Vec<AgainLine>,
}

/// Figure in which a suspect shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignLine {
    /// Name of the metric.
    pub metric: String,
    /// Median of the suspect's pairs.
    pub value: f64,
    /// Median of the others.
    pub usual: f64,
    /// Number of directed pairs of the suspect.
    pub pairs: usize,
}

/// Second look at a suspect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgainLine {
    /// Name of the metric.
    pub metric: String,
    /// `confirmed`, `suspected` or `not seen again`.
    pub status: State,
    /// Median of the suspect's runs.
    pub value: f64,
    /// Median of the control runs.
    pub usual: f64,
    /// Probability of such a difference by chance.
    pub p: Option<f64>,
    /// Runs of the suspect and of the control.
    pub n: [usize; 2],
}

/// Host that did not answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AbsentLine {
    /// Its name.
    pub host: String,
    /// Why.
    pub why: String,
}

/// Load of many pairs at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AtOnceLine {
    /// `incast`, `bisection` or `all`.
    pub pattern: String,
    /// The receiver of an incast.
    pub receiver: Option<String>,
    /// Number of pairs.
    pub pairs: usize,
    /// Goodput of all of them; null if one has no figure.
    pub goodput: Option<f64>,
    /// Sum over the receivers of their median goodput from one of these senders at a time.
    pub alone: Option<f64>,
    /// Goodput of the slowest and of the fastest pair.
    pub range: Option<(f64, f64)>,
    /// Largest share of a pair's payload that was sent again.
    pub retransmit_ratio: Option<f64>,
}

/// What is below a share of the median.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BelowLine {
    /// Hosts by the median of what they sent or received.
    pub hosts: Vec<String>,
    /// Number of directed pairs.
    pub pairs: usize,
}

impl MeshRecord {
    /// Returns the record of a mesh.
    #[must_use]
    pub fn of(survey: &Survey) -> Self {
        let of = |host: usize| survey.fleet.hosts[host].clone();
        let figures = survey.mesh.figures.iter();
        let pairs = figures.map(|(measure, cells)| (measure.metric().name.to_owned(), rows(cells)));
        let Below { hosts: below_hosts, n_pairs } = operators_rule(survey);
        let absent = survey.absent.iter();
        Self {
            hosts: (0..survey.fleet.hosts.len()).map(|host| host_line(survey, host)).collect(),
            pairs: pairs.collect(),
            suspects: survey.judged.iter().map(|one| suspect(survey, one)).collect(),
            absent: absent
                .map(|one| AbsentLine { host: one.host.clone(), why: one.why.clone() })
                .collect(),
            failed: survey.failed.iter().map(|&(from, to)| [of(from), of(to)]).collect(),
            below_90_percent: BelowLine {
                hosts: below_hosts.into_iter().map(of).collect(),
                pairs: n_pairs,
            },
            at_once: survey.at_once.iter().map(|one| at_once_line(survey, one)).collect(),
            at_once_failed: survey.at_once_failed.clone(),
            rounds: survey.n_rounds,
            second_failed: survey.second_failed.clone(),
            interrupted: survey.interrupted.is_some(),
            seconds: survey.took.as_secs_f64(),
        }
    }

    /// Reads the text of a file `mesh.json`.
    ///
    /// # Errors
    /// If it is no mesh, with the place.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Returns the lines of the file `hosts.jsonl`.
    #[must_use]
    pub fn host_lines(&self) -> String {
        let line = |host| serde_json::to_string(host).expect("it has only names and numbers");
        self.hosts.iter().map(|host| line(host) + "\n").collect()
    }

    /// Returns the figures between `hosts`, in this order, whose groups have these numbers.
    pub(super) fn mesh(&self, hosts: &[String], groups: Vec<Option<usize>>) -> Mesh {
        let places: BTreeMap<&str, usize> =
            hosts.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        let own: Vec<Option<usize>> =
            self.hosts.iter().map(|host| places.get(host.name.as_str()).copied()).collect();
        let figures = Measure::ALL.map(|measure| {
            let mut cells = Cells::new(hosts.len());
            let rows = self.pairs.get(measure.metric().name);
            for (from, row) in own.iter().zip(rows.into_iter().flatten()) {
                for (to, value) in own.iter().zip(row) {
                    if let (Some(from), Some(to), Some(value)) = (*from, *to, *value) {
                        cells.set(from, to, value);
                    }
                }
            }
            (measure, cells)
        });
        Mesh { groups, figures: figures.to_vec() }
    }
}

/// Returns the names of a survey.
pub(super) fn names(survey: &Survey) -> Names<'_> {
    Names { hosts: &survey.fleet.hosts, groups: &survey.fleet.group_names }
}

/// Returns the figures row by row.
fn rows(cells: &Cells) -> Vec<Vec<Option<f64>>> {
    let n = cells.n();
    (0..n).map(|from| (0..n).map(|to| cells.get(from, to)).collect()).collect()
}

/// Returns the figures of a measure.
pub(super) fn cells(survey: &Survey, measure: Measure) -> &Cells {
    survey.mesh.cells(measure).expect("a survey has every measure")
}

/// Returns what the rule of many operators says.
pub(super) fn operators_rule(survey: &Survey) -> Below {
    below(cells(survey, Measure::Goodput), USUAL_SHARE)
}

/// Returns the median of a host over its pairs.
pub(super) fn side(survey: &Survey, measure: Measure, host: usize, is_sender: bool) -> Option<f64> {
    let cells = cells(survey, measure);
    let with =
        |other: usize| if is_sender { cells.get(host, other) } else { cells.get(other, host) };
    median(&(0..cells.n()).filter_map(with).collect::<Vec<_>>())
}

/// Returns the strongest suspect that is a host or a side of it.
pub(super) fn suspect_of(survey: &Survey, host: usize) -> Option<&Judged> {
    let culprits = [Culprit::Host(host), Culprit::Sending(host), Culprit::Receiving(host)];
    survey.judged.iter().find(|one| culprits.contains(&one.suspect.culprit))
}

fn host_line(survey: &Survey, host: usize) -> HostLine {
    let name = &survey.fleet.hosts[host];
    let is_absent = survey.absent.iter().any(|one| one.host == *name);
    let status = match suspect_of(survey, host) {
        Some(one) => one.status().into(),
        None if is_absent => State::Absent,
        None => State::NotSuspected,
    };
    HostLine {
        name: name.clone(),
        group: survey.fleet.groups[host].map(|group| survey.fleet.group_names[group].clone()),
        status,
        goodput_sent: side(survey, Measure::Goodput, host, true),
        goodput_received: side(survey, Measure::Goodput, host, false),
        rtt_min: side(survey, Measure::RoundTrip, host, true),
        retransmit_ratio: side(survey, Measure::Retransmitted, host, true),
    }
}

fn at_once_line(survey: &Survey, one: &Together) -> AtOnceLine {
    let first = one.load.pairs.first().filter(|_| one.load.pattern == Pattern::Incast);
    AtOnceLine {
        pattern: one.load.pattern.name().to_owned(),
        receiver: first.map(|(_, receiver)| survey.fleet.hosts[*receiver].clone()),
        pairs: one.load.pairs.len(),
        goodput: one.total(),
        alone: one.alone,
        range: one.range(),
        retransmit_ratio: one.retransmitted,
    }
}

fn suspect(survey: &Survey, one: &Judged) -> SuspectLine {
    let (kind, of) = names(survey).parts(one.suspect.culprit);
    SuspectLine {
        kind: kind.to_owned(),
        of: of.into_iter().map(str::to_owned).collect(),
        status: one.status().into(),
        signs: one.suspect.signs.iter().map(SignLine::of).collect(),
        again: one.looks.iter().map(AgainLine::of).collect(),
    }
}

impl SignLine {
    pub(super) fn of(sign: &Sign) -> Self {
        let Sign { measure, seen, usual, n } = *sign;
        Self { metric: measure.metric().name.to_owned(), value: seen, usual, pairs: n }
    }
}

impl AgainLine {
    fn of(look: &Confirmation) -> Self {
        let Confirmation { measure, status, seen, usual, p, n } = *look;
        let metric = measure.metric().name.to_owned();
        Self { metric, status: status.into(), value: seen, usual, p, n }
    }
}
