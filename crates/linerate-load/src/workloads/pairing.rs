//! Pairing of UDP sockets: one on each end per flow, connected to each other, without a datagram to
//! an unproven address.
//!
//! The passive end binds a socket per flow and offers the ports. The active end first opens its
//! companions (TCP), whose ends prove the trial's secret to each other, then sends pairing
//! datagrams from one socket per flow. An offer that names another address for a flow than for the
//! companions is refused: otherwise its author could make this host send to a third party. The
//! passive end connects each of its sockets to the port seen, only if the datagram carries the
//! flow's tag and comes from the proven address; until then it sends nothing at all. Strangers'
//! datagrams are counted and dropped.

use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use linerate_model::Side;
use linerate_sys::SysError;
use socket2::{Socket, Type};

use super::datagram::{self, HEADER_BYTES, Purpose, Tag, number_of};
use super::placement::Placement;
use super::ports::PlannedPorts;
use super::rendezvous::{self, Entrance, Hello, Opened};
use super::shared_port::{Pairings, READ_IN_A_ROW};
use super::socket_options::SocketOptions;
use super::sockets::{bound, zoned};
use crate::{Listener, LoadError, Offer, Patience, Permits, Result, Secret, Setup, Workers};

/// Interval between repetitions of a pairing datagram.
const REPEAT_EVERY: Duration = Duration::from_millis(20);
/// Interval between polls of the sockets.
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// Most datagrams dropped when a socket is connected to its flow's peer: more than any buffer has
/// of other flows'.
const DROPPED_IN_A_ROW: usize = 1 << 18;

/// Shape of a job to be paired.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The workload's number in a hello.
    pub(crate) workload: u32,
    /// Companions: one per worker.
    pub(crate) workers: u32,
    /// Flows; flow `f` belongs to worker `f % workers`.
    pub(crate) flows: u32,
}

impl Shape {
    /// Returns the shape of a job whose flows and workers the parameters `placement` place.
    pub(crate) fn of(workload: u32, placement: &Placement) -> Self {
        Self { workload, workers: placement.workers(), flows: placement.streams() }
    }
}

/// One end, paired.
#[derive(Debug)]
pub(crate) struct Paired {
    /// A connection per worker.
    pub(crate) companions: Vec<TcpStream>,
    /// A connected socket per flow.
    pub(crate) sockets: Vec<UdpSocket>,
    /// Connections and datagrams dropped during pairing.
    pub(crate) foreign: u64,
}

/// Sets the options of a flow's socket.
type Prepare = Box<dyn Fn(&Socket) -> Result<()> + Send>;

/// Place where the flows of a job arrive.
enum Flows {
    /// A bound socket for each flow.
    Own(Vec<UdpSocket>),
    /// The agent's port: each flow gets a socket when its pairing datagram has arrived.
    Shared(Pairings, Prepare),
}

impl std::fmt::Debug for Flows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own(sockets) => f.debug_tuple("Own").field(sockets).finish(),
            Self::Shared(pairings, _) => f.debug_tuple("Shared").field(pairings).finish(),
        }
    }
}

/// The passive end before it is paired.
#[derive(Debug)]
pub(crate) struct Waiting {
    entrance: Entrance,
    arriving: Flows,
    device: Option<String>,
    /// The companion's address, then the flows'.
    offer: Offer,
    secret: Secret,
    shape: Shape,
    planned: PlannedPorts,
    permits: Permits,
}

impl Waiting {
    /// Expects companions and flows at the agent's port, or binds a listener and a socket per flow;
    /// `prepare` sets the sockets' options.
    pub(crate) fn listen(
        setup: &Setup<'_>,
        device: Option<&str>,
        shape: Shape,
        planned: &PlannedPorts,
        prepare: impl Fn(&Socket) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let own = rendezvous::any_port(setup.local);
        let port = planned.destination(own).port();
        let is_planned = port != 0;
        setup.permits.port(port)?;
        let entrance = Entrance::open(setup, shape.workers, device)?;
        let mut addresses = vec![entrance.address()];
        let pairings = match (&entrance, setup.shared_port) {
            (Entrance::Shared(..), Some(port)) if !is_planned => port.expect_pairings(
                (0..shape.flows).map(|flow| datagram::pairing(setup.secret, flow)).collect(),
            ),
            _ => None,
        };
        let arriving = match pairings {
            Some(pairings) => {
                addresses.resize(shape.flows as usize + 1, addresses[0]);
                Flows::Shared(pairings, Box::new(prepare))
            }
            None => {
                let mut sockets = Vec::new();
                for _ in 0..shape.flows {
                    let socket = planned.receiving(own, device)?;
                    prepare(&socket)?;
                    addresses.push(rendezvous::local_address(&socket)?);
                    sockets.push(socket.into());
                }
                Flows::Own(sockets)
            }
        };
        Ok(Self {
            entrance,
            arriving,
            device: device.map(str::to_owned),
            offer: Offer { addresses },
            secret: setup.secret,
            shape,
            planned: planned.clone(),
            permits: setup.permits.clone(),
        })
    }

    /// Returns the addresses to connect to.
    pub(crate) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Waits for the companions and for a pairing datagram on every socket.
    pub(crate) fn accept(self, patience: Patience<'_>) -> Result<Paired> {
        let deadline = Instant::now() + patience.longest;
        let Shape { workload, workers, flows } = self.shape;
        let expected = Hello::first(self.secret, workload, workers);
        let arrivals = rendezvous::accept(&self.entrance, expected, &self.permits, patience)?;
        let mut foreign = arrivals.foreign;
        let ends: Vec<[SocketAddr; 2]> =
            arrivals.streams.iter().map(ends_of).collect::<Result<_, _>>()?;
        let of_flow = |flow: u32| ends[(flow % workers) as usize];
        if let Flows::Own(sockets) = &self.arriving {
            for (flow, socket) in (0..flows).zip(sockets) {
                if let Some(peer) = self.planned.expected(of_flow(flow)[1].ip(), flow) {
                    hear_only(socket, peer)?;
                }
            }
        }
        let mut met: Vec<Option<UdpSocket>> = (0..flows).map(|_| None).collect();
        let mut unpaired: Vec<u32> = (0..flows).collect();
        while !unpaired.is_empty() {
            patience.check()?;
            let mut failure = None;
            if let Flows::Shared(pairings, _) = &self.arriving {
                foreign += pairings.look();
            }
            unpaired.retain(|&flow| {
                let place = &mut met[flow as usize];
                let paired = self.pair(flow, of_flow(flow), place, &mut foreign);
                paired.map_err(|error| failure = Some(error)).is_ok_and(|paired| !paired)
            });
            if let Some(error) = failure {
                return Err(error);
            }
            if !unpaired.is_empty() && Instant::now() >= deadline {
                return Err(LoadError::Incomplete {
                    operation: format!("pair udp sockets of {}", self.offer.addresses[0].ip()),
                    arrived: flows as usize - unpaired.len(),
                    expected: flows as usize,
                    patience_ms: patience.longest.as_millis() as u64,
                    hint: "does a firewall drop UDP, or does an address translator split TCP and \
                        UDP?",
                });
            }
            std::thread::sleep(if unpaired.is_empty() { Duration::ZERO } else { LOOK_EVERY });
        }
        arrivals.give_go_ahead()?;
        let sockets = match self.arriving {
            Flows::Own(sockets) => sockets,
            Flows::Shared(..) => met.into_iter().flatten().collect(),
        };
        Ok(Paired { companions: arrivals.streams, sockets, foreign })
    }

    /// Looks for the pairing datagram of `flow`, whose companion has these ends: its own and the
    /// proven one. A flow at the agent's port gets a socket in `place`.
    fn pair(
        &self,
        flow: u32,
        [mut own, proven]: [SocketAddr; 2],
        place: &mut Option<UdpSocket>,
        foreign: &mut u64,
    ) -> Result<bool> {
        match &self.arriving {
            Flows::Own(sockets) => {
                let tag = Tag::new(self.secret, flow, Purpose::Pairing);
                pair(&sockets[flow as usize], tag, proven.ip(), foreign)
            }
            Flows::Shared(pairings, prepare) => {
                let Some(from) = pairings.sender(flow) else { return Ok(false) };
                if from.ip().to_canonical() != proven.ip() {
                    *foreign += 1;
                    return Ok(false);
                }
                own.set_port(pairings.port());
                let device = self.device.as_deref();
                let socket = bound(Type::DGRAM, own, device, |socket| socket.set_reuse_port(true))?;
                prepare(&socket)?;
                let socket = UdpSocket::from(socket);
                hear_only(&socket, from)?;
                socket
                    .set_nonblocking(false)
                    .map_err(|cause| SysError::new("pair", own.to_string(), cause))?;
                *place = Some(socket);
                Ok(true)
            }
        }
    }
}

/// Returns both addresses of a companion, this end's first.
fn ends_of(companion: &TcpStream) -> Result<[SocketAddr; 2]> {
    let both = companion.local_addr().and_then(|own| Ok([own, companion.peer_addr()?]));
    let both = both.map_err(|cause| SysError::new("pair with", "a companion", cause))?;
    // An IPv4 address in IPv6 notation is one of IPv4; any other keeps its zone.
    Ok(both.map(|end| match end.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), end.port()),
        IpAddr::V6(_) => end,
    }))
}

/// Parameters of a workload over paired sockets.
pub(crate) trait PairedParams: Clone + Send + 'static {
    /// Returns the shape of the job.
    fn shape(&self) -> Shape;

    /// Returns the options of the flows' sockets.
    fn options(&self) -> &SocketOptions;

    /// Returns the ports of the flows.
    fn planned(&self) -> &PlannedPorts {
        &PlannedPorts::NONE
    }

    /// Sets the options of a flow's socket.
    fn prepare(&self, socket: &Socket) -> Result<()>;

    /// Deals the paired sockets of one end to workers.
    fn deal(&self, end: Side, secret: Secret, paired: Paired) -> Result<Workers>;
}

/// Starts the passive end of a workload over paired sockets.
pub(crate) fn start_passive<P: PairedParams>(
    params: P,
    setup: &Setup<'_>,
) -> Result<Box<dyn Listener>> {
    let device = params.options().device(setup.local)?;
    let asked = params.clone();
    let prepare = move |socket: &Socket| asked.prepare(socket);
    let unpaired = Waiting::listen(setup, device, params.shape(), params.planned(), prepare)?;
    Ok(Box::new(PairedListener { params, unpaired }))
}

/// Starts the active end of a workload over paired sockets.
pub(crate) fn start_active<P: PairedParams>(
    params: &P,
    setup: &Setup<'_>,
    offer: &Offer,
) -> Result<Workers> {
    let device = params.options().device(setup.local)?;
    let prepare = |socket: &Socket| params.prepare(socket);
    let paired = connect(setup, offer, device, params.shape(), params.planned(), prepare)?;
    params.deal(Side::Active, setup.secret, paired)
}

struct PairedListener<P> {
    params: P,
    unpaired: Waiting,
}

impl<P: PairedParams> Listener for PairedListener<P> {
    fn offer(&self) -> Offer {
        self.unpaired.offer().clone()
    }

    fn accept(self: Box<Self>, patience: Patience<'_>) -> Result<Workers> {
        let secret = self.unpaired.secret;
        self.params.deal(Side::Passive, secret, self.unpaired.accept(patience)?)
    }
}

/// Connects `socket`, which shares its port with other flows', to its own flow's `peer`. Earlier
/// datagrams on it may be another flow's: they are dropped, and sent again.
fn hear_only(socket: &UdpSocket, peer: SocketAddr) -> Result<()> {
    let error = |cause| SysError::new("connect to", peer.to_string(), cause);
    socket.connect(peer).map_err(error)?;
    socket.set_nonblocking(true).map_err(error)?;
    for _ in 0..DROPPED_IN_A_ROW {
        if socket.recv(&mut [0; HEADER_BYTES]).is_err() {
            break;
        }
    }
    Ok(())
}

/// Reads the datagrams on `socket`; connects it to the sender of a pairing datagram from `proven`.
fn pair(socket: &UdpSocket, tag: Tag, proven: IpAddr, foreign: &mut u64) -> Result<bool> {
    let error = |cause| SysError::new("pair", rendezvous_name(socket), cause);
    socket.set_nonblocking(true).map_err(error)?;
    let mut bytes = [0; HEADER_BYTES];
    for _ in 0..READ_IN_A_ROW {
        let Ok((length, from)) = socket.recv_from(&mut bytes) else { break };
        if from.ip().to_canonical() == proven && number_of(&bytes[..length], tag).is_some() {
            socket.connect(from).map_err(error)?;
            socket.set_nonblocking(false).map_err(error)?;
            return Ok(true);
        }
        *foreign += 1;
    }
    Ok(false)
}

/// Opens the companions and the flows' sockets, and pairs them with the passive end's offer.
pub(crate) fn connect(
    setup: &Setup<'_>,
    offer: &Offer,
    device: Option<&str>,
    shape: Shape,
    planned: &PlannedPorts,
    mut prepare: impl FnMut(&Socket) -> Result<()>,
) -> Result<Paired> {
    let Shape { workload, workers, flows } = shape;
    let address = rendezvous::only_address(offer)?;
    offer.addresses.iter().try_for_each(|address| setup.permits.connection(*address))?;
    (0..flows)
        .try_for_each(|flow| setup.permits.port(planned.source(address.ip(), flow).port()))?;
    if offer.addresses.len() != flows as usize + 1 {
        return Err(LoadError::Unsupported {
            what: format!("an offer of {} addresses for {flows} flows", offer.addresses.len()),
            why:
                "one for the companions and one per flow are expected (do both ends have the same \
                parameters?)"
                    .into(),
        });
    }
    let deadline = Instant::now() + setup.patience;
    let own = SocketAddr::new(rendezvous::source_for(address, setup.local), 0);
    let mut companions = Vec::new();
    for index in 0..workers {
        let hello = Hello { secret: setup.secret, workload, index, count: workers };
        companions.push(rendezvous::connect(setup, address, own, device, hello, |_| Ok(()))?);
    }
    // No datagram leaves before the other end has proved that this address belongs to the trial.
    companions.iter_mut().try_for_each(|companion| companion.prove(deadline))?;
    // The datagrams must come from the address that the companions proved.
    let proven = companions[0].stream().local_addr();
    let proven = proven.map_err(|cause| SysError::new("pair with", address.to_string(), cause))?;
    let mut sockets: Vec<UdpSocket> = Vec::new();
    for (flow, remote) in (0..flows).zip(&offer.addresses[1..]) {
        let source = zoned(planned.source(proven.ip(), flow), setup.local);
        let socket = bound(Type::DGRAM, source, device, |_| Ok(()))?;
        prepare(&socket)?;
        socket
            .connect(&zoned(*remote, setup.local).into())
            .map_err(|cause| SysError::new("connect to", remote.to_string(), cause))?;
        sockets.push(socket.into());
    }
    let mut ready = 0;
    while ready < companions.len() {
        for (flow, socket) in sockets.iter().enumerate() {
            // A refusal by ICMP, or a loss, is repeated below.
            let _ = socket.send(&datagram::pairing(setup.secret, flow as u32));
        }
        let repeat_at = (Instant::now() + REPEAT_EVERY).min(deadline);
        while ready < companions.len() && companions[ready].take_go_ahead(repeat_at)? {
            ready += 1;
        }
        if ready < companions.len() && Instant::now() >= deadline {
            return Err(LoadError::Incomplete {
                operation: format!("pair udp flows with {address}"),
                arrived: ready,
                expected: companions.len(),
                patience_ms: setup.patience.as_millis() as u64,
                hint: "does a firewall drop UDP, or does an address translator split TCP and UDP?",
            });
        }
    }
    let companions = companions.into_iter().map(Opened::into_stream).collect();
    Ok(Paired { companions, sockets, foreign: 0 })
}

fn rendezvous_name(socket: &UdpSocket) -> String {
    socket
        .local_addr()
        .map_or_else(|_| "a udp socket".to_owned(), |address| format!("udp socket {address}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharedPort;
    use crate::workloads::datagram::write_header;

    const PATIENCE: Duration = Duration::from_secs(30);
    const WORKLOAD: u32 = u32::from_be_bytes(*b"test");
    const SECRET: Secret = Secret(*b"0123456789abcdef");

    fn sockets() -> (UdpSocket, UdpSocket) {
        let bound = || UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let (receiver, sender) = (bound(), bound());
        sender.connect(receiver.local_addr().expect("bound")).expect("loopback");
        (receiver, sender)
    }

    fn show(sender: &UdpSocket, secret: Secret, flow: u32, purpose: Purpose) {
        let mut datagram = [0; HEADER_BYTES];
        write_header(&mut datagram, Tag::new(secret, flow, purpose), 0, linerate_model::Nanos(0));
        sender.send(&datagram).expect("loopback");
    }

    /// Polls until `receiver` is paired, or `until` datagrams were dropped.
    fn look(
        receiver: &UdpSocket,
        tag: Tag,
        proven: [u8; 4],
        foreign: &mut u64,
        until: u64,
    ) -> bool {
        let patience = Instant::now() + Duration::from_secs(30);
        while *foreign < until && Instant::now() < patience {
            if pair(receiver, tag, proven.into(), foreign).expect("loopback") {
                return true;
            }
        }
        false
    }

    #[test]
    fn a_socket_is_paired_with_its_own_flows_sender_at_the_proven_address_only() {
        let (receiver, sender) = sockets();
        let (tag, own) = (Tag::new(SECRET, 1, Purpose::Pairing), [127, 0, 0, 1]);
        let mut foreign = 0;
        show(&sender, SECRET, 1, Purpose::Pairing);
        assert!(!look(&receiver, tag, [127, 0, 0, 2], &mut foreign, 1), "it comes from elsewhere");
        show(&sender, SECRET, 2, Purpose::Pairing);
        show(&sender, SECRET, 1, Purpose::Forward);
        show(&sender, Secret([0; 16]), 1, Purpose::Pairing);
        assert!(!look(&receiver, tag, own, &mut foreign, 4), "none is this flow's");
        assert_eq!(foreign, 4);
        assert!(receiver.peer_addr().is_err(), "it is connected to nobody");
        show(&sender, SECRET, 1, Purpose::Pairing);
        assert!(look(&receiver, tag, own, &mut foreign, u64::MAX));
        assert_eq!(receiver.peer_addr().expect("connected"), sender.local_addr().expect("bound"));
    }

    /// Expects one flow at `port`.
    fn waiting(port: &SharedPort) -> Waiting {
        let local = linerate_model::Endpoint {
            address: Some([127, 0, 0, 1].into()),
            ..linerate_model::Endpoint::named("b", "h")
        };
        let params = linerate_model::Params::default();
        let alone = Setup::alone(&params, &local, SECRET);
        let setup = Setup { patience: PATIENCE, shared_port: Some(port), ..alone };
        let shape = Shape { workload: WORKLOAD, workers: 1, flows: 1 };
        Waiting::listen(&setup, None, shape, &PlannedPorts::NONE, |_| Ok(())).expect("a port")
    }

    #[test]
    fn a_flow_at_the_agents_port_comes_from_the_proven_address_only() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let port = SharedPort::new(address);
        port.open_for_datagrams().expect("the same port is free for datagrams");
        let at = |address: &str| UdpSocket::bind(address).expect("loopback");
        let (elsewhere, proven) = (at("127.0.0.2:0"), at("127.0.0.1:0"));
        let datagram = datagram::pairing(SECRET, 0);

        // The whole accept: a proven companion, and a replayed datagram from elsewhere.
        let waiting_here = waiting(&port);
        elsewhere.send_to(&datagram, address).expect("loopback");
        let hello = Hello::first(SECRET, WORKLOAD, 1);
        let active = std::thread::spawn(move || rendezvous::tests::opened(address, hello));
        let (stream, _) = listener.accept().expect("loopback");
        let mut hello = [0; 64];
        let length = stream.peek(&mut hello).expect("a hello");
        port.pass_on(&hello[..length], stream);
        let accepting =
            std::thread::spawn(move || waiting_here.accept(Duration::from_millis(300).into()));
        let mut companion = active.join().expect("no panic");
        companion.prove(Instant::now() + PATIENCE).expect("it knows the secret");
        let refused = accepting.join().expect("no panic").expect_err("a flow from elsewhere");
        assert!(matches!(refused, LoadError::Incomplete { arrived: 0, .. }), "{refused}");

        // Its decision, datagram by datagram.
        let job = waiting(&port);
        let Flows::Shared(pairings, _) = &job.arriving else { panic!("the port is shared") };
        let (mut place, mut foreign) = (None, 0);
        let ends = [address, proven.local_addr().expect("bound")];
        for (sender, paired) in [(&elsewhere, false), (&proven, true)] {
            sender.send_to(&datagram, address).expect("loopback");
            assert_eq!(pairings.look(), 0, "it is expected");
            assert_eq!(job.pair(0, ends, &mut place, &mut foreign).expect("loopback"), paired);
            assert_eq!((place.is_some(), foreign), (paired, 1));
        }
        let socket = place.expect("it is paired");
        assert_eq!(socket.peer_addr().ok(), proven.local_addr().ok());
    }

    #[test]
    fn a_flood_does_not_keep_the_deadline_from_being_seen() {
        let (receiver, sender) = sockets();
        (0..READ_IN_A_ROW + 16)
            .for_each(|_| assert_eq!(sender.send(b"flood").expect("loopback"), 5));
        let mut foreign = 0;
        look(&receiver, Tag::new(SECRET, 0, Purpose::Pairing), [127, 0, 0, 1], &mut foreign, 1);
        assert!(
            (1..=READ_IN_A_ROW as u64).contains(&foreign),
            "{foreign} were read without a pause"
        );
    }
}
