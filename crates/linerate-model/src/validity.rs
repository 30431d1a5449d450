//! Validity of a figure.

use serde::{Deserialize, Serialize};

/// Validity of a trial or point. A later variant is worse, so the maximum of several is the worst.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Validity {
    /// No reason for doubt.
    #[default]
    Valid,
    /// Something disturbed it; the figure is kept and marked.
    Suspect,
    /// It cannot carry a figure (the tester was the limit, an end was lost).
    Invalid,
    /// It exceeds its ceiling (docs/methodology/layers.md#the-ceiling-gate): the instrument is
    /// wrong, and no figure is printed.
    Impossible,
}

impl Validity {
    /// The word as printed.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
            Self::Impossible => "impossible",
        }
    }
}
