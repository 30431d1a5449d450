//! Data path of a forwarding device, one direction, in virtual time: frames arrive over a link,
//! wait in a buffer, and leave over another link.
//!
//! Units: frame sizes are bytes of the Ethernet frame without FCS, as a packet socket sees them; on
//! a wire each frame takes 24 bytes more (preamble and SFD 8, FCS 4, inter-packet gap 12; IEEE
//! 802.3 clauses 3.2 and 4.4.2). A frame takes room in the buffer from the end of its arrival to
//! the end of its departure, and is dropped whole if there is no room (tail drop).
//!
//! Not modelled: buffers divided into cells, several queues, and pause frames.

use std::collections::VecDeque;

use linerate_model::{BitRate, Bytes, Nanos, PacketRate};

use crate::description::{Element, Forwarding, Overflow};
use crate::stalls::Stalls;

/// Bytes of a frame on a wire beyond those that a packet socket sees.
const WIRE_OVERHEAD: Bytes = Bytes(24);
/// Smallest frame without FCS: a MAC pads shorter ones (IEEE 802.3 clause 3.2.8).
const SMALLEST: usize = 60;
const BITS_PER_BYTE: f64 = 8.0;
const NANOS_PER_SECOND: f64 = 1e9;

/// Returns the time that `frame` takes on a wire of `rate`.
fn wire_time(frame: Bytes, rate: BitRate) -> Nanos {
    Nanos(((frame.0 + WIRE_OVERHEAD.0) as f64 * BITS_PER_BYTE * NANOS_PER_SECOND / rate.0).round()
        as u64)
}

/// Returns the size of a frame in a buffer: a MAC pads short ones.
pub(crate) fn on_the_wire(frame: &[u8]) -> Bytes {
    Bytes(frame.len().max(SMALLEST) as u64)
}

/// Buffer between two links.
#[derive(Clone, Debug, Default)]
pub struct PassThrough {
    /// Link by which frames arrive. `None`: they arrive at once.
    feed: Option<BitRate>,
    /// Link by which they leave. `None`: they leave at once.
    drain: Option<BitRate>,
    /// Shortest time between two frames that leave.
    per_frame: Nanos,
    buffer: Bytes,
    buffer_frames: usize,
    forwarding: Forwarding,
    stalls: Option<Stalls>,
    /// Time at which the last frame had arrived completely.
    arrived: Nanos,
    /// Time at which the last frame will have left.
    departed: Nanos,
    /// Frames in the buffer, the oldest first: the time at which each will have left, and its size.
    held: VecDeque<(Nanos, Bytes)>,
    occupied: Bytes,
    overflow: Overflow,
    /// True from an overflow until the buffer is empty, if it drops bursts.
    flushing: bool,
}

impl PassThrough {
    /// Creates an empty store-and-forward buffer of `buffer` bytes, filled at `feed` and drained at
    /// `drain`.
    #[must_use]
    pub fn new(feed: BitRate, drain: BitRate, buffer: Bytes) -> Self {
        Self::between(Some(feed), Some(drain), buffer)
    }

    fn between(feed: Option<BitRate>, drain: Option<BitRate>, buffer: Bytes) -> Self {
        Self {
            feed,
            drain,
            buffer,
            buffer_frames: usize::MAX,
            forwarding: Forwarding::StoreAndForward,
            ..Self::default()
        }
    }

    /// The same buffer with this behaviour when it overflows.
    pub(crate) fn overflowing(self, overflow: Overflow) -> Self {
        Self { overflow, ..self }
    }

    /// Creates one direction of `element`, with stalls counted from `start`.
    pub(crate) fn of(element: &Element, start: Nanos) -> Self {
        let interval = |rate: PacketRate| Nanos((NANOS_PER_SECOND / rate.0).round() as u64);
        Self {
            per_frame: element.packet_rate.map_or(Nanos(0), interval),
            buffer_frames: element.buffer_frames.map_or(usize::MAX, |frames| frames.get() as usize),
            forwarding: element.forwarding,
            stalls: element.stall.map(|stall| Stalls::new(stall, start)),
            ..Self::between(element.port_rate, element.rate.or(element.port_rate), element.buffer)
        }
    }

    /// Takes a frame whose first bit arrives at `now`, or later if the feeding link is busy.
    /// Returns the time at which its last bit will have left. `None` if the buffer is full.
    ///
    /// Times must not go back from call to call.
    pub fn offer(&mut self, frame: Bytes, now: Nanos) -> Option<Nanos> {
        let arrived = self.arrive(frame, now);
        self.admit(frame, arrived)
    }

    /// Sends a frame over the feeding link, from `now`. Returns the arrival of its last bit.
    pub(crate) fn arrive(&mut self, frame: Bytes, now: Nanos) -> Nanos {
        self.arrived = self.arrived.max(now) + self.arrival_time(frame);
        self.arrived
    }

    /// Puts a frame that arrived at `arrived` into the buffer. Returns the time at which its last
    /// bit will have left.
    pub(crate) fn admit(&mut self, frame: Bytes, arrived: Nanos) -> Option<Nanos> {
        // Room is freed by virtual time, so a thread that wakes late does not drop more.
        self.release(arrived);
        self.flushing &= !self.held.is_empty();
        let full = self.occupied + frame > self.buffer || self.held.len() >= self.buffer_frames;
        self.flushing |= full && self.overflow == Overflow::Burst;
        if full || self.flushing {
            return None;
        }
        let ready = match self.forwarding {
            Forwarding::StoreAndForward => arrived,
            // The first bit arrived this much earlier.
            Forwarding::CutThrough => Nanos(arrived.0 - self.arrival_time(frame).0),
        };
        // The last bit cannot leave before it has arrived, however fast the link.
        let departed = self.occupy_drain(frame, ready).max(arrived);
        self.departed = departed;
        self.held.push_back((departed, frame));
        self.occupied = self.occupied + frame;
        Some(departed)
    }

    /// Sends a frame over the draining link without using the buffer, at `now` or when the link is
    /// free. Returns the time at which its last bit will have left.
    pub(crate) fn occupy_drain(&mut self, frame: Bytes, now: Nanos) -> Nanos {
        let leaving =
            // A device limited in frames takes this long even for a small frame.
            self.drain.map_or(Nanos(0), |rate| wire_time(frame, rate)).max(self.per_frame);
        let free = self.departed.max(now);
        self.departed = self.stalls.as_mut().map_or(free, |stalls| stalls.after(free)) + leaving;
        self.departed
    }

    /// Returns the time that `frame` takes to arrive.
    fn arrival_time(&self, frame: Bytes) -> Nanos {
        self.feed.map_or(Nanos(0), |rate| wire_time(frame, rate))
    }

    /// Frees the room of frames that have left by `now`.
    fn release(&mut self, now: Nanos) {
        while let Some((_, frame)) =
            self.held.front().copied().filter(|(departed, _)| *departed <= now)
        {
            self.held.pop_front();
            self.occupied = Bytes(self.occupied.0 - frame.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: BitRate = BitRate(1e9);
    const SIDEBAND: BitRate = BitRate(1e8);
    /// Largest frame of MTU 1500, without FCS.
    const FULL: Bytes = Bytes(1514);

    /// Frames of a back-to-back burst that an empty buffer takes before the first drop.
    fn burst(buffer: u64, feed: BitRate) -> usize {
        let mut path = PassThrough::new(feed, SIDEBAND, Bytes(buffer));
        (0..1000).take_while(|_| path.offer(FULL, Nanos(0)).is_some()).count()
    }

    /// Full frames that a buffer takes at 1 and 25 Gbit/s into a sideband of 100 Mbit/s.
    #[test]
    fn a_buffer_that_drops_bursts_takes_nothing_more_until_it_is_empty() {
        let passed = |overflow| {
            let mut buffer =
                PassThrough::new(GIGABIT, SIDEBAND, Bytes(2 * 1514)).overflowing(overflow);
            // Three frames at once, one after the first has left, one after all have left.
            let times = [0, 0, 0, 150_000, 400_000];
            times.map(|at| buffer.offer(FULL, Nanos(at)).is_some())
        };
        assert_eq!(passed(Overflow::Tail), [true, true, false, true, true]);
        assert_eq!(passed(Overflow::Burst), [true, true, false, false, true]);
    }

    #[test]
    fn a_burst_survives_as_far_as_whole_frames_fit() {
        for (buffer, at_1g, at_25g) in [
            (4096, 2, 2),
            (8192, 5, 5),
            (12_288, 8, 8),
            (16_384, 11, 10),
            (32_768, 23, 21),
            (65_536, 47, 43),
        ] {
            assert_eq!(
                (burst(buffer, GIGABIT), burst(buffer, BitRate(25e9))),
                (at_1g, at_25g),
                "{buffer} bytes"
            );
        }
    }

    #[test]
    fn a_feed_no_faster_than_the_drain_never_loses() {
        let mut path = PassThrough::new(SIDEBAND, SIDEBAND, Bytes(4096));
        assert!((0..10_000).all(|_| path.offer(FULL, Nanos(0)).is_some()));
    }

    #[test]
    fn a_full_buffer_drains_at_the_rate_of_the_sideband() {
        let mut path = PassThrough::new(GIGABIT, SIDEBAND, Bytes(8192));
        let left: Vec<u64> =
            (0..5).filter_map(|_| path.offer(FULL, Nanos(0))).map(|at| at.0).collect();
        // 1538 bytes at 1 Gbit/s take 12 304 ns, at 100 Mbit/s 123 040 ns.
        assert_eq!(left, [135_344, 258_384, 381_424, 504_464, 627_504]);
        assert_eq!(path.offer(FULL, Nanos(0)), None, "the sixth finds no room");
        assert!(
            path.offer(FULL, Nanos(135_344)).is_some(),
            "once the first has left there is room again"
        );
    }

    #[test]
    fn control_frames_take_no_room_but_their_time_on_the_sideband() {
        let mut path = PassThrough::new(GIGABIT, SIDEBAND, FULL);
        assert_eq!(path.occupy_drain(Bytes(60), Nanos(0)), Nanos(6720));
        assert_eq!(
            path.offer(FULL, Nanos(0)),
            Some(Nanos(12_304 + 123_040)),
            "it arrived after the control frame left"
        );
        assert_eq!(path.occupy_drain(Bytes(60), Nanos(20_000)), Nanos(12_304 + 123_040 + 6720));
        assert_eq!(path.offer(Bytes(60), Nanos(20_000)), None, "the buffer is still full");
    }

    /// Returns an element described by `more`, with stalls counted from zero.
    fn element(more: &str) -> PassThrough {
        let (lab, problems) = crate::Description::parse(&format!(
            "[lab]\nname='x'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[element]]\nname='dut'\n\
                ends=['a','b']\n{more}"
        ));
        assert_eq!(problems, []);
        PassThrough::of(&lab.expect("no problem").elements[0], Nanos(0))
    }

    /// 64 bytes with FCS.
    const SHORT: Bytes = Bytes(60);

    #[test]
    fn cut_through_saves_the_time_of_one_serialisation_and_queues_alike() {
        let ways = ["store-and-forward", "cut-through"].map(|forwarding| {
            let mut path = element(&format!("port_rate='100 Mbit/s'\nforwarding='{forwarding}'\n"));
            [
                path.offer(FULL, Nanos(0)),
                path.offer(FULL, Nanos(0)),
                path.offer(FULL, Nanos(1_000_000)),
            ]
            .map(|at| at.expect("room").0)
        });
        // 1538 bytes at 100 Mbit/s take 123 040 ns.
        assert_eq!(ways, [[246_080, 369_120, 1_246_080], [123_040, 246_080, 1_123_040]]);
    }

    #[test]
    fn the_last_bit_of_a_cut_through_frame_does_not_leave_before_it_came() {
        let mut path = element("port_rate='100 Mbit/s'\nforwarding='cut-through'\n");
        path.drain = None;
        assert_eq!(path.offer(FULL, Nanos(0)), Some(Nanos(123_040)));
    }

    #[test]
    fn frames_a_second_bound_short_frames_and_the_rate_long_ones() {
        let mut path = element("rate='100 Mbit/s'\npacket_rate='50 kpps'\n");
        // 84 bytes at 100 Mbit/s take 6720 ns, less than the 20 us of a frame in 50 000.
        assert_eq!(
            [path.offer(SHORT, Nanos(0)), path.offer(FULL, Nanos(0))],
            [Some(Nanos(20_000)), Some(Nanos(143_040))]
        );
    }

    #[test]
    fn a_buffer_of_frames_takes_as_many_whatever_their_size() {
        for size in [SHORT, FULL] {
            let mut path = element("packet_rate='1 kpps'\nbuffer='1 MiB'\nbuffer_frames=10\n");
            assert_eq!((0..100).filter_map(|_| path.offer(size, Nanos(0))).count(), 10);
        }
    }

    /// Known answer: a device of 10 000 frames a second stalls for 5 ms of every second. Offered
    /// 10 000 frames a second for ten seconds, it forwards 99.5 % of them, and the content of its
    /// buffer besides.
    #[test]
    fn a_stall_costs_what_comes_meanwhile_and_finds_no_room() {
        let lost = |offered: u64| {
            let mut path = element(
                "packet_rate='10 kpps'\nbuffer_frames=8\nstall={length='5 ms',every='1 s'}\n",
            );
            (0..10 * offered)
                .filter(|n| path.offer(SHORT, Nanos(n * 1_000_000_000 / offered)).is_none())
                .count()
        };
        // At 5000 frames a second 25 come in 5 ms and 8 find room, while one is on its way as each
        // stall begins or none.
        assert!((160..=180).contains(&lost(5000)), "{}", lost(5000));
        assert_eq!(lost(1000), 0, "five fit");
    }
}
