//! How a workload declares its parameters: each one's name, what it takes, its default and its
//! meaning, in one table that checks, help and the reference are made of.

use std::fmt;

use linerate_model::{BitRate, Bytes, Nanos, PacketRate, ParamError, Params, Ratio, nearest};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A parameter as help, `linerate list workloads` and the reference print it.
#[derive(Clone, Copy, Debug)]
pub struct ParamDoc {
    /// Its name.
    pub name: &'static str,
    /// What it may be set to. This is where bounds are written, and [`read`] is where they are
    /// kept.
    pub takes: Takes,
    /// Its default as written in a plan, or in words where it is not a value.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// Declares a group of parameters, each once: a field, its default, what it takes, the default as
/// written in a plan, and its meaning. The field's documentation, the default of the group and
/// [`ParamDoc`]s of the group follow from that.
macro_rules! parameters {
    (
        $(#[$about:meta])*
        $visible:vis struct $group:ident {
            $($of:vis $name:ident: $type:ty = $default:expr, $takes:expr, $written:literal, $meaning:literal;)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, ::serde::Deserialize)]
        #[serde(default)]
        $visible struct $group {
            $(#[doc = $meaning] $of $name: $type),+
        }

        impl Default for $group {
            fn default() -> Self {
                Self { $($name: $default),+ }
            }
        }

        impl $group {
            /// As documented.
            pub(crate) const DOCS: &[$crate::parameter::ParamDoc] = &[$($crate::parameter::ParamDoc {
                name: stringify!($name),
                takes: $takes,
                default: $written,
                meaning: $meaning,
            }),+];
        }
    };
}

pub(crate) use parameters;

/// What a parameter may be set to; printed, it completes "expected ...".
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    /// Bits per second.
    BitRate,
    /// A bare whole number.
    Count {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A bare whole number, or a word that stands for one.
    CountOrWord {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
        /// The words.
        words: &'static [&'static str],
    },
    /// Yes or no.
    Flag,
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
    /// A number of bytes, or a word that stands for several.
    SizeOrWord {
        /// The least.
        least: Bytes,
        /// The most.
        most: Bytes,
        /// The words.
        words: &'static [&'static str],
    },
    /// A name of something outside linerate.
    Text {
        /// One that everybody knows.
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
    Word(&'static [&'static str]),
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BitRate => f.write_str("a bit rate with its unit, such as \"25 Mbit/s\""),
            Self::Count { least, most } => write!(f, "a whole number from {least} to {most}"),
            Self::CountOrWord { least, most, words } => {
                write!(f, "{}, or a whole number from {least} to {most}", quoted(words))
            }
            Self::Flag => f.write_str("true or false"),
            Self::Rate => f.write_str("a rate with its unit, such as \"25 Mbit/s\" or \"10 kpps\""),
            Self::Ratio { least, most } => {
                write!(f, "a ratio with its unit from \"{least}\" to \"{most}\"")
            }
            Self::Size { least, most } => {
                write!(f, "a size with its unit from \"{least}\" to \"{most}\"")
            }
            Self::SizeOrWord { least, most, words } => {
                write!(
                    f,
                    "{}, or a size with its unit from \"{least}\" to \"{most}\"",
                    quoted(words)
                )
            }
            Self::Text { example } => write!(f, "a name, such as \"{example}\""),
            Self::Time { least, most } => {
                write!(f, "a time with its unit from \"{least}\" to \"{most}\"")
            }
            Self::Word(words) => write!(f, "one of {}", quoted(words)),
        }
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

impl Takes {
    /// Whether `value` is one of what it takes.
    fn fits(&self, value: &Value) -> bool {
        let text = value.as_str();
        match self {
            Self::BitRate => text.is_some_and(is::<BitRate>),
            Self::Count { least, most } => {
                value.as_u64().is_some_and(|count| (*least..=*most).contains(&count))
            }
            Self::CountOrWord { least, most, words } => {
                let count = Self::Count { least: *least, most: *most };
                text.map_or_else(|| count.fits(value), |text| words.contains(&text))
            }
            Self::Flag => value.is_boolean(),
            Self::Rate => text.is_some_and(|text| is::<BitRate>(text) || is::<PacketRate>(text)),
            Self::Ratio { least, most } => {
                let ratio = text.and_then(|text| text.parse::<Ratio>().ok());
                ratio.is_some_and(|ratio| (least.0..=most.0).contains(&ratio.0))
            }
            Self::Size { least, most } => {
                let size = text.and_then(|text| text.parse::<Bytes>().ok());
                size.is_some_and(|size| (*least..=*most).contains(&size))
            }
            Self::SizeOrWord { least, most, words } => {
                let size = Self::Size { least: *least, most: *most };
                size.fits(value) || text.is_some_and(|text| words.contains(&text))
            }
            Self::Text { .. } => text.is_some_and(|text| !text.is_empty()),
            Self::Time { least, most } => {
                let time = text.and_then(|text| text.parse::<Nanos>().ok());
                time.is_some_and(|time| (*least..=*most).contains(&time))
            }
            Self::Word(words) => text.is_some_and(|text| words.contains(&text)),
        }
    }

    /// Whether it takes sizes and this is one.
    pub(crate) fn fits_bytes(&self, size: Bytes) -> bool {
        matches!(self, Self::Size { least, most } if (*least..=*most).contains(&size))
    }

    /// What is wrong with `value`, if anything.
    fn refusal(&self, key: &str, value: &Value) -> Option<ParamError> {
        if self.fits(value) {
            return None;
        }
        let cause = match (self, value) {
            (
                Self::BitRate
                | Self::Rate
                | Self::Ratio { .. }
                | Self::Size { .. }
                | Self::SizeOrWord { .. }
                | Self::Time { .. },
                Value::Number(number),
            ) => {
                format!("{number} has no unit")
            }
            (_, Value::Array(_)) => "a list does not fit".to_owned(),
            (_, Value::Object(_)) => "a table does not fit".to_owned(),
            (_, value) => format!("{value} does not fit"),
        };
        let near = match (self, value.as_str()) {
            (
                Self::Word(words)
                | Self::CountOrWord { words, .. }
                | Self::SizeOrWord { words, .. },
                Some(text),
            ) => nearest(text, words.iter().copied()),
            _ => None,
        };
        let nearest = near.map(str::to_owned);
        Some(ParamError { key: key.to_owned(), cause, expected: Some(self.to_string()), nearest })
    }
}

fn is<Q: std::str::FromStr>(text: &str) -> bool {
    text.parse::<Q>().is_ok()
}

/// Reads `params` as `P`, whose fields are the parameters that `known` declares; `settle` fills in
/// defaults that depend on others, and says whether they go together.
///
/// # Errors
/// Every parameter that is unknown or is not what it takes, all at once, so that a plan with three
/// mistakes shows three; if there is none, the first that does not go with the others.
pub(crate) fn read<P: DeserializeOwned>(
    params: &Params,
    known: &[ParamDoc],
    settle: impl Fn(&mut P) -> Result<(), ParamError>,
) -> Result<P, Vec<ParamError>> {
    let refusal = |(key, value): (&String, &Value)| match known
        .iter()
        .find(|parameter| parameter.name == key)
    {
        Some(parameter) => parameter.takes.refusal(key, value),
        None => {
            let nearest =
                nearest(key, known.iter().map(|parameter| parameter.name)).map(str::to_owned);
            Some(ParamError {
                key: key.clone(),
                cause: "unknown parameter".into(),
                expected: None,
                nearest,
            })
        }
    };
    let errors: Vec<ParamError> = params.0.iter().filter_map(refusal).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut typed: P = params.typed().map_err(|error| vec![error])?;
    settle(&mut typed).map_err(|error| vec![error])?;
    Ok(typed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::WORKLOADS;

    use super::*;

    /// Values at both ends of what `takes` takes, and some it does not take.
    fn samples(takes: Takes) -> (Vec<Value>, Vec<Value>) {
        let words = |words: &[&str]| words.iter().map(|word| json!(word)).collect::<Vec<_>>();
        match takes {
            Takes::BitRate => {
                (vec![json!("8 bit/s"), json!("25 Gbit/s")], vec![json!(25), json!("10 kpps")])
            }
            Takes::Count { least, most } => {
                (vec![json!(least), json!(most)], vec![json!(most + 1), json!("1"), json!(-1)])
            }
            Takes::CountOrWord { least, most, words: known } => (
                [words(known), vec![json!(least), json!(most)]].concat(),
                vec![json!(most + 1), json!("none such")],
            ),
            Takes::Flag => (vec![json!(true), json!(false)], vec![json!("true"), json!(1)]),
            Takes::Rate => {
                (vec![json!("25 Mbit/s"), json!("10 kpps")], vec![json!(25), json!("25")])
            }
            Takes::Ratio { least, most } => (
                vec![json!(least.to_string()), json!(most.to_string())],
                vec![json!(1), json!("70"), json!(Ratio(most.0 + 1.0).to_string())],
            ),
            Takes::Size { least, most } => (
                vec![json!(least.to_string()), json!(most.to_string())],
                vec![json!(least.0), json!(format!("{} B", most.0 + 1)), json!("64 KiBit")],
            ),
            Takes::SizeOrWord { least, most, words: known } => (
                [words(known), vec![json!(least.to_string()), json!(most.to_string())]].concat(),
                vec![json!(least.0), json!(format!("{} B", most.0 + 1)), json!("none such")],
            ),
            Takes::Text { example } => (vec![json!(example)], vec![json!(""), json!(1)]),
            Takes::Time { least, most } => (
                vec![json!(least.to_string()), json!(most.to_string())],
                vec![json!(1), json!(format!("{} ns", most.0 + 1)), json!("1 B")],
            ),
            Takes::Word(known) => (words(known), vec![json!("none such"), json!(true)]),
        }
    }

    #[test]
    fn a_parameter_takes_what_it_says_and_nothing_else() {
        let mut n_parameters = 0;
        for workload in WORKLOADS {
            for parameter in workload.parameters() {
                let checked = |value: &Value| {
                    let mut params = Params::default();
                    params.set(parameter.name, value.clone());
                    workload.check(&params)
                };
                let (good, bad) = samples(parameter.takes);
                for value in good {
                    // What a parameter takes by itself may still not go with the defaults of the
                    // others.
                    let errors = checked(&value);
                    let unfit = errors
                        .iter()
                        .find(|error| error.expected.is_some() || error.key.is_empty());
                    assert_eq!(unfit, None, "{} {} = {value}", workload.name(), parameter.name);
                }
                for value in bad {
                    let errors = checked(&value);
                    let expected = parameter.takes.to_string();
                    assert_eq!(errors.len(), 1, "{} {} = {value}", workload.name(), parameter.name);
                    assert_eq!(
                        (errors[0].key.as_str(), errors[0].expected.as_ref()),
                        (parameter.name, Some(&expected))
                    );
                }
                n_parameters += 1;
            }
        }
        assert!(n_parameters > 70, "{n_parameters}");
    }

    #[test]
    fn a_default_that_is_written_as_a_value_is_one_it_takes() {
        for workload in WORKLOADS {
            for parameter in workload.parameters() {
                // Anything else is prose, such as "as fast as possible".
                let Ok(value) = serde_json::from_str::<Value>(parameter.default) else { continue };
                assert!(
                    parameter.takes.fits(&value),
                    "{} {} = {value}",
                    workload.name(),
                    parameter.name
                );
            }
        }
    }

    #[test]
    fn a_bare_number_lacks_its_unit_and_a_misspelt_word_finds_its_nearest() {
        let refusal = |takes: Takes, value: Value| {
            takes.refusal("key", &value).expect("it does not fit").to_string()
        };
        assert_eq!(
            refusal(Takes::Rate, json!(25)),
            "key: 25 has no unit, expected a rate with its unit, such as \"25 Mbit/s\" or \"10 \
                kpps\""
        );
        assert_eq!(
            refusal(Takes::Count { least: 1, most: 9 }, json!("2")),
            "key: \"2\" does not fit, expected a whole number from 1 to 9"
        );
        let words = Takes::Word(&["copy", "discard"]);
        assert_eq!(
            words.refusal("key", &json!("discrad")).and_then(|error| error.nearest).as_deref(),
            Some("discard")
        );
    }
}
