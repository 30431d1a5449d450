//! `linerate diagnose`: the limit of a path, with proof.
//!
//! For a ledger it prints the findings of the rules on what is recorded. For a path it runs a short
//! baseline, changes what the leading hypothesis names, beside a placebo, and judges the pairs.
//! Where the change lifts the limit it goes on from there. It changes only parameters of its own
//! load. Every stage is a campaign in a ledger of its own, so that each claim can be judged again.

use std::path::PathBuf;

use clap::Args;
use linerate_analysis::study;
use linerate_answers::{diagnosis, probe as facts_of_path};
use linerate_campaign::diagnose::{Load, Question, STORAGE, climb, exit_of};
use linerate_campaign::ends::{check_lengths, on_ground};
use linerate_campaign::probe::{self, ProbeBudget};
use linerate_campaign::stages::{Bench, Ledgers};
use linerate_campaign::testbeds::Ground;
use linerate_campaign::{Ended, conclusion};
use linerate_model::{Nanos, TestbedKind};
use linerate_report::CommandPlace;

use crate::args::{Formats, Global, seconds};
use crate::commands::ends::PathArgs;
use crate::commands::measure::Person;
use crate::commands::probe::announce;
use crate::exit::{Exit, Failure, Outcome};
use crate::{ledgers, reports};

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("what").multiple(true).args(["ledger", "to", "lab", "testbed"])
)]
pub(crate) struct DiagnoseArgs {
    /// Ledger to judge as recorded, without running anything (`LEDGER#ID` selects a campaign)
    #[arg(conflicts_with_all = ["to", "lab", "testbed"])]
    pub(crate) ledger: Option<String>,
    #[command(flatten)]
    pub(crate) path: PathArgs,
    /// Load whose limit is wanted
    #[arg(long, default_value = "tcp_stream")]
    pub(crate) workload: String,
    /// Parameter of the load, with its value as in a plan: `message_size="64 B"`, `streams=4`
    #[arg(long = "param", value_name = "KEY=VALUE")]
    pub(crate) params: Vec<String>,
    /// Pairs of each experiment; a proof needs at least six
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pairs: u32,
    /// Most limits to find, each behind the one before
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=19))]
    pub(crate) limits: u32,
    /// Length of each run, in seconds or with a unit; pairs that noise leaves undecided are
    /// repeated once, four to eight times as long
    #[arg(long, default_value = "1", value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Warm-up before each run, in seconds or with a unit
    #[arg(long, default_value = "0.5", value_parser = seconds)]
    pub(crate) omit: f64,
    /// Time for the whole diagnosis, in seconds or with a unit; an experiment that does not fit is
    /// not begun, and the answer names it
    #[arg(long, default_value = "110", value_parser = seconds)]
    pub(crate) budget: f64,
    /// Skip the probe of the path (linerate probe), which --to runs first
    #[arg(long)]
    pub(crate) no_probe: bool,
    /// Seed of the random order
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Folder for the ledgers and the report
    #[arg(long, default_value = "diagnose")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) formats: Formats,
}

/// Judges a ledger, or looks for the limits of a path.
pub(crate) fn run(args: &DiagnoseArgs, global: Global) -> Outcome {
    if let Some(ledger) = &args.ledger {
        let campaign = ledgers::load(ledger)?;
        let study = study(&campaign);
        // Nothing is run here, so the records are all the evidence.
        let answer = diagnosis::recorded(&campaign, &study);
        reports::answer(&answer, &args.formats.saved(&args.out), global)?;
        return Ok(conclusion::exit_of(&study));
    }
    check_lengths("diagnose", Some(args.seconds), args.omit)?;
    if args.budget <= 0.0 {
        return Err(Failure::wrong("diagnose: --budget must be above zero"));
    }
    // A disk of this host has no path, so it needs no place.
    let has_place =
        args.path.to.is_some() || args.path.lab.is_some() || args.path.testbed.is_some();
    if !has_place && args.workload != STORAGE {
        return Err(Failure::wrong(
            "diagnose: name a LEDGER, --to HOST, --lab NAME or --testbed FILE (for a disk of this \
                host: --workload storage)",
        ));
    }
    on_ground(&args.path.place(), &args.out, |ground| look(args, global, ground))
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
    let budget = Nanos::from_secs_f64(args.budget);
    let load = Load::new(&question, from.name.clone(), to.name.clone())?;
    if !global.quiet {
        eprintln!("{}", diagnosis::agenda(&load, args.limits, budget));
    }
    let audience = Person::new("diagnose", global, Some(&args.path.wait));
    let mut ledgers = Ledgers::new("diagnose", ground, &args.out, &audience);
    let begun = ledgers.now();
    // Capacities of labs and testbeds are declared; nothing is known about a host's path.
    let is_unknown = ground.kind == TestbedKind::Hosts && args.path.testbed.is_none();
    let mut facts = Vec::new();
    if is_unknown && args.workload != STORAGE && !args.no_probe {
        announce(&ProbeBudget::default(), global);
        let mut missing = None;
        facts = probe::first_phase(&ledgers, (&from.name, &to.name), &mut missing)?;
        if let Some(why) = missing {
            eprintln!("linerate: {why}. The diagnosis goes on without facts of the path.");
        }
    }
    ledgers.path.clone_from(&facts);
    // The ledgers hold each experiment, so the answer can be judged again.
    let left = Nanos(budget.0.saturating_sub(ledgers.now().since(begun).0));
    let rungs = climb(&ledgers, load, args.limits as usize, left)?;
    drop(audience);
    let argv: Vec<String> = std::env::args().collect();
    // Commands in the answer repeat the place that this one was given.
    let place = CommandPlace::of_arguments(&argv).unwrap_or_default();
    let mut answer = diagnosis::ladder(&rungs, ground.kind, &args.out, &place);
    facts_of_path::add(&facts, &mut answer);
    reports::answer(&answer, &args.formats.saved(&args.out), global)?;
    Ok(exit_of(&rungs))
}
