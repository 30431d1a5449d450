//! Figures of pairs from the study of a stage.

use std::collections::{BTreeMap, HashMap, HashSet};

use linerate_analysis::mesh::{Cells, Measure, Mesh, Pairing};
use linerate_analysis::statistics::median;
use linerate_analysis::{JobStudy, PointStudy, Study};

use super::Fleet;
use super::plans::WORKLOAD;

/// Returns cells for every measure of `n` hosts, without figures.
pub(super) fn empty(n: usize) -> Vec<(Measure, Cells)> {
    Measure::ALL.map(|measure| (measure, Cells::new(n))).to_vec()
}

/// Adds the figures of `study` to `mesh`; returns the pairs of it that have goodput in both
/// directions now, in either order. The other direction may have been measured earlier.
pub(super) fn add(study: &Study, fleet: &Fleet, mesh: &mut Mesh) -> HashSet<Pairing> {
    let mut both = HashSet::new();
    for ((from, to), job) in jobs(study, fleet) {
        for (measure, cells) in &mut mesh.figures {
            let Some(value) = median(&values(job, *measure)) else { continue };
            cells.set(from, to, value);
            if *measure == Measure::Goodput && cells.get(to, from).is_some() {
                both.extend([(from, to), (to, from)]);
            }
        }
    }
    both
}

/// Returns the figures of one directed pair, run by run.
pub(super) fn of(study: &Study, fleet: &Fleet, measure: Measure, pair: Pairing) -> Vec<f64> {
    let own = jobs(study, fleet).filter(|(of, _)| *of == pair);
    own.flat_map(|(_, job)| values(job, measure)).collect()
}

/// Returns a figure of each pair of the sweep `sweep`, the median of its runs.
pub(super) fn of_sweep(
    study: &Study,
    sweep: &str,
    fleet: &Fleet,
    measure: Measure,
) -> BTreeMap<Pairing, f64> {
    let points = study.points.iter().filter(|point| point.sweep == sweep);
    let jobs = jobs_of(points, fleet);
    jobs.filter_map(|(pair, job)| Some((pair, median(&values(job, measure))?))).collect()
}

/// Returns every measured pair with its job.
fn jobs<'s>(study: &'s Study, fleet: &Fleet) -> impl Iterator<Item = (Pairing, &'s JobStudy)> {
    jobs_of(study.points.iter(), fleet)
}

fn jobs_of<'s>(
    points: impl Iterator<Item = &'s PointStudy>,
    fleet: &Fleet,
) -> impl Iterator<Item = (Pairing, &'s JobStudy)> {
    let places: HashMap<String, usize> =
        fleet.hosts.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect();
    // The sum of all jobs is no pair.
    let jobs = points.flat_map(|point| &point.jobs);
    jobs.filter(|job| job.workload == WORKLOAD).filter_map(move |job| {
        let place = |name: &String| places.get(name).copied();
        Some(((place(&job.from)?, place(&job.to)?), job))
    })
}

fn values(job: &JobStudy, measure: Measure) -> Vec<f64> {
    let found = job.metrics.iter().find(|one| one.metric == measure.metric());
    found.map_or_else(Vec::new, |one| one.values.iter().flatten().copied().collect())
}
