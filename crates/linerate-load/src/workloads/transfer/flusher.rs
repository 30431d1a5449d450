//! A thread that waits for a file to be on its disk, so that no step has to.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{JoinHandle, Thread};

/// Nothing is asked for.
const REST: i32 = -1;
/// A flush is asked for or under way.
const BUSY: i32 = -2;
/// The thread is to end.
const END: i32 = -3;

/// Flushes one file when told.
#[derive(Debug)]
pub(super) struct Flusher {
    /// Above zero: the error number of the last flush; zero: it went well.
    state: Arc<AtomicI32>,
    thread: Thread,
    handle: Option<JoinHandle<()>>,
}

impl Flusher {
    /// One for `file`.
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
                        // Unless the end was asked for meanwhile.
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

    /// Asks for a flush, if none is under way.
    pub(super) fn start(&self) {
        self.state.store(BUSY, Ordering::Release);
        self.thread.unpark();
    }

    /// What came of it: nothing yet, or the error number, 0 if it went well.
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
