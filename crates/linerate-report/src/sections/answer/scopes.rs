//! Maxima by scope, as in Table 2 of the Sun paper: a single connection, a single CPU, a single NIC
//! (one of several pairs of endpoints), a shared resource (a bus), all. Requests have their latency
//! at the same point.
//!
//! Scopes that the campaign did not measure are left out; scopes with the same point share a row. A
//! table that would only repeat the key figures is left out.

use linerate_analysis::{JobStudy, PointStudy};
use linerate_model::{Campaign, Capacity, Direction, Metric, Statistic, Use, Validity};

use super::{Best, TAIL, Ways, best, workload_label, workloads};
use crate::curves::{capitalised, uncapitalised};
use crate::document::{Cell, Column, Sheet, Table};
use crate::grid::{ceiling, estimate_cell, has_estimate, workload};
use crate::number::Scale;
use crate::sections::Subject;
use crate::sentences;

/// Parameters with the number of connections of a job.
const CONNECTIONS: [&str; 3] = ["streams", "connections", "flows"];

/// Returns a table for each rate of streams, and one for requests.
pub(super) fn tables(subject: &Subject<'_>) -> Vec<Table> {
    let streams = Use::StreamRate.metrics().filter_map(|metric| maxima(subject, metric));
    streams.chain(Use::Request.metrics().filter_map(|metric| requests(subject, metric))).collect()
}

fn maxima(subject: &Subject<'_>, metric: &'static Metric) -> Option<Table> {
    let rows: Vec<Best<'_>> =
        workloads(subject).iter().flat_map(|of| scopes(subject, metric, of)).collect();
    // One row for each workload would repeat the key figures.
    if rows.len() <= workloads(subject).len() {
        return None;
    }
    let values = rows.iter().filter_map(|best| best.metric.estimate.map(|estimate| estimate.value));
    let scale = Scale::of(metric, values);
    // Without any ceiling the three columns would be empty.
    let bounded = rows.iter().any(|best| ceiling(best.point, best.metric).is_some());
    let estimate = |best: &&Best<'_>| {
        best.metric.estimate.expect("only metrics with an estimate become the best")
    };
    let mut sheet = Sheet::new(&rows);
    sheet.text("workload", |best| best.workload());
    sheet.text("scope", |best| best.scope.clone());
    let maximum = Column::undirected("maximum", scale, metric.layer);
    sheet.column(maximum, |best| Cell::Estimate(estimate(best)));
    sheet.text("direction", |best| match best.metric.direction {
        Direction::Sum => "sum of both".to_owned(),
        // A direction means nothing without its ends.
        one => format!("{one}, {}", ends(best.point)),
    });
    sheet.number("n", Scale::COUNT, |best| f64::from(estimate(best).n));
    sheet.number_or("confidence", Scale::PERCENT, "–", |best| estimate(best).confidence);
    if bounded {
        sheet.number_or("of ceiling", Scale::PERCENT, "not known", |best| best.metric.share);
        let column = Column { layer: metric.layer, ..Column::number("ceiling", scale) };
        sheet.column(column, |best| {
            let bound = ceiling(best.point, best.metric);
            Cell::number_or(bound.map(|bound| bound.value), "–")
        });
        sheet.text_or("set by", "–", |best| {
            ceiling(best.point, best.metric).map(|bound| bound.name())
        });
    }
    sheet.text("where", |best| place(best));
    let id = format!("answer-{}", metric.name.replace('_', "-"));
    let caption = format!("{}: maxima by scope", metric.title);
    let mut table = sheet.judged(id, caption, |best| best.point.validity);
    // The reason is worth more than an empty column.
    let why = subject.study.points.iter().find(|point| !point.unbounded.is_empty());
    let bounds = if bounded {
        "The share is of the lowest known ceiling.".to_owned()
    } else if let Some(point) = why {
        let why: Vec<String> = point.unbounded.iter().map(sentences::unbounded).collect();
        format!("No ceiling is known for this path. {}.", capitalised(&why.join("; ")))
    } else if subject.campaign.header.capacities.is_empty() {
        "No ceiling is known for this path: its parts have no declared capacity.".to_owned()
    } else {
        "No ceiling is known for this rate.".to_owned()
    };
    table.note = Some(format!(
        "{}. tx: the job's first endpoint sends. {bounds}",
        capitalised(metric.meaning)
    ));
    Some(table)
}

fn place(best: &Best<'_>) -> String {
    match best.point.validity {
        Validity::Valid => best.place(),
        other => format!("{} ({})", best.place(), other.word()),
    }
}

/// Returns the best figures of `metric` of the workload `of`, scope by scope, without scopes that
/// the campaign did not measure.
fn scopes<'a>(subject: &Subject<'a>, metric: &'static Metric, of: &str) -> Vec<Best<'a>> {
    let mut rows: Vec<Best<'a>> = Vec::new();
    // With one pair, a single NIC is all there is.
    let several = subject.study.points.iter().any(|point| pairs_at(point).len() > 1);
    for ways in [Ways::One, Ways::Both] {
        let find = |scope: &str, admits: &Admits<'_>| {
            best_of_workload(subject, (metric, of), ways, scope, admits)
        };
        let mut tell = |found| add_scope(&mut rows, found);
        tell(find("single connection", &|point, job| {
            // One connection per pair is not a single connection.
            pairs_at(point).len() == 1 && said(point, job, &CONNECTIONS) == Some(1.0)
        }));
        tell(find("single CPU", &|point, job| said(point, job, &["cpus"]) == Some(1.0)));
        if several {
            tell(find("single NIC", &|point, _| pairs_at(point).len() == 1));
        }
        for capacity in shared_capacities(subject.campaign) {
            let within = |(from, to): &(&str, &str)| {
                capacity.pairs.iter().any(|(a, b)| (a == from && b == to) || (a == to && b == from))
            };
            tell(find(&capacity_scope(capacity), &|point, _| pairs_at(point).iter().all(within)));
        }
        tell(find("all", &|_, _| true));
    }
    rows
}

/// Condition on a job at a point.
type Admits<'f> = dyn Fn(&PointStudy, &JobStudy) -> bool + 'f;

/// Returns the best figure of a workload among the jobs that `admits` admits.
fn best_of_workload<'a>(
    subject: &Subject<'a>,
    (metric, of): (&'static Metric, &str),
    ways: Ways,
    scope: &str,
    admits: &Admits<'_>,
) -> Option<Best<'a>> {
    let admitted =
        |point: &PointStudy, job: &JobStudy| workload(point, job) == of && admits(point, job);
    best(subject, metric, ways, scope, admitted)
}

/// Adds a scope. The same figure in two scopes is one row with both names.
fn add_scope<'a>(rows: &mut Vec<Best<'a>>, found: Option<Best<'a>>) {
    let Some(found) = found else { return };
    match rows.iter_mut().find(|row| std::ptr::eq(row.metric, found.metric)) {
        Some(row) => row.scope = format!("{}, {}", row.scope, found.scope),
        None => rows.push(found),
    }
}

/// Returns the name of an edge without its direction, which has a column of its own.
fn capacity_scope(capacity: &Capacity) -> String {
    capacity.part().short_name()
}

/// Returns the heading of a percentile: `median`, `p99`, `p99.9`.
fn percentile_head(metric: &Metric) -> String {
    match metric.statistic {
        Some(Statistic::Quantile(0.5)) => "median".to_owned(),
        Some(statistic @ Statistic::Quantile(_)) => statistic.to_string(),
        _ => uncapitalised(metric.title),
    }
}

/// Returns the table of requests or connections: for each workload the highest rate, and the lowest
/// tail if that is at another point.
fn requests(subject: &Subject<'_>, metric: &'static Metric) -> Option<Table> {
    let mut rows: Vec<Best<'_>> = Vec::new();
    for of in workloads(subject) {
        let admits = |point: &PointStudy, job: &JobStudy| {
            workload(point, job) == of && has_estimate(job, metric, Direction::Sum)
        };
        let Some(fastest) = best(subject, metric, Ways::Both, "highest rate", admits) else {
            continue;
        };
        let calmest = best(subject, TAIL, Ways::Both, "lowest p99", admits);
        // One point that is both fastest and calmest needs one row.
        let apart = calmest.filter(|calmest| !std::ptr::eq(calmest.point, fastest.point));
        rows.push(fastest);
        rows.extend(apart);
    }
    if rows.len() <= workloads(subject).len() {
        return None;
    }
    let rate = |best: &Best<'_>| {
        best.job.metric(metric, Direction::Sum)?.estimate.map(|estimate| estimate.value)
    };
    let scale = Scale::of(metric, rows.iter().filter_map(rate));
    let time = |best: &Best<'_>, time: &Metric| {
        best.job.metric(time, Direction::Sum)?.estimate.map(|e| e.value)
    };
    let response_times = || Use::ResponseBesideRate.metrics();
    let seconds =
        rows.iter().flat_map(|best| response_times().filter_map(|known| time(best, known)));
    // One scale for all times, so that they can be compared; the tail is the largest.
    let times = Scale::of(TAIL, seconds);
    let cell = |best: &Best<'_>, known: &Metric| {
        estimate_cell(best.point, best.job.metric(known, Direction::Sum))
    };
    let estimate = |best: &Best<'_>| best.job.metric(metric, Direction::Sum)?.estimate;
    let mut sheet = Sheet::new(&rows);
    sheet.text("workload", |best| workload_label(workload(best.point, best.job)));
    sheet.text("at its", |best| best.scope.clone());
    let rates = Column::undirected(uncapitalised(metric.title), scale, None);
    sheet.column(rates, |best| cell(best, metric));
    for known in
        response_times().filter(|known| rows.iter().any(|best| time(best, known).is_some()))
    {
        let column = Column::undirected(percentile_head(known), times, None);
        sheet.column(column, |best| cell(best, known));
    }
    sheet.number("n", Scale::COUNT, |best| {
        estimate(best).map_or(0.0, |estimate| f64::from(estimate.n))
    });
    sheet.number_or("confidence", Scale::PERCENT, "–", |best| estimate(best)?.confidence);
    sheet.text("where", |best| place(best));
    let id = format!("answer-{}", metric.name.replace('_', "-"));
    let caption = format!("{} and response time", metric.title);
    let mut table = sheet.judged(id, caption, |best| best.point.validity);
    table.note = Some(format!(
        "{}. A response time is from the intended start of a request to the end of its response. \
            Percentiles are medians over trials.",
        capitalised(metric.meaning)
    ));
    Some(table)
}

/// Returns the number of an axis or parameter.
fn said(point: &PointStudy, job: &JobStudy, names: &[&str]) -> Option<f64> {
    let on_axis = point
        .parameters
        .iter()
        // Paths such as `job.params.streams` end in the parameter.
        .find(|(path, _)| names.iter().any(|name| path.rsplit('.').next() == Some(name)));
    let value = on_axis
        .map(|(_, value)| value)
        .or_else(|| names.iter().find_map(|name| job.params.get(name)))?;
    // A list of CPUs has as many as it has items.
    value.as_f64().or_else(|| value.as_array().map(|items| items.len() as f64))
}

/// Returns the directed pairs of endpoints with jobs at a point.
fn pairs_at(point: &PointStudy) -> Vec<(&str, &str)> {
    let jobs = point.jobs.iter().filter(|job| !job.background && job.workload != "all");
    let mut pairs: Vec<(&str, &str)> =
        jobs.map(|job| (job.from.as_str(), job.to.as_str())).collect();
    // Only neighbours are merged.
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Returns the capacities that several pairs share, such as a bus under several NICs; one per edge,
/// smallest first.
fn shared_capacities(campaign: &Campaign) -> Vec<&Capacity> {
    fn ends(capacity: &Capacity) -> Vec<String> {
        let mut ends: Vec<String> =
            capacity.pairs.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }
    let mut shared: Vec<(Vec<String>, &Capacity)> = Vec::new();
    for capacity in &campaign.header.capacities {
        let ends = ends(capacity);
        let told =
            shared.iter().any(|(known, other)| *known == ends && other.edge == capacity.edge);
        // Two ends are one pair, which has its own row.
        if ends.len() > 2 && !told {
            shared.push((ends, capacity));
        }
    }
    // The smallest part is the nearest to a single NIC.
    shared.sort_by_key(|(ends, _)| ends.len());
    shared.into_iter().map(|(_, capacity)| capacity).collect()
}

fn ends(point: &PointStudy) -> String {
    let told: Vec<String> =
        pairs_at(point).iter().map(|(from, to)| format!("{from} to {to}")).collect();
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
