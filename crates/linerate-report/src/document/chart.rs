//! Charts of a document. A chart draws columns of the table it contains, so the two cannot differ.

use super::Table;

/// Chart drawn from its table: column 0 is the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// Description in one sentence, for readers who cannot see it.
    pub summary: String,
    /// Form.
    pub plot: Plot,
    /// Scale of column 0.
    pub x_scale: AxisScale,
    /// Scale of the figures.
    pub y_scale: AxisScale,
    /// Name of the vertical axis.
    pub y_name: String,
    /// Columns that are drawn.
    pub marks: Vec<Mark>,
    /// Seconds of warm-up before the measurement, for a series.
    pub measured_from: Option<f64>,
    /// Table that it is drawn from.
    pub table: Table,
}

impl Chart {
    /// Returns the chart of `table` over categories, with the caption as its title.
    #[must_use]
    pub fn of(plot: Plot, y_name: impl Into<String>, marks: Vec<Mark>, table: Table) -> Self {
        Self {
            title: table.caption.clone(),
            summary: String::new(),
            plot,
            x_scale: AxisScale::Category,
            y_scale: AxisScale::Linear,
            y_name: y_name.into(),
            marks,
            measured_from: None,
            table,
        }
    }
}

/// Form of a chart.
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

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisScale {
    /// Linear.
    Linear,
    /// Equal distances for equal powers of two.
    Log2,
    /// Equal distances for equal powers of ten.
    Log10,
    /// One place for each value.
    Category,
    /// Equal distances between 90 %, 99 % and 99.9 %.
    Percentile,
}

/// Column that a chart draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Index of the column in the chart's table.
    pub column: usize,
    /// Name in the legend.
    pub name: String,
    /// Form.
    pub role: Role,
}

/// Form of a drawn column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A measured line.
    Line,
    /// A ceiling, or another level for comparison, of the mark with that index, or of all marks.
    Ceiling(Option<usize>),
    /// Bars.
    Bar,
    /// Bars on a second axis at the right.
    Second,
}
