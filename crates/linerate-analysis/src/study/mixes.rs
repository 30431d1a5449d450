//! Mixes: every job alone and all together, and the interference between them (storage reference
//! 5.7).
//!
//! For each job's main figure the ratio of together to alone is computed, round by round. The sum
//! of the ratios is the *joint efficiency*: the number of jobs if there is no interference, 1 if
//! they share one saturated resource, less if they do less together than one alone. Tails are
//! compared in the same way. Where two jobs go to and from the memory of one host, each in one
//! direction, the points of a sweep form a *direction matrix*. Writes of a device to memory go up
//! (disk reads, received frames), reads from it go down.
//!
//! Not covered: direct cache access, traffic from device to device, and the traffic of the memory
//! bus.

mod causes;
mod matrix;

use linerate_model::{Arm, Campaign, Direction, Endpoint, Metric, Point, Role, Use, metric};
use serde::{Deserialize, Serialize};

pub use causes::{Attribution, Cause, MixEvidence};
pub use matrix::{DirectionMatrix, MatrixCell, MatrixVerdict};

use super::pairs::{arm_of, without_arm};
use super::samples::Hosts;
use super::{Compared, Comparison, PointStudy};
use crate::compare::Change;
use crate::statistics::paired_shift;

/// All jobs of one point together, against each alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// The sweep it belongs to.
    pub sweep: String,
    /// Its coordinate, without the arm.
    pub parameters: Point,
    /// The measured jobs that have a figure on both sides, in the order of the plan.
    pub jobs: Vec<MixedJob>,
    /// The sum of the jobs' ratios; `None` if a job has no figure.
    pub joint: Option<Joint>,
    /// The shared resource, as far as the evidence shows.
    pub attribution: Attribution,
}

/// One job of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixedJob {
    /// Its number among the jobs of the point.
    pub job: usize,
    /// Workload name.
    pub workload: String,
    /// Endpoint names.
    pub from: String,
    /// Endpoint names.
    pub to: String,
    /// Its main figure, together against alone.
    pub main: Compared,
    /// Its times, together against alone.
    pub times: Vec<Compared>,
    /// Hosts whose memory its data goes to or comes from, and which way.
    pub ways: Vec<(String, MemoryDirection)>,
}

/// Direction of data over the links between a host's memory and its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryDirection {
    /// Devices write to memory: disk reads, received frames.
    Up,
    /// Devices read from memory: disk writes, sent frames.
    Down,
    /// Both at once.
    Both,
}

/// The joint efficiency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joint {
    /// Typical sum of the ratios (Hodges-Lehmann).
    pub value: f64,
    /// Interval at 95 %; `None` with fewer than six rounds.
    pub interval: Option<(f64, f64)>,
    /// Rounds.
    pub n: usize,
    /// Per round; `None` where a trial carries no figure.
    pub values: Vec<Option<f64>>,
}

impl MixedJob {
    /// Returns whether its main figure got worse.
    #[must_use]
    pub fn lost(&self) -> bool {
        self.main.effect.change == Change::Worse
    }

    /// Returns whether it is shown to have kept its whole rate.
    #[must_use]
    pub fn kept(&self) -> bool {
        matches!(self.main.effect.change, Change::None | Change::Better)
    }
}

/// Returns the mixes of `campaign`, whose points are judged and whose arms are compared.
pub(super) fn mixes(
    campaign: &Campaign,
    hosts: &Hosts<'_>,
    points: &[PointStudy],
    comparisons: &[Comparison],
) -> Vec<Mix> {
    let arms: Vec<(&PointStudy, &Arm)> =
        points.iter().filter_map(|point| Some((point, arm_of(campaign, point)?))).collect();
    let together = arms.iter().filter(|(_, arm)| arm.role == Role::Together);
    together.map(|(point, arm)| mix(campaign, hosts, point, &arms, (arm, comparisons))).collect()
}

fn mix(
    campaign: &Campaign,
    hosts: &Hosts<'_>,
    point: &PointStudy,
    arms: &[(&PointStudy, &Arm)],
    (arm, comparisons): (&Arm, &[Comparison]),
) -> Mix {
    let parameters = without_arm(point);
    let of_arm = comparisons.iter().filter(|comparison| comparison.changed.name == arm.name);
    let own = of_arm.filter(|one| one.sweep == point.sweep && one.parameters == parameters);
    let compared: Vec<&Compared> = own.flat_map(|comparison| &comparison.figures).collect();
    let jobs: Vec<MixedJob> = (0..point.jobs.len())
        .filter_map(|number| mixed_job(campaign, point, number, &compared))
        .collect();
    // The last one adds up the others.
    let n_measured = point.jobs.iter().filter(|job| !job.background).count().saturating_sub(1);
    let alone: Vec<(&PointStudy, &Arm)> = arms
        .iter()
        .filter(|(other, arm)| {
            arm.role == Role::Alone
                && other.sweep == point.sweep
                && without_arm(other) == parameters
        })
        .copied()
        .collect();
    // A sum that lacks a job would look like interference.
    let joint = (jobs.len() == n_measured).then(|| joint(point, &alone, &jobs)).flatten();
    let attribution = causes::attribution(campaign, hosts, point, &alone, &jobs);
    Mix { sweep: point.sweep.clone(), parameters, jobs, joint, attribution }
}

fn mixed_job(
    campaign: &Campaign,
    point: &PointStudy,
    number: usize,
    compared: &[&Compared],
) -> Option<MixedJob> {
    let of_metric = |metric| figure_of(compared, number, metric);
    let main = Metric::moved().find_map(of_metric)?.clone();
    let job = &point.jobs[number];
    let id = point.trials.first()?.id;
    let spec = &campaign.trials.iter().find(|trial| trial.spec.id == id)?.spec.jobs.get(number)?;
    let is_storage = job
        .metric(metric::IOPS, Direction::Tx)
        .or(job.metric(metric::IOPS, Direction::Rx))
        .is_some();
    let moved = main.metric.metric()?;
    let carries =
        |direction| job.metric(moved, direction).is_some_and(|figure| figure.estimate.is_some());
    Some(MixedJob {
        job: number,
        workload: job.workload.clone(),
        from: job.from.clone(),
        to: job.to.clone(),
        times: Use::Mixed.metrics().filter_map(of_metric).cloned().collect(),
        ways: ways(
            is_storage,
            [&spec.from, &spec.to],
            carries(Direction::Tx),
            carries(Direction::Rx),
        ),
        main,
    })
}

/// Returns the figure of `metric` of the job with this number.
fn figure_of<'a>(
    compared: &[&'a Compared],
    number: usize,
    metric: &'static Metric,
) -> Option<&'a Compared> {
    let of_job = compared.iter().copied().filter(|figure| figure.job == number);
    let of_metric = of_job.filter(|figure| figure.metric == metric);
    // The sum of both directions, where there is one, is the demand of a job.
    of_metric.max_by_key(|figure| figure.direction == Direction::Sum)
}

/// Returns the direction of a job's data at each host. Data sent by the active end leaves its
/// memory and enters the passive end's.
fn ways(
    is_storage: bool,
    [from, to]: [&Endpoint; 2],
    tx: bool,
    rx: bool,
) -> Vec<(String, MemoryDirection)> {
    fn way(down: bool, up: bool) -> Option<MemoryDirection> {
        match (down, up) {
            (true, true) => Some(MemoryDirection::Both),
            (true, false) => Some(MemoryDirection::Down),
            (false, true) => Some(MemoryDirection::Up),
            (false, false) => None,
        }
    }
    let mut ways: Vec<(String, MemoryDirection)> =
        way(tx, rx).map(|way| (from.host.clone(), way)).into_iter().collect();
    // A load on a disk has one host.
    if !is_storage && to.host != from.host {
        ways.extend(way(rx, tx).map(|way| (to.host.clone(), way)));
    }
    ways
}

/// Sums the jobs' ratios, round by round.
fn joint(point: &PointStudy, alone: &[(&PointStudy, &Arm)], jobs: &[MixedJob]) -> Option<Joint> {
    let ratios = jobs.iter().map(|mixed| ratios(point, alone, mixed));
    let ratios: Vec<Vec<Option<f64>>> = ratios.collect::<Option<_>>()?;
    let n_rounds = ratios.iter().map(Vec::len).min()?;
    let values: Vec<Option<f64>> = (0..n_rounds)
        .map(|round| ratios.iter().map(|of_job| of_job[round]).sum::<Option<f64>>())
        .collect();
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    // The shift of the sums against zero gives the Hodges-Lehmann estimate and its interval.
    let shift = paired_shift(&vec![0.0; known.len()], &known)?;
    Some(Joint { value: shift.value, interval: shift.interval, n: known.len(), values })
}

/// Returns, for each round, what the job of the mix keeps of its rate alone.
fn ratios(
    point: &PointStudy,
    alone: &[(&PointStudy, &Arm)],
    mixed: &MixedJob,
) -> Option<Vec<Option<f64>>> {
    let (base, place) = alone.iter().find_map(|(base, arm)| {
        Some((base, arm.jobs.iter().position(|job| *job as usize == mixed.job)?))
    })?;
    let before = values_of(base, place, mixed)?;
    let after = values_of(point, mixed.job, mixed)?;
    // A rate of zero alone has no ratio.
    let ratio = |before: Option<f64>, after| Some(after? / before.filter(|value| *value > 0.0)?);
    Some(before.iter().zip(after).map(|(before, after)| ratio(*before, *after)).collect())
}

/// Returns the values that the job `number` of `point` has of the main figure of `mixed`.
fn values_of<'a>(
    point: &'a PointStudy,
    number: usize,
    mixed: &MixedJob,
) -> Option<&'a [Option<f64>]> {
    let job = point.jobs.get(number)?;
    let figure = job.metric(mixed.main.metric.metric()?, mixed.main.direction)?;
    Some(&figure.values)
}

/// Returns the direction matrices that the mixes of each sweep form.
pub(super) fn matrices(mixes: &[Mix]) -> Vec<DirectionMatrix> {
    matrix::matrices(mixes)
}
