//! `getrusage` of the calling thread, and `sched_setscheduler`.

use super::ThreadUsage;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MICROSECOND: u64 = 1_000;

pub(super) fn thread_usage() -> ThreadUsage {
    // SAFETY: `rusage` is plain integers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a live, writable `rusage`. With RUSAGE_THREAD and a valid pointer the call
    // cannot fail; if it did, `usage` would stay zero.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    ThreadUsage {
        user_ns: nanos(usage.ru_utime),
        system_ns: nanos(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
    }
}

pub(super) fn set_first_in_first_out(thread: i32, priority: i32) -> std::io::Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` is a live `sched_param`, which the kernel copies; a thread is named by its
    // number.
    match unsafe { libc::sched_setscheduler(thread, libc::SCHED_FIFO, &param) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn nanos(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * NANOS_PER_SECOND + time.tv_usec as u64 * NANOS_PER_MICROSECOND
}
