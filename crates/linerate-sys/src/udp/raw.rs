//! Message arrays for `sendmmsg(2)` and `recvmmsg(2)`, allocated once and reused for every call.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// Room for ancillary data: `UDP_GRO` (an int), `SO_RXQ_OVFL` (a u32), `SO_TIMESTAMPNS` (a
/// timespec) and the traffic class (an int at most), each with its header.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

const CONTROL_BYTES: usize = 128;
// SAFETY: `CMSG_SPACE` is arithmetic on its argument.
const _: () = assert!(
    unsafe {
        4 * libc::CMSG_SPACE(size_of::<u32>() as u32)
            + libc::CMSG_SPACE(size_of::<libc::timespec>() as u32)
    } as usize
        <= CONTROL_BYTES
);

/// Ancillary data of one received message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ancillary {
    /// Segment size of a coalesced message.
    pub(super) segment: Option<i32>,
    /// The socket's drop counter when this message was queued.
    pub(super) drops: Option<u32>,
    /// Arrival time on the wall clock.
    pub(super) stamp: Option<libc::timespec>,
    /// Traffic class of the IP header: code point and ECN field.
    pub(super) class: Option<u8>,
    /// Time to live, or hop limit, of the IP header.
    pub(super) hops: Option<u8>,
}

/// Heap slice that is accessed only through its pointer, so that kernel structures may point into
/// it while the owner moves.
struct Slab<T>(NonNull<[T]>);

impl<T> Slab<T> {
    fn new(values: Vec<T>) -> Self {
        Self(NonNull::from(Box::leak(values.into_boxed_slice())))
    }

    fn at(&self, idx: usize) -> *mut T {
        assert!(idx < self.0.len(), "message {idx} of {}", self.0.len());
        // SAFETY: `idx` is within the slice, which lives until `self` is dropped.
        unsafe { self.0.as_ptr().cast::<T>().add(idx) }
    }
}

impl<T> Drop for Slab<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::leak` in `new` and is given back exactly once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// `n` messages of up to `message_bytes` each, side by side in one buffer.
pub(super) struct Messages {
    headers: Slab<libc::mmsghdr>,
    // `headers` points to them; this field keeps them alive.
    iovecs: Slab<libc::iovec>,
    control: Slab<Control>,
    buffer: Slab<u8>,
    message_bytes: usize,
}

// SAFETY: `Messages` owns everything its pointers lead to and hands out references only through
// `&self`/`&mut self`.
unsafe impl Send for Messages {}

impl Messages {
    pub(super) fn new(n: usize, message_bytes: usize) -> Self {
        assert!(n > 0 && message_bytes > 0, "a batch holds at least one byte");
        let buffer = Slab::new(vec![0_u8; n * message_bytes]);
        let control = Slab::new(vec![Control([0; CONTROL_BYTES]); n]);
        let iovecs = Slab::new(
            (0..n)
                .map(|idx| libc::iovec {
                    iov_base: buffer.at(idx * message_bytes).cast(),
                    iov_len: message_bytes,
                })
                .collect(),
        );
        let headers = Slab::new(
            (0..n)
                .map(|idx| {
                    // SAFETY: all zeroes is a valid `mmsghdr`: null pointers and lengths of zero.
                    let mut header: libc::mmsghdr = unsafe { zeroed() };
                    header.msg_hdr.msg_iov = iovecs.at(idx);
                    header.msg_hdr.msg_iovlen = 1;
                    header
                })
                .collect(),
        );
        Self { headers, iovecs, control, buffer, message_bytes }
    }

    pub(super) fn n(&self) -> usize {
        self.headers.0.len()
    }

    pub(super) fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// Returns the buffer of message `idx`.
    pub(super) fn bytes(&self, idx: usize) -> &[u8] {
        assert!(idx < self.n(), "message {idx} of {}", self.n());
        // SAFETY: the range lies within `buffer`, its bytes are initialized, and `&self` excludes a
        // writer.
        unsafe {
            std::slice::from_raw_parts(self.buffer.at(idx * self.message_bytes), self.message_bytes)
        }
    }

    /// Returns the writable buffer of message `idx`.
    pub(super) fn bytes_mut(&mut self, idx: usize) -> &mut [u8] {
        assert!(idx < self.n(), "message {idx} of {}", self.n());
        // SAFETY: as in `bytes`; `&mut self` excludes every other reference.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.buffer.at(idx * self.message_bytes),
                self.message_bytes,
            )
        }
    }

    /// Sets how many bytes of message `idx` are sent.
    pub(super) fn set_length(&mut self, idx: usize, length: usize) {
        assert!(length <= self.message_bytes, "{length} of {} bytes", self.message_bytes);
        // SAFETY: `at` checked the index; `&mut self` excludes every other reference.
        unsafe { (*self.iovecs.at(idx)).iov_len = length };
    }

    /// Provides room for ancillary data in message `idx` before a receive.
    pub(super) fn accept_control(&mut self, idx: usize) {
        let header = self.headers.at(idx);
        // SAFETY: `at` checked the index; the control block lives as long as the header that points
        // to it.
        unsafe {
            (*header).msg_hdr.msg_control = self.control.at(idx).cast();
            (*header).msg_hdr.msg_controllen = CONTROL_BYTES as _;
        }
    }

    /// Returns the number of bytes that the kernel sent or received as message `idx`.
    pub(super) fn transferred(&self, idx: usize) -> usize {
        // SAFETY: `at` checked the index; the header is initialized.
        unsafe { (*self.headers.at(idx)).msg_len as usize }
    }

    /// Sends messages `first .. first + n`; returns how many the kernel accepted.
    pub(super) fn send(
        &mut self,
        socket: &impl AsFd,
        first: usize,
        n: usize,
        flags: i32,
    ) -> io::Result<usize> {
        assert!(n > 0 && first + n <= self.n(), "messages {first}+{n} of {}", self.n());
        // SAFETY: `first .. first + n` are initialized headers whose pointers lead into slabs owned
        // by `self`; the kernel reads the payload and writes only `msg_len`.
        let sent = unsafe {
            libc::sendmmsg(socket.as_fd().as_raw_fd(), self.headers.at(first), n as u32, flags as _)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives into the first `n` messages; returns how many the kernel filled.
    pub(super) fn receive(
        &mut self,
        socket: &impl AsFd,
        n: usize,
        flags: i32,
    ) -> io::Result<usize> {
        assert!(n > 0 && n <= self.n(), "{n} of {} messages", self.n());
        // SAFETY: the headers are initialized and point into slabs owned by `self` with the true
        // lengths; `&mut self` excludes every reader while the kernel writes. No timeout is passed.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                self.headers.at(0),
                n as u32,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Returns the ancillary data of received message `idx`.
    pub(super) fn ancillary(&self, idx: usize) -> Ancillary {
        let mut ancillary = Ancillary::default();
        // SAFETY: the header is initialized; after a receive its control pointer and length
        // describe control messages the kernel wrote into our control block (or are null and zero),
        // so the CMSG walk stays within it. Values are read unaligned, and only if the message says
        // it holds as many bytes.
        unsafe {
            let header = &raw const (*self.headers.at(idx)).msg_hdr;
            let mut control = libc::CMSG_FIRSTHDR(header);
            while let Some(message) = control.as_ref() {
                // IPv4 gives one byte, and IPv6 an int.
                let data = libc::CMSG_DATA(control);
                if message.cmsg_len > libc::CMSG_LEN(0) as usize
                    && (message.cmsg_level, message.cmsg_type) == (libc::IPPROTO_IP, libc::IP_TOS)
                {
                    ancillary.class = Some(data.read());
                }
                if message.cmsg_len >= libc::CMSG_LEN(size_of::<u32>() as u32) as usize {
                    let value = libc::CMSG_DATA(control).cast::<u32>().read_unaligned();
                    match (message.cmsg_level, message.cmsg_type) {
                        (libc::SOL_UDP, super::UDP_GRO) => {
                            ancillary.segment = Some(value.cast_signed())
                        }
                        (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => ancillary.drops = Some(value),
                        (libc::IPPROTO_IP, libc::IP_TTL)
                        | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                            ancillary.hops = Some(value as u8);
                        }
                        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                            ancillary.class = Some(value as u8);
                        }
                        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
                            if message.cmsg_len
                                >= libc::CMSG_LEN(size_of::<libc::timespec>() as u32) as usize =>
                        {
                            let stamp = libc::CMSG_DATA(control).cast::<libc::timespec>();
                            ancillary.stamp = Some(stamp.read_unaligned());
                        }
                        _ => {}
                    }
                }
                control = libc::CMSG_NXTHDR(header, control);
            }
        }
        ancillary
    }
}
