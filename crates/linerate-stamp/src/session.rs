//! Record of a sender's session: each packet with its reply, and where packets were lost.

use crate::wire::Reply;

/// Times of one packet, ns since 1970: the first and last by this host's clock, the others by the
/// reflector's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Departure here.
    pub sent_ns: u64,
    /// Arrival at the reflector.
    pub arrived_ns: u64,
    /// Departure there.
    pub reflected_ns: u64,
    /// Arrival here.
    pub received_ns: u64,
}

impl Exchange {
    /// Returns the time in the network, both directions together, ns: without the time that the
    /// reflector took. `None` if a clock was stepped in between.
    #[must_use]
    pub fn round_trip(&self) -> Option<u64> {
        let here = self.received_ns.checked_sub(self.sent_ns)?;
        here.checked_sub(self.reflected_ns.checked_sub(self.arrived_ns)?)
    }

    /// Returns the differences of the clocks' times on the way there and back, ns: the delay of the
    /// way and the offset of the clocks together.
    #[must_use]
    pub fn ways(&self) -> [i128; 2] {
        let difference = |later: u64, earlier: u64| i128::from(later) - i128::from(earlier);
        [difference(self.arrived_ns, self.sent_ns), difference(self.received_ns, self.reflected_ns)]
    }
}

/// Packet that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    sent_ns: u64,
    reply: Option<(Reply, u64)>,
}

/// Session of a sender.
#[derive(Debug, Default)]
pub struct Session {
    sent: Vec<Sent>,
    /// Largest number of the reflector so far.
    highest: Option<u32>,
    /// Replies to packets that have one already.
    pub n_duplicates: u32,
    /// Replies that came behind one that the reflector sent later.
    pub n_reordered: u32,
    /// Packets that are no reply of this session.
    pub n_foreign: u32,
}

/// Losses by their direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// On the way to the reflector.
    pub there: u32,
    /// On the way back.
    pub back: u32,
    /// Not known in which direction.
    pub unplaced: u32,
}

/// How the direction of losses is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossMethod {
    /// The reflector reports its counts (RFC 8972 clause 4.5).
    Counts,
    /// The reflector numbers its own packets (stateful mode, RFC 8762 clause 4).
    Numbers,
    /// The reflector reports nothing.
    None,
}

impl LossMethod {
    /// Returns the packets that the reflector has received and sent when it sent `reply`.
    fn state(self, reply: &Reply) -> Option<(u32, u32)> {
        let number = reply.number.checked_add(1)?;
        match self {
            Self::Counts => reply.counts.map(|counts| (counts.arrived, counts.reflected)),
            Self::Numbers => Some((number, number)),
            Self::None => None,
        }
    }
}

impl Session {
    /// Records a packet that was sent at `sent_ns`. The first has number 0.
    pub fn sent(&mut self, sent_ns: u64) {
        self.sent.push(Sent { sent_ns, reply: None });
    }

    /// Returns the number of packets sent.
    #[must_use]
    pub fn n_sent(&self) -> u32 {
        u32::try_from(self.sent.len()).unwrap_or(u32::MAX)
    }

    /// Returns the number of packets with a reply.
    #[must_use]
    pub fn n_replied(&self) -> u32 {
        self.replies().count() as u32
    }

    /// Records a packet that arrived at `received_ns`.
    pub fn take(&mut self, packet: &[u8], session: u16, received_ns: u64) {
        let reply = Reply::from_bytes(packet)
            // Reflectors without extensions send zeroes.
            .filter(|reply| [session, 0].contains(&reply.session));
        let place = reply.and_then(|reply| self.sent.get_mut(reply.answers as usize));
        let (Some(reply), Some(place)) = (reply, place) else {
            self.n_foreign += 1;
            return;
        };
        if place.reply.is_some() {
            self.n_duplicates += 1;
            return;
        }
        self.n_reordered += u32::from(self.highest.is_some_and(|highest| reply.number < highest));
        self.highest = self.highest.max(Some(reply.number));
        place.reply = Some((reply, received_ns));
    }

    fn replies(&self) -> impl Iterator<Item = &Reply> {
        self.sent.iter().filter_map(|sent| Some(&sent.reply.as_ref()?.0))
    }

    /// Returns the times of each packet from number `from` on, in their order; `None` for one
    /// without a reply.
    pub fn exchanges(&self, from: usize) -> impl Iterator<Item = Option<Exchange>> {
        self.sent.iter().skip(from).map(|sent| {
            let (reply, received_ns) = sent.reply?;
            Some(Exchange {
                sent_ns: sent.sent_ns,
                arrived_ns: reply.arrived_ns,
                reflected_ns: reply.reflected_ns,
                received_ns,
            })
        })
    }

    /// Returns the last reply.
    #[must_use]
    pub fn last(&self) -> Option<&Reply> {
        self.replies().last()
    }

    /// Returns how the direction of losses is known.
    #[must_use]
    pub fn method(&self) -> LossMethod {
        if self.replies().any(|reply| reply.counts.is_some()) {
            LossMethod::Counts
        // A reflector without state repeats the number of the packet.
        } else if self.replies().any(|reply| reply.number != reply.answers) {
            LossMethod::Numbers
        } else {
            LossMethod::None
        }
    }

    /// Returns the losses by their direction. Of packets behind the last reply nobody knows where
    /// they were lost. A packet that was duplicated on the way there hides a lost one.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let method = self.method();
        let n_lost = self.n_sent().saturating_sub(self.n_replied());
        // The latest state of the reflector that is known here.
        let known = self.replies().filter_map(|reply| Some((reply.answers, method.state(reply)?)));
        let Some((answers, (arrived, reflected))) = known.max_by_key(|(_, counts)| *counts) else {
            return Losses { unplaced: n_lost, ..Losses::default() };
        };
        let until = answers.saturating_add(1);
        let replied = self.sent.iter().take(until as usize).filter(|sent| sent.reply.is_some());
        let lost = until.saturating_sub(replied.count() as u32);
        let there = until.saturating_sub(arrived).min(lost);
        let back = reflected.saturating_sub(until - lost).min(lost - there);
        Losses { there, back, unplaced: n_lost - there - back }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reflector::{Arrival, Reflector};
    use crate::wire::{ErrorEstimate, TestPacket};

    const SESSION: u16 = 9;

    /// What becomes of a packet.
    #[derive(Clone, Copy, PartialEq)]
    enum Fate {
        Arrives,
        LostThere,
        LostBack,
    }
    use Fate::{Arrives, LostBack, LostThere};

    /// Reflector that a session meets.
    #[derive(Clone, Copy, PartialEq)]
    enum Peer {
        Counting,
        Numbering,
        Stateless,
    }

    fn run(fates: &[Fate], peer: Peer) -> Session {
        let (mut session, mut reflector) = (Session::default(), Reflector::default());
        let error = ErrorEstimate::at_least(1, false);
        for (number, fate) in (0..).zip(fates) {
            let sent_ns = 1_000_000 * u64::from(number);
            session.sent(sent_ns);
            let n_sent = (peer == Peer::Counting).then_some(number + 1);
            let packet = TestPacket { number, sent_ns, error, session: SESSION, n_sent };
            let packet = packet.to_bytes(0);
            if *fate == LostThere {
                continue;
            }
            let peer_address = "192.0.2.1:5000".parse().expect("an address");
            let arrival = Arrival { arrived_ns: sent_ns + 500, hops: Some(64) };
            let mut reply = reflector
                .answer(peer_address, &packet, arrival, error, sent_ns + 700)
                .expect("one");
            if peer == Peer::Stateless {
                reply[..4].copy_from_slice(&number.to_be_bytes());
            }
            if *fate == Arrives {
                session.take(&reply, SESSION, sent_ns + 1_000);
            }
        }
        session
    }

    #[test]
    fn losses_have_their_direction_where_the_reflector_has_state() {
        let fates = [
            Arrives, LostThere, Arrives, LostBack, LostBack, LostThere, Arrives, LostThere,
            LostBack,
        ];
        for (peer, method) in
            [(Peer::Counting, LossMethod::Counts), (Peer::Numbering, LossMethod::Numbers)]
        {
            let session = run(&fates, peer);
            assert_eq!(session.method(), method);
            // The last two are behind the last reply.
            assert_eq!(session.losses(), Losses { there: 2, back: 2, unplaced: 2 });
            assert_eq!((session.n_sent(), session.n_replied()), (9, 3));
        }
        let session = run(&fates, Peer::Stateless);
        assert_eq!(session.method(), LossMethod::None);
        assert_eq!(session.losses(), Losses { there: 0, back: 0, unplaced: 6 });
        assert_eq!(run(&[LostThere; 3], Peer::Counting).losses().unplaced, 3, "nothing is known");
    }

    #[test]
    fn the_time_in_the_reflector_is_not_in_the_round_trip() {
        let session = run(&[Arrives], Peer::Counting);
        let exchange = session.exchanges(0).next().flatten().expect("a reply");
        assert_eq!(exchange.round_trip(), Some(800));
        assert_eq!(exchange.ways(), [500, 300]);
        let stepped = Exchange { received_ns: 0, ..exchange };
        assert_eq!(Exchange { sent_ns: 5, ..stepped }.round_trip(), None);
    }

    #[test]
    fn replies_that_repeat_overtake_or_belong_elsewhere_are_counted() {
        let mut session = Session::default();
        (0..3).for_each(|number| session.sent(number));
        let reply = |number: u32, ssid: u16| {
            let mut bytes = [0; 44];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            bytes[14..16].copy_from_slice(&ssid.to_be_bytes());
            bytes[24..28].copy_from_slice(&number.to_be_bytes());
            bytes
        };
        session.take(&reply(1, SESSION), SESSION, 10);
        session.take(&reply(0, 0), SESSION, 11);
        session.take(&reply(1, SESSION), SESSION, 12);
        session.take(&reply(2, SESSION + 1), SESSION, 13);
        session.take(&reply(3, SESSION), SESSION, 14);
        session.take(&[0; 20], SESSION, 15);
        let counts = (session.n_reordered, session.n_duplicates, session.n_foreign);
        assert_eq!((session.n_replied(), counts), (2, (1, 1, 3)));
    }
}
