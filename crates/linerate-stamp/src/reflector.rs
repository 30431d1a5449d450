//! Reflector with a state for each session (RFC 8762 clause 4, stateful mode).

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::wire::{Counts, ErrorEstimate, Reply, TestPacket};

/// Most sessions that are counted at a time. Behind them the one that was silent for longest is
/// forgotten, so that strangers cannot exhaust the memory.
const MOST_SESSIONS: usize = 4_096;
/// Time to live where it is not known.
const UNKNOWN_HOPS: u8 = 255;

/// Arrival of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Time, ns since 1970.
    pub arrived_ns: u64,
    /// Time to live of its IP header.
    pub hops: Option<u8>,
}

/// Counts of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reflected {
    /// Address and port of the sender.
    pub sender: SocketAddr,
    /// Its identifier.
    pub session: u16,
    /// Packets that arrived and were answered.
    pub n_packets: u32,
    /// Largest number that arrived.
    pub highest: u32,
    /// Time of the last packet, ns since 1970.
    pub last_ns: u64,
}

/// Reflector of all sessions at a port.
#[derive(Debug, Default)]
pub struct Reflector {
    sessions: HashMap<(SocketAddr, u16), Reflected>,
    /// Packets that are too short for a test packet.
    pub n_foreign: u64,
}

impl Reflector {
    /// Returns the answer to `packet` from `sender`, which leaves at `reflected_ns`; `None` if that
    /// is no test packet.
    pub fn answer(
        &mut self,
        sender: SocketAddr,
        packet: &[u8],
        arrival: Arrival,
        error: ErrorEstimate,
        reflected_ns: u64,
    ) -> Option<Vec<u8>> {
        let Some(test) = TestPacket::from_bytes(packet) else {
            self.n_foreign += 1;
            return None;
        };
        let key = (sender, test.session);
        if self.sessions.len() >= MOST_SESSIONS && !self.sessions.contains_key(&key) {
            self.forget_oldest();
        }
        let state = self.sessions.entry(key).or_insert(Reflected {
            sender,
            session: test.session,
            n_packets: 0,
            highest: 0,
            last_ns: 0,
        });
        let number = state.n_packets;
        state.n_packets = number.wrapping_add(1);
        state.highest = state.highest.max(test.number);
        state.last_ns = arrival.arrived_ns;
        // Every packet that arrives is answered.
        let counts = Counts { sent: 0, arrived: state.n_packets, reflected: state.n_packets };
        let reply = Reply {
            number,
            reflected_ns,
            error,
            session: test.session,
            arrived_ns: arrival.arrived_ns,
            answers: test.number,
            hops: arrival.hops.unwrap_or(UNKNOWN_HOPS),
            counts: Some(counts),
        };
        Some(reply.to_bytes(packet))
    }

    fn forget_oldest(&mut self) {
        let oldest = self.sessions.iter().min_by_key(|(_, state)| state.last_ns);
        if let Some(key) = oldest.map(|(key, _)| *key) {
            self.sessions.remove(&key);
        }
    }

    /// Returns the sessions whose last packet arrived before `before_ns`, and forgets them.
    pub fn ended(&mut self, before_ns: u64) -> Vec<Reflected> {
        self.sessions
            .extract_if(|_, state| state.last_ns < before_ns)
            .map(|(_, state)| state)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(reflector: &mut Reflector, port: u16, at: u64) -> Option<Reply> {
        let sender = SocketAddr::from(([192, 0, 2, 1], port));
        let error = ErrorEstimate::at_least(1, false);
        let test = TestPacket { number: 4, sent_ns: at, error, session: 1, n_sent: Some(5) };
        let arrival = Arrival { arrived_ns: at, hops: None };
        let bytes = reflector.answer(sender, &test.to_bytes(0), arrival, error, at)?;
        Reply::from_bytes(&bytes)
    }

    #[test]
    fn each_session_is_numbered_from_zero_and_counted() {
        let mut reflector = Reflector::default();
        let replies: Vec<Reply> = [1, 2, 1, 1]
            .into_iter()
            .filter_map(|port| answered(&mut reflector, port, 10))
            .collect();
        let numbers: Vec<u32> = replies.iter().map(|reply| reply.number).collect();
        assert_eq!(numbers, [0, 0, 1, 2]);
        let counts = Counts { sent: 5, arrived: 3, reflected: 3 };
        assert_eq!((replies[3].counts, replies[3].hops), (Some(counts), 255));
        let ended = reflector.ended(11);
        assert_eq!(ended.iter().map(|state| state.n_packets).sum::<u32>(), 4);
        assert_eq!(reflector.ended(11), [], "each is reported once");
    }

    #[test]
    fn strangers_do_not_exhaust_the_memory_and_short_packets_are_not_answered() {
        let mut reflector = Reflector::default();
        for port in 0..=MOST_SESSIONS as u16 {
            answered(&mut reflector, port, u64::from(port)).expect("a reply");
        }
        assert_eq!(reflector.sessions.len(), MOST_SESSIONS);
        let oldest = (SocketAddr::from(([192, 0, 2, 1], 0)), 1);
        assert!(!reflector.sessions.contains_key(&oldest), "the oldest was forgotten");
        let arrival = Arrival { arrived_ns: 0, hops: None };
        let error = ErrorEstimate::at_least(1, false);
        assert_eq!(reflector.answer(oldest.0, &[0; 13], arrival, error, 0), None);
        assert_eq!(reflector.n_foreign, 1);
    }
}
