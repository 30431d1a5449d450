//! What was measured on: the facts of every host side by side (the config record of methodology 1.6), differences first.
//!
//! Facts are as the agents read them, once a campaign. A fact that could not be read says why.

use std::collections::BTreeMap;

use linerate_model::HostRecord;
use serde_json::Value;

use super::{Section, Subject};
use crate::document::{Block, Cell, Column, Row, Table, Tone};
use crate::grid::words;
use crate::number::Scale;

/// See the file.
pub(super) struct Environment;

impl Section for Environment {
    fn name(&self) -> &'static str {
        "environment"
    }

    fn title(&self) -> &'static str {
        "Environment"
    }

    fn summary(&self) -> &'static str {
        "the facts of every host side by side, differences highlighted; clocks; known capacities of the path"
    }

    fn order(&self) -> u32 {
        110
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        let hosts = &subject.campaign.hosts;
        let mut blocks = Vec::new();
        if hosts.iter().any(|host| !host.facts.is_null()) {
            blocks.push(Block::Table(facts(hosts)));
        }
        if !subject.campaign.header.capacities.is_empty() {
            blocks.push(Block::Table(capacities(subject)));
        }
        if !hosts.is_empty() {
            blocks.push(Block::Table(clocks(hosts)));
        }
        blocks
    }
}

/// A fact: its text, or why it could not be read.
type Fact = Result<String, String>;

fn flatten(prefix: &str, value: &Value, into: &mut BTreeMap<String, Fact>) {
    match value {
        Value::Object(fields) => {
            if let (1, Some(why)) = (fields.len(), fields.get("unavailable")) {
                into.insert(prefix.to_owned(), Err(words(why)));
                return;
            }
            for (key, value) in fields {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&path, value, into);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{prefix}.{index}"), item, into);
            }
        }
        Value::Null => {}
        scalar => drop(into.insert(prefix.to_owned(), Ok(words(scalar)))),
    }
}

fn facts(hosts: &[HostRecord]) -> Table {
    let flat: Vec<BTreeMap<String, Fact>> = hosts
        .iter()
        .map(|host| {
            let mut facts = BTreeMap::new();
            flatten("", &host.facts, &mut facts);
            facts
        })
        .collect();
    let mut paths: Vec<&String> = flat.iter().flat_map(BTreeMap::keys).collect();
    paths.sort();
    paths.dedup();
    let columns =
        std::iter::once(Column::text("fact")).chain(hosts.iter().map(|host| Column::text(&host.host))).collect();
    let mut table = Table::new("environment-facts", "Facts by host", columns);
    for path in paths {
        let cell = |facts: &BTreeMap<String, Fact>| match facts.get(path) {
            Some(Ok(text)) => Cell::text(text),
            Some(Err(why)) => Cell::Missing(format!("unavailable: {why}")),
            None => Cell::Missing("–".into()),
        };
        let told: Vec<Cell> = flat.iter().map(cell).collect();
        let differs = told.windows(2).any(|pair| pair[0] != pair[1]);
        let mut cells = vec![Cell::text(path)];
        cells.extend(told);
        table.rows.push(Row { cells, tone: if differs { Tone::Marked } else { Tone::Plain } });
    }
    // What differs is what a reader looks for.
    table.rows.sort_by_key(|row| row.tone == Tone::Plain);
    let differing = table.rows.iter().filter(|row| row.tone == Tone::Marked).count();
    table.note = Some(match (hosts.len(), differing) {
        (1, _) => "One host.".into(),
        (_, 0) => "The hosts do not differ in any fact.".into(),
        (_, n) => {
            format!("{n} of {} facts differ between the hosts; they stand first and are marked.", table.rows.len())
        }
    });
    table.folded = table.rows.len() > 24;
    table
}

fn capacities(subject: &Subject<'_>) -> Table {
    let header = &subject.campaign.header;
    let rates = header.capacities.iter().map(|capacity| capacity.rate.0);
    let columns = vec![
        Column::text("capacity"),
        Column::number("rate", Scale::fit("rate", linerate_model::Unit::BitPerSecond, rates)),
        Column::number("overhead per frame", Scale { base: "B", symbol: "B", factor: 1.0 }),
        Column::number("MTU", Scale { base: "B", symbol: "B", factor: 1.0 }),
        Column::text("crossed by"),
        Column::text("source"),
    ];
    let mut table = Table::new("environment-capacities", "Known capacities of the path", columns);
    for capacity in &header.capacities {
        let pairs: Vec<String> = capacity.pairs.iter().map(|(from, to)| format!("{from} to {to}")).collect();
        table.rows.push(Row::plain(vec![
            Cell::text(&capacity.name),
            Cell::Number(capacity.rate.0),
            Cell::Number(capacity.frame_overhead.0 as f64),
            Cell::Number(capacity.mtu.0 as f64),
            Cell::text(pairs.join(", ")),
            Cell::text(&capacity.source),
        ]));
    }
    table.note = Some("Overhead is what a capacity counts per frame beyond the IP packet.".into());
    table
}

fn clocks(hosts: &[HostRecord]) -> Table {
    let spread =
        |name, values: Vec<f64>| Column::number(name, Scale::fit(name, linerate_model::Unit::Nanosecond, values));
    let columns = vec![
        Column::text("host"),
        spread("offset to the conductor", hosts.iter().map(|host| host.clock_offset_ns as f64).collect()),
        spread("uncertainty", hosts.iter().map(|host| host.clock_uncertainty_ns as f64).collect()),
    ];
    let mut table = Table::new("environment-clocks", "Clocks", columns);
    for host in hosts {
        table.rows.push(Row::plain(vec![
            Cell::text(&host.host),
            Cell::Number(host.clock_offset_ns as f64),
            Cell::Number(host.clock_uncertainty_ns as f64),
        ]));
    }
    table.note = Some("Monotonic clocks; the uncertainty is half the best round trip of the measurement.".into());
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn host(name: &str, facts: Value) -> HostRecord {
        HostRecord { host: name.into(), facts, clock_offset_ns: 0, clock_uncertainty_ns: 0 }
    }

    #[test]
    fn facts_that_differ_stand_first_and_are_marked() {
        let a = host("a", json!({ "cpu": { "model": "X", "count": 8 }, "kernel": "6.18" }));
        let b = host("b", json!({ "cpu": { "model": "X", "count": 4 }, "kernel": "6.18" }));
        let table = facts(&[a, b]);
        let names: Vec<String> = table.rows.iter().map(|row| row.cells[0].shown(&Scale::COUNT)).collect();
        assert_eq!(names, ["cpu.count", "cpu.model", "kernel"]);
        assert_eq!(table.rows[0].tone, Tone::Marked);
        assert_eq!(table.rows[1].tone, Tone::Plain);
    }

    #[test]
    fn a_fact_that_could_not_be_read_says_why() {
        let table = facts(&[host("a", json!({ "pmu": { "unavailable": "no such device" } }))]);
        assert_eq!(table.rows[0].cells[1], Cell::Missing("unavailable: no such device".into()));
    }
}
