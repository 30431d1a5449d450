//! Result of a measurement, from the counts of both ends.

use std::time::{Duration, Instant};

use super::Session;
use crate::streams::{Stream, drain_all};
use crate::wire::{Protocol, Results, StreamResults};

/// Result of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// From this end, and to it; `None` without such streams.
    pub ways: [Option<WayOutcome>; 2],
    /// Share of one CPU that this end used, percent.
    pub cpu_here: f64,
    /// The same of the server, as it reports it.
    pub cpu_there: f64,
    /// Congestion control here and there, where known.
    pub congestion: [Option<String>; 2],
    /// Text of the server.
    pub output: Option<String>,
}

/// Result of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WayOutcome {
    /// Payload that the receiver counted.
    pub bytes: u64,
    /// Time for which it counted, seconds.
    pub seconds: f64,
    /// Payload that the sender counted.
    pub sent_bytes: Option<u64>,
    /// Segments sent again; `None` if the sender does not report them, and with UDP.
    pub retransmits: Option<u64>,
    /// Datagrams sent, as the sender reports them; `None` with TCP.
    pub datagrams: Option<u64>,
    /// Datagrams lost; `None` with TCP.
    pub lost: Option<u64>,
    /// Jitter at the receiver, seconds; `None` with TCP.
    pub jitter: Option<f64>,
}

impl WayOutcome {
    /// Returns the goodput, bit/s.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 * 8.0 / self.seconds } else { 0.0 }
    }
}

impl Session {
    fn seconds(&self) -> f64 {
        let ended = self.load.as_ref().and_then(|load| load.ended.as_ref());
        ended.map_or(0.0, |(end, _)| end.saturating_sub(self.asked.omit).as_secs_f64())
    }

    /// Returns the results of this end for the server.
    pub(super) fn results(&mut self) -> Results {
        let seconds = self.seconds();
        let streams: Vec<StreamResults> =
            self.streams.iter().map(|stream| stream.results(seconds, None, true)).collect();
        let sends_tcp = streams.iter().any(|stream| stream.retransmits.is_some());
        Results {
            cpu: self.cpu,
            has_retransmits: self.streams.iter().any(|stream| stream.sends).then_some(sends_tcp),
            congestion: self.streams.first().and_then(Stream::congestion),
            output: None,
            streams,
        }
    }

    /// Takes the datagrams that are still under way, and combines the results of both ends.
    pub(super) fn finish(&mut self, theirs: &Results) -> Outcome {
        /// Longest time for late datagrams, and the quiet after which none is under way.
        const DRAIN: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(60)];
        let (begun, mut quiet) = (Instant::now(), Instant::now());
        while begun.elapsed() < DRAIN[0]
            && quiet.elapsed() < DRAIN[1]
            && self.streams.iter().any(|stream| lacks(stream, theirs))
        {
            std::thread::sleep(Duration::from_millis(2));
            if drain_all(&mut self.streams) {
                quiet = Instant::now();
            }
        }
        Outcome {
            ways: [self.outcome_of(true, theirs), self.outcome_of(false, theirs)],
            cpu_here: self.cpu[0],
            cpu_there: theirs.cpu[0],
            congestion: [
                self.streams.first().and_then(Stream::congestion),
                theirs.congestion.clone(),
            ],
            output: theirs.output.clone(),
        }
    }

    /// Returns the result of one direction; `None` without such streams, or if the server does not
    /// report one of them.
    fn outcome_of(&self, sends: bool, theirs: &Results) -> Option<WayOutcome> {
        let mut streams = self.streams.iter().enumerate().filter(|(_, s)| s.sends == sends);
        streams.clone().next()?;
        streams.try_fold(WayOutcome::default(), |way, (at, stream)| {
            let theirs = theirs.of_stream(stream.id)?;
            Some(if sends {
                self.with_sent(way, stream, theirs)
            } else {
                self.with_received(way, (at, stream), theirs)
            })
        })
    }

    fn is_udp(&self) -> bool {
        self.parameters.protocol == Protocol::Udp
    }

    /// Adds a stream of this end.
    fn with_sent(
        &self,
        mut way: WayOutcome,
        stream: &Stream,
        theirs: &StreamResults,
    ) -> WayOutcome {
        let ours = stream.results(self.seconds(), None, true);
        way.bytes += theirs.bytes;
        // The server counts until the message that ends the load, later than the last datagram.
        let seconds = if self.is_udp() { self.seconds() } else { theirs.seconds };
        way.seconds = way.seconds.max(seconds);
        add(&mut way.sent_bytes, Some(ours.bytes));
        if !self.is_udp() {
            add(&mut way.retransmits, ours.retransmits);
            return way;
        }
        let sent = u64::try_from(ours.packets - ours.omitted_packets.unwrap_or(0)).unwrap_or(0);
        // iperf3 counts a datagram as lost only when a later one arrives, so its own figure misses
        // the last ones and all of a black hole. Its bytes are those that arrived.
        let arrived = theirs.bytes / stream.length as u64;
        add(&mut way.datagrams, Some(sent));
        add(&mut way.lost, Some(sent.saturating_sub(arrived)));
        way.jitter = Some(way.jitter.unwrap_or(0.0).max(theirs.jitter));
        way
    }

    /// Adds a stream of the server.
    fn with_received(
        &self,
        mut way: WayOutcome,
        (at, stream): (usize, &Stream),
        theirs: &StreamResults,
    ) -> WayOutcome {
        let ended = self.load.as_ref().and_then(|load| load.ended.as_ref());
        let at_end = ended.and_then(|(_, counts)| counts.get(at)).copied().unwrap_or_default();
        let omitted = stream.omitted();
        // What arrived after the end belongs to no rate.
        way.bytes += at_end.bytes.saturating_sub(omitted.bytes);
        way.seconds = way.seconds.max(self.seconds());
        add(&mut way.sent_bytes, Some(theirs.bytes));
        let Some(account) = stream.account() else {
            add(&mut way.retransmits, theirs.retransmits);
            return way;
        };
        let sent = u64::try_from(theirs.packets).unwrap_or(0).max(account.highest());
        let before = omitted.datagrams + omitted.missing;
        add(&mut way.datagrams, Some(sent.saturating_sub(before)));
        add(&mut way.lost, Some(account.lost_of(sent).saturating_sub(omitted.missing)));
        way.jitter = Some(way.jitter.unwrap_or(0.0).max(account.jitter));
        way
    }
}

/// Returns whether datagrams that the server sent have not arrived.
fn lacks(stream: &Stream, theirs: &Results) -> bool {
    let sent = theirs.of_stream(stream.id).and_then(|one| u64::try_from(one.packets).ok());
    stream.account().is_some_and(|account| account.lost_of(sent.unwrap_or(0)) > 0)
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0) + more);
    }
}
