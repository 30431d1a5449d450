//! Readings over time: a value above the bound of the path in its interval becomes a gap.

use std::collections::BTreeMap;

use linerate_model::{Direction, Nanos, metric};

use super::path::{self, Edges};
use super::{Gate, Limits};
use crate::study::series::Counted;
use crate::study::span::Span;

/// Series by name, as they may be drawn; `None` is a gap.
type Series = BTreeMap<String, Vec<Option<f64>>>;

/// Series that a ceiling bounds, the metric of that ceiling, and the direction.
const BOUNDED: [(&str, &str, Direction); 2] = [
    ("goodput_tx", metric::GOODPUT, Direction::Tx),
    ("goodput_rx", metric::GOODPUT, Direction::Rx),
];

impl Gate<'_> {
    /// Returns the part of `counted` that may be drawn: the ends of the intervals in seconds, and
    /// the series.
    pub(in crate::study) fn series(&self, counted: Counted) -> (Vec<f64>, Series) {
        let Counted { seconds, width, mut series } = counted;
        let interval = Span { from: self.span.from, to: self.span.from + width };
        for (name, values) in &mut series {
            let bounded = BOUNDED.iter().find(|(of, ..)| of == name);
            let bound =
                bounded.and_then(|(_, metric, way)| Some((self.ceiling(metric, *way)?, *way)));
            let most = bound.map_or(f64::INFINITY, |(bound, way)| {
                let whole = Span { from: Nanos(0), to: self.span.to };
                let edges = Edges::of_any(self.jobs, way, whole);
                bound.ceiling.value * (1.0 + path::tolerance(bound, edges, interval, self.doubt))
            });
            let known = bounded.map_or(name.as_str(), |(_, metric, _)| *metric);
            let limits = metric(known)
                .map(|metric| Limits::of(metric, bound.map(|(bound, _)| bound.ceiling.value)));
            for value in values.iter_mut() {
                let fits = value.filter(|value| *value <= most);
                *value = fits.map(|value| limits.map_or(value + 0.0, |limits| limits.cut(value)));
            }
        }
        (seconds, series)
    }
}
