//! Section `account`: operations due = answered + lost + open at the end, summed over the trials of
//! a point. Every row adds up exactly.
//!
//! An operation is a request, a connection, a file, a transfer of a disk or file, a datagram, or a
//! frame; the study assigns them to the measured span. The place of losses is in section `loss`.

use linerate_analysis::{JobStudy, MetricStudy, PointStudy};
use linerate_model::{Direction, Use, metric};

use super::{Section, Subject};
use crate::document::{Block, Table, Tone};
use crate::grid::{ALL, Grid};
use crate::number::{Scale, round_half_up};

const NAME: &str = "account";
const HEADS: [&str; 4] = ["due", "answered", metric::LOST.name, "open"];

/// Section `account`.
pub(super) const SECTION: Section = Section {
    name: NAME,
    title: "Account of operations",
    summary: "requests, connections, files, transfers, datagrams and frames: due = answered + lost \
        + open at the end",
    order: 85,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    subject.grids.iter().filter_map(table).map(Block::Table).collect()
}

/// Operations due, answered, lost and open: in the order of [`HEADS`].
type Fates = [f64; 4];

/// Operations of a job at a point, of one direction or kind.
struct Line<'a> {
    point: &'a PointStudy,
    job: &'a JobStudy,
    direction: Direction,
    fates: Fates,
}

/// Returns the account of `job` in `direction`, summed over its trials; `None` without an account.
fn fates(job: &JobStudy, direction: Direction) -> Option<Fates> {
    let mut account = Use::Account.metrics().map(|metric| job.metric(metric, direction));
    let metrics: [Option<&MetricStudy>; 4] = std::array::from_fn(|_| account.next().flatten());
    let n_trials = metrics.iter().flatten().map(|metric| metric.values.len()).max()?;
    // A trial without all four does not count, or the sum would not add up.
    (0..n_trials).filter_map(|trial| fates_of_trial(metrics, trial)).reduce(added)
}

/// Returns the account of the trial with index `trial`; `None` if one of the four is missing.
fn fates_of_trial(metrics: [Option<&MetricStudy>; 4], trial: usize) -> Option<Fates> {
    let found = metrics.map(|metric| metric?.values.get(trial).copied().flatten());
    let [due, answered, lost, open] = found;
    Some([due?, answered?, lost?, open?])
}

fn added(a: Fates, b: Fates) -> Fates {
    std::array::from_fn(|at| a[at] + b[at])
}

fn jobs(point: &PointStudy) -> impl Iterator<Item = &JobStudy> {
    // The job of all together would count each operation twice.
    point.jobs.iter().filter(|job| !job.background && job.workload != ALL)
}

fn lines<'a>(grid: &Grid<'a>) -> Vec<Line<'a>> {
    let all = grid.points.iter().flat_map(|&point| jobs(point).map(move |job| (point, job)));
    all.flat_map(|(point, job)| lines_of_job(point, job)).collect()
}

fn lines_of_job<'a>(point: &'a PointStudy, job: &'a JobStudy) -> impl Iterator<Item = Line<'a>> {
    let ways = [Direction::Sum, Direction::Rx, Direction::Tx].into_iter();
    ways.filter_map(move |direction| {
        Some(Line { point, job, direction, fates: fates(job, direction)? })
    })
}

/// Returns the kind of the operations of a line. Reads of a disk count as received, writes as sent.
fn kind(line: &Line<'_>) -> &'static str {
    let is_of_disk = line.job.metrics.iter().any(|known| known.metric == metric::IOPS);
    match (is_of_disk, line.direction) {
        (true, Direction::Rx) => "reads",
        (true, Direction::Tx) => "writes",
        (false, Direction::Rx) => "rx",
        (false, Direction::Tx) => "tx",
        (_, Direction::Sum) => "all",
    }
}

fn table(grid: &Grid<'_>) -> Option<Table> {
    let lines = lines(grid);
    let first = lines.first()?;
    let ends =
        |line: &Line<'_>| format!("{} {} to {}", line.job.workload, line.job.from, line.job.to);
    // A column that says the same in each row is left out.
    let is_several = lines.iter().any(|line| ends(line) != ends(first));
    let has_kinds = lines.iter().any(|line| kind(line) != kind(first));
    let mut sheet = grid.sheet(&lines, |line| line.point);
    if is_several {
        sheet.text("job", |line| ends(line));
    }
    if has_kinds {
        sheet.text("operations", |line| kind(line).to_owned());
    }
    for (at, head) in HEADS.into_iter().enumerate() {
        sheet.number(head, Scale::COUNT, |line| line.fates[at]);
    }
    let unanswered = |line: &Line<'_>| line.fates[2] + line.fates[3];
    // An account of nothing has no share.
    let share = |line: &&Line<'_>| unanswered(line) / line.fates[0].max(1.0);
    sheet.number("unanswered", Scale::PERCENT, share);
    let caption = format!("Operations due, answered, lost, and open at the end: {}", grid.sweep);
    let mut table = sheet.toned(format!("{NAME}-{}", grid.number), caption, |line| {
        if unanswered(line) > 0.0 { Tone::Marked } else { Tone::Plain }
    });
    let disks = if lines.iter().any(|line| kind(line) == "reads" || kind(line) == "writes") {
        " Flushes, discards, and operations of an open load that were never started count \
            in \"all\" only."
    } else {
        ""
    };
    table.note = Some(format!(
        "Sum over the trials of a point: due = answered + lost + open. Lost: abandoned, or never \
            arrived. Open: still waiting at the end, or never started by an open load.{disks}"
    ));
    Some(table)
}

/// Returns the account of each workload in one line; `None` without any account.
pub(super) fn told(subject: &Subject<'_>) -> Option<String> {
    let mut totals: Vec<(&str, Fates)> = Vec::new();
    for job in subject.study.points.iter().flat_map(jobs) {
        // The sum comes first: the single directions are parts of it.
        let whole = [Direction::Sum, Direction::Tx, Direction::Rx]
            .into_iter()
            .find_map(|way| fates(job, way));
        let Some(fates) = whole else { continue };
        match totals.iter_mut().find(|(workload, _)| *workload == job.workload) {
            Some((_, total)) => *total = added(*total, fates),
            None => totals.push((&job.workload, fates)),
        }
    }
    let totals = totals
        .iter()
        .map(|(workload, fates)| {
            let [due, answered, lost, open] = fates.map(|n| round_half_up(n, 0));
            format!("{workload} {due} = {answered} + {lost} + {open}")
        })
        .collect::<Vec<String>>()
        .join("; ");
    (!totals.is_empty())
        .then(|| format!("Operations due = answered + lost + open, sum over all trials: {totals}."))
}
