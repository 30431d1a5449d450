//! Plans: what a person wants measured, and the trials that follow from it.
//!
//! `parse` reads TOML and reports every problem at once; `expand` turns a plan and a testbed into trials.

mod axis;
mod expand;
mod fields;
mod parse;
mod random;
mod set;
mod value;

pub use expand::{expand, left_out};
pub use parse::{
    DEFAULT_DRAIN, DEFAULT_DURATION, DEFAULT_INTERVAL, DEFAULT_REPEATS, DEFAULT_REST, DEFAULT_SEED, MAX_TRIALS, parse,
};
pub use set::apply_set;

use serde_json::Value;

use crate::{Background, Nanos, Params, Warmup};

/// A plan as read.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// `campaign.name`.
    pub name: String,
    /// Runs per point: the run is the unit of replication (methodology 6.1).
    pub repeats: u32,
    /// Order of the trials.
    pub order: Order,
    /// Seed of everything random.
    pub seed: u64,
    /// What is swept.
    pub sweeps: Vec<Sweep>,
}

/// In which order trials are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All points once in random order, then all again: drift hits all points alike.
    Interleaved,
    /// Point after point, all repeats of one together.
    Sequential,
}

/// A grid of parameters around a set of jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Its name, unique in the plan.
    pub name: String,
    /// Length of the measure phase.
    pub duration: Nanos,
    /// Warm-up.
    pub warmup: Warmup,
    /// Drain.
    pub drain: Nanos,
    /// Rest.
    pub rest: Nanos,
    /// Length of an interval.
    pub interval: Nanos,
    /// What runs, side by side.
    pub jobs: Vec<JobPlan>,
    /// What varies.
    pub axes: Vec<Axis>,
}

/// One job of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Workload name.
    pub workload: String,
    /// Endpoint name of the active end.
    pub from: String,
    /// Endpoint name of the passive end.
    pub to: String,
    /// Parameters.
    pub params: Params,
    /// Where in the text `params` entries stand, by name, for problems found later; after them `workload`, `from` and
    /// `to`.
    pub spans: Vec<(String, std::ops::Range<usize>)>,
    /// Set if `start` or `duration` make it a background job.
    pub background: Option<Background>,
}

/// One axis of a sweep.
///
/// `path` is `params.NAME` (every measured job), `job.I.params.NAME` (job I only, from 0), `cpus` (how many of the endpoints'
/// CPUs the workers may use), or `pairs`, whose values are lists of `"FROM TO"`: the measured jobs are run once for each
/// pair, at the same time (endpoint sets for NICs).
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What varies.
    pub path: String,
    /// Its values, in the order given.
    pub values: Vec<Value>,
    /// Where it stands in the text.
    pub span: Option<std::ops::Range<usize>>,
}

/// Why a plan could not be expanded on a testbed: an endpoint it names is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// A job names an endpoint the testbed does not have.
    #[error("sweep `{sweep}` names endpoint `{endpoint}`, which the testbed does not have (it has {known})")]
    UnknownEndpoint {
        /// The sweep.
        sweep: String,
        /// The name.
        endpoint: String,
        /// The names there are.
        known: String,
    },
    /// An axis path is not one of the forms of [`Axis`], or its value does not fit.
    #[error("sweep `{sweep}`: axis `{path}`: {cause}")]
    BadAxis {
        /// The sweep.
        sweep: String,
        /// The axis.
        path: String,
        /// What is wrong.
        cause: String,
    },
}
