//! The ledger of operations: `due = answered + lost + open`, to the last one.
//!
//! Its set is the operations whose intended start lies in an interval of the measured span. An answer counts whenever it comes, in
//! the drain too; a request that was due before the span is not the span's, whenever it is answered. *Lost* are those given up (a
//! timeout, a failure, a connection that ended), *open* those still waited for at the end of the drain, and those of an open load that
//! were due and never started. `due` is counted when operations start, the others when they end, so that the sum is a check.
//!
//! The times are those of the same set. Of lost and open ones it is known how long they were waited for: a percentile among them
//! is greater than that. Which operations of an interval are the earlier ones is exact as a count; which of its times are theirs
//! is taken in order: the operation that was due first took longest.

use std::collections::BTreeMap;

use linerate_model::{Counter, Distribution, Interval, JobRecord};

use super::span::Span;

/// What became of the operations of a span at one end of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Operations {
    /// Operations that were to start in the span.
    pub(super) due: u64,
    /// Of those, answered.
    pub(super) answered: u64,
    /// Given up.
    pub(super) lost: u64,
    /// Open at the end, or never started.
    pub(super) open: u64,
    /// Service times, where the workload measured them of every operation; what never ended is lost in it.
    pub(super) service: Option<Distribution>,
    /// Response times, likewise.
    pub(super) response: Option<Distribution>,
}

/// The operations of `end` that were due in `span`; `None` if its workload keeps no such account, or an older version recorded it.
/// Times of answers are taken of the intervals that `is_timed` picks.
pub(super) fn of(end: &JobRecord, span: Span, is_timed: impl Fn(&Interval) -> bool) -> Option<Operations> {
    let total = |counter| super::span::total(end, counter);
    if total(Counter::OperationsDue) == 0 {
        return None;
    }
    let mut workers: BTreeMap<u32, Vec<&Interval>> = BTreeMap::new();
    for interval in &end.intervals {
        workers.entry(interval.worker).or_default().push(interval);
    }
    let mut sum = Operations::default();
    let (mut service, mut response) = (Distribution::default(), Distribution::default());
    for intervals in workers.values() {
        let lane = Lane::new(intervals, span);
        sum.due += lane.count(Counter::OperationsDue, |of| &of.carried.due);
        sum.answered += lane.count(Counter::OperationsAnswered, |of| &of.carried.answered);
        sum.lost += lane.count(Counter::OperationsLost, |of| &of.carried.lost);
        sum.open += lane.count(Counter::OperationsOpen, |of| &of.carried.open);
        sum.open += lane.count(Counter::OperationsUnstarted, |of| &of.carried.unstarted);
        let is_timed: &dyn Fn(&Interval) -> bool = &is_timed;
        service.merge(&lane.times(
            is_timed,
            |of| &of.service,
            |of| &of.carried.service,
            |of| &of.carried.waited_service,
        ));
        response.merge(&lane.times(
            is_timed,
            |of| &of.response,
            |of| &of.carried.response,
            |of| &of.carried.waited_response,
        ));
    }
    // A time that only some operations have, such as that of reads, says nothing of all of them.
    let of_all = |times: fn(&Interval) -> &Distribution| {
        let timed: u64 = end.intervals.iter().map(|interval| answered(times(interval))).sum();
        timed > 0 && timed == total(Counter::OperationsAnswered)
    };
    let nothing_came = total(Counter::OperationsAnswered) == 0;
    sum.service = (of_all(|of| &of.service) || nothing_came).then_some(service).filter(|of| !of.is_empty());
    sum.response = (of_all(|of| &of.response) || nothing_came).then_some(response).filter(|of| !of.is_empty());
    Some(sum)
}

/// Operations of `times` that ended.
fn answered(times: &Distribution) -> u64 {
    times.count() - times.lost
}

/// Which distribution of an interval.
type Of = fn(&Interval) -> &Distribution;

/// One worker's intervals, and which of them make up the span.
struct Lane<'a> {
    intervals: &'a [&'a Interval],
    /// Places of the first interval of the span, and of the first behind it.
    from: usize,
    to: usize,
}

impl<'a> Lane<'a> {
    fn new(intervals: &'a [&'a Interval], span: Span) -> Self {
        let reached = |time| intervals.iter().position(|interval| interval.start >= time).unwrap_or(intervals.len());
        Self { intervals, from: reached(span.from), to: reached(span.to) }
    }

    /// How many operations of those that `carried` counts at `place` were due in the span, and how many in an interval that `place` is not.
    fn earlier(&self, place: usize, carried: &Distribution) -> (u64, u64) {
        let all = carried.buckets.iter().map(|(_, count)| count).sum();
        let due_in_span = |back: u64| {
            // What is older than the first interval was due before it.
            let due_at = usize::try_from(back).ok().and_then(|back| place.checked_sub(back));
            due_at.is_some_and(|due_at| (self.from..self.to).contains(&due_at))
        };
        let ours = carried.buckets.iter().filter(|(back, _)| due_in_span(*back)).map(|(_, count)| count).sum();
        (ours, all)
    }

    /// Events counted by `counter` of operations that were due in the span.
    fn count(&self, counter: Counter, carried: Of) -> u64 {
        let mut sum = 0;
        for (place, interval) in self.intervals.iter().enumerate() {
            let (ours, all) = self.earlier(place, carried(interval));
            sum += ours;
            if (self.from..self.to).contains(&place) {
                sum += interval.counters[counter].saturating_sub(all);
            }
        }
        sum
    }

    /// Times of the operations that were due in the span: answered ones of `times`, of which `carried` were due earlier than they
    /// ended, and how long those without an answer were `waited` for.
    fn times(&self, is_timed: &dyn Fn(&Interval) -> bool, times: Of, carried: Of, waited: Of) -> Distribution {
        let mut sum = Distribution::default();
        for (place, interval) in self.intervals.iter().enumerate() {
            let is_in_span = (self.from..self.to).contains(&place);
            let (ours, all) = self.earlier(place, &interval.carried.answered);
            if !is_timed(interval) {
                // Its counts hold, its times do not.
            } else if is_in_span {
                let mut own = Distribution { buckets: times(interval).buckets.clone(), ..Distribution::default() };
                let strangers = longest(carried(interval), all - ours);
                without(&mut own, &strangers);
                sum.merge(&own);
            } else {
                // Those due before the span took longest, those due behind it come last.
                let before = self.due_before(place, &interval.carried.answered);
                let rest = shortest(carried(interval), all - before);
                sum.merge(&longest(&rest, ours));
            }
            sum.merge(&self.unanswered(place, interval, waited(interval)));
        }
        sum
    }

    /// Operations of those that `carried` counts at `place` which were due before the span.
    fn due_before(&self, place: usize, carried: &Distribution) -> u64 {
        let is_before = |back: u64| usize::try_from(back).map_or(true, |back| back + self.from > place);
        carried.buckets.iter().filter(|(back, _)| is_before(*back)).map(|(_, count)| count).sum()
    }

    /// Operations without an answer of those in `waited`, as bounds.
    fn unanswered(&self, place: usize, interval: &Interval, waited: &Distribution) -> Distribution {
        let fates = [
            (Counter::OperationsLost, &interval.carried.lost),
            (Counter::OperationsOpen, &interval.carried.open),
            (Counter::OperationsUnstarted, &interval.carried.unstarted),
        ];
        let is_in_span = (self.from..self.to).contains(&place);
        let (mut ours, mut before) = (0, 0);
        for (counter, carried) in fates {
            let (earlier, all) = self.earlier(place, carried);
            ours += earlier + if is_in_span { interval.counters[counter].saturating_sub(all) } else { 0 };
            before += self.due_before(place, carried);
        }
        let n = waited.count();
        let rest = shortest(waited, n.saturating_sub(before));
        let bounds = longest(&rest, ours);
        Distribution { lost: bounds.count(), at_least: bounds.buckets, ..Distribution::default() }
    }
}

/// The `n` longest of `times`.
fn longest(times: &Distribution, n: u64) -> Distribution {
    let mut left = n;
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    for &(ns, count) in times.buckets.iter().rev() {
        let taken = count.min(left);
        left -= taken;
        if taken > 0 {
            buckets.push((ns, taken));
        }
    }
    buckets.reverse();
    Distribution { buckets, ..Distribution::default() }
}

/// The `n` shortest of `times`.
fn shortest(times: &Distribution, n: u64) -> Distribution {
    let mut left = n;
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    for &(ns, count) in &times.buckets {
        let taken = count.min(left);
        left -= taken;
        if taken > 0 {
            buckets.push((ns, taken));
        }
    }
    Distribution { buckets, ..Distribution::default() }
}

/// Takes `strangers`, whose times are known to a hundredth and never too short, out of `times`: each the longest that is no longer.
fn without(times: &mut Distribution, strangers: &Distribution) {
    for &(ns, count) in strangers.buckets.iter().rev() {
        let mut left = count;
        let no_longer = times.buckets.partition_point(|(own, _)| *own <= ns);
        let (shorter, longer) = times.buckets.split_at_mut(no_longer);
        for (_, own) in shorter.iter_mut().rev().chain(longer) {
            let taken = left.min(*own);
            *own -= taken;
            left -= taken;
            if left == 0 {
                break;
            }
        }
    }
    times.buckets.retain(|(_, count)| *count > 0);
}

#[cfg(test)]
mod tests {
    use linerate_model::{Carried, Nanos};

    use super::*;

    /// What became of an operation, and when.
    #[derive(Clone, Copy, Debug)]
    enum Fate {
        Answered(u64),
        Lost(u64),
        Open,
        NeverStarted,
    }

    /// An operation of a worker in virtual time, ns.
    #[derive(Clone, Copy, Debug)]
    struct Operation {
        intended: u64,
        at: u64,
        fate: Fate,
    }

    const MS: u64 = 1_000_000;
    const LOAD: u64 = 1_000 * MS;
    const DRAIN: u64 = 100 * MS;
    const END: u64 = LOAD + DRAIN;
    const WARMUP: u64 = 200 * MS;
    const SPAN: Span = Span { from: Nanos(WARMUP), to: Nanos(LOAD) };

    /// Ends of the intervals: each a little late, as a step delays it.
    fn cuts(seed: u64) -> Vec<u64> {
        let mut cuts: Vec<u64> = (1..=10).map(|k| k * 100 * MS + (k * 7_919 + seed * 104_729) % 40_000).collect();
        cuts.push(END);
        cuts
    }

    /// The interval in which something happens.
    fn place(cuts: &[u64], at: u64) -> usize {
        cuts.partition_point(|cut| *cut <= at).min(cuts.len() - 1)
    }

    /// When the intervals were to end, for what is due at its own time; what is due when it starts belongs where it starts.
    fn boundaries(operations: &[Operation], cuts: &[u64]) -> Vec<u64> {
        let is_closed = !operations.windows(2).all(|pair| pair[1].intended - pair[0].intended == MS);
        cuts.iter().map(|cut| if is_closed { *cut } else { cut / MS * MS }).collect()
    }

    fn add(times: &mut Distribution, ns: u64, n: u64) {
        match times.buckets.binary_search_by_key(&ns, |(known, _)| *known) {
            Ok(place) => times.buckets[place].1 += n,
            Err(place) => times.buckets.insert(place, (ns, n)),
        }
    }

    /// What a worker hands over of `operations`, by the definitions of [`linerate_model::Carried`].
    fn record(operations: &[Operation], cuts: &[u64]) -> JobRecord {
        let mut intervals: Vec<Interval> = cuts
            .iter()
            .scan(0, |start, cut| Some((std::mem::replace(start, *cut), *cut)))
            .map(|(start, end)| Interval { start: Nanos(start), end: Nanos(end), ..Interval::default() })
            .collect();
        let last = intervals.len() - 1;
        let boundaries = boundaries(operations, cuts);
        for operation in operations {
            let due_in = place(&boundaries, operation.intended);
            let event =
                |intervals: &mut Vec<Interval>, at: usize, counter, of: fn(&mut Carried) -> &mut Distribution| {
                    intervals[at].counters[counter] += 1;
                    if at > due_in {
                        add(of(&mut intervals[at].carried), (at - due_in) as u64, 1);
                    }
                };
            // What is due at its own time starts when the interval before it has been cut.
            let started_in =
                if let Fate::NeverStarted = operation.fate { last } else { place(cuts, operation.at).max(due_in) };
            event(&mut intervals, started_in, Counter::OperationsDue, |of| &mut of.due);
            let (at, intended) = (operation.at, operation.intended);
            match operation.fate {
                Fate::Answered(end) => {
                    let ended_in = place(cuts, end);
                    event(&mut intervals, ended_in, Counter::OperationsAnswered, |of| &mut of.answered);
                    let interval = &mut intervals[ended_in];
                    add(&mut interval.service, end - at, 1);
                    add(&mut interval.response, end - intended, 1);
                    if ended_in > due_in {
                        add(&mut interval.carried.service, end - at, 1);
                        add(&mut interval.carried.response, end - intended, 1);
                    }
                }
                Fate::Lost(end) => {
                    let ended_in = place(cuts, end);
                    event(&mut intervals, ended_in, Counter::OperationsLost, |of| &mut of.lost);
                    let interval = &mut intervals[ended_in];
                    (interval.service.lost, interval.response.lost) =
                        (interval.service.lost + 1, interval.response.lost + 1);
                    add(&mut interval.carried.waited_service, end - at, 1);
                    add(&mut interval.carried.waited_response, end - intended, 1);
                }
                Fate::Open => {
                    event(&mut intervals, last, Counter::OperationsOpen, |of| &mut of.open);
                    add(&mut intervals[last].carried.waited_service, END - at, 1);
                    add(&mut intervals[last].carried.waited_response, END - intended, 1);
                }
                Fate::NeverStarted => {
                    event(&mut intervals, last, Counter::OperationsUnstarted, |of| &mut of.unstarted);
                    add(&mut intervals[last].carried.waited_response, END - intended, 1);
                }
            }
        }
        JobRecord { intervals, flows: Vec::new() }
    }

    /// A closed load of `depth` whose every `nth` request is dropped, and given up after `timeout`.
    fn closed(depth: u64, nth: u64, timeout: u64, seed: u64) -> Vec<Operation> {
        let mut free: Vec<u64> = (0..depth).map(|k| k * 1_000).collect();
        let mut operations = Vec::new();
        for n in 1.. {
            let (slot, at) = free.iter().copied().enumerate().min_by_key(|(_, at)| *at).expect("a depth");
            if at >= LOAD {
                break;
            }
            let took = 1_200_000 + (n * 48_611 + seed * 7_907) % 900_000;
            let dropped = n % nth == 0;
            let end = at + if dropped { timeout } else { took };
            let fate = match dropped {
                _ if end >= END => Fate::Open,
                true => Fate::Lost(end),
                false => Fate::Answered(end),
            };
            operations.push(Operation { intended: at, at, fate });
            free[slot] = end;
        }
        operations
    }

    /// An open load of a request every `gap`, at most `depth` at once, whose peer answers nothing from `stops` on.
    fn open(gap: u64, depth: usize, stops: u64) -> Vec<Operation> {
        let mut under_way: Vec<u64> = Vec::new();
        let mut operations = Vec::new();
        for intended in (0..LOAD).step_by(gap as usize) {
            under_way.retain(|end| *end > intended);
            let end = intended + 3 * MS;
            let fate = match () {
                () if under_way.len() >= depth => Fate::NeverStarted,
                () if end >= stops => Fate::Open,
                () => Fate::Answered(end),
            };
            if !matches!(fate, Fate::NeverStarted) {
                under_way.push(if matches!(fate, Fate::Open) { u64::MAX } else { end });
            }
            operations.push(Operation { intended, at: intended, fate });
        }
        operations
    }

    /// The account by looking at each operation, and their response times in order; those without an answer are the last.
    fn truth(operations: &[Operation], cuts: &[u64]) -> ([u64; 4], Vec<Option<u64>>) {
        let boundaries = boundaries(operations, cuts);
        let due = boundaries[1]..boundaries[9];
        let mut counts = [0; 4];
        let mut times = Vec::new();
        for operation in operations.iter().filter(|one| due.contains(&one.intended)) {
            counts[0] += 1;
            let (fate, time) = match operation.fate {
                Fate::Answered(end) => (1, Some(end - operation.intended)),
                Fate::Lost(_) => (2, None),
                Fate::Open | Fate::NeverStarted => (3, None),
            };
            counts[fate] += 1;
            times.push(time);
        }
        times.sort_by_key(|time| time.unwrap_or(u64::MAX));
        (counts, times)
    }

    fn check(operations: &[Operation], seed: u64) -> Operations {
        let cuts = cuts(seed);
        let found = of(&record(operations, &cuts), SPAN, |_| true).expect("operations");
        let (counts, times) = truth(operations, &cuts);
        assert_eq!([found.due, found.answered, found.lost, found.open], counts, "due, answered, lost, open");
        assert_eq!(found.due, found.answered + found.lost + found.open);
        if found.due == 0 {
            // The first request was dropped, and everything waited for it.
            return found;
        }
        let response = found.response.as_ref().expect("every answer was timed");
        assert_eq!(response.count(), found.due);
        for quantile in [0.5, 0.9, 0.99] {
            let rank = (quantile * times.len() as f64).ceil() as usize;
            let (found, true_one) = (response.percentile(quantile), times[rank - 1]);
            let Some(found) = found else { continue };
            assert_eq!(found.is_some(), true_one.is_some(), "p{quantile}: {found:?} for {true_one:?}");
            if let (Some(found), Some(true_one)) = (found, true_one) {
                assert!((found as f64 / true_one as f64 - 1.0).abs() < 0.05, "p{quantile}: {found} for {true_one}");
            }
        }
        found
    }

    #[test]
    fn every_dropped_request_is_lost_or_open_to_the_last_one_whatever_the_timeout() {
        let mut runs = 0;
        let (mut lost, mut left_open) = (0, 0);
        for nth in [2, 3, 7, 37, 101] {
            for tenths in [1, 3, 5, 9, 10, 15, 20] {
                for depth in [1, 4, 16] {
                    let found = check(&closed(depth, nth, tenths * LOAD / 10, runs), runs);
                    (lost, left_open) = (lost + found.lost, left_open + found.open);
                    runs += 1;
                }
            }
        }
        assert!(runs >= 100 && lost > 500 && left_open > 100, "{runs} runs, {lost} lost, {left_open} open");
    }

    #[test]
    fn a_percentile_behind_a_peer_that_stopped_exceeds_what_was_waited_for() {
        // Due in the span: 800; the peer stops 300 ms before the end. With room for all of them, and with room for 50.
        for depth in [10_000, 50] {
            let found = check(&open(MS, depth, 700 * MS), 3);
            assert_eq!((found.due, found.lost, found.open), (800, 0, 303));
            let response = found.response.expect("times");
            assert_eq!(response.percentile(0.5), Some(Some(3 * MS)));
            assert_eq!(response.percentile(0.9), Some(None));
            // 496 took 3 ms; of those without an answer the n-th from the end has waited for 100 ms + n.
            let bound = response.percentile_at_least(0.9).expect("how long they were waited for is known") as f64;
            let arithmetic = (100.0 + 720.0 - 496.0) * MS as f64;
            assert!((bound / arithmetic - 1.0).abs() < 0.05 && bound <= 1.01 * arithmetic, "{bound} for {arithmetic}");
        }
    }

    #[test]
    fn an_end_without_the_account_has_none() {
        let mut record =
            JobRecord { intervals: vec![Interval { end: Nanos(MS), ..Interval::default() }], flows: Vec::new() };
        record.intervals[0].counters[Counter::Transactions] = 5;
        assert_eq!(of(&record, SPAN, |_| true), None);
    }
}
