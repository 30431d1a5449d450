//! `linerate facts`: hardware and kernel of this host.

use linerate_answers::facts::tree;

use crate::exit::{Exit, Outcome};

/// Prints every fact, as a tree or as JSON.
pub(crate) fn run(as_json: bool) -> Outcome {
    let facts = linerate_observe::facts();
    match as_json {
        true => println!("{facts}"),
        false => print!("{}", tree(&facts)),
    }
    Ok(Exit::Done)
}
