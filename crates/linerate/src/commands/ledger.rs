//! `linerate ledger`: whether a ledger is as it was written, and what can be saved of one that is
//! not.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use linerate_store::{CampaignSummary, Health, examine, salvage};
use serde_json::{Value, json};

use crate::exit::{Exit, Outcome};

#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    #[command(subcommand)]
    pub(crate) action: LedgerAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerAction {
    /// Compare the file and each record with their digests and name what is damaged
    ///
    /// Exit 0 if nothing is, 3 if something is.
    Check {
        /// The ledger
        ledger: PathBuf,
    },
    /// Copy every undamaged record into a new ledger; trials that lost a record are run again by
    /// `run --resume`
    Salvage {
        /// The damaged ledger; it is not changed
        ledger: PathBuf,
        /// The new ledger
        to: PathBuf,
    },
}

/// Does what `action` asks.
pub(crate) fn run(action: &LedgerAction, as_json: bool) -> Outcome {
    match action {
        LedgerAction::Check { ledger } => check(ledger, as_json),
        LedgerAction::Salvage { ledger, to } => save(ledger, to, as_json),
    }
}

fn check(path: &Path, as_json: bool) -> Outcome {
    let health = examine(path)?;
    if as_json {
        println!("{}", document(&health));
    } else {
        print_health(path, &health);
    }
    let is_sound = health.damage.is_empty() && health.sealed != Some(false);
    Ok(if is_sound { Exit::Done } else { Exit::Invalid })
}

fn print_health(path: &Path, health: &Health) {
    let proof = if health.version < 3 {
        "an earlier linerate wrote it: its records have no digests, damage may be silent".to_owned()
    } else {
        format!("{} records match their digests", health.n_records)
    };
    println!("{}: schema {}; {proof}", path.display(), health.version);
    match health.sealed {
        Some(true) => println!("file: as it was when it was closed"),
        Some(false) => println!("file: changed after it was closed"),
        None => println!("file: not closed by its writer, so only its records are checked"),
    }
    if let Some(holder) = &health.held_by {
        println!("recorded by: {holder}, unless that process was killed");
    }
    for campaign in &health.campaigns {
        println!(
            "campaign {}: {}, {} of {} trials complete",
            campaign.id, campaign.name, campaign.n_completed, campaign.n_trials
        );
    }
    for damage in &health.damage {
        println!("damaged: {damage}");
    }
    if !health.damage.is_empty() {
        println!(
            "Run the trials that are left out again with `linerate run PLAN --ledger {} --resume`.",
            path.display()
        );
    }
}

fn document(health: &Health) -> Value {
    let campaign = |campaign: &CampaignSummary| {
        json!({
            "id": campaign.id, "name": campaign.name,
            "trials": campaign.n_trials, "completed": campaign.n_completed,
        })
    };
    json!({
        "schema": health.version,
        "records": health.n_records,
        "sealed": health.sealed,
        "held_by": health.held_by,
        "campaigns": health.campaigns.iter().map(campaign).collect::<Vec<_>>(),
        "damage": health.damage,
    })
}

fn save(from: &Path, to: &Path, as_json: bool) -> Outcome {
    let saved = salvage(from, to)?;
    if as_json {
        println!(
            "{}",
            json!({ "campaigns": saved.n_campaigns, "completed": saved.n_trials, "lost": saved.damage })
        );
    } else {
        println!(
            "{}: {} campaigns, {} complete trials",
            to.display(),
            saved.n_campaigns,
            saved.n_trials
        );
        saved.damage.iter().for_each(|damage| println!("lost: {damage}"));
    }
    Ok(Exit::Done)
}
