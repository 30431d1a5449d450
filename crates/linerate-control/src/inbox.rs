//! Bound on messages that have arrived and wait to be handled. When it is reached, reading stops
//! and TCP slows the peer down.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Most bytes on the wire that wait to be handled. A message in memory takes up to about ten times
/// as much.
const MOST: usize = 8 << 20;
/// Smallest size that a message counts as, bytes: each takes some hundred bytes in memory.
const LEAST: usize = 1 << 10;

/// Room for messages of one peer. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox(Arc<Room>);

#[derive(Debug, Default)]
struct Room {
    held: Mutex<usize>,
    freed: Condvar,
}

/// Room of one message, freed when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: usize,
    room: Arc<Room>,
}

impl Inbox {
    /// Waits for room for `bytes`. A message that is larger than the whole inbox waits until it is
    /// empty.
    pub(crate) fn hold(&self, bytes: usize) -> Held {
        let bytes = bytes.max(LEAST);
        let held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |held: &mut usize| *held > 0 && *held + bytes > MOST;
        let mut held =
            self.0.freed.wait_while(held, is_full).unwrap_or_else(PoisonError::into_inner);
        *held += bytes;
        Held { bytes, room: Arc::clone(&self.0) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.room.held.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.room.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{TryRecvError, channel};
    use std::thread;

    use super::*;

    #[test]
    fn a_peer_that_says_more_than_there_is_room_for_waits_until_something_was_dealt_with() {
        let inbox = Inbox::default();
        let first = inbox.hold(MOST - LEAST);
        let second = inbox.hold(1);
        let (give, given) = channel();
        let waiting = {
            let inbox = inbox.clone();
            thread::spawn(move || give.send(inbox.hold(5 * MOST)))
        };
        assert!(matches!(given.try_recv(), Err(TryRecvError::Empty)));
        drop(first);
        assert!(
            matches!(given.try_recv(), Err(TryRecvError::Empty)),
            "a small message is still held"
        );
        drop(second);
        let held = given.recv().expect("it was given");
        waiting.join().expect("no panic").expect("it was received");
        assert_eq!(*inbox.0.held.lock().expect("no panic"), 5 * MOST);
        drop(held);
        assert_eq!(*inbox.0.held.lock().expect("no panic"), 0);
    }

    #[test]
    fn a_waiting_message_is_woken_each_time_another_was_handled() {
        let inbox = Inbox::default();
        let (give, given) = channel();
        let peer = thread::spawn(move || (0..200).for_each(|_| drop(give.send(inbox.hold(MOST)))));
        for _ in 0..200 {
            drop(
                given
                    .recv_timeout(std::time::Duration::from_secs(30))
                    .expect("it does not wait for ever"),
            );
        }
        peer.join().expect("no panic");
    }
}
