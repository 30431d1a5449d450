//! Waits for any of many sockets (`epoll(7)`), for threads with more than one flow.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use crate::{Result, SysError};

/// Sockets that one call reports; the next call reports the rest.
const EVENTS: usize = 64;

/// Events to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to read, an error, or the end of the stream.
    Readable,
    /// The same, or room to write.
    ReadableOrWritable,
}

/// Set of sockets to wait for. Closing a socket removes it.
#[derive(Debug)]
pub struct Readiness {
    epoll: OwnedFd,
    tokens: [u64; EVENTS],
}

impl Readiness {
    /// Creates an empty set.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub fn new() -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|cause| SysError::new("create", "an epoll instance", cause))?;
        Ok(Self { epoll, tokens: [0; EVENTS] })
    }

    /// Adds `socket`; events report it as `token`.
    ///
    /// # Errors
    /// If it is already in the set.
    pub fn add(&self, socket: &impl AsFd, token: u64, interest: Interest) -> Result<()> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), flags(interest))
            .map_err(|cause| SysError::new("wait for", format!("socket {token}"), cause))
    }

    /// Changes the events to wait for on `socket`.
    ///
    /// # Errors
    /// If it is not in the set.
    pub fn modify(&self, socket: &impl AsFd, token: u64, interest: Interest) -> Result<()> {
        epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(token), flags(interest))
            .map_err(|cause| {
                SysError::new("change the events of", format!("socket {token}"), cause)
            })
    }

    /// Removes `socket` from the set: a stream that has ended would be reported forever.
    ///
    /// # Errors
    /// If it is not in the set.
    pub fn remove(&self, socket: &impl AsFd) -> Result<()> {
        epoll::delete(&self.epoll, socket)
            .map_err(|cause| SysError::new("stop waiting for", "a socket", cause))
    }

    /// Waits up to `patience`, with a resolution of 1 ns, and returns true if a socket is ready.
    /// [`Self::wait`] has a resolution of one millisecond.
    pub fn is_ready_within(&mut self, patience: Duration) -> bool {
        let mut watched = [PollFd::new(&self.epoll, PollFlags::IN)];
        poll(&mut watched, Some(&timespec(patience))).is_ok_and(|ready| ready > 0)
    }

    /// Waits up to `patience` and returns the tokens of ready sockets; none after a timeout or a
    /// signal.
    pub fn wait(&mut self, patience: Duration) -> &[u64] {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let ready: &[epoll::Event] =
            match epoll::wait(&self.epoll, &mut events, Some(&timespec(patience))) {
                Ok((ready, _)) => ready,
                Err(_) => &[],
            };
        for (token, event) in self.tokens.iter_mut().zip(ready) {
            *token = event.data.u64();
        }
        &self.tokens[..ready.len()]
    }
}

fn timespec(patience: Duration) -> Timespec {
    Timespec { tv_sec: patience.as_secs() as _, tv_nsec: patience.subsec_nanos() as _ }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    match interest {
        Interest::Readable => epoll::EventFlags::IN,
        Interest::ReadableOrWritable => epoll::EventFlags::IN | epoll::EventFlags::OUT,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Instant;

    use super::*;

    #[test]
    fn only_the_socket_with_data_is_reported() {
        let sockets: Vec<_> =
            (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").expect("loopback")).collect();
        let mut readiness = Readiness::new().expect("a descriptor");
        for (token, socket) in sockets.iter().enumerate() {
            readiness.add(socket, token as u64, Interest::Readable).expect("add");
        }
        assert_eq!(readiness.wait(Duration::ZERO), [] as [u64; 0]);
        sockets[0].send_to(b"x", sockets[2].local_addr().expect("bound")).expect("send");
        assert!(readiness.is_ready_within(Duration::from_secs(2)));
        assert_eq!(readiness.wait(Duration::from_secs(2)), [2]);
        readiness.modify(&sockets[1], 1, Interest::ReadableOrWritable).expect("modify");
        let mut both = readiness.wait(Duration::from_secs(2)).to_vec();
        both.sort_unstable();
        assert_eq!(both, [1, 2]);
    }

    #[test]
    fn a_wait_of_less_than_a_millisecond_is_not_cut_short_nor_rounded_up() {
        let mut readiness = Readiness::new().expect("a descriptor");
        let patience = Duration::from_micros(300);
        // A busy machine wakes the thread late, but not in every attempt.
        let waits = (0..50).map(|_| {
            let from = Instant::now();
            assert!(!readiness.is_ready_within(patience));
            from.elapsed()
        });
        let waits: Vec<Duration> = waits.collect();
        assert!(waits.iter().all(|waited| *waited >= patience), "{waits:?}");
        assert!(waits.iter().any(|waited| *waited < Duration::from_millis(1)), "{waits:?}");
    }
}
