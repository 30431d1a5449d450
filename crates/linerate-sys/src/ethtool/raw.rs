//! SIOCETHTOOL, and the guarded buffer that takes its answers.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Buffer for answers without a length limit: whole pages, followed by a page without access.
/// The kernel decides how much it writes: a driver may have added statistics since the size was
/// queried. The guard page turns a long answer into EFAULT instead of an overflow.
#[derive(Debug)]
pub(super) struct Buffer {
    start: NonNull<u8>,
    usable: usize,
    mapped: usize,
}

// SAFETY: the mapping is owned by this value alone and is plain memory; no thread affinity.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(super) fn new(size: usize) -> Result<Self, io::Error> {
        let page = rustix::param::page_size();
        let usable = size.max(1).next_multiple_of(page);
        let mapped = usable + page;
        // SAFETY: a fresh private anonymous mapping at an address of the kernel's choice
        // aliases nothing.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let start =
            NonNull::new(start.cast::<u8>()).expect("mmap never returns null without MAP_FIXED");
        let buffer = Self { start, usable, mapped };
        // SAFETY: the last page of the mapping just made; no reference to it exists nor ever
        // will (`bytes` ends before).
        unsafe { mprotect(start.as_ptr().add(usable).cast(), page, MprotectFlags::empty())? };
        Ok(buffer)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `start..start + usable` is mapped readable and zero-initialised for the life
        // of `self`; the kernel writes to it only within `ethtool`, which borrows the buffer
        // mutably.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.usable) }
    }

    pub(super) fn word(&self, idx: usize) -> u32 {
        let bytes = &self.bytes()[idx * 4..idx * 4 + 4];
        u32::from_ne_bytes(bytes.try_into().expect("a slice of four"))
    }

    pub(super) fn set_word(&mut self, idx: usize, value: u32) {
        // SAFETY: as `bytes`, and `&mut self` makes the access exclusive.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.usable) };
        bytes[idx * 4..idx * 4 + 4].copy_from_slice(&value.to_ne_bytes());
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; nothing borrows it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

/// Calls SIOCETHTOOL with the command in `buffer`, which receives the answer.
pub(super) fn ethtool(
    socket: &UdpSocket,
    device: &str,
    buffer: &mut Buffer,
) -> Result<(), io::Error> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let mut name = [0; libc::IFNAMSIZ];
    if device.is_empty() || device.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in name.iter_mut().zip(device.bytes()) {
        *to = from.cast_signed() as libc::c_char;
    }
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: buffer.start.as_ptr().cast() },
    };
    // SAFETY: `request` is a live ifreq with a terminated name; its data pointer is the start
    // of a mapping that is writable up to a guard page, so whatever length the kernel copies
    // stays inside it or fails.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
