//! A wire with a length, and faults if they are wanted: frames that enter at one end leave at the other after a fixed delay,
//! but for every n-th datagram, which is dropped or leaves twice.
//!
//! The kernels linerate meets do not all have a delay of their own (netem), and no netem drops exactly every n-th, so the wire is ours: a namespace between the two
//! ends, a packet socket on each of its interfaces, and a thread that holds every frame for its time. Frames keep their order.
//! What it cannot do: rates of many gigabits (it handles each frame singly, about 200 thousand a second on one core),
//! and frames whose checksum was left to a device; the layout switches that off at the ends.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use linerate_model::Nanos;
use linerate_sys::SysError;
use linerate_sys::clock::monotonic;
use linerate_sys::netns::within;
use linerate_sys::packet::{PacketSocket, wait};

use crate::description::Faults;
use crate::layout::Middle;

/// Largest frame a wire carries: jumbo frames with room to spare.
const MAX_FRAME: usize = 16 * 1024;
/// How long the thread sleeps at most, so that it notices when it is to end.
const PATIENCE: u64 = 20_000_000;
/// Frames held in one direction before the wire itself would be the limit; beyond it they are dropped and counted.
const MAX_HELD: usize = 65_536;

/// Offsets into a frame (IEEE 802.3 clause 3.2.6, RFC 791 clause 3.1, RFC 8200 clause 3), and what stands there for UDP.
const ETHERTYPE: usize = 12;
const IPV4_PROTOCOL: usize = 14 + 9;
const IPV6_NEXT_HEADER: usize = 14 + 6;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const UDP: u8 = 17;

/// A running wire. Dropping it ends its thread.
#[derive(Debug)]
pub(crate) struct Wire {
    stop: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Joins the two interfaces of `middle`.
    pub(crate) fn start(middle: &Middle) -> Result<Self, SysError> {
        let Middle { namespace, devices, delay, faults } = middle;
        let open = |device: &str| within(namespace, || PacketSocket::open(device))?;
        let sockets = [open(&devices[0])?, open(&devices[1])?];
        let (stop, dropped) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (delay, faults) = (*delay, *faults);
        let line = Line { sockets, delay, faults, stop: Arc::clone(&stop), dropped: Arc::clone(&dropped) };
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
    faults: Faults,
    stop: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
}

/// Datagrams that have entered in one direction, for each frame length.
#[derive(Default)]
struct Counts(HashMap<usize, u64>);

impl Counts {
    /// How many times `frame` is to leave.
    fn copies(&mut self, faults: Faults, frame: &[u8]) -> usize {
        if faults == Faults::default() || !is_udp(frame) {
            return 1;
        }
        let count = self.0.entry(frame.len()).or_default();
        *count += 1;
        let due = |one_in: Option<NonZeroU32>| one_in.is_some_and(|n| count.is_multiple_of(u64::from(n.get())));
        if due(faults.drop_one_in) {
            return 0;
        }
        1 + usize::from(due(faults.duplicate_one_in))
    }
}

fn is_udp(frame: &[u8]) -> bool {
    let protocol_at = match frame.get(ETHERTYPE..ETHERTYPE + 2).map(|bytes| [bytes[0], bytes[1]]) {
        Some(IPV4) => IPV4_PROTOCOL,
        Some(IPV6) => IPV6_NEXT_HEADER,
        _ => return false,
    };
    frame.get(protocol_at) == Some(&UDP)
}

/// Frames on their way in one direction, and the buffers of those that have left.
#[derive(Default)]
struct Held {
    counts: Counts,
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
            let frame = &buffer[..length];
            for _ in 0..held.counts.copies(self.faults, frame) {
                if !held.take(monotonic() + self.delay.0, frame) {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ethertype: [u8; 2], protocol_at: usize, protocol: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![0; length];
        frame[ETHERTYPE..ETHERTYPE + 2].copy_from_slice(&ethertype);
        frame[protocol_at] = protocol;
        frame
    }

    #[test]
    fn every_third_datagram_of_a_length_is_dropped_and_every_fourth_leaves_twice() {
        let faults = Faults { drop_one_in: NonZeroU32::new(3), duplicate_one_in: NonZeroU32::new(4) };
        let (v4, v6) = (frame(IPV4, IPV4_PROTOCOL, UDP, 100), frame(IPV6, IPV6_NEXT_HEADER, UDP, 100));
        let mut counts = Counts::default();
        let mut copies = Vec::new();
        for number in 0..12 {
            copies.push(counts.copies(faults, if number % 2 == 0 { &v4 } else { &v6 }));
        }
        assert_eq!(copies, [1, 1, 0, 2, 1, 0, 1, 2, 0, 1, 1, 0]);
        let shorter = frame(IPV4, IPV4_PROTOCOL, UDP, 60);
        assert_eq!([(); 3].map(|()| counts.copies(faults, &shorter)), [1, 1, 0], "other lengths are counted apart");
    }

    #[test]
    fn what_is_no_datagram_always_passes() {
        let faults = Faults { drop_one_in: NonZeroU32::new(1), duplicate_one_in: None };
        let tcp = frame(IPV4, IPV4_PROTOCOL, 6, 100);
        let arp = frame([0x08, 0x06], IPV4_PROTOCOL, UDP, 42);
        for passing in [&tcp[..], &arp, &[], &[0; 13], &frame(IPV4, IPV4_PROTOCOL, UDP, 100)[..20]] {
            assert_eq!(Counts::default().copies(faults, passing), 1);
        }
        assert_eq!(Counts::default().copies(faults, &frame(IPV4, IPV4_PROTOCOL, UDP, 100)), 0);
    }
}
