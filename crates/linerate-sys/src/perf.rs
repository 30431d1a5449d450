//! Groups of performance counters (`perf_event_open(2)`): hardware events of the CPU and software
//! events of the kernel.
//!
//! The PMU runs a group as a whole, so its members cover the same time and their ratios
//! (instructions per cycle) are meaningful. Events that are opened one by one may cover different
//! times, which makes such ratios wrong. Values are counts; software clocks are nanoseconds. If the
//! PMU is shared, a group runs only part of the time. [`PerfGroup::read`] scales each step by
//! enabled over running time and returns the share that was really counted.
//!
//! Not visible: system management mode, the hypervisor, and times in which the group did not run.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use crate::privilege::or_helper;
use crate::{Result, SysError};

/// Largest number of counters in one group.
pub const MAX_COUNTERS: usize = 8;

/// Event to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// CPU cycles while not halted.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Misses of the last-level cache, as the CPU vendor defines them.
    CacheMisses,
    /// Reads that miss the level-1 data cache.
    L1DataMisses,
    /// Time of the CPU since the counter was enabled, ns, including idle time.
    CpuClock,
    /// Time spent in the thread, ns.
    TaskClock,
    /// Context switches.
    ContextSwitches,
    /// Threads moved to another CPU.
    Migrations,
    /// Page faults.
    PageFaults,
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::CacheMisses => "cache misses",
            Self::L1DataMisses => "level-1 data misses",
            Self::CpuClock => "CPU clock",
            Self::TaskClock => "task clock",
            Self::ContextSwitches => "context switches",
            Self::Migrations => "migrations",
            Self::PageFaults => "page faults",
        })
    }
}

impl Counter {
    /// `(type, config)` of linux/perf_event.h.
    const fn code(self) -> (u32, u64) {
        const HARDWARE: u32 = 0;
        const SOFTWARE: u32 = 1;
        const CACHE: u32 = 3;
        /// Of a cache: the level-1 data cache is 0, a read is 0 in the second byte, and a miss is 1
        /// in the third (`PERF_COUNT_HW_CACHE_*`).
        const MISS_OF_L1_DATA_READ: u64 = 1 << 16;
        match self {
            Self::Cycles => (HARDWARE, 0),
            Self::Instructions => (HARDWARE, 1),
            Self::CacheMisses => (HARDWARE, 3),
            Self::L1DataMisses => (CACHE, MISS_OF_L1_DATA_READ),
            Self::CpuClock => (SOFTWARE, 0),
            Self::TaskClock => (SOFTWARE, 1),
            Self::PageFaults => (SOFTWARE, 2),
            Self::ContextSwitches => (SOFTWARE, 3),
            Self::Migrations => (SOFTWARE, 4),
        }
    }
}

/// Returns the object of an error: the counters and their target.
fn object(target: Target, counters: &[Counter]) -> String {
    let names: Vec<String> = counters.iter().map(ToString::to_string).collect();
    format!("{} on {target}", names.join(", "))
}

/// Scope of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Everything on one CPU; needs CAP_PERFMON or `kernel.perf_event_paranoid` <= 0.
    Cpu(u32),
    /// The calling thread on any CPU.
    ThisThread,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Self::ThisThread => f.write_str("this thread"),
        }
    }
}

/// Group of counters that count since they were opened.
#[derive(Debug)]
pub struct PerfGroup {
    /// The leader first; members live as long as the group.
    descriptors: Vec<OwnedFd>,
    scaling: Scaling,
}

impl PerfGroup {
    /// Opens `counters` as one group on `target`; the first is the leader.
    ///
    /// # Errors
    /// `ENOENT` or `EOPNOTSUPP` if the counter does not exist (a virtual machine without PMU).
    /// `EACCES` or `EPERM` if `kernel.perf_event_paranoid` forbids it. `EINVAL` if the PMU cannot
    /// run the whole group at once, or if `counters` is empty or longer than [`MAX_COUNTERS`].
    pub fn open(target: Target, counters: &[Counter]) -> Result<Self> {
        let object = || object(target, counters);
        if counters.is_empty() || counters.len() > MAX_COUNTERS {
            return Err(SysError::new("open perf events", object(), rustix::io::Errno::INVAL));
        }
        let mut descriptors: Vec<OwnedFd> = Vec::with_capacity(counters.len());
        for counter in counters {
            let leader = descriptors.first().map(AsFd::as_fd);
            let opened =
                or_helper(raw::open(counter.code(), target, leader), |helper| match target {
                    Target::Cpu(cpu) => helper.counter(*counter, cpu, leader),
                    Target::ThisThread => Err(io::ErrorKind::PermissionDenied.into()),
                });
            descriptors
                .push(opened.map_err(|cause| SysError::new("open perf events", object(), cause))?);
        }
        raw::enable_group(&descriptors[0])
            .map_err(|cause| SysError::new("enable perf events", object(), cause))?;
        Ok(Self { descriptors, scaling: Scaling::default() })
    }

    /// Reads the group into `values`, one per counter in the order of opening, accumulated since
    /// opening. Returns the share of the time since the last reading in which the group really
    /// counted: 1 for all of it, 0 if it was never on the PMU (the values then do not change). Does
    /// not allocate. Reading another CPU's group interrupts that CPU.
    ///
    /// # Errors
    /// If the kernel refuses the read.
    ///
    /// # Panics
    /// If `values` is shorter than the group.
    pub fn read(&mut self, values: &mut [f64]) -> Result<f64> {
        let n_counters = self.descriptors.len();
        let mut words = [0_u64; WORDS];
        let mut bytes = [0_u8; WORDS * 8];
        let length = rustix::io::read(&self.descriptors[0], &mut bytes)
            .map_err(|cause| SysError::new("read", "perf group", cause))?;
        for (word, chunk) in words.iter_mut().zip(bytes[..length].chunks_exact(8)) {
            *word = u64::from_ne_bytes(chunk.try_into().expect("chunks_exact gives 8 bytes"));
        }
        // An event in error state (a pinned group that lost its place) reads as end of file.
        if length < (HEADER_WORDS + n_counters) * 8 || words[0] != n_counters as u64 {
            return Err(SysError::new("read", "perf group", std::io::ErrorKind::UnexpectedEof));
        }
        let share = self.scaling.advance(
            words[1],
            words[2],
            &words[HEADER_WORDS..HEADER_WORDS + n_counters],
        );
        values[..n_counters].copy_from_slice(&self.scaling.totals[..n_counters]);
        Ok(share)
    }
}

/// Opens a counter of all events on `cpu` with the privileges of this process, for a helper of
/// another process.
///
/// # Errors
/// As [`PerfGroup::open`].
pub fn of_cpu(counter: Counter, cpu: u32, leader: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    raw::open(counter.code(), Target::Cpu(cpu), leader)
}

/// Number of members, time enabled, time running.
const HEADER_WORDS: usize = 3;
const WORDS: usize = HEADER_WORDS + MAX_COUNTERS;

/// Converts raw readings to totals. Each step is scaled separately, so totals never decrease.
#[derive(Clone, Debug, Default)]
struct Scaling {
    enabled: u64,
    running: u64,
    raw: [u64; MAX_COUNTERS],
    totals: [f64; MAX_COUNTERS],
}

impl Scaling {
    /// Adds a reading; returns running over enabled time of this step.
    fn advance(&mut self, enabled: u64, running: u64, raw: &[u64]) -> f64 {
        let step_enabled = enabled.saturating_sub(self.enabled);
        let step_running = running.saturating_sub(self.running);
        let factor =
            if step_running == 0 { 0.0 } else { step_enabled as f64 / step_running as f64 };
        for (counter_idx, &value) in raw.iter().enumerate() {
            self.totals[counter_idx] += value.saturating_sub(self.raw[counter_idx]) as f64 * factor;
            self.raw[counter_idx] = value;
        }
        (self.enabled, self.running) = (enabled, running);
        if factor == 0.0 { 0.0 } else { (1.0 / factor).min(1.0) }
    }
}

#[allow(unsafe_code)]
mod raw {
    use std::io;
    use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

    use super::Target;

    /// `struct perf_event_attr` as of its first version, 64 bytes; the kernel reads absent fields
    /// as zero.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample_period: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup_events: u32,
        breakpoint_type: u32,
        config1: u64,
    }

    const ATTRIBUTES_SIZE: usize = 64;
    const _: () = assert!(size_of::<Attributes>() == ATTRIBUTES_SIZE);

    const FORMAT_TOTAL_TIME_ENABLED: u64 = 1 << 0;
    const FORMAT_TOTAL_TIME_RUNNING: u64 = 1 << 1;
    const FORMAT_GROUP: u64 = 1 << 3;
    const FLAG_DISABLED: u64 = 1 << 0;
    const OPEN_CLOEXEC: libc::c_ulong = 1 << 3;
    /// `_IO('$', 0)`.
    const IOC_ENABLE: libc::c_ulong = 0x2400;
    const IOC_FLAG_GROUP: libc::c_ulong = 1;

    pub(super) fn open(
        (kind, config): (u32, u64),
        target: Target,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, io::Error> {
        let attributes = Attributes {
            kind,
            size: ATTRIBUTES_SIZE as u32,
            config,
            read_format: FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING | FORMAT_GROUP,
            // Only the leader starts disabled: its members follow it.
            flags: if leader.is_none() { FLAG_DISABLED } else { 0 },
            ..Attributes::default()
        };
        let (pid, cpu): (libc::pid_t, libc::c_int) = match target {
            Target::Cpu(cpu) => (-1, cpu.try_into().map_err(|_| io::ErrorKind::InvalidInput)?),
            Target::ThisThread => (0, -1),
        };
        let group = leader.map_or(-1, |leader| leader.as_raw_fd());
        // SAFETY: `attributes` is a live, initialised perf_event_attr whose `size` field is its
        // real size; the kernel only reads it during the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                pid,
                cpu,
                group,
                OPEN_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = i32::try_from(fd).expect("a descriptor fits an int");
        // SAFETY: the kernel just returned this descriptor to us and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    pub(super) fn enable_group(leader: &OwnedFd) -> Result<(), io::Error> {
        // SAFETY: PERF_EVENT_IOC_ENABLE takes a plain integer and touches no memory of ours.
        let result = unsafe { libc::ioctl(leader.as_raw_fd(), IOC_ENABLE as _, IOC_FLAG_GROUP) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_ran_half_the_time_is_scaled_by_two() {
        let mut scaling = Scaling::default();
        assert_eq!(scaling.advance(1_000, 500, &[100, 300]), 0.5);
        assert_eq!(&scaling.totals[..2], &[200.0, 600.0]);
        assert_eq!(scaling.advance(2_000, 1_500, &[150, 310]), 1.0);
        assert_eq!(&scaling.totals[..2], &[250.0, 610.0]);
    }

    #[test]
    fn misses_of_the_first_level_have_the_code_of_the_kernel() {
        // PERF_TYPE_HW_CACHE; PERF_COUNT_HW_CACHE_L1D, _OP_READ and _RESULT_MISS, a byte each.
        let bytes = [0, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(Counter::L1DataMisses.code(), (3, u64::from_le_bytes(bytes)));
    }

    #[test]
    fn a_group_that_never_ran_keeps_its_values() {
        let mut scaling = Scaling::default();
        assert_eq!(scaling.advance(1_000, 0, &[0]), 0.0);
        assert_eq!(scaling.totals[0], 0.0);
    }

    #[test]
    fn a_group_of_nothing_or_too_much_is_refused() {
        assert!(PerfGroup::open(Target::ThisThread, &[]).is_err());
        assert!(
            PerfGroup::open(Target::ThisThread, &[Counter::TaskClock; MAX_COUNTERS + 1]).is_err()
        );
    }

    #[test]
    fn the_task_clock_counts_this_threads_work() {
        let mut group =
            match PerfGroup::open(Target::ThisThread, &[Counter::TaskClock, Counter::PageFaults]) {
                Ok(group) => group,
                Err(error) => return println!("skipped: {error}"),
            };
        let mut before = [0.0; 2];
        group.read(&mut before).unwrap();
        let mut x = 1_u64;
        for i in 0..2_000_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(i | 1));
        }
        let mut after = [0.0; 2];
        assert_eq!(group.read(&mut after).unwrap(), 1.0);
        assert!(after[0] > before[0], "{before:?} {after:?}");
    }
}
