//! What the path allows: every ceiling with its derivation and source, and what was expected without being a bound.
//!
//! A ceiling is hard: a figure above it is refused. An *expected* value (the peer's window over the round-trip time) comes
//! from readings taken once per interval; figures may exceed it, and charts do not draw it. What no model covers (a CPU,
//! memory) is not here.

use linerate_model::{Ceiling, metric};

use super::{Section, Subject};
use crate::curves::metric_title;
use crate::document::{Block, Cell, Column, Row, Table};
use crate::number::Scale;

/// What the name of a value that bounds nothing begins with.
const EXPECTED: &str = "expected: ";
/// What ends the capacity's part of a ceiling's name.
const MTU: &str = ", mtu ";
/// Tables longer than this are shown on request.
const LONG: usize = 8;

/// See the file.
pub(super) struct Limits;

impl Section for Limits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn title(&self) -> &'static str {
        "What the path allows"
    }

    fn summary(&self) -> &'static str {
        "every ceiling with its derivation and source, and what was expected without being a bound"
    }

    fn order(&self) -> u32 {
        105
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        let all = subject.study.points.iter().flat_map(|point| &point.ceilings);
        let (expected, hard): (Vec<&Ceiling>, Vec<&Ceiling>) = all.partition(|bound| !bound.hard);
        [ceilings(&hard), expectations(&expected)].into_iter().flatten().map(Block::Table).collect()
    }
}

/// The same bound at many points, told once.
struct Told<'a> {
    bound: &'a Ceiling,
    least: f64,
    most: f64,
    n_values: usize,
}

fn merged<'a>(bounds: &[&'a Ceiling], same: impl Fn(&Ceiling, &Ceiling) -> bool) -> Vec<Told<'a>> {
    let mut told: Vec<Told<'a>> = Vec::new();
    for &bound in bounds {
        match told.iter_mut().find(|one| same(one.bound, bound)) {
            Some(one) => {
                one.least = one.least.min(bound.value);
                one.most = one.most.max(bound.value);
                one.n_values += 1;
            }
            None => told.push(Told { bound, least: bound.value, most: bound.value, n_values: 1 }),
        }
    }
    told
}

/// The capacity a ceiling comes from: its name without the pair of endpoints whose flow it bounds.
fn capacity(name: &str) -> &str {
    let Some(mtu) = name.find(MTU) else { return name };
    let rest = &name[mtu + MTU.len()..];
    rest.find(',').map_or(name, |end| &name[..mtu + MTU.len() + end])
}

/// What an expected value comes from, without the pair of endpoints it is of.
fn expectation(name: &str) -> &str {
    let told = name.trim_start_matches(EXPECTED);
    told.split(", ").next().unwrap_or(told)
}

fn ceilings(bounds: &[&Ceiling]) -> Option<Table> {
    let of_rate = |bound: &&&Ceiling| bound.metric == metric::GOODPUT;
    let same = |a: &Ceiling, b: &Ceiling| {
        (capacity(&a.name), &a.metric, a.direction, &a.derivation)
            == (capacity(&b.name), &b.metric, b.direction, &b.derivation)
    };
    // Packet and frame rates follow from the same capacities; those of goodput are the ones to compare with.
    let goodput: Vec<&Ceiling> = bounds.iter().filter(of_rate).copied().collect();
    let mut rows = merged(if goodput.is_empty() { bounds } else { &goodput }, same);
    rows.sort_by(|a, b| a.least.total_cmp(&b.least));
    let columns = vec![
        Column::text("ceiling"),
        Column::text("of"),
        Column::number("value", Scale::fit(metric::GOODPUT, rows.first()?.bound.unit, rows.iter().map(|row| row.most))),
        Column::text("direction"),
        Column::text("derivation"),
        Column::text("source"),
    ];
    let mut table = Table::new("limits-ceilings", "Ceilings", columns);
    table.rows = rows
        .iter()
        .map(|row| {
            let bound = row.bound;
            let layer = bound.layer.map_or(String::new(), |layer| format!(" at {layer}"));
            Row::plain(vec![
                Cell::text(capacity(&bound.name)),
                Cell::Text(format!("{}{layer}", metric_title(&bound.metric).to_lowercase())),
                Cell::Number(bound.value),
                Cell::Text(bound.direction.to_string()),
                Cell::Text(bound.derivation.join("; ")),
                Cell::text(&bound.source),
            ])
        })
        .collect();
    table.note = Some("Nothing above its ceiling is reported as a figure.".into());
    table.folded = table.rows.len() > LONG;
    Some(table)
}

fn expectations(bounds: &[&Ceiling]) -> Option<Table> {
    let same = |a: &Ceiling, b: &Ceiling| {
        (expectation(&a.name), &a.metric, a.direction) == (expectation(&b.name), &b.metric, b.direction)
    };
    let rows = merged(bounds, same);
    let first = rows.first()?.bound;
    let scale = Scale::fit(&first.metric, first.unit, rows.iter().map(|row| row.most));
    let columns = vec![
        Column::text("expected"),
        Column::text("direction"),
        Column { layer: first.layer, ..Column::number("least", scale) },
        Column { layer: first.layer, ..Column::number("most", scale) },
        Column::number("values", Scale::COUNT),
    ];
    let mut table = Table::new("limits-expected", "Expected, not a bound", columns);
    table.rows = rows
        .iter()
        .map(|row| {
            Row::plain(vec![
                Cell::text(expectation(&row.bound.name)),
                Cell::Text(row.bound.direction.to_string()),
                Cell::Number(row.least),
                Cell::Number(row.most),
                Cell::Number(row.n_values as f64),
            ])
        })
        .collect();
    table.note = Some(format!(
        "From readings of {}, taken once per interval: figures may exceed it, nothing is refused by it, and charts do not \
         draw it.",
        first.source.split(';').next().unwrap_or(&first.source),
    ));
    table.folded = table.rows.len() > LONG;
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_is_told_once_however_many_flows_cross_it() {
        assert_eq!(capacity("bus 0, a to b, 88.4 Mbit/s, mtu 1500, a1 to b1"), "bus 0, a to b, 88.4 Mbit/s, mtu 1500");
        assert_eq!(capacity("bus 0, a to b, 88.4 Mbit/s, mtu 1500"), "bus 0, a to b, 88.4 Mbit/s, mtu 1500");
        assert_eq!(capacity("bus 0, a to b, all jobs"), "bus 0, a to b, all jobs");
        assert_eq!(
            expectation("expected: peer window over round-trip time, a1 to b1"),
            "peer window over round-trip time"
        );
    }
}
