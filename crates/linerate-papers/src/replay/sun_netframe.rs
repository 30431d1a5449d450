//! Sun Fire Gigabit Performance Characterization (NetFrame 0.8.0): tables 1 and 2 and the text's
//! statements about them.
//!
//! Units: Mbit/s as printed; the paper states neither layer nor direction (erratum E2.a). Errata
//! E2.a to E2.h and the three single-Schizo figures are those of
//! docs/methodology/papers.md#printed-figures, S2.

use linerate_model::Bytes;
use serde::Deserialize;

use super::follows::replay;
use super::{Replay, ReplayItem, agrees_to, item, link_ceiling};
use linerate_analysis::limits::pci::{self, Clock, Width};
use linerate_analysis::limits::{headers, tcp};

/// The paper's title.
pub(super) const TITLE: &str =
    "Sun Fire Gigabit Performance Characterization (NetFrame 0.8.0), Sun Microsystems";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    table_1: CostPerPacket,
    table_2: Maxima,
    text: Text,
    testbed: Testbed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostPerPacket {
    message_bytes: Vec<u64>,
    system_time_percent: Vec<f64>,
    instructions_per_packet: Vec<f64>,
    packets_per_interrupt: Vec<f64>,
    data_cache_miss_percent: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Maxima {
    single_connection: Maximum,
    single_cpu: Maximum,
    single_nic: Maximum,
    single_schizo: Maximum,
    io_assembly: Maximum,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Maximum {
    megabits: f64,
    kilopackets: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    maximum_direction: String,
    summary_single_schizo_megabits: f64,
    second_schizo_gain_percent: f64,
    two_nics_one_bus_megabits: f64,
    slot_66_mhz_gain_percent: f64,
    second_bus_gain_percent: f64,
    fifth_cpu_gain_percent: f64,
    system_time_below_percent: f64,
    instructions_around: f64,
    nics_announced: [u32; 2],
    nics_tested: u32,
    connections_announced: Vec<u32>,
    connections_used: Vec<u32>,
    caption_cpus: u32,
    machine_cpus: u32,
    two_schizos_gigabytes: f64,
    assembly_gigabytes: f64,
    deferred_acknowledgements: f64,
    draft_remarks: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Testbed {
    link_megabits: f64,
    mtu: u64,
    slots_33_mhz_per_schizo: u32,
    buses_per_schizo: Vec<Clock>,
    schizos: u32,
}

/// Bits per second in a Mbit/s.
const MEGA: f64 = 1e6;

/// Recomputes the paper.
#[must_use]
pub fn sun_netframe() -> Replay {
    replay(TITLE, include_str!("../../data/sun-netframe.toml"), items)
}

fn items(printed: &Printed) -> Vec<ReplayItem> {
    let mut items = vec![
        direction(printed),
        system_time(printed),
        instructions(printed),
        announced(printed),
        bus_mismatch(printed),
        message_sizes(printed),
        draft_remarks(printed),
        single_schizo(printed),
        second_schizo(printed),
        slot(printed),
        second_bus(printed),
        schizo_from_buses(printed),
        fifth_cpu(printed),
        bus_share(printed),
        interrupts(printed),
        cache_misses(printed),
    ];
    items.extend(packet_sizes(printed));
    items
}

/// Returns a gain in per cent as a factor.
fn times(gain_percent: f64) -> f64 {
    1.0 + gain_percent / 100.0
}

/// Returns the peak of all buses of one Schizo, in Mbit/s.
fn schizo_peak(testbed: &Testbed) -> f64 {
    testbed.buses_per_schizo.iter().map(|clock| pci::peak(Width::Bits64, *clock).0 / MEGA).sum()
}

fn direction(printed: &Printed) -> ReplayItem {
    let value = printed.table_2.single_connection.megabits;
    let ceiling = link_ceiling(printed.testbed.link_megabits, printed.testbed.mtu);
    item(
        "E2.a",
        "direction of the single connection's maximum, one connection each way",
        format!("{value} Mbit/s, direction: {}", printed.text.maximum_direction),
        format!(
            "one way: {value} / {ceiling:.1} = {:.1} % of the ceiling; both ways added: {value} / \
                {:.1} = {:.1} %",
            value / ceiling * 100.0,
            2.0 * ceiling,
            value / (2.0 * ceiling) * 100.0
        ),
        // Only a named direction makes the figure comparable.
        ["one way", "both ways"].contains(&printed.text.maximum_direction.as_str()),
        "The figure is either nearly all or only half of what the link carries. A figure without a \
            direction cannot be compared.",
    )
}

fn system_time(printed: &Printed) -> ReplayItem {
    let largest = printed.table_1.system_time_percent.iter().copied().fold(0.0, f64::max);
    let bound = printed.text.system_time_below_percent;
    item(
        "E2.c",
        "system time in table 1",
        format!("below {bound} %"),
        format!("largest of {:?} is {largest} %", printed.table_1.system_time_percent),
        // The text says "below", so the bound itself does not agree.
        largest < bound,
        "The bound is one of the values. Without intervals, 30 and 31 cannot be distinguished.",
    )
}

fn instructions(printed: &Printed) -> ReplayItem {
    /// Within this fraction of the figure, a series stays around it.
    const AROUND: f64 = 0.05;
    let values = &printed.table_1.instructions_per_packet;
    let around = printed.text.instructions_around;
    let (low, high) = (values[0], values[values.len() - 1]);
    item(
        "E2.d",
        "instructions per packet over message sizes",
        format!("stays around {around}"),
        format!(
            "{low} to {high}, rising at every step: {:+.1} % to {:+.1} % of {around}",
            (low / around - 1.0) * 100.0,
            (high / around - 1.0) * 100.0
        ),
        values.iter().all(|value| (value / around - 1.0).abs() <= AROUND),
        "A steady rise by a fifth is an effect of message size, not noise around a constant.",
    )
}

fn announced(printed: &Printed) -> ReplayItem {
    let text = &printed.text;
    let missing: Vec<&u32> =
        text.connections_announced.iter().filter(|n| !text.connections_used.contains(n)).collect();
    let agrees = text.nics_tested <= text.nics_announced[1]
        && missing.is_empty()
        && text.caption_cpus == text.machine_cpus;
    item(
        "E2.e",
        "announced tests against those reported",
        format!(
            "{} to {} NICs; connections {:?}; a caption with {} CPUs",
            text.nics_announced[0],
            text.nics_announced[1],
            text.connections_announced,
            text.caption_cpus
        ),
        format!(
            "{} NICs tested; connections {:?} used, {missing:?} never shown; up to {} CPUs",
            text.nics_tested, text.connections_used, text.machine_cpus
        ),
        agrees,
        "The report omits combinations without a reason. They were not run, or their results were \
            not shown.",
    )
}

fn bus_mismatch(printed: &Printed) -> ReplayItem {
    // The peak without any overhead is the most favourable reading of the text.
    let gigabytes = f64::from(printed.testbed.schizos) * schizo_peak(&printed.testbed) / 8e3;
    let (said, assembly) = (printed.text.two_schizos_gigabytes, printed.text.assembly_gigabytes);
    item(
        "E2.f",
        "rate of the I/O assembly against that of its two Schizos",
        format!("two Schizos {said} GB/s, assembly {assembly} GB/s, a mismatch is excluded"),
        format!(
            "{} x {:.2} Gbit/s / 8 = {gigabytes:.1} GB/s, above {assembly} GB/s",
            printed.testbed.schizos,
            schizo_peak(&printed.testbed) / 1e3
        ),
        agrees_to(said, gigabytes, 1) && gigabytes <= assembly,
        "The assembly is slower than its buses, so the buses alone cannot explain the maximum with \
            eight NICs.",
    )
}

fn message_sizes(printed: &Printed) -> ReplayItem {
    const KIBIBYTE: u64 = 1024;
    let headers = headers::tcp(headers::IpVersion::V4, headers::Timestamps::Off).0;
    let sums: Vec<u64> = printed.table_1.message_bytes.iter().map(|size| size + headers).collect();
    item(
        "E2.g",
        "message sizes of table 1",
        format!("{:?} B", printed.table_1.message_bytes),
        format!(
            "with {headers} B of headers: {sums:?}; the first is the MTU, the others are whole KiB"
        ),
        // Two rules are possible: each sum a whole number of KiB, or each the MTU. The table mixes
        // them.
        sums.iter().all(|sum| sum % KIBIBYTE == 0)
            || sums.iter().all(|sum| *sum == printed.testbed.mtu),
        "A message reduced by the headers fits one packet only at the MTU, and larger messages are \
            split anyway. The rows compare two rules.",
    )
}

fn draft_remarks(printed: &Printed) -> ReplayItem {
    let remarks = printed.text.draft_remarks;
    item(
        "E2.h",
        "state of the text",
        "published".to_owned(),
        format!(
            "{remarks} remarks of a draft remain: an open question on a table, a pending \
                comparison, and a pending reference"
        ),
        remarks == 0,
        "The pending points were never checked. The paper gives no repetitions and no dispersion.",
    )
}

fn single_schizo(printed: &Printed) -> ReplayItem {
    let table = printed.table_2.single_schizo.megabits;
    let summary = printed.text.summary_single_schizo_megabits;
    let gain = printed.text.second_schizo_gain_percent;
    let (eight, factor) = (printed.table_2.io_assembly.megabits, times(gain));
    let implied = eight / factor;
    item(
        "single-schizo",
        "maximum of a single Schizo, given three times",
        format!("{table} Mbit/s in table 2, {summary} Mbit/s in the summary"),
        format!("{eight} / {factor} = {implied:.0} Mbit/s from the gain of {gain} %"),
        // All three printed values describe one measurement, so both must follow.
        agrees_to(table, implied, 0) && agrees_to(summary, implied, 0),
        "The paper gives three values for one measurement, 3 % apart. Some of the effects that it \
            reports are smaller.",
    )
}

fn second_schizo(printed: &Printed) -> ReplayItem {
    /// Returns whether the gain lies between those from the table's and from the summary's figure
    /// for one Schizo.
    fn between(value: f64, low: f64, high: f64) -> bool {
        (low..=high).contains(&value)
    }
    let eight = printed.table_2.io_assembly.megabits;
    let (table, summary) =
        (printed.table_2.single_schizo.megabits, printed.text.summary_single_schizo_megabits);
    let (by_table, by_summary) = (eight / table, eight / summary);
    let gain = printed.text.second_schizo_gain_percent;
    item(
        "second-schizo",
        "gain of the second Schizo, against the two figures for one Schizo",
        format!("+{gain} %"),
        format!(
            "table 2: {eight} / {table} = {by_table:.3}; summary: {eight} / {summary} = \
                {by_summary:.3}"
        ),
        between(times(gain), by_table, by_summary),
        "The gain is real and sub-linear with either figure: at least 1.62 of an ideal 2.",
    )
}

fn slot(printed: &Printed) -> ReplayItem {
    let fast = printed.table_2.single_nic.megabits;
    let factor = times(printed.text.slot_66_mhz_gain_percent);
    let slow = fast / factor;
    let pair = printed.text.two_nics_one_bus_megabits;
    item(
        "slot",
        "one NIC in a 66 MHz slot over one in a 33 MHz slot, against two NICs on the 33 MHz bus",
        format!("+{} %", printed.text.slot_66_mhz_gain_percent),
        format!(
            "{fast} / {factor} = {slow:.0} Mbit/s for the slow slot; two of them reach {pair}, \
                less than {:.0}",
            2.0 * slow
        ),
        // Two cards on one bus cannot pass less than one or more than twice one.
        slow <= pair && pair <= 2.0 * slow,
        "One 33 MHz slot carries 544 Mbit/s. The paper does not print this figure, and a \
            reproduction needs it.",
    )
}

fn second_bus(printed: &Printed) -> ReplayItem {
    let one_bus = printed.text.two_nics_one_bus_megabits;
    let factor = times(printed.text.second_bus_gain_percent);
    let two_buses = one_bus * factor;
    let fast = printed.table_2.single_nic.megabits;
    let slow = fast / times(printed.text.slot_66_mhz_gain_percent);
    let sum = slow + fast;
    item(
        "second-bus",
        "two NICs on two buses over two on one bus, against what each reaches alone",
        format!("+{} %", printed.text.second_bus_gain_percent),
        format!(
            "{one_bus} x {factor} = {two_buses:.0} Mbit/s, below {slow:.0} + {fast} = {sum:.0}"
        ),
        two_buses <= sum,
        "Two buses are faster than one. The Schizo itself takes the remaining 7 %.",
    )
}

fn schizo_from_buses(printed: &Printed) -> ReplayItem {
    let (bus, slot) = (printed.text.two_nics_one_bus_megabits, printed.table_2.single_nic.megabits);
    let sum = bus + slot;
    let schizo = printed.table_2.single_schizo.megabits;
    item(
        "schizo-buses",
        "a Schizo's maximum against its two buses",
        format!("{schizo} Mbit/s with {} NICs", printed.testbed.slots_33_mhz_per_schizo + 1),
        format!(
            "33 MHz bus {bus} + 66 MHz slot {slot} = {sum} Mbit/s; the Schizo passes {:.0} %",
            schizo / sum * 100.0
        ),
        schizo <= sum,
        "The tree of buses explains the figure: no bus exceeds its limit.",
    )
}

fn fifth_cpu(printed: &Printed) -> ReplayItem {
    let gain = printed.text.fifth_cpu_gain_percent;
    let peak = printed.table_2.single_connection.megabits;
    let factor = times(gain);
    let four = peak / factor;
    item(
        "fifth-cpu",
        "one connection each way on four CPUs, derived from the gain of the fifth",
        format!("+{gain} % with five CPUs"),
        format!(
            "{peak} / {factor:.3} = {four:.0} Mbit/s with four, above the {} of one CPU",
            printed.table_2.single_cpu.megabits
        ),
        four > printed.table_2.single_cpu.megabits
            && peak <= link_ceiling(printed.testbed.link_megabits, printed.testbed.mtu),
        "Four CPUs reach 91 % of what one Gigabit link carries.",
    )
}

fn bus_share(printed: &Printed) -> ReplayItem {
    let bus = pci::peak(Width::Bits64, Clock::Mhz33).0 / MEGA;
    let all = f64::from(printed.testbed.schizos) * schizo_peak(&printed.testbed);
    let (pair, eight) =
        (printed.text.two_nics_one_bus_megabits, printed.table_2.io_assembly.megabits);
    item(
        "bus-share",
        "the buses' maxima against their peaks",
        format!("{pair} Mbit/s on one 33 MHz bus, {eight} on two Schizos"),
        format!(
            "{pair} / {bus:.0} = {:.0} % and {eight} / {all:.0} = {:.0} % of the peak",
            pair / bus * 100.0,
            eight / all * 100.0
        ),
        pair <= bus && eight <= all,
        "No figure is impossible. A bus that the paper calls saturated at 41 % is limited by short \
            bursts, drivers or CPUs.",
    )
}

fn interrupts(printed: &Printed) -> ReplayItem {
    let values = &printed.table_1.packets_per_interrupt;
    item(
        "packets-per-interrupt",
        "packets per interrupt over message sizes",
        format!("{values:?}"),
        "at least one packet for each interrupt, falling with the message size".to_owned(),
        values.iter().all(|value| *value >= 1.0) && values.is_sorted_by(|a, b| a >= b),
        "Coalescing is more effective for small messages, which hides part of their cost.",
    )
}

fn cache_misses(printed: &Printed) -> ReplayItem {
    let misses = &printed.table_1.data_cache_miss_percent;
    item(
        "cache-misses",
        "data cache misses rise with the instructions per packet",
        format!("{misses:?} %"),
        "rising at every step, as the instructions do".to_owned(),
        misses.is_sorted_by(|a, b| a < b)
            && printed.table_1.instructions_per_packet.is_sorted_by(|a, b| a < b),
        "The cost of a packet depends on the message size, so a cost needs its message size.",
    )
}

/// Compares mean bytes of a packet from throughput and packet rate: acknowledgements pull it below
/// a full segment.
fn packet_sizes(printed: &Printed) -> Vec<ReplayItem> {
    let headers = headers::tcp(headers::IpVersion::V4, headers::Timestamps::Off);
    let segment = tcp::segment_payload(Bytes(printed.testbed.mtu), headers).0 as f64;
    let table = &printed.table_2;
    let rows = [
        ("single-connection", &table.single_connection),
        ("single-cpu", &table.single_cpu),
        ("single-nic", &table.single_nic),
        ("one-schizo", &table.single_schizo),
        ("io-assembly", &table.io_assembly),
    ];
    rows.into_iter()
        .map(|(name, maximum)| {
            let bytes = maximum.megabits * MEGA / 8.0 / (maximum.kilopackets * 1e3);
            // Acknowledgements carry no payload, so they lower the mean of all packets.
            let per_acknowledgement = bytes / (segment - bytes);
            item(
                format!("packet-size-{name}"),
                "bytes per packet in table 2, if both maxima come from one run",
                format!("{} Mbit/s, {} thousand packets/s", maximum.megabits, maximum.kilopackets),
                format!(
                    "{bytes:.0} B of payload a packet: {per_acknowledgement:.1} data packets for \
                        one acknowledgement (deferral was set to {})",
                    printed.text.deferred_acknowledgements
                ),
                bytes <= segment && per_acknowledgement <= printed.text.deferred_acknowledgements,
                "No packet is larger than a full segment. Acknowledgements are more frequent than \
                    the deferral that was set.",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_known_errata_disagree() {
        let replay = sun_netframe();
        let found: Vec<&str> = replay.disagreements().map(|item| item.id.as_str()).collect();
        assert_eq!(
            found,
            ["E2.b", "E2.a", "E2.c", "E2.d", "E2.e", "E2.f", "E2.g", "E2.h", "single-schizo"]
        );
    }

    #[test]
    fn recomputed_figures_are_those_of_the_methodology() {
        let replay = sun_netframe();
        let text = |id: &str| replay.recomputed(id);
        assert!(text("E2.a").contains("936 / 949.3 = 98.6 %"), "{}", text("E2.a"));
        assert!(text("E2.b").ends_with("= 718.2 times"));
        assert!(text("E2.f").contains("1.6 GB/s"));
        assert!(text("single-schizo").contains("1677 Mbit/s"));
        assert!(text("second-schizo").contains("= 1.620; summary: 2733 / 1640 = 1.666"));
        assert!(text("slot").contains("544 Mbit/s"));
        assert!(text("second-bus").contains("1370 Mbit/s"));
        assert!(text("fifth-cpu").contains("861 Mbit/s"));
        assert!(text("bus-share").contains("41 %") && text("bus-share").contains("21 %"));
        for (row, bytes) in [
            ("single-connection", 1136),
            ("single-cpu", 970),
            ("single-nic", 944),
            ("one-schizo", 959),
            ("io-assembly", 1023),
        ] {
            assert!(
                text(&format!("packet-size-{row}")).starts_with(&format!("{bytes} B")),
                "{row}"
            );
        }
        assert!(text("packet-size-single-connection").contains("3.5 data packets"));
    }
}
