//! Results of the searches of one campaign compared with those of another.
//!
//! Searches are matched by sweep and coordinate, their goals by definition. The lower bound of each
//! run is compared. The distance between the bounds is the resolution of a search: a smaller
//! difference is none, however few the runs (docs/methodology/searches.md#results, S5.5). A bound
//! set by the tester rather than the device is not a figure.

use linerate_model::{Direction, Validity};

use super::effect::floor;
use super::points::{PointChange, Unmatched};
use super::{Better, Change, Effect, Margin, effect_of_runs};
use crate::study::{
    Compared, ComparedFigure, GoalStudy, SearchStudy, Study, lower_bounds, search_step,
    unit_of_load,
};

/// Returns every search that both campaigns have, goal by goal.
pub(super) fn searches(
    before: &Study,
    after: &Study,
    again: Option<&Study>,
    margin: f64,
) -> Vec<PointChange> {
    let again = |is| again.and_then(|study| same(study, is));
    let both = after.searches.iter().filter_map(|is| Some((same(before, is)?, is)));
    both.filter_map(|(was, is)| change(was, is, again(is), margin)).collect()
}

/// Returns the changes of the goals of a search from `was` to `is`, which `again` repeats, if any
/// can be compared.
fn change(
    was: &SearchStudy,
    is: &SearchStudy,
    again: Option<&SearchStudy>,
    margin: f64,
) -> Option<PointChange> {
    let goals = is.goals.iter().map(|goal| &goal.goal.name);
    let figures: Vec<Compared> =
        goals.filter_map(|goal| compared(goal, [Some(was), Some(is), again], margin)).collect();
    // Nothing can be compared where one of them found no bound at all.
    // An empty point would claim that the searches agree.
    (!figures.is_empty()).then(|| PointChange {
        sweep: is.sweep.clone(),
        parameters: is.parameters.clone(),
        jobs: vec![format!("{} {} to {} (search)", is.workload, is.from, is.to)],
        figures,
        validity: [was, is].map(validity),
    })
}

/// Returns the searches that both campaigns have and for which one side found no bound of any goal,
/// so that no comparison is possible.
pub(super) fn without_bound(before: &Study, after: &Study) -> Vec<Unmatched> {
    let mut without_bound = Vec::new();
    for is in &after.searches {
        let Some(was) = same(before, is) else { continue };
        for (side, _) in [was, is].into_iter().enumerate().filter(|(_, one)| !has_bound(one)) {
            let (sweep, parameters) = (is.sweep.clone(), is.parameters.clone());
            without_bound.push(Unmatched { side, sweep, parameters });
        }
    }
    without_bound
}

/// Returns whether any run of `search` found a lower bound.
fn has_bound(search: &SearchStudy) -> bool {
    let mut bounds = search.goals.iter().flat_map(|goal| lower_bounds(search, &goal.goal.name));
    // An infinite bound means that no rate failed within the range, which is a limit of the tester.
    bounds.any(|bound| bound.is_some_and(f64::is_finite))
}

/// Searches that only one campaign has, or that ask something else.
pub(super) fn unmatched(side: usize, study: &Study, other: &Study) -> Vec<Unmatched> {
    let alone = study.searches.iter().filter(|search| same(other, search).is_none());
    alone
        .map(|one| Unmatched { side, sweep: one.sweep.clone(), parameters: one.parameters.clone() })
        .collect()
}

/// Returns the search of `study` that asks what `search` does.
fn same<'a>(study: &'a Study, search: &SearchStudy) -> Option<&'a SearchStudy> {
    study.searches.iter().find(|other| asks_alike(other, search))
}

fn asks_alike(a: &SearchStudy, b: &SearchStudy) -> bool {
    (&a.sweep, &a.parameters, &a.workload) == (&b.sweep, &b.parameters, &b.workload)
        && (&a.search.parameter, a.search.unit) == (&b.search.parameter, b.search.unit)
        && a.goals.len() == b.goals.len()
        && a.goals.iter().zip(&b.goals).all(|(a, b)| is_same_goal(a, b))
}

/// Returns whether two goals are one. Goals of one name may differ between plans: another loss
/// ratio or duration is another question.
fn is_same_goal(a: &GoalStudy, b: &GoalStudy) -> bool {
    let (a, b) = (&a.goal, &b.goal);
    a.name == b.name
        && (a.loss_ratio, a.exceed_ratio) == (b.loss_ratio, b.exceed_ratio)
        && (a.final_trial, a.duration_sum) == (b.final_trial, b.duration_sum)
}

fn validity(search: &SearchStudy) -> Validity {
    let is_regular = search.runs.iter().all(|run| run.found.iter().all(|found| found.regular));
    if is_regular { Validity::Valid } else { Validity::Suspect }
}

/// One goal before, after and again.
fn compared(goal: &str, searches: [Option<&SearchStudy>; 3], margin: f64) -> Option<Compared> {
    let bounds = searches.map(|search| search.map(|search| lower_bounds(search, goal)));
    let step = searches
        .into_iter()
        .flatten()
        .filter_map(|search| search_step(search, goal))
        // The coarser search of the compared ones sets the resolution.
        .fold(0.0, f64::max);
    let [Some(was), Some(is), again] = &bounds else { return None };
    let metric = ComparedFigure::LoadAt(goal.to_owned());
    let name = metric.to_string();
    let margin = Margin { relative: margin, step, ..Margin::default() };
    let effect = effect_of_runs(&name, was, is, Better::More, margin)?;
    let placebo =
        again.as_ref().and_then(|again| effect_of_runs(&name, was, again, Better::More, margin));
    let effect = match (&placebo, floor(effect.scale, [was, is])) {
        // A measured repetition of the first campaign is a better noise floor than the scatter
        // within each campaign.
        (Some(placebo), _) => effect.above_noise(placebo),
        (None, Some(floor)) => effect.above_floor(floor),
        (None, None) => effect,
    };
    Some(Compared {
        job: 0,
        unit: unit_of_load(searches[1]?.search.unit),
        layer: None,
        direction: Direction::Tx,
        effect: within_a_step(effect, step),
        placebo,
        p_adjusted: None,
        pairs: was.len().min(is.len()),
        found: Vec::new(),
        metric,
    })
}

/// Handles runs too few for an interval: they are equal if no two of them differ by more than a
/// step.
fn within_a_step(effect: Effect, step: f64) -> Effect {
    let resolution = match effect.scale {
        super::Scale::Ratio => 1.0 + step / effect.before.min(effect.after),
        super::Scale::Difference => step,
    };
    let is_none = effect.interval.is_none() && effect.widest <= resolution;
    if is_none { Effect { change: Change::None, needed: None, ..effect } } else { effect }
}

#[cfg(test)]
mod tests {
    use linerate_model::{Goal, Method, Nanos, Search};

    use super::*;
    use crate::search::Bounds;
    use crate::study::{GoalResult, SearchRun};

    fn goal() -> Goal {
        Goal::strict("NDR", 0.01, Nanos::from_secs(1))
    }

    /// Searches that found these bounds, each up to the next step of 1 000 frames a second.
    fn study(lower: &[f64], asked: Goal) -> Study {
        let method = Method::Halving { goal: asked.clone(), repeats: 0 };
        let search = Search::of_rates([1.0, 1e6], "the plan", method);
        let run = |(repeat, lower): (u32, &f64)| {
            let bounds =
                Bounds { lower: Some(*lower), upper: Some(lower + 1_000.0), ..Bounds::default() };
            let found = GoalResult {
                goal: "NDR".into(),
                strict: bounds,
                untainted: bounds,
                regular: true,
                at_least: false,
                withheld: None,
            };
            SearchRun { repeat, max: 1e6, found: vec![found], ..SearchRun::default() }
        };
        let goals = vec![GoalStudy {
            goal: asked,
            n_regular: lower.len(),
            lower: None,
            upper: None,
            conditional_throughput: None,
            range: None,
        }];
        let found = SearchStudy {
            sweep: "zero loss".into(),
            parameters: linerate_model::Point::new(),
            workload: "frames".into(),
            from: "a".into(),
            to: "b".into(),
            search,
            line: None,
            goals,
            runs: (0..).zip(lower).map(run).collect(),
        };
        Study { searches: vec![found], ..Study::default() }
    }

    fn change(before: &[f64], after: &[f64]) -> Change {
        let changes = searches(&study(before, goal()), &study(after, goal()), None, 0.001);
        changes[0].figures[0].effect.change
    }

    /// With one search each, a difference within a step is none, and a larger one is undecided.
    #[test]
    fn a_difference_below_the_step_is_none() {
        assert_eq!(change(&[50_000.0], &[50_900.0]), Change::None);
        assert_eq!(change(&[50_000.0], &[52_000.0]), Change::Unclear);
        let (before, after) = (
            [50_000.0, 50_100.0, 49_900.0, 50_000.0, 50_200.0],
            [50_800.0, 50_900.0, 50_700.0, 50_800.0, 50_600.0],
        );
        assert_eq!(
            change(&before, &after),
            Change::None,
            "it is beyond the margin and the noise, and below the step"
        );
        assert_eq!(change(&before, &before.map(|bound| bound * 0.9)), Change::Worse);
        assert_eq!(
            searches(&study(&[], goal()), &study(&[5e4], goal()), None, 0.02),
            [],
            "nothing was found before"
        );
    }

    #[test]
    fn what_a_search_did_not_find_is_told_by_side() {
        let sides = |before: &[f64], after: &[f64]| -> Vec<usize> {
            let found = without_bound(&study(before, goal()), &study(after, goal()));
            found.into_iter().map(|one| one.side).collect()
        };
        assert_eq!(sides(&[5e4], &[5e4]), Vec::<usize>::new());
        assert_eq!(sides(&[], &[5e4]), [0]);
        assert_eq!(sides(&[], &[]), [0, 1]);
        let other = study(&[], Goal { loss_ratio: 0.005, ..goal() });
        assert_eq!(without_bound(&study(&[], goal()), &other), [], "it is not the same search");
    }

    #[test]
    fn searches_that_ask_something_else_are_not_compared() {
        let (before, after) =
            (study(&[5e4], goal()), study(&[5e4], Goal { loss_ratio: 0.005, ..goal() }));
        assert_eq!(searches(&before, &after, None, 0.02), []);
        assert_eq!(
            (unmatched(0, &before, &after).len(), unmatched(1, &after, &before).len()),
            (1, 1)
        );
        assert_eq!(unmatched(0, &before, &before), []);
    }
}
