//! Resolution of a plan's searches: shares of a path's ceiling become rates, and names of endpoints
//! become the ends of a wire.

use linerate_load::workload;
use linerate_model::plan::{LoadLimit, Plan, SearchPlan};
use linerate_model::{
    JobSpec, LoadUnit, Nanos, Problem, Search, Searched, Testbed, TrialSpec, nearest,
};

use crate::rates::ceiling;
use crate::testbeds::Ground;

/// Adds the search to every trial of `trials` that begins one.
pub(crate) fn attach(
    plan: &Plan,
    ground: &Ground,
    trials: &mut [TrialSpec],
) -> Result<(), Vec<Problem>> {
    let mut problems: Vec<Problem> = Vec::new();
    for trial in trials {
        let sweep = plan.sweeps.iter().find(|sweep| sweep.name == trial.sweep);
        let Some(planned) = sweep.and_then(|sweep| sweep.search.as_ref()) else { continue };
        match resolved(planned, ground, trial) {
            Ok(search) => trial.search = Some(Box::new(Searched { search, step: None, number: 0 })),
            // Every repeat of a sweep would report the same problem.
            Err(problem) if problems.contains(&problem) => {}
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn resolved(planned: &SearchPlan, ground: &Ground, trial: &TrialSpec) -> Result<Search, Problem> {
    let measured: Vec<&JobSpec> =
        trial.jobs.iter().filter(|job| job.background.is_none()).collect();
    for job in &measured {
        check_parameter(planned, job)?;
    }
    // The unit of the highest load decides for the whole search.
    let (max, unit, max_source) = match planned.max {
        LoadLimit::Load(load, unit) => (load, unit, "the plan".to_owned()),
        LoadLimit::Share(share) => {
            let (ceiling, of) = ceiling(&ground.capacities, &measured).ok_or_else(|| {
                let message =
                    format!("`max` is {:.0} % of a ceiling that is not known", share * 100.0);
                Problem::new(Some(planned.spans.1.clone()), message).expected(
                    "a rate such as \"10 kpps\" or \"100 Mbit/s\", or a lab or testbed that says \
                        what its links carry",
                )
            })?;
            (share * ceiling, LoadUnit::Frames, format!("{:.0} % of {of}", share * 100.0))
        }
    };
    let min = match planned.min {
        LoadLimit::Share(share) => share * max,
        LoadLimit::Load(load, of) if of == unit => load,
        LoadLimit::Load(..) => {
            let expected = format!("a rate in the unit of the highest load, {}", unit.told(max));
            return Err(Problem::new(planned.span.clone(), "`min` and `max` have different units")
                .expected(expected));
        }
    };
    // A share of a low ceiling can fall below a minimum given as a rate.
    if min >= max {
        let message = format!(
            "the lowest load {} is not below the highest, {}",
            unit.told(min),
            unit.told(max)
        );
        return Err(Problem::new(planned.span.clone(), message).expected("a lower `min`"));
    }
    let wire = planned
        .wire
        .as_ref()
        .map(|(from, to)| wire(&ground.testbed, planned, from, to))
        .transpose()?;
    // Where no wire can replace the device, the self-test runs on the tester's loopback. A workload
    // that cannot run there has no self-test.
    let tested = wire.is_some()
        || measured.iter().all(|job| workload(&job.workload).is_some_and(|w| w.runs_on_loopback()));
    Ok(Search {
        parameter: planned.parameter.clone(),
        unit,
        min,
        max,
        max_source,
        method: planned.method.clone(),
        warmup: planned.warmup,
        self_test: if tested { planned.self_test } else { Nanos(0) },
        wire: wire.map(Box::new),
        max_trials: planned.max_trials,
        max_duration: planned.max_duration,
    })
}

/// Checks that the load is a parameter of every measured job.
fn check_parameter(planned: &SearchPlan, job: &JobSpec) -> Result<(), Problem> {
    let Some(workload) = workload(&job.workload) else { return Ok(()) };
    let parameters = workload.parameters();
    if parameters.iter().any(|parameter| parameter.name == planned.parameter) {
        return Ok(());
    }
    let near = nearest(&planned.parameter, parameters.iter().map(|parameter| parameter.name));
    let message =
        format!("`{}` has no parameter `{}` to be searched", job.workload, planned.parameter);
    Err(Problem::new(Some(planned.spans.0.clone()), message)
        .expected("a rate of its open load")
        .nearest(near))
}

fn wire(
    testbed: &Testbed,
    planned: &SearchPlan,
    from: &str,
    to: &str,
) -> Result<(linerate_model::Endpoint, linerate_model::Endpoint), Problem> {
    Ok((endpoint_of(testbed, planned, from)?, endpoint_of(testbed, planned, to)?))
}

fn endpoint_of(
    testbed: &Testbed,
    planned: &SearchPlan,
    name: &str,
) -> Result<linerate_model::Endpoint, Problem> {
    testbed.endpoint(name).cloned().ok_or_else(|| {
        let known: Vec<&str> =
            testbed.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        let message = format!("`wire`: the testbed has no endpoint `{name}`");
        let problem = Problem::new(planned.span.clone(), message)
            .expected(format!("one of {}", known.join(", ")));
        problem.nearest(nearest(name, known.iter().copied()))
    })
}
