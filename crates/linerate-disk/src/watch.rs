//! The watch over a device that loads may write to: once a second the gate's questions are asked again, and the first new reason against
//! writing revokes the permission.
//!
//! The exclusive open keeps others away from the device itself. What it cannot keep away is another device that shows the same bytes: a loop
//! device over the same file, another path to the same disk. A look reads what the kernel tells of its devices, and nothing from the device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::gate::{self, Refusal};

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// A watch; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    watched: Arc<Watched>,
    thread: Thread,
}

#[derive(Debug)]
struct Watched {
    number: (u32, u32),
    serial: Option<String>,
    is_over: AtomicBool,
    is_revoked: AtomicBool,
    refusals: Mutex<Vec<Refusal>>,
}

impl Watch {
    /// Over the device `number` with this serial number.
    pub(crate) fn start(number: (u32, u32), serial: Option<String>) -> std::io::Result<Self> {
        let (is_over, is_revoked) = (AtomicBool::new(false), AtomicBool::new(false));
        let watched = Arc::new(Watched { number, serial, is_over, is_revoked, refusals: Mutex::default() });
        let seen = Arc::clone(&watched);
        let thread = thread::Builder::new().name("disk watch".into()).spawn(move || seen.stand())?;
        Ok(Self { watched, thread: thread.thread().clone() })
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.watched.is_revoked.load(Ordering::Relaxed)
    }

    /// Looks now, and returns every reason against writing.
    pub(crate) fn look(&self) -> Vec<Refusal> {
        self.watched.look();
        self.refusals()
    }

    /// The reasons found so far.
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
    fn stand(&self) {
        while !self.is_over.load(Ordering::Relaxed) && !self.is_revoked.load(Ordering::Relaxed) {
            // A wake-up without reason only looks earlier.
            thread::park_timeout(PERIOD);
            if !self.is_over.load(Ordering::Relaxed) {
                self.look();
            }
        }
    }

    fn look(&self) {
        let changes = gate::changes(self.number, self.serial.as_deref());
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if !changes.is_empty() && refusals.is_empty() {
            *refusals = changes;
            self.is_revoked.store(true, Ordering::Release);
        }
    }
}
