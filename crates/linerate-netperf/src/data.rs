//! Data sockets, and the loops that send and receive.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use linerate_sys::socket::{self, Buffer};
use linerate_sys::{tcp, udp};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};

/// Longest time of one call: the end of a test has to be seen.
const PATIENCE: Duration = Duration::from_millis(20);
/// Empty datagrams at the end of a test: one of them arrives.
const FAREWELLS: usize = 3;

/// Choices of a data socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct DataOptions {
    pub(crate) is_udp: bool,
    pub(crate) buffers: [Option<u32>; 2],
    pub(crate) class: u8,
    pub(crate) congestion: String,
    pub(crate) no_delay: bool,
    pub(crate) keep_alive: bool,
    pub(crate) largest_segment: Option<u16>,
    pub(crate) pacing: Option<u64>,
    /// Datagrams stay in the networks of this host.
    pub(crate) is_local: bool,
}

/// Creates a data socket for addresses of the family of `at`, bound to it.
pub(crate) fn new_socket(at: SocketAddr, options: &DataOptions) -> io::Result<Socket> {
    let kind = if options.is_udp { Type::DGRAM } else { Type::STREAM };
    let socket = Socket::new(Domain::for_address(at), kind, None)?;
    for (buffer, bytes) in [Buffer::Send, Buffer::Receive].into_iter().zip(options.buffers) {
        if let Some(bytes) = bytes {
            socket::set_buffer(&socket, buffer, bytes as usize).map_err(io::Error::other)?;
        }
    }
    if options.class != 0 {
        socket::set_class(&socket, options.class).map_err(io::Error::other)?;
    }
    if options.is_local {
        socket::set_unrouted(&socket)?;
    }
    if let Some(bytes) = options.pacing {
        socket::set_pacing_rate(&socket, bytes).map_err(io::Error::other)?;
    }
    if !options.is_udp {
        // A server is started again while old connections linger.
        socket.set_reuse_address(true)?;
        if !options.congestion.is_empty() {
            socket::set_congestion(&socket, &options.congestion)?;
        }
        if let Some(bytes) = options.largest_segment {
            tcp::set_largest_segment(&socket, bytes).map_err(io::Error::other)?;
        }
        socket.set_tcp_nodelay(options.no_delay)?;
        socket.set_keepalive(options.keep_alive)?;
    }
    // The other end may have to know a port of UDP before it is used. TCP chooses its own later.
    if options.is_udp || !at.ip().is_unspecified() || at.port() != 0 {
        socket::bind(&socket, at)?;
    }
    Ok(socket)
}

/// Limits the time of calls on a connected or listening socket. Accepted sockets do not inherit it.
pub(crate) fn wait_briefly(socket: &Socket) -> io::Result<()> {
    udp::set_receive_timeout(socket, PATIENCE).map_err(io::Error::other)?;
    udp::set_send_timeout(socket, PATIENCE).map_err(io::Error::other)
}

/// Returns the size of the two buffers.
pub(crate) fn buffers(socket: &Socket) -> [i32; 2] {
    [Buffer::Send, Buffer::Receive].map(|buffer| {
        let bytes = socket::buffer(socket, buffer).ok();
        bytes.and_then(|bytes| i32::try_from(bytes).ok()).unwrap_or(-1)
    })
}

/// Returns a block of `bytes` from the file `fill`, again and again, or of random bytes.
pub(crate) fn block(bytes: usize, fill: &str) -> io::Result<Vec<u8>> {
    let mut block = vec![0; bytes];
    if fill.is_empty() {
        Xoshiro256PlusPlus::seed_from_u64(0).fill_bytes(&mut block);
        return Ok(block);
    }
    let (mut file, mut n) = (File::open(fill)?.take(bytes as u64), 0);
    while n < bytes {
        match file.read(&mut block[n..])? {
            0 if n == 0 => return Err(ErrorKind::UnexpectedEof.into()),
            // A short file is repeated.
            0 => {
                let more = (bytes - n).min(n);
                block.copy_within(..more, n);
                n += more;
            }
            more => n += more,
        }
    }
    Ok(block)
}

/// What a loop has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Bytes sent and received.
    pub(crate) bytes: [u64; 2],
    /// Calls that sent and received.
    pub(crate) calls: [u64; 2],
    pub(crate) failed: u64,
    pub(crate) transactions: u64,
}

/// When a loop ends.
pub(crate) struct Limit<'a> {
    pub(crate) until: Option<Instant>,
    /// Bytes or transactions.
    pub(crate) amount: Option<u64>,
    /// Asked after every call, so it must be cheap.
    pub(crate) stop: &'a dyn Fn() -> bool,
    /// Whether the other end has gone; asked while nothing moves.
    pub(crate) is_alone: &'a dyn Fn() -> bool,
}

impl Limit<'_> {
    fn is_used(&self, n: u64) -> bool {
        self.amount.is_some_and(|amount| n >= amount)
    }

    /// Returns whether the time has passed or a stop was asked for. Something may still move.
    pub(crate) fn has_ended(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now >= until) || (self.stop)()
    }

    /// Returns whether an end that waits has to give up.
    pub(crate) fn is_over(&self) -> bool {
        self.has_ended(Instant::now()) || (self.is_alone)()
    }
}

/// How a call ended.
enum Call {
    Moved(usize),
    /// The other end has ended the test.
    Ended,
    /// Nothing yet.
    Waiting,
    /// A datagram could not be sent.
    Failed,
}

fn outcome(result: io::Result<usize>) -> io::Result<Call> {
    match result {
        Ok(0) => Ok(Call::Ended),
        Ok(n) => Ok(Call::Moved(n)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::AGAIN | Errno::INTR) => Ok(Call::Waiting),
            Some(Errno::NOBUFS) => Ok(Call::Failed),
            Some(Errno::PIPE | Errno::CONNRESET | Errno::CONNREFUSED) => Ok(Call::Ended),
            _ => Err(error),
        },
    }
}

/// Called with the time and the units after each call: bytes or transactions.
pub(crate) type Tick<'a> = &'a mut dyn FnMut(Instant, u64);

/// Sends `block` again and again.
pub(crate) fn send_stream(
    socket: &Socket,
    block: &[u8],
    limit: &Limit<'_>,
    tick: Tick<'_>,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    while !limit.is_used(counts.bytes[0]) {
        let left = limit.amount.map_or(u64::MAX, |amount| amount - counts.bytes[0]);
        let n = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let call = outcome(tcp::send(socket, &block[..n]))?;
        let now = Instant::now();
        match call {
            Call::Moved(n) => {
                counts.bytes[0] += n as u64;
                counts.calls[0] += 1;
                tick(now, n as u64);
            }
            Call::Ended => break,
            Call::Failed => counts.failed += 1,
            Call::Waiting if (limit.is_alone)() => break,
            Call::Waiting => {}
        }
        if limit.has_ended(now) {
            break;
        }
    }
    Ok(counts)
}

/// Receives in pieces of `size` until the other end ends the test.
pub(crate) fn receive_stream(
    socket: &Socket,
    size: usize,
    limit: &Limit<'_>,
    tick: Tick<'_>,
) -> io::Result<Counts> {
    let (mut counts, mut block) = (Counts::default(), vec![0; size]);
    loop {
        let call = outcome(tcp::receive(socket, &mut block))?;
        let now = Instant::now();
        match call {
            Call::Ended => break,
            // Bytes that come after the end of the test do not count.
            _ if limit.has_ended(now) => break,
            Call::Moved(n) => {
                counts.bytes[1] += n as u64;
                counts.calls[1] += 1;
                tick(now, n as u64);
            }
            Call::Waiting | Call::Failed if (limit.is_alone)() => break,
            Call::Waiting | Call::Failed => {}
        }
    }
    Ok(counts)
}

/// How a whole message was sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Done,
    /// The other end has ended the test.
    Ended,
    /// The test is over, or the time for an answer.
    Late,
}

/// Sends the whole of `bytes`.
pub(crate) fn send_whole(
    socket: &Socket,
    bytes: &[u8],
    limit: &Limit<'_>,
    counts: &mut Counts,
) -> io::Result<Whole> {
    let mut n = 0;
    while n < bytes.len() {
        match outcome(tcp::send(socket, &bytes[n..]))? {
            Call::Moved(more) => n += more,
            Call::Ended => return Ok(Whole::Ended),
            Call::Waiting | Call::Failed if limit.is_over() => return Ok(Whole::Late),
            Call::Waiting => {}
            Call::Failed => counts.failed += 1,
        }
    }
    counts.bytes[0] += n as u64;
    counts.calls[0] += 1;
    Ok(Whole::Done)
}

/// Receives the whole of `bytes`, at the latest `until`; a datagram is whole as it is.
pub(crate) fn receive_whole(
    socket: &Socket,
    bytes: &mut [u8],
    (limit, until): (&Limit<'_>, Option<Instant>),
    (is_udp, counts): (bool, &mut Counts),
) -> io::Result<Whole> {
    let mut n = 0;
    while n < bytes.len() {
        match outcome(tcp::receive(socket, &mut bytes[n..]))? {
            Call::Moved(more) => {
                n += more;
                counts.calls[1] += 1;
                if is_udp {
                    break;
                }
            }
            Call::Ended => return Ok(Whole::Ended),
            Call::Waiting | Call::Failed => {
                if limit.is_over() || until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(Whole::Late);
                }
            }
        }
    }
    counts.bytes[1] += n as u64;
    Ok(Whole::Done)
}

/// Sends the datagrams that end a test over UDP.
pub(crate) fn say_goodbye(socket: &Socket) {
    // Each is lost or refused without harm: the other end has a deadline.
    (0..FAREWELLS).for_each(|_| drop(tcp::send(socket, &[])));
}

/// Ends the sending side of a connection, and reads until the other end has ended its own, at the
/// longest until `until`.
pub(crate) fn end_connection(socket: &Socket, until: Instant) {
    // A connection that has ended already is what is wanted.
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let mut block = vec![0; 1 << 16];
    while let Ok(Call::Moved(_) | Call::Waiting) = outcome(tcp::receive(socket, &mut block)) {
        if Instant::now() >= until {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the two ends of a connection whose calls wait briefly.
    fn connection() -> [Socket; 2] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let there = std::net::TcpStream::connect(listener.local_addr().expect("an address"));
        let here = listener.accept().expect("a connection").0;
        let ends = [Socket::from(there.expect("a connection")), Socket::from(here)];
        ends.iter().for_each(|end| wait_briefly(end).expect("timeouts"));
        ends
    }

    #[test]
    fn a_stop_ends_a_stream_that_never_waits() {
        let until = Instant::now() + Duration::from_secs(5);
        let [out, into] = connection();
        let looks = std::cell::Cell::new(0);
        let stop = || {
            looks.set(looks.get() + 1);
            looks.get() > 2
        };
        let limit = Limit { until: Some(until), amount: None, stop: &stop, is_alone: &|| false };
        let sent = send_stream(&out, &[1; 100], &limit, &mut |_, _| {}).expect("a connection");
        assert_eq!((sent.bytes, sent.calls), ([300, 0], [3, 0]));
        looks.set(0);
        let received = receive_stream(&into, 50, &limit, &mut |_, _| {}).expect("a connection");
        assert_eq!((received.bytes, received.calls), ([0, 100], [0, 2]));
        assert!(Instant::now() < until);
    }

    #[test]
    fn an_end_that_waits_gives_up_when_the_other_has_gone() {
        let [_out, into] = connection();
        let until = Instant::now() + Duration::from_secs(5);
        let limit = Limit { until: Some(until), amount: None, stop: &|| false, is_alone: &|| true };
        let received = receive_stream(&into, 50, &limit, &mut |_, _| {}).expect("a connection");
        assert_eq!((received, Instant::now() < until), (Counts::default(), true));
    }

    #[test]
    fn a_short_file_fills_a_block_again_and_again() {
        let path = std::env::temp_dir().join(format!("linerate-fill-{}", std::process::id()));
        std::fs::write(&path, "abc").expect("write");
        let filled = block(8, path.to_str().expect("UTF-8"));
        std::fs::write(&path, "").expect("write");
        let empty = block(8, path.to_str().expect("UTF-8"));
        std::fs::remove_file(&path).expect("remove");
        assert_eq!(filled.expect("a block"), b"abcabcab");
        assert!(empty.is_err(), "an empty file fills nothing");
        assert_eq!(block(3, "").expect("a block").len(), 3);
    }
}
