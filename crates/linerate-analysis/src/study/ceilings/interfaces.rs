//! Line rates of network interfaces, and why an end has none.
//!
//! The rate is the speed that the device reports, counted as its wire counts. A bond or team has
//! what it reports of members that all have one. Not bounded: paravirtual devices, whose speed is a
//! name.

use linerate_model::{BitRate, Endpoint};
use serde::{Deserialize, Serialize};
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

/// Reason why packets that leave an end have no bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unbounded {
    /// The host of this end names no single device towards the other end.
    NoSingleDevice {
        /// Name of the end.
        end: String,
    },
    /// Devices by which the packets leave, each without a rate.
    Devices(Vec<Rateless>),
}

/// A device without a known rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rateless {
    /// Its host.
    pub host: String,
    /// The device that the packets are given to.
    pub device: String,
    /// The last device of a stack, if it is another one.
    pub below: Option<String>,
    /// The reason.
    pub cause: NoRate,
}

/// Reason why a device has no known rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoRate {
    /// Its htb discipline does not shape packets that no filter picks.
    ShapedInPart,
    /// A bridge that has not learned the port; its ports, if they are known.
    Bridge(Option<String>),
    /// A group with a member that reports no rate.
    Group,
    /// The loopback device.
    Loopback,
    /// A tunnel of this kind without a single route.
    Tunnel(String),
    /// A device of this kind, which may reach the other end without the device below.
    OnAnother(String),
    /// Its driver reports a name for a speed, or none.
    VirtualDriver(String),
    /// Its host reports no facts of it.
    NoFacts,
    /// It reports no rate.
    NotReported,
}

/// Returns the reason why the flows of `carried` have no bound, for each end without one.
pub(super) fn unbounded(
    hosts: &Hosts<'_>,
    jobs: &[Job<'_>],
    carried: &[Carried<'_>],
) -> Vec<Unbounded> {
    let mut found: Vec<Unbounded> = Vec::new();
    for one in carried {
        let (sender, receiver) = ends(&jobs[one.id.0], one.id.1);
        for (end, other) in [(sender, receiver), (receiver, sender)] {
            // Flows of one job share their ends, which would repeat the reason for each direction.
            found.extend(of_end(hosts, end, other).filter(|why| !found.contains(why)));
        }
    }
    found
}

/// Returns the reason why packets that leave the host of `end` have no bound.
fn of_end(hosts: &Hosts<'_>, end: &Endpoint, other: &Endpoint) -> Option<Unbounded> {
    // Nobody reads there, so a reason of its own says nothing new.
    if !end.has_agent() {
        return None;
    }
    let branches = leaving::branches(hosts, end, other);
    let host = &end.host;
    let found: Vec<Rateless> = match (&branches[..], &end.device) {
        ([], None) => return Some(Unbounded::NoSingleDevice { end: end.name.clone() }),
        ([], Some(device)) => rateless(hosts, host, device, device).into_iter().collect(),
        (branches, _) => branches
            .iter()
            .filter_map(|branch| {
                let (first, last) = (branch.layers.first()?, branch.layers.last()?);
                rateless(hosts, host, first.device, last.device)
            })
            .collect(),
    };
    (!found.is_empty()).then_some(Unbounded::Devices(found))
}

/// Returns `device` as one without a rate, if `last`, by which its packets leave, has none.
fn rateless(hosts: &Hosts<'_>, host: &str, device: &str, last: &str) -> Option<Rateless> {
    let cause = no_rate(hosts, host, last)?;
    let below = (device != last).then(|| last.to_owned());
    Some(Rateless { host: host.to_owned(), device: device.to_owned(), below, cause })
}

/// Returns the reason why `device` is no bound; `None` if it is one.
fn no_rate(hosts: &Hosts<'_>, host: &str, device: &str) -> Option<NoRate> {
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
        _ if is_shaped_in_part => NoRate::ShapedInPart,
        ("bridge", _) => NoRate::Bridge(below),
        ("bond" | "team", _) => NoRate::Group,
        ("loopback", _) => NoRate::Loopback,
        (kind, _) if TUNNELS.contains(&kind) => NoRate::Tunnel(kind.to_owned()),
        (kind, _) if ON_ANOTHER.contains(&kind) => NoRate::OnAnother(kind.to_owned()),
        (_, Some(driver)) if VIRTUAL_DRIVERS.contains(&driver) => {
            NoRate::VirtualDriver(driver.to_owned())
        }
        _ if fact("mtu").is_none() => NoRate::NoFacts,
        _ => NoRate::NotReported,
    })
}

/// Bits a second on the wire behind `device` itself, if it is one of known rate.
pub(super) fn line_rate(hosts: &Hosts<'_>, host: &str, device: &str) -> Option<f64> {
    let fact = |name| hosts.interface_fact(host, device, name);
    let speed = fact("speed_bps").and_then(Value::as_f64).filter(|speed| *speed > 0.0);
    if fact("kind").and_then(Value::as_str).is_some_and(|kind| GROUPS.contains(&kind)) {
        let members =
            fact("lower").and_then(Value::as_array).filter(|members| !members.is_empty())?;
        let member = |name: &Value| physical(hosts, host, name.as_str()?);
        // A group with one member of unknown rate has no known rate.
        let together: f64 = members.iter().map(member).sum::<Option<f64>>()?;
        // The bond reports the rate of its active members, the sum counts failed ones too.
        return Some(speed.map_or(together, |speed| speed.min(together)));
    }
    physical(hosts, host, device)
}

fn physical(hosts: &Hosts<'_>, host: &str, device: &str) -> Option<f64> {
    Some(interface_speed(hosts.fact(host, "interfaces")?.get(device)?)?.0)
}

/// Returns the speed that an interface with these `facts` reports; `None` for software of the
/// kernel or a hypervisor, whose speed is a name and no limit.
#[must_use]
pub fn interface_speed(facts: &Value) -> Option<BitRate> {
    let virtual_driver =
        // A device without driver is software of the kernel.
        facts["driver"].as_str().is_none_or(|driver| VIRTUAL_DRIVERS.contains(&driver));
    let is_virtual = virtual_driver || facts["virtual"].as_bool().unwrap_or(false);
    facts["speed_bps"].as_f64().filter(|speed| *speed > 0.0 && !is_virtual).map(BitRate)
}
