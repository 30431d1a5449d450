//! The figures of one trial: values by metric and direction.

use std::collections::BTreeMap;

use linerate_model::{Direction, Metric};

/// Metric and direction of a figure.
pub(super) type Key = (&'static Metric, Direction);

/// Values by metric, in the order of its name, and direction; of infinite ones what they are at
/// least, where that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    values: BTreeMap<Key, f64>,
    at_least: BTreeMap<Key, f64>,
}

impl Figures {
    /// Sets the figure of `metric` in `direction`; a NaN is no figure.
    pub(super) fn put(&mut self, metric: &'static Metric, direction: Direction, value: f64) {
        // NaN comes from a division of two zero counts.
        if !value.is_nan() {
            self.values.insert((metric, direction), value);
        }
    }

    /// Sets the figure of `metric` to infinity, which is `at_least` if that is known.
    pub(super) fn put_unbounded(
        &mut self,
        metric: &'static Metric,
        direction: Direction,
        at_least: Option<f64>,
    ) {
        self.values.insert((metric, direction), f64::INFINITY);
        self.at_least.extend(at_least.map(|bound| ((metric, direction), bound)));
    }

    /// Returns a lower bound of the figure at `key`: the figure itself, or the bound of an infinite
    /// one; infinite if that is not known.
    pub(super) fn at_least(&self, key: Key) -> Option<f64> {
        let value = self.at(key)?;
        Some(if value.is_finite() {
            value
        } else {
            self.at_least.get(&key).copied().unwrap_or(value)
        })
    }

    /// Sets it if there is one.
    pub(super) fn put_some(
        &mut self,
        metric: &'static Metric,
        direction: Direction,
        value: Option<f64>,
    ) {
        if let Some(value) = value {
            self.put(metric, direction, value);
        }
    }

    /// Sets tx and rx where known, and their sum where both are known and neither is zero.
    pub(super) fn put_both(&mut self, metric: &'static Metric, tx: Option<f64>, rx: Option<f64>) {
        self.put_some(metric, Direction::Tx, tx);
        self.put_some(metric, Direction::Rx, rx);
        if let (Some(tx), Some(rx)) = (tx, rx)
            // A one-way load has no sum: it would repeat the direction under another name.
            && tx != 0.0
            && rx != 0.0
        {
            self.put(metric, Direction::Sum, tx + rx);
        }
    }

    /// Returns the figure of `metric` in `direction`.
    pub(super) fn get(&self, metric: &'static Metric, direction: Direction) -> Option<f64> {
        self.at((metric, direction))
    }

    /// Removes the figures that `unwanted` selects by metric, direction and value.
    pub(super) fn remove(&mut self, unwanted: impl Fn(&Metric, Direction, f64) -> bool) {
        self.values.retain(|(metric, way), value| !unwanted(metric, *way, *value));
    }

    /// Returns the keys that have a figure.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.values.keys().copied()
    }

    /// Returns the figure at `key`.
    pub(super) fn at(&self, key: Key) -> Option<f64> {
        self.values.get(&key).copied()
    }

    /// Adds the figures of `more` that are missing here.
    pub(super) fn extend(&mut self, more: Self) {
        for (key, value) in more.values {
            // Figures of the job itself take precedence over those of its hosts.
            self.values.entry(key).or_insert(value);
        }
        for (key, bound) in more.at_least {
            self.at_least.entry(key).or_insert(bound);
        }
    }
}
