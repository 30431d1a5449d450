//! `udp_rr`: requests and responses in single datagrams. Unit: transactions per second, and
//! nanoseconds from the start of a request to its response (L4, at the active end).
//!
//! Every request bears a number that its response repeats, so a late response is counted as late
//! and never taken for that of the next request. A request without response after `timeout` is
//! lost: its time is infinite (RFC 7679 clause 4.2.4), and the next one starts. `service` counts
//! from the actual start, `response` from the intended one. Datagrams shorter than 16 bytes hold
//! only part of number and tag: one byte holds 8 bits of the number and no tag. It does not see
//! in which direction a request was lost, nor the wire.

use std::time::Duration;

use linerate_model::{Bytes, Nanos, ParamError, Side};
use linerate_sys::udp;
use socket2::Socket;

use super::arrivals::Arrivals;
use super::datagram::label_bits;
use super::exchange::{Exchange, TIMEOUT};
use super::pairing::{self, Paired, PairedParams, Shape};
use super::parameters::{Parameters, Typed};
use super::placement::Placement;
use super::socket_options::SocketOptions;
use crate::parameter::{Reader, wrong};
use crate::workloads::footprint;
use crate::{Listener, Offer, Result, Secret, Setup, Times, Workers};

mod client;
mod flow;
mod server;

/// `udp_rr` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"udpr");
/// Longest wait of a blocking receive.
const PATIENCE: Duration = Duration::from_millis(4);
/// Most requests outstanding on a flow.
const MAX_DEPTH: u32 = 65_536;

/// Parameters of `udp_rr`.
#[derive(Clone, Debug)]
pub(super) struct UdpRrParams {
    depth: u32,
    timeout: Nanos,
    exchange: Exchange,
    arrivals: Arrivals,
    placement: Placement,
    options: SocketOptions,
}

impl Parameters for UdpRrParams {
    fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            depth: reader.count(
                "depth",
                1..=u64::from(MAX_DEPTH),
                1,
                "requests outstanding on each flow; at most 128 with datagrams of 1 or 2 bytes, \
                    whose numbers are short",
            ),
            // Longer than any queue on a path anybody would use.
            timeout: reader.time(
                "timeout",
                TIMEOUT,
                Nanos::from_secs(1),
                "a request without response after this is lost",
            ),
            exchange: Exchange::declare(reader, Bytes(udp::MAX_PAYLOAD_BYTES as u64)),
            arrivals: Arrivals::declare(reader),
            placement: Placement::declare(reader),
            options: SocketOptions::declare(reader),
        }
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        self.placement.check(self.placement.streams())?;
        // Requests in one place of the window must differ, for which half of the numbers suffice.
        let distinct = 1_u64 << (self.number_bits() - 1).min(u32::from(u16::BITS as u16));
        if u64::from(self.depth) > distinct {
            let cause = format!(
                "{} requests outstanding need longer datagrams: at most {distinct} with these",
                self.depth
            );
            return Err(wrong("depth", cause));
        }
        self.arrivals.check_requests()
    }
}

/// The `udp_rr` workload.
#[derive(Debug)]
pub(super) struct UdpRr;

impl Typed for UdpRr {
    type Params = UdpRrParams;
    const NAME: &'static str = "udp_rr";
    const SUMMARY: &'static str = "requests and responses in single datagrams: transactions per \
        second, their times, and losses";

    fn memory_of(params: &UdpRrParams) -> u64 {
        footprint::of(
            &params.placement,
            Times::REQUESTS,
            256 << 10,
            footprint::of_depth(params.depth) + (128 << 10),
        )
    }

    fn start_passive(params: UdpRrParams, setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        pairing::start_passive(params, setup)
    }

    fn start_active(params: UdpRrParams, setup: &Setup<'_>, offer: &Offer) -> Result<Workers> {
        pairing::start_active(&params, setup, offer)
    }
}

impl PairedParams for UdpRrParams {
    fn shape(&self) -> Shape {
        Shape::of(WORKLOAD, &self.placement)
    }

    fn options(&self) -> &SocketOptions {
        &self.options
    }

    fn prepare(&self, socket: &Socket) -> Result<()> {
        self.options.set(socket)?;
        udp::set_receive_timeout(socket, PATIENCE)?;
        Ok(udp::set_send_timeout(socket, PATIENCE)?)
    }

    fn deal(&self, end: Side, secret: Secret, paired: Paired) -> Result<Workers> {
        match end {
            Side::Active => client::deal(self, secret, paired),
            Side::Passive => server::deal(self, secret, paired),
        }
    }
}

impl UdpRrParams {
    /// Returns how many bits of a request's number come back.
    fn number_bits(&self) -> u32 {
        label_bits(self.exchange.request_bytes().min(self.exchange.response_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Params;
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::{assert_sound, read};

    #[test]
    fn every_default_is_used_and_every_mistake_is_named() {
        assert_sound::<UdpRrParams>(&[
            ("depth", json!(129)),
            ("request_size", json!("0 B")),
            ("poisson", json!(true)),
            ("timeout", json!("1 us")),
        ]);
        let mut deep = Params::default();
        for (key, value) in [("request_size", "16 B"), ("response_size", "16 B")] {
            deep.set(key, value);
        }
        deep.set("depth", MAX_DEPTH);
        assert!(read::<UdpRrParams>(&deep).is_ok());
    }
}
