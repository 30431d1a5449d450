//! Cisco UCS VIC 1240/1280 on RHEL 6.2: pktgen maxima, table 7, and the ratios the text draws from them.
//!
//! Units as printed. What the paper leaves open (number of flows, payload size of PCIe) is bounded, not guessed.

use linerate_model::{BitRate, Bytes};
use serde::Deserialize;

use super::{Replay, ReplayItem, agrees_to};
use crate::limits::pcie::Link;
use crate::limits::{ethernet, headers, tcp};

/// The paper's title.
pub(super) const TITLE: &str = "Cisco UCS Virtual Interface Card 1240 and 1280 network performance on RHEL 6.2";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    pktgen: Pktgen,
    tcp: Tcp,
    testbed: Testbed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pktgen {
    expander_gigabits: f64,
    vic_gigabits: f64,
    gain_percent: f64,
    share_of_pcie_percent: f64,
    pcie_gigabits: f64,
    share_of_ports_percent: f64,
    ports_gigabits: f64,
    expander_small_megapackets: f64,
    expander_large_kilopackets: f64,
    vic_small_megapackets: f64,
    vic_large_kilopackets: f64,
    small_packet_bytes: f64,
    large_packet_bytes: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tcp {
    single_flow: f64,
    single_flow_dual_fabric: f64,
    multi_flow: f64,
    multi_flow_dual_fabric: f64,
    multi_flow_expander: f64,
    multi_flow_expander_dual_fabric: f64,
    expander_gain_single_fabric_percent: f64,
    expander_gain_dual_fabric_percent: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Testbed {
    port_gigabits: f64,
    mtu: u64,
    pcie_generation: u32,
    pcie_lanes: u32,
}

/// Recomputes the paper.
#[must_use]
pub fn cisco_vic() -> Replay {
    let printed: Printed =
        toml::from_str(include_str!("../../data/cisco-vic.toml")).expect("the embedded data file is well formed");
    let (pktgen, tcp) = (&printed.pktgen, &printed.tcp);
    let items = vec![
        single_flow(&printed),
        dual_fabric(tcp),
        pcie_share(&printed),
        ratio(
            "ports-share",
            "VIC 1240 against its ports, per cent",
            pktgen.share_of_ports_percent,
            0,
            (pktgen.vic_gigabits, pktgen.ports_gigabits),
            0.0,
        ),
        ratio(
            "pktgen-gain",
            "gain of the expander with pktgen, per cent",
            pktgen.gain_percent,
            0,
            (pktgen.expander_gigabits, pktgen.vic_gigabits),
            100.0,
        ),
        ratio(
            "single-fabric-gain",
            "gain of the expander, many flows, one fabric, per cent",
            tcp.expander_gain_single_fabric_percent,
            0,
            (tcp.multi_flow_expander, tcp.multi_flow),
            100.0,
        ),
        ratio(
            "dual-fabric-gain",
            "gain of the expander, many flows, two fabrics, per cent",
            tcp.expander_gain_dual_fabric_percent,
            0,
            (tcp.multi_flow_expander_dual_fabric, tcp.multi_flow_dual_fabric),
            100.0,
        ),
        packets(
            "expander-large",
            pktgen.expander_large_kilopackets,
            1e3,
            0.5,
            pktgen.large_packet_bytes,
            pktgen.expander_gigabits,
        ),
        packets(
            "expander-small",
            pktgen.expander_small_megapackets,
            1e6,
            0.05,
            pktgen.small_packet_bytes,
            pktgen.expander_gigabits,
        ),
        packets("vic-small", pktgen.vic_small_megapackets, 1e6, 0.05, pktgen.small_packet_bytes, pktgen.vic_gigabits),
        packets("477-kpps", pktgen.vic_large_kilopackets, 1e3, 0.5, pktgen.large_packet_bytes, pktgen.vic_gigabits),
    ];
    Replay { paper: TITLE.to_owned(), items }
}

fn single_flow(printed: &Printed) -> ReplayItem {
    let rate = BitRate(printed.testbed.port_gigabits * 1e9);
    let headers = headers::tcp(headers::IpVersion::V4, headers::Timestamps::Off);
    let ceiling = tcp::goodput(rate, Bytes(printed.testbed.mtu), ethernet::packet_overhead(0), headers).0 / 1e6;
    let value = printed.tcp.single_flow;
    ReplayItem {
        id: "E3.a".into(),
        what: "single TCP flow over one 10 Gbit/s port at MTU 9000".into(),
        printed: format!("{value} Mbit/s"),
        recomputed: format!(
            "at most {ceiling:.0} Mbit/s of payload fit: {:.1} % of the ceiling",
            value / ceiling * 100.0
        ),
        agrees: value <= ceiling,
        why_it_matters: "above what the wire carries: counted with headers, at the sender, or by a wrong clock".into(),
    }
}

fn dual_fabric(tcp: &Tcp) -> ReplayItem {
    let factor = tcp.single_flow_dual_fabric / tcp.single_flow;
    ReplayItem {
        id: "dual-fabric".into(),
        what: "one flow on each of two fabrics over one flow".into(),
        printed: format!("{} and {} Mbit/s", tcp.single_flow_dual_fabric, tcp.single_flow),
        recomputed: format!("{} / {} = {factor:.3}", tcp.single_flow_dual_fabric, tcp.single_flow),
        agrees: agrees_to(2.0, factor, 2),
        why_it_matters: "a flow never leaves its member link: two fabrics are exactly twice one".into(),
    }
}

fn pcie_share(printed: &Printed) -> ReplayItem {
    let pktgen = &printed.pktgen;
    let share = pktgen.expander_gigabits / pktgen.pcie_gigabits * 100.0;
    let testbed = &printed.testbed;
    let of_ceiling = |max_payload: u64| {
        let link = Link::new(testbed.pcie_generation, testbed.pcie_lanes, Bytes(max_payload), Bytes(4096));
        let ceiling = link.expect("generation 2 has 16 lanes").read(Bytes(4096)).0 / 1e9;
        format!(
            "{:.1} % of {ceiling:.2} Gbit/s with payloads of {max_payload} B",
            pktgen.expander_gigabits / ceiling * 100.0
        )
    };
    ReplayItem {
        id: "pcie-share".into(),
        what: "pktgen with expander against PCIe, per cent".into(),
        printed: format!("{:.2} % of {} Gbit/s", pktgen.share_of_pcie_percent, pktgen.pcie_gigabits),
        recomputed: format!("{share:.2} %; {}, {}", of_ceiling(128), of_ceiling(256)),
        agrees: agrees_to(pktgen.share_of_pcie_percent, share, 2),
        why_it_matters:
            "the division is right and its base is not a ceiling: packets have headers, and the slot is all but full"
                .into(),
    }
}

/// A ratio in per cent of `pair.0` over `pair.1`, less `base` where a gain is printed.
fn ratio(id: &str, what: &str, printed: f64, decimals: i32, pair: (f64, f64), base: f64) -> ReplayItem {
    let value = pair.0 / pair.1 * 100.0 - base;
    ReplayItem {
        id: id.into(),
        what: what.into(),
        printed: format!("{printed}"),
        recomputed: format!("{} / {} = {value:.2}", pair.0, pair.1),
        agrees: agrees_to(printed, value, decimals),
        why_it_matters: "rounded or cut off, it follows from the printed rates".into(),
    }
}

/// A packet rate times its size against the printed maximum, within half a unit of the rate's last digit. A rate at one
/// end of the sweep may be below the maximum only if the sweep reaches it elsewhere.
fn packets(id: &str, rate: f64, unit: f64, half_digit: f64, bytes: f64, maximum: f64) -> ReplayItem {
    /// Within this share of the maximum, a rate is where the maximum was reached or beside it.
    const NEAR: f64 = 0.03;
    let gigabits = |rate: f64| rate * unit * bytes * 8.0 / 1e9;
    let value = gigabits(rate);
    let tolerance = gigabits(half_digit) + maximum * NEAR;
    ReplayItem {
        id: id.into(),
        what: format!("packet rate at {bytes} B against the printed bandwidth"),
        printed: format!("{rate} x {unit:.0} packets/s, {maximum} Gbit/s"),
        recomputed: format!("{rate} x {unit:.0} x {bytes} B x 8 = {value:.2} Gbit/s"),
        agrees: (value - maximum).abs() <= tolerance,
        why_it_matters:
            "rate times size is bandwidth; where it is not, one of the two figures belongs to another point".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_single_flow_and_the_packet_rate_at_9000_bytes_disagree() {
        let replay = cisco_vic();
        let found: Vec<&str> = replay.disagreements().map(|item| item.id.as_str()).collect();
        assert_eq!(found, ["E3.a", "477-kpps"]);
        let text = |id: &str| {
            let found = replay.items.iter().find(|item| item.id == id);
            found.expect(id).recomputed.clone()
        };
        assert!(text("E3.a").contains("9914 Mbit/s"));
        assert!(text("477-kpps").contains("34.34 Gbit/s"));
        assert!(text("pcie-share").contains("84.61 %; 97.8 % of 55.35"), "{}", text("pcie-share"));
    }
}
