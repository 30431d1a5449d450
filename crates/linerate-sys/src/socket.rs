//! Socket options: requested and granted values.
//!
//! A setter whose value the kernel may change returns the value that it reads back. Buffer sizes
//! follow the kernel's accounting: `SO_SNDBUF` and `SO_RCVBUF` read back *twice* the value that was
//! set, because the kernel includes its own overhead per packet in the same budget (socket(7)). A
//! request that is granted in full therefore reads as its double.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::privilege::{SocketOption, or_helper};
use crate::{Result, SysError};

#[allow(unsafe_code)]
pub(crate) mod raw;

/// Process at the other end of a connected Unix socket, or the process that listens there
/// (`SO_PEERCRED`, unix(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id in the caller's PID namespace; `None` if it has none there.
    pub pid: Option<u32>,
    /// Effective user at the time of connecting or listening, as the caller's user namespace maps
    /// it.
    pub user: u32,
}

/// Returns the process at the other end of a Unix socket; the kernel vouches for it.
///
/// # Errors
/// If the descriptor is not a connected Unix socket.
pub fn peer(socket: &impl AsFd) -> Result<Peer> {
    let [pid, user, _group] = raw::get::<[u32; 3]>(socket, libc::SOL_SOCKET, libc::SO_PEERCRED)
        .map_err(|cause| SysError::new("read SO_PEERCRED of", describe(socket), cause))?;
    Ok(Peer { pid: (pid > 0).then_some(pid), user })
}

/// Direction of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// `SO_SNDBUF`.
    Send,
    /// `SO_RCVBUF`.
    Receive,
}

/// Sets a buffer to `bytes` and returns the granted size (the double, if granted in full). With
/// `CAP_NET_ADMIN` the limits `net.core.wmem_max` and `rmem_max` do not apply. The kernel stops
/// auto-tuning this buffer.
///
/// # Errors
/// If the kernel refuses the option altogether; a smaller grant is not an error.
pub fn set_buffer(socket: &impl AsFd, buffer: Buffer, bytes: usize) -> Result<usize> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let (force, plain, operation) = match buffer {
        Buffer::Send => (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, "set SO_SNDBUF of"),
        Buffer::Receive => (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, "set SO_RCVBUF of"),
    };
    let forced = raw::set_int(socket, libc::SOL_SOCKET, force, value);
    if forced.is_err() {
        raw::set_int(socket, libc::SOL_SOCKET, plain, value)
            .map_err(|cause| SysError::new(operation, describe(socket), cause))?;
        // A size within the unprivileged limits needs no helper.
        if self::buffer(socket, buffer)? < value.unsigned_abs() as usize * BOOKED {
            let option = match buffer {
                Buffer::Send => SocketOption::SendBuffer(bytes),
                Buffer::Receive => SocketOption::ReceiveBuffer(bytes),
            };
            // If the helper refuses, the granted size shows it.
            let _refused = or_helper(forced, |helper| helper.set_option(socket.as_fd(), option));
        }
    }
    self::buffer(socket, buffer)
}

/// Factor between the size that is set and the size that is read back.
const BOOKED: usize = 2;

/// Gives `listener` the buffers of a new TCP socket, auto-tuned as usual. A connection begins with
/// the buffers of its listener, which are the defaults of the time when that was made: changes of
/// `net.ipv4.tcp_rmem` and `tcp_wmem` do not reach it. Returns whether it has them afterwards:
/// before Linux 5.14 (`SO_BUF_LOCK`) only where they have not changed.
///
/// # Errors
/// If the descriptor is no socket.
pub fn renew_buffers(listener: &impl AsFd) -> Result<bool> {
    let error = |cause| SysError::new("renew the buffers of", describe(listener), cause);
    let domain = SockRef::from(listener).domain().map_err(error)?;
    let fresh = Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).map_err(error)?;
    for which in [Buffer::Send, Buffer::Receive] {
        let wanted = buffer(&fresh, which)?;
        if buffer(listener, which)? == wanted {
            continue;
        }
        let lock = raw::get_int(listener, libc::SOL_SOCKET, libc::SO_BUF_LOCK);
        let Ok(lock) = lock else { return Ok(false) };
        let granted = set_buffer(listener, which, wanted / BOOKED)?;
        raw::set_int(listener, libc::SOL_SOCKET, libc::SO_BUF_LOCK, lock).map_err(error)?;
        // The kernel grants even sizes, and no very small ones.
        if granted + 1 < wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Binds `socket` to `address`.
///
/// # Errors
/// Those of bind(2); ports below `net.ipv4.ip_unprivileged_port_start` need `CAP_NET_BIND_SERVICE`.
pub fn bind(socket: &impl AsFd, address: SocketAddr) -> io::Result<()> {
    let bound = SockRef::from(socket).bind(&address.into());
    or_helper(bound, |helper| helper.bind(socket.as_fd(), address))
}

/// Creates a socket of a server, bound to `at`. One for every IPv6 address serves IPv4, too.
///
/// # Errors
/// If the kernel has no such family (`EAFNOSUPPORT`), or if the address is not free.
pub fn serving(kind: Type, at: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), kind, None)?;
    if at.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // A server is started again while old connections linger.
    socket.set_reuse_address(true)?;
    bind(&socket, at)?;
    Ok(socket)
}

/// Sets the congestion control `name` (`TCP_CONGESTION`).
///
/// # Errors
/// If the kernel does not have it, or if only `CAP_NET_ADMIN` may select it.
pub fn set_congestion(socket: &impl AsFd, name: &str) -> io::Result<()> {
    let set = SockRef::from(socket).set_tcp_congestion(name.as_bytes());
    or_helper(set, |helper| {
        helper.set_option(socket.as_fd(), SocketOption::Congestion(name.to_owned()))
    })
}

/// Returns the name of the congestion control (`TCP_CONGESTION`).
///
/// # Errors
/// If the socket is not a TCP socket.
pub fn congestion(socket: &impl AsFd) -> io::Result<String> {
    let name = SockRef::from(socket).tcp_congestion()?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Keeps packets in the networks of this host's interfaces (`SO_DONTROUTE`, socket(7)).
///
/// # Errors
/// If the kernel refuses.
pub fn set_unrouted(socket: &impl AsFd) -> io::Result<()> {
    raw::set_int(socket, libc::SOL_SOCKET, libc::SO_DONTROUTE, 1)
}

/// Sets `option` of `socket` without the unprivileged limits.
///
/// # Errors
/// If the kernel refuses.
pub fn force(socket: &impl AsFd, option: &SocketOption) -> io::Result<()> {
    let number = |bytes: usize| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    match option {
        SocketOption::SendBuffer(bytes) => {
            raw::set_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, number(*bytes))
        }
        SocketOption::ReceiveBuffer(bytes) => {
            raw::set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, number(*bytes))
        }
        SocketOption::BusyPoll(microseconds) => SockRef::from(socket).set_busy_poll(*microseconds),
        SocketOption::Congestion(name) => SockRef::from(socket).set_tcp_congestion(name.as_bytes()),
    }
}

/// Returns true for IPv4 and IPv6 sockets.
#[must_use]
pub fn is_internet(socket: &impl AsFd) -> bool {
    let domain = raw::get_int(socket, libc::SOL_SOCKET, libc::SO_DOMAIN);
    domain.is_ok_and(|domain| domain == libc::AF_INET || domain == libc::AF_INET6)
}

/// Returns the size of a buffer in the kernel's accounting.
///
/// # Errors
/// If the descriptor is not a socket.
pub fn buffer(socket: &impl AsFd, buffer: Buffer) -> Result<usize> {
    let (name, operation) = match buffer {
        Buffer::Send => (libc::SO_SNDBUF, "read SO_SNDBUF of"),
        Buffer::Receive => (libc::SO_RCVBUF, "read SO_RCVBUF of"),
    };
    raw::get_int(socket, libc::SOL_SOCKET, name)
        .map(|bytes| usize::try_from(bytes).unwrap_or(0))
        .map_err(|cause| SysError::new(operation, describe(socket), cause))
}

/// Returns the kernel memory that unread data at the socket occupies (`SO_MEMINFO`, since Linux
/// 4.12): payload in order and, for TCP, payload after a gap, each with its overhead. It is never
/// less than that payload and seldom more than twice as much.
///
/// # Errors
/// If the kernel does not have the option.
pub fn held(socket: &impl AsFd) -> Result<usize> {
    // The option is an array of counts. The kernel writes as many as fit, so one word reads the
    // first.
    raw::get::<u32>(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)
        .map(|bytes| bytes as usize)
        .map_err(|cause| SysError::new("read SO_MEMINFO of", describe(socket), cause))
}

/// Returns true if frames or datagrams under way fill at least seven eighths of the send buffer
/// (`SO_MEMINFO`, since Linux 4.12). A call that has just failed for lack of room finds it so.
///
/// # Errors
/// If the kernel does not have the option.
pub fn is_full(socket: &impl AsFd) -> Result<bool> {
    let [_, _, sent, room] = raw::get::<[u32; 4]>(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)
        .map_err(|cause| SysError::new("read SO_MEMINFO of", describe(socket), cause))?;
    Ok(u64::from(sent) * 8 >= u64::from(room) * 7)
}

/// Sets the differentiated services code point (RFC 2474), 0 to 63, for the socket's address
/// family, and returns the effective value. On an IPv6 socket the value also applies to mapped IPv4
/// addresses if the kernel allows it.
///
/// # Errors
/// If the kernel refuses the traffic class.
pub fn set_dscp(socket: &impl AsFd, dscp: u8) -> Result<u8> {
    set_class(socket, dscp << DSCP_SHIFT)?;
    self::dscp(socket)
}

/// Sets the ECN field of datagrams (RFC 3168 clause 5), and keeps their code point. The kernel sets
/// the field of TCP itself.
///
/// # Errors
/// If the kernel refuses the traffic class.
pub fn set_ecn(socket: &impl AsFd, field: u8) -> Result<()> {
    let class = dscp(socket)? << DSCP_SHIFT;
    set_class(socket, class | (field & ECN_MASK))
}

/// Sets the whole octet of the traffic class: code point and ECN field.
///
/// # Errors
/// If the kernel refuses the traffic class.
pub fn set_class(socket: &impl AsFd, class: u8) -> Result<()> {
    let class = libc::c_int::from(class);
    let (level, name) = match is_ipv6(socket)? {
        true => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        false => (libc::IPPROTO_IP, libc::IP_TOS),
    };
    raw::set_int(socket, level, name, class)
        .map_err(|cause| SysError::new("set traffic class of", describe(socket), cause))
}

/// Returns the effective differentiated services code point.
///
/// # Errors
/// If the descriptor is not an IP socket.
pub fn dscp(socket: &impl AsFd) -> Result<u8> {
    let (level, name) = if is_ipv6(socket)? {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
    } else {
        (libc::IPPROTO_IP, libc::IP_TOS)
    };
    raw::get_int(socket, level, name)
        .map(|class| (class >> DSCP_SHIFT) as u8 & DSCP_MASK)
        .map_err(|cause| SysError::new("read traffic class of", describe(socket), cause))
}

/// The code point is the upper six bits of the octet; the lower two are ECN (RFC 3168 clause 5).
const DSCP_SHIFT: u32 = 2;
const DSCP_MASK: u8 = 0x3f;
/// ECN field of the octet.
pub const ECN_MASK: u8 = 0b11;
/// ECN field of a transport that understands marks: ECT(0).
pub const ECT_0: u8 = 0b10;
/// The other such field: ECT(1).
pub const ECT_1: u8 = 0b01;

/// Binds the socket to the interface `device` (`SO_BINDTODEVICE`). A socket that is bound to it
/// stays so: connections from an address of a link arrive bound to their interface, and only
/// `CAP_NET_RAW` may bind them again.
///
/// # Errors
/// If the interface does not exist; on kernels before 5.7 also without `CAP_NET_RAW`.
pub fn bind_device(socket: &impl AsFd, device: &str) -> Result<()> {
    let socket = SockRef::from(socket);
    if matches!(socket.device(), Ok(Some(bound)) if bound == device.as_bytes()) {
        return Ok(());
    }
    socket.bind_device(Some(device.as_bytes())).map_err(|cause| {
        SysError::new(
            "bind a socket to interface (does it exist? kernels before 5.7 need CAP_NET_RAW)",
            device,
            cause,
        )
    })
}

/// Makes a later `bind` to port 0 select only the address (`IP_BIND_ADDRESS_NO_PORT`, ip(7)).
/// `connect` then selects the port and can share it between connections to different peers. Without
/// this option `bind` searches half of the ports, and then all of them one by one.
///
/// # Errors
/// If the kernel refuses.
pub fn choose_port_late(socket: &impl AsFd) -> Result<()> {
    raw::set_int(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
        .map_err(|cause| SysError::new("set IP_BIND_ADDRESS_NO_PORT of", describe(socket), cause))
}

/// Limits the socket to `bytes_per_second` (`SO_MAX_PACING_RATE`) and returns the effective limit.
/// TCP paces by itself; UDP needs the `fq` queueing discipline on the interface.
///
/// # Errors
/// If the kernel refuses.
pub fn set_pacing_rate(socket: &impl AsFd, bytes_per_second: u64) -> Result<u64> {
    let error = |cause| SysError::new("set SO_MAX_PACING_RATE of", describe(socket), cause);
    raw::set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_second)
        .map_err(error)?;
    raw::get::<u64>(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE).map_err(error)
}

/// Makes `socket` readable only when `bytes` have arrived or the stream has ended (SO_RCVLOWAT).
/// Returns the bytes in force: the kernel grants half of the receive buffer at most.
///
/// # Errors
/// If the kernel refuses.
pub fn set_least_readable(socket: &impl AsFd, bytes: usize) -> Result<u32> {
    let error = |cause| SysError::new("set SO_RCVLOWAT of", "a socket", cause);
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    raw::set_int(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes).map_err(error)?;
    let granted = raw::get_int(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT).map_err(error)?;
    Ok(u32::try_from(granted).unwrap_or(0))
}

fn is_ipv6(socket: &impl AsFd) -> Result<bool> {
    raw::get_int(socket, libc::SOL_SOCKET, libc::SO_DOMAIN)
        .map(|domain| domain == libc::AF_INET6)
        .map_err(|cause| SysError::new("read address family of", describe(socket), cause))
}

/// Returns the name of a socket for errors: its local address, or its descriptor if it has none.
pub(crate) fn describe(socket: &impl AsFd) -> String {
    let address = SockRef::from(socket).local_addr().ok().and_then(|address| address.as_socket());
    address.map_or_else(
        || format!("socket (descriptor {})", socket.as_fd().as_raw_fd()),
        |address| format!("socket {address}"),
    )
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Socket, Type};

    use super::*;

    fn tcp(domain: Domain) -> Socket {
        Socket::new(domain, Type::STREAM, None).expect("a tcp socket")
    }

    #[test]
    fn a_granted_buffer_reads_as_its_double() {
        let socket = tcp(Domain::IPV4);
        for direction in [Buffer::Send, Buffer::Receive] {
            let granted =
                set_buffer(&socket, direction, 65_536).expect("64 KiB are within any limit");
            assert_eq!(granted, 131_072);
            assert_eq!(buffer(&socket, direction).expect("a socket"), 131_072);
        }
    }

    #[test]
    fn what_arrived_and_was_not_read_is_held() {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        assert_eq!(held(&receiver).expect("a socket"), 0);
        for _ in 0..3 {
            sender
                .send_to(&[7; 1_000], receiver.local_addr().expect("bound"))
                .expect("loopback accepts it");
        }
        let three = held(&receiver).expect("a socket");
        assert!((3_000..30_000).contains(&three), "{three}");
        let mut datagram = [0; 1_000];
        (0..3)
            .for_each(|_| assert_eq!(receiver.recv(&mut datagram).expect("it has arrived"), 1_000));
        assert_eq!(held(&receiver).expect("a socket"), 0);
    }

    #[test]
    fn code_points_read_back_for_both_families() {
        for domain in [Domain::IPV4, Domain::IPV6] {
            let socket = tcp(domain);
            assert_eq!(dscp(&socket).expect("an IP socket"), 0);
            // EF, RFC 3246.
            assert_eq!(set_dscp(&socket, 46).expect("any code point may be set"), 46);
        }
    }

    #[test]
    fn a_pacing_rate_reads_back() {
        assert_eq!(
            set_pacing_rate(&tcp(Domain::IPV4), 12_500_000).expect("no privilege is needed"),
            12_500_000
        );
    }

    #[test]
    fn an_interface_that_does_not_exist_is_named() {
        let error = bind_device(&tcp(Domain::IPV4), "lr-nowhere0").expect_err("no such interface");
        assert!(error.to_string().contains("lr-nowhere0"), "{error}");
    }
}
