//! Native AIO through its system calls (io_setup(2), io_submit(2), io_getevents(2), io_destroy(2)).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::{Arena, Completion, Operation, Priority, Request};

/// `struct iocb` (include/uapi/linux/aio_abi.h, little-endian).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct ControlBlock {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event`, likewise.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
/// `IOCB_FLAG_IOPRIO`: the priority field is valid.
const HAS_PRIORITY: u32 = 1 << 1;

/// Context and the memory of its transfers.
#[derive(Debug)]
pub(in super::super) struct NativeAio {
    context: libc::c_ulong,
    pub(in super::super) arena: Arena,
    pub(in super::super) file: File,
    blocks: Vec<ControlBlock>,
    /// Addresses of the blocks that are queued and not yet submitted.
    queued: Vec<*mut ControlBlock>,
    events: Vec<Event>,
    in_flight: u32,
    /// Number of completions that end a wait.
    pub(in super::super) least: u32,
    /// Number of queued requests that are submitted at once.
    pub(in super::super) most_held: u32,
}

// SAFETY: the addresses in `queued` point into `blocks`, which this structure owns and never grows;
// nothing in it belongs to a thread.
unsafe impl Send for NativeAio {}

impl NativeAio {
    pub(in super::super) fn new(file: File, slots: u32, slot_bytes: usize) -> io::Result<Self> {
        let arena = Arena::new(slots, slot_bytes)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one number into `context`, which must be zero before.
        if unsafe { libc::syscall(libc::SYS_io_setup, slots, &raw mut context) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let slots = slots as usize;
        Ok(Self {
            context,
            arena,
            file,
            blocks: vec![ControlBlock::default(); slots],
            queued: Vec::with_capacity(slots),
            events: vec![Event::default(); slots],
            in_flight: 0,
            least: 1,
            most_held: u32::MAX,
        })
    }

    #[inline]
    pub(in super::super) fn queue(&mut self, request: Request) {
        let start = self.arena.lend(request);
        let block = &mut self.blocks[request.slot as usize];
        let (data, file) = (u64::from(request.slot), self.file.as_raw_fd() as u32);
        let opcode = match request.operation {
            Operation::Read => PREAD,
            Operation::Write => PWRITE,
            Operation::Fsync => FSYNC,
            Operation::Fdatasync => FDSYNC,
            Operation::Trim => panic!("native AIO has no discards: see `Transfers::can`"),
        };
        *block = ControlBlock { data, opcode, file, ..ControlBlock::default() };
        // The kernel refuses a flush with a buffer or an offset.
        if request.operation.moves() {
            block.buffer = start.expose_provenance() as u64;
            block.bytes = u64::from(request.bytes);
            block.offset = request.offset as i64;
            block.priority = request.priority.bits() as i16;
            block.flags = if request.priority == Priority::NONE { 0 } else { HAS_PRIORITY };
        }
        self.queued.push(block);
        self.in_flight += 1;
        if self.queued.len() >= self.most_held as usize {
            // Requests that the kernel did not accept stay queued. `reap` submits them or reports
            // the error.
            let _ = self.hand_over();
        }
    }

    /// Submits what is queued, as far as the kernel accepts it.
    fn hand_over(&mut self) -> io::Result<()> {
        let mut handed = 0;
        while handed < self.queued.len() {
            let rest = &mut self.queued[handed..];
            // SAFETY: each address is that of a whole control block in `blocks`; the file stays
            // open, and the slot's memory mapped and unreferenced, until its event is reaped:
            // `lend` marked it the kernel's, and `Drop` waits.
            let taken = unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    rest.len() as libc::c_long,
                    rest.as_mut_ptr(),
                )
            };
            match taken {
                1.. => handed += taken as usize,
                _ => {
                    let error = io::Error::last_os_error();
                    self.queued.drain(..handed);
                    let passes = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
                    return if passes { Ok(()) } else { Err(error) };
                }
            }
        }
        self.queued.clear();
        Ok(())
    }

    #[inline]
    pub(in super::super) fn reap(
        &mut self,
        patience: Duration,
        mut done: impl FnMut(Completion),
    ) -> io::Result<()> {
        self.hand_over()?;
        let handed_over = self.in_flight - self.queued.len() as u32;
        let least = if patience.is_zero() { 0 } else { self.least.min(handed_over) };
        let mut timeout = libc::timespec {
            tv_sec: patience.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(patience.subsec_nanos() as i32),
        };
        let most = self.events.len() as libc::c_long;
        // SAFETY: the kernel writes at most `most` whole events into `events`, and may write the
        // time left into `timeout`.
        let n = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                // At most the depth, which a `c_long` of 32 bits holds too.
                least as libc::c_long,
                most,
                self.events.as_mut_ptr(),
                &raw mut timeout,
            )
        };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::EINTR) { Ok(()) } else { Err(error) };
        }
        for event in &self.events[..n as usize] {
            let slot = event.data as u32;
            self.arena.give_back(slot);
            self.in_flight -= 1;
            done(Completion { slot, result: event.result as i32 });
        }
        Ok(())
    }
}

impl Drop for NativeAio {
    fn drop(&mut self) {
        // SAFETY: the context is ours and destroyed once. The call cancels what it can and returns
        // when nothing of it is under way, so that the arena, which goes after, is ours again.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
