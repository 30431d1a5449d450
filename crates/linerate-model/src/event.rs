//! Events of a campaign, in the order in which they happen.

use serde::{Deserialize, Serialize};

use crate::{
    CampaignHeader, FlowReport, HostRecord, Incident, Interval, Nanos, SampleBlock, Side,
    TrialClocks, TrialId, TrialOutcome, TrialSpec,
};

/// One thing that was observed or done. Observations only: no conclusion is ever an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The campaign begins, or is resumed.
    CampaignStarted(Box<CampaignHeader>),
    /// An agent joined and said what its host is.
    HostJoined(Box<HostRecord>),
    /// The order in which trials will be run: the whole plan, expanded.
    Planned {
        /// Every trial.
        trials: Vec<TrialSpec>,
    },
    /// A search chose its next trial.
    TrialChosen {
        /// It.
        trial: Box<TrialSpec>,
    },
    /// A trial begins.
    TrialStarted {
        /// Which.
        trial: TrialId,
        /// Wall clock, nanoseconds since the Unix epoch.
        at: Nanos,
    },
    /// The start barrier was passed.
    BarrierPassed {
        /// Which trial.
        trial: TrialId,
        /// Difference between the ends' actual starts, ns.
        skew_ns: u64,
        /// Uncertainty of the clock offsets, ns.
        uncertainty_ns: u64,
    },
    /// Clocks were read against the conductor's before, during and after a trial.
    ClocksCompared {
        /// Which trial.
        trial: TrialId,
        /// The readings.
        clocks: TrialClocks,
    },
    /// Workers counted.
    Intervals {
        /// Which trial.
        trial: TrialId,
        /// Which job of it.
        job: u32,
        /// Which end.
        side: Side,
        /// The counts.
        intervals: Vec<Interval>,
    },
    /// One end of a job ended.
    FlowsEnded {
        /// Which trial.
        trial: TrialId,
        /// Which job of it.
        job: u32,
        /// Which end.
        side: Side,
        /// Its flows.
        flows: Vec<FlowReport>,
    },
    /// A host's readings during a trial.
    Samples {
        /// Which trial.
        trial: TrialId,
        /// Which host.
        host: String,
        /// The readings.
        block: SampleBlock,
    },
    /// Something went wrong.
    Incident {
        /// During which trial, if any.
        trial: Option<TrialId>,
        /// The incident.
        incident: Incident,
    },
    /// A trial ended.
    TrialEnded {
        /// Which.
        trial: TrialId,
        /// How.
        outcome: TrialOutcome,
    },
    /// The campaign ended (not written if it is killed).
    CampaignEnded {
        /// Wall clock, nanoseconds since the Unix epoch.
        at: Nanos,
    },
}

impl Event {
    /// Returns the trial that it belongs to.
    #[must_use]
    pub fn trial(&self) -> Option<TrialId> {
        match self {
            Self::CampaignStarted(_)
            | Self::HostJoined(_)
            | Self::Planned { .. }
            | Self::CampaignEnded { .. }
            | Self::Incident { trial: None, .. } => None,
            Self::TrialChosen { trial } => Some(trial.id),
            Self::TrialStarted { trial, .. }
            | Self::BarrierPassed { trial, .. }
            | Self::ClocksCompared { trial, .. }
            | Self::Intervals { trial, .. }
            | Self::FlowsEnded { trial, .. }
            | Self::Samples { trial, .. }
            | Self::Incident { trial: Some(trial), .. }
            | Self::TrialEnded { trial, .. } => Some(*trial),
        }
    }
}

/// An event could not be recorded: operation, object, cause and remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RecorderError(pub String);

/// Whoever takes events.
pub trait Recorder {
    /// Takes one event.
    ///
    /// # Errors
    /// If it could not be kept (a full disk, say); the conductor then stops cleanly.
    fn record(&mut self, event: &Event) -> Result<(), RecorderError>;

    /// Makes everything taken so far durable; called about once a second and at the end of each
    /// trial.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    fn flush(&mut self) -> Result<(), RecorderError> {
        Ok(())
    }

    /// Returns further knowledge of a trial as it ends, from a watcher of the testbed. It is
    /// recorded before the end of the trial.
    fn addenda(&mut self, ended: TrialId) -> Vec<Event> {
        // Most recorders keep what they are given and know nothing more.
        let _ = ended;
        Vec::new()
    }
}
