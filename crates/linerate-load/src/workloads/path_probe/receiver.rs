//! Receiving end: records every datagram and answers those that ask for it.

use linerate_model::{Counter, EcnCounts, FlowReport, Nanos, ProbeRecord, ProbeSeries};
use linerate_sys::clock;
use linerate_sys::socket::{ECN_MASK, ECT_0, ECT_1};
use linerate_sys::udp::{ReceiveBatch, Wait};

use super::course::MOST_DATAGRAMS;
use super::flow::Flow;
use super::{ANSWER_BYTES, ASKS, FLAGS_AT, IS_ECT, header_bytes};
use crate::workloads::companion::Companion;
use crate::workloads::datagram::{HEADER_BYTES, time_of, write_header};
use crate::workloads::rendezvous::would_wait;
use crate::{Due, Progress, Result, Tally, Times, Worker};
use linerate_packet::sequence::{Arrival, Sequence};

/// Messages per call, and the bytes of each that are copied out.
const MESSAGES: usize = 32;
const VISIBLE_BYTES: usize = FLAGS_AT + 1;
/// Time in which datagrams may still arrive after the sender has ended.
const LATE: Nanos = Nanos::from_millis(100);

/// Worker of the receiving end.
#[derive(Debug)]
pub(super) struct ProbeReceiver {
    flow: Flow,
    batch: ReceiveBatch,
    series: ProbeSeries,
    sequence: Sequence,
    received: u64,
    ecn: EcnCounts,
    companion: Companion,
    header_bytes: u64,
    /// Time at which the sender's end became known.
    ended: Option<Nanos>,
}

impl ProbeReceiver {
    pub(super) fn new(flow: Flow, companion: Companion) -> Result<Self> {
        Ok(Self {
            header_bytes: header_bytes(&flow.socket)?,
            flow,
            batch: ReceiveBatch::new(MESSAGES, VISIBLE_BYTES),
            series: ProbeSeries::with_capacity(MOST_DATAGRAMS as usize),
            sequence: Sequence::default(),
            received: 0,
            ecn: EcnCounts::default(),
            companion,
            ended: None,
        })
    }

    /// Receives what has arrived, after a short wait for the first datagram.
    fn receive(&mut self, tally: &mut Tally) -> bool {
        let Self { flow, batch, series, sequence, received, ecn, .. } = self;
        let n = match batch.receive(&flow.socket, Wait::Block) {
            Ok(n) => n,
            Err(error) => {
                let kind =
                    if would_wait(&error) { Counter::WouldBlock } else { Counter::ReceiveErrors };
                flow.count(tally, kind, 1);
                return false;
            }
        };
        let now = Nanos(clock::monotonic());
        for message in (0..n).map(|idx| batch.message(idx)) {
            let Some(number) = flow.number(&message, tally) else { continue };
            let Some(sent) = time_of(message.visible) else { continue };
            let arrived = flow.arrival(&message, now);
            series.add(number, sent, arrived.0);
            let seen = sequence.observe(number);
            let kind = match seen {
                Arrival::InOrder | Arrival::Reordered => Counter::DatagramsReceived,
                Arrival::Duplicate => Counter::Duplicates,
                Arrival::Late => Counter::Late,
            };
            flow.count(tally, kind, 1);
            if seen == Arrival::Reordered {
                flow.count(tally, Counter::Reordered, 1);
            }
            if kind == Counter::DatagramsReceived {
                *received += 1;
                flow.count(tally, Counter::PayloadReceived, message.bytes as u64);
            }
            let flags = message.visible.get(FLAGS_AT).copied().unwrap_or_default();
            if let Some(field) = message.ecn.filter(|_| flags & IS_ECT != 0) {
                count_ecn(ecn, field);
            }
            if flags & ASKS != 0 {
                let mut answer = [0; ANSWER_BYTES];
                write_header(&mut answer, flow.outward, number, Nanos(sent));
                let taken = clock::monotonic().saturating_sub(arrived.0);
                let highest = sequence.next().saturating_sub(1);
                let numbers = [*received, highest, taken, arrived.0];
                for (place, number) in answer[HEADER_BYTES..].chunks_exact_mut(8).zip(numbers) {
                    place.copy_from_slice(&number.to_be_bytes());
                }
                // A lost answer is a lost sample: the sender waits for the next one.
                if flow.socket.send(&answer).is_err() {
                    flow.count(tally, Counter::SendErrors, 1);
                }
            }
        }
        n > 0
    }
}

/// Counts the ECN field of a datagram that was sent as ECN-capable.
fn count_ecn(counts: &mut EcnCounts, field: u8) {
    match field {
        // Both code points are ECN-capable (RFC 3168 clause 5): a path that writes the other one
        // still carries marks.
        ECT_0 | ECT_1 => counts.kept += 1,
        // Congestion experienced: all bits of the field.
        ECN_MASK => counts.marked += 1,
        _ => counts.cleared += 1,
    }
}

impl Worker for ProbeReceiver {
    fn times(&self) -> Times {
        Times::NONE
    }

    fn step(&mut self, _: Due, tally: &mut Tally) -> Progress {
        let moved = self.receive(tally);
        let now = Nanos(clock::monotonic());
        let ended = &mut self.ended;
        self.companion.look(now, |_, _| *ended = ended.or(Some(now)));
        let is_over = self.ended.is_some_and(|ended| now.since(ended) >= LATE);
        if moved {
            Progress::Moved
        } else if is_over || self.companion.is_gone() {
            Progress::Ended
        } else {
            Progress::Idle
        }
    }

    fn may_end_early(&self) -> bool {
        true
    }

    fn stop_sending(&mut self) {}

    fn finish(&mut self) -> Vec<FlowReport> {
        let series = std::mem::take(&mut self.series);
        let record = ProbeRecord {
            series,
            header_bytes: self.header_bytes,
            ecn: self.ecn,
            ..ProbeRecord::default()
        };
        vec![self.flow.report(record, self.sequence.next())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_capable_code_points_are_kept_and_only_none_is_cleared() {
        let mut counts = EcnCounts::default();
        for field in [ECT_0, ECT_1, ECT_1, ECN_MASK, 0] {
            count_ecn(&mut counts, field);
        }
        assert_eq!(counts, EcnCounts { kept: 3, marked: 1, cleared: 1 });
    }
}
