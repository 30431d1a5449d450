//! The paper's figures 8 to 11 and table 7, a hundredth of each, beside ours.

use linerate_model::{Direction, metric};

use super::{
    CiscoStudies, Comparison, Draws, EXPANDER_PORTS, FABRICS, Figure, FigureForm, PORT, Packets,
    SCALE, SLOT, VIC_PORTS, bound, busiest_worker, coordinate, draws, ideal, most_flows, one_flow,
    packets, sweep, whole,
};
use crate::reproduce::{figure, mbit};
use linerate_analysis::Study;

/// Table 7, Mbit/s: fabrics, flows, without the expander, with it.
const TABLE_7: [(u32, &str, f64, f64); 4] = [
    (1, "one flow", 9966.0, 9966.0),
    (1, "several flows", 12_749.0, 24_747.0),
    (2, "one flow", 19_931.0, 19_931.0),
    (2, "several flows", 22_655.0, 38_698.0),
];
/// Figure 10: packets per second at the two ends of the sweep, without the expander and with it.
const FIGURE_10: [(f64, f64, f64); 2] = [(1000.0, 4.7e6, 6.6e6), (9000.0, 477e3, 752e3)];
const MEGABIT: f64 = 1e6;
const DASH: &str = "-";

/// Returns figure 8: one flow against payload size.
pub(super) fn payload(study: &Study) -> Comparison {
    let mut rows = Vec::new();
    for (name, protocol, axis) in
        [("payload, TCP", "TCP", "message_size"), ("payload, UDP", "UDP", "datagram_size")]
    {
        for point in sweep(study, name) {
            let Some(size) = coordinate(&point.parameters, axis) else { continue };
            let metric = whole(point).and_then(|job| job.metric(metric::GOODPUT, Direction::Tx));
            let value = metric
                .and_then(|metric| metric.estimate)
                .map_or(DASH.to_owned(), |e| mbit(e.value));
            let ceiling = metric.and_then(|metric| point.ceilings.get(metric.ceiling?));
            let share = metric.and_then(|metric| metric.share);
            rows.push(vec![
                protocol.to_owned(),
                size,
                value,
                ceiling.map_or(DASH.to_owned(), |ceiling| mbit(ceiling.value)),
                share.map_or(DASH.to_owned(), |share| format!("{:.1} %", share * 100.0)),
                figure(point, metric::LOSS_RATIO)
                    .map_or(DASH.to_owned(), |e| format!("{:.2} %", e.value * 100.0)),
                format!("{:.0} %", busiest_worker(point) * 100.0),
            ]);
        }
    }
    Comparison::new(
        "Figure 8: one flow over one port (the paper's curves end at 9966 Mbit/s, more than \
            10 Gbit/s carries: 9914)",
        ["", "payload", "Mbit/s", "ceiling", "of it", metric::LOST.name, "busiest thread"],
        rows,
    )
}

/// Returns table 7 and figure 11: fabrics, flows, adapters.
pub(super) fn flows(studies: &CiscoStudies<'_>) -> Comparison {
    let mut rows = Vec::new();
    let [vic, expander] = [draws(studies.vic_draws), draws(studies.expander_draws)];
    for (n_fabrics, flows, paper, paper_expander) in TABLE_7 {
        let printed =
            [paper, paper_expander].map(|value| format!("{value:.0} ({:.0})", value / SCALE));
        let label = if n_fabrics == 1 { "one fabric" } else { "two fabrics" };
        let row = |flows: String, ours: [String; 2], model: [String; 2]| {
            table_7_row([label.to_owned(), flows], [printed.clone(), ours, model])
        };
        if flows == "one flow" {
            let ours = [studies.vic, studies.expander]
                // One flow needs no draws, because it uses one port in every draw.
                .map(|study| one_flow(study, n_fabrics).map_or(DASH.to_owned(), mbit));
            let model = mbit(f64::from(n_fabrics) * PORT);
            rows.push(row(flows.to_owned(), ours, [model.clone(), model]));
            continue;
        }
        for point in vic.iter().filter(|point| point.fabrics == n_fabrics) {
            let with = expander
                .iter()
                .find(|other| (other.fabrics, other.n_flows) == (n_fabrics, point.n_flows));
            let model = [VIC_PORTS, EXPANDER_PORTS]
                // The model uses the mean number of links, as the table shows means over draws.
                .map(|ports| mbit(bound(ideal(ports, point.n_flows, n_fabrics).0, PORT)));
            let ours = [Some(point), with].map(|point| point.map_or(DASH.to_owned(), of_draws));
            rows.push(row(format!("{} flows a fabric", point.n_flows), ours, model));
        }
    }
    Comparison::new(
        "Table 7: Mbit/s as printed (a hundredth); ours, of several flows the mean over \
            draws and the links used; an ideal \
                hash on average. The paper does not say how many its several flows are",
        ["", "", "VIC (paper)", "VIC", "ideal", "expander (paper)", "expander", "ideal"],
        rows,
    )
}

/// Returns figure 11: table 7 as bars. Several flows are the most that were drawn.
pub(super) fn flows_figure(studies: &CiscoStudies<'_>) -> Figure {
    fn ours(n_fabrics: u32, flows: &str, of: &Study, drawn: &Study) -> Option<f64> {
        let several = || most_flows(drawn, n_fabrics).map(|(_, rate)| rate);
        let rate = if flows == "one flow" { one_flow(of, n_fabrics) } else { several() };
        Some(rate? / MEGABIT)
    }
    let rows = || TABLE_7.iter();
    let CiscoStudies { vic, expander, vic_draws, expander_draws, .. } = studies;
    Figure {
        title: "Figure 11 and table 7".into(),
        note: "A hundredth of the paper's rates. The paper's host (one receive queue) kept many \
            flows below what their ports carry; ours is not limited so. Shapes V3.4a, V3.4b, S3.8b \
            and S3.8c are judged from these points."
            .into(),
        form: FigureForm::Bars,
        axes: ["fabrics and flows", "Mbit/s"].map(str::to_owned),
        places: rows().map(|(n, flows, ..)| format!("{n}, {flows}")).collect(),
        series: vec![
            ("paper, VIC".into(), rows().map(|row| Some(row.2 / SCALE)).collect()),
            ("ours, VIC".into(), rows().map(|row| ours(row.0, row.1, vic, vic_draws)).collect()),
            ("paper, expander".into(), rows().map(|row| Some(row.3 / SCALE)).collect()),
            (
                "ours, expander".into(),
                rows().map(|row| ours(row.0, row.1, expander, expander_draws)).collect(),
            ),
        ],
    }
}

fn of_draws(point: &Draws) -> String {
    match (point.goodput(), point.links()) {
        (Some(goodput), Some(links)) => {
            let most = point.fabrics;
            format!(
                "{} ({links:.2} links of {most} fabric{})",
                mbit(goodput),
                if most == 1 { "" } else { "s" }
            )
        }
        _ => DASH.to_owned(),
    }
}

/// Returns figures 9 and 10: packet rate and bandwidth against packet size, both ceilings beside
/// them.
pub(super) fn sizes(studies: &CiscoStudies<'_>) -> Comparison {
    let [vic, expander] = [packets(studies.vic), packets(studies.expander)];
    let mut rows = Vec::new();
    for size in &vic {
        let with = expander.iter().find(|other| other.frame == size.frame);
        let paper = FIGURE_10.iter().find(|(frame, ..)| *frame == size.frame);
        let ours = |size: &Packets| format!("{:.0}/s, {} Mbit/s", size.rate, mbit(size.bandwidth));
        rows.push(vec![
            format!("{:.0} B", size.frame),
            printed_packets(paper.map(|paper| paper.1), size.frame),
            ours(size),
            ceiling(VIC_PORTS),
            printed_packets(paper.map(|paper| paper.2), size.frame),
            with.map_or(DASH.to_owned(), ours),
            ceiling(EXPANDER_PORTS),
        ]);
    }
    Comparison::new(
        "Figures 9 and 10: packet rate and bandwidth of frames without FCS, both fabrics; \
            the paper gives the two ends, and maxima of 37.8 Gbit/s and, with the expander, 54.15",
        [
            "packet",
            "VIC (paper)",
            "VIC",
            "ceilings, Mbit/s",
            "expander (paper)",
            "expander",
            "ceilings, Mbit/s",
        ],
        rows,
    )
}

/// Returns a row of table 7: the place, and the `figures` (printed, ours, model) of the card and
/// then those of the expander.
fn table_7_row(place: [String; 2], figures: [[String; 2]; 3]) -> Vec<String> {
    let of_each = (0..2).flat_map(|at| figures.each_ref().map(|figure| figure[at].clone()));
    place.into_iter().chain(of_each).collect()
}

fn printed_packets(rate: Option<f64>, frame: f64) -> String {
    rate.map_or(DASH.to_owned(), |rate| {
        format!("{:.0} k, {:.2} Gbit/s", rate / 1e3, rate * frame * 8.0 / 1e9)
    })
}

/// Returns the ceilings of a switch with `ports` in each fabric.
fn ceiling(ports: u32) -> String {
    let all = f64::from(ports * FABRICS) * PORT;
    format!("ports {:.0}, slot {:.1}", all / MEGABIT, SLOT / MEGABIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_table_is_scaled_once() {
        assert_eq!(TABLE_7.map(|row| row.2 / SCALE), [99.66, 127.49, 199.31, 226.55]);
    }
}
