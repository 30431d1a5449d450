//! Section `overhead`: cost of the measurement itself: samplers, engine step, start skew.
//!
//! Not observed: cache lines that the samplers displace. A campaign without samplers shows that.

use super::{Section, Subject};
use crate::document::{Block, Sheet};
use crate::number::Scale;

/// Section `overhead`.
pub(super) const SECTION: Section = Section {
    name: "overhead",
    title: "Overhead of the measurement",
    summary: "CPU taken by the samplers, cost of an engine step, start skew",
    order: 120,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let overhead = &subject.study.overhead;
    let mut rows: Vec<(String, String, f64)> = overhead
        .samplers
        .iter()
        .map(|(host, cores)| {
            (format!("samplers on {host}"), "% of one core".to_owned(), cores * 100.0)
        })
        .collect();
    rows.extend(
        overhead.null_step_ns.map(|ns| ("one engine step (null workload)".into(), "ns".into(), ns)),
    );
    rows.extend(overhead.worst_start_skew_ns.map(|ns| {
        ("largest start skew, clock uncertainty added".into(), "µs".into(), ns as f64 / 1e3)
    }));
    if rows.is_empty() {
        return Vec::new();
    }
    let mut sheet = Sheet::new(rows);
    sheet.text("of what", |(what, ..)| what.clone());
    sheet.number("figure", Scale::COUNT, |(.., figure)| *figure);
    sheet.text("unit", |(_, unit, _)| unit.clone());
    let table = sheet.plain("overhead-cost", "Cost of measuring");
    vec![Block::Table(table)]
}
