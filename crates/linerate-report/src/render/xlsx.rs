//! XLSX: a cover sheet, then a sheet for each table, with real numbers in the unit of the heading
//! and native charts.
//!
//! Numbers are written unrounded; how many digits are shown is a number format, so a sheet computes
//! with what was measured. Interval ends have columns of their own. Every text goes through
//! [`words`].

use std::borrow::Cow;
use std::collections::HashSet;

use linerate_model::{Lines, printable};

use rust_xlsxwriter::{
    Chart as NativeChart, ChartAxisLabelPosition, ChartFormat, ChartLine, ChartLineDashType,
    ChartMarker, ChartType, Color, ConditionalFormat2ColorScale, DocProperties, ExcelDateTime,
    Format, FormatAlign, FormatBorder, Workbook, Worksheet, XlsxError,
};

use super::ReportError;
use crate::document::{
    AxisScale, Block, Cell, Chart, Column, ColumnKind, Document, KeyFigure, Lead, Plot, Role,
    Table, Tone,
};
use crate::number::percent;

/// Longest name Excel takes for a sheet.
const SHEET_NAME_LENGTH: usize = 31;
/// Rows above the first row of data: caption, note, empty, heading.
const HEAD_ROW: u32 = 3;
/// Resolution of the workbook's creation time: one second.
const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;
/// Light tint of emphasised rows.
const MARKED: Color = Color::RGB(0xFF_F4_D6);
const REFUSED: Color = Color::RGB(0xFB_E0_DC);

pub(super) fn render(document: &Document) -> Result<Vec<u8>, ReportError> {
    let mut workbook = Workbook::new();
    let seconds = i64::try_from(document.started.0 / NANOSECONDS_PER_SECOND).unwrap_or(0);
    let created = ExcelDateTime::from_timestamp(seconds)?;
    // The time of the campaign, not of the rendering: the same document gives the same file.
    let properties =
        DocProperties::new().set_title(words(&document.title)).set_creation_datetime(&created);
    workbook.set_properties(&properties);
    let blocks: Vec<&Block> =
        document.sections.iter().flat_map(|section| &section.blocks).collect();
    // The cover has this name already.
    let mut taken = HashSet::from(["summary".to_owned()]);
    let names: Vec<String> =
        document.tables().map(|table| sheet_name(&table.id, &mut taken)).collect();
    cover(workbook.add_worksheet(), document, &names)?;
    let mut names = names.iter();
    for block in blocks {
        let (table, chart) = match block {
            Block::Table(table) => (table, None),
            Block::Chart(chart) => (&chart.table, Some(chart)),
            Block::Path(picture) => (&picture.table, None),
            _ => continue,
        };
        let name = names.next().expect("there is a name for each table");
        let worksheet = workbook.add_worksheet();
        worksheet.set_name(name)?;
        sheet(worksheet, table)?;
        if let Some(chart) = chart {
            draw(worksheet, name, chart)?;
        }
    }
    Ok(workbook.save_to_buffer()?)
}

/// `text` with control characters written out, as in every other format: the file format itself
/// keeps those of C0 only as `_x001B_`, which Excel turns back, and passes on C1 and what orders
/// text in both directions.
fn words(text: &str) -> Cow<'_, str> {
    printable(text, Lines::One)
}

/// `id` as a sheet's name: short enough, and not taken.
fn sheet_name(id: &str, taken: &mut HashSet<String>) -> String {
    // Excel refuses these characters in the name of a sheet.
    let clean: String =
        words(id).chars().map(|c| if "[]:*?/\\'".contains(c) { ' ' } else { c }).collect();
    let room = |suffix: &str| SHEET_NAME_LENGTH - suffix.chars().count();
    let short = |suffix: &str| clean.chars().take(room(suffix)).collect::<String>() + suffix;
    let mut name = short("");
    // The first sheet of the name has no number.
    let mut number = 2;
    // Excel takes names that differ only in case as equal.
    while !taken.insert(name.to_lowercase()) {
        name = short(&format!(" {number}"));
        number += 1;
    }
    name
}

fn cover(sheet: &mut Worksheet, document: &Document, names: &[String]) -> Result<(), XlsxError> {
    let title = Format::new().set_bold().set_font_size(18);
    let bold = Format::new().set_bold();
    let wrap = Format::new().set_text_wrap().set_align(FormatAlign::Top);
    sheet
        .set_name("Summary")?
        .set_column_width(0, 30)?
        .set_column_width(1, 16)?
        .set_column_width(2, 90)?;
    sheet.write_string_with_format(0, 0, words(&document.title), &title)?;
    let mark = document.mark().map_or(String::new(), |mark| format!(" ({mark})"));
    sheet.write_string(1, 0, words(&format!("{}{mark}", document.subtitle)))?;
    let mut row = 3;
    let answer = document
        .sections
        .iter()
        // Only the answer goes on the cover; all else has its own sheet.
        .filter(|section| section.id == "answer")
        .flat_map(|section| &section.blocks);
    for block in answer {
        match block {
            Block::Paragraph(text) => {
                // Merged cells do not grow by themselves.
                sheet.merge_range(row, 0, row, 2, &words(text), &wrap)?.set_row_height(row, 48)?;
                row += 1;
            }
            Block::Lead(lead) => {
                for (label, text) in lead_lines(lead) {
                    sheet.write_string_with_format(row, 0, words(&label), &bold)?;
                    sheet.merge_range(row, 1, row, 2, &words(&text), &wrap)?;
                    row += 1;
                }
                row += 1;
            }
            Block::KeyFigures(figures) => {
                for figure in figures {
                    let scale = &figure.scale;
                    let digits = number_format(scale.decimals_of(&figure.estimate)).set_bold();
                    sheet.write_string(
                        row,
                        0,
                        words(&format!("{}, {}", figure.label, scale.symbol)),
                    )?;
                    sheet.write_number_with_format(
                        row,
                        1,
                        // Values are stored in base units and shown in the unit of the heading.
                        figure.estimate.value / scale.factor,
                        &digits,
                    )?;
                    sheet.write_string(row, 2, words(&figure_note(figure, document.mark())))?;
                    row += 1;
                }
            }
            _ => {}
        }
    }
    row += 1;
    sheet.write_string_with_format(row, 0, "Sheets", &bold)?;
    for (name, table) in names.iter().zip(document.tables()) {
        row += 1;
        let link = format!("internal:'{name}'!A1");
        sheet.write_url_with_text(row, 0, link.as_str(), name)?;
        sheet.write_string(row, 2, words(&table.caption))?;
    }
    Ok(())
}

/// Returns the first screen as rows: a label and its text.
fn lead_lines(lead: &Lead) -> Vec<(String, String)> {
    let basis = if lead.basis.is_empty() { String::new() } else { format!(" ({})", lead.basis()) };
    let mut lines = vec![(lead.figure.clone(), format!("{}{basis}", lead.context))];
    lines.extend(lead.measures().map(|(label, text, _)| (label.to_owned(), text.to_owned())));
    let claim = lead.claim.clone().unwrap_or_default();
    lines.push((format!("{}: {}", lead.label, lead.status), claim));
    lines.extend(lead.evidence.iter().map(|item| ("Evidence".to_owned(), item.clone())));
    for (index, step) in lead.next.iter().enumerate() {
        let label = if index == 0 { "Next" } else { "Then" };
        lines.push((label.to_owned(), step.text.clone()));
        lines.extend(step.command.iter().map(|command| ("Command".to_owned(), command.clone())));
    }
    lines
}

fn figure_note(figure: &KeyFigure, mark: Option<&str>) -> String {
    let interval = figure
        .scale
        .estimate(&figure.estimate)
        .1
        .map_or("no interval".into(), |(low, high)| format!("{low} to {high}"));
    let layer = figure.layer.map(|layer| layer.to_string());
    let share =
        figure.ceiling.as_ref().map(|(share, name)| format!("{} % of {name}", percent(*share)));
    let parts = [
        Some(interval),
        Some(format!("n {}", figure.estimate.n)),
        layer,
        Some(figure.direction.to_string()),
        share,
    ];
    let told: Vec<String> = parts.into_iter().flatten().chain(mark.map(str::to_owned)).collect();
    let beside = figure.beside.as_ref().map_or(String::new(), |told| format!("; {told}"));
    format!("{}{beside}; {}", told.join(", "), figure.at)
}

fn number_format(decimals: usize) -> Format {
    let digits = if decimals == 0 { "0".to_owned() } else { format!("0.{}", "0".repeat(decimals)) };
    Format::new().set_num_format(digits)
}

/// How many sheet columns a column of the table takes.
fn width(column: &Column) -> u16 {
    // An estimate is followed by its two ends.
    if column.kind == ColumnKind::Estimate { 3 } else { 1 }
}

/// The sheet column where column `index` of the table begins.
fn place(table: &Table, index: usize) -> u16 {
    table.columns[..index].iter().map(width).sum()
}

fn sheet(sheet: &mut Worksheet, table: &Table) -> Result<(), XlsxError> {
    let mark = table.mark.map_or(String::new(), |mark| format!(" ({mark})"));
    sheet.write_string_with_format(
        0,
        0,
        words(&format!("{}{mark}", table.caption)),
        &Format::new().set_bold().set_font_size(14),
    )?;
    if let Some(note) = &table.note {
        sheet.write_string_with_format(
            1,
            0,
            words(note),
            &Format::new().set_font_color(Color::Gray),
        )?;
    }
    let head = Format::new()
        .set_bold()
        .set_text_wrap()
        .set_border_bottom(FormatBorder::Thin)
        .set_align(FormatAlign::Bottom);
    let shown = table.shown();
    for (index, column) in table.columns.iter().enumerate() {
        let at = place(table, index);
        // Coordinates stand in base units, so that a chart can lay them out.
        let coordinates = table
            .rows
            .iter()
            .any(|row| matches!(row.cells.get(index), Some(Cell::Coordinate { .. })));
        let qualifiers = if coordinates { column.base_qualifiers() } else { column.qualifiers() };
        let told = if qualifiers.is_empty() {
            column.head.clone()
        } else {
            format!("{} ({qualifiers})", column.head)
        };
        let head = if column.kind == ColumnKind::Text {
            head.clone()
        } else {
            head.clone().set_align(FormatAlign::Right)
        };
        sheet.write_string_with_format(HEAD_ROW, at, words(&told), &head)?;
        if column.kind == ColumnKind::Estimate {
            sheet.write_string_with_format(HEAD_ROW, at + 1, "low", &head)?;
            sheet.write_string_with_format(HEAD_ROW, at + 2, "high", &head)?;
        }
        let longest = shown.iter().map(|cells| cells[index].chars().count()).max().unwrap_or(0);
        let widest = if column.kind == ColumnKind::Text {
            longest.clamp(8, 60)
        } else {
            // Headings wrap in two lines, so half their length is wide enough.
            (told.chars().count() / 2 + 2).clamp(11, 24)
        };
        sheet.set_column_width(at, widest as f64 + 1.0)?;
    }
    let decimals = table.decimals();
    for (index, row) in table.rows.iter().enumerate() {
        let at = HEAD_ROW + 1 + u32::try_from(index).unwrap_or(u32::MAX);
        for (column_index, cell) in row.cells.iter().enumerate() {
            let format = number_format(decimals[column_index]);
            write_cell(
                sheet,
                at,
                place(table, column_index),
                cell,
                &table.columns[column_index],
                row.tone,
                &format,
            )?;
        }
    }
    // With two columns, frozen ones would leave nothing to scroll.
    let first_words = u16::from(table.columns.len() > 2);
    sheet.set_freeze_panes(HEAD_ROW + 1, first_words)?.set_landscape().set_print_fit_to_pages(1, 0);
    // Printed pages repeat the heading.
    sheet.set_repeat_rows(HEAD_ROW, HEAD_ROW)?;
    Ok(())
}

fn write_cell(
    sheet: &mut Worksheet,
    row: u32,
    at: u16,
    cell: &Cell,
    column: &Column,
    tone: Tone,
    plain: &Format,
) -> Result<(), XlsxError> {
    let tinted = |format: Format| with_tone(format, tone);
    let scale = &column.scale;
    match cell {
        Cell::Text(text) => {
            sheet.write_string_with_format(row, at, words(text), &tinted(Format::new()))?;
        }
        Cell::AtLeast(_) => {
            let format = Format::new().set_align(FormatAlign::Right);
            // "More than" is not a number, so it stays a text and is left out of sums.
            sheet.write_string_with_format(row, at, cell.shown(scale, 0), &tinted(format))?;
        }
        Cell::Missing(why) => {
            let format = Format::new().set_font_color(Color::Gray).set_align(FormatAlign::Right);
            sheet.write_string_with_format(row, at, words(why), &tinted(format))?;
        }
        Cell::Coordinate { value, .. } => {
            sheet.write_number_with_format(row, at, *value, &tinted(Format::new()))?;
        }
        Cell::Number(value) => {
            sheet.write_number_with_format(
                row,
                at,
                value / scale.factor,
                &tinted(plain.clone()),
            )?;
        }
        Cell::Estimate(estimate) => {
            let format = tinted(number_format(scale.decimals_of(estimate)));
            sheet.write_number_with_format(row, at, estimate.value / scale.factor, &format)?;
            for (offset, end) in [(1, estimate.low), (2, estimate.high)] {
                // Excel has no infinity, so an open end stays empty.
                if let Some(end) = end.filter(|end| end.is_finite()) {
                    sheet.write_number_with_format(
                        row,
                        at + offset,
                        end / scale.factor,
                        &format,
                    )?;
                }
            }
        }
    }
    Ok(())
}

fn with_tone(format: Format, tone: Tone) -> Format {
    match tone {
        Tone::Plain => format,
        Tone::Marked => format.set_background_color(MARKED),
        Tone::Refused => format.set_background_color(REFUSED),
    }
}

/// A native chart beside the table; a heat map tints the cells instead.
fn draw(sheet: &mut Worksheet, name: &str, chart: &Chart) -> Result<(), XlsxError> {
    let table = &chart.table;
    // Rows are counted from 0, and both ends belong to the range.
    let (first, last) = (HEAD_ROW + 1, HEAD_ROW + u32::try_from(table.rows.len()).unwrap_or(0));
    if table.rows.is_empty() {
        return Ok(());
    }
    if chart.plot == Plot::Heat {
        for mark in &chart.marks {
            let at = place(table, mark.column);
            let tint = ConditionalFormat2ColorScale::new()
                .set_minimum_color("F3F7FB")
                .set_maximum_color("4A8FC7");
            sheet.add_conditional_format(first, at, last, at, &tint)?;
        }
        return Ok(());
    }
    // Bars have names on their axis and no numbers, so it has no scale.
    let categories = matches!(chart.plot, Plot::StackedBars | Plot::GroupedBars);
    let mut native = NativeChart::new(match chart.plot {
        Plot::StackedBars => ChartType::ColumnStacked,
        Plot::GroupedBars => ChartType::Column,
        Plot::Points => ChartType::Scatter,
        _ => ChartType::ScatterStraightWithMarkers,
    });
    let base = table
        .columns
        .get(chart.marks.first().map_or(1, |mark| mark.column))
        .map_or("", |column| column.scale.symbol);
    native.title().set_name(&*words(&chart.title));
    let x = &table.columns[0];
    let x_name = match x.base_qualifiers() {
        qualifiers if qualifiers.is_empty() => x.head.clone(),
        qualifiers => format!("{} ({qualifiers})", x.head),
    };
    native.x_axis().set_name(&*words(&x_name));
    native.y_axis().set_name(&*words(&format!("{} ({base})", chart.y_name)));
    if !categories && chart.x_scale == AxisScale::Log2 {
        native.x_axis().set_log_base(2);
    }
    if chart.y_scale == AxisScale::Log10 {
        native.y_axis().set_log_base(10);
    }
    // Labels stay at the bottom even where values are negative.
    native.x_axis().set_label_position(ChartAxisLabelPosition::Low);
    for mark in &chart.marks {
        let at = place(table, mark.column);
        let series = native.add_series();
        series
            .set_name(&*words(&mark.name))
            .set_categories((name, first, 0, last, 0))
            .set_values((name, first, at, last, at));
        match mark.role {
            Role::Ceiling(_) => {
                let mut dashes = ChartLine::new();
                dashes.set_dash_type(ChartLineDashType::Dash).set_color(Color::Gray);
                series
                    .set_format(ChartFormat::new().set_line(&dashes))
                    .set_marker(ChartMarker::new().set_none());
            }
            // A metric of another unit needs its own axis.
            Role::Second => {
                series.set_secondary_axis(true);
            }
            Role::Line | Role::Bar => {}
        }
    }
    native.set_width(860).set_height(460);
    // One empty column separates the chart from the table.
    let beside = place(table, table.columns.len()) + 1;
    sheet.insert_chart(HEAD_ROW, beside, &native)?;
    Ok(())
}
