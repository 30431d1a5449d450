//! The program under the names `netperf` and `netserver`: for scripts, and for programs such as
//! flent that call them.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use linerate_campaign::other_clients::ServerQuestion;
use linerate_netperf::command;
use linerate_netperf::options::parse_server;
use linerate_sys::signal;

use crate::commands::serve::other_clients::show_netperf;
use crate::exit;
use crate::output;

/// Exit code of netperf for everything that goes wrong.
const FAILED: u8 = 1;

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
    signal::note_interrupts().map_err(|error| error.to_string())?;
    command::run(words, &mut |text| print!("{text}"), &signal::interrupted)
}

fn server(words: impl Iterator<Item = OsString>) -> Result<(), String> {
    let (port, address) = parse_server(words).map_err(|error| error.to_string())?;
    let question = ServerQuestion { address, port, ..ServerQuestion::default() };
    let served = question.serve_netperf(move |event| show_netperf(event, (false, false)));
    served.map_err(|failure: exit::Failure| failure.message())
}
