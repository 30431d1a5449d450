//! A campaign whose every text has control characters in it, as a ledger that somebody sent may
//! have: no format repeats one.

use linerate_model::{Campaign, is_obeyed};
use linerate_report::{Format, compose, render, text};
use serde_json::Value;

use crate::fixture;
use crate::spreadsheets::unzip;

/// A window's title, a colour, C1's spelling of one, an override of direction, and a line of its
/// own.
const HOSTILE: &str = "\x1b]0;owned\x07\x1b[31m\u{7f}\u{9b}1m\u{202e}\r\n# forged";

/// Appends [`HOSTILE`] to every text at a key called `name` in `value`.
fn poison(value: &mut Value, name: &str) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == name => text.push_str(HOSTILE),
                    value => poison(value, name),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| poison(value, name)),
        _ => {}
    }
}

fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            if value.is_string() {
                found.push(key.clone());
            }
            names(value, found);
        }),
        Value::Array(values) => values.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

#[test]
fn no_format_repeats_a_control_character_of_a_campaign() {
    let (campaign, study) = fixture::fixture();
    let mut value = serde_json::to_value(&campaign).expect("plain data");
    let mut keys = Vec::new();
    names(&value, &mut keys);
    keys.sort();
    keys.dedup();
    let mut poisoned = Vec::new();
    for key in keys {
        let mut tried = value.clone();
        poison(&mut tried, &key);
        // Some texts are words or quantities: nothing else fits there.
        if serde_json::from_value::<Campaign>(tried.clone()).is_ok() {
            value = tried;
            poisoned.push(key);
        }
    }
    for key in ["name", "id", "version", "message", "host", "plan"] {
        assert!(poisoned.iter().any(|poisoned| poisoned == key), "{key}: {poisoned:?}");
    }
    let campaign: Campaign = serde_json::from_value(value).expect("it was tried");
    let document = compose(&campaign, &study);
    let mut written = vec![("summary".to_owned(), text::summary(&document))];
    for format in Format::ALL {
        for artifact in render(&document, format).expect("renders") {
            let files = match format {
                Format::Xlsx => unzip(&artifact.bytes),
                _ => vec![(artifact.file_name, artifact.bytes)],
            };
            written.extend(
                files
                    .into_iter()
                    .map(|(name, bytes)| (name, String::from_utf8(bytes).expect("text"))),
            );
        }
    }
    assert!(written.iter().any(|(_, text)| text.contains("\\u001b]0;owned\\u0007")), "it is shown");
    for (file, text) in &written {
        let obeyed = text.chars().find(|&c| is_obeyed(c) && !matches!(c, '\n' | '\t'));
        assert_eq!(obeyed, None, "{file}: {text}");
        // As the format of workbooks spells what it cannot hold; a program that opens one turns it
        // back.
        assert!(!text.contains("_x001B_"), "{file}: {text}");
        // Only the plan, which is listed line by line, may begin a line. In a page a line feed is a
        // blank.
        let forged = text.lines().filter(|line| line.starts_with("# forged")).count();
        assert!(forged <= 1 || file.ends_with(".html"), "{file}: {forged} lines");
    }
    for (file, text) in written.iter().filter(|(file, _)| file.ends_with(".json")) {
        serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}
