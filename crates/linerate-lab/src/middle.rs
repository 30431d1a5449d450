//! Emulated device between two interfaces: a thread that takes every frame from one, lets a
//! [`Passage`] decide on it, and sends it at its time at the other.
//!
//! Decisions use the kernel's time of arrival, not the time at which the thread wakes, so a thread
//! that wakes late does not change them. Frames then leave late, but in order. Limits: about 200
//! thousand frames a second on one core, because each frame is handled alone, and no frames with a
//! checksum that is left to a device. The layout switches checksum offload off at both ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use linerate_model::Nanos;
use linerate_sys::SysError;
use linerate_sys::clock::monotonic;
use linerate_sys::netns::within;
use linerate_sys::packet::{PacketSocket, wait};

/// Largest frame that passes, bytes: larger than jumbo frames.
const MAX_FRAME: usize = 16 * 1024;
/// Longest sleep of the thread, ns, so that it notices a request to end.
const PATIENCE: u64 = 20_000_000;
/// Most frames that wait at one end. More would mean that the thread is the limit; they are dropped
/// and counted.
const MAX_HELD: usize = 65_536;
/// Frames taken from one end before departures are checked again.
const BATCH: usize = 64;

/// Decision on frames between two interfaces. Time is an argument: no passage has a clock.
pub(crate) trait Passage: Send {
    /// Handles a frame that came in at `end` (0 or 1) at `now`. Frames that leave go to
    /// `departures`.
    fn enter(&mut self, end: usize, frame: &[u8], now: Nanos, departures: &mut Departures);

    /// Returns the time of the next [`Passage::wake`], if one is needed.
    fn due(&self) -> Option<Nanos> {
        None
    }

    /// Moves frames whose time has come by `now` to `departures`, although no frame came in.
    fn wake(&mut self, _now: Nanos, _departures: &mut Departures) {}
}

/// Frames that wait for their time to leave, by end.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    ends: [VecDeque<(Nanos, Vec<u8>)>; 2],
    /// Buffers of frames that have left.
    spare: Vec<Vec<u8>>,
    /// Number of frames that were dropped because too many waited.
    refused: u64,
}

impl Departures {
    /// Keeps a copy of `frame` until `at`. It leaves at `end` after those due before or at the same
    /// time.
    pub(crate) fn hold(&mut self, end: usize, frame: &[u8], at: Nanos) {
        let queue = &mut self.ends[end];
        // A bound on memory: a passage with a long delay at a high rate would otherwise fill the
        // machine.
        if queue.len() >= MAX_HELD {
            self.refused += 1;
            return;
        }
        // Buffers are used again, so that a frame costs no allocation.
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(frame);
        // Nearly always behind the last one: only delayed answers are overtaken.
        let place = queue.iter().rposition(|(due, _)| *due <= at).map_or(0, |before| before + 1);
        queue.insert(place, (at, copy));
    }

    /// Returns the time at which the next frame leaves at either end.
    fn next(&self) -> Option<Nanos> {
        self.ends.iter().filter_map(|queue| queue.front()).map(|(at, _)| *at).min()
    }

    fn pop_due(&mut self, end: usize, now: Nanos) -> Option<Vec<u8>> {
        let due = self.ends[end].front().is_some_and(|(at, _)| *at <= now);
        if due { self.ends[end].pop_front().map(|(_, frame)| frame) } else { None }
    }

    /// Returns the waiting frames with their times, for tests.
    #[cfg(test)]
    pub(crate) fn held(&self, end: usize) -> Vec<(u64, &[u8])> {
        self.ends[end].iter().map(|(at, frame)| (at.0, &frame[..])).collect()
    }
}

/// Running emulation. Dropping it ends its thread.
#[derive(Debug)]
pub(crate) struct Middle {
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Middle {
    /// Joins the two interfaces `devices` of `namespace` by `passage`.
    pub(crate) fn start(
        namespace: &str,
        devices: &[String; 2],
        passage: impl Passage + 'static,
    ) -> Result<Self, SysError> {
        let open = |device: &str| within(namespace, || PacketSocket::open(device))?;
        let sockets = [open(&devices[0])?, open(&devices[1])?];
        let (stop, lost) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let line = Line { sockets, passage, stop: Arc::clone(&stop), lost: Arc::clone(&lost) };
        let thread = std::thread::Builder::new()
            .name("lr-middle".into())
            .spawn(move || line.run())
            .map_err(|cause| {
                SysError::new("start thread of emulated device in", namespace, cause)
            })?;
        Ok(Self { stop, lost, thread: Some(thread) })
    }

    /// Returns the number of frames that the emulation lost because it was too slow.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already.
            let _ended = thread.join();
        }
    }
}

struct Line<P> {
    sockets: [PacketSocket; 2],
    passage: P,
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
}

impl<P: Passage> Line<P> {
    fn run(mut self) {
        let mut departures = Departures::default();
        let mut buffer = vec![0; MAX_FRAME];
        while !self.stop.load(Ordering::Relaxed) {
            let now = monotonic();
            let next = departures.next().into_iter().chain(self.passage.due()).min();
            let timeout = next.map_or(PATIENCE, |at| at.0.saturating_sub(now).min(PATIENCE));
            if timeout > 0 && wait([&self.sockets[0], &self.sockets[1]], timeout).is_err() {
                return;
            }
            self.passage.wake(Nanos(monotonic()), &mut departures);
            for end in [0, 1] {
                if self.take(end, &mut departures, &mut buffer).is_err()
                    || self.let_go(1 - end, &mut departures).is_err()
                {
                    return;
                }
                if let Ok(drops @ 1..) = self.sockets[end].drops() {
                    self.lost.fetch_add(u64::from(drops), Ordering::Relaxed);
                }
            }
            self.lost.fetch_add(std::mem::take(&mut departures.refused), Ordering::Relaxed);
        }
    }

    /// Takes the frames that have arrived at `end`.
    fn take(
        &mut self,
        end: usize,
        departures: &mut Departures,
        buffer: &mut [u8],
    ) -> Result<(), SysError> {
        for _ in 0..BATCH {
            let Some((length, arrived)) = self.sockets[end].receive_stamped(buffer)? else { break };
            self.passage.enter(end, &buffer[..length], Nanos(arrived), departures);
        }
        Ok(())
    }

    /// Sends the frames that are due at `end`.
    fn let_go(&self, end: usize, departures: &mut Departures) -> Result<(), SysError> {
        while let Some(frame) = departures.pop_due(end, Nanos(monotonic())) {
            if !self.sockets[end].send(&frame)? {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            departures.spare.push(frame);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_the_order_of_their_times_and_then_of_arrival() {
        let mut departures = Departures::default();
        for (frame, at) in [(b"a", 10), (b"b", 30), (b"c", 20), (b"d", 20)] {
            departures.hold(1, frame, Nanos(at));
        }
        assert_eq!(departures.next(), Some(Nanos(10)));
        let order: Vec<u8> =
            std::iter::from_fn(|| departures.pop_due(1, Nanos(25))).map(|frame| frame[0]).collect();
        assert_eq!((&order[..], departures.held(1)), (&b"acd"[..], vec![(30, &b"b"[..])]));
    }
}
