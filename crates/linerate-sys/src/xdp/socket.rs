//! AF_XDP sockets: frames of one queue of an interface, sent from and received into memory shared
//! with the kernel.
//!
//! Nothing is allocated after opening. Sent frames are counted as the kernel returns them: those
//! that it accepted, less those that it then dropped because the device had no room. Arrival is not
//! visible here.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::device::ready;
use super::raw::{Descriptor, Ring};
use super::ring::{Draining, Filling};
use super::umem::{Cut, Umem};
use crate::packet::interface_index;
use crate::privilege::or_helper;
use crate::{Result, SysError, clock};

/// Copying of frames between the device's memory and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// Always copies: works with every driver.
    Copy,
    /// Never copies; otherwise the socket is not opened.
    ZeroCopy,
    /// Copies only if the driver requires it.
    IfNeeded,
}

/// Options of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Queue of the interface.
    pub queue: u32,
    /// Copying of frames.
    pub copying: Copying,
    /// Longest frame, from the Ethernet header on, without frame check sequence.
    pub frame_bytes: u32,
    /// Frames that may be under way to the device, a power of two; 0 to send none.
    pub n_transmit: u32,
    /// Frames that may wait to be read, a power of two; 0 to receive none.
    pub n_receive: u32,
}

/// Received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// First buffer: the whole frame, unless it is a jumbo frame.
    pub visible: &'a [u8],
    /// Length of the frame.
    pub bytes: u32,
}

/// Fate of the frames sent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Passed to the kernel.
    pub handed: u64,
    /// Frames that the kernel returned, sent or dropped.
    pub completed: u64,
    /// Frames that the kernel reported as dropped for lack of room (in copy mode; a driver has its
    /// own counter).
    pub dropped: u64,
}

/// Kernel counters of a socket (`XDP_STATISTICS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames dropped because none of our memory was free, because they were too long for it, or
    /// for other reasons.
    pub receive_dropped: u64,
    /// Frames dropped because the receive ring was full; not counted before Linux 5.9.
    pub receive_ring_full: u64,
    /// Invalid descriptors that we sent.
    pub transmit_invalid: u64,
}

/// AF_XDP socket bound to one queue.
#[derive(Debug)]
pub struct XdpSocket {
    fd: OwnedFd,
    device: String,
    queue: u32,
    zero_copy: bool,
    umem: Umem,
    transmit: Option<(Ring<Descriptor>, Filling)>,
    receive: Option<(Ring<Descriptor>, Draining)>,
    fill: (Ring<u64>, Filling),
    completion: (Ring<u64>, Draining),
    sent: Sent,
    /// Sequence numbers of the frames that the last calls dropped, from 0; has room for as many as
    /// one call can drop.
    dropped: Vec<u64>,
}

/// `XDP_PKT_CONTD` of linux/if_xdp.h.
const CONTINUED: u32 = 1;
/// Frames that the kernel takes from the ring per call in copy mode (`XDP_MAX_TX_SKB_BUDGET`, since
/// Linux 6.17; 32 before).
const TRANSMIT_BUDGET: u32 = 256;
/// Calls after which a kernel that accepts nothing is left alone for now.
const MOST_KICKS: usize = 256;
/// Time that the kernel needs to release a closed socket's queue.
const RELEASE_NS: u64 = 300_000_000;
const RETRY_NS: u64 = 2_000_000;
/// Ring size that the kernel demands even of a socket that only sends or only receives.
const LEAST_RING: u32 = 64;

/// Opens an unbound AF_XDP socket with the privileges of this process, for a helper of another
/// process.
///
/// # Errors
/// Without CAP_NET_RAW.
pub fn unbound_socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?)
}

impl XdpSocket {
    /// Opens a socket on a queue of `device`, in the calling thread's network namespace. It
    /// receives nothing before a [`super::Filter`] directs frames to it.
    ///
    /// # Errors
    /// If the socket is for sending and the interface is down or cannot carry such frames. If the
    /// queue does not exist or already has a socket, the driver requires copying, memory cannot be
    /// locked, or CAP_NET_RAW is missing.
    ///
    /// # Panics
    /// If a number of frames is neither zero nor a power of two.
    pub fn open(device: &str, options: Options) -> Result<Self> {
        let error = |cause: io::Error| refused(device, options, cause);
        let ifindex = interface_index(device)?;
        if options.n_transmit > 0 {
            ready(device, options.frame_bytes)?;
        }
        let cut = Cut::new(options.frame_bytes, options.n_transmit, options.n_receive);
        let several = cut.several_buffers(options.frame_bytes);
        let umem = Umem::new(cut).map_err(error)?;
        let fd =
            or_helper(unbound_socket(), |helper| helper.xdp_socket(device)).map_err(|cause| {
                SysError::new("open XDP socket (needs CAP_NET_RAW or root) on", device, cause)
            })?;
        let n_pieces = (options.n_transmit * cut.chunks_per_slot).next_power_of_two();
        let n_completions = n_pieces.max(LEAST_RING);
        // Twice the number of chunks: the kernel reports a frame as received a moment before it
        // reports its chunk as taken (`xsk_flush`), so a chunk returns while its old slot still
        // looks occupied.
        let n_fill = (2 * options.n_receive).max(LEAST_RING);
        register(&fd, &umem, n_fill, n_completions).map_err(error)?;
        if options.n_transmit > 0 {
            sockopt::set_xdp_tx_ring_size(&fd, n_pieces).map_err(|e| error(e.into()))?;
            // Older kernels send 32 frames per call, and need more calls.
            let _older: io::Result<()> = crate::socket::raw::set(
                &fd,
                libc::SOL_XDP,
                XDP_MAX_TX_SKB_BUDGET,
                &TRANSMIT_BUDGET,
            );
        }
        if options.n_receive > 0 {
            sockopt::set_xdp_rx_ring_size(&fd, options.n_receive).map_err(|e| error(e.into()))?;
        }
        let offsets = sockopt::xdp_mmap_offsets(&fd).map_err(|e| error(e.into()))?;
        let (transmit, receive) = (options.n_transmit > 0, options.n_receive > 0);
        let transmit = transmit.then(|| {
            Ring::map(&fd, XDP_PGOFF_TX_RING, offsets.tx, n_pieces)
                .map(|ring| (ring, Filling::new(n_pieces)))
        });
        let receive = receive.then(|| {
            let n = options.n_receive;
            Ring::map(&fd, XDP_PGOFF_RX_RING, offsets.rx, n).map(|ring| (ring, Draining::new(n)))
        });
        let fill = Ring::map(&fd, XDP_UMEM_PGOFF_FILL_RING, offsets.fr, n_fill).map_err(error)?;
        let completion = Ring::map(&fd, XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, n_completions)
            .map_err(error)?;
        let mut socket = Self {
            device: device.to_owned(),
            queue: options.queue,
            zero_copy: false,
            umem,
            transmit: transmit.transpose().map_err(error)?,
            receive: receive.transpose().map_err(error)?,
            fill: (fill, Filling::new(n_fill)),
            completion: (completion, Draining::new(n_completions)),
            sent: Sent::default(),
            dropped: Vec::with_capacity(MOST_KICKS),
            fd,
        };
        socket.offer_memory();
        bind(&socket.fd, ifindex, options, several).map_err(error)?;
        let granted = sockopt::xdp_options(&socket.fd).map_err(|e| error(e.into()))?;
        socket.zero_copy = granted.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        Ok(socket)
    }

    /// Returns the queue to which it is bound.
    #[must_use]
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Returns true if frames are not copied.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Returns the number of slots; `prepare` and `send` number them from 0.
    #[must_use]
    pub fn n_slots(&self) -> u32 {
        self.umem.cut().n_slots
    }

    /// Calls `write` for every slot before the first frame is sent. Later calls only need to write
    /// what changes.
    ///
    /// # Panics
    /// If frames are under way.
    pub fn prepare(&mut self, mut write: impl FnMut(u32, &mut [u8])) {
        assert_eq!(
            self.umem.n_free(),
            self.n_slots(),
            "slots must be prepared before the first frame"
        );
        for slot in 0..self.n_slots() {
            write(slot, self.umem.slot_mut(slot));
        }
    }

    /// Sends up to `wanted` frames. For each, `write` receives the slot's number and its old bytes
    /// and returns the frame's length. Returns how many were passed to the kernel; fewer than
    /// `wanted` if no slot was free.
    ///
    /// # Errors
    /// If the interface is down or gone.
    ///
    /// # Panics
    /// If a frame is longer than its slot, or the socket was opened for receiving only.
    #[inline]
    pub fn send(
        &mut self,
        wanted: u32,
        mut write: impl FnMut(u32, &mut [u8]) -> usize,
    ) -> io::Result<u32> {
        self.reap();
        let pieces_each = self.umem.cut().chunks_per_slot;
        let (ring, filling) = self.transmit.as_mut().expect("a socket opened for sending");
        let pieces = filling.room(wanted.min(self.umem.n_free()) * pieces_each, || ring.drained());
        let n = pieces / pieces_each;
        let mut at = 0;
        for _ in 0..n {
            let slot = self.umem.take().expect("no more than are free");
            let bytes = write(slot, self.umem.slot_mut(slot));
            assert!(bytes <= self.umem.slot_bytes() as usize, "a frame of {bytes} bytes in a slot");
            at += post(
                ring,
                filling,
                at,
                self.umem.slot_address(slot),
                bytes as u32,
                self.umem.cut().chunk_bytes,
            );
        }
        if at > 0 {
            ring.publish_filled(filling.advance(at));
            self.sent.handed += u64::from(n);
        }
        self.kick()?;
        Ok(n)
    }

    /// Returns the fate of the frames sent so far.
    pub fn sent(&mut self) -> Sent {
        self.reap();
        self.sent
    }

    /// Returns the number of frames that the kernel has not yet taken from the ring.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        let pieces =
            self.transmit.as_ref().map_or(0, |(ring, filling)| filling.pending(ring.drained()));
        pieces.div_ceil(self.umem.cut().chunks_per_slot)
    }

    /// Returns the sequence numbers, from 0 over all frames ever sent, of those that the last
    /// [`Self::send`] or [`Self::flush`] found dropped for lack of room.
    #[must_use]
    pub fn dropped(&self) -> &[u64] {
        &self.dropped
    }

    /// Makes the kernel take the remaining frames, and collects those that it has returned.
    ///
    /// # Errors
    /// If the interface is down or gone.
    pub fn flush(&mut self) -> io::Result<Sent> {
        self.kick()?;
        Ok(self.sent())
    }

    /// Receives up to `most` frames, passes each to `take`, and returns their number. Never waits.
    ///
    /// # Panics
    /// If the socket was opened for sending only.
    #[inline]
    pub fn receive(&mut self, most: u32, mut take: impl FnMut(Received<'_>)) -> u32 {
        let (ring, draining) = self.receive.as_mut().expect("a socket opened for receiving");
        let n_pieces = draining.available(most, || ring.filled());
        let (mut n_frames, mut whole, mut first) = (0, 0, None);
        let mut bytes = 0;
        let (fill, filling) = &mut self.fill;
        let mut returned = 0;
        for k in 0..n_pieces {
            let piece = ring.get(draining.slot(k));
            let head: Descriptor = *first.get_or_insert(piece);
            bytes += piece.bytes;
            if piece.options & CONTINUED != 0 {
                continue;
            }
            take(Received { visible: self.umem.received(head.address, head.bytes), bytes });
            // A frame whose end has not arrived yet stays in the ring.
            for back in whole..=k {
                let address = ring.get(draining.slot(back)).address;
                fill.set(filling.slot(returned), self.umem.chunk_of(address));
                returned += 1;
            }
            (n_frames, whole, first, bytes) = (n_frames + 1, k + 1, None, 0);
        }
        if whole > 0 {
            ring.publish_drained(draining.advance(whole));
            // The ring has twice as many slots as there are chunks, so the chunks in our hands
            // always fit.
            let room = filling.room(returned, || fill.drained());
            debug_assert_eq!(room, returned);
            fill.publish_filled(filling.advance(returned));
            if fill.needs_wakeup() {
                self.wake_receiver();
            }
        }
        n_frames
    }

    /// Waits for a frame, at most for `timeout_ns`.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn wait(&self, timeout_ns: u64) -> Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        const NANOS_PER_SECOND: u64 = 1_000_000_000;
        let timeout = Timespec {
            tv_sec: (timeout_ns / NANOS_PER_SECOND) as i64,
            tv_nsec: (timeout_ns % NANOS_PER_SECOND) as i64,
        };
        match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(cause) => Err(SysError::new("wait for frames on", &*self.device, cause)),
        }
    }

    /// Returns the kernel's counters.
    ///
    /// # Errors
    /// If the socket is broken.
    pub fn statistics(&self) -> Result<Statistics> {
        let told = sockopt::xdp_statistics(&self.fd)
            .map_err(|cause| SysError::new("read XDP statistics of", &*self.device, cause))?;
        Ok(Statistics {
            receive_dropped: told.rx_dropped,
            receive_ring_full: told.rx_ring_full.unwrap_or(0),
            transmit_invalid: told.tx_invalid_descs,
        })
    }

    /// Takes back slots whose frames the kernel has finished.
    #[inline]
    fn reap(&mut self) {
        let (ring, draining) = &mut self.completion;
        let n = draining.available(u32::MAX, || ring.filled());
        for k in 0..n {
            let before = self.umem.n_free();
            self.umem.give_back(ring.get(draining.slot(k)));
            self.sent.completed += u64::from(self.umem.n_free() - before);
        }
        if n > 0 {
            ring.publish_drained(draining.advance(n));
        }
    }

    /// Makes the kernel take the contents of the transmit ring, as far as it has room.
    fn kick(&mut self) -> io::Result<()> {
        self.dropped.clear();
        let Some((ring, filling)) = &self.transmit else { return Ok(()) };
        let mut pending = filling.pending(ring.drained());
        for _ in 0..MOST_KICKS {
            if pending == 0 || (self.zero_copy && !ring.needs_wakeup()) {
                break;
            }
            match rustix::net::send(&self.fd, &[], SendFlags::DONTWAIT) {
                // The last frame taken was dropped: the device's queue or the peer is full.
                Err(Errno::BUSY) => {
                    pending = filling.pending(ring.drained());
                    let left = u64::from(pending.div_ceil(self.umem.cut().chunks_per_slot));
                    self.sent.dropped += 1;
                    self.dropped.push((self.sent.handed - left).saturating_sub(1));
                }
                Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {
                    let before = std::mem::replace(&mut pending, filling.pending(ring.drained()));
                    if before == pending {
                        break;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Gives the kernel every receive chunk.
    fn offer_memory(&mut self) {
        let (ring, filling) = &mut self.fill;
        let mut n = 0;
        for chunk in self.umem.receive_chunks() {
            ring.set(filling.slot(n), chunk);
            n += 1;
        }
        ring.publish_filled(filling.advance(n));
    }

    fn wake_receiver(&self) {
        // The result does not matter: frames arrive or they do not.
        let _ = rustix::net::recv(&self.fd, &mut [0_u8; 0], RecvFlags::DONTWAIT);
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `setsockopt` option of SOL_XDP, linux/if_xdp.h.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// Writes the descriptors of one frame, from the `at`-th entry on; returns their number.
#[inline]
fn post(
    ring: &mut Ring<Descriptor>,
    filling: &Filling,
    at: u32,
    mut address: u64,
    mut bytes: u32,
    chunk_bytes: u32,
) -> u32 {
    let mut n = 0;
    loop {
        let piece = bytes.min(chunk_bytes);
        bytes -= piece;
        let options = if bytes > 0 { CONTINUED } else { 0 };
        ring.set(filling.slot(at + n), Descriptor { address, bytes: piece, options });
        n += 1;
        if bytes == 0 {
            return n;
        }
        address += u64::from(chunk_bytes);
    }
}

fn register(fd: &OwnedFd, umem: &Umem, n_fill: u32, n_completions: u32) -> io::Result<()> {
    sockopt::set_xdp_umem_reg(
        fd,
        XdpUmemReg {
            addr: umem.address(),
            len: umem.bytes() as u64,
            chunk_size: umem.cut().chunk_bytes,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        },
    )?;
    sockopt::set_xdp_umem_fill_ring_size(fd, n_fill)?;
    Ok(sockopt::set_xdp_umem_completion_ring_size(fd, n_completions)?)
}

fn bind(fd: &OwnedFd, ifindex: u32, options: Options, several_buffers: bool) -> io::Result<()> {
    let mut flags = match options.copying {
        Copying::Copy => SocketAddrXdpFlags::XDP_COPY,
        Copying::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
        Copying::IfNeeded => SocketAddrXdpFlags::empty(),
    };
    flags |= SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    if several_buffers {
        flags |= SocketAddrXdpFlags::XDP_USE_SG;
    }
    let until = clock::monotonic() + RELEASE_NS;
    loop {
        match rustix::net::bind(fd, &SocketAddrXdp::new(flags, ifindex, options.queue)) {
            Err(Errno::BUSY) if clock::monotonic() < until => {
                clock::sleep_until(clock::monotonic() + RETRY_NS, 0)
            }
            result => return Ok(result?),
        }
    }
}

fn refused(device: &str, options: Options, cause: io::Error) -> SysError {
    let remedy = match cause.raw_os_error() {
        Some(libc::EBUSY) => {
            "another XDP socket uses the queue, see `ss --xdp`: stop that program or use another \
                queue"
        }
        Some(libc::EOPNOTSUPP) if options.copying == Copying::ZeroCopy => {
            "the driver requires copying: use copy mode"
        }
        Some(libc::EOPNOTSUPP) => {
            "the driver or this kernel does not support this mode of AF_XDP; frames in several \
                buffers need Linux 6.6"
        }
        Some(libc::EINVAL) => "does the queue exist? see `ethtool --show-channels`",
        Some(libc::ENETDOWN) => "the interface is down: `ip link set NAME up`",
        Some(libc::EPERM) => "needs CAP_NET_RAW, or root",
        Some(libc::ENOBUFS | libc::ENOMEM) => {
            "memory cannot be locked: raise `ulimit -l`, or grant CAP_IPC_LOCK"
        }
        _ => "the kernel gave no other reason",
    };
    SysError::new(
        "open XDP socket on",
        format!("queue {} of {device} ({remedy})", options.queue),
        cause,
    )
}
