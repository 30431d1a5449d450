//! Packet sockets (`AF_PACKET`): whole Ethernet frames, in and out of one interface.
//!
//! What they do not do: fill in checksums that the sender left to its device. Whoever forwards frames between virtual
//! interfaces must switch transmit checksum offload off at the sending ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::SysError;

mod raw {
    #![allow(unsafe_code)]

    use std::io;
    use std::mem::size_of;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    /// All protocols, in network byte order as `socket` and `bind` want it.
    const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();
    /// `setsockopt` option since Linux 4.20: frames this host sends are not delivered to us.
    const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

    pub(super) fn open(ifindex: u32) -> io::Result<OwnedFd> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointer is passed; the result is checked before it is used.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, i32::from(ALL_PROTOCOLS)) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened by us and is owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let on: libc::c_int = 1;
        // SAFETY: the pointer and length describe `on`, which outlives the call.
        let set = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_IGNORE_OUTGOING,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: ALL_PROTOCOLS,
            sll_ifindex: ifindex as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the pointer and length describe `address`, which outlives the call.
        let bound = unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
        };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(fd) }
    }

    /// Frames the kernel dropped at this socket since the last call.
    pub(super) fn drops(fd: &OwnedFd) -> io::Result<u32> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the pointers describe `statistics` and `length`, which outlive the call; the kernel writes at most `length`.
        let got = unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(statistics.tp_drops) }
    }
}

/// Receive buffer asked for: what arrives in tens of milliseconds at a gigabit.
const RECEIVE_BUFFER: usize = 4 << 20;

/// A packet socket bound to one interface of the calling thread's network namespace. It never blocks.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    device: String,
}

impl PacketSocket {
    /// Opens a socket on the interface called `device`.
    ///
    /// # Errors
    /// If there is no such interface, or CAP_NET_RAW is missing.
    pub fn open(device: &str) -> Result<Self, SysError> {
        let failed = |cause: io::Error| SysError::new("open packet socket on", device, cause);
        let any = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
            .map_err(|error| failed(error.into()))?;
        let ifindex = rustix::net::netdevice::name_to_index(&any, device).map_err(|error| failed(error.into()))?;
        let fd = raw::open(ifindex).map_err(failed)?;
        // A smaller buffer than asked for shows as drops, which are counted.
        let _granted = rustix::net::sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BUFFER)
            .or_else(|_| rustix::net::sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BUFFER));
        Ok(Self { fd, device: device.to_owned() })
    }

    /// Receives one frame into `buffer`; `None` if there is none.
    ///
    /// # Errors
    /// If the interface went away.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, SysError> {
        match rustix::net::recv(&self.fd, buffer, rustix::net::RecvFlags::empty()) {
            Ok((length, _)) => Ok(Some(length)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::NETDOWN) => Ok(None),
            Err(error) => Err(SysError::new("receive frame on", &*self.device, error)),
        }
    }

    /// Sends one frame; `false` if the interface has no room for it now.
    ///
    /// # Errors
    /// If the interface went away.
    pub fn send(&self, frame: &[u8]) -> Result<bool, SysError> {
        match rustix::net::send(&self.fd, frame, rustix::net::SendFlags::empty()) {
            Ok(_) => Ok(true),
            Err(
                rustix::io::Errno::AGAIN
                | rustix::io::Errno::NOBUFS
                | rustix::io::Errno::INTR
                | rustix::io::Errno::NETDOWN,
            ) => Ok(false),
            Err(error) => Err(SysError::new("send frame on", &*self.device, error)),
        }
    }

    /// Frames the kernel dropped at this socket since the last call.
    ///
    /// # Errors
    /// If the socket is broken.
    pub fn drops(&self) -> Result<u32, SysError> {
        raw::drops(&self.fd).map_err(|cause| SysError::new("read packet statistics of", &*self.device, cause))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits until one of `sockets` has a frame, or `timeout_ns` has passed.
///
/// # Errors
/// If the kernel refuses to wait.
pub fn wait(sockets: [&PacketSocket; 2], timeout_ns: u64) -> Result<(), SysError> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    const NANOS_PER_SECOND: u64 = 1_000_000_000;
    let mut fds = sockets.map(|socket| PollFd::new(socket, PollFlags::IN));
    let timeout =
        Timespec { tv_sec: (timeout_ns / NANOS_PER_SECOND) as i64, tv_nsec: (timeout_ns % NANOS_PER_SECOND) as i64 };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(SysError::new("wait for frames on", &*sockets[0].device, error)),
    }
}
