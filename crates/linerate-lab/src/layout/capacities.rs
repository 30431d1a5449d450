//! Capacities of links, buses and sidebands, from which a study derives its ceilings.

use linerate_model::{BitRate, BoundClass, Bytes, Capacity};

use super::port_channel::{bus_classes, queue_instance};
use super::{Planner, WIRE_FRAME_OVERHEAD};
use crate::description::{
    Bus, BusEdge, Controller, ETHERNET_HEADER, Element, Link, LinkEnd, NodeKind,
};

impl Planner<'_> {
    /// Returns a capacity of this lab that is emulated by `means`, each way, without pairs so far.
    fn capacity(
        &self,
        edge: &str,
        class: BoundClass,
        (rate, frame_overhead, mtu): (BitRate, Bytes, Bytes),
        means: &str,
    ) -> Capacity {
        Capacity {
            name: edge.to_owned(),
            edge: edge.to_owned(),
            class,
            rate,
            frame_overhead,
            mtu,
            pairs: Vec::new(),
            source: format!("lab {}: {means}", self.description.name),
            members: Vec::new(),
        }
    }

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
        let edge = format!("sideband of {}", controller.name);
        let limits = (controller.sideband.rate, WIRE_FRAME_OVERHEAD, controller.mtu);
        let each_way = self.capacity(&edge, BoundClass::Link, limits, "emulated controller");
        for (word, pairs) in [("out of", out), ("into", into)] {
            let name = format!("{edge}, {word} {own}");
            self.capacities.push(Capacity { name, pairs, ..each_way.clone() });
        }
    }

    /// Adds the capacity of the link's shaper.
    pub(super) fn note_capacity(&mut self, link: &Link) {
        let Some(rate) = link.rate else { return };
        let edge = format!("link {}-{}", link.ends[0].node, link.ends[1].node);
        let limits = (rate, ETHERNET_HEADER, link.mtu);
        self.note_cable(
            &link.ends,
            &self.capacity(&edge, BoundClass::Link, limits, "token bucket"),
        );
    }

    /// Adds the capacity of a device, counted as on a wire.
    pub(super) fn note_element(&mut self, element: &Element) {
        let Some(rate) = element.rate.or(element.port_rate) else { return };
        let limits = (rate, WIRE_FRAME_OVERHEAD, element.mtu);
        let each_way = self.capacity(&element.name, BoundClass::Device, limits, "emulated device");
        let name = format!("device {}", element.name);
        self.note_cable(&element.ends, &Capacity { name, ..each_way });
    }

    /// Adds a capacity between `ends`, which has no pairs so far. It bounds every pair of hosts
    /// whose only path leads over it, which is certain if one of the ends is a host.
    fn note_cable(&mut self, ends: &[LinkEnd; 2], each_way: &Capacity) {
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
                    name: format!("{}, {word} {own}", each_way.name),
                    pairs,
                    ..each_way.clone()
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
            // A port channel leads out of the host.
            let class = if edge.group().is_some() { BoundClass::Link } else { BoundClass::Bus };
            let limits = (edge.rate, ETHERNET_HEADER, bus.mtu);
            let means = "class of a hierarchical token bucket";
            let each_way = self.capacity(&edge.name, class, limits, means);
            for (from, to) in [(0, 1), (1, 0)] {
                let members = edge.group().map_or_else(Vec::new, |_| {
                    bus_classes(bus, edge)
                        .map(|class| queue_instance(&devices[from], class))
                        .collect()
                });
                self.capacities.push(Capacity {
                    name: format!("{}, {} to {}", edge.name, bus.between[from], bus.between[to]),
                    pairs: ends.iter().map(|e| (e[from].clone(), e[to].clone())).collect(),
                    members,
                    ..each_way.clone()
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
