//! Answer of `linerate plan`: the trials of a plan in words, and their duration.

use std::time::Duration;

use linerate_control::search::{Expected, expected};
use linerate_load::{JobPorts, workload};
use linerate_model::plan::{Plan, Sweep};
use linerate_model::{AGENT_PORT, Goal, JobSpec, Method, Nanos, Ratio, TrialSpec};
use linerate_report::Document;
use linerate_report::document::{Block, Origin, Section};
use linerate_report::grid;
use serde_json::json;

/// A plan expanded on a testbed.
#[derive(Clone, Copy, Debug)]
pub struct Expanded<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The first repeat of each of its trials.
    pub first: &'a [TrialSpec],
    /// Every trial, for the JSON; `None` if nobody reads it.
    pub trials: Option<&'a [TrialSpec]>,
    /// Number of trials.
    pub n_trials: u64,
    /// Expected duration.
    pub duration: Nanos,
    /// Rates that were assumed.
    pub assumed: &'a [String],
    /// Points that the testbed leaves out.
    pub left_out: &'a [String],
}

/// Returns the points of each sweep, and the duration of all trials.
pub fn document(expanded: &Expanded<'_>) -> Document {
    let Expanded { plan, first, trials, n_trials, duration, assumed, left_out } = *expanded;
    let seconds = duration.as_secs_f64();
    let json = trials.map(|trials| {
        json!({
            "name": plan.name, "trials": trials, "expected_seconds": seconds, "assumed": assumed,
        })
    });
    // Points that stop early make both figures an upper bound.
    let most = if plan.until.is_some() { "at most " } else { "" };
    let total = format!("{most}{n_trials} trials, {most}about {}", span(seconds));
    let mut blocks: Vec<Block> =
        plan.sweeps.iter().flat_map(|sweep| sweep_blocks(plan, sweep, first)).collect();
    blocks.extend(ports(first));
    let notes: Vec<String> = left_out
        .iter()
        .map(|line| format!("left out: {line}"))
        .chain(assumed.iter().map(|line| format!("assumed: {line}")))
        .collect();
    if !notes.is_empty() {
        blocks.push(Block::List(notes));
    }
    blocks.push(Block::Paragraph(total));
    let section = Section { id: "answer", title: "Trials", blocks };
    let title = format!("Plan {}", plan.name);
    Document::answer(
        title,
        "before anything is run",
        Origin::Read,
        vec![section],
        json.unwrap_or_default(),
    )
}

/// Returns the ports that a firewall must let through, one line for each workload and its end.
fn ports(trials: &[TrialSpec]) -> Option<Block> {
    let jobs = trials.iter().flat_map(|trial| &trial.jobs);
    let mut lines: Vec<String> = jobs.filter_map(port_line).collect();
    lines.sort_unstable();
    lines.dedup();
    (!lines.is_empty()).then_some(Block::List(lines))
}

/// Returns the ports of `job`; `None` if nothing arrives at its passive end.
fn port_line(job: &JobSpec) -> Option<String> {
    let JobPorts { agent, chosen, free } = workload(&job.workload)?.ports(&job.params)?;
    let kinds = [
        agent.then(|| format!("{AGENT_PORT} (its agent's)")),
        chosen.map(|port| port.to_string()),
        free.then(|| "some that its kernel chooses".to_owned()),
    ];
    let kinds: Vec<String> = kinds.into_iter().flatten().collect();
    let (name, end) = (&job.workload, &job.to.name);
    (!kinds.is_empty()).then(|| format!("ports of {name} at {end}: {}", kinds.join(", and ")))
}

fn sweep_blocks(plan: &Plan, sweep: &Sweep, first: &[TrialSpec]) -> [Block; 2] {
    let mut own: Vec<&TrialSpec> = first.iter().filter(|trial| trial.sweep == sweep.name).collect();
    // By number: trials come in their random run order.
    own.sort_by_key(|trial| trial.id);
    let points =
        own.iter().map(|trial| [vec![coordinate(trial)], search_lines(trial)].concat().join("; "));
    let heading = Block::Paragraph(heading(plan, sweep, own.len()));
    [heading, Block::List(points.collect())]
}

/// Returns the number of points and repeats of `sweep`.
fn heading(plan: &Plan, sweep: &Sweep, n_points: usize) -> String {
    let points = if n_points == 1 { "1 point".to_owned() } else { format!("{n_points} points") };
    let name = &sweep.name;
    // Comparisons and mixes set their own number of runs, so they come before the repeats of the
    // campaign.
    if let Some(compare) = &sweep.compare {
        let [a, b] = &compare.arms;
        let placebo = if compare.placebo.is_some() { ", and a placebo" } else { "" };
        return format!("{name}: {} against {} x {} pairs{placebo}", b.name, a.name, compare.pairs);
    }
    if sweep.together.is_some() {
        let rounds = sweep.repeats(plan.repeats);
        let again = offered(sweep);
        return format!("{name}: every job alone and all together x {rounds} rounds{again}");
    }
    let Some(until) = sweep.repeats_until(plan) else {
        return format!("{name}: {points} x {} repeats", sweep.repeats(plan.repeats));
    };
    let looks = until.looks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "{name}: {points}, each repeated until {} is known to ±{:.1} %: {} to {} runs, looked at \
            after {looks}",
        until.of.as_deref().unwrap_or("its rate"),
        until.within.0 * 100.0,
        until.first(),
        until.most(),
    )
}

/// Returns the shares of its own maximum that each job of a mix is offered in further rounds.
fn offered(sweep: &Sweep) -> String {
    let shares = sweep.together.iter().flat_map(|together| &together.offered);
    let shares: Vec<String> = shares.map(Ratio::to_string).collect();
    match shares.join(", ") {
        none if none.is_empty() => none,
        shares => format!(", repeated at {shares} of the rate that each job reaches alone"),
    }
}

/// Returns the bounds, method and length of the search of `trial`.
fn search_lines(trial: &TrialSpec) -> Vec<String> {
    let Some(searched) = &trial.search else { return Vec::new() };
    let search = &searched.search;
    let Expected { n_trials, loaded } = expected(search);
    let bounds = format!(
        "search of {} from {} to {} ({}), {}",
        search.parameter,
        search.unit.told(search.min),
        search.unit.told(search.max),
        search.max_source,
        method(&search.method)
    );
    let self_test = match (search.self_test, &search.wire) {
        // A length of zero is how a plan turns the self-test off.
        (Nanos(0), _) => "no self-test".to_owned(),
        (span, Some(wire)) => {
            format!("self-test {span} over the wire {} to {}", wire.0.name, wire.1.name)
        }
        (span, None) => {
            format!("self-test {span} over the loopback of {}", trial.jobs[0].from.host)
        }
    };
    let about = format!(
        "about {n_trials} trials, {} of load on a quiet device; at most {} trials and {}; \
            {self_test}",
        span(loaded.as_secs_f64()),
        search.max_trials,
        span(search.max_duration.as_secs_f64())
    );
    vec![bounds, about]
}

fn method(method: &Method) -> String {
    match method {
        Method::Halving { goal: one, .. } => format!("halving: {}", goal_words(one)),
        Method::Mlr { goals } => {
            format!("MLRsearch: {}", goals.iter().map(goal_words).collect::<Vec<_>>().join(", "))
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
                goal_words(one)
            )
        }
        Method::Recovery { goal: one, overload, after, repeats } => {
            format!(
                "recovery: {repeats} overloads of {overload}, {after} after each, after {}",
                goal_words(one)
            )
        }
        Method::Latency { goal: one, trial, shares, repeats } => {
            let loads: Vec<String> = shares.iter().map(|share| Ratio(*share).to_string()).collect();
            format!(
                "latency: {repeats} trials of {trial} at each of {} of the throughput, after {}",
                loads.join(", "),
                goal_words(one)
            )
        }
        Method::Frmol { trial } => format!("forwarding rate at maximum offered load: {trial}"),
        Method::Steps { trial, steps, performance, .. } => {
            format!("Y.1564: {} steps of {trial}, then {performance}", steps.len())
        }
    }
}

fn goal_words(goal: &Goal) -> String {
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
}

/// Returns the loads of a trial in one line, equal ones counted: `udp_rr and 3 x tcp_stream`.
pub fn loads<'w>(workloads: impl IntoIterator<Item = &'w str>) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for workload in workloads {
        match counted.iter_mut().find(|(known, _)| *known == workload) {
            Some((_, n)) => *n += 1,
            None => counted.push((workload, 1)),
        }
    }
    let words = counted.into_iter().map(|(workload, n)| match n {
        1 => workload.to_owned(),
        n => format!("{n} x {workload}"),
    });
    words.collect::<Vec<_>>().join(" and ")
}

/// Returns a trial's coordinate in one line: its axes, or its workloads if it has none.
#[must_use]
pub fn coordinate(trial: &TrialSpec) -> String {
    // A point without axes is named by its load, as it has no coordinate.
    if trial.point.is_empty() {
        return loads(trial.jobs.iter().map(|job| job.workload.as_str()));
    }
    grid::coordinate(&trial.point)
}

/// Returns a span of time for a person, such as `2 min 5 s`.
#[must_use]
pub fn span(seconds: f64) -> String {
    // A negative span would panic.
    let whole = Duration::from_secs_f64(seconds.max(0.0)).as_secs();
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_in_the_units_that_people_use() {
        assert_eq!([5.9, 125.0, 7_260.0, -1.0].map(span), ["5 s", "2 min 5 s", "2 h 1 min", "0 s"]);
    }
}
