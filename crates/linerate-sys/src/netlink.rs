//! A routing netlink socket (rtnetlink(7)): dumps of links, their statistics, addresses and queueing disciplines; single routes.
//!
//! One blocking request at a time, in the network namespace of the thread that opened the socket. Numbers are in host byte
//! order as the kernel sends them. Layouts: linux/rtnetlink.h, if_link.h, if_addr.h, pkt_sched.h, gen_stats.h.
//!
//! Not seen: changes between two dumps, and what another namespace holds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::SysError;

mod routes;

pub use routes::Route;

const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const GET_QDISC: u16 = 38;
const GET_CLASS: u16 = 42;
const GET_STATS: u16 = 94;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const FLAG_REQUEST: u16 = 0x1;
const FLAG_DUMP: u16 = 0x300;

/// `struct tcmsg`.
const TCMSG: usize = 20;
/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// Largest datagram the kernel sends in a dump.
const RECEIVE_BUFFER: usize = 64 * 1024;
/// A dump is answered at once; anything slower is a fault, and a reader must never hang.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A link as the kernel lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// `IFF_*` flags of net/if.h.
    pub flags: u32,
    /// IP MTU, bytes.
    pub mtu: u32,
    /// Operational state of RFC 2863: 6 is up, 2 is down, 0 unknown (the loopback).
    pub operstate: u8,
    /// Transmit queues the device was created with.
    pub tx_queues: u32,
    /// Receive queues.
    pub rx_queues: u32,
    /// Largest GSO super-packet handed to it, bytes.
    pub gso_max_size: Option<u32>,
    /// Link kind (`veth`, `vlan`, `bond` ...); `None` for a hardware device and the loopback.
    pub kind: Option<String>,
}

/// Counters of a link: the head of `struct rtnl_link_stats64`, in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's own names")]
pub struct LinkStats {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub multicast: u64,
    pub collisions: u64,
    pub rx_length_errors: u64,
    pub rx_over_errors: u64,
    pub rx_crc_errors: u64,
    pub rx_frame_errors: u64,
    pub rx_fifo_errors: u64,
    pub rx_missed_errors: u64,
    pub tx_aborted_errors: u64,
    pub tx_carrier_errors: u64,
    pub tx_fifo_errors: u64,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Interface index.
    pub index: u32,
    /// The local address.
    pub address: IpAddr,
    /// Prefix length, bits.
    pub prefix: u8,
}

/// A queueing discipline and its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qdisc<'a> {
    /// Interface index.
    pub index: u32,
    /// Its handle, `major << 16 | minor`; 0 for the default one.
    pub handle: u32,
    /// Where it hangs; `0xffff_ffff` is the root.
    pub parent: u32,
    /// `fq`, `tbf`, `noqueue` ...
    pub kind: &'a str,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent, GSO segments counted singly.
    pub packets: u64,
    /// Bytes waiting.
    pub backlog_bytes: u32,
    /// Packets waiting.
    pub queue_length: u32,
    /// Packets dropped; wraps at 2^32.
    pub drops: u32,
    /// Packets the driver gave back; wraps at 2^32.
    pub requeues: u32,
    /// Times the rate was exceeded; wraps at 2^32.
    pub overlimits: u32,
    /// Its parameters as the kernel sent them, by kind; see [`Qdisc::limits`].
    pub options: &'a [u8],
}

/// What a queueing discipline is set to, as far as its kind has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QdiscLimits {
    /// Bytes per second, counted at L2 without FCS.
    pub rate_bytes_per_s: Option<u64>,
    /// Bytes that may pass at once.
    pub burst_bytes: Option<u64>,
    /// Bytes that may wait.
    pub limit_bytes: Option<u64>,
    /// Packets that may wait.
    pub limit_packets: Option<u64>,
}

/// A class of a hierarchical token bucket (tc-htb(8)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtbClass {
    /// Its handle.
    pub handle: u32,
    /// The class it borrows from; `0xffff_ffff` is the root.
    pub parent: u32,
    /// Bytes per second it is given.
    pub rate_bytes_per_s: u64,
    /// Bytes per second it may reach by borrowing.
    pub ceil_bytes_per_s: u64,
    /// Bytes that may pass at once at `rate`.
    pub burst_bytes: u64,
}

/// An open routing netlink socket.
#[derive(Debug)]
pub struct RouteSocket {
    socket: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Qdisc<'_> {
    /// What it is set to; kinds not known here have no limits known.
    #[must_use]
    pub fn limits(&self) -> QdiscLimits {
        let option = |wanted| attributes(self.options).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        let count = |at| word(self.options, at).map(u64::from);
        let attribute = |kind| option(kind).and_then(|value| word(value, 0)).map(u64::from);
        let mut limits = QdiscLimits::default();
        match self.kind {
            "tbf" => {
                const PARAMETERS: u16 = 1;
                const RATE_64: u16 = 4;
                let parameters = option(PARAMETERS).unwrap_or_default();
                let rate = rate(parameters, 0, option(RATE_64));
                limits.rate_bytes_per_s = rate;
                limits.limit_bytes = word(parameters, 24).map(u64::from);
                limits.burst_bytes = rate.zip(word(parameters, 28)).map(|(rate, ticks)| burst(rate, ticks));
            }
            "bfifo" => limits.limit_bytes = count(0),
            "pfifo" | "pfifo_head_drop" | "sfq" if self.options.len() == 4 => limits.limit_packets = count(0),
            "fq" => limits.limit_packets = attribute(1),
            "fq_codel" | "codel" => limits.limit_packets = attribute(2),
            "netem" => {
                const RATE: u16 = 6;
                const RATE_64: u16 = 8;
                /// `struct tc_netem_qopt` stands before the attributes.
                const HEAD: usize = 24;
                limits.limit_packets = count(4);
                let nested = || attributes(self.options.get(HEAD..).unwrap_or_default());
                let find = |wanted| nested().find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
                let rate = find(RATE_64).and_then(|value| long(value, 0));
                let rate = rate.or_else(|| find(RATE).and_then(|value| word(value, 0)).map(u64::from));
                limits.rate_bytes_per_s = rate.filter(|&rate| rate != 0);
            }
            _ => {}
        }
        limits
    }
}

impl RouteSocket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel or a sandbox refuses netlink.
    pub fn open() -> Result<Self, SysError> {
        let wrap = |cause: rustix::io::Errno| SysError::new("open", "routing netlink socket", cause);
        // NETLINK_ROUTE is protocol 0, which rustix spells `None`.
        let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None);
        let socket = socket.map_err(wrap)?;
        net::sockopt::set_socket_timeout(&socket, net::sockopt::Timeout::Recv, Some(TIMEOUT)).map_err(wrap)?;
        Ok(Self { socket, buffer: vec![0; RECEIVE_BUFFER], sequence: 0 })
    }

    /// Visits every link.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn links(&mut self, mut visit: impl FnMut(Link)) -> Result<(), SysError> {
        // ifinfomsg, all zero: every family, every link.
        self.dump(GET_LINK, &[0; 16], "links", |payload| {
            if let Some(link) = parse_link(payload) {
                visit(link);
            }
        })
    }

    /// Visits the counters of every link by its index. Does not allocate.
    ///
    /// # Errors
    /// If the kernel (older than 4.7) refuses or does not answer.
    pub fn link_stats(&mut self, mut visit: impl FnMut(u32, &LinkStats)) -> Result<(), SysError> {
        /// IFLA_STATS_LINK_64 alone.
        const FILTER: u32 = 1;
        // if_stats_msg: any family, any link, the filter.
        let mut body = [0; 12];
        body[8..].copy_from_slice(&FILTER.to_ne_bytes());
        self.dump(GET_STATS, &body, "link statistics", |payload| {
            if let Some((index, stats)) = parse_link_stats(payload) {
                visit(index, &stats);
            }
        })
    }

    /// Visits every address.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn addresses(&mut self, mut visit: impl FnMut(InterfaceAddress)) -> Result<(), SysError> {
        self.dump(GET_ADDRESS, &[0; 8], "addresses", |payload| {
            if let Some(address) = parse_address(payload) {
                visit(address);
            }
        })
    }

    /// Visits every queueing discipline. Does not allocate.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn qdiscs(&mut self, mut visit: impl FnMut(&Qdisc<'_>)) -> Result<(), SysError> {
        self.dump(GET_QDISC, &[0; 20], "queueing disciplines", |payload| {
            if let Some(qdisc) = parse_qdisc(payload) {
                visit(&qdisc);
            }
        })
    }

    /// Visits every HTB class of the device with index `index`.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn htb_classes(&mut self, index: u32, mut visit: impl FnMut(&HtbClass)) -> Result<(), SysError> {
        let mut body = [0; TCMSG];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        self.dump(GET_CLASS, &body, "traffic classes", |payload| {
            if let Some(class) = parse_htb_class(payload) {
                visit(&class);
            }
        })
    }

    fn dump(&mut self, kind: u16, body: &[u8], what: &str, mut visit: impl FnMut(&[u8])) -> Result<(), SysError> {
        let wrap = |cause: rustix::io::Errno| SysError::new("dump", what, cause);
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = [0_u8; 48];
        let length = HEADER + body.len();
        request[0..4].copy_from_slice(&(length as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&kind.to_ne_bytes());
        request[6..8].copy_from_slice(&(FLAG_REQUEST | FLAG_DUMP).to_ne_bytes());
        request[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        request[HEADER..length].copy_from_slice(body);
        net::send(&self.socket, &request[..length], SendFlags::empty()).map_err(wrap)?;
        loop {
            let (received, _) = net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()).map_err(wrap)?;
            for message in messages(&self.buffer[..received]) {
                // An answer to an earlier request that timed out is not ours.
                if message.sequence != self.sequence {
                    continue;
                }
                match message.kind {
                    DONE => return Ok(()),
                    ERROR => {
                        // The code is a negative errno.
                        let code = word(message.payload, 0).unwrap_or(0).cast_signed().wrapping_neg();
                        return Err(SysError::new("dump", what, std::io::Error::from_raw_os_error(code)));
                    }
                    _ => visit(message.payload),
                }
            }
        }
    }
}

struct Message<'a> {
    kind: u16,
    sequence: u32,
    payload: &'a [u8],
}

/// The messages of a datagram; stops at the first malformed one.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = word(bytes, 0)? as usize;
        let message = bytes.get(..length).filter(|message| message.len() >= HEADER)?;
        bytes = bytes.get(align(length)..).unwrap_or(&[]);
        Some(Message { kind: half(message, 4)?, sequence: word(message, 8)?, payload: &message[HEADER..] })
    })
}

/// Attributes `(type, payload)`; stops at the first malformed one.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const HEADER: usize = 4;
    /// The two highest bits are flags (nested, network byte order).
    const TYPE_MASK: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let length = half(bytes, 0)? as usize;
        let kind = half(bytes, 2)? & TYPE_MASK;
        let payload = bytes.get(HEADER..length)?;
        bytes = bytes.get(align(length)..).unwrap_or(&[]);
        Some((kind, payload))
    })
}

const fn align(length: usize) -> usize {
    (length + 3) & !3
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn text(bytes: &[u8]) -> &str {
    let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or(&[]);
    std::str::from_utf8(bytes).unwrap_or("?")
}

fn parse_link(payload: &[u8]) -> Option<Link> {
    const IFINFOMSG: usize = 16;
    let mut link = Link { index: word(payload, 4)?, flags: word(payload, 8)?, ..Link::default() };
    for (kind, value) in attributes(payload.get(IFINFOMSG..)?) {
        match kind {
            3 => link.name = text(value).to_owned(),
            4 => link.mtu = word(value, 0)?,
            16 => link.operstate = *value.first()?,
            18 => link.kind = attributes(value).find(|(kind, _)| *kind == 1).map(|(_, kind)| text(kind).to_owned()),
            31 => link.tx_queues = word(value, 0)?,
            32 => link.rx_queues = word(value, 0)?,
            41 => link.gso_max_size = word(value, 0),
            _ => {}
        }
    }
    Some(link)
}

fn parse_link_stats(payload: &[u8]) -> Option<(u32, LinkStats)> {
    const IF_STATS_MSG: usize = 12;
    const LINK_64: u16 = 1;
    let index = word(payload, 4)?;
    let (_, stats) = attributes(payload.get(IF_STATS_MSG..)?).find(|(kind, _)| *kind == LINK_64)?;
    let at = |field: usize| long(stats, field * 8);
    let stats = LinkStats {
        rx_packets: at(0)?,
        tx_packets: at(1)?,
        rx_bytes: at(2)?,
        tx_bytes: at(3)?,
        rx_errors: at(4)?,
        tx_errors: at(5)?,
        rx_dropped: at(6)?,
        tx_dropped: at(7)?,
        multicast: at(8)?,
        collisions: at(9)?,
        rx_length_errors: at(10)?,
        rx_over_errors: at(11)?,
        rx_crc_errors: at(12)?,
        rx_frame_errors: at(13)?,
        rx_fifo_errors: at(14)?,
        rx_missed_errors: at(15)?,
        tx_aborted_errors: at(16)?,
        tx_carrier_errors: at(17)?,
        tx_fifo_errors: at(18)?,
    };
    Some((index, stats))
}

fn parse_address(payload: &[u8]) -> Option<InterfaceAddress> {
    const IFADDRMSG: usize = 8;
    /// IFA_LOCAL is this end; IFA_ADDRESS is the peer's on a point-to-point link and this end's elsewhere.
    const LOCAL: u16 = 2;
    const ADDRESS: u16 = 1;
    let body = payload.get(IFADDRMSG..)?;
    let find = |wanted| attributes(body).find(|(kind, _)| *kind == wanted);
    let (prefix, index) = (*payload.get(1)?, word(payload, 4)?);
    let (_, octets) = find(LOCAL).or_else(|| find(ADDRESS))?;
    let address = match octets.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?)),
        _ => return None,
    };
    Some(InterfaceAddress { index, address, prefix })
}

fn parse_qdisc(payload: &[u8]) -> Option<Qdisc<'_>> {
    const KIND: u16 = 1;
    const OPTIONS: u16 = 2;
    const STATS2: u16 = 7;
    let mut qdisc =
        Qdisc { index: word(payload, 4)?, handle: word(payload, 8)?, parent: word(payload, 12)?, ..Qdisc::default() };
    for (kind, value) in attributes(payload.get(TCMSG..)?) {
        match kind {
            KIND => qdisc.kind = text(value),
            OPTIONS => qdisc.options = value,
            STATS2 => parse_qdisc_stats(value, &mut qdisc)?,
            _ => {}
        }
    }
    Some(qdisc)
}

fn parse_qdisc_stats(stats: &[u8], qdisc: &mut Qdisc<'_>) -> Option<()> {
    const BASIC: u16 = 1;
    const QUEUE: u16 = 3;
    const PACKETS_64: u16 = 8;
    for (kind, value) in attributes(stats) {
        match kind {
            BASIC => {
                qdisc.bytes = long(value, 0)?;
                qdisc.packets = qdisc.packets.max(u64::from(word(value, 8)?));
            }
            QUEUE => {
                qdisc.queue_length = word(value, 0)?;
                qdisc.backlog_bytes = word(value, 4)?;
                qdisc.drops = word(value, 8)?;
                qdisc.requeues = word(value, 12)?;
                qdisc.overlimits = word(value, 16)?;
            }
            PACKETS_64 => qdisc.packets = long(value, 0)?,
            _ => {}
        }
    }
    Some(())
}

fn parse_htb_class(payload: &[u8]) -> Option<HtbClass> {
    const KIND: u16 = 1;
    const OPTIONS: u16 = 2;
    const PARAMETERS: u16 = 1;
    const RATE_64: u16 = 6;
    const CEIL_64: u16 = 7;
    let find = |bytes, wanted| attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let body = payload.get(TCMSG..)?;
    if find(body, KIND).map(text) != Some("htb") {
        return None;
    }
    let options = find(body, OPTIONS)?;
    let parameters = find(options, PARAMETERS)?;
    let rate_bytes_per_s = rate(parameters, 0, find(options, RATE_64))?;
    Some(HtbClass {
        handle: word(payload, 8)?,
        parent: word(payload, 12)?,
        rate_bytes_per_s,
        ceil_bytes_per_s: rate(parameters, 12, find(options, CEIL_64))?,
        burst_bytes: burst(rate_bytes_per_s, word(parameters, 24)?),
    })
}

/// The rate of a `struct tc_ratespec` at `at`, or of the 64-bit attribute that accompanies it above 32 Gbit/s.
fn rate(parameters: &[u8], at: usize, rate_64: Option<&[u8]>) -> Option<u64> {
    const RATE: usize = 8;
    rate_64.and_then(|value| long(value, 0)).or_else(|| word(parameters, at + RATE).map(u64::from))
}

/// A burst is sent as the time it takes at its rate, in scheduler ticks of 64 ns (`PSCHED_SHIFT` 6).
fn burst(rate_bytes_per_s: u64, ticks: u32) -> u64 {
    const TICK_NS: u128 = 64;
    const NANOS_PER_SECOND: u128 = 1_000_000_000;
    let bytes = u128::from(rate_bytes_per_s) * u128::from(ticks) * TICK_NS;
    ((bytes + NANOS_PER_SECOND / 2) / NANOS_PER_SECOND) as u64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((payload.len() as u16 + 4).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(align(bytes.len()), 0);
        bytes
    }

    #[test]
    fn a_qdisc_is_read_with_its_queue() {
        let mut queue = Vec::new();
        for value in [3_u32, 4542, 7, 1, 9] {
            queue.extend(value.to_ne_bytes());
        }
        let mut payload = vec![0; 4];
        for value in [5_u32, 0x8001_0000, 0xffff_ffff, 2] {
            payload.extend(value.to_ne_bytes());
        }
        payload.extend(attribute(1, b"tbf\0"));
        payload.extend(attribute(7, &attribute(3, &queue)));
        let qdisc = parse_qdisc(&payload).unwrap();
        assert_eq!((qdisc.index, qdisc.handle, qdisc.kind), (5, 0x8001_0000, "tbf"));
        assert_eq!((qdisc.queue_length, qdisc.backlog_bytes, qdisc.drops), (3, 4542, 7));
        assert_eq!((qdisc.requeues, qdisc.overlimits), (1, 9));
    }

    #[test]
    fn a_token_bucket_is_read_as_rate_burst_and_limit() {
        // 50 Mbit/s, burst 2000 B (320 us, 5000 ticks), limit 30000 B.
        let mut parameters = vec![0; 36];
        parameters[8..12].copy_from_slice(&6_250_000_u32.to_ne_bytes());
        parameters[24..28].copy_from_slice(&30_000_u32.to_ne_bytes());
        parameters[28..32].copy_from_slice(&5000_u32.to_ne_bytes());
        let options = attribute(1, &parameters);
        let limits = Qdisc { kind: "tbf", options: &options, ..Qdisc::default() }.limits();
        let expected = QdiscLimits {
            rate_bytes_per_s: Some(6_250_000),
            burst_bytes: Some(2000),
            limit_bytes: Some(30_000),
            limit_packets: None,
        };
        assert_eq!(limits, expected);
    }

    #[test]
    fn truncated_messages_end_the_walk_without_panic() {
        let whole: Vec<u8> = attribute(1, b"veth\0").into_iter().chain(attribute(2, &[1, 2, 3])).collect();
        for end in 0..whole.len() {
            let _ = attributes(&whole[..end]).count();
            let _ = messages(&whole[..end]).count();
            let _ = (
                parse_link(&whole[..end]),
                parse_htb_class(&whole[..end]),
                parse_qdisc(&whole[..end]),
                parse_link_stats(&whole[..end]),
            );
            let _ = parse_address(&whole[..end]);
        }
        // A length of zero must not loop for ever.
        assert_eq!(attributes(&[0; 64]).count(), 0);
    }

    #[test]
    fn the_loopback_is_listed_with_address_and_counters() {
        let mut socket = RouteSocket::open().unwrap();
        let mut loopback = None;
        socket
            .links(|link| {
                if link.name == "lo" {
                    loopback = Some(link)
                }
            })
            .unwrap();
        let loopback = loopback.expect("every namespace has lo");
        assert_eq!((loopback.index, loopback.kind.as_deref()), (1, None));
        let mut seen = 0;
        socket.link_stats(|index, _| seen += u32::from(index == 1)).unwrap();
        assert_eq!(seen, 1);
        let mut addresses = Vec::new();
        socket.addresses(|address| addresses.push(address)).unwrap();
        if addresses.is_empty() {
            return println!("skipped: lo is down in this namespace");
        }
        assert!(addresses.iter().any(|a| a.index == 1 && a.address.is_loopback()), "{addresses:?}");
        socket.qdiscs(|qdisc| assert!(!qdisc.kind.is_empty())).unwrap();
    }
}
