//! Course of a figure over campaigns of one plan: a line with intervals, the means of its levels,
//! and the campaigns at which the level changed (`linerate_analysis::statistics::levels`).

use linerate_analysis::FigurePlace;
use linerate_analysis::statistics::levels;
use linerate_model::{CampaignHeader, Estimate, Layer, Validity};

use crate::document::{
    AxisScale, Cell, Chart, Column, ColumnKind, EMULATED, Mark, Plot, Role, Sheet,
};
use crate::grid::coordinate;
use crate::number::Scale;
use crate::words::{date, minute};

/// Campaigns from which changes are looked for: two levels of two campaigns.
const LEAST: usize = 4;
/// Digits of a plan's hash in the table.
const HASH_DIGITS: usize = 8;

/// Figure of one campaign.
#[derive(Clone, Copy, Debug)]
pub struct CourseReading<'a> {
    /// Campaign.
    pub header: &'a CampaignHeader,
    /// Figure with its interval.
    pub estimate: Estimate,
    /// Validity of its point.
    pub validity: Validity,
}

/// Course of a figure.
#[derive(Clone, Debug)]
pub struct Course {
    /// Chart, with its table.
    pub chart: Chart,
    /// Changes of the level, in order.
    pub changes: Vec<String>,
    /// Condition of the comparison that differs, or is missing.
    pub notes: Vec<String>,
}

/// Returns the name of the place of a figure without the figure itself: sweep, coordinate, job.
#[must_use]
pub fn course_place(place: &FigurePlace) -> String {
    let [from, to] = &place.ends;
    let coordinate = coordinate(&place.parameters);
    let coordinate = if coordinate.is_empty() { coordinate } else { format!(", {coordinate}") };
    let ends = if from.is_empty() { String::new() } else { format!(" {from} to {to}") };
    let number = if place.job > 0 { format!(" (job {})", place.job + 1) } else { String::new() };
    format!("{}{coordinate}: {}{ends}{number}", place.sweep, place.workload)
}

/// Returns the name of the figure: metric, layer and direction.
#[must_use]
pub fn course_figure(place: &FigurePlace) -> String {
    // As in comparisons, the usual layer is not named.
    let layer = place.metric.layer.filter(|layer| *layer != Layer::L4);
    let layer = layer.map_or(String::new(), |layer| format!(" {layer}"));
    format!("{}{layer} {}", place.metric.title, place.direction)
}

/// Returns the course of the figure at `place` over `readings`, which are in the order of time.
#[must_use]
pub fn course(place: &FigurePlace, readings: &[CourseReading<'_>]) -> Course {
    let values = || readings.iter().map(|one| one.estimate.value);
    let scale = Scale::fit(place.metric.unit, values().filter(|value| value.is_finite()));
    // A percentile among operations that were never answered is on no level.
    let finite: Vec<usize> =
        (0..readings.len()).filter(|at| readings[*at].estimate.value.is_finite()).collect();
    let series: Vec<f64> = finite.iter().map(|at| readings[*at].estimate.value).collect();
    let levels = levels(&series);
    let mut level_of: Vec<Option<f64>> = vec![None; readings.len()];
    let mut starts: Vec<bool> = vec![false; readings.len()];
    for (nth, (level, mean)) in levels.iter().enumerate() {
        for at in &finite[level.clone()] {
            level_of[*at] = Some(*mean);
        }
        starts[finite[level.start]] = nth > 0;
    }
    let of_figure =
        Column::estimate(place.metric.title, scale, place.metric.layer, place.direction);
    let mut sheet = Sheet::new(readings.iter().enumerate());
    let campaign = Column { kind: ColumnKind::Number, ..Column::text("campaign of") };
    sheet.column(campaign, |(at, one)| Cell::Coordinate {
        value: *at as f64,
        label: minute(one.header.started),
    });
    sheet.column(of_figure, |(_, one)| Cell::Estimate(one.estimate));
    sheet.number_or("mean of the level", scale, "no level", |(at, _)| level_of[*at]);
    sheet.number_or("change to", scale, "–", |(at, _)| level_of[*at].filter(|_| starts[*at]));
    sheet.text("plan", |(_, one)| one.header.plan_sha256.chars().take(HASH_DIGITS).collect());
    let mut table = sheet.judged("course", course_figure(place), |(_, one)| one.validity);
    let is_emulated = readings.iter().all(|one| one.header.emulated());
    table.mark = (is_emulated && !readings.is_empty()).then_some(EMULATED);
    let mark = |column, name: &str, role| Mark { column, name: name.to_owned(), role };
    let mut marks = vec![mark(1, place.metric.title, Role::Line)];
    if levels.len() > 1 {
        marks.push(mark(2, "mean of the level", Role::Ceiling(Some(0))));
        marks.push(mark(3, "change of the level", Role::Line));
    }
    let changes = levels.windows(2).map(|two| {
        let [(_, before), (level, after)] = two else { return String::new() };
        let share = match *before {
            0.0 => String::new(),
            _ => format!(" ({:+.1} %)", (after / before - 1.0) * 100.0),
        };
        let began = date(readings[finite[level.start]].header.started);
        format!("{began}: {} to {}{share}", scale.shown(*before), scale.shown(*after))
    });
    let changes = changes.collect();
    Course {
        changes,
        notes: notes(readings, series.len()),
        chart: Chart {
            x_scale: AxisScale::Linear,
            summary: format!("{} of {} campaigns", course_figure(place), readings.len()),
            ..Chart::of(Plot::Lines, place.metric.title, marks, table)
        },
    }
}

fn notes(readings: &[CourseReading<'_>], n_finite: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if n_finite < LEAST {
        notes.push(format!("Changes of the level need {LEAST} campaigns with a figure."));
    }
    let mut plans: Vec<&str> = readings.iter().map(|one| &*one.header.plan_sha256).collect();
    plans.sort_unstable();
    plans.dedup();
    if plans.len() > 1 {
        let n = plans.len();
        notes.push(format!("The plan changed: {n} versions (column plan)."));
    }
    let n_emulated = readings.iter().filter(|one| one.header.emulated()).count();
    if n_emulated > 0 && n_emulated < readings.len() {
        notes.push(format!("{n_emulated} of {} campaigns ran on a lab.", readings.len()));
    }
    notes
}

#[cfg(test)]
mod tests {
    use linerate_model::{Direction, Nanos, Point, TestbedKind, metric};

    use super::*;

    const DAY: u64 = 86_400_000_000_000;

    fn place() -> FigurePlace {
        FigurePlace {
            sweep: "s".to_owned(),
            parameters: Point::new(),
            job: 0,
            workload: "tcp_stream".to_owned(),
            ends: ["a", "b"].map(str::to_owned),
            metric: metric::GOODPUT,
            direction: Direction::Tx,
        }
    }

    fn header(day: usize, plan: &str) -> CampaignHeader {
        CampaignHeader {
            started: Nanos(day as u64 * DAY),
            plan_sha256: plan.to_owned(),
            testbed: TestbedKind::Hosts,
            ..CampaignHeader::default()
        }
    }

    fn estimate(value: f64) -> Estimate {
        let [low, high] = [0.99, 1.01].map(|share| Some(value * share));
        Estimate { value, low, high, confidence: Some(0.95), n: 5 }
    }

    fn of(values: &[f64], plan: fn(usize) -> &'static str) -> Course {
        let headers: Vec<_> = (0..values.len()).map(|day| header(day, plan(day))).collect();
        let readings: Vec<_> = headers
            .iter()
            .zip(values)
            .map(|(header, value)| CourseReading {
                header,
                estimate: estimate(*value),
                validity: Validity::Valid,
            })
            .collect();
        course(&place(), &readings)
    }

    #[test]
    fn a_change_is_marked_where_it_happened_and_noise_is_not() {
        let noise = [9.40, 9.41, 9.39, 9.42, 9.40, 9.38].map(|gbits| gbits * 1e9);
        let quiet = of(&noise, |_| "p");
        assert_eq!((quiet.changes.len(), quiet.chart.marks.len(), quiet.notes), (0, 1, vec![]));
        let slower = noise.map(|bits| bits * 0.9);
        let changed = of(&[noise, slower].concat(), |_| "p");
        // 9.40 and 8.46 are the means of the six values of either level.
        assert_eq!(
            changed.changes,
            ["1970-01-07 00:00 UTC: 9.400 Gbit/s to 8.460 Gbit/s (-10.0 %)"]
        );
        let marked: Vec<usize> =
            (0..12).filter(|at| changed.chart.table.rows[*at].cells[3].value().is_some()).collect();
        assert_eq!(marked, [6]);
        let spec = crate::chart_spec(&changed.chart);
        let low = spec["marks"][0]["points"][0]["low"].as_f64().expect("an interval");
        assert!((low - 9.40 * 0.99).abs() < 1e-9, "{low}");
        assert_eq!(spec["labels"][6]["label"], "1970-01-07 00:00");
    }

    #[test]
    fn an_unanswered_percentile_keeps_its_place_and_few_campaigns_have_no_changes() {
        let few = of(&[1e9, 2e9, f64::INFINITY, 1e9], |_| "p");
        assert_eq!(few.chart.table.rows.len(), 4);
        assert_eq!(few.changes, Vec::<String>::new());
        assert_eq!(few.notes, ["Changes of the level need 4 campaigns with a figure."]);
        let edited = of(&[1e9; 5], |day| if day < 2 { "old" } else { "new" });
        assert_eq!(edited.notes, ["The plan changed: 2 versions (column plan)."]);
        let gap = [1.0, 1.01, 1.0, f64::INFINITY, 1.0, 2.0, 2.01, 2.0, 2.0].map(|g| g * 1e9);
        let changed = of(&gap, |_| "p");
        assert!(changed.changes[0].starts_with("1970-01-06"), "{:?}", changed.changes);
    }

    #[test]
    fn places_and_figures_have_names_of_their_own() {
        let second = FigurePlace { job: 1, ..place() };
        assert_eq!(course_place(&place()), "s: tcp_stream a to b");
        assert_eq!(course_place(&second), "s: tcp_stream a to b (job 2)");
        assert_eq!(course_figure(&place()), "Goodput tx");
    }
}
