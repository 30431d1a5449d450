//! `linerate plan`: what a plan amounts to, before anything is run.

use linerate_load::workload;
use linerate_model::plan::{Plan, apply_set, expand, left_out, parse};
use linerate_model::{Nanos, Problem, Testbed, TrialSpec, nearest};
use serde_json::json;

use crate::catalog::{self, Found, PLANS, find};
use crate::cli::PlanArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::{problems, testbeds};

/// Prints the trials of a plan and how long they take.
pub(crate) fn run(args: &PlanArgs, as_json: bool) -> Outcome {
    let (found, plan) = read(&name(&args.plan, args.quick)?, &args.set)?;
    if args.show {
        print!("{}", found.text);
        return Ok(Exit::Done);
    }
    let ground = testbeds::outline(&args.place)?;
    let trials = trials(&found, &plan, &ground.testbed)?;
    let total = duration(&trials);
    if as_json {
        println!("{}", json!({ "name": plan.name, "trials": trials, "expected_seconds": total.as_secs_f64() }));
        return Ok(Exit::Done);
    }
    for sweep in &plan.sweeps {
        let mut own: Vec<&TrialSpec> = trials.iter().filter(|t| t.sweep == sweep.name && t.repeat == 0).collect();
        own.sort_by_key(|trial| trial.id);
        println!("{}: {} points x {} repeats", sweep.name, own.len(), plan.repeats);
        for trial in own {
            println!("  {}", crate::progress::coordinate(trial));
        }
    }
    for line in left_out(&plan, &ground.testbed) {
        println!("left out: {line}");
    }
    println!("{} trials, about {}", trials.len(), crate::progress::span(total.as_secs_f64()));
    Ok(Exit::Done)
}

/// The plan meant: the preset or file itself, or its short variant.
pub(crate) fn name(plan: &str, quick: bool) -> Result<String, Failure> {
    if quick { catalog::quick(plan) } else { Ok(plan.to_owned()) }
}

/// Reads the plan called `name` with `set` applied, and checks everything that can be checked without a testbed.
pub(crate) fn read(name: &str, set: &[String]) -> Result<(Found, Plan), Failure> {
    let mut found = find("plan", PLANS, name)?;
    for assignment in set {
        found.text = apply_set(&found.text, assignment)
            .map_err(|problem| problems::failure(&format!("--set {assignment}"), assignment, &[problem]))?;
    }
    let (plan, mut problems) = parse(&found.text);
    if let Some(plan) = &plan {
        problems.extend(check_jobs(plan));
    }
    match plan {
        Some(plan) if problems.is_empty() => Ok((found, plan)),
        _ => Err(problems::failure(&found.origin, &found.text, &problems)),
    }
}

/// Expands the plan on `testbed` and checks every trial's parameters, axis values applied.
pub(crate) fn trials(found: &Found, plan: &Plan, testbed: &Testbed) -> Result<Vec<TrialSpec>, Failure> {
    let wrong = |lines: Vec<String>| Failure::wrong(format!("{}: {}; nothing was run", found.origin, lines.join("\n")));
    let trials = expand(plan, testbed).map_err(|errors| wrong(errors.iter().map(ToString::to_string).collect()))?;
    let mut complaints: Vec<String> = trials
        .iter()
        .flat_map(|trial| trial.jobs.iter().map(move |job| (trial, job)))
        .flat_map(|(trial, job)| {
            let errors = workload(&job.workload).map(|workload| workload.check(&job.params)).unwrap_or_default();
            errors.into_iter().map(move |error| format!("sweep `{}`: {}: {error}", trial.sweep, job.workload))
        })
        .collect();
    complaints.sort();
    complaints.dedup();
    if complaints.is_empty() { Ok(trials) } else { Err(wrong(complaints)) }
}

/// How long `trials` take, without preparation.
pub(crate) fn duration(trials: &[TrialSpec]) -> Nanos {
    Nanos(trials.iter().map(|trial| trial.phases.total().0).sum())
}

/// Workloads that do not exist and parameters that do not fit, where they stand in the text.
fn check_jobs(plan: &Plan) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (sweep, job) in plan.sweeps.iter().flat_map(|sweep| sweep.jobs.iter().map(move |job| (sweep, job))) {
        let span_of = |key: &str| job.spans.iter().find(|(name, _)| name == key).map(|(_, span)| span.clone());
        let Some(workload) = workload(&job.workload) else {
            let near = nearest(&job.workload, linerate_load::WORKLOADS.iter().map(|w| w.name()));
            let message = format!("there is no workload `{}`", job.workload);
            let problem = Problem::new(span_of("workload"), message).nearest(near);
            problems.push(problem.expected("one of `linerate list workloads`"));
            continue;
        };
        let known = |key: &str| workload.parameters().iter().any(|parameter| parameter.name == key);
        for error in workload.check(&job.params) {
            let message = format!("{} of `{}`: {}", error.key, workload.name(), error.cause);
            problems.push(Problem::new(span_of(&error.key), message).nearest(error.nearest.as_deref()));
        }
        for axis in &sweep.axes {
            let Some(key) = axis.path.strip_prefix("params.").filter(|key| !known(key)) else { continue };
            if job.background.is_some() {
                continue;
            }
            let near = nearest(key, workload.parameters().iter().map(|parameter| parameter.name));
            let message = format!("axis `{}`: `{}` has no such parameter", axis.path, workload.name());
            problems.push(Problem::new(axis.span.clone(), message).nearest(near));
        }
    }
    problems
}
