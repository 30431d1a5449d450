//! The loss ledger of a datagram flow: both ends' counts, reconciled.
//!
//! `sent = unique + lost (gap | tail | all) + late`, exactly; duplicates and reordering are counted
//! apart. A receiver alone sees only gaps before a later arrival; the tail and the black hole show
//! only against the sender's count.

use serde::{Deserialize, Serialize};

use crate::{Counter, FlowReport};

/// Where the datagrams of one flow, one way, went. Counts are datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossLedger {
    /// Handed to the sending socket.
    pub sent: u64,
    /// Received in time, each counted once.
    pub unique: u64,
    /// Received after they had been counted as lost.
    pub late: u64,
    /// Missing below the highest number received.
    pub lost_gap: u64,
    /// Missing above the highest number received.
    pub lost_tail: u64,
    /// Missing because not one arrived.
    pub lost_all: u64,
    /// Arrivals of a number already received; not part of the sum.
    pub duplicates: u64,
    /// First arrivals after a higher number; part of `unique`.
    pub reordered: u64,
}

impl LossLedger {
    /// Reconciles what `sender` says it sent with what `receiver` says it received, for one flow,
    /// one way.
    ///
    /// `None` if the two cannot be of one flow: more received than sent.
    #[must_use]
    pub fn reconcile(sender: &FlowReport, receiver: &FlowReport) -> Option<Self> {
        let sent = sender.counters[Counter::DatagramsSent];
        let unique = receiver.counters[Counter::DatagramsReceived];
        let late = receiver.counters[Counter::Late];
        let seen = receiver.next_sequence;
        // More received than sent means that the two reports belong to different flows.
        let lost = sent.checked_sub(unique)?.checked_sub(late)?;
        // Numbers whose frames a driver refused are used up though not sent, so that the highest
        // may exceed the count.
        let above = sent.saturating_sub(seen).min(lost);
        let lost_gap = lost - above;
        let (lost_tail, lost_all) = if seen == 0 { (0, above) } else { (above, 0) };
        Some(Self {
            sent,
            unique,
            late,
            lost_gap,
            lost_tail,
            lost_all,
            duplicates: receiver.counters[Counter::Duplicates],
            reordered: receiver.counters[Counter::Reordered],
        })
    }

    /// Datagrams sent and never received, late ones excluded.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_gap + self.lost_tail + self.lost_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(sent: u64, unique: u64, late: u64, next_sequence: u64) -> (FlowReport, FlowReport) {
        let (mut sender, mut receiver) =
            (FlowReport::default(), FlowReport { next_sequence, ..FlowReport::default() });
        sender.counters[Counter::DatagramsSent] = sent;
        receiver.counters[Counter::DatagramsReceived] = unique;
        receiver.counters[Counter::Late] = late;
        (sender, receiver)
    }

    /// The four losses of which iperf3 reports only the first (peers-network, finding 1).
    #[test]
    fn every_kind_of_loss_has_its_place() {
        let split = |(sender, receiver): (FlowReport, FlowReport)| {
            let ledger = LossLedger::reconcile(&sender, &receiver).expect("one flow");
            assert_eq!(ledger.sent, ledger.unique + ledger.lost() + ledger.late);
            (ledger.lost_gap, ledger.lost_tail, ledger.lost_all)
        };
        assert_eq!(split(reports(100, 90, 0, 100)), (10, 0, 0));
        assert_eq!(split(reports(100, 50, 0, 50)), (0, 50, 0));
        assert_eq!(split(reports(100, 0, 0, 0)), (0, 0, 100));
        assert_eq!(split(reports(100, 80, 5, 95)), (10, 5, 0));
    }

    #[test]
    fn numbers_that_were_never_sent_are_not_lost() {
        let (sender, receiver) = reports(98, 97, 0, 100);
        let ledger = LossLedger::reconcile(&sender, &receiver).expect("one flow");
        assert_eq!((ledger.lost(), ledger.lost_gap), (1, 1));
        let (sender, receiver) = reports(98, 98, 0, 100);
        assert_eq!(LossLedger::reconcile(&sender, &receiver).expect("one flow").lost(), 0);
    }

    #[test]
    fn more_received_than_sent_is_no_ledger() {
        let (sender, receiver) = reports(10, 11, 0, 11);
        assert_eq!(LossLedger::reconcile(&sender, &receiver), None);
    }
}
