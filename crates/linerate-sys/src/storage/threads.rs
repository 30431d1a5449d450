//! One thread per slot, each in `pread` or `pwrite`. A slot's buffer travels with its request and comes back with its completion.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::calls::{buffers, transfer};
use super::{Completion, Request};
use crate::memory::Region;

/// Threads, each with a way to give it work, and one way back.
#[derive(Debug)]
pub(super) struct Threads {
    buffers: Vec<Option<Region>>,
    work: Vec<SyncSender<(Request, Region)>>,
    done: Receiver<(Completion, Region)>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn new(file: File, slots: u32, slot_bytes: usize) -> io::Result<Self> {
        let file = Arc::new(file);
        // Room for everything: nobody waits to hand over, and nothing is allocated.
        let (finished, done) = sync_channel(slots as usize);
        let mut threads = Self {
            buffers: buffers(slots, slot_bytes)?.into_iter().map(Some).collect(),
            work: Vec::new(),
            done,
            handles: Vec::new(),
        };
        for slot in 0..slots {
            let (work, given) = sync_channel::<(Request, Region)>(1);
            let (file, finished) = (Arc::clone(&file), finished.clone());
            let serve = move || {
                for (request, mut buffer) in given {
                    let result = transfer(&file, &mut buffer, request);
                    if finished.send((Completion { slot: request.slot, result }, buffer)).is_err() {
                        return;
                    }
                }
            };
            threads.handles.push(std::thread::Builder::new().name(format!("lr-disk-{slot}")).spawn(serve)?);
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
        assert!(request.bytes as usize <= buffer.len(), "{} bytes do not fit a slot", request.bytes);
        let sent = self.work[request.slot as usize].send((request, buffer));
        sent.expect("a thread ends only when its work does");
    }

    pub(super) fn reap(&mut self, patience: Duration, mut done: impl FnMut(Completion)) -> io::Result<()> {
        let any_under_way = self.buffers.iter().any(Option::is_none);
        let mut next = match any_under_way && !patience.is_zero() {
            true => match self.done.recv_timeout(patience) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the threads of the pool have ended"));
                }
            },
            false => None,
        };
        while let Some((completion, buffer)) = next.take().or_else(|| self.done.try_recv().ok()) {
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
            // It does nothing that panics.
            let _: Result<(), _> = handle.join();
        }
    }
}
