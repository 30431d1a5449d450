//! Points of a trial as columns of a chart.

use linerate_campaign::live::{LivePoint, LiveTrial};
use linerate_model::{Nanos, Unit, metric};
use linerate_report::live::in_unit;

/// One figure over the time of a trial.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) name: &'static str,
    /// Part of the chart's height.
    pub(super) height: u16,
    unit: Unit,
    /// Figure of each column; `None` if nothing was measured yet.
    values: Vec<Option<f64>>,
    /// Ceiling of the figure.
    ceiling: Option<f64>,
}

impl Track {
    /// Height of a full column.
    pub(super) const FULL: u64 = 1_000_000;

    /// Returns whether anything was measured.
    pub(super) fn has_figures(&self) -> bool {
        self.values.iter().any(Option::is_some)
    }

    fn most(&self) -> f64 {
        self.values.iter().flatten().copied().filter(|value| value.is_finite()).fold(0.0, f64::max)
    }

    /// Returns the value of a full column.
    fn full(&self) -> f64 {
        /// Part of a ceiling below which columns would show nothing.
        const LEGIBLE: f64 = 0.25;
        let most = self.most();
        self.ceiling.filter(|ceiling| most >= LEGIBLE * ceiling).map_or(most, |one| one.max(most))
    }

    /// Returns the value of a full column with its unit.
    pub(super) fn top(&self) -> String {
        in_unit(self.unit, self.full())
    }

    /// Returns columns of `height` rows for a sparkline.
    pub(super) fn bars(&self, height: u16) -> Vec<Option<u64>> {
        let full = self.full();
        // The smallest character of a column is an eighth of a row.
        let least = Self::FULL / (8 * u64::from(height.max(1))) + 1;
        self.values.iter().map(|value| value.map(|value| bar(value, full, least))).collect()
    }
}

/// Returns the height of a column.
fn bar(value: f64, full: f64, least: u64) -> u64 {
    let part = if full > 0.0 { (value / full).clamp(0.0, 1.0) } else { 0.0 };
    let bar = (part * Track::FULL as f64) as u64;
    // One retransmission among thousands is not none.
    if value > 0.0 { bar.max(least) } else { bar }
}

/// Returns the tracks of a trial, `width` columns over the whole time of its load.
pub(super) fn columns(points: &[LivePoint], trial: &LiveTrial, width: usize) -> [Track; 3] {
    let mut merged: Vec<Option<LivePoint>> = vec![None; width];
    let loaded = u128::from(trial.loaded.0.max(1));
    for point in points {
        let column = |at: Nanos| (u128::from(at.0) * width as u128 / loaded) as usize;
        let (from, until) = (column(point.from), column(point.until));
        // A point that is narrower than a column still counts in one.
        for column in merged.iter_mut().take(until.max(from + 1)).skip(from) {
            *column = Some(column.map_or(*point, |before| before.joined(point)));
        }
    }
    let values = |of: fn(&LivePoint) -> Option<f64>| {
        merged.iter().map(|point| point.as_ref().and_then(of)).collect::<Vec<_>>()
    };
    let ceilings: Vec<f64> = trial.ceilings.iter().flatten().copied().collect();
    let goodput = Track {
        name: metric::GOODPUT.name,
        height: 5,
        unit: Unit::BitPerSecond,
        values: values(|point| Some(point.goodput[0] + point.goodput[1])),
        ceiling: ceilings.iter().copied().reduce(f64::max),
    };
    let rtt = Track {
        name: metric::RTT.name,
        height: 3,
        unit: Unit::Second,
        values: values(|point| point.rtt.or(point.response)),
        ceiling: None,
    };
    let retransmits = Track {
        name: metric::RETRANSMITS.name,
        height: 2,
        unit: Unit::Count,
        values: values(|point| point.retransmits.map(|n| n as f64)),
        ceiling: None,
    };
    [goodput, rtt, retransmits]
}

#[cfg(test)]
mod tests {
    use linerate_campaign::live::LiveEnd;
    use linerate_model::{Point, TrialId};

    use super::*;

    fn trial(ceiling: Option<f64>) -> LiveTrial {
        LiveTrial {
            id: TrialId(0),
            number: 1,
            sweep: "s".into(),
            point: Point::new(),
            repeat: 0,
            workloads: Vec::new(),
            ends: [LiveEnd::default(), LiveEnd::default()],
            warmup: Nanos(0),
            loaded: Nanos::from_secs(10),
            ceilings: [ceiling, None],
        }
    }

    fn point(from_ms: u64, until_ms: u64, bits: f64, retransmits: u64) -> LivePoint {
        LivePoint {
            from: Nanos::from_millis(from_ms),
            until: Nanos::from_millis(until_ms),
            goodput: [bits, 0.0],
            retransmits: Some(retransmits),
            ..LivePoint::default()
        }
    }

    #[test]
    fn a_column_is_at_the_place_of_its_time_and_the_rest_is_empty() {
        let points = [point(0, 1000, 1e6, 0), point(1000, 2000, 3e6, 0)];
        let [goodput, rtt, _] = columns(&points, &trial(None), 20);
        let values: Vec<f64> = goodput.values.iter().flatten().copied().collect();
        assert_eq!(values, [1e6, 1e6, 3e6, 3e6]);
        assert!(goodput.values[4..].iter().all(Option::is_none));
        assert!(!rtt.has_figures());
        // Two seconds in each column: the mean.
        let [goodput, ..] = columns(&points, &trial(None), 5);
        assert_eq!(goodput.values, [Some(2e6), None, None, None, None]);
    }

    #[test]
    fn a_full_column_is_the_ceiling_unless_columns_would_be_too_low_to_read() {
        let points = [point(0, 1000, 5e6, 0)];
        let top = |ceiling| columns(&points, &trial(ceiling), 10)[0].full();
        assert_eq!([Some(10e6), Some(1e9), None, Some(4e6)].map(top), [10e6, 5e6, 5e6, 5e6]);
    }

    #[test]
    fn one_retransmission_beside_a_thousand_is_seen_and_none_is_not() {
        let points =
            [point(0, 1000, 1.0, 1), point(1000, 2000, 1.0, 1000), point(2000, 3000, 1.0, 0)];
        let [_, _, retransmits] = columns(&points, &trial(None), 10);
        let bars = retransmits.bars(2);
        // An eighth of two rows, all of it, and nothing.
        assert_eq!(bars[..3], [Some(Track::FULL / 16 + 1), Some(Track::FULL), Some(0)]);
        assert_eq!(bars[3], None);
    }
}
