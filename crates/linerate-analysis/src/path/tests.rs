//! Facts of simulated paths, one for each kind of bottleneck.

use std::collections::VecDeque;

use linerate_model::{
    BitRate, Bytes, EcnCounts, Nanos, ProbeEnd, ProbeKind, ProbePhase, ProbeRecord, ProbeSeries,
};
use proptest::prelude::*;

use super::{ClockOffset, Limiter, PathFacts, facts};

const HEADER: u64 = 28;
const PAYLOAD: u64 = 1472;
const PACKET: f64 = 1500.0;
/// Distance of the receiver's clock from the sender's.
const AHEAD: u64 = 7_000_000_000_000;

/// Bottleneck in front of a link of 10 Gbit/s.
#[derive(Clone, Copy, Debug)]
enum Element {
    /// Token bucket with a queue: a shaper, or a link if the bucket holds one packet.
    Queue { rate: f64, bucket: f64, limit: f64 },
    /// Token bucket without a queue.
    Policer { rate: f64, bucket: f64 },
    /// Nothing but the link.
    Open,
}

/// Path with a one-way delay of 5 ms.
struct Path {
    element: Element,
    /// Random loss: one of this number of datagrams is lost.
    loses: Option<u64>,
    /// Arrivals are seen at multiples of this, s: interrupt moderation.
    comb: f64,
    tokens: f64,
    at: f64,
    /// Times at which the packets in the queue leave, and their bytes.
    queue: VecDeque<(f64, f64)>,
    free: f64,
    draw: u64,
}

impl Path {
    fn new(element: Element) -> Self {
        let tokens = match element {
            Element::Queue { bucket, .. } | Element::Policer { bucket, .. } => bucket,
            Element::Open => 0.0,
        };
        let (at, free) = (0.0, 0.0);
        Self { element, loses: None, comb: 0.0, tokens, at, queue: VecDeque::new(), free, draw: 1 }
    }

    /// Returns the time of arrival of a packet sent at `now`, s; `None` if it is lost.
    fn carry(&mut self, now: f64, bytes: f64) -> Option<f64> {
        const LINK: f64 = 10e9;
        const DELAY: f64 = 0.005;
        self.draw = self
            .draw
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        if self.loses.is_some_and(|one_in| (self.draw >> 33).is_multiple_of(one_in)) {
            return None;
        }
        let leaves = match self.element {
            Element::Open => now,
            Element::Policer { rate, bucket } => {
                self.tokens = (self.tokens + (now - self.at) * rate / 8.0).min(bucket);
                self.at = now;
                if self.tokens < bytes {
                    return None;
                }
                self.tokens -= bytes;
                now
            }
            Element::Queue { rate, bucket, limit } => {
                while self.queue.front().is_some_and(|(leaves, _)| *leaves <= now) {
                    self.queue.pop_front();
                }
                let queued: f64 = self.queue.iter().map(|(_, bytes)| bytes).sum();
                if queued + bytes > limit {
                    return None;
                }
                // Tokens at the time at which the packet before it has left.
                let start = now.max(self.free);
                let tokens = (self.tokens + (start - self.at) * rate / 8.0).min(bucket);
                let wait = ((bytes - tokens) * 8.0 / rate).max(0.0);
                self.tokens = tokens + wait * rate / 8.0 - bytes;
                self.at = start + wait;
                self.free = self.at;
                self.queue.push_back((self.free, bytes));
                self.free
            }
        };
        let arrives = leaves + bytes * 8.0 / LINK + DELAY;
        Some(if self.comb > 0.0 { (arrives / self.comb).ceil() * self.comb } else { arrives })
    }
}

/// Probe of a path, as the sender's course would run it.
struct Probe {
    path: Path,
    sender: ProbeRecord,
    receiver: ProbeRecord,
    now: f64,
    number: u64,
}

impl Probe {
    fn of(path: Path) -> Self {
        let record = || ProbeRecord {
            header_bytes: HEADER,
            series: ProbeSeries::with_capacity(60_000),
            ..ProbeRecord::default()
        };
        let mut probe = Self { path, sender: record(), receiver: record(), now: 1.0, number: 0 };
        probe.send(ProbeKind::Idle, 50, 64, Some(0.368e6), 1);
        for _ in 0..4 {
            probe.send(ProbeKind::Train, 50, PAYLOAD, None, 16);
            probe.now += 0.2;
        }
        probe
    }

    /// Sends `n` datagrams at `rate`, or back to back at 5 Gbit/s, and asks for every `asks`-th
    /// answer.
    fn send(&mut self, kind: ProbeKind, n: u64, payload: u64, rate: Option<f64>, asks: u64) {
        let bytes = (payload + HEADER) as f64;
        let gap = bytes * 8.0 / rate.unwrap_or(5e9);
        let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
        let (first, from) = (self.number, self.now);
        for k in 0..n {
            let sent = from + k as f64 * gap;
            self.now = sent;
            if let Some(arrived) = self.path.carry(sent, bytes) {
                assert!(self.receiver.series.add(self.number, nanos(sent), nanos(arrived) + AHEAD));
                if k % asks == 0 {
                    self.sender.series.add(self.number, nanos(sent), nanos(arrived + 0.005));
                }
            }
            self.number += 1;
        }
        self.sender.phases.push(ProbePhase {
            kind,
            first,
            n,
            payload: Bytes(payload),
            rate: rate.map(BitRate),
            from: Nanos(nanos(from)),
            until: Nanos(nanos(self.now)),
            ended: ProbeEnd::Complete,
        });
    }

    /// Sends steps of 100 ms at doubling rates up to `most`, then a flood at `flood` for `seconds`.
    fn facts(mut self, most: f64, flood: f64, seconds: f64) -> PathFacts {
        let mut rate = 2e6;
        while rate <= most {
            let n = (rate * 0.1 / 8.0 / PACKET).max(8.0) as u64;
            self.send(ProbeKind::Ramp, n, PAYLOAD, Some(rate), 4);
            self.now += 0.02;
            rate *= 2.0;
        }
        self.now += 1.5;
        let n = (flood * seconds / 8.0 / PACKET) as u64;
        self.send(ProbeKind::Flood, n, PAYLOAD, Some(flood), 20);
        facts(&self.sender, &self.receiver)
    }
}

fn near(found: f64, truth: f64, within: f64) -> bool {
    (found / truth - 1.0).abs() <= within
}

fn queue(rate: f64, bucket: f64, limit: f64) -> Path {
    Path::new(Element::Queue { rate, bucket, limit })
}

#[test]
fn a_slow_link_shows_its_rate_and_its_queue() {
    for rate in [5e6, 20e6, 50e6, 200e6] {
        let limit = 60_000.0;
        let found = Probe::of(queue(rate, PACKET, limit)).facts(rate, 2.0 * rate, 0.6);
        assert_eq!(found.limiter, Some(Limiter::Link), "{rate}: {found:?}");
        let capacity = found.capacity.expect("a flood above it");
        assert!(near(capacity.value.0, rate, 0.003), "{rate}: {capacity:?}");
        assert!(capacity.low <= capacity.value && capacity.value <= capacity.high);
        let bytes = found.queue_bytes.expect("a queue");
        assert!(
            found.is_queue_full && near(bytes.value.0 as f64, limit, 0.05),
            "{rate}: {bytes:?}"
        );
        let delay = found.queue_time.expect("a queue").value.as_secs_f64();
        assert!(near(delay, limit * 8.0 / rate, 0.05), "{rate}: {delay}");
        assert!(found.token_bucket.is_none() && found.bloat().expect("both").0 > 1.1, "{found:?}");
    }
}

#[test]
fn a_flood_at_nearly_the_rate_of_the_path_names_no_limiter() {
    let nearly = |rate| Probe::of(Path::new(Element::Policer { rate, bucket: 30_000.0 }));
    let found = nearly(38.8e6).facts(20e6, 40e6, 0.6);
    assert_eq!(found.limiter, None, "3 % are dropped: {found:?}");
    // The fewer datagrams are dropped, the more of them a window needs to show the rate.
    for rate in [20e6, 30e6, 34e6, 37e6] {
        let found = nearly(rate).facts(20e6, 40e6, 0.6);
        let capacity = found.capacity.expect("drops").value.0;
        assert_eq!(found.limiter, Some(Limiter::Policer), "{rate}");
        assert!(near(capacity, rate, 0.02), "{rate}: {capacity}");
    }
}

#[test]
fn a_queue_that_the_flood_does_not_fill_is_a_lower_bound() {
    let found = Probe::of(queue(5e6, PACKET, 4e6)).facts(5e6, 10e6, 1.0);
    assert_eq!((found.limiter, found.is_queue_full), (Some(Limiter::Link), false));
    assert!(near(found.capacity.expect("one").value.0, 5e6, 0.01), "{found:?}");
    let bytes = found.queue_bytes.expect("one").value.0;
    assert!((400_000..700_000).contains(&bytes), "{bytes}");
}

#[test]
fn a_shaper_shows_rate_bucket_and_queue() {
    for (rate, bucket) in [(5e6, 60_000.0), (20e6, 200_000.0), (50e6, 40_000.0)] {
        let limit = 90_000.0;
        let found = Probe::of(queue(rate, bucket, limit)).facts(2.0 * rate, 2.0 * rate, 1.2);
        assert_eq!(found.limiter, Some(Limiter::Shaper), "{rate}: {found:?}");
        let tokens = found.token_bucket.expect("a bucket");
        assert!(near(tokens.rate.value.0, rate, 0.01), "{tokens:?}");
        assert!(near(tokens.bucket.value.0 as f64, bucket, 0.1), "{tokens:?}");
        assert!(near(found.queue_bytes.expect("one").value.0 as f64, limit, 0.05), "{found:?}");
    }
}

#[test]
fn a_policer_shows_rate_and_bucket_and_no_queue() {
    for (rate, bucket) in [(5e6, 64_000.0), (20e6, 100_000.0), (50e6, 250_000.0)] {
        let path = Path::new(Element::Policer { rate, bucket });
        let found = Probe::of(path).facts(2.0 * rate, 2.0 * rate, 1.2);
        assert_eq!(found.limiter, Some(Limiter::Policer), "{rate}: {found:?}");
        let tokens = found.token_bucket.expect("a bucket");
        assert!(near(tokens.rate.value.0, rate, 0.03), "{tokens:?}");
        assert!(near(tokens.bucket.value.0 as f64, bucket, 0.1), "{tokens:?}");
        assert!(found.burst_rate.expect("trains").value.0 > 1.2 * rate);
    }
}

#[test]
fn random_loss_is_no_limit() {
    let path = Path { loses: Some(20), ..Path::new(Element::Open) };
    let found = Probe::of(path).facts(100e6, 100e6, 0.4);
    assert_eq!((found.limiter, found.capacity), (None, None), "{found:?}");
    let loss = found.idle_loss.expect("datagrams were sent");
    assert!(loss.low.0 <= 0.05 && 0.05 <= loss.high.0, "{loss:?}");
    assert!(near(found.carried.expect("some rate").0, 95e6, 0.02), "{found:?}");
}

/// Probe of a path with a link of `rate` and a buffer of `limit` bytes, with a ramp of two steps
/// and a flood, of `n` datagrams each and into an empty buffer.
fn of_slow_link(rate: f64, limit: f64, n: [u64; 3]) -> PathFacts {
    let mut probe = Probe::of(queue(rate, PACKET, limit));
    let steps = [(ProbeKind::Ramp, 2e6), (ProbeKind::Ramp, 4e6), (ProbeKind::Flood, 0.5e6)];
    for ((kind, offered), n) in steps.into_iter().zip(n) {
        probe.now += 10.0;
        probe.send(kind, n, PAYLOAD, Some(offered), 4);
    }
    facts(&probe.sender, &probe.receiver)
}

#[test]
fn a_buffer_that_takes_whole_steps_does_not_raise_the_rate_carried() {
    // All datagrams fit into the buffer. Too few of them wait long enough to show a limit.
    for rate in [0.1e6, 0.3e6] {
        let found = of_slow_link(rate, 31_000.0, [4, 5, 1]);
        assert_eq!(found.limiter, None, "{found:?}");
        assert!(near(found.carried.expect("steps").0, rate, 0.02), "{rate}: {found:?}");
    }
}

#[test]
fn a_link_too_slow_for_a_flood_is_a_link() {
    for (rate, limit) in [(0.1e6, 9_000.0), (0.1e6, 31_000.0), (0.15e6, 15_000.0)] {
        let found = of_slow_link(rate, limit, [16, 18, 60]);
        assert_eq!(found.limiter, Some(Limiter::Link), "{rate}: {found:?}");
        assert!(near(found.capacity.expect("a link").value.0, rate, 0.02), "{rate}: {found:?}");
        let bytes = found.queue_bytes.expect("a queue").value.0 as f64;
        assert!((bytes - limit).abs() < 2.0 * PACKET && found.is_queue_full, "{limit}: {found:?}");
    }
}

#[test]
fn a_step_of_which_most_is_dropped_does_not_raise_the_rate_carried() {
    // Six datagrams fit into the buffer, and the first ones arrive at the rate offered.
    let mut probe = Probe::of(Path::new(Element::Policer { rate: 0.1e6, bucket: 6.0 * PACKET }));
    probe.now += 10.0;
    probe.send(ProbeKind::Ramp, 17, PAYLOAD, Some(2e6), 4);
    let found = facts(&probe.sender, &probe.receiver);
    assert!(found.carried.expect("six arrived").0 < 0.7e6, "{found:?}");
}

#[test]
fn random_loss_and_delays_of_a_busy_host_are_no_shaper_where_the_sender_is_slow() {
    let mut probe = Probe::of(Path { loses: Some(20), ..Path::new(Element::Open) });
    for (kind, n, rate) in [(ProbeKind::Ramp, 800, 48e6), (ProbeKind::Flood, 9_000, 120e6)] {
        probe.now += 1.0;
        probe.send(kind, n, PAYLOAD, Some(rate), 20);
    }
    let flood = probe.sender.phases.last_mut().expect("the flood");
    flood.rate = Some(BitRate(200e6));
    let rows = &mut probe.receiver.series;
    let late = rows.number.iter().zip(&mut rows.received_ns);
    late.filter(|(number, _)| **number >= flood.first).for_each(|(_, at)| *at += 700_000);
    let found = facts(&probe.sender, &probe.receiver);
    assert_eq!((found.limiter, found.token_bucket), (None, None), "{found:?}");
    assert!(near(found.carried.expect("the flood").0, 114e6, 0.02), "{found:?}");
}

#[test]
fn loss_at_any_rate_is_no_token_rate_though_the_flood_lost_more() {
    let found = |one_in| {
        let mut probe = Probe::of(Path { loses: Some(90), ..Path::new(Element::Open) });
        probe.now += 1.0;
        probe.send(ProbeKind::Ramp, 4_000, PAYLOAD, Some(24e6), 20);
        probe.path.loses = Some(one_in);
        probe.now += 1.0;
        probe.send(ProbeKind::Flood, 9_000, PAYLOAD, Some(120e6), 20);
        probe.sender.phases.last_mut().expect("the flood").rate = Some(BitRate(200e6));
        facts(&probe.sender, &probe.receiver)
    };
    let lossy = found(30);
    assert_eq!(
        (lossy.limiter, lossy.token_bucket, lossy.capacity),
        (None, None, None),
        "{lossy:?}"
    );
    assert!(near(lossy.carried.expect("the flood").0, 116e6, 0.02), "{lossy:?}");
    let policed = found(3);
    assert_eq!(policed.limiter, Some(Limiter::Policer), "it also loses at random: {policed:?}");
}

#[test]
fn a_rate_of_which_the_ends_are_far_apart_limits_nothing() {
    let found = |faster: f64| {
        let mut probe = Probe::of(queue(20e6, PACKET, 60_000.0));
        for (kind, n, rate) in [(ProbeKind::Ramp, 500, 10e6), (ProbeKind::Flood, 2_000, 40e6)] {
            probe.now += 1.0;
            probe.send(kind, n, PAYLOAD, Some(rate), 20);
        }
        // The first half of the flood arrives at a higher rate, and waits longer.
        let first = probe.sender.phases.last().expect("the flood").first;
        let rows = &mut probe.receiver.series;
        let begun = rows.number.iter().position(|number| *number >= first).expect("arrivals");
        let middle = usize::midpoint(begun, rows.number.len());
        let ends = rows.received_ns[middle];
        let early = rows.received_ns[begun..middle].iter_mut();
        early.for_each(|at| *at = ends - ((ends - *at) as f64 / faster) as u64);
        facts(&probe.sender, &probe.receiver)
    };
    let known = found(1.2);
    assert!(known.limiter.is_some() && known.is_queue_full, "{known:?}");
    let rough = found(1.7);
    assert_eq!((rough.limiter, rough.queue_bytes), (None, None), "{rough:?}");
    assert!(rough.carried.is_some(), "{rough:?}");
}

#[test]
fn steps_that_overflow_a_buffer_are_no_loss_below_the_capacity() {
    let mut probe = Probe::of(queue(97e6, PACKET, 5.0 * PACKET));
    for (kind, n, rate) in [
        (ProbeKind::Ramp, 500, 50e6),
        (ProbeKind::Ramp, 1_000, 100e6),
        (ProbeKind::Flood, 9_000, 100e6),
    ] {
        probe.now += 1.0;
        probe.send(kind, n, PAYLOAD, Some(rate), 20);
    }
    let found = facts(&probe.sender, &probe.receiver);
    assert_eq!(found.limiter, None, "3 % above the capacity: {found:?}");
    let loss = found.idle_loss.expect("pings and a step");
    assert_eq!((loss.value.0, loss.n), (0.0, 550), "{found:?}");
}

#[test]
fn interrupt_moderation_widens_nothing_but_the_resolution() {
    for comb in [0.000_1, 0.001] {
        let path = Path { comb, ..queue(20e6, PACKET, 60_000.0) };
        let found = Probe::of(path).facts(20e6, 40e6, 0.6);
        assert_eq!(found.limiter, Some(Limiter::Link), "{comb}: {found:?}");
        assert!(near(found.capacity.expect("one").value.0, 20e6, 0.03), "{comb}: {found:?}");
    }
}

#[test]
fn a_link_above_the_limit_of_the_probe_is_seen_by_trains_only() {
    let found = Probe::of(queue(1e9, PACKET, 100_000.0)).facts(128e6, 200e6, 0.3);
    assert_eq!(found.limiter, None);
    let capacity = found.capacity.expect("trains are spread");
    assert!(near(capacity.value.0, 1e9, 0.03), "{capacity:?}");
    assert!(near(found.carried.expect("the flood").0, 200e6, 0.02), "{found:?}");
}

#[test]
fn trains_are_read_behind_a_small_token_bucket() {
    let found = Probe::of(queue(200e6, 15_000.0, 300_000.0)).facts(64e6, 100e6, 0.2);
    let capacity = found.capacity.expect("trains are spread");
    assert!(near(capacity.value.0, 200e6, 0.03), "{capacity:?}");
}

#[test]
fn an_open_path_has_no_capacity_and_a_slow_sender_is_named() {
    let found = Probe::of(Path::new(Element::Open)).facts(128e6, 200e6, 0.2);
    assert_eq!((found.limiter, found.capacity, found.sender_limit), (None, None, None));
    let mut probe = Probe::of(Path::new(Element::Open));
    probe.send(ProbeKind::Flood, 1_000, PAYLOAD, Some(50e6), 20);
    let wanted = Some(BitRate(200e6));
    probe.sender.phases.last_mut().expect("the flood").rate = wanted;
    let found = facts(&probe.sender, &probe.receiver);
    assert!(near(found.sender_limit.expect("below its rate").0, 50e6, 0.02), "{found:?}");
}

#[test]
fn order_duplicates_and_sizes_are_facts() {
    let mut probe = Probe::of(Path::new(Element::Open));
    probe.sender.largest = Some(Bytes(1_372));
    probe.sender.routed = Some(Bytes(1_472));
    let rows = &mut probe.receiver.series;
    rows.received_ns.swap(3, 4);
    rows.number.swap(3, 4);
    let (number, sent, received) = rows.rows().last().expect("many");
    // Two duplicates beside one datagram out of order: neither count stands for the other.
    assert!([10, 20].into_iter().all(|later| rows.add(number, sent, received + later)));
    let found = facts(&probe.sender, &probe.receiver);
    let n = probe.receiver.series.number.len() as f64;
    assert_eq!(found.duplicated.expect("some").value.0, 2.0 / n);
    assert_eq!(found.reordered.expect("some").value.0, 1.0 / n);
    assert_eq!(found.mtu.expect("found").value, Bytes(1_400));
    assert!(found.has_smaller_mtu());
    assert_eq!(found.base_rtt.expect("pings").value.0 / 1_000_000, 10);
}

#[test]
fn the_clocks_differ_by_what_the_shortest_round_trip_shows_whatever_the_directions_take() {
    // The answer takes 5 ms, and the datagram 5 ms and its time on the links.
    let clock = |path| Probe::of(Path::new(path)).facts(2e6, 4e6, 0.2).clock.expect("answers");
    for element in [Element::Open, Element::Queue { rate: 1e6, bucket: PACKET, limit: 60_000.0 }] {
        let found = clock(element);
        let error = found.ahead_ns.abs_diff(AHEAD as i64);
        assert!(error <= found.within.0 && error < 1_000_000, "{found:?}");
        assert!((5_000_000..5_500_000).contains(&found.within.0) && found.n >= 50, "{found:?}");
    }
}

#[test]
fn a_late_copy_of_a_datagram_does_not_move_the_clock() {
    let mut probe = Probe::of(Path::new(Element::Open));
    let before = facts(&probe.sender, &probe.receiver).clock.expect("answers");
    let copies: Vec<_> = probe.receiver.series.rows().collect();
    for (number, sent, received) in copies {
        assert!(probe.receiver.series.add(number, sent, received + 20_000_000));
    }
    assert_eq!(facts(&probe.sender, &probe.receiver).clock, Some(before));
}

#[test]
fn fields_of_ecn_are_counted_only_where_they_were_sent() {
    let mut probe = Probe::of(Path::new(Element::Open));
    let found = facts(&probe.sender, &probe.receiver);
    assert_eq!((found.ecn_cleared, found.ecn_marked), (None, None));
    probe.receiver.ecn = EcnCounts { kept: 15, marked: 30, cleared: 5 };
    let found = facts(&probe.sender, &probe.receiver);
    assert_eq!(found.ecn_cleared.map(|share| (share.value.0, share.n)), Some((0.1, 50)));
    assert_eq!(found.ecn_marked.map(|share| share.value.0), Some(0.6));
}

/// The texts have the fields of linerate before the ECN field was recorded.
#[test]
fn an_older_record_opens_and_has_all_facts_but_ecn() {
    let sender = r#"{"phases":[{"kind":"idle","first":0,"n":2,"payload":"64 B","from":"1000 ns",
        "until":"4001000 ns","ended":"complete"}],"series":{"number":[0,1],"sent_ns":[1000,4000000],
        "received_ns":[31000,3990000]},"routed":"1472 B","header_bytes":28}"#;
    let receiver = r#"{"series":{"number":[0,1],"sent_ns":[1000,4000000],
        "received_ns":[516000,3995000]},"header_bytes":28}"#;
    let record = |text| serde_json::from_str::<ProbeRecord>(text).expect("an older record");
    let found = facts(&record(sender), &record(receiver));
    assert_eq!((found.ecn_cleared, found.ecn_marked), (None, None));
    let clock = ClockOffset { ahead_ns: 500_000, within: Nanos(10_000), n: 2 };
    assert_eq!(found.clock, Some(clock));
    let text = serde_json::to_value(record(receiver)).expect("numbers");
    assert!(text.get("ecn").is_none(), "{text}");
    // Facts that a diagnosis recorded.
    let older = r#"{"from":"a","to":"b","capacity":null,"receiver_drops":3}"#;
    let older: PathFacts = serde_json::from_str(older).expect("older facts");
    assert_eq!((older.clock, older.ecn_cleared, older.receiver_drops), (None, None, 3));
}

#[test]
fn empty_and_hostile_records_have_no_facts_and_do_not_panic() {
    let none = ProbeRecord::default();
    assert_eq!(facts(&none, &none), PathFacts::default());
    let mut wild = ProbeRecord { header_bytes: u64::MAX, ..ProbeRecord::default() };
    wild.series.number = vec![u64::MAX, 0, 5];
    wild.series.sent_ns = vec![0, u64::MAX, 1];
    wild.series.received_ns = vec![u64::MAX, 0];
    wild.phases = vec![
        ProbePhase {
            kind: ProbeKind::Flood,
            first: u64::MAX,
            n: u64::MAX,
            payload: Bytes(u64::MAX),
            rate: Some(BitRate(f64::NAN)),
            from: Nanos(u64::MAX),
            until: Nanos(0),
            ended: ProbeEnd::Complete,
        };
        2
    ];
    wild.largest = Some(Bytes(u64::MAX));
    let _ = facts(&wild, &wild);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_link_of_any_rate_and_queue_is_found(
        rate in 4e6_f64..100e6, packets in 8_u32..60, factor in 1.6_f64..3.0,
    ) {
        let limit = f64::from(packets) * PACKET;
        let found = Probe::of(queue(rate, PACKET, limit)).facts(rate, factor * rate, 0.8);
        prop_assert_eq!(found.limiter, Some(Limiter::Link));
        prop_assert!(near(found.capacity.expect("one").value.0, rate, 0.01), "{:?}", found);
        let bytes = found.queue_bytes.expect("one").value.0 as f64;
        // A datagram that is just leaving counts or does not: one packet.
        prop_assert!((bytes - limit).abs() <= 0.1 * limit + PACKET, "{:?}", found);
    }
}
