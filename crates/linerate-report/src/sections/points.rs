//! Every point with its main figures: the table one computes with.
//!
//! Metrics of all directions that carry a figure somewhere in the sweep; the JSON of the study has the rest and the
//! values of single trials.

use linerate_model::{Direction, METRICS, Metric};

use super::{Section, Subject};
use crate::curves::metric_title;
use crate::document::{Block, Cell, Column, Row, Table};
use crate::grid::{Family, estimate_cell, families, headline};
use crate::number::Scale;

/// Metrics shown, in this order; all others are in the JSON.
const SHOWN: [&str; 21] = [
    "goodput",
    "throughput_l2",
    "packet_rate",
    "message_rate",
    "transaction_rate",
    "connection_rate",
    "iops",
    "transfer_rate",
    "transfer_rate_binary",
    "response_time_p50",
    "response_time_p99",
    "loss_ratio",
    "retransmits",
    "controller_dropped",
    "rtt",
    "fairness",
    "cpu_seconds_per_gigabyte",
    "cpu_ns_per_packet",
    "iops_per_core",
    "achieved_depth",
    "device_share",
];
const DIRECTIONS: [Direction; 3] = [Direction::Tx, Direction::Rx, Direction::Sum];

/// See the file.
pub(super) struct Points;

impl Section for Points {
    fn name(&self) -> &'static str {
        "points"
    }

    fn title(&self) -> &'static str {
        "All points"
    }

    fn summary(&self) -> &'static str {
        "every point with its main figures, runs and validity"
    }

    fn order(&self) -> u32 {
        140
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        families(subject.grids).iter().map(|family| Block::Table(table(family))).collect()
    }
}

fn table(family: &Family<'_>) -> Table {
    let mut figures: Vec<(&'static Metric, Direction)> = Vec::new();
    for name in SHOWN.into_iter().filter(|name| family.grids.iter().any(|grid| grid.tells(name))) {
        let Some(known) = METRICS.iter().find(|metric| metric.name == name) else { continue };
        let told = DIRECTIONS.into_iter().filter(|direction| {
            let jobs = family.points().filter_map(|(_, point)| headline(point));
            jobs.filter_map(|job| job.metric(name, *direction)).any(|metric| metric.estimate.is_some())
        });
        figures.extend(told.map(|direction| (known, direction)));
    }
    let mut columns = family.place_columns();
    columns.push(Column::text("validity"));
    columns.push(Column::number("runs", Scale::COUNT));
    for (known, direction) in &figures {
        let value =
            |(_, point)| -> Option<f64> { Some(headline(point)?.metric(known.name, *direction)?.estimate?.value) };
        let scale = Scale::fit(known.name, known.unit, family.points().filter_map(value));
        columns.push(Column::estimate(metric_title(known.name), scale, known.layer, *direction));
    }
    let mut table = Table::new(format!("points-{}", family.id), format!("Points: {}", family.name), columns);
    for (grid, point) in family.points() {
        let mut cells = family.place_cells(grid, point);
        cells.push(Cell::text(point.validity.word()));
        cells.push(Cell::Number(point.trials.len() as f64));
        let job = headline(point);
        let figure = |(known, direction): &(&'static Metric, Direction)| {
            estimate_cell(point, job.and_then(|job| job.metric(known.name, *direction)))
        };
        cells.extend(figures.iter().map(figure));
        table.rows.push(Row::judged(cells, point.validity));
    }
    table.folded = table.rows.len() > 12;
    table
}
