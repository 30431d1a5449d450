//! Figures and tables on a terminal.

use linerate_model::Unit;
use linerate_report::document::{Cell, Column, Row, Table};
use linerate_report::number::Scale;

/// `value` of metric `name` in the unit it reads best in.
pub(crate) fn quantity(name: &str, value: f64, unit: Unit) -> String {
    let scale = Scale::fit(name, unit, [value]);
    format!("{} {}", scale.plain(value), scale.symbol).trim_end().to_owned()
}

/// A table of words with aligned columns.
pub(crate) fn table(caption: &str, head: &[String], rows: &[Vec<String>]) -> String {
    let columns = head.iter().map(Column::text).collect();
    let rows = rows.iter().map(|row| Row::plain(row.iter().map(Cell::text).collect())).collect();
    let (caption, id, note) = (caption.to_owned(), String::new(), None);
    linerate_report::text::table(&Table { id, caption, columns, rows, note, folded: false, mark: None })
}
