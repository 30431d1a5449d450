//! `tcp_rr`: requests and responses on connections that stay open. Unit: transactions per second,
//! and nanoseconds from the start of a request to the last byte of its response (L4, at the active
//! end).
//!
//! `service` counts from when the request was written, `response` from when it was *meant* to be
//! (docs/methodology/latency.md#two-times-per-request): under an open load a stall delays the
//! requests behind it, and they say so. A connection cut off loses what was outstanding on it. What
//! it does not see: the wire; with `depth` above 1 also the time a request waited behind others in
//! the same flow.

use std::net::TcpListener;
use std::time::Duration;

use linerate_model::{Bytes, ParamError};
use serde::Deserialize;
use socket2::{SockRef, Socket};

use super::arrivals::Arrivals;
use super::exchange::Exchange;
use super::parameters::{Parameters, Typed, documented};
use super::placement::Placement;
use super::ports::PlannedPorts;
use super::rendezvous::{self, Hello};
use super::socket_options::SocketOptions;
use super::tcp_options::TcpOptions;
use crate::parameter::{ParamDoc, Takes};
use crate::workloads::footprint;
use crate::{Listener, LoadError, Offer, Permits, Secret, Setup, Times, Worker};

mod client;
mod server;

/// `tcp_rr` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"tcpr");
/// The largest request or response.
const MOST: Bytes = Bytes(1 << 30);
/// Requests outstanding on a flow.
const DEPTH: Takes = Takes::Count { least: 1, most: 65_536 };

/// Parameters of `tcp_rr`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct TcpRrParams {
    depth: u32,
    #[serde(flatten)]
    exchange: Exchange,
    #[serde(flatten)]
    arrivals: Arrivals,
    #[serde(flatten)]
    placement: Placement,
    #[serde(flatten)]
    options: TcpOptions,
}

impl Default for TcpRrParams {
    fn default() -> Self {
        Self {
            depth: 1,
            exchange: Exchange::default(),
            arrivals: Arrivals::default(),
            placement: Placement::default(),
            options: TcpOptions::default(),
        }
    }
}

impl Parameters for TcpRrParams {
    fn docs() -> Vec<ParamDoc> {
        let meaning = "requests outstanding on each flow, pipelined";
        let own = [
            ParamDoc { name: "depth", takes: DEPTH, default: "1", meaning },
            TcpOptions::NO_DELAY_DOC,
        ];
        let exchange = Exchange::docs(MOST);
        let groups =
            [&exchange, Arrivals::DOCS, Placement::DOCS, TcpOptions::DOCS, SocketOptions::DOCS];
        documented(&own, &groups)
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        self.options.no_delay.get_or_insert(true);
        self.placement.check(self.placement.streams())?;
        self.arrivals.check_requests()
    }
}

/// The `tcp_rr` workload.
#[derive(Debug)]
pub(super) struct TcpRr;

impl Typed for TcpRr {
    type Params = TcpRrParams;
    const NAME: &'static str = "tcp_rr";
    const SUMMARY: &'static str =
        "requests and responses on open TCP connections: transactions per second and their times";

    fn memory_of(params: &TcpRrParams) -> u64 {
        footprint::of(
            &params.placement,
            Times::REQUESTS,
            256 << 10,
            footprint::of_depth(params.depth),
        )
    }

    fn start_passive(
        params: TcpRrParams,
        setup: &Setup<'_>,
    ) -> Result<Box<dyn Listener>, LoadError> {
        let device = params.options.socket.device(setup.local)?;
        let prepare = |socket: &Socket| params.options.prepare(socket);
        let listener = rendezvous::listen(rendezvous::any_port(setup.local), device, prepare)?;
        let address = rendezvous::local_address(&SockRef::from(&listener))?;
        let offer = Offer { addresses: vec![address] };
        Ok(Box::new(TcpRrListener {
            params,
            listener,
            offer,
            secret: setup.secret,
            permits: setup.permits.clone(),
        }))
    }

    fn start_active(
        params: TcpRrParams,
        setup: &Setup<'_>,
        offer: &Offer,
    ) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let hello = Hello {
            secret: setup.secret,
            workload: WORKLOAD,
            index: 0,
            count: params.placement.streams(),
        };
        let device = params.options.socket.device(setup.local)?;
        let streams =
            rendezvous::connect_all(setup, offer, device, hello, &PlannedPorts::NONE, |socket| {
                params.options.prepare(socket)
            })?;
        client::deal(&params, streams)
    }
}

#[derive(Debug)]
struct TcpRrListener {
    params: TcpRrParams,
    listener: TcpListener,
    offer: Offer,
    secret: Secret,
    permits: Permits,
}

impl Listener for TcpRrListener {
    fn offer(&self) -> Offer {
        self.offer.clone()
    }

    fn accept(self: Box<Self>, patience: Duration) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let expected = Hello {
            secret: self.secret,
            workload: WORKLOAD,
            index: 0,
            count: self.params.placement.streams(),
        };
        let arrivals = rendezvous::accept(&self.listener, expected, &self.permits, patience)?;
        arrivals.give_go_ahead()?;
        server::deal(&self.params, arrivals)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::assert_sound;

    #[test]
    fn every_parameter_is_documented_and_every_mistake_is_named() {
        assert_sound::<TcpRrParams>(&[
            ("depth", json!(0)),
            ("request_size", json!("0 B")),
            ("poisson", json!(true)),
            ("streams", json!(0)),
            ("mss", json!("40 B")),
        ]);
    }
}
