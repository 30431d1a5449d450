//! UDP sockets: many datagrams per call, segmentation offload (GSO) and coalescing (GRO), and the
//! socket's drop counter.
//!
//! A batch owns its buffers and message headers; no call allocates. With [`set_segment_size`] the
//! stack or the device splits one message into many datagrams. With [`coalesce`] many datagrams
//! arrive as one message. One socket buffer (skb) then stands for up to 128 datagrams, in every
//! cost and in every drop counter. Sizes are UDP payload bytes. Datagrams that are dropped before
//! the socket (device, backlog, checksum) are not visible here.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::SockRef;

use crate::socket::{ECN_MASK, describe, raw as option};
use crate::{Result, SysError};

#[allow(unsafe_code)]
mod raw;

/// `UDP_SEGMENT`, Linux `include/uapi/linux/udp.h` (since 4.18).
const UDP_SEGMENT: i32 = 103;
/// `UDP_GRO`, likewise (since 5.0).
const UDP_GRO: i32 = 104;
/// `SO_MEMINFO`, Linux `include/uapi/asm-generic/socket.h` (since 4.12): `u32[SK_MEMINFO_VARS]`.
const SO_MEMINFO: i32 = 55;
/// Number of variables of `SO_MEMINFO` up to the drop counter.
const MEMINFO_VARIABLES: usize = libc::SK_MEMINFO_DROPS as usize + 1;

/// Segments per message that the newest kernels accept: `UDP_MAX_SEGMENTS`, `include/linux/udp.h`
/// of Linux 6.9.
pub const MAX_SEGMENTS: usize = 128;
/// Segments per message that every kernel with UDP segmentation accepts (Linux 4.18).
const LEAST_MAX_SEGMENTS: usize = 64;
/// Largest UDP payload over IPv4: 65,535 less an IP header of 20 and a UDP header of 8 (RFC 791,
/// RFC 768). IPv6 would allow 20 more; one limit serves both.
pub const MAX_PAYLOAD_BYTES: usize = 65_507;

/// Waiting behaviour of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Waits until at least one message has moved, or the socket's timeout has passed.
    Block,
    /// Does not wait (`MSG_DONTWAIT`).
    Never,
}

/// Batch of messages for connected sockets.
pub struct SendBatch {
    messages: raw::Messages,
}

impl SendBatch {
    /// Allocates `n_messages` of up to `message_bytes` each, zeroed.
    ///
    /// # Panics
    /// If either is zero.
    #[must_use]
    pub fn new(n_messages: usize, message_bytes: usize) -> Self {
        Self { messages: raw::Messages::new(n_messages, message_bytes) }
    }

    /// Returns the buffer of message `idx`, to fill or to patch.
    ///
    /// # Panics
    /// If `idx` is out of range.
    #[inline]
    pub fn message_mut(&mut self, idx: usize) -> &mut [u8] {
        self.messages.bytes_mut(idx)
    }

    /// Sets the length of message `idx`.
    ///
    /// # Panics
    /// If `idx` or `length` is out of range.
    #[inline]
    pub fn set_length(&mut self, idx: usize, length: usize) {
        self.messages.set_length(idx, length);
    }

    /// Sends the first `n` messages and returns how many the kernel accepted, at least one. The
    /// next call reports the failure of a later message.
    ///
    /// # Errors
    /// The kernel's error if it did not accept the first message.
    ///
    /// # Panics
    /// If `n` is zero or out of range.
    #[inline]
    pub fn send(&mut self, socket: &impl AsFd, n: usize, wait: Wait) -> io::Result<usize> {
        let flags = match wait {
            Wait::Block => 0,
            Wait::Never => libc::MSG_DONTWAIT,
        };
        self.messages.send(socket, 0, n, flags)
    }
}

/// Buffers for received messages.
pub struct ReceiveBatch {
    messages: raw::Messages,
    filled: usize,
}

/// Received message: one datagram, or several that were coalesced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The part that fitted into the batch's buffer, from the start of the message.
    pub visible: &'a [u8],
    /// Its true length.
    pub bytes: usize,
    /// Length of every datagram in the message except the last; equal to `bytes` for a single
    /// datagram.
    pub segment_bytes: usize,
    /// The socket's drop counter when the message was queued; `None` before the first drop or
    /// without [`count_drops`].
    pub drops: Option<u32>,
    /// Time at which the kernel received the message from the device, ns since the Unix epoch;
    /// `None` without [`stamp_arrivals`].
    pub stamp_ns: Option<u64>,
    /// ECN field of its IP header; `None` without [`report_class`].
    pub ecn: Option<u8>,
    /// Code point (DSCP) of its IP header; `None` without [`report_class`].
    pub dscp: Option<u8>,
    /// Time to live (IPv4) or hop limit (IPv6) of its IP header; `None` without [`report_hops`].
    pub hops: Option<u8>,
}

impl Received<'_> {
    /// Returns the number of datagrams in the message; an empty datagram counts as one.
    #[inline]
    #[must_use]
    pub fn n_datagrams(&self) -> usize {
        self.bytes.div_ceil(self.segment_bytes.max(1)).max(1)
    }
}

impl ReceiveBatch {
    /// Allocates room for `n_messages`. The first `message_bytes` of each are copied out and the
    /// kernel discards the rest (`MSG_TRUNC`). Coalesced messages are up to 64 KiB long.
    ///
    /// # Panics
    /// If either is zero.
    #[must_use]
    pub fn new(n_messages: usize, message_bytes: usize) -> Self {
        let mut messages = raw::Messages::new(n_messages, message_bytes);
        (0..n_messages).for_each(|idx| messages.accept_control(idx));
        Self { messages, filled: 0 }
    }

    /// Returns the largest number of messages per call.
    #[inline]
    #[must_use]
    pub fn n(&self) -> usize {
        self.messages.n()
    }

    /// Receives all queued messages, at most the batch. Waits, if at all, for the first message
    /// only.
    ///
    /// # Errors
    /// The kernel's error if there was no message: `WouldBlock` if none arrived in time.
    #[inline]
    pub fn receive(&mut self, socket: &impl AsFd, wait: Wait) -> io::Result<usize> {
        // The kernel shortened the control lengths of the messages that it filled, and only of
        // those.
        for idx in 0..std::mem::take(&mut self.filled) {
            self.messages.accept_control(idx);
        }
        let waiting = match wait {
            Wait::Block => libc::MSG_WAITFORONE,
            Wait::Never => libc::MSG_DONTWAIT,
        };
        self.filled =
            self.messages.receive(socket, self.messages.n(), waiting | libc::MSG_TRUNC)?;
        Ok(self.filled)
    }

    /// Returns message `idx` of the last call.
    ///
    /// # Panics
    /// If the last call received fewer.
    #[inline]
    #[must_use]
    pub fn message(&self, idx: usize) -> Received<'_> {
        assert!(idx < self.filled, "message {idx} of {}", self.filled);
        let bytes = self.messages.transferred(idx);
        let ancillary = self.messages.ancillary(idx);
        let segment_bytes =
            ancillary.segment.and_then(|segment| usize::try_from(segment).ok()).unwrap_or(bytes);
        let visible = &self.messages.bytes(idx)[..bytes.min(self.messages.message_bytes())];
        let stamp_ns = ancillary.stamp.and_then(|stamp| {
            let seconds = u64::try_from(stamp.tv_sec).ok()?;
            seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(stamp.tv_nsec).ok()?)
        });
        let ecn = ancillary.class.map(|class| class & ECN_MASK);
        let dscp = ancillary.class.map(|class| class >> ECN_MASK.count_ones());
        let raw::Ancillary { drops, hops, .. } = ancillary;
        Received { visible, bytes, segment_bytes, drops, stamp_ns, ecn, dscp, hops }
    }
}

impl fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendBatch({} x {} B)", self.messages.n(), self.messages.message_bytes())
    }
}

impl fmt::Debug for ReceiveBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReceiveBatch({} x {} B)", self.messages.n(), self.messages.message_bytes())
    }
}

/// Makes the kernel split every message longer than `bytes` into datagrams of `bytes`
/// (`UDP_SEGMENT`), at most [`MAX_SEGMENTS`].
///
/// # Errors
/// If the kernel does not support UDP segmentation.
pub fn set_segment_size(socket: &impl AsFd, bytes: u16) -> Result<()> {
    option::set_int(socket, libc::SOL_UDP, UDP_SEGMENT, i32::from(bytes)).map_err(|cause| {
        SysError::new("set UDP_SEGMENT (needs Linux 4.18) on", describe(socket), cause)
    })
}

/// Returns the number of segments per message that this kernel accepts: [`MAX_SEGMENTS`], or half
/// as many on older kernels. Tests it with one message to a socket of this process.
#[must_use]
pub fn most_segments() -> usize {
    // If the namespace's loopback is down, the test is impossible.
    send_most_segments().unwrap_or(LEAST_MAX_SEGMENTS)
}

/// Sends [`MAX_SEGMENTS`] segments of one byte to a socket of this process.
fn send_most_segments() -> io::Result<usize> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    option::set_int(&socket, libc::SOL_UDP, UDP_SEGMENT, 1)?;
    socket.send_to(&[0; MAX_SEGMENTS], socket.local_addr()?)
}

/// Receives datagrams that arrive together as one message (`UDP_GRO`).
///
/// # Errors
/// If the kernel does not support UDP coalescing.
pub fn coalesce(socket: &impl AsFd) -> Result<()> {
    option::set_int(socket, libc::SOL_UDP, UDP_GRO, 1)
        .map_err(|cause| SysError::new("set UDP_GRO (needs Linux 5.0) on", describe(socket), cause))
}

/// Attaches the socket's drop counter to received messages (`SO_RXQ_OVFL`).
///
/// # Errors
/// If the kernel refuses.
pub fn count_drops(socket: &impl AsFd) -> Result<()> {
    option::set_int(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
        .map_err(|cause| SysError::new("set SO_RXQ_OVFL on", describe(socket), cause))
}

/// Attaches the time of arrival in the kernel to received messages (`SO_TIMESTAMPNS`). The time
/// does not depend on when the program is woken.
///
/// # Errors
/// If the kernel refuses.
pub fn stamp_arrivals(socket: &impl AsFd) -> Result<()> {
    option::set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
        .map_err(|cause| SysError::new("set SO_TIMESTAMPNS on", describe(socket), cause))
}

/// Attaches the traffic class of the IP header to received messages (`IP_RECVTOS`,
/// `IPV6_RECVTCLASS`).
///
/// # Errors
/// If the kernel refuses.
pub fn report_class(socket: &impl AsFd) -> Result<()> {
    report(socket, "set IP_RECVTOS on", libc::IP_RECVTOS, libc::IPV6_RECVTCLASS)
}

/// Attaches the time to live or hop limit of the IP header to received messages (`IP_RECVTTL`,
/// `IPV6_RECVHOPLIMIT`).
///
/// # Errors
/// If the kernel refuses.
pub fn report_hops(socket: &impl AsFd) -> Result<()> {
    report(socket, "set IP_RECVTTL on", libc::IP_RECVTTL, libc::IPV6_RECVHOPLIMIT)
}

/// Attaches a field of the IP header to received messages, by the option of the socket's family.
fn report(
    socket: &impl AsFd,
    action: &'static str,
    ipv4: libc::c_int,
    ipv6: libc::c_int,
) -> Result<()> {
    let error = |cause| SysError::new(action, describe(socket), cause);
    let domain = option::get_int(socket, libc::SOL_SOCKET, libc::SO_DOMAIN).map_err(error)?;
    let (level, name) = match domain == libc::AF_INET6 {
        true => (libc::IPPROTO_IPV6, ipv6),
        false => (libc::IPPROTO_IP, ipv4),
    };
    option::set_int(socket, level, name, 1).map_err(error)
}

/// Sends every datagram unfragmented (DF), at any size up to the interface's MTU, even if the
/// kernel has learned a smaller path MTU (`IP_PMTUDISC_PROBE`).
///
/// # Errors
/// If the kernel refuses.
pub fn probe_sizes(socket: &impl AsFd) -> Result<()> {
    let error = |cause| SysError::new("set IP_MTU_DISCOVER on", describe(socket), cause);
    let domain = option::get_int(socket, libc::SOL_SOCKET, libc::SO_DOMAIN).map_err(error)?;
    let (level, name, value) = if domain == libc::AF_INET6 {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
    } else {
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
    };
    option::set_int(socket, level, name, value).map_err(error)
}

/// Returns the number of messages that the socket has dropped for lack of buffer space
/// (`SO_MEMINFO`). The counter wraps at 2^32 and counts skbs: a coalesced message counts once.
/// `None` if the kernel does not have the counter.
#[must_use]
pub fn drops(socket: &impl AsFd) -> Option<u32> {
    let mut variables = [0_u32; MEMINFO_VARIABLES];
    let bytes = option::get_into(socket, libc::SOL_SOCKET, SO_MEMINFO, &mut variables).ok()?;
    (bytes >= size_of_val(&variables)).then(|| variables[libc::SK_MEMINFO_DROPS as usize])
}

/// Returns the payload that fits into one datagram without fragmentation on the path of a connected
/// socket. Uses the MTU that the kernel knows (`IP_MTU`, `IPV6_MTU`), less headers without options.
///
/// # Errors
/// If the socket is not connected.
pub fn path_payload_bytes(socket: &impl AsFd) -> Result<usize> {
    /// IPv4 header (RFC 791) and UDP header (RFC 768).
    const IPV4_AND_UDP: i32 = 20 + 8;
    /// IPv6 header (RFC 8200) and UDP header.
    const IPV6_AND_UDP: i32 = 40 + 8;
    let error = |cause| SysError::new("read the path MTU of", describe(socket), cause);
    let domain = option::get_int(socket, libc::SOL_SOCKET, libc::SO_DOMAIN).map_err(error)?;
    let (level, name, headers) = if domain == libc::AF_INET6 {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU, IPV6_AND_UDP)
    } else {
        (libc::IPPROTO_IP, libc::IP_MTU, IPV4_AND_UDP)
    };
    let mtu = option::get_int(socket, level, name).map_err(error)?;
    Ok(usize::try_from(mtu - headers).unwrap_or(0).min(MAX_PAYLOAD_BYTES))
}

/// Limits the time of every blocking receive on `socket` (`SO_RCVTIMEO`).
///
/// # Errors
/// If `timeout` is zero or the kernel refuses.
pub fn set_receive_timeout(socket: &impl AsFd, timeout: Duration) -> Result<()> {
    SockRef::from(socket)
        .set_read_timeout(Some(timeout))
        .map_err(|cause| SysError::new("set SO_RCVTIMEO on", describe(socket), cause))
}

/// Limits the time of every blocking send and connect on `socket` (`SO_SNDTIMEO`).
///
/// # Errors
/// If `timeout` is zero or the kernel refuses.
pub fn set_send_timeout(socket: &impl AsFd, timeout: Duration) -> Result<()> {
    SockRef::from(socket)
        .set_write_timeout(Some(timeout))
        .map_err(|cause| SysError::new("set SO_SNDTIMEO on", describe(socket), cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{Buffer, set_buffer};

    fn pair(address: &str) -> (UdpSocket, UdpSocket) {
        let a = UdpSocket::bind(address).expect("loopback");
        let b = UdpSocket::bind(address).expect("loopback");
        a.connect(b.local_addr().expect("bound")).expect("connect");
        b.connect(a.local_addr().expect("bound")).expect("connect");
        set_receive_timeout(&b, Duration::from_secs(2)).expect("a timeout");
        (a, b)
    }

    /// Sends a byte from `a` and takes it from `b`.
    fn pass(a: &UdpSocket, b: &UdpSocket, receive: &mut ReceiveBatch) {
        a.send(b"x").expect("send");
        receive.receive(b, Wait::Block).expect("receive");
    }

    const FAMILIES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

    #[test]
    fn a_batch_arrives_in_order_with_its_lengths() {
        for family in FAMILIES {
            let (a, b) = pair(family);
            let mut send = SendBatch::new(3, 100);
            for (idx, length) in [10, 100, 1].into_iter().enumerate() {
                send.message_mut(idx).fill(idx as u8 + 1);
                send.set_length(idx, length);
            }
            assert_eq!(send.send(&a, 3, Wait::Block).expect("send"), 3);
            let mut receive = ReceiveBatch::new(8, 100);
            assert_eq!(receive.receive(&b, Wait::Block).expect("receive"), 3);
            let lengths: Vec<_> = (0..3).map(|idx| receive.message(idx).bytes).collect();
            assert_eq!(lengths, [10, 100, 1]);
            assert_eq!(receive.message(1).visible, [2; 100]);
            assert_eq!(receive.message(1).n_datagrams(), 1);
        }
    }

    #[test]
    fn the_ecn_field_is_reported_on_request_and_keeps_the_code_point() {
        use crate::socket::{ECT_0, dscp, set_dscp, set_ecn};

        for family in FAMILIES {
            let (a, b) = pair(family);
            let mut receive = ReceiveBatch::new(1, 10);
            let mut arrives = |a: &UdpSocket| {
                pass(a, &b, &mut receive);
                let message = receive.message(0);
                (message.ecn, message.dscp)
            };
            set_dscp(&a, 46).expect("any kernel");
            set_ecn(&a, ECT_0).expect("any kernel");
            assert_eq!(arrives(&a), (None, None), "not asked for");
            report_class(&b).expect("any kernel");
            assert_eq!(arrives(&a), (Some(ECT_0), Some(46)), "{family}");
            assert_eq!(dscp(&a).expect("set"), 46, "{family}");
            set_ecn(&a, 0).expect("any kernel");
            assert_eq!(arrives(&a), (Some(0), Some(46)), "{family}");
        }
    }

    #[test]
    fn the_time_to_live_is_reported_on_request() {
        for family in FAMILIES {
            let (a, b) = pair(family);
            let mut receive = ReceiveBatch::new(1, 10);
            let mut arrives = |a: &UdpSocket| {
                pass(a, &b, &mut receive);
                receive.message(0).hops
            };
            assert_eq!(arrives(&a), None, "not asked for");
            report_hops(&b).expect("any kernel");
            let socket = SockRef::from(&a);
            let set = match family {
                "127.0.0.1:0" => socket.set_ttl_v4(7),
                _ => socket.set_unicast_hops_v6(7),
            };
            set.expect("any kernel");
            assert_eq!(arrives(&a), Some(7), "{family}");
        }
    }

    #[test]
    fn arrivals_are_stamped_on_request() {
        for family in FAMILIES {
            let (a, b) = pair(family);
            let mut receive = ReceiveBatch::new(1, 10);
            pass(&a, &b, &mut receive);
            assert_eq!(receive.message(0).stamp_ns, None, "not asked for");
            stamp_arrivals(&b).expect("every kernel stamps");
            probe_sizes(&a).expect("every kernel can");
            pass(&a, &b, &mut receive);
            // 2020, in nanoseconds since the Unix epoch: any wall clock is later.
            assert!(receive.message(0).stamp_ns.expect("asked for") > 1_577_836_800_000_000_000);
        }
    }

    #[test]
    fn segments_are_sent_singly_and_coalesced_on_request() {
        for family in FAMILIES {
            let (a, b) = pair(family);
            set_segment_size(&a, 100).expect("gso");
            let mut send = SendBatch::new(2, 64 * 100);
            send.set_length(1, 150);
            send.send(&a, 2, Wait::Block).expect("send");
            let mut plain = ReceiveBatch::new(80, 200);
            let mut got = 0;
            while got < 66 {
                let n = plain.receive(&b, Wait::Block).expect("receive");
                assert!((0..n).all(|idx| [100, 50].contains(&plain.message(idx).bytes)));
                got += n;
            }
            assert_eq!(got, 66);
            coalesce(&b).expect("gro");
            send.send(&a, 2, Wait::Block).expect("send");
            let mut whole = ReceiveBatch::new(4, 24);
            assert_eq!(whole.receive(&b, Wait::Block).expect("receive"), 2);
            let first = whole.message(0);
            assert_eq!((first.bytes, first.segment_bytes), (6_400, 100));
            assert_eq!((first.n_datagrams(), first.visible.len()), (64, 24));
            assert_eq!((whole.message(1).bytes, whole.message(1).n_datagrams()), (150, 2));
        }
    }

    #[test]
    fn the_reported_number_of_segments_can_be_sent() {
        let (a, b) = pair(FAMILIES[0]);
        let most = most_segments();
        assert!([LEAST_MAX_SEGMENTS, MAX_SEGMENTS].contains(&most), "{most}");
        set_segment_size(&a, 10).expect("gso");
        coalesce(&b).expect("gro");
        let mut send = SendBatch::new(1, most * 10);
        send.send(&a, 1, Wait::Block).expect("accepted");
        let mut receive = ReceiveBatch::new(1, 10);
        receive.receive(&b, Wait::Block).expect("receive");
        assert_eq!(receive.message(0).n_datagrams(), most);
    }

    #[test]
    fn a_short_buffer_discards_the_rest_and_reports_the_true_length() {
        let (a, b) = pair(FAMILIES[0]);
        a.send(&[7; 1_472]).expect("send");
        let mut receive = ReceiveBatch::new(1, 16);
        receive.receive(&b, Wait::Block).expect("receive");
        let message = receive.message(0);
        assert_eq!((message.visible, message.bytes), ([7; 16].as_slice(), 1_472));
    }

    #[test]
    fn an_empty_socket_never_blocks_a_poll() {
        let (_a, b) = pair(FAMILIES[0]);
        let error =
            ReceiveBatch::new(4, 16).receive(&b, Wait::Never).expect_err("nothing was sent");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn drops_at_a_full_socket_are_counted_by_both_counters() {
        let (a, b) = pair(FAMILIES[0]);
        set_buffer(&b, Buffer::Receive, 4_096).expect("a small buffer");
        count_drops(&b).expect("SO_RXQ_OVFL");
        (0..100).for_each(|_| drop(a.send(&[0; 1_000])));
        let mut receive = ReceiveBatch::new(128, 16);
        let queued = receive.receive(&b, Wait::Block).expect("some fitted");
        assert!(queued < 100);
        let dropped = drops(&b).expect("SO_MEMINFO is as old as 4.12");
        assert_eq!(queued + dropped as usize, 100);
        a.send(&[0; 1_000]).expect("there is room again");
        receive.receive(&b, Wait::Block).expect("receive");
        assert_eq!(receive.message(0).drops, Some(dropped));
    }

    #[test]
    fn a_datagram_that_fills_the_loopback_mtu_is_known() {
        // The loopback interface's MTU is 65 536 by default: more than IPv4 can carry in one
        // datagram.
        let (a, _b) = pair(FAMILIES[0]);
        let bytes = path_payload_bytes(&a).expect("connected");
        assert!((1_472..=MAX_PAYLOAD_BYTES).contains(&bytes), "{bytes}");
    }
}
