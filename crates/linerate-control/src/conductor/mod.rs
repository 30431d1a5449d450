//! The conductor: decides what is measured next, and sees a campaign through.
//!
//! Deciding is [`core`](self): inputs in, outputs out, time an argument, no socket and no thread,
//! so that a day's campaign with dying agents is tested in a millisecond. Doing is the runner: it
//! owns the sockets and the clock and decides nothing.

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
use crate::{Agent, ControlError, KeyStore, Timeouts};

pub use asked::{HostFacts, ask};
pub use tuner::Tuner;

/// How long is waited for what in a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Heartbeats and handshakes.
    pub timeouts: Timeouts,
    /// How long the flows of a trial may take to open.
    pub patience: Duration,
    /// How long a lost agent may stay away.
    pub away: Duration,
    /// Time between readings of the samplers.
    pub sample_period: Duration,
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
        }
    }
}

/// A campaign to be run.
#[derive(Debug)]
pub struct CampaignRun {
    /// Its identity, recorded first.
    pub header: CampaignHeader,
    /// Where its endpoints are.
    pub testbed: Testbed,
    /// Every trial, in the order in which they are run.
    pub trials: Vec<TrialSpec>,
    /// Trials completed by an earlier execution: not run again.
    pub done: HashSet<TrialId>,
    /// What an earlier execution recorded of the trials that searches and looks choose, in the
    /// order of their numbers.
    pub recorded: Vec<TrialRecord>,
    /// The hosts it recorded.
    pub recorded_hosts: Vec<HostRecord>,
    /// In which order searches take turns.
    pub order: Order,
    /// Our keys; without them only this host is reached.
    pub keys: Option<KeyStore>,
    /// The pattern of the agents that serve hosts reached in this process.
    pub agent: Agent,
    /// Set by whoever wants the campaign to stop: the trial under way ends as interrupted, the rest
    /// is kept for later.
    pub stop: Arc<AtomicBool>,
    /// How long is waited for what.
    pub options: RunOptions,
}

/// What happens, for a person who watches.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A host joined.
    HostJoined {
        /// Which.
        host: &'a str,
        /// How well its clock is known, ns.
        clock_uncertainty_ns: u64,
    },
    /// A trial begins.
    TrialStarted {
        /// Which.
        trial: &'a TrialSpec,
        /// The how-manieth of this execution, from 1.
        number: usize,
        /// Trials of this execution.
        of: usize,
        /// Until the campaign's end, as far as can be told.
        eta: Nanos,
    },
    /// Workers counted; about once a second per job and side.
    Intervals {
        /// Which trial.
        trial: &'a TrialSpec,
        /// Which job of it.
        job: u32,
        /// Which end.
        side: Side,
        /// What they counted.
        intervals: &'a [Interval],
    },
    /// A trial ended.
    TrialEnded {
        /// Which.
        trial: &'a TrialSpec,
        /// How.
        outcome: TrialOutcome,
        /// The how-manieth of this execution, from 1.
        number: usize,
        /// Trials of this execution.
        of: usize,
        /// Until the campaign's end, as far as can be told.
        eta: Nanos,
    },
    /// A search has learnt from a trial.
    Searched {
        /// Which trial.
        trial: &'a TrialSpec,
        /// What came of it.
        result: &'a SearchTrial,
        /// What is known now, by goal.
        found: &'a [(String, Bounds)],
    },
    /// A point that is repeated until its figures are known well enough was looked at.
    Looked {
        /// Its latest run.
        trial: &'a TrialSpec,
        /// What was seen.
        look: &'a Look,
        /// What is asked for.
        until: &'a Until,
        /// How many more runs follow before the next look; none: it is not repeated any more.
        more: usize,
    },
    /// A search has ended.
    SearchEnded {
        /// Its plan.
        search: &'a TrialSpec,
        /// Why.
        why: Ended,
    },
    /// Something went wrong.
    Incident {
        /// During which trial, if any.
        trial: Option<TrialId>,
        /// What.
        incident: &'a Incident,
    },
    /// A lost agent is being reached again.
    Reconnecting {
        /// Which host.
        host: &'a str,
        /// The how-manieth attempt, from 1.
        attempt: u32,
    },
}

/// Why a campaign ended.
#[derive(Debug)]
pub enum Exit {
    /// Every trial was tried.
    Completed,
    /// A person asked for it; the rest can be resumed.
    Interrupted,
    /// An agent was lost and did not come back; the rest can be resumed.
    AgentLost(ControlError),
    /// Events could no longer be recorded.
    RecorderFailed(ControlError),
}

/// What became of a campaign.
#[derive(Debug)]
pub struct RunSummary {
    /// Trials that completed every phase.
    pub completed: usize,
    /// Trials that were tried and failed.
    pub failed: usize,
    /// Trials cut off by the end of the campaign.
    pub interrupted: usize,
    /// Trials not tried.
    pub remaining: usize,
    /// Why it ended.
    pub exit: Exit,
}

/// Runs a campaign to its end, recording everything that is observed.
///
/// Nothing is recorded before every host has joined. A trial that fails is recorded as such and the
/// campaign goes on.
///
/// # Errors
/// If a host cannot be reached, refuses, or speaks another version at the start: nothing was run
/// then. What goes wrong later is in [`RunSummary::exit`].
pub fn run(
    campaign: CampaignRun,
    recorder: &mut dyn Recorder,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RunSummary, ControlError> {
    runner::run(campaign, recorder, progress)
}
