//! IDT 89PES24T6G2 PCI Express switch report: the framing model, and totals that a link cannot
//! carry in one direction.
//!
//! Units: Gbit/s, and "MB/S" as printed, assumed to be 10^6 bytes a second (the report does not
//! define it).

use linerate_model::{Bytes, metric};
use serde::Deserialize;

use super::follows::replay;
use super::{Replay, ReplayItem, agrees_to, item};
use linerate_analysis::limits::fibre_channel;
use linerate_analysis::limits::pcie::{Link, LinkLayerPackets};

/// The paper's title.
pub(super) const TITLE: &str = "IDT 89PES24T6G2 PCI Express switch performance report";

/// Bits per second in a decimal megabyte per second.
const MEGABYTE: f64 = 8e6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    framing: Framing,
    totals: Totals,
    table_3: Table3,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Framing {
    generation: u32,
    lanes: u32,
    payload_bytes: u64,
    both_ways_gigabits: f64,
    efficiency_percent_about: f64,
    raw_gigabits: f64,
    encoded_gigabits: f64,
    other_percent_at_most: f64,
    dllps: u64,
    dllp_bytes: u64,
    dllps_per_packets: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Totals {
    table_1_switch_write: f64,
    table_2_write: f64,
    fibres_in_table_2: f64,
    fibre_channel_speed: u32,
    network_gigabits: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table3 {
    line_megabits: f64,
    change_percent: Vec<f64>,
    step_megabits: f64,
    identical_rows: [String; 2],
    sizes: u32,
}

/// Recomputes the paper.
#[must_use]
pub fn idt_pcie() -> Replay {
    replay(TITLE, include_str!("../../data/idt-pcie.toml"), items)
}

fn items(printed: &Printed) -> Vec<ReplayItem> {
    vec![
        encoding(printed),
        bandwidth(printed),
        both_ways(printed),
        efficiency(printed),
        link_layer(printed),
        completions(printed),
        sources(printed),
        identical_rows(printed),
        search_step(printed),
    ]
}

/// Returns the report's link with maximum payloads of `max_payload` bytes.
fn link(framing: &Framing, max_payload: u64) -> Link {
    // Reads are not limited by their request size here, which keeps the ceiling an upper one.
    Link::new(framing.generation, framing.lanes, Bytes(max_payload), Bytes(4096))
        .expect("the report's link exists")
}

fn encoding(printed: &Printed) -> ReplayItem {
    let framing = &printed.framing;
    // The report adds both directions of a full-duplex link.
    let rate = 2.0 * link(framing, 128).rate.0 / 1e9;
    item(
        "line-code",
        "eight lanes after the line code",
        format!("{} of {} Gbit/s", framing.encoded_gigabits, framing.raw_gigabits),
        format!("2 directions x {} lanes x 5 GT/s x 8/10 = {rate} Gbit/s", framing.lanes),
        agrees_to(framing.encoded_gigabits, rate, 2),
        "Right for the sum of both directions.",
    )
}

/// Returns the payload of one direction in packets of the report's size, Gbit/s.
fn one_way(framing: &Framing) -> f64 {
    link(framing, 128).write(Bytes(framing.payload_bytes)).0 / 1e9
}

fn bandwidth(printed: &Printed) -> ReplayItem {
    let framing = &printed.framing;
    let (packet, overhead) = (framing.payload_bytes, link(framing, 128).request_overhead().0);
    let value = 2.0 * one_way(framing);
    item(
        metric::BANDWIDTH.name,
        "payload bandwidth of eight lanes in packets of 64 B",
        format!("{} Gbit/s", framing.both_ways_gigabits),
        format!(
            "{} Gbit/s x {packet} / ({packet} + {overhead}) = {value:.2} Gbit/s",
            framing.encoded_gigabits
        ),
        agrees_to(framing.both_ways_gigabits, value, 2),
        "The arithmetic is right, but its interpretation is not: see 48.76-gigabits.",
    )
}

fn both_ways(printed: &Printed) -> ReplayItem {
    let framing = &printed.framing;
    let value = one_way(framing);
    item(
        "48.76-gigabits",
        "bandwidth of one transfer on eight lanes in packets of 64 B",
        format!("{} of {} Gbit/s", framing.both_ways_gigabits, framing.encoded_gigabits),
        format!(
            "{value:.2} of {} Gbit/s: a transfer has one direction",
            framing.encoded_gigabits / 2.0
        ),
        agrees_to(framing.both_ways_gigabits, value, 2),
        "Figures 2 and 4 add both directions without saying so. A reader who sizes a card by them \
            buys half of what is needed (E5.b).",
    )
}

fn efficiency(printed: &Printed) -> ReplayItem {
    let framing = &printed.framing;
    let percent = one_way(framing) / (framing.encoded_gigabits / 2.0) * 100.0;
    let (about, other) = (framing.efficiency_percent_about, framing.other_percent_at_most);
    // The report subtracts shares of three different bases from 100 %. The correct budget
    // multiplies them.
    let left = framing.encoded_gigabits / framing.raw_gigabits * percent * (1.0 - other / 100.0);
    let added = 100.0
        - (100.0 - framing.encoded_gigabits / framing.raw_gigabits * 100.0)
        - (100.0 - about)
        - other;
    item(
        "76.2-percent",
        "payload share of the link in packets of 64 B",
        format!("close to {about} %"),
        format!(
            "{0} / ({0} + {1}) = {percent:.1} %; with line code and {other} % for other packets \
                {left:.1} % of the raw rate, and {added:.0} % if the printed shares are added",
            framing.payload_bytes,
            link(framing, 128).request_overhead().0
        ),
        agrees_to(about, percent, 0),
        "The report adds shares of three different bases, so its budget is an eighth of the raw \
            rate too low (E5.a).",
    )
}

fn link_layer(printed: &Printed) -> ReplayItem {
    let framing = &printed.framing;
    let Framing { payload_bytes, dllps, dllp_bytes, dllps_per_packets, .. } = *framing;
    let mut with = link(framing, 128);
    let bare = with.write(Bytes(framing.payload_bytes)).0;
    // This variant repeats the report's own count of link-layer packets.
    with.dllp = LinkLayerPackets::Idt;
    let value = with.write(Bytes(framing.payload_bytes)).0;
    let percent = value / with.rate.0 * 100.0;
    let lost = (1.0 - value / bare) * 100.0;
    let overhead = with.request_overhead().0;
    item(
        "72.7-percent",
        "share of link-layer packets, with packets of 64 B",
        format!("up to {} %", framing.other_percent_at_most),
        format!(
            "{dllps} x {dllp_bytes} B for {dllps_per_packets} packets: {payload_bytes} / \
                ({payload_bytes} + {overhead}) = \
             {percent:.1} %, {:.2} Gbit/s both ways: {lost:.1} % less",
            2.0 * value / 1e9,
        ),
        (framing.other_percent_at_most - lost).abs() < 1.0,
        "Figure 4 and the budget use two models. They differ threefold at 64 B, and above 1 KB \
            figure 4 loses almost nothing.",
    )
}

fn completions(printed: &Printed) -> ReplayItem {
    let framing = &printed.framing;
    let ceiling = |max_payload: u64| link(framing, max_payload).read(Bytes(4096)).0 / MEGABYTE;
    let value = printed.totals.table_1_switch_write;
    item(
        "E5.f-table-1",
        "total of table 1 with the switch, all writes to storage",
        format!("{value} MB/s"),
        format!(
            "completions of 128 B carry at most {:.0} MB/s, of 256 B {:.0}",
            ceiling(128),
            ceiling(256)
        ),
        // The smaller payload is the default after reset, and the report names none.
        value <= ceiling(128),
        "The report uses larger payloads than the default, binary megabytes, or the sum of both \
            directions. It does not state which.",
    )
}

fn sources(printed: &Printed) -> ReplayItem {
    let totals = &printed.totals;
    let fibre = fibre_channel::speed(totals.fibre_channel_speed).expect("8GFC is known");
    let fibre = fibre.bandwidth(fibre_channel::LARGEST_PAYLOAD).0 / MEGABYTE;
    let network = totals.network_gigabits * 1e9 / MEGABYTE;
    // Each source can deliver only once in one direction.
    let most = totals.fibres_in_table_2 * fibre + network;
    item(
        "E5.f-table-2",
        "total of table 2, all writes",
        format!("{} MB/s", totals.table_2_write),
        format!(
            "{} x {fibre:.1} + {network:.0} = {most:.0} MB/s is the most that its sources carry in \
                one direction",
            totals.fibres_in_table_2
        ),
        totals.table_2_write <= most,
        "The report counts the network in both directions, or its unit is binary. The totals of \
            the two tables cannot be compared.",
    )
}

fn identical_rows(printed: &Printed) -> ReplayItem {
    let table = &printed.table_3;
    let [writes, reads] = &table.identical_rows;
    item(
        "identical-rows",
        "Ethernet of table 3 with the switch, beside two different storage loads",
        format!("the same for {writes} and {reads}"),
        format!("all {} sizes, digit for digit", table.sizes),
        // Two measured rows that agree in every digit are a fact of print and need no computation.
        false,
        "Two runs of a host at its limit do not agree in every digit. One row is a copy, so one \
            comparison is lost (E5.g).",
    )
}

fn search_step(printed: &Printed) -> ReplayItem {
    let table = &printed.table_3;
    let step = table.step_megabits / table.line_megabits * 100.0;
    let steps: Vec<String> =
        table.change_percent.iter().map(|change| format!("{:+.1}", change / step)).collect();
    // Two rates known to a step each may differ by two steps by chance; and a switch that helps,
    // helps in every row.
    let shown = table.change_percent.iter().all(|change| *change > 2.0 * step);
    item(
        "search-step",
        "change of Ethernet by the switch, which \"sometimes improves\" it",
        format!(
            "{} %",
            table.change_percent.iter().map(|c| format!("{c:+.1}")).collect::<Vec<_>>().join(", ")
        ),
        format!(
            "the search moves in steps of {} of {} Mbit/s = {step:.2} % of the line: {} steps",
            table.step_megabits,
            table.line_megabits,
            steps.join(", ")
        ),
        shown,
        "The search cannot resolve such changes, and no run was repeated. The report shows neither \
            a gain nor a loss.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_listed_figures_disagree() {
        let replay = idt_pcie();
        let found: Vec<&str> = replay.disagreements().map(|item| item.id.as_str()).collect();
        assert_eq!(
            found,
            [
                "48.76-gigabits",
                "76.2-percent",
                "72.7-percent",
                "E5.f-table-1",
                "E5.f-table-2",
                "identical-rows",
                "search-step"
            ]
        );
        let text = |id: &str| replay.recomputed(id);
        assert!(text("bandwidth").contains("= 48.76 Gbit/s"));
        assert!(text("48.76-gigabits").contains("24.38 of 32"));
        // docs/methodology/papers.md#printed-figures, S5: E5.a.
        assert!(
            text("76.2-percent")
                .contains("= 76.2 %; with line code and 15 % for other packets 51.8 %")
        );
        assert!(text("76.2-percent").contains("and 40 % if"));
        assert!(
            text("72.7-percent")
                .contains("2 x 8 B for 4 packets: 64 / (64 + 24) = 72.7 %, 46.55 Gbit/s"),
            "{}",
            text("72.7-percent")
        );
        assert!(
            text("search-step").contains("= 0.71 % of the line: +0.4, -0.6, +2.8 steps"),
            "{}",
            text("search-step")
        );
        assert!(text("E5.f-table-1").contains("3459 MB/s"));
        assert!(text("E5.f-table-2").contains("= 2903 MB/s"));
    }
}
