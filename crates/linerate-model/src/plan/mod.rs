//! Plans: what a person wants measured, and the trials that follow from it.
//!
//! `parse` reads TOML and reports every problem at once; `expand` turns a plan and a testbed into
//! trials.

mod axis;
mod compare;
mod draft;
mod expand;
mod fields;
mod parse;
mod random;
mod repeats;
mod search;
mod servers;
mod set;
mod together;
mod value;

pub use compare::{ArmPlan, Compare, DEFAULT_MARGIN};
pub use draft::{Draft, DraftArm, DraftCampaign, DraftCompare, DraftJob, DraftSweep};
pub use expand::{endpoints_named, expand, first_repeats, left_out};
pub use parse::{MAX_TRIALS, parse, read};
pub use search::{LoadLimit, SearchPlan};
pub use set::{apply_set, parameter, without_sweeps};
pub use together::Together;

use std::ops::Range;

use serde_json::Value;

use crate::{Background, HostSetting, Nanos, Params, Problem, Ratio, Until, Warmup, nearest};

/// A plan as read.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// `campaign.name`.
    pub name: String,
    /// Runs per point: the run is the unit of replication
    /// (docs/methodology/repeats.md#unit-of-replication).
    pub repeats: u32,
    /// Until when points are repeated instead; `repeats` is then the most.
    pub until: Option<Until>,
    /// Order of the trials.
    pub order: Order,
    /// Seed of everything random.
    pub seed: u64,
    /// Settings made at hosts before the first trial, which hold until the last, and where they
    /// stand in the text.
    pub settings: Vec<(HostSetting, Range<usize>)>,
    /// The sweeps.
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
    /// The jobs, which run side by side.
    pub jobs: Vec<JobPlan>,
    /// The axes.
    pub axes: Vec<Axis>,
    /// Two arms measured in turn at every point.
    pub compare: Option<Compare>,
    /// Every job alone and all together, in turn, at every point.
    pub together: Option<Together>,
    /// How the load is searched at each point, if it is.
    pub search: Option<SearchPlan>,
}

impl Sweep {
    /// Runs per point and arm, in a plan of `repeats`.
    #[must_use]
    pub fn repeats(&self, repeats: u32) -> u32 {
        let pairs = self.compare.as_ref().map(|compare| compare.pairs);
        let rounds = || self.together.as_ref().map(|together| together.pairs);
        // A comparison or search counts in rounds of its own, which take precedence over the
        // campaign.
        pairs
            .or_else(rounds)
            .or(self.search.as_ref().map(|search| search.repeats))
            .unwrap_or(repeats)
    }

    /// Returns the loads to offer at each combination of the axes' values. `None` is the load as
    /// planned; shares of its result follow.
    pub(crate) fn offered(&self) -> Vec<Option<Ratio>> {
        let shares =
            self.together.iter().flat_map(|together| together.offered.iter().copied().map(Some));
        // The load as planned comes first, because the shares refer to its result.
        std::iter::once(None).chain(shares).collect()
    }

    /// Trials of one repeat of a point: one, or one of each arm.
    pub(crate) fn n_arms(&self) -> usize {
        let compared = self.compare.as_ref().map(|compare| compare.measured().len());
        compared
            .or_else(|| self.together.as_ref().map(|together| together.measured(&self.jobs).len()))
            .unwrap_or(1)
    }
}

/// One job of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Workload name.
    pub workload: String,
    /// Endpoint name of the active end.
    pub from: String,
    /// Endpoint name of the passive end, or a server (`iperf3://HOST[:PORT]`).
    pub to: String,
    /// Parameters.
    pub params: Params,
    /// Where in the text `params` entries stand, by name, for problems found later; after them
    /// `workload`, `from` and `to`.
    pub spans: Vec<(String, Range<usize>)>,
    /// Set if `start` or `duration` make it a background job.
    pub background: Option<Background>,
}

impl JobPlan {
    /// Where `workload`, `from` or `to` stands in the text.
    #[must_use]
    pub fn span_of(&self, key: &str) -> Option<Range<usize>> {
        // A parameter may be called like one of these; it stands before them.
        self.spans.iter().rev().find(|(name, _)| name == key).map(|(_, span)| span.clone())
    }

    /// Where the parameter `key` stands in the text, or else the job's workload.
    #[must_use]
    pub fn span_of_param(&self, key: &str) -> Option<Range<usize>> {
        // The spans of parameters come first, in the order of `params`.
        let params = self.spans.iter().take(self.params.0.len());
        let span = params.into_iter().find(|(name, _)| name == key).map(|(_, span)| span.clone());
        span.or_else(|| self.span_of("workload"))
    }
}

/// One axis of a sweep.
///
/// `path` is `params.NAME` (every measured job), `job.I.params.NAME` (job I only, from 0), `cpus`
/// (how many of the endpoints' CPUs the workers may use), or `pairs`, whose values are lists of
/// `"FROM TO"`: the measured jobs are run once for each pair, at the same time (endpoint sets for
/// NICs).
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Path of the value that varies.
    pub path: String,
    /// Its values, in the order given.
    pub values: Vec<Value>,
    /// Where it stands in the text.
    pub span: Option<Range<usize>>,
}

/// Why a plan could not be expanded on a testbed: an endpoint it names is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// A job names an endpoint the testbed does not have.
    #[error("the plan names endpoint `{endpoint}`, which the testbed does not have (it has {})",
        known.join(", "))]
    UnknownEndpoint {
        /// The name.
        endpoint: String,
        /// The names there are.
        known: Vec<String>,
        /// Where the name stands in the text.
        span: Option<Range<usize>>,
    },
    /// A job names a server as an endpoint and cannot use it.
    #[error("the plan names the server `{endpoint}` as an endpoint: {cause}")]
    UnfitServer {
        /// The name.
        endpoint: String,
        /// The problem.
        cause: &'static str,
        /// Where the name stands in the text.
        span: Option<Range<usize>>,
    },
    /// An axis path is not one of the forms of [`Axis`], or its value does not fit.
    #[error("sweep `{sweep}`: axis `{path}`: {cause}")]
    BadAxis {
        /// The sweep.
        sweep: String,
        /// The axis.
        path: String,
        /// The problem.
        cause: String,
        /// Where the axis stands in the text.
        span: Option<Range<usize>>,
    },
}

impl ExpandError {
    /// The same as a problem of the plan's text: where it stands, what there is, and what was
    /// probably meant.
    pub fn problem(&self) -> Problem {
        match self {
            Self::UnknownEndpoint { endpoint, known, span, .. } => {
                let near = nearest(endpoint, known.iter().map(String::as_str));
                let message = format!("the testbed has no endpoint `{endpoint}`");
                Problem::new(span.clone(), message)
                    .expected(format!("one of {}", known.join(", ")))
                    .nearest(near)
            }
            Self::UnfitServer { endpoint, cause, span } => {
                Problem::new(span.clone(), format!("server `{endpoint}`: {cause}"))
            }
            Self::BadAxis { path, cause, span, .. } => {
                Problem::new(span.clone(), format!("axis `{path}`: {cause}"))
            }
        }
    }
}
