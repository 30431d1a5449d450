//! The program under the names `netperf` and `netserver`: for scripts, and for programs such as
//! flent that call them.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use linerate_campaign::other_clients::ServerQuestion;
use linerate_netperf::options::{Asked, Format, WrongOption, parse, parse_server};
use linerate_netperf::selectors::{self, Selection};
use linerate_netperf::{client, text};
use linerate_sys::signal;

use crate::commands::serve::other_clients::show_netperf;
use crate::exit;
use crate::output;

/// Exit code of netperf for everything that goes wrong.
const FAILED: u8 = 1;
/// Selection that asks for the names of all selectors.
const LIST: &str = "?";

/// Ends the program under a name of netperf. Returns `None` under another name.
pub(crate) fn personality(mut words: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let program = words.next()?;
    let name = Path::new(&program).file_name()?.to_str()?;
    let outcome = match name {
        "netperf" => client(words),
        "netserver" => server(words),
        _ => return None,
    };
    let outcome = outcome.and_then(|()| output::finish().map_err(|failure| failure.message()));
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{name}: {message}");
            FAILED.into()
        }
    })
}

fn client(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let mut options = match parse(words).map_err(|error| with_help(&error))? {
        Asked::Help => {
            print!("{}", text::HELP);
            return Ok(());
        }
        Asked::Version => {
            println!("Netperf version 2.7.1, as linerate {} has it", env!("CARGO_PKG_VERSION"));
            return Ok(());
        }
        Asked::Test(options) => options,
    };
    if options.selection.as_deref() == Some(LIST) {
        print!("{}", selectors::listed());
        return Ok(());
    }
    // A misspelt name is reported before the test, not after it.
    let selection = Selection::of(&options).map_err(|error| error.to_string())?;
    options.has_latencies |= options.format != Format::Classic && selection.is_timed();
    signal::note_interrupts().map_err(|error| error.to_string())?;
    print!("{}", text::heading(&options));
    let on_interim = &mut |result: &text::Interim| print!("{}", text::interim(&options, result));
    let outcome = client::run(&options, on_interim, &signal::interrupted)
        .map_err(|error| error.to_string())?;
    print!("{}", text::result(&outcome, &selection));
    Ok(())
}

fn with_help(error: &WrongOption) -> String {
    format!("{error}\nnetperf -h lists what there is.")
}

fn server(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let (port, address) = parse_server(words).map_err(|error| error.to_string())?;
    let question = ServerQuestion { address, port, ..ServerQuestion::default() };
    let served = question.serve_netperf(move |event| show_netperf(event, (false, false)));
    served.map_err(|failure: exit::Failure| failure.message())
}
