//! Rates as a share of the path's ceiling: `"90 %"` becomes frames per second, in every trial by
//! its own frame size.
//!
//! A workload never sees a share. The check of a plan's text uses any rate ([`stand_in`]), and a
//! trial runs with the rate of its share on its path ([`resolve`]).

use linerate_analysis::limits::ethernet;
use linerate_control::offered::Offered;
use linerate_load::{Takes, Workload, workload};
use linerate_model::plan::Plan;
use linerate_model::{Capacity, JobSpec, Params, Problem, Ratio, TrialSpec};
use serde_json::{Value, json};

use crate::places;
use crate::testbeds::Ground;

/// Rate that stands for a share while a text is checked.
const SOME_RATE: &str = "1 packet/s";

/// Returns `params` with a rate for each share.
pub(crate) fn stand_in(workload: &dyn Workload, params: &Params) -> Params {
    let mut params = params.clone();
    for (key, _) in shares(workload, &params) {
        // Any rate passes the checks of the text, because the real one depends on the testbed.
        params.set(&key, json!(SOME_RATE));
    }
    params
}

/// Replaces the shares in every job of `trials` by rates.
pub(crate) fn resolve(
    plan: &Plan,
    ground: &Ground,
    trials: &mut [TrialSpec],
) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    for trial in trials {
        for job in &mut trial.jobs {
            let Some(workload) = workload(&job.workload) else { continue };
            for (key, share) in shares(workload, &job.params) {
                match ceiling(&ground.capacities, &[job]) {
                    Some((frames, _)) => {
                        job.params.set(&key, json!(format!("{} packet/s", share * frames)))
                    }
                    None => {
                        let place = places::place(plan, &trial.sweep, &job.workload, &key);
                        let message = format!(
                            "`{key}` of `{}` is a share of a ceiling that is not known",
                            job.workload
                        );
                        problems.push(Problem::new(place, message).expected(
                            "a rate such as \"10 kpps\" or \"100 Mbit/s\"; or frames of one size, \
                                and a lab or testbed that says what \
                             its links carry",
                        ));
                    }
                }
            }
        }
    }
    let problems = places::without_repetition(problems);
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Returns the problems of jobs that cannot be offered a share of the rate that they reach alone,
/// or that already have an offered load.
pub(crate) fn check_offered(plan: &Plan, trials: &[TrialSpec]) -> Vec<Problem> {
    let is_share = |trial: &&TrialSpec| trial.arm.as_ref().is_some_and(|arm| arm.offered.is_some());
    let jobs = trials
        .iter()
        .filter(is_share)
        .flat_map(|trial| trial.jobs.iter().map(move |job| (trial, job)));
    let measured = jobs.filter(|(_, job)| job.background.is_none());
    let problems = measured.filter_map(|(trial, job)| offered_problem(plan, trial, job));
    places::without_repetition(problems.collect())
}

/// Returns the reason why `job` cannot be offered a share of its capacity.
fn offered_problem(plan: &Plan, trial: &TrialSpec, job: &JobSpec) -> Option<Problem> {
    let sweep = plan.sweeps.iter().find(|sweep| sweep.name == trial.sweep)?;
    let place = sweep.together.as_ref().and_then(|together| together.offered_span.clone());
    match Offered::of(job) {
        Err(why) => Some(Problem::new(place, format!("`offered`: {why}"))),
        // The first run of such a mix is as fast as possible, which a rate in the plan
        // prevents.
        Ok(offered) if job.params.0.contains_key(offered.parameter) => {
            let key = offered.parameter;
            let message =
                format!("`offered` sets `{key}` of `{}`, which the plan sets too", job.workload);
            Some(
                Problem::new(place, message)
                    .expected(format!("no `{key}`: the first run is as fast as possible")),
            )
        }
        Ok(_) => None,
    }
}

/// Returns the rates among `params` that are given as shares.
fn shares(workload: &dyn Workload, params: &Params) -> Vec<(String, f64)> {
    let rates = workload
        .parameters()
        .into_iter()
        .filter(|parameter| matches!(parameter.takes, Takes::Rate));
    let share = |key: &str| share(params.0.get(key)?);
    rates
        .filter_map(|parameter| Some((parameter.name.to_owned(), share(parameter.name)?)))
        .collect()
}

fn share(value: &Value) -> Option<f64> {
    // A bare number is no share.
    let text = value.as_str().filter(|text| text.trim().ends_with('%'))?;
    text.parse().ok().map(|Ratio(share)| share).filter(|share| *share > 0.0)
}

/// Returns the frame rate of the lowest declared capacity on the path of `jobs`, and its name.
pub(crate) fn ceiling(capacities: &[Capacity], jobs: &[&JobSpec]) -> Option<(f64, String)> {
    fn of(job: &JobSpec, capacities: &[Capacity]) -> Option<(f64, String)> {
        let workload = workload(&job.workload)?;
        let params = stand_in(workload, &job.params);
        let rates =
            capacities.iter().filter(|capacity| crosses(job, capacity)).filter_map(|capacity| {
                let packet = workload.packet(&params, capacity.mtu)?;
                let bits = ethernet::on_wire(packet, capacity.frame_overhead).bits();
                Some((capacity.rate.0 / bits, capacity.name.clone()))
            });
        rates.min_by(|a, b| a.0.total_cmp(&b.0))
    }
    // All jobs get the same share, so the tightest path sets the ceiling.
    jobs.iter().filter_map(|job| of(job, capacities)).min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Returns whether `job` crosses an edge of `capacity`, in either direction.
fn crosses(job: &JobSpec, capacity: &Capacity) -> bool {
    let (from, to) = (&job.from.name, &job.to.name);
    // A declared capacity limits both directions unless it says otherwise.
    capacity.pairs.iter().any(|(a, b)| (a == from && b == to) || (a == to && b == from))
}
