//! Answers of `linerate diagnose` beside the causes that a matrix injects, and their table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::options::{keep, kept};
use super::super::{markdown, statistics::Median};
use super::draw::Draw;
use super::{FAILED, Options, side_by_side};

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

/// A cause, which a matrix injects.
pub(super) struct Cause<S> {
    pub(super) name: &'static str,
    /// Rules that name it. The first is the exact one.
    pub(super) accepted: &'static [&'static str],
    /// True if the ends need the CPUs for themselves.
    pub(super) is_alone: bool,
    /// Draws a setup with this cause.
    pub(super) setup: fn(&mut Draw) -> S,
}

impl<S> Cause<S> {
    pub(super) const fn new(
        name: &'static str,
        accepted: &'static [&'static str],
        setup: fn(&mut Draw) -> S,
    ) -> Self {
        Self { name, accepted, is_alone: false, setup }
    }

    /// Returns the same cause with the CPUs for itself.
    pub(super) const fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }
}

/// Leading finding of a diagnosis, and all that is printed if it does not name the cause.
pub(super) type Diagnosed = anyhow::Result<(Answer, Value)>;

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

/// Returns the words before a command that end it after `limit` seconds, whatever it does: the
/// matrix goes on with the next cause.
pub(super) const fn limited(limit: &str) -> [&str; 4] {
    ["timeout", "-k", "10", limit]
}

/// Runs `linerate diagnose` and returns its answer.
pub(super) fn diagnosed(mut command: Command) -> anyhow::Result<Value> {
    let output = command.stdin(Stdio::null()).output().context("start linerate diagnose")?;
    let found = serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "linerate diagnose ended with {} and printed no JSON: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )
    })?;
    without_error(found)
}

/// Returns `found` if it is the answer of a diagnosis. A diagnosis that ended with an error has
/// failed, and is no honest *unknown*.
fn without_error(found: Value) -> anyhow::Result<Value> {
    ensure!(found["error"].is_null(), "linerate diagnose: {}", found["error"]);
    Ok(found)
}

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
type Answers = BTreeMap<String, Vec<Answer>>;

/// Diagnoses every cause with every seed by `diagnose`, prints the matrix, and returns whether it
/// meets the goals.
pub(super) fn matrix<S>(
    causes: &[Cause<S>],
    options: &Options,
    goals: Goals,
    diagnose: &(dyn Fn(&Cause<S>, u32) -> Diagnosed + Sync),
) -> anyhow::Result<bool> {
    let answers: Mutex<Answers> = Mutex::new(kept(options.keep.as_deref())?);
    for seed in options.first..options.first + options.seeds {
        let (alone, together): (Vec<&Cause<S>>, Vec<&Cause<S>>) = {
            let kept = answers.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = causes.iter().filter(|cause| is_wanted(cause, &kept, options, seed));
            wanted.partition(|cause| cause.is_alone)
        };
        for (causes, n_at_once) in [(together, options.jobs), (alone, 1)] {
            side_by_side(&causes, n_at_once, &|cause| {
                let answer = answer(cause, seed, diagnose);
                let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.entry(cause.name.to_owned()).or_default().push(answer);
                keep(options.keep.as_deref(), serde_json::to_string(&*answers)?)
            })?;
        }
    }
    let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (text, is_good) = document(causes, &answers, goals);
    print!("{text}");
    keep(options.out.as_deref(), &text)?;
    Ok(is_good)
}

/// Returns true if `cause` was asked for and has no answer with this seed.
fn is_wanted<S>(cause: &Cause<S>, kept: &Answers, options: &Options, seed: u32) -> bool {
    let is_kept = |of: &Vec<Answer>| of.iter().any(|answer| answer.seed == seed);
    !kept.get(cause.name).is_some_and(is_kept)
        && options.only.as_deref().is_none_or(|only| cause.name.contains(only))
}

/// Diagnoses `cause` and prints the answer, in full if it does not name the cause.
fn answer<S>(
    cause: &Cause<S>,
    seed: u32,
    diagnose: &(dyn Fn(&Cause<S>, u32) -> Diagnosed + Sync),
) -> Answer {
    let (answer, whole) = diagnose(cause, seed).unwrap_or_else(|error| {
        eprintln!("{}, seed {seed}: {error:#}", cause.name);
        (Answer::failed(seed), Value::Null)
    });
    let grade = answer.grade(cause.accepted);
    eprintln!(
        "seed {seed}, {}: {grade:?}: {} ({}), {:.0} s",
        cause.name, answer.rule, answer.verdict, answer.seconds
    );
    if grade != Grade::Named {
        eprintln!("{whole:#}");
    }
    answer
}

/// Returns the matrix, and whether it meets the goals.
fn document<S>(causes: &[Cause<S>], answers: &Answers, goals: Goals) -> (String, bool) {
    let mut rows = Vec::new();
    let mut totals = [0_usize; GRADES.len()];
    let mut durations = Vec::new();
    for Cause { name, accepted, .. } in causes {
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

#[cfg(test)]
mod tests {
    use super::*;

    const GOALS: Goals = Goals { named: 0.85, misled: 0.03 };
    const CAUSES: [Cause<()>; 2] = [named("policer", &["policer"]), named("no fault", &[UNKNOWN])];

    const fn named(name: &'static str, accepted: &'static [&'static str]) -> Cause<()> {
        Cause { name, accepted, is_alone: false, setup: |_| () }
    }

    fn answered(rule: &str, verdict: &str) -> Answer {
        Answer { seed: 1, rule: rule.into(), verdict: verdict.into(), seconds: 20.0 }
    }

    #[test]
    fn an_answer_is_named_unknown_wrong_or_failed() {
        let of = |name: &str| CAUSES.iter().find(|cause| cause.name == name).expect("a cause");
        let grade = |name, rule, verdict| answered(rule, verdict).grade(of(name).accepted);
        assert_eq!(grade("policer", "policer", "suspected"), Grade::Named);
        assert_eq!(grade("policer", "policer", "inconclusive"), Grade::Unknown);
        assert_eq!(grade("policer", "unknown", "inconclusive"), Grade::Unknown);
        assert_eq!(grade("no fault", "unknown", "inconclusive"), Grade::Named);
        assert_eq!(grade("policer", "path_loss", "suspected"), Grade::SuspectedWrongly);
        assert_eq!(grade("policer", "path_loss", "proven"), Grade::ProvenWrongly);
        assert_eq!(grade("policer", FAILED, "inconclusive"), Grade::Failed);
    }

    #[test]
    fn a_diagnosis_that_ends_with_an_error_has_failed() {
        let error = serde_json::json!({ "error": "nothing came from the other end", "exit": 4 });
        assert!(without_error(error).is_err());
        assert!(without_error(serde_json::json!({ "findings": [] })).is_ok());
    }

    #[test]
    fn the_goals_are_met_only_without_failures_and_wrong_proofs() {
        let judged = |worst: Answer| {
            let mut of = vec![answered("policer", "suspected"); 39];
            of.push(worst);
            document(&CAUSES, &Answers::from([("policer".to_owned(), of)]), GOALS)
        };
        let (text, is_good) = judged(answered("path_loss", "suspected"));
        assert!(is_good && text.contains("39 of 40 causes were named: 0.975"), "{text}");
        assert!(!judged(answered("path_loss", "proven")).1);
        assert!(!judged(answered(FAILED, "inconclusive")).1);
    }
}
