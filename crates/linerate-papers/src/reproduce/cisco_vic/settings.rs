//! Settings of the paper's hosts (S3.5, S3.6) beside the facts of ours: possible reasons for
//! different figures.
//!
//! The listed BIOS settings are read where Linux shows their effect. Few of them affect figures of
//! an emulated adapter, most affect those of a real one.

use linerate_model::Campaign;
use serde_json::Value;

use super::Comparison;

/// A setting of the paper.
struct Setting {
    name: &'static str,
    paper: &'static str,
    /// The fact that shows it, below the host or below the measured interface.
    fact: Fact,
    /// Returns whether the fact is the paper's setting; `None` if that is no question of yes or no.
    same: Option<fn(&Value) -> bool>,
}

const fn setting(
    name: &'static str,
    paper: &'static str,
    fact: Fact,
    same: Option<fn(&Value) -> bool>,
) -> Setting {
    Setting { name, paper, fact, same }
}

/// A dotted path among the facts.
#[derive(Clone, Copy)]
enum Fact {
    Host(&'static str),
    Interface(&'static str),
}

use Fact::{Host, Interface};

/// Bytes of the paper's 128 GB.
const MEMORY: u64 = 128 << 30;

const SETTINGS: [Setting; 24] = [
    setting("processor", "Xeon E5-2690, 2.9 GHz", Host("cpu.model"), Some(is_e5_2690)),
    setting("sockets", "2", Host("cpu.sockets"), Some(|v| is(v, 2))),
    setting("memory nodes (NUMA)", "on: 2", Host("cpu.numa_nodes"), Some(|v| is(v, 2))),
    setting("hyper-threading", "off", Host("cpu.smt"), Some(|v| v.as_bool() == Some(false))),
    setting("turbo", "on", Host("cpu.turbo"), Some(|v| v.as_bool() == Some(true))),
    setting("idle states (C-states)", "off", Host("cpu.idle_states"), Some(is_empty)),
    setting(
        "frequency (cpuspeed)",
        "performance",
        Host("cpu.governor"),
        Some(|v| v.as_str() == Some("performance")),
    ),
    Setting {
        name: "memory",
        paper: "128 GB DDR3-1600",
        fact: Host("memory.total_bytes"),
        // The kernel keeps a few per cent of the memory for itself before it reports the rest.
        same: Some(|v| v.as_u64().is_some_and(|bytes| bytes.abs_diff(MEMORY) <= MEMORY / 16)),
    },
    setting("operating system", "RHEL 6.2", Host("os.name"), Some(is_rhel_6)),
    setting("kernel", "that of RHEL 6.2", Host("kernel.release"), None),
    setting("virtual machine", "no", Host("cpu.virtual"), Some(|v| v.as_bool() == Some(false))),
    setting("sysctl: net.core.rmem_max", "default", Host("net.rmem_max"), None),
    setting("sysctl: net.core.wmem_max", "default", Host("net.wmem_max"), None),
    setting("sysctl: tcp_rmem", "default", Host("net.tcp_rmem"), None),
    setting("sysctl: tcp_wmem", "default", Host("net.tcp_wmem"), None),
    setting("adapter", "VIC 1240 or 1280", Interface("driver"), Some(|v| v == "enic")),
    setting("MTU", "9000", Interface("mtu"), Some(|v| is(v, 9000))),
    setting("transmit queues", "1", Interface("channels.tx.now"), Some(|v| is(v, 1))),
    setting("receive queues", "1", Interface("channels.rx.now"), Some(|v| is(v, 1))),
    setting(
        "rings, receive and transmit",
        "512 and 256",
        Interface("rings"),
        Some(|v| {
            v.get("rx").is_some_and(|rx| is(rx, 512)) && v.get("tx").is_some_and(|tx| is(tx, 256))
        }),
    ),
    setting("receive side scaling", "off", Interface("rss"), None),
    setting(
        "checksums, TSO and LRO in the adapter",
        "on",
        Interface("offloads"),
        Some(|v| ["tx_checksum", "rx_checksum", "tso", "lro"].iter().all(|name| v[*name] == true)),
    ),
    setting(
        "interrupt coalescing",
        "125 us at the least",
        Interface("coalescing.rx_usecs"),
        Some(|v| is(v, 125)),
    ),
    setting("interrupts' memory node", "the adapter's", Interface("numa_node"), None),
];

fn is(value: &Value, wanted: u64) -> bool {
    value.as_u64() == Some(wanted)
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn is_e5_2690(value: &Value) -> bool {
    // Later generations carry the same number with a suffix, such as `E5-2690 v4`.
    value.as_str().is_some_and(|model| model.contains("E5-2690") && !model.contains("E5-2690 v"))
}

fn is_rhel_6(value: &Value) -> bool {
    value.as_str().is_some_and(|name| name.contains("Red Hat") && name.contains(" 6"))
}

/// Returns the paper's settings beside those of the first host that `campaign` measured, and of its
/// interface.
#[must_use]
pub fn cisco_settings(campaign: &Campaign) -> Comparison {
    let end = campaign.trials.iter().flat_map(|trial| &trial.spec.jobs).map(|job| &job.from).next();
    let host = end.and_then(|end| campaign.hosts.iter().find(|record| record.host == end.host));
    // A campaign without recorded ends still describes at least one host.
    let facts = host.or(campaign.hosts.first()).map_or(&Value::Null, |record| &record.facts);
    beside(facts, end.and_then(|end| end.device.as_deref()))
}

/// Returns the comparison with a host's facts and the interface named `device`.
fn beside(facts: &Value, device: Option<&str>) -> Comparison {
    let interface = interface(facts, device).unwrap_or(&Value::Null);
    let row = |setting: &Setting| setting_row(setting, facts, interface);
    Comparison::new(
        "The paper's hosts (its tables of BIOS, adapter and sysctls) beside this one",
        ["setting", "paper", "here", "same"],
        SETTINGS.iter().map(row).collect(),
    )
}

fn setting_row(setting: &Setting, facts: &Value, interface: &Value) -> Vec<String> {
    let (found, path) = match setting.fact {
        Host(path) => (look(facts, path), path),
        Interface(path) => (look(interface, path), path),
    };
    let here = found.map_or_else(|why| format!("not known: {why}"), |found| told(path, found));
    let same = match (found, setting.same) {
        (Ok(found), Some(same)) if same(found) => "yes",
        (Ok(_), Some(_)) => "no",
        _ => "-",
    };
    vec![setting.name.to_owned(), setting.paper.to_owned(), here, same.to_owned()]
}

/// Returns the fact at `path`, or why it or its group could not be read.
fn look<'a>(root: &'a Value, path: &str) -> Result<&'a Value, &'a str> {
    let mut at = root;
    for name in path.split('.') {
        // A fact that was not read is no difference from the paper.
        at = at.get(name).filter(|found| !found.is_null()).ok_or("not read")?;
        // A group may be unavailable as a whole, with one reason for all of its facts.
        if let Some(why) = at.get("unavailable") {
            return Err(why.as_str().unwrap_or("not read"));
        }
    }
    Ok(at)
}

/// Returns the facts of the interface named `device`, or of the first that is not the loopback.
fn interface<'a>(facts: &'a Value, device: Option<&str>) -> Option<&'a Value> {
    let all = facts.get("interfaces")?.as_object()?;
    // Lab interfaces have other names than those of the paper, so any interface is better than
    // none.
    let first = || all.iter().find(|(name, _)| *name != "lo").map(|(_, facts)| facts);
    device.and_then(|device| all.get(device)).or_else(first)
}

/// Returns a fact in words.
fn told(path: &str, value: &Value) -> String {
    const GIBIBYTE: f64 = 1_073_741_824.0;
    let on = |value: &Value| if value.as_bool() == Some(true) { "on" } else { "off" };
    match (path, value) {
        ("memory.total_bytes", Value::Number(bytes)) => {
            format!("{:.1} GiB", bytes.as_f64().unwrap_or_default() / GIBIBYTE)
        }
        ("cpu.virtual", Value::Bool(yes)) => (if *yes { "yes" } else { "no" }).to_owned(),
        ("rings", _) => format!("{} and {}", value["rx"], value["tx"]),
        ("offloads", _) => {
            let of = |(label, name): (&str, &str)| format!("{label} {}", on(&value[name]));
            let all =
                [("tx", "tx_checksum"), ("rx", "rx_checksum"), ("TSO", "tso"), ("LRO", "lro")];
            all.map(of).join(", ")
        }
        ("coalescing.rx_usecs", _) => format!("{value} us"),
        ("rss", _) => format!("a table of {}", value["indirection_size"]),
        (_, Value::Bool(_)) => on(value).to_owned(),
        (_, Value::String(text)) => text.clone(),
        (_, Value::Array(items)) if items.is_empty() => "none".to_owned(),
        (_, Value::Array(items)) => {
            let told = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            items.iter().map(told).collect::<Vec<_>>().join(" ")
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(facts: Value) -> Vec<Vec<String>> {
        beside(&facts, None).rows
    }

    fn row(rows: &[Vec<String>], name: &str) -> [String; 2] {
        let row = rows.iter().find(|row| row[0] == name).expect("a row for each setting");
        [row[2].clone(), row[3].clone()]
    }

    #[test]
    fn a_setting_is_the_papers_another_or_not_known() {
        let rows = of(json!({
            "cpu": { "smt": false, "sockets": 1, "turbo": { "unavailable": "no cpufreq" } },
            "memory": { "total_bytes": 134_000_000_000_u64 },
            "interfaces": {
                "lo": { "mtu": 65536 },
                "eth0": {
                    "mtu": 9000,
                    "rings": { "unavailable": "not supported" },
                    "coalescing": { "unavailable": "not supported" },
                    "offloads": { "tx_checksum": true, "rx_checksum": true, "tso": true,
                        "lro": false },
                },
            },
        }));
        assert_eq!(rows.len(), SETTINGS.len());
        assert_eq!(row(&rows, "hyper-threading"), ["off", "yes"]);
        assert_eq!(row(&rows, "sockets"), ["1", "no"]);
        assert_eq!(row(&rows, "turbo"), ["not known: no cpufreq", "-"]);
        assert_eq!(row(&rows, "memory"), ["124.8 GiB", "yes"]);
        assert_eq!(row(&rows, "MTU"), ["9000", "yes"], "of the interface, not of the loopback");
        assert_eq!(
            row(&rows, "interrupt coalescing"),
            ["not known: not supported", "-"],
            "the group could not be read"
        );
        assert_eq!(
            row(&rows, "checksums, TSO and LRO in the adapter"),
            ["tx on, rx on, TSO on, LRO off", "no"]
        );
        assert_eq!(row(&rows, "kernel"), ["not known: not read", "-"]);
    }

    #[test]
    fn a_host_without_facts_still_lists_what_the_paper_says() {
        let rows = of(Value::Null);
        assert!(rows.len() == SETTINGS.len() && rows.iter().all(|row| row[3] == "-"));
    }
}
