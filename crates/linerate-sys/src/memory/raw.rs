//! `mmap` and `munmap`.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Granularity of mappings: the page size of every supported architecture is this or a multiple of
/// it.
pub(super) const PAGE_BYTES: usize = 4096;

/// Mapping that is unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is reached only through `&self`
// and `&mut self`.
unsafe impl Send for Mapping {}
// SAFETY: `&self` only reads.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps private, zeroed, readable and writable memory.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Self> {
        let bytes = whole_pages(bytes)?;
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let start = unsafe {
            mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        let mapping = Self::owned(start.cast(), bytes);
        // SAFETY: the range is exactly the mapping just made. The advice does not change its
        // contents. A kernel without huge pages refuses the advice, which does no harm.
        let _: Result<(), _> = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
        Ok(mapping)
    }

    /// Maps a window of `socket` into which the kernel maps received pages. Reading an unmapped
    /// part faults, so there is no safe accessor.
    pub(crate) fn receive_window(socket: &impl AsFd, bytes: usize) -> io::Result<Self> {
        let bytes = whole_pages(bytes)?;
        // SAFETY: the kernel chooses an address where nothing is mapped; no reference into it is
        // ever made.
        let start =
            unsafe { mmap(null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, socket, 0) }?;
        Ok(Self::owned(start.cast(), bytes))
    }

    /// Maps memory that the kernel also reads and writes, `offset` bytes into the object behind
    /// `file`. Access is by single indices or words through [`Mapping::word`] and
    /// [`Mapping::start`], never as a slice.
    pub(crate) fn shared(file: &impl AsFd, bytes: usize, offset: u64) -> io::Result<Self> {
        let bytes = whole_pages(bytes)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let start = unsafe {
            mmap(null_mut(), bytes, protection, MapFlags::SHARED | MapFlags::POPULATE, file, offset)
        }?;
        Ok(Self::owned(start.cast(), bytes))
    }

    /// Returns the start of a mapping of [`Mapping::shared`], for the rings of AF_XDP.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the `idx`-th 64-bit word of a mapping of [`Mapping::shared`].
    pub(crate) fn word(&self, idx: usize) -> &AtomicU64 {
        assert!(
            idx < self.bytes / size_of::<AtomicU64>(),
            "word {idx} of a mapping of {} bytes",
            self.bytes
        );
        // SAFETY: the word lies inside the mapping, which is aligned to a page, lives as long as
        // `self` and is written to only as whole words: by this process through atomics, by
        // programs in the kernel through aligned 64-bit stores.
        unsafe { self.start.cast::<AtomicU64>().add(idx).as_ref() }
    }

    fn owned(start: *mut u8, bytes: usize) -> Self {
        Self {
            start: NonNull::new(start)
                .expect("a successful mmap without a hint never maps address zero"),
            bytes,
        }
    }

    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Only for anonymous mappings: see [`Mapping::receive_window`].
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `Region`, the only caller, holds an anonymous mapping: `bytes` readable,
        // initialized (zeroed by the kernel) bytes that live as long as `self`; `&self` excludes a
        // writer.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Only for anonymous mappings: see [`Mapping::receive_window`].
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` excludes every other reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one `mmap` returned, it is unmapped once, and references into it
        // borrow `self`.
        let _: Result<(), _> = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn whole_pages(bytes: usize) -> io::Result<usize> {
    bytes.checked_next_multiple_of(PAGE_BYTES).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
