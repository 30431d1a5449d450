//! Reading one table of a plan: typed access to its keys, and a problem for each key that is
//! unknown, missing or wrong.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::value::whole;
use crate::{Nanos, Problem, nearest};

/// Problems of a text, noted by all who read parts of it.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub(super) fn push(&self, problem: Problem) {
        self.0.borrow_mut().push(problem);
    }

    /// Notes what is wrong at `span`, and what was expected there.
    pub(super) fn at(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.push(Problem::new(Some(span), message).expected(expected));
    }

    /// Returns what `read` makes of `value`; `None`, with a problem, if that is nothing.
    pub(super) fn read<T>(
        &self,
        value: &Spanned<DeValue<'_>>,
        subject: &str,
        expected: &str,
        read: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Option<T> {
        let read = read(value.get_ref());
        if read.is_none() {
            self.push(wrong_value(value, subject, expected));
        }
        read
    }

    /// Number of problems so far.
    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Returns all problems, in the order in which they were noted.
    pub(super) fn all(self) -> Vec<Problem> {
        self.0.into_inner()
    }
}

/// A table, what it is called in messages, and where it stands.
pub(super) struct Fields<'a, 'i> {
    table: &'a DeTable<'i>,
    what: &'static str,
    span: Range<usize>,
    /// Where its problems are noted.
    pub(super) problems: &'a Problems,
}

impl<'a, 'i> Fields<'a, 'i> {
    /// The fields of `value`, which messages call `what`; keys that are not `known` are reported.
    pub(super) fn of(
        value: &'a Spanned<DeValue<'i>>,
        what: &'static str,
        known: &[&str],
        problems: &'a Problems,
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
        problems: &'a Problems,
    ) -> Self {
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref().as_ref();
            let problem = Problem::new(Some(key.span()), format!("unknown key `{name}` in {what}"));
            let expected = format!("one of {}", known.join(", "));
            // The most common mistake is a misspelt key, and the nearest name shows it.
            problems.push(problem.expected(expected).nearest(nearest(name, known.iter().copied())));
        }
        Self { table, what, span, problems }
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

    /// Notes what is wrong with `key`, and what was expected.
    pub(super) fn wrong(&self, key: &str, message: impl Into<String>, expected: impl Into<String>) {
        self.problems.at(self.span_of(key), message, expected);
    }

    /// Reports that `key` is missing.
    pub(super) fn missing(&self, key: &str, expected: &str) {
        self.problems.at(self.span(), format!("{} has no `{key}`", self.what), expected);
    }

    /// Returns what `read` makes of the value at `key`; `None` if it is absent, or, with a problem,
    /// if it is not what was expected.
    pub(super) fn read<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Option<T> {
        self.problems.read(self.get(key)?, &format!("`{key}`"), expected, read)
    }

    /// The string at `key`, if it is there.
    pub(super) fn text(&self, key: &str, expected: &str) -> Option<&'a str> {
        let value = self.get(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.problems.push(wrong_type(value, &format!("`{key}`"), expected));
        }
        text
    }

    /// The string at `key`, which must be there and not be empty.
    pub(super) fn name(&self, key: &str, expected: &str) -> Option<&'a str> {
        if self.get(key).is_none() {
            // A missing name and an empty one are different mistakes with different messages.
            self.missing(key, expected);
        }
        let text = self.text(key, expected)?;
        if text.trim().is_empty() {
            self.wrong(key, format!("`{key}` is empty"), expected);
        }
        Some(text)
    }

    /// The whole number at `key` within `bounds`, or `default`. The default also stands for one
    /// that is wrong, so that later problems are found in the same run: the plan is not run.
    pub(super) fn count(&self, key: &str, bounds: RangeInclusive<u64>, default: u64) -> u64 {
        let expected = format!("a whole number from {} to {}", bounds.start(), bounds.end());
        let within = |number: &u64| bounds.contains(number);
        self.read(key, &expected, |value| whole(value).filter(within)).unwrap_or(default)
    }

    /// The same for a count of 32 bits.
    pub(super) fn count_32(&self, key: &str, bounds: RangeInclusive<u32>, default: u32) -> u32 {
        let (from, to) = bounds.into_inner();
        let count = self.count(key, from.into()..=to.into(), default.into());
        u32::try_from(count).unwrap_or(default)
    }

    /// The time at `key` within `bounds`, or `default`, as for [`Fields::count`].
    pub(super) fn time(&self, key: &str, bounds: RangeInclusive<Nanos>, default: Nanos) -> Nanos {
        let (from, to) = (bounds.start(), bounds.end());
        let expected =
            format!("a time with its unit from \"{from}\" to \"{to}\", such as \"{default}\"");
        let within = |time: &Nanos| bounds.contains(time);
        self.read(key, &expected, |value| value.as_str()?.parse().ok().filter(within))
            .unwrap_or(default)
    }

    /// The array of tables at `key`, element by element; empty if it is absent.
    pub(super) fn tables(&self, key: &str) -> &'a [Spanned<DeValue<'i>>] {
        let Some(value) = self.get(key) else { return &[] };
        let array = value.get_ref().as_array();
        if array.is_none() {
            let expected = format!("an array of tables, `[[{key}]]`");
            self.problems.push(wrong_type(value, &format!("`{key}`"), &expected));
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
