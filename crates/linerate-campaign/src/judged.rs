//! A recorded campaign, judged point by point: only the trials that are judged at the moment are
//! whole in memory.

use std::collections::HashSet;

use linerate_analysis::{Study, conclude, headlined, is_read_again, judge_point, points, study};
use linerate_model::{Campaign, TrialId, TrialRecord};
use linerate_store::{Loaded, Recording, Result};

/// Judges the campaign of `recording` on all CPUs. Returns it with what damage to the ledger costs,
/// and its study. The records of its trials have what a report reads: all of searches, probes and
/// the headline, and of other trials all but intervals, flows and readings.
///
/// # Errors
/// If the ledger cannot be read.
pub fn judged(mut recording: Recording<'_>) -> Result<(Loaded, Study)> {
    if recording.is_whole() {
        let loaded = recording.finish();
        let study = study(&loaded.campaign);
        return Ok((loaded, study));
    }
    // The judgement of a point reads these two of its campaign.
    let Campaign { header, hosts, .. } = &recording.campaign;
    let frame = Campaign { hosts: hosts.clone(), ..Campaign::new(header.clone()) };
    let groups = points(&recording.campaign.trials);
    let points = recording.each(&groups, |trials| {
        let point = judge_point(&frame, &trials.iter().collect::<Vec<_>>());
        let known = trials.iter_mut().filter(|trial| !is_read_again(&trial.spec));
        known.for_each(TrialRecord::forget);
        point
    })?;
    recording.fill(|trial| trial.spec.search.is_some())?;
    let study = conclude(&recording.campaign, points);
    let shown: HashSet<TrialId> = headlined(&study).into_iter().collect();
    recording.fill(|trial| shown.contains(&trial.spec.id))?;
    Ok((recording.finish(), study))
}
