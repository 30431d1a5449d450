//! From TOML values to JSON values, without loss or with a problem.
//!
//! Dates have no place in a plan, and infinities and integers beyond 64 bits have none in JSON:
//! they are problems.

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeInteger, DeValue};

use super::fields::Problems;

/// `value` as JSON; what does not fit is reported and becomes null.
pub(super) fn json(value: &Spanned<DeValue<'_>>, problems: &Problems) -> Value {
    let refuse = |message: String, expected: &str| refused(problems, value, message, expected);
    match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Integer(number) => match integer(number) {
            Some(number) => Value::Number(number),
            None => refuse(format!("`{number}` does not fit 64 bits"), "a number below 2^64"),
        },
        // JSON has no infinities.
        DeValue::Float(number) => match number.as_str().parse().ok().and_then(Number::from_f64) {
            Some(number) => Value::Number(number),
            None => refuse(format!("`{number}` is not finite"), "a finite number"),
        },
        DeValue::Datetime(date) => refuse(
            format!("`{date}` is a date"),
            "a string, number, boolean, list or table; no parameter is a date",
        ),
        DeValue::Array(values) => {
            Value::Array(values.iter().map(|value| json(value, problems)).collect())
        }
        DeValue::Table(table) => {
            let entries =
                table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value, problems)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
    }
}

/// Notes that `value` is no parameter, and returns the value that stands for it.
fn refused(
    problems: &Problems,
    value: &Spanned<DeValue<'_>>,
    message: String,
    expected: &str,
) -> Value {
    problems.at(value.span(), message, expected);
    Value::Null
}

/// An integer of at most 64 bits, signed or not.
fn integer(number: &DeInteger<'_>) -> Option<Number> {
    let signed = i64::from_str_radix(number.as_str(), number.radix()).map(Number::from);
    // Seeds use all 64 bits, which do not fit a signed number.
    signed.or_else(|_| u64::from_str_radix(number.as_str(), number.radix()).map(Number::from)).ok()
}

/// `value` as a whole number that is not negative.
pub(super) fn whole(value: &DeValue<'_>) -> Option<u64> {
    value.as_integer().and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok())
}
