//! A plan before anything is run: read, checked, and expanded on a testbed.

use linerate_control::search::{Expected, expected};
use linerate_load::{WORKLOADS, Workload, workload};
use linerate_model::plan::{
    Axis, ExpandError, Plan, Sweep, apply_set, endpoints_named, expand, parse, without_sweeps,
};
use linerate_model::{
    HostAddress, Nanos, ParamError, Params, Problem, Testbed, TestbedKind, TrialSpec, is_server,
    nearest,
};

use crate::catalog::{self, PLANS, PlanText, find};
use crate::places::{place, swept, unfit, without_repetition};
use crate::testbeds::{self, Ground, Place};
use crate::{Failure, Result, rates, searches};

/// Returns the facts of hosts that are assumed without asking, where the plan depends on them:
/// their CPUs.
#[must_use]
pub fn assumed(plan: &Plan, ground: &Ground) -> Vec<String> {
    let has_cpus = |sweep: &Sweep| sweep.axes.iter().any(|axis| axis.path == "cpus");
    // Hosts of a lab are on this one.
    if ground.kind == TestbedKind::Lab || !plan.sweeps.iter().any(has_cpus) {
        return Vec::new();
    }
    let endpoints = ground
        .testbed
        .endpoints
        .iter()
        // Pinned endpoints list their CPUs in the testbed.
        .filter(|endpoint| !endpoint.pin && is_elsewhere(ground, &endpoint.host));
    let told = endpoints.map(|endpoint| {
        format!(
            "endpoint `{}` has {} CPUs, as this host has: {} was not asked. `linerate run` asks \
                it, and leaves out points that need more",
            endpoint.name,
            endpoint.cpus.len(),
            endpoint.host
        )
    });
    told.collect()
}

/// Returns whether `host` is another machine than this one.
fn is_elsewhere(ground: &Ground, host: &str) -> bool {
    ground
        .testbed
        .hosts
        .iter()
        .any(|(name, address)| name == host && *address != HostAddress::InProcess)
}

/// Returns the name of the plan: the preset or file itself, or its short variant.
///
/// # Errors
/// If it has no short variant.
pub fn name(plan: &str, quick: bool) -> Result<String> {
    if quick { catalog::quick(plan) } else { Ok(plan.to_owned()) }
}

/// Reads the plan called `name` with `set` applied, and checks everything that can be checked
/// without a testbed.
///
/// # Errors
/// If there is no such plan, or it has problems: all of them.
pub fn read(name: &str, set: &[String]) -> Result<(PlanText, Plan)> {
    let mut found = find("plan", PLANS, name)?;
    for assignment in set {
        // Each assignment changes the text before the next, so later ones see the earlier ones.
        found.text = apply_set(&found.text, assignment).map_err(|problem| {
            Failure::in_text(&format!("--set {assignment}"), assignment, &[problem])
        })?;
    }
    let (plan, mut problems) = parse(&found.text);
    if let Some(plan) = &plan {
        problems.extend(check_jobs(plan));
    }
    match plan {
        // A plan with problems may have been read in part, and must not be run.
        Some(plan) if problems.is_empty() => Ok((found, plan)),
        _ => Err(Failure::in_text(&found.origin, &found.text, &problems)),
    }
}

/// Reads like [`read`], without the sweeps that name endpoints which `testbed` lacks. Returns those
/// endpoints too. A plan that is left without a sweep cannot be run.
///
/// # Errors
/// The same.
fn read_fitting(
    name: &str,
    set: &[String],
    testbed: &Testbed,
) -> Result<(PlanText, Plan, Vec<String>)> {
    let (mut found, mut plan) = read(name, set)?;
    let (mut lacking, mut left_out) = (Vec::new(), Vec::new());
    for sweep in &plan.sweeps {
        let named = endpoints_named(sweep).into_iter().map(|(name, _)| name.to_owned());
        let n_before = lacking.len();
        let is_lacking = |name: &String| !is_server(name) && testbed.endpoint(name).is_none();
        lacking.extend(named.filter(is_lacking));
        if lacking.len() > n_before {
            left_out.push(sweep.name.clone());
        }
    }
    lacking.sort_unstable();
    lacking.dedup();
    if left_out.len() == plan.sweeps.len() {
        plan.sweeps.clear();
    } else if !left_out.is_empty() {
        found.text = without_sweeps(&found.text, &left_out)
            .map_err(|problem| Failure::in_text(&found.origin, &found.text, &[problem]))?;
        // Read again, so that its places are those of the new text.
        plan = parse(&found.text).0.expect("a part of a plan that was read");
    }
    Ok((found, plan, lacking))
}

/// Plan of a step of a reproduction, for hosts.
#[derive(Debug)]
pub struct ForHosts {
    /// The plan; `None` if the step is left out.
    pub plan: Option<(PlanText, Plan)>,
    /// Note on the sweeps or the step that are left out, for a person.
    pub note: Option<String>,
}

/// Reads the plan `plan` of the step `name` for the hosts of `testbed`: with their `settings`, and
/// without the sweeps that name endpoints which they lack.
///
/// # Errors
/// Those of [`read`].
pub fn read_for_hosts(
    (name, plan): (&str, &str),
    mut set: Vec<String>,
    settings: Option<Vec<String>>,
    testbed: &Testbed,
) -> Result<ForHosts> {
    let left_out =
        |why: String| ForHosts { plan: None, note: Some(format!("{name}: left out, {why}")) };
    // Shapes that are not judged show in the report; the others are worth having.
    let Some(settings) = settings else {
        return Ok(left_out("it differs from another campaign by its lab only".to_owned()));
    };
    set.extend(settings);
    let (found, plan, lacking) = read_fitting(plan, &set, testbed)?;
    let lacking = lacking.join(", ");
    if plan.sweeps.is_empty() {
        return Ok(left_out(format!("the hosts have no endpoints {lacking}")));
    }
    let note = format!("{name}: without the sweeps that need the endpoints {lacking}");
    let note = (!lacking.is_empty()).then_some(note);
    Ok(ForHosts { plan: Some((found, plan)), note })
}

/// Expands the plan on `ground`, checks the parameters of every trial with its axis values, and
/// gives searches their loads.
///
/// # Errors
/// If the plan has problems on this testbed: all of them.
pub fn trials(found: &PlanText, plan: &Plan, ground: &Ground) -> Result<Vec<TrialSpec>> {
    checked(found, plan, ground, expand(plan, &ground.testbed))
}

/// The same of the first repeats alone: they have the problems of all.
///
/// # Errors
/// Those of [`trials`].
pub fn first_repeats(found: &PlanText, plan: &Plan, ground: &Ground) -> Result<Vec<TrialSpec>> {
    checked(found, plan, ground, linerate_model::plan::first_repeats(plan, &ground.testbed))
}

/// Returns `expanded` with its rates and searches, if there is no problem.
fn checked(
    found: &PlanText,
    plan: &Plan,
    ground: &Ground,
    expanded: Result<Vec<TrialSpec>, Vec<ExpandError>>,
) -> Result<Vec<TrialSpec>> {
    let wrong = |problems: &[Problem]| Failure::in_text(&found.origin, &found.text, problems);
    let mut trials = expanded.map_err(|errors| match elsewhere(plan, ground, &errors) {
        Some(problem) => wrong(&[problem]),
        None => wrong(&errors.iter().map(ExpandError::problem).collect::<Vec<Problem>>()),
    })?;
    rates::resolve(plan, ground, &mut trials).map_err(|problems| wrong(&problems))?;
    // Rates are resolved before this check, because a workload never sees a share.
    let problems = [check_points(plan, &trials), rates::check_offered(plan, &trials)].concat();
    if !problems.is_empty() {
        return Err(wrong(&problems));
    }
    searches::attach(plan, ground, &mut trials).map_err(|problems| wrong(&problems))?;
    Ok(trials)
}

/// Returns the problem that `plan` is made for a lab: its endpoints are not on `ground`, and a lab
/// of the program has them all.
fn elsewhere(plan: &Plan, ground: &Ground, errors: &[ExpandError]) -> Option<Problem> {
    let mut missing: Vec<&str> = Vec::new();
    let mut first = None;
    for error in errors {
        // Any other error shows a mistake in the plan itself, not in the choice of the place.
        let ExpandError::UnknownEndpoint { endpoint, span, .. } = error else { return None };
        if !missing.contains(&endpoint.as_str()) {
            missing.push(endpoint);
        }
        first = first.or_else(|| span.clone());
    }
    let labs = testbeds::labs_for(&plan.name, &endpoints(plan));
    if missing.is_empty() || labs.is_empty() {
        return None;
    }
    let here: Vec<&str> =
        ground.testbed.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
    let named: Vec<String> = labs.iter().map(|lab| format!("`--lab {lab}`")).collect();
    let message = format!(
        "the testbed has no endpoints {}: it has {}, and the plan is for another",
        missing.join(", "),
        here.join(", ")
    );
    Some(
        Problem::new(first, message)
            .expected(format!("{}, or a `--testbed` with these endpoints", named.join(" or "))),
    )
}

/// Returns the endpoints of a testbed that `plan` names.
#[must_use]
pub fn endpoints(plan: &Plan) -> Vec<&str> {
    let mut names: Vec<&str> =
        plan.sweeps.iter().flat_map(endpoints_named).map(|(name, _)| name).collect();
    names.extend(plan.settings.iter().map(|(setting, _)| setting.at.as_str()));
    names.retain(|name| !is_server(name));
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns `place` for `plan`: if the other end of every job is a server, this host is enough.
#[must_use]
pub fn placed(place: Place, plan: &Plan) -> Place {
    let mut named = plan.sweeps.iter().flat_map(endpoints_named);
    let servers = endpoints(plan) == ["a"] && named.any(|(name, _)| is_server(name));
    Place { servers, ..place }
}

/// Returns the number of trials of `plan` whose first repeats are `first`, and their duration
/// without preparation, with searches as long as on an idle device.
pub fn extent(plan: &Plan, first: &[TrialSpec]) -> (u64, Nanos) {
    first.iter().fold((0, Nanos(0)), |(n_trials, time), trial| {
        let sweep = plan.sweeps.iter().find(|sweep| sweep.name == trial.sweep);
        let repeats = sweep.map_or(1, |sweep| u64::from(sweep.repeats(plan.repeats)));
        (n_trials + repeats, time + Nanos(repeats * trial_time(trial)))
    })
}

/// Returns the nanoseconds of a trial, or those expected of the search that it stands for.
fn trial_time(trial: &TrialSpec) -> u64 {
    match &trial.search {
        None => trial.phases.total().0,
        Some(searched) => {
            let Expected { n_trials, loaded } = expected(&searched.search);
            loaded.0 + u64::from(n_trials) * (trial.phases.drain + trial.phases.rest).0
        }
    }
}

/// Returns the problems of unknown workloads and of unfit parameters and axis values, with their
/// places in the text.
fn check_jobs(plan: &Plan) -> Vec<Problem> {
    let mut problems = Vec::new();
    for sweep in &plan.sweeps {
        for (job_idx, job) in sweep.jobs.iter().enumerate() {
            let Some(workload) = workload(&job.workload) else {
                let near = nearest(&job.workload, WORKLOADS.iter().map(|workload| workload.name()));
                let message = format!("there is no workload `{}`", job.workload);
                let problem = Problem::new(job.span_of("workload"), message).nearest(near);
                problems.push(problem.expected("one of `linerate list workloads`"));
                continue;
            };
            for error in workload.check(&rates::stand_in(workload, &job.params)) {
                let subject = format!("{} of `{}`", error.key, workload.name());
                problems.push(unfit(job.span_of_param(&error.key), &subject, error));
            }
            for arm in sweep.compare.iter().flat_map(|compare| &compare.arms) {
                // Other parameters were reported with the job already.
                let of_arm = |error: &ParamError| arm.params.0.contains_key(&error.key);
                let applied = rates::stand_in(workload, &arm.applied(job).params);
                for error in workload.check(&applied).into_iter().filter(of_arm) {
                    let subject = format!("{} of `{}`", error.key, workload.name());
                    problems.push(unfit(
                        arm.span_of(&format!("params.{}", error.key)),
                        &subject,
                        error,
                    ));
                }
            }
            for axis in &sweep.axes {
                if let Some(key) = swept(axis, job_idx, job) {
                    problems.extend(check_axis(axis, key, workload));
                }
            }
        }
    }
    without_repetition(problems)
}

/// Returns the first value of `axis` that its parameter `key` does not take, whatever the others
/// are.
fn check_axis(axis: &Axis, key: &str, workload: &dyn Workload) -> Option<Problem> {
    let parameters = workload.parameters();
    let subject = format!("axis `{}`", axis.path);
    if !parameters.iter().any(|parameter| parameter.name == key) {
        let near = nearest(key, parameters.iter().map(|parameter| parameter.name));
        let message = format!("{subject}: `{}` has no such parameter", workload.name());
        return Some(Problem::new(axis.span.clone(), message).nearest(near));
    }
    let refused = axis.values.iter().find_map(|value| {
        let mut params = Params::default();
        params.set(key, value.clone());
        let errors = workload.check(&rates::stand_in(workload, &params));
        // Errors that name an expected form are about the value. Others depend on parameters that
        // the axis does not set.
        errors.into_iter().find(|error| error.expected.is_some())
    });
    refused.map(|error| unfit(axis.span.clone(), &subject, error))
}

/// Returns the problems of parameters that conflict at some point of the grid, with the place of
/// the axis or else of the parameter.
fn check_points(plan: &Plan, trials: &[TrialSpec]) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Repeats of a point have the same parameters.
    for trial in trials.iter().filter(|trial| trial.repeat == 0) {
        for spec in &trial.jobs {
            let Some(workload) = workload(&spec.workload) else { continue };
            let addresses = [&spec.from, &spec.to].map(|end| end.address).into_iter().flatten();
            let there = addresses.flat_map(|address| workload.check_to(&spec.params, address));
            for error in workload.check(&spec.params).into_iter().chain(there) {
                let place = place(plan, &trial.sweep, &spec.workload, &error.key);
                let subject = format!("{} of `{}`", error.key, spec.workload);
                problems.push(unfit(place, &subject, error));
            }
        }
    }
    without_repetition(problems)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use linerate_model::{Endpoint, TrialId};

    use super::*;

    fn plan(axis: &str) -> Plan {
        let text = format!(
            "[campaign]\nname = \"x\"\n[[sweep]]\nname = \"x\"\nduration = \"1 \
                s\"\n[[sweep.job]]\nworkload = \"tcp_stream\"\nfrom = \"a\"\n\
             to = \"b\"\n[sweep.axis]\n{axis}\n"
        );
        let (plan, problems) = parse(&text);
        assert!(problems.is_empty(), "{problems:?}");
        plan.expect("it has no problems")
    }

    /// Endpoint `a` here, `b` on a host that was not asked.
    fn towards_a_host() -> Ground {
        let mut ground = testbeds::loopback(false);
        ground.testbed.hosts.push(("far".into(), HostAddress::Tcp("192.0.2.7:4777".into())));
        let far = &mut ground.testbed.endpoints[1];
        (far.host, far.cpus) = ("far".into(), vec![0, 1, 2]);
        ground.kind = TestbedKind::Hosts;
        ground
    }

    #[test]
    fn the_first_repeats_stand_for_all_trials() {
        for preset in PLANS {
            let (found, plan) = read(preset.name, &[]).expect("a plan of the program");
            let endpoints = endpoints(&plan)
                .into_iter()
                .map(|name| Endpoint { cpus: vec![0, 1], ..Endpoint::named(name, "here") });
            let mut ground = testbeds::loopback(false);
            ground.testbed.endpoints = endpoints.collect();
            // Some plans need the capacities of a lab.
            let Ok(all) = trials(&found, &plan, &ground) else { continue };
            let first = first_repeats(&found, &plan, &ground).expect("the same problems");
            let time = all.iter().map(trial_time).sum();
            assert_eq!(extent(&plan, &first), (all.len() as u64, Nanos(time)), "{}", plan.name);
            let known: HashSet<TrialId> = first.iter().map(|trial| trial.id).collect();
            let repeats = all.iter().filter(|trial| trial.repeat == 0 && known.contains(&trial.id));
            assert!(repeats.eq(&first), "{}: others", plan.name);
        }
    }

    #[test]
    fn sweeps_without_their_endpoints_are_left_out_and_the_text_is_the_plan_that_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("plan.toml");
        let sweep = |name: &str, to: &str| {
            format!(
                "[[sweep]]\nname = '{name}'\n[[sweep.job]]\nworkload = 'tcp_stream'\nfrom = \
                    'a'\nto = '{to}'\n"
            )
        };
        let text = format!("[campaign]\nname = 'x'\n{}{}", sweep("one", "b"), sweep("two", "c"));
        std::fs::write(&file, text).expect("written");
        let read = |testbed: &Testbed| {
            read_fitting(file.to_str().expect("UTF-8"), &[], testbed).expect("a plan")
        };
        let mut testbed = testbeds::loopback(false).testbed;
        let (found, plan, lacking) = read(&testbed);
        assert_eq!((lacking, parse(&found.text).0), (vec!["c".to_owned()], Some(plan.clone())));
        assert_eq!(plan.sweeps.iter().map(|sweep| &sweep.name).collect::<Vec<_>>(), ["one"]);
        let note = |settings, testbed: &Testbed| {
            let named = ("s", file.to_str().expect("UTF-8"));
            let read = read_for_hosts(named, Vec::new(), settings, testbed).expect("a plan");
            (read.plan.is_some(), read.note.expect("something is missing"))
        };
        let without = "s: without the sweeps that need the endpoints c".to_owned();
        assert_eq!(note(Some(Vec::new()), &testbed), (true, without));
        let by_lab = "s: left out, it differs from another campaign by its lab only".to_owned();
        assert_eq!(note(None, &testbed), (false, by_lab));
        testbed.endpoints.clear();
        let (_, plan, lacking) = read(&testbed);
        assert_eq!((lacking, plan.sweeps.len()), (["a", "b", "c"].map(Into::into).to_vec(), 0));
        let none = "s: left out, the hosts have no endpoints a, b, c".to_owned();
        assert_eq!(note(Some(Vec::new()), &testbed), (false, none));
    }

    #[test]
    fn cpus_of_a_host_that_was_not_asked_are_said_to_be_assumed() {
        let (of_cpus, of_streams) = (plan("cpus = [1, 2]"), plan("\"params.streams\" = [1, 2]"));
        let ground = towards_a_host();
        let lines = assumed(&of_cpus, &ground);
        assert_eq!(lines.len(), 1, "this host knows its own CPUs: {lines:?}");
        assert!(
            lines[0].starts_with("endpoint `b` has 3 CPUs, as this host has: far was not asked"),
            "{lines:?}"
        );
        assert_eq!(assumed(&of_streams, &ground), [""; 0], "the plan does not depend on them");

        let mut named = towards_a_host();
        named.testbed.endpoints[1].pin = true;
        assert_eq!(assumed(&of_cpus, &named), [""; 0], "its owner lists them");
        let mut lab = towards_a_host();
        lab.kind = TestbedKind::Lab;
        assert_eq!(assumed(&of_cpus, &lab), [""; 0], "hosts of a lab are this one");
        assert_eq!(assumed(&of_cpus, &testbeds::loopback(false)), [""; 0]);
    }
}
