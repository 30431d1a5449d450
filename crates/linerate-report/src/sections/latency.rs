//! Section `latency`: percentiles of the response time per point, from the median to the tail, and
//! the one-way latency of frames (`one_way`).
//!
//! Response time starts at the *intended* start of a request, so a stalled tester does not hide
//! waits (no coordinated omission). A request that was lost or still open at the end took longer
//! than the tester waited: a percentile among them is shown as "> x". A percentile with fewer than
//! ten operations beyond it is withheld.

mod bursts;
mod one_way;

use linerate_analysis::statistics::{Basis, Percentile};
use linerate_analysis::{CorrectedStudy, PointStudy};
use linerate_model::{Campaign, Distribution, Estimate, Layer, metric};

use super::{Section, Subject};
use crate::document::{AxisScale, Block, Cell, Chart, Column, Mark, Plot, Role, Row, Sheet, Table};
use crate::grid::{Grid, headline, sheet_of};
use crate::number::Scale;

/// Percentiles of the table.
const TABLE: [(f64, &str); 5] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];
/// Percentiles of the curve, in per cent.
const LADDER: [f64; 16] = [
    0.0, 25.0, 50.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9, 99.95, 99.99, 99.995,
    99.999,
];
/// Most curves in one chart.
const MOST_CURVES: usize = 8;

/// Section `latency`.
pub(super) const SECTION: Section = Section {
    name: "latency",
    title: "Latency",
    summary: "response-time distributions and percentiles, with lost operations as infinitely \
        slow; one-way latency and its variation",
    order: 80,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    // Sweeps of a single point share a table; other sweeps have their own.
    let (single, swept): (Vec<&Grid<'_>>, Vec<&Grid<'_>>) =
        subject.grids.iter().partition(|g| g.points.len() == 1);
    let mut blocks = of_points(subject.campaign, "latency-single", &single);
    for grid in swept {
        blocks.extend(of_points(subject.campaign, &format!("latency-{}", grid.number), &[grid]));
    }
    blocks
}

/// Point of a sweep with response times.
type Timed<'a> = (&'a Grid<'a>, &'a PointStudy);

fn of_points(campaign: &Campaign, id: &str, grids: &[&Grid<'_>]) -> Vec<Block> {
    let points: Vec<Timed<'_>> = grids
        .iter()
        .flat_map(|grid| grid.points.iter().map(|point| (*grid, *point)))
        .filter(|(_, point)| distribution(point).is_some())
        .collect();
    let of = match grids {
        [one] => format!(": {}", one.sweep),
        _ => String::new(),
    };
    let mut blocks = one_way::blocks(id, &of, grids);
    blocks.extend(bursts::blocks(campaign, id, &of, grids));
    if points.is_empty() {
        return blocks;
    }
    blocks.extend(curves(id, &of, &points).map(Block::Chart));
    blocks.push(Block::Table(percentiles(id, &of, &points)));
    blocks.extend(corrected(id, &of, &points).map(Block::Table));
    blocks
}

/// Returns the response times of a point, or its service times where it has no intended starts.
fn distribution(point: &PointStudy) -> Option<&Distribution> {
    let job = headline(point)?;
    [&job.response, &job.service].into_iter().find(|distribution| !distribution.is_empty())
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Returns the cell of a percentile or maximum; `at_least` is a bound among operations without an
/// answer.
fn cell(percentile: Option<Option<u64>>, at_least: Option<u64>) -> Cell {
    match percentile {
        Some(Some(ns)) => Cell::Number(seconds(ns)),
        Some(None) => unanswered(at_least),
        None => Cell::Missing("too few".into()),
    }
}

/// Returns the cell of a time among operations without an answer.
fn unanswered(at_least: Option<u64>) -> Cell {
    at_least.map_or_else(|| Cell::Missing("∞ (lost)".into()), |ns| Cell::AtLeast(seconds(ns)))
}

/// Returns the percentiles of [`distribution`] with their intervals.
fn percentiles_of(point: &PointStudy) -> &[Percentile] {
    let Some(job) = headline(point) else { return &[] };
    let name = if job.response.is_empty() { "service" } else { "response" };
    job.percentiles.get(name).map_or(&[], Vec::as_slice)
}

/// Returns one of them, or the reason for its absence. An infinite end is written in words.
fn with_interval(found: &[Percentile], quantile: f64) -> Cell {
    let Some(of) = found.iter().find(|of| of.quantile == quantile) else {
        return Cell::Missing("too few".into());
    };
    match (of.value_ns, of.low_ns, of.high_ns) {
        (Some(value), Some(low), Some(high)) => Cell::Estimate(Estimate {
            value: seconds(value),
            low: Some(seconds(low)),
            high: Some(seconds(high)),
            confidence: of.confidence,
            n: of.runs,
        }),
        (Some(value), ..) => Cell::Number(seconds(value)),
        (None, ..) => unanswered(of.at_least_ns),
    }
}

/// Returns the method of the intervals of all percentiles.
fn basis<'a>(percentiles: impl Iterator<Item = &'a Percentile>) -> String {
    let found: Vec<Basis> =
        percentiles.filter(|of| of.confidence.is_some()).map(|of| of.basis).collect();
    let of = [
        (Basis::Runs, "with six or more runs: 95 %, by resampling whole runs"),
        (
            Basis::Range,
            "with fewer runs: the range of the runs' percentiles (50 % for two runs, 75 % for \
                three, 88 % for four, 94 % for five)",
        ),
        (
            Basis::Operations,
            "with one run: 95 %, by rank, assuming independent operations and without the \
                difference between runs",
        ),
    ];
    let methods: Vec<&str> =
        of.into_iter().filter(|(basis, _)| found.contains(basis)).map(|(_, words)| words).collect();
    if methods.is_empty() { String::new() } else { format!(" Intervals {}.", methods.join("; ")) }
}

/// Returns one unit for all: that of the smallest median.
fn scale(points: &[Timed<'_>]) -> Scale {
    let medians = points
        .iter()
        .filter_map(|(_, point)| distribution(point)?.percentile(0.5).flatten().map(seconds));
    Scale::of(metric::RESPONSE_TIME, medians)
}

fn percentiles(id: &str, of: &str, points: &[Timed<'_>]) -> Table {
    let scale = scale(points);
    // One sweep has its axes as columns; several sweeps have one column of places.
    let grid = points
        .first()
        .map(|(grid, _)| *grid)
        .filter(|grid| points.len() > 1 && points.iter().all(|(g, _)| g.number == grid.number));
    fn times<'a>((_, point): &Timed<'a>) -> &'a Distribution {
        distribution(point).expect("points without times are left out")
    }
    let timed = points.iter().copied().filter(|(_, point)| distribution(point).is_some());
    let mut sheet = sheet_of(grid, timed);
    sheet.number("operations", Scale::COUNT, |of| times(of).count() as f64);
    sheet.number("unanswered", Scale::COUNT, |of| times(of).lost as f64);
    for (quantile, head) in TABLE {
        let column = Column::undirected(head, scale, Some(Layer::L4));
        sheet.column(column, |(_, point)| with_interval(percentiles_of(point), quantile));
    }
    let most = Column { layer: Some(Layer::L4), ..Column::number("max", scale) };
    sheet.column(most, |of| cell(times(of).max(), times(of).rank_at_least(times(of).count())));
    let mut table = sheet.judged(id, format!("Response time{of}"), |(_, point)| point.validity);
    table.note = Some(format!(
        "All valid trials of a point merged. A request: from its intended start to the end of its \
            response. A frame: from its scheduled departure to its receipt. Unanswered operations \
            were lost, or open at the end; \"> x\" is a percentile among them. A percentile with \
            fewer than ten operations beyond it is withheld (too few).{}",
        basis(points.iter().flat_map(|(_, point)| percentiles_of(point)))
    ));
    table
}

/// Returns the response times that requests at the pace of a closed load's median would have had;
/// `None` where no point has a closed load.
fn corrected(id: &str, of: &str, points: &[Timed<'_>]) -> Option<Table> {
    let found: Vec<(Timed<'_>, &CorrectedStudy)> = points
        .iter()
        .filter_map(|timed| Some((*timed, headline(timed.1)?.corrected.as_ref()?)))
        .collect();
    let scale = scale(points);
    let time = |head: &str| Column { layer: Some(Layer::L4), ..Column::number(head, scale) };
    let mut sheet = Sheet::new(&found);
    sheet.text("sweep", |((grid, point), _)| grid.full_place_of(point));
    sheet.column(time("pace"), |(_, of)| Cell::Number(seconds(of.pace_ns)));
    sheet.number("filled in", Scale::COUNT, |(_, of)| of.n_filled as f64);
    for (quantile, head) in TABLE {
        let column = Column::undirected(head, scale, Some(Layer::L4));
        sheet.column(column, |(_, of)| with_interval(&of.percentiles, quantile));
    }
    let caption = format!("Corrected response time of closed loads{of}");
    let mut table =
        sheet.judged(format!("{id}-corrected"), caption, |((_, point), _)| point.validity);
    table.folded = true;
    table.note = Some(format!(
        "Estimate, not measured. A closed load sends nothing while it waits, which hides the waits \
            of further requests. Like HdrHistogram, the estimate fills in a request for each \
            median that fits into a longer time. An open load (`rate`) measures these waits.{}",
        basis(found.iter().flat_map(|(_, corrected)| &corrected.percentiles))
    ));
    (!table.rows.is_empty()).then_some(table)
}

fn curves(id: &str, of: &str, points: &[Timed<'_>]) -> Option<Chart> {
    let step = points.len().div_ceil(MOST_CURVES);
    let shown: Vec<Timed<'_>> = points.iter().step_by(step).copied().collect();
    let scale = scale(&shown);
    let mut columns =
        vec![Column::number("percentile", Scale { base: "%", symbol: "%", factor: 1.0 })];
    let mut marks = Vec::new();
    for (grid, point) in &shown {
        let name = grid.place_of(point);
        marks.push(Mark { column: columns.len(), name: name.clone(), role: Role::Line });
        columns.push(Column { layer: Some(Layer::L4), ..Column::number(name, scale) });
    }
    let caption = format!("Response time by percentile{of}");
    let mut table = Table::new(format!("{id}-curves"), caption, columns);
    let mut values: Vec<f64> = Vec::new();
    for percent in LADDER {
        let mut cells = vec![Cell::Coordinate { value: percent, label: percent.to_string() }];
        let share = percent / 100.0;
        cells.extend(shown.iter().map(|(_, point)| {
            let times = distribution(point);
            cell(
                times.and_then(|times| times.percentile(share)),
                times.and_then(|times| times.percentile_at_least(share)),
            )
        }));
        values.extend(cells[1..].iter().filter_map(Cell::value));
        if cells[1..].iter().any(|cell| *cell != Cell::Missing("too few".into())) {
            table.rows.push(Row::plain(cells));
        }
    }
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    table.folded = true;
    if step > 1 {
        table.note = Some(format!(
            "{} of {} points are drawn; the table below has all of them.",
            shown.len(),
            points.len()
        ));
    }
    // A curve needs at least two figures.
    let is_curve = |column: usize| {
        table.rows.iter().filter(|row| row.cells[column].value().is_some()).count() > 1
    };
    let has_curve = marks.iter().any(|mark| is_curve(mark.column));
    (most > 0.0 && has_curve).then(|| Chart {
        summary: format!(
            "Response time by percentile, on a scale of nines; from {} to {} {}.",
            scale.plain(least),
            scale.plain(most),
            scale.symbol
        ),
        x_scale: AxisScale::Percentile,
        y_scale: if most / least > 5.0 { AxisScale::Log10 } else { AxisScale::Linear },
        ..Chart::of(Plot::Percentiles, "response time", marks, table)
    })
}
