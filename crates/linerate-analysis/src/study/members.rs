//! Port channels: number of member links that carried the flows of a trial, and how evenly
//! (docs/methodology/ceilings.md#groups-of-links).
//!
//! - `links_used`: member links, of all channels that a direction's flows cross, that passed more
//!   than a tenth of the mean bytes of a flow: address resolution and handshakes are no flow
//! - `links_available`: member links of those channels
//! - `link_balance`: mean over largest of the bytes the members passed
//!
//! Members are counted where they send: bytes of their queueing discipline (sampler `qdisc`) or
//! interface (`interface`), by the names in the capacity. They count all traffic that crosses them,
//! so these figures belong to the only measured job, or to `all`.

use linerate_model::{
    Campaign, Capacity, Direction, Endpoint, SeriesSpec, TrialRecord, metric, series,
};

use super::figures::Figures;
use super::samples::Samples;
use super::span::Span;
use super::traffic::Job;

/// Share of the mean flow that a link must have carried to count as used.
const LEAST_SHARE: f64 = 0.1;

/// Returns the figures of the channels that the flows of `jobs` cross.
pub(super) fn figures(
    campaign: &Campaign,
    trial: &TrialRecord,
    jobs: &[Job<'_>],
    span: Span,
) -> Figures {
    let mut figures = Figures::default();
    for direction in [Direction::Tx, Direction::Rx] {
        let channels =
            campaign.header.capacities.iter().filter(|capacity| !capacity.members.is_empty());
        let mut members = Vec::new();
        let mut used = Some(0);
        for channel in channels {
            // A channel that no flow crosses has idle members, which says nothing about its hash.
            let Some((sender, n_flows)) = crossing(channel, jobs, direction) else { continue };
            let passed = passed(channel, &Samples::of(trial, &sender.host), span);
            // One unread member makes the number of used links unknown.
            used = used.zip(passed.as_ref()).map(|(used, passed)| used + n_used(passed, n_flows));
            members.extend(passed.unwrap_or_default());
        }
        let Some(used) = used.filter(|used| *used > 0) else { continue };
        figures.put(metric::LINKS_USED, direction, f64::from(used));
        figures.put(metric::LINKS_AVAILABLE, direction, members.len() as f64);
        let largest = members.iter().copied().fold(0.0, f64::max);
        figures.put(
            metric::LINK_BALANCE,
            direction,
            members.iter().sum::<f64>() / members.len() as f64 / largest,
        );
    }
    figures
}

/// Returns the sender across `channel` in `direction`, and the number of flows; `None` without
/// flows.
fn crossing<'a>(
    channel: &Capacity,
    jobs: &[Job<'a>],
    direction: Direction,
) -> Option<(&'a Endpoint, usize)> {
    let mut found = None;
    for job in jobs {
        let Some(flow) = job.flow(direction) else { continue };
        let (sender, receiver) = match direction {
            Direction::Rx => (&job.spec.to, &job.spec.from),
            _ => (&job.spec.from, &job.spec.to),
        };
        if channel.pairs.iter().any(|(from, to)| *from == sender.name && *to == receiver.name) {
            let before = found.map_or(0, |(_, n_flows): (_, usize)| n_flows);
            // Several jobs may cross one channel; its members count all of them.
            found = Some((sender, before.saturating_add(flow.n_flows())));
        }
    }
    found
}

/// Returns the bytes a second that each member passed; `None` if one was not read.
fn passed(channel: &Capacity, samples: &Samples<'_>, span: Span) -> Option<Vec<f64>> {
    let is_bytes =
        |read: &SeriesSpec| series::any(&[series::qdisc::BYTES, series::interface::TX_BYTES], read);
    let of =
        |member: &String| samples.rate(span, |read| read.instance == *member && is_bytes(read));
    channel.members.iter().map(of).collect()
}

fn n_used(passed: &[f64], n_flows: usize) -> u32 {
    // The unknown number of a foreign end is the largest one, so that any traffic makes a link
    // used.
    let mean_flow = passed.iter().sum::<f64>() / n_flows as f64;
    passed.iter().filter(|bytes| **bytes > LEAST_SHARE * mean_flow).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_with_less_than_a_tenth_of_a_flow_carries_none() {
        assert_eq!(n_used(&[12e6, 0.0, 500.0, 11e6], 2), 2);
        // Eight flows share one link, one has the other for itself.
        assert_eq!(n_used(&[12e6, 12e6, 0.0], 9), 2);
        assert_eq!(n_used(&[12e6, 1e6], 12), 2);
        assert_eq!(n_used(&[0.0, 0.0], 1), 0);
    }
}
