//! A server for netperf's clients: any number at once, each control connection on a thread of its
//! own.
//!
//! Datagrams go only to the host of the control connection. No file is read for a client: netperf's
//! own server fills its blocks from any file that a client names.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use linerate_sys::{cpu, tcp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Socket, Type};

use crate::cpu::CpuTimes;
use crate::data::{
    self, Counts, DataOptions, Limit, Whole, block, new_socket, receive_stream, receive_whole,
    say_goodbye, send_stream, send_whole, wait_briefly,
};
use crate::wire::{
    Answer, Message, PADDING_S, PORT, Request, Results, UNKNOWN_REQUEST, direction, flag, kind,
};

/// Choices of the owner of a server.
#[derive(Clone)]
pub struct ServeOptions {
    /// Address to listen on; every address of the host if absent.
    pub address: Option<IpAddr>,
    /// Port.
    pub port: u16,
    /// Most control connections at once of one host.
    pub per_client: usize,
    /// Most control connections at once.
    pub clients: usize,
    /// Longest load of a test.
    pub longest: Duration,
    /// Returns whether a host may use the server.
    pub permits: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            address: None,
            port: PORT,
            per_client: 64,
            clients: 256,
            longest: DAY,
            permits: Arc::new(|_| true),
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
    /// A test has ended.
    Ended(Box<TestRecord>),
}

/// Why a connection was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The host may not use the server.
    NotPermitted,
    /// The host has as many connections as it may have.
    Quota,
    /// The server has as many connections as it may have.
    Full,
}

/// Record of a test.
#[derive(Clone, Debug)]
pub struct TestRecord {
    /// Client.
    pub client: SocketAddr,
    /// What it asked for.
    pub request: Request,
    /// What this end did; an error number if it could not.
    pub results: Result<Results, i32>,
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("listen on {address} for netperf clients: {cause}")]
pub struct ListenError {
    address: SocketAddr,
    cause: io::Error,
}

/// Longest time between two looks at the request to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Longest time for the rest of a message that has begun.
const MESSAGE: Duration = Duration::from_secs(10);
/// Connections of one test that wait to be accepted.
const DATA_BACKLOG: i32 = 128;
/// Longest time that a control connection may stay without a test.
const IDLE: Duration = Duration::from_secs(60);
/// Largest block of a client, bytes: more memory is not given to a stranger.
const LARGEST_BLOCK: i32 = 16 << 20;
/// Files of a request that are random or zero anyway.
const HARMLESS_FILES: [&str; 3] = ["", "/dev/urandom", "/dev/zero"];

/// What the threads of a server share.
struct Shared {
    options: ServeOptions,
    clients: Mutex<HashMap<IpAddr, usize>>,
    tell: Box<dyn Fn(Served) + Send + Sync>,
    stop: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Shared {
    fn clients(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a client, or says why it is one too many.
    fn admit(&self, client: IpAddr) -> Result<(), Refusal> {
        if !(self.options.permits)(client) {
            return Err(Refusal::NotPermitted);
        }
        let mut clients = self.clients();
        if clients.values().sum::<usize>() >= self.options.clients {
            return Err(Refusal::Full);
        }
        let n = clients.entry(client).or_default();
        if *n >= self.options.per_client {
            return Err(Refusal::Quota);
        }
        *n += 1;
        Ok(())
    }

    fn remove(&self, client: IpAddr) {
        let mut clients = self.clients();
        if let Some(n) = clients.get_mut(&client) {
            *n -= 1;
        }
        clients.retain(|_, n| *n > 0);
    }
}

/// Serves until `stop` returns true. `tell` gets each event, from any thread.
///
/// # Errors
/// If the port cannot be used.
pub fn serve(
    options: ServeOptions,
    tell: impl Fn(Served) + Send + Sync + 'static,
    stop: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<(), ListenError> {
    let every = Ipv6Addr::UNSPECIFIED.into();
    let asked = SocketAddr::new(options.address.unwrap_or(every), options.port);
    let listener = match listen(asked) {
        // A host without IPv6.
        Err(error)
            if options.address.is_none()
                && Errno::from_io_error(&error) == Some(Errno::AFNOSUPPORT) =>
        {
            listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), options.port))
        }
        listener => listener,
    };
    let failed = |cause| ListenError { address: asked, cause };
    let listener = listener.map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    let shared = Arc::new(Shared {
        options,
        clients: Mutex::default(),
        tell: Box::new(tell),
        stop: Box::new(stop),
    });
    (shared.tell)(Served::Listening(at));
    while !(shared.stop)() {
        if !is_readable(&listener, LOOK) {
            continue;
        }
        let Ok((stream, from)) = listener.accept() else { continue };
        let client = SocketAddr::new(from.ip().to_canonical(), from.port());
        if let Err(why) = shared.admit(client.ip()) {
            (shared.tell)(Served::Refused(client.ip(), why));
            continue;
        }
        let for_thread = Arc::clone(&shared);
        let spawned = std::thread::Builder::new().name("netperf".to_owned()).spawn(move || {
            Session { shared: &for_thread, control: stream, client }.run();
            for_thread.remove(client.ip());
        });
        if spawned.is_err() {
            shared.remove(client.ip());
            (shared.tell)(Served::Refused(client.ip(), Refusal::Full));
        }
    }
    // The sessions see the request themselves, and end within a moment.
    let begun = Instant::now();
    while !shared.clients().is_empty() && begun.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    /// Connections that wait to be accepted: clients come in bursts.
    const BACKLOG: i32 = 512;
    let socket = linerate_sys::socket::serving(Type::STREAM, at)?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from(socket);
    // A client that has gone before it is accepted must not stop the others.
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn is_readable(socket: &impl std::os::fd::AsFd, wait: Duration) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let wait = Timespec::try_from(wait).ok();
    poll(&mut fds, wait.as_ref()).is_ok_and(|n| n > 0)
}

/// A control connection.
struct Session<'a> {
    shared: &'a Shared,
    control: TcpStream,
    client: SocketAddr,
}

impl Session<'_> {
    /// Serves until the client has gone.
    fn run(mut self) {
        // Without these options the connection is only slower.
        let _ = self.control.set_nonblocking(false);
        let _ = self.control.set_nodelay(true);
        let _ = self.control.set_read_timeout(Some(MESSAGE));
        let _ = self.control.set_write_timeout(Some(MESSAGE));
        let mut idle_since = Instant::now();
        while !(self.shared.stop)() && idle_since.elapsed() < IDLE {
            if !is_readable(&self.control, LOOK) {
                continue;
            }
            let Ok(message) = Message::read(&mut self.control) else { return };
            let answer = match message.kind {
                kind::TEST => {
                    self.test(&message);
                    idle_since = Instant::now();
                    continue;
                }
                kind::DEBUG_ON | kind::DEBUG_OFF => Message::new(kind::DEBUG_OK, 0),
                // The kernel accounts for CPU time: nothing is calibrated.
                kind::CPU_CALIBRATE => Message::new(kind::CPU_CALIBRATE, 0),
                kind::SYSTEM => Message::new(kind::SYSTEM_ANSWER, 0),
                other => Message::new(other, UNKNOWN_REQUEST),
            };
            if answer.write(&mut self.control).is_err() {
                return;
            }
        }
    }

    /// Runs a test, and sends its results or the number of its error.
    fn test(&mut self, message: &Message) {
        let request = Request::read(message);
        let pin = u16::try_from(message.word).ok();
        let results = self.load(&request, pin);
        let results =
            results.map_err(|error| error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()));
        let answer = match &results {
            Ok(results) => results.message(),
            Err(number) => Message::new(kind::ANSWER, number.cast_unsigned()),
        };
        // A client that has gone sees no results.
        let _ = answer.write(&mut self.control);
        let record = TestRecord { client: self.client, request, results };
        (self.shared.tell)(Served::Ended(Box::new(record)));
    }

    fn load(&mut self, request: &Request, pin: Option<u16>) -> io::Result<Results> {
        let is_harmless = HARMLESS_FILES.contains(&request.fill.as_str());
        if !is_harmless {
            return Err(Errno::ACCESS.into());
        }
        if request.other_protocol.is_some() {
            return Err(Errno::PROTONOSUPPORT.into());
        }
        let of_stranger = [request.sizes, request.exchange].concat();
        if of_stranger.iter().any(|bytes| *bytes > LARGEST_BLOCK) {
            return Err(Errno::MSGSIZE.into());
        }
        // Nothing would wait for the client then.
        if request.is_exchange() && request.exchange.iter().any(|bytes| *bytes < 1) {
            return Err(Errno::INVAL.into());
        }
        if let Some(pin) = pin {
            cpu::pin(pin.into()).map_err(|_| io::Error::from(Errno::INVAL))?;
        }
        let (sends, receives) = (
            request.direction & direction::SENDS != 0,
            request.direction & direction::RECEIVES != 0,
        );
        let options = self.data_options(request);
        let any: IpAddr = match request.family {
            6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        let at = SocketAddr::new(self.shared.options.address.unwrap_or(any), request.port);
        let socket = new_socket(at, &options)?;
        if !request.is_udp {
            socket.listen(DATA_BACKLOG)?;
        }
        wait_briefly(&socket)?;
        let buffers = data::buffers(&socket);
        let usual = |idx: usize| buffers[idx].clamp(1, LARGEST_BLOCK);
        let size = |idx: usize| Some(request.sizes[idx]).filter(|n| *n > 0).unwrap_or(usual(idx));
        let port = socket.local_addr()?.as_socket().map_or(0, |at| at.port());
        let flags = request.flags & (flag::NO_DELAY | flag::CPU);
        let class = if options.class == 0 { -1 } else { options.class.into() };
        let largest = if request.is_udp && sends { 65_507 } else { i32::MAX };
        let sizes = [size(0).min(largest), size(1)];
        Answer { buffers, sizes, flags, port, class }.message().write(&mut self.control)?;

        let begun = Instant::now();
        let cpu_before = (request.flags & flag::CPU != 0).then(CpuTimes::now);
        let is_stream_out = sends && !receives;
        let padding = if is_stream_out { 0 } else { PADDING_S };
        let until = match u64::try_from(request.length) {
            Ok(0) | Err(_) => self.shared.options.longest,
            Ok(length) => Duration::from_secs(length + padding).min(self.shared.options.longest),
        };
        let amount = u64::try_from(-i64::from(request.length)).ok().filter(|n| *n > 0);
        let control = &self.control;
        let limit = Limit {
            until: Some(begun + until),
            amount,
            stop: &self.shared.stop,
            is_alone: &|| has_gone(control),
        };
        let mut results = Results { buffers, retransmits: -1, ..Results::default() };
        let counts = if request.is_exchange() {
            self.exchange(&socket, request, &limit, &mut results)?
        } else {
            self.stream(socket, request, sizes, &limit, &mut results)?
        };
        results.bytes = counts.bytes;
        results.calls = counts.calls.map(|n| n as u32);
        results.failed = counts.failed as u32;
        results.transactions = counts.transactions as u32;
        let elapsed = begun.elapsed();
        // A test that ended by its time had nothing to do in the padding.
        let idle = if elapsed >= until && request.length > 0 { padding } else { 0 };
        results.seconds = elapsed.saturating_sub(Duration::from_secs(idle)).as_secs_f32();
        let now = CpuTimes::now();
        results.cpu = cpu_before.map(|before| now.since(&before)).unwrap_or_default();
        results.cpu.n_cpus = now.n_cpus();
        Ok(results)
    }

    fn data_options(&self, request: &Request) -> DataOptions {
        DataOptions {
            is_udp: request.is_udp,
            buffers: request.buffers.map(|bytes| u32::try_from(bytes).ok()),
            class: request.class,
            congestion: request.congestion.clone(),
            no_delay: request.flags & flag::NO_DELAY != 0,
            keep_alive: request.flags & flag::KEEP_ALIVE != 0,
            is_local: request.flags & flag::ROUTED == 0 && !request.is_exchange(),
            ..DataOptions::default()
        }
    }

    /// Accepts a data connection; `None` if the test is over before one has come.
    fn accept(&self, listener: &Socket, limit: &Limit<'_>) -> io::Result<Option<Socket>> {
        loop {
            match listener.accept() {
                Ok((socket, from)) => {
                    let from = from.as_socket().map(|from| from.ip().to_canonical());
                    let is_known = |ip| ip == self.client.ip() || (self.shared.options.permits)(ip);
                    if from.is_some_and(is_known) {
                        wait_briefly(&socket)?;
                        return Ok(Some(socket));
                    }
                }
                Err(_) if limit.is_over() => return Ok(None),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// Connects a UDP socket to the client's port: that of its first datagram, or `port`. Returns
    /// false if none has come.
    fn join(&self, socket: &Socket, port: Option<u16>, limit: &Limit<'_>) -> io::Result<bool> {
        if let Some(port) = port {
            socket.connect(&SocketAddr::new(self.client.ip(), port).into())?;
            return Ok(true);
        }
        let peek = rustix::net::RecvFlags::PEEK;
        while !limit.is_over() {
            let Ok((_, _, from)) = rustix::net::recvfrom(socket, &mut [0_u8; 1], peek) else {
                continue;
            };
            let from = from.and_then(|from| SocketAddr::try_from(from).ok());
            match from.filter(|from| from.ip().to_canonical() == self.client.ip()) {
                Some(from) => {
                    socket.connect(&from.into())?;
                    return Ok(true);
                }
                // A stranger's datagram is dropped.
                None => drop(tcp::receive(socket, &mut [0])),
            }
        }
        Ok(false)
    }

    /// Sends or receives a stream.
    fn stream(
        &self,
        socket: Socket,
        request: &Request,
        sizes: [i32; 2],
        limit: &Limit<'_>,
        results: &mut Results,
    ) -> io::Result<Counts> {
        let sends = request.direction & direction::SENDS != 0;
        let data = match request.is_udp {
            true => {
                let port = sends.then_some(request.client_port);
                self.join(&socket, port, limit)?.then_some(socket)
            }
            false => self.accept(&socket, limit)?,
        };
        let Some(data) = data else { return Ok(Counts::default()) };
        let [sending, receiving] = sizes.map(|bytes| usize::try_from(bytes).unwrap_or(1));
        let tick = &mut |_, _| {};
        let counts = match sends {
            true => send_stream(&data, &block(sending, "")?, limit, tick),
            false => receive_stream(&data, receiving, limit, tick),
        }?;
        look(&data, request.is_udp, results);
        if request.is_udp {
            say_goodbye(&data);
        } else {
            // The client reads what is under way until the end.
            let _ = data.shutdown(std::net::Shutdown::Write);
        }
        Ok(counts)
    }

    /// Answers requests.
    fn exchange(
        &self,
        socket: &Socket,
        request: &Request,
        limit: &Limit<'_>,
        results: &mut Results,
    ) -> io::Result<Counts> {
        let [asked, answered] = request.exchange.map(|bytes| usize::try_from(bytes).unwrap_or(0));
        let (mut into, out) = (vec![0; asked], block(answered, "")?);
        let is_new_each = request.flags & flag::CONNECTIONS != 0;
        let mut counts = Counts::default();
        let mut data = None;
        if request.is_udp && !self.join(socket, None, limit)? {
            return Ok(counts);
        }
        while limit.amount.is_none_or(|amount| counts.transactions < amount) {
            if !request.is_udp && data.is_none() {
                data = match self.accept(socket, limit)? {
                    Some(data) => Some(data),
                    None => break,
                };
            }
            let at = data.as_ref().unwrap_or(socket);
            let udp = (request.is_udp, &mut counts);
            let received = receive_whole(at, &mut into, (limit, None), udp)?;
            let is_done =
                received == Whole::Done && send_whole(at, &out, limit, &mut counts)? == Whole::Done;
            if counts.transactions == 0 || !is_done {
                look(at, request.is_udp, results);
            }
            match (is_done, is_new_each) {
                (true, false) => {}
                (true, true) => data = None,
                // A connection without a request is the last one, or has failed.
                (false, true) if !limit.is_over() => {
                    data = None;
                    continue;
                }
                (false, _) => break,
            }
            counts.transactions += 1;
            if limit.has_ended(Instant::now()) {
                break;
            }
        }
        if request.is_udp {
            say_goodbye(socket);
        }
        Ok(counts)
    }
}

/// Returns whether the client of a control connection has closed it.
fn has_gone(control: &TcpStream) -> bool {
    let mut fds = [PollFd::new(control, PollFlags::RDHUP)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n| n > 0)
}

fn look(socket: &Socket, is_udp: bool, results: &mut Results) {
    results.buffers = data::buffers(socket);
    if let (false, Ok(info)) = (is_udp, tcp::info(socket)) {
        results.retransmits = i32::try_from(info.retransmits).unwrap_or(i32::MAX);
        results.congestion = linerate_sys::socket::congestion(socket).unwrap_or_default();
    }
}
