//! Words for a compared figure: name, change with interval, status.

use linerate_analysis::Compared;
use linerate_analysis::compare::{Change, Doubt, Effect, Scale as Against};
use linerate_model::{Estimate, Layer};

use crate::document::Cell;
use crate::number::{Scale, round_half_up};

/// Confidence of every interval here.
const CONFIDENCE: f64 = 0.95;

/// Returns the name of a compared figure: metric, layer and direction.
pub(crate) fn name(figure: &Compared) -> String {
    let layer = figure
        .layer
        // L4 is the usual layer of rates, and naming it everywhere would hide the others.
        .filter(|layer| *layer != Layer::L4)
        .map_or(String::new(), |layer| format!(" {layer}"));
    format!("{}{layer} {}", figure.metric.title(), figure.direction)
}

/// Returns the change with its interval: in per cent where there is a ratio, else in the figure's
/// unit.
pub(crate) fn shift(figure: &Compared) -> String {
    let (value, interval, unit) = change_parts(figure);
    let interval = interval.map_or(String::new(), |(low, high)| format!(" [{low}, {high}]"));
    format!("{value}{interval}{unit}")
}

/// Returns the change, the ends of its interval, and the unit of both with a space before it.
pub(crate) fn change_parts(figure: &Compared) -> (String, Option<(String, String)>, String) {
    let effect = &figure.effect;
    let unit = match effect.scale {
        Against::Ratio => " %".to_owned(),
        Against::Difference => format!(" {}", scale(figure).symbol).trim_end().to_owned(),
    };
    let value = change_text(figure, effect.shift);
    // Zero has no direction.
    let sign = if value.starts_with('-') || value == "0" { "" } else { "+" };
    let shown = |change: f64| change_text(figure, change);
    let interval = effect.interval.map(|(low, high)| (shown(low), shown(high)));
    (format!("{sign}{value}"), interval, unit)
}

/// Returns the text of a change of `figure`, without its unit.
fn change_text(figure: &Compared, change: f64) -> String {
    match figure.effect.scale {
        Against::Ratio => round_half_up((change - 1.0) * 100.0, decimals(&figure.effect)),
        Against::Difference => scale(figure).plain(change),
    }
}

/// Returns the decimal places of a change in per cent: as many as its interval supports, and enough
/// that a decisive end of the interval does not read as zero.
fn decimals(effect: &Effect) -> usize {
    const MOST: usize = 4;
    let Some((low, high)) = effect.interval else { return 0 };
    let supported = match (high - low) * 100.0 {
        width if width < 0.5 => 2,
        width if width < 10.0 => 1,
        _ => 0,
    };
    // Only a claimed change needs enough digits to show that its interval excludes zero.
    if !matches!(effect.change, Change::Better | Change::Worse) {
        return supported;
    }
    let nearest = (low - 1.0).abs().min((high - 1.0).abs()) * 100.0;
    let is_seen = |digits: &usize| {
        round_half_up(nearest, *digits).bytes().any(|digit| (b'1'..=b'9').contains(&digit))
    };
    // The fewest digits that still show the decisive end.
    (supported..=MOST).find(is_seen).unwrap_or(MOST)
}

/// Returns the scale for `values` of a compared figure.
pub(crate) fn scale_of(figure: &Compared, values: impl IntoIterator<Item = f64>) -> Scale {
    match figure.metric.metric() {
        Some(metric) => Scale::of(metric, values),
        None => Scale::fit(figure.unit, values),
    }
}

/// Returns the common unit of both sides.
pub(crate) fn scale(figure: &Compared) -> Scale {
    scale_of(figure, [figure.effect.before, figure.effect.after])
}

/// Returns the status of a change in words.
pub(crate) fn verdict(effect: &Effect) -> String {
    match (effect.change, effect.interval, effect.needed) {
        (Change::Better, ..) => "better".into(),
        (Change::Worse, ..) => "worse".into(),
        (Change::None, ..) => "equivalent".into(),
        (Change::Unclear, ..) if effect.doubt == Some(Doubt::Noise) => {
            "inconclusive: within noise".into()
        }
        (Change::Unclear, _, needed) if effect.doubt == Some(Doubt::Chance) => {
            let of_what = if effect.runs.is_some() { "runs of each" } else { "pairs" };
            let enough = needed
                .map_or_else(String::new, |needed| format!("; {needed} {of_what} would decide"));
            format!("inconclusive: with this many figures it may be chance{enough}")
        }
        (Change::Unclear, ..) if effect.doubt == Some(Doubt::Others) => {
            "inconclusive: other programs used the CPUs".into()
        }
        (Change::Unclear, None, _) if effect.runs.is_some() => {
            "inconclusive: an interval needs at least four runs of each".into()
        }
        (Change::Unclear, None, _) => "inconclusive: an interval needs at least six pairs".into(),
        (Change::Unclear, _, Some(needed)) if effect.runs.is_some() => {
            format!("inconclusive: about {needed} runs of each would decide")
        }
        (Change::Unclear, _, Some(needed)) => {
            format!("inconclusive: about {needed} pairs would decide")
        }
        (Change::Unclear, ..) => "inconclusive".into(),
    }
}

/// Returns the status word of a change.
pub(crate) const fn word(change: Change) -> &'static str {
    match change {
        Change::Better => "better",
        Change::Worse => "worse",
        Change::None => "equivalent",
        Change::Unclear => "inconclusive",
    }
}

/// Returns the order of a change in lists: worse, better, inconclusive, equivalent.
pub(crate) fn rank(change: Change) -> u8 {
    match change {
        // Losses come first: an improvement elsewhere does not undo them.
        Change::Worse => 0,
        Change::Better => 1,
        Change::Unclear => 2,
        Change::None => 3,
    }
}

/// Returns after over before, with its interval.
pub(crate) fn ratio(effect: &Effect) -> Cell {
    // With a zero on one side there is no ratio.
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

/// Returns after over before minus one, with its interval.
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

/// Returns the margin within which two figures are equivalent.
pub(crate) fn margin(figure: &Compared) -> String {
    match figure.effect.scale {
        Against::Ratio => format!("{} %", round_half_up((figure.effect.margin - 1.0) * 100.0, 1)),
        Against::Difference => {
            let scale = scale(figure);
            format!("{} {}", scale.plain(figure.effect.margin), scale.symbol).trim_end().to_owned()
        }
    }
}
