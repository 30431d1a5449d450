//! PCI Express links between a host's memory and its network devices, from the fact
//! `pcie.<device>`.
//!
//! Each function of the chain bounds all flows whose devices lie below it, per direction. Received
//! data is written to memory, sent data is read from it, both in the largest packets the function
//! was set to, with nothing but frames crossing. The rate is that of the negotiated width and the
//! highest speed the function is capable of (a link may idle at a lower one), which keeps the bound
//! an upper one. Not covered: descriptors, doorbells and interrupts, which make the true bound
//! lower; reads limited by tags and credits; and functions hidden by a hypervisor.

use std::collections::BTreeSet;

use linerate_model::{BoundClass, BoundPart, Bytes, Endpoint, PartDetail};
use serde_json::Value;

use super::super::leaving;
use super::super::samples::Hosts;
use super::super::traffic::Job;
use super::{Carried, Element, ends, fact_source};
use crate::limits::pcie::{self, slots};

/// Ethernet addresses and type, which a device moves with the packet, IEEE 802.3 clause 3.1.
const FRAME_HEADER: Bytes = Bytes(14);
/// Standard of the packets of a link.
const SOURCE: &str = "PCI Express Base";

/// Returns the links that the flows of `carried` cross.
pub(super) fn links(hosts: &Hosts<'_>, jobs: &[Job<'_>], carried: &[Carried<'_>]) -> Vec<Element> {
    let mut elements: Vec<Element> = Vec::new();
    for one in carried {
        let (sender, receiver) = ends(&jobs[one.id.0], one.id.1);
        for (end, other, writes) in [(sender, receiver, false), (receiver, sender, true)] {
            for found in chain(hosts, end, other, writes).into_iter().flatten() {
                match elements.iter_mut().find(|element| element.part == found.part) {
                    Some(element) => element.crossed_by.extend([one.id]),
                    None => {
                        elements.push(Element { crossed_by: BTreeSet::from([one.id]), ..found })
                    }
                }
            }
        }
    }
    elements
}

/// Returns the links above the device that carries what `end` and `other` exchange, written to
/// memory or read from it; `None` if it has none or they are not known.
fn chain(
    hosts: &Hosts<'_>,
    end: &Endpoint,
    other: &Endpoint,
    writes: bool,
) -> Option<Vec<Element>> {
    let branches = leaving::branches(hosts, end, other);
    // With several ways out it is unknown which bus a packet crosses.
    let [branch] = &branches[..] else { return None };
    let carrier = branch.layers.last()?.device;
    let functions = hosts.fact(&end.host, "pcie")?.get(carrier)?.as_array()?;
    Some(
        functions
            .iter()
            .filter_map(|function| link(function, &end.host, carrier, branch.mtu, writes))
            .collect(),
    )
}

fn link(function: &Value, host: &str, device: &str, mtu: Bytes, writes: bool) -> Option<Element> {
    if function.get("kind").and_then(Value::as_str) != Some("pcie") {
        return None;
    }
    let (generation, lanes) = slots::link_of(function)?;
    // Where the setting was not readable, the largest packets give the upper bound.
    let payload = slots::size(function, "mps_bytes").unwrap_or(pcie::link::PAGE);
    let request = slots::size(function, "mrrs_bytes").unwrap_or(pcie::link::PAGE);
    let link = pcie::Link::new(generation, lanes, payload, request)?;
    let address = function.get("address").and_then(Value::as_str)?;
    Some(Element {
        part: BoundPart::new(BoundClass::Bus, host, format!("pcie {address}"))
            .with(PartDetail::Function { writes }),
        receives: false,
        burst: 0.0,
        // Frames are copied in pages, which need the fewest packets for each byte.
        rate: if writes { link.write(pcie::link::PAGE) } else { link.read(pcie::link::PAGE) },
        frame_overhead: FRAME_HEADER,
        mtu,
        crossed_by: BTreeSet::new(),
        source: fact_source(
            host,
            &format!("pcie.{device}, gen {generation} x{lanes}, mps {}", payload.0),
            SOURCE,
        ),
    })
}
