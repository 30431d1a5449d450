//! A flow and what one end knows of it.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use linerate_model::{Counter, Counters, SocketValue};

use crate::workloads::datagram::Tag;
use crate::workloads::sequence::Sequence;

/// One flow, as one end sees it.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) number: u32,
    pub(super) socket: UdpSocket,
    pub(super) outward: Tag,
    pub(super) inward: Tag,
    pub(super) pairing: Tag,
    pub(super) next_number: u64,
    pub(super) sequence: Sequence,
    pub(super) counters: Counters,
    /// The socket's drop counter as last seen, and whether it has been asked for since the last message.
    pub(super) drops: u32,
    pub(super) drops_known: bool,
    /// What the other end says it sent.
    pub(super) peer_sent: Option<u64>,
    pub(super) options: BTreeMap<String, SocketValue>,
}

impl Flow {
    /// Drops since the counter was last seen.
    pub(super) fn note_drops(&mut self, drops: u32) -> u64 {
        u64::from(drops.wrapping_sub(std::mem::replace(&mut self.drops, drops)))
    }

    /// Whether everything the other end sent is accounted for.
    pub(super) fn is_complete(&self) -> bool {
        let known = self.counters[Counter::DatagramsReceived] + self.counters[Counter::Late];
        self.peer_sent.is_some_and(|sent| known >= sent)
    }
}
