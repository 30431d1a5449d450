//! Connections whose other end has not proved anything yet: a bounded number of threads, and the oldest gives way.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Strangers that may be proving who they are at once.
const SLOTS: usize = 16;
/// Wait after the kernel could not give us a connection (out of descriptors, mostly).
const BREATH: Duration = Duration::from_millis(100);

type Slots = Arc<Mutex<VecDeque<(u64, TcpStream)>>>;

/// A stranger's place; given up when dropped, which is when it is known, or turned away.
pub(crate) struct Ticket {
    number: u64,
    slots: Slots,
}

fn lock(slots: &Slots) -> MutexGuard<'_, VecDeque<(u64, TcpStream)>> {
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.slots).retain(|(number, _)| *number != self.number);
    }
}

/// Gives `socket` a place; the oldest stranger is cut off if there is none left.
fn admit(slots: &Slots, number: u64, socket: &TcpStream) -> io::Result<Ticket> {
    let socket = socket.try_clone()?;
    let mut places = lock(slots);
    if places.len() >= SLOTS
        && let Some((_, oldest)) = places.pop_front()
    {
        // Its thread sees the end of the stream; if it is gone already, so much the better.
        let _ = oldest.shutdown(Shutdown::Both);
    }
    places.push_back((number, socket));
    drop(places);
    Ok(Ticket { number, slots: Arc::clone(slots) })
}

/// Takes connections until `stopping`, each met on a thread of its own. A thread that `meet` panics on ends alone.
pub(crate) fn accept_all(
    listener: &TcpListener,
    stopping: &AtomicBool,
    meet: impl Fn(TcpStream, SocketAddr, Ticket) + Send + Sync + 'static,
) {
    let meet = Arc::new(meet);
    let slots = Slots::default();
    for number in 0.. {
        let accepted = listener.accept();
        if stopping.load(Ordering::Relaxed) {
            return;
        }
        let admitted = accepted.and_then(|(socket, peer)| {
            let ticket = admit(&slots, number, &socket)?;
            let meet = Arc::clone(&meet);
            thread::Builder::new().name("linerate-greet".into()).spawn(move || meet(socket, peer, ticket))?;
            Ok(())
        });
        if admitted.is_err() {
            thread::sleep(BREATH);
        }
    }
}

/// Wakes a thread blocked in [`accept_all`] on `address` after its `stopping` was set.
pub(crate) fn wake(address: SocketAddr) {
    let reachable = match address.ip() {
        std::net::IpAddr::V4(ip) if ip.is_unspecified() => (std::net::Ipv4Addr::LOCALHOST, address.port()).into(),
        std::net::IpAddr::V6(ip) if ip.is_unspecified() => (std::net::Ipv6Addr::LOCALHOST, address.port()).into(),
        _ => address,
    };
    // If nobody listens any more, there is nobody to wake.
    let _ = TcpStream::connect_timeout(&reachable, Duration::from_secs(1));
}
