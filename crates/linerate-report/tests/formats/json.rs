//! The JSON document: its shape, and that it has every number of the page once.

use std::collections::{BTreeSet, HashSet};

use linerate_analysis::compare::{Side, campaigns};
use linerate_analysis::limits::pcie::Link;
use linerate_model::{BitRate, Bytes};
use linerate_report::document::{Block, Cell};
use linerate_report::{
    Document, Format, Named, compare_campaigns, compose, link_figures, render, study_json,
};
use serde_json::Value;

use crate::{document, fixture, one};

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
        assert_eq!(
            json.pointer(pointer).map(ToString::to_string).as_deref(),
            Some(expected),
            "{pointer}"
        );
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

/// Numbers as they stand in a text, signs aside.
pub(crate) fn numbers(text: &str) -> Vec<String> {
    let parts = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    parts.map(|part| part.trim_matches('.').to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Returns the visible text of a page: no tags, scripts, styles or drawings.
pub(crate) fn visible(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        text.push(' ');
        rest = &rest[start..];
        let hidden =
            ["script", "style", "svg"].into_iter().find(|name| rest[1..].starts_with(name));
        let end = hidden.map_or_else(|| ">".to_owned(), |name| format!("</{name}>"));
        let at = rest.find(&end).expect("every tag ends") + end.len();
        rest = &rest[at..];
    }
    text.push_str(rest);
    // Digits are grouped by narrow spaces.
    text.replace('\u{202f}', "").replace("&#39;", "'").replace("&#x27;", "'").replace("&#x2f;", "/")
}

/// Every text and every number within `value`.
pub(crate) fn leaves(value: &Value, texts: &mut Vec<String>, figures: &mut Vec<f64>) {
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
            if let (Some(id), Some(_)) =
                (fields.get("id").and_then(Value::as_str), fields.get("columns"))
            {
                found.push((id, value));
            }
            fields.values().for_each(|field| tables(field, found));
        }
        _ => {}
    }
}

/// The numbers that a page may show where `json` is all there is to show: those in its texts, and
/// its figures as their tables and key figures show them.
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
        let elsewhere = same["figures_at"].as_str().map(|place| figures_at(json, place));
        for (row, cells) in table.shown().into_iter().enumerate() {
            for (column, text) in cells.into_iter().enumerate() {
                let cell = &same["rows"][row][column];
                let value = cell.as_f64().or_else(|| cell["value"].as_f64());
                let own = table.rows[row].cells[column].value();
                let is_same = match &elsewhere {
                    Some(figures) => own.is_none_or(|own| figures.contains(&own.to_bits())),
                    None => value == own,
                };
                let unit = same["columns"][column]["unit"].as_str();
                if is_same && unit == Some(table.columns[column].scale.base) {
                    shown.extend(numbers(&text));
                }
            }
        }
    }
    let blocks = json["report"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|section| section["blocks"].as_array());
    let told: Vec<&Value> =
        blocks.flatten().filter_map(|block| block["figures"].as_array()).flatten().collect();
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
                let percent =
                    [figure.ceiling.as_ref().map(|(share, _)| *share), figure.estimate.confidence];
                shown.extend(
                    percent
                        .into_iter()
                        .flatten()
                        .flat_map(|share| numbers(&linerate_report::number::percent(share))),
                );
            }
        }
    }
    shown
}

/// The figures at the place that a table without rows names.
fn figures_at(json: &Value, place: &str) -> HashSet<u64> {
    let (mut texts, mut figures) = (Vec::new(), Vec::new());
    leaves(
        json.pointer(place).unwrap_or_else(|| panic!("{place} is not in the JSON")),
        &mut texts,
        &mut figures,
    );
    figures.into_iter().map(f64::to_bits).collect()
}

/// The numbers that the page of `document` shows and `json` lacks.
fn lacking(document: &Document, json: &Value) -> Vec<String> {
    let page = String::from_utf8(render(document, Format::Html).expect("renders").remove(0).bytes)
        .expect("text");
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
    for trial in document.study["points"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|point| point["trials"].as_array())
        .flatten()
    {
        let series = trial["intervals"].as_object().expect("series");
        for name in series.keys() {
            assert!(trial["interval_units"][name]["unit"].is_string(), "{name} has no unit");
        }
    }
}

#[test]
fn every_number_of_a_comparison_is_in_its_json() {
    let (campaign, mut study) = fixture::fixture();
    let before = study.clone();
    for metric in
        study.points.iter_mut().flat_map(|point| &mut point.jobs).flat_map(|job| &mut job.metrics)
    {
        metric.values.iter_mut().flatten().for_each(|value| *value *= 0.87);
    }
    let side = |study| Side { campaign: &campaign, study };
    let result = campaigns(side(&before), side(&study), None, 0.02);
    assert!(!result.points.is_empty());
    let named = |name| Named { name, header: &campaign.header };
    let document =
        compare_campaigns(&result, named("before.ledger"), named("after.ledger"), None, "0.0.0");
    // The page itself counts the rows of a folded table, and says what a KiB is.
    let is_of_page = |number: &String| {
        number == "1024" || document.tables().any(|table| table.rows.len().to_string() == *number)
    };
    let lacking_now: Vec<String> = lacking(&document, &document.study)
        .into_iter()
        .filter(|number| !is_of_page(number))
        .collect();
    assert!(lacking_now.is_empty(), "{lacking_now:?}");
    let mut without = document.study.clone();
    without.as_object_mut().expect("an object").remove("report");
    let lacking_then = lacking(&document, &without);
    assert!(!lacking_then.iter().all(is_of_page), "the comparison alone has no shown numbers");
}

#[test]
fn every_number_of_computed_figures_is_in_their_json() {
    let link = Link::new(2, 8, Bytes(128), Bytes(512)).expect("known");
    let document = link_figures(&link, Some(BitRate(20e9)), "0.0.0");
    let is_of_page = |number: &String| number == "1024";
    let lacking_now: Vec<String> = lacking(&document, &document.study)
        .into_iter()
        .filter(|number| !is_of_page(number))
        .collect();
    assert!(lacking_now.is_empty(), "{lacking_now:?}");
    let mut without = document.study.clone();
    without.as_object_mut().expect("an object").remove("report");
    assert!(lacking(&document, &without).len() > 100, "the check sees what is not there");
}

/// The ids of the tables of `report` that repeat a series, in rows.
fn repeated<'a>(report: &'a Value, series: &[f64]) -> Vec<&'a str> {
    let mut told = Vec::new();
    tables(report, &mut told);
    let holds = |table: &Value| {
        let (mut texts, mut figures) = (Vec::new(), Vec::new());
        leaves(&table["rows"], &mut texts, &mut figures);
        series.iter().all(|value| figures.contains(value))
    };
    told.into_iter().filter(|(_, table)| holds(table)).map(|(id, _)| id).collect()
}

#[test]
fn a_series_and_the_metrics_of_a_point_stand_in_the_json_once() {
    let document = document();
    let mut told = Vec::new();
    tables(&document.study["report"], &mut told);
    let places: Vec<(&str, &str)> =
        told.iter().filter_map(|(id, table)| Some((*id, table["figures_at"].as_str()?))).collect();
    for begins in ["series-", "points-", "environment-facts"] {
        assert!(places.iter().any(|(id, _)| id.starts_with(begins)), "{begins} of {places:?}");
    }
    for (id, place) in places {
        assert!(document.study.pointer(place).is_some(), "{id}: {place}");
    }
    let trial = document
        .study
        .pointer("/points/0/trials/0/intervals")
        .expect("series")
        .as_object()
        .expect("by name");
    for values in trial.values() {
        let values: Vec<f64> =
            values.as_array().expect("a series").iter().filter_map(Value::as_f64).collect();
        assert!(
            values.len() < 4 || repeated(&document.study["report"], &values).is_empty(),
            "{values:?}"
        );
    }
}

#[test]
fn a_layer_is_told_of_what_has_headers_and_not_of_times() {
    let json = document().study;
    let metrics = &json["points"][0]["jobs"][0]["metrics"];
    assert_eq!(
        (&metrics["goodput"]["layer"], &metrics["rtt"]["layer"]),
        (&Value::from("L4"), &Value::Null)
    );
    for trial in json["points"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|point| point["trials"].as_array())
        .flatten()
    {
        for (name, of) in trial["interval_units"].as_object().expect("units") {
            assert!(of["unit"] != "s" || of["layer"].is_null(), "{name}: {of}");
        }
    }
}
