//! Figures of the outcomes of a job's operations: due = answered + lost + open, and the losses
//! among them.
//!
//! Requests, connections, files and transfers have the account of [`super::operations`]. A datagram
//! or frame belongs to the span in which it was sent ([`super::loss_series`]); answered are those
//! that came, open those of an open load that were never sent.

use linerate_model::{Counter, Direction, Gap, OperationKind, metric};

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

/// The longest outage among the flows of `flow`. Nothing where receivers keep no gaps, or frames
/// overtook each other and may have filled them.
fn put_outage(figures: &mut Figures, flow: &Flow<'_>) {
    let Some(receiver) = flow.own_receiver() else { return };
    if receiver.flows.iter().any(|flow| flow.counters[Counter::Reordered] > 0) {
        return;
    }
    let kept: Option<Vec<Gap>> = receiver.flows.iter().map(|flow| flow.longest_gap).collect();
    let Some(longest) = kept.unwrap_or_default().into_iter().max_by_key(|gap| gap.missing) else {
        return;
    };
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
    }
    for loss in losses {
        if let Some(flow) = job.flow(loss.direction) {
            put_outage(figures, &flow);
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

    fn outage(flows: &[(Option<Gap>, u64)]) -> [Option<f64>; 2] {
        let mut sender = JobRecord::default();
        let mut interval = Interval { end: Nanos::from_secs(1), ..Interval::default() };
        interval.counters[Counter::PayloadSent] = 1;
        interval.counters[Counter::PayloadReceived] = 1;
        sender.intervals.push(interval);
        let mut receiver = sender.clone();
        for (gap, reordered) in flows {
            let mut flow = FlowReport { longest_gap: *gap, ..FlowReport::default() };
            flow.counters[Counter::Reordered] = *reordered;
            receiver.flows.push(flow);
        }
        let mut figures = Figures::default();
        let flow = Flow::between(Direction::Tx, [&sender, &receiver], "frames");
        put_outage(&mut figures, &flow.expect("it carries data"));
        [metric::OUTAGE, metric::OUTAGE_LOST].map(|metric| figures.get(metric, Direction::Tx))
    }

    #[test]
    fn the_flow_that_missed_most_has_the_outage_by_the_senders_clock() {
        let gap = |missing, seen, scheduled: Option<u64>| {
            let [seen, scheduled] = [Some(seen), scheduled].map(|ms| ms.map(Nanos::from_millis));
            Some(Gap { missing, seen: seen.unwrap_or_default(), scheduled })
        };
        let two = [(gap(3, 90, Some(4)), 0), (gap(49, 70, Some(50)), 0)];
        assert_eq!(outage(&two), [Some(0.05), Some(49.0)]);
        assert_eq!(outage(&[(gap(49, 70, None), 0)]), [Some(0.07), Some(49.0)], "another clock");
        assert_eq!(outage(&[(gap(0, 0, None), 0)]), [Some(0.0), Some(0.0)], "nothing is missing");
        assert_eq!(outage(&[two[0], (None, 0)]), [None; 2], "a receiver that keeps no gaps");
        assert_eq!(outage(&[(gap(49, 70, Some(50)), 1)]), [None; 2], "a frame was overtaken");
    }
}
