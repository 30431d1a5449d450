//! Tables of a document. Numbers stay in base units; a renderer chooses unit and digits.

use linerate_model::{Direction, Estimate, Layer, Validity};

use crate::number::{Scale, round_half_up};

/// Table with typed columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Unique in the document; file and sheet names come from it.
    pub id: String,
    /// Caption.
    pub caption: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Row>,
    /// Explanation below the table.
    pub note: Option<String>,
    /// True if a screen shows it only on request; it is always printed.
    pub folded: bool,
    /// Mark on its figures if the path was emulated. Composing the document sets it for all tables.
    pub mark: Option<&'static str>,
    /// JSON pointer (RFC 6901) to its figures in the study's JSON, which then omits the table's
    /// copy.
    pub figures_at: Option<String>,
}

impl Table {
    /// Returns a table without rows.
    #[must_use]
    pub fn new(id: impl Into<String>, caption: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { id: id.into(), caption: caption.into(), columns, ..Self::default() }
    }

    /// Returns a table of words with `heads`, one row for each slice of cells.
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

    /// Returns the decimal places of each column: all numbers of a column have the same precision.
    #[must_use]
    pub fn decimals(&self) -> Vec<usize> {
        (0..self.columns.len()).map(|index| self.decimals_at(index)).collect()
    }

    fn decimals_at(&self, index: usize) -> usize {
        let numbers = self.rows.iter().filter_map(|row| match row.cells.get(index) {
            Some(Cell::Number(value)) => Some(*value),
            _ => None,
        });
        self.columns[index].scale.decimals_of_all(numbers)
    }

    /// Returns the cells of all rows as shown.
    #[must_use]
    pub fn shown(&self) -> Vec<Vec<String>> {
        let decimals = self.decimals();
        self.rows
            .iter()
            .map(|row| -> Vec<String> {
                let cells = row.cells.iter().zip(&self.columns).zip(&decimals);
                cells
                    .map(|((cell, column), decimals)| cell.shown(&column.scale, *decimals))
                    .collect()
            })
            .collect()
    }
}

/// Column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Heading.
    pub head: String,
    /// Kind of its cells.
    pub kind: ColumnKind,
    /// Unit of its numbers.
    pub scale: Scale,
    /// Layer, where bits or packets are counted.
    pub layer: Option<Layer>,
    /// Direction of its numbers.
    pub direction: Option<Direction>,
}

impl Column {
    /// Returns a column of words.
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

    /// Returns a column of numbers without intervals.
    #[must_use]
    pub fn number(head: impl Into<String>, scale: Scale) -> Self {
        Self { kind: ColumnKind::Number, scale, ..Self::text(head) }
    }

    /// Returns a column of estimates.
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

    /// Returns a column of estimates that have no direction.
    #[must_use]
    pub(crate) fn undirected(head: impl Into<String>, scale: Scale, layer: Option<Layer>) -> Self {
        Self { kind: ColumnKind::Estimate, layer, ..Self::number(head, scale) }
    }

    /// Returns the qualifiers of a heading: unit shown, layer, direction.
    #[must_use]
    pub(crate) fn qualifiers(&self) -> String {
        self.qualified(self.scale.symbol)
    }

    /// Returns the same with the base unit, for formats with unscaled numbers.
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
            // A plain count has no unit.
            .filter(|s| !s.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Kind of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Words.
    Text,
    /// Numbers without an interval, axis values among them.
    Number,
    /// Estimates; formats without room for an interval in a cell give it two more columns.
    Estimate,
}

/// Row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Cells, one for each column.
    pub cells: Vec<Cell>,
    /// Emphasis.
    pub tone: Tone,
}

impl Row {
    /// Returns a row without emphasis.
    #[must_use]
    pub fn plain(cells: Vec<Cell>) -> Self {
        Self { cells, tone: Tone::Plain }
    }

    /// Returns a row with the emphasis of `validity`.
    #[must_use]
    pub fn judged(cells: Vec<Cell>, validity: Validity) -> Self {
        Self { cells, tone: validity.into() }
    }
}

/// Emphasis of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// None.
    #[default]
    Plain,
    /// The row differs or is suspect.
    Marked,
    /// The row has no valid figure.
    Refused,
}

impl From<Validity> for Tone {
    fn from(validity: Validity) -> Self {
        match validity {
            Validity::Valid => Self::Plain,
            Validity::Suspect => Self::Marked,
            Validity::Invalid | Validity::Impossible => Self::Refused,
        }
    }
}

/// Cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number in the column's base unit.
    Number(f64),
    /// A coordinate: its number and its text in the plan.
    Coordinate {
        /// Value in the column's base unit.
        value: f64,
        /// Text as shown.
        label: String,
    },
    /// An estimate in the column's base unit.
    Estimate(Estimate),
    /// A lower bound in the column's base unit, such as a percentile among operations that were
    /// never answered.
    AtLeast(f64),
    /// No figure, with the reason. Never a zero.
    Missing(String),
}

impl Cell {
    /// Returns a cell of words.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Returns a cell of the words, or of the reason why there are none.
    #[must_use]
    pub(crate) fn text_or(text: Option<String>, why: &str) -> Self {
        text.map_or_else(|| Self::Missing(why.into()), Self::Text)
    }

    /// Returns a cell of the number, or of the reason why there is none.
    #[must_use]
    pub(crate) fn number_or(number: Option<f64>, why: &str) -> Self {
        number.map_or_else(|| Self::Missing(why.into()), Self::Number)
    }

    /// Removes the sign of negative zeros: an empty sum is one, and formats with raw numbers would
    /// print it.
    pub(super) fn unsign_zero(&mut self) {
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

    /// Returns the number that a chart draws, in base units.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Number(value) | Self::Coordinate { value, .. } => Some(*value),
            Self::Estimate(estimate) => Some(estimate.value),
            Self::Text(_) | Self::AtLeast(_) | Self::Missing(_) => None,
        }
    }

    /// Formats it in `scale` with its interval; plain numbers get `decimals` decimal places.
    #[must_use]
    pub fn shown(&self, scale: &Scale, decimals: usize) -> String {
        match self {
            Self::Text(text) => text.clone(),
            // An infinite time has its own sign and no digits.
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
