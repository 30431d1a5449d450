//! The jobs of a point: figures of its trials gathered into estimates, one study per job and one of
//! all measured jobs together.

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::{Direction, Estimate, Metric, Until, Use, metric};

use super::{CPU_COST, Judged, STEADY_ROUNDS, STEADY_STATE, carrying, several};
use crate::statistics::{MeanInterval, Percentile, estimate, estimate_at, mean_interval, median};
use crate::study::ceilings::{Bound, Scope};
use crate::study::figures::Key;
use crate::study::gate::{Admitted, Limits, Withheld, widened, withhold_estimates_below_payload};
use crate::study::loss::LossStudy;
use crate::study::obtained::{Obtained, obtained};
use crate::study::settling::{self, Classes, Settled};
use crate::study::traffic::Distributions;
use crate::study::{
    ALL, JobStudy, MetricStudy, looks, percentiles, times, transfer_counts, transfers,
};

/// Returns the figures withheld over the runs, each kind once.
fn withheld<'a>(runs: impl Iterator<Item = &'a Admitted>) -> Vec<Withheld> {
    let mut found: Vec<Withheld> = Vec::new();
    for one in runs.flat_map(Admitted::withheld) {
        if !found.iter().any(|known| known.name == one.name && known.direction == one.direction) {
            found.push(one.clone());
        }
    }
    found
}

pub(super) fn job_study(judged: &[Judged<'_>], number: usize, bounds: &[Bound]) -> JobStudy {
    let spec = &judged[0].trial.spec.jobs[number];
    let each = distributions_of(judged, |job_number| job_number == number);
    let distributions = merged(&each);
    let mut loss: Vec<LossStudy> = Vec::new();
    for ledger in judged
        .iter()
        .filter(|one| one.standing.carries_figures())
        .flat_map(|one| &one.losses[number])
    {
        match loss.iter_mut().find(|known| known.direction == ledger.direction) {
            Some(known) => known.add(ledger),
            None => loss.push(ledger.clone()),
        }
    }
    let mut told = obtained(judged.iter().filter_map(|one| one.jobs.get(number)));
    let mut in_order: Vec<&Judged<'_>> =
        judged.iter().filter(|one| one.standing.carries_figures()).collect();
    in_order.sort_by_key(|one| one.trial.spec.repeat);
    let runs = || in_order.iter().filter_map(|one| Some((one.jobs.get(number)?, one.measured)));
    let steady = [
        (STEADY_STATE, transfers::steady_state(runs())),
        (STEADY_ROUNDS, transfers::steady_rounds(runs())),
    ];
    told.extend(
        steady.into_iter().filter_map(|(name, of)| Some((name.to_owned(), Obtained::steady(of?)))),
    );
    let transfers = carrying(judged)
        .filter_map(|one| {
            Some(transfer_counts::counts(one.trial, one.jobs.get(number)?, one.measured))
        })
        .flatten()
        .collect();
    let mut study = JobStudy {
        workload: spec.workload.clone(),
        from: spec.from.name.clone(),
        to: spec.to.name.clone(),
        background: spec.background.is_some(),
        params: spec.params.clone(),
        metrics: metrics(
            judged,
            |one| (&one.figures[number], &one.classes[number]),
            bounds,
            Scope::Job(number),
        ),
        percentiles: told_percentiles(judged, &each, |job_number| job_number == number),
        response: distributions.response,
        service: distributions.service,
        reads: distributions.reads,
        writes: distributions.writes,
        flushes: distributions.flushes,
        trims: distributions.trims,
        transfers,
        gap: distributions.gap,
        obtained: told,
        loss,
        corrected: None,
        withheld: if several(&judged[0].jobs) || spec.background.is_some() {
            withheld(carrying(judged).map(|one| &one.figures[number]))
        } else {
            with_cost(withheld(carrying(judged).map(|one| &one.figures[number])), judged)
        },
    };
    study.withheld.extend(withhold_estimates_below_payload(&mut study.metrics));
    if is_closed(judged, |job_number| job_number == number) {
        study.corrected = percentiles::corrected(&study, &each);
    }
    study
}

pub(super) fn all_study(judged: &[Judged<'_>], bounds: &[Bound]) -> JobStudy {
    let measured: Vec<&linerate_model::JobSpec> =
        judged[0].trial.spec.jobs.iter().filter(|job| job.background.is_none()).collect();
    let is_measured = |number: usize| judged[0].trial.spec.jobs[number].background.is_none();
    let each = distributions_of(judged, is_measured);
    let distributions = merged(&each);
    let mut study = JobStudy {
        workload: ALL.to_owned(),
        from: joined(measured.iter().map(|job| job.from.name.as_str())),
        to: joined(measured.iter().map(|job| job.to.name.as_str())),
        metrics: metrics(judged, |one| (&one.all, &one.all_classes), bounds, Scope::All),
        percentiles: told_percentiles(judged, &each, is_measured),
        response: distributions.response,
        service: distributions.service,
        reads: distributions.reads,
        writes: distributions.writes,
        flushes: distributions.flushes,
        trims: distributions.trims,
        gap: distributions.gap,
        withheld: with_cost(withheld(carrying(judged).map(|one| &one.all)), judged),
        ..JobStudy::default()
    };
    study.withheld.extend(withhold_estimates_below_payload(&mut study.metrics));
    if is_closed(judged, is_measured) {
        study.corrected = percentiles::corrected(&study, &each);
    }
    study
}

/// Returns `names` with commas, each run of equal names once.
fn joined<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    names.join(", ")
}

/// Returns `found`, and the CPU cost if a trial that carries figures has none.
fn with_cost(mut found: Vec<Withheld>, judged: &[Judged<'_>]) -> Vec<Withheld> {
    let why = carrying(judged).find_map(|one| one.cost_withheld.clone());
    found.extend(why.map(|why| Withheld {
        name: CPU_COST.name.to_owned(),
        direction: Direction::Sum,
        why,
    }));
    found
}

/// Returns whether all jobs whose number `wanted` accepts are closed loads.
fn is_closed(judged: &[Judged<'_>], wanted: impl Fn(usize) -> bool) -> bool {
    carrying(judged).all(|one| {
        let mut jobs = one.jobs.iter().enumerate().filter(|(number, _)| wanted(*number));
        jobs.all(|(_, job)| job.is_closed())
    })
}

/// Distributions of the jobs `wanted` selects by number, of each trial that carries figures.
fn distributions_of(judged: &[Judged<'_>], wanted: impl Fn(usize) -> bool) -> Vec<Distributions> {
    let mut each = Vec::new();
    for one in carrying(judged) {
        let mut sum = Distributions::default();
        let picked =
            one.jobs.iter().zip(&one.figures).enumerate().filter(|(number, _)| wanted(*number));
        for (_, (job, figures)) in picked {
            let mut times = job.distributions(one.measured);
            figures.one_way().admit(&mut times);
            sum.merge(&times);
        }
        each.push(sum);
    }
    each
}

/// Percentiles of `each` run of the jobs `wanted` selects by number, widened by the uncertainty of
/// their clocks.
fn told_percentiles(
    judged: &[Judged<'_>],
    each: &[Distributions],
    wanted: impl Fn(usize) -> bool,
) -> BTreeMap<String, Vec<Percentile>> {
    let figures = carrying(judged).flat_map(|one| one.figures.iter().enumerate());
    let picked = figures.filter(|(number, _)| wanted(*number));
    let doubt = picked.filter_map(|(_, figures)| figures.one_way().doubt_ns()).reduce(f64::max);
    let mut told = percentiles::percentiles(each);
    // Gaps between departures are read from one clock.
    for (_, found) in
        told.iter_mut().filter(|(name, _)| ["response", "service"].contains(&name.as_str()))
    {
        found.iter_mut().for_each(|one| *one = doubt.map_or(*one, |doubt| widened(*one, doubt)));
    }
    told
}

/// Returns all trials merged.
fn merged(each: &[Distributions]) -> Distributions {
    let mut merged = Distributions::default();
    each.iter().for_each(|one| merged.merge(one));
    merged
}

/// Returns the metrics of what `of` picks of each trial: its figures, and how its rates went.
fn metrics<'a>(
    judged: &'a [Judged<'_>],
    of: impl Fn(&'a Judged<'_>) -> (&'a Admitted, &'a Classes),
    bounds: &[Bound],
    scope: Scope,
) -> Vec<MetricStudy> {
    let picked: Vec<_> =
        judged.iter().map(|one| one.standing.carries_figures().then(|| of(one))).collect();
    let figures: Vec<Option<&Admitted>> =
        picked.iter().map(|one| one.map(|(figures, _)| figures)).collect();
    let classes: Vec<Option<&Classes>> =
        picked.iter().map(|one| one.map(|(_, classes)| classes)).collect();
    let keys: BTreeSet<_> = figures.iter().flatten().flat_map(|figures| figures.keys()).collect();
    let mut studies = Vec::with_capacity(keys.len());
    for key in keys {
        let (metric, direction) = key;
        let ceiling = bounds.iter().position(|bound| bound.limits(metric, direction, scope));
        let ceiling = ceiling.map(|index| (index, bounds[index].ceiling.value));
        let settled = settling::settled(&classes, metric, direction);
        studies.push(metric_study(judged, key, &figures, settled, ceiling));
    }
    studies
}

/// Returns the study of one figure. Its `ceiling` has an index among the bounds and a value.
fn metric_study(
    judged: &[Judged<'_>],
    key: Key,
    figures: &[Option<&Admitted>],
    settled: Option<Settled>,
    ceiling: Option<(usize, f64)>,
) -> MetricStudy {
    let (metric, direction) = key;
    let limit = ceiling.map(|(_, limit)| limit).filter(|limit| *limit > 0.0);
    let values: Vec<Option<f64>> =
        figures.iter().map(|figures| figures.and_then(|f| f.at(key))).collect();
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    let estimate = estimated(judged, &known).map(|estimate| doubted(estimate, metric, figures));
    // A rate that never settles has no single number.
    let estimate =
        estimate.filter(|_| settled.as_ref().is_none_or(|settled| settled.has_single_number));
    let least: Vec<f64> =
        figures.iter().flatten().filter_map(|figures| figures.at_least(key)).collect();
    let is_infinite = estimate.is_some_and(|estimate| estimate.value == f64::INFINITY);
    let at_least = median(&least).filter(|bound| is_infinite && bound.is_finite());
    let mean = estimate.filter(|_| metric.is_for(Use::Mean)).and_then(|_| mean_interval(&known));
    let limits = Limits::of(metric, limit);
    MetricStudy {
        at_least,
        metric,
        unit: metric.unit,
        layer: metric.layer,
        direction,
        share: estimate.zip(limit).map(|(estimate, limit)| estimate.value / limit),
        mean: mean.map(|mean| MeanInterval {
            value: mean.value,
            low: limits.cut(mean.low),
            high: limits.cut(mean.high),
        }),
        estimate,
        values,
        ceiling: ceiling.map(|(index, _)| index),
        settled,
    }
}

/// Returns the median of `known` over the runs `judged`, with an interval that holds for any number
/// of looks.
fn estimated(judged: &[Judged<'_>], known: &[f64]) -> Option<Estimate> {
    let until = judged.first().and_then(|one| one.trial.spec.until.as_deref());
    let looked =
        |until: &Until| estimate_at(known, &until.looks, looks::number(until, judged.len()));
    until.map_or_else(|| estimate(known), looked)
}

/// Returns the `estimate` of a one-way time with the clocks' uncertainty added to both ends of its
/// interval.
fn doubted(estimate: Estimate, metric: &Metric, figures: &[Option<&Admitted>]) -> Estimate {
    let doubts = figures
        .iter()
        .flatten()
        .filter_map(|figures| figures.get(metric::CLOCK_UNCERTAINTY, Direction::Sum));
    let doubt = doubts.filter(|_| times::is_one_way(metric)).fold(0.0, f64::max);
    let low = estimate.low.map(|low| Limits::of(metric, None).cut(low - doubt));
    Estimate { low, high: estimate.high.map(|high| high + doubt), ..estimate }
}
