//! Plain text for a terminal: the answer in a few lines, and tables with aligned columns.

use linerate_model::{Lines, Validity, printable};

use crate::document::{Block, Claim, ColumnKind, Document, KeyFigure, Table, Tone};
use crate::number::percent;

/// Tables that are answers by themselves.
const ANSWERS: [&str; 2] = ["searches-goals", "searches-answers"];
/// Characters of a line beyond which a table of words is shown row by row.
const WIDEST: usize = 120;
/// Characters of a cell beyond which it is a sentence, and a column of them is hard to read.
const SENTENCE: usize = 50;
/// Space between two columns.
const GAP: &str = "  ";

/// `table` with aligned columns: words left, numbers right, units below the headings. Lines are as
/// long as they must be; a terminal that is too narrow wraps them.
#[must_use]
pub fn table(table: &Table) -> String {
    let heads: Vec<String> = table.columns.iter().map(|column| one_line(&column.head)).collect();
    let units: Vec<String> =
        table.columns.iter().map(super::document::Column::qualifiers).collect();
    let shown =
        table.shown().into_iter().map(|cells| cells.iter().map(|cell| one_line(cell)).collect());
    let body: Vec<(Vec<String>, Tone)> = shown.zip(table.rows.iter().map(|row| row.tone)).collect();
    let width = |index: usize| {
        let body = body.iter().map(|(cells, _)| &cells[index]);
        body.chain([&heads[index], &units[index]])
            .map(|text| text.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let aligned =
            cells.iter().zip(&widths).zip(&table.columns).map(|((text, width), column)| {
                let pad = " ".repeat(width - text.chars().count());
                if column.kind == ColumnKind::Text {
                    format!("{text}{pad}")
                } else {
                    format!("{pad}{text}")
                }
            });
        aligned.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    let mark = table.mark.map_or(String::new(), |mark| format!(" [{mark}]"));
    let mut out = format!("{}{mark}\n\n", one_line(&table.caption));
    out += &format!("{}\n", line(&heads));
    if units.iter().any(|unit| !unit.is_empty()) {
        out += &format!("{}\n", line(&units));
    }
    let total = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
    out += &format!("{}\n", "-".repeat(total));
    for (cells, tone) in &body {
        let mark = match tone {
            Tone::Plain => "",
            Tone::Marked => "  *",
            Tone::Refused => "  !",
        };
        out += &format!("{}{mark}\n", line(cells));
    }
    out
}

/// All of `document`: its title, and every block of every section. A document of one section has no
/// headings.
#[must_use]
pub fn whole(document: &Document) -> String {
    let mut out = title(document);
    for section in &document.sections {
        if document.sections.len() > 1 {
            out += &format!("\n{}\n", one_line(section.title));
        }
        section.blocks.iter().for_each(|block| out += &format!("\n{}", block_text(block)));
    }
    out
}

/// The answer of `document` in a few lines: what was measured, the key figures, whether they may be
/// believed, and the findings.
#[must_use]
pub fn summary(document: &Document) -> String {
    let mut out = title(document);
    let blocks_of = |id: &'static str| {
        document
            .sections
            .iter()
            .filter(move |section| section.id == id)
            .flat_map(|section| &section.blocks)
    };
    for block in blocks_of("answer") {
        match block {
            // Each stands by itself: these are the sentences one reads.
            Block::List(items) => {
                items.iter().for_each(|item| out += &format!("\n  {}\n", one_line(item)))
            }
            Block::Lead(_) | Block::Paragraph(_) | Block::KeyFigures(_) => {
                out += &format!("\n{}", block_text(block))
            }
            _ => {}
        }
    }
    for block in blocks_of("searches") {
        if let Block::Table(answer) = block
            && ANSWERS.contains(&answer.id.as_str())
        {
            out += &format!("\n{}", table(answer));
        }
    }
    let claims =
        document.sections.iter().flat_map(|section| &section.blocks).filter_map(
            |block| match block {
                Block::Claim(claim) => Some(format!("  {}\n", claim_line(claim))),
                _ => None,
            },
        );
    let claims: String = claims.collect();
    if !claims.is_empty() {
        out += &format!("\nFindings\n{claims}");
    }
    out
}

fn title(document: &Document) -> String {
    let mark = document.mark().map_or(String::new(), |mark| format!(" [{mark}]"));
    format!("{}{mark}\n", one_line(&document.title))
}

/// A block as lines, the last one ended.
fn block_text(block: &Block) -> String {
    let lines = |items: &[String], before: &str| -> String {
        items.iter().map(|item| format!("{before}{}\n", one_line(item))).collect()
    };
    match block {
        Block::Lead(lead) => format!("{}\n", one_line(&lead.text)),
        Block::Paragraph(text) => format!("{}\n", one_line(text)),
        Block::List(items) => lines(items, "  - "),
        Block::KeyFigures(figures) => key_figures(figures),
        Block::Table(of) => noted(of),
        Block::Path(picture) => noted(&picture.table),
        Block::Chart(chart) => noted(&chart.table),
        Block::Claim(claim) => {
            let parts = claim
                .parts
                .iter()
                .map(|(label, items)| format!("  {label}\n{}", lines(items, "    - ")));
            format!("{}\n{}", claim_line(claim), parts.collect::<String>())
        }
        Block::Listing { caption, text } => {
            let text: String =
                text.lines().map(|line| format!("    {}\n", one_line(line))).collect();
            format!("{}:\n\n{text}", one_line(caption))
        }
    }
}

/// A table and its note. Sentences in lines of more than [`WIDEST`] stand below each other instead,
/// a row after the other.
fn noted(of: &Table) -> String {
    let note = of.note.as_ref().map_or(String::new(), |note| format!("\n{}\n", one_line(note)));
    let of_words = of.columns.iter().all(|column| column.kind == ColumnKind::Text);
    let beside = table(of);
    let is_wide = beside.lines().any(|line| line.chars().count() > WIDEST);
    let has_sentences = of.shown().iter().flatten().any(|cell| cell.chars().count() > SENTENCE);
    let text = if of_words && is_wide && has_sentences { records(of) } else { beside };
    format!("{text}{note}")
}

/// The rows of `of` one after the other: the first cell, then each other one behind its heading.
fn records(of: &Table) -> String {
    let mark = of.mark.map_or(String::new(), |mark| format!(" [{mark}]"));
    let heads: Vec<String> = of.columns.iter().map(|column| one_line(&column.head)).collect();
    let width = heads.iter().skip(1).map(|head| head.chars().count()).max().unwrap_or(0);
    let mut out = format!("{}{mark}\n", one_line(&of.caption));
    for cells in of.shown() {
        for (index, (cell, head)) in
            cells.iter().zip(&heads).enumerate().filter(|(_, (cell, _))| !cell.is_empty())
        {
            let pad = " ".repeat(width.saturating_sub(head.chars().count()));
            match index {
                0 => out += &format!("\n  {head} {}\n", one_line(cell)),
                _ => out += &format!("    {head}{pad}  {}\n", one_line(cell)),
            }
        }
    }
    out
}

fn key_figures(figures: &[KeyFigure]) -> String {
    let labels: Vec<String> = figures.iter().map(|figure| one_line(&figure.label)).collect();
    let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let line = |(figure, label): (&KeyFigure, &String)| {
        let pad = " ".repeat(width - label.chars().count());
        format!("  {label}{pad}  {}\n", one_line(&figure_line(figure)))
    };
    figures.iter().zip(&labels).map(line).collect()
}

fn claim_line(claim: &Claim) -> String {
    one_line(&format!("{:?}: {} ({})", claim.verdict, claim.claim, claim.subject))
}

/// `text` as one line that no terminal obeys.
fn one_line(text: &str) -> String {
    printable(text, Lines::One).into_owned()
}

fn figure_line(figure: &KeyFigure) -> String {
    let (value, interval) = figure.scale.estimate(&figure.estimate);
    let interval = interval.map_or(String::new(), |(low, high)| format!(" [{low}, {high}]"));
    let layer = figure.layer.map_or(String::new(), |layer| format!(" {layer}"));
    let share = figure
        .ceiling
        .as_ref()
        .map_or(String::new(), |(share, _)| format!(", {} % of ceiling", percent(*share)));
    let standing = if figure.validity == Validity::Valid {
        String::new()
    } else {
        format!(", {}", figure.validity.word())
    };
    let beside = figure.beside.as_ref().map_or(String::new(), |told| format!(", {told}"));
    format!(
        "{value}{interval} {}{layer} {}{beside}, n {}{share}{standing} ({})",
        figure.scale.symbol, figure.direction, figure.estimate.n, figure.at
    )
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use crate::document::{Cell, Column, Origin, Row, Section};

    #[test]
    fn words_that_are_too_wide_for_a_line_stand_below_each_other() {
        let claim = "x".repeat(WIDEST);
        let wide = Table::of_words(
            "t",
            "Claims",
            &["id", "claim", "why"],
            &[vec!["a".into(), claim.clone(), "y".into()]],
        );
        assert_eq!(noted(&wide), format!("Claims\n\n  id a\n    claim  {claim}\n    why    y\n"));
        let narrow =
            Table::of_words("t", "Claims", &["id", "claim"], &[vec!["a".into(), "b".into()]]);
        assert_eq!(noted(&narrow), table(&narrow));
    }

    #[test]
    fn every_block_of_a_document_is_in_its_text() {
        let mut ports =
            Table::new("ports", "Ports", vec![Column::text("port"), Column::text("state")]);
        ports.rows.push(Row::plain(vec![Cell::text("1"), Cell::text("up")]));
        ports.note = Some("one port".into());
        let claim = Claim {
            verdict: Verdict::Suspected,
            subject: "port 1".into(),
            claim: "it drops".into(),
            parts: vec![("evidence", vec!["3 drops".into()])],
            rule: "drops".into(),
        };
        let blocks = vec![
            Block::Paragraph("first\u{1b}[2J".into()),
            Block::List(vec!["a".into(), "b".into()]),
            Block::Table(ports),
            Block::Claim(claim),
            Block::Listing { caption: "plan".into(), text: "x = 1\ny = 2".into() },
        ];
        let one = Section { id: "one", title: "One", blocks };
        let document = Document::answer(
            "title",
            "subtitle",
            Origin::Read,
            vec![one.clone()],
            serde_json::json!({}),
        );
        let expected = "title\n\nfirst\\u001b[2J\n\n  - a\n  - b\n\nPorts\n\nport  \
            state\n-----------\n1     up\n\none port\n\n\
                        Suspected: it drops (port 1)\n  evidence\n    - 3 drops\n\nplan:\n\n    x \
                        = 1\n    y = 2\n";
        assert_eq!(whole(&document), expected);
        let two = Document::answer(
            "title",
            "subtitle",
            Origin::Read,
            vec![one.clone(), Section { title: "Two", ..one }],
            serde_json::json!({}),
        );
        assert!(whole(&two).contains("\nTwo\n\nfirst"), "{}", whole(&two));
    }
}
