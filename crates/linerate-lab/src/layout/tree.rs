//! Buses as hierarchical token buckets (HTB): an edge is a class, and a leaf of several links has a
//! class for each.

use std::net::IpAddr;

use linerate_model::Bytes;

use super::port_channel::{bus_classes, class_of, program};
use super::{BURST_SECONDS, Planner};
use crate::description::{Bus, BusEdge, ETHERNET_HEADER};

/// Frames in the queue of an interface, or of one of its links.
const QUEUE_FRAMES: u32 = 256;

/// Returns the rate of `edge` with all its links.
fn total(edge: &BusEdge) -> f64 {
    edge.rate.0 * f64::from(edge.n_links())
}

/// Returns the rate that HTB assures to `edge` without its parent: an equal share of the parent's
/// assured rate, so that the sum of the children never exceeds it. Beyond it an edge borrows, up to
/// its rate.
fn assured(bus: &Bus, edge: &BusEdge) -> f64 {
    let Some(parent) =
        edge.parent.as_ref().and_then(|name| bus.edges.iter().find(|other| other.name == *name))
    else {
        return total(edge);
    };
    let n_siblings = bus.edges.iter().filter(|other| other.parent == edge.parent).count();
    // Without equal shares one child could be assured all of its parent, and the others would
    // starve.
    total(edge).min(assured(bus, parent) / n_siblings as f64)
}

impl Planner<'_> {
    pub(super) fn shape_buses(&mut self) {
        for (index, bus) in self.description.buses.iter().enumerate() {
            for end in [0, 1] {
                let node = self.node(&bus.between[end]);
                let device =
                    format!("{}{}", bus.between[1 - end], self.description.links.len() + index);
                let lines = self.htb(bus, end, &device);
                self.namespaces[node].tc.extend(lines);
            }
        }
    }

    /// Adds the tree as HTB classes. The sending endpoint's address selects a leaf, and a hash
    /// selects one of its links.
    fn htb(&self, bus: &Bus, end: usize, device: &str) -> Vec<String> {
        let mut lines = vec![format!("qdisc replace dev {device} root handle 1: htb")];
        for edge in &bus.edges {
            let above = edge
                .parent
                .as_ref()
                .and_then(|name| bus.edges.iter().find(|other| other.name == *name));
            let parent =
                above.map_or("1:".to_owned(), |above| format!("1:{:x}", class_of(bus, above)));
            let own = class_of(bus, edge);
            lines.push(class(device, bus, &parent, own, assured(bus, edge), total(edge)));
            let Some(ends) = &edge.ends else { continue };
            if let Some(links) = edge.group() {
                // A flow stays on one link, so no class may borrow above the rate of a single link.
                let assured = edge.rate.0.min(assured(bus, edge) / f64::from(links));
                let classes = bus_classes(bus, edge);
                lines.extend(
                    classes.clone().map(|id| {
                        class(device, bus, &format!("1:{own:x}"), id, assured, edge.rate.0)
                    }),
                );
                lines.push(format!(
                    "filter add dev {device} parent 1:{own:x} protocol all prio 1 bpf \
                        bytecode \"{}\"",
                    program(edge.hash.unwrap_or_default(), classes.start, links)
                ));
            }
            lines.extend(bus_classes(bus, edge).map(|id| {
                format!(
                    // Each link has a queue of its own, so that a sampler sees where frames wait.
                    "qdisc add dev {device} parent 1:{id:x} handle {id:x}: pfifo limit \
                        {QUEUE_FRAMES}"
                )
            }));
            let endpoint = self
                .endpoints
                .iter()
                .find(|e| e.name == ends[end])
                .expect("endpoints were just placed");
            let source = match endpoint.address.expect("endpoints of a lab have one") {
                IpAddr::V4(v4) => format!("protocol ip prio 1 u32 match ip src {v4}/32"),
                IpAddr::V6(v6) => format!("protocol ipv6 prio 1 u32 match ip6 src {v6}/128"),
            };
            lines.push(format!("filter add dev {device} parent 1: {source} flowid 1:{own:x}"));
        }
        lines
    }
}

/// Returns the `tc` line of a class with the rates `assured` and `most`, bit/s.
fn class(device: &str, bus: &Bus, parent: &str, id: usize, assured: f64, most: f64) -> String {
    let frame = bus.mtu + ETHERNET_HEADER;
    // HTB refills by a timer: a bucket of one frame would not reach high rates.
    let burst = Bytes((most / 8.0 * BURST_SECONDS) as u64).max(frame).0;
    // Classes that borrow take turns by one frame each. HTB's default follows from the rate and can
    // be far larger.
    let quantum = frame.0;
    format!(
        "class add dev {device} parent {parent} classid 1:{id:x} htb rate {assured:.0}bit \
         ceil {most:.0}bit burst {burst} cburst {burst} quantum {quantum}"
    )
}
