//! Stages of a path: position, readings and ceiling of each.

use linerate_model::{BoundClass, BoundPart, Layer, Unit};
use serde::{Deserialize, Serialize};

use super::Reading;

/// Section of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathEnd {
    /// At the end that sends, or reads and writes.
    Sender,
    /// Between the ends.
    Between,
    /// At the end that receives.
    Receiver,
}

/// Kinds of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StageKind {
    /// The program that sends, receives, reads or writes.
    Application,
    /// The page cache.
    Cache,
    /// A disk or a file on one.
    Disk,
    /// The socket and the kernel's protocols above the device.
    Socket,
    /// The queueing discipline of the device.
    Queue,
    /// The network interface.
    Interface,
    /// The bus between memory and device.
    Bus,
    /// A link, switch or device between the ends.
    Wire,
}

/// One stage of the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Section of the path.
    pub end: PathEnd,
    /// Its kind.
    pub place: StageKind,
    /// Its host; empty between the ends.
    pub host: String,
    /// Its name: a workload, a protocol, a device, a capacity.
    pub name: String,
    /// Readings there, a rate first; empty for a stage that is not observed.
    pub readings: Vec<Reading>,
    /// Its ceiling, if known.
    pub ceiling: Option<StageCeiling>,
    /// Packets lost there, as counters locate them, all trials added; of a search those of the
    /// loads above the one found.
    pub lost: Option<u64>,
    /// True if this stage limits.
    pub limits: bool,
    /// The part that capacities refer to; `None` for stages without a capacity.
    #[serde(skip)]
    pub(super) part: Option<BoundPart>,
}

/// Ceiling of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageCeiling {
    /// Name of the capacity that sets it.
    pub name: String,
    /// In the base unit.
    pub value: f64,
    /// Unit.
    pub unit: Unit,
    /// Layer.
    pub layer: Option<Layer>,
    /// True if nothing can exceed it; false for a value expected from readings.
    pub hard: bool,
}

impl Stage {
    pub(super) fn new(end: PathEnd, place: StageKind, host: &str, name: impl Into<String>) -> Self {
        let (readings, ceiling, lost, part) = (Vec::new(), None, None, None);
        Self {
            end,
            place,
            host: host.to_owned(),
            name: name.into(),
            readings,
            ceiling,
            lost,
            limits: false,
            part,
        }
    }

    /// Returns the stage as `part`, which capacities can refer to.
    pub(super) fn being(mut self, part: BoundPart) -> Self {
        self.part = Some(part);
        self
    }

    /// Returns the stage as the part of this class and name at its host.
    pub(super) fn bounded_by(self, class: BoundClass, name: &str) -> Self {
        let part = BoundPart::new(class, &self.host, name);
        self.being(part)
    }

    /// Returns whether there are readings of the stage.
    #[must_use]
    pub fn is_observed(&self) -> bool {
        !self.readings.is_empty() || self.lost.is_some()
    }
}
