//! The made-up campaign in every format: snapshots of what is said, and properties every report
//! must have.

mod accounts;
mod derivations;
#[path = "../fixture/mod.rs"]
mod fixture;
mod hostile;
mod html;
mod json;
mod said;
mod spreadsheets;

use linerate_model::TestbedKind;
use linerate_report::document::Block;
use linerate_report::sections::SECTIONS;
use linerate_report::{Document, Format, compose, render, text};

fn document() -> Document {
    let (campaign, study) = fixture::fixture();
    compose(&campaign, &study)
}

fn one(format: Format) -> String {
    let mut artifacts = render(&document(), format).expect("renders");
    assert_eq!(artifacts.len(), 1);
    String::from_utf8(artifacts.remove(0).bytes).expect("text")
}

/// Compares with a file under `tests/snapshots`; `LINERATE_UPDATE=1` rewrites it.
fn assert_snapshot(name: &str, found: &str) {
    let path = format!("{}/tests/snapshots/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("LINERATE_UPDATE").is_some() {
        std::fs::write(&path, found).expect("writes the snapshot");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
    let line = differing.unwrap_or_else(|| expected.lines().count().min(found.lines().count()));
    let at = |text: &str| text.lines().nth(line).unwrap_or("(end)").to_owned();
    assert!(
        expected == found,
        "{name} differs at line {}:\n  expected {}\n  found    {}\n(LINERATE_UPDATE=1 accepts)",
        line + 1,
        at(&expected),
        at(found)
    );
}

#[test]
fn markdown_says_everything() {
    assert_snapshot("report.md", &one(Format::Md));
}

#[test]
fn terminal_summary_fits_the_answer() {
    let document = document();
    let tables: Vec<String> =
        document.tables().filter(|table| table.id.starts_with("answer")).map(text::table).collect();
    assert_snapshot("summary.txt", &format!("{}\n{}", text::summary(&document), tables.join("\n")));
}

#[test]
fn every_chart_has_its_table_and_its_marks_are_columns_of_it() {
    for section in document().sections {
        for block in section.blocks {
            if let Block::Chart(chart) = block {
                assert!(!chart.table.rows.is_empty(), "{}", chart.title);
                assert!(
                    chart.marks.iter().all(|mark| mark.column < chart.table.columns.len()),
                    "{}",
                    chart.title
                );
                assert!(!chart.summary.is_empty());
            }
        }
    }
}

#[test]
fn every_section_speaks_of_the_fixture_in_its_order() {
    let told: Vec<&str> = document().sections.iter().map(|section| section.id).collect();
    let mut expected: Vec<_> = SECTIONS.to_vec();
    expected.sort_by_key(|section| section.order);
    assert_eq!(told, expected.iter().map(|section| section.name).collect::<Vec<_>>());
}

#[test]
fn rows_are_as_long_as_the_heading() {
    for table in document().tables() {
        assert!(
            table.rows.iter().all(|row| row.cells.len() == table.columns.len()),
            "{}",
            table.id
        );
    }
}

#[test]
fn an_empty_campaign_still_makes_a_report() {
    let (mut campaign, _) = fixture::fixture();
    campaign.trials.clear();
    campaign.header.testbed = TestbedKind::Hosts;
    let document = compose(&campaign, &linerate_analysis::Study::default());
    assert_eq!(document.mark(), None);
    for format in Format::ALL {
        assert!(!render(&document, format).expect("renders").is_empty());
    }
}
