//! Values that a metric can take at all: its range, and whether it counts whole things.
//!
//! A share of time is read from clocks that tick, so it may come out a little above one; a share of
//! things counted may not.

use super::{Metric, Unit};

/// A column of the table: what sets the values of a metric apart from others of its unit. All other
/// ratios are shares of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// As its unit says.
    Plain,
    /// A ratio that is no share of a whole: it may exceed one.
    FreeRatio,
    /// A share of things counted, exact to rounding.
    ShareOfCounts,
    /// CPU time of one thread: never more than one core.
    CpuOfOneThread,
    /// A difference, which may be negative.
    Difference,
    /// A count of events in a trial. Intervals at the edges of the measurement are apportioned by
    /// time, so that it comes out as a fraction.
    Whole,
}

/// The values that a metric can take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricRange {
    /// The smallest; `None` of a difference.
    pub least: Option<f64>,
    /// The largest; `None` where only a ceiling of the path bounds it.
    pub most: Option<f64>,
    /// True for a share of time, known only as well as the clocks it was read from.
    pub of_time: bool,
    /// True if it counts whole things in one trial.
    pub whole: bool,
}

impl Metric {
    /// The values that this metric can take.
    #[must_use]
    pub fn range(&self) -> MetricRange {
        let of_thread = self.values == Values::CpuOfOneThread;
        // Only a part of a whole is bounded by one.
        let is_share = self.unit == Unit::Ratio && self.values != Values::FreeRatio;
        MetricRange {
            least: (self.values != Values::Difference).then_some(0.0),
            most: (is_share || of_thread).then_some(1.0),
            // Clocks tick, so a share of time may be slightly above one.
            of_time: of_thread || is_share && self.values != Values::ShareOfCounts,
            whole: self.values == Values::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{METRICS, metric};

    #[test]
    fn a_share_lies_between_nothing_and_all_and_a_rate_has_no_upper_end() {
        let busy = metric::SENDER_BUSY.range();
        assert_eq!((busy.least, busy.most), (Some(0.0), Some(1.0)));
        assert!(busy.of_time && !metric::LOSS_RATIO.range().of_time);
        assert_eq!(metric::GOODPUT.range().most, None);
        assert_eq!(metric::CYCLES_PER_INSTRUCTION.range().most, None);
        assert_eq!(metric::DELAY_VARIATION_MIN.range().least, None);
        assert!(
            metric::LOST.range().whole
                && !METRICS.iter().any(|of| of.range().whole && of.unit != Unit::Count)
        );
    }
}
