//! Packet sockets (`AF_PACKET`): whole Ethernet frames in and out of one interface. One frame per
//! call ([`PacketSocket`]), many frames per call ([`FrameSender`]), and rings shared with the
//! kernel ([`FrameRing`] to receive, [`SendRing`] to send).
//!
//! Packet sockets do not fill in checksums that the sender left to its device. A program that
//! forwards frames between virtual interfaces must switch off transmit checksum offload at the
//! sending ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::privilege::or_helper;
use crate::{Result, SysError, clock};

mod block;
mod filter;
#[cfg(test)]
mod marked;
mod ring;
mod send_ring;
mod sender;

pub use block::RingFrame;
pub use filter::{Accept, Filter, Share, deafen};
pub use ring::{FrameRing, RingShape, RingStatistics};
pub use send_ring::{RingSent, SendRing, Stopped};
pub use sender::{FrameSender, QueueingDiscipline};

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Frames of every EtherType.
const EVERY_TYPE: u16 = libc::ETH_P_ALL as u16;

mod raw {
    #![allow(unsafe_code)]

    use std::io;
    use std::mem::size_of;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    /// `setsockopt` option since Linux 4.20: the socket does not receive frames that this host
    /// sends.
    const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

    /// Opens a socket that receives nothing until it is bound, and never receives frames of this
    /// host.
    pub(super) fn open_unbound() -> io::Result<OwnedFd> {
        // SAFETY: no pointer is passed; the result is checked before it is used.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
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
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(fd) }
    }

    /// Binds `fd` to one interface, for sending and receiving. With protocol zero it receives
    /// nothing.
    pub(super) fn bind(fd: &OwnedFd, ifindex: u32, protocol: u16) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: ifindex as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the pointer and length describe `address`, which outlives the call.
        let bound = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Makes the kernel record each frame's arrival time and the VLAN tag that it removed.
    pub(super) fn note_arrivals(fd: &OwnedFd) -> io::Result<()> {
        let on: libc::c_int = 1;
        for (level, option) in
            [(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), (libc::SOL_PACKET, libc::PACKET_AUXDATA)]
        {
            // SAFETY: the pointer and length describe `on`, which outlives the call.
            let set = unsafe {
                libc::setsockopt(
                    fd.as_raw_fd(),
                    level,
                    option,
                    (&raw const on).cast(),
                    size_of::<libc::c_int>() as libc::socklen_t,
                )
            };
            if set < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Metadata of a received frame.
    #[derive(Default)]
    pub(super) struct Arrival {
        /// Arrival time on the wall clock.
        pub(super) stamp: Option<libc::timespec>,
        /// Type and content of the VLAN tag that the kernel removed.
        pub(super) tag: Option<[u16; 2]>,
    }

    /// Receives a frame and its metadata.
    pub(super) fn receive_noted(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Arrival)> {
        /// Room for two control messages: a time, and auxiliary data.
        const CONTROL_WORDS: usize = 12;
        let mut control = [0_u64; CONTROL_WORDS];
        let mut slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all-zero bytes are a valid `msghdr` (null pointers, zero lengths).
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut slice;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: `message` points to `slice`, `buffer` and `control`, which outlive the call and
        // are writable for the lengths given.
        let length = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) };
        if length < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut arrival = Arrival::default();
        // SAFETY: the kernel filled `message.msg_control` with well-formed headers up to
        // `msg_controllen`, which CMSG_FIRSTHDR and CMSG_NXTHDR respect; a time stamp and auxiliary
        // data are identified by their type and read unaligned.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while !header.is_null() {
                match ((*header).cmsg_level, (*header).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        arrival.stamp =
                            Some(libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned());
                    }
                    (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                        let about = libc::CMSG_DATA(header)
                            .cast::<libc::tpacket_auxdata>()
                            .read_unaligned();
                        let tagged = about.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
                        arrival.tag = tagged.then_some([about.tp_vlan_tpid, about.tp_vlan_tci]);
                    }
                    _ => {}
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        Ok((length as usize, arrival))
    }

    /// Returns the number of frames that the kernel dropped at this socket since the last call.
    pub(super) fn drops(fd: &OwnedFd) -> io::Result<u32> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the pointers describe `statistics` and `length`, which outlive the call; the
        // kernel writes at most `length`.
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

/// Opens an unbound packet socket, which receives nothing, for frames of `device` with this
/// EtherType.
fn open_unbound(device: &str, ethertype: u16) -> io::Result<OwnedFd> {
    or_helper(raw::open_unbound(), |helper| helper.packet_socket(device, ethertype))
}

/// Does the same with the privileges of this process, for a helper of another process.
///
/// # Errors
/// Without CAP_NET_RAW.
pub fn unbound_socket() -> io::Result<OwnedFd> {
    raw::open_unbound()
}

/// Position of a VLAN tag in a frame (IEEE 802.1Q clause 9).
const TAG_AT: usize = 12;
const TAG_LENGTH: usize = 4;
/// Requested receive buffer: the data of tens of milliseconds at 1 Gbit/s.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Packet socket bound to one interface of the calling thread's network namespace. It never blocks.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    device: String,
}

impl PacketSocket {
    /// Opens a socket on the interface `device`.
    ///
    /// # Errors
    /// If the interface does not exist, or CAP_NET_RAW is missing.
    pub fn open(device: &str) -> Result<Self> {
        Self::open_for(device, EVERY_TYPE)
    }

    /// Opens a socket that receives frames of one EtherType only.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_for(device: &str, ethertype: u16) -> Result<Self> {
        let failed = |cause: io::Error| SysError::new("open packet socket on", device, cause);
        let ifindex = index_of(device).map_err(failed)?;
        let fd = open_unbound(device, ethertype).map_err(failed)?;
        rustix::io::ioctl_fionbio(&fd, true).map_err(|cause| failed(cause.into()))?;
        raw::bind(&fd, ifindex, ethertype).map_err(failed)?;
        // A buffer that is smaller than requested causes drops, and drops are counted.
        let _granted = rustix::net::sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BUFFER)
            .or_else(|_| rustix::net::sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BUFFER));
        raw::note_arrivals(&fd).map_err(failed)?;
        Ok(Self { fd, device: device.to_owned() })
    }

    /// Receives one frame into `buffer`. Returns its length and its arrival time at the interface,
    /// on the monotonic clock in nanoseconds. A VLAN tag is at its place on the wire. `None` if
    /// there is no frame.
    ///
    /// # Errors
    /// If the interface went away.
    pub fn receive_stamped(&self, buffer: &mut [u8]) -> Result<Option<(usize, u64)>> {
        use std::io::ErrorKind::{Interrupted, NetworkDown, WouldBlock};
        let room = buffer.len().saturating_sub(TAG_LENGTH);
        let (mut length, arrival) = match raw::receive_noted(&self.fd, &mut buffer[..room]) {
            Ok(received) => received,
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted | NetworkDown) => {
                return Ok(None);
            }
            Err(error) => return Err(SysError::new("receive frame on", &*self.device, error)),
        };
        // The kernel uses the wall clock. The age of the frame is the same on every clock.
        let age = arrival.stamp.map_or(0, |stamp| {
            let stamp = stamp.tv_sec as u64 * NANOS_PER_SECOND + stamp.tv_nsec as u64;
            clock::realtime().saturating_sub(stamp)
        });
        if let Some([kind, content]) = arrival.tag.filter(|_| length >= TAG_AT) {
            buffer.copy_within(TAG_AT..length, TAG_AT + TAG_LENGTH);
            buffer[TAG_AT..TAG_AT + 2].copy_from_slice(&kind.to_be_bytes());
            buffer[TAG_AT + 2..TAG_AT + TAG_LENGTH].copy_from_slice(&content.to_be_bytes());
            length += TAG_LENGTH;
        }
        Ok(Some((length, clock::monotonic().saturating_sub(age))))
    }

    /// Receives one frame into `buffer`; `None` if there is no frame.
    ///
    /// # Errors
    /// If the interface went away.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        match rustix::net::recv(&self.fd, buffer, rustix::net::RecvFlags::empty()) {
            Ok((length, _)) => Ok(Some(length)),
            Err(
                rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::NETDOWN,
            ) => Ok(None),
            Err(error) => Err(SysError::new("receive frame on", &*self.device, error)),
        }
    }

    /// Sends one frame; returns false if the interface has no room for it now.
    ///
    /// # Errors
    /// If the interface went away.
    pub fn send(&self, frame: &[u8]) -> Result<bool> {
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

    /// Returns the number of frames that the kernel dropped at this socket since the last call.
    ///
    /// # Errors
    /// If the socket is broken.
    pub fn drops(&self) -> Result<u32> {
        raw::drops(&self.fd)
            .map_err(|cause| SysError::new("read packet statistics of", &*self.device, cause))
    }
}

/// Returns the index of the interface `device` in the calling thread's network namespace.
///
/// # Errors
/// If the interface does not exist.
pub fn interface_index(device: &str) -> Result<u32> {
    index_of(device).map_err(|cause| SysError::new("look up interface", device, cause))
}

/// Returns the name of the interface with `index`.
///
/// # Errors
/// If there is no such interface.
pub fn interface_name(index: u32) -> Result<String> {
    let named =
        any_socket().and_then(|any| Ok(rustix::net::netdevice::index_to_name(&any, index)?));
    named.map_err(|cause| SysError::new("look up interface number", index.to_string(), cause))
}

fn any_socket() -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketType, socket};
    Ok(socket(AddressFamily::INET, SocketType::DGRAM, None)?)
}

fn index_of(device: &str) -> io::Result<u32> {
    Ok(rustix::net::netdevice::name_to_index(any_socket()?, device)?)
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
pub fn wait<const N: usize>(sockets: [&PacketSocket; N], timeout_ns: u64) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = sockets.map(|socket| PollFd::new(socket, PollFlags::IN));
    let timeout = Timespec {
        tv_sec: (timeout_ns / NANOS_PER_SECOND) as i64,
        tv_nsec: (timeout_ns % NANOS_PER_SECOND) as i64,
    };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => {
            let devices = sockets.map(|socket| &*socket.device).join(", ");
            Err(SysError::new("wait for frames on", devices, error))
        }
    }
}
