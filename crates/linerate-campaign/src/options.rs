//! Values of options that are parameters of a workload, as users of iperf3 and fio type them.
//!
//! Type, range, default and meaning are those of the parameter's declaration, so options and plans
//! accept the same values.

use linerate_load::{Parameter, Takes};
use serde_json::Value;

use crate::drafts::{Setting, word_of};
use crate::{Failure, Result, letters};

/// A value of an option as each of its workloads reads it: types and ranges differ.
pub type Readings = Vec<(&'static str, Result<Value, String>)>;

/// Reads `text` for each workload of `setting`.
///
/// # Errors
/// If it fits none: why it does not fit the first.
pub fn readings(setting: &Setting, text: &str) -> Result<Readings, String> {
    let mut readings = Vec::new();
    let mut refused = Vec::new();
    for (workload, parameter) in setting.parameters() {
        // As with iperf3, a rate without a unit is in bits.
        let bits = letters::rate(text).map(|rate| vec![Value::from(rate.to_string())]);
        let values = match (&parameter.takes, bits) {
            (Takes::Rate, Some(bits)) => checked(&parameter, bits),
            _ => values(&parameter, text),
        };
        // A count may be a range, of which an option of one measurement takes the first.
        let value = values.and_then(|values| values.into_iter().next().ok_or_else(String::new));
        refused.extend(value.clone().err());
        readings.push((workload, value));
    }
    if readings.iter().all(|(_, value)| value.is_err()) {
        return Err(refused.swap_remove(0));
    }
    Ok(readings)
}

/// Returns the value of `setting`, an option of `command`, for `workload`.
///
/// # Errors
/// If the value does not fit this workload.
pub fn reading(
    command: &str,
    workload: &str,
    setting: &Setting,
    readings: &Readings,
) -> Result<Value> {
    let own = readings.iter().find(|(of, _)| *of == workload);
    // An option that does not apply is refused where the plan is drafted.
    let other = || readings.iter().find(|(_, value)| value.is_ok());
    let value = own.or_else(other).map(|(_, value)| value.clone());
    value.unwrap_or_else(|| Err("no value".to_owned())).map_err(|cause| {
        let mode = word_of(workload);
        Failure::wrong(format!("{command}: {} of {mode}: {cause}", setting.typed()))
    })
}

/// Returns the help of an option: meaning, range and default of `parameter`.
#[must_use]
pub fn help(parameter: &Parameter) -> String {
    let Parameter { takes, default, meaning, .. } = parameter;
    let capital: String = meaning[..1].to_uppercase();
    format!("{capital}{} ({takes}) [default: {default}]", &meaning[1..])
}

/// Returns the help of `setting`: its note, and that of each different parameter which it sets.
#[must_use]
pub fn helps(setting: &Setting) -> Vec<String> {
    let mut helps: Vec<(String, Vec<&str>)> = Vec::new();
    for (workload, parameter) in setting.parameters() {
        let text = match setting.fixed {
            Some(word) => format!("Set {} = \"{word}\": {}", parameter.name, parameter.meaning),
            None => help(&parameter),
        };
        match helps.iter_mut().find(|(known, _)| *known == text) {
            Some((_, words)) => words.push(word_of(workload)),
            None => helps.push((text, vec![word_of(workload)])),
        }
    }
    let of_all = helps.len() == 1;
    let lines = helps.into_iter().map(|(text, words)| match of_all {
        true => text,
        false => format!("{}: {text}", words.join(", ")),
    });
    setting.note.map(str::to_owned).into_iter().chain(lines).collect()
}

/// Returns the placeholder of values in help.
#[must_use]
pub const fn value_name(takes: &Takes) -> &'static str {
    match takes {
        Takes::BitRate | Takes::Rate => "RATE",
        Takes::Count { .. } => "NUMBER",
        Takes::Flag => "true|false",
        Takes::Ratio { .. } => "PER CENT",
        Takes::Size { .. } => "BYTES",
        Takes::Path { .. } => "PATH",
        Takes::Text { .. } => "TEXT",
        Takes::Time { .. } => "TIME",
        Takes::Word(_) | Takes::WordOr(..) => "WORD",
    }
}

/// Reads `text` as users of fio and iperf3 type a value of `parameter`: bare numbers are per cent,
/// operations per second, seconds, bytes with K, M, G, T for powers of 1024, or bits per second
/// with powers of 1000; a count may be a range, FIRST..LASTxFACTOR or FIRST..LAST+STEP.
///
/// # Errors
/// The value that does not fit, and what is expected.
pub fn values(parameter: &Parameter, text: &str) -> Result<Vec<Value>, String> {
    let or_text = |read: Option<Value>| vec![read.unwrap_or_else(|| text.into())];
    let values = match &parameter.takes {
        // Its values have names, too.
        Takes::Count { .. } if parameter.name == "dscp" => {
            or_text(letters::code_point(text).map(Value::from))
        }
        // A plain number is not a range of one.
        Takes::Count { .. } => match (text.parse::<u64>(), letters::depths(text)) {
            (Err(_), Some(range)) => range.into_iter().map(Value::from).collect(),
            (number, _) => or_text(number.ok().map(Value::from)),
        },
        Takes::Flag => or_text(text.parse::<bool>().ok().map(Value::from)),
        Takes::Ratio { .. } => with_unit(text, "%"),
        Takes::Rate => or_text(letters::operations(text).map(|rate| rate.to_string().into())),
        Takes::Size { .. } => or_text(letters::size(text).map(|size| size.to_string().into())),
        Takes::Time { .. } => with_unit(text, "s"),
        Takes::BitRate => or_text(letters::rate(text).map(|rate| rate.to_string().into())),
        Takes::Path { .. } | Takes::Text { .. } | Takes::Word(_) | Takes::WordOr(..) => {
            or_text(None)
        }
    };
    checked(parameter, values)
}

/// Returns `values` if each fits `parameter`.
fn checked(parameter: &Parameter, values: Vec<Value>) -> Result<Vec<Value>, String> {
    for value in &values {
        parameter.check(value).map_err(|error| {
            let expected = error.expected.map(|expected| format!("; expected {expected}"));
            error.cause + &expected.unwrap_or_default()
        })?;
    }
    if values.is_empty() { Err("the range is empty".to_owned()) } else { Ok(values) }
}

/// Returns `text` with `unit` if it is a bare number: the unit that fio and iperf3 assume.
fn with_unit(text: &str, unit: &str) -> Vec<Value> {
    let is_bare = text.parse::<f64>().is_ok();
    vec![Value::from(if is_bare { format!("{text} {unit}") } else { text.to_owned() })]
}

#[cfg(test)]
mod tests {
    use linerate_load::workload;

    use super::*;
    use crate::drafts::OF_TO;

    fn setting(option: &str) -> &'static Setting {
        OF_TO.iter().find(|setting| setting.option == option).expect("an option of `to`")
    }

    #[test]
    fn each_mode_has_its_own_types_and_ranges_and_bare_rates_are_in_bits() {
        for (mode, option, text, expected) in [
            ("tcp_rr", "length", "1", Ok("1 B")),
            ("tcp_stream", "bitrate", "1G", Ok("1 Gbit/s")),
            ("udp_stream", "bitrate", "1G", Ok("1 Gbit/s")),
            ("udp_stream", "bitrate", "1000000", Ok("1 Mbit/s")),
            ("udp_stream", "bitrate", "1 kpps", Ok("1 kpps")),
            ("tcp_stream", "bitrate", "1 kpps", Err("to: -b of tcp: ")),
            ("udp_stream", "length", "1", Err("to: -l of udp: ")),
        ] {
            let setting = setting(option);
            let readings = readings(setting, text).expect("for one mode");
            match (reading("to", mode, setting, &readings), expected) {
                (Ok(given), Ok(value)) => assert_eq!(given, Value::from(value), "{option} {text}"),
                (Err(refused), Err(part)) => {
                    assert!(refused.message().starts_with(part), "{}", refused.message());
                }
                (read, expected) => panic!("{mode} {option} {text}: {read:?}, {expected:?}"),
            }
        }
        let refused = readings(setting("parallel"), "0").expect_err("no stream");
        assert!(refused.contains("from 1 to 16384"), "{refused}");
    }

    #[test]
    fn help_has_the_words_that_a_person_types_and_the_defaults_of_the_command() {
        let help: String = OF_TO.iter().flat_map(helps).collect();
        for part in
            ["udp: UDP payload", "TCP_MAXSEG", "0 is no limit", "Set send = \"sendfile\": how "]
        {
            assert!(help.contains(part), "{part}: {help}");
        }
        assert!(!help.contains("tcp_") && !help.contains("udp_"), "{help}");
        for default in ["[default: \"1 Mbit/s\"]", "[default: \"host\"]"] {
            assert!(help.contains(default), "{default}: {help}");
        }
    }

    #[test]
    fn a_bare_number_has_the_unit_of_its_parameter_and_a_range_has_all_its_values() {
        let storage = workload("storage").expect("it is registered").parameters();
        for (name, text, expected) in [
            ("read", "70", vec!["70 %".into()]),
            ("rate", "500", vec!["500 packet/s".into()]),
            ("rate", "2k", vec!["2 kpacket/s".into()]),
            ("rate", "800 Mbit/s", vec!["800 Mbit/s".into()]),
            ("block_size", "4k", vec!["4 KiB".into()]),
            ("delay", "1", vec!["1 s".into()]),
            ("delay", "5 ms", vec!["5 ms".into()]),
            ("verify", "true", vec![true.into()]),
            ("depth", "1..8x2", vec![1.into(), 2.into(), 4.into(), 8.into()]),
        ] {
            let parameter = storage.iter().find(|one| one.name == name).expect("it is declared");
            assert_eq!(values(parameter, text), Ok(expected), "{name} {text}");
        }
    }
}
