//! Tuning judged: which window to try, whether a report can be true, and whether a change did what was claimed.
//!
//! Units: bytes of payload for windows, of Ethernet frames without FCS for buffers; ratios as logarithms inside, as ratios
//! outside. Methods: comparison of methodology 6.6; conflict rule of 5.3 (a change is
//! *proven* only if it moves the figure by at least 10 % and three times the noise floor, and a placebo does not).
//!
//! What it does not see: whether two things changed at once (the conductor interleaves so that drift hits both alike), and
//! buffers that other traffic fills at the same time.

mod observed;

use linerate_model::{BitRate, Bytes, Verdict};
use serde::Serialize;

use crate::fire_hose::{Inferred, Onset, WindowPoint};
use crate::statistics::{log_ratio_shift, median};

pub use observed::{Rates, Trains, change_of, rates, reading_of, retransmitted, trains, window_seen};

/// The least effect that counts as proof (methodology 5.3).
const PROOF_RATIO: f64 = 1.1;
/// Times the noise floor that an effect must reach (methodology 5.3).
const PROOF_FLOORS: f64 = 3.0;
/// A change smaller than this is none (methodology 6.6).
const MARGIN: f64 = 0.02;
/// A clean window this much below the best one's goodput is preferred to it.
const AS_GOOD: f64 = 0.9;

/// What a reported buffer is worth against the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The probe agrees.
    Agrees,
    /// The probe says otherwise: do not believe it.
    Contradicted,
    /// Zero or all ones, which mean that nothing is reported (ncsi clause 6).
    Silent,
}

/// `reported` against what the trains found.
#[must_use]
pub fn report(reported: u64, found: &Inferred) -> Report {
    if reported == 0 || reported >= u64::from(u32::MAX) {
        return Report::Silent;
    }
    if found.buffer.contains(&Bytes(reported)) { Report::Agrees } else { Report::Contradicted }
}

/// The window to try, and what the sweep says of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The window and what it made of a stream.
    pub point: WindowPoint,
    /// Its goodput over that with the kernel's own window.
    pub gain: f64,
    /// Whether it is clean of loss.
    pub clean: bool,
}

/// The window worth trying: the clean one that is fastest if it is about as fast as the best, else the best. `own` is the goodput
/// with the kernel's own window.
#[must_use]
pub fn choose(onset: &Onset, own: BitRate) -> Choice {
    let clean = onset.best_clean.filter(|clean| clean.goodput.0 >= AS_GOOD * onset.best.goodput.0);
    let point = clean.unwrap_or(onset.best);
    Choice { point, gain: point.goodput.0 / own.0, clean: clean.is_some() }
}

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is.
    More,
    /// Less is.
    Less,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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

/// A figure before and after, pair by pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// What was measured.
    pub figure: String,
    /// Pairs.
    pub n: usize,
    /// Median before.
    pub before: f64,
    /// Median after.
    pub after: f64,
    /// Typical ratio after over before (Hodges-Lehmann).
    pub ratio: f64,
    /// Its interval at 95 %; `None` with fewer than six pairs.
    pub interval: Option<(f64, f64)>,
    /// Which way is better.
    pub better: Better,
    /// What that amounts to.
    pub change: Change,
    /// Largest ratio, either way, of a single pair: the noise floor if nothing was changed.
    pub widest: f64,
}

/// Compares pairs; values that are missing on either side take their pair with them. `None` if no pair is left.
#[must_use]
pub fn effect(figure: &str, before: &[Option<f64>], after: &[Option<f64>], better: Better) -> Option<Effect> {
    let positive = |value: &Option<f64>| value.filter(|value| *value > 0.0);
    let pairs = before.iter().zip(after).filter_map(|(a, b)| positive(a).zip(positive(b)));
    let (before, after): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let shift = log_ratio_shift(&before, &after)?;
    let widest = before.iter().zip(&after).map(|(a, b)| (b / a).ln().abs()).fold(0.0, f64::max);
    let margin = (1.0 + MARGIN).ln();
    let towards_better = if better == Better::More { shift.value > 0.0 } else { shift.value < 0.0 };
    let change = match shift.interval {
        Some((low, high)) if low > -margin && high < margin => Change::None,
        Some((low, high)) if (low > 0.0 || high < 0.0) && shift.value.abs() >= margin => {
            if towards_better {
                Change::Better
            } else {
                Change::Worse
            }
        }
        _ => Change::Unclear,
    };
    Some(Effect {
        figure: figure.to_owned(),
        n: before.len(),
        before: median(&before)?,
        after: median(&after)?,
        ratio: shift.value.exp(),
        interval: shift.interval.map(|(low, high)| (low.exp(), high.exp())),
        better,
        change,
        widest: widest.exp(),
    })
}

/// What a change is found to do to the figure it was made for.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// Judges a change by its effect and its placebo's.
#[must_use]
pub fn prove(effect: Effect, placebo: Option<Effect>) -> Proof {
    let floor = placebo.as_ref().map_or(0.0, |placebo| placebo.widest.ln());
    let needed = PROOF_RATIO.ln().max(PROOF_FLOORS * floor);
    let size = effect.ratio.ln().abs();
    let moved = placebo.as_ref().is_none_or(|placebo| placebo.ratio.ln().abs() >= PROOF_RATIO.ln());
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
    use crate::fire_hose::onset;

    #[test]
    fn a_report_that_cannot_be_true_is_called_out() {
        let found = Inferred { longest_train: 5, buffer: Bytes(7570)..Bytes(9084), stray_losses: 0 };
        assert_eq!(report(8192, &found), Report::Agrees);
        assert_eq!(report(65_536, &found), Report::Contradicted);
        assert_eq!(report(7, &found), Report::Contradicted);
        assert_eq!((report(0, &found), report(u64::from(u32::MAX), &found)), (Report::Silent, Report::Silent));
    }

    fn swept(of: &[(u64, f64, f64)]) -> Onset {
        let point = |&(window, goodput, loss): &(u64, f64, f64)| WindowPoint {
            window: Bytes(window),
            goodput: BitRate(goodput),
            loss,
        };
        onset(&of.iter().map(point).collect::<Vec<_>>()).expect("points")
    }

    #[test]
    fn the_window_chosen_is_clean_unless_that_costs_more_than_a_tenth() {
        let collapse = swept(&[(2920, 35.0, 0.0), (7300, 61.0, 0.0), (14_600, 62.5, 0.01)]);
        let choice = choose(&collapse, BitRate(42.0));
        assert_eq!((choice.point.window, choice.clean), (Bytes(7300), true));
        assert!((choice.gain - 61.0 / 42.0).abs() < 1e-12);
        let fine = swept(&[(7300, 61.0, 0.0), (29_200, 90.0, 0.01)]);
        let choice = choose(&fine, BitRate(91.0));
        assert!(choice.point.window == Bytes(29_200) && choice.gain < 1.0 && !choice.clean);
    }

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
}
