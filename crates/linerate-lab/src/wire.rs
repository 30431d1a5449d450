//! A wire with a length: frames that enter at one end leave at the other after a fixed delay.
//!
//! The kernels linerate meets do not all have a delay of their own (netem), so the wire is ours: a namespace between the two
//! ends, a packet socket on each of its interfaces, and a thread that holds every frame for its time. Frames keep their order.
//! What it cannot do: rates of many gigabits (it handles each frame singly, about 200 thousand a second on one core),
//! and frames whose checksum was left to a device; the layout switches that off at the ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use linerate_model::Nanos;
use linerate_sys::SysError;
use linerate_sys::clock::monotonic;
use linerate_sys::netns::within;
use linerate_sys::packet::{PacketSocket, wait};

/// Largest frame a wire carries: jumbo frames with room to spare.
const MAX_FRAME: usize = 16 * 1024;
/// How long the thread sleeps at most, so that it notices when it is to end.
const PATIENCE: u64 = 20_000_000;
/// Frames held in one direction before the wire itself would be the limit; beyond it they are dropped and counted.
const MAX_HELD: usize = 65_536;

/// A running wire. Dropping it ends its thread.
#[derive(Debug)]
pub(crate) struct Wire {
    stop: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Joins the interfaces `devices` of the namespace `namespace` with `delay` each way.
    pub(crate) fn start(namespace: &str, devices: &[String; 2], delay: Nanos) -> Result<Self, SysError> {
        let open = |device: &str| within(namespace, || PacketSocket::open(device))?;
        let sockets = [open(&devices[0])?, open(&devices[1])?];
        let (stop, dropped) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let line = Line { sockets, delay, stop: Arc::clone(&stop), dropped: Arc::clone(&dropped) };
        let thread = std::thread::Builder::new()
            .name("lr-wire".into())
            .spawn(move || line.run())
            .map_err(|cause| SysError::new("start thread of wire", namespace, cause))?;
        Ok(Self { stop, dropped, thread: Some(thread) })
    }

    /// Frames the wire itself lost so far: they are the emulation's fault, not the path's.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already printed; there is nothing more to end.
            let _ended = thread.join();
        }
    }
}

struct Line {
    sockets: [PacketSocket; 2],
    delay: Nanos,
    stop: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
}

/// Frames on their way in one direction, and the buffers of those that have left.
#[derive(Default)]
struct Held {
    frames: VecDeque<(u64, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

impl Held {
    fn take(&mut self, leave_at: u64, frame: &[u8]) -> bool {
        if self.frames.len() >= MAX_HELD {
            return false;
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(frame);
        self.frames.push_back((leave_at, buffer));
        true
    }

    fn next_departure(&self) -> Option<u64> {
        self.frames.front().map(|(leave_at, _)| *leave_at)
    }
}

impl Line {
    fn run(self) {
        let mut held = [Held::default(), Held::default()];
        let mut buffer = vec![0; MAX_FRAME];
        while !self.stop.load(Ordering::Relaxed) {
            let now = monotonic();
            let next = held.iter().filter_map(Held::next_departure).min();
            let timeout = next.map_or(PATIENCE, |at| at.saturating_sub(now).min(PATIENCE));
            if timeout > 0 && wait([&self.sockets[0], &self.sockets[1]], timeout).is_err() {
                return;
            }
            for end in [0, 1] {
                if self.enter(end, &mut held[end], &mut buffer).is_err() || self.leave(1 - end, &mut held[end]).is_err()
                {
                    return;
                }
                self.count_kernel_drops(end);
            }
        }
    }

    /// Takes what has arrived at `end`.
    fn enter(&self, end: usize, held: &mut Held, buffer: &mut [u8]) -> Result<(), SysError> {
        /// Frames taken before departures are looked at again.
        const BATCH: usize = 64;
        for _ in 0..BATCH {
            let Some(length) = self.sockets[end].receive(buffer)? else { break };
            if !held.take(monotonic() + self.delay.0, &buffer[..length]) {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Lets go, at `end`, of what has travelled long enough.
    fn leave(&self, end: usize, held: &mut Held) -> Result<(), SysError> {
        while held.next_departure().is_some_and(|at| at <= monotonic()) {
            let (_, frame) = held.frames.pop_front().expect("a frame is due");
            if !self.sockets[end].send(&frame)? {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
            held.spare.push(frame);
        }
        Ok(())
    }

    fn count_kernel_drops(&self, end: usize) {
        if let Ok(drops @ 1..) = self.sockets[end].drops() {
            self.dropped.fetch_add(u64::from(drops), Ordering::Relaxed);
        }
    }
}
