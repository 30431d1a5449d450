//! What arrived, counted per flow: new, repeated, out of order, too late, reflected, or a stranger's.

use linerate_model::{Counter, Counters, Nanos};
use linerate_packet::frame::{SIGNATURE_BYTES, Signature};

use crate::Tally;
use crate::workloads::sequence::{Arrival, Sequence};

/// What one worker received.
#[derive(Debug)]
pub(super) struct Ledger {
    flows: Vec<Received>,
    inward: u32,
    outward: u32,
    /// Flow numbers of this worker leave the remainder `worker` when divided by `n_workers`.
    worker: u32,
    n_workers: u32,
    /// Whether the sender's clock is ours, so that times are told.
    one_clock: bool,
}

/// One flow's receipts.
#[derive(Debug, Default)]
pub(super) struct Received {
    sequence: Sequence,
    pub(super) counters: Counters,
    /// Number and delay (from its own departure) of the last frame whose time was told.
    last: Option<(u64, u64)>,
}

impl Received {
    /// Highest number seen, plus one.
    pub(super) fn next_sequence(&self) -> u64 {
        self.sequence.next()
    }

    /// Records the difference to the frame sent just before, if that one's delay is known.
    #[inline]
    fn vary(&mut self, sequence: u64, delay_ns: u64, tally: &mut Tally) {
        if let Some((last, before_ns)) = self.last.replace((sequence, delay_ns))
            && last + 1 == sequence
        {
            match delay_ns.checked_sub(before_ns) {
                Some(rise) => tally.rises.record(rise),
                None => tally.falls.record(before_ns - delay_ns),
            }
        }
    }

    /// Distinct frames accounted, late ones included.
    pub(super) fn known(&self) -> u64 {
        self.counters[Counter::DatagramsReceived] + self.counters[Counter::Late]
    }
}

/// What tells this trial's frames, and which way they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tags {
    pub(super) outward: u32,
    pub(super) inward: u32,
}

impl Ledger {
    /// A ledger of `n_flows` flows, those whose number leaves `worker` when divided by `n_workers`.
    pub(super) fn new(n_flows: usize, tags: Tags, worker: u32, n_workers: u32, one_clock: bool) -> Self {
        let flows = (0..n_flows).map(|_| Received::default()).collect();
        Self { flows, inward: tags.inward, outward: tags.outward, worker, n_workers, one_clock }
    }

    /// Accounts a frame whose payload, as far as it was kept, is `payload` and truly `payload_bytes` long, which came `at` (monotonic
    /// clock).
    #[inline]
    pub(super) fn arrived(&mut self, payload: &[u8], payload_bytes: usize, at: Nanos, tally: &mut Tally) {
        let Some(signature) = Signature::read(payload) else {
            return tally.add(Counter::Foreign, 1);
        };
        if signature.tag != self.inward {
            let ours = signature.tag == self.outward;
            return tally.add(if ours { Counter::Reflected } else { Counter::Foreign }, 1);
        }
        let number = u32::from(signature.flow);
        let own = number % self.n_workers == self.worker;
        let Some(flow) = self.flows.get_mut((number / self.n_workers) as usize).filter(|_| own) else {
            return tally.add(Counter::Foreign, 1);
        };
        let sequence = signature.sequence(flow.sequence.next());
        let counter = match flow.sequence.observe(sequence) {
            arrival @ (Arrival::InOrder | Arrival::Reordered) => {
                if arrival == Arrival::Reordered {
                    flow.counters[Counter::Reordered] += 1;
                    tally.add(Counter::Reordered, 1);
                }
                flow.counters[Counter::PayloadReceived] += payload_bytes as u64;
                tally.add(Counter::PayloadReceived, payload_bytes as u64);
                if self.one_clock {
                    let response = at.0.saturating_sub(signature.scheduled_ns(at.0));
                    tally.response.record(response);
                    let service = response.saturating_sub(signature.lateness_ns);
                    tally.service.record(service);
                    flow.vary(sequence, service, tally);
                }
                Counter::DatagramsReceived
            }
            Arrival::Duplicate => Counter::Duplicates,
            Arrival::Late => Counter::Late,
        };
        flow.counters[counter] += 1;
        tally.add(counter, 1);
    }

    /// The flow with this number in the job.
    pub(super) fn flow(&self, number: u32) -> Option<&Received> {
        self.flows.get((number / self.n_workers) as usize)
    }
}

/// Bytes from the beginning of a payload that are needed to account it.
pub(super) const NEEDED: usize = SIGNATURE_BYTES;

#[cfg(test)]
mod tests {
    use linerate_packet::frame::{Stamp, signature};

    use super::*;
    use crate::Times;

    const TAGS: Tags = Tags { outward: 1, inward: 2 };

    fn payload(tag: u32, flow: u16, sequence: u64, scheduled_ns: u64, lateness_ns: u64) -> [u8; NEEDED] {
        let mut payload = [0; NEEDED];
        signature::write(&mut payload, tag, flow, &Stamp { sequence, scheduled_ns, lateness_ns });
        payload
    }

    #[test]
    fn each_arrival_is_counted_once_under_its_name() {
        let mut ledger = Ledger::new(2, TAGS, 1, 2, true);
        let mut tally = Tally::new(Times::ALL);
        let mut arrive = |payload: &[u8], at: u64| ledger.arrived(payload, 100, Nanos(at), &mut tally);
        // Flows 1 and 3 are this worker's.
        arrive(&payload(2, 1, 0, 1_000, 30), 1_100);
        arrive(&payload(2, 3, 1, 0, 0), 10);
        arrive(&payload(2, 3, 0, 0, 0), 10);
        arrive(&payload(2, 3, 0, 0, 0), 10);
        arrive(&payload(1, 1, 0, 0, 0), 10);
        arrive(&payload(9, 1, 0, 0, 0), 10);
        arrive(&payload(2, 2, 0, 0, 0), 10);
        arrive(&payload(2, 5, 0, 0, 0), 10);
        arrive(&[0; NEEDED - 1], 10);
        let counted = |counter| tally.counters[counter];
        assert_eq!(counted(Counter::DatagramsReceived), 3);
        assert_eq!((counted(Counter::Reordered), counted(Counter::Duplicates)), (1, 1));
        assert_eq!((counted(Counter::Reflected), counted(Counter::Foreign)), (1, 4));
        assert_eq!(counted(Counter::PayloadReceived), 300);
        assert_eq!(tally.response.distribution().buckets, [(10, 2), (100, 1)]);
        assert_eq!(tally.service.distribution().buckets, [(10, 2), (70, 1)]);
        assert_eq!(ledger.flow(3).map(|flow| (flow.known(), flow.next_sequence())), Some((2, 2)));
    }

    #[test]
    fn the_change_of_delay_is_told_only_between_frames_sent_one_after_the_other() {
        let mut ledger = Ledger::new(1, TAGS, 0, 1, true);
        let mut tally = Tally::new(Times::ALL);
        // Delays 10, 14, 11; the fourth is lost; 90, 90; the last ones change places.
        let frames = [(0, 10), (1, 14), (2, 11), (4, 90), (5, 90), (7, 20), (6, 30)];
        for (sequence, delay) in frames {
            ledger.arrived(&payload(2, 0, sequence, 1_000, 0), 1, Nanos(1_000 + delay), &mut tally);
        }
        assert_eq!(tally.rises.distribution().buckets, [(0, 1), (4, 1)]);
        assert_eq!(tally.falls.distribution().buckets, [(3, 1)]);
    }

    #[test]
    fn numbers_beyond_forty_bits_go_on_counting() {
        let mut ledger = Ledger::new(1, TAGS, 0, 1, false);
        let mut tally = Tally::new(Times::NONE);
        // Half a circle at most is jumped over at once.
        let mut number = 0_u64;
        while number < 1 << 41 {
            ledger.arrived(&payload(2, 0, number, 0, 0), 1, Nanos(0), &mut tally);
            number += 1 << 38;
        }
        ledger.arrived(&payload(2, 0, (1 << 41) - 5, 0, 0), 1, Nanos(0), &mut tally);
        assert_eq!(ledger.flow(0).map(Received::next_sequence), Some((1 << 41) - 4));
        assert_eq!(tally.counters[Counter::Reordered], 0);
    }
}
