//! A relay of UDP datagrams between two addresses, with exact faults: the path of cases that need
//! delay or another order.
//!
//! Kernels without `netem` can neither delay nor reorder. Here both ends tunnel Ethernet frames in
//! VXLAN (RFC 7348) to the relay, which forwards each datagram to the other end. Faults concern
//! frames whose inner IPv4 packet is UDP of one given length, so that control traffic passes
//! untouched, and counts are exact. On the end of standard input the relay prints its counts as
//! JSON and ends.

use std::collections::VecDeque;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// Port of VXLAN, assigned by IANA (RFC 7348 clause 8).
pub(super) const VXLAN_PORT: u16 = 4789;
/// VXLAN header, then Ethernet's: where the inner IPv4 header begins.
const INNER_IP: usize = 8 + 14;
/// Within an IPv4 header: total length and protocol (RFC 791 clause 3.1).
const IP_LENGTH: usize = 2;
const IP_PROTOCOL: usize = 9;
const PROTOCOL_UDP: u8 = 17;
/// Ethertype of IPv4, just before the IPv4 header.
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
/// Largest datagram there is.
const MOST_BYTES: usize = 65_536;

/// Treatment of frames that count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Faults {
    /// Total length of the inner IPv4 packets that count, B.
    pub(super) ip_length: u16,
    /// How long a frame is kept, each way.
    pub(super) delay: Duration,
    /// Which frames.
    pub(super) delays: Delays,
    /// Hold back every N-th frame that counts until three others that count have passed it; 0:
    /// none.
    pub(super) reorder_every: u64,
}

/// Which frames the relay delays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Delays {
    /// Those that count.
    #[default]
    Load,
    /// All others: control traffic.
    Others,
}

/// How many later frames pass one that is held back.
const OVERTAKING: usize = 3;

impl Faults {
    pub(super) fn arguments(&self) -> [String; 4] {
        let delay_us = self.delay.as_micros();
        [
            self.ip_length.to_string(),
            delay_us.to_string(),
            u8::from(self.delays == Delays::Others).to_string(),
            self.reorder_every.to_string(),
        ]
    }

    fn parse(words: &[String]) -> anyhow::Result<Self> {
        let [length, delay_us, others, reorder] = words else {
            bail!("relay: four values expected, not {words:?}")
        };
        Ok(Self {
            ip_length: length.parse().context("relay: length of packets")?,
            delay: Duration::from_micros(delay_us.parse().context("relay: delay in us")?),
            delays: if others == "1" { Delays::Others } else { Delays::Load },
            reorder_every: reorder.parse().context("relay: reorder every")?,
        })
    }

    /// Returns true if `datagram`, a VXLAN header and a frame, counts.
    fn counts(&self, datagram: &[u8]) -> bool {
        datagram.get(INNER_IP - 2..INNER_IP) == Some(&ETHERTYPE_IPV4)
            && datagram.get(INNER_IP + IP_PROTOCOL) == Some(&PROTOCOL_UDP)
            && datagram.get(INNER_IP + IP_LENGTH..INNER_IP + IP_LENGTH + 2)
                == Some(&self.ip_length.to_be_bytes())
    }
}

/// The order in which datagrams of one direction leave.
#[derive(Debug, Default)]
struct Order {
    n_counted: u64,
    /// Held back, with how many have yet to pass it.
    held: VecDeque<(Vec<u8>, usize)>,
}

impl Order {
    /// Returns the datagrams that leave when `datagram` arrives.
    fn pass(&mut self, datagram: Vec<u8>, faults: &Faults) -> Vec<Vec<u8>> {
        if !faults.counts(&datagram) {
            return vec![datagram];
        }
        self.n_counted += 1;
        if faults.reorder_every > 0 && self.n_counted.is_multiple_of(faults.reorder_every) {
            self.held.push_back((datagram, OVERTAKING));
            return Vec::new();
        }
        let mut leaving = vec![datagram];
        for held in &mut self.held {
            held.1 -= 1;
        }
        while self.held.front().is_some_and(|held| held.1 == 0) {
            leaving.extend(self.held.pop_front().map(|held| held.0));
        }
        leaving
    }
}

/// Counts of one direction.
#[derive(Debug, Default)]
struct Counts {
    /// Frames that count.
    seen: AtomicU64,
    /// Of these, those that others passed.
    held: AtomicU64,
    /// Time between arrival and departure of each frame that counts, us.
    stayed_us: Mutex<Vec<u64>>,
}

impl Counts {
    fn median_stay_us(&self) -> Option<u64> {
        let mut stays = self.stayed_us.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stays.sort_unstable();
        stays.get(stays.len() / 2).copied()
    }
}

/// Relays between `ends` at `own` until standard input ends: `relay OWN END END LENGTH DELAY_US
/// OTHERS REORDER_EVERY`.
///
/// # Errors
/// If an argument is wrong or the port is in use.
pub(super) fn run(arguments: &[String]) -> anyhow::Result<bool> {
    ensure!(arguments.len() > 3, "relay: OWN END END LENGTH DELAY_US OTHERS REORDER_EVERY");
    let address = |word: &String| {
        word.parse::<IpAddr>().with_context(|| format!("relay: {word}: not an address"))
    };
    let (own, ends) = (address(&arguments[0])?, [address(&arguments[1])?, address(&arguments[2])?]);
    let faults = Faults::parse(&arguments[3..])?;
    let socket =
        UdpSocket::bind((own, VXLAN_PORT)).with_context(|| format!("bind {own}:{VXLAN_PORT}"))?;
    let counts: Arc<[Counts; 2]> = Arc::default();
    let (due, departures) = mpsc::channel();
    let departing = socket.try_clone().context("share the relay's socket")?;
    let counted = Arc::clone(&counts);
    std::thread::spawn(move || depart(&departing, &departures, &faults, &counted));
    std::thread::spawn({
        let counts = Arc::clone(&counts);
        move || arrive(&socket, ends, &faults, &due, &counts)
    });
    println!("ready");
    // It is closed on purpose, or with the parent.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    fn told(counts: &Counts) -> serde_json::Value {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);

        serde_json::json!({ "seen": read(&counts.seen), "held": read(&counts.held),
            "stayed_us": counts.median_stay_us() })
    }
    println!("{}", serde_json::json!({ "there": told(&counts[0]), "back": told(&counts[1]) }));
    Ok(true)
}

/// A datagram on its way: when it came, which way it goes, where to.
type Departure = (Instant, usize, SocketAddr, Vec<u8>);

fn arrive(
    socket: &UdpSocket,
    ends: [IpAddr; 2],
    faults: &Faults,
    due: &mpsc::Sender<Departure>,
    counts: &[Counts; 2],
) {
    let mut orders = [Order::default(), Order::default()];
    let mut buffer = vec![0; MOST_BYTES];
    while let Ok((n_bytes, from)) = socket.recv_from(&mut buffer) {
        let arrived = Instant::now();
        let Some(way) = ends.iter().position(|end| *end == from.ip()) else { continue };
        let datagram = buffer[..n_bytes].to_vec();
        let n_held = orders[way].held.len();
        let leaving = orders[way].pass(datagram, faults);
        counts[way].seen.store(orders[way].n_counted, Ordering::Relaxed);
        if leaving.is_empty() && orders[way].held.len() > n_held {
            counts[way].held.fetch_add(1, Ordering::Relaxed);
        }
        for datagram in leaving {
            let to = SocketAddr::new(ends[1 - way], VXLAN_PORT);
            if (faults.delays == Delays::Load) != faults.counts(&datagram) {
                // A datagram the kernel refuses is a loss like any other; the ends' counters show
                // it.
                let _ = socket.send_to(&datagram, to);
                continue;
            }
            if due.send((arrived, way, to, datagram)).is_err() {
                return;
            }
        }
    }
}

/// Sends each datagram when it has been here for the delay. All are kept equally long, so that the
/// first in is the first out.
fn depart(
    socket: &UdpSocket,
    departures: &mpsc::Receiver<Departure>,
    faults: &Faults,
    counts: &[Counts; 2],
) {
    while let Ok((arrived, way, to, datagram)) = departures.recv() {
        if let Some(wait) = (arrived + faults.delay).checked_duration_since(Instant::now()) {
            std::thread::sleep(wait);
        }
        // As above.
        let _ = socket.send_to(&datagram, to);
        if faults.counts(&datagram) {
            let stayed_us = u64::try_from(arrived.elapsed().as_micros()).unwrap_or(u64::MAX);
            counts[way].stayed_us.lock().unwrap_or_else(PoisonError::into_inner).push(stayed_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A VXLAN header, an Ethernet header, and an IPv4 packet of `length` with `mark` as its last
    /// byte.
    fn datagram(length: u16, protocol: u8, mark: u8) -> Vec<u8> {
        let mut bytes = vec![0; INNER_IP + usize::from(length)];
        bytes[INNER_IP - 2..INNER_IP].copy_from_slice(&ETHERTYPE_IPV4);
        bytes[INNER_IP + IP_LENGTH..INNER_IP + IP_LENGTH + 2]
            .copy_from_slice(&length.to_be_bytes());
        bytes[INNER_IP + IP_PROTOCOL] = protocol;
        *bytes.last_mut().expect("not empty") = mark;
        bytes
    }

    #[test]
    fn every_nth_datagram_that_counts_is_overtaken_by_three() {
        let faults = Faults { ip_length: 100, reorder_every: 4, ..Faults::default() };
        let mut order = Order::default();
        let mut left = Vec::new();
        for mark in 1..=8 {
            left.extend(order.pass(datagram(100, PROTOCOL_UDP, mark), &faults));
        }
        let marks: Vec<u8> = left.iter().filter_map(|datagram| datagram.last().copied()).collect();
        // The 8th is held at the end, and the 4th left behind the 7th.
        assert_eq!(marks, [1, 2, 3, 5, 6, 7, 4]);
    }

    #[test]
    fn other_traffic_is_not_touched() {
        let faults = Faults { ip_length: 100, reorder_every: 1, ..Faults::default() };
        let mut order = Order::default();
        assert_eq!(order.pass(datagram(101, PROTOCOL_UDP, 1), &faults).len(), 1);
        assert_eq!(order.pass(datagram(100, 6, 1), &faults).len(), 1);
        assert_eq!(order.pass(vec![1, 2, 3], &faults).len(), 1);
        assert_eq!(order.pass(datagram(100, PROTOCOL_UDP, 1), &faults).len(), 0);
    }
}
