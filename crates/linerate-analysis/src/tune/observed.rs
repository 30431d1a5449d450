//! Readings that tuning uses from a recorded trial: rates of a flood, losses of trains, the window
//! a sender saw, counters.
//!
//! Counts are over the whole trial, warm-up and drain included. Not covered: anything the ends did
//! not count.

use linerate_model::series::interface;
use linerate_model::{
    BitRate, Bytes, Counter, Interval, JobRecord, Nanos, Phases, Series, SeriesSpec, Side,
    TrialRecord, series,
};

use super::experiments::Missed;

/// Bytes a frame occupies on an Ethernet wire beyond its IP packet: preamble and SFD 8, header 14,
/// FCS 4, gap 12 (IEEE 802.3 clauses 3.2 and 4.4.2).
pub(super) const WIRE_OVERHEAD: f64 = 38.0;
/// Headers of UDP (RFC 768) and of IPv4 without options or IPv6 (RFC 791, RFC 8200), bytes.
const UDP_HEADER: u64 = 8;
const IPV4_HEADER: u64 = 20;
const IPV6_HEADER: u64 = 40;
const BITS_PER_BYTE: f64 = 8.0;

/// Rates of a path under a flood of datagrams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Sent, as on the wire.
    pub feed: BitRate,
    /// Delivered, as on the wire.
    pub drain: BitRate,
    /// IP packets it was made of, bytes.
    pub packet: Bytes,
}

/// Trains of datagrams and what became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trains {
    /// Datagrams in each.
    pub length: u32,
    /// Trains sent.
    pub sent: u32,
    /// Datagrams lost.
    pub lost: u64,
}

fn total(record: &JobRecord, counter: Counter) -> u64 {
    record.flows.iter().map(|flow| flow.counters[counter]).sum()
}

/// Returns the rates of a flood (job 0 of `trial`, `udp_stream`); `None` if nothing came through.
#[must_use]
pub fn rates(trial: &TrialRecord) -> Option<Rates> {
    let (sender, receiver) = (trial.job(0, Side::Active)?, trial.job(0, Side::Passive)?);
    let sent = total(sender, Counter::DatagramsSent);
    let payload = total(sender, Counter::PayloadSent).checked_div(sent)?;
    let ipv6 = trial.spec.jobs.first()?.to.address.is_some_and(|address| address.is_ipv6());
    let packet = payload + UDP_HEADER + if ipv6 { IPV6_HEADER } else { IPV4_HEADER };
    let wire_bits = (packet as f64 + WIRE_OVERHEAD) * BITS_PER_BYTE;
    let rate = |record, counter| measured_rate(record, counter, &trial.spec.phases, wire_bits);
    Some(Rates {
        feed: rate(sender, Counter::DatagramsSent)?,
        drain: rate(receiver, Counter::DatagramsReceived)?,
        packet: Bytes(packet),
    })
}

/// Returns the rate of `counter` on the wire, where each count has `wire_bits`; `None` if nothing
/// was counted.
fn measured_rate(
    record: &JobRecord,
    counter: Counter,
    phases: &Phases,
    wire_bits: f64,
) -> Option<BitRate> {
    let (warmup, end) = (phases.warmup_span(), phases.loaded());
    let intervals = || record.intervals.iter();
    let inside = intervals().filter(|one| one.start >= warmup && one.end <= end);
    // Intervals outside the measurement are left out, so that neither the start of a flow nor its
    // end counts as its rate. On a busy machine no interval may be inside: then those count that
    // are more inside than outside.
    let middle = |one: &Interval| one.start + Nanos(one.end.since(one.start).0 / 2);
    let mostly = intervals().filter(|one| middle(one) >= warmup && middle(one) <= end);
    rate_of(inside, counter, wire_bits).or_else(|| rate_of(mostly, counter, wire_bits))
}

fn rate_of<'a>(
    intervals: impl Iterator<Item = &'a Interval>,
    counter: Counter,
    wire_bits: f64,
) -> Option<BitRate> {
    let (n, ns) = intervals.fold((0_u64, 0_u64), |(n, ns), one| {
        (n + one.counters[counter], ns + one.end.since(one.start).0)
    });
    (ns > 0 && n > 0).then(|| BitRate(n as f64 * wire_bits / (ns as f64 / 1e9)))
}

/// Returns the losses of the trains of `length` datagrams that `trial` sent; `None` if it sent
/// none.
#[must_use]
pub fn trains(trial: &TrialRecord, length: u32) -> Option<Trains> {
    let sent = total(trial.job(0, Side::Active)?, Counter::DatagramsSent);
    let received = total(trial.job(0, Side::Passive)?, Counter::DatagramsReceived);
    let trains = u32::try_from(sent.checked_div(length.into())?).unwrap_or(u32::MAX);
    (trains > 0).then(|| Trains { length, sent: trains, lost: sent.saturating_sub(received) })
}

/// Returns the largest window that the sender of job 0 saw advertised in the second half of
/// `trial`, bytes: after the receiver's kernel has had time to change its mind.
#[must_use]
pub fn window_seen(trial: &TrialRecord) -> Option<u64> {
    let half = Nanos(trial.spec.phases.loaded().0 / 2);
    let sender = trial.job(0, Side::Active)?;
    let late = sender.intervals.iter().filter(|interval| interval.start >= half);
    let windows =
        late.flat_map(|interval| &interval.flows).map(|flow| u64::from(flow.tcp.send_window));
    windows.filter(|window| *window > 0).max()
}

/// Returns the segments that the sender of job 0 retransmitted.
#[must_use]
pub fn retransmitted(trial: &TrialRecord) -> Option<u64> {
    let flows = &trial.job(0, Side::Active)?.flows;
    let counts = flows.iter().map(|flow| flow.tcp.map(|tcp| u64::from(tcp.retransmits)));
    counts.sum()
}

/// Returns the last reading of the gauge `column` at `host` during `trial`; `None` if it was not
/// read.
#[must_use]
pub fn reading_of(trial: &TrialRecord, host: &str, column: Series) -> Option<f64> {
    let (_, block) = trial.samples.iter().find(|(from, _)| from == host)?;
    let mut columns = block.series.iter().zip(&block.columns);
    let (_, column) = columns.find(|(read, _)| column.is(read))?;
    column.iter().flatten().last()
}

/// Returns the increase of the counters at `host` that `wanted` selects during `trial`, over all
/// instances but the loopback. `None` if none was read, or they decreased (they were cleared).
#[must_use]
pub fn change_of(
    trial: &TrialRecord,
    host: &str,
    wanted: impl Fn(&SeriesSpec) -> bool,
) -> Option<u64> {
    let (_, block) = trial.samples.iter().find(|(from, _)| from == host)?;
    let wanted = block
        .series
        .iter()
        .zip(&block.columns)
        .filter(|(read, _)| wanted(read) && read.instance != "lo");
    let changes = wanted.filter_map(|(_, column)| {
        let mut read = column.iter().flatten();
        let first = read.next()?;
        Some(column.iter().flatten().last().unwrap_or(first) - first)
    });
    let changes: Vec<f64> = changes.collect();
    let sum: f64 = changes.iter().sum();
    (!changes.is_empty() && sum >= 0.0).then_some(sum as u64)
}

/// Returns the packets that the interfaces of `host` received during `trial`, and those their rings
/// had no room for; `None` if that was not counted.
#[must_use]
pub fn missed(trial: &TrialRecord, host: &str) -> Option<Missed> {
    let rose = |columns: &[Series]| change_of(trial, host, |read| series::any(columns, read));
    Some(Missed {
        missed: rose(&[interface::RX_MISSED, interface::RX_FIFO])?,
        received: rose(&[interface::RX_PACKETS])?,
    })
}

#[cfg(test)]
mod tests {
    use linerate_model::Warmup;

    use super::*;

    #[test]
    fn a_rate_is_that_of_the_intervals_inside_or_else_of_those_mostly_inside() {
        let ms = Nanos::from_millis;
        let phases = Phases {
            warmup: Warmup::Fixed(ms(200)),
            measure: ms(300),
            drain: ms(200),
            rest: ms(0),
            interval: ms(100),
        };
        // Datagrams of 1 kbit, some of them in each interval from one millisecond to another.
        let rate = |intervals: &[(u64, u64, u64)]| {
            let interval = |(start, end, n): &(u64, u64, u64)| {
                let mut interval =
                    Interval { start: ms(*start), end: ms(*end), ..Interval::default() };
                interval.counters[Counter::DatagramsSent] = *n;
                interval
            };
            let intervals = intervals.iter().map(interval).collect();
            let record = JobRecord { intervals, flows: Vec::new() };
            measured_rate(&record, Counter::DatagramsSent, &phases, 1e3).map(|rate| rate.0)
        };
        let on_time = [(100, 200, 9), (200, 300, 1), (300, 400, 1), (400, 510, 9)];
        assert_eq!(rate(&on_time), Some(1e4));
        let late = [(0, 190, 9), (190, 390, 4), (390, 700, 9)];
        assert_eq!(rate(&late), Some(2e4));
        assert_eq!(rate(&[(0, 100, 9), (500, 600, 9)]), None);
    }
}
