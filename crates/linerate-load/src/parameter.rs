//! Declaration of workload parameters.
//!
//! One call of a [`Reader`] method declares a parameter (name, type, range, default, meaning) and
//! returns its value. Checks of plans, `linerate list workloads`, the reference and the options of
//! the command line are all made from these calls, so none of them repeats a declaration.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;

use linerate_model::{BitRate, Bytes, Nanos, PacketRate, ParamError, Params, Ratio, nearest};
use serde_json::Value;

use crate::workloads::Rate;

/// One parameter of a workload, as help and the reference print it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Name in plans.
    pub name: &'static str,
    /// Type and range.
    pub takes: Takes,
    /// Default as a plan would write it. It is a description in words where no value has the
    /// meaning of an absent parameter.
    pub default: String,
    /// Meaning, as a clause without a full stop.
    pub meaning: &'static str,
}

impl Parameter {
    /// Checks `value` against type and range.
    ///
    /// # Errors
    /// The value that does not fit, and what is expected.
    pub fn check(&self, value: &Value) -> Result<(), ParamError> {
        if self.takes.fits(value) { Ok(()) } else { Err(self.takes.refusal(self.name, value)) }
    }

    /// Returns the default as a value; `None` where it is a description in words.
    #[must_use]
    pub fn default_value(&self) -> Option<Value> {
        // Words such as "none" are no JSON, so they give no value.
        serde_json::from_str(&self.default).ok()
    }
}

/// Type and range of a parameter. Printed, it completes "expected ...".
#[derive(Clone, Debug, PartialEq)]
pub enum Takes {
    /// Bits per second.
    BitRate,
    /// A whole number without a unit.
    Count {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// True or false.
    Flag,
    /// A file, folder or device of a host.
    Path {
        /// A valid value.
        example: &'static str,
    },
    /// Operations per second, or the bits per second they carry.
    Rate,
    /// A ratio of like quantities.
    Ratio {
        /// The least.
        least: Ratio,
        /// The most.
        most: Ratio,
    },
    /// A number of bytes.
    Size {
        /// The least.
        least: Bytes,
        /// The most.
        most: Bytes,
    },
    /// A name or a list whose form the workload checks.
    Text {
        /// A valid value.
        example: &'static str,
    },
    /// A span of time.
    Time {
        /// The least.
        least: Nanos,
        /// The most.
        most: Nanos,
    },
    /// One of these words.
    Word(Vec<&'static str>),
    /// One of these words, or what the other takes.
    WordOr(&'static [&'static str], Box<Takes>),
}

impl Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BitRate => f.write_str("a bit rate with its unit, such as \"25 Mbit/s\""),
            Self::Count { least, most } => write!(f, "a whole number from {least} to {most}"),
            Self::Flag => f.write_str("true or false"),
            Self::Path { example } => write!(f, "a path, such as \"{example}\""),
            Self::Rate => f.write_str("a rate with its unit, such as \"25 Mbit/s\" or \"10 kpps\""),
            Self::Ratio { least, most } => {
                write!(f, "a ratio with its unit from \"{least}\" to \"{most}\"")
            }
            Self::Size { least, most } => {
                write!(f, "a size with its unit from \"{least}\" to \"{most}\"")
            }
            Self::Text { example } => write!(f, "a name, such as \"{example}\""),
            Self::Time { least, most } => {
                write!(f, "a time with its unit from \"{least}\" to \"{most}\"")
            }
            Self::Word(words) => write!(f, "one of {}", quoted_list(words)),
            Self::WordOr(words, other) => write!(f, "{}, or {other}", quoted_list(words)),
        }
    }
}

fn quoted_list(words: &[&str]) -> String {
    words.iter().map(quoted).collect::<Vec<_>>().join(", ")
}

fn quoted(word: impl Display) -> String {
    format!("\"{word}\"")
}

/// Returns true if `value` is a text that reads as a `Q` from `least` to `most`.
fn in_range<Q: FromStr + PartialOrd>(value: &Value, least: &Q, most: &Q) -> bool {
    parsed::<Q>(value).is_some_and(|quantity| (least..=most).contains(&&quantity))
}

fn parsed<Q: FromStr>(value: &Value) -> Option<Q> {
    value.as_str()?.parse().ok()
}

impl Takes {
    fn fits(&self, value: &Value) -> bool {
        match self {
            Self::BitRate => parsed::<BitRate>(value).is_some(),
            Self::Count { least, most } => {
                value.as_u64().is_some_and(|count| (*least..=*most).contains(&count))
            }
            Self::Flag => value.is_boolean(),
            Self::Rate => {
                parsed::<BitRate>(value).is_some() || parsed::<PacketRate>(value).is_some()
            }
            Self::Ratio { least, most } => in_range(value, least, most),
            Self::Size { least, most } => in_range(value, least, most),
            Self::Path { .. } | Self::Text { .. } => {
                value.as_str().is_some_and(|text| !text.is_empty())
            }
            Self::Time { least, most } => in_range(value, least, most),
            Self::Word(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Self::WordOr(words, other) => {
                other.fits(value) || value.as_str().is_some_and(|text| words.contains(&text))
            }
        }
    }

    /// Returns true for quantities that are written with a unit.
    fn has_unit(&self) -> bool {
        match self {
            Self::BitRate
            | Self::Rate
            | Self::Ratio { .. }
            | Self::Size { .. }
            | Self::Time { .. } => true,
            Self::WordOr(_, other) => other.has_unit(),
            Self::Count { .. }
            | Self::Flag
            | Self::Path { .. }
            | Self::Text { .. }
            | Self::Word(_) => false,
        }
    }

    fn words(&self) -> &[&'static str] {
        match self {
            Self::Word(words) => words,
            Self::WordOr(words, _) => words,
            _ => &[],
        }
    }

    /// Describes why `value`, which does not fit, is refused for parameter `key`.
    fn refusal(&self, key: &str, value: &Value) -> ParamError {
        let cause = match value {
            // The unit is the most frequent mistake, so its absence is named first.
            Value::Number(number) if self.has_unit() => format!("{number} has no unit"),
            Value::Array(_) => "a list does not fit".to_owned(),
            Value::Object(_) => "a table does not fit".to_owned(),
            value => format!("{value} does not fit"),
        };
        let near = value.as_str().and_then(|text| nearest(text, self.words().iter().copied()));
        ParamError {
            key: key.to_owned(),
            cause,
            expected: Some(self.to_string()),
            nearest: near.map(str::to_owned),
        }
    }
}

/// Words of a plan and the values they stand for.
pub(crate) type Words<T> = &'static [(&'static str, T)];

/// Returns the word that stands for `value`.
///
/// # Panics
/// If `words` has none.
pub(crate) fn word<T: PartialEq>(words: Words<T>, value: &T) -> &'static str {
    let entry = words.iter().find(|(_, candidate)| candidate == value);
    entry.expect("every value that a plan can choose has a word").0
}

/// Reader of the parameters of one job. Each of its methods declares one parameter and returns its
/// value: the one given, or the default if none was given or the given one does not fit.
///
/// The first declaration of a name is the one that help prints. A workload whose default or
/// meaning of a shared parameter is special declares that parameter before the group it is part of.
pub(crate) struct Reader<'p> {
    given: &'p Params,
    declared: Vec<Parameter>,
    errors: Vec<ParamError>,
}

impl<'p> Reader<'p> {
    /// A reader of `given`, with nothing declared.
    pub(crate) fn new(given: &'p Params) -> Self {
        Self { given, declared: Vec::new(), errors: Vec::new() }
    }

    /// Declares `parameter` and returns its value as `read` makes it of the given one; `None` if
    /// none is given, or it does not fit. The typed methods below are shorter.
    pub(crate) fn value<T>(
        &mut self,
        parameter: Parameter,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        let given = self.given.get(parameter.name);
        let value = given.filter(|given| parameter.takes.fits(given)).and_then(read);
        // A shared group may declare a parameter that the workload has declared already: the first
        // declaration counts.
        if self.declared.iter().any(|declared| declared.name == parameter.name) {
            return value;
        }
        if let Some(refused) = given.filter(|_| value.is_none()) {
            self.errors.push(parameter.takes.refusal(parameter.name, refused));
        }
        self.declared.push(parameter);
        value
    }

    /// A whole number.
    pub(crate) fn count<N: TryFrom<u64> + Display>(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
        default: N,
        meaning: &'static str,
    ) -> N {
        self.optional_count(name, range, &default.to_string(), meaning).unwrap_or(default)
    }

    /// A whole number without a default; `absent` describes what its absence means.
    pub(crate) fn optional_count<N: TryFrom<u64>>(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
        absent: &str,
        meaning: &'static str,
    ) -> Option<N> {
        let (least, most) = range.into_inner();
        let takes = Takes::Count { least, most };
        let parameter = Parameter { name, takes, default: absent.to_owned(), meaning };
        self.value(parameter, |value| N::try_from(value.as_u64()?).ok())
    }

    /// True or false.
    pub(crate) fn flag(
        &mut self,
        name: &'static str,
        default: bool,
        meaning: &'static str,
    ) -> bool {
        let parameter =
            Parameter { name, takes: Takes::Flag, default: default.to_string(), meaning };
        self.value(parameter, Value::as_bool).unwrap_or(default)
    }

    /// A number of bytes.
    pub(crate) fn size(
        &mut self,
        name: &'static str,
        range: RangeInclusive<Bytes>,
        default: Bytes,
        meaning: &'static str,
    ) -> Bytes {
        self.optional_size(name, range, &quoted(default), meaning).unwrap_or(default)
    }

    /// A number of bytes without a default; `absent` describes what its absence means.
    pub(crate) fn optional_size(
        &mut self,
        name: &'static str,
        range: RangeInclusive<Bytes>,
        absent: &str,
        meaning: &'static str,
    ) -> Option<Bytes> {
        let (least, most) = range.into_inner();
        let takes = Takes::Size { least, most };
        self.value(Parameter { name, takes, default: absent.to_owned(), meaning }, parsed)
    }

    /// A span of time.
    pub(crate) fn time(
        &mut self,
        name: &'static str,
        range: RangeInclusive<Nanos>,
        default: Nanos,
        meaning: &'static str,
    ) -> Nanos {
        self.optional_time(name, range, &quoted(default), meaning).unwrap_or(default)
    }

    /// A span of time without a default; `absent` describes what its absence means.
    pub(crate) fn optional_time(
        &mut self,
        name: &'static str,
        range: RangeInclusive<Nanos>,
        absent: &str,
        meaning: &'static str,
    ) -> Option<Nanos> {
        let (least, most) = range.into_inner();
        let takes = Takes::Time { least, most };
        self.value(Parameter { name, takes, default: absent.to_owned(), meaning }, parsed)
    }

    /// A ratio.
    pub(crate) fn ratio(
        &mut self,
        name: &'static str,
        range: RangeInclusive<Ratio>,
        default: Ratio,
        meaning: &'static str,
    ) -> Ratio {
        let (least, most) = range.into_inner();
        let takes = Takes::Ratio { least, most };
        // The default in use is the printed one to the last bit: `0.999` and `99.9 %` differ there.
        let written = default.to_string();
        let parameter = Parameter { name, takes, default: quoted(&written), meaning };
        self.value(parameter, parsed).unwrap_or_else(|| written.parse().unwrap_or(default))
    }

    /// A bit rate without a default: absent, there is no limit.
    pub(crate) fn bit_rate(
        &mut self,
        name: &'static str,
        meaning: &'static str,
    ) -> Option<BitRate> {
        let default = "none".to_owned();
        self.value(Parameter { name, takes: Takes::BitRate, default, meaning }, parsed)
    }

    /// A rate of operations; `absent` describes what its absence means.
    pub(crate) fn rate(
        &mut self,
        name: &'static str,
        absent: &str,
        meaning: &'static str,
    ) -> Option<Rate> {
        let default = absent.to_owned();
        self.value(Parameter { name, takes: Takes::Rate, default, meaning }, parsed)
    }

    /// A text.
    pub(crate) fn text(
        &mut self,
        name: &'static str,
        example: &'static str,
        default: &str,
        meaning: &'static str,
    ) -> String {
        let given = self.optional_text(name, example, &quoted(default), meaning);
        given.unwrap_or_else(|| default.to_owned())
    }

    /// A text without a default; `absent` describes what its absence means.
    pub(crate) fn optional_text(
        &mut self,
        name: &'static str,
        example: &'static str,
        absent: &str,
        meaning: &'static str,
    ) -> Option<String> {
        self.written(name, Takes::Text { example }, absent, meaning)
    }

    /// A path.
    pub(crate) fn path(
        &mut self,
        name: &'static str,
        example: &'static str,
        default: &str,
        meaning: &'static str,
    ) -> String {
        let given = self.optional_path(name, example, &quoted(default), meaning);
        given.unwrap_or_else(|| default.to_owned())
    }

    /// A path without a default; `absent` describes what its absence means.
    pub(crate) fn optional_path(
        &mut self,
        name: &'static str,
        example: &'static str,
        absent: &str,
        meaning: &'static str,
    ) -> Option<String> {
        self.written(name, Takes::Path { example }, absent, meaning)
    }

    fn written(
        &mut self,
        name: &'static str,
        takes: Takes,
        absent: &str,
        meaning: &'static str,
    ) -> Option<String> {
        self.value(Parameter { name, takes, default: absent.to_owned(), meaning }, |value| {
            value.as_str().map(str::to_owned)
        })
    }

    /// A text that reads as a `T`; `absent` describes what its absence means.
    pub(crate) fn structured<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
        example: &'static str,
        absent: &str,
        meaning: &'static str,
    ) -> Option<T> {
        let text = self.optional_text(name, example, absent, meaning)?;
        let value = text.parse::<T>();
        value.map_err(|cause| self.errors.push(wrong(name, cause.to_string()))).ok()
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy + PartialEq>(
        &mut self,
        name: &'static str,
        words: Words<T>,
        default: T,
        meaning: &'static str,
    ) -> T {
        let takes = Takes::Word(words.iter().map(|(word, _)| *word).collect());
        let parameter = Parameter { name, takes, default: quoted(word(words, &default)), meaning };
        let value = self.value(parameter, |given| {
            let given = given.as_str()?;
            words.iter().find(|(word, _)| *word == given).map(|(_, value)| *value)
        });
        value.unwrap_or(default)
    }

    /// Returns everything declared.
    pub(crate) fn declared(self) -> Vec<Parameter> {
        self.declared
    }

    /// Returns everything wrong with single parameters, in the order in which they are given.
    pub(crate) fn errors(self) -> Vec<ParamError> {
        let mut errors = self.errors;
        // Unknown names are found at the end, when everything has been declared.
        let known = || self.declared.iter().map(|parameter| parameter.name);
        let unknown = self.given.0.keys().filter(|key| !known().any(|name| name == key.as_str()));
        errors.extend(unknown.map(|key| ParamError {
            nearest: nearest(key, known()).map(str::to_owned),
            ..wrong(key, "unknown parameter")
        }));
        // In the order of the plan, in which a person reads it.
        let place = |key: &str| self.given.0.keys().position(|given| given == key);
        errors.sort_by_key(|error| place(&error.key));
        errors
    }
}

/// A parameter that does not go with the others, or whose text does not parse.
pub(crate) fn wrong(key: &str, cause: impl Into<String>) -> ParamError {
    ParamError { key: key.to_owned(), cause: cause.into(), expected: None, nearest: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::WORKLOADS;

    use super::*;

    /// Returns values at both ends of the range of `takes`, and values outside of it.
    fn samples(takes: &Takes) -> (Vec<Value>, Vec<Value>) {
        let words = |words: &[&str]| words.iter().map(|word| json!(word)).collect::<Vec<_>>();
        let below = |least: u64, unit: &str| {
            least.checked_sub(1).map(|below| json!(format!("{below} {unit}"))).into_iter()
        };
        match takes {
            Takes::BitRate => {
                (vec![json!("8 bit/s"), json!("25 Gbit/s")], vec![json!(25), json!("10 kpps")])
            }
            Takes::Count { least, most } => {
                let below = least.checked_sub(1).map(|below| json!(below));
                let bad = [json!(most + 1), json!("1"), json!(-1)].into_iter().chain(below);
                (vec![json!(least), json!(most)], bad.collect())
            }
            Takes::Flag => (vec![json!(true), json!(false)], vec![json!("true"), json!(1)]),
            Takes::Rate => {
                (vec![json!("25 Mbit/s"), json!("10 kpps")], vec![json!(25), json!("25")])
            }
            Takes::Ratio { least, most } => (
                vec![json!(least.to_string()), json!(most.to_string())],
                vec![json!(1), json!(Ratio(most.0 + 1.0).to_string()), json!("-1 %")],
            ),
            Takes::Size { least, most } => {
                let bad = [json!(least.0), json!(format!("{} B", most.0 + 1)), json!("64 KiBit")];
                (
                    vec![json!(least.to_string()), json!(most.to_string())],
                    bad.into_iter().chain(below(least.0, "B")).collect(),
                )
            }
            Takes::Path { example } | Takes::Text { example } => {
                (vec![json!(example)], vec![json!(""), json!(1)])
            }
            Takes::Time { least, most } => {
                let bad = [json!(1), json!(format!("{} ns", most.0 + 1)), json!("1 B")];
                (
                    vec![json!(least.to_string()), json!(most.to_string())],
                    bad.into_iter().chain(below(least.0, "ns")).collect(),
                )
            }
            Takes::Word(known) => (words(known), vec![json!("none such"), json!(true)]),
            Takes::WordOr(known, other) => {
                let (good, bad) = samples(other);
                let bad = bad.into_iter().chain([json!("none such")]);
                ([words(known), good].concat(), bad.collect())
            }
        }
    }

    #[test]
    fn a_parameter_takes_its_range_and_refuses_everything_else_with_name_and_range() {
        let mut n_parameters = 0;
        for workload in WORKLOADS {
            for parameter in workload.parameters() {
                let checked = |value: &Value| {
                    let mut params = Params::default();
                    params.set(parameter.name, value.clone());
                    workload.check(&params)
                };
                let (good, bad) = samples(&parameter.takes);
                for value in good {
                    // A value in range may still not go with the defaults of the others.
                    let errors = checked(&value);
                    let unfit = errors
                        .iter()
                        .find(|error| error.expected.is_some() || error.key.is_empty());
                    assert_eq!(unfit, None, "{} {} = {value}", workload.name(), parameter.name);
                    assert_eq!(parameter.check(&value), Ok(()));
                }
                for value in bad {
                    let errors = checked(&value);
                    let expected = parameter.takes.to_string();
                    assert_eq!(errors.len(), 1, "{} {} = {value}", workload.name(), parameter.name);
                    assert_eq!(
                        (errors[0].key.as_str(), errors[0].expected.as_ref()),
                        (parameter.name, Some(&expected))
                    );
                    assert_eq!(parameter.check(&value).as_ref(), Err(&errors[0]));
                }
                n_parameters += 1;
            }
        }
        assert!(n_parameters > 70, "{n_parameters}");
    }

    #[test]
    fn a_bare_number_lacks_its_unit_and_a_misspelt_word_finds_its_nearest() {
        let refusal = |takes: Takes, value: Value| takes.refusal("key", &value).to_string();
        assert_eq!(
            refusal(Takes::Rate, json!(25)),
            "key: 25 has no unit, expected a rate with its unit, such as \"25 Mbit/s\" or \"10 \
                kpps\""
        );
        assert_eq!(
            refusal(Takes::Count { least: 1, most: 9 }, json!("2")),
            "key: \"2\" does not fit, expected a whole number from 1 to 9"
        );
        let words = Takes::Word(vec!["copy", "discard"]);
        assert_eq!(words.refusal("key", &json!("discrad")).nearest.as_deref(), Some("discard"));
    }

    #[test]
    fn the_first_declaration_of_a_name_is_printed_and_refuses_once() {
        let given = Params([("depth".to_owned(), json!(0))].into_iter().collect());
        let mut reader = Reader::new(&given);
        let own: u32 = reader.count("depth", 1..=4, 3, "of this workload");
        let shared: u32 = reader.count("depth", 1..=9, 1, "of the group");
        assert_eq!((own, shared), (3, 1));
        assert_eq!(reader.declared.len(), 1);
        assert_eq!((reader.declared[0].default.as_str(), reader.errors.len()), ("3", 1));
    }
}
