//! Section `searches`: bounds of each goal, run by run, and the trials that led there.
//!
//! Loads are per direction. Bounds are given twice: from every trial that the device is responsible
//! for, and without disturbed trials. A result is irregular if a bound is missing or the bounds are
//! too far apart. For a sweep with one axis, the graph of RFC 2544 26.1 shows the bounds beside the
//! highest load.

use linerate_analysis::{GoalResult, GoalStudy, SearchRun, SearchStudy, SearchTrial};
use linerate_model::{LoadUnit, Method, Purpose, Unit, Validity, metric};

mod latency;

use super::{Section, Subject};
use crate::document::{AxisScale, Block, Cell, Chart, Column, Plot, Role, Sheet, Table, Tone};
use crate::grid::coordinate;
use crate::number::{Scale, round_half_up};
use crate::sentences;
use crate::words::count;

/// Most searches with a chart of their trials; the tables have all trials.
const MOST_LOGS: usize = 12;
/// Text where neither bound of a goal is known.
const UNDECIDED: &str = "not known: no trial decides";
/// Most lines of the answer, and of one search besides its goals; the tables have all results.
const MOST_TOLD: usize = 16;
const MOST_ANSWERS: usize = 5;

/// Section `searches`.
pub(super) const SECTION: Section = Section {
    name: "searches",
    title: "Searches",
    summary: "bounds of each searched goal, run by run, the trials that led there, loss curves, \
        bursts and recovery",
    order: 18,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let searches = &subject.study.searches;
    let mut blocks = Vec::new();
    if searches.iter().any(|search| !search.goals.is_empty()) {
        blocks.push(Block::Table(goals(searches)));
        blocks.extend(graphs(searches).into_iter().map(Block::Chart));
        blocks.push(Block::Table(runs(searches)));
    }
    blocks.extend(loss_curves(searches).into_iter().map(Block::Chart));
    blocks.extend(latency::table(searches).map(Block::Table));
    blocks.extend(other_answers(searches).map(Block::Table));
    let logs = each_run(searches).take(MOST_LOGS).enumerate();
    blocks.extend(logs.map(|(n, (search, run))| Block::Chart(log(n, search, run))));
    if !searches.is_empty() {
        blocks.push(Block::Table(trials(searches)));
    }
    blocks
}

/// Returns a line for each goal of each search, and for each other result.
pub(super) fn told(subject: &Subject<'_>) -> Vec<String> {
    let searches = &subject.study.searches;
    searches.iter().flat_map(answer_lines).take(MOST_TOLD).collect()
}

/// Returns a line for each goal of `search`, and lines for its other answers.
fn answer_lines(search: &SearchStudy) -> Vec<String> {
    let scale = scale(std::slice::from_ref(search));
    let rate = |load: f64| rate(search, load);
    let goals = search.goals.iter().map(|goal| {
        let found = match (goal.lower, goal.upper) {
            (Some(lower), Some(upper)) => format!("{} to {}", scale.plain(lower), rate(upper)),
            (Some(lower), None) => format!("at least {}", rate(lower)),
            (None, Some(_)) => "no load meets it".to_owned(),
            (None, None) => UNDECIDED.to_owned(),
        };
        let (regular, n) = (goal.n_regular, search.runs.len());
        format!("{}, {}: {found} ({regular} of {n} runs regular)", place(search), goal.goal.name)
    });
    let others = search.runs.iter().flat_map(|run| answers(search, run));
    let others = others.map(|(what, answer)| format!("{}, {what}: {answer}", place(search)));
    // Goals are what was asked for, so other answers follow them and are cut first.
    goals.chain(others.take(MOST_ANSWERS)).collect()
}

/// Returns the sweep and coordinate of a search.
fn place(search: &SearchStudy) -> String {
    match search.parameters.is_empty() {
        true => search.sweep.clone(),
        false => format!("{}, {}", search.sweep, coordinate(&search.parameters)),
    }
}

/// Returns one scale for the loads of `searches`.
fn scale(searches: &[SearchStudy]) -> Scale {
    let unit = match searches.first().map(|search| search.search.unit) {
        Some(LoadUnit::Bits) => Unit::BitPerSecond,
        _ => Unit::PacketPerSecond,
    };
    Scale::fit(unit, searches.iter().map(|search| search.search.max))
}

fn goals(searches: &[SearchStudy]) -> Table {
    let scale = scale(searches);
    let goals = searches.iter().flat_map(|one| one.goals.iter().map(move |goal| (one, goal)));
    let mut sheet = Sheet::new(goals);
    sheet.text("search", |(search, _)| place(search));
    sheet.text("goal", |(_, found)| {
        format!("{} (loss at most {} %)", found.goal.name, found.goal.loss_ratio * 100.0)
    });
    let bound = |bound: Option<f64>, found: &GoalStudy| {
        Cell::number_or(bound, missing(found.lower, found.upper))
    };
    sheet.column(Column::number("lower bound", scale), |(_, goal)| bound(goal.lower, goal));
    sheet.column(Column::number("upper bound", scale), |(_, goal)| bound(goal.upper, goal));
    sheet.number_or("width", Scale::PERCENT, "-", |(_, goal)| {
        goal.lower.zip(goal.upper).map(|(lower, upper)| (upper - lower) / upper)
    });
    let conditional = "conditional throughput";
    sheet.number_or(conditional, scale, "-", |(_, goal)| goal.conditional_throughput);
    sheet.number_or("lowest run", scale, "-", |(_, goal)| goal.range.map(|range| range.0));
    sheet.number_or("highest run", scale, "-", |(_, goal)| goal.range.map(|range| range.1));
    sheet.number_or("of the highest load", Scale::PERCENT, "-", |(search, goal)| {
        goal.lower.map(|lower| lower / search.search.max)
    });
    sheet.text("regular runs", |(search, goal)| {
        format!("{} of {}", goal.n_regular, search.runs.len())
    });
    let note = "A lower bound meets the goal; an upper bound does not. A run is regular if both \
        exist and are at most the goal's width apart. The width is the resolution of the search. \
        Loads are intended ones, of each direction.";
    Table {
        note: Some(note.into()),
        ..sheet.toned(
            "searches-goals",
            "Bounds by goal, medians over the runs",
            |(search, goal)| tone(goal.n_regular == search.runs.len()),
        )
    }
}

/// Returns why a bound of a goal is missing.
const fn missing(lower: Option<f64>, upper: Option<f64>) -> &'static str {
    match (lower, upper) {
        (None, None) => UNDECIDED,
        (None, _) => "none: the lowest load misses the goal",
        _ => "none: the highest load meets the goal",
    }
}

/// Returns the emphasis of a result.
const fn tone(is_regular: bool) -> Tone {
    if is_regular { Tone::Plain } else { Tone::Marked }
}

/// Returns each run of each search.
fn each_run(searches: &[SearchStudy]) -> impl Iterator<Item = (&SearchStudy, &SearchRun)> {
    searches.iter().flat_map(|search| search.runs.iter().map(move |run| (search, run)))
}

/// Returns the number of a run, from 1.
fn number_of(run: &SearchRun) -> f64 {
    f64::from(run.repeat + 1)
}

fn runs(searches: &[SearchStudy]) -> Table {
    let scale = scale(searches);
    let found = each_run(searches)
        .flat_map(|(search, run)| run.found.iter().map(move |found| (search, run, found)));
    let mut sheet = Sheet::new(found);
    sheet.text("search", |(search, ..)| place(search));
    sheet.number("run", Scale::COUNT, |(_, run, _)| number_of(run));
    sheet.text("goal", |(.., found)| found.goal.clone());
    sheet.number_or("lower, strict", scale, "none", |(.., found)| found.strict.lower);
    sheet.number_or("upper, strict", scale, "none", |(.., found)| found.strict.upper);
    sheet.number_or("lower, untainted", scale, "none", |(.., found)| found.untainted.lower);
    sheet.number_or("upper, untainted", scale, "none", |(.., found)| found.untainted.upper);
    sheet.text("result", |(_, run, found)| result(run, found));
    sheet.number("trials", Scale::COUNT, |(_, run, _)| run.trials.len() as f64);
    sheet.number("time under load", Scale::SECONDS, |(_, run, _)| {
        run.trials.iter().map(|trial| trial.duration.as_secs_f64()).sum()
    });
    sheet.number_or("tester alone", scale, "not tested", |(_, run, _)| run.tester);
    let note = "Strict: every trial that the device is responsible for. Untainted: without trials \
        that something disturbed (steal, waits for a CPU, truncated softirq rounds). Tester alone: \
                the load that the tester carried without loss, with the device replaced by a \
                wire, or over its loopback where there is none.";
    let table = sheet.toned("searches-runs", "Bounds by run", |(.., found)| tone(found.regular));
    Table { note: Some(note.into()), ..table }
}

fn result(run: &SearchRun, found: &GoalResult) -> String {
    let bounds = &found.strict;
    let tainted = run.trials.iter().filter(|trial| trial.validity == Validity::Suspect).count();
    let tainted =
        if tainted > 0 { format!(", {}", count(tainted, "tainted trial")) } else { String::new() };
    let withheld = found
        .withheld
        .as_ref()
        .map_or_else(String::new, |why| format!("; {}", sentences::reason(why)));
    let told = match (run.tester_limited, found.regular, bounds.lower, bounds.upper) {
        (Some(_), ..) => "IRREGULAR: the tester disturbed the last trial each time",
        _ if found.at_least => "IRREGULAR: the tester is the limit above the lower bound",
        (_, true, ..) => "regular",
        (_, _, None, None) => "IRREGULAR: no trial decides",
        (_, _, None, _) => "IRREGULAR: no load meets the goal",
        (_, _, _, None) => "IRREGULAR: the highest load meets the goal",
        _ => "IRREGULAR: the bounds are further apart than the goal's width",
    };
    format!("{told}{tainted}{withheld}")
}

/// Returns the graph of RFC 2544 26.1: bounds over the sweep's only axis, beside the highest load.
fn graphs(searches: &[SearchStudy]) -> Vec<Chart> {
    let mut sweeps: Vec<&str> = searches.iter().map(|search| search.sweep.as_str()).collect();
    sweeps.dedup();
    sweeps.into_iter().enumerate().filter_map(|(n, sweep)| graph(n, sweep, searches)).collect()
}

fn graph(number: usize, sweep: &str, searches: &[SearchStudy]) -> Option<Chart> {
    let own: Vec<&SearchStudy> = searches
        .iter()
        .filter(|search| search.sweep == sweep && !search.goals.is_empty())
        .collect();
    let one_axis = own.iter().all(|search| search.parameters.len() == 1);
    if own.len() < 2 || !one_axis {
        return None;
    }
    let axis = own[0].parameters.keys().next()?.clone();
    let scale = scale(searches);
    let goals: Vec<String> = own[0].goals.iter().map(|goal| goal.goal.name.clone()).collect();
    let places: Vec<(f64, String)> =
        own.iter().map(|search| numbered(&search.parameters[&axis])).collect::<Option<_>>()?;
    let mut sheet = Sheet::new(own.iter().zip(places));
    sheet.column(Column::number(axis.clone(), Scale::COUNT), |(_, (value, label))| {
        Cell::Coordinate { value: *value, label: label.clone() }
    });
    for name in &goals {
        let column = Column::number(name, scale);
        sheet.named(Role::Line, format!("{name}, measured"), column, |(search, _)| {
            let goal = search.goals.iter().find(|goal| goal.goal.name == *name);
            Cell::number_or(goal.and_then(|goal| goal.lower), "none")
        });
    }
    let highest = Column::number("highest load", scale);
    sheet.drawn(Role::Ceiling(None), highest, |(search, _)| Cell::Number(search.search.max));
    let marks = sheet.marks();
    let title = format!("{sweep}: rate found over {axis}, and the highest load");
    let mut table = sheet.plain(format!("searches-graph-{number}"), title);
    table.note = Some(format!(
        "The highest load is {}. RFC 2544 26.1 asks for both lines.",
        own[0].search.max_source
    ));
    Some(Chart {
        summary: format!("The rate found at each {axis}, below the highest load tried there."),
        ..Chart::of(Plot::Lines, "rate", marks, table)
    })
}

/// Returns the number and the label of a swept value, if it starts with a number.
fn numbered(value: &serde_json::Value) -> Option<(f64, String)> {
    let label = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let digits: String = label.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    Some((digits.parse().ok()?, label))
}

/// Returns the graph of RFC 2544 26.3: loss over load.
fn loss_curves(searches: &[SearchStudy]) -> Vec<Chart> {
    let curves =
        searches.iter().filter(|search| matches!(search.search.method, Method::LossCurve { .. }));
    curves.enumerate().filter_map(|(n, search)| loss_curve(n, search)).collect()
}

fn loss_curve(number: usize, search: &SearchStudy) -> Option<Chart> {
    let points: Vec<Vec<(f64, f64)>> = search
        .runs
        .iter()
        .map(|run| load_trials(run).map(|trial| (trial.load, trial.loss_ratio)).collect())
        .collect();
    let mut loads: Vec<f64> = points.iter().flatten().map(|(load, _)| *load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let mut sheet = Sheet::new(&loads);
    let of_highest = Column::number("load, of the highest", Scale::PERCENT);
    sheet.column(of_highest, |at| Cell::Number(**at / search.search.max));
    for (run, trials) in search.runs.iter().zip(&points) {
        let name = format!("run {}", run.repeat + 1);
        let column = Column::number(format!("loss, {name}"), Scale::PERCENT);
        sheet.named(Role::Line, name, column, |at| {
            Cell::number_or(trials.iter().find(|(load, _)| load == *at).map(|(_, loss)| *loss), "-")
        });
    }
    let marks = sheet.marks();
    let title = format!("{}: frames lost over the load", place(search));
    let mut table = sheet.plain(format!("searches-loss-{number}"), title);
    table.note = Some(format!(
        "The highest load is {}, {}.",
        search.search.unit.told(search.search.max),
        search.search.max_source
    ));
    (!loads.is_empty()).then(|| Chart {
        summary: "Share of frames lost at each load; the steps are finer around the first loss."
            .into(),
        x_scale: AxisScale::Linear,
        ..Chart::of(Plot::Lines, "loss", marks, table)
    })
}

/// Returns the results of searches that are not bounds of a goal.
fn other_answers(searches: &[SearchStudy]) -> Option<Table> {
    let told = each_run(searches).flat_map(|(search, run)| {
        answers(search, run).into_iter().map(move |answer| (search, run, answer))
    });
    let mut sheet = Sheet::new(told);
    sheet.text("search", |(search, ..)| place(search));
    sheet.number("run", Scale::COUNT, |(_, run, _)| number_of(run));
    sheet.text("what", |(.., (what, _))| (*what).to_owned());
    sheet.text("answer", |(.., (_, answer))| answer.clone());
    let table = sheet.plain("searches-answers", "Other results of the searches");
    (!table.rows.is_empty()).then_some(table)
}

fn answers(search: &SearchStudy, run: &SearchRun) -> Vec<(&'static str, String)> {
    let counted = || run.trials.iter().filter(|trial| trial.observation().is_some());
    match &search.search.method {
        Method::BackToBack { repeats, .. } => vec![match &run.bursts {
            Some(bursts) => (
                "back-to-back (RFC 9004)",
                format!(
                    "{:.0} frames at {} (n {} of {repeats}, {:.0} to {:.0}), implied {:.3} ms, \
                        corrected buffer time {:.3} ms",
                    bursts.mean,
                    rate(search, bursts.rate),
                    bursts.bursts.len(),
                    bursts.min,
                    bursts.max,
                    bursts.implied_s * 1e3,
                    bursts.corrected_s * 1e3
                ),
            ),
            None => (
                "back-to-back (RFC 9004)",
                "no result: no burst lost a frame, or the throughput reaches the highest load"
                    .into(),
            ),
        }],
        Method::Recovery { .. } => {
            let overloads = counted().filter(|trial| trial.purpose == Purpose::Overload);
            let times: Vec<String> = overloads.map(recovery).collect();
            let told =
                if times.is_empty() { "no overload was sent".to_owned() } else { times.join(", ") };
            vec![("recovery after an overload (RFC 2544 26.5)", told)]
        }
        Method::Latency { .. } if run.latencies.is_empty() => {
            let why =
                "no frame was timed: there is no load without loss, or the ends have two clocks";
            vec![("latency (RFC 2544 26.2)", why.into())]
        }
        Method::Frmol { .. } => counted()
            .filter(|trial| trial.purpose == Purpose::Load)
            .map(|trial| {
                (
                    "forwarding rate at maximum offered load (RFC 2285)",
                    rate(search, search.possible(forwarded(trial))),
                )
            })
            .collect(),
        Method::Steps { loss_ratio, .. } => counted()
            .filter(|trial| trial.purpose == Purpose::Load)
            .map(|trial| ("step (Y.1564)", step(search, trial, *loss_ratio)))
            .collect(),
        Method::LossCurve { .. } => {
            let told = begins(search, run).map(|told| ("loss curve (RFC 2544 26.3)", told));
            told.into_iter().collect()
        }
        Method::Halving { .. } | Method::Latency { .. } | Method::Mlr { .. } => Vec::new(),
    }
}

/// Returns how long losses continued after the overload of `trial`, at both ends.
fn recovery(trial: &SearchTrial) -> String {
    let ms = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
    match (trial.recovery_s, trial.cleared_s) {
        (Some(ended), Some(cleared)) => {
            format!("losses end after {} (receiver: {})", ms(ended), ms(cleared))
        }
        (Some(ended), None) => {
            format!("losses end after {}, with the resolution of an interval", ms(ended))
        }
        (None, _) if trial.loss_ratio > 0.0 => "losses continue to the end".to_owned(),
        (None, _) => "no loss".to_owned(),
    }
}

/// Returns the load at which the loss curve of `run` begins; `None` without a valid trial.
fn begins(search: &SearchStudy, run: &SearchRun) -> Option<String> {
    let counted = || load_trials(run);
    let most = counted().map(|trial| trial.load).max_by(f64::total_cmp)?;
    let lossy =
        counted().filter(|trial| trial.loss_ratio > 0.0).min_by(|a, b| a.load.total_cmp(&b.load));
    let Some(lossy) = lossy else {
        return Some(format!("no loss up to {}", rate(search, most)));
    };
    let clean = counted()
        .filter(|trial| trial.load < lossy.load)
        .map(|trial| trial.load)
        .max_by(f64::total_cmp);
    let clean = clean.map_or_else(
        || "loss at every load".to_owned(),
        |load| format!("no loss up to {}", rate(search, load)),
    );
    let lost = round_half_up(lossy.loss_ratio * 100.0, 2);
    Some(format!("{clean}, {lost} % at {}", rate(search, lossy.load)))
}

/// Returns the trials of a run that offered a load and were counted.
fn load_trials(run: &SearchRun) -> impl Iterator<Item = &SearchTrial> {
    run.trials
        .iter()
        .filter(|trial| trial.purpose == Purpose::Load && trial.observation().is_some())
}

/// Formats a load as the tables do.
fn rate(search: &SearchStudy, load: f64) -> String {
    let scale = scale(std::slice::from_ref(search));
    format!("{} {}", scale.plain(load), scale.symbol)
}

fn forwarded(trial: &SearchTrial) -> f64 {
    trial.load * (1.0 - trial.loss_ratio)
}

fn step(search: &SearchStudy, trial: &SearchTrial, most: f64) -> String {
    format!(
        "{:.0} % of the committed rate for {}: {} delivered, {:.4} % lost: {}",
        trial.load / search.search.max * 100.0,
        trial.duration,
        rate(search, forwarded(trial)),
        trial.loss_ratio * 100.0,
        if trial.loss_ratio <= most { "pass" } else { "FAIL" }
    )
}

/// Returns the chart of one run's trials in order: load and loss.
fn log(number: usize, search: &SearchStudy, run: &SearchRun) -> Chart {
    let scale = scale(std::slice::from_ref(search));
    let trials = run.trials.iter().filter(|trial| trial.purpose != Purpose::SelfTest);
    let mut sheet = Sheet::new(trials);
    sheet.column(Column::number("trial", Scale::COUNT), |trial| {
        let number = trial.number + 1;
        Cell::Coordinate { value: f64::from(number), label: number.to_string() }
    });
    let load = Column::number("load", scale);
    sheet.drawn(Role::Line, load, |trial| Cell::Number(trial.load));
    let loss = Column::number("loss", Scale::PERCENT);
    sheet.drawn(Role::Second, loss, |trial| Cell::Number(trial.loss_ratio));
    let title = format!("{}, run {}: load and loss of each trial", place(search), run.repeat + 1);
    let marks = sheet.marks();
    let table = sheet.judged(format!("searches-log-{number}"), title, |trial| trial.validity);
    Chart {
        summary: "Load of each trial as a line, and its loss as bars. The search narrows down the \
            load at which loss begins."
            .into(),
        ..Chart::of(Plot::Lines, "load", marks, Table { folded: true, ..table })
    }
}

fn trials(searches: &[SearchStudy]) -> Table {
    let trials = each_run(searches)
        .flat_map(|(search, run)| run.trials.iter().map(move |trial| (search, run, trial)));
    let mut sheet = Sheet::new(trials);
    sheet.text("search", |(search, ..)| place(search));
    sheet.number("run", Scale::COUNT, |(_, run, _)| number_of(run));
    sheet.number("trial", Scale::COUNT, |(.., trial)| f64::from(trial.number + 1));
    sheet.text("what for", |(.., trial)| trial.purpose.to_string());
    sheet.number("load", scale(searches), |(.., trial)| trial.load);
    sheet.number("length", Scale::SECONDS, |(.., trial)| trial.duration.as_secs_f64());
    sheet.number("intended", Scale::COUNT, |(.., trial)| trial.intended as f64);
    sheet.number("sent", Scale::COUNT, |(.., trial)| trial.sent as f64);
    sheet.number("received", Scale::COUNT, |(.., trial)| trial.received as f64);
    sheet.number(metric::LOST.name, Scale::PERCENT, |(.., trial)| trial.loss_ratio);
    sheet.text("where", |(.., trial)| {
        let places = trial.located.iter().map(|(place, n)| format!("{place} {n}"));
        places.collect::<Vec<_>>().join(", ")
    });
    sheet.text("standing", |(.., trial)| {
        match trial.why.iter().map(sentences::reason).collect::<Vec<_>>().join("; ") {
            why if why.is_empty() => trial.validity.word().to_owned(),
            why => format!("{}: {why}", trial.validity.word()),
        }
    });
    let caption = "Every trial of the searches";
    let table = sheet.judged("searches-trials", caption, |(.., trial)| trial.validity);
    Table { folded: true, ..table }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_bound_is_blamed_on_the_load_only_where_a_trial_decided() {
        assert_eq!(missing(None, None), UNDECIDED);
        assert_eq!(missing(None, Some(1.0)), "none: the lowest load misses the goal");
        assert_eq!(missing(Some(1.0), None), "none: the highest load meets the goal");
    }
}
