//! Kinds of operations, each of which has an account of its own: due = answered + lost + open.

use serde::{Deserialize, Serialize};

use crate::{Carried, Counter, Emptiable};

/// Operations that are accounted for and timed apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Requests, connections, files, and operations of disks and files that begin with a read.
    /// Those never started are among them.
    Request,
    /// Operations of disks and files that begin with a write.
    Write,
    /// Flushes of disks and files.
    Flush,
    /// Discards of disks and files.
    Trim,
}

impl OperationKind {
    /// Every kind, in order of its index.
    pub const ALL: [Self; 4] = [Self::Request, Self::Write, Self::Flush, Self::Trim];

    /// The counters of its operations: due, answered, lost, open.
    #[must_use]
    pub const fn counters(self) -> [Counter; 4] {
        use Counter as C;
        match self {
            Self::Request => {
                [C::OperationsDue, C::OperationsAnswered, C::OperationsLost, C::OperationsOpen]
            }
            Self::Write => [C::WritesDue, C::WritesAnswered, C::WritesLost, C::WritesOpen],
            Self::Flush => [C::FlushesDue, C::FlushesAnswered, C::FlushesLost, C::FlushesOpen],
            Self::Trim => [C::TrimsDue, C::TrimsAnswered, C::TrimsLost, C::TrimsOpen],
        }
    }

    /// Returns the prefix of the names of its distributions in the ledger.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Request => "",
            Self::Write => "writes_",
            Self::Flush => "flushes_",
            Self::Trim => "trims_",
        }
    }
}

/// [`Carried`] of every kind but [`OperationKind::Request`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedApart {
    /// Of operations that begin with a write.
    #[serde(default, skip_serializing_if = "Carried::is_empty")]
    pub writes: Carried,
    /// Of flushes.
    #[serde(default, skip_serializing_if = "Carried::is_empty")]
    pub flushes: Carried,
    /// Of discards.
    #[serde(default, skip_serializing_if = "Carried::is_empty")]
    pub trims: Carried,
}

impl Emptiable for CarriedApart {
    const EMPTY: &'static Self =
        &Self { writes: Carried::NOTHING, flushes: Carried::NOTHING, trims: Carried::NOTHING };
}
