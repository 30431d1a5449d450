//! Known answers in a network namespace of our own: what was configured is what the facts say, and
//! every datagram sent through a shaper is sent, waiting or dropped in the samplers. Needs root,
//! ip(8) and tc(8); skips aloud without.

#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../linerate-sys/tests/shared/host.rs"]
mod host;

use std::net::UdpSocket;

use linerate_model::{Nanos, SampleBlock};
use linerate_observe::{Sampling, Scope, facts};
use linerate_sys::{clock, netns};

use host::Namespace;

/// Makes a namespace with the pair `v0`-`v1`; `v0` is 198.18.0.1/30, shaped to 1 kbit/s, and knows
/// a neighbour .2. One datagram passes at once and the next after eight seconds: none leaves
/// between the reading of two counters.
fn namespace(test: &str) -> Option<Namespace> {
    let namespace = Namespace::new(format!("lr-{test}-{}", std::process::id()))?;
    for line in [
        "ip link set lo up",
        "ip link add v0 mtu 1400 type veth peer name v1",
        // No address, no router solicitations: nothing but our datagrams crosses the link.
        "ip link set v0 addrgenmode none",
        "ip link set v1 addrgenmode none",
        "ip link set v0 up",
        "ip link set v1 up",
        "ip address add 198.18.0.1/30 dev v0",
        "ip neighbour add 198.18.0.2 lladdr 02:00:00:00:00:02 nud permanent dev v0",
        "tc qdisc add dev v0 root handle 7: tbf rate 1kbit burst 1100 limit 5000",
    ] {
        namespace.ran(line);
    }
    Some(namespace)
}

fn change(block: &SampleBlock, sampler: &str, name: &str, instance: &str) -> f64 {
    let wanted = |s: &linerate_model::SeriesSpec| {
        (s.sampler(), s.name(), &*s.instance) == (sampler, name, instance)
    };
    let at = block
        .series
        .iter()
        .position(wanted)
        .unwrap_or_else(|| panic!("no {sampler}.{name} of {instance}"));
    let column = &block.columns[at];
    column.get(column.len() - 1).unwrap() - column.get(0).unwrap()
}

#[test]
fn facts_tell_what_was_configured() {
    let Some(namespace) = namespace("facts") else { return };
    let facts = netns::within(&namespace.name, facts).unwrap();
    let v0 = &facts["interfaces"]["v0"];
    assert_eq!(
        (v0["mtu"].as_u64(), v0["kind"].as_str(), v0["virtual"].as_bool()),
        (Some(1400), Some("veth"), Some(true))
    );
    // veth calls itself 10 Gbit/s, full duplex: `ethtool v0` prints the same.
    assert_eq!(
        (v0["speed_bps"].as_u64(), v0["duplex"].as_str()),
        (Some(10_000_000_000), Some("full"))
    );
    assert_eq!(v0["addresses"], serde_json::json!(["198.18.0.1/30"]));
    let shaper = serde_json::json!([{ "kind": "tbf", "handle": "7:", "parent": "root",
        "rate_bps": 1_000,
        "burst_bytes": 1100, "limit_bytes": 5000 }]);
    assert_eq!(v0["qdiscs"], shaper);
    assert!(facts["interfaces"].get("eth0").is_none(), "interfaces of the host do not belong here");
}

#[test]
fn every_datagram_is_sent_waiting_or_dropped() {
    const DATAGRAMS: u32 = 100;
    let Some(namespace) = namespace("ledger") else { return };
    let block = netns::within(&namespace.name, || {
        let socket = UdpSocket::bind("198.18.0.1:0").unwrap();
        let sampling = Sampling::start(
            &Scope { devices: vec!["v0".to_owned()], ..Scope::default() },
            Nanos(3_600_000_000_000),
        );
        let origin = clock::monotonic();
        for _ in 0..DATAGRAMS {
            // A full queue is reported to the sender as ENOBUFS at most; the kernel's counters are
            // what is tested.
            let _ = socket.send_to(&[0; 1000], "198.18.0.2:9");
        }
        sampling.stop(Nanos(origin))
    });
    let block = block.unwrap();
    let queue = |name| change(&block, "qdisc", name, "v0 tbf 7:");
    let (sent, waiting, dropped) = (queue("packets"), queue("queue_length"), queue("drops"));
    assert_eq!(
        sent + waiting + dropped,
        f64::from(DATAGRAMS),
        "sent {sent}, waiting {waiting}, dropped {dropped}"
    );
    assert!(dropped > f64::from(DATAGRAMS) / 2.0, "5000 bytes of queue cannot hold {DATAGRAMS} kB");
    assert_eq!(change(&block, "interface", "tx_packets", "v0"), sent);
    // 1000 B payload, UDP 8, IPv4 20, Ethernet 14.
    assert_eq!(change(&block, "interface", "tx_bytes", "v0"), sent * 1042.0);
    assert_eq!(change(&block, "qdisc", "backlog", "v0 tbf 7:"), waiting * 1042.0);
    let foreign = block.series.iter().find(|s| {
        s.is_of(linerate_model::series::interface::SAMPLER)
            && s.instance != "v0"
            && s.instance != "lo"
    });
    assert_eq!(foreign, None);
}
