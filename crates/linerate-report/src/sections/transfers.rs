//! Section `transfers`: files by FTP and HTTP, with the time of each part (connect, first byte,
//! transfer, close), the sustained rate beside the best second, and the conditions of the transfer.
//!
//! Times are those of the active end. A connection that carries several files has no time to
//! connect. Of several jobs at once, the first one with times represents the point. Medians of the
//! parts do not add up to the median of the whole.

use linerate_analysis::{JobStudy, MetricStudy, Obtained, PointStudy};
use linerate_model::{Direction, Metric, Statistic, Times, metric};

use super::{Section, Subject};
use crate::document::{Block, Cell, Chart, Column, Mark, Plot, Role, Row, Table};
use crate::grid::{Grid, estimate_cell};
use crate::number::Scale;
use crate::words::obtained_text;

const NAME: &str = "transfers";
const MILLISECONDS: Scale = Scale { base: "s", symbol: "ms", factor: 1e-3 };
const MEGABITS: Scale = Scale { base: "bit/s", symbol: "Mbit/s", factor: 1e6 };
const PER_SECOND: Scale = Scale { base: "1/s", symbol: "1/s", factor: 1.0 };

/// Parts of a transfer, and the times of each.
const PARTS: [(&str, Times); 4] = [
    ("connect", Times::Connect),
    ("first byte", Times::FirstByte),
    ("transfer", Times::Transfer),
    ("close", Times::Close),
];

/// Conditions of a row.
const CIRCUMSTANCES: [(&str, &str); 9] = [
    ("source", "source"),
    ("send", "sent by"),
    ("receive", "taken by"),
    ("sink", "sink"),
    ("engine", "engine"),
    ("reuse", "connection kept"),
    ("passive", "passive mode"),
    ("tls", "TLS"),
    ("server_known_by", "server known by"),
];

/// Section `transfers`.
pub(super) const SECTION: Section = Section {
    name: NAME,
    title: "File transfers",
    summary: "times to connect, to the first byte, of the transfer and to its end; the best second \
        beside the average; and the conditions of the transfer",
    order: 46,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    subject.grids.iter().flat_map(of_sweep).collect()
}

type Moved<'a> = (&'a PointStudy, &'a JobStudy);

fn of_sweep(grid: &Grid<'_>) -> Vec<Block> {
    let is_transfer =
        |job: &&JobStudy| !job.background && figure(job, metric::TRANSFER_TIME_P50).is_some();
    let moved: Vec<Moved<'_>> = grid
        .points
        .iter()
        .filter_map(|point| Some((*point, point.jobs.iter().find(is_transfer)?)))
        .collect();
    if moved.is_empty() {
        return Vec::new();
    }
    let mut blocks: Vec<Block> = parts(grid, &moved).map(Block::Chart).into_iter().collect();
    blocks.push(Block::Table(times(grid, &moved)));
    blocks.push(Block::Table(circumstances(grid, &moved)));
    blocks
}

/// Returns the figure of `metric`: of both directions, or of the only one.
fn figure<'a>(job: &'a JobStudy, metric: &Metric) -> Option<&'a MetricStudy> {
    [Direction::Sum, Direction::Rx, Direction::Tx].into_iter().find_map(|direction| {
        job.metric(metric, direction).filter(|figure| figure.estimate.is_some())
    })
}

/// Returns the stacked medians of the parts along the only axis.
fn parts(grid: &Grid<'_>, moved: &[Moved<'_>]) -> Option<Chart> {
    let axis = &grid.axes[grid.main_axis()?];
    let is_median = |metric: &&Metric| metric.statistic == Some(Statistic::Quantile(0.5));
    let known: Vec<_> = PARTS
        .iter()
        .filter_map(|(name, times)| Some((*name, times.metrics().find(is_median)?)))
        .filter(|(_, p50)| moved.iter().any(|(_, job)| figure(job, p50).is_some()))
        .collect();
    if grid.axes.iter().filter(|axis| axis.values.len() > 1).count() != 1
        || known.len() < 2
        || moved.len() < 2
    {
        return None;
    }
    let caption = format!("Median time of each part of a file by {}: {}", axis.name, grid.sweep);
    let mut columns = vec![axis.column()];
    let mut marks = Vec::new();
    for (told, _) in &known {
        marks.push(Mark { column: columns.len(), name: (*told).into(), role: Role::Bar });
        columns.push(Column {
            direction: None,
            ..Column::estimate(*told, MILLISECONDS, None, Direction::Sum)
        });
    }
    let mut table = Table::new(format!("{NAME}-{}-parts", grid.number), caption, columns);
    let mut along: Vec<_> =
        moved.iter().filter_map(|(point, job)| Some((axis.place(point)?, *point, *job))).collect();
    along.sort_by_key(|(place, ..)| *place);
    for (place, point, job) in along {
        let mut cells = vec![axis.cell(place)];
        cells.extend(known.iter().map(|(_, p50)| estimate_cell(point, figure(job, p50))));
        table.rows.push(Row::judged(cells, point.validity));
    }
    table.folded = true;
    Some(Chart {
        summary: "Median times to connect, to the first byte, of the transfer and until it is \
            confirmed, stacked."
            .into(),
        ..Chart::of(Plot::StackedBars, "median time", marks, table)
    })
}

fn times(grid: &Grid<'_>, moved: &[Moved<'_>]) -> Table {
    let mut told: Vec<(String, &Metric, Scale)> = vec![
        ("while files were in flight".into(), metric::GOODPUT_SERVED, MEGABITS),
        (metric::GOODPUT.name.into(), metric::GOODPUT, MEGABITS),
        ("best second".into(), metric::GOODPUT_PEAK, MEGABITS),
        ("files".into(), metric::TRANSACTION_RATE, PER_SECOND),
    ];
    for (name, metric) in PARTS.iter().flat_map(|(name, of)| of.metrics().map(move |m| (name, m))) {
        let statistic = metric.statistic.map_or_else(String::new, |of| format!(", {of}"));
        told.push((format!("{name}{statistic}"), metric, MILLISECONDS));
    }
    told.retain(|(_, name, _)| moved.iter().any(|(_, job)| figure(job, name).is_some()));
    let mut columns = grid.axis_columns();
    columns.extend(told.iter().map(|(head, _, scale)| Column {
        direction: None,
        ..Column::estimate(head.clone(), *scale, None, Direction::Sum)
    }));
    let caption = format!("Rates and times of parts: {}", grid.sweep);
    let mut table = Table::new(format!("{NAME}-{}-times", grid.number), caption, columns);
    for (point, job) in moved {
        let mut cells = grid.axis_cells(point);
        cells.extend(told.iter().map(|(_, name, _)| estimate_cell(point, figure(job, name))));
        table.rows.push(Row::judged(cells, point.validity));
    }
    table.note = Some(
        "Connect includes the TLS handshake; a kept connection is opened once. First byte: from \
            the request. Transfer: from the first byte to the last. Close: from the last byte \
            until the file is stored and confirmed. A percentile needs ten files beyond it."
            .into(),
    );
    table
}

fn circumstances(grid: &Grid<'_>, moved: &[Moved<'_>]) -> Table {
    let known: Vec<_> = CIRCUMSTANCES
        .iter()
        .filter(|(name, _)| moved.iter().any(|(_, job)| job.obtained.contains_key(*name)))
        // The axes already have columns.
        .filter(|(name, _)| grid.axes.iter().all(|axis| axis.name != *name))
        .collect();
    let mut columns = grid.axis_columns();
    columns.extend(known.iter().map(|(_, head)| Column::text(*head)));
    let caption = format!("Conditions: {}", grid.sweep);
    let mut table = Table::new(format!("{NAME}-{}-how", grid.number), caption, columns);
    for (point, job) in moved {
        let mut cells = grid.axis_cells(point);
        fn words(said: &Obtained) -> Cell {
            match said.word() {
                Some("true") => Cell::text("yes"),
                Some("false") => Cell::text("no"),
                _ => Cell::Text(obtained_text(said)),
            }
        }
        let said =
            |name: &str| job.obtained.get(name).map_or_else(|| Cell::Missing("–".into()), words);
        cells.extend(known.iter().map(|(name, _)| said(name)));
        table.rows.push(Row::judged(cells, point.validity));
    }
    table
}
