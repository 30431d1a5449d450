//! Text of a testbed file for hosts that answer: their addresses, interfaces, CPUs and speeds.

use std::fmt::Write as _;

use linerate_analysis::interface_speed;
use linerate_control::{HostFacts, Timeouts};
use linerate_model::{BitRate, Endpoint, HostAddress, cpu_list};
use serde_json::Value;

use crate::testbeds::to_host;
use crate::towards::Towards;
use crate::{Failure, Result};
use linerate_agent::keys::keys_for;

/// Returns the text of a testbed file with this host and `hosts`. Each of them reports its
/// facts.
///
/// # Errors
/// If a host cannot be reached.
pub fn testbed_file(hosts: &[String]) -> Result<String> {
    let mut text = "# Testbed of `linerate testbed init`; docs/testbeds.md describes each key.\n\n\
        [[host]]\nname = \"here\"\nreach = \"local\"\n"
        .to_owned();
    for (number, host) in hosts.iter().enumerate() {
        let testbed = to_host(&Towards::host(host))?.testbed;
        let keys = keys_for(&testbed.hosts)?;
        let timeouts = Timeouts::default();
        let ask = |(name, address): &(String, HostAddress)| {
            linerate_control::ask(name, address, keys.as_ref(), "linerate", &[], &timeouts)
        };
        let facts = testbed.hosts.iter().map(ask).collect::<Result<Vec<_>, _>>()?;
        let (Some((name, _)), [here, there], [own, other]) =
            (testbed.hosts.get(1), &testbed.endpoints[..], &facts[..])
        else {
            return Err(Failure::wrong(format!("{host}: name another host than this one")));
        };
        let _ = write!(text, "\n[[host]]\nname = {}\nreach = {}\n", quoted(name), quoted(host));
        let ends = match number {
            0 => ["a".to_owned(), "b".to_owned()],
            _ => [format!("a{}", number + 1), format!("b{}", number + 1)],
        };
        text += &endpoint(&ends[0], here, own);
        text += &endpoint(&ends[1], there, other);
        let mtu = [mtu(here, own), mtu(there, other)].into_iter().flatten().min();
        text += &capacity(&ends, [speed(here, own), speed(there, other)], mtu);
    }
    Ok(text)
}

/// Returns a basic string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Returns the table of an endpoint.
fn endpoint(name: &str, end: &Endpoint, facts: &HostFacts) -> String {
    let mut text =
        format!("\n[[endpoint]]\nname = {}\nhost = {}\n", quoted(name), quoted(&end.host));
    if let Some(address) = end.address {
        let _ = writeln!(text, "address = {}", quoted(&address.to_string()));
    }
    if let Some(device) = &end.device {
        let known = match speed(end, facts) {
            Some(rate) => rate.to_string(),
            None => "speed unknown".to_owned(),
        };
        let _ = writeln!(text, "device = {} # {known}", quoted(device));
    }
    let allowed = facts.cpus();
    let (cpus, source) = match node(end, facts) {
        Some(node) => {
            let of_node = cpus_of(node, facts);
            let near: Vec<_> =
                allowed.iter().filter(|cpu| of_node.contains(cpu)).copied().collect();
            if near.is_empty() {
                let none = format!("none is of the device's NUMA node {node}");
                (allowed, format!("all that programs may use; {none}"))
            } else {
                (near, format!("those of the device's NUMA node {node}"))
            }
        }
        None => (allowed, "all that programs may use; the device names no NUMA node".to_owned()),
    };
    if !cpus.is_empty() {
        let _ = writeln!(text, "# Workers are pinned to these CPUs: {source}.\ncpus = {cpus:?}");
    }
    text
}

/// Returns the table of the link between two ends: as fast as its slower end, or as a comment if
/// neither end knows.
fn capacity([from, to]: &[String; 2], speeds: [Option<BitRate>; 2], mtu: Option<u64>) -> String {
    /// That of Ethernet.
    const MTU: u64 = 1500;
    let known = speeds.into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0));
    let (rate, mark) = match known {
        Some(rate) => (rate.to_string(), ""),
        None => ("1 Gbit/s".to_owned(), "# "),
    };
    let lines = [
        "[[capacity]]".to_owned(),
        format!("name = \"link {from}-{to}\""),
        format!("rate = \"{rate}\""),
        "frame_overhead = \"38 B\"".to_owned(),
        format!("mtu = \"{} B\"", mtu.unwrap_or(MTU)),
        format!("pairs = [[\"{from}\", \"{to}\"], [\"{to}\", \"{from}\"]]"),
        "source = \"speed of the slower interface\"".to_owned(),
    ];
    let mut text = "\n".to_owned();
    if known.is_none() {
        text += "# No interface reports a speed. If you know that of the path:\n";
    }
    lines.iter().for_each(|line| {
        let _ = writeln!(text, "{mark}{line}");
    });
    text
}

/// Returns the fact `key` of the interface of `end`.
fn of_device<'a>(end: &Endpoint, facts: &'a HostFacts, key: &str) -> Option<&'a Value> {
    facts.facts.get("interfaces")?.get(end.device.as_ref()?)?.get(key)
}

/// Returns the speed of the interface.
fn speed(end: &Endpoint, facts: &HostFacts) -> Option<BitRate> {
    interface_speed(facts.facts.get("interfaces")?.get(end.device.as_ref()?)?)
}

fn mtu(end: &Endpoint, facts: &HostFacts) -> Option<u64> {
    of_device(end, facts, "mtu")?.as_u64()
}

fn node(end: &Endpoint, facts: &HostFacts) -> Option<u64> {
    of_device(end, facts, "numa_node")?.as_u64()
}

/// Returns the CPUs of a NUMA node.
fn cpus_of(node: u64, facts: &HostFacts) -> Vec<usize> {
    let list = facts.facts.pointer(&format!("/memory/numa/{node}/cpus"));
    list.and_then(Value::as_str).and_then(cpu_list).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use linerate_model::Bytes;
    use serde_json::json;

    use super::*;

    fn facts(node: Value, speed: Value) -> HostFacts {
        let facts = json!({
            "cpu": { "allowed": [0, 1, 2, 3, 9] },
            "memory": { "numa": { "0": { "cpus": "0-1,8" }, "1": { "cpus": "2-3,9" } } },
            "interfaces": { "eth0": { "numa_node": node, "driver": "ice", "speed_bps": speed } },
        });
        HostFacts { facts, ..HostFacts::default() }
    }

    fn end() -> Endpoint {
        let address = Some("192.0.2.1".parse().expect("an address"));
        Endpoint { address, device: Some("eth0".into()), ..Endpoint::named("x", "h\"1") }
    }

    #[test]
    fn workers_get_the_cpus_of_the_devices_node_or_all_and_the_text_is_toml() {
        let text = endpoint("b", &end(), &facts(json!(1), json!(10e9)));
        let table: toml::Value = toml::from_str(&text).expect("TOML");
        let found = &table["endpoint"][0];
        assert_eq!(found["cpus"].to_string(), "[2, 3, 9]");
        assert_eq!(
            (found["host"].as_str(), found["device"].as_str()),
            (Some("h\"1"), Some("eth0"))
        );
        assert!(text.contains("10 Gbit/s") && text.contains("NUMA node 1"), "{text}");
        let mut remote = facts(json!(1), json!(10e9));
        for hostile in ["4-7", "0-18446744073709551615"] {
            remote.facts["memory"]["numa"]["1"]["cpus"] = hostile.into();
            let text = endpoint("b", &end(), &remote);
            let expected = "may use; none is of the device's NUMA node 1.\ncpus = [0, 1, 2, 3, 9]";
            assert!(text.contains(expected), "{text}");
        }
        let mut veth = facts(json!(1), json!(10e9));
        veth.facts["interfaces"]["eth0"]["virtual"] = true.into();
        assert_eq!(speed(&end(), &veth), None);
        let unknown = json!({ "unavailable": "no link" });
        let text = endpoint("b", &end(), &facts(unknown.clone(), unknown));
        assert!(
            text.contains("cpus = [0, 1, 2, 3, 9]") && text.contains("speed unknown"),
            "{text}"
        );
        assert!(text.contains("may use; the device names no NUMA node."), "{text}");
        assert_eq!(
            endpoint("b", &Endpoint::named("x", "h"), &HostFacts::default()),
            "\n[[endpoint]]\nname = \"b\"\nhost = \"h\"\n"
        );
    }

    #[test]
    fn a_link_is_as_fast_as_its_slower_end_and_an_unknown_one_is_a_comment() {
        let ends = ["a".to_owned(), "b".to_owned()];
        let text = capacity(&ends, [Some(BitRate(25e9)), Some(BitRate(10e9))], Some(9000));
        let table: toml::Value = toml::from_str(&text).expect("TOML");
        let capacity_of: Result<linerate_model::Capacity, _> =
            table["capacity"][0].clone().try_into();
        let found = capacity_of.expect("as testbed files have it");
        assert_eq!((found.rate, found.mtu, found.pairs.len()), (BitRate(10e9), Bytes(9000), 2));
        let unknown = capacity(&ends, [None, None], None);
        assert!(unknown.lines().all(|line| line.is_empty() || line.starts_with("# ")), "{unknown}");
    }
}
