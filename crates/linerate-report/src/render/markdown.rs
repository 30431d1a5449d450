//! Markdown (CommonMark with GitHub's tables): the same document as text that reads well
//! unrendered.

use std::fmt::Write as _;

use linerate_model::{Lines, Validity, printable};

use crate::curves::capitalised;
use crate::document::{Block, Claim, ColumnKind, Document, KeyFigure, Lead, Table, Tone};
use crate::number::percent;
use crate::words::origin_label;

/// Tables longer than this are folded where the reader's program can.
const LONGEST_OPEN: usize = 60;

pub(super) fn render(document: &Document) -> String {
    let mut out = format!(
        "# {}\n\n{}. Path: {}.\n",
        escaped(&document.title),
        escaped(&document.subtitle),
        origin_label(document.origin)
    );
    for section in &document.sections {
        let _ = write!(out, "\n## {}\n", section.title);
        for block in &section.blocks {
            out.push('\n');
            write_block(&mut out, block, document.mark());
        }
    }
    let _ = write!(
        out,
        "\n---\n\nWritten by linerate {}. Status words and terms: `docs/glossary.md`.\n",
        escaped(&document.version)
    );
    out
}

fn write_block(out: &mut String, block: &Block, mark: Option<&str>) {
    // Writing to a string cannot fail.
    let _ = match block {
        Block::Lead(lead) => write!(out, "{}", lead_text(lead)),
        Block::Path(picture) => write!(out, "{}", table_text(&picture.table)),
        Block::Paragraph(text) => writeln!(out, "{}", escaped(text)),
        Block::List(items) => {
            items.iter().try_for_each(|item| writeln!(out, "- {}", escaped(item)))
        }
        Block::KeyFigures(figures) => {
            figures.iter().try_for_each(|figure| writeln!(out, "- {}", key_figure(figure, mark)))
        }
        Block::Table(table) => write!(out, "{}", table_text(table)),
        Block::Chart(chart) => write!(out, "{}", table_text(&chart.table)),
        Block::Claim(claim) => write!(out, "{}", claim_text(claim)),
        Block::Listing { caption, text } => {
            // A fence must be longer than any run of backticks inside it.
            let fence = "`".repeat(longest_ticks(text).max(2) + 1);
            writeln!(out, "{}:\n\n{fence}\n{text}\n{fence}", escaped(caption))
        }
    };
}

/// Returns the first screen: a paragraph for each part, and the command as a code block.
fn lead_text(lead: &Lead) -> String {
    let mut out = format!("**{}** {}\n", escaped(&lead.figure), escaped(&lead.context));
    if !lead.basis.is_empty() {
        let _ = writeln!(out, "({})", escaped(&lead.basis()));
    }
    for (label, text, _) in lead.measures() {
        let _ = writeln!(out, "\n**{label}:** {}", escaped(text));
    }
    let claim = lead.claim.as_ref();
    // The claim is a sentence of its own here.
    let claim = claim.map_or(String::new(), |claim| format!(" {}.", escaped(&capitalised(claim))));
    let _ = writeln!(out, "\n**{}: {}.**{claim}", lead.label, lead.status);
    if !lead.evidence.is_empty() {
        out.push('\n');
    }
    for item in &lead.evidence {
        let _ = writeln!(out, "- {}", escaped(item));
    }
    for (index, step) in lead.next.iter().enumerate() {
        let label = if index == 0 { "Next" } else { "Then" };
        let _ = writeln!(out, "\n**{label}:** {}", escaped(&step.text));
        if let Some(command) = &step.command {
            let fence = "`".repeat(longest_ticks(command).max(2) + 1);
            // In a code block nothing is escaped, so control characters are replaced beforehand.
            let _ = writeln!(out, "\n{fence}sh\n{}\n{fence}", printable(command, Lines::One));
        }
    }
    out
}

fn key_figure(figure: &KeyFigure, mark: Option<&str>) -> String {
    let (value, interval) = figure.scale.estimate(&figure.estimate);
    let interval = interval.map_or("no interval".into(), |(low, high)| format!("{low} to {high}"));
    let layer = figure.layer.map_or(String::new(), |layer| format!(", {layer}"));
    let share = figure.ceiling.as_ref().map_or(String::new(), |(share, name)| {
        format!(", {} % of {}", percent(*share), escaped(name))
    });
    // A valid figure is the normal case and needs no word.
    let standing = if figure.validity == Validity::Valid {
        String::new()
    } else {
        format!(", {}", figure.validity.word())
    };
    let mark = mark.map_or(String::new(), |mark| format!(", {mark}"));
    let beside =
        figure.beside.as_ref().map_or(String::new(), |told| format!(", {}", escaped(told)));
    format!(
        "{}: **{value} {}** ({interval}; n {}{layer}, {}{share}{mark}{standing}){beside}; {}",
        escaped(&figure.label),
        figure.scale.symbol,
        figure.estimate.n,
        figure.direction,
        escaped(&figure.at)
    )
}

fn table_text(table: &Table) -> String {
    let marked = table.mark.map_or(String::new(), |mark| format!(" ({mark})"));
    let mut out = format!("**{}**{marked}\n\n", escaped(&table.caption));
    let long = table.rows.len() > LONGEST_OPEN;
    if long {
        // GitHub folds it; elsewhere the table is shown as it is.
        let _ = write!(out, "<details><summary>{} rows</summary>\n\n", table.rows.len());
    }
    out += &markdown_table(table);
    if long {
        out += "\n</details>\n";
    }
    if let Some(note) = &table.note {
        let _ = writeln!(out, "\n{}", escaped(note));
    }
    out
}

/// Returns the head and the rows of `table` as Markdown, without caption and note.
#[must_use]
pub fn markdown_table(table: &Table) -> String {
    let heads = table.columns.iter().map(|column| match column.qualifiers() {
        qualifiers if qualifiers.is_empty() => escaped(&column.head),
        qualifiers => format!("{} ({qualifiers})", escaped(&column.head)),
    });
    let rules = table
        .columns
        .iter()
        // Numbers are right-aligned, so that their digits can be compared.
        .map(|column| if column.kind == ColumnKind::Text { "---" } else { "---:" }.to_owned());
    let mut out = String::new();
    for cells in [heads.collect::<Vec<_>>(), rules.collect()] {
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    for (row, shown) in table.rows.iter().zip(table.shown()) {
        let mut cells: Vec<String> = shown.iter().map(|cell| escaped(cell)).collect();
        if row.tone != Tone::Plain
            // Markdown has no tint, so the first cell carries the emphasis.
            && let Some(first) = cells.first_mut()
        {
            *first = format!("**{first}**");
        }
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

fn claim_text(claim: &Claim) -> String {
    let verdict = capitalised(claim.verdict.word());
    let mut out = format!(
        "**{verdict}: {}** ({}; rule `{}`)\n",
        escaped(&claim.claim),
        escaped(&claim.subject),
        claim.rule
    );
    for (label, items) in &claim.parts {
        let _ = write!(out, "\n{label}:\n\n");
        for item in items {
            let _ = writeln!(out, "- {}", escaped(item));
        }
    }
    out
}

/// `text` without anything Markdown or HTML would read, on one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // What stands between backticks is code already, and nothing in it is markup but what parts the
    // cells of a table.
    let mut rest = text;
    while let Some((before, (quoted, after))) =
        rest.split_once('`').and_then(|(before, open)| Some((before, open.split_once('`')?)))
    {
        out += &plain(before);
        // A backslash is literal in code but not outside, and a line break ends a table row.
        let is_code = !quoted.is_empty() && !quoted.contains(['\n', '\r', '\\']);
        out += &if is_code {
            format!("`{}`", quoted.replace('|', "\\|"))
        } else {
            plain(&format!("`{quoted}`"))
        };
        rest = after;
    }
    out + &plain(rest)
}

/// `text` with nothing in it that is markup, on one line.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' => out.extend(['\\', c]),
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn longest_ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_backticks_is_code_and_nothing_is_markup() {
        assert_eq!(
            escaped("its own (`cpus` and `a|b_c`), a_b"),
            "its own (`cpus` and `a\\|b_c`), a\\_b"
        );
        assert_eq!(escaped("one ` alone <i>"), "one \\` alone \\<i\\>");
        assert_eq!(escaped("``<b>"), "\\`\\`\\<b\\>");
    }
}
