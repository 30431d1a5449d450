//! Capacities of links, buses and sidebands, from which a study derives its ceilings.

use linerate_model::{BitRate, BoundClass, Bytes, Capacity};

use super::port_channel::{bus_classes, queue_instance};
use super::{Planner, WIRE_FRAME_OVERHEAD};
use crate::description::{
    Bus, BusEdge, Controller, ETHERNET_HEADER, Element, Link, LinkEnd, NodeKind,
};

/// Limit of a cable or a device, each way.
struct Bound {
    name: String,
    /// Name of its capacities, without the direction.
    edge: String,
    class: BoundClass,
    rate: BitRate,
    frame_overhead: Bytes,
    mtu: Bytes,
    source: String,
}

impl Planner<'_> {
    /// Adds the capacity of a sideband. It bounds every pair with the host behind it, whose only
    /// path it is. RMII carries Ethernet frames with preamble and gap (DSP0222).
    pub(super) fn note_sideband(&mut self, controller: &Controller) {
        let own = &controller.sideband.to.endpoint;
        let of_links = self.description.links.iter().flat_map(|link| &link.ends);
        let of_elements = self.description.elements.iter().flat_map(|element| &element.ends);
        let of_controllers = self.description.controllers.iter().map(|other| &other.sideband.to);
        let peers: Vec<&String> = of_links
            .chain(of_elements)
            .chain(of_controllers)
            .filter(|end| self.kind(self.node(&end.node)) == NodeKind::Host && end.endpoint != *own)
            .map(|end| &end.endpoint)
            .collect();
        let out = peers.iter().map(|peer| (own.clone(), (*peer).clone())).collect();
        let into = peers.iter().map(|peer| ((*peer).clone(), own.clone())).collect();
        // Directions are capacities of their own: a full-duplex link carries both at once.
        for (word, pairs) in [("out of", out), ("into", into)] {
            let edge = format!("sideband of {}", controller.name);
            self.capacities.push(Capacity {
                name: format!("{edge}, {word} {own}"),
                edge,
                class: BoundClass::Link,
                rate: controller.sideband.rate,
                frame_overhead: WIRE_FRAME_OVERHEAD,
                mtu: controller.mtu,
                pairs,
                source: format!("lab {}: emulated controller", self.description.name),
                members: Vec::new(),
            });
        }
    }

    /// Adds the capacity of the link's shaper.
    pub(super) fn note_capacity(&mut self, link: &Link) {
        let Some(rate) = link.rate else { return };
        let name = format!("link {}-{}", link.ends[0].node, link.ends[1].node);
        let source = format!("lab {}: token bucket", self.description.name);
        let edge = name.clone();
        self.note_cable(
            &link.ends,
            Bound {
                name,
                edge,
                class: BoundClass::Link,
                rate,
                frame_overhead: ETHERNET_HEADER,
                mtu: link.mtu,
                source,
            },
        );
    }

    /// Adds the capacity of a device, counted as on a wire.
    pub(super) fn note_element(&mut self, element: &Element) {
        let Some(rate) = element.rate.or(element.port_rate) else { return };
        let name = format!("device {}", element.name);
        let source = format!("lab {}: emulated device", self.description.name);
        self.note_cable(
            &element.ends,
            Bound {
                name,
                edge: element.name.clone(),
                class: BoundClass::Device,
                rate,
                frame_overhead: WIRE_FRAME_OVERHEAD,
                mtu: element.mtu,
                source,
            },
        );
    }

    /// Adds a capacity between `ends`. It bounds every pair of hosts whose only path leads over it,
    /// which is certain if one of the ends is a host.
    fn note_cable(&mut self, ends: &[LinkEnd; 2], bound: Bound) {
        let is_host = |i: usize| self.kind(self.node(&ends[i].node)) == NodeKind::Host;
        let of_links = self.description.links.iter().flat_map(|link| &link.ends);
        let of_elements = self.description.elements.iter().flat_map(|element| &element.ends);
        let all: Vec<&str> = of_links
            .chain(of_elements)
            .filter(|end| self.kind(self.node(&end.node)) == NodeKind::Host)
            .map(|end| end.endpoint.as_str())
            .collect();
        let mut found = Vec::new();
        for i in [0, 1].into_iter().filter(|&i| is_host(i)) {
            let own = ends[i].endpoint.as_str();
            let peers: Vec<&str> =
                if is_host(1 - i) { vec![ends[1 - i].endpoint.as_str()] } else { all.clone() };
            let peers = peers.into_iter().filter(|peer| *peer != own);
            let (out, into): (Vec<_>, Vec<_>) = peers
                .map(|peer| ((own.to_owned(), peer.to_owned()), (peer.to_owned(), own.to_owned())))
                .unzip();
            // Between two hosts "out of" each end covers both directions once.
            let directions = if is_host(1 - i) {
                vec![("out of", out)]
            } else {
                vec![("out of", out), ("into", into)]
            };
            for (word, pairs) in directions {
                found.push(Capacity {
                    name: format!("{}, {word} {own}", bound.name),
                    edge: bound.edge.clone(),
                    class: bound.class,
                    rate: bound.rate,
                    frame_overhead: bound.frame_overhead,
                    mtu: bound.mtu,
                    pairs,
                    source: bound.source.clone(),
                    members: Vec::new(),
                });
            }
        }
        self.capacities.extend(found);
    }

    /// Adds the capacities of `bus`. `devices` are the trunk's interfaces at its two hosts.
    pub(super) fn note_bus_capacities(&mut self, bus: &Bus, devices: &[String; 2]) {
        for edge in &bus.edges {
            // Every endpoint below the edge passes through it.
            let leaves =
                bus.edges.iter().filter(|leaf| leaf.ends.is_some() && is_below(bus, edge, leaf));
            let ends: Vec<[String; 2]> = leaves.filter_map(|leaf| leaf.ends.clone()).collect();
            for direction in [0, 1] {
                self.capacities.push(Capacity {
                    name: format!(
                        "{}, {} to {}",
                        edge.name,
                        bus.between[direction],
                        bus.between[1 - direction]
                    ),
                    edge: edge.name.clone(),
                    // A port channel leads out of the host.
                    class: if edge.group().is_some() { BoundClass::Link } else { BoundClass::Bus },
                    rate: edge.rate,
                    frame_overhead: ETHERNET_HEADER,
                    mtu: bus.mtu,
                    pairs: ends
                        .iter()
                        .map(|e| (e[direction].clone(), e[1 - direction].clone()))
                        .collect(),
                    source: format!(
                        "lab {}: class of a hierarchical token bucket",
                        self.description.name
                    ),
                    members: edge.group().map_or_else(Vec::new, |_| {
                        bus_classes(bus, edge)
                            .map(|class| queue_instance(&devices[direction], class))
                            .collect()
                    }),
                });
            }
        }
    }
}

/// Returns true if `leaf` is `edge` or below it.
fn is_below(bus: &Bus, edge: &BusEdge, leaf: &BusEdge) -> bool {
    let parent = |of: &&BusEdge| {
        of.parent.as_ref().and_then(|name| bus.edges.iter().find(|other| other.name == *name))
    };
    std::iter::successors(Some(leaf), parent).any(|above| above.name == edge.name)
}
