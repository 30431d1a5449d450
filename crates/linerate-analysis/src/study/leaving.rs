//! The devices that packets of an end pass on their way out of its host, from the device of its
//! sockets to the one at the wire.
//!
//! A VLAN or macvlan hands its packets to the device below it, a tunnel to the device that leads to
//! its other end, a bridge to the port towards the other end ([`Endpoint::branches`]). Each adds
//! headers, which the devices below count. Where several next hops share the packets, each of them
//! is a branch of its own. Not known: the device below a macvlan that delivers to its siblings
//! itself, if the other end may be one of them, and members of bonds, which [`super::ceilings`]
//! combines.

use linerate_model::{Bytes, Endpoint};
use serde_json::Value;

use super::samples::Hosts;

/// Devices below a device: more are rare.
const DEEPEST: usize = 6;
/// A tag of IEEE 802.1Q.
const TAG: u64 = 4;
/// Kinds of links whose packets have no header of Ethernet, as far as it is certain.
const WITHOUT_FRAMES: [&str; 9] =
    ["gre", "ip6gre", "ip6tnl", "ipip", "none", "sit", "tun", "vti", "wireguard"];

/// A device that packets pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer<'a> {
    pub(super) device: &'a str,
    /// Bytes of headers of the devices above it, on top of the IP packet that left the socket.
    pub(super) added: Bytes,
    /// VLAN tags around what it carries.
    pub(super) tags: u32,
    /// True if its packets begin with an Ethernet header.
    pub(super) is_ethernet: bool,
}

/// One way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Branch<'a> {
    /// The first one is what the sockets use. Not empty.
    pub(super) layers: Vec<Layer<'a>>,
    /// The largest IP packet that leaves a socket.
    pub(super) mtu: Bytes,
}

/// Returns the ways out of the host of `end` towards `other`: one, or one for each of several next
/// hops. None if no device is known.
pub(super) fn branches<'a>(
    hosts: &Hosts<'a>,
    end: &'a Endpoint,
    other: &Endpoint,
) -> Vec<Branch<'a>> {
    let port = match &end.branches[..] {
        // A bridge knows its port only if there is a single next hop.
        [port] => Some(port.as_str()),
        _ => None,
    };
    let apart = hosts.kernel(&end.host) != hosts.kernel(&other.host);
    let tops: Vec<&str> = match &end.device {
        Some(device) => vec![device.as_str()],
        None => end.branches.iter().map(String::as_str).collect(),
    };
    let mut found = Vec::with_capacity(tops.len());
    for top in tops {
        let mtu = hosts.interface_fact(&end.host, top, "mtu").and_then(Value::as_u64);
        // Without an MTU no ceiling can be computed, and an unknown path could be the fastest.
        let Some(mtu) = mtu.map(Bytes) else { return Vec::new() };
        found.push(Branch { layers: down(hosts, &end.host, top, port, apart), mtu });
    }
    found
}

/// Returns the devices of each way out, uppermost first. For a host without device facts, the
/// device that the endpoint names.
pub(super) fn device_chains<'a>(
    hosts: &Hosts<'a>,
    end: &'a Endpoint,
    other: &Endpoint,
) -> Vec<Vec<&'a str>> {
    let branches = branches(hosts, end, other);
    match (&branches[..], &end.device) {
        ([], Some(device)) => vec![vec![device.as_str()]],
        (branches, _) => branches
            .iter()
            .map(|branch| branch.layers.iter().map(|layer| layer.device).collect())
            .collect(),
    }
}

fn down<'a>(
    hosts: &Hosts<'a>,
    host: &str,
    top: &'a str,
    port: Option<&'a str>,
    apart: bool,
) -> Vec<Layer<'a>> {
    let fact = |device: &str, name: &str| hosts.interface_fact(host, device, name);
    let kind = |device: &str| fact(device, "kind").and_then(Value::as_str).unwrap_or_default();
    let is_ethernet = |device: &str| !WITHOUT_FRAMES.contains(&kind(device));
    let first = Layer { device: top, added: Bytes(0), tags: 0, is_ethernet: is_ethernet(top) };
    let mut layers = vec![first];
    let (mut added, mut tags) = (0, 0);
    // The limit ends a loop of devices in a damaged ledger.
    for _ in 0..DEEPEST {
        let device = layers[layers.len() - 1].device;
        let only_one = || only_text(fact(device, "lower"));
        let below = match kind(device) {
            "vlan" => {
                tags += 1;
                only_one()
            }
            // A sibling of another namespace is reached without the device below.
            "macvlan" | "macvtap" | "ipvlan" | "ipvtap" => only_one()
                // In this mode every frame leaves by the device below, even to a sibling
                // (802.1Qbg).
                .filter(|_| apart || fact(device, "mode").and_then(Value::as_str) == Some("vepa")),
            "bridge" => port,
            _ => match fact(device, "tunnel")
                .and_then(|tunnel| tunnel.get("header_bytes")?.as_u64())
            {
                Some(header) => {
                    // The tunnel carries the tags as payload, and the frames below it have none.
                    added += header + u64::from(tags) * TAG;
                    tags = 0;
                    only_one()
                }
                None => None,
            },
        };
        // A device that appeared before is a loop.
        match below.filter(|below| layers.iter().all(|layer| layer.device != *below)) {
            Some(device) => {
                let is_ethernet = is_ethernet(device);
                layers.push(Layer { device, added: Bytes(added), tags, is_ethernet });
            }
            None => break,
        }
    }
    layers
}

/// Returns the text of a list that has one entry.
fn only_text(list: Option<&Value>) -> Option<&str> {
    match list?.as_array()?.as_slice() {
        [only] => only.as_str(),
        _ => None,
    }
}
