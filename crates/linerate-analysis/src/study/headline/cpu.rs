//! CPU use on the first screen.

use linerate_model::{Campaign, Direction, Estimate, Metric, TrialRecord, metric};
use serde::{Deserialize, Serialize};

use super::super::figures::Figures;
use super::super::samples::Hosts;
use super::super::traffic::Run;
use super::super::{PointStudy, host, point, warmup};
use crate::statistics::median;

/// CPU use at a point or in trials, as far as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// CPU seconds of both ends per gigabyte of payload.
    pub per_gigabyte: Option<Estimate>,
    /// Busy CPUs of the sender, cores.
    pub sender: Option<f64>,
    /// Busy CPUs of the receiver, cores.
    pub receiver: Option<f64>,
}

/// Returns the CPU use of `point`, whose data go in `direction`.
pub(super) fn of_point(point: &PointStudy, direction: Direction) -> CpuUse {
    // The counters of a host cannot be divided among its jobs.
    let jobs = || point.jobs.iter().rev().filter(|job| !job.background);
    let read = |metric| jobs().find_map(|job| job.metric(metric, Direction::Sum)?.estimate);
    let [from, to] = [metric::CPU_FROM, metric::CPU_TO].map(|of| read(of).map(|cores| cores.value));
    let (sender, receiver) = if direction == Direction::Rx { (to, from) } else { (from, to) };
    CpuUse { per_gigabyte: read(metric::CPU_SECONDS_PER_GIGABYTE), sender, receiver }
}

/// Returns the median CPU use of `trials`, whose data go from the active to the passive end.
pub(super) fn of_trials(campaign: &Campaign, trials: &[&TrialRecord]) -> CpuUse {
    let hosts = Hosts::of(campaign);
    let figures: Vec<Figures> = trials
        .iter()
        .map(|trial| {
            let (jobs, span) = (point::jobs_of(trial), warmup::measured(trial));
            host::figures(Run { trial, jobs: &jobs, hosts: &hosts, span })
        })
        .collect();
    let read = |metric| median_of(&figures, metric);
    CpuUse {
        per_gigabyte: read(metric::CPU_SECONDS_PER_GIGABYTE)
            .map(|value| alone(value, trials.len())),
        sender: read(metric::CPU_FROM),
        receiver: read(metric::CPU_TO),
    }
}

/// Returns the median of `n` values without an interval.
fn alone(value: f64, n: usize) -> Estimate {
    Estimate { value, low: None, high: None, confidence: None, n: n as u32 }
}

fn median_of(figures: &[Figures], metric: &'static Metric) -> Option<f64> {
    let values = figures.iter().filter_map(|one| one.at((metric, Direction::Sum)));
    median(&values.collect::<Vec<_>>())
}
