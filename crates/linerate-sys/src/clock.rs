//! Monotonic clock, wall clock and CPU time of a thread, in nanoseconds; waiting until a deadline.
//!
//! The first two are read through the vDSO, without a system call. The monotonic clock starts at
//! this host's boot and has no meaning on another host. It does not count time in which the machine
//! was suspended. Steps of the wall clock are not detected.

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

mod raw {
    #![allow(unsafe_code)]

    /// Returns the state of the wall clock, negative for an error, and what its adjustment is.
    pub(super) fn adjustment() -> (i32, libc::timex) {
        // SAFETY: all zeroes is a valid `timex`; without modes the call changes nothing, and fills
        // it.
        unsafe {
            let mut clock: libc::timex = std::mem::zeroed();
            (libc::adjtimex(&raw mut clock), clock)
        }
    }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Returns nanoseconds on `CLOCK_MONOTONIC`, the clock for durations and for everything inside a
/// trial.
///
/// # Examples
/// ```
/// use linerate_sys::clock::{monotonic, sleep_until};
///
/// let deadline = monotonic() + 1_000_000;
/// // Sleeps until 50 us before the deadline, then reads the clock in a loop.
/// sleep_until(deadline, 50_000);
/// assert!(monotonic() >= deadline);
/// ```
#[inline]
#[must_use]
pub fn monotonic() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Returns nanoseconds since the Unix epoch on `CLOCK_REALTIME`. The clock can be stepped, so use
/// it for dates only.
#[must_use]
pub fn realtime() -> u64 {
    nanos(clock_gettime(ClockId::Realtime))
}

/// Bounds of the error of the wall clock, set in the kernel by the program that adjusts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockError {
    /// True if the clock follows an external source.
    pub is_synchronized: bool,
    /// Largest error, ns.
    pub most_ns: u64,
}

/// Returns the error of `CLOCK_REALTIME` (`adjtimex`); `None` if the kernel does not say.
#[must_use]
pub fn realtime_error() -> Option<ClockError> {
    const NANOS_PER_MICRO: u64 = 1_000;
    let (state, clock) = raw::adjustment();
    let most_us = u64::try_from(clock.maxerror).ok().filter(|_| state >= 0)?;
    let is_synchronized = state != libc::TIME_ERROR && clock.status & libc::STA_UNSYNC == 0;
    Some(ClockError { is_synchronized, most_ns: most_us.saturating_mul(NANOS_PER_MICRO) })
}

/// Returns the CPU time of the calling thread with a resolution of 1 ns (a system call).
/// [`crate::cpu::ThreadUsage`] splits the time into user and system time, in steps of a scheduler
/// tick.
#[must_use]
pub fn thread_cpu() -> u64 {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// Returns 24 bytes that identify this monotonic clock: the kernel's boot and the time namespace.
/// `None` if `/proc` cannot be read.
#[must_use]
pub fn identity() -> Option<[u8; 24]> {
    use std::os::unix::fs::MetadataExt;
    const BOOT: &str = "/proc/sys/kernel/random/boot_id";
    const TIME: &str = "/proc/thread-self/ns/time";
    let boot = std::fs::read_to_string(BOOT).ok()?;
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16).ok()?;
    // Before Linux 5.6 there are no time namespaces, so all processes share one clock.
    let time = std::fs::metadata(TIME).map_or(0, |found| found.ino());
    let mut identity = [0; 24];
    identity[..16].copy_from_slice(&boot.to_be_bytes());
    identity[16..].copy_from_slice(&time.to_be_bytes());
    Some(identity)
}

/// Returns [`identity`] in hexadecimal, as host facts contain it.
#[must_use]
pub fn identity_text() -> Option<String> {
    use std::fmt::Write;
    let identity = identity()?;
    Some(identity.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Sleeps until `deadline_ns` on the monotonic clock; returns at once if the deadline has passed.
/// Spins for the last `spin_ns`: a sleeping thread wakes tens of microseconds late (timer slack,
/// scheduler), a spinning thread within one clock read.
pub fn sleep_until(deadline_ns: u64, spin_ns: u64) {
    let asleep_until = deadline_ns.saturating_sub(spin_ns);
    while monotonic() < asleep_until {
        // A signal interrupts the sleep. The deadline is absolute, so a second sleep is exact.
        let _: Result<(), _> =
            clock_nanosleep_absolute(ClockId::Monotonic, &timespec(asleep_until));
    }
    while monotonic() < deadline_ns {
        std::hint::spin_loop();
    }
}

#[inline]
fn nanos(at: Timespec) -> u64 {
    // Neither clock is before its epoch, so both parts are non-negative.
    at.tv_sec as u64 * NANOS_PER_SECOND + at.tv_nsec as u64
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / NANOS_PER_SECOND) as i64, tv_nsec: (ns % NANOS_PER_SECOND) as _ }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_of_the_error_of_the_wall_clock_is_read() {
        // Containers may be forbidden to ask; where the answer comes, it is a bound.
        if let Some(error) = realtime_error() {
            assert!(error.most_ns > 0, "{error:?}");
        }
    }

    #[test]
    fn cpu_time_has_a_finer_resolution_than_a_tick() {
        let began = monotonic();
        let before = thread_cpu();
        while monotonic() < began + 100_000 {}
        let used = thread_cpu() - before;
        assert!((1..=monotonic() - began).contains(&used), "{used} ns");
    }

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let mut last = monotonic();
        for _ in 0..10_000 {
            let now = monotonic();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_sleep_never_ends_before_its_deadline_and_a_past_one_returns_at_once() {
        for spin_ns in [0, 200_000] {
            let deadline = monotonic() + 1_000_000;
            sleep_until(deadline, spin_ns);
            assert!(monotonic() >= deadline);
        }
        let before = monotonic();
        sleep_until(before - 1, 1_000_000_000);
        sleep_until(0, 0);
        assert!(monotonic() - before < 1_000_000_000);
    }

    #[test]
    fn every_thread_of_a_boot_has_the_same_clock() {
        let here = identity().expect("Linux has a boot id");
        assert_ne!(here[..16], [0; 16]);
        assert_eq!(std::thread::spawn(identity).join().expect("no panic"), Some(here));
    }

    #[test]
    fn the_wall_clock_agrees_with_the_standard_library() {
        let std = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
            .as_nanos();
        assert!(u128::from(realtime()).abs_diff(std) < 1_000_000_000);
    }
}
