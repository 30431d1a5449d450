//! One-way latency of frames according to RFC 8219 7.2 and 7.3: typical and worst-case latency, and
//! delay variation.
//!
//! Each figure is the median over the runs of their medians, 99.9th percentiles and variations, and
//! its interval is over runs. Delay starts at the frame's own departure. The wait for its sender is
//! in a separate column, as the time from its scheduled departure. Between two clocks, a figure has
//! the uncertainty of the clocks and is withheld if it is smaller. Delay variation is not affected.

use linerate_analysis::{MetricStudy, PointStudy};
use linerate_model::{Direction, FrameClocks, Metric, Statistic, Times, Use, metric};

use crate::curves::curves;
use crate::document::{Block, Cell, Column, Table};
use crate::grid::{Dimension, Grid, estimate_cell, headline, sheet_of};
use crate::number::Scale;

/// Columns of the table: heading and metric.
const FIGURES: [(&str, &Metric); 7] = [
    ("typical (TL)", metric::SERVICE_TIME_P50),
    ("worst case (WCL)", metric::SERVICE_TIME_P999),
    ("variation (PDV)", metric::DELAY_VARIATION),
    ("largest fall (IPDV)", metric::DELAY_VARIATION_MIN),
    ("median (IPDV)", metric::DELAY_VARIATION_P50),
    ("largest rise (IPDV)", metric::DELAY_VARIATION_MAX),
    ("from schedule, median", metric::RESPONSE_TIME_P50),
];
/// Metric of the uncertainty between the clocks of two hosts.
const DOUBT: &Metric = metric::CLOCK_UNCERTAINTY;
const WITHHELD: &str = "withheld: below the uncertainty of the clocks";
/// End of the note for one clock.
const ONE_CLOCK: &str = "One clock timed both ends.";
/// End of the note for two clocks.
const TWO_CLOCKS: &str = "Two clocks were compared by four time stamps before, during and after \
    each run. The last column is their uncertainty: intervals of one-way times contain it, and \
    shorter times are withheld. Delay variation is not affected.";

/// Returns charts and one table of `grids`; empty where no frame was timed one way.
pub(super) fn blocks(id: &str, of: &str, grids: &[&Grid<'_>]) -> Vec<Block> {
    let points: Vec<(&Grid<'_>, &PointStudy)> =
        grids.iter().flat_map(|grid| grid.points.iter().map(|point| (*grid, *point))).collect();
    let mut blocks = Vec::new();
    for grid in grids {
        if let Some(load) =
            load_axis(grid).filter(|_| grid.points.iter().any(|point| is_timed(point)))
        {
            let drawn = Use::OneWay.metrics();
            blocks.extend(drawn.flat_map(|metric| curves("latency", grid, load, metric)));
        }
    }
    let timed: Vec<(&Grid<'_>, &PointStudy)> =
        points.iter().copied().filter(|(_, point)| is_timed(point)).collect();
    if !timed.is_empty() {
        blocks.push(Block::Table(table(id, of, &timed)));
    }
    let untimed = points.iter().filter(|(_, point)| has_two_clocks(point)).count();
    if untimed > 0 {
        blocks.push(Block::Paragraph(format!(
            "{untimed} of {} points have no one-way times: their ends have two clocks with an \
                unknown offset.",
            points.len()
        )));
    }
    blocks
}

/// Returns true if frames of `point` were timed one way.
fn is_timed(point: &PointStudy) -> bool {
    headline(point)
        .is_some_and(|job| job.metric(metric::DELAY_VARIATION_P50, Direction::Sum).is_some())
}

fn has_two_clocks(point: &PointStudy) -> bool {
    let clocks = headline(point).and_then(|job| job.obtained.get("clock")?.clocks());
    clocks == Some(FrameClocks::Unrelated)
}

/// Returns the axis of the offered load.
fn load_axis(grid: &Grid<'_>) -> Option<usize> {
    grid.axes.iter().position(|axis| {
        axis.values.len() > 1
            && axis.path.ends_with("rate")
            && matches!(axis.dimension, Dimension::Quantity(_))
    })
}

fn table(id: &str, of: &str, points: &[(&Grid<'_>, &PointStudy)]) -> Table {
    fn seconds(point: &PointStudy, metric: &Metric) -> Option<f64> {
        let estimate = headline(point)?.metric(metric, Direction::Sum)?.estimate?;
        Some(estimate.value.abs()).filter(|value| value.is_finite())
    }
    let grid = points
        .first()
        .map(|(grid, _)| *grid)
        .filter(|grid| points.iter().all(|(own, _)| own.number == grid.number));
    let mut sheet = sheet_of(grid, points.iter().copied());
    let layer = metric::SERVICE_TIME_P50.layer;
    // One unit for all: that of the smallest median.
    let scale = Scale::of(
        metric::SERVICE_TIME_P50,
        points.iter().filter_map(|(_, point)| seconds(point, metric::SERVICE_TIME_P50)),
    );
    let doubts = |point: &PointStudy| {
        headline(point).and_then(|job| job.metric(DOUBT, Direction::Sum)).cloned()
    };
    for (head, metric) in &FIGURES {
        sheet.column(Column::estimate(*head, scale, layer, Direction::Sum), |(_, point)| {
            // An error of the clocks changes times, not differences of them.
            let is_median = matches!(metric.times, Some(Times::Service | Times::Response))
                && metric.statistic == Some(Statistic::Quantile(0.5));
            let needs_many = [metric::SERVICE_TIME_P999, metric::DELAY_VARIATION].contains(metric);
            match headline(point).and_then(|job| job.metric(metric, Direction::Sum)) {
                None if doubts(point).is_some() && is_median => Cell::Missing(WITHHELD.into()),
                None if needs_many => Cell::Missing("too few".into()),
                study => estimate_cell(point, study),
            }
        });
    }
    let doubtful = points.iter().any(|(_, point)| doubts(point).is_some());
    if doubtful {
        let column = Column::estimate("clock uncertainty ±", scale, None, Direction::Sum);
        sheet.column(column, |(_, point)| {
            let exact = || Cell::Text("none: one clock".into());
            doubts(point).map_or_else(exact, |study| uncertainty(point, &study))
        });
    }
    let caption = format!("One-way latency{of}");
    let mut table = sheet.judged(format!("{id}-one-way"), caption, |(_, point)| point.validity);
    let mut note = String::from(
        "RFC 8219 7.2 and 7.3, for each run: median (TL), 99.9th percentile (WCL), and WCL minus \
            the smallest delay (PDV), by nearest rank, with lost frames as infinitely slow. WCL \
            and PDV need 10 000 frames per run. IPDV is the change from one frame of a flow to the \
            next. Figures are medians over runs with their interval. Delay is from the departure \
            of a frame to the receiving kernel; the column \"from schedule\" starts at its \
            scheduled departure. ",
    );
    note += if doubtful { TWO_CLOCKS } else { ONE_CLOCK };
    table.note = Some(note);
    table
}

/// Returns the uncertainty of the clocks at a point.
fn uncertainty(point: &PointStudy, study: &MetricStudy) -> Cell {
    match study.estimate {
        Some(estimate) if estimate.value.is_infinite() => Cell::Missing("not at all".into()),
        _ => estimate_cell(point, Some(study)),
    }
}
