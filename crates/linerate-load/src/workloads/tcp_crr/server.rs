//! Passive end: accepts, answers and closes; drops and counts connections of strangers.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use linerate_model::{Counter, Counters, FlowReport, Nanos, SocketValue};
use linerate_sys::readiness::{Interest, Readiness};
use socket2::SockRef;

use super::{Close, TcpCrrParams};
use crate::workloads::companion::Companion;
use crate::workloads::placement::Waiting;
use crate::workloads::rendezvous::{same_secret, would_wait};
use crate::workloads::socket_options;
use crate::{Due, Progress, Result, Secret, Tally, Times, Worker};

/// Connections open at once; more wait in the kernel.
const PLACES: usize = 1024;
/// The listener's token; places have their index.
const LISTENER: u64 = u64::MAX;
/// Sockets served in a step.
const READY: usize = 64;
const BUFFER_BYTES: usize = 1 << 16;
const PATIENCE: Nanos = Nanos::from_millis(4);

/// Open connection.
struct Guest {
    stream: TcpStream,
    /// Bytes of secret and request that have arrived.
    come: usize,
    /// Bytes of the response still to write.
    owed: usize,
    answered: bool,
    interest: Interest,
    since: Nanos,
}

struct TcpCrrServer {
    number: u32,
    listener: TcpListener,
    secret: Secret,
    /// Options that accepted connections inherit.
    granted: BTreeMap<String, SocketValue>,
    message_bytes: usize,
    response: Box<[u8]>,
    buffer: Box<[u8]>,
    close: Close,
    wait: Waiting,
    timeout: Nanos,
    readiness: Readiness,
    guests: Box<[Option<Guest>]>,
    free: Vec<usize>,
    companion: Companion,
    sweep_at: Nanos,
    counters: Counters,
    foreign: u64,
}

/// Creates a worker that serves `listener`, which does not block.
pub(super) fn worker(
    params: &TcpCrrParams,
    number: u32,
    listener: TcpListener,
    secret: Secret,
    companion: Companion,
    foreign: u64,
) -> Result<Box<dyn Worker>> {
    let readiness = Readiness::new()?;
    readiness.add(&listener, LISTENER, Interest::Readable)?;
    let granted = params.options.granted(&SockRef::from(&listener))?;
    Ok(Box::new(TcpCrrServer {
        number,
        listener,
        secret,
        granted,
        message_bytes: secret.0.len() + params.exchange.request_bytes(),
        response: vec![b'a'; params.exchange.response_bytes()].into_boxed_slice(),
        buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
        close: params.close,
        wait: params.placement.wait,
        timeout: params.timeout,
        readiness,
        guests: (0..PLACES).map(|_| None).collect(),
        free: (0..PLACES).rev().collect(),
        companion,
        sweep_at: Nanos(0),
        counters: Counters::default(),
        foreign,
    }))
}

impl TcpCrrServer {
    #[inline]
    fn count(&mut self, tally: &mut Tally, counter: Counter, n: u64) {
        self.counters[counter] += n;
        tally.add(counter, n);
    }

    /// Accepts connections while there is room, and serves each at once as far as it goes.
    fn accept(&mut self, now: Nanos, tally: &mut Tally) {
        while let Some(place) = self.free.pop() {
            let accepted = self
                .listener
                .accept()
                .and_then(|(stream, _)| stream.set_nonblocking(true).map(|()| stream));
            let Ok(stream) = accepted else {
                self.free.push(place);
                return;
            };
            let guest = Guest {
                stream,
                come: 0,
                owed: 0,
                answered: false,
                interest: Interest::Readable,
                since: now,
            };
            self.serve(place, guest, true, tally);
        }
    }

    /// Serves one connection as far as it goes, and keeps it if it is not over.
    fn serve(&mut self, place: usize, mut guest: Guest, is_new: bool, tally: &mut Tally) {
        let over = match self.answer(&mut guest, tally) {
            Ok(over) => over,
            Err(error) if would_wait(&error) => false,
            Err(_) => {
                // A client that closes by reset aborts after the answer.
                self.count(tally, Counter::ConnectionsFailed, u64::from(!guest.answered));
                true
            }
        };
        let interest =
            if guest.owed > 0 { Interest::ReadableOrWritable } else { Interest::Readable };
        let awaited = match (is_new, interest == guest.interest) {
            _ if over => Ok(()),
            (true, _) => self.readiness.add(&guest.stream, place as u64, interest),
            (false, true) => Ok(()),
            (false, false) => self.readiness.modify(&guest.stream, place as u64, interest),
        };
        guest.interest = interest;
        let kept = !over && awaited.is_ok();
        if kept {
            self.guests[place] = Some(guest);
        } else {
            self.free.push(place);
        }
    }

    /// Reads, checks, writes; returns `Ok(true)` when nothing is left to do.
    fn answer(&mut self, guest: &mut Guest, tally: &mut Tally) -> io::Result<bool> {
        loop {
            while guest.owed > 0 {
                let from = self.response.len() - guest.owed;
                let n = guest.stream.write(&self.response[from..])?;
                guest.owed -= n;
                self.count(tally, Counter::CallsSent, 1);
                self.count(tally, Counter::PayloadSent, n as u64);
                if guest.owed == 0 {
                    guest.answered = true;
                    self.count(tally, Counter::Connections, 1);
                    if self.close == Close::Server {
                        // The client waits for this end's close.
                        let _ = guest.stream.shutdown(Shutdown::Write);
                        return Ok(true);
                    }
                }
            }
            let n = guest.stream.read(&mut self.buffer)?;
            self.count(tally, Counter::CallsReceived, 1);
            if n == 0 {
                self.count(tally, Counter::ConnectionsFailed, u64::from(!guest.answered));
                return Ok(true);
            }
            if !self.is_ours(guest.come, n) {
                self.count(tally, Counter::Foreign, 1);
                return Ok(true);
            }
            self.count(tally, Counter::PayloadReceived, n as u64);
            let before = guest.come;
            guest.come += n;
            if before < self.message_bytes && guest.come >= self.message_bytes {
                guest.owed = self.response.len();
            }
        }
    }

    /// Returns true if the `n` bytes in the buffer, which follow `before` others, match the secret.
    fn is_ours(&self, before: usize, n: usize) -> bool {
        let secret = &self.secret.0[before.min(self.secret.0.len())..];
        let compared = secret.len().min(n);
        same_secret(&self.buffer[..compared], &secret[..compared])
            && before + n <= self.message_bytes
    }

    /// Drops connections past their timeout, so that no client holds a place for ever.
    fn sweep(&mut self, now: Nanos, tally: &mut Tally) {
        self.sweep_at = now + self.timeout;
        for place in 0..self.guests.len() {
            if self.guests[place]
                .as_ref()
                .is_some_and(|guest| now.since(guest.since) > self.timeout)
            {
                self.guests[place] = None;
                self.free.push(place);
                self.count(tally, Counter::ConnectionsFailed, 1);
            }
        }
    }
}

impl Worker for TcpCrrServer {
    fn times(&self) -> Times {
        Times::NONE
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        let now = due.intended;
        let foreign = std::mem::take(&mut self.foreign);
        self.count(tally, Counter::Foreign, foreign);
        let patience = match self.wait {
            Waiting::Spin => Duration::ZERO,
            Waiting::Block => due.until.since(now).min(PATIENCE).into(),
        };
        let mut ready = [0; READY];
        let tokens = self.readiness.wait(patience);
        let n = tokens.len();
        ready[..n].copy_from_slice(tokens);
        for &token in &ready[..n] {
            if token == LISTENER {
                self.accept(now, tally);
            } else if let Some(guest) = self.guests[token as usize].take() {
                self.serve(token as usize, guest, false, tally);
            }
        }
        if now >= self.sweep_at {
            self.sweep(now, tally);
        }
        if n > 0 {
            return Progress::Moved;
        }
        self.companion.look(now, |_, _| {});
        if self.companion.is_gone() && self.free.len() == PLACES {
            Progress::Ended
        } else {
            Progress::Idle
        }
    }

    fn stop_sending(&mut self) {}

    fn finish(&mut self) -> Vec<FlowReport> {
        vec![FlowReport {
            flow: self.number,
            worker: self.number,
            local: socket_options::name_of(self.listener.local_addr()),
            counters: self.counters,
            socket: std::mem::take(&mut self.granted),
            modes: BTreeMap::from([("wait".to_owned(), self.wait.name().to_owned())]),
            ..FlowReport::default()
        }]
    }
}
