//! A user-space hop between two tunnels: delay, rate, buffer, policer, loss and MTU of each
//! direction.
//!
//! Both ends tunnel Ethernet frames in VXLAN (RFC 7348) to the relay, which forwards each frame to
//! the other end when it is due. It shares no code with the elements of linerate's own labs. The
//! decision about a frame is a function of the time of its arrival, so that tests need no clock.
//! Rates count Ethernet frames without FCS. On the end of standard input the relay prints the
//! frames that it forwarded and dropped in each direction as JSON, and ends.

use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use super::draw::Draw;

/// Port of VXLAN, assigned by IANA (RFC 7348 clause 8).
const VXLAN_PORT: u16 = 4789;
/// Header of VXLAN, in bytes, and that of Ethernet.
const VXLAN: usize = 8;
const ETHERNET: usize = 14;
/// Largest datagram there is.
const MOST_BYTES: usize = 65_536;
/// Receive buffer of the relay, in bytes: a burst of a whole window must not be lost here.
const ROOM: usize = 4 << 20;
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
            free_at: 0.0,
            tokens: hop.bucket,
            filled_at: 0.0,
            is_losing: false,
            random: Draw::new(seed),
            counts: Counts::default(),
        }
    }

    /// Returns when a frame of `n_bytes` that arrives at `now` leaves; `None` if it is dropped.
    fn arrive(&mut self, now: f64, n_bytes: usize) -> Option<f64> {
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

/// A datagram and the time at which it leaves.
type Departure = (Instant, Vec<u8>);

/// Relays between two ends until standard input ends: `OWN END END SEED HOP HOP`, each hop as JSON.
///
/// # Errors
/// If an argument is wrong or the port is in use.
pub(super) fn run(arguments: &[String]) -> anyhow::Result<bool> {
    let [own, a, b, seed, there, back] = arguments else {
        bail!("relay: OWN END END SEED HOP HOP expected, not {arguments:?}")
    };
    let address = |word: &String| {
        word.parse::<IpAddr>().with_context(|| format!("relay: {word}: not an address"))
    };
    let (own, ends) = (address(own)?, [address(a)?, address(b)?]);
    let seed: u64 = seed.parse().with_context(|| format!("relay: {seed}: not a seed"))?;
    let hop = |text: &String| {
        serde_json::from_str::<Hop>(text).with_context(|| format!("relay: {text}: not a hop"))
    };
    let queues = [Queue::new(hop(there)?, seed), Queue::new(hop(back)?, seed + 1)];
    let socket = socket(SocketAddr::new(own, VXLAN_PORT))?;
    let counts: Arc<Mutex<[Counts; 2]>> = Arc::default();
    let mut waiting = Vec::new();
    for end in [ends[1], ends[0]] {
        let (due, departures) = mpsc::channel();
        waiting.push(due);
        let departing = socket.try_clone().context("share the relay's socket")?;
        std::thread::spawn(move || {
            depart(&departing, SocketAddr::new(end, VXLAN_PORT), &departures);
        });
    }
    std::thread::spawn({
        let counts = Arc::clone(&counts);
        move || arrive(&socket, ends, queues, &waiting, &counts)
    });
    println!("ready");
    // Standard input is closed on purpose, or because the parent ended.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    let [there, back] = *counts.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{}", serde_json::json!({ "there": there, "back": back }));
    Ok(true)
}

fn socket(own: SocketAddr) -> anyhow::Result<UdpSocket> {
    let socket =
        Socket::new(Domain::for_address(own), Type::DGRAM, None).context("open a socket")?;
    socket.set_recv_buffer_size(ROOM).context("enlarge the relay's receive buffer")?;
    socket.bind(&own.into()).with_context(|| format!("bind {own}"))?;
    Ok(socket.into())
}

fn arrive(
    socket: &UdpSocket,
    ends: [IpAddr; 2],
    mut queues: [Queue; 2],
    waiting: &[mpsc::Sender<Departure>],
    counts: &Mutex<[Counts; 2]>,
) {
    let begun = Instant::now();
    let mut buffer = vec![0; MOST_BYTES];
    while let Ok((n_bytes, from)) = socket.recv_from(&mut buffer) {
        let Some(way) = ends.iter().position(|end| *end == from.ip()) else { continue };
        let now = begun.elapsed().as_secs_f64();
        let leaves = queues[way].arrive(now, n_bytes.saturating_sub(VXLAN));
        counts.lock().unwrap_or_else(PoisonError::into_inner)[way] = queues[way].counts;
        if let Some(at) = leaves {
            let due = begun + Duration::from_secs_f64(at);
            if waiting[way].send((due, buffer[..n_bytes].to_vec())).is_err() {
                return;
            }
        }
    }
}

/// Sends each datagram when it is due. Within a direction the times never decrease, so the first in
/// is the first out.
fn depart(socket: &UdpSocket, to: SocketAddr, departures: &mpsc::Receiver<Departure>) {
    while let Ok((due, datagram)) = departures.recv() {
        if let Some(wait) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(wait);
        }
        // A datagram that the kernel refuses is a loss like any other: the ends' counters show it.
        let _ = socket.send_to(&datagram, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 1514;

    /// Sends `n` frames, one every `gap` seconds, and returns when they left.
    fn sent(hop: Hop, n: usize, gap: f64) -> (Vec<f64>, Counts) {
        let mut queue = Queue::new(hop, 7);
        let left = (0..n).filter_map(|at| queue.arrive(at as f64 * gap, FRAME)).collect();
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
                (0..200_000).map(|_| queue.arrive(0.0, FRAME).is_none()).collect();
            let n_lost = lost.iter().filter(|lost| **lost).count() as f64;
            let n_runs = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
            assert!((n_lost / 200_000.0 / 0.02 - 1.0).abs() < 0.15, "{n_lost} at {burst}");
            assert!((n_lost / n_runs / burst - 1.0).abs() < 0.15, "{n_lost} / {n_runs} at {burst}");
        }
    }

    #[test]
    fn a_packet_that_is_too_large_is_dropped() {
        let mut queue = Queue::new(Hop { mtu: 1400, ..Hop::default() }, 1);
        assert_eq!(queue.arrive(0.0, 1400 + ETHERNET), Some(0.0));
        assert_eq!(queue.arrive(0.0, 1401 + ETHERNET), None);
        assert_eq!(queue.counts.too_large, 1);
    }
}
