//! TCP connection with requests and responses of fixed size: bytes to send, bytes received, and its
//! end.
//!
//! There is no framing: both ends know the sizes. The payload has no meaning.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use linerate_model::{Counter, Counters, FlowReport, SocketValue, TcpState};
use linerate_sys::SysError;
use socket2::SockRef;

use super::placement::Waiting;
use super::rendezvous::would_wait;
use super::tcp_options::{self, TcpOptions};
use super::{socket_options, tcp_state};
use crate::{Result, Tally};

/// Most bytes of one call.
pub(crate) const CHUNK_BYTES: usize = 1 << 16;
/// Longest wait of a blocking call.
const PATIENCE: Duration = Duration::from_millis(4);

/// One connection.
#[derive(Debug)]
pub(crate) struct ByteFlow {
    pub(crate) number: u32,
    pub(crate) stream: TcpStream,
    /// Bytes still to be written.
    pub(crate) owed: usize,
    /// The other end has closed, or the connection has failed.
    pub(crate) ended: bool,
    pub(crate) counters: Counters,
    options: BTreeMap<String, SocketValue>,
}

impl ByteFlow {
    /// A lone flow of a blocking worker waits in the call itself; all others never wait in a call.
    pub(crate) fn new(
        number: u32,
        stream: TcpStream,
        options: &TcpOptions,
        waits: bool,
    ) -> Result<Self> {
        let ready = stream
            // A blocking worker with several flows waits for all of them at once, so only a lone
            // flow blocks.
            .set_nonblocking(!waits)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            // The timeouts bound a step, so that intervals are cut also when the peer is silent.
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        ready.map_err(|cause| SysError::new("prepare", "a connection", cause))?;
        let options = options.granted(&SockRef::from(&stream))?;
        Ok(Self { number, stream, owed: 0, ended: false, counters: Counters::default(), options })
    }

    /// Counts for the flow and the worker together.
    #[inline]
    pub(crate) fn count(&mut self, tally: &mut Tally, counter: Counter, n: u64) {
        self.counters[counter] += n;
        tally.add(counter, n);
    }

    /// Writes the pending bytes, as far as there is room.
    #[inline]
    pub(crate) fn flush(&mut self, filling: &[u8], tally: &mut Tally) {
        while self.owed > 0 && !self.ended {
            let answer = self.stream.write(&filling[..self.owed.min(filling.len())]);
            self.count(tally, Counter::CallsSent, 1);
            match answer {
                Ok(n) => {
                    self.owed -= n;
                    self.count(tally, Counter::PayloadSent, n as u64);
                }
                Err(error) if would_wait(&error) => {
                    return self.count(tally, Counter::WouldBlock, 1);
                }
                // Any other error ends the connection for good: TCP does not recover from it.
                Err(_) => {
                    self.count(tally, Counter::SendErrors, 1);
                    self.ended = true;
                }
            }
        }
    }

    /// Reads with one call; returns the bytes that arrived.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8], tally: &mut Tally) -> usize {
        if self.ended {
            return 0;
        }
        let answer = self.stream.read(buffer);
        self.count(tally, Counter::CallsReceived, 1);
        match answer {
            Ok(n) => {
                // Zero bytes mean that the other end has closed.
                self.ended = n == 0;
                self.count(tally, Counter::PayloadReceived, n as u64);
                n
            }
            Err(error) if would_wait(&error) => {
                self.count(tally, Counter::WouldBlock, 1);
                0
            }
            Err(_) => {
                self.count(tally, Counter::ReceiveErrors, 1);
                self.ended = true;
                0
            }
        }
    }

    /// Ends sending, which the other end sees.
    pub(crate) fn close_sending(&self) {
        // If the connection is gone already, the other end knows.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Returns the kernel's state of the connection; `None` if it has none any more.
    pub(crate) fn tcp(&self) -> Option<TcpState> {
        tcp_state::of(&self.stream)
    }

    /// Returns the report of the flow.
    pub(crate) fn report(mut self, worker: u32, modes: &BTreeMap<String, String>) -> FlowReport {
        tcp_options::at_end(&mut self.options, &SockRef::from(&self.stream));
        let tcp = self.tcp();
        FlowReport {
            flow: self.number,
            worker,
            local: socket_options::name_of(self.stream.local_addr()),
            remote: socket_options::name_of(self.stream.peer_addr()),
            counters: self.counters,
            socket: self.options,
            modes: modes.clone(),
            tcp,
            ..FlowReport::default()
        }
    }
}

/// Returns the name of a request/response mode in reports.
pub(crate) fn modes(wait: Waiting, alone: bool, open: bool) -> BTreeMap<String, String> {
    let wait = match (wait, alone, open) {
        (Waiting::Spin, ..) => "spin",
        (Waiting::Block, true, false) => "block",
        (Waiting::Block, false, false) => "block (epoll)",
        (Waiting::Block, _, true) => {
            "block (epoll) until 2 ms before the next request is due, then spin"
        }
    };
    BTreeMap::from([("wait".to_owned(), wait.to_owned())])
}
