//! One self-contained HTML page: template, style sheet, chart bundle and data, without any request.
//!
//! The page is complete without JavaScript: it contains every chart's table. The script draws the
//! charts and folds the tables. A content security policy forbids requests, so a report looks the
//! same offline, from disk and in ten years.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, HtmlEscape};
use serde::Serialize;
use serde_json::Value;

use super::spec::chart_spec;
use super::{ReportError, path};
use crate::curves::capitalised;
use crate::document::{Block, Cell, Claim, ColumnKind, Document, KeyFigure, Plot, Table, Tone};
use crate::number::{percent, round_half_up};
use crate::words::{STATUS_WORDS, origin_label};

const TEMPLATE: &str = include_str!("../../templates/report.html");
/// From here on digits are grouped by three.
const GROUPED_FROM: usize = 5;
/// Figures spread wider than this are tinted by their logarithm.
const LOG_TINT_SPREAD: f64 = 50.0;
/// A chart with more lines or places than this needs the whole width.
const MOST_MARKS_IN_HALF: usize = 4;
const MOST_PLACES_IN_HALF: usize = 12;
/// A table longer than this scrolls in a box of its own.
const LONGEST_IN_PAGE: usize = 40;
/// A cell with more letters than this holds a sentence, which needs a column it can be read in.
const LONG_CELL: usize = 40;
/// Tints above this need light letters.
const DARK_TINT: f64 = 0.66;

/// Web site around a page: its links, and addresses of the files that all of its pages share.
#[derive(Clone, Debug, Serialize)]
pub struct Site<'a> {
    /// Addresses of its style sheets.
    pub styles: &'a [&'a str],
    /// Address of the chart bundle.
    pub script: &'a str,
    /// Links above the title: label and address, the first one to the start.
    pub links: &'a [(String, String)],
}

/// Style sheet of every page.
pub const STYLE: &str = include_str!("../../assets/src/report.css");
/// Script that draws the charts of a page.
pub const SCRIPT: &str = include_str!("../../assets/dist/charts.js");

/// Renders `document` as a page of `site`, without style and script of its own.
///
/// # Errors
/// If the template fails; no document causes that by itself.
pub fn page(document: &Document, site: &Site<'_>) -> Result<Vec<u8>, ReportError> {
    render(document, Some(site))
}

pub(super) fn render(document: &Document, site: Option<&Site<'_>>) -> Result<Vec<u8>, ReportError> {
    let refused = |error: minijinja::Error| ReportError::Html(format!("{error:#}"));
    let mut environment = Environment::new();
    // Texts come from ledgers and peers, so everything is escaped unless marked as safe.
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_filter("code", code);
    environment.add_template("report.html", TEMPLATE).map_err(refused)?;
    let sections: Vec<SectionView> = document
        .sections
        .iter()
        .map(|section| SectionView {
            id: section.id,
            title: section.title,
            blocks: beside_one_another(&section.blocks)
                .into_iter()
                .zip(&section.blocks)
                .map(|(half, block)| block_view(block, half, document.mark()))
                .collect(),
        })
        .collect();
    let charts = document.sections.iter().flat_map(|section| &section.blocks);
    let drawn = charts
        .clone()
        // A matrix is a tinted table and needs no script.
        .any(|block| matches!(block, Block::Chart(chart) if chart.plot != Plot::Heat));
    let page =
        environment.get_template("report.html").map_err(refused)?.render(minijinja::context! {
            title => document.title.clone(),
            subtitle => document.subtitle.clone(),
            mark => document.mark(),
            path => origin_label(document.origin),
            version => document.version.clone(),
            sections => minijinja::Value::from(Serde(&sections)),
            style => STYLE,
            script => drawn.then_some(SCRIPT),
            status_words => STATUS_WORDS,
            site => site.map(|site| minijinja::Value::from(Serde(site))),
        });
    Ok(super::shown(page.map_err(refused)?))
}

/// `text` with what stands between backticks as code; everything else is escaped, a single backtick
/// stays.
fn code(text: &str) -> minijinja::Value {
    let mut page = String::new();
    let mut rest = text;
    while let Some((before, (quoted, after))) =
        rest.split_once('`').and_then(|(before, open)| Some((before, open.split_once('`')?)))
    {
        page += &format!("{}<code>{}</code>", HtmlEscape(before), HtmlEscape(quoted));
        rest = after;
    }
    minijinja::Value::from_safe_string(page + &HtmlEscape(rest).to_string())
}

#[derive(Serialize)]
struct SectionView {
    id: &'static str,
    title: &'static str,
    blocks: Vec<BlockView>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum BlockView {
    Lead {
        surety: &'static str,
        figure: String,
        context: String,
        basis: String,
        /// Label, text, and length of a bar in per cent.
        measures: Vec<(&'static str, String, Option<f64>)>,
        label: &'static str,
        status: &'static str,
        claim: Option<String>,
        evidence: Vec<String>,
        next: Vec<StepView>,
    },
    Path {
        title: String,
        drawing: String,
        mark: Option<&'static str>,
        table: TableView,
    },
    Paragraph {
        text: String,
    },
    List {
        items: Vec<String>,
    },
    Figures {
        figures: Vec<FigureView>,
    },
    Table {
        table: TableView,
    },
    Chart {
        title: String,
        summary: String,
        spec: Option<String>,
        half: bool,
        mark: Option<&'static str>,
        table: TableView,
    },
    Claim {
        verdict: String,
        subject: String,
        claim: String,
        parts: Vec<(&'static str, Vec<String>)>,
        rule: String,
    },
    Listing {
        caption: String,
        text: String,
    },
}

#[derive(Serialize)]
struct StepView {
    text: String,
    /// Words of the command: a line may break between them only.
    command: Vec<String>,
}

#[derive(Serialize)]
struct FigureView {
    label: String,
    value: String,
    unit: &'static str,
    interval: Option<(String, String)>,
    confidence: Option<String>,
    n: u32,
    layer: Option<String>,
    direction: String,
    share: Option<String>,
    /// Length of the share's bar, per cent.
    bar: Option<f64>,
    ceiling: Option<String>,
    beside: Option<String>,
    at: String,
    standing: Option<&'static str>,
    mark: Option<&'static str>,
}

#[derive(Serialize)]
struct TableView {
    id: String,
    caption: String,
    note: Option<String>,
    folded: bool,
    /// True if it scrolls in a box of its own on a screen.
    tall: bool,
    heat: bool,
    mark: Option<&'static str>,
    heads: Vec<HeadView>,
    rows: Vec<RowView>,
}

#[derive(Serialize)]
struct HeadView {
    text: String,
    unit: String,
    number: bool,
}

#[derive(Serialize)]
struct RowView {
    tone: &'static str,
    cells: Vec<CellView>,
}

#[derive(Serialize)]
struct CellView {
    text: String,
    interval: Option<String>,
    number: bool,
    missing: bool,
    /// True for a quantity in words, which stays on one line.
    quantity: bool,
    /// True for a sentence.
    long: bool,
    /// 0 to 1 within the matrix.
    tint: Option<String>,
    dark: bool,
}

/// Returns the blocks of half width: pairs of small charts that follow each other.
fn beside_one_another(blocks: &[Block]) -> Vec<bool> {
    let mut half = vec![false; blocks.len()];
    let mut at = 0;
    while at + 1 < blocks.len() {
        let pair = is_small(&blocks[at]) && is_small(&blocks[at + 1]);
        // Only pairs are halved, so that no half line stays empty.
        half[at..at + 2].fill(pair);
        at += if pair { 2 } else { 1 };
    }
    half
}

/// Returns whether a block fits in half the width of the page.
fn is_small(block: &Block) -> bool {
    match block {
        Block::Chart(chart) => {
            // Two small charts fit beside each other; larger ones need the whole width.
            let few = chart.marks.len() <= MOST_MARKS_IN_HALF
                && chart.table.rows.len() <= MOST_PLACES_IN_HALF;
            chart.plot == Plot::Series
                || few && !matches!(chart.plot, Plot::Heat | Plot::Percentiles)
        }
        _ => false,
    }
}

fn block_view(block: &Block, half: bool, mark: Option<&'static str>) -> BlockView {
    match block {
        Block::Lead(lead) => BlockView::Lead {
            surety: lead.surety,
            figure: lead.figure.clone(),
            context: lead.context.clone(),
            basis: lead.basis(),
            measures: lead
                .measures()
                .map(|(label, text, reached)| {
                    // A share may exceed one within its tolerance, and a bar cannot.
                    let bar = reached.map(|share| (share * 100.0).clamp(0.0, 100.0));
                    (label, text.to_owned(), bar)
                })
                .collect(),
            label: lead.label,
            status: lead.status,
            claim: lead.claim.as_deref().map(capitalised),
            evidence: lead.evidence.clone(),
            next: lead
                .next
                .iter()
                .map(|step| StepView {
                    text: step.text.clone(),
                    command: step.command.iter().flat_map(|line| words_of(line)).collect(),
                })
                .collect(),
        },
        Block::Path(picture) => BlockView::Path {
            title: picture.title.clone(),
            drawing: path::draw(picture),
            mark,
            table: table_view(&picture.table, false),
        },
        Block::Paragraph(text) => BlockView::Paragraph { text: text.clone() },
        Block::List(items) => BlockView::List { items: items.clone() },
        Block::KeyFigures(figures) => BlockView::Figures {
            figures: figures.iter().map(|figure| figure_view(figure, mark)).collect(),
        },
        Block::Table(table) => BlockView::Table { table: table_view(table, false) },
        Block::Chart(chart) => BlockView::Chart {
            title: chart.title.clone(),
            summary: chart.summary.clone(),
            spec: (chart.plot != Plot::Heat).then(|| script_safe(&chart_spec(chart))),
            half,
            mark,
            table: table_view(&chart.table, chart.plot == Plot::Heat),
        },
        Block::Claim(Claim { verdict, subject, claim, parts, rule }) => BlockView::Claim {
            verdict: capitalised(verdict.word()),
            subject: subject.clone(),
            claim: claim.clone(),
            parts: parts.clone(),
            rule: rule.clone(),
        },
        Block::Listing { caption, text } => {
            BlockView::Listing { caption: caption.clone(), text: text.clone() }
        }
    }
}

fn words_of(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn figure_view(figure: &KeyFigure, mark: Option<&'static str>) -> FigureView {
    let (value, interval) = figure.scale.estimate(&figure.estimate);
    let share = figure.ceiling.as_ref().map(|(share, _)| *share);
    FigureView {
        label: figure.label.clone(),
        value: grouped(&value),
        unit: figure.scale.symbol,
        interval: interval.map(|(low, high)| (grouped(&low), grouped(&high))),
        confidence: figure.estimate.confidence.map(|c| round_half_up(c * 100.0, 0)),
        n: figure.estimate.n,
        layer: figure.layer.map(|layer| layer.to_string()),
        direction: figure.direction.to_string(),
        share: share.map(percent),
        // A share may exceed one within its tolerance, and a bar cannot.
        bar: share.map(|share| (share * 100.0).clamp(0.0, 100.0)),
        ceiling: figure.ceiling.as_ref().map(|(_, name)| name.clone()),
        beside: figure.beside.clone(),
        at: figure.at.clone(),
        standing: (figure.validity != linerate_model::Validity::Valid)
            .then_some(figure.validity.word()),
        mark,
    }
}

fn table_view(table: &Table, heat: bool) -> TableView {
    let heads = table.columns.iter().map(|column| HeadView {
        text: column.head.clone(),
        unit: column.qualifiers(),
        number: column.kind != ColumnKind::Text,
    });
    let tint = if heat { tint(table) } else { None };
    let decimals = table.decimals();
    let rows = table.rows.iter().map(|row| RowView {
        tone: match row.tone {
            Tone::Plain => "",
            Tone::Marked => "marked",
            Tone::Refused => "refused",
        },
        cells: row
            .cells
            .iter()
            .zip(&table.columns)
            .zip(&decimals)
            .map(|((cell, column), decimals)| {
                let share = tint.as_ref().and_then(|tint| tint(cell));
                let (text, interval) = match cell {
                    Cell::Estimate(estimate) => match column.scale.estimate(estimate) {
                        (value, Some((low, high))) => {
                            (value, Some(between(&grouped(&low), &grouped(&high))))
                        }
                        (value, None) => (value, None),
                    },
                    other => (other.shown(&column.scale, *decimals), None),
                };
                let number = column.kind != ColumnKind::Text;
                CellView {
                    text: if matches!(cell, Cell::Number(_) | Cell::Estimate(_)) {
                        grouped(&text)
                    } else {
                        text
                    },
                    interval,
                    number,
                    missing: matches!(cell, Cell::Missing(_)),
                    quantity: matches!(cell, Cell::Text(words) if is_quantity(words)),
                    long: matches!(cell, Cell::Text(words) if words.chars().count() > LONG_CELL),
                    tint: share.map(|share| round_half_up(share * 100.0, 0)),
                    dark: share.is_some_and(|share| share > DARK_TINT),
                }
            })
            .collect(),
    });
    TableView {
        id: table.id.clone(),
        caption: table.caption.clone(),
        note: table.note.clone(),
        // A matrix is its own drawing.
        folded: table.folded && !heat,
        tall: table.rows.len() > LONGEST_IN_PAGE,
        heat,
        mark: table.mark,
        heads: heads.collect(),
        rows: rows.collect(),
    }
}

/// Where an estimate lies between the least and the most of `table`, 0 to 1; by its logarithm if
/// they are far apart.
fn tint(table: &Table) -> Option<impl Fn(&Cell) -> Option<f64> + use<>> {
    let figures = table
        .rows
        .iter()
        .flat_map(|row| &row.cells)
        .filter(|cell| matches!(cell, Cell::Estimate(_)));
    let values = figures.filter_map(Cell::value).filter(|value| value.is_finite() && *value > 0.0);
    let (low, high) =
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    // Figures far apart would leave all but the largest without a tint.
    let log = high / low > LOG_TINT_SPREAD;
    (high > low).then_some(move |cell: &Cell| {
        let Cell::Estimate(estimate) = cell else { return None };
        let share = if log {
            (estimate.value / low).ln() / (high / low).ln()
        } else {
            (estimate.value - low) / (high - low)
        };
        share.is_finite().then(|| share.clamp(0.0, 1.0))
    })
}

/// Returns true if `words` are a number with its interval and unit.
fn is_quantity(words: &str) -> bool {
    let begins =
        words.trim_start_matches(['+', '-', '>', ' ']).starts_with(|c: char| c.is_ascii_digit());
    // A sentence may begin with a digit too.
    begins && words.chars().count() <= LONG_CELL
}

/// Both ends of an interval: a dash beside a minus would be read as another one.
fn between(low: &str, high: &str) -> String {
    let is_negative = |end: &str| end.starts_with('-');
    let dash = if is_negative(low) || is_negative(high) { "to" } else { "–" };
    format!("{low} {dash} {high}")
}

/// A number with its digits grouped by narrow spaces from five digits on; other text as it is.
fn grouped(text: &str) -> String {
    let (whole, fraction) =
        text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let digits = whole.trim_start_matches('-');
    // Only plain digits are grouped; intervals and words keep their form.
    if digits.len() < GROUPED_FROM || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut out = whole[..whole.len() - digits.len()].to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    fraction.map_or(out.clone(), |fraction| format!("{out}.{fraction}"))
}

/// JSON that cannot end the script element it stands in.
fn script_safe(value: &Value) -> String {
    value
        .to_string()
        // A closing tag inside the data would end the script.
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_cannot_end_their_script_element() {
        let text = script_safe(&json!({ "name": "</script><script>alert(1)" }));
        assert!(!text.contains('<'));
        assert_eq!(
            serde_json::from_str::<Value>(&text).expect("still JSON")["name"],
            "</script><script>alert(1)"
        );
    }

    #[test]
    fn what_stands_between_backticks_is_code_and_nothing_is_markup() {
        let shown = |text: &str| code(text).to_string();
        assert_eq!(
            shown("its own (`cpus` and `<b>`), a & b"),
            "its own (<code>cpus</code> and <code>&lt;b&gt;</code>), a &amp; b"
        );
        assert_eq!(shown("one ` alone <i>"), "one ` alone &lt;i&gt;");
    }

    #[test]
    fn an_interval_of_negative_numbers_has_no_dash() {
        assert_eq!(between("12", "14"), "12 – 14");
        assert_eq!(between("-16 630", "-4026"), "-16 630 to -4026");
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!(grouped("1234567.5"), "1\u{202f}234\u{202f}567.5");
        assert_eq!(grouped("-12345"), "-12\u{202f}345");
        assert_eq!(grouped("1234"), "1234");
        assert_eq!(grouped("100000 B"), "100000 B");
    }
}
