//! The client: one test with a netserver.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;
use linerate_sys::{cpu, tcp, udp};
use socket2::{Domain, Socket, Type};

use crate::cpu::CpuTimes;
use crate::data::{
    self, Counts, DataOptions, Limit, Tick, Whole, block, end_connection, new_socket,
    receive_stream, receive_whole, say_goodbye, send_stream, send_whole, wait_briefly,
};
use crate::options::{Flow, Length, Options};
use crate::outcome::{Here, Outcome};
use crate::text::Interim;
use crate::wire::{Answer, Message, PADDING_S, Request, Results, flag};

/// Longest time for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest time for an answer of the server. At the end of a test it may still wait for data.
const ANSWER: Duration = Duration::from_secs(30);
/// Largest payload of a datagram.
const LARGEST_DATAGRAM: u32 = 65_507;

/// Why a test failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No address.
    #[error("find the address of {host}: {cause}")]
    Address {
        /// Host.
        host: String,
        /// Cause.
        #[source]
        cause: io::Error,
    },
    /// No server.
    #[error(
        "reach a netserver at {at}: {cause}. Start one there: netserver, or linerate serve netperf"
    )]
    Connect {
        /// Address of the server.
        at: SocketAddr,
        /// Cause.
        #[source]
        cause: io::Error,
    },
    /// The control connection.
    #[error("talk to the netserver at {at}: {cause}")]
    Control {
        /// Address of the server.
        at: SocketAddr,
        /// Cause.
        #[source]
        cause: io::Error,
    },
    /// The server refused.
    #[error("the netserver at {at} refused the test: {}", io::Error::from_raw_os_error(*.number))]
    Refused {
        /// Address of the server.
        at: SocketAddr,
        /// Its error number.
        number: i32,
    },
    /// Settings or data at this end.
    #[error("{doing}: {cause}")]
    Here {
        /// What was tried.
        doing: &'static str,
        /// Cause.
        #[source]
        cause: io::Error,
    },
}

fn here(doing: &'static str) -> impl Fn(io::Error) -> ClientError {
    move |cause| ClientError::Here { doing, cause }
}

/// Returns the first address of `host` in the family that was asked for.
fn address(options: &Options, host: &str, port: u16) -> Result<SocketAddr, ClientError> {
    let failed = |cause| ClientError::Address { host: host.to_owned(), cause };
    let mut all = (host, port).to_socket_addrs().map_err(failed)?;
    let missing = || failed(io::Error::from(io::ErrorKind::NotFound));
    all.find(|at| options.accepts(at.ip())).ok_or_else(missing)
}

/// Returns the address of this end for sockets to `to`.
fn local(options: &Options, idx: usize, to: IpAddr, port: u16) -> Result<SocketAddr, ClientError> {
    match &options.local[idx] {
        Some(name) => address(options, name, port),
        None if to.is_ipv4() => Ok(([0, 0, 0, 0], port).into()),
        None => Ok(([0_u16; 8], port).into()),
    }
}

/// Control connection.
struct Control {
    stream: TcpStream,
    at: SocketAddr,
}

impl Control {
    fn open(options: &Options) -> Result<Self, ClientError> {
        let at = address(options, &options.host, options.port)?;
        let from = local(options, 0, at.ip(), 0)?;
        let failed = |cause| ClientError::Connect { at, cause };
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, None).map_err(failed)?;
        linerate_sys::socket::bind(&socket, from).map_err(failed)?;
        socket.connect_timeout(&at.into(), CONNECT).map_err(failed)?;
        let stream = TcpStream::from(socket);
        let control = Self { stream, at };
        control.stream.set_nodelay(true).map_err(|cause| control.failed(cause))?;
        control.stream.set_read_timeout(Some(ANSWER)).map_err(|cause| control.failed(cause))?;
        Ok(control)
    }

    fn failed(&self, cause: io::Error) -> ClientError {
        ClientError::Control { at: self.at, cause }
    }

    /// Reads an answer, and its error number. Its kind says nothing: netserver 2.7.1 swaps the
    /// bytes of that of its results twice.
    fn answer(&mut self) -> Result<Message, ClientError> {
        let message = Message::read(&mut self.stream).map_err(|cause| self.failed(cause))?;
        if message.word != 0 {
            return Err(ClientError::Refused { at: self.at, number: message.word.cast_signed() });
        }
        Ok(message)
    }
}

/// Runs the test. Interim results go to `on_interim`; `stop` ends the test early.
///
/// # Errors
/// If the server does not answer or refuses, or if the data cannot be sent.
pub fn run(
    options: &Options,
    on_interim: &mut dyn FnMut(&Interim),
    stop: &dyn Fn() -> bool,
) -> Result<Outcome, ClientError> {
    let test = options.test;
    if let Some(pin) = options.pins[0] {
        let pinned = cpu::pin(pin.into()).map_err(io::Error::other);
        pinned.map_err(here("run on the CPU that -T names"))?;
    }
    let mut control = Control::open(options)?;
    let data_host = options.data_host.as_deref().unwrap_or(&options.host);
    let mut to = match &options.data_host {
        None => control.at,
        Some(_) => address(options, data_host, options.port)?,
    };
    let from = local(options, 1, to.ip(), options.data_ports[0])?;
    let data_options = DataOptions {
        is_udp: test.is_udp,
        buffers: options.buffers[0],
        class: options.classes[0],
        congestion: options.congestion[0].clone(),
        no_delay: options.no_delay,
        keep_alive: options.keep_alive,
        largest_segment: options.largest_segment,
        pacing: options.pacing,
        is_local: !options.is_routed,
    };
    let create = || new_socket(from, &data_options).map_err(here("create the data socket"));
    let socket = create()?;
    let at_start = data::buffers(&socket);
    let sizes = sizes(options, at_start);
    let request = request(options, &socket, to.is_ipv6());
    let written = request.message(options.pins[1]).write(&mut control.stream);
    written.map_err(|cause| control.failed(cause))?;
    let answer = Answer::read(&control.answer()?);
    to.set_port(answer.port);
    std::thread::sleep(options.wait);

    let mut blocks = Blocks {
        out: block(sizes[0] as usize, &options.fill[0]).map_err(here("fill the block"))?,
        into: vec![0; sizes[1] as usize],
    };
    let mut latencies = options.has_latencies.then(latencies);
    let cpu_before = options.cpu[0].then(CpuTimes::now);
    let begun = Instant::now();
    let (until, amount) = match options.length {
        Length::Time(time) => (Some(begun + time).filter(|_| !time.is_zero()), None),
        Length::Amount(amount) => (None, Some(amount.into())),
    };
    // The control connection shows an end of the server.
    let limit = Limit { until, amount, stop, is_alone: &|| false };
    let mut meter = Meter::new(options, begun, on_interim);
    let tick: Tick<'_> = &mut |now, units| meter.tick(now, units);
    let mut last = Here::default();
    let (counts, ended) = if test.flow == Flow::Connections {
        drop(socket);
        let watch = (tick, &mut latencies);
        let counts = connections(&create, to, &mut blocks, &limit, watch, &mut last)?;
        (counts, Instant::now())
    } else {
        connect(&socket, to).map_err(|cause| ClientError::Connect { at: to, cause })?;
        let counts = match test.flow {
            Flow::Send => send_stream(&socket, &blocks.out, &limit, tick),
            Flow::Receive => receive_stream(&socket, sizes[1] as usize, &limit, tick),
            _ => exchange(&socket, options, &mut blocks, &limit, (tick, &mut latencies)),
        };
        let counts = counts.map_err(here("send and receive the data"))?;
        let ended = Instant::now();
        look(&socket, test.is_udp, &mut last);
        match test.is_udp {
            true => say_goodbye(&socket),
            false => end_connection(&socket, Instant::now() + Duration::from_secs(PADDING_S)),
        }
        // What is still in the socket counts for the server, so its time does, too.
        let has_queue = test.flow == Flow::Send && !test.is_udp;
        (counts, if has_queue { Instant::now() } else { ended.min(until.unwrap_or(ended)) })
    };
    let elapsed = ended.saturating_duration_since(begun);
    meter.finish();
    let cpu = cpu_before.map(|before| CpuTimes::now().since(&before));
    let results = Results::read(&control.answer()?);
    let Counts { bytes, calls, failed, transactions } = counts;
    let is_sending = test.flow != Flow::Receive;
    let is_receiving = test.flow != Flow::Send;
    let here = Here {
        bytes,
        calls,
        failed,
        transactions,
        buffers: [at_start, if last.buffers[1] == [0; 2] { at_start } else { last.buffers[1] }],
        sizes: [
            if is_sending && !test.is_exchange() { sizes[0] } else { 0 },
            if is_receiving && !test.is_exchange() { sizes[1] } else { 0 },
        ],
        cpu,
        n_cpus: CpuTimes::now().n_cpus(),
        ..last
    };
    Ok(Outcome { options: options.clone(), elapsed, here, answer, results, latencies })
}

/// Blocks of a test.
struct Blocks {
    out: Vec<u8>,
    into: Vec<u8>,
}

/// Returns the bytes of a sending and of a receiving call.
fn sizes(options: &Options, buffers: [i32; 2]) -> [u32; 2] {
    if options.test.is_exchange() {
        return options.exchange;
    }
    let usual = buffers.map(|bytes| u32::try_from(bytes).unwrap_or(1).max(1));
    let largest = if options.test.is_udp { LARGEST_DATAGRAM } else { u32::MAX };
    let sending = options.send_sizes[0].unwrap_or_else(|| usual[0].min(largest));
    [sending.max(1), options.receive_sizes[0].unwrap_or(usual[1]).max(1)]
}

fn request(options: &Options, socket: &Socket, is_ipv6: bool) -> Request {
    let test = options.test;
    let signed = |bytes: Option<u32>| bytes.and_then(|n| i32::try_from(n).ok()).unwrap_or(-1);
    let exchange = options.exchange.map(|n| signed(test.is_exchange().then_some(n)));
    let flags = [
        (options.no_delay, flag::NO_DELAY),
        (test.flow == Flow::Connections, flag::CONNECTIONS),
        (options.cpu[1], flag::CPU),
        (options.is_routed && test.is_udp, flag::ROUTED),
        (!test.is_udp, flag::CONGESTION),
        (options.keep_alive, flag::KEEP_ALIVE),
    ];
    let own = socket.local_addr().ok().and_then(|at| at.as_socket());
    Request {
        buffers: options.buffers[1].map(signed),
        sizes: [options.send_sizes[1], options.receive_sizes[1]].map(signed),
        exchange,
        flags: flags.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum(),
        length: match options.length {
            Length::Time(time) => i32::try_from(time.as_secs()).unwrap_or(i32::MAX),
            Length::Amount(amount) => -i32::try_from(amount).unwrap_or(i32::MAX),
        },
        port: options.data_ports[1],
        family: if is_ipv6 { 6 } else { 4 },
        is_udp: test.is_udp,
        other_protocol: None,
        direction: test.direction(),
        client_port: own.map_or(0, |at| at.port()),
        class: options.classes[1],
        congestion: options.congestion[1].clone(),
        fill: options.fill[1].clone(),
    }
}

fn connect(socket: &Socket, to: SocketAddr) -> io::Result<()> {
    udp::set_send_timeout(socket, CONNECT).map_err(io::Error::other)?;
    socket.connect(&to.into())?;
    wait_briefly(socket)
}

/// Notes the state of a data socket.
fn look(socket: &Socket, is_udp: bool, here: &mut Here) {
    here.buffers[1] = data::buffers(socket);
    (here.largest_segment, here.retransmits) = (-1, -1);
    if let (false, Ok(info)) = (is_udp, tcp::info(socket)) {
        here.largest_segment = info.send_mss.into();
        here.retransmits = info.retransmits.into();
        here.congestion = linerate_sys::socket::congestion(socket).unwrap_or_default();
    }
}

/// Times of single transactions, ns: three digits, up to the longest test.
fn latencies() -> Histogram<u64> {
    const DIGITS: u8 = 3;
    const LONGEST: Duration = Duration::from_secs(60 * 60);
    let longest = LONGEST.as_nanos() as u64;
    Histogram::new_with_bounds(1, longest, DIGITS).expect("three digits are possible")
}

/// Ticks, and the times of single transactions.
type Watch<'a, 'b> = (Tick<'a>, &'b mut Option<Histogram<u64>>);

fn note(latencies: &mut Option<Histogram<u64>>, begun: Instant, now: Instant) {
    if let Some(latencies) = latencies {
        let time = u64::try_from(now.saturating_duration_since(begun).as_nanos());
        latencies.saturating_record(time.unwrap_or(u64::MAX));
    }
}

/// Sends requests and waits for their responses, with some under way.
fn exchange(
    socket: &Socket,
    options: &Options,
    blocks: &mut Blocks,
    limit: &Limit<'_>,
    (tick, latencies): Watch<'_, '_>,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let mut under_way = std::collections::VecDeque::new();
    let is_udp = options.test.is_udp;
    while limit.amount.is_none_or(|amount| counts.transactions < amount) {
        while under_way.len() <= options.burst as usize {
            under_way.push_back(Instant::now());
            if send_whole(socket, &blocks.out, limit, &mut counts)? != Whole::Done {
                return Ok(counts);
            }
        }
        let until = options.timeout.map(|timeout| Instant::now() + timeout);
        let received =
            receive_whole(socket, &mut blocks.into, (limit, until), (is_udp, &mut counts))?;
        match received {
            Whole::Done => {}
            // All that was under way is lost: begin again.
            Whole::Late if !limit.is_over() => {
                under_way.clear();
                continue;
            }
            Whole::Late | Whole::Ended => break,
        }
        let now = Instant::now();
        let sent = under_way.pop_front().unwrap_or(now);
        if limit.has_ended(now) {
            break;
        }
        counts.transactions += 1;
        note(latencies, sent, now);
        tick(now, 1);
    }
    Ok(counts)
}

/// Opens a connection for each request.
fn connections(
    create: &dyn Fn() -> Result<Socket, ClientError>,
    to: SocketAddr,
    blocks: &mut Blocks,
    limit: &Limit<'_>,
    (tick, latencies): Watch<'_, '_>,
    last: &mut Here,
) -> Result<Counts, ClientError> {
    let mut counts = Counts::default();
    let failed = here("send and receive the data");
    while !limit.is_over() && limit.amount.is_none_or(|amount| counts.transactions < amount) {
        let begun = Instant::now();
        let socket = create()?;
        connect(&socket, to).map_err(|cause| ClientError::Connect { at: to, cause })?;
        let sent = send_whole(&socket, &blocks.out, limit, &mut counts).map_err(&failed)?;
        let received =
            receive_whole(&socket, &mut blocks.into, (limit, None), (false, &mut counts));
        if [sent, received.map_err(&failed)?] != [Whole::Done; 2] {
            break;
        }
        if counts.transactions == 0 {
            look(&socket, false, last);
        }
        // The server closes first, so that its end keeps the port.
        end_connection(&socket, limit.until.unwrap_or(begun + CONNECT).max(begun));
        let now = Instant::now();
        counts.transactions += 1;
        note(latencies, begun, now);
        tick(now, 1);
    }
    Ok(counts)
}

/// Counts for interim results.
struct Meter<'a> {
    options: &'a Options,
    since: Instant,
    seen: Instant,
    units: u64,
    number: u32,
    show: &'a mut dyn FnMut(&Interim),
}

impl<'a> Meter<'a> {
    fn new(options: &'a Options, now: Instant, show: &'a mut dyn FnMut(&Interim)) -> Self {
        Self { options, since: now, seen: now, units: 0, number: 0, show }
    }

    fn tick(&mut self, now: Instant, units: u64) {
        self.seen = now;
        self.units += units;
        let span = now.saturating_duration_since(self.since);
        if self.options.interim.is_some_and(|interim| span >= interim) {
            self.print(now);
        }
    }

    fn print(&mut self, now: Instant) {
        let span = now.saturating_duration_since(self.since);
        let unit = self.options.unit;
        let bytes = match self.options.test.is_exchange() && unit.letter != 'x' {
            true => self.units * self.options.exchange.iter().copied().map(u64::from).sum::<u64>(),
            false => self.units,
        };
        (self.show)(&Interim {
            number: self.number,
            rate: bytes as f64 / unit.bytes / span.as_secs_f64().max(1e-9),
            span,
            ending: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        });
        self.number += 1;
        self.units = 0;
        self.since = now;
    }

    /// Shows what has come since the last interim result.
    fn finish(&mut self) {
        if self.options.interim.is_some() && self.units > 0 {
            self.print(self.seen);
        }
    }
}
