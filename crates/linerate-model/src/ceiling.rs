//! Upper bounds and estimates.

use serde::{Deserialize, Serialize};

use crate::{Direction, Layer, Unit};

/// An upper bound on a measurable, with how it was derived and from which source. It cannot be built without both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ceiling {
    /// What sets the bound, e.g. `ethernet 1 Gbit/s, mtu 1500`.
    pub name: String,
    /// The metric it bounds, e.g. `goodput`.
    pub metric: String,
    /// The bound, in `unit`.
    pub value: f64,
    /// Unit.
    pub unit: Unit,
    /// Layer at which bits or packets are counted.
    pub layer: Option<Layer>,
    /// Direction it bounds.
    pub direction: Direction,
    /// The derivation, line by line.
    pub derivation: Vec<String>,
    /// Standard and clause, data sheet, or what was read where.
    pub source: String,
}

impl Ceiling {
    /// A bound of `value` on the metric called `metric`, whose unit and layer it takes over.
    ///
    /// # Panics
    /// If `metric` is not in [`crate::METRICS`], or the derivation or source is empty: a bound nobody can check is none.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        metric: &str,
        value: f64,
        direction: Direction,
        derivation: Vec<String>,
        source: impl Into<String>,
    ) -> Self {
        let metric = crate::metric(metric).expect("a ceiling bounds a known metric");
        let source = source.into();
        assert!(!derivation.is_empty() && !source.is_empty(), "a ceiling says how it was derived and from where");
        Self {
            name: name.into(),
            metric: metric.name.to_owned(),
            value,
            unit: metric.unit,
            layer: metric.layer,
            direction,
            derivation,
            source,
        }
    }

    /// The same bound counted at another layer than the metric's usual one.
    #[must_use]
    pub fn at_layer(mut self, layer: Layer) -> Self {
        self.layer = Some(layer);
        self
    }
}

/// A value with its confidence interval and the number of runs it stands on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The point estimate (the median of the runs).
    pub value: f64,
    /// Lower end of the interval; `None` if there are too few runs for one.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Confidence achieved by `low..=high`, not the one asked for.
    pub confidence: Option<f64>,
    /// Runs.
    pub n: u32,
}
