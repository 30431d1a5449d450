//! Tree of capacities that several endpoints share, as a person writes it.

use std::num::NonZeroU32;

use linerate_model::{BitRate, Bytes, Problem, nearest};
use serde::Deserialize;

use super::{Node, NodeKind, check_name, usual_mtu};

/// Most links of a port channel, as is common for IEEE 802.1AX groups.
const MOST_LINKS: u32 = 64;

/// Tree of capacities that several endpoints of two hosts share: NICs on a bus, buses on a bridge.
///
/// Both directions have the same tree, independently. The endpoints are addresses on one trunk; the
/// tree is an HTB hierarchy at each end of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// The two hosts.
    pub between: [String; 2],
    /// The tree, parents before children.
    #[serde(rename = "edge")]
    pub edges: Vec<BusEdge>,
    /// IP MTU.
    #[serde(default = "usual_mtu")]
    pub mtu: Bytes,
}

/// Capacity in a bus tree.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusEdge {
    /// Its name, e.g. `slot 1`.
    pub name: String,
    /// Parent edge.
    pub parent: Option<String>,
    /// Rate each way, counted as Ethernet frames without FCS.
    pub rate: BitRate,
    /// For a leaf: its endpoints at the two hosts.
    pub ends: Option<[String; 2]>,
    /// For a leaf: number of equal links, `rate` each; absent: one. A flow stays on one of them.
    pub links: Option<NonZeroU32>,
    /// Fields of a packet that choose the link; absent: addresses and ports.
    pub hash: Option<Hash>,
}

impl BusEdge {
    /// Returns the number of links.
    #[must_use]
    pub(crate) fn n_links(&self) -> u32 {
        self.links.map_or(1, NonZeroU32::get)
    }

    /// Returns the number of links, if there are several.
    #[must_use]
    pub fn group(&self) -> Option<u32> {
        Some(self.n_links()).filter(|links| *links > 1)
    }
}

/// Fields of a packet that a port channel hashes to choose a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hash {
    /// Both addresses only: all flows between two endpoints use one link.
    Addresses,
    /// Both addresses and both ports, as a switch hashes at layers 3 and 4.
    #[default]
    Ports,
}

/// Returns a bus, and adds a problem for everything impossible.
pub(super) fn read(bus: toml::Spanned<Bus>, nodes: &[Node], problems: &mut Vec<Problem>) -> Bus {
    let (span, bus) = (bus.span(), bus.into_inner());
    for host in &bus.between {
        if !nodes.iter().any(|node| node.name == *host && node.kind == NodeKind::Host) {
            let near = nearest(host, nodes.iter().map(|node| node.name.as_str()));
            problems.push(
                Problem::new(
                    Some(span.clone()),
                    format!("a bus joins two hosts; `{host}` is none"),
                )
                .nearest(near),
            );
        }
    }
    for (index, edge) in bus.edges.iter().enumerate() {
        if let Some(parent) = &edge.parent {
            // Parents come first, so one pass suffices and no cycle is possible.
            let above = &bus.edges[..index];
            if !above.iter().any(|other| other.name == *parent) {
                let near = nearest(parent, above.iter().map(|other| other.name.as_str()));
                let message =
                    format!("edge `{}` names parent `{parent}`, which is not above it", edge.name);
                problems.push(Problem::new(Some(span.clone()), message).nearest(near));
            } else if above.iter().any(|other| other.name == *parent && other.ends.is_some()) {
                let message =
                    format!("edge `{}` hangs below `{parent}`, which is an interface", edge.name);
                problems.push(Problem::new(Some(span.clone()), message));
            }
        }
        for end in edge.ends.iter().flatten() {
            check_name(end, Some(span.clone()), problems);
        }
        let links = edge.n_links();
        if links > MOST_LINKS {
            let problem =
                Problem::new(Some(span.clone()), format!("edge `{}` has {links} links", edge.name));
            problems.push(problem.expected(format!("1 to {MOST_LINKS} links")));
        }
        if edge.ends.is_none() && edge.links.is_some() || links < 2 && edge.hash.is_some() {
            let message = format!("edge `{}` chooses among links it does not have", edge.name);
            problems.push(
                Problem::new(Some(span.clone()), message)
                    .expected("`links` beside `ends`, two or more for a `hash`"),
            );
        }
    }
    bus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::Description;

    #[test]
    fn only_interfaces_have_several_links() {
        let bus = |edge: &str| {
            let head = "[lab]\nname='p'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[bus]]\n\
                between=['a','b']\n";
            Description::parse(&format!("{head}[[bus.edge]]\nname='e'\nrate='1 Mbit/s'\n{edge}\n"))
        };
        let (lab, problems) = bus("ends=['a1','b1']\nlinks=4\nhash='addresses'");
        assert_eq!(problems, []);
        let edge = lab.expect("no problem").buses[0].edges[0].clone();
        assert_eq!((edge.group(), edge.hash), (Some(4), Some(Hash::Addresses)));
        for wrong in ["links=2", "ends=['a1','b1']\nhash='ports'", "ends=['a1','b1']\nlinks=65"] {
            assert_eq!(bus(wrong).1.len(), 1, "{wrong}");
        }
    }
}
