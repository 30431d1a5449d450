//! What the jobs of one trial reached, as a load that could be offered: operations and bits per second. What it does not see: whether the
//! trial was typical; that is for whoever takes several.

use linerate_model::{Campaign, Direction, TrialRecord};

use super::samples::Hosts;
use super::{JobStudy, point};

/// What counts a job's operations, the first of them that it has.
const OPERATIONS: [&str; 4] = ["transaction_rate", "connection_rate", "iops", "packet_rate"];
const BITS: [&str; 1] = ["goodput"];

/// What one job reached; nothing where it carries no figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reached {
    /// Requests, connections, transfers or datagrams per second, both directions together.
    pub operations: Option<f64>,
    /// The same of the direction that carried least, of those that carried any.
    pub operations_each_way: Option<f64>,
    /// Payload bits per second of that direction.
    pub bits_each_way: Option<f64>,
}

/// What every job of `trial`, the only one of `campaign` that counts, reached, in the order of its jobs.
#[must_use]
pub fn reached(campaign: &Campaign, trial: &TrialRecord) -> Vec<Reached> {
    let study = point::study(campaign, &Hosts::of(campaign), &[trial]);
    study.jobs.iter().take(trial.spec.jobs.len()).map(of_job).collect()
}

fn of_job(job: &JobStudy) -> Reached {
    let figures = |names: &[&str]| names.iter().map(|name| ways(job, name)).find(|ways| !ways.is_empty());
    let least = |ways: Vec<f64>| ways.into_iter().reduce(f64::min);
    let operations = figures(&OPERATIONS);
    Reached {
        operations: operations.clone().map(|ways| ways.iter().sum()),
        operations_each_way: operations.and_then(least),
        bits_each_way: figures(&BITS).and_then(least),
    }
}

/// The figures of `metric` by direction, without those that carried nothing; their sum where directions are not told apart.
fn ways(job: &JobStudy, metric: &str) -> Vec<f64> {
    let figure = |direction| job.metric(metric, direction)?.values.first().copied()?.filter(|value| *value > 0.0);
    let each: Vec<f64> = [Direction::Tx, Direction::Rx].into_iter().filter_map(figure).collect();
    if each.is_empty() { figure(Direction::Sum).into_iter().collect() } else { each }
}
