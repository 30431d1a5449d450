//! `linerate list`: the registries.

use clap::Args;
use linerate_answers::registries::{self, Registry};

use crate::args::{Global, Saved, one_of};
use crate::exit::{Exit, Outcome};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Registry to print; without it, the names of all plans and labs by their purposes
    #[arg(value_parser = one_of(&Registry::ALL, |one| (one.name(), one.summary())))]
    pub(crate) what: Option<Registry>,
    #[command(flatten)]
    pub(crate) saved: Saved,
}

/// Prints one registry, or the overview.
pub(crate) fn run(args: &ListArgs, global: Global) -> Outcome {
    let document = args.what.map_or_else(registries::overview, registries::document);
    reports::answer(&document, &args.saved, global)?;
    Ok(Exit::Done)
}
