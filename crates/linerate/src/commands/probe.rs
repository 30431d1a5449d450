//! `linerate probe`: facts of a path nobody declared.

use std::path::PathBuf;

use clap::Args;
use linerate_answers::probe as answers;
use linerate_campaign::Ended;
use linerate_campaign::drafts::PATH_PROBE;
use linerate_campaign::ends::on_ground;
use linerate_campaign::probe::{self, ProbeBudget};
use linerate_campaign::stages::Ledgers;
use linerate_campaign::testbeds::Ground;

use crate::args::{Formats, Global};
use crate::commands::ends::PathArgs;
use crate::commands::measure::Person;
use crate::exit::{Exit, Outcome};
use crate::parameters::{ProbeSettings, SettingOptions};
use crate::reports;

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true).multiple(true)
    .args(["to", "lab", "testbed"]))]
pub(crate) struct ProbeArgs {
    #[command(flatten)]
    pub(crate) path: PathArgs,
    #[command(flatten)]
    settings: SettingOptions<ProbeSettings>,
    /// Folder for the ledger and the report
    #[arg(long, default_value = "probe")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) formats: Formats,
}

/// Prints the budget, probes both directions, and prints the facts.
pub(crate) fn run(args: &ProbeArgs, global: Global) -> Outcome {
    on_ground(&args.path.place(), &args.out, |ground| look(args, global, ground))
}

fn look(args: &ProbeArgs, global: Global, ground: &Ground) -> Result<Exit, Ended> {
    let (from, to) = args.path.route().among("probe", &ground.testbed.endpoints)?;
    let budget = ProbeBudget::of(&args.settings.given("probe", PATH_PROBE)?);
    announce(&budget, global);
    let audience = Person::new("probe", global, Some(&args.path.wait));
    let ledgers = Ledgers::new("probe", ground, &args.out, &audience);
    let facts = probe::probe(&ledgers, &from.name, &to.name, &budget)?;
    drop(audience);
    let answer = answers::document(&facts, ground.kind);
    reports::answer(&answer, &args.formats.saved(&args.out), global)?;
    Ok(Exit::Done)
}

/// Prints what a probe may send at most, before it begins.
pub(crate) fn announce(budget: &ProbeBudget, global: Global) {
    if !global.quiet {
        eprintln!("Probe of the path: {budget}.");
    }
}
