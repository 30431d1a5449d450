//! `udp_stream`: datagrams as fast as possible or at a rate, each with a 64-bit sequence number. Unit: datagrams and L4
//! payload bits, counted where they are delivered; loss is split into gap, tail and all against the sender's count
//! (RFC 7680, RFC 4737 for reordering).
//!
//! With segmentation offload one socket message (skb) carries many datagrams: `datagrams_*` counts what goes on the wire,
//! `messages_*` what is handed to and from the socket, `calls_*` the system calls. `gap` holds the times between departures
//! of system calls as the sender made them, not as the wire saw them. What it does not see: where between the two sockets a
//! datagram was lost, one-way delay between hosts, and the order of segments inside a coalesced message when discarding.

use std::num::NonZeroU32;
use std::time::Duration;

use linerate_model::{Arrival, Bytes, ParamError, Params};
use linerate_sys::udp;
use serde::{Deserialize, Deserializer, de};
use socket2::Socket;

use super::datagram::HEADER_BYTES;
use super::pairing::{self, Shape, Waiting as Unpaired};
use super::quantities::{
    BUFFER, DEVICE, DIRECTION, DSCP, Rate, STREAMS, WAIT, WORKERS, Waiting, check_common, random, wrong,
};
use super::socket_options::{Wanted, device};
use crate::parameter::{self, ParamDoc, Takes};
use crate::{Listener, LoadError, Offer, Setup, Worker, Workload};

mod receiver;
mod sender;
mod worker;

/// `udp_stream` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"udps");
/// Blocking receives return after this long at the latest.
const PATIENCE: Duration = Duration::from_millis(4);
/// What comes while the scheduler lets another run for its slice of 3 ms; the kernel's default holds 0.1 ms, and then the
/// tester's own wake-up is the loss. At 5 M datagrams/s of 1472 B 0.7 % was lost with 8 MiB, none with this, at the same rate.
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
        number
            .ok_or_else(|| de::Error::custom(format!("{value} is neither \"auto\", \"most\" nor a number of segments")))
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
#[serde(deny_unknown_fields, default)]
struct UdpStreamParams {
    direction: Flowing,
    streams: u32,
    workers: u32,
    datagram_size: Option<Bytes>,
    rate: Option<Rate>,
    poisson: bool,
    burst: u32,
    gso: Segments,
    batch: u32,
    gro: bool,
    receive: Receive,
    wait: Waiting,
    send_buffer: Option<Bytes>,
    receive_buffer: Option<Bytes>,
    dscp: Option<u8>,
    device: Option<String>,
}

impl Default for UdpStreamParams {
    fn default() -> Self {
        Self {
            direction: Flowing::Tx,
            streams: 1,
            workers: 1,
            datagram_size: None,
            rate: None,
            poisson: false,
            burst: 1,
            gso: Segments::Auto,
            // Four 64 KiB messages a call spread its cost and still fit a level 2 cache.
            batch: 4,
            gro: true,
            receive: Receive::Copy,
            wait: Waiting::Block,
            send_buffer: None,
            receive_buffer: Some(RECEIVE_BUFFER),
            dscp: None,
            device: None,
        }
    }
}

const PARAMETERS: &[ParamDoc] = &[
    ParamDoc {
        name: "direction",
        takes: DIRECTION,
        default: "\"tx\"",
        meaning: "which way datagrams go, seen from the active end: tx, rx, both",
    },
    ParamDoc { name: "streams", takes: STREAMS, default: "1", meaning: "flows, each on its own pair of sockets" },
    ParamDoc {
        name: "workers",
        takes: WORKERS,
        default: "1",
        meaning: "threads at each end; flow f is carried by worker f mod workers",
    },
    ParamDoc {
        name: "datagram_size",
        takes: Takes::Size { least: Bytes(HEADER_BYTES as u64), most: Bytes(udp::MAX_PAYLOAD_BYTES as u64) },
        default: "what fits the path's MTU",
        meaning: "UDP payload, header of 24 B included",
    },
    ParamDoc {
        name: "rate",
        takes: Takes::Rate,
        default: "as fast as possible",
        meaning: "offered load of each direction, all flows together: L4 payload bits or datagrams per second",
    },
    ParamDoc {
        name: "poisson",
        takes: Takes::Flag,
        default: "false",
        meaning: "exponential gaps instead of constant ones; needs a rate",
    },
    ParamDoc {
        name: "burst",
        takes: Takes::Count { least: 1, most: MAX_BATCH as u64 },
        default: "1",
        meaning: "datagrams sent back to back, then a gap that keeps the rate; needs a rate",
    },
    ParamDoc {
        name: "gso",
        takes: Takes::CountOrWord { least: 0, most: udp::MAX_SEGMENTS as u64, words: &["auto", "most"] },
        default: "\"auto\"",
        meaning: "datagrams per message (UDP_SEGMENT), 0 or 1: off; most: as many as fit; auto: the same, off if there is a rate",
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
        meaning: "copy: the whole payload; discard: only the first header of each message is copied (MSG_TRUNC)",
    },
    ParamDoc {
        name: "wait",
        takes: WAIT,
        default: "\"block\"",
        meaning: "block: sleep in the kernel, a lone flow's receiver for 50 us at a time while datagrams are many; spin: ask again and again, a CPU per worker",
    },
    ParamDoc { name: "send_buffer", takes: BUFFER, default: "the kernel's", meaning: "SO_SNDBUF asked for" },
    ParamDoc { name: "receive_buffer", takes: BUFFER, default: "\"32 MiB\"", meaning: "SO_RCVBUF asked for" },
    ParamDoc { name: "dscp", takes: DSCP, default: "the kernel's", meaning: "differentiated services code point" },
    ParamDoc {
        name: "device",
        takes: DEVICE,
        default: "none",
        meaning: "interface to bind to; \"endpoint\" is each end's own",
    },
];

/// The `udp_stream` workload.
#[derive(Debug)]
pub(super) struct UdpStream;

impl Workload for UdpStream {
    fn name(&self) -> &'static str {
        "udp_stream"
    }

    fn summary(&self) -> &'static str {
        "datagrams at a rate or as fast as possible: datagrams and payload bits delivered per second, loss fully accounted"
    }

    fn parameters(&self) -> &'static [ParamDoc] {
        PARAMETERS
    }

    fn check(&self, params: &Params) -> Vec<ParamError> {
        params_of(params).err().unwrap_or_default()
    }

    fn listen(&self, setup: &Setup<'_>) -> Result<Box<dyn Listener>, LoadError> {
        let params = params_of(setup.params)?;
        let unpaired = Unpaired::listen(setup, device(&params.device, setup.local)?, params.shape(), |socket| {
            params.prepare(socket)
        })?;
        Ok(Box::new(UdpStreamListener { params, unpaired, secret: setup.secret }))
    }

    fn connect(&self, setup: &Setup<'_>, offer: &Offer) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let params = params_of(setup.params)?;
        let paired = pairing::connect(setup, offer, device(&params.device, setup.local)?, params.shape(), |socket| {
            params.prepare(socket)
        })?;
        worker::deal(&params, worker::End::Active, setup.secret, paired)
    }
}

impl UdpStreamParams {
    /// Whether they go together.
    fn agree(&self) -> Result<(), ParamError> {
        check_common(self.streams, self.workers, self.rate, self.poisson)?;
        if self.burst > 1 && (self.rate.is_none() || self.poisson) {
            return Err(wrong("burst", "bursts need a rate and no Poisson arrivals"));
        }
        Ok(())
    }

    fn shape(&self) -> Shape {
        Shape { workload: WORKLOAD, workers: self.workers, flows: self.streams }
    }

    fn arrival(&self) -> Arrival {
        match NonZeroU32::new(self.burst) {
            Some(burst) if self.burst > 1 => Arrival::Burst(burst),
            _ => random(self.poisson),
        }
    }

    fn wanted(&self) -> Wanted {
        Wanted { send_buffer: self.send_buffer, receive_buffer: self.receive_buffer, dscp: self.dscp }
    }

    fn prepare(&self, socket: &Socket) -> Result<(), LoadError> {
        self.wanted().set(socket)?;
        udp::count_drops(socket)?;
        if self.gro {
            udp::coalesce(socket)?;
        }
        udp::set_receive_timeout(socket, PATIENCE)?;
        Ok(udp::set_send_timeout(socket, PATIENCE)?)
    }
}

fn params_of(params: &Params) -> Result<UdpStreamParams, Vec<ParamError>> {
    parameter::read(params, PARAMETERS, UdpStreamParams::agree)
}

#[derive(Debug)]
struct UdpStreamListener {
    params: UdpStreamParams,
    unpaired: Unpaired,
    secret: crate::Secret,
}

impl Listener for UdpStreamListener {
    fn offer(&self) -> Offer {
        self.unpaired.offer()
    }

    fn accept(self: Box<Self>, patience: Duration) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let paired = self.unpaired.accept(patience)?;
        worker::deal(&self.params, worker::End::Passive, self.secret, paired)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_parameter_is_documented_and_every_mistake_is_named() {
        for parameter in PARAMETERS {
            let mut params = Params::default();
            params.set(parameter.name, json!({}));
            assert_eq!(UdpStream.check(&params)[0].key, parameter.name);
        }
        for (key, value) in [
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
        ] {
            let mut params = Params::default();
            params.set(key, value);
            assert_eq!(UdpStream.check(&params)[0].key, key);
        }
        assert!(UdpStream.check(&Params::default()).is_empty());
        let documented = PARAMETERS.iter().find(|parameter| parameter.name == "receive_buffer").expect("it is one");
        assert_eq!(serde_json::from_str::<Bytes>(documented.default).ok(), UdpStreamParams::default().receive_buffer);
    }
}
