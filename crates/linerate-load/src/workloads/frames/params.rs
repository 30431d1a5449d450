//! Parameters of `frames`.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use linerate_model::{Arrival, Bytes, ParamError};
use linerate_packet::frame::{Ports, Transport, VlanTag};

use super::sizes::FrameSize;
use crate::parameter::{Reader, Words, wrong};
use crate::workloads::arrivals::{Arrivals, MAX_BURST};
use crate::workloads::pairing::Shape;
use crate::workloads::parameters::{Direction, Parameters};
use crate::workloads::placement::{Placement, Waiting};
use crate::workloads::ports::{PORT, PORTS, PortList};
use crate::workloads::socket_options::SocketOptions;

/// Memory of a receive ring: at a million frames per second, of which 128 bytes each are kept, it
/// takes a quarter of a second to fill.
const RECEIVE_BUFFER: Bytes = Bytes(32 << 20);
/// Most bursts with a record of their own: the records travel and are stored with the flow.
const MOST_KEPT: u64 = 10_000;
/// Most frames per call: UIO_MAXIOV of Linux.
const MAX_BATCH: u32 = MAX_BURST;
/// VLAN identifiers of a frame: 0 means none and 4095 is reserved (IEEE 802.1Q table 9-2).
const VLAN: RangeInclusive<u64> = 1..=4094;

/// How frames are sent and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
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

impl Mode {
    /// Words of plans, alphabetically.
    const WORDS: Words<Self> = &[
        ("auto", Self::Auto),
        ("live", Self::Live),
        ("packet", Self::Packet),
        ("packet_bypass", Self::PacketBypass),
        ("packet_ring", Self::PacketRing),
        ("packet_ring_bypass", Self::PacketRingBypass),
        ("udp", Self::Udp),
        ("xdp", Self::Xdp),
        ("xdp_copy", Self::XdpCopy),
        ("xdp_generic", Self::XdpGeneric),
        ("xdp_zero_copy", Self::XdpZeroCopy),
    ];
}

/// Ports of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortChoice {
    /// Those of its flow.
    Flow,
    /// Random ones, RFC 4814 clause 4.3.
    Random,
}

impl PortChoice {
    const WORDS: Words<Self> = &[("flow", Self::Flow), ("random", Self::Random)];
}

/// How much of a received frame is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Headers,
    Copy,
}

impl Keep {
    const WORDS: Words<Self> = &[("headers", Self::Headers), ("copy", Self::Copy)];
}

/// Parameters of `frames`.
#[derive(Clone, Debug)]
pub(in crate::workloads) struct FramesParams {
    pub(super) mode: Mode,
    pub(super) direction: Direction,
    pub(super) frame_size: FrameSize,
    pub(super) ports: PortChoice,
    pub(super) source_port: Option<u16>,
    pub(super) source_ports: Option<PortList>,
    pub(super) destination_port: Option<u16>,
    /// Transport header.
    pub(super) header: Transport,
    vlan: Option<u16>,
    outer_vlan: Option<u16>,
    vlan_priority: u8,
    pub(super) burst: u32,
    pub(super) batch: u32,
    pub(super) receive: Keep,
    pub(super) awake: bool,
    pub(super) realtime: bool,
    pub(super) snapshot: u32,
    pub(super) allow_outside_lab: bool,
    pub(super) arrivals: Arrivals,
    pub(super) placement: Placement,
    pub(super) options: SocketOptions,
}

impl Parameters for FramesParams {
    fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            mode: reader.choice(
                "mode",
                Mode::WORDS,
                Mode::Auto,
                "packet: packet sockets through the interface's queueing discipline, and a receive \
                    ring; packet_bypass: the same past the discipline; packet_ring and \
                    packet_ring_bypass: the same, sent from a ring shared with the kernel instead \
                    of a copy per call; udp: UDP sockets (GSO, GRO); xdp: AF_XDP, also past the \
                    discipline, in the best form of the driver, or only in its copy, generic or \
                    zero-copy form; live: frames made by the kernel where the driver takes them, \
                    received by AF_XDP; auto: the fastest that works, if no discipline is in \
                    between and more is requested than packet sockets surely send; otherwise \
                    packet, or udp where an end may not open packet sockets",
            ),
            direction: reader.choice(
                "direction",
                Direction::WORDS,
                Direction::Tx,
                "direction of frames, seen from the active end: tx, rx, both",
            ),
            frame_size: FrameSize::declare(reader),
            arrivals: Arrivals {
                rate: reader.rate(
                    "rate",
                    "as fast as possible",
                    "offered load of each direction, all flows together: frames per second, or \
                        bits per second on the wire (L1: frame, preamble and gap of 20 B); or a \
                        share of the known capacity of the path, such as \"90 %\"",
                ),
                ..Arrivals::declare(reader)
            },
            burst: Arrivals::declare_burst(reader),
            // Beyond 64 a call's own cost is below one part in a hundred of its frames'.
            batch: reader.count(
                "batch",
                1..=u64::from(MAX_BATCH),
                64,
                "most frames per system call that sends",
            ),
            ports: reader.choice(
                "ports",
                PortChoice::WORDS,
                PortChoice::Flow,
                "flow: each flow has its two ports; random: each frame has ports of its own, 1024 \
                    to 65535, derived from the seed (RFC 4814)",
            ),
            source_port: reader.optional_count(
                "source_port",
                PORT,
                "a free one per flow",
                "source port of the first flow, one more for each next",
            ),
            source_ports: reader.structured(
                "source_ports",
                PORTS,
                "none",
                "source port of each flow in turn, at least one per flow, as `linerate flows plan` \
                    and `flows probe` print them: flows then land on chosen members or queues, \
                    and all have the same destination_port",
            ),
            destination_port: reader.optional_count(
                "destination_port",
                PORT,
                "a free one per flow",
                "destination port of the first flow, one more for each next (with source_ports: \
                    of all)",
            ),
            header: reader.choice(
                "header",
                &[("udp", Transport::Udp), ("tcp", Transport::Tcp)],
                Transport::Udp,
                "transport header of the frames; tcp: with the reset flag, so that no host answers",
            ),
            vlan: reader.optional_count("vlan", VLAN, "none", "VLAN tag of the frames (802.1Q)"),
            outer_vlan: reader.optional_count(
                "outer_vlan",
                VLAN,
                "none",
                "a second tag, outside of the first (802.1ad); needs vlan",
            ),
            vlan_priority: reader.count(
                "vlan_priority",
                0..=7,
                0,
                "priority code point of the tags",
            ),
            receive: reader.choice(
                "receive",
                Keep::WORDS,
                Keep::Headers,
                "headers: only the headers of each frame are copied; copy: the whole frame",
            ),
            awake: reader.flag(
                "awake",
                false,
                "keep the CPUs of both hosts from deep sleep, so that wake-ups do not delay \
                    infrequent frames; reported as not possible where the kernel does not govern \
                    idle states, as on most virtual machines",
            ),
            realtime: reader.flag(
                "realtime",
                false,
                "run workers before the threads of other programs (SCHED_FIFO), so that a busy \
                    machine does not make frames late; needs CAP_SYS_NICE; above some 9,000 calls \
                    a second, and without a rate, a sender occupies nearly its whole CPU",
            ),
            snapshot: reader.count(
                "snapshot",
                0..=MOST_KEPT,
                0,
                "keep the slowest frame's response time for the first N bursts of each worker \
                    (frames, without bursts): the last frame's latency burst by burst, over all \
                    ports that send to one",
            ),
            allow_outside_lab: reader.flag(
                "allow_outside_lab",
                false,
                "send on an interface that is neither a lab's nor the loopback: such load can \
                    take a network down (RFC 6815)",
            ),
            placement: Placement {
                wait: Waiting::declare(
                    reader,
                    "block: a receiver sleeps until frames arrive; spin: poll, which occupies a \
                        CPU per worker",
                ),
                ..Placement::declare(reader)
            },
            options: SocketOptions {
                device: reader.optional_text(
                    "device",
                    "eth0",
                    "the endpoint's",
                    "interface to send and receive on; \"endpoint\" is each end's own",
                ),
                ..SocketOptions::declare_with_receive_buffer(
                    reader,
                    RECEIVE_BUFFER,
                    "receive ring of each worker, or SO_RCVBUF requested; socket_buffer takes \
                        precedence over this default",
                )
            },
        }
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        self.placement.check(self.placement.streams())?;
        self.arrivals.check()?;
        self.arrivals.check_burst(self.burst)?;
        if self.realtime && self.placement.wait == Waiting::Spin {
            return Err(wrong(
                "realtime",
                "a worker that never sleeps would block its CPU for all others: set `wait \
                    = \"block\"`",
            ));
        }
        if self.outer_vlan.is_some() && self.vlan.is_none() {
            return Err(wrong("outer_vlan", "an outer tag needs an inner one: set vlan as well"));
        }
        self.check_planned()?;
        // With planned source ports all flows share one destination, so it does not count up.
        let counted_up = self.destination_port.filter(|_| self.source_ports.is_none());
        for (key, port) in [("source_port", self.source_port), ("destination_port", counted_up)] {
            // The last port is checked in 32 bits: adding in 16 bits would wrap to a valid port.
            let last = port.map(|port| u32::from(port) + self.placement.streams() - 1);
            if last.is_some_and(|last| last > u32::from(u16::MAX)) {
                return Err(wrong(
                    key,
                    format!("the last of {} flows would be beyond 65535", self.placement.streams()),
                ));
            }
        }
        if let Some(key) = self.beyond_sockets().filter(|_| self.mode == Mode::Udp) {
            return Err(wrong(
                key,
                "a UDP socket has its own ports and headers: set mode = \"packet\"",
            ));
        }
        // The family is not known yet. IPv4 has the smaller header, so what fails here fails with
        // both.
        self.check_size(Ipv4Addr::UNSPECIFIED.into())?;
        let own = self.source_port.is_some()
            || self.source_ports.is_some()
            || self.destination_port.is_some();
        if self.ports == PortChoice::Random && own {
            return Err(wrong("ports", "random ports and chosen ports exclude each other"));
        }
        Ok(())
    }
}

impl FramesParams {
    pub(super) fn shape(&self) -> Shape {
        Shape::of(super::WORKLOAD, &self.placement)
    }

    pub(super) fn arrival(&self) -> Arrival {
        self.arrivals.arrival_of(self.burst)
    }

    /// Returns the ports of flow `number`, whose sockets have `own`.
    pub(super) fn ports_of(&self, number: u32, own: Ports) -> Ports {
        // A flow's number is below 16384, and the last port was checked.
        let counted = |first: u16| first + number as u16;
        let source = match &self.source_ports {
            Some(PortList(ports)) => ports[number as usize],
            None => self.source_port.map_or(own.source, counted),
        };
        let one = self.source_ports.is_some();
        // One destination for all flows is what makes planned source ports select a path.
        let destination = self
            .destination_port
            .map_or(own.destination, |port| if one { port } else { counted(port) });
        Ports { source, destination }
    }

    /// Returns the first parameter that a UDP socket cannot satisfy.
    pub(super) fn beyond_sockets(&self) -> Option<&'static str> {
        let requested = [
            ("vlan", self.vlan.is_some()),
            ("header", self.header == Transport::Tcp),
            ("ports", self.ports == PortChoice::Random),
            ("source_port", self.source_port.is_some()),
            ("source_ports", self.source_ports.is_some()),
            ("destination_port", self.destination_port.is_some()),
        ];
        requested.into_iter().find(|(_, requested)| *requested).map(|(key, _)| key)
    }

    /// Returns the VLAN tags, outer first.
    pub(super) fn tags(&self) -> Vec<VlanTag> {
        let tag = |id| VlanTag { id, priority: self.vlan_priority };
        [self.outer_vlan, self.vlan].into_iter().flatten().map(tag).collect()
    }

    /// Returns frames per second of each direction, all flows together; `None` to send as fast as
    /// possible.
    pub(super) fn frames_per_second(&self) -> Option<f64> {
        self.arrivals.rate.map(|rate| self.frame_size.sizes().frames_per_second(rate))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::{assert_sound, from_table, read};

    #[test]
    fn every_default_is_used_and_every_mistake_is_named() {
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
        let params = from_table(table);
        let own = Ports { source: 1, destination: 2 };
        let ports = |params: &FramesParams| {
            [0, 1, 2].map(|flow| params.ports_of(flow, own)).map(|p| (p.source, p.destination))
        };
        assert_eq!(ports(&params), [(40, 7), (30, 7), (20, 7)]);
        let params = from_table(json!({ "destination_port": 7, "streams": 3 }));
        assert_eq!(ports(&params), [(1, 7), (1, 8), (1, 9)]);
    }
}
