//! Ceiling of a trial before it runs: from facts and declared capacities alone.

use linerate_model::{
    Campaign, CampaignHeader, Ceiling, Counter, Direction, HostRecord, Interval, Nanos,
    TrialRecord, TrialSpec, metric,
};

use super::samples::Hosts;
use super::span::Span;
use super::{ceilings, point};

/// Returns the lowest hard ceiling on the goodput of the first job of `spec` in `direction`, which
/// the hosts' facts and the capacities in `header` set; `None` if they set none.
#[must_use]
pub fn planned_ceiling(
    header: &CampaignHeader,
    hosts: &[HostRecord],
    spec: &TrialSpec,
    direction: Direction,
) -> Option<Ceiling> {
    let (header, hosts) = (header.clone(), hosts.to_vec());
    let campaign = Campaign { header, hosts, ..Campaign::default() };
    let mut trial = TrialRecord::new(spec.clone());
    if let Some((active, passive)) = trial.jobs.first_mut() {
        // Only a flow that carries data crosses anything. Without further counts it has no windows,
        // which expect a rate and bound none.
        let receiver = if direction == Direction::Rx { active } else { passive };
        let mut something = Interval::default();
        something.counters[Counter::PayloadReceived] = 1;
        receiver.intervals.push(something);
    }
    let nothing = Span { from: Nanos(0), to: Nanos(0) };
    let jobs = (point::jobs_of(&trial), nothing);
    let bounds = ceilings::bounds(&campaign, &Hosts::of(&campaign), &[jobs]);
    let mut ceilings = bounds.into_iter().map(|bound| bound.ceiling);
    ceilings
        .find(|one| one.is_hard() && one.metric == metric::GOODPUT && one.direction == direction)
}
