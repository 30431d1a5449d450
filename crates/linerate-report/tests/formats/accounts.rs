//! Accounts of operations, for every workload that has one and in every format: the same four
//! counts, which add up.

use linerate_analysis::{JobStudy, MetricStudy, PointStudy};
use linerate_model::{Direction, Point};
use linerate_report::{Document, Format, compose, render, text};
use serde_json::{Value, json};

use crate::fixture;
use crate::json::{leaves, numbers, visible};
use crate::spreadsheets::unzip;

const NAMES: [&str; 4] =
    ["operations_due", "operations_answered", "operations_lost", "operations_open"];
/// Workloads, and the direction in which they count their operations.
const WORKLOADS: [(&str, Direction); 8] = [
    ("udp_rr", Direction::Sum),
    ("tcp_rr", Direction::Sum),
    ("tcp_crr", Direction::Sum),
    ("http", Direction::Sum),
    ("ftp", Direction::Sum),
    ("storage", Direction::Sum),
    ("frames", Direction::Tx),
    ("udp_stream", Direction::Rx),
];

/// Three runs of the `number`-th workload, in the order of [`NAMES`]: medians of them do not add
/// up.
fn runs(number: usize) -> [[u32; 4]; 3] {
    let base = 10_000 * (number as u32 + 1);
    [(3, 0), (0, 11), (5, 2)].map(|(lost, open)| {
        let due = base + 7 * lost + 100 * open;
        [due, due - lost - open, lost, open]
    })
}

fn metric(name: &str, direction: Direction, values: [u32; 3]) -> MetricStudy {
    let known = linerate_model::Metric::named(name).expect(name);
    MetricStudy {
        estimate: linerate_analysis::statistics::estimate(&values.map(f64::from)),
        values: values.map(|value| Some(f64::from(value))).into(),
        ..MetricStudy::new(known, direction)
    }
}

fn document() -> Document {
    let (campaign, mut study) = fixture::fixture();
    let of = |number: usize, (workload, direction): (&str, Direction)| {
        let runs = runs(number);
        let column = |at: usize| runs.map(|run| run[at]);
        let metrics = NAMES
            .iter()
            .enumerate()
            .map(|(at, name)| metric(name, direction, column(at)))
            .collect();
        let job =
            JobStudy { workload: workload.into(), metrics, ..study.points[0].jobs[0].clone() };
        PointStudy {
            sweep: workload.into(),
            parameters: Point::new(),
            jobs: vec![job],
            ..study.points[0].clone()
        }
    };
    study.points =
        WORKLOADS.into_iter().enumerate().map(|(number, workload)| of(number, workload)).collect();
    compose(&campaign, &study)
}

/// The numbers of `document` in `format`, in the order in which they are read; signs aside.
fn printed(document: &Document, format: Format) -> Vec<f64> {
    let of_text = |text: &str| {
        numbers(text).iter().filter_map(|number| number.parse().ok()).collect::<Vec<f64>>()
    };
    let artifacts = render(document, format).expect("renders");
    let of_artifact = |bytes: &[u8]| match format {
        Format::Xlsx => {
            let sheets = unzip(bytes)
                .into_iter()
                .filter(|(name, _)| name.starts_with("xl/worksheets/sheet"));
            let cells = |content: Vec<u8>| {
                let xml = String::from_utf8(content).expect("text");
                let cells = xml
                    .split("<v>")
                    .skip(1)
                    .filter_map(|cell| cell.split("</v>").next()?.parse().ok());
                cells.collect::<Vec<f64>>()
            };
            sheets.flat_map(|(_, content)| cells(content)).collect()
        }
        Format::Json => {
            let json: Value = serde_json::from_slice(bytes).expect("JSON");
            let (mut texts, mut figures) = (Vec::new(), Vec::new());
            leaves(&json["report"], &mut texts, &mut figures);
            figures
        }
        Format::Html => of_text(&visible(std::str::from_utf8(bytes).expect("text"))),
        _ => of_text(std::str::from_utf8(bytes).expect("text")),
    };
    artifacts.iter().flat_map(|artifact| of_artifact(&artifact.bytes)).collect()
}

#[test]
fn due_is_answered_and_lost_and_open_for_every_workload_in_every_format() {
    let document = document();
    let summary = text::summary(&document);
    let of_terminal: Vec<f64> =
        numbers(&summary).iter().filter_map(|number| number.parse().ok()).collect();
    let mut places = vec![("terminal".to_owned(), of_terminal)];
    for format in [Format::Html, Format::Md, Format::Csv, Format::Xlsx, Format::Json] {
        places.push((format!("{format:?}"), printed(&document, format)));
    }
    for (number, (workload, _)) in WORKLOADS.into_iter().enumerate() {
        let total = |at: usize| runs(number).iter().map(|run| f64::from(run[at])).sum::<f64>();
        let account = [0, 1, 2, 3].map(total);
        assert_eq!(account[0], account[1] + account[2] + account[3]);
        for (at, name) in NAMES.into_iter().enumerate() {
            let values = &document.study["points"][number]["jobs"][0]["metrics"][name]["values"];
            assert_eq!(
                *values,
                json!(runs(number).map(|run| f64::from(run[at]))),
                "{workload}: {name} of each trial"
            );
        }
        for (place, numbers) in &places {
            assert!(
                numbers.windows(4).any(|four| four == account),
                "{workload} in {place}: no {account:?}"
            );
        }
    }
}
