//! The ladder, limit by limit: hypotheses are tested, and where a change lifts the limit, the next
//! limit is looked for.

use linerate_analysis::diagnosis::{Claim, Evidence, Finding, moved, scores, suspects, unknown};
use linerate_analysis::{Headline, PointStudy};
use linerate_model::{Metric, Nanos, Verdict};

use super::outcomes::{refutes, supports};
use super::pairs::{Next, put_to_test};
use super::plans::Load;
use super::scouts::goodput;
use super::stages::Stages;
use crate::stages::Bench;
use crate::{Ended, Exit, Failure};

/// Most changes that lift a limit, or part of it, one after the other.
const MOST_RUNGS: usize = 6;
/// Most hypotheses tested at each limit.
const MOST_TESTED: usize = 3;

/// A limit, or the finding that none is known.
#[derive(Clone, Debug)]
pub struct Rung {
    /// The metric that experiments move: goodput in bit/s, or IOPS of a disk or file.
    pub metric: &'static Metric,
    /// Its value.
    pub goodput: f64,
    /// Score of each rule's evidence, 0 to 1, the best first: from 0.5 the rule suspects.
    pub scores: Vec<(&'static str, f64)>,
    /// Findings, strongest verdict first; never empty.
    pub findings: Vec<Finding>,
    /// Headline of the unchanged load, at the first limit.
    pub headline: Option<Headline>,
    /// The change that lifted it, and the metric's value then.
    pub lifted: Option<(String, f64)>,
    /// Disturbances of its runs.
    pub notes: Vec<String>,
}

impl Rung {
    /// Returns whether its limit is proven.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict == Verdict::Proven)
    }
}

/// Looks for the limits of `load`, up to `limits` different ones, beginning with the one that binds
/// now. An experiment that does not fit into the time `budget` is not begun, and the claim says so.
///
/// # Errors
/// If a stage could not be run to its end, or the load could not be measured.
pub fn climb(
    bench: &dyn Bench,
    mut load: Load,
    limits: usize,
    budget: Nanos,
) -> Result<Vec<Rung>, Ended> {
    let mut stages = Stages::new(bench, budget);
    let (campaign, study) = stages.look("baseline", &load.baseline())?;
    let why = campaign
        .trials
        .iter()
        .flat_map(|trial| &trial.incidents)
        .map(|incident| incident.message.as_str())
        .next();
    let mut headline = linerate_report::headline(&campaign, &study);
    // A baseline has one point.
    let mut point = study.points.into_iter().next().ok_or_else(|| {
        let message = format!(
            "diagnose: the load could not be measured: {}",
            why.unwrap_or("no figure came of it")
        );
        Failure::new(Exit::Invalid, message)
    })?;
    let mut rungs = Vec::new();
    // Each rung may take minutes, and limits that are lifted in part can follow each other for a
    // long time.
    for number in 1..=MOST_RUNGS {
        let (mut rung, next) = test(&mut stages, number, &load, &point)?;
        rung.headline = headline.take();
        let Some(next) = next else {
            rungs.push(rung);
            break;
        };
        rung.lifted = Some((next.name, goodput(&next.point)));
        rungs.push(rung);
        if different(&rungs) >= limits {
            break;
        }
        // The next rung starts from the changed load, so each limit is found beyond the one before.
        (load, point) = (next.load, next.point);
    }
    Ok(rungs)
}

/// Returns the number of different limits. A limit that was lifted in part and binds again counts
/// once.
fn different(rungs: &[Rung]) -> usize {
    let mut names: Vec<&str> = rungs
        .iter()
        .filter_map(|rung| rung.findings.first())
        .map(|leading| leading.rule.as_str())
        .collect();
    // Only neighbours: a limit that returns after another one is a new rung.
    names.dedup();
    names.len()
}

/// Sorts findings by verdict. Of equal verdicts a claim whose change had the predicted effect
/// leads, and then the rule that was asked first, because the sort is stable.
fn strongest_first(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| (finding.verdict, !finding.experiments.iter().any(supports)));
}

/// Tests the hypotheses on `point`, the leading one first, until one is proven.
fn test(
    stages: &mut Stages<'_>,
    number: usize,
    load: &Load,
    point: &PointStudy,
) -> Result<(Rung, Option<Next>), Ended> {
    let mut findings = Vec::new();
    let mut next = None;
    let mut n_tested = 0;
    for (rule, suspicion) in suspects(point) {
        let experiments = rule.experiments(point);
        // A claim without experiments is reported as suspected; it does not use up the tests of
        // others.
        if experiments.is_empty() || n_tested == MOST_TESTED {
            findings.push(suspicion);
            continue;
        }
        n_tested += 1;
        let (outcome, reached) =
            put_to_test(stages, number, (load, point), (rule, suspicion), experiments)?;
        let proven = outcome.verdict == Verdict::Proven;
        findings.push(outcome);
        // A proven limit hides all others until it is lifted.
        if proven {
            next = reached;
            break;
        }
    }
    strongest_first(&mut findings);
    // If no claim survived, the report must say so first.
    if findings.first().is_none_or(|leading| leading.verdict == Verdict::Inconclusive) {
        let mut nothing_known = unknown(point);
        let ruled_out = findings.iter().filter(|finding| finding.experiments.iter().any(refutes));
        let claims: Vec<Claim> = ruled_out.map(|finding| finding.claim.clone()).collect();
        if !claims.is_empty() {
            nothing_known.evidence.insert(0, Evidence::RuledOut { claims });
        }
        findings.insert(0, nothing_known);
    }
    Ok((
        Rung {
            metric: moved(point),
            goodput: goodput(point),
            scores: scores(point),
            findings,
            headline: None,
            lifted: None,
            notes: std::mem::take(&mut stages.notes),
        },
        next,
    ))
}

#[cfg(test)]
mod tests {
    use linerate_analysis::diagnosis::Subject;

    use super::super::outcomes::tests::{BEFORE, pairs};
    use super::*;

    #[test]
    fn the_strongest_finding_leads_and_then_the_one_whose_change_worked() {
        let finding = |rule: &str, verdict, experiments| Finding {
            rule: rule.to_owned(),
            verdict,
            subject: Subject::default(),
            claim: Claim::QueueDepth,
            evidence: Vec::new(),
            experiments,
            controls: Vec::new(),
            advice: Vec::new(),
        };
        let doubled = pairs(BEFORE.map(|rate| rate * 2.0), [1.1, 100.0]);
        let mut findings = [
            finding("ruled out", Verdict::Inconclusive, vec![doubled.clone()]),
            finding("first", Verdict::Suspected, Vec::new()),
            finding("second", Verdict::Suspected, vec![pairs(BEFORE, [1.1, 100.0])]),
            finding("worked", Verdict::Suspected, vec![doubled]),
            finding("proven", Verdict::Proven, Vec::new()),
        ];
        strongest_first(&mut findings);
        let order: Vec<_> = findings.iter().map(|finding| &*finding.rule).collect();
        assert_eq!(order, ["proven", "worked", "first", "second", "ruled out"]);
    }
}
