//! Waits of a worker with several flows, or with requests due at a given time.

use std::os::fd::AsFd;
use std::time::Duration;

use linerate_model::Nanos;
use linerate_sys::clock;
use linerate_sys::readiness::{Interest, Readiness};

use super::placement::Waiting;
use crate::{Due, Result};

/// Shorter waits spin, because the timer of the system call counts milliseconds.
const SHORTEST_WAIT: Nanos = Nanos::from_millis(2);

/// Waits until a flow is readable, or an operation is due.
#[derive(Debug)]
pub(crate) struct Rest {
    readiness: Readiness,
    wait: Waiting,
}

impl Rest {
    /// Creates the wait for these sockets. A spinning worker does not watch them, because each
    /// arrival at a watched socket costs a callback.
    pub(crate) fn new<'a, S: AsFd + 'a>(
        wait: Waiting,
        sockets: impl IntoIterator<Item = &'a S>,
    ) -> Result<Self> {
        let readiness = Readiness::new()?;
        for (token, socket) in (0..).zip(sockets).filter(|_| wait == Waiting::Block) {
            readiness.add(socket, token, Interest::Readable)?;
        }
        Ok(Self { readiness, wait })
    }

    /// Waits until `due.until` at the latest, if the mode is to block.
    pub(crate) fn until(&mut self, due: Due) {
        let left = due.until.since(Nanos(clock::monotonic()));
        if self.wait == Waiting::Block && left >= SHORTEST_WAIT {
            // Rounded down, so that the next request is not missed.
            self.readiness.wait(Duration::from_millis(Duration::from(left).as_millis() as u64 - 1));
        }
    }
}
