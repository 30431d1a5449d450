//! Answer of `linerate to`: each figure with its interval or range and its ceiling, then the
//! findings of the rules.

use std::collections::BTreeSet;

use linerate_analysis::live::LiveLine;
use linerate_analysis::statistics::Percentile;
use linerate_analysis::{IntervalSeries, JobStudy, MetricStudy, PointStudy, Study};
use linerate_load::workloads::Rate;
use linerate_model::{Campaign, Direction, Endpoint, Metric, TrialSpec, Use, metric};
use linerate_report::document::{Block, Origin, Section, Table};
use linerate_report::{Document, obtained_text, sentences, uncapitalised};
use serde_json::{Value, json};

use crate::figures::{figure, interval_of_percentile, quantity};

/// The choices of the person who asked.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The host.
    pub host: &'a str,
    /// The congestion control, if one was chosen.
    pub congestion: Option<&'a str>,
    /// The offered load of datagrams.
    pub offered: Offered,
    /// The lines of the run.
    pub lines: &'a [LiveLine],
}

/// Offered load of datagrams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Offered {
    /// The load has no datagrams.
    NoDatagrams,
    /// The default.
    Default(Rate),
    /// The rate that was chosen.
    Chosen(Rate),
    /// As fast as possible.
    Unlimited,
}

/// Returns the answer: a table of figures, then notes on them.
pub fn document(campaign: &Campaign, study: &Study, asked: &Asked<'_>) -> Document {
    let origin = Origin::Measured(campaign.header.testbed);
    let blocks =
        study.points.first().map(|point| blocks(campaign, study, point, asked)).unwrap_or_default();
    let section = Section { id: "answer", title: "Result", blocks };
    Document::answer(
        format!("Path to {}", asked.host),
        "one run",
        origin,
        vec![section],
        json!({ "lines": asked.lines.iter().map(line).collect::<Vec<_>>() }),
    )
}

/// Returns the start of a run between `ends` as data: the trial, and the ceiling that bounds it.
#[must_use]
pub fn start(ends: [&Endpoint; 2], trial: &TrialSpec, ceiling: Option<f64>) -> Value {
    json!({
        "linerate": env!("CARGO_PKG_VERSION"),
        "schema": linerate_report::SCHEMA,
        "ends": ends,
        "trial": trial,
        "ceiling_bps": ceiling,
    })
}

/// Returns a run that failed after `lines` with this message and exit code as data.
#[must_use]
pub fn failed(message: &str, exit: u8, lines: &[LiveLine]) -> Value {
    let mut document = crate::failure_json(message, exit);
    document["lines"] = lines.iter().map(line).collect();
    document
}

/// Returns a line as data.
#[must_use]
pub fn line(line: &LiveLine) -> Value {
    json!({
        "from_s": line.from.as_secs_f64(),
        "until_s": line.until.as_secs_f64(),
        "is_drain": line.is_drain,
        "payload_bytes_tx": line.forward_bytes,
        "payload_bytes_rx": line.backward_bytes,
        "transactions": line.transactions,
        "connections": line.connections,
        (metric::RETRANSMITS.name): line.retransmits,
        "rtt_s": line.rtt,
        "cpu_cores": line.cpu,
        "datagrams_expected": line.datagrams.map(|of| of.expected),
        "datagrams_lost": line.datagrams.map(|of| of.lost),
        "jitter_s": line.jitter,
        "response_time_s": line.times.map(|time| time.filter(|time| time.is_finite())),
    })
}

fn blocks(campaign: &Campaign, study: &Study, point: &PointStudy, asked: &Asked<'_>) -> Vec<Block> {
    // Datagrams that never came are in `loss_ratio`.
    let has_datagrams = asked.offered != Offered::NoDatagrams;
    let is_shown = |known: &&Metric| *known != metric::UNANSWERED_RATIO || !has_datagrams;
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for job in &point.jobs {
        for known in Use::Answer.metrics().filter(is_shown) {
            let withheld = job.withheld.iter().filter(|one| one.name == known.name);
            notes.extend(withheld.map(|one| {
                let why = sentences::refusal(&one.why);
                format!("{}{}: withheld: {why}", uncapitalised(known.title), way(one.direction))
            }));
            let metrics = job.metrics.iter().filter(|figure| figure.metric == known);
            rows.extend(metrics.filter_map(|metric| row(study, job, metric)));
        }
        notes.extend(operations(job));
        notes.extend(corrected(job));
    }
    let heads = ["figure", "value", "range", "share of ceiling"];
    let has_interval = rows.iter().any(|row: &[String; 4]| row[RANGE].starts_with('['));
    // Empty columns are left out.
    let is_used =
        |column: &usize| *column < RANGE || rows.iter().any(|row| !row[*column].is_empty());
    let columns: Vec<usize> = (0..heads.len()).filter(is_used).collect();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|column| row[*column].clone()).collect())
        .collect();
    let heads: Vec<&str> = columns.iter().map(|column| heads[*column]).collect();
    let mut table = Table::of_words("result", "Result of one run", &heads, &cells);
    let mut note =
        "One run: no confidence interval. The range is that of its intervals. Use `linerate run` \
            with repeats for a confidence interval."
            .to_owned();
    if has_interval {
        note += " Brackets: interval of a percentile at 95 %, by the ranks of its operations, \
            which count as independent.";
    }
    table.note = Some(note);
    notes.extend(conditions(campaign, point, asked));
    notes.extend(
        point.unbounded.iter().map(|why| format!("no ceiling: {}", sentences::unbounded(why))),
    );
    notes.extend(
        point
            .why
            .iter()
            .map(|why| format!("{}: {}", point.validity.word(), sentences::reason(why))),
    );
    let table = if cells.is_empty() { None } else { Some(Block::Table(table)) };
    let notes = if notes.is_empty() { None } else { Some(Block::List(notes)) };
    let lead = linerate_report::verdict(campaign, study).map(Block::Lead);
    lead.into_iter().chain(table).chain(notes).collect()
}

/// Column of the ranges.
const RANGE: usize = 2;

/// Returns the direction behind a name; a figure of both directions needs none.
const fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::Tx => " tx",
        Direction::Rx => " rx",
        Direction::Sum => "",
    }
}

/// Returns the cells of one figure; `None` if it has no value and no reason for that.
fn row(study: &Study, job: &JobStudy, metric: &MetricStudy) -> Option<[String; 4]> {
    let layer = metric.layer.map(|layer| format!(" {layer}")).unwrap_or_default();
    let (value, interval) = match &metric.estimate {
        Some(estimate) => (figure(metric, estimate.value), interval_of_percentile(job, metric)),
        // The reasons name the levels.
        None => {
            let settled = metric.settled.as_ref().filter(|settled| !settled.has_single_number)?;
            (format!("no single number: {}", settled.word), String::new())
        }
    };
    // Without a figure there is no share of a ceiling.
    let share = metric.share.filter(|_| metric.estimate.is_some());
    // Only rates have a range and only percentiles an interval, so both fit in one column.
    let range = match interval.trim_start() {
        "" => spread(study, metric.metric, metric.direction),
        interval => interval.to_owned(),
    };
    let each_way =
        |other: &MetricStudy| other.metric == metric.metric && other.direction != Direction::Sum;
    let direction = match metric.direction {
        Direction::Sum if job.metrics.iter().any(each_way) => " sum",
        direction => way(direction),
    };
    Some([
        format!("{}{layer}{direction}", uncapitalised(metric.metric.title)),
        value,
        range,
        share.map(|share| format!("{:.1} %", share * 100.0)).unwrap_or_default(),
    ])
}

/// Returns the congestion control and the offered rate: a user who chose neither must know them.
fn conditions(campaign: &Campaign, point: &PointStudy, asked: &Asked<'_>) -> Vec<String> {
    let congestion =
        point.jobs.iter().find_map(|job| job.obtained.get("congestion")).map(obtained_text);
    let congestion = congestion.map(|used| {
        let defaults: BTreeSet<&str> = campaign
            .hosts
            .iter()
            .filter_map(|host| {
                host.facts.pointer("/net/congestion_control").and_then(serde_json::Value::as_str)
            })
            .collect();
        let defaults = defaults.into_iter().collect::<Vec<_>>().join(", ");
        match asked.congestion {
            None => {
                format!("congestion control: {used} (the host's default; -C NAME chooses another)")
            }
            Some(_) => {
                format!("congestion control: {used} (chosen; the hosts' default is {defaults})")
            }
        }
    });
    let offered = match asked.offered {
        Offered::NoDatagrams => None,
        Offered::Default(rate) => Some(format!(
            "offered load: {rate} per direction, the default (-b RATE sets it, -b 0 sends as fast \
                as possible)"
        )),
        Offered::Chosen(rate) => Some(format!("offered load: {rate} per direction (chosen)")),
        Offered::Unlimited => Some("offered load: as fast as possible (-b 0)".to_owned()),
    };
    congestion.into_iter().chain(offered).collect()
}

/// Returns the account of the operations that were due, if any was not answered.
fn operations(job: &JobStudy) -> Option<String> {
    let count = |metric: &Metric| {
        job.metric(metric, Direction::Sum)?.estimate.map(|estimate| estimate.value)
    };
    let (due, answered) = (count(metric::OPERATIONS_DUE)?, count(metric::OPERATIONS_ANSWERED)?);
    let (lost, open) = (count(metric::OPERATIONS_LOST)?, count(metric::OPERATIONS_OPEN)?);
    (lost + open > 0.0).then(|| {
        format!(
            "operations: {due} due = {answered} answered + {lost} lost + {open} open at the \
            end; each time includes those without an answer"
        )
    })
}

/// Returns the tail percentiles of a closed load, corrected for the requests that it held back.
fn corrected(job: &JobStudy) -> Option<String> {
    let corrected = job.corrected.as_ref()?;
    let tail = corrected.percentiles.iter().filter(|of| of.quantile > 0.5);
    let shown: Vec<String> = tail.map(percentile_words).collect();
    (!shown.is_empty()).then(|| {
        format!(
            "estimate of what a closed load hides ({} requests filled in at the pace of the \
                median): {}",
            corrected.n_filled,
            shown.join(", ")
        )
    })
}

/// Returns a percentile with its interval, such as `p99 1.2 ms [1.1 ms, 1.4 ms]`.
fn percentile_words(of: &Percentile) -> String {
    let ends = || format!(" [{}, {}]", response_time(of.low_ns), response_time(of.high_ns));
    let interval = of.confidence.map_or_else(String::new, |_| ends());
    format!("p{} {}{interval}", of.quantile * 100.0, response_time(of.value_ns))
}

fn response_time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "∞".to_owned(), |ns| quantity(metric::RESPONSE_TIME_P99, ns as f64 / 1e9))
}

/// Returns the range of `metric` over the intervals of the measurement.
fn spread(study: &Study, metric: &'static Metric, direction: Direction) -> String {
    let Some(trial) = study.points.first().and_then(|point| point.trials.first()) else {
        return String::new();
    };
    // Segments sent again are a count of the whole measurement.
    if metric == metric::RETRANSMITS {
        return String::new();
    }
    let key = if metric == metric::GOODPUT {
        IntervalSeries::Directed(metric, direction)
    } else {
        IntervalSeries::Of(metric)
    };
    let Some(series) = trial.series.get(&key) else { return String::new() };
    let measured = trial
        .seconds
        .iter()
        .zip(series)
        .filter(|(at, _)| **at > trial.measured_from)
        .filter_map(|(_, value)| *value);
    let values: Vec<f64> = measured.collect();
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(*value), high.max(*value)));
    if values.len() < 2 {
        String::new()
    } else {
        format!("{} to {}", quantity(metric, low), quantity(metric, high))
    }
}
