//! The points of one sweep as a grid: which axes there are, what their values mean, and which job
//! carries the figures.
//!
//! A plan writes values as text with a unit (`"64 KiB"`) or as counts. Here they get their number
//! back, so that an axis can be laid out. It does not know any workload: names of parameters are
//! read for their meaning only (`..._size` is bytes, `streams` a count).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use linerate_analysis::{JobStudy, MetricStudy, PointStudy, Study};
use linerate_model::{
    BitRate, Bytes, Ceiling, Direction, Metric, Nanos, PacketRate, Point, Ratio, Use, metric,
};
use serde_json::Value;

use crate::document::{Cell, Column, Sheet};
use crate::number::Scale;

/// Number of consecutive endpoints from which only the first and the last are named.
const LONG_RUN: usize = 4;

/// Endings of axis names that count parallel items.
const PARALLEL: [&str; 6] = ["connections", "cpus", "depth", "flows", "pairs", "streams"];

/// Kind of the values of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Bytes.
    Size,
    /// A count.
    Count,
    /// A rate, a time or a share: a number with another unit.
    Quantity(&'static str),
    /// Sets of endpoint pairs. Each set is a place of its own, because two sets may be equally
    /// large.
    Pairs,
    /// Words.
    Category,
}

/// Value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisValue {
    /// Text as shown.
    pub label: String,
    /// Number; for a category, its place.
    pub value: f64,
}

/// Axis of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct GridAxis {
    /// Name in the plan.
    pub path: String,
    /// Name for people.
    pub name: String,
    /// Kind of its values.
    pub dimension: Dimension,
    /// Distinct values: numbers in ascending order, others in the order of the plan.
    pub values: Vec<AxisValue>,
    /// Where the values of the plan stand among them.
    places: HashMap<Value, usize>,
}

/// Sweep of a study.
#[derive(Clone, Debug)]
pub struct Grid<'a> {
    /// Name.
    pub sweep: &'a str,
    /// Number among the sweeps of the campaign, from 1; table names contain it.
    pub number: usize,
    /// Axes that vary.
    pub axes: Vec<GridAxis>,
    /// Points in the order of the plan.
    pub points: Vec<&'a PointStudy>,
    /// Direction in which each metric with a figure is shown, by its name.
    directions: BTreeMap<&'static str, Direction>,
    /// True if a point carries streams.
    has_streams: bool,
}

/// Returns the sweeps of `study` in the order of the plan.
#[must_use]
pub(crate) fn grids(study: &Study) -> Vec<Grid<'_>> {
    let mut grids: Vec<Grid<'_>> = Vec::new();
    for point in &study.points {
        match grids.iter_mut().find(|grid| grid.sweep == point.sweep) {
            Some(grid) => grid.points.push(point),
            None => grids.push(Grid {
                sweep: &point.sweep,
                number: grids.len() + 1,
                axes: Vec::new(),
                points: vec![point],
                directions: BTreeMap::new(),
                has_streams: false,
            }),
        }
    }
    for grid in &mut grids {
        grid.axes = axes(&grid.points);
        grid.directions = directions(&grid.points);
        grid.has_streams = grid.points.iter().filter_map(|point| headline(point)).any(is_stream);
    }
    grids
}

/// Returns the direction in which each metric of `points` is shown: the sum if both directions have
/// data, else the only one.
fn directions(points: &[&PointStudy]) -> BTreeMap<&'static str, Direction> {
    let jobs = points.iter().filter_map(|point| headline(point));
    let figures = jobs.flat_map(|job| &job.metrics).filter(|figure| figure.estimate.is_some());
    let has: BTreeSet<(&'static str, Direction)> =
        figures.map(|figure| (figure.metric.name, figure.direction)).collect();
    let shown = has.iter().map(|&(name, _)| {
        let [tx, rx, sum] =
            [Direction::Tx, Direction::Rx, Direction::Sum].map(|way| has.contains(&(name, way)));
        let direction = match (tx, rx, sum) {
            (true, false, _) | (true, true, false) => Direction::Tx,
            (false, true, _) => Direction::Rx,
            (true, true, true) | (false, false, _) => Direction::Sum,
        };
        (name, direction)
    });
    shown.collect()
}

/// Sweeps whose points share a table: a sweep with axes alone, and sweeps of a single point
/// together.
#[derive(Clone, Debug)]
pub struct Family<'a> {
    /// Suffix of the names of its tables.
    pub id: String,
    /// Name in the captions of its tables.
    pub name: String,
    /// Sweeps in the order of the plan.
    pub grids: Vec<&'a Grid<'a>>,
}

/// Returns the families of `grids` in the order of their first sweep. Streams and requests have
/// different figures, so they have different tables.
#[must_use]
pub fn families<'a>(grids: &'a [Grid<'a>]) -> Vec<Family<'a>> {
    let mut families: Vec<(Option<bool>, Vec<&Grid<'_>>)> = Vec::new();
    for grid in grids {
        let kind = carries_streams(grid);
        match families.iter_mut().find(|(known, _)| kind.is_some() && *known == kind) {
            Some((_, members)) => members.push(grid),
            None => families.push((kind, vec![grid])),
        }
    }
    families
        .into_iter()
        .map(|(kind, grids)| match (kind, grids.as_slice()) {
            (_, [one]) => Family { id: one.number.to_string(), name: one.sweep.to_owned(), grids },
            (Some(true), _) => Family { id: "streams".into(), name: "streams".into(), grids },
            _ => Family { id: "requests".into(), name: "requests and connections".into(), grids },
        })
        .collect()
}

/// Returns whether the only point of `grid` carries streams; `None` if there are several points.
fn carries_streams(grid: &Grid<'_>) -> Option<bool> {
    let single = grid.points.len() == 1;
    single.then(|| grid.points.iter().filter_map(|point| headline(point)).any(is_stream))
}

impl<'a> Family<'a> {
    /// Returns every point with its sweep.
    pub fn points(&self) -> impl Iterator<Item = Placed<'a>> + use<'a> {
        self.grids
            .clone()
            .into_iter()
            .flat_map(|grid| grid.points.iter().map(move |point| (grid, *point)))
    }

    /// Returns a sheet of every point with its place.
    pub(crate) fn sheet(&self) -> Sheet<Placed<'a>> {
        let one = self.grids.first().copied().filter(|_| self.grids.len() == 1);
        sheet_of(one, self.points())
    }
}

/// A point with its sweep.
pub(crate) type Placed<'a> = (&'a Grid<'a>, &'a PointStudy);

/// Returns a sheet of `points` with their places: on the axes of `grid`, or by the names of several
/// sweeps.
pub(crate) fn sheet_of<'a>(
    grid: Option<&Grid<'_>>,
    points: impl IntoIterator<Item = Placed<'a>>,
) -> Sheet<Placed<'a>> {
    if let Some(grid) = grid {
        return grid.sheet(points, |(_, point)| point);
    }
    let mut sheet = Sheet::new(points);
    sheet.text("sweep", |(grid, point)| grid.full_place_of(point));
    sheet
}

fn axes(points: &[&PointStudy]) -> Vec<GridAxis> {
    let mut paths: Vec<&String> = Vec::new();
    for path in points.iter().flat_map(|point| point.parameters.keys()) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths.into_iter().map(|path| axis(path, points)).collect()
}

fn axis(path: &str, points: &[&PointStudy]) -> GridAxis {
    let mut raws: Vec<&Value> = Vec::new();
    let mut known: HashSet<&Value> = HashSet::new();
    for raw in points.iter().filter_map(|point| point.parameters.get(path)) {
        if known.insert(raw) {
            raws.push(raw);
        }
    }
    let name = axis_name(path);
    let read: Vec<Option<(Dimension, String, f64)>> =
        raws.iter().map(|raw| quantity(&name, raw)).collect();
    let first = read.first().and_then(Option::as_ref).map(|(dimension, ..)| *dimension);
    let alike = first
        .filter(|first| read.iter().all(|value| value.as_ref().is_some_and(|(d, ..)| d == first)));
    let mut read: Vec<(&Value, AxisValue)> = raws
        .iter()
        .zip(read)
        .enumerate()
        .map(|(place, (raw, read))| match read.filter(|_| alike.is_some()) {
            Some((_, label, value)) => (*raw, AxisValue { label, value }),
            None => (*raw, AxisValue { label: words(raw), value: place as f64 }),
        })
        .collect();
    read.sort_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    let places = read.iter().enumerate().map(|(place, (raw, _))| ((*raw).clone(), place)).collect();
    let mut values: Vec<AxisValue> = read.into_iter().map(|(_, value)| value).collect();
    if alike == Some(Dimension::Pairs) {
        for (place, value) in values.iter_mut().enumerate() {
            value.value = place as f64;
        }
    }
    GridAxis {
        path: path.to_owned(),
        name,
        dimension: alike.unwrap_or(Dimension::Category),
        values,
        places,
    }
}

/// Returns the name of an axis for people: `socket buffer` for `params.socket_buffer`, `job 1 rate`
/// for `job.1.params.rate`.
#[must_use]
pub(crate) fn axis_name(path: &str) -> String {
    path.split('.').filter(|part| *part != "params").collect::<Vec<_>>().join(" ").replace('_', " ")
}

/// Returns dimension, label and number in base units of a quantity.
fn quantity(name: &str, raw: &Value) -> Option<(Dimension, String, f64)> {
    match raw {
        Value::Number(number) => {
            let value = number.as_f64()?;
            if (name.ends_with("size") || name.ends_with("buffer"))
                && value >= 0.0
                && value.fract() == 0.0
            {
                return Some((Dimension::Size, Bytes(value as u64).to_string(), value));
            }
            Some((Dimension::Count, number.to_string(), value))
        }
        Value::Array(_) => {
            let pairs = pairs_of(raw)?;
            Some((Dimension::Pairs, pairs_label(&pairs), pairs.len() as f64))
        }
        Value::String(text) => {
            if let Ok(bytes) = text.parse::<Bytes>() {
                return Some((Dimension::Size, bytes.to_string(), bytes.0 as f64));
            }
            if let Ok(rate) = text.parse::<BitRate>() {
                return Some((Dimension::Quantity("bit/s"), rate.to_string(), rate.0));
            }
            if let Ok(span) = text.parse::<Nanos>() {
                return Some((Dimension::Quantity("s"), span.to_string(), span.as_secs_f64()));
            }
            if let Ok(rate) = text.parse::<PacketRate>() {
                return Some((Dimension::Quantity("packet/s"), rate.to_string(), rate.0));
            }
            let share = text.parse::<Ratio>().ok().filter(|_| text.contains('%'))?;
            Some((Dimension::Quantity("ratio"), share.to_string(), share.0))
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => None,
    }
}

/// Returns the pairs of endpoints of a value such as `["a1 b1", "a2 b2"]`.
fn pairs_of(value: &Value) -> Option<Vec<(&str, &str)>> {
    let items = value.as_array().filter(|items| !items.is_empty())?;
    items.iter().map(pair_of).collect()
}

fn pair_of(item: &Value) -> Option<(&str, &str)> {
    let mut names = item.as_str()?.split_whitespace();
    Some((names.next()?, names.next()?)).filter(|_| names.next().is_none())
}

/// Returns `a1+a2` for the pairs `a1 b1` and `a2 b2`. The other ends are named too if their numbers
/// differ, and four or more consecutive endpoints become `a1 to a4`.
fn pairs_label(pairs: &[(&str, &str)]) -> String {
    /// Returns where the digits at the end of `name` start, and their number.
    fn number(name: &str) -> Option<(usize, u64)> {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        Some((name.len() - digits, name[name.len() - digits..].parse().ok()?))
    }
    let tail = |name: &str| number(name).map(|(_, n)| n);
    let alike = pairs.iter().all(|(from, to)| tail(from).is_some() && tail(from) == tail(to));
    if !alike {
        return pairs.iter().map(|(from, to)| format!("{from}-{to}")).collect::<Vec<_>>().join("+");
    }
    fn follows(a: &str, b: &str) -> bool {
        match (number(a), number(b)) {
            (Some((at_a, n_a)), Some((at_b, n_b))) => a[..at_a] == b[..at_b] && n_a + 1 == n_b,
            _ => false,
        }
    }
    let mut runs: Vec<Vec<&str>> = Vec::new();
    for (from, _) in pairs {
        match runs.last_mut().filter(|run| run.last().is_some_and(|last| follows(last, from))) {
            Some(run) => run.push(from),
            None => runs.push(vec![from]),
        }
    }
    let told = runs.iter().map(|run| match run.as_slice() {
        [first, .., last] if run.len() >= LONG_RUN => format!("{first} to {last}"),
        names => names.join("+"),
    });
    told.collect::<Vec<_>>().join("+")
}

/// Returns the coordinate of a point: each axis with its value, such as `message size 64 B`.
#[must_use]
pub fn coordinate(point: &Point) -> String {
    let axes = point.iter().map(|(axis, value)| format!("{} {}", axis_name(axis), words(value)));
    axes.collect::<Vec<_>>().join(", ")
}

/// Returns a value as text without quotes.
#[must_use]
pub fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

impl GridAxis {
    /// Returns the name of the axis with the label of the value with index `place`.
    #[must_use]
    pub(crate) fn named(&self, place: usize) -> String {
        format!("{} {}", self.name, self.values[place].label)
    }

    /// Returns the place of `point` on this axis.
    #[must_use]
    pub fn place(&self, point: &PointStudy) -> Option<usize> {
        self.places.get(point.parameters.get(&self.path)?).copied()
    }

    /// Returns true for a size of sent data (not of a buffer, nor a bound such as a window).
    #[must_use]
    pub(crate) fn is_message(&self) -> bool {
        self.dimension == Dimension::Size && self.name.ends_with("size")
    }

    /// Returns true for a count of parallel items: connections, CPUs, pairs of endpoints. Frames of
    /// a burst follow each other, so they do not count.
    #[must_use]
    pub(crate) fn is_parallel(&self) -> bool {
        self.dimension == Dimension::Pairs
            || self.dimension == Dimension::Count
                && PARALLEL.iter().any(|word| self.name.ends_with(word))
    }

    /// Returns true if its values have no distance from each other.
    #[must_use]
    pub(crate) fn is_categorical(&self) -> bool {
        matches!(self.dimension, Dimension::Category | Dimension::Pairs)
    }

    /// Returns the column of its values.
    #[must_use]
    pub fn column(&self) -> Column {
        let scale = match self.dimension {
            // The label contains its unit; only formats with plain numbers need the base unit.
            Dimension::Size => Scale { base: "B", ..Scale::COUNT },
            Dimension::Quantity(base) => Scale { base, ..Scale::COUNT },
            Dimension::Count => Scale::COUNT,
            Dimension::Category | Dimension::Pairs => return Column::text(&self.name),
        };
        Column::number(&self.name, scale)
    }

    /// Returns the cell of one of its values.
    #[must_use]
    pub fn cell(&self, place: usize) -> Cell {
        let value = &self.values[place];
        if self.is_categorical() {
            return Cell::Text(value.label.clone());
        }
        Cell::Coordinate { value: value.value, label: value.label.clone() }
    }
}

impl<'a> Grid<'a> {
    /// Returns the axis that a reader expects as horizontal: sizes of messages first, then counts,
    /// then other numbers.
    #[must_use]
    pub(crate) fn main_axis(&self) -> Option<usize> {
        let varied = || self.axes.iter().enumerate().filter(|(_, axis)| axis.values.len() > 1);
        // Of two axes of a kind, the one with more values.
        varied()
            .min_by_key(|(_, axis)| (rank(axis), usize::MAX - axis.values.len()))
            .map(|(index, _)| index)
    }

    /// Returns the place of `point` for people: `socket buffer 64 KiB, message size 1 MiB`, or the
    /// sweep's name if it has one point.
    #[must_use]
    pub fn place_of(&self, point: &PointStudy) -> String {
        let axes = self.axes.iter().filter_map(|axis| {
            axis.place(point).map(|place| format!("{} {}", axis.name, axis.values[place].label))
        });
        let told = axes.collect::<Vec<_>>().join(", ");
        if told.is_empty() { self.sweep.to_owned() } else { told }
    }

    /// Returns the same after the sweep's name: `messages: message size 1 MiB`.
    #[must_use]
    pub(crate) fn full_place_of(&self, point: &PointStudy) -> String {
        let place = self.place_of(point);
        if place == self.sweep { place } else { format!("{}: {place}", self.sweep) }
    }

    /// Returns true if the sweep shows `metric`: throughput for streams, rates for requests and
    /// connections.
    #[must_use]
    pub fn tells(&self, metric: &Metric) -> bool {
        self.has_streams || !metric.is_for(Use::StreamOnly)
    }

    /// Returns the direction in which `metric` is shown: the sum if both directions have data, else
    /// the only one.
    #[must_use]
    pub fn direction(&self, metric: &Metric) -> Option<Direction> {
        self.directions.get(metric.name).copied()
    }

    /// Returns the figure of `metric` at `point` in the sweep's direction, or else in the point's
    /// own. A sweep may send one way at one point and both ways at the next.
    #[must_use]
    pub fn figure<'p>(&self, point: &'p PointStudy, metric: &Metric) -> Option<&'p MetricStudy> {
        let job = headline(point)?;
        let told = [self.direction(metric)?, Direction::Tx, Direction::Rx];
        let with_figure =
            |direction| job.metric(metric, direction).filter(|found| found.estimate.is_some());
        told.into_iter()
            .find_map(with_figure)
            .or_else(|| told.into_iter().find_map(|way| job.metric(metric, way)))
    }

    /// Returns a sheet of `items` with the coordinates of their points.
    pub(crate) fn sheet<'p, T>(
        &self,
        items: impl IntoIterator<Item = T>,
        point: impl Fn(&T) -> &'p PointStudy,
    ) -> Sheet<T> {
        let mut sheet = Sheet::new(items);
        for axis in &self.axes {
            let cell = |place| axis.cell(place);
            let missing = || Cell::Missing("–".into());
            sheet.column(axis.column(), |item| axis.place(point(item)).map_or_else(missing, cell));
        }
        sheet
    }
}

/// Returns the order in which axes are chosen as the main one; 0 is chosen first.
fn rank(axis: &GridAxis) -> u8 {
    match axis.dimension {
        // Most published curves of throughput and latency are over the message size.
        _ if axis.is_message() => 0,
        Dimension::Count | Dimension::Pairs => 1,
        Dimension::Quantity(_) => 2,
        Dimension::Size => 3,
        Dimension::Category => 4,
    }
}

/// Returns true for a job of whole files, each of which is a transaction.
#[must_use]
pub fn is_files(job: &JobStudy) -> bool {
    job.metrics.iter().any(|known| known.metric == metric::TRANSFER_TIME_P50)
}

/// Returns true for a job that streams data: files, or a job without transactions and connections.
#[must_use]
pub(crate) fn is_stream(job: &JobStudy) -> bool {
    is_files(job) || !job.metrics.iter().any(|known| known.metric.is_for(Use::Request))
}

/// Returns whether `job` has an estimate of `metric` in `direction`.
#[must_use]
pub(crate) fn has_estimate(job: &JobStudy, metric: &Metric, direction: Direction) -> bool {
    job.metric(metric, direction).is_some_and(|figure| figure.estimate.is_some())
}

/// Returns the jobs of a point whose figures are shown: the sum if all have one workload, else each
/// job.
#[must_use]
pub(crate) fn told_jobs(point: &PointStudy) -> Vec<&JobStudy> {
    let single: Vec<&JobStudy> =
        point.jobs.iter().filter(|job| !job.background && job.workload != ALL).collect();
    let alike = single.windows(2).all(|pair| pair[0].workload == pair[1].workload);
    if alike { headline(point).into_iter().collect() } else { single }
}

/// Returns the workload of `job` at `point`; for a sum, that of its jobs.
#[must_use]
pub fn workload<'a>(point: &'a PointStudy, job: &'a JobStudy) -> &'a str {
    let measured = || point.jobs.iter().find(|one| !one.background);
    if job.workload == ALL {
        measured().map_or(ALL, |one| one.workload.as_str())
    } else {
        &job.workload
    }
}

/// Name of the job that is the sum of all measured jobs of a point.
pub(crate) const ALL: &str = "all";

/// Returns the job with a point's figures: the sum if several jobs are measured, never a background
/// job.
#[must_use]
pub fn headline(point: &PointStudy) -> Option<&JobStudy> {
    point.jobs.iter().rev().find(|job| !job.background)
}

/// Returns the lowest ceiling on `metric` at `point`.
#[must_use]
pub fn ceiling<'a>(point: &'a PointStudy, metric: &MetricStudy) -> Option<&'a Ceiling> {
    metric.ceiling.and_then(|index| point.ceilings.get(index))
}

/// Returns the cell of a metric, which may have no figure.
#[must_use]
pub(crate) fn estimate_cell(point: &PointStudy, metric: Option<&MetricStudy>) -> Cell {
    match metric {
        Some(MetricStudy { estimate: Some(estimate), .. }) if estimate.value.is_finite() => {
            Cell::Estimate(*estimate)
        }
        Some(MetricStudy { estimate: Some(_), at_least: Some(bound), .. }) => Cell::AtLeast(*bound),
        Some(MetricStudy { estimate: Some(_), .. }) => Cell::Missing("∞ (lost)".into()),
        Some(_) if point.validity >= linerate_model::Validity::Invalid => {
            Cell::Missing(point.validity.word().into())
        }
        // Without a single number, the word gives the reason; section validity has the levels.
        Some(MetricStudy { settled: Some(settled), .. }) if !settled.has_single_number => {
            Cell::Missing(settled.word.clone())
        }
        Some(_) | None => Cell::Missing("–".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sets_of_pairs_are_named_by_their_endpoints() {
        let label = |value: Value| pairs_label(&pairs_of(&value).expect("pairs"));
        assert_eq!(label(json!(["a1 b1"])), "a1");
        assert_eq!(label(json!(["a1 b1", "a2 b2"])), "a1+a2");
        assert_eq!(label(json!(["a1 b1", "a2 b2", "a4 b4"])), "a1+a2+a4");
        assert_eq!(label(json!(["a1 b1", "a2 b2", "a3 b3", "a4 b4", "a6 b6"])), "a1 to a4+a6");
        assert_eq!(label(json!(["a b"])), "a-b");
        assert_eq!(label(json!(["a1 b2", "a2 b1"])), "a1-b2+a2-b1");
        assert_eq!(pairs_of(&json!(["a1"])), None);
    }

    #[test]
    fn sweeps_of_a_single_point_stand_beside_one_another() {
        let point = |sweep: &str, metric: &'static Metric, streams: u32| {
            let metrics = vec![MetricStudy::new(metric, Direction::Sum)];
            let jobs = vec![JobStudy { metrics, ..JobStudy::default() }];
            let mut point = PointStudy { sweep: sweep.into(), jobs, ..PointStudy::default() };
            point.parameters.insert("params.streams".into(), streams.into());
            point
        };
        let points = vec![
            point("cubic", metric::GOODPUT, 1),
            point("swept", metric::GOODPUT, 1),
            point("latency", metric::TRANSACTION_RATE, 1),
            point("swept", metric::GOODPUT, 2),
            point("bbr", metric::GOODPUT, 1),
        ];
        let study = Study { points, ..Study::default() };
        let grids = grids(&study);
        let told: Vec<(String, Vec<&str>)> = families(&grids)
            .into_iter()
            .map(|family| {
                (family.id.clone(), family.points().map(|(grid, _)| grid.sweep).collect())
            })
            .collect();
        let expected = [
            ("streams", vec!["cubic", "bbr"]),
            ("2", vec!["swept", "swept"]),
            ("3", vec!["latency"]),
        ];
        assert_eq!(told, expected.map(|(id, sweeps)| (id.to_owned(), sweeps)));
    }

    #[test]
    fn windows_and_bursts_are_settings_not_messages_or_parallel_work() {
        let axis_of = |path: &str, values: [Value; 2]| {
            let point = |value| PointStudy {
                parameters: [(path.to_owned(), value)].into(),
                ..PointStudy::default()
            };
            let points = values.map(point);
            axis(path, &points.iter().collect::<Vec<_>>())
        };
        let sizes = || [json!("2920 B"), json!("1 MiB")];
        let counts = || [json!(2), json!(8)];
        for (path, message) in [
            ("message_size", true),
            ("job.1.params.datagram_size", true),
            ("window_clamp", false),
            ("socket_buffer", false),
        ] {
            assert_eq!(axis_of(path, sizes()).is_message(), message, "{path}");
        }
        for (path, parallel) in
            [("params.streams", true), ("params.depth", true), ("params.burst", false)]
        {
            assert_eq!(axis_of(path, counts()).is_parallel(), parallel, "{path}");
        }
    }

    #[test]
    fn equally_large_sets_of_pairs_do_not_collide() {
        let point = |pairs: Value| {
            let mut point = PointStudy::default();
            point.parameters.insert("pairs".into(), pairs);
            point
        };
        let points =
            [point(json!(["a1 b1", "a2 b2"])), point(json!(["a1 b1"])), point(json!(["a4 b4"]))];
        let axis = axis("pairs", &points.iter().collect::<Vec<_>>());
        assert_eq!(axis.dimension, Dimension::Pairs);
        let told: Vec<(&str, f64)> =
            axis.values.iter().map(|value| (value.label.as_str(), value.value)).collect();
        assert_eq!(told, [("a1", 0.0), ("a4", 1.0), ("a1+a2", 2.0)]);
        assert_eq!(axis.place(&points[0]), Some(2));
    }
}
