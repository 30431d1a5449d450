//! Addresses of ports and routes between segments.
//!
//! Addresses come from 198.18.0.0/15 (RFC 2544 appendix C.2.2) and 2001:2::/48 (RFC 5180 clause 8):
//! they are reserved for benchmarks and never routed. Each segment (a link, a switch with its
//! links, or a bus) is one /24 and one /64.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linerate_model::{Endpoint, Nanos};
use linerate_sys::steering;

use super::{Planner, Port};
use crate::description::{Family, NodeKind};

impl Planner<'_> {
    /// Gives every port its addresses. Host numbers count up within a segment.
    pub(super) fn address(&mut self) {
        let mut next_host = vec![1_usize; self.n_segments];
        for port in &self.ports {
            let settings = &self.description.nodes[port.node].settings;
            if !settings.receive_cpus.is_empty() {
                let mask = steering::grouped(&steering::mask(&settings.receive_cpus));
                self.namespaces[port.node].steered.push((port.device.clone(), mask));
            }
            if let Some(interval) = settings.interrupt_interval {
                self.namespaces[port.node].mitigated.push((port.device.clone(), interval));
            }
            if settings.filters > 0 {
                self.namespaces[port.node].tc.extend(filters(&port.device, settings.filters));
            }
            let names: Vec<Option<&String>> = if port.endpoints.is_empty() {
                vec![None]
            } else {
                port.endpoints.iter().map(Some).collect()
            };
            for name in names {
                let host = next_host[port.segment];
                next_host[port.segment] += 1;
                let (v4, v6) = (address_v4(port.segment, host), address_v6(port.segment, host));
                let namespace = &mut self.namespaces[port.node];
                namespace.ip.push(format!("addr add {v4}/24 dev {}", port.device));
                // Without `nodad` the address is tentative for a second, and a bind fails.
                namespace.ip.push(format!("addr add {v6}/64 dev {} nodad", port.device));
                if let Some(least) = settings.min_rto {
                    namespace.ip.extend(least_timeout(port, v4, least));
                }
                if let Some(name) = name {
                    let address = match self.description.family {
                        Family::Ipv4 => IpAddr::V4(v4),
                        Family::Ipv6 => IpAddr::V6(v6),
                    };
                    self.endpoints.push(Endpoint {
                        name: name.clone(),
                        host: namespace.node.clone(),
                        address: Some(address),
                        device: Some(port.device.clone()),
                        branches: Vec::new(),
                        cpus: settings.cpus.clone(),
                        pin: !settings.cpus.is_empty(),
                        ncsi: self.sidebands.contains(&port.device).then(|| port.device.clone()),
                    });
                }
            }
        }
        self.shape_buses();
    }

    /// Adds routes between segments: breadth first over routers, next hop by next hop.
    pub(super) fn route(&mut self) {
        let mut additions: Vec<(usize, String)> = Vec::new();
        // A switch has no address and routes nothing.
        for node in (0..self.namespaces.len()).filter(|&node| self.kind(node) != NodeKind::Switch) {
            let own: Vec<usize> =
                self.ports.iter().filter(|p| p.node == node).map(|p| p.segment).collect();
            let mut first_hop: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
            let mut queue: VecDeque<(usize, Option<(usize, usize)>)> =
                own.iter().map(|&s| (s, None)).collect();
            let mut seen = own.clone();
            while let Some((segment, via)) = queue.pop_front() {
                for router in self.ports.iter().filter(|p| {
                    p.segment == segment && p.node != node && self.kind(p.node) == NodeKind::Router
                    // Hosts with several interfaces do not forward.
                }) {
                    let hop = via.unwrap_or((segment, router.node));
                    for beyond in self
                        .ports
                        .iter()
                        .filter(|p| p.node == router.node && !seen.contains(&p.segment))
                        // Collected before the loop body marks segments as seen.
                        .map(|p| p.segment)
                        .collect::<Vec<_>>()
                    {
                        seen.push(beyond);
                        first_hop.insert(beyond, hop);
                        queue.push_back((beyond, Some(hop)));
                    }
                }
            }
            for (segment, (at, router)) in first_hop {
                let gateway = self.host_number(at, router);
                additions.push((
                    node,
                    format!(
                        "route add {}/24 via {}",
                        address_v4(segment, 0),
                        address_v4(at, gateway)
                    ),
                ));
                // Both families are routed, whichever the endpoints use: tests may use the other
                // one.
                additions.push((
                    node,
                    format!(
                        "route add {}/64 via {}",
                        address_v6(segment, 0),
                        address_v6(at, gateway)
                    ),
                ));
            }
        }
        for (node, line) in additions {
            self.namespaces[node].ip.push(line);
        }
    }

    pub(super) fn host_number(&self, segment: usize, node: usize) -> usize {
        let before =
            self.ports.iter().filter(|p| p.segment == segment).take_while(|p| p.node != node);
        1 + before.map(|p| p.endpoints.len().max(1)).sum::<usize>()
    }
}

/// Returns `tc` lines with `count` rules for each packet received at `device`. None of them
/// matches: they require a source address that only documentation uses (RFC 5737).
fn filters(device: &str, count: u32) -> Vec<String> {
    std::iter::once(format!("qdisc add dev {device} clsact"))
        .chain((0..count).map(|number| filter_rule(device, number)))
        .collect()
}

fn filter_rule(device: &str, number: u32) -> String {
    // The rules are all alike. The kernel does not merge them, so each packet passes them all.
    format!(
        "filter add dev {device} ingress protocol ip prio 1 u32 match ip src 192.0.2.{}/32 \
         classid 1:1",
        number % 256
    )
}

/// Replaces the routes that the kernel made for a port's own segment by ones with a shortest
/// retransmission timeout.
fn least_timeout(port: &Port, own: Ipv4Addr, least: Nanos) -> [String; 2] {
    /// Metric of the routes that the kernel makes for IPv6 addresses.
    const KERNEL_METRIC: u32 = 256;
    let (v4, v6) = (address_v4(port.segment, 0), address_v6(port.segment, 0));
    let least = least.0 / Nanos::from_millis(1).0;
    let device = &port.device;
    [
        format!(
            "route replace {v4}/24 dev {device} proto kernel scope link src {own} rto_min {least}ms"
        ),
        format!(
            "route replace {v6}/64 dev {device} proto kernel metric {KERNEL_METRIC} rto_min \
                {least}ms"
        ),
    ]
}

pub(super) fn address_v4(segment: usize, host: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18 + (segment >> 8) as u8, segment as u8, host as u8)
}

fn address_v6(segment: usize, host: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 2, 0, segment as u16, 0, 0, 0, host as u16)
}
