//! Watch over a device that loads may write to: it repeats the gate's checks once a second, and at
//! once when somebody mounts a filesystem or enables swap. The first new reason against writing
//! revokes the permission.
//!
//! The exclusive open keeps others away from the device itself. It does not keep away another
//! device with the same bytes: a loop device over the same file, or another path to the same disk.
//! A check reads the kernel's lists of devices, and nothing from the device.
//!
//! A permission requires a watch. If the watching thread panics, the permission ends too.

use std::fmt;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::gate::{self, Refusal};

/// Time between two checks without an event: a load ends within 2 s of a new use. A check takes
/// about 9 ms of a CPU (41 block devices, 170 processes), so with twice as many devices it takes 2
/// % of a CPU.
const PERIOD: Duration = Duration::from_secs(1);
/// Shortest time between two checks, however many mounts happen.
const LEAST_PERIOD: Duration = Duration::from_millis(100);
/// Files whose changes poll reports (proc_pid_mountinfo(5); for swap, `mm/swapfile.c`).
const CHANGE_FILES: [&str; 2] = ["/proc/self/mountinfo", "/proc/swaps"];

/// Watch that ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    watched: Arc<Watched>,
    thread: Thread,
}

/// Check that returns every reason against writing.
type Look = Box<dyn Fn() -> Vec<Refusal> + Send + Sync>;

struct Watched {
    look: Look,
    is_over: AtomicBool,
    is_revoked: AtomicBool,
    refusals: Mutex<Vec<Refusal>>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_over, is_revoked, refusals, .. } = self;
        f.debug_struct("Watched")
            .field("is_over", is_over)
            .field("is_revoked", is_revoked)
            .field("refusals", refusals)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Watches the device `number` with this serial number.
    pub(crate) fn start(number: (u32, u32), serial: Option<String>) -> std::io::Result<Self> {
        Self::by(PERIOD, Box::new(move || gate::changes(number, serial.as_deref())))
    }

    /// Runs `look` at least every `period`.
    fn by(period: Duration, look: Look) -> std::io::Result<Self> {
        let (is_over, is_revoked) = (AtomicBool::new(false), AtomicBool::new(false));
        let watched = Arc::new(Watched { look, is_over, is_revoked, refusals: Mutex::default() });
        let seen = Arc::clone(&watched);
        // Opened here: of a file opened later, by a thread that starts late, poll does not report
        // the changes before.
        let change_files: Vec<File> =
            CHANGE_FILES.iter().filter_map(|path| File::open(path).ok()).collect();
        let thread = thread::Builder::new()
            .name("disk watch".into())
            .spawn(move || seen.run(&change_files, period))?;
        Ok(Self { watched, thread: thread.thread().clone() })
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.watched.is_revoked.load(Ordering::Relaxed)
    }

    /// Checks now, and returns every reason against writing.
    pub(crate) fn look(&self) -> Vec<Refusal> {
        self.watched.look();
        self.refusals()
    }

    /// Returns the reasons found so far.
    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        self.watched.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watched.is_over.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

impl Watched {
    fn run(&self, change_files: &[File], period: Duration) {
        let _unwatched = Unwatched(self);
        while !self.is_over.load(Ordering::Relaxed) && !self.is_revoked.load(Ordering::Relaxed) {
            // A spurious wake-up only makes the next check earlier. First a pause, then the wait
            // for an event: a host that mounts all the time must not make this thread use a CPU.
            thread::park_timeout(period.min(LEAST_PERIOD));
            until_change(change_files, period.saturating_sub(LEAST_PERIOD));
            if !self.is_over.load(Ordering::Relaxed) {
                self.look();
            }
        }
    }

    fn look(&self) {
        self.revoke((self.look)());
    }

    /// Ends the permission if there are `reasons` and it has not ended yet.
    fn revoke(&self, reasons: Vec<Refusal>) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        // The first reason stays, because the load's incident quotes it.
        if !reasons.is_empty() && refusals.is_empty() {
            *refusals = reasons;
            // Release: a load that sees the flag must also see the reasons.
            self.is_revoked.store(true, Ordering::Release);
        }
    }
}

/// Waits until one of the files changes, or for `most`.
fn until_change(change_files: &[File], most: Duration) {
    let mut polled: Vec<PollFd<'_>> =
        change_files.iter().map(|file| PollFd::new(file, PollFlags::PRI)).collect();
    // `most` is at most a second. If it cannot be converted, the next check is earlier.
    let most = Timespec::try_from(most).ok();
    let _looked_early = poll(&mut polled, most.as_ref());
}

/// Ends the permission when the watching thread ends before the watch is over, for whatever cause.
struct Unwatched<'a>(&'a Watched);

impl Drop for Unwatched<'_> {
    fn drop(&mut self) {
        if !self.0.is_over.load(Ordering::Relaxed) {
            let cause = "its watch has failed (a defect of linerate)".to_owned();
            self.0.revoke(vec![Refusal::Unreadable { cause }]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::atomic::AtomicU32;
    use std::time::Instant;

    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(30), "{what}");
            thread::sleep(SHORT);
        }
    }

    #[test]
    fn a_watch_that_fails_ends_the_permission() {
        let looks = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&looks);
        let look = move || -> Vec<Refusal> {
            assert!(counted.fetch_add(1, Ordering::Relaxed) < 3, "this look fails");
            Vec::new()
        };
        let watch = Watch::by(SHORT, Box::new(look)).expect("a thread");
        until("the permission goes on", || watch.is_revoked());
        assert_eq!(looks.load(Ordering::Relaxed), 4, "three looks found nothing");
        assert!(
            watch.refusals()[0].to_string().contains("its watch has failed"),
            "{:?}",
            watch.refusals()
        );
    }

    /// Without a mount the next check would run after an hour.
    #[test]
    fn a_mount_is_checked_when_it_is_made() {
        struct Unmounted(tempfile::TempDir);
        impl Drop for Unmounted {
            fn drop(&mut self) {
                let _ = Command::new("umount").arg(self.0.path()).status();
            }
        }
        let place = tempfile::tempdir().expect("a folder");
        let at = place.path().to_owned();
        let look = move || {
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("it is there");
            let is_mounted = mounts.contains(&format!(" {} ", at.display()));
            if is_mounted {
                vec![Refusal::Unreadable { cause: "mounted".into() }]
            } else {
                Vec::new()
            }
        };
        let watch = Watch::by(Duration::from_secs(3_600), Box::new(look)).expect("a thread");
        let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(place.path()).output();
        if !mount.is_ok_and(|mount| mount.status.success()) {
            return println!("skipped: a mount is checked when it is made: needs root");
        }
        let _unmounted = Unmounted(place);
        until("nobody looked", || watch.is_revoked());
    }

    #[test]
    fn the_first_reason_remains_and_a_finished_watch_revokes_nothing() {
        let reason = |cause: &str| Refusal::Unreadable { cause: cause.into() };
        let looks = AtomicU32::new(0);
        let watch = Watch::by(
            SHORT,
            Box::new(move || vec![reason(&looks.fetch_add(1, Ordering::Relaxed).to_string())]),
        );
        let watch = watch.expect("a thread");
        until("no reason", || watch.is_revoked());
        assert_eq!(watch.look(), [reason("0")]);
        let watch = Watch::by(SHORT, Box::new(Vec::new)).expect("a thread");
        let watched = Arc::clone(&watch.watched);
        drop(watch);
        until("the thread goes on", || Arc::strong_count(&watched) == 1);
        assert!(!watched.is_revoked.load(Ordering::Relaxed));
    }
}
