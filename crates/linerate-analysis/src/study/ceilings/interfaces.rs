//! Network interfaces of the ends that have a line rate, each direction by itself (full duplex).
//!
//! The rate is the speed that the device reports, counted as its wire counts. A VLAN has that of what it stands on, a bond or team what it
//! reports of members that all have one. Not bounded: paravirtual devices, whose speed is a name; bridges and tunnels, whose packets may
//! take another way than the device below.

use std::collections::BTreeSet;

use linerate_model::{BitRate, BoundClass, BoundPart, Bytes};
use serde_json::Value;

use super::super::samples::Hosts;
use super::super::traffic::Job;
use super::{Carried, Element, ends};
use crate::limits::ethernet;

/// Drivers whose reported speed is a name, not a limit.
const VIRTUAL_DRIVERS: [&str; 11] =
    ["bonding", "bridge", "dummy", "ena", "hv_netvsc", "team", "tun", "veth", "virtio_net", "vmxnet3", "xen_netfront"];
/// Kinds of links whose packets are carried in others, as the kernel calls them.
const TUNNELS: [&str; 12] =
    ["geneve", "gre", "gretap", "ip6gre", "ip6gretap", "ip6tnl", "ipip", "sit", "tun", "vti", "vxlan", "wireguard"];
/// Kinds of links that are as fast as their members together.
const GROUPS: [&str; 2] = ["bond", "team"];

/// The interfaces that the flows of `carried` leave or come in by.
pub(super) fn elements(hosts: &Hosts<'_>, jobs: &[Job<'_>], carried: &[Carried<'_>]) -> Vec<Element> {
    let mut elements: Vec<Element> = Vec::new();
    for one in carried {
        let (sender, receiver) = ends(&jobs[one.id.0], one.id.1);
        for (end, receives) in [(sender, false), (receiver, true)] {
            let Some(device) = &end.device else { continue };
            let mtu = hosts.interface_fact(&end.host, device, "mtu").and_then(Value::as_u64);
            let (Some(speed), Some(mtu)) = (line_rate(hosts, &end.host, device), mtu) else { continue };
            let name = format!("{device} of {} ({})", end.host, if receives { "receiving" } else { "sending" });
            match elements.iter_mut().find(|element| element.name == name) {
                Some(element) => {
                    element.crossed_by.insert(one.id);
                }
                None => elements.push(Element {
                    part: BoundPart { class: BoundClass::Interface, host: end.host.clone(), name: device.clone() },
                    name,
                    rate: BitRate(speed),
                    frame_overhead: ethernet::packet_overhead(tags(hosts, &end.host, device)),
                    mtu: Bytes(mtu),
                    crossed_by: BTreeSet::from([one.id]),
                    receives,
                    burst: 0.0,
                    source: format!("facts of {}: interfaces.{device}.speed_bps and mtu; IEEE 802.3", end.host),
                }),
            }
        }
    }
    elements
}

/// Why no interface bounds the flows of `carried` at an end, for each end of which that is so.
pub(super) fn unbounded(hosts: &Hosts<'_>, jobs: &[Job<'_>], carried: &[Carried<'_>]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for one in carried {
        let (sender, receiver) = ends(&jobs[one.id.0], one.id.1);
        for end in [sender, receiver] {
            let why = match &end.device {
                None => Some(format!(
                    "{}: its host names no single device towards the other end (several routes, or an agent that does not tell)",
                    end.name
                )),
                Some(device) => {
                    without_rate(hosts, &end.host, device).map(|why| format!("{device} of {}: {why}", end.host))
                }
            };
            told.extend(why.filter(|why| !told.contains(why)));
        }
    }
    told
}

/// Why `device` bounds nothing; `None` if it does.
fn without_rate(hosts: &Hosts<'_>, host: &str, device: &str) -> Option<String> {
    if line_rate(hosts, host, device).is_some() {
        return None;
    }
    let device = hosts.carrier(host, device);
    let fact = |name| hosts.interface_fact(host, device, name);
    let below = fact("lower").and_then(Value::as_array).filter(|lower| !lower.is_empty());
    let below = below.map(|lower| lower.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "));
    let kind = fact("kind").and_then(Value::as_str).unwrap_or_default();
    Some(match (kind, fact("driver").and_then(Value::as_str)) {
        ("bridge", _) => {
            let ports = below.map_or_else(String::new, |ports| format!(" ({ports})"));
            format!("a bridge, whose packets leave by any of its ports{ports}")
        }
        ("bond" | "team", _) => "a group of links of which not all report a line rate".to_owned(),
        ("loopback", _) => "loopback has no line rate".to_owned(),
        (kind, _) if TUNNELS.contains(&kind) => {
            format!(
                "a tunnel ({kind}), whose packets take a route of their own: declare a capacity of the path below it in a testbed file"
            )
        }
        (_, Some(driver)) if VIRTUAL_DRIVERS.contains(&driver) => {
            format!("its driver ({driver}) reports a name for a speed, or none: declare a capacity in a testbed file")
        }
        _ if fact("mtu").is_none() => "its host tells nothing of it".to_owned(),
        _ => "it reports no line rate (no link, or a virtual device): declare a capacity in a testbed file".to_owned(),
    })
}

/// Bits a second on the wire behind `device`, if it is one of known rate.
fn line_rate(hosts: &Hosts<'_>, host: &str, device: &str) -> Option<f64> {
    let device = hosts.carrier(host, device);
    let fact = |name| hosts.interface_fact(host, device, name);
    let speed = fact("speed_bps").and_then(Value::as_f64).filter(|speed| *speed > 0.0);
    if fact("kind").and_then(Value::as_str).is_some_and(|kind| GROUPS.contains(&kind)) {
        let members = fact("lower").and_then(Value::as_array).filter(|members| !members.is_empty())?;
        let member = |name: &Value| name.as_str().and_then(|name| physical(hosts, host, name));
        let together: f64 = members.iter().map(member).sum::<Option<f64>>()?;
        return Some(speed.map_or(together, |speed| speed.min(together)));
    }
    physical(hosts, host, device)
}

/// What a device that is no software of the kernel or a hypervisor reports.
fn physical(hosts: &Hosts<'_>, host: &str, device: &str) -> Option<f64> {
    let fact = |name| hosts.interface_fact(host, device, name);
    let virtual_driver = fact("driver").and_then(Value::as_str).is_none_or(|d| VIRTUAL_DRIVERS.contains(&d));
    let is_virtual = virtual_driver || fact("virtual").and_then(Value::as_bool).unwrap_or(false);
    fact("speed_bps").and_then(Value::as_f64).filter(|speed| *speed > 0.0 && !is_virtual)
}

/// VLAN tags that the packets of `device` carry on the wire.
fn tags(hosts: &Hosts<'_>, host: &str, device: &str) -> u32 {
    u32::from(hosts.carrier(host, device) != device)
}
