//! Classification of a series by whether and how it settles: the classes of Barrett et al. (OOPSLA
//! 2017) over change points, and two of our own (docs/methodology/repeats.md#steady-state).
//!
//! For rates, where more is better. A series has settled if its last level covers the last quarter.
//! Short departures from one level, such as a stall, are a class of their own. A series that does
//! not settle has no single number; its levels are reported instead. Not covered: cycles shorter
//! than two readings, and anything after the end.

use serde::{Deserialize, Serialize};

use super::change_points::{change_points, pieces};
use super::correlation::drifts;
use super::spread::mean;
use super::warmup::mser;

/// Least number of readings for a classification.
const ENOUGH: usize = 10;
/// Share of the series for which the last level must hold.
const SETTLED: f64 = 0.25;
/// Share of the series that departures may take together.
const BRIEF: f64 = 0.1;
/// Difference of the halves of a series below which a drift does not matter.
const LEAST_DRIFT: f64 = 0.05;

/// Classes of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// One level throughout.
    Steady,
    /// One level, left for a tenth of the time or less.
    Interrupted,
    /// The last level holds, and none before was higher.
    WarmsUp,
    /// The last level holds, and one before was higher.
    SlowsDown,
    /// Every change goes the same way, up to the end.
    Drifts,
    /// Changes up to the end, both ways.
    NeverSettles,
}

impl Class {
    /// Returns the class as reported.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Interrupted => "interrupted",
            Self::WarmsUp => "warms up",
            Self::SlowsDown => "slows down",
            Self::Drifts => "drifts",
            Self::NeverSettles => "never settles",
        }
    }

    /// Returns whether one number may represent such a series.
    #[must_use]
    pub const fn has_single_number(self) -> bool {
        matches!(self, Self::Steady | Self::Interrupted | Self::WarmsUp)
    }
}

/// A stretch of readings of one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Its first reading.
    pub from: usize,
    /// The first reading after it.
    pub to: usize,
    /// Mean of its readings.
    pub value: f64,
}

impl Level {
    fn len(&self) -> usize {
        self.to - self.from
    }
}

/// Class and levels of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Settling {
    /// Its class.
    pub class: Class,
    /// Its levels in order of time, without gaps; of a drift without a step, its halves.
    pub levels: Vec<Level>,
}

/// Returns the classification of `series`; `None` below ten readings or if one is not finite.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::{Class, settling};
///
/// // One reading per second: five seconds at 10 Mbit/s, then twenty at 100 Mbit/s.
/// let series: Vec<f64> = [vec![10.0; 5], vec![100.0; 20]].concat();
/// let found = settling(&series).expect("ten readings or more");
/// assert_eq!(found.class, Class::WarmsUp);
/// assert_eq!(found.levels.last().expect("a level").value, 100.0);
/// ```
#[must_use]
pub fn settling(series: &[f64]) -> Option<Settling> {
    if series.len() < ENOUGH || series.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let levels = levels(series, &change_points(series));
    if levels.len() == 1 {
        // A drift has no step to cut at; its halves show how far it went.
        let halves = || self::levels(series, &[series.len() / 2]);
        let drifting = is_drifting(series);
        return Some(if drifting {
            Settling { class: Class::Drifts, levels: halves() }
        } else {
            Settling { class: Class::Steady, levels }
        });
    }
    let brief = departures(&levels, series.len());
    // Departures are examined first: a stall in the middle would otherwise read as a series that
    // never settles.
    let class = if is_level_without(series, &levels, &brief) {
        Class::Interrupted
    } else {
        class_of(&levels, &brief)
    };
    Some(Settling { class, levels })
}

fn levels(series: &[f64], cuts: &[usize]) -> Vec<Level> {
    let pieces = pieces(series.len(), cuts).into_iter();
    pieces
        .map(|piece| Level {
            value: mean(&series[piece.clone()]).unwrap_or(0.0),
            from: piece.start,
            to: piece.end,
        })
        .collect()
}

/// Returns whether a series without a step rises or falls from beginning to end: cutting its
/// beginning does not help (MSER), its readings are ordered (Spearman), and its halves differ.
fn is_drifting(series: &[f64]) -> bool {
    let (early, late) = series.split_at(series.len() / 2);
    let (Some(early), Some(late)) = (mean(early), mean(late)) else { return false };
    let apart = (late - early).abs() > LEAST_DRIFT * early.abs();
    // All three tests must agree, because each alone reports noise now and then.
    apart && mser(series).is_some_and(|cut| cut.at_limit) && drifts(series).is_some()
}

/// Returns the levels that are departures: short ones above or below both neighbours, or at the
/// end. Empty if they are more than a tenth together.
fn departures(levels: &[Level], n: usize) -> Vec<usize> {
    let most = BRIEF * n as f64;
    let brief: Vec<usize> = (0..levels.len())
        .filter(|number| levels[*number].len() as f64 <= most)
        .filter(|number| is_departure(levels, *number))
        .collect();
    let together: usize = brief.iter().map(|number| levels[*number].len()).sum();
    // Many short departures are no exception any more but the behaviour itself.
    if together as f64 <= most { brief } else { Vec::new() }
}

/// Returns whether the level `number` is left again in the direction it came from.
fn is_departure(levels: &[Level], number: usize) -> bool {
    let value = levels[number].value;
    let before = number.checked_sub(1).map(|before| levels[before].value);
    match (before, levels.get(number + 1)) {
        (Some(before), Some(after)) => (value < before) == (value < after.value),
        // A short level at the beginning is a warm-up and no departure.
        (before, after) => before.is_some() && after.is_none(),
    }
}

/// Returns whether `series` has one level without the departures `brief`.
fn is_level_without(series: &[f64], levels: &[Level], brief: &[usize]) -> bool {
    let kept = levels.iter().enumerate().filter(|(number, _)| !brief.contains(number));
    let rest: Vec<f64> =
        kept.flat_map(|(_, level)| &series[level.from..level.to]).copied().collect();
    !brief.is_empty() && change_points(&rest).is_empty()
}

fn class_of(levels: &[Level], brief: &[usize]) -> Class {
    let kept: Vec<&Level> = levels
        .iter()
        .enumerate()
        .filter(|(number, _)| !brief.contains(number))
        .map(|(_, level)| level)
        .collect();
    let n = levels.last().map_or(0, |level| level.to);
    let Some((last, before)) = kept.split_last() else { return Class::NeverSettles };
    if last.len() as f64 >= SETTLED * n as f64 {
        let was_higher = before.iter().any(|level| level.value > last.value);
        return if was_higher { Class::SlowsDown } else { Class::WarmsUp };
    }
    let rises = kept.windows(2).filter(|two| two[1].value > two[0].value).count();
    // Levels in one direction up to the end never arrived anywhere.
    if rises == 0 || rises == before.len() { Class::Drifts } else { Class::NeverSettles }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::intel;
    use crate::statistics::oracle::noise;

    fn class(series: &[f64]) -> Class {
        settling(series).expect("it is long enough").class
    }

    /// `noise` about each of these levels, as many readings of each.
    fn stairs(levels: &[(f64, usize)]) -> Vec<f64> {
        let n = levels.iter().map(|(_, n)| n).sum();
        let base = levels.iter().flat_map(|(value, n)| std::iter::repeat_n(*value, *n));
        base.zip(noise(n, 0.0, 5)).map(|(level, noise)| level + noise).collect()
    }

    /// docs/methodology/repeats.md#steady-state and docs/methodology/papers.md#printed-figures
    /// (E1.h): one falls, one is zero for four seconds; of the others four leave their level for
    /// two or three seconds.
    #[test]
    fn intel_series_are_of_the_class_of_the_reference() {
        let of = |name: &str| class(&intel::values(name));
        assert_eq!(of("11.1.1 default RHEL | B2 bi N2B"), Class::SlowsDown);
        assert_eq!(of("11.2.2 modified WIN | B1 bi N2B"), Class::Interrupted);
        let classes: Vec<Class> =
            intel::all().values().map(|series| class(&series.values)).collect();
        let count = |of: Class| classes.iter().filter(|class| **class == of).count();
        assert_eq!(
            (count(Class::Steady), count(Class::Interrupted), count(Class::SlowsDown)),
            (26, 5, 1)
        );
    }

    #[test]
    fn each_class_has_a_series() {
        assert_eq!(class(&stairs(&[(100.0, 60)])), Class::Steady);
        assert_eq!(class(&stairs(&[(60.0, 20), (100.0, 40)])), Class::WarmsUp);
        assert_eq!(class(&stairs(&[(100.0, 20), (60.0, 40)])), Class::SlowsDown);
        assert_eq!(class(&stairs(&[(60.0, 20), (100.0, 10), (80.0, 30)])), Class::SlowsDown);
        assert_eq!(
            class(&stairs(&[(100.0, 15), (80.0, 15), (60.0, 20), (40.0, 10)])),
            Class::Drifts
        );
        assert_eq!(
            class(&stairs(&[(100.0, 15), (60.0, 15), (100.0, 20), (60.0, 10)])),
            Class::NeverSettles
        );
        assert_eq!(class(&stairs(&[(100.0, 30), (0.0, 4), (100.0, 26)])), Class::Interrupted);
        assert_eq!(class(&stairs(&[(100.0, 57), (60.0, 3)])), Class::Interrupted);
        assert_eq!(
            class(&stairs(&[(20.0, 4), (100.0, 56)])),
            Class::WarmsUp,
            "a short beginning is a warm-up"
        );
    }

    #[test]
    fn a_slope_without_a_step_drifts() {
        let falling: Vec<f64> =
            (0..22).map(|i| 1000.0 - 5.0 * f64::from(i) - f64::from(i % 2)).collect();
        let found = settling(&falling).expect("long enough");
        assert_eq!(found.class, Class::Drifts, "{found:?}");
        let slight: Vec<f64> = (0..22).map(|i| 1000.0 + f64::from(i) / 10.0).collect();
        assert_eq!(class(&slight), Class::Steady);
    }

    #[test]
    fn levels_cover_the_series() {
        let found = settling(&stairs(&[(100.0, 20), (60.0, 40)])).expect("long enough");
        assert_eq!(
            found.levels.iter().map(|level| (level.from, level.to)).collect::<Vec<_>>(),
            [(0, 20), (20, 60)]
        );
        assert!((found.levels[1].value - 60.0).abs() < 0.5);
        assert_eq!(settling(&[1.0; 9]), None);
    }

    #[test]
    fn what_does_not_settle_has_no_single_number() {
        use Class::{Drifts, Interrupted, NeverSettles, SlowsDown, Steady, WarmsUp};
        assert!([Steady, Interrupted, WarmsUp].iter().all(|class| class.has_single_number()));
        assert!(![SlowsDown, Drifts, NeverSettles].iter().any(|class| class.has_single_number()));
    }

    /// Twelve batches of five intervals, as a trial of six seconds has.
    #[test]
    fn scatter_is_seldom_called_anything_but_steady() {
        let wrong = (0..300).filter(|seed| {
            let series: Vec<f64> = noise(12, 0.0, *seed).iter().map(|x| 100.0 + 20.0 * x).collect();
            class(&series) != Class::Steady
        });
        let wrong = wrong.count();
        assert!(wrong <= 9, "{wrong} of 300");
    }
}
