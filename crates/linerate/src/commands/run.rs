//! `linerate run`: a plan on a place, into a ledger, and its report.

use std::path::PathBuf;

use clap::Args;
use linerate_campaign::checks;
use linerate_campaign::conduct::{self, Request};
use linerate_campaign::testbeds;

use crate::args::{Global, Output, PlaceArgs};
use crate::exit::Outcome;
use crate::progress::Display;
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A plan file, or the name of a preset
    pub(crate) plan: String,
    /// Use the preset's short variant: fewer points and repeats
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The ledger to write to; a campaign in it is resumed with --resume [default: NAME.ledger]
    #[arg(long)]
    pub(crate) ledger: Option<PathBuf>,
    /// Change the plan: `campaign.repeats=3`, `duration="2 s"`, `SWEEP.duration="2 s"`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Go on with the newest campaign of the ledger that has this plan
    #[arg(long)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Runs the plan and prints the answer.
pub(crate) fn run(args: &RunArgs, global: Global) -> Outcome {
    let (found, plan) = checks::read(&checks::name(&args.plan, args.quick)?, &args.set)?;
    let mut ground = testbeds::prepare(&args.place.place())?;
    let ledger =
        args.ledger.clone().unwrap_or_else(|| PathBuf::from(format!("{}.ledger", plan.name)));
    let request = Request {
        found: &found,
        plan: &plan,
        ground: &ground,
        ledger: &ledger,
        resume: args.resume,
    };
    let mut display = Display::new(global);
    let (campaign, summary) = conduct::conduct(&request, &mut |event| display.show(&event))?;
    drop(display);
    ground.dismantle();
    reports::finish(&campaign, &summary, &args.output, &ledger, global)
}
