//! Places in a plan's text for problems that are found after parsing.

use std::collections::HashSet;
use std::ops::Range;

use linerate_model::plan::{Axis, JobPlan, Plan};
use linerate_model::{ParamError, Problem};

/// Returns the parameter of `job` that `axis` varies, if any.
pub(crate) fn swept<'a>(axis: &'a Axis, job_idx: usize, job: &JobPlan) -> Option<&'a str> {
    match axis.path.strip_prefix(&format!("job.{job_idx}.params.")) {
        Some(key) => Some(key),
        // A plain `params` axis varies measured jobs only.
        None => axis.path.strip_prefix("params.").filter(|_| job.background.is_none()),
    }
}

/// Returns the place where a sweep sets parameter `key` of its jobs of a workload: an axis, or else
/// a job.
pub(crate) fn place(plan: &Plan, sweep: &str, workload: &str, key: &str) -> Option<Range<usize>> {
    let sweep = plan.sweeps.iter().find(|own| own.name == sweep)?;
    let jobs = || sweep.jobs.iter().enumerate().filter(|(_, job)| job.workload == workload);
    let varies = |axis: &&Axis| jobs().any(|(idx, job)| swept(axis, idx, job) == Some(key));
    let axis = sweep.axes.iter().find(varies).and_then(|axis| axis.span.clone());
    // An axis overrides the parameter of a job, so its place comes first.
    axis.or_else(|| jobs().find_map(|(_, job)| job.span_of_param(key)))
}

/// Returns the problem of an unfit value of `subject` at `place`.
pub(crate) fn unfit(place: Option<Range<usize>>, subject: &str, error: ParamError) -> Problem {
    let problem = Problem::new(place, format!("{subject}: {}", error.cause))
        .nearest(error.nearest.as_deref());
    Problem { expected: error.expected, ..problem }
}

/// Removes repeated problems: every job and point with the same cause reports it.
pub(crate) fn without_repetition(problems: Vec<Problem>) -> Vec<Problem> {
    let mut seen = HashSet::new();
    let first = |problem: &Problem| seen.insert((problem.span.clone(), problem.message.clone()));
    let mut once: Vec<Problem> = problems.into_iter().filter(first).collect();
    once.sort_by_key(|problem| problem.span.as_ref().map_or(0, |span| span.start));
    once
}
