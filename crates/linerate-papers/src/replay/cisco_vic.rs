//! Cisco UCS VIC 1240/1280 on RHEL 6.2: pktgen maxima, table 7, and the ratios the text draws from
//! them.
//!
//! Units as printed. Values that the paper leaves open (number of flows, payload size of PCIe) are
//! bounded, not guessed.

use linerate_model::Bytes;
use serde::Deserialize;

use super::follows::replay;
use super::{Replay, ReplayItem, agrees_to, item, link_ceiling};
use linerate_analysis::limits::lag;
use linerate_analysis::limits::pcie::Link;

/// The paper's title.
pub(super) const TITLE: &str =
    "Cisco UCS Virtual Interface Card 1240 and 1280 network performance on RHEL 6.2";

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
    share_of_pcie_percent: f64,
    pcie_gigabits: f64,
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
    replay(TITLE, include_str!("../../data/cisco-vic.toml"), items)
}

fn items(printed: &Printed) -> Vec<ReplayItem> {
    let (pktgen, tcp) = (&printed.pktgen, &printed.tcp);
    let (vic, expander) = (pktgen.vic_gigabits, pktgen.expander_gigabits);
    // Each size with the unit of its rates, and half of their last printed digit.
    let large = (pktgen.large_packet_bytes, 1e3, 0.5);
    let small = (pktgen.small_packet_bytes, 1e6, 0.05);
    vec![
        single_flow(printed),
        dual_fabric(tcp),
        pcie_share(printed),
        links_filled(printed),
        second_limit(tcp),
        packets("expander-large", pktgen.expander_large_kilopackets, large, expander),
        packets("expander-small", pktgen.expander_small_megapackets, small, expander),
        packets("vic-small", pktgen.vic_small_megapackets, small, vic),
        packets("477-kpps", pktgen.vic_large_kilopackets, large, vic),
    ]
}

fn single_flow(printed: &Printed) -> ReplayItem {
    let ceiling = link_ceiling(printed.testbed.port_gigabits * 1e3, printed.testbed.mtu);
    let value = printed.tcp.single_flow;
    item(
        "E3.a",
        "single TCP flow over one 10 Gbit/s port at MTU 9000",
        format!("{value} Mbit/s"),
        format!(
            "the link carries at most {ceiling:.0} Mbit/s of payload: {:.1} % of the ceiling",
            value / ceiling * 100.0
        ),
        value <= ceiling,
        "The rate is above what the link carries. It includes headers, was counted at the sender, \
            or the clock was wrong.",
    )
}

fn dual_fabric(tcp: &Tcp) -> ReplayItem {
    let factor = tcp.single_flow_dual_fabric / tcp.single_flow;
    item(
        "dual-fabric",
        "one flow on each of two fabrics over one flow",
        format!("{} and {} Mbit/s", tcp.single_flow_dual_fabric, tcp.single_flow),
        format!("{} / {} = {factor:.3}", tcp.single_flow_dual_fabric, tcp.single_flow),
        agrees_to(2.0, factor, 2),
        "A flow never leaves its member link, so two fabrics carry exactly twice as much as one.",
    )
}

/// Compares the PCIe share. The paper omits the maximum payload, so the ceiling is one of two.
fn pcie_share(printed: &Printed) -> ReplayItem {
    let pktgen = &printed.pktgen;
    // The paper does not name the maximum payload, so both usual ones are tried.
    let shares = [128, 256].map(|max_payload| (max_payload, expander_share(printed, max_payload)));
    let told = shares.map(|(max_payload, (share, ceiling))| {
        format!("{share:.1} % of {ceiling:.2} Gbit/s with payloads of {max_payload} B")
    });
    item(
        "E3.d-mps",
        "pktgen with expander, as a share of the PCIe slot's rate",
        format!("{:.2} % of {} Gbit/s", pktgen.share_of_pcie_percent, pktgen.pcie_gigabits),
        told.join(", "),
        // One matching setting is enough to explain the printed share.
        shares.iter().any(|(_, (share, _))| agrees_to(pktgen.share_of_pcie_percent, *share, 2)),
        "Packets have headers. The slot was almost full where the paper leaves a seventh of it \
            unused. The share depends on the maximum payload size (MPS), which the paper does not \
            give.",
    )
}

/// Returns the expander's rate as a share of what PCIe carries, per cent, and that rate in Gbit/s.
fn expander_share(printed: &Printed, max_payload: u64) -> (f64, f64) {
    let testbed = &printed.testbed;
    let link =
        // The largest read request leaves the fewest request packets, and so the highest ceiling.
        Link::new(testbed.pcie_generation, testbed.pcie_lanes, Bytes(max_payload), Bytes(4096));
    let ceiling = link.expect("generation 2 has 16 lanes").read(Bytes(4096)).0 / 1e9;
    (printed.pktgen.expander_gigabits / ceiling * 100.0, ceiling)
}

/// Compares rates in units of a single flow's. With greedy flows and an ideal hash, `n` flows fill
/// `k (1 - (1 - 1/k)^n)` of `k` links.
fn links_filled(printed: &Printed) -> ReplayItem {
    let tcp = &printed.tcp;
    let (two, four) = (tcp.multi_flow / tcp.single_flow, tcp.multi_flow_expander / tcp.single_flow);
    item(
        "E3.c-links",
        "links that \"multi flow\" fills (number of flows not given)",
        format!("{} and {} Mbit/s", tcp.multi_flow, tcp.multi_flow_expander),
        format!(
            "{two:.2} of 2 links and {four:.2} of 4; two flows fill {:.2} of 2 on average, four \
                {:.2} of 4",
            lag::occupancy(2, 2).links_used,
            lag::occupancy(4, 4).links_used
        ),
        // A ratio up to the number of links is possible for some number of flows.
        two <= 2.0 && four <= 4.0,
        "Possible. Without the number of flows, the hash cannot be judged by this figure.",
    )
}

fn second_limit(tcp: &Tcp) -> ReplayItem {
    let share = |dual: f64, single: f64| dual / (2.0 * single);
    let vic = share(tcp.multi_flow_dual_fabric, tcp.multi_flow);
    let expander = share(tcp.multi_flow_expander_dual_fabric, tcp.multi_flow_expander);
    item(
        "second-limit",
        "many flows on two fabrics, against twice one fabric",
        format!(
            "{} and {} Mbit/s",
            tcp.multi_flow_dual_fabric, tcp.multi_flow_expander_dual_fabric
        ),
        format!(
            "{vic:.2} and {expander:.2} of 2 x {} and 2 x {}",
            tcp.multi_flow, tcp.multi_flow_expander
        ),
        vic <= 1.0 && expander <= 1.0,
        "Possible. A second limit takes the rest: one queue, one socket's memory, or the host.",
    )
}

/// Compares a packet rate times its size with the printed maximum, within half a unit of the rate's
/// last digit. A rate at one end of the sweep may be below the maximum only if the sweep reaches it
/// elsewhere.
fn packets(
    id: &str,
    rate: f64,
    (bytes, unit, half_digit): (f64, f64, f64),
    maximum: f64,
) -> ReplayItem {
    /// Within this fraction of the maximum, a rate was measured at the maximum or next to it.
    const NEAR: f64 = 0.03;
    let gigabits = |rate: f64| rate * unit * bytes * 8.0 / 1e9;
    let value = gigabits(rate);
    // Half a unit of the last printed digit is the uncertainty of any printed figure.
    let tolerance = gigabits(half_digit) + maximum * NEAR;
    item(
        id,
        format!("packet rate at {bytes} B against the printed bandwidth"),
        format!("{rate} x {unit:.0} packets/s, {maximum} Gbit/s"),
        format!("{rate} x {unit:.0} x {bytes} B x 8 = {value:.2} Gbit/s"),
        (value - maximum).abs() <= tolerance,
        "Packet rate times packet size is bandwidth. If the two differ, one of them belongs to \
            another point of the sweep.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_listed_figures_disagree() {
        let replay = cisco_vic();
        let found: Vec<&str> = replay.disagreements().map(|item| item.id.as_str()).collect();
        assert_eq!(found, ["70.8-percent", "E3.a", "E3.d-mps", "477-kpps"]);
        let text = |id: &str| replay.recomputed(id);
        assert!(text("E3.a").contains("9914 Mbit/s"));
        assert!(text("477-kpps").contains("34.34 Gbit/s"));
        assert!(text("pcie-division").ends_with("= 84.609 %"));
        assert!(
            text("E3.d-mps").contains("97.8 % of 55.35")
                && text("E3.d-mps").contains("91.2 % of 59.36")
        );
        assert!(text("70.8-percent").contains("= 70.8 %"));
        assert!(
            text("E3.c-links").contains("1.28 of 2 links and 2.48 of 4"),
            "{}",
            text("E3.c-links")
        );
        assert!(text("second-limit").contains("0.89 and 0.78"));
    }
}
