//! Plain text for a terminal of 80 columns: the first screen, and tables with aligned columns.

use linerate_model::{Lines, Validity, printable};

use crate::commands::continued;
use crate::document::{Block, Claim, ColumnKind, Document, KeyFigure, Lead, NextStep, Table, Tone};
use crate::live::bar;
use crate::number::{is_symbol, percent};

/// Tables of searches that are answers by themselves.
const ANSWERS: [&str; 2] = ["searches-goals", "searches-answers"];
/// Columns of the narrowest terminal that text is laid out for.
const WIDTH: usize = 80;
/// Characters from which a cell is a sentence, which is hard to read in a column.
const SENTENCE: usize = 50;
/// Most rows of a wide table that are shown one below the other.
const FEW_ROWS: usize = 3;
/// Characters of the bar beside the ceiling.
const LEAD_BAR: usize = 20;
/// Most characters of a label before its key figure.
const LABEL_WIDTH: usize = 36;
/// Space between two columns.
const GAP: &str = "  ";

/// Returns `table` with aligned columns: words left, numbers right, units below the headings. Lines
/// are as long as the columns need.
#[must_use]
pub fn table(table: &Table) -> String {
    let text = TableText::of(table);
    let all: Vec<usize> = (0..text.heads.len()).collect();
    format!("{}\n{}", caption(table), text.columns(table, &all))
}

/// Cells of a table as text, with the width of each column.
struct TableText {
    heads: Vec<String>,
    units: Vec<String>,
    body: Vec<(Vec<String>, Tone)>,
    widths: Vec<usize>,
}

impl TableText {
    fn of(table: &Table) -> Self {
        let heads: Vec<String> =
            table.columns.iter().map(|column| one_line(&column.head)).collect();
        let units: Vec<String> =
            table.columns.iter().map(crate::document::Column::qualifiers).collect();
        let shown = table
            .shown()
            .into_iter()
            .map(|cells| cells.iter().map(|cell| one_line(cell)).collect());
        let body: Vec<(Vec<String>, Tone)> =
            shown.zip(table.rows.iter().map(|row| row.tone)).collect();
        let widths = (0..heads.len())
            .map(|index| {
                let cells = body.iter().map(|(cells, _)| &cells[index]);
                cells
                    .chain([&heads[index], &units[index]])
                    .map(|text| width_of(text))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        Self { heads, units, body, widths }
    }

    /// Returns the width of the columns `chosen` side by side.
    fn width(&self, chosen: &[usize]) -> usize {
        let widths: usize = chosen.iter().map(|index| self.widths[*index]).sum();
        widths + GAP.len() * chosen.len().saturating_sub(1)
    }

    /// Returns one line with the columns `chosen` of `cells`.
    fn line(&self, table: &Table, chosen: &[usize], cells: &[String]) -> String {
        let aligned = chosen.iter().map(|&index| {
            let (text, column) = (&cells[index], &table.columns[index]);
            let pad = " ".repeat(self.widths[index] - width_of(text));
            if column.kind == ColumnKind::Text {
                format!("{text}{pad}")
            } else {
                format!("{pad}{text}")
            }
        });
        aligned.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    }

    /// Returns headings, units and rows of the columns `chosen`.
    fn columns(&self, table: &Table, chosen: &[usize]) -> String {
        let mut out = format!("{}\n", self.line(table, chosen, &self.heads));
        if chosen.iter().any(|index| !self.units[*index].is_empty()) {
            out += &format!("{}\n", self.line(table, chosen, &self.units));
        }
        out += &format!("{}\n", "-".repeat(self.width(chosen)));
        for (cells, tone) in &self.body {
            let mark = match tone {
                Tone::Plain => "",
                Tone::Marked => "  *",
                Tone::Refused => "  !",
            };
            out += &format!("{}{mark}\n", self.line(table, chosen, cells));
        }
        out
    }

    /// Divides the columns into groups that fit on a line; each group repeats the first column.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = vec![vec![0]];
        for index in 1..self.heads.len() {
            let last = groups.last_mut().expect("there is a first group");
            let wider: Vec<usize> = last.iter().copied().chain([index]).collect();
            if last.len() > 1 && self.width(&wider) + MARK_WIDTH > WIDTH {
                groups.push(vec![0, index]);
            } else {
                *last = wider;
            }
        }
        groups
    }
}

/// Columns of the mark behind a row that stands out.
const MARK_WIDTH: usize = 3;

fn caption(table: &Table) -> String {
    let mark = table.mark.map_or(String::new(), |mark| format!(" [{mark}]"));
    wrapped(&format!("{}{mark}", table.caption), "", 0)
}

/// Returns all of `document`: its title, and every block of every section. A document of one
/// section has no headings.
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

/// Returns the short form of `document`: first screen, key figures, validity, and findings.
#[must_use]
pub fn summary(document: &Document) -> String {
    let mut out = title(document);
    for block in blocks_of(document, "answer") {
        if matches!(
            block,
            Block::Lead(_) | Block::Paragraph(_) | Block::KeyFigures(_) | Block::List(_)
        ) {
            out += &format!("\n{}", block_text(block));
        }
    }
    for block in blocks_of(document, "searches") {
        if let Block::Table(answer) = block
            && ANSWERS.contains(&answer.id.as_str())
        {
            out += &format!("\n{}", fitted(answer));
        }
    }
    let claims = document.sections.iter().flat_map(|section| &section.blocks);
    let claims: String = claims
        .filter_map(|block| match block {
            Block::Claim(claim) => Some(wrapped(&claim_line(claim), "  - ", 4)),
            _ => None,
        })
        .collect();
    if !claims.is_empty() {
        out += &format!("\nFindings\n{claims}");
    }
    out
}

/// Returns the blocks of the section `id`.
fn blocks_of<'a>(document: &'a Document, id: &str) -> impl Iterator<Item = &'a Block> {
    let sections = document.sections.iter().filter(move |section| section.id == id);
    sections.flat_map(|section| &section.blocks)
}

fn title(document: &Document) -> String {
    let mark = document.mark().map_or(String::new(), |mark| format!(" [{mark}]"));
    format!("{}{mark}\n", one_line(&document.title))
}

/// Returns blocks as lines, with an empty line between two.
#[must_use]
pub fn blocks(blocks: &[Block]) -> String {
    blocks.iter().map(block_text).collect::<Vec<_>>().join("\n")
}

/// Returns a block as lines, the last one ended.
fn block_text(block: &Block) -> String {
    match block {
        Block::Lead(lead) => first_screen(lead),
        Block::Paragraph(text) => wrapped(text, "", 0),
        Block::List(items) => list(items, "  - "),
        Block::KeyFigures(figures) => key_figures(figures),
        Block::Table(of) => noted(of),
        Block::Path(picture) => noted(&picture.table),
        Block::Chart(chart) => noted(&chart.table),
        Block::Claim(claim) => {
            let parts = claim
                .parts
                .iter()
                .map(|(label, items)| format!("  {label}\n{}", list(items, "    - ")));
            format!("{}{}", wrapped(&claim_line(claim), "", 2), parts.collect::<String>())
        }
        Block::Listing { caption, text } => {
            let text: String =
                text.lines().map(|line| format!("    {}\n", one_line(line))).collect();
            format!("{}:\n\n{text}", one_line(caption))
        }
    }
}

fn list(items: &[String], bullet: &str) -> String {
    items.iter().map(|item| wrapped(item, bullet, bullet.len())).collect()
}

/// Returns the first screen in its parts: headline figure, cost and ceiling, bottleneck, next step.
#[must_use]
pub fn first_screen(lead: &Lead) -> String {
    let figure = one_line(&lead.figure);
    let indent = figure.chars().count() + GAP.len();
    let mut out = wrapped(&format!("{figure}{GAP}{}", lead.context), "", indent);
    if !lead.basis.is_empty() {
        out += &wrapped(&lead.basis(), &" ".repeat(indent), indent);
    }
    if lead.measures().next().is_some() {
        out.push('\n');
    }
    for (label, text, reached) in lead.measures() {
        let bar = reached.map(|share| bar(share, LEAD_BAR));
        // Words of a line are separated by one space, so the rest of the bar is drawn too.
        let bar = bar.map_or(String::new(), |bar| format!("{} ", bar.replace(' ', "░")));
        out += &wrapped(&format!("{bar}{text}"), &format!("{:<9}", format!("{label}:")), 9);
    }
    out += &format!("\n{}: {}\n", lead.label, lead.status);
    if let Some(claim) = &lead.claim {
        out += &wrapped(&format!("{}.", crate::curves::capitalised(claim)), "  ", 2);
    }
    out += &list(&lead.evidence, "  - ");
    for (index, step) in lead.next.iter().enumerate() {
        let label = if index == 0 { "\nNext: " } else { "Then: " };
        out += &step_text(step, label);
    }
    out
}

/// Returns a step with its command on lines of its own, which a shell accepts as they are.
fn step_text(step: &NextStep, label: &str) -> String {
    let mut out = wrapped(&step.text, label, 2);
    if let Some(command) = &step.command {
        for line in continued(&one_line(command), 4) {
            out += &format!("    {line}\n");
        }
    }
    out
}

/// Returns a table and its note.
fn noted(of: &Table) -> String {
    let note = of.note.as_ref().map_or(String::new(), |note| format!("\n{}", wrapped(note, "", 0)));
    format!("{}{note}", fitted(of))
}

/// Returns `table` in lines of at most [`WIDTH`] columns, if its cells permit. A table that is too
/// wide is divided into groups of columns; few rows, and rows of sentences, stand below each other.
fn fitted(table: &Table) -> String {
    let text = TableText::of(table);
    let all: Vec<usize> = (0..text.heads.len()).collect();
    if text.width(&all) + MARK_WIDTH <= WIDTH {
        return format!("{}\n{}", caption(table), text.columns(table, &all));
    }
    let has_sentences =
        text.body.iter().flat_map(|(cells, _)| cells).any(|cell| width_of(cell) > SENTENCE);
    if has_sentences || text.body.len() <= FEW_ROWS {
        return records(table, &text);
    }
    let groups = text.groups();
    let parts: Vec<String> = groups.iter().map(|group| text.columns(table, group)).collect();
    format!("{}\n{}", caption(table), parts.join("\n"))
}

/// Returns the rows one below the other: the first cell, then each other cell behind its heading.
fn records(table: &Table, text: &TableText) -> String {
    let mut heads: Vec<String> = std::iter::zip(&text.heads, &text.units)
        .map(|(head, unit)| if unit.is_empty() { head.clone() } else { format!("{head} ({unit})") })
        .collect();
    // A name needs no heading, and neither does the only text about it.
    match (table.columns.first(), heads.first_mut()) {
        (Some(column), Some(head)) if column.kind == ColumnKind::Text => head.clear(),
        _ => {}
    }
    if let [_, only] = heads.as_mut_slice() {
        only.clear();
    }
    let width = heads.iter().skip(1).map(|head| width_of(head)).max().unwrap_or(0);
    let gap = if width > 0 { GAP } else { "" };
    let mut out = caption(table);
    for (cells, _) in &text.body {
        let filled = cells.iter().zip(&heads).enumerate().filter(|(_, (cell, _))| !cell.is_empty());
        for (index, (cell, head)) in filled {
            let pad = " ".repeat(width.saturating_sub(width_of(head)));
            out += &match index {
                0 if head.is_empty() => wrapped(cell, "\n  ", 4),
                0 => wrapped(cell, &format!("\n  {head} "), 4),
                _ => wrapped(cell, &format!("    {head}{pad}{gap}"), 4 + width + gap.len()),
            };
        }
    }
    out
}

fn key_figures(figures: &[KeyFigure]) -> String {
    let labels: Vec<String> = figures.iter().map(|figure| one_line(&figure.label)).collect();
    let widest = labels.iter().map(|label| width_of(label)).max().unwrap_or(0).min(LABEL_WIDTH);
    figures
        .iter()
        .zip(&labels)
        .map(|(figure, label)| {
            let pad = " ".repeat(widest.saturating_sub(width_of(label)));
            wrapped(&figure_line(figure), &format!("  {label}{pad}{GAP}"), 2 + widest + GAP.len())
        })
        .collect()
}

fn claim_line(claim: &Claim) -> String {
    let status = crate::curves::capitalised(claim.verdict.word());
    format!("{status}: {} ({})", claim.claim, claim.subject)
}

/// Returns `text` without line breaks and control characters.
fn one_line(text: &str) -> String {
    printable(text, Lines::One).into_owned()
}

fn width_of(text: &str) -> usize {
    text.chars().count()
}

/// Returns `text` behind `first`, in lines of at most [`WIDTH`] columns that break between words;
/// further lines start at column `indent`. A longer word gets a line of its own.
fn wrapped(text: &str, first: &str, indent: usize) -> String {
    let text = one_line(text);
    let mut out = first.to_owned();
    // A line break before the label takes no columns.
    let mut column = width_of(first.trim_start_matches('\n'));
    let mut is_start = true;
    for word in unbroken(&text) {
        let width = width_of(word);
        if !is_start && column + 1 + width > WIDTH {
            out += &format!("\n{}", " ".repeat(indent));
            column = indent;
            is_start = true;
        }
        if !is_start {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += width;
        is_start = false;
    }
    out.push('\n');
    out
}

/// Returns the words of `text` between which a line may break: a unit stays beside its number.
fn unbroken(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(' ') {
        let (before, after) = (&text[start..at], &text[at + 1..]);
        let next = after.split(' ').next().unwrap_or_default();
        // "17 flows" may break: only a symbol is unreadable on a line of its own.
        let is_number = before.ends_with(|last: char| last.is_ascii_digit());
        if !(is_number && is_symbol(next)) {
            parts.push(before);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
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
    let beside = figure.beside.as_ref().map_or(String::new(), |beside| format!(", {beside}"));
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
    fn cells_that_are_too_wide_for_a_line_stand_below_each_other() {
        let claim = "x".repeat(WIDTH);
        let wide = Table::of_words(
            "t",
            "Claims",
            &["id", "claim", "why"],
            &[vec!["a".into(), claim.clone(), "y".into()]],
        );
        assert_eq!(noted(&wide), format!("Claims\n\n  a\n    claim  {claim}\n    why    y\n"));
        let pair = Table::of_words("t", "Claims", &["id", "claim"], &[vec!["a".into(), claim]]);
        let alone = noted(&pair);
        assert!(alone.starts_with("Claims\n\n  a\n    xxx") && !alone.contains("claim"), "{alone}");
        let narrow =
            Table::of_words("t", "Claims", &["id", "claim"], &[vec!["a".into(), "b".into()]]);
        assert_eq!(noted(&narrow), table(&narrow));
    }

    #[test]
    fn a_wide_table_is_divided_into_groups_that_repeat_the_first_column() {
        let heads: Vec<String> = (0..12).map(|n| format!("column {n}")).collect();
        let row = |n: usize| (0..12).map(|cell| format!("{n}.{cell}")).collect();
        let wide = Table::of_words("t", "Wide", &heads, &(0..5).map(row).collect::<Vec<_>>());
        let text = noted(&wide);
        assert!(text.lines().all(|line| width_of(line) <= WIDTH), "{text}");
        assert_eq!(text.matches("column 0").count(), 2, "{text}");
        assert!((1..12).all(|n| text.matches(&format!("column {n} ")).count() <= 1), "{text}");
        assert!((0..5).all(|n| text.contains(&format!("{n}.11"))), "{text}");
    }

    #[test]
    fn text_breaks_between_words_and_keeps_its_indent() {
        let text = wrapped(&"word ".repeat(30), "  - ", 4);
        assert!(text.lines().all(|line| width_of(line) <= WIDTH), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("    word")), "{text}");
        assert_eq!(text.matches("word").count(), 30);
        let long = "x".repeat(100);
        assert_eq!(wrapped(&format!("a {long} b"), "", 2), format!("a\n  {long}\n  b\n"));
    }

    #[test]
    fn a_line_never_breaks_between_a_number_and_its_unit() {
        let text = format!("{} ran 9.8 %, and 12 Mbit/s, in 3 ms", "x".repeat(WIDTH - 8));
        assert_eq!(wrapped(&text, "", 2).lines().nth(1), Some("  9.8 %, and 12 Mbit/s, in 3 ms"));
        assert_eq!(
            unbroken("2 flows [0.1, 0.2 Gbit/s] 5 s."),
            ["2", "flows", "[0.1,", "0.2 Gbit/s]", "5 s."]
        );
        let broken = format!("{} 17 flows", "x".repeat(WIDTH - 4));
        assert!(wrapped(&broken, "", 2).ends_with("17\n  flows\n"), "only units are kept");
    }

    #[test]
    fn the_first_screen_has_its_parts_in_fixed_places() {
        let lead = Lead {
            figure: "80.3 Gbit/s".into(),
            context: "TCP goodput, a to b".into(),
            basis: vec!["L4".into(), "median of 3 runs".into()],
            cost: Some("0.24 CPU s/GB, 0.96 cores on a".into()),
            ceiling: Some("80.3 % of 100 Gbit/s L4 (link)".into()),
            reached: Some(0.803),
            label: "Bottleneck",
            status: "suspected",
            claim: Some("the sender uses all of its CPU".into()),
            evidence: vec!["the busiest thread used 99 % of a core".into()],
            next: vec![NextStep {
                text: "send 2 flows".into(),
                command: Some("linerate diagnose --to h --param streams=2".into()),
            }],
            ..Lead::default()
        };
        let expected = "80.3 Gbit/s  TCP goodput, a to b
             L4, median of 3 runs

Cost:    0.24 CPU s/GB, 0.96 cores on a
Ceiling: ████████████████░░░░ 80.3 % of 100 Gbit/s L4 (link)

Bottleneck: suspected
  The sender uses all of its CPU.
  - the busiest thread used 99 % of a core

Next: send 2 flows
    linerate diagnose --to h --param streams=2
";
        assert_eq!(first_screen(&lead), expected);
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
