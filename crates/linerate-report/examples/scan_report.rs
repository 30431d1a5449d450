//! Scans reports that were written, of any version of linerate, for numbers that cannot be:
//! `scan_report FILE...`.
//!
//! A file named `.json` is read as the JSON of a study, everything else as text. Exits with 1 if
//! anything is found.

use std::process::ExitCode;

use linerate_report::scan::{study_violations, text_violations};

fn main() -> ExitCode {
    let (mut trials, mut violations) = (0, 0);
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let found = match serde_json::from_str::<serde_json::Value>(&text)
            .ok()
            .filter(|_| path.ends_with(".json"))
        {
            Some(study) => {
                let points = study["points"].as_array().into_iter().flatten();
                trials += points
                    .map(|point| point["trials"].as_array().map_or(0, Vec::len))
                    .sum::<usize>();
                study_violations(&study)
            }
            None => text_violations(&text),
        };
        violations += found.len();
        found.iter().for_each(|what| println!("{path}: {what}"));
    }
    println!("{trials} trials, {violations} violations");
    ExitCode::from(u8::from(violations > 0))
}
