//! The command line of linerate: arguments, exit codes and terminal output.
//!
//! Arguments become calls into the other crates, and their errors become exit codes. Decisions are
//! in `linerate-campaign`, answers in `linerate-answers`.

#![forbid(unsafe_code)]

#[macro_use]
mod output;

mod args;
mod cli;
mod commands;
mod exit;
mod iperf3;
mod ledgers;
mod netperf;
mod parameters;
mod problems;
mod reference;
mod reports;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Without it the kernel kills the program at the file size limit before it can report the
    // error.
    linerate_sys::signal::fail_beyond_file_size_limit();
    if let Some(ended) = netperf::personality(std::env::args_os()) {
        return ended;
    }
    let outcome = cli::parse().and_then(commands::dispatch);
    match outcome.and_then(|ended| output::finish().map(|()| ended)) {
        Ok(ended) => ended.code().into(),
        Err(failure) => exit::report(&failure),
    }
}
