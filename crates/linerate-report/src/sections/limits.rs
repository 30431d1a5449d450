//! Section `limits`: every ceiling of the path with its derivation and source, and expected values.
//!
//! A ceiling is hard: a figure above it is rejected. An *expected* value (the peer's window over
//! the round-trip time) comes from readings once per interval. Figures may exceed it, and charts do
//! not draw it. Limits without a model (a CPU, memory) are not listed.

use linerate_model::{Ceiling, CeilingScope, CeilingSubject, metric};

use super::{Section, Subject};
use crate::curves::uncapitalised;
use crate::document::{Block, Cell, Column, Sheet, Table};
use crate::number::Scale;
use crate::sentences::derivation;

/// Rows from which a table is folded.
const LONG: usize = 8;

/// Section `limits`.
pub(super) const SECTION: Section = Section {
    name: "limits",
    title: "Ceilings of the path",
    summary: "every ceiling with its derivation and source, and expected values that are no \
        ceilings",
    order: 105,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let all = subject.study.points.iter().flat_map(|point| &point.ceilings);
    let (expected, hard): (Vec<&Ceiling>, Vec<&Ceiling>) = all.partition(|bound| !bound.is_hard());
    [ceilings(&hard), expectations(&expected)].into_iter().flatten().map(Block::Table).collect()
}

/// Ceiling that several points share.
struct ShownCeiling<'a> {
    bound: &'a Ceiling,
    least: f64,
    most: f64,
    n_values: usize,
}

fn merged<'a>(
    bounds: &[&'a Ceiling],
    same: impl Fn(&Ceiling, &Ceiling) -> bool,
) -> Vec<ShownCeiling<'a>> {
    let mut merged: Vec<ShownCeiling<'a>> = Vec::new();
    for &bound in bounds {
        match merged.iter_mut().find(|one| same(one.bound, bound)) {
            Some(one) => {
                one.least = one.least.min(bound.value);
                one.most = one.most.max(bound.value);
                one.n_values += 1;
            }
            None => merged.push(ShownCeiling {
                bound,
                least: bound.value,
                most: bound.value,
                n_values: 1,
            }),
        }
    }
    merged
}

/// Returns the name of a ceiling in a table. The ceiling of one part of the path omits the pair of
/// endpoints of its flow.
fn called(bound: &Ceiling) -> String {
    match (&bound.subject, &bound.scope) {
        (CeilingSubject::Part { .. }, CeilingScope::Job { .. }) => bound.subject.to_string(),
        _ => bound.name(),
    }
}

fn ceilings(bounds: &[&Ceiling]) -> Option<Table> {
    let of_rate = |bound: &&&Ceiling| bound.metric == metric::GOODPUT;
    fn same(a: &Ceiling, b: &Ceiling) -> bool {
        (called(a), a.metric, a.direction, &a.derivation)
            == (called(b), b.metric, b.direction, &b.derivation)
    }
    // Packet and frame rates follow from the same capacities, and goodput is what readers compare.
    let goodput: Vec<&Ceiling> = bounds.iter().filter(of_rate).copied().collect();
    let mut rows = merged(if goodput.is_empty() { bounds } else { &goodput }, same);
    rows.sort_by(|a, b| a.least.total_cmp(&b.least));
    let scale = Scale::of(metric::GOODPUT, rows.iter().map(|row| row.most));
    let mut sheet = Sheet::new(rows.iter().map(|row| row.bound));
    sheet.text("ceiling", |bound| called(bound));
    sheet.text("of", |bound| {
        let layer = bound.layer.map_or(String::new(), |layer| format!(" at {layer}"));
        format!("{}{layer}", uncapitalised(bound.metric.title))
    });
    sheet.number("value", scale, |bound| bound.value);
    sheet.text("direction", |bound| bound.direction.to_string());
    sheet.text("derivation", |bound| derivation(bound).join("; "));
    sheet.text("source", |bound| bound.source.clone());
    let mut table = sheet.plain("limits-ceilings", "Ceilings");
    table.note = Some("A figure above its ceiling is impossible and is not reported.".into());
    table.folded = table.rows.len() > LONG;
    Some(table)
}

fn expectations(bounds: &[&Ceiling]) -> Option<Table> {
    let same = |a: &Ceiling, b: &Ceiling| {
        (a.subject.class(), a.metric, a.direction) == (b.subject.class(), b.metric, b.direction)
    };
    let rows = merged(bounds, same);
    let first = rows.first()?.bound;
    let scale = Scale::of(first.metric, rows.iter().map(|row| row.most));
    let layered = |head| Column { layer: first.layer, ..Column::number(head, scale) };
    let mut sheet = Sheet::new(&rows);
    sheet.text("expected", |row| row.bound.subject.short_name());
    sheet.text("direction", |row| row.bound.direction.to_string());
    sheet.column(layered("least"), |row| Cell::Number(row.least));
    sheet.column(layered("most"), |row| Cell::Number(row.most));
    sheet.number("values", Scale::COUNT, |row| row.n_values as f64);
    let mut table = sheet.plain("limits-expected", "Expected values (no ceilings)");
    table.note = Some(format!(
        "From readings once per interval ({}). Figures may exceed an expected value, and charts do \
            not draw it.",
        first.source,
    ));
    table.folded = table.rows.len() > LONG;
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    use linerate_model::{BitRate, BoundClass, BoundPart, Bytes, Direction};

    #[test]
    fn a_capacity_is_told_once_however_many_flows_cross_it() {
        let of = |job: u32, from: &str| {
            let part = BoundPart::new(BoundClass::Bus, "", "bus 0, mtu 9, a to b");
            let part = CeilingSubject::Part { part, rate: BitRate(88.4e6), mtu: Bytes(1500) };
            let scope = CeilingScope::Job { job, pair: Some((from.into(), "b".into())) };
            Ceiling::new(
                part,
                metric::GOODPUT,
                80e6,
                Direction::Tx,
                vec!["by hand".into()],
                "declared",
            )
            .holding_for(scope)
        };
        let table = ceilings(&[&of(0, "a1"), &of(1, "a2, a3")]).expect("two ceilings");
        assert_eq!(table.rows.len(), 1);
        assert_eq!(table.shown()[0][0], "bus 0, mtu 9, a to b, 88.4 Mbit/s, mtu 1500");
    }
}
