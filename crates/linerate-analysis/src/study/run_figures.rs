//! Figures of one run of a point with looks, as it ends: the same as in the point's study.

use linerate_model::{Campaign, TrialRecord};

use super::looks::{LookedAt, chief};
use super::point;
use super::samples::Hosts;

/// Returns the figures of `trial` that looks examine; empty if it carries none. Only this trial of
/// `campaign` counts.
#[must_use]
pub fn looked_at(campaign: &Campaign, trial: &TrialRecord) -> LookedAt {
    let Some(until) = &trial.spec.until else { return LookedAt::new() };
    let study = point::study(campaign, &Hosts::of(campaign), &[trial]);
    let Some((_, metrics)) = chief(&study, until) else { return LookedAt::new() };
    metrics
        .into_iter()
        .filter_map(|metric| Some((metric.direction, metric.values.first().copied()??)))
        .collect()
}
