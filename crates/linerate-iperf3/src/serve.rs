//! A server for iperf3's clients: any number at once on one port.
//!
//! One thread accepts connections and the first datagrams of UDP streams; each test has a thread of
//! its own. A datagram is answered only if its address has opened a control connection that waits
//! for UDP streams, so no traffic goes to an address that did not prove itself. Since that datagram
//! names no test, clients of one address open their UDP streams one after another.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use socket2::{Socket, Type};

use crate::session::{Ending, Limits};
use crate::sockets::{self, AsFdObject, wait};
use crate::streams::prepare;
use crate::wire::{COOKIE_BYTES, Cookie, Parameters, Protocol, State, UDP_ANSWER, UDP_REQUEST};

mod test;

/// Choices of the owner of a server.
#[derive(Clone)]
pub struct ServeOptions {
    /// Address to listen on; every address of the host if absent.
    pub address: Option<IpAddr>,
    /// Port for TCP and UDP; 0 lets the kernel choose.
    pub port: u16,
    /// Limits of each test.
    pub limits: Limits,
    /// Most tests at once of one address.
    pub per_client: usize,
    /// Most tests at once.
    pub tests: usize,
    /// Returns whether a host may use the server.
    pub permits: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// Returns the user of a token, or why a client with this token is turned away. `None` admits
    /// all.
    pub admits: Option<Gate>,
}

/// Judge of clients' tokens.
pub type Gate = Arc<dyn Fn(Option<&str>) -> Result<String, String> + Send + Sync>;

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            address: None,
            port: crate::wire::PORT,
            limits: Limits::default(),
            per_client: 64,
            tests: 256,
            permits: Arc::new(|_| true),
            admits: None,
        }
    }
}

impl std::fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServeOptions({:?}, port {})", self.address, self.port)
    }
}

/// Event of a server.
#[derive(Clone, Debug)]
pub enum Served {
    /// It listens there.
    Listening(SocketAddr),
    /// A connection was turned away.
    Refused(IpAddr, Refusal),
    /// A test has begun: its number and its client.
    Began(u64, SocketAddr, Box<Parameters>),
    /// A test has ended.
    Ended(Box<TestRecord>),
}

/// Why a connection was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The host may not use the server.
    NotPermitted,
    /// The host has as many tests as it may have.
    Quota,
    /// The server has as many tests as it may have.
    Full,
    /// A data stream of a test that expects none.
    Stray,
    /// No whole cookie came in time.
    NoCookie,
}

/// Record of a test.
#[derive(Clone, Debug)]
pub struct TestRecord {
    /// Number of the test.
    pub number: u64,
    /// Its client.
    pub client: SocketAddr,
    /// Parameters of the client; `None` if it sent none.
    pub parameters: Option<Box<Parameters>>,
    /// How it ended.
    pub ending: Ending,
    /// Length of the load after the warm-up, seconds.
    pub seconds: f64,
    /// Share of one CPU that its thread used in the load, percent.
    pub cpu: f64,
    /// Its streams.
    pub streams: Vec<StreamRecord>,
}

/// Record of one stream of a test at this end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamRecord {
    /// Number of the stream, as the client prints it.
    pub id: i64,
    /// This end sent.
    pub sends: bool,
    /// Payload sent or received after the warm-up.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Datagrams that the sender sent.
    pub datagrams: u64,
    /// Datagrams of those that did not arrive; `None` if this end sent them, or for TCP.
    pub lost: Option<u64>,
    /// Repeated datagrams.
    pub duplicates: u64,
    /// Datagrams after one with a higher number.
    pub reordered: u64,
    /// Jitter of arrivals, seconds.
    pub jitter: f64,
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("listen on {address} for iperf3 clients: {cause}")]
pub struct ListenError {
    address: SocketAddr,
    cause: io::Error,
}

/// A test, as the accepting thread knows it.
struct Slot {
    number: u64,
    cookie: Cookie,
    client: IpAddr,
    wants: Mutex<Wants>,
    arrivals: Sender<Socket>,
    wake: OwnedFd,
}

/// Data streams that a test waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wants {
    tcp: u32,
    udp: u32,
}

impl Slot {
    fn wants(&self) -> MutexGuard<'_, Wants> {
        self.wants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A counter that is full wakes, too.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

/// What the threads of a server share.
struct Shared {
    options: ServeOptions,
    slots: Mutex<Vec<Arc<Slot>>>,
    /// Tests whose client opens UDP streams, in turn; one of each address at a time.
    udp_queue: Mutex<VecDeque<Arc<Slot>>>,
    tell: Box<dyn Fn(Served) + Send + Sync>,
    stop: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Shared {
    fn slots(&self) -> MutexGuard<'_, Vec<Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn udp_queue(&self) -> MutexGuard<'_, VecDeque<Arc<Slot>>> {
        self.udp_queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether `slot` is the first of its address in the queue for UDP streams, and puts it
    /// there if it is not.
    fn has_turn(&self, slot: &Arc<Slot>) -> bool {
        let mut queue = self.udp_queue();
        if !queue.iter().any(|one| one.number == slot.number) {
            queue.push_back(Arc::clone(slot));
        }
        let first = queue.iter().find(|one| one.client == slot.client);
        first.is_some_and(|first| first.number == slot.number)
    }

    /// Takes `slot` out of the queue, and wakes the next one of its address.
    fn leave_queue(&self, slot: &Slot) {
        let mut queue = self.udp_queue();
        queue.retain(|one| one.number != slot.number);
        if let Some(next) = queue.iter().find(|one| one.client == slot.client) {
            next.wake();
        }
    }

    /// Removes a test.
    fn remove(&self, slot: &Slot) {
        self.leave_queue(slot);
        self.slots().retain(|one| one.number != slot.number);
    }
}

/// Connection whose cookie is not complete.
struct Pending {
    socket: Socket,
    from: SocketAddr,
    cookie: Vec<u8>,
    since: Instant,
    until: Instant,
}

/// Most connections without a cookie: more come from nobody who measures.
const MOST_PENDING: usize = 512;
/// Longest time between two looks at the request to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Serves until `stop` returns true. `tell` gets each event, from any thread.
///
/// # Errors
/// If the port cannot be used.
pub fn serve(
    options: ServeOptions,
    tell: impl Fn(Served) + Send + Sync + 'static,
    stop: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<(), ListenError> {
    let any = Ipv6Addr::UNSPECIFIED.into();
    let asked = SocketAddr::new(options.address.unwrap_or(any), options.port);
    let failed = |cause| ListenError { address: asked, cause };
    let (listener, datagrams, at) = listen(asked, options.address.is_none()).map_err(failed)?;
    let shared = Arc::new(Shared {
        options,
        slots: Mutex::default(),
        udp_queue: Mutex::default(),
        tell: Box::new(tell),
        stop: Box::new(stop),
    });
    (shared.tell)(Served::Listening(at));
    let mut acceptor =
        Acceptor { shared, at, listener, datagrams, pending: Vec::new(), n_tests: 0 };
    while !(acceptor.shared.stop)() {
        acceptor.turn();
    }
    // The tests see the request themselves, and end within a moment.
    let begun = Instant::now();
    while !acceptor.shared.slots().is_empty() && begun.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Listens with TCP and UDP on one port. With `falls_back`, IPv4 alone if the host has no IPv6.
fn listen(asked: SocketAddr, falls_back: bool) -> io::Result<(Socket, Socket, SocketAddr)> {
    let no_family = rustix::io::Errno::AFNOSUPPORT.raw_os_error();
    match listen_at(asked) {
        Err(error) if falls_back && error.raw_os_error() == Some(no_family) => {
            listen_at(SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), asked.port()))
        }
        outcome => outcome,
    }
}

/// Listens with TCP and UDP on one port of `at`.
fn listen_at(at: SocketAddr) -> io::Result<(Socket, Socket, SocketAddr)> {
    /// Connections that wait to be accepted: clients come in bursts.
    const BACKLOG: i32 = 512;
    let listener = bound_socket(Type::STREAM, at)?;
    let bound = listener.local_addr()?.as_socket().unwrap_or(at);
    listener.listen(BACKLOG)?;
    let datagrams = bound_socket(Type::DGRAM, bound)?;
    Ok((listener, datagrams, bound))
}

fn bound_socket(kind: Type, at: SocketAddr) -> io::Result<Socket> {
    let socket = linerate_sys::socket::serving(kind, at)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The accepting thread.
struct Acceptor {
    shared: Arc<Shared>,
    at: SocketAddr,
    listener: Socket,
    datagrams: Socket,
    pending: Vec<Pending>,
    n_tests: u64,
}

impl Acceptor {
    fn turn(&mut self) {
        let mut sockets: Vec<(&dyn AsFdObject, bool)> =
            vec![(&self.listener, true), (&self.datagrams, true)];
        sockets.extend(self.pending.iter().map(|one| {
            let socket: &dyn AsFdObject = &one.socket;
            (socket, true)
        }));
        wait(&sockets, LOOK);
        while let Ok((socket, from)) = self.listener.accept() {
            self.admit(socket, from.as_socket());
        }
        self.answer_datagrams();
        let now = Instant::now();
        let mut at = 0;
        while at < self.pending.len() {
            // The order stays: the direction of a stream depends on it.
            match read_cookie(&mut self.pending[at]) {
                Some(false) => {
                    self.pending.remove(at);
                }
                Some(true) if self.is_overtaking(at, now) => at += 1,
                Some(true) => {
                    let one = self.pending.remove(at);
                    self.assign(one);
                }
                None if now >= self.pending[at].until => {
                    let one = self.pending.remove(at);
                    self.tell(Served::Refused(one.from.ip(), Refusal::NoCookie));
                }
                None => at += 1,
            }
        }
    }

    fn tell(&self, event: Served) {
        (self.shared.tell)(event);
    }

    /// Returns whether the connection at place `at` is a data stream whose client has connected
    /// another one just before, of which the cookie is still under way.
    fn is_overtaking(&self, at: usize, now: Instant) -> bool {
        /// Time in which a lost cookie is sent again.
        const UNDER_WAY: Duration = Duration::from_secs(1);
        let one = &self.pending[at];
        let is_stream = self.shared.slots().iter().any(|slot| slot.cookie[..] == one.cookie[..]);
        let mut earlier = self.pending[..at].iter();
        is_stream
            && earlier.any(|other| {
                let is_recent = now.saturating_duration_since(other.since) < UNDER_WAY;
                other.from.ip() == one.from.ip() && is_recent
            })
    }

    fn admit(&mut self, socket: Socket, from: Option<SocketAddr>) {
        let Some(from) = from else { return };
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        if !(self.shared.options.permits)(from.ip()) {
            self.refuse(&socket, from.ip(), Refusal::NotPermitted);
            return;
        }
        if self.pending.len() >= MOST_PENDING {
            // The oldest has had the most time.
            self.pending.remove(0);
        }
        // Without these options the connection is only slower.
        let _ = socket.set_nonblocking(true);
        let _ = socket.set_tcp_nodelay(true);
        let since = Instant::now();
        let until = since + self.shared.options.limits.answer;
        self.pending.push(Pending { socket, from, cookie: Vec::new(), since, until });
    }

    fn refuse(&self, socket: &Socket, from: IpAddr, why: Refusal) {
        // iperf3 has no other reason; the client may have gone.
        let _ = linerate_sys::tcp::send(socket, &[State::AccessDenied.byte()]);
        self.tell(Served::Refused(from, why));
    }

    /// Passes a connection with its cookie to its test, or begins one.
    fn assign(&mut self, one: Pending) {
        let Ok(cookie) = Cookie::try_from(&one.cookie[..]) else { return };
        let client = one.from.ip();
        let slots = self.shared.slots();
        let known = slots.iter().find(|slot| slot.cookie == cookie).cloned();
        let of_client = slots.iter().filter(|slot| slot.client == client).count();
        let n = slots.len();
        drop(slots);
        if let Some(slot) = known {
            let mut wants = slot.wants();
            if wants.tcp == 0 || slot.client != client {
                drop(wants);
                self.refuse(&one.socket, client, Refusal::Stray);
                return;
            }
            wants.tcp -= 1;
            drop(wants);
            // A test that has just ended does not take it, and it is closed.
            let _ = slot.arrivals.send(one.socket);
            slot.wake();
            return;
        }
        if of_client >= self.shared.options.per_client {
            return self.refuse(&one.socket, client, Refusal::Quota);
        }
        if n >= self.shared.options.tests {
            return self.refuse(&one.socket, client, Refusal::Full);
        }
        self.n_tests += 1;
        let (arrivals, arrived) = channel();
        let Ok(wake) = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC) else {
            return self.refuse(&one.socket, client, Refusal::Full);
        };
        let number = self.n_tests;
        let wants = Mutex::default();
        let slot = Arc::new(Slot { number, cookie, client, wants, arrivals, wake });
        self.shared.slots().push(Arc::clone(&slot));
        let (shared, from) = (Arc::clone(&self.shared), one.from);
        let name = format!("iperf3-{number}");
        let run = move || run_test(&shared, &slot, &one.socket, from, &arrived);
        if std::thread::Builder::new().name(name).spawn(run).is_err() {
            // The connection has gone with the closure.
            self.shared.slots().retain(|one| one.number != number);
            self.tell(Served::Refused(client, Refusal::Full));
        }
    }

    /// Answers requests for UDP streams.
    fn answer_datagrams(&mut self) {
        /// Requests before 3.1x, in both orders of bytes: 123456789.
        const LEGACY: [[u8; 4]; 2] = [[0x15, 0xcd, 0x5b, 0x07], [0x07, 0x5b, 0xcd, 0x15]];
        /// Datagrams of one turn: a flood must not keep the connections waiting.
        const MOST: usize = 256;
        let mut buffer = [0; 8];
        for _ in 0..MOST {
            let received = rustix::net::recvfrom(
                &self.datagrams,
                &mut buffer[..],
                rustix::net::RecvFlags::empty(),
            );
            let Ok((n, _, Some(from))) = received else { return };
            let Ok(from) = SocketAddr::try_from(from) else { continue };
            let request: Option<[u8; 4]> = buffer[..n].try_into().ok();
            let is_request =
                request.is_some_and(|bytes| bytes == UDP_REQUEST || LEGACY.contains(&bytes));
            if is_request {
                self.open_udp(from);
            }
        }
    }

    fn open_udp(&mut self, from: SocketAddr) {
        let client = from.ip().to_canonical();
        let queue = self.shared.udp_queue();
        let Some(slot) = queue.iter().find(|slot| slot.client == client).cloned() else { return };
        drop(queue);
        let mut wants = slot.wants();
        if wants.udp == 0 {
            return;
        }
        let Ok((socket, strays)) = connected_udp(self.at, from) else { return };
        // The client waits for the answer before it sends data.
        if rustix::net::send(&socket, &UDP_ANSWER, rustix::net::SendFlags::empty()).is_err() {
            return;
        }
        wants.udp -= 1;
        drop(wants);
        // A test that has just ended does not take it, and it is closed.
        let _ = slot.arrivals.send(socket);
        slot.wake();
        for stray in strays {
            self.open_udp(stray);
        }
    }
}

/// Returns a UDP socket at the server's address that is connected to `from`, and the addresses
/// whose requests came to it before it was connected.
fn connected_udp(at: SocketAddr, from: SocketAddr) -> io::Result<(Socket, Vec<SocketAddr>)> {
    // Each UDP stream has a socket of its own at this port.
    let socket = linerate_sys::socket::serving(Type::DGRAM, at)?;
    socket.connect(&from.into())?;
    socket.set_nonblocking(true)?;
    let (mut strays, mut buffer) = (Vec::new(), [0; 8]);
    while let Ok((n, _, Some(other))) =
        rustix::net::recvfrom(&socket, &mut buffer[..], rustix::net::RecvFlags::empty())
    {
        if let Ok(other) = SocketAddr::try_from(other)
            && other != from
            && buffer[..n] == UDP_REQUEST
        {
            strays.push(other);
        }
    }
    Ok((socket, strays))
}

/// Reads more of a cookie: `Some(true)` if it is complete, `Some(false)` if the connection has
/// ended.
fn read_cookie(one: &mut Pending) -> Option<bool> {
    let mut buffer = [0; COOKIE_BYTES];
    let missing = COOKIE_BYTES - one.cookie.len();
    if missing == 0 {
        return Some(true);
    }
    match sockets::receive(&one.socket, &mut buffer[..missing]) {
        Ok(None) => None,
        Ok(Some(0)) | Err(_) => Some(false),
        Ok(Some(n)) => {
            one.cookie.extend_from_slice(&buffer[..n]);
            (one.cookie.len() == COOKIE_BYTES).then_some(true)
        }
    }
}

/// Runs one test to its end.
fn run_test(
    shared: &Arc<Shared>,
    slot: &Arc<Slot>,
    control: &Socket,
    from: SocketAddr,
    arrived: &Receiver<Socket>,
) {
    let record = test::Test::new(shared, slot, control, from, arrived).run();
    shared.remove(slot);
    (shared.tell)(Served::Ended(Box::new(record)));
}

/// Prepares an accepted stream as the client asked, as far as that is still possible.
fn adapt(socket: &Socket, parameters: &Parameters) -> io::Result<()> {
    let is_udp = parameters.protocol == Protocol::Udp;
    if !is_udp {
        // Set before the options, of which one needs it.
        socket.set_nonblocking(true)?;
    }
    prepare(socket, parameters)
}
