//! Comparison of two campaigns as a document: changes over all points, point by point, and
//! differences of the environment.
//!
//! The statistics are `linerate_analysis::compare::campaigns`. Worse figures come first, because a
//! change that improves one figure may cost another.

mod changes;

use linerate_analysis::compare::{
    Campaigns, Cause, Change, Doubt, Family, PointChange, Scale as Against, Standing,
};
use linerate_analysis::{Compared, ComparedFigure};
use linerate_model::{CampaignHeader, Point, TestbedKind};
use serde_json::{Value, json};

use changes::{figures_with, listed, next_step};

use crate::curves::uncapitalised;
use crate::document::{
    Block, Cell, Chart, Column, Document, EMULATED, Lead, Mark, Origin, Plot, Role, Row, Section,
    Table, Tone,
};
use crate::document_json;
use crate::effects::{change, change_parts, name, rank, scale, shift, verdict};
use crate::grid;
use crate::number::{Scale, percent};
use crate::sentences;
use crate::words::{count, date, rfc3339};

/// Rows from which a table is folded.
const LONG: usize = 30;
/// Most points in one chart.
const MOST_POINTS: usize = 40;

/// Campaign with the name that the user gave it.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Ledger as the user named it.
    pub name: &'a str,
    /// Identity of the campaign.
    pub header: &'a CampaignHeader,
}

/// Returns the document of `result`: `after` against `before`. `again` is a repeat of `before` that
/// shows the noise, where it was measured.
pub fn compare_campaigns(
    result: &Campaigns,
    before: Named<'_>,
    after: Named<'_>,
    again: Option<Named<'_>>,
    version: &str,
) -> Document {
    // One real campaign is enough to make the comparison more than an emulation.
    let emulated = before.header.emulated() && after.header.emulated();
    let sections = [
        Section { id: "answer", title: "Answer", blocks: answer(result, before, after, again) },
        Section { id: "whole", title: "Over all points", blocks: whole(result) },
        Section { id: "points", title: "Point by point", blocks: points(result) },
        Section {
            id: "environment",
            title: "Differences of the environment",
            blocks: environment(result),
        },
    ];
    let mark = emulated.then_some(EMULATED);
    let sections: Vec<Section> = sections
        .into_iter()
        .filter(|section| !section.blocks.is_empty())
        .map(|section| section.marked(mark))
        .collect();
    let mut study = as_json(result, before, after, again, version);
    study["report"] = document_json::sections(&sections);
    Document {
        title: format!("{} against {}", after.header.name, before.header.name),
        subtitle: format!("{} against {}", told(after), told(before)),
        origin: Origin::Measured(if emulated { TestbedKind::Lab } else { after.header.testbed }),
        started: after.header.started,
        version: version.to_owned(),
        sections,
        study,
    }
}

fn told(campaign: Named<'_>) -> String {
    format!("{} ({}, {})", campaign.name, date(campaign.header.started), campaign.header.id)
}

/// Returns the stable JSON of a comparison (`schema: 1`).
fn as_json(
    result: &Campaigns,
    before: Named<'_>,
    after: Named<'_>,
    again: Option<Named<'_>>,
    version: &str,
) -> Value {
    fn campaign(named: Named<'_>) -> Value {
        json!({
            "ledger": named.name,
            "id": named.header.id,
            "name": named.header.name,
            "started": rfc3339(named.header.started),
            "plan_sha256": named.header.plan_sha256,
            "emulated": named.header.emulated(),
        })
    }
    let mut comparison = json!(result);
    // Readers of the first schema find the effect of a fact as a text.
    for (at, cause) in result.environment.iter().enumerate() {
        comparison["environment"][at]["why"] = sentences::mechanism(cause.mechanism).into();
    }
    json!({
        "linerate": version,
        "schema": 1,
        "before": campaign(before),
        "after": campaign(after),
        "again": again.map(campaign),
        "worse": result.count(Change::Worse),
        "comparison": comparison,
    })
}

fn answer(
    result: &Campaigns,
    before: Named<'_>,
    after: Named<'_>,
    again: Option<Named<'_>>,
) -> Vec<Block> {
    // Without a common point the first screen has nothing to show, so the reasons stand alone.
    if result.points.is_empty() {
        let lines = [unmatched(result), without_bound(result, before, after)].concat();
        return vec![Block::Paragraph(nothing_compared(result)), Block::List(lines)];
    }
    let mut blocks = vec![Block::Lead(lead(result, before, after))];
    blocks.push(Block::Paragraph(design(result, before, after, again)));
    let mut doubts: Vec<String> = standing(result, before, after);
    doubts.extend(unmatched(result));
    doubts.extend(without_bound(result, before, after));
    doubts.extend(beside_others(result));
    // Different plans may still share points, which are compared.
    if before.header.plan_sha256 != after.header.plan_sha256 {
        doubts.push(
            "The plans differ. Only points with the same sweep and parameters are compared.".into(),
        );
    }
    if !doubts.is_empty() {
        blocks.push(Block::List(doubts));
    }
    blocks
}

/// Returns the advice where other programs leave figures inconclusive.
fn beside_others(result: &Campaigns) -> Option<String> {
    let doubted =
        result.figures().filter(|figure| figure.effect.doubt == Some(Doubt::Others)).count();
    let share = |share: Option<f64>| {
        share.map_or_else(|| "an unknown share".to_owned(), |share| format!("{} %", percent(share)))
    };
    let [before, after] = result.company.map(|one| share(one.others));
    (doubted > 0).then(|| {
        format!(
            "Inconclusive because of other programs: {}. They used {before} of the CPU time before \
                and {after} after. Stop them and measure again, or measure both as arms of one \
                plan (`[sweep.compare]`): arms alternate, so other programs disturb both alike.",
            count(doubted, "figure")
        )
    })
}

/// Returns the reason why nothing can be compared.
#[must_use]
pub fn nothing_compared(result: &Campaigns) -> String {
    if result.without_bound.is_empty() {
        return "The campaigns have no point in common: sweeps and parameters must be the same."
            .into();
    }
    let mut sweeps: Vec<&str> = result.without_bound.iter().map(|one| one.sweep.as_str()).collect();
    // One sweep may have a search for each point.
    sweeps.dedup();
    format!(
        "Nothing can be compared: the campaigns only share {} ({}) without a bound on one side or \
            both.",
        if sweeps.len() == 1 { "a search" } else { "searches" },
        sweeps.join(", ")
    )
}

/// Returns the common searches without a bound, by side.
fn without_bound(result: &Campaigns, before: Named<'_>, after: Named<'_>) -> Vec<String> {
    let lines = result.without_bound.iter().map(|one| {
        let name = [before, after][one.side].name;
        let place = coordinate(&one.sweep, &one.parameters);
        format!(
            "{place}: not compared, because the search found no bound in {name} (see its report)."
        )
    });
    lines.collect()
}

/// Returns the first screen: the most important change, the counts, and the changed figures.
fn lead(result: &Campaigns, before: Named<'_>, after: Named<'_>) -> Lead {
    let (worse, better) = (result.count(Change::Worse), result.count(Change::Better));
    let (same, unclear) = (result.count(Change::None), result.count(Change::Unclear));
    // Any worse figure makes the answer "worse": an improvement elsewhere does not repay it.
    let (status, claim) = match (worse, better) {
        (0, 0) if unclear == 0 => ("equivalent", "no figure changed"),
        (0, 0) => ("inconclusive", "no change is proven, and some figures are undecided"),
        (0, _) => ("better", "some figures are better and none is worse"),
        (_, 0) => ("worse", "some figures are worse and none is better"),
        _ => ("worse", "some figures are worse and some are better"),
    };
    let changed = [Change::Worse, Change::Better].map(|change| figures_with(result, change));
    // Without a change, a reader wants to know which figures are still open.
    let open = if worse + better == 0 { figures_with(result, Change::Unclear) } else { Vec::new() };
    let against = format!("{} against {}", after.name, before.name);
    let (figure, context) = match changed.iter().flatten().next() {
        Some((place, figure)) => {
            let (value, _, unit) = change_parts(figure);
            (
                format!("{value}{unit}"),
                format!("{} ({place}), {against}", uncapitalised(&name(figure))),
            )
        }
        None if unclear == 0 => ("No change".to_owned(), format!("of any figure, {against}")),
        None => ("No proven change".to_owned(), format!("of any figure, {against}")),
    };
    let [margin, n_figures] = [percent(result.margin), count(result.figures().count(), "figure")];
    Lead {
        surety: if worse + better > 0 { "changed" } else { status },
        figure,
        context,
        basis: vec![
            format!("{n_figures} at {}", count(result.points.len(), "point")),
            format!("{worse} worse"),
            format!("{better} better"),
            format!("{same} equivalent (within {margin} %)"),
            format!("{unclear} inconclusive"),
        ],
        label: "Result",
        status,
        claim: Some(claim.to_owned()),
        evidence: [Change::Worse, Change::Better]
            .iter()
            .zip(&changed)
            .flat_map(|(change, figures)| listed(*change, figures))
            .chain(listed(Change::Unclear, &open))
            .collect(),
        next: next_step(&open, after, status).into_iter().collect(),
        ..Lead::default()
    }
}

fn design(
    result: &Campaigns,
    before: Named<'_>,
    after: Named<'_>,
    again: Option<Named<'_>>,
) -> String {
    // Without alternation, everything that changed between the campaigns is part of the difference.
    let pairs = match result.paired {
        true => "The trials of both campaigns alternated and are compared pair by pair.".to_owned(),
        false => format!(
            "All of {} was measured {} {}. Runs are compared with runs, and the difference \
                includes whatever else changed in between.",
            after.name,
            if after.header.started >= before.header.started { "after" } else { "before" },
            before.name
        ),
    };
    let noise = match again {
        Some(again) if result.again => {
            format!("{} repeats {}: their difference is the noise floor.", again.name, before.name)
        }
        Some(again) => {
            format!(
                "{} has no point in common with {}, so the noise floor is not known.",
                again.name, before.name
            )
        }
        None => format!(
            "The noise floor is the difference between two runs of one campaign. It does not \
                include differences between campaigns: \
             measure {} once more and name that ledger with `--again`.",
            before.name
        ),
    };
    format!("{pairs} {noise}")
}

fn standing(result: &Campaigns, before: Named<'_>, after: Named<'_>) -> Vec<String> {
    fn told(named: Named<'_>, standing: Standing) -> Option<String> {
        // A campaign without doubt needs no line.
        (standing.valid < standing.trials).then(|| {
            format!(
                "{} of {}: {} valid, {} suspect.",
                count(standing.trials, "trial"),
                named.name,
                standing.valid,
                standing.suspect
            )
        })
    }
    let [was, is] = result.standing;
    [told(before, was), told(after, is)].into_iter().flatten().collect()
}

fn unmatched(result: &Campaigns) -> Vec<String> {
    let only = |side: usize| result.unmatched.iter().filter(|point| point.side == side).count();
    [(only(0), "first"), (only(1), "second")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, word)| format!("{} only in the {word} campaign, left out.", count(n, "point")))
        .collect()
}

fn whole(result: &Campaigns) -> Vec<Block> {
    if result.overall.is_empty() {
        return Vec::new();
    }
    let mut table =
        Table::new("whole", "Each figure over all points", columns("points", Some("workload")));
    let mut overall: Vec<_> = result.overall.iter().collect();
    // Worse figures come first in both tables.
    overall.sort_by_key(|overall| (rank(overall.figure.effect.change), overall.figure.family()));
    for overall in overall {
        table.rows.push(row(
            Cell::Number(overall.points as f64),
            Some(Cell::Text(overall.workload.clone())),
            &overall.figure,
        ));
    }
    // The first column holds a number here, a point elsewhere.
    table.columns[0] = Column::number("points", Scale::COUNT);
    table.note = Some(
        "One value per repeat: the geometric mean of the figure over all points of a workload at \
            which every run has a value other than zero. \
         It can prove a change where each single point is inconclusive."
            .into(),
    );
    vec![Block::Table(table)]
}

fn points(result: &Campaigns) -> Vec<Block> {
    let mut blocks: Vec<Block> = charts(result).into_iter().map(Block::Chart).collect();
    let several = result.points.iter().any(|point| point.jobs.len() > 1);
    let mut rows: Vec<(&PointChange, &Compared)> = result
        .points
        .iter()
        .flat_map(|point| point.figures.iter().map(move |figure| (point, figure)))
        .collect();
    rows.sort_by_key(|(_, figure)| (rank(figure.effect.change), figure.family()));
    let mut table = Table::new(
        "cells",
        "Every figure at every point",
        columns("point", several.then_some("job")),
    );
    for (point, figure) in rows {
        let job =
            // A single job needs no column of its own.
            several.then(|| Cell::Text(point.jobs.get(figure.job).cloned().unwrap_or_default()));
        table.rows.push(row(Cell::Text(coordinate(&point.sweep, &point.parameters)), job, figure));
    }
    // A folded table still prints and can be searched.
    table.folded = table.rows.len() > LONG;
    table.note = Some(
        "Change: typical ratio of the runs after to those before (Hodges-Lehmann) with its \
            interval at 95 %, or the difference where a value is zero. p: probability of such a \
            shift by chance, adjusted for the number of figures of its kind, those that a workload \
            is run for apart from the others (Holm)."
            .into(),
    );
    blocks.push(Block::Table(table));
    blocks
}

fn columns(first: &str, second: Option<&str>) -> Vec<Column> {
    let mut columns = vec![Column::text(first)];
    columns.extend(second.map(Column::text));
    columns.extend(["figure", "verdict", "change", "before", "after"].map(Column::text));
    columns.push(Column::number("p, Holm", Scale::COUNT));
    columns.push(Column::text("n"));
    columns
}

fn row(first: Cell, second: Option<Cell>, figure: &Compared) -> Row {
    let effect = &figure.effect;
    let scale = scale(figure);
    let value = |value: f64| {
        Cell::Text(format!("{} {}", scale.plain(value), scale.symbol).trim_end().to_owned())
    };
    let mut cells = vec![first];
    cells.extend(second);
    cells.push(Cell::Text(name(figure)));
    cells.push(Cell::Text(verdict(effect)));
    cells.push(Cell::Text(shift(figure)));
    cells.push(value(effect.before));
    cells.push(value(effect.after));
    cells.push(Cell::number_or(figure.p_adjusted, "nothing differs"));
    cells.push(Cell::Text(match effect.runs {
        Some((before, after)) => format!("{before}, {after}"),
        None => count(effect.n, "pair"),
    }));
    // Only losses are marked: a reader looks for them.
    Row { cells, tone: if effect.change == Change::Worse { Tone::Marked } else { Tone::Plain } }
}

fn coordinate(sweep: &str, parameters: &Point) -> String {
    match parameters.is_empty() {
        true => sweep.to_owned(),
        false => format!("{sweep}, {}", grid::coordinate(parameters)),
    }
}

fn place(point: &PointChange, figure: &Compared) -> String {
    let job = point.jobs.get(figure.job).filter(|_| point.jobs.len() > 1);
    job.map_or_else(
        || coordinate(&point.sweep, &point.parameters),
        |job| format!("{}, {job}", coordinate(&point.sweep, &point.parameters)),
    )
}

/// For each headline figure, the change at every point: where a change sits.
fn charts(result: &Campaigns) -> Vec<Chart> {
    let mut seen = Vec::new();
    let figures = result.points.iter().flat_map(|point| &point.figures);
    for figure in figures.filter(|figure| {
        figure.family() == Family::Headline && figure.effect.scale == Against::Ratio
    }) {
        let key = (&figure.metric, figure.direction);
        // One chart for each figure and direction.
        if !seen.contains(&key) {
            seen.push(key);
        }
    }
    seen.into_iter().enumerate().filter_map(|(at, key)| chart(result, at + 1, key)).collect()
}

fn chart(
    result: &Campaigns,
    number: usize,
    key: (&ComparedFigure, linerate_model::Direction),
) -> Option<Chart> {
    let cells: Vec<(String, &Compared)> = result
        .points
        .iter()
        .flat_map(|point| point.figures.iter().map(move |figure| (place(point, figure), figure)))
        .filter(|(_, figure)| (&figure.metric, figure.direction) == key)
        .filter(|(_, figure)| figure.effect.scale == Against::Ratio)
        .take(MOST_POINTS)
        .collect();
    // A chart of one point shows nothing that its row does not.
    let (_, first) = cells.first().filter(|_| cells.len() > 1)?;
    let title = format!("{}: change at every point", name(first));
    let columns = vec![Column::text("point"), Column::undirected("change", Scale::PERCENT, None)];
    let mut table = Table::new(format!("change-{number}"), title, columns);
    for (place, (label, figure)) in cells.iter().enumerate() {
        let coordinate = Cell::Coordinate { value: place as f64, label: label.clone() };
        table.rows.push(Row::plain(vec![coordinate, change(&figure.effect)]));
    }
    table.folded = true;
    let count_of =
        |change| cells.iter().filter(|(_, figure)| figure.effect.change == change).count();
    Some(Chart {
        summary: format!(
            "{} at {}: worse at {}, better at {}.",
            name(first),
            count(cells.len(), "point"),
            count_of(Change::Worse),
            count_of(Change::Better)
        ),
        ..Chart::of(
            Plot::Points,
            format!("change of {}", uncapitalised(&first.metric.title())),
            vec![Mark { column: 1, name: "after less before".into(), role: Role::Line }],
            table,
        )
    })
}

fn environment(result: &Campaigns) -> Vec<Block> {
    if result.environment.is_empty() {
        let told = "No recorded fact of the hosts, the path or the tool differs, apart from what \
            every start changes.";
        return vec![Block::Paragraph(told.into())];
    }
    // Without a change there is nothing to explain.
    let changed = result.count(Change::Worse) + result.count(Change::Better) > 0;
    let explain = result.environment.iter().filter(|cause| cause.explains).count();
    let lead = match (changed, explain) {
        (false, _) => {
            "Nothing changed that needs a cause; these facts differ all the same.".to_owned()
        }
        (true, 0) => {
            "None of these differences is known to reach a figure that changed.".to_owned()
        }
        (true, explain) => format!(
            "{} differ; {explain} of them can reach a figure that changed and stand first. That is \
                an order to try them in, no proof: \
             the proof is a comparison with that one alone changed.",
            count(result.environment.len(), "fact")
        ),
    };
    let columns = ["host", "fact", "before", "after", "what it does"].map(Column::text).to_vec();
    let mut table =
        Table::new("environment-differences", "What differs, likeliest cause first", columns);
    let tone = |cause: &Cause| {
        if changed && cause.explains { Tone::Marked } else { Tone::Plain }
    };
    table.rows = result
        .environment
        .iter()
        .map(|cause| Row { cells: cause_cells(cause), tone: tone(cause) })
        .collect();
    vec![Block::Paragraph(lead), Block::Table(table)]
}

fn cause_cells(cause: &Cause) -> Vec<Cell> {
    // A fact that was absent is shown as such, because an empty cell looks like an empty value.
    fn text(text: &str) -> Cell {
        match text.is_empty() {
            true => Cell::Missing("not there".into()),
            false => Cell::Text(text.to_owned()),
        }
    }
    let host = if cause.host.is_empty() { "both" } else { &cause.host };
    vec![
        Cell::Text(host.to_owned()),
        Cell::Text(cause.name.clone()),
        text(&cause.before),
        text(&cause.after),
        Cell::Text(sentences::mechanism(cause.mechanism).to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison of one figure, with `doubt`.
    fn compared(doubt: Option<&str>) -> Campaigns {
        let mut effect = json!({
            "figure": "goodput tx", "n": 6, "before": 100.0, "after": 95.0, "scale": "ratio",
            "shift": 0.95, "interval": [0.94, 0.96],
            "margin": 1.02, "p": 0.002, "better": "more", "change": "unclear", "needed": null,
            "widest": 1.01, "floor": 1.01,
        });
        if let Some(doubt) = doubt {
            effect["doubt"] = doubt.into();
        }
        let figure = json!({
            "job": 0, "metric": "goodput", "unit": "bit/s", "layer": "L4", "direction": "tx",
            "effect": effect, "placebo": null,
            "p_adjusted": null, "pairs": 6,
        });
        let result = json!({
            "paired": false, "again": false, "margin": 0.02, "overall": [], "unmatched": [],
            "environment": [],
            "points": [{"sweep": "stream", "parameters": {}, "jobs": ["tcp_stream"],
            "figures": [figure], "validity": ["valid", "valid"]}],
            "standing": [{"trials": 6, "valid": 6, "suspect": 0}, {"trials": 6, "valid": 6,
            "suspect": 0}],
            "company": [{"others": 0.45, "taken": 0.3, "occupied": null, "on_cpu": null,
            "on_path": null}, {
                "others": 0.502, "taken": 0.3, "occupied": null, "on_cpu": null, "on_path": null
            }],
        });
        serde_json::from_value(result).expect("a comparison")
    }

    #[test]
    fn the_most_important_open_figure_sets_the_number_of_runs() {
        let mut result = serde_json::to_value(compared(None)).expect("JSON");
        let mut goodput = result["points"][0]["figures"][0].clone();
        goodput["effect"]["needed"] = 12.into();
        let mut switches = goodput.clone();
        (switches["metric"], switches["unit"]) = ("context_switches".into(), "1/s".into());
        switches["layer"] = Value::Null;
        switches["effect"]["needed"] = 700.into();
        result["points"][0]["figures"] = json!([switches, goodput]);
        let result: Campaigns = serde_json::from_value(result).expect("a comparison");
        let open = figures_with(&result, Change::Unclear);
        let header = CampaignHeader { testbed: TestbedKind::Lab, ..CampaignHeader::default() };
        let after = Named { name: "after.ledger", header: &header };
        let step = next_step(&open, after, "inconclusive").expect("more runs would decide");
        assert!(step.text.starts_with("to decide on goodput tx (stream), "), "{}", step.text);
        assert!(step.text.contains(" 12 runs per point"), "{}", step.text);
    }

    #[test]
    fn figures_that_other_programs_disturb_come_with_their_cpu_share_and_advice() {
        assert_eq!(beside_others(&compared(None)), None);
        assert_eq!(beside_others(&compared(Some("noise"))), None);
        let told = beside_others(&compared(Some("others"))).expect("undecided");
        assert!(
            told.starts_with(
                "Inconclusive because of other programs: 1 figure. They used 45.0 % of"
            ),
            "{told}"
        );
        assert!(
            told.contains("before and 50.2 % after. Stop them") && told.contains("[sweep.compare]"),
            "{told}"
        );
    }
}
