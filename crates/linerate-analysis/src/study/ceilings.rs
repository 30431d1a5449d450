//! Ceilings of a point: limits of its path, from declared capacities and from facts.
//!
//! Hard bounds, which the gate applies:
//!
//! - Each declared capacity and each physical device's speed, as goodput of the TCP or UDP packets
//!   that cross it, per job and direction; for UDP of one datagram size also as packet rate. Of a
//!   group of equal links, as many count as there are flows, because a flow never leaves its link.
//! - For the sum of both directions, and for all measured jobs together, the bound of the tree that
//!   the shared capacities form ([`crate::limits::tree`]): a capacity two flows share bounds their
//!   sum. Beside it, the bounds of the ports and of the bus behind them by themselves; for
//!   datagrams of one size also as packet rate.
//! - A physical receiving device's speed, as frame bits (`interfaces`).
//! - Each queueing discipline that shapes everything a device on the way out sends (`queues`),
//!   below VLANs, tunnels and the ports of bridges too, with the headers that these add (`ends`).
//! - Of several next hops, as many as there are flows (`ends`).
//! - Each PCI Express link on the way to a physical device (`buses`).
//!
//! Expected bound (shown, never a gate, because the largest window and the smallest round trip are
//! only sampled): the peer's window over the smallest round-trip time.
//!
//! Header sizes: timestamps count only if both hosts' facts show them, and the version is IPv4
//! unless an address shows otherwise. An unknown therefore raises the bound and never lowers it.
//! Not covered: conventional PCI, whose clock sysfs does not show (declare it as a capacity), CPUs,
//! memory.

mod buses;
mod ends;
mod interfaces;

pub use interfaces::{NoRate, Rateless, Unbounded, interface_speed};
pub(crate) mod queues;

use std::collections::BTreeSet;

use linerate_model::derivation::{Expression, Line, Measure, Remark, Statement};
use linerate_model::{
    BitRate, BoundClass, BoundPart, Bytes, Campaign, Ceiling, CeilingScope, CeilingSubject,
    Direction, Metric, PacketRate, TestbedKind, metric,
};
use serde_json::Value;

use super::flow::{Flow, Path};
use super::samples::Hosts;
use super::span::Span;
use super::traffic::Job;
use crate::limits::headers::{self, IpVersion, Timestamps};
use crate::limits::tree::{self, Shared};
use crate::limits::{ethernet, tcp, udp};

/// Bits in a byte.
const BITS: f64 = 8.0;
/// Source of a bound of several flows.
const TREE_SOURCE: &str = "the shared capacities' own sources; maximum flow of a tree";
/// Source of a bound that a window sets.
const WINDOW_SOURCE: &str = "TCP_INFO of the sender: tcpi_snd_wnd and tcpi_min_rtt; RFC 9293 3.8.6";

/// The jobs that a bound applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// One job of the plan.
    Job(usize),
    /// All measured jobs together.
    All,
}

/// A ceiling, and the burst that may exceed it.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) ceiling: Ceiling,
    /// Bytes that pass in addition to the rate: the bucket of a shaper.
    pub(super) burst: f64,
}

impl Bound {
    /// Returns whether the bound applies to `scope`.
    pub(super) fn holds_for(&self, scope: Scope) -> bool {
        match (&self.ceiling.scope, scope) {
            (CeilingScope::Job { job, .. }, Scope::Job(number)) => *job as usize == number,
            (CeilingScope::AllJobs, Scope::All) => true,
            _ => false,
        }
    }

    /// Returns whether the bound limits `metric` in `direction` for certain, in `scope`.
    pub(super) fn limits(
        &self,
        metric: &'static Metric,
        direction: Direction,
        scope: Scope,
    ) -> bool {
        self.ceiling.is_hard()
            && self.holds_for(scope)
            && self.ceiling.metric == metric
            && self.ceiling.direction == direction
    }
}

/// A directed flow of data: a job's number and its direction.
type FlowId = (usize, Direction);

/// An element of known rate that flows cross.
struct Element {
    part: BoundPart,
    rate: BitRate,
    frame_overhead: Bytes,
    mtu: Bytes,
    crossed_by: BTreeSet<FlowId>,
    /// True for an interface that counts received frames.
    receives: bool,
    /// Bytes that pass in addition to the rate.
    burst: f64,
    source: String,
}

/// Returns the citation of facts of `host`, beside the standard or kind that explains them.
fn fact_source(host: &str, facts: &str, explained_by: &str) -> String {
    format!("facts of {host}: {facts}; {explained_by}")
}

/// A measured flow and the sizes of its packets.
struct Carried<'a> {
    id: FlowId,
    flow: Flow<'a>,
    ip: IpVersion,
    timestamps: Timestamps,
    scope: CeilingScope,
}

/// Returns all bounds of a point, lowest first per metric and direction. `trials` are its usable
/// trials with their spans; the jobs of the first one define which flow crosses which capacity.
pub(super) fn bounds(
    campaign: &Campaign,
    hosts: &Hosts<'_>,
    trials: &[(Vec<Job<'_>>, Span)],
) -> Vec<Bound> {
    let Some((jobs, _)) = trials.first() else { return Vec::new() };
    let carried = carried(jobs, hosts);
    let measured: BTreeSet<FlowId> = carried
        .iter()
        .map(|c| c.id)
        .filter(|(job, _)| jobs[*job].spec.background.is_none())
        .collect();
    let elements = elements(campaign, hosts, jobs, &carried);
    let mut bounds = Vec::new();
    for one in &carried {
        for element in elements.iter().filter(|element| element.crossed_by.contains(&one.id)) {
            bounds.extend(single(one, element, acknowledgements(one, element, &carried)));
        }
        bounds.extend(expected_window(one, trials));
    }
    let shared: Vec<Shared<FlowId>> =
        elements.iter().map(|element| as_goodput(element, &carried)).collect();
    for job in 0..jobs.len() {
        let both: BTreeSet<FlowId> =
            carried.iter().map(|c| c.id).filter(|(of, _)| *of == job).collect();
        let scope = carried.iter().find(|c| c.id.0 == job).map(|c| &c.scope);
        bounds.extend(scope.and_then(|scope| together(&shared, &elements, &both, scope)));
    }
    // With one measured job, the bounds of the job itself say the same.
    if jobs.iter().filter(|job| job.spec.background.is_none()).count() > 1 {
        for direction in [Direction::Tx, Direction::Rx, Direction::Sum] {
            let flows: BTreeSet<FlowId> = measured
                .iter()
                .copied()
                .filter(|(_, d)| direction == Direction::Sum || *d == direction)
                .collect();
            let payload = payload_of_all(&flows, &carried, &elements);
            bounds.extend(of_all(&shared, &elements, &flows, direction, payload));
        }
    }
    bounds.sort_by(|a, b| {
        // Hard bounds sort before expected ones, because only they can prove a figure impossible.
        (&a.ceiling.metric, a.ceiling.direction, !a.ceiling.is_hard())
            .cmp(&(&b.ceiling.metric, b.ceiling.direction, !b.ceiling.is_hard()))
            .then(a.ceiling.value.total_cmp(&b.ceiling.value))
    });
    bounds
}

/// Returns the reason why the flows of the first of `trials` have no bound at an end, between hosts
/// that report their devices. Empty where a bound exists.
pub(super) fn unbounded(
    campaign: &Campaign,
    hosts: &Hosts<'_>,
    trials: &[(Vec<Job<'_>>, Span)],
) -> Vec<Unbounded> {
    // In a lab the declared capacities are complete, so a flow without a bound is meant to have
    // none.
    let Some((jobs, _)) = trials.first().filter(|_| campaign.header.testbed == TestbedKind::Hosts)
    else {
        return Vec::new();
    };
    let carried = carried(jobs, hosts);
    match elements(campaign, hosts, jobs, &carried).is_empty() {
        true => interfaces::unbounded(hosts, jobs, &carried),
        false => Vec::new(),
    }
}

/// Returns the known facts of the path of `job`: the smallest MTU among capacities and devices, and
/// the IP version.
pub(super) fn path(campaign: &Campaign, hosts: &Hosts<'_>, job: &Job<'_>) -> Path {
    let ends = [&job.spec.from, &job.spec.to];
    // A capacity may be declared for one direction only, but the MTU of a path applies to both.
    let declared = campaign.header.capacities.iter().filter(|capacity| {
        let (from, to) = (&job.spec.from.name, &job.spec.to.name);
        capacity.pairs.iter().any(|(a, b)| (a == from && b == to) || (a == to && b == from))
    });
    let devices = ends.iter().filter_map(|end| {
        hosts
            .interface_fact(&end.host, end.device.as_ref()?, "mtu")
            .and_then(Value::as_u64)
            .map(Bytes)
    });
    Path { mtu: declared.map(|capacity| capacity.mtu).chain(devices).min(), ip: ip_version(job) }
}

fn carried<'a>(jobs: &[Job<'a>], hosts: &Hosts<'_>) -> Vec<Carried<'a>> {
    let several = jobs.len() > 1;
    jobs.iter()
        .enumerate()
        .flat_map(|(number, job)| {
            // Both ends must agree on timestamps. The smaller header gives the higher bound, so it
            // is assumed where this is not known.
            let stamped = [&job.spec.from, &job.spec.to].into_iter().all(|end| {
                hosts
                    .fact(&end.host, "net.tcp_timestamps")
                    .is_some_and(|fact| fact.as_u64().is_some_and(|on| on > 0))
            });
            let timestamps = if stamped { Timestamps::On } else { Timestamps::Off };
            let pair = several.then(|| (job.spec.from.name.clone(), job.spec.to.name.clone()));
            let scope = CeilingScope::Job { job: u32::try_from(number).unwrap_or(u32::MAX), pair };
            let ip = ip_version(job);
            job.flows().into_iter().map(move |flow| Carried {
                id: (number, flow.direction),
                flow,
                ip,
                timestamps,
                scope: scope.clone(),
            })
        })
        .collect()
}

/// Returns the version of IP that `job` runs over: declared, or seen.
pub(super) fn ip_version(job: &Job<'_>) -> IpVersion {
    let declared = [&job.spec.to, &job.spec.from].into_iter().find_map(|end| end.address);
    let address = declared.or_else(|| remote_address(job));
    if address.is_some_and(|address| address.is_ipv6()) { IpVersion::V6 } else { IpVersion::V4 }
}

/// Returns the address of the far end of the first flow that was reported.
fn remote_address(job: &Job<'_>) -> Option<core::net::IpAddr> {
    let flow = job.ends().into_iter().find_map(|end| end.flows.first())?;
    flow.remote.parse::<core::net::SocketAddr>().ok().map(|address| address.ip())
}

fn elements(
    campaign: &Campaign,
    hosts: &Hosts<'_>,
    jobs: &[Job<'_>],
    carried: &[Carried<'_>],
) -> Vec<Element> {
    let mut elements: Vec<Element> = campaign
        .header
        .capacities
        .iter()
        .map(|capacity| {
            let crossing = carried.iter().filter(|one| {
                let (sender, receiver) = ends(&jobs[one.id.0], one.id.1);
                capacity.pairs.iter().any(|(from, to)| *from == sender.name && *to == receiver.name)
            });
            let crossing: Vec<&Carried<'_>> = crossing.collect();
            // A job without flow reports counts as the largest number of flows.
            let n_flows = crossing.iter().map(|one| one.flow.n_flows());
            Element {
                part: capacity.part(),
                receives: false,
                burst: 0.0,
                rate: capacity.room(n_flows.fold(0, usize::saturating_add)),
                frame_overhead: capacity.frame_overhead,
                mtu: capacity.mtu,
                crossed_by: crossing.iter().map(|one| one.id).collect(),
                source: capacity.source.clone(),
            }
        })
        .collect();
    // Namespaces of a lab share the devices of one machine, whose facts describe none of its links.
    if campaign.header.testbed == TestbedKind::Hosts {
        elements.extend(ends::elements(hosts, jobs, carried));
        elements.extend(buses::links(hosts, jobs, carried));
    }
    // A rate of zero would make every figure impossible.
    elements.retain(|element| !element.crossed_by.is_empty() && element.rate.0 > 0.0);
    elements
}

/// Returns the endpoints that send and receive what `job` carries in `direction`.
fn ends<'a>(
    job: &Job<'a>,
    direction: Direction,
) -> (&'a linerate_model::Endpoint, &'a linerate_model::Endpoint) {
    if direction == Direction::Rx {
        (&job.spec.to, &job.spec.from)
    } else {
        (&job.spec.from, &job.spec.to)
    }
}

/// Returns `rate` as a figure with the prefix that fits.
fn scaled(rate: BitRate) -> Expression {
    Measure::ScaledBitsPerSecond.of(rate.0)
}

/// Returns the size of a datagram of `payload` bytes where `element` counts, and the statement of
/// it.
fn counted(one: &Carried<'_>, element: &Element, payload: Bytes) -> (Bytes, Line) {
    let packets = udp::packets(payload, element.mtu, one.ip);
    let sizes = packets.iter().map(|packet| ethernet::on_wire(*packet, element.frame_overhead).0);
    let (ip, packets, wire) = (tcp::ip_name(one.ip), packets.len(), Bytes(sizes.sum()));
    (wire, Statement::Datagram { payload, ip, packets, wire, at: element.part.to_string() }.into())
}

/// Returns the most goodput `one` reaches across `element`, with its derivation.
fn goodput(one: &Carried<'_>, element: &Element) -> (BitRate, Vec<Line>) {
    let Element { rate, mtu, frame_overhead, .. } = element;
    let payload =
        // Datagrams of several sizes have no payload in common; they get the bound without UDP
        // header below.
        one.flow.datagram_payload().filter(|payload| payload.0 > 0 && one.flow.is_datagrams());
    if let Some(payload) = payload {
        let bound = udp::goodput(*rate, payload, *mtu, *frame_overhead, one.ip);
        let (wire, statement) = counted(one, element, payload);
        return (bound, vec![statement, share_of(*rate, payload, wire, bound)]);
    }
    // The protocol above IP is not known, so only the IP header is certain.
    let (headers, line) = if one.flow.is_datagrams() || !one.flow.is_tcp() {
        (one.ip.header(), Statement::IpHeaderOnly.into())
    } else {
        (headers::tcp(one.ip, one.timestamps), tcp::headers_line(one.ip, one.timestamps))
    };
    let bound = tcp::goodput(*rate, *mtu, *frame_overhead, headers);
    let payload = Expression::from(*mtu) - headers;
    (bound, vec![line, share_of(*rate, payload, Expression::from(*mtu) + *frame_overhead, bound)])
}

/// Returns the equation of the `bound` that `part` of `whole` of `rate` is.
fn share_of(
    rate: BitRate,
    part: impl Into<Expression>,
    whole: impl Into<Expression>,
    bound: BitRate,
) -> Line {
    let bound = Measure::ScaledBitsPerSecond.figure(bound.0);
    Line::equation(scaled(rate) * part / whole, bound)
}

/// Returns the equation of the packets of `size` bytes that `rate` carries.
fn packets_of(rate: BitRate, size: Bytes, bound: PacketRate) -> Line {
    let bound = Measure::PacketsPerSecond.figure(bound.0);
    Line::equation(scaled(rate) / (Expression::from(size) * BITS), bound)
}

/// Returns the part of a link that the goodput of `one` leaves out if its job also carries data the
/// other way: the acknowledgements of that data share its direction. RFC 5681 clause 4.2 wants at
/// least one for every second segment, but receivers that merge segments (GRO) send fewer, and data
/// of the same connection carries them for free. They have no certain minimum, so the ceiling
/// without them is the one that nothing exceeds.
fn acknowledgements(one: &Carried<'_>, element: &Element, carried: &[Carried<'_>]) -> Option<Line> {
    /// Segments per acknowledgement.
    const SEGMENTS: u64 = 2;
    let back = carried.iter().any(|other| other.id.0 == one.id.0 && other.id.1 != one.id.1);
    if !back || one.flow.is_datagrams() || !one.flow.is_tcp() {
        return None;
    }
    let own = ethernet::on_wire(headers::tcp(one.ip, one.timestamps), element.frame_overhead);
    let data = ethernet::on_wire(element.mtu, element.frame_overhead);
    let share = own.0 as f64 / (SEGMENTS * data.0) as f64;
    let left_out =
        Statement::AcknowledgementsLeftOut { each: own, segments: SEGMENTS, data, share };
    Some(left_out.into())
}

fn single(one: &Carried<'_>, element: &Element, left_out: Option<Line>) -> Vec<Bound> {
    let hard = |metric, value, derivation| hard_bound(one, element, metric, value, derivation);
    let (bound, mut derivation) = goodput(one, element);
    derivation.extend(left_out);
    let mut bounds = vec![hard(metric::GOODPUT, bound.0, derivation)];
    let payload = one.flow.datagram_payload().filter(|payload| payload.0 > 0);
    if let Some(payload) =
        // A fragmented datagram is several packets, whose rate has no simple bound here.
        payload.filter(|payload| *payload <= udp::largest_payload(element.mtu, one.ip))
    {
        let rate =
            udp::datagram_rate(element.rate, payload, element.mtu, element.frame_overhead, one.ip);
        let (wire, statement) = counted(one, element, payload);
        let lines = vec![statement, packets_of(element.rate, wire, rate)];
        bounds.push(hard(metric::PACKET_RATE, rate.0, lines));
    }
    if element.receives {
        let frame = element.mtu + ethernet::FRAME_OVERHEAD;
        let bits = ethernet::throughput_l2(element.rate, frame);
        let line =
            share_of(element.rate, frame, Expression::from(frame) + ethernet::WIRE_OVERHEAD, bits);
        bounds.push(hard(metric::THROUGHPUT_L2, bits.0, vec![line]));
    }
    bounds
}

/// Returns a hard bound of `element` for the flow that it carries.
fn hard_bound(
    one: &Carried<'_>,
    element: &Element,
    metric: &'static Metric,
    value: f64,
    derivation: Vec<Line>,
) -> Bound {
    let (part, rate, mtu) = (element.part.clone(), element.rate, element.mtu);
    let subject = CeilingSubject::Part { part, rate, mtu };
    let ceiling = Ceiling::new(subject, metric, value, one.id.1, derivation, &*element.source);
    Bound { ceiling: ceiling.holding_for(one.scope.clone()), burst: element.burst }
}

/// `element` as goodput its flows share: of the flows that cross it, the one with the least
/// overhead sets the fraction.
fn as_goodput(element: &Element, carried: &[Carried<'_>]) -> Shared<FlowId> {
    let crossing = carried.iter().filter(|one| element.crossed_by.contains(&one.id));
    // Flows of different header sizes share the element. The one with the least overhead carries
    // the most payload.
    let most = crossing.map(|one| goodput(one, element).0.0).fold(0.0, f64::max);
    Shared {
        name: element.part.to_string(),
        capacity: BitRate(most),
        flows: element.crossed_by.clone(),
    }
}

fn together(
    shared: &[Shared<FlowId>],
    elements: &[Element],
    flows: &BTreeSet<FlowId>,
    scope: &CeilingScope,
) -> Option<Bound> {
    if flows.len() < 2 {
        return None;
    }
    let bound = tree::bound(shared, flows);
    bound.value.0.is_finite().then(|| {
        let (subject, burst) = binding(&bound, elements);
        let ceiling = Ceiling::new(
            subject,
            metric::GOODPUT,
            bound.value.0,
            Direction::Sum,
            bound.derivation(),
            TREE_SOURCE,
        );
        Bound { ceiling: ceiling.holding_for(scope.clone()), burst }
    })
}

/// Returns the joint bound of all `flows` of measured jobs, and the bound of each tier of the path
/// by itself. Also in packets where all of them are datagrams of one `payload` that fit into one
/// packet.
fn of_all(
    shared: &[Shared<FlowId>],
    elements: &[Element],
    flows: &BTreeSet<FlowId>,
    direction: Direction,
    payload: Option<Bytes>,
) -> Vec<Bound> {
    if flows.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<tree::Bound> = vec![tree::bound(shared, flows)];
    found.retain(|bound| bound.value.0.is_finite());
    let tiers = tree::tiers(shared, flows);
    for tier in tiers {
        // The tier that binds is the tree's own bound.
        // Two bounds of one value would be printed as two limits.
        if found.iter().all(|known| known.value != tier.value) {
            found.push(tier);
        }
    }
    let mut bounds = Vec::new();
    for bound in &found {
        let mut figures = vec![(metric::GOODPUT, bound.value.0, bound.derivation())];
        figures.extend(payload.map(|payload| {
            let rate = PacketRate(bound.value.0 / BITS / payload.0 as f64);
            let line = packets_of(bound.value, payload, rate);
            (metric::PACKET_RATE, rate.0, [bound.derivation(), vec![line]].concat())
        }));
        let (subject, burst) = binding(bound, elements);
        bounds.extend(figures.into_iter().map(|(metric, value, derivation)| {
            let ceiling =
                Ceiling::new(subject.clone(), metric, value, direction, derivation, TREE_SOURCE);
            Bound { ceiling: ceiling.holding_for(CeilingScope::AllJobs), burst }
        }));
    }
    bounds
}

/// Returns the payload of every packet of `flows`, if it is one and no element divides it.
fn payload_of_all(
    flows: &BTreeSet<FlowId>,
    carried: &[Carried<'_>],
    elements: &[Element],
) -> Option<Bytes> {
    let mut payloads = carried.iter().filter(|one| flows.contains(&one.id)).map(|one| {
        let crossed = elements.iter().filter(|element| element.crossed_by.contains(&one.id));
        let largest = crossed.map(|element| udp::largest_payload(element.mtu, one.ip)).min();
        let payload =
            one.flow.datagram_payload().filter(|payload| payload.0 > 0 && one.flow.is_datagrams());
        payload.filter(|payload| largest.is_none_or(|largest| *payload <= largest))
    });
    // With two sizes, bits do not translate into packets.
    let first = payloads.next()??;
    payloads.all(|other| other == Some(first)).then_some(first)
}

/// Returns the elements that are full at `bound`, and the bytes that pass on top of their rates.
fn binding(bound: &tree::Bound, elements: &[Element]) -> (CeilingSubject, f64) {
    let full = || bound.places.iter().filter_map(|place| elements.get(*place));
    (
        CeilingSubject::Parts(full().map(|element| element.part.clone()).collect()),
        full().map(|element| element.burst).sum(),
    )
}

/// Returns the peer's largest window over the smallest round trip, the most any trial saw.
fn expected_window(one: &Carried<'_>, trials: &[(Vec<Job<'_>>, Span)]) -> Option<Bound> {
    let (number, direction) = one.id;
    let seen = trials.iter().filter_map(|(jobs, span)| {
        let flow = jobs.get(number)?.flow(direction).filter(|flow| !flow.is_datagrams())?;
        let connections = flow.sending();
        Some((connections.peer_window(*span)?, connections.smallest_rtt_seconds(*span)?))
    });
    // Window and round-trip time belong to one trial. The maxima of different trials would give a
    // bound that no trial had.
    let (window, rtt) = seen.max_by(|a, b| (a.0 as f64 / a.1).total_cmp(&(b.0 as f64 / b.1)))?;
    let value = window as f64 * BITS / rtt;
    let (_, receiver) = ends(&trials.first()?.0[number], direction);
    let advertiser = BoundPart::new(BoundClass::Window, &receiver.host, &receiver.name);
    let seconds = Measure::Seconds.figure(rtt);
    let by_window = Line::equation(
        Expression::from(Bytes(window)) * BITS / seconds,
        Measure::ScaledBitsPerSecond.figure(value),
    );
    let seen = Statement::WindowSeen { window: Bytes(window), rtt_seconds: rtt };
    Some(Bound {
        ceiling: Ceiling::new(
            CeilingSubject::Window(advertiser),
            metric::GOODPUT,
            value,
            direction,
            vec![seen.into(), by_window.remark(Remark::Sampled)],
            WINDOW_SOURCE,
        )
        .holding_for(one.scope.clone())
        // Both values are read once per interval and may have been exceeded in between.
        .expected(),
        burst: 0.0,
    })
}
