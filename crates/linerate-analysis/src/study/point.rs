//! One point: its trials judged, their figures gathered into estimates.
//!
//! The unit of replication is the trial: an estimate is the median of the trials' figures. Trials
//! without figures are left out and counted in `why`. The validity of a point follows from its
//! trials. It is *suspect* if a trial is, if more than [`MOST_LEFT_OUT`] of the trials run are
//! invalid, if a trial was impossible (the rest is then biased low), or if the headline figure
//! drifts over the order of the runs. It is *impossible* or *invalid* if no trial carries a figure.

mod jobs;

use std::collections::BTreeMap;

use linerate_model::{Campaign, Direction, METRICS, Metric, TrialRecord, Validity, metric};

use self::jobs::{all_study, job_study};
use super::ceilings::{self, Bound, Scope};
use super::figures::Figures;
use super::gate::{Admitted, Doubt, Gate, Refusal};
use super::judge::{self, Standing};
use super::loss::{self, LossStudy};
use super::reason::{self, Reason};
use super::samples::Hosts;
use super::settling::{self, Classes, Rates, Readings};
use super::span::Span;
use super::stalls::{self, Stall};
use super::traffic::{self, Distributions, Job, Run};
use super::{
    JobStudy, PointStudy, PortStudy, TrialStudy, bursts, clocks, drift, evidence, host, looks,
    members, observer_ports, own_cost, received, series, times, transfers, warmup,
};

/// Share of invalid trials beyond which the rest is suspect (docs/methodology/diagnosis.md#rules,
/// D0).
const MOST_LEFT_OUT: f64 = 0.2;
/// Name of the steadiness of a row, beside the obtained settings.
const STEADY_STATE: &str = "steady_state";
/// CPU cost of a load.
const CPU_COST: &Metric = metric::CPU_SECONDS_PER_GIGABYTE;
/// Name of the steadiness from run to run.
const STEADY_ROUNDS: &str = "steady_rounds";

/// A trial on its way to a study.
struct Judged<'a> {
    trial: &'a TrialRecord,
    jobs: Vec<Job<'a>>,
    measured: Span,
    standing: Standing,
    /// Fraction of the measurement that was lost to others at each end.
    taken: [Option<f64>; 2],
    /// Fraction of the measurement for which the busiest worker of each end ran or waited for a
    /// CPU.
    occupied: Option<[f64; 2]>,
    /// Periods in which workers of the tester, or the machine, did not run.
    stalls: Vec<Stall>,
    /// Why it has no CPU cost of the load.
    cost_withheld: Option<Refusal>,
    /// Figures as counted, per job of the plan, and of all measured jobs together, where there are
    /// several.
    counted: (Vec<Figures>, Figures),
    /// The figures that passed the gate.
    figures: Vec<Admitted>,
    all: Admitted,
    /// Per job of the plan.
    losses: Vec<Vec<LossStudy>>,
    /// Counts of independent observers.
    observed: Vec<PortStudy>,
    /// Classes of the rates, per job of the plan, and of all measured jobs together, where there
    /// are several.
    classes: Vec<Classes>,
    all_classes: Classes,
}

/// Returns the study of the point that `trials` repeat.
pub(super) fn study(campaign: &Campaign, hosts: &Hosts<'_>, trials: &[&TrialRecord]) -> PointStudy {
    let mut judged: Vec<Judged<'_>> =
        trials.iter().map(|trial| judge(campaign, hosts, trial)).collect();
    let usable: Vec<(Vec<Job<'_>>, Span)> = judged
        .iter()
        .filter(|one| one.standing.carries_figures())
        .map(|one| (jobs_of(one.trial), one.measured))
        .collect();
    let bounds = ceilings::bounds(campaign, hosts, &usable);
    for one in &mut judged {
        pass_gate(campaign, one, &bounds);
        settle(one);
    }
    let spec = &trials[0].spec;
    let mut jobs: Vec<JobStudy> =
        (0..spec.jobs.len()).map(|number| job_study(&judged, number, &bounds)).collect();
    if several(&judged[0].jobs) {
        jobs.push(all_study(&judged, &bounds));
    }
    let standing = standing(&judged, &jobs);
    let mut study = PointStudy {
        sweep: spec.sweep.clone(),
        parameters: spec.point.clone(),
        jobs,
        ceilings: bounds.iter().map(|bound| bound.ceiling.clone()).collect(),
        unbounded: ceilings::unbounded(campaign, hosts, &usable),
        validity: standing.validity,
        why: standing.why,
        trials: judged.iter().map(|one| trial_study(campaign, one, &bounds)).collect(),
        observed: observed_by(&judged),
        bursts: bursts::study(carrying(&judged).map(|one| one.jobs.as_slice())),
        looks: None,
        path: Vec::new(),
        received: received::by_cpu(campaign, trials),
    };
    study.looks = looks::looks(&study, trials);
    study
}

/// Returns the trials that carry figures.
fn carrying<'a, 'b>(judged: &'b [Judged<'a>]) -> impl Iterator<Item = &'b Judged<'a>> {
    judged.iter().filter(|one| one.standing.carries_figures())
}

/// Returns the observers' counts, added over the trials that carry figures.
fn observed_by(judged: &[Judged<'_>]) -> Vec<PortStudy> {
    let mut sums: Vec<PortStudy> = Vec::new();
    for one in
        judged.iter().filter(|one| one.standing.carries_figures()).flat_map(|one| &one.observed)
    {
        let key = |study: &PortStudy| (study.observer.clone(), study.port.clone(), study.direction);
        match sums.iter_mut().find(|known| key(known) == key(one)) {
            Some(known) => known.add(one),
            None => sums.push(one.clone()),
        }
    }
    sums
}

pub(super) fn jobs_of(trial: &TrialRecord) -> Vec<Job<'_>> {
    let ends = trial.spec.jobs.iter().zip(&trial.jobs).enumerate();
    ends.map(|(number, (spec, (active, passive)))| Job {
        spec,
        active,
        passive,
        clocks: clocks::corrections(trial, number),
        stalls: stalls::of(spec, active, passive),
    })
    .collect()
}

/// Returns whether several measured jobs run side by side.
fn several(jobs: &[Job<'_>]) -> bool {
    jobs.iter().filter(|job| job.spec.background.is_none()).count() > 1
}

fn judge<'a>(campaign: &Campaign, hosts: &Hosts<'_>, trial: &'a TrialRecord) -> Judged<'a> {
    let jobs = jobs_of(trial);
    let measured = warmup::measured(trial);
    let run = Run { trial, jobs: &jobs, hosts, span: measured };
    let mut standing = judge::carried_out(trial);
    let mut judged_figures = vec![Figures::default(); jobs.len()];
    let mut all = Figures::default();
    let mut losses = vec![Vec::new(); jobs.len()];
    let (mut taken, mut occupied) = ([None; 2], None);
    let mut cost_withheld = None;
    if standing.carries_figures() {
        losses = jobs.iter().map(|job| loss::of_job(trial, job, hosts, jobs.len() == 1)).collect();
        judge::measured(&mut standing, run, &losses);
        taken = judge::taken(run);
        occupied = judge::occupied(&jobs, measured);
    }
    let observed = observer_ports::ports(campaign, hosts, trial, &jobs);
    if standing.carries_figures() {
        observer_ports::doubt(&mut standing, &observed);
        for (number, job) in jobs.iter().enumerate() {
            let whole = job.spec.background.and_then(|_| {
                job.ends()
                    .into_iter()
                    .filter_map(super::span::extent)
                    .reduce(|a, b| Span { from: a.from.min(b.from), to: a.to.max(b.to) })
            });
            let span = whole.map_or(measured, |whole| whole.within(measured));
            judged_figures[number] =
                traffic::figures(job, span, ceilings::path(campaign, hosts, job), &losses[number]);
            transfers::figures(&mut judged_figures[number], trial, job, span);
            evidence::of_job(&mut judged_figures[number], trial, job, span);
        }
        cost_withheld = own_cost::own(run).and_then(Result::err);
        let mut of_hosts = host::figures(run);
        of_hosts.extend(members::figures(campaign, trial, &jobs, measured));
        if several(&jobs) {
            all = added(&jobs, &judged_figures, &losses);
            times::stage_figures(&mut all, &stages(&jobs, measured));
            all.extend(of_hosts);
        } else if let Some(only) = jobs.iter().position(|job| job.spec.background.is_none()) {
            judged_figures[only].extend(of_hosts);
        }
    }
    let (classes, all_classes) = classes(trial, &jobs, measured, &standing);
    let stalls = stalls::during(run);
    Judged {
        trial,
        jobs,
        measured,
        standing,
        taken,
        occupied,
        stalls,
        cost_withheld,
        counted: (judged_figures, all),
        figures: Vec::new(),
        all: Admitted::default(),
        losses,
        observed,
        classes,
        all_classes,
    }
}

/// Lowers the standing of a trial whose rates never settled. Runs after the gate, which limits the
/// levels in the reason.
fn settle(one: &mut Judged<'_>) {
    let classes = if several(&one.jobs) {
        &one.all_classes
    } else {
        one.classes.first().unwrap_or(&one.all_classes)
    };
    for doubt in settling::doubts(classes) {
        one.standing.lower(Validity::Suspect, doubt);
    }
}

/// Returns the classes of the rates of each job, and of all measured ones together.
fn classes(
    trial: &TrialRecord,
    jobs: &[Job<'_>],
    measured: Span,
    standing: &Standing,
) -> (Vec<Classes>, Classes) {
    let readings =
        Readings::over(measured, trial.spec.phases.interval).filter(|_| standing.carries_figures());
    let Some(readings) = readings else {
        return (vec![Classes::new(); jobs.len()], Classes::new());
    };
    let mut all = Rates::default();
    let mut each = Vec::new();
    for job in jobs {
        // The result is about the measured jobs only.
        if job.spec.background.is_some() {
            each.push(Classes::new());
            continue;
        }
        let rates = readings.of(job);
        all.add(&rates);
        each.push(readings.classes(rates));
    }
    (each, readings.classes(all))
}

/// Returns the times of the stages of all measured jobs' files.
fn stages(jobs: &[Job<'_>], span: super::span::Span) -> linerate_model::Stages {
    let mut all = Distributions::default();
    jobs.iter()
        .filter(|job| job.spec.background.is_none())
        .for_each(|job| all.merge(&job.distributions(span)));
    all.stages
}

/// Returns the measured jobs' figures added up.
fn added(jobs: &[Job<'_>], figures: &[Figures], losses: &[Vec<LossStudy>]) -> Figures {
    let measured = || {
        jobs.iter().zip(figures).filter(|(job, _)| job.spec.background.is_none()).map(|(_, f)| f)
    };
    let mut all = Figures::default();
    for metric in METRICS.iter().copied().filter(|metric| metric.is_additive) {
        let values = |direction| measured().filter_map(move |f| f.get(metric, direction));
        let sum = |direction| values(direction).reduce(|a, b| a + b);
        let (tx, rx) = (sum(Direction::Tx), sum(Direction::Rx));
        if tx.is_none() && rx.is_none() {
            all.put_some(metric, Direction::Sum, sum(Direction::Sum));
        } else {
            all.put_both(metric, tx, rx);
        }
    }
    let mut sent = BTreeMap::new();
    for (job, losses) in jobs.iter().zip(losses) {
        for loss in losses.iter().filter(|_| job.spec.background.is_none()) {
            let (sent, lost) = sent.entry(loss.direction).or_insert((0, 0));
            *sent += loss.ledger.sent;
            *lost += loss.ledger.lost();
        }
    }
    for (direction, (sent, lost)) in sent {
        all.put(metric::LOSS_RATIO, direction, lost as f64 / sent as f64);
    }
    all
}

fn pass_gate(campaign: &Campaign, one: &mut Judged<'_>, bounds: &[Bound]) {
    let (counted, all) = std::mem::take(&mut one.counted);
    one.figures = vec![Admitted::default(); counted.len()];
    if !one.standing.carries_figures() {
        return;
    }
    let (span, doubt) = (one.measured, Doubt::of(campaign, one.trial));
    let mut found = Vec::new();
    for (number, figures) in counted.iter().enumerate() {
        let gate =
            Gate { bounds, scope: Scope::Job(number), jobs: &[&one.jobs[number]], span, doubt };
        let (admitted, impossible) = gate.admit(figures);
        one.figures[number] = admitted;
        gate.cut(&mut one.classes[number]);
        found.extend(impossible);
    }
    let measured: Vec<&Job<'_>> =
        one.jobs.iter().filter(|job| job.spec.background.is_none()).collect();
    let gate = Gate { bounds, scope: Scope::All, jobs: &measured, span, doubt };
    let (admitted, impossible) = gate.admit(&all);
    one.all = admitted;
    gate.cut(&mut one.all_classes);
    for why in found.into_iter().chain(impossible) {
        one.standing.lower(Validity::Impossible, why);
    }
}

fn trial_study(campaign: &Campaign, one: &Judged<'_>, bounds: &[Bound]) -> TrialStudy {
    let measured: Vec<&Job<'_>> =
        one.jobs.iter().filter(|job| job.spec.background.is_none()).collect();
    let only = one.jobs.iter().position(|job| job.spec.background.is_none()).unwrap_or_default();
    let scope = if measured.len() > 1 { Scope::All } else { Scope::Job(only) };
    let gate = Gate {
        bounds,
        scope,
        jobs: &measured,
        span: one.measured,
        doubt: Doubt::of(campaign, one.trial),
    };
    let (seconds, series) = gate.series(series::of(one.trial, &one.jobs));
    TrialStudy {
        id: one.trial.spec.id,
        validity: one.standing.validity,
        why: one.standing.why.clone(),
        taken: one.taken,
        occupied: one.occupied,
        is_carried: loss::is_carried_by_a_process(one.trial),
        seconds,
        series,
        measured_from: one.measured.from.as_secs_f64(),
        stalls: one.stalls.clone(),
    }
}

/// Returns the standing of the point, from its trials'.
fn standing(judged: &[Judged<'_>], jobs: &[JobStudy]) -> Standing {
    let mut standing = Standing::default();
    let n = judged.len();
    let run = judged
        .iter()
        .filter(|one| one.trial.started.is_some() || one.trial.outcome.is_some())
        .count();
    let having = |validity| judged.iter().filter(|one| one.standing.validity == validity).count();
    let (impossible, invalid) = (having(Validity::Impossible), having(Validity::Invalid));
    let without = impossible + invalid;
    if without == n {
        let worst = if impossible > 0 { Validity::Impossible } else { Validity::Invalid };
        standing.lower(worst, Reason::NoFigure);
    } else if impossible > 0 {
        standing.lower(Validity::Suspect, Reason::LeftOutAbove { n: impossible, of: n });
    }
    let invalid_run = invalid.saturating_sub(n - run);
    if without < n && invalid_run as f64 > MOST_LEFT_OUT * run as f64 {
        standing.lower(Validity::Suspect, Reason::LeftOutInvalid { n: invalid_run, of: run });
    }
    if having(Validity::Suspect) > 0 {
        standing.validity = standing.validity.max(Validity::Suspect);
    }
    for (reason, times, alike) in
        reason::reasons(judged.iter().map(|one| one.standing.why.as_slice()))
    {
        let reason = Box::new(reason.clone());
        standing.why.push(Reason::OfTrials { n: times, of: n, alike, reason });
    }
    let trials: Vec<&TrialRecord> = judged.iter().map(|one| one.trial).collect();
    for drift in
        jobs.iter().filter(|job| !job.background).flat_map(|job| drift::doubts(&trials, job))
    {
        standing.lower(Validity::Suspect, drift);
    }
    standing
}
