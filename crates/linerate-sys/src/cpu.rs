//! Thread placement, CPU time of a thread, and the CPUs this process may use.
//!
//! Times come from `getrusage(RUSAGE_THREAD)`: their sum is exact, the split into user and system time is the kernel's
//! estimate by timer ticks unless it was built with full accounting. They do not contain softirq work done for this
//! thread's packets on other threads' behalf, or on other CPUs.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::SysError;

#[allow(unsafe_code)]
mod raw;

/// What the kernel accounted to one thread since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUsage {
    /// CPU time in user space, ns.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
    /// Times it gave up its CPU.
    pub voluntary_switches: u64,
    /// Times it was taken off its CPU.
    pub involuntary_switches: u64,
}

impl ThreadUsage {
    /// The calling thread's usage.
    #[must_use]
    pub fn of_this_thread() -> Self {
        raw::thread_usage()
    }

    /// The change since `earlier`. Each part is monotone except the user/system split, which the kernel may adjust by a
    /// little; a part that went back counts as unchanged.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }
}

/// The CPUs the calling thread may run on, ascending.
///
/// # Errors
/// If the kernel refuses to tell.
pub fn allowed() -> Result<Vec<usize>, SysError> {
    let set = sched_getaffinity(None).map_err(|cause| SysError::new("read affinity of", "this thread", cause))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Pins the calling thread to `cpu`.
///
/// # Errors
/// If the CPU does not exist, is offline, or lies outside this process's cpuset.
pub fn pin(cpu: usize) -> Result<(), SysError> {
    let object = || format!("cpu {cpu}");
    if cpu >= CpuSet::MAX_CPU {
        return Err(SysError::new("pin this thread to", object(), std::io::ErrorKind::InvalidInput));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|cause| SysError::new("pin this thread to", object(), cause))
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

    #[test]
    fn work_shows_as_cpu_time() {
        let before = ThreadUsage::of_this_thread();
        let until = crate::clock::monotonic() + 20_000_000;
        while crate::clock::monotonic() < until {}
        let used = ThreadUsage::of_this_thread().since(&before);
        assert!(used.user_ns + used.system_ns > 1_000_000, "{used:?}");
    }
}
