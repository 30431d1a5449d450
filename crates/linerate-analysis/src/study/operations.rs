//! The ledger of operations: `due = answered + lost + open`, to the last one.
//!
//! It covers the operations whose intended start lies in an interval of the measured span. An
//! answer counts whenever it comes, in the drain too. A request that was due before the span does
//! not belong to it, whenever it is answered. *Lost* operations ended without an answer (a timeout,
//! a failure, a connection that ended). *Open* are those still waited for at the end of the drain,
//! and those of an open load that were due and never started. `due` is counted when operations
//! start, the others when they end, so the sum is a check.
//!
//! Times are those of the same operations. For lost and open ones only the waiting time is known: a
//! percentile among them is greater than that. The number of earlier operations in an interval is
//! exact. Which times belong to them is assigned in order: the operation that was due first took
//! longest.

use std::borrow::Cow;
use std::collections::BTreeMap;

use linerate_model::{Carried, Counter, Distribution, Interval, JobRecord, OperationKind, added};

use super::span::Span;

/// Outcomes of the operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fates {
    /// Operations that were to start in the span.
    pub(super) due: u64,
    /// Answered operations.
    pub(super) answered: u64,
    /// Lost operations.
    pub(super) lost: u64,
    /// Open at the end.
    pub(super) open: u64,
    /// Never started.
    pub(super) unstarted: u64,
}

impl Fates {
    fn add(&mut self, more: Self) {
        self.due += more.due;
        self.answered += more.answered;
        self.lost += more.lost;
        self.open += more.open;
        self.unstarted += more.unstarted;
    }
}

/// The operations of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OfKind {
    pub(super) fates: Fates,
    /// Service times, where the workload measured them of every operation; operations that never
    /// ended count as lost.
    pub(super) service: Option<Distribution>,
    /// Waiting times of the operations that never ended.
    pub(super) unanswered: Distribution,
}

/// Outcomes of the operations of a span at one end of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Operations {
    /// Operations that were to start in the span.
    pub(super) due: u64,
    /// Answered operations.
    pub(super) answered: u64,
    /// Lost operations.
    pub(super) lost: u64,
    /// Open at the end, or never started.
    pub(super) open: u64,
    /// Outcomes by kind, in the order of [`OperationKind::ALL`].
    kinds: [OfKind; OperationKind::ALL.len()],
    /// Response times, where the workload measured them of every operation; operations that never
    /// ended count as lost.
    pub(super) response: Option<Distribution>,
}

impl Operations {
    /// Returns the outcomes of `kind`.
    pub(super) fn of(&self, kind: OperationKind) -> &OfKind {
        &self.kinds[kind as usize]
    }
}

/// Kinds whose response times are in one distribution.
const WITH_RESPONSE: [OperationKind; 3] =
    [OperationKind::Request, OperationKind::Write, OperationKind::Trim];

/// Returns the operations of `end` that were due in `span`; `None` if its workload keeps no such
/// account, or an older version recorded it. Times of answers come from the intervals that
/// `is_timed` selects.
pub(super) fn of(
    end: &JobRecord,
    span: Span,
    is_timed: impl Fn(&Interval) -> bool,
) -> Option<Operations> {
    let total = |counter| super::span::total(end, counter);
    let kept = |kind: &OperationKind| total(kind.counters()[0]) > 0;
    let kinds: Vec<OperationKind> = OperationKind::ALL.into_iter().filter(kept).collect();
    if kinds.is_empty() {
        return None;
    }
    let mut workers: BTreeMap<u32, Vec<&Interval>> = BTreeMap::new();
    for interval in &end.intervals {
        workers.entry(interval.worker).or_default().push(interval);
    }
    let is_timed: &dyn Fn(&Interval) -> bool = &is_timed;
    let mut sum = Operations::default();
    for kind in &kinds {
        let mut of_kind = OfKind::default();
        let mut service = Distribution::default();
        for intervals in workers.values() {
            let lane = Lane::new(intervals, &[*kind], span);
            of_kind.fates.add(lane.fates());
            service.merge(&lane.times(
                is_timed,
                |of| of.interval.times_of(of.kind),
                |of| &of.carried.service,
            ));
            let unanswered = lane.unanswered(|of| &of.carried.waited_service, false);
            service.merge(&unanswered);
            of_kind.unanswered.merge(&unanswered);
        }
        let Fates { due, answered, lost, open, unstarted } = of_kind.fates;
        (sum.due, sum.answered, sum.lost) =
            (sum.due + due, sum.answered + answered, sum.lost + lost);
        sum.open += open + unstarted;
        of_kind.service = of_all(end, &[*kind], |of| of.times_of(*kind))
            .then_some(service)
            .filter(|of| !of.is_empty());
        sum.kinds[*kind as usize] = of_kind;
    }
    let kinds: Vec<OperationKind> =
        kinds.into_iter().filter(|kind| WITH_RESPONSE.contains(kind)).collect();
    let mut response = Distribution::default();
    for intervals in workers.values() {
        let lane = Lane::new(intervals, &kinds, span);
        response.merge(&lane.times(
            is_timed,
            |of| &of.interval.response,
            |of| &of.carried.response,
        ));
        response.merge(&lane.unanswered(|of| &of.carried.waited_response, true));
    }
    sum.response =
        of_all(end, &kinds, |of| &of.response).then_some(response).filter(|of| !of.is_empty());
    Some(sum)
}

/// Returns whether `times` contain all answered operations of `kinds`. A time that only some
/// operations have, such as that of a transfer with a reply, does not represent all of them.
fn of_all(
    end: &JobRecord,
    kinds: &[OperationKind],
    times: impl Fn(&Interval) -> &Distribution,
) -> bool {
    let timed = added(end.intervals.iter().map(|interval| answered(times(interval))));
    let all = added(kinds.iter().map(|kind| super::span::total(end, kind.counters()[1])));
    timed == all
}

/// Operations of `times` that ended.
fn answered(times: &Distribution) -> u64 {
    times.count() - times.lost
}

/// An interval, with its counts of some kinds of operations.
struct Part<'a> {
    interval: &'a Interval,
    /// The kind, of several the first.
    kind: OperationKind,
    /// Due, answered, lost, open and never started in it, whenever they were due.
    counts: [u64; 5],
    carried: Cow<'a, Carried>,
}

impl<'a> Part<'a> {
    fn new(interval: &'a Interval, kinds: &[OperationKind]) -> Self {
        let mut counts = [0; 5];
        for (place, count) in counts.iter_mut().enumerate() {
            *count = kinds.iter().map(|kind| fate(interval, *kind, place)).sum();
        }
        let kind = kinds.first().copied().unwrap_or(OperationKind::Request);
        let mut carried = Cow::Borrowed(interval.carried_of(kind));
        for more in kinds
            .iter()
            .skip(1)
            .map(|kind| interval.carried_of(*kind))
            .filter(|more| !more.is_empty())
        {
            carried.to_mut().merge(more);
        }
        Self { interval, kind, counts, carried }
    }

    /// Returns the operations carried over for each of `counts`.
    fn carried(&self) -> [&Distribution; 5] {
        let Carried { due, answered, lost, open, unstarted, .. } = &*self.carried;
        [due, answered, lost, open, unstarted]
    }
}

/// Selects a distribution of a part.
type Of = for<'p> fn(&'p Part<'_>) -> &'p Distribution;

/// Places of fates that are no answer, in the order of [`Part::counts`], and of those never
/// started, whose service never began.
const WITHOUT_ANSWER: [usize; 3] = [2, 3, 4];
const UNSTARTED: usize = 4;

/// One worker's intervals, and which of them make up the span.
struct Lane<'a> {
    parts: Vec<Part<'a>>,
    /// Places of the first interval of the span, and of the first behind it.
    from: usize,
    to: usize,
}

impl<'a> Lane<'a> {
    fn new(intervals: &[&'a Interval], kinds: &[OperationKind], span: Span) -> Self {
        let reached = |time| {
            intervals.iter().position(|interval| interval.start >= time).unwrap_or(intervals.len())
        };
        let parts = intervals.iter().map(|interval| Part::new(interval, kinds)).collect();
        Self { parts, from: reached(span.from), to: reached(span.to) }
    }

    /// Returns the number of operations among those that `carried` counts at `place` that were due
    /// in the span, and the number due in an interval other than `place`.
    fn earlier(&self, place: usize, carried: &Distribution) -> (u64, u64) {
        let all = carried.buckets.iter().map(|(_, count)| count).sum();
        let ours = carried
            .buckets
            .iter()
            .filter(|(back, _)| self.was_due(place, *back))
            .map(|(_, count)| count)
            .sum();
        (ours, all)
    }

    /// Returns whether an operation that ended in the interval `place` was due within the span, if
    /// it was due `back` intervals earlier.
    fn was_due(&self, place: usize, back: u64) -> bool {
        // Operations older than the first interval were due before it.
        let due_at = usize::try_from(back).ok().and_then(|back| place.checked_sub(back));
        due_at.is_some_and(|due_at| (self.from..self.to).contains(&due_at))
    }

    /// Returns the outcomes of the operations that were due in the span.
    fn fates(&self) -> Fates {
        let mut sum = [0; 5];
        for (place, part) in self.parts.iter().enumerate() {
            for ((sum, count), carried) in sum.iter_mut().zip(part.counts).zip(part.carried()) {
                let (ours, all) = self.earlier(place, carried);
                *sum += ours;
                if (self.from..self.to).contains(&place) {
                    *sum += count.saturating_sub(all);
                }
            }
        }
        let [due, answered, lost, open, unstarted] = sum;
        Fates { due, answered, lost, open, unstarted }
    }

    /// Times of the answered operations that were due in the span: those of `times`, of which
    /// `carried` were due earlier than they ended.
    fn times(&self, is_timed: &dyn Fn(&Interval) -> bool, times: Of, carried: Of) -> Distribution {
        let mut sum = Distribution::default();
        for (place, part) in self.parts.iter().enumerate() {
            let (ours, all) = self.earlier(place, &part.carried.answered);
            if !is_timed(part.interval) {
                // Its counts are valid, its times are not.
            } else if (self.from..self.to).contains(&place) {
                let mut own = Distribution::of(times(part).buckets.clone());
                let strangers = longest(carried(part), all - ours);
                without(&mut own, &strangers);
                sum.merge(&own);
            } else {
                // Operations due before the span took longest; those due after it come last.
                let before = self.due_before(place, &part.carried.answered);
                let rest = shortest(carried(part), all - before);
                sum.merge(&longest(&rest, ours));
            }
        }
        sum
    }

    /// Operations of those that `carried` counts at `place` which were due before the span.
    fn due_before(&self, place: usize, carried: &Distribution) -> u64 {
        let is_before =
            |back: u64| usize::try_from(back).map_or(true, |back| back + self.from > place);
        carried.buckets.iter().filter(|(back, _)| is_before(*back)).map(|(_, count)| count).sum()
    }

    /// Returns the operations without an answer that were due in the span, as bounds: how long they
    /// were `waited` for.
    fn unanswered(&self, waited: Of, with_unstarted: bool) -> Distribution {
        let mut sum = Distribution::default();
        for (place, part) in self.parts.iter().enumerate() {
            let is_in_span = (self.from..self.to).contains(&place);
            let (mut ours, mut before) = (0, 0);
            for fate in
                WITHOUT_ANSWER.into_iter().filter(|fate| with_unstarted || *fate != UNSTARTED)
            {
                let carried = part.carried()[fate];
                let (earlier, all) = self.earlier(place, carried);
                ours +=
                    earlier + if is_in_span { part.counts[fate].saturating_sub(all) } else { 0 };
                before += self.due_before(place, carried);
            }
            let waited = waited(part);
            let rest = shortest(waited, waited.count().saturating_sub(before));
            let bounds = longest(&rest, ours);
            sum.merge(&Distribution {
                lost: bounds.count(),
                at_least: bounds.buckets,
                ..Distribution::default()
            });
        }
        sum
    }
}

/// Returns the operations of `kind` that `interval` counts under the fate number `place`.
fn fate(interval: &Interval, kind: OperationKind, place: usize) -> u64 {
    match (kind.counters().get(place), kind) {
        (Some(counter), _) => interval.counters[*counter],
        (None, OperationKind::Request) => interval.counters[Counter::OperationsUnstarted],
        (None, _) => 0,
    }
}

/// Returns the `n` longest of `times`.
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

/// Returns the `n` shortest of `times`.
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

/// Removes `strangers`, whose times are known to a hundredth and never too short, from `times`: for
/// each, the longest time that is no longer.
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
    use linerate_model::Nanos;

    use super::*;

    /// Outcome of an operation, and its time.
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
        let mut cuts: Vec<u64> =
            (1..=10).map(|k| k * 100 * MS + (k * 7_919 + seed * 104_729) % 40_000).collect();
        cuts.push(END);
        cuts
    }

    /// Returns the interval in which something happens.
    fn place(cuts: &[u64], at: u64) -> usize {
        cuts.partition_point(|cut| *cut <= at).min(cuts.len() - 1)
    }

    /// Returns the planned ends of the intervals for operations with their own due time. An
    /// operation that is due when it starts belongs to the interval of its start.
    fn boundaries(operations: &[Operation], cuts: &[u64]) -> Vec<u64> {
        let is_closed =
            !operations.windows(2).all(|pair| pair[1].intended - pair[0].intended == MS);
        cuts.iter().map(|cut| if is_closed { *cut } else { cut / MS * MS }).collect()
    }

    fn add(times: &mut Distribution, ns: u64, n: u64) {
        match times.buckets.binary_search_by_key(&ns, |(known, _)| *known) {
            Ok(place) => times.buckets[place].1 += n,
            Err(place) => times.buckets.insert(place, (ns, n)),
        }
    }

    /// Returns a worker's record of `operations`, by the definitions of
    /// [`linerate_model::Carried`].
    fn record(operations: &[Operation], cuts: &[u64]) -> JobRecord {
        let mut intervals: Vec<Interval> = cuts
            .iter()
            .scan(0, |start, cut| Some((std::mem::replace(start, *cut), *cut)))
            .map(|(start, end)| Interval {
                start: Nanos(start),
                end: Nanos(end),
                ..Interval::default()
            })
            .collect();
        let last = intervals.len() - 1;
        let boundaries = boundaries(operations, cuts);
        for operation in operations {
            let due_in = place(&boundaries, operation.intended);
            let event = |intervals: &mut Vec<Interval>,
                         at: usize,
                         counter,
                         of: fn(&mut Carried) -> &mut Distribution| {
                intervals[at].counters[counter] += 1;
                if at > due_in {
                    add(of(&mut intervals[at].carried), (at - due_in) as u64, 1);
                }
            };
            // An operation with its own due time starts after the previous interval has been cut.
            let started_in = if let Fate::NeverStarted = operation.fate {
                last
            } else {
                place(cuts, operation.at).max(due_in)
            };
            event(&mut intervals, started_in, Counter::OperationsDue, |of| &mut of.due);
            let (at, intended) = (operation.at, operation.intended);
            match operation.fate {
                Fate::Answered(end) => {
                    let ended_in = place(cuts, end);
                    event(&mut intervals, ended_in, Counter::OperationsAnswered, |of| {
                        &mut of.answered
                    });
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
                    event(&mut intervals, last, Counter::OperationsUnstarted, |of| {
                        &mut of.unstarted
                    });
                    add(&mut intervals[last].carried.waited_response, END - intended, 1);
                }
            }
        }
        JobRecord { intervals, flows: Vec::new() }
    }

    /// Returns a closed load of `depth` in which every `nth` request is dropped, and lost after
    /// `timeout`.
    fn closed(depth: u64, nth: u64, timeout: u64, seed: u64) -> Vec<Operation> {
        let mut free: Vec<u64> = (0..depth).map(|k| k * 1_000).collect();
        let mut operations = Vec::new();
        for n in 1.. {
            let (slot, at) =
                free.iter().copied().enumerate().min_by_key(|(_, at)| *at).expect("a depth");
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

    /// Returns an open load of a request every `gap`, at most `depth` at once, whose peer answers
    /// nothing from `stops` on.
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

    /// Returns the account by looking at each operation, and their response times in order; those
    /// without an answer are the last.
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
        assert_eq!(
            [found.due, found.answered, found.lost, found.open],
            counts,
            "due, answered, lost, open"
        );
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
            assert_eq!(
                found.is_some(),
                true_one.is_some(),
                "p{quantile}: {found:?} for {true_one:?}"
            );
            if let (Some(found), Some(true_one)) = (found, true_one) {
                assert!(
                    (found as f64 / true_one as f64 - 1.0).abs() < 0.05,
                    "p{quantile}: {found} for {true_one}"
                );
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
        assert!(
            runs >= 100 && lost > 500 && left_open > 100,
            "{runs} runs, {lost} lost, {left_open} open"
        );
    }

    #[test]
    fn a_percentile_behind_a_peer_that_stopped_exceeds_what_was_waited_for() {
        // Due in the span: 800; the peer stops 300 ms before the end. With room for all of them,
        // and with room for 50.
        for depth in [10_000, 50] {
            let found = check(&open(MS, depth, 700 * MS), 3);
            assert_eq!((found.due, found.lost, found.open), (800, 0, 303));
            let response = found.response.expect("times");
            assert_eq!(response.percentile(0.5), Some(Some(3 * MS)));
            assert_eq!(response.percentile(0.9), Some(None));
            // 496 took 3 ms; of those without an answer the n-th from the end has waited for 100 ms
            // + n.
            let bound = response
                .percentile_at_least(0.9)
                .expect("how long they were waited for is known") as f64;
            let arithmetic = (100.0 + 720.0 - 496.0) * MS as f64;
            assert!(
                (bound / arithmetic - 1.0).abs() < 0.05 && bound <= 1.01 * arithmetic,
                "{bound} for {arithmetic}"
            );
        }
    }

    #[test]
    fn kinds_have_accounts_of_their_own_and_response_times_are_of_all() {
        use OperationKind::{Flush, Request, Write};
        // Reads from one worker, writes from another, whose last ones never end; a flush that
        // fails.
        let cuts = cuts(0);
        let reads = open(MS, 10_000, u64::MAX);
        let writes = open(MS, 10_000, 700 * MS);
        let mut record = record(&reads, &cuts);
        let mut of_writes = super::tests::record(&writes, &cuts);
        for interval in &mut of_writes.intervals {
            interval.worker = 1;
            for (own, other) in Request.counters().into_iter().zip(Write.counters()) {
                interval.counters[other] = std::mem::take(&mut interval.counters[own]);
            }
            *interval.carried_of_mut(Write) = std::mem::take(&mut interval.carried);
            interval.writes = std::mem::take(&mut interval.service);
        }
        let [flushes_due, _, flushes_lost, _] = Flush.counters();
        of_writes.intervals[4].counters[flushes_due] = 1;
        of_writes.intervals[4].counters[flushes_lost] = 1;
        of_writes.intervals[4].carried_of_mut(Flush).waited_service.buckets = vec![(5 * MS, 1)];
        record.intervals.extend(of_writes.intervals);
        let found = of(&record, SPAN, |_| true).expect("operations");
        assert_eq!((found.due, found.answered, found.lost, found.open), (1_601, 800 + 497, 1, 303));
        let fates = |kind| found.of(kind).fates;
        assert_eq!(
            (fates(Request).answered, fates(Write).answered, fates(Write).open),
            (800, 497, 303)
        );
        let p90 = |kind| found.of(kind).service.as_ref().expect("all were timed").percentile(0.9);
        assert_eq!((p90(Request), p90(Write)), (Some(Some(3 * MS)), Some(None)));
        assert_eq!(found.of(Flush).unanswered.at_least, [(5 * MS, 1)]);
        let response = found.response.expect("all were timed");
        assert_eq!((response.count(), response.lost), (1_600, 303), "a flush has no response");
    }

    #[test]
    fn an_end_without_the_account_has_none() {
        let mut record = JobRecord {
            intervals: vec![Interval { end: Nanos(MS), ..Interval::default() }],
            flows: Vec::new(),
        };
        record.intervals[0].counters[Counter::Transactions] = 5;
        assert_eq!(of(&record, SPAN, |_| true), None);
    }
}
