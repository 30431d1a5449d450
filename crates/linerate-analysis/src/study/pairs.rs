//! Comparisons of a campaign: at every point with two arms, every figure of one against the other's, pair by pair.
//!
//! A pair is what two arms measured in the same repeat. Only metrics of which more or less is better are compared, those that got worse
//! as well as the one the comparison was made for. Many figures are compared at once: each interval stands for itself at 95 %, and
//! Holm's adjustment of the probabilities says which shift remains one among so many (methodology 6.6).

use linerate_model::{ARM_AXIS, Arm, Campaign, Direction, Layer, Point, Role, Unit, metric};
use serde::{Deserialize, Serialize};

use super::{JobStudy, MetricStudy, PointStudy};
use crate::compare::{Better, Effect, Margin, effect_beyond};

/// Two arms at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The sweep it belongs to.
    pub sweep: String,
    /// Its coordinate, the arm apart.
    pub parameters: Point,
    /// What was compared with.
    pub base: Arm,
    /// What was compared.
    pub changed: Arm,
    /// Every figure both have, in the order of `METRICS`.
    pub figures: Vec<Compared>,
}

/// One figure of two arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Which of the point's jobs, in its order.
    pub job: usize,
    /// Metric name, as in [`linerate_model::METRICS`].
    pub metric: String,
    /// Unit.
    pub unit: Unit,
    /// Layer.
    pub layer: Option<Layer>,
    /// Direction.
    pub direction: Direction,
    /// What became of it, beside the placebo.
    pub effect: Effect,
    /// The first arm against itself, if that was measured.
    pub placebo: Option<Effect>,
    /// Probability of the shift by chance, adjusted for the number of figures of this comparison (Holm).
    pub p_adjusted: Option<f64>,
    /// Pairs planned: fewer in `effect` means that trials carry no figure.
    pub pairs: usize,
}

/// The comparisons of `campaign`, whose points are judged.
pub(super) fn comparisons(campaign: &Campaign, points: &[PointStudy]) -> Vec<Comparison> {
    let arms: Vec<Option<&Arm>> = points.iter().map(|point| arm_of(campaign, point)).collect();
    let of_role = |role: Role| move |(_, arm): &(&PointStudy, &Arm)| arm.role == role;
    let compared = || points.iter().zip(&arms).filter_map(|(point, arm)| Some((point, (*arm)?)));
    compared()
        .filter(of_role(Role::Changed))
        .filter_map(|(changed, changed_arm)| {
            let beside = |role: Role| {
                compared()
                    .filter(of_role(role))
                    .find(|(point, _)| point.sweep == changed.sweep && without_arm(point) == without_arm(changed))
            };
            let (base, base_arm) = beside(Role::Base)?;
            let placebo = beside(Role::Placebo).map(|(point, _)| point);
            Some(Comparison {
                sweep: changed.sweep.clone(),
                parameters: without_arm(changed),
                base: base_arm.clone(),
                changed: changed_arm.clone(),
                figures: figures(base, changed, placebo, changed_arm.margin.0),
            })
        })
        .collect()
}

fn arm_of<'a>(campaign: &'a Campaign, point: &PointStudy) -> Option<&'a Arm> {
    let id = point.trials.first()?.id;
    campaign.trials.iter().find(|trial| trial.spec.id == id)?.spec.arm.as_ref()
}

fn without_arm(point: &PointStudy) -> Point {
    let mut parameters = point.parameters.clone();
    parameters.remove(ARM_AXIS);
    parameters
}

fn figures(base: &PointStudy, changed: &PointStudy, placebo: Option<&PointStudy>, margin: f64) -> Vec<Compared> {
    let mut figures = Vec::new();
    for (number, job) in changed.jobs.iter().enumerate().filter(|(_, job)| !job.background) {
        let Some(before) = base.jobs.get(number) else { continue };
        let again = placebo.and_then(|point| point.jobs.get(number));
        figures.extend(job.metrics.iter().filter_map(|after| {
            let compared = compare(before, after, again, margin)?;
            Some(Compared { job: number, ..compared })
        }));
    }
    adjust(&mut figures);
    figures
}

fn compare(before: &JobStudy, after: &MetricStudy, again: Option<&JobStudy>, margin: f64) -> Option<Compared> {
    let better = if metric(&after.name)?.higher_is_better? { Better::More } else { Better::Less };
    let before = before.metric(&after.name, after.direction)?;
    let margin = Margin { relative: margin, step: 0.0 };
    let name = format!("{} {}", after.name, after.direction);
    let against = |other: &MetricStudy| effect_beyond(&name, &before.values, &other.values, better, margin);
    let placebo = again.and_then(|job| job.metric(&after.name, after.direction)).and_then(against);
    let effect = against(after)?;
    let effect = match &placebo {
        Some(placebo) => effect.above_noise(placebo),
        None => effect,
    };
    Some(Compared {
        job: 0,
        metric: after.name.clone(),
        unit: after.unit,
        layer: after.layer,
        direction: after.direction,
        effect,
        placebo,
        p_adjusted: None,
        pairs: before.values.len().min(after.values.len()),
    })
}

/// Holm's step-down adjustment (Scandinavian Journal of Statistics 6, 1979).
fn adjust(figures: &mut [Compared]) {
    let mut by_p: Vec<usize> = (0..figures.len()).filter(|&number| figures[number].effect.p.is_some()).collect();
    by_p.sort_by(|&a, &b| figures[a].effect.p.partial_cmp(&figures[b].effect.p).unwrap_or(std::cmp::Ordering::Equal));
    let (n, mut least) = (by_p.len(), 0.0_f64);
    for (rank, number) in by_p.into_iter().enumerate() {
        let adjusted = figures[number].effect.p.map(|p| (p * (n - rank) as f64).min(1.0));
        least = least.max(adjusted.unwrap_or(0.0));
        figures[number].p_adjusted = Some(least);
    }
}
