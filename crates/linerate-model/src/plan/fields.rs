//! Reading one table of a plan: typed access to its keys, and a problem for each key that is
//! unknown, missing or wrong.

use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::value::whole;
use crate::{Nanos, Problem, nearest};

/// A table, what it is called in messages, and where it stands.
pub(super) struct Fields<'a, 'i> {
    table: &'a DeTable<'i>,
    what: &'static str,
    span: Range<usize>,
}

impl<'a, 'i> Fields<'a, 'i> {
    /// The fields of `value`, which messages call `what`; keys that are not `known` are reported.
    pub(super) fn of(
        value: &'a Spanned<DeValue<'i>>,
        what: &'static str,
        known: &[&str],
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let Some(table) = value.get_ref().as_table() else {
            problems.push(wrong_type(value, what, "a table"));
            return None;
        };
        Some(Self::of_table(table, value.span(), what, known, problems))
    }

    /// The same for a table that is already known to be one.
    pub(super) fn of_table(
        table: &'a DeTable<'i>,
        span: Range<usize>,
        what: &'static str,
        known: &[&str],
        problems: &mut Vec<Problem>,
    ) -> Self {
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref().as_ref();
            let problem = Problem::new(Some(key.span()), format!("unknown key `{name}` in {what}"));
            let expected = format!("one of {}", known.join(", "));
            // The most common mistake is a misspelt key, and the nearest name shows it.
            problems.push(problem.expected(expected).nearest(nearest(name, known.iter().copied())));
        }
        Self { table, what, span }
    }

    /// Where the table stands.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The value of `key`.
    pub(super) fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.table.get(key)
    }

    /// Where the value of `key` stands, or the table if it is absent.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        self.get(key).map_or_else(|| self.span(), Spanned::span)
    }

    /// Reports that `key` is missing.
    pub(super) fn missing(&self, key: &str, expected: &str, problems: &mut Vec<Problem>) {
        let message = format!("{} has no `{key}`", self.what);
        problems.push(Problem::new(Some(self.span()), message).expected(expected));
    }

    /// The string at `key`, if it is there.
    pub(super) fn text(
        &self,
        key: &str,
        expected: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<&'a str> {
        let value = self.get(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            problems.push(wrong_type(value, &format!("`{key}`"), expected));
        }
        text
    }

    /// The string at `key`, which must be there and not be empty.
    pub(super) fn name(
        &self,
        key: &str,
        expected: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<&'a str> {
        if self.get(key).is_none() {
            // A missing name and an empty one are different mistakes with different messages.
            self.missing(key, expected, problems);
        }
        let text = self.text(key, expected, problems)?;
        if text.trim().is_empty() {
            problems.push(
                Problem::new(Some(self.span_of(key)), format!("`{key}` is empty"))
                    .expected(expected),
            );
        }
        Some(text)
    }

    /// The whole number at `key` within `bounds`, or `default`.
    pub(super) fn count(
        &self,
        key: &str,
        bounds: RangeInclusive<u64>,
        default: u64,
        problems: &mut Vec<Problem>,
    ) -> u64 {
        let Some(value) = self.get(key) else { return default };
        match whole(value.get_ref()).filter(|number| bounds.contains(number)) {
            Some(number) => number,
            None => {
                let expected =
                    format!("a whole number from {} to {}", bounds.start(), bounds.end());
                problems.push(wrong_value(value, &format!("`{key}`"), &expected));
                // The default lets reading continue, so that later problems are found in the same
                // run. The plan is not run.
                default
            }
        }
    }

    /// The time at `key` within `bounds`, or `default`.
    pub(super) fn time(
        &self,
        key: &str,
        bounds: RangeInclusive<Nanos>,
        default: Nanos,
        problems: &mut Vec<Problem>,
    ) -> Nanos {
        let Some(value) = self.get(key) else { return default };
        let time = value.get_ref().as_str().and_then(|text| text.parse().ok());
        match time.filter(|time| bounds.contains(time)) {
            Some(time) => time,
            None => {
                let (from, to) = (bounds.start(), bounds.end());
                let expected = format!(
                    "a time with its unit from \"{from}\" to \"{to}\", such as \"{default}\""
                );
                problems.push(wrong_value(value, &format!("`{key}`"), &expected));
                default
            }
        }
    }

    /// The array of tables at `key`, element by element; empty if it is absent.
    pub(super) fn tables(
        &self,
        key: &str,
        problems: &mut Vec<Problem>,
    ) -> &'a [Spanned<DeValue<'i>>] {
        let Some(value) = self.get(key) else { return &[] };
        let array = value.get_ref().as_array();
        if array.is_none() {
            problems.push(wrong_type(
                value,
                &format!("`{key}`"),
                &format!("an array of tables, `[[{key}]]`"),
            ));
        }
        array.map_or(&[], |array| &array[..])
    }
}

/// `subject` is of another type than `expected`.
pub(super) fn wrong_type(value: &Spanned<DeValue<'_>>, subject: &str, expected: &str) -> Problem {
    let kind = match value.get_ref() {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    Problem::new(Some(value.span()), format!("{subject} is {kind}")).expected(expected)
}

/// `subject` has a value that is not `expected`: the value is shown if it is short, else its type.
pub(super) fn wrong_value(value: &Spanned<DeValue<'_>>, subject: &str, expected: &str) -> Problem {
    let shown = match value.get_ref() {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        _ => return wrong_type(value, subject, expected),
    };
    Problem::new(Some(value.span()), format!("{subject} is {shown}")).expected(expected)
}
