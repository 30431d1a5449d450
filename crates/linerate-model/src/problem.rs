//! Problems of a person's input, all of them at once.

use std::ops::Range;

use crate::{Lines, printable};

/// One problem in a text a person wrote (a plan, a lab file, a command line value).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Problem {
    /// Byte range in the text, where known.
    pub span: Option<Range<usize>>,
    /// The problem, lower case, no full stop.
    pub message: String,
    /// The expected form, where that helps.
    pub expected: Option<String>,
    /// The nearest known name, for a misspelt one.
    pub nearest: Option<String>,
}

impl Problem {
    /// A problem at `span`.
    pub fn new(span: Option<Range<usize>>, message: impl Into<String>) -> Self {
        // It may quote what it is about.
        let message = printable(&message.into(), Lines::One).into_owned();
        Self { span, message, expected: None, nearest: None }
    }

    /// Returns a deserializer's message about a value at `span`, in the words of those who write
    /// plans rather than programs.
    pub fn from_serde(span: Option<Range<usize>>, message: &str) -> Self {
        let message = message.trim();
        // The messages of serde have a fixed form. They name types of the language, which mean
        // nothing to the author of a plan.
        for kind in ["invalid type: ", "invalid value: "] {
            if let Some((found, expected)) =
                message.strip_prefix(kind).and_then(|rest| rest.split_once(", expected "))
            {
                let (found, expected) = (found_in_words(found), expected_in_words(expected));
                // The usual mistake with quantities is a number without a unit.
                let bare =
                    found.starts_with(|c: char| c.is_ascii_digit()) && expected.contains(" unit");
                let message = if bare {
                    format!("{found} has no unit")
                } else {
                    format!("{found} does not fit")
                };
                return Self::new(span, message).expected(expected);
            }
        }
        for (kind, noun) in [("unknown field `", "key"), ("unknown variant `", "choice")] {
            if let Some((name, known)) =
                message.strip_prefix(kind).and_then(|rest| rest.split_once('`'))
            {
                // What is known stands in backticks, too: every second piece is a name.
                let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
                let expected =
                    format!("{}{}", if known.len() > 1 { "one of " } else { "" }, known.join(", "));
                let problem = Self::new(span, format!("unknown {noun} `{name}`"));
                return problem.expected(expected).nearest(nearest(name, known.iter().copied()));
            }
        }
        match message.strip_prefix("missing field ") {
            Some(name) => Self::new(span, format!("{name} is missing")),
            None => Self::new(span, message),
        }
    }

    /// The same, saying what was expected.
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(printable(&expected.into(), Lines::One).into_owned());
        self
    }

    /// The same, naming the nearest known name.
    pub fn nearest(mut self, nearest: Option<&str>) -> Self {
        self.nearest = nearest.map(str::to_owned);
        self
    }
}

/// Returns the value that serde found, without the names of its types.
fn found_in_words(found: &str) -> String {
    match found {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        "null" | "unit value" | "Option value" => "nothing".to_owned(),
        _ => {
            let value = ["integer ", "floating point ", "boolean "]
                .iter()
                .find_map(|kind| found.strip_prefix(kind));
            let value = value.or_else(|| found.strip_prefix("string ")).unwrap_or(found);
            value.trim_matches('`').to_owned()
        }
    }
}

/// Returns the form that serde expected: types of the language become their contents, our own words
/// stay.
fn expected_in_words(expected: &str) -> String {
    let whole = |least: u64, most: u64| format!("a whole number from {least} to {most}");
    match expected {
        "u8" => whole(0, u8::MAX.into()),
        "u16" => whole(0, u16::MAX.into()),
        "u32" => whole(0, u32::MAX.into()),
        "u64" | "usize" => whole(0, u64::MAX),
        "a nonzero u32" => whole(1, u32::MAX.into()),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "a text in quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        _ if expected.starts_with("struct ") => "a table".to_owned(),
        _ => match expected.strip_prefix("an array of length ") {
            Some(length) => format!("a list of {length}"),
            None => expected.to_owned(),
        },
    }
}

/// The known name closest to `word`, if it is close enough to be what was meant (at most a third of
/// it wrong).
///
/// # Examples
/// ```
/// use linerate_model::nearest;
///
/// assert_eq!(nearest("tcp_steam", ["tcp_stream", "udp_stream"]), Some("tcp_stream"));
/// assert_eq!(nearest("disk", ["tcp_stream", "udp_stream"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    // Short names may have one wrong letter.
    let limit = length.max(3).div_ceil(3);
    known
        .into_iter()
        // As many characters at least are wrong as one is longer: a word of a megabyte is compared
        // with no name.
        .filter(|name| name.chars().count().abs_diff(length) <= limit)
        .map(|name| (edit_distance(word, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Levenshtein distance in characters; O(len(a) * len(b)).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        // One row is enough, because each cell needs only its three neighbours.
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_finds_its_name_and_nonsense_finds_none() {
        let known = ["tcp_stream", "udp_stream", "tcp_rr"];
        assert_eq!(nearest("tcp_steam", known), Some("tcp_stream"));
        assert_eq!(nearest("quic", known), None);
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "the test reads only the values that do not fit")]
    struct Sample {
        rate: crate::BitRate,
        count: Option<u32>,
        some: Option<std::num::NonZeroU32>,
        ends: Option<[String; 2]>,
        on: Option<bool>,
    }

    /// These messages are made by serde itself: should it word them otherwise one day, this fails.
    #[test]
    fn what_a_deserializer_says_is_told_in_plain_words() {
        let told = |text: &str| {
            let error = toml::from_str::<Sample>(text).expect_err(text);
            let problem = Problem::from_serde(error.span(), error.message());
            let place = problem.span.map(|span| text[span].to_owned()).unwrap_or_default();
            format!("{place} | {} | {}", problem.message, problem.expected.unwrap_or_default())
        };
        let rate = "a bit rate with its unit, such as \"25 Gbit/s\"";
        assert_eq!(told("rate = 25"), format!("25 | 25 has no unit | {rate}"));
        assert_eq!(told("rate = true"), format!("true | true does not fit | {rate}"));
        let rest = |text: &str| told(&format!("rate = '1 bit/s'\n{text}"));
        assert_eq!(
            rest("count = 'x'"),
            "'x' | \"x\" does not fit | a whole number from 0 to 4294967295"
        );
        assert_eq!(
            rest("count = -1"),
            "-1 | -1 does not fit | a whole number from 0 to 4294967295"
        );
        assert_eq!(rest("some = 0"), "0 | 0 does not fit | a whole number from 1 to 4294967295");
        assert_eq!(rest("ends = 2.5"), "2.5 | 2.5 does not fit | a list of 2");
        assert_eq!(rest("on = [1]"), "[1] | a list does not fit | true or false");
        assert_eq!(
            rest("cuont = 1"),
            "cuont | unknown key `cuont` | one of rate, count, some, ends, on"
        );
        assert!(told("count = 1").contains("`rate` is missing"));
        let near = Problem::from_serde(None, "unknown variant `onn`, expected `on` or `off`");
        assert_eq!(
            (near.message.as_str(), near.nearest.as_deref()),
            ("unknown choice `onn`", Some("on"))
        );
    }
}
