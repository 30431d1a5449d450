//! Thread that detects stops of the whole process: it only sleeps, and notices if it is woken late.
//!
//! A worker that waits for a disk does not run either, and that is not a stall of the tester. A
//! thread that waits for nothing but the clock shows if something stopped the whole process
//! meanwhile (a signal, a debugger, the hypervisor). It runs only if a worker may wait for a disk,
//! because it wakes a CPU every [`PERIOD`]. A stop of a single worker's thread is not detected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use linerate_model::Nanos;
use linerate_sys::clock;

/// Length of one sleep.
const PERIOD: Nanos = Nanos::from_millis(4);
/// Lateness that cannot be explained by another thread's time slice on the same CPU
/// (`sched_base_slice`, 3 ms).
const LATE: Nanos = Nanos::from_millis(20);

/// Clock that stops while the process is stopped.
#[derive(Clone, Debug)]
pub(super) struct Stopped {
    /// The monotonic clock less the times of all stops, at its last update.
    ran_until: Arc<AtomicU64>,
}

impl Stopped {
    /// Creates a clock that has run without a stop until `now`.
    pub(super) fn new(now: Nanos) -> Self {
        // The clock starts at the present, so that nothing before it counts as a stop.
        Self { ran_until: Arc::new(AtomicU64::new(now.0)) }
    }

    /// Returns how far it is behind the monotonic clock at `now`: the sum of all stops, and up to
    /// [`LATE`] more.
    #[inline]
    pub(super) fn behind(&self, now: Nanos) -> Nanos {
        now.since(Nanos(self.ran_until.load(Ordering::Relaxed)))
    }

    /// Records that the lookout slept from `from` until `until`.
    pub(super) fn slept(&self, from: Nanos, until: Nanos) {
        let length = until.since(from);
        // A stop began at an unknown time within the sleep, so the intended length of the sleep is
        // not part of it.
        // Between PERIOD and LATE the sleep was probably only late, so all of it counts as running.
        let ran = if length > LATE { PERIOD } else { length };
        self.ran_until.fetch_add(ran.0, Ordering::Relaxed);
    }
}

/// Handle of the thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Lookout {
    end: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Lookout {
    /// Starts the thread and returns its clock.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start() -> std::io::Result<(Self, Stopped)> {
        let mut from = Nanos(clock::monotonic());
        let (stopped, end) = (Stopped::new(from), Arc::new(AtomicBool::new(false)));
        let (clock, ended) = (stopped.clone(), Arc::clone(&end));
        let handle = std::thread::Builder::new().name("lr-lookout".into()).spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                // Sleeps from the last wake-up on: a late wake-up must not shorten the next sleep,
                // or one stop would be seen twice.
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
            // The thread's code cannot panic.
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
