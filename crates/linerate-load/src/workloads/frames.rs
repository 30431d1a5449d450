//! `frames`: whole Ethernet frames past TCP and UDP, as fast as possible or at a rate, each with
//! its number, its flow and the time it was to depart. Unit: frames, and L4 payload bits behind
//! their headers; sizes are RFC 2544's, frame check sequence included.
//!
//! How frames are sent and received is a *mode*: one workload, several [`backend`]s, and the mode
//! obtained is told with every result. Sent is what the kernel took; what a queue or driver refused
//! is counted apart (`send_drops`) and never counts as sent, so that an overloaded sender shows as
//! operations not started, not as loss. Received frames are told by a tag that only this trial's
//! ends can make: duplicates, reordering and late frames are counted apart, and a frame that came
//! back to its sender is *reflected*, not received. Drops in the receiving ring are counted by the
//! kernel to the frame.
//!
//! Where both ends are on one kernel, `response` is the time from a frame's *scheduled* departure
//! to the kernel's receipt, and `service` that from its actual hand-over: one clock, no correction.
//! What this does not see: frames dropped between a device and the packet layer (device, backlog:
//! their own counters tell), the wire time of single frames, and time between hosts.
//!
//! RFC 6815: such load belongs in laboratories. It is refused on any interface that is neither a
//! lab's nor the loopback, unless `allow_outside_lab` says that whoever asks knows what it will
//! meet.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;

use linerate_model::{Arrival, Bytes, ParamError};
use linerate_packet::frame::{LARGEST_FRAME, Ports, SMALLEST_FRAME, Transport, VlanTag};
use serde::Deserialize;

use super::arrivals::Arrivals;
use super::pairing::{self, Shape, Waiting as Unpaired};
use super::parameters::{DIRECTION, Parameters, Typed, documented, wrong};
use super::placement::{Placement, WAIT, Waiting};
use super::ports::{PORT, PORTS, PlannedPorts, PortList};
use super::socket_options::{BUFFER, SocketOptions};
use crate::parameter::{ParamDoc, Takes};
use crate::workloads::footprint;
use crate::{Listener, LoadError, Offer, Setup, Times, Worker};

mod backend;
mod card;
mod checks;
mod choice;
mod filler;
mod interface;
mod ledger;
mod live;
mod numbering;
mod packet;
mod packet_ring;
mod queues;
mod sizes;
mod start;
mod udp;
mod worker;
mod xdp;

use interface::Interface;
pub(super) use interface::raw_frames;
use sizes::FrameSize;

/// `frames` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"fram");
/// Memory of a receive ring: at a million frames of which 128 bytes are kept it holds a quarter of
/// a second.
const RECEIVE_BUFFER: Bytes = Bytes(32 << 20);
/// The most bursts kept one by one: they travel and are stored with the flow.
const MOST_KEPT: u64 = 10_000;
/// The most frames per call: UIO_MAXIOV of Linux.
const MAX_BATCH: u32 = 1024;

/// Which way the frames go, seen from the active end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flowing {
    #[default]
    Tx,
    Rx,
    Both,
}

/// How frames are sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Auto,
    /// Frames made by the kernel, received by AF_XDP.
    Live,
    /// Packet socket through the queueing discipline, receive ring.
    Packet,
    /// Packet socket past the queueing discipline, receive ring.
    PacketBypass,
    /// Send ring through the queueing discipline, receive ring.
    PacketRing,
    /// Send ring past the queueing discipline, receive ring.
    PacketRingBypass,
    /// UDP sockets.
    Udp,
    /// AF_XDP, the best that driver and kernel have.
    Xdp,
    /// AF_XDP that copies, its program in the driver.
    XdpCopy,
    /// AF_XDP that copies, its program in the stack.
    XdpGeneric,
    /// AF_XDP without copying, or not at all.
    XdpZeroCopy,
}

/// As written in plans, in the order of their names.
const MODES: &[&str] = &[
    "auto",
    "live",
    "packet",
    "packet_bypass",
    "packet_ring",
    "packet_ring_bypass",
    "udp",
    "xdp",
    "xdp_copy",
    "xdp_generic",
    "xdp_zero_copy",
];

/// Which ports a frame has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PortChoice {
    /// Its flow's.
    #[default]
    Flow,
    /// Random ones, RFC 4814 clause 4.3.
    Random,
}

/// Which transport header a frame has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Header {
    #[default]
    Udp,
    Tcp,
}

impl Header {
    fn transport(self) -> Transport {
        match self {
            Self::Udp => Transport::Udp,
            Self::Tcp => Transport::Tcp,
        }
    }
}

/// What of a received frame is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Keep {
    #[default]
    Headers,
    Copy,
}

/// Parameters of `frames`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct FramesParams {
    mode: Mode,
    direction: Flowing,
    frame_size: FrameSize,
    ports: PortChoice,
    source_port: Option<u16>,
    source_ports: Option<PortList>,
    destination_port: Option<u16>,
    header: Header,
    vlan: Option<u16>,
    outer_vlan: Option<u16>,
    vlan_priority: u8,
    burst: u32,
    batch: u32,
    receive: Keep,
    awake: bool,
    realtime: bool,
    snapshot: u32,
    allow_outside_lab: bool,
    #[serde(flatten)]
    arrivals: Arrivals,
    #[serde(flatten)]
    placement: Placement,
    #[serde(flatten)]
    options: SocketOptions,
}

impl Default for FramesParams {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            direction: Flowing::Tx,
            frame_size: FrameSize::default(),
            ports: PortChoice::Flow,
            source_port: None,
            source_ports: None,
            destination_port: None,
            header: Header::Udp,
            vlan: None,
            outer_vlan: None,
            vlan_priority: 0,
            burst: 1,
            // Beyond 64 a call's own cost is below one part in a hundred of its frames'.
            batch: 64,
            receive: Keep::Headers,
            awake: false,
            realtime: false,
            snapshot: 0,
            allow_outside_lab: false,
            arrivals: Arrivals::default(),
            placement: Placement::default(),
            options: SocketOptions::default(),
        }
    }
}

/// VLAN identifiers that a frame may bear: 0 means none and 4095 is reserved (IEEE 802.1Q table
/// 9-2).
const VLAN: Takes = Takes::Count { least: 1, most: 4094 };

const OWN: &[ParamDoc] = &[
    ParamDoc {
        name: "mode",
        takes: Takes::Word(MODES),
        default: "\"auto\"",
        meaning: "packet: packet sockets through the interface's queueing discipline, a receive \
            ring; packet_bypass: past it; packet_ring, packet_ring_bypass: the same sending from a \
            ring shared with the kernel instead of copying each call; udp: UDP sockets (GSO, GRO); \
            xdp: AF_XDP, past it too, the best that the driver has, or only in its copy, generic \
            or zero-copy form; live: frames made by the kernel where the driver takes them, \
            received by AF_XDP; auto: the fastest that works where no discipline stands in between \
            and more is wanted than packet sockets surely send, else packet, or udp where an end \
            may not open packet sockets",
    },
    ParamDoc {
        name: "direction",
        takes: DIRECTION,
        default: "\"tx\"",
        meaning: "which way frames go, seen from the active end: tx, rx, both",
    },
    ParamDoc {
        name: "frame_size",
        takes: Takes::SizeOrWord {
            least: Bytes(SMALLEST_FRAME as u64),
            most: Bytes(LARGEST_FRAME as u64),
            words: sizes::MIXTURES,
        },
        default: "\"64 B\"",
        meaning: "Ethernet frame with VLAN tags and frame check sequence (4 B), as in RFC 2544; \
            imix: 7:4:1 of 64, 570 and 1518 B; imix_csit: the same in runs; rfc2544: its seven \
            sizes in turn",
    },
    ParamDoc {
        name: "rate",
        takes: Takes::Rate,
        default: "as fast as possible",
        meaning: "offered load of each direction, all flows together: frames per second, or bits \
            per second on the wire (L1: frame, preamble and gap of 20 B); or a share of what the \
            path is known to carry, such as \"90 %\"",
    },
    ParamDoc {
        name: "burst",
        takes: Takes::Count { least: 1, most: MAX_BATCH as u64 },
        default: "1",
        meaning: "frames sent back to back, then a gap that keeps the rate; needs a rate",
    },
    ParamDoc {
        name: "batch",
        takes: Takes::Count { least: 1, most: MAX_BATCH as u64 },
        default: "64",
        meaning: "most frames per system call that sends",
    },
    ParamDoc {
        name: "ports",
        takes: Takes::Word(&["flow", "random"]),
        default: "\"flow\"",
        meaning: "flow: each flow has its two ports; random: each frame has ports of its own, 1024 \
            to 65535, by the seed (RFC 4814)",
    },
    ParamDoc {
        name: "source_port",
        takes: PORT,
        default: "a free one per flow",
        meaning: "source port of the first flow, one more for each next",
    },
    ParamDoc {
        name: "source_ports",
        takes: PORTS,
        default: "none",
        meaning: "source port of each flow in turn, one at least per flow, as `linerate flows \
            plan` and `flows probe` print them: so flows land on chosen members or queues; every \
            flow then has destination_port itself",
    },
    ParamDoc {
        name: "destination_port",
        takes: PORT,
        default: "a free one per flow",
        meaning: "destination port of the first flow, one more for each next (with source_ports: \
            of all)",
    },
    ParamDoc {
        name: "header",
        takes: Takes::Word(&["udp", "tcp"]),
        default: "\"udp\"",
        meaning: "transport header of the frames; tcp: its reset flag is set, so that no host \
            answers",
    },
    ParamDoc {
        name: "vlan",
        takes: VLAN,
        default: "none",
        meaning: "VLAN tag of the frames (802.1Q)",
    },
    ParamDoc {
        name: "outer_vlan",
        takes: VLAN,
        default: "none",
        meaning: "a second tag, outside of the first (802.1ad); needs vlan",
    },
    ParamDoc {
        name: "vlan_priority",
        takes: Takes::Count { least: 0, most: 7 },
        default: "0",
        meaning: "priority code point of the tags",
    },
    ParamDoc {
        name: "receive",
        takes: Takes::Word(&["headers", "copy"]),
        default: "\"headers\"",
        meaning: "headers: of each frame as much as tells it is copied; copy: the whole frame",
    },
    ParamDoc {
        name: "awake",
        takes: Takes::Flag,
        default: "false",
        meaning: "keep the CPUs of both hosts from deep sleep, so that seldom frames are not \
            slower because a CPU has to wake; told as not possible where the kernel does not \
            govern idle states, as on most virtual machines",
    },
    ParamDoc {
        name: "realtime",
        takes: Takes::Flag,
        default: "false",
        meaning: "run workers before the threads of other programs (SCHED_FIFO), so that a busy \
            machine does not make frames late; needs CAP_SYS_NICE; above some 9,000 calls a \
            second, and without a rate, a sender takes its CPU nearly whole",
    },
    ParamDoc {
        name: "snapshot",
        takes: Takes::Count { least: 0, most: MOST_KEPT },
        default: "0",
        meaning: "of each of the first so many bursts (frames, without bursts) of a worker the \
            response time of the slowest frame is kept: the last frame's latency burst by burst, \
            over all ports that send to one",
    },
    ParamDoc {
        name: "allow_outside_lab",
        takes: Takes::Flag,
        default: "false",
        meaning: "send on an interface that is neither a lab's nor the loopback: such load can \
            take a network down (RFC 6815)",
    },
    ParamDoc {
        name: "wait",
        takes: WAIT,
        default: "\"block\"",
        meaning: "block: a receiver sleeps until frames have come; spin: ask again and again, a \
            CPU per worker",
    },
    ParamDoc {
        name: "receive_buffer",
        takes: BUFFER,
        default: "\"32 MiB\"",
        meaning: "receive ring of each worker, or SO_RCVBUF asked for; socket_buffer comes before \
            this default",
    },
    ParamDoc {
        name: "device",
        takes: Takes::Text { example: "eth0" },
        default: "the endpoint's",
        meaning: "interface to send and receive on; \"endpoint\" is each end's own",
    },
];

impl Parameters for FramesParams {
    fn docs() -> Vec<ParamDoc> {
        documented(OWN, &[Arrivals::DOCS, Placement::DOCS, SocketOptions::DOCS])
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        self.options.preset_receive_buffer(Some(RECEIVE_BUFFER));
        self.placement.check(self.placement.streams())?;
        self.arrivals.check()?;
        if self.burst > 1 && (!self.arrivals.is_open() || self.arrivals.poisson) {
            return Err(wrong("burst", "bursts need a rate and no Poisson arrivals"));
        }
        if self.realtime && self.placement.wait == Waiting::Spin {
            return Err(wrong(
                "realtime",
                "a worker that never sleeps would leave its CPU to nobody: take `wait = \"block\"`",
            ));
        }
        if self.outer_vlan.is_some() && self.vlan.is_none() {
            return Err(wrong("outer_vlan", "an outer tag needs an inner one: set vlan as well"));
        }
        self.check_planned()?;
        let counted_up = self.destination_port.filter(|_| self.source_ports.is_none());
        for (key, port) in [("source_port", self.source_port), ("destination_port", counted_up)] {
            let last = port.map(|port| u32::from(port) + self.placement.streams() - 1);
            if last.is_some_and(|last| last > u32::from(u16::MAX)) {
                return Err(wrong(
                    key,
                    format!("the last of {} flows would be beyond 65535", self.placement.streams()),
                ));
            }
        }
        if let Some(key) = self.beyond_sockets().filter(|_| self.mode == Mode::Udp) {
            return Err(wrong(key, "a UDP socket has its own ports and headers: use mode packet"));
        }
        self.check_size(Ipv4Addr::UNSPECIFIED.into())?;
        let own = self.source_port.is_some()
            || self.source_ports.is_some()
            || self.destination_port.is_some();
        if self.ports == PortChoice::Random && own {
            return Err(wrong("ports", "random ports and ports of one's own do not go together"));
        }
        Ok(())
    }
}

/// The `frames` workload.
#[derive(Debug)]
pub(super) struct Frames;

impl Typed for Frames {
    type Params = FramesParams;
    const NAME: &'static str = "frames";
    const SUMMARY: &'static str = "Ethernet frames of one size or a mixture, at a rate or as fast \
        as possible: frames delivered per second, every one accounted";

    const ON_LOOPBACK: bool = false;

    fn fits(params: &FramesParams, address: IpAddr) -> Result<(), ParamError> {
        params.check_size(address)
    }

    fn packet_of(params: &FramesParams, _: Bytes) -> Option<Bytes> {
        /// Ethernet header and check sequence; tags count as the packet's.
        const AROUND: u64 = 18;
        let sizes = params.frame_size.sizes();
        let size = sizes.largest() as u64;
        sizes.is_single().then(|| Bytes(size.saturating_sub(AROUND)))
    }

    fn memory_of(params: &FramesParams) -> u64 {
        let ring = params.options.receive_buffer.map_or(0, |bytes| bytes.0);
        let slowest = u64::from(params.snapshot) * 8;
        // The send ring, and the same frames before they are in it.
        // Of an end that sends and receives.
        let times =
            Times { service: true, response: true, gap: true, variation: true, ..Times::NONE };
        footprint::of(&params.placement, times, ring + slowest + (16 << 20), 128 << 10)
    }

    fn start_passive(
        params: FramesParams,
        setup: &Setup<'_>,
    ) -> Result<Box<dyn Listener>, LoadError> {
        let interface = Interface::find(&params, setup.local, None)?;
        start::check(&params, &interface, setup.permits)?;
        let unpaired =
            Unpaired::listen(setup, None, params.shape(), &PlannedPorts::NONE, |socket| {
                params.options.set(socket)
            })?;
        let Setup { secret, seed, peer_clock, .. } = *setup;
        let permits = setup.permits.clone();
        Ok(Box::new(start::FramesListener {
            params,
            unpaired,
            interface,
            secret,
            seed,
            peer_clock,
            permits,
        }))
    }

    fn start_active(
        params: FramesParams,
        setup: &Setup<'_>,
        offer: &Offer,
    ) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let interface = Interface::find(&params, setup.local, offer.addresses.first().copied())?;
        start::check(&params, &interface, setup.permits)?;
        let paired =
            pairing::connect(setup, offer, None, params.shape(), &PlannedPorts::NONE, |socket| {
                params.options.set(socket)
            })?;
        start::active(&params, setup, &interface, paired)
    }
}

impl FramesParams {
    fn shape(&self) -> Shape {
        Shape {
            workload: WORKLOAD,
            workers: self.placement.workers(),
            flows: self.placement.streams(),
        }
    }

    fn arrival(&self) -> Arrival {
        match NonZeroU32::new(self.burst) {
            Some(burst) if self.burst > 1 => Arrival::Burst(burst),
            _ => self.arrivals.arrival(),
        }
    }

    /// Ports of flow `number`, whose sockets have `own`.
    fn ports_of(&self, number: u32, own: Ports) -> Ports {
        // A flow's number is below 16384, and the last port was checked.
        let counted = |first: u16| first + number as u16;
        let source = match &self.source_ports {
            Some(PortList(ports)) => ports[number as usize],
            None => self.source_port.map_or(own.source, counted),
        };
        let one = self.source_ports.is_some();
        let destination = self
            .destination_port
            .map_or(own.destination, |port| if one { port } else { counted(port) });
        Ports { source, destination }
    }

    /// The first parameter that asks for what a UDP socket cannot do.
    fn beyond_sockets(&self) -> Option<&'static str> {
        let asked = [
            ("vlan", self.vlan.is_some()),
            ("header", self.header == Header::Tcp),
            ("ports", self.ports == PortChoice::Random),
            ("source_port", self.source_port.is_some()),
            ("source_ports", self.source_ports.is_some()),
            ("destination_port", self.destination_port.is_some()),
        ];
        asked.into_iter().find(|(_, asked)| *asked).map(|(key, _)| key)
    }

    /// VLAN tags, outer first.
    fn tags(&self) -> Vec<VlanTag> {
        let tag = |id| VlanTag { id, priority: self.vlan_priority };
        [self.outer_vlan, self.vlan].into_iter().flatten().map(tag).collect()
    }

    /// Frames a second of each direction, all flows together; `None` to send as fast as possible.
    fn frames_per_second(&self) -> Option<f64> {
        self.arrivals.rate.map(|rate| self.frame_size.sizes().frames_per_second(rate))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::{assert_sound, read};

    #[test]
    fn every_parameter_is_documented_and_every_mistake_is_named() {
        assert_sound::<FramesParams>(&[
            ("mode", json!("raw")),
            ("frame_size", json!("63 B")),
            ("frame_size", json!("20 KiB")),
            ("frame_size", json!("imax")),
            ("batch", json!(0)),
            ("burst", json!(2)),
            ("poisson", json!(true)),
            ("vlan", json!(4095)),
            ("outer_vlan", json!(5)),
            ("vlan_priority", json!(8)),
            ("source_port", json!(0)),
            ("source_ports", json!("80,eighty")),
            ("rate", json!("0 pps")),
            ("workers", json!(2)),
        ]);
        let documented =
            FramesParams::docs().into_iter().find(|parameter| parameter.name == "receive_buffer");
        let default =
            documented.map(|parameter| serde_json::from_str::<Bytes>(parameter.default).ok());
        let settled =
            read::<FramesParams>(&linerate_model::Params::default()).expect("defaults go together");
        assert_eq!(default, Some(settled.options.receive_buffer));
    }

    #[test]
    fn parameters_that_do_not_go_together_are_refused() {
        for (table, key) in [
            (json!({ "source_port": 65_535, "streams": 2 }), "source_port"),
            (json!({ "realtime": true, "wait": "spin" }), "realtime"),
            (json!({ "ports": "random", "destination_port": 9 }), "ports"),
            (json!({ "source_ports": "9", "streams": 2, "destination_port": 7 }), "source_ports"),
            (json!({ "source_ports": "9,8", "streams": 2 }), "source_ports"),
            (json!({ "source_ports": "9", "destination_port": 7, "ports": "random" }), "ports"),
            (json!({ "mode": "udp", "source_ports": "9", "destination_port": 7 }), "source_ports"),
            (json!({ "mode": "udp", "vlan": 9 }), "vlan"),
            (json!({ "mode": "udp", "header": "tcp" }), "header"),
            (json!({ "header": "tcp", "frame_size": "75 B" }), "frame_size"),
            (json!({ "vlan": 1, "frame_size": "67 B" }), "frame_size"),
            (json!({ "vlan": 1, "outer_vlan": 2, "frame_size": "71 B" }), "frame_size"),
            (
                json!({ "vlan": 1, "outer_vlan": 2, "header": "tcp", "frame_size": "83 B" }),
                "frame_size",
            ),
            (json!({ "vlan": 1, "frame_size": "imix" }), "frame_size"),
        ] {
            let params = serde_json::from_value(table).expect("a table");
            assert_eq!(read::<FramesParams>(&params).expect_err("refused")[0].key, key);
        }
    }

    #[test]
    fn the_smallest_frame_that_has_room_is_taken() {
        for table in [
            json!({ "frame_size": "64 B" }),
            json!({ "header": "tcp", "frame_size": "76 B" }),
            json!({ "vlan": 1, "frame_size": "68 B" }),
            json!({ "vlan": 1, "outer_vlan": 2, "header": "tcp", "frame_size": "84 B" }),
        ] {
            let params = serde_json::from_value(table).expect("a table");
            assert!(read::<FramesParams>(&params).is_ok(), "{params:?}");
        }
    }

    #[test]
    fn planned_ports_are_each_flows_own_and_lead_to_one_destination() {
        let table = json!({ "source_ports": "40, 30,20", "destination_port": 7, "streams": 3 });
        let params = read::<FramesParams>(&serde_json::from_value(table).expect("a table"))
            .expect("they go together");
        let own = Ports { source: 1, destination: 2 };
        let ports = |params: &FramesParams| {
            [0, 1, 2].map(|flow| params.ports_of(flow, own)).map(|p| (p.source, p.destination))
        };
        assert_eq!(ports(&params), [(40, 7), (30, 7), (20, 7)]);
        let params = serde_json::from_value(json!({ "destination_port": 7 })).expect("a table");
        assert_eq!(ports(&params), [(1, 7), (1, 8), (1, 9)]);
    }
}
