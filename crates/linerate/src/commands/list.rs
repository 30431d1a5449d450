//! `linerate list`: the registries.

use clap::Args;
use linerate_answers::registries::{self, Registry};

use crate::args::{Global, Saved, one_of};
use crate::exit::{Exit, Outcome};
use crate::reports;

#[derive(Debug, Args)]
// The help lists the names, which the error of clap does not.
#[command(arg_required_else_help = true)]
pub(crate) struct ListArgs {
    /// Registry to print
    #[arg(value_parser = one_of(&Registry::ALL, |one| (one.name(), one.summary())))]
    pub(crate) what: Registry,
    #[command(flatten)]
    pub(crate) saved: Saved,
}

/// Prints one registry.
pub(crate) fn run(args: &ListArgs, global: Global) -> Outcome {
    reports::answer(&registries::document(args.what), &args.saved, global)?;
    Ok(Exit::Done)
}
