//! Connections whose other end has not proved its identity yet.
//!
//! One thread accepts them all. A connection waits, at the cost of one descriptor, until its whole
//! first message has arrived; a connection with other bytes is closed. The rest are met on a thread
//! each, within the budget of their source. Both sets are bounded. When one is full, a member of
//! the largest source is disconnected ([`crowd`]).

mod crowd;
mod refusals;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use linerate_sys::readiness::{Interest, Readiness};
use linerate_sys::socket::set_least_readable;

use crate::wire::GREETING_LIMIT;
use crowd::{Budgets, Crowd, Source};
pub(crate) use refusals::Refusals;

/// Most connections that wait for their first message at once. The usual limit of descriptors is
/// 1024.
const SILENT: usize = 512;
/// Most strangers that prove their identity at once, each on its own thread.
const MEETINGS: usize = 64;
/// Longest first message, bytes: a greeting, or a TLS record with its head (RFC 8446 clause 5.1).
pub(crate) const LONGEST_OPENING: usize = GREETING_LIMIT + 64;
/// Most connections accepted in a row before waiting ones are served.
const IN_A_ROW: usize = 64;
/// Longest interval between two checks of the clock while connections wait.
const TICK: Duration = Duration::from_millis(200);
/// The same while none waits. It is longer because each check disturbs measurements.
const IDLE_TICK: Duration = Duration::from_secs(2);
/// Pause after a failed accept(2), mostly for lack of descriptors.
const BREATH: Duration = Duration::from_millis(10);
/// Tokens of the listeners; connections are numbered from here.
const LISTENERS: u64 = 2;

/// Verdict on a connection's first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The beginning of a message. This many bytes are needed for the next verdict.
    Needs(usize),
    /// A whole first message.
    Whole,
    /// The beginning of a data connection that a trial expects.
    Data,
    /// Not a message; the reason.
    Foreign(String),
}

/// Service that strangers connect to.
pub(crate) trait Receptionist: Send + Sync + 'static {
    /// Returns the time that a connection has for its first message.
    fn patience(&self) -> Duration;

    /// Judges the first bytes of a connection. The number in `Needs` is larger than that of
    /// `bytes`, and at most [`LONGEST_OPENING`].
    fn opening(&self, bytes: &[u8]) -> Opening;

    /// Meets one stranger, on its own thread.
    fn meet(&self, socket: TcpStream, peer: SocketAddr, ticket: Ticket);

    /// Passes a data connection that begins with `bytes`, which are not read yet, to its trial.
    fn pass_on(&self, bytes: &[u8], socket: TcpStream) {
        let _ = (bytes, socket);
    }

    /// Called for a stranger that is refused before it is met.
    fn turned_away(&self, peer: SocketAddr, why: &str);

    /// Called a few times a second.
    fn tick(&self) {}
}

/// Admission of a stranger that is being met. Dropped when the stranger is known or refused.
pub(crate) struct Ticket {
    number: u64,
    meetings: Arc<Mutex<Meetings>>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.meetings).end(self.number);
    }
}

/// Strangers that are being met.
struct Meetings {
    crowd: Crowd,
    sockets: BTreeMap<u64, TcpStream>,
}

impl Meetings {
    /// Begins a meeting. Disconnects another stranger if there are too many.
    fn begin(&mut self, number: u64, source: Source, socket: TcpStream) {
        if let Some(victim) = self.crowd.join(number, source)
            && let Some(socket) = self.sockets.remove(&victim)
        {
            // Its thread sees the end of the stream. An error means that it has ended already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.sockets.insert(number, socket);
    }

    fn end(&mut self, number: u64) {
        self.crowd.leave(number);
        self.sockets.remove(&number);
    }
}

fn lock(meetings: &Mutex<Meetings>) -> MutexGuard<'_, Meetings> {
    meetings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connection whose first message is not complete.
struct Silent {
    socket: TcpStream,
    peer: SocketAddr,
    until: Instant,
    /// Bytes that are needed for the next verdict.
    needs: usize,
}

/// Accepts connections until `stopping`. A panic in a meeting ends that meeting only.
///
/// # Errors
/// If the listener cannot be waited for.
pub(crate) fn accept_all(
    listeners: &[TcpListener],
    stopping: &AtomicBool,
    receptionist: &Arc<impl Receptionist>,
) -> io::Result<()> {
    // One thread waits for all sockets, so none of them may block it.
    let readiness = Readiness::new().map_err(io::Error::other)?;
    for (token, listener) in (0..LISTENERS).zip(listeners) {
        listener.set_nonblocking(true)?;
        readiness.add(listener, token, Interest::Readable).map_err(io::Error::other)?;
    }
    // Random, so that strangers cannot compute who will be disconnected.
    let seed = || RandomState::new().build_hasher().finish();
    let meetings = Meetings { crowd: Crowd::new(MEETINGS, seed()), sockets: BTreeMap::new() };
    let mut lobby = Lobby {
        receptionist: Arc::clone(receptionist),
        readiness,
        crowd: Crowd::new(SILENT, seed()),
        // Ordered by arrival, which is also the order of their deadlines.
        silent: BTreeMap::new(),
        budgets: Budgets::default(),
        meetings: Arc::new(Mutex::new(meetings)),
        peeked: vec![0; LONGEST_OPENING],
        last: LISTENERS,
    };
    while !stopping.load(Ordering::Relaxed) {
        let tick = if lobby.silent.is_empty() { IDLE_TICK } else { TICK };
        for token in lobby.readiness.wait(tick).to_vec() {
            match listeners.get(token as usize) {
                Some(listener) => lobby.accept(listener),
                None => lobby.heard(token),
            }
        }
        // After the events: a message that arrived in time still counts.
        lobby.expire(Instant::now());
        receptionist.tick();
    }
    Ok(())
}

/// Connections that wait for their first message.
struct Lobby<R> {
    receptionist: Arc<R>,
    readiness: Readiness,
    crowd: Crowd,
    silent: BTreeMap<u64, Silent>,
    budgets: Budgets,
    meetings: Arc<Mutex<Meetings>>,
    /// Buffer for the first bytes of one connection.
    peeked: Vec<u8>,
    /// Number of the last connection.
    last: u64,
}

impl<R: Receptionist> Lobby<R> {
    fn accept(&mut self, listener: &TcpListener) {
        for _ in 0..IN_A_ROW {
            match listener.accept() {
                Ok((socket, peer)) => self.enter(socket, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return thread::sleep(BREATH),
            }
        }
    }

    fn enter(&mut self, socket: TcpStream, peer: SocketAddr) {
        self.last += 1;
        let number = self.last;
        let waits = socket.set_nonblocking(true).and_then(|()| {
            self.readiness.add(&socket, number, Interest::Readable).map_err(io::Error::other)
        });
        if let Err(error) = waits {
            return self
                .receptionist
                .turned_away(peer, &format!("cannot wait for its first message: {error}"));
        }
        let until = Instant::now() + self.receptionist.patience();
        self.silent.insert(number, Silent { socket, peer, until, needs: 1 });
        if let Some(victim) = self.crowd.join(number, peer.ip().into()) {
            self.turn_away(victim, "too many connections without a whole message");
        }
    }

    /// Judges the bytes that arrived on connection `number`: meets it, closes it or waits for more.
    fn heard(&mut self, number: u64) {
        let Some(silent) = self.silent.get_mut(&number) else { return };
        let peeked = silent.socket.peek(&mut self.peeked);
        let opening = match &peeked {
            // Readable with too few bytes means the end of the stream.
            Ok(read) if *read < silent.needs => Opening::Foreign(
                "it closed the connection before its first message was complete".into(),
            ),
            Ok(read) => self.receptionist.opening(&self.peeked[..*read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => Opening::Foreign(error.to_string()),
        };
        match opening {
            Opening::Whole => self.meet(number),
            Opening::Data => self.pass_on(number, peeked.unwrap_or(0)),
            Opening::Foreign(why) => self.turn_away(number, &why),
            Opening::Needs(bytes) => {
                silent.needs = bytes.min(LONGEST_OPENING);
                // Otherwise the bytes that are here would be reported again and again.
                if let Err(error) = set_least_readable(&silent.socket, silent.needs) {
                    self.turn_away(number, &error.to_string());
                }
            }
        }
    }

    fn meet(&mut self, number: u64) {
        let Some(peer) = self.silent.get(&number).map(|silent| silent.peer) else { return };
        let source = Source::from(peer.ip());
        // Handshakes are the costly part, so the budget applies to them and not to connections.
        if !self.budgets.take(source, Instant::now()) {
            return self.turn_away(number, "too many attempts from its address");
        }
        let Some(Silent { socket, .. }) = self.remove(number) else { return };
        if let Err(error) = self.begin(number, source, socket, peer) {
            self.receptionist.turned_away(peer, &format!("cannot start a thread for it: {error}"));
        }
    }

    /// Passes a data connection on, of which `read` bytes were peeked at. It proves itself to its
    /// trial, so no budget applies.
    fn pass_on(&mut self, number: u64, read: usize) {
        let Some(Silent { socket, peer, .. }) = self.remove(number) else { return };
        let freed = self.readiness.remove(&socket).map_err(io::Error::other);
        let least = || set_least_readable(&socket, 1).map_err(io::Error::other);
        match freed.and_then(|()| least()) {
            Ok(_) => self.receptionist.pass_on(&self.peeked[..read], socket),
            Err(error) => self.receptionist.turned_away(peer, &error.to_string()),
        }
    }

    fn begin(
        &mut self,
        number: u64,
        source: Source,
        socket: TcpStream,
        peer: SocketAddr,
    ) -> io::Result<()> {
        // Otherwise its later messages would be reported here again and again.
        self.readiness.remove(&socket).map_err(io::Error::other)?;
        set_least_readable(&socket, 1).map_err(io::Error::other)?;
        socket.set_nonblocking(false)?;
        lock(&self.meetings).begin(number, source, socket.try_clone()?);
        let ticket = Ticket { number, meetings: Arc::clone(&self.meetings) };
        let receptionist = Arc::clone(&self.receptionist);
        let meet = move || receptionist.meet(socket, peer, ticket);
        thread::Builder::new().name("linerate-greet".into()).spawn(meet).map(drop)
    }

    fn expire(&mut self, now: Instant) {
        while let Some((&number, silent)) = self.silent.first_key_value()
            && silent.until <= now
        {
            self.turn_away(number, "its first message was not complete in time");
        }
    }

    fn turn_away(&mut self, number: u64, why: &str) {
        if let Some(silent) = self.remove(number) {
            self.receptionist.turned_away(silent.peer, why);
        }
    }

    /// Removes a connection from those that wait.
    fn remove(&mut self, number: u64) -> Option<Silent> {
        self.crowd.leave(number);
        self.silent.remove(&number)
    }
}

/// Wakes a thread in [`accept_all`] on `address` after its `stopping` was set.
pub(crate) fn wake(address: SocketAddr) {
    let reachable = match address.ip() {
        std::net::IpAddr::V4(ip) if ip.is_unspecified() => {
            (std::net::Ipv4Addr::LOCALHOST, address.port()).into()
        }
        std::net::IpAddr::V6(ip) if ip.is_unspecified() => {
            (std::net::Ipv6Addr::LOCALHOST, address.port()).into()
        }
        _ => address,
    };
    // An error means that the thread has ended already.
    let _ = TcpStream::connect_timeout(&reachable, Duration::from_secs(1));
}
