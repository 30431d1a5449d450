//! HP 9000 N4000 FTP over Gigabit Ethernet (Mier, 1999): client scaling, sinks, and extrapolations
//! of the text.
//!
//! Units: Mbit/s as the switch's SNMP counters showed them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::follows::replay;
use super::{Replay, ReplayItem, agrees_to, item, link_ceiling};

/// The paper's title.
pub(super) const TITLE: &str = "HP 9000 N4000 FTP over Gigabit Ethernet, Mier Communications 1999";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    clients_null_sink: BTreeMap<String, f64>,
    clients_disk_sink: BTreeMap<String, f64>,
    null_over_disk: f64,
    clients_to_saturate: f64,
    sustained: f64,
    peak: f64,
    cpu_percent: f64,
    io_dual_cards: f64,
    io_dual_card_megabits: f64,
    io_single_cards: f64,
    io_single_card_megabits: f64,
    io_total_gigabits: f64,
    link_megabits: f64,
    mtu: u64,
}

/// Recomputes the paper.
#[must_use]
pub fn hp_ftp() -> Replay {
    replay(TITLE, include_str!("../../data/hp-ftp.toml"), items)
}

fn items(printed: &Printed) -> Vec<ReplayItem> {
    vec![
        io_total(printed),
        io_card(printed),
        share(printed),
        peak(printed),
        server_limit(printed),
        scaling(printed),
        sinks(printed),
        clients(printed),
    ]
}

fn io_total(printed: &Printed) -> ReplayItem {
    let total = printed.io_dual_cards * printed.io_dual_card_megabits
        // Both kinds of cards are added as the text does, although their unit is wrong (E4.a).
        + printed.io_single_cards * printed.io_single_card_megabits;
    item(
        "io-total",
        "capacity of all I/O cards",
        format!("little more than {} Gbit/s", printed.io_total_gigabits),
        format!(
            "{} x {} + {} x {} = {total} Mbit/s",
            printed.io_dual_cards,
            printed.io_dual_card_megabits,
            printed.io_single_cards,
            printed.io_single_card_megabits
        ),
        agrees_to(printed.io_total_gigabits, total / 1e3, 0),
        "The sum is right. Its terms have the wrong unit: see E4.a.",
    )
}

fn io_card(printed: &Printed) -> ReplayItem {
    item(
        "E4.a",
        "rate of one I/O card, against the rate of one NIC in it",
        format!("{} Mbit/s a card", printed.io_dual_card_megabits),
        format!("{} Mbit/s went through one NIC", printed.sustained),
        // One NIC sits in one card, so it cannot deliver more than its card carries.
        printed.sustained <= printed.io_dual_card_megabits,
        "The report mistakes bytes for bits. The server's I/O carries eight times the rate that \
            the text compares with.",
    )
}

fn share(printed: &Printed) -> ReplayItem {
    let ceiling = link_ceiling(printed.link_megabits, printed.mtu);
    item(
        "link-share",
        "sustained rate against the link's ceiling",
        format!("{} Mbit/s", printed.sustained),
        format!(
            "{} / {ceiling:.1} = {:.1} % of the ceiling",
            printed.sustained,
            printed.sustained / ceiling * 100.0
        ),
        printed.sustained <= ceiling,
        "Possible. A fifth of the link was unused and the CPUs were at 36 %, so the test does not \
            show that the server is the limit.",
    )
}

fn peak(printed: &Printed) -> ReplayItem {
    item(
        "S4.4",
        "best second against the sustained rate",
        format!("{} Mbit/s at best, {} sustained", printed.peak, printed.sustained),
        format!(
            "{} / {} = {:.3}",
            printed.peak,
            printed.sustained,
            printed.peak / printed.sustained
        ),
        printed.peak >= printed.sustained && printed.peak <= printed.link_megabits,
        "The best second is seven per cent above the average, so the average is no ceiling of the \
            server.",
    )
}

fn server_limit(printed: &Printed) -> ReplayItem {
    /// Utilisation in per cent below which nothing is called the limit.
    const BUSY: f64 = 90.0;
    item(
        "E4.b",
        "the claimed limit of the server",
        "the server's limits",
        format!(
            "CPUs at {} %, the link at {:.1} %: no observed resource was full",
            printed.cpu_percent,
            printed.sustained / printed.link_megabits * 100.0
        ),
        printed.cpu_percent >= BUSY,
        "The report claims a limit without evidence. The test did not observe the clients, the \
            disks, or the TCP windows.",
    )
}

fn scaling(printed: &Printed) -> ReplayItem {
    let null = &printed.clients_null_sink;
    let (one, two, four) = (null["1"], null["2"], null["4"]);
    item(
        "E4.d",
        "throughput against the number of clients",
        format!("{one}, {two} and {four} Mbit/s with 1, 2 and 4 clients"),
        format!(
            "{:.2} and {:.2} times the rate of one client; no run with 3 clients",
            two / one,
            four / one
        ),
        // The knee lies between two measured points unless there is one for three clients.
        null.contains_key("3"),
        "The gain of each client does not fall steadily. Without a run with three clients the knee \
            is unknown.",
    )
}

fn sinks(printed: &Printed) -> ReplayItem {
    let pairs: Vec<(f64, f64)> = printed
        .clients_disk_sink
        .iter()
        // Only numbers of clients that were measured with both sinks give a ratio.
        .filter_map(|(clients, disk)| {
            printed.clients_null_sink.get(clients).map(|null| (*null, *disk))
        })
        .collect();
    let ratios: Vec<f64> = pairs.iter().map(|(null, disk)| null / disk).collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let geometric =
        // Ratios multiply, so their fair mean is geometric.
        (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let of_sums =
        pairs.iter().map(|pair| pair.0).sum::<f64>() / pairs.iter().map(|pair| pair.1).sum::<f64>();
    let shown: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    item(
        "E4.ratio",
        "rate with a null sink over rate with a disk sink",
        format!("averages to {}:1", printed.null_over_disk),
        format!(
            "{}: mean {mean:.2}, geometric mean {geometric:.2}, ratio of sums {of_sums:.2}",
            shown.join(" and ")
        ),
        // The text does not say which mean it used.
        [mean, geometric, of_sums].iter().any(|value| agrees_to(printed.null_over_disk, *value, 1)),
        "None of the three means is 4. Average ratios geometrically, or as the ratio of the sums.",
    )
}

fn clients(printed: &Printed) -> ReplayItem {
    let (one, two) = (printed.clients_disk_sink["1"], printed.clients_disk_sink["2"]);
    // Two clients share the rate, so half of it belongs to each.
    let (by_one, by_two) = (printed.sustained / one, printed.sustained / (two / 2.0));
    item(
        "E4.clients",
        "number of clients with disks that saturates one NIC",
        format!("about {}", printed.clients_to_saturate),
        format!(
            "{} / {one} = {by_one:.1}, {} / {} = {by_two:.1}; from one to two clients the rate \
                grew {:.2} times",
            printed.sustained,
            printed.sustained,
            two / 2.0,
            two / one
        ),
        printed.clients_to_saturate <= by_one.max(by_two).ceil(),
        "A plan for twenty clients buys twice as many as needed. Two clients cannot reach more \
            than twice the rate of one, so the run with one client is suspect.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_card_the_limit_the_curve_the_ratio_and_the_clients_disagree() {
        let replay = hp_ftp();
        let found: Vec<&str> = replay.disagreements().map(|item| item.id.as_str()).collect();
        assert_eq!(found, ["E4.a", "E4.b", "E4.d", "E4.ratio", "E4.clients"]);
        let text = |id: &str| replay.recomputed(id);
        assert!(
            text("E4.ratio").contains("mean 3.51, geometric mean 3.33, ratio of sums 2.96"),
            "{}",
            text("E4.ratio")
        );
        assert!(text("E4.clients").contains("= 12.1") && text("E4.clients").contains("= 8.3"));
        assert!(text("link-share").contains("80.3 %"));
        assert!(text("io-total").contains("5280"));
    }
}
