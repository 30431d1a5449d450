//! Both ends from paired sockets to workers: cards, tags, headers, and the backend of the mode.
//!
//! Each flow keeps the two UDP sockets that paired it. Except in mode `udp`, frames use their
//! addresses and ports, and the sockets discard their input and reserve the ports: no other program
//! gets them, and no host reports them as closed.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use linerate_model::{PeerClock, Side};
use linerate_packet::frame::{Addresses, Headers, MacAddress, Ports};
use linerate_sys::SysError;
use linerate_sys::packet::{PacketSocket, deafen};

use super::backend::{Both, FlowPlan, Halves, Opening, Receive};
use super::card::{self, Card};
use super::interface::Interface;
use super::ledger::{Clocks, Ledger, Tags};
use super::queues::Queues;
use super::worker::{FramesWorker, Parts};
use super::{FramesParams, Mode, choice, udp};
use crate::workloads::companion::Companion;
use crate::workloads::datagram::{Purpose, Tag};
use crate::workloads::pairing::{Paired, Waiting as Unpaired};
use crate::workloads::parameters::Direction;
use crate::workloads::placement::deal;
use crate::{Listener, LoadError, Offer, Patience, Permits, Result, Secret, Setup, Workers};

/// Time to live of test frames.
const HOPS: u8 = 64;
/// EtherType without traffic (IEEE 802 local experimental), to test whether raw sockets are
/// permitted.
const NOTHING: u16 = 0x88b5;

/// The passive end before its flows have arrived.
#[derive(Debug)]
pub(super) struct FramesListener {
    pub(super) params: FramesParams,
    pub(super) unpaired: Unpaired,
    pub(super) interface: Interface,
    pub(super) secret: Secret,
    pub(super) seed: u64,
    pub(super) peer_clock: Option<PeerClock>,
    pub(super) permits: Permits,
}

impl Listener for FramesListener {
    fn offer(&self) -> Offer {
        self.unpaired.offer().clone()
    }

    fn accept(self: Box<Self>, patience: Patience<'_>) -> Result<Workers> {
        let Self { params, unpaired, interface, secret, seed, peer_clock, permits } = *self;
        let paired = unpaired.accept(patience)?;
        let patience = patience.longest;
        let trial = Trial { secret, seed, patience, peer_clock, permits: &permits };
        open(&params, Side::Passive, trial, &interface, paired)
    }
}

/// Common facts of both ends of a trial.
#[derive(Clone, Copy, Debug)]
struct Trial<'a> {
    secret: Secret,
    seed: u64,
    patience: Duration,
    peer_clock: Option<PeerClock>,
    permits: &'a Permits,
}

/// Checks that `params` are possible at this end, before anything is sent.
pub(super) fn check(params: &FramesParams, interface: &Interface, permits: &Permits) -> Result<()> {
    interface.check(params)?;
    if params.realtime {
        permits.realtime()?;
    }
    match params.mode {
        // The result also depends on the other end.
        Mode::Auto | Mode::Udp => Ok(()),
        _ => permitted(interface, permits),
    }
}

/// Checks that raw sockets may be opened.
fn permitted(interface: &Interface, permits: &Permits) -> Result<()> {
    interface.raw_frames(permits)?;
    // Opening a socket is the only sure test: capabilities alone do not show what a sandbox
    // forbids.
    PacketSocket::open_for(&interface.name, NOTHING).map(drop).map_err(|error| {
        if error.cause.kind() != std::io::ErrorKind::PermissionDenied {
            return error.into();
        }
        LoadError::Unsupported {
            what: format!("frames at interface {}", interface.name),
            why: format!(
                "{error}: packet sockets need CAP_NET_RAW (run as root, or `setcap cap_net_raw+ep` \
                    the program)"
            ),
        }
    })
}

/// Creates the active end's workers.
pub(super) fn active(
    params: &FramesParams,
    setup: &Setup<'_>,
    interface: &Interface,
    paired: Paired,
) -> Result<Workers> {
    let Setup { secret, seed, patience, peer_clock, permits, .. } = *setup;
    let trial = Trial { secret, seed, patience, peer_clock, permits };
    open(params, Side::Active, trial, interface, paired)
}

fn open(
    params: &FramesParams,
    end: Side,
    trial: Trial<'_>,
    interface: &Interface,
    paired: Paired,
) -> Result<Workers> {
    let Paired { companions, sockets, foreign } = paired;
    // The permission is part of the card: both ends must know the mode before either opens it.
    let own = Card::new(
        trial.seed,
        interface.mac,
        interface.mtu,
        permitted(interface, trial.permits).is_ok(),
    );
    let first = companions.first().expect("a job has at least one worker");
    let other = own.exchange(first, trial.patience)?;
    let tags = match end {
        // The active end's nonce makes the tags, so the passive end swaps the directions.
        Side::Active => card::tags(trial.secret, own.nonce),
        Side::Passive => swapped(card::tags(trial.secret, other.nonce)),
    };
    let sends = params.direction == Direction::Both
        || (params.direction == Direction::Tx) == (end == Side::Active);
    let receives = params.direction == Direction::Both || !sends;
    let mode = obtained(params, (interface, trial.permits), &own, &other)?;
    // In other modes the sockets only reserve ports. They must not queue what arrives, which would
    // cost memory and time.
    sockets.iter().try_for_each(|socket| {
        if mode == Mode::Udp { udp::prepare(socket) } else { Ok(deafen(socket)?) }
    })?;
    let n_workers = params.placement.workers();
    let shares = deal(sockets, n_workers);
    let mut shares: Vec<Share> = shares
        .into_iter()
        .map(|share| Share::of(share, params, interface, other.mac, trial.secret))
        .collect::<Result<_, _>>()?;
    let n_flows = params.placement.streams();
    let queues = Queues::new(n_workers, n_flows);
    let any = Opening {
        params,
        interface,
        mode,
        flows: &[],
        sockets: &[],
        outward: tags.outward,
        inward: tags.inward,
        worker: 0,
        n_workers,
        seed: trial.seed,
        queues: &queues,
    };
    let seed = |worker: u32| trial.seed.wrapping_add(u64::from(worker));
    // All receivers are opened before any sender: a frame that nobody awaits would count as lost.
    for (worker, share) in (0_u32..).zip(&mut shares) {
        let opening = Opening {
            flows: &share.plans,
            sockets: &share.sockets,
            worker,
            seed: seed(worker),
            ..any
        };
        if sends && receives && choice::is_joined(mode) {
            share.both = Some(choice::both(&opening)?);
        } else {
            share.receive = receives.then(|| choice::receive(&opening)).transpose()?;
        }
    }
    // The other end chooses its sender by the receiver here, and must not send before the receiver
    // is ready.
    card::ready(first, trial.patience)?;
    let mut workers = Workers::new();
    for ((worker, share), companion) in (0_u32..).zip(shares).zip(companions) {
        let opening = Opening {
            flows: &share.plans,
            sockets: &share.sockets,
            worker,
            seed: seed(worker),
            ..any
        };
        let halves = match share.both {
            Some(both) => Halves::Joined(both),
            None => {
                Halves::Apart(sends.then(|| choice::transmit(&opening)).transpose()?, share.receive)
            }
        };
        let clocks = clocks(&own, &other, trial.peer_clock);
        let parts = Parts {
            number: worker,
            ledger: match halves.receive().and_then(Receive::board) {
                // With several workers a frame may arrive at another's queue, so each ledger covers
                // all flows.
                Some(_) => Ledger::of_all(n_flows as usize, tags, n_workers, clocks),
                None => Ledger::new(share.plans.len(), tags, worker, n_workers, clocks),
            }
            .keeping(if receives { params.snapshot as usize } else { 0 }, params.burst),
            flows: share.ends,
            sockets: share.sockets,
            halves,
            companion: Companion::new(companion)?,
            clocks,
            // Strangers were seen before the workers existed; the first worker reports them.
            foreign: if worker == 0 { foreign } else { 0 },
        };
        workers.push(Box::new(FramesWorker::new(params, parts)?));
    }
    Ok(workers)
}

/// Returns the relation of the other end's clock to this one's.
fn clocks(own: &Card, other: &Card, measured: Option<PeerClock>) -> Clocks {
    // One kernel has one clock, also between network namespaces.
    match measured {
        _ if own.has_clock_of(other) => Clocks::One,
        Some(peer) => Clocks::Two(peer),
        None => Clocks::Unknown,
    }
}

/// Returns the requested mode; `auto` becomes `udp` where an end may not open packet sockets.
fn obtained(
    params: &FramesParams,
    (interface, permits): (&Interface, &Permits),
    own: &Card,
    other: &Card,
) -> Result<Mode> {
    match params.mode {
        Mode::Auto if own.packets && other.packets => Ok(Mode::Auto),
        Mode::Auto => match params.beyond_sockets() {
            None => Ok(Mode::Udp),
            Some(key) if own.packets => Err(LoadError::Unsupported {
                // A UDP socket cannot do this, and raw frames need permission at both ends.
                what: format!("{key} of `frames`"),
                why: "it needs packet sockets, which the other end may not open (CAP_NET_RAW)"
                    .into(),
            }),
            Some(_) => permitted(interface, permits).map(|()| Mode::Auto),
        },
        asked => Ok(asked),
    }
}

/// Flows of one worker while its halves are opened.
struct Share {
    ends: Vec<(u32, [SocketAddr; 2])>,
    plans: Vec<FlowPlan>,
    sockets: Vec<UdpSocket>,
    receive: Option<Box<dyn Receive>>,
    both: Option<Box<dyn Both>>,
}

impl Share {
    fn of(
        dealt: Vec<(u32, UdpSocket)>,
        params: &FramesParams,
        interface: &Interface,
        peer: MacAddress,
        secret: Secret,
    ) -> Result<Self> {
        let ends = dealt.iter().map(|(number, socket)| Ok((*number, addresses(socket)?)));
        let ends: Vec<(u32, [SocketAddr; 2])> = ends.collect::<Result<_>>()?;
        let plans = plans(params, interface, peer, secret, &ends)?;
        Ok(Self {
            ends,
            plans,
            sockets: dealt.into_iter().map(|(_, socket)| socket).collect(),
            receive: None,
            both: None,
        })
    }
}

fn swapped(tags: Tags) -> Tags {
    Tags { outward: tags.inward, inward: tags.outward }
}

/// Returns both addresses of a paired socket, this end's first.
fn addresses(socket: &UdpSocket) -> Result<[SocketAddr; 2]> {
    let both = socket.local_addr().and_then(|local| Ok([local, socket.peer_addr()?]));
    let both =
        both.map_err(|cause| SysError::new("read the addresses of", "a paired socket", cause))?;
    // A dual-stack socket names IPv4 peers as mapped addresses, which headers cannot carry.
    Ok(both.map(|address| SocketAddr::new(address.ip().to_canonical(), address.port())))
}

fn plans(
    params: &FramesParams,
    interface: &Interface,
    peer: MacAddress,
    secret: Secret,
    ends: &[(u32, [SocketAddr; 2])],
) -> Result<Vec<FlowPlan>> {
    let mut plans = Vec::new();
    // A worker without flows asks for no route.
    let Some((_, [_, remote])) = ends.first() else { return Ok(plans) };
    let destination = interface.next_hop(remote.ip(), peer)?;
    for (number, [local, remote]) in ends {
        plans.push(FlowPlan {
            number: *number as u16,
            headers: Headers {
                destination,
                source: interface.mac,
                tags: params.tags(),
                addresses: of_one_family(local.ip(), remote.ip())?,
                transport: params.header,
                ports: params
                    .ports_of(*number, Ports { source: local.port(), destination: remote.port() }),
                dscp: params.options.dscp.unwrap_or(0),
                hops: HOPS,
            },
            pairing: Tag::new(secret, *number, Purpose::Pairing),
        });
    }
    Ok(plans)
}

fn of_one_family(source: IpAddr, destination: IpAddr) -> Result<Addresses> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(Addresses::V4 { source, destination }),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(Addresses::V6 { source, destination }),
        _ => Err(LoadError::Unsupported {
            what: format!("frames from {source} to {destination}"),
            why: "both ends need addresses of one family".into(),
        }),
    }
}
