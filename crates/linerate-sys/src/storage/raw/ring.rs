//! io_uring: one ring, registered file and buffers.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode, types};

use super::{Arena, Completion, Engine, Operation, Request};

/// The longest buffer the kernel registers.
const MOST_REGISTERED_BYTES: usize = 1 << 30;
/// Index of our only file and buffer among the registered ones.
const FIRST: u16 = 0;

/// Ring and the memory of its transfers.
pub(in super::super) struct Ring {
    ring: ManuallyDrop<IoUring>,
    pub(in super::super) arena: ManuallyDrop<Arena>,
    file: File,
    setup: &'static str,
    is_enabled: bool,
    has_buffers: bool,
    has_file: bool,
    queued: u32,
    in_flight: u32,
    /// Number of completions that end a wait.
    pub(in super::super) least: u32,
    /// Number of queued requests that are submitted at once.
    pub(in super::super) most_held: u32,
}

/// One way to set up a ring, and its name.
struct Setup(&'static str, fn(&mut io_uring::Builder));

/// Idle time after which a submitting thread sleeps.
const THREAD_IDLE_MS: u32 = 1_000;

/// Setups from the best for one pinned thread (Linux 6.6, 6.1, 5.19) to one that every kernel has.
/// A ring starts disabled if the thread that enables it becomes its only submitter.
///
/// Deferred task work runs only in a call that asks for completions. With `taskrun_flag` the kernel
/// reports pending work, and `submit` then asks for it. Without the flag a worker that only polls,
/// as an overloaded one does, would never find a completion.
static LADDER: [Setup; 4] = [
    Setup("single issuer, deferred task work, no submission array", |builder| {
        let builder = builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        builder.setup_r_disabled().setup_submit_all().setup_no_sqarray();
    }),
    Setup("single issuer, deferred task work", |builder| {
        let builder = builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        builder.setup_r_disabled().setup_submit_all();
    }),
    Setup("cooperative task work", |builder| {
        builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    }),
    Setup("no flags", |_| {}),
];

/// Setups of a ring that polls the device.
static POLLING: [Setup; 2] = [
    Setup("polling the device, single issuer, deferred task work", |builder| {
        builder
            .setup_iopoll()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_r_disabled()
            .setup_submit_all();
    }),
    Setup("polling the device", |builder| {
        builder.setup_iopoll();
    }),
];

/// Setups of a ring with a submitting thread, which has no task work to defer.
static THREAD: [Setup; 1] = [Setup("submitting thread", |builder| {
    builder.setup_sqpoll(THREAD_IDLE_MS);
})];

/// Returns the setups of `engine`, and how many of them start disabled.
fn ladder(engine: Engine) -> (&'static [Setup], usize) {
    match engine {
        Engine::IoUringPolling => (&POLLING, 1),
        Engine::IoUringThread => (&THREAD, 0),
        _ => (&LADDER, 2),
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("setup", &self.setup)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

impl Ring {
    pub(in super::super) fn new(
        engine: Engine,
        file: File,
        slots: u32,
        slot_bytes: usize,
    ) -> io::Result<Self> {
        let arena = Arena::new(slots, slot_bytes)?;
        let entries = slots.next_power_of_two();
        let mut refusal = io::Error::from(io::ErrorKind::InvalidInput);
        let mut made = None;
        let (ladder, n_disabled) = ladder(engine);
        for (step, Setup(name, set)) in ladder.iter().enumerate() {
            let mut builder = IoUring::builder();
            set(&mut builder);
            match builder.build(entries) {
                Ok(ring) => {
                    made = Some((ring, *name, step));
                    break;
                }
                // This kernel does not have the flag.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refusal = error,
                Err(error) => return Err(error),
            }
        }
        let (ring, setup, step) = made.ok_or(refusal)?;
        let starts_disabled = step < n_disabled;
        let submitter = ring.submitter();
        let has_file = submitter.register_files(&[file.as_raw_fd()]).is_ok();
        let bytes = slot_bytes * slots as usize;
        let whole = libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(arena.mapping.address() as usize),
            iov_len: bytes,
        };
        // SAFETY: the range is our mapping, which stays mapped until the ring is gone; `Drop` keeps
        // that order.
        let has_buffers = bytes <= MOST_REGISTERED_BYTES
            && unsafe { submitter.register_buffers(&[whole]) }.is_ok();
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            arena: ManuallyDrop::new(arena),
            file,
            setup,
            is_enabled: !starts_disabled,
            has_buffers,
            has_file,
            queued: 0,
            in_flight: 0,
            least: 1,
            most_held: u32::MAX,
        })
    }

    pub(in super::super) fn described(&self) -> String {
        let with = |has, what| {
            if has { format!(", registered {what}") } else { format!(", no registered {what}") }
        };
        format!(
            "io_uring ({}{}{})",
            self.setup,
            with(self.has_file, "file"),
            with(self.has_buffers, "buffers")
        )
    }

    #[inline]
    pub(in super::super) fn queue(&mut self, request: Request) {
        let start = self.arena.lend(request);
        // With the flag the kernel takes the number as an index among the registered files.
        let (file, flags) = if self.has_file {
            (i32::from(FIRST), Flags::FIXED_FILE)
        } else {
            (self.file.as_raw_fd(), Flags::empty())
        };
        let entry = entry(types::Fd(file), start, request, self.has_buffers);
        let entry = entry.flags(flags).user_data(u64::from(request.slot));
        // SAFETY: the file stays open and the slot's memory mapped and unreferenced until the
        // completion is reaped, or the ring is gone: `lend` marked it the kernel's, and `Drop`
        // waits or leaves the memory mapped.
        let mut pushed = unsafe { self.ring.submission().push(&entry) };
        while pushed.is_err() && self.ring.params().is_setup_sqpoll() {
            // The kernel's thread returns entries in batches, possibly after their requests have
            // ended.
            self.ring
                .submitter()
                .squeue_wait()
                .expect("kernels with a submitting thread can wait for it");
            // SAFETY: as above.
            pushed = unsafe { self.ring.submission().push(&entry) };
        }
        pushed.expect("there is an entry for every slot");
        self.queued += 1;
        self.in_flight += 1;
        // The first `reap` enables the ring, and its thread becomes the only submitter.
        if self.queued >= self.most_held && self.is_enabled && self.ring.submit().is_ok() {
            // Requests that the kernel did not accept stay in the ring. `reap` submits them or
            // reports the error.
            self.queued = 0;
        }
    }

    /// Nothing is under way, so the old file may be closed.
    pub(in super::super) fn reopen(&mut self, file: File) -> io::Result<()> {
        if self.has_file {
            self.ring.submitter().register_files_update(u32::from(FIRST), &[file.as_raw_fd()])?;
        }
        self.file = file;
        Ok(())
    }

    #[inline]
    pub(in super::super) fn reap(
        &mut self,
        patience: Duration,
        done: impl FnMut(Completion),
    ) -> io::Result<()> {
        if !self.is_enabled {
            self.ring.submitter().register_enable_rings()?;
            self.is_enabled = true;
        }
        let wait = self.in_flight > 0 && !patience.is_zero();
        let entered = if wait {
            let timeout = types::Timespec::from(patience);
            self.ring.submitter().submit_with_args(
                self.least.min(self.in_flight) as usize,
                &types::SubmitArgs::new().timespec(&timeout),
            )
        } else {
            self.ring.submit()
        };
        match entered {
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)
                ) => {}
            Err(error) => return Err(error),
        }
        self.queued = 0;
        self.harvest(done);
        Ok(())
    }

    fn harvest(&mut self, mut done: impl FnMut(Completion)) {
        for entry in self.ring.completion() {
            let slot = entry.user_data() as u32;
            self.arena.give_back(slot);
            self.in_flight -= 1;
            done(Completion { slot, result: entry.result() });
        }
    }
}

fn entry(
    file: types::Fd,
    start: *mut u8,
    request: Request,
    registered: bool,
) -> io_uring::squeue::Entry {
    let Request { operation, offset, bytes, priority, .. } = request;
    let priority = priority.bits();
    let flush = |flags| opcode::Fsync::new(file).flags(flags).build();
    match (operation, registered) {
        (Operation::Read, true) => opcode::ReadFixed::new(file, start, bytes, FIRST)
            .offset(offset)
            .ioprio(priority)
            .build(),
        (Operation::Write, true) => opcode::WriteFixed::new(file, start, bytes, FIRST)
            .offset(offset)
            .ioprio(priority)
            .build(),
        (Operation::Read, false) => {
            opcode::Read::new(file, start, bytes).offset(offset).ioprio(priority).build()
        }
        (Operation::Write, false) => {
            opcode::Write::new(file, start, bytes).offset(offset).ioprio(priority).build()
        }
        (Operation::Fsync, _) => flush(types::FsyncFlags::empty()),
        (Operation::Fdatasync, _) => flush(types::FsyncFlags::DATASYNC),
        (Operation::Trim, _) => {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            opcode::Fallocate::new(file, u64::from(bytes)).offset(offset).mode(mode).build()
        }
    }
}

/// Time that a dropped ring waits for requests under way.
const LAST_PATIENCE: Duration = Duration::from_secs(30);

impl Drop for Ring {
    fn drop(&mut self) {
        let until = std::time::Instant::now() + LAST_PATIENCE;
        while self.in_flight > 0 && std::time::Instant::now() < until {
            // The kernel refuses every thread but the submitter.
            if self.reap(Duration::from_millis(100), |_| {}).is_err() {
                break;
            }
        }
        // SAFETY: dropped once, here, and not used again. The ring goes first: its registered
        // buffers lie in the arena.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
        if self.in_flight == 0 {
            // SAFETY: dropped once, here, and not used again; nothing under way refers to it.
            unsafe { ManuallyDrop::drop(&mut self.arena) };
        }
        // The kernel may still write into the memory, so it stays mapped forever.
    }
}
