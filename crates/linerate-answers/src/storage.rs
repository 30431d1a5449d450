//! Answer of `linerate disk run` and `disk sweep`: the first screen, the load's rates and times,
//! then the conditions they were measured under.

use linerate_analysis::{JobStudy, Kind, MetricStudy, Obtained, PointStudy, Reason, Study};
use linerate_model::{Campaign, Direction, Estimate, Metric, Use, Validity, metric};
use linerate_report::document::{Block, Cell, Column, Origin, Row, Section, Table};
use linerate_report::number::Scale;
use linerate_report::{Document, obtained_text, sentences};
use serde_json::Value;

use crate::figures::{interval_of_percentile, quantity};

/// Tables of a sweep: their figures, name and caption.
const TABLES: [(Use, &str, &str); 4] = [
    (Use::DiskRate, "rates", "Rates"),
    (Use::DiskTime, "times", "Times from start to completion"),
    (Use::DiskFlush, "flushes", "Flushes and discards"),
    (Use::DiskCost, "costs", "Depth, response times and CPU"),
];

/// Conditions that the load reports and their labels, in the order in which they are shown.
const CONDITIONS: [(&str, &str); 9] = [
    ("engine", "engine"),
    ("engine_why", "reason for the engine"),
    ("cache", "cache"),
    ("durability", "durability"),
    ("contents", "contents"),
    ("conditioning", "conditioning"),
    ("steady_state", "steady state"),
    ("steady_rounds", "rounds of the steady state"),
    ("device", "device"),
];

/// Returns the answer: the first screen, then a row for each figure of a single point, else a row
/// for each point.
pub fn document(campaign: &Campaign, study: &Study, repeats: u32) -> Document {
    // A single run has no interval over runs, so the ranks of its transfers are used.
    let basis = if repeats > 1 { "over runs" } else { "by the ranks of the run's transfers" };
    let note = format!("n = {repeats} for each point; medians. Intervals at 95 % are {basis}.");
    let lead = linerate_report::verdict(campaign, study).map(Block::Lead);
    let mut blocks: Vec<Block> = lead.into_iter().collect();
    match &study.points[..] {
        [point] => blocks.extend(of_point(point, note).map(Block::Table)),
        points => {
            let tables = TABLES.into_iter().filter_map(|table| of_points(points, table));
            blocks.extend(tables.map(Block::Table).chain([Block::Paragraph(note)]));
        }
    }
    let lines: Vec<String> = conditions(study).into_iter().chain(reasons(study)).collect();
    if !lines.is_empty() {
        blocks.push(Block::List(lines));
    }
    let section = Section { id: "answer", title: "Transfers", blocks };
    let origin = Origin::Measured(campaign.header.testbed);
    Document::answer("Storage load", "one disk or file", origin, vec![section], Value::Null)
}

/// Returns the figures of one point, a row each; `None` if it has none.
fn of_point(point: &PointStudy, note: String) -> Option<Table> {
    let job = job(point)?;
    let rows: Vec<Vec<String>> = TABLES
        .into_iter()
        .flat_map(|(of, ..)| of.metrics())
        .flat_map(|metric| measured(&[point], metric).into_iter().map(move |way| (metric, way)))
        .filter_map(|(metric, way)| row_of(job, metric, way))
        .collect();
    let heads = ["figure", "of", "value", "interval at 95 %"];
    // A column for each figure would be wider than any terminal: a single point has a row for each.
    let mut table = Table::of_words("transfers", "Transfers", &heads, &rows);
    table.note = Some(format!("{note} Validity: {}.", point.validity.word()));
    (!rows.is_empty()).then_some(table)
}

fn row_of(job: &JobStudy, metric: &'static Metric, way: Direction) -> Option<Vec<String>> {
    let found = job.metric(metric, way)?;
    Some(vec![
        metric.title.to_owned(),
        word(way).to_owned(),
        quantity(metric, found.estimate?.value),
        interval_of_percentile(job, found).trim_start().to_owned(),
    ])
}

/// Returns the directions of `metric` to show: reads and writes apart only where both occur, since
/// the sum of one direction repeats it.
fn measured(points: &[&PointStudy], metric: &Metric) -> Vec<Direction> {
    let has = |way| points.iter().any(|point| has_estimate(point, metric, way));
    let apart: Vec<Direction> =
        [Direction::Rx, Direction::Tx].into_iter().filter(|way| has(*way)).collect();
    match (has(Direction::Sum), metric.is_for(Use::DiskRate)) {
        (true, true) if apart.is_empty() => vec![Direction::Sum],
        (_, true) | (false, _) => apart,
        // Of the times only the tail is worth a figure for each direction.
        (true, _) if apart.len() == 2 && metric == metric::SERVICE_TIME_P99 => {
            [vec![Direction::Sum], apart].concat()
        }
        (true, _) => vec![Direction::Sum],
    }
}

/// Returns whether the job of `point` has an estimate of `metric` in the direction `way`.
fn has_estimate(point: &PointStudy, metric: &Metric, way: Direction) -> bool {
    let found = job(point).and_then(|job| job.metric(metric, way));
    found.is_some_and(|found| found.estimate.is_some())
}

const fn word(way: Direction) -> &'static str {
    match way {
        Direction::Rx => "reads",
        Direction::Tx => "writes",
        Direction::Sum => "all",
    }
}

/// Returns one table of a sweep, a row for each point; `None` if no point has a figure of it.
fn of_points(points: &[PointStudy], (of, id, caption): (Use, &str, &str)) -> Option<Table> {
    let all: Vec<&PointStudy> = points.iter().collect();
    let shown: Vec<(&'static Metric, Direction)> = of
        .metrics()
        .flat_map(|metric| measured(&all, metric).into_iter().map(move |way| (metric, way)))
        .collect();
    let axes: Vec<&String> = points.first()?.parameters.keys().collect();
    let names =
        axes.iter().map(|axis| Column::text(axis.trim_start_matches("params.").replace('_', " ")));
    let columns: Vec<Column> = names
        .chain(shown.iter().map(|(metric, way)| column(points, metric, *way)))
        .chain([Column::text("validity")])
        .collect();
    let mut table = Table::new(id, caption, columns);
    table.rows = points.iter().map(|point| row(point, &axes, &shown)).collect();
    (!shown.is_empty()).then_some(table)
}

fn column(points: &[PointStudy], metric: &'static Metric, way: Direction) -> Column {
    let found = |point| job(point)?.metric(metric, way);
    let values = points.iter().filter_map(found).filter_map(|found| found.estimate);
    let scale = Scale::of(metric, values.map(|estimate| estimate.value));
    // The caption names the times, which leaves room for more columns.
    let name = match metric.statistic.filter(|_| metric.is_for(Use::DiskTime)) {
        Some(statistic) => statistic.to_string(),
        None => metric.title.to_owned(),
    };
    let head = match way {
        Direction::Sum => name,
        way => format!("{} {name}", word(way)),
    };
    // The heading names reads or writes, so the direction would repeat it.
    Column { direction: None, ..Column::estimate(head, scale, None, way) }
}

fn row(point: &PointStudy, axes: &[&String], shown: &[(&Metric, Direction)]) -> Row {
    let place = axes.iter().map(|axis| {
        let value = point.parameters.get(*axis);
        Cell::text(value.map_or_else(String::new, plain))
    });
    let figures = shown.iter().map(|(metric, way)| figure_cell(point, metric, *way));
    let cells = place.chain(figures).chain([Cell::text(point.validity.word())]).collect();
    Row::judged(cells, point.validity)
}

/// Returns the cell of `metric` in the direction `way` at `point`.
fn figure_cell(point: &PointStudy, metric: &Metric, way: Direction) -> Cell {
    let estimate = job(point).and_then(|job| estimate(job, job.metric(metric, way)?));
    estimate.map_or_else(|| Cell::Missing("n/a".into()), Cell::Estimate)
}

/// Returns the estimate of `found`; that of a percentile of a single run has its interval by ranks.
fn estimate(job: &JobStudy, found: &MetricStudy) -> Option<Estimate> {
    const NANOS_PER_SECOND: f64 = 1e9;
    let estimate = found.estimate?;
    // With several runs, their scatter is the better interval.
    let by_ranks = job.percentile(found.metric, found.direction).filter(|_| estimate.n == 1);
    let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / NANOS_PER_SECOND);
    Some(match by_ranks.filter(|of| of.confidence.is_some()) {
        Some(of) => {
            let (low, high) = (seconds(of.low_ns), seconds(of.high_ns));
            Estimate { low, high, confidence: of.confidence, ..estimate }
        }
        None => estimate,
    })
}

/// Returns the conditions, one line each value, with the number of points that have it unless all
/// do.
fn conditions(study: &Study) -> Vec<String> {
    CONDITIONS
        .iter()
        .flat_map(|(name, label)| {
            let values = distinct(study, name).into_iter();
            values.map(move |value| format!("{label}: {value}"))
        })
        .collect()
}

fn distinct(study: &Study, name: &str) -> Vec<String> {
    let mut values: Vec<(&Obtained, usize)> = Vec::new();
    for value in study.points.iter().filter_map(|point| job(point)?.obtained.get(name)) {
        match values.iter_mut().find(|(known, _)| *known == value) {
            // Conditions usually agree at all points, and only differences need a count.
            Some((_, points)) => *points += 1,
            None => values.push((value, 1)),
        }
    }
    let all = study.points.len();
    let values = values.into_iter().map(|(value, points)| (obtained_text(value), points));
    values
        .map(|(text, n)| if n == all { text } else { format!("{text} ({n} of {all} points)") })
        .collect()
}

/// Returns why points are not valid. Reasons that differ only in their figures are one line, with
/// the figures of the first and the number of points.
fn reasons(study: &Study) -> Vec<String> {
    let mut reasons: Vec<(Validity, Kind, &Reason, usize)> = Vec::new();
    let all =
        study.points.iter().flat_map(|point| point.why.iter().map(|why| (point.validity, why)));
    for (validity, why) in all {
        // The figures in a reason differ from point to point.
        let kind = why.kind();
        match reasons.iter_mut().find(|(known, of, ..)| *known == validity && *of == kind) {
            Some((.., times)) => *times += 1,
            None => reasons.push((validity, kind, why, 1)),
        }
    }
    reasons.into_iter().map(reason_words).collect()
}

fn reason_words((validity, _, why, times): (Validity, Kind, &Reason, usize)) -> String {
    let why = sentences::reason(why);
    match times {
        1 => format!("{}: {why}", validity.word()),
        _ => format!("{}: {why} (at {times} points, figures of the first)", validity.word()),
    }
}

fn job(point: &PointStudy) -> Option<&JobStudy> {
    point.jobs.iter().find(|job| job.workload == "storage")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use linerate_report::text;

    use super::*;

    fn point(depth: u32, ways: &[Direction]) -> PointStudy {
        let metrics = ways.iter().flat_map(|way| {
            [
                MetricStudy::single(metric::IOPS, *way, 17_000.0),
                MetricStudy::single(metric::SERVICE_TIME_P99, *way, 0.002),
            ]
        });
        let job = JobStudy {
            workload: "storage".into(),
            metrics: metrics.collect(),
            ..JobStudy::default()
        };
        let parameters = BTreeMap::from([("params.depth".to_owned(), depth.into())]);
        PointStudy { parameters, jobs: vec![job], ..PointStudy::default() }
    }

    fn text_of(points: Vec<PointStudy>) -> String {
        let tables: Vec<Table> = match &points[..] {
            [one] => of_point(one, "note".into()).into_iter().collect(),
            points => TABLES.into_iter().filter_map(|table| of_points(points, table)).collect(),
        };
        tables.iter().map(text::table).collect()
    }

    #[test]
    fn a_load_that_only_reads_has_each_figure_once() {
        let text = text_of(vec![point(32, &[Direction::Rx, Direction::Sum])]);
        assert_eq!(text.matches("p99").count(), 1, "{text}");
        assert_eq!(text.matches("IOPS").count(), 1, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_mixed_load_has_reads_and_writes_apart() {
        let ways = [Direction::Rx, Direction::Tx, Direction::Sum];
        let text = text_of(vec![point(32, &ways)]);
        assert_eq!((text.matches("IOPS").count(), text.matches("p99").count()), (2, 3), "{text}");
    }

    #[test]
    fn a_sweep_has_a_row_for_each_point_in_tables_that_fit() {
        let ways = [Direction::Rx, Direction::Tx, Direction::Sum];
        let text = text_of(vec![point(1, &ways), point(32, &ways)]);
        assert_eq!(text.matches("\n32 ").count(), 2, "a table of rates and one of times: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
