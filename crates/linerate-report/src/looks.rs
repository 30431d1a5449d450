//! Points that are repeated until their intervals are narrow enough: the look at which each ended,
//! and the reason.
//!
//! A plan with a fixed number of runs has no looks.

use linerate_analysis::{Looks, LooksEnded};

use crate::document::{Cell, Column, Sheet, Table};
use crate::grid::Grid;
use crate::number::{Scale, percent};
use crate::sentences;

/// Most points with a line of their own in the answer.
const MOST_TOLD: usize = 4;

type Looked<'a> = (&'a Grid<'a>, &'a linerate_analysis::PointStudy, &'a Looks);

fn all<'a>(grids: &'a [Grid<'a>]) -> Vec<Looked<'a>> {
    let of = |grid: &'a Grid<'a>| {
        grid.points.iter().filter_map(move |point| Some((grid, *point, point.looks.as_ref()?)))
    };
    grids.iter().flat_map(of).collect()
}

/// Returns lines for the answer: the points whose interval is as narrow as requested, and the
/// others.
pub(crate) fn told(grids: &[Grid<'_>]) -> Vec<String> {
    let all = all(grids);
    let (narrow, wide): (Vec<&Looked<'_>>, Vec<&Looked<'_>>) =
        all.iter().partition(|(_, _, looks)| looks.ended == LooksEnded::Narrow);
    let one = |(grid, point, looks): &&Looked<'_>| {
        format!("{}: {}.", grid.full_place_of(point), sentences::looks(looks))
    };
    // A few points are named one by one. Many of them would fill the first screen.
    if all.len() <= MOST_TOLD {
        // Points that missed their precision come first.
        return wide.iter().chain(&narrow).map(one).collect();
    }
    let mut lines: Vec<String> = wide.iter().take(MOST_TOLD).map(one).collect();
    if wide.len() > MOST_TOLD {
        lines.push(format!(
            "{} more points have a wider interval than requested.",
            wide.len() - MOST_TOLD
        ));
    }
    if !narrow.is_empty() {
        lines.push(format!(
            "{} of {} points have an interval as narrow as requested.",
            narrow.len(),
            all.len()
        ));
    }
    lines
}

/// Returns the table of every point's looks.
pub(crate) fn table(grids: &[Grid<'_>]) -> Option<Table> {
    let all = all(grids);
    let looks_planned = all.iter().map(|(_, _, looks)| looks.until.looks.len()).max()?;
    // All points of a plan have the same looks, so the first one names the column.
    let runs_at = |look: usize| all.iter().find_map(|(_, _, looks)| looks.until.looks.get(look));
    let mut sheet = Sheet::new(&all);
    sheet.text("point", |(grid, point, _)| grid.full_place_of(point));
    sheet.text("figure", |(.., looks)| looks.metric.map_or("", |metric| metric.name).to_owned());
    sheet.number("requested, ±", Scale::PERCENT, |(.., looks)| looks.until.within.0);
    for look in 0..looks_planned {
        let head = runs_at(look).map_or_else(String::new, |runs| format!("± after {runs}"));
        let column = Column::number(head, Scale::PERCENT);
        sheet.column(column, |(.., looks)| look_cell(looks, look));
    }
    sheet.number("runs", Scale::COUNT, |(.., looks)| f64::from(looks.runs));
    sheet.text("ended", |(.., looks)| match looks.ended {
        LooksEnded::Narrow => "narrow enough".to_owned(),
        LooksEnded::Most => "at the largest number of runs".to_owned(),
        LooksEnded::Noisy => {
            format!("noisy: runs scatter by more than {} %", percent(Looks::UNSTABLE))
        }
        LooksEnded::Short => "cut short".to_owned(),
    });
    let caption = "Points that are repeated until their interval is narrow";
    let mut table = sheet.judged("looks", caption, |(_, point, _)| point.validity);
    table.note = Some(
        "± is half the interval of the median, of the direction with the wider interval. The error \
            of \
            5 % is divided among all planned looks, so the interval is wider than that of one look."
            .into(),
    );
    Some(table)
}

/// Returns half the interval that the look with index `look` found.
fn look_cell(looks: &Looks, look: usize) -> Cell {
    match looks.taken.get(look) {
        None => Cell::Missing("–".into()),
        Some(look) => {
            look.half_width.map_or_else(|| Cell::Missing("no interval".into()), Cell::Number)
        }
    }
}
