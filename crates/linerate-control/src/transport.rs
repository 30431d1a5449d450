//! Transports of a session: TCP with TLS, plain TCP on loopback, a command's standard streams, or a
//! socket pair.
//!
//! | transport | encryption | the peer is identified by |
//! |---|---|---|
//! | TCP, keys paired | TLS 1.3, both ends | its public key |
//! | TCP on loopback, no keys paired | none | the user that owns its socket |
//! | command (`ssh host linerate agent --stdio`) | the command's | who started it |
//! | in this process | none | being this process |
//!
//! Without paired keys no connection leaves or enters the host.

use std::io::{self, Read};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use linerate_model::{AGENT_PORT, HostAddress};

use crate::keys::{ReachedAt, Right};
use crate::link::{Beat, Channel, Pulse, Timeouts};
use crate::timed::{Deadline, Socket, Timed};
use crate::tls::{self, Secured, Trust};
use crate::{Agent, ControlError, KeyStore, Result};

/// Payload of the largest segment of a control connection: a packet of 1280 bytes, which every IPv6
/// link carries (RFC 8200 clause 5), less 60 bytes of headers. A path that loses larger packets is
/// a finding of a diagnosis, so it must not prevent the measurement.
pub(crate) const LARGEST_SEGMENT: u16 = 1220;

/// Creates a channel over a plain TCP connection.
pub(crate) fn plain(
    socket: TcpStream,
    deadline: Deadline,
    timeouts: &Timeouts,
) -> io::Result<Channel> {
    let (own, address) = (socket.local_addr()?, socket.peer_addr()?);
    socket.set_write_timeout(Some(timeouts.write))?;
    let (reading, closing) = (socket.try_clone()?, socket.try_clone()?);
    let pulse = Some(tcp_pulse(socket.try_clone()?));
    Ok(Channel {
        reader: Box::new(Timed { socket: Socket::Tcp(reading), deadline: deadline.clone() }),
        writer: Box::new(socket),
        closer: tcp_closer(closing),
        pulse,
        deadline,
        peer: address.to_string(),
        key: None,
        address: Some(address.ip()),
        own: Some(own.ip()),
    })
}

/// Creates a channel over an established TLS connection on `socket`.
pub(crate) fn secured(
    secured: Secured,
    socket: &TcpStream,
    deadline: Deadline,
    timeouts: &Timeouts,
) -> io::Result<Channel> {
    let (own, address) = (socket.local_addr()?, socket.peer_addr()?);
    let key = secured.peer;
    socket.set_write_timeout(Some(timeouts.write))?;
    let closing = socket.try_clone()?;
    let (reader, writer) = secured.split(deadline.clone())?;
    Ok(Channel {
        reader: Box::new(reader),
        writer: Box::new(writer),
        closer: tcp_closer(closing),
        pulse: Some(tcp_pulse(socket.try_clone()?)),
        deadline,
        peer: address.to_string(),
        key: Some(key),
        address: Some(address.ip()),
        own: Some(own.ip()),
    })
}

fn tcp_closer(socket: TcpStream) -> Arc<dyn Fn() + Send + Sync> {
    Arc::new(move || {
        // It fails if the connection is closed already.
        let _ = socket.shutdown(Shutdown::Both);
    })
}

fn tcp_pulse(socket: TcpStream) -> Pulse {
    Arc::new(move || {
        let info = linerate_sys::tcp::info(&socket).ok()?;
        let round_trip = u64::from(info.rtt_us) + 4 * u64::from(info.rttvar_us);
        Some(Beat { segments: info.segments_in, round_trip: Duration::from_micros(round_trip) })
    })
}

/// Creates a channel over one end of a socket pair.
pub(crate) fn unix(
    socket: UnixStream,
    peer: &str,
    deadline: Deadline,
    timeouts: &Timeouts,
) -> io::Result<Channel> {
    socket.set_write_timeout(Some(timeouts.write))?;
    let (reading, closing) = (socket.try_clone()?, socket.try_clone()?);
    Ok(Channel {
        reader: Box::new(Timed { socket: Socket::Unix(reading), deadline: deadline.clone() }),
        writer: Box::new(socket),
        closer: Arc::new(move || {
            // It fails if the stream is closed already.
            let _ = closing.shutdown(Shutdown::Both);
        }),
        pulse: None,
        deadline,
        peer: peer.to_owned(),
        key: None,
        address: None,
        own: None,
    })
}

/// Creates a channel over this process's standard input and output.
pub(crate) fn stdio() -> Channel {
    Channel {
        reader: Box::new(io::stdin()),
        writer: Box::new(io::stdout()),
        // Standard input cannot be shut down under its reader. The process ends with its only
        // session.
        closer: Arc::new(|| {}),
        pulse: None,
        deadline: Deadline::default(),
        peer: "standard input".to_owned(),
        key: None,
        address: None,
        own: None,
    }
}

/// Connects to the agent of `host`. Greetings have not been exchanged yet.
///
/// # Errors
/// If there is no answer, or one end refuses the other's key.
pub(crate) fn connect(
    host: &str,
    address: &HostAddress,
    keys: Option<&KeyStore>,
    in_process: &Agent,
    timeouts: &Timeouts,
) -> Result<Channel> {
    let deadline = Instant::now() + timeouts.handshake;
    match address {
        HostAddress::InProcess => in_process.open().map_err(|cause| ControlError::Io {
            operation: "open a socket pair to the agent in this process for",
            host: host.to_owned(),
            cause,
        }),
        HostAddress::Command(argv) => command(host, argv, timeouts),
        HostAddress::Tcp(address) => tcp(host, address, keys, timeouts, deadline),
    }
}

fn tcp(
    host: &str,
    address: &str,
    keys: Option<&KeyStore>,
    timeouts: &Timeouts,
    deadline: Instant,
) -> Result<Channel> {
    let socket = connect_tcp(host, address, deadline)?;
    let operation = "set up connection to agent on";
    let broken = |cause| ControlError::Io { operation, host: host.to_owned(), cause };
    let loopback = socket.peer_addr().map_err(broken)?.ip().to_canonical().is_loopback();
    let mut known = keys.map(KeyStore::peers).transpose()?.unwrap_or_default();
    known.retain(|peer| peer.may(Right::BeMeasured));
    let Some(keys) = keys.filter(|_| !known.is_empty()) else {
        if loopback {
            return plain(socket, Deadline::at(deadline), timeouts).map_err(broken);
        }
        return Err(ControlError::KeyRefused {
            host: host.to_owned(),
            cause: "this host has not been paired with any that it may measure".into(),
        });
    };
    let at = ReachedAt::new(address, socket.peer_addr().map_err(broken)?.ip());
    let trust = Trust::Known(known.iter().map(|peer| peer.key).collect());
    match tls::connect(socket.try_clone().map_err(broken)?, keys, trust, deadline) {
        Ok(connection) => match keys.recognise(&at, connection.peer)? {
            Ok(()) => {
                secured(connection, &socket, Deadline::at(deadline), timeouts).map_err(broken)
            }
            Err(cause) => Err(ControlError::KeyRefused { host: host.to_owned(), cause }),
        },
        // An agent without keys listens on loopback only, and closes a connection that opens TLS.
        Err(error) if loopback && !is_key_refusal(&error) => {
            if let Some(paired) = keys.expected(&at)? {
                // Any user of this host may listen there now.
                let cause = format!(
                    "{} does not use TLS ({error}), but {} ({}) was paired there; if that host has \
                        no keys any more: linerate pair forget {}",
                    at.written, paired.name, paired.key, paired.key
                );
                return Err(ControlError::KeyRefused { host: host.to_owned(), cause });
            }
            plain(connect_tcp(host, address, deadline)?, Deadline::at(deadline), timeouts)
                .map_err(broken)
        }
        Err(error) => Err(tls_error(host, error)),
    }
}

/// Connects to `host:port`. Tries every resolved address in turn.
pub(crate) fn connect_tcp(host: &str, address: &str, deadline: Instant) -> Result<TcpStream> {
    // With a port, or without one as a bare host name or address.
    let addresses: Vec<SocketAddr> = address
        .to_socket_addrs()
        // A bare IPv6 address in brackets is neither; they are taken off for the second attempt.
        .or_else(|_| (address.trim_matches(['[', ']']), AGENT_PORT).to_socket_addrs())
        .map_err(|cause| {
            down(host, "resolve", format!("{address}: {cause}"), "check the name and the resolver")
        })?
        .collect();
    // The last error is reported, as that of the last address tried.
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in &addresses {
        // A timeout of zero is refused, and one millisecond ends the attempt soon enough.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match connect_within(*address, left) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(down(
        host,
        "connect to agent on",
        format!("{address}: {last}"),
        "is `linerate agent` running there, and does a firewall let its port through? Without a \
            paired key it listens on loopback only: run `linerate agent --pair` there, and \
            `linerate to HOST --token -` here",
    ))
}

fn connect_within(address: SocketAddr, left: Duration) -> io::Result<TcpStream> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )?;
    // A failure matters only on paths that lose large packets. The agent cannot set it: data
    // connections arrive at its port too.
    let _ = linerate_sys::tcp::set_largest_segment(&socket, LARGEST_SEGMENT);
    socket.connect_timeout(&address.into(), left)?;
    // Control messages are small and urgent. Without the option they are only delayed.
    let _ = socket.set_tcp_nodelay(true);
    Ok(socket.into())
}

fn down(host: &str, operation: &'static str, cause: String, remedy: &'static str) -> ControlError {
    ControlError::HostDown { host: host.to_owned(), operation, cause, remedy }
}

/// Advice for a host that accepts a connection but never answers.
pub(crate) const LOST_PACKETS: &str = "is it a linerate agent that listens there? If so, the path \
    may lose large packets. Check: `ping -M do -s 1200 HOST` gets no answer then. Remedy: lower \
    the MTU on both hosts with `ip link set DEVICE mtu 1200`, or let TCP find it with `sysctl -w \
    net.ipv4.tcp_mtu_probing=1` on both";

/// Returns whether the error is a time-out.
pub(crate) fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Returns whether a TLS error means that one end refused the other's key.
fn is_key_refusal(error: &io::Error) -> bool {
    matches!(
        error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()),
        Some(rustls::Error::AlertReceived(_) | rustls::Error::InvalidCertificate(_))
    )
}

/// Converts a TLS error to one with a cause and a remedy.
pub(crate) fn tls_error(host: &str, error: io::Error) -> ControlError {
    let host = host.to_owned();
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => ControlError::KeyRefused {
            host,
            cause: "its key is not one of a paired host that this host may measure".into(),
        },
        Some(rustls::Error::AlertReceived(alert)) => ControlError::KeyRefused {
            host,
            cause: format!("it refuses this host's key (TLS alert {alert:?})"),
        },
        _ if is_silence(&error) => ControlError::HostDown {
            host,
            operation: "open TLS to agent on",
            cause: "no answer in time".into(),
            remedy: LOST_PACKETS,
        },
        _ => ControlError::Io { operation: "open TLS to agent on", host, cause: error },
    }
}

/// Bytes that are kept of a command's standard error.
const STDERR_KEPT: usize = 2048;
/// Longest wait for the reason why a command ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Starts `argv` and creates a channel over its standard streams. They are one socket, so that
/// reading has deadlines and can be ended.
fn command(host: &str, argv: &[String], timeouts: &Timeouts) -> Result<Channel> {
    let operation = "open a socket pair to the command for";
    let broken = |cause| ControlError::Io { operation, host: host.to_owned(), cause };
    let Some((program, arguments)) = argv.split_first() else {
        return Err(ControlError::HostDown {
            host: host.to_owned(),
            operation: "start command for",
            cause: "it is empty".into(),
            remedy: "name a program, e.g. ssh HOST linerate agent --stdio",
        });
    };
    let (ours, theirs) = UnixStream::pair().map_err(broken)?;
    let output = theirs.try_clone().map_err(broken)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(OwnedFd::from(output)))
        .stderr(Stdio::piped())
        // Ctrl-C must not reach the command: the conductor handles it and ends the trial.
        .process_group(0)
        .spawn()
        .map_err(|cause| ControlError::HostDown {
            host: host.to_owned(),
            operation: "start command for",
            cause: format!("{program}: {cause}"),
            remedy: "check that the program is installed here",
        })?;
    let said = Arc::new(Mutex::new(String::new()));
    let listener = child.stderr.take().map(|stderr| {
        let said = Arc::clone(&said);
        thread::spawn(move || keep_tail(stderr, &said))
    });
    let deadline = Deadline::at(Instant::now() + timeouts.command);
    let mut channel =
        unix(ours, &format!("`{}`", argv.join(" ")), deadline, timeouts).map_err(broken)?;
    let child = Arc::new(Mutex::new(Some(child)));
    channel.reader = Box::new(CommandOutput {
        inner: channel.reader,
        child: Arc::clone(&child),
        said,
        listener,
    });
    let shut = Arc::clone(&channel.closer);
    channel.closer = Arc::new(move || {
        // Taken once: the closer may be called again.
        shut();
        let child = child.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(child) = child {
            thread::spawn(move || end_and_reap(child));
        }
    });
    Ok(channel)
}

/// Waits two seconds for the end of a command whose streams were closed, then kills and reaps it.
fn end_and_reap(mut child: Child) {
    // Its streams are closed, so a well-behaved command ends by itself.
    for _ in 0..20 {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    // It may have ended in the meantime.
    let _ = child.kill();
    let _ = child.wait();
}

fn keep_tail(mut stderr: impl Read, said: &Mutex<String>) {
    let mut buffer = [0; STDERR_KEPT];
    while let Ok(read @ 1..) = stderr.read(&mut buffer) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&String::from_utf8_lossy(&buffer[..read]));
        // The end is kept: the last lines usually have the reason.
        let excess = said.len().saturating_sub(STDERR_KEPT);
        // A character of several bytes must not be cut.
        let cut = (excess..=said.len()).find(|&at| said.is_char_boundary(at)).unwrap_or(0);
        said.drain(..cut);
    }
}

/// Output of a command. At its end, the command's exit and standard error become the reason.
struct CommandOutput {
    inner: Box<dyn Read + Send>,
    /// The command, until the channel is closed.
    child: Arc<Mutex<Option<Child>>>,
    said: Arc<Mutex<String>>,
    /// Reads standard error into `said` until it ends.
    listener: Option<thread::JoinHandle<()>>,
}

impl CommandOutput {
    /// Waits until the command has ended and its standard error was read, for a second at most: a
    /// process that it started may keep its standard error open. Returns its status; `None` if this
    /// end has closed the channel.
    fn status(&self) -> Option<Option<ExitStatus>> {
        let deadline = Instant::now() + LAST_WORDS;
        loop {
            let status = match &mut *self.child.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(child) => child.try_wait().ok().flatten(),
                None => return None,
            };
            let is_read = self.listener.as_ref().is_none_or(thread::JoinHandle::is_finished);
            if (status.is_some() && is_read) || Instant::now() >= deadline {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Read for CommandOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A command that ends before it has read everything resets the stream.
        let end = match self.inner.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            result => result?,
        };
        if end > 0 {
            return Ok(end);
        }
        let Some(status) = self.status() else { return Ok(0) };
        let status = status.map_or_else(String::new, |status| format!(" ({status})"));
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = match said.trim() {
            "" => " and printed nothing".to_owned(),
            words => format!(": {words}"),
        };
        let reason = format!("the command ended{status}{said}");
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason))
    }
}

/// Returns whether an agent without keys may listen on `address`.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
