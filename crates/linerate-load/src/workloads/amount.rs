//! Amount of a load that ends by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use linerate_model::{Bytes, ParamError};

use crate::parameter::{Reader, wrong};

/// Most bytes of a load: they fit a counter with room.
const MOST: Bytes = Bytes(1 << 60);
const BYTES: &str = "amount";
const MESSAGES: &str = "messages";

/// Amount that each end sends before its load ends; without one it ends with the trial.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Amount {
    bytes: Option<Bytes>,
    messages: Option<u32>,
}

impl Amount {
    /// Declares both ways to give it.
    pub(crate) fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            bytes: reader.optional_size(
                BYTES,
                Bytes(1)..=MOST,
                "none: the load ends with the trial",
                "payload to send in each direction, all flows together; the load ends then",
            ),
            messages: reader.optional_count(
                MESSAGES,
                1..=u64::from(u32::MAX),
                "none: the load ends with the trial",
                "the same, in messages or datagrams",
            ),
        }
    }

    /// Refuses two amounts.
    pub(crate) fn check(&self) -> Result<(), ParamError> {
        match (self.bytes, self.messages) {
            (Some(_), Some(_)) => Err(wrong(MESSAGES, "a load has one amount: leave out `amount`")),
            _ => Ok(()),
        }
    }

    /// Returns true if the load ends by itself.
    pub(crate) fn is_given(&self) -> bool {
        self.bytes.is_some() || self.messages.is_some()
    }

    /// Returns the bytes to send, in messages of `message_bytes`.
    pub(crate) fn bytes(&self, message_bytes: u64) -> Option<u64> {
        let of_messages = |n: u32| u64::from(n).saturating_mul(message_bytes);
        self.bytes.map(|bytes| bytes.0).or(self.messages.map(of_messages))
    }

    /// Returns the datagrams of `datagram_bytes` to send: the last one is whole, as with iperf3.
    pub(crate) fn datagrams(&self, datagram_bytes: u64) -> Option<u64> {
        let of_bytes = |bytes: Bytes| bytes.0.div_ceil(datagram_bytes.max(1));
        self.messages.map(u64::from).or(self.bytes.map(of_bytes))
    }
}

/// Rest of an amount that several flows send.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Arc<AtomicU64>);

impl Pool {
    /// Creates a pool of `n` bytes or datagrams.
    pub(crate) fn new(n: u64) -> Self {
        Self(Arc::new(AtomicU64::new(n)))
    }

    /// Takes at most `most`. Zero is the end of the load for who asked: others give back only what
    /// they send later.
    #[inline]
    pub(crate) fn take(&self, most: u64) -> u64 {
        let take = |left: u64| Some(left - left.min(most));
        // It is a count alone, and orders nothing else.
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.unwrap_or_default().min(most)
    }

    /// Returns true if nothing is left now.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Gives back what was taken and not sent.
    #[inline]
    pub(crate) fn give_back(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_in_bytes_or_messages_and_its_last_datagram_is_whole() {
        let bytes = Amount { bytes: Some(Bytes(1_001)), messages: None };
        let messages = Amount { bytes: None, messages: Some(3) };
        assert_eq!((bytes.bytes(100), bytes.datagrams(100)), (Some(1_001), Some(11)));
        assert_eq!((messages.bytes(100), messages.datagrams(100)), (Some(300), Some(3)));
        assert_eq!((Amount::default().bytes(1), Amount::default().datagrams(1)), (None, None));
        assert!(Amount { messages: Some(1), ..bytes }.check().is_err());
    }

    #[test]
    fn a_pool_is_shared_and_never_gives_more_than_it_has() {
        let pool = Pool::new(10);
        let other = pool.clone();
        assert_eq!((pool.take(4), other.take(4), pool.take(4)), (4, 4, 2));
        other.give_back(3);
        assert_eq!((pool.take(9), other.take(9)), (3, 0));
    }
}
