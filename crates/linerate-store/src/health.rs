//! Looking a ledger over, and saving what can be read of a damaged one.

use std::path::Path;

use linerate_model::{Event, TrialOutcome};

use crate::chain::Pace;
use crate::load::summary;
use crate::recording::Recording;
use crate::seal::Seal;
use crate::{CampaignSummary, Ledger, Result, StoreError, lease, schema};

/// Result of checking a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The schema of the file; records have digests from 3 on.
    pub version: i64,
    /// Records that are as they were written.
    pub n_records: u64,
    /// True if the whole file is as it was when it was last closed; absent if it was not closed, or
    /// has an earlier schema.
    pub sealed: Option<bool>,
    /// Who records into it, or was killed doing so.
    pub held_by: Option<String>,
    /// Its campaigns.
    pub campaigns: Vec<CampaignSummary>,
    /// The damaged parts.
    pub damage: Vec<String>,
}

/// Looks the whole ledger over: structure, seal, and every record.
///
/// # Errors
/// If it is no ledger, or its structure is damaged.
///
/// # Examples
/// ```
/// use linerate_store::{Ledger, examine};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("empty.ledger");
/// drop(Ledger::create(&path)?);
/// let health = examine(&path)?;
/// assert_eq!((health.n_records, health.sealed), (0, Some(true)));
/// assert!(health.damage.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn examine(path: &Path) -> Result<Health> {
    let ledger = Ledger::open_read_only(path)?;
    let mut health = Health { version: ledger.version, ..Health::default() };
    // Records have digests from schema 3 on; before that there is nothing to compare.
    if ledger.version < schema::VERSION {
        health.campaigns = ledger.campaigns()?;
        return Ok(health);
    }
    let (mut recordings, fold) = ledger.recordings()?;
    health.n_records = fold.n_records;
    health.damage = fold.damage.into_iter().map(|(_, message)| message).collect();
    recordings.sort_by_key(Recording::age);
    for mut recording in recordings {
        // What cannot be decoded is found by decoding it.
        recording.survey(|_| false)?;
        health.campaigns.push(summary(&recording.campaign));
        // The walk over all records found most of it already, with the same words.
        let damage = recording.finish().damage.into_iter();
        let new: Vec<String> = damage.filter(|damage| !health.damage.contains(damage)).collect();
        health.damage.extend(new);
    }
    health.sealed = match ledger.seal {
        Seal::Absent => None,
        Seal::Intact => Some(true),
        Seal::Broken => Some(false),
    };
    let holder = lease::read(&ledger.connection)
        .map_err(|error| StoreError::sqlite("read ledger", path, error))?;
    health.held_by = holder.map(|(holder, _)| holder.described());
    Ok(health)
}

/// Result of a repair: the records saved, and the records lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Campaigns in the new ledger.
    pub n_campaigns: usize,
    /// Their trials with all their records.
    pub n_trials: usize,
    /// The lost parts.
    pub damage: Vec<String>,
}

/// Copies every record of the ledger `from` that is as it was written into the new ledger `to`. A
/// trial that has lost a record is there without its data, as a failed one: `--resume` runs it
/// again.
///
/// # Errors
/// If nothing can be read, or `to` exists or cannot be written.
pub fn salvage(from: &Path, to: &Path) -> Result<Salvaged> {
    let mut ledger = Ledger::open_to_read(from, false)?;
    // The copy has its own seal.
    (ledger.pace, ledger.seal) = (Pace::Stumbling, Seal::Absent);
    let (recordings, _) = ledger.recordings()?;
    if recordings.is_empty() {
        return Err(StoreError::damaged(
            // An empty ledger would look like a success.
            from,
            "any campaign",
            "no campaign's beginning can be read",
        ));
    }
    let mut saved = Salvaged { n_campaigns: 0, n_trials: 0, damage: Vec::new() };
    let mut target = Ledger::create(to)?;
    for recording in recordings {
        // Each campaign is read on its own: all of them together may exceed the budget of the file.
        let loaded = ledger.filled_if_legacy(recording)?.whole()?;
        let is_complete = |event: &&Event| {
            matches!(event, Event::TrialEnded { outcome: TrialOutcome::Completed, .. })
        };
        let events = loaded.campaign.into_events();
        saved.n_trials += events.iter().filter(is_complete).count();
        saved.n_campaigns += 1;
        let new: Vec<String> =
            loaded.damage.into_iter().filter(|damage| !saved.damage.contains(damage)).collect();
        saved.damage.extend(new);
        for event in &events {
            target.take(event)?;
        }
        // Written per campaign, so that memory holds one campaign at a time.
        target.write_pending()?;
    }
    Ok(saved)
}
