//! `linerate plan`: what a plan amounts to, before anything is run.

use clap::Args;
use linerate_campaign::checks::{assumed, duration, name, read, trials};
use linerate_campaign::testbeds;
use linerate_control::search::{Expected, expected};
use linerate_model::plan::{Sweep, left_out};
use linerate_model::{Goal, Method, Nanos, Ratio, TrialSpec};
use serde_json::json;

use crate::args::PlaceArgs;
use crate::exit::{Exit, Outcome};

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// A plan file, or the name of a preset
    pub(crate) plan: String,
    /// Use the preset's short variant: fewer points and repeats
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Change the plan, as for `run`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print the plan's text and nothing else
    #[arg(long)]
    pub(crate) show: bool,
}

/// Prints the trials of a plan and how long they take.
pub(crate) fn run(args: &PlanArgs, as_json: bool) -> Outcome {
    let (found, plan) = read(&name(&args.plan, args.quick)?, &args.set)?;
    if args.show {
        print!("{}", found.text);
        return Ok(Exit::Done);
    }
    let ground = testbeds::outline(&args.place.place())?;
    let trials = trials(&found, &plan, &ground)?;
    let total = duration(&trials);
    let assumed = assumed(&plan, &ground);
    if as_json {
        let seconds = total.as_secs_f64();
        println!(
            "{}",
            json!({ "name": plan.name, "trials": trials, "expected_seconds": seconds, "assumed": assumed })
        );
        return Ok(Exit::Done);
    }
    for sweep in &plan.sweeps {
        let mut own: Vec<&TrialSpec> =
            trials.iter().filter(|t| t.sweep == sweep.name && t.repeat == 0).collect();
        own.sort_by_key(|trial| trial.id);
        let points =
            if own.len() == 1 { "1 point".to_owned() } else { format!("{} points", own.len()) };
        match &sweep.compare {
            None if sweep.together.is_some() => {
                let rounds = sweep.repeats(plan.repeats);
                println!(
                    "{}: every job alone and all together x {rounds} rounds{}",
                    sweep.name,
                    offered(sweep)
                );
            }
            None if let Some(until) = sweep.repeats_until(&plan) => println!(
                "{}: {points}, each repeated until {} is known to ±{:.1} %: {} to {} runs, looked \
                    at after {}",
                sweep.name,
                until.of.as_deref().unwrap_or("its rate"),
                until.within.0 * 100.0,
                until.first(),
                until.most(),
                until.looks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
            ),
            None => println!("{}: {points} x {} repeats", sweep.name, sweep.repeats(plan.repeats)),
            Some(compare) => {
                let [a, b] = &compare.arms;
                let placebo = if compare.placebo.is_some() { ", and a placebo" } else { "" };
                println!(
                    "{}: {} against {} x {} pairs{placebo}",
                    sweep.name, b.name, a.name, compare.pairs
                );
            }
        }
        for trial in own {
            println!("  {}", crate::progress::coordinate(trial));
            told(trial).iter().for_each(|line| println!("{line}"));
        }
    }
    for line in left_out(&plan, &ground.testbed) {
        println!("left out: {line}");
    }
    assumed.iter().for_each(|line| println!("assumed: {line}"));
    let most = if plan.until.is_some() { "at most " } else { "" };
    println!(
        "{most}{} trials, {most}about {}",
        trials.len(),
        crate::progress::span(total.as_secs_f64())
    );
    Ok(Exit::Done)
}

/// What a mix offers, once more, after it went as fast as it goes.
fn offered(sweep: &Sweep) -> String {
    let shares = sweep.together.iter().flat_map(|together| &together.offered);
    let shares: Vec<String> = shares.map(Ratio::to_string).collect();
    match shares.join(", ") {
        none if none.is_empty() => none,
        shares => format!(", and again at {shares} of what each job reaches alone"),
    }
}

/// What the search of `trial` will do, line by line.
fn told(trial: &TrialSpec) -> Vec<String> {
    let Some(searched) = &trial.search else { return Vec::new() };
    let search = &searched.search;
    let Expected { n_trials, loaded } = expected(search);
    let bounds = format!(
        "    search of {} from {} to {} ({}), {}",
        search.parameter,
        search.unit.told(search.min),
        search.unit.told(search.max),
        search.max_source,
        method(&search.method)
    );
    let self_test = match (search.self_test, &search.wire) {
        (Nanos(0), _) => "no self-test".to_owned(),
        (span, Some(wire)) => {
            format!("self-test {span} over the wire {} to {}", wire.0.name, wire.1.name)
        }
        (span, None) => {
            format!("self-test {span} over the loopback of {}", trial.jobs[0].from.host)
        }
    };
    let about = format!(
        "    about {n_trials} trials, {} of load on a quiet device; at most {} trials and {}; \
            {self_test}",
        crate::progress::span(loaded.as_secs_f64()),
        search.max_trials,
        crate::progress::span(search.max_duration.as_secs_f64())
    );
    vec![bounds, about]
}

fn method(method: &Method) -> String {
    let goal = |goal: &Goal| {
        format!(
            "{} (loss at most {}, of {} at most {} above it, trials {} to {}, width {})",
            goal.name,
            Ratio(goal.loss_ratio),
            goal.duration_sum,
            Ratio(goal.exceed_ratio),
            goal.initial_trial,
            goal.final_trial,
            Ratio(goal.width)
        )
    };
    match method {
        Method::Halving { goal: one, .. } => format!("halving: {}", goal(one)),
        Method::Mlr { goals } => {
            format!("MLRsearch: {}", goals.iter().map(goal).collect::<Vec<_>>().join(", "))
        }
        Method::LossCurve { trial, step, fine_step } => {
            format!(
                "loss curve: steps of {}, then of {}, {trial} each",
                Ratio(*step),
                Ratio(*fine_step)
            )
        }
        Method::BackToBack { goal: one, repeats, longest } => {
            format!(
                "back-to-back: {repeats} searches for bursts up to {longest}, after {}",
                goal(one)
            )
        }
        Method::Recovery { goal: one, overload, after, repeats } => {
            format!(
                "recovery: {repeats} overloads of {overload}, {after} after each, after {}",
                goal(one)
            )
        }
        Method::Latency { goal: one, trial, shares, repeats } => {
            let loads: Vec<String> = shares.iter().map(|share| Ratio(*share).to_string()).collect();
            format!(
                "latency: {repeats} trials of {trial} at each of {} of the throughput, after {}",
                loads.join(", "),
                goal(one)
            )
        }
        Method::Frmol { trial } => format!("forwarding rate at maximum offered load: {trial}"),
        Method::Steps { trial, steps, performance, .. } => {
            format!("Y.1564: {} steps of {trial}, then {performance}", steps.len())
        }
    }
}
