//! A mesh in the text format of Prometheus, for the textfile collector of node_exporter.

use std::fmt::Write as _;

use linerate_analysis::mesh::Measure;

use super::record::{HostLine, MeshRecord, State};

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
    let confirmed: fn(&HostLine) -> bool = |host| host.status == State::Confirmed;
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
            record
                .hosts
                .iter()
                .map(|host| (labels(host, ""), is(host.status == State::Absent)))
                .collect(),
        ),
        (
            "suspects_confirmed",
            "Hosts, pairs and uplinks of which a second look confirmed that they differ.",
            whole(
                record.suspects.iter().filter(|one| one.status == State::Confirmed).count() as f64
            ),
        ),
        ("pairs_measured", "Directed pairs with figures.", whole(n_measured(record) as f64)),
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

/// Returns the number of directed pairs with goodput.
fn n_measured(record: &MeshRecord) -> usize {
    let goodput = record.pairs.get(Measure::Goodput.metric().name);
    goodput.into_iter().flatten().flatten().flatten().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_its_figures_and_states() {
        let text = r#"{
            "hosts": [
                { "name": "n\"1", "group": "a", "status": "confirmed", "goodput_sent": 9e7,
                  "goodput_received": 5e3, "rtt_min": 2e-5, "retransmit_ratio": 0.0 },
                { "name": "n2", "group": null, "status": "absent", "goodput_sent": null,
                  "goodput_received": null, "rtt_min": null, "retransmit_ratio": null }
            ],
            "pairs": { "goodput": [[null, 9e7], [null, null]] },
            "suspects": [{ "kind": "host", "of": ["n\"1"], "status": "confirmed", "signs": [],
                           "again": [] }],
            "absent": [], "failed": [], "below_90_percent": { "hosts": [], "pairs": 0 },
            "rounds": 1, "second_failed": null, "interrupted": false, "seconds": 1.5
        }"#;
        let record = MeshRecord::read(text).expect("a mesh");
        let written = super::text(&record, 1_795_000_000.5);
        for line in [
            "# TYPE linerate_mesh_host_goodput_bits_per_second gauge",
            r#"linerate_mesh_host_rtt_min_seconds{host="n\"1",group="a"} 0.00002"#,
            r#"linerate_mesh_host_bad{host="n\"1",group="a"} 1"#,
            r#"linerate_mesh_host_bad{host="n2",group=""} 0"#,
            r#"linerate_mesh_host_absent{host="n2",group=""} 1"#,
            "linerate_mesh_suspects_confirmed 1",
            "linerate_mesh_pairs_measured 1",
            "linerate_mesh_ended_timestamp_seconds 1795000000.5",
        ] {
            assert!(written.lines().any(|one| one == line), "{line} in\n{written}");
        }
        let receives = r#"goodput_bits_per_second{host="n\"1",group="a",direction="receive"} 5000"#;
        assert!(written.contains(receives), "{written}");
        assert!(!written.contains(r#"rtt_min_seconds{host="n2""#), "it was not measured");
        let again = serde_json::to_string(&record).expect("JSON");
        assert_eq!(MeshRecord::read(&again), Ok(record));
        assert!(MeshRecord::read("{}").is_err());
    }
}
