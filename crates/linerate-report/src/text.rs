//! Plain text for a terminal: the answer in a few lines, and tables with aligned columns.

use linerate_model::{Lines, Validity, printable};

use crate::document::{Block, ColumnKind, Document, KeyFigure, Table, Tone};
use crate::number::percent;

/// Tables that are answers by themselves.
const ANSWERS: [&str; 2] = ["searches-goals", "searches-answers"];
/// Space between two columns.
const GAP: &str = "  ";

/// `table` with aligned columns: words left, numbers right, units below the headings. Lines are as long as they must be;
/// a terminal that is too narrow wraps them.
#[must_use]
pub fn table(table: &Table) -> String {
    let heads: Vec<String> = table.columns.iter().map(|column| one_line(&column.head)).collect();
    let units: Vec<String> = table.columns.iter().map(super::document::Column::qualifiers).collect();
    let shown = table.shown().into_iter().map(|cells| cells.iter().map(|cell| one_line(cell)).collect());
    let body: Vec<(Vec<String>, Tone)> = shown.zip(table.rows.iter().map(|row| row.tone)).collect();
    let width = |index: usize| {
        let body = body.iter().map(|(cells, _)| &cells[index]);
        body.chain([&heads[index], &units[index]]).map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let aligned = cells.iter().zip(&widths).zip(&table.columns).map(|((text, width), column)| {
            let pad = " ".repeat(width - text.chars().count());
            if column.kind == ColumnKind::Text { format!("{text}{pad}") } else { format!("{pad}{text}") }
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

/// The answer of `document` in a few lines: what was measured, the key figures, whether they may be believed, and the
/// findings.
#[must_use]
pub fn summary(document: &Document) -> String {
    let mark = document.mark().map_or(String::new(), |mark| format!(" [{mark}]"));
    let mut out = format!("{}{mark}\n", one_line(&document.title));
    for block in document.sections.iter().filter(|section| section.id == "answer").flat_map(|section| &section.blocks) {
        match block {
            Block::Lead(lead) => out += &format!("\n{}\n", one_line(&lead.text)),
            Block::Paragraph(text) => out += &format!("\n{}\n", one_line(text)),
            Block::List(items) => items.iter().for_each(|item| out += &format!("\n  {}\n", one_line(item))),
            Block::KeyFigures(figures) => {
                let labels: Vec<String> = figures.iter().map(|figure| one_line(&figure.label)).collect();
                let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
                out.push('\n');
                for (figure, label) in figures.iter().zip(&labels) {
                    let pad = " ".repeat(width - label.chars().count());
                    out += &format!("  {label}{pad}  {}\n", one_line(&figure_line(figure)));
                }
            }
            _ => {}
        }
    }
    for block in document.sections.iter().filter(|section| section.id == "searches").flat_map(|section| &section.blocks)
    {
        if let Block::Table(answer) = block
            && ANSWERS.contains(&answer.id.as_str())
        {
            out += &format!("\n{}", table(answer));
        }
    }
    let claims = document.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
        Block::Claim(claim) => {
            let told = format!("{:?}: {} ({})", claim.verdict, claim.claim, claim.subject);
            Some(format!("  {}\n", one_line(&told)))
        }
        _ => None,
    });
    let claims: String = claims.collect();
    if !claims.is_empty() {
        out += &format!("\nFindings\n{claims}");
    }
    out
}

/// `text` as one line that no terminal obeys.
fn one_line(text: &str) -> String {
    printable(text, Lines::One).into_owned()
}

fn figure_line(figure: &KeyFigure) -> String {
    let (value, interval) = figure.scale.estimate(&figure.estimate);
    let interval = interval.map_or(String::new(), |(low, high)| format!(" [{low}, {high}]"));
    let layer = figure.layer.map_or(String::new(), |layer| format!(" {layer}"));
    let share =
        figure.ceiling.as_ref().map_or(String::new(), |(share, _)| format!(", {} % of ceiling", percent(*share)));
    let standing =
        if figure.validity == Validity::Valid { String::new() } else { format!(", {}", figure.validity.word()) };
    let beside = figure.beside.as_ref().map_or(String::new(), |told| format!(", {told}"));
    format!(
        "{value}{interval} {}{layer} {}{beside}, n {}{share}{standing} ({})",
        figure.scale.symbol, figure.direction, figure.estimate.n, figure.at
    )
}
