//! `linerate ledger`: damage to a ledger, and a copy of its undamaged records.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use linerate_answers::ledger as answers;
use linerate_store::{examine, salvage};

use crate::args::{Global, Saved};
use crate::exit::{Exit, Outcome};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    #[command(subcommand)]
    pub(crate) action: LedgerAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerAction {
    /// Compare the file and each record with their digests, and list the damage
    ///
    /// Exit 0 if there is none, 3 if there is.
    Check {
        /// The ledger
        ledger: PathBuf,
        #[command(flatten)]
        saved: Saved,
    },
    /// Copy every undamaged record into a new ledger; `run --resume` repeats the trials that lost
    /// one
    Salvage {
        /// The damaged ledger, which is not changed
        ledger: PathBuf,
        /// The new ledger
        to: PathBuf,
    },
}

/// Runs `action`.
pub(crate) fn run(action: &LedgerAction, global: Global) -> Outcome {
    match action {
        LedgerAction::Check { ledger, saved } => {
            let health = examine(ledger)?;
            reports::answer(&answers::checked(ledger, &health), saved, global)?;
            // Without a seal there is nothing to compare the file with.
            let is_sound = health.damage.is_empty() && health.sealed != Some(false);
            Ok(if is_sound { Exit::Done } else { Exit::Invalid })
        }
        LedgerAction::Salvage { ledger, to } => {
            let answer = answers::salvaged(to, &salvage(ledger, to)?);
            reports::answer(&answer, &Saved::nowhere(), global)?;
            Ok(Exit::Done)
        }
    }
}
