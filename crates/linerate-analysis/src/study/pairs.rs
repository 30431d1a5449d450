//! Comparisons of a campaign: at every point with two arms, every figure of one against the
//! other's, pair by pair.
//!
//! A pair is the measurement of two arms in the same repeat. Only metrics for which more or less is
//! better are compared, including those that got worse. Many figures are compared at once: each
//! interval covers 95 % by itself, and Holm's adjustment of the probabilities decides which shifts
//! remain among that many (docs/methodology/with-and-without.md#the-figure).

use std::fmt;

use linerate_model::{
    ARM_AXIS, Arm, Campaign, Direction, Layer, Metric, MetricGroup, Point, Role, Unit,
};
use serde::{Deserialize, Serialize};

use super::{JobStudy, MetricStudy, PointStudy, Study};
use crate::compare::{Better, Effect, Margin, effect_beyond};
use crate::statistics::ALPHA;

/// Two arms at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The sweep it belongs to.
    pub sweep: String,
    /// Its coordinate, without the arm.
    pub parameters: Point,
    /// The arm compared with.
    pub base: Arm,
    /// The changed arm.
    pub changed: Arm,
    /// Name of the placebo, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placebo: Option<String>,
    /// Every figure both have, in the order of `METRICS`.
    pub figures: Vec<Compared>,
}

impl Comparison {
    /// Returns the number that job `number` of the changed arm has in the arm called `name`.
    #[must_use]
    pub fn job_in(&self, name: &str, number: usize) -> usize {
        let of_base = self.base.jobs.iter().position(|job| *job as usize == number);
        of_base.filter(|_| name != self.changed.name).unwrap_or(number)
    }

    /// Returns the point of the arm called `name`; `None` for a search, which has no point.
    #[must_use]
    pub fn point_of<'a>(&self, name: &str, study: &'a Study) -> Option<&'a PointStudy> {
        study.points.iter().find(|point| {
            let arm = point.parameters.get(ARM_AXIS).and_then(|arm| arm.as_str());
            point.sweep == self.sweep && arm == Some(name) && without_arm(point) == self.parameters
        })
    }
}

/// Subject of a comparison: a metric, or the load that a search found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum ComparedFigure {
    /// A figure of a job.
    Metric(&'static Metric),
    /// The highest load that meets the goal of this name: `rate_of_GOAL` in JSON.
    LoadAt(String),
}

impl ComparedFigure {
    /// Returns the metric; `None` for a load that a search found.
    #[must_use]
    pub fn metric(&self) -> Option<&'static Metric> {
        match self {
            Self::Metric(metric) => Some(metric),
            Self::LoadAt(_) => None,
        }
    }

    /// Returns its group; a load that a search found is a rate.
    #[must_use]
    pub fn group(&self) -> MetricGroup {
        self.metric().map_or(MetricGroup::Rate, |metric| metric.group)
    }

    /// Returns the heading of its column or chart.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::Metric(metric) => metric.title.to_owned(),
            Self::LoadAt(goal) => format!("Rate of {goal}"),
        }
    }
}

impl PartialEq<&Metric> for ComparedFigure {
    fn eq(&self, other: &&Metric) -> bool {
        self.metric() == Some(*other)
    }
}

impl fmt::Display for ComparedFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metric(metric) => f.write_str(metric.name),
            Self::LoadAt(goal) => write!(f, "{LOAD_AT}{goal}"),
        }
    }
}

impl From<&'static Metric> for ComparedFigure {
    fn from(metric: &'static Metric) -> Self {
        Self::Metric(metric)
    }
}

impl From<ComparedFigure> for String {
    fn from(figure: ComparedFigure) -> Self {
        figure.to_string()
    }
}

impl From<String> for ComparedFigure {
    fn from(text: String) -> Self {
        match Metric::named(&text) {
            Some(metric) => Self::Metric(metric),
            None => Self::LoadAt(text.strip_prefix(LOAD_AT).unwrap_or(&text).to_owned()),
        }
    }
}

/// Prefix of the goal's name in JSON.
const LOAD_AT: &str = "rate_of_";

/// One figure of two arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Number of the job at the point.
    pub job: usize,
    /// Subject of the comparison.
    pub metric: ComparedFigure,
    /// Unit.
    pub unit: Unit,
    /// Layer.
    pub layer: Option<Layer>,
    /// Direction.
    pub direction: Direction,
    /// The effect, beside the placebo.
    pub effect: Effect,
    /// The first arm against itself, if that was measured.
    pub placebo: Option<Effect>,
    /// Probability of the shift by chance, adjusted for the number of figures of this comparison
    /// (Holm).
    pub p_adjusted: Option<f64>,
    /// Pairs planned: fewer in `effect` means that trials carry no figure.
    pub pairs: usize,
    /// For a search, which has no point: the result of each arm, pair by pair, by the arms' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<(String, Vec<Option<f64>>)>,
}

impl Compared {
    /// Returns the effect on `metric` of the first job, for all pairs that carry figures, without a
    /// placebo.
    #[must_use]
    pub fn of(metric: &'static Metric, direction: Direction, effect: Effect) -> Self {
        Self {
            job: 0,
            metric: metric.into(),
            unit: metric.unit,
            layer: metric.layer,
            direction,
            pairs: effect.n,
            effect,
            placebo: None,
            p_adjusted: None,
            found: Vec::new(),
        }
    }
}

/// Returns the comparisons of `campaign`, whose points are judged.
pub(super) fn comparisons(campaign: &Campaign, points: &[PointStudy]) -> Vec<Comparison> {
    let arms: Vec<Option<&Arm>> = points.iter().map(|point| arm_of(campaign, point)).collect();
    let of_role = |role: Role| move |(_, arm): &(&PointStudy, &Arm)| arm.role == role;
    let compared = || points.iter().zip(&arms).filter_map(|(point, arm)| Some((point, (*arm)?)));
    let arms = compared().filter(of_role(Role::Changed)).filter_map(|(changed, changed_arm)| {
        let beside = |role: Role| {
            compared().filter(of_role(role)).find(|(point, _)| is_beside(point, changed))
        };
        let (base, base_arm) = beside(Role::Base)?;
        let (placebo, placebo_arm) = beside(Role::Placebo).unzip();
        Some(Comparison {
            sweep: changed.sweep.clone(),
            parameters: without_arm(changed),
            base: base_arm.clone(),
            changed: changed_arm.clone(),
            placebo: placebo_arm.map(|arm| arm.name.clone()),
            figures: figures(base, changed, placebo, margin_of(changed_arm), Some),
        })
    });
    // In a mix each job alone is compared with the same job among all.
    let together = compared().filter(of_role(Role::Together)).flat_map(|(changed, changed_arm)| {
        let beside = move |role: Role| {
            compared().filter(of_role(role)).filter(move |(point, _)| is_beside(point, changed))
        };
        beside(Role::Alone).map(move |(base, base_arm)| {
            let (placebo, placebo_arm) =
                beside(Role::Placebo).find(|(_, arm)| arm.jobs == base_arm.jobs).unzip();
            let of_job =
                |number: usize| base_arm.jobs.iter().position(|job| *job as usize == number);
            Comparison {
                sweep: changed.sweep.clone(),
                parameters: without_arm(changed),
                base: base_arm.clone(),
                changed: changed_arm.clone(),
                placebo: placebo_arm.map(|arm| arm.name.clone()),
                figures: figures(base, changed, placebo, margin_of(changed_arm), of_job),
            }
        })
    });
    arms.chain(together).collect()
}

/// Returns whether two points are arms of one comparison.
fn is_beside(a: &PointStudy, b: &PointStudy) -> bool {
    a.sweep == b.sweep && without_arm(a) == without_arm(b)
}

/// Returns the arm of a comparison or mix that `point` is.
pub(super) fn arm_of<'a>(campaign: &'a Campaign, point: &PointStudy) -> Option<&'a Arm> {
    let id = point.trials.first()?.id;
    campaign.trials.iter().find(|trial| trial.spec.id == id)?.spec.arm.as_ref()
}

/// Returns the coordinate of `point`, the arm apart.
pub(super) fn without_arm(point: &PointStudy) -> Point {
    arm_removed(&point.parameters)
}

/// Returns the coordinate `parameters` without its arm.
pub(super) fn arm_removed(parameters: &Point) -> Point {
    let mut parameters = parameters.clone();
    parameters.remove(ARM_AXIS);
    parameters
}

/// Returns the difference from `arm` that counts as none, and the share of the usual error that
/// this look at its claim may spend.
fn margin_of(arm: &Arm) -> Margin {
    let error = arm.tests.as_ref().and_then(|claim| claim.error);
    let part_of_error = error.map_or(1.0, |error| error.0 / ALPHA);
    Margin { relative: arm.margin.0, part_of_error, ..Margin::default() }
}

/// Returns the compared figures; `before_of` maps a job of the changed arm to that of the base.
fn figures(
    base: &PointStudy,
    changed: &PointStudy,
    placebo: Option<&PointStudy>,
    margin: Margin,
    before_of: impl Fn(usize) -> Option<usize>,
) -> Vec<Compared> {
    let mut figures = Vec::new();
    for (number, job) in changed.jobs.iter().enumerate().filter(|(_, job)| !job.background) {
        let Some(of_base) = before_of(number) else { continue };
        let Some(before) = base.jobs.get(of_base) else { continue };
        let again = placebo.and_then(|point| point.jobs.get(of_base));
        figures.extend(job.metrics.iter().filter_map(|after| {
            let compared = compare(before, after, again, margin)?;
            Some(Compared { job: number, ..compared })
        }));
    }
    adjust(&mut figures.iter_mut().collect::<Vec<_>>());
    figures
}

fn compare(
    before: &JobStudy,
    after: &MetricStudy,
    again: Option<&JobStudy>,
    margin: Margin,
) -> Option<Compared> {
    let better = Better::of(after.metric)?;
    let before = before.metric(after.metric, after.direction)?;
    let name = format!("{} {}", after.metric, after.direction);
    let against =
        |other: &MetricStudy| effect_beyond(&name, &before.values, &other.values, better, margin);
    let placebo = again.and_then(|job| job.metric(after.metric, after.direction)).and_then(against);
    let effect = against(after)?;
    let effect = match &placebo {
        Some(placebo) => effect.above_noise(placebo),
        None => effect,
    };
    let pairs = before.values.len().min(after.values.len());
    Some(Compared { placebo, pairs, ..Compared::of(after.metric, after.direction, effect) })
}

/// Holm's step-down adjustment (Scandinavian Journal of Statistics 6, 1979).
pub(crate) fn adjust(figures: &mut [&mut Compared]) {
    let mut by_p: Vec<usize> =
        (0..figures.len()).filter(|&number| figures[number].effect.p.is_some()).collect();
    by_p.sort_by(|&a, &b| {
        figures[a].effect.p.partial_cmp(&figures[b].effect.p).unwrap_or(std::cmp::Ordering::Equal)
    });
    let (n, mut least) = (by_p.len(), 0.0_f64);
    for (rank, number) in by_p.into_iter().enumerate() {
        let adjusted = figures[number].effect.p.map(|p| (p * (n - rank) as f64).min(1.0));
        least = least.max(adjusted.unwrap_or(0.0));
        figures[number].p_adjusted = Some(least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::effect;
    use crate::statistics::oracle;
    use linerate_model::metric;

    /// `fixtures/oracles/holm.json`: Holm's own procedure, the smallest error at which each is
    /// still claimed.
    #[test]
    fn adjusted_probabilities_are_those_of_holms_own_procedure() {
        let made =
            effect("goodput", &[Some(1.0), Some(2.0)], &[Some(2.0), Some(3.0)], Better::More)
                .expect("two pairs");
        for case in oracle::cases(include_str!("../../fixtures/oracles/holm.json")) {
            let figure = |p: f64| {
                let effect = Effect { p: Some(p), ..made.clone() };
                Compared::of(metric::GOODPUT, Direction::Tx, effect)
            };
            let mut figures: Vec<Compared> =
                oracle::numbers(&case["p"]).into_iter().map(figure).collect();
            adjust(&mut figures.iter_mut().collect::<Vec<_>>());
            for (figure, expected) in figures.iter().zip(oracle::numbers(&case["adjusted"])) {
                let found = figure.p_adjusted.expect("it has a probability");
                assert!(
                    (found - expected).abs() < 1e-12,
                    "{}: {found} instead of {expected}",
                    case["name"]
                );
            }
        }
    }
}
