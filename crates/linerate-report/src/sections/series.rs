//! Section `series`: rates over time of the best point of each sweep, and of points that are not
//! valid, with retransmissions or losses as bars.
//!
//! One trial of each point is drawn: the first valid one, or else the first one with a reason
//! against it. The resolution is the trial's interval (100 ms by default). The warm-up, which no
//! figure contains, is shaded.

use linerate_analysis::statistics::Class;
use linerate_analysis::{PointStudy, TrialStudy};
use linerate_model::{Layer, Unit, Validity, metric};

use super::{Section, Subject};
use crate::curves::{metric_title, uncapitalised};
use crate::document::{AxisScale, Block, Cell, Chart, Column, Mark, Plot, Role, Row, Table};
use crate::grid::{Grid, headline, is_files};
use crate::number::Scale;

/// Series drawn as lines: the first one with a reading.
const RATES: [&str; 3] = [metric::TRANSACTION_RATE, metric::CONNECTION_RATE, metric::GOODPUT];
/// The same for files, of which an interval has few.
const RATES_OF_FILES: [&str; 3] =
    [metric::GOODPUT, metric::TRANSACTION_RATE, metric::CONNECTION_RATE];
/// Series drawn as bars: the first one with a reading.
const COUNTS: [&str; 2] = [metric::RETRANSMITS, metric::LOSS_RATIO];
/// Series that are only in the table.
const BESIDE: [&str; 4] =
    [metric::RTT, metric::PEER_WINDOW, "datagrams_sent", "datagrams_received"];
/// Most points that are not valid drawn in each sweep.
const DOUBTFUL: usize = 1;

/// Section `series`.
pub(super) struct Series;

impl Section for Series {
    fn name(&self) -> &'static str {
        "series"
    }

    fn title(&self) -> &'static str {
        "Over time"
    }

    fn summary(&self) -> &'static str {
        "rates over time with retransmissions, for the best points and those that are not valid"
    }

    fn order(&self) -> u32 {
        70
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        let all = &subject.study.points;
        let drawn = subject
            .grids
            .iter()
            .flat_map(chosen)
            .filter_map(|(grid, point)| chart(grid, point, all));
        drawn.map(Block::Chart).collect()
    }
}

fn chosen<'a>(grid: &'a Grid<'a>) -> Vec<(&'a Grid<'a>, &'a PointStudy)> {
    let figure = |point: &PointStudy| {
        let job = headline(point)?;
        rates(point).iter().find_map(|name| {
            job.metric(name, grid.direction(name)?)?.estimate.map(|estimate| estimate.value)
        })
    };
    let best = grid
        .points
        .iter()
        .filter(|point| point.validity == Validity::Valid)
        .filter(|p| figure(p).is_some());
    let best = best.max_by(|a, b| figure(a).unwrap_or(0.0).total_cmp(&figure(b).unwrap_or(0.0)));
    // A reading above its ceiling is impossible, so no curve shows it.
    let in_doubt =
        |point: &&&PointStudy| matches!(point.validity, Validity::Suspect | Validity::Invalid);
    let doubtful = grid.points.iter().filter(in_doubt).take(DOUBTFUL);
    best.into_iter().chain(doubtful).map(|point| (grid, *point)).collect()
}

fn rates(point: &PointStudy) -> [&'static str; 3] {
    if headline(point).is_some_and(is_files) { RATES_OF_FILES } else { RATES }
}

/// Returns unit and layer of the series called `series`.
pub(crate) fn unit_of(series: &str) -> (Unit, Option<Layer>) {
    match (metric(split(series).0), series) {
        (Some(metric), _) => (metric.unit, metric.layer),
        (None, metric::PEER_WINDOW) => (Unit::Byte, None),
        (None, _) => (Unit::PerSecond, None),
    }
}

/// Splits `goodput_rx` into `goodput` and its direction.
fn split(series: &str) -> (&str, &str) {
    for direction in ["tx", "rx", "sum"] {
        if let Some(name) = series.strip_suffix(direction).and_then(|name| name.strip_suffix('_')) {
            return (name, direction);
        }
    }
    (series, "")
}

/// Returns the chart of one trial of `point`, which is one of `all` points of the study.
fn chart(grid: &Grid<'_>, point: &PointStudy, all: &[PointStudy]) -> Option<Chart> {
    let fit = |trial: &&TrialStudy| trial.validity == point.validity && trial.seconds.len() > 1;
    let trial_idx = point.trials.iter().position(|trial| fit(&trial))?;
    let trial = &point.trials[trial_idx];
    let read = |wanted: &str| -> Vec<(&String, &Vec<Option<f64>>)> {
        let named = trial.series.iter().filter(|(name, _)| split(name).0 == wanted);
        named.filter(|(_, values)| values.iter().flatten().any(|value| *value > 0.0)).collect()
    };
    let (rate, lines) =
        rates(point).iter().map(|name| (*name, read(name))).find(|(_, found)| !found.is_empty())?;
    // Bars that are all zero add nothing to the table.
    let counts = COUNTS.iter().filter_map(|name| trial.series.get_key_value(*name));
    let counts =
        counts.into_iter().find(|(_, values)| values.iter().flatten().any(|value| *value > 0.0));
    let known = metric(rate)?;
    let scale = Scale::fit(
        rate,
        known.unit,
        lines.iter().flat_map(|(_, values)| values.iter().flatten().copied()),
    );
    let one_way = lines.len() == 1;
    let mut columns = vec![Column::number("time", Scale::SECONDS)];
    let mut marks = Vec::new();
    let mut data: Vec<&Vec<Option<f64>>> = Vec::new();
    for (name, values) in &lines {
        let (_, direction) = split(name);
        let head = if direction.is_empty() || one_way {
            metric_title(rate)
        } else {
            format!("{} {direction}", metric_title(rate))
        };
        marks.push(Mark { column: columns.len(), name: head.clone(), role: Role::Line });
        columns.push(Column { layer: known.layer, ..Column::number(head, scale) });
        data.push(values);
    }
    if let Some((name, values)) = counts {
        let (head, scale) = match metric(name) {
            Some(known) if known.unit == Unit::Ratio => ("datagrams lost", Scale::PERCENT),
            _ => ("retransmitted segments", Scale::COUNT),
        };
        marks.push(Mark { column: columns.len(), name: head.into(), role: Role::Second });
        columns.push(Column::number(head, scale));
        data.push(values);
    }
    for (name, values) in BESIDE.iter().filter(|name| **name != rate).flat_map(|name| read(name)) {
        let (unit, _) = unit_of(name);
        columns.push(Column::number(
            metric_title(name),
            Scale::fit(name, unit, values.iter().flatten().copied()),
        ));
        data.push(values);
    }
    let standing = match point.validity {
        Validity::Valid => "best point".to_owned(),
        other => other.word().to_owned(),
    };
    let went = went(point, trial, rate).map_or_else(String::new, |word| format!(", {word}"));
    let caption = format!("{}, {standing}{went}, trial {}", grid.full_place_of(point), trial.id.0);
    let id = format!("series-{}-{}", grid.number, trial.id.0);
    let mut table = Table::new(id, caption.clone(), columns);
    let point_idx = all.iter().position(|one| std::ptr::eq(one, point));
    table.figures_at =
        point_idx.map(|point_idx| format!("/points/{point_idx}/trials/{trial_idx}/intervals"));
    for (index, second) in trial.seconds.iter().enumerate() {
        let cell = |values: &&Vec<Option<f64>>| match values.get(index).copied().flatten() {
            Some(value) if value.is_finite() => Cell::Number(value),
            _ => Cell::Missing("–".into()),
        };
        let mut cells = vec![Cell::Number(*second)];
        cells.extend(data.iter().map(cell));
        table.rows.push(Row::plain(cells));
    }
    table.note = Some(
        "Each reading ends its interval; seconds since the start barrier. Counts stand where they \
            were read."
            .into(),
    );
    table.folded = true;
    Some(Chart {
        title: caption,
        summary: format!(
            "{} over time, with {}.",
            metric_title(rate),
            counts.map_or("no counts", |(name, _)| name.as_str())
        ),
        plot: Plot::Series,
        x_scale: AxisScale::Linear,
        y_scale: AxisScale::Linear,
        y_name: format!(
            "{}{}",
            uncapitalised(&metric_title(rate)),
            known.layer.map_or(String::new(), |l| format!(" at {l}"))
        ),
        marks,
        measured_from: (trial.measured_from > 0.0).then_some(trial.measured_from),
        table,
    })
}

/// Returns the course of `rate` in `trial` of `point`, if the plan asks for it and it was not
/// steady: that of the worse direction.
fn went(point: &PointStudy, trial: &TrialStudy, rate: &str) -> Option<&'static str> {
    let place = point.trials.iter().position(|one| one.id == trial.id)?;
    let asked = headline(point)?.metrics.iter().filter(|metric| metric.name == rate);
    let classes = asked
        .filter_map(|metric| Some(metric.settled.as_ref()?.trials.get(place)?.as_ref()?.class));
    classes.max().filter(|class| *class != Class::Steady).map(Class::word)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_series_name_ends_in_its_direction() {
        assert_eq!(split("goodput_rx"), ("goodput", "rx"));
        assert_eq!(split("retransmits"), ("retransmits", ""));
        assert_eq!(split("packet_rate_sum"), ("packet_rate", "sum"));
    }
}
