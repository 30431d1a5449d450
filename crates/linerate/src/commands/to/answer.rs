//! The answer of `linerate to`: each figure with its interval or spread, its ceiling, and what the
//! rules say.

use std::collections::BTreeSet;

use linerate_analysis::statistics::Percentile;
use linerate_analysis::{JobStudy, MetricStudy, PointStudy, Study};
use linerate_model::{BitRate, Campaign, Direction, Unit, Use, Verdict, metric};
use linerate_report::document::{Block, Origin, Section, Table};
use linerate_report::{Document, obtained_text};

use super::{DEFAULT_UDP_RATE, ToArgs, ToMode, decimal};
use crate::show;

/// The answer: a table of figures, then what a reader must know of them.
pub(super) fn document(campaign: &Campaign, study: &Study, args: &ToArgs) -> Document {
    let origin = Origin::Measured(campaign.header.testbed);
    let blocks =
        study.points.first().map(|point| blocks(campaign, study, point, args)).unwrap_or_default();
    let section = Section { id: "answer", title: "Result", blocks };
    Document::answer(
        format!("Path to {}", args.host),
        "one run",
        origin,
        vec![section],
        serde_json::Value::Null,
    )
}

fn blocks(campaign: &Campaign, study: &Study, point: &PointStudy, args: &ToArgs) -> Vec<Block> {
    // Datagrams that never came are in `loss_ratio`.
    let is_shown = |name: &&str| *name != metric::UNANSWERED_RATIO || args.mode != ToMode::Udp;
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for job in &point.jobs {
        for name in Use::Answer.metrics().map(|metric| metric.name).filter(is_shown) {
            let withheld = job.withheld.iter().filter(|one| one.name == name);
            notes.extend(
                withheld.map(|one| format!("{name} {}: withheld: {}", one.direction, one.why)),
            );
            let metrics = job.metrics.iter().filter(|metric| metric.name == name);
            rows.extend(metrics.filter_map(|metric| row(study, job, metric)));
        }
        notes.extend(operations(job));
        notes.extend(corrected(job));
    }
    let heads = [
        "figure",
        "direction",
        "value",
        "95 % of a percentile",
        "range over intervals",
        "share of ceiling",
    ];
    // Columns in which nothing stands are left out.
    let is_used = |column: &usize| {
        *column < 3 || rows.iter().any(|row: &[String; 6]| !row[*column].is_empty())
    };
    let columns: Vec<usize> = (0..heads.len()).filter(is_used).collect();
    let has_interval = columns.contains(&3);
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|column| row[*column].clone()).collect())
        .collect();
    let heads: Vec<&str> = columns.iter().map(|column| heads[*column]).collect();
    let mut table = Table::of_words("result", "Result of one run", &heads, &cells);
    let mut note =
        "One run: no confidence interval. A range is over its intervals (a plan with repeats gives \
            an interval)."
            .to_owned();
    if has_interval {
        note += " The 95 % of a percentile are by the ranks of its operations, as if they did not \
            depend on each other.";
    }
    table.note = Some(note);
    notes.extend(conditions(campaign, point, args));
    notes.extend(point.unbounded.iter().map(|why| format!("no ceiling: {why}")));
    notes.extend(point.why.iter().map(|why| format!("{}: {why}", point.validity.word())));
    notes.extend(study.findings.iter().map(|finding| {
        let word = match finding.verdict {
            Verdict::Proven => "proven",
            Verdict::Suspected => "suspected",
            Verdict::Inconclusive => "inconclusive",
        };
        format!("likely limit ({word}): {}", finding.claim)
    }));
    let table = if cells.is_empty() { None } else { Some(Block::Table(table)) };
    let notes = if notes.is_empty() { None } else { Some(Block::List(notes)) };
    table.into_iter().chain(notes).collect()
}

/// The cells of one figure; `None` where there is none and nothing is known instead.
fn row(study: &Study, job: &JobStudy, metric: &MetricStudy) -> Option<[String; 6]> {
    let layer = metric.layer.map(|layer| format!(" {layer}")).unwrap_or_default();
    let (value, interval) = match &metric.estimate {
        Some(estimate) => {
            (show::figure(metric, estimate.value), show::interval_of_percentile(job, metric))
        }
        // The levels stand in the reasons.
        None => {
            let settled = metric.settled.as_ref().filter(|settled| !settled.has_single_number)?;
            (format!("no single number: {}", settled.word), String::new())
        }
    };
    let share = metric.share.filter(|_| metric.estimate.is_some());
    Some([
        format!("{}{layer}", metric.name),
        metric.direction.to_string(),
        value,
        interval.trim_start().to_owned(),
        spread(study, &metric.name, metric.direction),
        share.map(|share| format!("{:.1} %", share * 100.0)).unwrap_or_default(),
    ])
}

/// The congestion control that was used and the rate that was offered: a user who chose neither
/// must know.
fn conditions(campaign: &Campaign, point: &PointStudy, args: &ToArgs) -> Vec<String> {
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
        match &args.congestion {
            None => format!(
                "congestion control: {used} (the default of the host; -C NAME chooses another)"
            ),
            Some(_) => format!(
                "congestion control: {used} (asked for; the default of the hosts is {defaults})"
            ),
        }
    });
    let offered = (args.mode == ToMode::Udp).then(|| match args.bitrate.as_deref() {
        None => format!(
            "offered load: {DEFAULT_UDP_RATE} per direction, the default (-b RATE sets \
            it, -b 0 sends as fast as possible)"
        ),
        Some(rate) if decimal("-b", rate).is_ok_and(|rate| rate == 0.0) => {
            "offered load: as fast as possible (-b 0)".to_owned()
        }
        Some(rate) => {
            format!(
                "offered load: {} per direction (-b \
                {rate})",
                BitRate(decimal("-b", rate).unwrap_or_default())
            )
        }
    });
    congestion.into_iter().chain(offered).collect()
}

/// What became of the requests or transfers that were due, if any was not answered.
fn operations(job: &JobStudy) -> Option<String> {
    let count =
        |name: &str| job.metric(name, Direction::Sum)?.estimate.map(|estimate| estimate.value);
    let (due, answered) = (count(metric::OPERATIONS_DUE)?, count(metric::OPERATIONS_ANSWERED)?);
    let (lost, open) = (count(metric::OPERATIONS_LOST)?, count(metric::OPERATIONS_OPEN)?);
    (lost + open > 0.0).then(|| {
        format!(
            "operations: {due} due = {answered} answered + {lost} lost + {open} open at the \
            end; each time includes those without an answer"
        )
    })
}

/// What a closed load hides: those of its percentiles that differ once it is filled in.
fn corrected(job: &JobStudy) -> Option<String> {
    let corrected = job.corrected.as_ref()?;
    let seconds = |ns: Option<u64>| {
        ns.map_or_else(
            || "∞".to_owned(),
            |ns| show::quantity(metric::RESPONSE_TIME_P99, ns as f64 / 1e9, Unit::Second),
        )
    };
    let told = |of: &Percentile| {
        let ends = || format!(" [{}, {}]", seconds(of.low_ns), seconds(of.high_ns));
        let interval = of.confidence.map_or_else(String::new, |_| ends());
        format!("p{} {}{interval}", of.quantile * 100.0, seconds(of.value_ns))
    };
    let tail = corrected.percentiles.iter().filter(|of| of.quantile > 0.5);
    let told: Vec<String> = tail.map(told).collect();
    (!told.is_empty()).then(|| {
        format!(
            "estimate of what a closed load hides ({} requests filled in at the pace of the \
                median): {}",
            corrected.n_filled,
            told.join(", ")
        )
    })
}

/// Smallest to largest interval of the measurement.
fn spread(study: &Study, metric: &str, direction: Direction) -> String {
    let Some(trial) = study.points.first().and_then(|point| point.trials.first()) else {
        return String::new();
    };
    // Segments sent again are a count of the whole measurement.
    if metric == metric::RETRANSMITS {
        return String::new();
    }
    let key =
        if metric == metric::GOODPUT { format!("goodput_{direction}") } else { metric.to_owned() };
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
    let unit = linerate_model::metric(metric).map_or(Unit::Count, |metric| metric.unit);
    if values.len() < 2 {
        String::new()
    } else {
        format!("{} to {}", show::quantity(metric, low, unit), show::quantity(metric, high, unit))
    }
}
