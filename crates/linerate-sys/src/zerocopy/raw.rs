//! `send` with `MSG_ZEROCOPY`, and the error queue its completions arrive on.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};

use super::Completions;

/// `SO_EE_ORIGIN_ZEROCOPY`, Linux `include/uapi/linux/errqueue.h`.
const ORIGIN_ZEROCOPY: u8 = 5;
/// `SO_EE_CODE_ZEROCOPY_COPIED`, likewise.
const CODE_COPIED: u8 = 1;
/// Room for one `sock_extended_err` with its offender's address (IPv6) and header.
const CONTROL_BYTES: usize = 128;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

pub(super) fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` is live for the call. Afterwards the kernel holds references to its pages,
    // not to the address: they outlive an unmapping, and it only reads them.
    let answer = unsafe {
        libc::send(socket.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags)
    };
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// Returns the next message of the error queue: the number of sends that it completes, or none if
/// it is about something else.
pub(super) fn completion(socket: &impl AsFd) -> Option<Completions> {
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: all zeroes is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: `header` and the control buffer it points to are live and writable for the call.
    if unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut header, flags) } < 0 {
        return None;
    }
    // SAFETY: `header` was filled by recvmsg and its control buffer is still live.
    let first = unsafe { libc::CMSG_FIRSTHDR(&header) };
    if first.is_null() {
        return Some(Completions::default());
    }
    // SAFETY: CMSG_FIRSTHDR returns a pointer to a whole header within the control buffer.
    let length = unsafe { (*first).cmsg_len } as usize;
    // SAFETY: `CMSG_LEN` is arithmetic on its argument.
    if length < unsafe { libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32) } as usize {
        return Some(Completions::default());
    }
    // SAFETY: the message is long enough for the structure; it may be unaligned.
    let error: libc::sock_extended_err =
        unsafe { libc::CMSG_DATA(first).cast::<libc::sock_extended_err>().read_unaligned() };
    if error.ee_origin != ORIGIN_ZEROCOPY {
        return Some(Completions::default());
    }
    // An inclusive range of send numbers, in 32 bits that wrap.
    let completed = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
    let copied = if error.ee_code & CODE_COPIED != 0 { completed } else { 0 };
    Some(Completions { completed, copied })
}
