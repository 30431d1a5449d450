//! Rates that the jobs of one trial reached, as a load that can be offered: operations and bits per
//! second. Not covered: whether the trial was typical; the caller decides that from several.

use linerate_model::{Campaign, Direction, Metric, TrialRecord, Unit, metric};

use super::samples::Hosts;
use super::{JobStudy, point};

/// Rate that one job reached; nothing where it carries no figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reached {
    /// Requests, connections, transfers or datagrams per second, both directions together.
    pub operations: Option<f64>,
    /// Operations per second of the slowest direction that carried any.
    pub operations_each_way: Option<f64>,
    /// Payload bits per second of that direction.
    pub bits_each_way: Option<f64>,
}

/// Returns the rates that the jobs of `trial` reached, in their order. Only this trial of
/// `campaign` counts.
#[must_use]
pub fn reached(campaign: &Campaign, trial: &TrialRecord) -> Vec<Reached> {
    let study = point::study(campaign, &Hosts::of(campaign), &[trial]);
    study.jobs.iter().take(trial.spec.jobs.len()).map(of_job).collect()
}

fn of_job(job: &JobStudy) -> Reached {
    let some = |metric: &'static Metric| Some(ways(job, metric)).filter(|ways| !ways.is_empty());
    let counts_operations =
        |metric: &&Metric| matches!(metric.unit, Unit::PerSecond | Unit::PacketPerSecond);
    let least = |ways: Vec<f64>| ways.into_iter().reduce(f64::min);
    let operations = Metric::chiefs().into_iter().filter(counts_operations).find_map(some);
    Reached {
        operations: operations.clone().map(|ways| ways.iter().sum()),
        operations_each_way: operations.and_then(least),
        bits_each_way: some(metric::GOODPUT).and_then(least),
    }
}

/// Returns the figures of `metric` by direction, without idle directions; their sum where
/// directions are not distinguished.
fn ways(job: &JobStudy, metric: &Metric) -> Vec<f64> {
    let figure = |direction| {
        job.metric(metric, direction)?.values.first().copied()?.filter(|value| *value > 0.0)
    };
    let each: Vec<f64> = [Direction::Tx, Direction::Rx].into_iter().filter_map(figure).collect();
    if each.is_empty() { figure(Direction::Sum).into_iter().collect() } else { each }
}
