//! `tcp_stream`: bulk transfer over TCP, F connections on T threads, one way or both.
//!
//! Goodput is `payload_received`: bytes delivered to the receiving application, per interval, at the receiver (layer 4).
//! `payload_sent` is what the sender's socket took: it runs ahead by what the buffers hold. Each connection opens with a
//! hello of 28 bytes one way and a byte back, which the kernel's own byte counters contain and ours do not. TCP per
//! RFC 9293; what of it is in force is reported per connection, from both ends.
//!
//! What it does not see: packets and headers on the wire (the device's counters do), and what a discarding or mapping
//! receiver would have paid for a copy. `MSG_ZEROCOPY` on a path that copies anyway is reported as such.

mod flow;
mod options;
mod params;
mod receiver;
mod sender;
mod worker;

use std::net::TcpListener;
use std::time::Duration;

use linerate_model::{Endpoint, ParamError, Params};
use linerate_sys::cpu;
use socket2::Socket;

use super::rendezvous::{self, Hello};
use crate::{Listener, LoadError, Offer, ParamDoc, Secret, Setup, Worker, Workload};
use params::{PARAMETERS, StreamParams};
use worker::StreamWorker;

/// This workload in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"tcps");

/// The `tcp_stream` workload.
#[derive(Debug)]
pub(super) struct TcpStream;

impl Workload for TcpStream {
    fn name(&self) -> &'static str {
        "tcp_stream"
    }

    fn summary(&self) -> &'static str {
        "bulk transfer over TCP; goodput is what the receiver was delivered, per second"
    }

    fn parameters(&self) -> &'static [ParamDoc] {
        PARAMETERS
    }

    fn check(&self, params: &Params) -> Vec<ParamError> {
        StreamParams::read(params).err().unwrap_or_default()
    }

    fn listen(&self, setup: &Setup<'_>) -> Result<Box<dyn Listener>, LoadError> {
        let params = StreamParams::read(setup.params)?;
        let device = options::device(&params, setup.local)?;
        let ip = rendezvous::local_ip(setup.local);
        let listener = rendezvous::listen(ip, device, |socket| options::prepare(socket, &params))?;
        Ok(Box::new(StreamListener {
            offer: Offer { addresses: listener.local_addr().into_iter().collect() },
            listener,
            local: setup.local.clone(),
            seed: setup.seed,
            secret: setup.secret,
            params,
        }))
    }

    fn connect(&self, setup: &Setup<'_>, offer: &Offer) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let params = StreamParams::read(setup.params)?;
        let device = options::device(&params, setup.local)?;
        let address = rendezvous::first_address(offer)?;
        let count = params.connections();
        let mut streams = Vec::with_capacity(count as usize);
        for index in 0..count {
            let hello = Hello { secret: setup.secret, workload: WORKLOAD, index, count };
            let prepare = |socket: &Socket| options::prepare(socket, &params);
            streams.push(rendezvous::connect(address, setup.local, device, hello, setup.patience, prepare)?);
        }
        rendezvous::take_every_go_ahead(&streams, setup.patience)?;
        let sockets = streams.into_iter().map(Socket::from).collect();
        deal(sockets, true, &params, setup.local, setup.seed, 0)
    }
}

/// The passive end before its connections have arrived.
#[derive(Debug)]
struct StreamListener {
    listener: TcpListener,
    offer: Offer,
    local: Endpoint,
    seed: u64,
    secret: Secret,
    params: StreamParams,
}

impl Listener for StreamListener {
    fn offer(&self) -> Offer {
        self.offer.clone()
    }

    fn accept(self: Box<Self>, patience: Duration) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let expected = Hello { secret: self.secret, workload: WORKLOAD, index: 0, count: self.params.connections() };
        let arrivals = rendezvous::accept(&self.listener, expected, patience)?;
        rendezvous::give_go_ahead(&arrivals.streams)?;
        let sockets = arrivals.streams.into_iter().map(Socket::from).collect();
        deal(sockets, false, &self.params, &self.local, self.seed, arrivals.foreign)
    }
}

/// Deals connections to workers in turn.
fn deal(
    sockets: Vec<Socket>,
    active: bool,
    params: &StreamParams,
    local: &Endpoint,
    seed: u64,
    foreign: u64,
) -> Result<Vec<Box<dyn Worker>>, LoadError> {
    let n_workers = match params.workers {
        Some(workers) => workers as usize,
        None if local.cpus.is_empty() => cpu::allowed()?.len().min(sockets.len()),
        None => local.cpus.len().min(sockets.len()),
    };
    let mut shares: Vec<Vec<(u32, Socket)>> = (0..n_workers).map(|_| Vec::new()).collect();
    for (flow, socket) in (0_u32..).zip(sockets) {
        shares[flow as usize % n_workers].push((flow, socket));
    }
    let mut workers: Vec<Box<dyn Worker>> = Vec::with_capacity(n_workers);
    for (number, share) in (0_u32..).zip(shares) {
        let strangers = if number == 0 { foreign } else { 0 };
        let seed = seed.wrapping_add(u64::from(number));
        workers.push(Box::new(StreamWorker::new(number, share, active, params, seed, strangers)?));
    }
    Ok(workers)
}
