//! linerate: how fast a machine moves data, what each byte and packet costs, what theory would
//! allow, and what is in the way.
//!
//! This crate is the door: arguments become calls into the rooms, errors become exit codes. It
//! holds no logic.

#![forbid(unsafe_code)]

#[macro_use]
mod output;

mod args;
mod cli;
mod commands;
mod exit;
mod ledgers;
mod policy;
mod problems;
mod progress;
mod reference;
mod reports;
mod separation;
mod show;

use std::process::ExitCode;

fn main() -> ExitCode {
    linerate_sys::signal::fail_beyond_file_size_limit();
    let outcome = cli::parse().and_then(commands::dispatch);
    match outcome.and_then(|ended| output::finish().map(|()| ended)) {
        Ok(ended) => exit::code(ended).into(),
        Err(failure) => exit::report(&failure),
    }
}
