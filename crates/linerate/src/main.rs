//! linerate: how fast a machine moves data, what each byte and packet costs, what theory would allow, and what is in the way.
//!
//! This crate is the door: arguments become calls into the rooms, errors become exit codes. It holds no logic.

#![forbid(unsafe_code)]

#[macro_use]
mod output;
mod policy;

mod arms;
mod campaign;
mod catalog;
mod cli;
mod commands;
mod devices;
mod exit;
mod keys;
mod ledgers;
mod observers;
mod problems;
mod progress;
mod rates;
mod reference;
mod reports;
mod sandbox;
mod searches;
mod separation;
mod show;
mod testbeds;

use std::process::ExitCode;

fn main() -> ExitCode {
    linerate_sys::signal::fail_beyond_file_size_limit();
    let outcome = cli::parse().and_then(commands::dispatch);
    match outcome.and_then(|code| output::finish().map(|()| code)) {
        Ok(code) => code.into(),
        Err(failure) => failure.report(),
    }
}
