//! First screen of a campaign that compares arms: the relative change of the main figure, with its
//! status. It applies where all points belong to arms. A campaign with other points shows their
//! headline figure instead.

use linerate_analysis::compare::{Change, Effect};
use linerate_analysis::{Compared, Comparison, Headline, Study};
use linerate_model::{ARM_AXIS, metric};

use crate::commands::{Repeated, repeat_command};
use crate::curves::uncapitalised;
use crate::document::{Lead, NextStep};
use crate::effects::{change_parts, name, shift, verdict, word};
use crate::sections::comparison::{asked_for, main_figure, place};
use crate::words::count;

use super::measures;

/// Status of a comparison that noise leaves undecided.
const INCONCLUSIVE: &str = "inconclusive";
/// Fewest pairs that give an interval.
const LEAST_PAIRS: usize = 6;
/// Most comparisons on the first screen.
const MOST_SHOWN: usize = 4;

/// Returns the first screen if every point belongs to an arm; `argv` is the command of the
/// campaign.
pub(super) fn lead(study: &Study, argv: &[String], headline: Option<&Headline>) -> Option<Lead> {
    let mut points = study.points.iter().map(|point| &point.parameters);
    let mut searches = study.searches.iter().map(|search| &search.parameters);
    // A point outside the arms is a result of its own that the first screen may not hide.
    if !points.all(|point| point.contains_key(ARM_AXIS))
        || !searches.all(|point| point.contains_key(ARM_AXIS))
    {
        return None;
    }
    let comparisons = asked_for(study);
    let first = comparisons.first()?;
    let changes: Vec<Option<Change>> = comparisons
        .iter()
        .map(|comparison| main_figure(comparison).map(|main| main.effect.change))
        .collect();
    let status = status(&changes);
    let several = comparisons.len() > 1;
    let shown = comparisons.iter().skip(1).take(MOST_SHOWN - 1);
    let mut evidence: Vec<String> = shown.map(|comparison| clause(comparison, first)).collect();
    // The first one is the figure itself.
    if let Some(more) = comparisons.len().checked_sub(MOST_SHOWN).filter(|more| *more > 0) {
        evidence.push(format!("{} below", count(more, "more comparison")));
    }
    let at = if several { format!(" in {}", place(first)) } else { String::new() };
    let lead = Lead {
        surety: status,
        label: "Result",
        status: changes[0].map_or(INCONCLUSIVE, word),
        evidence,
        ..Lead::default()
    };
    // A comparison without a figure is still an answer.
    let Some(main) = main_figure(first) else {
        return Some(Lead {
            figure: "No figure".to_owned(),
            context: format!("for {}{at}", arms(first)),
            basis: vec!["no pair has two valid figures".to_owned()],
            ..lead
        });
    };
    let (value, interval, unit) = change_parts(main);
    let mut basis = vec![count(main.effect.n, "pair")];
    basis.extend(interval.map(|(low, high)| format!("95 % interval {low} to {high}{unit}")));
    // A settled comparison needs no repetition.
    let is_open = !is_settled(&changes);
    let next = is_open.then(|| more_pairs(&main.effect, argv));
    let next = next.into_iter().collect();
    let lead = Lead {
        figure: format!("{value}{unit}"),
        context: format!("{}, {}{at}", uncapitalised(&name(main)), arms(first)),
        basis,
        cost: cost(first, main),
        claim: Some(claim(first, main)),
        next,
        ..lead
    };
    // Of several comparisons the headline may be about another one.
    Some(measures::of_arms(lead, headline.filter(|_| !several), &first.sweep))
}

fn claim(comparison: &Comparison, main: &Compared) -> String {
    let (base, changed) = (&comparison.base.name, &comparison.changed.name);
    match main.effect.change {
        Change::Better => format!("{changed} is better than {base}"),
        Change::Worse => format!("{changed} is worse than {base}"),
        Change::None => format!("{changed} and {base} are equivalent"),
        Change::Unclear => verdict(&main.effect),
    }
}

/// Returns the change of the CPU cost, unless it is the main figure.
fn cost(comparison: &Comparison, main: &Compared) -> Option<String> {
    let is_cost = |figure: &&Compared| figure.metric == metric::CPU_SECONDS_PER_GIGABYTE;
    let figure = comparison.figures.iter().find(is_cost).filter(|_| !is_cost(&main))?;
    Some(format!("{} CPU seconds per gigabyte ({})", shift(figure), verdict(&figure.effect)))
}

/// Returns the number of pairs that would decide `effect`.
pub(crate) fn pairs_needed(effect: &Effect) -> usize {
    // The study has calculated it from the scatter; without that, twice the pairs. Fewer than six
    // give no interval, however clear they are.
    effect.needed.map_or(2 * effect.n, |needed| needed as usize).max(LEAST_PAIRS)
}

/// Returns the step after an inconclusive comparison: the same campaign with more pairs.
fn more_pairs(main: &Effect, argv: &[String]) -> NextStep {
    let pairs = pairs_needed(main);
    let command = repeat_command(argv, Repeated::Pairs, pairs);
    NextStep { text: format!("repeat with {pairs} pairs"), command }
}

/// Returns the status of the main figures' changes.
fn status(changes: &[Option<Change>]) -> &'static str {
    // One change is enough, but all must be equal for equivalence.
    match is_settled(changes) {
        true if changes.iter().all(|change| *change == Some(Change::None)) => "equivalent",
        true => "changed",
        false => INCONCLUSIVE,
    }
}

/// Returns true if a figure changed, or all are equal.
fn is_settled(changes: &[Option<Change>]) -> bool {
    let changed = |change: &Change| matches!(change, Change::Better | Change::Worse);
    changes.iter().flatten().any(changed)
        || changes.iter().all(|change| *change == Some(Change::None))
}

fn arms(comparison: &Comparison) -> String {
    format!("{} against {}", comparison.changed.name, comparison.base.name)
}

/// Returns the main figure of `comparison`, with its arms if they differ from those of `first`.
fn clause(comparison: &Comparison, first: &Comparison) -> String {
    // Arms that are the same everywhere are named once.
    let arms_of = if arms(comparison) == arms(first) {
        String::new()
    } else {
        format!("{}, ", arms(comparison))
    };
    let at = format!(" in {}", place(comparison));
    match main_figure(comparison) {
        None => format!("{arms_of}no pair has two valid figures{at}"),
        Some(main) => {
            let (name, pairs) = (uncapitalised(&name(main)), count(main.effect.n, "pair"));
            format!("{arms_of}{name} {}{at} ({}, {pairs})", shift(main), verdict(&main.effect))
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_analysis::compare::{Better, effect};
    use linerate_analysis::{Compared, PointStudy};
    use linerate_model::{Arm, Direction, Point, Ratio, Role};

    use super::*;

    /// `changed` against `wire` in `sweep`: goodput of 10 pairs that is multiplied by `ratio`, give
    /// or take `noise`.
    fn comparison(sweep: &str, changed: &str, ratio: f64, noise: f64) -> Comparison {
        let arm = |name: &str, role| Arm::new(name, role, Ratio(0.02));
        let wobble = |pair: usize| 1.0 + noise * ((pair * 7 % 10) as f64 / 4.5 - 1.0);
        let before: Vec<Option<f64>> =
            (0..10).map(|pair| Some(1e9 * (1.0 + 0.001 * pair as f64))).collect();
        let after: Vec<Option<f64>> = before
            .iter()
            .enumerate()
            .map(|(pair, value)| value.map(|value| value * ratio * wobble(pair)))
            .collect();
        let effect = effect("goodput tx", &before, &after, Better::More).expect("ten pairs");
        let figure = Compared::of(metric::GOODPUT, Direction::Tx, effect);
        Comparison {
            sweep: sweep.into(),
            parameters: Point::new(),
            base: arm("wire", Role::Base),
            changed: arm(changed, Role::Changed),
            placebo: None,
            figures: vec![figure],
        }
    }

    fn shown(comparisons: Vec<Comparison>) -> Lead {
        lead(&Study { comparisons, ..Study::default() }, &[], None).expect("arms were compared")
    }

    #[test]
    fn a_difference_has_its_size_interval_and_pairs() {
        let lead = shown(vec![comparison("stream", "device", 0.8, 0.0)]);
        assert_eq!((lead.surety, lead.figure.as_str()), ("changed", "-20.00 %"));
        assert_eq!(lead.context, "goodput tx, device against wire");
        assert_eq!(lead.basis, ["10 pairs", "95 % interval -20.00 to -20.00 %"]);
        assert_eq!(lead.claim.as_deref(), Some("device is worse than wire"));
        assert_eq!(lead.next, [], "the difference is known");
    }

    #[test]
    fn the_cost_changes_beside_the_main_figure_and_never_repeats_it() {
        let mut both = comparison("stream", "device", 0.8, 0.0);
        assert_eq!(shown(vec![both.clone()]).cost, None, "no cost was compared");
        let pairs = |value| vec![Some(value); 10];
        let dearer = effect("cost", &pairs(0.2), &pairs(0.3), Better::Less).expect("ten pairs");
        let cost = Compared::of(metric::CPU_SECONDS_PER_GIGABYTE, Direction::Sum, dearer);
        both.figures.push(cost.clone());
        let told = shown(vec![both]).cost;
        assert_eq!(
            told.as_deref(),
            Some("+50.00 [50.00, 50.00] % CPU seconds per gigabyte (worse)")
        );
        let mut alone = comparison("stream", "device", 0.8, 0.0);
        alone.figures = vec![cost];
        let alone = shown(vec![alone]);
        assert_eq!((alone.figure.as_str(), alone.cost), ("+50.00 %", None));
    }

    #[test]
    fn equivalent_and_inconclusive_are_two_results() {
        let same = shown(vec![comparison("stream", "device", 1.0, 0.001)]);
        assert_eq!(same.claim.as_deref(), Some("device and wire are equivalent"));
        let noisy = shown(vec![comparison("stream", "device", 1.0, 0.5)]);
        assert_eq!(noisy.status, "inconclusive");
        assert!(noisy.claim.is_some_and(|claim| claim.starts_with("inconclusive")));
        assert!(noisy.next[0].text.starts_with("repeat with "), "{:?}", noisy.next);
        let mut none = comparison("stream", "device", 1.0, 0.0);
        none.figures.clear();
        let none = shown(vec![none]);
        assert_eq!((none.surety, none.figure.as_str()), ("inconclusive", "No figure"));
    }

    #[test]
    fn the_next_step_repeats_the_command_of_the_campaign() {
        let argv = ["/usr/bin/linerate", "run", "my plan.toml"].map(str::to_owned);
        let study = Study {
            comparisons: vec![comparison("stream", "device", 1.0, 0.5)],
            ..Study::default()
        };
        let lead = lead(&study, &argv, None).expect("arms were compared");
        let command = lead.next[0].command.clone().expect("a run can be repeated");
        assert!(
            command.starts_with("linerate run 'my plan.toml' --set compare.pairs="),
            "{command}"
        );
    }

    #[test]
    fn further_comparisons_are_listed_with_their_places_and_arms() {
        let mut several: Vec<Comparison> =
            ["one", "two"].map(|sweep| comparison(sweep, "device", 0.8, 0.0)).into();
        several.push(comparison("three", "tuned", 1.2, 0.0));
        let lead_of_three = shown(several.clone());
        assert_eq!(lead_of_three.context, "goodput tx, device against wire in one");
        assert!(lead_of_three.evidence[0].contains("% in two ("), "{lead_of_three:?}");
        assert!(
            lead_of_three.evidence[1].starts_with("tuned against wire, goodput tx +20"),
            "{lead_of_three:?}"
        );
        several.extend(["four", "five"].map(|sweep| comparison(sweep, "device", 0.8, 0.0)));
        let last = shown(several).evidence.pop();
        assert_eq!(last.as_deref(), Some("1 more comparison below"));
        assert!(lead(&Study::default(), &[], None).is_none());
    }

    #[test]
    fn beside_points_without_arms_a_comparison_does_not_lead() {
        let point = |axis: &str| PointStudy {
            parameters: Point::from([(axis.to_owned(), serde_json::json!("wire"))]),
            ..PointStudy::default()
        };
        let study = |axis| Study {
            comparisons: vec![comparison("stream", "device", 0.8, 0.0)],
            points: vec![point(ARM_AXIS), point(axis)],
            ..Study::default()
        };
        assert!(lead(&study(ARM_AXIS), &[], None).is_some());
        assert!(lead(&study("streams"), &[], None).is_none());
    }
}
