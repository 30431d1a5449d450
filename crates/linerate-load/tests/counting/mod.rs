//! Allocator that counts. An allocator is an unsafe trait, so this is the only place outside of
//! `linerate-sys` with `unsafe`: it proves that a step does not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// True if this thread's calls are counted.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

static CALLS: AtomicU64 = AtomicU64::new(0);
/// Bytes that all threads have allocated now, and the peak since [`forget_peak`].
static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged. Counting neither allocates
// nor unwinds.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        grown(layout.size());
        // SAFETY: the caller's promise about `layout` is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        shrunk(layout.size());
        // SAFETY: the caller's promise about `pointer` and `layout` is handed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        grown(size);
        shrunk(layout.size());
        // SAFETY: the caller's promise about its arguments is handed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    if COUNTED.try_with(Cell::get).unwrap_or(false) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
}

fn grown(bytes: usize) {
    let live = LIVE.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

fn shrunk(bytes: usize) {
    LIVE.fetch_sub(bytes as u64, Ordering::Relaxed);
}

/// Waits until no other test counts: the counters belong to the process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Resets the peak and returns the bytes that this process has allocated now.
pub(crate) fn forget_peak() -> u64 {
    let live = LIVE.load(Ordering::Relaxed);
    PEAK.store(live, Ordering::Relaxed);
    live
}

/// Returns the largest number of allocated bytes since the last [`forget_peak`].
pub(crate) fn peak() -> u64 {
    PEAK.load(Ordering::Relaxed)
}

/// Switches the counting of this thread's allocations and frees on or off.
pub(crate) fn watch(is_watched: bool) {
    COUNTED.set(is_watched);
}

/// Returns the number of allocations and frees counted in this process so far.
pub(crate) fn calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}
