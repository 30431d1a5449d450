//! Readings of samplers: series over a trial.

use serde::{Deserialize, Serialize};

use crate::{Nanos, SeriesSpec};

/// How a series is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeriesKind {
    /// Monotone; the figure is its change.
    Counter,
    /// The figure is its value.
    Gauge,
}

/// All readings of one host during one trial, column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleBlock {
    /// Columns.
    pub series: Vec<SeriesSpec>,
    /// Reading times, nanoseconds since the trial's start barrier on the agreed clock (a reading
    /// before it is 0).
    pub times: Vec<Nanos>,
    /// `columns[s][t]` is series `s` at time `t`; `None` where it could not be read.
    pub columns: Vec<Vec<Option<f64>>>,
    /// Samplers that could not be opened, and why: shown as gaps, never as zero.
    pub unavailable: Vec<(String, String)>,
    /// CPU time the sampling itself took, ns.
    pub cost_ns: u64,
}
