//! The standing of one trial, before the ceiling gate (docs/methodology/repeats.md#validity).
//!
//! *Invalid*: not run, not completed, failed, an agent or worker lost, the tester was the limit,
//! the receiving end recorded less than [`LEAST_COVERED`] of the measurement, or the loss ledger
//! does not balance. *Suspect*: steal above [`MOST_STEAL`] by more than its reading is coarse, a
//! worker that waited for a CPU that other programs used for more than [`MOST_WAITED`], a worker
//! that did not run when it should have or a machine that stood still (`stalls`), a host that
//! swapped or whose working CPUs changed their frequency, drops at the per-CPU backlog, a clock
//! incident, a disturbed environment, a CPU not granted, no steady state, an open load of which
//! more than [`MOST_UNPACED`] was not started, or whose requests were started late as often.
//! Dropped hostile bytes do not count against a trial. A buffer of another size than requested does
//! not either; it is shown as a fact.

use linerate_model::{
    Counter, IncidentKind, JobRecord, Nanos, Purpose, TrialOutcome, TrialRecord, Validity,
};

use super::loss::LossStudy;
use super::operations::Operations;
use super::reason::Reason;
use super::samples::Samples;
use super::span::{Span, counted, coverage, total};
use super::traffic::{Job, Run};

/// The least share of the measurement for which the receiving end must have intervals.
const LEAST_COVERED: f64 = 0.9;
/// Steal of the CPUs' time beyond which a trial is suspect.
pub const MOST_STEAL: f64 = 0.005;
/// Share of the measurement that a worker may wait for other programs, besides its wake-ups, before
/// the trial is suspect. A worker that is always busy does that much less; it is as much as may be
/// missing of an open load.
pub const MOST_WAITED: f64 = MOST_UNPACED;
/// Time that a context switch may need, ns: on a quiet machine 2 to 6 us, 12 us where the kernel's
/// softirq thread alternates with the worker. A program that competes for the CPU uses it for at
/// least hundreds of microseconds (`sched_base_slice`, 0.7 ms and more).
const SWITCH: f64 = 12_000.0;
/// Nanoseconds in a second.
const NANOS: f64 = 1e9;
/// Share of an open load's operations that may be missing or late. Batches of datagrams are late by
/// design, so the limit applies to requests only.
const MOST_UNPACED: f64 = 0.01;
/// Operations that may be missing or late besides: one in flight at each edge of the span.
const AT_EDGES: f64 = 2.0;

/// A standing and the reasons for it; the worst reason decides.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    pub(super) validity: Validity,
    pub(super) why: Vec<Reason>,
}

impl Standing {
    /// Lowers it to `validity` because of `why`.
    pub(super) fn lower(&mut self, validity: Validity, why: Reason) {
        self.validity = self.validity.max(validity);
        // Every trial of a point repeats the same reason.
        if !self.why.contains(&why) {
            self.why.push(why);
        }
    }

    /// Returns whether the trial carries figures.
    pub(super) fn carries_figures(&self) -> bool {
        self.validity <= Validity::Suspect
    }
}

/// Returns the standing of `trial` by how it was carried out.
pub(super) fn carried_out(trial: &TrialRecord) -> Standing {
    let mut standing = Standing::default();
    match (trial.outcome, trial.started) {
        (Some(TrialOutcome::Completed), _) => {}
        (Some(TrialOutcome::Failed), _) => standing.lower(Validity::Invalid, Reason::Failed),
        (Some(TrialOutcome::Interrupted), _) => {
            standing.lower(Validity::Invalid, Reason::Interrupted)
        }
        (None, Some(_)) => standing.lower(Validity::Invalid, Reason::CampaignEnded),
        (None, None) => standing.lower(Validity::Invalid, Reason::NotRun),
    }
    for incident in &trial.incidents {
        // The incident's own weight counts, not its number.
        if let Some(validity) = weight(incident.kind) {
            standing.lower(validity, Reason::Incident(incident.clone()));
        }
    }
    standing
}

/// Lowers `standing` for everything recorded during the measurement.
pub(super) fn measured(standing: &mut Standing, run: Run<'_>, losses: &[Vec<LossStudy>]) {
    let Run { trial, jobs, span, .. } = run;
    for job in jobs.iter().filter(|job| job.spec.background.is_none()) {
        let flows = job.flows();
        // Loads on disks carry no data between ends, so either end can vouch for the measurement.
        let least = if flows.is_empty() {
            job.ends().into_iter().filter_map(|end| coverage(end, span)).max_by(f64::total_cmp)
        } else {
            let receiving = flows.iter().map(|flow| coverage(flow.receiver, span).unwrap_or(0.0));
            // The receiver with the least coverage makes the sum of all too low.
            receiving.min_by(f64::total_cmp)
        };
        let name = || job.spec.workload.clone();
        match least {
            None => standing.lower(Validity::Invalid, Reason::NothingRecorded { job: name() }),
            // Frames of a burst wait for their receiver: they are counted later, not less.
            Some(share) if share < LEAST_COVERED && !is_burst(trial) => {
                standing.lower(Validity::Invalid, Reason::Covered { job: name(), share });
            }
            Some(_) => {}
        }
        // A job that moved nothing at all did not run, whatever its records cover.
        if job.ends().into_iter().all(|end| DONE.iter().all(|counter| total(end, *counter) == 0)) {
            standing.lower(Validity::Invalid, Reason::NothingDone { job: name() });
        }
        for (host, worker, share) in waited(run, job).filter(|(.., share)| *share > MOST_WAITED) {
            let host = host.to_owned();
            standing.lower(Validity::Suspect, Reason::Waited { job: name(), host, worker, share });
        }
        for doubt in super::transfers::doubts(trial, job, span) {
            standing.lower(Validity::Suspect, doubt);
        }
        for doubt in [unbalanced(job, span), without_port(job, span)].into_iter().flatten() {
            standing.lower(Validity::Suspect, doubt);
        }
        for doubt in unpaced(job, span) {
            standing.lower(Validity::Suspect, doubt);
        }
    }
    for doubt in super::stalls::doubts(&super::stalls::during(run)) {
        standing.lower(Validity::Suspect, doubt);
    }
    for imbalance in losses.iter().flatten().flat_map(|loss| &loss.imbalance) {
        standing
            .lower(Validity::Invalid, Reason::LossesUnbalanced { imbalance: imbalance.clone() });
    }
    if let Some(share) = super::host::steal_share(run).filter(|steal| *steal > MOST_STEAL) {
        standing.lower(Validity::Suspect, Reason::Stolen { share });
    }
    for doubt in super::unrest::doubts(&trial.samples, span) {
        standing.lower(Validity::Suspect, doubt);
    }
    let mut told: Vec<&str> = trial.samples.iter().map(|(host, _)| host.as_str()).collect();
    told.sort_unstable();
    // Both ends of a trial may report the same host.
    told.dedup();
    for host in told {
        let is_dropped =
            |s: &linerate_model::SeriesSpec| linerate_model::series::softnet::DROPPED.is(s);
        let packets = Samples::of(trial, host)
            .change(span, is_dropped)
            .map_or(0, |dropped| dropped.round() as u64);
        if packets > 0 {
            standing
                .lower(Validity::Suspect, Reason::BacklogDrops { host: host.to_owned(), packets });
        }
    }
}

/// Returns whether the trial is a burst of a search, which lasts a few milliseconds and may be over
/// before a receiver wakes.
fn is_burst(trial: &TrialRecord) -> bool {
    let step = trial.spec.search.as_ref().and_then(|searched| searched.step);
    step.is_some_and(|step| step.purpose == Purpose::Burst)
}

/// Returns the fraction of `span` that was lost to others at the active and at the passive ends: to
/// the hypervisor on the CPU with the most steal, or to other programs at the worker that waited
/// longest, whichever is more. `None` where neither was read.
pub(super) fn taken(run: Run<'_>) -> [Option<f64>; 2] {
    [0, 1].map(|end| {
        let measured = run.jobs.iter().filter(|job| job.spec.background.is_none());
        let waits = measured.flat_map(|job| waited_at(run, with_hosts(job)[end]));
        let stolen = super::host::most_stolen(run, end);
        waits.map(|(.., share)| share).chain(stolen).max_by(f64::total_cmp)
    })
}

/// Returns the fraction of `span` for which the busiest worker of the active and of the passive
/// ends of the measured jobs ran or waited for a CPU. `None` where an end has no worker of ours, or
/// without counts.
pub(super) fn occupied(jobs: &[Job<'_>], span: Span) -> Option<[f64; 2]> {
    let measured = || jobs.iter().filter(|job| job.spec.background.is_none());
    let active = busiest(measured().map(|job| job.active), span)?;
    Some([active, busiest(measured().map(|job| job.passive), span)?])
}

/// Returns the occupied share of the busiest worker of these ends.
fn busiest<'a>(ends: impl Iterator<Item = &'a JobRecord>, span: Span) -> Option<f64> {
    let shares =
        ends.map(|end| Some(super::traffic::occupied(end, span)? / NANOS / span.seconds()));
    // One end without counts makes the busiest worker unknown.
    shares.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}

/// Returns the records of the active and of the passive end of `job`, and their hosts.
fn with_hosts<'a>(job: &'a Job<'a>) -> [(&'a JobRecord, &'a str); 2] {
    [(job.active, &job.spec.from.host), (job.passive, &job.spec.to.host)]
}

/// Returns the workers of `job`, each with its host and the fraction of `span` for which it waited
/// for a CPU that other programs used.
fn waited<'a>(run: Run<'a>, job: &'a Job<'a>) -> impl Iterator<Item = (&'a str, u32, f64)> {
    with_hosts(job).into_iter().flat_map(move |end| waited_at(run, end))
}

/// Returns the same of one end. The fraction is limited to the CPU time of other programs on that
/// kernel, if known, because no worker waits for them longer than they run. Workers that wait for
/// each other are part of the plan.
fn waited_at<'a>(
    run: Run<'_>,
    (end, host): (&JobRecord, &'a str),
) -> impl Iterator<Item = (&'a str, u32, f64)> + use<'a> {
    let (others, span) = (super::host::taken_by_others(run, host), run.span);
    super::traffic::waits(end, span).into_iter().map(move |waited| {
        // The rest are waits for workers of the load itself.
        let ns = (waited.ns - SWITCH * waited.switches).min(others.unwrap_or(f64::INFINITY));
        (host, waited.worker, (ns / NANOS / span.seconds()).max(0.0))
    })
}

/// Returns the reasons why an open load differs from the intended one.
fn unpaced(job: &Job<'_>, span: Span) -> Vec<Reason> {
    let both = |counter| job.ends().into_iter().map(|end| counted(end, counter, span)).sum::<f64>();
    let (intended, started, late) =
        (both(Counter::Intended), both(Counter::Started), both(Counter::LateStarts));
    let mut doubts = Vec::new();
    // One operation on each edge may be counted in the neighbouring span.
    if started + AT_EDGES < (1.0 - MOST_UNPACED) * intended {
        doubts.push(Reason::Offered { job: job.spec.workload.clone(), share: started / intended });
    }
    if both(Counter::Transactions) + both(Counter::Reads) + both(Counter::Writes) > 0.0
        && late > MOST_UNPACED * started + AT_EDGES
    {
        doubts.push(Reason::StartedLate {
            job: job.spec.workload.clone(),
            share: late / started.max(1.0),
        });
    }
    doubts
}

/// Returns the reason why the ledger of operations of `job` does not balance, if it does not.
fn unbalanced(job: &Job<'_>, span: Span) -> Option<Reason> {
    let Operations { due, answered, lost, open, .. } = job.operations(span)?;
    let job = job.spec.workload.clone();
    (due != answered + lost + open).then_some(Reason::OperationsUnbalanced {
        job,
        due,
        answered,
        lost,
        open,
    })
}

/// Share of connections without a free local port above which the rate is that of released ports.
const MOST_WITHOUT_PORT: f64 = 0.001;

/// Returns the reason if `job` ran out of local ports: from then on it opens connections only as
/// fast as TIME_WAIT releases ports.
fn without_port(job: &Job<'_>, span: Span) -> Option<Reason> {
    let both = |counter| job.ends().into_iter().map(|end| counted(end, counter, span)).sum::<f64>();
    // Kernel and load count an attempt once each, so the sum is the number of attempts.
    let (refused, opened) = (both(Counter::PortsExhausted), both(Counter::Connections));
    let share = refused / (refused + opened);
    let job = job.spec.workload.clone();
    (share > MOST_WITHOUT_PORT).then_some(Reason::NoLocalPort { job, refused, share })
}

/// Counters, at least one of which is set by a job that did anything.
const DONE: [Counter; 6] = [
    Counter::PayloadSent,
    Counter::PayloadReceived,
    Counter::Transactions,
    Counter::TransactionsLost,
    Counter::Connections,
    Counter::Steps,
];

fn weight(kind: IncidentKind) -> Option<Validity> {
    match kind {
        IncidentKind::Failed
        | IncidentKind::AgentLost
        | IncidentKind::WorkerStopped
        | IncidentKind::Tester => Some(Validity::Invalid),
        IncidentKind::Clock
        | IncidentKind::ClockUncertain
        | IncidentKind::Environment
        | IncidentKind::NotGranted => Some(Validity::Suspect),
        IncidentKind::Rejected | IncidentKind::Neighbour => None,
    }
}

/// Returns the uncertainty of the clocks: that of the barrier, or the worst host's.
pub(super) fn clock_uncertainty(trial: &TrialRecord, campaign: &linerate_model::Campaign) -> Nanos {
    let hosts = campaign.hosts.iter().map(|host| host.clock_uncertainty_ns).max();
    Nanos(trial.skew.map(|(_, uncertainty)| uncertainty).max(hosts).unwrap_or(0))
}
