//! Network interfaces: link, driver, queues, rings, offloads, coalescing, interrupts, queueing
//! disciplines, addresses.
//!
//! Asked over netlink and SIOCETHTOOL in the calling thread's namespace; sysfs only where it shows
//! the same interface. MAC addresses are left out; `lower` names what a VLAN, macvlan, bond, team
//! or bridge stands on and what a tunnel's packets leave by. Not seen: hardware queues behind a
//! switch in the card.

use std::fmt::Display;

use linerate_sys::SysError;
use linerate_sys::ethtool::{Driver, Ethtool, LinkSettings};
use linerate_sys::netlink::{HtbClass, InterfaceAddress, Link, Qdisc, RouteSocket};
use serde_json::{Map, Value, json};

use super::pcie;
use super::root::{Root, unavailable};
use crate::devices;
use crate::samplers::interrupts;
use crate::samplers::qdisc::handle;

const BITS_PER_BYTE: u64 = 8;

pub(super) fn interfaces(root: &Root) -> Value {
    let links = match devices::all() {
        Ok(links) => links,
        Err(why) => return unavailable(why),
    };
    // Dumps are taken once for all interfaces: each one lists the whole namespace.
    let addresses = addresses();
    let qdiscs = qdiscs();
    let facts = links.iter().map(|link| {
        let mut fact = interface(root, link, &addresses, &qdiscs);
        fact["lower"] = json!(devices::lower(link, &links));
        if let Some(tunnel) = link.tunnel {
            fact["tunnel"] = json!({ "header_bytes": tunnel.header_bytes });
            if let Some(remote) = tunnel.remote {
                fact["tunnel"]["remote"] = json!(remote.to_string());
            }
        }
        if let Some(mode) = link.macvlan_mode {
            fact["mode"] = json!(mode);
        }
        (link.name.clone(), fact)
    });
    Value::Object(facts.collect::<Map<_, _>>())
}

fn interface(
    root: &Root,
    link: &Link,
    addresses: &Result<Vec<InterfaceAddress>, SysError>,
    qdiscs: &Result<Vec<(u32, Value)>, SysError>,
) -> Value {
    let ethtool = Ethtool::open();
    let ask =
        |question: &dyn Fn(&Ethtool) -> Result<Value, SysError>| answer_of(&ethtool, question);
    let device = &link.name;
    let driver = ethtool.as_ref().ok().and_then(|ethtool| ethtool.driver(device).ok());
    let of_driver = |field: fn(&Driver) -> &String| field_of(driver.as_ref(), field);
    let function = pcie::device_of(root, link);
    let settings = |field: fn(LinkSettings) -> Value| ask(&|e| e.link_settings(device).map(field));
    let own_addresses =
        listed(addresses, |address| (address.index == link.index).then(|| json!(spelled(address))));
    let own_qdiscs = listed(qdiscs, |(index, qdisc)| (*index == link.index).then(|| qdisc.clone()));
    json!({
        "index": link.index,
        "mtu": link.mtu,
        "operstate": operstate(link),
        "kind": link.kind.clone().unwrap_or_else(|| {
            if device == devices::LOOPBACK { "loopback" } else { "device" }.to_owned()
        }),
        "virtual": function.is_none() && (link.kind.is_some() || !devices::sysfs_shows(&root.0,
            link)
            || !root.0.join("sys/class/net").join(device).join("device").exists()),
        "driver": of_driver(|driver| &driver.name),
        "firmware": of_driver(|driver| &driver.firmware),
        "bus": of_driver(|driver| &driver.bus),
        "numa_node": function.as_ref().map_or_else(
            || unavailable("no PCI device"),
            |folder| pcie::numa_node(&Root(folder.clone())),
        ),
        "speed_bps": settings(speed),
        "duplex": settings(duplex),
        "autonegotiation": settings(|link| json!(link.autonegotiation)),
        "addresses": own_addresses,
        "queues": { "rx": link.rx_queues, "tx": link.tx_queues },
        "channels": ask(&|e| e.channels(device).map(|c| {
            let pair = |(now, most): (u32, u32)| json!({ "now": now, "max": most });
            json!({ "rx": pair(c.rx), "tx": pair(c.tx), "combined": pair(c.combined) })
        })),
        "rings": ask(&|e| e.rings(device).map(|r| {
            json!({ "rx": r.rx.0, "rx_max": r.rx.1, "tx": r.tx.0, "tx_max": r.tx.1 })
        })),
        "offloads": ask(&|e| e.features(device).map(|features| offloads(&features))),
        "gso_max_bytes": link.gso_max_size.map_or_else(|| unavailable("the kernel does not \
            say"), |bytes| json!(bytes)),
        "coalescing": ask(&|e| e.coalescing(device).map(|c| json!({
            "rx_usecs": c.rx_usecs, "rx_frames": c.rx_frames, "tx_usecs": c.tx_usecs,
            "tx_frames": c.tx_frames,
            "adaptive_rx": c.adaptive_rx, "adaptive_tx": c.adaptive_tx,
        }))),
        "pause": ask(&|e| e.pause(device).map(|p| json!({ "autonegotiation": p.autonegotiation,
            "rx": p.rx, "tx": p.tx }))),
        "rss": ask(&|e| e.rss(device).map(|r| json!({ "indirection_size": r.indirection_size,
            "key": r.key_bytes > 0 }))),
        "irqs": irqs(root, link),
        "steering": steering(root, link),
        "napi_threaded": napi_threaded(root, link),
        "qdiscs": own_qdiscs,
    })
}

fn answer_of(
    ethtool: &Result<Ethtool, SysError>,
    question: &dyn Fn(&Ethtool) -> Result<Value, SysError>,
) -> Value {
    match ethtool {
        Ok(ethtool) => question(ethtool).unwrap_or_else(unavailable),
        Err(why) => unavailable(why),
    }
}

fn field_of(driver: Option<&Driver>, field: fn(&Driver) -> &String) -> Value {
    match driver {
        Some(driver) if !field(driver).is_empty() => json!(field(driver)),
        Some(_) => unavailable("the driver does not say"),
        None => unavailable("no driver answers for it"),
    }
}

/// Returns the values that `pick` makes of the items, or the reason why there are none.
fn listed<T>(items: &Result<Vec<T>, impl Display>, pick: impl Fn(&T) -> Option<Value>) -> Value {
    match items {
        Ok(items) => items.iter().filter_map(pick).collect(),
        Err(why) => unavailable(why),
    }
}

fn addresses() -> Result<Vec<InterfaceAddress>, SysError> {
    let mut addresses = Vec::new();
    RouteSocket::open()?.addresses(|address| addresses.push(address))?;
    Ok(addresses)
}

fn spelled(address: &InterfaceAddress) -> String {
    format!("{}/{}", address.address, address.prefix)
}

fn speed(link: LinkSettings) -> Value {
    const BITS_PER_MEGABIT: u64 = 1_000_000;
    let speed = link.speed_mbit_per_s.map(|speed| u64::from(speed) * BITS_PER_MEGABIT);
    speed.map_or_else(|| unavailable("no link, or a device without a speed"), |speed| json!(speed))
}

fn duplex(link: LinkSettings) -> Value {
    match link.full_duplex {
        Some(true) => json!("full"),
        Some(false) => json!("half"),
        None => unavailable("no link, or a device without duplex"),
    }
}

/// RFC 2863 ifOperStatus as Linux numbers it.
fn operstate(link: &Link) -> &'static str {
    const NAMES: [&str; 7] =
        ["unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"];
    NAMES.get(usize::from(link.operstate)).copied().unwrap_or("unknown")
}

/// The offloads that change what a packet is or who sums it, under their ethtool(8) letters; then
/// every feature that is on.
fn offloads(features: &[(String, bool)]) -> Value {
    const LETTERS: &[(&str, &[&str])] = &[
        ("gro", &["rx-gro"]),
        ("gro_hw", &["rx-gro-hw"]),
        ("gso", &["tx-generic-segmentation"]),
        ("gso_udp", &["tx-udp-segmentation"]),
        ("lro", &["rx-lro"]),
        ("rx_checksum", &["rx-checksum"]),
        ("sg", &["tx-scatter-gather"]),
        ("tso", &["tx-tcp-segmentation", "tx-tcp6-segmentation"]),
        ("tx_checksum", &["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"]),
    ];
    let on = |name: &&str| features.iter().any(|(feature, on)| feature == name && *on);
    let mut fact: Map<_, _> = LETTERS
        .iter()
        .map(|(letter, names)| ((*letter).to_owned(), json!(names.iter().any(&on))))
        .collect();
    let active: Vec<_> = features.iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
    fact.insert("on".to_owned(), json!(active));
    Value::Object(fact)
}

fn irqs(root: &Root, link: &Link) -> Value {
    if !devices::sysfs_shows(&root.0, link) {
        return unavailable("sysfs shows another network namespace");
    }
    let folder = root.0.join("sys/class/net").join(&link.name).join("device");
    let numbers = interrupts::of_device(&folder);
    let vectors = interrupts::named(&root.0, &numbers, std::slice::from_ref(&link.name));
    let fact = |(irq, label): (u32, String)| vector(root, irq, &label);
    vectors.into_iter().map(fact).collect()
}

fn vector(root: &Root, irq: u32, label: &str) -> Value {
    json!({
        "irq": irq,
        "vector": label,
        "affinity": root.string(&format!("proc/irq/{irq}/smp_affinity_list")),
        "effective": root.string(&format!("proc/irq/{irq}/effective_affinity_list")),
    })
}

/// Software steering per queue: RPS and XPS masks, where any is set.
fn steering(root: &Root, link: &Link) -> Value {
    if !devices::sysfs_shows(&root.0, link) {
        return unavailable("sysfs shows another network namespace");
    }
    let queues = format!("sys/class/net/{}/queues", link.name);
    let set = |queue: String| steering_of(root, &queues, &queue);
    Value::Object(root.names(&queues).into_iter().filter_map(set).collect::<Map<_, _>>())
}

/// Returns the mask of a queue and its name, if any bit is set.
fn steering_of(root: &Root, queues: &str, queue: &str) -> Option<(String, Value)> {
    let file = if queue.starts_with("rx-") { "rps_cpus" } else { "xps_cpus" };
    let mask = root.text(&format!("{queues}/{queue}/{file}")).ok()?;
    // A mask may have several 32-bit groups, separated by commas.
    let is_set = mask.bytes().any(|byte| byte != b'0' && byte != b',');
    is_set.then(|| (format!("{queue}.{file}"), json!(mask)))
}

/// Returns whether its polling runs in threads of its own and not in softirqs.
fn napi_threaded(root: &Root, link: &Link) -> Value {
    if !devices::sysfs_shows(&root.0, link) {
        return unavailable("sysfs shows another network namespace");
    }
    let told = root.text(&format!("sys/class/net/{}/threaded", link.name));
    told.map_or_else(|why| why, |text| json!(text.trim() != "0"))
}

fn qdiscs() -> Result<Vec<(u32, Value)>, SysError> {
    let mut qdiscs = Vec::new();
    let mut handles = Vec::new();
    RouteSocket::open()?.qdiscs(|qdisc| {
        qdiscs.push((qdisc.index, describe(qdisc)));
        handles.push(qdisc.handle);
    })?;
    // Classes are asked for after the dump: a socket can serve one dump at a time.
    for ((index, qdisc), handle) in qdiscs.iter_mut().zip(handles) {
        if qdisc["kind"] == "htb" {
            let mut classes = Vec::new();
            RouteSocket::open()?
                .htb_classes(*index, |class| classes.push(describe_class(class)))?;
            qdisc["classes"] = Value::Array(classes);
            qdisc["filtered"] = json!(RouteSocket::open()?.is_filtered(*index, handle)?);
        }
    }
    Ok(qdiscs)
}

fn describe(qdisc: &Qdisc<'_>) -> Value {
    let limits = qdisc.limits();
    let mut fact = json!({ "kind": qdisc.kind, "handle": handle(qdisc.handle),
        "parent": handle(qdisc.parent) });
    let settings = [
        ("rate_bps", limits.rate_bytes_per_s.map(|rate| rate.saturating_mul(BITS_PER_BYTE))),
        ("burst_bytes", limits.burst_bytes),
        ("limit_bytes", limits.limit_bytes),
        ("limit_packets", limits.limit_packets),
    ];
    for (key, value) in settings {
        if let Some(value) = value {
            fact[key] = json!(value);
        }
    }
    if let Some(class) = qdisc.htb_default() {
        fact["default"] = json!(handle(class));
    }
    fact
}

fn describe_class(class: &HtbClass) -> Value {
    json!({
        "handle": handle(class.handle),
        "parent": handle(class.parent),
        "rate_bps": class.rate_bytes_per_s.saturating_mul(BITS_PER_BYTE),
        "ceil_bps": class.ceil_bytes_per_s.saturating_mul(BITS_PER_BYTE),
        "burst_bytes": class.burst_bytes,
        "ceil_burst_bytes": class.ceil_burst_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloads_are_told_by_their_letters() {
        let features =
            [("tx-tcp6-segmentation", true), ("rx-gro", false), ("tx-checksum-ip-generic", true)];
        let features = features.map(|(name, on)| (name.to_owned(), on));
        let offloads = offloads(&features);
        assert_eq!(
            (&offloads["tso"], &offloads["gro"], &offloads["tx_checksum"]),
            (&json!(true), &json!(false), &json!(true))
        );
        assert_eq!(offloads["on"], json!(["tx-tcp6-segmentation", "tx-checksum-ip-generic"]));
    }

    #[test]
    fn an_interrupt_is_told_with_where_it_goes() {
        let root = Root(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sysfs-two-ports").into());
        let fact = vector(&root, 70, "70:eth1");
        assert_eq!(
            fact,
            json!({ "irq": 70, "vector": "70:eth1", "affinity": "0-1", "effective": "0-1" })
        );
    }

    #[test]
    fn the_loopback_is_virtual_and_has_its_address() {
        let facts = interfaces(&Root("/".into()));
        let loopback = &facts["lo"];
        assert_eq!((&loopback["virtual"], &loopback["kind"]), (&json!(true), &json!("loopback")));
        let addresses = loopback["addresses"].as_array().unwrap();
        if addresses.is_empty() {
            return println!("skipped: lo is down in this namespace");
        }
        assert!(
            addresses.iter().any(
                |address| address.as_str().unwrap().starts_with("127.") || address == "::1/128"
            )
        );
    }
}
