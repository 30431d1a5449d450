//! Connections between the two ends of a job: TCP connections that begin with a proof of the
//! trial's secret, both ways ([`super::proof`]), and a go-ahead once all are complete.
//!
//! The active end opens `count` connections to the passive one. A connection that does not prove
//! the secret is dropped and counted as foreign; a listener that does not prove it receives a hello
//! of 44 bytes and nothing else. The TCP handshake and the proof together show that both addresses
//! belong to the trial, on which datagrams and frames later rely. The control channel has settled
//! the identity of the other end; here it only proves that it knows the secret.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use linerate_model::Endpoint;
use linerate_sys::SysError;
use linerate_sys::socket::bind_device;
use socket2::{Socket, Type};

use super::ports::PlannedPorts;
pub(crate) use super::proof::Hello;
use super::proof::{ANSWER_BYTES, Exchange, HELLO_BYTES, PROOF_BYTES, Role};
use super::shared_port::Intake;
use super::sockets::{bound, held, zoned};
use crate::{LoadError, Offer, Patience, Permits, Result, Setup};

/// Most connections beyond the expected ones that may be in the middle of their proof.
const STRANGERS: usize = 128;
/// Connections accepted in a row before the pending proofs and the clock are polled.
const IN_A_ROW: usize = 64;
/// Interval between polls while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Time for which a planned port is tried again while an earlier connection has it.
const PORT_FREED_WITHIN: Duration = Duration::from_secs(3);
/// Accepted connections waiting in the kernel.
const BACKLOG: i32 = 4096;

/// Returns true if two secrets are equal, in a time that does not reveal how much of them is.
pub(crate) fn same_secret(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

/// Returns the address that this end binds to: its endpoint's, or any.
fn local_ip(local: &Endpoint) -> IpAddr {
    local.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// Returns a free port of the address that this end binds to.
pub(crate) fn any_port(local: &Endpoint) -> SocketAddr {
    zoned(SocketAddr::new(local_ip(local), 0), local)
}

/// Allows the port of an earlier connection that may linger (RFC 9293 clause 3.6.1): time stamps
/// distinguish its segments from new ones.
fn after_another(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    // Only a chosen port can be held by an earlier connection.
    if address.port() == 0 { Ok(()) } else { socket.set_reuse_address(true) }
}

/// Opens a TCP listener.
pub(crate) fn listen(
    address: SocketAddr,
    device: Option<&str>,
    prepare: impl FnOnce(&Socket) -> Result<()>,
) -> Result<TcpListener> {
    let socket = bound(Type::STREAM, address, device, |socket| after_another(socket, address))?;
    prepare(&socket)?;
    let listening = socket.listen(BACKLOG);
    listening.map_err(|cause| {
        held(address.port(), SysError::new("listen on", address.to_string(), cause))
    })?;
    Ok(socket.into())
}

/// Place where the connections of a job arrive.
#[derive(Debug)]
pub(crate) enum Entrance {
    /// A port of the job's own, and its address.
    Own(TcpListener, SocketAddr),
    /// The agent's port, its address, and the interface that connections are bound to. The agent's
    /// listener is bound to none, so its SYN-ACK and proof follow the routing table.
    Shared(Intake, SocketAddr, Option<String>),
}

impl Entrance {
    /// Opens the agent's port for the `count` connections of this job, or where the agent has none
    /// for this endpoint, a free port of the job's own.
    pub(crate) fn open(setup: &Setup<'_>, count: u32, device: Option<&str>) -> Result<Self> {
        if let Some(entrance) = Self::shared(setup, count, device) {
            return Ok(entrance);
        }
        listen(any_port(setup.local), device, |_| Ok(())).and_then(Self::own)
    }

    /// Takes a listener of the job's own.
    pub(crate) fn own(listener: TcpListener) -> Result<Self> {
        let error = |cause| SysError::new("listen on", "a port of its own", cause);
        let address = listener.local_addr().map_err(error)?;
        Ok(Self::Own(listener, address))
    }

    /// Opens the agent's port for the `count` connections of this job.
    pub(crate) fn shared(setup: &Setup<'_>, count: u32, device: Option<&str>) -> Option<Self> {
        let port = setup.shared_port.filter(|port| !port.is_outdated())?;
        let address = port.address_of(setup.local)?;
        let intake = port.expect(setup.secret, count as usize + STRANGERS);
        Some(Self::Shared(intake, address, device.map(str::to_owned)))
    }

    /// Returns the address to connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Own(_, address) | Self::Shared(_, address, _) => *address,
        }
    }

    fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            Self::Own(listener, _) => listener.accept(),
            Self::Shared(intake, ..) => intake.next(),
        }
    }

    fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
        match self {
            Self::Own(listener, address) => Ok(listener
                .set_nonblocking(nonblocking)
                .map_err(|cause| SysError::new("accept on", address.to_string(), cause))?),
            // A queue never blocks.
            Self::Shared(..) => Ok(()),
        }
    }
}

/// Returns the local address of a bound socket.
pub(crate) fn local_address(socket: &Socket) -> Result<SocketAddr> {
    let unknown =
        || SysError::new("read the address of", "a bound socket", io::ErrorKind::AddrNotAvailable);
    Ok(socket.local_addr().ok().and_then(|address| address.as_socket()).ok_or_else(unknown)?)
}

/// The connections of one job at the passive end, each of which has proved the secret.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// In the order of their index.
    pub(crate) streams: Vec<TcpStream>,
    /// Connections dropped because they did not prove the secret.
    pub(crate) foreign: u64,
    /// The go-ahead of each stream.
    go_aheads: Vec<[u8; PROOF_BYTES]>,
}

impl Arrivals {
    /// Lets the active end begin: all connections are complete.
    pub(crate) fn give_go_ahead(&self) -> Result<()> {
        for (mut stream, go_ahead) in self.streams.iter().zip(&self.go_aheads) {
            stream
                .write_all(go_ahead)
                .map_err(|cause| SysError::new("answer", peer(stream), cause))?;
        }
        Ok(())
    }
}

/// A connection that has not proved the secret yet.
struct Stranger {
    stream: TcpStream,
    /// Known once the hello has arrived and was answered.
    exchange: Option<Exchange>,
    /// A hello, then a proof.
    bytes: [u8; HELLO_BYTES],
    filled: usize,
}

/// Result for a stranger.
enum Shown {
    /// Not decided yet.
    Nothing,
    /// It knows the secret.
    Proof(Exchange),
    /// It is not of this job.
    Foreign,
}

impl Stranger {
    /// Reads the stranger's bytes, and answers a hello.
    fn hear(&mut self, expected: Hello) -> Shown {
        loop {
            // A stranger cannot make this end read more than the next message has.
            let wanted = if self.exchange.is_some() { PROOF_BYTES } else { HELLO_BYTES };
            match self.stream.read(&mut self.bytes[self.filled..wanted]) {
                Ok(0) => return Shown::Foreign,
                Ok(n) => self.filled += n,
                Err(error) if would_wait(&error) => return Shown::Nothing,
                // A reset before the proof is a stranger like any other.
                Err(_) => return Shown::Foreign,
            }
            if self.filled < wanted {
                continue;
            }
            self.filled = 0;
            if let Some(exchange) = self.exchange {
                let proved = exchange.verify(Role::Active, &self.bytes[..PROOF_BYTES]);
                return if proved { Shown::Proof(exchange) } else { Shown::Foreign };
            }
            self.exchange = Exchange::expected(expected, &self.bytes);
            // A few bytes on an unused connection always have room.
            let answered =
                self.exchange.map(|exchange| self.stream.write_all(&exchange.answer_bytes()));
            if !matches!(answered, Some(Ok(()))) {
                return Shown::Foreign;
            }
        }
    }
}

/// Closes the connection that has been silent for longest; returns `false` if none is silent.
fn give_way(pending: &mut Vec<Stranger>) -> bool {
    // One that has sent a hello may be real; silent ones are the cheapest attack.
    let silent = pending.iter().position(|stranger| stranger.exchange.is_none());
    silent.map(|place| pending.remove(place)).is_some()
}

/// Waits for `expected.count` connections that prove `expected` (whatever their index), from
/// addresses that `permits` names.
pub(crate) fn accept(
    entrance: &Entrance,
    expected: Hello,
    permits: &Permits,
    patience: Patience<'_>,
) -> Result<Arrivals> {
    entrance.set_nonblocking(true)?;
    let deadline = Instant::now() + patience.longest;
    let count = expected.count as usize;
    let mut places: Vec<Option<(TcpStream, [u8; PROOF_BYTES])>> =
        (0..count).map(|_| None).collect();
    let mut pending: Vec<Stranger> = Vec::new();
    let (mut foreign, mut arrived, mut refused) = (0, 0, None);
    while arrived < count {
        for _ in 0..IN_A_ROW {
            let (stream, from) = match entrance.next() {
                Ok(accepted) => accepted,
                Err(cause) if would_wait(&cause) => break,
                // Mostly a lack of descriptors.
                Err(_) => {
                    foreign += u64::from(give_way(&mut pending));
                    break;
                }
            };
            let refusal = permits.destination(from.ip()).err();
            // The limit bounds descriptors. Expected connections always find room beside strangers.
            let is_full = pending.len() >= count - arrived + STRANGERS;
            foreign += u64::from(is_full && give_way(&mut pending));
            let has_room = pending.len() < count - arrived + STRANGERS;
            if refusal.is_none() && has_room && stream.set_nonblocking(true).is_ok() {
                pending.push(Stranger {
                    stream,
                    exchange: None,
                    bytes: [0; HELLO_BYTES],
                    filled: 0,
                });
            } else {
                foreign += 1;
                // The owner's refusal explains best why nobody arrived.
                refused = refusal.or(refused);
            }
        }
        for mut stranger in std::mem::take(&mut pending) {
            match stranger.hear(expected) {
                Shown::Nothing => pending.push(stranger),
                Shown::Foreign => foreign += 1,
                Shown::Proof(exchange) => {
                    // A second connection with the same index is a repetition or an attack.
                    match places.get_mut(exchange.index()).filter(|place| place.is_none()) {
                        Some(place) if stranger.stream.set_nonblocking(false).is_ok() => {
                            *place = Some((stranger.stream, exchange.prove(Role::GoAhead)));
                            arrived += 1;
                        }
                        _ => foreign += 1,
                    }
                }
            }
        }
        // Checked only while some are missing: a complete set never times out.
        if arrived < count {
            patience.check()?;
            if Instant::now() >= deadline {
                return Err(refused.unwrap_or_else(|| LoadError::Incomplete {
                    operation: format!("accept connections on {}", entrance.address()),
                    arrived,
                    expected: count,
                    patience_ms: patience.longest.as_millis() as u64,
                    hint: "does a firewall drop them, or does the other end lack a route back?",
                }));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
    entrance.set_nonblocking(false)?;
    let (streams, go_aheads): (Vec<_>, _) = places.into_iter().flatten().unzip();
    if let Entrance::Shared(_, _, Some(device)) = entrance {
        // After the proof, so that a failure is the job's and not a stranger's.
        streams.iter().try_for_each(|stream| bind_device(stream, device))?;
    }
    Ok(Arrivals { streams, foreign, go_aheads })
}

/// A connection at the active end, on its way to the go-ahead.
#[derive(Debug)]
pub(crate) struct Opened {
    stream: TcpStream,
    exchange: Exchange,
    answer: [u8; ANSWER_BYTES],
    filled: usize,
}

impl Opened {
    /// The connection itself.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The connection itself, after the go-ahead.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Waits until `deadline` for the other end's proof of the secret, and sends this end's.
    pub(crate) fn prove(&mut self, deadline: Instant) -> Result<()> {
        if !self.read(ANSWER_BYTES, deadline)? {
            return Err(LoadError::Unsupported {
                what: format!("load to {}", peer(&self.stream)),
                why: "it accepted a connection and did not prove in time that it belongs to this \
                    trial, so nothing is sent to it (does another program listen there?)"
                    .into(),
            });
        }
        let answer = self.answer;
        if !self.exchange.take_answer(&answer) {
            return Err(LoadError::Unsupported {
                what: format!("load to {}", peer(&self.stream)),
                why: "it does not know this trial's secret: it is not the other end, and nothing \
                    is sent to it"
                    .into(),
            });
        }
        self.filled = 0;
        let error = |cause| SysError::new("prove the trial's secret to", peer(&self.stream), cause);
        let proof = self.exchange.prove(Role::Active);
        Ok((&self.stream).write_all(&proof).map_err(error)?)
    }

    /// Waits for the go-ahead; returns `Ok(false)` if it did not arrive before `deadline`.
    pub(crate) fn take_go_ahead(&mut self, deadline: Instant) -> Result<bool> {
        if !self.read(PROOF_BYTES, deadline)? {
            return Ok(false);
        }
        if self.exchange.verify(Role::GoAhead, &self.answer[..PROOF_BYTES]) {
            return Ok(true);
        }
        Err(SysError::new(
            "wait for the go-ahead of",
            peer(&self.stream),
            io::ErrorKind::InvalidData,
        )
        .into())
    }

    /// Fills the first `wanted` bytes of the answer; `Ok(false)` if they did not come before
    /// `deadline`.
    fn read(&mut self, wanted: usize, deadline: Instant) -> Result<bool> {
        let error = |cause| SysError::new("wait for the other flows of", peer(&self.stream), cause);
        while self.filled < wanted {
            let left =
                deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            // The timeout is set anew, because each read may use up a part of the time.
            self.stream.set_read_timeout(Some(left)).map_err(error)?;
            match (&self.stream).read(&mut self.answer[self.filled..wanted]) {
                Ok(0) => return Err(error(io::ErrorKind::ConnectionAborted.into()).into()),
                Ok(n) => self.filled += n,
                Err(cause) if would_wait(&cause) && Instant::now() >= deadline => return Ok(false),
                Err(cause) if would_wait(&cause) => {}
                Err(cause) => return Err(error(cause).into()),
            }
        }
        Ok(true)
    }
}

/// Returns what to check if nothing answers at `port`.
pub(crate) fn hint_at_firewall(port: u16) -> String {
    format!(
        "does a firewall drop TCP to port {port} there? `docs/security.md#ports` lists what uses \
            other ports than the agent's"
    )
}

/// Returns true if an earlier connection still has the port of `source`, such as one of the last
/// trial whose other end has not closed yet.
fn is_held(source: SocketAddr, cause: &io::Error) -> bool {
    source.port() != 0 && cause.kind() == io::ErrorKind::AddrNotAvailable
}

/// Opens one connection from `source` to `address` and sends `hello`. `prepare` sets options before
/// it is opened.
pub(crate) fn connect(
    setup: &Setup<'_>,
    address: SocketAddr,
    source: SocketAddr,
    device: Option<&str>,
    hello: Hello,
    prepare: impl Fn(&Socket) -> Result<()>,
) -> Result<Opened> {
    setup.permits.connection(address)?;
    setup.permits.port(source.port())?;
    let (address, source) = (zoned(address, setup.local), zoned(source, setup.local));
    let error = |cause| SysError::new("connect to", address.to_string(), cause);
    let until = Instant::now() + setup.patience.min(PORT_FREED_WITHIN);
    let socket = loop {
        // A socket whose connect failed cannot be used again.
        let socket = bound(Type::STREAM, source, device, |socket| after_another(socket, source))?;
        prepare(&socket)?;
        match socket.connect_timeout(&address.into(), setup.patience) {
            Ok(()) => break socket,
            Err(cause) if is_held(source, &cause) && Instant::now() < until => {
                std::thread::sleep(LOOK_EVERY)
            }
            Err(cause) if cause.kind() == io::ErrorKind::TimedOut => {
                return Err(LoadError::Unsupported {
                    what: error(cause).to_string(),
                    why: hint_at_firewall(address.port()),
                });
            }
            Err(cause) => return Err(held(source.port(), error(cause))),
        }
    };
    let mut stream: TcpStream = socket.into();
    let exchange = Exchange::open(hello);
    stream.write_all(&exchange.hello_bytes()).map_err(error)?;
    Ok(Opened { stream, exchange, answer: [0; ANSWER_BYTES], filled: 0 })
}

/// Opens `hello.count` connections to the first address of `offer`, each numbered in its hello and
/// from its own port of `planned`. Waits until all of them have proved the secret. `prepare` sets
/// options before each is opened.
pub(crate) fn connect_all(
    setup: &Setup<'_>,
    offer: &Offer,
    device: Option<&str>,
    hello: Hello,
    planned: &PlannedPorts,
    prepare: impl Fn(&Socket) -> Result<()>,
) -> Result<Vec<TcpStream>> {
    let address = only_address(offer)?;
    let ip = source_for(address, setup.local);
    let deadline = Instant::now() + setup.patience;
    let mut opened = Vec::with_capacity(hello.count as usize);
    for index in 0..hello.count {
        let hello = Hello { index, ..hello };
        opened.push(connect(setup, address, planned.source(ip, index), device, hello, &prepare)?);
    }
    // All proofs come before the first go-ahead: the passive end waits for every connection.
    opened.iter_mut().try_for_each(|opened| opened.prove(deadline))?;
    take_every_go_ahead(opened, setup.patience)
}

/// Returns the source address of connections to `address`: the endpoint's if it is of the same
/// family, any otherwise.
pub(crate) fn source_for(address: SocketAddr, local: &Endpoint) -> IpAddr {
    let any: IpAddr = if address.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    local.address.filter(|ip| ip.is_ipv4() == address.is_ipv4()).unwrap_or(any)
}

/// Waits for the go-ahead on every connection within `patience`.
fn take_every_go_ahead(opened: Vec<Opened>, patience: Duration) -> Result<Vec<TcpStream>> {
    let deadline = Instant::now() + patience;
    let (mut streams, expected) = (Vec::with_capacity(opened.len()), opened.len());
    for mut opened in opened {
        if !opened.take_go_ahead(deadline)? {
            return Err(LoadError::Incomplete {
                operation: format!(
                    "wait for the other end's go-ahead from {}",
                    peer(&opened.stream)
                ),
                arrived: streams.len(),
                expected,
                patience_ms: patience.as_millis() as u64,
                hint: "is a stranger's flow missing there, or do datagrams not get through?",
            });
        }
        streams.push(opened.into_stream());
    }
    Ok(streams)
}

/// Returns the first address of an offer, where the secret is proved. All others must be of the
/// same host, because a proof at one address is no proof of another.
pub(crate) fn only_address(offer: &Offer) -> Result<SocketAddr> {
    let first = offer.addresses.first().copied().ok_or_else(|| LoadError::Unsupported {
        what: "an offer without addresses".into(),
        why: "the passive end must listen first (do both ends run the same version?)".into(),
    })?;
    let same = |other: &&SocketAddr| other.ip().to_canonical() == first.ip().to_canonical();
    match offer.addresses.iter().find(|other| !same(other)) {
        None => Ok(first),
        Some(elsewhere) => Err(LoadError::Unsupported {
            what: format!("an offer to send to {}", elsewhere.ip()),
            why: format!(
                "the other end is {}: this host sends to no address that has not proved the secret",
                first.ip()
            ),
        }),
    }
}

/// Returns true if a call failed only because nothing arrived in time.
#[inline]
pub(crate) fn would_wait(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn peer(stream: &TcpStream) -> String {
    stream
        .peer_addr()
        .map_or_else(|_| "a closed connection".to_owned(), |address| address.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::Secret;

    const SECRET: Secret = Secret(*b"0123456789abcdef");
    const PATIENCE: Duration = Duration::from_secs(5);

    fn endpoint() -> Endpoint {
        Endpoint::named("a", "h")
    }

    fn hello(index: u32) -> Hello {
        Hello { secret: SECRET, workload: 7, index, count: 2 }
    }

    /// Opens a connection to `address` and sends `hello`.
    pub(crate) fn opened(address: SocketAddr, hello: Hello) -> Opened {
        opened_from(0, address, hello)
    }

    fn opened_from(port: u16, address: SocketAddr, hello: Hello) -> Opened {
        let (params, local) = (linerate_model::Params::default(), endpoint());
        let setup = Setup { patience: PATIENCE, ..Setup::alone(&params, &local, hello.secret) };
        let from = SocketAddr::new(source_for(address, &local), port);
        connect(&setup, address, from, None, hello, |_| Ok(())).expect("loopback")
    }

    #[test]
    fn a_planned_port_that_a_connection_of_before_still_has_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let before = Socket::new(socket2::Domain::IPV4, Type::STREAM, None).expect("a socket");
        before.set_reuse_address(true).expect("an option");
        // A port that the kernel chooses for connect(2) may be another connection's, too.
        before.bind(&SocketAddr::from(([0, 0, 0, 0], 0)).into()).expect("a free port");
        before.connect(&address.into()).expect("loopback");
        let port = before.local_addr().expect("bound").as_socket().expect("an address").port();
        let closing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(before);
        });
        let stream = opened_from(port, address, hello(0)).stream;
        assert_eq!(stream.local_addr().expect("bound").port(), port);
        closing.join().expect("it sleeps only");
    }

    fn own(listener: TcpListener) -> Entrance {
        Entrance::own(listener).expect("bound")
    }

    fn accepting(listener: TcpListener) -> std::thread::JoinHandle<Result<Arrivals>> {
        let entrance = own(listener);
        std::thread::spawn(move || {
            accept(&entrance, hello(0), &Permits::EVERYTHING, PATIENCE.into())
        })
    }

    fn in_time() -> Instant {
        Instant::now() + PATIENCE
    }

    #[test]
    fn strangers_are_counted_and_the_session_still_comes_together() {
        let listener =
            listen("[::1]:0".parse().expect("an address"), None, |_| Ok(())).expect("loopback");
        let address = listener.local_addr().expect("bound");
        let accepting = accepting(listener);
        let mut silent = TcpStream::connect(address).expect("loopback");
        let mut rude = TcpStream::connect(address).expect("loopback");
        rude.write_all(&[b'x'; 64]).expect("write");
        silent.write_all(b"0123").expect("write");
        let mut wrong = opened(address, Hello { secret: Secret([1; 16]), ..hello(0) });
        let why = wrong.prove(in_time()).expect_err("it has another secret");
        assert!(why.to_string().contains("does not know this trial's secret"), "{why}");
        // A persistent stranger with a false proof: both strangers must have been read before the
        // session is complete.
        wrong.stream().write_all(&wrong.exchange.prove(Role::Active)).expect("write");
        for stranger in [wrong.stream(), &rude] {
            stranger.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            assert!(matches!((&*stranger).read(&mut [0]), Ok(0) | Err(_)));
        }
        let mut two = [1, 0].map(|index| opened(address, hello(index)));
        two.iter_mut()
            .try_for_each(|opened| opened.prove(in_time()))
            .expect("the other end knows the secret");
        let arrivals = accepting.join().expect("no panic").expect("both came");
        assert_eq!(arrivals.streams.len(), 2);
        assert_eq!(
            arrivals.streams[1].peer_addr().expect("open"),
            two[0].stream().local_addr().expect("open")
        );
        assert_eq!(arrivals.foreign, 2);
        arrivals.give_go_ahead().expect("open");
        assert_eq!(take_every_go_ahead(two.into(), PATIENCE).expect("both answered").len(), 2);
    }

    #[test]
    fn strangers_that_say_nothing_make_room_for_those_that_prove_the_secret() {
        let listener =
            listen("127.0.0.1:0".parse().expect("an address"), None, |_| Ok(())).expect("loopback");
        let address = listener.local_addr().expect("bound");
        let silent: Vec<_> =
            (0..STRANGERS + 8).map(|_| TcpStream::connect(address).expect("loopback")).collect();
        let accepting = accepting(listener);
        let mut two = [0, 1].map(|index| opened(address, hello(index)));
        two.iter_mut()
            .try_for_each(|opened| opened.prove(in_time()))
            .expect("there is room for them");
        let arrivals = accepting.join().expect("no panic").expect("both came");
        assert_eq!(
            arrivals.foreign,
            (silent.len() - STRANGERS) as u64,
            "closed before both had come"
        );
    }

    #[test]
    fn a_listener_that_does_not_prove_the_secret_hears_a_hello_and_nothing_else() {
        // Like the attack: it accepts, and sends the go-ahead of earlier versions; or echoes its
        // input.
        for answer in [&[0x06][..], &[0x06; ANSWER_BYTES], &[]] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
            let address = listener.local_addr().expect("bound");
            let mut opened = opened(address, hello(0));
            let (mut stranger, _) = listener.accept().expect("loopback");
            let mut heard = vec![0; HELLO_BYTES];
            stranger.read_exact(&mut heard).expect("a hello");
            assert!(
                !heard.windows(SECRET.0.len()).any(|bytes| bytes == SECRET.0),
                "the secret is not shown"
            );
            let answer =
                if answer.is_empty() { [&heard[..], &[0; 20]].concat() } else { answer.to_vec() };
            stranger.write_all(&answer).expect("write");
            stranger.shutdown(std::net::Shutdown::Write).expect("open");
            opened.prove(in_time()).expect_err("it proves nothing");
            drop(opened);
            let mut rest = Vec::new();
            // A reset is an end, too.
            let _ = stranger.read_to_end(&mut rest);
            assert!(rest.is_empty(), "{rest:?}");
        }
    }

    #[test]
    fn a_peer_with_the_secret_at_an_address_outside_the_policy_is_refused() {
        let listener =
            listen("127.0.0.1:0".parse().expect("an address"), None, |_| Ok(())).expect("loopback");
        let address = listener.local_addr().expect("bound");
        let destinations = vec!["198.18.0.0/15".parse().expect("a network")];
        let permits = Permits::only(crate::Limits { destinations, ..crate::Limits::new("policy") });
        let _two = [0, 1].map(|index| opened(address, hello(index)));
        let patience = Duration::from_millis(200).into();
        let refused = accept(&own(listener), hello(0), &permits, patience).expect_err("not named");
        assert!(refused.to_string().contains("destinations = [\"127.0.0.1\"]"), "{refused}");
    }

    #[test]
    fn a_go_ahead_without_the_secret_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut opened = opened(listener.local_addr().expect("bound"), hello(0));
        let (mut passive, _) = listener.accept().expect("loopback");
        let mut heard = [0; HELLO_BYTES];
        passive.read_exact(&mut heard).expect("a hello");
        let exchange = Exchange::expected(hello(0), &heard).expect("it is expected");
        passive.write_all(&exchange.answer_bytes()).expect("write");
        opened.prove(in_time()).expect("it knows the secret");
        assert!(!opened.take_go_ahead(Instant::now()).expect("nothing came"), "not yet");
        passive.write_all(&exchange.prove(Role::Passive)).expect("write");
        opened.take_go_ahead(in_time()).expect_err("another proof is no go-ahead");
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(same_secret(b"secret", b"secret") && same_secret(b"", b""));
        for other in [&b"secreT"[..], b"Secret", b"secre", b"secrets", b""] {
            assert!(!same_secret(b"secret", other), "{other:?}");
        }
    }

    #[test]
    fn addresses_of_an_offer_are_of_one_host() {
        let offer = |addresses: &[&str]| Offer {
            addresses: addresses
                .iter()
                .map(|address| address.parse().expect("an address"))
                .collect(),
        };
        assert!(
            only_address(&offer(&["192.0.2.1:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3"])).is_ok()
        );
        let why = only_address(&offer(&["192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:2"]))
            .expect_err("two hosts");
        assert!(why.to_string().contains("an offer to send to 192.0.2.2"), "{why}");
        only_address(&offer(&[])).expect_err("none");
    }

    #[test]
    fn missing_connections_are_an_error_with_their_count() {
        let listener =
            listen("127.0.0.1:0".parse().expect("an address"), None, |_| Ok(())).expect("loopback");
        let patience = Duration::from_millis(5).into();
        let error = accept(&own(listener), hello(0), &Permits::EVERYTHING, patience)
            .expect_err("nobody came");
        assert!(error.to_string().contains("0 of 2 flows within 5 ms"), "{error}");
    }

    #[test]
    fn nobody_is_waited_for_once_the_trial_has_ended() {
        let listener =
            listen("127.0.0.1:0".parse().expect("an address"), None, |_| Ok(())).expect("loopback");
        let is_over = AtomicBool::new(true);
        let patience = Patience::until(PATIENCE, &is_over);
        let error = accept(&own(listener), hello(0), &Permits::EVERYTHING, patience)
            .expect_err("nobody came");
        assert!(matches!(error, LoadError::Ended), "{error}");
    }
}
