//! Comparisons of searches: results of one arm against those of the other, pair by pair.
//!
//! A pair is one search of each arm in the same repeat; their trials alternate. The lower bound of
//! each goal is compared. The search's step is its resolution: a difference below the distance of
//! the bounds is none (docs/methodology/searches.md#results, S5.5). A bound set by the tester
//! rather than the device is not a figure.

use linerate_model::{Arm, Campaign, Direction, LoadUnit, Role, Unit};

use super::pairs::{Compared, ComparedFigure, Comparison, adjust, arm_removed};
use super::{GoalResult, SearchStudy};
use crate::compare::{Better, Margin, effect_beyond};
use crate::statistics::median;

/// Returns the comparisons of `campaign` among its `searches`.
pub(super) fn comparisons(campaign: &Campaign, searches: &[SearchStudy]) -> Vec<Comparison> {
    let arms: Vec<Option<&Arm>> = searches.iter().map(|search| arm_of(campaign, search)).collect();
    let compared: Vec<(&SearchStudy, &Arm)> =
        searches.iter().zip(&arms).filter_map(|(search, arm)| Some((search, (*arm)?))).collect();
    let changed = compared.iter().filter(|(_, arm)| arm.role == Role::Changed);
    changed.filter_map(|changed| comparison(&compared, *changed)).collect()
}

/// Returns the comparison of a changed arm with those of its point among `compared`.
fn comparison(
    compared: &[(&SearchStudy, &Arm)],
    (changed, changed_arm): (&SearchStudy, &Arm),
) -> Option<Comparison> {
    let coordinate = arm_removed(&changed.parameters);
    let mut of_point = compared.to_vec();
    of_point.retain(|(search, _)| {
        search.sweep == changed.sweep && arm_removed(&search.parameters) == coordinate
    });
    let beside = |role| of_point.iter().copied().find(|(_, arm)| arm.role == role);
    let (base, base_arm) = beside(Role::Base)?;
    let arms = [Some((base, base_arm)), Some((changed, changed_arm)), beside(Role::Placebo)];
    Some(Comparison {
        sweep: changed.sweep.clone(),
        parameters: coordinate,
        base: base_arm.clone(),
        changed: changed_arm.clone(),
        placebo: arms[2].map(|(_, arm)| arm.name.clone()),
        figures: figures(arms),
    })
}

fn arm_of<'a>(campaign: &'a Campaign, search: &SearchStudy) -> Option<&'a Arm> {
    let id = search.runs.iter().flat_map(|run| &run.trials).next()?.id;
    campaign.trials.iter().find(|trial| trial.spec.id == id)?.spec.arm.as_ref()
}

/// One figure for each goal, of base, changed arm and placebo.
fn figures(arms: [Option<(&SearchStudy, &Arm)>; 3]) -> Vec<Compared> {
    let Some((base, _)) = arms[0] else { return Vec::new() };
    let mut figures: Vec<Compared> =
        base.goals.iter().filter_map(|goal| compare(&goal.goal.name, arms)).collect();
    adjust(&mut figures.iter_mut().collect::<Vec<_>>());
    figures
}

fn compare(goal: &str, arms: [Option<(&SearchStudy, &Arm)>; 3]) -> Option<Compared> {
    let found: Vec<(String, Vec<Option<f64>>)> = arms
        .into_iter()
        .flatten()
        .map(|(search, arm)| (arm.name.clone(), lower_bounds(search, goal)))
        .collect();
    let [Some((base, base_arm)), _, _] = arms else { return None };
    let step = arms
        .into_iter()
        .flatten()
        .filter_map(|(search, _)| search_step(search, goal))
        .fold(0.0, f64::max);
    let margin = Margin { relative: base_arm.margin.0, step, ..Margin::default() };
    let metric = ComparedFigure::LoadAt(goal.to_owned());
    let name = metric.to_string();
    let (_, before) = found.first()?;
    let against = |(_, after): &(String, Vec<Option<f64>>)| {
        effect_beyond(&name, before, after, Better::More, margin)
    };
    let (effect, placebo) = (found.get(1).and_then(against)?, found.get(2).and_then(against));
    let effect = match &placebo {
        Some(placebo) => effect.above_noise(placebo),
        None => effect,
    };
    Some(Compared {
        job: 0,
        metric,
        unit: unit_of_load(base.search.unit),
        layer: None,
        direction: Direction::Tx,
        effect,
        placebo,
        p_adjusted: None,
        pairs: found.iter().map(|(_, values)| values.len()).max().unwrap_or(0),
        found,
    })
}

/// Returns the lower bound of `goal` in each repeat of `search`.
pub(crate) fn lower_bounds(search: &SearchStudy, goal: &str) -> Vec<Option<f64>> {
    let n_repeats = search.runs.iter().map(|run| run.repeat + 1).max().unwrap_or(0);
    (0..n_repeats).map(|repeat| lower_bound(search, goal, repeat)).collect()
}

/// Returns the lower bound of the goal in the run `repeat`, if the tester was not the limit.
fn lower_bound(search: &SearchStudy, goal: &str, repeat: u32) -> Option<f64> {
    let run = search.runs.iter().find(|run| run.repeat == repeat)?;
    named(&run.found, goal).filter(|found| !found.at_least)?.strict.lower
}

/// Returns the distance between the bounds of `goal`, in the unit of the load: the median over the
/// runs.
pub(crate) fn search_step(search: &SearchStudy, goal: &str) -> Option<f64> {
    let apart = |found: &GoalResult| Some(found.strict.upper? - found.strict.lower?);
    median(
        &search.runs.iter().filter_map(|run| apart(named(&run.found, goal)?)).collect::<Vec<f64>>(),
    )
}

/// Returns the unit of a rate that is a load.
pub(crate) fn unit_of_load(unit: LoadUnit) -> Unit {
    match unit {
        LoadUnit::Bits => Unit::BitPerSecond,
        LoadUnit::Frames => Unit::PacketPerSecond,
    }
}

fn named<'a>(found: &'a [GoalResult], goal: &str) -> Option<&'a GoalResult> {
    found.iter().find(|found| found.goal == goal)
}
