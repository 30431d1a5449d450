//! CPUs kept from deep sleep while something is timed.
//!
//! An idle CPU takes tens of microseconds and more to wake out of a deep state. What arrives seldom
//! is then slower than what arrives often, through no fault of what is timed. Where the kernel
//! governs idle states, a request for no wake-up latency keeps every CPU in the shallowest
//! (`Documentation/power/pm_qos_interface.rst`), at the cost of power. Where it does not, as on
//! most virtual machines, nothing is done, and that is told.
//!
//! A way not taken: a thread of the idle class turning on each CPU. On Linux 6.18 with lazy
//! preemption and two CPUs it brought the median of seldom frames from 212 to 184 us, but threads
//! waited six times as long for a CPU: one that wakes on a CPU which runs something, be it of the
//! idle class, is not let on at once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::privilege::or_helper;

/// Takes the longest wake-up latency allowed, in microseconds, for as long as it is open.
const LATENCY: &str = "/dev/cpu_dma_latency";
/// Names what governs idle states; "none" where nothing does.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// The one of this process, while anybody has it.
static SHARED: Mutex<Weak<Awake>> = Mutex::new(Weak::new());

/// CPUs that do not sleep deeply until this is dropped, as far as the kernel lets itself be asked.
#[derive(Debug)]
pub struct Awake {
    /// Open: no wake-up latency is allowed.
    request: Option<OwnedFd>,
    how: String,
}

impl Awake {
    /// Keeps the CPUs awake from now on, where that can be asked for; all of a process share one
    /// request.
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

    /// With idle states governed by `driver`.
    fn new(driver: &str) -> Self {
        let driver = driver.trim();
        if driver.is_empty() || driver == "none" {
            let how = "not possible: nothing governs idle states here (a virtual machine's \
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

    /// Whether the kernel took the request.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.request.is_some()
    }

    /// How, or why not, for a report.
    #[must_use]
    pub fn how(&self) -> &str {
        &self.how
    }
}

/// Requests no wake-up latency for as long as the answer is open.
///
/// # Errors
/// If the kernel refuses: only root may ask.
pub fn awake_request() -> io::Result<OwnedFd> {
    let mut file: File = OpenOptions::new().write(true).open(LATENCY)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_asks_once_and_says_why_where_it_cannot() {
        let first = Awake::keep();
        assert!(Arc::ptr_eq(&first, &Awake::keep()));
        assert_eq!(first.is_kept(), !first.how().contains("not possible"), "{first:?}");
        for driver in ["", "none\n"] {
            let none = Awake::new(driver);
            assert!(
                !none.is_kept() && none.how().contains("nothing governs idle states"),
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
