//! `linerate tune host`: settings of both hosts of a path, tried one after the other.

use std::path::{Path, PathBuf};

use clap::Args;
use linerate_campaign::Ended;
use linerate_campaign::stages::Ledgers;
use linerate_campaign::testbeds::{self, Ground};
use linerate_campaign::tune::host::{self, HostTuning};
use linerate_campaign::tune::outcome::Findings;
use linerate_campaign::tune::profile;

use crate::args::Global;
use crate::commands::ends::PathArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::progress;

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("where").required(true).multiple(true).args(["to", "lab", "testbed"]))]
pub(crate) struct TuneHostArgs {
    #[command(flatten)]
    pub(crate) path: PathArgs,
    /// Only these kinds of change, separated by commas: coalescing, congestion_control, offloads,
    /// pacing, placement, rings, socket_buffers
    #[arg(long = "try", value_name = "NAME", value_delimiter = ',')]
    pub(crate) tried: Vec<String>,
    /// Pairs of an experiment: six are the fewest that prove anything
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pairs: u32,
    /// Seconds of each run
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Seconds before each run that do not count
    #[arg(long, default_value_t = 0.5)]
    pub(crate) omit: f64,
    /// Folder for the ledgers and the profiles, one for each host
    #[arg(long, default_value = "tune-host")]
    pub(crate) out: PathBuf,
}

/// The file beside the ledgers.
const REPORT: &str = "report.txt";

/// Tries what may help.
pub(super) fn run(args: &TuneHostArgs, global: Global) -> Outcome {
    if !(args.seconds > 0.0 && args.omit >= 0.0) {
        return Err(Failure::wrong("tune: --seconds must be above zero and --omit not below it"));
    }
    let tuning = HostTuning {
        tried: args.tried.clone(),
        pairs: args.pairs,
        seconds: args.seconds,
        omit: args.omit,
    };
    host::chosen(&tuning.tried)?;
    let mut ground = testbeds::prepare(&args.path.place())?;
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::missing(format!("create folder {}: {error}", args.out.display()))
    })?;
    let ended = try_all(args, &tuning, global, &ground);
    ground.dismantle();
    Ended::outcome(ended)
}

fn try_all(
    args: &TuneHostArgs,
    tuning: &HostTuning,
    global: Global,
    ground: &Ground,
) -> Result<Exit, Ended> {
    let watch = || progress::watcher(global);
    let ledgers = Ledgers { what: "tune", ground, out: &args.out, watch: &watch };
    let ends = args.path.route().among("tune", &ground.testbed.endpoints)?;
    let mut findings = host::tune(&ledgers, &ground.testbed.hosts[..], ends, tuning)?;
    findings.profiles = profile::write(&args.out, &findings)?;
    tell(&findings, &args.out, global)?;
    Ok(if findings.kept().next().is_none() { Exit::Missed } else { Exit::Done })
}

/// Prints it, and writes the text beside the ledgers in `folder`.
fn tell(findings: &Findings, folder: &Path, global: Global) -> Result<(), Failure> {
    let (text, path) = (findings.text(), folder.join(REPORT));
    linerate_sys::whole_file::replace(&path, text.as_bytes()).map_err(|error| {
        Failure::missing(format!("write report {}: {}", path.display(), error.cause))
    })?;
    if global.json {
        println!("{}", findings.json());
    } else {
        print!("{text}");
    }
    Ok(())
}
