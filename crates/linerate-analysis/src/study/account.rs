//! Figures of the outcomes of a job's operations: due = answered + lost + open, and the losses
//! among them.
//!
//! Requests, connections, files and transfers have the account of [`super::operations`]. A datagram
//! or frame belongs to the span in which it was sent ([`super::loss_series`]); answered are those
//! that came, open those of an open load that were never sent.

use linerate_model::{Counter, Direction, Gap, LossLedger, OperationKind, metric};

use super::figures::Figures;
use super::flow::Flow;
use super::loss::LossStudy;
use super::loss_series;
use super::operations::{Fates, Operations};
use super::span::{Span, counted, total};
use super::traffic::Job;

/// Datagrams and frames of one direction: outcomes of those due in the span.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    sent: u64,
    lost: u64,
    /// Operations of an open load that were due and never sent.
    unsent: u64,
}

impl Sent {
    fn of(flow: &Flow<'_>, span: Span, loss: &LossStudy) -> Self {
        let whole = (loss.ledger.sent, loss.ledger.lost());
        // Ledgers of versions that did not count how numbers rose know the whole trial only; so
        // does a job that sent nothing outside the span.
        let (sent, lost) =
            loss_series::during(span, *flow).filter(|(sent, _)| *sent != whole.0).unwrap_or(whole);
        let [due, started] =
            [Counter::Intended, Counter::Started].map(|counter| total(flow.sender, counter));
        // An operation may be a message of several datagrams.
        // Without a count of started operations, each one is one datagram.
        let each = if started > 0 { loss.ledger.sent as f64 / started as f64 } else { 1.0 };
        Self { sent, lost, unsent: (due.saturating_sub(started) as f64 * each).round() as u64 }
    }

    fn put(self, figures: &mut Figures, direction: Direction) {
        let Self { sent, lost, unsent } = self;
        if sent > 0 {
            figures.put(metric::LOST, direction, lost as f64);
            figures.put(metric::LOSS_RATIO, direction, lost as f64 / sent as f64);
        }
        if sent + unsent > 0 {
            let (due, answered) = (sent + unsent, sent - lost);
            put_fates(
                figures,
                direction,
                Fates { due, answered, lost, open: unsent, unstarted: 0 },
            );
            figures.put(
                metric::UNANSWERED_RATIO,
                direction,
                (lost + unsent) as f64 / (sent + unsent) as f64,
            );
        }
    }
}

/// Adds the longest outage among the flows of `flow`. Nothing where receivers keep no gaps, frames
/// overtook each other, came late or were dropped by the receiver's socket, or where more frames
/// are missing before the first or after the last frame received than in the longest gap.
fn put_outage(figures: &mut Figures, flow: &Flow<'_>, ledger: &LossLedger) {
    let Some(receiver) = flow.own_receiver() else { return };
    // Frames that overtook others may have filled a gap. Late frames and those that the socket
    // dropped came over the path: their gaps are no outages.
    let disturbing = [Counter::Reordered, Counter::Late, Counter::SocketDrops];
    let n = |counter| receiver.flows.iter().map(|flow| flow.counters[counter]).sum::<u64>();
    if disturbing.into_iter().any(|counter| n(counter) > 0) {
        return;
    }
    let kept: Option<Vec<Gap>> = receiver.flows.iter().map(|flow| flow.longest_gap).collect();
    let Some(longest) = kept.unwrap_or_default().into_iter().max_by_key(|gap| gap.missing) else {
        return;
    };
    // An outage at either end of the trial has no frame on its other side, and so no length.
    // Without a gap, all frames missing below the highest number precede the first one received.
    let at_start = if longest.missing == 0 { ledger.lost_gap } else { 0 };
    if at_start + ledger.lost_tail + ledger.lost_all > longest.missing {
        return;
    }
    // The clock of the sender is not disturbed by a receiver that waited for a CPU.
    let length = match longest.missing {
        0 => 0.0,
        _ => longest.scheduled.unwrap_or(longest.seen).as_secs_f64(),
    };
    figures.put(metric::OUTAGE, flow.direction, length);
    figures.put(metric::OUTAGE_LOST, flow.direction, longest.missing as f64);
}

/// The figures of the datagrams and frames of `job`.
pub(super) fn loss_figures(figures: &mut Figures, job: &Job<'_>, span: Span, losses: &[LossStudy]) {
    let sent = |loss: &LossStudy| {
        job.flow(loss.direction).map_or_else(Sent::default, |flow| Sent::of(&flow, span, loss))
    };
    for loss in losses {
        put_losses(figures, loss.direction, loss, sent(loss));
        if let Some(flow) = job.flow(loss.direction) {
            put_outage(figures, &flow, &loss.ledger);
        }
    }
    // A sum of one direction would repeat it.
    if let [first, second] = losses {
        let mut sum = first.clone();
        sum.add(second);
        let (a, b) = (sent(first), sent(second));
        let (sent, lost) = (a.sent + b.sent, a.lost + b.lost);
        let of_both = Sent { sent, lost, unsent: a.unsent + b.unsent };
        put_losses(figures, Direction::Sum, &sum, of_both);
    }
}

fn put_losses(figures: &mut Figures, direction: Direction, loss: &LossStudy, sent: Sent) {
    sent.put(figures, direction);
    figures.put(metric::LATE, direction, loss.ledger.late as f64);
    figures.put(metric::DUPLICATES, direction, loss.ledger.duplicates as f64);
    figures.put(metric::REORDERED, direction, loss.ledger.reordered as f64);
}

/// The figures of its requests, connections, files and transfers.
pub(super) fn operation_figures(figures: &mut Figures, job: &Job<'_>, span: Span) {
    let by_either = |counter| counted_by_either(job, counter, span);
    let answered = by_either(Counter::Transactions);
    let unanswered = by_either(Counter::TransactionsLost);
    if answered.is_some() || unanswered.is_some() {
        // One of the two counters may be absent where nothing happened; both absent means that the
        // load has no requests.
        let (answered, lost) = (answered.unwrap_or(0.0), unanswered.unwrap_or(0.0));
        figures.put(metric::TRANSACTION_RATE, Direction::Sum, answered / span.seconds());
        figures.put(metric::LOST, Direction::Sum, lost);
        figures.put(metric::LOSS_RATIO, Direction::Sum, lost / (answered + lost));
    }
    if let Some(operations) = job.operations(span) {
        let Operations { due, answered, lost, open, .. } = operations;
        for (kind, direction) in
            [(OperationKind::Request, Direction::Rx), (OperationKind::Write, Direction::Tx)]
        {
            if job.is_of_disk() {
                fates_of_disk(figures, direction, operations.of(kind).fates);
            }
        }
        let of_due = |n: u64| n as f64 / due as f64;
        put_fates(figures, Direction::Sum, Fates { due, answered, lost, open, unstarted: 0 });
        // Over the same set: those lost of those due.
        // The figures above count what ended in the span. These replace them where each operation
        // is known from start to end.
        figures.put(metric::LOST, Direction::Sum, lost as f64);
        figures.put(metric::LOSS_RATIO, Direction::Sum, of_due(lost));
        figures.put(metric::UNANSWERED_RATIO, Direction::Sum, of_due(lost + open));
    }
    // Connections that only ended with the load had no rate during it.
    let [opened, failed] = [Counter::Connections, Counter::ConnectionsFailed]
        .map(|counter| by_either(counter).unwrap_or(0.0));
    if opened > 0.0 || failed > 0.0 {
        figures.put(metric::CONNECTION_RATE, Direction::Sum, opened / span.seconds());
    }
}

/// Returns what the first end that counts `counter` counted in `span`.
fn counted_by_either(job: &Job<'_>, counter: Counter, span: Span) -> Option<f64> {
    let end = job.ends().into_iter().find(|end| total(end, counter) > 0)?;
    Some(counted(end, counter, span))
}

/// Adds the outcomes of reads or of writes of disks and files. Operations of an open load that were
/// never started count as neither answered nor lost.
fn fates_of_disk(figures: &mut Figures, direction: Direction, fates: Fates) {
    // A direction in which nothing was started is no load of the plan.
    if fates.due > fates.unstarted {
        put_fates(figures, direction, Fates { due: fates.due - fates.unstarted, ..fates });
    }
}

/// Adds the operations due and their outcomes.
fn put_fates(figures: &mut Figures, direction: Direction, fates: Fates) {
    figures.put(metric::OPERATIONS_DUE, direction, fates.due as f64);
    figures.put(metric::OPERATIONS_ANSWERED, direction, fates.answered as f64);
    figures.put(metric::OPERATIONS_LOST, direction, fates.lost as f64);
    figures.put(metric::OPERATIONS_OPEN, direction, fates.open as f64);
}

#[cfg(test)]
mod tests {
    use linerate_model::{FlowReport, Interval, JobRecord, Nanos};

    use super::*;

    fn outage(flows: &[(Option<Gap>, Option<Counter>)], ledger: LossLedger) -> [Option<f64>; 2] {
        let mut sender = JobRecord::default();
        let mut interval = Interval { end: Nanos::from_secs(1), ..Interval::default() };
        interval.counters[Counter::PayloadSent] = 1;
        interval.counters[Counter::PayloadReceived] = 1;
        sender.intervals.push(interval);
        let mut receiver = sender.clone();
        for (gap, counter) in flows {
            let mut flow = FlowReport { longest_gap: *gap, ..FlowReport::default() };
            if let Some(counter) = counter {
                flow.counters[*counter] = 1;
            }
            receiver.flows.push(flow);
        }
        let mut figures = Figures::default();
        let flow = Flow::between(Direction::Tx, [&sender, &receiver], "frames");
        put_outage(&mut figures, &flow.expect("it carries data"), &ledger);
        [metric::OUTAGE, metric::OUTAGE_LOST].map(|metric| figures.get(metric, Direction::Tx))
    }

    fn gap(missing: u64, seen: u64, scheduled: Option<u64>) -> Option<Gap> {
        let scheduled = scheduled.map(Nanos::from_millis);
        Some(Gap { missing, seen: Nanos::from_millis(seen), scheduled })
    }

    #[test]
    fn the_flow_that_missed_most_has_the_outage_by_the_senders_clock() {
        let lost = LossLedger { lost_gap: 52, ..LossLedger::default() };
        let none = LossLedger::default();
        let two = [(gap(3, 90, Some(4)), None), (gap(49, 70, Some(50)), None)];
        assert_eq!(outage(&two, lost), [Some(0.05), Some(49.0)]);
        assert_eq!(
            outage(&[(gap(49, 70, None), None)], lost),
            [Some(0.07), Some(49.0)],
            "another clock"
        );
        assert_eq!(
            outage(&[(gap(0, 0, None), None)], none),
            [Some(0.0), Some(0.0)],
            "nothing is missing"
        );
        assert_eq!(outage(&[two[0], (None, None)], lost), [None; 2], "a receiver without gaps");
    }

    #[test]
    fn a_gap_that_is_not_the_longest_outage_of_the_path_is_withheld() {
        let (of_gap, none) = (gap(49, 70, Some(50)), LossLedger::default());
        for counter in [Counter::Reordered, Counter::Late, Counter::SocketDrops] {
            let lost = LossLedger { lost_gap: 49, ..none };
            assert_eq!(outage(&[(of_gap, Some(counter))], lost), [None; 2], "{counter:?}");
        }
        let short = LossLedger { lost_gap: 49, lost_tail: 49, ..none };
        assert_eq!(outage(&[(of_gap, None)], short), [Some(0.05), Some(49.0)], "a shorter tail");
        let cases = [
            ("nothing after the gap", of_gap, LossLedger { lost_tail: 50, ..short }),
            ("nothing before the gap", gap(0, 0, None), LossLedger { lost_gap: 50, ..none }),
            ("nothing at all", gap(0, 0, None), LossLedger { lost_all: 50, ..none }),
        ];
        for (case, gap, ledger) in cases {
            assert_eq!(outage(&[(gap, None)], ledger), [None; 2], "{case}");
        }
    }
}
