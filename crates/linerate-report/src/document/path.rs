//! Picture of a path, stage by stage.

use linerate_analysis::{PathEnd, StageKind};

use super::Table;

/// Picture of the path from application to application.
#[derive(Clone, Debug, PartialEq)]
pub struct PathPicture {
    /// Title.
    pub title: String,
    /// Description for readers who cannot see it.
    pub summary: String,
    /// True if it has one end only: a load on a disk.
    pub alone: bool,
    /// Stages in the order of the data.
    pub stages: Vec<PathStage>,
    /// The same as a table.
    pub table: Table,
}

/// Stage of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStage {
    /// End of the path.
    pub end: PathEnd,
    /// Kind of the stage.
    pub place: StageKind,
    /// Name and host.
    pub name: String,
    /// Observations; of two arms one for each arm that passes it, the base first.
    pub seen: Vec<StageSeen>,
}

/// Observations at a stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageSeen {
    /// Arm, where there are two.
    pub arm: Option<String>,
    /// Observed rate.
    pub rate: Option<String>,
    /// Further observations; the first one names the rate.
    pub details: Vec<String>,
    /// Ceiling in words, and the share reached, where both count the same thing.
    pub ceiling: Option<(String, Option<f64>)>,
    /// Packets lost, where a counter exists.
    pub lost: Option<String>,
    /// True if packets were lost.
    pub loses: bool,
    /// Flag of the limit.
    pub limit: Option<String>,
}

impl StageSeen {
    /// Returns true if there is no observation.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        // A stage that counted no loss was observed all the same.
        self.rate.is_none() && self.details.is_empty() && self.lost.is_none()
    }
}
