//! The data path of a network controller, one direction, in virtual time: frames arrive over a link, wait in a buffer of
//! bytes, and leave over another link.
//!
//! Units: frame sizes are bytes of the Ethernet frame without FCS, as a packet socket sees them; on a wire each frame takes
//! 24 bytes more (preamble and SFD 8, FCS 4, inter-packet gap 12; IEEE 802.3 clauses 3.2 and 4.4.2). A frame takes
//! room in the buffer from the end of its arrival to the end of its departure, and is dropped whole if there is no room (tail drop).
//!
//! What it does not model: cut-through forwarding, buffers cut into cells, and pause frames.

use std::collections::VecDeque;

use linerate_model::{BitRate, Bytes, Nanos};

/// What a frame takes on a wire beyond the bytes a packet socket sees.
const WIRE_OVERHEAD: Bytes = Bytes(24);
const BITS_PER_BYTE: f64 = 8.0;
const NANOS_PER_SECOND: f64 = 1e9;

/// How long `frame` takes to cross a wire of `rate`.
fn wire_time(frame: Bytes, rate: BitRate) -> Nanos {
    Nanos(((frame.0 + WIRE_OVERHEAD.0) as f64 * BITS_PER_BYTE * NANOS_PER_SECOND / rate.0).round() as u64)
}

/// A buffer between two links.
#[derive(Clone, Debug)]
pub struct PassThrough {
    feed: BitRate,
    drain: BitRate,
    buffer: Bytes,
    /// When the frame that arrived last had arrived whole.
    arrived: Nanos,
    /// When the frame that leaves last will have left.
    departed: Nanos,
    /// Frames that take room: when each will have left, and its size; the oldest first.
    held: VecDeque<(Nanos, Bytes)>,
    occupied: Bytes,
}

impl PassThrough {
    /// An empty buffer of `buffer` bytes fed at `feed` and drained at `drain`.
    #[must_use]
    pub fn new(feed: BitRate, drain: BitRate, buffer: Bytes) -> Self {
        Self { feed, drain, buffer, arrived: Nanos(0), departed: Nanos(0), held: VecDeque::new(), occupied: Bytes(0) }
    }

    /// Takes a frame whose first bit comes at `now` or, if the feeding link is busy, when that is free. Returns when its last bit
    /// will have left; `None` if there is no room for it.
    ///
    /// Times must not go back from call to call.
    pub fn offer(&mut self, frame: Bytes, now: Nanos) -> Option<Nanos> {
        let arrived = self.arrive(frame, now);
        self.admit(frame, arrived)
    }

    /// Takes a frame off the feeding link, to which it is given at `now`; returns when its last bit has come.
    pub(super) fn arrive(&mut self, frame: Bytes, now: Nanos) -> Nanos {
        self.arrived = self.arrived.max(now) + wire_time(frame, self.feed);
        self.arrived
    }

    /// Takes a frame that arrived at `arrived` into the buffer; returns when its last bit will have left it.
    pub(super) fn admit(&mut self, frame: Bytes, arrived: Nanos) -> Option<Nanos> {
        self.release(arrived);
        if self.occupied + frame > self.buffer {
            return None;
        }
        let departed = self.occupy_drain(frame, arrived);
        self.held.push_back((departed, frame));
        self.occupied = self.occupied + frame;
        Some(departed)
    }

    /// Sends a frame over the draining link that takes no room in the buffer, at `now` or when the link is free; returns when
    /// its last bit will have left.
    pub fn occupy_drain(&mut self, frame: Bytes, now: Nanos) -> Nanos {
        self.departed = self.departed.max(now) + wire_time(frame, self.drain);
        self.departed
    }

    /// Gives back the room of frames that have left by `now`.
    fn release(&mut self, now: Nanos) {
        while let Some((_, frame)) = self.held.front().copied().filter(|(departed, _)| *departed <= now) {
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

    /// NC-SI reference 7.2: full frames a buffer takes at 1 and 25 Gbit/s into a sideband of 100 Mbit/s.
    #[test]
    fn a_burst_survives_as_far_as_whole_frames_fit() {
        for (buffer, at_1g, at_25g) in
            [(4096, 2, 2), (8192, 5, 5), (12_288, 8, 8), (16_384, 11, 10), (32_768, 23, 21), (65_536, 47, 43)]
        {
            assert_eq!((burst(buffer, GIGABIT), burst(buffer, BitRate(25e9))), (at_1g, at_25g), "{buffer} bytes");
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
        let left: Vec<u64> = (0..5).filter_map(|_| path.offer(FULL, Nanos(0))).map(|at| at.0).collect();
        // 1538 bytes at 1 Gbit/s take 12 304 ns, at 100 Mbit/s 123 040 ns.
        assert_eq!(left, [135_344, 258_384, 381_424, 504_464, 627_504]);
        assert_eq!(path.offer(FULL, Nanos(0)), None, "the sixth finds no room");
        assert!(path.offer(FULL, Nanos(135_344)).is_some(), "once the first has left there is room again");
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
}
