//! Both ends from paired sockets to workers: cards, tags, headers, and the backend that the mode asks for.
//!
//! Each flow keeps the two UDP sockets it was paired by. Frames bear their addresses and ports, and the sockets, which drop
//! whatever comes, hold the ports: nobody else gets them, and no host answers that nobody listens there.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use linerate_packet::frame::{Addresses, Headers, MacAddress, Ports, TemplateError};
use linerate_sys::SysError;
use linerate_sys::packet::{PacketSocket, deafen};

use super::backend::{FlowPlan, Opening, Receive, Transmit};
use super::card::{self, Card};
use super::interface::Interface;
use super::ledger::{Ledger, Tags};
use super::worker::{FramesWorker, Parts};
use super::{Flowing, FramesParams, Mode, packet};
use crate::workloads::companion::Companion;
use crate::workloads::pairing::{Paired, Waiting as Unpaired};
use crate::workloads::placement::deal;
use crate::{Listener, LoadError, Offer, Secret, Setup, Worker};

/// Time to live of test frames.
const HOPS: u8 = 64;
/// An EtherType of which nothing comes (IEEE 802 local experimental): to try whether raw sockets are permitted.
const NOTHING: u16 = 0x88b5;

/// Which end of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Active,
    Passive,
}

/// The passive end before its flows have come.
#[derive(Debug)]
pub(super) struct FramesListener {
    pub(super) params: FramesParams,
    pub(super) unpaired: Unpaired,
    pub(super) interface: Interface,
    pub(super) secret: Secret,
    pub(super) seed: u64,
}

impl Listener for FramesListener {
    fn offer(&self) -> Offer {
        self.unpaired.offer().clone()
    }

    fn accept(self: Box<Self>, patience: Duration) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let Self { params, unpaired, interface, secret, seed } = *self;
        let paired = unpaired.accept(patience)?;
        open(&params, End::Passive, Trial { secret, seed, patience }, &interface, paired)
    }
}

/// What both ends of a trial have.
#[derive(Clone, Copy, Debug)]
struct Trial {
    secret: Secret,
    seed: u64,
    patience: Duration,
}

/// Says why `params` cannot be had at this end, before anything is sent.
pub(super) fn check(params: &FramesParams, interface: &Interface) -> Result<(), LoadError> {
    interface.check(params)?;
    match params.mode {
        Mode::Auto | Mode::Packet | Mode::PacketBypass => permitted(interface),
    }
}

/// Whether raw sockets may be opened.
fn permitted(interface: &Interface) -> Result<(), LoadError> {
    PacketSocket::open_for(&interface.name, NOTHING).map(drop).map_err(|error| {
        if error.cause.kind() != std::io::ErrorKind::PermissionDenied {
            return error.into();
        }
        LoadError::Unsupported {
            what: format!("frames at interface {}", interface.name),
            why: format!(
                "{error}: packet sockets need CAP_NET_RAW (run as root, or `setcap cap_net_raw+ep` the program)"
            ),
        }
    })
}

/// The active end's workers.
pub(super) fn active(
    params: &FramesParams,
    setup: &Setup<'_>,
    interface: &Interface,
    paired: Paired,
) -> Result<Vec<Box<dyn Worker>>, LoadError> {
    let trial = Trial { secret: setup.secret, seed: setup.seed, patience: setup.patience };
    open(params, End::Active, trial, interface, paired)
}

fn open(
    params: &FramesParams,
    end: End,
    trial: Trial,
    interface: &Interface,
    paired: Paired,
) -> Result<Vec<Box<dyn Worker>>, LoadError> {
    let Paired { companions, sockets, foreign } = paired;
    let own = Card::new(trial.seed, interface.mac, interface.mtu);
    let first = companions.first().expect("a job has at least one worker");
    let other = own.exchange(first, trial.patience)?;
    let tags = match end {
        End::Active => card::tags(trial.secret, own.nonce),
        End::Passive => swapped(card::tags(trial.secret, other.nonce)),
    };
    let sends = params.direction == Flowing::Both || (params.direction == Flowing::Tx) == (end == End::Active);
    let receives = params.direction == Flowing::Both || !sends;
    sockets.iter().try_for_each(deafen)?;
    let n_workers = params.placement.workers();
    let shares = deal(sockets, n_workers);
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    for ((worker, share), companion) in (0_u32..).zip(shares).zip(companions) {
        let ends = share.iter().map(|(number, socket)| Ok((*number, addresses(socket)?)));
        let ends: Vec<(u32, [SocketAddr; 2])> = ends.collect::<Result<_, LoadError>>()?;
        let plans = plans(params, interface, other.mac, &ends)?;
        let seed = trial.seed.wrapping_add(u64::from(worker));
        let (outward, inward) = (tags.outward, tags.inward);
        let opening = Opening { params, interface, flows: &plans, outward, inward, worker, n_workers, seed };
        let transmit = sends.then(|| transmit(&opening)).transpose()?;
        let receive = receives.then(|| receive(&opening)).transpose()?;
        let ledger = Ledger::new(plans.len(), tags, worker, n_workers, own.has_clock_of(&other));
        let parts = Parts {
            number: worker,
            flows: ends,
            sockets: share.into_iter().map(|(_, socket)| socket).collect(),
            transmit,
            receive,
            ledger,
            companion: Companion::new(companion)?,
            one_clock: own.has_clock_of(&other),
            foreign: if worker == 0 { foreign } else { 0 },
        };
        workers.push(Box::new(FramesWorker::new(params, parts)?));
    }
    Ok(workers)
}

fn transmit(opening: &Opening<'_>) -> Result<Box<dyn Transmit>, LoadError> {
    match opening.params.mode {
        Mode::Auto | Mode::Packet | Mode::PacketBypass => Ok(Box::new(packet::PacketTransmit::open(opening)?)),
    }
}

fn receive(opening: &Opening<'_>) -> Result<Box<dyn Receive>, LoadError> {
    match opening.params.mode {
        Mode::Auto | Mode::Packet | Mode::PacketBypass => Ok(Box::new(packet::PacketReceive::open(opening)?)),
    }
}

fn swapped(tags: Tags) -> Tags {
    Tags { outward: tags.inward, inward: tags.outward }
}

/// Both addresses of a paired socket, this end's first.
fn addresses(socket: &UdpSocket) -> Result<[SocketAddr; 2], LoadError> {
    let both = socket.local_addr().and_then(|local| Ok([local, socket.peer_addr()?]));
    let both = both.map_err(|cause| SysError::new("read the addresses of", "a paired socket", cause))?;
    Ok(both.map(|address| SocketAddr::new(address.ip().to_canonical(), address.port())))
}

fn plans(
    params: &FramesParams,
    interface: &Interface,
    peer: MacAddress,
    ends: &[(u32, [SocketAddr; 2])],
) -> Result<Vec<FlowPlan>, LoadError> {
    let mut plans = Vec::new();
    let Some((_, [_, remote])) = ends.first() else { return Ok(plans) };
    let destination = interface.next_hop(remote.ip(), peer)?;
    for (number, [local, remote]) in ends {
        // A port of one's own counts up with the flows; a flow's number is below 16384, and the last port was checked.
        let port = |chosen: Option<u16>, own: u16| chosen.map_or(own, |first| first + *number as u16);
        plans.push(FlowPlan {
            number: *number as u16,
            headers: Headers {
                destination,
                source: interface.mac,
                tags: params.tags(),
                addresses: of_one_family(local.ip(), remote.ip())?,
                transport: params.header.transport(),
                ports: Ports {
                    source: port(params.source_port, local.port()),
                    destination: port(params.destination_port, remote.port()),
                },
                dscp: params.options.dscp.unwrap_or(0),
                hops: HOPS,
            },
        });
    }
    Ok(plans)
}

fn of_one_family(source: IpAddr, destination: IpAddr) -> Result<Addresses, LoadError> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(Addresses::V4 { source, destination }),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(Addresses::V6 { source, destination }),
        _ => Err(LoadError::Unsupported {
            what: format!("frames from {source} to {destination}"),
            why: "both ends need addresses of one family".into(),
        }),
    }
}

/// A size that has no room, as a parameter that does not go with the others.
pub(super) fn unfit(error: TemplateError) -> LoadError {
    LoadError::Unsupported { what: "frame_size of `frames`".into(), why: error.to_string() }
}
