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
    let keeps =
        |study: &Study, number| goes_on(experiment, load_point, study, &plans::scout(number));
    let looks = (0..experiment.candidates.len()).map(|number| Look {
        gain: at(&study, &plans::scout(number)) / before,
        keeps: keeps(&study, number),
    });
    let looks: Vec<Look> = looks.collect();
    let Some(best) = best(experiment, &looks) else {
        return Ok(Scouted::Chosen(first));
    };
    let change = experiment.candidates.get(best).cloned().unwrap_or(first);
    let Look { gain, keeps: survived } = looks[best];
    // One clear success is enough to justify pairs.
    if looks[best].is_clear(experiment) {
        return Ok(Scouted::Chosen(change));
    }
    let again = format!("{stage}-again");
    let both = load.scouts(&again, std::slice::from_ref(&change), Beside::Base);
    let (_, study) = stages.look(&again, &both)?;
    let (base, once_more) = (at(&study, plans::BASE), at(&study, &plans::scout(0)));
    let survived = survived && keeps(&study, 0);
    // Without a base the drop may be an accident, and pairs decide.
    if base > 0.0 && (survived || experiment.is_hopeless(&[gain, once_more / base])) {
        return Ok(Scouted::Hopeless(vec![gain * before, once_more]));
    }
    Ok(Scouted::Chosen(change))
}

/// Single run of a candidate.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// Ratio of the figure to that without the change.
    gain: f64,
    /// True if the suspected cause goes on.
    keeps: bool,
}

impl Look {
    /// Returns true if the run ends the cause and comes near the prediction.
    fn is_cure(&self, experiment: &Experiment) -> bool {
        !self.keeps && !experiment.is_hopeless(&[self.gain])
    }

    /// Returns true if the run is a cure, or ends a cause that is counted.
    fn is_clear(&self, experiment: &Experiment) -> bool {
        self.is_cure(experiment) || (experiment.is_counted && !self.keeps)
    }
}

/// Returns the number of the best candidate. One that ends the cause and comes near the prediction
/// is first. Then follows one that ends a counted cause: on a busy host a smaller window waits
/// longer for each answer and yields no more. The yield is last.
fn best(experiment: &Experiment, looks: &[Look]) -> Option<usize> {
    let ends = |look: &Look| (look.is_cure(experiment), look.is_clear(experiment));
    let order =
        |a: &Look, b: &Look| ends(a).cmp(&ends(b)).then_with(|| experiment.rank(a.gain, b.gain));
    (0..looks.len()).max_by(|a, b| order(&looks[*a], &looks[*b]))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_ends_counted_drops_is_tested_though_it_yields_no_more() {
        let window = |is_counted| Experiment {
            is_counted,
            ..Experiment::lift_by_one("a smaller window", vec![Change::new(); 4], [1.1, 100.0])
        };
        // Recorded beside builds: windows of 2, 3, 5 and 10 segments, of which two lose nothing.
        let looks = [(0.975, false), (0.998, false), (0.628, true), (1.365, true)];
        let looks = looks.map(|(gain, keeps)| Look { gain, keeps });
        assert_eq!(best(&window(true), &looks), Some(1));
        assert_eq!(best(&window(false), &looks), Some(3), "the largest yield");
        assert!(looks[1].is_clear(&window(true)) && !looks[1].is_clear(&window(false)));
        assert!(!looks[3].is_clear(&window(true)), "the drops go on");
        let cure = Look { gain: 1.2, keeps: false };
        assert_eq!(best(&window(false), &[looks[1], cure, looks[3]]), Some(1), "a cure is first");
        assert_eq!(best(&window(false), &[]), None);
    }
}
