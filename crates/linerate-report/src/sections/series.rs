//! Section `series`: rates over time of the best point of each sweep, and of points that are not
//! valid, with retransmissions or losses as bars.
//!
//! One trial of each point is drawn: the first valid one, or else the first one with a reason
//! against it. The resolution is the trial's interval (100 ms by default). The warm-up, which no
//! figure contains, is shaded.

use linerate_analysis::statistics::Class;
use linerate_analysis::{IntervalSeries, PointStudy, TrialStudy};
use linerate_model::{Metric, Unit, Use, Validity};

use super::{Section, Subject};
use crate::curves::uncapitalised;
use crate::document::{AxisScale, Block, Cell, Chart, Column, Plot, Role, Sheet};
use crate::grid::{Grid, headline, is_files};
use crate::number::Scale;

/// Most points that are not valid drawn in each sweep.
const DOUBTFUL: usize = 1;

/// Section `series`.
pub(super) const SECTION: Section = Section {
    name: "series",
    title: "Over time",
    summary: "rates over time with retransmissions, for the best points and those that are not \
        valid",
    order: 70,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let all = &subject.study.points;
    let drawn =
        subject.grids.iter().flat_map(chosen).filter_map(|(grid, point)| chart(grid, point, all));
    drawn.map(Block::Chart).collect()
}

fn chosen<'a>(grid: &'a Grid<'a>) -> Vec<(&'a Grid<'a>, &'a PointStudy)> {
    let best = grid
        .points
        .iter()
        .filter(|point| point.validity == Validity::Valid)
        .filter(|p| figure(grid, p).is_some());
    let best = best
        .max_by(|a, b| figure(grid, a).unwrap_or(0.0).total_cmp(&figure(grid, b).unwrap_or(0.0)));
    // A reading above its ceiling is impossible, so no curve shows it.
    let in_doubt =
        |point: &&&PointStudy| matches!(point.validity, Validity::Suspect | Validity::Invalid);
    let doubtful = grid.points.iter().filter(in_doubt).take(DOUBTFUL);
    best.into_iter().chain(doubtful).map(|point| (grid, *point)).collect()
}

/// Returns the value of the first rate over time that `point` has.
fn figure(grid: &Grid<'_>, point: &PointStudy) -> Option<f64> {
    let job = headline(point)?;
    rates(point).into_iter().find_map(|metric| {
        job.metric(metric, grid.direction(metric)?)?.estimate.map(|estimate| estimate.value)
    })
}

/// Returns the rates that may be drawn as lines; the first with a reading is.
fn rates(point: &PointStudy) -> Vec<&'static Metric> {
    let mut rates: Vec<_> = Use::OverTime.metrics().collect();
    // Each interval has few files: of them the payload is drawn, of requests their number.
    if !headline(point).is_some_and(is_files) {
        rates.sort_by_key(|metric| !metric.is_for(Use::Request));
    }
    rates
}

/// Returns the chart of one trial of `point`, which is one of `all` points of the study.
fn chart(grid: &Grid<'_>, point: &PointStudy, all: &[PointStudy]) -> Option<Chart> {
    let fit = |trial: &&TrialStudy| trial.validity == point.validity && trial.seconds.len() > 1;
    let trial_idx = point.trials.iter().position(|trial| fit(&trial))?;
    let trial = &point.trials[trial_idx];
    // Bars of nothing but zeros would say less than the table does.
    let has_any = |values: &[Option<f64>]| values.iter().flatten().any(|value| *value > 0.0);
    let drawn = || trial.series.iter().filter(|(_, values)| has_any(values));
    let read =
        |wanted: &'static Metric| drawn().filter(move |(name, _)| name.metric() == Some(wanted));
    let rate = rates(point).into_iter().find(|&metric| read(metric).next().is_some())?;
    let lines: Vec<(&IntervalSeries, &Vec<Option<f64>>)> = read(rate).collect();
    let counts = Use::EndLoss
        .metrics()
        .filter_map(|metric| Some((metric, trial.series.get(&IntervalSeries::Of(metric))?)))
        .find(|(_, values)| has_any(values));
    let scale =
        Scale::of(rate, lines.iter().flat_map(|(_, values)| values.iter().flatten().copied()));
    let one_way = lines.len() == 1;
    let mut sheet = Sheet::new(trial.seconds.iter().enumerate());
    sheet.number("time", Scale::SECONDS, |(_, second)| **second);
    for (name, values) in &lines {
        let head = match name.direction().filter(|_| !one_way) {
            None => rate.title.to_owned(),
            Some(direction) => format!("{} {direction}", rate.title),
        };
        let column = Column { layer: rate.layer, ..Column::number(head, scale) };
        sheet.drawn(Role::Line, column, |(index, _)| reading(values, *index));
    }
    if let Some((metric, values)) = counts {
        let (head, scale) = match metric.unit {
            Unit::Ratio => ("datagrams lost", Scale::PERCENT),
            _ => ("retransmitted segments", Scale::COUNT),
        };
        let column = Column::number(head, scale);
        sheet.drawn(Role::Second, column, |(index, _)| reading(values, *index));
    }
    let beside = Use::TableOverTime.metrics().map(IntervalSeries::Of);
    let datagrams = [IntervalSeries::DatagramsSent, IntervalSeries::DatagramsReceived];
    for series in beside.chain(datagrams) {
        let Some(values) = trial.series.get(&series).filter(|values| has_any(values)) else {
            continue;
        };
        let scale = Scale::fit(series.unit().0, values.iter().flatten().copied());
        let column = Column::number(series.title(), scale);
        sheet.column(column, |(index, _)| reading(values, *index));
    }
    let standing = match point.validity {
        Validity::Valid => "best point".to_owned(),
        other => other.word().to_owned(),
    };
    let went = went(point, trial, rate).map_or_else(String::new, |word| format!(", {word}"));
    let caption = format!("{}, {standing}{went}, trial {}", grid.full_place_of(point), trial.id.0);
    let id = format!("series-{}-{}", grid.number, trial.id.0);
    let marks = sheet.marks();
    let mut table = sheet.plain(id, caption);
    let point_idx = all.iter().position(|one| std::ptr::eq(one, point));
    table.figures_at =
        point_idx.map(|point_idx| format!("/points/{point_idx}/trials/{trial_idx}/intervals"));
    table.note = Some(
        "Each reading ends its interval; seconds since the start barrier. Counts stand where they \
            were read."
            .into(),
    );
    table.folded = true;
    Some(Chart {
        summary: format!(
            "{} over time, with {}.",
            rate.title,
            counts.map_or("no counts", |(metric, _)| metric.name)
        ),
        x_scale: AxisScale::Linear,
        measured_from: (trial.measured_from > 0.0).then_some(trial.measured_from),
        ..Chart::of(
            Plot::Series,
            format!(
                "{}{}",
                uncapitalised(rate.title),
                rate.layer.map_or(String::new(), |l| format!(" at {l}"))
            ),
            marks,
            table,
        )
    })
}

/// Returns the reading with number `index`; the series may be shorter.
fn reading(values: &[Option<f64>], index: usize) -> Cell {
    match values.get(index).copied().flatten() {
        Some(value) if value.is_finite() => Cell::Number(value),
        _ => Cell::Missing("–".into()),
    }
}

/// Returns the course of `rate` in `trial` of `point`, if the plan asks for it and it was not
/// steady: that of the worse direction.
fn went(point: &PointStudy, trial: &TrialStudy, rate: &Metric) -> Option<&'static str> {
    let place = point.trials.iter().position(|one| one.id == trial.id)?;
    let asked = headline(point)?.metrics.iter().filter(|known| known.metric == rate);
    let classes = asked
        .filter_map(|metric| Some(metric.settled.as_ref()?.trials.get(place)?.as_ref()?.class));
    classes.max().filter(|class| *class != Class::Steady).map(Class::word)
}
