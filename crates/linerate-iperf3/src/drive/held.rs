//! A session whose load its owner starts and ends, such as a load generator with a start barrier.

use std::time::{Duration, Instant};

use socket2::Socket;

use super::{Asked, DriveError, Hold, LOOK, Session};
use crate::client::Failure;
use crate::wire::{Results, StreamResults};

/// Longest time to open the last data stream: the load waits for it.
const LAST_STREAM: Duration = Duration::from_secs(3);
/// Time in which a server that refuses is asked again. A server that has one test after the other
/// listens anew after each of them.
const ASKS_AGAIN: Duration = Duration::from_secs(1);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Data stream of a session, as it is now.
#[derive(Clone, Copy, Debug)]
pub struct StreamNow<'a> {
    /// True if this end sends.
    pub sends: bool,
    /// Socket of this end.
    pub socket: &'a Socket,
    /// Payload sent or received.
    pub bytes: u64,
    /// Datagrams sent, or received without repetitions; 0 with TCP.
    pub datagrams: u64,
    /// Datagrams received more than once.
    pub duplicates: u64,
    /// Datagrams received after one with a higher number.
    pub reordered: u64,
    /// Highest number of a datagram that was sent or received; numbers begin at 1.
    pub highest: u64,
    /// Changes of the transit time, see [`crate::datagrams::Account::changes`].
    pub changes: (f64, u64),
    /// System calls that sent or received something.
    pub calls: u64,
}

impl Session {
    /// Reserves the server: returns a session that waits with its last data stream.
    ///
    /// # Errors
    /// If the server cannot be reached, refuses, or fails.
    pub fn hold(asked: &Asked) -> Result<Self, DriveError> {
        let begun = Instant::now();
        loop {
            match Self::held(asked) {
                Err(error) if begun.elapsed() < ASKS_AGAIN && is_passing(&error) => {
                    std::thread::sleep(PAUSE);
                }
                held => return held,
            }
        }
    }

    fn held(asked: &Asked) -> Result<Self, DriveError> {
        let mut session = Self::begin(asked.clone(), true)?;
        while session.hold == Hold::Preparing {
            session.turn(LOOK, &mut |_| {})?;
        }
        Ok(session)
    }

    /// Opens the last data stream, with which the server starts the load.
    ///
    /// # Errors
    /// If the server does not accept it.
    pub fn release(&mut self) -> Result<(), DriveError> {
        let patience = self.asked.patience;
        self.asked.patience = patience.min(LAST_STREAM);
        let opened = self.open(false);
        (self.hold, self.asked.patience) = (Hold::Released, patience);
        opened?;
        let orders = self.machine.opened(self.begun.elapsed());
        self.carry_out(orders)
    }

    /// Waits for at most `most`, answers the server and moves data. Returns true once the test is
    /// complete. While the load runs, it allocates nothing.
    ///
    /// # Errors
    /// If the server fails.
    pub fn step(&mut self, most: Duration) -> Result<bool, DriveError> {
        Ok(self.turn(most, &mut |_| {})?.is_some())
    }

    /// Ends the load.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// Returns the data streams, those that this end sends first.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = StreamNow<'_>> {
        self.streams.iter().map(|stream| {
            let (bytes, datagrams) = stream.moved();
            let account = stream.account();
            StreamNow {
                sends: stream.sends,
                socket: &stream.socket,
                bytes,
                datagrams,
                duplicates: account.map_or(0, |account| account.duplicates),
                reordered: account.map_or(0, |account| account.reordered),
                highest: account.map_or(datagrams, |account| account.highest()),
                changes: account.map_or((0.0, 0), |account| account.changes),
                calls: stream.calls(),
            }
        })
    }

    /// Returns the payload of the stream at `place` that the server's TCP has acknowledged; `None`
    /// for what this end receives, and for UDP.
    #[must_use]
    pub fn acknowledged(&self, place: usize) -> Option<u64> {
        self.streams.get(place)?.counts().acknowledged
    }

    /// Returns the results of the server, once the test is complete.
    #[must_use]
    pub fn server_results(&self) -> Option<&Results> {
        self.theirs.as_ref()
    }

    /// Returns those of the stream at `place`.
    #[must_use]
    pub fn server_stream(&self, place: usize) -> Option<&StreamResults> {
        self.theirs.as_ref()?.of_stream(self.streams.get(place)?.id)
    }

    /// Returns the bytes of a block or datagram.
    #[must_use]
    pub fn length(&self) -> usize {
        self.streams.first().map_or(0, |stream| stream.length)
    }
}

/// Returns true for a refusal by a server that may have had a test a moment ago.
fn is_passing(error: &DriveError) -> bool {
    match error {
        DriveError::Connect { cause, .. } => cause.kind() == std::io::ErrorKind::ConnectionRefused,
        DriveError::Server { failure, .. } => *failure == Failure::Busy,
        DriveError::Stream { .. } | DriveError::Interrupted => false,
    }
}
