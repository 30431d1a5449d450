//! Datagrams of a probe, joined from the records of both ends.

use std::collections::HashSet;

use linerate_model::{ProbeKind, ProbePhase, ProbeRecord};

/// Wait of the last datagram of a step, in parts of the time in which the step was sent and in s,
/// above which the path delivered the step later than it was sent. A busy host holds datagrams up
/// for less.
const LATE: f64 = 0.25;
const LATE_S: f64 = 0.025;

/// Datagram that arrived for the first time. Times are seconds from the earliest one of each clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Datagram {
    pub(super) number: u64,
    pub(super) received: f64,
    /// One-way delay beyond the shortest one of its size.
    pub(super) delay: f64,
    /// Bytes of the IP packet.
    pub(super) bytes: f64,
}

/// Datagrams of one phase.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) kind: ProbeKind,
    /// Datagrams sent.
    pub(super) n: u64,
    /// Bytes of each IP packet.
    pub(super) bytes: f64,
    /// Rate at which they were sent, bit/s; infinite for one batch.
    pub(super) offered: f64,
    /// Rate at which they were to be sent.
    pub(super) wanted: Option<f64>,
    /// First arrivals, in the order of arrival.
    pub(super) arrived: Vec<Datagram>,
}

impl Phase {
    /// Returns the share of its datagrams that did not arrive.
    pub(super) fn loss(&self) -> f64 {
        if self.n == 0 { 0.0 } else { 1.0 - self.arrived.len() as f64 / self.n as f64 }
    }

    /// Returns the rate at which the path delivered its datagrams, bit/s, from the first one sent
    /// to the last one delivered. A deep buffer takes more than the path carries, and delivers it
    /// later: the wait in it counts.
    pub(super) fn delivered(&self) -> Option<f64> {
        let (first, last) = (self.arrived.first()?, self.arrived.last()?);
        let arriving = last.received - first.received + first.delay;
        let rate = self.bits(self.arrived.len()) / self.sending().max(arriving);
        // A step of one batch has a rate of bursts, and a token bucket lets bursts pass.
        (self.offered.is_finite() && rate.is_finite() && rate > 0.0).then_some(rate)
    }

    /// Returns true if the last datagram was delivered clearly later than it was sent.
    pub(super) fn is_late(&self) -> bool {
        let wait = self.arrived.last().map_or(0.0, |last| last.delay);
        wait > LATE_S.max(LATE * self.sending())
    }

    /// Returns the time between the first and the last datagram sent, s.
    fn sending(&self) -> f64 {
        self.bits(self.n as usize) / self.offered
    }

    /// Returns the bits from the first of `n` datagrams to the last one.
    fn bits(&self, n: usize) -> f64 {
        n.saturating_sub(1) as f64 * self.bytes * 8.0
    }

    /// Returns the rate at which the second half of its datagrams arrived, bit/s; `None` below
    /// `least` datagrams. The first half may pass at once through a small token bucket.
    pub(super) fn dispersion(&self, least: usize) -> Option<f64> {
        let half = &self.arrived[self.arrived.len() / 2..];
        let (first, last) = (half.first()?, half.last()?);
        let seconds = last.received - first.received;
        let is_enough = self.arrived.len() >= least && seconds > 0.0;
        is_enough.then(|| self.bits(half.len()) / seconds)
    }
}

/// Everything that both ends recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct Datagrams {
    pub(super) phases: Vec<Phase>,
    /// Datagrams that arrived after one with a higher number, that arrived again, and all.
    pub(super) reordered: usize,
    pub(super) duplicated: usize,
    pub(super) received: usize,
}

impl Datagrams {
    /// Joins the records of `sender` and `receiver`.
    pub(super) fn of(sender: &ProbeRecord, receiver: &ProbeRecord) -> Self {
        let header = sender.header_bytes as f64;
        let mut all = Self {
            phases: sender.phases.iter().map(|phase| empty(phase, header)).collect(),
            ..Self::default()
        };
        let rows: Vec<(u64, u64, u64)> = receiver.series.rows().collect();
        let origin = rows.iter().map(|row| row.2).min().unwrap_or(0);
        let mut seen = HashSet::new();
        let mut highest = None;
        for (number, sent, received) in rows {
            all.received += 1;
            if !seen.insert(number) {
                all.duplicated += 1;
                continue;
            }
            all.reordered += usize::from(highest > Some(number));
            highest = highest.max(Some(number));
            let place = sender.phases.partition_point(|phase| phase.first <= number);
            let Some(phase) = place.checked_sub(1).and_then(|idx| all.phases.get_mut(idx)) else {
                continue;
            };
            let delay = (i128::from(received) - i128::from(sent)) as f64 / 1e9;
            let received = (received - origin) as f64 / 1e9;
            phase.arrived.push(Datagram { number, received, delay, bytes: phase.bytes });
        }
        all.subtract_shortest();
        all
    }

    /// Makes every delay relative to the shortest of its size: a large datagram takes longer on a
    /// slow link even without a queue.
    fn subtract_shortest(&mut self) {
        let mut sizes: Vec<f64> = self.phases.iter().map(|phase| phase.bytes).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        for bytes in sizes {
            let same = || self.phases.iter().filter(|phase| phase.bytes == bytes);
            let delays = same().flat_map(|phase| &phase.arrived).map(|datagram| datagram.delay);
            let shortest = delays.fold(f64::INFINITY, f64::min);
            let same = self.phases.iter_mut().filter(|phase| phase.bytes == bytes);
            same.flat_map(|phase| &mut phase.arrived)
                .for_each(|datagram| datagram.delay -= shortest);
        }
        for phase in &mut self.phases {
            phase.arrived.sort_by(|a, b| a.received.total_cmp(&b.received));
        }
    }

    /// Returns the phases of `kind`.
    pub(super) fn of_kind(&self, kind: ProbeKind) -> impl Iterator<Item = &Phase> {
        self.phases.iter().filter(move |phase| phase.kind == kind)
    }
}

fn empty(phase: &ProbePhase, header: f64) -> Phase {
    let bytes = phase.payload.0 as f64 + header;
    let seconds = phase.until.since(phase.from).as_secs_f64();
    Phase {
        kind: phase.kind,
        n: phase.n,
        bytes,
        offered: if seconds > 0.0 {
            phase.n.saturating_sub(1) as f64 * bytes * 8.0 / seconds
        } else {
            f64::INFINITY
        },
        wanted: phase.rate.map(|rate| rate.0),
        arrived: Vec::new(),
    }
}
