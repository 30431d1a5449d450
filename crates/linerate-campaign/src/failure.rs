//! Early ends of ladders.

use linerate_control::ControlError;
use linerate_model::failure::{Exit, Failure, Outcome, Result};

/// Early end of a ladder: an exit of its own, or a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// A stage ended with this exit. Its ledger has the results so far.
    With(Exit),
    /// The stage could not be run.
    Failed(Failure),
}

impl Ended {
    /// Returns the exit of the command: that of a stage is the command's.
    ///
    /// # Errors
    /// If the ladder ended with a failure.
    pub fn outcome(ended: Result<Exit, Self>) -> Outcome {
        match ended {
            Ok(exit) | Err(Self::With(exit)) => Ok(exit),
            Err(Self::Failed(failure)) => Err(failure),
        }
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ControlError> for Ended {
    fn from(error: ControlError) -> Self {
        Self::Failed(error.into())
    }
}
