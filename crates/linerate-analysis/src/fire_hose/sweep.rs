//! The window at which loss begins, the best window, and the form of the law that fits.
//!
//! Input: one point per window, with the loss ratio at the hose (or, without its counters, of
//! retransmitted bytes) and the goodput. Not covered: whether the hose lost the frames; see
//! [`super::attribute`].

use linerate_model::{BitRate, Bytes};

use super::{Bracket, Hose};

/// Loss below this is not that of a window too large: a tail probe, a stray
/// (docs/methodology/diagnosis.md#rules, D3).
const LOSS: f64 = 1e-3;
/// Fraction of the best goodput that counts as equally good, so that the smallest such window is
/// chosen.
const AS_GOOD: f64 = 0.98;

/// Measurement at one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowPoint {
    /// Bytes the sender may have in flight.
    pub window: Bytes,
    /// Share of frames lost, or of bytes retransmitted.
    pub loss: f64,
    /// Payload delivered.
    pub goodput: BitRate,
}

/// Result of a window sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Onset {
    /// The largest window below which nothing is lost; `None` if even the smallest loses.
    pub last_clean: Option<Bytes>,
    /// The smallest window from which every one loses; `None` if the largest is clean.
    pub first_lossy: Option<Bytes>,
    /// The smallest window whose goodput is as good as the best, lossy or not.
    pub best: WindowPoint,
    /// The clean window with the highest goodput.
    pub best_clean: Option<WindowPoint>,
}

/// A form of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Whole frames without draining.
    FrameGranular,
    /// A fluid burst that drains while it arrives.
    Fluid,
    /// Buffer and bandwidth-delay product.
    AckClocked,
}

/// Reads a sweep; `None` if it has no point.
#[must_use]
pub fn onset(points: &[WindowPoint]) -> Option<Onset> {
    let mut points = points.to_vec();
    points.sort_by_key(|point| point.window);
    let clean = |point: &&WindowPoint| point.loss < LOSS;
    // The last clean window counts: a stray loss at a small window would otherwise end the range
    // too early.
    let n_clean = points.iter().rposition(|point| clean(&point)).map_or(0, |last| last + 1);
    let highest = points.iter().map(|point| point.goodput.0).fold(0.0, f64::max);
    Some(Onset {
        last_clean: n_clean.checked_sub(1).map(|last| points[last].window),
        first_lossy: points.get(n_clean).map(|point| point.window),
        // Points are sorted by window, so the first one within the tolerance is the smallest.
        best: *points.iter().find(|point| point.goodput.0 >= highest * AS_GOOD)?,
        best_clean: points
            .iter()
            .filter(clean)
            .max_by(|a, b| a.goodput.0.total_cmp(&b.goodput.0))
            .copied(),
    })
}

impl Onset {
    /// Returns the form whose window lies nearest to where loss begins, and how far away it lies,
    /// in bytes.
    #[must_use]
    pub fn nearest_form(&self, bracket: &Bracket) -> Option<(Form, i64)> {
        let (clean, lossy) = (self.last_clean?.0 as f64, self.first_lossy?.0 as f64);
        // The true onset lies anywhere between the two measured windows.
        let middle = f64::midpoint(clean, lossy);
        let forms = [
            Some((Form::FrameGranular, bracket.frame_granular)),
            bracket.fluid.map(|fluid| (Form::Fluid, fluid)),
            Some((Form::AckClocked, bracket.ack_clocked)),
        ];
        let distance = |window: Bytes| middle - window.0 as f64;
        forms
            .into_iter()
            .flatten()
            .min_by(|(_, a), (_, b)| distance(*a).abs().total_cmp(&distance(*b).abs()))
            .map(|(form, window)| (form, distance(window).round() as i64))
    }

    /// Returns whether loss begins where the law predicts, within two segments
    /// (docs/methodology/papers.md#shapes, V1.12).
    #[must_use]
    pub fn within(&self, bracket: &Bracket, hose: &Hose) -> Option<bool> {
        let (clean, lossy) = (self.last_clean?, self.first_lossy?);
        let [low, high] = bracket.onset();
        Some(lossy >= low && clean <= Bytes(high.0 + 2 * hose.mss.0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::SIDEBAND;
    use super::*;

    fn point(window: u64, loss: f64, megabits: f64) -> WindowPoint {
        WindowPoint { window: Bytes(window), loss, goodput: BitRate(megabits * 1e6) }
    }

    #[test]
    fn loss_begins_between_the_last_clean_and_the_first_lossy_window() {
        let swept = [
            point(11_680, 0.006, 73.0),
            point(2920, 0.0009, 26.0),
            point(7300, 0.0, 58.0),
            point(10_220, 0.0005, 59.0),
            point(14_600, 0.008, 84.0),
            point(35_040, 0.029, 83.0),
        ];
        let onset = onset(&swept).expect("points");
        assert_eq!(
            (onset.last_clean, onset.first_lossy),
            (Some(Bytes(10_220)), Some(Bytes(11_680)))
        );
        assert_eq!(
            (onset.best.window, onset.best_clean.map(|p| p.window)),
            (Bytes(14_600), Some(Bytes(10_220)))
        );
        let bracket = SIDEBAND.bracket();
        assert_eq!(onset.within(&bracket, &SIDEBAND), Some(true));
        // 10 950 is 1848 above the fluid form, 3492 below the ACK-clocked one.
        assert_eq!(onset.nearest_form(&bracket), Some((Form::Fluid, 1848)));
    }

    #[test]
    fn an_onset_outside_the_sweep_is_not_invented() {
        let clean = onset(&[point(2920, 0.0, 26.0), point(7300, 0.0, 58.0)]).expect("points");
        assert_eq!((clean.first_lossy, clean.nearest_form(&SIDEBAND.bracket())), (None, None));
        let lossy = onset(&[point(2920, 0.1, 2.0)]).expect("a point");
        assert_eq!((lossy.last_clean, lossy.best_clean), (None, None));
        assert_eq!(onset(&[]), None);
    }
}
