//! From parameters to workers, the same for every protocol.
//!
//! Between our own ends, one connection per worker opens with the session's hello and carries
//! nothing else: it ends when the other side is gone. The protocol has a port of its own, offered
//! second; clients of that port prove the secret in the protocol's own way.

use std::collections::BTreeMap;
use std::io;
use std::marker::PhantomData;
use std::net::{SocketAddr, TcpListener};

use linerate_model::{FlowReport, Side, SocketValue};
use linerate_sys::{SysError, socket as socket_options};
use socket2::{Domain, Protocol as Ip, Socket, Type};

use super::client::{ClientWorker, Session};
use super::common::Common;
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::params::Clients;
use super::server::{Guest, ServerWorker, Service};
use super::store::Store;
use super::tls::Security;
use crate::workloads::companion::Companion;
use crate::workloads::null::NullListener;
use crate::workloads::parameters::{Parameters, Typed};
use crate::workloads::placement::deal;
use crate::workloads::ports::PlannedPorts;
use crate::workloads::rendezvous::{self, Entrance, Hello};
use crate::workloads::sockets::zoned;
use crate::workloads::tcp_options::TcpOptions;
use crate::{
    JobPorts, Listener, LoadError, Offer, Patience, Permits, Result, Secret, Setup, Workers,
};

/// Places for connections beyond the streams, because a closing connection still holds its place.
const SPARE_PLACES: u32 = 4;
/// Connections that wait in the kernel.
const BACKLOG: i32 = 4096;

/// Protocol of file transfers, implemented by its parameters.
pub(crate) trait Protocol: Parameters + Clone + Send + 'static {
    /// A stream at the active end.
    type Session: Session + 'static;
    /// A connection at the passive one.
    type Guest: Guest + 'static;
    /// This workload in a hello.
    const WORKLOAD: u32;
    /// True if data connections arrive at ports of their own.
    const DATA_PORTS: bool;
    /// See [`Typed::NAME`].
    const NAME: &'static str;
    /// See [`Typed::SUMMARY`].
    const SUMMARY: &'static str;

    /// Returns the parameters of every protocol.
    fn common(&self) -> &Common;
    /// Creates a stream.
    fn session(&self, opening: Opening<'_>) -> Result<Self::Session>;
    /// Creates a place for a connection.
    fn guest(&self, opening: Opening<'_>) -> Result<Self::Guest>;
}

/// What a stream, or a place for a connection, is made with.
pub(crate) struct Opening<'a> {
    /// Number of the stream or place.
    pub(crate) number: u32,
    pub(crate) dial: Dial,
    pub(crate) store: &'a Store,
    pub(crate) secret: Secret,
}

/// The workload of a protocol.
#[derive(Debug)]
pub(crate) struct Transfers<P>(pub(crate) PhantomData<fn() -> P>);

impl<P: Protocol> Typed for Transfers<P> {
    type Params = P;
    const NAME: &'static str = P::NAME;
    const SUMMARY: &'static str = P::SUMMARY;

    fn ports_of(params: &P) -> JobPorts {
        let Common { url, files, .. } = params.common();
        if url.is_some() {
            return JobPorts::NONE;
        }
        // Our own clients also open companions.
        let agent = files.clients == Clients::Own;
        JobPorts { agent, chosen: files.port, free: files.port.is_none() || P::DATA_PORTS }
    }

    fn memory_of(params: &P) -> u64 {
        let Common { files, placement, .. } = params.common();
        files.memory(placement)
    }

    fn start_passive(params: P, setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        passive(params, setup)
    }

    fn start_active(params: P, setup: &Setup<'_>, offer: &Offer) -> Result<Workers> {
        active(&params, setup, offer)
    }
}

/// How connections are opened.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) remote: SocketAddr,
    source: Option<SocketAddr>,
    device: Option<String>,
    options: TcpOptions,
    pub(crate) security: Option<Security>,
    /// Options as granted to a socket opened in the same way.
    granted: BTreeMap<String, SocketValue>,
}

impl Dial {
    fn new(options: &TcpOptions, setup: &Setup<'_>, remote: SocketAddr) -> Result<Self> {
        let source = setup.local.address.filter(|ip| ip.is_ipv4() == remote.is_ipv4());
        let mut dial = Self {
            remote,
            source: source.map(|ip| zoned(SocketAddr::new(ip, 0), setup.local)),
            device: options.socket.device(setup.local)?.map(str::to_owned),
            options: options.clone(),
            security: None,
            granted: BTreeMap::new(),
        };
        let probe = dial
            .bound(dial.source)
            .map_err(|cause| SysError::new("open a socket to", remote.to_string(), cause))?;
        dial.options.prepare(&probe)?;
        dial.granted = dial.options.granted(&probe)?;
        Ok(dial)
    }

    fn bound(&self, to: Option<SocketAddr>) -> io::Result<Socket> {
        let socket = Socket::new(
            Domain::for_address(to.unwrap_or(self.remote)),
            Type::STREAM,
            Some(Ip::TCP),
        )?;
        if let Some(device) = &self.device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        if let Some(address) = to {
            socket_options::bind(&socket, address)?;
        }
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Opens a socket to connect or listen with. Its options were granted before, so an error needs
    /// no details.
    pub(crate) fn open(&self) -> io::Result<Socket> {
        self.prepared(self.source)
    }

    /// Opens a socket bound to `address`.
    pub(crate) fn open_at(&self, address: SocketAddr) -> io::Result<Socket> {
        self.prepared(Some(address))
    }

    /// Returns the report of a stream: granted options, and modes of its files beside the
    /// protocol's own `modes`.
    pub(crate) fn report(
        &mut self,
        mut modes: BTreeMap<String, String>,
        incoming: Option<&Incoming>,
        outgoing: Option<&Outgoing>,
    ) -> FlowReport {
        incoming.into_iter().for_each(|incoming| incoming.modes(&mut modes));
        outgoing.into_iter().for_each(|outgoing| outgoing.modes(&mut modes));
        FlowReport { socket: std::mem::take(&mut self.granted), modes, ..FlowReport::default() }
    }

    fn prepared(&self, address: Option<SocketAddr>) -> io::Result<Socket> {
        let socket = self.bound(address)?;
        self.options.prepare(&socket).map_err(|_| io::ErrorKind::Unsupported)?;
        Ok(socket)
    }
}

/// Starts the passive end of `protocol`.
fn passive<P: Protocol>(protocol: P, setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
    let common = protocol.common();
    if common.url.is_some() {
        return Ok(Box::new(NullListener));
    }
    let Common { files, placement, options, .. } = common;
    let device = options.socket.device(setup.local)?;
    let mut address = rendezvous::any_port(setup.local);
    address.set_port(files.port.unwrap_or(0));
    let own = files.clients == Clients::Own;
    setup.permits.port(address.port())?;
    if !own {
        setup.permits.foreign_clients()?;
    }
    let companions = own.then(|| Entrance::open(setup, placement.workers(), device)).transpose()?;
    let listener = serve_at(common, address, device)?;
    let error = |cause| SysError::new("look at", "a listener", cause);
    let address = listener.local_addr().map_err(error)?;
    let workers = placement.workers();
    let places = placement.streams().div_ceil(workers) + SPARE_PLACES;
    let mut store = Store::new(files, setup, places * workers, !files.is_upload())?;
    let mut dial = Dial::new(options, setup, SocketAddr::new(address.ip(), 0))?;
    dial.security = common.security(Side::Passive, setup.secret)?;
    store.is_secured = dial.security.is_some();
    let opening =
        |number| Opening { number, dial: dial.clone(), store: &store, secret: setup.secret };
    let guest = |number| protocol.guest(opening(number));
    let guests = (0..places * workers).map(guest).collect::<Result<Vec<_>, _>>()?;
    let mut addresses = Vec::new();
    if let Some(companions) = &companions {
        addresses.push(companions.address());
    }
    addresses.push(address);
    Ok(Box::new(FileListener {
        protocol,
        listener,
        companions,
        guests,
        addresses,
        secret: setup.secret,
        permits: setup.permits.clone(),
    }))
}

fn serve_at(common: &Common, address: SocketAddr, device: Option<&str>) -> Result<TcpListener> {
    let error = |cause| SysError::new("listen on", address.to_string(), cause);
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM, Some(Ip::TCP)).map_err(error)?;
    if let Some(device) = device {
        socket_options::bind_device(&socket, device)?;
    }
    // A requested port may still have connections of the last trial in TIME_WAIT.
    socket.set_reuse_address(common.files.port.is_some()).map_err(error)?;
    socket_options::bind(&socket, address).map_err(error)?;
    common.options.prepare(&socket)?;
    socket.listen(BACKLOG).map_err(error)?;
    socket.set_nonblocking(true).map_err(error)?;
    Ok(socket.into())
}

struct FileListener<P: Protocol> {
    protocol: P,
    listener: TcpListener,
    companions: Option<Entrance>,
    guests: Vec<P::Guest>,
    addresses: Vec<SocketAddr>,
    secret: Secret,
    permits: Permits,
}

impl<P: Protocol> Listener for FileListener<P> {
    fn offer(&self) -> Offer {
        Offer { addresses: self.addresses.clone() }
    }

    fn accept(self: Box<Self>, patience: Patience<'_>) -> Result<Workers> {
        let Common { files, placement, .. } = self.protocol.common();
        let count = placement.workers();
        let (mut companions, mut foreign) = (Vec::new(), 0);
        if let Some(entrance) = &self.companions {
            let expected = Hello::first(self.secret, P::WORKLOAD, count);
            let arrivals = rendezvous::accept(entrance, expected, &self.permits, patience)?;
            arrivals.give_go_ahead()?;
            (companions, foreign) = (arrivals.streams, arrivals.foreign);
        }
        let mut companions = companions.into_iter();
        let mut workers = Workers::new();
        for (number, share) in (0_u32..).zip(deal(self.guests, count)) {
            let error = |cause| SysError::new("share", "a listener", cause);
            let service = Service {
                listener: self.listener.try_clone().map_err(error)?,
                wait: placement.wait,
                timeout: files.timeout,
                is_foreign: files.clients == Clients::Foreign,
            };
            let guests = share.into_iter().map(|(_, guest)| guest).collect();
            let companion = companions.next().map(Companion::new).transpose()?;
            let strangers = std::mem::take(&mut foreign);
            workers
                .push(Box::new(ServerWorker::new(number, service, guests, companion, strangers)?));
        }
        Ok(workers)
    }
}

/// Starts the active end of `protocol`.
fn active<P: Protocol>(protocol: &P, setup: &Setup<'_>, offer: &Offer) -> Result<Workers> {
    let common = protocol.common();
    let Common { files, placement, options, url, .. } = common;
    // Other programs fetch the files, so this end has no workers.
    if files.clients == Clients::Foreign {
        return Ok(Vec::new());
    }
    let (remote, companions) = match url {
        Some(url) => {
            let server = url.resolve()?;
            setup.permits.foreign_server(server)?;
            (server, Vec::new())
        }
        None => {
            offer.addresses.iter().try_for_each(|address| setup.permits.connection(*address))?;
            let device = options.socket.device(setup.local)?;
            let count = placement.workers();
            let hello = Hello::first(setup.secret, P::WORKLOAD, count);
            let companions =
                rendezvous::connect_all(setup, offer, device, hello, &PlannedPorts::NONE, |_| {
                    Ok(())
                })?;
            let second = offer.addresses.get(1).ok_or_else(|| LoadError::Unsupported {
                what: format!("an offer of {} addresses", offer.addresses.len()),
                why: "the second is that of the file server (do both ends run the same version?)"
                    .into(),
            })?;
            (*second, companions)
        }
    };
    let streams = placement.streams();
    let mut store = Store::new(files, setup, streams, files.is_upload())?;
    let mut dial = Dial::new(options, setup, remote)?;
    dial.security = common.security(Side::Active, setup.secret)?;
    store.is_secured = dial.security.is_some();
    let opening =
        |number| Opening { number, dial: dial.clone(), store: &store, secret: setup.secret };
    let session = |number| protocol.session(opening(number));
    let sessions = (0..streams).map(session).collect::<Result<Vec<_>, _>>()?;
    let mut companions = companions.into_iter();
    let mut workers = Workers::new();
    for (number, share) in (0_u32..).zip(deal(sessions, placement.workers())) {
        let companion = companions.next().map(Companion::new).transpose()?;
        workers.push(Box::new(ClientWorker::new(
            number,
            share,
            companion,
            placement.wait,
            files.timeout,
        )?));
    }
    Ok(workers)
}
