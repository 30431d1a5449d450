//! A session's two threads: one hears, one speaks, so that a peer that stalls holds up nobody else.

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

/// How long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From a connection's first byte to the end of the greetings.
    pub handshake: Duration,
    /// A peer heard nothing of for this long is gone.
    pub silence: Duration,
    /// Between two heartbeats of the conductor, in frames of a few dozen bytes.
    pub heartbeat: Duration,
    /// A write that makes no progress for this long means that the peer is gone.
    pub write: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            // Three retransmitted SYNs (RFC 6298 clause 2: 1 + 2 s) and a slow BMC's TLS
            // arithmetic.
            handshake: Duration::from_secs(5),
            // Six heartbeats: a saturated path may lose some of them.
            silence: Duration::from_secs(12),
            heartbeat: Duration::from_secs(2),
            write: Duration::from_secs(10),
        }
    }
}

/// Messages waiting to be written before the peer counts as stalled.
const QUEUE: usize = 256;

/// Closes the stream under a reader and a writer, from any thread, at any time.
pub(crate) type Closer = Arc<dyn Fn() + Send + Sync>;

/// What the kernel knows of a connection's other end, whatever its programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    /// Segments that have come from it so far: its kernel acknowledges what we say even where no
    /// program has time.
    pub(crate) segments: u32,
    /// Within which an acknowledgement is to be expected: a smoothed round trip and four times its
    /// deviation (RFC 6298 clause 2.3).
    pub(crate) round_trip: Duration,
}

/// Looks at a connection's other end; `None` if the kernel tells nothing.
pub(crate) type Pulse = Arc<dyn Fn() -> Option<Beat> + Send + Sync>;

/// A byte stream whose other end is known as well as its transport can tell.
pub(crate) struct Channel {
    pub(crate) reader: Box<dyn Read + Send>,
    pub(crate) writer: Box<dyn Write + Send>,
    pub(crate) closer: Closer,
    /// Whether the other end's host is there; `None` if it is this one.
    pub(crate) pulse: Option<Pulse>,
    /// Until when the reader waits.
    pub(crate) deadline: Deadline,
    /// The other end, for people.
    pub(crate) peer: String,
    /// The other end's key; `None` where whoever started it vouches for it.
    pub(crate) key: Option<Fingerprint>,
    /// The other end's address, if it has one.
    pub(crate) address: Option<IpAddr>,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Channel({})", self.peer)
    }
}

/// What the hearing thread hears.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A message, when it arrived on our monotonic clock, and its room in the inbox.
    Message(
        Box<Message>,
        Nanos,
        #[expect(dead_code, reason = "room is given back when it is dropped")] Held,
    ),
    /// Nothing more will come; why.
    Ended(FrameError),
}

enum Queued {
    Message(Box<Message>),
    End,
}

/// The way to a session's peer; clones lead to the same peer.
#[derive(Clone)]
pub(crate) struct Outbox {
    queue: SyncSender<Queued>,
    closer: Closer,
}

impl Outbox {
    /// Queues `message`, waiting for room; `false` if the peer is gone.
    pub(crate) fn send(&self, message: Message) -> bool {
        self.queue.send(Queued::Message(Box::new(message))).is_ok()
    }

    /// Queues `message` if there is room; a peer for which there is none has stalled and is cut
    /// off.
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

    /// Queues `message` if there is room, and nothing else.
    pub(crate) fn try_send(&self, message: Message) {
        let _full = self.queue.try_send(Queued::Message(Box::new(message)));
    }

    /// Cuts the connection now.
    pub(crate) fn close(&self) {
        (self.closer)();
    }
}

/// A running session: its threads end when either end closes it.
pub(crate) struct Link {
    pub(crate) outbox: Outbox,
    writer: JoinHandle<()>,
}

impl Link {
    /// Starts both threads; `hear` is called on the hearing thread, with a way to answer at once.
    pub(crate) fn start(
        reader: FrameReader,
        writer: Box<dyn Write + Send>,
        closer: Closer,
        hear: impl FnMut(Heard, &Outbox) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
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

    /// Lets what is queued go out, then closes.
    pub(crate) fn finish(self) {
        if self.outbox.queue.try_send(Queued::End).is_err() {
            self.outbox.close();
        }
        // A panicking writer has nothing left to say; its stream is closed below all the same.
        let _ = self.writer.join();
        self.outbox.close();
    }
}

fn listen(mut reader: FrameReader, mut hear: impl FnMut(Heard, &Outbox) -> bool, outbox: &Outbox) {
    let inbox = Inbox::default();
    loop {
        let heard = match reader.next() {
            Ok(message) => {
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
        stamp(&mut message, monotonic());
        if pieces(message).iter().any(|piece| write(&mut *writer, piece).is_err()) {
            break;
        }
    }
    closer();
}
