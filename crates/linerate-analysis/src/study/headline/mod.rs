//! Headline of a campaign: the main figure, its limit and how well that is established, and the
//! path with every stage from application to application and the readings there.
//!
//! The headline describes one point: the first one with an experiment on its limit, otherwise the
//! one with the highest rate. Where loads were searched and no point was measured, it describes the
//! first search. Where that point is an arm of a comparison, or a job of a mix alone or together,
//! it describes the first arm and sets the other beside it, of the comparison with the largest
//! change (see [`beside`]). Figures are medians over the trials that carry figures, over the
//! measured span. A stage without readings is never filled from its neighbours. Not covered: the
//! inside of networks that count nothing, and the shares of a stage that several parallel jobs use
//! (drawn is the job in the finding, or the one with the highest rate).

mod beside;
mod between;
mod cpu;
mod ends;
mod mark;
mod reading;
mod stage;
mod storage;

pub use beside::headlined;

use linerate_model::{
    Campaign, Ceiling, Command, Direction, Estimate, Layer, Metric, Point, TrialRecord, Unit, Use,
    Validity, Verdict, metric,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::cpu::CpuUse;
pub use self::reading::{Reading, ReadingKind};
pub use self::stage::{PathEnd, Stage, StageCeiling, StageKind};
use super::samples::Hosts;
use super::span::Span;
use super::traffic::Job;
use super::{
    JobStudy, MetricStudy, PointStudy, SearchStudy, Study, Unbounded, point, search_trial, warmup,
};
use crate::diagnosis::{self, Advice, Claim, Evidence, Finding};
use crate::statistics::median;

/// The job that adds up all measured ones of a point.
const ALL: &str = "all";
/// The workload that moves nothing.
const NULL_WORKLOAD: &str = "null";

/// Headline of a campaign: its main figure, its limit and its path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// The sweep of the point.
    pub sweep: String,
    /// The coordinate.
    pub parameters: Point,
    /// Points and searches of the campaign.
    pub n_points: usize,
    /// The workload whose path it is.
    pub workload: String,
    /// The endpoint that sends; of a disk or file the one that reads and writes.
    pub from: String,
    /// The endpoint that receives.
    pub to: String,
    /// Jobs measured side by side.
    pub n_jobs: usize,
    /// Senders and receivers of those jobs that go between other endpoints than `from` and `to`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<[String; 2]>,
    /// The main figure; `None` where no trial carries a figure.
    pub moved: Option<Moved>,
    /// Course of the rate, where it never settled and so has no single number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
    /// CPU use of both ends; `None` where nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuUse>,
    /// Ends whose packets have no known ceiling, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbounded: Vec<Unbounded>,
    /// The limit.
    pub limit: Limit,
    /// From application to application, in the order in which data pass.
    pub stages: Vec<Stage>,
    /// The second arm, where this is the first of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Box<Headline>>,
}

/// The main figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Its metric; `None`, in JSON `load`, for the load that a search found.
    #[serde(serialize_with = "metric_or_load", deserialize_with = "named_metric")]
    pub metric: Option<&'static Metric>,
    /// Unit.
    pub unit: Unit,
    /// Layer.
    pub layer: Option<Layer>,
    /// Direction, as the job's first endpoint sees it.
    pub direction: Direction,
    /// The median with its interval; of a search the median of the lower bounds, its ends the
    /// lowest and highest run.
    pub estimate: Estimate,
    /// For a search: the goal, and the smallest load that misses it.
    pub goal: Option<(String, Option<f64>)>,
    /// Share of the lowest ceiling.
    pub share: Option<f64>,
    /// Share of the lowest ceiling that was reached, and that ceiling; of a sum without one, those
    /// of the direction that came nearer to its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<(f64, Ceiling)>,
    /// The standing of the point.
    pub validity: Validity,
}

fn metric_or_load<S: Serializer>(metric: &Option<&Metric>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(metric.map_or("load", |metric| metric.name))
}

fn named_metric<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'static Metric>, D::Error> {
    Ok(Metric::named(&String::deserialize(from)?))
}

/// How well the limit is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surety {
    /// An experiment moved it as predicted, a placebo did not.
    Proven,
    /// The evidence fits; no experiment was run, or none that proved it.
    Suspected,
    /// The evidence does not decide.
    Inconclusive,
    /// Counters locate the losses above the load found.
    Located,
    /// No diagnosis.
    NotDiagnosed,
}

/// The limit, as far as it is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// How well it is established.
    pub surety: Surety,
    /// The rule that found it.
    pub rule: Option<String>,
    /// The claim.
    pub claim: Option<Claim>,
    /// Observations that support it, or that were examined without a claim.
    pub evidence: Vec<Evidence>,
    /// The experiment that tested it.
    pub experiment: Option<Tested>,
    /// Command that tests the claims about the point with experiments.
    pub test: Option<Command>,
    /// Recommended next steps, the first one first.
    #[serde(rename = "steps")]
    pub next: Vec<Advice>,
}

impl Limit {
    /// Returns a limit about which nothing is known.
    fn not_diagnosed() -> Self {
        Self {
            surety: Surety::NotDiagnosed,
            rule: None,
            claim: None,
            evidence: Vec::new(),
            experiment: None,
            test: None,
            next: Vec::new(),
        }
    }

    /// Returns whether a limit is claimed, and not only possible.
    fn is_told(&self) -> bool {
        self.rule.is_some() && self.surety != Surety::Inconclusive
    }
}

/// An experiment and its effect on goodput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tested {
    /// The changed setting.
    pub changed: String,
    /// Factor by which goodput changed.
    pub shift: f64,
    /// Interval of the factor at 95 %.
    pub interval: Option<(f64, f64)>,
    /// Factor of the placebo.
    pub placebo: Option<f64>,
}

/// One trial of the headline's point, with the job and direction shown.
struct Seen<'a> {
    trial: &'a TrialRecord,
    job: Job<'a>,
    direction: Direction,
    span: Span,
}

/// Returns the sentence and the picture of `campaign`, judged by `study`; `None` where nothing was
/// measured.
#[must_use]
pub fn headline(campaign: &Campaign, study: &Study) -> Option<Headline> {
    let n_points = study.points.len() + study.searches.len();
    let told_of = |told| of_point(campaign, study, told, n_points);
    let found_by = |search| of_search(campaign, search, n_points);
    let arms = match best(study) {
        // A measured point has a path and a diagnosis, a search only loads. The point is shown if
        // both exist.
        Some(best) => match beside::arms(study, best) {
            Some(arms) => arms.map(told_of),
            None => return Some(told_of((best, drawn(study, best)))),
        },
        None => match beside::searches(study) {
            Some(arms) => arms.map(found_by),
            None => return study.searches.first().map(found_by),
        },
    };
    let [base, changed] = arms;
    Some(Headline { against: Some(Box::new(changed)), ..base })
}

/// Returns the point with the highest rate.
fn best(study: &Study) -> Option<&PointStudy> {
    let by_rank = |a: &&PointStudy, b: &&PointStudy| {
        rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    let carrying = study.points.iter().filter(|point| rank(point).is_some());
    // The first of equals: `max_by` takes the last.
    carrying.rev().max_by(by_rank).or_else(|| study.points.first())
}

/// Returns the rank of the main figure of `point` among those of all points.
fn rank(point: &PointStudy) -> Option<(std::cmp::Reverse<usize>, f64)> {
    let figure = figure(point)?;
    let kind = Metric::moved().position(|metric| metric == figure.metric)?;
    // Kinds of figures are in order of preference, so an earlier kind ranks higher than any value
    // of a later one.
    Some((std::cmp::Reverse(kind), figure.estimate?.value))
}

/// Returns the number of the job of `point` whose path is drawn: that of the leading finding, or
/// the busiest one.
fn drawn(study: &Study, point: &PointStudy) -> Option<usize> {
    let leading = diagnosis::of_point(study, point).into_iter().next();
    leading.and_then(|finding| mark::job(&finding, point)).or_else(|| busiest(point))
}

/// Returns the number of the job of `point` that carries most.
fn busiest(point: &PointStudy) -> Option<usize> {
    let rate = |job: &JobStudy| {
        figure_of(job).and_then(|m| m.estimate).map_or(0.0, |estimate| estimate.value)
    };
    let by_rate = |(a_at, a): &(usize, &JobStudy), (b_at, b): &(usize, &JobStudy)| {
        // Of equal jobs, the first in the plan.
        rate(a).total_cmp(&rate(b)).then(b_at.cmp(a_at))
    };
    measured(point).max_by(by_rate).map(|(number, _)| number)
}

/// Returns the measured jobs, without the one that adds them up.
fn measured(point: &PointStudy) -> impl Iterator<Item = (usize, &JobStudy)> {
    point.jobs.iter().enumerate().filter(|(_, job)| !job.background && job.workload != ALL)
}

/// Returns the main figure of `point`, of all its jobs together.
fn figure(point: &PointStudy) -> Option<&MetricStudy> {
    // The job that adds up all others is the last one.
    let job = point.jobs.iter().rev().find(|job| !job.background)?;
    figure_of(job)
}

fn figure_of(job: &JobStudy) -> Option<&MetricStudy> {
    let has = |wanted: &'static Metric| job.metrics.iter().any(|known| known.metric == wanted);
    // Each file is a transaction, but for files the payload counts.
    let answers = Use::Request.metrics().any(has) && !Use::FileOnly.metrics().any(has);
    let told = Metric::moved().filter(|metric| !answers || metric.is_for(Use::Request));
    let directions = [Direction::Sum, Direction::Tx, Direction::Rx];
    let usable = |metric: &&MetricStudy| {
        metric.estimate.is_some_and(|e| e.value.is_finite() && e.value > 0.0)
    };
    told.filter_map(|told| directions.into_iter().filter_map(|d| job.metric(told, d)).find(usable))
        .next()
}

/// Returns the course of the rate of `point`, if it has no single number.
fn unsettled(point: &PointStudy) -> Option<String> {
    let job = point.jobs.iter().rev().find(|job| !job.background)?;
    let settled = job.metrics.iter().filter_map(|metric| metric.settled.as_ref());
    settled.filter(|settled| !settled.has_single_number).map(|settled| settled.word.clone()).next()
}

/// Returns the direction in which `job` carries most.
fn direction(job: &JobStudy) -> Direction {
    let [tx, rx] = [Direction::Tx, Direction::Rx].map(|direction| carried(job, direction));
    if rx > tx { Direction::Rx } else { Direction::Tx }
}

/// Returns the goodput or the transfer rate of `job` in `direction`; zero if it has none.
fn carried(job: &JobStudy, direction: Direction) -> f64 {
    let names = [metric::GOODPUT, metric::TRANSFER_RATE];
    let metric = names.into_iter().find_map(|name| job.metric(name, direction)?.estimate);
    metric.map_or(0.0, |estimate| estimate.value)
}

/// Returns the headline of `point`, with the path of its job of that number.
fn of_point(
    campaign: &Campaign,
    study: &Study,
    (point, number): (&PointStudy, Option<usize>),
    n_points: usize,
) -> Headline {
    let moved = figure(point).and_then(|metric| {
        Some(Moved {
            metric: Some(metric.metric),
            unit: metric.unit,
            layer: metric.layer,
            direction: metric.direction,
            estimate: metric.estimate?,
            goal: None,
            share: metric.share,
            ceiling: nearest_ceiling(point, metric),
            validity: point.validity,
        })
    });
    let findings = diagnosis::of_point(study, point);
    let bottleneck = findings.first().and_then(|finding| mark::bottleneck(finding, point));
    let limit = limit(findings, study, point);
    // The headline exists without a job too, so that an invalid point still shows its limit.
    let mut told = Headline {
        sweep: point.sweep.clone(),
        parameters: point.parameters.clone(),
        n_points,
        workload: String::new(),
        from: String::new(),
        to: String::new(),
        n_jobs: measured(point).count(),
        others: Vec::new(),
        // A figure and a course without single number exclude each other.
        unsettled: if moved.is_none() { unsettled(point) } else { None },
        cpu: None,
        unbounded: point.unbounded.clone(),
        moved,
        limit,
        stages: Vec::new(),
        against: None,
    };
    let Some((number, job)) = number.and_then(|number| Some((number, point.jobs.get(number)?)))
    else {
        return told;
    };
    let direction = direction(job);
    let usable: Vec<_> =
        point.trials.iter().filter(|t| t.validity <= Validity::Suspect).map(|t| t.id).collect();
    let trials: Vec<&TrialRecord> = campaign
        .trials
        .iter()
        .filter(|trial| trial.spec.search.is_none() && usable.contains(&trial.spec.id))
        .collect();
    let seen = seen(&trials, number, direction);
    told.workload.clone_from(&job.workload);
    (told.from, told.to) = sides(job, direction);
    told.others = others(point, [&told.from, &told.to]);
    told.cpu = Some(cpu::of_point(point, direction));
    // Nothing moves, so there is no path to draw.
    if job.workload != NULL_WORKLOAD {
        told.stages = stages(campaign, Some((point, job)), &seen);
        if let Some(bottleneck) = bottleneck.filter(|_| told.limit.is_told()) {
            bottleneck.mark(&mut told.stages, number);
        }
    }
    told
}

/// Returns the share of a ceiling that `figure` of `point` reached, and that ceiling.
fn nearest_ceiling(point: &PointStudy, figure: &MetricStudy) -> Option<(f64, Ceiling)> {
    let bound = |metric: &MetricStudy| Some((metric.share?, point.ceilings.get(metric.ceiling?)?));
    let job = point.jobs.iter().rev().find(|job| !job.background)?;
    let ways = [Direction::Tx, Direction::Rx];
    let of_ways = || ways.iter().filter_map(|way| bound(job.metric(figure.metric, *way)?));
    let nearest = bound(figure).or_else(|| of_ways().max_by(|a, b| a.0.total_cmp(&b.0)));
    nearest.map(|(share, ceiling)| (share, ceiling.clone()))
}

/// Returns the names of the sender and the receiver.
fn sides(job: &JobStudy, direction: Direction) -> (String, String) {
    // A load on a disk has one end.
    if job.metrics.iter().any(|known| known.metric == metric::IOPS) || direction == Direction::Tx {
        return (job.from.clone(), job.to.clone());
    }
    (job.to.clone(), job.from.clone())
}

/// Returns the senders and receivers of the measured jobs of `point` between other endpoints than
/// `shown`, each once.
fn others(point: &PointStudy, shown: [&str; 2]) -> Vec<[String; 2]> {
    let mut others: Vec<[String; 2]> = Vec::new();
    for (_, job) in measured(point) {
        let (from, to) = sides(job, direction(job));
        let pair = [from, to];
        if pair != shown && !others.contains(&pair) {
            others.push(pair);
        }
    }
    others
}

fn seen<'a>(trials: &[&'a TrialRecord], number: usize, direction: Direction) -> Vec<Seen<'a>> {
    let mut seen = Vec::new();
    for &trial in trials {
        let mut jobs = point::jobs_of(trial);
        let span = warmup::measured(trial);
        if number < jobs.len() && span.seconds() > 0.0 {
            seen.push(Seen { trial, job: jobs.swap_remove(number), direction, span });
        }
    }
    seen
}

/// Returns every stage with what was seen there.
fn stages<'a>(
    campaign: &'a Campaign,
    studied: Option<(&PointStudy, &JobStudy)>,
    seen: &[Seen<'a>],
) -> Vec<Stage> {
    let Some(first) = seen.first() else { return Vec::new() };
    let hosts = Hosts::of(campaign);
    // A file that crosses a network is drawn as a path between hosts.
    let mut stages = if first.job.is_of_disk() && first.job.flow(first.direction).is_none() {
        storage::stages(first)
    } else {
        let mut stages = ends::sending(first, &hosts);
        stages.extend(between::stages(campaign, first, studied.map(|(point, _)| point)));
        stages.extend(ends::receiving(first, &hosts));
        stages
    };
    for stage in &mut stages {
        let readings: Vec<_> = seen.iter().map(|one| readings(stage, one, &hosts)).collect();
        stage.readings = merged(&readings);
        if let Some((point, job)) = studied {
            stage.readings.extend(mark::judged(stage, job, first.direction));
            stage.ceiling = mark::ceiling(stage, point, first.direction);
            stage.lost = mark::lost(stage, job, first.direction);
        }
    }
    stages
}

/// Returns what one trial read at `stage`.
fn readings<'a>(stage: &Stage, one: &Seen<'a>, hosts: &Hosts<'a>) -> Vec<Reading> {
    let is_of_disk = one.job.is_of_disk() && one.job.flow(one.direction).is_none();
    match stage.place {
        StageKind::Wire => between::readings(stage, one),
        StageKind::Cache | StageKind::Disk => storage::readings(stage, one),
        StageKind::Application | StageKind::Queue if is_of_disk => storage::readings(stage, one),
        StageKind::Application
        | StageKind::Socket
        | StageKind::Queue
        | StageKind::Interface
        | StageKind::Bus => ends::readings(stage, one, hosts),
    }
}

/// Returns the median of each reading over the trials that have it.
fn merged(trials: &[Vec<Reading>]) -> Vec<Reading> {
    let mut told: Vec<Reading> = Vec::new();
    for reading in trials.iter().flatten() {
        if told.iter().all(|known| known.kind != reading.kind) {
            let same = trials
                .iter()
                .flatten()
                .filter(|other| other.kind == reading.kind)
                .map(|other| other.value);
            // Single trials scatter. The median resists outliers, and the figures are medians too.
            let value = median(&same.collect::<Vec<_>>()).unwrap_or(reading.value);
            told.push(Reading { value, ..reading.clone() });
        }
    }
    told
}

/// Returns the leading finding of a point.
fn limit(findings: Vec<Finding>, study: &Study, point: &PointStudy) -> Limit {
    let leading =
        // "Nothing known" is no claim. Its evidence is shown without the words of a finding.
        findings.into_iter().next().filter(|finding| finding.rule != diagnosis::rules::UNKNOWN);
    let Some(finding) = leading else {
        let (evidence, next) =
            measured(point).find_map(|(_, job)| storage::known(job)).unwrap_or_else(|| {
                let unknown = diagnosis::unknown(point);
                (unknown.evidence, unknown.advice)
            });
        return Limit { evidence, next, ..Limit::not_diagnosed() };
    };
    let surety = match finding.verdict {
        Verdict::Proven => Surety::Proven,
        Verdict::Suspected => Surety::Suspected,
        Verdict::Inconclusive => Surety::Inconclusive,
    };
    Limit {
        surety,
        experiment: tested(study, point, &finding.rule),
        rule: Some(finding.rule),
        claim: Some(finding.claim),
        evidence: finding.evidence,
        test: diagnosis::experiment_command(point),
        next: finding.advice,
    }
}

/// Returns the experiment on `rule` at `point` that changed goodput most.
fn tested(study: &Study, point: &PointStudy, rule: &str) -> Option<Tested> {
    let of_rule = study.comparisons.iter().filter(|comparison| {
        comparison.sweep == point.sweep
            && comparison.base.tests.as_ref().is_some_and(|tests| tests.rule == rule)
    });
    let told = of_rule.filter_map(|comparison| {
        let goodput = diagnosis::goodput_of(comparison)?;
        Some(Tested {
            changed: comparison.changed.name.clone(),
            shift: goodput.effect.shift,
            interval: goodput.effect.interval,
            placebo: goodput.placebo.as_ref().map(|effect| effect.shift),
        })
    });
    told.max_by(|a, b| a.shift.ln().abs().total_cmp(&b.shift.ln().abs()))
}

fn of_search(campaign: &Campaign, search: &SearchStudy, n_points: usize) -> Headline {
    // A goal without a lower bound has no figure.
    let goal = search.goals.iter().find(|goal| goal.lower.is_some()).or(search.goals.first());
    let bits = search.search.unit == linerate_model::LoadUnit::Bits;
    let moved = goal.and_then(|goal| {
        let (lower, range) = (goal.lower?, goal.range);
        Some(Moved {
            metric: None,
            unit: if bits { Unit::BitPerSecond } else { Unit::PacketPerSecond },
            layer: None,
            direction: Direction::Tx,
            estimate: Estimate {
                value: lower,
                low: range.map(|(low, _)| low),
                high: range.map(|(_, high)| high),
                confidence: None,
                n: search.runs.len() as u32,
            },
            goal: Some((goal.goal.name.clone(), goal.upper)),
            share: None,
            ceiling: search.line.as_ref().map(|line| (lower / line.value, line.clone())),
            validity: Validity::Valid,
        })
    });
    let found = moved.as_ref().map_or(0.0, |moved| moved.estimate.value);
    let mut told = Headline {
        sweep: search.sweep.clone(),
        parameters: search.parameters.clone(),
        n_points,
        workload: search.workload.clone(),
        from: search.from.clone(),
        to: search.to.clone(),
        n_jobs: 1,
        others: Vec::new(),
        unsettled: None,
        cpu: None,
        unbounded: Vec::new(),
        moved,
        limit: Limit::not_diagnosed(),
        stages: Vec::new(),
        against: None,
    };
    // The trials nearest to what was found, of those that it carried.
    let runs = search
        .runs
        .iter()
        .flat_map(|run| &run.trials)
        .filter(|trial| trial.observation().is_some());
    let carried: Vec<&search_trial::SearchTrial> =
        runs.clone().filter(|trial| trial.load <= found * NEAR_LOAD).collect();
    let nearest = carried.iter().map(|trial| trial.load).fold(0.0, f64::max);
    let near: Vec<_> = carried
        .iter()
        .filter(|trial| trial.load >= nearest / NEAR_LOAD)
        .map(|trial| trial.id)
        .collect();
    let trials: Vec<&TrialRecord> =
        campaign.trials.iter().filter(|trial| near.contains(&trial.spec.id)).collect();
    told.cpu = (!trials.is_empty()).then(|| cpu::of_trials(campaign, &trials));
    told.stages = stages(campaign, None, &seen(&trials, 0, Direction::Tx));
    let at_least = search.runs.iter().flat_map(|run| &run.found).any(|found| found.at_least);
    let above: Vec<&search_trial::SearchTrial> =
        runs.filter(|trial| trial.load > found * NEAR_LOAD).collect();
    told.limit = mark::located(&mut told.stages, &above, at_least);
    told
}

/// Loads this close count as one.
const NEAR_LOAD: f64 = 1.001;

#[cfg(test)]
mod tests {

    use super::*;
    use crate::study::GoalStudy;

    fn job(names: &[(&str, Direction)]) -> JobStudy {
        let figure = |(name, direction): &(&str, Direction)| {
            MetricStudy::single(Metric::named(name).expect(name), *direction, 7.0)
        };
        JobStudy { metrics: names.iter().map(figure).collect(), ..JobStudy::default() }
    }

    #[test]
    fn cpu_use_belongs_to_sender_and_receiver_in_either_direction() {
        let cores = |metric, value| MetricStudy::single(metric, Direction::Sum, value);
        let metrics = vec![cores(metric::CPU_FROM, 0.5), cores(metric::CPU_TO, 0.25)];
        let jobs = vec![JobStudy { metrics, ..JobStudy::default() }];
        let point = PointStudy { jobs, ..PointStudy::default() };
        let used = |direction| {
            let used = cpu::of_point(&point, direction);
            (used.sender, used.receiver)
        };
        assert_eq!(used(Direction::Tx), (Some(0.5), Some(0.25)));
        assert_eq!(used(Direction::Rx), (Some(0.25), Some(0.5)));
    }

    #[test]
    fn a_search_has_the_share_of_the_line_rate() {
        let lines = vec!["declared".into()];
        let line = Ceiling::new("link", metric::PACKET_RATE, 1e6, Direction::Tx, lines, "testbed");
        let goal = linerate_model::Goal::strict("zero loss", 0.01, linerate_model::Nanos(1));
        let found = GoalStudy {
            goal: goal.clone(),
            n_regular: 1,
            lower: Some(8e5),
            upper: Some(8.1e5),
            conditional_throughput: None,
            range: None,
        };
        let method = linerate_model::Method::Halving { goal, repeats: 0 };
        let search = SearchStudy {
            sweep: "s".into(),
            parameters: Point::default(),
            workload: "udp_stream".into(),
            from: "a".into(),
            to: "b".into(),
            search: linerate_model::Search::of_rates([1.0, 1e6], "the plan", method),
            line: Some(line),
            goals: vec![found],
            runs: Vec::new(),
        };
        let told = of_search(&Campaign::default(), &search, 1);
        let ceiling = told.moved.expect("a load was found").ceiling;
        assert_eq!(ceiling.map(|(share, line)| (share, line.value)), Some((0.8, 1e6)));
        assert_eq!(told.cpu, None, "no trial was run");
    }

    fn trial(job: linerate_model::JobSpec, ends: [linerate_model::JobRecord; 2]) -> TrialRecord {
        let mut spec = linerate_model::TrialSpec { jobs: vec![job], ..Default::default() };
        spec.phases.measure = linerate_model::Nanos::from_secs(1);
        spec.phases.warmup = linerate_model::Warmup::Fixed(linerate_model::Nanos(0));
        let mut record = TrialRecord::new(spec);
        record.jobs = vec![ends.into()];
        record
    }

    #[test]
    fn the_cpu_use_of_trials_is_their_median() {
        let counted = |seconds: u64| {
            let mut end = linerate_model::JobRecord::default();
            let mut interval = linerate_model::Interval {
                end: linerate_model::Nanos::from_secs(1),
                ..linerate_model::Interval::default()
            };
            interval.counters[linerate_model::Counter::CpuUser] = seconds * 1_000_000_000;
            end.intervals.push(interval);
            end
        };
        let trials =
            [2, 3, 7].map(|seconds| trial(Default::default(), [counted(seconds), counted(1)]));
        let used = cpu::of_trials(&Campaign::default(), &trials.iter().collect::<Vec<_>>());
        assert_eq!((used.sender, used.receiver), (Some(3.0), Some(1.0)));
    }

    #[test]
    fn a_sum_without_ceiling_has_that_of_the_direction_nearer_to_its_own() {
        let bound = |value, direction| {
            let lines = vec!["declared".into()];
            Ceiling::new("link", metric::GOODPUT, value, direction, lines, "testbed file")
        };
        let way = |direction, share, ceiling| MetricStudy {
            share,
            ceiling,
            ..MetricStudy::single(metric::GOODPUT, direction, 7.0)
        };
        let metrics = vec![
            way(Direction::Tx, Some(0.2), Some(0)),
            way(Direction::Rx, Some(0.9), Some(1)),
            way(Direction::Sum, None, None),
        ];
        let sum = metrics[2].clone();
        let jobs = vec![JobStudy { metrics, ..JobStudy::default() }];
        let ceilings = vec![bound(1e9, Direction::Tx), bound(2e9, Direction::Rx)];
        let point = PointStudy { jobs, ceilings, ..PointStudy::default() };
        let found = nearest_ceiling(&point, &sum).map(|(share, ceiling)| (share, ceiling.value));
        assert_eq!(found, Some((0.9, 2e9)));
    }

    #[test]
    fn files_are_told_by_their_payload_and_requests_by_their_number() {
        let told = |job: &JobStudy| figure_of(job).map(|figure| figure.metric.name);
        let requests = [("goodput", Direction::Rx), ("transaction_rate", Direction::Sum)];
        assert_eq!(told(&job(&requests)), Some("transaction_rate"));
        let files = [&requests[..], &[("transfer_time_p50", Direction::Sum)]].concat();
        assert_eq!(told(&job(&files)), Some("goodput"));
    }
}
