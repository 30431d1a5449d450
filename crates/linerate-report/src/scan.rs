//! Independent check of a written report in any format: lists every impossible number.
//!
//! It shares no code with the gate in `linerate-analysis` that should reject such numbers. Checks
//! of a study's JSON: no number above its ceiling or outside its metric's range; intervals contain
//! their value; no share above one; no count of runs above the number of runs; frames are not
//! smaller than their payload; no one-way time below the uncertainty of the clocks; percentiles
//! rise; series are as long as their time. Checks of every text: no negative zero, no NaN, no
//! subset larger than its set (`2 of 1 trials`). Not detected: a wrong number within these limits.

use linerate_model::{Metric, Times, metric};
use serde_json::{Map, Value, json};

/// Relative rounding error that addition and division may leave above a limit.
const ROUNDING: f64 = 1e-9;
/// Prefixes of counted words: `3 of 4 trials`.
const COUNTED: [&str; 4] = ["trial", "point", "run", "pair"];
/// Series of one direction, and the metric whose ceilings bound them.
const BOUNDED: [(&str, &str); 2] = [("goodput_tx", "tx"), ("goodput_rx", "rx")];
/// Times between two clocks, and the names of their distributions.
const TIMES: [(&str, Times); 2] = [("service", Times::Service), ("response", Times::Response)];

/// Returns the defects of a study's JSON with their places.
#[must_use]
pub fn study_violations(study: &Value) -> Vec<String> {
    let mut found = Vec::new();
    everywhere(study, "", &mut found);
    for (number, point) in items(&study["points"]).enumerate() {
        let mut own = Vec::new();
        for job in items(&point["jobs"]) {
            job_violations(point, job, &mut own);
        }
        series_violations(point, &mut own);
        found.extend(own.into_iter().map(|what| format!("point {number}: {what}")));
    }
    for (number, search) in items(&study["searches"]).enumerate() {
        let mut own = Vec::new();
        search_violations(search, &mut own);
        found.extend(own.into_iter().map(|what| format!("search {number}: {what}")));
    }
    found
}

/// Returns the defects of a report as text: CSV, Markdown, or HTML.
#[must_use]
pub fn text_violations(text: &str) -> Vec<String> {
    // Style sheet and script of a page are not for readers.
    let text = text.split_once("</style>").map_or(text, |(_, body)| body);
    let text = text.rfind("<script>").map_or(text, |at| &text[..at]);
    let mut found = Vec::new();
    for line in text.lines() {
        words_violations(line, &mut found);
    }
    found
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Checks every number and every string.
fn everywhere(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(number)
            // A reader would take a printed `-0` for a mistake.
            if number.as_f64().is_some_and(|n| n == 0.0 && n.is_sign_negative()) =>
        {
            found.push(format!("{place}: a negative zero"));
        }
        Value::String(text) => words_violations(text, found),
        Value::Array(values) => values.iter().for_each(|value| everywhere(value, place, found)),
        // Facts are the hosts' own text.
        Value::Object(values) => values
            .iter()
            .filter(|(key, _)| *key != "facts")
            .for_each(|(key, value)| everywhere(value, &format!("{place}/{key}"), found)),
        _ => {}
    }
}

fn words_violations(text: &str, found: &mut Vec<String>) {
    // A narrow space separates groups of three digits.
    let text = text.replace('\u{202f}', "");
    let is_of_number = |c: char| c.is_alphanumeric() || "+-._".contains(c);
    for word in text.split(|c| !is_of_number(c)).map(|word| word.trim_end_matches('.')) {
        // A change of -0.04 % may be shown as -0.0 %.
        if ["-0", "NaN", "-NaN", "inf", "-inf"].contains(&word) {
            found.push(format!("`{word}` in: {text}"));
        }
    }
    let words: Vec<&str> = text
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .collect();
    for window in words.windows(4) {
        let [part, of, whole, what] = window else { continue };
        let (Ok(part), Ok(whole)) = (part.parse::<u64>(), whole.parse::<u64>()) else { continue };
        if *of == "of" && part > whole && COUNTED.iter().any(|counted| what.starts_with(counted)) {
            found.push(format!("{part} of {whole} {what}: more than there are"));
        }
    }
}

/// Returns the name of a job's metric without its direction.
fn name_of<'a>(key: &'a str, study: &Value) -> &'a str {
    let direction = study["direction"].as_str().unwrap_or_default();
    // Keys carry the direction where a metric has several.
    key.strip_suffix(direction)
        .and_then(|name| name.strip_suffix('_'))
        // A name that only happens to end in a direction keeps it.
        .filter(|name| Metric::named(name).is_some())
        .unwrap_or(key)
}

/// Returns the value of the ceiling that `study` names.
fn ceiling(point: &Value, study: &Value) -> Option<f64> {
    let index = usize::try_from(study["ceiling"].as_u64()?).ok()?;
    point["ceilings"][index]["value"].as_f64()
}

/// Returns the study of the metric `name` in `direction`.
fn of<'a>(metrics: &'a Map<String, Value>, name: &str, direction: &str) -> Option<&'a Value> {
    metrics
        .iter()
        .find(|(key, study)| name_of(key, study) == name && study["direction"] == direction)
        .map(|(_, study)| study)
}

fn job_violations(point: &Value, job: &Value, found: &mut Vec<String>) {
    let Some(metrics) = job["metrics"].as_object() else { return };
    for (key, study) in metrics {
        let name = name_of(key, study);
        let mut wrong = |what: String| found.push(format!("{key}: {what}"));
        let mean = &study["mean"];
        let ends = [
            &study["estimate"],
            &study["low"],
            &study["high"],
            &mean["value"],
            &mean["low"],
            &mean["high"],
        ];
        let numbers: Vec<f64> =
            ends.into_iter().chain(items(&study["values"])).filter_map(Value::as_f64).collect();
        let of_goodput =
            || of(metrics, metric::GOODPUT.name, study["direction"].as_str().unwrap_or_default());
        // Parts of the goodput have no ceiling of their own; that of the whole bounds them.
        let is_part =
            [metric::GOODPUT_PEAK, metric::GOODPUT_SERVED].iter().any(|part| part.name == name);
        let bound = if is_part { of_goodput() } else { Some(study) };
        let most = bound.and_then(|bound| ceiling(point, bound));
        let range = Metric::named(name).map(Metric::range);
        for number in &numbers {
            // Relative, because rates have no common size.
            if let Some(most) = most.filter(|most| *number > most * (1.0 + ROUNDING)) {
                wrong(format!("{number} is above its ceiling of {most}"));
            }
            if let Some(most) =
                // Absolute, because limits of metrics are near one or zero.
                range.and_then(|range| range.most).filter(|most| *number > most + ROUNDING)
            {
                wrong(format!("{number} is above its possible maximum of {most}"));
            }
            if let Some(least) =
                range.and_then(|range| range.least).filter(|least| *number < least - ROUNDING)
            {
                wrong(format!("{number} is below its possible minimum of {least}"));
            }
        }
        for (value, low, high) in [
            (&study["estimate"], &study["low"], &study["high"]),
            // Both estimates have intervals of their own.
            (&mean["value"], &mean["low"], &mean["high"]),
        ] {
            let holds = |value: f64, end: f64| end <= value + value.abs() * ROUNDING;
            let (value, low, high) = (value.as_f64(), low.as_f64(), high.as_f64());
            if value.zip(low).is_some_and(|(value, low)| !holds(value, low))
                || value.zip(high).is_some_and(|(value, high)| !holds(high, value))
            {
                wrong(format!("{value:?} lies outside of its interval {low:?} to {high:?}"));
            }
        }
        if range.is_some_and(|range| range.whole)
            && items(&study["values"]).filter_map(Value::as_f64).any(|value| value.fract() != 0.0)
        {
            wrong("a count of events that is not whole".to_owned());
        }
        let carrying = items(&study["values"]).filter(|value| !value.is_null()).count() as u64;
        if study["n"].as_u64().is_some_and(|n| n > items(&study["values"]).count() as u64) {
            wrong(format!("{} runs of {carrying}", study["n"]));
        }
        // A share of the ceiling is bounded even where the ceiling itself is unknown.
        if study["share"].as_f64().is_some_and(|share| share > 1.0 + ROUNDING) {
            wrong(format!("{} of its ceiling", study["share"]));
        }
    }
    for direction in ["tx", "rx", "sum"] {
        // With several runs, the estimate is one more pair.
        let value = |metric: &Metric| runs_and_estimate(metrics, metric, direction);
        let (Some(frames), Some(payload)) = (value(metric::THROUGHPUT_L2), value(metric::GOODPUT))
        else {
            continue;
        };
        let pairs =
            frames.into_iter().zip(payload).filter_map(|(frames, payload)| frames.zip(payload));
        for (frames, payload) in pairs.filter(|(frames, payload)| frames < payload) {
            found.push(format!(
                "throughput_l2 {direction} of {frames} is below its payload of {payload}"
            ));
        }
    }
    time_violations(job, metrics, found);
}

/// Returns the values of all runs of a job's metric, and its estimate where there are several runs.
fn runs_and_estimate(
    metrics: &Map<String, Value>,
    metric: &Metric,
    direction: &str,
) -> Option<Vec<Option<f64>>> {
    let study = of(metrics, metric.name, direction)?;
    // The estimate of one run is that run.
    let several = items(&study["values"]).nth(1).map(|_| &study["estimate"]);
    Some(items(&study["values"]).chain(several).map(Value::as_f64).collect())
}

/// Checks for times below the uncertainty of their clocks, and for falling percentiles.
fn time_violations(job: &Value, metrics: &Map<String, Value>, found: &mut Vec<String>) {
    let doubts: Vec<Option<f64>> =
        items(&metrics.get(metric::CLOCK_UNCERTAINTY.name).unwrap_or(&Value::Null)["values"])
            .map(Value::as_f64)
            .collect();
    // Without an uncertainty of clocks, the times come from one clock.
    for (distribution, times) in TIMES.iter().filter(|_| !doubts.is_empty()) {
        let is_of_times = |(key, study): &(&String, &Value)| {
            Metric::named(name_of(key, study)).is_some_and(|metric| metric.times == Some(*times))
        };
        for (key, study) in metrics.iter().filter(is_of_times) {
            let values = items(&study["values"]).map(Value::as_f64);
            let known = values.zip(&doubts).filter_map(|(value, doubt)| value.zip(*doubt));
            for (value, doubt) in known.filter(|(value, doubt)| value <= doubt) {
                found.push(format!(
                    "{key} of {value} s is within the uncertainty of the clocks, {doubt} s"
                ));
            }
        }
        let median = items(&job["percentiles"][distribution]).find(|one| one["quantile"] == 0.5);
        let median = median.and_then(|one| one["value_ns"].as_f64());
        // The least doubt makes the weakest claim, so no finding is false.
        let least = doubts.iter().flatten().copied().reduce(f64::min).map(|seconds| seconds * 1e9);
        if median.zip(least).is_some_and(|(median, least)| median <= least) {
            found.push(format!(
                "percentiles of {distribution}: their median is within the uncertainty of the \
                    clocks"
            ));
        }
    }
    for (name, percentiles) in job["percentiles"].as_object().into_iter().flatten() {
        // An infinite time is none.
        let time = |one: &Value, key: &str| one[key].as_f64().unwrap_or(f64::INFINITY);
        let all: Vec<&Value> = items(percentiles).collect();
        if all.windows(2).any(|pair| time(pair[0], "value_ns") > time(pair[1], "value_ns")) {
            found.push(format!("percentiles of {name} fall"));
        }
        // Without a confidence there are no ends.
        for one in all.iter().filter(|one| !one["confidence"].is_null()) {
            let (low, value, high) =
                (time(one, "low_ns"), time(one, "value_ns"), time(one, "high_ns"));
            if low > value || value > high {
                found.push(format!(
                    "percentile {} of {name}: {value} ns outside of {low} to {high}",
                    one["quantile"]
                ));
            }
        }
    }
}

/// Checks for search bounds above the path's capacity, and for crossed bounds.
fn search_violations(search: &Value, found: &mut Vec<String>) {
    let most = search["line"].as_f64().unwrap_or(f64::INFINITY);
    for goal in items(&search["goals"]) {
        bound_violations(
            "goal",
            // A goal's throughput is bounded by the line as its load is.
            &json!({
                "lower": goal["lower"],
                "conditional_throughput": goal["conditional_throughput"],
            }),
            most,
            found,
        );
        bound_violations("goal", &json!({ "lower": goal["range"][1] }), most, found);
    }
    for one in items(&search["runs"]).flat_map(|run| items(&run["found"])) {
        bound_violations("run", &one["strict"], most, found);
        bound_violations("run without tainted trials", &one["untainted"], most, found);
    }
}

/// Checks for bounds above `most`, the load of the path's capacity, and for crossed bounds.
fn bound_violations(place: &str, bounds: &Value, most: f64, found: &mut Vec<String>) {
    for key in ["lower", "conditional_throughput"] {
        if let Some(load) = bounds[key].as_f64().filter(|load| *load > most * (1.0 + ROUNDING)) {
            found.push(format!("{place}: {key} {load} is above the line of {most}"));
        }
    }
    let (lower, upper) = (bounds["lower"].as_f64(), bounds["upper"].as_f64());
    if let Some((lower, upper)) =
        lower.zip(upper).filter(|(lower, upper)| *lower > upper * (1.0 + ROUNDING))
    {
        found.push(format!("{place}: the lower bound {lower} is above the upper {upper}"));
    }
}

fn series_violations(point: &Value, found: &mut Vec<String>) {
    let measured = || items(&point["jobs"]).filter(|job| job["background"] == false);
    let bounds: Vec<(&str, Option<f64>)> = BOUNDED
        .iter()
        .map(|(series, direction)| {
            // Series add up all measured jobs, of which the last stands for all.
            let metrics = measured().last().and_then(|job| job["metrics"].as_object());
            (
                *series,
                metrics.and_then(|metrics| {
                    ceiling(point, of(metrics, metric::GOODPUT.name, direction)?)
                }),
            )
        })
        .collect();
    for trial in items(&point["trials"]) {
        let n = items(&trial["intervals"]["seconds"]).count();
        for (name, values) in trial["intervals"].as_object().into_iter().flatten() {
            // A share needs no ceiling of the path.
            let most = if name == metric::LOSS_RATIO.name {
                Some(1.0)
            } else {
                bounds.iter().find(|(of, _)| of == name).and_then(|(_, most)| *most)
            };
            if items(values).count() != n {
                found.push(format!("trial {}: {name} is not as long as its time", trial["id"]));
            }
            for value in items(values).filter_map(Value::as_f64) {
                // No series counts downwards.
                if value < 0.0 || most.is_some_and(|most| value > most * (1.0 + ROUNDING)) {
                    found.push(format!(
                        "trial {}: {value} in {name}, of at most {most:?}",
                        trial["id"]
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A study of one job with this metric.
    fn study(name: &str, of_metric: Value) -> Value {
        json!({ "points": [{
            "ceilings": [{ "value": 95.64e6 }],
            "jobs": [{ "background": false, "metrics": { name: of_metric }, "percentiles": {} }],
            "trials": [{ "id": 0, "intervals": { "seconds": [0.1], "goodput_tx": [90e6] } }],
        }]})
    }

    fn goodput(estimate: f64, high: f64) -> Value {
        json!({ "direction": "tx", "n": 1, "estimate": estimate, "low": estimate, "high": high,
            "values": [estimate], "ceiling": 0, "share": estimate / 95.64e6, "mean": null })
    }

    #[test]
    fn a_number_or_the_end_of_its_interval_above_the_ceiling_is_found() {
        assert_eq!(
            study_violations(&study("goodput", goodput(95.64e6, 95.64e6))),
            Vec::<String>::new()
        );
        assert!(!study_violations(&study("goodput", goodput(95.65e6, 95.65e6))).is_empty());
        assert!(!study_violations(&study("goodput", goodput(95.0e6, 95.7e6))).is_empty());
        let mut mean = goodput(95e6, 95e6);
        mean["mean"] = json!({ "value": 95e6, "low": 94e6, "high": 96e6 });
        assert_eq!(study_violations(&study("goodput", mean)).len(), 1);
        let mut drawn = study("goodput", goodput(95e6, 95e6));
        drawn["points"][0]["trials"][0]["intervals"]["goodput_tx"][0] = json!(101.1e6);
        assert_eq!(study_violations(&drawn).len(), 1, "a reading of a series");
    }

    #[test]
    fn bounds_of_a_search_above_the_line_or_crossed_are_found() {
        let study = |lower: f64, upper: f64| {
            let bounds = json!({ "lower": lower, "upper": upper, "conditional_throughput": lower });
            json!({ "searches": [{
                "line": 812.7,
                "goals": [{ "lower": lower, "upper": upper, "conditional_throughput": lower,
                "range": [lower, lower] }],
                "runs": [{ "found": [{ "strict": bounds, "untainted": bounds }] }],
            }]})
        };
        assert_eq!(study_violations(&study(812.7, 850.0)), Vec::<String>::new());
        assert_eq!(study_violations(&study(844.4, 850.0)).len(), 7);
        assert_eq!(study_violations(&study(800.0, 790.0)).len(), 2);
    }

    #[test]
    fn shares_counts_and_intervals_that_cannot_be_are_found() {
        let one = |name: &str, value: Value| {
            study_violations(&study(
                name,
                json!({ "direction": "tx", "n": 1, "estimate": value, "values": [value] }),
            ))
            .len()
        };
        assert_eq!(
            (one("sender_busy", json!(1.0)), one("goodput", json!(5.0)), one("lost", json!(60.0))),
            (0, 0, 0)
        );
        assert!(
            one("sender_busy", json!(1.0008)) > 0
                && one("goodput", json!(-5.0)) > 0
                && one("lost", json!(60.37)) > 0
        );
        assert!(one("goodput", json!(-0.0)) > 0, "a negative zero");
        let outside = json!({
            "direction": "tx", "n": 3, "estimate": 5.0, "low": 6.0, "high": 7.0, "values": [5.0],
        });
        assert_eq!(
            study_violations(&study("rtt", outside)).len(),
            2,
            "outside of its interval, and three runs of one"
        );
    }

    #[test]
    fn what_the_clocks_cannot_tell_and_frames_below_their_payload_are_found() {
        let metric = |value: f64, direction: &str| {
            json!({
                "direction": direction, "n": 1, "estimate": value, "values": [value],
            })
        };
        let of = |metrics: Value, percentiles: Value| {
            let mut study = study("rtt", metric(1.0, "tx"));
            study["points"][0]["jobs"][0]["metrics"] = metrics;
            study["points"][0]["jobs"][0]["percentiles"] = percentiles;
            study_violations(&study).len()
        };
        let clocks = json!({ "clock_uncertainty": metric(0.012, "sum") });
        let percentiles =
            json!({ "service": [{ "quantile": 0.5, "value_ns": 11_895_000, "confidence": null }] });
        assert_eq!((of(clocks.clone(), json!({})), of(clocks, percentiles)), (0, 1));
        let tail = json!({
            "clock_uncertainty": metric(0.012, "sum"), "service_time_p99": metric(0.011, "sum"),
        });
        assert_eq!(of(tail, json!({})), 1);
        assert_eq!(
            of(
                json!({ "goodput": metric(100e6, "tx"), "throughput_l2": metric(99e6, "tx") }),
                json!({})
            ),
            1
        );
    }

    #[test]
    fn texts_hold_no_negative_zero_and_no_subset_larger_than_its_set() {
        let n = |text| text_violations(text).len();
        assert_eq!(
            n("1e-05, 2026-11-0, -0.5 to [-0.01, 0.0], series-1-0.csv, 25 of 25 points, 101.1 of \
                    95.6 Mbit/s"),
            0
        );
        assert_eq!(n("pacing_rate = \"-0 bit/s\""), 1);
        assert_eq!(
            (n("[-0, 3]"), n("NaN"), n("2 of 1 trials"), n("at 25 of 5 points: x")),
            (1, 1, 1, 1)
        );
        assert_eq!(
            n("<style>a{margin:-0}</style>1\u{202f}234 of 5\u{202f}678 trials<script>-0</script>"),
            0
        );
    }
}
