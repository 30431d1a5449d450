//! Probe of a path in both directions: its plan, and the facts that its record shows.

use linerate_analysis::path::{PathFacts, recorded};
use linerate_model::plan::{Draft, DraftJob, DraftSweep};
use linerate_model::{BitRate, Bytes, Nanos};

use crate::stages::Bench;
use crate::{Ended, Exit, Failure};

/// Longest probe of one direction. A probe ends by itself, mostly after 2 to 5 s.
pub const LONGEST: Nanos = Nanos::from_millis(8_000);
/// Time that datagrams in flight have to arrive, and the pause before the other direction: a token
/// bucket of the first direction does not matter to the other.
const DRAIN: Nanos = Nanos::from_millis(200);
const REST: Nanos = Nanos::from_millis(100);
const INTERVAL: Nanos = Nanos::from_millis(100);

/// Limits of a probe, for each direction. `None` stands for the default of `path_probe`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProbeBudget {
    /// Highest rate, in bits of IP packets.
    pub max_rate: Option<BitRate>,
    /// Most bytes of IP packets.
    pub max_bytes: Option<Bytes>,
    /// True if a flood may go on although more than 5 % is lost.
    pub may_lose: bool,
}

/// Returns the sweeps that probe the path between endpoints `from` and `to`, forward and back. The
/// connections are opened by `from` in both, as a firewall may let pass no others.
#[must_use]
pub fn sweeps(from: &str, to: &str, budget: &ProbeBudget) -> Vec<DraftSweep> {
    let forward = (format!("probe {from} to {to}"), "tx");
    let back = (format!("probe {to} to {from}"), "rx");
    let job = |direction: &str| {
        DraftJob::new("path_probe", from, to).with([("direction", direction.into())])
    };
    let sweeps = [forward, back].map(|(name, direction)| sweep(name, job(direction), budget));
    sweeps.into()
}

/// Returns one direction of a probe.
fn sweep(name: String, job: DraftJob, budget: &ProbeBudget) -> DraftSweep {
    let limits = [
        budget.max_rate.map(|rate| ("max_rate", rate.to_string().into())),
        budget.max_bytes.map(|bytes| ("max_bytes", bytes.to_string().into())),
        budget.may_lose.then(|| ("may_lose", true.into())),
    ];
    let job = job.with(limits.into_iter().flatten());
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
    let draft = Draft::new("probe", 1, sweeps(from, to, budget));
    let campaign = bench.run("probe", &draft, &mut |_| Ok(()))?;
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

#[cfg(test)]
mod tests {
    use linerate_model::plan::read;

    use super::*;

    #[test]
    fn the_plan_can_be_read_back_and_its_parameters_are_those_of_the_workload() {
        let budget = ProbeBudget {
            max_rate: Some(BitRate(1.5e9)),
            max_bytes: Some(Bytes(100_000_000)),
            may_lose: true,
        };
        for budget in [ProbeBudget::default(), budget] {
            let draft = Draft::new("probe", 1, sweeps("a", "b", &budget));
            let plan = read(&draft.text()).expect("a plan");
            for job in plan.sweeps.iter().flat_map(|sweep| &sweep.jobs) {
                let workload = linerate_load::workload(&job.workload).expect("known");
                assert_eq!(workload.check(&job.params), [], "{:?}", job.params);
            }
        }
    }
}
