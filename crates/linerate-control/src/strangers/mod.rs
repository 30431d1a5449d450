//! Connections whose other end has not proved anything yet.
//!
//! One thread accepts them all. A connection waits beside the others, at the cost of a descriptor,
//! until its whole first message is here; one that says what nobody here speaks is closed. What is
//! left is met on a thread of its own, within its source's budget. Both crowds are bounded, and in
//! a full one a member of the largest source gives way ([`crowd`]).

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

/// Connections that may wait for their first message at once. The usual limit of descriptors is
/// 1024.
const SILENT: usize = 512;
/// Strangers that may be proving who they are at once, each on a thread.
const MEETINGS: usize = 64;
/// Longest first message that is waited for, bytes: a greeting, or a TLS record with its head (RFC
/// 8446 clause 5.1).
pub(crate) const LONGEST_OPENING: usize = GREETING_LIMIT + 64;
/// Connections taken in a row before those that wait are looked at.
const IN_A_ROW: usize = 64;
/// How often the clock is looked at while somebody waits, and while nobody does: each look disturbs
/// what is measured.
const TICK: Duration = Duration::from_millis(200);
const IDLE_TICK: Duration = Duration::from_secs(2);
/// Wait after the kernel could not give us a connection (out of descriptors, mostly).
const BREATH: Duration = Duration::from_millis(10);
/// The listener among the sockets that are waited for; connections are numbered from 1.
const LISTENER: u64 = 0;

/// What a connection's first bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The beginning of a message; so many bytes are needed to know more.
    Needs(usize),
    /// A whole first message.
    Whole,
    /// No message; why.
    Foreign(String),
}

/// Whoever strangers want to see.
pub(crate) trait Receptionist: Send + Sync + 'static {
    /// How long a connection may be silent before it is closed.
    fn patience(&self) -> Duration;

    /// What the first bytes of a connection are; `Needs` is more than there are, and at most
    /// [`LONGEST_OPENING`].
    fn opening(&self, bytes: &[u8]) -> Opening;

    /// Meets one stranger, on a thread of its own.
    fn meet(&self, socket: TcpStream, peer: SocketAddr, ticket: Ticket);

    /// Learns that a stranger was turned away before it was met.
    fn turned_away(&self, peer: SocketAddr, why: &str);

    /// Called a few times a second.
    fn tick(&self) {}
}

/// A stranger's place; given up when dropped, which is when it is known, or turned away.
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
    /// Begins a meeting; cuts off another one if there is no place left.
    fn begin(&mut self, number: u64, source: Source, socket: TcpStream) {
        if let Some(victim) = self.crowd.join(number, source)
            && let Some(socket) = self.sockets.remove(&victim)
        {
            // Its thread sees the end of the stream; if it is gone already, so much the better.
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

/// A connection that has not said anything yet.
struct Silent {
    socket: TcpStream,
    peer: SocketAddr,
    until: Instant,
    /// Bytes of its first message, as far as they are known.
    needs: usize,
}

/// Takes connections until `stopping`. A thread that panics in a meeting ends alone.
///
/// # Errors
/// If the listener cannot be waited for.
pub(crate) fn accept_all(
    listener: &TcpListener,
    stopping: &AtomicBool,
    receptionist: &Arc<impl Receptionist>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let readiness = Readiness::new().map_err(io::Error::other)?;
    readiness.add(listener, LISTENER, Interest::Readable).map_err(io::Error::other)?;
    let seed = || RandomState::new().build_hasher().finish();
    let meetings = Meetings { crowd: Crowd::new(MEETINGS, seed()), sockets: BTreeMap::new() };
    let mut lobby = Lobby {
        receptionist: Arc::clone(receptionist),
        readiness,
        crowd: Crowd::new(SILENT, seed()),
        // In the order in which they came, which is the order in which their patience ends.
        silent: BTreeMap::new(),
        budgets: Budgets::default(),
        meetings: Arc::new(Mutex::new(meetings)),
        peeked: vec![0; LONGEST_OPENING],
        last: LISTENER,
    };
    while !stopping.load(Ordering::Relaxed) {
        let tick = if lobby.silent.is_empty() { IDLE_TICK } else { TICK };
        for token in lobby.readiness.wait(tick).to_vec() {
            if token == LISTENER {
                lobby.accept(listener);
            } else {
                lobby.heard(token);
            }
        }
        lobby.expire(Instant::now());
        receptionist.tick();
    }
    Ok(())
}

/// Where connections wait for their first message.
struct Lobby<R> {
    receptionist: Arc<R>,
    readiness: Readiness,
    crowd: Crowd,
    silent: BTreeMap<u64, Silent>,
    budgets: Budgets,
    meetings: Arc<Mutex<Meetings>>,
    /// Of the connection that is looked at.
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
                .turned_away(peer, &format!("wait for its first message: {error}"));
        }
        let until = Instant::now() + self.receptionist.patience();
        self.silent.insert(number, Silent { socket, peer, until, needs: 1 });
        if let Some(victim) = self.crowd.join(number, peer.ip().into()) {
            self.turn_away(victim, "too many connections without a whole message");
        }
    }

    /// Something came on connection `number`: it is met, closed, or waits for the rest.
    fn heard(&mut self, number: u64) {
        let Some(silent) = self.silent.get_mut(&number) else { return };
        let opening = match silent.socket.peek(&mut self.peeked) {
            // It is readable although this is not enough: nothing more will come.
            Ok(read) if read < silent.needs => Opening::Foreign(
                "it closed the connection before its first message was whole".into(),
            ),
            Ok(read) => self.receptionist.opening(&self.peeked[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => Opening::Foreign(error.to_string()),
        };
        match opening {
            Opening::Whole => self.meet(number),
            Opening::Foreign(why) => self.turn_away(number, &why),
            Opening::Needs(bytes) => {
                silent.needs = bytes.min(LONGEST_OPENING);
                // What is here already must not be reported again and again.
                if let Err(error) = set_least_readable(&silent.socket, silent.needs) {
                    self.turn_away(number, &error.to_string());
                }
            }
        }
    }

    fn meet(&mut self, number: u64) {
        let Some(peer) = self.silent.get(&number).map(|silent| silent.peer) else { return };
        let source = Source::from(peer.ip());
        if !self.budgets.take(source, Instant::now()) {
            return self.turn_away(number, "too many attempts from its address");
        }
        let Some(Silent { socket, .. }) = self.remove(number) else { return };
        if let Err(error) = self.begin(number, source, socket, peer) {
            self.receptionist.turned_away(peer, &format!("no thread to meet it: {error}"));
        }
    }

    fn begin(
        &mut self,
        number: u64,
        source: Source,
        socket: TcpStream,
        peer: SocketAddr,
    ) -> io::Result<()> {
        // Otherwise what it says later would be reported here, again and again.
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
            self.turn_away(number, "no whole message came from it in time");
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
    // If nobody listens any more, there is nobody to wake.
    let _ = TcpStream::connect_timeout(&reachable, Duration::from_secs(1));
}
