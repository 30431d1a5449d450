//! Words that several sections use: status words, dates, counts, kinds of path, socket options.

use std::collections::BTreeSet;

use linerate_analysis::{Given, Obtained};
use linerate_model::{Nanos, SocketValue, TestbedKind};
use serde_json::Value;

use crate::document::{EMULATED, Origin};
use crate::sentences;

/// Status words with their definitions, in the words of docs/glossary.md.
pub(crate) const STATUS_WORDS: [(&str, &str); 13] = [
    ("valid", "Nothing disturbed the measurement."),
    ("suspect", "Something disturbed the measurement. The figure is kept and marked."),
    ("invalid", "The measurement cannot give a figure."),
    (
        "impossible",
        "The figure exceeds the physical ceiling of its path, so the instrument is wrong.",
    ),
    (
        "proven",
        "An experiment changed the figure as predicted, and a control run did not change it.",
    ),
    ("suspected", "The evidence supports the claim. No experiment has proven it."),
    ("inconclusive", "The evidence or the comparison does not decide."),
    ("ruled out", "An experiment had no effect, or an effect outside the prediction."),
    ("not tested", "No experiment was run for this claim."),
    (
        "better",
        "The interval of the ratio excludes no change, and the effect is at least the margin.",
    ),
    ("worse", "The same in the other direction."),
    ("equivalent", "The whole interval is within the margin."),
    ("not observed", "Nothing was measured at this stage."),
];

/// Formats a count: `1 point`, `60 points`.
#[must_use]
pub(crate) fn count(n: usize, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

/// Formats a wall clock time in UTC, to the minute.
#[must_use]
pub fn date(at: Nanos) -> String {
    stamp(at, "%Y-%m-%d %H:%M UTC")
}

/// Formats the same without the zone, where there is little room.
#[must_use]
pub(crate) fn minute(at: Nanos) -> String {
    stamp(at, "%Y-%m-%d %H:%M")
}

/// Formats a wall clock time in UTC as RFC 3339, to the second.
#[must_use]
pub(crate) fn rfc3339(at: Nanos) -> String {
    stamp(at, "%Y-%m-%dT%H:%M:%SZ")
}

fn stamp(at: Nanos, form: &str) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(at.0)).map_or_else(
        |_| format!("{} ns after 1970", at.0),
        |stamp| stamp.strftime(form).to_string(),
    )
}

/// Returns the kind of path for running text.
#[must_use]
pub(crate) const fn testbed_words(kind: TestbedKind) -> &'static str {
    match kind {
        TestbedKind::Lab => "on an emulated path between network namespaces of one kernel",
        TestbedKind::Hosts => "on the path between hosts",
        TestbedKind::Loopback => "on one host's loopback",
    }
}

/// Returns the origin of figures as a label; for trials, the kind of path.
#[must_use]
pub(crate) const fn origin_label(origin: Origin) -> &'static str {
    match origin {
        Origin::Measured(TestbedKind::Lab) => EMULATED,
        Origin::Measured(TestbedKind::Hosts) => "hosts",
        Origin::Measured(TestbedKind::Loopback) => "loopback",
        Origin::Computed => "computed",
        Origin::Read => "read",
    }
}

/// Formats a socket option or mode. Where ends or flows differ, all values are listed with their
/// end. A value that differs from the requested one, or that changed until the end, is marked.
#[must_use]
pub fn obtained_text(obtained: &Obtained) -> String {
    let [from, to] = [&obtained.from, &obtained.to]
        .map(|end| end.iter().map(given_text).collect::<BTreeSet<_>>());
    let mut all = from.union(&to);
    match (all.next(), all.next()) {
        (None, _) => String::new(),
        (Some(only), None) => only.clone(),
        _ => {
            let list = |values: &BTreeSet<String>| {
                values.iter().map(String::as_str).collect::<Vec<_>>().join(" | ")
            };
            let ends =
                [("from", &from), ("to", &to)].into_iter().filter(|(_, values)| !values.is_empty());
            ends.map(|(end, values)| format!("{end}: {}", list(values)))
                .collect::<Vec<_>>()
                .join("; ")
        }
    }
}

fn given_text(given: &Given) -> String {
    let SocketValue { requested, granted, at_end } = match given {
        Given::Mode(word) => return word.clone(),
        Given::Steady(of) => return sentences::steady(of),
        Given::Option(option) => option,
    };
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let Some(value) = granted.as_ref().or(at_end.as_ref()) else { return String::new() };
    let mut shown = plain(value);
    if let Some(requested) = requested.as_ref().filter(|requested| *requested != value) {
        shown = format!("{shown} (requested {})", plain(requested));
    }
    if let Some(at_end) = at_end.as_ref().filter(|at_end| *at_end != value) {
        shown = format!("{shown}, {} at the end", plain(at_end));
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_option_is_shown_once_where_all_flows_agree() {
        let option = |granted: u64, requested: Option<u64>, at_end: Option<u64>| {
            let (requested, at_end) = (requested.map(Value::from), at_end.map(Value::from));
            Given::Option(SocketValue { requested, granted: Some(json!(granted)), at_end })
        };
        let told = |from: Vec<Given>, to: Vec<Given>| obtained_text(&Obtained { from, to });
        let buffer = || vec![option(16_384, Some(8_192), Some(87_040))];
        assert_eq!(told(buffer(), buffer()), "16384 (requested 8192), 87040 at the end");
        assert_eq!(
            told(
                vec![option(1, None, None), option(2, Some(2), Some(2))],
                vec![option(3, None, None)]
            ),
            "from: 1 | 2; to: 3"
        );
        assert_eq!(told(Vec::new(), vec![Given::Mode("spin".into())]), "spin");
        assert_eq!(told(Vec::new(), Vec::new()), "");
    }

    #[test]
    fn the_glossary_defines_every_status_word() {
        let glossary = include_str!("../../../docs/glossary.md");
        let headings: Vec<&str> =
            glossary.lines().filter_map(|line| line.strip_prefix("#### ")).collect();
        let defined =
            |word: &str| headings.iter().any(|heading| heading.split(", ").any(|one| one == word));
        let missing: Vec<&str> =
            STATUS_WORDS.iter().map(|(word, _)| *word).filter(|word| !defined(word)).collect();
        assert!(missing.is_empty(), "not in docs/glossary.md: {missing:?}");
    }

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(rfc3339(Nanos(1_795_219_500_000_000_000)), "2026-11-21T00:05:00Z");
        assert_eq!(date(Nanos(0)), "1970-01-01 00:00 UTC");
    }
}
