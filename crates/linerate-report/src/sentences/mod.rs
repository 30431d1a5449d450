//! Sentences of findings and derivations: the one place that turns claims, evidence, outcomes of
//! experiments, recommended steps and derivations of ceilings into text.
//!
//! The analysis decides on typed values ([`linerate_analysis::diagnosis`]); a new kind of claim,
//! observation or step has one arm in one of these files. All texts are clauses without a full
//! stop.

mod claim;
mod comparison;
mod derivation;
mod drops;
mod evidence;
mod mixes;
mod outcome;
mod reason;
mod spread;
mod step;
mod study;
#[cfg(test)]
mod texts;
mod tuning;
mod unbounded;

use linerate_analysis::diagnosis::{IOPS, Subject, SubjectLoad};
use linerate_analysis::statistics::measured_rate;
use linerate_model::{Metric, Unit};

use crate::grid::coordinate;
use crate::number::{Scale, round_half_up};

pub use claim::claim;
pub(crate) use comparison::mechanism;
pub use comparison::unproven;
pub use derivation::{derivation, derivation_line};
pub use drops::drops;
pub use evidence::{observation, source};
pub(crate) use mixes::mix_evidence;
pub use outcome::outcomes;
pub use reason::{fact, imbalance, reason};
pub use spread::{spread, spread_test};
pub(crate) use step::step;
pub(crate) use study::{looks, steady};
pub use study::{port_note, refusal};
pub use tuning::hindrance;
pub use unbounded::unbounded;

/// Most points that a merged subject names.
const MOST_NAMED: usize = 3;

/// Returns the subject of a finding: its sweep, point and load.
#[must_use]
pub fn subject(subject: &Subject) -> String {
    let Some(merged) = &subject.merged else { return point(subject) };
    let n = merged.points.len();
    let places: Vec<String> = merged.points.iter().map(coordinate).collect();
    let named = if n <= MOST_NAMED { format!(": {}", places.join("; ")) } else { String::new() };
    let judged = merged.judged;
    format!("{} at {n} of {judged} points{named}; evidence from {}", subject.sweep, point(subject))
}

fn point(subject: &Subject) -> String {
    let coordinate = coordinate(&subject.parameters);
    let load = subject.load.as_ref().map(|load| match load {
        SubjectLoad::Flow { workload, sender, receiver } => {
            format!("{workload} from {sender} to {receiver}")
        }
        SubjectLoad::Disk { target, host } => {
            let target = target.as_deref().unwrap_or("a disk or file");
            format!("storage of {target} at {host}")
        }
    });
    let place = if coordinate.is_empty() { String::new() } else { format!(" at {coordinate}") };
    format!("{}{place}{}", subject.sweep, load.map_or_else(String::new, |load| format!(": {load}")))
}

/// Formats a figure that experiments change: a rate in bit/s, or transfers of a disk or file.
#[must_use]
pub fn amount(metric: &Metric, value: f64) -> String {
    if metric == IOPS { format!("{value:.0} transfers/s") } else { rate(value) }
}

/// Formats a rate in bit/s to the digits that were measured.
fn rate(value: f64) -> String {
    measured_rate(value)
}

/// Formats a time in seconds.
fn time(seconds: f64) -> String {
    Scale::fit(Unit::Second, [seconds]).shown(seconds)
}

/// Formats a share in per cent: whole numbers from 10 % on, two digits below.
fn share(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = match percent.abs() {
        size if size >= 10.0 || size == 0.0 => 0,
        size if size >= 1.0 => 1,
        _ => 2,
    };
    format!("{} %", round_half_up(percent, decimals))
}

#[cfg(test)]
mod tests {
    use linerate_analysis::diagnosis::Merged;

    use linerate_model::{Point, metric};

    use super::*;

    #[test]
    fn a_merged_subject_names_up_to_three_points() {
        let at = |size: &str| Point::from([("message_size".to_owned(), size.into())]);
        let merged = |points: Vec<Point>| Subject {
            parameters: at("64 B"),
            load: Some(SubjectLoad::Flow {
                workload: "tcp_stream".to_owned(),
                sender: "a".to_owned(),
                receiver: "b".to_owned(),
            }),
            merged: Some(Merged { points, judged: 5 }),
            ..Subject::of_sweep("sweep")
        };
        let point = "sweep at message size 64 B: tcp_stream from a to b";
        assert_eq!(
            subject(&merged(vec![at("64 B"), at("128 B")])),
            format!(
                "sweep at 2 of 5 points: message size 64 B; message size 128 B; evidence from \
                 {point}"
            )
        );
        let four = merged(["1 B", "2 B", "3 B", "4 B"].map(at).to_vec());
        assert_eq!(subject(&four), format!("sweep at 4 of 5 points; evidence from {point}"));
        assert_eq!(subject(&Subject::of_sweep("sweep")), "sweep");
    }

    #[test]
    fn disks_are_rated_in_transfers_and_paths_in_bits() {
        assert_eq!(amount(metric::IOPS, 12_345.6), "12346 transfers/s");
        assert_eq!(amount(metric::GOODPUT, 20.1e6), "20.1 Mbit/s");
    }

    #[test]
    fn shares_have_two_digits_or_more() {
        let shown = [0.0, 0.000_12, 0.0123, 0.057, 0.6, 1.0].map(share);
        assert_eq!(shown, ["0 %", "0.01 %", "1.2 %", "5.7 %", "60 %", "100 %"]);
    }
}
