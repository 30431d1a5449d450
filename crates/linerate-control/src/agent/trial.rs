//! One trial at the agent's end, on its own thread: listens, connects, runs the engines and sends
//! their counts.
//!
//! Times in these messages count from the trial's start barrier, the start of its measured jobs. A
//! background job that starts earlier has an engine whose clock starts earlier. Its counts before
//! the barrier have no place on the trial's time axis: they are missing in the intervals, but
//! included in the totals of its flows.

use std::any::Any;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use linerate_disk::Disks;
use linerate_load::engine::{Engine, EngineReport, RateLimit, Timeline};
use linerate_load::{Listener, LoadError, Patience, Setup, Worker, Workload};
use linerate_model::{Bytes, Incident, IncidentKind, Interval, Nanos, Phases, Side};
use linerate_observe::{Sampling, Scope};

use super::links::Links;
use super::{Shared, asked};
use crate::clock::monotonic;
use crate::link::Outbox;
use crate::wire::{JobOffer, Message, Prepare, PreparedJob};

/// Order of the session to the trial.
#[derive(Debug)]
pub(super) enum Command {
    /// Connect to these offers, and accept connections of the listeners.
    Connect(Vec<JobOffer>),
    /// Start at this time of this host's monotonic clock, ns.
    StartAt(u64),
    /// End at once.
    Abort,
}

/// Reason of an early end.
enum Cut {
    /// The conductor aborted the trial.
    Aborted,
    /// The trial failed.
    Failed(String),
}

/// Interval at which workers' counts are sent, as the ledger writes them.
const STREAM_PERIOD: Nanos = Nanos::from_secs(1);
/// Interval at which they are sent if they are wanted often: a viewer sees them within 250 ms.
const OFTEN: Nanos = Nanos::from_millis(100);
/// Time after the end of a period, in which workers hand over the interval that ends with it.
const STREAM_DELAY: Nanos = Nanos::from_millis(20);
/// Interval at which connections are checked while they open.
const OPENING_PERIOD: Duration = Duration::from_millis(1);
/// Interval at which engines are checked when their end is due.
const ENDING_PERIOD: Nanos = Nanos::from_millis(10);
/// Time that an engine may take beyond the end of the drain. A worker's step takes some
/// milliseconds at most.
const OVERTIME: Nanos = Nanos::from_secs(5);
/// Longest time between two orders of a conductor. A dead conductor is noticed much earlier, by
/// its missing heartbeats.
const ORDER_PATIENCE: Duration = Duration::from_secs(300);
/// Longest patience that a conductor may request.
const MAX_PATIENCE: Duration = Duration::from_secs(60);
/// Most jobs of a trial. Each has its own threads, and no plan comes near this number.
const MOST_JOBS: usize = 256;
/// Smallest delay of the barrier that is an incident, ns. Timers are late by less.
const LATE_NS: u64 = 1_000_000;

/// Carries out a trial. Sends `Done` at the end, whatever happens in it.
pub(super) fn run(
    shared: &Shared,
    (disks, seat): (&Disks, u64),
    prepare: &Prepare,
    orders: &Receiver<Command>,
    outbox: &Outbox,
) {
    // Strangers cost CPU time, so a trial reports how many came during it.
    let rejected = shared.rejected.load(Ordering::Relaxed);
    let control = shared.control();
    let ready = OnceLock::new();
    let trial = Trial { shared, disks, prepare, orders, outbox, control, ready };
    // A panic of a workload must cost one trial and not the agent.
    let (started_ns, failed) = match catch_unwind(AssertUnwindSafe(|| trial.carry_out())) {
        Ok(Ok(started)) => (started, None),
        Ok(Err(Cut::Aborted)) => (Vec::new(), None),
        Ok(Err(Cut::Failed(why))) => (Vec::new(), Some(why)),
        Err(panic) => (Vec::new(), Some(format!("run the trial: panic: {}", panic_text(&*panic)))),
    };
    let turned_away = shared.rejected.load(Ordering::Relaxed) - rejected;
    if turned_away > 0 {
        let message = format!("the control port refused {turned_away} connections");
        trial.incident(IncidentKind::Rejected, message);
    }
    for other in shared.measuring.company(seat) {
        let used = "used other CPUs, interfaces and disks of this host at the same time";
        trial.incident(IncidentKind::Neighbour, format!("{other} {used}"));
    }
    let ready_ns = trial.ready.get().map(|at| at.0);
    outbox.send(Message::Done { trial: prepare.trial, started_ns, ready_ns, failed });
}

struct Trial<'a> {
    shared: &'a Shared,
    disks: &'a Disks,
    prepare: &'a Prepare,
    orders: &'a Receiver<Command>,
    outbox: &'a Outbox,
    /// Addresses of this host that its control connections use.
    control: Vec<IpAddr>,
    /// When all workers were ready to start.
    ready: OnceLock<Nanos>,
}

/// End of a job with its engine.
struct RunningJob<'a> {
    job: &'a PreparedJob,
    engine: Engine,
    /// Time from the start of its engine to the barrier.
    lead: Nanos,
}

type Workers = Vec<Box<dyn Worker>>;

impl Trial<'_> {
    fn carry_out(&self) -> Result<Vec<u64>, Cut> {
        let workloads = self.workloads()?;
        asked::permitted(self.prepare, &self.shared.options.permits)
            .map_err(|error| Cut::Failed(format!("prepare the trial: {error}")))?;
        self.afford(&workloads)?;
        // Read before the load: an interface that goes down must be seen as a change.
        let links = Links::of(&self.prepare.jobs);
        let listeners = self.listen(&workloads)?;
        let offers = match self.order()? {
            Command::Connect(offers) => offers,
            other => return Err(out_of_turn(&other)),
        };
        let workers = self.open(&workloads, listeners, &offers)?;
        // Samplers start before the barrier: their first reading is the state without load.
        let sampling = Sampling::start(
            &self.scope(),
            Nanos::from_millis(self.prepare.sample_period_ms.max(1)),
        );
        self.say(Message::Ready { trial: self.prepare.trial })?;
        let barrier = match self.order() {
            Ok(Command::StartAt(clock_ns)) => Nanos(clock_ns),
            Ok(other) => return Err(out_of_turn(&other)),
            Err(cut) => return Err(cut),
        };
        // One limit for all jobs: the policy bounds the sum of a trial.
        let limit = self.shared.options.permits.rate().map(|rate| Arc::new(RateLimit::new(rate)));
        let mut running = self.start(workers, barrier, limit.as_ref());
        let cut = self.stream(&mut running, barrier);
        let result = self.finish(running, cut.is_err());
        if let Some(limit) = limit.filter(|limit| limit.has_waited()) {
            let message = format!(
                "this host's policy limited the result: one trial may send at most {} (`rate`)",
                limit.rate()
            );
            self.incident(IncidentKind::NotGranted, message);
        }
        for change in links.changes() {
            self.incident(IncidentKind::Environment, change);
        }
        // After the drain: one last reading, then all readings are sent.
        self.say(Message::Samples {
            trial: self.prepare.trial,
            block: Box::new(sampling.stop(barrier)),
        })?;
        cut.and(result)
    }

    fn workloads(&self) -> Result<Vec<&'static dyn Workload>, Cut> {
        let n_jobs = self.prepare.jobs.len();
        // Checked first, because each job costs threads before anything else is known.
        if n_jobs > MOST_JOBS {
            return Err(Cut::Failed(format!(
                "prepare the trial: it has {n_jobs} jobs at this end, more than {MOST_JOBS}"
            )));
        }
        self.prepare.jobs.iter().map(|job| self.workload(job)).collect()
    }

    fn workload(&self, job: &PreparedJob) -> Result<&'static dyn Workload, Cut> {
        let workload = (self.shared.options.workloads)(&job.workload).ok_or_else(|| {
            Cut::Failed(format!(
                "prepare job {}: this agent has no workload `{}`",
                job.job, job.workload
            ))
        })?;
        let problems: Vec<String> =
            workload.check(&job.params).iter().map(ToString::to_string).collect();
        match problems.is_empty() {
            true => Ok(workload),
            false => Err(Cut::Failed(format!(
                "prepare job {} ({}): {}",
                job.job,
                job.workload,
                problems.join("; ")
            ))),
        }
    }

    /// Refuses a trial that needs more memory than a conductor may use, before anything is
    /// allocated.
    fn afford(&self, workloads: &[&'static dyn Workload]) -> Result<(), Cut> {
        let jobs = self.prepare.jobs.iter().zip(workloads);
        let needed = jobs
            .filter_map(|(job, workload)| workload.memory(&job.params, job.side))
            .fold(0, u64::saturating_add);
        let limit = self
            .shared
            .options
            .memory
            .or_else(|| linerate_observe::available_memory().map(|bytes| bytes / 2));
        match limit {
            Some(limit) if needed > limit => Err(Cut::Failed(format!(
                "prepare the trial: it needs up to {} of memory at this end, and a conductor may \
                    use {} here. Use fewer workers or streams, or a smaller depth or buffer. The \
                    host's owner can permit more with `memory` in its policy.",
                Bytes(needed),
                Bytes(limit)
            ))),
            _ => Ok(()),
        }
    }

    fn setup<'b>(&'b self, job: &'b PreparedJob) -> Setup<'b> {
        Setup {
            params: &job.params,
            local: &job.local,
            seed: job.seed,
            secret: job.secret,
            patience: self.patience(),
            disks: self.disks,
            loaded: self.prepare.phases.loaded().into(),
            peer_clock: job.peer_clock,
            permits: &self.shared.options.permits,
            shared_port: self.shared.port.get(),
            control: &self.control,
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.prepare.patience_ms).min(MAX_PATIENCE)
    }

    fn scope(&self) -> Scope {
        let ends = || self.prepare.jobs.iter().map(|job| &job.local);
        let mut devices: BTreeSet<String> = ends().filter_map(|end| end.device.clone()).collect();
        devices.extend(ends().flat_map(|end| end.branches.iter().cloned()));
        // If no endpoint names an interface, all interfaces are read.
        if !devices.is_empty() {
            devices.extend(self.prepare.legs.iter().cloned());
        }
        let controllers: BTreeSet<String> =
            self.prepare.jobs.iter().filter_map(|job| job.local.ncsi.clone()).collect();
        Scope {
            devices: devices.into_iter().collect(),
            controllers: controllers.into_iter().collect(),
        }
    }

    /// Binds every passive end, and sends its addresses.
    fn listen(
        &self,
        workloads: &[&'static dyn Workload],
    ) -> Result<Vec<Option<Box<dyn Listener>>>, Cut> {
        let mut offers = Vec::new();
        let mut listeners = Vec::new();
        for (job, workload) in self.prepare.jobs.iter().zip(workloads) {
            if job.side == Side::Active {
                listeners.push(None);
                continue;
            }
            let listener =
                workload.listen(&self.setup(job)).map_err(|error| failed(job, "listen", &error))?;
            offers.push(JobOffer { job: job.job, offer: listener.offer() });
            listeners.push(Some(listener));
        }
        self.say(Message::Offers { trial: self.prepare.trial, offers })?;
        Ok(listeners)
    }

    /// Connects every active end while every passive end accepts, each on its own thread. If the
    /// conductor ends the trial meanwhile, because another host's end failed, nobody is waited for.
    fn open(
        &self,
        workloads: &[&'static dyn Workload],
        listeners: Vec<Option<Box<dyn Listener>>>,
        offers: &[JobOffer],
    ) -> Result<Vec<Workers>, Cut> {
        let is_over = AtomicBool::new(false);
        let patience = Patience::until(self.patience(), &is_over);
        // All ends at once: the two ends of a job on one host wait for each other.
        let (opened, cut): (Vec<Result<Workers, Cut>>, _) = thread::scope(|scope| {
            let ends: Vec<_> = self
                .prepare
                .jobs
                .iter()
                .zip(workloads)
                .zip(listeners)
                .map(|((job, workload), listener)| {
                    let offer =
                        offers.iter().find(|offer| offer.job == job.job).map(|offer| &offer.offer);
                    let setup = self.setup(job);
                    scope.spawn(move || match (listener, offer) {
                        (Some(listener), _) => {
                            listener.accept(patience).map_err(|error| failed(job, "accept", &error))
                        }
                        (None, Some(offer)) => workload
                            .connect(&setup, offer)
                            .map_err(|error| failed(job, "connect", &error)),
                        (None, None) => Err(Cut::Failed(format!(
                            "connect job {}: there is no offer for it",
                            job.job
                        ))),
                    })
                })
                .collect();
            let cut = self.until(|| ends.iter().all(thread::ScopedJoinHandle::is_finished));
            is_over.store(cut.is_err(), Ordering::Relaxed);
            let joined = ends.into_iter().zip(&self.prepare.jobs).map(|(end, job)| {
                end.join().unwrap_or_else(|panic| {
                    let why = format!(
                        "open job {} ({}): panic: {}",
                        job.job,
                        job.workload,
                        panic_text(&*panic)
                    );
                    Err(Cut::Failed(why))
                })
            });
            (joined.collect(), cut)
        });
        let mut workers = Vec::new();
        let mut failures = Vec::new();
        for end in opened {
            match end {
                Ok(end) => workers.push(end),
                Err(Cut::Failed(why)) => failures.push(why),
                // It only ended with the trial.
                Err(Cut::Aborted) => {}
            }
        }
        // All reasons are reported, also behind one of another host: the one at one end often
        // explains that at the other.
        if failures.is_empty() {
            cut.map(|()| workers)
        } else {
            Err(Cut::Failed(failures.join("; ")))
        }
    }

    /// Waits until `is_done`, while the conductor has nothing to order but the end of the trial.
    fn until(&self, is_done: impl Fn() -> bool) -> Result<(), Cut> {
        while !is_done() {
            match self.orders.recv_timeout(OPENING_PERIOD) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Command::Abort) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(Cut::Aborted);
                }
                Ok(other) => return Err(out_of_turn(&other)),
            }
        }
        Ok(())
    }

    fn start(
        &self,
        workers: Vec<Workers>,
        barrier: Nanos,
        limit: Option<&Arc<RateLimit>>,
    ) -> Vec<RunningJob<'_>> {
        let jobs = self.prepare.jobs.iter().zip(workers);
        let running: Vec<_> = jobs
            .map(|(job, workers)| {
                let (timeline, lead) = timeline(&self.prepare.phases, job, barrier);
                let engine =
                    Engine::start_within(workers, timeline, &job.local.cpus, job.seed, limit);
                RunningJob { job, engine, lead }
            })
            .collect();
        let earliest = running.iter().map(|job| barrier.since(job.lead)).min().unwrap_or(barrier);
        // A late start shifts the measured span, so the report must show it.
        let late = self.ready.get_or_init(monotonic).since(earliest).0;
        if late > LATE_NS {
            let message = format!(
                "the workers were ready {:.1} ms after the start barrier",
                late as f64 / 1e6
            );
            self.incident(IncidentKind::Clock, message);
        }
        running
    }

    /// Sends the counts in every period, until every engine has ended.
    fn stream(&self, running: &mut [RunningJob<'_>], barrier: Nanos) -> Result<(), Cut> {
        let end = barrier + self.prepare.phases.loaded() + self.prepare.phases.drain;
        let period = if self.prepare.counts_often { OFTEN } else { STREAM_PERIOD };
        let mut next = barrier + period + STREAM_DELAY;
        loop {
            let now = monotonic();
            if running.iter().all(|job| job.engine.finished()) {
                return Ok(());
            }
            if now > end + OVERTIME {
                return Err(Cut::Failed("end the load: a worker did not stop in time".into()));
            }
            let until = if now >= end { now + ENDING_PERIOD } else { next.min(end) };
            match self.orders.recv_timeout(until.since(now).into()) {
                Ok(Command::Abort) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(Cut::Aborted);
                }
                Ok(other) => return Err(out_of_turn(&other)),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // Messages in between are polled without waiting, so the period is kept by the clock.
            if monotonic() >= next {
                // On the grid of the periods, unless one was missed.
                next = (next + period).max(monotonic());
                for job in running.iter_mut() {
                    let intervals = job.engine.intervals();
                    self.say_intervals(job.job, job.lead, intervals)?;
                }
            }
        }
    }

    /// Ends the engines and sends the remaining counts.
    fn finish(&self, running: Vec<RunningJob<'_>>, early: bool) -> Result<Vec<u64>, Cut> {
        if early {
            // All are stopped before any is awaited, so that their ends overlap.
            running.iter().for_each(|job| job.engine.stop());
        }
        let mut started = Vec::new();
        let mut stopped = Ok(());
        for RunningJob { job, engine, lead } in running {
            if !ends(&engine) {
                // No thread can be ended from outside. It is left behind, so that the agent goes
                // on.
                std::mem::forget(engine);
                stopped = Err(Cut::Failed(format!(
                    "end job {} ({}): a worker is stuck",
                    job.job, job.workload
                )));
                continue;
            }
            let EngineReport { intervals, flows, incidents, started: first } = engine.join();
            self.say_intervals(job, lead, intervals)?;
            let (trial, side) = (self.prepare.trial, job.side);
            self.say(Message::FlowsEnded { trial, job: job.job, side, flows })?;
            for incident in incidents {
                // A background job that ends early does not spoil the measured jobs.
                if incident.kind == IncidentKind::WorkerStopped
                    && job.background.is_none()
                    && !early
                {
                    stopped = Err(Cut::Failed(format!(
                        "job {} ({}): {}",
                        job.job, job.workload, incident.message
                    )));
                }
                self.say(Message::Incident { trial: Some(trial), incident })?;
            }
            // Only measured jobs start at the barrier, so only they show its skew.
            if job.background.is_none() {
                started.extend(first.map(|at| at.0));
            }
        }
        stopped.map(|()| started)
    }

    fn say_intervals(
        &self,
        job: &PreparedJob,
        lead: Nanos,
        intervals: Vec<Interval>,
    ) -> Result<(), Cut> {
        let intervals = rebase(intervals, lead);
        if intervals.is_empty() {
            return Ok(());
        }
        self.say(Message::Intervals {
            trial: self.prepare.trial,
            job: job.job,
            side: job.side,
            intervals,
        })
    }

    fn incident(&self, kind: IncidentKind, message: String) {
        let incident = Incident { host: String::new(), kind, message };
        // Without a conductor nobody receives this.
        let _ = self.say(Message::Incident { trial: Some(self.prepare.trial), incident });
    }

    fn say(&self, message: Message) -> Result<(), Cut> {
        if self.outbox.send(message) { Ok(()) } else { Err(Cut::Aborted) }
    }

    fn order(&self) -> Result<Command, Cut> {
        match self.orders.recv_timeout(ORDER_PATIENCE) {
            Ok(Command::Abort) | Err(RecvTimeoutError::Disconnected) => Err(Cut::Aborted),
            Ok(command) => Ok(command),
            Err(RecvTimeoutError::Timeout) => {
                Err(Cut::Failed("wait for the conductor's next order: none came".into()))
            }
        }
    }
}

/// Waits until every worker of `engine` has ended, at most [`OVERTIME`]. Returns whether all have.
fn ends(engine: &Engine) -> bool {
    let until = monotonic() + OVERTIME;
    while !engine.finished() {
        if monotonic() > until {
            return false;
        }
        thread::sleep(ENDING_PERIOD.into());
    }
    true
}

/// Returns the phases of one end of a job on this host's clock, and the time from its start to the
/// barrier.
fn timeline(phases: &Phases, job: &PreparedJob, barrier: Nanos) -> (Timeline, Nanos) {
    let end = barrier + phases.loaded();
    let start_ns = job.background.map_or(0, |background| background.start_ns);
    // A background job may start before the barrier, but not before the clock's zero.
    let lead = Nanos(start_ns.min(0).unsigned_abs()).min(barrier);
    let load_from = Nanos(barrier.0.saturating_add_signed(start_ns));
    let load_until = job
        .background
        // It ends with the trial at the latest.
        .map_or(end, |own| Nanos(load_from.0.saturating_add(own.duration.0)).min(end));
    let start = barrier - lead;
    (
        Timeline {
            start,
            load_from,
            load_until,
            drain_until: end + phases.drain,
            interval: phases.interval,
        },
        lead,
    )
}

/// Converts intervals that count from `lead` before the barrier to times after the barrier. Drops
/// those before it.
fn rebase(intervals: Vec<Interval>, lead: Nanos) -> Vec<Interval> {
    intervals.into_iter().filter_map(|interval| on_axis(interval, lead)).collect()
}

/// Moves an interval to the axis that begins `lead` later; `None` if it is before that axis.
fn on_axis(mut interval: Interval, lead: Nanos) -> Option<Interval> {
    // What came before the barrier belongs to no trial's figures.
    if interval.start < lead {
        return None;
    }
    interval.start = interval.start - lead;
    interval.end = interval.end.since(lead);
    // Buckets carry times of the same axis and move with it.
    for by_interval in [&mut interval.departures, &mut interval.arrivals] {
        by_interval.buckets.retain_mut(|(start, _)| {
            let is_on_it = *start >= lead.0;
            *start = start.saturating_sub(lead.0);
            is_on_it
        });
    }
    Some(interval)
}

fn failed(job: &PreparedJob, operation: &str, error: &LoadError) -> Cut {
    if matches!(error, LoadError::Ended) {
        return Cut::Aborted;
    }
    Cut::Failed(format!("{operation} job {} ({}): {error}", job.job, job.workload))
}

fn out_of_turn(command: &Command) -> Cut {
    let name = match command {
        Command::Connect(_) => "connect",
        Command::StartAt(_) => "start",
        Command::Abort => return Cut::Aborted,
    };
    Cut::Failed(format!("follow the conductor: the order to {name} came in the wrong phase"))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use linerate_model::{Background, Params, Warmup};
    use serde_json::json;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn phases() -> Phases {
        let (measure, drain) = (Nanos::from_secs(5), Nanos::from_secs(1));
        let warmup = Warmup::Fixed(Nanos::from_secs(1));
        Phases { warmup, measure, drain, rest: Nanos(0), interval: Nanos::from_millis(500) }
    }

    fn job(background: Option<(i64, u64)>) -> PreparedJob {
        let local = json!({ "name": "a", "host": "h", "address": null, "device": null });
        PreparedJob {
            job: 0,
            side: Side::Active,
            workload: "null".into(),
            params: Params::default(),
            local: serde_json::from_value(local).expect("what is left out has a default"),
            background: background
                .map(|(start_ns, duration)| Background { start_ns, duration: Nanos(duration) }),
            seed: 0,
            secret: linerate_load::Secret([0; 16]),
            peer_clock: None,
        }
    }

    #[test]
    fn a_measured_job_loads_from_the_barrier_to_the_end_of_the_measurement() {
        let (timeline, lead) = timeline(&phases(), &job(None), Nanos::from_secs(100));
        let seconds = |at: Nanos| at.0 / SECOND;
        assert_eq!((seconds(timeline.start), seconds(timeline.load_from)), (100, 100));
        assert_eq!((seconds(timeline.load_until), seconds(timeline.drain_until)), (106, 107));
        assert_eq!(lead, Nanos(0));
    }

    #[test]
    fn a_background_job_keeps_its_own_start_and_length_and_is_cut_at_the_end_of_the_trial() {
        let of = |start_ns, duration| {
            timeline(&phases(), &job(Some((start_ns, duration))), Nanos::from_secs(100))
        };
        let (later, lead) = of(2 * SECOND as i64, SECOND);
        assert_eq!((later.start, later.load_from), (Nanos::from_secs(100), Nanos::from_secs(102)));
        assert_eq!((later.load_until, lead), (Nanos::from_secs(103), Nanos(0)));
        let (earlier, lead) = of(-3 * SECOND as i64, 600 * SECOND);
        assert_eq!(
            (earlier.start, earlier.load_from),
            (Nanos::from_secs(97), Nanos::from_secs(97))
        );
        assert_eq!((earlier.load_until, lead), (Nanos::from_secs(106), Nanos::from_secs(3)));
    }

    #[test]
    fn intervals_before_the_barrier_are_dropped_and_later_ones_count_from_it() {
        let interval =
            |start, end| Interval { start: Nanos(start), end: Nanos(end), ..Interval::default() };
        let rebased = rebase(vec![interval(0, 10), interval(25, 35), interval(30, 40)], Nanos(30));
        assert_eq!(rebased, [interval(0, 10)]);
    }
}
