//! Readings over time: a value above the bound of the path in its interval becomes a gap.

use std::collections::BTreeMap;

use linerate_model::{Nanos, metric};

use super::path::{self, Edges};
use super::{Gate, Limits};
use crate::study::series::{Counted, IntervalSeries};
use crate::study::span::Span;

/// Series as they may be drawn; `None` is a gap.
type Series = BTreeMap<IntervalSeries, Vec<Option<f64>>>;

impl Gate<'_> {
    /// Returns the part of `counted` that may be drawn: the ends of the intervals in seconds, and
    /// the series.
    pub(in crate::study) fn series(&self, counted: Counted) -> (Vec<f64>, Series) {
        let Counted { seconds, width, mut series } = counted;
        let interval = Span { from: self.span.from, to: self.span.from + width };
        for (name, values) in &mut series {
            // Only goodput has a direction here and a ceiling that holds interval by interval.
            let bounded = match name {
                IntervalSeries::Directed(metric, way) if *metric == metric::GOODPUT => Some(*way),
                _ => None,
            };
            let bound = bounded.and_then(|way| Some((self.ceiling(metric::GOODPUT, way)?, way)));
            let most = bound.map_or(f64::INFINITY, |(bound, way)| {
                // Any reading may include bytes that arrived earlier in the trial, not only within
                // the span.
                let whole = Span { from: Nanos(0), to: self.span.to };
                let edges = Edges::of_any(self.jobs, way, whole);
                bound.ceiling.value * (1.0 + path::tolerance(bound, edges, interval, self.doubt))
            });
            let limits = name
                .metric()
                .map(|metric| Limits::of(metric, bound.map(|(bound, _)| bound.ceiling.value)));
            for value in values.iter_mut() {
                // A gap and no cut value: one interval above the ceiling is an artefact of reading,
                // not a rate at the ceiling.
                let fits = value.filter(|value| *value <= most);
                *value = fits.map(|value| limits.map_or(value + 0.0, |limits| limits.cut(value)));
            }
        }
        (seconds, series)
    }
}
