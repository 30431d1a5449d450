//! The engine: pinned threads that step workers through the phases of a trial and cut their tallies into intervals.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linerate_model::{FlowReport, Incident, Interval, Nanos};

use crate::Worker;

/// The phases of one job at one end, on this host's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The start barrier; intervals are counted from here.
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

/// A running set of workers. Dropping it stops and joins them.
#[derive(Debug)]
pub struct Engine {
    stop: Arc<AtomicBool>,
}

/// What is left when the workers have ended.
#[derive(Debug, Default)]
pub struct EngineReport {
    /// Intervals not yet taken by [`Engine::intervals`].
    pub intervals: Vec<Interval>,
    /// Every flow.
    pub flows: Vec<FlowReport>,
    /// Workers that panicked or ended before their time, pinning refused, ...; `host` is empty.
    pub incidents: Vec<Incident>,
    /// When the first worker really started, on the monotonic clock.
    pub started: Option<Nanos>,
}

impl Engine {
    /// Starts one thread per worker, pinned to `cpus` in turn (not pinned if empty). They wait for `timeline.start`.
    #[must_use]
    pub fn start(workers: Vec<Box<dyn Worker>>, timeline: Timeline, cpus: &[usize], seed: u64) -> Self {
        let _ = (workers, timeline, cpus, seed);
        Self { stop: Arc::default() }
    }

    /// Intervals cut since the last call; never blocks.
    pub fn intervals(&mut self) -> Vec<Interval> {
        Vec::new()
    }

    /// Whether every worker has ended.
    #[must_use]
    pub fn finished(&self) -> bool {
        true
    }

    /// Asks the workers to end now, without drain.
    pub fn stop(&self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// Waits for the workers and takes what is left.
    #[must_use]
    pub fn join(self) -> EngineReport {
        EngineReport::default()
    }
}
