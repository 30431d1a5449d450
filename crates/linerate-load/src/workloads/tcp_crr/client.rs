//! The active end: one connection at a time, through its stages.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use linerate_model::{Counter, Counters, FlowReport, Load, Nanos};
use linerate_sys::clock;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{Close, TcpCrrParams};
use crate::workloads::companion::Companion;
use crate::workloads::quantities::{Waiting, late_starts, mean_gap, random, share};
use crate::workloads::rendezvous::would_wait;
use crate::workloads::socket_options::device;
use crate::{Due, LoadError, Progress, Setup, Tally, Times, Worker};

/// Blocking calls return after this long at the latest; a connection goes through several in a step.
const PATIENCE: Duration = Duration::from_millis(3);
/// Rest after a connection for which there was no port: ports come back only with time.
const NO_PORT_REST: Nanos = Nanos::from_millis(1);
const BUFFER_BYTES: usize = 1 << 16;
/// A connect that was under way has come about. Linux `include/uapi/asm-generic/errno.h`.
const EISCONN: i32 = 106;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    /// So many bytes of secret and request are written.
    Sending(usize),
    /// So many bytes of the response have come.
    Receiving(usize),
    /// The response is whole; the server is to close.
    Closing,
}

struct Attempt {
    socket: Socket,
    stage: Stage,
    at: Nanos,
    intended: Nanos,
}

struct TcpCrrClient {
    number: u32,
    address: SocketAddr,
    remote: SockAddr,
    source: Option<SockAddr>,
    device: Option<String>,
    congestion: String,
    close: Close,
    wait: Waiting,
    /// Secret and request.
    message: Box<[u8]>,
    response_bytes: usize,
    buffer: Box<[u8]>,
    timeout: Nanos,
    load: Load,
    mean_gap: Option<Nanos>,
    attempt: Option<Attempt>,
    companion: Companion,
    stopped: bool,
    counters: Counters,
    without_port: u64,
}

/// A worker that connects to `address`.
pub(super) fn worker(
    params: &TcpCrrParams,
    number: u32,
    setup: &Setup<'_>,
    address: SocketAddr,
    companion: Companion,
) -> Result<Box<dyn Worker>, LoadError> {
    let mut message = setup.secret.0.to_vec();
    message.resize(message.len() + params.request_size.0 as usize, b'q');
    let load = share(params.rate.map(|rate| rate.per_second(1)), random(params.poisson), 1, 1, params.workers);
    let same_family = |ip: &IpAddr| ip.is_ipv4() == address.is_ipv4();
    Ok(Box::new(TcpCrrClient {
        number,
        address,
        remote: address.into(),
        source: setup.local.address.filter(same_family).map(|ip| SocketAddr::new(ip, 0).into()),
        device: device(&params.device, setup.local)?.map(str::to_owned),
        congestion: params.congestion.clone(),
        close: params.close,
        wait: params.wait,
        message: message.into_boxed_slice(),
        response_bytes: params.response_size.0 as usize,
        buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
        timeout: params.timeout,
        mean_gap: mean_gap(load),
        load,
        attempt: None,
        companion,
        stopped: false,
        counters: Counters::default(),
        without_port: 0,
    }))
}

impl TcpCrrClient {
    #[inline]
    fn count(&mut self, tally: &mut Tally, counter: Counter, n: u64) {
        self.counters[counter] += n;
        tally.add(counter, n);
    }

    fn open(&self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, Some(Protocol::TCP))?;
        if let Some(device) = &self.device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        if let Some(source) = &self.source {
            socket.bind(source)?;
        }
        match self.wait {
            Waiting::Spin => socket.set_nonblocking(true)?,
            Waiting::Block => {
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
            }
        }
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_congestion(self.congestion.as_bytes())?;
        if self.close == Close::Reset {
            socket.set_linger(Some(Duration::ZERO))?;
        }
        Ok(socket)
    }

    /// Takes the connection one stage on; `Ok(true)` when it is over, an error that would wait when nothing moved.
    fn advance(&mut self, attempt: &mut Attempt, tally: &mut Tally) -> io::Result<bool> {
        match attempt.stage {
            Stage::Connecting => match attempt.socket.connect(&self.remote) {
                Err(error) if is_under_way(&error) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(error) if error.raw_os_error() != Some(EISCONN) => return Err(error),
                _ => attempt.stage = Stage::Sending(0),
            },
            Stage::Sending(sent) => {
                let n = (&attempt.socket).write(&self.message[sent..])?;
                self.count(tally, Counter::CallsSent, 1);
                self.count(tally, Counter::PayloadSent, n as u64);
                let sent = sent + n;
                attempt.stage = if sent < self.message.len() { Stage::Sending(sent) } else { Stage::Receiving(0) };
            }
            Stage::Receiving(come) => {
                let n = self.read(attempt, tally)?;
                if n == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let come = come + n;
                attempt.stage = if come < self.response_bytes { Stage::Receiving(come) } else { Stage::Closing };
                return Ok(attempt.stage == Stage::Closing && self.close != Close::Server);
            }
            Stage::Closing => return Ok(self.read(attempt, tally)? == 0),
        }
        Ok(false)
    }

    fn read(&mut self, attempt: &Attempt, tally: &mut Tally) -> io::Result<usize> {
        self.count(tally, Counter::CallsReceived, 1);
        let n = (&attempt.socket).read(&mut self.buffer)?;
        self.count(tally, Counter::PayloadReceived, n as u64);
        Ok(n)
    }

    fn begin(&mut self, due: Due, tally: &mut Tally) -> io::Result<()> {
        let now = Nanos(clock::monotonic());
        let mut intended = now;
        if let Some(gap) = self.mean_gap {
            tally.defer(due.operations - 1);
            self.count(tally, Counter::LateStarts, late_starts(now, due.intended, gap, 1));
            intended = due.intended;
        }
        let socket = self.open()?;
        self.attempt = Some(Attempt { socket, stage: Stage::Connecting, at: now, intended });
        Ok(())
    }

    /// A connection that came to nothing is a lost transaction, infinitely slow.
    fn fail(&mut self, error: &io::Error, tally: &mut Tally) {
        tally.service.record_lost();
        tally.response.record_lost();
        self.count(tally, Counter::ConnectionsFailed, 1);
        self.count(tally, Counter::TransactionsLost, 1);
        if error.kind() == io::ErrorKind::AddrNotAvailable || error.kind() == io::ErrorKind::AddrInUse {
            self.without_port += 1;
            clock::sleep_until((Nanos(clock::monotonic()) + NO_PORT_REST).0, 0);
        }
    }

    fn succeed(&mut self, attempt: Attempt, tally: &mut Tally) {
        let (at, intended) = (attempt.at, attempt.intended);
        drop(attempt);
        let now = Nanos(clock::monotonic());
        tally.service.record(now.since(at).0);
        tally.response.record(now.since(intended).0);
        self.count(tally, Counter::Connections, 1);
        self.count(tally, Counter::Transactions, 1);
    }

    /// Takes the connection under way as far as it goes.
    fn go_on(&mut self, tally: &mut Tally) -> Progress {
        let Some(mut attempt) = self.attempt.take() else { return Progress::Idle };
        loop {
            match self.advance(&mut attempt, tally) {
                Ok(true) => {
                    self.succeed(attempt, tally);
                    return Progress::Moved;
                }
                Ok(false) => {}
                Err(error) if would_wait(&error) => {
                    if Nanos(clock::monotonic()).since(attempt.at) > self.timeout {
                        self.fail(&error, tally);
                    } else {
                        self.attempt = Some(attempt);
                    }
                    return Progress::Idle;
                }
                Err(error) => {
                    self.fail(&error, tally);
                    return Progress::Moved;
                }
            }
        }
    }
}

/// Whether a connect has begun and not ended: `EINPROGRESS`, `EALREADY`, or the timeout of a blocking one.
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
        Times { service: true, response: true, gap: false }
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        if self.attempt.is_none() {
            if self.stopped {
                return Progress::Ended;
            }
            self.companion.look(due.intended, |_, _| {});
            if self.companion.is_gone() {
                return Progress::Ended;
            }
            if due.operations == 0 {
                if self.wait == Waiting::Block {
                    clock::sleep_until(due.until.0, 0);
                }
                return Progress::Idle;
            }
            if let Err(error) = self.begin(due, tally) {
                self.fail(&error, tally);
                return Progress::Moved;
            }
        } else if self.mean_gap.is_some() {
            tally.defer(due.operations);
        }
        self.go_on(tally)
    }

    fn n_flows(&self) -> usize {
        0
    }

    fn stop_sending(&mut self) {
        self.stopped = true;
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        if self.attempt.take().is_some() {
            self.counters[Counter::ConnectionsFailed] += 1;
            self.counters[Counter::TransactionsLost] += 1;
        }
        let close = format!("{:?}", self.close).to_lowercase();
        let mut modes = BTreeMap::from([("close".to_owned(), close), ("wait".to_owned(), self.wait.name().to_owned())]);
        modes.insert("congestion".to_owned(), self.congestion.clone());
        if self.without_port > 0 {
            let why = format!(
                "no local port for {} connections: TIME_WAIT holds them (let the server close, or reset)",
                self.without_port
            );
            modes.insert("ports".to_owned(), why);
        }
        vec![FlowReport {
            flow: self.number,
            worker: self.number,
            remote: self.address.to_string(),
            counters: self.counters,
            modes,
            ..FlowReport::default()
        }]
    }
}
