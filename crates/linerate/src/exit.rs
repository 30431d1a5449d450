//! Failures on a terminal, or as a JSON document where that was wanted and no other was printed.

use std::process::ExitCode;

pub(crate) use linerate_campaign::{Exit, Failure, Outcome};

use linerate_campaign::Cause;

use crate::{output, problems};

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
    if output::lacks_document() {
        let document = linerate_answers::failure_json(&failure.message(), failure.exit().code());
        output::document("error", document);
    }
    failure.exit().code().into()
}
