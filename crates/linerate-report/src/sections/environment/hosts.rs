//! Main facts of each host, one per line: processor, memory, kernel, interface, TCP settings.
//!
//! A fact that no host reported has no line. An unreadable fact is shown with its reason.

use linerate_model::{BitRate, Bytes, Campaign, HostRecord};
use serde_json::Value;

use crate::document::{Cell, Column, Row, Table, Tone};
use crate::grid::words;

/// Line of the table: its name, and its text from the facts of a host and the interfaces that the
/// campaign used there.
type Line = (&'static str, fn(&Value, &[&str]) -> Option<String>);

/// Lines in order.
const LINES: [Line; 13] = [
    ("processor", |facts, _| text(facts, "cpu.model")),
    ("CPUs", |facts, _| cpus(facts)),
    ("frequency governor", |facts, _| text(facts, "cpu.governor")),
    ("memory", |facts, _| at(facts, "memory.total_bytes")?.as_f64().map(gibibytes)),
    ("kernel", |facts, _| text(facts, "kernel.release")),
    ("operating system", |facts, _| text(facts, "os.name")),
    ("interface", |facts, used| each(facts, used, interface)),
    ("offloads", |facts, used| each(facts, used, offloads)),
    ("queueing discipline", |facts, used| each(facts, used, queueing)),
    ("congestion control, default", |facts, _| text(facts, "net.congestion_control")),
    ("TCP receive buffer: minimum, default, maximum", |facts, _| text(facts, "net.tcp_rmem")),
    ("TCP send buffer: minimum, default, maximum", |facts, _| text(facts, "net.tcp_wmem")),
    ("largest requested buffer: receive, send", |facts, _| {
        Some(format!("{}, {}", text(facts, "net.rmem_max")?, text(facts, "net.wmem_max")?))
    }),
];

/// Returns the table with one column for each host.
pub(super) fn table(campaign: &Campaign) -> Table {
    let hosts = &campaign.hosts;
    let columns = std::iter::once(Column::text(""))
        .chain(hosts.iter().map(|host| Column::text(&host.host)))
        .collect();
    let mut table = Table::new("environment-hosts", "Hosts", columns);
    for (name, told) in LINES {
        let told: Vec<Option<String>> =
            hosts.iter().map(|host| told(&host.facts, &campaign.interfaces(host))).collect();
        if told.iter().all(Option::is_none) {
            continue;
        }
        // Interfaces are only described here: the table of differences compares them.
        let differs = name != "interface" && told.windows(2).any(|pair| pair[0] != pair[1]);
        let mut cells = vec![Cell::text(name)];
        cells.extend(told.into_iter().map(|told| Cell::text_or(told, "–")));
        table.rows.push(Row { cells, tone: if differs { Tone::Marked } else { Tone::Plain } });
    }
    table
}

/// Returns the hosts that share a kernel, by name; other hosts are left out.
pub(super) fn one_machine(hosts: &[HostRecord]) -> Vec<Vec<&str>> {
    let mut machines: Vec<(&str, Vec<&str>)> = Vec::new();
    for host in hosts {
        // Namespaces of one machine share its kernel and so its boot ID.
        let Some(boot) = at(&host.facts, "kernel.boot_id").and_then(Value::as_str) else {
            continue;
        };
        match machines.iter_mut().find(|(known, _)| *known == boot) {
            Some((_, names)) => names.push(&host.host),
            None => machines.push((boot, vec![&host.host])),
        }
    }
    machines.into_iter().map(|(_, names)| names).filter(|names| names.len() > 1).collect()
}

/// Returns the value at a dotted path.
fn at<'a>(facts: &'a Value, path: &str) -> Option<&'a Value> {
    // A null fact was not read.
    path.split('.').try_fold(facts, |value, key| value.get(key)).filter(|value| !value.is_null())
}

fn text(facts: &Value, path: &str) -> Option<String> {
    let value = at(facts, path)?;
    match value.get("unavailable") {
        Some(why) => Some(format!("unavailable: {}", words(why))),
        None => Some(words(value)),
    }
}

fn cpus(facts: &Value) -> Option<String> {
    let count = at(facts, "cpu.count").or_else(|| at(facts, "cpu.online"))?.as_u64()?;
    let number = |path| at(facts, path).and_then(Value::as_u64);
    let mut told = vec![count.to_string()];
    if let Some(sockets) = number("cpu.sockets") {
        told.push(format!("{sockets} socket{}", if sockets == 1 { "" } else { "s" }));
    }
    if let Some(smt) = at(facts, "cpu.smt").and_then(Value::as_bool) {
        told.push(format!("SMT {}", if smt { "on" } else { "off" }));
    }
    // The CPUs of a virtual machine may share cores with others.
    if at(facts, "cpu.virtual").and_then(Value::as_bool) == Some(true) {
        told.push("virtual machine".into());
    }
    Some(told.join(", "))
}

fn gibibytes(bytes: f64) -> String {
    /// Bytes in 1 GiB, IEC 80000-13.
    const GIBIBYTE: f64 = 1_073_741_824.0;
    format!("{:.1} GiB", bytes / GIBIBYTE)
}

/// Returns the line of each interface; interfaces with the same line share it.
fn each(facts: &Value, used: &[&str], told: fn(&Value) -> Option<String>) -> Option<String> {
    let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
    for name in used {
        let Some(line) = facts.get("interfaces").and_then(|all| all.get(name)).and_then(told)
        else {
            continue;
        };
        // Ports of a card are usually alike.
        match lines.iter_mut().find(|(_, known)| *known == line) {
            Some((names, _)) => names.push(name),
            None => lines.push((vec![name], line)),
        }
    }
    // A single interface needs no name.
    let lines = lines.into_iter().map(|(names, line)| match used.len() {
        1 => line,
        _ => format!("{}: {line}", names.join(", ")),
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

fn interface(facts: &Value) -> Option<String> {
    let driver = text(facts, "driver").or_else(|| text(facts, "kind"))?;
    let is_virtual = at(facts, "virtual").and_then(Value::as_bool) == Some(true);
    let mut told = vec![driver];
    match at(facts, "speed_bps").and_then(Value::as_f64) {
        // The speed of a virtual device is a label, not a limit.
        Some(_) if is_virtual => told.push("virtual (its speed is not a limit)".into()),
        Some(speed) => told.push(BitRate(speed).to_string()),
        None => told.extend(text(facts, "speed")),
    }
    told.extend(
        at(facts, "mtu").and_then(Value::as_u64).map(|mtu| format!("MTU {}", Bytes(mtu).0)),
    );
    // Virtual devices have none, which the driver already shows.
    told.extend(text(facts, "firmware").filter(|firmware| !firmware.starts_with("unavailable")));
    Some(told.join(", "))
}

fn offloads(facts: &Value) -> Option<String> {
    let offloads = at(facts, "offloads")?;
    // An unreadable fact is a text with its reason.
    let Some(fields) = offloads.as_object() else { return Some(words(offloads)) };
    Some(format!(
        "on: {}; off: {}",
        offloads_that_are(true, fields),
        offloads_that_are(false, fields)
    ))
}

fn offloads_that_are(wanted: bool, fields: &serde_json::Map<String, Value>) -> String {
    let named = fields.iter().filter(|(_, value)| value.as_bool() == Some(wanted));
    let names: Vec<String> = named.map(|(name, _)| name.replace('_', "-")).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn queueing(facts: &Value) -> Option<String> {
    let kinds = at(facts, "qdiscs")?.as_array()?.iter().filter_map(|qdisc| text(qdisc, "kind"));
    let mut kinds: Vec<String> = kinds.collect();
    // A multi-queue root has one child of the same kind for each queue.
    kinds.dedup();
    (!kinds.is_empty()).then(|| kinds.join(" > "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn host(name: &str, facts: Value) -> HostRecord {
        HostRecord { host: name.into(), facts, clock_offset_ns: 0, clock_uncertainty_ns: 0 }
    }

    #[test]
    fn hosts_of_one_boot_are_one_machine() {
        let boot = |id: &str| json!({ "kernel": { "boot_id": id } });
        let hosts = [
            host("a", boot("1")),
            host("b", boot("1")),
            host("c", boot("2")),
            host("d", json!({})),
        ];
        assert_eq!(one_machine(&hosts), [["a", "b"]]);
    }

    #[test]
    fn an_interface_is_told_in_a_line() {
        let facts = json!({ "interfaces": { "eth0": {
            "driver": "ice", "speed_bps": 25e9, "mtu": 9000, "virtual": false,
            "offloads": { "tso": true, "gro": true, "lro": false, "on": ["tx-checksumming"] },
            "qdiscs": [{ "kind": "mq" }, { "kind": "fq" }, { "kind": "fq" }],
        } } });
        let used = ["eth0"];
        assert_eq!(each(&facts, &used, interface).as_deref(), Some("ice, 25 Gbit/s, MTU 9000"));
        assert_eq!(each(&facts, &used, offloads).as_deref(), Some("on: gro, tso; off: lro"));
        assert_eq!(each(&facts, &used, queueing).as_deref(), Some("mq > fq"));
    }

    #[test]
    fn what_could_not_be_read_says_why() {
        let facts = json!({ "cpu": { "governor": { "unavailable": "no cpufreq" } } });
        assert_eq!(text(&facts, "cpu.governor").as_deref(), Some("unavailable: no cpufreq"));
        assert_eq!(text(&facts, "cpu.model"), None);
    }
}
