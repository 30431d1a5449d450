//! Trials: one measurement at one point, *prepare, warm up, measure, drain, rest* (RFC 2544 clause
//! 23).

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Arm, Endpoint, Nanos, Params, Ratio, Searched};

/// A trial's number within its campaign, in the order of the plan's expansion (not the order run).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TrialId(pub u32);

/// One coordinate in a sweep: axis name to value. Two trials with equal sweep and point are
/// repeats.
pub type Point = BTreeMap<String, Value>;

/// Which end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The job's `from`: it opens the connections.
    Active,
    /// The job's `to`: it listens.
    Passive,
}

/// How much is asked of the path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// The next operation starts when one of `depth` outstanding ones ends.
    Closed {
        /// Operations outstanding.
        depth: u32,
    },
    /// Operations start at intended times, whatever the path does (no coordinated omission).
    Open {
        /// Intended operations per second, all flows of the job together.
        rate: f64,
        /// How they are spread over time.
        arrival: Arrival,
    },
}

/// How the operations of an open load are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// With equal gaps.
    #[default]
    Constant,
    /// With exponential gaps.
    Poisson,
    /// Bursts of this many, with gaps that keep the mean rate.
    Burst(NonZeroU32),
}

/// How the warm-up is cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warmup {
    /// A fixed span, run before the measurement and recorded apart.
    Fixed(Nanos),
    /// A tenth of the duration (at least two intervals) is run in front; the study decides by
    /// MSER-5 how much to cut.
    #[default]
    Auto,
}

/// How long each phase of a trial lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Load is offered, counted, and not part of the figure.
    pub warmup: Warmup,
    /// The measurement.
    pub measure: Nanos,
    /// Senders are silent, receivers still count.
    pub drain: Nanos,
    /// Nothing happens before the next trial.
    pub rest: Nanos,
    /// Length of one interval of the per-interval record.
    pub interval: Nanos,
}

impl Phases {
    /// The span run in front of the measurement.
    pub fn warmup_span(&self) -> Nanos {
        match self.warmup {
            Warmup::Fixed(span) => span,
            // Short trials need at least two intervals to see a warm-up at all.
            Warmup::Auto => Nanos((self.measure.0 / 10).max(2 * self.interval.0)),
        }
    }

    /// From the start barrier to the end of the measurement.
    pub fn loaded(&self) -> Nanos {
        self.warmup_span() + self.measure
    }

    /// From the start barrier to the start of the next trial's preparation.
    pub fn total(&self) -> Nanos {
        self.loaded() + self.drain + self.rest
    }
}

/// A background job: it has its own start and length, and its figures are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Background {
    /// Start relative to the measured jobs' start, nanoseconds; negative is earlier.
    pub start_ns: i64,
    /// How long it loads the path; it is cut when the trial ends.
    pub duration: Nanos,
}

/// One workload between two endpoints inside a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The workload's name in the registry.
    pub workload: String,
    /// The active end.
    pub from: Endpoint,
    /// The passive end.
    pub to: Endpoint,
    /// The workload's parameters, axis values applied.
    pub params: Params,
    /// Set for a background job.
    pub background: Option<Background>,
}

impl JobSpec {
    /// Returns the hosts whose agents run the active and the passive end. The active end drives a
    /// server without an agent, and the passive end does nothing beside it.
    #[must_use]
    pub fn agents(&self) -> [&str; 2] {
        let from = self.from.host.as_str();
        [from, if self.to.has_agent() { &self.to.host } else { from }]
    }
}

/// How long a point is repeated: until the interval of its figures is narrow enough, at looks fixed
/// beforehand (docs/methodology/repeats.md#number-of-runs).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// Half width of the interval, part of the figure, that is narrow enough.
    pub within: Ratio,
    /// The metric that must be known as well; `None`: the first rate of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Numbers of repeats after which the interval is examined; the last is the maximum.
    pub looks: Vec<u32>,
}

impl Until {
    /// Repeats before the first look.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.looks.first().copied().unwrap_or(1)
    }

    /// The most repeats.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.looks.last().copied().unwrap_or(1)
    }
}

/// One measurement to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialSpec {
    /// Number in the campaign.
    pub id: TrialId,
    /// The sweep's name.
    pub sweep: String,
    /// The coordinate.
    pub point: Point,
    /// Which repeat of the point, from 0.
    pub repeat: u32,
    /// Seed of everything random in it (ports, arrivals, payload).
    pub seed: u64,
    /// Phases.
    pub phases: Phases,
    /// The jobs.
    pub jobs: Vec<JobSpec>,
    /// Set if it is one of a comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<Arm>,
    /// Set if its point is repeated until its figures are known well enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Box<Until>>,
    /// Set for a trial of a search, and for a search of which no trial has been chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Box<Searched>>,
}

/// Something that went wrong, or might have disturbed a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// The host that saw it; empty for the conductor.
    pub host: String,
    /// Kind of the incident.
    pub kind: IncidentKind,
    /// Description: operation, object, cause and remedy.
    pub message: String,
}

/// Kinds of incident, by their effect on the validity of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentKind {
    /// The trial could not be carried out.
    Failed,
    /// An agent was lost.
    AgentLost,
    /// A worker panicked or stopped early.
    WorkerStopped,
    /// A clock was stepped or stood still.
    Clock,
    /// The offset of a clock is too uncertain.
    ClockUncertain,
    /// The tester itself was the limit or lost datagrams.
    Tester,
    /// The environment changed or disturbed the trial (steal, frequency, link down).
    Environment,
    /// The kernel refused what the measurement relies on, such as a CPU to run on. A buffer of
    /// another size than asked for is no incident: it stands in [`crate::SocketValue`], requested,
    /// granted and at the end.
    NotGranted,
    /// Hostile or stray bytes were dropped.
    Rejected,
    /// Another campaign used other parts of the host at the same time.
    Neighbour,
}

/// How a trial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialOutcome {
    /// Every phase was completed.
    Completed,
    /// It was tried and failed; the incidents say why.
    Failed,
    /// It was interrupted by a person.
    Interrupted,
}
