//! How the two ends of a job find each other: TCP connections that open with a hello, and a go-ahead once all are there.
//!
//! The active end opens `count` connections to the passive one; each begins with a hello of 28 bytes: the session's
//! secret (16), then workload, index and count (big-endian, 4 each). A connection that says anything else, or nothing, is
//! dropped and counted as foreign. When all are there the passive end answers each with one byte. The TCP handshake
//! proves that the active end's address can receive, which is what datagrams are later allowed to rely on. Not seen:
//! who is at the other end beyond holding the secret; that was settled by the control channel.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use linerate_model::Endpoint;
use linerate_sys::SysError;
use socket2::{Socket, Type};

use super::ports::PlannedPorts;
use super::sockets::{bound, held};
use crate::{LoadError, Offer, Secret, Setup};

const HELLO_BYTES: usize = 28;
const SECRET_BYTES: usize = 16;
const GO_AHEAD: u8 = 0x06;
/// Connections whose hello is awaited at once; more than that are strangers.
const PENDING: usize = 4096;
/// How often what has arrived is looked at while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Accepted connections waiting in the kernel.
const BACKLOG: i32 = 4096;

/// What a connection says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Proof of the session.
    pub(crate) secret: Secret,
    /// The workload, so that two jobs' connections are not mistaken.
    pub(crate) workload: u32,
    /// Which of the connections this is.
    pub(crate) index: u32,
    /// How many there will be.
    pub(crate) count: u32,
}

impl Hello {
    fn to_bytes(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..SECRET_BYTES].copy_from_slice(&self.secret.0);
        let words = [self.workload, self.index, self.count];
        for (place, word) in bytes[SECRET_BYTES..].chunks_exact_mut(size_of::<u32>()).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; HELLO_BYTES]) -> Self {
        let (secret, words) = bytes.split_first_chunk::<SECRET_BYTES>().expect("a hello is longer");
        let mut words =
            words.chunks_exact(size_of::<u32>()).map(|word| u32::from_be_bytes(word.try_into().expect("four bytes")));
        let mut next = || words.next().expect("three words follow the secret");
        Self { secret: Secret(*secret), workload: next(), index: next(), count: next() }
    }
}

/// Whether two secrets are equal, in a time that does not tell how much of them is.
pub(crate) fn same_secret(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

/// The address this end binds to: its endpoint's, or any.
pub(crate) fn local_ip(local: &Endpoint) -> IpAddr {
    local.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// A free port of the address this end binds to.
pub(crate) fn any_port(local: &Endpoint) -> SocketAddr {
    SocketAddr::new(local_ip(local), 0)
}

/// A connection's port of before may linger (RFC 9293 clause 3.6.1): time stamps tell its segments from a new one's.
fn after_another(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.port() == 0 { Ok(()) } else { socket.set_reuse_address(true) }
}

/// A TCP listener.
pub(crate) fn listen(
    address: SocketAddr,
    device: Option<&str>,
    prepare: impl FnOnce(&Socket) -> Result<(), LoadError>,
) -> Result<TcpListener, LoadError> {
    let socket = bound(Type::STREAM, address, device, |socket| after_another(socket, address))?;
    prepare(&socket)?;
    let listening = socket.listen(BACKLOG);
    listening.map_err(|cause| held(address.port(), SysError::new("listen on", address.to_string(), cause)))?;
    Ok(socket.into())
}

/// The local address of a socket that is bound.
pub(crate) fn local_address(socket: &Socket) -> Result<SocketAddr, LoadError> {
    let unknown = || SysError::new("read the address of", "a bound socket", io::ErrorKind::AddrNotAvailable);
    Ok(socket.local_addr().ok().and_then(|address| address.as_socket()).ok_or_else(unknown)?)
}

/// The connections of one job at the passive end.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// In the order of their index.
    pub(crate) streams: Vec<TcpStream>,
    /// Connections dropped because their hello was not the session's.
    pub(crate) foreign: u64,
}

/// Waits for `expected.count` connections that say `expected` (whatever their index).
pub(crate) fn accept(listener: &TcpListener, expected: Hello, patience: Duration) -> Result<Arrivals, LoadError> {
    let object = || listener.local_addr().map_or_else(|_| "a listener".to_owned(), |address| address.to_string());
    listener.set_nonblocking(true).map_err(|cause| SysError::new("accept on", object(), cause))?;
    let deadline = Instant::now() + patience;
    let count = expected.count as usize;
    let mut streams: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    let mut pending: Vec<(TcpStream, [u8; HELLO_BYTES], usize)> = Vec::new();
    let mut foreign = 0;
    let mut arrived = 0;
    while arrived < count {
        while let Ok((stream, _)) = listener.accept() {
            if pending.len() < PENDING && stream.set_nonblocking(true).is_ok() {
                pending.push((stream, [0; HELLO_BYTES], 0));
            } else {
                foreign += 1;
            }
        }
        for (mut stream, mut bytes, mut filled) in std::mem::take(&mut pending) {
            match stream.read(&mut bytes[filled..]) {
                Ok(0) => foreign += 1,
                Ok(n) => {
                    filled += n;
                    if filled < HELLO_BYTES {
                        pending.push((stream, bytes, filled));
                        continue;
                    }
                    let said = Hello::from_bytes(&bytes);
                    let place = streams.get_mut(said.index as usize).filter(|place| place.is_none());
                    match place {
                        Some(place) if is_expected(said, expected) && stream.set_nonblocking(false).is_ok() => {
                            *place = Some(stream);
                            arrived += 1;
                        }
                        _ => foreign += 1,
                    }
                }
                Err(error) if would_wait(&error) => pending.push((stream, bytes, filled)),
                Err(_) => foreign += 1,
            }
        }
        if arrived < count {
            if Instant::now() >= deadline {
                return Err(LoadError::Incomplete {
                    operation: format!("accept connections on {}", object()),
                    arrived,
                    expected: count,
                    patience_ms: patience.as_millis() as u64,
                    hint: "does a firewall drop them, or does the other end lack a route back?",
                });
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
    listener.set_nonblocking(false).map_err(|cause| SysError::new("accept on", object(), cause))?;
    Ok(Arrivals { streams: streams.into_iter().flatten().collect(), foreign })
}

fn is_expected(said: Hello, expected: Hello) -> bool {
    same_secret(&said.secret.0, &expected.secret.0)
        && (said.workload, said.count) == (expected.workload, expected.count)
}

/// Lets the active end begin: every connection is there.
pub(crate) fn give_go_ahead<'a>(streams: impl IntoIterator<Item = &'a TcpStream>) -> Result<(), LoadError> {
    for mut stream in streams {
        stream.write_all(&[GO_AHEAD]).map_err(|cause| SysError::new("answer", peer(stream), cause))?;
    }
    Ok(())
}

/// Opens one connection from `source` to `address` and says `hello`. `prepare` sets options before it is opened.
pub(crate) fn connect(
    address: SocketAddr,
    source: SocketAddr,
    device: Option<&str>,
    hello: Hello,
    patience: Duration,
    prepare: impl FnOnce(&Socket) -> Result<(), LoadError>,
) -> Result<TcpStream, LoadError> {
    let socket = bound(Type::STREAM, source, device, |socket| after_another(socket, source))?;
    prepare(&socket)?;
    let error = |cause| SysError::new("connect to", address.to_string(), cause);
    let connected = socket.connect_timeout(&address.into(), patience).map_err(error);
    connected.map_err(|error| held(source.port(), error))?;
    let mut stream: TcpStream = socket.into();
    stream.write_all(&hello.to_bytes()).map_err(error)?;
    Ok(stream)
}

/// Opens `hello.count` connections to the first address of `offer`, each numbered in its hello and from its own port of `planned`, and
/// waits until all of them are there. `prepare` sets options before each is opened.
pub(crate) fn connect_all(
    setup: &Setup<'_>,
    offer: &Offer,
    device: Option<&str>,
    hello: Hello,
    planned: &PlannedPorts,
    prepare: impl Fn(&Socket) -> Result<(), LoadError>,
) -> Result<Vec<TcpStream>, LoadError> {
    let address = first_address(offer)?;
    let ip = source_for(address, setup.local);
    let mut streams = Vec::with_capacity(hello.count as usize);
    for index in 0..hello.count {
        streams.push(connect(
            address,
            planned.source(ip, index),
            device,
            Hello { index, ..hello },
            setup.patience,
            &prepare,
        )?);
    }
    take_every_go_ahead(&streams, setup.patience)?;
    Ok(streams)
}

/// The address to connect to `address` from: the endpoint's if it is of the same family, any otherwise.
pub(crate) fn source_for(address: SocketAddr, local: &Endpoint) -> IpAddr {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    local.address.filter(|ip| ip.is_ipv4() == address.is_ipv4()).unwrap_or(any)
}

/// Waits for the go-ahead on `stream`; `Ok(false)` if it did not come within `patience`.
pub(crate) fn take_go_ahead(stream: &TcpStream, patience: Duration) -> Result<bool, LoadError> {
    let error = |cause| SysError::new("wait for the other flows of", peer(stream), cause);
    stream.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).map_err(error)?;
    let mut answer = [0];
    let mut reader = stream;
    match reader.read(&mut answer) {
        Ok(1) if answer[0] == GO_AHEAD => Ok(true),
        Ok(_) => Err(error(io::ErrorKind::ConnectionAborted.into()).into()),
        Err(cause) if would_wait(&cause) => Ok(false),
        Err(cause) => Err(error(cause).into()),
    }
}

/// Waits for the go-ahead on every stream within `patience`.
pub(crate) fn take_every_go_ahead(streams: &[TcpStream], patience: Duration) -> Result<(), LoadError> {
    let deadline = Instant::now() + patience;
    for (arrived, stream) in streams.iter().enumerate() {
        if !take_go_ahead(stream, deadline.saturating_duration_since(Instant::now()))? {
            return Err(LoadError::Incomplete {
                operation: format!("wait for the other end's go-ahead from {}", peer(stream)),
                arrived,
                expected: streams.len(),
                patience_ms: patience.as_millis() as u64,
                hint: "is a stranger's flow missing there, or do datagrams not get through?",
            });
        }
    }
    Ok(())
}

/// The first address of an offer, or why there is none.
pub(crate) fn first_address(offer: &Offer) -> Result<SocketAddr, LoadError> {
    offer.addresses.first().copied().ok_or_else(|| LoadError::Unsupported {
        what: "an offer without addresses".into(),
        why: "the passive end must listen first (do both ends run the same version?)".into(),
    })
}

/// Whether a call failed only because nothing was there in time.
#[inline]
pub(crate) fn would_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn peer(stream: &TcpStream) -> String {
    stream.peer_addr().map_or_else(|_| "a closed connection".to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Secret = Secret(*b"0123456789abcdef");
    const PATIENCE: Duration = Duration::from_secs(5);

    fn endpoint() -> Endpoint {
        Endpoint {
            name: "a".into(),
            host: "h".into(),
            address: None,
            device: None,
            cpus: Vec::new(),
            pin: false,
            ncsi: None,
        }
    }

    fn hello(index: u32) -> Hello {
        Hello { secret: SECRET, workload: 7, index, count: 2 }
    }

    #[test]
    fn a_hello_is_these_bytes() {
        let bytes = hello(1).to_bytes();
        assert_eq!(&bytes[..16], b"0123456789abcdef");
        assert_eq!(bytes[16..], [0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!(Hello::from_bytes(&bytes), hello(1));
    }

    #[test]
    fn strangers_are_counted_and_the_session_still_comes_together() {
        let listener = listen("[::1]:0".parse().expect("an address"), None, |_| Ok(())).expect("loopback");
        let address = listener.local_addr().expect("bound");
        let from = SocketAddr::new(source_for(address, &endpoint()), 0);
        let accepting = std::thread::spawn(move || accept(&listener, hello(0), PATIENCE));
        let mut silent = TcpStream::connect(address).expect("loopback");
        let mut rude = TcpStream::connect(address).expect("loopback");
        rude.write_all(&[b'x'; 64]).expect("write");
        silent.write_all(b"0123").expect("write");
        let wrong = Hello { secret: Secret([1; 16]), ..hello(0) };
        let _wrong = connect(address, from, None, wrong, PATIENCE, |_| Ok(())).expect("loopback");
        // The rude and the wrong one must have been read before the session is complete.
        rude.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert!(matches!(rude.read(&mut [0]), Ok(0) | Err(_)));
        let two: Vec<_> = [1, 0]
            .map(|index| connect(address, from, None, hello(index), PATIENCE, |_| Ok(())).expect("loopback"))
            .into();
        let arrivals = accepting.join().expect("no panic").expect("both came");
        assert_eq!(arrivals.streams.len(), 2);
        assert_eq!(arrivals.streams[1].peer_addr().expect("open"), two[0].local_addr().expect("open"));
        assert_eq!(arrivals.foreign, 2);
        give_go_ahead(&arrivals.streams).expect("open");
        take_every_go_ahead(&two, PATIENCE).expect("both answered");
    }

    #[test]
    fn what_does_not_come_in_time_is_an_error_with_its_count() {
        let listener = listen("127.0.0.1:0".parse().expect("an address"), None, |_| Ok(())).expect("loopback");
        let error = accept(&listener, hello(0), Duration::from_millis(5)).expect_err("nobody came");
        assert!(error.to_string().contains("0 of 2 flows within 5 ms"), "{error}");
    }
}
