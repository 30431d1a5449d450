//! `tcp_crr`: connect, request, response, close, again and again. Unit: connections per second, and
//! nanoseconds from before the connection is opened until it is closed (L4, at the active end).
//!
//! Whoever closes first keeps the port pair in TIME_WAIT for a minute (RFC 9293 clause 3.6.1), and
//! an address has some 28 000 ephemeral ports: a client that closes first runs out of them within
//! seconds. That is counted as failed connections and said in the flow's modes, not hidden. Each
//! connection opens with the session's secret (16 bytes), which is part of what is sent but not of
//! `request_size`.
//!
//! `streams` connections are under way at once, dealt to `workers` threads; a flow report is that
//! of a worker. Its TCP state, at the active end, adds up the counters of its connections, each
//! read just before it was closed (so without the segments of the close, and with the
//! retransmissions of its handshake), and has the times of the last one. It is told once, at the
//! end: what is read at each interval is taken to be the state of lasting connections, which these
//! are not. What it does not see: which part of the time was the handshake.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use linerate_model::{Bytes, Nanos, ParamError};
use linerate_sys::SysError;
use serde::Deserialize;
use socket2::{SockRef, Socket};

use super::arrivals::Arrivals;
use super::companion::Companion;
use super::exchange::{Exchange, TIMEOUT};
use super::parameters::{Parameters, Typed, documented};
use super::placement::{Placement, STREAMS};
use super::ports::PlannedPorts;
use super::proof::word;
use super::rendezvous::{self, Hello};
use super::socket_options::SocketOptions;
use super::tcp_options::TcpOptions;
use crate::parameter::{ParamDoc, Takes};
use crate::workloads::footprint;
use crate::{Listener, LoadError, Offer, Permits, Secret, Setup, Times, Worker};

mod client;
mod server;

/// What each measured connection opens with in the clear is made of this; its companion proves the
/// secret.
const WORD: &[u8] = b"tcp_crr";
/// `tcp_crr` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"tcpc");
/// The largest request or response: both are held whole in a socket buffer.
const MOST: Bytes = Bytes(1 << 20);

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
#[serde(default)]
pub(super) struct TcpCrrParams {
    close: Close,
    timeout: Nanos,
    #[serde(flatten)]
    exchange: Exchange,
    #[serde(flatten)]
    arrivals: Arrivals,
    #[serde(flatten)]
    placement: Placement,
    #[serde(flatten)]
    options: TcpOptions,
}

impl Default for TcpCrrParams {
    fn default() -> Self {
        Self {
            close: Close::Client,
            // Longer than one repetition of a lost SYN (RFC 6298: one second).
            timeout: Nanos::from_secs(3),
            exchange: Exchange::default(),
            arrivals: Arrivals::default(),
            placement: Placement::default(),
            options: TcpOptions::default(),
        }
    }
}

const OWN: &[ParamDoc] = &[
    ParamDoc {
        name: "close",
        takes: Takes::Word(&["client", "server", "reset"]),
        default: "\"client\"",
        meaning: "who closes first and keeps TIME_WAIT: client, server; reset: the client aborts, \
            nobody keeps it",
    },
    ParamDoc {
        name: "timeout",
        takes: TIMEOUT,
        default: "\"3 s\"",
        meaning: "a connection that takes longer has failed",
    },
    ParamDoc {
        name: "rate",
        takes: Takes::Rate,
        default: "closed loop",
        meaning: "connections per second, all streams together, such as \"1 kpps\": an open loop",
    },
    ParamDoc {
        name: "streams",
        takes: STREAMS,
        default: "workers",
        meaning: "connections under way at once",
    },
    TcpOptions::NO_DELAY_DOC,
];

impl Parameters for TcpCrrParams {
    fn docs() -> Vec<ParamDoc> {
        let exchange = Exchange::docs(MOST);
        let groups =
            [&exchange, Arrivals::DOCS, Placement::DOCS, TcpOptions::DOCS, SocketOptions::DOCS];
        documented(OWN, &groups)
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        self.options.no_delay.get_or_insert(true);
        // Each worker has one at least.
        self.placement.streams.get_or_insert(self.placement.workers());
        self.placement.check(self.placement.streams())?;
        self.arrivals.check_requests()
    }
}

/// The `tcp_crr` workload.
#[derive(Debug)]
pub(super) struct TcpCrr;

impl Typed for TcpCrr {
    type Params = TcpCrrParams;
    const NAME: &'static str = "tcp_crr";
    const SUMMARY: &'static str =
        "connect, request, response, close: connections per second and their times";

    fn memory_of(params: &TcpCrrParams) -> u64 {
        footprint::of(&params.placement, Times::REQUESTS, 256 << 10, 0)
    }

    fn start_passive(
        params: TcpCrrParams,
        setup: &Setup<'_>,
    ) -> Result<Box<dyn Listener>, LoadError> {
        let device = params.options.socket.device(setup.local)?;
        // Accepted connections inherit what the listener has.
        let prepare = |socket: &Socket| params.options.prepare(socket);
        let listener = rendezvous::listen(rendezvous::any_port(setup.local), device, prepare)?;
        let address = rendezvous::local_address(&SockRef::from(&listener))?;
        Ok(Box::new(TcpCrrListener {
            params,
            listener,
            address,
            secret: setup.secret,
            permits: setup.permits.clone(),
        }))
    }

    fn start_active(
        params: TcpCrrParams,
        setup: &Setup<'_>,
        offer: &Offer,
    ) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let address = rendezvous::only_address(offer)?;
        let device = params.options.socket.device(setup.local)?;
        let hello = Hello {
            secret: setup.secret,
            workload: WORKLOAD,
            index: 0,
            count: params.placement.workers(),
        };
        // Companions carry no load: none of the options concerns them.
        let streams =
            rendezvous::connect_all(setup, offer, device, hello, &PlannedPorts::NONE, |_| Ok(()))?;
        let mut workers: Vec<Box<dyn Worker>> = Vec::new();
        for (number, stream) in (0_u32..).zip(streams) {
            let companion = Companion::new(stream)?;
            workers.push(client::worker(&params, number, setup, address, companion)?);
        }
        Ok(workers)
    }
}

#[derive(Debug)]
struct TcpCrrListener {
    params: TcpCrrParams,
    listener: TcpListener,
    address: SocketAddr,
    secret: Secret,
    permits: Permits,
}

impl Listener for TcpCrrListener {
    fn offer(&self) -> Offer {
        Offer { addresses: vec![self.address] }
    }

    fn accept(self: Box<Self>, patience: Duration) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let expected = Hello {
            secret: self.secret,
            workload: WORKLOAD,
            index: 0,
            count: self.params.placement.workers(),
        };
        let arrivals = rendezvous::accept(&self.listener, expected, &self.permits, patience)?;
        let error = |cause| SysError::new("share the listener on", self.address.to_string(), cause);
        self.listener.set_nonblocking(true).map_err(error)?;
        let mut foreign = arrivals.foreign;
        let mut workers: Vec<Box<dyn Worker>> = Vec::new();
        arrivals.give_go_ahead()?;
        for (number, stream) in (0_u32..).zip(arrivals.streams) {
            let listener = self.listener.try_clone().map_err(error)?;
            let companion = Companion::new(stream)?;
            let foreign = std::mem::take(&mut foreign);
            workers.push(server::worker(
                &self.params,
                number,
                listener,
                word(self.secret, WORD),
                companion,
                foreign,
            )?);
        }
        Ok(workers)
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Params;
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::{assert_sound, read};

    #[test]
    fn every_parameter_is_documented_and_every_mistake_is_named() {
        assert_sound::<TcpCrrParams>(&[
            ("workers", json!(0)),
            ("close", json!("both")),
            ("response_size", json!("2 MiB")),
            ("poisson", json!(true)),
            ("timeout", json!("1 us")),
            ("dscp", json!(64)),
        ]);
    }

    #[test]
    fn every_worker_has_a_stream_unless_fewer_are_asked_for() {
        let streams = |table| {
            let params: Params = serde_json::from_value(table).expect("a table");
            read::<TcpCrrParams>(&params).map(|params| params.placement.streams())
        };
        assert_eq!(streams(json!({ "workers": 3 })).expect("legal"), 3);
        assert_eq!(streams(json!({ "workers": 3, "streams": 8 })).expect("legal"), 8);
        assert_eq!(
            streams(json!({ "workers": 3, "streams": 2 })).expect_err("one has none")[0].key,
            "workers"
        );
    }
}
