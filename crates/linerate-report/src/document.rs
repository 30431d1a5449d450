//! What a report says, before it has a format: sections of paragraphs, figures, tables and charts.
//!
//! Numbers are kept in base units with their unit, layer and direction; a renderer decides how many
//! digits and in which unit they are shown. Every chart is drawn from the table it carries, by
//! column, so that chart and table cannot differ.

use linerate_analysis::{PathEnd, StageKind};
use linerate_model::{Direction, Estimate, Layer, Nanos, TestbedKind, Validity, Verdict};

use crate::number::{Scale, round_half_up};

/// The word figures of an emulated path are marked with.
pub(crate) const EMULATED: &str = "emulated";

/// Everything a report says.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The campaign's name.
    pub title: String,
    /// When and on what it was measured, in one line.
    pub subtitle: String,
    /// Where its figures come from.
    pub origin: Origin,
    /// Wall clock at the campaign's start, nanoseconds since the Unix epoch.
    pub started: Nanos,
    /// Version of linerate that wrote it.
    pub version: String,
    /// What is said, in order.
    pub sections: Vec<Section>,
    /// The stable JSON of the study.
    pub study: serde_json::Value,
}

/// Where the figures of a document come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From trials on this kind of path; those of a lab are marked as emulated.
    Measured(TestbedKind),
    /// From a model alone.
    Computed,
    /// From devices and files, as they were when they were read.
    Read,
}

impl Origin {
    /// The word that marks every figure of an emulated path.
    #[must_use]
    pub fn mark(self) -> Option<&'static str> {
        (self == Self::Measured(TestbedKind::Lab)).then_some(EMULATED)
    }
}

impl Document {
    /// The answer of a command that wrote no ledger; `study` is what it prints as JSON.
    #[must_use]
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
            started: Nanos(0),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sections: sections.into_iter().map(|section| section.marked(mark)).collect(),
            study,
        }
    }

    /// The word every figure is marked with, if the path was emulated.
    #[must_use]
    pub fn mark(&self) -> Option<&'static str> {
        self.origin.mark()
    }

    /// Every table, those beside charts included, in order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Table(table) => Some(table),
            Block::Chart(chart) => Some(&chart.table),
            Block::Path(picture) => Some(&picture.table),
            _ => None,
        })
    }
}

/// One part of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Its name in the registry; anchors and file names begin with it.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Its content.
    pub blocks: Vec<Block>,
}

impl Section {
    /// The same with every table marked, and no number in it a negative zero.
    pub(crate) fn marked(mut self, mark: Option<&'static str>) -> Self {
        for block in &mut self.blocks {
            let table = match block {
                Block::Table(table) => table,
                Block::Chart(chart) => &mut chart.table,
                Block::Path(picture) => &mut picture.table,
                _ => continue,
            };
            table.mark = mark;
            table.rows.iter_mut().flat_map(|row| &mut row.cells).for_each(Cell::unsign_zero);
        }
        self
    }
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// The verdict in one sentence.
    Lead(Lead),
    /// The path in one picture, and its table.
    Path(PathPicture),
    /// Running text.
    Paragraph(String),
    /// Short statements.
    List(Vec<String>),
    /// The figures one remembers.
    KeyFigures(Vec<KeyFigure>),
    /// A table.
    Table(Table),
    /// A chart and its table.
    Chart(Chart),
    /// A finding.
    Claim(Claim),
    /// Text as it was, such as a plan.
    Listing {
        /// What it is.
        caption: String,
        /// The text.
        text: String,
    },
}

/// What everything that follows amounts to.
#[derive(Clone, Debug, PartialEq)]
pub struct Lead {
    /// How sure it is what limits: `proven`, `suspected`, `inconclusive`, `located`, `not
    /// diagnosed`; of a comparison `changed`, `equivalent` or `inconclusive`.
    pub surety: &'static str,
    /// The sentence.
    pub text: String,
}

/// The path from application to application.
#[derive(Clone, Debug, PartialEq)]
pub struct PathPicture {
    /// Whose path.
    pub title: String,
    /// What one sees in it, for those who do not.
    pub summary: String,
    /// Whether it has one end only: a load on a disk.
    pub alone: bool,
    /// Its stages, in the order in which data pass.
    pub stages: Vec<PathStage>,
    /// The same as a table.
    pub table: Table,
}

/// One stage of it, as told.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStage {
    /// Where on the path.
    pub end: PathEnd,
    /// What it is.
    pub place: StageKind,
    /// Its name and whose it is.
    pub name: String,
    /// What was observed there: of two arms by each that passes it, the first one first.
    pub seen: Vec<StageSeen>,
}

/// What was observed at a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageSeen {
    /// By which of two arms.
    pub arm: Option<String>,
    /// The rate observed there.
    pub rate: Option<String>,
    /// What else was observed there, what the rate is of first.
    pub details: Vec<String>,
    /// Its ceiling in words, and the share of it that was reached, where both count alike.
    pub ceiling: Option<(String, Option<f64>)>,
    /// What was lost there, where that is counted.
    pub lost: Option<String>,
    /// Whether anything was.
    pub loses: bool,
    /// The flag of what limits.
    pub limit: Option<String>,
}

impl StageSeen {
    /// Whether nobody looked.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.rate.is_none() && self.details.is_empty() && self.lost.is_none()
    }
}

/// One of the figures one remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFigure {
    /// What it is: metric and scope.
    pub label: String,
    /// Unit it is shown in.
    pub scale: Scale,
    /// Layer, where bits or packets are counted.
    pub layer: Option<Layer>,
    /// Direction.
    pub direction: Direction,
    /// The figure.
    pub estimate: Estimate,
    /// Share of the lowest ceiling, and that ceiling's name.
    pub ceiling: Option<(f64, String)>,
    /// What else belongs to it at the same point, such as the tail beside the median.
    pub beside: Option<String>,
    /// Sweep and parameters where it was measured.
    pub at: String,
    /// Its standing.
    pub validity: Validity,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Unique in the document; file and sheet names come from it.
    pub id: String,
    /// What it shows.
    pub caption: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Row>,
    /// What a reader must know to read it.
    pub note: Option<String>,
    /// Whether a screen shows it only on request (it is always printed).
    pub folded: bool,
    /// The word its figures are marked with, if the path was emulated; set for all tables when the
    /// document is composed.
    pub mark: Option<&'static str>,
    /// Where the study's JSON has its figures already, as a JSON pointer (RFC 6901): then they are
    /// not written there again.
    pub figures_at: Option<String>,
}

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What it holds.
    pub head: String,
    /// How its cells are to be read.
    pub kind: ColumnKind,
    /// Unit of its numbers.
    pub scale: Scale,
    /// Layer, where bits or packets are counted.
    pub layer: Option<Layer>,
    /// Direction of its numbers.
    pub direction: Option<Direction>,
}

/// How the cells of a column are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Words.
    Text,
    /// Numbers without an interval, axis values among them.
    Number,
    /// Estimates; formats without room for an interval in a cell give it two more columns.
    Estimate,
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its cells.
    pub cells: Vec<Cell>,
    /// Whether it stands out.
    pub tone: Tone,
}

/// Whether and why a row stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// It does not.
    #[default]
    Plain,
    /// It differs or is doubtful.
    Marked,
    /// It carries no figure that may be believed.
    Refused,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number in the column's base unit.
    Number(f64),
    /// A coordinate: its number, and how the plan wrote it.
    Coordinate {
        /// In the column's base unit.
        value: f64,
        /// As shown.
        label: String,
    },
    /// An estimate in the column's base unit.
    Estimate(Estimate),
    /// A number that is not known, and this in the column's base unit, which it exceeds: a
    /// percentile among operations that were not answered as long as anybody looked.
    AtLeast(f64),
    /// No figure, and why. Never a zero.
    Missing(String),
}

/// A chart, drawn from its table: column 0 is the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What one sees in it, in a sentence, for those who do not.
    pub summary: String,
    /// Its form.
    pub plot: Plot,
    /// How column 0 is laid out.
    pub x_scale: AxisScale,
    /// How the figures are laid out.
    pub y_scale: AxisScale,
    /// What the vertical axis is called.
    pub y_name: String,
    /// Columns drawn.
    pub marks: Vec<Mark>,
    /// For a series: seconds cut off as warm-up.
    pub measured_from: Option<f64>,
    /// What it is drawn from.
    pub table: Table,
}

/// The form of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plot {
    /// Lines with interval bands and ceilings.
    Lines,
    /// Points with their intervals beside a line at zero; nothing between one place and the next.
    Points,
    /// Bars on top of one another.
    StackedBars,
    /// Bars side by side.
    GroupedBars,
    /// A matrix of tinted figures: rows by column 0, one column for each value of the other axis.
    Heat,
    /// Percentiles from the median to the tail.
    Percentiles,
    /// Readings over time, counts as bars.
    Series,
}

/// How an axis is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisScale {
    /// Evenly.
    Linear,
    /// By doubling.
    Log2,
    /// By tens.
    Log10,
    /// One place for each value.
    Category,
    /// By nines: 90 %, 99 %, 99.9 % are equally far apart.
    Percentile,
}

/// One column drawn in a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Which column of the chart's table.
    pub column: usize,
    /// Its name in the legend.
    pub name: String,
    /// What it is drawn as.
    pub role: Role,
}

/// What a column is drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A measured line.
    Line,
    /// A bound; of the mark with that index, or of all.
    Ceiling(Option<usize>),
    /// Bars.
    Bar,
    /// Bars on an axis of their own, to the right.
    Second,
}

/// A finding as told.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// How far it is carried.
    pub verdict: Verdict,
    /// What it is about.
    pub subject: String,
    /// The claim.
    pub claim: String,
    /// Labelled lists: evidence, counterfactual, advice.
    pub parts: Vec<(&'static str, Vec<String>)>,
    /// The rule that says so.
    pub rule: String,
}

impl Column {
    /// A column of words.
    #[must_use]
    pub fn text(head: impl Into<String>) -> Self {
        Self {
            head: head.into(),
            kind: ColumnKind::Text,
            scale: Scale::COUNT,
            layer: None,
            direction: None,
        }
    }

    /// A column of numbers without intervals.
    #[must_use]
    pub fn number(head: impl Into<String>, scale: Scale) -> Self {
        Self { kind: ColumnKind::Number, scale, ..Self::text(head) }
    }

    /// A column of estimates.
    #[must_use]
    pub fn estimate(
        head: impl Into<String>,
        scale: Scale,
        layer: Option<Layer>,
        direction: Direction,
    ) -> Self {
        Self {
            head: head.into(),
            kind: ColumnKind::Estimate,
            scale,
            layer,
            direction: Some(direction),
        }
    }

    /// What qualifies the number, in the order of a heading: unit shown, layer, direction.
    #[must_use]
    pub(crate) fn qualifiers(&self) -> String {
        self.qualified(self.scale.symbol)
    }

    /// The same with the base unit, for formats that carry unscaled numbers.
    #[must_use]
    pub(crate) fn base_qualifiers(&self) -> String {
        self.qualified(self.scale.base)
    }

    fn qualified(&self, unit: &str) -> String {
        let layer = self.layer.map(|layer| layer.to_string());
        let direction = self.direction.map(|direction| direction.to_string());
        [Some(unit.to_owned()), layer, direction]
            .into_iter()
            .flatten()
            .filter(|s| !s.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl Row {
    /// A row that does not stand out.
    #[must_use]
    pub fn plain(cells: Vec<Cell>) -> Self {
        Self { cells, tone: Tone::Plain }
    }

    /// A row that stands out as `validity` demands.
    #[must_use]
    pub fn judged(cells: Vec<Cell>, validity: Validity) -> Self {
        let tone = match validity {
            Validity::Valid => Tone::Plain,
            Validity::Suspect => Tone::Marked,
            Validity::Invalid | Validity::Impossible => Tone::Refused,
        };
        Self { cells, tone }
    }
}

impl Cell {
    /// Words.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Takes the sign off negative zeros: a sum of nothing is one, and formats that carry raw
    /// numbers would print it.
    fn unsign_zero(&mut self) {
        // Minus zero plus zero is zero.
        match self {
            Self::Number(value) | Self::Coordinate { value, .. } => *value += 0.0,
            Self::Estimate(estimate) => {
                estimate.value += 0.0;
                estimate.low = estimate.low.map(|low| low + 0.0);
                estimate.high = estimate.high.map(|high| high + 0.0);
            }
            Self::Text(_) | Self::AtLeast(_) | Self::Missing(_) => {}
        }
    }

    /// The number drawn, in base units.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Number(value) | Self::Coordinate { value, .. } => Some(*value),
            Self::Estimate(estimate) => Some(estimate.value),
            Self::Text(_) | Self::AtLeast(_) | Self::Missing(_) => None,
        }
    }

    /// Its display form in `scale`, interval included; numbers without one to `decimals` digits
    /// behind the point.
    #[must_use]
    pub fn shown(&self, scale: &Scale, decimals: usize) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value) if !value.is_finite() => scale.plain(*value),
            Self::Number(value) => round_half_up(value / scale.factor, decimals),
            Self::Coordinate { label, .. } => label.clone(),
            Self::Estimate(estimate) => match scale.estimate(estimate) {
                (value, Some((low, high))) => format!("{value} [{low}, {high}]"),
                (value, None) => value,
            },
            Self::AtLeast(bound) => format!("> {}", scale.plain(*bound)),
            Self::Missing(why) => why.clone(),
        }
    }
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(id: impl Into<String>, caption: impl Into<String>, columns: Vec<Column>) -> Self {
        Self {
            id: id.into(),
            caption: caption.into(),
            columns,
            rows: Vec::new(),
            note: None,
            folded: false,
            mark: None,
            figures_at: None,
        }
    }

    /// A table of words: a head and a row for each slice of cells.
    #[must_use]
    pub fn of_words(
        id: impl Into<String>,
        caption: impl Into<String>,
        heads: &[impl AsRef<str>],
        rows: &[Vec<String>],
    ) -> Self {
        let columns = heads.iter().map(|head| Column::text(head.as_ref())).collect();
        let rows =
            rows.iter().map(|row| Row::plain(row.iter().map(Cell::text).collect())).collect();
        Self { rows, ..Self::new(id, caption, columns) }
    }

    /// Digits behind the point of each column's numbers, so that a column is read in one precision.
    #[must_use]
    pub fn decimals(&self) -> Vec<usize> {
        let of_column = |(index, column): (usize, &Column)| {
            let numbers = self.rows.iter().filter_map(move |row| match row.cells.get(index) {
                Some(Cell::Number(value)) => Some(*value),
                _ => None,
            });
            column.scale.decimals_of_all(numbers)
        };
        self.columns.iter().enumerate().map(of_column).collect()
    }

    /// The cells of all rows as shown.
    #[must_use]
    pub fn shown(&self) -> Vec<Vec<String>> {
        let decimals = self.decimals();
        let row = |row: &Row| -> Vec<String> {
            let cells = row.cells.iter().zip(&self.columns).zip(&decimals);
            cells.map(|((cell, column), decimals)| cell.shown(&column.scale, *decimals)).collect()
        };
        self.rows.iter().map(row).collect()
    }
}
