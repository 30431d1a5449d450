//! What may be changed at the hosts of a path to make it faster, alphabetically: each with what it should do to goodput, said before it is
//! tried. A candidate whose prediction fails is not kept, however fast it was.
//!
//! Settings are named and spelled as in [`linerate_model::HOST_SETTINGS`]; what belongs to the sockets of a program, and ends with them, as the
//! load's parameter ([`By::Load`]).

mod coalescing;
mod congestion_control;
mod offloads;
mod pacing;
mod placement;
mod socket_buffers;

use std::collections::BTreeMap;

use linerate_model::Direction;

use super::Rates;
use crate::{End, JobStudy, PointStudy};

/// A kind of change.
pub trait TuningExperiment: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// One sentence: what it changes, and for whom.
    fn summary(&self) -> &'static str;

    /// Settings whose present values it wants to know, at each end.
    fn asks(&self) -> &'static [&'static str];

    /// Whether it wants to know how fast the path drains ([`Known::flood`]).
    fn floods(&self) -> bool {
        false
    }

    /// What could be tried on `path`; nothing where nothing speaks for it.
    fn candidates(&self, path: &Known<'_>) -> Vec<Candidate>;
}

/// Every kind of change.
pub static TUNING_EXPERIMENTS: &[&dyn TuningExperiment] = &[
    &coalescing::Coalescing,
    &congestion_control::CongestionControl,
    &offloads::Offloads,
    &pacing::Pacing,
    &placement::Placement,
    &socket_buffers::SocketBuffers,
];

/// Who makes a change, and undoes it.
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
    /// What it is called.
    pub name: String,
    /// At which end.
    pub end: End,
    /// The setting.
    pub setting: &'static str,
    /// Who sets it.
    pub by: By,
    /// Its value before; empty where it had none.
    pub before: String,
    /// Its value after.
    pub after: String,
    /// What speaks for it, with its figure.
    pub why: String,
    /// What goodput is multiplied by if that is so: the least and the most.
    pub ratio: [f64; 2],
}

/// What is known of the path before anything is changed.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// The stream as it is.
    pub point: &'a PointStudy,
    /// The sender.
    pub sender: Host,
    /// The receiver.
    pub receiver: Host,
    /// What a flood of datagrams showed, where one was sent.
    pub flood: Option<Rates>,
    /// Packets that queues of the sender dropped during the stream, where they are counted.
    pub dropped: Option<u64>,
}

/// What is known of a host.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Present values, by setting; what could not be read is not there.
    pub settings: BTreeMap<String, String>,
    /// Congestion controls the kernel has.
    pub congestion_controls: Vec<String>,
    /// CPUs.
    pub n_cpus: usize,
    /// The mask of them.
    pub all_cpus: String,
}

impl Known<'_> {
    /// A figure of the stream, in its direction or of both.
    fn value(&self, metric: &str) -> Option<f64> {
        let job = self.job()?;
        let of = |direction| Some(job.metric(metric, direction)?.estimate?.value);
        of(Direction::Tx).or_else(|| of(Direction::Sum))
    }

    fn job(&self) -> Option<&JobStudy> {
        self.point.jobs.first()
    }

    /// How many times as much the lowest ceiling known lets pass, or what is taken for much where none is known.
    fn room(&self) -> f64 {
        /// Nothing is known to be in the way.
        const MUCH: f64 = 100.0;
        let share = self.job().and_then(|job| job.metric("goodput", Direction::Tx)?.share);
        share.map_or(MUCH, |share| 1.0 / share)
    }
}

/// The least effect that proves anything (methodology 5.3).
const LEAST_EFFECT: f64 = 1.1;
/// CPU that softirqs take of one core from which it counts as full (methodology 5.3, D12).
const FULL: f64 = 0.8;
/// Share of segments sent again from which loss counts as a limit (methodology 5.3, D4).
const LOSSY: f64 = 1e-4;

#[cfg(test)]
pub(super) mod cases {
    use linerate_model::{Estimate, Unit};

    use super::*;
    use crate::MetricStudy;

    /// A stream with these figures that reaches `share` of its ceiling.
    pub(in crate::tune) fn point(share: f64, figures: &[(&str, f64)]) -> PointStudy {
        let metric = |name: &str, value: f64, share: Option<f64>| MetricStudy {
            name: name.into(),
            unit: Unit::Ratio,
            layer: None,
            direction: Direction::Tx,
            estimate: Some(Estimate { value, low: None, high: None, confidence: None, n: 1 }),
            values: vec![Some(value)],
            ceiling: None,
            share,
            mean: None,
            settled: None,
        };
        let mut metrics: Vec<MetricStudy> = figures.iter().map(|(name, value)| metric(name, *value, None)).collect();
        metrics.push(metric("goodput", share * 1e9, Some(share)));
        PointStudy { jobs: vec![JobStudy { metrics, ..JobStudy::default() }], ..PointStudy::default() }
    }

    /// A host with these settings.
    pub(in crate::tune) fn host(settings: &[(&str, &str)]) -> Host {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Host { settings, congestion_controls: vec!["reno".into(), "bbr".into(), "cubic".into()], n_cpus: 4, all_cpus: "f".into() }
    }

    #[test]
    fn the_family_is_alphabetical_and_asks_only_for_what_agents_set() {
        let names: Vec<&str> = TUNING_EXPERIMENTS.iter().map(|experiment| experiment.name()).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        for setting in TUNING_EXPERIMENTS.iter().flat_map(|experiment| experiment.asks()) {
            assert!(linerate_model::HOST_SETTINGS.iter().any(|(known, _)| known == setting), "{setting}");
        }
    }
}
