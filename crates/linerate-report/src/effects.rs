//! How a compared figure is told: name, change with interval, verdict in words.

use linerate_analysis::Compared;
use linerate_analysis::compare::{Change, Doubt, Effect, Scale as Against};
use linerate_model::{Estimate, Layer};

use crate::curves::metric_title;
use crate::document::Cell;
use crate::number::{Scale, round_half_up};

/// Confidence of every interval here.
const CONFIDENCE: f64 = 0.95;

/// What was compared: metric, layer and direction.
pub(crate) fn name(figure: &Compared) -> String {
    let layer = figure
        .layer
        .filter(|layer| *layer != Layer::L4)
        .map_or(String::new(), |layer| format!(" {layer}"));
    format!("{}{layer} {}", metric_title(&figure.metric), figure.direction)
}

/// What changed, with its interval: per cent where there is a ratio, else in the figure's unit.
pub(crate) fn shift(figure: &Compared) -> String {
    let effect = &figure.effect;
    let told: &dyn Fn(f64) -> String = match effect.scale {
        Against::Ratio => &|ratio| round_half_up((ratio - 1.0) * 100.0, decimals(effect)),
        Against::Difference => &|difference| scale(figure).plain(difference),
    };
    let unit = match effect.scale {
        Against::Ratio => " %".to_owned(),
        Against::Difference => format!(" {}", scale(figure).symbol),
    };
    let sign =
        if told(effect.shift).starts_with('-') || told(effect.shift) == "0" { "" } else { "+" };
    let interval = effect
        .interval
        .map_or(String::new(), |(low, high)| format!(" [{}, {}]", told(low), told(high)));
    format!("{sign}{}{interval}{}", told(effect.shift), unit.trim_end())
}

/// Digits behind the point of a change in per cent: as many as its interval supports, and so many
/// that an end which is not zero does not read as zero where it decides.
fn decimals(effect: &Effect) -> usize {
    const MOST: usize = 4;
    let Some((low, high)) = effect.interval else { return 0 };
    let supported = match (high - low) * 100.0 {
        width if width < 0.5 => 2,
        width if width < 10.0 => 1,
        _ => 0,
    };
    if !matches!(effect.change, Change::Better | Change::Worse) {
        return supported;
    }
    let nearest = (low - 1.0).abs().min((high - 1.0).abs()) * 100.0;
    let is_seen = |digits: &usize| {
        round_half_up(nearest, *digits).bytes().any(|digit| (b'1'..=b'9').contains(&digit))
    };
    (supported..=MOST).find(is_seen).unwrap_or(MOST)
}

/// The unit both sides are told in.
pub(crate) fn scale(figure: &Compared) -> Scale {
    Scale::fit(&figure.metric, figure.unit, [figure.effect.before, figure.effect.after])
}

/// What became of it, in words.
pub(crate) fn verdict(effect: &Effect) -> String {
    match (effect.change, effect.interval, effect.needed) {
        (Change::Better, ..) => "better".into(),
        (Change::Worse, ..) => "worse".into(),
        (Change::None, ..) => "equivalent".into(),
        (Change::Unclear, ..) if effect.doubt == Some(Doubt::Noise) => {
            "inconclusive: below the noise".into()
        }
        (Change::Unclear, _, needed) if effect.doubt == Some(Doubt::Chance) => {
            let of_what = if effect.runs.is_some() { "runs of each" } else { "pairs" };
            let enough = needed
                .map_or_else(String::new, |needed| format!("; {needed} {of_what} would be enough"));
            format!("inconclusive: among so many figures it may be chance{enough}")
        }
        (Change::Unclear, ..) if effect.doubt == Some(Doubt::Others) => {
            "inconclusive: other programs used the CPUs too".into()
        }
        (Change::Unclear, None, _) if effect.runs.is_some() => {
            "inconclusive: four runs of each are the fewest for an interval".into()
        }
        (Change::Unclear, None, _) => {
            "inconclusive: six pairs are the fewest for an interval".into()
        }
        (Change::Unclear, _, Some(needed)) if effect.runs.is_some() => {
            format!("inconclusive: about {needed} runs of each would tell")
        }
        (Change::Unclear, _, Some(needed)) => {
            format!("inconclusive: about {needed} pairs would tell")
        }
        (Change::Unclear, ..) => "inconclusive".into(),
    }
}

/// What got worse first, then what got better, what cannot be told, and what did not change.
pub(crate) fn rank(change: Change) -> u8 {
    match change {
        Change::Worse => 0,
        Change::Better => 1,
        Change::Unclear => 2,
        Change::None => 3,
    }
}

/// After over before, with its interval.
pub(crate) fn ratio(effect: &Effect) -> Cell {
    if effect.scale == Against::Difference {
        return Cell::Missing("a value is zero".into());
    }
    Cell::Estimate(Estimate {
        value: effect.shift,
        low: effect.interval.map(|(low, _)| low),
        high: effect.interval.map(|(_, high)| high),
        confidence: effect.interval.map(|_| CONFIDENCE),
        n: u32::try_from(effect.n).unwrap_or(u32::MAX),
    })
}

/// After over before, less one, with its interval.
pub(crate) fn change(effect: &Effect) -> Cell {
    match ratio(effect) {
        Cell::Estimate(of) => Cell::Estimate(Estimate {
            value: of.value - 1.0,
            low: of.low.map(|low| low - 1.0),
            high: of.high.map(|high| high - 1.0),
            ..of
        }),
        other => other,
    }
}

/// What counts as no change.
pub(crate) fn margin(figure: &Compared) -> String {
    match figure.effect.scale {
        Against::Ratio => format!("{} %", round_half_up((figure.effect.margin - 1.0) * 100.0, 1)),
        Against::Difference => {
            let scale = scale(figure);
            format!("{} {}", scale.plain(figure.effect.margin), scale.symbol).trim_end().to_owned()
        }
    }
}
