//! Sending times of the datagrams that were lost.
//!
//! A receiver cannot know when a missing datagram was sent, but it knows its number. In each
//! interval the receiver counts the rise of the highest numbers (`sequence_advance`) and the
//! datagrams that came. Datagrams missing from a rise lie among the numbers of that rise. Senders
//! number datagrams one by one, so a number identifies the sender's interval. The clocks and the
//! delay between the ends do not matter, and datagrams still in flight do not count as lost.
//!
//! Both ends count by the interval of the sender in which a datagram was due. The loss of an
//! interval is therefore the exact difference, and a span has the losses of the intervals that
//! begin in it. The rest of this file is for records without such counts, or with incomplete ones.
//!
//! Numbers of all flows of a worker are added, as are those of its counterpart: exact for a worker
//! with one flow, and for several whose turns at both ends agree. Datagrams sent after the highest
//! number seen (the tail) were sent last. A flow of which nothing came has losses in proportion to
//! its sent datagrams. The losses of all bins add up to those of the loss ledger. Not covered: the
//! position of a loss within an interval of the sender.

use std::collections::BTreeMap;

use linerate_model::{Counter, Interval, JobRecord, Nanos};

use super::flow::Flow;
use super::grid::Grid;
use super::span::{Span, total};

/// Datagrams of one direction by the bin in which they were sent.
pub(super) struct Lost {
    /// Datagrams sent.
    pub(super) sent: Vec<f64>,
    /// Those of them that never came.
    pub(super) lost: Vec<f64>,
}

/// Returns the losses of `flow`; `None` where its receiver did not count how numbers rose.
pub(super) fn of(grid: &Grid, flow: Flow<'_>) -> Option<Lost> {
    let (sender, receiver) = flow.own_sender().zip(flow.own_receiver())?;
    lost(grid, sender, receiver)
}

/// Returns the number of datagrams of `flow` sent in `span`, and of those that never came; `None`
/// as in [`of`].
pub(super) fn during(span: Span, flow: Flow<'_>) -> Option<(u64, u64)> {
    let (sender, receiver) = flow.own_sender().zip(flow.own_receiver())?;
    sent_and_lost(span, sender, receiver)
}

/// Sent, and come, by the start of the sender's interval in which they were to depart; `None`
/// unless both ends counted all of them.
fn by_departure(sender: &JobRecord, receiver: &JobRecord) -> Option<BTreeMap<u64, (u64, u64)>> {
    let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let (mut sent, mut come) = (0_u64, 0_u64);
    for (start, n) in sender.intervals.iter().flat_map(|interval| &interval.departures.buckets) {
        let count = &mut counts.entry(*start).or_default().0;
        (*count, sent) = (count.saturating_add(*n), sent.saturating_add(*n));
    }
    for (start, n) in receiver.intervals.iter().flat_map(|interval| &interval.arrivals.buckets) {
        let count = &mut counts.entry(*start).or_default().1;
        (*count, come) = (count.saturating_add(*n), come.saturating_add(*n));
    }
    // A record that lacks some intervals would report the missing ones as lost.
    let all_come = total(receiver, Counter::DatagramsReceived) + total(receiver, Counter::Late);
    let is_whole = sent > 0 && sent == total(sender, Counter::DatagramsSent) && come == all_come;
    // More received than sent in an interval: the two ends disagree, so neither count is used.
    (is_whole && counts.values().all(|(sent, come)| come <= sent)).then_some(counts)
}

fn sent_and_lost(span: Span, sender: &JobRecord, receiver: &JobRecord) -> Option<(u64, u64)> {
    if let Some(counts) = by_departure(sender, receiver) {
        let within = counts.range(span.from.0..span.to.0.max(span.from.0));
        return Some(within.fold((0, 0), |(all, lost): (u64, u64), (_, (sent, come))| {
            (all.saturating_add(*sent), lost.saturating_add(sent - come))
        }));
    }
    let length = span.to.since(span.from).0.max(1);
    // Bins no wider than the span, of which one begins where it does.
    let n_before = span.from.0.div_ceil(length);
    let width = if n_before > 0 { span.from.0.div_ceil(n_before) } else { length };
    let grid = Grid { width, n_bins: span.to.0.div_ceil(width).max(1) as usize, end: span.to.0 };
    let found = lost(&grid, sender, receiver)?;
    let within =
        |bins: Vec<f64>| bins.into_iter().skip(n_before as usize).sum::<f64>().round() as u64;
    let sent = within(found.sent);
    Some((sent, within(found.lost).min(sent)))
}

fn lost(grid: &Grid, sender: &JobRecord, receiver: &JobRecord) -> Option<Lost> {
    let is_counted = total(receiver, Counter::SequenceAdvance) > 0;
    // A receiver that saw nothing lost everything, which needs no rise of numbers.
    if !is_counted && total(receiver, Counter::DatagramsReceived) > 0 {
        return None;
    }
    let mut found = Lost { sent: vec![0.0; grid.n_bins], lost: vec![0.0; grid.n_bins] };
    if let Some(counts) = by_departure(sender, receiver).filter(|_| grid.n_bins > 0) {
        for (start, (sent, come)) in counts {
            // A departure at the very end belongs to the last bin.
            let bin = ((start / grid.width) as usize).min(grid.n_bins - 1);
            found.sent[bin] += sent as f64;
            found.lost[bin] += (sent - come) as f64;
        }
        return Some(found);
    }
    let (senders, receivers) = (by_worker(sender), by_worker(receiver));
    // Workers are paired by number. A receiver with other workers is compared as a whole.
    let is_paired = receivers.keys().all(|worker| senders.contains_key(worker));
    if is_paired {
        for (worker, sent) in &senders {
            let received = receivers.get(worker).map_or(&[][..], Vec::as_slice);
            let vanished = vanished(sender, receiver, Some(*worker));
            Sent::of(grid, sent, vanished).losses(grid, received, &mut found);
        }
    } else {
        let mut sent: Vec<&Interval> = senders.into_values().flatten().collect();
        let mut received: Vec<&Interval> = receivers.into_values().flatten().collect();
        sent.sort_by_key(|interval| interval.end);
        received.sort_by_key(|interval| interval.end);
        Sent::of(grid, &sent, vanished(sender, receiver, None)).losses(grid, &received, &mut found);
    }
    Some(found)
}

/// Intervals in order, by worker.
fn by_worker(record: &JobRecord) -> BTreeMap<u32, Vec<&Interval>> {
    let mut workers: BTreeMap<u32, Vec<&Interval>> = BTreeMap::new();
    record
        .intervals
        .iter()
        .for_each(|interval| workers.entry(interval.worker).or_default().push(interval));
    workers.values_mut().for_each(|intervals| intervals.sort_by_key(|interval| interval.end));
    workers
}

/// Returns the datagrams of flows of which nothing came, sent by `worker` or, without one, by all.
fn vanished(sender: &JobRecord, receiver: &JobRecord, worker: Option<u32>) -> u64 {
    let came = |number: u32| {
        receiver.flows.iter().any(|flow| flow.flow == number && flow.next_sequence > 0)
    };
    let own = sender.flows.iter().filter(|flow| worker.is_none_or(|worker| flow.worker == worker));
    own.filter(|flow| !came(flow.flow)).map(|flow| flow.counters[Counter::DatagramsSent]).sum()
}

/// Datagrams that a worker sent, interval by interval.
struct Sent {
    /// Start, end, datagrams.
    intervals: Vec<(Nanos, Nanos, f64)>,
    /// The share of them that belongs to flows of which something came.
    kept: f64,
}

impl Sent {
    fn of(grid: &Grid, intervals: &[&Interval], vanished: u64) -> Self {
        // Datagrams counted at the end of the load belong to the last bin.
        let within = |at: Nanos| Nanos(at.0.min(grid.end));
        let intervals = intervals.iter().map(|interval| {
            let sent = interval.counters[Counter::DatagramsSent] as f64;
            (within(interval.start), within(interval.end), sent)
        });
        let intervals: Vec<_> = intervals.collect();
        let all: f64 = intervals.iter().map(|(_, _, n)| n).sum();
        Self {
            // Vanished flows can have sent outside the intervals.
            kept: if all > 0.0 { (1.0 - vanished as f64 / all).max(0.0) } else { 0.0 },
            intervals,
        }
    }

    /// Adds to `found` the sent datagrams and those missing from `received`.
    fn losses(&self, grid: &Grid, received: &[&Interval], found: &mut Lost) {
        for (start, end, n) in &self.intervals {
            grid.spread(*start, *end, *n, &mut found.sent);
            grid.spread(*start, *end, n * (1.0 - self.kept), &mut found.lost);
        }
        let (mut risen, mut missing) = (0_u64, 0_i64);
        let steps: Vec<(u64, i64)> = received
            .iter()
            .map(|interval| {
                let came = interval.counters[Counter::DatagramsReceived]
                    + interval.counters[Counter::Late];
                risen += interval.counters[Counter::SequenceAdvance];
                missing += interval.counters[Counter::SequenceAdvance] as i64 - came as i64;
                (risen, missing)
            })
            .collect();
        // Datagrams that were missing and came later are not lost: only those still missing at the
        // end of every later interval.
        let mut missing = i64::MAX;
        let for_good: Vec<i64> = steps
            .iter()
            .rev()
            .map(|(_, now)| {
                missing = missing.min(*now).max(0);
                missing
            })
            .collect();
        let (mut before, mut number) = (0, 0);
        for ((risen, _), missing) in steps.iter().zip(for_good.into_iter().rev()) {
            // Numbers rise in order, so each rise covers the numbers since the one before.
            self.attribute(grid, number, *risen, (missing - before) as f64, &mut found.lost);
            (number, before) = (*risen, missing);
        }
        let all: f64 = self.intervals.iter().map(|(_, _, n)| n * self.kept).sum();
        let tail = all - number as f64;
        if tail > 0.0 {
            self.attribute(grid, number, all.round() as u64, tail, &mut found.lost);
        }
    }

    /// Adds `lost` datagrams, which are among the numbers from `from` until `until`, to the bins in
    /// which those were sent.
    fn attribute(&self, grid: &Grid, from: u64, until: u64, lost: f64, bins: &mut [f64]) {
        if lost <= 0.0 || until <= from {
            return;
        }
        let mut first = 0.0;
        for (start, end, n) in &self.intervals {
            let next = first + n * self.kept;
            let shared = (until as f64).min(next) - (from as f64).max(first);
            if shared > 0.0 {
                grid.spread(*start, *end, lost * shared / (until - from) as f64, bins);
            }
            first = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::FlowReport;

    use super::*;

    const WIDTH: u64 = 100;

    fn grid(n_bins: usize) -> Grid {
        Grid { width: WIDTH, n_bins, end: WIDTH * n_bins as u64 }
    }

    /// Intervals of worker 0 that end at these times, with these counts.
    fn record(counted: &[(u64, &[(Counter, u64)])]) -> JobRecord {
        let mut start = 0;
        let interval = |(end, counts): &(u64, &[(Counter, u64)])| {
            let mut interval =
                Interval { start: Nanos(start), end: Nanos(*end), ..Interval::default() };
            start = *end;
            counts.iter().for_each(|(counter, n)| interval.counters[*counter] = *n);
            interval
        };
        JobRecord { intervals: counted.iter().map(interval).collect(), flows: Vec::new() }
    }

    fn sent(per_bin: &[u64]) -> JobRecord {
        let counts: Vec<[(Counter, u64); 1]> =
            per_bin.iter().map(|n| [(Counter::DatagramsSent, *n)]).collect();
        let ends = (1..).map(|bin| bin * WIDTH);
        record(&ends.zip(&counts).map(|(end, counts)| (end, &counts[..])).collect::<Vec<_>>())
    }

    /// Received datagrams: end of the interval, numbers risen, received.
    fn came(intervals: &[(u64, u64, u64)]) -> JobRecord {
        let counts: Vec<_> = intervals
            .iter()
            .map(|(end, risen, n)| {
                (*end, [(Counter::SequenceAdvance, *risen), (Counter::DatagramsReceived, *n)])
            })
            .collect();
        record(&counts.iter().map(|(end, counts)| (*end, &counts[..])).collect::<Vec<_>>())
    }

    fn losses(sender: &JobRecord, receiver: &JobRecord) -> Vec<f64> {
        let n_bins = sender.intervals.len();
        lost(&grid(n_bins), sender, receiver).expect("counted").lost
    }

    #[test]
    fn a_span_has_the_losses_of_what_was_sent_in_it() {
        // A quarter of a bin of delay; 30 of the first bin's are lost, 10 of the third's, and the
        // last 5 of all.
        let sender = sent(&[100, 100, 100]);
        let receiver = came(&[(100, 75, 45), (200, 100, 100), (300, 100, 90), (360, 20, 20)]);
        let during =
            |from, to| sent_and_lost(Span { from: Nanos(from), to: Nanos(to) }, &sender, &receiver);
        assert_eq!(during(0, 300), Some((300, 45)));
        assert_eq!(during(100, 300), Some((200, 15)));
        // A quarter of the numbers among which 10 are missing was sent before; warm-up is twice as
        // long as the span.
        assert_eq!(during(200, 300), Some((100, 13)));
    }

    /// Returns the same records with the counts of both ends by the sender's intervals.
    fn counted(
        mut record: JobRecord,
        departures: &[&[(u64, u64)]],
        arrivals: &[&[(u64, u64)]],
    ) -> JobRecord {
        let of = |counts: Option<&&[(u64, u64)]>| {
            let counts = counts.map_or_else(Vec::new, |counts| counts.to_vec());
            linerate_model::Distribution::of(counts).into()
        };
        for (place, interval) in record.intervals.iter_mut().enumerate() {
            interval.departures = of(departures.get(place));
            interval.arrivals = of(arrivals.get(place));
        }
        record
    }

    #[test]
    fn a_span_is_exact_where_both_ends_counted_by_departure() {
        // As above: 15 of the third interval are lost and 5 of the second, whichever of the
        // receiver's intervals shows it.
        let sender =
            counted(sent(&[100, 100, 100]), &[&[(0, 100)], &[(100, 100)], &[(200, 100)]], &[]);
        let came = came(&[(100, 75, 75), (200, 100, 95), (300, 100, 90), (360, 20, 20)]);
        let arrivals: [&[(u64, u64)]; 4] =
            [&[(0, 75)], &[(0, 25), (100, 70)], &[(100, 25), (200, 65)], &[(200, 20)]];
        let receiver = counted(came, &[], &arrivals);
        let during =
            |from, to| sent_and_lost(Span { from: Nanos(from), to: Nanos(to) }, &sender, &receiver);
        assert_eq!(
            [during(0, 300), during(100, 300), during(200, 300)],
            [Some((300, 20)), Some((200, 20)), Some((100, 15))]
        );
        // The span has the intervals that begin in it.
        assert_eq!(during(150, 300), Some((100, 15)));
        assert_eq!(losses(&sender, &receiver), [0.0, 5.0, 15.0]);
        // Counts that are not whole are not used.
        let mut torn = receiver.clone();
        torn.intervals[3].arrivals.buckets.clear();
        assert_ne!(losses(&sender, &torn), [0.0, 5.0, 15.0]);
    }

    #[test]
    fn what_is_under_way_is_not_lost() {
        // A quarter of a bin of delay; the drain brings the rest.
        let receiver = came(&[(100, 75, 75), (200, 100, 100), (300, 100, 100), (360, 25, 25)]);
        assert_eq!(losses(&sent(&[100, 100, 100]), &receiver), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_loss_is_of_the_interval_that_sent_it_however_long_it_was_under_way() {
        // Delayed by a bin and a half; 40 of the numbers 100 to 199, which the second bin sent, are
        // missing.
        let receiver =
            came(&[(100, 0, 0), (200, 50, 50), (250, 50, 50), (350, 100, 60), (450, 100, 100)]);
        assert_eq!(losses(&sent(&[100, 100, 100]), &receiver), [0.0, 40.0, 0.0]);
    }

    #[test]
    fn a_gap_that_is_filled_later_is_no_loss() {
        let receiver = came(&[(100, 100, 90), (200, 100, 110), (300, 100, 100)]);
        assert_eq!(losses(&sent(&[100, 100, 100]), &receiver), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_tail_was_sent_last_and_all_adds_up() {
        // Ten of the second bin, and the last 30, after which no number was seen.
        let receiver = came(&[(100, 100, 100), (200, 100, 90), (300, 70, 70)]);
        let found = losses(&sent(&[100, 100, 100]), &receiver);
        assert_eq!(found, [0.0, 10.0, 30.0]);
        // Nothing came at all.
        assert_eq!(losses(&sent(&[100, 50]), &record(&[(100, &[]), (200, &[])])), [100.0, 50.0]);
    }

    #[test]
    fn a_flow_of_which_nothing_came_lost_all_the_time() {
        let flow = |flow: u32, n: u64, next_sequence: u64| {
            let mut report = FlowReport { flow, next_sequence, ..FlowReport::default() };
            report.counters[Counter::DatagramsSent] = n;
            report
        };
        let mut sender = sent(&[100, 100]);
        sender.flows = vec![flow(0, 100, 100), flow(1, 100, 100)];
        let mut receiver = came(&[(100, 50, 50), (200, 50, 45)]);
        receiver.flows = vec![flow(0, 0, 100)];
        assert_eq!(losses(&sender, &receiver), [50.0, 55.0]);
    }

    #[test]
    fn without_a_count_of_numbers_nothing_is_claimed() {
        let receiver = record(&[(100, &[(Counter::DatagramsReceived, 90)])]);
        assert!(lost(&grid(1), &sent(&[100]), &receiver).is_none());
    }
}
