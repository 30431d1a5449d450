//! Diagnosis: rules over evidence, and experiments that test their claims.
//!
//! A rule reads the study of one point and makes at most one claim. Equal claims about the points
//! of a sweep are merged, with the evidence of the strongest point. Recorded evidence alone makes a
//! claim *suspected* at most. A claim is *proven* where a comparison tested it (`tests` in a plan):
//! a change of the limit changed goodput as predicted, and the control did not (`proof`).

mod advice;
mod evidence;
pub mod experiment;
mod finding;
pub mod longer;
mod proof;
pub mod rules;
mod sign;

use linerate_model::{ARM_AXIS, Command, Metric, Validity, Verdict};

pub use advice::{Advice, Consent, Step};
pub use evidence::{Claim, Evidence, FlowEnd, Permit, Quantity, SlowReader};
pub use finding::{
    Contradiction, Finding, JobFlow, Merged, Objection, Outcome, Subject, SubjectLoad,
};
pub(crate) use proof::GOODPUT;
pub use proof::{IOPS, goodput_of};
pub use sign::{Seen, Sign};

use crate::{Comparison, PointStudy, Study};
use experiment::Experiment;
use rules::{RULES, Rule, UNKNOWN};

/// Claims of one rule about one sweep.
struct Said<'a> {
    sweep: &'a str,
    rule: &'static Rule,
    at: Vec<(&'a PointStudy, Finding)>,
}

/// Returns the findings on `points`: at most one for each sweep and rule. A tested claim appears
/// once, with its outcome. The order is by status, then by number of points, then by rule number
/// (docs/methodology/diagnosis.md#rules). The rule `unknown` appears only for sweeps without
/// another finding.
#[must_use]
pub fn findings(points: &[PointStudy], comparisons: &[Comparison]) -> Vec<Finding> {
    let tests: Vec<&Comparison> =
        comparisons.iter().filter(|comparison| comparison.base.tests.is_some()).collect();
    let mut said: Vec<Said<'_>> = Vec::new();
    for point in points.iter().filter(|point| is_asked(point, &tests)) {
        let is_tested = |rule| is_tested(rule, point, &tests);
        // A tested claim is reported with its outcome, so the untested one would only repeat it.
        for rule in RULES.iter().copied().filter(|rule| !is_tested(*rule)) {
            let Some(finding) = judged(rule, point) else { continue };
            match said
                .iter_mut()
                .find(|known| known.sweep == point.sweep && known.rule.name == rule.name)
            {
                Some(known) => known.at.push((point, finding)),
                None => said.push(Said { sweep: &point.sweep, rule, at: vec![(point, finding)] }),
            }
        }
    }
    let explained: Vec<&str> =
        said.iter().filter(|one| one.rule.name != UNKNOWN).map(|one| one.sweep).collect();
    let tested: Vec<&str> = tests.iter().map(|test| test.sweep.as_str()).collect();
    said.retain(|one| {
        one.rule.name != UNKNOWN
            // "Nothing explains this" is wrong at a sweep where something does, even at another of
            // its points.
            || !explained.contains(&one.sweep) && !tested.contains(&one.sweep)
    });
    let merged = said.into_iter().map(|one| (one.rule.number, merge(one, points)));
    let mut told: Vec<(u8, (usize, Finding))> = proof::outcomes(points, &tests)
        .into_iter()
        .map(|(rule, finding)| (rule.number, (1, finding)))
        .chain(merged)
        .collect();
    told.sort_by_key(|(number, (n_points, finding))| {
        // Among equal verdicts, what applies to more points is more useful to fix first.
        (finding.verdict, std::cmp::Reverse(*n_points), *number)
    });
    told.into_iter().map(|(_, (_, finding))| finding).collect()
}

/// Returns whether the arm of `point` is not the changed one of any of `tests`.
fn is_asked(point: &PointStudy, tests: &[&Comparison]) -> bool {
    // The changed arms of a test have other limits, which nobody asked about.
    let arm = point.parameters.get(ARM_AXIS);
    let mut of_sweep = tests.iter().filter(|test| test.sweep == point.sweep);
    of_sweep.all(|test| arm.is_none_or(|arm| *arm == test.base.name.as_str()))
}

/// Returns whether one of `tests` examines the claim of `rule` about the sweep of `point`.
fn is_tested(rule: &Rule, point: &PointStudy, tests: &[&Comparison]) -> bool {
    let of_sweep = tests.iter().filter(|test| test.sweep == point.sweep);
    of_sweep.filter_map(|test| test.base.tests.as_ref()).any(|claim| claim.rule == rule.name)
}

/// Returns the claim of `rule` about `point`, with an advice for each of its experiments.
fn judged(rule: &Rule, point: &PointStudy) -> Option<Finding> {
    let finding = rule.judge(point)?;
    let steps = rule.experiments(point).into_iter().filter_map(|experiment| {
        let command = rules::command(point, &experiment)?;
        let consent = rules::consent(&experiment);
        let metric = experiment.judged(point);
        let Experiment { name, ratio, .. } = experiment;
        Some(Step::Experiment { name, metric, ratio, consent }.by(command))
    });
    Some(steps.fold(finding, Finding::advise))
}

/// Returns the command that tests the claims about `point` with experiments; `None` for points of
/// several jobs.
#[must_use]
pub(crate) fn experiment_command(point: &PointStudy) -> Option<Command> {
    rules::changed(point, &[])
}

/// Returns the metric that experiments on the load of `point` change: goodput, or the transfer rate
/// of disks and files.
#[must_use]
pub fn moved(point: &PointStudy) -> &'static Metric {
    let has = |metric: &'static Metric| {
        point.jobs.iter().flat_map(|job| &job.metrics).any(|figure| figure.metric == metric)
    };
    // A transfer of a file reports both; its goodput is what users compare.
    if !has(GOODPUT) && has(IOPS) { IOPS } else { GOODPUT }
}

/// Returns the score of each rule's evidence at `point`, 0 to 1, the highest first. A claim is
/// suspected from 0.5 on (docs/methodology/diagnosis.md#rules). A rule scores 0 where a figure that
/// it needs was not recorded. The rule `unknown` scores the remainder of the best other rule.
#[must_use]
pub fn scores(point: &PointStudy) -> Vec<(&'static str, f64)> {
    let rules = RULES.iter().filter(|rule| rule.name != UNKNOWN);
    let mut scores: Vec<(&'static str, f64)> =
        rules.map(|rule| (rule.name, score_of(rule, point))).collect();
    let best = scores.iter().map(|(_, score)| *score).fold(0.0, f64::max);
    scores.push((UNKNOWN, ((1.0 - best) / GRAIN).round() * GRAIN));
    scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    scores
}

fn score_of(rule: &Rule, point: &PointStudy) -> f64 {
    let speaks = rule.judge(point).is_some_and(|finding| finding.verdict == Verdict::Suspected);
    let met = rule.score(point).unwrap_or(0.0);
    let score =
        // A rule with all its evidence must rank above every rule without, whatever the distance of
        // single figures.
        if speaks { met.clamp(SUSPECTED, 1.0) } else { met.clamp(0.0, SUSPECTED - GRAIN) };
    // Rounding hides differences that no evidence supports, so ties are visible as ties.
    (score / GRAIN).round() * GRAIN
}

/// Score from which a claim is suspected.
const SUSPECTED: f64 = 0.5;
/// Resolution of a score.
const GRAIN: f64 = 0.01;

/// Returns the suspected limits of `point` in the order of their tests; the first is the leading
/// hypothesis. Inconclusive claims are left out.
#[must_use]
pub fn suspects(point: &PointStudy) -> Vec<(&'static Rule, Finding)> {
    let suspected = |rule: &'static Rule| Some((rule, judged(rule, point)?));
    let mut found: Vec<(&'static Rule, Finding)> = RULES
        .iter()
        .filter_map(|rule| suspected(rule))
        .filter(|(_, finding)| finding.verdict == Verdict::Suspected)
        .collect();
    found.sort_by_key(|(rule, _)| rule.turn(point));
    found
}

/// Returns the findings on `point`, strongest status first: tested claims with their outcome, then
/// suspected ones in the order of the rules.
#[must_use]
pub fn of_point(study: &Study, point: &PointStudy) -> Vec<Finding> {
    let arm = point.parameters.get(ARM_AXIS);
    let of_sweep = study.comparisons.iter().filter(|test| test.sweep == point.sweep);
    let tests: Vec<&Comparison> = of_sweep
        .filter(|test| test.base.tests.is_some())
        .filter(|test| arm.is_none_or(|arm| *arm == test.base.name.as_str()))
        .collect();
    let mut told = proof::outcomes(&study.points, &tests);
    let judged = RULES.iter().filter_map(|rule| Some((*rule, rule.judge(point)?)));
    let untested: Vec<(&'static Rule, Finding)> =
        judged.filter(|(rule, _)| told.iter().all(|(known, _)| known.name != rule.name)).collect();
    told.extend(untested);
    told.sort_by_key(|(rule, finding)| (finding.verdict, rule.number));
    told.into_iter().map(|(_, finding)| finding).collect()
}

/// Returns the finding that nothing explains `point`, with the examined evidence and the most
/// promising experiment.
#[must_use]
pub fn unknown(point: &PointStudy) -> Finding {
    rules::nothing_known(point)
}

/// Merges the claims of one rule into one finding; also returns the number of points.
fn merge(said: Said<'_>, points: &[PointStudy]) -> (usize, Finding) {
    // The rule `not_valid` applies to points without a valid figure.
    let spoken_at = |point: &PointStudy| said.at.iter().any(|(at, _)| std::ptr::eq(*at, point));
    let could = |point: &&PointStudy| point.validity <= Validity::Suspect || spoken_at(point);
    let judged = points.iter().filter(|point| point.sweep == said.sweep).filter(could).count();
    let n_points = said.at.len();
    let places = said.at.iter().map(|(point, _)| point.parameters.clone()).collect();
    let (_, mut strongest) = said
        .at
        .into_iter()
        // Verdicts are ordered from the strongest, so the smallest one is the best evidence.
        .min_by_key(|(_, finding)| finding.verdict)
        .expect("a rule spoke at a point");
    if n_points > 1 {
        strongest.subject.merged = Some(Merged { points: places, judged });
    }
    (n_points, strongest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::cases::point;

    fn at(size: &str, figures: &[(&str, f64)]) -> PointStudy {
        let parameters = [("message_size".to_owned(), size.into())].into();
        PointStudy { parameters, ..point(figures) }
    }

    #[test]
    fn points_at_which_a_rule_speaks_are_among_those_it_is_told_of() {
        let mut points: Vec<PointStudy> =
            (0..4).map(|n| at(&n.to_string(), &[("goodput", 1e9)])).collect();
        for point in &mut points[1..] {
            point.validity = Validity::Invalid;
            point.why = vec![crate::Reason::NotRun];
        }
        let all = [&points[1], &points[2], &points[3]];
        let rule = *RULES.first().expect("rules");
        let said =
            Said { sweep: &points[0].sweep, rule, at: all.map(|at| (at, unknown(at))).to_vec() };
        let (n, merged) = merge(said, &points);
        let merged = merged.subject.merged.expect("three points");
        assert_eq!((n, merged.points.len(), merged.judged), (3, 3, 4));
    }

    #[test]
    fn a_sweep_has_one_finding_a_rule_and_none_unknown_beside_it() {
        let points = [
            at("64 B", &[("goodput", 1e8), ("payload_per_send", 64.0), ("sender_cpu", 0.99)]),
            at("128 B", &[("goodput", 2e8), ("payload_per_send", 128.0), ("sender_cpu", 0.98)]),
            at("8 KiB", &[("goodput", 5e8), ("payload_per_send", 8192.0), ("sender_cpu", 0.2)]),
            at("64 KiB", &[("goodput", 0.98e9)]),
        ];
        let found = findings(&points, &[]);
        let rules: Vec<&str> = found.iter().map(|finding| finding.rule.as_str()).collect();
        assert_eq!(rules, ["small_message", "link_ceiling"]);
        let merged = found[0].subject.merged.as_ref().expect("two points");
        let of = |point: &PointStudy| point.parameters.clone();
        assert_eq!((merged.judged, &merged.points[..]), (4, &[of(&points[0]), of(&points[1])][..]));
        assert_eq!(found[1].subject.merged, None);
    }

    #[test]
    fn what_no_rule_explains_is_said_once() {
        let found =
            findings(&[at("64 B", &[("goodput", 1e8)]), at("128 B", &[("goodput", 2e8)])], &[]);
        assert_eq!(
            (found.len(), found[0].rule.as_str(), found[0].verdict),
            (1, "unknown", Verdict::Inconclusive)
        );
    }

    #[test]
    fn suspects_come_in_the_order_in_which_rules_are_asked() {
        let figures = [
            ("goodput", 0.97e9),
            ("payload_per_send", 65_536.0),
            ("sender_cpu", 0.95),
            ("sndbuf_limited", 0.5),
        ];
        let names: Vec<&str> =
            suspects(&point(&figures)).into_iter().map(|(rule, _)| rule.name).collect();
        assert_eq!(names[0], "link_ceiling");
        assert!(names.contains(&"sender_cpu"), "{names:?}");
        assert_eq!(
            suspects(&point(&[("goodput", 1e8)])).len(),
            0,
            "that nothing is known is no suspicion"
        );
    }
}
