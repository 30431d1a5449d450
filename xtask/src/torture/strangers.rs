//! Strangers: an agent goes on serving a paired conductor while thousands of connections a second
//! come from elsewhere.

use std::process::Command;

use anyhow::Context;

use super::Bench;
use crate::tools::printed;

/// Where strangers come from: another address than the conductor's, and the same one.
const SOURCES: [&str; 2] = ["127.0.0.2", "127.0.0.1"];
/// Sessions that must be served in time, of 100.
const LEAST_PER_CENT: u64 = 99;

/// Floods an agent from each source; true if the sessions were served and the agent said little.
pub(super) fn run(bench: &Bench) -> anyhow::Result<bool> {
    let sessions = bench.count(10, 500);
    // The quick form is part of the tests, which assert nothing about speed.
    let (rate, seconds) = if bench.quick { ("500", "60") } else { ("5000", "2") };
    let mut held = true;
    // A budget for each source: the conductor must be served also if strangers share its address.
    for source in SOURCES {
        // The quick form has a minute for few sessions, because the machine may be slow.
        let arguments = [rate, source, &sessions.to_string(), seconds];
        let said = printed(Command::new(bench.example("strangers")).args(arguments))?;
        println!("strangers from {source}: {}", said.trim());
        held &= holds(&said).with_context(|| format!("read `{}`", said.trim()))?;
    }
    Ok(held)
}

/// Returns true if enough sessions were served, strangers came, and the log stayed short.
fn holds(said: &str) -> Option<bool> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let after =
        |word: &str| words.iter().position(|other| *other == word).and_then(|at| words.get(at + 1));
    let before = |word: &str| {
        words.iter().position(|other| *other == word).and_then(|at| words.get(at.checked_sub(1)?))
    };
    let (served, of) = (after("served")?.parse::<u64>().ok()?, after("of")?.parse::<u64>().ok()?);
    let (strangers, lines) =
        (before("strangers")?.parse::<u64>().ok()?, before("lines")?.parse::<u64>().ok()?);
    // Strangers must have come, or nothing was tested. A line of log for each would fill a disk.
    Some(served * 100 >= of * LEAST_PER_CENT && strangers > 0 && lines <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_in_fifty_not_served_or_a_line_for_each_stranger_is_a_fault() {
        let said = |served: u32, strangers: u32, lines: u32| {
            let rest = format!(
                "slowest 62 ms; {strangers} strangers in 3.4 s (4999 a second), {lines} lines"
            );
            holds(&format!("served {served} of 500 within 2 s, {rest}\n"))
        };
        assert_eq!(said(495, 16_960, 1), Some(true));
        for broken in [said(490, 16_960, 1), said(500, 16_960, 900), said(500, 0, 0)] {
            assert_eq!(broken, Some(false));
        }
        assert_eq!(holds("nothing was run"), None);
    }
}
