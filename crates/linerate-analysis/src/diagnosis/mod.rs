//! Diagnosis: rules over evidence.
//!
//! A rule reads the study of one point and claims at most one thing; what it says of the points of a sweep is then told once,
//! with the evidence of the point where it is strongest. Nothing here is `Proven`: that takes a counterfactual and a placebo,
//! which take further trials.

pub mod rules;

use linerate_model::{Finding, Validity};

use crate::PointStudy;
use rules::{NO_OTHER, RULES};

/// Points named one by one in a merged finding.
const MOST_NAMED: usize = 3;

/// What one rule says of one sweep.
struct Said<'a> {
    sweep: &'a str,
    rule: &'static str,
    at: Vec<(&'a PointStudy, Finding)>,
}

/// What the rules say of `points`: at most one finding for each sweep and rule, strongest verdict first, then what holds at
/// most points. That no rule knows why is said only of sweeps of which no rule says anything.
#[must_use]
pub fn findings(points: &[PointStudy]) -> Vec<Finding> {
    let mut said: Vec<Said<'_>> = Vec::new();
    for point in points {
        for (rule, finding) in RULES.iter().filter_map(|rule| Some((rule.name(), rule.judge(point)?))) {
            match said.iter_mut().find(|known| known.sweep == point.sweep && known.rule == rule) {
                Some(known) => known.at.push((point, finding)),
                None => said.push(Said { sweep: &point.sweep, rule, at: vec![(point, finding)] }),
            }
        }
    }
    let explained: Vec<&str> = said.iter().filter(|one| one.rule != NO_OTHER).map(|one| one.sweep).collect();
    said.retain(|one| one.rule != NO_OTHER || !explained.contains(&one.sweep));
    let mut merged: Vec<(usize, Finding)> = said.into_iter().map(|one| merge(one, points)).collect();
    merged.sort_by_key(|(n_points, finding)| (finding.verdict, std::cmp::Reverse(*n_points)));
    merged.into_iter().map(|(_, finding)| finding).collect()
}

/// One finding for all points, and how many there are.
fn merge(said: Said<'_>, points: &[PointStudy]) -> (usize, Finding) {
    let judged = points.iter().filter(|point| point.sweep == said.sweep && point.validity <= Validity::Suspect).count();
    let n_points = said.at.len();
    let places: Vec<String> = said.at.iter().map(|(point, _)| rules::coordinate(point)).collect();
    let (_, mut strongest) =
        said.at.into_iter().min_by_key(|(_, finding)| finding.verdict).expect("a rule spoke at a point");
    if n_points > 1 {
        let named = if n_points <= MOST_NAMED { format!(": {}", places.join("; ")) } else { String::new() };
        strongest.subject =
            format!("{} at {n_points} of {judged} points{named}; evidence of {}", said.sweep, strongest.subject);
    }
    (n_points, strongest)
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use rules::cases::point;

    fn at(size: &str, figures: &[(&str, f64)]) -> PointStudy {
        let parameters = [("message_size".to_owned(), size.into())].into();
        PointStudy { parameters, ..point(figures) }
    }

    #[test]
    fn a_sweep_has_one_finding_a_rule_and_none_unknown_beside_it() {
        let points = [
            at("64 B", &[("goodput", 1e8), ("payload_per_send", 64.0), ("sender_cpu", 0.99)]),
            at("128 B", &[("goodput", 2e8), ("payload_per_send", 128.0), ("sender_cpu", 0.98)]),
            at("8 KiB", &[("goodput", 5e8), ("payload_per_send", 8192.0), ("sender_cpu", 0.2)]),
            at("64 KiB", &[("goodput", 0.98e9)]),
        ];
        let found = findings(&points);
        let rules: Vec<&str> = found.iter().map(|finding| finding.rule.as_str()).collect();
        assert_eq!(rules, ["small_message", "link_ceiling"]);
        let subject = &found[0].subject;
        assert!(subject.starts_with("sweep at 2 of 4 points: message_size = 64 B; message_size = 128 B"), "{subject}");
        assert!(!found[1].subject.contains(" of 4 points"), "{}", found[1].subject);
    }

    #[test]
    fn what_no_rule_explains_is_said_once() {
        let found = findings(&[at("64 B", &[("goodput", 1e8)]), at("128 B", &[("goodput", 2e8)])]);
        assert_eq!((found.len(), found[0].rule.as_str(), found[0].verdict), (1, "unknown", Verdict::Inconclusive));
    }
}
