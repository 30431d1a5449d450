//! Engine: pinned threads that step workers through the phases of a trial and cut their tallies
//! into intervals.
//!
//! Warm-up and measurement are one span of load, followed by the drain. The analysis decides which
//! intervals belong to which phase. Times of intervals are nanoseconds since the start barrier. The
//! engine does not see what a worker does inside a step. A step that does not return delays the end
//! of the trial.

mod interval;
mod lookout;
mod rate_limit;
mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use linerate_model::{FlowReport, Incident, IncidentKind, Interval, Nanos};

use crate::Workers;
pub(crate) use interval::bytes;
use interval::{Collector, lane};
use lookout::Lookout;
pub use rate_limit::RateLimit;
use thread::{Ending, Task};

/// Phases of one job at one end, on this host's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Start barrier, from which intervals count.
    pub start: Nanos,
    /// Start of this job's load (later than `start` for a delayed background job).
    pub load_from: Nanos,
    /// End of the load.
    pub load_until: Nanos,
    /// End of the drain.
    pub drain_until: Nanos,
    /// Length of an interval.
    pub interval: Nanos,
}

/// Running set of workers. Dropping it stops and joins them.
#[derive(Debug)]
pub struct Engine {
    stop: Arc<AtomicBool>,
    threads: Vec<Thread>,
    /// Present if a worker may wait for a disk.
    _lookout: Option<Lookout>,
    /// Failures to start a thread.
    incidents: Vec<Incident>,
}

#[derive(Debug)]
struct Thread {
    intervals: Collector,
    handle: Option<JoinHandle<Ending>>,
}

/// Results that remain when the workers have ended.
#[derive(Debug, Default)]
pub struct EngineReport {
    /// Intervals not yet taken by [`Engine::intervals`].
    pub intervals: Vec<Interval>,
    /// All flows.
    pub flows: Vec<FlowReport>,
    /// Incidents such as a worker that panicked or ended early, or refused pinning; `host` is
    /// empty.
    pub incidents: Vec<Incident>,
    /// Time at which the first worker really started, on the monotonic clock.
    pub started: Option<Nanos>,
}

impl Engine {
    /// Starts one thread per worker, pinned to `cpus` in turn (not pinned if empty). The threads
    /// wait for `timeline.start`. `seed` seeds the arrivals of open loads, differently for each
    /// worker.
    #[must_use]
    pub fn start(workers: Workers, timeline: Timeline, cpus: &[usize], seed: u64) -> Self {
        Self::start_within(workers, timeline, cpus, seed, None)
    }

    /// Does the same as [`Engine::start`]. All workers with the same `limit`, in this and other
    /// engines, together stay within it.
    #[must_use]
    pub fn start_within(
        workers: Workers,
        timeline: Timeline,
        cpus: &[usize],
        seed: u64,
        limit: Option<&Arc<RateLimit>>,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut incidents = Vec::new();
        // The thread wakes a CPU every few milliseconds, so it runs only where a worker needs it.
        let looks_out =
            workers.iter().any(|worker| worker.may_wait_for_disk()).then(Lookout::start);
        let (lookout, stopped) = match looks_out.transpose() {
            Ok(started) => started.unzip(),
            Err(cause) => {
                let message =
                    format!("start the thread that detects stops of this process: {cause}");
                incidents.push(incident(IncidentKind::Failed, message));
                // Without it a slow disk looks like a stopped process; the load itself is valid.
                (None, None)
            }
        };
        let mut engine =
            Self { stop: Arc::clone(&stop), threads: Vec::new(), _lookout: lookout, incidents };
        for (number, worker) in (0_u32..).zip(workers) {
            let stopped = stopped.clone().filter(|_| worker.may_wait_for_disk());
            let (cutter, intervals) = lane(number, timeline.start, &*worker, stopped);
            // More workers than CPUs share them evenly.
            let cpu = (!cpus.is_empty()).then(|| cpus[number as usize % cpus.len()]);
            // Different seeds: equal ones would synchronize the arrivals of all workers.
            let seed = seed.wrapping_add(u64::from(number));
            let task = Task {
                number,
                timeline,
                cpu,
                seed,
                stop: Arc::clone(&stop),
                limit: limit.cloned(),
            };
            let name = format!("lr-worker-{number}");
            match std::thread::Builder::new().name(name).spawn(move || task.run(worker, cutter)) {
                Ok(handle) => engine.threads.push(Thread { intervals, handle: Some(handle) }),
                // The other workers still run, and the incident says that one is missing.
                Err(cause) => engine.incidents.push(incident(
                    IncidentKind::Failed,
                    format!(
                        "start thread of worker {number}: {cause} (is RLIMIT_NPROC or pids.max \
                        reached?)"
                    ),
                )),
            }
        }
        engine
    }

    /// Returns the intervals that were cut since the last call; never blocks.
    pub fn intervals(&mut self) -> Vec<Interval> {
        let mut taken = Vec::new();
        for thread in &mut self.threads {
            thread.intervals.take(&mut taken);
        }
        taken
    }

    /// Returns true if every worker has ended.
    #[must_use]
    pub fn finished(&self) -> bool {
        // A thread that could not be started or was joined counts as ended.
        self.threads.iter().all(|thread| thread.handle.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Makes the workers end now, without drain.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the workers and returns the remaining results.
    #[must_use]
    pub fn join(mut self) -> EngineReport {
        let mut report = EngineReport {
            incidents: std::mem::take(&mut self.incidents),
            ..EngineReport::default()
        };
        for thread in &mut self.threads {
            let Some(handle) = thread.handle.take() else { continue };
            // A panic of a worker is caught inside its thread. This panic would be the engine's
            // own.
            let Ok(ending) = handle.join() else {
                report.incidents.push(incident(
                    IncidentKind::Failed,
                    "the engine's own thread panicked".to_owned(),
                ));
                continue;
            };
            thread.intervals.take(&mut report.intervals);
            // The last interval did not go through the ring, so it comes after those that did.
            report.intervals.extend(thread.intervals.last(ending.last));
            report.flows.extend(ending.flows);
            report.incidents.extend(ending.incidents);
            // The earliest start: a late one shows as a gap of that worker.
            report.started = [report.started, ending.started].into_iter().flatten().min();
        }
        report
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
        for handle in self.threads.iter_mut().filter_map(|thread| thread.handle.take()) {
            let _: Result<Ending, _> = handle.join();
        }
    }
}

fn incident(kind: IncidentKind, message: String) -> Incident {
    Incident { host: String::new(), kind, message }
}

#[cfg(test)]
mod tests;
