//! Upper bounds and estimates.

use serde::{Deserialize, Serialize};

use crate::{Direction, Layer, Unit};

/// What kind of thing sets a bound. Rules of diagnosis decide by it, never by what somebody called the thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundClass {
    /// A bus of a host: a slot, a bridge, what several devices share inside.
    Bus,
    /// A device in the path, such as a switch or a filter.
    Device,
    /// A network interface and its cable.
    Interface,
    /// A cable, or what stands for one.
    #[default]
    Link,
    /// A queueing discipline that shapes.
    Queue,
    /// A window of a transport protocol.
    Window,
}

/// One thing that sets a bound, as the stages of a path know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BoundPart {
    /// What kind of thing.
    pub class: BoundClass,
    /// The host it is in; empty for what lies between the hosts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Its name there: a capacity, a device, a PCI function, an endpoint.
    pub name: String,
}

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
    /// What kind of thing sets it; a bus where any of several is one.
    #[serde(default)]
    pub class: BoundClass,
    /// Whether nothing can exceed it. An expected value comes from readings and bounds nothing.
    #[serde(default = "yes")]
    pub hard: bool,
    /// What sets it, as far as it is on the path measured; several where their sum does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<BoundPart>,
}

fn yes() -> bool {
    true
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
            class: BoundClass::default(),
            hard: true,
            parts: Vec::new(),
        }
    }

    /// The same bound, set by a thing of this class.
    #[must_use]
    pub fn of(mut self, class: BoundClass) -> Self {
        self.class = class;
        self
    }

    /// The same bound, set by these things of the path.
    #[must_use]
    pub fn set_by(mut self, parts: Vec<BoundPart>) -> Self {
        let is_bus = |part: &BoundPart| part.class == BoundClass::Bus;
        self.class = match parts.first() {
            Some(_) if parts.iter().any(is_bus) => BoundClass::Bus,
            Some(first) => first.class,
            None => self.class,
        };
        self.parts = parts;
        self
    }

    /// The same as an expected value, which bounds nothing.
    #[must_use]
    pub fn expected(mut self) -> Self {
        self.hard = false;
        self
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
