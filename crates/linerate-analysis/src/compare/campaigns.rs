//! Two campaigns of one plan, compared figure by figure: worse, better, equivalent or unclear.
//!
//! Points are matched by sweep and coordinate. Their trials are pairs if both campaigns were run in
//! turn, repeat by repeat. Otherwise the runs are compared as two independent samples, and
//! everything else that changed between the campaigns is part of the difference. Only a campaign
//! that repeats the first one later (`again`) shows how large that part is; without it the noise
//! floor is the difference between any two runs of one campaign.
//!
//! Other programs may load the CPUs in one of two campaigns and not in the other. A difference that
//! they can explain is reported as unclear (`company`).
//!
//! Searches are matched in the same way, and their results are compared (`searches`).
//!
//! Many figures are compared at once, so a claim about one figure must hold among all figures of
//! its [`Family`] (Holm, docs/methodology/with-and-without.md#the-figure). A campaign with many
//! points and few repeats can hardly decide a single cell. Figures are therefore also compared over
//! all points at once, one value per repeat: the geometric mean over the points
//! (docs/methodology/repeats.md#aggregation).

use std::collections::BTreeSet;

use linerate_model::{
    Campaign, Direction, Metric, MetricGroup, Nanos, TrialId, Use, Validity, metric,
};
use serde::{Deserialize, Serialize};

use super::company::{Company, beside, moved_as};
use super::effect::floor;
use super::environment::{Cause, environment};
use super::points::{PointChange, Unmatched};
use super::searches;
use super::{Better, Change, Doubt, Effect, Margin, effect_beyond, effect_of_runs};
use crate::study::{
    Compared, ComparedFigure, JobStudy, Looks, MetricStudy, PointStudy, Study, adjust,
};

/// One campaign of a comparison, judged.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The recorded campaign.
    pub campaign: &'a Campaign,
    /// Its study.
    pub study: &'a Study,
}

/// Groups of figures that are corrected together for multiple comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// The figures a workload is run for.
    Headline,
    /// Its costs, and everything behind the headline figure.
    Other,
}

impl Family {
    fn of(figure: &ComparedFigure) -> Self {
        let is_headline = figure.metric().is_none_or(|metric| metric.is_for(Use::Family));
        if is_headline { Self::Headline } else { Self::Other }
    }

    /// Returns the family of a figure of `job`. Requests and connections are run for their rate and
    /// their times, files for their goodput too.
    fn of_job(figure: &ComparedFigure, job: &JobStudy) -> Self {
        // Requests make a workload a request load even if it also reports a byte rate, so the job
        // decides and not the figure alone.
        let has = |of: fn(&Metric) -> bool| job.metrics.iter().any(|known| of(known.metric));
        let is_counted = has(|known| known.is_for(Use::Request) || known == metric::IOPS);
        let is_of_files = has(|known| known == metric::TRANSFER_TIME_P50);
        let is_of_stream = figure.metric().is_some_and(|metric| metric.is_for(Use::StreamOnly));
        if is_counted && !is_of_files && is_of_stream { Self::Other } else { Self::of(figure) }
    }
}

/// Two campaigns compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Campaigns {
    /// True if trials are pairs: both campaigns were run in turn.
    pub paired: bool,
    /// True if a campaign that repeats the first one provides the noise floor.
    pub again: bool,
    /// Relative change of a figure below which it counts as unchanged.
    pub margin: f64,
    /// Figures over all points both have, in the order of [`linerate_model::METRICS`].
    pub overall: Vec<Overall>,
    /// Points both have, in the order of the second campaign, and after them searches both have.
    pub points: Vec<PointChange>,
    /// Points and jobs that only one of the campaigns has.
    pub unmatched: Vec<Unmatched>,
    /// Searches of both campaigns for which one side found no bound, so that they cannot be
    /// compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_bound: Vec<Unmatched>,
    /// Counts of valid, suspect and other trials, before and after.
    pub standing: [Standing; 2],
    /// Other programs beside each.
    #[serde(default)]
    pub company: [Company; 2],
    /// Differences between the environments, most likely cause of a change first.
    pub environment: Vec<Cause>,
}

/// A figure over all points of a workload, one value a repeat: the geometric mean over the points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overall {
    /// The workload.
    pub workload: String,
    /// The figure.
    pub figure: Compared,
    /// Points in it.
    pub points: usize,
}

/// Counts of a campaign's trials by validity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Trials planned.
    pub trials: usize,
    /// Trials that are valid.
    pub valid: usize,
    /// Trials that are suspect.
    pub suspect: usize,
}

/// Compares `after` with `before`, and `again` with `before` where it was measured. Changes below
/// `margin` (a fraction of the figure) count as none.
#[must_use]
pub fn campaigns(
    before: Side<'_>,
    after: Side<'_>,
    again: Option<Side<'_>>,
    margin: f64,
) -> Campaigns {
    let matched: Vec<Matched<'_>> = after
        .study
        .points
        .iter()
        .filter_map(|point| {
            let again = again.and_then(|side| same(side.study, point));
            // A point without a repetition still counts; only its noise floor is then estimated
            // from the two campaigns.
            Some(Matched { before: same(before.study, point)?, after: point, again })
        })
        .collect();
    // One point that was not run in turn breaks the pairing of all, because the geometric means
    // below combine the points repeat by repeat.
    let paired = !matched.is_empty() && matched.iter().all(|point| in_turn(before, after, point));
    let mut points: Vec<PointChange> =
        matched.iter().map(|point| point_change(point, paired, margin)).collect();
    points.extend(searches::searches(
        before.study,
        after.study,
        again.map(|side| side.study),
        margin,
    ));
    let mut overall = overall(&matched, paired, margin);
    let company = company(matched.iter());
    // Points come first in `points`, so an index beyond `matched` is a search, which has no job.
    let job_of = |at: usize, figure: &Compared| matched.get(at)?.after.jobs.get(figure.job);
    let of_points = points.iter_mut().enumerate().flat_map(|(at, point)| {
        point.figures.iter_mut().map(move |figure| (job_of(at, figure), figure))
    });
    // Figures over all points summarise the same runs. They form families of their own so that they
    // do not weaken the correction of the single points.
    among_many(of_points);
    among_many(
        overall.iter_mut().map(|one| (job_of_all(&matched, &one.workload), &mut one.figure)),
    );
    let changed: BTreeSet<MetricGroup> = points
        .iter()
        .flat_map(|point| &point.figures)
        .chain(overall.iter().map(|overall| &overall.figure))
        .filter(|figure| has_moved(&figure.effect))
        .map(|figure| figure.metric.group())
        .collect();
    Campaigns {
        paired,
        again: matched.iter().any(|point| point.again.is_some()),
        margin,
        company,
        environment: environment(
            before.campaign,
            after.campaign,
            company.map(|one| one.others),
            &changed,
        ),
        unmatched: unmatched(before.study, after.study),
        without_bound: searches::without_bound(before.study, after.study),
        standing: [standing(before.study), standing(after.study)],
        overall,
        points,
    }
}

/// Returns the first measured job of this workload.
fn job_of_all<'a>(matched: &[Matched<'a>], workload: &str) -> Option<&'a JobStudy> {
    let mut jobs = matched.iter().filter_map(|point| measured(point.after));
    jobs.find(|job| job.workload == workload)
}

/// Returns whether `effect` needs a cause among the differences of the environments.
fn has_moved(effect: &Effect) -> bool {
    // A shift that other programs may explain still needs its cause.
    matches!(effect.change, Change::Better | Change::Worse) || effect.doubt == Some(Doubt::Others)
}

impl Campaigns {
    /// Returns every figure of every point, and those over all points.
    pub fn figures(&self) -> impl Iterator<Item = &Compared> {
        self.overall
            .iter()
            .map(|overall| &overall.figure)
            .chain(self.points.iter().flat_map(|point| &point.figures))
    }

    /// Returns the number of figures with this `change`.
    #[must_use]
    pub fn count(&self, change: Change) -> usize {
        self.figures().filter(|figure| figure.effect.change == change).count()
    }
}

/// A point of both campaigns, and of the one that repeats the first.
struct Matched<'a> {
    before: &'a PointStudy,
    after: &'a PointStudy,
    again: Option<&'a PointStudy>,
}

fn same<'a>(study: &'a Study, point: &PointStudy) -> Option<&'a PointStudy> {
    study
        .points
        .iter()
        .find(|other| other.sweep == point.sweep && other.parameters == point.parameters)
}

/// Returns whether both trials of each repeat were started before either trial of the next.
fn in_turn(before: Side<'_>, after: Side<'_>, point: &Matched<'_>) -> bool {
    let started = |side: Side<'_>, id: TrialId| -> Option<Nanos> {
        side.campaign.trials.iter().find(|trial| trial.spec.id == id)?.started
    };
    let (a, b) = (&point.before.trials, &point.after.trials);
    let times: Option<Vec<(Nanos, Nanos)>> = a
        .iter()
        .zip(b)
        .map(|(a, b)| {
            let (a, b) = (started(before, a.id)?, started(after, b.id)?);
            Some((a.min(b), a.max(b)))
        })
        .collect();
    a.len() == b.len()
        // One pair cannot show an order of pairs.
        && a.len() > 1
        && times.is_some_and(|times| times.windows(2).all(|two| two[0].1 < two[1].0))
}

fn point_change(point: &Matched<'_>, paired: bool, margin: f64) -> PointChange {
    let mut figures = Vec::new();
    // Both sides could have stopped at any look, so a claim must be true for each combination of
    // looks and the shares multiply.
    let part_of_error: f64 =
        [point.before, point.after].iter().map(|side| part_of_error(side)).product();
    let company = company(std::iter::once(point));
    // Background jobs are conditions of the measurement, not results.
    for (number, job) in point.after.jobs.iter().enumerate().filter(|(_, job)| !job.background) {
        let of = |other: &'_ PointStudy| {
            // Jobs are matched by place in the plan; the workload check keeps an edited plan from
            // comparing a stream with requests.
            other.jobs.get(number).filter(|other| other.workload == job.workload).cloned()
        };
        let Some(before) = of(point.before) else { continue };
        let again = point.again.and_then(of);
        for after in &job.metrics {
            let Some(was) = before.metric(after.metric, after.direction) else { continue };
            let again = again.as_ref().and_then(|job| job.metric(after.metric, after.direction));
            let values = Values {
                was: &was.values,
                is: &after.values,
                again: again.map(|metric| metric.values.as_slice()),
            };
            let figure = compared(after, values, paired, margin, part_of_error);
            figures.extend(figure.map(|figure| Compared {
                job: number,
                ..beside(figure, moved_as(after.metric, job), company, paired)
            }));
        }
    }
    PointChange {
        sweep: point.after.sweep.clone(),
        parameters: point.after.parameters.clone(),
        jobs: point.after.jobs.iter().map(job_name).collect(),
        figures,
        validity: [point.before.validity, point.after.validity],
    }
}

/// Returns the workload of `job` and its ends.
fn job_name(job: &JobStudy) -> String {
    match job.from.is_empty() {
        true => job.workload.clone(),
        false => format!("{} {} to {}", job.workload, job.from, job.to),
    }
}

/// Returns the error that an interval at `point` may have: each side could have ended at any of its
/// looks, and a claim must hold for all pairs of looks.
fn part_of_error(point: &PointStudy) -> f64 {
    point.looks.as_ref().map_or(1.0, Looks::part_of_error)
}

/// One figure of the runs before and after, and of those that repeat the ones before.
#[derive(Clone, Copy)]
struct Values<'a> {
    was: &'a [Option<f64>],
    is: &'a [Option<f64>],
    again: Option<&'a [Option<f64>]>,
}

/// Returns the comparison of one figure, beside the noise floor; `None` for metrics for which
/// neither more nor less is better.
fn compared(
    shape: &MetricStudy,
    values: Values<'_>,
    paired: bool,
    margin: f64,
    part_of_error: f64,
) -> Option<Compared> {
    let better = Better::of(shape.metric)?;
    let name = format!("{} {}", shape.metric, shape.direction);
    let margin = Margin { relative: margin, part_of_error, ..Margin::default() };
    let effect = match paired {
        true => effect_beyond(&name, values.was, values.is, better, margin)?,
        false => effect_of_runs(&name, values.was, values.is, better, margin)?,
    };
    // The repetition ran later than the runs it repeats, so it has no partner to alternate with and
    // is never paired.
    let placebo =
        values.again.and_then(|again| effect_of_runs(&name, values.was, again, better, margin));
    let effect = match &placebo {
        Some(placebo) => effect.above_noise(placebo),
        // Without a repetition of the first campaign, the difference between any two runs of one
        // campaign is the only estimate of noise.
        None => {
            let floor = floor(effect.scale, [values.was, values.is]);
            floor.map_or(effect.clone(), |floor| effect.above_floor(floor))
        }
    };
    let pairs = values.was.len().min(values.is.len());
    // The caller, which knows the job and the p-values of the whole family, fills in the rest.
    Some(Compared { placebo, pairs, ..Compared::of(shape.metric, shape.direction, effect) })
}

/// Returns every figure that is positive at two points or more of a workload, over all of them.
fn overall(matched: &[Matched<'_>], paired: bool, margin: f64) -> Vec<Overall> {
    let mut seen: Vec<(&str, &Metric, Direction)> = Vec::new();
    let mut found = Vec::new();
    for job in matched.iter().filter_map(|point| measured(point.after)) {
        for shape in &job.metrics {
            let key = (job.workload.as_str(), shape.metric, shape.direction);
            // The sum over points is formed once for each figure, from the first point that has it.
            if !seen.contains(&key) {
                seen.push(key);
                found.extend(over_points(matched, &job.workload, shape, paired, margin));
            }
        }
    }
    found
}

fn over_points(
    matched: &[Matched<'_>],
    workload: &str,
    shape: &MetricStudy,
    paired: bool,
    margin: f64,
) -> Option<Overall> {
    let values = |point| values_of_first(point, workload, shape);
    let whole: Vec<&Matched<'_>> = matched
        .iter()
        .filter(|point| values(point.before).is_some() && values(point.after).is_some())
        .collect();
    let points = whole.len();
    // Over one point the mean repeats the cell itself.
    if points < 2 {
        return None;
    }
    let was = means(whole.iter().map(|point| values(point.before)))?;
    let is = means(whole.iter().map(|point| values(point.after)))?;
    let again = means(whole.iter().map(|point| point.again.and_then(values)));
    let values = Values { was: &was, is: &is, again: again.as_deref() };
    let company = company(whole.iter().copied());
    let job = measured(whole[0].after)?;
    let figure = beside(
        // Only the planned first runs are used, so no part of the error was spent on looks.
        compared(shape, values, paired, margin, 1.0)?,
        moved_as(shape.metric, job),
        company,
        paired,
    );
    Some(Overall { workload: workload.to_owned(), figure, points })
}

/// Returns the values that the planned first runs of `point` have of the figure `shape`, all
/// positive and finite, or `None`.
fn values_of_first(point: &PointStudy, workload: &str, shape: &MetricStudy) -> Option<Vec<f64>> {
    let job = measured(point).filter(|job| job.workload == workload)?;
    let values = &job.metric(shape.metric, shape.direction)?.values;
    // The number of runs beyond those depends on their results; only the first ones were always
    // planned.
    let first = point.looks.as_ref().map_or(values.len(), |looks| looks.until.first() as usize);
    values
        .iter()
        .take(first)
        // A geometric mean exists only for positive finite values; one missing value removes the
        // point rather than a repeat.
        .map(|value| value.filter(|value| *value > 0.0 && value.is_finite()))
        .collect()
}

/// Returns the geometric means over the points, repeat by repeat; `None` if a point lacks the
/// figure.
fn means(points: impl Iterator<Item = Option<Vec<f64>>>) -> Option<Vec<Option<f64>>> {
    let columns: Vec<Vec<f64>> = points.collect::<Option<_>>()?;
    // Points may have run a different number of times; only repeats that all of them have are one
    // value each.
    let repeats = columns.iter().map(Vec::len).min()?;
    let mut means = Vec::with_capacity(repeats);
    for repeat in 0..repeats {
        let logarithms: f64 = columns.iter().map(|values| values[repeat].ln()).sum();
        means.push(Some((logarithms / columns.len() as f64).exp()));
    }
    Some(means)
}

/// Other programs beside `points` before and after.
fn company<'a>(points: impl Iterator<Item = &'a Matched<'a>> + Clone) -> [Company; 2] {
    let sides = points.clone().flat_map(|point| [point.before, point.after]);
    let is_carried = sides.flat_map(|point| &point.trials).any(|trial| trial.is_carried);
    let of = [
        Company::of(points.clone().map(|point| point.before)),
        Company::of(points.map(|point| point.after)),
    ];
    if is_carried { of.map(Company::on_a_carried_path) } else { of }
}

/// Returns the job that represents a point: the sum of all measured jobs where there are several,
/// otherwise the only one.
fn measured(point: &PointStudy) -> Option<&JobStudy> {
    // The sum of several jobs is appended after them.
    point.jobs.iter().rev().find(|job| !job.background)
}

/// Applies Holm's correction within each family of figures of jobs (`None`: of a search).
/// Differences that chance explains are not claimed.
fn among_many<'a>(figures: impl Iterator<Item = (Option<&'a JobStudy>, &'a mut Compared)>) {
    let family = |job: Option<&JobStudy>, figure: &ComparedFigure| {
        job.map_or_else(|| Family::of(figure), |job| Family::of_job(figure, job))
    };
    let (headlines, others): (Vec<_>, Vec<_>) =
        figures.partition(|(job, figure)| family(*job, &figure.metric) == Family::Headline);
    for members in [headlines, others] {
        let mut members: Vec<&mut Compared> =
            // Each family is corrected by itself: costs of a workload outnumber its headline
            // figures and would otherwise hide them.
            members.into_iter().map(|(_, figure)| figure).collect();
        adjust(&mut members);
        let size = members.iter().filter(|figure| figure.effect.p.is_some()).count();
        for figure in members {
            figure.effect = figure.effect.clone().among_many(figure.p_adjusted, size);
        }
    }
}

fn unmatched(before: &Study, after: &Study) -> Vec<Unmatched> {
    [alone(0, before, after), alone(1, after, before)].concat()
}

/// Returns what only `study`, the campaign number `side`, has.
fn alone(side: usize, study: &Study, other: &Study) -> Vec<Unmatched> {
    let points = study.points.iter().filter(|point| same(other, point).is_none()).map(|point| {
        Unmatched { side, sweep: point.sweep.clone(), parameters: point.parameters.clone() }
    });
    points.chain(searches::unmatched(side, study, other)).collect()
}

fn standing(study: &Study) -> Standing {
    let of_points = study.points.iter().flat_map(|point| &point.trials).map(|trial| trial.validity);
    let runs = study.searches.iter().flat_map(|search| &search.runs);
    let of_searches = runs.flat_map(|run| &run.trials).map(|trial| trial.validity);
    let trials: Vec<Validity> = of_points.chain(of_searches).collect();
    let having = |validity| trials.iter().filter(|one| **one == validity).count();
    Standing {
        trials: trials.len(),
        valid: having(Validity::Valid),
        suspect: having(Validity::Suspect),
    }
}

impl Compared {
    /// Returns the family the figure belongs to.
    #[must_use]
    pub fn family(&self) -> Family {
        Family::of(&self.metric)
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Point;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::study::TrialStudy;

    /// `n_points` points of six runs: a figure `factor` times 100, 1 % apart from run to run, and
    /// its cost.
    fn made(random: &mut Xoshiro256PlusPlus, n_points: usize, factor: f64) -> Study {
        let mut runs = |name: &str, typical: f64| {
            // The sum of twelve uniform numbers is nearly normal.
            let mut value = || {
                let sum: f64 = (0..12).map(|_| random.random::<f64>()).sum();
                Some(typical * (1.0 + 0.01 * (sum - 6.0)))
            };
            MetricStudy {
                values: (0..6).map(|_| value()).collect(),
                ..MetricStudy::new(linerate_model::Metric::named(name).expect(name), Direction::Tx)
            }
        };
        let mut point = |number: usize| PointStudy {
            sweep: "messages".into(),
            parameters: Point::from([("params.message_size".into(), number.into())]),
            jobs: vec![JobStudy {
                workload: "tcp_stream".into(),
                metrics: vec![
                    runs("goodput", 100.0 * factor),
                    runs("cpu_seconds_per_gigabyte", 2.0),
                ],
                ..JobStudy::default()
            }],
            trials: (0..6).map(|_| TrialStudy::default()).collect(),
            ..PointStudy::default()
        };
        Study { points: (0..n_points).map(&mut point).collect(), ..Study::default() }
    }

    fn compared(seed: u64, n_points: usize, factor: f64) -> Campaigns {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (a, b) = (made(&mut random, n_points, 1.0), made(&mut random, n_points, factor));
        compared_studies(&a, &b)
    }

    /// Compares studies of campaigns without trials: nothing is known of when they ran.
    fn compared_studies(a: &Study, b: &Study) -> Campaigns {
        compared_again(a, b, None)
    }

    /// Compares studies, and a repetition of the first.
    fn compared_again(a: &Study, b: &Study, again: Option<&Study>) -> Campaigns {
        let campaign = Campaign::default();
        let side = |study| Side { campaign: &campaign, study };
        campaigns(side(a), side(b), again.map(side), 0.02)
    }

    /// Returns the runs of the only point's goodput.
    fn goodput_runs(study: &mut Study) -> &mut Vec<Option<f64>> {
        &mut study.points[0].jobs[0].metrics[0].values
    }

    /// Returns the change of goodput and why it is not claimed, where runs of both sides are
    /// multiplied: (side, run, factor).
    fn with_outliers(
        seed: u64,
        factor: f64,
        n_runs: usize,
        outliers: &[(usize, usize, f64)],
    ) -> Effect {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let sides = [1.0, factor].map(|factor| {
            let mut study = made(&mut random, 1, factor);
            while goodput_runs(&mut study).len() < n_runs {
                let mut more = made(&mut random, 1, factor);
                let more = std::mem::take(goodput_runs(&mut more));
                goodput_runs(&mut study).extend(more);
            }
            study
        });
        let [mut before, mut after] = sides;
        for (side, run, times) in outliers {
            let runs = goodput_runs(if *side == 0 { &mut before } else { &mut after });
            runs[*run] = runs[*run].map(|value| value * times);
        }
        let result = compared_studies(&before, &after);
        result.points[0]
            .figures
            .iter()
            .find(|figure| figure.metric == metric::GOODPUT)
            .expect("compared")
            .effect
            .clone()
    }

    /// One run of two times six was slowed by 7 to 60 %; the other eleven show a loss of 5 %. Where
    /// the slow run lies beyond all runs of the other side, six and six runs are too few for the
    /// rank sum, and that is the reason that is reported.
    #[test]
    fn one_outlier_among_twelve_runs_does_not_hide_a_change_of_five_per_cent() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(41);
        let (mut found, mut beyond) = (0, 0);
        for seed in 0..200 {
            let (size, run) = (random.random_range(0.07..0.6), random.random_range(0..6));
            let apart = if seed % 2 == 0 { (0, run, 1.0 + size) } else { (1, run, 1.0 - size) };
            found += usize::from(with_outliers(seed, 0.95, 6, &[apart]).change == Change::Worse);
            let across = if seed % 2 == 0 { (0, run, 1.0 - size) } else { (1, run, 1.0 + size) };
            let effect = with_outliers(seed, 0.95, 6, &[across]);
            beyond += usize::from(effect.doubt != Some(Doubt::Noise) && effect.needed.is_some());
        }
        assert!(found >= 190, "{found} of 200");
        assert!(beyond >= 190, "{beyond} of 200");
    }

    #[test]
    fn one_outlier_in_twelve_runs_of_either_side_does_not_hide_a_change_nor_make_one() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(43);
        let (mut found, mut claimed) = (0, 0);
        for seed in 0..200 {
            let outliers = [0, 1].map(|side| {
                let size: f64 = random.random_range(0.07..0.6);
                let factor = if random.random::<bool>() { 1.0 + size } else { 1.0 - size };
                (side, random.random_range(0..12), factor)
            });
            found += usize::from(with_outliers(seed, 0.95, 12, &outliers).change == Change::Worse);
            let same = with_outliers(seed, 1.0, 12, &outliers).change;
            claimed += usize::from(matches!(same, Change::Better | Change::Worse));
        }
        assert!(found >= 190, "{found} of 200 found");
        assert!(claimed <= 10, "{claimed} of 200 claimed");
    }

    /// Points with looks after 6, 10, 15, 20 and 30 runs that ended after the first look.
    fn looked_at(mut study: Study) -> Study {
        let until = linerate_model::Until {
            within: linerate_model::Ratio(0.02),
            of: None,
            looks: vec![6, 10, 15, 20, 30],
        };
        for point in &mut study.points {
            let (until, metric) = (until.clone(), Some(metric::GOODPUT));
            let ended = crate::study::LooksEnded::Narrow;
            point.looks = Some(Looks { until, metric, taken: Vec::new(), runs: 6, ended });
        }
        study
    }

    #[test]
    fn runs_that_could_have_ended_at_other_looks_spend_a_part_of_the_error_only() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let (a, b) = (made(&mut random, 1, 1.0), made(&mut random, 1, 0.95));
        let goodput =
            |a: &Study, b: &Study| compared_studies(a, b).points[0].figures[0].effect.clone();
        let once = goodput(&a, &b);
        let looked = goodput(&looked_at(a.clone()), &looked_at(b.clone()));
        let (plain, spent) =
            (once.interval.expect("six and six"), looked.interval.expect("six and six"));
        assert!(spent.0 < plain.0 && spent.1 > plain.1, "{spent:?} beside {plain:?}");
        // 62.5 % of the error belongs to the first look of each.
        let (p, spent) = (once.p.expect("they differ"), looked.p.expect("they differ"));
        assert!((spent - (p / 0.625 / 0.625).min(1.0)).abs() < 1e-12, "{spent} of {p}");
        let one_side = goodput(&a, &looked_at(b)).p.expect("they differ");
        assert!((one_side - p / 0.625).abs() < 1e-12, "{one_side}");
    }

    /// Issue: equivalent or inconclusive in at least 95 of 100 comparisons of the same with the
    /// same.
    #[test]
    fn the_same_against_the_same_is_hardly_ever_a_change() {
        let claimed =
            |result: &Campaigns| result.count(Change::Better) + result.count(Change::Worse);
        for n_points in [1, 12] {
            let wrong =
                (0..100).filter(|&seed| claimed(&compared(seed, n_points, 1.0)) > 0).count();
            assert!(wrong <= 5, "{wrong} of 100 with {n_points} points");
        }
    }

    #[test]
    fn a_change_of_five_per_cent_is_found_and_what_did_not_change_is_not_blamed() {
        let found = (0..100).filter(|&seed| {
            let result = compared(seed, 1, 0.95);
            let of = |name: &str| {
                let figure = result
                    .figures()
                    .find(|figure| figure.metric.to_string() == name)
                    .expect("compared");
                figure.effect.change
            };
            of("goodput") == Change::Worse && of("cpu_seconds_per_gigabyte") != Change::Worse
        });
        let found = found.count();
        assert!(found >= 90, "{found} of 100");
    }

    /// A stream and three loads of requests, all 5 % slower. With six runs of each no more than 23
    /// figures of a family can be claimed, and the goodput of requests is not in that family.
    #[test]
    fn what_requests_carry_does_not_use_up_the_chance_of_what_they_are_run_for() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(17);
        let mut made = |factor: f64| {
            let mut study = made(&mut random, 4, factor);
            for job in study.points[1..].iter_mut().map(|point| &mut point.jobs[0]) {
                let goodput = job.metrics[0].clone();
                let of = |name: &str, direction| MetricStudy {
                    metric: linerate_model::Metric::named(name).expect(name),
                    direction,
                    ..goodput.clone()
                };
                let carried = ["goodput", "packet_rate", "throughput_l2"].map(|name| {
                    [Direction::Tx, Direction::Rx, Direction::Sum]
                        .map(|direction| of(name, direction))
                });
                job.workload = "tcp_rr".into();
                job.metrics = carried.into_iter().flatten().collect();
                job.metrics.extend(
                    ["transaction_rate", "loss_ratio"].map(|name| of(name, Direction::Sum)),
                );
            }
            study
        };
        let (before, after) = (made(1.0), made(0.95));
        let result = compared_studies(&before, &after);
        let cells = || result.points.iter().flat_map(|point| &point.figures);
        let of = |name: &'static str| {
            cells()
                .filter(move |figure| figure.metric.to_string() == name)
                .map(|figure| figure.effect.clone())
        };
        let stream = of("goodput").next().expect("the stream's");
        assert_eq!(stream.change, Change::Worse, "{stream:?}");
        let rates: Vec<Change> = of("transaction_rate").map(|effect| effect.change).collect();
        assert_eq!(rates, [Change::Worse; 3]);
        let carried = of("packet_rate").next().expect("what requests carry");
        assert_eq!((carried.doubt, carried.needed), (Some(Doubt::Chance), Some(7)), "{carried:?}");
    }

    #[test]
    fn over_many_points_the_whole_tells_what_no_single_cell_can() {
        let result = compared(3, 24, 0.95);
        assert!(!result.paired && result.unmatched.is_empty());
        let whole = result
            .overall
            .iter()
            .find(|overall| overall.figure.metric == metric::GOODPUT)
            .expect("goodput");
        assert_eq!((whole.points, whole.figure.effect.change), (24, Change::Worse));
        assert!((whole.figure.effect.shift - 0.95).abs() < 0.01, "{}", whole.figure.effect.shift);
        let cells = result.points.iter().flat_map(|point| &point.figures);
        let by_chance = |figure: &&Compared| figure.effect.doubt == Some(Doubt::Chance);
        // 24 figures at 2/924 are 5.2 %; at 2/3432, of seven runs of each, 1.4 %.
        assert_eq!(cells.clone().find(by_chance).expect("a doubt").effect.needed, Some(7));
    }

    /// Every CPU cost is 20 % higher. That is no claim where other programs explain it: they
    /// started between the campaigns, or they used much of the CPUs in both.
    #[test]
    fn what_other_programs_took_of_the_cpus_is_not_taken_for_a_higher_cost() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut made = |cost: f64, others: f64| {
            let mut study = made(&mut random, 2, 1.0);
            for job in study.points.iter_mut().flat_map(|point| &mut point.jobs) {
                for value in job.metrics[1].values.iter_mut().flatten() {
                    *value *= cost;
                }
                let values = vec![Some(others); 6];
                let of_others = MetricStudy::new(metric::CPU_OF_OTHERS, Direction::Sum);
                job.metrics.push(MetricStudy { values, ..of_others });
            }
            study
        };
        let (alone, shared, dearer) = (made(1.0, 0.0), made(1.2, 0.15), made(1.2, 0.01));
        let (crowded, dearer_crowded) = (made(1.0, 0.5), made(1.2, 0.5));
        let costs = |before, after| {
            let result = compared_studies(before, after);
            let of_costs = |figure: &&Compared| figure.metric == metric::CPU_SECONDS_PER_GIGABYTE;
            result
                .figures()
                .filter(of_costs)
                .map(|figure| (figure.effect.change, figure.effect.doubt))
                .collect::<Vec<_>>()
        };
        assert_eq!(costs(&alone, &shared), [(Change::Unclear, Some(Doubt::Others)); 3]);
        assert_eq!(costs(&crowded, &dearer_crowded), [(Change::Unclear, Some(Doubt::Others)); 3]);
        assert_eq!(costs(&alone, &dearer), [(Change::Worse, None); 3]);
    }

    #[test]
    fn what_only_one_campaign_has_is_named() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let (a, b) = (made(&mut random, 2, 1.0), made(&mut random, 3, 1.0));
        let result = compared_studies(&a, &b);
        assert_eq!(
            (result.points.len(), result.unmatched.len(), result.unmatched[0].side),
            (2, 1, 1)
        );
    }

    /// A campaign that repeats the first one and differs from it by 8 % shows that 5 % are noise.
    #[test]
    fn what_a_repetition_differs_by_is_the_noise_floor() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let (a, b) = (made(&mut random, 1, 1.0), made(&mut random, 1, 0.95));
        let again = made(&mut random, 1, 0.92);
        let result = compared_again(&a, &b, Some(&again));
        let goodput =
            result.figures().find(|figure| figure.metric == metric::GOODPUT).expect("compared");
        assert!(result.again);
        assert_eq!(goodput.effect.doubt, Some(Doubt::Noise), "{:?}", goodput.effect);
    }
}
