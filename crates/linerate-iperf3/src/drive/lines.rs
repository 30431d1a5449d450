//! Lines of a measurement: the counts of its intervals.

use std::time::Duration;

use super::Session;
use crate::streams::{Counts, Stream, thread_cpu};

/// Counts of one direction in one line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// Payload: acknowledged by the other end's TCP, sent with UDP, or received here.
    pub bytes: u64,
    /// Segments that this end sent again; `None` where this end does not know.
    pub retransmits: Option<u64>,
    /// Smoothed round-trip time, mean over the streams; `None` where this end does not know.
    pub rtt: Option<Duration>,
    /// Datagrams sent or received here.
    pub datagrams: u64,
    /// Datagrams that were lost before one that arrived here; `None` for what this end sends.
    pub lost: Option<u64>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Start, since the start of the load.
    pub from: Duration,
    /// End.
    pub until: Duration,
    /// True in the warm-up.
    pub is_omitted: bool,
    /// From this end, and to it; `None` without such streams.
    pub ways: [Option<Way>; 2],
    /// Share of one CPU that this end used, percent.
    pub cpu: f64,
}

/// The counts at the end of the last line.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) until: Duration,
    pub(super) counts: Vec<Counts>,
    pub(super) cpu: [u64; 2],
}

impl Session {
    /// Returns the end of the present line, since the start of the load.
    pub(super) fn next_line(&self) -> Option<Duration> {
        (!self.asked.interval.is_zero()).then(|| self.lines.until + self.asked.interval)
    }

    /// Returns the counts of one direction since the last line; `None` without such streams.
    fn way(&self, sends: bool, counts: &[Counts]) -> Option<Way> {
        let mut way = Way::default();
        let (mut rtts, mut n) = (Vec::new(), 0);
        for (at, stream) in self.streams.iter().enumerate().filter(|(_, s)| s.sends == sends) {
            let (now, before) = (counts[at], self.lines.counts[at]);
            let more = |now: u64, before: u64| now.saturating_sub(before);
            way.bytes += match (now.acknowledged, before.acknowledged) {
                (Some(now), Some(before)) => more(now, before),
                _ => more(now.bytes, before.bytes),
            };
            if let (Some(now), Some(before)) = (now.retransmits, before.retransmits) {
                way.retransmits = Some(way.retransmits.unwrap_or(0) + more(now, before));
            }
            way.datagrams += more(now.datagrams, before.datagrams);
            if stream.account().is_some() {
                way.lost = Some(way.lost.unwrap_or(0) + more(now.missing, before.missing));
            }
            rtts.extend(stream.rtt());
            n += 1;
        }
        let n_rtts = u32::try_from(rtts.len()).unwrap_or(u32::MAX).max(1);
        way.rtt = (!rtts.is_empty()).then(|| rtts.iter().sum::<Duration>() / n_rtts);
        (n > 0).then_some(way)
    }

    /// Completes the line that ends at `until`.
    pub(super) fn line(&mut self, until: Duration, on_line: &mut dyn FnMut(&Line)) {
        let counts: Vec<Counts> = self.streams.iter().map(Stream::counts).collect();
        let cpu = thread_cpu();
        let span = until.saturating_sub(self.lines.until).as_secs_f64();
        let used = (cpu[0] + cpu[1]).saturating_sub(self.lines.cpu[0] + self.lines.cpu[1]);
        let line = Line {
            from: self.lines.until,
            until,
            is_omitted: until <= self.asked.omit,
            ways: [self.way(true, &counts), self.way(false, &counts)],
            cpu: if span > 0.0 { used as f64 / 1e7 / span } else { 0.0 },
        };
        on_line(&line);
        self.lines = Lines { until, counts, cpu };
    }
}
