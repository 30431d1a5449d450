//! Line rates of network interfaces, and why an end has none.
//!
//! The rate is the speed that the device reports, counted as its wire counts. A bond or team has
//! what it reports of members that all have one. Not bounded: paravirtual devices, whose speed is a
//! name.

use linerate_model::Endpoint;
use serde_json::Value;

use super::super::leaving;
use super::super::samples::Hosts;
use super::super::traffic::Job;
use super::{Carried, ends};

/// Drivers whose reported speed is a name, not a limit.
const VIRTUAL_DRIVERS: [&str; 12] = [
    "bonding",
    "bridge",
    "dummy",
    "ena",
    "hv_netvsc",
    "macvlan",
    "team",
    "tun",
    "veth",
    "virtio_net",
    "vmxnet3",
    "xen_netfront",
];
/// Kinds of links whose packets are carried in others, by the kernel's names.
const TUNNELS: [&str; 12] = [
    "geneve",
    "gre",
    "gretap",
    "ip6gre",
    "ip6gretap",
    "ip6tnl",
    "ipip",
    "sit",
    "tun",
    "vti",
    "vxlan",
    "wireguard",
];
/// Kinds of links that are stacked on another one.
const ON_ANOTHER: [&str; 4] = ["ipvlan", "ipvtap", "macvlan", "macvtap"];
/// Kinds of links that are as fast as their members together.
const GROUPS: [&str; 2] = ["bond", "team"];

/// Returns the reason why the flows of `carried` have no bound, for each end without one.
pub(super) fn unbounded(
    hosts: &Hosts<'_>,
    jobs: &[Job<'_>],
    carried: &[Carried<'_>],
) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for one in carried {
        let (sender, receiver) = ends(&jobs[one.id.0], one.id.1);
        for (end, other) in [(sender, receiver), (receiver, sender)] {
            // Flows of one job share their ends, which would repeat the reason for each direction.
            told.extend(of_end(hosts, end, other).filter(|why| !told.contains(why)));
        }
    }
    told
}

/// Returns the reason why packets that leave the host of `end` have no bound.
fn of_end(hosts: &Hosts<'_>, end: &Endpoint, other: &Endpoint) -> Option<String> {
    let branches = leaving::branches(hosts, end, other);
    let host = &end.host;
    let whys: Vec<String> = match (&branches[..], &end.device) {
        ([], None) => {
            return Some(format!(
                "{}: its host names no single device towards the other end (several routes, or an \
                    agent that does not report it)",
                end.name
            ));
        }
        ([], Some(device)) => {
            vec![format!("{device} of {host}: {}", without_rate(hosts, host, device)?)]
        }
        (branches, _) => {
            let why = |branch: &leaving::Branch<'_>| {
                let (first, last) = (branch.layers.first()?.device, branch.layers.last()?.device);
                let why = without_rate(hosts, host, last)?;
                let below = if first == last {
                    String::new()
                } else {
                    format!("its packets leave by {last}: ")
                };
                Some(format!("{first} of {host}: {below}{why}"))
            };
            branches.iter().filter_map(why).collect()
        }
    };
    (!whys.is_empty()).then(|| whys.join("; "))
}

/// Returns the reason why `device` is no bound; `None` if it is one.
fn without_rate(hosts: &Hosts<'_>, host: &str, device: &str) -> Option<String> {
    if line_rate(hosts, host, device).is_some() {
        return None;
    }
    let fact = |name| hosts.interface_fact(host, device, name);
    let below = fact("lower").and_then(Value::as_array).filter(|lower| !lower.is_empty());
    let below =
        below.map(|lower| lower.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "));
    let kind = fact("kind").and_then(Value::as_str).unwrap_or_default();
    let qdiscs = fact("qdiscs").and_then(Value::as_array);
    // One that bounds all packets would be an element.
    let is_shaped_in_part = qdiscs.is_some_and(|qdiscs| {
        qdiscs.iter().any(|qdisc| qdisc.get("kind").and_then(Value::as_str) == Some("htb"))
    });
    Some(match (kind, fact("driver").and_then(Value::as_str)) {
        // A htb without default class is the reason that users can repair, so it is reported before
        // the kind of device.
        _ if is_shaped_in_part => {
            "packets that no filter of its htb discipline picks are not shaped: give it a default \
                class, or declare a capacity in a testbed file"
                .to_owned()
        }
        ("bridge", _) => {
            let ports = below.map_or_else(String::new, |ports| format!(" ({ports})"));
            format!(
                "a bridge that has not learned which of its ports{ports} leads to the other end"
            )
        }
        ("bond" | "team", _) => "a group of links, not all of which report a line rate".to_owned(),
        ("loopback", _) => "loopback has no line rate".to_owned(),
        (kind, _) if TUNNELS.contains(&kind) => {
            format!(
                "a tunnel ({kind}) without a single route to its other end: declare a capacity of \
                    the path below it in a testbed file"
            )
        }
        (kind, _) if ON_ANOTHER.contains(&kind) => {
            format!(
                "a {kind} that may reach the other end, which is on the same machine, without the \
                    device below: declare a capacity in a testbed file"
            )
        }
        (_, Some(driver)) if VIRTUAL_DRIVERS.contains(&driver) => {
            format!(
                "its driver ({driver}) reports a name for a speed, or none: declare a capacity \
                in a testbed file"
            )
        }
        _ if fact("mtu").is_none() => "its host reports no facts of it".to_owned(),
        _ => "it reports no line rate (no link, or a virtual device): declare a capacity in a \
            testbed file"
            .to_owned(),
    })
}

/// Bits a second on the wire behind `device` itself, if it is one of known rate.
pub(super) fn line_rate(hosts: &Hosts<'_>, host: &str, device: &str) -> Option<f64> {
    let fact = |name| hosts.interface_fact(host, device, name);
    let speed = fact("speed_bps").and_then(Value::as_f64).filter(|speed| *speed > 0.0);
    if fact("kind").and_then(Value::as_str).is_some_and(|kind| GROUPS.contains(&kind)) {
        let members =
            fact("lower").and_then(Value::as_array).filter(|members| !members.is_empty())?;
        let member = |name: &Value| name.as_str().and_then(|name| physical(hosts, host, name));
        // A group with one member of unknown rate has no known rate.
        let together: f64 = members.iter().map(member).sum::<Option<f64>>()?;
        // The bond reports the rate of its active members, the sum counts failed ones too.
        return Some(speed.map_or(together, |speed| speed.min(together)));
    }
    physical(hosts, host, device)
}

/// Returns the speed reported by a device that is not software of the kernel or a hypervisor.
fn physical(hosts: &Hosts<'_>, host: &str, device: &str) -> Option<f64> {
    let fact = |name| hosts.interface_fact(host, device, name);
    let virtual_driver =
        // A device without driver is software of the kernel.
        fact("driver").and_then(Value::as_str).is_none_or(|d| VIRTUAL_DRIVERS.contains(&d));
    let is_virtual = virtual_driver || fact("virtual").and_then(Value::as_bool).unwrap_or(false);
    fact("speed_bps").and_then(Value::as_f64).filter(|speed| *speed > 0.0 && !is_virtual)
}
