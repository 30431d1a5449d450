//! A simulated disk: each transfer takes the same time until the disk is full.

use linerate_model::{
    Counter, Distribution, FlowReport, Interval, JobRecord, JobSpec, Role, Side, TrialSpec,
};
use serde_json::Value;

use super::{SimulatedLoad, intervals, noise_of};

/// Payload of a transfer, bytes.
const BLOCK: u64 = 4096;
/// Default queue depth of the workload.
const DEPTH: f64 = 32.0;
/// CPU time of a transfer, ns.
const CPU_NS: f64 = 1_000.0;

/// A disk.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk {
    /// Time of a transfer while the disk is not full, s.
    pub(crate) latency: f64,
    /// Most transfers a second.
    pub(crate) most: f64,
    /// True if the rate follows the queue depth. Otherwise it is half of `most`.
    pub(crate) follows: bool,
    /// Share of the slots that are in use.
    pub(crate) used: f64,
    /// Most deviation of a run, as a ratio.
    pub(crate) noise: f64,
    /// Factor of the rate of placebo runs.
    pub(crate) placebo: f64,
    /// Orders the noise.
    pub(crate) seed: u64,
}

impl Default for SimulatedDisk {
    /// A disk of 100 µs and 150,000 transfers a second.
    fn default() -> Self {
        Self {
            latency: 1e-4,
            most: 150_000.0,
            follows: true,
            used: 1.0,
            noise: 0.002,
            placebo: 1.0,
            seed: 0,
        }
    }
}

impl SimulatedLoad for SimulatedDisk {
    fn carry(&self, trial: &TrialSpec, job: &JobSpec, side: Side) -> JobRecord {
        // A load on a disk has one end.
        if job.workload != "storage" || side == Side::Passive {
            return JobRecord::default();
        }
        let depth = job.params.get("depth").and_then(Value::as_f64).unwrap_or(DEPTH);
        // Little's law: each slot ends one transfer per latency.
        let free = if self.follows { depth / self.latency } else { self.most / 2.0 };
        let is_placebo = trial.arm.as_ref().is_some_and(|arm| arm.role == Role::Placebo);
        let factor = if is_placebo { self.placebo } else { 1.0 };
        let rate = free.min(self.most) * factor * noise_of(trial, self.noise, self.seed);
        let service_ns = (self.used * depth / rate * 1e9) as u64;
        let counted = |(start, end)| {
            let mut counted = Interval { start, end, ..Interval::default() };
            let transfers = (rate * end.since(start).as_secs_f64()) as u64;
            counted.counters[Counter::Steps] = transfers;
            counted.counters[Counter::Reads] = transfers;
            counted.counters[Counter::BytesRead] = transfers * BLOCK;
            counted.counters[Counter::OutstandingTime] = transfers * service_ns;
            counted.counters[Counter::CpuUser] = (transfers as f64 * CPU_NS) as u64;
            counted.service =
                Distribution { buckets: vec![(service_ns, transfers)], ..Distribution::NOTHING };
            counted
        };
        JobRecord {
            intervals: intervals(trial).into_iter().map(counted).collect(),
            flows: vec![FlowReport::default()],
        }
    }
}
