//! The made-up campaign in every format: snapshots of what is said, and properties every report must have.

mod fixture;

use std::collections::BTreeSet;
use std::io::Read as _;

use linerate_analysis::{JobStudy, Study};
use linerate_model::{Direction, TestbedKind, Validity};
use linerate_report::document::{Block, Cell, ColumnKind, Row, Table};
use linerate_report::sections::SECTIONS;
use linerate_report::{Artifact, Document, Format, compose, render, study_json, text};
use serde_json::Value;

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

#[test]
fn json_has_the_stable_shape() {
    let (campaign, study) = fixture::fixture();
    let json = study_json(&campaign, &study);
    assert!(one(Format::Json) == format!("{json:#}\n"), "the file is that value");
    serde_json::from_str::<serde_json::Value>(&one(Format::Json)).expect("valid JSON");
    for (pointer, expected) in [
        ("/schema", "1"),
        ("/campaign/testbed", "\"lab\""),
        ("/campaign/emulated", "true"),
        ("/campaign/started", "\"2026-11-21T00:05:00Z\""),
        ("/points/0/parameters/params.message_size", "\"4 B\""),
        ("/points/0/jobs/0/metrics/goodput/unit", "\"bit/s\""),
        ("/points/0/jobs/0/metrics/goodput/layer", "\"L4\""),
        ("/points/0/jobs/0/metrics/goodput/direction", "\"tx\""),
        ("/points/0/jobs/0/metrics/goodput/n", "6"),
        ("/points/8/validity", "\"impossible\""),
        ("/points/8/jobs/0/metrics/goodput/estimate", "null"),
        ("/points/30/jobs/0/metrics/goodput/direction", "\"sum\""),
        ("/points/30/jobs/0/metrics/goodput_rx/direction", "\"rx\""),
        ("/points/0/ceilings/0/source", "\"IEEE 802.3 clause 4; RFC 9293; RFC 7323\""),
        ("/points/0/trials/0/intervals/seconds/0", "1.0"),
        ("/findings/0/verdict", "\"proven\""),
    ] {
        assert_eq!(json.pointer(pointer).map(ToString::to_string).as_deref(), Some(expected), "{pointer}");
    }
}

#[test]
fn a_number_that_is_not_finite_is_null_in_json_and_no_figure_elsewhere() {
    let (campaign, mut study) = fixture::fixture();
    let metric = &mut study.points[0].jobs[0].metrics[0];
    metric.estimate.as_mut().expect("an estimate").value = f64::INFINITY;
    metric.values[0] = Some(f64::NAN);
    let json = study_json(&campaign, &study);
    let goodput = json.pointer("/points/0/jobs/0/metrics/goodput").expect("goodput");
    assert!(goodput["estimate"].is_null() && goodput["values"][0].is_null());
    let document = compose(&campaign, &study);
    for format in Format::ALL {
        for artifact in render(&document, format).expect("renders") {
            let text = String::from_utf8_lossy(&artifact.bytes).into_owned();
            assert!(format == Format::Html || !text.contains("NaN"), "{}", artifact.file_name);
        }
    }
}

#[test]
fn an_impossible_point_has_no_figure_anywhere() {
    let document = document();
    let table = document.tables().find(|table| table.id == "throughput-1-goodput").expect("the table");
    let row =
        table.rows.iter().find(|row| row.cells[0] == Cell::Coordinate { value: 262_144.0, label: "256 KiB".into() });
    assert_eq!(row.expect("the row").cells[1], Cell::Missing("impossible".into()));
}

#[test]
fn one_direction_and_the_sum_of_both_are_told_apart() {
    let document = document();
    let figures = document.sections[0].blocks.iter().find_map(|block| match block {
        Block::KeyFigures(figures) => Some(figures),
        _ => None,
    });
    let told: Vec<(&str, Direction)> =
        figures.expect("key figures").iter().take(2).map(|figure| (figure.label.as_str(), figure.direction)).collect();
    assert_eq!(
        told,
        [("Highest TCP goodput", Direction::Tx), ("Highest TCP goodput, both directions", Direction::Sum)]
    );
}

#[test]
fn requests_are_told_by_rate_and_latency_never_by_what_they_carry() {
    let (campaign, mut study) = fixture::fixture();
    let point = study.points.iter_mut().find(|point| point.jobs[0].workload == "tcp_rr").expect("requests");
    let rate = point.jobs[0].metrics[0].clone();
    // Far above any stream's, as if payload counted.
    for name in ["goodput", "packet_rate"] {
        let mut incidental = rate.clone();
        incidental.name = name.into();
        incidental.estimate.as_mut().expect("an estimate").value = 1e15;
        point.jobs[0].metrics.push(incidental);
    }
    let summary = text::summary(&compose(&campaign, &study));
    let figures: Vec<&str> = summary.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(figures.iter().any(|line| line.starts_with("  Highest tcp_rr rate ")), "{summary}");
    assert!(!figures.iter().any(|line| line.contains("tcp_rr goodput") || line.contains("tcp_rr packet")), "{summary}");
    assert!(figures.iter().any(|line| line.starts_with("  Highest UDP goodput ")), "{summary}");
}

#[test]
fn every_stream_is_told_its_own_cost() {
    let (campaign, mut study) = fixture::fixture();
    let cost = |study: &Study| study.points[0].jobs[0].metric("cpu_seconds_per_gigabyte", Direction::Sum).cloned();
    let mut cheap = cost(&study).expect("the cost of a TCP stream");
    cheap.estimate.as_mut().expect("an estimate").value = 0.5;
    let datagrams = study.points.iter_mut().find(|point| point.jobs[0].workload == "udp_stream");
    datagrams.expect("datagrams").jobs[0].metrics.push(cheap);
    let summary = text::summary(&compose(&campaign, &study));
    let told = |label: &str| summary.lines().any(|line| line.trim_start().starts_with(label));
    assert!(told("Lowest TCP CPU cost") && told("Lowest UDP CPU cost"), "{summary}");
}

#[test]
fn an_expected_value_is_not_drawn_as_a_ceiling() {
    let document = document();
    let expected = document.tables().find(|table| table.id == "limits-expected").expect("the table");
    assert_eq!(expected.rows[0].cells[0], Cell::text("peer window over round-trip time"));
    let ceilings = document.tables().find(|table| table.id == "limits-ceilings").expect("the table");
    assert!(ceilings.rows.iter().all(|row| row.cells[0] == Cell::text("ethernet 1 Gbit/s, MTU 1500")));
    let page = one(Format::Html);
    let charts =
        page.split("<script type=\"application/json\"").skip(1).filter_map(|part| part.split("</script>").next());
    assert!(charts.into_iter().all(|chart| !chart.contains("expected")));
}

#[test]
fn losses_stand_where_they_were_found() {
    let document = document();
    let ledger = document.tables().find(|table| table.id == "loss-3").expect("the ledger");
    let column = |head: &str| ledger.columns.iter().position(|column| column.head == head).expect("the column");
    let count = |head: &str| ledger.rows.last().and_then(|row| row.cells[column(head)].value()).expect("a number");
    assert!(count("lost") > 0.0);
    assert_eq!(count("at receiver socket") + count("unexplained"), count("lost"));
    assert!(ledger.columns.iter().all(|column| column.head != "duplicates"), "nothing was received twice");
}

#[test]
fn what_a_controller_dropped_stands_where_loss_is_told_if_one_was_read() {
    let (campaign, mut study) = fixture::fixture();
    let told = |study: &Study| compose(&campaign, study).tables().find(|table| table.id == "loss-controllers").cloned();
    assert_eq!(told(&study), None, "no controller was read");
    let sample = study.points[0].jobs[0].metrics[0].clone();
    for (at, dropped) in [(0, 0.0), (1, 50.0)] {
        for (name, frames) in [("controller_received", 1000.0), ("controller_dropped", dropped)] {
            let mut read = sample.clone();
            (read.name, read.direction, read.ceiling) = (name.into(), Direction::Sum, None);
            read.estimate.as_mut().expect("an estimate").value = frames;
            study.points[at].jobs[0].metrics.push(read);
        }
    }
    let table = told(&study).expect("two points have readings");
    let share = table.columns.iter().position(|column| column.head == "of those received").expect("the share");
    let shares: Vec<Option<f64>> = table.rows.iter().map(|row| row.cells[share].value()).collect();
    assert_eq!(shares, [Some(0.0), Some(0.05)], "points without a reading are absent");
    assert!(table.columns.iter().any(|column| column.head == "retransmits"), "beside what TCP noticed");
}

#[test]
fn the_highest_is_the_highest_even_if_it_is_suspect_and_the_highest_valid_stands_beside_it() {
    let (campaign, mut study) = fixture::fixture();
    let best = study.points.iter_mut().find(|p| p.parameters.values().filter(|v| **v == "1 MiB").count() == 2);
    let best = best.expect("1 MiB by 1 MiB");
    best.validity = Validity::Suspect;
    for metric in best.jobs.iter_mut().flat_map(|job| &mut job.metrics).filter(|metric| metric.name == "goodput") {
        metric.estimate.as_mut().expect("an estimate").value *= 1.001;
    }
    let summary = text::summary(&compose(&campaign, &study));
    assert!(summary.contains("highest of valid points: "), "{summary}");
    let highest = summary.lines().find(|line| line.contains("Highest TCP goodput ")).expect("a maximum");
    assert!(highest.contains("message size 1 MiB, socket buffer 1 MiB"), "{summary}");
}

#[test]
fn html_is_one_page_that_fetches_nothing() {
    let page = one(Format::Html);
    let script = page.rfind("<script>").expect("the bundle");
    let markup = &page[..script];
    for outside in ["http://", "https://", "src=", "@import", "url(", "<link", "<iframe", "<img"] {
        assert!(!markup.contains(outside), "{outside}");
    }
    assert!(markup.contains("default-src 'none'"), "and the policy forbids it");
    assert_eq!(page.matches("<html").count(), 1);
    assert_eq!(page.matches("</script>").count(), page.matches("<script").count());
}

#[test]
fn html_is_well_formed_and_ordered() {
    let page = one(Format::Html);
    let markup = &page[..page.rfind("<script>").expect("the bundle")];
    let mut open: Vec<&str> = Vec::new();
    let mut ids: Vec<&str> = Vec::new();
    let mut heading = 0;
    let mut rest = markup;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find('>').expect("every tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().expect("a name");
        if let Some(id) = tag.split("id=\"").nth(1).filter(|_| tag.contains(" id=\"")) {
            ids.push(id.split('"').next().expect("a value"));
        }
        if let Some(level) =
            name.strip_prefix('h').and_then(|level| level.parse::<u32>().ok()).filter(|_| !tag.starts_with('/'))
        {
            assert!(level <= heading + 1, "h{level} after h{heading}");
            heading = level;
        }
        match name {
            "!doctype" | "meta" => {}
            // Elements of SVG close themselves.
            _ if tag.ends_with('/') => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "closes what was opened last"),
            "style" | "script" => {
                let close = format!("</{name}>");
                rest = &rest[rest.find(&close).expect("closed") + close.len()..];
            }
            _ => open.push(name),
        }
    }
    assert_eq!(open, ["html", "body"], "only the bundle and the end of the page follow");
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are unique");
}

#[test]
fn a_long_table_scrolls_in_its_box_and_a_short_one_stands_in_the_page() {
    let page = one(Format::Html);
    for table in document().tables() {
        let before = page.split(&format!("id=\"{}\">", table.id)).next().expect("the table");
        let open = before.rfind("<div class=\"").expect("its box");
        assert_eq!(before[open..].contains(" tall\""), table.rows.len() > 20, "{}", table.id);
    }
    assert!(document().tables().any(|table| table.rows.len() > 20), "or nothing was shown");
}

#[test]
fn every_chart_has_its_table_and_its_marks_are_columns_of_it() {
    for section in document().sections {
        for block in section.blocks {
            if let Block::Chart(chart) = block {
                assert!(!chart.table.rows.is_empty(), "{}", chart.title);
                assert!(chart.marks.iter().all(|mark| mark.column < chart.table.columns.len()), "{}", chart.title);
                assert!(!chart.summary.is_empty());
            }
        }
    }
}

#[test]
fn every_section_speaks_of_the_fixture_in_its_order() {
    let told: Vec<&str> = document().sections.iter().map(|section| section.id).collect();
    let mut expected: Vec<_> = SECTIONS.to_vec();
    expected.sort_by_key(|section| section.order());
    assert_eq!(told, expected.iter().map(|section| section.name()).collect::<Vec<_>>());
}

#[test]
fn rows_are_as_long_as_the_heading() {
    for table in document().tables() {
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()), "{}", table.id);
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

#[test]
fn names_from_outside_are_escaped_everywhere() {
    let (mut campaign, mut study) = fixture::fixture();
    let hostile = "</script><script>alert(1)</script>|=1+1";
    campaign.header.name = hostile.into();
    for point in &mut study.points {
        point.sweep = format!("={hostile}");
    }
    let document = compose(&campaign, &study);
    let text = |format| -> Vec<String> {
        let artifacts = render(&document, format).expect("renders");
        artifacts.into_iter().map(|artifact| String::from_utf8_lossy(&artifact.bytes).into_owned()).collect()
    };
    assert!(!text(Format::Html)[0].contains("<script>alert"));
    assert!(!text(Format::Md)[0].contains("<script>"));
    for file in text(Format::Csv) {
        assert!(!file.lines().flat_map(|line| line.split(',')).any(|field| field.trim_matches('"').starts_with('=')));
    }
}

/// The files of a ZIP archive by name, read from its central directory (PKWARE APPNOTE 4.3.12).
fn unzip(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let word = |at: usize, bytes: usize| (0..bytes).fold(0_usize, |sum, i| sum | (archive[at + i] as usize) << (8 * i));
    let end = archive.windows(4).rposition(|window| window == b"PK\x05\x06").expect("an end record");
    let (count, mut at) = (word(end + 10, 2), word(end + 16, 4));
    let mut files = Vec::new();
    for _ in 0..count {
        let (method, size, name_len) = (word(at + 10, 2), word(at + 20, 4), word(at + 28, 2));
        let name = String::from_utf8(archive[at + 46..at + 46 + name_len].to_vec()).expect("a name");
        let local = word(at + 42, 4);
        let data = local + 30 + word(local + 26, 2) + word(local + 28, 2);
        let packed = &archive[data..data + size];
        let mut content = Vec::new();
        match method {
            0 => content.extend_from_slice(packed),
            _ => drop(flate2::read::DeflateDecoder::new(packed).read_to_end(&mut content).expect("deflated")),
        }
        files.push((name, content));
        at += 46 + name_len + word(at + 30, 2) + word(at + 32, 2);
    }
    files
}

#[test]
fn xlsx_holds_numbers_as_numbers_and_native_charts() {
    let Artifact { file_name, bytes } = render(&document(), Format::Xlsx).expect("renders").remove(0);
    assert_eq!(file_name, "report.xlsx");
    let files = unzip(&bytes);
    let text = |name: &str| -> String {
        let (_, content) = files.iter().find(|(file, _)| file == name).expect(name);
        String::from_utf8(content.clone()).expect("text")
    };
    let workbook = text("xl/workbook.xml");
    let sheets: Vec<&str> =
        workbook.split("<sheet name=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
    assert_eq!(sheets.len(), 1 + document().tables().count());
    let index = sheets.iter().position(|name| *name == "throughput-1-goodput").expect("the sheet") + 1;
    let sheet = text(&format!("xl/worksheets/sheet{index}.xml"));
    // Row 14, 1 MiB messages by 1 MiB buffers: 937.6 Mbit/s as a number (no t="s"), not as text.
    let cell = sheet.split("<c r=\"H14\"").nth(1).and_then(|cell| cell.split("</c>").next()).expect("the cell");
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
    let python =
        |code: &str, argument: &str| std::process::Command::new("python3").args(["-c", code, argument]).output();
    if !python("import openpyxl", "").is_ok_and(|output| output.status.success()) {
        println!("SKIP: python3 with openpyxl is not installed");
        return;
    }
    let path = std::env::temp_dir().join(format!("linerate-report-{}.xlsx", std::process::id()));
    std::fs::write(&path, &render(&document(), Format::Xlsx).expect("renders")[0].bytes).expect("writes");
    let code = "import sys, openpyxl; print(openpyxl.load_workbook(sys.argv[1])['throughput-1-goodput']['H14'].value)";
    let output = python(code, path.to_str().expect("a plain path")).expect("runs");
    std::fs::remove_file(&path).expect("removes");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "937.6", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_port_and_the_bus_behind_it_are_both_drawn() {
    let (campaign, mut study) = fixture::fixture();
    for point in &mut study.points {
        let bounds: Vec<_> = point.ceilings.iter().filter(|c| c.name.starts_with("ethernet")).cloned().collect();
        for mut bound in bounds {
            bound.name = "pcie 0000:01:00.0 of b (writing), 12 Gbit/s, mtu 1500".into();
            bound.value *= 1.2;
            point.ceilings.push(bound);
        }
    }
    let document = compose(&campaign, &study);
    let both = document.tables().find(|table| {
        let named = |what: &str| table.columns.iter().any(|column| column.head.starts_with(what));
        named("ceiling, ethernet") && named("ceiling, pcie 0000:01:00.0 of b (writing)")
    });
    let table = both.expect("a chart with two ceilings");
    assert!(table.note.as_ref().is_some_and(|note| note.contains("pcie 0000:01:00.0")), "{:?}", table.note);
}

#[test]
fn of_several_jobs_the_ports_together_and_the_bus_behind_them_are_both_drawn() {
    let (campaign, mut study) = fixture::fixture();
    for point in &mut study.points {
        let Some(job) = point.jobs.first().cloned() else { continue };
        point.jobs = vec![job.clone(), job.clone(), JobStudy { workload: "all".into(), ..job }];
        let bounds: Vec<_> = point.ceilings.iter().filter(|c| c.name.starts_with("ethernet")).cloned().collect();
        for mut bound in bounds {
            // Of one job, which is no bound of the figure they have together.
            bound.name = "port 1, 1 Gbit/s, a to b".into();
            point.ceilings.push(bound.clone());
            bound.name = "port 1, a to b + port 2, a to b, all jobs".into();
            point.ceilings.push(bound.clone());
            bound.name = "slot, a to b, all jobs".into();
            bound.value *= 1.2;
            point.ceilings.push(bound);
        }
    }
    let document = compose(&campaign, &study);
    let heads = |table: &Table| -> Vec<String> {
        let heads = table.columns.iter().map(|column| column.head.clone());
        heads.filter(|head| head.starts_with("ceiling")).collect()
    };
    let drawn: Vec<Vec<String>> = document.tables().map(heads).filter(|heads| heads.len() > 1).collect();
    assert!(!drawn.is_empty(), "no chart has two ceilings");
    for heads in drawn {
        assert_eq!(heads, ["ceiling, port 1 + port 2", "ceiling, slot"]);
    }
}

#[test]
fn points_that_lost_nothing_are_told_in_one_sentence_and_losses_one_by_one() {
    let (campaign, mut study) = fixture::fixture();
    let answer = |study: &Study| {
        let document = compose(&campaign, study);
        let blocks = document.sections.into_iter().find(|section| section.id == "answer").expect("a section").blocks;
        let lists =
            blocks.into_iter().filter_map(|block| if let Block::List(told) = block { Some(told) } else { None });
        lists.flatten().filter(|told| told.starts_with("disk and network")).collect::<Vec<String>>()
    };
    assert_eq!(answer(&study).len(), 4, "two losses and two without are read one by one");
    let kept = study.mixes.iter().find(|mix| !mix.jobs[0].lost()).expect("one that kept all").clone();
    study.mixes.extend([kept.clone(), kept]);
    // The order of the plan: lost, kept, kept, lost, kept, kept.
    study.mixes.swap(3, 5);
    let told = answer(&study);
    assert_eq!(told.len(), 3, "{told:#?}");
    let together =
        told[1].starts_with("disk and network, 4 points: storage keeps 99.8 % (equivalent), tcp_stream keeps");
    assert!(together && told[1].contains("joint efficiency 1.998 of 2"), "{}", told[1]);
}

/// Numbers as they stand in a text, signs aside.
fn numbers(text: &str) -> Vec<String> {
    let parts = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    parts.map(|part| part.trim_matches('.').to_owned()).filter(|part| !part.is_empty()).collect()
}

/// What a person sees of a page: no tags, scripts, styles or drawings.
fn visible(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        text.push(' ');
        rest = &rest[start..];
        let hidden = ["script", "style", "svg"].into_iter().find(|name| rest[1..].starts_with(name));
        let end = hidden.map_or_else(|| ">".to_owned(), |name| format!("</{name}>"));
        let at = rest.find(&end).expect("every tag ends") + end.len();
        rest = &rest[at..];
    }
    text.push_str(rest);
    // Digits are grouped by narrow spaces.
    text.replace('\u{202f}', "").replace("&#39;", "'").replace("&#x27;", "'").replace("&#x2f;", "/")
}

/// Every text and every number within `value`.
fn leaves(value: &Value, texts: &mut Vec<String>, figures: &mut Vec<f64>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Number(number) => figures.extend(number.as_f64()),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, texts, figures)),
        Value::Object(fields) => fields.iter().for_each(|(key, field)| {
            texts.push(key.clone());
            leaves(field, texts, figures);
        }),
        Value::Null | Value::Bool(_) => {}
    }
}

/// The tables within a JSON report, by id.
fn tables<'a>(value: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| tables(item, found)),
        Value::Object(fields) => {
            if let (Some(id), Some(_)) = (fields.get("id").and_then(Value::as_str), fields.get("rows")) {
                found.push((id, value));
            }
            fields.values().for_each(|field| tables(field, found));
        }
        _ => {}
    }
}

/// The numbers that a page may show where `json` is all there is to show: those in its texts, and its figures as their tables and key
/// figures show them.
fn showable(json: &Value, document: &Document) -> BTreeSet<String> {
    let (mut texts, mut figures) = (Vec::new(), Vec::new());
    leaves(json, &mut texts, &mut figures);
    let mut shown: BTreeSet<String> = texts.iter().flat_map(|text| numbers(text)).collect();
    // Counts and sizes as they are.
    shown.extend(figures.iter().flat_map(|figure| numbers(&figure.to_string())));
    let mut told = Vec::new();
    tables(&json["report"], &mut told);
    for table in document.tables() {
        let Some((_, same)) = told.iter().find(|(id, _)| *id == table.id) else { continue };
        for (row, cells) in table.shown().into_iter().enumerate() {
            for (column, text) in cells.into_iter().enumerate() {
                let cell = &same["rows"][row][column];
                let value = cell.as_f64().or_else(|| cell["value"].as_f64());
                let is_same = value == table.rows[row].cells[column].value();
                let unit = same["columns"][column]["unit"].as_str();
                if is_same && unit == Some(table.columns[column].scale.base) {
                    shown.extend(numbers(&text));
                }
            }
        }
    }
    let blocks = json["report"].as_array().into_iter().flatten().flat_map(|section| section["blocks"].as_array());
    let told: Vec<&Value> = blocks.flatten().filter_map(|block| block["figures"].as_array()).flatten().collect();
    for block in document.sections.iter().flat_map(|section| &section.blocks) {
        let Block::KeyFigures(figures) = block else { continue };
        for figure in figures {
            let is_same = |other: &&&Value| {
                other["value"] == figure.estimate.value
                    && other["unit"] == figure.scale.base
                    && other["at"] == *figure.at
            };
            if told.iter().find(is_same).is_some() {
                shown.extend(numbers(&Cell::Estimate(figure.estimate).shown(&figure.scale, 0)));
                let percent = [figure.ceiling.as_ref().map(|(share, _)| *share), figure.estimate.confidence];
                shown.extend(
                    percent.into_iter().flatten().flat_map(|share| numbers(&linerate_report::number::percent(share))),
                );
            }
        }
    }
    shown
}

/// The numbers that the page of `document` shows and `json` lacks.
fn lacking(document: &Document, json: &Value) -> Vec<String> {
    let page = String::from_utf8(render(document, Format::Html).expect("renders").remove(0).bytes).expect("text");
    let shown = showable(json, document);
    numbers(&visible(&page)).into_iter().filter(|number| !shown.contains(number)).collect()
}

#[test]
fn every_number_of_the_page_is_in_the_json() {
    let document = document();
    let lacking_now = lacking(&document, &document.study);
    assert!(lacking_now.is_empty(), "{lacking_now:?}");
    // The check sees what is not there: without the report the page shows what nothing else says.
    let mut without = document.study.clone();
    without.as_object_mut().expect("an object").remove("report");
    assert!(lacking(&document, &without).len() > 100);
    let loss = document.study.pointer("/points").and_then(Value::as_array).into_iter().flatten();
    let jobs = loss.flat_map(|point| point["jobs"].as_array()).flatten();
    let ledgers: Vec<&Value> = jobs.filter_map(|job| job["loss"].as_array()).flatten().collect();
    assert!(!ledgers.is_empty(), "the campaign has datagrams");
    for ledger in ledgers {
        let count = |name: &str| ledger[name].as_u64().expect(name);
        assert_eq!(count("sent"), count("unique") + count("late") + count("lost"), "{ledger}");
        assert_eq!(ledger["unit"], "datagram");
    }
    for trial in
        document.study["points"].as_array().into_iter().flatten().flat_map(|point| point["trials"].as_array()).flatten()
    {
        let series = trial["intervals"].as_object().expect("series");
        for name in series.keys() {
            assert!(trial["interval_units"][name]["unit"].is_string(), "{name} has no unit");
        }
    }
}

/// The cells of columns of numbers that are neither a number nor empty, in what the CSV of `document` says.
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
        let mut reader = csv::ReaderBuilder::new().has_headers(true).from_reader(&artifact.bytes[..]);
        for record in reader.records() {
            let record = record.expect("a record");
            assert_eq!(record.len(), kinds.len() + 2, "{}", artifact.file_name);
            let cells = record.iter().zip(&kinds).filter(|(_, is_number)| **is_number).map(|(cell, _)| cell);
            let odd = cells.filter(|cell| !cell.is_empty() && !cell.parse::<f64>().is_ok_and(f64::is_finite));
            found.extend(odd.map(|cell| format!("{}: {cell}", artifact.file_name)));
        }
    }
    found
}

#[test]
fn a_cell_of_a_column_of_numbers_is_a_number_or_empty_in_csv() {
    let mut document = document();
    assert_eq!(unread(&document), [""; 0]);
    let missing =
        |table: &Table| table.rows.iter().flat_map(|row| &row.cells).any(|cell| matches!(cell, Cell::Missing(_)));
    assert!(document.tables().filter(|table| missing(table)).count() > 3, "the campaign has gaps");
    // A sentence, a dash and what is no number, where numbers belong.
    let table = document.sections.iter_mut().flat_map(|section| &mut section.blocks).find_map(|block| match block {
        Block::Table(table) if table.columns.iter().any(|column| column.kind == ColumnKind::Number) => Some(table),
        _ => None,
    });
    let table = table.expect("a table of numbers");
    let column = table.columns.iter().position(|column| column.kind == ColumnKind::Number).expect("one of numbers");
    let odd = [Cell::text("not known here"), Cell::Missing("–".into()), Cell::Number(f64::INFINITY)];
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
    let found = artifacts.iter().find(|artifact| artifact.file_name == format!("{id}.csv")).expect("the table");
    let text = String::from_utf8_lossy(&found.bytes);
    assert!(text.contains(": not known here,") && text.contains(": not finite,"), "the reason stands beside: {text}");
}
