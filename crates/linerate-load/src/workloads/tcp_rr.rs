//! `tcp_rr`: requests and responses on connections that stay open. Unit: transactions per second, and nanoseconds from the
//! start of a request to the last byte of its response (L4, at the active end).
//!
//! `service` counts from when the request was written, `response` from when it was *meant* to be (methodology 4.3): under
//! an open load a stall delays the requests behind it, and they say so. A connection cut off loses what was outstanding on
//! it. What it does not see: the wire; with `depth` above 1 also the time a request waited behind others in the same flow.

use std::net::TcpListener;
use std::time::Duration;

use linerate_model::{Bytes, ParamError, Params};
use serde::Deserialize;

use super::byte_flow::FlowOptions;
use super::quantities::{BUFFER, CONGESTION, DEVICE, DSCP, Rate, STREAMS, WAIT, WORKERS, Waiting, check_common};
use super::rendezvous::{self, Hello};
use super::socket_options::device;
use crate::parameter::{self, ParamDoc, Takes};
use crate::{Listener, LoadError, Offer, Secret, Setup, Worker, Workload};

mod client;
mod server;

/// `tcp_rr` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"tcpr");
/// A request or response.
const MESSAGE: Takes = Takes::Size { least: Bytes(1), most: Bytes(1 << 30) };
/// The most requests outstanding on a flow.
const MAX_DEPTH: u32 = 65_536;

/// Parameters of `tcp_rr`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TcpRrParams {
    request_size: Bytes,
    response_size: Bytes,
    depth: u32,
    streams: u32,
    workers: u32,
    rate: Option<Rate>,
    poisson: bool,
    wait: Waiting,
    no_delay: bool,
    congestion: String,
    socket_buffer: Option<Bytes>,
    dscp: Option<u8>,
    device: Option<String>,
}

impl Default for TcpRrParams {
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
            no_delay: true,
            congestion: "cubic".to_owned(),
            socket_buffer: None,
            dscp: None,
            device: None,
        }
    }
}

const PARAMETERS: &[ParamDoc] = &[
    ParamDoc { name: "request_size", takes: MESSAGE, default: "\"1 B\"", meaning: "bytes of a request" },
    ParamDoc { name: "response_size", takes: MESSAGE, default: "\"1 B\"", meaning: "bytes of a response" },
    ParamDoc {
        name: "depth",
        takes: Takes::Count { least: 1, most: MAX_DEPTH as u64 },
        default: "1",
        meaning: "requests outstanding on each flow, pipelined",
    },
    ParamDoc { name: "streams", takes: STREAMS, default: "1", meaning: "connections" },
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
        name: "no_delay",
        takes: Takes::Flag,
        default: "true",
        meaning: "TCP_NODELAY: no Nagle delay of small requests",
    },
    ParamDoc {
        name: "congestion",
        takes: CONGESTION,
        default: "\"cubic\"",
        meaning: "congestion control at both ends",
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

/// The `tcp_rr` workload.
#[derive(Debug)]
pub(super) struct TcpRr;

impl Workload for TcpRr {
    fn name(&self) -> &'static str {
        "tcp_rr"
    }

    fn summary(&self) -> &'static str {
        "requests and responses on open TCP connections: transactions per second and their times"
    }

    fn parameters(&self) -> &'static [ParamDoc] {
        PARAMETERS
    }

    fn check(&self, params: &Params) -> Vec<ParamError> {
        params_of(params).err().unwrap_or_default()
    }

    fn listen(&self, setup: &Setup<'_>) -> Result<Box<dyn Listener>, LoadError> {
        let params = params_of(setup.params)?;
        let options = params.options();
        let device = device(&params.device, setup.local)?;
        let listener = rendezvous::listen(rendezvous::local_ip(setup.local), device, |socket| options.prepare(socket))?;
        let address = rendezvous::local_address(&socket2::SockRef::from(&listener))?;
        let offer = Offer { addresses: vec![address] };
        Ok(Box::new(TcpRrListener { params, listener, offer, secret: setup.secret }))
    }

    fn connect(&self, setup: &Setup<'_>, offer: &Offer) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let params = params_of(setup.params)?;
        let options = params.options();
        let address = rendezvous::first_address(offer)?;
        let device = device(&params.device, setup.local)?;
        let mut streams = Vec::new();
        for index in 0..params.streams {
            let hello = Hello { secret: setup.secret, workload: WORKLOAD, index, count: params.streams };
            let prepare = |socket: &socket2::Socket| options.prepare(socket);
            streams.push(rendezvous::connect(address, setup.local, device, hello, setup.patience, prepare)?);
        }
        rendezvous::take_every_go_ahead(&streams, setup.patience)?;
        client::deal(&params, streams)
    }
}

impl TcpRrParams {
    /// Whether they go together.
    fn agree(&self) -> Result<(), ParamError> {
        check_common(self.streams, self.workers, self.rate, self.poisson)
    }

    fn options(&self) -> FlowOptions {
        FlowOptions {
            socket_buffer: self.socket_buffer,
            dscp: self.dscp,
            no_delay: self.no_delay,
            congestion: self.congestion.clone(),
        }
    }

    /// Flows dealt to workers, in turn.
    fn shares<T>(&self, flows: Vec<T>) -> Vec<Vec<(u32, T)>> {
        let mut shares: Vec<Vec<(u32, T)>> = (0..self.workers).map(|_| Vec::new()).collect();
        for (number, flow) in (0_u32..).zip(flows) {
            shares[(number % self.workers) as usize].push((number, flow));
        }
        shares
    }
}

fn params_of(params: &Params) -> Result<TcpRrParams, Vec<ParamError>> {
    parameter::read(params, PARAMETERS, TcpRrParams::agree)
}

#[derive(Debug)]
struct TcpRrListener {
    params: TcpRrParams,
    listener: TcpListener,
    offer: Offer,
    secret: Secret,
}

impl Listener for TcpRrListener {
    fn offer(&self) -> Offer {
        self.offer.clone()
    }

    fn accept(self: Box<Self>, patience: Duration) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let expected = Hello { secret: self.secret, workload: WORKLOAD, index: 0, count: self.params.streams };
        let arrivals = rendezvous::accept(&self.listener, expected, patience)?;
        rendezvous::give_go_ahead(&arrivals.streams)?;
        server::deal(&self.params, arrivals)
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
            assert_eq!(TcpRr.check(&params)[0].key, parameter.name);
        }
        for (key, value) in
            [("depth", json!(0)), ("request_size", json!("0 B")), ("poisson", json!(true)), ("streams", json!(0))]
        {
            let mut params = Params::default();
            params.set(key, value);
            assert_eq!(TcpRr.check(&params)[0].key, key);
        }
        assert!(TcpRr.check(&Params::default()).is_empty());
    }
}
