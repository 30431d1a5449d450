//! `udp_stream`: datagrams as fast as possible or at a rate, each with a 64-bit sequence number.
//! Unit: datagrams and L4 payload bits, counted where they are delivered; loss is split into gap,
//! tail and all against the sender's count (RFC 7680, RFC 4737 for reordering).
//!
//! With segmentation offload one socket message (skb) carries many datagrams: `datagrams_*` counts
//! what goes on the wire, `messages_*` what is handed to and from the socket, `calls_*` the system
//! calls. `gap` has the times between system calls of the sender, not between datagrams on the
//! wire. It does not see where between the two sockets a datagram was lost, one-way delay between
//! hosts, or, when discarding, the order of segments inside a coalesced message.

use std::time::Duration;

use linerate_model::{Arrival, Bytes, ParamError, Side};
use linerate_sys::udp;
use serde_json::Value;
use socket2::Socket;

use super::amount::Amount;
use super::arrivals::{Arrivals, MAX_BURST};
use super::datagram::HEADER_BYTES;
use super::pairing::{self, Paired, PairedParams, Shape};
use super::parameters::{Direction, Parameters, Typed};
use super::placement::{Placement, Waiting};
use super::ports::PlannedPorts;
use super::socket_options::SocketOptions;
use crate::parameter::{Parameter, Reader, Takes, Words};
use crate::workloads::footprint;
use crate::{JobPorts, Listener, Offer, Result, Secret, Setup, Times, Workers};

mod flow;
mod receiver;
mod sender;
mod worker;

/// `udp_stream` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"udps");
/// Longest wait of a blocking receive.
const PATIENCE: Duration = Duration::from_millis(4);
/// Receive buffer for the datagrams that arrive while another thread runs for its slice of 3 ms.
/// The kernel's default holds 0.1 ms, so that the tester's own wake-up would cause the loss. At 5 M
/// datagrams/s of 1472 B, 0.7 % were lost with 8 MiB and none with this.
pub const RECEIVE_BUFFER: Bytes = Bytes(32 << 20);
/// Most messages per `sendmmsg`: UIO_MAXIOV of Linux.
const MAX_BATCH: u32 = MAX_BURST;

/// Datagrams per message handed to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segments {
    Auto,
    Most,
    Number(u32),
}

impl Segments {
    const WORDS: &'static [&'static str] = &["auto", "most"];

    /// Declares `gso`.
    fn declare(reader: &mut Reader<'_>) -> Self {
        let count = Takes::Count { least: 0, most: udp::MAX_SEGMENTS as u64 };
        let parameter = Parameter {
            name: "gso",
            takes: Takes::WordOr(Self::WORDS, Box::new(count)),
            default: "\"auto\"".to_owned(),
            meaning: "datagrams per message (UDP_SEGMENT), 0 or 1: off; most: as many as fit; \
                auto: the same, off if there is a rate",
        };
        reader.value(parameter, Self::read).unwrap_or(Self::Auto)
    }

    fn read(value: &Value) -> Option<Self> {
        match value.as_str() {
            Some("auto") => Some(Self::Auto),
            Some("most") => Some(Self::Most),
            _ => value.as_u64()?.try_into().ok().map(Self::Number),
        }
    }
}

/// How a received payload is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receive {
    Copy,
    Discard,
}

impl Receive {
    const WORDS: Words<Self> = &[("copy", Self::Copy), ("discard", Self::Discard)];
}

/// Parameters of `udp_stream`.
#[derive(Clone, Debug)]
pub(super) struct UdpStreamParams {
    direction: Direction,
    datagram_size: Option<Bytes>,
    burst: u32,
    gso: Segments,
    batch: u32,
    gro: bool,
    receive: Receive,
    arrivals: Arrivals,
    placement: Placement,
    planned: PlannedPorts,
    amount: Amount,
    options: SocketOptions,
}

impl Parameters for UdpStreamParams {
    fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            direction: reader.choice(
                "direction",
                Direction::WORDS,
                Direction::Tx,
                "direction of datagrams, seen from the active end: tx, rx, both",
            ),
            datagram_size: reader.optional_size(
                "datagram_size",
                Bytes(HEADER_BYTES as u64)..=Bytes(udp::MAX_PAYLOAD_BYTES as u64),
                "the largest that the path's MTU takes",
                "UDP payload, header of 24 B included",
            ),
            burst: Arrivals::declare_burst(reader),
            gso: Segments::declare(reader),
            // Four 64 KiB messages a call spread its cost and still fit a level 2 cache.
            batch: reader.count("batch", 1..=u64::from(MAX_BATCH), 4, "messages per sendmmsg"),
            gro: reader.flag(
                "gro",
                true,
                "receive datagrams that arrive together as one message (UDP_GRO)",
            ),
            receive: reader.choice(
                "receive",
                Receive::WORDS,
                Receive::Copy,
                "copy: the whole payload; discard: only the first header of each message is \
                    copied (MSG_TRUNC)",
            ),
            arrivals: Arrivals {
                rate: reader.rate(
                    "rate",
                    "as fast as possible",
                    "offered load of each direction, all flows together: L4 payload bits or \
                        datagrams per second; or a share of the known capacity of the path, such \
                        as \"90 %\"",
                ),
                ..Arrivals::declare(reader)
            },
            placement: Placement {
                wait: Waiting::declare(
                    reader,
                    "block: sleep in the kernel, a lone flow's receiver for 50 us at a time while \
                        datagrams are many; spin: poll, which occupies a CPU per worker",
                ),
                ..Placement::declare(reader)
            },
            options: SocketOptions::declare_with_receive_buffer(
                reader,
                RECEIVE_BUFFER,
                "SO_RCVBUF requested, both ends; socket_buffer takes precedence over this default",
            ),
            amount: Amount::declare(reader),
            planned: PlannedPorts::declare(reader),
        }
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        self.placement.check(self.placement.streams())?;
        self.planned.check(self.placement.streams())?;
        self.amount.check()?;
        self.arrivals.check()?;
        self.arrivals.check_burst(self.burst)
    }
}

/// The `udp_stream` workload.
#[derive(Debug)]
pub(super) struct UdpStream;

impl Typed for UdpStream {
    type Params = UdpStreamParams;
    const NAME: &'static str = "udp_stream";
    const SUMMARY: &'static str = "datagrams at a rate or as fast as possible: datagrams and \
        payload bits delivered per second, with an account of every loss";

    fn packet_of(params: &UdpStreamParams, mtu: Bytes) -> Option<Bytes> {
        // Of IPv4, whose packets are the shorter ones: the ceiling is then the higher one.
        const HEADERS: Bytes = Bytes(28);
        Some(params.datagram_size.map_or(mtu, |payload| payload + HEADERS))
    }

    fn ports_of(params: &UdpStreamParams) -> JobPorts {
        // The agent's is for the companions of the workers, whatever the port of the flows is.
        JobPorts { chosen: params.planned.chosen(), ..JobPorts::AGENT }
    }

    fn memory_of(params: &UdpStreamParams) -> u64 {
        // Datagrams of a call side by side, and the bits of those that were seen.
        let times = Times { gap: true, ..Times::NONE };
        footprint::of(&params.placement, times, 8 << 20, 128 << 10)
    }

    fn start_passive(params: UdpStreamParams, setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        pairing::start_passive(params, setup)
    }

    fn start_active(params: UdpStreamParams, setup: &Setup<'_>, offer: &Offer) -> Result<Workers> {
        pairing::start_active(&params, setup, offer)
    }
}

impl PairedParams for UdpStreamParams {
    fn shape(&self) -> Shape {
        Shape::of(WORKLOAD, &self.placement)
    }

    fn options(&self) -> &SocketOptions {
        &self.options
    }

    fn planned(&self) -> &PlannedPorts {
        &self.planned
    }

    fn prepare(&self, socket: &Socket) -> Result<()> {
        self.options.set(socket)?;
        udp::count_drops(socket)?;
        if self.arrivals.is_open() {
            // Not for floods: a stamp costs the kernel a clock reading for each datagram.
            udp::stamp_arrivals(socket)?;
        }
        if self.gro {
            udp::coalesce(socket)?;
        }
        udp::set_receive_timeout(socket, PATIENCE)?;
        Ok(udp::set_send_timeout(socket, PATIENCE)?)
    }

    fn deal(&self, end: Side, secret: Secret, paired: Paired) -> Result<Workers> {
        worker::deal(self, end, secret, paired)
    }
}

impl UdpStreamParams {
    fn arrival(&self) -> Arrival {
        self.arrivals.arrival_of(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::assert_sound;

    #[test]
    fn every_default_is_used_and_every_mistake_is_named() {
        assert_sound::<UdpStreamParams>(&[
            ("gso", json!(129)),
            ("gso", json!("least")),
            ("batch", json!(0)),
            ("datagram_size", json!("23 B")),
            ("datagram_size", json!("65508 B")),
            ("poisson", json!(true)),
            ("messages", json!(0)),
            ("burst", json!(0)),
            ("burst", json!(1025)),
            ("burst", json!(2)),
            ("rate", json!("0 pps")),
            ("workers", json!(2)),
            ("source_ports", json!("80,eighty")),
            ("destination_port", json!(9)),
        ]);
    }
}
