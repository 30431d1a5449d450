//! CSV (RFC 4180): one file for each table, unrounded numbers in base units, units in the heading.
//!
//! An estimate has three columns (value, low, high). A cell of a numeric column is a number or
//! empty; the column `missing` has the reason. The last column is the kind of path. Text that a
//! spreadsheet would interpret as a formula is quoted with an apostrophe (CWE-1236).

use linerate_model::{Lines, printable};

use super::{Artifact, ReportError};
use crate::document::{Cell, Column, ColumnKind, Document, Table};
use crate::words::origin_label;

pub(super) fn render(document: &Document) -> Result<Vec<Artifact>, ReportError> {
    let testbed = origin_label(document.origin);
    document.tables().map(|table| artifact(table, testbed)).collect()
}

fn artifact(table: &Table, testbed: &str) -> Result<Artifact, ReportError> {
    let refused = |cause: String| ReportError::Csv { table: table.id.clone(), cause };
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    let added = ["missing".to_owned(), "testbed".to_owned()];
    let head: Vec<String> = table.columns.iter().flat_map(heading).chain(added).collect();
    writer.write_record(&head).map_err(|error| refused(error.to_string()))?;
    for row in &table.rows {
        let cells = || row.cells.iter().zip(&table.columns);
        let missing: Vec<String> =
            cells().filter_map(|(cell, column)| missing(cell, column)).collect();
        let fields = cells().flat_map(|(cell, column)| fields(cell, column));
        let fields = fields.chain([guarded(&missing.join("; ")), testbed.to_owned()]);
        writer.write_record(fields).map_err(|error| refused(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| refused(error.to_string()))?;
    Ok(Artifact { file_name: format!("{}.csv", table.id), bytes })
}

fn heading(column: &Column) -> Vec<String> {
    fn told(part: &str, column: &Column) -> String {
        let head =
            if part.is_empty() { column.head.clone() } else { format!("{} {part}", column.head) };
        let qualifiers = column.base_qualifiers();
        guarded(&if qualifiers.is_empty() { head } else { format!("{head} [{qualifiers}]") })
    }
    match column.kind {
        ColumnKind::Text | ColumnKind::Number => vec![told("", column)],
        ColumnKind::Estimate => vec![told("", column), told("low", column), told("high", column)],
    }
}

fn fields(cell: &Cell, column: &Column) -> Vec<String> {
    fn number(value: Option<f64>) -> String {
        // Spreadsheets have no common spelling of infinity, so the cell is empty and the last
        // column says why.
        value.filter(|value| value.is_finite()).map_or(String::new(), |v| v.to_string())
    }
    let mut fields = match cell {
        Cell::Text(text) if column.kind == ColumnKind::Text => vec![guarded(text)],
        Cell::Number(value) | Cell::Coordinate { value, .. } => vec![number(Some(*value))],
        Cell::Estimate(estimate) => {
            vec![number(Some(estimate.value)), number(estimate.low), number(estimate.high)]
        }
        // The value is unknown, and its lower end is known.
        Cell::AtLeast(bound) => vec![String::new(), number(Some(*bound))],
        Cell::Text(_) | Cell::Missing(_) => Vec::new(),
    };
    let width = if column.kind == ColumnKind::Estimate { 3 } else { 1 };
    // Every row has all columns of its table, or readers shift the rest.
    fields.resize(width, String::new());
    fields
}

/// Returns the reason for an empty cell with its heading; `None` for a cell with a dash.
fn missing(cell: &Cell, column: &Column) -> Option<String> {
    let why = match cell {
        Cell::Missing(why) => why.as_str(),
        Cell::AtLeast(bound) => {
            return Some(format!("{}: exceeds {bound} {}", column.head, column.scale.base));
        }
        Cell::Text(text) if column.kind != ColumnKind::Text => text.as_str(),
        Cell::Number(value) | Cell::Coordinate { value, .. } if !value.is_finite() => "not finite",
        Cell::Estimate(estimate) if !estimate.value.is_finite() => "not finite",
        _ => return None,
    };
    // A dash is no reason.
    why.contains(char::is_alphanumeric).then(|| format!("{}: {why}", column.head))
}

/// Returns `text` on one line without control characters and formulas.
fn guarded(text: &str) -> String {
    let text = &*printable(text, Lines::One);
    // Spreadsheets run text that begins with these characters as a formula.
    let risky = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if risky { format!("'{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::guarded;

    #[test]
    fn no_text_is_taken_for_a_formula() {
        assert_eq!(guarded("=HYPERLINK(\"x\")"), "'=HYPERLINK(\"x\")");
        assert_eq!(guarded("@sum"), "'@sum");
        assert_eq!(guarded("goodput"), "goodput");
        assert_eq!(guarded("–"), "–");
    }
}
