//! `path_probe`: datagrams that show what a path does to them. Unit: one record for each datagram
//! (number, time of sending, time of arrival in the receiving kernel), judged by
//! `linerate-analysis`.
//!
//! One end sends pings, sizes, trains, a ramp and a flood (see `course`); the other records every
//! datagram and answers those that ask for it. The probe ends by itself after 2 to 6 s. All
//! datagrams are sent unfragmented (DF). It does not see where on the path a datagram waited or was
//! lost, nor the wire between the two kernels.
//!
//! A datagram begins with the header of `datagram`, then one byte of flags: 1 if it asks for an
//! answer, 2 if it was sent as ECN-capable. An answer has the header with the number and time of
//! the datagram that it answers, then four numbers of 8 bytes, big-endian: datagrams received,
//! highest number received, time that the receiver took, and time of arrival by its clock, both ns.

use std::time::Duration;

use linerate_model::{BitRate, Bytes, ParamError, Side};
use linerate_sys::socket::{self, Buffer};
use linerate_sys::{SysError, udp};
use serde_json::Value;
use socket2::Socket;

use super::datagram::HEADER_BYTES;
use super::pairing::{self, Paired, PairedParams, Shape};
use super::parameters::{Direction, Parameters, Typed};
use super::socket_options::SocketOptions;
use super::udp_stream::RECEIVE_BUFFER;
use crate::parameter::{Parameter, Reader, Takes, wrong};
use crate::workloads::footprint;
use crate::{Listener, Offer, Result, Secret, Setup, Times, Workers};
pub use course::{LOSS as FLOOD_LOSS, LOSS_TIME as FLOOD_LOSS_TIME};
use course::{MOST_DATAGRAMS, ProbeLimits};

mod course;
mod flow;
mod receiver;
mod sender;
mod sizes;

/// `path_probe` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"prob");
/// Longest wait of a blocking receive.
const PATIENCE: Duration = Duration::from_millis(4);
/// Send buffer: a queueing discipline of the sender's own interface must drop datagrams before the
/// socket blocks, or the flood would not exceed its rate.
const SEND_BUFFER: usize = 8 << 20;
/// Default highest rate of a probe: no more than a download on a fast home connection.
pub const MAX_RATE: BitRate = BitRate(200e6);
/// Default of the most bytes of a probe.
pub const MAX_BYTES: Bytes = Bytes(32_000_000);
/// Place of the flags, and their values.
const FLAGS_AT: usize = HEADER_BYTES;
const ASKS: u8 = 1;
const IS_ECT: u8 = 2;
/// Bytes of an answer.
const ANSWER_BYTES: usize = HEADER_BYTES + 4 * size_of::<u64>();

/// Parameters of `path_probe`.
#[derive(Clone, Debug)]
pub(super) struct PathProbeParams {
    direction: Direction,
    max_rate: BitRate,
    max_bytes: Bytes,
    may_lose: bool,
    options: SocketOptions,
}

impl Parameters for PathProbeParams {
    fn declare(reader: &mut Reader<'_>) -> Self {
        let max_rate = Parameter {
            name: "max_rate",
            takes: Takes::BitRate,
            default: format!("\"{MAX_RATE}\""),
            meaning: "highest rate that is sent, in bits of IP packets; trains of 50 datagrams are \
                sent faster",
        };
        let parsed = |value: &Value| value.as_str()?.parse().ok();
        Self {
            direction: reader.choice(
                "direction",
                Direction::WORDS,
                Direction::Tx,
                "direction of the probe, seen from the active end: tx, rx",
            ),
            max_rate: reader.value(max_rate, parsed).unwrap_or(MAX_RATE),
            max_bytes: reader.size(
                "max_bytes",
                Bytes(100_000)..=Bytes(1_000_000_000),
                MAX_BYTES,
                "most bytes of IP packets that are sent",
            ),
            may_lose: reader.flag(
                "may_lose",
                false,
                "go on after the loss that ends a flood, which can disturb other traffic",
            ),
            options: SocketOptions::declare_with_receive_buffer(
                reader,
                RECEIVE_BUFFER,
                "SO_RCVBUF requested, both ends; socket_buffer takes precedence over this default",
            ),
        }
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        if self.direction == Direction::Both {
            let cause = "the two directions disturb each other: probe them one after the other";
            return Err(wrong("direction", cause));
        }
        if self.max_rate.0 < 1.0 {
            return Err(wrong("max_rate", "a probe needs a rate above zero"));
        }
        Ok(())
    }
}

/// The `path_probe` workload.
#[derive(Debug)]
pub(super) struct PathProbe;

impl Typed for PathProbe {
    type Params = PathProbeParams;
    const NAME: &'static str = "path_probe";
    const SUMMARY: &'static str = "a record of single datagrams, from which capacity, queue, token \
        bucket, loss, delay and MTU of a path are computed";

    fn memory_of(_: &PathProbeParams) -> u64 {
        let records = MOST_DATAGRAMS * 3 * size_of::<u64>() as u64;
        footprint::of_counts((1, Times::NONE, 2 << 20), (1, records))
    }

    fn start_passive(params: PathProbeParams, setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        pairing::start_passive(params, setup)
    }

    fn start_active(params: PathProbeParams, setup: &Setup<'_>, offer: &Offer) -> Result<Workers> {
        pairing::start_active(&params, setup, offer)
    }
}

impl PairedParams for PathProbeParams {
    /// One flow, carried by one worker.
    fn shape(&self) -> Shape {
        Shape { workload: WORKLOAD, workers: 1, flows: 1 }
    }

    fn options(&self) -> &SocketOptions {
        &self.options
    }

    fn prepare(&self, socket: &Socket) -> Result<()> {
        self.options.set(socket)?;
        if self.options.send_buffer.or(self.options.socket_buffer).is_none() {
            socket::set_buffer(socket, Buffer::Send, SEND_BUFFER)?;
        }
        udp::probe_sizes(socket)?;
        udp::stamp_arrivals(socket)?;
        udp::report_class(socket)?;
        Ok(udp::set_receive_timeout(socket, PATIENCE)?)
    }

    fn deal(&self, end: Side, secret: Secret, paired: Paired) -> Result<Workers> {
        flow::deal(self, end, secret, paired)
    }
}

impl PathProbeParams {
    fn limits(&self) -> ProbeLimits {
        ProbeLimits { rate: self.max_rate, bytes: self.max_bytes, may_lose: self.may_lose }
    }
}

/// Returns bytes of the headers of IP and UDP that datagrams of `socket` have.
fn header_bytes(socket: &std::net::UdpSocket) -> Result<u64> {
    /// IPv4 (RFC 791) or IPv6 (RFC 8200), and UDP (RFC 768).
    const IPV4_AND_UDP: u64 = 20 + 8;
    const IPV6_AND_UDP: u64 = 40 + 8;
    let peer = socket
        .peer_addr()
        .map_err(|cause| SysError::new("read the peer of", "a udp socket", cause))?;
    Ok(if peer.ip().to_canonical().is_ipv4() { IPV4_AND_UDP } else { IPV6_AND_UDP })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::assert_sound;

    #[test]
    fn every_default_is_used_and_every_mistake_is_named() {
        assert_sound::<PathProbeParams>(&[
            ("direction", json!("both")),
            ("max_rate", json!("0 bit/s")),
            ("max_rate", json!(5)),
            ("max_bytes", json!("10 B")),
            ("may_lose", json!("yes")),
        ]);
    }
}
