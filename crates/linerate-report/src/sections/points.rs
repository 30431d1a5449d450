//! Section `points`: every point with its main figures, for further computation.
//!
//! It has the metrics of all directions with a figure somewhere in the sweep. The JSON of the study
//! has the other metrics and the values of single trials.

use linerate_analysis::{MetricStudy, PointStudy};
use linerate_model::{Direction, Estimate, Metric, Use};

use super::{Section, Subject};
use crate::document::{Block, Cell, Column, Table};
use crate::grid::{Family, Placed, estimate_cell, families, headline};
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
    let mut sheet = family.sheet();
    sheet.number("runs", Scale::COUNT, runs);
    let mut is_empty = true;
    for known in Use::Mean.metrics() {
        for direction in DIRECTIONS {
            let values: Vec<f64> = family
                .points()
                .filter_map(|(_, point)| Some(mean(point, known, direction)?.value))
                .collect();
            if !values.is_empty() {
                is_empty = false;
                let scale = Scale::of(known, values);
                let column = Column::estimate(known.title, scale, known.layer, direction);
                sheet.column(column, |(_, point)| {
                    mean(point, known, direction)
                        .map_or_else(|| Cell::Missing("–".into()), Cell::Estimate)
                });
            }
        }
    }
    let caption = format!("Means: {}", family.name);
    let mut table =
        sheet.judged(format!("means-{}", family.id), caption, |(_, point)| point.validity);
    table.folded = true;
    table.figures_at = Some(POINTS.to_owned());
    table.note = Some(
        "Means over three or more runs, with Student's intervals at 95 %. The intervals assume \
            nearly normal runs; for skewed runs they cover a few percent less. No end is above a \
            ceiling or below zero."
            .into(),
    );
    (!is_empty).then_some(table)
}

fn runs((_, point): &Placed<'_>) -> f64 {
    point.trials.len() as f64
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
    let mut sheet = family.sheet();
    sheet.text("validity", |(_, point)| point.validity.word().into());
    sheet.number("runs", Scale::COUNT, runs);
    if family.points().any(|(_, point)| over_time(point).is_some()) {
        sheet.text_or("over time", "–", |(_, point)| over_time(point));
    }
    for (known, direction) in &figures {
        let value = |(_, point)| -> Option<f64> {
            Some(headline(point)?.metric(known, *direction)?.estimate?.value)
        };
        let scale = Scale::of(known, family.points().filter_map(value));
        sheet.column(
            Column::estimate(known.title, scale, known.layer, *direction),
            |(_, point)| {
                estimate_cell(point, headline(point).and_then(|job| job.metric(known, *direction)))
            },
        );
    }
    let caption = format!("Points: {}", family.name);
    let mut table =
        sheet.judged(format!("points-{}", family.id), caption, |(_, point)| point.validity);
    table.figures_at = Some(POINTS.to_owned());
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
