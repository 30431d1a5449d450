//! `tcp_stream`: bulk transfer over TCP, F connections on T threads, one way or both.
//!
//! Goodput is `payload_received`: bytes delivered to the receiving application, per interval, at
//! the receiver (layer 4). `payload_sent` counts the bytes that the sender's socket took: it runs
//! ahead by the content of the buffers. Each connection opens with 76 bytes from the
//! active end (hello, proof) and 80 bytes back (answer, go-ahead), which the kernel's byte counters
//! include and ours do not. TCP per RFC 9293; the
//! options in force are reported per connection, from both ends.
//!
//! It does not see packets and headers on the wire (the device's counters do), and the cost of the
//! copy that a discarding or mapping receiver avoids. `MSG_ZEROCOPY` on a path that copies anyway
//! is reported as such.

mod flow;
mod options;
mod pace;
mod params;
mod receiver;
mod sender;
mod worker;

use std::fs::File;
use std::sync::Arc;

use linerate_model::Endpoint;
use linerate_sys::cpu;
use socket2::Socket;

use super::amount::Pool;
use super::job_listener::JobListener;
use super::parameters::Typed;
use super::placement::deal as deal_flows;
use super::rendezvous::{self, Arrivals, Hello};
use crate::workloads::footprint;
use crate::{JobPorts, Listener, Offer, Result, Setup, Times, Workers};
use params::StreamParams;
use sender::Source;
use worker::StreamWorker;

/// This workload in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"tcps");

/// The `tcp_stream` workload.
#[derive(Debug)]
pub(super) struct TcpStream;

impl Typed for TcpStream {
    type Params = StreamParams;
    const NAME: &'static str = "tcp_stream";
    const SUMMARY: &'static str =
        "bulk transfer over TCP: payload delivered to the receiver per second (goodput)";

    fn ports_of(params: &StreamParams) -> JobPorts {
        JobPorts::of(params.planned.chosen(), options::need_own_listener(params))
    }

    fn memory_of(params: &StreamParams) -> u64 {
        // A stream both ways has up to two connections.
        let flows = 2 * params.placement.streams();
        // As the flows are dealt to threads below: one for each flow, and never more than there are
        // CPUs.
        let cpus = cpu::allowed().map_or(flows, |cpus| cpus.len() as u32);
        let workers = params.placement.workers.unwrap_or(flows.min(cpus));
        let call = params.message_size.0.saturating_mul(params.batch() as u64);
        footprint::of_counts((workers, Times::NONE, call + (4 << 20)), (flows, 0))
    }

    fn start_passive(params: StreamParams, setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        let address = params.planned.destination(rendezvous::any_port(setup.local));
        setup.permits.port(address.port())?;
        let own = (address.port() != 0 || options::need_own_listener(&params)).then_some(address);
        let expected = Hello::first(setup.secret, WORKLOAD, params.connections());
        let (local, seed) = (setup.local.clone(), setup.seed);
        let asked = params.clone();
        let device = params.options.socket.device(setup.local)?.map(str::to_owned);
        let prepare = move |socket: &Socket, moment| options::prepare_at(socket, &asked, moment);
        let dealt = move |arrivals| deal_arrived(arrivals, &params, &local, seed);
        JobListener::boxed(setup, own, device.as_deref(), expected, prepare, dealt)
    }

    fn start_active(params: StreamParams, setup: &Setup<'_>, offer: &Offer) -> Result<Workers> {
        let device = params.options.socket.device(setup.local)?;
        let hello = Hello::first(setup.secret, WORKLOAD, params.connections());
        let prepare = |socket: &Socket| options::prepare(socket, &params);
        let streams =
            rendezvous::connect_all(setup, offer, device, hello, &params.planned, prepare)?;
        let sockets = streams.into_iter().map(Socket::from).collect();
        let file = params.file.as_deref().map(|path| setup.disks.send(path)).transpose()?;
        deal(sockets, (true, file), &params, setup.local, setup.seed, 0)
    }
}

/// Deals the connections that have arrived to workers of the passive end.
fn deal_arrived(
    arrivals: Arrivals,
    params: &StreamParams,
    local: &Endpoint,
    seed: u64,
) -> Result<Workers> {
    let sockets = arrivals.streams.into_iter().map(Socket::from).collect();
    deal(sockets, (false, None), params, local, seed, arrivals.foreign)
}

/// Deals connections to workers in turn.
fn deal(
    sockets: Vec<Socket>,
    (active, file): (bool, Option<(File, u64)>),
    params: &StreamParams,
    local: &Endpoint,
    seed: u64,
    foreign: u64,
) -> Result<Workers> {
    let cpus = if local.cpus.is_empty() { cpu::allowed()?.len() } else { local.cpus.len() };
    let n_workers = params.placement.workers.unwrap_or(cpus.min(sockets.len()) as u32);
    let source = Source {
        file: file.map(|(file, bytes)| (Arc::new(file), bytes)),
        pool: params.amount.bytes(params.message_size.0).map(Pool::new),
    };
    let mut workers = Workers::with_capacity(n_workers as usize);
    for (number, share) in (0_u32..).zip(deal_flows(sockets, n_workers)) {
        // Strangers were seen by the listener, which has no worker of its own.
        let strangers = if number == 0 { foreign } else { 0 };
        let seed = seed.wrapping_add(u64::from(number));
        let end = (active, &source);
        workers.push(Box::new(StreamWorker::new(number, share, end, params, seed, strangers)?));
    }
    Ok(workers)
}
