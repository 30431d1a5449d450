//! One direction of a job: its sender, its receiver, and the figures of their counters.
//!
//! The record of a foreign end is empty. The record of the other end then stands in for both, and
//! the metrics that need the foreign end itself are left out. Totals that a foreign end reports of
//! its whole load (`FlowReport::foreign`) give the loss of datagrams, and their goodput at a
//! foreign receiver.

use linerate_model::{Bytes, Counter, Direction, FlowReport, JobRecord, Nanos};

use super::connections::Connections;
use super::loss_series;
use super::span::{Span, counted, extent, total};
use crate::limits::headers::IpVersion;
use crate::limits::udp;

/// Bits in a byte.
const BITS: f64 = 8.0;
/// Beginning of the names of workloads over TCP and UDP.
const TCP_PREFIX: &str = "tcp_";
const UDP_PREFIX: &str = "udp_";

/// One direction of a job: who sends and who receives.
#[derive(Clone, Copy)]
pub(super) struct Flow<'a> {
    pub(super) direction: Direction,
    pub(super) sender: &'a JobRecord,
    pub(super) receiver: &'a JobRecord,
    /// True if the record is the end's own; for a foreign end the other end's record is used.
    sees_sender: bool,
    sees_receiver: bool,
    workload: &'a str,
}

impl<'a> Flow<'a> {
    /// Returns the flow from `sender` to `receiver`; `None` if it carries no payload.
    pub(super) fn between(
        direction: Direction,
        [sender, receiver]: [&'a JobRecord; 2],
        workload: &'a str,
    ) -> Option<Self> {
        let flow =
            Self { direction, sender, receiver, sees_sender: true, sees_receiver: true, workload };
        flow.carries_data().then(|| flow.with_what_is_known())
    }

    /// Returns the flow with the record of a foreign end replaced by that of the other end.
    fn with_what_is_known(self) -> Self {
        // A foreign end is known by its lack of intervals.
        let tells = |end: &JobRecord| !end.intervals.is_empty();
        let (sender, receiver) = (tells(self.sender), tells(self.receiver));
        Self {
            sender: if sender { self.sender } else { self.receiver },
            receiver: if receiver { self.receiver } else { self.sender },
            // If neither end reports, the flow keeps both records rather than declaring both
            // foreign.
            sees_sender: sender || !receiver,
            sees_receiver: receiver || !sender,
            ..self
        }
    }

    /// Returns the sender's own counters, `None` of a foreign one.
    pub(super) fn own_sender(&self) -> Option<&'a JobRecord> {
        self.sees_sender.then_some(self.sender)
    }

    /// Returns the receiver's own counters, `None` of a foreign one.
    pub(super) fn own_receiver(&self) -> Option<&'a JobRecord> {
        self.sees_receiver.then_some(self.receiver)
    }

    /// TCP state of the sockets that send in this direction; none of a foreign sender.
    pub(super) fn sending(&self) -> Connections<'a> {
        self.own_sender().map(Connections::sending).unwrap_or_default()
    }

    /// Returns the bytes that were delivered: those received, or where the receiving end is foreign
    /// those that it acknowledged. Old ledgers know what was sent alone.
    pub(super) fn delivered(&self) -> Counter {
        match self.is_foreign() {
            false => Counter::PayloadReceived,
            // Acknowledged bytes reached the peer; sent ones may still wait in the buffer.
            true if total(self.sender, Counter::PayloadAcknowledged) > 0 => {
                Counter::PayloadAcknowledged
            }
            true => Counter::PayloadSent,
        }
    }

    /// Returns whether the receiving end is foreign, so that the sending one represents both.
    pub(super) fn is_foreign(&self) -> bool {
        !self.sees_receiver
    }

    /// Returns the payload bytes that a foreign receiving end acknowledged during `span`, because
    /// bytes that the sending socket accepted may still wait in its buffer. The payload's share of
    /// all acknowledged bytes is that of the whole trial. `None` where the kernel does not count
    /// them.
    fn acknowledged(&self, span: Span) -> Option<f64> {
        let connections = self.sending();
        let trial = extent(self.sender)?;
        let all = connections.change(trial, |state| state.bytes_acked).filter(|all| *all > 0.0)?;
        // Greetings are acknowledged but are no payload, so payload is at most all of it.
        let payload = (total(self.sender, Counter::PayloadSent) as f64 / all).min(1.0);
        connections.change(span, |state| state.bytes_acked).map(|bytes| bytes * payload)
    }

    fn carries_data(&self) -> bool {
        total(self.sender, Counter::PayloadSent) > 0
            || total(self.receiver, Counter::PayloadReceived) > 0
    }

    /// Returns whether datagrams carry it: either end counted some, or the workload's name implies
    /// it.
    pub(super) fn is_datagrams(&self) -> bool {
        total(self.sender, Counter::DatagramsSent) > 0
            || total(self.receiver, Counter::DatagramsReceived) > 0
            || self.workload.starts_with(UDP_PREFIX)
    }

    /// Returns whether TCP carries it: its state was read at either end, or the workload's name
    /// implies it.
    pub(super) fn is_tcp(&self) -> bool {
        // Foreign ends have no state of their own, so either end is enough.
        let read = |end: &JobRecord| {
            !Connections::of(end).is_empty() || end.flows.iter().any(|flow| flow.tcp.is_some())
        };
        read(self.sender) || read(self.receiver) || self.workload.starts_with(TCP_PREFIX)
    }

    /// Returns the datagrams of this direction that were sent in `span` and never came. Ledgers
    /// without how numbers rose know the trial's: as many of those as fall to `span`, any at all
    /// counting as one at least.
    pub(super) fn lost_during(&self, span: Span) -> u64 {
        if !self.is_datagrams() {
            return 0;
        }
        if let Some((_, lost)) = loss_series::during(span, *self) {
            return lost;
        }
        let (sent, received) = (
            total(self.sender, Counter::DatagramsSent),
            total(self.receiver, Counter::DatagramsReceived),
        );
        let lost = sent.saturating_sub(received) as f64;
        let share = counted(self.sender, Counter::DatagramsSent, span) / sent.max(1) as f64;
        // A part of a lost datagram is rounded up: a span with losses must not look free of them.
        (lost * share).ceil() as u64
    }

    /// Returns the number of flows, never fewer than carried data.
    pub(super) fn n_flows(&self) -> usize {
        let sent_on = |flow: &&FlowReport| flow.counters[Counter::PayloadSent] > 0;
        // Flows that only receive do not share the sending direction.
        match self.sender.flows.iter().filter(sent_on).count() {
            // An end that reported no flow may have had any number of them.
            0 => usize::MAX,
            n_flows => n_flows,
        }
    }

    /// Returns the share of the datagrams sent to a foreign receiver that arrived, in bytes: the
    /// receiver counts once, over its whole load. `None` if it reported nothing.
    fn arrived_share(&self) -> Option<f64> {
        let sent = |flow: &&FlowReport| flow.counters[Counter::PayloadSent] > 0;
        let reports = self.sender.flows.iter().filter(sent);
        let (mut all, mut arrived) = (0, 0);
        for flow in reports {
            all += flow.counters[Counter::PayloadSent];
            arrived += flow.foreign.as_ref()?.counters[Counter::PayloadReceived];
        }
        (all > 0).then(|| arrived as f64 / all as f64)
    }

    /// Returns true if datagrams go to a foreign receiver, which counts no intervals.
    pub(super) fn is_counted_once(&self) -> bool {
        self.is_foreign() && self.is_datagrams()
    }

    /// Returns the payload bits delivered per second of `span`; `None` if a foreign receiver of
    /// datagrams did not report what arrived. Its loss is taken as even over its load.
    pub(super) fn goodput(&self, span: Span) -> Option<f64> {
        let counted = || counted(self.receiver, self.delivered(), span);
        if self.is_counted_once() {
            return Some(counted() * self.arrived_share()? * BITS / span.seconds());
        }
        // Senders that count what is acknowledged know which of it is payload.
        let acknowledged =
            if self.delivered() == Counter::PayloadSent { self.acknowledged(span) } else { None };
        Some(acknowledged.unwrap_or_else(counted) * BITS / span.seconds())
    }

    /// Returns the highest payload bits delivered in a second, of seconds counted from the start of
    /// `span`; `None` without a whole one.
    pub(super) fn peak(&self, span: Span) -> Option<f64> {
        let second = Nanos::from_secs(1);
        let n = (span.to.since(span.from).0 / second.0) as usize;
        let mut seconds = vec![0.0; n];
        for interval in &self.receiver.intervals {
            for (k, sum) in seconds.iter_mut().enumerate() {
                let from = Nanos(span.from.0 + k as u64 * second.0);
                let share = Span { from, to: from + second }.share(interval.start, interval.end);
                *sum += interval.counters[self.delivered()] as f64 * share;
            }
        }
        seconds.into_iter().map(|bytes| bytes * BITS).reduce(f64::max)
    }

    /// Returns the payload of a datagram, if all were equally long.
    pub(super) fn datagram_payload(&self) -> Option<Bytes> {
        let sent =
            (total(self.sender, Counter::PayloadSent), total(self.sender, Counter::DatagramsSent));
        let received = (
            total(self.receiver, Counter::PayloadReceived),
            total(self.receiver, Counter::DatagramsReceived),
        );
        let (bytes, n) = if sent.1 > 0 { sent } else { received };
        // A remainder shows that the datagrams had different sizes.
        (n > 0 && bytes % n == 0).then(|| Bytes(bytes / n))
    }

    /// Returns the IP packets delivered per second of `span`; `None` where no counter shows them.
    pub(super) fn packet_rate(&self, span: Span, path: Path) -> Option<f64> {
        if self.is_datagrams() {
            // Counters count datagrams; how many packets they became is not counted.
            let fragmented = match (path.mtu, self.datagram_payload()) {
                (Some(mtu), Some(payload)) => payload > udp::largest_payload(mtu, path.ip),
                _ => false,
            };
            let received = [Counter::DatagramsReceived, Counter::Duplicates, Counter::Late];
            let packets: f64 = if self.is_counted_once() {
                counted(self.sender, Counter::DatagramsSent, span) * self.arrived_share()?
            } else {
                received.iter().map(|counter| counted(self.receiver, *counter, span)).sum()
            };
            return (!fragmented).then(|| packets / span.seconds());
        }
        let received = Connections::receiving(self.receiver)
            .change(span, |state| u64::from(state.segments_in));
        let sent = || self.sending().change(span, |state| u64::from(state.segments_out));
        // A foreign receiver has no state, but the sender counts its own segments.
        received.or_else(sent).map(|packets| packets / span.seconds())
    }

    /// IP packets this direction's connections sent and received during `span`, acknowledgements
    /// included, or its datagrams.
    pub(super) fn packets_both_ways(&self, span: Span) -> Option<f64> {
        if self.is_datagrams() {
            return Some(counted(self.sender, Counter::DatagramsSent, span));
        }
        let both = |state: &linerate_model::TcpState| {
            u64::from(state.segments_out) + u64::from(state.segments_in)
        };
        let seen = |end: &JobRecord| Connections::of(end).change(span, both);
        seen(self.sender).or_else(|| seen(self.receiver))
    }

    /// Returns the payload that was received on `flow`, as a foreign receiver reports it.
    fn received_on(&self, flow: &FlowReport) -> u64 {
        let foreign = flow.foreign.as_ref().filter(|_| self.is_foreign());
        foreign.map_or(&flow.counters, |foreign| &foreign.counters)[Counter::PayloadReceived]
    }

    /// Returns the payload delivered by each flow with sent data: during `span` where TCP counts
    /// it, otherwise in the whole trial.
    pub(super) fn shares(&self, span: Span) -> Vec<f64> {
        let sent_on: Vec<u32> = self
            .sender
            .flows
            .iter()
            .filter(|flow| flow.counters[Counter::PayloadSent] > 0)
            .map(|flow| flow.flow)
            .collect();
        let counts = |flow: u32| sent_on.is_empty() || sent_on.contains(&flow);
        let connections = Connections::receiving(self.receiver);
        // TCP states give the share during the span; the totals include warm-up and drain.
        if !connections.is_empty() && !self.is_datagrams() {
            let received = connections.changes(span, |state| state.bytes_received);
            return received
                .into_iter()
                .filter(|(flow, _)| counts(*flow))
                .map(|(_, bytes)| bytes)
                .collect();
        }
        let flows = self.receiver.flows.iter().filter(|flow| counts(flow.flow));
        flows.map(|flow| self.received_on(flow) as f64).collect()
    }
}

/// Known facts of the path of a job.
#[derive(Clone, Copy, Default)]
pub(super) struct Path {
    /// The smallest MTU known on it.
    pub(super) mtu: Option<Bytes>,
    /// IP version.
    pub(super) ip: IpVersion,
}
