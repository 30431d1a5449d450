//! Single runs of what might be changed, before pairs of it are run: they choose among candidates
//! and drop claims without hope.

use linerate_analysis::diagnosis::experiment::{Change, Experiment};
use linerate_analysis::diagnosis::moved;
use linerate_analysis::{PointStudy, Study};

use super::plans::{self, Beside, Load};
use crate::Ended;
use crate::stages::Bench;

/// Outcome of the single runs of candidates.
pub(super) enum Scouted {
    /// The candidate that yields most of those that end what they should: pairs of fresh runs judge
    /// it.
    Chosen(Change),
    /// None makes the difference that is predicted: goodput of the best, in both looks.
    Hopeless(Vec<f64>),
}

/// One run of each candidate against the goodput of the load's point, and where that leaves no hope
/// one more of the best beside one of the load as it is: an accident must not drop a claim.
pub(super) fn scout(
    bench: &dyn Bench,
    stage: &str,
    (load, load_point): (&Load, &PointStudy),
    experiment: &Experiment,
    notes: &mut Vec<String>,
) -> Result<Scouted, Ended> {
    let before = goodput(load_point);
    let first = experiment.candidates.first().cloned().unwrap_or_default();
    // What hosts are asked to set belongs to pairs, which put it back.
    if !experiment.settings.is_empty() {
        return Ok(Scouted::Chosen(first));
    }
    let (_, study) =
        bench.look(stage, &load.scouts(stage, &experiment.candidates, Beside::Nothing), notes)?;
    let at = |study: &Study, sweep: &str| {
        study.points.iter().find(|point| point.sweep == sweep).map_or(0.0, goodput)
    };
    let goes_on = |study: &Study, sweep: &str| {
        let point = study.points.iter().find(|point| point.sweep == sweep);
        let of = |point| Some(highest(point, experiment.ends?));
        let (before, after) = (of(load_point), point.and_then(of));
        before.zip(after).is_some_and(|(before, after)| Experiment::goes_on(before, after))
    };
    let yields = |number: usize| at(&study, &plans::scout(number));
    // One that yields more and leaves what it was to end is no cure: it is not preferred to one
    // that ends it and yields less.
    let cures = |number: usize| {
        !goes_on(&study, &plans::scout(number))
            && !experiment.is_hopeless(&[yields(number) / before])
    };
    let nearest = |&a: &usize, &b: &usize| {
        cures(a)
            .cmp(&cures(b))
            .then_with(|| experiment.rank(yields(a) / before, yields(b) / before))
    };
    let Some(best) = (0..experiment.candidates.len()).max_by(nearest) else {
        return Ok(Scouted::Chosen(first));
    };
    let change = experiment.candidates.get(best).cloned().unwrap_or(first);
    let seen = yields(best);
    let survived = goes_on(&study, &plans::scout(best));
    if !survived && !experiment.is_hopeless(&[seen / before]) {
        return Ok(Scouted::Chosen(change));
    }
    let again = format!("{stage}-again");
    let both = load.scouts(&again, std::slice::from_ref(&change), Beside::Base);
    let (_, study) = bench.look(&again, &both, notes)?;
    let (base, once_more) = (at(&study, plans::BASE), at(&study, &plans::scout(0)));
    let survived = survived && goes_on(&study, &plans::scout(0));
    if base > 0.0 && (survived || experiment.is_hopeless(&[seen / before, once_more / base])) {
        return Ok(Scouted::Hopeless(vec![seen, once_more]));
    }
    Ok(Scouted::Chosen(change))
}

/// Returns the metric that experiments move, of the measured jobs in the direction that carries most:
/// goodput, bit/s, or of disks and files transfers per second; zero if none is known.
pub(super) fn goodput(point: &PointStudy) -> f64 {
    highest(point, moved(point))
}

/// The highest of the figures called `name` of the measured jobs; zero if there is none.
fn highest(point: &PointStudy, name: &str) -> f64 {
    let jobs = point.jobs.iter().filter(|job| !job.background);
    let metrics = jobs.flat_map(|job| &job.metrics).filter(|metric| metric.name == name);
    metrics.filter_map(|metric| metric.estimate).map(|estimate| estimate.value).fold(0.0, f64::max)
}
