//! One-way times between two clocks. An error of the clocks moves all of them by the same amount,
//! so they are admitted or withheld together.

use linerate_model::{Direction, Metric, Statistic, Times, metric};

use super::{Figures, Refusal};
use crate::statistics::Percentile;
use crate::study::traffic::Distributions;

/// One-way times of a job.
const ONE_WAY: [Times; 2] = [Times::Service, Times::Response];
/// Nanoseconds in a second.
const NANOS: f64 = 1e9;

/// Accuracy of the one-way times of a job: their possible error in seconds, and the directions
/// whose median is no longer than that.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::study) struct OneWay {
    doubt: Option<f64>,
    withheld: [bool; 2],
}

impl OneWay {
    /// Returns the accuracy according to `figures`.
    pub(super) fn of(figures: &Figures) -> Self {
        let doubt = figures.get(metric::CLOCK_UNCERTAINTY, Direction::Sum);
        Self { doubt, withheld: ONE_WAY.map(|times| is_withheld(times, figures, doubt)) }
    }

    /// Returns the reason why `value` of `metric` is not a figure, if any.
    pub(super) fn refuses(&self, metric: &'static Metric, value: f64) -> Option<Refusal> {
        let place = ONE_WAY.iter().position(|times| metric.times == Some(*times))?;
        let (doubt, of_withheld) = (self.doubt?, self.withheld[place]);
        (of_withheld || value <= doubt)
            .then_some(Refusal::WithinClocks { seconds: value, uncertainty: doubt })
    }

    /// Takes the times that are no figures out of `times`, whole: their percentiles are as wrong as
    /// their median.
    pub(in crate::study) fn admit(&self, times: &mut Distributions) {
        if self.withheld[0] {
            times.service = Default::default();
        }
        if self.withheld[1] {
            times.response = Default::default();
        }
    }

    /// Returns the possible error of its times, ns; `None` where both ends share a clock.
    pub(in crate::study) fn doubt_ns(&self) -> Option<f64> {
        self.doubt.map(|seconds| seconds * NANOS)
    }
}

/// Returns whether the clocks are too uncertain for `times`.
fn is_withheld(times: Times, figures: &Figures, doubt: Option<f64>) -> bool {
    let is_median = |known: &&Metric| known.statistic == Some(Statistic::Quantile(0.5));
    // The median decides for all percentiles, because the clocks move them by the same amount.
    let median = times.metrics().find(is_median);
    let median = median.and_then(|median| figures.get(median, Direction::Sum));
    // Without a median most datagrams were lost, and the rest proves little.
    doubt.is_some_and(|doubt| median.is_none_or(|median| median <= doubt))
}

/// Returns the `percentile` with the clocks' uncertainty added to both ends of its interval.
pub(in crate::study) fn widened(percentile: Percentile, doubt_ns: f64) -> Percentile {
    // Rounded up: an uncertainty must not shrink.
    let doubt = doubt_ns.ceil() as u64;
    Percentile {
        low_ns: percentile.low_ns.map(|low| low.saturating_sub(doubt)),
        high_ns: percentile.high_ns.map(|high| high.saturating_add(doubt)),
        ..percentile
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Distribution;

    use super::*;

    fn figures(median: f64, doubt: f64) -> Figures {
        let mut figures = Figures::default();
        for (metric, value) in [
            (metric::SERVICE_TIME_P50, median),
            (metric::SERVICE_TIME_P99, 12.76e-3),
            (metric::CLOCK_UNCERTAINTY, doubt),
        ] {
            figures.put(metric, Direction::Sum, value);
        }
        figures
    }

    #[test]
    fn a_tail_passes_no_more_than_its_median() {
        let one_way = OneWay::of(&figures(11.9e-3, 12e-3));
        assert_eq!(
            one_way.refuses(metric::SERVICE_TIME_P99, 12.76e-3),
            Some(Refusal::WithinClocks { seconds: 12.76e-3, uncertainty: 12e-3 })
        );
        assert_eq!(
            one_way.refuses(metric::DELAY_VARIATION, 1e-3),
            None,
            "the same error twice is none"
        );
        let mut times = Distributions {
            service: Distribution::of(vec![(11_900_000, 9)]),
            ..Distributions::default()
        };
        one_way.admit(&mut times);
        assert!(times.service.is_empty());
        let known = OneWay::of(&figures(12.1e-3, 12e-3));
        assert_eq!(known.refuses(metric::SERVICE_TIME_P99, 12.76e-3), None);
        assert!(known.refuses(metric::SERVICE_TIME_MIN, 11e-3).is_some(), "each by itself too");
    }

    #[test]
    fn times_on_one_clock_are_not_concerned() {
        let mut figures = figures(1e-6, 1.0);
        figures.remove(|metric, _, _| metric == metric::CLOCK_UNCERTAINTY);
        assert_eq!(OneWay::of(&figures).refuses(metric::SERVICE_TIME_P50, 1e-6), None);
        assert_eq!(OneWay::of(&figures), OneWay::default());
    }
}
