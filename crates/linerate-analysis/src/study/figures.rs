//! The figures of one trial: values by metric and direction.

use std::collections::BTreeMap;

use linerate_model::{Direction, METRICS, Metric};

/// Values by metric, in the order of [`METRICS`], and direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures(BTreeMap<(usize, Direction), f64>);

impl Figures {
    /// Sets the figure of `metric` in `direction`; a NaN is no figure.
    pub(super) fn put(&mut self, metric: &str, direction: Direction, value: f64) {
        let place = METRICS.iter().position(|known| known.name == metric).expect("a figure is of a known metric");
        if !value.is_nan() {
            self.0.insert((place, direction), value);
        }
    }

    /// Sets it if there is one.
    pub(super) fn put_some(&mut self, metric: &str, direction: Direction, value: Option<f64>) {
        if let Some(value) = value {
            self.put(metric, direction, value);
        }
    }

    /// Sets tx and rx where known, and their sum where both are known and neither is zero.
    pub(super) fn put_both(&mut self, metric: &str, tx: Option<f64>, rx: Option<f64>) {
        self.put_some(metric, Direction::Tx, tx);
        self.put_some(metric, Direction::Rx, rx);
        if let (Some(tx), Some(rx)) = (tx, rx)
            && tx != 0.0
            && rx != 0.0
        {
            self.put(metric, Direction::Sum, tx + rx);
        }
    }

    /// The figure of `metric` in `direction`.
    pub(super) fn get(&self, metric: &str, direction: Direction) -> Option<f64> {
        let place = METRICS.iter().position(|known| known.name == metric)?;
        self.0.get(&(place, direction)).copied()
    }

    /// Takes away what `unwanted` picks by metric, direction and value.
    pub(super) fn remove(&mut self, unwanted: impl Fn(&str, Direction, f64) -> bool) {
        self.0.retain(|(place, way), value| !unwanted(METRICS[*place].name, *way, *value));
    }

    /// Which metrics have a figure.
    pub(super) fn keys(&self) -> impl Iterator<Item = (usize, Direction)> + '_ {
        self.0.keys().copied()
    }

    /// The figure at `key`.
    pub(super) fn at(&self, key: (usize, Direction)) -> Option<f64> {
        self.0.get(&key).copied()
    }

    /// Adds what `more` has and this has not.
    pub(super) fn extend(&mut self, more: Self) {
        for (key, value) in more.0 {
            self.0.entry(key).or_insert(value);
        }
    }
}

/// The metric at a key's place.
pub(super) fn metric_at(place: usize) -> &'static Metric {
    &METRICS[place]
}
