//! Tuning judged: which window to try, whether a report can be true, and whether a change did what
//! was claimed.
//!
//! Units: bytes of payload for windows, of Ethernet frames without FCS for buffers; ratios as
//! logarithms inside, as ratios outside. How a change is compared with none and proven:
//! [`crate::compare`].
//!
//! Not covered: whether two things changed at once (the conductor interleaves so that drift hits
//! both alike), and buffers that other traffic fills at the same time.

pub mod experiments;
mod observed;

use linerate_model::{BitRate, Bytes};
use serde::Serialize;

use crate::fire_hose::{Inferred, Onset, WindowPoint};

pub use crate::compare::{Better, Change, Effect, Proof, Unproven, effect, prove};
pub use observed::{
    Rates, Trains, change_of, missed, rates, reading_of, retransmitted, trains, window_seen,
};

/// A clean window this much below the best one's goodput is preferred to it.
const AS_GOOD: f64 = 0.9;

/// Credibility of a reported buffer against the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The probe agrees.
    Agrees,
    /// The probe contradicts it: do not rely on it.
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

/// The window to try, and its result in the sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The window and what it made of a stream.
    pub point: WindowPoint,
    /// Its goodput over that with the kernel's own window.
    pub gain: f64,
    /// True if it is free of loss.
    pub clean: bool,
}

/// Returns the window worth trying: the clean one that is fastest if it is about as fast as the
/// best, else the best. `own` is the goodput with the kernel's own window.
#[must_use]
pub fn choose(onset: &Onset, own: BitRate) -> Choice {
    let clean = onset.best_clean.filter(|clean| clean.goodput.0 >= AS_GOOD * onset.best.goodput.0);
    let point = clean.unwrap_or(onset.best);
    Choice { point, gain: point.goodput.0 / own.0, clean: clean.is_some() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fire_hose::onset;

    #[test]
    fn a_report_that_cannot_be_true_is_called_out() {
        let found =
            Inferred { longest_train: 5, buffer: Bytes(7570)..Bytes(9084), stray_losses: 0 };
        assert_eq!(report(8192, &found), Report::Agrees);
        assert_eq!(report(65_536, &found), Report::Contradicted);
        assert_eq!(report(7, &found), Report::Contradicted);
        assert_eq!(
            (report(0, &found), report(u64::from(u32::MAX), &found)),
            (Report::Silent, Report::Silent)
        );
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
}
