//! A replay or reproduction as a document, printable in every format.

use linerate_report::Document;
use linerate_report::document::{Block, Cell, Column, Origin, Row, Section, Table, Tone};
use serde_json::json;

use crate::replay::{Replay, ReplayItem};
use crate::reproduce::{Reproduction, Shape};

/// Returns the document of `replays`: for each paper, disagreements first.
#[must_use]
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
#[must_use]
pub fn of_reproduction(reproduction: &Reproduction) -> Document {
    // Shapes that were not judged are counted by themselves: they are no evidence either way.
    let count = |wanted| reproduction.shapes.iter().filter(|shape| shape.holds == wanted).count();
    let counts = format!(
        "Shapes: {} as in the paper, {} missed, {} not judged. The testbeds are emulated, so \
            shapes are compared and not absolute figures. A shape marked (hard) follows from \
            arithmetic.",
        count(Some(true)),
        count(Some(false)),
        count(None)
    );
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
    let kind = linerate_model::TestbedKind::Lab;
    let subtitle = "a paper's tests, repeated on emulated testbeds";
    Document::answer(
        &reproduction.paper,
        subtitle,
        Origin::Measured(kind),
        sections,
        json!(reproduction),
    )
}

fn shapes(shapes: &[Shape]) -> Table {
    let heads = ["shape", "verdict", "claim", "measured"].map(Column::text);
    let rows = shapes.iter().map(shape_row).collect();
    Table { rows, ..Table::new("shapes", "Shapes of the paper's results", heads.to_vec()) }
}

fn shape_row(shape: &Shape) -> Row {
    let (verdict, tone) = match shape.holds {
        Some(true) => ("holds", Tone::Plain),
        Some(false) => ("missed", Tone::Refused),
        None => ("not judged", Tone::Marked),
    };
    let texts: [&str; 4] = [&shape.id, verdict, &shape.claim, &shape.measured];
    Row { cells: texts.map(Cell::text).to_vec(), tone }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(at("9 disagree") < at(why) && at(why) < at("Figures that agree"));
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
    fn a_reproduction_says_how_many_shapes_hold_and_is_marked_as_emulated() {
        let shape = |holds| Shape {
            id: "S1".into(),
            claim: "it rises".into(),
            measured: "1, 2".into(),
            holds,
        };
        let reproduction = Reproduction {
            paper: "paper".into(),
            tables: Vec::new(),
            shapes: vec![shape(Some(true)), shape(Some(false)), shape(None), shape(None)],
        };
        let document = of_reproduction(&reproduction);
        let text = text_of(&document);
        assert!(
            text.starts_with(
                "paper [emulated]\n\nShapes: 1 as in the paper, 1 missed, 2 not judged."
            ),
            "{text}"
        );
        assert!(text.contains("not judged"), "{text}");
        assert_eq!(document.sections.len(), 1);
    }
}
