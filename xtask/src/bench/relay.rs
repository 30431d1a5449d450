//! The user-space hop of paths that need delay, another order, or limits of their own. Kernels
//! without `netem` can neither delay nor reorder.
//!
//! Both ends tunnel Ethernet frames in VXLAN (RFC 7348) to the relay, which forwards each datagram
//! to the other end. It shares no code with the elements of linerate's own labs. On the end of
//! standard input the relay prints what it counted in each direction as JSON, and ends.

use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

/// Port of VXLAN, assigned by IANA (RFC 7348 clause 8).
pub(super) const VXLAN_PORT: u16 = 4789;
/// Header of VXLAN, in bytes, and that of Ethernet.
pub(super) const VXLAN: usize = 8;
pub(super) const ETHERNET: usize = 14;
/// Largest datagram there is.
const MOST_BYTES: usize = 65_536;
/// Receive buffer of the relay, in bytes: a burst of a whole window must not be lost here.
const ROOM: usize = 4 << 20;

/// Treatment of the datagrams of one direction.
pub(super) trait Treatment: Send + 'static {
    /// Returns the datagrams that leave because `datagram` arrives `now`, each with the time at
    /// which it leaves; `None` is at once. The times of a direction never decrease.
    fn arrive(&mut self, now: Instant, datagram: &[u8]) -> Vec<(Option<Instant>, Vec<u8>)>;

    /// Takes note that `datagram`, which left later than at once, was sent, because of an arrival
    /// at `arrived`.
    fn sent(&mut self, arrived: Instant, datagram: &[u8]) {
        let _most_do_not_count_it = (arrived, datagram);
    }

    /// Returns what was counted.
    fn counts(&self) -> Value;
}

/// A datagram on its way: when it came, when it leaves.
type Departure = (Instant, Instant, Vec<u8>);

/// Parses the address of the relay or of an end.
fn address(word: &String) -> anyhow::Result<IpAddr> {
    word.parse().with_context(|| format!("relay: {word}: not an address"))
}

fn lock<T>(way: &Mutex<T>) -> MutexGuard<'_, T> {
    way.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Relays between two ends until standard input ends. `addresses` are those of the relay and of the
/// ends, and `ways` the directions from the first end to the second and back.
///
/// # Errors
/// If an address is wrong or the port is in use.
pub(super) fn run<T: Treatment>(addresses: &[String; 3], ways: [T; 2]) -> anyhow::Result<bool> {
    let [own, a, b] = addresses;
    let (own, ends) = (SocketAddr::new(address(own)?, VXLAN_PORT), [address(a)?, address(b)?]);
    let socket =
        Socket::new(Domain::for_address(own), Type::DGRAM, None).context("open a socket")?;
    socket.set_recv_buffer_size(ROOM).context("enlarge the relay's receive buffer")?;
    socket.bind(&own.into()).with_context(|| format!("bind {own}"))?;
    let socket: Arc<UdpSocket> = Arc::new(socket.into());
    let ways = Arc::new(ways.map(Mutex::new));
    let mut waiting = Vec::new();
    for way in 0..ends.len() {
        let (due, departures) = mpsc::channel();
        waiting.push(due);
        let (socket, ways) = (Arc::clone(&socket), Arc::clone(&ways));
        let to = SocketAddr::new(ends[1 - way], VXLAN_PORT);
        std::thread::spawn(move || depart(&socket, to, &departures, &ways[way]));
    }
    let counted = Arc::clone(&ways);
    std::thread::spawn(move || arrive(&socket, ends, &waiting, &ways));
    println!("ready");
    // Standard input is closed on purpose, or because the parent ended.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    let [there, back] = [&counted[0], &counted[1]].map(|way| lock(way).counts());
    println!("{}", json!({ "there": there, "back": back }));
    Ok(true)
}

fn arrive<T: Treatment>(
    socket: &UdpSocket,
    ends: [IpAddr; 2],
    waiting: &[mpsc::Sender<Departure>],
    ways: &[Mutex<T>; 2],
) {
    let mut buffer = vec![0; MOST_BYTES];
    while let Ok((n_bytes, from)) = socket.recv_from(&mut buffer) {
        let arrived = Instant::now();
        let Some(way) = ends.iter().position(|end| *end == from.ip()) else { continue };
        let leaving = lock(&ways[way]).arrive(arrived, &buffer[..n_bytes]);
        for (due, datagram) in leaving {
            let Some(due) = due else {
                // A datagram that the kernel refuses is a loss like any other: the ends' counters
                // show it.
                let _ = socket.send_to(&datagram, SocketAddr::new(ends[1 - way], VXLAN_PORT));
                continue;
            };
            if waiting[way].send((arrived, due, datagram)).is_err() {
                return;
            }
        }
    }
}

/// Sends each datagram when it is due. Within a direction the times never decrease, so the first in
/// is the first out.
fn depart<T: Treatment>(
    socket: &UdpSocket,
    to: SocketAddr,
    departures: &mpsc::Receiver<Departure>,
    way: &Mutex<T>,
) {
    while let Ok((arrived, due, datagram)) = departures.recv() {
        if let Some(wait) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(wait);
        }
        // As above.
        let _ = socket.send_to(&datagram, to);
        lock(way).sent(arrived, &datagram);
    }
}
