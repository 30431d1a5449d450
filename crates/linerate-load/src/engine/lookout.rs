//! A thread that only sleeps and notices when it was not woken in time: whether this process stood
//! still.
//!
//! A worker that waits for a disk does not run either, and that is no stall of the tester. Whether
//! something stopped the whole process (a signal, a debugger, the hypervisor) meanwhile is known by
//! a thread that waits for nothing but the clock. It runs only where a worker may wait for a disk,
//! because it wakes a CPU every [`PERIOD`]. What it does not see: a stop of one worker's thread
//! alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use linerate_model::Nanos;
use linerate_sys::clock;

/// How long it sleeps at a time.
const PERIOD: Nanos = Nanos::from_millis(4);
/// Woken so late, it was not merely waiting for a CPU that another thread had for a slice
/// (`sched_base_slice`, 3 ms).
const LATE: Nanos = Nanos::from_millis(20);

/// A clock that stands while the process does.
#[derive(Clone, Debug)]
pub(super) struct Stopped {
    /// The monotonic clock without the times in which the process stood, as of the last time that
    /// it was looked at.
    ran_until: Arc<AtomicU64>,
}

impl Stopped {
    /// A clock that has run without a stop until `now`.
    pub(super) fn new(now: Nanos) -> Self {
        Self { ran_until: Arc::new(AtomicU64::new(now.0)) }
    }

    /// By how much it is behind the monotonic clock at `now`: the sum of all stops, and up to
    /// [`LATE`] more.
    #[inline]
    pub(super) fn behind(&self, now: Nanos) -> Nanos {
        now.since(Nanos(self.ran_until.load(Ordering::Relaxed)))
    }

    /// The lookout slept from `from` and woke at `until`.
    pub(super) fn slept(&self, from: Nanos, until: Nanos) {
        let length = until.since(from);
        // A stop began anywhere in the sleep: what the sleep was to take is not part of it.
        let ran = if length > LATE { PERIOD } else { length };
        self.ran_until.fetch_add(ran.0, Ordering::Relaxed);
    }
}

/// The thread. Dropping it ends and joins it.
#[derive(Debug)]
pub(super) struct Lookout {
    end: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Lookout {
    /// Starts it; what it sees is in the clock.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start() -> std::io::Result<(Self, Stopped)> {
        let mut from = Nanos(clock::monotonic());
        let (stopped, end) = (Stopped::new(from), Arc::new(AtomicBool::new(false)));
        let (clock, ended) = (stopped.clone(), Arc::clone(&end));
        let handle = std::thread::Builder::new().name("lr-lookout".into()).spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                clock::sleep_until((from + PERIOD).0, 0);
                let until = Nanos(clock::monotonic());
                clock.slept(from, until);
                from = until;
            }
        })?;
        Ok((Self { end, handle: Some(handle) }, stopped))
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(handle) = self.handle.take() {
            // It has nothing to panic about.
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_wake_up_is_a_stop_and_a_slice_of_another_thread_is_none() {
        let (ms, start) = (Nanos::from_millis, Nanos::from_millis(1_000));
        let stopped = Stopped::new(start);
        let mut at = start;
        for length in [4, 4, 9, 4, 19] {
            stopped.slept(at, at + ms(length));
            at = at + ms(length);
        }
        assert_eq!(stopped.behind(at), Nanos(0), "late, but only for a slice");
        assert_eq!(
            stopped.behind(at + ms(50)),
            ms(50),
            "a stop is known before the lookout has woken"
        );
        stopped.slept(at, at + ms(50));
        assert_eq!(stopped.behind(at + ms(50)), ms(50 - 4));
        stopped.slept(at + ms(50), at + ms(54));
        assert_eq!(stopped.behind(at + ms(54)), ms(50 - 4), "it stays");
    }

    #[test]
    fn a_lookout_keeps_its_clock_running_and_ends() {
        let (lookout, stopped) = Lookout::start().expect("a thread");
        let first = stopped.ran_until.load(Ordering::Relaxed);
        while stopped.ran_until.load(Ordering::Relaxed) == first {
            std::thread::yield_now();
        }
        drop(lookout);
    }
}
