//! A simulated disk: each transfer takes the same time until the disk is full.

use linerate_model::series::{disk, disk_limits};
use linerate_model::{
    Bytes, Counter, Distribution, FlowReport, Interval, JobRecord, JobSpec, Nanos, Role,
    SampleBlock, Side, TrialSpec,
};
use serde_json::Value;

use super::{SimulatedLoad, intervals, noise_of};

/// Payload of a transfer, bytes.
const BLOCK: u64 = 4096;
/// Name of the disk.
const DEVICE: &str = "sim0";
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
    /// Readings of the samplers beside the load; `None` of a host that has none.
    pub(crate) seen: Option<SeenDisk>,
}

/// Counters of the kernel at a simulated disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenDisk {
    /// Requests that its queue admits.
    pub(crate) queue: f64,
    /// Transfers per second that the control group permits.
    pub(crate) group: Option<f64>,
    /// Bytes per second of other programs.
    pub(crate) others: f64,
}

/// A disk whose load nothing above it holds back.
pub(crate) const FREE: SeenDisk = SeenDisk { queue: 128.0, group: None, others: 0.0 };

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
            seen: None,
        }
    }
}

impl SimulatedDisk {
    /// Returns the transfers per second of a load in `trial`, and the requests that the disk has.
    fn served(&self, trial: &TrialSpec, job: &JobSpec) -> (f64, f64) {
        let depth = job.params.get("depth").and_then(Value::as_f64).unwrap_or(DEPTH);
        let seen = self.seen.unwrap_or(FREE);
        let admitted = depth.min(seen.queue);
        // Little's law: each slot ends one transfer per latency.
        let free = if self.follows { admitted / self.latency } else { self.most / 2.0 };
        let is_placebo = trial.arm.as_ref().is_some_and(|arm| arm.role == Role::Placebo);
        let factor = if is_placebo { self.placebo } else { 1.0 };
        let group = seen.group.unwrap_or(f64::INFINITY);
        let at_disk = if free > group { group * self.latency } else { admitted };
        (free.min(self.most).min(group) * factor * noise_of(trial, self.noise, self.seed), at_disk)
    }

    fn block(job: &JobSpec) -> u64 {
        let text = job.params.get("block_size").and_then(Value::as_str);
        text.and_then(|text| text.parse::<Bytes>().ok()).map_or(BLOCK, |block| block.0)
    }
}

impl SimulatedLoad for SimulatedDisk {
    fn carry(&self, trial: &TrialSpec, job: &JobSpec, side: Side) -> JobRecord {
        // A load on a disk has one end.
        if job.workload != "storage" || side == Side::Passive {
            return JobRecord::default();
        }
        let depth = job.params.get("depth").and_then(Value::as_f64).unwrap_or(DEPTH);
        let (rate, _) = self.served(trial, job);
        let service_ns = (self.used * depth / rate * 1e9) as u64;
        let counted = |(start, end)| {
            let mut counted = Interval { start, end, ..Interval::default() };
            let transfers = (rate * end.since(start).as_secs_f64()) as u64;
            counted.counters[Counter::Steps] = transfers;
            counted.counters[Counter::Reads] = transfers;
            counted.counters[Counter::BytesRead] = transfers * Self::block(job);
            counted.counters[Counter::OutstandingTime] = transfers * service_ns;
            counted.counters[Counter::CpuUser] = (transfers as f64 * CPU_NS) as u64;
            counted.service = Distribution::of(vec![(service_ns, transfers)]).into();
            counted
        };
        let modes = [("device", DEVICE), ("cache", "direct")];
        let modes = modes.map(|(name, mode)| (name.to_owned(), mode.to_owned())).into();
        JobRecord {
            intervals: intervals(trial).into_iter().map(counted).collect(),
            flows: vec![FlowReport { modes, ..FlowReport::default() }],
        }
    }

    fn sampled(&self, trial: &TrialSpec) -> Option<SampleBlock> {
        let (seen, job) = (self.seen?, trial.jobs.first()?);
        let (rate, at_disk) = self.served(trial, job);
        let bytes = rate * Self::block(job) as f64 + seen.others;
        let busy = at_disk.min(1.0);
        let times: Vec<Nanos> = std::iter::once(Nanos(0))
            .chain(intervals(trial).into_iter().map(|(_, end)| end))
            .collect();
        let counters = [
            (disk::BYTES_READ, bytes),
            (disk::BYTES_WRITTEN, 0.0),
            (disk::BUSY, busy),
            (disk::QUEUED, at_disk),
        ];
        let counted =
            counters.map(|(column, rate)| (column, rate, times.iter().map(|at| at.as_secs_f64())));
        let mut series = Vec::new();
        let mut columns = Vec::new();
        for (column, rate, at) in counted {
            series.push(column.of(DEVICE));
            columns.push(at.map(|at| Some(rate * at)).collect());
        }
        for (column, value) in
            [(disk_limits::REQUESTS, Some(seen.queue)), (disk_limits::READS, seen.group)]
        {
            series.push(column.of(DEVICE));
            columns.push(vec![value; times.len()].into());
        }
        Some(SampleBlock { series: series.into(), times, columns, ..SampleBlock::default() })
    }
}
