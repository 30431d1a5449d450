//! Section `environment` (the config record of docs/methodology/papers.md#record-of-a-host): main
//! facts of the hosts, differences between them, and all facts.
//!
//! Agents read the facts once per campaign. An unreadable fact is shown with its reason. Interfaces
//! of the campaign are compared with each other whatever their names; others are not compared.

mod hosts;

use std::collections::BTreeMap;

use linerate_analysis::clock_course;
use linerate_analysis::statistics::Course;
use linerate_model::{Campaign, HostRecord};
use serde_json::Value;

use super::{Section, Subject};
use crate::document::{Block, Cell, Column, Row, Sheet, Table, Tone};
use crate::grid::words;
use crate::number::Scale;

/// Rows from which a table is folded.
const LONG: usize = 24;

/// Section `environment`.
pub(super) const SECTION: Section = Section {
    name: "environment",
    title: "Environment",
    summary: "the facts of every host side by side, differences highlighted; clocks; known \
        capacities of the path",
    order: 110,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let hosts = &subject.campaign.hosts;
    let mut blocks = Vec::new();
    // Without facts of any host, the tables would be empty.
    let told = hosts.iter().any(|host| !host.facts.is_null());
    blocks
        .extend(hosts::one_machine(hosts).iter().map(|names| Block::Paragraph(one_machine(names))));
    if told {
        blocks.push(Block::Table(hosts::table(subject.campaign)));
        // Interfaces of no job say nothing about the measurement.
        let used: Vec<_> = hosts.iter().map(|host| subject.campaign.interfaces(host)).collect();
        blocks.extend(differences(hosts, &used).map(Block::Table));
    }
    if !subject.campaign.header.capacities.is_empty() {
        blocks.push(Block::Table(capacities(subject)));
    }
    if !hosts.is_empty() {
        blocks.push(Block::Table(clocks(subject.campaign)));
    }
    if told {
        blocks.push(Block::Table(facts(hosts)));
    }
    blocks
}

fn one_machine(names: &[&str]) -> String {
    let (last, first) = names.split_last().expect("a machine of several hosts has a last one");
    format!(
        "{} and {last} are one machine (same boot ID): they share its CPUs and memory, so each of \
            them slows the others down.",
        first.join(", ")
    )
}

/// Fact as text, or the reason why it is not readable.
type Fact = Result<String, String>;

fn flatten(prefix: &str, value: &Value, into: &mut BTreeMap<String, Fact>) {
    match value {
        Value::Object(fields) => {
            // An object with this single field stands for a fact that could not be read.
            if let (1, Some(why)) = (fields.len(), fields.get("unavailable")) {
                into.insert(prefix.to_owned(), Err(words(why)));
                return;
            }
            for (key, value) in fields {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&path, value, into);
            }
        }
        // A list of plain values reads best on one line.
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{prefix}.{index}"), item, into);
            }
        }
        // Nothing was requested, so there is nothing to print.
        Value::Null => {}
        scalar => drop(into.insert(prefix.to_owned(), Ok(words(scalar)))),
    }
}

fn flat(host: &HostRecord) -> BTreeMap<String, Fact> {
    let mut facts = BTreeMap::new();
    flatten("", &host.facts, &mut facts);
    facts
}

fn cell(fact: Option<&Fact>) -> Cell {
    match fact {
        Some(Ok(text)) => Cell::text(text),
        Some(Err(why)) => Cell::Missing(format!("unavailable: {why}")),
        None => Cell::Missing("–".into()),
    }
}

/// Returns a row for each fact of any host.
fn side_by_side(flat: &[BTreeMap<String, Fact>]) -> Vec<Row> {
    let mut paths: Vec<&String> = flat.iter().flat_map(BTreeMap::keys).collect();
    paths.sort();
    paths.dedup();
    paths.into_iter().map(|path| fact_row(path, flat)).collect()
}

fn fact_row(path: &str, flat: &[BTreeMap<String, Fact>]) -> Row {
    let told: Vec<Cell> = flat.iter().map(|facts| cell(facts.get(path))).collect();
    // An unreadable fact differs from a readable one.
    let differs = told.windows(2).any(|pair| pair[0] != pair[1]);
    let cells = std::iter::once(Cell::text(path)).chain(told).collect();
    Row { cells, tone: if differs { Tone::Marked } else { Tone::Plain } }
}

fn columns(hosts: &[HostRecord]) -> Vec<Column> {
    std::iter::once(Column::text("fact"))
        .chain(hosts.iter().map(|host| Column::text(&host.host)))
        .collect()
}

/// Returns the differences between the hosts. Interfaces of the campaign are compared by their
/// position, others not at all.
fn differences(hosts: &[HostRecord], used: &[Vec<&str>]) -> Option<Table> {
    let facts: Vec<BTreeMap<String, Fact>> =
        hosts.iter().zip(used).map(|(host, used)| comparable(host, used)).collect();
    let rows: Vec<Row> =
        side_by_side(&facts).into_iter().filter(|row| row.tone == Tone::Marked).collect();
    let mut table =
        Table::new("environment-differences", "Differences between the hosts", columns(hosts));
    table.folded = rows.len() > LONG;
    table.rows = rows;
    // Equal hosts have no table.
    (!table.rows.is_empty()).then_some(table)
}

/// Returns the facts of `host` that can be compared with another host, which uses interfaces of
/// other names.
fn comparable(host: &HostRecord, used: &[&str]) -> BTreeMap<String, Fact> {
    // Addresses, indices and MACs identify an interface, so they always differ.
    let own = |path: &str| [".addresses", ".index", ".mac"].iter().any(|end| path.ends_with(end));
    let facts = flat(host).into_iter().filter_map(|(path, fact)| by_place(path, fact, used));
    facts.filter(|(path, _)| !own(path)).collect()
}

/// Names an interface by its place in the campaign. Returns `None` for an unused interface.
fn by_place(path: String, fact: Fact, used: &[&str]) -> Option<(String, Fact)> {
    let Some(rest) = path.strip_prefix("interfaces.") else { return Some((path, fact)) };
    let (name, field) = rest.split_once('.')?;
    let place = used.iter().position(|one| *one == name)?;
    // One interface on each host needs no number.
    let number = if used.len() > 1 { format!(" {}", place + 1) } else { String::new() };
    // A reason that names the interface is the same reason on the other host.
    let fact = fact.map_err(|why| why.replace(name, "it"));
    Some((format!("interface{number}.{field}"), fact))
}

/// Returns all facts as they were read.
fn facts(hosts: &[HostRecord]) -> Table {
    let flat: Vec<BTreeMap<String, Fact>> = hosts.iter().map(flat).collect();
    let mut table = Table::new("environment-facts", "All facts", columns(hosts));
    table.rows = side_by_side(&flat);
    // The table of differences already marks them.
    table.rows.iter_mut().for_each(|row| row.tone = Tone::Plain);
    table.folded = true;
    table.figures_at = Some("/facts".to_owned());
    table
}

fn capacities(subject: &Subject<'_>) -> Table {
    let header = &subject.campaign.header;
    let rates = header.capacities.iter().map(|capacity| capacity.rate.0);
    let bytes = Scale { base: "B", symbol: "B", factor: 1.0 };
    let mut sheet = Sheet::new(&header.capacities);
    sheet.text("capacity", |capacity| capacity.name.clone());
    let rate = Scale::fit(linerate_model::Unit::BitPerSecond, rates);
    sheet.number("rate", rate, |capacity| capacity.rate.0);
    sheet.number("overhead per frame", bytes, |capacity| capacity.frame_overhead.0 as f64);
    sheet.number("MTU", bytes, |capacity| capacity.mtu.0 as f64);
    sheet.text("crossed by", |capacity| {
        let pairs = capacity.pairs.iter().map(|(from, to)| format!("{from} to {to}"));
        pairs.collect::<Vec<_>>().join(", ")
    });
    sheet.text("source", |capacity| capacity.source.clone());
    let mut table = sheet.plain("environment-capacities", "Known capacities of the path");
    table.note = Some(
        "Overhead: bytes per frame beyond the IP packet that count against the capacity.".into(),
    );
    table
}

fn clocks(campaign: &Campaign) -> Table {
    let courses: Vec<(&HostRecord, Option<Course>)> = campaign
        .hosts
        .iter()
        .map(|host| (host, clock_course(&campaign.trials, &host.host)))
        .collect();
    // Measured over the trials, or else when the host joined.
    let offset = |(host, course): &(&HostRecord, Option<Course>)| {
        course.map_or(host.clock_offset_ns as f64, |c| c.offset)
    };
    let doubt = |(host, course): &(&HostRecord, Option<Course>)| {
        course.map_or(host.clock_uncertainty_ns as f64, |c| c.uncertainty())
    };
    let spread = |name, values: Vec<f64>| {
        Column::number(name, Scale::fit(linerate_model::Unit::Nanosecond, values))
    };
    // Zeros without a measurement mean one clock, not a perfect one.
    let is_same = |(host, course): &(&HostRecord, Option<Course>)| {
        host.clock_offset_ns == 0 && host.clock_uncertainty_ns == 0 && course.is_none()
    };
    let doubts = courses.iter().map(doubt).filter(|ns| *ns > 0.0).collect();
    let mut sheet = Sheet::new(&courses);
    sheet.text("host", |(host, _)| host.host.clone());
    let offsets = spread("offset to the conductor", courses.iter().map(offset).collect());
    sheet.column(offsets, |one| Cell::Number(offset(one)));
    sheet.column(spread("uncertainty ±", doubts), |one| {
        // A number would suggest a measurement.
        if is_same(one) { Cell::text("exact") } else { Cell::Number(doubt(one)) }
    });
    sheet.text_or("drift against the conductor", "–", |(_, course)| {
        course
            // A drift needs two points.
            .filter(|course| course.n > 1)
            // Adding zero makes a negative zero positive.
            .map(|course| format!("{:+.3} ppm", (course.skew * 1e9).round() / 1e3 + 0.0))
    });
    sheet.text("from", |one| match one.1 {
        _ if is_same(one) => {
            "the conductor's own clock (same kernel and time namespace)".to_owned()
        }
        Some(course) => format!("{} trials", course.n),
        None => "when it joined".to_owned(),
    });
    let mut table = sheet.plain("environment-clocks", "Clocks");
    table.note = Some(
        "Monotonic clocks, compared by exchanges of four time stamps (RFC 5905 clause 8). The \
            uncertainty is half of the shortest round-trip time, without the time spent at the \
            host, plus the largest distance from the straight line through all trials."
            .into(),
    );
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
    fn what_differs_stands_apart_and_interfaces_are_compared_by_place() {
        let facts = |cpus: u32, name: &str, driver: &str| {
            json!({
                "cpu": { "model": "X", "count": cpus },
                "interfaces": { name: { "driver": driver, "mtu": 1500, "index": 2 },
                "lo": { "mtu": 65_536 } },
            })
        };
        let mut hosts = [host("a", facts(8, "eth0", "ice")), host("b", facts(4, "eth1", "igb"))];
        let mut used = [vec!["eth0"], vec!["eth1"]];
        let table = differences(&hosts, &used).expect("they differ");
        let names: Vec<String> =
            table.rows.iter().map(|row| row.cells[0].shown(&Scale::COUNT, 0)).collect();
        assert_eq!(names, ["cpu.count", "interface.driver"]);
        hosts[1].facts = hosts[0].facts.clone();
        used[1] = used[0].clone();
        assert_eq!(differences(&hosts, &used), None);
    }

    #[test]
    fn a_fact_that_could_not_be_read_says_why() {
        let table = facts(&[host("a", json!({ "pmu": { "unavailable": "no such device" } }))]);
        assert_eq!(table.rows[0].cells[1], Cell::Missing("unavailable: no such device".into()));
    }
}
