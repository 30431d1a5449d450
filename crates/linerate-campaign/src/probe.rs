//! Probe of a path in both directions: its plan, and the facts that its record shows.

use std::fmt;

use linerate_analysis::path::{PathFacts, recorded};
use linerate_load::workloads::{FLOOD_LOSS, FLOOD_LOSS_TIME, PROBE_BYTES, PROBE_RATE};
use linerate_model::plan::{Draft, DraftJob, DraftSweep};
use linerate_model::{BitRate, Bytes, Nanos, Ratio};
use serde_json::Value;

use crate::drafts::{Given, PATH_PROBE, given_value};
use crate::stages::Bench;
use crate::{Ended, Exit, Failure};

/// Longest probe of one direction. A probe ends by itself, mostly after 2 to 5 s.
pub const LONGEST: Nanos = Nanos::from_millis(8_000);
/// Time that datagrams in flight have to arrive, and the pause before the other direction: a token
/// bucket of the first direction does not matter to the other.
const DRAIN: Nanos = Nanos::from_millis(200);
const REST: Nanos = Nanos::from_millis(100);
const INTERVAL: Nanos = Nanos::from_millis(100);

/// Limits of a probe, for each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeBudget {
    /// Highest rate, in bits of IP packets.
    pub max_rate: BitRate,
    /// Most bytes of IP packets.
    pub max_bytes: Bytes,
    /// True if a flood may go on although more than [`FLOOD_LOSS`] is lost.
    pub may_lose: bool,
}

impl Default for ProbeBudget {
    /// The defaults of `path_probe`.
    fn default() -> Self {
        Self { max_rate: PROBE_RATE, max_bytes: PROBE_BYTES, may_lose: false }
    }
}

impl ProbeBudget {
    /// Returns the budget of these options ([`crate::drafts::OF_PROBE`]).
    #[must_use]
    pub fn of(given: Given<'_>) -> Self {
        let text = |option| given_value(given, option).and_then(Value::as_str);
        let default = Self::default();
        Self {
            max_rate: text("max-rate").and_then(|t| t.parse().ok()).unwrap_or(default.max_rate),
            max_bytes: text("max-bytes").and_then(|t| t.parse().ok()).unwrap_or(default.max_bytes),
            may_lose: given_value(given, "may-lose").and_then(Value::as_bool).unwrap_or_default(),
        }
    }
}

impl fmt::Display for ProbeBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} and {} in each direction", self.max_rate, self.max_bytes)?;
        if !self.may_lose {
            write!(f, ", less if {} is lost for {FLOOD_LOSS_TIME}", Ratio(FLOOD_LOSS))?;
        }
        write!(f, "; about 10 s")
    }
}

/// Returns the sweeps that probe the path between endpoints `from` and `to`, forward and back. The
/// connections are opened by `from` in both, as a firewall may let pass no others.
#[must_use]
pub fn sweeps(from: &str, to: &str, budget: &ProbeBudget) -> Vec<DraftSweep> {
    let forward = (format!("probe {from} to {to}"), "tx");
    let back = (format!("probe {to} to {from}"), "rx");
    let job = |direction: &str| {
        DraftJob::new(PATH_PROBE, from, to).with([("direction", direction.into())])
    };
    let sweeps = [forward, back].map(|(name, direction)| sweep(name, job(direction), budget));
    sweeps.into()
}

/// Returns one direction of a probe.
fn sweep(name: String, job: DraftJob, budget: &ProbeBudget) -> DraftSweep {
    let limits = [
        ("max_rate", budget.max_rate.to_string().into()),
        ("max_bytes", budget.max_bytes.to_string().into()),
        ("may_lose", budget.may_lose.into()),
    ];
    let job = job.with(limits);
    DraftSweep {
        drain: Some(DRAIN),
        rest: Some(REST),
        interval: Some(INTERVAL),
        ..DraftSweep::one(name, LONGEST, Nanos(0), job)
    }
}

/// Probes the path between `from` and `to`, and returns the facts of both directions, that from
/// `from` first.
///
/// # Errors
/// If the campaign was interrupted or could not be run, or neither direction was recorded.
pub fn probe(
    bench: &dyn Bench,
    from: &str,
    to: &str,
    budget: &ProbeBudget,
) -> Result<Vec<PathFacts>, Ended> {
    stage(bench, "probe", (from, to), budget)
}

/// Probes the path between `from` and `to` as the stage `name`.
fn stage(
    bench: &dyn Bench,
    name: &str,
    (from, to): (&str, &str),
    budget: &ProbeBudget,
) -> Result<Vec<PathFacts>, Ended> {
    let draft = Draft::new(name, 1, sweeps(from, to, budget));
    let campaign = bench.run(name, &draft, &mut |_| Ok(()))?;
    let mut facts = recorded(&campaign);
    // Trials run in an order drawn at random.
    facts.sort_by_key(|facts| facts.from != from);
    if facts.is_empty() {
        let incidents = campaign.trials.iter().flat_map(|trial| &trial.incidents);
        let why = incidents.map(|incident| incident.message.as_str()).next();
        let why = why.unwrap_or("no datagram was recorded");
        let message = format!("probe {from} to {to}: the path could not be probed: {why}");
        return Err(Failure::new(Exit::Invalid, message).into());
    }
    Ok(facts)
}

/// Probes the path as the first phase of a diagnosis, which goes on without facts if the probe
/// cannot be run; `missing` receives the reason. A probe that its own hosts held up is repeated
/// once.
///
/// # Errors
/// If a person interrupted it.
pub fn first_phase(
    bench: &dyn Bench,
    ends: (&str, &str),
    missing: &mut Option<String>,
) -> Result<Vec<PathFacts>, Ended> {
    let found = attempt(bench, "probe", ends, missing)?;
    if !found.iter().any(is_held_up) {
        return Ok(found);
    }
    // A second probe without a figure leaves those of the first.
    let again = attempt(bench, "probe-again", ends, &mut None)?;
    Ok(undisturbed(found, again))
}

/// Returns true if the sender and not the path limited a probe: other programs had its CPU, and
/// limits of the path above its rate were not seen.
fn is_held_up(facts: &PathFacts) -> bool {
    facts.limiter.is_none() && facts.sender_limit.is_some()
}

/// Returns the facts of `first`, and those of `again` of each direction in which the sender was
/// held up the first time and reached more the second time.
fn undisturbed(mut first: Vec<PathFacts>, again: Vec<PathFacts>) -> Vec<PathFacts> {
    for second in again {
        let same = |one: &&mut PathFacts| (&one.from, &one.to) == (&second.from, &second.to);
        let Some(known) = first.iter_mut().find(same).filter(|one| is_held_up(one)) else {
            continue;
        };
        if !is_held_up(&second) || second.carried.map(|r| r.0) > known.carried.map(|r| r.0) {
            *known = second;
        }
    }
    first
}

/// Probes the path as the stage `name`; `missing` receives the reason of a probe without facts.
fn attempt(
    bench: &dyn Bench,
    name: &str,
    ends: (&str, &str),
    missing: &mut Option<String>,
) -> Result<Vec<PathFacts>, Ended> {
    match stage(bench, name, ends, &ProbeBudget::default()) {
        Err(Ended::With(Exit::Interrupted)) => Err(Ended::With(Exit::Interrupted)),
        Err(Ended::With(_)) => {
            *missing = Some("the probe of the path gave no valid figure".to_owned());
            Ok(Vec::new())
        }
        Err(Ended::Failed(failure)) => {
            *missing = Some(failure.message());
            Ok(Vec::new())
        }
        Ok(found) => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use linerate_analysis::path::Limiter;
    use linerate_model::plan::read;

    use super::*;
    use crate::drafts::{OF_PROBE, Setting};

    #[test]
    fn the_budget_of_no_options_is_the_default_and_is_printed() {
        let given = OF_PROBE.iter().zip(["1.5 Gbit/s".into(), "80 MB".into(), true.into()]);
        let given: Vec<(&'static Setting, Value)> = given.collect();
        let chosen =
            ProbeBudget { max_rate: BitRate(1.5e9), max_bytes: Bytes(80_000_000), may_lose: true };
        assert_eq!(ProbeBudget::of(&given), chosen);
        assert_eq!(
            chosen.to_string(),
            "at most 1.5 Gbit/s and 80 MB in each direction; about 10 s"
        );
        assert_eq!(
            ProbeBudget::of(&[]).to_string(),
            "at most 200 Mbit/s and 32 MB in each direction, less if 5 % is lost for 200 ms; about \
                10 s"
        );
    }

    #[test]
    fn a_probe_that_its_sender_limited_is_replaced_by_a_better_one() {
        let facts = |from: &str, limiter, sender_limit: Option<f64>, carried| PathFacts {
            from: from.into(),
            to: if from == "a" { "b" } else { "a" }.into(),
            limiter,
            sender_limit: sender_limit.map(BitRate),
            carried: Some(BitRate(carried)),
            ..PathFacts::default()
        };
        // Recorded behind a policer of 17.9 Mbit/s: the sender reached 23 of 200 Mbit/s.
        let held_up = || facts("a", None, Some(23.4e6), 20.0e6);
        let policed = facts("a", Some(Limiter::Policer), None, 17.9e6);
        let free = |carried| facts("b", None, None, carried);
        assert!(is_held_up(&held_up()) && !is_held_up(&policed) && !is_held_up(&free(190e6)));
        let found = undisturbed(vec![held_up(), free(190e6)], vec![policed.clone(), free(20e6)]);
        assert_eq!(found, [policed, free(190e6)]);
        let slower = facts("a", None, Some(9e6), 8e6);
        assert_eq!(undisturbed(vec![held_up()], vec![slower]), [held_up()]);
        assert_eq!(undisturbed(vec![held_up()], Vec::new()), [held_up()]);
    }

    #[test]
    fn the_plan_can_be_read_back_and_its_parameters_are_those_of_the_workload() {
        let budget =
            ProbeBudget { max_rate: BitRate(1.5e9), max_bytes: Bytes(100_000_000), may_lose: true };
        for budget in [ProbeBudget::default(), budget] {
            let draft = Draft::new("probe", 1, sweeps("a", "b", &budget));
            let plan = read(&draft.text()).expect("a plan");
            for (sweep, direction) in plan.sweeps.iter().zip(["tx", "rx"]) {
                let params = &sweep.jobs[0].params;
                assert_eq!(*params.get("direction").expect("set"), direction);
                assert_eq!(*params.get("max_bytes").expect("set"), budget.max_bytes.to_string());
                assert_eq!(*params.get("may_lose").expect("set"), budget.may_lose);
            }
            for job in plan.sweeps.iter().flat_map(|sweep| &sweep.jobs) {
                let workload = linerate_load::workload(&job.workload).expect("known");
                assert_eq!(workload.check(&job.params), [], "{:?}", job.params);
            }
        }
    }
}
