//! `tcp_crr`: connect, request, response, close, again and again. Unit: connections per second, and nanoseconds from before
//! the connection is opened until it is closed (L4, at the active end).
//!
//! Whoever closes first keeps the port pair in TIME_WAIT for a minute (RFC 9293 clause 3.6.1), and an address has some
//! 28 000 ephemeral ports: a client that closes first runs out of them within seconds. That is counted as failed
//! connections and said in the flow's modes, not hidden. Each connection opens with the session's secret (16 bytes), which
//! is part of what is sent but not of `request_size`. What it does not see: which part of the time was the handshake.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use linerate_model::{Bytes, Nanos, ParamError, Params};
use linerate_sys::SysError;
use serde::Deserialize;
use socket2::Socket;

use super::companion::Companion;
use super::quantities::{CONGESTION, DEVICE, Rate, TIMEOUT, WAIT, WORKERS, Waiting, check_common};
use super::rendezvous::{self, Hello};
use super::socket_options::{device, set_congestion};
use crate::parameter::{self, ParamDoc, Takes};
use crate::{Listener, LoadError, Offer, Secret, Setup, Worker, Workload};

mod client;
mod server;

/// `tcp_crr` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"tcpc");
/// A request or response: both are held whole in a socket buffer.
const MESSAGE: Takes = Takes::Size { least: Bytes(1), most: Bytes(1 << 20) };

/// Who closes a connection first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Close {
    #[default]
    Client,
    Server,
    Reset,
}

/// Parameters of `tcp_crr`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TcpCrrParams {
    request_size: Bytes,
    response_size: Bytes,
    workers: u32,
    close: Close,
    rate: Option<Rate>,
    poisson: bool,
    wait: Waiting,
    timeout: Nanos,
    congestion: String,
    device: Option<String>,
}

impl Default for TcpCrrParams {
    fn default() -> Self {
        Self {
            request_size: Bytes(1),
            response_size: Bytes(1),
            workers: 1,
            close: Close::Client,
            rate: None,
            poisson: false,
            wait: Waiting::Block,
            // Longer than one repetition of a lost SYN (RFC 6298: one second).
            timeout: Nanos::from_secs(3),
            // Explicit, as in every workload over TCP: hosts' defaults differ.
            congestion: "cubic".to_owned(),
            device: None,
        }
    }
}

const PARAMETERS: &[ParamDoc] = &[
    ParamDoc {
        name: "request_size",
        takes: MESSAGE,
        default: "\"1 B\"",
        meaning: "bytes of a request, the secret not counted",
    },
    ParamDoc { name: "response_size", takes: MESSAGE, default: "\"1 B\"", meaning: "bytes of a response" },
    ParamDoc {
        name: "workers",
        takes: WORKERS,
        default: "1",
        meaning: "threads at each end; each active one has one connection at a time",
    },
    ParamDoc {
        name: "close",
        takes: Takes::Word(&["client", "server", "reset"]),
        default: "\"client\"",
        meaning: "who closes first and keeps TIME_WAIT: client, server; reset: the client aborts, nobody keeps it",
    },
    ParamDoc {
        name: "rate",
        takes: Takes::Rate,
        default: "closed loop",
        meaning: "connections per second, all workers together, such as \"1 kpps\": an open loop",
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
        meaning: "block: sleep in the kernel; spin: ask again and again",
    },
    ParamDoc {
        name: "timeout",
        takes: TIMEOUT,
        default: "\"3 s\"",
        meaning: "a connection that takes longer has failed",
    },
    ParamDoc {
        name: "congestion",
        takes: CONGESTION,
        default: "\"cubic\"",
        meaning: "congestion control at both ends",
    },
    ParamDoc {
        name: "device",
        takes: DEVICE,
        default: "none",
        meaning: "interface to bind to; \"endpoint\" is each end's own",
    },
];

/// The `tcp_crr` workload.
#[derive(Debug)]
pub(super) struct TcpCrr;

impl Workload for TcpCrr {
    fn name(&self) -> &'static str {
        "tcp_crr"
    }

    fn summary(&self) -> &'static str {
        "connect, request, response, close: connections per second and their times"
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
        let listener = rendezvous::listen(rendezvous::local_ip(setup.local), device, |socket| {
            // Accepted connections inherit it.
            set_congestion(socket, &params.congestion)
        })?;
        let address = rendezvous::local_address(&socket2::SockRef::from(&listener))?;
        Ok(Box::new(TcpCrrListener { params, listener, address, secret: setup.secret }))
    }

    fn connect(&self, setup: &Setup<'_>, offer: &Offer) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let params = params_of(setup.params)?;
        let address = rendezvous::first_address(offer)?;
        let interface = device(&params.device, setup.local)?;
        let mut streams = Vec::new();
        for index in 0..params.workers {
            let hello = Hello { secret: setup.secret, workload: WORKLOAD, index, count: params.workers };
            let prepare = |socket: &Socket| set_congestion(socket, &params.congestion);
            streams.push(rendezvous::connect(address, setup.local, interface, hello, setup.patience, prepare)?);
        }
        rendezvous::take_every_go_ahead(&streams, setup.patience)?;
        let mut workers: Vec<Box<dyn Worker>> = Vec::new();
        for (number, stream) in (0_u32..).zip(streams) {
            let companion = Companion::new(stream)?;
            workers.push(client::worker(&params, number, setup, address, companion)?);
        }
        Ok(workers)
    }
}

impl TcpCrrParams {
    /// Whether they go together.
    fn agree(&self) -> Result<(), ParamError> {
        check_common(self.workers, self.workers, self.rate, self.poisson)
    }
}

fn params_of(params: &Params) -> Result<TcpCrrParams, Vec<ParamError>> {
    parameter::read(params, PARAMETERS, TcpCrrParams::agree)
}

#[derive(Debug)]
struct TcpCrrListener {
    params: TcpCrrParams,
    listener: TcpListener,
    address: SocketAddr,
    secret: Secret,
}

impl Listener for TcpCrrListener {
    fn offer(&self) -> Offer {
        Offer { addresses: vec![self.address] }
    }

    fn accept(self: Box<Self>, patience: Duration) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let expected = Hello { secret: self.secret, workload: WORKLOAD, index: 0, count: self.params.workers };
        let arrivals = rendezvous::accept(&self.listener, expected, patience)?;
        let error = |cause| SysError::new("share the listener on", self.address.to_string(), cause);
        self.listener.set_nonblocking(true).map_err(error)?;
        let mut foreign = arrivals.foreign;
        let mut workers: Vec<Box<dyn Worker>> = Vec::new();
        rendezvous::give_go_ahead(&arrivals.streams)?;
        for (number, stream) in (0_u32..).zip(arrivals.streams) {
            let listener = self.listener.try_clone().map_err(error)?;
            let companion = Companion::new(stream)?;
            let foreign = std::mem::take(&mut foreign);
            workers.push(server::worker(&self.params, number, listener, self.secret, companion, foreign)?);
        }
        Ok(workers)
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
            assert_eq!(TcpCrr.check(&params)[0].key, parameter.name);
        }
        for (key, value) in [("workers", json!(0)), ("close", json!("both")), ("response_size", json!("2 MiB"))] {
            let mut params = Params::default();
            params.set(key, value);
            assert_eq!(TcpCrr.check(&params)[0].key, key);
        }
        assert!(TcpCrr.check(&Params::default()).is_empty());
    }
}
