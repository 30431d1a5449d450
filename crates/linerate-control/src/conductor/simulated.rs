//! Campaigns on two simulated hosts, in virtual time. The real conductor decides; a function
//! replaces the load.
//!
//! For tests of code that is built on the conductor: a day of trials with hosts that go away takes
//! milliseconds, and no socket is opened.

use std::collections::HashSet;

use linerate_model::{Campaign, CampaignHeader, JobRecord, Nanos, Side, TrialId, TrialSpec};

use super::RunSummary;
use super::world::{Fault, FaultKind, World};
use crate::{ControlError, Result};

/// Fault of a simulated host: it goes away when it receives the order to start a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The host, 0 or 1.
    pub host: usize,
    /// Number of its trial, from 0.
    pub trial: u32,
    /// Number of attempts to reach it again that fail.
    pub away_for: u32,
}

/// Campaign on two simulated hosts.
pub struct Simulation<'a> {
    /// Its header.
    pub header: CampaignHeader,
    /// Names of the hosts.
    pub hosts: [String; 2],
    /// Returns the record of one end of a job of a trial.
    pub load: Box<dyn FnMut(TrialId, u32, Side) -> JobRecord + 'a>,
    /// Called at the start of each trial; `false` interrupts the campaign.
    pub starting: Box<dyn FnMut(&TrialSpec) -> bool + 'a>,
    /// Host that goes away.
    pub leaving: Option<Leaving>,
    /// Host that refuses the campaign, and the reason.
    pub refuses: Option<(usize, ControlError)>,
}

/// Longer than any campaign of a test.
const NEVER: Nanos = Nanos::from_secs(10_000_000);

/// Runs `trials`. Returns the recorded campaign and its summary.
///
/// # Errors
/// If the campaign could not begin.
pub fn simulate(
    simulation: Simulation<'_>,
    trials: Vec<TrialSpec>,
) -> Result<(Campaign, RunSummary)> {
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
