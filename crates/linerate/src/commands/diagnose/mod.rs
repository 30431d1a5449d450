//! `linerate diagnose`: what limits a path, with proof.
//!
//! Of a ledger it says what the rules make of what is recorded. Of a path it runs a short baseline,
//! takes the leading hypothesis, changes what that says is the limit, beside a placebo, and judges
//! the pairs; where the change lifts the limit it goes on from there, limit by limit. All it
//! changes are parameters of its own load. Every stage is a campaign in a ledger of its own, so
//! that everything it says can be judged again.

mod tell;

use std::path::PathBuf;

use clap::Args;
use linerate_analysis::study;
use linerate_campaign::Ended;
use linerate_campaign::diagnose::{Load, Question, STORAGE, climb, exit_of};
use linerate_campaign::stages::Ledgers;
use linerate_campaign::testbeds::{self, Ground};

use crate::args::Global;
use crate::commands::ends::PathArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::{ledgers, progress, reports};

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").multiple(true).args(["ledger", "to", "lab", "testbed"]))]
pub(crate) struct DiagnoseArgs {
    /// A ledger to judge as recorded: nothing is run (`LEDGER#ID` names one campaign of it)
    #[arg(conflicts_with_all = ["to", "lab", "testbed"])]
    pub(crate) ledger: Option<String>,
    #[command(flatten)]
    pub(crate) path: PathArgs,
    /// The load whose limit is looked for
    #[arg(long, default_value = "tcp_stream")]
    pub(crate) workload: String,
    /// A parameter of the load, its value as in a plan: `message_size="64 B"`, `streams=4`
    #[arg(long = "param", value_name = "KEY=VALUE")]
    pub(crate) params: Vec<String>,
    /// Pairs of an experiment: six are the fewest that prove anything
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pairs: u32,
    /// Different limits to look for, one behind the other
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=19))]
    pub(crate) limits: u32,
    /// Seconds of each run; pairs that noise leaves undecided are run once more, four to eight
    /// times as long
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Seconds before each run that do not count
    #[arg(long, default_value_t = 0.5)]
    pub(crate) omit: f64,
    /// Orders what is drawn at random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Folder for the ledgers
    #[arg(long, default_value = "diagnose")]
    pub(crate) out: PathBuf,
}

/// Judges a ledger, or looks for the limits of a path.
pub(crate) fn run(args: &DiagnoseArgs, global: Global) -> Outcome {
    if let Some(ledger) = &args.ledger {
        let campaign = ledgers::load(ledger)?;
        let study = study(&campaign);
        tell::recorded(&campaign, &study, global);
        return Ok(reports::exit_of(&study));
    }
    if !(args.seconds > 0.0 && args.omit >= 0.0) {
        return Err(Failure::wrong(
            "diagnose: --seconds must be above zero and --omit not below it",
        ));
    }
    let has_place =
        args.path.to.is_some() || args.path.lab.is_some() || args.path.testbed.is_some();
    if !has_place && args.workload != STORAGE {
        let what = "diagnose: say what: a LEDGER, --to HOST, --lab NAME or --testbed FILE (a disk \
            of this host: --workload storage)";
        return Err(Failure::wrong(what));
    }
    let mut ground = testbeds::prepare(&args.path.place())?;
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::missing(format!("create folder {}: {error}", args.out.display()))
    })?;
    let ended = look(args, global, &ground);
    ground.dismantle();
    Ended::outcome(ended)
}

fn look(args: &DiagnoseArgs, global: Global, ground: &Ground) -> Result<Exit, Ended> {
    let (from, to) = args.path.route().among("diagnose", &ground.testbed.endpoints)?;
    let question = Question {
        workload: args.workload.clone(),
        params: args.params.clone(),
        pairs: args.pairs,
        seconds: args.seconds,
        omit: args.omit,
        seed: args.seed,
    };
    let load = Load::new(&question, from.name.clone(), to.name.clone())?;
    let watch = || progress::watcher(global);
    let rungs = climb(
        &Ledgers { what: "diagnose", ground, out: &args.out, watch: &watch },
        load,
        args.limits as usize,
    )?;
    tell::ladder(&rungs, args, global);
    Ok(exit_of(&rungs))
}
