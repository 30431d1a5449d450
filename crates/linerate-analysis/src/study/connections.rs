//! TCP state of the flows of one end over a trial.
//!
//! Counters in `TCP_INFO` are cumulative since the connection was opened and are read at the end of
//! each interval; between two readings they are taken to grow evenly. The kernel counts GSO
//! segments as the packets they become (`tcp_transmit_skb` and `tcp_segs_in` add `gso_segs`).
//! 32-bit counters may wrap once between readings.
//!
//! One end may have sockets that only send and sockets that only receive. A receiving socket has a
//! round-trip time, a window and a pacing rate too, and they describe nothing but its handshake.
//! [`Connections::sending`] and [`Connections::receiving`] therefore select the flows that carried
//! payload in one direction.

use std::collections::BTreeMap;

use linerate_model::{Counter, JobRecord, Nanos, TcpState, counter_growth};

use super::span::{Span, total};

/// The kernel's initial value of the smallest round-trip time: none was seen yet
/// (`include/net/tcp.h`, `~0U`).
const RTT_UNSEEN: u32 = u32::MAX;
/// Microseconds in a second.
const MICROS: f64 = 1e6;

/// Readings of one flow. Before `opened` the connection carried nothing.
struct Readings<'a> {
    opened: Nanos,
    states: Vec<(Nanos, &'a TcpState)>,
}

/// All flows of one end, by flow number.
#[derive(Default)]
pub(super) struct Connections<'a>(BTreeMap<u32, Readings<'a>>);

impl<'a> Connections<'a> {
    /// Returns the flows whose state `record` holds.
    pub(super) fn of(record: &'a JobRecord) -> Self {
        let mut flows: BTreeMap<u32, Readings<'a>> = BTreeMap::new();
        for interval in &record.intervals {
            for flow in &interval.flows {
                let readings = flows
                    .entry(flow.flow)
                    .or_insert(Readings { opened: interval.start, states: Vec::new() });
                // Intervals of several workers are not in order of time.
                readings.opened = readings.opened.min(interval.start);
                readings.states.push((interval.end, &flow.tcp));
            }
        }
        for readings in flows.values_mut() {
            // Readings come worker by worker, but changes are formed between neighbours in time.
            readings.states.sort_by_key(|(at, _)| *at);
        }
        Self(flows)
    }

    /// Returns the flows on which `record` sent payload.
    pub(super) fn sending(record: &'a JobRecord) -> Self {
        Self::of(record)
            // Kernels before 4.19 report acknowledged bytes only.
            .carrying(record, Counter::PayloadSent, |state| state.bytes_sent.max(state.bytes_acked))
    }

    /// Returns the flows on which `record` received payload.
    pub(super) fn receiving(record: &'a JobRecord) -> Self {
        Self::of(record).carrying(record, Counter::PayloadReceived, |state| state.bytes_received)
    }

    /// Returns the flows of which `record` counted some of `payload`. Without reports of its flows:
    /// those whose `bytes` grew between two readings, because each connection exchanges a greeting
    /// before the first. All of them if none grew: the kernel does not report these bytes.
    fn carrying(
        mut self,
        record: &JobRecord,
        payload: Counter,
        bytes: impl Fn(&TcpState) -> u64,
    ) -> Self {
        let counted: Vec<u32> = record
            .flows
            .iter()
            .filter(|flow| flow.counters[payload] > 0)
            .map(|flow| flow.flow)
            .collect();
        let is_reported =
            !record.flows.is_empty() && (!counted.is_empty() || total(record, payload) == 0);
        if is_reported {
            self.0.retain(|flow, _| counted.contains(flow));
        } else if self.0.values().any(|readings| readings.grew(&bytes)) {
            self.0.retain(|_, readings| readings.grew(&bytes));
        }
        self
    }

    /// Returns whether no state is known.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns change of a counter during `span`, by flow number.
    pub(super) fn changes(
        &self,
        span: Span,
        counter: impl Fn(&TcpState) -> u64 + Copy,
    ) -> Vec<(u32, f64)> {
        self.0.iter().map(|(flow, readings)| (*flow, readings.change(span, counter))).collect()
    }

    /// Returns the number of flows that sent payload during `span`; all of them where the kernel
    /// does not show it.
    pub(super) fn n_sending(&self, span: Span) -> usize {
        self.senders(span).len()
    }

    /// Returns the flows that [`Self::n_sending`] counts.
    fn senders(&self, span: Span) -> Vec<&Readings<'a>> {
        let sent = |readings: &&Readings<'a>| readings.change(span, |state| state.bytes_sent) > 0.0;
        let senders: Vec<&Readings<'a>> = self.0.values().filter(sent).collect();
        // Kernels without a count of sent bytes show no sender; leaving out every flow would hide
        // all of them.
        if senders.is_empty() { self.0.values().collect() } else { senders }
    }

    /// Returns the median of `value` over the readings of each flow that sent during `span`, flows
    /// added; `None` if no reading has one.
    pub(super) fn medians(
        &self,
        span: Span,
        value: impl Fn(&TcpState) -> Option<f64>,
    ) -> Option<f64> {
        let of_flow = |readings: &Readings<'_>| {
            crate::statistics::median(&readings.within(span).filter_map(&value).collect::<Vec<_>>())
        };
        self.senders(span).into_iter().filter_map(of_flow).reduce(|a, b| a + b)
    }

    /// Returns change of a counter during `span`, all flows added; `None` if no state is known.
    pub(super) fn change(
        &self,
        span: Span,
        counter: impl Fn(&TcpState) -> u64 + Copy,
    ) -> Option<f64> {
        (!self.is_empty())
            .then(|| self.changes(span, counter).iter().map(|(_, change)| change).sum())
    }

    /// Returns the growth of a counter of rare events in readings whose middle lies in `span`.
    /// Spread over time, such events would be fractions.
    pub(super) fn events(
        &self,
        span: Span,
        counter: impl Fn(&TcpState) -> u64 + Copy,
    ) -> Option<f64> {
        // A count of rare events cannot be divided, so it belongs to the span with most of its
        // interval.
        let middle = |start: Nanos, end: Nanos| Nanos(start.0.midpoint(end.0));
        let within = |at: Nanos| span.from <= at && at < span.to;
        let counts = self.steps(counter).into_iter();
        let counts = counts.filter(|(start, end, _)| within(middle(*start, *end)));
        (!self.is_empty()).then(|| counts.map(|(.., n)| n).sum())
    }

    /// Returns an estimate of the payload bytes that arrived during `span`, in order or not:
    /// segments with payload, each of the largest size observed from its flow's peer. It is too
    /// high if some segments were shorter or came twice. `None` where the kernel does not count
    /// them.
    pub(super) fn arrived(&self, span: Span) -> Option<f64> {
        // A connection that received nothing has no segments to count.
        let received = self.0.values().filter(|readings| readings.has_received());
        let flows: Option<Vec<f64>> = received.map(|readings| readings.arrived(span)).collect();
        flows.filter(|flows| !flows.is_empty()).map(|flows| flows.iter().sum())
    }

    /// Returns states read during `span`.
    pub(super) fn states(&self, span: Span) -> impl Iterator<Item = &'a TcpState> + '_ {
        self.0
            .values()
            .flat_map(|readings| readings.states.iter())
            .filter(move |(at, _)| span.from < *at && *at <= span.to)
            .map(|(_, state)| *state)
    }

    /// Returns the growth of a counter between readings, flow after flow: from when, until when, by
    /// how much.
    pub(super) fn steps(
        &self,
        counter: impl Fn(&TcpState) -> u64 + Copy,
    ) -> Vec<(Nanos, Nanos, f64)> {
        self.0.values().flat_map(|readings| readings.steps(counter)).collect()
    }

    /// Returns the smoothed round-trip times as read, seconds.
    pub(super) fn round_trips(&self) -> impl Iterator<Item = (Nanos, f64)> + '_ {
        let states = self.0.values().flat_map(|readings| readings.states.iter());
        states
            .filter(|(_, state)| state.rtt_us > 0)
            .map(|(at, state)| (*at, f64::from(state.rtt_us) / MICROS))
    }

    /// Returns the windows the peer advertised, as read: flow, time, bytes. Readings without one
    /// are left out.
    pub(super) fn peer_windows(&self) -> impl Iterator<Item = (u32, Nanos, f64)> + '_ {
        let states = self
            .0
            .iter()
            .flat_map(|(flow, readings)| readings.states.iter().map(|read| (*flow, read)));
        let telling = states.filter(|(_, (_, state))| state.send_window > 0);
        telling.map(|(flow, (at, state))| (flow, *at, f64::from(state.send_window)))
    }

    /// Returns the smoothed round-trip time, mean over readings and flows, seconds.
    pub(super) fn rtt_seconds(&self, span: Span) -> Option<f64> {
        let seen: Vec<f64> = self
            .states(span)
            .filter(|state| state.rtt_us > 0)
            .map(|state| f64::from(state.rtt_us) / MICROS)
            .collect();
        crate::statistics::mean(&seen)
    }

    /// Returns the smallest round-trip time TCP saw, seconds.
    pub(super) fn smallest_rtt_seconds(&self, span: Span) -> Option<f64> {
        let seen = self
            .states(span)
            .map(|state| state.min_rtt_us)
            .filter(|rtt| *rtt > 0 && *rtt != RTT_UNSEEN);
        seen.min().map(|rtt| f64::from(rtt) / MICROS)
    }

    /// Returns the largest window the peer advertised in any reading, added over the flows, bytes.
    /// `None` where the kernel does not report it for one of them.
    pub(super) fn peer_window(&self, span: Span) -> Option<u64> {
        (!self.is_empty())
            .then(|| self.0.values().map(|readings| readings.largest_window(span)).sum())?
    }
}

impl<'a> Readings<'a> {
    /// Returns the states read in `span`.
    fn within(&self, span: Span) -> impl Iterator<Item = &'a TcpState> + '_ {
        // A reading at the begin of the span describes the time before it.
        let within = self.states.iter().filter(move |(at, _)| span.from < *at && *at <= span.to);
        within.map(|(_, state)| *state)
    }

    /// Returns whether `bytes` grew between the first and the last reading.
    fn grew(&self, bytes: &impl Fn(&TcpState) -> u64) -> bool {
        let ends = self.states.first().zip(self.states.last());
        ends.is_some_and(|((_, first), (_, last))| bytes(last) > bytes(first))
    }

    fn has_received(&self) -> bool {
        let mut states = self.states.iter().map(|(_, state)| state);
        states.any(|state| state.bytes_received + u64::from(state.data_segments_in) > 0)
    }

    /// Returns the most bytes that can have arrived in `span`; `None` if the kernel counts no
    /// segments.
    fn arrived(&self, span: Span) -> Option<f64> {
        // The kernel counts segments and not their bytes; the largest segment gives the upper
        // estimate that the gate needs.
        let largest = self.states.iter().map(|(_, state)| state.receive_mss).max().unwrap_or(0);
        let is_counted = self.states.iter().any(|(_, state)| state.data_segments_in > 0);
        let segments = |state: &TcpState| u64::from(state.data_segments_in);
        is_counted.then(|| self.change(span, segments) * f64::from(largest))
    }

    /// Returns the largest window that the peer offered in `span`.
    fn largest_window(&self, span: Span) -> Option<u64> {
        let windows = self.within(span).map(|state| u64::from(state.send_window));
        windows.max().filter(|window| *window > 0)
    }
    fn steps(&self, counter: impl Fn(&TcpState) -> u64 + Copy) -> Vec<(Nanos, Nanos, f64)> {
        let (mut before, mut at_before) = (0, self.opened);
        let mut steps = Vec::with_capacity(self.states.len());
        for (at, state) in &self.states {
            let now = counter(state);
            // 32-bit counters of the kernel wrap at high packet rates.
            steps.push((at_before, *at, counter_growth(before, now) as f64));
            (before, at_before) = (now, *at);
        }
        steps
    }

    fn change(&self, span: Span, counter: impl Fn(&TcpState) -> u64 + Copy) -> f64 {
        self.steps(counter)
            .iter()
            .map(|(start, end, change)| change * span.share(*start, *end))
            .sum()
    }
}
