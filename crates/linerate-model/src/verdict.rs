//! Status of a claim.

use serde::{Deserialize, Serialize};

/// Status of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// An experiment moved the figure as predicted, and the control run did not.
    Proven,
    /// The evidence fits; no experiment has proven it.
    Suspected,
    /// The evidence does not decide.
    Inconclusive,
}

impl Verdict {
    /// Returns the status word that reports use (docs/glossary.md defines it).
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Suspected => "suspected",
            Self::Inconclusive => "inconclusive",
        }
    }
}
