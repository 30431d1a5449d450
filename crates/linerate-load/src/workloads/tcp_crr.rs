//! `tcp_crr`: connect, request, response, close, again and again. Unit: connections per second, and
//! nanoseconds from before the connection is opened until it is closed (L4, at the active end).
//!
//! The side that closes first keeps the port pair in TIME_WAIT for a minute (RFC 9293 clause
//! 3.6.1), and an address has some 28 000 ephemeral ports: a client that closes first runs out of
//! them within seconds. These connections count as failed, and the flow's modes name the cause.
//! Each connection opens with the session's secret (16 bytes), which is part of what is sent but
//! not of `request_size`.
//!
//! `streams` connections are under way at once, dealt to `workers` threads; each worker has one
//! flow report. Its TCP state, at the active end, sums the counters of its connections and has the
//! times of the last one. Each connection is read just before it is closed, so the sum includes
//! retransmissions of handshakes but no segments of closes. The state is reported once, at the end,
//! because readings per interval are taken to be of lasting connections. The workload does not see
//! which part of the time was the handshake.
//!
//! The passive end has a port of its own also at an agent: its workers accept the connections that
//! are measured, and the agent's thread between them would be a part of the figure.

use std::net::TcpListener;

use linerate_model::{Bytes, Nanos, ParamError};
use linerate_sys::SysError;
use socket2::Socket;

use super::arrivals::Arrivals;
use super::companion::Companion;
use super::exchange::{Exchange, TIMEOUT};
use super::job_listener::JobListener;
use super::parameters::{Parameters, Typed};
use super::placement::{Placement, STREAMS};
use super::ports::PlannedPorts;
use super::proof::word;
use super::rendezvous::{self, Arrivals as Connections, Hello};
use super::tcp_options::TcpOptions;
use crate::parameter::{Reader, Words};
use crate::workloads::footprint;
use crate::{JobPorts, Listener, Offer, Result, Secret, Setup, Times, Workers};

mod client;
mod server;

/// Derives the word that each measured connection opens with in the clear; its companion proves
/// the secret.
const WORD: &[u8] = b"tcp_crr";
/// `tcp_crr` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"tcpc");
/// The largest request or response: both are held whole in a socket buffer.
const MOST: Bytes = Bytes(1 << 20);

/// The side that closes a connection first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    Client,
    Server,
    /// The client, with a reset.
    Reset,
}

impl Close {
    const WORDS: Words<Self> =
        &[("client", Self::Client), ("server", Self::Server), ("reset", Self::Reset)];
}

/// Parameters of `tcp_crr`.
#[derive(Clone, Debug)]
pub(super) struct TcpCrrParams {
    close: Close,
    timeout: Nanos,
    exchange: Exchange,
    arrivals: Arrivals,
    placement: Placement,
    options: TcpOptions,
}

impl Parameters for TcpCrrParams {
    fn declare(reader: &mut Reader<'_>) -> Self {
        let close = reader.choice(
            "close",
            Close::WORDS,
            Close::Client,
            "the side that closes first and keeps TIME_WAIT: client, server; reset: the client \
                aborts, neither keeps it",
        );
        // Longer than one repetition of a lost SYN (RFC 6298: one second).
        let timeout = reader.time(
            "timeout",
            TIMEOUT,
            Nanos::from_secs(3),
            "a connection that takes longer has failed",
        );
        let rate = reader.rate(
            "rate",
            "closed loop",
            "connections per second, all streams together, such as \"1 kpps\": an open loop",
        );
        let streams =
            reader.optional_count("streams", STREAMS, "workers", "connections under way at once");
        let options = TcpOptions::declare_without_delay(reader);
        let exchange = Exchange::declare(reader, MOST);
        let arrivals = Arrivals { rate, ..Arrivals::declare(reader) };
        let placement = Placement::declare(reader);
        // Each worker has at least one.
        let streams = streams.unwrap_or(placement.workers());
        let placement = Placement { streams, ..placement };
        Self { close, timeout, exchange, arrivals, placement, options }
    }

    fn settle(&mut self) -> Result<(), ParamError> {
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

    fn ports_of(_: &TcpCrrParams) -> JobPorts {
        JobPorts::FREE
    }

    fn memory_of(params: &TcpCrrParams) -> u64 {
        footprint::of(&params.placement, Times::REQUESTS, 256 << 10, 0)
    }

    fn start_passive(params: TcpCrrParams, setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        let device = params.options.socket.device(setup.local)?;
        // Accepted connections inherit what the listener has.
        let prepare = |socket: &Socket| params.options.prepare(socket);
        let listener = rendezvous::listen(rendezvous::any_port(setup.local), device, prepare)?;
        let error = |cause| SysError::new("share", "the listener of a job", cause);
        let shared = listener.try_clone().map_err(error)?;
        let expected = Hello::first(setup.secret, WORKLOAD, params.placement.workers());
        let word = word(setup.secret, WORD);
        let deal = move |arrivals| deal(&params, word, &shared, arrivals);
        JobListener::own(setup, listener, expected, deal)
    }

    fn start_active(params: TcpCrrParams, setup: &Setup<'_>, offer: &Offer) -> Result<Workers> {
        let address = rendezvous::only_address(offer)?;
        let device = params.options.socket.device(setup.local)?;
        let hello = Hello::first(setup.secret, WORKLOAD, params.placement.workers());
        // Companions carry no load, so they need none of the options.
        let streams =
            rendezvous::connect_all(setup, offer, device, hello, &PlannedPorts::NONE, |_| Ok(()))?;
        let mut workers = Workers::new();
        for (number, stream) in (0_u32..).zip(streams) {
            let companion = Companion::new(stream)?;
            workers.push(client::worker(&params, number, setup, address, companion)?);
        }
        Ok(workers)
    }
}

/// Makes a worker of each companion in `arrivals`; all accept from `listener`.
fn deal(
    params: &TcpCrrParams,
    word: Secret,
    listener: &TcpListener,
    arrivals: Connections,
) -> Result<Workers> {
    let error = |cause| SysError::new("share", "the listener of a job", cause);
    listener.set_nonblocking(true).map_err(error)?;
    let mut foreign = arrivals.foreign;
    let mut workers = Workers::new();
    for (number, stream) in (0_u32..).zip(arrivals.streams) {
        let listener = listener.try_clone().map_err(error)?;
        let companion = Companion::new(stream)?;
        let foreign = std::mem::take(&mut foreign);
        workers.push(server::worker(params, number, listener, word, companion, foreign)?);
    }
    Ok(workers)
}

#[cfg(test)]
mod tests {
    use linerate_model::Params;
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::{assert_sound, read};

    #[test]
    fn every_default_is_used_and_every_mistake_is_named() {
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
    fn every_worker_has_a_stream_unless_fewer_are_requested() {
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
