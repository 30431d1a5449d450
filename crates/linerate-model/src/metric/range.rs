//! Values that a metric can take at all: its range, and whether it counts whole things.
//!
//! A share of time is read from clocks that tick, so it may come out a little above one; a share of things counted may not.

use super::{Metric, Unit};

/// Ratios that are no shares of a whole: they may exceed one.
const FREE_RATIOS: [&str; 7] = [
    "cycles_per_instruction",
    "depth_error",
    "device_share",
    "pacing_error",
    "receive_queue",
    "steady_range",
    "steady_trend",
];
/// Shares of things counted, exact to rounding. All other shares are shares of time.
const COUNTED_SHARES: [&str; 7] =
    ["all_links_used", "fairness", "link_balance", "loss_ratio", "remote_cpus", "retransmit_ratio", "window_swing"];
/// CPU time of one thread: never more than one core.
const OF_ONE_THREAD: [&str; 2] = ["receiver_cpu", "sender_cpu"];
/// Differences, which may be negative.
const SIGNED: [&str; 2] = ["delay_variation_min", "delay_variation_p50"];
/// Counts of events in a trial. Intervals at the edges of the measurement are apportioned by time, so that they come out as fractions.
const WHOLE: [&str; 11] = [
    "controller_dropped",
    "controller_received",
    "duplicates",
    "ecn_marks",
    "late",
    "lost",
    "reordered",
    "retransmits",
    "softnet_dropped",
    "softnet_squeezed",
    "transfer_errors",
];

/// The values that a metric can take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricRange {
    /// The smallest; `None` of a difference.
    pub least: Option<f64>,
    /// The largest; `None` where only a ceiling of the path bounds it.
    pub most: Option<f64>,
    /// Whether it is a share of time, known only as well as the clocks it was read from.
    pub of_time: bool,
    /// Whether it counts whole things in one trial.
    pub whole: bool,
}

impl Metric {
    /// The values that this metric can take.
    #[must_use]
    pub fn range(&self) -> MetricRange {
        let of_thread = OF_ONE_THREAD.contains(&self.name);
        let is_share = self.unit == Unit::Ratio && !FREE_RATIOS.contains(&self.name);
        MetricRange {
            least: (!SIGNED.contains(&self.name)).then_some(0.0),
            most: (is_share || of_thread).then_some(1.0),
            of_time: of_thread || is_share && !COUNTED_SHARES.contains(&self.name),
            whole: WHOLE.contains(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{METRICS, metric};

    #[test]
    fn every_name_listed_here_is_a_metric() {
        let listed = FREE_RATIOS.iter().chain(&COUNTED_SHARES).chain(&OF_ONE_THREAD).chain(&SIGNED).chain(&WHOLE);
        let unknown: Vec<_> = listed.filter(|name| metric(name).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn a_share_lies_between_nothing_and_all_and_a_rate_has_no_upper_end() {
        let range = |name| metric(name).expect("a metric").range();
        assert_eq!((range("sender_busy").least, range("sender_busy").most), (Some(0.0), Some(1.0)));
        assert!(range("sender_busy").of_time && !range("loss_ratio").of_time);
        assert_eq!((range("goodput").most, range("cycles_per_instruction").most), (None, None));
        assert_eq!(range("delay_variation_min").least, None);
        assert!(range("lost").whole && !METRICS.iter().any(|of| of.range().whole && of.unit != Unit::Count));
    }
}
