//! `linerate tune window`: the receive window that a shallow buffer survives; found, applied,
//! proven, and put back.
//!
//! What it does not see: other traffic on the path while it measures.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use linerate_campaign::Ended;
use linerate_campaign::ends::{REACHED, Route};
use linerate_campaign::stages::Ledgers;
use linerate_campaign::testbeds::{self, Ground, Place};
use linerate_campaign::tune::Present;
use linerate_campaign::tune::window::{self, WindowTuning};
use linerate_model::TestbedKind;

use crate::args::Global;
use crate::commands::tune::tell;
use crate::exit::{Exit, Failure, Outcome};
use crate::progress;

#[derive(Debug, Args)]
pub(crate) struct WindowArgs {
    /// The host behind the buffer, whose settings are changed: an agent's host, or with --lab an
    /// endpoint of the lab
    #[arg(long, value_name = "HOST")]
    pub(crate) to: String,
    /// The endpoint that sends to it [default: the first one elsewhere]
    #[arg(long, value_name = "ENDPOINT", requires = "lab")]
    pub(crate) from: Option<String>,
    /// A lab file or preset: hosts emulated on this machine
    #[arg(long)]
    pub(crate) lab: Option<String>,
    /// The interface of HOST that may be touched [default: the one its route back leads out of]
    #[arg(long, value_name = "IF")]
    pub(crate) interface: Option<String>,
    /// The interface of HOST behind which an NC-SI controller counts what it drops [default: the
    /// lab's]
    #[arg(long, value_name = "IF")]
    pub(crate) ncsi: Option<String>,
    /// Congestion control of the streams: say what the senders of this path use
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    pub(crate) congestion: String,
    /// Measure and print the commands, but change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Keep the setting if it is proven to help
    #[arg(long, conflicts_with_all = ["put_back", "dry_run"])]
    pub(crate) keep: bool,
    /// Put the setting back whatever it does [default]
    #[arg(long)]
    pub(crate) put_back: bool,
    /// Change settings without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Fewer windows and three pairs: an indication, no proof
    #[arg(long)]
    pub(crate) quick: bool,
    /// Pairs of the proof: six are the fewest that prove anything [default: 6, with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pairs: Option<u32>,
    /// Seconds of each run of a stream [default: 1 or 1.5]
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Seconds before each run that do not count
    #[arg(long, default_value_t = 0.3)]
    pub(crate) omit: f64,
    /// Folder for the ledgers
    #[arg(long, default_value = "tune-window")]
    pub(crate) out: PathBuf,
}

impl WindowArgs {
    /// Pairs of the proof.
    fn pairs(&self) -> u32 {
        /// Six pairs are the fewest that carry an interval at 95 %.
        const PAIRS: u32 = 6;
        const FEW_PAIRS: u32 = 3;
        self.pairs.unwrap_or(if self.quick { FEW_PAIRS } else { PAIRS })
    }
}

/// Finds, applies, proves and puts back.
pub(super) fn run(args: &WindowArgs, global: Global) -> Outcome {
    if !(args.seconds.is_none_or(|seconds| seconds > 0.0) && args.omit >= 0.0) {
        return Err(Failure::wrong("tune: --seconds must be above zero and --omit not below it"));
    }
    let place = match &args.lab {
        Some(lab) => Place { lab: Some(lab.clone()), ..Place::default() },
        None => Place { to: Some(args.to.clone()), ..Place::default() },
    };
    let mut ground = testbeds::prepare(&place)?;
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::missing(format!("create folder {}: {error}", args.out.display()))
    })?;
    if let Some(interface) = &args.ncsi {
        let to = if args.lab.is_some() { args.to.as_str() } else { REACHED };
        let endpoints = ground
            .testbed
            .endpoints
            .iter_mut()
            .filter(|endpoint| endpoint.name == to || endpoint.host == to);
        endpoints.for_each(|endpoint| endpoint.ncsi = Some(interface.clone()));
    }
    let ended = tune(args, global, &ground);
    ground.dismantle();
    Ended::outcome(ended)
}

fn tune(args: &WindowArgs, global: Global, ground: &Ground) -> Result<Exit, Ended> {
    let endpoints = &ground.testbed.endpoints;
    let route =
        Route { to: Some(args.to.clone()), from: args.from.clone(), is_named: args.lab.is_some() };
    let ends = route.among("tune", endpoints)?;
    let tuning = WindowTuning {
        interface: args.interface.clone(),
        congestion: args.congestion.clone(),
        dry_run: args.dry_run,
        keep: args.keep,
        quick: args.quick,
        pairs: args.pairs(),
        seconds: args.seconds,
        omit: args.omit,
    };
    let asked = window::ask(&ground.testbed.hosts[..], endpoints, ends, &tuning)?;
    let emulated = ground.kind == TestbedKind::Lab;
    if !args.dry_run && !emulated {
        consent(args, &asked.present)?;
    }
    let watch = || progress::watcher(global);
    let ledgers = Ledgers { what: "tune", ground, out: &args.out, watch: &watch };
    let (told, exit) = window::tune(&ledgers, asked, &ground.capacities, emulated, &tuning)?;
    tell::tell(&told, global);
    Ok(exit)
}

/// Asks whoever sits there, or takes `--yes` for it.
fn consent(args: &WindowArgs, present: &Present) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    let what = format!(
        "change the window of routes of {} at {}, or tcp_rmem, for some minutes",
        present.device(),
        args.to
    );
    if !std::io::stdin().is_terminal() {
        return Err(Failure::wrong(format!(
            "tune: it would {what} (agree with --yes, or look with --dry-run)"
        )));
    }
    eprint!("This will {what}, and put it back. Go on? [y/N] ");
    let mut answer = String::new();
    let heard = std::io::stderr().flush().and_then(|()| std::io::stdin().read_line(&mut answer));
    if heard.is_ok() && answer.trim().eq_ignore_ascii_case("y") {
        return Ok(());
    }
    Err(Failure::wrong("tune: nothing was changed"))
}
