//! Section `validity`: trials that are not valid with their reasons, withheld figures, incidents,
//! and trials that were not run.

use std::collections::BTreeSet;

use linerate_analysis::{PointStudy, Reason, TrialStudy};
use linerate_model::{IncidentKind, TrialId, TrialOutcome, Validity as Standing};

use super::answer::not_run;
use super::{Section, Subject};
use crate::document::{Block, Cell, Column, Row, Table, Tone};
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
    let columns = vec![
        Column::text("reason"),
        Column::number("trials", Scale::COUNT),
        Column::text("sweeps"),
    ];
    let mut table = Table::new("validity-reasons", "Reasons, the most frequent first", columns);
    let not_run = not_run(subject);
    let of_grid = |grid: &Grid<'_>| grid.points.iter().flat_map(|p| against(p, &not_run)).collect();
    let each: Vec<(&str, Vec<Vec<Reason>>)> =
        subject.grids.iter().map(|grid| (grid.sweep, of_grid(grid))).collect();
    let all = each.iter().flat_map(|(_, against)| against).map(Vec::as_slice);
    let mut met = linerate_analysis::reasons(all);
    met.sort_by_key(|(_, times, _)| std::cmp::Reverse(*times));
    for (reason, times, _) in met {
        let is_met =
            |why: &[Vec<Reason>]| why.iter().flatten().any(|other| other.kind() == reason.kind());
        let mut sweeps: Vec<&str> =
            each.iter().filter(|(_, against)| is_met(against)).map(|(sweep, _)| *sweep).collect();
        sweeps.dedup();
        table.rows.push(Row::plain(vec![
            Cell::Text(sentences::reason(reason)),
            Cell::Number(times as f64),
            Cell::Text(sweeps.join(", ")),
        ]));
    }
    table
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

/// Points and trials that are not valid.
fn doubtful(subject: &Subject<'_>) -> Table {
    let columns = vec![
        Column::text("sweep"),
        Column::text("point"),
        Column::text("trial"),
        Column::text("validity"),
        Column::text("why"),
    ];
    let mut table = Table::new("validity-trials", "Points and trials that are not valid", columns);
    // Trials that were not run are counted above; they are neither valid nor invalid.
    let not_run = not_run(subject);
    for grid in subject.grids {
        for point in &grid.points {
            if point.trials.iter().all(|trial| not_run.contains(&trial.id)) {
                continue;
            }
            let mut tell = |trial: String, validity: Standing, why: &[Reason]| {
                table.rows.push(doubtful_row(grid, point, trial, (validity, why)));
            };
            if point.validity != Standing::Valid {
                tell("the point".into(), point.validity, &point.why);
            }
            let tells =
                |trial: &&TrialStudy| trial.validity != Standing::Valid && trial.why != point.why;
            for trial in
                point.trials.iter().filter(|trial| tells(trial) && !not_run.contains(&trial.id))
            {
                tell(trial.id.0.to_string(), trial.validity, &trial.why);
            }
        }
    }
    // The reasons stand above.
    table.folded = true;
    table
}

fn doubtful_row(
    grid: &Grid<'_>,
    point: &PointStudy,
    trial: String,
    (validity, why): (Standing, &[Reason]),
) -> Row {
    let cells = vec![
        Cell::text(grid.sweep),
        Cell::Text(grid.place_of(point)),
        Cell::Text(trial),
        Cell::text(validity.word()),
        Cell::Text(why.iter().map(sentences::reason).collect::<Vec<_>>().join("; ")),
    ];
    Row::judged(cells, validity)
}

/// Returns the measured figures that are not shown, with the reasons.
fn withheld(subject: &Subject<'_>) -> Table {
    let columns = vec![
        Column::text("sweep"),
        Column::text("point"),
        Column::text("job"),
        Column::text("figure"),
        Column::text("why"),
    ];
    let mut table = Table::new("validity-withheld", "Withheld figures", columns);
    for grid in subject.grids {
        for point in &grid.points {
            for (job, one) in
                point.jobs.iter().flat_map(|job| job.withheld.iter().map(move |one| (job, one)))
            {
                let cells = vec![
                    Cell::text(grid.sweep),
                    Cell::Text(grid.place_of(point)),
                    Cell::text(&job.workload),
                    Cell::Text(format!("{} {}", one.name, one.direction)),
                    Cell::Text(sentences::refusal(&one.why)),
                ];
                table.rows.push(Row::judged(cells, Standing::Suspect));
            }
        }
    }
    table.folded = table.rows.len() > FEW;
    table
}

fn incidents(subject: &Subject<'_>) -> Table {
    let columns = vec![
        Column::text("trial"),
        Column::text("host"),
        Column::text("kind"),
        Column::text("observation"),
        Column::number("times", Scale::COUNT),
    ];
    let mut table = Table::new("validity-incidents", "Incidents", columns);
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
    for (trials, incident) in told {
        let times = trials.len() as f64;
        let listed = if trials.len() > 6 {
            format!("{} and {} more", trials[..5].join(", "), trials.len() - 5)
        } else {
            trials.join(", ")
        };
        let cells = vec![
            Cell::Text(listed),
            Cell::text(if incident.host.is_empty() { "conductor" } else { &incident.host }),
            Cell::text(kind_words(incident.kind)),
            Cell::text(&incident.message),
            Cell::Number(times),
        ];
        let tone = if incident.kind == IncidentKind::Failed { Tone::Refused } else { Tone::Plain };
        table.rows.push(Row { cells, tone });
    }
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
    }
}
