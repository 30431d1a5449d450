//! Curves of a metric over one axis of a sweep: a line for each combination of the other axes,
//! intervals as bands, and the lowest ceiling. They work for any sweep; sections choose axis and
//! metric.

use std::collections::BTreeMap;

use linerate_analysis::{MetricStudy, PointStudy};
use linerate_model::{CeilingScope, Direction, Metric, Use};

use crate::document::{AxisScale, Block, Cell, Chart, Column, Plot, Role, Sheet, Tone};
use crate::grid::{Dimension, Grid, GridAxis, ceiling, estimate_cell};
use crate::number::Scale;

/// Most lines in one chart; more lines need several charts.
const MOST_LINES: usize = 8;
/// Largest ratio of a ceiling to the data that is drawn. A higher ceiling would flatten the lines
/// and is in the note instead.
const CEILING_IN_SIGHT: f64 = 3.0;
/// Spread of figures from which their axis is logarithmic.
const LINEAR_SPREAD: f64 = 1_000.0;
/// The same for costs, whose small figures matter most.
const COST_SPREAD: f64 = 20.0;
/// Spread of coordinates from which their axis is logarithmic.
const LOG_SPREAD: f64 = 16.0;

/// Line: coordinates of the other axes, and a point for each place on the main axis.
struct Curve<'a> {
    key: Vec<usize>,
    name: String,
    points: BTreeMap<usize, &'a PointStudy>,
}

/// Returns the charts of the metrics of `shown` over the main axis of every grid whose main axis
/// `fits`.
#[must_use]
pub(crate) fn over_main_axis(
    section: &str,
    grids: &[Grid<'_>],
    shown: Use,
    fits: impl Fn(&GridAxis) -> bool,
) -> Vec<Block> {
    let fitting = grids.iter().filter_map(|grid| Some((grid, grid.main_axis()?)));
    fitting
        .filter(|(grid, main)| fits(&grid.axes[*main]))
        .flat_map(|(grid, main)| {
            shown.metrics().flat_map(move |metric| curves(section, grid, main, metric))
        })
        .collect()
}

/// Returns the charts of `metric` over axis `main` of `grid`: one, or several for many lines.
#[must_use]
pub(crate) fn curves(
    section: &str,
    grid: &Grid<'_>,
    main: usize,
    metric: &'static Metric,
) -> Vec<Block> {
    let Some(direction) = grid.direction(metric).filter(|_| grid.tells(metric)) else {
        return Vec::new();
    };
    let others: Vec<usize> =
        // An axis with one value distinguishes nothing.
        (0..grid.axes.len()).filter(|&i| i != main && grid.axes[i].values.len() > 1).collect();
    let lines = lines(grid, main, &others);
    // The first of the other axes is split off until the lines are few enough to be distinguished.
    let facet = others.first().filter(|_| lines.len() > MOST_LINES);
    let mut groups: Vec<(Option<usize>, Vec<Curve<'_>>)> = Vec::new();
    for line in lines {
        let value = facet.map(|_| line.key[0]);
        match groups.iter_mut().find(|(of, _)| *of == value) {
            Some((_, group)) => group.push(line),
            None => groups.push((value, vec![line])),
        }
    }
    let told = |value: Option<usize>| Some((grid.axes[*facet?].named(value?), value?));
    groups
        .into_iter()
        // A chart with this many lines is unreadable; the table of all points has the figures.
        .filter(|(_, group)| group.len() <= 2 * MOST_LINES)
        .filter_map(|(value, group)| {
            chart(section, grid, main, metric, direction, &group, told(value))
        })
        .map(Block::Chart)
        .collect()
}

fn lines<'a>(grid: &Grid<'a>, main: usize, others: &[usize]) -> Vec<Curve<'a>> {
    let mut lines: Vec<Curve<'a>> = Vec::new();
    for point in &grid.points {
        // Points of another grid may lack the axis.
        let Some(x) = grid.axes[main].place(point) else { continue };
        let Some(key) =
            others.iter().map(|&i| grid.axes[i].place(point)).collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        match lines.iter_mut().find(|line| line.key == key) {
            Some(line) => drop(line.points.insert(x, point)),
            None => {
                let parts = others.iter().zip(&key).map(|(&i, &place)| grid.axes[i].named(place));
                let name = parts.collect::<Vec<_>>().join(", ");
                lines.push(Curve { name, key, points: BTreeMap::from([(x, *point)]) });
            }
        }
    }
    lines.sort_by(|a, b| a.key.cmp(&b.key));
    lines
}

fn chart(
    section: &str,
    grid: &Grid<'_>,
    main: usize,
    metric: &'static Metric,
    direction: Direction,
    lines: &[Curve<'_>],
    facet: Option<(String, usize)>,
) -> Option<Chart> {
    let axis = &grid.axes[main];
    let figure = |point: &&PointStudy| grid.figure(point, metric).cloned();
    let studies: Vec<Vec<Option<(&PointStudy, MetricStudy)>>> = lines
        .iter()
        .map(|line| {
            let at = |x| {
                line.points.get(&x).and_then(|point| figure(point).map(|metric| (*point, metric)))
            };
            (0..axis.values.len()).map(at).collect()
        })
        .collect();
    let shown =
        || studies.iter().flatten().flatten().filter_map(|(_, m)| m.estimate.map(|e| e.value));
    let most = shown().fold(0.0, f64::max);
    let has_figure = |x: &usize| {
        studies.iter().any(|line| line[*x].as_ref().is_some_and(|(_, m)| m.estimate.is_some()))
    };
    // A curve needs two figures; the table of all points has single ones.
    if most <= 0.0 || (0..axis.values.len()).filter(has_figure).count() < 2 {
        return None;
    }
    // Zero has no place on a logarithmic axis.
    let least = shown().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    // Costs vary by factors, and the small ones are the good ones.
    let spread = if metric.higher_is_better == Some(false) { COST_SPREAD } else { LINEAR_SPREAD };
    let scale = Scale::of(metric, shown());
    let title = metric.title;
    let mut sheet = Sheet::new(0..axis.values.len());
    sheet.column(axis.column(), |x| axis.cell(*x));
    // Lines of different directions cannot share a name of the axis.
    let one_way = studies.iter().all(|line| direction_of(line).unwrap_or(direction) == direction);
    for (line, figures) in lines.iter().zip(&studies) {
        let name = if line.name.is_empty() { uncapitalised(title) } else { line.name.clone() };
        let direction = direction_of(figures).unwrap_or(direction);
        let column = Column::estimate(name, scale, metric.layer, direction);
        sheet.drawn(Role::Line, column, |x| match &figures[*x] {
            Some((point, metric)) => estimate_cell(point, Some(metric)),
            None => Cell::Missing("–".into()),
        });
    }
    let bounds = bounds(&studies);
    let in_sight = |bound: &Bound| {
        // A ceiling far above the data would press all lines to the bottom.
        bound.values.iter().flatten().all(|value| *value <= most * CEILING_IN_SIGHT)
    };
    let (drawn, told): (Vec<Bound>, Vec<Bound>) = bounds.into_iter().partition(in_sight);
    for bound in &drawn {
        let name = match (bound.line.filter(|_| lines.len() > 1), &bound.element) {
            (Some(line), _) => format!("ceiling, {}", lines[line].name),
            (None, Some(element)) => format!("ceiling, {element}"),
            (None, None) => "ceiling".to_owned(),
        };
        let column = Column::number(name, scale);
        let column = Column { layer: metric.layer, direction: Some(direction), ..column };
        sheet.drawn(Role::Ceiling(bound.line), column, |x| Cell::number_or(bound.values[*x], "–"));
    }
    let place = facet.as_ref().map_or(String::new(), |(name, _)| format!(", {name}"));
    let suffix = facet.as_ref().map_or(String::new(), |(_, value)| format!("-{}", value + 1));
    let id = format!("{section}-{}-{}{suffix}", grid.number, metric.name.replace('_', "-"));
    let layer = metric.layer.map_or(String::new(), |layer| format!(" at {layer}"));
    let caption = format!("{title} by {}{place}: {}", axis.name, grid.sweep);
    let marks = sheet.marks();
    let lacks_figure = |(_, metric): &(&PointStudy, MetricStudy)| metric.estimate.is_none();
    // A missing figure is marked, so that a gap in the line is explained.
    let mut table = sheet.toned(id, caption, |x| {
        match studies.iter().filter_map(|line| line[*x].as_ref()).any(lacks_figure) {
            true => Tone::Marked,
            false => Tone::Plain,
        }
    });
    table.note = note(&drawn, &told, &scale, metric.meaning);
    // The chart shows the same figures.
    table.folded = true;
    let several = if lines.len() > 1 {
        format!(", one line for each of {} settings", lines.len())
    } else {
        String::new()
    };
    Some(Chart {
        summary: format!(
            "{title}{layer} over {} from {} to {}{several}. It lies between {} and {} {}.",
            axis.name,
            axis.values.first().map_or("", |v| v.label.as_str()),
            axis.values.last().map_or("", |v| v.label.as_str()),
            scale.plain(least),
            scale.plain(most),
            scale.symbol
        ),
        x_scale: x_scale(axis),
        y_scale: if most / least > spread { AxisScale::Log10 } else { AxisScale::Linear },
        ..Chart::of(
            if axis.is_categorical() { Plot::GroupedBars } else { Plot::Lines },
            format!(
                "{}{layer}{}",
                uncapitalised(title),
                // Costs and latencies have one direction, and lines that differ name their own.
                if one_way && metric.higher_is_better == Some(true) {
                    format!(", {direction}")
                } else {
                    String::new()
                }
            ),
            marks,
            table,
        )
    })
}

/// Returns the direction of the first figure of a line; `None` if the line has no figure.
fn direction_of(line: &[Option<(&PointStudy, MetricStudy)>]) -> Option<Direction> {
    line.iter().flatten().find(|(_, m)| m.estimate.is_some()).map(|(_, m)| m.direction)
}

/// Returns the scale of the values of `axis`.
fn x_scale(axis: &GridAxis) -> AxisScale {
    let positive = || axis.values.iter().map(|v| v.value);
    let (least, most) =
        positive().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    match axis.dimension {
        Dimension::Category | Dimension::Pairs => AxisScale::Category,
        // Sizes are usually doubled from point to point.
        Dimension::Size if least > 0.0 && most / least > 2.0 => AxisScale::Log2,
        _ if least > 0.0 && most / least >= LOG_SPREAD => AxisScale::Log2,
        _ => AxisScale::Linear,
    }
}

/// Ceiling along the axis: of one line, or of all lines.
struct Bound {
    line: Option<usize>,
    /// Element of the path that sets it, where several have ceilings.
    element: Option<String>,
    name: String,
    values: Vec<Option<f64>>,
}

fn bounds(studies: &[Vec<Option<(&PointStudy, MetricStudy)>>]) -> Vec<Bound> {
    let all: Vec<Vec<Option<(f64, String)>>> =
        studies.iter().map(|line| lowest_ceilings(line)).collect();
    fn name(line: &[Option<(f64, String)>]) -> String {
        let mut names: Vec<&str> = line.iter().flatten().map(|(_, name)| name.as_str()).collect();
        names.dedup();
        names.join("; ")
    }
    let values = |line: &[Option<(f64, String)>]| {
        line.iter().map(|v| v.as_ref().map(|(value, _)| *value)).collect()
    };
    let longest = all.iter().max_by_key(|line| line.iter().flatten().count());
    let Some(longest) = longest.filter(|line| line.iter().any(Option::is_some)) else {
        return Vec::new();
    };
    // If all lines have one ceiling, its parts are worth showing; otherwise each line has its own.
    if all.iter().all(|line| agrees(line, longest)) {
        let elements = elements(studies);
        if elements.len() > 1 {
            return elements;
        }
        return vec![Bound {
            line: None,
            element: None,
            name: name(longest),
            values: values(longest),
        }];
    }
    all.iter()
        .enumerate()
        .filter(|(_, line)| line.iter().any(Option::is_some))
        .map(|(index, line)| Bound {
            line: Some(index),
            element: None,
            name: name(line),
            values: values(line),
        })
        .collect()
}

/// Returns whether each ceiling of `line` is that of `longest` at the same place.
fn agrees(line: &[Option<(f64, String)>], longest: &[Option<(f64, String)>]) -> bool {
    line.iter().zip(longest).all(|pair| match pair {
        // Ceilings are computed per line and may differ in the last digit.
        (Some((a, _)), Some((b, _))) => (a - b).abs() <= 1e-9 * b.abs(),
        (None, _) => true,
        (Some(_), None) => false,
    })
}

/// Returns value and name of the lowest ceiling of each figure of a line.
fn lowest_ceilings(line: &[Option<(&PointStudy, MetricStudy)>]) -> Vec<Option<(f64, String)>> {
    line.iter()
        .map(|cell| {
            let (point, metric) = cell.as_ref()?;
            ceiling(point, metric).map(|ceiling| (ceiling.value, ceiling.name()))
        })
        .collect()
}

/// Returns the ceiling of each element of the path along the axis, such as the ports and the bus
/// behind them, the lowest first. For points with several jobs, only ceilings of all jobs together
/// apply to the sum.
fn elements(studies: &[Vec<Option<(&PointStudy, MetricStudy)>>]) -> Vec<Bound> {
    /// Most ceilings in one chart; more would hide the curves.
    const MOST: usize = 3;
    let places = studies.iter().map(Vec::len).max().unwrap_or(0);
    let mut elements: Vec<Bound> = Vec::new();
    for line in studies {
        for (place, cell) in line.iter().enumerate() {
            let Some((point, metric)) = cell.as_ref() else { continue };
            let hard = point.ceilings.iter().filter(|bound| {
                let own = point.jobs.len() == 1 || bound.scope == CeilingScope::AllJobs;
                let is_of_figure =
                    bound.metric == metric.metric && bound.direction == metric.direction;
                own && is_of_figure && bound.is_hard()
            });
            for bound in hard {
                let element = bound.subject.short_name();
                let found =
                    elements.iter().position(|known| known.element.as_deref() == Some(&element));
                let found = found.unwrap_or_else(|| {
                    let (element, name) = (Some(element), bound.name());
                    elements.push(Bound { line: None, element, name, values: vec![None; places] });
                    elements.len() - 1
                });
                // The first ceiling of an element is its lowest, because ceilings are sorted.
                elements[found].values[place].get_or_insert(bound.value);
            }
        }
    }
    let least =
        |bound: &Bound| bound.values.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    elements.sort_by(|a, b| least(a).total_cmp(&least(b)));
    // Both ends of a link have the same ceiling.
    elements.dedup_by(|later, kept| later.values == kept.values);
    elements.truncate(MOST);
    elements
}

fn note(drawn: &[Bound], told: &[Bound], scale: &Scale, meaning: &str) -> Option<String> {
    let mut note = capitalised(meaning) + ".";
    let mut named: Vec<&str> = drawn.iter().map(|bound| bound.name.as_str()).collect();
    named.dedup();
    if !named.is_empty() {
        note += &format!(" Ceiling: {}.", named.join("; "));
    }
    let lowest = told
        .iter()
        .flat_map(|bound| bound.values.iter().flatten().map(|value| (*value, &bound.name)));
    if let Some((value, name)) = lowest.min_by(|a, b| a.0.total_cmp(&b.0)) {
        note += &format!(
            " The ceiling is far above: {} {} ({name}).",
            scale.plain(value),
            scale.symbol
        );
    }
    Some(note)
}

/// Returns `text` with its first letter in upper case.
#[must_use]
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Returns a title for use within a sentence: its first letter in lower case, unless it begins an
/// abbreviation.
#[must_use]
pub fn uncapitalised(text: &str) -> String {
    // "TCP" stays in capitals within a sentence.
    let is_word = text.chars().nth(1).is_none_or(char::is_lowercase);
    let mut letters = text.chars();
    match letters.next().filter(|_| is_word) {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => text.to_owned(),
    }
}

/// Returns the matrix of `metric` over two axes of `grid`, with one setting of all other axes.
#[must_use]
pub(crate) fn heat(
    grid: &Grid<'_>,
    rows: usize,
    across: usize,
    metric: &'static Metric,
) -> Option<Chart> {
    let direction = grid.direction(metric)?;
    let (row_axis, column_axis) = (&grid.axes[rows], &grid.axes[across]);
    // Further axes are fixed where the figure is highest.
    let others: Vec<usize> = (0..grid.axes.len())
        .filter(|&i| i != rows && i != across && grid.axes[i].values.len() > 1)
        .collect();
    let setting =
        |point: &PointStudy| others.iter().map(|&i| grid.axes[i].place(point)).collect::<Vec<_>>();
    let value = |point: &PointStudy| Some(grid.figure(point, metric)?.estimate?.value);
    let best = grid
        .points
        .iter()
        .filter(|p| value(p).is_some())
        .max_by(|a, b| value(a).unwrap_or(0.0).total_cmp(&value(b).unwrap_or(0.0)))?;
    // A one-way metric may have another direction at this point than on average.
    let direction = grid.figure(best, metric).map_or(direction, |metric| metric.direction);
    let chosen = setting(best);
    let slice: Vec<&&PointStudy> =
        grid.points.iter().filter(|point| setting(point) == chosen).collect();
    let scale = Scale::of(metric, slice.iter().filter_map(|point| value(point)));
    let mut sheet = Sheet::new(0..row_axis.values.len());
    sheet.column(row_axis.column(), |y| row_axis.cell(*y));
    for (x, value) in column_axis.values.iter().enumerate() {
        let head = format!("{} {}", column_axis.name, value.label);
        let column = Column::estimate(head, scale, metric.layer, direction);
        sheet.named(Role::Line, value.label.clone(), column, |y| {
            let point = slice.iter().find(|point| {
                row_axis.place(point) == Some(*y) && column_axis.place(point) == Some(x)
            });
            point.map_or(Cell::Missing("–".into()), |point| {
                estimate_cell(point, grid.figure(point, metric))
            })
        });
    }
    let marks = sheet.marks();
    let title = metric.title;
    let at = others
        .iter()
        .zip(&chosen)
        .filter_map(|(&i, place)| {
            place.map(|p| format!(", {} {}", grid.axes[i].name, grid.axes[i].values[p].label))
        })
        .collect::<String>();
    let caption =
        format!("{title} by {} and {}{at}: {}", row_axis.name, column_axis.name, grid.sweep);
    let id = format!("heat-{}-{}", grid.number, metric.name.replace('_', "-"));
    let mut table = sheet.plain(id, caption);
    table.note = Some(format!("{}. Stronger colour is more.", capitalised(metric.meaning)));
    Some(Chart {
        summary: format!(
            "{title}, direction {direction}, as a matrix; stronger colour is more. {}",
            grid.place_of(best)
        ),
        ..Chart::of(Plot::Heat, title.to_owned(), marks, table)
    })
}
