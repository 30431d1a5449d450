//! `linerate tune window`: the receive window that a shallow buffer survives.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use linerate_answers::window as answers;
use linerate_campaign::Ended;
use linerate_campaign::ends::{REACHED, Route, check_lengths, on_ground};
use linerate_campaign::stages::Ledgers;
use linerate_campaign::testbeds::{Ground, Place};
use linerate_campaign::tune::Present;
use linerate_campaign::tune::window::{self, WindowTuning};
use linerate_model::TestbedKind;

use crate::args::{Formats, Global, REACH, seconds};
use crate::commands::measure::{Person, WaitArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct WindowArgs {
    /// Host behind the buffer, whose settings are changed: a host with an agent, or with --lab an
    /// endpoint of the lab
    #[arg(long, value_name = "HOST")]
    pub(crate) to: String,
    /// Endpoint that sends to it [default: the first endpoint on another host]
    #[arg(long, value_name = "ENDPOINT", requires = "lab")]
    pub(crate) from: Option<String>,
    /// Lab file or preset: hosts emulated on this machine
    #[arg(long)]
    pub(crate) lab: Option<String>,
    #[arg(long, value_name = "COMMAND", conflicts_with = "lab", help = REACH)]
    pub(crate) reach: Option<String>,
    /// Interface of HOST that may be changed [default: the interface of its route back]
    #[arg(long, value_name = "IF")]
    pub(crate) interface: Option<String>,
    /// Interface of HOST whose NC-SI controller counts drops [default: the lab's]
    #[arg(long, value_name = "IF")]
    pub(crate) ncsi: Option<String>,
    /// Congestion control of the streams: name the one that the senders of this path use
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    pub(crate) congestion: String,
    /// Measure and print the commands, but change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Keep the setting if it is proven to help
    #[arg(long, conflicts_with_all = ["put_back", "dry_run"])]
    pub(crate) keep: bool,
    /// Put the setting back whatever its effect (default)
    #[arg(long)]
    pub(crate) put_back: bool,
    /// Change settings without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Use fewer windows and three pairs: an indication, no proof
    #[arg(long)]
    pub(crate) quick: bool,
    /// Pairs of the proof, which needs at least six [default: 6, with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pairs: Option<u32>,
    /// Length of each stream, in seconds or with a unit [default: 1 or 1.5]
    #[arg(long, value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// Warm-up before each run, in seconds or with a unit
    #[arg(long, default_value = "0.3", value_parser = seconds)]
    pub(crate) omit: f64,
    /// Folder for the ledgers and the report
    #[arg(long, default_value = "tune-window")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
    #[command(flatten)]
    pub(crate) formats: Formats,
}

/// Finds, applies, proves and puts back.
pub(super) fn run(args: &WindowArgs, global: Global) -> Outcome {
    check_lengths("tune", args.seconds, args.omit)?;
    let place = match &args.lab {
        Some(lab) => Place { lab: Some(lab.clone()), ..Place::default() },
        None => Place { to: Some(args.to.clone()), reach: args.reach.clone(), ..Place::default() },
    };
    on_ground(&place, &args.out, |ground| {
        if let Some(interface) = &args.ncsi {
            // `--to HOST` names the far endpoint by itself.
            let to = if args.lab.is_some() { args.to.as_str() } else { REACHED };
            let endpoints = ground.testbed.endpoints.iter_mut();
            endpoints
                .filter(|endpoint| endpoint.name == to || endpoint.host == to)
                .for_each(|endpoint| endpoint.ncsi = Some(interface.clone()));
        }
        tune(args, global, ground)
    })
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
        pairs: args.pairs.unwrap_or(window::usual_pairs(args.quick)),
        seconds: args.seconds,
        omit: args.omit,
    };
    let audience = Person::new("tune", global, Some(&args.wait));
    let ledgers = Ledgers::new("tune", ground, &args.out, &audience);
    // Asked before the consent: the question names the device that would be changed.
    let asked = window::ask(&ledgers, endpoints, ends, &tuning)?;
    let emulated = ground.kind == TestbedKind::Lab;
    // A lab's hosts belong to this run, so they need no consent.
    if !args.dry_run && !emulated {
        consent(args, &asked.present)?;
    }
    let (findings, exit) = window::tune(&ledgers, asked, &ground.capacities, emulated, &tuning)?;
    drop(audience);
    reports::answer(&answers::document(&findings), &args.formats.saved(&args.out), global)?;
    Ok(exit)
}

/// Asks the person at the terminal for consent, unless `--yes` gives it.
fn consent(args: &WindowArgs, present: &Present) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    let change = format!(
        "change the window of routes of {} at {}, or tcp_rmem, for some minutes",
        present.device(),
        args.to
    );
    // A question that nobody can answer would hang a script.
    if !std::io::stdin().is_terminal() {
        return Err(Failure::wrong(format!(
            "tune: no terminal to ask for consent to {change} (agree with --yes, or look with \
                --dry-run)"
        )));
    }
    // Questions go to standard error, because standard output may be piped.
    eprint!("This will {change}, and put it back. Continue? [y/N] ");
    let mut answer = String::new();
    let read = std::io::stderr().flush().and_then(|()| std::io::stdin().read_line(&mut answer));
    if read.is_ok() && answer.trim().eq_ignore_ascii_case("y") {
        return Ok(());
    }
    Err(Failure::wrong("tune: no consent; no setting was changed"))
}
