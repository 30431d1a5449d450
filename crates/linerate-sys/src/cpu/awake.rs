//! Keeps CPUs out of deep sleep while something is timed.
//!
//! An idle CPU needs tens of microseconds or more to leave a deep idle state. Rare events are then
//! slower than frequent ones, although the timed code is the same. If the kernel manages idle
//! states, a request for zero wake-up latency keeps every CPU in the shallowest state
//! (`Documentation/power/pm_qos_interface.rst`), at the cost of power. Otherwise, as on most
//! virtual machines, nothing changes and [`Awake::how`] says so.
//!
//! Rejected alternative: a spinning thread of the idle class on each CPU. On Linux 6.18 with lazy
//! preemption and two CPUs it reduced the median latency of rare frames from 212 to 184 us, but
//! threads waited six times as long for a CPU. A thread that wakes on a busy CPU does not run at
//! once, even if only an idle-class thread runs there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::privilege::or_helper;

/// Accepts the largest allowed wake-up latency in microseconds, in force while the file is open.
const LATENCY: &str = "/dev/cpu_dma_latency";
/// Name of the idle-state driver; "none" if there is none.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// The request of this process, while anybody uses it.
static SHARED: Mutex<Weak<Awake>> = Mutex::new(Weak::new());

/// CPUs that do not sleep deeply until this value is dropped, if the kernel accepts requests.
#[derive(Debug)]
pub struct Awake {
    /// While it is open, no wake-up latency is allowed.
    request: Option<OwnedFd>,
    how: String,
}

impl Awake {
    /// Keeps the CPUs awake from now on, if the kernel accepts requests. All users in a process
    /// share one request.
    #[must_use]
    pub fn keep() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(awake) = shared.upgrade() {
            return awake;
        }
        let awake = Arc::new(Self::new(&fs::read_to_string(DRIVER).unwrap_or_default()));
        *shared = Arc::downgrade(&awake);
        awake
    }

    /// Sends the request; `driver` manages the idle states.
    fn new(driver: &str) -> Self {
        let driver = driver.trim();
        if driver.is_empty() || driver == "none" {
            let how = "not possible: no driver manages idle states here (a virtual machine's \
                hypervisor may)"
                .to_owned();
            return Self { request: None, how };
        }
        match or_helper(awake_request(), |helper| helper.keep_awake()) {
            Ok(file) => Self {
                request: Some(file),
                how: format!("no wake-up latency requested of {driver}"),
            },
            Err(error) => Self {
                request: None,
                how: format!("not possible: {LATENCY}: {error} (run as root)"),
            },
        }
    }

    /// Returns true if the kernel accepted the request.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.request.is_some()
    }

    /// Returns how CPUs are kept awake, or why they are not, for a report.
    #[must_use]
    pub fn how(&self) -> &str {
        &self.how
    }
}

/// Requests zero wake-up latency for as long as the returned file is open.
///
/// # Errors
/// If the kernel refuses: only root may send the request.
pub fn awake_request() -> io::Result<OwnedFd> {
    let mut file: File = OpenOptions::new().write(true).open(LATENCY)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sends_one_request_and_reports_a_refusal() {
        let first = Awake::keep();
        assert!(Arc::ptr_eq(&first, &Awake::keep()));
        assert_eq!(first.is_kept(), !first.how().contains("not possible"), "{first:?}");
        for driver in ["", "none\n"] {
            let none = Awake::new(driver);
            assert!(
                !none.is_kept() && none.how().contains("no driver manages idle states"),
                "{none:?}"
            );
        }
        let asked = Awake::new("intel_idle\n");
        assert!(
            asked.how().contains(if asked.is_kept() { "intel_idle" } else { LATENCY }),
            "{asked:?}"
        );
    }
}
