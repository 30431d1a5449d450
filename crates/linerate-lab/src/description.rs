//! Description of a lab, as a person writes it.
//!
//! ```toml
//! [lab]
//! name = "pair"
//! summary = "two hosts, one shaped link"
//! family = "ipv6"          # destination addresses of traffic; absent: IPv4 (hosts have both)
//! sysctl = { "net.ipv4.tcp_ecn" = "0" }   # of every host; a host's own come first
//!
//! [[host]]
//! name = "a"
//! [[host]]
//! name = "b"
//! cpu = "50 %"             # share of one CPU for everything in it; absent: no limit
//! min_rto = "300 ms"       # shortest retransmission timeout; absent: the kernel's 200 ms
//! sysctl = { "net.ipv4.tcp_sack" = "0" }
//! cpus = [0]               # its workers are pinned to these CPUs; absent: not pinned
//! interrupt_interval = "100 us"   # between two receive interrupts; GRO joins packets until then
//! receive_cpus = [1]       # CPUs for received packets (RPS); absent: the CPU of the interrupt
//! filters = 300            # filter rules without a match for each received packet: its CPU cost
//!
//! [[switch]]
//! name = "sw"
//! observed = true          # the counters of its ports are recorded; absent: they are not
//! snmp = true              # an SNMP agent of its own reports them, where snmpd is installed
//!
//! [[link]]
//! ends = ["a", "b"]        # host, or host.endpoint if a host has several
//! rate = "100 Mbit/s"      # each way; absent: the CPUs are the limit
//! buffer = "64 KiB"        # queue in front of the shaper; the effective buffer includes the burst
//! delay = "4 ms"           # each way; absent: none
//! drop_one_in = 100        # of the UDP datagrams of one length, each way; absent: no drops
//! duplicate_one_in = 1000  # likewise, of the remaining ones
//! queues = 2               # receive and transmit queues of its interfaces; absent: one of each
//!
//! [[element]]              # device under test of two ports and known capacity, the same each way
//! name = "dut"
//! ends = ["a", "b"]        # as for a link
//! port_rate = "1 Gbit/s"   # rate of its ports; absent: frames arrive at once
//! rate = "100 Mbit/s"      # forwarding rate on the wire; absent: that of its ports
//! packet_rate = "20 kpps"  # frames forwarded a second, of any size
//! buffer = "64 KiB"        # whole frames, tail drop
//! buffer_frames = 32       # most frames in the buffer
//! forwarding = "cut-through"                       # or "store-and-forward"
//! delay = "50 us"
//! stall = { length = "5 ms", every = "1 s" }       # random = true, seed = 7: at random times
//! # of UDP datagrams; drop_packets = "1 %": of all IP packets
//! faults = { drop_one_in = 100, drop_ratio = "0.1 %", duplicate_one_in = 1000,
//!            reorder_one_in = 500, reorder_by = 3, reflect_one_in = 800, seed = 7 }
//!
//! [[failover]]             # an interface at each of two hosts, and two cables between them
//! ends = ["a", "b"]        # as for a link
//! every = "3 s"            # from one failure to the next; the cables fail in turn
//! length = "1 s"           # of each
//! unnoticed = "50 ms"      # until the carrier goes; the other cable takes over then; absent: none
//! backup = true            # false: the other cable does not take over
//!
//! [[bus]]                  # tree of capacities between two hosts; its leaves are interfaces
//! between = ["a", "b"]
//! edge = [                 # parents before children
//!   { name = "PCIe", rate = "500 Mbit/s" },
//!   { name = "port", parent = "PCIe", rate = "100 Mbit/s", ends = ["a1", "b1"] },
//!   # several equal links; a hash of addresses and ports (layers 3 and 4) chooses the link of a
//!   # flow; with hash = "addresses" it uses layer 3 only
//!   { name = "fabric", parent = "PCIe", rate = "100 Mbit/s", links = 4, ends = ["a2", "b2"] },
//! ]
//!
//! [[controller]]           # network controller in front of a management controller (BMC)
//! name = "nc"
//! network = { to = "sw", rate = "1 Gbit/s" }       # its port: a switch or host
//! sideband = { to = "bmc", rate = "100 Mbit/s" }   # NC-SI: a host
//! buffer = "8 KiB"         # from the network to the sideband; whole frames, tail drop
//! overflow = "burst"       # drops until the buffer is empty; absent: "tail"
//! channels = 2             # of its packages = 1; only the first has a cable
//! configured = true        # the first channel passes frames from the start; false: Initial State
//! reported_buffer = "8 KiB"               # in Get Capabilities; absent: the true size
//! faults = { lose_reply_one_in = 10 }     # faults of its answers
//! ```

mod bus;
mod controller;
mod element;
mod failover;
mod host;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Range;

use linerate_model::{BitRate, Bytes, Nanos, Problem, nearest};
use serde::Deserialize;

pub use bus::{Bus, BusEdge, Hash};
use controller::ControllerText;
pub use controller::{Checksum, Controller, ControllerFaults, Overflow, Port};
pub use element::{Element, Faults, Forwarding, Stall};
pub use failover::Failover;
pub use host::HostSettings;
use host::HostText;

/// Lab as read from its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Its name, for messages only.
    pub name: String,
    /// Its description in one sentence.
    pub summary: String,
    /// Address family by which endpoints are reached.
    pub family: Family,
    /// Hosts, switches and routers: each becomes a namespace.
    pub nodes: Vec<Node>,
    /// Links between them.
    pub links: Vec<Link>,
    /// Buses shared by several endpoints of two hosts.
    pub buses: Vec<Bus>,
    /// Network controllers with a sideband.
    pub controllers: Vec<Controller>,
    /// Emulated devices under test.
    pub elements: Vec<Element>,
    /// Interfaces with two cables, which fail in turn.
    pub failovers: Vec<Failover>,
    /// Switches whose ports count as independent observers.
    pub observed: Vec<Observed>,
}

/// Switch whose ports count as independent observers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The switch.
    pub switch: String,
    /// True if it has an SNMP agent that is asked, where snmpd is installed.
    pub snmp: bool,
}

/// Version of the Internet Protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// RFC 791.
    #[default]
    Ipv4,
    /// RFC 8200.
    Ipv6,
}

/// Host, switch or router.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
    /// Its settings, for hosts only.
    pub settings: HostSettings,
}

/// Kind of a node: its treatment of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Terminates them: an agent runs there.
    Host,
    /// Bridges them (layer 2).
    Switch,
    /// Forwards packets (layer 3).
    Router,
}

/// End of a link: a node, and for a host the name of the endpoint in plans. It is written
/// `NODE.ENDPOINT`, or `NODE` for the endpoint of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct LinkEnd {
    /// The node.
    pub node: String,
    /// The endpoint, if the node is a host.
    pub endpoint: String,
}

impl From<String> for LinkEnd {
    fn from(text: String) -> Self {
        // A host with one link may leave the endpoint's name out: it is then the host's own.
        let (node, endpoint) = text.split_once('.').unwrap_or((&text, &text));
        Self { node: node.to_owned(), endpoint: endpoint.to_owned() }
    }
}

/// Veth pair between two nodes, shaped at both ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The two ends.
    pub ends: [LinkEnd; 2],
    /// Rate each way, counted as Ethernet frames without FCS; `None`: not shaped.
    pub rate: Option<BitRate>,
    /// Queue in front of the shaper. The effective buffer is `buffer + burst`.
    pub buffer: Bytes,
    /// Token bucket depth; at least one frame (with offloads on, one super-packet of 64 KiB).
    pub burst: Option<Bytes>,
    /// Propagation delay each way. A round trip takes twice this, and the time in queues.
    pub delay: Option<Nanos>,
    /// Faults on purpose.
    pub faults: Faults,
    /// IP MTU.
    pub mtu: Bytes,
    /// State of segmentation offloads. If off, every frame on the link is a real frame, as
    /// packet-accurate shaping needs. By default they are on for links with neither rate, delay nor
    /// faults. A link with delay or faults cannot have them on.
    pub offloads: Option<bool>,
    /// Receive and transmit queues of each of its interfaces.
    pub queues: NonZeroU32,
}

impl Link {
    /// Returns whether an emulated device carries its frames: the kernel has neither delay nor
    /// exact loss.
    #[must_use]
    pub(crate) fn is_handled(&self) -> bool {
        self.delay.is_some() || self.faults != Faults::default()
    }
}

/// Returns Ethernet's default IP MTU, RFC 894.
const fn usual_mtu() -> Bytes {
    Bytes(1500)
}

/// Returns the default queue in front of a shaper: 64 full frames, about the share of a small
/// switch's port.
const fn usual_buffer() -> Bytes {
    Bytes(64 * 1514)
}

/// Bytes of an Ethernet header. Buffers count frames with it and without FCS.
pub(crate) const ETHERNET_HEADER: Bytes = Bytes(14);
/// Most queues of an interface: more than CPUs are useless.
const MOST_QUEUES: u32 = 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    lab: Header,
    #[serde(default)]
    host: Vec<HostText>,
    #[serde(default)]
    switch: Vec<SwitchText>,
    #[serde(default)]
    router: Vec<Named>,
    #[serde(default)]
    link: Vec<toml::Spanned<LinkText>>,
    #[serde(default)]
    bus: Vec<toml::Spanned<Bus>>,
    #[serde(default)]
    controller: Vec<toml::Spanned<ControllerText>>,
    #[serde(default)]
    element: Vec<toml::Spanned<Element>>,
    #[serde(default)]
    failover: Vec<toml::Spanned<Failover>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    name: String,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    family: Family,
    /// Sysctls of every host.
    #[serde(default)]
    sysctl: BTreeMap<toml::Spanned<String>, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: toml::Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchText {
    name: toml::Spanned<String>,
    #[serde(default)]
    observed: bool,
    #[serde(default)]
    snmp: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkText {
    ends: [LinkEnd; 2],
    rate: Option<BitRate>,
    buffer: Option<Bytes>,
    burst: Option<Bytes>,
    delay: Option<Nanos>,
    drop_one_in: Option<NonZeroU32>,
    duplicate_one_in: Option<NonZeroU32>,
    mtu: Option<Bytes>,
    offloads: Option<bool>,
    queues: Option<NonZeroU32>,
}

impl Description {
    /// Parses a lab file and collects every problem. It may be built only if there is none.
    #[must_use]
    pub fn parse(text: &str) -> (Option<Self>, Vec<Problem>) {
        let file: File = match toml::from_str(text) {
            Ok(file) => file,
            Err(error) => return (None, vec![Problem::from_serde(error.span(), error.message())]),
        };
        // A terminal that shows a name must not obey escape sequences in it.
        let mut problems = linerate_model::control_characters(text);
        let nodes = read_nodes(&file, &mut problems);
        let links = file.link.iter().map(|link| read_link(link, &nodes, &mut problems)).collect();
        let buses = file.bus.into_iter().map(|bus| bus::read(bus, &nodes, &mut problems)).collect();
        let controllers = file
            .controller
            .iter()
            .map(|text| controller::read(text, &nodes, &mut problems))
            .collect();
        let elements =
            file.element.into_iter().map(|one| element::read(one, &nodes, &mut problems)).collect();
        let failovers =
            file.failover.into_iter().map(|one| failover::read(one, &nodes, &mut problems));
        let failovers = failovers.collect();
        let observed = file.switch.iter().filter(|switch| switch.observed || switch.snmp);
        let observed = observed
            .map(|switch| Observed { switch: switch.name.get_ref().clone(), snmp: switch.snmp });
        let observed = observed.collect();
        let Header { name, summary, family, .. } = file.lab;
        let description = Self {
            name,
            summary,
            family,
            nodes,
            links,
            buses,
            controllers,
            elements,
            failovers,
            observed,
        };
        check_endpoints(&description, &mut problems);
        (Some(description), problems)
    }

    /// Returns the node called `name`.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

/// Checks a name: lower-case letters and digits, at most eight characters. It becomes part of
/// namespace and interface names.
fn check_name(name: &str, span: Option<Range<usize>>, problems: &mut Vec<Problem>) {
    let fits = (1..=8).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && name.starts_with(|c: char| c.is_ascii_lowercase());
    if !fits {
        let problem = Problem::new(span, format!("name `{name}` does not fit an interface name"));
        problems
            .push(problem.expected("one to eight lower-case letters and digits, a letter first"));
    }
}

fn read_nodes(file: &File, problems: &mut Vec<Problem>) -> Vec<Node> {
    host::check_sysctls(&file.lab.sysctl, problems);
    let hosts: Vec<HostSettings> =
        file.host.iter().map(|host| host.settings(&file.lab.sysctl, problems)).collect();
    let hosts = file
        .host
        .iter()
        .map(|host| &host.name)
        .zip(hosts)
        .map(|(name, set)| (name, NodeKind::Host, set));
    let switches =
        file.switch.iter().map(|named| (&named.name, NodeKind::Switch, HostSettings::default()));
    let routers =
        file.router.iter().map(|named| (&named.name, NodeKind::Router, HostSettings::default()));
    let mut nodes: Vec<Node> = Vec::new();
    for (name, kind, settings) in hosts.chain(switches).chain(routers) {
        check_name(name.get_ref(), Some(name.span()), problems);
        let name_text = name.get_ref();
        if nodes.iter().any(|node| node.name == *name_text) {
            problems
                .push(Problem::new(Some(name.span()), format!("`{name_text}` is described twice")));
        }
        nodes.push(Node { name: name_text.clone(), kind, settings });
    }
    if !nodes.iter().any(|node| node.kind == NodeKind::Host) {
        problems.push(Problem::new(None, "the lab has no host").expected("at least one [[host]]"));
    }
    nodes
}

fn check_end(
    LinkEnd { node, endpoint }: &LinkEnd,
    nodes: &[Node],
    span: &Range<usize>,
    problems: &mut Vec<Problem>,
) {
    if !nodes.iter().any(|known| known.name == *node) {
        let near = nearest(node, nodes.iter().map(|known| known.name.as_str()));
        let message = format!("there is no host, switch or router `{node}`");
        problems.push(Problem::new(Some(span.clone()), message).nearest(near));
    }
    // The host's own name was checked with the hosts.
    if endpoint != node {
        check_name(endpoint, Some(span.clone()), problems);
    }
}

/// Checks the ends of `what` joins two nodes.
fn check_ends(
    ends: &[LinkEnd; 2],
    what: &str,
    nodes: &[Node],
    span: &Range<usize>,
    problems: &mut Vec<Problem>,
) {
    if ends[0] == ends[1] {
        let message = format!("{what} joins two different nodes");
        problems.push(Problem::new(Some(span.clone()), message));
    }
    ends.iter().for_each(|end| check_end(end, nodes, span, problems));
}

fn read_link(link: &toml::Spanned<LinkText>, nodes: &[Node], problems: &mut Vec<Problem>) -> Link {
    let (text, span) = (link.get_ref(), link.span());
    if text.rate.is_none() && (text.buffer.is_some() || text.burst.is_some()) {
        problems
            .push(Problem::new(Some(span.clone()), "a link without `rate` has no buffer or burst"));
    }
    check_ends(&text.ends, "a link", nodes, &span, problems);
    let link = Link {
        ends: text.ends.clone(),
        rate: text.rate,
        buffer: text.buffer.unwrap_or(usual_buffer()),
        burst: text.burst,
        delay: text.delay,
        faults: Faults {
            drop_one_in: text.drop_one_in,
            duplicate_one_in: text.duplicate_one_in,
            ..Faults::default()
        },
        mtu: text.mtu.unwrap_or(usual_mtu()),
        offloads: text.offloads,
        queues: text.queues.unwrap_or(NonZeroU32::MIN),
    };
    if link.queues.get() > 1 && link.is_handled() {
        problems
            .push(Problem::new(Some(span.clone()), "a link with delay or faults has one queue"));
    }
    if link.queues.get() > MOST_QUEUES {
        let problem = Problem::new(Some(span.clone()), format!("{} queues", link.queues));
        problems.push(problem.expected(format!("{MOST_QUEUES} at most")));
    }
    if link.is_handled() && link.offloads == Some(true) {
        let problem = Problem::new(Some(span), "a link with delay or faults carries real frames");
        problems.push(problem.expected("no `offloads = true`"));
    }
    link
}

fn check_endpoints(description: &Description, problems: &mut Vec<Problem>) {
    let is_host =
        |name: &str| description.node(name).is_some_and(|node| node.kind == NodeKind::Host);
    let of_links = description.links.iter().flat_map(|link| &link.ends);
    let of_controllers =
        description.controllers.iter().flat_map(|c| [&c.network.to, &c.sideband.to]);
    let of_elements = description.elements.iter().flat_map(|element| &element.ends);
    let of_failovers = description.failovers.iter().flat_map(|failover| &failover.ends);
    let of_cables = of_links
        .chain(of_controllers)
        .chain(of_elements)
        .chain(of_failovers)
        .filter(|end| is_host(&end.node));
    let mut seen: Vec<&str> = of_cables.map(|end| end.endpoint.as_str()).collect();
    seen.extend(
        description
            .buses
            .iter()
            .flat_map(|bus| bus.edges.iter().flat_map(|edge| edge.ends.iter().flatten()))
            .map(String::as_str),
    );
    // Sorted, equal names are neighbours.
    seen.sort_unstable();
    for pair in seen.windows(2).filter(|pair| pair[0] == pair[1]) {
        let message = format!("endpoint `{}` is named twice", pair[0]);
        problems.push(
            Problem::new(None, message)
                .expected("host.endpoint, one endpoint name for each interface"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_read_with_its_defaults() {
        let (lab, problems) = Description::parse(
            "[lab]\nname='p'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[link]]\nends=['a','b']\n\
                rate='100 Mbit/s'\n",
        );
        assert_eq!(problems, []);
        let link = &lab.expect("no problem").links[0];
        assert_eq!(
            (link.rate, link.mtu, link.buffer),
            (Some(BitRate(100e6)), Bytes(1500), Bytes(96_896))
        );
    }

    #[test]
    fn one_in_zero_is_refused() {
        let (lab, problems) = Description::parse(
            "[lab]\nname='p'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[link]]\nends=['a','b']\n\
                drop_one_in=0\n",
        );
        assert_eq!((lab, problems.len()), (None, 1));
        assert_eq!(problems[0].message, "0 does not fit");
        assert_eq!(problems[0].expected.as_deref(), Some("a whole number from 1 to 4294967295"));
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let (_, problems) = Description::parse(
            "[lab]\nname='p'\n[[host]]\nname='Alpha'\n[[host]]\nname='beta'\n[[link]]\n\
                ends=['beat','beta']\nbuffer='8 KiB'\n",
        );
        let messages: Vec<_> = problems.iter().map(|p| p.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "name `Alpha` does not fit an interface name",
                "a link without `rate` has no buffer or burst",
                "there is no host, switch or router `beat`",
            ]
        );
        assert_eq!(problems[2].nearest.as_deref(), Some("beta"));
    }
}
