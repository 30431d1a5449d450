//! Progress lines of a trial while it runs: counts of both ends, span by span. Pure: intervals in,
//! lines out.
//!
//! A line is complete once every worker seen so far has passed its end, so that lines add up to the
//! result of the study. Counts are apportioned by time, as the study does. The last line ends with
//! the load; data that drains after it has a line of its own. Retransmitted segments are those of
//! all connections of both ends, as the kernel counts them (`TcpRetransSegs`), in the span in which
//! they were read. The round-trip time is the mean over the connections that sent payload, because
//! one that only receives has measured nothing but its handshake.
//!
//! Counts that arrive for a span whose line is already printed are added to the next line: those of
//! a new worker, or of one more than `PATIENCE` behind the others.

use std::collections::{BTreeMap, VecDeque};

use linerate_model::{
    Counter, Distribution, Interval, Nanos, OperationKind, Side, TcpState, TrialOutcome,
    counter_growth,
};

use crate::study::moves;

/// Longest time for which a line waits for a worker: beyond it the worker has ended, or its host
/// was cut off.
const PATIENCE: Nanos = Nanos::from_secs(3);
/// Microseconds in a second.
const MICROS: f64 = 1e6;
/// Nanoseconds in a second.
const NANOS: f64 = 1e9;
/// Quantiles of response times in a line.
pub const LIVE_QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// Counts of one span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveLine {
    /// Start of the span, since the start barrier.
    pub from: Nanos,
    /// End of the span.
    pub until: Nanos,
    /// True if the load had ended and data in flight was still arriving.
    pub is_drain: bool,
    /// Payload bytes received by the passive end.
    pub forward_bytes: f64,
    /// Payload bytes received by the active end.
    pub backward_bytes: f64,
    /// Requests answered.
    pub transactions: f64,
    /// Connections opened, used and closed.
    pub connections: f64,
    /// Requests so far by outcome; `None` if the load keeps no account of them.
    pub operations: Option<LiveOperations>,
    /// Segments sent again, both ends; `None` if no connection's state was read in the trial so
    /// far.
    pub retransmits: Option<u64>,
    /// Smoothed round-trip time in seconds, mean over readings of the connections that sent; `None`
    /// if none did.
    pub rtt: Option<f64>,
    /// CPU time of the workers of the active and the passive end, as a share of one CPU.
    pub cpu: [f64; 2],
    /// Datagrams by their numbers; `None` if the load has none.
    pub datagrams: Option<LiveDatagrams>,
    /// Mean change of the transit time from one datagram to the next, seconds (RFC 3550 clause
    /// 6.4.1, without its smoothing); `None` if none was timed.
    pub jitter: Option<f64>,
    /// Response times in seconds at the [`LIVE_QUANTILES`], infinite where requests were lost;
    /// `None` where too few requests ended.
    pub times: [Option<f64>; 3],
}

impl LiveLine {
    /// Returns the length of the span in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.until.since(self.from).as_secs_f64()
    }

    /// Returns requests, or connections that carry one each.
    #[must_use]
    pub fn requests(&self) -> f64 {
        if self.connections > 0.0 { self.connections } else { self.transactions }
    }
}

/// Datagrams of one line, both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LiveDatagrams {
    /// By how much the highest numbers rose.
    pub expected: f64,
    /// Of them, not received. Less than zero if datagrams of an earlier line came in this one.
    pub lost: f64,
}

/// Requests, connections and transfers of one line, by when each thing happened: over all lines
/// they add up to the account of the study, where nothing is omitted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LiveOperations {
    /// Started in it.
    pub due: f64,
    /// Answered in it, whenever they were started.
    pub answered: f64,
    /// Requests lost in the span.
    pub lost: f64,
    /// Requests open at its end: started, and neither answered nor lost.
    pub open: f64,
}

/// Counts of one span.
#[derive(Clone, Debug, Default)]
struct Counts {
    received: [f64; 2],
    transactions: f64,
    connections: f64,
    /// Due, answered, lost.
    operations: [f64; 3],
    retransmits: u64,
    rtt_us: f64,
    n_rtt: u32,
    cpu_ns: [f64; 2],
    /// Rise of the datagrams' numbers, and datagrams received.
    datagrams: [f64; 2],
    /// Sum and number of the changes of the transit time.
    changes: [f64; 2],
    response: Distribution,
}

impl Counts {
    fn together(mut self, other: Self) -> Self {
        let sums = [
            (&mut self.received[..], &other.received[..]),
            (&mut self.operations[..], &other.operations[..]),
            (&mut self.cpu_ns[..], &other.cpu_ns[..]),
            (&mut self.datagrams[..], &other.datagrams[..]),
            (&mut self.changes[..], &other.changes[..]),
        ];
        for (sum, more) in sums.into_iter().flat_map(|(sums, more)| sums.iter_mut().zip(more)) {
            *sum += more;
        }
        self.transactions += other.transactions;
        self.connections += other.connections;
        self.retransmits += other.retransmits;
        self.rtt_us += other.rtt_us;
        self.n_rtt += other.n_rtt;
        self.response.merge(&other.response);
        self
    }
}

/// The fold from intervals to lines, of one trial.
#[derive(Debug)]
pub struct LiveLines {
    span: Nanos,
    loaded: Nanos,
    /// Lines not yet printed; the first one has number `given`.
    pending: VecDeque<Counts>,
    given: usize,
    /// The end of each worker's counts, by end and worker number.
    reached: BTreeMap<(usize, u32), Nanos>,
    /// The end of the last counts with progress.
    moved: Nanos,
    /// Time for which workers waited in the last line, after the end of the load; their CPU time is
    /// in that line.
    waited: Nanos,
    /// The last state read of each connection, by end and number.
    states: BTreeMap<(usize, u32), TcpState>,
    /// Operations open at the end of the last printed line; `None` before the first one.
    open: Option<f64>,
}

impl LiveLines {
    /// Lines of `span` each, of a load that lasts until `loaded`.
    #[must_use]
    pub fn new(span: Nanos, loaded: Nanos) -> Self {
        let (pending, reached, moved, waited, states) = Default::default();
        // A span of zero would give a line without end.
        let span = Nanos(span.0.max(1));
        Self { span, loaded, pending, given: 0, reached, moved, waited, states, open: None }
    }

    /// Takes intervals of workers of one end, in their order, and returns the lines that are
    /// complete.
    pub fn take(&mut self, side: Side, intervals: &[Interval]) -> Vec<LiveLine> {
        let end = usize::from(side == Side::Passive);
        for interval in intervals {
            self.count(end, interval);
            if moves(interval) {
                self.moved = self.moved.max(interval.end);
            }
            let reached = self.reached.entry((end, interval.worker)).or_default();
            *reached = (*reached).max(interval.end);
        }
        let first = self.reached.values().copied().max().unwrap_or_default();
        // A worker that ended early sends no more intervals. Without this limit its last one would
        // hold back all lines.
        let waited_for = self.reached.values().filter(|reached| first.since(**reached) <= PATIENCE);
        // Until both ends have reported, a line could miss the counts of a whole end.
        let both = [0, 1].iter().all(|end| self.reached.keys().any(|(of, _)| of == end))
            || first > PATIENCE;
        let passed = waited_for.min().copied().filter(|_| both).unwrap_or_default();
        let mut lines = Vec::new();
        while self.given < self.drain() && self.span_of(self.given).1 <= passed {
            lines.push(self.give());
        }
        lines
    }

    /// Returns what is left once the trial has ended with `outcome`: incomplete lines, and the
    /// drain if anything happened in it.
    pub fn rest(&mut self, outcome: TrialOutcome) -> Vec<LiveLine> {
        let reached = self.reached.values().copied().max().unwrap_or_default();
        if reached < self.loaded {
            // A load that was cut off ended where its workers ended. One with an end of its own
            // ended with its last progress: a receiver may have waited for what was lost.
            let is_complete = outcome == TrialOutcome::Completed && self.moved > Nanos(0);
            let ended = if is_complete { self.moved } else { reached };
            self.loaded = ended.max(Nanos(self.span.0 * self.given as u64)).min(self.loaded);
            self.waited = reached.min(Nanos(self.span.0 * self.drain() as u64)).since(self.loaded);
        }
        let mut lines = Vec::new();
        while self.given < self.drain() && !self.pending.is_empty() {
            lines.push(self.give());
        }
        // The drain is one line, also after a wait over the spans of several.
        if let Some(drain) = self.pending.drain(..).reduce(Counts::together) {
            self.pending.push_back(drain);
            let line = self.give();
            let ended = line.operations.map_or(0.0, |of| of.answered + of.lost);
            let moved = line.forward_bytes
                + line.backward_bytes
                + line.transactions
                + line.connections
                + ended;
            let is_quiet = moved == 0.0;
            lines.extend(
                Some(line).filter(|line| !is_quiet || line.retransmits.is_some_and(|n| n > 0)),
            );
        }
        lines
    }

    /// Returns the number of the line of the drain.
    fn drain(&self) -> usize {
        self.loaded.0.div_ceil(self.span.0) as usize
    }

    /// Returns the start and end of a line.
    fn span_of(&self, line: usize) -> (Nanos, Nanos) {
        if line >= self.drain() {
            let end = self.reached.values().copied().max().unwrap_or_default();
            return (self.loaded, end.max(self.loaded));
        }
        // The last line ends with the load even if the span does not divide it.
        let at = |line: usize| Nanos(line as u64 * self.span.0).min(self.loaded);
        (at(line), at(line + 1))
    }

    /// Returns the line in which `at` lies.
    fn line_at(&self, at: Nanos) -> usize {
        if at >= self.loaded { self.drain() } else { (at.0 / self.span.0) as usize }
    }

    /// Returns the counts of `line`, or of the next line if that one is already printed.
    fn counts(&mut self, line: usize) -> &mut Counts {
        // The line was printed already, so a late count goes to the next one: lines must add up to
        // the total.
        let place = line.max(self.given) - self.given;
        while self.pending.len() <= place {
            self.pending.push_back(Counts::default());
        }
        &mut self.pending[place]
    }

    fn count(&mut self, end: usize, interval: &Interval) {
        // An interval without length lies in one line only, or its counts would be added several
        // times.
        let middle = self.line_at(Nanos(interval.start.0.midpoint(interval.end.0)));
        let length = interval.end.since(interval.start).0 as f64;
        let counted = |counter| interval.counters[counter] as f64;
        for line in self.line_at(interval.start)..=self.line_at(interval.end) {
            let is_drain = line >= self.drain();
            let (from, until) = self.span_of(line);
            let until = if is_drain { interval.end } else { until.min(interval.end) };
            let share = if length > 0.0 {
                until.since(from.max(interval.start)).0 as f64 / length
            } else {
                f64::from(u8::from(line == middle))
            };
            if share > 0.0 {
                let counts = self.counts(line);
                counts.received[end] += counted(Counter::PayloadReceived) * share;
                counts.cpu_ns[end] +=
                    (counted(Counter::CpuUser) + counted(Counter::CpuSystem)) * share;
                // A datagram after its deadline is late, and not lost.
                let arrived = counted(Counter::DatagramsReceived) + counted(Counter::Late);
                counts.datagrams[0] += counted(Counter::SequenceAdvance) * share;
                counts.datagrams[1] += arrived * share;
                counts.changes[0] += counted(Counter::DelayChange) * share;
                counts.changes[1] += counted(Counter::DelayChanges) * share;
                // Both ends count operations; the active one asks.
                if end == 0 {
                    counts.transactions += counted(Counter::Transactions) * share;
                    counts.connections += counted(Counter::Connections) * share;
                    for kind in OperationKind::ALL {
                        for (sum, counter) in counts.operations.iter_mut().zip(kind.counters()) {
                            *sum += counted(counter) * share;
                        }
                    }
                }
            }
        }
        if end == 0 && !interval.response.is_empty() {
            self.counts(middle).response.merge(&interval.response);
        }
        for flow in &interval.flows {
            let before = self.states.insert((end, flow.flow), flow.tcp);
            let known = before.unwrap_or_default();
            // A connection that only receives has a round-trip time from its handshake alone.
            let sends = before.is_some_and(|before| sent(&flow.tcp) > sent(&before));
            let counts = self.counts(middle);
            counts.retransmits +=
                // A new connection may reuse the number of a closed one, whose counter was higher.
                counter_growth(known.retransmits.into(), flow.tcp.retransmits.into());
            if sends && flow.tcp.rtt_us > 0 {
                counts.rtt_us += f64::from(flow.tcp.rtt_us);
                counts.n_rtt += 1;
            }
        }
    }

    fn give(&mut self) -> LiveLine {
        let (from, until) = self.span_of(self.given);
        let counts = self.pending.pop_front().unwrap_or_default();
        let is_drain = self.given >= self.drain();
        self.given += 1;
        let [due, answered, lost] = counts.operations;
        // Once operations were seen, the account continues through spans in which none was due.
        if due > 0.0 || self.open.is_some() {
            // Counts that were apportioned are no whole numbers; none is open by a billionth.
            self.open = Some((self.open.unwrap_or(0.0) + due - answered - lost).max(0.0));
        }
        let is_last = self.given == self.drain();
        let worked = until.since(from) + if is_last { self.waited } else { Nanos(0) };
        let seconds = worked.as_secs_f64();
        let [expected, received] = counts.datagrams;
        let [changed, n_changes] = counts.changes;
        LiveLine {
            from,
            until,
            is_drain,
            cpu: counts.cpu_ns.map(|ns| if seconds > 0.0 { ns / NANOS / seconds } else { 0.0 }),
            datagrams: (expected > 0.0)
                .then_some(LiveDatagrams { expected, lost: expected - received }),
            jitter: (n_changes > 0.0).then(|| changed / n_changes / NANOS),
            times: LIVE_QUANTILES.map(|quantile| time_at(&counts.response, quantile)),
            forward_bytes: counts.received[1],
            backward_bytes: counts.received[0],
            transactions: counts.transactions,
            connections: counts.connections,
            operations: self.open.map(|open| LiveOperations { due, answered, lost, open }),
            // Without any reading, zero retransmissions would be a claim nobody checked.
            retransmits: (!self.states.is_empty()).then_some(counts.retransmits),
            rtt: (counts.n_rtt > 0).then(|| counts.rtt_us / f64::from(counts.n_rtt) / MICROS),
        }
    }
}

/// Returns the time at `quantile`, seconds; infinite among lost requests.
fn time_at(times: &Distribution, quantile: f64) -> Option<f64> {
    Some(times.percentile(quantile)?.map_or(f64::INFINITY, |ns| ns as f64 / NANOS))
}

/// Returns the payload a connection sent; kernels before 4.19 report only what was acknowledged.
fn sent(state: &TcpState) -> u64 {
    state.bytes_sent.max(state.bytes_acked)
}

#[cfg(test)]
mod tests {
    use linerate_model::FlowTcp;

    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    fn interval(worker: u32, from_ms: u64, until_ms: u64, counted: &[(Counter, u64)]) -> Interval {
        let (start, end) = (Nanos::from_millis(from_ms), Nanos::from_millis(until_ms));
        let mut interval = Interval { worker, start, end, ..Interval::default() };
        counted.iter().for_each(|(counter, n)| interval.counters[*counter] = *n);
        interval
    }

    fn received(worker: u32, from_ms: u64, until_ms: u64, bytes: u64) -> Interval {
        interval(worker, from_ms, until_ms, &[(Counter::PayloadReceived, bytes)])
    }

    /// Returns an interval of a worker with one connection in this state at its end.
    fn state(flow: u32, from_ms: u64, until_ms: u64, tcp: TcpState) -> Interval {
        Interval { flows: vec![FlowTcp { flow, tcp }], ..interval(flow, from_ms, until_ms, &[]) }
    }

    #[test]
    fn a_line_waits_for_every_worker_of_both_ends() {
        let mut lines = LiveLines::new(SECOND, Nanos::from_secs(2));
        assert_eq!(
            lines.take(Side::Active, &[interval(0, 0, 1000, &[]), interval(1, 0, 1000, &[])]),
            []
        );
        let first = [received(0, 0, 1000, 700), received(1, 0, 900, 270)];
        assert_eq!(lines.take(Side::Passive, &first), [], "a worker has not passed the second");
        let given = lines.take(Side::Passive, &[received(1, 900, 1100, 60)]);
        assert_eq!(given.iter().map(|line| line.forward_bytes).collect::<Vec<_>>(), [1000.0]);
        assert_eq!((given[0].from, given[0].until), (Nanos(0), SECOND));
    }

    #[test]
    fn lines_add_up_and_the_drain_stands_apart() {
        let mut lines = LiveLines::new(SECOND, Nanos::from_millis(1500));
        let counted = [
            received(0, 0, 800, 800),
            received(0, 800, 1300, 500),
            received(0, 1300, 1501, 200),
            received(0, 1501, 1600, 7),
        ];
        let mut given = lines.take(Side::Active, &[interval(0, 0, 1600, &[])]);
        given.extend(lines.take(Side::Passive, &counted));
        assert_eq!(given.len(), 2);
        given.extend(lines.rest(TrialOutcome::Completed));
        let bytes: Vec<f64> = given.iter().map(|line| line.forward_bytes).collect();
        assert!((bytes.iter().sum::<f64>() - 1507.0).abs() < 1e-9, "{bytes:?}");
        assert_eq!((given.len(), bytes[0], given[2].is_drain), (3, 1000.0, true));
        assert_eq!((given[1].from, given[1].until), (SECOND, Nanos::from_millis(1500)));
        assert!((bytes[1] - 499.0).abs() < 0.1, "{bytes:?}");
    }

    #[test]
    fn a_load_that_was_cut_off_ends_where_its_workers_ended() {
        for (span, spans) in [(60, vec![(0, 3400)]), (2, vec![(0, 2000), (2000, 3400)])] {
            let mut lines = LiveLines::new(Nanos::from_secs(span), Nanos::from_secs(60));
            let mut given = lines.take(Side::Active, &[interval(0, 0, 3400, &[])]);
            let halves = [received(0, 0, 2000, 20), received(0, 2000, 3400, 14)];
            given.extend(lines.take(Side::Passive, &halves));
            given.extend(lines.rest(TrialOutcome::Interrupted));
            let of = |line: &LiveLine| (line.from.0 / 1_000_000, line.until.0 / 1_000_000);
            assert_eq!(given.iter().map(of).collect::<Vec<_>>(), spans);
            assert_eq!(given.iter().map(|line| line.forward_bytes).sum::<f64>(), 34.0);
        }
    }

    #[test]
    fn the_last_line_of_a_load_that_ended_before_its_time_ends_with_it() {
        let mut lines = LiveLines::new(SECOND, Nanos::from_secs(3_600));
        let mut given = lines.take(Side::Active, &[interval(0, 0, 1500, &[])]);
        given.extend(lines.take(Side::Passive, &[received(0, 0, 1500, 1500)]));
        given.extend(lines.rest(TrialOutcome::Completed));
        let spans: Vec<(u64, u64)> =
            given.iter().map(|line| (line.from.0 / 1_000_000, line.until.0 / 1_000_000)).collect();
        assert_eq!(spans, [(0, 1000), (1000, 1500)]);
        assert_eq!(given[1].forward_bytes, 500.0);
    }

    #[test]
    fn a_wait_for_what_was_lost_is_in_no_line_unless_the_load_was_cut_off() {
        for (outcome, spans) in [
            (TrialOutcome::Completed, vec![(0, 1000), (1000, 1800)]),
            (TrialOutcome::Interrupted, vec![(0, 1000), (1000, 2000), (2000, 2300)]),
        ] {
            let mut lines = LiveLines::new(SECOND, Nanos::from_secs(3_600));
            let receives = [received(0, 0, 1800, 1800), interval(0, 1800, 2300, &[])];
            let mut given = lines.take(Side::Active, &[interval(0, 0, 1900, &[])]);
            given.extend(lines.take(Side::Passive, &receives));
            given.extend(lines.rest(outcome));
            let of = |line: &LiveLine| (line.from.0 / 1_000_000, line.until.0 / 1_000_000);
            assert_eq!(given.iter().map(of).collect::<Vec<_>>(), spans, "{outcome:?}");
            assert_eq!(given[1].forward_bytes, 800.0);
        }
    }

    #[test]
    fn a_wait_over_several_spans_is_one_drain_with_all_its_counts_and_no_cpu_of_the_last_line() {
        let mut lines = LiveLines::new(SECOND, Nanos::from_secs(3_600));
        let busy = |from, until| {
            interval(0, from, until, &[(Counter::CpuUser, (until - from) * 1_000_000)])
        };
        let resent = |from, until, retransmits| {
            state(0, from, until, TcpState { retransmits, ..TcpState::default() })
        };
        let moves = [received(0, 0, 1000, 1000), received(0, 1000, 1050, 50)];
        let mut given = lines.take(Side::Passive, &moves);
        let waits = [busy(0, 1000), busy(1000, 2000), resent(2000, 2900, 3), resent(2900, 4040, 5)];
        given.extend(lines.take(Side::Active, &waits));
        given.extend(lines.rest(TrialOutcome::Completed));
        let of = |line: &LiveLine| (line.from.0 / 1_000_000, line.until.0 / 1_000_000);
        let spans: Vec<_> = given.iter().map(of).collect();
        assert_eq!(spans, [(0, 1000), (1000, 1050), (1050, 4040)]);
        assert!((given[1].cpu[0] - 1.0).abs() < 1e-9, "{:?}", given[1].cpu);
        assert_eq!((given[2].is_drain, given[2].retransmits), (true, Some(5)));
        assert_eq!(lines.rest(TrialOutcome::Interrupted), [], "nothing is given twice");
    }

    #[test]
    fn what_comes_too_late_is_in_the_next_line_and_nobody_waits_for_ever() {
        let mut lines = LiveLines::new(SECOND, Nanos::from_secs(10));
        let given = lines.take(Side::Active, &[received(0, 0, 1000, 5)]);
        assert_eq!(given, [], "the other end has not been heard of");
        assert_eq!(lines.take(Side::Passive, &[received(0, 0, 1000, 10)]).len(), 1);
        // A second worker appears late, then ends.
        assert_eq!(
            lines.take(Side::Passive, &[received(1, 0, 1000, 90), received(0, 1000, 2000, 10)]),
            []
        );
        let bytes =
            |lines: Vec<LiveLine>| lines.iter().map(|line| line.forward_bytes).collect::<Vec<_>>();
        assert_eq!(
            bytes(lines.take(Side::Active, &[received(0, 1000, 5000, 0)])),
            [100.0],
            "it is not waited for"
        );
        assert_eq!(
            bytes(lines.take(Side::Passive, &[received(0, 2000, 5000, 30)])),
            [10.0, 10.0, 10.0]
        );
    }

    #[test]
    fn retransmits_of_all_connections_are_added_and_rtt_is_of_those_that_send() {
        let sends = |n: u64, retransmits: u32, rtt_us: u32| TcpState {
            bytes_sent: n,
            retransmits,
            rtt_us,
            ..TcpState::default()
        };
        let mut lines = LiveLines::new(SECOND, Nanos::from_secs(2));
        let active = [
            state(0, 0, 500, sends(1_000, 3, 12_000)),
            state(1, 0, 500, sends(1_000, 5, 10_000)),
            state(0, 500, 1000, sends(2_000, 4, 14_000)),
            state(1, 500, 1000, sends(2_000, 9, 10_000)),
        ];
        // The other end only receives: its greeting of one byte was acknowledged in 5 ms.
        let passive =
            [state(0, 0, 500, sends(1, 0, 5_000)), state(0, 500, 1000, sends(1, 0, 5_000))];
        assert_eq!(lines.take(Side::Active, &active), []);
        let given = lines.take(Side::Passive, &passive);
        assert_eq!((given[0].retransmits, given[0].rtt), (Some(13), Some(0.012)));
        lines.take(
            Side::Active,
            &[
                state(0, 1000, 2000, sends(3_000, 6, 14_000)),
                state(1, 1000, 2000, sends(3_000, 9, 9_000)),
            ],
        );
        let given = lines.take(Side::Passive, &[state(0, 1000, 2000, sends(1, 0, 5_000))]);
        assert_eq!((given[0].retransmits, given[0].rtt), (Some(2), Some(0.0115)));
    }

    #[test]
    fn requests_of_lines_are_due_answered_lost_or_still_open() {
        use Counter::{
            OperationsAnswered as Answered, OperationsDue as Due, OperationsLost as Lost,
            OperationsOpen,
        };
        let mut lines = LiveLines::new(SECOND, Nanos::from_secs(2));
        let active = [
            interval(0, 0, 1000, &[(Due, 50), (Answered, 40), (Lost, 2)]),
            interval(0, 1000, 2000, &[(Due, 30), (Answered, 25)]),
            interval(0, 2000, 2500, &[(Answered, 9), (Lost, 1), (OperationsOpen, 3)]),
        ];
        let mut given = lines.take(Side::Passive, &[interval(0, 0, 2500, &[])]);
        given.extend(lines.take(Side::Active, &active));
        given.extend(lines.rest(TrialOutcome::Completed));
        let operations: Vec<LiveOperations> =
            given.iter().filter_map(|line| line.operations).collect();
        let line = |due, answered, lost, open| LiveOperations { due, answered, lost, open };
        assert_eq!(
            operations,
            [line(50.0, 40.0, 2.0, 8.0), line(30.0, 25.0, 0.0, 13.0), line(0.0, 9.0, 1.0, 3.0)],
            "what is open at the end is what the worker left open"
        );
    }

    #[test]
    fn lines_have_cpu_of_both_ends_loss_jitter_and_response_times() {
        use Counter::{
            CpuSystem, CpuUser, DatagramsReceived, DelayChange, DelayChanges, Late, SequenceAdvance,
        };
        let mut lines = LiveLines::new(SECOND, Nanos::from_secs(2));
        let sends = [(CpuUser, 250_000_000), (CpuSystem, 50_000_000)];
        let mut asks = interval(0, 0, 1000, &sends);
        asks.response.buckets = vec![(1_000_000, 900), (3_000_000, 100)];
        asks.response.lost = 1;
        let receives = [
            (CpuUser, 400_000_000),
            (SequenceAdvance, 1000),
            (DatagramsReceived, 920),
            (Late, 70),
            (DelayChange, 3_000_000),
            (DelayChanges, 30),
        ];
        lines.take(Side::Active, &[asks, interval(0, 1000, 2000, &[])]);
        let given = lines.take(Side::Passive, &[interval(0, 0, 2000, &receives)]);
        let first = &given[0];
        // The receiver's counts of two seconds are apportioned.
        assert_eq!(first.cpu, [0.3, 0.2]);
        assert_eq!(first.datagrams, Some(LiveDatagrams { expected: 500.0, lost: 5.0 }));
        assert_eq!(first.jitter, Some(1e-4));
        assert_eq!(first.times, [Some(1e-3), Some(3e-3), None], "1 of 1001 is beyond p99.9");
        assert_eq!((given[1].cpu, given[1].times), ([0.0, 0.2], [None; 3]));
    }

    #[test]
    fn a_quantile_among_lost_requests_is_infinite() {
        let mut lines = LiveLines::new(SECOND, SECOND);
        let mut asks = interval(0, 0, 1000, &[]);
        asks.response.buckets = vec![(1_000_000, 1000)];
        asks.response.lost = 20;
        lines.take(Side::Active, &[asks]);
        let given = lines.take(Side::Passive, &[interval(0, 0, 1000, &[])]);
        assert_eq!(given[0].times, [Some(1e-3), Some(f64::INFINITY), None], "2 % were lost");
    }

    #[test]
    fn connections_are_not_counted_twice() {
        let mut lines = LiveLines::new(SECOND, SECOND);
        let counted = [(Counter::Transactions, 50), (Counter::Connections, 50)];
        lines.take(Side::Active, &[interval(0, 0, 1000, &counted)]);
        let given = lines.take(Side::Passive, &[interval(0, 0, 1000, &counted)]);
        assert_eq!(
            (given[0].transactions, given[0].connections, given[0].retransmits),
            (50.0, 50.0, None)
        );
    }
}
