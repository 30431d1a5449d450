//! Latency at shares of the throughput that the search found (RFC 2544 26.2, RFC 8219 7).

use linerate_analysis::{LatencyAtLoad, SearchRun, SearchStudy};
use linerate_model::Unit;

use super::{place, scale};
use crate::document::{Cell, Column, Row, Table};
use crate::number::Scale;

/// Returns a row for each run and load; `None` if no search measured latency.
pub(super) fn table(searches: &[SearchStudy]) -> Option<Table> {
    measured(searches).next()?;
    let loads = scale(searches);
    let times =
        Scale::fit(Unit::Second, measured(searches).filter_map(|(_, _, at)| at.latency.typical));
    let mut table = Table::new(
        "searches-latency",
        "Latency at shares of the throughput",
        vec![
            Column::text("search"),
            Column::number("run", Scale::COUNT),
            Column::number("load", loads),
            Column::number("of the throughput", Scale::PERCENT),
            Column::number("trials", Scale::COUNT),
            Column::number("frames", Scale::COUNT),
            Column::number("TL", times),
            Column::number("WCL", times),
            Column::number("PDV", times),
            Column::number("least", times),
            Column::number("IPDV, least", times),
            Column::number("IPDV, median", times),
            Column::number("IPDV, most", times),
        ],
    );
    for (search, run, at) in measured(searches) {
        let throughput = run.latencies.iter().map(|at| at.load).fold(0.0, f64::max);
        let mut cells = vec![
            Cell::Text(place(search)),
            Cell::Number(f64::from(run.repeat + 1)),
            Cell::Number(at.load),
            Cell::Number(at.load / throughput),
        ];
        cells.extend(figures(at));
        table.rows.push(Row::plain(cells));
    }
    let note = "One way, from a frame's departure to its receipt by one clock, store-and-forward \
        delay included; a lost frame is infinitely slow. TL is the median, WCL the 99.9th \
        percentile (of 10 000 frames of a trial at least), PDV that less the smallest, IPDV the \
        difference between frames that follow each other; each the median over the trials.";
    table.note = Some(note.into());
    Some(table)
}

/// Returns each latency that a run of a search measured.
fn measured(
    searches: &[SearchStudy],
) -> impl Iterator<Item = (&SearchStudy, &SearchRun, &LatencyAtLoad)> {
    let runs = searches.iter().flat_map(|search| search.runs.iter().map(move |run| (search, run)));
    runs.flat_map(|(search, run)| run.latencies.iter().map(move |at| (search, run, at)))
}

fn figures(at: &LatencyAtLoad) -> Vec<Cell> {
    const FEW: &str = "too few frames, or too many lost";
    let latency = &at.latency;
    let between =
        |pick: fn((f64, f64, f64)) -> f64| Cell::number_or(latency.inter_packet.map(pick), "-");
    vec![
        Cell::Number(at.n_trials as f64),
        Cell::Number(latency.n as f64),
        Cell::number_or(latency.typical, FEW),
        Cell::number_or(latency.worst_case, FEW),
        Cell::number_or(latency.variation, FEW),
        Cell::Number(latency.least),
        between(|differences| differences.0),
        between(|differences| differences.1),
        between(|differences| differences.2),
    ]
}
