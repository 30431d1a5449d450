//! Reading a calculator's options, and checking them: shared by all limit models.

use linerate_model::{BitRate, Bytes, ParamError, Params, nearest};
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::OptionDoc;

/// Declares the options of a calculator: the fields of its `Parameters`, and their help.
macro_rules! options {
    ($($(#[$attribute:meta])* $name:ident: $kind:ty = $doc:ident($($text:expr),+);)+) => {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Parameters { $($(#[$attribute])* $name: $kind,)+ }

        const OPTIONS: &[$crate::limits::OptionDoc] = &[$(
            $doc($crate::limits::options::plain(stringify!($name)), $($text),+)
        ),+];
    };
}
pub(super) use options;

/// Returns the name of a field without the mark of a name that is a keyword.
pub(super) const fn plain(name: &str) -> &str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// Reads `params` as `P`.
///
/// # Errors
/// Every unknown option, every required one that is missing, and every value that does not fit, all
/// at once.
pub(super) fn read<P: DeserializeOwned>(
    params: &Params,
    options: &[OptionDoc],
) -> Result<P, Vec<ParamError>> {
    let mut errors = Vec::new();
    for (key, value) in &params.0 {
        if !options.iter().any(|option| option.name == key) {
            let near = nearest(key, options.iter().map(|option| option.name)).map(str::to_owned);
            errors.push(ParamError {
                key: key.clone(),
                cause: "unknown option".into(),
                expected: None,
                nearest: near,
            });
            continue;
        }
        // Each option is read alone, because a reader of the whole stops at its first error.
        let single = Params(Map::from_iter([(key.clone(), value.clone())]));
        // Alone, a good value still lacks the other required options; those are looked for below.
        errors.extend(
            single
                .typed::<P>()
                .err()
                .filter(|error| !error.cause.ends_with(" is missing"))
                .map(|error| ParamError { key: key.clone(), ..error }),
        );
    }
    // An empty default marks a required option.
    for option in options.iter().filter(|option| option.default.is_empty()) {
        if params.get(option.name).is_none_or(Value::is_null) {
            errors.push(refusal(option.name, format!("is required: {}", option.meaning)));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    with_defaults(params, options).typed().map_err(|error| vec![error])
}

/// Returns `params` with the default of each option that was not given.
#[must_use]
pub fn with_defaults(params: &Params, options: &[OptionDoc]) -> Params {
    let mut filled = params.clone();
    let absent = options.iter().filter(|option| params.get(option.name).is_none());
    for option in absent.filter(|option| !["", "-"].contains(&option.default)) {
        filled.set(option.name, option_value(option.default));
    }
    filled
}

/// Returns the value of an option that was typed: a bare number is a count, `true` and `false` are
/// themselves, any other text is a quantity with its unit.
#[must_use]
pub fn option_value(text: &str) -> Value {
    // JSON distinguishes numbers and words as plans do.
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

/// Returns options as they are typed, for tests.
#[cfg(test)]
pub(super) fn given<const N: usize>(options: [(&str, &str); N]) -> Params {
    Params(options.map(|(name, text)| (name.to_owned(), option_value(text))).into_iter().collect())
}

/// Returns an option whose value was read but cannot be.
pub(super) fn refusal(key: &str, cause: impl Into<String>) -> ParamError {
    ParamError { key: key.to_owned(), cause: cause.into(), expected: None, nearest: None }
}

/// Bits in a byte, as a factor of an expression.
pub(super) const BITS: f64 = 8.0;

/// Returns the errors of options that were read, if there are any.
///
/// # Errors
/// All of `errors`.
pub(super) fn checked(errors: Vec<ParamError>) -> Result<(), Vec<ParamError>> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Returns an error if the rate of a link is not above zero.
pub(super) fn positive(key: &str, rate: impl Into<Option<BitRate>>) -> Vec<ParamError> {
    let wrong = rate.into().filter(|rate| rate.0 <= 0.0);
    wrong
        .map(|_| refusal(key, "a link has a rate above zero, such as \"1 Gbit/s\""))
        .into_iter()
        .collect()
}

/// Reads an MTU: everybody writes it as a bare number of bytes, and with a unit it is understood
/// too.
///
/// # Errors
/// If it is neither a whole number nor a size with its unit.
pub(super) fn mtu<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    const EXPECTED: &str = "expected an MTU in bytes, such as 1500 or \"9000 B\"";
    match Value::deserialize(deserializer)? {
        // In a plan a bare number is a count; an MTU is the one size that everybody writes without
        // a unit.
        Value::Number(number) => {
            number.as_u64().map(Bytes).ok_or_else(|| de::Error::custom(EXPECTED))
        }
        Value::String(text) => {
            let bare = text.trim().parse().map(Bytes);
            bare.or_else(|_| text.parse())
                .map_err(|_| de::Error::custom(format!("`{text}`: {EXPECTED}")))
        }
        _ => Err(de::Error::custom(EXPECTED)),
    }
}
