//! Section `transfers`: files by FTP and HTTP, with the time of each part (connect, first byte,
//! transfer, close), the sustained rate beside the best second, and the conditions of the transfer.
//!
//! Times are those of the active end. A connection that carries several files has no time to
//! connect. Of several jobs at once, the first one with times represents the point. Medians of the
//! parts do not add up to the median of the whole.

use linerate_analysis::{JobStudy, MetricStudy, Obtained, PointStudy};
use linerate_model::{Direction, Metric, Statistic, Times, metric};

use super::{Section, Subject};
use crate::document::{Block, Cell, Chart, Column, Plot, Role, Sheet, Table};
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
    let mut along: Vec<_> =
        moved.iter().filter_map(|(point, job)| Some((axis.place(point)?, *point, *job))).collect();
    along.sort_by_key(|(place, ..)| *place);
    let mut sheet = Sheet::new(along);
    sheet.column(axis.column(), |(place, ..)| axis.cell(*place));
    for (told, p50) in &known {
        let column = Column::undirected(*told, MILLISECONDS, None);
        sheet.drawn(Role::Bar, column, |(_, point, job)| estimate_cell(point, figure(job, p50)));
    }
    let marks = sheet.marks();
    let mut table =
        sheet.judged(format!("{NAME}-{}-parts", grid.number), caption, |(_, at, _)| at.validity);
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
    let mut sheet = grid.sheet(moved.iter().copied(), |(point, _)| point);
    for (head, name, scale) in told {
        let column = Column::undirected(head, scale, None);
        sheet.column(column, |(point, job)| estimate_cell(point, figure(job, name)));
    }
    let caption = format!("Rates and times of parts: {}", grid.sweep);
    let mut table =
        sheet.judged(format!("{NAME}-{}-times", grid.number), caption, |(point, _)| point.validity);
    table.note = Some(
        "Connect includes the TLS handshake; a kept connection is opened once. First byte: from \
            the request. Transfer: from the first byte to the last. Close: from the last byte \
            until the file is stored and confirmed. A percentile needs ten files beyond it."
            .into(),
    );
    table
}

fn circumstances(grid: &Grid<'_>, moved: &[Moved<'_>]) -> Table {
    fn words(said: &Obtained) -> String {
        match said.word() {
            Some("true") => "yes".to_owned(),
            Some("false") => "no".to_owned(),
            _ => obtained_text(said),
        }
    }
    let known = CIRCUMSTANCES
        .iter()
        .filter(|(name, _)| moved.iter().any(|(_, job)| job.obtained.contains_key(*name)))
        // The axes already have columns.
        .filter(|(name, _)| grid.axes.iter().all(|axis| axis.name != *name));
    let mut sheet = grid.sheet(moved.iter().copied(), |(point, _)| point);
    for (name, head) in known {
        let said = |job: &JobStudy| Cell::text_or(job.obtained.get(*name).map(words), "–");
        sheet.column(Column::text(*head), |(_, job)| said(job));
    }
    let caption = format!("Conditions: {}", grid.sweep);
    sheet.judged(format!("{NAME}-{}-how", grid.number), caption, |(point, _)| point.validity)
}
