//! `linerate list`: the registries.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use linerate_answers::registries::{self, Registry};

use crate::args::{Global, Saved};
use crate::exit::{Exit, Outcome};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Registry to print
    #[arg(value_parser = registry())]
    pub(crate) what: Registry,
    #[command(flatten)]
    pub(crate) saved: Saved,
}

/// Returns the parser of a registry's name.
fn registry() -> impl TypedValueParser<Value = Registry> {
    // Not a `ValueEnum`: the registries belong to another crate.
    let values = Registry::ALL.map(|one| PossibleValue::new(one.name()).help(one.summary()));
    PossibleValuesParser::new(values).map(|name| {
        Registry::ALL
            .into_iter()
            .find(|one| one.name() == name)
            .expect("the parser allows only names of registries")
    })
}

/// Prints one registry.
pub(crate) fn run(args: &ListArgs, global: Global) -> Outcome {
    reports::answer(&registries::document(args.what), &args.saved, global)?;
    Ok(Exit::Done)
}
