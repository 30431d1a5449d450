//! `tcp_rr`: requests and responses on connections that stay open. Unit: transactions per second,
//! and nanoseconds from the start of a request to the last byte of its response (L4, at the active
//! end).
//!
//! `service` counts from when the request was written, `response` from when it was *meant* to be
//! (docs/methodology/latency.md#two-times-per-request): under an open load a stall delays the
//! requests behind it, and their response times include that delay. A connection that breaks loses
//! its outstanding requests. It does not see the wire, nor, with `depth` above 1, how long a
//! request waited behind others of its flow.

use linerate_model::{Bytes, ParamError};
use socket2::Socket;

use super::arrivals::Arrivals;
use super::exchange::Exchange;
use super::job_listener::JobListener;
use super::parameters::{Parameters, Typed};
use super::placement::Placement;
use super::ports::PlannedPorts;
use super::rendezvous::{self, Hello};
use super::tcp_options::TcpOptions;
use crate::parameter::Reader;
use crate::workloads::footprint;
use crate::{JobPorts, Listener, Offer, Result, Setup, Times, Workers};

mod client;
mod server;

/// `tcp_rr` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"tcpr");
/// The largest request or response.
const MOST: Bytes = Bytes(1 << 30);
/// Parameters of `tcp_rr`.
#[derive(Clone, Debug)]
pub(super) struct TcpRrParams {
    depth: u32,
    exchange: Exchange,
    arrivals: Arrivals,
    placement: Placement,
    options: TcpOptions,
}

impl Parameters for TcpRrParams {
    fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            depth: reader.count(
                "depth",
                1..=65_536,
                1,
                "requests outstanding on each flow, pipelined",
            ),
            exchange: Exchange::declare(reader, MOST),
            arrivals: Arrivals::declare(reader),
            placement: Placement::declare(reader),
            options: TcpOptions::declare_without_delay(reader),
        }
    }

    fn settle(&mut self) -> Result<(), ParamError> {
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

    fn ports_of(params: &TcpRrParams) -> JobPorts {
        JobPorts::of(None, params.options.need_own_listener())
    }

    fn memory_of(params: &TcpRrParams) -> u64 {
        footprint::of(
            &params.placement,
            Times::REQUESTS,
            256 << 10,
            footprint::of_depth(params.depth),
        )
    }

    fn start_passive(params: TcpRrParams, setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        let own = params.options.need_own_listener().then(|| rendezvous::any_port(setup.local));
        let expected = Hello::first(setup.secret, WORKLOAD, params.placement.streams());
        let options = params.options.clone();
        let device = options.socket.device(setup.local)?.map(str::to_owned);
        let prepare = move |socket: &Socket, moment| options.prepare_at(socket, moment);
        let deal = move |arrivals| server::deal(&params, arrivals);
        JobListener::boxed(setup, own, device.as_deref(), expected, prepare, deal)
    }

    fn start_active(params: TcpRrParams, setup: &Setup<'_>, offer: &Offer) -> Result<Workers> {
        let hello = Hello::first(setup.secret, WORKLOAD, params.placement.streams());
        let device = params.options.socket.device(setup.local)?;
        let streams =
            rendezvous::connect_all(setup, offer, device, hello, &PlannedPorts::NONE, |socket| {
                params.options.prepare(socket)
            })?;
        client::deal(&params, streams)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::assert_sound;

    #[test]
    fn every_default_is_used_and_every_mistake_is_named() {
        assert_sound::<TcpRrParams>(&[
            ("depth", json!(0)),
            ("request_size", json!("0 B")),
            ("poisson", json!(true)),
            ("streams", json!(0)),
            ("mss", json!("40 B")),
        ]);
    }
}
