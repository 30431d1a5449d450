//! Active end: takes connections through their stages, several at a time.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use linerate_model::{Counter, Counters, FlowReport, Load, Nanos, SocketValue, TcpState};
use linerate_sys::readiness::{Interest, Readiness};
use linerate_sys::{SysError, clock, socket as options};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{Close, TcpCrrParams, WORD};
use crate::workloads::arrivals::{late_starts, mean_gap};
use crate::workloads::companion::Companion;
use crate::workloads::placement::Waiting;
use crate::workloads::proof::word;
use crate::workloads::rendezvous::would_wait;
use crate::workloads::sockets::zoned;
use crate::workloads::tcp_options::TcpOptions;
use crate::workloads::tcp_state;
use crate::{Due, Progress, Result, Setup, Start, Tally, Times, Worker};
use ConnectionStage::{Closing, Connecting, Receiving, Sending};

/// Longest wait of a blocking call; a connection makes several in a step.
const PATIENCE: Duration = Duration::from_millis(3);
/// Rest after a connection that got no port: ports become free only with time.
const NO_PORT_REST: Nanos = Nanos::from_millis(1);
/// Interval between searches for connections past their timeout.
const LOOK_EVERY: Nanos = Nanos::from_millis(1);
/// Sockets served in a step.
const READY: usize = 64;
const BUFFER_BYTES: usize = 1 << 16;
/// Completion of a pending connect. Linux `include/uapi/asm-generic/errno.h`.
const EISCONN: i32 = 106;

/// Stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionStage {
    Connecting,
    /// Writing secret and request, of which this many bytes are written.
    Sending(usize),
    /// Reading the response, of which this many bytes have arrived.
    Receiving(usize),
    /// The response is complete; the server is expected to close.
    Closing,
}

struct Attempt {
    socket: Socket,
    stage: ConnectionStage,
    start: Start,
    /// Awaited event, while the worker waits.
    awaited: Option<Interest>,
}

/// How a worker waits for its connections.
enum Wait {
    /// In the calls, with one connection.
    Call,
    /// For any of several.
    Any(Box<Readiness>),
    /// Never.
    Spin,
}

struct TcpCrrClient {
    number: u32,
    remote: SockAddr,
    address: SocketAddr,
    source: Option<SockAddr>,
    device: Option<String>,
    options: TcpOptions,
    /// Options as granted to a socket opened in the same way.
    granted: BTreeMap<String, SocketValue>,
    close: Close,
    wait: Wait,
    /// Secret and request.
    message: Box<[u8]>,
    response_bytes: usize,
    buffer: Box<[u8]>,
    timeout: Nanos,
    look_at: Nanos,
    load: Load,
    mean_gap: Option<Nanos>,
    /// The connection of each stream.
    attempts: Box<[Option<Attempt>]>,
    n_busy: usize,
    companion: Companion,
    stopped: bool,
    counters: Counters,
    tcp: TcpState,
}

/// Creates a worker that connects to `address`.
pub(super) fn worker(
    params: &TcpCrrParams,
    number: u32,
    setup: &Setup<'_>,
    address: SocketAddr,
    companion: Companion,
) -> Result<Box<dyn Worker>> {
    let mut message = word(setup.secret, WORD).0.to_vec();
    message.resize(message.len() + params.exchange.request_bytes(), b'q');
    let (streams, workers) = (params.placement.streams(), params.placement.workers());
    // Stream s is carried by worker s mod workers.
    let own = (streams - number).div_ceil(workers) as usize;
    let load = params.arrivals.requests(1, own, streams);
    let wait = match params.placement.wait {
        Waiting::Spin => Wait::Spin,
        Waiting::Block if own == 1 => Wait::Call,
        Waiting::Block => Wait::Any(Box::new(Readiness::new()?)),
    };
    let same_family = |ip: &IpAddr| ip.is_ipv4() == address.is_ipv4();
    let mut worker = TcpCrrClient {
        number,
        remote: address.into(),
        address,
        source: setup
            .local
            .address
            .filter(same_family)
            .map(|ip| zoned(SocketAddr::new(ip, 0), setup.local).into()),
        device: params.options.socket.device(setup.local)?.map(str::to_owned),
        options: params.options.clone(),
        granted: BTreeMap::new(),
        close: params.close,
        wait,
        message: message.into_boxed_slice(),
        response_bytes: params.exchange.response_bytes(),
        buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
        timeout: params.timeout,
        look_at: Nanos(0),
        mean_gap: mean_gap(load),
        load,
        attempts: (0..own).map(|_| None).collect(),
        n_busy: 0,
        companion,
        stopped: false,
        counters: Counters::default(),
        tcp: TcpState::default(),
    };
    let probe = worker
        .bound()
        .map_err(|cause| SysError::new("open a socket to", address.to_string(), cause))?;
    worker.options.prepare(&probe)?;
    worker.granted = worker.options.granted(&probe)?;
    Ok(Box::new(worker))
}

impl TcpCrrClient {
    #[inline]
    fn count(&mut self, tally: &mut Tally, counter: Counter, n: u64) {
        self.counters[counter] += n;
        tally.add(counter, n);
    }

    /// Opens a socket to connect with. Its options were granted before, so an error here needs no
    /// details.
    fn open(&self) -> io::Result<Socket> {
        let socket = self.bound()?;
        self.options.prepare(&socket).map_err(|_| io::ErrorKind::Unsupported)?;
        Ok(socket)
    }

    fn bound(&self) -> io::Result<Socket> {
        let socket =
            Socket::new(Domain::for_address(self.address), Type::STREAM, Some(Protocol::TCP))?;
        if let Some(device) = &self.device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        if let Some(source) = &self.source {
            // A kernel that refuses this option takes a port at once: ports are then used up
            // sooner.
            let _ = options::choose_port_late(&socket);
            socket.bind(source)?;
        }
        match self.wait {
            Wait::Any(_) | Wait::Spin => socket.set_nonblocking(true)?,
            Wait::Call => {
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
            }
        }
        if self.close == Close::Reset {
            socket.set_linger(Some(Duration::ZERO))?;
        }
        Ok(socket)
    }

    /// Advances the connection by one stage. Returns `Ok(true)` when it is over, and an error that
    /// would block when nothing moved.
    fn advance(&mut self, attempt: &mut Attempt, tally: &mut Tally) -> io::Result<bool> {
        match attempt.stage {
            Connecting => match attempt.socket.connect(&self.remote) {
                Err(error) if is_under_way(&error) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(error) if error.raw_os_error() != Some(EISCONN) => return Err(error),
                _ => attempt.stage = Sending(0),
            },
            Sending(sent) => {
                let n = (&attempt.socket).write(&self.message[sent..])?;
                self.count(tally, Counter::CallsSent, 1);
                self.count(tally, Counter::PayloadSent, n as u64);
                let sent = sent + n;
                attempt.stage =
                    if sent < self.message.len() { Sending(sent) } else { Receiving(0) };
            }
            Receiving(come) => {
                let n = self.read(attempt, tally)?;
                if n == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let come = come + n;
                attempt.stage = if come < self.response_bytes { Receiving(come) } else { Closing };
                return Ok(attempt.stage == Closing && self.close != Close::Server);
            }
            Closing => return Ok(self.read(attempt, tally)? == 0),
        }
        Ok(false)
    }

    fn read(&mut self, attempt: &Attempt, tally: &mut Tally) -> io::Result<usize> {
        self.count(tally, Counter::CallsReceived, 1);
        let n = (&attempt.socket).read(&mut self.buffer)?;
        self.count(tally, Counter::PayloadReceived, n as u64);
        Ok(n)
    }

    /// Starts due connections on every free stream; returns true if it started any.
    fn begin(&mut self, due: Due, tally: &mut Tally) -> bool {
        let now = Nanos(clock::monotonic());
        let mut begun = 0;
        for place in 0..self.attempts.len() {
            if begun == due.operations {
                break;
            }
            if self.attempts[place].is_some() {
                continue;
            }
            let at = if begun == 0 { now } else { Nanos(clock::monotonic()) };
            let intended = match self.mean_gap {
                Some(_) => Nanos(due.intended.0 + u64::from(begun) * due.gap.0),
                None => at,
            };
            begun += 1;
            let start = Start { at, intended };
            tally.started(intended);
            match self.open() {
                Ok(socket) => {
                    let attempt = Attempt { socket, stage: Connecting, start, awaited: None };
                    self.attempts[place] = Some(attempt);
                    self.n_busy += 1;
                    if let Wait::Any(_) = self.wait {
                        self.go_on(place, tally);
                    }
                }
                Err(error) if self.fail(start, &error, tally) => break,
                Err(_) => {}
            }
        }
        if let Some(gap) = self.mean_gap {
            tally.defer(due.operations - begun);
            self.count(
                tally,
                Counter::LateStarts,
                late_starts(now, due.intended, gap, begun.into()),
            );
        }
        begun > 0
    }

    /// Counts a failed connection as a lost transaction with an infinite time. Returns true if it
    /// got no port.
    fn fail(&mut self, start: Start, error: &io::Error, tally: &mut Tally) -> bool {
        tally.lost(start, Nanos(clock::monotonic()));
        self.count(tally, Counter::ConnectionsFailed, 1);
        self.count(tally, Counter::TransactionsLost, 1);
        let without_port =
            matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse);
        if without_port {
            self.count(tally, Counter::PortsExhausted, 1);
            clock::sleep_until((Nanos(clock::monotonic()) + NO_PORT_REST).0, 0);
        }
        without_port
    }

    /// Adds the kernel's counters of a connection that is about to close.
    fn note_state(&mut self, attempt: &Attempt) {
        if let Some(state) = tcp_state::of(&attempt.socket) {
            tcp_state::add(&mut self.tcp, state);
        }
    }

    fn succeed(&mut self, attempt: Attempt, tally: &mut Tally) {
        let start = attempt.start;
        // This reading is not part of the measurement.
        let before = clock::monotonic();
        self.note_state(&attempt);
        let looked = clock::monotonic() - before;
        drop(attempt);
        let now = Nanos(clock::monotonic() - looked);
        tally.answered(start, now);
        self.count(tally, Counter::Connections, 1);
        self.count(tally, Counter::Transactions, 1);
    }

    /// Advances the connection of a stream as far as it goes; returns true if it is over.
    fn go_on(&mut self, place: usize, tally: &mut Tally) -> bool {
        let Some(mut attempt) = self.attempts[place].take() else { return false };
        let ended = loop {
            match self.advance(&mut attempt, tally) {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(error) if would_wait(&error) => match self.await_next(place, &mut attempt) {
                    Ok(()) => {
                        self.attempts[place] = Some(attempt);
                        return false;
                    }
                    Err(error) => break Err(error),
                },
                Err(error) => break Err(error),
            }
        };
        self.n_busy -= 1;
        match ended {
            Ok(()) => self.succeed(attempt, tally),
            Err(error) => {
                let start = attempt.start;
                self.note_state(&attempt);
                drop(attempt);
                self.fail(start, &error, tally);
            }
        }
        true
    }

    /// Registers for the event with which the connection can continue. A socket leaves the set when
    /// it is closed.
    fn await_next(&self, place: usize, attempt: &mut Attempt) -> io::Result<()> {
        let Wait::Any(readiness) = &self.wait else { return Ok(()) };
        let interest = match attempt.stage {
            Connecting | Sending(_) => Interest::ReadableOrWritable,
            Receiving(_) | Closing => Interest::Readable,
        };
        let set = match attempt.awaited {
            Some(awaited) if awaited == interest => Ok(()),
            Some(_) => readiness.modify(&attempt.socket, place as u64, interest),
            None => readiness.add(&attempt.socket, place as u64, interest),
        };
        attempt.awaited = Some(interest);
        set.map_err(|error| error.cause)
    }

    /// Gives up connections past their timeout.
    fn give_up(&mut self, now: Nanos, tally: &mut Tally) {
        self.look_at = now + LOOK_EVERY;
        for place in 0..self.attempts.len() {
            let is_late = |attempt: &Attempt| now.since(attempt.start.at) > self.timeout;
            if let Some(attempt) = self.attempts[place].take_if(|attempt| is_late(attempt)) {
                self.n_busy -= 1;
                let start = attempt.start;
                self.note_state(&attempt);
                drop(attempt);
                self.fail(start, &io::ErrorKind::TimedOut.into(), tally);
            }
        }
    }

    /// Advances every connection that can continue, and waits for one if `patience` allows. Returns
    /// true if one is over.
    fn serve(&mut self, patience: Duration, tally: &mut Tally) -> bool {
        let mut over = false;
        let Wait::Any(readiness) = &mut self.wait else {
            for place in 0..self.attempts.len() {
                over |= self.go_on(place, tally);
            }
            return over;
        };
        let mut ready = [0; READY];
        let tokens = readiness.wait(patience);
        let n = tokens.len();
        ready[..n].copy_from_slice(tokens);
        for place in &ready[..n] {
            over |= self.go_on(*place as usize, tally);
        }
        over
    }
}

/// Returns true if a connect has begun and not ended: `EINPROGRESS`, `EALREADY`, or the timeout of
/// a blocking one.
fn is_under_way(error: &io::Error) -> bool {
    /// Linux `include/uapi/asm-generic/errno.h`.
    const EALREADY: i32 = 114;
    /// Likewise.
    const EINPROGRESS: i32 = 115;
    matches!(error.raw_os_error(), Some(EALREADY | EINPROGRESS)) || would_wait(error)
}

impl Worker for TcpCrrClient {
    fn load(&self) -> Load {
        self.load
    }

    fn times(&self) -> Times {
        Times::REQUESTS
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        self.companion.look(due.intended, |_, _| {});
        let mut moved = false;
        if self.stopped || self.companion.is_gone() {
            if self.n_busy == 0 {
                return Progress::Ended;
            }
            tally.defer(if self.mean_gap.is_some() { due.operations } else { 0 });
        } else if due.operations > 0 {
            moved = self.begin(due, tally);
        }
        let now = Nanos(clock::monotonic());
        let patience = if moved { Nanos(0) } else { due.until.since(now) };
        if self.n_busy > 0 {
            moved |= self.serve(patience.into(), tally);
        } else if !moved && !matches!(self.wait, Wait::Spin) {
            clock::sleep_until(due.until.0, 0);
        }
        if now >= self.look_at {
            self.give_up(now, tally);
        }
        if moved { Progress::Moved } else { Progress::Idle }
    }

    fn stop_sending(&mut self) {
        self.stopped = true;
    }

    fn leave_open(&mut self, now: Nanos, tally: &mut Tally) {
        self.attempts.iter().flatten().for_each(|attempt| tally.left_open(attempt.start, now));
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        for attempt in std::mem::take(&mut self.attempts).into_iter().flatten() {
            self.note_state(&attempt);
        }
        let close = format!("{:?}", self.close).to_lowercase();
        let wait = match self.wait {
            Wait::Call => "block",
            Wait::Any(_) => "block (epoll)",
            Wait::Spin => "spin",
        };
        let modes =
            BTreeMap::from([("close".to_owned(), close), ("wait".to_owned(), wait.to_owned())]);
        vec![FlowReport {
            flow: self.number,
            worker: self.number,
            remote: self.address.to_string(),
            counters: self.counters,
            socket: std::mem::take(&mut self.granted),
            modes,
            tcp: (self.tcp != TcpState::default()).then_some(self.tcp),
            ..FlowReport::default()
        }]
    }
}
