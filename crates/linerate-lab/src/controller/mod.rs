//! An emulated network controller: a management controller (BMC) sits behind its sideband and shares its port on the
//! network (NC-SI, DSP0222).
//!
//! Frames from the network wait in a buffer of bytes for the sideband and are dropped whole where there is no room: the
//! loss this emulation exists for. What it does not model: several channels on one wire at once, pause frames, and traffic
//! between the host system and the management controller.

mod pass_through;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use linerate_model::{Bytes, Nanos};

pub use pass_through::PassThrough;

use crate::description::Controller;
use crate::middle::{Departures, Passage};

/// The side of the network, and that of the management controller.
const NETWORK: usize = 0;
const SIDEBAND: usize = 1;

/// What truly passed one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Frames that came.
    pub received: u64,
    /// Of them, those dropped because the buffer was full.
    pub dropped: u64,
}

/// Counters shared with whoever asks.
#[derive(Debug, Default)]
struct Counts {
    received: AtomicU64,
    dropped: AtomicU64,
}

impl Counts {
    fn read(&self) -> Passed {
        Passed { received: self.received.load(Ordering::Relaxed), dropped: self.dropped.load(Ordering::Relaxed) }
    }
}

/// A controller under way, as the lab sees it.
#[derive(Debug)]
pub struct Running {
    name: String,
    counts: Arc<[Counts; 2]>,
}

impl Running {
    /// The controller that `description` describes, and what it does with frames.
    pub(crate) fn new(description: &Controller) -> (Self, Device) {
        let counts = Arc::<[Counts; 2]>::default();
        let (network, sideband) = (description.network.rate, description.sideband.rate);
        let device = Device {
            ways: [
                PassThrough::new(network, sideband, description.buffer),
                PassThrough::new(sideband, network, description.transmit_buffer),
            ],
            delay: description.delay,
            counts: Arc::clone(&counts),
        };
        (Self { name: description.name.clone(), counts }, device)
    }

    /// Its name in the lab.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Frames from the network to the management controller.
    #[must_use]
    pub fn from_network(&self) -> Passed {
        self.counts[NETWORK].read()
    }

    /// Frames from the management controller to the network.
    #[must_use]
    pub fn from_management(&self) -> Passed {
        self.counts[SIDEBAND].read()
    }
}

/// The controller itself.
#[derive(Debug)]
pub(crate) struct Device {
    /// What waits, by the side it came from.
    ways: [PassThrough; 2],
    delay: Nanos,
    counts: Arc<[Counts; 2]>,
}

impl Passage for Device {
    fn enter(&mut self, end: usize, frame: &[u8], now: Nanos, departures: &mut Departures) {
        let counts = &self.counts[end];
        counts.received.fetch_add(1, Ordering::Relaxed);
        match self.ways[end].offer(Bytes(frame.len() as u64), now) {
            Some(departed) => departures.hold(1 - end, frame, departed + self.delay),
            None => {
                counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
