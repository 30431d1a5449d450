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
use crate::streams::{
    AsFdObject, Counts, Stream, TCP_BLOCK, UDP_BLOCK, UDP_RATE, cpu_percent, new_socket, receive,
    send_all, thread_cpu, wait,
};
use crate::wire::{
    COOKIE_BYTES, Cookie, LEGACY_ANSWERS, Parameters, Protocol, UDP_ANSWER, UDP_REQUEST, stream_id,
};

mod outcome;

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

/// Counts of one direction in one line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// Payload: acknowledged by the other end's TCP, sent with UDP, or received here.
    pub bytes: u64,
    /// Segments that this end sent again; `None` where this end does not know.
    pub retransmits: Option<u64>,
    /// Smoothed round-trip time, mean over the streams; `None` where this end does not know.
    pub rtt: Option<Duration>,
    /// Datagrams sent or received here.
    pub datagrams: u64,
    /// Datagrams that were lost before one that arrived here; `None` for what this end sends.
    pub lost: Option<u64>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Start, since the start of the load.
    pub from: Duration,
    /// End.
    pub until: Duration,
    /// True in the warm-up.
    pub is_omitted: bool,
    /// From this end, and to it; `None` without such streams.
    pub ways: [Option<Way>; 2],
    /// Share of one CPU that this end used, percent.
    pub cpu: f64,
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
        /// What it did.
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

/// Measures with the server. `on_line` gets each complete line. `stop` ends the measurement.
///
/// # Errors
/// If the server cannot be reached, refuses, or fails.
pub fn drive(
    asked: &Asked,
    on_line: &mut dyn FnMut(&Line),
    stop: &dyn Fn() -> bool,
) -> Result<Outcome, DriveError> {
    let server = asked.server;
    let control = connect(asked).map_err(|cause| DriveError::Connect { server, cause })?;
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
    let run = Run {
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
        cpu: [0.0; 3],
    };
    run.send(&cookie)?;
    run.complete(on_line, stop)
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

struct Run<'a> {
    asked: &'a Asked,
    parameters: Parameters,
    control: Socket,
    cookie: Cookie,
    begun: Instant,
    machine: Client,
    streams: Vec<Stream>,
    load: Option<Load>,
    lines: Lines,
    outcome: Option<Outcome>,
    cpu: [f64; 3],
}

/// The counts at the end of the last line.
#[derive(Default)]
struct Lines {
    until: Duration,
    counts: Vec<Counts>,
    cpu: [u64; 2],
}

impl Run<'_> {
    fn send(&self, bytes: &[u8]) -> Result<(), DriveError> {
        let sent = send_all(&self.control, bytes, self.asked.patience);
        sent.map_err(|cause| DriveError::Connect { server: self.asked.server, cause })
    }

    fn complete(
        mut self,
        on_line: &mut dyn FnMut(&Line),
        stop: &dyn Fn() -> bool,
    ) -> Result<Outcome, DriveError> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            self.wait();
            let now = self.begun.elapsed();
            let orders = match receive(&self.control, &mut buffer) {
                Ok(None) => self.machine.tick(now),
                Ok(Some(0)) | Err(_) => self.machine.closed(),
                Ok(Some(n)) => self.machine.received(&buffer[..n], now),
            };
            self.carry_out(orders)?;
            if let Some(outcome) = self.outcome.take() {
                return Ok(outcome);
            }
            if stop() {
                let bytes = self.machine.give_up();
                // The server may have gone.
                let _ = self.send(&bytes);
                return Err(DriveError::Interrupted);
            }
            self.work(on_line)?;
        }
    }

    /// Waits until there is something to do.
    fn wait(&mut self) {
        let now = self.begun.elapsed();
        let mut until = now + LOOK;
        until = self.machine.deadline().map_or(until, |deadline| until.min(deadline));
        let mut waiting = Vec::new();
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
                    (true, _) => waiting.push((at, !stream.sends)),
                    (false, Some(when)) => until = until.min(base + when),
                    (false, None) => {}
                }
            }
        }
        let mut sockets: Vec<(&dyn AsFdObject, bool)> = vec![(&self.control, true)];
        sockets.extend(waiting.iter().map(|(at, reads)| {
            let socket: &dyn AsFdObject = &self.streams[*at].socket;
            (socket, *reads)
        }));
        let ready = wait(&sockets, until.saturating_sub(now));
        for ((at, _), _) in waiting.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            self.streams[*at].is_ready();
        }
    }

    /// Returns the end of the present line, since the start of the load.
    fn next_line(&self) -> Option<Duration> {
        (!self.asked.interval.is_zero()).then(|| self.lines.until + self.asked.interval)
    }

    /// Returns the end of the load, since its start, if time ends it.
    fn end_of_load(&self) -> Option<Duration> {
        self.asked.duration.map(|duration| duration + self.asked.omit)
    }

    fn carry_out(&mut self, orders: Vec<Order>) -> Result<(), DriveError> {
        let server = self.asked.server;
        let mut orders = VecDeque::from(orders);
        while let Some(order) = orders.pop_front() {
            match order {
                Order::Send(bytes) => self.send(&bytes)?,
                Order::Open => {
                    if let Err(error) = self.open() {
                        let bytes = self.machine.give_up();
                        // The server may have gone.
                        let _ = self.send(&bytes);
                        return Err(error);
                    }
                    orders.extend(self.machine.opened(self.begun.elapsed()));
                }
                Order::Start => self.start(),
                Order::Results => {
                    let ours = self.results();
                    orders.extend(self.machine.answer(&ours, self.begun.elapsed()));
                }
                Order::Done(theirs) => self.outcome = Some(self.finish(*theirs)),
                Order::Failed(failure) => return Err(DriveError::Server { server, failure }),
            }
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), DriveError> {
        let [forward, backward] = self.parameters.streams();
        let is_udp = self.parameters.protocol == Protocol::Udp;
        let length = self.parameters.length.unwrap_or(if is_udp { UDP_BLOCK } else { TCP_BLOCK });
        let server = self.asked.server;
        for place in 0..(forward + backward) as usize {
            let id = stream_id(place);
            let sends = place < forward as usize;
            let opened = self
                .open_one(place, is_udp)
                .and_then(|socket| Stream::new(id, socket, sends, &self.parameters, length));
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
        let has_ended = is_complete || self.end_of_load().is_some_and(|end| now >= end);
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

    /// Returns the counts of one direction since the last line; `None` without such streams.
    fn way(&self, sends: bool, counts: &[Counts]) -> Option<Way> {
        let mut way = Way::default();
        let (mut rtts, mut n) = (Vec::new(), 0);
        for (at, stream) in self.streams.iter().enumerate().filter(|(_, s)| s.sends == sends) {
            let (now, before) = (counts[at], self.lines.counts[at]);
            let more = |now: u64, before: u64| now.saturating_sub(before);
            way.bytes += match (now.acknowledged, before.acknowledged) {
                (Some(now), Some(before)) => more(now, before),
                _ => more(now.bytes, before.bytes),
            };
            if let (Some(now), Some(before)) = (now.retransmits, before.retransmits) {
                way.retransmits = Some(way.retransmits.unwrap_or(0) + more(now, before));
            }
            way.datagrams += more(now.datagrams, before.datagrams);
            if stream.account().is_some() {
                way.lost = Some(way.lost.unwrap_or(0) + more(now.missing, before.missing));
            }
            rtts.extend(stream.rtt());
            n += 1;
        }
        let n_rtts = u32::try_from(rtts.len()).unwrap_or(u32::MAX).max(1);
        way.rtt = (!rtts.is_empty()).then(|| rtts.iter().sum::<Duration>() / n_rtts);
        (n > 0).then_some(way)
    }

    /// Completes the line that ends at `until`.
    fn line(&mut self, until: Duration, on_line: &mut dyn FnMut(&Line)) {
        let counts: Vec<Counts> = self.streams.iter().map(Stream::counts).collect();
        let cpu = thread_cpu();
        let span = until.saturating_sub(self.lines.until).as_secs_f64();
        let used = (cpu[0] + cpu[1]).saturating_sub(self.lines.cpu[0] + self.lines.cpu[1]);
        let line = Line {
            from: self.lines.until,
            until,
            is_omitted: until <= self.asked.omit,
            ways: [self.way(true, &counts), self.way(false, &counts)],
            cpu: if span > 0.0 { used as f64 / 1e7 / span } else { 0.0 },
        };
        on_line(&line);
        self.lines = Lines { until, counts, cpu };
    }
}
