//! The paper's tables 1 and 2 and its figure 4, beside ours.

use linerate_model::{Estimate, Metric, Validity, metric};

use super::{COST, by_size, label};
use crate::reproduce::{Comparison, Figure, FigureForm, coordinate, figure, mbit, one_way, sweep};
use linerate_analysis::{PointStudy, Study};

/// Paper, table 2: maxima in Mbit/s and packets per second, as printed.
const TABLE_2: [(&str, f64, f64); 5] = [
    ("single connection", 936.0, 103e3),
    ("single CPU", 590.0, 76e3),
    ("single NIC", 936.0, 124e3),
    ("single host bridge", 1687.0, 220e3),
    ("single I/O assembly", 2733.0, 334e3),
];
/// Paper, table 1: message size, system time in per cent, instructions per packet, packets per
/// interrupt, misses of the data cache per 100 instructions.
const TABLE_1: [(&str, u32, u32, f64, f64); 4] = [
    ("1460 B", 30, 4633, 10.99, 9.45),
    ("24536 B", 28, 4922, 8.23, 13.92),
    ("65496 B", 28, 5158, 7.52, 14.17),
    ("1048536 B", 31, 5621, 7.49, 15.92),
];
/// The emulation runs at a tenth of the paper's rates.
const SCALE: f64 = 10.0;
/// Returns figure 4 of the paper: interfaces on buses.
pub(super) fn buses_figure(buses: &Study) -> Figure {
    const MEGABIT: f64 = 1e6;
    /// The paper's figures, or those that follow from its ratios (docs/methodology/papers.md).
    const PAPER: [(&str, f64); 5] = [
        ("a1", 544.0),
        ("a1+a2", 884.0),
        ("a1+a2+a3+a4", 1687.0),
        ("a4", 936.0),
        ("a1+a2+a3+a4+a5+a6+a7+a8", 2733.0),
    ];
    let found = |name| one_way(placed(buses, name).first()?, metric::GOODPUT);
    let ours = |name| found(name).map(|figure| figure.value / MEGABIT);
    Figure {
        title: "Figure 4: interfaces on shared buses".into(),
        note: "A tenth of the paper's rates. The lab's capacities are the paper's own figures, so \
            agreement is circular (V2.4)."
            .into(),
        form: FigureForm::Bars,
        axes: ["interfaces", "Mbit/s"].map(str::to_owned),
        places: PAPER.iter().map(|(name, _)| (*name).to_owned()).collect(),
        series: vec![
            ("paper / 10".into(), PAPER.iter().map(|(_, rate)| Some(rate / SCALE)).collect()),
            ("ours".into(), PAPER.iter().map(|(name, _)| ours(name)).collect()),
        ],
    }
}

/// Returns table 1: costs of a packet.
pub(super) fn table_1(host: &Study) -> Comparison {
    let ours = by_size(host, COST, "message_size");
    let rows = TABLE_1.iter().map(|(size, printed, instructions, per_interrupt, misses)| {
        let point = ours
            .iter()
            .find(|(own, ..)| own.to_string() == *size || size.parse() == Ok(*own))
            .map(|(.., p)| *p);
        let of = |metric| Some(figure(point?, metric)?.value);
        let system = of(metric::CPU_KERNEL).zip(of(metric::CPU_SOFTIRQ)).map(|(a, b)| a + b);
        let busy = system.zip(of(metric::CPU_APP)).map(|(system, app)| system + app);
        let cores = |cores: Option<f64>| cores.map(|cores| format!("{cores:.2}"));
        let instructions_ours = of(metric::INSTRUCTIONS_PER_PACKET);
        let share = |misses: f64| Some(format!("{:.2}", misses / instructions_ours? * 100.0));
        let missed = |misses| of(misses).and_then(share);
        // A machine that counts instructions may lack one of the caches.
        let absent = if instructions_ours.is_some() { "not counted" } else { "no counters" };
        let counted = |cell: Option<String>| cell.unwrap_or_else(|| absent.to_owned());
        let decimal =
            |metric, decimals: usize| of(metric).map(|value: f64| format!("{value:.decimals$}"));
        // A figure that was not read is named so, and is never zero.
        let read = |cell: Option<String>| cell.unwrap_or_else(|| "not read".to_owned());
        vec![
            (*size).to_owned(),
            read(cores(busy)),
            format!("{printed} %"),
            read(cores(system)),
            instructions.to_string(),
            counted(decimal(metric::INSTRUCTIONS_PER_PACKET, 0)),
            format!("{misses:.2}"),
            counted(missed(metric::L1_MISSES_PER_PACKET)),
            counted(missed(metric::CACHE_MISSES_PER_PACKET)),
            read(decimal(metric::CPU_NS_PER_PACKET, 0)),
            format!("{per_interrupt:.2}"),
            read(decimal(metric::PACKETS_PER_INTERRUPT, 2)),
        ]
    });
    Comparison::new(
        "Table 1: cost per packet, 10 connections each way, 64 KiB buffers. The paper counts \
            misses of the level-1 data cache; \"no counters\": this machine has no hardware \
            counters, as most virtual machines; \"not counted\": it lacks this one",
        [
            "message",
            "busy, cores",
            "system time (paper)",
            "system, cores",
            "instructions/packet (paper)",
            "instructions/packet",
            "L1 data misses/100 instructions (paper)",
            "L1 data misses/100 instructions",
            "last-level misses/100 instructions",
            "CPU ns/packet",
            "packets/interrupt (paper)",
            "packets/interrupt",
        ],
        rows.collect(),
    )
}

/// Returns table 2: maxima.
pub(super) fn table_2(link: &Study, buses: &Study, host: &Study) -> Comparison {
    fn best(points: Vec<&PointStudy>) -> (Option<Largest<'_>>, Option<Largest<'_>>) {
        (largest(&points, metric::GOODPUT), largest(&points, metric::PACKET_RATE))
    }
    let count = |point: &PointStudy, axis: &str, value: &str| {
        coordinate(&point.parameters, axis).as_deref() == Some(value)
    };
    let ours = [
        ("link", best(sweep(link, "connections").filter(|p| count(p, "streams", "1")).collect())),
        ("host", best(sweep(host, "cpus").filter(|p| count(p, "cpus", "1")).collect())),
        ("link", best(sweep(link, "connections").collect())),
        ("buses", best(placed(buses, "a1+a2+a3+a4"))),
        ("buses", best(placed(buses, "a1+a2+a3+a4+a5+a6+a7+a8"))),
    ];
    let rows = TABLE_2.iter().zip(ours).map(
        |((what, goodput, packets), (testbed, (our_goodput, our_packets)))| {
            let scaled = if testbed == "host" {
                "not comparable".to_owned()
            } else {
                format!("{:.1}", goodput / SCALE)
            };
            let packet_rate =
                our_packets.map_or_else(|| "-".to_owned(), |(e, _)| format!("{:.0}", e.value));
            // A disturbed figure is shown if it is the largest, and named so.
            let ours = our_goodput.map_or_else(
                || "-".to_owned(),
                |(e, point)| match point.validity {
                    Validity::Valid => mbit(e.value),
                    other => format!("{} ({})", mbit(e.value), other.word()),
                },
            );
            vec![
                (*what).to_owned(),
                format!("{goodput:.0}"),
                scaled,
                ours,
                format!("{packets:.0}"),
                packet_rate,
                testbed.to_owned(),
            ]
        },
    );
    Comparison::new(
        "Table 2: maxima. The paper does not state whether its figures are of one direction or of \
            both. Ours add both directions where both were run",
        [
            "",
            "Mbit/s (paper)",
            "a tenth of it",
            "Mbit/s",
            "packets/s (paper)",
            "packets/s",
            "testbed",
        ],
        rows.collect(),
    )
}

/// The largest figure of several points, and its point.
type Largest<'a> = (Estimate, &'a PointStudy);

/// Returns the largest figure of `metric` among `points`.
fn largest<'a>(points: &[&'a PointStudy], metric: &'static Metric) -> Option<Largest<'a>> {
    let figures = points.iter().filter_map(|point| Some((figure(point, metric)?, *point)));
    figures.max_by(|(a, _), (b, _)| a.value.total_cmp(&b.value))
}

fn placed<'a>(buses: &'a Study, name: &str) -> Vec<&'a PointStudy> {
    sweep(buses, "placement")
        .filter(|p| coordinate(&p.parameters, "pairs").is_some_and(|v| label(&v) == name))
        .collect()
}

#[cfg(test)]
mod tests {
    use linerate_model::Direction::{Sum, Tx};
    use serde_json::json;

    use super::*;
    use crate::reproduce::fixtures::build::{point, study};

    #[test]
    fn misses_of_each_level_are_shown_and_one_that_is_not_counted_is_named() {
        let row = |figures: &[(&'static Metric, f64)]| {
            let rate = (metric::GOODPUT, Tx, 1e9);
            let costs = figures.iter().map(|(metric, n)| (*metric, Sum, *n));
            let figures: Vec<_> = costs.chain([rate]).collect();
            let at = [("message_size", json!("1460 B"))];
            let table = table_1(&study(vec![point(COST, &at, &figures)]));
            let column = |name: &str| table.head.iter().position(|head| head == name);
            let names = ["L1 data misses/100 instructions", "last-level misses/100 instructions"];
            names.map(|name| table.rows[0][column(name).expect(name)].clone())
        };
        let instructions = (metric::INSTRUCTIONS_PER_PACKET, 5000.0);
        let first = (metric::L1_MISSES_PER_PACKET, 475.0);
        let last = (metric::CACHE_MISSES_PER_PACKET, 20.0);
        assert_eq!(row(&[instructions, first, last]), ["9.50", "0.40"]);
        assert_eq!(row(&[instructions, last]), ["not counted", "0.40"]);
        assert_eq!(row(&[]), ["no counters"; 2]);
    }
}
