//! The sentence of a campaign that sets arms against each other: what one changed against the other
//! and by how much, or that it is inconclusive. Whoever asked for a comparison and nothing else
//! asked for that, and not for the better arm's figure or for what limits it. Where other points
//! were measured as well, the sentence is theirs.

use linerate_analysis::compare::Change;
use linerate_analysis::{Comparison, Study};
use linerate_model::ARM_AXIS;

use crate::curves::uncapitalised;
use crate::document::Lead;
use crate::effects::{name, shift, verdict};
use crate::sections::comparison::{asked_for, main_figure, place};
use crate::words::count;

/// Comparisons told in one sentence, at most.
const MOST_TOLD: usize = 4;

/// The sentence, if arms are compared for their own sake and nothing else is measured.
pub(super) fn lead(study: &Study) -> Option<Lead> {
    let mut points = study.points.iter().map(|point| &point.parameters);
    let mut searches = study.searches.iter().map(|search| &search.parameters);
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
    let (surety, opening) = standing(&changes);
    let clauses: Vec<String> = comparisons
        .iter()
        .take(MOST_TOLD)
        .map(|comparison| clause(comparison, first, comparisons.len()))
        .collect();
    let rest = match comparisons.len().saturating_sub(MOST_TOLD) {
        0 => String::new(),
        more => format!("; and {} below", count(more, "more comparison")),
    };
    let text = format!("{}: {opening}{}{rest}.", arms(first), clauses.join("; "));
    Some(Lead { surety, text })
}

/// What the main figures' changes amount to: how sure that is, and how the sentence opens.
fn standing(changes: &[Option<Change>]) -> (&'static str, &'static str) {
    let are = |wanted: &[Change]| {
        changes.iter().all(|change| change.is_some_and(|change| wanted.contains(&change)))
    };
    if changes.iter().flatten().any(|change| matches!(change, Change::Better | Change::Worse)) {
        ("changed", "")
    } else if are(&[Change::None]) {
        ("equivalent", "equivalent, ")
    } else {
        ("inconclusive", "inconclusive, ")
    }
}

fn arms(comparison: &Comparison) -> String {
    format!("{} against {}", comparison.changed.name, comparison.base.name)
}

/// The main figure of `comparison`, where it is one of `n`, and whose arms if they are others than
/// those of `first`.
fn clause(comparison: &Comparison, first: &Comparison, n: usize) -> String {
    let whose = if arms(comparison) == arms(first) {
        String::new()
    } else {
        format!("{}, ", arms(comparison))
    };
    let at = if n > 1 { format!(" in {}", place(comparison)) } else { String::new() };
    match main_figure(comparison) {
        None => format!("{whose}no pair has two figures{at}"),
        Some(main) => {
            let (name, pairs) = (uncapitalised(&name(main)), count(main.effect.n, "pair"));
            format!("{whose}{name} {}{at} ({}, {pairs})", shift(main), verdict(&main.effect))
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_analysis::compare::{Better, effect};
    use linerate_analysis::{Compared, PointStudy};
    use linerate_model::{Arm, Direction, Layer, Point, Ratio, Role, Unit};

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
        let figure = Compared {
            job: 0,
            metric: "goodput".into(),
            unit: Unit::BitPerSecond,
            layer: Some(Layer::L4),
            direction: Direction::Tx,
            effect: effect("goodput tx", &before, &after, Better::More).expect("ten pairs"),
            placebo: None,
            p_adjusted: None,
            pairs: 10,
            found: Vec::new(),
        };
        Comparison {
            sweep: sweep.into(),
            parameters: Point::new(),
            base: arm("wire", Role::Base),
            changed: arm(changed, Role::Changed),
            placebo: None,
            figures: vec![figure],
        }
    }

    fn told(comparisons: Vec<Comparison>) -> Lead {
        lead(&Study { comparisons, ..Study::default() }).expect("arms were compared")
    }

    #[test]
    fn a_difference_is_told_with_its_size_interval_and_pairs() {
        let told = told(vec![comparison("stream", "device", 0.8, 0.0)]);
        assert_eq!(told.surety, "changed");
        assert_eq!(
            told.text,
            "device against wire: goodput tx -20.00 [-20.00, -20.00] % (worse, 10 pairs)."
        );
    }

    #[test]
    fn no_difference_and_not_knowing_are_two_things() {
        let same = told(vec![comparison("stream", "device", 1.0, 0.001)]);
        assert_eq!(same.surety, "equivalent");
        assert!(
            same.text.starts_with("device against wire: equivalent, goodput tx "),
            "{}",
            same.text
        );
        let noisy = told(vec![comparison("stream", "device", 1.0, 0.5)]);
        assert_eq!(noisy.surety, "inconclusive");
        assert!(noisy.text.contains(": inconclusive, goodput tx "), "{}", noisy.text);
        assert!(noisy.text.contains("(inconclusive"), "{}", noisy.text);
        let mut none = comparison("stream", "device", 1.0, 0.0);
        none.figures.clear();
        let none = told(vec![none]);
        assert_eq!(none.surety, "inconclusive");
        assert!(none.text.ends_with("inconclusive, no pair has two figures."), "{}", none.text);
    }

    #[test]
    fn several_comparisons_are_told_by_their_places_and_other_arms_by_name() {
        let mut several: Vec<Comparison> =
            ["one", "two"].map(|sweep| comparison(sweep, "device", 0.8, 0.0)).into();
        several.push(comparison("three", "tuned", 1.2, 0.0));
        let text = told(several.clone()).text;
        assert!(
            text.starts_with(
                "device against wire: goodput tx -20.00 [-20.00, -20.00] % in one \
                (worse, 10 pairs); "
            ),
            "{text}"
        );
        assert!(
            text.contains("% in two (") && text.contains("; tuned against wire, goodput tx +20"),
            "{text}"
        );
        several.extend(["four", "five"].map(|sweep| comparison(sweep, "device", 0.8, 0.0)));
        assert!(told(several).text.ends_with("; and 1 more comparison below."));
        assert!(lead(&Study::default()).is_none());
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
        assert!(lead(&study(ARM_AXIS)).is_some());
        assert!(lead(&study("streams")).is_none());
    }
}
