//! Single runs of candidate changes before their pairs: they choose among candidates, and drop
//! claims that they contradict clearly.

use linerate_analysis::diagnosis::experiment::{Change, Experiment, figure_of};
use linerate_analysis::diagnosis::moved;
use linerate_analysis::{PointStudy, Study};

use super::plans::{self, Beside, Load};
use super::stages::Stages;
use crate::Ended;

/// Outcome of the single runs of candidates.
pub(super) enum Scouted {
    /// The candidate that yields most among those that end their suspected cause. Pairs of fresh
    /// runs judge it.
    Chosen(Change),
    /// No candidate makes the predicted difference: the figure of the best one in both looks.
    Hopeless(Vec<f64>),
}

/// Runs each candidate once and compares it with the figure of the load's point. If none comes
/// near the prediction, the best is run once more beside the unchanged load: an accident must not
/// drop a claim.
pub(super) fn scout(
    stages: &mut Stages<'_>,
    stage: &str,
    (load, load_point): (&Load, &PointStudy),
    experiment: &Experiment,
) -> Result<Scouted, Ended> {
    let before = experiment.figure(load_point);
    let first = experiment.candidates.first().cloned().unwrap_or_default();
    // Settings of hosts are changed in pairs only, which put them back.
    if !experiment.settings.is_empty() {
        return Ok(Scouted::Chosen(first));
    }
    let (_, study) =
        stages.look(stage, &load.scouts(stage, &experiment.candidates, Beside::Nothing))?;
    let at = |study: &Study, sweep: &str| figure_at(experiment, study, sweep);
    let yields = |number: usize| at(&study, &plans::scout(number));
    let gain = |number: usize| yields(number) / before;
    let keeps = |number| goes_on(experiment, load_point, &study, &plans::scout(number));
    // A candidate that yields more but leaves its suspected cause is no cure: one that ends the
    // cause and yields less is preferred.
    let cures = |number| !keeps(number) && !experiment.is_hopeless(&[gain(number)]);
    // The cure comes first in the order, the yield second.
    let nearest = |&a: &usize, &b: &usize| {
        cures(a).cmp(&cures(b)).then_with(|| experiment.rank(gain(a), gain(b)))
    };
    let Some(best) = (0..experiment.candidates.len()).max_by(nearest) else {
        return Ok(Scouted::Chosen(first));
    };
    let change = experiment.candidates.get(best).cloned().unwrap_or(first);
    let seen = yields(best);
    let survived = keeps(best);
    // One clear success is enough to justify pairs.
    if !survived && !experiment.is_hopeless(&[seen / before]) {
        return Ok(Scouted::Chosen(change));
    }
    let again = format!("{stage}-again");
    let both = load.scouts(&again, std::slice::from_ref(&change), Beside::Base);
    let (_, study) = stages.look(&again, &both)?;
    let (base, once_more) = (at(&study, plans::BASE), at(&study, &plans::scout(0)));
    let survived = survived && goes_on(experiment, load_point, &study, &plans::scout(0));
    // Without a base the drop may be an accident, and pairs decide.
    if base > 0.0 && (survived || experiment.is_hopeless(&[seen / before, once_more / base])) {
        return Ok(Scouted::Hopeless(vec![seen, once_more]));
    }
    Ok(Scouted::Chosen(change))
}

/// Returns whether the experiment's claim is still true of the point of `sweep`, compared with the
/// point of the load.
fn goes_on(experiment: &Experiment, load_point: &PointStudy, study: &Study, sweep: &str) -> bool {
    let point = study.points.iter().find(|point| point.sweep == sweep);
    let of = |point| Some(figure_of(point, experiment.ends?));
    let (before, after) = (of(load_point), point.and_then(of));
    before.zip(after).is_some_and(|(before, after)| Experiment::goes_on(before, after))
}

/// Returns the value of the metric that experiments move: goodput in bit/s, or IOPS of disks and
/// files; zero if unknown.
pub(super) fn goodput(point: &PointStudy) -> f64 {
    figure_of(point, moved(point))
}

/// Returns the figure of `experiment` at the point of `sweep`; zero for one that could not be
/// measured, so that it is never chosen over one that was.
fn figure_at(experiment: &Experiment, study: &Study, sweep: &str) -> f64 {
    let point = study.points.iter().find(|point| point.sweep == sweep);
    point.map_or(0.0, |point| experiment.figure(point))
}
