//! Limit by limit: what is suspected is put to the test, and where the change lifts the limit, what
//! limits next is looked for.

use linerate_analysis::PointStudy;
use linerate_analysis::diagnosis::{moved, scores, suspects, unknown};
use linerate_model::{Finding, Verdict};

use super::pairs::{Next, put_to_test};
use super::plans::Load;
use super::scouts::goodput;
use crate::stages::Bench;
use crate::{Ended, Exit, Failure};

/// Changes that lift a limit, or part of it, one after the other: no more are made.
const MOST_RUNGS: usize = 6;
/// Hypotheses put to the test at each.
const MOST_TESTED: usize = 3;

/// A limit, or the want of one.
#[derive(Clone, Debug)]
pub struct Rung {
    /// What experiments move: goodput, bit/s, or transfers of a disk or file per second.
    pub metric: &'static str,
    /// How much of it there is.
    pub goodput: f64,
    /// How well each rule's evidence is met, 0 to 1, the best first: 0.5 and more is suspected.
    pub scores: Vec<(&'static str, f64)>,
    /// What was found, strongest verdict first; never empty.
    pub findings: Vec<Finding>,
    /// What lifted it, and how much there was then.
    pub lifted: Option<(String, f64)>,
    /// What disturbed the runs that this is said of.
    pub notes: Vec<String>,
}

impl Rung {
    /// Whether it is known what limits there.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict == Verdict::Proven)
    }
}

/// Looks for the limits of `load`, from the one that shows on: for as many different ones as
/// `limits` says.
///
/// # Errors
/// If a stage could not be run to its end, or the load not be measured.
pub fn climb(bench: &dyn Bench, mut load: Load, limits: usize) -> Result<Vec<Rung>, Ended> {
    let mut notes = Vec::new();
    let (campaign, study) = bench.look("baseline", &load.baseline(), &mut notes)?;
    let why = campaign
        .trials
        .iter()
        .flat_map(|trial| &trial.incidents)
        .map(|incident| incident.message.as_str())
        .next();
    let mut point = study.points.into_iter().next().ok_or_else(|| {
        let message = format!(
            "diagnose: the load could not be measured: {}",
            why.unwrap_or("no figure came of it")
        );
        Failure::new(Exit::Invalid, message)
    })?;
    let mut rungs = Vec::new();
    for number in 1..=MOST_RUNGS {
        let (mut rung, next) = test(bench, number, &load, &point, std::mem::take(&mut notes))?;
        let Some(next) = next else {
            rungs.push(rung);
            break;
        };
        rung.lifted = Some((next.name, goodput(&next.point)));
        rungs.push(rung);
        if different(&rungs) >= limits {
            break;
        }
        (load, point) = (next.load, next.point);
    }
    Ok(rungs)
}

/// Limits that the leading findings name: what was lifted in part and limits again is one.
fn different(rungs: &[Rung]) -> usize {
    let mut names: Vec<&str> = rungs
        .iter()
        .filter_map(|rung| rung.findings.first())
        .map(|leading| leading.rule.as_str())
        .collect();
    names.dedup();
    names.len()
}

/// Puts to the test what may limit `point`, the leading hypothesis first, until one is proven. What
/// disturbed its runs is added to `notes`.
fn test(
    bench: &dyn Bench,
    number: usize,
    load: &Load,
    point: &PointStudy,
    mut notes: Vec<String>,
) -> Result<(Rung, Option<Next>), Ended> {
    let mut findings = Vec::new();
    let mut next = None;
    let mut n_tested = 0;
    for (rule, suspicion) in suspects(point) {
        let experiments = rule.experiments(point);
        if experiments.is_empty() || n_tested == MOST_TESTED {
            findings.push(suspicion);
            continue;
        }
        n_tested += 1;
        let (outcome, reached) =
            put_to_test(bench, number, (load, point), (rule, suspicion), experiments, &mut notes)?;
        let proven = outcome.verdict == Verdict::Proven;
        findings.push(outcome);
        if proven {
            next = reached;
            break;
        }
    }
    // Rules come in the order in which they are asked: of equal verdicts the first is the leading
    // one.
    findings.sort_by_key(|finding| finding.verdict);
    if findings.first().is_none_or(|leading| leading.verdict == Verdict::Inconclusive) {
        findings.insert(0, unknown(point));
    }
    Ok((
        Rung {
            metric: moved(point),
            goodput: goodput(point),
            scores: scores(point),
            findings,
            lifted: None,
            notes,
        },
        next,
    ))
}
