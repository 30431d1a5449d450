//! Answers of `linerate diagnose` beside the causes that a matrix injects, and their table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{markdown, statistics::Median};
use super::FAILED;

/// Rule of an answer without a cause.
const UNKNOWN: &str = "unknown";

/// Goals of a matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goals {
    /// Share of the causes that are named.
    pub(super) named: f64,
    /// Share of the causes that are suspected wrongly.
    pub(super) misled: f64,
}

/// Name of a cause, and the rules that name it.
pub(super) type Injected<'a> = (&'a str, &'a [&'a str]);

/// Answer of one diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) seed: u32,
    pub(super) rule: String,
    pub(super) verdict: String,
    /// Duration, s.
    pub(super) seconds: f64,
}

/// Judgement of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grade {
    Named,
    Unknown,
    SuspectedWrongly,
    ProvenWrongly,
    Failed,
}

const GRADES: [(Grade, &str); 5] = [
    (Grade::Named, "named"),
    (Grade::Unknown, "unknown"),
    (Grade::SuspectedWrongly, "suspected wrong"),
    (Grade::ProvenWrongly, "proven wrong"),
    (Grade::Failed, "failed"),
];

impl Answer {
    /// Returns the leading finding of `found`, the JSON of a diagnosis.
    pub(super) fn of(found: &Value, seed: u32, seconds: f64) -> Self {
        let finding = &found[if found["ladder"].is_array() { "ladder" } else { "findings" }][0];
        let finding =
            if finding["findings"].is_array() { &finding["findings"][0] } else { finding };
        let word = |name: &str| finding[name].as_str().map(str::to_owned);
        Self {
            seed,
            rule: word("rule").unwrap_or_else(|| UNKNOWN.to_owned()),
            verdict: word("verdict").unwrap_or_else(|| "inconclusive".to_owned()),
            seconds,
        }
    }

    /// Returns the answer of a diagnosis that failed.
    pub(super) fn failed(seed: u32) -> Self {
        let (rule, verdict) = (FAILED.to_owned(), "inconclusive".to_owned());
        Self { seed, rule, verdict, seconds: 0.0 }
    }

    /// Judges the answer on a cause that the `accepted` rules name.
    pub(super) fn grade(&self, accepted: &[&str]) -> Grade {
        let is_accepted = accepted.contains(&self.rule.as_str());
        match (self.rule.as_str(), self.verdict.as_str()) {
            (FAILED, _) => Grade::Failed,
            (UNKNOWN, _) if is_accepted => Grade::Named,
            (UNKNOWN, _) | (_, "inconclusive") => Grade::Unknown,
            _ if is_accepted => Grade::Named,
            (_, "proven") => Grade::ProvenWrongly,
            _ => Grade::SuspectedWrongly,
        }
    }
}

/// Answers by cause.
pub(super) type Answers = BTreeMap<String, Vec<Answer>>;

/// Returns the matrix, and whether it meets the goals.
pub(super) fn document(causes: &[Injected<'_>], answers: &Answers, goals: Goals) -> (String, bool) {
    let mut rows = Vec::new();
    let mut totals = [0_usize; GRADES.len()];
    let mut durations = Vec::new();
    for (name, accepted) in causes {
        let Some(of_cause) = answers.get(*name) else { continue };
        let seconds: Vec<f64> = of_cause.iter().map(|answer| answer.seconds).collect();
        let mut row = vec![(*name).to_owned(), of_cause.len().to_string()];
        for ((grade, _), total) in GRADES.iter().zip(&mut totals) {
            let n = of_cause.iter().filter(|answer| answer.grade(accepted) == *grade).count();
            *total += n;
            row.push(if n == 0 { String::new() } else { n.to_string() });
        }
        row.push(
            Median::of(&seconds).map_or(String::new(), |median| format!("{:.0}", median.value)),
        );
        let said: Vec<String> =
            of_cause.iter().map(|answer| format!("{} ({})", answer.rule, answer.verdict)).collect();
        row.push(said.join(", "));
        durations.extend(seconds);
        rows.push(row);
    }
    let heads: Vec<&str> = ["cause", "n"]
        .into_iter()
        .chain(GRADES.map(|(_, head)| head))
        .chain(["median s", "answers by seed"])
        .collect();
    let mut text = markdown::table(&heads, &rows);
    let n: usize = totals.iter().sum();
    let [named, _, suspected, proven, failed] = totals;
    let share = |count: usize| if n == 0 { 0.0 } else { count as f64 / n as f64 };
    let _infallible = writeln!(
        text,
        "\n{named} of {n} causes were named: {:.3} (goal: {}). Suspected wrongly: {suspected} \
            (goal: at most {:.0} %). Proven wrongly: {proven} (goal: 0). Failed: {failed} (goal: \
            0). Median duration: {:.0} s (goal: below 60).",
        share(named),
        goals.named,
        goals.misled * 100.0,
        Median::of(&durations).map_or(0.0, |median| median.value)
    );
    let is_good = share(named) >= goals.named
        && share(suspected) <= goals.misled
        && proven == 0
        && failed == 0;
    (text, is_good)
}
