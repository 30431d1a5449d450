//! From a plan and a testbed to trials: the product of the axes, the repeats, and the order they
//! are run in.
//!
//! Trials are numbered in the order (sweep, point, repeat), the last axis of a sweep varying
//! fastest; they are returned in the order they are run. A trial's seed depends on the plan's seed,
//! its sweep's name, its point and its repeat, and on nothing else: adding a sweep or an axis value
//! changes no other trial.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;

use super::axis::{AxisPath, PATH_FORMS, pairs_of, value_problem};
use super::random::{SplitMix64, derive};
use super::together::MixArm;
use super::{ArmPlan, Axis, ExpandError, JobPlan, Order, Plan, Sweep, compare, servers};
use crate::{
    ARM_AXIS, Arm, Endpoint, JobSpec, OFFERED_AXIS, Params, Phases, Point, Ratio, SATURATION,
    Testbed, TrialId, TrialSpec, is_server,
};

/// Expands `plan` on `testbed` into trials, in the order they are to be run.
///
/// A point of a `cpus` axis that asks for more CPUs than an endpoint of the testbed lists is left
/// out, as one plan serves hosts large and small; [`left_out`] names those points.
///
/// # Errors
/// Every endpoint or axis that does not fit.
pub fn expand(plan: &Plan, testbed: &Testbed) -> Result<Vec<TrialSpec>, Vec<ExpandError>> {
    rounds(plan, testbed, u32::MAX)
}

/// The first repeat of every trial of [`expand`]; the others differ from it in number and seed.
///
/// # Errors
/// Those of [`expand`].
pub fn first_repeats(plan: &Plan, testbed: &Testbed) -> Result<Vec<TrialSpec>, Vec<ExpandError>> {
    rounds(plan, testbed, 1)
}

/// The trials of at most the first `most` repeats.
fn rounds(plan: &Plan, testbed: &Testbed, most: u32) -> Result<Vec<TrialSpec>, Vec<ExpandError>> {
    let places =
        plan.settings.iter().map(|(setting, span)| (setting.at.as_str(), Some(span.clone())));
    let mut errors: Vec<ExpandError> = unknown(testbed, places).collect();
    for sweep in &plan.sweeps {
        // All sweeps are checked before the first is expanded, so one run reports every mistake.
        check(sweep, testbed, &mut errors);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut points: Vec<Measured<'_>> = Vec::new();
    let mut number = 0;
    for sweep in &plan.sweeps {
        for (values, offered) in grid(sweep)
            .iter()
            .flat_map(|values| sweep.offered().into_iter().map(move |offered| (values, offered)))
        {
            let Some(arms) = arms(sweep, values, offered, testbed) else { continue };
            let coordinate = point(sweep, values, offered);
            // Numbers are assigned to all repeats at once. A repeat that is skipped later leaves a
            // gap, but no other trial changes its number.
            let n_trials = sweep.repeats(plan.repeats) * arms.len() as u32;
            points.push(Measured {
                sweep,
                coordinate,
                arms,
                is_derived: offered.is_some(),
                first: number,
            });
            number += n_trials;
        }
    }
    // What is offered as a share of what came of other points comes after them.
    let (derived, plain): (Vec<usize>, Vec<usize>) =
        (0..points.len()).partition(|&point| points[point].is_derived);
    // Shares of a result can be offered only after the result is known.
    let in_order = |order| in_order(plan, &points, order, most);
    Ok([plain, derived].into_iter().flat_map(in_order).collect())
}

/// The trials of those of `points` whose places are in `order`, in the order they are run: at most
/// `most` repeats of each.
fn in_order(
    plan: &Plan,
    points: &[Measured<'_>],
    mut order: Vec<usize>,
    most: u32,
) -> Vec<TrialSpec> {
    let repeats = |sweep: &Sweep| sweep.repeats(plan.repeats).min(most);
    match plan.order {
        Order::Sequential => {
            let points = order.iter().map(|&point| &points[point]);
            let rounds =
                points.flat_map(|point| (0..repeats(point.sweep)).map(move |n| (point, n)));
            rounds.flat_map(|(point, repeat)| point.trials(plan, repeat)).collect()
        }
        Order::Interleaved => {
            let rounds = plan.sweeps.iter().map(repeats).max().unwrap_or(0);
            (0..rounds)
                .flat_map(|repeat| {
                    // The order of one round must not depend on that of the round before, or an
                    // additional repeat would change all later rounds.
                    order.sort_unstable();
                    SplitMix64::new(derive(plan.seed, &["order", &repeat.to_string()]))
                        .shuffle(&mut order);
                    let left = order.iter().map(|&point| &points[point]);
                    // Sweeps with fewer repeats drop out of the later rounds.
                    let left = left.filter(|point| repeat < repeats(point.sweep));
                    left.flat_map(|point| point.trials(plan, repeat)).collect::<Vec<_>>()
                })
                .collect()
        }
    }
}

/// A point of a sweep as it is measured.
struct Measured<'a> {
    sweep: &'a Sweep,
    coordinate: Point,
    /// Jobs of each arm; one without a name where nothing is compared.
    arms: Vec<(Option<Arm>, Vec<JobSpec>)>,
    /// True if its offered load follows from the result of another trial.
    is_derived: bool,
    /// Number of the first trial.
    first: u32,
}

impl Measured<'_> {
    /// The trials of one repeat, in the order they are run: one, or one of each arm. Two repeats in
    /// a row are in turn and in reverse (ABBA or BAAB), so that a steady drift hits all arms alike
    /// (docs/methodology/with-and-without.md#the-figure).
    fn trials(&self, plan: &Plan, repeat: u32) -> Vec<TrialSpec> {
        let sweep = self.sweep;
        // The arm is left out of the coordinate here, so that both arms of a pair get one seed.
        let coordinate = serde_json::to_string(&self.coordinate)
            .expect("a map of strings to JSON values is JSON");
        // Arms of one pair have the same.
        let seed = derive(plan.seed, &[&sweep.name, &coordinate, &repeat.to_string()]);
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        // Two repeats share a random order, the second in reverse.
        let block = (repeat / 2).to_string();
        SplitMix64::new(derive(plan.seed, &["arms", &sweep.name, &coordinate, &block]))
            .shuffle(&mut order);
        if repeat % 2 == 1 {
            order.reverse();
        }
        order.into_iter().map(|arm_idx| self.trial(plan, arm_idx, repeat, seed)).collect()
    }

    /// Returns one repeat of the arm at `arm_idx`.
    fn trial(&self, plan: &Plan, arm_idx: usize, repeat: u32, seed: u64) -> TrialSpec {
        let sweep = self.sweep;
        let (arm, jobs) = &self.arms[arm_idx];
        let mut point = self.coordinate.clone();
        point.extend(
            // In the ledger the arm is a coordinate, because arms are points of their own.
            arm.iter().map(|arm| (ARM_AXIS.to_owned(), compare::coordinate(&arm.name))),
        );
        TrialSpec {
            id: TrialId(self.first + arm_idx as u32 * sweep.repeats(plan.repeats) + repeat),
            sweep: sweep.name.clone(),
            point,
            repeat,
            seed,
            phases: Phases {
                warmup: sweep.warmup,
                measure: sweep.duration,
                drain: sweep.drain,
                rest: sweep.rest,
                interval: sweep.interval,
            },
            jobs: jobs.clone(),
            arm: arm.clone(),
            until: sweep.repeats_until(plan).map(Box::new),
            search: None,
        }
    }
}

/// The arms of `sweep` and their jobs with `values` applied; `None` if an endpoint has too few CPUs
/// for them.
fn arms(
    sweep: &Sweep,
    values: &[&Value],
    offered: Option<Ratio>,
    testbed: &Testbed,
) -> Option<Vec<(Option<Arm>, Vec<JobSpec>)>> {
    if let Some(together) = &sweep.together {
        let specs = numbered_jobs(sweep, values, testbed)?;
        let arms = together.measured(&sweep.jobs).into_iter();
        return Some(arms.map(|arm| mixed(arm, &specs, offered, together.margin)).collect());
    }
    let Some(compare) = &sweep.compare else {
        return Some(vec![(None, jobs(sweep, values, testbed)?)]);
    };
    let arms = compare.measured().into_iter();
    arms.map(|(plan, role, name)| {
        let arm = Arm {
            settings: plan.settings.clone(),
            tests: compare.tests.clone(),
            ..Arm::new(name, role, compare.margin)
        };
        Some((Some(arm), jobs_of_arm(plan, sweep, values, testbed)?))
    })
    .collect()
}

/// Returns the arm of a mix and its jobs. `specs` are all jobs of the mix, each with the number of
/// the sweep's job it comes from.
fn mixed(
    arm: MixArm,
    specs: &[(usize, JobSpec)],
    offered: Option<Ratio>,
    margin: Ratio,
) -> (Option<Arm>, Vec<JobSpec>) {
    let (numbers, jobs) = arm.jobs(specs);
    (Some(Arm { jobs: numbers, offered, ..Arm::new(arm.name, arm.role, margin) }), jobs)
}

/// Returns the jobs of the arm `plan` of a comparison; `None` if an endpoint has too few CPUs.
fn jobs_of_arm(
    plan: &ArmPlan,
    sweep: &Sweep,
    values: &[&Value],
    testbed: &Testbed,
) -> Option<Vec<JobSpec>> {
    let overridden =
        Sweep { jobs: sweep.jobs.iter().map(|job| plan.applied(job)).collect(), ..sweep.clone() };
    let mut jobs = jobs(&overridden, values, testbed)?;
    // Background jobs are the conditions of both arms.
    for job in jobs.iter_mut().filter(|job| job.background.is_none()) {
        for (end, cpus) in [(&mut job.from, &plan.from_cpus), (&mut job.to, &plan.to_cpus)] {
            if !cpus.is_empty() {
                // An arm that names CPUs wants the workers to stay there.
                (end.cpus, end.pin) = (cpus.clone(), true);
            }
        }
    }
    Some(jobs)
}

/// The points of `plan` that `testbed` has too few CPUs for, each as `sweep, point: why`.
#[must_use]
pub fn left_out(plan: &Plan, testbed: &Testbed) -> Vec<String> {
    let mut lines = Vec::new();
    for sweep in &plan.sweeps {
        for values in grid(sweep) {
            if let Some(endpoint) = too_few_cpus(sweep, &values, testbed) {
                let point = serde_json::to_string(&point(sweep, &values, None)).unwrap_or_default();
                let (name, n_cpus) = (&endpoint.name, endpoint.cpus.len());
                lines.push(format!(
                    "{}, {point}: endpoint `{name}` lists {n_cpus} CPUs",
                    sweep.name
                ));
            }
        }
    }
    lines
}

/// Every combination of axis values, the last axis varying fastest; one empty combination if there
/// is no axis.
fn grid(sweep: &Sweep) -> Vec<Vec<&Value>> {
    let mut combinations: Vec<Vec<&Value>> = vec![Vec::new()];
    for axis in &sweep.axes {
        let longer = combinations.iter().flat_map(|shorter| {
            // The last axis varies fastest, as in nested loops that a reader of the plan would
            // write.
            axis.values.iter().map(move |value| [&shorter[..], &[value]].concat())
        });
        combinations = longer.collect();
    }
    combinations
}

/// The coordinate of `values`: axis paths without `params.`, unless that would name two axes alike;
/// and what is offered, if that varies.
fn point(sweep: &Sweep, values: &[&Value], offered: Option<Ratio>) -> Point {
    fn key(axis: &Axis, sweep: &Sweep) -> String {
        match axis.path.strip_prefix("params.") {
            Some(name)
                if !sweep.axes.iter().any(|other| other.path == name)
                    // The arm's own coordinate must not be overwritten by a parameter of the same
                    // name.
                    && (name != ARM_AXIS || sweep.n_arms() == 1) =>
            {
                name.to_owned()
            }
            _ => axis.path.clone(),
        }
    }
    let varies = sweep.offered().len() > 1;
    let told = offered.map_or_else(|| SATURATION.to_owned(), |share| share.to_string());
    let offered = varies.then(|| (OFFERED_AXIS.to_owned(), Value::from(told)));
    sweep
        .axes
        .iter()
        .zip(values)
        .map(|(axis, value)| (key(axis, sweep), (*value).clone()))
        .chain(offered)
        .collect()
}

/// The sweep's jobs with `values` applied; `None` if an endpoint has too few CPUs for them.
fn jobs(sweep: &Sweep, values: &[&Value], testbed: &Testbed) -> Option<Vec<JobSpec>> {
    Some(numbered_jobs(sweep, values, testbed)?.into_iter().map(|(_, job)| job).collect())
}

/// Returns the axes of `sweep` that are known, each with its value of `values`.
fn coordinates<'a>(
    sweep: &'a Sweep,
    values: &'a [&'a Value],
) -> impl Iterator<Item = (AxisPath<'a>, &'a Value)> {
    let axes = sweep.axes.iter().zip(values);
    axes.filter_map(|(axis, value)| Some((AxisPath::read(&axis.path)?, *value)))
}

/// The same, each with the number of the sweep's job it comes from.
fn numbered_jobs(
    sweep: &Sweep,
    values: &[&Value],
    testbed: &Testbed,
) -> Option<Vec<(usize, JobSpec)>> {
    // The point is left out as a whole: half of its jobs would be another measurement.
    if too_few_cpus(sweep, values, testbed).is_some() {
        return None;
    }
    let coordinates = || coordinates(sweep, values);
    let n_cpus = coordinates()
        .find(|(path, _)| *path == AxisPath::Cpus)
        .and_then(|(_, value)| value.as_u64());
    let mut specs = Vec::new();
    for (job_idx, job) in sweep.jobs.iter().enumerate() {
        let mut params: Params = job.params.clone();
        for (path, value) in coordinates() {
            match path {
                // An axis varies what is measured, and not the conditions.
                AxisPath::Params(name) if job.background.is_none() => {
                    params.set(name, value.clone())
                }
                AxisPath::Job(number, name) if number == job_idx => params.set(name, value.clone()),
                _ => {}
            }
        }
        // Background jobs are the conditions of all points, so an axis of CPUs does not limit them.
        let n_cpus = n_cpus.filter(|_| job.background.is_none());
        for (from, to) in ends(job, coordinates()) {
            let from = endpoint_with(n_cpus, from, testbed)?;
            let mut params = params.clone();
            let to = match servers::named(to, &from, &mut params) {
                Some(server) => server,
                None => endpoint_with(n_cpus, to, testbed)?,
            };
            let (workload, background) = (job.workload.clone(), job.background);
            specs.push((job_idx, JobSpec { workload, from, to, params, background }));
        }
    }
    Some(specs)
}

/// Returns the endpoint `name` of `testbed`, with the first `n_cpus` of its CPUs if a number is
/// given.
fn endpoint_with(n_cpus: Option<u64>, name: &str, testbed: &Testbed) -> Option<Endpoint> {
    let mut endpoint = testbed.endpoint(name)?.clone();
    match n_cpus {
        // The first CPUs of the list, so that more CPUs always include those of the smaller points.
        Some(n_cpus) => endpoint.cpus.truncate(usize::try_from(n_cpus).unwrap_or(usize::MAX)),
        // The list says which CPUs may be used. Without `pin` the scheduler decides.
        None if !endpoint.pin => endpoint.cpus.clear(),
        None => {}
    }
    Some(endpoint)
}

/// The endpoint pairs `job` runs between at this coordinate: its own, or those of a `pairs` axis.
fn ends<'a>(
    job: &'a JobPlan,
    coordinates: impl Iterator<Item = (AxisPath<'a>, &'a Value)>,
) -> Vec<(&'a str, &'a str)> {
    let mut coordinates = coordinates;
    let pairs = coordinates
        .find(|(path, _)| *path == AxisPath::Pairs)
        .and_then(|(_, value)| pairs_of(value));
    match (pairs, job.background) {
        (Some(pairs), None) => pairs,
        // A `pairs` axis replaces the ends of measured jobs only; background jobs keep theirs.
        _ => vec![(&job.from, &job.to)],
    }
}

/// An endpoint of a measured job that lists fewer CPUs than the point asks for.
fn too_few_cpus<'a>(
    sweep: &Sweep,
    values: &[&Value],
    testbed: &'a Testbed,
) -> Option<&'a Endpoint> {
    let coordinates = || coordinates(sweep, values);
    let n_cpus = coordinates().find(|(path, _)| *path == AxisPath::Cpus)?.1.as_u64()?;
    let measured = sweep.jobs.iter().filter(|job| job.background.is_none());
    let names = measured.flat_map(|job| ends(job, coordinates())).flat_map(|(from, to)| [from, to]);
    names
        .filter_map(|name| testbed.endpoint(name))
        .find(|endpoint| (endpoint.cpus.len() as u64) < n_cpus)
}

/// Every endpoint of `named` that `testbed` does not have.
fn unknown<'a>(
    testbed: &Testbed,
    named: impl Iterator<Item = (&'a str, Option<Range<usize>>)>,
) -> impl Iterator<Item = ExpandError> {
    let missing = named.filter(|(name, _)| !is_server(name) && testbed.endpoint(name).is_none());
    missing.map(|(name, span)| {
        let known = testbed.endpoints.iter().map(|endpoint| endpoint.name.clone()).collect();
        ExpandError::UnknownEndpoint { endpoint: name.to_owned(), known, span }
    })
}

/// Every endpoint and axis of `sweep` that does not fit `testbed`.
fn check(sweep: &Sweep, testbed: &Testbed, errors: &mut Vec<ExpandError>) {
    let before = errors.len();
    errors.extend(bad_axes(sweep));
    let named = endpoints_named(sweep);
    errors.extend(unknown(testbed, named.iter().cloned()));
    errors.extend(servers::unfit(sweep));
    let cpus = sweep.axes.iter().find(|axis| axis.path == "cpus");
    // With an unknown endpoint, a message about its CPUs would mislead.
    if let (Some(cpus), true) = (cpus, before == errors.len()) {
        let mut endpoints = named.iter().filter_map(|(name, _)| testbed.endpoint(name));
        if let Some(endpoint) = endpoints.find(|endpoint| endpoint.cpus.is_empty()) {
            let cause = format!(
                "endpoint `{}` lists no CPUs; give it `cpus` in the testbed",
                endpoint.name
            );
            errors.push(bad_axis(sweep, cpus, cause));
        } else if grid(sweep).iter().all(|values| too_few_cpus(sweep, values, testbed).is_some()) {
            errors.push(bad_axis(
                sweep,
                cpus,
                "every value asks for more CPUs than an endpoint lists".to_owned(),
            ));
        }
    }
}

fn bad_axis(sweep: &Sweep, axis: &Axis, cause: String) -> ExpandError {
    ExpandError::BadAxis {
        sweep: sweep.name.clone(),
        path: axis.path.clone(),
        cause,
        span: axis.span.clone(),
    }
}

/// The axes of `sweep` whose path or values no testbed makes good.
fn bad_axes(sweep: &Sweep) -> impl Iterator<Item = ExpandError> {
    sweep.axes.iter().enumerate().filter_map(|(axis_idx, axis)| {
        let cause = match AxisPath::read(&axis.path) {
            None => format!("not one of {PATH_FORMS}"),
            Some(AxisPath::Job(job, _)) if job >= sweep.jobs.len() => {
                format!("the sweep has {} jobs, numbered from 0", sweep.jobs.len())
            }
            Some(_) if sweep.axes[..axis_idx].iter().any(|other| other.path == axis.path) => {
                "it is there twice".to_owned()
            }
            Some(_) => {
                let bad = axis.values.iter().find_map(|value| value_problem(&axis.path, value));
                bad.map(|(message, expected)| format!("{message}, not {expected}"))?
            }
        };
        Some(bad_axis(sweep, axis, cause))
    })
}

/// The endpoints the jobs of `sweep` run between, each once for every place it is named at.
#[must_use]
pub fn endpoints_named(sweep: &Sweep) -> Vec<(&str, Option<Range<usize>>)> {
    let pairs = sweep.axes.iter().find(|axis| axis.path == "pairs");
    let mut named = Vec::new();
    // With a `pairs` axis the endpoints of measured jobs are never used, so they may be missing.
    for job in sweep.jobs.iter().filter(|job| pairs.is_none() || job.background.is_some()) {
        named.extend([
            (job.from.as_str(), job.span_of("from")),
            (job.to.as_str(), job.span_of("to")),
        ]);
    }
    for arm in sweep.compare.iter().flat_map(|compare| compare.arms.iter().chain(&compare.placebo))
    {
        named.extend(arm.from.iter().map(|name| (name.as_str(), arm.span_of("from"))));
        named.extend(arm.to.iter().map(|name| (name.as_str(), arm.span_of("to"))));
        let places =
            arm.spans.iter().filter(|(key, _)| key == "at").map(|(_, span)| Some(span.clone()));
        named.extend(arm.settings.iter().map(|setting| setting.at.as_str()).zip(places));
    }
    if let Some(axis) = pairs {
        let names =
            axis.values.iter().flat_map(pairs_of).flatten().flat_map(|(from, to)| [from, to]);
        named.extend(names.map(|name| (name, axis.span.clone())));
    }
    let mut seen = HashSet::new();
    // One place in the text gives one problem, however many jobs use it.
    named.retain(|place| seen.insert(place.clone()));
    named
}
