//! Upper bounds and estimates.
//!
//! A ceiling says in fields what sets it, for what it holds and whether anything can exceed it. Its
//! name is made of them for a reader ([`Ceiling::name`]); nothing is ever read back out of a name.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::derivation::Line;
use crate::{BitRate, Bytes, Direction, Layer, Metric, ModelName, Unit};

/// Class of the part or model that sets a bound. Rules of diagnosis decide by the class, never by
/// the name that a person chose.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BoundPart {
    /// Class of the part.
    pub class: BoundClass,
    /// The host it is in; empty for what lies between the hosts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Its name there: a capacity, a device, a PCI function, an endpoint.
    pub name: String,
    /// Which side of it, or what else belongs to its name.
    #[serde(default, skip_serializing_if = "PartDetail::is_plain")]
    pub detail: PartDetail,
}

/// Properties of a part beside its place on the path.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartDetail {
    /// Nothing.
    #[default]
    Plain,
    /// A declared capacity is one direction of the edge with this name.
    Edge(String),
    /// An interface, `carrier` being the device that is bounded: itself, or one below it.
    Interface {
        /// The device bounded.
        carrier: String,
        /// True for data that comes in.
        receives: bool,
    },
    /// A queueing discipline.
    Queue {
        /// The device it belongs to.
        carrier: String,
        /// Its kind, e.g. `tbf`.
        discipline: String,
    },
    /// A PCI function.
    Function {
        /// True for data that is written to memory.
        writes: bool,
    },
    /// Several next hops, of which each flow takes one.
    NextHops,
}

impl PartDetail {
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

impl BoundPart {
    /// The thing of this class called `name` at `host`.
    #[must_use]
    pub fn new(class: BoundClass, host: impl Into<String>, name: impl Into<String>) -> Self {
        Self { class, host: host.into(), name: name.into(), detail: PartDetail::Plain }
    }

    /// The same, more exactly.
    #[must_use]
    pub fn with(mut self, detail: PartDetail) -> Self {
        self.detail = detail;
        self
    }

    /// Returns true if both are the same place on the path, on either side of it.
    #[must_use]
    pub fn is_at(&self, other: &Self) -> bool {
        (self.class, &self.host, &self.name) == (other.class, &other.host, &other.name)
    }

    /// Returns the common name of both directions of a declared capacity; for a lab's device the
    /// name of the device.
    #[must_use]
    pub fn edge(&self) -> Option<&str> {
        match &self.detail {
            PartDetail::Edge(edge) => Some(edge),
            _ => None,
        }
    }

    /// Returns the name for readers where the direction is clear: an edge without its direction,
    /// next hops without their rule.
    #[must_use]
    pub fn short_name(&self) -> String {
        match &self.detail {
            PartDetail::Edge(edge) if self.class == BoundClass::Device => format!("device {edge}"),
            PartDetail::Edge(edge) => edge.clone(),
            PartDetail::NextHops => format!("next hops {} of {}", self.name, self.host),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for BoundPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, name, .. } = self;
        // `eth0`, or `eth0 under vxlan0`.
        let called = |carrier: &str| {
            if carrier == name { name.clone() } else { format!("{carrier} under {name}") }
        };
        match &self.detail {
            PartDetail::Plain | PartDetail::Edge(_) => f.write_str(name),
            PartDetail::Interface { carrier, receives } => {
                let way = if *receives { "receiving" } else { "sending" };
                write!(f, "{} of {host} ({way})", called(carrier))
            }
            PartDetail::Queue { carrier, discipline } => {
                write!(f, "{discipline} on {} of {host}", called(carrier))
            }
            PartDetail::Function { writes } => {
                write!(f, "{name} of {host} ({})", if *writes { "writing" } else { "reading" })
            }
            PartDetail::NextHops => write!(f, "next hops {name} of {host}, one a flow"),
        }
    }
}

/// The parts one after the other, each as `named`.
fn joined(parts: &[BoundPart], named: impl Fn(&BoundPart) -> String) -> String {
    parts.iter().map(named).collect::<Vec<_>>().join(" + ")
}

/// Subject of a ceiling: the part or model that sets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CeilingSubject {
    /// A calculator's model of a part of this class, with its parameters: `ethernet 1 Gbit/s, mtu
    /// 1500`.
    Model {
        /// Class of the modelled part.
        class: BoundClass,
        /// The model and its parameters; untyped data has a text.
        #[serde(rename = "model", alias = "text")]
        name: ModelName,
    },
    /// One part of the path, as a flow crosses it.
    Part {
        /// The part.
        part: BoundPart,
        /// How much crosses it per second.
        rate: BitRate,
        /// IP MTU on it.
        mtu: Bytes,
    },
    /// Parts that are full together.
    Parts(Vec<BoundPart>),
    /// The window that an endpoint advertises, over the round-trip time.
    Window(BoundPart),
}

impl From<ModelName> for CeilingSubject {
    fn from(name: ModelName) -> Self {
        Self::Model { class: BoundClass::default(), name }
    }
}

impl From<String> for CeilingSubject {
    fn from(text: String) -> Self {
        // Ledgers before typed subjects stored the name alone.
        Self::from(ModelName::Text(text))
    }
}

impl From<&str> for CeilingSubject {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl CeilingSubject {
    /// Returns the parts of the measured path that set it; several where their sum does.
    #[must_use]
    pub fn parts(&self) -> &[BoundPart] {
        match self {
            Self::Model { .. } => &[],
            Self::Part { part, .. } | Self::Window(part) => core::slice::from_ref(part),
            Self::Parts(parts) => parts,
        }
    }

    /// Returns the class of the part that sets it; a bus if one of several parts is one.
    #[must_use]
    pub fn class(&self) -> BoundClass {
        if let Self::Model { class, .. } = self {
            return *class;
        }
        let parts = self.parts();
        match parts.first() {
            // Rules for buses must see a bus even if links are full at the same time.
            Some(_) if parts.iter().any(|part| part.class == BoundClass::Bus) => BoundClass::Bus,
            Some(first) => first.class,
            None => BoundClass::default(),
        }
    }

    /// Returns the name of the limiting part without its direction, rate and MTU.
    #[must_use]
    pub fn short_name(&self) -> String {
        match self {
            Self::Part { part, .. } => part.short_name(),
            Self::Parts(parts) => joined(parts, BoundPart::short_name),
            Self::Model { .. } | Self::Window(_) => self.to_string(),
        }
    }
}

impl fmt::Display for CeilingSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model { name, .. } => name.fmt(f),
            Self::Part { part, rate, mtu } => write!(f, "{part}, {rate}, mtu {}", mtu.0),
            Self::Parts(parts) => f.write_str(&joined(parts, BoundPart::to_string)),
            Self::Window(_) => f.write_str("peer window over round-trip time"),
        }
    }
}

/// Scope of a ceiling: the jobs that it bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CeilingScope {
    /// Every job that crosses its subject, as with the ceilings of calculators.
    #[default]
    Any,
    /// One job of a point.
    Job {
        /// Its number among those of the point.
        job: u32,
        /// The endpoints it is between, where other jobs run beside it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pair: Option<(String, String)>,
    },
    /// All measured jobs of a point together.
    AllJobs,
}

/// Kind of a ceiling: hard, or only expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CeilingKind {
    /// Nothing can exceed it.
    #[default]
    Hard,
    /// It comes from readings and bounds nothing.
    Expected,
}

/// An upper bound on a measurable, with how it was derived and from which source. It cannot be
/// built without both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[must_use]
pub struct Ceiling {
    /// The part or model that sets it.
    pub subject: CeilingSubject,
    /// Hard bound or expected value.
    #[serde(default)]
    pub kind: CeilingKind,
    /// The jobs that it bounds.
    #[serde(default)]
    pub scope: CeilingScope,
    /// The metric it bounds, e.g. `goodput`.
    pub metric: &'static Metric,
    /// The bound, in `unit`.
    pub value: f64,
    /// Unit.
    pub unit: Unit,
    /// Layer at which bits or packets are counted.
    pub layer: Option<Layer>,
    /// Direction it bounds.
    pub direction: Direction,
    /// The derivation, line by line.
    #[serde(rename = "derived", alias = "derivation")]
    pub derivation: Vec<Line>,
    /// Standard and clause, data sheet, or what was read where.
    pub source: String,
}

impl Ceiling {
    /// Returns a hard bound of `value` on `metric`, with the unit and layer of the metric.
    ///
    /// # Panics
    /// If the derivation or the source is empty: nobody could check the bound.
    pub fn new(
        subject: impl Into<CeilingSubject>,
        metric: &'static Metric,
        value: f64,
        direction: Direction,
        derivation: Vec<Line>,
        source: impl Into<String>,
    ) -> Self {
        let source = source.into();
        // A bound that nobody can check is worse than none.
        assert!(
            !derivation.is_empty() && !source.is_empty(),
            "a ceiling says how it was derived and from where"
        );
        Self {
            subject: subject.into(),
            kind: CeilingKind::Hard,
            scope: CeilingScope::Any,
            metric,
            value,
            unit: metric.unit,
            layer: metric.layer,
            direction,
            derivation,
            source,
        }
    }

    /// The same bound of a model, which is of a thing of this class. What parts set keeps theirs.
    pub fn of(mut self, class: BoundClass) -> Self {
        // The parts of a path bring their own class, which a caller must not change.
        if let CeilingSubject::Model { class: known, .. } = &mut self.subject {
            *known = class;
        }
        self
    }

    /// The same bound, of this scope.
    pub fn holding_for(mut self, scope: CeilingScope) -> Self {
        self.scope = scope;
        self
    }

    /// The same as an expected value, which bounds nothing.
    pub fn expected(mut self) -> Self {
        self.kind = CeilingKind::Expected;
        self
    }

    /// The same bound counted at another layer than the metric's usual one.
    pub fn at_layer(mut self, layer: Layer) -> Self {
        self.layer = Some(layer);
        self
    }

    /// Returns true if no figure can exceed it.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.kind == CeilingKind::Hard
    }

    /// Returns the class of the part that sets it.
    #[must_use]
    pub fn class(&self) -> BoundClass {
        self.subject.class()
    }

    /// Returns the name for readers: part and scope, with the prefix `expected: ` for a value that
    /// bounds nothing.
    #[must_use]
    pub fn name(&self) -> String {
        let expected = if self.is_hard() { "" } else { "expected: " };
        // Parts carry no direction of their own, so the sum is named here.
        let both =
            matches!(self.subject, CeilingSubject::Parts(_)) && self.direction == Direction::Sum;
        let scope = match &self.scope {
            CeilingScope::AllJobs => ", all jobs".to_owned(),
            CeilingScope::Any => String::new(),
            CeilingScope::Job { pair, .. } => {
                let both = if both { ", both directions" } else { "" };
                let pair = pair
                    .as_ref()
                    .map_or_else(String::new, |(from, to)| format!(", {from} to {to}"));
                format!("{both}{pair}")
            }
        };
        format!("{expected}{}{scope}", self.subject)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric;

    fn ceiling(
        subject: impl Into<CeilingSubject>,
        direction: Direction,
        scope: CeilingScope,
    ) -> Ceiling {
        Ceiling::new(subject, metric::GOODPUT, 1e9, direction, vec!["by hand".into()], "declared")
            .holding_for(scope)
    }

    fn beside() -> CeilingScope {
        CeilingScope::Job { job: 0, pair: Some(("a".into(), "b".into())) }
    }

    #[test]
    fn a_name_is_made_of_what_sets_it_and_for_what() {
        let edge = |name: &str, edge: &str| {
            BoundPart::new(BoundClass::Bus, "", name).with(PartDetail::Edge(edge.to_owned()))
        };
        let part = CeilingSubject::Part {
            part: edge("bus, a to b", "bus"),
            rate: BitRate(1e9),
            mtu: Bytes(1500),
        };
        let one = ceiling(part, Direction::Tx, beside());
        assert_eq!(
            (one.name().as_str(), one.subject.short_name().as_str()),
            ("bus, a to b, 1 Gbit/s, mtu 1500, a to b", "bus")
        );
        let parts = CeilingSubject::Parts(vec![edge("x, a to b", "x"), edge("y, a to b", "y")]);
        assert_eq!(
            ceiling(parts.clone(), Direction::Tx, CeilingScope::AllJobs).name(),
            "x, a to b + y, a to b, all jobs"
        );
        let both = ceiling(parts, Direction::Sum, beside());
        assert_eq!(both.name(), "x, a to b + y, a to b, both directions, a to b");
        assert_eq!(both.subject.short_name(), "x + y");
        let window = CeilingSubject::Window(BoundPart::new(BoundClass::Window, "h", "b"));
        let window = ceiling(window, Direction::Tx, beside()).expected();
        assert_eq!(window.name(), "expected: peer window over round-trip time, a to b");
        assert_eq!((window.class(), window.is_hard()), (BoundClass::Window, false));
    }

    #[test]
    fn the_name_of_a_model_is_read_as_data_and_as_text() {
        let subject = CeilingSubject::from(ModelName::SlowLink(BitRate(1e8)));
        let text = serde_json::to_string(&subject).expect("plain data");
        assert_eq!(serde_json::from_str::<CeilingSubject>(&text).expect("as written"), subject);
        let old = r#"{"model": {"class": "link", "text": "slow link of 100 Mbit/s"}}"#;
        let old: CeilingSubject = serde_json::from_str(old).expect("as versions before wrote it");
        assert_eq!(old, CeilingSubject::from("slow link of 100 Mbit/s"));
        assert_eq!(old.to_string(), subject.to_string());
    }

    #[test]
    fn parts_are_told_apart_by_their_side() {
        let interface = |carrier: &str, receives| {
            let detail = PartDetail::Interface { carrier: carrier.to_owned(), receives };
            BoundPart::new(BoundClass::Interface, "h", "vxlan0").with(detail)
        };
        let (near, far) = (interface("eth0", false), interface("vxlan0", true));
        assert_eq!(
            (near.to_string().as_str(), far.to_string().as_str()),
            ("eth0 under vxlan0 of h (sending)", "vxlan0 of h (receiving)")
        );
        assert!(near.is_at(&far) && near != far);
        assert!(!near.is_at(&BoundPart { host: "g".into(), ..far }));
    }
}
