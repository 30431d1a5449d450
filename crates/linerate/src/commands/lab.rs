//! `linerate lab`: emulated testbeds on their own.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use linerate_campaign::{labs, sandbox};
use linerate_lab::controller::Event;
use serde_json::json;

use crate::exit::{Exit, Failure, Outcome};

#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) action: LabAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabAction {
    /// Build a lab that stays; one with delays, faults, controllers or CPU shares stays as long as
    /// the command runs
    Up {
        /// A lab file, or the name of a preset
        lab: String,
    },
    /// Remove a lab
    Down {
        /// Its name
        lab: String,
    },
    /// List labs that are up (`linerate list labs` prints those that come with linerate)
    List,
    /// Run a command on a host of a lab
    Exec {
        /// Its name
        lab: String,
        /// The host
        host: String,
        /// The command
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Let something happen at an emulated controller of a lab that is up
    Event {
        /// Its name
        lab: String,
        /// The controller
        controller: String,
        /// What happens there
        #[arg(value_parser = PossibleValuesParser::new(Event::NAMES.map(|(name, _)| name)))]
        event: String,
    },
    /// Remove the remains of killed processes
    Reap,
}

/// Runs `action`.
pub(crate) fn run(action: LabAction, as_json: bool) -> Outcome {
    if !sandbox::is_root() {
        let message =
            "lab: root is needed for a lab of its own (labs of `run` and `demo` need none)";
        return Err(Failure::missing(message));
    }
    match action {
        LabAction::Up { lab } => {
            let up = labs::up(&lab)?;
            up.lines().iter().for_each(|line| println!("{line}"));
            up.stay()?.iter().for_each(|line| println!("{line}"));
        }
        LabAction::Down { lab } => labs::down(&lab)?,
        LabAction::List => list(as_json)?,
        LabAction::Exec { lab, host, command } => return Err(labs::exec(&lab, &host, &command)),
        LabAction::Event { lab, controller, event } => labs::order(&lab, &controller, &event)?,
        LabAction::Reap => {
            let reaped = linerate_lab::reap().map_err(Failure::missing)?;
            match as_json {
                true => println!("{}", json!(reaped)),
                false => reaped.iter().for_each(|name| println!("{name} removed")),
            }
        }
    }
    Ok(Exit::Done)
}

fn list(as_json: bool) -> Result<(), Failure> {
    let hosts = labs::hosts()?;
    if as_json {
        println!("{}", json!(hosts));
    } else if hosts.is_empty() {
        // An empty output would look like a list of presets without an entry.
        eprintln!("no lab is up; `linerate list labs` prints the labs that come with linerate");
    } else {
        let parts = hosts.iter().filter_map(|full| labs::parts(full));
        parts.for_each(|(lab, node)| println!("{lab} {node}"));
    }
    Ok(())
}
