//! Content of a report without a format: sections of paragraphs, figures, tables and charts.
//!
//! Numbers stay in base units with their unit, layer and direction; a renderer chooses digits and
//! unit.

mod chart;
mod lead;
mod path;
mod sheet;
mod table;

use linerate_model::{Direction, Estimate, Layer, Nanos, TestbedKind, Validity, Verdict};

pub use chart::{AxisScale, Chart, Mark, Plot, Role};
pub use lead::{Lead, NextStep};
pub use path::{PathPicture, PathStage, StageSeen};
pub(crate) use sheet::Sheet;
pub use table::{Cell, Column, ColumnKind, Row, Table, Tone};

use crate::number::Scale;

/// Mark on figures of an emulated path.
pub(crate) const EMULATED: &str = "emulated";

/// Content of a report.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Document {
    /// Name of the campaign.
    pub title: String,
    /// Time and place of the measurement, in one line.
    pub subtitle: String,
    /// Origin of its figures.
    pub origin: Origin,
    /// Wall clock at the campaign's start, nanoseconds since the Unix epoch.
    pub started: Nanos,
    /// Version of linerate.
    pub version: String,
    /// Sections in order.
    pub sections: Vec<Section>,
    /// Stable JSON of the study; null if no format that was asked for reads it.
    pub study: serde_json::Value,
}

/// Origin of the figures of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Trials on this kind of path; those of a lab are marked as emulated.
    Measured(TestbedKind),
    /// A model alone.
    Computed,
    /// Devices and files as they were read.
    Read,
}

impl Origin {
    /// Returns the mark on every figure of an emulated path.
    #[must_use]
    pub fn mark(self) -> Option<&'static str> {
        (self == Self::Measured(TestbedKind::Lab)).then_some(EMULATED)
    }
}

impl Document {
    /// Returns the answer of a command without a ledger; `study` is its JSON output.
    pub fn answer(
        title: impl Into<String>,
        subtitle: impl Into<String>,
        origin: Origin,
        sections: Vec<Section>,
        study: serde_json::Value,
    ) -> Self {
        let mark = origin.mark();
        Self {
            title: title.into(),
            subtitle: subtitle.into(),
            origin,
            // Answers have no start time, and renderers leave out a time of zero.
            started: Nanos(0),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sections: sections.into_iter().map(|section| section.marked(mark)).collect(),
            study,
        }
    }

    /// Returns the mark on every figure, if the path was emulated.
    #[must_use]
    pub fn mark(&self) -> Option<&'static str> {
        self.origin.mark()
    }

    /// Returns every table in order, including those of charts.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Table(table) => Some(table),
            Block::Chart(chart) => Some(&chart.table),
            Block::Path(picture) => Some(&picture.table),
            _ => None,
        })
    }
}

/// Section of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Name in the registry, the prefix of anchors and file names.
    pub id: &'static str,
    /// Heading.
    pub title: &'static str,
    /// Content.
    pub blocks: Vec<Block>,
}

impl Section {
    /// Marks every table and removes the sign of negative zeros.
    pub(crate) fn marked(mut self, mark: Option<&'static str>) -> Self {
        for block in &mut self.blocks {
            let table = match block {
                Block::Table(table) => table,
                Block::Chart(chart) => &mut chart.table,
                Block::Path(picture) => &mut picture.table,
                _ => continue,
            };
            table.mark = mark;
            // A difference of two equal figures may be a negative zero, which prints as "-0".
            table.rows.iter_mut().flat_map(|row| &mut row.cells).for_each(Cell::unsign_zero);
        }
        self
    }
}

/// Part of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// First screen: headline figure, bottleneck, next step.
    Lead(Lead),
    /// Picture of the path, with its table.
    Path(PathPicture),
    /// Running text.
    Paragraph(String),
    /// Short statements.
    List(Vec<String>),
    /// Best figures.
    KeyFigures(Vec<KeyFigure>),
    /// A table.
    Table(Table),
    /// A chart and its table.
    Chart(Chart),
    /// A finding.
    Claim(Claim),
    /// Verbatim text, such as a plan.
    Listing {
        /// Caption.
        caption: String,
        /// The text.
        text: String,
    },
}

/// Best figure of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFigure {
    /// Metric and scope.
    pub label: String,
    /// Unit as shown.
    pub scale: Scale,
    /// Layer, where bits or packets are counted.
    pub layer: Option<Layer>,
    /// Direction.
    pub direction: Direction,
    /// Figure.
    pub estimate: Estimate,
    /// Share of the lowest ceiling, and the name of that ceiling.
    pub ceiling: Option<(f64, String)>,
    /// Related figure of the same point, such as the tail beside the median.
    pub beside: Option<String>,
    /// Sweep and parameters of its point.
    pub at: String,
    /// Validity of its point.
    pub validity: Validity,
}

/// Finding with its evidence and advice.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Status.
    pub verdict: Verdict,
    /// Subject.
    pub subject: String,
    /// Claim.
    pub claim: String,
    /// Labelled lists: evidence, counterfactual, advice.
    pub parts: Vec<(&'static str, Vec<String>)>,
    /// Rule that makes the claim.
    pub rule: String,
}
