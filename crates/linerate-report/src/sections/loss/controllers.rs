//! Frames that network controllers dropped before their sideband, by their own NC-SI statistics,
//! beside TCP's retransmissions and lost datagrams.
//!
//! Frames are at L2, summed over every host behind a controller, and include all traffic to that
//! host. Points without a controller reading are left out, so a zero is always a reading.

use linerate_analysis::{MetricStudy, PointStudy};
use linerate_model::{Direction, Metric, Use, metric};

use crate::curves::uncapitalised;
use crate::document::{Column, Sheet, Table, Tone};
use crate::grid::{Grid, estimate_cell, headline};
use crate::number::Scale;
use crate::sections::Subject;

/// Metrics of the frames that a controller received from the network and dropped.
const RECEIVED: &Metric = metric::CONTROLLER_RECEIVED;
const DROPPED: &Metric = metric::CONTROLLER_DROPPED;

/// Point with a controller reading.
struct Reading<'a> {
    grid: &'a Grid<'a>,
    point: &'a PointStudy,
    received: &'a MetricStudy,
    dropped: &'a MetricStudy,
}

/// Returns one row for each point with a controller reading.
pub(super) fn table(subject: &Subject<'_>) -> Option<Table> {
    let readings: Vec<Reading<'_>> =
        subject.points().filter_map(|(grid, point)| reading(grid, point)).collect();
    if readings.is_empty() {
        return None;
    }
    // Columns of zeros are left out.
    let noticed: Vec<&Metric> = Use::EndLoss
        .metrics()
        .filter(|known| {
            readings.iter().any(|one| one.noticed(known).is_some_and(|found| value(&found) > 0.0))
        })
        .collect();
    let frames = |head, metric: &Metric| Column::undirected(head, Scale::COUNT, metric.layer);
    let mut sheet = Sheet::new(&readings);
    sheet.text("where", |one| one.grid.full_place_of(one.point));
    sheet.column(frames("frames received", RECEIVED), |one| {
        estimate_cell(one.point, Some(one.received))
    });
    sheet.column(frames("dropped", DROPPED), |one| estimate_cell(one.point, Some(one.dropped)));
    sheet.number_or("of received frames", Scale::PERCENT, "–", |one| one.share());
    for known in &noticed {
        let values =
            readings.iter().filter_map(|one| one.noticed(known)).map(|found| value(&found));
        let scale = Scale::of(known, values);
        let column = Column::undirected(uncapitalised(known.title), scale, known.layer);
        sheet.column(column, |one| estimate_cell(one.point, one.noticed(known).as_ref()));
    }
    let caption = "Frames that network controllers dropped";
    let mut table = sheet.toned("loss-controllers", caption, |one| {
        if value(one.dropped) > 0.0 { Tone::Marked } else { Tone::Plain }
    });
    table.note = Some(
        "Frames from the network to the host behind a controller's sideband during the \
            measurement, by the controller's NC-SI statistics. No counter of the host shows its \
            drops; TCP retransmits them. The share is of the medians. Points without a controller \
            reading are left out."
            .into(),
    );
    Some(table)
}

fn reading<'a>(grid: &'a Grid<'a>, point: &'a PointStudy) -> Option<Reading<'a>> {
    let job = headline(point)?;
    let read = |metric| job.metric(metric, Direction::Sum).filter(|found| found.estimate.is_some());
    Some(Reading { grid, point, received: read(RECEIVED)?, dropped: read(DROPPED)? })
}

fn value(metric: &MetricStudy) -> f64 {
    metric.estimate.map_or(0.0, |estimate| estimate.value)
}

impl Reading<'_> {
    /// Returns the losses at the ends: the sum of both directions, or the only one.
    fn noticed(&self, metric: &Metric) -> Option<MetricStudy> {
        let job = headline(self.point)?;
        let told = [Direction::Sum, Direction::Tx, Direction::Rx].into_iter();
        told.filter_map(|way| job.metric(metric, way))
            .find(|found| found.estimate.is_some())
            .cloned()
    }

    fn share(&self) -> Option<f64> {
        let received = value(self.received);
        (received > 0.0).then(|| value(self.dropped) / received)
    }
}
