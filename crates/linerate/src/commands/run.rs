//! `linerate run`: a plan on a place, into a ledger, and its report.

use std::path::PathBuf;

use clap::Args;
use linerate_campaign::checks;

use crate::args::{Global, Output, PlaceArgs};
use crate::commands::measure::{self, WaitArgs};
use crate::exit::Outcome;
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Plan file, or the name of a preset
    pub(crate) plan: String,
    /// Use the short variant of the preset: fewer points and repeats
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Ledger to write; --resume continues the campaign in it [default: NAME.ledger]
    #[arg(long)]
    pub(crate) ledger: Option<PathBuf>,
    /// Change the plan: `campaign.repeats=3`, `duration="2 s"`, `SWEEP.duration="2 s"`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Continue the newest campaign of the ledger that has this plan
    #[arg(long)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Runs the plan and prints the answer.
pub(crate) fn run(args: &RunArgs, global: Global) -> Outcome {
    let (found, plan) = checks::read(&checks::name(&args.plan, args.quick)?, &args.set)?;
    // The ledger is named after the plan, so that several plans in one folder do not collide.
    let usual = || PathBuf::from(format!("{}.ledger", plan.name));
    let ledger = args.ledger.clone().unwrap_or_else(usual);
    let place = checks::placed(args.place.place(), &plan);
    let measured = args.wait.when_free(|| {
        measure::at("run", &place, (&found, &plan), (&ledger, args.resume), global)
    })?;
    reports::finish(&measured, &args.output, &ledger, global)
}
