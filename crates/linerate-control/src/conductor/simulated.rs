//! Campaigns on two simulated hosts, in virtual time: the conductor decides as it always does, and
//! what a load does is a function.
//!
//! For tests of what is built on the conductor: a day of trials with hosts that go away takes
//! milliseconds, and no socket is opened.

use std::collections::HashSet;

use linerate_model::{Campaign, CampaignHeader, JobRecord, Nanos, Side, TrialId, TrialSpec};

use super::RunSummary;
use super::world::{Fault, FaultKind, World};
use crate::ControlError;

/// When a simulated host goes away: at the order to start its so manieth trial, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The host, 0 or 1.
    pub host: usize,
    /// The trial, from 0.
    pub trial: u32,
    /// Attempts to reach it again that fail.
    pub away_for: u32,
}

/// A campaign on two simulated hosts.
pub struct Simulation<'a> {
    /// Its header.
    pub header: CampaignHeader,
    /// Names of the hosts.
    pub hosts: [String; 2],
    /// What comes of one end of a job of a trial.
    pub load: Box<dyn FnMut(TrialId, u32, Side) -> JobRecord + 'a>,
    /// Called as each trial begins; false interrupts the campaign.
    pub starting: Box<dyn FnMut(&TrialSpec) -> bool + 'a>,
    /// A host that goes away.
    pub leaving: Option<Leaving>,
    /// A host that refuses to begin at all, and why.
    pub refuses: Option<(usize, ControlError)>,
}

/// Longer than any campaign of a test.
const NEVER: Nanos = Nanos::from_secs(10_000_000);

/// Runs `trials`: what was recorded, and how it ended.
///
/// # Errors
/// If it could not begin.
pub fn simulate(
    simulation: Simulation<'_>,
    trials: Vec<TrialSpec>,
) -> Result<(Campaign, RunSummary), ControlError> {
    let Simulation { header, hosts, load, starting, leaving, refuses } = simulation;
    let mut campaign = Campaign::new(header.clone());
    let mut world = World::new();
    (world.header, world.hosts) = (header, hosts);
    (world.load, world.starting) = (Some(load), Some(starting));
    if let Some(Leaving { host, trial, away_for }) = leaving {
        world.agents[host].faults.push(Fault { at: "start_at", nth: trial, kind: FaultKind::Die });
        world.agents[host].away_for = away_for;
    }
    if let Some((host, error)) = refuses {
        world.agents[host].at_first = Some(error);
    }
    world.run(trials, &HashSet::new(), NEVER);
    world.events.iter().for_each(|event| campaign.apply(event));
    let summary = world.result.expect("the campaign ends before the end of time")?;
    Ok((campaign, summary))
}
