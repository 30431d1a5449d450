//! Limit by limit: what is suspected is put to the test, and where the change lifts the limit, what limits next is looked for.

use linerate_analysis::diagnosis::experiment::{Change, Experiment, set_aside};
use linerate_analysis::diagnosis::rules::Rule;
use linerate_analysis::diagnosis::{scores, suspects, unknown};
use linerate_analysis::{PointStudy, Study};
use linerate_model::{ARM_AXIS, Failing, Finding, Verdict};

use super::plans::{self, Beside, Load};
use crate::commands::stage::{Ended, Stages, disturbed};
use crate::exit::{Exit, Failure};

/// Changes that lift a limit, or part of it, one after the other: no more are made.
const MOST_RUNGS: usize = 6;
/// Hypotheses put to the test at each.
const MOST_TESTED: usize = 3;

/// A limit, or the want of one.
pub(super) struct Rung {
    /// Goodput there, bit/s.
    pub(super) goodput: f64,
    /// How well each rule's evidence is met, 0 to 1, the best first: 0.5 and more is suspected.
    pub(super) scores: Vec<(&'static str, f64)>,
    /// What was found, strongest verdict first; never empty.
    pub(super) findings: Vec<Finding>,
    /// What lifted it, and goodput then.
    pub(super) lifted: Option<(String, f64)>,
    /// What disturbed the runs that this is said of.
    pub(super) notes: Vec<String>,
}

impl Rung {
    /// Whether it is known what limits there.
    pub(super) fn is_proven(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict == Verdict::Proven)
    }
}

/// Where to go on from.
struct Next {
    load: Load,
    point: PointStudy,
    name: String,
}

/// Looks for the limits of `load`, from the one that shows on: for as many different ones as `limits` says.
pub(super) fn climb(stages: &Stages<'_>, mut load: Load, limits: usize) -> Result<Vec<Rung>, Ended> {
    let mut notes = Vec::new();
    let (campaign, study) = stages.look("baseline", load.baseline(), &mut notes)?;
    let why =
        campaign.trials.iter().flat_map(|trial| &trial.incidents).map(|incident| incident.message.as_str()).next();
    let mut point = study.points.into_iter().next().ok_or_else(|| {
        let message = format!("diagnose: the load could not be measured: {}", why.unwrap_or("no figure came of it"));
        Failure::new(Exit::Invalid, message)
    })?;
    let mut rungs = Vec::new();
    for number in 1..=MOST_RUNGS {
        let (mut rung, next) = test(stages, number, &load, &point, std::mem::take(&mut notes))?;
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
    let mut names: Vec<&str> =
        rungs.iter().filter_map(|rung| rung.findings.first()).map(|leading| leading.rule.as_str()).collect();
    names.dedup();
    names.len()
}

/// Puts to the test what may limit `point`, the leading hypothesis first, until one is proven. What disturbed its runs is added to `notes`.
fn test(
    stages: &Stages<'_>,
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
            put_to_test(stages, number, (load, point), (rule, suspicion), experiments, &mut notes)?;
        let proven = outcome.verdict == Verdict::Proven;
        findings.push(outcome);
        if proven {
            next = reached;
            break;
        }
    }
    // Rules come in the order in which they are asked: of equal verdicts the first is the leading one.
    findings.sort_by_key(|finding| finding.verdict);
    if findings.first().is_none_or(|leading| leading.verdict == Verdict::Inconclusive) {
        findings.insert(0, unknown(point));
    }
    Ok((Rung { goodput: goodput(point), scores: scores(point), findings, lifted: None, notes }, next))
}

/// The pairs that a rule asks for: their outcome, and where the change leads if it lifts the limit. Single runs come first: they choose among
/// candidates, and where they leave the claim no hope it is set aside without pairs.
fn put_to_test(
    stages: &Stages<'_>,
    number: usize,
    (load, point): (&Load, &PointStudy),
    (rule, mut suspicion): (&dyn Rule, Finding),
    experiments: Vec<Experiment>,
    notes: &mut Vec<String>,
) -> Result<(Finding, Option<Next>), Ended> {
    let stage = format!("limit-{number}-{}", rule.name());
    let mut tested = Vec::new();
    for (at, experiment) in experiments.into_iter().enumerate() {
        match scout(stages, &format!("{stage}-scout-{}", at + 1), (load, point), &experiment, notes)? {
            Scouted::Chosen(change) => tested.push((experiment, change)),
            Scouted::Hopeless(after) => {
                suspicion = set_aside(suspicion, &experiment, goodput(point), &after);
                if experiment.failing == Failing::Refutes {
                    return Ok((suspicion, None));
                }
            }
        }
    }
    if tested.is_empty() {
        return Ok((suspicion, None));
    }
    let mut study = loop {
        match stages.observe(&stage, load.pairs(&stage, rule.name(), &tested)) {
            Ok((_, study)) => break study,
            // Without those that ask something of a host that does not let us.
            Err(Ended::Failed(failure)) if tested.iter().any(asks_hosts) => {
                let refused = format!("not run, its host did not let us: {}", failure.message());
                let asking = tested.extract_if(.., |one| asks_hosts(one)).map(|(experiment, _)| experiment.name);
                suspicion = asking.fold(suspicion, |told, name| told.experimented(format!("{name}: {refused}")));
                if tested.is_empty() {
                    return Ok((suspicion, None));
                }
            }
            Err(ended) => return Err(ended),
        }
    };
    notes.extend(disturbed(&stage, &study));
    let at = study.findings.iter().position(|finding| finding.rule == rule.name());
    let mut outcome = at.map(|at| study.findings.swap_remove(at)).ok_or_else(|| {
        Failure::new(Exit::Invalid, format!("diagnose: the pairs of {stage} gave no outcome: see their report"))
    })?;
    // What was not run in pairs is told too, before what was.
    let paired = outcome.counterfactual.take();
    outcome.counterfactual = suspicion.counterfactual;
    let outcome = paired.into_iter().fold(outcome, Finding::experimented);
    let lifting = tested.iter().find(|(experiment, _)| experiment.lifts);
    let reached = lifting.and_then(|(experiment, change)| {
        let is_changed = |point: &PointStudy| {
            point.sweep == experiment.name
                && point.parameters.get(ARM_AXIS).is_some_and(|arm| *arm == experiment.name.as_str())
        };
        let reached = study.points.into_iter().find(is_changed)?;
        // Another experiment may have proven the claim, while this one made no difference and leads nowhere.
        let leads = !experiment.is_hopeless(&[goodput(&reached) / goodput(point)]);
        leads.then(|| Next { load: load.changed(change), point: reached, name: experiment.name.clone() })
    });
    Ok((outcome, reached))
}

/// Whether it sets something at a host.
fn asks_hosts((experiment, _): &(Experiment, Change)) -> bool {
    !experiment.settings.is_empty()
}

/// What single runs of candidates came to.
enum Scouted {
    /// The candidate that yields most of those that end what they should: pairs of fresh runs judge it.
    Chosen(Change),
    /// None makes the difference that is predicted: goodput of the best, in both looks.
    Hopeless(Vec<f64>),
}

/// One run of each candidate against the goodput of the load's point, and where that leaves no hope one more of the best beside one of the load as it
/// is: an accident must not drop a claim.
fn scout(
    stages: &Stages<'_>,
    stage: &str,
    (load, load_point): (&Load, &PointStudy),
    experiment: &Experiment,
    notes: &mut Vec<String>,
) -> Result<Scouted, Ended> {
    let before = goodput(load_point);
    let first = experiment.candidates.first().cloned().unwrap_or_default();
    // What hosts are asked to set belongs to pairs, which put it back.
    if !experiment.settings.is_empty() {
        return Ok(Scouted::Chosen(first));
    }
    let (_, study) = stages.look(stage, load.scouts(stage, &experiment.candidates, Beside::Nothing), notes)?;
    let at = |study: &Study, sweep: &str| study.points.iter().find(|point| point.sweep == sweep).map_or(0.0, goodput);
    let goes_on = |study: &Study, sweep: &str| {
        let point = study.points.iter().find(|point| point.sweep == sweep);
        let of = |point| Some(highest(point, experiment.ends?));
        let (before, after) = (of(load_point), point.and_then(of));
        before.zip(after).is_some_and(|(before, after)| Experiment::goes_on(before, after))
    };
    let yields = |number: usize| at(&study, &plans::scout(number));
    // One that yields more and leaves what it was to end is no cure: it is not preferred to one that ends it and yields less.
    let cures =
        |number: usize| !goes_on(&study, &plans::scout(number)) && !experiment.is_hopeless(&[yields(number) / before]);
    let nearest = |&a: &usize, &b: &usize| {
        cures(a).cmp(&cures(b)).then_with(|| experiment.rank(yields(a) / before, yields(b) / before))
    };
    let Some(best) = (0..experiment.candidates.len()).max_by(nearest) else { return Ok(Scouted::Chosen(first)) };
    let change = experiment.candidates.get(best).cloned().unwrap_or(first);
    let seen = yields(best);
    let survived = goes_on(&study, &plans::scout(best));
    if !survived && !experiment.is_hopeless(&[seen / before]) {
        return Ok(Scouted::Chosen(change));
    }
    let again = format!("{stage}-again");
    let text = load.scouts(&again, std::slice::from_ref(&change), Beside::Base);
    let (_, study) = stages.look(&again, text, notes)?;
    let (base, once_more) = (at(&study, plans::BASE), at(&study, &plans::scout(0)));
    let survived = survived && goes_on(&study, &plans::scout(0));
    if base > 0.0 && (survived || experiment.is_hopeless(&[seen / before, once_more / base])) {
        return Ok(Scouted::Hopeless(vec![seen, once_more]));
    }
    Ok(Scouted::Chosen(change))
}

/// Goodput of the measured jobs in the direction that carries most, bit/s; zero if none is known.
fn goodput(point: &PointStudy) -> f64 {
    highest(point, "goodput")
}

/// The highest of the figures called `name` of the measured jobs; zero if there is none.
fn highest(point: &PointStudy, name: &str) -> f64 {
    let jobs = point.jobs.iter().filter(|job| !job.background);
    let metrics = jobs.flat_map(|job| &job.metrics).filter(|metric| metric.name == name);
    metrics.filter_map(|metric| metric.estimate).map(|estimate| estimate.value).fold(0.0, f64::max)
}
