//! One data stream of a test: socket, counts and pace.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use linerate_sys::socket::{self, Buffer};
use linerate_sys::{clock, tcp, udp};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use socket2::{Domain, Socket, Type};

use crate::datagrams::{Account, LEAST_BYTES, read_header, write_header};
use crate::pace::Pace;
use crate::wire::{Parameters, Protocol, StreamResults};

/// Block of a TCP stream unless the client names another (iperf3's `DEFAULT_TCP_BLKSIZE`).
pub(crate) const TCP_BLOCK: u32 = 128 << 10;
/// Payload of a datagram where nobody knows the path's.
pub(crate) const UDP_BLOCK: u32 = 1460;
/// Rate of a UDP stream unless the client names another, bit/s (iperf3's `UDP_RATE`).
pub(crate) const UDP_RATE: u64 = 1 << 20;
/// Sending or receiving calls of one turn.
const CALLS: usize = 16;
/// Datagrams of one call.
const BATCH: usize = 64;
/// Bytes that one receiving call of TCP takes.
const TAKEN: usize = 1 << 20;
/// Receive buffer of a UDP stream without a chosen window, bytes.
const UDP_BUFFER: usize = 4 << 20;

/// Counts of a stream at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Payload sent or received.
    pub(crate) bytes: u64,
    /// Payload that the other end's TCP has acknowledged; `None` for what receives, and UDP.
    pub(crate) acknowledged: Option<u64>,
    /// Segments sent again; `None` for what receives, and UDP.
    pub(crate) retransmits: Option<u64>,
    /// Datagrams sent, or received without repetitions.
    pub(crate) datagrams: u64,
    /// Datagrams with a number below the highest that have not arrived; 0 for what sends.
    pub(crate) missing: u64,
}

/// A data stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: i64,
    pub(crate) socket: Socket,
    pub(crate) sends: bool,
    pub(crate) has_ended: bool,
    is_udp: bool,
    is_64bit: bool,
    pub(crate) length: usize,
    carrier: Carrier,
    pace: Pace,
    /// Time for which a paced stream collects what is due: fewer, longer calls.
    tick: Duration,
    /// True if the socket's buffer is full.
    is_full: bool,
    bytes: u64,
    datagrams: u64,
    calls: u64,
    /// State of the connection when the load began.
    base: (u64, u64),
    omitted: Counts,
}

enum Carrier {
    Copy(Vec<u8>),
    Sendfile(File),
    Discard,
    SendDatagrams(udp::SendBatch),
    ReceiveDatagrams(udp::ReceiveBatch, Account),
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Carrier(..)")
    }
}

/// Creates a socket for a connection to `to`, with the options that must be there before.
pub(crate) fn new_socket(to: SocketAddr, parameters: &Parameters) -> io::Result<Socket> {
    let is_udp = parameters.protocol == Protocol::Udp;
    let kind = if is_udp { Type::DGRAM } else { Type::STREAM };
    let socket = Socket::new(Domain::for_address(to), kind, None)?;
    if let Some(mss) = parameters.mss.filter(|_| !is_udp) {
        let mss = u16::try_from(mss).unwrap_or(u16::MAX);
        tcp::set_largest_segment(&socket, mss).map_err(io::Error::other)?;
    }
    prepare(&socket, parameters)?;
    Ok(socket)
}

/// Sets the options of a data stream.
pub(crate) fn prepare(socket: &Socket, parameters: &Parameters) -> io::Result<()> {
    let is_udp = parameters.protocol == Protocol::Udp;
    match parameters.window {
        Some(window) => {
            for buffer in [Buffer::Send, Buffer::Receive] {
                socket::set_buffer(socket, buffer, window as usize).map_err(io::Error::other)?;
            }
        }
        None if is_udp => {
            // A smaller grant shows as loss.
            let _ = socket::set_buffer(socket, Buffer::Receive, UDP_BUFFER);
        }
        None => {}
    }
    if let Some(tos) = parameters.tos {
        /// The two lowest bits are ECN, of which the kernel is in charge.
        const ECN_BITS: u8 = 2;
        socket::set_dscp(socket, tos >> ECN_BITS).map_err(io::Error::other)?;
    }
    if let Some(rate) = parameters.fq_rate {
        socket::set_pacing_rate(socket, rate / 8).map_err(io::Error::other)?;
    }
    if !is_udp {
        if let Some(name) = &parameters.congestion {
            socket::set_congestion(socket, name)?;
        }
        if parameters.no_delay {
            socket.set_tcp_nodelay(true)?;
        }
    }
    socket.set_nonblocking(true)
}

impl Stream {
    /// Creates stream `id` on a connected `socket`, whose blocks or datagrams have `length` bytes.
    /// With a rate it sends what is due once every `tick`.
    pub(crate) fn new(
        (id, socket, sends): (i64, Socket, bool),
        parameters: &Parameters,
        length: u32,
        tick: Duration,
    ) -> io::Result<Self> {
        let is_udp = parameters.protocol == Protocol::Udp;
        let length = (length as usize).max(if is_udp { LEAST_BYTES } else { 1 });
        let carrier = match (is_udp, sends) {
            (false, true) if parameters.zerocopy => Carrier::Sendfile(filled_file(length)?),
            (false, true) => Carrier::Copy(filler(length)),
            (false, false) => Carrier::Discard,
            (true, true) => {
                let mut batch = udp::SendBatch::new(BATCH, length);
                let bytes = filler(length);
                for idx in 0..BATCH {
                    batch.message_mut(idx).copy_from_slice(&bytes);
                }
                Carrier::SendDatagrams(batch)
            }
            (true, false) => Carrier::ReceiveDatagrams(
                udp::ReceiveBatch::new(BATCH, LEAST_BYTES),
                Account::default(),
            ),
        };
        // iperf3 paces UDP at 1 Mbit/s if nobody says otherwise; its clients always send the rate.
        let pace = Pace::new(parameters.bandwidth);
        let is_64bit = parameters.counters_64bit;
        let base = match tcp::info(&socket) {
            Ok(info) if !is_udp => (info.bytes_acked, info.retransmits.into()),
            _ => (0, 0),
        };
        Ok(Self {
            id,
            socket,
            sends,
            has_ended: false,
            is_udp,
            is_64bit,
            length,
            carrier,
            pace,
            tick,
            is_full: false,
            bytes: 0,
            datagrams: 0,
            calls: 0,
            base,
            omitted: Counts::default(),
        })
    }

    /// Sends or receives for a short time. `left` is the payload that this end may still send.
    /// Returns the payload that was sent.
    pub(crate) fn turn(&mut self, now: Duration, left: u64) -> u64 {
        let before = self.bytes;
        let outcome = match &mut self.carrier {
            Carrier::Copy(_) | Carrier::Sendfile(_) => self.send_bytes(now, left),
            Carrier::SendDatagrams(_) => self.send_datagrams(now, left),
            Carrier::Discard => self.receive_bytes(),
            Carrier::ReceiveDatagrams(..) => self.receive_datagrams(CALLS).map(drop),
        };
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_full = true,
            // A datagram was refused at the other end, which the control connection explains.
            Err(_) if self.is_udp => {}
            Err(_) => self.has_ended = true,
            Ok(()) => {}
        }
        if self.sends { self.bytes - before } else { 0 }
    }

    fn send_bytes(&mut self, now: Duration, left: u64) -> io::Result<()> {
        for _ in 0..CALLS {
            let may = self.pace.due(now).min(left).min(self.length as u64);
            if may == 0 || may < self.least().min(left) {
                return Ok(());
            }
            // Blocks are whole, as receivers that count calls expect, except the last of an amount.
            let place = (self.bytes % self.length as u64) as usize;
            let most = (self.length - place).min(may as usize);
            let sent = match &mut self.carrier {
                Carrier::Sendfile(file) => {
                    let mut at = place as u64;
                    rustix::fs::sendfile(&self.socket, &*file, Some(&mut at), most)?
                }
                Carrier::Copy(block) => tcp::send(&self.socket, &block[place..place + most])?,
                _ => return Ok(()),
            };
            self.calls += 1;
            self.bytes += sent as u64;
            self.pace.sent(sent as u64);
            if left != u64::MAX {
                // The owner counts what is left.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the bytes that a paced stream collects before it sends.
    fn least(&self) -> u64 {
        let (length, collected) = (self.length as u64, self.pace.in_span(self.tick));
        if self.is_udp {
            // Without a rate nothing is collected.
            let whole = if collected == u64::MAX { 0 } else { collected / length * length };
            whole.max(length)
        } else {
            collected.clamp(1, length)
        }
    }

    fn send_datagrams(&mut self, now: Duration, left: u64) -> io::Result<()> {
        let least = self.least().min(left);
        let Carrier::SendDatagrams(batch) = &mut self.carrier else { return Ok(()) };
        let length = self.length as u64;
        if self.pace.due(now) < least {
            return Ok(());
        }
        for _ in 0..CALLS {
            let due = self.pace.due(now) / length;
            let n = due.min(left.div_ceil(length)).min(BATCH as u64) as usize;
            if n == 0 {
                return Ok(());
            }
            let at = Duration::from_nanos(clock::monotonic());
            for idx in 0..n {
                let number = self.datagrams + 1 + idx as u64;
                write_header(batch.message_mut(idx), at, number, self.is_64bit);
            }
            let sent = batch.send(&self.socket, n, udp::Wait::Never)? as u64;
            self.calls += 1;
            self.datagrams += sent;
            self.bytes += sent * length;
            self.pace.sent(sent * length);
            if left != u64::MAX {
                return Ok(());
            }
        }
        Ok(())
    }

    fn receive_bytes(&mut self) -> io::Result<()> {
        for _ in 0..CALLS {
            match tcp::discard(&self.socket, TAKEN)? {
                0 => {
                    self.has_ended = true;
                    return Ok(());
                }
                taken => (self.bytes, self.calls) = (self.bytes + taken as u64, self.calls + 1),
            }
        }
        Ok(())
    }

    /// Returns whether datagrams arrived.
    fn receive_datagrams(&mut self, calls: usize) -> io::Result<bool> {
        let Carrier::ReceiveDatagrams(batch, account) = &mut self.carrier else {
            return Ok(false);
        };
        let mut some = false;
        for _ in 0..calls {
            let n = batch.receive(&self.socket, udp::Wait::Never)?;
            self.calls += 1;
            let at = Duration::from_nanos(clock::monotonic());
            for idx in 0..n {
                let message = batch.message(idx);
                // Shorter ones are the request of the stream, or strangers with its address.
                let Some((sent, number)) = read_header(message.visible, self.is_64bit) else {
                    continue;
                };
                if message.bytes < LEAST_BYTES || number == 0 {
                    continue;
                }
                let before = account.duplicates;
                account.received(number, sent, at);
                // A repetition delivers nothing.
                if account.duplicates == before {
                    self.bytes += message.bytes as u64;
                }
                some = true;
            }
            // Another call would find nothing.
            if n < BATCH {
                break;
            }
        }
        Ok(some)
    }

    /// Takes what has arrived already. Returns whether there was something.
    pub(crate) fn drain(&mut self) -> bool {
        /// Calls of a drain: at most 64 MiB, so that a client that goes on sending ends it, too.
        const MOST: usize = 64;
        let before = self.bytes;
        match &self.carrier {
            Carrier::Discard => {
                for _ in 0..MOST / CALLS {
                    if self.has_ended || self.receive_bytes().is_err() {
                        break;
                    }
                }
            }
            Carrier::ReceiveDatagrams(..) => {
                // An error means that there is nothing more.
                let _ = self.receive_datagrams(MOST * CALLS);
            }
            _ => {}
        }
        self.bytes > before
    }

    /// Returns whether the stream waits for its socket at `now`, and the time at which it has
    /// something to send otherwise.
    pub(crate) fn waits(&mut self, now: Duration) -> (bool, Option<Duration>) {
        if self.has_ended {
            return (false, None);
        }
        if !self.sends || self.is_full {
            return (true, None);
        }
        match self.pace.when(self.least()) {
            Some(at) if at > now => (false, Some(at)),
            _ => (true, None),
        }
    }

    /// Notes that the socket is ready.
    pub(crate) fn is_ready(&mut self) {
        self.is_full = false;
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> Counts {
        let info = match self.is_udp || !self.sends {
            true => None,
            false => tcp::info(&self.socket).ok(),
        };
        let (datagrams, missing) = match &self.carrier {
            Carrier::ReceiveDatagrams(_, account) => (account.unique, account.lost_of(0)),
            _ => (self.datagrams, 0),
        };
        Counts {
            bytes: self.bytes,
            acknowledged: info.as_ref().map(|info| self.acknowledged_of(info)),
            retransmits: info
                .as_ref()
                .map(|info| u64::from(info.retransmits).saturating_sub(self.base.1)),
            datagrams,
            missing,
        }
    }

    fn acknowledged_of(&self, info: &tcp::TcpInfo) -> u64 {
        // The cookie is no payload.
        info.bytes_acked.saturating_sub(self.base.0)
    }

    /// Returns the payload sent or received, and the datagrams, without asking the kernel.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.bytes, self.account().map_or(self.datagrams, |account| account.unique))
    }

    /// Returns the smoothed round-trip time; `None` for UDP and what receives.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        let info = (self.sends && !self.is_udp).then(|| tcp::info(&self.socket).ok())??;
        (info.rtt_us > 0).then(|| Duration::from_micros(info.rtt_us.into()))
    }

    /// Ends the warm-up: what was counted so far is not in the results.
    pub(crate) fn omit(&mut self) {
        self.omitted = self.counts();
    }

    /// Returns the counts of the warm-up.
    pub(crate) fn omitted(&self) -> Counts {
        self.omitted
    }

    /// Returns the number of system calls that sent or received something.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    pub(crate) fn account(&self) -> Option<&Account> {
        match &self.carrier {
            Carrier::ReceiveDatagrams(_, account) => Some(account),
            _ => None,
        }
    }

    /// Returns the results of this end. `sent` is the number of datagrams that the other end has
    /// sent, if it says so. `has_omitted` adds the counts of the warm-up.
    pub(crate) fn results(
        &self,
        seconds: f64,
        sent: Option<u64>,
        has_omitted: bool,
    ) -> StreamResults {
        let counts = self.counts();
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (errors, packets, jitter) = match self.account() {
            Some(account) => {
                let sent = sent.unwrap_or(0).max(account.highest());
                (account.lost_of(sent), sent, account.jitter)
            }
            None => (0, self.datagrams, 0.0),
        };
        let omitted = match self.account() {
            Some(_) => self.omitted.datagrams + self.omitted.missing,
            None => self.omitted.datagrams,
        };
        let base = self.omitted.retransmits.unwrap_or(0);
        StreamResults {
            id: self.id,
            bytes: counts.bytes - self.omitted.bytes,
            retransmits: counts.retransmits.map(|n| n.saturating_sub(base)),
            jitter,
            errors: signed(errors),
            omitted_errors: has_omitted.then(|| signed(self.omitted.missing)),
            packets: signed(packets),
            omitted_packets: has_omitted.then(|| signed(omitted)),
            seconds,
        }
    }

    /// Returns the congestion control of the stream.
    pub(crate) fn congestion(&self) -> Option<String> {
        let name = (!self.is_udp).then(|| self.socket.tcp_congestion().ok())??;
        let text = String::from_utf8_lossy(&name);
        Some(text.trim_end_matches('\0').to_owned())
    }
}

/// Takes what has arrived at each of `streams`, and returns whether there was something.
pub(crate) fn drain_all(streams: &mut [Stream]) -> bool {
    let mut some = false;
    for stream in streams {
        // Each of them is drained, also after one that had something.
        some |= stream.drain();
    }
    some
}

/// Returns random bytes, which nothing on the path can compress.
fn filler(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Xoshiro256PlusPlus::seed_from_u64(clock::monotonic()).fill_bytes(&mut bytes);
    bytes
}

/// Returns a file in memory with random bytes.
fn filled_file(length: usize) -> io::Result<File> {
    use std::io::Write;
    let file = rustix::fs::memfd_create("linerate-iperf3", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(file);
    file.write_all(&filler(length))?;
    Ok(file)
}

/// Returns the CPU time of this thread in the program and in the kernel, ns.
pub(crate) fn thread_cpu() -> [u64; 2] {
    let total = clock::thread_cpu();
    // The 14th and 15th fields, in ticks (proc_pid_stat(5)); only their ratio is used.
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let mut fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let mut field = |skip: usize| fields.nth(skip).and_then(|text| text.parse::<u64>().ok());
    let (user, system) = (field(11).unwrap_or(0), field(0).unwrap_or(0));
    let share = if user + system == 0 { 0.5 } else { user as f64 / (user + system) as f64 };
    let user = (total as f64 * share) as u64;
    [user, total - user]
}

/// Returns percent of one CPU that this thread used for `seconds` since it had used `before`.
pub(crate) fn cpu_percent(before: [u64; 2], seconds: f64) -> [f64; 3] {
    let after = thread_cpu();
    let nanos = [0, 1].map(|at| after[at].saturating_sub(before[at]) as f64);
    let [user, system] = nanos.map(|used| if seconds > 0.0 { used / 1e7 / seconds } else { 0.0 });
    [user + system, user, system]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Stream of datagrams of 1,000 bytes at 8 Mbit/s: one is due each millisecond.
    fn paced(tick: Duration) -> (Stream, std::net::UdpSocket) {
        let other = std::net::UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        let to = other.local_addr().expect("an address");
        let parameters = Parameters {
            protocol: Protocol::Udp,
            bandwidth: Some(8_000_000),
            ..Parameters::default()
        };
        let socket = new_socket(to, &parameters).expect("a socket");
        socket.connect(&to.into()).expect("it has a receiver");
        (Stream::new((1, socket, true), &parameters, 1000, tick).expect("a stream"), other)
    }

    #[test]
    fn a_paced_stream_of_datagrams_sends_what_is_due_once_a_tick() {
        let (mut stream, _other) = paced(MS(5));
        assert_eq!(stream.turn(MS(4), u64::MAX), 0, "the tick is not over");
        let (is_watched, next) = stream.waits(MS(4));
        let next = next.expect("it has a rate");
        assert!(!is_watched && next.abs_diff(MS(5)) < Duration::from_micros(1), "{next:?}");
        assert_eq!((stream.turn(next, u64::MAX), stream.calls()), (5_000, 1));
        assert_eq!(stream.turn(MS(9), u64::MAX), 0);
        assert_eq!(stream.turn(MS(9), 2_000), 1_000 * 2, "an amount ends when it is due");
        let (mut at_once, _other) = paced(Duration::ZERO);
        assert_eq!(at_once.turn(MS(1) + Duration::from_nanos(1), u64::MAX), 1_000);
        let (mut slow, _other) = paced(Duration::from_micros(100));
        assert_eq!(slow.turn(MS(1) + Duration::from_nanos(1), u64::MAX), 1_000, "a whole datagram");
    }
}
