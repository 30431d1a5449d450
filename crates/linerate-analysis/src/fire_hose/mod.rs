//! The fire hose: a fast link that feeds a shallow buffer in front of a slow one, and the TCP
//! window that loses nothing.
//!
//! A management controller behind an NC-SI sideband, a switch port from 10 to 1 Gbit/s, a USB or
//! Wi-Fi bridge, the queue of a virtual machine: all are a [`Hose`]. Units: bytes in flight, bit/s;
//! frames are counted without FCS, as buffers and packet sockets do. Source:
//! docs/methodology/fire-hose.md#the-law; Intel, NC-SI Overview and Performance (2013) for the
//! case.
//!
//! Not covered: pause frames, buffers that several ports share, cell-sized allocation, and
//! congestion control that paces: such a sender may stay clean beyond the bracket.

mod attribution;
mod buffer;
mod sweep;

use linerate_model::{BitRate, Bytes, Nanos};

pub use attribution::{Attribution, Culprit, DropEvidence, Drops, attribute};
pub use buffer::{BufferSearch, Inferred};
pub use sweep::{Form, Onset, WindowPoint, onset};

use crate::limits::window::bandwidth_delay_product;

/// Bytes a frame occupies on an Ethernet wire beyond those a buffer holds: preamble and SFD 8, FCS
/// 4, gap 12 (IEEE 802.3 clauses 3.2 and 4.4.2).
const WIRE_OVERHEAD: Bytes = Bytes(24);
/// Segments a window must hold for acknowledgements to keep coming (RFC 9293 3.8.6.3 lets a
/// receiver wait for a second one).
const LEAST_SEGMENTS: u64 = 2;

/// A fast link, a shallow buffer, a slow link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hose {
    /// Size of the buffer.
    pub buffer: Bytes,
    /// Burst that passes beside it at once: the depth of a token bucket in front of it, 0 for a
    /// store-and-forward device.
    pub burst: Bytes,
    /// Rate of the fast link, as on the wire.
    pub feed: BitRate,
    /// Rate of the slow link, as on the wire.
    pub drain: BitRate,
    /// A full frame without FCS.
    pub frame: Bytes,
    /// TCP payload of a full frame.
    pub mss: Bytes,
    /// Round-trip time of the path while nothing waits.
    pub rtt: Nanos,
    /// Flows at once.
    pub flows: u32,
}

/// Data a sender may have in flight before frames are lost, by three forms of the law. All are sums
/// over the flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// Whole frames that fit without any draining, times the payload of a segment: safe at any
    /// feed.
    pub frame_granular: Bytes,
    /// A back-to-back burst that drains while it arrives, as a fluid; `None` where the feed is no
    /// faster than the drain.
    pub fluid: Option<Bytes>,
    /// The standing queue of a sender that its acknowledgements clock: the buffer and what the path
    /// itself holds.
    pub ack_clocked: Bytes,
    /// Data that fills the path without any queue.
    pub bandwidth_delay_product: Bytes,
    /// The window to set: the smaller of the frame-granular and the ACK-clocked form.
    pub safe: Bytes,
    /// The least that keeps acknowledgements coming.
    pub least: Bytes,
}

impl Hose {
    /// Returns the bracket.
    #[must_use]
    pub fn bracket(&self) -> Bracket {
        let room = self.buffer + self.burst;
        let product = bandwidth_delay_product(self.drain, self.rtt);
        // The fields are public, so a frame size of zero is possible.
        let frame_granular = Bytes(room.0 / self.frame.0.max(1) * self.mss.0);
        let ack_clocked = room + product;
        let fluid = (self.feed.0 > self.drain.0)
            // While the burst arrives at rate f, the fraction d / f of it leaves.
            .then(|| Bytes((room.0 as f64 / (1.0 - self.drain.0 / self.feed.0)).floor() as u64));
        Bracket {
            frame_granular,
            fluid,
            ack_clocked,
            bandwidth_delay_product: product,
            // The ACK-clocked form assumes a smooth sender; the frame-granular one holds for a
            // burst too. The smaller satisfies both.
            safe: frame_granular.min(ack_clocked),
            least: Bytes(LEAST_SEGMENTS * self.mss.0 * u64::from(self.flows.max(1))),
        }
    }

    /// Returns whether the feed can overrun the buffer at all.
    #[must_use]
    pub(crate) fn can_overrun(&self) -> bool {
        self.feed.0 > self.drain.0
    }

    /// Returns the room that `n` frames occupy at the end of their arrival, back to back into an
    /// empty buffer. A frame releases its room once it has left completely.
    pub(crate) fn occupied_by(&self, n: u32) -> Bytes {
        // The first frame begins to leave only once it has arrived completely (store and forward).
        let left = (f64::from(n.saturating_sub(1)) * self.drain.0 / self.feed.0).floor() as u64;
        Bytes(u64::from(n).saturating_sub(left) * self.frame.0)
    }

    /// Returns the full frames of a back-to-back burst that an empty buffer takes; `None` if there
    /// is no bound.
    #[must_use]
    pub fn longest_burst(&self) -> Option<u32> {
        // A feed that is no faster than the drain never fills the buffer.
        self.can_overrun().then(|| {
            let room = self.buffer + self.burst;
            (1..).take_while(|n| self.occupied_by(*n) <= room).last().unwrap_or(0)
        })
    }

    /// Returns the payload the slow link carries: a segment each frame time.
    pub fn full_rate(&self) -> BitRate {
        BitRate(self.drain.0 * self.mss.0 as f64 / (self.frame + WIRE_OVERHEAD).0 as f64)
    }

    /// Returns the goodput without loss at a window of `window` in all: a window each round trip,
    /// and never more than the slow link carries.
    pub fn goodput(&self, window: Bytes) -> BitRate {
        BitRate::over(window, self.rtt)
            .map_or(self.full_rate(), |rate| BitRate(rate.0.min(self.full_rate().0)))
    }

    /// Returns the flows that can share the hose without loss, two segments each (incast).
    #[must_use]
    pub(crate) fn most_flows(&self) -> u64 {
        self.bracket().ack_clocked.0 / (LEAST_SEGMENTS * self.mss.0).max(1)
    }
}

impl Bracket {
    /// Returns whether there is a window that loses nothing and still carries data.
    #[must_use]
    pub fn loss_free_exists(&self) -> bool {
        self.safe >= self.least
    }

    /// Returns whether the safe window also fills the path: no loss and full rate at once.
    #[must_use]
    pub fn full_rate_possible(&self) -> bool {
        self.loss_free_exists() && self.bandwidth_delay_product <= self.safe
    }

    /// Returns the range where loss must begin as a single sender's window grows: between the form
    /// that holds at any feed rate and the most generous of the others.
    pub fn onset(&self) -> [Bytes; 2] {
        // At equal rates there is no fluid form.
        let generous = self.fluid.map_or(self.ack_clocked, |fluid| fluid.max(self.ack_clocked));
        [self.safe, generous]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The paper's sideband: 8 KiB between 1 Gbit/s and 100 Mbit/s, half a millisecond.
    pub(crate) const SIDEBAND: Hose = Hose {
        buffer: Bytes(8192),
        burst: Bytes(0),
        feed: BitRate(1e9),
        drain: BitRate(1e8),
        frame: Bytes(1514),
        mss: Bytes(1460),
        rtt: Nanos(500_000),
        flows: 1,
    };

    #[test]
    fn the_papers_sideband_has_the_bracket_of_the_methodology() {
        // docs/methodology/fire-hose.md#the-law: 5 frames of 1460 bytes, 9102 bytes as a fluid,
        // 8192 + 6250 with acknowledgements.
        let bracket = SIDEBAND.bracket();
        assert_eq!(
            (bracket.frame_granular, bracket.fluid, bracket.ack_clocked, bracket.safe),
            (Bytes(7300), Some(Bytes(9102)), Bytes(14_442), Bytes(7300))
        );
        assert!(bracket.loss_free_exists() && bracket.full_rate_possible());
        assert_eq!(bracket.onset(), [Bytes(7300), Bytes(14_442)]);
    }

    #[test]
    fn bursts_survive_as_the_reference_simulates() {
        // NC-SI reference 7.2: 4, 8, 12, 16, 32, 64 KiB at 1 Gbit/s and at 25 Gbit/s.
        for (kib, at_1g, at_25g) in
            [(4, 2, 2), (8, 5, 5), (12, 8, 8), (16, 11, 10), (32, 23, 21), (64, 47, 43)]
        {
            let hose = Hose { buffer: Bytes(kib << 10), ..SIDEBAND };
            assert_eq!(hose.longest_burst(), Some(at_1g), "{kib} KiB at 1 Gbit/s");
            assert_eq!(
                Hose { feed: BitRate(25e9), ..hose }.longest_burst(),
                Some(at_25g),
                "{kib} KiB at 25 Gbit/s"
            );
        }
    }

    #[test]
    fn without_a_faster_feed_nothing_overruns() {
        let even = Hose { feed: BitRate(1e8), ..SIDEBAND };
        assert_eq!(
            (even.longest_burst(), even.bracket().fluid, even.can_overrun()),
            (None, None, false)
        );
    }

    #[test]
    fn a_long_path_cannot_have_both_full_rate_and_no_loss() {
        // NC-SI reference 7.2: 7300 bytes give 58 Mbit/s at 1 ms, and 8 KiB fills 100 Mbit/s up to
        // about 0.6 ms only.
        let long = Hose { rtt: Nanos(1_000_000), ..SIDEBAND };
        assert!(!long.bracket().full_rate_possible());
        assert_eq!(long.goodput(Bytes(7300)), BitRate(58.4e6));
        let full = SIDEBAND.goodput(Bytes(1 << 20)).0;
        assert!((full - 94.93e6).abs() < 0.01e6, "{full}");
    }

    #[test]
    fn a_buffer_of_one_frame_leaves_no_window() {
        let tiny = Hose { buffer: Bytes(2048), ..SIDEBAND };
        assert!(!tiny.bracket().loss_free_exists());
    }

    #[test]
    fn many_senders_share_what_one_may_have() {
        // (8192 + 6250) / 2920.
        assert_eq!(SIDEBAND.most_flows(), 4);
        assert!(!Hose { flows: 5, ..SIDEBAND }.bracket().loss_free_exists());
    }
}
