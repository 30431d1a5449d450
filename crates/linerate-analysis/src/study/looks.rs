//! Points that are repeated until their figures are known well enough (methodology 6.4): what each look saw, and why it ended there.
//!
//! Everything is computed anew from the runs recorded and the looks planned, so that a ledger tells how often it was looked at.

use std::collections::BTreeMap;

use linerate_model::{Campaign, Direction, TrialOutcome, TrialRecord, Until};
use serde::{Deserialize, Serialize};

use super::samples::Hosts;
use super::{JobStudy, MetricStudy, PointStudy, point};
use crate::statistics::half_width_at;

/// What has to be known where the plan names nothing: the first of these that there is.
const CHIEF: [&str; 7] =
    ["goodput", "transaction_rate", "connection_rate", "iops", "transfer_rate", "packet_rate", "null_step_cost"];

/// A point's looks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Looks {
    /// As planned.
    pub until: Until,
    /// The metric looked at; empty if no run has one.
    pub metric: String,
    /// Looks taken.
    pub taken: Vec<Look>,
    /// Runs that came to their end.
    pub runs: u32,
    /// Why it ended.
    pub ended: LooksEnded,
}

/// One look.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// After so many runs.
    pub runs: u32,
    /// Half width of the interval, part of the median, of the direction that is known least; `None` if there are too few figures for one.
    pub half_width: Option<f64>,
    /// Whether it is narrow enough.
    pub is_enough: bool,
}

/// Why a point is repeated no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LooksEnded {
    /// The interval is narrow enough.
    Narrow,
    /// It is as often repeated as the plan allows, and is not.
    Most,
    /// Neither: the campaign was cut short, or runs were found wanting later.
    Short,
}

/// Figures of one run that are looked at, by direction.
pub type LookedAt = BTreeMap<Direction, f64>;

impl Looks {
    /// In words: `narrow enough at look 1 of 5: ±0.8 % of ±2 % after 6 runs`.
    #[must_use]
    pub fn told(&self) -> String {
        let percent = |share: f64| format!("±{} %", crate::statistics::half_up(share * 100.0, 1));
        let asked = percent(self.until.within.0);
        let last = self.taken.last();
        let seen = last.and_then(|look| look.half_width).map_or_else(|| "no interval".to_owned(), percent);
        let (look, of) = (self.taken.len(), self.until.looks.len());
        match self.ended {
            LooksEnded::Narrow => {
                format!("narrow enough at look {look} of {of}: {seen} of {asked} after {} runs", self.runs)
            }
            LooksEnded::Most => format!("noise: {seen} after all {} runs, {asked} was asked for", self.runs),
            LooksEnded::Short => format!("cut short after {} runs: {seen}, {asked} was asked for", self.runs),
        }
    }
}

/// Which of the looks `runs` belong to: the first that is not before them.
pub(super) fn number(until: &Until, runs: usize) -> usize {
    until.looks.iter().position(|look| *look as usize >= runs).unwrap_or(until.looks.len().saturating_sub(1))
}

/// The look of this number at the figures of the runs up to it.
#[must_use]
pub fn look(until: &Until, number: usize, figures: &[LookedAt]) -> Look {
    let directions: std::collections::BTreeSet<Direction> =
        figures.iter().flat_map(|run| run.keys().copied()).collect();
    let width = |direction: Direction| {
        let values: Vec<f64> = figures.iter().filter_map(|run| run.get(&direction).copied()).collect();
        half_width_at(&values, &until.looks, number)
    };
    let widths: Option<Vec<f64>> = directions.into_iter().map(width).collect();
    let half_width = widths.and_then(|widths| widths.into_iter().reduce(f64::max));
    Look {
        runs: until.looks.get(number).copied().unwrap_or_default(),
        half_width,
        is_enough: half_width.is_some_and(|width| width <= until.within.0),
    }
}

/// What is looked at of `trial`, the only one of `campaign` that counts; empty if it carries no figure.
#[must_use]
pub fn looked_at(campaign: &Campaign, trial: &TrialRecord) -> LookedAt {
    let Some(until) = &trial.spec.until else { return LookedAt::new() };
    let study = point::study(campaign, &Hosts::of(campaign), &[trial]);
    let Some((_, metrics)) = chief(&study, until) else { return LookedAt::new() };
    metrics.into_iter().filter_map(|metric| Some((metric.direction, metric.values.first().copied()??))).collect()
}

/// The looks at `study`, the point of `trials`, if it was to be looked at.
pub(super) fn looks(study: &PointStudy, trials: &[&TrialRecord]) -> Option<Looks> {
    let until = trials.first()?.spec.until.as_deref()?;
    let ended = |trial: &&&TrialRecord| matches!(trial.outcome, Some(TrialOutcome::Completed | TrialOutcome::Failed));
    let runs = trials.iter().filter(ended).count();
    let (metric, metrics) = chief(study, until).unwrap_or_default();
    let figures: Vec<LookedAt> = (0..trials.len())
        .map(|place| metrics.iter().filter_map(|of| Some((of.direction, of.values[place]?))).collect())
        .collect();
    let reached = until.looks.iter().enumerate().filter(|(_, n)| **n as usize <= runs);
    let taken: Vec<Look> =
        reached.map(|(number, n)| look(until, number, &figures[..(*n as usize).min(figures.len())])).collect();
    let is_enough = taken.last().is_some_and(|look| look.is_enough && look.runs as usize == runs);
    let ended = if is_enough {
        LooksEnded::Narrow
    } else if runs >= until.most() as usize {
        LooksEnded::Most
    } else {
        LooksEnded::Short
    };
    Some(Looks { until: until.clone(), metric, taken, runs: u32::try_from(runs).unwrap_or(u32::MAX), ended })
}

/// The metric that is looked at, in every direction, of all measured jobs together.
fn chief<'a>(study: &'a PointStudy, until: &Until) -> Option<(String, Vec<&'a MetricStudy>)> {
    let job: &JobStudy = study
        .jobs
        .last()
        .filter(|job| job.workload == point::ALL)
        .or_else(|| study.jobs.iter().find(|job| !job.background))?;
    let named =
        |name: &str| -> Vec<&'a MetricStudy> { job.metrics.iter().filter(|metric| metric.name == name).collect() };
    let names = until.of.as_deref().map_or(CHIEF.to_vec(), |name| vec![name]);
    names.into_iter().map(|name| (name.to_owned(), named(name))).find(|(_, metrics)| !metrics.is_empty())
}
