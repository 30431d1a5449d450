//! The study of a campaign: conclusions from its observations.
//!
//! Trials are judged one by one (`judge`), their warm-up is cut (`warmup`), figures are computed
//! from counters (`traffic`, `loss`, `host`), gated by the ceilings (`ceilings`, `gate`, `backlog`)
//! and gathered into one estimate per point, job, metric and direction (`point`). Metrics without a
//! direction have the direction `sum`. A metric whose inputs were not recorded is absent, never
//! zero. Arms of a comparison are points, compared pair by pair (`pairs`); so are jobs alone and
//! together (`mixes`). The tables in `traffic` and `host` list the source of each metric.

mod account;
mod backlog;
mod bursts;
pub(crate) mod ceilings;
mod clocks;
mod connections;
mod device;
mod drift;
mod evidence;
mod figures;
mod flow;
mod foreign;
mod gate;
mod grid;
mod headline;
mod host;
mod judge;
mod leaving;
mod looks;
mod loss;
mod loss_place;
mod loss_series;
mod members;
mod mixes;
mod observer_ports;
mod obtained;
mod offerable_load;
mod operations;
mod own_cost;
mod pacing;
mod pairs;
mod percentiles;
mod planned;
mod point;
mod reason;
mod received;
mod recovery;
mod run_figures;
mod samples;
mod search_comparisons;
mod search_latency;
mod search_trial;
mod searches;
mod series;
mod settling;
mod span;
mod stalls;
mod steady;
mod times;
mod traffic;
mod transfer_counts;
mod transfers;
mod unrest;
mod warmup;

use std::collections::BTreeMap;

use linerate_model::{
    Campaign, Ceiling, Direction, Distribution, Estimate, Layer, Metric, Point, TrialId,
    TrialRecord, TrialSpec, Unit, Validity, metric,
};
use serde::{Deserialize, Serialize};

pub use bursts::BurstStudy;
pub use ceilings::{NoRate, Rateless, Unbounded, interface_speed};
pub use clocks::clock_course;
pub use gate::{Refusal, Withheld};
pub use headline::{
    CpuUse, Headline, Limit, Moved, PathEnd, Reading, ReadingKind, Stage, StageCeiling, StageKind,
    Surety, Tested, headline, headlined,
};
pub use looks::{Look, LookedAt, Looks, LooksEnded, look};
pub use loss::{Imbalance, LossStudy};
pub use loss_place::{DropCause, LossPlace};
pub use mixes::{
    Attribution, Cause, DirectionMatrix, Joint, MatrixCell, MatrixVerdict, MemoryDirection, Mix,
    MixEvidence, MixedJob,
};
pub use observer_ports::{Agreement, PortNote, PortStudy};
pub use obtained::{Given, Obtained};
pub use offerable_load::{Reached, reached};
pub(crate) use pairs::adjust;
pub use pairs::{Compared, ComparedFigure, Comparison};
pub use percentiles::CorrectedStudy;
pub use planned::planned_ceiling;
pub use reason::{Kind, Reason, reasons};
pub use received::ReceivedByCpu;
pub use run_figures::looked_at;
pub(crate) use search_comparisons::{lower_bounds, search_step, unit_of_load};
pub use search_latency::{LatencyAtLoad, SearchLatency};
pub use search_trial::{SearchTrial, searched};
pub use searches::{GoalResult, GoalStudy, SearchRun, SearchStudy};
pub use series::IntervalSeries;
pub use settling::{RateLevel, Settled, TrialSettling};
pub use stalls::{Stall, Stopped};
pub use steady::{Steady, SteadyOf};
pub use transfer_counts::TransferCounts;
pub(crate) use warmup::moves;

use crate::path::PathFacts;
use crate::statistics::{MeanInterval, Percentile, mean, median};

/// Limits beyond which a trial is suspect or a search has no bound.
pub mod thresholds {
    pub use super::judge::{MOST_STEAL, MOST_WAITED};
    pub use super::search_trial::MOST_VERY_LATE;
    pub use super::stalls::LONGEST_STAND;
    pub use super::unrest::MOST_CHANGED;
}

/// All results of one campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// One for each sweep and point, in the order of the plan.
    pub points: Vec<PointStudy>,
    /// Comparisons of arms, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Every job alone and all together, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixes: Vec<Mix>,
    /// Direction matrices of mixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matrices: Vec<DirectionMatrix>,
    /// One for each sweep and point whose load was searched, in the order of the plan.
    #[serde(default)]
    pub searches: Vec<SearchStudy>,
    /// Findings of the rules.
    pub findings: Vec<crate::diagnosis::Finding>,
    /// Cost of the measurement itself.
    pub overhead: Overhead,
}

/// One point: all its repeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointStudy {
    /// The sweep it belongs to.
    pub sweep: String,
    /// Its coordinate.
    pub parameters: Point,
    /// Its jobs, in the order of the plan. Where several measured jobs run side by side, a job
    /// named `all` that adds them up comes last.
    pub jobs: Vec<JobStudy>,
    /// Bounds that hold here, lowest first per metric and direction.
    pub ceilings: Vec<Ceiling>,
    /// Where its flows between hosts have no bound: the reason for each end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbounded: Vec<Unbounded>,
    /// The worst validity of its estimates.
    pub validity: Validity,
    /// Why it is not valid.
    pub why: Vec<Reason>,
    /// Its trials.
    pub trials: Vec<TrialStudy>,
    /// For a point repeated until its figures are precise enough: the looks, and why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks: Option<Looks>,
    /// Counts of independent observers, per port and direction, beside the load expected there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<PortStudy>,
    /// The last frames of bursts that came at its ports at once, one by one, where receivers kept
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<BurstStudy>,
    /// Facts of the path that a probe measured, one for each direction: in its own trials, or
    /// before the campaign.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathFacts>,
    /// Packets that the CPUs of each machine received.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub received: Vec<ReceivedByCpu>,
}

impl PointStudy {
    /// Returns the facts of the path from endpoint `from` to endpoint `to`.
    #[must_use]
    fn path_facts(&self, from: &str, to: &str) -> Option<&PathFacts> {
        self.path.iter().find(|facts| facts.from == from && facts.to == to)
    }

    /// Returns the facts of the path that the data of `job` take in `direction`; `None` if no probe
    /// measured it.
    #[must_use]
    pub fn data_path(&self, job: &JobStudy, direction: Direction) -> Option<&PathFacts> {
        match direction {
            Direction::Rx => self.path_facts(&job.to, &job.from),
            _ => self.path_facts(&job.from, &job.to),
        }
    }

    /// Returns the facts of the path that the acknowledgements of these data take.
    #[must_use]
    pub fn reverse_path(&self, job: &JobStudy, direction: Direction) -> Option<&PathFacts> {
        match direction {
            Direction::Rx => self.path_facts(&job.from, &job.to),
            _ => self.path_facts(&job.to, &job.from),
        }
    }
}

/// Name of the job that adds up all measured ones.
pub(crate) const ALL: &str = "all";

/// One job of a point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobStudy {
    /// Workload name, or `all`.
    pub workload: String,
    /// Endpoint names.
    pub from: String,
    /// Endpoint names.
    pub to: String,
    /// True for a background job.
    pub background: bool,
    /// Parameters as run.
    pub params: linerate_model::Params,
    /// Estimates, by metric and direction, in the order of `METRICS`.
    pub metrics: Vec<MetricStudy>,
    /// Response-time distribution, all valid trials merged.
    pub response: Distribution,
    /// Service-time distribution.
    pub service: Distribution,
    /// Percentiles of those that follow, with their intervals, by name (`response`, `service`,
    /// `reads`, `writes`, `gap`); one with too few operations is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub percentiles: BTreeMap<String, Vec<Percentile>>,
    /// For a closed load of requests: an estimate of the waiting times of clients that arrive at
    /// its pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected: Option<CorrectedStudy>,
    /// Service times of reads of disks and files.
    #[serde(default)]
    pub reads: Distribution,
    /// Service times of writes to disks and files.
    #[serde(default)]
    pub writes: Distribution,
    /// Times of flushes of disks and files.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub flushes: Distribution,
    /// Times of discards of disks and files.
    #[serde(default, skip_serializing_if = "Distribution::is_empty")]
    pub trims: Distribution,
    /// Counts of each worker in each trial that carries figures; empty for a job without a disk or
    /// file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TransferCounts>,
    /// Departure-gap distribution.
    pub gap: Distribution,
    /// Socket options and modes obtained, by name.
    pub obtained: BTreeMap<String, Obtained>,
    /// Outcomes of its datagrams, per direction, added over the trials that carry figures; empty if
    /// it sent none.
    #[serde(default)]
    pub loss: Vec<LossStudy>,
    /// Figures that were measured and withheld, with the reason; empty where the gate passed
    /// everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<Withheld>,
}

/// One metric of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricStudy {
    /// The metric; its name in JSON.
    #[serde(rename = "name")]
    pub metric: &'static Metric,
    /// Unit.
    pub unit: Unit,
    /// Layer.
    pub layer: Option<Layer>,
    /// Direction.
    pub direction: Direction,
    /// Median over the runs with its interval; `None` if no run carries a figure (impossible,
    /// invalid, unavailable), or if most of them never settled (see `settled`).
    pub estimate: Option<Estimate>,
    /// For an infinite estimate (a percentile that falls among unanswered operations): a lower
    /// bound of the true value, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// For a rate: the mean over the runs that carry figures, with Student's interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<MeanInterval>,
    /// Per trial of the point, in the order of [`PointStudy::trials`]; `None` where there is no
    /// figure.
    pub values: Vec<Option<f64>>,
    /// The lowest ceiling on it, if there is one: index into [`PointStudy::ceilings`].
    pub ceiling: Option<usize>,
    /// Estimate over that ceiling.
    pub share: Option<f64>,
    /// Course of the rate over the trials, where trials are long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
}

impl MetricStudy {
    /// Returns `metric` without figures.
    #[must_use]
    pub const fn new(metric: &'static Metric, direction: Direction) -> Self {
        Self {
            metric,
            unit: metric.unit,
            layer: metric.layer,
            direction,
            estimate: None,
            at_least: None,
            mean: None,
            values: Vec::new(),
            ceiling: None,
            share: None,
            settled: None,
        }
    }

    /// Returns the figure `value` of a single run.
    #[must_use]
    pub fn single(metric: &'static Metric, direction: Direction, value: f64) -> Self {
        let estimate = Estimate { value, low: None, high: None, confidence: None, n: 1 };
        Self { estimate: Some(estimate), values: vec![Some(value)], ..Self::new(metric, direction) }
    }
}

/// One trial of a point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialStudy {
    /// Its number.
    pub id: TrialId,
    /// Its validity.
    pub validity: Validity,
    /// Why it is not valid.
    pub why: Vec<Reason>,
    /// Fraction of the measurement lost to others at the active and at the passive ends: to the
    /// hypervisor on the CPU with the most steal, or to other programs at the worker that waited
    /// longest, whichever is more. `None` where neither was read.
    #[serde(default)]
    pub taken: [Option<f64>; 2],
    /// The share of the measurement for which the busiest worker ran or waited for a CPU, of the
    /// active and of the passive ends; `None` where an end has no worker of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupied: Option<[f64; 2]>,
    /// Seconds since the start barrier: the end of each interval of the series.
    pub seconds: Vec<f64>,
    /// Per-interval series, measured jobs added up.
    pub series: BTreeMap<IntervalSeries, Vec<Option<f64>>>,
    /// Start of the measurement, seconds since the start barrier, after the warm-up was cut.
    pub measured_from: f64,
    /// Periods in which workers of the tester, or the machine, did not run although they had work.
    /// Operations in flight during them are in no distribution of times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stall>,
    /// True if a process of this machine carries frames between its hosts, as in some labs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_carried: bool,
}

/// Cost of the measurement itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// CPU cores the samplers used, by host: mean over trials.
    pub samplers: BTreeMap<String, f64>,
    /// Goodput of the `null` workload or step cost, where the campaign measured it, ns per step.
    pub null_step_ns: Option<f64>,
    /// Largest start skew seen, clock uncertainty added, ns.
    pub worst_start_skew_ns: Option<u64>,
}

impl JobStudy {
    /// Returns the study of `metric` in `direction`.
    #[must_use]
    pub fn metric(&self, metric: &Metric, direction: Direction) -> Option<&MetricStudy> {
        self.metrics.iter().find(|known| known.metric == metric && known.direction == direction)
    }
}

impl TrialStudy {
    /// Returns the fraction lost to others at the end that lost more.
    #[must_use]
    pub fn most_taken(&self) -> Option<f64> {
        self.taken.into_iter().flatten().max_by(f64::total_cmp)
    }
}

impl PointStudy {
    /// Returns the fraction lost to others at the worse end: the median of the trials in which it
    /// was read ([`TrialStudy::taken`]), as estimates are medians.
    #[must_use]
    pub fn taken(&self) -> Option<f64> {
        let read: Vec<f64> = self.trials.iter().filter_map(TrialStudy::most_taken).collect();
        median(&read)
    }

    /// Returns the same of the active and of the passive ends.
    #[must_use]
    pub fn taken_by_end(&self) -> [Option<f64>; 2] {
        [0, 1].map(|end| {
            let read = self.trials.iter().filter_map(|trial| trial.taken[end]);
            median(&read.collect::<Vec<f64>>())
        })
    }

    /// Returns the median fraction of the measurement for which the busiest worker of each end ran
    /// or waited for a CPU ([`TrialStudy::occupied`]).
    #[must_use]
    pub fn occupied(&self) -> Option<[f64; 2]> {
        let of_end = |end: usize| {
            self.trials.iter().filter_map(|trial| Some(trial.occupied?[end])).collect::<Vec<f64>>()
        };
        Some([median(&of_end(0))?, median(&of_end(1))?])
    }
}

/// Judges `campaign`. Pure: the same campaign gives the same study.
#[must_use]
pub fn study(campaign: &Campaign) -> Study {
    let judged = |repeats: Vec<usize>| {
        judge_point(campaign, &repeats.iter().map(|&at| &campaign.trials[at]).collect::<Vec<_>>())
    };
    conclude(campaign, points(&campaign.trials).into_iter().map(judged).collect())
}

/// Returns where the trials of each sweep and point stand among `trials`, in the order of the plan;
/// those of searches are judged apart.
#[must_use]
pub fn points(trials: &[TrialRecord]) -> Vec<Vec<usize>> {
    let is_planned = |at: &usize| trials[*at].spec.search.is_none();
    let mut planned: Vec<usize> = (0..trials.len()).filter(is_planned).collect();
    planned.sort_by_key(|&at| trials[at].spec.id);
    let mut points: Vec<Vec<usize>> = Vec::new();
    let mut places: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for at in planned {
        let spec = &trials[at].spec;
        let coordinate =
            serde_json::to_string(&spec.point).expect("a point is a table of JSON values");
        let place = *places.entry((&spec.sweep, coordinate)).or_insert(points.len());
        match points.get_mut(place) {
            Some(repeats) => repeats.push(at),
            None => points.push(vec![at]),
        }
    }
    points
}

/// Judges one point of `campaign`, whose repeats are `trials`. Reads the header and the hosts of
/// the campaign, and none of its other trials.
#[must_use]
pub fn judge_point(campaign: &Campaign, trials: &[&TrialRecord]) -> PointStudy {
    point::study(campaign, &samples::Hosts::of(campaign), trials)
}

/// Returns the study of `campaign` from those of all its points. Of trials that are not
/// [`is_read_again`], it reads what [`TrialRecord::forget`] leaves.
#[must_use]
pub fn conclude(campaign: &Campaign, mut points: Vec<PointStudy>) -> Study {
    let hosts = samples::Hosts::of(campaign);
    let path = crate::path::recorded(campaign);
    // Before the rules are asked: they use the facts of the path.
    points.iter_mut().for_each(|point| point.path.clone_from(&path));
    let overhead = overhead(campaign, &points);
    let searches = searches::searches(campaign);
    let mut comparisons = pairs::comparisons(campaign, &points);
    let findings = crate::diagnosis::findings(&points, &comparisons);
    let mixes = mixes::mixes(campaign, &hosts, &points, &comparisons);
    let matrices = mixes::matrices(&mixes);
    comparisons.extend(search_comparisons::comparisons(campaign, &searches));
    Study { points, comparisons, mixes, matrices, searches, findings, overhead }
}

/// Returns true for a trial of which all is read after the points were judged: a step of a search,
/// or a probe of the path.
#[must_use]
pub fn is_read_again(trial: &TrialSpec) -> bool {
    trial.search.is_some() || trial.jobs.iter().any(crate::path::is_probe)
}

fn overhead(campaign: &Campaign, points: &[PointStudy]) -> Overhead {
    let mut costs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (host, block) in campaign.trials.iter().flat_map(|trial| &trial.samples) {
        let read = block
            .times
            .last()
            .zip(block.times.first())
            .map_or(0, |(last, first)| last.since(*first).0);
        // A reading without a host is not from a sampler.
        if read > 0 && !host.is_empty() {
            costs.entry(host.clone()).or_default().push(block.cost_ns as f64 / read as f64);
        }
    }
    let steps: Vec<f64> = points
        .iter()
        .flat_map(|point| &point.jobs)
        .filter_map(|job| job.metric(metric::NULL_STEP_COST, Direction::Sum))
        .filter_map(|metric| metric.estimate.map(|estimate| estimate.value))
        .collect();
    Overhead {
        samplers: costs
            .into_iter()
            .filter_map(|(host, costs)| Some((host, mean(&costs)?)))
            .collect(),
        null_step_ns: median(&steps),
        worst_start_skew_ns: campaign
            .trials
            .iter()
            .filter_map(|t| t.skew)
            .map(|(skew, doubt)| skew + doubt)
            .max(),
    }
}
