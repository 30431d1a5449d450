//! Settings that may be changed at the hosts of a path to make it faster, alphabetically, each with
//! a prediction of goodput made before it is tried. A candidate whose prediction fails is not kept,
//! however fast it was. A setting that is not tried has a reason ([`Untried`]).
//!
//! Settings are named and spelled as in [`linerate_model::HOST_SETTINGS`]; a setting of a program's
//! own sockets, which ends with them, is the load's parameter ([`By::Load`]).

mod coalescing;
mod congestion_control;
mod offloads;
mod pacing;
mod placement;
mod rings;
mod socket_buffers;

use std::collections::BTreeMap;

use linerate_model::{Direction, Metric, metric};
use serde::Serialize;

use super::Rates;
use crate::diagnosis::{Evidence, Quantity};
use crate::{JobStudy, PathEnd, PointStudy};

/// A kind of change.
#[derive(Clone, Copy, Debug)]
pub struct TuningExperiment {
    /// Its name.
    pub name: &'static str,
    /// One sentence: the change, and the end it applies to.
    pub summary: &'static str,
    /// Settings whose present values it needs, at each end.
    pub asks: &'static [&'static str],
    /// True if it needs the rate at which the path drains ([`Known::flood`]).
    pub floods: bool,
    /// Returns the candidates to try on a path, and the reason for each setting that is not tried.
    pub look: fn(&Known<'_>) -> Vec<Looked>,
}

/// Every kind of change.
pub static TUNING_EXPERIMENTS: &[TuningExperiment] = &[
    coalescing::EXPERIMENT,
    congestion_control::EXPERIMENT,
    offloads::EXPERIMENT,
    pacing::EXPERIMENT,
    placement::EXPERIMENT,
    rings::EXPERIMENT,
    socket_buffers::EXPERIMENT,
];

/// Result of considering a setting.
pub type Looked = Result<Candidate, Untried>;

/// The program that makes a change and reverts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The agent of the host: it holds for everything on it.
    Agent,
    /// The load, at its own sockets: a parameter of its job that is gone with them.
    Load,
}

/// A change at one end.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// At which end.
    pub end: PathEnd,
    /// The setting.
    pub setting: &'static str,
    /// The program that sets it.
    pub by: By,
    /// Its value before; empty where it had none.
    pub before: String,
    /// Its value after.
    pub after: String,
    /// The evidence for it.
    pub evidence: Vec<Evidence>,
    /// Predicted factor of goodput: least and most.
    pub ratio: [f64; 2],
}

/// A setting at one end that is not tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Untried {
    /// At which end.
    pub end: PathEnd,
    /// The setting.
    pub setting: &'static str,
    /// The reason.
    pub hindrance: Hindrance,
}

/// Reason why a setting is not tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hindrance {
    /// The host's agent gave this message.
    Agent {
        /// The kind of reason.
        kind: HindranceKind,
        /// The message.
        message: String,
    },
    /// Its present value is not known.
    NotRead,
    /// It has this value already, or another that is as good.
    Already(String),
    /// The host has one CPU.
    OneCpu,
    /// The kernel has no other congestion control.
    NoOtherControl,
    /// Its value has not the usual form.
    Malformed(String),
    /// The observation, if it was measured, does not support a change.
    NoEvidence(Option<Evidence>),
    /// Another one did more in a run each.
    Outdone {
        /// Factor of goodput in a run of its own.
        yields: f64,
        /// Name of the other one.
        best: String,
        /// Factor of goodput in the other's run.
        best_yields: f64,
    },
}

/// Kinds of hindrances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HindranceKind {
    /// The host or its interface has no such setting, or does not report its value.
    NotOffered,
    /// The host's agent has no permission for it.
    NotConsented,
    /// There is nothing left to change.
    AlreadySo,
    /// No measurement supports it.
    NothingSpeaksForIt,
    /// Another of its kind did more in a run each.
    Outdone,
    /// The host was asked to, and could not.
    Refused,
}

impl Hindrance {
    /// Returns its kind.
    #[must_use]
    pub const fn kind(&self) -> HindranceKind {
        match self {
            Self::Agent { kind, .. } => *kind,
            Self::NotRead => HindranceKind::NotOffered,
            Self::Already(_) | Self::OneCpu | Self::NoOtherControl | Self::Malformed(_) => {
                HindranceKind::AlreadySo
            }
            Self::NoEvidence(_) => HindranceKind::NothingSpeaksForIt,
            Self::Outdone { .. } => HindranceKind::Outdone,
        }
    }
}

impl Candidate {
    /// Returns its name in plans and ledgers: setting and value.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.setting, self.after)
    }
}

/// Proposal of an experiment for a setting.
struct Proposal {
    after: String,
    evidence: Vec<Evidence>,
    ratio: [f64; 2],
}

/// Known facts of the path before any change.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// The stream as it is.
    pub point: &'a PointStudy,
    /// The sender.
    pub sender: Host,
    /// The receiver.
    pub receiver: Host,
    /// Rates of a flood of datagrams, where one was sent.
    pub flood: Option<Rates>,
    /// Packets that queues of the sender dropped during the stream, where they are counted.
    pub dropped: Option<u64>,
    /// Packets for which the receiver's interface had no descriptor during the stream, where they
    /// are counted.
    pub missed: Option<Missed>,
}

/// Packets at an interface that receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// For which the ring had no room.
    pub missed: u64,
    /// Packets received.
    pub received: u64,
}

/// Known facts of a host.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Present values by setting, or why each is not available or cannot be changed.
    pub settings: BTreeMap<&'static str, Result<String, Hindrance>>,
    /// Congestion controls the kernel has.
    pub congestion_controls: Vec<String>,
    /// CPUs.
    pub n_cpus: usize,
    /// The mask of them.
    pub all_cpus: String,
    /// Descriptors that the receive ring may have at the most.
    pub largest_ring: Option<u64>,
}

impl Known<'_> {
    /// Returns the result of `propose` for the present value of `setting` at `end`.
    fn at(
        &self,
        end: PathEnd,
        setting: &'static str,
        propose: impl FnOnce(&str) -> Result<Proposal, Hindrance>,
    ) -> Looked {
        let host = if end == PathEnd::Receiver { &self.receiver } else { &self.sender };
        let proposed = host.settings.get(setting).cloned().unwrap_or(Err(Hindrance::NotRead));
        let proposed = proposed.and_then(|before| {
            let Proposal { after, evidence, ratio } = propose(&before)?;
            Ok(Candidate { end, setting, by: By::Agent, before, after, evidence, ratio })
        });
        proposed.map_err(|hindrance| Untried { end, setting, hindrance })
    }

    /// Returns a figure of the stream, in its direction or of both.
    fn value(&self, metric: &Metric) -> Option<f64> {
        let job = self.job()?;
        let of = |direction| Some(job.metric(metric, direction)?.estimate?.value);
        of(Direction::Tx).or_else(|| of(Direction::Sum))
    }

    /// Returns the evidence that a share of the stream is above `least`.
    fn share(&self, metric: &'static Metric, least: f64) -> Result<Evidence, Hindrance> {
        match self.value(metric) {
            Some(value) if value > least => Ok(Evidence::figure(metric, value)),
            value => Err(Hindrance::NoEvidence(value.map(|value| Evidence::Near {
                quantity: Quantity::Metric(metric),
                value,
                threshold: least,
            }))),
        }
    }

    /// Returns the evidence that softirqs take nearly a whole CPU.
    fn full_of_softirqs(&self) -> Result<Evidence, Hindrance> {
        self.share(metric::SOFTIRQ_CORE, FULL)
    }

    fn job(&self) -> Option<&JobStudy> {
        self.point.jobs.first()
    }

    /// Returns the factor by which the lowest known ceiling exceeds goodput, or a large default
    /// where none is known.
    fn room(&self) -> f64 {
        /// Nothing is known to be in the way.
        const MUCH: f64 = 100.0;
        let share = self.job().and_then(|job| job.metric(metric::GOODPUT, Direction::Tx)?.share);
        share.map_or(MUCH, |share| 1.0 / share)
    }
}

/// The least effect that proves anything (docs/methodology/diagnosis.md#rules).
const LEAST_EFFECT: f64 = 1.1;
/// CPU that softirqs take of one core from which it counts as full
/// (docs/methodology/diagnosis.md#rules, D12).
const FULL: f64 = 0.8;
/// Share of segments sent again from which loss counts as a limit
/// (docs/methodology/diagnosis.md#rules, D4).
const LOSSY: f64 = 1e-4;

#[cfg(test)]
pub(super) mod cases {
    use super::*;
    use crate::MetricStudy;

    /// Returns a stream with these figures that reaches `share` of its ceiling.
    pub(in crate::tune) fn point(share: f64, figures: &[(&str, f64)]) -> PointStudy {
        let single = |name: &str, value: f64| {
            MetricStudy::single(Metric::named(name).expect(name), Direction::Tx, value)
        };
        let goodput =
            MetricStudy { share: Some(share), ..single(metric::GOODPUT.name, share * 1e9) };
        let others = figures.iter().map(|(name, value)| single(name, *value));
        let metrics = others.chain([goodput]).collect();
        PointStudy {
            jobs: vec![JobStudy { metrics, ..JobStudy::default() }],
            ..PointStudy::default()
        }
    }

    /// Returns a host with these settings.
    pub(in crate::tune) fn host(settings: &[(&'static str, &str)]) -> Host {
        Host {
            settings: settings
                .iter()
                .map(|(name, value)| (*name, Ok((*value).to_owned())))
                .collect(),
            congestion_controls: vec!["reno".into(), "bbr".into(), "cubic".into()],
            n_cpus: 4,
            all_cpus: "f".into(),
            largest_ring: Some(1024),
        }
    }

    /// Returns the known facts of a path between two hosts.
    pub(in crate::tune) fn known(point: &PointStudy, sender: Host, receiver: Host) -> Known<'_> {
        Known { point, sender, receiver, flood: None, dropped: None, missed: None }
    }

    /// Returns the candidates to try, and the kinds of reasons against the others.
    pub(in crate::tune) fn parted(looked: Vec<Looked>) -> (Vec<Candidate>, Vec<HindranceKind>) {
        let hindrance =
            |looked: &Looked| looked.as_ref().err().map(|untried| untried.hindrance.kind());
        let hindrances = looked.iter().filter_map(hindrance).collect();
        (looked.into_iter().flatten().collect(), hindrances)
    }

    #[test]
    fn what_a_host_does_not_offer_or_consent_to_is_told_before_what_was_measured() {
        let (point, mut receiver) =
            (point(0.3, &[(metric::SOFTIRQ_CORE.name, 0.1)]), host(&[("rx_usecs", "0")]));
        let kind = HindranceKind::NotConsented;
        let refused = Hindrance::Agent { kind, message: "not asked".into() };
        receiver.settings.insert("adaptive_rx", Err(refused.clone()));
        let looked = (coalescing::EXPERIMENT.look)(&known(&point, host(&[]), receiver));
        let told: Vec<Hindrance> =
            looked.into_iter().filter_map(Result::err).map(|untried| untried.hindrance).collect();
        let quantity = Quantity::Metric(metric::SOFTIRQ_CORE);
        let near = Evidence::Near { quantity, value: 0.1, threshold: 0.8 };
        assert_eq!(told, [refused, Hindrance::NoEvidence(Some(near))]);
    }

    #[test]
    fn the_family_is_alphabetical_and_asks_only_for_what_agents_set() {
        let names: Vec<&str> =
            TUNING_EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        for setting in TUNING_EXPERIMENTS.iter().flat_map(|experiment| experiment.asks) {
            assert!(
                linerate_model::HOST_SETTINGS.iter().any(|(known, _)| known == setting),
                "{setting}"
            );
        }
    }
}
