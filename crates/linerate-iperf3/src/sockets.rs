//! Waiting for sockets, and bytes of control connections.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use linerate_sys::tcp;
use socket2::Socket;

/// Waits until one of `sockets` is ready as wanted (`true`: readable, `false`: writable), at the
/// longest for `patience`. Returns which are ready.
pub(crate) fn wait(sockets: &[(&dyn AsFdObject, bool)], patience: Duration) -> Vec<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut watched: Vec<PollFd<'_>> = sockets
        .iter()
        .map(|(socket, reads)| {
            let flags = if *reads { PollFlags::IN } else { PollFlags::OUT };
            PollFd::from_borrowed_fd(socket.fd(), flags)
        })
        .collect();
    let patience = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    match poll(&mut watched, Some(&patience)) {
        Ok(_) => watched.iter().map(|one| !one.revents().is_empty()).collect(),
        // A signal: the owner looks at the clock.
        Err(_) => vec![false; sockets.len()],
    }
}

/// Most sockets that [`wait_for`] watches beside the first: the streams of both directions.
const WATCHED: usize = 2 * crate::wire::MAX_STREAMS as usize;

/// Waits like [`wait`] until the first socket is readable or one of the others is ready as wanted.
/// Returns which of the others are ready. It allocates nothing, because a load calls it.
pub(crate) fn wait_for<'a>(
    (first, others): (&'a Socket, impl Iterator<Item = (&'a Socket, bool)>),
    patience: Duration,
) -> [bool; WATCHED] {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let of_first = |_| PollFd::from_borrowed_fd(first.as_fd(), PollFlags::IN);
    let mut watched: [PollFd<'_>; WATCHED + 1] = std::array::from_fn(of_first);
    let mut n = 1;
    for (place, (socket, reads)) in watched[1..].iter_mut().zip(others) {
        let flags = if reads { PollFlags::IN } else { PollFlags::OUT };
        *place = PollFd::from_borrowed_fd(socket.as_fd(), flags);
        n += 1;
    }
    let patience = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    let mut ready = [false; WATCHED];
    // A signal ends the wait; the owner looks at the clock.
    if poll(&mut watched[..n], Some(&patience)).is_ok() {
        for (is_ready, one) in ready.iter_mut().zip(&watched[1..n]) {
            *is_ready = !one.revents().is_empty();
        }
    }
    ready
}

/// Socket of any type.
pub(crate) trait AsFdObject {
    fn fd(&self) -> std::os::fd::BorrowedFd<'_>;
}

impl<T: AsFd> AsFdObject for T {
    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.as_fd()
    }
}

/// Sends all `bytes` within `patience`.
pub(crate) fn send_all(socket: &Socket, mut bytes: &[u8], patience: Duration) -> io::Result<()> {
    let until = std::time::Instant::now() + patience;
    while !bytes.is_empty() {
        match tcp::send(socket, bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = until.saturating_duration_since(std::time::Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                wait(&[(socket, false)], left);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Receives what has arrived; an empty answer is the end of the connection, `None` nothing.
pub(crate) fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match tcp::receive(socket, buffer) {
        Ok(n) => Ok(Some(n)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}
