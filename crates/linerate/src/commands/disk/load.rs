//! `linerate disk run` and `disk sweep`: the `storage` workload without writing a plan.

use std::path::PathBuf;

use clap::Args;
use linerate_answers::storage;
use linerate_campaign::conduct::Measured;
use linerate_campaign::live::Live;
use linerate_campaign::{conduct, drafts, testbeds};
use linerate_control::Progress;
use linerate_model::Nanos;

use crate::args::{Global, Saved, seconds};
use crate::exit::{Exit, Outcome};
use crate::parameters::StorageOptions;
use crate::reports;

/// Load on a disk or file.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Block device, file to read, or folder for an unnamed scratch file
    target: PathBuf,
    /// Length of each measurement, in seconds or with a unit
    #[arg(long, short = 't', default_value = "10", value_parser = seconds)]
    seconds: f64,
    /// Warm-up before each measurement, in seconds or with a unit
    #[arg(long, default_value = "1", value_parser = seconds)]
    ramp: f64,
    /// Number of runs of each point [default: 1; with sweep 3]
    #[arg(long)]
    repeats: Option<u32>,
    /// Use the page cache: the same as --cache buffered
    #[arg(long, conflicts_with = "cache")]
    buffered: bool,
    /// Keep the results in this ledger
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// Print the equivalent plan, and run nothing
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    saved: Saved,
    #[command(flatten)]
    parameters: StorageOptions,
}

/// Default repeats of a sweep's points: an interval needs three.
const SWEEP_REPEATS: u32 = 3;

/// Measures one point.
pub(super) fn run(args: &LoadArgs, global: Global) -> Outcome {
    drafts::one_point(&args.parameters.given)?;
    measure(args, args.repeats.unwrap_or(1), global)
}

/// Measures every combination.
pub(super) fn sweep(args: &LoadArgs, global: Global) -> Outcome {
    measure(args, args.repeats.unwrap_or(SWEEP_REPEATS), global)
}

fn measure(args: &LoadArgs, repeats: u32, global: Global) -> Outcome {
    let buffered = args.buffered.then(|| ("cache", vec!["buffered".into()]));
    let given = args.parameters.given.iter().cloned().chain(buffered);
    let times = (Nanos::from_secs_f64(args.seconds), Nanos::from_secs_f64(args.ramp));
    let draft = drafts::disk(&args.target, times, repeats, given)?;
    if args.plan {
        print!("{}", draft.text());
        return Ok(Exit::Done);
    }
    // A disk has no path: both endpoints are on this host.
    let ground = testbeds::loopback(false);
    let watch = &mut |event: Progress<'_>| global.console().notice(&event);
    let nobody = Live::default();
    let kept: (_, &[PathBuf], _) = (args.ledger.as_deref(), &[], &nobody);
    let Measured { campaign, study, summary } =
        conduct::drafted("disk", &draft, &ground, kept, watch)?;
    let answer = storage::document(&campaign, &study, repeats);
    let text = linerate_report::text::whole(&answer);
    reports::measured((&answer, &text), &campaign, &study, &args.saved, global)?;
    reports::end(&campaign, &study, &summary, global)
}
