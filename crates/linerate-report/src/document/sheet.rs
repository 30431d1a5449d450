//! A table that is built column by column: each column is declared with its cells.

use linerate_model::Validity;

use super::{Cell, Column, Mark, Role, Row, Table, Tone};
use crate::number::Scale;

/// Columns so far of a table with a row for each item, and the columns that a chart draws.
pub(crate) struct Sheet<T> {
    items: Vec<T>,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    marks: Vec<Mark>,
}

impl<T> Sheet<T> {
    /// Returns a sheet without columns.
    pub(crate) fn new(items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<T> = items.into_iter().collect();
        let rows = items.iter().map(|_| Vec::new()).collect();
        Self { items, columns: Vec::new(), rows, marks: Vec::new() }
    }

    /// Adds a column with its cell for each item.
    pub(crate) fn column(&mut self, column: Column, cell: impl Fn(&T) -> Cell) {
        self.columns.push(column);
        self.rows.iter_mut().zip(&self.items).for_each(|(row, item)| row.push(cell(item)));
    }

    /// Adds a column of words.
    pub(crate) fn text(&mut self, head: &str, words: impl Fn(&T) -> String) {
        self.column(Column::text(head), |item| Cell::Text(words(item)));
    }

    /// Adds a column of words, with the reason `why` where there are none.
    pub(crate) fn text_or(&mut self, head: &str, why: &str, words: impl Fn(&T) -> Option<String>) {
        self.column(Column::text(head), |item| Cell::text_or(words(item), why));
    }

    /// Adds a column of numbers.
    pub(crate) fn number(&mut self, head: &str, scale: Scale, number: impl Fn(&T) -> f64) {
        self.column(Column::number(head, scale), |item| Cell::Number(number(item)));
    }

    /// Adds a column of numbers, with the reason `why` where there is none.
    pub(crate) fn number_or(
        &mut self,
        head: &str,
        scale: Scale,
        why: &str,
        number: impl Fn(&T) -> Option<f64>,
    ) {
        self.column(Column::number(head, scale), |item| Cell::number_or(number(item), why));
    }

    /// Adds a column that a chart draws in `role`, under its heading.
    pub(crate) fn drawn(&mut self, role: Role, column: Column, cell: impl Fn(&T) -> Cell) {
        self.named(role, column.head.clone(), column, cell);
    }

    /// Adds a column that a chart draws in `role` under a name of its own.
    pub(crate) fn named(
        &mut self,
        role: Role,
        name: String,
        column: Column,
        cell: impl Fn(&T) -> Cell,
    ) {
        self.marks.push(Mark { column: self.columns.len(), name, role });
        self.column(column, cell);
    }

    /// Returns the table, each row with the emphasis of its item.
    pub(crate) fn toned(
        self,
        id: impl Into<String>,
        caption: impl Into<String>,
        tone: impl Fn(&T) -> Tone,
    ) -> Table {
        let rows = self.rows.into_iter().zip(&self.items);
        let rows = rows.map(|(cells, item)| Row { cells, tone: tone(item) }).collect();
        Table { rows, ..Table::new(id, caption, self.columns) }
    }

    /// Returns the table without emphasis.
    pub(crate) fn plain(self, id: impl Into<String>, caption: impl Into<String>) -> Table {
        self.toned(id, caption, |_| Tone::Plain)
    }

    /// Returns the table, each row with the emphasis of its item's validity.
    pub(crate) fn judged(
        self,
        id: impl Into<String>,
        caption: impl Into<String>,
        validity: impl Fn(&T) -> Validity,
    ) -> Table {
        self.toned(id, caption, |item| validity(item).into())
    }

    /// Returns the columns that a chart draws.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        self.marks.clone()
    }
}
