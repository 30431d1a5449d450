//! Flow that sends files: by read and write, zero-copy, sendfile or splice.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use linerate_model::Counter;
use linerate_sys::file::{self, Splice};
use linerate_sys::memory::Region;
use linerate_sys::tcp;
use linerate_sys::zerocopy;
use socket2::Socket;

use super::course::Account;
use super::failure::Failure;
use super::params::{Origin, SendBy};
use super::store::{Contents, Store};
use super::watched::Watched;
use crate::workloads::rendezvous::would_wait;
use crate::{Result, Tally};

/// Bytes read by one call, and of a zero-copy buffer.
const CHUNK_BYTES: usize = 128 << 10;
/// Zero-copy buffers of a flow, which limit the unacknowledged bytes.
const SLOTS: usize = 32;
/// Bytes requested by one call that copies nothing.
const WHOLE_BYTES: usize = 1 << 20;
/// Calls in one turn.
const CALLS: u32 = 8;

/// The sending side of one flow.
#[derive(Debug)]
pub(crate) struct Outgoing {
    by: By,
    contents: Contents,
    base: u64,
    /// File to send, if it is not the one of the trial.
    file: Option<File>,
    at: u64,
    /// Bytes that may be sent for now, and in all.
    until: u64,
    size: u64,
    /// True if only this end can know the bytes that have reached the other; and payload of this
    /// connection that is not known to have arrived.
    counts_acknowledged: bool,
    unconfirmed: u64,
    /// Requested mode, if the connection does not allow it.
    instead_of: Option<&'static str>,
}

#[derive(Debug)]
enum By {
    /// Bytes read and not yet sent.
    Copy {
        buffer: Region,
        ready: Range<usize>,
    },
    Zerocopy(Box<Pinned>),
    Sendfile,
    Splice(Splice),
}

/// Buffers that the kernel may still be sending from.
#[derive(Debug)]
struct Pinned {
    buffers: Vec<Region>,
    /// For each buffer: number of sends begun when its last one was.
    last_send: [u64; SLOTS],
    current: usize,
    ready: Range<usize>,
    sends: u64,
    completed: u64,
    copied: u64,
    is_memory: bool,
}

/// Part of a file to send.
#[derive(Debug)]
pub(crate) struct Part {
    /// `None`: the file of the trial.
    pub(crate) file: Option<File>,
    pub(crate) bytes: Range<u64>,
}

impl Part {
    /// Returns all `size` bytes of the trial's file.
    pub(crate) fn whole(size: u64) -> Self {
        Self { file: None, bytes: 0..size }
    }
}

/// Outcome of a turn.
pub(crate) enum Sent {
    /// This many bytes; more may fit.
    Bytes(u64),
    /// This many bytes, and the socket is full. It rests until a good part of it is free, because
    /// an immediate retry would send tiny pieces.
    Full(u64),
    /// All that may be sent for now is handed over.
    All,
}

impl Outgoing {
    /// Creates flow `number` of this end.
    pub(crate) fn new(store: &Store, number: u32) -> Result<Self> {
        let contents = store.contents.clone().expect("an end that sends has contents");
        let is_memory = contents.origin == Origin::Memory;
        let asked = store.params.send;
        // Bytes that are encrypted in user space must be read first.
        let allowed = if store.is_secured { SendBy::Copy } else { asked };
        let by = match allowed {
            SendBy::Copy => By::Copy { buffer: Region::new(CHUNK_BYTES)?, ready: 0..0 },
            SendBy::Zerocopy => {
                let n = if is_memory { 0 } else { SLOTS };
                let buffers = (0..n).map(|_| Region::new(CHUNK_BYTES)).collect::<Result<_, _>>()?;
                By::Zerocopy(Box::new(Pinned {
                    buffers,
                    last_send: [0; SLOTS],
                    current: 0,
                    ready: 0..0,
                    sends: 0,
                    completed: 0,
                    copied: 0,
                    is_memory,
                }))
            }
            SendBy::Sendfile => By::Sendfile,
            SendBy::Splice => By::Splice(Splice::new()?),
        };
        let base = contents.stride * u64::from(number);
        let instead_of = (allowed != asked).then(|| asked.name());
        let counts_acknowledged = store.is_peer_foreign;
        Ok(Self {
            by,
            contents,
            base,
            file: None,
            at: 0,
            until: 0,
            size: 0,
            counts_acknowledged,
            unconfirmed: 0,
            instead_of,
        })
    }

    /// Begins the next file on `connection`.
    pub(crate) fn begin(&mut self, connection: &Watched, part: Part) -> Result<(), Failure> {
        (self.file, self.at, self.until, self.size) =
            (part.file, part.bytes.start, part.bytes.end, part.bytes.end);
        match &mut self.by {
            By::Copy { ready, .. } => *ready = 0..0,
            By::Zerocopy(pinned) => {
                zerocopy::enable(&connection.socket).map_err(|error| Failure::io(&error.cause))?;
                // Completions are counted per connection, so a new one starts from zero.
                (pinned.ready, pinned.sends, pinned.completed) = (0..0, 0, 0);
                pinned.last_send = [0; SLOTS];
            }
            By::Sendfile => {}
            By::Splice(splice) => splice.clear(),
        }
        if self.contents.origin == Origin::Cold && self.file.is_none() {
            let forgotten = file::forget(&self.contents.file, self.base, self.contents.period);
            forgotten.map_err(|error| Failure::Source(error.errno().unwrap_or(0)))?;
        }
        Ok(())
    }

    /// Allows at most `most` of the remaining bytes for now; returns their number.
    pub(crate) fn allow(&mut self, most: u64) -> u64 {
        let bytes = (self.size - self.at).min(most);
        self.until = self.at + bytes;
        bytes
    }

    /// Returns true if the whole file is sent.
    pub(crate) fn is_through(&self) -> bool {
        self.at == self.size
    }

    /// Prepares for a new connection: unconfirmed bytes of the last one stay unconfirmed.
    pub(crate) fn renew(&mut self) {
        self.unconfirmed = 0;
    }

    /// Counts the bytes that the other end's TCP has acknowledged since. All queued bytes are taken
    /// for payload, including heads and records of TLS, so the count never exceeds the bytes that
    /// arrived.
    pub(crate) fn settle(&mut self, socket: &Socket, account: &mut Account, tally: &mut Tally) {
        if !self.counts_acknowledged || self.unconfirmed == 0 {
            return;
        }
        if let Ok(queued) = tcp::unacknowledged(socket) {
            let confirmed = self.unconfirmed.saturating_sub(queued);
            self.unconfirmed -= confirmed;
            account.count(tally, Counter::PayloadAcknowledged, confirmed);
        }
    }

    /// Returns true if bytes are sent and not acknowledged, where only this end can know it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.counts_acknowledged && self.unconfirmed > 0
    }

    /// Counts all sent bytes as arrived, after the other end has confirmed them.
    pub(crate) fn confirm(&mut self, account: &mut Account, tally: &mut Tally) {
        if self.counts_acknowledged {
            account.count(
                tally,
                Counter::PayloadAcknowledged,
                std::mem::take(&mut self.unconfirmed),
            );
        }
    }

    /// Sends a part of the file.
    pub(crate) fn send(
        &mut self,
        connection: &mut Watched,
        account: &mut Account,
        tally: &mut Tally,
    ) -> Result<Sent, Failure> {
        let (mut bytes, mut calls, mut full, mut failed) = (0, 0, false, None);
        while self.at < self.until && calls < CALLS {
            calls += 1;
            // Bytes sent before a failure still count.
            match self.send_once(connection) {
                Ok(Ok(n)) if n > 0 => {
                    bytes += n as u64;
                    self.at += n as u64;
                }
                Ok(Err(error)) if would_wait(&error) => full = true,
                Ok(Err(error)) => failed = Some(Failure::io(&error)),
                Ok(Ok(_)) => failed = Some(Failure::Source(0)),
                Err(failure) => failed = Some(failure),
            }
            if full || failed.is_some() {
                break;
            }
        }
        account.count(tally, Counter::CallsSent, calls.into());
        account.count(tally, Counter::PayloadSent, bytes);
        account.count(tally, Counter::WouldBlock, u64::from(full));
        if self.contents.origin != Origin::Memory {
            account.count(tally, Counter::BytesRead, bytes);
        }
        if let By::Zerocopy(pinned) = &mut self.by {
            pinned.reap(&connection.socket, account, tally);
        }
        self.unconfirmed += bytes;
        self.settle(&connection.socket, account, tally);
        if failed.is_none() && self.at == self.until {
            full = !connection.flush().map_err(|error| Failure::io(&error))?;
        }
        match (failed, self.at == self.until && !full, full) {
            (Some(failure), ..) => Err(failure),
            (None, true, _) => Ok(Sent::All),
            (None, false, true) => Ok(Sent::Full(bytes)),
            (None, false, false) => Ok(Sent::Bytes(bytes)),
        }
    }

    fn send_once(&mut self, connection: &mut Watched) -> Result<io::Result<usize>, Failure> {
        let Contents { file, memory, period, origin, .. } = &self.contents;
        // A file of a folder is sent as it is; that of the trial repeats its payload.
        let (file, period, base) =
            self.file.as_ref().map_or((&**file, *period, self.base), |own| (own, u64::MAX, 0));
        let within = self.at % period;
        let left = (self.until - self.at).min(period - within);
        let (offset, left) = (base + within, usize::try_from(left).unwrap_or(usize::MAX));
        let from_memory = || &memory[offset as usize..offset as usize + left.min(CHUNK_BYTES)];
        let read = |buffer: &mut Region, left| read_ahead(file, buffer, left, offset);
        Ok(match &mut self.by {
            By::Copy { .. } if *origin == Origin::Memory => connection.send(from_memory()),
            By::Copy { buffer, ready } => {
                if ready.start == ready.end {
                    *ready = 0..read(buffer, left)?;
                }
                let sent = connection.send(&buffer[ready.clone()]);
                ready.start += *sent.as_ref().unwrap_or(&0);
                sent
            }
            By::Zerocopy(pinned) if pinned.is_memory => {
                let sent = zerocopy::send(&connection.socket, from_memory());
                pinned.sends += u64::from(sent.is_ok());
                sent.map_err(|error| pinned.waits(error))
            }
            By::Zerocopy(pinned) => {
                if pinned.ready.start == pinned.ready.end {
                    let next = (pinned.current + 1) % SLOTS;
                    if pinned.last_send[next] > pinned.completed {
                        // The kernel may still be sending from it.
                        return Ok(Err(io::ErrorKind::WouldBlock.into()));
                    }
                    pinned.current = next;
                    pinned.ready = 0..read(&mut pinned.buffers[next], left)?;
                }
                let sent = zerocopy::send(
                    &connection.socket,
                    &pinned.buffers[pinned.current][pinned.ready.clone()],
                );
                pinned.sends += u64::from(sent.is_ok());
                pinned.last_send[pinned.current] = pinned.sends;
                pinned.ready.start += *sent.as_ref().unwrap_or(&0);
                sent.map_err(|error| pinned.waits(error))
            }
            By::Sendfile => file::send(&connection.socket, file, offset, left.min(WHOLE_BYTES)),
            By::Splice(splice) => {
                splice.send(&connection.socket, file, offset, left.min(WHOLE_BYTES))
            }
        })
    }

    /// Adds this flow's modes to reports.
    pub(crate) fn modes(&self, modes: &mut BTreeMap<String, String>) {
        let send = match &self.by {
            By::Copy { .. } => "copy".to_owned(),
            By::Zerocopy(pinned) => format!("zerocopy: {} sends copied after all", pinned.copied),
            By::Sendfile => "sendfile".to_owned(),
            By::Splice(_) => "splice".to_owned(),
        };
        let send = match self.instead_of {
            Some(asked) => {
                format!("{send} (read and write: {asked} cannot pass TLS in user space)")
            }
            None => send,
        };
        modes.insert("send".into(), send);
        modes.insert("source".into(), self.contents.origin.name().into());
        modes.extend(self.contents.device.clone().map(|device| ("source_device".into(), device)));
    }
}

/// Reads at most `left` bytes of `file` from `offset`.
fn read_ahead(
    file: &File,
    buffer: &mut Region,
    left: usize,
    offset: u64,
) -> Result<usize, Failure> {
    let n = file.read_at(&mut buffer[..left.min(CHUNK_BYTES)], offset);
    n.map_err(|error| Failure::Source(error.raw_os_error().unwrap_or(0)))
}

impl Pinned {
    fn reap(&mut self, socket: &Socket, account: &mut Account, tally: &mut Tally) {
        let some = zerocopy::completions(socket);
        self.completed += some.completed;
        self.copied += some.copied;
        account.count(tally, Counter::ZerocopySends, some.completed);
        account.count(tally, Counter::ZerocopyCopied, some.copied);
    }

    /// Takes completions later if too many are outstanding: the socket counts as full.
    fn waits(&self, error: io::Error) -> io::Error {
        if zerocopy::is_backlogged(&error) { io::ErrorKind::WouldBlock.into() } else { error }
    }
}
