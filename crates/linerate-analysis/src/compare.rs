//! Two arms compared, pair by pair: a change against none, and nothing against nothing (methodology 6.6, 6.7, 5.3).
//!
//! Ratios are compared as logarithms: the typical ratio is the Hodges-Lehmann estimate, its interval that of the signed-rank
//! distribution. Where a value is zero (losses, mostly) there is no ratio, and differences are compared. A difference within the
//! margin is none; the margin is never below the resolution of the figure. One that single pairs of a placebo reach is below noise. A change is
//! *proven* only if it moves the figure by at least 10 % and three times the noise floor, and a placebo does not.
//!
//! What it does not see: whether two things changed at once (the conductor interleaves so that drift hits both alike).

use linerate_model::Verdict;
use serde::{Deserialize, Serialize};

use crate::statistics::{Shift, log_ratio_shift, median, paired_shift, quantile};

/// The least effect that counts as proof (methodology 5.3).
const PROOF_RATIO: f64 = 1.1;
/// Times the noise floor that an effect must reach (methodology 5.3).
const PROOF_FLOORS: f64 = 3.0;
/// A change smaller than this is none (methodology 6.6).
const MARGIN: f64 = 0.02;
/// The noise floor is this quantile of what single pairs of nothing against nothing differ by (methodology 6.7).
const FLOOR_QUANTILE: f64 = 0.95;
/// More pairs than this are not asked for.
const MOST_PAIRS: f64 = 1000.0;

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is.
    More,
    /// Less is.
    Less,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Its interval lies on the better side.
    Better,
    /// On the worse side.
    Worse,
    /// Within the margin: no change.
    None,
    /// Too few pairs, or too much noise, to tell.
    Unclear,
}

/// How two values are set against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// After over before.
    Ratio,
    /// After less before, in the figure's unit: some value is zero.
    Difference,
}

/// What counts as no difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// As a part of the figure.
    pub relative: f64,
    /// In the figure's unit, where it has a step of its own (a counter, a search).
    pub step: f64,
}

impl Default for Margin {
    fn default() -> Self {
        Self { relative: MARGIN, step: 0.0 }
    }
}

/// A figure before and after, pair by pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// What was measured.
    pub figure: String,
    /// Pairs.
    pub n: usize,
    /// Median before.
    pub before: f64,
    /// Median after.
    pub after: f64,
    /// What `shift` is.
    pub scale: Scale,
    /// Typical ratio after over before, or difference (Hodges-Lehmann).
    pub shift: f64,
    /// Its interval at 95 %; `None` with fewer than six pairs.
    pub interval: Option<(f64, f64)>,
    /// Smaller than this is none: a ratio above one, or a difference.
    pub margin: f64,
    /// Probability of a shift as large if there were none (signed rank); `None` if no pair differs.
    pub p: Option<f64>,
    /// Which way is better.
    pub better: Better,
    /// What that amounts to.
    pub change: Change,
    /// Whether it is unclear because a placebo's single pairs differ as much: more pairs would not help.
    #[serde(default)]
    pub below_noise: bool,
    /// Pairs that would have told, as far as noise of this size goes; `None` where these did.
    pub needed: Option<u32>,
    /// Largest ratio or difference, either way, of a single pair: the noise if nothing was changed.
    pub widest: f64,
    /// What 95 % of the single pairs stay below, likewise: the noise floor if nothing was changed.
    pub floor: f64,
}

/// Compares pairs with the usual margin; values that are missing on either side take their pair with them. `None` if no pair is left.
#[must_use]
pub fn effect(figure: &str, before: &[Option<f64>], after: &[Option<f64>], better: Better) -> Option<Effect> {
    effect_beyond(figure, before, after, better, Margin::default())
}

/// Compares pairs; values that are missing or infinite on either side take their pair with them. `None` if no pair is left.
#[must_use]
pub fn effect_beyond(
    figure: &str,
    before: &[Option<f64>],
    after: &[Option<f64>],
    better: Better,
    margin: Margin,
) -> Option<Effect> {
    let finite = |value: &Option<f64>| value.filter(|value| value.is_finite());
    let pairs = before.iter().zip(after).filter_map(|(a, b)| finite(a).zip(finite(b)));
    let (before, after): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let (typical_before, typical_after) = (median(&before)?, median(&after)?);
    let scale = if before.iter().chain(&after).all(|value| *value > 0.0) { Scale::Ratio } else { Scale::Difference };
    let (shift, changes, margin): (Shift, Vec<f64>, f64) = match scale {
        Scale::Ratio => {
            let step = margin.step / typical_before.min(typical_after);
            let changes = before.iter().zip(&after).map(|(a, b)| (b / a).ln()).collect();
            (log_ratio_shift(&before, &after)?, changes, (1.0 + margin.relative.max(step)).ln())
        }
        Scale::Difference => {
            let changes = before.iter().zip(&after).map(|(a, b)| b - a).collect();
            let typical = typical_before.abs().max(typical_after.abs());
            (paired_shift(&before, &after)?, changes, margin.step.max(margin.relative * typical))
        }
    };
    let sizes: Vec<f64> = changes.iter().map(|change| change.abs()).collect();
    let change = judge(&shift, margin, better);
    // Logarithms inside, ratios outside.
    let told = |value: f64| if scale == Scale::Ratio { value.exp() } else { value };
    Some(Effect {
        figure: figure.to_owned(),
        n: before.len(),
        before: typical_before,
        after: typical_after,
        scale,
        shift: told(shift.value),
        interval: shift.interval.map(|(low, high)| (told(low), told(high))),
        margin: told(margin),
        p: shift.p,
        better,
        change,
        below_noise: false,
        needed: (change == Change::Unclear).then(|| needed(&shift, margin, before.len())).flatten(),
        widest: told(sizes.iter().copied().fold(0.0, f64::max)),
        floor: told(quantile(&sizes, FLOOR_QUANTILE)?),
    })
}

/// What a shift amounts to.
fn judge(shift: &Shift, margin: f64, better: Better) -> Change {
    match shift.interval {
        Some((0.0, 0.0)) => Change::None,
        Some((low, high)) if low > -margin && high < margin => Change::None,
        Some((low, high)) if (low > 0.0 || high < 0.0) && shift.value.abs() >= margin => {
            if (shift.value > 0.0) == (better == Better::More) { Change::Better } else { Change::Worse }
        }
        _ => Change::Unclear,
    }
}

/// Pairs that would do, if intervals shrink with the root of their number: as many as bring the near end away from no change, or both
/// ends within the margin. `None` where that is not known or too many.
fn needed(shift: &Shift, margin: f64, n: usize) -> Option<u32> {
    let (low, high) = shift.interval?;
    let half = (high - low) / 2.0;
    let size = shift.value.abs();
    let room = if size >= margin { size } else { margin - size };
    let needed = (n as f64 * (half / room).powi(2)).ceil();
    (needed.is_finite() && needed <= MOST_PAIRS).then(|| (needed as u32).max(n as u32 + 1))
}

impl Effect {
    /// How far `shift` is from no change, as a logarithm or difference.
    fn size(&self) -> f64 {
        match self.scale {
            Scale::Ratio => self.shift.ln().abs(),
            Scale::Difference => self.shift.abs(),
        }
    }

    /// The same beside what nothing against nothing shows: an effect that single pairs of the placebo reach is below noise, and claimed
    /// to be neither better nor worse (methodology 6.7).
    #[must_use]
    pub fn above_noise(mut self, placebo: &Self) -> Self {
        let claimed = matches!(self.change, Change::Better | Change::Worse);
        let floor = if placebo.scale == Scale::Ratio { placebo.floor.ln() } else { placebo.floor };
        if claimed && self.scale == placebo.scale && self.size() < floor {
            self.change = Change::Unclear;
            self.below_noise = true;
        }
        self
    }
}

/// What a change is found to do to the figure it was made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The change against nothing changed.
    pub effect: Effect,
    /// The placebo against nothing changed.
    pub placebo: Option<Effect>,
    /// How sure it is that the change makes the difference.
    pub verdict: Verdict,
    /// Why not more.
    pub why: String,
}

/// Judges a change of a ratio by its effect and its placebo's.
#[must_use]
pub fn prove(effect: Effect, placebo: Option<Effect>) -> Proof {
    let floor = placebo.as_ref().map_or(0.0, |placebo| placebo.widest.ln());
    let needed = PROOF_RATIO.ln().max(PROOF_FLOORS * floor);
    let size = effect.size();
    let moved = placebo.as_ref().is_none_or(|placebo| placebo.size() >= PROOF_RATIO.ln());
    let sure = matches!(effect.change, Change::Better | Change::Worse);
    let percent = |logarithm: f64| (logarithm.exp() - 1.0) * 100.0;
    let (verdict, why) = match (sure, size >= needed) {
        (true, true) if !moved => (Verdict::Proven, String::new()),
        (true, true) if placebo.is_none() => (Verdict::Suspected, "no placebo was measured".to_owned()),
        (true, true) => (Verdict::Suspected, "the placebo moved it too".to_owned()),
        (true, false) => {
            let why = format!("it moved by {:.0} %; proof needs {:.0} % here", percent(size), percent(needed));
            (Verdict::Suspected, why)
        }
        (false, true) if effect.interval.is_none() => {
            (Verdict::Suspected, format!("{} pairs are too few for an interval (six are the fewest)", effect.n))
        }
        (false, _) => (Verdict::Inconclusive, "the interval does not tell the change from none".to_owned()),
    };
    Proof { effect, placebo, verdict, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    const COLLAPSED: [f64; 6] = [42.0, 41.0, 43.0, 42.5, 41.5, 42.2];
    const CURED: [f64; 6] = [61.0, 61.5, 61.2, 60.9, 61.1, 61.3];

    #[test]
    fn a_change_is_proven_only_if_it_is_large_and_the_placebo_does_nothing() {
        let figure =
            |after: &[f64]| effect("goodput", &some(&COLLAPSED), &some(after), Better::More).expect("six pairs");
        let still = [42.1, 41.2, 42.9, 42.3, 41.7, 42.0];
        assert_eq!(figure(&CURED).change, Change::Better);
        assert_eq!(figure(&still).change, Change::None);
        assert_eq!(prove(figure(&CURED), Some(figure(&still))).verdict, Verdict::Proven);
        assert_eq!(prove(figure(&CURED), Some(figure(&CURED))).verdict, Verdict::Suspected, "a placebo that works");
        assert_eq!(prove(figure(&CURED), None).verdict, Verdict::Suspected);
        assert_eq!(prove(figure(&still), Some(figure(&still))).verdict, Verdict::Inconclusive);
        let few = effect("goodput", &some(&COLLAPSED[..3]), &some(&CURED[..3]), Better::More).expect("three pairs");
        assert_eq!((few.interval, few.change), (None, Change::Unclear));
        assert_eq!(prove(few, Some(figure(&still))).verdict, Verdict::Suspected);
    }

    #[test]
    fn less_is_better_for_times_and_missing_values_take_their_pair_with_them() {
        let slower = effect("response time", &some(&COLLAPSED), &some(&CURED), Better::Less).expect("six pairs");
        assert_eq!(slower.change, Change::Worse);
        let mut gap = some(&CURED);
        gap[2] = None;
        assert_eq!(effect("goodput", &some(&COLLAPSED), &gap, Better::More).expect("five pairs").n, 5);
        assert_eq!(effect("goodput", &[None], &[Some(1.0)], Better::More), None);
    }

    #[test]
    fn a_figure_that_can_be_zero_is_compared_by_differences() {
        let before = some(&[0.0; 8]);
        let lossy =
            effect("lost", &before, &some(&[3.0, 4.0, 2.0, 5.0, 3.5, 4.5, 2.5, 5.5]), Better::Less).expect("pairs");
        assert_eq!((lossy.scale, lossy.change), (Scale::Difference, Change::Worse));
        assert!((lossy.shift - 3.75).abs() < 0.3, "{}", lossy.shift);
        let same = effect("lost", &before, &before, Better::Less).expect("pairs");
        assert_eq!((same.change, same.p), (Change::None, None));
    }

    #[test]
    fn a_search_step_is_the_resolution() {
        let (low, high) = (some(&[1000.0; 8]), some(&[1030.0; 8]));
        let plain = effect("rate", &low, &high, Better::More).expect("pairs");
        assert_eq!(plain.change, Change::Better);
        let step = Margin { relative: 0.02, step: 50.0 };
        let stepped = effect_beyond("rate", &low, &high, Better::More, step).expect("pairs");
        assert_eq!(stepped.change, Change::None, "{stepped:?}");
        assert!((stepped.margin - 1.05).abs() < 1e-9);
    }

    #[test]
    fn an_effect_below_the_noise_of_a_placebo_is_not_claimed() {
        let figure = |after: &[f64]| effect("goodput", &some(&CURED), &some(after), Better::More).expect("six pairs");
        let better = figure(&CURED.map(|value| value * 1.04));
        assert_eq!(better.change, Change::Better);
        let noisy = figure(&[66.0, 57.0, 61.2, 60.9, 65.1, 58.3]);
        assert!(noisy.floor > 1.05);
        let doubted = better.above_noise(&noisy);
        assert!(doubted.change == Change::Unclear && doubted.below_noise, "{doubted:?}");
    }

    /// Exact signed-rank probabilities: all of six pairs one way, 2/64; Wilcoxon's own table for 8 of 10 (sum 8 of the smaller sign).
    #[test]
    fn an_unclear_effect_says_how_many_pairs_would_have_told() {
        let six = effect("goodput", &some(&COLLAPSED), &some(&CURED), Better::More).expect("six pairs");
        assert!((six.p.expect("they differ") - 2.0 / 64.0).abs() < 1e-12);
        let noisy = [40.0, 45.0, 42.0, 44.9, 39.5, 43.4];
        let unclear = effect("goodput", &some(&COLLAPSED), &some(&noisy), Better::More).expect("six pairs");
        assert_eq!(unclear.change, Change::Unclear, "{unclear:?}");
        assert!(unclear.needed.is_some_and(|needed| needed > 6), "{unclear:?}");
    }
}
