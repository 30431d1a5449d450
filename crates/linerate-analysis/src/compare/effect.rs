//! A figure before and after: pair by pair where runs were made in turn, otherwise run against run
//! (docs/methodology/with-and-without.md#the-figure and
//! docs/methodology/with-and-without.md#the-placebo and docs/methodology/diagnosis.md#verdict).
//!
//! Ratios are compared as logarithms: the typical ratio is the Hodges-Lehmann estimate, its
//! interval that of the signed-rank distribution, of runs that are not paired that of the rank sum.
//! Where a value is zero (losses, mostly) there is no ratio, and differences are compared. A
//! difference within the margin counts as none; the margin is never below the resolution of the
//! figure. A difference that single pairs of a placebo reach is within noise. A change is *proven*
//! only if it moves the figure by at least 10 %, a placebo does not, and it is clearly larger than
//! the noise: either three times the widest pair of the placebo, or every end of its interval lies
//! beyond that pair.
//!
//! Not covered: whether two things changed at once (the conductor interleaves so that drift hits
//! both alike).

use linerate_model::{Metric, Verdict};
use serde::{Deserialize, Serialize};

use crate::statistics::{
    ALPHA, Shift, log_ratio_shift, median, paired_shift_within, quantile, unpaired_shift_within,
};

/// The least effect that counts as proof (docs/methodology/diagnosis.md#verdict).
const PROOF_RATIO: f64 = 1.1;
/// Times the noise floor that an effect must reach (docs/methodology/diagnosis.md#verdict).
const PROOF_FLOORS: f64 = 3.0;
/// Relative change below which a figure counts as unchanged
/// (docs/methodology/with-and-without.md#the-figure).
const MARGIN: f64 = 0.02;
/// The noise floor is this quantile of what single pairs of nothing against nothing differ by.
const FLOOR_QUANTILE: f64 = 0.95;
/// Ratio of the 95 % quantile of normal noise to its median: `z(0.975) / z(0.75)` of absolute
/// values. The median resists outliers, the 95 % quantile does not: of two times six runs one
/// outlier is in 5 of 30 differences.
const FLOOR_OVER_MEDIAN: f64 = 1.959_964 / 0.674_490;
/// Results more probable than this by chance are not claimed among many figures.
const CHANCE: f64 = 0.05;
/// Largest number of pairs that is recommended.
const MOST_PAIRS: f64 = 1000.0;

/// The direction in which a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is.
    More,
    /// Less is.
    Less,
}

impl Better {
    /// Returns the better direction of `metric`; `None` where neither is.
    pub(crate) fn of(metric: &Metric) -> Option<Self> {
        metric.higher_is_better.map(|more| if more { Self::More } else { Self::Less })
    }
}

/// Outcome of the comparison of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The interval lies on the better side.
    Better,
    /// On the worse side.
    Worse,
    /// Within the margin: no change.
    None,
    /// Too few pairs or too much noise for a decision.
    Unclear,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// After over before.
    Ratio,
    /// After less before, in the figure's unit: some value is zero.
    Difference,
}

/// The difference that counts as none, and the error an interval may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// Margin as a fraction of the figure.
    pub relative: f64,
    /// In the figure's unit, where it has a step of its own (a counter, a search).
    pub step: f64,
    /// Part of the usual error of 5 % that this comparison may spend: all of it, unless runs were
    /// made until something was known, and other looks could have ended it as well
    /// (docs/methodology/repeats.md#number-of-runs).
    pub part_of_error: f64,
}

impl Default for Margin {
    fn default() -> Self {
        Self { relative: MARGIN, step: 0.0, part_of_error: 1.0 }
    }
}

impl Margin {
    /// Returns the error an interval may have.
    fn error(self) -> f64 {
        ALPHA * self.part_of_error
    }
}

/// The reason why a shift is not claimed although its interval excludes no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// Single runs of nothing against nothing differ as much: more runs would not help.
    Noise,
    /// Among this many figures one differs as much by chance.
    Chance,
    /// Other programs used the CPUs too much: their effect cannot be separated from this shift.
    Others,
}

/// A figure before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Effect {
    /// Name of the figure.
    pub figure: String,
    /// Pairs; where runs are not paired, runs of the side with fewer.
    pub n: usize,
    /// Runs before and after, where they are not paired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<(usize, usize)>,
    /// Median before.
    pub before: f64,
    /// Median after.
    pub after: f64,
    /// The scale of `shift`.
    pub scale: Scale,
    /// Typical ratio after over before, or difference (Hodges-Lehmann).
    pub shift: f64,
    /// Interval of the shift at 95 %, valid at whichever look its runs ended. `None` with fewer
    /// than six pairs, or four runs of each.
    pub interval: Option<(f64, f64)>,
    /// Changes below this count as none: a ratio above one, or a difference.
    pub margin: f64,
    /// Probability of a shift as large if there were none (signed rank, or rank sum), over the part
    /// of the error it may spend; `None` if nothing differs.
    pub p: Option<f64>,
    /// The direction that is better.
    pub better: Better,
    /// The outcome.
    pub change: Change,
    /// Why the outcome is unclear although the interval excludes no change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// Number of pairs, or runs of each, that would have been enough for noise of this size. `None`
    /// where the present ones were.
    pub needed: Option<u32>,
    /// Largest ratio or difference, either way, of a single pair (of any two runs, where they are
    /// not paired): the noise if nothing was changed.
    pub widest: f64,
    /// The noise floor if nothing was changed: 95 % of these differences are smaller, outliers
    /// aside.
    pub floor: f64,
}

/// Compares pairs with the usual margin; a value missing on either side removes its pair. `None` if
/// no pair is left.
#[must_use]
pub fn effect(
    figure: &str,
    before: &[Option<f64>],
    after: &[Option<f64>],
    better: Better,
) -> Option<Effect> {
    effect_beyond(figure, before, after, better, Margin::default())
}

/// Compares pairs; a value missing or infinite on either side removes its pair. `None` if no pair
/// is left.
#[must_use]
pub fn effect_beyond(
    figure: &str,
    before: &[Option<f64>],
    after: &[Option<f64>],
    better: Better,
    margin: Margin,
) -> Option<Effect> {
    // An infinite time is an operation that never ended; it has no ratio to a finite one.
    let finite = |value: &Option<f64>| value.filter(|value| value.is_finite());
    let pairs = before.iter().zip(after).filter_map(|(a, b)| finite(a).zip(finite(b)));
    let (before, after): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let (typical_before, typical_after) = (median(&before)?, median(&after)?);
    let scale = scale_of(&before, &after);
    let (shift, changes) = match scale {
        Scale::Ratio => (
            log_ratio_shift(&before, &after, margin.error())?,
            before.iter().zip(&after).map(|(a, b)| (b / a).ln()).collect::<Vec<f64>>(),
        ),
        Scale::Difference => (
            paired_shift_within(&before, &after, margin.error())?,
            before.iter().zip(&after).map(|(a, b)| b - a).collect::<Vec<f64>>(),
        ),
    };
    let told = ShiftParts {
        scale,
        shift,
        typical: (typical_before, typical_after),
        better,
        margin,
        n: before.len(),
    };
    told.effect(figure, &changes)
}

/// Compares runs that are not paired, such as those of two campaigns; infinite values are left out.
/// `None` if either side is empty.
#[must_use]
pub(crate) fn effect_of_runs(
    figure: &str,
    before: &[Option<f64>],
    after: &[Option<f64>],
    better: Better,
    margin: Margin,
) -> Option<Effect> {
    let (before, after) = (finite(before), finite(after));
    let typical = (median(&before)?, median(&after)?);
    let scale = scale_of(&before, &after);
    let (a, b) = (scaled(&before, scale), scaled(&after, scale));
    // Unpaired runs have no partner, so each difference of any two runs counts as one.
    let changes: Vec<f64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
    let n = before.len().min(after.len());
    let told = ShiftParts {
        scale,
        shift: unpaired_shift_within(&a, &b, margin.error())?,
        typical,
        better,
        margin,
        n,
    };
    Some(Effect { runs: Some((before.len(), after.len())), ..told.effect(figure, &changes)? })
}

fn finite(values: &[Option<f64>]) -> Vec<f64> {
    values.iter().flatten().copied().filter(|value| value.is_finite()).collect()
}

/// Returns the values whose differences are the changes on `scale`.
fn scaled(values: &[f64], scale: Scale) -> Vec<f64> {
    match scale {
        Scale::Ratio => values.iter().map(|value| value.ln()).collect(),
        Scale::Difference => values.to_vec(),
    }
}

fn scale_of(before: &[f64], after: &[f64]) -> Scale {
    if before.iter().chain(after).all(|value| *value > 0.0) {
        Scale::Ratio
    } else {
        Scale::Difference
    }
}

/// A shift on its way to an effect: logarithms inside, ratios outside.
struct ShiftParts {
    scale: Scale,
    shift: Shift,
    typical: (f64, f64),
    better: Better,
    margin: Margin,
    n: usize,
}

impl ShiftParts {
    /// Returns the effect; `changes` are what single pairs, or any two runs, differ by.
    fn effect(self, figure: &str, changes: &[f64]) -> Option<Effect> {
        let (before, after) = self.typical;
        let margin = match self.scale {
            Scale::Ratio => {
                // One step of a counter is a larger fraction of the smaller value, so that value
                // sets the resolution.
                (1.0 + self.margin.relative.max(self.margin.step / before.min(after))).ln()
            }
            Scale::Difference => {
                self.margin.step.max(self.margin.relative * before.abs().max(after.abs()))
            }
        };
        let sizes: Vec<f64> = changes.iter().map(|change| change.abs()).collect();
        let change = judge(&self.shift, margin, self.better);
        let told = |value: f64| if self.scale == Scale::Ratio { value.exp() } else { value };
        Some(Effect {
            figure: figure.to_owned(),
            n: self.n,
            runs: None,
            before,
            after,
            scale: self.scale,
            shift: told(self.shift.value),
            interval: self.shift.interval.map(|(low, high)| (told(low), told(high))),
            margin: told(margin),
            // A comparison that may spend only a part of the error needs a smaller probability by
            // the same factor.
            p: self.shift.p.map(|p| (p / self.margin.part_of_error).min(1.0)),
            better: self.better,
            change,
            doubt: None,
            needed: (change == Change::Unclear)
                .then(|| needed(&self.shift, margin, self.n))
                .flatten(),
            widest: told(sizes.iter().copied().fold(0.0, f64::max)),
            floor: told(noise_floor(&sizes)?),
        })
    }
}

/// Returns the outcome for a shift.
fn judge(shift: &Shift, margin: f64, better: Better) -> Change {
    match shift.interval {
        // All pairs are equal. No margin is needed for that, and a margin of zero would otherwise
        // leave it unclear.
        Some((0.0, 0.0)) => Change::None,
        Some((low, high)) if low > -margin && high < margin => Change::None,
        // An interval without zero can still lie within the margin in part; the typical shift must
        // exceed the margin too.
        Some((low, high)) if (low > 0.0 || high < 0.0) && shift.value.abs() >= margin => {
            if (shift.value > 0.0) == (better == Better::More) {
                Change::Better
            } else {
                Change::Worse
            }
        }
        _ => Change::Unclear,
    }
}

/// Returns the number of pairs that would be enough, if intervals shrink with the root of their
/// number: the near end then excludes no change, or both ends are within the margin. `None` where
/// that is unknown or too many.
fn needed(shift: &Shift, margin: f64, n: usize) -> Option<u32> {
    let (low, high) = shift.interval?;
    let half = (high - low) / 2.0;
    let size = shift.value.abs();
    // A shift below the margin is decided by proof of no change, so the distance to the margin
    // counts instead.
    let room = if size >= margin { size } else { margin - size };
    let needed = (n as f64 * (half / room).powi(2)).ceil();
    // The present number was not enough, whatever the estimate says.
    (needed.is_finite() && needed <= MOST_PAIRS).then(|| (needed as u32).max(n as u32 + 1))
}

/// Returns the fewest pairs, or runs of each side, of which the clearest result can be claimed
/// among `n_figures` by ranks: all one way is one order of 2^n, or of n out of 2 n.
fn enough_among(n_figures: usize, is_paired: bool) -> Option<u32> {
    let orders = |n: u32| if is_paired { 2.0_f64.powf(f64::from(n)) } else { halves(n) };
    // Two-sided: all changes one way and all the other way are equally surprising.
    (1..=MOST_PAIRS as u32).find(|n| 2.0 / orders(*n) * n_figures as f64 <= CHANCE)
}

/// Returns the number of ways to choose `n` of `2 n` runs.
fn halves(n: u32) -> f64 {
    (1..=n).map(|k| f64::from(n + k) / f64::from(k)).product()
}

impl Effect {
    /// Returns the distance of `shift` from no change, as a logarithm or difference.
    fn size(&self) -> f64 {
        match self.scale {
            Scale::Ratio => self.shift.ln().abs(),
            Scale::Difference => self.shift.abs(),
        }
    }

    /// Returns true if the typical shift is at least the least effect that counts as proof, and the
    /// outcome is clear.
    pub(crate) fn is_relevant(&self) -> bool {
        self.size() >= PROOF_RATIO.ln() && self.change != Change::Unclear
    }

    /// Returns true if the effect is relevant and its whole interval is beyond `widest`, a ratio
    /// above one. With six pairs of each the interval spans all pairs, so every pair with the
    /// change is then beyond every pair of the placebo: two of the 924 orders of twelve pairs.
    fn clears(&self, widest: f64) -> bool {
        let nearest = self.interval.map(|(low, high)| if low >= 1.0 { low } else { 1.0 / high });
        self.scale == Scale::Ratio
            && self.size() >= PROOF_RATIO.ln()
            && nearest.is_some_and(|nearest| nearest > widest)
    }

    /// Returns this effect beside that of a placebo. An effect as large as single runs of the
    /// placebo is within noise: neither better nor worse
    /// (docs/methodology/with-and-without.md#the-placebo).
    pub fn above_noise(self, placebo: &Self) -> Self {
        // A ratio and a difference have no common unit, so the placebo says nothing about this
        // effect.
        if self.scale != placebo.scale {
            return self;
        }
        self.above_floor(placebo.floor)
    }

    /// Returns this effect beside a noise floor: a ratio above one, or a difference, in the scale
    /// of this effect.
    pub(crate) fn above_floor(self, floor: f64) -> Self {
        let floor = if self.scale == Scale::Ratio { floor.ln() } else { floor };
        if self.size() < floor { self.doubted(Doubt::Noise) } else { self }
    }

    /// Returns this effect as one of `n_figures`. An effect whose `p`, adjusted for their number,
    /// is too large is not claimed. Where no result of this few runs could be significant, the
    /// effect states how many runs are enough.
    pub(crate) fn among_many(self, p_adjusted: Option<f64>, n_figures: usize) -> Self {
        if p_adjusted.is_some_and(|p| p <= CHANCE) {
            return self;
        }
        let enough =
            enough_among(n_figures, self.runs.is_none()).filter(|enough| *enough as usize > self.n);
        let doubted = self.doubted(Doubt::Chance);
        // More runs help only if chance was the objection; other doubts do not shrink with the
        // number of runs.
        let needed = if doubted.doubt == Some(Doubt::Chance) { enough } else { doubted.needed };
        Self { needed, ..doubted }
    }

    /// Returns this effect with `doubt`, so that nothing is claimed.
    pub(super) fn doubted(mut self, doubt: Doubt) -> Self {
        // Doubt removes a claim. It never turns an outcome that claims nothing into another.
        if matches!(self.change, Change::Better | Change::Worse) {
            self.change = Change::Unclear;
            self.doubt = Some(doubt);
        }
        self
    }
}

/// Result of the test whether a change affects the figure it was made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The change against nothing changed.
    pub effect: Effect,
    /// The placebo against nothing changed.
    pub placebo: Option<Effect>,
    /// How well the effect of the change is established.
    pub verdict: Verdict,
    /// The reason why it is not proven.
    pub why: Option<Unproven>,
}

/// Reason why an effect is not proven. Sizes are ratios, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum Unproven {
    /// No placebo was measured.
    NoPlacebo,
    /// The placebo had an effect of its own.
    PlaceboMoved,
    /// The effect is smaller than proof needs beside this noise.
    TooSmall { moved: f64, needed: f64 },
    /// The pairs are too few for an interval.
    TooFewPairs { n: usize },
    /// Single pairs of the placebo differ as much.
    WithinNoise { moved: f64 },
    /// The interval includes no change.
    NoChange,
}

/// Multiple of the least relevant effect by which single pairs of a placebo may differ for its
/// typical ratio to stay below that effect. Of six pairs the widest is about two standard
/// deviations; the typical ratio of seven is known to 0.38 of one, twice that at 95 %.
const PLACEBO_WIDEST: f64 = 2.6;

impl Proof {
    /// Returns the factor by which the shift would have to be larger for proof beside this noise;
    /// infinite if nothing moved.
    #[must_use]
    pub fn short(&self) -> f64 {
        needed_size(self.placebo.as_ref()) / self.effect.size()
    }

    /// Returns the ratio of the spread of single placebo pairs to the largest spread at which a
    /// placebo without effect is recognised as such.
    #[must_use]
    pub(crate) fn scattered(&self) -> f64 {
        let widest = self.placebo.as_ref().map_or(0.0, |placebo| placebo.widest.ln());
        widest / (PLACEBO_WIDEST * PROOF_RATIO.ln())
    }
}

/// Returns the shift that proof needs, as a logarithm.
fn needed_size(placebo: Option<&Effect>) -> f64 {
    PROOF_RATIO.ln().max(PROOF_FLOORS * placebo.map_or(0.0, |placebo| placebo.widest.ln()))
}

/// Judges a change of a ratio by its effect and its placebo's.
#[must_use]
pub fn prove(effect: Effect, placebo: Option<Effect>) -> Proof {
    let needed = needed_size(placebo.as_ref());
    let size = effect.size();
    // Noise alone shifts the typical pair of a placebo by more than the least effect. It is an
    // effect of the placebo only if its interval excludes no change.
    let moved = placebo.as_ref().is_none_or(Effect::is_relevant);
    let sure = matches!(effect.change, Change::Better | Change::Worse);
    let is_large =
        size >= needed || placebo.as_ref().is_some_and(|placebo| effect.clears(placebo.widest));
    // The order matters: a placebo that moved is a stronger objection than an effect that is too
    // small.
    let (verdict, why) = match (sure, is_large) {
        (true, true) if !moved => (Verdict::Proven, None),
        (true, true) if placebo.is_none() => (Verdict::Suspected, Some(Unproven::NoPlacebo)),
        (true, true) => (Verdict::Suspected, Some(Unproven::PlaceboMoved)),
        (true, false) => {
            let (moved, needed) = (size.exp(), needed.exp());
            (Verdict::Suspected, Some(Unproven::TooSmall { moved, needed }))
        }
        // Fewer than six pairs cannot exclude no change, but the size of the shift still supports
        // the rule's evidence.
        (false, true) if effect.interval.is_none() => {
            (Verdict::Suspected, Some(Unproven::TooFewPairs { n: effect.n }))
        }
        (false, _) if effect.doubt == Some(Doubt::Noise) => {
            (Verdict::Inconclusive, Some(Unproven::WithinNoise { moved: size.exp() }))
        }
        // "The interval includes no change" would be wrong without an interval.
        (false, _) if effect.interval.is_none() => {
            (Verdict::Inconclusive, Some(Unproven::TooFewPairs { n: effect.n }))
        }
        (false, _) => (Verdict::Inconclusive, Some(Unproven::NoChange)),
    };
    Proof { effect, placebo, verdict, why }
}

/// Returns the value that 95 % of noise differences stay below, from `sizes` that may contain
/// outliers: the smaller of their quantile and of the value that their median implies for normal
/// noise. `None` for no sizes. Where more than half are zero the median carries no information, and
/// the quantile is used.
fn noise_floor(sizes: &[f64]) -> Option<f64> {
    let (most, typical) = (quantile(sizes, FLOOR_QUANTILE)?, quantile(sizes, 0.5)?);
    Some(if typical > 0.0 { most.min(FLOOR_OVER_MEDIAN * typical) } else { most })
}

/// Returns the value that 95 % of the differences between two runs of one campaign stay below: a
/// ratio above one, or a difference. `None` if no campaign has two runs.
pub(super) fn floor(scale: Scale, campaigns: [&[Option<f64>]; 2]) -> Option<f64> {
    let sizes: Vec<f64> =
        campaigns.into_iter().flat_map(|values| sizes_among(&finite(values), scale)).collect();
    let floor = noise_floor(&sizes)?;
    Some(if scale == Scale::Ratio { floor.exp() } else { floor })
}

/// Returns the sizes of the differences between any two of `values`.
fn sizes_among(values: &[f64], scale: Scale) -> Vec<f64> {
    let mut sizes = Vec::new();
    for (i, a) in values.iter().enumerate() {
        sizes.extend(values[..i].iter().map(|b| match scale {
            Scale::Ratio => (a / b).ln().abs(),
            Scale::Difference => (a - b).abs(),
        }));
    }
    sizes
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
        let figure = |after: &[f64]| {
            effect("goodput", &some(&COLLAPSED), &some(after), Better::More).expect("six pairs")
        };
        let still = [42.1, 41.2, 42.9, 42.3, 41.7, 42.0];
        assert_eq!(figure(&CURED).change, Change::Better);
        assert_eq!(figure(&still).change, Change::None);
        assert_eq!(prove(figure(&CURED), Some(figure(&still))).verdict, Verdict::Proven);
        assert_eq!(
            prove(figure(&CURED), Some(figure(&CURED))).verdict,
            Verdict::Suspected,
            "a placebo that works"
        );
        assert_eq!(prove(figure(&CURED), None).verdict, Verdict::Suspected);
        assert_eq!(prove(figure(&still), Some(figure(&still))).verdict, Verdict::Inconclusive);
        let same = effect("goodput", &some(&COLLAPSED[..3]), &some(&still[..3]), Better::More);
        let why = same.and_then(|same| prove(same, Some(figure(&still))).why);
        assert_eq!(why, Some(Unproven::TooFewPairs { n: 3 }), "no interval includes anything");
        let few = effect("goodput", &some(&COLLAPSED[..3]), &some(&CURED[..3]), Better::More)
            .expect("three pairs");
        assert_eq!((few.interval, few.change), (None, Change::Unclear));
        assert_eq!(prove(few, Some(figure(&still))).verdict, Verdict::Suspected);
    }

    #[test]
    fn an_effect_whose_pairs_are_all_beyond_those_of_a_noisy_placebo_is_proven() {
        let before = [10.0, 14.0, 6.0, 20.0, 9.0, 12.0];
        let with = |factors: [f64; 6]| {
            let after: Vec<Option<f64>> =
                before.iter().zip(factors).map(|(rate, factor)| Some(rate * factor)).collect();
            effect("goodput", &some(&before), &after, Better::More).expect("six pairs")
        };
        // The typical pair of the placebo is 1.2, and its interval includes no change.
        let noise = || with([0.4, 3.2, 1.5, 0.8, 2.0, 0.9]);
        let typical = noise();
        assert!(typical.shift > 1.1 && typical.change == Change::Unclear, "{typical:?}");
        let judged = |factors| prove(with(factors), Some(noise())).verdict;
        assert_eq!(judged([44.0, 9.0, 12.0, 30.0, 50.0, 21.0]), Verdict::Proven);
        assert_eq!(judged([6.0, 9.0, 3.0, 4.0, 5.0, 7.0]), Verdict::Suspected, "one pair is noise");
        // A placebo that helps in every pair is no noise.
        let helps = with([1.5, 3.2, 1.6, 1.8, 2.0, 1.9]);
        let proof = prove(with([44.0, 39.0, 42.0, 50.0, 50.0, 41.0]), Some(helps));
        assert_eq!(proof.why, Some(Unproven::PlaceboMoved));
    }

    #[test]
    fn less_is_better_for_times_and_missing_values_take_their_pair_with_them() {
        let slower = effect("response time", &some(&COLLAPSED), &some(&CURED), Better::Less)
            .expect("six pairs");
        assert_eq!(slower.change, Change::Worse);
        let mut gap = some(&CURED);
        gap[2] = None;
        assert_eq!(
            effect("goodput", &some(&COLLAPSED), &gap, Better::More).expect("five pairs").n,
            5
        );
        assert_eq!(effect("goodput", &[None], &[Some(1.0)], Better::More), None);
    }

    #[test]
    fn a_figure_that_can_be_zero_is_compared_by_differences() {
        let before = some(&[0.0; 8]);
        let lossy =
            effect("lost", &before, &some(&[3.0, 4.0, 2.0, 5.0, 3.5, 4.5, 2.5, 5.5]), Better::Less)
                .expect("pairs");
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
        let step = Margin { relative: 0.02, step: 50.0, ..Margin::default() };
        let stepped = effect_beyond("rate", &low, &high, Better::More, step).expect("pairs");
        assert_eq!(stepped.change, Change::None, "{stepped:?}");
        assert!((stepped.margin - 1.05).abs() < 1e-9);
    }

    #[test]
    fn an_effect_below_the_noise_of_a_placebo_is_not_claimed() {
        let figure = |after: &[f64]| {
            effect("goodput", &some(&CURED), &some(after), Better::More).expect("six pairs")
        };
        let better = figure(&CURED.map(|value| value * 1.04));
        assert_eq!(better.change, Change::Better);
        let noisy = figure(&[66.0, 57.0, 61.2, 60.9, 65.1, 58.3]);
        assert!(noisy.floor > 1.05);
        let doubted = better.above_noise(&noisy);
        assert!(
            doubted.change == Change::Unclear && doubted.doubt == Some(Doubt::Noise),
            "{doubted:?}"
        );
    }

    #[test]
    fn one_outlier_is_not_the_noise_floor_and_two_kinds_of_runs_are() {
        let ratio = |values: [f64; 6]| {
            floor(Scale::Ratio, [&some(&values), &some(&CURED)]).expect("six runs")
        };
        let still = [100.0, 101.0, 99.5, 100.4, 99.8, 100.9];
        let with_outlier = [100.0, 101.0, 99.5, 100.4, 99.8, 70.0];
        assert!(
            ratio(still) < 1.03 && ratio(with_outlier) < 1.03,
            "{} {}",
            ratio(still),
            ratio(with_outlier)
        );
        let of_two_kinds = [100.0, 101.0, 90.0, 100.4, 90.5, 89.8];
        assert!(floor(Scale::Ratio, [&some(&of_two_kinds); 2]).expect("six runs") > 1.1);
        // Counts that are the same in most runs have a median of none.
        let counts = some(&[0.0, 0.0, 0.0, 0.0, 0.0, 7.0]);
        assert!(floor(Scale::Difference, [&counts, &counts]).expect("six runs") > 0.0);
        let again = some(&[61.2, 61.1, 61.3, 45.0, 61.3, 61.2]);
        let placebo = effect("goodput", &some(&CURED), &again, Better::More).expect("six pairs");
        assert!(placebo.widest > 1.3 && placebo.floor < 1.02, "{placebo:?}");
    }

    #[test]
    fn runs_that_are_not_paired_are_compared_run_against_run() {
        let effect = |after: &[Option<f64>]| {
            effect_of_runs("goodput", &some(&COLLAPSED), after, Better::More, Margin::default())
                .expect("runs")
        };
        let better = effect(&some(&CURED));
        assert_eq!((better.change, better.runs, better.n), (Change::Better, Some((6, 6)), 6));
        // All of one side above all of the other: 2 of 924 orders are as far apart.
        assert!((better.p.expect("they differ") - 2.0 / 924.0).abs() < 1e-12);
        assert_eq!(
            effect(&some(&CURED[..3])).change,
            Change::Better,
            "three against six are an interval"
        );
        let few = effect_of_runs(
            "goodput",
            &some(&COLLAPSED[..3]),
            &some(&CURED[..3]),
            Better::More,
            Margin::default(),
        );
        assert_eq!(few.expect("runs").interval, None, "3 x 3 orders are too few for 95 %");
        let mut gap = some(&CURED);
        gap[1] = None;
        assert_eq!(effect(&gap).runs, Some((6, 5)));
        assert_eq!(
            effect(&some(&COLLAPSED)).change,
            Change::Unclear,
            "the same values, 2 % apart from each other"
        );
    }

    #[test]
    fn among_many_figures_a_shift_that_chance_explains_is_not_claimed() {
        let better =
            effect("goodput", &some(&COLLAPSED), &some(&CURED), Better::More).expect("six pairs");
        assert_eq!(better.clone().among_many(Some(0.03), 1).change, Change::Better);
        let doubted = better.clone().among_many(Some(0.2), 7);
        // Of six pairs 2/64 is the least; seven figures need 2/512.
        assert_eq!(
            (doubted.change, doubted.doubt, doubted.needed),
            (Change::Unclear, Some(Doubt::Chance), Some(9))
        );
        let still = effect("goodput", &some(&COLLAPSED), &some(&COLLAPSED), Better::More)
            .expect("six pairs");
        assert_eq!(
            still.clone().among_many(None, 100).needed,
            still.needed,
            "nothing is claimed, nothing is doubted"
        );
    }

    /// Exact signed-rank probabilities: all of six pairs one way, 2/64; Wilcoxon's own table for 8
    /// of 10 (sum 8 of the smaller sign).
    #[test]
    fn an_unclear_effect_says_how_many_pairs_would_have_told() {
        let six =
            effect("goodput", &some(&COLLAPSED), &some(&CURED), Better::More).expect("six pairs");
        assert!((six.p.expect("they differ") - 2.0 / 64.0).abs() < 1e-12);
        let noisy = [40.0, 45.0, 42.0, 44.9, 39.5, 43.4];
        let unclear =
            effect("goodput", &some(&COLLAPSED), &some(&noisy), Better::More).expect("six pairs");
        assert_eq!(unclear.change, Change::Unclear, "{unclear:?}");
        assert!(unclear.needed.is_some_and(|needed| needed > 6), "{unclear:?}");
    }
}
