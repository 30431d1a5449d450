//! `linerate tune host`: settings of both hosts of a path, tried one after the other.

use std::path::PathBuf;

use clap::Args;
use linerate_answers::host_settings;
use linerate_campaign::Ended;
use linerate_campaign::ends::{check_lengths, on_ground};
use linerate_campaign::stages::Ledgers;
use linerate_campaign::testbeds::Ground;
use linerate_campaign::tune::host::{self, HostTuning};
use linerate_campaign::tune::profile;

use crate::args::{Formats, Global, seconds};
use crate::commands::ends::PathArgs;
use crate::commands::measure::Person;
use crate::exit::{Exit, Outcome};
use crate::reports;

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("where").required(true).multiple(true)
        .args(["to", "lab", "testbed"])
)]
pub(crate) struct TuneHostArgs {
    #[command(flatten)]
    pub(crate) path: PathArgs,
    /// Kinds of change to try, separated by commas: coalescing, congestion_control, offloads,
    /// pacing, placement, rings, socket_buffers [default: all]
    #[arg(long = "try", value_name = "NAME", value_delimiter = ',')]
    pub(crate) tried: Vec<String>,
    /// Pairs of each experiment; a proof needs at least six
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pairs: u32,
    /// Length of each run, in seconds or with a unit
    #[arg(long, default_value = "1", value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Warm-up before each run, in seconds or with a unit
    #[arg(long, default_value = "0.5", value_parser = seconds)]
    pub(crate) omit: f64,
    /// Folder for the ledgers, the report and a profile for each host
    #[arg(long, default_value = "tune-host")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) formats: Formats,
}

/// Name of the report beside the ledgers.
const REPORT: &str = "report.txt";

/// Tries the settings that may help.
pub(super) fn run(args: &TuneHostArgs, global: Global) -> Outcome {
    check_lengths("tune", Some(args.seconds), args.omit)?;
    let tuning = HostTuning {
        tried: args.tried.clone(),
        pairs: args.pairs,
        seconds: args.seconds,
        omit: args.omit,
    };
    // A misspelt name is refused before a lab is built or a host is connected.
    host::chosen(&tuning.tried)?;
    on_ground(&args.path.place(), &args.out, |ground| try_all(args, &tuning, global, ground))
}

fn try_all(
    args: &TuneHostArgs,
    tuning: &HostTuning,
    global: Global,
    ground: &Ground,
) -> Result<Exit, Ended> {
    let audience = Person::new("tune", global, Some(&args.path.wait));
    let ledgers = Ledgers::new("tune", ground, &args.out, &audience);
    let ends = args.path.route().among("tune", &ground.testbed.endpoints)?;
    let mut findings = host::tune(&ledgers, &ledgers, ends, tuning)?;
    drop(audience);
    findings.profiles = profile::write(&args.out, &findings)?;
    let answer = host_settings::document(&findings, ground.kind);
    // The folder of ledgers is kept and passed on: its text report needs no option.
    let text = linerate_report::text::whole(&answer);
    reports::write_file("report", &args.out.join(REPORT), &text)?;
    reports::answer(&answer, &args.formats.saved(&args.out), global)?;
    Ok(findings.exit())
}
