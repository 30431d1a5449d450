//! `udp_rr`: requests and responses in single datagrams. Unit: transactions per second, and nanoseconds from the start of a
//! request to its response (L4, at the active end).
//!
//! Every request bears a number that its response repeats, so a late response is counted as late and never taken for that of
//! the next request. A request without response after `timeout` is lost: its time is infinite (RFC 7679 clause 4.2.4),
//! and the next one starts. `service` counts from the actual start, `response` from the intended one. Datagrams shorter than
//! 16 bytes hold only part of number and tag: one byte holds 8 bits of the number and no tag. What it does not see: which
//! way a request was lost, and the wire.

use std::time::Duration;

use linerate_model::{Bytes, Nanos, ParamError, Params};
use linerate_sys::udp;
use serde::Deserialize;
use socket2::Socket;

use super::datagram::label_bits;
use super::pairing::{self, Paired, Shape, Waiting as Unpaired};
use super::quantities::{BUFFER, DEVICE, DSCP, Rate, STREAMS, TIMEOUT, WAIT, WORKERS, Waiting, check_common, wrong};
use super::socket_options::{Wanted, device};
use crate::parameter::{self, ParamDoc, Takes};
use crate::{Listener, LoadError, Offer, Secret, Setup, Worker, Workload};

mod client;
mod flow;
mod server;

/// `udp_rr` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"udpr");
/// Blocking receives return after this long at the latest.
const PATIENCE: Duration = Duration::from_millis(4);
/// The most requests outstanding on a flow.
const MAX_DEPTH: u32 = 65_536;
/// What one datagram carries.
const PAYLOAD: Takes = Takes::Size { least: Bytes(1), most: Bytes(udp::MAX_PAYLOAD_BYTES as u64) };

/// Parameters of `udp_rr`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UdpRrParams {
    request_size: Bytes,
    response_size: Bytes,
    depth: u32,
    streams: u32,
    workers: u32,
    rate: Option<Rate>,
    poisson: bool,
    wait: Waiting,
    timeout: Nanos,
    socket_buffer: Option<Bytes>,
    dscp: Option<u8>,
    device: Option<String>,
}

impl Default for UdpRrParams {
    fn default() -> Self {
        Self {
            request_size: Bytes(1),
            response_size: Bytes(1),
            depth: 1,
            streams: 1,
            workers: 1,
            rate: None,
            poisson: false,
            wait: Waiting::Block,
            // Longer than any queue on a path anybody would use.
            timeout: Nanos::from_secs(1),
            socket_buffer: None,
            dscp: None,
            device: None,
        }
    }
}

const PARAMETERS: &[ParamDoc] = &[
    ParamDoc { name: "request_size", takes: PAYLOAD, default: "\"1 B\"", meaning: "UDP payload of a request" },
    ParamDoc { name: "response_size", takes: PAYLOAD, default: "\"1 B\"", meaning: "UDP payload of a response" },
    ParamDoc {
        name: "depth",
        takes: Takes::Count { least: 1, most: MAX_DEPTH as u64 },
        default: "1",
        meaning: "requests outstanding on each flow; to 128 with 1 or 2 byte datagrams, whose numbers are short",
    },
    ParamDoc { name: "streams", takes: STREAMS, default: "1", meaning: "flows, each on its own pair of sockets" },
    ParamDoc {
        name: "workers",
        takes: WORKERS,
        default: "1",
        meaning: "threads at each end; flow f is carried by worker f mod workers",
    },
    ParamDoc {
        name: "rate",
        takes: Takes::Rate,
        default: "closed loop",
        meaning: "requests per second, all flows together, such as \"10 kpps\": an open loop, at most depth outstanding",
    },
    ParamDoc {
        name: "poisson",
        takes: Takes::Flag,
        default: "false",
        meaning: "exponential gaps instead of constant ones; needs a rate",
    },
    ParamDoc {
        name: "wait",
        takes: WAIT,
        default: "\"block\"",
        meaning: "block: sleep in the kernel, the wake-up is measured; spin: ask again and again, a CPU per worker",
    },
    ParamDoc {
        name: "timeout",
        takes: TIMEOUT,
        default: "\"1 s\"",
        meaning: "a request without response after this is lost",
    },
    ParamDoc {
        name: "socket_buffer",
        takes: BUFFER,
        default: "the kernel's",
        meaning: "SO_SNDBUF and SO_RCVBUF asked for",
    },
    ParamDoc { name: "dscp", takes: DSCP, default: "the kernel's", meaning: "differentiated services code point" },
    ParamDoc {
        name: "device",
        takes: DEVICE,
        default: "none",
        meaning: "interface to bind to; \"endpoint\" is each end's own",
    },
];

/// The `udp_rr` workload.
#[derive(Debug)]
pub(super) struct UdpRr;

impl Workload for UdpRr {
    fn name(&self) -> &'static str {
        "udp_rr"
    }

    fn summary(&self) -> &'static str {
        "requests and responses in single datagrams: transactions per second, their times, and what was lost"
    }

    fn parameters(&self) -> &'static [ParamDoc] {
        PARAMETERS
    }

    fn check(&self, params: &Params) -> Vec<ParamError> {
        params_of(params).err().unwrap_or_default()
    }

    fn listen(&self, setup: &Setup<'_>) -> Result<Box<dyn Listener>, LoadError> {
        let params = params_of(setup.params)?;
        let device = device(&params.device, setup.local)?;
        let unpaired = Unpaired::listen(setup, device, params.shape(), |socket| params.prepare(socket))?;
        Ok(Box::new(UdpRrListener { params, unpaired, secret: setup.secret }))
    }

    fn connect(&self, setup: &Setup<'_>, offer: &Offer) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let params = params_of(setup.params)?;
        let device = device(&params.device, setup.local)?;
        let paired = pairing::connect(setup, offer, device, params.shape(), |socket| params.prepare(socket))?;
        client::deal(&params, setup.secret, paired)
    }
}

impl UdpRrParams {
    /// Whether they go together.
    fn agree(&self) -> Result<(), ParamError> {
        check_common(self.streams, self.workers, self.rate, self.poisson)?;
        // Half of the numbers at least tell apart the requests of one place in the window.
        let distinct = 1_u64 << (self.number_bits() - 1).min(u32::from(u16::BITS as u16));
        if u64::from(self.depth) > distinct {
            let cause =
                format!("{} requests outstanding need longer datagrams: at most {distinct} with these", self.depth);
            return Err(wrong("depth", cause));
        }
        Ok(())
    }

    fn shape(&self) -> Shape {
        Shape { workload: WORKLOAD, workers: self.workers, flows: self.streams }
    }

    fn wanted(&self) -> Wanted {
        Wanted { send_buffer: self.socket_buffer, receive_buffer: self.socket_buffer, dscp: self.dscp }
    }

    fn prepare(&self, socket: &Socket) -> Result<(), LoadError> {
        self.wanted().set(socket)?;
        udp::set_receive_timeout(socket, PATIENCE)?;
        Ok(udp::set_send_timeout(socket, PATIENCE)?)
    }

    /// Bits of a request's number that come back.
    fn number_bits(&self) -> u32 {
        label_bits(self.request_size.0.min(self.response_size.0) as usize)
    }

    /// Whether a worker with `own` flows waits in its own calls.
    fn alone(&self, own: usize, open: bool) -> bool {
        own == 1 && self.wait == Waiting::Block && !open
    }
}

fn params_of(params: &Params) -> Result<UdpRrParams, Vec<ParamError>> {
    parameter::read(params, PARAMETERS, UdpRrParams::agree)
}

#[derive(Debug)]
struct UdpRrListener {
    params: UdpRrParams,
    unpaired: Unpaired,
    secret: Secret,
}

impl Listener for UdpRrListener {
    fn offer(&self) -> Offer {
        self.unpaired.offer()
    }

    fn accept(self: Box<Self>, patience: Duration) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let paired: Paired = self.unpaired.accept(patience)?;
        server::deal(&self.params, self.secret, paired)
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
            assert_eq!(UdpRr.check(&params)[0].key, parameter.name);
        }
        for (key, value) in [
            ("depth", json!(129)),
            ("request_size", json!("0 B")),
            ("poisson", json!(true)),
            ("timeout", json!("1 us")),
        ] {
            let mut params = Params::default();
            params.set(key, value);
            assert_eq!(UdpRr.check(&params)[0].key, key);
        }
        let mut deep = Params::default();
        for (key, value) in [("request_size", "16 B"), ("response_size", "16 B")] {
            deep.set(key, value);
        }
        deep.set("depth", MAX_DEPTH);
        assert!(UdpRr.check(&deep).is_empty() && UdpRr.check(&Params::default()).is_empty());
    }
}
