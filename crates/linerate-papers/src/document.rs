//! A replay or reproduction as a document, printable in every format.

use linerate_model::TestbedKind;
use linerate_report::Document;
use linerate_report::document::{
    AxisScale, Block, Cell, Chart, Column, Mark, Origin, Plot, Role, Row, Section, Table, Tone,
};
use linerate_report::number::Scale;
use serde_json::json;

use crate::replay::{Replay, ReplayItem};
use crate::reproduce::{Evidence, Figure, FigureForm, Reproduction, SHAPES, Shape};

/// Returns the document of `replays`: for each paper, disagreements first.
pub fn of_replays(replays: &[Replay]) -> Document {
    let blocks = replays.iter().enumerate().flat_map(|(index, replay)| {
        let disagree: Vec<&ReplayItem> = replay.disagreements().collect();
        let agree: Vec<&ReplayItem> = replay.items.iter().filter(|item| item.agrees).collect();
        let counts = format!(
            "{}: {} printed figures agree with the paper's other figures, {} disagree.",
            replay.paper,
            agree.len(),
            disagree.len()
        );
        let (alike, agree): (Vec<_>, Vec<_>) =
            agree.iter().partition(|item| n_alike(item, &agree) >= LEAST_ALIKE);
        let tables = [
            // Disagreements come first, because they are what a reader looks for.
            ("disagree", "Figures that disagree", disagree, Tone::Marked),
            ("agree", "Figures that agree", agree, Tone::Plain),
        ];
        let tables = tables.into_iter().filter(|(.., items, _)| !items.is_empty()).map(
            move |(id, caption, items, tone)| {
                // Identifiers are anchors of a page, so the tables of several papers need different
                // ones.
                Block::Table(figures(format!("replay-{index}-{id}"), caption, &items, tone))
            },
        );
        let alike = like_figures(index, &alike).into_iter().map(Block::Table);
        std::iter::once(Block::Paragraph(counts)).chain(tables).chain(alike).collect::<Vec<_>>()
    });
    let section =
        Section { id: "answer", title: "Printed figures, recomputed", blocks: blocks.collect() };
    let title = match replays {
        [one] => one.paper.clone(),
        several => format!("{} papers", several.len()),
    };
    let study = json!({ "replays": replays });
    Document::answer(
        title,
        "printed figures, recomputed from the paper's other figures",
        Origin::Computed,
        vec![section],
        study,
    )
}

/// Returns the page of the reference that lists every shape.
#[must_use]
pub fn of_catalogue() -> String {
    use std::fmt::Write as _;
    let mut page =
        "<!-- Made by `cargo xtask docs` from the registries. Change them, not this. -->\n\n\
        # Shapes of papers\n\n\
        What `linerate reproduce` judges. *Misses if* is the recording in which a test makes the \
        shape miss. *Circular*: the expected value is a setting of the lab, so agreement proves \
        nothing of the paper's machine. The claims are in \
        [published measurements](../methodology/papers.md#shapes).\n\n\
        | Shape | Evidence | Campaigns | Misses if |\n|---|---|---|---|\n"
            .to_owned();
    for shape in &SHAPES {
        let campaigns = shape.campaigns().join(", ");
        let campaigns = if campaigns.is_empty() { "-" } else { &campaigns };
        let (id, evidence, misses) = (shape.id, shape.evidence.word(), shape.misses);
        writeln!(page, "| {id} | {evidence} | {campaigns} | {misses} |")
            .expect("a string takes it");
    }
    page
}

/// Number of items about the same figure from which they have a table of their own.
const LEAST_ALIKE: usize = 3;

/// Returns the number of `items` about the same figure as `item`, with the same conclusion.
fn n_alike(item: &ReplayItem, items: &[&ReplayItem]) -> usize {
    items.iter().filter(|other| is_like(item, other)).count()
}

fn is_like(item: &ReplayItem, other: &ReplayItem) -> bool {
    (&item.what, &item.why_it_matters) == (&other.what, &other.why_it_matters)
}

/// Returns a table for each group of like items, which share the caption and the note.
fn like_figures(paper: usize, items: &[&ReplayItem]) -> Vec<Table> {
    let groups = items.chunk_by(|one, next| is_like(one, next)).enumerate();
    groups
        .map(|(group, items)| group_table(format!("replay-{paper}-alike-{group}"), items))
        .collect()
}

fn group_table(id: String, items: &[&ReplayItem]) -> Table {
    let rows: Vec<Vec<String>> = items.iter().map(like_row).collect();
    let caption = format!("Figures that agree: {}", items[0].what);
    Table {
        note: Some(items[0].why_it_matters.clone()),
        ..Table::of_words(id, caption, &["id", "printed", "recomputed"], &rows)
    }
}

fn like_row(item: &&ReplayItem) -> Vec<String> {
    vec![item.id.clone(), item.printed.clone(), item.recomputed.clone()]
}

/// Returns a table of items, with the reason why each matters.
fn figures(id: String, caption: &str, items: &[&ReplayItem], tone: Tone) -> Table {
    let heads = ["id", "figure", "printed", "recomputed", "conclusion"].map(Column::text);
    let rows = items.iter().map(|item| {
        let cells = [&item.id, &item.what, &item.printed, &item.recomputed, &item.why_it_matters]
            .map(Cell::text);
        Row { cells: cells.to_vec(), tone }
    });
    Table { rows: rows.collect(), ..Table::new(id, caption, heads.to_vec()) }
}

/// Returns the document of `reproduction`: its shapes, then its tables beside those of the paper.
pub fn of_reproduction(reproduction: &Reproduction) -> Document {
    let counts = counts(&reproduction.shapes);
    let tables = reproduction.tables.iter().enumerate().map(|(index, table)| {
        Block::Table(Table::of_words(
            format!("paper-{index}"),
            &table.title,
            &table.head,
            &table.rows,
        ))
    });
    let mut sections = vec![Section {
        id: "answer",
        title: "Shapes",
        blocks: vec![Block::Paragraph(counts), Block::Table(shapes(&reproduction.shapes))],
    }];
    if !reproduction.tables.is_empty() {
        sections.push(Section {
            id: "tables",
            title: "Tables beside those of the paper",
            blocks: tables.collect(),
        });
    }
    if !reproduction.figures.is_empty() {
        let charts = reproduction.figures.iter().enumerate();
        let blocks = charts.flat_map(|(index, figure)| {
            [Block::Chart(chart(index, figure)), Block::Paragraph(figure.note.clone())]
        });
        let title = "Figures of the paper with ours over them";
        sections.insert(1, Section { id: "figures", title, blocks: blocks.collect() });
    }
    if !reproduction.campaigns.is_empty() {
        sections.push(repeat(&reproduction.campaigns));
    }
    let kind = reproduction.place;
    let subtitle = match kind {
        TestbedKind::Lab => "a paper's tests, repeated on emulated testbeds",
        TestbedKind::Hosts | TestbedKind::Loopback => "a paper's tests, repeated on real hosts",
    };
    Document::answer(
        &reproduction.paper,
        subtitle,
        Origin::Measured(kind),
        sections,
        json!(reproduction),
    )
}

/// Numbers whose unit is the name of their axis.
const PLAIN: Scale = Scale { base: "", symbol: "", factor: 1.0 };

/// Returns the chart of a figure, with its points in a table.
fn chart(index: usize, figure: &Figure) -> Chart {
    let [across, up] = &figure.axes;
    let mut columns = vec![Column::text(across)];
    columns.extend(figure.series.iter().map(|(name, _)| Column::number(name, PLAIN)));
    let rows = figure.places.iter().enumerate().map(|(place, label)| {
        // Bars stand side by side in order, lines where their numbers are.
        let value = label.parse().ok().filter(|_| figure.form == FigureForm::Lines);
        let value = value.unwrap_or(place as f64);
        let mut cells = vec![Cell::Coordinate { value, label: label.clone() }];
        cells.extend(figure.series.iter().map(|(_, values)| {
            values
                .get(place)
                .copied()
                .flatten()
                .map_or_else(|| Cell::Missing("not measured".into()), Cell::Number)
        }));
        Row::plain(cells)
    });
    let rows = rows.collect();
    let table = Table {
        rows,
        folded: true,
        ..Table::new(format!("figure-{index}"), &figure.title, columns)
    };
    let (plot, role) = match figure.form {
        FigureForm::Lines => (Plot::Lines, Role::Line),
        FigureForm::Bars => (Plot::GroupedBars, Role::Bar),
    };
    let marks = figure.series.iter().enumerate();
    let marks = marks.map(|(at, (name, _))| Mark { column: at + 1, name: name.clone(), role });
    let x_scale =
        if figure.form == FigureForm::Lines { AxisScale::Linear } else { AxisScale::Category };
    let summary =
        format!("{}: {} places, the paper's and ours.", figure.title, figure.places.len());
    Chart { x_scale, summary, ..Chart::of(plot, up, marks.collect(), table) }
}

/// Returns the numbers of shapes by verdict. Circular ones are no evidence for the paper, and those
/// that were not judged are none either way, so both are counted by themselves.
fn counts(shapes: &[Shape]) -> String {
    let of = |holds, kind| {
        shapes.iter().filter(|shape| (shape.holds, shape.evidence) == (holds, kind)).count()
    };
    let kinds = || Evidence::ALL.into_iter().filter(|kind| *kind != Evidence::Circular);
    let n = |holds| kinds().map(|kind| of(holds, kind)).sum::<usize>();
    let held: Vec<String> =
        kinds().map(|kind| format!("{} {}", of(Some(true), kind), kind.word())).collect();
    let circular = |holds| of(holds, Evidence::Circular);
    let quick = if shapes.iter().any(|shape| shape.trials.quick) {
        " The run was a quick one (--quick): fewer points, repeats and seconds."
    } else {
        ""
    };
    format!(
        "Shapes: {} as in the paper ({}), {} missed, {} not judged. Counted apart: {} circular \
            ones agree, whose expected value is a setting of the lab, and {} do not. Shapes are \
            compared and not absolute figures. A shape marked (hard) follows from \
            arithmetic.{quick}",
        n(Some(true)),
        held.join(", "),
        n(Some(false)),
        n(None) + circular(None),
        circular(Some(true)),
        circular(Some(false)),
    )
}

fn shapes(shapes: &[Shape]) -> Table {
    let heads = ["shape", "verdict", "evidence", "measured", "claim", "trials"].map(Column::text);
    let rows = shapes.iter().map(shape_row).collect();
    Table { rows, ..Table::new("shapes", "Shapes of the paper's results", heads.to_vec()) }
}

fn shape_row(shape: &Shape) -> Row {
    let (verdict, tone) = match (shape.holds, shape.evidence) {
        (Some(true), Evidence::Circular) => ("agrees", Tone::Plain),
        (Some(true), _) => ("holds", Tone::Plain),
        (Some(false), _) => ("missed", Tone::Refused),
        (None, _) => ("not judged", Tone::Marked),
    };
    let trials = trials(shape);
    let texts: [&str; 6] =
        [&shape.id, verdict, shape.evidence.word(), &shape.measured, &shape.claim, &trials];
    Row { cells: texts.map(Cell::text).to_vec(), tone }
}

/// Returns the trials behind a shape as text: how many of which campaigns, how many of them are
/// suspect or carry no figure, and whether the run was a quick one.
fn trials(shape: &Shape) -> String {
    let of = shape.trials;
    if of.all == 0 {
        return "none".to_owned();
    }
    let part = |n: usize, what: &str| (n > 0).then(|| format!("{n} {what}"));
    let parts = [
        Some(format!("{} of {}", of.all, shape.campaigns.join(", "))),
        part(of.suspect, "suspect"),
        part(of.refused, "without figures"),
        of.quick.then(|| "quick".to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join("; ")
}

/// Returns how the campaigns are repeated, each alone; their own reports have every point.
fn repeat(campaigns: &[(String, String)]) -> Section {
    let rows: Vec<Vec<String>> = campaigns
        .iter()
        .map(|(name, command)| vec![name.clone(), command.clone(), format!("{name}/report.html")])
        .collect();
    let heads = ["campaign", "command", "its own report"];
    let table = Table::of_words("repeat", "Campaigns of this reproduction", &heads, &rows);
    Section { id: "repeat", title: "How to repeat it", blocks: vec![Block::Table(table)] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Trials;

    fn text_of(document: &Document) -> String {
        linerate_report::text::whole(document)
    }

    #[test]
    fn a_replay_says_what_disagrees_and_why_before_what_agrees() {
        let replay = crate::replay::paper("sun-netframe").expect("registered").replay();
        // The width of a terminal decides where a line ends.
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = one_line(&text_of(&of_replays(std::slice::from_ref(&replay))));
        let at = |part: &str| {
            text.find(&one_line(part)).unwrap_or_else(|| panic!("`{part}` is missing in {text}"))
        };
        let why = replay.disagreements().next().expect("one disagrees").why_it_matters.as_str();
        assert!(at("10 disagree") < at(why) && at(why) < at("Figures that agree"));
        assert_eq!(of_replays(&[replay]).study["replays"][0]["items"][0]["id"], "E2.b");
    }

    #[test]
    fn like_figures_share_one_table_and_its_note() {
        let replay = crate::replay::paper("intel-ncsi").expect("registered").replay();
        let document = of_replays(std::slice::from_ref(&replay));
        let table = document.tables().find(|table| table.id == "replay-0-alike-0");
        let table = table.expect("32 averages are alike");
        assert_eq!(table.rows.len(), 32);
        let text = text_of(&document);
        let note = table.note.as_deref().and_then(|note| note.split('.').next());
        assert_eq!(text.matches(note.expect("a note")).count(), 1);
        let shown: usize = document.tables().map(|table| table.rows.len()).sum();
        assert_eq!(shown, replay.items.len(), "no figure is left out");
    }

    #[test]
    fn a_reproduction_counts_circular_shapes_apart_and_names_suspect_trials_and_quick_runs() {
        let trials = Trials { all: 48, suspect: 37, refused: 1, quick: true };
        let shape = |holds, evidence| Shape {
            id: "S1".into(),
            claim: "it rises".into(),
            measured: "1, 2".into(),
            holds,
            evidence,
            trials,
            campaigns: vec!["sun-host".into()],
        };
        let reproduction = Reproduction {
            paper: "paper".into(),
            place: TestbedKind::Lab,
            tables: Vec::new(),
            figures: Vec::new(),
            campaigns: Vec::new(),
            shapes: vec![
                shape(Some(true), Evidence::Measured),
                shape(Some(true), Evidence::Circular),
                shape(Some(false), Evidence::Emulated),
                shape(None, Evidence::Emulated),
                shape(None, Evidence::Circular),
            ],
        };
        let document = of_reproduction(&reproduction);
        let text = text_of(&document).split_whitespace().collect::<Vec<_>>().join(" ");
        let counts = "paper [emulated] Shapes: 1 as in the paper (1 measured, 0 emulated, 0 \
            computed), 1 missed, 2 not judged. Counted apart: 1 circular ones agree";
        assert!(text.starts_with(counts), "{text}");
        assert!(text.contains("The run was a quick one"), "{text}");
        let table = document.tables().next().expect("the shapes");
        let shown = table.shown();
        let verdicts: Vec<&str> = shown.iter().map(|row| row[1].as_str()).collect();
        assert_eq!(verdicts, ["holds", "agrees", "missed", "not judged", "not judged"]);
        assert_eq!(shown[0][5], "48 of sun-host; 37 suspect; 1 without figures; quick");
        assert_eq!(document.sections.len(), 1);
    }
}
