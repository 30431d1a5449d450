//! `linerate plan`: the trials of a plan, before anything is run.

use clap::Args;
use linerate_answers::plan::{self, Expanded};
use linerate_campaign::checks::{assumed, duration, name, read, trials};
use linerate_campaign::testbeds;
use linerate_model::plan::left_out;

use crate::args::{Global, PlaceArgs, Saved};
use crate::exit::{Exit, Outcome};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Plan file, or the name of a preset
    pub(crate) plan: String,
    /// Use the short variant of the preset: fewer points and repeats
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Change the plan, as for `run`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print the plan's text and nothing else
    #[arg(long)]
    pub(crate) show: bool,
    #[command(flatten)]
    pub(crate) saved: Saved,
}

/// Prints the trials of a plan and how long they take.
pub(crate) fn run(args: &PlanArgs, global: Global) -> Outcome {
    let (found, plan) = read(&name(&args.plan, args.quick)?, &args.set)?;
    if args.show {
        print!("{}", found.text);
        return Ok(Exit::Done);
    }
    let ground = testbeds::outline(&args.place.place())?;
    let trials = trials(&found, &plan, &ground)?;
    let answer = plan::document(&Expanded {
        plan: &plan,
        trials: &trials,
        duration: duration(&trials),
        assumed: &assumed(&plan, &ground),
        left_out: &left_out(&plan, &ground.testbed),
        formats: &reports::wanted(&args.saved.formats.format, global),
    });
    reports::answer(&answer, &args.saved, global)?;
    Ok(Exit::Done)
}
