//! Section `answer`: first screen (see `verdict` and `compared`), picture of the path, subject of
//! the campaign, best figures of each workload, and their validity.
//!
//! Goodput and packet rate are shown for streams only, because the payload of requests is
//! incidental. Requests and connections have a rate and a latency. Maxima are listed by scope as in
//! Table 2 of the Sun paper (see `scopes`). Each figure has a direction, a layer, an interval with
//! its confidence, a number of runs and a share of the lowest ceiling. Only valid and suspect
//! points have figures, and nothing is extrapolated between points.

mod compared;
mod measures;
mod names;
mod scopes;
pub(crate) mod verdict;

pub(super) use compared::pairs_needed;
pub(crate) use names::of_hosts as with_names_of_hosts;
pub(crate) use verdict::lead as first_screen;

use std::collections::BTreeSet;

use linerate_analysis::{
    Headline, JobStudy, MetricStudy, Mix, PointStudy, Study, TrialStudy, headline,
};
use linerate_model::{ARM_AXIS, Campaign, Direction, Metric, TrialId, Use, Validity, metric};

use super::{Section, Subject};
use crate::commands::CommandPlace;
use crate::curves::uncapitalised;
use crate::document::{Block, KeyFigure, Lead};
use crate::grid::{Grid, ceiling, is_files, is_stream, told_jobs, workload};
use crate::number::{Scale, round_half_up};
use crate::sentences;
use crate::words::{count, date, testbed_words};

/// Headline latency, and the tail beside it.
const MEDIAN: &Metric = metric::RESPONSE_TIME_P50;
const TAIL: &Metric = metric::RESPONSE_TIME_P99;
/// Cost of a stream.
const COST: &Metric = metric::CPU_SECONDS_PER_GIGABYTE;
/// Most reasons against trials listed here.
const REASONS: usize = 3;
/// Most comparisons before the picture of the path: more would hide it.
const MOST_LED: usize = 4;
/// Suffix of a stream workload, after its protocol.
const STREAM_SUFFIX: &str = "_stream";

/// Section `answer`.
pub(super) const SECTION: Section = Section {
    name: "answer",
    title: "The answer",
    summary: "the headline figure, the bottleneck with its status and the next step; the path with \
        the limit marked; subject, maxima and validity",
    order: 10,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let headline = headline(subject.campaign, subject.study);
    let lead = lead(subject.campaign, subject.study, headline.as_ref());
    let mut blocks: Vec<Block> = lead.map(Block::Lead).into_iter().collect();
    // The first screen already has the main figures.
    let mut compared = match compared::lead(subject.study, &[], None) {
        Some(_) => super::comparison::tallies(subject),
        None => super::comparison::told(subject),
    };
    compared.extend(super::together::told(subject).into_iter().skip(mixes_led(subject.study)));
    // The reader of a comparison looks for the difference before either arm's figure.
    if (1..=MOST_LED).contains(&compared.len())
        && !super::comparison::asked_for(subject.study).is_empty()
    {
        blocks.push(Block::List(std::mem::take(&mut compared)));
    }
    let pictured = headline.map(|headline| names::of_hosts(headline, subject.campaign));
    blocks.extend(pictured.as_ref().and_then(verdict::picture));
    blocks.push(Block::Paragraph(opening(subject)));
    let best = key_figures(subject);
    if !best.is_empty() {
        blocks.push(Block::KeyFigures(best.iter().map(Best::key_figure).collect()));
    }
    if !compared.is_empty() {
        blocks.push(Block::List(compared));
    }
    let searched = super::searches::told(subject);
    if !searched.is_empty() {
        blocks.push(Block::List(searched));
    }
    blocks.extend(super::account::told(subject).map(Block::Paragraph));
    blocks.push(Block::Paragraph(standing(subject)));
    let reasons = reasons(subject);
    if !reasons.is_empty() {
        blocks.push(Block::List(reasons));
    }
    let looked = crate::looks::told(subject.grids);
    if !looked.is_empty() {
        blocks.push(Block::List(looked));
    }
    blocks.extend(scopes::tables(subject).into_iter().map(Block::Table));
    blocks
}

/// Returns the first screen: of the comparison if there is one, else of the headline point.
pub(crate) fn lead(
    campaign: &Campaign,
    study: &Study,
    headline: Option<&Headline>,
) -> Option<Lead> {
    let named = headline.map(|headline| names::of_hosts(headline.clone(), campaign));
    let (named, argv) = (named.as_ref(), &campaign.header.argv);
    let mixed = || mix_lead(study.mixes.first().filter(|_| mixes_led(study) > 0)?, named);
    let of_point = || Some(verdict::lead(named?, &CommandPlace::of(campaign)));
    // A comparison answers the question that was asked; a headline only describes.
    compared::lead(study, argv, named).or_else(mixed).or_else(of_point)
}

/// Returns the first screen of `mix`, whose arms are those of `headline`.
fn mix_lead(mix: &Mix, headline: Option<&Headline>) -> Option<Lead> {
    Some(measures::of_arms(super::together::lead(mix)?, headline, &mix.sweep))
}

/// Returns the number of mixes on the first screen: one if the campaign measured nothing else.
fn mixes_led(study: &Study) -> usize {
    let is_arm = |point: &PointStudy| point.parameters.contains_key(ARM_AXIS);
    let has_figures = matches!(study.mixes.as_slice(), [only] if !only.jobs.is_empty());
    usize::from(has_figures && study.searches.is_empty() && study.points.iter().all(is_arm))
}

fn opening(subject: &Subject<'_>) -> String {
    let header = &subject.campaign.header;
    let mut hosts: Vec<&str> =
        subject.campaign.hosts.iter().map(|host| host.host.as_str()).collect();
    // A host with several endpoints is named once.
    hosts.dedup();
    let between = match hosts.as_slice() {
        [] => String::new(),
        [one] => format!(" on {one}"),
        [first @ .., last] => format!(" between {} and {last}", first.join(", ")),
    };
    let workloads = workloads(subject);
    let n_searches = subject.study.searches.len();
    let sweeps = count(subject.grids.len(), "sweep");
    let points = count(subject.study.points.len(), "point");
    // A campaign of searches alone has no points worth counting.
    let measured = match (subject.study.points.len(), n_searches) {
        (_, 0) => format!("{sweeps}, {points}"),
        (0, _) => count_of(n_searches, "search", "searches"),
        _ => format!("{sweeps}, {points}, {}", count_of(n_searches, "search", "searches")),
    };
    let trials = count(subject.campaign.trials.len(), "trial");
    let emulated = if header.emulated() {
        " The path is emulated: figures describe this kernel, not hardware."
    } else {
        ""
    };
    format!(
        "{}{between}, {}, on {}: {measured}, {trials}{}.{emulated}",
        match workloads.as_slice() {
            [] => "Nothing".to_owned(),
            [one] => (*one).to_owned(),
            [first @ .., last] => format!("{} and {last}", first.join(", ")),
        },
        testbed_words(header.testbed),
        date(header.started),
        if subject.campaign.ended.is_some() { "" } else { " planned; the campaign did not finish" },
    )
}

fn count_of(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Returns the measured workloads in the order of the plan.
fn workloads<'a>(subject: &Subject<'a>) -> Vec<&'a str> {
    let mut workloads: Vec<&str> = Vec::new();
    for search in &subject.study.searches {
        if !workloads.contains(&search.workload.as_str()) {
            workloads.push(&search.workload);
        }
    }
    for point in &subject.study.points {
        for name in told_jobs(point).into_iter().map(|job| workload(point, job)) {
            if !workloads.contains(&name) {
                workloads.push(name);
            }
        }
    }
    workloads
}

/// Returns the validity of the trials and the certainty of the figures.
fn standing(subject: &Subject<'_>) -> String {
    let not_run = not_run(subject);
    let mut counts = [0_usize; 4];
    // Trials that did not run are neither valid nor invalid.
    let mut reached = 0;
    for trial in judged_trials(subject, &not_run) {
        counts[trial.validity as usize] += 1;
        reached += 1;
    }
    let [valid, suspect, invalid, impossible] = counts;
    let missing = match not_run.len() {
        0 => String::new(),
        n => format!(
            " {} planned and not run.",
            if n == 1 { "1 trial was".to_owned() } else { format!("{n} trials were") }
        ),
    };
    let searched: usize =
        subject.study.searches.iter().flat_map(|s| &s.runs).map(|run| run.trials.len()).sum();
    // Searches have trials and no points.
    if reached == 0 && searched > 0 {
        let invalid = subject
            .study
            .searches
            .iter()
            .flat_map(|search| &search.runs)
            .flat_map(|run| &run.trials);
        let invalid = invalid.filter(|trial| trial.observation().is_none()).count();
        return format!(
            "Searches chose {searched} trials; {invalid} of them are invalid because of the \
                tester, and were repeated or left out."
        );
    }
    if reached == 0 {
        return format!("No trial was run, so there are no figures.{missing}");
    }
    // Without exceptions there is nothing to list.
    if valid == reached {
        let all = if reached == 1 {
            "The only trial is valid.".to_owned()
        } else {
            format!("All {reached} trials are valid.")
        };
        return format!("{all}{missing} {}", certainty(subject)).trim_end().to_owned();
    }
    let told = [(suspect, "suspect"), (invalid, "invalid"), (impossible, "impossible")];
    let told: Vec<String> =
        told.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    let refused = if invalid + impossible > 0 {
        " Invalid and impossible trials have no figures."
    } else {
        ""
    };
    format!(
        "{valid} of {reached} trials are valid, {}.{refused}{missing} {}",
        told.join(", "),
        certainty(subject)
    )
    .trim_end()
    .to_owned()
}

/// Returns the planned trials of points that never started: these are neither valid nor invalid.
pub(super) fn not_run(subject: &Subject<'_>) -> BTreeSet<TrialId> {
    let planned = subject.campaign.trials.iter().filter(|trial| trial.spec.search.is_none());
    planned
        .filter(|trial| trial.started.is_none() && trial.outcome.is_none())
        .map(|trial| trial.spec.id)
        .collect()
}

/// Returns the trials of points that were run.
fn judged_trials<'a>(
    subject: &Subject<'a>,
    not_run: &BTreeSet<TrialId>,
) -> impl Iterator<Item = &'a TrialStudy> {
    let trials = subject.study.points.iter().flat_map(|point| &point.trials);
    // A trial that never started would count as invalid for no fault of its own.
    trials.filter(|trial| !not_run.contains(&trial.id))
}

/// Returns the reasons against trials, the most frequent first. Reasons that differ only in their
/// numbers are merged.
fn reasons(subject: &Subject<'_>) -> Vec<String> {
    let not_run = not_run(subject);
    let mut reasons = linerate_analysis::reasons(
        judged_trials(subject, &not_run).map(|trial| trial.why.as_slice()),
    );
    // The most frequent reason is the first to repair.
    reasons.sort_by_key(|(_, times, _)| std::cmp::Reverse(*times));
    let more = reasons.len().saturating_sub(REASONS);
    let mut told: Vec<String> = reasons
        .iter()
        .take(REASONS)
        .map(|(why, trials, _)| {
            if *trials == 1 {
                sentences::reason(why)
            } else {
                format!("{} ({trials} trials)", sentences::reason(why))
            }
        })
        .collect();
    if more > 0 {
        told.push(format!("{} in the section on validity", count(more, "other reason")));
    }
    told
}

/// Returns the confidence of the intervals: a few trials cannot give the usual 95 %.
fn certainty(subject: &Subject<'_>) -> String {
    let metrics =
        subject.study.points.iter().flat_map(|point| &point.jobs).flat_map(|job| &job.metrics);
    let mut levels: BTreeSet<(u32, Option<String>)> = BTreeSet::new();
    // Metrics without an estimate have no certainty.
    for estimate in metrics.filter_map(|metric| metric.estimate) {
        levels.insert((estimate.n, estimate.confidence.map(confidence_words)));
    }
    let told: Vec<String> = levels
        .into_iter()
        .map(|(n, level)| match level {
            Some(level) => format!("n {n}: {level}"),
            None => format!("n {n}: no interval"),
        })
        .collect();
    if told.is_empty() {
        return String::new();
    }
    format!(
        "A figure is the median of n trials. The confidence of its interval depends on n ({}).",
        told.join(", ")
    )
}

/// Formats a confidence level: 0.75 as `75 %`, 0.969 as `96.9 %`.
fn confidence_words(confidence: f64) -> String {
    // A decimal place counts only near certainty: 96.9 % and 99.8 % differ, 75.4 % need not.
    let places = usize::from((confidence * 100.0).fract() > 0.05 && confidence > 0.9);
    format!("{} %", round_half_up(confidence * 100.0, places))
}

/// Best figure of a metric within a scope.
struct Best<'a> {
    scope: String,
    grid: &'a Grid<'a>,
    point: &'a PointStudy,
    job: &'a JobStudy,
    metric: &'a MetricStudy,
    /// Best of the valid points, if its own point is suspect.
    valid: Option<(&'a PointStudy, &'a Grid<'a>, &'a MetricStudy)>,
}

impl Best<'_> {
    fn scale(&self) -> Scale {
        Scale::of(self.metric.metric, self.metric.estimate.map(|e| e.value))
    }

    fn place(&self) -> String {
        self.grid.full_place_of(self.point)
    }

    fn workload(&self) -> String {
        workload_label(workload(self.point, self.job))
    }

    fn key_figure(&self) -> KeyFigure {
        // Metrics of which neither end is better are listed by their highest.
        let lowest = self.metric.metric.higher_is_better == Some(false);
        let extreme = if lowest { "Lowest" } else { "Highest" };
        let name = match self.metric.metric {
            known if known == MEDIAN => "median".to_owned(),
            known if known == COST => "CPU cost".to_owned(),
            known if known == metric::TRANSACTION_RATE && is_files(self.job) => {
                "files a second".to_owned()
            }
            known if known == metric::TRANSACTION_RATE => "rate".to_owned(),
            known => uncapitalised(known.title),
        };
        // Only beside a figure of one direction does a sum need its label.
        let both = self.metric.direction == Direction::Sum
            && figure(self.job, self.metric.metric, Ways::One).is_some();
        KeyFigure {
            label: format!(
                "{extreme} {} {name}{}",
                self.workload(),
                if both { ", both directions" } else { "" }
            ),
            scale: self.scale(),
            layer: self.metric.layer,
            direction: self.metric.direction,
            estimate: self.metric.estimate.expect("only metrics with an estimate become the best"),
            ceiling: self
                .metric
                .share
                .zip(ceiling(self.point, self.metric).map(linerate_model::Ceiling::name)),
            beside: Some(
                [self.tail(), self.best_valid(extreme)]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join("; "),
            )
            .filter(|told| !told.is_empty()),
            at: self.place(),
            validity: self.point.validity,
        }
    }

    /// Returns the best of the valid points, if its own point is suspect.
    fn best_valid(&self, extreme: &str) -> Option<String> {
        let (point, grid, metric) = self.valid?;
        let estimate = metric.estimate?;
        let scale = Scale::of(metric.metric, [estimate.value]);
        let (value, _) = scale.estimate(&estimate);
        let extreme = extreme.to_lowercase();
        Some(format!(
            "{extreme} of valid points: {value} {} at {}",
            scale.symbol,
            grid.full_place_of(point)
        ))
    }

    /// Returns the tail of the same point beside the median.
    fn tail(&self) -> Option<String> {
        let tail = self
            .job
            .metric(TAIL, self.metric.direction)
            // Only a median needs its tail.
            .filter(|_| self.metric.metric == MEDIAN)?;
        let estimate = tail.estimate?;
        // Lost requests make the time infinite, but a bound on it may still be known.
        if !estimate.value.is_finite() {
            let bound = tail.at_least.map_or_else(
                || "∞ (lost)".to_owned(),
                |bound| {
                    let scale = Scale::of(TAIL, [bound]);
                    format!("> {} {}", scale.shown(bound), scale.symbol)
                },
            );
            return Some(format!("99th percentile {bound}"));
        }
        let scale = Scale::of(TAIL, [estimate.value]);
        let (value, interval) = scale.estimate(&estimate);
        let interval = interval.map_or(String::new(), |(low, high)| format!(" [{low}, {high}]"));
        Some(format!("99th percentile {value}{interval} {}", scale.symbol))
    }
}

/// Returns the protocol of a stream workload (`TCP` for `tcp_stream`); other workloads keep their
/// name.
fn workload_label(workload: &str) -> String {
    workload.strip_suffix(STREAM_SUFFIX).map_or_else(|| workload.to_owned(), str::to_uppercase)
}

/// Number of directions with data. The two cases are never compared (the Sun paper's 936 Mbit/s
/// leaves it open).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ways {
    One,
    Both,
}

/// Returns the best figures: streams first, then requests.
fn key_figures<'a>(subject: &Subject<'a>) -> Vec<Best<'a>> {
    let workloads = workloads(subject);
    // Each workload competes only with itself.
    let all = |metric: &'static Metric, ways: Ways, of: &str| {
        best(subject, metric, ways, "all", |point, job| workload(point, job) == of)
    };
    let mut told = Vec::new();
    for of in &workloads {
        told.extend(
            [Ways::One, Ways::Both].into_iter().filter_map(|ways| all(metric::GOODPUT, ways, of)),
        );
    }
    // The kernel cuts a TCP stream into packets; datagrams are packets of the workload itself.
    let packets: Vec<&&str> = workloads.iter().filter(|of| keeps_ledger(subject, of)).collect();
    let packets = if packets.is_empty() { workloads.iter().collect() } else { packets };
    told.extend(packets.into_iter().filter_map(|of| all(metric::PACKET_RATE, Ways::One, of)));
    // A gigabyte of datagrams costs more than a gigabyte of a TCP stream, so each workload has its
    // own figure.
    told.extend(workloads.iter().filter_map(|of| all(COST, Ways::Both, of)));
    for of in &workloads {
        let requests = Use::Request.metrics().chain([MEDIAN]);
        // Requests go both ways by their nature.
        told.extend(requests.filter_map(|metric| all(metric, Ways::Both, of)));
    }
    told
}

/// Returns true if jobs of the workload `of` keep a loss ledger.
fn keeps_ledger(subject: &Subject<'_>, of: &str) -> bool {
    let jobs = subject.study.points.iter().flat_map(|point| &point.jobs);
    jobs.filter(|job| job.workload == of).any(|job| !job.loss.is_empty())
}

fn value(metric: &MetricStudy) -> f64 {
    metric.estimate.map_or(0.0, |estimate| estimate.value)
}

/// Returns the figure of `wanted` in a job: of the better direction, or the sum of both.
fn figure<'a>(job: &'a JobStudy, wanted: &Metric, ways: Ways) -> Option<&'a MetricStudy> {
    // The payload of requests depends on the plan and not on the path.
    if (wanted.is_for(Use::StreamRate) || wanted == COST) && !is_stream(job) {
        return None;
    }
    let [tx, rx, sum] = [Direction::Tx, Direction::Rx, Direction::Sum]
        .map(|direction| usable(job, wanted, direction));
    match ways {
        Ways::One => [tx, rx].into_iter().flatten().max_by(|a, b| value(a).total_cmp(&value(b))),
        // With data in one direction alone, the sum would repeat it.
        Ways::Both => sum.filter(|_| tx.is_some() == rx.is_some()),
    }
}

/// Returns the figure of `job` in one direction if it is finite and above zero.
fn usable<'a>(job: &'a JobStudy, wanted: &Metric, direction: Direction) -> Option<&'a MetricStudy> {
    let metric = job.metric(wanted, direction)?;
    metric
        .estimate
        // A direction without data is no figure.
        .filter(|estimate| estimate.value.is_finite() && estimate.value > 0.0)
        .map(|_| metric)
}

/// Returns the best figure of `wanted` among the jobs that `admits` accepts. The highest figure may
/// be of a suspect point; the lowest is always of a valid point.
fn best<'a>(
    subject: &Subject<'a>,
    wanted: &'static Metric,
    ways: Ways,
    scope: &str,
    admits: impl Fn(&PointStudy, &JobStudy) -> bool,
) -> Option<Best<'a>> {
    let lower_is_better = wanted.higher_is_better == Some(false);
    // The lowest of several disturbed figures may be the most disturbed one.
    let worst = if lower_is_better { Validity::Valid } else { Validity::Suspect };
    let points = subject.points();
    let figures = points.filter(|(_, point)| point.validity <= worst).flat_map(|(grid, point)| {
        let jobs = told_jobs(point).into_iter().filter(|job| admits(point, job));
        let scope = scope.to_owned();
        jobs.filter_map(move |job| {
            Some(Best {
                scope: scope.clone(),
                grid,
                point,
                job,
                metric: figure(job, wanted, ways)?,
                valid: None,
            })
        })
        .collect::<Vec<_>>()
    });
    // One order for both: the best has the highest rank.
    let rank =
        |best: &Best<'_>| if lower_is_better { -value(best.metric) } else { value(best.metric) };
    let is_valid = |best: &Best<'_>| best.point.validity == Validity::Valid;
    let figures: Vec<Best<'a>> = figures.collect();
    let valid =
        figures.iter().filter(|best| is_valid(best)).max_by(|a, b| rank(a).total_cmp(&rank(b)));
    let valid = valid.map(|best| (best.point, best.grid, best.metric));
    // A valid point wins over a suspect one with the same figure.
    let by_rank = |a: &Best<'_>, b: &Best<'_>| {
        rank(a).total_cmp(&rank(b)).then(is_valid(a).cmp(&is_valid(b)))
    };
    let mut best = figures.into_iter().max_by(by_rank)?;
    best.valid = valid.filter(|_| !is_valid(&best));
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_is_told_as_precisely_as_it_matters() {
        assert_eq!(confidence_words(0.75), "75 %");
        assert_eq!(confidence_words(0.968_75), "96.9 %");
        assert_eq!(confidence_words(0.5), "50 %");
    }

    #[test]
    fn a_workload_that_streams_is_named_by_its_protocol() {
        assert_eq!(workload_label("tcp_stream"), "TCP");
        assert_eq!(workload_label("udp_rr"), "udp_rr");
    }
}
