//! The paper's four raw tables in its columns, with their Average rows, and its bars before and
//! after tuning.

use linerate_model::metric;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::{DataDirection, cell, change, is_worse, only, unsettled};
use crate::reproduce::{Comparison, Figure, FigureForm, mbit, whole};
use linerate_analysis::statistics::{half_up, mean_half_up};
use linerate_analysis::{IntervalSeries, PointStudy, Study};

/// Decimals the paper prints.
const PLACES: u32 = 2;
const MEGABIT: f64 = 1e6;
const CONSOLES: [&str; 2] = ["a", "b"];
const BMCS: [&str; 2] = ["bmc1", "bmc2"];
const MODES: [&str; 2] = ["uni", "bidi"];

/// A series of the paper.
#[derive(Deserialize)]
struct Printed {
    /// Its average.
    printed: f64,
    /// Its seconds, Mbit/s.
    values: Vec<f64>,
}

/// Returns the paper's series by their names.
fn printed() -> BTreeMap<String, Printed> {
    serde_json::from_str(include_str!("../../../data/intel-ncsi-series.json"))
        .expect("the embedded series are well formed")
}

/// Returns the columns of one table: bmc, mode, direction.
fn columns() -> impl Iterator<Item = (usize, usize, DataDirection)> {
    (0..BMCS.len()).flat_map(|bmc| {
        (0..MODES.len()).flat_map(move |mode| DataDirection::BOTH.map(|way| (bmc, mode, way)))
    })
}

/// Returns the name of a series in the paper's data.
fn series_name(section: &str, bmc: usize, mode: usize, way: DataDirection) -> String {
    let (mode, way) =
        (["uni", "bi"][mode], if way == DataDirection::ToBmc { "N2B" } else { "B2N" });
    format!("{section} | B{} {mode} {way}", bmc + 1)
}

/// Returns the paper's four tables: the name, the campaign, the console, and a description.
fn sections<'a>(
    default: &'a Study,
    tuned: &'a Study,
) -> [(&'static str, &'a Study, &'static str, &'static str); 4] {
    [
        (
            "11.1.1 default RHEL",
            default,
            "a",
            "default windows, console a: a sender of today (paper: RHEL 6.3)",
        ),
        (
            "11.1.2 default WIN",
            default,
            "b",
            "default windows, console b: a legacy sender (paper: Windows 2008)",
        ),
        ("11.2.1 modified RHEL", tuned, "a", "tuned windows, console a"),
        ("11.2.2 modified WIN", tuned, "b", "tuned windows, console b"),
    ]
}

/// Returns the four tables.
pub(super) fn raw(default: &Study, tuned: &Study) -> Vec<Comparison> {
    let printed = printed();
    let tables = sections(default, tuned).into_iter().map(|(section, study, console, what)| {
        let series: Vec<Series> =
            columns().map(|column| series_at(study, console, column).unwrap_or_default()).collect();
        let papers =
            columns().map(|(bmc, mode, way)| &printed[&series_name(section, bmc, mode, way)]);
        let papers = papers.map(|series| format!("{:.2}", series.printed)).collect();
        one(format!("{section}: {what}, Mbit/s"), &series, papers)
    });
    tables.collect()
}

/// Returns the bars of each table, and each series over the paper's own.
pub(super) fn figures(default: &Study, tuned: &Study) -> Vec<Figure> {
    let printed = printed();
    let mut figures = Vec::new();
    for (section, study, console, what) in sections(default, tuned) {
        let mut bars = Figure {
            title: format!("{section}: averages"),
            note: format!(
                "Ours: {what}. A series of ours without a steady rate has no bar. Shapes V1.6 to \
                    V1.8 are judged from these."
            ),
            form: FigureForm::Bars,
            axes: ["controller, mode, direction", "Mbit/s"].map(str::to_owned),
            places: columns().map(head).collect(),
            series: vec![("paper".into(), Vec::new()), ("ours".into(), Vec::new())],
        };
        let mut curves = Vec::new();
        for column @ (bmc, mode, way) in columns() {
            let paper = &printed[&series_name(section, bmc, mode, way)];
            let ours = series_at(study, console, column).unwrap_or_default();
            bars.series[0].1.push(Some(paper.printed));
            bars.series[1].1.push(average(&ours).parse().ok());
            curves.push(course(format!("{section}, {}", head(column)), paper, ours.seconds));
        }
        figures.push(bars);
        figures.extend(curves);
    }
    figures
}

/// Returns the seconds of a series over the paper's.
fn course(title: String, paper: &Printed, ours: Vec<f64>) -> Figure {
    let n = paper.values.len().max(ours.len());
    let padded = |values: &[f64]| (0..n).map(|second| values.get(second).copied()).collect();
    Figure {
        title,
        note: "The paper's samples count calls of write(), ours the bytes delivered.".into(),
        form: FigureForm::Lines,
        axes: ["second", "Mbit/s"].map(str::to_owned),
        places: (1..=n).map(|second| second.to_string()).collect(),
        series: vec![("paper".into(), padded(&paper.values)), ("ours".into(), padded(&ours))],
    }
}

/// Returns the paper's heading of a column.
fn head((bmc, mode, way): (usize, usize, DataDirection)) -> String {
    let way = if way == DataDirection::ToBmc { "NET2BMC" } else { "BMC2NET" };
    format!("BMC-{} {} {way}", bmc + 1, MODES[mode])
}

fn series_at(
    study: &Study,
    console: &str,
    (bmc, mode, way): (usize, usize, DataDirection),
) -> Option<Series> {
    let name = format!("{console} {} {} {}", BMCS[bmc], MODES[mode], way.word());
    let point = only(study, &name)?;
    Some(Series { seconds: seconds(point, way), unsettled: unsettled_first(point, way) })
}

/// The seconds of a column.
#[derive(Default)]
struct Series {
    /// Mbit/s.
    seconds: Vec<f64>,
    /// Course of the seconds, if they have no single number.
    unsettled: Option<&'static str>,
}

/// Returns the course of goodput in the first trial of `point`, whose seconds are shown, if it has
/// no single number.
fn unsettled_first(point: &PointStudy, way: DataDirection) -> Option<&'static str> {
    let first = whole(point)?
        .metric(metric::GOODPUT, way.direction())?
        .settled
        .as_ref()?
        .trials
        .first()?
        .as_ref()?;
    (!first.class.has_single_number()).then(|| first.class.word())
}

fn one(title: String, series: &[Series], papers: Vec<String>) -> Comparison {
    let head = columns().map(head);
    fn text(value: f64) -> String {
        half_up(value, PLACES as usize)
    }
    let longest = series.iter().map(|series| series.seconds.len()).max().unwrap_or(0);
    let rows = (0..longest).map(|second| {
        let value =
            |series: &Series| series.seconds.get(second).map_or("-".into(), |value| text(*value));
        let values = series.iter().map(value);
        std::iter::once((second + 1).to_string()).chain(values).collect::<Vec<_>>()
    });
    let averages =
        std::iter::once("Average".to_owned()).chain(series.iter().map(average)).collect();
    let papers = std::iter::once("paper's average".to_owned()).chain(papers).collect();
    Comparison {
        title,
        head: std::iter::once("second".to_owned()).chain(head).collect(),
        rows: rows.chain([averages, papers]).collect(),
    }
}

/// Returns the average of a series as text. A series that never settles has none, because it would
/// depend on when the run was stopped (docs/methodology/repeats.md#steady-state).
fn average(series: &Series) -> String {
    if let Some(word) = series.unsettled {
        return format!("no single number: {word}");
    }
    let as_printed: Vec<f64> = series
        .seconds
        .iter()
        .filter_map(|value| half_up(*value, PLACES as usize).parse().ok())
        .collect();
    mean_half_up(&as_printed, PLACES, PLACES).unwrap_or_else(|| "-".into())
}

/// Returns Mbit/s delivered in each whole second of the first trial. The last interval is left out:
/// an end may have stopped in the middle of it, which would look like a fall of the rate.
pub(super) fn seconds(point: &PointStudy, way: DataDirection) -> Vec<f64> {
    /// Fraction of a second that must be recorded; the last one lacks its last tenth.
    const WHOLE: f64 = 0.85;
    let name = IntervalSeries::Directed(metric::GOODPUT, way.direction());
    let Some(trial) = point.trials.first() else { return Vec::new() };
    let Some(series) = trial.series.get(&name) else { return Vec::new() };
    let mut sums: Vec<(f64, f64)> = Vec::new();
    let mut begin = 0.0;
    let n_complete = series.len().saturating_sub(1);
    for (end, rate) in trial.seconds.iter().zip(series).take(n_complete) {
        let second = f64::midpoint(begin, *end) as usize;
        sums.resize(sums.len().max(second + 1), (0.0, 0.0));
        sums[second].0 += rate.unwrap_or(0.0) * (end - begin);
        sums[second].1 += end - begin;
        begin = *end;
    }
    sums.into_iter()
        .filter(|(_, length)| *length >= WHOLE)
        .map(|(bits, length)| bits / length / MEGABIT)
        .collect()
}

/// Returns the mean over both controllers, which is never shown without the two.
fn both(study: &Study, console: &str, mode: &str, way: DataDirection) -> Option<[f64; 2]> {
    Some([cell(study, console, BMCS[0], mode, way)?, cell(study, console, BMCS[1], mode, way)?])
}

/// Returns both controllers' figures; a figure without a value because the rate does not settle is
/// marked so.
fn pair(study: &Study, console: &str, mode: &str, way: DataDirection) -> String {
    BMCS.map(|bmc| match cell(study, console, bmc, mode, way) {
        Some(value) => mbit(value),
        None => unsettled(study, &format!("{console} {bmc} {mode} {}", way.word()), way)
            .map_or_else(|| "-".to_owned(), |word| format!("no single number: {word}")),
    })
    .join(" | ")
}

/// Returns figures 12 and 15: each console and mode, before and after.
pub(super) fn before_and_after(default: &Study, tuned: &Study) -> Comparison {
    let rows = CONSOLES.into_iter().flat_map(|console| {
        MODES.into_iter().flat_map(move |mode| {
            DataDirection::BOTH.map(|way| {
                let (before, after) =
                    (both(default, console, mode, way), both(tuned, console, mode, way));
                let ratios = before.zip(after).map_or("-".into(), |(before, after)| {
                    format!("{:.2} | {:.2}", after[0] / before[0], after[1] / before[1])
                });
                let pair = |study| pair(study, console, mode, way);
                vec![
                    format!("console {console}, {mode}, {}", way.word()),
                    pair(default),
                    pair(tuned),
                    ratios,
                ]
            })
        })
    });
    Comparison::new(
        "Figures 12 and 15: before and after, Mbit/s, controller 1 | controller 2 (never \
            averaged over both)",
        ["what", "default", "tuned", "ratio"],
        rows.collect(),
    )
}

/// Returns the rows of figures that became worse.
pub(super) fn worse(default: &Study, tuned: &Study) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for console in CONSOLES {
        for (bmc, mode, way) in columns() {
            let (bmc, mode) = (BMCS[bmc], MODES[mode]);
            let cells =
                cell(default, console, bmc, mode, way).zip(cell(tuned, console, bmc, mode, way));
            if let Some((before, after)) = cells.filter(|(before, after)| is_worse(*before, *after))
            {
                rows.push(change(
                    format!("console {console}, {bmc}, {mode}, {}", way.word()),
                    before,
                    after,
                ));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_analysis::TrialStudy;
    use linerate_model::Direction;

    /// Returns the seconds of a trial with these rates of its tenths of a second.
    fn seconds_of(rates: &[f64]) -> Vec<String> {
        let trial = TrialStudy {
            seconds: (1..=rates.len()).map(|tenth| tenth as f64 / 10.0).collect(),
            series: [(
                IntervalSeries::Directed(metric::GOODPUT, Direction::Tx),
                rates.iter().copied().map(Some).collect(),
            )]
            .into(),
            ..TrialStudy::default()
        };
        let point = PointStudy { trials: vec![trial], ..PointStudy::default() };
        let seconds = seconds(&point, DataDirection::ToBmc);
        seconds.iter().map(|value| half_up(*value, 2)).collect()
    }

    #[test]
    fn tenths_make_whole_seconds_and_an_unfinished_one_is_none() {
        let rates: Vec<f64> = (1..=25).map(|tenth| if tenth <= 10 { 8e6 } else { 4e6 }).collect();
        assert_eq!(seconds_of(&rates), ["8.00", "4.00"]);
    }

    #[test]
    fn an_end_that_stops_within_the_last_tenth_is_no_fall_of_the_last_second() {
        let mut rates = [8e6; 20];
        rates[19] = 1e6;
        assert_eq!(seconds_of(&rates), ["8.00", "8.00"]);
    }

    #[test]
    fn each_series_is_drawn_over_the_papers_own() {
        let none = Study::default();
        let figures = figures(&none, &none);
        let of = |form| figures.iter().filter(|figure| figure.form == form).count();
        assert_eq!((of(FigureForm::Bars), of(FigureForm::Lines)), (4, 32));
        let first = &figures[1];
        assert_eq!(first.title, "11.1.1 default RHEL, BMC-1 uni NET2BMC");
        assert_eq!((first.places.len(), first.series[0].1[0]), (60, Some(71.3)));
        // What was not measured is a gap and no zero.
        assert!(first.series[1].1.iter().all(Option::is_none));
    }

    /// The paper prints 6.61 for a series that was 17.5 for twelve seconds and 3.9 after.
    #[test]
    fn a_series_that_does_not_settle_has_no_average() {
        let values: Vec<f64> = (0..60).map(|second| if second < 12 { 17.5 } else { 3.9 }).collect();
        let steady = Series { seconds: vec![4.0, 4.2], unsettled: None };
        let slowing = Series { seconds: values, unsettled: Some("slows down") };
        let table = one("t".into(), &[steady, slowing], vec!["1".into(), "6.61".into()]);
        assert_eq!(table.rows[60], ["Average", "4.10", "no single number: slows down"]);
        assert_eq!(table.rows[11][1..], ["-", "17.50"]);
    }

    #[test]
    fn every_column_has_its_series_in_the_paper() {
        let printed = printed();
        for section in [
            "11.1.1 default RHEL",
            "11.1.2 default WIN",
            "11.2.1 modified RHEL",
            "11.2.2 modified WIN",
        ] {
            for (bmc, mode, way) in columns() {
                assert!(printed.contains_key(&series_name(section, bmc, mode, way)));
            }
        }
        assert_eq!(
            printed[&series_name("11.1.2 default WIN", 0, 0, DataDirection::ToBmc)].printed,
            7.88
        );
    }
}
