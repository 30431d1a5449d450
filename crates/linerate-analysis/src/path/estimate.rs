//! Facts of one direction from the records of a probe.

use std::collections::HashMap;

use linerate_model::path::{
    ClockOffset, Fact, Limiter, LocalQueue, Method, PathFacts, TokenBucket,
};
use linerate_model::{
    BitRate, Bytes, Campaign, Counter, Endpoint, JobRecord, JobSpec, Nanos, ProbeKind, ProbeRecord,
    Ratio,
};

use super::datagrams::{Datagram, Datagrams, Phase};
use super::flood::{self, Overload};
use crate::statistics::{MeanInterval, estimate, median, quantile};
use crate::study::ceilings::queues;

/// Name of the workload that records a probe.
const PATH_PROBE: &str = "path_probe";
/// Fewest datagrams of a train that have a rate.
const FEWEST_OF_TRAIN: usize = 10;
/// Rate of trains in rates of the flood above which a bucket let them pass.
const BURSTY: f64 = 1.5;
/// Packets that pass at once through a bucket that is worth the name.
const BUCKET_PACKETS: f64 = 6.0;
/// Rate of a train's arrival in rates of its sending below which the path spread it.
const SPREAD: f64 = 0.8;
/// Part of a wanted rate below which the sender did not reach it.
const REACHED: f64 = 0.8;
/// Share of lost datagrams that is no accident of a probe of some thousand datagrams.
pub(crate) const REAL_LOSS: f64 = 5e-4;
/// Part of the rate of a path below which no buffer of it overflows.
const BELOW: f64 = 0.9;
/// Ratio of the loss of a flood to that below the rate of the path from which the rate is the
/// cause. A flood of a token rate at twice that rate loses half.
const MORE: f64 = 3.0;

/// Returns true if `job` probes the path.
pub(crate) fn is_probe(job: &JobSpec) -> bool {
    job.workload == PATH_PROBE
}

/// Returns the facts of every direction that `campaign` probed, or that an earlier probe gave to
/// it. Of several probes of a direction the last one counts.
#[must_use]
pub fn recorded(campaign: &Campaign) -> Vec<PathFacts> {
    let mut all = campaign.header.path.clone();
    for trial in &campaign.trials {
        let jobs = trial.spec.jobs.iter().zip(&trial.jobs);
        for (spec, (active, passive)) in jobs.filter(|(spec, _)| is_probe(spec)) {
            let active_sends = record(active).is_some_and(|one| !one.phases.is_empty());
            let (ends, names) = match active_sends {
                true => ((active, passive), (&spec.from.name, &spec.to.name)),
                false => ((passive, active), (&spec.to.name, &spec.from.name)),
            };
            let (Some(sender), Some(receiver)) = (record(ends.0), record(ends.1)) else { continue };
            let drops = ends.1.flows.iter().map(|flow| flow.counters[Counter::SocketDrops]);
            let facts = PathFacts {
                from: names.0.clone(),
                to: names.1.clone(),
                receiver_drops: drops.sum(),
                local: local_queues(campaign, if active_sends { &spec.from } else { &spec.to }),
                ..facts(sender, receiver)
            };
            all.retain(|known| (&known.from, &known.to) != names);
            all.push(facts);
        }
    }
    all
}

/// Returns the disciplines that limit what the interface of `sender` sends, from the facts of its
/// host.
fn local_queues(campaign: &Campaign, sender: &Endpoint) -> Vec<LocalQueue> {
    let host = campaign.hosts.iter().find(|host| host.host == sender.host);
    let (Some(host), Some(device)) = (host, &sender.device) else { return Vec::new() };
    let qdiscs = host.facts["interfaces"][device.as_str()]["qdiscs"].as_array();
    let shapers = queues::chain(qdiscs.map_or(&[][..], Vec::as_slice));
    let local = shapers.into_iter().map(|shaper| LocalQueue {
        device: device.clone(),
        discipline: shaper.kind.to_owned(),
        rate: BitRate(shaper.room(1)),
    });
    local.collect()
}

fn record(end: &JobRecord) -> Option<&ProbeRecord> {
    end.flows.iter().find_map(|flow| flow.probe.as_deref())
}

/// Returns the facts that the records of the two ends show.
#[must_use]
pub fn facts(sender: &ProbeRecord, receiver: &ProbeRecord) -> PathFacts {
    let all = Datagrams::of(sender, receiver);
    let mut facts = PathFacts {
        mtu: sender.largest.map(|size| {
            Fact::exact(Bytes(size.0.saturating_add(sender.header_bytes)), Method::Sizes)
        }),
        routed_mtu: sender.routed.map(|size| Bytes(size.0.saturating_add(sender.header_bytes))),
        reordered: share(all.reordered, all.received, Method::Ramp),
        duplicated: share(all.duplicated, all.received, Method::Ramp),
        burst_rate: burst_rate(&all),
        ..PathFacts::default()
    };
    round_trips(sender, &mut facts);
    let total = receiver.ecn.total() as usize;
    facts.ecn_marked = share(receiver.ecn.marked as usize, total, Method::Pings);
    facts.ecn_cleared = share(receiver.ecn.cleared as usize, total, Method::Pings);
    facts.clock = clock(sender, receiver);
    let flood = all.of_kind(ProbeKind::Flood).next();
    let found = flood.and_then(|flood| {
        let slow = || flood::overload_of_slow(all.of_kind(ProbeKind::Ramp), flood);
        // A flood has twice the rate that arrived before it, so these steps are far below the
        // capacity.
        let idle = idle_loss(&all, flood.wanted.unwrap_or_default() / 4.0);
        let idle = idle.map_or(0.0, |loss| loss.value.0);
        Some((flood, flood::overload(flood, idle).or_else(slow)?))
    });
    let found = found.filter(|(_, overload)| overload.is_rate_known());
    let found = found.map(|(flood, overload)| {
        let bucket = token_bucket(&all, flood, &overload, facts.burst_rate);
        (flood, overload, bucket)
    });
    let is_limit = |(flood, overload, bucket): &(&Phase, Overload, Option<TokenBucket>)| {
        bucket.is_none() || drops_more(&all, flood, &overload.rate)
    };
    match found.filter(is_limit) {
        Some((flood, overload, bucket)) => {
            facts.token_bucket = bucket;
            overloaded(flood, &overload, &mut facts);
        }
        None => carried(&all, flood, &mut facts),
    }
    facts.idle_loss = match facts.carried {
        Some(carried) => consistent_loss(&all, BELOW * carried.0),
        None => idle_loss(&all, BELOW * facts.capacity.map_or(f64::INFINITY, |fact| fact.low.0)),
    };
    facts
}

/// Returns the rate of `overload` as a fact.
fn capacity(overload: &Overload) -> Fact<BitRate> {
    overload.rate.fact(overload.n_blocks, |bits| BitRate(bits.max(0.0)))
}

/// Returns the share of `flood` that was lost.
fn loss_of(flood: &Phase) -> Option<Fact<Ratio>> {
    let sent = flood.n as usize;
    share(sent.saturating_sub(flood.arrived.len()), sent, Method::Flood)
}

/// Returns true if `flood` lost clearly more than what was sent below `rate`: a path that loses at
/// random does so at any rate, and has no token rate.
fn drops_more(all: &Datagrams, flood: &Phase, rate: &MeanInterval) -> bool {
    let idle = idle_loss(all, BELOW * rate.low).filter(|idle| idle.low.0 > REAL_LOSS);
    loss_of(flood).zip(idle).is_none_or(|(lost, idle)| lost.low.0 > MORE * idle.high.0)
}

/// Fills in the facts of a flood that exceeded the path.
fn overloaded(flood: &Phase, overload: &Overload, facts: &mut PathFacts) {
    let Overload { rate, queue_s, n_blocks, .. } = *overload;
    facts.capacity = Some(capacity(overload));
    facts.flood_loss = loss_of(flood);
    facts.is_queue_full = overload.is_full;
    let time = |seconds: f64| Nanos::from_secs_f64(seconds.max(0.0));

    facts.queue_time = Some(queue_s.fact(n_blocks, time));
    // A datagram finds the bytes before it, and adds its own.
    let depth =
        |seconds: f64| Bytes((seconds.max(0.0) * rate.value / 8.0 + flood.bytes).round() as u64);
    facts.queue_bytes = Some(queue_s.fact(n_blocks, depth));
    facts.limiter = Some(match (facts.token_bucket, overload.is_delayed) {
        (Some(_), false) => Limiter::Policer,
        (Some(_), true) => Limiter::Shaper,
        (None, _) => Limiter::Link,
    });
}

/// Returns the bucket that let datagrams pass faster than the rate of `overload`, if there is one.
fn token_bucket(
    all: &Datagrams,
    flood: &Phase,
    overload: &Overload,
    burst: Option<Fact<BitRate>>,
) -> Option<TokenBucket> {
    let rate = overload.rate;
    let arrivals = in_order(all);
    let bucket = |rate: f64| Bytes(flood::envelope(arrivals.iter().copied(), rate).round() as u64);
    let bytes = bucket(rate.value);
    let noise = (2.0 * rate.value / 8.0 * overload.longest_gap_s).max(BUCKET_PACKETS * flood.bytes);
    let is_bursty = burst.is_some_and(|burst| burst.value.0 > BURSTY * rate.value);
    (is_bursty || bytes.0 as f64 > noise).then(|| {
        let bucket = Fact {
            value: bytes,
            low: bucket(rate.high).min(bytes),
            high: bucket(rate.low).max(bytes),
            n: arrivals.len(),
            method: Method::Envelope,
        };
        TokenBucket { rate: capacity(overload), bucket }
    })
}

/// Fills in the facts of a probe whose rates the path carried.
fn carried(all: &Datagrams, flood: Option<&Phase>, facts: &mut PathFacts) {
    let steps = all.of_kind(ProbeKind::Ramp).chain(flood);
    facts.carried = steps.filter_map(Phase::delivered).reduce(f64::max).map(BitRate);
    if let Some(flood) = flood {
        let wanted = flood.wanted.unwrap_or(0.0);
        facts.sender_limit = (flood.offered < REACHED * wanted).then_some(BitRate(flood.offered));
    }
    // A train that arrived slower than it was sent was spread by the narrowest link.
    let sent: Vec<f64> = all.of_kind(ProbeKind::Train).map(|train| train.offered).collect();
    let sent = median(&sent).unwrap_or(0.0);
    facts.capacity = facts.burst_rate.filter(|burst| burst.value.0 < SPREAD * sent);
}

/// Returns the first arrivals of all phases, in their order.
fn in_order(all: &Datagrams) -> Vec<&Datagram> {
    let mut arrivals: Vec<&Datagram> = all.phases.iter().flat_map(|phase| &phase.arrived).collect();
    arrivals.sort_by(|a, b| a.received.total_cmp(&b.received));
    arrivals
}

/// Returns the rate at which trains arrive.
fn burst_rate(all: &Datagrams) -> Option<Fact<BitRate>> {
    let trains = all.of_kind(ProbeKind::Train);
    let rates: Vec<f64> = trains.filter_map(|train| train.dispersion(FEWEST_OF_TRAIN)).collect();
    let found = estimate(&rates)?;
    Some(Fact {
        value: BitRate(found.value),
        low: BitRate(found.low.unwrap_or(found.value)),
        high: BitRate(found.high.unwrap_or(found.value)),
        n: rates.len(),
        method: Method::Trains,
    })
}

/// Returns the loss of pings and all steps; only that of steps below `limit`, bit/s, if the others
/// lost more: they filled a buffer.
fn consistent_loss(all: &Datagrams, limit: f64) -> Option<Fact<Ratio>> {
    let (below, whole) = (idle_loss(all, limit)?, idle_loss(all, f64::INFINITY)?);
    Some(if whole.value <= below.high { whole } else { below })
}

/// Returns the loss of pings and of steps below `limit`, bit/s.
fn idle_loss(all: &Datagrams, limit: f64) -> Option<Fact<Ratio>> {
    let pings = all.of_kind(ProbeKind::Idle);
    let steps = all.of_kind(ProbeKind::Ramp).filter(|step| step.offered < limit);
    let (mut sent, mut arrived) = (0, 0);
    for phase in pings.chain(steps) {
        sent += phase.n as usize;
        arrived += phase.arrived.len();
    }
    share(sent.saturating_sub(arrived), sent, Method::Ramp)
}

/// Returns `part` of `whole` with Wilson's interval at 95 % (Wilson 1927); `None` of nothing.
fn share(part: usize, whole: usize, method: Method) -> Option<Fact<Ratio>> {
    /// Two-sided quantile of the normal distribution.
    const Z: f64 = 1.96;
    if whole == 0 {
        return None;
    }
    let (n, p) = (whole as f64, part as f64 / whole as f64);
    let middle = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    Some(Fact {
        value: Ratio(p),
        // Rounding may move an end of the interval across a share of 0 or 1.
        low: Ratio((middle - half).clamp(0.0, p)),
        high: Ratio((middle + half).clamp(p, 1.0)),
        n: whole,
        method,
    })
}

/// Fills in the round-trip times with and without load.
fn round_trips(sender: &ProbeRecord, facts: &mut PathFacts) {
    let idle = times_of(sender, ProbeKind::Idle);
    let shortest = idle.iter().copied().reduce(f64::min);
    if let (Some(shortest), Some(tenth), Some(most)) =
        (shortest, quantile(&idle, 0.1), quantile(&idle, 0.95))
    {
        // The shortest of n cannot be too short; a tenth of all being shorter is its upper end.
        facts.base_rtt = Some(nanos([shortest, shortest, tenth], idle.len(), Method::Pings));
        let jitter = most - shortest;
        facts.jitter = Some(nanos([jitter; 3], idle.len(), Method::Pings));
    }
    let loaded = times_of(sender, ProbeKind::Flood);
    let half = &loaded[loaded.len() / 2..];
    if let Some(found) = estimate(half) {
        let (low, high) = (found.low.unwrap_or(found.value), found.high.unwrap_or(found.value));
        facts.loaded_rtt = Some(nanos([found.value, low, high], half.len(), Method::Flood));
    }
}

/// Returns how far the receiver's clock is ahead. In the shortest round trip the datagram arrived
/// somewhere between sending and answer; the middle is wrong by half of that time at most.
fn clock(sender: &ProbeRecord, receiver: &ProbeRecord) -> Option<ClockOffset> {
    // The first copy of a duplicated datagram: a later one may arrive after the first's answer.
    let mut arrivals = HashMap::new();
    for (number, _, received) in receiver.series.rows() {
        let first = arrivals.entry(number).or_insert(received);
        *first = received.min(*first);
    }
    let answered = || sender.series.rows().filter(|(number, ..)| arrivals.contains_key(number));
    let n = answered().count();
    let (number, sent, answer) =
        answered().min_by_key(|(_, sent, answer)| answer.abs_diff(*sent))?;
    let middle = i128::from(sent) + (i128::from(answer) - i128::from(sent)) / 2;
    let ahead = i128::from(*arrivals.get(&number)?) - middle;
    let within = Nanos(answer.abs_diff(sent).div_ceil(2));
    Some(ClockOffset { ahead_ns: i64::try_from(ahead).ok()?, within, n })
}

/// Returns the round-trip times of the datagrams of `kind` that were answered, ns.
fn times_of(sender: &ProbeRecord, kind: ProbeKind) -> Vec<f64> {
    let phases = sender.phases.iter().filter(|phase| phase.kind == kind);
    let numbers: Vec<_> =
        phases.map(|phase| phase.first..phase.first.saturating_add(phase.n)).collect();
    let rows = sender.series.rows();
    rows.filter(|(number, ..)| numbers.iter().any(|one| one.contains(number)))
        .map(|(_, sent, received)| received.saturating_sub(sent) as f64)
        .collect()
}

/// Returns a time with its interval, each in ns.
fn nanos(value_low_high: [f64; 3], n: usize, method: Method) -> Fact<Nanos> {
    let [value, low, high] = value_low_high.map(|ns| Nanos(ns.round() as u64));
    Fact { value, low, high, n, method }
}

impl MeanInterval {
    /// Returns the interval as a fact of a flood, from `n` blocks, in the unit that `unit` makes.
    fn fact<T>(self, n: usize, unit: impl Fn(f64) -> T) -> Fact<T> {
        let [value, low, high] = [self.value, self.low, self.high].map(unit);
        Fact { value, low, high, n, method: Method::Flood }
    }
}
