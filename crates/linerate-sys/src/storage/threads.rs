//! One thread per slot, each in `pread` or `pwrite`. A slot's buffer moves to the thread with its
//! request and returns with its completion.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::calls::{buffers, transfer};
use super::{Completion, Priority, Request};
use crate::memory::Region;

/// Threads, each with a channel for requests, and one queue for results.
#[derive(Debug)]
pub(super) struct Threads {
    buffers: Vec<Option<Region>>,
    work: Vec<SyncSender<(Request, Region)>>,
    finished: Arc<Finished>,
    handles: Vec<JoinHandle<()>>,
}

/// Transfers that have ended and are not yet reaped. A channel's receiver would allocate at its
/// first wait.
#[derive(Debug)]
struct Finished {
    done: Mutex<Vec<(Completion, Region)>>,
    came: Condvar,
}

impl Finished {
    fn done(&self) -> MutexGuard<'_, Vec<(Completion, Region)>> {
        // A panicking thread leaves the list intact: it is only pushed to and drained.
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves the requests of one slot until its sender is dropped.
fn serve(file: &File, requests: Receiver<(Request, Region)>, finished: &Finished) {
    let mut priority = Priority::NONE;
    for (request, mut buffer) in requests {
        let result = transfer(file, &mut buffer, request, &mut priority);
        finished.done().push((Completion { slot: request.slot, result }, buffer));
        finished.came.notify_one();
    }
}

impl Threads {
    pub(super) fn new(file: File, slots: u32, slot_bytes: usize) -> io::Result<Self> {
        let file = Arc::new(file);
        // Room for all completions, so that nothing is allocated later.
        let done = Mutex::new(Vec::with_capacity(slots as usize));
        let finished = Arc::new(Finished { done, came: Condvar::new() });
        let buffers = buffers(slots, slot_bytes)?.into_iter().map(Some).collect();
        let mut threads = Self { buffers, work: Vec::new(), finished, handles: Vec::new() };
        for slot in 0..slots {
            let (work, given) = sync_channel::<(Request, Region)>(1);
            let (file, finished) = (Arc::clone(&file), Arc::clone(&threads.finished));
            let thread = std::thread::Builder::new().name(format!("lr-disk-{slot}"));
            threads.handles.push(thread.spawn(move || serve(&file, given, &finished))?);
            threads.work.push(work);
        }
        Ok(threads)
    }

    pub(super) fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.buffers[slot as usize].as_mut().unwrap_or_else(|| panic!("slot {slot} is under way"))
    }

    pub(super) fn queue(&mut self, request: Request) {
        let buffer = self.buffers[request.slot as usize].take();
        let buffer = buffer.unwrap_or_else(|| panic!("slot {} is under way", request.slot));
        assert!(
            request.bytes as usize <= buffer.len(),
            "{} bytes do not fit a slot",
            request.bytes
        );
        let sent = self.work[request.slot as usize].send((request, buffer));
        sent.expect("a thread ends only when its work does");
    }

    pub(super) fn reap(
        &mut self,
        patience: Duration,
        mut done: impl FnMut(Completion),
    ) -> io::Result<()> {
        let any_under_way = self.buffers.iter().any(Option::is_none);
        let mut finished = self.finished.done();
        if any_under_way && !patience.is_zero() {
            let waited =
                self.finished.came.wait_timeout_while(finished, patience, |done| done.is_empty());
            finished = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        for (completion, buffer) in finished.drain(..) {
            self.buffers[completion.slot as usize] = Some(buffer);
            done(completion);
        }
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.work.clear();
        for handle in self.handles.drain(..) {
            // The thread's code never panics.
            let _: Result<(), _> = handle.join();
        }
    }
}
