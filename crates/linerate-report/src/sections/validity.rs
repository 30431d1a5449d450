//! Section `validity`: trials that are not valid with their reasons, withheld figures, incidents,
//! and trials that were not run.

use std::collections::BTreeSet;

use linerate_analysis::{PointStudy, Reason, TrialStudy};
use linerate_model::{IncidentKind, TrialId, TrialOutcome, Validity as Standing};

use super::answer::not_run;
use super::{Section, Subject};
use crate::document::{Block, Sheet, Table, Tone};
use crate::grid::Grid;
use crate::number::Scale;
use crate::sentences;
use crate::words::count;

/// Most withheld figures that are not folded.
const FEW: usize = 8;

/// Section `validity`.
pub(super) const SECTION: Section = Section {
    name: "validity",
    title: "Validity",
    summary: "trials that are not valid with their reasons, withheld figures, incidents, and \
        trials that were not run",
    order: 130,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let missing = subject.campaign.trials.iter().filter(|trial| trial.outcome.is_none()).count();
    let interrupted = subject
        .campaign
        .trials
        .iter()
        .filter(|trial| trial.outcome == Some(TrialOutcome::Interrupted))
        .count();
    if missing + interrupted > 0 {
        let stopped = if interrupted > 0 {
            format!(", {} interrupted", count(interrupted, "trial"))
        } else {
            String::new()
        };
        blocks.push(Block::Paragraph(format!(
            "{} of {} planned did not finish{stopped}. `linerate run --resume` continues the \
                campaign.",
            count(missing + interrupted, "trial"),
            subject.campaign.trials.len()
        )));
    }
    let doubtful = doubtful(subject);
    if doubtful.rows.is_empty() {
        blocks.push(Block::Paragraph("All trials are valid.".into()));
    } else {
        blocks.push(Block::Table(reasons(subject)));
        blocks.push(Block::Table(doubtful));
    }
    let withheld = withheld(subject);
    if !withheld.rows.is_empty() {
        blocks.push(Block::Table(withheld));
    }
    let incidents = incidents(subject);
    if !incidents.rows.is_empty() {
        blocks.push(Block::Table(incidents));
    }
    if subject.study.points.is_empty() && missing == 0 { Vec::new() } else { blocks }
}

/// Returns each kind of reason once, the most frequent first, with its number of trials.
fn reasons(subject: &Subject<'_>) -> Table {
    let not_run = not_run(subject);
    let of_grid = |grid: &Grid<'_>| grid.points.iter().flat_map(|p| against(p, &not_run)).collect();
    let each: Vec<(&str, Vec<Vec<Reason>>)> =
        subject.grids.iter().map(|grid| (grid.sweep, of_grid(grid))).collect();
    let all = each.iter().flat_map(|(_, against)| against).map(Vec::as_slice);
    let mut met = linerate_analysis::reasons(all);
    met.sort_by_key(|(_, times, _)| std::cmp::Reverse(*times));
    let mut sheet = Sheet::new(met);
    sheet.text("reason", |(reason, ..)| sentences::reason(reason));
    sheet.number("trials", Scale::COUNT, |(_, times, _)| *times as f64);
    sheet.text("sweeps", |(reason, ..)| {
        let is_met =
            |why: &[Vec<Reason>]| why.iter().flatten().any(|other| other.kind() == reason.kind());
        let mut sweeps: Vec<&str> =
            each.iter().filter(|(_, against)| is_met(against)).map(|(sweep, _)| *sweep).collect();
        sweeps.dedup();
        sweeps.join(", ")
    });
    sheet.plain("validity-reasons", "Reasons, the most frequent first")
}

/// Returns the reasons against each trial of `point` that was run, or against the point where
/// there are none: its own reason repeats those of its trials.
fn against(point: &PointStudy, not_run: &BTreeSet<TrialId>) -> Vec<Vec<Reason>> {
    let run: Vec<&TrialStudy> =
        point.trials.iter().filter(|trial| !not_run.contains(&trial.id)).collect();
    let of_trials: Vec<Vec<Reason>> =
        run.iter().map(|trial| trial.why.clone()).filter(|why| !why.is_empty()).collect();
    match (run.is_empty(), of_trials.is_empty()) {
        (false, true) => vec![point.why.clone()],
        _ => of_trials,
    }
}

/// Point or trial that is not valid.
struct Doubtful<'a> {
    grid: &'a Grid<'a>,
    point: &'a PointStudy,
    /// The trial; `None` for the point itself.
    trial: Option<TrialId>,
    validity: Standing,
    why: &'a [Reason],
}

/// Points and trials that are not valid.
fn doubtful(subject: &Subject<'_>) -> Table {
    // Trials that were not run are counted above; they are neither valid nor invalid.
    let not_run = not_run(subject);
    let mut doubtful = Vec::new();
    for (grid, point) in subject.points() {
        if point.trials.iter().all(|trial| not_run.contains(&trial.id)) {
            continue;
        }
        let mut tell = |trial, validity, why| {
            doubtful.push(Doubtful { grid, point, trial, validity, why });
        };
        if point.validity != Standing::Valid {
            tell(None, point.validity, &point.why);
        }
        let tells =
            |trial: &&TrialStudy| trial.validity != Standing::Valid && trial.why != point.why;
        let trials = point.trials.iter().filter(tells);
        for trial in trials.filter(|trial| !not_run.contains(&trial.id)) {
            tell(Some(trial.id), trial.validity, &trial.why);
        }
    }
    let mut sheet = Sheet::new(doubtful);
    sheet.text("sweep", |one| one.grid.sweep.to_owned());
    sheet.text("point", |one| one.grid.place_of(one.point));
    sheet.text("trial", |one| one.trial.map_or("the point".to_owned(), |id| id.0.to_string()));
    sheet.text("validity", |one| one.validity.word().to_owned());
    sheet.text("why", |one| one.why.iter().map(sentences::fact).collect::<Vec<_>>().join("; "));
    let caption = "Points and trials that are not valid";
    // The reasons stand above.
    Table { folded: true, ..sheet.judged("validity-trials", caption, |one| one.validity) }
}

/// Returns the measured figures that are not shown, with the reasons.
fn withheld(subject: &Subject<'_>) -> Table {
    let withheld = subject.points().flat_map(|(grid, point)| {
        point
            .jobs
            .iter()
            .flat_map(move |job| job.withheld.iter().map(move |one| (grid, point, job, one)))
    });
    let mut sheet = Sheet::new(withheld);
    sheet.text("sweep", |(grid, ..)| grid.sweep.to_owned());
    sheet.text("point", |(grid, point, ..)| grid.place_of(point));
    sheet.text("job", |(.., job, _)| job.workload.clone());
    sheet.text("figure", |(.., one)| format!("{} {}", one.name, one.direction));
    sheet.text("why", |(.., one)| sentences::refusal(&one.why));
    let mut table = sheet.judged("validity-withheld", "Withheld figures", |_| Standing::Suspect);
    table.folded = table.rows.len() > FEW;
    table
}

fn incidents(subject: &Subject<'_>) -> Table {
    let of_trials = subject.campaign.trials.iter().flat_map(|trial| {
        trial.incidents.iter().map(move |incident| (trial.spec.id.0.to_string(), incident))
    });
    let outside =
        subject.campaign.incidents.iter().map(|incident| ("outside".to_owned(), incident));
    // Equal incidents of several trials share a row.
    let mut told: Vec<(Vec<String>, &linerate_model::Incident)> = Vec::new();
    for (trial, incident) in of_trials.chain(outside) {
        match told.iter_mut().find(|(_, known)| *known == incident) {
            Some((trials, _)) => trials.push(trial),
            None => told.push((vec![trial], incident)),
        }
    }
    let mut sheet = Sheet::new(told);
    sheet.text("trial", |(trials, _)| match trials.len() {
        0..=6 => trials.join(", "),
        n => format!("{} and {} more", trials[..5].join(", "), n - 5),
    });
    sheet.text("host", |(_, incident)| {
        if incident.host.is_empty() { "conductor".to_owned() } else { incident.host.clone() }
    });
    sheet.text("kind", |(_, incident)| kind_words(incident.kind).to_owned());
    sheet.text("observation", |(_, incident)| incident.message.clone());
    sheet.number("times", Scale::COUNT, |(trials, _)| trials.len() as f64);
    let mut table = sheet.toned("validity-incidents", "Incidents", |(_, incident)| {
        if incident.kind == IncidentKind::Failed { Tone::Refused } else { Tone::Plain }
    });
    table.folded = table.rows.len() > 24;
    table
}

const fn kind_words(kind: IncidentKind) -> &'static str {
    match kind {
        IncidentKind::Failed => "failed",
        IncidentKind::AgentLost => "agent lost",
        IncidentKind::WorkerStopped => "worker stopped",
        IncidentKind::Clock => "clock",
        IncidentKind::ClockUncertain => "clock uncertain",
        IncidentKind::Tester => "tester",
        IncidentKind::Environment => "environment",
        IncidentKind::NotGranted => "not granted",
        IncidentKind::Rejected => "rejected bytes",
        IncidentKind::Neighbour => "another campaign",
    }
}
