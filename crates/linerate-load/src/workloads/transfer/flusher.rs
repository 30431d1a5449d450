//! Thread that waits until a file is on its disk, so that no step has to.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{JoinHandle, Thread};

/// Without a request.
const REST: i32 = -1;
/// A flush is requested or in progress.
const BUSY: i32 = -2;
/// The thread has to end.
const END: i32 = -3;

/// Thread that flushes one file on request.
#[derive(Debug)]
pub(super) struct Flusher {
    /// Error number of the last flush; zero if it succeeded.
    state: Arc<AtomicI32>,
    thread: Thread,
    handle: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts the thread for `file`.
    pub(super) fn new(file: File) -> std::io::Result<Self> {
        let state = Arc::new(AtomicI32::new(REST));
        let shared = Arc::clone(&state);
        let handle = std::thread::Builder::new().name("lr-flusher".into()).spawn(move || {
            loop {
                match shared.load(Ordering::Acquire) {
                    END => return,
                    BUSY => {
                        let result = file
                            .sync_data()
                            .map_or_else(|error| error.raw_os_error().unwrap_or(5), |()| 0);
                        // Unless the end was requested meanwhile.
                        let _ = shared.compare_exchange(
                            BUSY,
                            result,
                            Ordering::AcqRel,
                            Ordering::Acquire,
                        );
                    }
                    _ => std::thread::park(),
                }
            }
        })?;
        Ok(Self { state, thread: handle.thread().clone(), handle: Some(handle) })
    }

    /// Requests a flush, if none is in progress.
    pub(super) fn start(&self) {
        self.state.store(BUSY, Ordering::Release);
        self.thread.unpark();
    }

    /// Returns the outcome: `None` before the end, then the error number, 0 for success.
    pub(super) fn result(&self) -> Option<i32> {
        Some(self.state.load(Ordering::Acquire)).filter(|state| *state >= 0)
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.state.store(END, Ordering::Release);
        self.thread.unpark();
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_comes_about_again_and_again() {
        let flusher = Flusher::new(tempfile::tempfile().expect("a file")).expect("a thread");
        for _ in 0..3 {
            flusher.start();
            while flusher.result().is_none() {
                std::thread::yield_now();
            }
            assert_eq!(flusher.result(), Some(0));
        }
    }
}
