//! Sending end: carries out the course and reads the answers.

use linerate_model::{Bytes, Counter, FlowReport, Nanos, ProbeRecord, ProbeSeries};
use linerate_sys::clock;
use linerate_sys::readiness::{Interest, Readiness};
use linerate_sys::socket::{self, ECT_0};
use linerate_sys::udp::{self, ReceiveBatch, SendBatch, Wait};

use super::course::{Action, Answer, BATCH, Course, MOST_DATAGRAMS};
use super::flow::Flow;
use super::{ANSWER_BYTES, ASKS, FLAGS_AT, IS_ECT, PathProbeParams, header_bytes};
use crate::workloads::companion::Companion;
use crate::workloads::datagram::{HEADER_BYTES, time_of, write_header};
use crate::workloads::rendezvous::would_wait;
use crate::{Due, Progress, Result, Tally, Times, Worker};

/// Answers per call.
const ANSWERS: usize = 32;
/// Waits below this are spun through: a sleep would end later.
const SPIN: Nanos = Nanos(60_000);
/// Wait after the socket's buffer was full.
const FULL: Nanos = Nanos(200_000);
/// Linux `EMSGSIZE`: a datagram is larger than the MTU of the interface.
const TOO_LARGE: i32 = 90;

/// Worker of the sending end.
#[derive(Debug)]
pub(super) struct ProbeSender {
    flow: Flow,
    course: Course,
    batch: SendBatch,
    answers: ReceiveBatch,
    series: ProbeSeries,
    companion: Companion,
    readiness: Readiness,
    routed: usize,
    header_bytes: u64,
    is_ect: bool,
    stopped: bool,
}

impl ProbeSender {
    pub(super) fn new(params: &PathProbeParams, flow: Flow, companion: Companion) -> Result<Self> {
        let routed = udp::path_payload_bytes(&flow.socket)?;
        let header_bytes = header_bytes(&flow.socket)?;
        let readiness = Readiness::new()?;
        readiness.add(&flow.socket, 0, Interest::Readable)?;
        Ok(Self {
            course: Course::new(params.limits(), routed, header_bytes),
            batch: SendBatch::new(BATCH, routed.max(ANSWER_BYTES)),
            answers: ReceiveBatch::new(ANSWERS, ANSWER_BYTES),
            series: ProbeSeries::with_capacity(MOST_DATAGRAMS as usize),
            flow,
            companion,
            readiness,
            routed,
            header_bytes,
            is_ect: false,
            stopped: false,
        })
    }

    /// Reads the answers that have arrived.
    fn read_answers(&mut self, tally: &mut Tally) {
        let Self { flow, course, answers, series, .. } = self;
        // An error such as an ICMP refusal is no answer; the next call reads on.
        let Ok(n) = answers.receive(&flow.socket, Wait::Never) else { return };
        let now = Nanos(clock::monotonic());
        for message in (0..n).map(|idx| answers.message(idx)) {
            let Some(number) = flow.number(&message, tally) else { continue };
            let Some(sent) = time_of(message.visible) else { continue };
            let mut numbers = message.visible[HEADER_BYTES..].chunks_exact(size_of::<u64>());
            let mut next = || numbers.next()?.try_into().ok().map(u64::from_be_bytes);
            let (Some(received), Some(highest), Some(taken), Some(arrived)) =
                (next(), next(), next(), next().map(Nanos))
            else {
                continue;
            };
            let at = flow.arrival(&message, now).since(Nanos(taken));
            series.add(number, sent, at.0);
            let rtt = at.since(Nanos(sent));
            course.answered(Answer { number, received, highest, at, arrived, rtt });
        }
    }

    /// Sends `n` datagrams; returns true if the socket took any.
    fn send(&mut self, n: usize, payload: usize, asks: bool, tally: &mut Tally) -> bool {
        let is_ect = self.course.is_pinging();
        if is_ect != self.is_ect {
            if socket::set_ecn(&self.flow.socket, if is_ect { ECT_0 } else { 0 }).is_err() {
                self.flow.count(tally, Counter::SendErrors, 1);
                return false;
            }
            self.is_ect = is_ect;
        }
        let flags = if is_ect { IS_ECT } else { 0 };
        let first = self.course.next_number();
        let now = Nanos(clock::monotonic());
        for idx in 0..n {
            let datagram = self.batch.message_mut(idx);
            write_header(datagram, self.flow.outward, first + idx as u64, now);
            datagram[FLAGS_AT] = if asks && idx + 1 == n { flags | ASKS } else { flags };
            self.batch.set_length(idx, payload);
        }
        let sent = match self.batch.send(&self.flow.socket, n, Wait::Never) {
            Ok(sent) => sent,
            Err(error) => {
                // A datagram above the MTU that the kernel knows is a result, not a fault.
                if error.raw_os_error() == Some(TOO_LARGE) {
                    self.course.refused(payload);
                }
                let kind =
                    if would_wait(&error) { Counter::WouldBlock } else { Counter::SendErrors };
                self.flow.count(tally, kind, 1);
                0
            }
        };
        self.course.sent(sent, payload, asks && sent == n, now);
        self.flow.count(tally, Counter::DatagramsSent, sent as u64);
        self.flow.count(tally, Counter::PayloadSent, (sent * payload) as u64);
        sent > 0
    }

    /// Waits until `until`, or for an answer.
    fn wait(&mut self, until: Nanos) {
        let left = until.since(Nanos(clock::monotonic()));
        if left > SPIN {
            self.readiness.is_ready_within(left.since(SPIN).into());
        }
    }
}

impl Worker for ProbeSender {
    fn times(&self) -> Times {
        Times::NONE
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        self.read_answers(tally);
        let now = Nanos(clock::monotonic());
        self.companion.look(now, |_, _| {});
        if self.stopped || self.companion.is_gone() {
            return Progress::Ended;
        }
        match self.course.next(now) {
            Action::Send { n, payload, asks } if due.operations > 0 => {
                if self.send(n, payload, asks, tally) {
                    return Progress::Moved;
                }
                self.wait((now + FULL).min(due.until));
            }
            Action::Send { .. } => {}
            Action::Wait(until) => self.wait(until.min(due.until)),
            Action::Done => {
                self.stop_sending();
                return Progress::Ended;
            }
        }
        Progress::Idle
    }

    fn may_end_early(&self) -> bool {
        true
    }

    fn stop_sending(&mut self) {
        if !std::mem::replace(&mut self.stopped, true) {
            self.companion.tell(0, self.course.next_number());
        }
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        self.stop_sending();
        let (phases, largest) = self.course.results();
        let record = ProbeRecord {
            phases,
            series: std::mem::take(&mut self.series),
            largest,
            routed: Some(Bytes(self.routed as u64)),
            header_bytes: self.header_bytes,
            ..ProbeRecord::default()
        };
        vec![self.flow.report(record, self.course.next_number())]
    }
}
