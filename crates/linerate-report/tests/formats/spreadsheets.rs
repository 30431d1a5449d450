//! CSV and XLSX: numbers as numbers.

use linerate_report::document::{Block, Cell, ColumnKind, Row, Table};
use linerate_report::{Artifact, Document, Format, render};
use std::io::Read as _;

use crate::{assert_snapshot, document};

#[test]
fn csv_has_one_file_for_each_table_with_unrounded_numbers() {
    let artifacts = render(&document(), Format::Csv).expect("renders");
    assert_eq!(artifacts.len(), document().tables().count());
    let named = |name: &str| -> String {
        let found = artifacts.iter().find(|artifact| artifact.file_name == name).expect(name);
        String::from_utf8(found.bytes.clone()).expect("text")
    };
    assert_snapshot("throughput-1-goodput.csv", &named("throughput-1-goodput.csv"));
    assert_snapshot("loss-3.csv", &named("loss-3.csv"));
    let mut names: Vec<&String> = artifacts.iter().map(|artifact| &artifact.file_name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), artifacts.len(), "no file overwrites another");
}

/// The cells of columns of numbers that are neither a number nor empty, in what the CSV of
/// `document` says.
fn unread(document: &Document) -> Vec<String> {
    let artifacts = render(document, Format::Csv).expect("renders");
    let mut found = Vec::new();
    for (table, artifact) in document.tables().zip(&artifacts) {
        assert_eq!(artifact.file_name, format!("{}.csv", table.id));
        let kinds = table.columns.iter().flat_map(|column| match column.kind {
            ColumnKind::Text => vec![false],
            ColumnKind::Number => vec![true],
            ColumnKind::Estimate => vec![true; 3],
        });
        let kinds: Vec<bool> = kinds.collect();
        let mut reader =
            csv::ReaderBuilder::new().has_headers(true).from_reader(&artifact.bytes[..]);
        for record in reader.records() {
            let record = record.expect("a record");
            assert_eq!(record.len(), kinds.len() + 2, "{}", artifact.file_name);
            let cells = record
                .iter()
                .zip(&kinds)
                .filter(|(_, is_number)| **is_number)
                .map(|(cell, _)| cell);
            let odd = cells
                .filter(|cell| !cell.is_empty() && !cell.parse::<f64>().is_ok_and(f64::is_finite));
            found.extend(odd.map(|cell| format!("{}: {cell}", artifact.file_name)));
        }
    }
    found
}

#[test]
fn a_cell_of_a_column_of_numbers_is_a_number_or_empty_in_csv() {
    let mut document = document();
    assert_eq!(unread(&document), [""; 0]);
    let missing = |table: &Table| {
        table.rows.iter().flat_map(|row| &row.cells).any(|cell| matches!(cell, Cell::Missing(_)))
    };
    assert!(document.tables().filter(|table| missing(table)).count() > 3, "the campaign has gaps");
    // A sentence, a dash and what is no number, where numbers belong.
    let table =
        document.sections.iter_mut().flat_map(|section| &mut section.blocks).find_map(|block| {
            match block {
                Block::Table(table)
                    if table.columns.iter().any(|column| column.kind == ColumnKind::Number) =>
                {
                    Some(table)
                }
                _ => None,
            }
        });
    let table = table.expect("a table of numbers");
    let column = table
        .columns
        .iter()
        .position(|column| column.kind == ColumnKind::Number)
        .expect("one of numbers");
    let odd =
        [Cell::text("not known here"), Cell::Missing("–".into()), Cell::Number(f64::INFINITY)];
    let rows: Vec<Row> = odd
        .map(|cell| {
            let mut row = table.rows[0].clone();
            row.cells[column] = cell;
            row
        })
        .into();
    table.rows.extend(rows);
    let id = table.id.clone();
    assert_eq!(unread(&document), [""; 0]);
    let artifacts = render(&document, Format::Csv).expect("renders");
    let found = artifacts
        .iter()
        .find(|artifact| artifact.file_name == format!("{id}.csv"))
        .expect("the table");
    let text = String::from_utf8_lossy(&found.bytes);
    assert!(
        text.contains(": not known here,") && text.contains(": not finite,"),
        "the reason stands beside: {text}"
    );
}

/// The files of a ZIP archive by name, read from its central directory (PKWARE APPNOTE 4.3.12).
pub(crate) fn unzip(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let word = |at: usize, bytes: usize| {
        (0..bytes).fold(0_usize, |sum, i| sum | (archive[at + i] as usize) << (8 * i))
    };
    let end =
        archive.windows(4).rposition(|window| window == b"PK\x05\x06").expect("an end record");
    let (count, mut at) = (word(end + 10, 2), word(end + 16, 4));
    let mut files = Vec::new();
    for _ in 0..count {
        let (method, size, name_len) = (word(at + 10, 2), word(at + 20, 4), word(at + 28, 2));
        let name =
            String::from_utf8(archive[at + 46..at + 46 + name_len].to_vec()).expect("a name");
        let local = word(at + 42, 4);
        let data = local + 30 + word(local + 26, 2) + word(local + 28, 2);
        let packed = &archive[data..data + size];
        let mut content = Vec::new();
        match method {
            0 => content.extend_from_slice(packed),
            _ => drop(
                flate2::read::DeflateDecoder::new(packed)
                    .read_to_end(&mut content)
                    .expect("deflated"),
            ),
        }
        files.push((name, content));
        at += 46 + name_len + word(at + 30, 2) + word(at + 32, 2);
    }
    files
}

#[test]
fn xlsx_holds_numbers_as_numbers_and_native_charts() {
    let Artifact { file_name, bytes } =
        render(&document(), Format::Xlsx).expect("renders").remove(0);
    assert_eq!(file_name, "report.xlsx");
    let files = unzip(&bytes);
    let text = |name: &str| -> String {
        let (_, content) = files.iter().find(|(file, _)| file == name).expect(name);
        String::from_utf8(content.clone()).expect("text")
    };
    let workbook = text("xl/workbook.xml");
    let sheets: Vec<&str> = workbook
        .split("<sheet name=\"")
        .skip(1)
        .filter_map(|part| part.split('"').next())
        .collect();
    assert_eq!(sheets.len(), 1 + document().tables().count());
    let index =
        sheets.iter().position(|name| *name == "throughput-1-goodput").expect("the sheet") + 1;
    let sheet = text(&format!("xl/worksheets/sheet{index}.xml"));
    // Row 14, 1 MiB messages by 1 MiB buffers: 937.6 Mbit/s as a number (no t="s"), not as text.
    let cell = sheet
        .split("<c r=\"H14\"")
        .nth(1)
        .and_then(|cell| cell.split("</c>").next())
        .expect("the cell");
    assert!(!cell.contains("t=\"s\"") && cell.ends_with("<v>937.6</v>"), "{cell}");
    assert!(sheet.contains("state=\"frozen\""));
    let properties = text("docProps/core.xml");
    assert!(
        properties.contains(">2026-11-21T00:05:00Z<"),
        "the campaign's time, which spreadsheets read: {properties}"
    );
    assert!(files.iter().filter(|(name, _)| name.starts_with("xl/charts/chart")).count() > 5);
    let again = render(&document(), Format::Xlsx).expect("renders").remove(0);
    assert_eq!(again.bytes, bytes, "the same document gives the same file");
}

#[test]
fn openpyxl_opens_the_workbook() {
    let python = |code: &str, argument: &str| {
        std::process::Command::new("python3").args(["-c", code, argument]).output()
    };
    if !python("import openpyxl", "").is_ok_and(|output| output.status.success()) {
        println!("SKIP: python3 with openpyxl is not installed");
        return;
    }
    let path = std::env::temp_dir().join(format!("linerate-report-{}.xlsx", std::process::id()));
    std::fs::write(&path, &render(&document(), Format::Xlsx).expect("renders")[0].bytes)
        .expect("writes");
    let code = "import sys, openpyxl; \
        print(openpyxl.load_workbook(sys.argv[1])['throughput-1-goodput']['H14'].value)";
    let output = python(code, path.to_str().expect("a plain path")).expect("runs");
    std::fs::remove_file(&path).expect("removes");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "937.6",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
