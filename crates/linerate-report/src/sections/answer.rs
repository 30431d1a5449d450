//! The answer first: what was measured on what, the maxima, and whether they may be believed.
//!
//! Maxima are told by scope as in the Sun paper's Table 2: a single connection, a single CPU, a single pair of endpoints,
//! one shared capacity (a bus), all. Each has direction, layer, interval, runs and its share of the lowest ceiling. Only
//! valid and suspect points carry figures; it does not extrapolate between points.

use linerate_analysis::{JobStudy, MetricStudy, PointStudy};
use linerate_model::{Campaign, Direction, Validity, metric};

use super::{Section, Subject};
use crate::curves::{capitalised, metric_title};
use crate::document::{Block, Cell, Column, KeyFigure, Row, Table};
use crate::grid::{Grid, ceiling, headline};
use crate::number::Scale;
use crate::words::{count, date, testbed_words};

/// Rates whose maxima are told, in this order.
const MAXIMA: [&str; 4] = ["goodput", "packet_rate", "transaction_rate", "connection_rate"];
/// Costs and times whose minima are told, as far as they were measured.
const MINIMA: [&str; 2] = ["response_time_p50", "cpu_seconds_per_gigabyte"];
/// Parameters that say how many connections a job opens.
const CONNECTIONS: [&str; 3] = ["streams", "connections", "flows"];

/// See the file.
pub(super) struct Answer;

impl Section for Answer {
    fn name(&self) -> &'static str {
        "answer"
    }

    fn title(&self) -> &'static str {
        "The answer"
    }

    fn summary(&self) -> &'static str {
        "what was measured on what, the maxima with interval and share of the ceiling, and their validity"
    }

    fn order(&self) -> u32 {
        10
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        let mut blocks = vec![Block::Paragraph(opening(subject))];
        let all: Vec<Best<'_>> = best_of_all(subject);
        if !all.is_empty() {
            blocks.push(Block::KeyFigures(all.iter().map(Best::key_figure).collect()));
        }
        blocks.push(Block::Paragraph(standing(subject)));
        blocks.extend(maxima(subject).map(Block::Table));
        blocks
    }
}

fn opening(subject: &Subject<'_>) -> String {
    let header = &subject.campaign.header;
    let mut hosts: Vec<&str> = subject.campaign.hosts.iter().map(|host| host.host.as_str()).collect();
    hosts.dedup();
    let between = match hosts.as_slice() {
        [] => String::new(),
        [one] => format!(" on {one}"),
        [first @ .., last] => format!(" between {} and {last}", first.join(", ")),
    };
    let mut workloads: Vec<&str> = Vec::new();
    for job in subject.study.points.iter().flat_map(|point| &point.jobs).filter(|job| job.workload != "all") {
        if !workloads.contains(&job.workload.as_str()) {
            workloads.push(&job.workload);
        }
    }
    let sweeps = count(subject.grids.len(), "sweep");
    let points = count(subject.study.points.len(), "point");
    let trials = count(subject.campaign.trials.len(), "trial");
    let emulated = if header.emulated() {
        " The path was emulated: its figures say what this kernel does with such a path, not what hardware does."
    } else {
        ""
    };
    format!(
        "{} measured{between}, {}, on {}: {sweeps} with {points}, {trials}{}.{emulated}",
        match workloads.as_slice() {
            [] => "Nothing was".to_owned(),
            [one] => format!("{one} was"),
            [first @ .., last] => format!("{} and {last} were", first.join(", ")),
        },
        testbed_words(header.testbed),
        date(header.started),
        if subject.campaign.ended.is_some() { "" } else { " planned; the campaign did not come to its end" },
    )
}

/// Validity in one sentence.
fn standing(subject: &Subject<'_>) -> String {
    let trials = subject.study.points.iter().flat_map(|point| &point.trials);
    let mut counts = [0_usize; 4];
    let mut reached = 0;
    for trial in trials {
        counts[trial.validity as usize] += 1;
        reached += 1;
    }
    let [valid, suspect, invalid, impossible] = counts;
    if reached == 0 {
        return "No trial was judged: there are no figures.".into();
    }
    if valid == reached {
        return format!("All {reached} trials are valid.");
    }
    let told = [(suspect, "suspect"), (invalid, "invalid"), (impossible, "impossible")];
    let told: Vec<String> = told.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    let refused = if invalid + impossible > 0 { " Invalid and impossible trials carry no figure;" } else { "" };
    let reasons =
        if refused.is_empty() { " The section on validity says why." } else { " the section on validity says why." };
    format!("{valid} of {reached} trials are valid, {}.{refused}{reasons}", told.join(", "))
}

/// The best figure of a metric within a scope.
struct Best<'a> {
    scope: String,
    grid: &'a Grid<'a>,
    point: &'a PointStudy,
    metric: &'a MetricStudy,
}

impl Best<'_> {
    fn scale(&self) -> Scale {
        Scale::fit(&self.metric.name, self.metric.unit, self.metric.estimate.map(|e| e.value))
    }

    fn place(&self) -> String {
        format!("{}: {}", self.grid.sweep, self.grid.place_of(self.point))
    }

    fn key_figure(&self) -> KeyFigure {
        let extreme = if MINIMA.contains(&self.metric.name.as_str()) { "Lowest" } else { "Highest" };
        let name = metric_title(&self.metric.name);
        let name = if name.starts_with("CPU") { name } else { name.to_lowercase() };
        // Where one direction was measured as well, the sum says that it is one.
        let known = headline(self.point).is_some_and(|job| figure(job, &self.metric.name, Ways::One).is_some());
        let both = if self.metric.direction == Direction::Sum && known { ", both directions" } else { "" };
        KeyFigure {
            label: format!("{extreme} {name}{both}"),
            scale: self.scale(),
            layer: self.metric.layer,
            direction: self.metric.direction,
            estimate: self.metric.estimate.expect("only metrics with an estimate become the best"),
            ceiling: self.metric.share.zip(ceiling(self.point, self.metric).map(|c| c.name.clone())),
            at: self.place(),
            validity: self.point.validity,
        }
    }
}

/// Whether data goes one way or both; the two are never compared (the Sun paper's 936 Mbit/s leaves it open).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ways {
    One,
    Both,
}

fn best_of_all<'a>(subject: &Subject<'a>) -> Vec<Best<'a>> {
    let names = MAXIMA.iter().chain(&MINIMA);
    let both = names.flat_map(|name| [Ways::One, Ways::Both].map(|ways| best(subject, name, ways, "all", |_, _| true)));
    both.flatten().collect()
}

/// The figure of `name` at a point: of the better direction, or of both added where both carry data.
fn figure<'a>(job: &'a JobStudy, name: &str, ways: Ways) -> Option<&'a MetricStudy> {
    let usable = |direction| {
        let metric = job.metric(name, direction)?;
        metric.estimate.filter(|estimate| estimate.value.is_finite() && estimate.value > 0.0).map(|_| metric)
    };
    let (tx, rx, sum) = (usable(Direction::Tx), usable(Direction::Rx), usable(Direction::Sum));
    let value = |metric: &MetricStudy| metric.estimate.map_or(0.0, |estimate| estimate.value);
    match ways {
        Ways::One => [tx, rx].into_iter().flatten().max_by(|a, b| value(a).total_cmp(&value(b))),
        // A sum of one direction alone is that direction again.
        Ways::Both => sum.filter(|_| tx.is_some() == rx.is_some()),
    }
}

/// The best figure of `name` among the points that `scope` admits. A valid one goes before any suspect one.
fn best<'a>(
    subject: &Subject<'a>,
    name: &str,
    ways: Ways,
    scope: &str,
    admits: impl Fn(&PointStudy, &JobStudy) -> bool,
) -> Option<Best<'a>> {
    let lower_is_better = metric(name)?.higher_is_better == Some(false);
    let points = subject.grids.iter().flat_map(|grid| grid.points.iter().map(move |point| (grid, *point)));
    let figures = points.filter(|(_, point)| point.validity < Validity::Invalid).filter_map(|(grid, point)| {
        let job = headline(point).filter(|job| admits(point, job))?;
        Some(Best { scope: scope.to_owned(), grid, point, metric: figure(job, name, ways)? })
    });
    let rank = |best: &Best<'_>| {
        let value = best.metric.estimate.map_or(0.0, |estimate| estimate.value);
        (best.point.validity == Validity::Valid, if lower_is_better { -value } else { value })
    };
    figures.max_by(|a, b| {
        let ((a_valid, a_value), (b_valid, b_value)) = (rank(a), rank(b));
        a_valid.cmp(&b_valid).then(a_value.total_cmp(&b_value))
    })
}

/// The number that axis or parameter says, if it does.
fn said(point: &PointStudy, job: &JobStudy, names: &[&str]) -> Option<f64> {
    let on_axis =
        point.parameters.iter().find(|(path, _)| names.iter().any(|name| path.rsplit('.').next() == Some(name)));
    let value = on_axis.map(|(_, value)| value).or_else(|| names.iter().find_map(|name| job.params.get(name)))?;
    value.as_f64().or_else(|| value.as_array().map(|items| items.len() as f64))
}

/// Directed pairs of endpoints at work at a point.
fn pairs_at(point: &PointStudy) -> Vec<(&str, &str)> {
    let jobs = point.jobs.iter().filter(|job| !job.background && job.workload != "all");
    let mut pairs: Vec<(&str, &str)> = jobs.map(|job| (job.from.as_str(), job.to.as_str())).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Capacities that several pairs share, such as a bus under several NICs.
fn shared_capacities(campaign: &Campaign) -> impl Iterator<Item = &linerate_model::Capacity> {
    campaign.header.capacities.iter().filter(|capacity| {
        let mut ends: Vec<&str> = capacity.pairs.iter().flat_map(|(from, to)| [from.as_str(), to.as_str()]).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.len() > 2
    })
}

/// A table for each metric: its maxima by scope.
fn maxima<'a>(subject: &'a Subject<'a>) -> impl Iterator<Item = Table> + 'a {
    MAXIMA.iter().filter_map(|name| {
        let rows = scopes(subject, name);
        let first = rows.first()?;
        let scale = Scale::fit(name, first.metric.unit, rows.iter().filter_map(|b| b.metric.estimate.map(|e| e.value)));
        let columns = vec![
            Column::text("scope"),
            Column { direction: None, ..Column::estimate("maximum", scale, first.metric.layer, Direction::Sum) },
            Column::text("direction"),
            Column::number("runs", Scale::COUNT),
            Column::number("of ceiling", Scale::PERCENT),
            Column { layer: first.metric.layer, ..Column::number("ceiling", scale) },
            Column::text("set by"),
            Column::text("where"),
        ];
        let title = metric_title(name);
        let mut table = Table::new(format!("answer-{}", name.replace('_', "-")), format!("{title}: maxima by scope"), columns);
        table.rows = rows.iter().map(maximum_row).collect();
        table.note = Some(format!(
            "{}. Median over runs with its confidence interval. Direction as the job's first endpoint sees it: tx sends, rx \
             receives, sum adds both. The share is of the lowest ceiling known.",
            capitalised(metric(name)?.meaning)
        ));
        Some(table)
    })
}

/// The best figures of `name`, scope by scope; scopes the campaign did not measure are absent.
fn scopes<'a>(subject: &Subject<'a>, name: &str) -> Vec<Best<'a>> {
    let mut rows: Vec<Best<'a>> = Vec::new();
    let several = subject.study.points.iter().any(|point| pairs_at(point).len() > 1);
    for ways in [Ways::One, Ways::Both] {
        let mut tell = |scope: &str, admits: &dyn Fn(&PointStudy, &JobStudy) -> bool| {
            rows.extend(best(subject, name, ways, scope, admits));
        };
        tell("single connection", &|point, job| {
            pairs_at(point).len() == 1 && said(point, job, &CONNECTIONS) == Some(1.0)
        });
        tell("single CPU", &|point, job| said(point, job, &["cpus"]) == Some(1.0));
        if several {
            tell("single pair of endpoints", &|point, _| pairs_at(point).len() == 1);
        }
        for capacity in shared_capacities(subject.campaign) {
            let within = |(from, to): &(&str, &str)| {
                capacity.pairs.iter().any(|(a, b)| (a == from && b == to) || (a == to && b == from))
            };
            tell(&format!("through {}", capacity.name), &|point, _| pairs_at(point).iter().all(within));
        }
        tell("all", &|_, _| true);
    }
    rows
}

fn maximum_row(best: &Best<'_>) -> Row {
    let metric = best.metric;
    let estimate = metric.estimate.expect("only metrics with an estimate become the best");
    let bound = ceiling(best.point, metric);
    let direction = match metric.direction {
        Direction::Tx => format!("tx, {}", ends(best.point)),
        Direction::Rx => format!("rx, {}", ends(best.point)),
        Direction::Sum => "sum".to_owned(),
    };
    let place = match best.point.validity {
        Validity::Valid => best.place(),
        other => format!("{} ({})", best.place(), other.word()),
    };
    let none = || Cell::Missing("–".into());
    let cells = vec![
        Cell::text(&best.scope),
        Cell::Estimate(estimate),
        Cell::text(direction),
        Cell::Number(f64::from(estimate.n)),
        metric.share.map_or(Cell::Missing("not known".into()), Cell::Number),
        bound.map_or_else(none, |bound| Cell::Number(bound.value)),
        bound.map_or_else(none, |bound| Cell::text(&bound.name)),
        Cell::text(place),
    ];
    Row::judged(cells, best.point.validity)
}

fn ends(point: &PointStudy) -> String {
    let told: Vec<String> = pairs_at(point).iter().map(|(from, to)| format!("{from} to {to}")).collect();
    match told.len() {
        0 | 1 => told.concat(),
        n => format!("{n} pairs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_read_from_the_axis_before_the_parameters() {
        let mut point = PointStudy::default();
        let mut job = JobStudy::default();
        job.params.set("streams", 4);
        assert_eq!(said(&point, &job, &CONNECTIONS), Some(4.0));
        point.parameters.insert("params.streams".into(), 1.into());
        assert_eq!(said(&point, &job, &CONNECTIONS), Some(1.0));
    }
}
