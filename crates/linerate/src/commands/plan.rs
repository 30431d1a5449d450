//! `linerate plan`: the trials of a plan, before anything is run.

use clap::Args;
use linerate_answers::plan::{self, Expanded};
use linerate_campaign::checks::{assumed, extent, first_repeats, name, placed, read, trials};
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
    let ground = testbeds::outline(&placed(args.place.place(), &plan))?;
    let first = first_repeats(&found, &plan, &ground)?;
    let is_read =
        reports::wanted(&args.saved.formats.format, global).iter().any(|f| f.reads_json());
    let all = is_read.then(|| trials(&found, &plan, &ground)).transpose()?;
    let (n_trials, duration) = extent(&plan, &first);
    let answer = plan::document(&Expanded {
        plan: &plan,
        first: &first,
        trials: all.as_deref(),
        n_trials,
        duration,
        assumed: &assumed(&plan, &ground),
        left_out: &left_out(&plan, &ground.testbed),
    });
    reports::answer(&answer, &args.saved, global)?;
    Ok(Exit::Done)
}
