//! Measurements as Markdown, and the verdict on each target.

use std::fmt::Write;

use super::generators::{Outcome, Work};
use super::markdown;
use super::own::Figure;
use super::rows::{Contestant, Measure, Row, Target};
use super::statistics::Median;

/// A row and what came of it: per contestant, per round; absent where a run failed.
#[derive(Clone, Debug)]
pub(super) struct Result {
    pub(super) row: Row,
    pub(super) outcomes: Vec<Vec<Option<Outcome>>>,
}

/// Verdict of a target's interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Met,
    /// The target lies within the interval.
    Noise,
    Missed,
    /// The interval covers too little to say.
    TooFew,
}

const GIGA: f64 = 1e9;
const MEGA: f64 = 1e6;
const KILO: f64 = 1e3;
const BITS_PER_BYTE: f64 = 8.0;

/// That of three rounds, the fewest that are judged.
const LEAST_COVERAGE: f64 = 0.75;

/// The whole document.
pub(super) fn document(
    machine: &str,
    results: &[Result],
    loads: &[Vec<String>],
    own: &[Figure],
    notes: &[String],
) -> String {
    let mut text = format!("{machine}\n");
    for (family, title) in [
        ("tcp", "TCP goodput"),
        ("udp", "UDP datagrams received"),
        ("rr", "Requests and responses"),
    ] {
        let of_family = results.iter().filter(|result| result.row.family == family);
        let rows: Vec<Vec<String>> = of_family.flat_map(measured).collect();
        if !rows.is_empty() {
            let _ = write!(text, "\n## {title}\n\n{}", markdown::table(&heads(family), &rows));
        }
    }
    let judged = results.iter().flat_map(judged).chain(loads.iter().cloned());
    let judged: Vec<Vec<String>> = judged.collect();
    let _ = write!(text, "\n## Targets\n\n{}", markdown::table(&TARGET_HEADS, &judged));
    if !own.is_empty() {
        let rows: Vec<Vec<String>> = own.iter().map(cost).collect();
        let _ = write!(
            text,
            "\n## linerate's own cost\n\n{}",
            markdown::table(&["what", "measured", "target", "verdict"], &rows)
        );
    }
    if !notes.is_empty() {
        text.push_str("\n## Runs that failed\n\n");
        notes.iter().for_each(|note| {
            let _ = writeln!(text, "- {note}");
        });
    }
    text
}

/// Column heads of the targets.
const TARGET_HEADS: [&str; 5] =
    ["work, mode", "ratio to", "target", "ratio [interval] (n)", "verdict"];

fn cost(figure: &Figure) -> Vec<String> {
    let Figure { name, value, unit, below } = figure;
    let verdict = if value < below { "met" } else { "missed" };
    vec![
        name.to_string(),
        format!("{value:.3} {unit}"),
        format!("< {below} {unit}"),
        verdict.to_owned(),
    ]
}

fn heads(family: &str) -> [&'static str; 6] {
    let (rate, second) = match family {
        "tcp" => ("Gbit/s, median [interval]", "CPU s/GB"),
        "udp" => ("M datagrams/s, median [interval]", "lost %"),
        _ => ("k transactions/s, median [interval]", "p50, p99 us"),
    };
    ["work", "generator, mode", rate, second, "CPU s", "softirq s"]
}

fn measured(result: &Result) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (contestant, outcomes) in result.row.contestants.iter().zip(&result.outcomes) {
        let median = |value: &dyn Fn(&Outcome) -> Option<f64>| {
            Median::of(&outcomes.iter().flatten().filter_map(value).collect::<Vec<_>>())
        };
        let scale = match result.row.work {
            Work::Stream { .. } => GIGA,
            Work::Datagrams { .. } => MEGA,
            Work::Requests { .. } => KILO,
        };
        let rate = median(&|outcome| Some(outcome.reading.rate / scale))
            .map_or("failed".to_owned(), |rate| {
                format!("{:.3} [{:.3}, {:.3}] ({})", rate.value, rate.low, rate.high, rate.n)
            });
        let plain = |median: Option<Median>, digits: usize| {
            median.map_or("-".to_owned(), |median| format!("{:.digits$}", median.value))
        };
        let second = match result.row.work {
            Work::Stream { .. } => {
                plain(median(&|outcome| Some(outcome.cpu / (outcome.reading.bytes / GIGA))), 3)
            }
            Work::Datagrams { .. } => {
                plain(median(&|outcome| outcome.reading.loss.map(|loss| loss * 100.0)), 3)
            }
            Work::Requests { .. } => {
                let p50 = plain(median(&|outcome| outcome.reading.p50_us), 1);
                format!("{p50}, {}", plain(median(&|outcome| outcome.reading.p99_us), 1))
            }
        };
        let cpu = plain(median(&|outcome| Some(outcome.cpu)), 2);
        let soft = plain(median(&|outcome| Some(outcome.soft_interrupts)), 2);
        rows.push(vec![result.row.name(), named(contestant), rate, second, cpu, soft]);
    }
    rows
}

fn named(contestant: &Contestant) -> String {
    let name = contestant.generator.name();
    if contestant.mode.is_empty() {
        name.to_owned()
    } else {
        format!("{name}: {}", contestant.mode)
    }
}

fn judged(result: &Result) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (index, contestant) in result.row.contestants.iter().enumerate() {
        for target in &contestant.targets {
            let what =
                if target.measure == Measure::Rate { "" } else { ", payload per CPU second" };
            let work = format!("{}: {}{what}", result.row.name(), contestant.mode);
            let least = format!("{} x", target.at_least);
            let (peer, shown, verdict) = match ratio(result, index, *target) {
                Some((peer, ratio)) => {
                    let Median { value, low, high, n, coverage } = ratio;
                    let coverage = coverage * 100.0;
                    (
                        peer,
                        format!("{value:.3} [{low:.3}, {high:.3}] ({n}, {coverage:.0} %)"),
                        verdict(ratio, target.at_least).name(),
                    )
                }
                None => ("-", "no pair of runs".to_owned(), "-"),
            };
            rows.push(vec![work, peer.to_owned(), least, shown, verdict.to_owned()]);
        }
    }
    rows
}

/// The ratio of contestant `index` to the target's peer, round by round.
pub(super) fn ratio(
    result: &Result,
    index: usize,
    target: Target,
) -> Option<(&'static str, Median)> {
    let value = |outcome: &Outcome| value_of(outcome, target.measure);
    let values = |index: usize| {
        result.outcomes[index].iter().map(move |outcome| outcome.as_ref().map(value))
    };
    let median = |index: usize| Median::of(&values(index).flatten().collect::<Vec<_>>());
    let peers = (0..result.row.contestants.len()).filter(|peer| {
        let name = result.row.contestants[*peer].generator.name();
        name != "linerate" && target.against.is_none_or(|against| against == name)
    });
    let best = peers
        .filter_map(|peer| Some((peer, median(peer)?.value)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?
        .0;
    let ratios: Vec<f64> = values(index)
        .zip(values(best))
        .filter_map(|(ours, theirs)| Some(ours? / theirs?))
        .collect();
    Some((result.row.contestants[best].generator.name(), Median::of(&ratios)?))
}

fn value_of(outcome: &Outcome, measure: Measure) -> f64 {
    match measure {
        Measure::Rate => outcome.reading.rate,
        Measure::Efficiency => outcome.reading.bytes * BITS_PER_BYTE / outcome.cpu,
    }
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Noise => "noise: the target lies in the interval",
            Self::Missed => "missed",
            Self::TooFew => "too few rounds",
        }
    }
}

/// Returns the verdict of the interval of `ratio` on a target.
pub(super) fn verdict(ratio: Median, at_least: f64) -> Verdict {
    if ratio.coverage < LEAST_COVERAGE {
        Verdict::TooFew
    } else if ratio.low >= at_least {
        Verdict::Met
    } else if ratio.high < at_least {
        Verdict::Missed
    } else {
        Verdict::Noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::outputs::Reading;
    use crate::bench::rows::{Scope, rows};

    fn outcome(rate: f64, cpu: f64) -> Option<Outcome> {
        Some(Outcome {
            reading: Reading { rate, bytes: 1e9, ..Reading::default() },
            cpu,
            soft_interrupts: 0.0,
        })
    }

    #[test]
    fn ratios_are_taken_round_by_round_against_the_best_peer() {
        let row = rows(Scope::Quick, false)
            .into_iter()
            .find(|row| !row.pinned && row.contestants.len() == 4)
            .expect("a plain row");
        let result = Result {
            row,
            outcomes: vec![
                vec![outcome(30.0, 1.0), outcome(10.0, 1.0), None, outcome(12.5, 1.0)],
                vec![outcome(20.0, 1.0), outcome(10.0, 1.0), outcome(9.0, 1.0), outcome(10.0, 1.0)],
                vec![outcome(19.0, 1.0), outcome(9.0, 1.0), outcome(8.0, 1.0), outcome(9.0, 1.0)],
                vec![None, None, None, None],
            ],
        };
        let target = Target { measure: Measure::Rate, at_least: 1.0, against: None };
        let (peer, ratio) = ratio(&result, 0, target).expect("three pairs");
        assert_eq!((peer, ratio.value, ratio.n), ("iperf3", 1.25, 3));
        assert_eq!(verdict(ratio, 1.0), Verdict::Met);
        assert_eq!(verdict(ratio, 1.4), Verdict::Noise);
        assert_eq!(verdict(ratio, 1.6), Verdict::Missed);
        assert_eq!(verdict(Median { coverage: 0.5, ..ratio }, 1.0), Verdict::TooFew);
        let text = document("a machine", &[result], &[], &[], &["iperf: no".into()]);
        assert!(text.contains("| failed |") && text.contains("- iperf: no"), "{text}");
    }
}
