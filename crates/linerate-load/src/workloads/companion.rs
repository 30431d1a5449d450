//! TCP connection beside a worker's datagrams: it carries the counts of sent datagrams, and shows
//! that the other end is alive.
//!
//! Each message has 12 bytes, big-endian: flow (4), datagrams sent on it (8). A message with the
//! flow [`START`] carries the start of the sender's first interval instead, in ns of its monotonic
//! clock. The connection ends when the other end is gone. Neither call ever blocks.

use std::io::{Read, Write};
use std::net::TcpStream;

use linerate_model::Nanos;
use linerate_sys::SysError;

use super::rendezvous::would_wait;
use crate::Result;

/// Flow number of the message with the start of the sender's first interval: no flow has it.
pub(crate) const START: u32 = u32::MAX;
const MESSAGE_BYTES: usize = 12;
const FLOW_BYTES: usize = 4;
/// Interval between reads of the connection while datagrams move.
const LOOK_EVERY: Nanos = Nanos::from_millis(5);

/// One end of it.
#[derive(Debug)]
pub(crate) struct Companion {
    stream: TcpStream,
    buffer: [u8; MESSAGE_BYTES * 16],
    filled: usize,
    look_at: Nanos,
    gone: bool,
}

impl Companion {
    /// Creates a companion on a connection that is open and has proved the secret.
    pub(crate) fn new(stream: TcpStream) -> Result<Self> {
        // Without delay: a total that waits for more data would come after the end of the trial.
        let nonblocking = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        nonblocking
            .map_err(|cause| SysError::new("make non-blocking", "a companion connection", cause))?;
        Ok(Self {
            stream,
            buffer: [0; MESSAGE_BYTES * 16],
            filled: 0,
            look_at: Nanos(0),
            gone: false,
        })
    }

    /// Returns true if the other end has closed it.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Makes the next read happen at once.
    #[inline]
    pub(crate) fn look_at_once(&mut self) {
        self.look_at = Nanos(0);
    }

    /// Reads totals, if some time has passed since the last read, and passes each to `total(flow,
    /// sent)`.
    #[inline]
    pub(crate) fn look(&mut self, now: Nanos, total: impl FnMut(u32, u64)) {
        if now >= self.look_at && !self.gone {
            self.look_at = now + LOOK_EVERY;
            self.read(total);
        }
    }

    fn read(&mut self, mut total: impl FnMut(u32, u64)) {
        loop {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.gone = true,
                Ok(n) => {
                    self.filled += n;
                    // A message may arrive in parts, so only whole ones are taken and the rest is
                    // kept.
                    let whole = self.filled / MESSAGE_BYTES * MESSAGE_BYTES;
                    for message in self.buffer[..whole].chunks_exact(MESSAGE_BYTES) {
                        let (flow, sent) =
                            message.split_first_chunk::<FLOW_BYTES>().expect("a message is longer");
                        total(
                            u32::from_be_bytes(*flow),
                            u64::from_be_bytes(sent.try_into().expect("eight bytes")),
                        );
                    }
                    self.buffer.copy_within(whole..self.filled, 0);
                    self.filled -= whole;
                    continue;
                }
                // A reset means the same as an end.
                Err(error) => self.gone = !would_wait(&error),
            }
            return;
        }
    }

    /// Reports that `sent` datagrams were sent on `flow`. A few bytes on an idle connection always
    /// have room; if the other end is gone, nobody needs them.
    pub(crate) fn tell(&mut self, flow: u32, sent: u64) {
        let mut message = [0; MESSAGE_BYTES];
        message[..FLOW_BYTES].copy_from_slice(&flow.to_be_bytes());
        message[FLOW_BYTES..].copy_from_slice(&sent.to_be_bytes());
        // An error here is no failure of the load: its end is noticed by `is_gone`.
        self.gone |= self.stream.write_all(&message).is_err();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn totals_arrive_and_the_end_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let a = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
        let (b, _) = listener.accept().expect("loopback");
        let (mut a, mut b) = (Companion::new(a).expect("open"), Companion::new(b).expect("open"));
        for flow in 0..40 {
            a.tell(flow, u64::from(flow) << 40);
        }
        drop(a);
        let mut totals = Vec::new();
        let mut now = Nanos(0);
        while !b.is_gone() {
            now = now + LOOK_EVERY;
            b.look(now, |flow, sent| totals.push((flow, sent)));
        }
        assert_eq!(totals, (0..40).map(|flow| (flow, u64::from(flow) << 40)).collect::<Vec<_>>());
    }
}
