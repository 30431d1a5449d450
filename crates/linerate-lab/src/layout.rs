//! Layout of a lab: commands, endpoints and capacities from a description. Pure, so that a lab can
//! be inspected before it is built.

use std::collections::BTreeMap;

use linerate_model::{BitRate, Bytes, Capacity, Endpoint, HostAddress, Nanos, Ratio, Testbed};

use crate::description::{
    Controller, Description, ETHERNET_HEADER, Element, Link, LinkEnd, NodeKind,
};
use crate::failing::Cables;

mod addressing;
mod capacities;
mod failover;
mod port_channel;
mod tree;

pub use port_channel::link_of;

/// Largest segmentation-offload packet a token bucket must admit.
const SUPER_PACKET: Bytes = Bytes(65_536);
/// Depth of a token bucket as a time at its rate, so that the kernel's timer does not reduce the
/// rate.
const BURST_SECONDS: f64 = 0.001;
/// Sysctls of every namespace. Metrics that TCP saves for a destination would leak from one trial
/// into the next. Duplicate address detection (RFC 4862 clause 5.4) would only cost a second or
/// two, because nobody else has these addresses.
const SETTINGS: [&str; 3] = [
    "net.ipv4.tcp_no_metrics_save=1",
    "net.ipv6.conf.all.accept_dad=0",
    "net.ipv6.conf.default.accept_dad=0",
];
/// Prefix of the namespaces of emulated devices; upper case, so that no node can have such a name.
pub(crate) const DEVICE: &str = "D";
/// Bytes of a frame on an Ethernet wire beside the IP packet: header 14, FCS 4, preamble 8, gap 12
/// (IEEE 802.3 clause 3).
const WIRE_FRAME_OVERHEAD: Bytes = Bytes(38);

/// Lab that can be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Namespaces, with the commands inside each, in order.
    pub namespaces: Vec<Namespace>,
    /// Commands outside: `ip` batch lines that create the links between namespaces.
    pub links: Vec<String>,
    /// Emulated devices between interfaces.
    pub devices: Vec<Device>,
    /// Cables that fail.
    pub cables: Vec<Cables>,
    /// Hosts and endpoints. A host is reached by [`Namespace::name`], with a command that the
    /// caller chooses.
    pub testbed: Testbed,
    /// Capacities of the shapers.
    pub capacities: Vec<Capacity>,
    /// Ports of observed switches that lead to an endpoint.
    pub observed: Vec<SwitchPort>,
}

impl Layout {
    /// Returns whether the lab works without its maker. Links with delay or faults, devices and
    /// controllers do not, because that process carries their frames. Shares of a CPU and cables
    /// that fail need it too.
    #[must_use]
    pub fn stands_alone(&self) -> bool {
        let is_passive = self.devices.is_empty() && self.cables.is_empty();
        is_passive && self.namespaces.iter().all(|namespace| namespace.cpu.is_none())
    }
}

/// Port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPort {
    /// Name of the switch.
    pub switch: String,
    /// Namespace of the switch.
    pub namespace: String,
    /// Interface of the port.
    pub device: String,
    /// Endpoint at the other end of its link.
    pub faces: String,
    /// True if the switch's SNMP agent is asked, false if its kernel is.
    pub snmp: bool,
}

/// Network namespace of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    /// Name of the node.
    pub node: String,
    /// Its name in the kernel.
    pub name: String,
    /// Sysctls, `name=value`.
    pub sysctls: Vec<String>,
    /// `ip` batch lines.
    pub ip: Vec<String>,
    /// `bridge` batch lines.
    pub bridge: Vec<String>,
    /// `tc` batch lines.
    pub tc: Vec<String>,
    /// Interfaces whose segmentation offloads are switched off.
    pub offloads_off: Vec<String>,
    /// Interfaces that fill in checksums themselves.
    pub checksums_on: Vec<String>,
    /// Interfaces with RPS, and the mask of their CPUs in the kernel's notation.
    pub steered: Vec<(String, String)>,
    /// Interfaces that mitigate receive interrupts, and the shortest time between two.
    pub mitigated: Vec<(String, Nanos)>,
    /// Share of one CPU for all processes in it.
    pub cpu: Option<Ratio>,
}

/// Emulated device between two interfaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Namespace between the two ends.
    pub namespace: String,
    /// Its two interfaces; a controller's network side is the first.
    pub interfaces: [String; 2],
    /// Its kind.
    pub kind: DeviceKind,
}

/// Kind of an emulated device.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceKind {
    /// Device under test, or a link with delay or faults, which is a device without limits.
    Element(Box<Element>),
    /// Network controller with a sideband.
    Controller {
        /// Its description.
        controller: Box<Controller>,
        /// Hardware address of the management controller's interface.
        management: [u8; 6],
    },
}

/// Token bucket of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shaper {
    /// Rate.
    pub rate: BitRate,
    /// Bucket depth.
    pub burst: Bytes,
    /// Queue.
    pub limit: Bytes,
}

impl Shaper {
    /// Returns the shaper of `link`, if it has one.
    #[must_use]
    pub fn of(link: &Link) -> Option<Self> {
        let rate = link.rate?;
        let frame = link.mtu + ETHERNET_HEADER;
        // A bucket below one super-packet would never let it pass.
        let smallest = if offloads(link) { SUPER_PACKET.max(frame) } else { frame };
        let by_time = Bytes((rate.0 / 8.0 * BURST_SECONDS) as u64);
        Some(Self {
            rate,
            burst: link.burst.unwrap_or(by_time).max(smallest),
            limit: link.buffer.max(smallest),
        })
    }
}

fn offloads(link: &Link) -> bool {
    link.offloads.unwrap_or(link.rate.is_none() && !link.is_handled())
}

/// Returns the hardware address of a management controller: locally administered, with `NCSI` in
/// it.
fn management_address(controller: usize) -> [u8; 6] {
    // Bit 1 of the first byte marks a locally administered address (IEEE 802 clause 8.2.2).
    [0x02, b'N', b'C', b'S', b'I', controller as u8]
}

/// Interface on a segment.
struct Port {
    node: usize,
    device: String,
    segment: usize,
    /// Endpoints on it, each with its own address. A trunk has several.
    endpoints: Vec<String>,
}

/// Returns the `tc` line that limits the sender at a device's port to the rate of the port, with
/// the usual queue of a Linux interface. A veth has no rate and would send more than a wire can
/// carry.
fn paced(rate: BitRate, mtu: Bytes, device: &str) -> String {
    /// Default number of frames in the queue of an interface (`txqueuelen`).
    const QUEUE_FRAMES: u64 = 1000;
    let frame = mtu + ETHERNET_HEADER;
    // A shaper counts the frame only; a wire also carries preamble, FCS and gap.
    let wire = (mtu + WIRE_FRAME_OVERHEAD).0 as f64;
    let rate = rate.0 * frame.0 as f64 / wire;
    // A bucket below one frame would never let it pass.
    let burst = frame.max(Bytes((rate / 8.0 * BURST_SECONDS) as u64));
    format!(
        "qdisc replace dev {device} root tbf rate {rate:.0}bit burst {} limit {}",
        burst.0,
        QUEUE_FRAMES * frame.0
    )
}

/// Returns the layout of `description`. Namespaces are called `lr-{instance}-{node}`.
#[must_use]
pub fn layout(description: &Description, instance: &str) -> Layout {
    let mut plan = Planner::new(description, instance);
    // Links come first, because numbers of all other devices continue theirs. Addresses need every
    // port, and routes need every address.
    plan.place_links();
    plan.place_controllers();
    plan.place_elements();
    plan.place_buses();
    plan.place_failovers();
    plan.address();
    plan.route();
    plan.finish()
}

struct Planner<'a> {
    description: &'a Description,
    instance: &'a str,
    namespaces: Vec<Namespace>,
    /// Namespaces of emulated devices, which are not nodes of the description.
    middles: Vec<Namespace>,
    links: Vec<String>,
    devices: Vec<Device>,
    cables: Vec<Cables>,
    ports: Vec<Port>,
    n_segments: usize,
    segment_of_switch: BTreeMap<usize, usize>,
    /// Interfaces behind controllers.
    sidebands: Vec<String>,
    endpoints: Vec<Endpoint>,
    capacities: Vec<Capacity>,
    observed: Vec<SwitchPort>,
}

impl<'a> Planner<'a> {
    fn new(description: &'a Description, instance: &'a str) -> Self {
        let namespaces = description.nodes.iter().map(|node| {
            let mut namespace = Namespace {
                node: node.name.clone(),
                name: format!("lr-{instance}-{}", node.name),
                ip: vec!["link set lo up".into()],
                sysctls: SETTINGS.map(str::to_owned).to_vec(),
                cpu: node.settings.cpu,
                ..Namespace::default()
            };
            namespace.sysctls.extend(
                node.settings.sysctls.iter().map(|(name, value)| format!("{name}={value}")),
            );
            match node.kind {
                NodeKind::Host => {}
                NodeKind::Switch => namespace
                    .ip
                    .extend(["link add br0 type bridge".into(), "link set br0 up".into()]),
                NodeKind::Router => {
                    namespace.sysctls.extend([
                        "net.ipv4.ip_forward=1".into(),
                        "net.ipv6.conf.all.forwarding=1".into(),
                    ]);
                }
            }
            namespace
        });
        Self {
            description,
            instance,
            namespaces: namespaces.collect(),
            middles: Vec::new(),
            links: Vec::new(),
            devices: Vec::new(),
            cables: Vec::new(),
            ports: Vec::new(),
            n_segments: 0,
            segment_of_switch: BTreeMap::new(),
            sidebands: Vec::new(),
            endpoints: Vec::new(),
            capacities: Vec::new(),
            observed: Vec::new(),
        }
    }

    fn node(&self, name: &str) -> usize {
        self.namespaces
            .iter()
            .position(|n| n.node == name)
            .expect("the description was checked: every end is a node")
    }

    fn kind(&self, node: usize) -> NodeKind {
        self.description.nodes[node].kind
    }

    /// Adds a veth pair between two nodes. Returns the two interface names.
    fn veth(&mut self, nodes: [usize; 2], number: usize, mtu: Bytes, queues: u32) -> [String; 2] {
        let devices = [0, 1].map(|end| {
            let peer = &self.namespaces[nodes[1 - end]].node;
            format!("{peer}{number}")
        });
        let [a, b] = [0, 1].map(|end| {
            format!(
                "name {} netns {} mtu {}",
                devices[end], self.namespaces[nodes[end]].name, mtu.0
            )
        });
        let each = match queues {
            0 | 1 => String::new(),
            n => format!(" numtxqueues {n} numrxqueues {n}"),
        };
        self.links.push(format!("link add {a}{each} type veth peer {b}{each}"));
        for end in [0, 1] {
            self.namespaces[nodes[end]].ip.push(format!("link set {} up", devices[end]));
        }
        devices
    }

    /// Adds two veth pairs with a namespace between them, in which an emulated device joins them.
    fn handled(
        &mut self,
        nodes: [usize; 2],
        number: usize,
        mtu: Bytes,
        kind: DeviceKind,
    ) -> [String; 2] {
        let middle = format!("lr-{}-{DEVICE}{number}", self.instance);
        let inner = ["d0".to_owned(), "d1".to_owned()];
        // The interface has the name of the peer, so that `ip link` in a namespace reads like a
        // map. Numbers keep parallel links apart.
        let devices = [0, 1].map(|end| format!("{}{number}", self.namespaces[nodes[1 - end]].node));
        for end in [0, 1] {
            let mut outer = format!(
                "name {} netns {} mtu {}",
                devices[end], self.namespaces[nodes[end]].name, mtu.0
            );
            // The controller answers with this address, so the interface must have it from the
            // start.
            if let (DeviceKind::Controller { management, .. }, 1) = (&kind, end) {
                outer += " address ";
                outer += &management.map(|byte| format!("{byte:02x}")).join(":");
            }
            self.links.push(format!(
                "link add {outer} type veth peer name {} netns {middle} mtu {}",
                inner[end], mtu.0
            ));
            self.namespaces[nodes[end]].ip.push(format!("link set {} up", devices[end]));
            self.namespaces[nodes[end]].checksums_on.push(devices[end].clone());
        }
        self.middles.push(Namespace {
            node: format!("{DEVICE}{number}"),
            name: middle.clone(),
            // The device has no address and sends nothing itself.
            sysctls: vec!["net.ipv6.conf.default.disable_ipv6=1".into()],
            ip: inner.iter().map(|device| format!("link set {device} up")).collect(),
            // The thread sees frames, not super-packets, only if offloads are off inside as well.
            offloads_off: inner.to_vec(),
            ..Namespace::default()
        });
        self.devices.push(Device { namespace: middle, interfaces: inner, kind });
        devices
    }

    fn place_links(&mut self) {
        for (number, link) in self.description.links.iter().enumerate() {
            let nodes = [self.node(&link.ends[0].node), self.node(&link.ends[1].node)];
            let devices = if link.is_handled() {
                self.handled(
                    nodes,
                    number,
                    link.mtu,
                    DeviceKind::Element(Box::new(Element::of_link(link))),
                )
            } else {
                self.veth(nodes, number, link.mtu, link.queues.get())
            };
            self.plug([&link.ends[0], &link.ends[1]], &devices, offloads(link));
            if let Some(shaper) = Shaper::of(link) {
                for end in [0, 1] {
                    self.namespaces[nodes[end]].tc.push(format!(
                        "qdisc replace dev {} root tbf rate {:.0}bit burst {} limit {}",
                        devices[end], shaper.rate.0, shaper.burst.0, shaper.limit.0
                    ));
                }
            }
            self.note_capacity(link);
        }
    }

    /// Connects the two interfaces of a cable: as bridge ports on a switch, elsewhere as ports that
    /// get addresses.
    fn plug(&mut self, ends: [&LinkEnd; 2], devices: &[String; 2], offloads: bool) {
        let nodes = ends.map(|end| self.node(&end.node));
        // All links of a switch are one segment. A cable without a switch is a segment of its own.
        let switch = nodes.into_iter().find(|&node| self.kind(node) == NodeKind::Switch);
        let fresh = self.n_segments;
        let segment =
            switch.map_or(fresh, |switch| *self.segment_of_switch.entry(switch).or_insert(fresh));
        self.n_segments = self.n_segments.max(segment + 1);
        for end in [0, 1] {
            let (node, device) = (nodes[end], &devices[end]);
            if !offloads {
                self.namespaces[node].offloads_off.push(device.clone());
            }
            if self.kind(node) == NodeKind::Switch {
                self.namespaces[node].ip.push(format!("link set {device} master br0"));
                let (switch, other) = (&self.namespaces[node], nodes[1 - end]);
                let observed =
                    self.description.observed.iter().find(|one| one.switch == switch.node);
                if let Some(observed) = observed
                    && self.kind(other) == NodeKind::Host
                {
                    self.observed.push(SwitchPort {
                        switch: switch.node.clone(),
                        namespace: switch.name.clone(),
                        device: device.clone(),
                        faces: ends[1 - end].endpoint.clone(),
                        snmp: observed.snmp,
                    });
                }
                continue;
            }
            let endpoints = (self.kind(node) == NodeKind::Host).then(|| ends[end].endpoint.clone());
            let endpoints = endpoints.into_iter().collect();
            self.ports.push(Port { node, device: device.clone(), segment, endpoints });
        }
    }

    fn place_controllers(&mut self) {
        // Numbers continue those of links and buses: they are part of interface names.
        let others = self.description.links.len() + self.description.buses.len();
        for (index, controller) in self.description.controllers.iter().enumerate() {
            let ends = [&controller.network.to, &controller.sideband.to];
            let nodes = ends.map(|end| self.node(&end.node));
            let management = management_address(index);
            let kind =
                DeviceKind::Controller { controller: Box::new(controller.clone()), management };
            let devices = self.handled(nodes, others + index, controller.mtu, kind);
            self.sidebands.push(devices[1].clone());
            self.plug(ends, &devices, false);
            for (end, port) in [&controller.network, &controller.sideband].into_iter().enumerate() {
                self.namespaces[nodes[end]].tc.push(paced(
                    port.rate,
                    controller.mtu,
                    &devices[end],
                ));
            }
            self.note_sideband(controller);
        }
    }

    fn place_elements(&mut self) {
        let others = self.description.links.len()
            + self.description.buses.len()
            + self.description.controllers.len();
        for (index, element) in self.description.elements.iter().enumerate() {
            let ends = [&element.ends[0], &element.ends[1]];
            let nodes = ends.map(|end| self.node(&end.node));
            let kind = DeviceKind::Element(Box::new(element.clone()));
            let devices = self.handled(nodes, others + index, element.mtu, kind);
            self.plug(ends, &devices, false);
            for end in [0, 1] {
                let paced = element.port_rate.map(|rate| paced(rate, element.mtu, &devices[end]));
                self.namespaces[nodes[end]].tc.extend(paced);
            }
            self.note_element(element);
        }
    }

    fn place_buses(&mut self) {
        for (index, bus) in self.description.buses.iter().enumerate() {
            let number = self.description.links.len() + index;
            let nodes = [self.node(&bus.between[0]), self.node(&bus.between[1])];
            let devices = self.veth(nodes, number, bus.mtu, 1);
            let segment = self.n_segments;
            self.n_segments += 1;
            for end in [0, 1] {
                let endpoints: Vec<String> = bus
                    .edges
                    .iter()
                    .filter_map(|edge| edge.ends.as_ref())
                    .map(|ends| ends[end].clone())
                    .collect();
                self.namespaces[nodes[end]].offloads_off.push(devices[end].clone());
                self.ports.push(Port {
                    node: nodes[end],
                    device: devices[end].clone(),
                    segment,
                    endpoints,
                });
            }
            self.note_bus_capacities(bus, &devices);
        }
    }

    fn finish(self) -> Layout {
        let hosts =
            self.namespaces.iter().enumerate().filter(|(i, _)| self.kind(*i) == NodeKind::Host);
        let hosts = hosts
            .map(|(_, n)| {
                (
                    n.node.clone(),
                    HostAddress::Command(
                        ["ip", "netns", "exec", &n.name].map(str::to_owned).to_vec(),
                    ),
                )
            })
            .collect();
        debug_assert!(
            self.namespaces.iter().all(|n| n.name.starts_with(&format!("lr-{}", self.instance)))
        );
        Layout {
            testbed: Testbed { hosts, endpoints: self.endpoints, emulated: true },
            namespaces: self.namespaces.into_iter().chain(self.middles).collect(),
            links: self.links,
            devices: self.devices,
            cables: self.cables,
            capacities: self.capacities,
            observed: self.observed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn lay(text: &str) -> Layout {
        let (description, problems) = Description::parse(text);
        assert_eq!(problems, []);
        layout(&description.expect("no problem"), "t")
    }

    pub(super) const HEAD: &str = "[lab]\nname='x'\n[[host]]\nname='a'\n[[host]]\nname='b'\n";

    #[test]
    fn a_shaped_link_has_a_bucket_at_both_ends_and_no_offloads() {
        let layout =
            lay(&format!("{HEAD}[[link]]\nends=['a','b']\nrate='100 Mbit/s'\nbuffer='64 KiB'\n"));
        assert_eq!(
            layout.links,
            ["link add name b0 netns lr-t-a mtu 1500 type veth peer name a0 netns lr-t-b mtu 1500"]
        );
        let a = &layout.namespaces[0];
        let bucket = "qdisc replace dev b0 root tbf rate 100000000bit burst 12500 limit 65536";
        assert_eq!((&a.tc[..], &a.offloads_off[..]), (&[bucket.into()][..], &["b0".into()][..]));
        let address = "198.18.0.2".parse().expect("literal");
        assert_eq!(layout.testbed.endpoints[1].address, Some(address));
        let [out, back] = &layout.capacities[..] else { panic!("one capacity each way") };
        assert_eq!((out.rate, &out.pairs[..]), (BitRate(100e6), &[("a".into(), "b".into())][..]));
        assert_eq!(back.pairs, [("b".into(), "a".into())]);
    }

    #[test]
    fn a_link_has_the_given_number_of_queues() {
        let layout = lay(&format!("{HEAD}[[link]]\nends=['a','b']\nqueues=2\n"));
        let each = |name: &str, host: &str| format!("name {name} netns lr-t-{host} mtu 1500");
        let queues = "numtxqueues 2 numrxqueues 2";
        let (this, other) = (each("b0", "a"), each("a0", "b"));
        let whole = format!("link add {this} {queues} type veth peer {other} {queues}");
        assert_eq!(layout.links, [whole]);
    }

    #[test]
    fn a_router_joins_two_segments_and_both_hosts_have_a_route() {
        let layout = lay(&format!(
            "{HEAD}[[router]]\nname='r'\n[[link]]\nends=['a','r']\n[[link]]\nends=['r','b']\n"
        ));
        for (namespace, route) in [
            (0, "route add 198.18.1.0/24 via 198.18.0.2"),
            (1, "route add 198.18.0.0/24 via 198.18.1.1"),
        ] {
            assert!(layout.namespaces[namespace].ip.iter().any(|line| line == route), "{route}");
        }
    }

    #[test]
    fn a_switch_makes_one_segment_of_its_links() {
        let layout = lay(&format!(
            "{HEAD}[[switch]]\nname='s'\n[[link]]\nends=['a','s']\n[[link]]\nends=['s','b']\n"
        ));
        let ends = &layout.testbed.endpoints;
        let addresses = ends.iter().map(|end| end.address.expect("placed").to_string());
        assert!(addresses.eq(["198.18.0.1", "198.18.0.2"]));
    }

    #[test]
    fn ports_of_an_observed_switch_are_known_by_the_endpoints_behind_them() {
        let links = "[[link]]\nends=['a','s']\n[[link]]\nends=['s','b']\n";
        assert_eq!(lay(&format!("{HEAD}[[switch]]\nname='s'\n{links}")).observed, []);
        let layout = lay(&format!("{HEAD}[[switch]]\nname='s'\nobserved=true\n{links}"));
        let switch =
            layout.namespaces.iter().find(|namespace| namespace.node == "s").expect("it is there");
        let ports: Vec<_> = layout
            .observed
            .iter()
            .map(|port| [&*port.device, &*port.faces, &*port.namespace, &*port.switch])
            .collect();
        assert_eq!(ports, [["a0", "a", &switch.name, "s"], ["b1", "b", &switch.name, "s"]]);
        let by_snmp = lay(&format!("{HEAD}[[switch]]\nname='s'\nsnmp=true\n{links}")).observed;
        assert!(by_snmp.len() == 2 && by_snmp.iter().all(|port| port.snmp));
        assert!(layout.observed.iter().all(|port| !port.snmp));
    }

    #[test]
    fn a_bus_edge_bounds_every_interface_below_it() {
        let layout = lay(&format!(
            "{HEAD}[[bus]]\nbetween=['a','b']\n[[bus.edge]]\nname='bus'\nrate='88 Mbit/s'\n\
             [[bus.edge]]\nname='slot1'\nparent='bus'\nrate='54 Mbit/s'\nends=['a1','b1']\n\
             [[bus.edge]]\nname='slot2'\nparent='bus'\nrate='54 Mbit/s'\nends=['a2','b2']\n"
        ));
        let bus = layout.capacities.iter().find(|c| c.name == "bus, a to b").expect("bus");
        assert_eq!(bus.pairs, [("a1".into(), "b1".into()), ("a2".into(), "b2".into())]);
        for (namespace, source) in [(0, "198.18.0.1"), (1, "198.18.0.3")] {
            let filter = format!("match ip src {source}/32 flowid 1:b");
            let tc = &layout.namespaces[namespace].tc;
            assert!(tc.iter().any(|line| line.contains(&filter)), "{filter}: {tc:?}");
        }
        // Two slots of 54 on a bus of 88: each has half of the bus and may borrow up to its own
        // rate.
        let slot = |l: &&String| l.contains("classid 1:b htb rate 44000000bit ceil 54000000bit");
        assert_eq!(layout.namespaces[0].tc.iter().filter(slot).count(), 1);
        // An interface has the name of the host at its other end. A bucket has the depth of a
        // millisecond at its rate.
        for (namespace, device) in [(0, "b0"), (1, "a0")] {
            let tc = &layout.namespaces[namespace].tc;
            assert_eq!(tc[0], format!("qdisc replace dev {device} root handle 1: htb"));
            let bucket = "ceil 88000000bit burst 11000 cburst 11000 quantum 1514";
            assert!(tc[1].ends_with(bucket), "{}", tc[1]);
        }
    }
}
