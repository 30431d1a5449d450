//! Section `comparison`: arms of a comparison, pair by pair, with worse figures first.
//!
//! The statistics are the study's (`linerate_analysis::compare`): Hodges-Lehmann ratio with
//! signed-rank interval. The margin is never below the resolution of the figure, nor below the
//! noise of the control. The charts show single pairs, because a typical ratio can hide a drift or
//! two kinds of runs.

use linerate_analysis::compare::{Change, Scale as Against};
use linerate_analysis::{Compared, Comparison, JobStudy, PointStudy, Study};
use linerate_model::{Arm, Metric, MetricGroup, Role as ArmRole, Statistic, Use, metric};

use super::{Section, Subject};
use crate::curves::uncapitalised;
use crate::document::{AxisScale, Block, Cell, Chart, Column, Plot, Role, Sheet, Table, Tone};
use crate::effects::{change, margin, name, rank, ratio, scale, scale_of, shift, verdict, word};
use crate::grid::coordinate;
use crate::number::Scale;
use crate::words::count;

/// Most figures of a forest plot; the table has all.
const MOST_DRAWN: usize = 24;
/// Fewest pairs of a chart; the table shows the figures of a single pair.
const FEWEST_DRAWN: usize = 2;

/// Section `comparison`.
pub(super) const SECTION: Section = Section {
    name: "comparison",
    title: "With and without",
    summary: "arms of a comparison pair by pair: ratios with intervals and status, worse figures \
        first",
    order: 15,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let comparisons =
        subject.study.comparisons.iter().enumerate().filter(|(_, comparison)| !is_mix(comparison));
    comparisons.flat_map(|(number, comparison)| of_one(subject, number + 1, comparison)).collect()
}

/// Returns one line for each comparison: its main figure, and the number of changed figures.
pub(super) fn told(subject: &Subject<'_>) -> Vec<String> {
    let comparisons = subject.study.comparisons.iter().filter(|comparison| !is_mix(comparison));
    comparisons
        .map(|comparison| format!("{}: {}", place(comparison), sentence(comparison)))
        .collect()
}

/// Returns one line for each comparison whose main figure is on the first screen: the number of
/// changed figures, and the names of worse ones.
pub(super) fn tallies(subject: &Subject<'_>) -> Vec<String> {
    /// Most worse figures that are named.
    const MOST_NAMED: usize = 4;
    fn of_one(comparison: &&Comparison) -> String {
        let worse =
            comparison.figures.iter().filter(|figure| figure.effect.change == Change::Worse);
        let mut names: Vec<String> = worse.map(name).collect();
        // Several jobs can be worse in the same figure.
        names.dedup();
        let more = names.len().saturating_sub(MOST_NAMED);
        names.truncate(MOST_NAMED);
        names.extend((more > 0).then(|| format!("{more} more")));
        let worse =
            if names.is_empty() { String::new() } else { format!("; worse: {}", names.join(", ")) };
        format!("{}: of {}{worse}", place(comparison), tally(comparison))
    }
    asked_for(subject.study)
        .iter()
        .filter(|comparison| !comparison.figures.is_empty())
        .map(of_one)
        .collect()
}

/// Returns the comparisons that do not test a claim.
pub(super) fn asked_for(study: &Study) -> Vec<&Comparison> {
    let own_sake =
        // An arm that tests a claim belongs to that claim's finding.
        |comparison: &&Comparison| !is_mix(comparison) && comparison.base.tests.is_none();
    study.comparisons.iter().filter(own_sake).collect()
}

/// Returns true for jobs alone and together, which have a section of their own.
fn is_mix(comparison: &Comparison) -> bool {
    comparison.base.role == ArmRole::Alone
}

fn of_one(subject: &Subject<'_>, number: usize, comparison: &Comparison) -> Vec<Block> {
    let mut blocks =
        vec![Block::Paragraph(format!("{}. {}", place(comparison), sentence(comparison)))];
    if comparison.figures.is_empty() {
        return blocks;
    }
    // A search's bound is what its comparison is about, so it is drawn first.
    let of_searches = comparison.figures.iter().filter(|figure| !figure.found.is_empty());
    let drawn = of_searches.chain(chief_figures(comparison));
    let charts = drawn
        .enumerate()
        .filter_map(|(at, figure)| chart(subject, comparison, figure, (number, at + 1)));
    blocks.extend(forest(comparison, number).map(Block::Chart));
    blocks.extend(charts.map(Block::Chart));
    blocks.push(Block::Table(table(subject, number, comparison)));
    blocks
}

/// Where it was measured: sweep and coordinate.
pub(super) fn place(comparison: &Comparison) -> String {
    match comparison.parameters.is_empty() {
        true => comparison.sweep.clone(),
        false => format!("{}, {}", comparison.sweep, coordinate(&comparison.parameters)),
    }
}

fn sentence(comparison: &Comparison) -> String {
    let (base, changed) = (&comparison.base.name, &comparison.changed.name);
    let Some(main) = main_figure(comparison) else {
        return format!("{changed} against {base}: inconclusive, no pair has two valid figures");
    };
    format!(
        "{changed} against {base}, {}: {} {} ({}). {}",
        count(main.effect.n, "pair"),
        uncapitalised(&name(main)),
        shift(main),
        verdict(&main.effect),
        tally(comparison),
    )
}

/// Returns the number of figures by change.
fn tally(comparison: &Comparison) -> String {
    let of = |wanted: Change| {
        comparison.figures.iter().filter(|figure| figure.effect.change == wanted).count()
    };
    format!(
        "{} compared: {} worse, {} better, {} equivalent, {} inconclusive",
        count(comparison.figures.len(), "figure"),
        of(Change::Worse),
        of(Change::Better),
        of(Change::None),
        of(Change::Unclear),
    )
}

/// Returns the main figure of a comparison.
pub(super) fn main_figure(comparison: &Comparison) -> Option<&Compared> {
    // Any figure is better than none.
    chief_figures(comparison).next().or(comparison.figures.first())
}

/// Returns the figures that are drawn: the median time of requests, the rate, another time and the
/// CPU cost, as far as they were compared. Requests have their times first, and streams their rate.
fn chief_figures(comparison: &Comparison) -> impl Iterator<Item = &Compared> {
    let family = |group| Use::Family.metrics().filter(move |metric| metric.group == group);
    let is_median = |metric: &&Metric| metric.statistic == Some(Statistic::Quantile(0.5));
    let (medians, times): (Vec<_>, Vec<_>) = family(MetricGroup::Time).partition(is_median);
    let mut rates: Vec<_> = family(MetricGroup::Rate).collect();
    // The payload of requests is incidental.
    rates.sort_by_key(|metric| !metric.is_for(Use::Request));
    let find = |metric: &&Metric| comparison.figures.iter().find(|one| one.metric == *metric);
    // A stream has no requests whose time could be drawn.
    let times = times.into_iter().chain([metric::RTT]).collect();
    let groups = [medians, rates, times, Use::Cost.metrics().collect()];
    groups.into_iter().filter_map(move |group| group.iter().find_map(find))
}

/// Returns a table of every figure of `comparison`, worse ones first.
pub(super) fn table(subject: &Subject<'_>, number: usize, comparison: &Comparison) -> Table {
    let points = points(subject, comparison);
    // With one job, its ends are in the title.
    let several = comparison.figures.iter().any(|figure| figure.job != comparison.figures[0].job);
    let placebo = comparison.figures.iter().any(|figure| figure.placebo.is_some());
    let mut figures: Vec<&Compared> = comparison.figures.iter().collect();
    // The sort is stable: figures keep their order within a verdict.
    figures.sort_by_key(|figure| rank(figure.effect.change));
    let mut sheet = Sheet::new(figures);
    sheet.text("figure", |figure| name(figure));
    if several {
        sheet.text("between", |figure| between(points, figure));
    }
    sheet.text("verdict", |figure| verdict(&figure.effect));
    sheet.text("change", |figure| shift(figure));
    sheet.text(&comparison.base.name, |figure| value(figure, figure.effect.before));
    sheet.text(&comparison.changed.name, |figure| value(figure, figure.effect.after));
    let of_ratio = Column::undirected("ratio", Scale::COUNT, None);
    sheet.column(of_ratio, |figure| ratio(&figure.effect));
    sheet.text("none below", |figure| margin(figure));
    if placebo {
        sheet.text_or("placebo", "not measured", |figure| {
            let placebo = figure.placebo.clone();
            placebo.map(|effect| shift(&Compared { effect, ..(*figure).clone() }))
        });
    }
    // Too few pairs have no probability.
    sheet.number_or("p, Holm", Scale::COUNT, "-", |figure| figure.p_adjusted);
    sheet.number("pairs", Scale::COUNT, |figure| figure.effect.n as f64);
    let caption = format!(
        "{} against {}: {}",
        comparison.changed.name,
        comparison.base.name,
        place(comparison)
    );
    let mut table = sheet.toned(format!("comparison-{number}"), caption, |figure| {
        if figure.effect.change == Change::Worse { Tone::Marked } else { Tone::Plain }
    });
    table.note = Some(note(comparison));
    table
}

/// Returns `value` of `figure` with its unit, if it has one.
pub(super) fn value(figure: &Compared, value: f64) -> String {
    let scale = scale(figure);
    format!("{} {}", scale.plain(value), scale.symbol).trim_end().to_owned()
}

fn note(comparison: &Comparison) -> String {
    let mut told = vec![
        "Pairs in turn (ABBA or BAAB), each with one seed; medians of each arm; the change is the \
            typical one of the pairs (Hodges-Lehmann) with its interval at 95 %, a ratio, or a \
            difference where a value is zero. It is better or worse if the interval leaves out no \
            change and it is no smaller than the margin, equivalent if the whole interval lies \
            within the margin."
            .to_owned(),
        "p is the probability of such a shift by chance, adjusted for the number of figures: at 95 \
            % one figure in twenty differs by chance alone."
            .to_owned(),
    ];
    if comparison.figures.iter().any(|figure| figure.placebo.is_some()) {
        let base = &comparison.base.name;
        told.push(format!(
            "The placebo is {base} against {base}: what it shows is noise; a change that single \
                pairs of it reach (95 % of them stay below) is claimed neither way."
        ));
    } else {
        told.push(
            "Without a placebo (`placebo = true`) the noise of this path is not known.".to_owned(),
        );
    }
    if comparison.figures.iter().any(|figure| !figure.found.is_empty()) {
        told.push(
            "Rates are the lower bounds of searches, of each direction; a change below a search's \
                step is none."
                .to_owned(),
        );
    }
    fn settings(arm: &Arm) -> Vec<String> {
        arm.settings
            .iter()
            .map(|set| format!("{} = {} at {}", set.name, set.value, set.at))
            .collect::<Vec<_>>()
    }
    for arm in [&comparison.base, &comparison.changed] {
        if !arm.settings.is_empty() {
            told.push(format!("Set for {}: {}.", arm.name, settings(arm).join("; ")));
        }
    }
    told.join(" ")
}

/// The points of the two arms and of the placebo, as far as there are.
fn points<'a>(subject: &Subject<'a>, comparison: &Comparison) -> [Option<&'a PointStudy>; 3] {
    let placebo = format!("{} again", comparison.base.name);
    [&comparison.base.name, &comparison.changed.name, &placebo]
        .map(|name| comparison.point_of(name, subject.study))
}

fn between(points: [Option<&PointStudy>; 3], figure: &Compared) -> String {
    let job = |point: Option<&PointStudy>| point?.jobs.get(figure.job).map(ends);
    // The changed arm may have other ends, and those are of interest.
    job(points[1]).or_else(|| job(points[0])).unwrap_or_default()
}

/// Returns the ends of a job, or its workload if the job has no ends.
fn ends(job: &JobStudy) -> String {
    match job.from.is_empty() {
        true => job.workload.clone(),
        false => format!("{} to {}", job.from, job.to),
    }
}

/// Returns the changes of all figures with their intervals, worse ones first.
fn forest(comparison: &Comparison, number: usize) -> Option<Chart> {
    let is_ratio = |figure: &&Compared| figure.effect.scale == Against::Ratio;
    let mut figures: Vec<&Compared> = comparison.figures.iter().filter(is_ratio).collect();
    // The sort is stable: figures keep their order within a verdict.
    figures.sort_by_key(|figure| rank(figure.effect.change));
    figures.truncate(MOST_DRAWN);
    // A chart of one figure shows nothing that its sentence does not.
    if figures.len() < 2 {
        return None;
    }
    let (base, changed) = (&comparison.base.name, &comparison.changed.name);
    let mut sheet = Sheet::new(figures.into_iter().enumerate());
    sheet.column(Column::text("figure"), |(place, figure)| Cell::Coordinate {
        value: *place as f64,
        label: format!("{} ({})", name(figure), word(figure.effect.change)),
    });
    let of_change = Column::undirected("change", Scale::PERCENT, None);
    sheet.drawn(Role::Line, of_change, |(_, figure)| change(&figure.effect));
    let marks = sheet.marks();
    let title = format!("Change from {base} to {changed}: {}", place(comparison));
    let mut table = sheet.plain(format!("comparison-{number}-forest"), title);
    table.folded = true;
    Some(Chart {
        summary: format!(
            "Change of each figure from {base} to {changed} with its interval at 95 %, {}.",
            tally(comparison)
        ),
        ..Chart::of(Plot::Points, "change", marks, table)
    })
}

/// One figure of every pair: a line for each arm.
fn chart(
    subject: &Subject<'_>,
    comparison: &Comparison,
    figure: &Compared,
    number: (usize, usize),
) -> Option<Chart> {
    let points = points(subject, comparison);
    let names = [
        comparison.base.name.clone(),
        comparison.changed.name.clone(),
        format!("{} again", comparison.base.name),
    ];
    let of_points = names.into_iter().zip(points).filter_map(|(name, point)| {
        let metric = point?
            .jobs
            .get(comparison.job_in(&name, figure.job))?
            .metric(figure.metric.metric()?, figure.direction)?;
        Some((name, metric.values.as_slice()))
    });
    let of_searches = figure.found.iter().map(|(name, values)| (name.clone(), values.as_slice()));
    let lines: Vec<(String, &[Option<f64>])> = of_searches.chain(of_points).collect();
    let n_pairs = lines.iter().map(|(_, values)| values.len()).max()?;
    if n_pairs < FEWEST_DRAWN {
        return None;
    }
    let values = || lines.iter().flat_map(|(_, values)| values.iter().flatten().copied());
    let scale = scale_of(figure, values());
    let mut sheet = Sheet::new(0..n_pairs);
    sheet.column(Column::number("pair", Scale::COUNT), |pair| {
        // People count pairs from one.
        Cell::Coordinate { value: (pair + 1) as f64, label: (pair + 1).to_string() }
    });
    for (name, values) in &lines {
        let column = Column {
            layer: figure.layer,
            direction: Some(figure.direction),
            ..Column::number(name, scale)
        };
        sheet.drawn(Role::Line, column, |pair| {
            Cell::number_or(values.get(*pair).copied().flatten(), "no figure")
        });
    }
    let marks = sheet.marks();
    let title = format!("{} by pair: {}", name(figure), place(comparison));
    let mut table = sheet.plain(format!("comparison-{}-pairs-{}", number.0, number.1), title);
    table.folded = true;
    table.note =
        Some("Trials of one pair stand above one another; the arms are measured in turn.".into());
    // A chart without a point is not drawn.
    (values().next().is_some()).then(|| Chart {
        summary: format!(
            "{} of both arms, pair by pair: {}, {}.",
            name(figure),
            shift(figure),
            verdict(&figure.effect)
        ),
        // Pairs of one figure lie close together.
        x_scale: AxisScale::Linear,
        ..Chart::of(Plot::Lines, figure.metric.title(), marks, table)
    })
}
