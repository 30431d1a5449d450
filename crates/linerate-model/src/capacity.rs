//! Known capacities of a path.
//!
//! A capacity says what it is; nothing follows from what it is called. Ledgers before 2026-11-22
//! and testbed files that leave it out do not say it: their texts are read once, here, where a
//! capacity is deserialized.

use serde::{Deserialize, Serialize};

use crate::{BitRate, BoundClass, BoundPart, Bytes, PartDetail};

/// A known capacity of the path, shared by everything that crosses it: a link, a shaper, a bus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Capacity {
    /// Name, such as `link a-b, out of a`. It has no meaning for the program.
    pub name: String,
    /// Name of both directions together, such as `link a-b`; for a lab's device the name of the
    /// device. Equal to `name` if nothing else is known.
    pub edge: String,
    /// Class. If a testbed file leaves it out, a capacity that carries payload without frames is a
    /// bus, any other a link.
    pub class: BoundClass,
    /// How much crosses it per second, counted as `frame_overhead` says.
    pub rate: BitRate,
    /// Bytes it counts per frame beyond the IP packet: 38 on an Ethernet wire (preamble, header,
    /// FCS, gap), 14 for a shaper that sees the Ethernet header only, 0 for a bus that carries
    /// payload.
    pub frame_overhead: Bytes,
    /// IP MTU on it.
    pub mtu: Bytes,
    /// Directed endpoint pairs (data from, data to) that cross it and share it.
    pub pairs: Vec<(String, String)>,
    /// Who says so.
    pub source: String,
    /// For a group of equal links that share flows by a hash (IEEE 802.1AX): each of them, by the
    /// instance its byte counter has among the sending host's readings (an interface, or a queueing
    /// discipline). `rate` is then that of one link, and a flow never leaves its link. Empty: one
    /// link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
}

impl Capacity {
    /// Returns the part of the path that ceilings name.
    #[must_use]
    pub fn part(&self) -> BoundPart {
        BoundPart::new(self.class, "", &self.name).with(PartDetail::Edge(self.edge.clone()))
    }

    /// The interface that each member is, or whose queueing discipline it is.
    pub fn member_devices(&self) -> impl Iterator<Item = &str> {
        // A queueing discipline is named `DEVICE DISCIPLINE`, an interface by its device alone.
        self.members.iter().filter_map(|member| member.split(' ').next())
    }

    /// How much `n_flows` flows find room for, at most: one link each, as long as there are links.
    pub fn room(&self, n_flows: usize) -> BitRate {
        // A capacity without members is one link, and so is one that no flow crosses.
        BitRate(self.rate.0 * self.members.len().min(n_flows).max(1) as f64)
    }
}

/// A capacity as testbed files and ledgers have it.
#[derive(Deserialize)]
struct Written {
    name: String,
    edge: Option<String>,
    class: Option<BoundClass>,
    rate: BitRate,
    frame_overhead: Bytes,
    mtu: Bytes,
    pairs: Vec<(String, String)>,
    source: String,
    #[serde(default)]
    members: Vec<String>,
}

impl From<Written> for Capacity {
    fn from(written: Written) -> Self {
        // Old ledgers must be read as their own release meant them, so the rules for missing fields
        // stay here.
        let class = written.class.unwrap_or_else(|| undeclared(&written));
        let edge = written.edge.clone().unwrap_or_else(|| edge(&written, class));
        let Written { name, rate, frame_overhead, mtu, pairs, source, members, .. } = written;
        Self { name, edge, class, rate, frame_overhead, mtu, pairs, source, members }
    }
}

/// How labs of earlier releases said where a capacity comes from: the name of the lab, and one of
/// these.
const OF_LAB: &str = "lab ";
const OF_LAB_BUS: &str = ": class of a hierarchical token bucket";
const OF_LAB_DEVICE: &str = ": emulated device";
/// Prefix of a device's name in old ledgers.
const DEVICE: &str = "device ";
/// Separator between the name of an edge and its direction in old ledgers.
const DIRECTION: &str = ", ";

/// The class of a capacity that does not say it.
fn undeclared(written: &Written) -> BoundClass {
    // Only texts that a lab wrote have a fixed form. A person's text may contain the same words by
    // chance.
    let is_of_lab =
        |what: &str| written.source.starts_with(OF_LAB) && written.source.ends_with(what);
    // Of a port channel they listed the links.
    if written.members.is_empty() && is_of_lab(OF_LAB_BUS) || written.frame_overhead == Bytes(0) {
        BoundClass::Bus
    } else if is_of_lab(OF_LAB_DEVICE) {
        BoundClass::Device
    } else {
        BoundClass::Link
    }
}

/// The edge of a capacity that does not say it: labs of earlier releases put it before its
/// direction.
fn edge(written: &Written, class: BoundClass) -> String {
    if !written.source.starts_with(OF_LAB) {
        return written.name.clone();
    }
    // The last comma, because the name of an edge may contain one.
    let name = written.name.rsplit_once(DIRECTION).map_or(written.name.as_str(), |(edge, _)| edge);
    let of_device = name.strip_prefix(DEVICE).filter(|_| class == BoundClass::Device);
    of_device.unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn read(more: Value) -> Capacity {
        let mut all = json!({ "name": "x", "rate": "1 \
            Gbit/s".parse::<BitRate>().expect("a rate"), "frame_overhead": Bytes(14),
            "mtu": Bytes(1500), "pairs": [["a", "b"]], "source": "declared" });
        all.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        from_value(all).expect("a capacity")
    }

    #[test]
    fn what_a_capacity_is_follows_from_no_name() {
        for name in ["robust", "I/O assembly", "bus 0, a to b", "device dut, into b"] {
            let plain = read(json!({ "name": name }));
            assert_eq!((plain.class, plain.edge.as_str()), (BoundClass::Link, name));
            assert_eq!(
                read(json!({ "name": name, "frame_overhead": Bytes(0) })).class,
                BoundClass::Bus
            );
            assert_eq!(read(json!({ "name": name, "class": "device" })).class, BoundClass::Device);
            assert_eq!(read(json!({ "name": name, "edge": "e" })).edge, "e");
        }
    }

    #[test]
    fn labs_of_earlier_releases_said_it_in_words() {
        let of = |name: &str, source: &str| {
            let capacity = read(json!({ "name": name, "source": source }));
            (capacity.class, capacity.edge)
        };
        let bus = "lab x: class of a hierarchical token bucket";
        assert_eq!(of("bus 0, a to b", bus), (BoundClass::Bus, "bus 0".into()));
        assert_eq!(
            of("device dut, into b", "lab x: emulated device"),
            (BoundClass::Device, "dut".into())
        );
        assert_eq!(
            of("link a-b, out of a", "lab x: token bucket"),
            (BoundClass::Link, "link a-b".into())
        );
        let channel =
            read(json!({ "name": "c, a to b", "source": bus, "members": ["eth0 pfifo 1:"] }));
        assert_eq!(channel.class, BoundClass::Link);
        let again: Capacity = from_value(json!(channel)).expect("as written now");
        assert_eq!(again, channel);
    }
}
