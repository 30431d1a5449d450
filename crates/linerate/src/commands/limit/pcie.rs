//! `linerate limit pcie`: the options filled in from what devices sit in, and figures over sizes.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use linerate_analysis::limits::{Limit, with_defaults};
use linerate_answers::ceilings as answers;
use linerate_campaign::slots::{self, OfDevices};
use linerate_model::Params;
use linerate_report::link_figures;

use crate::args::{Global, ReportFormats, Saved};
use crate::exit::{Exit, Failure, Outcome};
use crate::reports;

/// The calculator this file belongs to.
pub(super) const NAME: &str = "pcie";

// Options beside those of the calculator. A doc comment would become the help of the command.
#[derive(Debug, Args)]
struct PcieArgs {
    /// An interface or disk, or `all`: generation, lanes and payload settings are read, and the
    /// tree above it is shown
    #[arg(long, value_name = "DEVICE", conflicts_with_all = REPLACED)]
    device: Vec<String>,
    /// Output of `linerate facts --json` on another host [default: this host]
    #[arg(long, value_name = "FILE", requires = "device")]
    facts: Option<PathBuf>,
    /// Folder for figures of this link over payload and frame sizes
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    formats: ReportFormats,
}

/// Options of the calculator that a device replaces.
const REPLACED: [&str; 2] = ["gen", "lanes"];

/// Returns `command` with devices in place of generation and lanes, and a folder for figures.
pub(super) fn with_devices(command: Command) -> Command {
    let command = PcieArgs::augment_args(command).mut_arg("format", |arg| arg.requires("out"));
    let optional = |arg: Arg| arg.required(false).required_unless_present("device");
    REPLACED.into_iter().fold(command, |command, name| command.mut_arg(name, optional))
}

/// Prints the tree above the devices, if any were named, and the ceilings; writes figures, if
/// asked.
pub(super) fn run(limit: &Limit, matches: &ArgMatches, params: Params, global: Global) -> Outcome {
    let args =
        PcieArgs::from_arg_matches(matches).map_err(|error| Failure::wrong(error.to_string()))?;
    let mut found = if args.device.is_empty() {
        OfDevices { options: Some(params), ..OfDevices::default() }
    } else {
        slots::of_devices(&args.device, &slots::facts(args.facts.as_deref())?, &params)?
    };
    if let Some(options) = &found.options {
        found.ceilings.extend(super::ceilings(limit, options)?);
    }
    let answer = answers::of_devices(&found.tree, &found.ceilings);
    reports::answer(&answer, &Saved::nowhere(), global)?;
    let Some(out) = &args.out else { return Ok(Exit::Done) };
    let options = found.options.map(|options| with_defaults(&options, limit.options));
    let (link, port) = slots::link(options.as_ref())?;
    let figures = link_figures(&link, port, env!("CARGO_PKG_VERSION"));
    let files = reports::save(&figures, &args.formats.format, out)?;
    if !global.json {
        files.iter().for_each(|file| println!("figures {}", file.display()));
    }
    Ok(Exit::Done)
}
