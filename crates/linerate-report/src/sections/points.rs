//! Section `points`: every point with its main figures, for further computation.
//!
//! It has the metrics of all directions with a figure somewhere in the sweep. The JSON of the study
//! has the other metrics and the values of single trials.

use linerate_analysis::{MetricStudy, PointStudy};
use linerate_model::{Direction, Estimate, Metric, Use};

use super::{Section, Subject};
use crate::document::{Block, Cell, Column, Row, Table};
use crate::grid::{Family, estimate_cell, families, headline};
use crate::number::Scale;

const DIRECTIONS: [Direction; 3] = [Direction::Tx, Direction::Rx, Direction::Sum];

/// JSON pointer to the metrics of all points in the study's JSON.
const POINTS: &str = "/points";

/// Section `points`.
pub(super) const SECTION: Section = Section {
    name: "points",
    title: "All points",
    summary: "every point with its main figures, runs and validity",
    order: 140,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let of = |family: &Family<'_>| {
        std::iter::once(table(family)).chain(means(family)).map(Block::Table).collect::<Vec<_>>()
    };
    let looks = crate::looks::table(subject.grids).map(Block::Table);
    looks.into_iter().chain(families(subject.grids).iter().flat_map(of)).collect()
}

/// Returns the table of means over the runs.
fn means(family: &Family<'_>) -> Option<Table> {
    let mut columns = family.place_columns();
    columns.push(Column::number("runs", Scale::COUNT));
    let mut figures: Vec<(&'static Metric, Direction)> = Vec::new();
    for known in Use::Mean.metrics() {
        for direction in DIRECTIONS {
            let values: Vec<f64> = family
                .points()
                .filter_map(|(_, point)| Some(mean(point, known, direction)?.value))
                .collect();
            if !values.is_empty() {
                let scale = Scale::of(known, values);
                columns.push(Column::estimate(known.title, scale, known.layer, direction));
                figures.push((known, direction));
            }
        }
    }
    let mut table =
        Table::new(format!("means-{}", family.id), format!("Means: {}", family.name), columns);
    for (grid, point) in family.points() {
        let mut cells = family.place_cells(grid, point);
        cells.push(Cell::Number(point.trials.len() as f64));
        cells.extend(figures.iter().map(|(metric, direction)| {
            mean(point, metric, *direction)
                .map_or_else(|| Cell::Missing("–".into()), Cell::Estimate)
        }));
        table.rows.push(Row::judged(cells, point.validity));
    }
    table.folded = true;
    table.figures_at = Some(POINTS.to_owned());
    table.note = Some(
        "Means over three or more runs, with Student's intervals at 95 %. The intervals assume \
            nearly normal runs; for skewed runs they cover a few percent less. No end is above a \
            ceiling or below zero."
            .into(),
    );
    (!figures.is_empty()).then_some(table)
}

fn mean(point: &PointStudy, metric: &Metric, direction: Direction) -> Option<Estimate> {
    let figure = headline(point)?.metric(metric, direction)?;
    let of = figure.mean?;
    let n = figure.values.iter().flatten().count() as u32;
    Some(Estimate {
        value: of.value,
        low: Some(of.low),
        high: Some(of.high),
        confidence: Some(0.95),
        n,
    })
}

fn table(family: &Family<'_>) -> Table {
    let mut figures: Vec<(&'static Metric, Direction)> = Vec::new();
    for known in
        Use::Points.metrics().filter(|known| family.grids.iter().any(|grid| grid.tells(known)))
    {
        let told = DIRECTIONS.into_iter().filter(|direction| {
            let jobs = family.points().filter_map(|(_, point)| headline(point));
            let told = |metric: &MetricStudy| metric.estimate.is_some() || metric.settled.is_some();
            jobs.filter_map(|job| job.metric(known, *direction)).any(told)
        });
        figures.extend(told.map(|direction| (known, direction)));
    }
    let mut columns = family.place_columns();
    columns.push(Column::text("validity"));
    columns.push(Column::number("runs", Scale::COUNT));
    let settles = family.points().any(|(_, point)| over_time(point).is_some());
    if settles {
        columns.push(Column::text("over time"));
    }
    for (known, direction) in &figures {
        let value = |(_, point)| -> Option<f64> {
            Some(headline(point)?.metric(known, *direction)?.estimate?.value)
        };
        let scale = Scale::of(known, family.points().filter_map(value));
        columns.push(Column::estimate(known.title, scale, known.layer, *direction));
    }
    let mut table =
        Table::new(format!("points-{}", family.id), format!("Points: {}", family.name), columns);
    table.figures_at = Some(POINTS.to_owned());
    for (grid, point) in family.points() {
        let mut cells = family.place_cells(grid, point);
        cells.push(Cell::text(point.validity.word()));
        cells.push(Cell::Number(point.trials.len() as f64));
        if settles {
            cells.push(over_time(point).map_or_else(|| Cell::Missing("–".into()), Cell::Text));
        }
        let job = headline(point);
        let figure = |(known, direction): &(&'static Metric, Direction)| {
            estimate_cell(point, job.and_then(|job| job.metric(known, *direction)))
        };
        cells.extend(figures.iter().map(figure));
        table.rows.push(Row::judged(cells, point.validity));
    }
    table.folded = table.rows.len() > 12;
    table
}

/// Returns the course of the rates of `point` over time, each word once with its directions:
/// `steady`, or `tx slows down, rx steady`.
fn over_time(point: &PointStudy) -> Option<String> {
    let rates = headline(point)?.metrics.iter().filter(|known| known.metric.is_for(Use::Mean));
    let known: Vec<(Direction, &str)> = rates
        .filter_map(|metric| Some((metric.direction, metric.settled.as_ref()?.word.as_str())))
        .collect();
    let (_, first) = known.first()?;
    if known.iter().all(|(_, word)| word == first) {
        return Some((*first).to_owned());
    }
    let ways = known.iter().filter(|(way, _)| *way != Direction::Sum || known.len() == 1);
    Some(ways.map(|(way, word)| format!("{way} {word}")).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use linerate_analysis::{JobStudy, Settled};
    use linerate_model::metric;

    use super::*;

    fn rate(direction: Direction, word: &str, has_single_number: bool) -> MetricStudy {
        let settled = Some(Settled { word: word.into(), has_single_number, trials: Vec::new() });
        MetricStudy {
            values: vec![Some(1e6)],
            settled,
            ..MetricStudy::new(metric::GOODPUT, direction)
        }
    }

    fn point(metrics: Vec<MetricStudy>) -> PointStudy {
        PointStudy {
            jobs: vec![JobStudy { metrics, ..JobStudy::default() }],
            ..PointStudy::default()
        }
    }

    #[test]
    fn a_row_says_how_its_rates_went_and_a_rate_without_a_number_says_why() {
        let falls = rate(Direction::Tx, "slows down", false);
        let one = point(vec![falls.clone()]);
        assert_eq!(over_time(&one).as_deref(), Some("slows down"));
        assert_eq!(estimate_cell(&one, Some(&falls)), Cell::Missing("slows down".into()));
        let both = point(vec![
            falls,
            rate(Direction::Rx, "steady", true),
            rate(Direction::Sum, "slows down", false),
        ]);
        assert_eq!(over_time(&both).as_deref(), Some("tx slows down, rx steady"));
        assert_eq!(over_time(&PointStudy::default()), None);
    }
}
