//! `linerate tune`: a setting changed with consent, what it does proven, and put back.

pub(crate) mod host;
mod outcome;
mod plans;
pub(crate) mod profile;
mod settings;
mod tell;
pub(crate) mod window;

use linerate_control::{Consent, Restored, restore};
use serde_json::json;

use crate::cli::{Global, TuneAction, TuneArgs};
use crate::exit::{Exit, Failure, Outcome};

/// Does what `args` ask for.
pub(crate) fn run(args: &TuneArgs, global: Global) -> Outcome {
    match &args.action {
        TuneAction::Window(args) => window::run(args, global),
        TuneAction::Host(args) => host::run(args, global),
        TuneAction::Apply(args) => profile::turn(&args.profile, profile::Turn::Apply, global),
        TuneAction::Check(args) => profile::turn(&args.profile, profile::Turn::Check, global),
        TuneAction::Revert(args) => profile::turn(&args.profile, profile::Turn::Revert, global),
        TuneAction::Restore => put_back(global),
    }
}

/// Puts back what a killed agent has left changed in this network namespace.
fn put_back(global: Global) -> Outcome {
    let restored = restore(&Consent::default().journals).map_err(Failure::missing)?;
    let failed = restored.iter().any(|restored| matches!(restored, Restored::Failed(_)));
    let lines: Vec<String> = restored.into_iter().filter_map(told).collect();
    if global.json {
        println!("{}", json!(lines));
    } else if lines.is_empty() {
        println!("nothing was left changed here");
    } else {
        lines.iter().for_each(|line| println!("{line}"));
    }
    Ok(if failed { Exit::Missing } else { Exit::Done })
}

/// What was done about a change that was found, if anything was.
pub(crate) fn told(restored: Restored) -> Option<String> {
    match restored {
        Restored::PutBack(what) => Some(format!("put back: {what}")),
        Restored::Untouched => None,
        Restored::Left(why) | Restored::Failed(why) => Some(why),
    }
}
