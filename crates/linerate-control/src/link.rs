//! Two threads of a session: one reads, one writes, so that a peer that stalls blocks nothing else.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_model::Nanos;

use crate::clock::{monotonic, stamp};
use crate::frames::{FrameError, FrameReader, write};
use crate::inbox::{Held, Inbox};
use crate::keys::Fingerprint;
use crate::timed::Deadline;
use crate::wire::{Message, pieces};

/// Time limits of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Longest time from a connection's first byte to the end of the greetings.
    pub handshake: Duration,
    /// The same for an agent that a command starts, such as `ssh`.
    pub command: Duration,
    /// Longest silence of a peer. After it, the peer counts as gone.
    pub silence: Duration,
    /// Interval between two heartbeats of the conductor, in frames of a few dozen bytes.
    pub heartbeat: Duration,
    /// Longest time that a write may make no progress. After it, the peer counts as gone.
    pub write: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            // Three retransmitted SYNs (RFC 6298 clause 2: 1 + 2 s) and a slow BMC's TLS
            // arithmetic.
            handshake: Duration::from_secs(5),
            // It may resolve a name and authenticate before it starts the agent.
            command: Duration::from_secs(30),
            // Six heartbeats: a saturated path may lose some of them.
            silence: Duration::from_secs(12),
            heartbeat: Duration::from_secs(2),
            write: Duration::from_secs(10),
        }
    }
}

/// Number of messages that wait to be written when a peer counts as stalled.
const QUEUE: usize = 256;

/// Closes the stream of a reader and a writer, from any thread, at any time.
pub(crate) type Closer = Arc<dyn Fn() + Send + Sync>;

/// State of a connection's other host as the kernel knows it, whatever the programs there do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Number of segments that have come from it. Its kernel acknowledges data even if no program
    /// there gets CPU time.
    pub(crate) segments: u32,
    /// Time within which an acknowledgement is expected: a smoothed round trip and four times its
    /// deviation (RFC 6298 clause 2.3).
    pub(crate) round_trip: Duration,
}

/// Reads the state of a connection's other host. `None` if the kernel does not know it.
pub(crate) type Pulse = Arc<dyn Fn() -> Option<Beat> + Send + Sync>;

/// Byte stream, with the identity of its other end as far as the transport proves it.
pub(crate) struct Channel {
    pub(crate) reader: Box<dyn Read + Send>,
    pub(crate) writer: Box<dyn Write + Send>,
    pub(crate) closer: Closer,
    /// Reads whether the other host is there. `None` if it is this one.
    pub(crate) pulse: Option<Pulse>,
    /// Deadline of the reader.
    pub(crate) deadline: Deadline,
    /// Name of the other end, for people.
    pub(crate) peer: String,
    /// Key of the other end. `None` if a person on this host started it.
    pub(crate) key: Option<Fingerprint>,
    /// Address of the other end, if it has one.
    pub(crate) address: Option<IpAddr>,
    /// Address of this end, if it has one.
    pub(crate) own: Option<IpAddr>,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Channel({})", self.peer)
    }
}

/// Event of the reading thread.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A message, its time of arrival on this host's monotonic clock, and its room in the inbox.
    Message(Box<Message>, Nanos, #[expect(dead_code, reason = "dropping it frees the room")] Held),
    /// The end of the stream, and its reason.
    Ended(FrameError),
}

enum Queued {
    Message(Box<Message>),
    End,
}

/// Queue of messages to a session's peer. Clones share it.
#[derive(Clone)]
pub(crate) struct Outbox {
    queue: SyncSender<Queued>,
    closer: Closer,
}

impl Outbox {
    /// Queues `message`, and waits for room. Returns `false` if the peer is gone.
    pub(crate) fn send(&self, message: Message) -> bool {
        self.queue.send(Queued::Message(Box::new(message))).is_ok()
    }

    /// Queues `message` if there is room. Otherwise the peer has stalled, and is disconnected.
    pub(crate) fn offer(&self, message: Message) -> bool {
        match self.queue.try_send(Queued::Message(Box::new(message))) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.close();
                false
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    /// Queues `message` if there is room, and drops it otherwise.
    pub(crate) fn try_send(&self, message: Message) {
        let _full = self.queue.try_send(Queued::Message(Box::new(message)));
    }

    /// Cuts the connection now.
    pub(crate) fn close(&self) {
        (self.closer)();
    }
}

/// Running session. Its threads end when either end closes the connection.
pub(crate) struct Link {
    pub(crate) outbox: Outbox,
    writer: JoinHandle<()>,
}

impl Link {
    /// Starts both threads. `hear` is called on the reading thread, and may answer at once. It
    /// returns whether to go on.
    pub(crate) fn start(
        reader: FrameReader,
        writer: Box<dyn Write + Send>,
        closer: Closer,
        hear: impl FnMut(Heard, &Outbox) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        // Bounded: a peer that does not read must not fill this host's memory.
        let (queue, queued) = sync_channel(QUEUE);
        let outbox = Outbox { queue, closer: Arc::clone(&closer) };
        let answering = outbox.clone();
        let writer = thread::Builder::new()
            .name("linerate-speak".into())
            .spawn(move || speak(writer, &queued, &closer))?;
        thread::Builder::new()
            .name("linerate-hear".into())
            .spawn(move || listen(reader, hear, &answering))?;
        Ok(Self { outbox, writer })
    }

    /// Closes the session after all queued messages have been written.
    pub(crate) fn finish(self) {
        // A full queue means a stalled peer, for which nobody waits.
        if self.outbox.queue.try_send(Queued::End).is_err() {
            self.outbox.close();
        }
        // After a panic of the writer nothing more can be written; the stream is closed below.
        let _ = self.writer.join();
        self.outbox.close();
    }
}

fn listen(mut reader: FrameReader, mut hear: impl FnMut(Heard, &Outbox) -> bool, outbox: &Outbox) {
    let inbox = Inbox::default();
    loop {
        let heard = match reader.next() {
            Ok(message) => {
                // Stamped here, before any queue, because arrival times measure clocks.
                let at = monotonic();
                Heard::Message(Box::new(message), at, inbox.hold(reader.length()))
            }
            Err(error) => Heard::Ended(error),
        };
        let ended = matches!(heard, Heard::Ended(_));
        if !hear(heard, outbox) || ended {
            break;
        }
    }
    outbox.close();
}

fn speak(mut writer: Box<dyn Write + Send>, queued: &Receiver<Queued>, closer: &Closer) {
    while let Ok(Queued::Message(message)) = queued.recv() {
        let mut message = *message;
        // As late as possible: time in the queue is not time on the path.
        stamp(&mut message, monotonic());
        if pieces(message).iter().any(|piece| write(&mut *writer, piece).is_err()) {
            break;
        }
    }
    closer();
}
