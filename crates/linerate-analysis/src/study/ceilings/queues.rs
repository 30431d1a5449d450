//! Queueing disciplines of sending devices that shape everything the device sends, from the fact `interfaces.<device>.qdiscs`.
//!
//! Only a chain of disciplines without classes from the root on is certain to be crossed by all packets. They count Ethernet frames
//! without preamble, check sequence and gap; a GSO packet counts as what it is divided into. What it does not see: classes (HTB, CAKE's
//! tins), policers, and a discipline that was changed after the facts were read.

use std::collections::BTreeSet;

use linerate_model::{BitRate, BoundClass, BoundPart, Bytes, Endpoint};
use serde_json::Value;

use super::super::samples::Hosts;
use super::super::traffic::Job;
use super::{Carried, Element, ends};

/// Ethernet addresses and type, which a discipline counts with the packet, IEEE 802.3 clause 3.1.
const FRAME_HEADER: Bytes = Bytes(14);
/// Disciplines that all packets pass, one behind the other.
const CLASSLESS: [&str; 2] = ["netem", "tbf"];
/// The parent of the outermost discipline.
const ROOT: &str = "root";

/// The shapers that the flows of `carried` leave their hosts through.
pub(super) fn elements(hosts: &Hosts<'_>, jobs: &[Job<'_>], carried: &[Carried<'_>]) -> Vec<Element> {
    let mut elements: Vec<Element> = Vec::new();
    for one in carried {
        let (sender, _) = ends(&jobs[one.id.0], one.id.1);
        for found in of_end(hosts, sender).into_iter().flatten() {
            match elements.iter_mut().find(|element| element.name == found.name) {
                Some(element) => element.crossed_by.extend([one.id]),
                None => elements.push(Element { crossed_by: BTreeSet::from([one.id]), ..found }),
            }
        }
    }
    elements
}

/// The shapers of the device of `end`, and of what carries it.
fn of_end(hosts: &Hosts<'_>, end: &Endpoint) -> Option<Vec<Element>> {
    let own = end.device.as_deref()?;
    let mtu = hosts.interface_fact(&end.host, own, "mtu").and_then(Value::as_u64).map(Bytes)?;
    let mut devices = vec![own, hosts.carrier(&end.host, own)];
    devices.dedup();
    let mut elements = Vec::new();
    for device in devices {
        let all = hosts.interface_fact(&end.host, device, "qdiscs").and_then(Value::as_array);
        for (kind, rate, burst) in chain(all.map_or(&[][..], Vec::as_slice)) {
            elements.push(Element {
                part: BoundPart { class: BoundClass::Queue, host: end.host.clone(), name: own.to_owned() },
                name: format!("{kind} on {device} of {}", end.host),
                rate: BitRate(rate),
                frame_overhead: FRAME_HEADER,
                mtu,
                crossed_by: BTreeSet::new(),
                receives: false,
                burst,
                source: format!("facts of {}: interfaces.{device}.qdiscs, {kind}", end.host),
            });
        }
    }
    Some(elements)
}

/// Kind, rate in bit/s and bucket in bytes of the shapers that every packet passes.
fn chain(qdiscs: &[Value]) -> Vec<(&str, f64, f64)> {
    let text = |qdisc: &'_ Value, key: &str| qdisc.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut found = Vec::new();
    let mut parent = ROOT.to_owned();
    // Each step goes one deeper, and no discipline is its own child.
    for _ in 0..qdiscs.len() {
        let below = qdiscs.iter().find(|qdisc| {
            let of = text(qdisc, "parent");
            // A child names the class it hangs on: `1:1` below `1:`.
            of == parent || parent != ROOT && of.split_once(':').is_some_and(|(major, _)| parent == format!("{major}:"))
        });
        let Some(qdisc) = below else { break };
        let kind = qdisc.get("kind").and_then(Value::as_str).unwrap_or_default();
        if !CLASSLESS.contains(&kind) {
            break;
        }
        let number = |key: &str| qdisc.get(key).and_then(Value::as_f64);
        if let Some(rate) = number("rate_bps").filter(|rate| *rate > 0.0) {
            found.push((kind, rate, number("burst_bytes").unwrap_or(0.0)));
        }
        parent = text(qdisc, "handle");
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_every_packet_passes_bounds_a_device() {
        let tbf = json!({ "kind": "tbf", "handle": "1:", "parent": "root", "rate_bps": 1e9, "burst_bytes": 131_072 });
        let of =
            |qdiscs: &[Value]| chain(qdiscs).iter().map(|(kind, rate, _)| format!("{kind} {rate}")).collect::<Vec<_>>();
        assert_eq!(of(std::slice::from_ref(&tbf)), ["tbf 1000000000"]);
        // A delay outside, the shaper inside, and the other way round.
        let netem = json!({ "kind": "netem", "handle": "8001:", "parent": "root" });
        let inner = json!({ "kind": "tbf", "handle": "2:", "parent": "8001:1", "rate_bps": 2e8 });
        assert_eq!(of(&[inner, netem]), ["tbf 200000000"]);
        let fair = json!({ "kind": "fq_codel", "handle": "3:", "parent": "1:1" });
        assert_eq!(of(&[fair, tbf.clone()]), ["tbf 1000000000"]);
        // One shaper in one class of several says nothing of the others.
        let htb = json!({ "kind": "htb", "handle": "9:", "parent": "root" });
        let in_class = json!({ "kind": "tbf", "handle": "2:", "parent": "9:1", "rate_bps": 2e8 });
        assert_eq!(of(&[htb, in_class]), [""; 0]);
        assert_eq!(of(&[]), [""; 0]);
    }
}
