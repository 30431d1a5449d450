//! `linerate tune`: a setting changed with consent, its effect proven, and put back.

pub(crate) mod host;
pub(crate) mod window;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use linerate_agent::serving::restored;
use linerate_campaign::tune::profile::{self, Turn};
use linerate_control::{Consent, Restored, restore};

use self::host::TuneHostArgs;
use self::window::WindowArgs;
use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    #[command(subcommand)]
    pub(crate) action: TuneAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TuneAction {
    /// Find the receive window that a shallow buffer survives, apply the narrowest setting that
    /// gives it, and prove its effect
    Window(WindowArgs),
    /// Try settings of both hosts of a path: each is predicted, proven in pairs beside a placebo,
    /// and put back; a profile records those that help
    Host(TuneHostArgs),
    /// Apply a profile to this host, unless a setting has changed since the profile was written
    Apply(ProfileArgs),
    /// Check whether this host matches a profile
    Check(ProfileArgs),
    /// Revert a profile on this host, unless a setting has changed since it was applied
    Revert(ProfileArgs),
    /// Put back settings that a killed agent left changed
    Restore,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Profile written by `linerate tune host`
    pub(crate) profile: PathBuf,
}

/// Runs the action of `args`.
pub(crate) fn run(args: &TuneArgs, global: Global) -> Outcome {
    match &args.action {
        TuneAction::Window(args) => window::run(args, global),
        TuneAction::Host(args) => host::run(args, global),
        TuneAction::Apply(args) => turn(args, Turn::Apply, global),
        TuneAction::Check(args) => turn(args, Turn::Check, global),
        TuneAction::Revert(args) => turn(args, Turn::Revert, global),
        TuneAction::Restore => put_back(global),
    }
}

/// Applies, checks or reverts a profile on this host.
fn turn(args: &ProfileArgs, turn: Turn, global: Global) -> Outcome {
    let (lines, exit) = profile::turn(&args.profile, turn)?;
    reports::lines(&lines, global.json);
    Ok(exit)
}

/// Puts back the settings that a killed agent left changed in this network namespace.
fn put_back(global: Global) -> Outcome {
    let found = restore(&Consent::default().journals).map_err(Failure::missing)?;
    let failed = found.iter().any(|restored| matches!(restored, Restored::Failed(_)));
    let lines: Vec<String> = found.into_iter().filter_map(restored).collect();
    match lines[..] {
        [] if !global.json => println!("nothing was left changed here"),
        _ => reports::lines(&lines, global.json),
    }
    // A setting that could not be put back needs a person.
    Ok(if failed { Exit::Missing } else { Exit::Done })
}
