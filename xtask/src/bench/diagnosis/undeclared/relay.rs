//! Limits of the relay (`bench/relay.rs`): delay, rate, buffer, policer, loss and MTU of each
//! direction.
//!
//! The decision about a frame is a function of the time of its arrival, so that tests need no
//! clock. Rates count Ethernet frames without FCS.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::super::relay::{self, ETHERNET, Treatment, VXLAN};
use super::super::draw::Draw;

const BITS_PER_BYTE: f64 = 8.0;

/// Treatment of frames in one direction. Zero means: no such limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Hop {
    /// Delay of each frame, s.
    pub(super) delay: f64,
    /// Rate of the link, bit/s, and its buffer in bytes.
    pub(super) rate: f64,
    pub(super) buffer: f64,
    /// Token rate of a policer, bit/s, and its bucket in bytes.
    pub(super) token_rate: f64,
    pub(super) bucket: f64,
    /// Share of the frames that are lost, and the mean length of a run of lost frames.
    pub(super) loss: f64,
    pub(super) burst: f64,
    /// Largest IP packet that passes, in bytes. No ICMP message reports a larger one.
    pub(super) mtu: usize,
}

/// Frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Counts {
    forwarded: u64,
    /// Dropped because the buffer was full, by the policer, at random, and because of their size.
    overflowed: u64,
    policed: u64,
    lost: u64,
    too_large: u64,
}

/// State of a hop. Times are seconds since its start.
#[derive(Debug)]
struct Queue {
    hop: Hop,
    began: Instant,
    /// When the link has sent all frames in the buffer.
    free_at: f64,
    tokens: f64,
    filled_at: f64,
    is_losing: bool,
    random: Draw,
    counts: Counts,
}

impl Queue {
    fn new(hop: Hop, seed: u64) -> Self {
        Self {
            hop,
            began: Instant::now(),
            free_at: 0.0,
            tokens: hop.bucket,
            filled_at: 0.0,
            is_losing: false,
            random: Draw::new(seed),
            counts: Counts::default(),
        }
    }

    /// Returns when a frame of `n_bytes` that arrives at `now` leaves; `None` if it is dropped.
    fn leaves(&mut self, now: f64, n_bytes: usize) -> Option<f64> {
        let hop = self.hop;
        let bytes = n_bytes as f64;
        if hop.mtu > 0 && n_bytes > hop.mtu + ETHERNET {
            self.counts.too_large += 1;
            return None;
        }
        if hop.loss > 0.0 && self.loses() {
            self.counts.lost += 1;
            return None;
        }
        if hop.token_rate > 0.0 {
            let earned = (now - self.filled_at) * hop.token_rate / BITS_PER_BYTE;
            self.tokens = (self.tokens + earned).min(hop.bucket);
            self.filled_at = now;
            if self.tokens < bytes {
                self.counts.policed += 1;
                return None;
            }
            self.tokens -= bytes;
        }
        let mut sent = now;
        if hop.rate > 0.0 {
            let begins = self.free_at.max(now);
            let waiting = (begins - now) * hop.rate / BITS_PER_BYTE;
            if waiting + bytes > hop.buffer {
                self.counts.overflowed += 1;
                return None;
            }
            sent = begins + bytes * BITS_PER_BYTE / hop.rate;
            self.free_at = sent;
        }
        self.counts.forwarded += 1;
        Some(sent + hop.delay)
    }

    /// Decides a frame's loss by a chain of two states (Gilbert 1960): its share of lost frames is
    /// `loss`, and a run of them has a mean length of `burst`.
    fn loses(&mut self) -> bool {
        let run = self.hop.burst.max(1.0);
        let chance = if self.is_losing {
            1.0 - 1.0 / run
        } else {
            self.hop.loss / (1.0 - self.hop.loss) / run
        };
        self.is_losing = self.random.share() < chance;
        self.is_losing
    }
}

impl Treatment for Queue {
    fn arrive(&mut self, now: Instant, datagram: &[u8]) -> Vec<(Option<Instant>, Vec<u8>)> {
        let since = now.saturating_duration_since(self.began).as_secs_f64();
        let leaves = self.leaves(since, datagram.len().saturating_sub(VXLAN));
        let due = leaves.map(|at| self.began + Duration::from_secs_f64(at));
        due.map(|due| (Some(due), datagram.to_vec())).into_iter().collect()
    }

    fn counts(&self) -> Value {
        json!(self.counts)
    }
}

/// Relays until standard input ends: `OWN END END SEED HOP HOP`, each hop as JSON.
///
/// # Errors
/// If an argument is wrong or the port is in use.
pub(super) fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let Some((addresses, [seed, there, back])) = arguments.split_first_chunk() else {
        bail!("relay: OWN END END SEED HOP HOP expected, not {arguments:?}")
    };
    let seed: u64 = seed.parse().with_context(|| format!("relay: {seed}: not a seed"))?;
    let hop = |text: &String| {
        serde_json::from_str::<Hop>(text).with_context(|| format!("relay: {text}: not a hop"))
    };
    relay::run(addresses, [Queue::new(hop(there)?, seed), Queue::new(hop(back)?, seed + 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 1514;

    /// Sends `n` frames, one every `gap` seconds, and returns when they left.
    fn sent(hop: Hop, n: usize, gap: f64) -> (Vec<f64>, Counts) {
        let mut queue = Queue::new(hop, 7);
        let left = (0..n).filter_map(|at| queue.leaves(at as f64 * gap, FRAME)).collect();
        (left, queue.counts)
    }

    #[test]
    fn a_slow_link_spaces_frames_and_drops_those_beyond_its_buffer() {
        // 12,112 bits of a frame take 1 ms.
        let hop = Hop { rate: 12.112e6, buffer: 3.0 * 1514.0, delay: 0.01, ..Hop::default() };
        let (left, counts) = sent(hop, 6, 0.0);
        let expected = [0.011, 0.012, 0.013];
        assert_eq!(left.len(), 3);
        assert!(left.iter().zip(expected).all(|(at, due)| (at - due).abs() < 1e-9), "{left:?}");
        assert_eq!((counts.forwarded, counts.overflowed), (3, 3));
    }

    #[test]
    fn a_policer_passes_its_bucket_and_then_its_rate_without_delay() {
        let hop = Hop { token_rate: 6.056e6, bucket: 10.0 * 1514.0, ..Hop::default() };
        // Offered at twice the token rate.
        let (left, counts) = sent(hop, 1_010, 0.001);
        assert!((left[9] - 0.009).abs() < 1e-9, "no delay: {}", left[9]);
        assert!((505..=520).contains(&counts.forwarded), "{counts:?}");
        assert_eq!(counts.forwarded + counts.policed, 1_010);
    }

    #[test]
    fn loss_has_its_share_and_its_length_of_runs() {
        for burst in [1.0, 8.0] {
            let hop = Hop { loss: 0.02, burst, ..Hop::default() };
            let mut queue = Queue::new(hop, 3);
            let lost: Vec<bool> =
                (0..200_000).map(|_| queue.leaves(0.0, FRAME).is_none()).collect();
            let n_lost = lost.iter().filter(|lost| **lost).count() as f64;
            let n_runs = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
            assert!((n_lost / 200_000.0 / 0.02 - 1.0).abs() < 0.15, "{n_lost} at {burst}");
            assert!((n_lost / n_runs / burst - 1.0).abs() < 0.15, "{n_lost} / {n_runs} at {burst}");
        }
    }

    #[test]
    fn a_packet_that_is_too_large_is_dropped() {
        let mut queue = Queue::new(Hop { mtu: 1400, ..Hop::default() }, 1);
        assert_eq!(queue.leaves(0.0, 1400 + ETHERNET), Some(0.0));
        assert_eq!(queue.leaves(0.0, 1401 + ETHERNET), None);
        assert_eq!(queue.counts.too_large, 1);
    }
}
