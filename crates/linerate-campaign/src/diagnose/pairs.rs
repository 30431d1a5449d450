//! Test of a hypothesis: pairs of runs with and without the change, repeated with longer runs where
//! noise hides the effect.

use linerate_analysis::diagnosis::experiment::{Change, Experiment, set_aside};
use linerate_analysis::diagnosis::longer::{self, attempts};
use linerate_analysis::diagnosis::rules::Rule;
use linerate_analysis::diagnosis::{Finding, Outcome};
use linerate_analysis::{PointStudy, Study};
use linerate_model::plan::Draft;
use linerate_model::{ARM_AXIS, Failing, Nanos, Verdict};

use super::outcomes::works_without_evidence;
use super::plans::{Beside, Load};
use super::scouts::{Scouted, scout};
use super::stages::{Shortage, Stages, cost};
use crate::{Ended, Exit, Failure};

/// Where the ladder continues.
pub(super) struct Next {
    pub(super) load: Load,
    pub(super) point: PointStudy,
    pub(super) name: String,
}

/// Runs the pairs that a rule asks for. Returns their outcome, and where the ladder continues if
/// the change lifts the limit. Single runs come first: they choose among candidates, and a claim
/// that they contradict clearly is dropped without pairs.
pub(super) fn put_to_test(
    stages: &mut Stages<'_>,
    number: usize,
    (load, point): (&Load, &PointStudy),
    (rule, mut suspicion): (&Rule, Finding),
    experiments: Vec<Experiment>,
) -> Result<(Finding, Option<Next>), Ended> {
    let stage = format!("limit-{number}-{}", rule.name);
    if let Some(shortage) = stages.shortage(experiments.len() + 1, needed(load, rule, &experiments))
    {
        let names = experiments.iter().map(|experiment| experiment.name.as_str());
        return Ok((not_begun(suspicion, names, load, shortage), None));
    }
    let mut tested = Vec::new();
    for (at, experiment) in experiments.into_iter().enumerate() {
        let scouted =
            scout(stages, &format!("{stage}-scout-{}", at + 1), (load, point), &experiment);
        match scouted {
            Ok(Scouted::Chosen(change)) => tested.push((experiment, change)),
            // One experiment that cannot be run leaves the others.
            Err(Ended::Failed(failure)) if failure.is_confined() => {
                suspicion = not_run(suspicion, &experiment, &failure);
            }
            Err(ended) => return Err(ended),
            Ok(Scouted::Hopeless(after)) => {
                let (metric, before) = (experiment.judged(point), experiment.figure(point));
                suspicion = set_aside(suspicion, &experiment, metric, before, &after);
                // A refuted claim needs no pairs, and other experiments cannot revive it.
                if experiment.failing == Failing::Refutes {
                    return Ok((suspicion, None));
                }
            }
        }
    }
    if tested.is_empty() {
        return Ok((suspicion, None));
    }
    let pairs = load.pairs(&stage, rule.name, &tested, attempts(load.n_pairs())[0]);
    if let Some(shortage) = stages.shortage(1, cost(&pairs)) {
        let names = tested.iter().map(|(experiment, _)| experiment.name.as_str());
        return Ok((not_begun(suspicion, names, load, shortage), None));
    }
    let (mut outcome, study) = loop {
        match look_twice(stages, &stage, load, rule.name, &tested) {
            Ok(both) => break both,
            // Repeated without the experiments that need a setting which the host refuses.
            // Consent is known only when the host is asked.
            Err(Ended::Failed(failure)) if tested.iter().any(asks_hosts) => {
                let error = failure.message().to_owned();
                let asking = tested.extract_if(.., |one| asks_hosts(one));
                suspicion.experiments.extend(asking.map(|(experiment, _)| Outcome::NotRun {
                    arm: experiment.name,
                    error: error.clone(),
                }));
                if tested.is_empty() {
                    return Ok((suspicion, None));
                }
            }
            // The pairs share one plan, so the failure may be of any of them.
            Err(Ended::Failed(failure)) if failure.is_confined() => {
                let untested =
                    tested.iter().fold(suspicion, |found, (one, _)| not_run(found, one, &failure));
                return Ok((untested, None));
            }
            Err(ended) => return Err(ended),
        }
    };
    if works_without_evidence(&outcome) {
        outcome = still_suspected(outcome, &suspicion);
    }
    // Experiments without pairs are listed too, before those with pairs.
    outcome.experiments.splice(..0, suspicion.experiments);
    // Only a change that lifts the limit leads to a next one.
    let lifting = tested.iter().find(|(experiment, _)| experiment.lifts);
    let reached = lifting.and_then(|(experiment, change)| {
        let name = experiment.name.as_str();
        let is_changed = |point: &PointStudy| {
            point.sweep == name && point.parameters.get(ARM_AXIS).is_some_and(|arm| *arm == name)
        };
        let reached = study.points.into_iter().find(is_changed)?;
        // Another experiment may have proven the claim while this one had no effect: then the
        // ladder does not continue from it.
        let leads =
            !experiment.is_hopeless(&[experiment.figure(&reached) / experiment.figure(point)]);
        leads.then(|| Next {
            load: load.changed(change),
            point: reached,
            name: experiment.name.clone(),
        })
    });
    Ok((outcome, reached))
}

/// Returns the claim of `suspicion` with the experiments of `outcome`.
fn still_suspected(outcome: Finding, suspicion: &Finding) -> Finding {
    let evidence = suspicion.evidence.iter().chain(&outcome.evidence).cloned().collect();
    Finding {
        verdict: Verdict::Suspected,
        claim: suspicion.claim.clone(),
        evidence,
        advice: suspicion.advice.clone(),
        ..outcome
    }
}

/// Returns the expected time of the single runs and pairs of `experiments`.
fn needed(load: &Load, rule: &Rule, experiments: &[Experiment]) -> Nanos {
    let first = |one: &Experiment| one.candidates.first().cloned().unwrap_or_default();
    let tested: Vec<_> = experiments.iter().map(|one| (one.clone(), first(one))).collect();
    let scouts = |experiment: &Experiment| {
        cost(&load.scouts("scout", &experiment.candidates, Beside::Nothing)).0
    };
    let single: u64 = experiments.iter().map(scouts).sum();
    let attempt = attempts(load.n_pairs())[0];
    Nanos(single) + cost(&load.pairs("pairs", rule.name, &tested, attempt))
}

/// Adds to a claim that experiments did not fit into the time budget. The claim keeps its status.
fn not_begun<'a>(
    finding: Finding,
    names: impl Iterator<Item = &'a str>,
    load: &Load,
    shortage: Shortage,
) -> Finding {
    let [needed, left] = [shortage.needed, shortage.left].map(Nanos::as_secs_f64);
    let seconds = load.seconds();
    let outcome = |arm: &str| Outcome::NotBegun { arm: arm.to_owned(), seconds, needed, left };
    names.map(outcome).fold(finding, Finding::experimented)
}

/// Adds to a claim that `experiment` could not be run. The claim keeps its status.
fn not_run(finding: Finding, experiment: &Experiment, failure: &Failure) -> Finding {
    let (arm, error) = (experiment.name.clone(), failure.message());
    finding.experimented(Outcome::NotRun { arm, error })
}

/// Returns whether an experiment changes a setting of a host.
fn asks_hosts((experiment, _): &(Experiment, Change)) -> bool {
    !experiment.settings.is_empty()
}

/// Returns the outcome of the pairs, or of longer ones where noise leaves it open and the time
/// budget has room for them.
fn look_twice(
    stages: &mut Stages<'_>,
    stage: &str,
    load: &Load,
    rule: &str,
    tested: &[(Experiment, Change)],
) -> Result<(Finding, Study), Ended> {
    let attempts = attempts(load.n_pairs());
    let (first, study) =
        look(stages, (stage, rule), &load.pairs(stage, rule, tested, attempts[0]))?;
    let (Some(again), Some(times)) =
        // Longer runs are made only where noise left the claim open and where they can help.
        (attempts.get(1), longer::times(&study.findings, &study.comparisons, rule))
    else {
        return Ok((first, study));
    };
    let long = load.longer(times);
    let stage = format!("{stage}-longer");
    let pairs = long.pairs(&stage, rule, tested, *again);
    if let Some(shortage) = stages.shortage(1, cost(&pairs)) {
        let names = tested.iter().map(|(experiment, _)| experiment.name.as_str());
        return Ok((not_begun(first, names, &long, shortage), study));
    }
    let (second, study) = look(stages, (&stage, rule), &pairs)?;
    Ok((longer::told(&first, second, [load, &long].map(Load::seconds)), study))
}

/// Runs the pairs `draft` as `stage`, and returns their outcome for the claim of `rule`.
fn look(
    stages: &mut Stages<'_>,
    (stage, rule): (&str, &str),
    draft: &Draft,
) -> Result<(Finding, Study), Ended> {
    let study = stages.pairs(stage, draft)?;
    let outcome = study.findings.iter().find(|finding| finding.rule == rule).cloned();
    let outcome = outcome.ok_or_else(|| {
        let message = format!("diagnose: the pairs of {stage} gave no outcome: see their report");
        Failure::new(Exit::Invalid, message)
    })?;
    Ok((outcome, study))
}
