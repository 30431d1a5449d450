//! IDT 89PES24T6G2 PCI Express switch report: the framing model, and totals that a link cannot carry one way.
//!
//! Units: Gbit/s, and "MB/S" as printed, taken as 10^6 bytes a second (the report does not say).

use linerate_model::Bytes;
use serde::Deserialize;

use super::{Replay, ReplayItem, agrees_to};
use crate::limits::{fibre_channel, pcie::Link};

/// The paper's title.
pub(super) const TITLE: &str = "IDT 89PES24T6G2 PCI Express switch performance report";

/// Bits per second in a decimal megabyte per second.
const MEGABYTE: f64 = 8e6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    framing: Framing,
    totals: Totals,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Framing {
    generation: u32,
    lanes: u32,
    payload_bytes: u64,
    both_ways_gigabits: f64,
    efficiency_percent_about: f64,
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

/// Recomputes the paper.
#[must_use]
pub fn idt_pcie() -> Replay {
    let printed: Printed =
        toml::from_str(include_str!("../../data/idt-pcie.toml")).expect("the embedded data file is well formed");
    let items = vec![bandwidth(&printed), efficiency(&printed), completions(&printed), sources(&printed)];
    Replay { paper: TITLE.to_owned(), items }
}

fn item(id: &str, what: &str, printed: String, recomputed: String, agrees: bool, why: &str) -> ReplayItem {
    ReplayItem { id: id.into(), what: what.into(), printed, recomputed, agrees, why_it_matters: why.into() }
}

/// The report's link with maximum payloads of `max_payload` bytes.
fn link(framing: &Framing, max_payload: u64) -> Link {
    Link::new(framing.generation, framing.lanes, Bytes(max_payload), Bytes(4096)).expect("the report's link exists")
}

fn bandwidth(printed: &Printed) -> ReplayItem {
    let framing = &printed.framing;
    let link = link(framing, 128);
    let one_way = link.write(Bytes(framing.payload_bytes)).0 / 1e9;
    item(
        "bandwidth",
        "payload bandwidth of eight lanes in packets of 64 B",
        format!("{} Gbit/s", framing.both_ways_gigabits),
        format!(
            "{2} Gbit/s x {0} / ({0} + {3}) = {one_way:.2} Gbit/s a direction, {1:.2} both ways",
            framing.payload_bytes,
            2.0 * one_way,
            link.rate.0 / 1e9,
            link.request_overhead().0
        ),
        agrees_to(framing.both_ways_gigabits, 2.0 * one_way, 2),
        "the figure adds both directions, which the report's curves do not say (E5.b)",
    )
}

fn efficiency(printed: &Printed) -> ReplayItem {
    /// How far "close to" reaches, in points.
    const CLOSE: f64 = 2.5;
    let framing = &printed.framing;
    let link = link(framing, 128);
    let percent = link.write(Bytes(framing.payload_bytes)).0 / link.rate.0 * 100.0;
    item(
        "efficiency",
        "share of the link that is payload, packets of 64 B",
        format!("close to {} %", framing.efficiency_percent_about),
        format!("{0} / ({0} + {1}) = {percent:.1} %", framing.payload_bytes, link.request_overhead().0),
        (percent - framing.efficiency_percent_about).abs() <= CLOSE,
        "framing alone takes a quarter; the report's budget then mixes shares of different bases (E5.a)",
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
        format!("completions of 128 B carry at most {:.0} MB/s, of 256 B {:.0}", ceiling(128), ceiling(256)),
        value <= ceiling(128),
        "larger payloads than assumed, binary megabytes, or both directions added: the report does not say which",
    )
}

fn sources(printed: &Printed) -> ReplayItem {
    let totals = &printed.totals;
    let fibre = fibre_channel::speed(totals.fibre_channel_speed).expect("8GFC is known");
    let fibre = fibre.bandwidth(fibre_channel::LARGEST_PAYLOAD).0 / MEGABYTE;
    let network = totals.network_gigabits * 1e9 / MEGABYTE;
    let most = totals.fibres_in_table_2 * fibre + network;
    item(
        "E5.f-table-2",
        "total of table 2, all writes",
        format!("{} MB/s", totals.table_2_write),
        format!(
            "{} x {fibre:.1} + {network:.0} = {most:.0} MB/s is all that its sources carry one way",
            totals.fibres_in_table_2
        ),
        totals.table_2_write <= most,
        "the network is counted in both directions or the unit is binary: totals of the two tables do not compare",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_two_totals_disagree() {
        let replay = idt_pcie();
        let found: Vec<&str> = replay.disagreements().map(|item| item.id.as_str()).collect();
        assert_eq!(found, ["E5.f-table-1", "E5.f-table-2"]);
        let text = |id: &str| {
            let found = replay.items.iter().find(|item| item.id == id);
            found.expect(id).recomputed.clone()
        };
        assert!(text("bandwidth").contains("24.38 Gbit/s a direction, 48.76"));
        assert!(text("efficiency").contains("76.2 %"));
        assert!(text("E5.f-table-1").contains("3459 MB/s"));
        assert!(text("E5.f-table-2").contains("= 2903 MB/s"));
    }
}
