//! The program netperf: its command line, a test, and its output.

use std::ffi::OsString;

use crate::options::{Asked, Format, WrongOption, parse};
use crate::selectors::{self, Selection};
use crate::{client, text};

/// Selection that asks for the names of all selectors.
const LIST: &str = "?";

/// Runs netperf with `words` behind its name. Its output goes to `print`. `stop` ends the test.
///
/// # Errors
/// Why it fails, for a person.
pub fn run(
    words: impl Iterator<Item = OsString>,
    print: &mut dyn FnMut(&str),
    stop: &dyn Fn() -> bool,
) -> Result<(), String> {
    let mut options = match parse(words).map_err(|error| with_help(&error))? {
        Asked::Help => {
            print(text::HELP);
            return Ok(());
        }
        Asked::Version => {
            let release = env!("CARGO_PKG_VERSION");
            print(&format!("Netperf version 2.7.1, as linerate {release} has it\n"));
            return Ok(());
        }
        Asked::Test(options) => options,
    };
    if options.selection.as_deref() == Some(LIST) {
        print(&selectors::listed());
        return Ok(());
    }
    // A misspelt name is reported before the test, not after it.
    let selection = Selection::of(&options).map_err(|error| error.to_string())?;
    options.has_latencies |= options.format != Format::Classic && selection.is_timed();
    print(&text::heading(&options));
    let on_interim = &mut |result: &text::Interim| print(&text::interim(&options, result));
    let outcome = client::run(&options, on_interim, stop).map_err(|error| error.to_string())?;
    print(&text::result(&outcome, &selection));
    Ok(())
}

fn with_help(error: &WrongOption) -> String {
    format!("{error}\nnetperf -h lists what there is.")
}
