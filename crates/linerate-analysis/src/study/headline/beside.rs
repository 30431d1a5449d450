//! Choice of the two arms of a headline. An experiment or the comparison with the largest certain
//! change provides its first and its changed arm; a mix provides a job alone and the same job among
//! all.
//!
//! Where nothing changed for certain, the comparison of the point with the highest rate is used.

use linerate_model::{ARM_AXIS, Metric, Role, TrialId};

use super::super::pairs::arm_removed;
use super::super::{Comparison, PointStudy, SearchStudy, Study};
use super::{best, drawn};
use crate::compare::{Change, Scale};

/// Returns the trials of points whose records [`headline`](super::headline) reads.
#[must_use]
pub fn headlined(study: &Study) -> Vec<TrialId> {
    let Some(best) = best(study) else { return Vec::new() };
    let points = match arms(study, best) {
        Some(arms) => arms.map(|(point, _)| point).to_vec(),
        None => vec![best],
    };
    points.into_iter().flat_map(|point| &point.trials).map(|trial| trial.id).collect()
}

/// Returns the two arms, each with the number of the job in it. `None` if `best` is no arm and
/// there was no experiment.
pub(super) fn arms<'a>(
    study: &'a Study,
    best: &'a PointStudy,
) -> Option<[(&'a PointStudy, Option<usize>); 2]> {
    let tests = |comparison: &&Comparison| comparison.base.tests.is_some();
    let is_of = |comparison: &&Comparison| compares(comparison, study, best);
    let tested = study.comparisons.iter().find(tests);
    let comparison = match tested {
        // Experiments of one campaign share their base, so its strongest test represents them.
        Some(first) => {
            let of_first = |other: &&Comparison| {
                (&other.sweep, &other.base.name) == (&first.sweep, &first.base.name)
            };
            most_changed(study.comparisons.iter().filter(of_first))
        }
        None => {
            // Without this check, a comparison of another sweep would replace the point with the
            // highest rate.
            study.comparisons.iter().find(is_of)?;
            let certain = study
                .comparisons
                .iter()
                .filter(|comparison| change(comparison).is_some_and(|(sure, _)| sure));
            // A large change within the noise is less worth showing than a smaller certain one.
            most_changed(certain).or_else(|| most_changed(study.comparisons.iter().filter(is_of)))
        }
    }?;
    let [base, changed] = [&comparison.base.name, &comparison.changed.name]
        .map(|name| comparison.point_of(name, study));
    let base = base?;
    let job = drawn(study, base);
    // The arm of a job alone numbers its jobs from zero; in the mix the same job has another
    // number.
    let among_all = job.map(|job| match comparison.base.role {
        Role::Alone => comparison.base.jobs.get(job).map_or(job, |number| *number as usize),
        _ => job,
    });
    Some([(base, job), (changed?, among_all)])
}

/// Returns whether `point` is the base or the changed arm of `comparison`.
fn compares(comparison: &Comparison, study: &Study, point: &PointStudy) -> bool {
    let mut arms = [&comparison.base.name, &comparison.changed.name]
        .into_iter()
        .filter_map(|name| comparison.point_of(name, study));
    arms.any(|arm| std::ptr::eq(arm, point))
}

/// Returns the results of the first two arms that were searched.
pub(super) fn searches(study: &Study) -> Option<[&SearchStudy; 2]> {
    let comparison = study.comparisons.first()?;
    let of_arm = |name: &str| search_of(study, comparison, name);
    Some([of_arm(&comparison.base.name)?, of_arm(&comparison.changed.name)?])
}

/// Returns the search that measured the arm `name` of `comparison`.
fn search_of<'a>(study: &'a Study, comparison: &Comparison, name: &str) -> Option<&'a SearchStudy> {
    study.searches.iter().find(|search| {
        let arm = search.parameters.get(ARM_AXIS).and_then(|arm| arm.as_str());
        search.sweep == comparison.sweep
            && arm == Some(name)
            && arm_removed(&search.parameters) == comparison.parameters
    })
}

/// Returns the first of those that changed most.
fn most_changed<'a>(
    comparisons: impl DoubleEndedIterator<Item = &'a Comparison>,
) -> Option<&'a Comparison> {
    let size = |comparison: &Comparison| change(comparison).map_or(0.0, |(_, size)| size);
    // `max_by` returns the last of equals; reversed, it is the first in the order of the plan.
    comparisons.rev().max_by(|a, b| size(a).total_cmp(&size(b)))
}

/// Returns whether the main figure changed for certain, and by how much in either direction.
fn change(comparison: &Comparison) -> Option<(bool, f64)> {
    let named =
        |metric: &'static Metric| comparison.figures.iter().find(|figure| figure.metric == metric);
    let effect = &Metric::moved().find_map(named)?.effect;
    // Differences have no size that could be compared with ratios.
    (effect.scale == Scale::Ratio).then_some((
        matches!(effect.change, Change::Better | Change::Worse),
        effect.shift.ln().abs(),
    ))
}
