//! Exit codes: a promise to scripts.

use std::process::ExitCode;

pub(crate) use linerate_campaign::{Exit, Failure, Outcome};

use linerate_campaign::Cause;

use crate::problems;

/// Returns the exit code of a command.
pub(crate) const fn code(exit: Exit) -> u8 {
    match exit {
        Exit::Done => 0,
        Exit::Missed => 1,
        Exit::Wrong => 2,
        Exit::Invalid => 3,
        Exit::Missing => 4,
        Exit::Interrupted => 130,
    }
}

/// Prints the failure and returns its exit code.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    let message = match failure.cause() {
        Cause::Message(message) => message.clone(),
        Cause::Text { origin, text, problems } => problems::shown(origin, text, problems),
    };
    for (index, line) in message.lines().enumerate() {
        // Problems in a text bring a heading of their own.
        if index == 0 && !line.starts_with("error") {
            eprintln!("linerate: {line}");
        } else {
            eprintln!("{line}");
        }
    }
    code(failure.exit()).into()
}
