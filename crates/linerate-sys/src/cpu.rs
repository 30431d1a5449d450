//! Pinning of threads, CPU time of a thread, its waits for a CPU, the CPUs that this process may
//! use, and CPUs kept awake.
//!
//! Times come from `getrusage(RUSAGE_THREAD)`. Their sum is exact. The split into user and system
//! time is an estimate from timer ticks unless the kernel has full accounting. Softirq work for
//! this thread's packets is not included if it runs on another CPU or in another thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::privilege::or_helper;
use crate::{Result, SysError};

mod awake;
#[allow(unsafe_code)]
mod raw;

pub use awake::{Awake, awake_request};

/// CPU time and context switches that the kernel accounted to one thread since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUsage {
    /// CPU time in user space, ns.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
    /// Times that the thread gave up its CPU.
    pub voluntary_switches: u64,
    /// Times that the scheduler took the CPU away.
    pub involuntary_switches: u64,
}

impl ThreadUsage {
    /// Returns the calling thread's usage.
    #[must_use]
    pub fn of_this_thread() -> Self {
        raw::thread_usage()
    }

    /// Returns the change since `earlier`. The kernel may correct the split between user and system
    /// time by a little; a part that decreased counts as unchanged.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
        }
    }
}

/// Time that one thread was ready to run while another thread ran (`/proc/TID/schedstat`, second
/// field; Linux `Documentation/scheduler/sched-stats.rst`). A wait that has not ended yet is not
/// included. Time taken by the hypervisor or by interrupts is not included either.
#[derive(Debug)]
pub struct RunQueueWait {
    schedstat: File,
}

impl RunQueueWait {
    /// Returns the waits of the calling thread. Opens a file; later readings neither allocate nor
    /// wait.
    ///
    /// # Errors
    /// If there is no `/proc`, or the kernel does not account waits. It needs `CONFIG_SCHED_INFO`,
    /// and `delayacct` on its command line if `CONFIG_SCHEDSTATS` is off.
    pub fn of_this_thread() -> Result<Self> {
        const PATH: &str = "/proc/thread-self/schedstat";
        let schedstat = File::open(PATH).map_err(|cause| SysError::new("open", PATH, cause))?;
        let wait = Self { schedstat };
        match wait.nanos() {
            Some(_) => Ok(wait),
            None => Err(SysError::new("read", PATH, std::io::ErrorKind::Unsupported)),
        }
    }

    /// Returns nanoseconds since the thread's creation; `None` if the kernel does not count them.
    #[must_use]
    pub fn nanos(&self) -> Option<u64> {
        // Three numbers of at most 20 digits, two spaces and a line feed.
        let mut text = [0; 63];
        let length = self.schedstat.read_at(&mut text, 0).ok()?;
        let mut fields = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace();
        let (waited, runs) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse::<u64>().ok()?);
        // The calling thread has run at least once. A kernel that reports zero runs has the counter
        // but does not maintain it.
        (runs > 0).then_some(waited)
    }
}

/// Returns the CPUs that the calling thread may run on, ascending.
///
/// # Errors
/// If the kernel refuses the request.
///
/// # Examples
/// ```
/// let cpus = linerate_sys::cpu::allowed()?;
/// assert!(!cpus.is_empty(), "this thread runs on at least one CPU");
/// # Ok::<(), linerate_sys::SysError>(())
/// ```
pub fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None)
        .map_err(|cause| SysError::new("read affinity of", "this thread", cause))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Pins the calling thread to `cpu`.
///
/// # Errors
/// If the CPU does not exist, is offline, or lies outside this process's cpuset.
pub fn pin(cpu: usize) -> Result<()> {
    let object = || format!("cpu {cpu}");
    if cpu >= CpuSet::MAX_CPU {
        return Err(SysError::new(
            "pin this thread to",
            object(),
            std::io::ErrorKind::InvalidInput,
        ));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
        .map_err(|cause| SysError::new("pin this thread to", object(), cause))
}

/// Gives the calling thread the lowest real-time priority (`SCHED_FIFO`, sched(7)), so that it runs
/// before all ordinary threads as soon as it wakes. The kernel reserves 5 % of each CPU for other
/// threads (`sched_rt_runtime_us`, or fair servers).
///
/// # Errors
/// If the kernel refuses (needs `CAP_SYS_NICE`).
pub fn run_first() -> Result<()> {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    or_helper(raw::set_first_in_first_out(thread, 1), |helper| helper.run_first(thread))
        .map_err(|cause| SysError::new("give a real-time priority to", "this thread", cause))
}

/// Does the same as [`run_first`] for a thread of another process, with the privileges of this
/// process.
///
/// # Errors
/// If the kernel refuses, or the process has no such thread.
pub fn let_run_first(process: i32, thread: i32) -> io::Result<()> {
    if !Path::new(&format!("/proc/{process}/task/{thread}")).exists() {
        return Err(io::ErrorKind::NotFound.into());
    }
    raw::set_first_in_first_out(thread, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_nowhere_else() {
        std::thread::spawn(|| {
            let cpu = *allowed().expect("affinity").last().expect("a thread runs somewhere");
            pin(cpu).expect("an allowed cpu");
            assert_eq!(allowed().expect("affinity"), [cpu]);
        })
        .join()
        .expect("the pinned thread");
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_by_name() {
        for cpu in [CpuSet::MAX_CPU - 1, usize::MAX] {
            let error = pin(cpu).expect_err("no machine has this cpu");
            assert!(error.to_string().contains(&format!("cpu {cpu}")), "{error}");
        }
    }

    /// `rt_priority` and `policy` of `/proc/PID/stat` (proc(5)), fields 40 and 41.
    #[test]
    fn a_thread_that_runs_first_has_a_real_time_priority_or_the_refusal_says_why() {
        std::thread::spawn(|| {
            let asked = run_first();
            let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("there is a /proc");
            let (_, fields) = stat.rsplit_once(") ").expect("the name is in parentheses");
            let found: Vec<&str> = fields.split(' ').skip(37).take(2).collect();
            match asked {
                Ok(()) => assert_eq!(found, ["1", "1"]),
                Err(error) => {
                    assert_eq!(found, ["0", "0"]);
                    assert!(error.to_string().contains("real-time priority"), "{error}");
                }
            }
        })
        .join()
        .expect("the thread that asks");
    }

    fn spin(ns: u64) {
        let until = crate::clock::monotonic() + ns;
        while crate::clock::monotonic() < until {}
    }

    #[test]
    fn a_thread_that_shares_its_cpu_waits_for_it_and_one_that_sleeps_does_not() {
        const MEASURED: u64 = 100_000_000;
        let cpu = *allowed().expect("affinity").last().expect("a thread runs somewhere");
        let waited = |work: fn()| {
            let waiting = std::thread::spawn(move || {
                pin(cpu).expect("an allowed cpu");
                let wait = RunQueueWait::of_this_thread().expect("this kernel accounts waits");
                let before = wait.nanos().expect("as just now");
                work();
                wait.nanos().expect("as just now") - before
            });
            waiting.join().expect("the pinned thread")
        };
        let shared = || {
            let rival = std::thread::spawn(move || {
                pin(cpu).expect("an allowed cpu");
                spin(2 * MEASURED);
            });
            let shared = waited(|| spin(MEASURED));
            rival.join().expect("the rival");
            shared
        };
        // Two threads of equal weight get half of a CPU each. A sleeping thread waits only when it
        // wakes. Other load on a busy machine can blur the difference, but not in every attempt.
        let asleep = || waited(|| std::thread::sleep(std::time::Duration::from_nanos(MEASURED)));
        let mut seen = Vec::new();
        for _ in 0..30 {
            seen.push((shared(), asleep()));
            if seen
                .last()
                .is_some_and(|(shared, asleep)| *shared > MEASURED / 4 && *asleep < shared / 2)
            {
                return;
            }
        }
        panic!("ns shared and asleep, of {MEASURED}: {seen:?}");
    }

    #[test]
    fn work_shows_as_cpu_time() {
        let before = ThreadUsage::of_this_thread();
        let used = || {
            spin(5_000_000);
            let used = ThreadUsage::of_this_thread().since(&before);
            used.user_ns + used.system_ns
        };
        assert!((0..1_000).any(|_| used() > 1_000_000), "{:?}", ThreadUsage::of_this_thread());
    }
}
