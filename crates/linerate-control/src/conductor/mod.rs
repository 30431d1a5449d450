//! Conductor: chooses the next measurement, and executes a campaign to its end.
//!
//! The module `core` decides: inputs in, outputs out, time is an argument, no socket and no thread.
//! So a campaign of a day with dying agents is tested in a millisecond. The runner owns the sockets
//! and the clock, and decides nothing.

mod asked;
mod core;
mod host;
mod reported;
mod runner;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;
mod tuner;
#[cfg(any(test, feature = "simulated"))]
mod world;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linerate_analysis::search::Bounds;
use linerate_analysis::{Look, SearchTrial};
use linerate_model::plan::Order;
use linerate_model::{
    CampaignHeader, HostRecord, Incident, Interval, Nanos, Recorder, Side, Testbed, TrialId,
    TrialOutcome, TrialRecord, TrialSpec, Until,
};

use crate::search::Ended;
use crate::{Agent, ControlError, KeyStore, Result, Timeouts};

pub use asked::{HostFacts, ask};
pub use tuner::Tuner;

/// Time limits of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Limits for heartbeats and handshakes.
    pub timeouts: Timeouts,
    /// Longest time for opening the flows of a trial.
    pub patience: Duration,
    /// Longest absence of a lost agent.
    pub away: Duration,
    /// Interval between readings of the samplers.
    pub sample_period: Duration,
    /// True if another campaign with the same agents follows, so that they keep their places free
    /// for it.
    pub returns: bool,
    /// True if no agent may serve another campaign beside this one, although it may use little of
    /// its host: it changes settings there.
    pub alone: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            timeouts: Timeouts::default(),
            // Thousands of connections at a SYN's retransmission each (RFC 6298 clause 2) still
            // fit.
            patience: Duration::from_secs(10),
            // A host that reboots quickly, or an agent that is restarted by hand.
            away: Duration::from_secs(60),
            // docs/methodology/diagnosis.md#evidence: evidence every 100 ms.
            sample_period: Duration::from_millis(100),
            returns: false,
            alone: false,
        }
    }
}

/// Input of [`run()`]: a campaign with everything that is known of it.
#[derive(Debug)]
pub struct CampaignRun {
    /// Identity of the campaign, recorded first.
    pub header: CampaignHeader,
    /// Hosts and endpoints.
    pub testbed: Testbed,
    /// Every trial, in the order in which they are run.
    pub trials: Vec<TrialSpec>,
    /// Trials completed by an earlier execution: not run again.
    pub done: HashSet<TrialId>,
    /// Trials of searches and repeated points that an earlier execution recorded, in the order of
    /// their numbers.
    pub recorded: Vec<TrialRecord>,
    /// Hosts that the earlier execution recorded.
    pub recorded_hosts: Vec<HostRecord>,
    /// Order in which searches take turns.
    pub order: Order,
    /// Keys of this host. Without them only this host can be reached.
    pub keys: Option<KeyStore>,
    /// Template of the agents for hosts in this process.
    pub agent: Agent,
    /// Request to stop, set by the caller. The present trial ends as interrupted, and the remaining
    /// ones can be resumed.
    pub stop: Arc<AtomicBool>,
    /// Request to begin no further trial, set and withdrawn by the caller.
    pub pause: Arc<AtomicBool>,
    /// Time limits.
    pub options: RunOptions,
}

/// Progress of a campaign, for a person who watches.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A host joined.
    HostJoined {
        /// Its name, facts and clock.
        record: &'a HostRecord,
    },
    /// A trial begins.
    TrialStarted {
        /// The trial.
        trial: &'a TrialSpec,
        /// Its number in this execution, from 1.
        number: usize,
        /// Number of trials in this execution.
        of: usize,
        /// Estimated time until the campaign's end.
        eta: Nanos,
    },
    /// Counts of workers arrived; about ten times a second per job and side.
    Intervals {
        /// The trial.
        trial: &'a TrialSpec,
        /// Number of the job in it.
        job: u32,
        /// End of the job.
        side: Side,
        /// Counts of its workers.
        intervals: &'a [Interval],
    },
    /// A trial ended.
    TrialEnded {
        /// The trial.
        trial: &'a TrialSpec,
        /// Its outcome.
        outcome: TrialOutcome,
        /// Its number in this execution, from 1.
        number: usize,
        /// Number of trials in this execution.
        of: usize,
        /// Estimated time until the campaign's end.
        eta: Nanos,
    },
    /// A search has evaluated a trial.
    Searched {
        /// The trial.
        trial: &'a TrialSpec,
        /// Its result.
        result: &'a SearchTrial,
        /// Present bounds, by goal.
        found: &'a [(String, Bounds)],
    },
    /// A point that is repeated until its figures are precise was evaluated.
    Looked {
        /// Its latest run.
        trial: &'a TrialSpec,
        /// The evaluation.
        look: &'a Look,
        /// The required precision.
        until: &'a Until,
        /// Further runs before the next evaluation; 0 if the point is complete.
        more: usize,
    },
    /// A search has ended.
    SearchEnded {
        /// Its plan.
        search: &'a TrialSpec,
        /// Reason of the end.
        why: Ended,
    },
    /// Something went wrong.
    Incident {
        /// The present trial, if any.
        trial: Option<TrialId>,
        /// Its description.
        incident: &'a Incident,
    },
    /// The agents' port is not open here, so data that arrives here has ports of its own.
    OwnPorts {
        /// True if connections arrive at the agents' port, and only datagrams do not.
        datagrams: bool,
        /// The cause.
        error: &'a dyn std::error::Error,
    },
    /// A lost agent is being reached again.
    Reconnecting {
        /// Its host.
        host: &'a str,
        /// Number of the attempt, from 1.
        attempt: u32,
    },
}

/// Reason why a campaign ended.
#[derive(Debug)]
pub enum Exit {
    /// Every trial was tried.
    Completed,
    /// A person stopped it. The remaining trials can be resumed.
    Interrupted,
    /// An agent was lost and did not come back. The remaining trials can be resumed.
    AgentLost(ControlError),
    /// Events could no longer be recorded.
    RecorderFailed(ControlError),
}

/// Result of a campaign.
#[derive(Debug)]
pub struct RunSummary {
    /// Number of trials that completed every phase.
    pub completed: usize,
    /// Number of trials that failed.
    pub failed: usize,
    /// Number of trials that the campaign's end interrupted.
    pub interrupted: usize,
    /// Number of trials that were not started.
    pub remaining: usize,
    /// Reason of the end.
    pub exit: Exit,
}

/// Runs a campaign to its end and records everything that is observed.
///
/// Nothing is recorded before every host has joined. A trial that fails is recorded as failed, and
/// the campaign goes on.
///
/// # Errors
/// If a host cannot be reached, refuses, or has another protocol version at the start: then nothing
/// was run. Later errors are in [`RunSummary::exit`].
pub fn run(
    campaign: CampaignRun,
    recorder: &mut dyn Recorder,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RunSummary> {
    runner::run(campaign, recorder, progress)
}
