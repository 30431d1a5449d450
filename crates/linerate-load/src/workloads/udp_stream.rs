//! `udp_stream`: datagrams as fast as possible or at a rate, each with a 64-bit sequence number.
//! Unit: datagrams and L4 payload bits, counted where they are delivered; loss is split into gap,
//! tail and all against the sender's count (RFC 7680, RFC 4737 for reordering).
//!
//! With segmentation offload one socket message (skb) carries many datagrams: `datagrams_*` counts
//! what goes on the wire, `messages_*` what is handed to and from the socket, `calls_*` the system
//! calls. `gap` holds the times between departures of system calls as the sender made them, not as
//! the wire saw them. What it does not see: where between the two sockets a datagram was lost,
//! one-way delay between hosts, and the order of segments inside a coalesced message when
//! discarding.

use std::num::NonZeroU32;
use std::time::Duration;

use linerate_model::{Arrival, Bytes, ParamError};
use linerate_sys::udp;
use serde::{Deserialize, Deserializer, de};
use socket2::Socket;

use super::arrivals::Arrivals;
use super::datagram::HEADER_BYTES;
use super::pairing::{self, PairedListener, Shape, Waiting as Unpaired};
use super::parameters::{DIRECTION, Parameters, Typed, documented, wrong};
use super::placement::{Placement, WAIT};
use super::ports::PlannedPorts;
use super::socket_options::{BUFFER, SocketOptions};
use crate::parameter::{ParamDoc, Takes};
use crate::workloads::footprint;
use crate::{Listener, LoadError, Offer, Setup, Times, Worker};

mod flow;
mod receiver;
mod sender;
mod worker;

/// `udp_stream` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"udps");
/// Blocking receives return after this long at the latest.
const PATIENCE: Duration = Duration::from_millis(4);
/// What comes while the scheduler lets another run for its slice of 3 ms; the kernel's default
/// holds 0.1 ms, and then the tester's own wake-up is the loss. At 5 M datagrams/s of 1472 B 0.7 %
/// was lost with 8 MiB, none with this, at the same rate.
pub const RECEIVE_BUFFER: Bytes = Bytes(32 << 20);
/// The most messages per `sendmmsg`: UIO_MAXIOV of Linux.
const MAX_BATCH: u32 = 1024;

/// Which way the datagrams go, seen from the active end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flowing {
    #[default]
    Tx,
    Rx,
    Both,
}

/// Datagrams per message handed to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segments {
    Auto,
    Most,
    Number(u32),
}

impl<'de> Deserialize<'de> for Segments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        match value.as_str() {
            Some("auto") => return Ok(Self::Auto),
            Some("most") => return Ok(Self::Most),
            _ => {}
        }
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok()).map(Self::Number);
        number.ok_or_else(|| {
            de::Error::custom(format!(
                "{value} is neither \"auto\", \"most\" nor a number of segments"
            ))
        })
    }
}

/// What is done with a received payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Receive {
    #[default]
    Copy,
    Discard,
}

/// Parameters of `udp_stream`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct UdpStreamParams {
    direction: Flowing,
    datagram_size: Option<Bytes>,
    burst: u32,
    gso: Segments,
    batch: u32,
    gro: bool,
    receive: Receive,
    #[serde(flatten)]
    arrivals: Arrivals,
    #[serde(flatten)]
    placement: Placement,
    #[serde(flatten)]
    planned: PlannedPorts,
    #[serde(flatten)]
    options: SocketOptions,
}

impl Default for UdpStreamParams {
    fn default() -> Self {
        Self {
            direction: Flowing::Tx,
            datagram_size: None,
            burst: 1,
            gso: Segments::Auto,
            // Four 64 KiB messages a call spread its cost and still fit a level 2 cache.
            batch: 4,
            gro: true,
            receive: Receive::Copy,
            arrivals: Arrivals::default(),
            placement: Placement::default(),
            planned: PlannedPorts::NONE,
            options: SocketOptions::default(),
        }
    }
}

const OWN: &[ParamDoc] = &[
    ParamDoc {
        name: "direction",
        takes: DIRECTION,
        default: "\"tx\"",
        meaning: "which way datagrams go, seen from the active end: tx, rx, both",
    },
    ParamDoc {
        name: "datagram_size",
        takes: Takes::Size {
            least: Bytes(HEADER_BYTES as u64),
            most: Bytes(udp::MAX_PAYLOAD_BYTES as u64),
        },
        default: "what fits the path's MTU",
        meaning: "UDP payload, header of 24 B included",
    },
    ParamDoc {
        name: "burst",
        takes: Takes::Count { least: 1, most: MAX_BATCH as u64 },
        default: "1",
        meaning: "datagrams sent back to back, then a gap that keeps the rate; needs a rate",
    },
    ParamDoc {
        name: "gso",
        takes: Takes::CountOrWord {
            least: 0,
            most: udp::MAX_SEGMENTS as u64,
            words: &["auto", "most"],
        },
        default: "\"auto\"",
        meaning: "datagrams per message (UDP_SEGMENT), 0 or 1: off; most: as many as fit; auto: \
            the same, off if there is a rate",
    },
    ParamDoc {
        name: "batch",
        takes: Takes::Count { least: 1, most: MAX_BATCH as u64 },
        default: "4",
        meaning: "messages per sendmmsg",
    },
    ParamDoc {
        name: "gro",
        takes: Takes::Flag,
        default: "true",
        meaning: "receive datagrams that come together as one message (UDP_GRO)",
    },
    ParamDoc {
        name: "receive",
        takes: Takes::Word(&["copy", "discard"]),
        default: "\"copy\"",
        meaning: "copy: the whole payload; discard: only the first header of each message is \
            copied (MSG_TRUNC)",
    },
    ParamDoc {
        name: "rate",
        takes: Takes::Rate,
        default: "as fast as possible",
        meaning: "offered load of each direction, all flows together: L4 payload bits or datagrams \
            per second; or a share of what the path is known to carry, such as \"90 %\"",
    },
    ParamDoc {
        name: "wait",
        takes: WAIT,
        default: "\"block\"",
        meaning: "block: sleep in the kernel, a lone flow's receiver for 50 us at a time while \
            datagrams are many; spin: ask again and again, a CPU per worker",
    },
    ParamDoc {
        name: "receive_buffer",
        takes: BUFFER,
        default: "\"32 MiB\"",
        meaning: "SO_RCVBUF asked for, both ends; socket_buffer comes before this default",
    },
];

impl Parameters for UdpStreamParams {
    fn docs() -> Vec<ParamDoc> {
        documented(OWN, &[Arrivals::DOCS, Placement::DOCS, PlannedPorts::DOCS, SocketOptions::DOCS])
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        self.options.preset_receive_buffer(Some(RECEIVE_BUFFER));
        self.placement.check(self.placement.streams())?;
        self.planned.check(self.placement.streams())?;
        self.arrivals.check()?;
        if self.burst > 1 && (!self.arrivals.is_open() || self.arrivals.poisson) {
            return Err(wrong("burst", "bursts need a rate and no Poisson arrivals"));
        }
        Ok(())
    }
}

/// The `udp_stream` workload.
#[derive(Debug)]
pub(super) struct UdpStream;

impl Typed for UdpStream {
    type Params = UdpStreamParams;
    const NAME: &'static str = "udp_stream";
    const SUMMARY: &'static str = "datagrams at a rate or as fast as possible: datagrams and \
        payload bits delivered per second, loss fully accounted";

    fn packet_of(params: &UdpStreamParams, mtu: Bytes) -> Option<Bytes> {
        // Of IPv4, whose packets are the shorter ones: the ceiling is then the higher one.
        const HEADERS: Bytes = Bytes(28);
        Some(params.datagram_size.map_or(mtu, |payload| payload + HEADERS))
    }

    fn memory_of(params: &UdpStreamParams) -> u64 {
        // Datagrams of a call side by side, and the bits of those that were seen.
        let times = Times { gap: true, ..Times::NONE };
        footprint::of(&params.placement, times, 8 << 20, 128 << 10)
    }

    fn start_passive(
        params: UdpStreamParams,
        setup: &Setup<'_>,
    ) -> Result<Box<dyn Listener>, LoadError> {
        let device = params.options.device(setup.local)?;
        let unpaired =
            Unpaired::listen(setup, device, params.shape(), &params.planned, |socket| {
                params.prepare(socket)
            })?;
        Ok(Box::new(PairedListener { params, unpaired, deal: worker::deal_passive }))
    }

    fn start_active(
        params: UdpStreamParams,
        setup: &Setup<'_>,
        offer: &Offer,
    ) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let device = params.options.device(setup.local)?;
        let paired =
            pairing::connect(setup, offer, device, params.shape(), &params.planned, |socket| {
                params.prepare(socket)
            })?;
        worker::deal_active(&params, setup.secret, paired)
    }
}

impl UdpStreamParams {
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

    fn prepare(&self, socket: &Socket) -> Result<(), LoadError> {
        self.options.set(socket)?;
        udp::count_drops(socket)?;
        if self.gro {
            udp::coalesce(socket)?;
        }
        udp::set_receive_timeout(socket, PATIENCE)?;
        Ok(udp::set_send_timeout(socket, PATIENCE)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::{assert_sound, read};

    #[test]
    fn every_parameter_is_documented_and_every_mistake_is_named() {
        assert_sound::<UdpStreamParams>(&[
            ("gso", json!(129)),
            ("gso", json!("least")),
            ("batch", json!(0)),
            ("datagram_size", json!("23 B")),
            ("datagram_size", json!("65508 B")),
            ("poisson", json!(true)),
            ("burst", json!(0)),
            ("burst", json!(1025)),
            ("burst", json!(2)),
            ("rate", json!("0 pps")),
            ("workers", json!(2)),
            ("source_ports", json!("80,eighty")),
            ("destination_port", json!(9)),
        ]);
        let documented = UdpStreamParams::docs()
            .into_iter()
            .find(|parameter| parameter.name == "receive_buffer");
        let default =
            documented.map(|parameter| serde_json::from_str::<Bytes>(parameter.default).ok());
        let settled = read::<UdpStreamParams>(&linerate_model::Params::default())
            .expect("defaults go together");
        assert_eq!(default, Some(settled.options.receive_buffer));
    }
}
