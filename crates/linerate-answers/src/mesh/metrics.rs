//! A mesh in the text format of Prometheus, for the textfile collector of node_exporter.

use std::fmt::Write as _;

use super::record::{ABSENT, HostLine, MeshRecord};

/// Values of a metric, each with its labels.
type Values = Vec<(String, f64)>;

/// Returns the metrics of a mesh that ended at `ended`, in seconds since the Unix epoch.
#[must_use]
pub fn text(record: &MeshRecord, ended: f64) -> String {
    let mut text = String::new();
    let hosts = |of: fn(&HostLine) -> Option<f64>| -> Values {
        record.hosts.iter().filter_map(|host| Some((labels(host, ""), of(host)?))).collect()
    };
    let sides = record.hosts.iter().flat_map(|host| {
        let of = |direction: &str| labels(host, &format!(",direction=\"{direction}\""));
        let sent = host.goodput_sent.map(|value| (of("transmit"), value));
        sent.into_iter().chain(host.goodput_received.map(|value| (of("receive"), value)))
    });
    let sides: Values = sides.collect();
    let whole = |value: f64| vec![(String::new(), value)];
    let is = |found: bool| if found { 1.0 } else { 0.0 };
    let confirmed: fn(&HostLine) -> bool = |host| host.status == "confirmed";
    let families: [(&str, &str, Values); 8] = [
        ("host_goodput_bits_per_second", "Median TCP goodput of a host over its pairs.", sides),
        (
            "host_rtt_min_seconds",
            "Median of the smallest round-trip times of a host's pairs.",
            hosts(|host| host.rtt_min),
        ),
        (
            "host_retransmit_ratio",
            "Median share of a host's payload that was sent again.",
            hosts(|host| host.retransmit_ratio),
        ),
        (
            "host_bad",
            "1 if a second look confirmed that a host, or a side of it, differs from the rest.",
            record.hosts.iter().map(|host| (labels(host, ""), is(confirmed(host)))).collect(),
        ),
        (
            "host_absent",
            "1 if a host did not answer.",
            record.hosts.iter().map(|host| (labels(host, ""), is(host.status == ABSENT))).collect(),
        ),
        (
            "suspects_confirmed",
            "Hosts, pairs and uplinks of which a second look confirmed that they differ.",
            whole(record.suspects.iter().filter(|one| one.status == "confirmed").count() as f64),
        ),
        ("pairs_measured", "Directed pairs with figures.", whole(record.pairs.len() as f64)),
        ("ended_timestamp_seconds", "End of the mesh, as Unix time.", whole(ended)),
    ];
    for (name, help, values) in families {
        let name = format!("linerate_mesh_{name}");
        let _infallible = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in values {
            let _infallible = writeln!(text, "{name}{labels} {value}");
        }
    }
    text
}

fn labels(host: &HostLine, more: &str) -> String {
    let group = host.group.as_deref().unwrap_or_default();
    format!("{{host=\"{}\",group=\"{}\"{more}}}", escaped(&host.name), escaped(group))
}

/// Returns a label's value as the format has it.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
