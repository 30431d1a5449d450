//! Numbers of frames: flows take turns, frame by frame, and each flow numbers its own.
//!
//! Frame `k` of a worker belongs to the `k mod n`-th of its `n` flows and has the number `k / n`
//! there; the genome gives its size by that number. The only state is `k`, so any backend, also one
//! in the kernel, can number any frame, and frames that were not taken are simply due again.

use super::sizes::Sizes;

/// The frames of one worker.
#[derive(Clone, Debug)]
pub(super) struct Numbering {
    next: u64,
    n_flows: u64,
    sizes: Sizes,
}

/// One frame: flow, number and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    /// Index of the flow among the worker's own.
    pub(super) flow_idx: usize,
    /// Number within the flow.
    pub(super) sequence: u64,
    /// Frame size, check sequence included.
    pub(super) size: usize,
}

impl Numbering {
    /// Creates the numbers of `n_flows` flows.
    pub(super) fn new(n_flows: usize, sizes: Sizes) -> Self {
        Self { next: 0, n_flows: n_flows as u64, sizes }
    }

    /// Returns the `ahead`-th of the next frames.
    #[inline]
    pub(super) fn ahead(&self, ahead: u64) -> Numbered {
        let k = self.next + ahead;
        let sequence = k / self.n_flows;
        Numbered { flow_idx: (k % self.n_flows) as usize, sequence, size: self.sizes.of(sequence) }
    }

    /// Counts the next `n` frames as sent; returns their bytes, check sequences included.
    #[inline]
    pub(super) fn advance(&mut self, n: u64) -> u64 {
        let before = self.bytes();
        self.next += n;
        self.bytes() - before
    }

    /// Returns the frames sent of the `flow_idx`-th flow, and their bytes, check sequences
    /// included.
    pub(super) fn sent(&self, flow_idx: usize) -> (u64, u64) {
        let n = (self.next + self.n_flows - 1 - flow_idx as u64) / self.n_flows;
        (n, self.sizes.bytes_of(n))
    }

    /// Returns the bytes of all sent frames. In an incomplete round, the first flows have sent one
    /// frame more.
    #[inline]
    fn bytes(&self) -> u64 {
        let (rounds, rest) = (self.next / self.n_flows, self.next % self.n_flows);
        let whole = self.sizes.bytes_of(rounds);
        whole * self.n_flows + rest * self.sizes.of(rounds) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_take_turns_and_every_frame_and_byte_is_accounted() {
        let size: super::super::sizes::FrameSize = "imix".parse().expect("a mixture");
        let mut numbering = Numbering::new(3, size.sizes().clone());
        let (mut frames, mut bytes, mut counted) = ([0_u64; 3], [0_u64; 3], 0);
        for step in [1, 7, 0, 64, 5, 200] {
            for ahead in 0..step {
                let frame = numbering.ahead(ahead);
                assert_eq!(
                    frame.sequence, frames[frame.flow_idx],
                    "each flow's numbers have no gap"
                );
                frames[frame.flow_idx] += 1;
                bytes[frame.flow_idx] += frame.size as u64;
            }
            counted += numbering.advance(step);
        }
        assert_eq!(counted, bytes.iter().sum::<u64>());
        assert_eq!(numbering.next, frames.iter().sum::<u64>());
        for idx in 0..3 {
            assert_eq!(numbering.sent(idx), (frames[idx], bytes[idx]));
        }
    }
}
