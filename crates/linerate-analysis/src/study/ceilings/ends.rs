//! Bounds of a flow inside the two hosts: the interfaces and queueing disciplines that its packets
//! pass, each with the headers that it counts.
//!
//! Of several next hops each flow uses one, so n flows reach the sum of the n fastest. Only the way
//! out is known where packets have several ways: the other end decides by which device they arrive.

use std::collections::BTreeSet;

use linerate_model::{BitRate, BoundClass, BoundPart, Bytes, Endpoint, PartDetail};
use serde_json::Value;

use super::super::leaving::{self, Branch, Layer};
use super::super::samples::Hosts;
use super::super::traffic::Job;
use super::{Carried, Element, ends, fact_source, interfaces, queues};
use crate::limits::ethernet;

/// Ethernet addresses and type, which a discipline counts with the packet, IEEE 802.3 clause 3.1.
const FRAME_HEADER: Bytes = Bytes(14);

/// Joint rate of a number of flows, bit/s.
type Room<'a> = Box<dyn Fn(usize) -> f64 + 'a>;

/// Something of a host that flows cross; its rate is known when all of them are.
struct CrossedElement<'a> {
    element: Element,
    room: Room<'a>,
    n_flows: usize,
}

/// Returns the interfaces and disciplines that the flows of `carried` pass.
pub(super) fn elements(
    hosts: &Hosts<'_>,
    jobs: &[Job<'_>],
    carried: &[Carried<'_>],
) -> Vec<Element> {
    let mut found: Vec<CrossedElement<'_>> = Vec::new();
    for one in carried {
        let (sender, receiver) = ends(&jobs[one.id.0], one.id.1);
        let out = leaving::branches(hosts, sender, receiver);
        let mut crossed = match &out[..] {
            [branch] => of_branch(hosts, &sender.host, branch),
            // Each flow uses one next hop, and its choice is not recorded, so only the sum of the
            // hops is certain.
            several => spread(hosts, sender, several).into_iter().collect(),
        };
        // Packets arrive by the way that the other side chose, which is known only if there is just
        // one.
        if let [branch] = &leaving::branches(hosts, receiver, sender)[..] {
            crossed.extend(
                branch
                    .layers
                    .iter()
                    .filter_map(|layer| interface(hosts, &receiver.host, branch, layer, true)),
            );
        }
        for (element, room) in crossed {
            let n_flows = one.flow.n_flows();
            match found.iter_mut().find(|known| known.element.part == element.part) {
                Some(known) => {
                    known.element.crossed_by.insert(one.id);
                    known.n_flows = known.n_flows.saturating_add(n_flows);
                }
                None => {
                    let element = Element { crossed_by: BTreeSet::from([one.id]), ..element };
                    found.push(CrossedElement { element, room, n_flows });
                }
            }
        }
    }
    fn rated(found: CrossedElement<'_>) -> Element {
        Element {
            // The rate depends on the number of flows, which is known only after all of them were
            // collected.
            rate: BitRate((found.room)(found.n_flows)),
            ..found.element
        }
    }
    found.into_iter().map(rated).collect()
}

/// Returns the elements that packets of one way out pass.
fn of_branch<'a>(hosts: &Hosts<'a>, host: &str, branch: &Branch<'a>) -> Vec<(Element, Room<'a>)> {
    let mut crossed = Vec::new();
    for layer in &branch.layers {
        crossed.extend(shapers(hosts, host, branch, layer));
        crossed.extend(interface(hosts, host, branch, layer, false));
    }
    crossed
}

fn own(branch: &Branch<'_>) -> String {
    branch.layers[0].device.to_owned()
}

fn shapers<'a>(
    hosts: &Hosts<'a>,
    host: &str,
    branch: &Branch<'a>,
    layer: &Layer<'a>,
) -> Vec<(Element, Room<'a>)> {
    let device = layer.device;
    let all = hosts.interface_fact(host, device, "qdiscs").and_then(Value::as_array);
    // A discipline on a tunnel device counts bare IP packets.
    let header = if layer.is_ethernet { FRAME_HEADER } else { Bytes(0) };
    let mut shapers = Vec::new();
    for shaper in queues::chain(all.map_or(&[][..], Vec::as_slice)) {
        let detail =
            PartDetail::Queue { carrier: device.to_owned(), discipline: shaper.kind.to_owned() };
        let element = Element {
            part: BoundPart::new(BoundClass::Queue, host, own(branch)).with(detail),
            rate: BitRate(0.0),
            frame_overhead: header + layer.added,
            mtu: branch.mtu,
            crossed_by: BTreeSet::new(),
            receives: false,
            burst: shaper.burst,
            source: fact_source(host, &format!("interfaces.{device}.qdiscs"), shaper.kind),
        };
        let room: Room<'a> = Box::new(move |n_flows| shaper.room(n_flows));
        shapers.push((element, room));
    }
    shapers
}

fn interface<'a>(
    hosts: &Hosts<'a>,
    host: &str,
    branch: &Branch<'a>,
    layer: &Layer<'a>,
    receives: bool,
) -> Option<(Element, Room<'a>)> {
    let device = layer.device;
    let speed = interfaces::line_rate(hosts, host, device)?;
    let detail = PartDetail::Interface { carrier: device.to_owned(), receives };
    let element = Element {
        part: BoundPart::new(BoundClass::Interface, host, own(branch)).with(detail),
        rate: BitRate(0.0),
        frame_overhead: ethernet::packet_overhead(layer.tags) + layer.added,
        mtu: branch.mtu,
        crossed_by: BTreeSet::new(),
        // Packets out of a tunnel are counted without the packets that carried them.
        receives: receives && layer.added.0 == 0,
        burst: 0.0,
        source: fact_source(host, &format!("interfaces.{device}.speed_bps, mtu"), "IEEE 802.3"),
    };
    Some((element, Box::new(move |_| speed)))
}

/// Several next hops as one element: what the fastest of them allow together, one for each flow.
/// `None` if one of them is not bounded.
fn spread<'a>(
    hosts: &Hosts<'a>,
    sender: &Endpoint,
    branches: &[Branch<'a>],
) -> Option<(Element, Room<'a>)> {
    let host = &sender.host;
    // One hop without a bound may carry everything.
    let hops = branches.iter().map(|branch| tightest(hosts, host, branch));
    let hops: Vec<Element> = hops.collect::<Option<_>>()?;
    // The sum mixes hops; the smallest overhead and the largest MTU keep it an upper bound.
    let least = hops.iter().map(|hop| hop.frame_overhead).min()?;
    let mut rates: Vec<f64> = hops.iter().map(|hop| hop.rate.0).collect();
    rates.sort_by(|a, b| b.total_cmp(a));
    let names: Vec<String> = branches.iter().map(own).collect();
    let element = Element {
        part: BoundPart::new(hops[0].part.class, host, names.join(" + "))
            .with(PartDetail::NextHops),
        rate: BitRate(0.0),
        frame_overhead: least,
        mtu: hops.iter().map(|hop| hop.mtu).max()?,
        crossed_by: BTreeSet::new(),
        receives: false,
        burst: hops.iter().map(|hop| hop.burst).sum(),
        source: hops.iter().map(|hop| hop.source.as_str()).collect::<Vec<_>>().join("; "),
    };
    // A foreign end reports no flows and has at least one.
    Some((element, Box::new(move |n_flows| rates.iter().take(n_flows.max(1)).sum())))
}

/// Returns the element that bounds the branch of `host` most, with its rate.
fn tightest<'a>(hosts: &Hosts<'a>, host: &str, branch: &Branch<'a>) -> Option<Element> {
    let bounded = of_branch(hosts, host, branch).into_iter().map(|(element, room)| {
        // As many flows as possible, because a hop alone may carry all of them.
        Element { rate: BitRate(room(usize::MAX)), ..element }
    });
    // Shapers count different headers, so their rates are compared as payload.
    let payload = |element: &Element| {
        element.rate.0 * element.mtu.0 as f64 / (element.mtu.0 + element.frame_overhead.0) as f64
    };
    bounded.min_by(|a, b| payload(a).total_cmp(&payload(b)))
}
