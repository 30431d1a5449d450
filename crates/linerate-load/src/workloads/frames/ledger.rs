//! Account of arrivals per flow: new, repeated, out of order, too late, reflected, or a stranger's.

use std::num::NonZeroU64;

use linerate_model::{Counter, Counters, FrameClocks, Gap, LastGap, Nanos, PeerClock};
use linerate_packet::frame::{SIGNATURE_BYTES, Signature};

use crate::Tally;
use linerate_packet::sequence::{Arrival, Sequence};

/// Frames that one worker received.
#[derive(Debug)]
pub(super) struct Ledger {
    flows: Vec<Received>,
    inward: u32,
    outward: u32,
    /// Flow numbers of this worker leave this remainder when divided by `n_workers`; `None`: flows
    /// of all workers are accounted.
    worker: Option<u32>,
    n_workers: u32,
    clocks: Clocks,
    /// Snapshots of bursts, if requested. Most runs have none, and frames without them should cost
    /// no division.
    bursts: Option<Bursts>,
}

/// Slowest frame of each burst, as far as they are kept.
#[derive(Debug)]
struct Bursts {
    /// Response times by the number of the burst, ns; 0: none of its frames has arrived.
    slowest: Vec<u64>,
    /// Frames of a burst.
    frames: NonZeroU64,
}

impl Bursts {
    /// Records the response of the sender's `number`-th frame.
    #[inline]
    fn note(&mut self, number: u64, response_ns: u64) {
        if let Some(slowest) = self.slowest.get_mut((number / self.frames) as usize) {
            *slowest = (*slowest).max(response_ns);
        }
    }
}

/// Relation of the sender's clock to ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clocks {
    /// The same clock: times are exact.
    One,
    /// Another clock with a known offset: times are reported with an addition, and corrected by the
    /// study.
    Two(PeerClock),
    /// Another clock without a known offset: no times are reported.
    Unknown,
}

impl Clocks {
    /// Correction from a departure by the sender's clock to ours, with the addition to each time;
    /// ns.
    #[inline]
    fn ahead(self, at: Nanos) -> Option<(i64, u64)> {
        match self {
            Self::One => Some((0, 0)),
            Self::Two(peer) => Some((peer.ahead(at.0), peer.added_ns)),
            Self::Unknown => None,
        }
    }

    /// Returns true if one-way times are reported.
    pub(super) fn tell_times(self) -> bool {
        self != Self::Unknown
    }

    /// Returns the name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::One => FrameClocks::One.recorded(),
            Self::Two(_) => FrameClocks::Compared.recorded(),
            Self::Unknown => FrameClocks::Unrelated.recorded(),
        }
    }
}

/// One flow's receipts.
#[derive(Debug, Default)]
pub(super) struct Received {
    sequence: Sequence,
    pub(super) counters: Counters,
    /// Number and delay (from its own departure) of the last frame with a reported time.
    last: Option<(u64, u64)>,
    /// The last gap in the numbers, times on our monotonic clock.
    pub(super) last_gap: Option<LastGap>,
    /// The most numbers in a row that were jumped over.
    pub(super) longest_gap: Gap,
    /// When the newest frame came and was to depart.
    newest: Option<(Nanos, Option<Nanos>)>,
}

impl Received {
    /// Highest number seen, plus one.
    pub(super) fn next_sequence(&self) -> u64 {
        self.sequence.next()
    }

    /// Records the arrival of frame `sequence`, behind all before it, where `expected` was next.
    #[inline]
    fn advance(&mut self, expected: u64, sequence: u64, seen: Nanos, scheduled: Option<Nanos>) {
        let before = self.newest.replace((seen, scheduled));
        if sequence == expected {
            return;
        }
        self.last_gap = Some(LastGap { behind: sequence, seen, scheduled });
        let missing = sequence - expected;
        // A gap before the first frame has no beginning.
        if let Some((came, departed)) = before.filter(|_| missing > self.longest_gap.missing) {
            let scheduled = scheduled.zip(departed).map(|(behind, before)| behind.since(before));
            self.longest_gap = Gap { missing, seen: seen.since(came), scheduled };
        }
    }

    /// Records the difference to the frame sent just before, if that one's delay is known.
    #[inline]
    fn vary(&mut self, sequence: u64, delay_ns: u64, tally: &mut Tally) {
        if let Some((last, before_ns)) = self.last.replace((sequence, delay_ns))
            && last + 1 == sequence
        {
            match delay_ns.checked_sub(before_ns) {
                Some(rise) => tally.times.rises.record(rise),
                None => tally.times.falls.record(before_ns - delay_ns),
            }
        }
    }

    /// Distinct frames accounted, late ones included.
    pub(super) fn known(&self) -> u64 {
        self.counters[Counter::DatagramsReceived] + self.counters[Counter::Late]
    }
}

/// Tags that identify this trial's frames, and their direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tags {
    pub(super) outward: u32,
    pub(super) inward: u32,
}

impl Ledger {
    /// Creates a ledger of `n_flows` flows, those whose number leaves `worker` when divided by
    /// `n_workers`.
    pub(super) fn new(
        n_flows: usize,
        tags: Tags,
        worker: u32,
        n_workers: u32,
        clocks: Clocks,
    ) -> Self {
        let flows = (0..n_flows).map(|_| Received::default()).collect();
        Self {
            flows,
            inward: tags.inward,
            outward: tags.outward,
            worker: Some(worker),
            n_workers,
            clocks,
            bursts: None,
        }
    }

    /// Creates a ledger of all `n_flows` flows of a job, which are dealt to `n_workers`.
    pub(super) fn of_all(n_flows: usize, tags: Tags, n_workers: u32, clocks: Clocks) -> Self {
        Self { worker: None, ..Self::new(n_flows, tags, 0, n_workers, clocks) }
    }

    /// Keeps the slowest frame of each of the first `n` bursts of `frames` frames.
    pub(super) fn keeping(mut self, n: usize, frames: u32) -> Self {
        let frames = NonZeroU64::new(frames.into()).filter(|_| n > 0);
        self.bursts = frames.map(|frames| Bursts { slowest: vec![0; n], frames });
        self
    }

    /// Returns the slowest frame of each burst, ns, up to the last burst with an arrival.
    pub(super) fn bursts(&self) -> &[u64] {
        let slowest = self.bursts.as_ref().map_or(&[][..], |bursts| &bursts.slowest);
        &slowest[..slowest.iter().rposition(|ns| *ns > 0).map_or(0, |last| last + 1)]
    }

    /// Accounts a frame whose payload, as far as it was kept, is `payload` and truly
    /// `payload_bytes` long, which came `at` (monotonic clock).
    #[inline]
    pub(super) fn arrived(
        &mut self,
        payload: &[u8],
        payload_bytes: usize,
        at: Nanos,
        tally: &mut Tally,
    ) {
        let Some(signature) = Signature::read(payload) else {
            return tally.add(Counter::Foreign, 1);
        };
        if signature.tag != self.inward {
            let ours = signature.tag == self.outward;
            return tally.add(if ours { Counter::Reflected } else { Counter::Foreign }, 1);
        }
        let number = u32::from(signature.flow);
        let (own, n_flows) = (self.is_own(number), self.n_flows_beside(number));
        // Each of the workers that receive a flow sees its numbers rise, and the gaps between them
        // are no losses.
        let is_only_here = self.worker.is_some() || self.n_workers == 1;
        let idx = self.idx(number);
        let Some(flow) = self.flows.get_mut(idx).filter(|_| own) else {
            return tally.add(Counter::Foreign, 1);
        };
        let expected = flow.sequence.next();
        // Only 40 bits are sent; the nearest number to the expected one completes them.
        let sequence = signature.sequence(expected);
        let arrival = flow.sequence.observe(sequence);
        if is_only_here {
            tally.add(Counter::SequenceAdvance, flow.sequence.next() - expected);
        }
        let counter = match arrival {
            arrival @ (Arrival::InOrder | Arrival::Reordered) => {
                if arrival == Arrival::Reordered {
                    flow.counters[Counter::Reordered] += 1;
                    tally.add(Counter::Reordered, 1);
                }
                flow.counters[Counter::PayloadReceived] += payload_bytes as u64;
                tally.add(Counter::PayloadReceived, payload_bytes as u64);
                let mut scheduled = None;
                if let Some((ahead, added)) = self.clocks.ahead(at) {
                    let theirs = at.0.wrapping_add_signed(ahead);
                    let response = (theirs + added).saturating_sub(signature.scheduled_ns(theirs));
                    // The response counts from the schedule, so waiting in the sender is part of
                    // it.
                    tally.times.response.record(response);
                    scheduled = Some(Nanos(at.0.saturating_sub(response.saturating_sub(added))));
                    if let Some(bursts) = &mut self.bursts {
                        bursts.note(
                            sequence * n_flows + u64::from(number / self.n_workers),
                            response,
                        );
                    }
                    // The service counts from the hand-over: lateness of the sender is taken off.
                    let service = response.saturating_sub(signature.lateness_ns);
                    tally.times.service.record(service);
                    flow.vary(sequence, service, tally);
                }
                if sequence >= expected {
                    flow.advance(expected, sequence, at, scheduled);
                }
                Counter::DatagramsReceived
            }
            Arrival::Duplicate => Counter::Duplicates,
            Arrival::Late => Counter::Late,
        };
        // A duplicate was counted when it came first.
        if counter != Counter::Duplicates {
            tally.arrivals.count_short(signature.scheduled_low);
        }
        flow.counters[counter] += 1;
        tally.add(counter, 1);
    }

    /// Returns the flow with this number in the job.
    pub(super) fn flow(&self, number: u32) -> Option<&Received> {
        self.flows.get(self.idx(number))
    }

    #[inline]
    fn is_own(&self, number: u32) -> bool {
        self.worker.is_none_or(|worker| number % self.n_workers == worker)
    }

    #[inline]
    fn idx(&self, number: u32) -> usize {
        let idx = if self.worker.is_some() { number / self.n_workers } else { number };
        idx as usize
    }

    /// Returns how many flows take turns at the worker that sends flow `number`.
    #[inline]
    fn n_flows_beside(&self, number: u32) -> u64 {
        let n_flows = self.flows.len() as u64;
        match self.worker {
            Some(_) => n_flows,
            // Flows are dealt in turn, so the first ones may be one more.
            None => (n_flows - u64::from(number % self.n_workers).min(n_flows))
                .div_ceil(self.n_workers.into()),
        }
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

    fn payload(
        tag: u32,
        flow: u16,
        sequence: u64,
        scheduled_ns: u64,
        lateness_ns: u64,
    ) -> [u8; NEEDED] {
        let mut payload = [0; NEEDED];
        signature::write(&mut payload, tag, flow, &Stamp { sequence, scheduled_ns, lateness_ns });
        payload
    }

    #[test]
    fn each_arrival_is_counted_once_under_its_name() {
        let mut ledger = Ledger::new(2, TAGS, 1, 2, Clocks::One);
        let mut tally = Tally::new(Times::ALL);
        let mut arrive =
            |payload: &[u8], at: u64| ledger.arrived(payload, 100, Nanos(at), &mut tally);
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
        assert_eq!(tally.times.response.distribution().buckets, [(10, 2), (100, 1)]);
        assert_eq!(tally.times.service.distribution().buckets, [(10, 2), (70, 1)]);
        assert_eq!(ledger.flow(3).map(|flow| (flow.known(), flow.next_sequence())), Some((2, 2)));
    }

    #[test]
    fn the_change_of_delay_needs_frames_sent_one_after_the_other() {
        let mut ledger = Ledger::new(1, TAGS, 0, 1, Clocks::One);
        let mut tally = Tally::new(Times::ALL);
        // Delays 10, 14, 11; the fourth is lost; 90, 90; the last ones change places.
        let frames = [(0, 10), (1, 14), (2, 11), (4, 90), (5, 90), (7, 20), (6, 30)];
        for (sequence, delay) in frames {
            ledger.arrived(&payload(2, 0, sequence, 1_000, 0), 1, Nanos(1_000 + delay), &mut tally);
        }
        assert_eq!(tally.times.rises.distribution().buckets, [(0, 1), (4, 1)]);
        assert_eq!(tally.times.falls.distribution().buckets, [(3, 1)]);
    }

    #[test]
    fn a_sender_with_another_clock_is_timed_by_what_is_known_of_it_and_what_is_added() {
        // The sender's clock is a day and 250 ns ahead and gains 1000 parts in a billion; 40 ns are
        // added.
        const DAY: u64 = 86_400_000_000_000;
        let peer =
            PeerClock { ahead_ns: DAY as i64 + 250, at_ns: DAY, gains_ppb: 1_000, added_ns: 40 };
        let mut ledger = Ledger::new(1, TAGS, 0, 1, Clocks::Two(peer));
        let mut tally = Tally::new(Times::ALL);
        // 1 ms later it is 1 ns further ahead; sent 100 ns before it came, and 30 ns late.
        let at = DAY + 1_000_000;
        let scheduled = at + DAY + 251 - 100;
        ledger.arrived(&payload(2, 0, 0, scheduled, 30), 1, Nanos(at), &mut tally);
        assert_eq!(tally.times.response.distribution().buckets, [(140, 1)]);
        assert_eq!(tally.times.service.distribution().buckets, [(110, 1)]);
        // With an error of 90 ns, it arrives before it left: the addition hides only its own
        // amount.
        ledger.arrived(&payload(2, 0, 1, scheduled + 190, 0), 1, Nanos(at), &mut tally);
        assert_eq!(tally.times.service.distribution().buckets, [(0, 1), (110, 1)]);
    }

    #[test]
    fn the_last_gap_has_the_times_of_the_frame_behind_it() {
        let mut ledger = Ledger::new(1, TAGS, 0, 1, Clocks::One);
        let mut tally = Tally::new(Times::ALL);
        for (sequence, scheduled, at) in
            [(0, 100, 150), (2, 300, 360), (3, 400, 470), (7, 800, 890), (8, 900, 999)]
        {
            ledger.arrived(&payload(2, 0, sequence, scheduled, 0), 1, Nanos(at), &mut tally);
        }
        let gap = LastGap { behind: 7, seen: Nanos(890), scheduled: Some(Nanos(800)) };
        assert_eq!(ledger.flow(0).and_then(|flow| flow.last_gap), Some(gap));
    }

    #[test]
    fn the_longest_gap_has_the_times_between_the_frames_around_it() {
        let mut ledger = Ledger::new(1, TAGS, 0, 1, Clocks::One);
        let mut tally = Tally::new(Times::ALL);
        let mut longest = |frames: &[(u64, u64, u64)]| {
            for (sequence, scheduled, at) in frames {
                let payload = payload(2, 0, *sequence, *scheduled, 0);
                ledger.arrived(&payload, 1, Nanos(*at), &mut tally);
            }
            ledger.flow(0).map(|flow| flow.longest_gap)
        };
        let none = Gap { missing: 0, seen: Nanos(0), scheduled: None };
        assert_eq!(longest(&[(2, 300, 360), (3, 400, 470)]), Some(none), "it has no beginning");
        let gap = Gap { missing: 3, seen: Nanos(420), scheduled: Some(Nanos(400)) };
        assert_eq!(longest(&[(7, 800, 890), (8, 900, 999), (10, 1100, 1999)]), Some(gap));
        assert_eq!(longest(&[(9, 1000, 2010), (14, 1500, 2011)]), Some(gap), "not longer");
    }

    #[test]
    fn of_each_burst_the_slowest_frame_is_kept_as_long_as_there_is_room() {
        let mut ledger = Ledger::new(2, TAGS, 0, 1, Clocks::One).keeping(3, 4);
        let mut tally = Tally::new(Times::ALL);
        // Two flows take turns: frames 0 to 3 are a burst, 4 to 7 are lost, 8 and 11 of the third
        // burst arrive; the fourth is not kept.
        for (flow, sequence, response) in
            [(0, 0, 10), (1, 0, 40), (0, 1, 30), (1, 1, 20), (0, 4, 7), (1, 5, 9), (0, 6, 99)]
        {
            ledger.arrived(
                &payload(2, flow, sequence, 1_000, 0),
                1,
                Nanos(1_000 + response),
                &mut tally,
            );
        }
        assert_eq!(ledger.bursts(), [40, 0, 9]);
        assert_eq!(Ledger::new(1, TAGS, 0, 1, Clocks::One).bursts(), [0; 0]);
    }

    #[test]
    fn numbers_beyond_forty_bits_go_on_counting() {
        let mut ledger = Ledger::new(1, TAGS, 0, 1, Clocks::Unknown);
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
