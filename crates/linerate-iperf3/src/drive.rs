//! A client that drives an iperf3 server: the foreign end of a measurement.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant, SystemTime};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use socket2::{Domain, Socket, Type};

use crate::auth::{Credentials, unix_seconds};
use crate::client::{Client, Failure, Order};
use crate::sockets::{receive, send_all, wait, wait_for};
use crate::streams::{
    Counts, Stream, TCP_BLOCK, UDP_BLOCK, UDP_RATE, cpu_percent, new_socket, thread_cpu,
};
use crate::wire::{
    COOKIE_BYTES, Cookie, LEGACY_ANSWERS, Parameters, Protocol, Results, UDP_ANSWER, UDP_REQUEST,
    stream_id,
};

mod held;
mod lines;
mod outcome;

pub use held::StreamNow;
use lines::Lines;
pub use lines::{Line, Way};
pub use outcome::{Outcome, WayOutcome};

/// A measurement.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The server.
    pub server: SocketAddr,
    /// Address of this end.
    pub local: Option<IpAddr>,
    /// First local port of the data streams.
    pub first_port: Option<u16>,
    /// Parameters; the lengths are those below.
    pub parameters: Parameters,
    /// User and password, if the server wants them.
    pub credentials: Option<Credentials>,
    /// Length of the load after the warm-up; `None` if an amount of data ends it.
    pub duration: Option<Duration>,
    /// Warm-up.
    pub omit: Duration,
    /// Time between two lines.
    pub interval: Duration,
    /// Longest time for each answer of the server.
    pub patience: Duration,
}

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// No connection.
    #[error("connect to iperf3 server {server}: {cause}")]
    Connect {
        /// The server.
        server: SocketAddr,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// A data stream could not be opened.
    #[error("open {kind} stream {id} to iperf3 server {server}: {cause}")]
    Stream {
        /// The server.
        server: SocketAddr,
        /// `TCP` or `UDP`.
        kind: &'static str,
        /// Number of the stream.
        id: i64,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// The server failed.
    #[error("measure with iperf3 server {server}: {failure}")]
    Server {
        /// The server.
        server: SocketAddr,
        /// Its failure.
        failure: Failure,
    },
    /// The owner stopped the measurement.
    #[error("interrupted")]
    Interrupted,
}

/// Longest wait for a socket: a request to stop has to be seen.
const LOOK: Duration = Duration::from_millis(50);
/// Time for the last datagrams to arrive. A server reads nothing more after the message that ends
/// the load, and datagrams under way would look lost.
const SETTLE: Duration = Duration::from_millis(200);
/// Time for which a paced TCP stream of this end collects what is due.
const TCP_TICK: Duration = Duration::from_millis(1);

/// Measures with the server. `on_line` gets each complete line. `stop` ends the measurement.
///
/// # Errors
/// If the server cannot be reached, refuses, or fails.
pub fn drive(
    asked: &Asked,
    on_line: &mut dyn FnMut(&Line),
    stop: &dyn Fn() -> bool,
) -> Result<Outcome, DriveError> {
    let mut session = Session::begin(asked.clone(), false)?;
    loop {
        if let Some(outcome) = session.turn(LOOK, on_line)? {
            return Ok(outcome);
        }
        if stop() {
            return Err(DriveError::Interrupted);
        }
    }
}

/// Returns `time` in seconds, rounded up.
fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

fn connect(asked: &Asked) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(asked.server), Type::STREAM, None)?;
    if let Some(local) = asked.local {
        socket.bind(&SocketAddr::new(local, 0).into())?;
    }
    socket.connect_timeout(&asked.server.into(), asked.patience)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Returns a cookie as iperf3 makes it: 36 characters of `a` to `z` and `2` to `7`.
fn new_cookie() -> Cookie {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let seed = linerate_sys::clock::monotonic() ^ (u64::from(std::process::id()) << 40);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut cookie = [0; COOKIE_BYTES];
    for character in &mut cookie[..COOKIE_BYTES - 1] {
        *character = ALPHABET[(random.next_u32() % 32) as usize];
    }
    cookie
}

/// The load, from its start to its end.
struct Load {
    started: Instant,
    cpu: [u64; 2],
    omits: bool,
    /// End of the load and the counts at that time.
    ended: Option<(Duration, Vec<Counts>)>,
    /// Time at which the server gets the message that ends the load, until it was sent.
    settles: Option<Duration>,
}

/// Measurement under way. If it is dropped before its end, the server is informed.
///
/// A held session waits with its last data stream until [`Session::release`], because a server
/// starts the load as soon as it has all of them.
pub struct Session {
    asked: Asked,
    parameters: Parameters,
    control: Socket,
    cookie: Cookie,
    begun: Instant,
    machine: Client,
    streams: Vec<Stream>,
    load: Option<Load>,
    lines: Lines,
    outcome: Option<Outcome>,
    theirs: Option<Results>,
    cpu: [f64; 3],
    hold: Hold,
    /// True once the owner has ended the load.
    is_ended: bool,
    /// Bytes of the control connection.
    buffer: Vec<u8>,
    /// Streams that wait for their socket, and whether they read: kept, so that waiting allocates
    /// nothing.
    waiting: Vec<(usize, bool)>,
}

/// Who starts and ends the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// The session itself.
    None,
    /// The owner. The server has not asked for data streams yet.
    Preparing,
    /// The owner. The last data stream is missing.
    Held,
    /// The owner, who has started it.
    Released,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({}, {:?})", self.asked.server, self.hold)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.machine.is_over() {
            self.give_up();
        }
    }
}

impl Session {
    /// Connects to the server and begins a test. A held one lets its owner start and end the load.
    fn begin(asked: Asked, is_held: bool) -> Result<Self, DriveError> {
        let server = asked.server;
        let control = connect(&asked).map_err(|cause| DriveError::Connect { server, cause })?;
        let mss = control.tcp_mss().ok();
        let mut parameters = asked.parameters.clone();
        parameters.time = asked.duration.map_or(0, whole_seconds);
        parameters.omit = whole_seconds(asked.omit);
        // Credentials that are too long for their key were refused when they were read.
        parameters.token = asked
            .credentials
            .as_ref()
            .and_then(|credentials| credentials.token(unix_seconds(SystemTime::now())).ok());
        if parameters.protocol == Protocol::Udp {
            // A server that knows nothing else takes the length from here.
            parameters.length.get_or_insert(mss.filter(|mss| *mss >= 16).unwrap_or(UDP_BLOCK));
            parameters.counters_64bit = true;
            // 0 means as fast as possible, and is left out.
            parameters.bandwidth = match parameters.bandwidth {
                None => Some(UDP_RATE),
                Some(0) => None,
                rate => rate,
            };
        }
        let cookie = new_cookie();
        let begun = Instant::now();
        let machine = Client::begin(parameters.clone(), asked.patience, begun.elapsed());
        let session = Self {
            asked,
            parameters,
            control,
            cookie,
            begun,
            machine,
            streams: Vec::new(),
            load: None,
            lines: Lines::default(),
            outcome: None,
            theirs: None,
            cpu: [0.0; 3],
            hold: if is_held { Hold::Preparing } else { Hold::None },
            is_ended: false,
            buffer: vec![0; 64 << 10],
            waiting: Vec::new(),
        };
        session.send(&cookie)?;
        Ok(session)
    }

    fn send(&self, bytes: &[u8]) -> Result<(), DriveError> {
        let sent = send_all(&self.control, bytes, self.asked.patience);
        sent.map_err(|cause| DriveError::Connect { server: self.asked.server, cause })
    }

    fn give_up(&mut self) {
        let bytes = self.machine.give_up();
        // The server may have gone.
        let _ = self.send(&bytes);
    }

    /// Waits for at most `most`, answers the server and moves data. Returns the outcome once the
    /// test is complete.
    fn turn(
        &mut self,
        most: Duration,
        on_line: &mut dyn FnMut(&Line),
    ) -> Result<Option<Outcome>, DriveError> {
        self.wait(most);
        let now = self.begun.elapsed();
        let orders = match receive(&self.control, &mut self.buffer) {
            Ok(None) => self.machine.tick(now),
            Ok(Some(0)) | Err(_) => self.machine.closed(),
            Ok(Some(n)) => self.machine.received(&self.buffer[..n], now),
        };
        self.carry_out(orders)?;
        if self.outcome.is_none() {
            self.work(on_line)?;
        }
        Ok(self.outcome.take())
    }

    /// Waits until there is something to do, for at most `most`.
    fn wait(&mut self, most: Duration) {
        let now = self.begun.elapsed();
        let mut until = now + most;
        until = self.machine.deadline().map_or(until, |deadline| until.min(deadline));
        self.waiting.clear();
        if let Some(load) = &self.load {
            let since = load.started.elapsed();
            let base = now.saturating_sub(since);
            let has_ended = load.ended.is_some();
            if !has_ended {
                for at in [self.next_line(), self.end_of_load()].into_iter().flatten() {
                    until = until.min(base + at);
                }
            }
            until = load.settles.map_or(until, |at| until.min(base + at));
            for (at, stream) in self.streams.iter_mut().enumerate() {
                // After the end, data that is still under way arrives.
                if stream.sends && has_ended {
                    continue;
                }
                match stream.waits(since) {
                    (true, _) => self.waiting.push((at, !stream.sends)),
                    (false, Some(when)) => until = until.min(base + when),
                    (false, None) => {}
                }
            }
        }
        let streams = &mut self.streams;
        let sockets = self.waiting.iter().map(|(at, reads)| (&streams[*at].socket, *reads));
        let ready = wait_for((&self.control, sockets), until.saturating_sub(now));
        for ((at, _), _) in self.waiting.iter().zip(&ready).filter(|(_, is_ready)| **is_ready) {
            streams[*at].is_ready();
        }
    }

    /// Returns the end of the load, since its start, if time ends it.
    fn end_of_load(&self) -> Option<Duration> {
        if self.hold != Hold::None {
            return None;
        }
        self.asked.duration.map(|duration| duration + self.asked.omit)
    }

    fn carry_out(&mut self, orders: Vec<Order>) -> Result<(), DriveError> {
        let server = self.asked.server;
        let mut orders = VecDeque::from(orders);
        while let Some(order) = orders.pop_front() {
            match order {
                Order::Send(bytes) => self.send(&bytes)?,
                Order::Open => {
                    self.open(self.hold == Hold::Preparing)?;
                    if self.hold == Hold::Preparing {
                        self.hold = Hold::Held;
                    } else {
                        orders.extend(self.machine.opened(self.begun.elapsed()));
                    }
                }
                Order::Start => self.start(),
                Order::Results => {
                    let ours = self.results();
                    orders.extend(self.machine.answer(&ours, self.begun.elapsed()));
                }
                Order::Done(theirs) => {
                    self.outcome = Some(self.finish(&theirs));
                    self.theirs = Some(*theirs);
                }
                Order::Failed(failure) => return Err(DriveError::Server { server, failure }),
            }
        }
        Ok(())
    }

    /// Opens the data streams that are missing, except the last one if `is_held`.
    fn open(&mut self, is_held: bool) -> Result<(), DriveError> {
        let [forward, backward] = self.parameters.streams();
        let is_udp = self.parameters.protocol == Protocol::Udp;
        let length = self.parameters.length.unwrap_or(if is_udp { UDP_BLOCK } else { TCP_BLOCK });
        // Datagrams of this end leave when they are due, because bursts are a load of their own.
        let tick = if is_udp { Duration::ZERO } else { TCP_TICK };
        let server = self.asked.server;
        let n_streams = (forward + backward) as usize;
        self.waiting.reserve(n_streams);
        for place in self.streams.len()..n_streams - usize::from(is_held) {
            let id = stream_id(place);
            let sends = place < forward as usize;
            let stream = |socket| Stream::new((id, socket, sends), &self.parameters, length, tick);
            let opened = self.open_one(place, is_udp).and_then(stream);
            let kind = if is_udp { "UDP" } else { "TCP" };
            let failed = |cause| DriveError::Stream { server, kind, id, cause };
            self.streams.push(opened.map_err(failed)?);
        }
        Ok(())
    }

    fn open_one(&self, place: usize, is_udp: bool) -> io::Result<Socket> {
        let server = self.asked.server;
        let socket = new_socket(server, &self.parameters)?;
        let port = self.asked.first_port.map_or(0, |port| port.saturating_add(place as u16));
        // The control connection has chosen the address.
        let own = self.control.local_addr()?.as_socket().map(|own| own.ip());
        if let Some(own) = self.asked.local.or(own) {
            socket.bind(&SocketAddr::new(own, port).into())?;
        }
        if !is_udp {
            socket.connect_timeout(&server.into(), self.asked.patience)?;
            socket.set_nonblocking(true)?;
            send_all(&socket, &self.cookie, self.asked.patience)?;
            return Ok(socket);
        }
        socket.connect(&server.into())?;
        linerate_sys::tcp::send(&socket, &UDP_REQUEST)?;
        let until = Instant::now() + self.asked.patience;
        let mut buffer = [0; 16];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "no answer to its first datagram (does a firewall let UDP through?)",
                ));
            }
            wait(&[(&socket, true)], left);
            // Data of other streams may come first; only the answer has four bytes.
            if let Some(n) = receive(&socket, &mut buffer)?
                && let Ok(answer) = <[u8; 4]>::try_from(&buffer[..n])
                && (answer == UDP_ANSWER || LEGACY_ANSWERS.contains(&answer))
            {
                return Ok(socket);
            }
        }
    }

    fn start(&mut self) {
        let (started, cpu) = (Instant::now(), thread_cpu());
        let omits = !self.asked.omit.is_zero();
        self.lines.counts = self.streams.iter().map(Stream::counts).collect();
        self.lines.cpu = cpu;
        self.load = Some(Load { started, cpu, omits, ended: None, settles: None });
    }

    /// Moves data, prints lines, and ends the load.
    fn work(&mut self, on_line: &mut dyn FnMut(&Line)) -> Result<(), DriveError> {
        let Some(load) = &mut self.load else { return Ok(()) };
        let now = load.started.elapsed();
        if load.ended.is_some() {
            // What still arrives of datagrams is not lost.
            self.streams.iter_mut().filter(|stream| !stream.sends).for_each(|stream| {
                stream.drain();
            });
            if load.settles.take_if(|at| now >= *at).is_some() {
                let orders = self.machine.end(self.begun.elapsed());
                self.carry_out(orders)?;
            }
            return Ok(());
        }
        if load.omits && now >= self.asked.omit {
            load.omits = false;
            load.cpu = thread_cpu();
            self.streams.iter_mut().for_each(Stream::omit);
        }
        let mut left = self.left();
        for stream in self.streams.iter_mut().filter(|stream| !stream.has_ended) {
            let sent = stream.turn(now, left);
            left = if left == u64::MAX { left } else { left.saturating_sub(sent) };
        }
        let is_complete = self.asked.duration.is_none() && self.is_complete();
        let is_over = self.end_of_load().is_some_and(|end| now >= end);
        let has_ended = is_complete || is_over || self.is_ended;
        while let Some(until) = self.next_line().filter(|until| *until <= now && !has_ended) {
            self.line(until, on_line);
        }
        if !has_ended {
            return Ok(());
        }
        if now > self.lines.until && !self.asked.interval.is_zero() {
            self.line(now, on_line);
        }
        let counts = self.streams.iter().map(Stream::counts).collect();
        if let Some(load) = &mut self.load {
            load.ended = Some((now, counts));
            let is_udp = self.parameters.protocol == Protocol::Udp;
            let settles = is_udp && self.streams.iter().any(|stream| stream.sends);
            load.settles = Some(if settles { now + SETTLE } else { now });
            let seconds = now.saturating_sub(self.asked.omit).as_secs_f64();
            self.cpu = cpu_percent(load.cpu, seconds);
        }
        Ok(())
    }

    /// Returns the payload that ends the load; `None` if time does.
    fn amount(&self) -> Option<u64> {
        if self.asked.duration.is_some() {
            return None;
        }
        let length = self.streams.first().map_or(1, |stream| stream.length as u64);
        let blocks = self.parameters.blocks.saturating_mul(length);
        Some(self.parameters.bytes.max(blocks))
    }

    /// Returns the payload that this end may still send.
    fn left(&self) -> u64 {
        let Some(amount) = self.amount() else { return u64::MAX };
        let sent: u64 =
            self.streams.iter().filter(|one| one.sends).map(|one| one.counts().bytes).sum();
        amount.saturating_sub(sent)
    }

    /// Returns whether the amount was sent and acknowledged, or received.
    fn is_complete(&self) -> bool {
        let amount = self.amount().unwrap_or(u64::MAX);
        let totals = [self.total(true), self.total(false)];
        totals.into_iter().flatten().any(|(bytes, is_there)| bytes >= amount && is_there)
    }

    /// Returns the payload of one direction, and whether all of it has arrived; `None` without such
    /// streams.
    fn total(&self, sends: bool) -> Option<(u64, bool)> {
        let streams: Vec<Counts> =
            self.streams.iter().filter(|one| one.sends == sends).map(Stream::counts).collect();
        // What this end's TCP holds has not arrived.
        let is_there = streams.iter().all(|counts| {
            counts.acknowledged.is_none_or(|acknowledged| acknowledged >= counts.bytes)
        });
        let bytes = streams.iter().map(|counts| counts.bytes).sum();
        (!streams.is_empty()).then_some((bytes, is_there))
    }
}
